"""Explanations: the phrases of which findings are made: listings, times, phases and nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.findings.argument import Argument

__all__ = ["explain", "listing", "names", "phase_text", "seconds", "where"]

_PHASE_TEXT: Final = {
    "settled": "after the cluster settled",
    "restarted": "after every node was restarted",
}


def explain(let: Sequence[PairedOperation | str], then: str, but: str) -> str:
    """Render an `Argument`."""
    return Argument(let, then, but).render()


def names(count: int, *, after: int = 0) -> str:
    """`T1`, `T1 and T2`, … as `explain` calls `count` operations that stand behind `after` others."""
    return listing(f"T{after + number + 1}" for number in range(count))


def listing(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    told = list(words)
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}" if told else "nothing"


def seconds(time: int) -> str:
    """A time of the run, from ns: `8.214 s`."""
    return f"{time / 1e9:.3f} s"


def where(readings: Mapping[str, Iterable[str]], one: str, many: str) -> str:
    """`after the cluster settled n1 and n2 have`, from phase → nodes, and the verb for one node and for many."""
    nodes = {phase: sorted(told) for phase, told in readings.items()}
    verb = one if len(list(nodes.values())[-1]) == 1 else many
    if len({tuple(told) for told in nodes.values()}) == 1:
        phases = listing(_PHASE_TEXT[phase] for phase in nodes)
        return f"{phases} {listing(next(iter(nodes.values())))} {verb}"
    return f"{', and '.join(f'{_PHASE_TEXT[phase]} {listing(told)}' for phase, told in nodes.items())} {verb}"


def phase_text(phase: str) -> str:
    """When that was: `after the cluster settled`."""
    return _PHASE_TEXT[phase]
