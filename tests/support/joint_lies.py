"""Joint lies: several related records of a clean run are altered together, so that each of them agrees with the others.

`lies` falsifies one fact, `pair_sweep` two of them by chance, `moved_lies` puts whole records elsewhere. Here the forger knows what
belongs together: a lost column is lost on disk and in memory of all nodes, and its ALTER is said to have been answered late; an
operation that is hidden takes its steps, its notes of the members and its number in the plan with it. Kinds are yielded in an order
that never changes, and each has several lies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any, Final, TypeAlias

import orjson
from lies import Lie, loaded
from opened_run import FRESH, OpenedRun, Row, table

from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import HISTORY, LOGS, OBSERVATIONS, Records

__all__ = ["JointRun"]

_S: Final = 10**9
_FINAL: Final = ("settled", "restarted")
_ALONE: Final = frozenset({"alter-options", "alter-keyspace", "add-field", "rename-field", "create-aggregate"})
"""Changes on which nothing depends that clients of these runs ask for."""
_TIME: Final = "%Y-%m-%d %H:%M:%S,%f"
_REFUSED: Final = 'InvalidRequest: Error from server: code=2200 [Invalid query] message="table does not exist"'
_SILENT: Final = "OperationTimedOut: errors={}, last_host=10.77.0.1"

_Rows: TypeAlias = Sequence[Row]
_Ends: TypeAlias = tuple[int, int]
"""The places of an invocation and of its completion in the history."""


class JointRun(OpenedRun):
    """A run in which nothing is wrong, and what becomes of it when related records are altered together."""

    def lies(self) -> Iterator[Lie]:
        """Yield every lie."""
        for attack in _ATTACKS:
            yield from attack(self)

    def _lie(
        self,
        kind: str,
        text: str,
        history: _Rows | None = None,
        observations: _Rows | None = None,
        logs: _Rows | None = None,
    ) -> Lie:
        def tell() -> Records:
            events = sorted(self._history if history is None else history, key=lambda row: row["time"])
            lines = sorted(
                self._logs if logs is None else logs, key=lambda row: (row["node"], row["boot"], row["line"])
            )
            return Records.of(
                table([{**row, "index": number} for number, row in enumerate(events)], HISTORY),
                table(self._observations if observations is None else observations, OBSERVATIONS),
                table(lines, LOGS),
            )

        return Lie(kind, "", text, tell)

    # ── what the run has ─────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _changes(self) -> Sequence[_Ends]:
        """The acknowledged changes of the schema, in order."""
        return [
            ends
            for ends in self._operations
            if self._history[ends[0]]["f"] in SCHEMA_CHANGES and self._history[ends[1]]["type"] == "ok"
        ]

    def _in(self, phase: str) -> Sequence[_Ends]:
        begin, end = self._phases[phase]
        return [ends for ends in self._operations if begin <= self._history[ends[0]]["time"] <= end]

    def _edited(
        self, edits: Mapping[int, Mapping[str, Any]], gone: Collection[int] = (), added: Sequence[Row] = ()
    ) -> list[Row]:
        """The history with new fields of events, without some, and with others."""
        rows = [
            {**event, **edits[number]} if number in edits else event
            for number, event in enumerate(self._history)
            if number not in gone
        ]
        return [*rows, *added]

    def _renoted(self, f: str, change: Callable[[Any], Any]) -> dict[int, dict[str, Any]]:
        """Edits by which every note of a kind says what `change` makes of it."""
        return {
            number: {"value": _text(change(loaded(event["value"])))}
            for number, event in enumerate(self._history)
            if event["process"] == NEMESIS and event["f"] == f
        }

    # ── changes that are lost ────────────────────────────────────────────────────────────────────────────────────────

    def _as_before(self, ends: _Ends, *, where: Callable[[Row], bool] = lambda row: True) -> list[Row] | None:
        """The readings as if a change had not been made: its object is as it was last shown before; None if that is the same.

        Readings on the way are changes, so that an object that stays as it was has no row there.
        """
        event = self._history[ends[0]]
        keyspace, _, name = event["key"].partition(".")
        before: dict[tuple[Any, ...], Row] = {}
        found: list[Row] = []
        for row in self._observations:
            place = (row["kind"], row["keyspace"], row["name"], row["id"] if row["kind"] == "data-directory" else None)
            index = _without_index(row, keyspace, name) if event["f"] == "create-index" else None
            if row["time"] <= event["time"]:
                before[place] = row
            elif where(row) and index is not None:
                found += [index] if row["phase"] != "running" else []
                continue
            elif where(row) and _is_of(row, event["key"]):
                old = before.get(place)
                if old is None or _shown(old) != _shown(row):
                    found += [{**row, **_shown(old)}] if old is not None and row["phase"] != "running" else []
                    continue
            found.append(row)
        return found if found != self._observations else None

    def lost_changes(self) -> Iterator[Lie]:
        """An acknowledged change that is in no reading, answered when it was, at the end of its phase, and at that of the run."""
        last = {self._history[ends[0]]["key"]: ends for ends in self._changes}
        for key, ends in last.items():
            readings = self._as_before(ends)
            f = self._history[ends[0]]["f"]
            if readings is None or f.startswith("drop-"):
                continue
            own = {end: {"process": FRESH} for end in ends}
            phase = next(name for name in self._phases if ends in self._in(name))
            text = f"op {ends[0]} {f} {key}"
            for when, time in (
                ("when it was", self._history[ends[1]]["time"]),
                ("at the end of its phase", self._phases[phase][1] - 1),
                ("at the end of the run", self._history[-1]["time"] - 1),
            ):
                history = self._edited({**own, ends[1]: {"process": FRESH, "time": time}})
                yield self._lie(f"change in no reading, answered {when}: {f}", text, history, readings)

    def unanswered_changes(self) -> Iterator[Lie]:
        """Legal: a change that is in no reading, and that was never answered, or is late on nodes that did not acknowledge it; and logs in another time zone."""
        last = {self._history[ends[0]]["key"]: ends for ends in self._changes}
        for key, ends in last.items():
            readings, f = self._as_before(ends), self._history[ends[0]]["f"]
            if readings is not None and f in _ALONE:
                edits = {ends[1]: {"type": "info", "error": _SILENT, "value": None}}
                yield self._lie(f"legal: change in no reading, never answered: {f}", key, self._edited(edits), readings)
        for ends in self._changes:
            readings = self._as_before(
                ends,
                where=lambda row, ends=ends: (
                    row["phase"] == "running" and row["node"] != self._history[ends[0]]["node"]
                ),
            )
            is_last = last[self._history[ends[0]]["key"]] == ends
            if readings is not None and is_last and self._history[ends[0]]["time"] > self._phases["main"][0]:
                yield self._lie(
                    f"legal: change is late on other nodes: {self._history[ends[0]]['f']}",
                    self._history[ends[0]]["key"],
                    None,
                    readings,
                )
        for hours in (-5, 9):
            yield self._lie(f"legal: all logs {hours:+} h", "", None, None, [_dated(row, hours) for row in self._logs])

    def late_changes(self) -> Iterator[Lie]:
        """A change that its coordinator, or every node, shows in the final readings alone; and one that comes and goes on another node."""
        last = {self._history[ends[0]]["key"]: ends for ends in self._changes}
        for ends in last.values():
            event = self._history[ends[0]]
            text = f"op {ends[0]} {event['f']} {event['key']}"
            for who, nodes in (("its coordinator", [event["node"]]), ("all nodes", self._nodes)):
                readings = self._as_before(
                    ends, where=lambda row, nodes=nodes: row["phase"] == "running" and row["node"] in nodes
                )
                if readings is not None:
                    yield self._lie(f"change is late on {who}: {event['f']}", text, None, readings)
            for node in self._nodes:
                added = [] if node == event["node"] else self._flickers(ends, node)
                if added:
                    yield self._lie(
                        f"change comes and goes on another node: {event['f']}",
                        text,
                        None,
                        [*self._observations, *added],
                    )

    def _flickers(self, ends: _Ends, node: str) -> list[Row]:
        """Rows by which an object is as before a change again in the second reading after it that has rows, and has it in the third."""
        key, asked = self._history[ends[0]]["key"], self._history[ends[0]]["time"]
        own = [row for row in self._observations if row["phase"] == "running" and row["node"] == node]
        old = {(row["kind"], row["name"]): row for row in own if _is_of(row, key) and row["time"] < asked}
        new = {
            (row["kind"], row["name"]): row
            for row in own
            if _is_of(row, key) and row["time"] > self._history[ends[1]]["time"]
        }
        since = max((row["time"] for row in new.values()), default=None)
        later = {
            row["sample"]: row["time"]
            for row in own
            if since is not None and row["time"] > since and row["kind"] != "version"
        }
        if len(later) < 2 or not new:
            return []
        (first, then), (second, last), *_ = sorted(later.items())
        gone = [
            {**row, "definition": old[place]["definition"] if place in old else None, "sample": first, "time": then}
            for place, row in new.items()
        ]
        return [*gone, *({**row, "sample": second, "time": last} for row in new.values())]

    def reordered_changes(self) -> Iterator[Lie]:
        """Two acknowledged changes of one object, each at the time of the other."""
        by_key: dict[str, list[_Ends]] = {}
        for ends in self._changes:
            by_key.setdefault(self._history[ends[0]]["key"], []).append(ends)
        for key, changes in by_key.items():
            for one, other in combinations(changes, 2):
                functions = [self._history[ends[0]]["f"] for ends in (one, other)]
                edits = {
                    here: {"time": self._history[there]["time"], "process": FRESH + number}
                    for number, (own, away) in enumerate(((one, other), (other, one)))
                    for here, there in zip(own, away, strict=True)
                }
                yield self._lie(f"changes of one object exchanged: {', '.join(functions)}", key, self._edited(edits))

    def lost_objects(self) -> Iterator[Lie]:
        """A table that is nowhere any more, whose rows nobody can ask for any more, in both final readings or after the restart."""
        tables = {
            (row["keyspace"], row["name"])
            for row in self._observations
            if (row["phase"], row["kind"]) == ("settled", "table")
        }
        for keyspace, name in sorted(tables):
            key = f"{keyspace}.{name}"
            for phases in (_FINAL, _FINAL[1:]):
                begin = min(self._phases[f"settle-{phase}"][0] for phase in phases)
                edits = {}
                for ends in self._operations:
                    value = self._values[ends[0]]
                    touched = isinstance(value, dict) and (
                        self._history[ends[0]]["key"] == key or value.get("base") == name
                    )
                    if touched and self._history[ends[0]]["time"] > begin:
                        edits[ends[1]] = {"type": "fail", "error": _REFUSED, "value": None}
                readings = [
                    row
                    for row in self._observations
                    if not (
                        row["phase"] in phases
                        and _is_of(row, key)
                        and row["kind"] in ("table", "live", "data-directory")
                    )
                ]
                yield self._lie(
                    f"table is lost with its rows when {' and '.join(phases)}", key, self._edited(edits), readings
                )

    def objects_of_nobody(self) -> Iterator[Lie]:
        """A table that nobody asked for, in all readings of all nodes, from the first, or from the main phase on."""
        begins = {"in all readings": 0, "since the main phase": self._phases["main"][0] + _S}
        tables = {
            (row["keyspace"], row["name"])
            for row in self._observations
            if (row["phase"], row["kind"]) == ("settled", "table")
        }
        for when, begin in begins.items():
            for keyspace, name in sorted(tables):
                ghosts = []
                for row in self._observations:
                    if row["time"] >= begin and _is_of(row, f"{keyspace}.{name}") and row["definition"] is not None:
                        definition = row["definition"].replace(f"{keyspace}.{name}", f"{keyspace}.ghost")
                        ghosts.append({**row, "name": "ghost", "definition": definition, "id": _other_id(row["id"])})
                yield self._lie(f"table of nobody {when}", f"{keyspace}.{name}", None, [*self._observations, *ghosts])

    # ── identities ───────────────────────────────────────────────────────────────────────────────────────────────────

    def exchanged_ids(self) -> Iterator[Lie]:
        """The ids of two tables exchanged on all nodes, in all readings, with their data directories; and those of two lives of one."""
        by_id: dict[str, str] = {}
        for row in self._observations:
            if row["id"] is not None and row["kind"] in ("table", "view", "data-directory"):
                by_id[row["id"]] = f"{row['keyspace']}.{row['name']}"
        for one, other in combinations(sorted(by_id), 2):
            if self._were_made_at_once(by_id[one], by_id[other]):
                continue
            names = {one: other, other: one}
            readings = [
                {**row, "id": names[row["id"]]} if row["kind"] != "version" and row["id"] in names else row
                for row in self._observations
            ]
            what = "two lives of a table" if by_id[one] == by_id[other] else "two tables"
            yield self._lie(f"ids of {what} exchanged everywhere", f"{by_id[one]} {by_id[other]}", None, readings)

    def _were_made_at_once(self, one: str, other: str) -> bool:
        """Tell if an operation on each of two objects went on at one time, so that either may have been made first."""
        spans = [
            [
                (self._history[begin]["time"], self._history[end]["time"])
                for begin, end in self._changes
                if self._history[begin]["key"] == key
            ]
            for key in (one, other)
        ]
        return one != other and any(a[0] <= b[1] and b[0] <= a[1] for a in spans[0] for b in spans[1])

    def _replaced(self, names: Mapping[str, str]) -> tuple[list[Row], list[Row]]:
        """History and readings in which texts stand for each other, wherever they are."""

        def tell(text: str | None) -> str | None:
            if text is None:
                return None
            for number, one in enumerate(names):
                text = text.replace(f'"{one}"', f'"\0{number}"')
            for number, other in enumerate(names.values()):
                text = text.replace(f'"\0{number}"', f'"{other}"')
            return text

        history = [
            {**event, "value": tell(event["value"])} if event["process"] == NEMESIS else event
            for event in self._history
        ]
        readings = [
            {**row, "definition": tell(row["definition"])} if row["kind"] in ("ring", "ownership", "version") else row
            for row in self._observations
        ]
        return history, readings

    def exchanged_members(self) -> Iterator[Lie]:
        """Host ids, addresses or tokens of two nodes exchanged in every note of the members and every account of the ring."""
        rings = {
            row["node"]: loaded(row["definition"])["self"]
            for row in self._observations
            if row["kind"] == "ring" and row["phase"] == "settled"
        }
        for one, other in pairwise(sorted(rings)):
            for what in ("host_id", "address"):
                pair = {rings[one].get(what): rings[other].get(what), rings[other].get(what): rings[one].get(what)}
                if None not in pair:
                    yield self._lie(f"members' {what} exchanged everywhere", f"{one} {other}", *self._replaced(pair))
            first, second = rings[one]["tokens"], rings[other]["tokens"]
            if len(first) == len(second):
                pair = dict(zip((*first, *second), (*second, *first), strict=True))
                yield self._lie("members' tokens exchanged everywhere", f"{one} {other}", *self._replaced(pair))

    def missing_nodes(self) -> Iterator[Lie]:
        """A node that nothing but clients knew: without readings, logs and notes, in the notes of the others or not."""
        for node in self._nodes:
            readings = [row for row in self._observations if row["node"] != node]
            logs = [row for row in self._logs if row["node"] != node]
            history = [event for event in self._history if event["process"] != NEMESIS or event["node"] != node]
            yield self._lie("node without readings, logs and starts", node, history, readings, logs)
            noted: list[Row] = []
            for event in history:
                value = loaded(event["value"]) if event["process"] == NEMESIS else None
                for part in ("members", "versions"):
                    if isinstance(value, dict) and node in (value.get(part) or ()):
                        del value[part][node]
                if isinstance(value, dict) and node in (value.get("logs") or ()):
                    value["logs"].remove(node)
                noted.append(event if value is None else {**event, "value": _text(value)})
            yield self._lie("node that only clients know", node, noted, readings, logs)

    def renamed_coordinators(self) -> Iterator[Lie]:
        """Two nodes exchanged as coordinators, in every question and answer."""
        for one, other in combinations(self._nodes, 2):
            names = {one: other, other: one}
            history = [
                event if event["process"] == NEMESIS else {**event, "node": names.get(event["node"], event["node"])}
                for event in self._history
            ]
            yield self._lie("coordinators exchanged everywhere", f"{one} {other}", history)

    # ── clients ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def missing_clients(self) -> Iterator[Lie]:
        """All that one client asked, all that was asked through one node, of one object, or by one function, is gone."""
        main = self._phases["main"]
        for what, column in (("client", "process"), ("coordinator", "node"), ("object", "key"), ("function", "f")):
            for each in sorted({str(self._history[ends[0]][column]) for ends in self._operations}):
                own = [ends for ends in self._operations if str(self._history[ends[0]][column]) == each]
                late_ones = [ends for ends in own if main[0] <= self._history[ends[0]]["time"] <= main[1]]
                gone, late = ({end for ends in those for end in ends} for those in (own, late_ones))
                if any(self._history[ends[1]]["type"] == "ok" for ends in own):
                    yield self._lie(f"{what} without operations", each, self._edited({}, gone))
                if any(self._history[ends[1]]["type"] == "ok" for ends in late_ones) and late != gone:
                    yield self._lie(f"{what} without operations in main", each, self._edited({}, late))

    def doubled_clients(self) -> Iterator[Lie]:
        """All that a client asked which changed the schema, asked and answered again by another one at the same times, or a moment later."""
        for process in sorted({self._history[ends[0]]["process"] for ends in self._changes}):
            own = [event for event in self._history if event["process"] == process]
            for when, shift in (("at once", 0), ("a moment later", 1_000)):
                again = [{**event, "process": FRESH, "time": event["time"] + shift} for event in own]
                yield self._lie(f"client twice, {when}", str(process), self._edited({}, added=again))

    def shifted_clients(self) -> Iterator[Lie]:
        """All that clients asked in one phase earlier or later, against notes and readings."""
        for phase in self._phases:
            places = [end for ends in self._in(phase) for end in ends]
            for seconds in (-5, -1, 1, 5):
                edits = {end: {"time": max(0, self._history[end]["time"] + seconds * _S)} for end in places}
                if edits:
                    yield self._lie(f"clients of {phase} {seconds:+} s", phase, self._edited(edits))

    def cut_histories(self) -> Iterator[Lie]:
        """The last part of a run is gone, with its readings and logs or without these, and with notes of ends or without."""
        last = self._history[-1]["time"]
        for share in (5, 10, 25, 50):
            until = last * (100 - share) // 100
            history = [event for event in self._history if event["time"] <= until]
            readings = [row for row in self._observations if row["time"] <= until]
            yield self._lie("last part of a run gone", f"{share} %", history, readings, self._until(until))
            yield self._lie("last part of a history gone", f"{share} %", history)
            open_phase = next((name for name, (begin, end) in self._phases.items() if begin <= until < end), None)
            if open_phase is not None:
                ends = next(
                    e
                    for e, v in zip(self._history, self._values, strict=True)
                    if e["f"] == "phase" and v == {"phase": open_phase, "state": "ends"}
                )
                closed = [*history, {**ends, "time": until}]
                yield self._lie(
                    "last part of a run gone, and said to have ended",
                    f"{share} %",
                    closed,
                    readings,
                    self._until(until),
                )

    def cut_phases(self) -> Iterator[Lie]:
        """What clients asked in the last part of a phase is gone; with what the readings of that time had, or without."""
        for phase in ("setup", "main", "final-settled", "final-restarted"):
            places = [self._history[ends[0]]["time"] for ends in self._in(phase)]
            for share in (10, 25, 50):
                if not places:
                    continue
                until = places[len(places) * (100 - share) // 100]
                gone = {end for ends in self._in(phase) for end in ends if self._history[ends[0]]["time"] > until}
                readings = [
                    row
                    for row in self._observations
                    if row["phase"] != "running" or not until < row["time"] <= self._phases[phase][1]
                ]
                if gone:
                    yield self._lie(f"last part of {phase} gone", f"{share} %", self._edited({}, gone))
                    yield self._lie(
                        f"last part of {phase} gone with its readings", f"{share} %", self._edited({}, gone), readings
                    )

    def silent_phases(self) -> Iterator[Lie]:
        """All operations of a final phase, or all of one function there, time out or are refused."""
        for phase in ("prepare", "final-settled", "final-restarted"):
            for f in sorted({self._history[ends[0]]["f"] for ends in self._in(phase)}):
                ends = [one for one in self._in(phase) if self._history[one[0]]["f"] == f]
                silent = {one[1]: {"type": "info", "error": _SILENT, "value": None} for one in ends}
                yield self._lie(f"all of {phase} time out: {f}", f, self._edited(silent))
                unavailable = {
                    one[1]: {
                        "type": "fail",
                        "error": "Unavailable: Cannot achieve consistency level QUORUM",
                        "value": None,
                    }
                    for one in ends
                }
                yield self._lie(f"all of {phase} are unavailable: {f}", f, self._edited(unavailable))

    def lost_rows(self) -> Iterator[Lie]:
        """A row that no read has, and whose INSERT was answered at the end of its phase, or at that of the run."""
        for ends in self._operations:
            value = self._values[ends[1]]
            if self._history[ends[0]]["f"] != "insert" or self._history[ends[1]]["type"] != "ok":
                continue
            row, key = value["row"], self._history[ends[0]]["key"]
            edits: dict[int, dict[str, Any]] = {end: {"process": FRESH} for end in ends}
            is_read = False
            for other in self._operations:
                read = self._values[other[1]]
                if (
                    isinstance(read, dict)
                    and "rows" in read
                    and (self._history[other[0]]["key"] == key or read.get("base"))
                ):
                    kept = [one for one in read["rows"] if one.get("k") != row.get("k")]
                    if len(kept) < len(read["rows"]):
                        is_read = True
                        edits[other[1]] = {"value": _text({**read, "rows": kept})}
            phase = next((name for name in self._phases if ends in self._in(name)), None)
            if is_read and phase is not None:
                for when, time in (
                    ("its phase", self._phases[phase][1] - 1),
                    ("the run", self._history[-1]["time"] - 1),
                ):
                    late = {**edits, ends[1]: {"process": FRESH, "time": time}}
                    yield self._lie(
                        f"row in no read, answered at the end of {when}: {value.get('phase')}",
                        f"op {ends[0]}",
                        self._edited(late),
                    )

    # ── readings ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def doubled_readings(self) -> Iterator[Lie]:
        """A final reading that was taken twice: wrongly first or last; or with the notes of its phase."""
        samples = max(row["sample"] for row in self._observations)
        for phase in _FINAL:
            own = [row for row in self._observations if row["phase"] == phase]
            rest = [row for row in self._observations if row["phase"] != phase]
            victim = next(row for row in own if row["kind"] == "table")
            again = [
                {**row, "time": row["time"] + 1_000_000, "sample": samples + 1 if row["sample"] else 0} for row in own
            ]
            for what, first, second in (
                ("alike", own, again),
                ("of which the first lacks a table", [row for row in own if row is not victim], again),
                (
                    "of which the last lacks a table",
                    own,
                    [
                        row
                        for row in again
                        if (row["kind"], row["name"], row["node"]) != (victim["kind"], victim["name"], victim["node"])
                    ],
                ),
            ):
                yield self._lie(f"{phase} read twice, {what}", phase, None, [*rest, *first, *second])
            begin, end = self._phases[f"final-{phase}"]
            notes = [event for event in self._history if begin <= event["time"] <= end and event["process"] == NEMESIS]
            later = [{**event, "time": end + 1 + number} for number, event in enumerate(notes)]
            yield self._lie(
                f"{phase} read twice, with the notes of its phase",
                phase,
                self._edited({}, added=later),
                [*rest, *own, *again],
            )

    def exchanged_final_phases(self) -> Iterator[Lie]:
        """Clients' operations, readings, or both, of the two final phases exchanged, with their labels."""
        if "final-restarted" not in self._phases:
            return
        shift = self._phases["final-restarted"][0] - self._phases["final-settled"][0]
        edits: dict[int, dict[str, Any]] = {}
        for phase, sign in (("settled", 1), ("restarted", -1)):
            for ends in self._in(f"final-{phase}"):
                for end in ends:
                    value = self._values[end]
                    if isinstance(value, dict) and "phase" in value:
                        value = {**value, "phase": _OTHER[phase]}
                    edits[end] = {
                        "time": self._history[end]["time"] + sign * shift,
                        "value": None if value is None else _text(value),
                    }
        history = self._edited(edits)
        samples = {row["phase"]: row["sample"] for row in self._observations if row["sample"]}
        readings = [
            row
            if row["phase"] == "running"
            else {
                **row,
                "phase": _OTHER[row["phase"]],
                "time": row["time"] + (shift if row["phase"] == "settled" else -shift),
                "sample": samples[_OTHER[row["phase"]]] if row["sample"] else 0,
            }
            for row in self._observations
        ]
        yield self._lie("final phases exchanged: operations", "", history)
        yield self._lie("final phases exchanged: readings", "", None, readings)
        yield self._lie("final phases exchanged: both", "", history, readings)

    def shifted_readings(self) -> Iterator[Lie]:
        """All readings, those on the way, or those of one node, at another time than they were taken."""
        for what, moves in (
            ("all readings", lambda row: True),
            ("readings on the way", lambda row: row["phase"] == "running"),
            *((f"readings of {node}", lambda row, node=node: row["node"] == node) for node in self._nodes),
        ):
            for seconds in (-5, -1, 1, 5):
                readings = [
                    {**row, "time": max(0, row["time"] + seconds * _S)} if moves(row) else row
                    for row in self._observations
                ]
                kind = "readings of a node" if what.startswith("readings of") else what
                yield self._lie(f"{kind} {seconds:+} s", what, None, readings)

    def strange_versions(self) -> Iterator[Lie]:
        """Versions told alike in readings and notes: never changed, changed by the restart, or different between nodes."""
        last = next(row["id"] for row in reversed(self._observations) if row["kind"] == "version" and row["id"])
        versions = {row["id"] for row in self._observations if row["kind"] == "version"} - {None}
        is_epoch = any(
            loaded(row["definition"] or "{}").get("epoch") is not None
            for row in self._observations
            if row["kind"] == "version"
        )
        if is_epoch:
            return

        def told(
            change: Callable[[Row], bool], phases: Collection[str], nodes: Collection[str], version: str
        ) -> tuple[list[Row], list[Row]]:
            readings = [
                {**row, "id": version} if row["kind"] == "version" and row["id"] is not None and change(row) else row
                for row in self._observations
            ]

            def renoted(value: Any) -> Any:
                if value.get("phase") in phases:
                    value["versions"] = {
                        node: version if node in nodes else own for node, own in value["versions"].items()
                    }
                    value["agreed"] = len(set(value["versions"].values())) == 1
                return value

            return self._edited(self._renoted("settle", renoted)), readings

        yield self._lie(
            "version is the same from begin to end", "", *told(lambda row: True, ("setup", *_FINAL), self._nodes, last)
        )
        for other in (_other_id(last), min(versions - {last})):
            new = "a new one" if other not in versions else "an old one"
            yield self._lie(
                f"restart changes the version to {new}",
                other,
                *told(lambda row: row["phase"] == "restarted", ("restarted",), self._nodes, other or ""),
            )
            for phases in (("settled",), ("restarted",), _FINAL):
                yield self._lie(
                    f"a node differs in its version, and it is noted: {new}",
                    ", ".join(phases),
                    *told(
                        lambda row, phases=phases: row["phase"] in phases and row["node"] == self._nodes[-1],
                        phases,
                        self._nodes[-1:],
                        other or "",
                    ),
                )

    def stale_nodes(self) -> Iterator[Lie]:
        """A node that is as an earlier reading showed it, with the version of then, and the note of settling says so."""
        for node in self._nodes:
            for phases in (("settled",), ("restarted",), _FINAL):
                for ends in self._changes[-1:-20:-6]:
                    readings = self._as_before(
                        ends, where=lambda row, node=node, phases=phases: row["phase"] in phases and row["node"] == node
                    )
                    if readings is None:
                        continue
                    version = next(
                        (
                            row["id"]
                            for row in reversed(self._observations)
                            if row["kind"] == "version"
                            and row["node"] == node
                            and row["time"] < self._history[ends[0]]["time"]
                        ),
                        None,
                    )
                    readings = [
                        {**row, "id": version}
                        if (row["kind"], row["node"]) == ("version", node) and row["phase"] in phases
                        else row
                        for row in readings
                    ]

                    def renoted(
                        value: Any, phases: Collection[str] = phases, version: Any = version, node: str = node
                    ) -> Any:
                        if value.get("phase") in phases and node in value["versions"]:
                            value["versions"][node] = version
                            value["agreed"] = len(set(value["versions"].values())) == 1
                        return value

                    yield self._lie(
                        f"node is behind when {' and '.join(phases)}, and it is noted",
                        f"{node} op {ends[0]}",
                        self._edited(self._renoted("settle", renoted)),
                        readings,
                    )

    def renumbered_epochs(self) -> Iterator[Lie]:
        """An epoch more that nobody asked for, or one fewer, on all nodes, in versions, logs and notes alike."""
        epochs = sorted(
            {
                loaded(row["definition"])["epoch"]
                for row in self._observations
                if row["kind"] == "version" and row["definition"] and loaded(row["definition"]).get("epoch") is not None
            }
        )
        if not epochs:
            return
        middle = epochs[len(epochs) // 2]
        for what, first, step in (
            ("one more from the begin on", 0, 1),
            ("one entered again in the middle", middle, 1),
            ("one fewer from the middle on", middle, -1),
            ("ten more from the middle on", middle, 10),
            ("one entered again in the end", epochs[-1], 1),
        ):

            def moved(epoch: int, first: int = first, step: int = step) -> int:
                return epoch + step if epoch >= first else epoch

            def renoted(value: Any, moved: Callable[[int], int] = moved) -> Any:
                return {
                    **value,
                    "versions": {node: _epoch_moved(own, moved) for node, own in value["versions"].items()},
                }

            again = first if step == 1 and first else None
            readings = [_with_epochs(row, moved, again) for row in self._observations]
            yield self._lie(f"epochs: {what}", "", self._edited(self._renoted("settle", renoted)), readings)

    # ── time of day ──────────────────────────────────────────────────────────────────────────────────────────────────

    def other_days(self) -> Iterator[Lie]:
        """Logs, the plan, drops of columns and ids of tables of another time of day, each of them consistent with itself."""
        for hours in (-24, -1, 1, 24):
            yield self._lie(f"all logs {hours:+} h", "", None, None, [_dated(row, hours) for row in self._logs])
            for node in sorted({row["node"] for row in self._logs}):
                logs = [_dated(row, hours) if row["node"] == node else row for row in self._logs]
                yield self._lie(f"logs of a node {hours:+} h", node, None, None, logs)

            def replanned(value: Any, hours: int = hours) -> Any:
                begun = datetime.fromisoformat(value["utc"]) + timedelta(hours=hours)
                return {**value, "utc": begun.isoformat(timespec="milliseconds")}

            if any(
                "utc" in (value or {})
                for event, value in zip(self._history, self._values, strict=True)
                if event["f"] == "run-planned"
            ):
                history = self._edited(self._renoted("run-planned", replanned))
                yield self._lie(f"plan {hours:+} h", "", history)
                yield self._lie(
                    f"plan and all logs {hours:+} h", "", history, None, [_dated(row, hours) for row in self._logs]
                )
            readings = []
            for row in self._observations:
                shown = loaded(row["definition"]) if row["kind"] == "table" and row["definition"] else {}
                for column in (shown.get("dropped_columns") or {}).values():
                    if column.get("dropped_time"):
                        column["dropped_time"] += hours * 3_600_000
                readings.append({**row, "definition": _text(shown)} if shown.get("dropped_columns") else row)
            if readings != self._observations:
                yield self._lie(f"drops of columns {hours:+} h everywhere", "", None, readings)

    def _until(self, time: int) -> list[Row]:
        """The lines of the logs that were written by a time of the run."""
        planned = next((e, v) for e, v in zip(self._history, self._values, strict=True) if e["f"] == "run-planned")
        if "utc" not in planned[1]:
            return self._logs
        limit = datetime.fromisoformat(planned[1]["utc"]) + timedelta(seconds=(time - planned[0]["time"]) / _S)
        return [
            row
            for row in self._logs
            if row["timestamp"] is None or len(row["timestamp"]) < 20 or row["timestamp"] <= limit.strftime(_TIME)
        ]

    # ── logs and starts ──────────────────────────────────────────────────────────────────────────────────────────────

    def moved_lines(self) -> Iterator[Lie]:
        """A line of a log in the log of another node, and in that of another start."""
        seen = set()
        for number, row in enumerate(self._logs):
            if (row["node"], row["message"][:20]) in seen:
                continue
            seen.add((row["node"], row["message"][:20]))
            rest = [other for n, other in enumerate(self._logs) if n != number]
            text = f"{row['node']} {row['boot']} {row['line']} {row['message'][:40]}"
            for node in self._nodes:
                if node != row["node"]:
                    yield self._lie(
                        "line moved to another node's log",
                        text,
                        None,
                        None,
                        [*rest, {**row, "node": node, "line": row["line"] + 100_000}],
                    )
                    break
            others = {other["boot"] for other in self._logs if other["node"] == row["node"]} - {row["boot"]}
            for boot in sorted(others)[:1]:
                yield self._lie(
                    "line moved to another start's log",
                    text,
                    None,
                    None,
                    [*rest, {**row, "boot": boot, "line": row["line"] + 100_000}],
                )

    def strange_restarts(self) -> Iterator[Lie]:
        """Restarts that never happened: a log more, with a death and a start to it or without; and starts that are hidden with their logs."""
        begin, end = self._phases["main"]
        middle = (begin + end) // 2
        for node in self._nodes:
            boots = sorted({row["boot"] for row in self._logs if row["node"] == node})
            if len(boots) < 2:
                continue
            template = [row for row in self._logs if (row["node"], row["boot"]) == (node, boots[-1])]
            begun = next(
                e["time"]
                for e in self._history
                if e["f"] == "node-start" and loaded(e["value"])["phase"] == "restart" and e["node"] == node
            )
            back_h = (begun - middle) / 3600 / _S
            planted = [_dated({**row, "boot": boots[-1]}, -back_h) for row in template]
            logs = [{**row, "boot": row["boot"] + 1} if row in template else row for row in self._logs] + planted
            yield self._lie("log of a restart that nobody noted", node, None, None, logs)
            start = next(
                e
                for e in self._history
                if e["f"] == "node-start" and loaded(e["value"])["phase"] == "restart" and e["node"] == node
            )
            died = {**start, "f": "node-died", "time": middle, "value": _text({"exit_code": 137, "first_error": None})}
            if "heal" in self._phases:
                again = {
                    **start,
                    "time": sum(self._phases["heal"]) // 2,
                    "value": _text({**loaded(start["value"]), "phase": "fault"}),
                }
                yield self._lie(
                    "death and start that never happened, with their log",
                    node,
                    self._edited({}, added=[died, again]),
                    None,
                    logs,
                )
            hidden = [event for event in self._history if event is not start]
            rest = [row for row in self._logs if row not in template]
            yield self._lie("restart of a node hidden with its log", node, hidden, None, rest)
        starts = [
            e
            for e, v in zip(self._history, self._values, strict=True)
            if e["f"] == "node-start" and v["phase"] == "restart"
        ]
        hidden = [event for event in self._history if event not in starts]
        rest = [row for row in self._logs if row["boot"] == 0]
        yield self._lie("restart of all nodes hidden with their logs", "", hidden, None, rest)
        replanned = {
            n: {"value": _text({**v, "restart": "none"})}
            for n, (e, v) in enumerate(zip(self._history, self._values, strict=True))
            if e["f"] == "run-planned"
        }
        unplanned = [event for event in self._edited(replanned) if event not in starts]
        yield self._lie("restart of all nodes hidden with their logs, and not planned", "", unplanned, None, rest)

    # ── faults and operations ────────────────────────────────────────────────────────────────────────────────────────

    def planted_faults(self) -> Iterator[Lie]:
        """A fault that is planned, begins and ends, with all that it should leave, while its node answers clients and is read."""
        begin, end = self._phases["main"]
        planned = [
            (n, e, v)
            for n, (e, v) in enumerate(zip(self._history, self._values, strict=True))
            if e["f"] == "faults-planned"
        ]
        if not planned:
            return
        number, note, value = planned[0]
        own = self._edited({number: {"value": _text({**value, "count": 1, "ids": [0]})}})
        for nemesis, before, after in (
            ("pause", "running", "paused"),
            ("stop", "running", "stopped"),
            ("kill", "running", "stopped"),
        ):
            for node in self._nodes:
                parts = {"id": 0, "nemesis": nemesis, "nodes": [node], "parameters": {}}
                for what, (first, last) in (
                    ("for all of main", (begin + _S, end - _S)),
                    ("for a third of main", (begin + (end - begin) // 3, begin + 2 * (end - begin) // 3)),
                ):
                    begins = {
                        **note,
                        "f": "fault-begins",
                        "time": first,
                        "value": _text(
                            {**parts, "effect": {"observed": True, "nodes": {node: {"before": before, "after": after}}}}
                        ),
                    }
                    state = (
                        {"before": "paused", "after": "running"}
                        if nemesis == "pause"
                        else {"seconds": 1.0, "after": "running"}
                    )
                    ends = {
                        **note,
                        "f": "fault-ends",
                        "time": last,
                        "value": _text({**parts, "effect": {"observed": True, "nodes": {node: state}}}),
                    }
                    logs = None
                    boots = sorted({row["boot"] for row in self._logs if row["node"] == node})
                    if nemesis != "pause" and len(boots) > 1:
                        template = [row for row in self._logs if (row["node"], row["boot"]) == (node, boots[-1])]
                        begun = next(
                            e["time"]
                            for e in self._history
                            if e["f"] == "node-start" and loaded(e["value"])["phase"] == "restart" and e["node"] == node
                        )
                        logs = [{**row, "boot": row["boot"] + 1} if row in template else row for row in self._logs]
                        logs += [_dated(row, -(begun - last) / 3600 / _S) for row in template]
                    yield self._lie(
                        f"{nemesis} of a node {what}, which answers meanwhile", node, [*own, begins, ends], None, logs
                    )

    def _parts_of_operation(self, number: int) -> set[int]:
        """The places of all notes of an operation: its ends, its steps, and the note of the members after it."""
        found = {
            n
            for n, (e, v) in enumerate(zip(self._history, self._values, strict=True))
            if e["process"] == NEMESIS and isinstance(v, dict) and v.get("operation") == number
        }
        after = next((n for n in range(max(found), len(self._history)) if self._history[n]["f"] == "membership"), None)
        return found | ({after} if after is not None else set())

    @cached_property
    def _nemesis_operations(self) -> Sequence[int]:
        return sorted(
            {
                v["operation"]
                for e, v in zip(self._history, self._values, strict=True)
                if e["process"] == NEMESIS and isinstance(v, dict) and "operation" in v and e["type"] == "invoke"
            }
        )

    def hidden_operations(self) -> Iterator[Lie]:
        """An operation on the ring, or a step of an upgrade, that nothing notes, and the plan does not count."""
        for number in self._nemesis_operations:
            gone = self._parts_of_operation(number)
            edits = self._renoted("faults-planned", lambda value: {**value, "operations": value["operations"] - 1})
            yield self._lie("operation hidden with its notes", str(number), self._edited(edits, gone))
            renumbered = {}
            for n, (event, value) in enumerate(zip(self._history, self._values, strict=True)):
                if event["process"] == NEMESIS and isinstance(value, dict) and value.get("operation", -1) > number:
                    renumbered[n] = {"value": _text({**value, "operation": value["operation"] - 1})}
            yield self._lie(
                "operation hidden with its notes, and the others renumbered",
                str(number),
                self._edited({**edits, **renumbered}, gone),
            )

    def moved_operations(self) -> Iterator[Lie]:
        """An operation, or a fault, with all its notes, earlier or later than it was."""
        for number in self._nemesis_operations:
            parts = self._parts_of_operation(number)
            for seconds in (-20, -10, -5, 5, 10, 20):
                edits = {n: {"time": max(0, self._history[n]["time"] + seconds * _S)} for n in parts}
                yield self._lie(f"operation moved by {seconds:+} s", str(number), self._edited(edits))
        faults = {v["id"] for e, v in zip(self._history, self._values, strict=True) if e["f"] == "fault-begins"}
        for fault in sorted(faults):
            parts = {
                n
                for n, (e, v) in enumerate(zip(self._history, self._values, strict=True))
                if e["f"].startswith("fault-") and v.get("id") == fault
            }
            for seconds in (-20, -10, -5, 5, 10, 20):
                edits = {n: {"time": self._history[n]["time"] + seconds * _S} for n in parts}
                yield self._lie(f"fault moved by {seconds:+} s", str(fault), self._edited(edits))
            yield self._lie("fault hidden with its notes", str(fault), self._edited({}, parts))

    def exchanged_operations(self) -> Iterator[Lie]:
        """Two operations, each at the times of the other; or each on the node of the other, in all its notes."""
        for one, other in combinations(self._nemesis_operations, 2):
            spans = []
            for number in (one, other):
                times = [self._history[n]["time"] for n in self._parts_of_operation(number)]
                spans.append((min(times), max(times)))
            edits = {}
            for number, own, target in ((one, spans[0], spans[1]), (other, spans[1], spans[0])):
                for n in self._parts_of_operation(number):
                    share = (self._history[n]["time"] - own[0]) / max(1, own[1] - own[0])
                    edits[n] = {"time": target[0] + int(share * (target[1] - target[0]))}
            yield self._lie("operations exchanged with their notes", f"{one} {other}", self._edited(edits))
            nodes = [self._history[min(self._parts_of_operation(number))]["node"] for number in (one, other)]
            names = {nodes[0]: nodes[1], nodes[1]: nodes[0]}
            if nodes[0] != nodes[1]:
                edits = {}
                for number in (one, other):
                    for n in self._parts_of_operation(number):
                        event = self._history[n]
                        if event["f"] != "membership":
                            text = (
                                event["value"]
                                .replace(f'"{nodes[0]}"', '"\0"')
                                .replace(f'"{nodes[1]}"', f'"{nodes[0]}"')
                                .replace('"\0"', f'"{nodes[1]}"')
                            )
                            edits[n] = {"value": text, "node": names.get(event["node"], event["node"])}
                yield self._lie(
                    "nodes of two operations exchanged in their notes", f"{one} {other}", self._edited(edits)
                )

    def excused_refusals(self) -> Iterator[Lie]:
        """Refusals through healthy nodes, and a fault of another node, or an operation, noted at their time."""
        begin, _ = self._phases["main"]
        planned = [
            (n, e, v)
            for n, (e, v) in enumerate(zip(self._history, self._values, strict=True))
            if e["f"] == "faults-planned"
        ]
        for phase in ("prepare", "final-settled", "final-restarted"):
            inserts = [ends for ends in self._in(phase) if self._history[ends[0]]["f"] == "insert"]
            for what, edit in (
                (
                    "refused",
                    {"type": "fail", "error": "Unavailable: Cannot achieve consistency level QUORUM", "value": None},
                ),
                ("timed out", {"type": "info", "error": _SILENT, "value": None}),
            ):
                edits: dict[int, Mapping[str, Any]] = {ends[1]: edit for ends in inserts}
                number, note, value = planned[0]
                edits[number] = {"value": _text({**value, "count": 1, "ids": [0]})}
                node = self._nodes[-1]
                parts = {"id": 0, "nemesis": "pause", "nodes": [node], "parameters": {}}
                begins = {
                    **note,
                    "f": "fault-begins",
                    "time": begin + 1,
                    "value": _text(
                        {
                            **parts,
                            "effect": {"observed": True, "nodes": {node: {"before": "running", "after": "paused"}}},
                        }
                    ),
                }
                ends_ = {
                    **note,
                    "f": "fault-ends",
                    "time": begin + 100_000_000,
                    "value": _text(
                        {
                            **parts,
                            "effect": {"observed": True, "nodes": {node: {"before": "paused", "after": "running"}}},
                        }
                    ),
                }
                yield self._lie(
                    f"INSERTs of {phase} {what}, and a short pause of one node",
                    node,
                    self._edited(edits, added=[begins, ends_]),
                )


_ATTACKS: Final[Sequence[Callable[[JointRun], Iterator[Lie]]]] = (
    JointRun.lost_changes,
    JointRun.unanswered_changes,
    JointRun.late_changes,
    JointRun.reordered_changes,
    JointRun.lost_objects,
    JointRun.objects_of_nobody,
    JointRun.exchanged_ids,
    JointRun.exchanged_members,
    JointRun.missing_nodes,
    JointRun.renamed_coordinators,
    JointRun.missing_clients,
    JointRun.doubled_clients,
    JointRun.shifted_clients,
    JointRun.cut_histories,
    JointRun.cut_phases,
    JointRun.silent_phases,
    JointRun.lost_rows,
    JointRun.doubled_readings,
    JointRun.exchanged_final_phases,
    JointRun.shifted_readings,
    JointRun.strange_versions,
    JointRun.stale_nodes,
    JointRun.renumbered_epochs,
    JointRun.other_days,
    JointRun.moved_lines,
    JointRun.strange_restarts,
    JointRun.planted_faults,
    JointRun.hidden_operations,
    JointRun.moved_operations,
    JointRun.exchanged_operations,
    JointRun.excused_refusals,
)
_OTHER: Final[Mapping[str, str]] = {"settled": "restarted", "restarted": "settled"}


def _epoch_moved(version: str | None, moved: Callable[[int], int]) -> str | None:
    """Return the version that stands for another epoch; one that stands for none as it is."""
    head, _, tail = (version or "").rpartition("-")
    return f"{head}-{moved(int(tail, 16)):012x}" if head == "00000000-0000-0000-0000" else version


def _with_epochs(row: Row, moved: Callable[[int], int], again: int | None) -> Row:
    """Return a reading with other epochs; in a log the entry after `again` is there twice."""
    shown = loaded(row["definition"])
    if row["kind"] == "version" and shown and shown.get("epoch") is not None:
        told = _text({**shown, "epoch": moved(shown["epoch"])})
        return {**row, "id": _epoch_moved(row["id"], moved), "definition": told}
    if row["kind"] != "epochs" or not shown:
        return row
    entries = [[moved(entry[0]), *entry[1:]] for entry in shown["entries"]]
    twice = [[again, *entry[1:]] for entry in entries if again is not None and entry[0] == again + 1]
    return {**row, "definition": _text({"entries": sorted([*entries, *twice])})}


def _is_of(row: Mapping[str, Any], key: str) -> bool:
    """Tell if a reading is one of that object."""
    return f"{row['keyspace']}.{(row['name'] or '').partition('(')[0]}" == key


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    return {column: row[column] for column in ("definition", "id", "error")}


def _without_index(row: Row, keyspace: str, index: str) -> Row | None:
    """Return a table's account without an index; None of what has none of that name."""
    if row["kind"] != "table" or row["keyspace"] != keyspace or row["definition"] is None:
        return None
    shown = loaded(row["definition"])
    if index not in (shown.get("indexes") or ()):
        return None
    del shown["indexes"][index]
    return {**row, "definition": _text(shown)}


def _other_id(text: str | None) -> str | None:
    return None if text is None else text[:-1] + ("0" if text[-1:] != "0" else "1")


def _dated(row: Row, hours: float) -> Row:
    """A line of a log that was written some hours later."""
    stamp = row["timestamp"]
    if stamp is None or len(stamp) < 20:
        return row
    moved = datetime.strptime(stamp, _TIME) + timedelta(hours=hours)  # noqa: DTZ007 - logs name no zone
    return {**row, "timestamp": moved.strftime(_TIME)[:-3]}


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()
