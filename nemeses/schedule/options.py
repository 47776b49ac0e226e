"""Options: a nemesis' parameters, from the command line's `-O NEMESIS.PARAMETER=value`."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Context

__all__ = ["configured"]

N = TypeVar("N", bound=Any)


def configured(nemesis: N, context: Context) -> N:
    """The same nemesis with the parameters that the run's options give it.

    `nemesis` is a dataclass with a `name`. A parameter's type is that of its present value; lists are separated by
    commas. Raises PlanError for a parameter it does not have, or a value that does not fit.
    """
    prefix = f"{nemesis.name}."
    present = {field.name: getattr(nemesis, field.name) for field in dataclasses.fields(nemesis) if field.init}
    changes: dict[str, JSON] = {}
    for option, text in context.options.items():
        if not option.startswith(prefix):
            continue
        parameter = option.removeprefix(prefix).replace("-", "_")
        if parameter not in present:
            raise PlanError(
                f'-O {option}: "{nemesis.name}" has no such parameter. It has: {", ".join(sorted(present))}.'
            )
        changes[parameter] = _value(option, text, present[parameter])
    return dataclasses.replace(nemesis, **changes)


def _value(option: str, text: str, present: JSON) -> JSON:
    try:
        if isinstance(present, tuple):
            element = type(present[0])
            return tuple(element(part) for part in text.split(","))
        return type(present)(text)
    except ValueError as error:
        wanted = "a list of numbers" if isinstance(present, tuple) else "a number"
        raise PlanError(f"-O {option}={text}: not {wanted}") from error
