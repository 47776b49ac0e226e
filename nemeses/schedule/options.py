"""Options: a nemesis' parameters, from the command line's `-O NEMESIS.PARAMETER=value`."""

from __future__ import annotations

from typing import Any, TypeVar

from schemaquake.harness.model import options
from schemaquake.harness.model.protocols import Context

__all__ = ["configured"]

N = TypeVar("N", bound=Any)


def configured(nemesis: N, context: Context) -> N:
    """Return the same nemesis with the parameters that the run's options give it.

    `nemesis` is a dataclass with a `name` (see `schemaquake.harness.model.options`). Raises PlanError for a parameter it
    does not have, or a value that does not fit.
    """
    return options.configured(nemesis, context.options, owner=nemesis.name)
