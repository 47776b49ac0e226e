"""Lies: a clean run's records with one fact of them falsified, every fact in turn.

Nothing here knows what checkers judge. Records are walked as they are: every leaf of every definition that a node showed, on
disk and in memory; every object; every row that a read returned; every answer; every note; every reading, log and
phase as a whole. A fact of a final reading is falsified on one node, on a majority and on all, in the settled reading, in the restarted one
and in both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import groupby
from typing import Any

import orjson
import pyarrow as pa
from described import described

from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import HISTORY, LOGS, OBSERVATIONS, Records

__all__ = ["CleanRun", "Lie", "NotThereError", "answered_operations", "loaded"]

PHASES: Mapping[str, tuple[str, ...]] = {
    "settled": ("settled",),
    "restarted": ("restarted",),
    "both": ("settled", "restarted"),
}
_OF_NODES = frozenset({"version", "log", "ring", "epochs"})
"""Kinds of observations that tell of the node as a whole, and of no object."""
_NAMED = {"columns", "dropped_columns", "indexes", "members", "nodes", "versions", "peers", "gossip", "directory"}
"""Maps whose keys are names: facts of one column are of the same class as those of another."""
_OPPOSITE: Mapping[Any, Any] = {"asc": "desc", "ASC": "DESC", "true": "false", "false": "true"}
_STAY = frozenset({"NULL", "NOT", "IS", "EXISTS", "KEY"})
_TOKEN = re.compile(r"'(?:[^']|'')*'|[\w.]+")
_CLAUSE = re.compile(r"\b(?:WITH|AND)\s+(\w+)\s*=\s")
_REFUSAL = "InvalidRequest: it cannot be done"


_ERRORS: Mapping[str, Mapping[str, str]] = {
    "an error without an exception": {
        "thread": "main",
        "message": "The local schema cannot be trusted any more; giving up",
    },
    "an error": {"thread": "MigrationStage:1", "message": "Exception in thread Thread[MigrationStage:1,5,main]"},
    "an error of a stage": {
        "thread": "MutationStage-2",
        "message": "Uncaught exception on thread Thread[MutationStage-2,5,main]",
        "stack": "java.lang.NullPointerException: null\n\tat org.apache.cassandra.db.Mutation.apply(Mutation.java:1)\n"
        "Caused by: java.io.EOFException: null",
    },
}


class NotThereError(LookupError):
    """A lie cannot be told: not all of the readings that it is about have that fact."""


@dataclass(frozen=True)
class Lie:
    """One falsified fact. `kind` is its class, `place` the nodes and phases (empty where it has none), `text` the fact.

    `tell` gives the records with it. Raises NotThereError.
    """

    kind: str
    place: str
    text: str
    tell: Callable[[], Records]


@dataclass(frozen=True)
class _Edit:
    """New fields of rows, by row; rows that go; rows that come."""

    changed: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    removed: Collection[int] = ()
    added: Sequence[Mapping[str, Any]] = ()


def answered_operations(history: Sequence[Mapping[str, Any]]) -> Sequence[tuple[int, int]]:
    """(invocation, completion), as places in a history, of every operation of a client that was answered, in the order of the answers."""
    under_way: dict[int, int] = {}
    found = []
    for number, event in enumerate(history):
        if event["process"] == NEMESIS:
            continue
        if event["type"] == "invoke":
            under_way[event["process"]] = number
        else:
            found.append((under_way.pop(event["process"]), number))
    return found


def _by(asked: Mapping[str, Any]) -> str:
    """What a read looks rows up by, for the name of its class."""
    return " by index" if asked.get("index") else " by view" if asked.get("base") else ""


class CleanRun:
    """A run in which nothing is wrong. `retold`: its nodes' memories can be told anew from what is on their disks."""

    def __init__(self, records: Records, *, retold: bool = False) -> None:
        self.records = records
        self._retold = retold
        self._history = _plain_rows(records.history)
        self._observations = _plain_rows(records.observations)
        self._definitions = [loaded(row["definition"]) for row in self._observations]
        self._values = [loaded(row["value"]) for row in self._history]
        self._nodes = sorted({row["node"] for row in self._observations})

    def lies(self) -> Iterator[Lie]:
        """Every lie, in an order that never changes."""
        yield from self._objects()
        yield from self._attributes()
        yield from self._sightings()
        yield from self._answers()
        yield from self._reads()
        yield from self._values_read()
        yield from self._operations()
        yield from self._times()
        yield from self._notes()
        yield from self._gaps()

    def facts(self) -> Iterator[Lie]:
        """Every lie, and every one about a question, in an order that never changes."""
        yield from self.lies()
        yield from self.questions()

    # ── final readings ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _groups(self) -> Mapping[str, Sequence[str]]:
        return {"one": self._nodes[1:2], "majority": self._nodes[: len(self._nodes) // 2 + 1], "all": self._nodes}

    def _places(self) -> Iterator[tuple[str, Collection[tuple[str, str]]]]:
        for of_nodes, nodes in self._groups.items():
            for of_phases, phases in PHASES.items():
                yield f"{of_nodes}, {of_phases}", {(phase, node) for phase in phases for node in nodes}

    @cached_property
    def _final(self) -> Mapping[tuple[Any, ...], Mapping[tuple[str, str], int]]:
        """(kind, keyspace, name, id of a directory) → (phase, node) → row, of the last reading of every node."""
        last: dict[tuple[str, str], int] = {}
        for row in self._observations:
            if row["phase"] != "running" and row["kind"] == "version":
                last[row["phase"], row["node"]] = row["sample"]
        found: dict[tuple[Any, ...], dict[tuple[str, str], int]] = {}
        for number, row in enumerate(self._observations):
            place = (row["phase"], row["node"])
            if row["phase"] != "running" and (row["sample"] == last.get(place) or row["kind"] == "data-directory"):
                directory = row["id"] if row["kind"] == "data-directory" else None
                found.setdefault((row["kind"], row["keyspace"], row["name"], directory), {})[place] = number
        return found

    @cached_property
    def _ids(self) -> Collection[str]:
        """Ids of the tables and views of the final readings, as the ends of names of their directories are."""
        rows = (row for (kind, *_), found in self._final.items() if kind in {"table", "view"} for row in found.values())
        return {str(self._observations[row]["id"]).replace("-", "") for row in rows}

    def _of_object(self, kind: str, keyspace: str | None, name: str | None) -> list[Mapping[tuple[str, str], int]]:
        """The rows of what a memory has under a name, with or without arguments; and of its indexes."""
        bare = (name or "").split("(")[0]
        return [
            rows
            for (other, where, within, _), rows in self._final.items()
            if other == "live" and where == keyspace and (within or "").split("(")[0] == bare
            if kind == "keyspace" or within is not None
        ]

    def _objects(self) -> Iterator[Lie]:
        """Objects that are gone, and objects that nothing asked for; on disk, in memory, and in both."""
        for (kind, keyspace, name, _), rows in self._final.items():
            if kind in _OF_NODES:
                continue
            sides = [("disk" if kind != "live" else "memory", [rows])]
            if kind not in {"live", "data-directory"} and self._of_object(kind, keyspace, name):
                sides.append(("disk and memory", [rows, *self._of_object(kind, keyspace, name)]))
            shown = self._shown_kind(kind, rows)
            for side, some in sides:
                for place, where in self._places():
                    gone = [row for each in some for at, row in each.items() if at in where]
                    subject = f"{shown} {keyspace}.{name}"
                    yield self._observed(f"{side} {shown}: gone", place, subject, _Edit(removed=gone))
                    added = [self._ghost(self._observations[row]) for row in gone]
                    yield self._observed(f"{side} {shown}: nobody asked", place, subject, _Edit(added=added))

    def _shown_kind(self, kind: str, rows: Mapping[Any, int]) -> str:
        first = self._observations[next(iter(rows.values()))]
        if kind == "data-directory" and first["id"] is not None and first["id"] not in self._ids:
            return "data-directory of a former life"
        if kind != "live":
            return kind
        definition = self._definitions[next(iter(rows.values()))]
        return str(definition["kind"] if isinstance(definition, dict) else "object")

    @staticmethod
    def _ghost(row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same object under another name, and a table under another id."""
        bare = (row["name"] or row["keyspace"]).split("(")[0]
        definition = row["definition"].replace(f".{bare}", ".ghost") if row["kind"] == "live" else row["definition"]
        definition = re.sub(rf"\b(KEYSPACE|INDEX) {re.escape(bare)}\b", r"\1 ghost", definition)
        identity = row["id"] and f"{int(row['id'][:8], 16) ^ 0xF0F0F0F0:08x}{row['id'][8:]}"
        name = row["name"] and row["name"].replace(bare, "ghost", 1)
        keyspace = row["keyspace"] if row["name"] else "ghost"
        return {**row, "name": name, "keyspace": keyspace, "definition": definition, "id": identity}

    def _attributes(self) -> Iterator[Lie]:
        """Every leaf, entry and id of every object."""
        pool = self._pool()
        for (kind, keyspace, name, _), rows in self._final.items():
            first = next(iter(rows.values()))
            subject = f"{kind} {keyspace}.{name}"
            side = "memory" if kind == "live" else "disk"
            shown = self._shown_kind(kind, rows)
            changes = list(_changes(self._definitions[first], pool, kind))
            if self._observations[first]["id"] is not None and kind != "data-directory":
                changes.append(_Change(("id",), "id changed", lambda _: None))
            for change in changes:
                for place, where in self._places():
                    some = {row for at, row in rows.items() if at in where}
                    text = f"{subject}: {'.'.join(map(str, change.path))}"
                    yield self._observed(
                        f"{side} {shown}: {change.what}", place, text, partial(self._edit, change, some)
                    )
                    if self._retold and side == "disk" and kind in _REMEMBERED and change.what != "id changed":
                        both = partial(self._retelling, change, some)
                        yield self._observed(f"disk and memory {shown}: {change.what}", place, text, both)

    def _pool(self) -> Mapping[str, Sequence[Any]]:
        """The values that facts of one class have anywhere in the final readings."""
        pool: dict[str, dict[bytes, Any]] = {}
        for (kind, *_), rows in self._final.items():
            for row in rows.values():
                for path, leaf in _leaves(self._definitions[row]):
                    pool.setdefault(f"{kind} {_general(path)}", {})[orjson.dumps(leaf)] = leaf
        return {name: [values[text] for text in sorted(values)] for name, values in pool.items()}

    def _edit(self, change: _Change, rows: Collection[int]) -> _Edit:
        """The change of these rows. Raises NotThereError if one of them has no such fact."""
        if change.what == "id changed":
            return _Edit({row: {"id": _other_id(self._observations[row]["id"])} for row in rows})
        changed = {}
        for row in rows:
            definition = orjson.loads(orjson.dumps(self._definitions[row]))
            try:
                change.apply(definition)
            except (KeyError, IndexError, TypeError) as error:
                raise NotThereError(change.what) from error
            changed[row] = {"definition": orjson.dumps(definition).decode()}
        return _Edit(changed)

    def _retelling(self, change: _Change, rows: Collection[int]) -> _Edit:
        """The same lie, told by memory as by disk. Raises NotThereError if no statement can tell it."""
        edit = self._edit(change, rows)
        changed = dict(edit.changed)
        for row, fields in edit.changed.items():
            seen = self._observations[row]
            definition = orjson.loads(fields["definition"])
            try:
                told = list(described(seen["kind"], seen["keyspace"], seen["name"] or "", definition))
            except (KeyError, ValueError) as error:
                raise NotThereError(change.what) from error
            statements = {(name or "").split("(")[0]: (kind, text) for kind, name, text in told}
            for remembered in self._of_object(seen["kind"], seen["keyspace"], seen["name"]):
                live = remembered.get((seen["phase"], seen["node"]))
                if live is not None and (seen["name"] or "") in statements:
                    kind, text = statements[seen["name"] or ""]
                    changed[live] = {"definition": orjson.dumps({"kind": kind, "statement": text}).decode()}
        return _Edit(changed)

    def _observed(self, kind: str, place: str, text: str, edit: _Edit | Callable[[], _Edit]) -> Lie:
        def tell() -> Records:
            observations = _edited(self.records.observations, edit if isinstance(edit, _Edit) else edit())
            return Records.of(self.records.history, observations, self.records.logs)

        return Lie(kind, place, text, tell)

    def _sightings(self) -> Iterator[Lie]:
        """Objects that one node showed while the run went on: one of each kind's classes for every reading."""
        pool = self._pool()
        for number, row in enumerate(self._observations):
            if row["phase"] != "running" or self._definitions[number] is None:
                continue
            shown = self._definitions[number]["kind"] if row["kind"] == "live" else row["kind"]
            kind = f"memory {shown}" if row["kind"] == "live" else shown
            if row["kind"] != "version":
                gone = _Edit({number: {"definition": None, "id": None}})
                yield self._observed(f"running {kind}: gone", "one", f"row {number}", gone)
                ghost = _Edit(added=[self._ghost(row)])
                yield self._observed(f"running {kind}: nobody asked", "one", f"row {number}", ghost)
            for change in _changes(self._definitions[number], pool, row["kind"]):
                edit = partial(self._edit, change, {number})
                yield self._observed(f"running {kind}: {change.what}", "one", f"row {number}", edit)

    # ── operations ───────────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _ends(self) -> Sequence[tuple[int, int]]:
        return answered_operations(self._history)

    def _answers(self) -> Iterator[Lie]:
        """Acknowledgements that were refusals, and refusals that were acknowledgements."""
        refusals = {e["f"]: e["error"] for e in self._history if e["type"] == "fail" and e["process"] != NEMESIS}
        for invoked, answered in self._ends:
            event = self._history[answered]
            text = f"op {event['index']} {event['f']} {event['key']}"
            group = event["f"] if event["f"] in SCHEMA_CHANGES else self._of_rows(event, invoked)
            if event["type"] == "ok":
                error = refusals.get(event["f"]) or _REFUSAL
                edit = _Edit({answered: {"type": "fail", "value": None, "error": error}})
                yield self._recorded(f"ack was a refusal: {group}", text, edit)
            elif event["type"] == "fail" and event["f"] in SCHEMA_CHANGES:
                value = self._history[invoked]["value"]
                edit = _Edit({answered: {"type": "ok", "value": value, "error": None}})
                yield self._recorded(f"refusal was an ack: {group}", text, edit)

    def _of_rows(self, event: Mapping[str, Any], invoked: int) -> str:
        value = self._values[invoked]
        if not isinstance(value, dict):
            return str(event["f"])
        return " ".join(str(part) for part in (event["f"], value.get("consistency"), value.get("phase")) if part)

    def _reads(self) -> Iterator[Lie]:
        """Rows read: each cell changed, each row gone, and one that nobody wrote; by one read, and by all of the table."""
        found: dict[tuple[Any, ...], list[int]] = {}
        for _, answered in self._ends:
            event, value = self._history[answered], self._values[answered]
            if event["f"] == "read-rows" and event["type"] == "ok":
                found.setdefault((event["key"], value["phase"], bool(value.get("where"))), []).append(answered)
        for (_, phase, keyed), reads in found.items():
            for at, value in ((at, self._values[at]) for at in reads):
                group = f"{value['consistency']} {phase}{_by(value)}"
                for number, row in enumerate(value["rows"]):
                    text = f"op {self._history[at]['index']} row {number}"
                    yield self._read(f"row gone: {group}", text, {at: _without(value["rows"], row)})
                    if not keyed:
                        everywhere = {read: _without(self._values[read]["rows"], row) for read in reads}
                        yield self._read(f"row gone from every read: {phase}", text, everywhere)
                    twice = {at: [*value["rows"], row]}
                    yield self._read(f"row twice: {group}", text, twice)
                    for column in row:
                        other = {**row, column: _other(row[column], ())}
                        lies = [other if each == row else each for each in value["rows"]]
                        yield self._read(f"cell changed: {group}", f"{text} {column}", {at: lies})
                if value["rows"]:
                    ghost = {column: _other(cell, ()) for column, cell in value["rows"][0].items()}
                    yield self._read(f"row nobody wrote: {group}", f"op {at}", {at: [*value["rows"], ghost]})

    def _read(self, kind: str, text: str, rows: Mapping[int, Sequence[Any]]) -> Lie:
        changed = {
            at: {"value": orjson.dumps({**self._values[at], "rows": list(some)}).decode()} for at, some in rows.items()
        }
        return self._recorded(kind, text, _Edit(changed))

    def _recorded(self, kind: str, text: str, edit: _Edit) -> Lie:
        def tell() -> Records:
            history = _renumbered(_edited(self.records.history, edit))
            return Records.of(history, self.records.observations, self.records.logs)

        return Lie(kind, "", text, tell)

    def _values_read(self) -> Iterator[Lie]:
        """Every leaf and entry of an answer that is more than what was asked for; lists and elements that transactions read."""
        for invoked, answered in self._ends:
            event, value = self._history[answered], self._values[answered]
            if event["type"] != "ok" or event["f"] == "read-rows":
                continue
            text = f"op {event['index']} {event['f']} {event['key']}"
            if value != self._values[invoked]:
                whole = isinstance(value, dict | list)
                for change in _changes(value if whole else {"value": value}, {}, event["f"]):
                    other = orjson.loads(orjson.dumps(value if whole else {"value": value}))
                    change.apply(other)
                    told = other if whole else other.get("value")
                    edit = _Edit({answered: {"value": None if told is None else orjson.dumps(told).decode()}})
                    yield self._recorded(f"answer {event['f']}: {change.what}", f"{text} {change.path}", edit)
            for what, number, mops in _other_mops(event["mops"] or ()):
                edit = _Edit({answered: {"mops": mops}})
                yield self._recorded(f"answer {event['f']}: {what}", f"{text} micro-operation {number}", edit)

    def questions(self) -> Iterator[Lie]:
        """Every leaf and entry of what was asked, its coordinator and its key: otherwise in the question alone, and in both its ends.

        Only of acknowledged operations: what a refused one was about, nothing contradicts. They are no part of `lies`: a lie about both
        ends is that of two facts.
        """
        for invoked, answered in self._ends:
            event, asked = self._history[answered], self._values[invoked]
            if event["type"] != "ok":
                continue
            text = f"op {event['index']} {event['f']} {event['key']}"
            for ends, what in (((invoked,), "question"), ((invoked, answered), "question and answer")):
                for column, other in (("node", self._nodes[event["node"] == self._nodes[0]]), ("key", "k0.t0")):
                    if event[column] is not None:
                        edit = _Edit({end: {column: other} for end in ends})
                        yield self._recorded(f"{what} {event['f']}: another {column}", text, edit)
                for change in _changes(asked, {}, event["f"]) if isinstance(asked, dict) else ():
                    told = partial(self._asked, change, ends)
                    yield Lie(f"{what} {event['f']}: {change.what}", "", f"{text} {change.path}", told)
                for change in _changes_of_mops(self._history[invoked]["mops"] or ()):
                    told = partial(self._asked_in_mops, change, ends)
                    yield Lie(f"{what} {event['f']}: {change.what}", "", f"{text} {change.path}", told)

    def _asked(self, change: _Change, ends: Sequence[int]) -> Records:
        """The records with another question. Raises NotThereError if the answer does not repeat what is changed."""
        changed = {}
        for end in ends:
            value = orjson.loads(orjson.dumps(self._values[end]))
            try:
                change.apply(value)
            except (KeyError, IndexError, TypeError) as error:
                raise NotThereError(change.path) from error
            changed[end] = {"value": orjson.dumps(value).decode()}
        history = _renumbered(_edited(self.records.history, _Edit(changed)))
        return Records.of(history, self.records.observations, self.records.logs)

    def _asked_in_mops(self, change: _Change, ends: Sequence[int]) -> Records:
        """The records with a transaction of other micro-operations. Raises NotThereError if the answer does not repeat what is changed."""
        changed = {}
        for end in ends:
            mops = orjson.loads(orjson.dumps(self._history[end]["mops"]))
            try:
                change.apply(mops)
            except (KeyError, IndexError, TypeError) as error:
                raise NotThereError(change.path) from error
            changed[end] = {"mops": mops}
        history = _renumbered(_edited(self.records.history, _Edit(changed)))
        return Records.of(history, self.records.observations, self.records.logs)

    def _operations(self) -> Iterator[Lie]:
        """Operations that are gone with both their ends, as if nobody had asked."""
        for invoked, answered in self._ends:
            event = self._history[answered]
            group = event["f"] if event["f"] in SCHEMA_CHANGES else self._of_rows(event, invoked)
            edit = _Edit(removed=[invoked, answered])
            text = f"op {event['index']} {event['f']} {event['key']}"
            yield self._recorded(f"operation gone: {group} {event['type']}", text, edit)
        for number in range(len(self._history)):
            text = f"event {number}"
            lost = _edited(self.records.history, _Edit(removed=[number]))
            records = partial(Records.of, lost, self.records.observations, self.records.logs)
            if number < len(self._history) - 1:
                yield Lie("event lost", "", text, records)

    def _times(self) -> Iterator[Lie]:
        """Answers before their questions, and events that are out of their order."""
        last = self._history[-1]["time"] if self._history else 0
        for invoked, answered in self._ends:
            event, asked = self._history[answered], self._history[invoked]
            text = f"op {event['index']} {event['f']} {event['key']}"
            for what, at, time in (
                ("answered before it was asked", answered, asked["time"] - 1),
                ("asked after the end of the run", invoked, last + 1),
            ):
                yield self._recorded(f"time: {what}", text, _Edit({at: {"time": time}}))

    # ── what the conductor noted ─────────────────────────────────────────────────────────────────────────────────────

    def _notes(self) -> Iterator[Lie]:
        for number, event in enumerate(self._history):
            if event["process"] != NEMESIS:
                continue
            text = f"note {event['index']} {event['f']}"
            phase = (self._values[number] or {}).get("phase") if event["f"] == "phase" else None
            group = event["f"] if phase is None else f"phase {phase}"
            yield self._recorded(f"note gone: {group}", text, _Edit(removed=[number]))
            for change in _changes(self._values[number], {}, event["f"]):
                value = orjson.loads(orjson.dumps(self._values[number]))
                change.apply(value)
                edit = _Edit({number: {"value": orjson.dumps(value).decode()}})
                yield self._recorded(f"note {event['f']}: {change.what}", f"{text} {change.path}", edit)

    # ── what is missing ──────────────────────────────────────────────────────────────────────────────────────────────

    def _gaps(self) -> Iterator[Lie]:
        for place, where in self._places():
            of_place = {n for n, row in enumerate(self._observations) if (row["phase"], row["node"]) in where}
            disk = sorted(n for n in of_place if self._observations[n]["kind"] not in {"live", "data-directory"})
            memory = [n for n in of_place if self._observations[n]["kind"] == "live"]
            versions = [n for n in disk if self._observations[n]["kind"] == "version"]
            error = {"definition": None, "id": None, "error": "NodeUnreachable: it does not answer"}
            gaps: dict[str, _Edit] = {
                "reading missing": _Edit(removed=of_place),
                "reading without its version": _Edit(removed=versions),
                "reading refused": _Edit(dict.fromkeys(versions, error), removed=of_place - set(versions)),
                "reading torn": _Edit(removed=_second_halves(self._observations, of_place)),
            }
            if memory:
                gaps["memory missing"] = _Edit(removed=memory)
                gaps["memory refused"] = _Edit(dict.fromkeys(memory, error))
            for kind, edit in gaps.items():
                yield self._observed(kind, place, kind, edit)
        yield from self._logs()
        yield from self._cuts()

    def _logs(self) -> Iterator[Lie]:
        rows = _plain_rows(self.records.logs)
        if not rows:
            return
        for name, nodes in self._groups.items():
            logs = _edited(self.records.logs, _Edit(removed=[n for n, row in enumerate(rows) if row["node"] in nodes]))
            yield Lie(
                "log missing",
                name,
                f"log of {nodes}",
                lambda logs=logs: Records.of(self.records.history, self.records.observations, logs),
            )

        of_boots: dict[tuple[str, int], list[int]] = {}
        for number, row in enumerate(rows):
            of_boots.setdefault((row["node"], row["boot"]), []).append(number)
        for (node, boot), numbers in of_boots.items():
            logs = _edited(self.records.logs, _Edit(removed=numbers))
            which = "first" if boot == 0 else "later"
            yield self._logged(f"log of a {which} start missing", f"log {boot} of {node}", logs)
            odd = {**rows[numbers[-1]], "level": "ERROR", "line": rows[numbers[-1]]["line"] + 1, "stack": None}
            for what, more in _ERRORS.items():
                told = sorted([*rows, {**odd, **more}], key=lambda row: (row["node"], row["boot"], row["line"]))
                logs = pa.Table.from_pylist(told, schema=self.records.logs.schema)
                yield self._logged(f"log: {what} that nobody logged", f"log {boot} of {node}", logs)

    def _logged(self, kind: str, text: str, logs: pa.Table) -> Lie:
        return Lie(kind, "", text, lambda: Records.of(self.records.history, self.records.observations, logs))

    def _cuts(self) -> Iterator[Lie]:
        """Each phase cut short, as if the harness had died in it; and each phase alone left without its events."""
        spans: dict[str, list[int]] = {}
        for number, event in enumerate(self._history):
            if event["process"] == NEMESIS and event["f"] == "phase":
                spans.setdefault(self._values[number]["phase"], []).append(event["time"])
        for phase, times in spans.items():
            middle = (times[0] + times[-1]) // 2

            def tell(middle: int = middle) -> Records:
                late = [n for n, event in enumerate(self._history) if event["time"] > middle]
                unseen = [n for n, row in enumerate(self._observations) if row["time"] > middle]
                history = _renumbered(_edited(self.records.history, _Edit(removed=late)))
                return Records.of(history, _edited(self.records.observations, _Edit(removed=unseen)), self.records.logs)

            yield Lie("run cut short", phase, f"cut in phase {phase}", tell)
            within = [
                number
                for number, event in enumerate(self._history)
                if times[0] < event["time"] < times[-1] and event["process"] != NEMESIS
            ]
            if within:
                yield self._recorded(f"phase without its operations: {phase}", phase, _Edit(removed=within))


_REMEMBERED = frozenset({"keyspace", "table", "view", "type", "function", "aggregate"})


def _changes_of_mops(mops: Sequence[Mapping[str, Any]]) -> Iterator[_Change]:
    """Micro-operations of a transaction that are asked for otherwise, or not at all."""
    for number, mop in enumerate(mops):
        group = f"{mop['f']} in a transaction"
        yield _Change((number, "k"), f"{group}: another key", _setter((number, "k"), _other(mop["k"], ())))
        yield _Change((number, "f"), f"{group}: another function", _setter((number, "f"), f"{mop['f']}x"))
        if mop["v"] is not None:
            yield _Change((number, "v"), f"{group}: another value", _setter((number, "v"), mop["v"] + 10**6))
        if len(mops) > 1:
            yield _Change((number,), f"{group}: gone", _remover((number,)))


def _other_mops(mops: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, int, Sequence[Mapping[str, Any]]]]:
    """Yield (change, place, micro-operations) for each read of a transaction, told otherwise."""
    for number, mop in enumerate(mops):
        if mop["f"] not in {"r", "read"}:
            continue
        others: dict[str, Mapping[str, Any]] = {}
        if mop["vs"] is not None:
            others["element nobody wrote"] = {"vs": [*mop["vs"], 10**6]}
            if mop["vs"]:
                others["element gone"] = {"vs": mop["vs"][:-1]}
                others["first element gone"] = {"vs": mop["vs"][1:]}
                others["element twice"] = {"vs": [*mop["vs"], mop["vs"][0]]}
            if len(mop["vs"]) > 1:
                others["elements out of order"] = {"vs": [*mop["vs"][:-2], mop["vs"][-1], mop["vs"][-2]]}
        elif mop["v"] is not None:
            others["value nobody wrote"] = {"v": 10**6}
            others["value gone"] = {"v": None}
        else:
            others["value nobody wrote"] = {"v": 10**6}
        for what, other in others.items():
            yield what, number, [*mops[:number], {**mop, **other}, *mops[number + 1 :]]


# ── facts of a definition ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Change:
    """A change of one fact at `path`; `apply` raises KeyError or IndexError where there is no such fact."""

    path: tuple[Any, ...]
    what: str
    apply: Callable[[Any], None]


def _changes(definition: Any, pool: Mapping[str, Sequence[Any]], kind: str) -> Iterator[_Change]:
    for path, leaf in _leaves(definition):
        if path and path[-1] == "statement":
            yield from _changes_of_statement(path, leaf)
            continue
        general = _general(path)
        for what, other in _others(leaf, pool.get(f"{kind} {general}", ())):
            yield _Change(path, f"{general} {what}", _setter(path, other))
    yield from _entries(definition)


def _entries(definition: Any) -> Iterator[_Change]:
    """Entries of maps and lists that go, come, or change their places."""
    for path, container in _containers(definition):
        general = _general((*path, "…"))
        if isinstance(container, dict):
            for key in container:
                yield _Change((*path, key), f"{_general((*path, key))} gone", _remover((*path, key)))
            if path and container:
                yield _Change(path, f"{general} nobody asked", _adder(path, container))
        else:
            for number in range(len(container)):
                yield _Change((*path, number), f"{general} gone", _remover((*path, number)))
            for number in range(1, len(container)):
                if container[number] != container[number - 1]:
                    yield _Change((*path, number), f"{general} out of order", _swapper(path, number))
            if container:
                yield _Change(path, f"{general} nobody asked", _adder(path, container))


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from _leaves(entry, (*path, key))
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            yield from _leaves(entry, (*path, number))
    else:
        yield path, value


def _containers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict | list):
        yield path, value
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _containers(entry, (*path, key))


def _general(path: Sequence[Any]) -> str:
    parts = [
        "*" if isinstance(part, int) or (at and path[at - 1] in _NAMED) else str(part) for at, part in enumerate(path)
    ]
    return ".".join(parts)


def _others(leaf: Any, seen: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    yield "changed", _other(leaf, seen)
    if isinstance(leaf, str) and re.fullmatch(r"\w+(?:\.\w+){2,}", leaf):
        yield "of another package", "com.example." + leaf.rpartition(".")[2]
    if isinstance(leaf, str) and leaf.startswith("frozen<"):
        yield "not frozen", leaf.removeprefix("frozen<").removesuffix(">")


def _other(leaf: Any, seen: Sequence[Any]) -> Any:
    """Another value of the same kind: one that the run has elsewhere, if it has one."""
    for other in seen:
        if other != leaf and type(other) is type(leaf):
            return other
    match leaf:
        case None:
            return "lie"
        case bool():
            return not leaf
        case int():
            return leaf + 1
        case float():
            return leaf * 2 + 1
        case str() if leaf.isdigit():
            return str(int(leaf) + 1)
        case str():
            return _OPPOSITE.get(leaf, leaf + "x")
    return leaf


def _other_id(text: str) -> str:
    """Another id of the same form: every version and table id ends in hexadecimal digits."""
    last = "0" if text[-1:] != "0" else "1"
    return text[:-1] + last


def _holder(value: Any, path: Sequence[Any]) -> Any:
    for part in path:
        value = value[part]
    return value


def _setter(path: tuple[Any, ...], other: Any) -> Callable[[Any], None]:
    def apply(definition: Any) -> None:
        holder = _holder(definition, path[:-1])
        if holder[path[-1]] == other:
            raise KeyError(path)
        holder[path[-1]] = other

    return apply


def _remover(path: tuple[Any, ...]) -> Callable[[Any], None]:
    def apply(definition: Any) -> None:
        del _holder(definition, path[:-1])[path[-1]]

    return apply


def _adder(path: tuple[Any, ...], container: Any) -> Callable[[Any], None]:
    def apply(definition: Any) -> None:
        holder = _holder(definition, path)
        if isinstance(holder, dict):
            holder["ghost"] = holder[next(iter(container))]
        else:
            last = holder[-1]
            holder.append(["ghost", *last[1:]] if isinstance(last, list) else last)

    return apply


def _swapper(path: tuple[Any, ...], number: int) -> Callable[[Any], None]:
    def apply(definition: Any) -> None:
        holder = _holder(definition, path)
        holder[number - 1], holder[number] = holder[number], holder[number - 1]

    return apply


def _changes_of_statement(path: tuple[Any, ...], statement: str) -> Iterator[_Change]:
    """Every name, value and constant of a statement that tells what is in memory."""
    clauses = [(found.start(), found[1]) for found in _CLAUSE.finditer(statement)]
    for token in _TOKEN.finditer(statement):
        text = token[0]
        if text.isupper() and text.isalpha() and text not in _OPPOSITE:
            continue
        other = _other_token(text)
        clause = next((name for start, name in reversed(clauses) if start <= token.start()), None)
        part = _section(statement, token.start()) if clause is None else f"option {clause}"
        lie = statement[: token.start()] + other + statement[token.end() :]
        yield _Change((*path, f"{text}@{token.start()}"), f"statement: {part} changed", _replacer(path, statement, lie))


def _section(statement: str, position: int) -> str:
    before = statement[:position]
    if "$$" in before:
        return "body"
    words = [word for word in re.findall(r"[A-Z]{2,}", before) if word not in _STAY]
    return words[-1].lower() if words else "start"


def _replacer(path: tuple[Any, ...], statement: str, lie: str) -> Callable[[Any], None]:
    def apply(definition: Any) -> None:
        holder = _holder(definition, path[:-1])
        if holder[path[-1]] != statement:
            raise KeyError(path)
        holder[path[-1]] = lie

    return apply


def _other_token(text: str) -> str:
    if text.startswith("'"):
        return f"'{_other(text[1:-1], ())}'"
    if text.isdigit():
        return str(int(text) + 1)
    if re.fullmatch(r"\d+\.\d+", text):
        return str(float(text) * 2 + 1)
    return str(_OPPOSITE.get(text, f"{text}x"))


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def loaded(text: str | None) -> Any:
    """Parse a JSON text; None of none."""
    return None if text is None else orjson.loads(text)


def _plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _without(rows: Sequence[Any], row: Any) -> list[Any]:
    return [other for other in rows if other != row]


def _second_halves(rows: Sequence[Mapping[str, Any]], some: Collection[int]) -> list[int]:
    """The later half of each node's rows, the order being that of the reading."""
    ordered = sorted(some, key=lambda n: (rows[n]["phase"], rows[n]["node"], n))
    gone: list[int] = []
    for _, each in groupby(ordered, key=lambda n: (rows[n]["phase"], rows[n]["node"])):
        of_node = list(each)
        gone += of_node[len(of_node) // 2 :]
    return gone


_SCHEMAS = {schema.names[-1]: schema for schema in (HISTORY, OBSERVATIONS, LOGS)}


def _renumbered(history: pa.Table) -> pa.Table:
    """The events with numbers that leave none out: whoever removes one can hide that, too."""
    numbers = pa.array(range(len(history)), pa.int64())
    return history.set_column(0, history.schema.field(0), numbers)


def _edited(table: pa.Table, edit: _Edit) -> pa.Table:
    found = table
    for name in {name for fields in edit.changed.values() for name in fields}:
        position = found.schema.get_field_index(name)
        cells = found.column(position).to_pylist()
        for row, fields in edit.changed.items():
            cells[row] = fields.get(name, cells[row])
        found = found.set_column(position, found.schema.field(position), pa.array(cells, found.schema.types[position]))
    if edit.removed:
        gone = frozenset(edit.removed)
        found = found.filter(pa.array([row not in gone for row in range(len(found))]))
    if edit.added:
        found = pa.concat_tables([found, pa.Table.from_pylist(list(edit.added), schema=found.schema)])
    return found
