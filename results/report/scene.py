"""Scene: one race as a picture, from the contested statements to each node's final readings.

The upper part has one row per process, with a bar from invocation to completion of each operation. The lower part has one
lane per node for each schema object, on the same time axis. The final readings stand at the right. This module computes
geometry only; the page's template draws it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.records import keyspace_of, plain
from schemaquake.harness.model.verdict import Anomaly
from schemaquake.results.report.axis import Axis, Tick
from schemaquake.results.report.findings import keyspaces_of
from schemaquake.results.report.lanes import FinalReading, Lane, ObjectLanes, State, in_a_line, object_lanes
from schemaquake.results.report.material import Material, Race, anomalies_of, races_of
from schemaquake.results.report.recipe import contested_changes
from schemaquake.results.tables.statements import Statement, belongs, read_statements
from schemaquake.results.wording import counted, first_of, joined, shortened

__all__ = ["OPERATIONS_DRAWN", "SCENES_DRAWN", "Scene", "draw_scenes", "legible"]

OPERATIONS_DRAWN: Final = 10_000
"""Maximum number of operations drawn in a report, as in Jepsen's timeline; a longer page is unreadable."""
SCENES_DRAWN: Final = 12
OBJECTS_DRAWN: Final = 6
PROCESSES_DRAWN: Final = 40
COLOURS: Final = 8

WIDTH: Final = 1160
PLOT_LEFT: Final = 132
PLOT_RIGHT: Final = 812
FINAL_LEFT: Final[Mapping[FinalReading, float]] = {"settled": 836, "restarted": 1002}
FINAL_WIDTH: Final = 138
"""It leaves room for a bracket and its sign before the next column."""
ROW: Final = 22
BAR: Final = 14
TOP: Final = 34
CHARACTER: Final = 6.4
"""Width of one character of a label, px. Decides if a label fits."""
INSET: Final = 6
"""Distance from the left edge of a segment to its label."""
MARKER: Final = 7
"""Half the width of a marker, with its outline."""
DEFINITION_LIMIT: Final = 600
OTHERS_DRAWN: Final = 100
"""Maximum number of operations on other keyspaces. A few give context; many hide the race."""
LABEL_LEAST: Final = 18
"""Minimum number of characters of a shortened statement."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One operation. `label_x` is None if there is no room for a label; the title shows on hover."""

    x: float
    y: float
    width: float
    type: str
    title: str
    label: str
    label_x: float | None
    contested: bool
    own: bool
    """True for operations on this scene's keyspace; others are drawn faintly."""
    open: bool
    """True if the operation never completed."""


@dataclass(frozen=True, slots=True)
class Segment:
    """An interval in which a node showed one state. `colour` is None if the object was absent or unread."""

    x: float
    y: float
    width: float
    presence: str
    colour: int | None
    label: str
    label_x: float
    title: str


@dataclass(frozen=True, slots=True)
class Label:
    """The name of a row."""

    y: float
    text: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Agreement:
    """A bracket beside the cells of a final reading; `agree` is True if the nodes show the same state."""

    x: float
    y: float
    height: float
    agree: bool


@dataclass(frozen=True, slots=True)
class Band:
    """The interval in which a fault was in place."""

    x: float
    width: float
    title: str
    label: str
    """Name of the fault; empty where it would overlap another fault's name."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A contested statement reaching its coordinator."""

    x: float
    y: float
    title: str


@dataclass(frozen=True, slots=True)
class Known:
    """One definition of an object that at least one node showed, with its colour and text."""

    object: str
    colour: int
    short: str
    definition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A picture of one keyspace. Coordinates are px in a box of `width` by `height`."""

    keyspace: str
    title: str
    broke: tuple[str, ...]
    height: float
    ticks: tuple[Tick, ...]
    bands: tuple[Band, ...] = ()
    rows: tuple[Label, ...] = ()
    bars: tuple[Bar, ...] = ()
    groups: tuple[Label, ...] = ()
    lanes: tuple[Label, ...] = ()
    segments: tuple[Segment, ...] = ()
    cells: tuple[Segment, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    markers: tuple[Marker, ...] = ()
    known: tuple[Known, ...] = ()
    notes: tuple[str, ...] = ()
    readings: tuple[tuple[float, str], ...] = ()
    """x and heading of each column of final readings."""
    summary: str = ""
    """The picture in text, for those who cannot see it."""
    plot: tuple[float, float] = (PLOT_LEFT, PLOT_RIGHT)
    width: float = WIDTH


def draw_scenes(material: Material) -> tuple[tuple[Scene, ...], int]:
    """Draw the contested keyspaces, those with anomalies first. Also return the number of keyspaces that are not drawn."""
    subjects = _subjects(material)
    shown = subjects[:SCENES_DRAWN]
    left = OPERATIONS_DRAWN
    scenes = []
    for number, subject in enumerate(shown):
        scene = _scene(material, subject, budget=left // (len(shown) - number))
        left -= len(scene.bars)
        scenes.append(scene)
    return tuple(scenes), len(subjects) - len(shown)


@dataclass(frozen=True, slots=True)
class _Subject:
    keyspace: str
    race: Race | None
    anomalies: tuple[Anomaly, ...]

    def title(self) -> str:
        return self.keyspace if self.race is None else self.race.title()

    def broke(self) -> tuple[str, ...]:
        types = [anomaly.type for anomaly in self.anomalies]
        return tuple(dict.fromkeys([*(self.race.anomalies if self.race else ()), *types]))


def _subjects(material: Material) -> list[_Subject]:
    anomalies: dict[str, list[Anomaly]] = {}
    for anomaly in anomalies_of(material.verdict):
        for keyspace in keyspaces_of(anomaly):
            anomalies.setdefault(keyspace, []).append(anomaly)
    races = {race.keyspace: race for race in races_of(material.races)}
    names = dict.fromkeys([*races, *anomalies])
    subjects = [_Subject(name, races.get(name), tuple(anomalies.get(name, ()))) for name in names]
    return _varied(sorted(subjects, key=lambda subject: not subject.broke()))


def _varied(subjects: Sequence[_Subject]) -> list[_Subject]:
    """Order subjects so that few pictures show most: the first of every workload, then the second of every workload, and so on."""
    met: dict[str | None, int] = {}
    ranks = []
    for subject in subjects:
        workload = subject.race.workload if subject.race else None
        ranks.append((not subject.broke(), met.setdefault(workload, 0)))
        met[workload] += 1
    return [subject for _, subject in sorted(zip(ranks, subjects, strict=True), key=lambda ranked: ranked[0])]


@dataclass(slots=True)
class _Drawing:
    """A scene under construction, drawn from top to bottom."""

    axis: Axis
    y: float = TOP
    parts: dict[str, list[object]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, kind: str, part: object) -> None:
        self.parts.setdefault(kind, []).append(part)


def _scene(material: Material, subject: _Subject, *, budget: int) -> Scene:
    own = read_statements(material.operations, keyspaces=[subject.keyspace])
    named = [index for anomaly in subject.anomalies for index in anomaly.ops]
    changes = [one for one in own if one.f in SCHEMA_CHANGES or one.f == "cql"]
    contested = contested_changes(material, changes, race=subject.race, named=named)
    objects = object_lanes(material, subject.keyspace)
    axis = Axis(*_window(material, own, contested, objects), PLOT_LEFT, PLOT_RIGHT)
    drawing = _Drawing(axis)
    _draw_operations(drawing, material, subject.keyspace, {one.index for one in contested}, budget)
    shown, notes = _most_telling(objects, subject.anomalies, since=axis.begins)
    drawing.notes += notes
    for one in shown:
        _draw_object(drawing, one, subject.keyspace, contested)
    return _finished(drawing, material, subject, shown)


def _finished(drawing: _Drawing, material: Material, subject: _Subject, shown: Sequence[ObjectLanes]) -> Scene:
    axis = drawing.axis
    readings = {reading for one in shown for lane in one.lanes for reading in lane.final}
    headings = {"settled": _heading(material, "settled"), "restarted": _heading(material, "restarted")}
    return Scene(
        keyspace=subject.keyspace,
        title=subject.title(),
        broke=subject.broke(),
        height=drawing.y + 8,
        ticks=axis.ticks(),
        bands=_bands(material, axis),
        readings=tuple((FINAL_LEFT[name], headings[name]) for name in FINAL_LEFT if name in readings),
        notes=tuple(drawing.notes),
        summary=_summary(subject, shown),
        **{kind: tuple(parts) for kind, parts in drawing.parts.items()},  # type: ignore[arg-type]  # one list a field, filled by name
    )


def _bands(material: Material, axis: Axis) -> tuple[Band, ...]:
    bands: list[Band] = []
    free_from = 0.0
    for fault in material.chronicle.faults:
        if fault.begins < axis.ends and (fault.ends is None or fault.ends > axis.begins):
            x, width = axis.span(fault.begins, fault.ends)
            label = fault.title() if x >= free_from else ""
            free_from = x + len(label) * CHARACTER + 8 if label else free_from
            bands.append(Band(x, width, fault.title(), label))
    return tuple(bands)


def _window(
    material: Material, mine: Sequence[Statement], contested: Sequence[Statement], objects: Sequence[ObjectLanes]
) -> tuple[int, int]:
    """Return the interval to draw, ns: from just before the contested statements until the nodes' schemas stopped changing or the cluster settled."""
    met = contested or mine
    begins = min((one.invoked for one in met), default=0)
    ends = max((one.invoked if one.completed is None else one.completed for one in met), default=material.duration)
    phase = material.chronicle.phase("settle-settled")
    settled = material.duration if phase is None else phase.ends
    changed = [time for one in objects for lane in one.lanes for time, _ in lane.changes if begins <= time <= settled]
    ends = max([ends, *changed])
    margin = max((ends - begins) // 12, 2_000_000)
    return begins - margin, ends + margin


def _draw_operations(drawing: _Drawing, material: Material, keyspace: str, contested: set[int], budget: int) -> None:
    every = plain(_within(material.operations, drawing.axis))
    mine = every.filter(belongs(every, [keyspace]))
    processes = sorted({(row["node"] or "-", row["process"]) for row in mine.select(["node", "process"]).to_pylist()})
    if len(processes) > PROCESSES_DRAWN:
        drawing.notes.append(f"Only {PROCESSES_DRAWN} of {len(processes)} processes are drawn.")
    shown = processes[:PROCESSES_DRAWN]
    mine = _of_processes(mine, shown)
    candidates = list(read_statements(_affordable(mine, contested, budget)))
    if mine.num_rows > budget:
        left_out = f"{mine.num_rows - budget:,} of {mine.num_rows:,} operations of this race are not drawn"
        drawing.notes.append(f"{left_out}: a report has at most {OPERATIONS_DRAWN:,}.")
    others = _of_processes(every.filter(pc.invert(belongs(every, [keyspace]))), shown)
    if others.num_rows > min(OTHERS_DRAWN, budget - len(candidates)):
        drawing.notes.append(f"{others.num_rows:,} operations on other keyspaces in this time are not drawn.")
    else:
        candidates = sorted([*candidates, *read_statements(others)], key=lambda one: one.invoked)
    rows: dict[tuple[str, int], list[Statement]] = {process: [] for process in shown}
    for one in candidates:
        rows[one.node, one.process].append(one)
    for (node, process), own in rows.items():
        drawing.add("rows", Label(drawing.y + ROW / 2, f"p{process}", node))
        rooms = [*(drawing.axis.x(following.invoked) for following in own[1:]), PLOT_RIGHT]
        for one, room in zip(own, rooms, strict=False):  # `rooms` has one entry more if the row has no operations
            drawing.add("bars", _bar(drawing, one, keyspace, room=room, contested=one.index in contested))
        drawing.y += ROW
    drawing.y += 10


def _affordable(operations: pa.Table, contested: set[int], budget: int) -> pa.Table:
    """Select at most `budget` operations, in order of invocation: the contested ones, then the earliest others."""
    if operations.num_rows <= budget:
        return operations
    met = pc.is_in(operations.column("index"), value_set=pa.array(sorted(contested), pa.int64()))
    others = operations.filter(pc.invert(met)).slice(0, max(0, budget - len(contested)))
    return pa.concat_tables([operations.filter(met), others]).sort_by("invoked")


def _of_processes(operations: pa.Table, processes: Sequence[tuple[str, int]]) -> pa.Table:
    numbers = pa.array([process for _, process in processes], pa.int32())
    return operations.filter(pc.is_in(operations.column("process"), value_set=numbers))


def _bar(drawing: _Drawing, one: Statement, keyspace: str, *, room: float, contested: bool) -> Bar:
    x, width = drawing.axis.span(one.invoked, one.completed)
    width = max(width, 3)
    text = one.text.replace(f"{keyspace}.", "") if contested else one.f
    label, label_x = _label(text, one.f, x, width, room)
    lasted = "no answer" if one.completed is None else f"{(one.completed - one.invoked) / 1e6:.1f} ms"
    error = f"\n{shortened(one.error, 400)}" if one.error else ""
    return Bar(
        x=x,
        y=drawing.y + (ROW - BAR) / 2,
        width=width,
        type=one.type,
        title=f"op {one.index}: p{one.process} {one.node}\n{shortened(one.text, 600)}\n"
        f"{one.invoked / 1e9:.3f} s, {lasted}: {one.type}{error}",
        label=label,
        label_x=label_x,
        contested=contested,
        own=keyspace_of(one.key) == keyspace,
        open=one.completed is None,
    )


def _label(text: str, f: str, x: float, width: float, room: float) -> tuple[str, float | None]:
    """Choose a label and its place: inside the bar or behind it up to `room`, wherever more of it can be read.

    A statement is shortened if enough of it remains to distinguish it from others; otherwise its `f` is shown. The place is
    None if there is no room for either.
    """
    inside, behind = int((width - 8) / CHARACTER), int((room - x - width - 10) / CHARACTER)
    fits = max(inside, behind) if max(inside, behind) < len(text) else inside if inside >= len(text) else behind
    place = x + 5 if fits == inside else x + width + 4
    if fits >= min(len(text), LABEL_LEAST):
        return shortened(text, fits), place
    return (f, place) if fits >= len(f) else ("", None)


def _within(operations: pa.Table, axis: Axis) -> pa.Table:
    """Select the operations that are open at some time of the axis. Operations that never completed count only if they were invoked within it."""
    invoked, completed = operations.column("invoked"), operations.column("completed")
    ended = pc.fill_null(completed, invoked)
    return operations.filter(pc.and_(pc.less_equal(invoked, int(axis.ends)), pc.greater_equal(ended, int(axis.begins))))


def _most_telling(
    objects: Sequence[ObjectLanes], anomalies: Iterable[Anomaly], *, since: int
) -> tuple[list[ObjectLanes], list[str]]:
    """Select the objects to draw, and describe those left out: first the objects that an anomaly names or that nodes contradict one another about, then those that changed.

    A keyspace is drawn only if nodes contradict one another about it: its name is in the title.
    """
    named = {name.split(".", 1)[-1] for anomaly in anomalies for name in anomaly.objects}

    def telling(one: ObjectLanes) -> bool:
        return one.diverges() or (one.name in named and one.kind != "keyspace")

    worth = [one for one in objects if telling(one) or (one.kind != "keyspace" and one.changed_since(since))]
    chosen = sorted(worth, key=lambda one: not telling(one))[:OBJECTS_DRAWN]
    still = [one.name for one in objects if one not in worth and one.kind != "keyspace"]
    notes = [f"Unchanged, and not drawn: {first_of(still, 6)}."] if still else []
    if len(worth) > len(chosen):
        notes.append(f"{counted(len(worth) - len(chosen), 'more changed object')} not drawn.")
    return [one for one in objects if one in chosen], notes


def _draw_object(drawing: _Drawing, one: ObjectLanes, keyspace: str, contested: Sequence[Statement]) -> None:
    colours = {(state.id, state.digest): index % COLOURS for index, state in enumerate(one.states())}
    kind = f"in memory: {one.kind_in_memory or 'object'}" if one.kind == "live" else one.kind
    drawing.add("groups", Label(drawing.y + 11, f"{kind} {one.name}"))
    drawing.y += 18
    top = drawing.y
    for lane in one.lanes:
        drawing.add("lanes", Label(drawing.y + ROW / 2 - 2, lane.node))
        markers = [
            Marker(drawing.axis.x(statement.invoked), drawing.y, statement.text)
            for statement in contested
            if statement.node == lane.node and statement.key == f"{keyspace}.{one.name}"
        ]
        for segment in _segments(drawing, one.kind, lane, colours):
            drawing.add("segments", legible(segment, markers))
        for reading, state in lane.final.items():
            drawing.add("cells", _cell(drawing, one.kind, reading, state, colours))
        for marker in markers:
            drawing.add("markers", marker)
        drawing.y += ROW - 2
    for reading, left in FINAL_LEFT.items():
        if any(reading in lane.final for lane in one.lanes):
            height = drawing.y - top - 4
            drawing.add("agreements", Agreement(left + FINAL_WIDTH + 4, top, height, one.agrees(reading)))
    for state, definition in one.described():
        colour = colours[state.id, state.digest]
        drawing.add(
            "known", Known(f"{kind} {one.name}", colour, state.short(), shortened(definition, DEFINITION_LIMIT))
        )
    drawing.y += 12


def legible(segment: Segment, markers: Iterable[Marker]) -> Segment:
    """Move a label that markers would cross behind them, or drop it where it does not fit there."""
    label_x = segment.label_x
    length = len(segment.label) * CHARACTER
    for marker in sorted(markers, key=lambda one: one.x):
        if label_x - MARKER < marker.x < label_x + length + MARKER:
            label_x = marker.x + MARKER + 2
    fits = label_x + length < segment.x + segment.width
    return replace(segment, label_x=label_x) if fits else replace(segment, label="")


def _segments(
    drawing: _Drawing, kind: str, lane: Lane, colours: Mapping[tuple[str | None, str | None], int]
) -> list[Segment]:
    axis = drawing.axis
    before = [state for time, state in lane.changes if time <= axis.begins]
    changes = [(int(axis.begins), before[-1] if before else State("absent"))]
    changes += [(time, state) for time, state in lane.changes if axis.begins < time < axis.ends]
    ends = [time for time, _ in changes[1:]] + [int(axis.ends)]
    segments = []
    for (begins, state), end in zip(changes, ends, strict=True):
        x, width = axis.span(begins, end)
        short = state.short()
        segments.append(
            Segment(
                x=x,
                y=drawing.y,
                width=width,
                presence=state.presence,
                colour=colours.get((state.id, state.digest)) if state.presence == "present" else None,
                label=short if len(short) * CHARACTER + 12 < width else "",
                label_x=x + INSET,
                title=f"{lane.node} from {begins / 1e9:.3f} s: {short} {shortened(in_a_line(kind, state.definition), 300)}",
            )
        )
    return segments


def _cell(
    drawing: _Drawing,
    kind: str,
    reading: FinalReading,
    state: State,
    colours: Mapping[tuple[str | None, str | None], int],
) -> Segment:
    return Segment(
        x=FINAL_LEFT[reading],
        y=drawing.y,
        width=FINAL_WIDTH,
        presence=state.presence,
        colour=colours.get((state.id, state.digest)) if state.presence == "present" else None,
        label=state.short(),
        label_x=FINAL_LEFT[reading] + INSET,
        title=f"{state.short()} {shortened(in_a_line(kind, state.definition), 300)}",
    )


def _heading(material: Material, reading: str) -> str:
    name = {"settled": "settled", "restarted": "after restart"}[reading]
    observations = plain(material.observations)
    rows = observations.filter(pc.equal(observations.column("phase"), reading))
    times = rows.column("time")
    return f"{name}, {pc.max(times).as_py() / 1e9:.1f} s" if rows.num_rows else name


def _summary(subject: _Subject, shown: Sequence[ObjectLanes]) -> str:
    sentences = []
    for one in shown:
        for reading, word in (("settled", "settled"), ("restarted", "after restart")):
            finals = {lane.node: lane.final[reading].short() for lane in one.lanes if reading in lane.final}  # type: ignore[index]  # a literal of FinalReading
            if finals:
                said = joined(f"{node}: {what}" for node, what in finals.items())
                sentences.append(f"{one.kind} {one.name}, {word}: {said}")
    return f"{subject.title()} in {subject.keyspace}. {counted(len(shown), 'object')}. {'. '.join(sentences)}."
