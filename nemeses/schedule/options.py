"""Options: a nemesis' parameters, from the command line's `-O NEMESIS.PARAMETER=value`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from schemaquake.harness.model import options
from schemaquake.harness.model.options import names, option
from schemaquake.harness.model.protocols import Context

__all__ = ["TargetOptions", "configured"]

N = TypeVar("N", bound=Any)


@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """Options that every nemesis with targets reads, written without a nemesis' name."""

    primaries: tuple[str, ...] = option(
        (), "the nodes that target `primaries` hits, with commas; by default the first", parse=names
    )


def configured(nemesis: N, context: Context) -> N:
    """Return the same nemesis with the parameters that the run's options give it.

    `nemesis` is a dataclass with a `name` (see `schemaquake.harness.model.options`). Raises PlanError for a parameter it
    does not have, or a value that does not fit.
    """
    return options.configured(nemesis, context.options, owner=nemesis.name)
