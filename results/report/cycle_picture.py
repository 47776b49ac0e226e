"""Cycle picture: the transactions of a dependency cycle, and the evidence for each dependency.

Drawn from the evidence of a cycle (`schemaquake.checkers.elle.explain`): `transactions` are its nodes, `steps` its edges.
Every transaction is a box with its micro-operations; the boxes stand one below the other. An arrow from each box to the
next carries the kind of the dependency, the key and the values, with the reason beside it. The arrow at the left closes
the cycle. This module computes geometry only; the page's template draws it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from schemaquake.harness.model.verdict import Anomaly
from schemaquake.results.wording import counted, shortened

__all__ = ["CyclePicture", "cycle_picture"]

DRAWN_MOST: Final = 8
"""Maximum number of transactions drawn. A longer cycle is drawn with its first transactions and its last."""
MICRO_OPS_MOST: Final = 10

WIDTH: Final = 1160
BOX_LEFT: Final = 214
BOX_WIDTH: Final = 446
WORDS_LEFT: Final = 684
WORDS_WIDE: Final = 68
"""Characters per line of the text beside the picture."""
BOX_WIDE: Final = 62
"""Characters per line inside a box."""
BACK: Final = 92
"""x of the vertical part of the closing arrow, px."""
HEAD: Final = 24
LINE: Final = 17
ARROW: Final = 58
"""Minimum distance between two boxes, px."""
ELEMENTS_MOST: Final = 9

_KINDS: Final[Mapping[str, str]] = {
    "ww": "overwrites its write",
    "wr": "reads its write",
    "rw": "overwrites the version it read",
    "process": "process order",
    "realtime": "real time",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text. `is_evidence`: this micro-operation is evidence for a step of the cycle."""

    y: float
    text: str
    is_evidence: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """A transaction, or the placeholder for the transactions that are left out."""

    y: float
    height: float
    name: str
    head: str
    head_x: float
    lines: tuple[Line, ...]
    type: str
    title: str


@dataclass(frozen=True, slots=True)
class Arrow:
    """The arrow from one transaction to the next. `words` stand beside it; `path` and `head` are SVG paths."""

    kind: str
    path: str
    head: str
    label_x: float
    label_y: float
    name: str
    detail: str
    words: tuple[Line, ...]
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CyclePicture:
    """A picture of one cycle. Coordinates are px in a box of `width` by `height`."""

    height: float
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    summary: str
    """Text alternative of the picture, for screen readers."""
    width: float = WIDTH
    box_left: float = BOX_LEFT
    box_width: float = BOX_WIDTH
    words_left: float = WORDS_LEFT


def cycle_picture(anomaly: Anomaly) -> CyclePicture | None:
    """Draw the cycle in an anomaly's evidence. None if the evidence contains no cycle."""
    evidence = anomaly.evidence
    if not isinstance(evidence, dict) or not evidence.get("steps") or "transactions" not in evidence:
        return None
    steps, transactions = evidence["steps"], evidence["transactions"]
    if len(steps) != len(transactions) or not all("because" in step for step in steps):
        return None
    length = int(evidence.get("length", len(steps)))
    return _Drawing(steps, transactions, length).finished()


@dataclass(slots=True)
class _Drawing:
    """A picture under construction, drawn from top to bottom."""

    steps: Sequence[Mapping[str, Any]]
    transactions: Sequence[Mapping[str, Any]]
    length: int
    y: float = 12
    boxes: list[Box] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)

    def finished(self) -> CyclePicture:
        """Draw boxes and arrows in order, then the closing arrow."""
        count = len(self.transactions)
        shown = list(range(count)) if count <= DRAWN_MOST else [*range(DRAWN_MOST - 1), count - 1]
        for place, number in enumerate(shown):
            if place and number != shown[place - 1] + 1:
                self._skip(number - shown[place - 1] - 1)
            self._box(number)
            if number < count - 1 and place < len(shown) - 1:
                self._down(number)
        self._back(count - 1)
        return CyclePicture(
            height=self.y + 10, boxes=tuple(self.boxes), arrows=tuple(self.arrows), summary=self._summary()
        )

    def _box(self, number: int) -> None:
        one = self.transactions[number]
        mops = one["mops"]
        mops_shown = [(_describe_micro_op(mop), self._is_evidence(number, mop)) for mop in mops]
        if len(mops_shown) > MICRO_OPS_MOST:  # micro-operations that show a step of the cycle are kept first
            kept = [mop for mop in mops_shown if mop[1]][:MICRO_OPS_MOST]
            others = [mop for mop in mops_shown if not mop[1]][: MICRO_OPS_MOST - len(kept)]
            chosen = [mop for mop in mops_shown if mop in kept or mop in others][:MICRO_OPS_MOST]
            mops_shown = [*chosen, (f"… and {len(mops) - len(chosen)} more", False)]
        top = self.y + HEAD
        lines = tuple(
            Line(top + LINE * (n + 0.75), text, is_evidence) for n, (text, is_evidence) in enumerate(mops_shown)
        )
        height = HEAD + LINE * len(lines) + 8
        completed = one.get("completed")
        when = "" if completed is None else f", {one['invoked'] / 1e6:,.3f} to {completed / 1e6:,.3f} ms"
        head = f"op {one['op']}, process {one['process']}: {one['type']}{when}"
        name = f"T{number + 1}"
        title = f"{name}: {head}\n" + "\n".join(_describe_micro_op(mop, most=200) for mop in mops)
        self.boxes.append(Box(self.y, height, name, head, _head_x(name), lines, one["type"], shortened(title, 4_000)))
        self.y += height

    def _is_evidence(self, number: int, mop: Sequence[Any]) -> bool:
        """Return True if this micro-operation shows the step from this transaction or the step to it."""
        following = self.steps[number]
        before = self.steps[number - 1]
        f, key, value = mop
        if f == "r":
            last = value[-1] if isinstance(value, list) and value else None if isinstance(value, list) else value
            reads = [step for step, kind in ((following, "rw"), (before, "wr")) if step["kind"] == kind]
            return any(step.get("key") == key and step.get("value") == last for step in reads)
        wrote = (following.get("key"), following.get("value")) if following["kind"] in {"ww", "wr"} else None
        wrote_over = (before.get("key"), before.get("next")) if before["kind"] in {"ww", "rw"} else None
        return (key, value) in {wrote, wrote_over}

    def _down(self, number: int) -> None:
        step = self.steps[number]
        words = textwrap.wrap(f"T{number + 1} comes before T{number + 2}, because {step['because']}.", WORDS_WIDE)
        height = max(ARROW, LINE * len(words) + 14)
        x, end = BOX_LEFT + 22, self.y + height
        middle = self.y + height / 2
        path = f"M{x} {self.y}V{end - 3}"
        head = f"M{x} {end}l-5 -9h10z"
        self._arrow(step, (path, head), (x + 12, middle), words, middle - LINE * (len(words) - 1) / 2 + 4, number)
        self.y = end

    def _skip(self, left_out: int) -> None:
        more = counted(self.length - len(self.transactions) + left_out, "more transaction")
        self.boxes.append(Box(self.y, HEAD + 6, "…", more, _head_x("…"), (), "left-out", "not drawn"))
        self.y += HEAD + 6 + ARROW / 2

    def _back(self, number: int) -> None:
        """Draw the arrow from the last transaction to the first."""
        step = self.steps[number]
        first, last = self.boxes[0], self.boxes[-1]
        begin, end = last.y + last.height / 2, first.y + first.height / 2
        corners = f"H{BACK + 12}Q{BACK} {begin} {BACK} {begin - 12}V{end + 12}Q{BACK} {end} {BACK + 12} {end}"
        path, head = f"M{BOX_LEFT} {begin}{corners}H{BOX_LEFT - 3}", f"M{BOX_LEFT} {end}l-9 -5v10z"
        name = f"T{number + 1}" if number < len(self.transactions) else "the last"
        words = textwrap.wrap(f"But {name} comes before T1, because {step['because']}: a contradiction.", WORDS_WIDE)
        top = last.y + 16
        self._arrow(step, (path, head), (BACK - 78, (begin + end) / 2), words, top, number)
        self.y = max(self.y, top + LINE * len(words))

    def _arrow(
        self,
        step: Mapping[str, Any],
        drawn: tuple[str, str],
        label: tuple[float, float],
        text_lines: Sequence[str],
        top: float,
        number: int,
    ) -> None:
        lines = tuple(Line(top + LINE * n, text) for n, text in enumerate(text_lines))
        name = step["kind"] if step["kind"] in {"ww", "wr", "rw"} else _KINDS[step["kind"]]
        title = f"T{number + 1} before T{(number + 1) % self.length + 1}, {_KINDS[step['kind']]}"
        self.arrows.append(Arrow(step["kind"], *drawn, *label, name, _detail(step), lines, title))

    def _summary(self) -> str:
        following = [(number + 1) % len(self.steps) + 1 for number in range(len(self.steps))]
        parts = [f"T{n + 1} before T{following[n]} ({step['kind']})" for n, step in enumerate(self.steps[:DRAWN_MOST])]
        return f"A cycle of {counted(self.length, 'transaction')}: {', '.join(parts)}"


def _head_x(name: str) -> float:
    """Return the x of the text that follows a box's name, px."""
    return BOX_LEFT + 26 + 9 * len(name)


def _detail(step: Mapping[str, Any]) -> str:
    """Describe the key and values of a step: `key 5: 1 → 3`."""
    match step["kind"]:
        case "ww" | "rw":
            before = "nothing" if step.get("value") is None else step["value"]
            return shortened(f"key {step['key']}: {before} → {step['next']}", 24)
        case "wr":
            return shortened(f"key {step['key']}: {step['value']}", 24)
        case "process":
            return f"of process {step['process']}"
    return f"{(step['invoked'] - step['completed']) / 1e6:,.3f} ms apart"


def _describe_micro_op(mop: Sequence[Any], *, most: int = BOX_WIDE) -> str:
    """Describe a micro-operation in words."""
    f, key, value = mop
    if f == "append":
        return shortened(f"append {value} to key {key}", most)
    if f == "w":
        return shortened(f"write {value} to key {key}", most)
    if value is None or value == []:
        return shortened(f"read key {key}: nothing", most)
    return shortened(f"read key {key}: {_list(value) if isinstance(value, list) else value}", most)


def _list(elements: Sequence[Any]) -> str:
    """Render a list; the middle of a long one is left out, because the last elements matter most."""
    if len(elements) > ELEMENTS_MOST:
        return f"[{' '.join(map(str, elements[:3]))} … {' '.join(map(str, elements[3 - ELEMENTS_MOST :]))}]"
    return f"[{' '.join(map(str, elements))}]"
