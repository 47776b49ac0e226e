"""Lanes: what each node showed of one schema object, from the race to the end of the run.

Computed from observations. `running` rows are changes. A node's last `settled` and `restarted` readings are complete, so
an object without a row there is absent. A node that could not be read is drawn as unread, never as absent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import orjson
import pyarrow.compute as pc

from schemaquake.harness.model.observation import kind_in_memory
from schemaquake.harness.model.records import plain
from schemaquake.results.report.material import Material

__all__ = ["FinalReading", "Lane", "ObjectLanes", "State", "in_a_line", "object_lanes"]

Presence: TypeAlias = Literal["present", "absent", "unread", "down"]
FinalReading: TypeAlias = Literal["settled", "restarted"]

KINDS_DRAWN: Final = ("keyspace", "type", "function", "aggregate", "table", "view", "live")
"""Kinds of objects, in order of dependency."""


@dataclass(frozen=True, slots=True)
class State:
    """One object as one node shows it. `unread`: the node did not answer; `down`: it did not start."""

    presence: Presence
    id: str | None = None
    digest: str | None = None
    definition: Any = field(default=None, compare=False)
    """The definition as the node returned it; `digest` represents it in comparisons."""

    def short(self) -> str:
        """Describe the state in short: `5f3ca1 · 9a1b` (id and definition), or the reason why there is none."""
        if self.presence != "present":
            return {"absent": "absent", "unread": "no answer", "down": "did not start"}[self.presence]
        shown_id = "" if self.id is None else f"{self.id[:6]} · "
        return f"{shown_id}{self.digest}"


@dataclass(frozen=True, slots=True)
class Lane:
    """One node's states of one object: changes in order of time (ns), and the final readings."""

    node: str
    changes: tuple[tuple[int, State], ...]
    final: Mapping[FinalReading, State]


@dataclass(frozen=True, slots=True)
class ObjectLanes:
    """One object with one lane per node."""

    kind: str
    name: str
    lanes: tuple[Lane, ...]
    kind_in_memory: str | None = None
    """The kind of the object of which this is what the nodes have in memory."""

    def states(self) -> tuple[State, ...]:
        """Return every distinct present state of the object, in order of first appearance."""
        seen: dict[tuple[str | None, str | None], State] = {}
        ordered = sorted(
            ((time, state) for lane in self.lanes for time, state in lane.changes), key=lambda change: change[0]
        )
        finals = [state for lane in self.lanes for state in lane.final.values()]
        for state in [*(state for _, state in ordered), *finals]:
            if state.presence == "present":
                seen.setdefault((state.id, state.digest), state)
        return tuple(seen.values())

    def described(self) -> tuple[tuple[State, str], ...]:
        """Return every distinct present state with its definition on one line: its columns, and the settings that distinguish it."""
        states = self.states()
        rests = [_rest(self.kind, state.definition) for state in states]
        shared = set.intersection(*(set(rest.items()) for rest in rests)) if rests else set()
        described = []
        for state, rest in zip(states, rests, strict=True):
            apart = ", ".join(f"{name} = {value}" for name, value in rest.items() if (name, value) not in shared)
            line = in_a_line(self.kind, state.definition)
            described.append((state, f"{line} with {apart}" if apart else line))
        return tuple(described)

    def changed_since(self, time: int) -> bool:
        """Return True if a node's state changed after that time, or differs in a final reading."""
        return any(_changed(lane, time) for lane in self.lanes)

    def agrees(self, reading: FinalReading) -> bool:
        """Return True if every node that answered shows the same state in that reading."""
        said = [lane.final[reading] for lane in self.lanes if reading in lane.final]
        answers = [state for state in said if state.presence in {"present", "absent"}]
        return all(state == answers[0] for state in answers)

    def diverges(self) -> bool:
        """Return True if nodes contradict one another in a final reading."""
        return not (self.agrees("settled") and self.agrees("restarted"))


def object_lanes(material: Material, keyspace: str) -> tuple[ObjectLanes, ...]:
    """Build the lanes of every object of a keyspace that at least one node has shown, in order of kind and name.

    The schema in the nodes' memory (`live`) is shown only where it differs between nodes, because it mostly repeats the tables.
    """
    observations = plain(material.observations)
    own = observations.filter(
        pc.and_kleene(pc.equal(observations.column("keyspace"), keyspace), pc.is_null(observations.column("error")))
    ).to_pylist()
    answered = _answered(observations.filter(pc.equal(observations.column("kind"), "version")).to_pylist())
    down = set(material.chronicle.never_back())
    objects = sorted(
        {(row["kind"], row["name"] or keyspace, _kind_in_memory(row)) for row in own if row["kind"] in KINDS_DRAWN},
        key=lambda found: (KINDS_DRAWN.index(found[0]), found[1], found[2] or ""),
    )
    lanes = [
        ObjectLanes(
            kind,
            name,
            tuple(
                _lane(node, [row for row in own if _is(row, kind, name, inner, keyspace, node)], answered, down)
                for node in material.nodes
            ),
            inner,
        )
        for kind, name, inner in objects
    ]
    return tuple(one for one in lanes if one.kind != "live" or one.diverges())


def _is(row: Mapping[str, Any], kind: str, name: str, inner: str | None, keyspace: str, node: str) -> bool:
    return (row["kind"], row["name"] or keyspace, row["node"]) == (kind, name, node) and _kind_in_memory(row) == inner


def _kind_in_memory(row: Mapping[str, Any]) -> str | None:
    if row["kind"] != "live":
        return None
    return kind_in_memory("live", row["id"], row["definition"] and orjson.loads(row["definition"]))


def _answered(versions: Iterable[Mapping[str, Any]]) -> Mapping[tuple[str, str], int]:
    """Map (phase, node) to the time of its last successful sample, ns."""
    last: dict[tuple[str, str], int] = {}
    for row in versions:
        if row["error"] is None:
            last[row["phase"], row["node"]] = row["sample"]
    return last


def _lane(
    node: str, rows: Sequence[Mapping[str, Any]], answered: Mapping[tuple[str, str], int], down: set[str]
) -> Lane:
    changes = _changes([(row["time"], _state(row)) for row in rows if row["phase"] == "running"])
    phases = {phase for phase, _ in answered}
    final = {reading: _final(node, rows, reading, answered, down) for reading in _READINGS if reading in phases}
    if "restarted" not in final and down:
        final["restarted"] = _final(node, rows, "restarted", answered, down)
    return Lane(node, changes, final)


def _changes(readings: Sequence[tuple[int, State]]) -> tuple[tuple[int, State], ...]:
    """Drop readings that repeat the known state: a new session reports everything again."""
    kept: list[tuple[int, State]] = []
    for time, state in readings:
        if not kept or kept[-1][1] != state:
            kept.append((time, state))
    return tuple(kept)


def _changed(lane: Lane, time: int) -> bool:
    if any(at > time for at, _ in lane.changes):
        return True
    known = lane.changes[-1][1] if lane.changes else State("absent")
    return any(state != known for state in lane.final.values() if state not in _MUTE)


_READINGS: Final[tuple[FinalReading, ...]] = ("settled", "restarted")


def _final(
    node: str,
    rows: Sequence[Mapping[str, Any]],
    reading: FinalReading,
    answered: Mapping[tuple[str, str], int],
    down: set[str],
) -> State:
    sample = answered.get((reading, node))
    if sample is None:
        return State("down" if reading == "restarted" and node in down else "unread")
    said = [row for row in rows if row["phase"] == reading and row["sample"] == sample]
    return _state(said[-1]) if said else State("absent")


def _state(row: Mapping[str, Any]) -> State:
    if row["definition"] is None:
        return State("absent")
    definition = orjson.loads(row["definition"])
    canonical = orjson.dumps(definition, option=orjson.OPT_SORT_KEYS)
    return State("present", row["id"], hashlib.blake2b(canonical, digest_size=2).hexdigest(), definition)


def in_a_line(kind: str, definition: Any) -> str:
    """Render a definition on one line: columns with * for the partition key, fields, arguments."""
    if not isinstance(definition, Mapping):
        return "" if definition is None else str(definition)
    match kind:
        case "table" | "view":
            columns = sorted(definition.get("columns", {}).items(), key=_declared)
            text = ", ".join(
                f"{name} {one.get('type', '?')}{_KEY_MARKS.get(one.get('kind'), '')}" for name, one in columns
            )
            return f"({text})" if columns else "(no columns)"
        case "type":
            return "(" + ", ".join(" ".join(map(str, one)) for one in definition.get("fields", ())) + ")"
        case "function":
            arguments = ", ".join(" ".join(map(str, one)) for one in definition.get("arguments", ()))
            return f"({arguments}) → {definition.get('returns')}"
        case "aggregate":
            return f"({', '.join(map(str, definition.get('arguments', ())))}) by {definition.get('state_function')}"
        case "live":
            return " ".join(_statement(definition)[0].split())
    return _json(definition)


def _rest(kind: str, definition: Any) -> Mapping[str, str]:
    """Collect the settings that `in_a_line` leaves out, one text per setting: options, indexes, dropped columns."""
    if not isinstance(definition, Mapping):
        return {}
    if kind == "live":
        settings = [one.partition(" = ") for one in _statement(definition)[1].rstrip(";").split(" AND ")]
        return {name.strip(): " ".join(value.split()) for name, _, value in settings if name.strip()}
    if kind not in {"table", "view"}:
        return {}
    nested = {group: value for group, value in definition.items() if group != "columns"}
    found: dict[str, str] = {}
    for group, value in nested.items():
        label = "" if group == "options" else f"{group.replace('_', ' ').removesuffix('s')} "
        entries = value.items() if isinstance(value, Mapping) else [("", value)]
        found |= {f"{label}{name}".strip(): _json(entry) for name, entry in entries}
    return found


def _statement(definition: Mapping[str, Any]) -> tuple[str, str]:
    """Split a CREATE statement of a node's memory into the part before its options and the options. Without a statement, use the node's answer."""
    if "columns" in definition:
        return "(" + ", ".join(map(" ".join, definition["columns"].items())) + ")", ""
    if "refusal" in definition:
        return str(definition["refusal"]), ""
    head, _, options = str(definition.get("statement", "")).partition(" WITH ")
    return head, options


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


_MUTE: Final = frozenset({State("unread"), State("down")})
_KEY_MARKS: Final = {"partition_key": "*", "clustering": "+", "static": "!"}
_KEY_ORDER: Final = {"partition_key": 0, "clustering": 1, "static": 2}


def _declared(column: tuple[str, Mapping[str, Any]]) -> tuple[int, int, str]:
    name, definition = column
    return _KEY_ORDER.get(str(definition.get("kind")), 3), definition.get("position") or 0, name
