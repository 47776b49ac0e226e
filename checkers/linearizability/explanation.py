"""Explanations of why an object is not linearizable, in the form Let …, Then …, But …."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schemaquake.checkers.evidence.operation_lines import OperationLines
from schemaquake.checkers.findings.explanation import listing

__all__ = ["explain_search", "explain_zones"]

_SHOWN_MOST: Final = 5


def explain_zones(operations: OperationLines, kind: str, indices: Sequence[int]) -> str:
    """Explain why a register in which no value is written twice has no order; `indices` as in `zones.Refutation`."""
    shown = [index for index in dict.fromkeys(indices) if index >= 0]
    names = {index: f"T{number + 1}" for number, index in enumerate(shown)}
    let = [f"{names[index]} = {line}" for index, line in zip(shown, operations.lines(shown), strict=True)]
    named = [names.get(index, _BEGINNING) for index in indices]
    return "\n".join([*_let(let), *_ZONES[kind](named)])


_BEGINNING: Final = ""
"""The name of the write of the initial value."""


def _from(name: str) -> str:
    return f"from the answer of {name}" if name else "from the beginning"


def _unwritten(names: Sequence[str]) -> Sequence[str]:
    return (
        f"Then the value that {names[0]} found was there.",
        "     But it is not the initial one, and no write that may have taken effect wrote it.",
    )


def _early(names: Sequence[str]) -> Sequence[str]:
    return (
        f"Then {names[1]} comes after {names[0]}, whose value it returned, and nobody else wrote that value.",
        f"     But {names[1]} had its answer before {names[0]} was invoked.",
    )


def _twice(names: Sequence[str]) -> Sequence[str]:
    return (
        f"Then {names[0]} and {names[1]} both found the value that they swap away, which was written once.",
        "     But the one that came first took it away from the other.",
    )


def _circle(names: Sequence[str]) -> Sequence[str]:
    return (
        f"Then {names[0]} found a value that was made, swap by swap, of the one it wrote.",
        "     But that value was written once, so it comes before itself.",
    )


def _backwards(names: Sequence[str]) -> Sequence[str]:
    return (
        f"Then swaps that follow each other directly put {names[1]} before {names[0]}.",
        f"     But {names[0]} had its answer before {names[1]} was invoked.",
    )


def _overlap(names: Sequence[str]) -> Sequence[str]:
    one = f"{_from(names[0])} to the call of {names[1]}"
    other = f"{_from(names[2])} to the call of {names[3]}"
    return (
        f"Then the register held one value all the time {one}, and another {other}: each was written once.",
        "     But these times overlap.",
    )


def _inside(names: Sequence[str]) -> Sequence[str]:
    inner = names[2] if names[2] == names[3] else f"{names[2]} and {names[3]}"
    return (
        f"Then {_from(names[0])} to the call of {names[1]} the register held one value, which was written once.",
        f"     But within that time it held another one, for {inner}.",
    )


_ZONES: Final = {
    "unwritten": _unwritten,
    "early": _early,
    "twice": _twice,
    "circle": _circle,
    "backwards": _backwards,
    "overlap": _overlap,
    "inside": _inside,
}


def explain_search(
    operations: OperationLines, order: Sequence[int], states: Sequence[str], stuck: int, *, lenient: bool
) -> str:
    """Explain why there is no order: by the longest that is one, what it can leave behind, and the call that does not fit.

    `lenient`: not even if calls of unknown outcome take effect more than once.
    """
    shown = [*order[-_SHOWN_MOST:], stuck]
    lines = operations.lines(shown)
    let = [f"T{number + 1} = {line}" for number, line in enumerate(lines)]
    last = f"T{len(shown)}"
    before = len(order) - len(shown) + 1
    so_far = listing([f"T{number + 1}" for number in range(len(shown) - 1)])
    through = f"{so_far}, after {before} others" if before else so_far
    given = " if calls of unknown outcome may take effect more than once" if lenient else ""
    return "\n".join(
        [
            *_let(let),
            f"Then all that was answered before {last} has an order{given}, for example {through}.",
            f"     The object is then {' or '.join(states)}.",
            f"     But {'even so ' if lenient else ''}in no order can {last} have its answer when it had it.",
        ]
    )


def _let(lines: Sequence[str]) -> Sequence[str]:
    return [f"{'Let ' if number == 0 else '    '} {line}" for number, line in enumerate(lines)]
