"""Option lists: the arguments `a,b,c` and `-O name=value` of several commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.options import Configurable, declared
from schemaquake.harness.registry import load

__all__ = [
    "declared_names",
    "first_repeated",
    "named_values",
    "refuse_below",
    "refuse_engine",
    "refuse_no_budget",
    "refuse_no_time",
    "split",
    "with_shorthands",
]


def split(text: str) -> tuple[str, ...]:
    """Split at commas and strip blanks; empty parts are left out."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def first_repeated(values: Sequence[str]) -> str | None:
    """Return the first of some values that stands among those before it, or None."""
    return next((value for place, value in enumerate(values) if value in values[:place]), None)


def named_values(entries: Iterable[str]) -> dict[str, str]:
    """Parse every `name=value`, the last of a name counting. Raises PlanError for an entry without an equals sign."""
    given = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or not name:
            raise PlanError(f'-O needs name=value, not "{entry}"')
        given[name] = value
    return given


def refuse_no_budget(minutes: float | None, name: str, *, least: float = 0.0) -> None:
    """Refuse a time budget below the least, or that is no number; None is no budget. Raises PlanError that names the option."""
    if minutes is not None and not minutes >= least:
        raise PlanError(f"{name} must be at least {least:g} minutes, not {minutes:g}")


def refuse_below(least: int, **values: int | None) -> None:
    """Refuse a number below the least; None was not given. Raises PlanError that names the option."""
    for name, value in values.items():
        if value is not None and value < least:
            raise PlanError(f"--{name.replace('_', '-')} must be at least {least}, not {value}")


def refuse_no_time(seconds: float, name: str) -> None:
    """Refuse a time limit in which nothing could be done. Raises PlanError that names the option."""
    if not seconds > 0:
        raise PlanError(f"{name} must be more than 0 seconds, not {seconds:g}")


def refuse_engine(engine: str) -> None:
    """Raise PlanError for an engine that there is not."""
    from schemaquake.results.engines.engine import ENGINES  # noqa: PLC0415 - pyarrow takes half a second to import

    if engine not in ENGINES:
        raise PlanError(f"--engine is {', '.join(ENGINES[:-1])} or {ENGINES[-1]}, not {engine}")


def declared_names(workloads: Sequence[str]) -> frozenset[str]:
    """Return the names of all options that these workloads declare. Raises PlanError for an unknown workload."""
    return frozenset(
        each.name
        for workload in (load("workloads", name) for name in workloads)
        if isinstance(workload, Configurable)
        for each in declared(workload.options)
    )


def with_shorthands(
    workloads: Sequence[str], given: Mapping[str, str], shorthands: Mapping[str, str | int | None]
) -> dict[str, str]:
    """Return the options of a run: those of `-O`, and those that a command spells as options of its own (`--races 3`).

    A shorthand of value None, or False, was not given. Raises PlanError for one that none of the workloads declares.
    """
    chosen = {name: value for name, value in shorthands.items() if value is not None and value is not False}
    known = declared_names(workloads) if chosen else frozenset()
    for name in chosen:
        if name not in known:
            raise PlanError(f"--{name} is no option of {', '.join(workloads)}: leave it out")
    return {**given, **{name: "true" if value is True else str(value) for name, value in chosen.items()}}
