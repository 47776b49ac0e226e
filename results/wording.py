"""Wording: verdicts, systems, counts and durations as text for reports."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from schemaquake.harness.counts import counted
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.verdict import Validity
from schemaquake.harness.registry import load, names

__all__ = [
    "VERDICT_MARK",
    "VIRTUAL_TIME",
    "counted",
    "days_of",
    "is_simulated",
    "joined",
    "length_of_run",
    "length_of_time",
    "nemesis_names",
    "product_of_all",
    "repeats_as",
    "short_name",
    "size_in_words",
    "system_name",
    "verdict_name",
    "verdict_word",
]

_NAMES: Final = {True: "valid", False: "invalid", "unknown": "unknown"}
VERDICT_MARK: Final[Mapping[str, str]] = {"valid": "✓", "invalid": "✕", "unknown": "?"}
"""A shape beside every colour, for readers who cannot tell the colours apart."""

VIRTUAL_TIME: Final = "in virtual time"
"""In place of a date, for what was seen on a simulated system."""

_SIMULATED: Final = "simulated"


def verdict_name(valid: Validity) -> str:
    """Return `valid`, `invalid` or `unknown`, for a CSS class or a word in a sentence."""
    return _NAMES[valid]


def verdict_word(valid: Validity) -> str:
    """Return the verdict in capitals."""
    return verdict_name(valid).upper()


def system_name(system: str) -> str:
    """Return the display name of a system: `cassandra:5.0.9` → Cassandra 5.0.9, `simulated:cassandra-5.0` → Simulated Cassandra 5.0."""
    return " ".join(_name_parts(system)).rstrip()


def is_simulated(system: str) -> bool:
    """Return True for a model, whose runs go on in virtual time and have no date."""
    return system.partition(":")[0] == _SIMULATED


def days_of(first: str | None, last: str | None, systems: Iterable[str]) -> str:
    """Describe when something was seen on these systems, from two times in ISO 8601: `2026-11-21 to 2026-11-23`.

    Without times it is `in virtual time` if one of the systems is simulated, else empty.
    """
    days = " to ".join(dict.fromkeys(time[:10] for time in (first, last) if time))
    return days or (VIRTUAL_TIME if any(map(is_simulated, systems)) else "")


def short_name(system: str, among: Collection[str]) -> str:
    """Return the version alone (`5.0.9`) if all systems in `among` are of one product, else the display name."""
    version = _name_parts(system)[1]
    return version if version and product_of_all(among) is not None else system_name(system)


def product_of_all(systems: Collection[str]) -> str | None:
    """Return the display name of the systems' product; None if they are of several."""
    products = {_name_parts(system)[0] for system in systems}
    return products.pop() if len(products) == 1 else None


def _name_parts(system: str) -> tuple[str, str]:
    """Split a system into the display name of its product, and its version; empty if it has none."""
    product, _, version = system.partition(":")
    if product == _SIMULATED:  # its version names the system that it is a model of: cassandra-5.0
        modelled, modelled_version = _name_parts(version.replace("-", ":", 1))
        return f"{_SIMULATED.capitalize()} {modelled}".rstrip(), modelled_version
    return _title(product), version


@cache
def _title(product: str) -> str:
    """Return the display name of a product; the product itself if its package is not installed."""
    if product not in names("systems"):
        return product
    try:
        return str(load("systems", product).title)
    except PlanError:  # a broken package does not prevent showing its runs
        return product


def nemesis_names(plan: Mapping[str, Any]) -> str:
    """Join the names of a plan's nemeses; `none` if it has none."""
    return joined(plan.get("nemeses") or []) or "none"


def joined(names: Iterable[str], *, last: str = "and") -> str:
    """Join names as `a, b and c`."""
    every = list(names)
    if len(every) < 2:
        return "".join(every)
    return f"{', '.join(every[:-1])} {last} {every[-1]}"


def repeats_as(system: str) -> str:
    """Say how far the same command gives the same run again on a system."""
    if is_simulated(system):
        return "The seed fixes everything, down to the order of messages: the same version repeats the run exactly."
    return "The seed fixes every operation, race and fault; the outcome of a race may differ from run to run."


def length_of_time(seconds: float) -> str:
    """Format a duration: `0.41 s`, `27.4 s`, `3 min 5 s`, `2 h 4 min`."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def length_of_run(seconds: float, system: str) -> str:
    """Format the length of a run on a system: `27.4 s`, or `27.4 s of virtual time` on a simulated one."""
    return f"{length_of_time(seconds)} of virtual time" if is_simulated(system) else length_of_time(seconds)


def size_in_words(size: int) -> str:
    """Format a size in bytes as `812 B`, `3.4 kB`, `1.2 MB`."""
    if size < 1000:
        return f"{size} B"
    for unit in ("kB", "MB"):
        size_in_unit = size / 1000 if unit == "kB" else size / 1_000_000
        if size_in_unit < 1000:
            return f"{size_in_unit:.1f} {unit}"
    return f"{size / 1e9:.1f} GB"


def shortened(text: str, limit: int) -> str:
    """Shorten text to at most `limit` characters, with an ellipsis if something was left out."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def first_of(names: Sequence[str], limit: int) -> str:
    """Join the first names, and the number of the remaining ones."""
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
