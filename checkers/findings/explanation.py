"""Explanations: why a finding is impossible otherwise, in the form Let …, Then …, But ….

Let  T1 = op 412: p3 n1 ALTER TABLE k.t ADD c1 int -> ok at 8.214 s
     T2 = op 431: p5 n2 ALTER TABLE k.t ADD c2 int -> ok at 8.219 s
Then T1 was acknowledged, so every node must show column c1 of k.t.
     But after the cluster settled n2 shows (k, v, c2). It was last seen on n3 at 11.380 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from schemaquake.checkers.evidence.operations import PairedOperation

__all__ = ["explain", "listing", "names", "phase_text", "seconds", "where"]

_LINES_MOST: Final = 8
_PHASE_TEXT: Final = {
    "settled": "after the cluster settled",
    "restarted": "after every node was restarted",
}


def explain(let: Sequence[PairedOperation | str], then: str, but: str) -> str:
    """The three parts. Operations are called T1, T2 … in their order; other lines of `let` stand as they are.

    At most eight lines are spelled out; of the rest only the number is told.
    """
    lines: list[str] = []
    count = 0
    for entry in let[:_LINES_MOST]:
        if isinstance(entry, str):
            lines.append(entry)
        else:
            count += 1
            lines.append(f"T{count} = {entry.text()}")
    if len(let) > _LINES_MOST:
        lines.append(f"… and {len(let) - _LINES_MOST} more")
    told = "\n".join(f"{'Let ' if number == 0 else '    '} {line}" for number, line in enumerate(lines))
    return f"{told}\nThen {then}\n     But {but}" if told else f"Then {then}\n     But {but}"


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
