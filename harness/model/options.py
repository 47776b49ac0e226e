"""Options: parameters that a workload or a nemesis declares, and that `-O name=value` of the command line sets.

The options of a plugin are the fields of a frozen dataclass, each with the default that a careful user would have typed.
A nemesis is that dataclass itself, and its options are written `-O NEMESIS.OPTION=value`. A workload has an instance of it
as its attribute `options` (`Configurable`), written `-O OPTION=value`: several workloads of one run share options of one
name. A nemesis may have such an attribute, too, for options that several nemeses share. `option` adds to a field what its value may be, and what a reader should know.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.context import Context

__all__ = [
    "CheckedOptions",
    "Configurable",
    "Option",
    "configured",
    "declared",
    "names",
    "one_of",
    "option",
    "seconds",
    "text_of",
    "truth",
    "whole_number",
    "written",
]

T = TypeVar("T")
O = TypeVar("O", bound=Any)  # noqa: E741 - options, a dataclass

_KEY: Final = "schemaquake.option"


@dataclass(frozen=True, slots=True)
class Option:
    """One declared option."""

    name: str
    """The name as `-O` takes it: `first-race`."""
    field: str
    default: Any
    description: str
    """A noun phrase that says what the value is and which values there are."""
    parse: Callable[[str], Any] | None
    """The parser of a value; None: a value is read as the default's type."""
    shorthand: bool
    """True if commands have an option of this name of their own: `--first-race 3` for `-O first-race=3`."""


@runtime_checkable
class Configurable(Protocol):
    """A workload or a nemesis with options that are written without its name."""

    @property
    def options(self) -> Any:
        """The defaults: an instance of a dataclass whose fields are the options."""
        ...


@runtime_checkable
class CheckedOptions(Protocol):
    """Options that can exclude each other, or the rest of the run."""

    def check(self, context: Context) -> None:
        """Refuse a run before anything is started; `context.features` is still empty. Raises PlanError."""
        ...


def option(default: T, description: str, *, parse: Callable[[str], Any] | None = None, shorthand: bool = False) -> T:
    """Declare a field of an options dataclass.

    `parse` makes a value of a text and raises ValueError for a text that means none; by default it is the default's type.
    """
    declaration = (description, parse, shorthand)
    field: T = dataclasses.field(default=default, metadata={_KEY: declaration})
    return field


def declared(options: Any) -> tuple[Option, ...]:
    """Return the options that a dataclass, or an instance of it, declares."""
    return _declared_by(options if isinstance(options, type) else type(options))


@cache
def _declared_by(kind: type) -> tuple[Option, ...]:
    """Read the fields of a class once: generators of steps read options hundreds of times a race."""
    return tuple(_declared(field) for field in dataclasses.fields(kind) if field.init)


def configured(defaults: O, given: Mapping[str, str], *, owner: str | None = None) -> O:
    """Return `defaults` with the values that the run's options give it.

    `owner` is the name of a plugin whose options are written `OWNER.OPTION`. Without it, undeclared names are left alone:
    they may be another plugin's. Raises PlanError for an option of the owner that it has not, and for a value that
    does not fit.
    """
    prefix = "" if owner is None else f"{owner}."
    known = {each.field: each for each in declared(defaults)}
    changes: dict[str, Any] = {}
    for written_name, text in given.items():
        if not written_name.startswith(prefix):
            continue
        field = written_name.removeprefix(prefix).replace("-", "_")
        if field in known:
            changes[field] = _parsed(known[field], written_name, text, present=getattr(defaults, field))
        elif owner is not None:
            raise PlanError(f'-O {written_name}: "{owner}" has no such option. It has: {", ".join(sorted(known))}.')
    return dataclasses.replace(defaults, **changes) if changes else defaults


def written(options: Any, *, beside: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return options as `-O` takes them: those that differ from their defaults, beside the undeclared ones of `beside`."""
    known = {each.field: each for each in declared(options)}
    others = {name: text for name, text in (beside or {}).items() if name.replace("-", "_") not in known}
    values = {each.name: getattr(options, each.field) for each in known.values()}
    changed = {each.name: values[each.name] for each in known.values() if values[each.name] != each.default}
    return others | {name: text_of(value) for name, value in changed.items()}


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def whole_number(*, least: int) -> Callable[[str], int]:
    """Return a parser of whole numbers from `least` on."""

    def parse(text: str) -> int:
        if (number := int(text)) < least:
            raise ValueError(text)
        return number

    return parse


def seconds(text: str) -> float:
    """Parse a finite number that is not negative."""
    if not 0 <= (number := float(text)) < math.inf:
        raise ValueError(text)
    return number


def one_of(*words: str) -> Callable[[str], Any]:
    """Return a parser of one of these words."""

    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(text)
        return text

    return parse


def names(text: str) -> tuple[str, ...]:
    """Parse names between commas."""
    return tuple(text.split(","))


def truth(text: str) -> bool:
    """Parse `true` or `false`."""
    return {"true": True, "false": False}[one_of("true", "false")(text)]


def _declared(field: dataclasses.Field[Any]) -> Option:
    description, parse, shorthand = field.metadata.get(_KEY, ("", None, False))
    return Option(
        name=field.name.replace("_", "-"),
        field=field.name,
        default=field.default,
        description=description,
        parse=parse,
        shorthand=shorthand,
    )


def _parsed(known: Option, written_name: str, text: str, *, present: Any) -> Any:
    try:
        return (known.parse or _parser_of(present))(text)
    except ValueError as error:
        wanted = known.description or f"not {_wording_of(present)}"
        given = f"--{known.name} {text}" if known.shorthand else f"-O {written_name}={text}"
        raise PlanError(f"{given}: {wanted}") from error


def _parser_of(present: Any) -> Callable[[str], Any]:
    if isinstance(present, tuple):
        element = type(present[0])
        return lambda text: tuple(element(part) for part in text.split(","))
    return truth if isinstance(present, bool) else type(present)


def _wording_of(present: Any) -> str:
    if isinstance(present, tuple):
        return "a list of numbers"
    return "true or false" if isinstance(present, bool) else "a number"


def text_of(value: Any) -> str:
    """Return a value as `-O` takes it."""
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(map(text_of, value))
    return str(value)
