"""Consistency models by name: what each implies and prohibits, and which ones a set of anomalies rules out.

The facts are in `models.toml`. An anomaly that is a special case of another (G0 is a G1c without reads) stands for it.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, Literal, TypeAlias

from schemaquake.harness.errors import PlanError

__all__ = ["MODELS", "Model", "Order", "implied_by", "model", "order_of", "prohibited", "ruled_out"]

Order: TypeAlias = Literal["process", "realtime"]
"""What orders transactions besides their dependencies: each process' own order, or real time."""

_IMPLIES: Final[Mapping[str, Sequence[str]]] = {
    "G0": ("G1c",),
    "G1a": ("G1",),
    "G1b": ("G1",),
    "G1c": ("G1",),
    "G-single-item": ("G-nonadjacent-item", "G-single"),
    "G-nonadjacent-item": ("G2-item", "G-nonadjacent"),
    "G2-item": ("G2",),
    "G-single": ("G-nonadjacent",),
    "G-nonadjacent": ("G2",),
    "lost-update": ("G2-item", "write-skew"),
    "write-skew": ("G2",),
    "dirty-update": ("G1a",),
    "incompatible-order": ("G1a",),
    "future-read": ("G1c",),
}
_CYCLES: Final = frozenset(
    ("G0", "G1c", "G1", "G-single-item", "G-single", "G-nonadjacent-item", "G-nonadjacent", "G2-item", "G2")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A consistency model. `implies` and `prohibits` are complete: they include what follows from the implied ones."""

    name: str
    aliases: tuple[str, ...]
    implies: frozenset[str]
    prohibits: frozenset[str]


def _read() -> Mapping[str, Model]:
    document = tomllib.loads(files(__package__).joinpath("models.toml").read_text(encoding="utf-8"))
    complete: dict[str, Model] = {}

    def of(name: str) -> Model:
        if name not in complete:
            entry = document[name]
            below = [of(other) for other in entry.get("implies", ())]
            complete[name] = Model(
                name=name,
                aliases=tuple(entry.get("aliases", ())),
                implies=frozenset({name}.union(*(other.implies for other in below))),
                prohibits=frozenset(entry.get("prohibits", ())).union(*(other.prohibits for other in below)),
            )
        return complete[name]

    return {name: of(name) for name in document}


MODELS: Final[Mapping[str, Model]] = _read()
_BY_ANY_NAME: Final = {name: found for found in MODELS.values() for name in (found.name, *found.aliases)}


def model(name: str) -> Model:
    """Look up the model of that name or alias. Raises PlanError, with the nearest known name."""
    if name not in _BY_ANY_NAME:
        near = difflib.get_close_matches(name, _BY_ANY_NAME, n=1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise PlanError(f'unknown consistency model "{name}".{hint} Known: {", ".join(sorted(_BY_ANY_NAME))}.')
    return _BY_ANY_NAME[name]


def prohibited(models: Iterable[str], anomalies: Iterable[str] = ()) -> frozenset[str]:
    """List the anomalies that must not be found: all that the models prohibit, and `anomalies` with their special cases."""
    asked = set(anomalies)
    special = {name for name in _names() if name in asked or implied_by(name) & asked}
    return frozenset(special | asked).union(*(model(name).prohibits for name in models))


def order_of(forbidden: Collection[str]) -> Order | None:
    """Find the order that the prohibited anomalies speak of. Real time includes the order of each process."""
    if any(name.endswith("-realtime") for name in forbidden):
        return "realtime"
    return "process" if any(name.endswith("-process") for name in forbidden) else None


def ruled_out(found: Collection[str]) -> tuple[list[str], list[str]]:
    """List (the weakest models that these anomalies rule out, the stronger ones), each sorted."""
    out = {name for name, known in MODELS.items() if known.prohibits & set(found)}
    weakest = {name for name in out if not (MODELS[name].implies - {name}) & out}
    return sorted(weakest), sorted(out - weakest)


@cache
def implied_by(name: str) -> frozenset[str]:
    """List the anomalies that are there if `name` is: those of which it is a special case."""
    implied: set[str] = set()
    waiting = [name]
    while waiting:
        new = set(_directly(waiting.pop())) - implied
        implied |= new
        waiting += new
    return frozenset(implied)


def _directly(name: str) -> Iterable[str]:
    base, suffix = _apart(name)
    for other in _IMPLIES.get(base, ()):
        if not suffix or other in _CYCLES:
            yield f"{other}{suffix}"
    if base in _CYCLES and suffix != "-realtime":
        yield f"{base}{'-realtime' if suffix else '-process'}"


def _apart(name: str) -> tuple[str, str]:
    for suffix in ("-process", "-realtime"):
        if name.endswith(suffix):
            return name.removesuffix(suffix), suffix
    return name, ""


def _names() -> frozenset[str]:
    """List every anomaly that has special cases, or is one."""
    cycles = {f"{name}{suffix}" for name in _CYCLES for suffix in ("", "-process", "-realtime")}
    return frozenset(cycles | set(_IMPLIES))
