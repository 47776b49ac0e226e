"""Overview: the whole run in one picture: phases, faults, restarts, and the schema version of each node over time.

This module computes geometry only; the page's template draws it. A version lasts until a reading of the same node shows
another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import orjson
import pyarrow.compute as pc

from schemaquake.harness.model.records import plain
from schemaquake.results.report.axis import Axis, Tick
from schemaquake.results.report.material import Material
from schemaquake.results.tables.chronicle import FaultWindow, NodeOperation, NodeStart, Phase
from schemaquake.results.wording import counted, joined, length_of_time

__all__ = ["Overview", "disagreement_s", "draw_overview"]

WIDTH: Final = 1160
PLOT_LEFT: Final = 132
PLOT_RIGHT: Final = 1000
LANE: Final = 24
FAULTS: Final = 44.0
"""Where the row of the faults begins."""
ROW: Final = 20
COLOURS: Final = 8
CHARACTER: Final = 6.1
LABEL: Final = 68
"""Width of the label of a version, px."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A rectangle with a label."""

    x: float
    y: float
    width: float
    label: str
    title: str
    style: str


@dataclass(frozen=True, slots=True)
class Boundary:
    """The moment at which a node's restart began. `served` is True if the node came back."""

    x: float
    y: float
    served: bool
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The picture of a whole run. Coordinates are px in a box of `width` by `height`."""

    height: float
    ticks: tuple[Tick, ...]
    phases: tuple[Stretch, ...]
    faults: tuple[Stretch, ...]
    operations: tuple[Stretch, ...]
    """The operations on nodes, in a row at this height below that of the faults, or in its place."""
    operations_y: float
    names: tuple[tuple[float, str], ...]
    lanes: tuple[Stretch, ...]
    agreement: tuple[Stretch, ...]
    agreement_y: float
    restarts: tuple[Boundary, ...]
    finals: tuple[tuple[float, str, str], ...]
    """y, text and style of each node's final version."""
    verdict: str
    summary: str
    plot: tuple[float, float] = (PLOT_LEFT, PLOT_RIGHT)
    width: float = WIDTH


def draw_overview(material: Material) -> Overview | None:
    """Draw the run. None if the run recorded neither a phase nor a schema version."""
    versions = _versions(material)
    if not versions and not material.chronicle.phases:
        return None
    axis = Axis(0, max(material.duration, 1), PLOT_LEFT, PLOT_RIGHT)
    ends = _ends(material)
    has_faults, has_operations = bool(material.chronicle.faults), bool(material.chronicle.operations)
    operations_y = FAULTS + (ROW if has_faults else 0)
    agreement_y = FAULTS + ROW + 2 + (ROW if has_faults and has_operations else 0)
    first_lane = agreement_y + LANE + 6
    rows = {node: first_lane + number * LANE for number, node in enumerate(material.nodes)}
    colours = _colours(versions)
    bottom = first_lane + LANE * len(rows)
    differing = disagreement_s(material)
    restarts = tuple(_boundary(axis, one, rows) for one in material.chronicle.restarts() if one.boot.node in rows)
    return Overview(
        height=bottom + 10,
        ticks=axis.ticks(9),
        phases=tuple(_phase(axis, phase, number) for number, phase in enumerate(material.chronicle.phases)),
        faults=_faults(axis, material.chronicle.faults),
        operations=tuple(_operation(axis, one, operations_y) for one in material.chronicle.operations),
        operations_y=operations_y,
        names=tuple((y + LANE / 2, node) for node, y in rows.items()),
        lanes=tuple(
            stretch
            for node, y in rows.items()
            for stretch in _legible(_lane(axis, node, versions.get(node, []), y, colours, ends.get(node)), restarts)
        ),
        agreement=_agreement(axis, versions, ends, agreement_y),
        agreement_y=agreement_y + LANE / 2,
        restarts=restarts,
        finals=tuple((y + LANE / 2, *_final(versions.get(node, []), ends.get(node))) for node, y in rows.items()),
        verdict=_in_the_end(versions, ends),
        summary=f"Schema versions of {counted(len(rows), 'node')} over {length_of_time(material.duration / 1e9)}; "
        f"they differed for {length_of_time(differing)} in all. {_in_the_end(versions, ends)}.",
    )


def disagreement_s(material: Material) -> float:
    """Return the time during which at least two nodes reported different schema versions, s."""
    versions = _versions(material)
    stretches = _stretches(versions, _ends(material), material.duration)
    return sum((end - begin) / 1e9 for begin, end, count in stretches if count > 1)


def _phase(axis: Axis, phase: Phase, number: int) -> Stretch:
    x, y, width = _placed(axis, phase.begins, phase.ends, 24)
    label = phase.name if len(phase.name) * CHARACTER + 8 < width else ""
    note = f"; {phase.note}" if phase.note else ""
    return Stretch(x, y, width, label, f"{phase.name}: {length_of_time(phase.seconds)}{note}", f"phase-{number % 2}")


def _faults(axis: Axis, faults: Sequence[FaultWindow]) -> tuple[Stretch, ...]:
    """Draw the faults. A fault's name stands behind it, unless another fault begins there."""
    placed = [(fault, *_placed(axis, fault.begins, fault.ends, FAULTS)) for fault in faults]
    drawn = []
    for number, (fault, x, y, width) in enumerate(placed):
        ends = x + width + 4 + len(fault.nemesis) * CHARACTER
        taken = any(other < ends for _, other, _, _ in placed[number + 1 :])
        drawn.append(Stretch(x, y, width, "" if taken else fault.nemesis, fault.title(), "fault"))
    return tuple(drawn)


def _operation(axis: Axis, operation: NodeOperation, y: float) -> Stretch:
    """Draw an operation on nodes, with as much of its name and nodes inside as fits."""
    x, y, width = _placed(axis, operation.begins, operation.ends, y)
    nodes = joined(operation.nodes)
    labels = (f"{operation.nemesis} {nodes}".strip(), nodes, "")
    label = next(each for each in labels if not each or len(each) * CHARACTER + 8 < width)
    return Stretch(x, y, width, label, operation.title(), "operation")


_Changes = list[tuple[int, str]]


def _versions(material: Material) -> Mapping[str, _Changes]:
    """Map each node to its changes of schema version as (time, version). Versions are epochs where the system has them."""
    observations = plain(material.observations)
    rows = observations.filter(
        pc.and_kleene(pc.equal(observations.column("kind"), "version"), pc.is_null(observations.column("error")))
    ).select(["time", "node", "id", "definition"])
    changes: dict[str, _Changes] = {}
    for row in rows.sort_by("time").to_pylist():
        node_changes = changes.setdefault(row["node"], [])
        epoch = orjson.loads(row["definition"] or "{}").get("epoch")
        version = row["id"] if epoch is None else f"epoch {epoch}"
        if version is not None and (not node_changes or node_changes[-1][1] != version):
            node_changes.append((row["time"], version))
    return changes


class _End(NamedTuple):
    """The end of a node's part in the run: the time (ns), and whether it left, or did not come back."""

    time: int
    has_left: bool

    @property
    def words(self) -> str:
        return "left" if self.has_left else "did not start"


_Ends: TypeAlias = Mapping[str, _End]
"""By node its end; the others are there to the end of the run."""


def _ends(material: Material) -> _Ends:
    """Map each node that left, or did not come back from its last restart, to its end."""
    chronicle = material.chronicle
    left = {node: _End(time, has_left=True) for node, time in chronicle.left().items()}
    return left | {node: _End(start.begins, has_left=False) for node, start in chronicle.never_back().items()}


def _colours(versions: Mapping[str, _Changes]) -> Mapping[str, int]:
    """Assign a colour to each version in order of appearance, so that successive versions differ until the colours run out."""
    ordered = sorted((time, version) for node_changes in versions.values() for time, version in node_changes)
    return {version: number % COLOURS for number, version in enumerate(dict.fromkeys(v for _, v in ordered))}


def _placed(axis: Axis, begins: int, ends: int | None, y: float) -> tuple[float, float, float]:
    x, width = axis.span(begins, ends)
    return x, y, max(width, 1.5)


def _lane(
    axis: Axis, node: str, changes: _Changes, y: float, colours: Mapping[str, int], end: _End | None
) -> list[Stretch]:
    until = axis.ends if end is None else end.time
    kept = _drawable(axis, [change for change in changes if change[0] < until])
    stretches = []
    for (begins, version), (ends, _) in pairwise([*kept, (until, "")]):
        x, _, width = _placed(axis, begins, ends, y)
        label = version[:10] if width > LABEL else ""
        title = f"{node} reports {version} from {begins / 1e9:.2f} s"
        stretches.append(Stretch(x, y, width, label, title, f"k{colours[version]}"))
    if end is not None:
        x, _, width = _placed(axis, end.time, None, y)
        style = "left" if end.has_left else "down"
        stretches.append(Stretch(x, y, width, end.words if width > 104 else "", f"{node} {end.words}", style))
    return stretches


def _legible(stretches: Sequence[Stretch], restarts: Sequence[Boundary]) -> list[Stretch]:
    """Drop the labels that the mark of a restart would cross."""
    return [
        replace(one, label="")
        if one.style != "down" and any(mark.y == one.y and one.x < mark.x < one.x + LABEL for mark in restarts)
        else one
        for one in stretches
    ]


def _drawable(axis: Axis, changes: _Changes) -> _Changes:
    """Keep at most one change per half pixel, the last: a long run of DDL has more versions than a screen has columns."""
    by_pixel = {int(axis.x(time) * 2): (time, version) for time, version in changes}
    return list(by_pixel.values())


def _stretches(versions: Mapping[str, _Changes], ends: _Ends, end: int) -> list[tuple[int, int, int]]:
    """Return intervals as (begins, ends, number of different versions). Adjacent intervals with the same number are joined."""
    moments: list[tuple[int, str, str | None]] = [
        (time, node, version) for node, node_changes in versions.items() for time, version in node_changes
    ]
    moments += [(ended.time, node, None) for node, ended in ends.items()]
    moments.sort(key=lambda moment: moment[0])
    claimed: dict[str, str] = {}
    found: list[tuple[int, int, int]] = []
    untils = [*(moment[0] for moment in moments[1:]), end]
    for (time, node, version), until in zip(
        moments, untils, strict=False
    ):  # `untils` has one entry more if there are no moments
        if version is None:
            claimed.pop(node, None)
        elif node not in ends or time < ends[node].time:
            claimed[node] = version
        count = len(set(claimed.values()))
        if found and found[-1][2] == count:
            found[-1] = (found[-1][0], until, count)
        elif until > time:
            found.append((time, until, count))
    return found


def _agreement(axis: Axis, versions: Mapping[str, _Changes], ends: _Ends, y: float) -> tuple[Stretch, ...]:
    drawn = []
    for begins, until, count in _stretches(versions, ends, int(axis.ends)):
        if count == 0:
            continue
        x, _, width = _placed(axis, begins, until, y)
        if count == 1:
            word, style = "agree", "agree"
        else:
            word, style = f"{count} versions", "differ"
        label = word if width > 7 * len(word) else ""
        lasted = length_of_time((until - begins) / 1e9)
        drawn.append(Stretch(x, y, width, label, f"{word} for {lasted}, from {begins / 1e9:.2f} s", style))
    return tuple(drawn)


def _boundary(axis: Axis, restart: NodeStart, rows: Mapping[str, float]) -> Boundary:
    boot = restart.boot
    ended = (
        f"served after {length_of_time(boot.seconds)}" if boot.served else f"did not start: {boot.first_error or '?'}"
    )
    return Boundary(axis.x(restart.begins), rows[boot.node], boot.served, f"{boot.node} restarted, {ended}")


def _final(changes: _Changes, end: _End | None) -> tuple[str, str]:
    if end is not None:
        return end.words, "unread" if end.has_left else "down"
    return (changes[-1][1][:13], "") if changes else ("no answer", "unread")


def _in_the_end(versions: Mapping[str, _Changes], ends: _Ends) -> str:
    claimed = {node_changes[-1][1] for node, node_changes in versions.items() if node_changes and node not in ends}
    left = sum(end.has_left for end in ends.values())
    down = len(ends) - left
    parts: Sequence[str] = [
        *([f"{counted(down, 'node')} did not start"] if down else []),
        *([f"{counted(left, 'node')} left"] if left else []),
        *(
            [f"{len(claimed)} versions"]
            if len(claimed) > 1
            else ["the others agree" if ends else "all agree"]
            if claimed
            else []
        ),
    ]
    return "At the end: " + ", ".join(parts) if parts else "No schema version was read"
