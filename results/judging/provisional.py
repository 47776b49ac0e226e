"""Provisional: judgements of what nodes show while a run goes on, from the samples of its observer, long before it is settled and restarted.

A keyspace is looked at when it is quiet: no operation is pending, no fault is in place, and every node was read often enough since anything
changed there. Then the last state that each node showed is judged as if it were the final one, by the checkers that declare `judges_early`;
and so are the final readings, as soon as they are there. What a checker declares as `conflicts` is told before: of a keyspace that is
not quiet, when it is seen for the second time, `_AGAIN_NS` later. An anomaly found so is provisional: nodes may still come to agree, and nothing of
it is in the verdict.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.findings.catalogue import prominence_of
from schemaquake.harness.model.observation import kind_in_memory
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.protocols import Checker
from schemaquake.harness.model.records import OBSERVATIONS, Records, keyspace_of, plain
from schemaquake.harness.model.traits import checker_traits
from schemaquake.harness.model.verdict import Anomaly
from schemaquake.harness.registry import load_all
from schemaquake.harness.sealed_json import dump_sealed, load_sealed
from schemaquake.harness.units import S
from schemaquake.results.judging.judge import judge
from schemaquake.results.judging.keyspaces import events_of, observations_of
from schemaquake.results.store.store import Store

__all__ = ["EarlyJudge", "ProvisionalAnomaly", "read_provisional", "write_provisional"]

FILE_NAME: Final = "provisional.json"
_SCHEMA: Final = 1

_QUIET_NS: Final = 2 * S
_AGAIN_NS: Final = S
_READ_MOST: Final = 32 << 20  # bytes of journals; merging more, again and again, would take a core from the cluster
_LIMIT_S: Final = 10.0
_RUNNING: Final = "running"
_FINAL: Final = "settled"
_BEYOND: Final = 1 << 40
"""The number of a made reading, beyond those of all samples."""
_DISTURBING: Final = ("fault-begins", "fault-ends", "fault-failed", "node-start", "node-died")

_Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionalAnomaly:
    """An anomaly that was visible at a moment of the run: the foremost of one keyspace."""

    seconds: float
    """Since the run began."""
    type: str
    objects: tuple[str, ...]
    nodes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the anomaly as provisional.json holds it."""
        return {
            "seconds": round(self.seconds, 1),
            "type": self.type,
            "objects": list(self.objects),
            "nodes": list(self.nodes),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ProvisionalAnomaly:
        """Parse what `to_json` returned. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(
            seconds=float(document["seconds"]),
            type=str(document["type"]),
            objects=tuple(map(str, document["objects"])),
            nodes=tuple(map(str, document["nodes"])),
        )

    def __str__(self) -> str:
        """Render it in one line: `24.1 s merged-definitions sq_create_table_003.t, n1 n2`."""
        return f"{self.seconds:.1f} s {self.type} {', '.join(self.objects)}, {' '.join(self.nodes)}"


@dataclass
class EarlyJudge:
    """A judge of one run that goes on, which tells each keyspace's foremost anomaly once."""

    folder: Path
    _judged: dict[str, tuple[int, int]] = field(default_factory=dict, init=False)
    """Keyspace → the last event and the last change of what was judged."""
    _told: set[tuple[str, tuple[str, ...]]] = field(default_factory=set, init=False)
    _seen: dict[tuple[str, tuple[str, ...]], int] = field(default_factory=dict, init=False)
    """Conflicts of keyspaces that were not quiet at the last look, and since when (ns) each was there at every look."""
    _changed: dict[str, int] = field(default_factory=dict, init=False)
    """Keyspace → the last change of what was judged before it was quiet."""
    _size: int = field(default=-1, init=False)

    def look(self) -> Sequence[ProvisionalAnomaly]:
        """Judge the keyspaces that have become quiet, and return the anomalies that are new. Raises HistoryError for damaged journals."""
        size = sum(path.stat().st_size for path in self.folder.glob("journals/*.jsonl"))
        if size in {0, self._size} or size > _READ_MOST:
            return ()
        self._size = size
        moment = _moment_of(Store(self.folder).merge())
        if moment is None:
            return ()
        quiet = {name: state for name, state in moment.quiet() if self._judged.get(name) != state}
        if not quiet:
            return self._new(self._conflicts(moment))
        self._judged |= quiet
        verdict = judge(moment.records(quiet), checkers=_early_checkers(), engine="local", limit_s=_LIMIT_S)
        foremost: dict[str, ProvisionalAnomaly] = {}
        for anomaly in sorted(verdict.anomalies, key=lambda one: -prominence_of(one.type)):
            name = next((keyspace_of(each) for each in anomaly.objects), None)
            if name in quiet:
                one = ProvisionalAnomaly(
                    seconds=moment.now_ns / S, type=anomaly.type, objects=anomaly.objects, nodes=anomaly.nodes
                )
                foremost.setdefault(name, one)
        return self._new([*(one for _, one in sorted(foremost.items())), *self._conflicts(moment)])

    def _new(self, found: Iterable[ProvisionalAnomaly]) -> list[ProvisionalAnomaly]:
        """Return the anomalies that were not returned before."""
        new = {(one.type, one.objects): one for one in found if (one.type, one.objects) not in self._told}
        self._told |= new.keys()
        return list(new.values())

    def _conflicts(self, moment: _Moment) -> Iterator[ProvisionalAnomaly]:
        """Yield the conflicts of keyspaces that are not quiet yet, where they were seen before, and nothing passed between."""
        changes = {name: changed for name, changed in moment.changes().items() if name not in self._judged}
        waiting = {keyspace_of(objects[0]) for _, objects in self._seen}
        names = {name for name, changed in changes.items() if self._changed.get(name) != changed or name in waiting}
        self._changed |= changes
        found: dict[tuple[str, tuple[str, ...]], Anomaly] = {}
        if names:
            checkers = [checker for checker in _early_checkers() if checker_traits(checker).conflicts]
            early = {type_ for checker in checkers for type_ in checker_traits(checker).conflicts}
            verdict = judge(moment.records(names), checkers=checkers, engine="local", limit_s=_LIMIT_S)
            found = {(one.type, one.objects): one for one in verdict.anomalies if one.type in early and one.objects}
        self._seen = {key: self._seen.get(key, moment.now_ns) for key in found if key not in self._told}
        for key, since in sorted(self._seen.items()):
            if moment.now_ns - since >= _AGAIN_NS:
                yield ProvisionalAnomaly(seconds=since / S, type=key[0], objects=key[1], nodes=found[key].nodes)


def write_provisional(folder: Path, anomalies: Sequence[ProvisionalAnomaly]) -> None:
    """Write what was visible so far into a run's folder; a reader sees the old file or the new one."""
    draft = folder / f".{FILE_NAME}.new"
    draft.write_bytes(dump_sealed({"schema": _SCHEMA, "anomalies": [one.to_json() for one in anomalies]}))
    draft.replace(folder / FILE_NAME)


def read_provisional(folder: Path) -> list[ProvisionalAnomaly]:
    """Read what was visible so far; nothing if nothing was, or the file cannot be read."""
    try:
        found = load_sealed((folder / FILE_NAME).read_bytes())["anomalies"]
        return [ProvisionalAnomaly.from_json(one) for one in found]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _early_checkers() -> list[Checker]:
    return [checker for checker in load_all("checkers").values() if checker_traits(checker).judges_early]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """The run as far as its journals have it."""

    history: pa.Table
    observations: pa.Table
    now_ns: int
    """The time of the oldest among the nodes' latest readings."""
    disturbed_ns: int
    """The time of the last fault, or start of a node."""
    quiet_ns: int | None
    """How long nothing may have happened; None for final readings."""
    events: Mapping[str, tuple[int, int]]
    """Keyspace → index and time of its last event, of those without a pending operation."""
    states: Mapping[str, Mapping[tuple[Any, ...], _Row]]
    """Keyspace → the last row of each object on each node; the empty name has the nodes' own."""

    def quiet(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield the keyspaces in which nothing happens any more, each with its last event and its last change."""
        for name, (index, time) in self.events.items():
            if name not in self.states:
                continue
            changed = max(row["time"] for row in self.states[name].values())
            latest = max(time, changed, self.disturbed_ns)
            if self.quiet_ns is None or self.now_ns - latest >= self.quiet_ns:
                yield name, (index, changed)

    def changes(self) -> dict[str, int]:
        """Map each keyspace to the time of the last change that a node showed of it."""
        return {name: max(row["time"] for row in rows.values()) for name, rows in self.states.items() if name and rows}

    def records(self, keyspaces: Collection[str]) -> Records:
        """Return the records of these keyspaces, with the last state of each node as a final reading."""
        final = [
            {**row, "phase": _FINAL, "sample": _BEYOND, "time": self.now_ns}
            for name in ("", *sorted(keyspaces))
            for row in self.states[name].values()
            if row["definition"] is not None or row["error"] is not None
        ]
        final.sort(key=lambda row: (row["node"], row["kind"] != "version"))
        before = observations_of(self.observations, keyspaces)
        made = pa.Table.from_pylist(final, schema=OBSERVATIONS)
        return Records.of(
            events_of(self.history, keyspaces), pa.concat_tables([before.cast(OBSERVATIONS), made]).combine_chunks()
        )


def _moment_of(records: Records) -> _Moment | None:
    """Read what can be judged; None before the main phase, under a fault, and once nodes are restarted."""
    history, observations = plain(records.history), plain(records.observations)
    notes = history.filter(pc.equal(history["process"], NEMESIS)).to_pylist()
    begun = {value.get("phase") for note in notes if note["f"] == "phase" and (value := _value(note))}
    final = observations.filter(pc.equal(observations["phase"], _FINAL)).to_pylist()
    if final:  # before restarts, and so long before the verdict
        return _final_moment(history, observations, final) if _is_whole(observations, final) else None
    if "main" not in begun or "restart" in begun:
        return None
    disturbing = [note for note in notes if note["f"] in _DISTURBING]
    open_faults = [_value(note).get("id") for note in disturbing if note["f"] == "fault-begins"]
    closed = {_value(note).get("id") for note in disturbing if note["f"] in {"fault-ends", "fault-failed"}}
    if any(one not in closed for one in open_faults):
        return None
    running = observations.filter(pc.equal(observations["phase"], _RUNNING))
    states = _states(running.to_pylist())
    latest = {row["node"]: row for row in states.get("", {}).values() if row["kind"] == "version"}
    if not latest or any(row["error"] is not None for row in latest.values()):
        return None
    planned = next((_value(note) for note in notes if note["f"] == "run-planned"), {})
    return _Moment(
        history=history,
        observations=running,
        now_ns=min(row["time"] for row in latest.values()),
        disturbed_ns=max((note["time"] for note in disturbing), default=0),
        quiet_ns=_QUIET_NS + int(S * float(planned.get("pull_delay_s") or 0)),
        events=dict(_last_events(history)),
        states=states,
    )


def _is_whole(observations: pa.Table, final: Sequence[_Row]) -> bool:
    """Return whether each node that could be read last while the run went on is in the final reading: it is written node by node."""
    running = observations.filter(pc.equal(observations["phase"], _RUNNING)).to_pylist()
    last = {row["node"]: row["error"] for row in running if row["kind"] == "version"}
    return {node for node, error in last.items() if error is None} <= {row["node"] for row in final}


def _final_moment(history: pa.Table, observations: pa.Table, rows: Sequence[_Row]) -> _Moment:
    """Take the final readings themselves: nothing has to be waited for any more."""
    states = _states(rows)
    return _Moment(
        history=history,
        observations=observations.filter(pc.equal(observations["phase"], _RUNNING)),
        now_ns=max(row["time"] for row in rows),
        disturbed_ns=0,
        quiet_ns=None,
        events=dict(_last_events(history, pending=True)),
        states=states,
    )


def _value(note: _Row) -> Mapping[str, Any]:
    value = json.loads(note["value"]) if note["value"] else {}
    return value if isinstance(value, dict) else {}


def _states(rows: Iterable[_Row]) -> dict[str, dict[tuple[Any, ...], _Row]]:
    """Take the last row of each object on each node. Samples have what changed since the one before."""
    states: dict[str, dict[tuple[Any, ...], _Row]] = defaultdict(dict)
    for row in rows:
        definition = None if row["definition"] is None or row["kind"] != "live" else json.loads(row["definition"])
        inner = kind_in_memory(row["kind"], row["id"], definition)
        states[row["keyspace"] or ""][row["node"], row["kind"], row["name"], inner] = row
    return states


def _last_events(history: pa.Table, *, pending: bool = False) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the last event of each keyspace; without `pending`, of those in which no operation is pending."""
    begun: dict[int, str] = {}
    last: dict[str, tuple[int, int]] = {}
    columns = ("index", "time", "process", "type", "key")
    for row in history.select(columns).filter(pc.not_equal(history["process"], NEMESIS)).to_pylist():
        name = keyspace_of(row["key"])
        if name is not None:
            last[name] = (row["index"], row["time"])
        if row["type"] == "invoke":
            begun[row["process"]] = name or ""
        else:
            begun.pop(row["process"], None)
    yield from ((name, event) for name, event in last.items() if pending or name not in begun.values())
