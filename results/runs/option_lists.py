"""Option lists: what several commands write as `a,b,c` and as `-O name=value`."""

from __future__ import annotations

from collections.abc import Iterable

from schemaquake.harness.errors import PlanError

__all__ = ["named_values", "split"]


def split(text: str) -> tuple[str, ...]:
    """The parts between commas, without blanks; empty ones are left out."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def named_values(entries: Iterable[str]) -> dict[str, str]:
    """Every `name=value`, the last of a name counting. Raises PlanError for an entry without an equals sign."""
    given = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals:
            raise PlanError(f'-O wants name=value, not "{entry}"')
        given[name] = value
    return given
