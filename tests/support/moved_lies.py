"""Moved lies: a clean run's records in which whole records are moved, copied, repeated or exchanged.

`lies` falsifies one fact at a time; here no single fact is false: each record is one that the run had, in another place. Moved
operations get a process of their own, and events are sorted and numbered anew, so that nothing but the times and the
contents can tell. Classes are yielded in an order that never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import orjson
from lies import Lie
from opened_run import FRESH, OpenedRun, Row, table

from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import HISTORY, LOGS, OBSERVATIONS, Records

__all__ = ["MovedRun"]

_SECOND = 10**9

_Item = TypeVar("_Item")


class MovedRun(OpenedRun):
    """A run in which nothing is wrong, and what becomes of it when its records are moved."""

    def lies(self) -> Iterator[Lie]:
        """Yield every lie."""
        yield from self._exchanged_answers()
        yield from self._exchanged_operations()
        yield from self._moved_operations()
        yield from self._shifted_ends()
        yield from self._exchanged_events()
        yield from self._repeated()
        yield from self._moved_notes()
        yield from self._exchanged_readings()
        yield from self._exchanged_objects()
        yield from self._copied_objects()
        yield from self._repeated_objects()
        yield from self._shifted_readings()
        yield from self._moved_samples()
        yield from self._missing_samples()
        yield from self._moved_logs()

    # ── operations ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _phase_at(self, time: int) -> str:
        return next((phase for phase, (begin, end) in self._phases.items() if begin <= time <= end), "")

    def _group(self, operation: tuple[int, int]) -> str:
        """What an operation is called in the name of a class: its function and outcome, and a read's phase and level."""
        invoked, answered = operation
        event, value = self._history[answered], self._values[invoked]
        parts = [event["f"], event["type"]]
        if event["f"] not in SCHEMA_CHANGES and isinstance(value, dict):
            lookup = "by index" if value.get("index") else "by view" if value.get("base") else None
            parts += [value.get("consistency"), value.get("phase"), lookup]
        return " ".join(str(part) for part in parts if part)

    def _exchanged_answers(self) -> Iterator[Lie]:
        """Answers of two operations of one function, as if each were the other's; and their outcomes."""
        for one, other in _pairs_alike(self._operations, lambda operation: self._history[operation[0]]["f"]):
            first, second = self._history[one[1]], self._history[other[1]]
            text = f"ops {first['index']} and {second['index']} {first['f']}"
            if (first["type"], second["type"]) == ("ok", "ok"):
                place = "of one table" if first["key"] == second["key"] else "of two tables"
                near = (
                    "in one phase" if self._phase_at(first["time"]) == self._phase_at(second["time"]) else "of phases"
                )
                edits = {one[1]: _picked(second, "value", "mops"), other[1]: _picked(first, "value", "mops")}
                yield self._told(f"answers exchanged {place} {near}: {first['f']}", text, edits)
                rows = [self._rows(end[1]) for end in (one, other)]
                if rows[0] != rows[1] and None not in rows:
                    taken = {
                        end[1]: {"value": self._with_rows(end[1], each)}
                        for end, each in zip((one, other), reversed(rows), strict=True)
                    }
                    yield self._told(f"rows exchanged {place} {near}: {first['f']}", text, taken)
            elif {first["type"], second["type"]} == {"ok", "fail"}:
                edits = {}
                for here, there in ((one, other), (other, one)):
                    outcome = _picked(self._history[there[1]], "type", "error")
                    value = self._history[here[0]]["value"] if outcome["type"] == "ok" else None
                    edits[here[1]] = {**outcome, "value": value}
                yield self._told(f"outcomes exchanged: {first['f']}", text, edits)

    def _rows(self, answered: int) -> Any:
        value = self._values[answered]
        return value.get("rows") if isinstance(value, dict) else None

    def _with_rows(self, answered: int, rows: Any) -> str:
        return orjson.dumps({**self._values[answered], "rows": rows}).decode()

    def _exchanged_operations(self) -> Iterator[Lie]:
        """Each of two operations that followed one another at the time, and by the process, of the other; and through its coordinator."""
        for one, other in pairwise(self._operations):
            groups = [self._group(one), self._group(other)]
            first, second = ([self._history[end] for end in ends] for ends in (one, other))
            text = f"ops {first[0]['index']} {groups[0]} and {second[0]['index']} {groups[1]}"
            if _picked(first[0], "f", "key", "value") == _picked(second[0], "f", "key", "value"):
                continue
            edits = {
                end: _picked(there, "time", "process", "node")
                for ends, events in ((one, second), (other, first))
                for end, there in zip(ends, events, strict=True)
            }
            yield self._told(f"operations exchanged: {groups[0]}, {groups[1]}", text, edits)
        for one, other in _pairs_alike(self._operations, self._group):
            here, there = self._history[one[0]], self._history[other[0]]
            if here["node"] != there["node"]:
                edits = {end: {"node": there["node"], "process": FRESH} for end in one}
                edits |= {end: {"node": here["node"], "process": FRESH + 1} for end in other}
                yield self._told(
                    f"coordinators exchanged: {self._group(one)}", f"ops {here['index']} {there['index']}", edits
                )

    def _moved_operations(self) -> Iterator[Lie]:
        """An operation in the middle of each other phase, at its own pace."""
        for ends in self._operations:
            asked, answered = (self._history[end] for end in ends)
            for phase, (begin, end) in self._phases.items():
                if begin <= asked["time"] <= end:
                    continue
                start = (begin + end) // 2
                times = {ends[0]: start, ends[1]: start + answered["time"] - asked["time"]}
                edits = {at: {"time": time, "process": FRESH} for at, time in times.items()}
                yield self._told(f"moved to {phase}: {self._group(ends)}", f"op {asked['index']}", edits)

    def _shifted_ends(self) -> Iterator[Lie]:
        """An answer that came late, a question that was asked early, and one that was answered at once."""
        phases = list(self._phases)
        for ends in self._operations:
            asked = self._history[ends[0]]
            phase = self._phase_at(asked["time"])
            if not phase:
                continue
            own = {end: {"process": FRESH} for end in ends}
            at = phases.index(phase)
            late = {"at the end of its phase": self._phases[phase][1] - 1}
            late |= {f"in {later}": sum(self._phases[later]) // 2 for later in phases[at + 1 : at + 2]}
            early = {"at the begin of its phase": self._phases[phase][0] + 1}
            early |= {f"in {earlier}": sum(self._phases[earlier]) // 2 for earlier in phases[at - 1 : at] if at}
            for end, verb, places in ((ends[1], "answered late", late), (ends[0], "asked early", early)):
                for place, time in places.items():
                    edits = {**own, end: {"process": FRESH, "time": time}}
                    yield self._told(f"{verb} {place}: {self._group(ends)}", f"op {asked['index']}", edits)
            edits = {ends[1]: {"time": asked["time"]}}
            yield self._told(f"answered when it was asked: {self._group(ends)}", f"op {asked['index']}", edits)

    def _exchanged_events(self) -> Iterator[Lie]:
        """Two events that followed one another, each at the time of the other; and both at one instant."""
        for one, other in zip(self._history, self._history[1:], strict=False):
            kinds = [
                f"{'note' if event['process'] == NEMESIS else event['type']} {event['f']}" for event in (one, other)
            ]
            text = f"events {one['index']} and {other['index']}"
            swapped = {one["index"]: {"time": other["time"]}, other["index"]: {"time": one["time"]}}
            if one["process"] != other["process"]:
                yield self._told(f"events in the other order: {', '.join(kinds)}", text, swapped)
            at_once = {other["index"]: {"time": one["time"]}}
            yield self._told(f"events at one instant: {', '.join(kinds)}", text, at_once)

    def _repeated(self) -> Iterator[Lie]:
        """An event that is there twice; an operation that is: at once, through another node, and at the end of its phase."""
        for event in self._history:
            who = "note" if event["process"] == NEMESIS else event["type"]
            yield self._told(f"event twice: {who} {event['f']}", f"event {event['index']}", {}, [event])
        nodes = sorted({event["node"] for event in self._history if event["node"] and event["process"] != NEMESIS})
        for ends in self._operations:
            asked, answered = (self._history[end] for end in ends)
            if self._phase_at(asked["time"]) == "":
                continue
            length = answered["time"] - asked["time"]
            last = self._phases[self._phase_at(asked["time"])][1] - length - 1
            away = nodes[(nodes.index(asked["node"]) + 1) % len(nodes)] if asked["node"] in nodes else asked["node"]
            for place, start, node in (
                ("at once", answered["time"] + 1, asked["node"]),
                ("through another node", answered["time"] + 1, away),
                ("at the end of its phase", last, asked["node"]),
            ):
                times = (start, start + length)
                again = [
                    {**event, "time": time, "process": FRESH, "node": node}
                    for event, time in zip((asked, answered), times, strict=True)
                ]
                yield self._told(f"operation twice, {place}: {self._group(ends)}", f"op {asked['index']}", {}, again)

    def _moved_notes(self) -> Iterator[Lie]:
        """Notes of the conductor in another phase, and two of one kind, each in the place of the other."""
        notes = [event for event in self._history if event["process"] == NEMESIS]
        for note in notes:
            for phase, (begin, end) in self._phases.items():
                if not begin <= note["time"] <= end:
                    yield self._told(
                        f"note moved to {phase}: {note['f']}",
                        f"note {note['index']}",
                        {note["index"]: {"time": (begin + end) // 2}},
                    )
            for what, seconds in (("a second earlier", -1), ("a second later", 1)):
                edits = {note["index"]: {"time": max(0, note["time"] + seconds * _SECOND)}}
                yield self._told(f"note {what}: {note['f']}", f"note {note['index']}", edits)
        for one, other in _pairs_alike(notes, lambda note: note["f"]):
            for what, columns in (("of two notes exchanged", ("value",)), ("of two nodes exchanged", ("node",))):
                if any(one[column] != other[column] for column in columns):
                    edits = {one["index"]: _picked(other, *columns), other["index"]: _picked(one, *columns)}
                    yield self._told(f"contents {what}: {one['f']}", f"notes {one['index']}, {other['index']}", edits)

    def _told(self, kind: str, text: str, edits: Mapping[int, Mapping[str, Any]], added: Collection[Row] = ()) -> Lie:
        def tell() -> Records:
            rows = [{**event, **edits.get(number, {})} for number, event in enumerate(self._history)]
            rows = sorted([*rows, *added], key=lambda row: row["time"])
            numbered = [{**row, "index": number} for number, row in enumerate(rows)]
            return Records.of(table(numbered, HISTORY), self._records.observations, self._records.logs)

        return Lie(kind, "", text, tell)

    # ── readings ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _seen(
        self,
        kind: str,
        place: str,
        text: str,
        edits: Mapping[int, Mapping[str, Any]],
        *,
        added: Sequence[Row] = (),
        gone: Collection[int] = (),
    ) -> Lie:
        def tell() -> Records:
            rows = [
                {**row, **edits.get(number, {})} for number, row in enumerate(self._observations) if number not in gone
            ]
            return Records.of(self._records.history, table([*rows, *added], OBSERVATIONS), self._records.logs)

        return Lie(kind, place, text, tell)

    def _of(self, phase: str, node: str) -> Sequence[int]:
        return [n for n, row in enumerate(self._observations) if (row["phase"], row["node"]) == (phase, node)]

    def _exchanged_readings(self) -> Iterator[Lie]:
        """Whole final readings: of two nodes exchanged, one copied over another, and the two phases exchanged."""
        for one, other in pairwise(self._nodes):
            for phase in ("settled", "restarted"):
                here, there = self._of(phase, one), self._of(phase, other)
                edits = {n: {"node": other} for n in here} | {n: {"node": one} for n in there}
                yield self._seen("readings of two nodes exchanged", phase, f"{one} {other}", edits)
                copies = [{**self._observations[n], "node": other} for n in here]
                yield self._seen(
                    "reading copied from another node", phase, f"{one} {other}", {}, added=copies, gone=there
                )
                late = [{**row, "time": row["time"] + 1_234_567} for row in copies]
                yield self._seen(
                    "reading copied from another node at other instants",
                    phase,
                    f"{one} {other}",
                    {},
                    added=late,
                    gone=there,
                )
        for nodes in (self._nodes[:1], self._nodes):
            shifts = {
                phase: min(self._observations[n]["time"] for node in nodes for n in self._of(phase, node))
                for phase in ("settled", "restarted")
            }
            for source, target in (("settled", "restarted"), ("restarted", "settled")):
                shift = shifts[target] - shifts[source]
                rows = [self._observations[n] for node in nodes for n in self._of(source, node)]
                gone = {n for node in nodes for n in self._of(target, node)}
                samples = {row["sample"] for n in gone if (row := self._observations[n])["kind"] == "version"}
                moved = [
                    {
                        **row,
                        "phase": target,
                        "time": row["time"] + shift,
                        "sample": max(samples) if row["sample"] else 0,
                    }
                    for row in rows
                ]
                place = f"{len(nodes)} nodes"
                yield self._seen(f"{source} reading copied to {target}", place, "", {}, added=moved, gone=gone)

    @cached_property
    def _final(self) -> Mapping[tuple[str, str, str, str | None, str | None, str | None], int]:
        """(phase, node, kind, keyspace, name, id of a directory) → row."""
        return {
            (
                row["phase"],
                row["node"],
                row["kind"],
                row["keyspace"],
                row["name"],
                row["id"] if row["kind"] == "data-directory" else None,
            ): number
            for number, row in enumerate(self._observations)
            if row["phase"] != "running"
        }

    def _exchanged_objects(self) -> Iterator[Lie]:
        """Two accounts of one object, of two nodes, and of two objects of one kind, each in the place of the other."""
        for (phase, node, kind, *name), number in self._final.items():
            row = self._observations[number]
            for other in self._nodes[self._nodes.index(node) + 1 :]:
                there = self._final.get((phase, other, kind, *name))
                if there is not None and _shown(row) != _shown(self._observations[there]):
                    edits = {number: _shown(self._observations[there]), there: _shown(row)}
                    yield self._seen(f"accounts of two nodes exchanged: {kind}", phase, f"{node} {other} {name}", edits)
                    edits = {there: _shown(row)}
                    yield self._seen(
                        f"account copied from another node: {kind}", phase, f"{node} {other} {name}", edits
                    )
        for one, other in _pairs_alike(list(self._final), lambda place: place[:4]):
            first, second = self._observations[self._final[one]], self._observations[self._final[other]]
            if _shown(first) != _shown(second):
                edits = {self._final[one]: _shown(second), self._final[other]: _shown(first)}
                yield self._seen(
                    f"accounts of two objects exchanged: {one[2]}", one[0], f"{one[1]} {one[4]} {other[4]}", edits
                )
                everywhere: dict[int, Mapping[str, Any]] = {}
                for place, number in self._final.items():
                    if place[2:] in (one[2:], other[2:]):
                        target = (*place[:2], *(other if place[2:] == one[2:] else one)[2:])
                        everywhere[number] = _shown(self._observations[self._final.get(target, number)])
                yield self._seen(
                    f"accounts of two objects exchanged: {one[2]}", "all, both", f"{one[4]} {other[4]}", everywhere
                )

    def _copied_objects(self) -> Iterator[Lie]:
        """An object of one final reading as the other one, and as a reading on the way, showed it."""
        latest: dict[tuple[Any, ...], int] = {}
        first: dict[tuple[Any, ...], int] = {}
        for number, row in enumerate(self._observations):
            if row["phase"] == "running" and row["definition"] is not None:
                place = (row["node"], row["kind"], row["keyspace"], row["name"])
                first.setdefault(place, number)
                latest[place] = number
        for (phase, node, kind, *name), number in self._final.items():
            sources = {"the other phase": self._final.get((_OTHER[phase], node, kind, *name))}
            if kind != "data-directory":
                sources["the first reading"] = first.get((node, kind, name[0], name[1]))
                sources["the last reading on the way"] = latest.get((node, kind, name[0], name[1]))
            for source, there in sources.items():
                if there is not None and _shown(self._observations[there]) != _shown(self._observations[number]):
                    edits = {number: _shown(self._observations[there])}
                    yield self._seen(f"account copied from {source}: {kind}", phase, f"{node} {name}", edits)

    def _repeated_objects(self) -> Iterator[Lie]:
        """An account that is there twice, and another account of the same object beside it."""
        for number, row in enumerate(self._observations):
            yield self._seen(f"account twice: {row['kind']}", row["phase"], f"row {number}", {}, added=[row])
        for one, other in _pairs_alike(list(self._final), lambda place: place[:4]):
            first, second = self._observations[self._final[one]], self._observations[self._final[other]]
            odd = {**first, **_shown(second)}
            yield self._seen(f"another account beside: {one[2]}", one[0], f"{one[1]} {one[4]}", {}, added=[odd])

    def _shifted_readings(self) -> Iterator[Lie]:
        """A row, a sample, or a node's whole reading at another time."""
        samples: dict[tuple[Any, ...], list[int]] = {}
        for number, row in enumerate(self._observations):
            samples.setdefault((row["phase"], row["node"], row["sample"]), []).append(number)
            for what, seconds in (("earlier", -1), ("later", 1), ("an hour later", 3600), ("when the run began", None)):
                time = 0 if seconds is None else max(0, row["time"] + seconds * _SECOND)
                yield self._seen(
                    f"account {what}: {row['kind']}", row["phase"], f"row {number}", {number: {"time": time}}
                )
        for (phase, node, sample), rows in samples.items():
            for what, seconds in (
                ("two seconds earlier", -2),
                ("two seconds later", 2),
                ("20 s earlier", -20),
                ("20 s later", 20),
            ):
                edits = {n: {"time": max(0, self._observations[n]["time"] + seconds * _SECOND)} for n in rows}
                yield self._seen(f"sample {what}", phase, f"{node} {sample}", edits)

    @cached_property
    def _samples(self) -> Mapping[tuple[str, int], Sequence[int]]:
        """(node, sample) → rows of readings during the run that have more than a version."""
        found: dict[tuple[str, int], list[int]] = {}
        for number, row in enumerate(self._observations):
            if row["phase"] == "running":
                found.setdefault((row["node"], row["sample"]), []).append(number)
        return found

    def _moved_samples(self) -> Iterator[Lie]:
        """Samples on the way: of two nodes exchanged, of two times exchanged, and each in another phase."""
        rich = {place: rows for place, rows in self._samples.items() if len(rows) > 1}
        for (node, sample), rows in rich.items():
            for other in self._nodes:
                there = self._samples.get((other, sample))
                if other > node and there:
                    edits = {n: {"node": other} for n in rows} | {n: {"node": node} for n in there}
                    yield self._seen("samples of two nodes exchanged", "running", f"{node} {other} {sample}", edits)
        for one, other in _pairs_alike(list(rich), lambda place: place[0]):
            times = [min(self._observations[n]["time"] for n in rich[place]) for place in (one, other)]
            shift = times[1] - times[0]
            edits = {n: {"time": self._observations[n]["time"] + shift, "sample": other[1]} for n in rich[one]}
            edits |= {n: {"time": self._observations[n]["time"] - shift, "sample": one[1]} for n in rich[other]}
            yield self._seen("samples of two times exchanged", "running", f"{one} {other}", edits)
            numbers = {n: {"sample": other[1]} for n in rich[one]} | {n: {"sample": one[1]} for n in rich[other]}
            yield self._seen("numbers of two samples exchanged", "running", f"{one} {other}", numbers)
        for (node, sample), rows in rich.items():
            for phase in ("settled", "restarted"):
                edits = {n: {"phase": phase} for n in rows}
                yield self._seen(f"sample on the way called {phase}", "running", f"{node} {sample}", edits)
        for phase in ("settled", "restarted"):
            for node in self._nodes:
                edits = {n: {"phase": "running"} for n in self._of(phase, node)}
                yield self._seen(f"{phase} reading called running", phase, node, edits)

    def _missing_samples(self) -> Iterator[Lie]:
        """Readings on the way that are gone: one, all of a node, all of all nodes, and all of a phase."""
        for (node, sample), rows in self._samples.items():
            if len(rows) > 1:
                yield self._seen("sample gone", "running", f"{node} {sample}", {}, gone=rows)
        for node in self._nodes:
            yield self._seen("all samples of a node gone", "running", node, {}, gone=self._of("running", node))
        everything = [n for n, row in enumerate(self._observations) if row["phase"] == "running"]
        yield self._seen("all samples gone", "running", "", {}, gone=everything)
        for phase, (begin, end) in self._phases.items():
            gone = [n for n in everything if begin <= self._observations[n]["time"] <= end]
            if gone:
                yield self._seen(f"all samples of {phase} gone", "running", "", {}, gone=gone)

    # ── node logs ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _logged(self, kind: str, text: str, rows: Sequence[Row]) -> Lie:
        ordered = sorted(rows, key=lambda row: (row["node"], row["boot"], row["line"]))
        return Lie(
            kind, "", text, lambda: Records.of(self._records.history, self._records.observations, table(ordered, LOGS))
        )

    def _moved_logs(self) -> Iterator[Lie]:
        """Logs of two nodes and of two starts exchanged and copied; single lines gone, twice, at another time, of another level."""
        nodes = sorted({row["node"] for row in self._logs})
        for one, other in pairwise(nodes):
            names = {one: other, other: one}
            swapped = [{**row, "node": names.get(row["node"], row["node"])} for row in self._logs]
            yield self._logged("logs of two nodes exchanged", f"{one} {other}", swapped)
            copied = [row for row in self._logs if row["node"] != other]
            copied += [{**row, "node": other} for row in self._logs if row["node"] == one]
            yield self._logged("log copied from another node", f"{one} {other}", copied)
        for node in nodes:
            boots = sorted({row["boot"] for row in self._logs if row["node"] == node})
            for one_boot, other_boot in pairwise(boots):
                numbers = {one_boot: other_boot, other_boot: one_boot}
                swapped = [
                    {**row, "boot": numbers.get(row["boot"], row["boot"])} if row["node"] == node else row
                    for row in self._logs
                ]
                yield self._logged("logs of two starts exchanged", f"{node} {one_boot} {other_boot}", swapped)
                merged = [
                    {**row, "boot": one_boot, "line": row["line"] + 100_000}
                    if (row["node"], row["boot"]) == (node, other_boot)
                    else row
                    for row in self._logs
                ]
                yield self._logged("logs of two starts in one", f"{node} {one_boot} {other_boot}", merged)
                copied = [row for row in self._logs if (row["node"], row["boot"]) != (node, other_boot)]
                copied += [
                    {**row, "boot": other_boot} for row in self._logs if (row["node"], row["boot"]) == (node, one_boot)
                ]
                yield self._logged("log copied from another start", f"{node} {one_boot} {other_boot}", copied)
        for number, row in enumerate(self._logs):
            rest = [other for n, other in enumerate(self._logs) if n != number]
            text = f"{row['node']} {row['boot']} line {row['line']}"
            place = f"{row['level']} line"
            if row["line"] == 1:
                place = "first line"
            yield self._logged(f"log: {place} gone", text, rest)
            yield self._logged(f"log: {place} twice", text, [*self._logs, row])
            yield self._logged(f"log: {place} called an error", text, [*rest, {**row, "level": "ERROR"}])
            if row["timestamp"]:
                yield self._logged(
                    f"log: {place} of another day",
                    text,
                    [*rest, {**row, "timestamp": "2020-01-01" + row["timestamp"][10:]}],
                )
                yield self._logged(f"log: {place} without time", text, [*rest, {**row, "timestamp": None}])
        for one_row, other_row in pairwise(self._logs):
            if (one_row["node"], one_row["boot"]) == (other_row["node"], other_row["boot"]):
                rest = [row for row in self._logs if row not in (one_row, other_row)]
                swapped = [{**one_row, "line": other_row["line"]}, {**other_row, "line": one_row["line"]}]
                yield self._logged(
                    "log: two lines in the other order", f"{one_row['node']} {one_row['line']}", [*rest, *swapped]
                )


_OTHER: Mapping[str, str] = {"settled": "restarted", "restarted": "settled"}


def _pairs_alike(items: Sequence[_Item], group: Callable[[_Item], Any]) -> Iterator[tuple[_Item, _Item]]:
    """Yield each item with the next of its group."""
    last: dict[Any, _Item] = {}
    for item in items:
        name = group(item)
        if name in last:
            yield last[name], item
        last[name] = item


def _picked(row: Mapping[str, Any], *columns: str) -> dict[str, Any]:
    return {column: row[column] for column in columns}


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """What an account says: its definition, and its id, but for that of a directory, which is its name."""
    return _picked(row, "definition") if row["kind"] == "data-directory" else _picked(row, "definition", "id", "error")
