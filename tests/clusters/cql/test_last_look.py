"""Last look: what is new in a reading, what is gone, and what could not be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schemaquake.clusters.cql.last_look import LastLook
from schemaquake.harness.model.observation import Observation, reading

TABLE = {"columns": {}}
MEMORY = {"kind": "table", "statement": "CREATE TABLE k.t (a int PRIMARY KEY)"}


def looked(version: str, *, memory: Mapping[str, Any] | None, disk: bool = True, **facts: Any) -> list[Observation]:
    observed = reading(phase="running", node="n1", sample=0)
    rows = [observed("version", None, None, id=version, definition={"epoch": None, "memory": "statements", **facts})]
    rows += [observed("table", "k", "t", definition=TABLE)] if disk else []
    return rows + ([observed("live", "k", "t", definition=memory)] if memory is not None else [])


def told(rows: Sequence[Observation]) -> list[tuple[str, Any]]:
    return [(row.kind, row.definition) for row in rows if row.kind != "version"]


def test_what_is_gone_is_told_once() -> None:
    look = LastLook()
    assert told(look.changes(looked("a", memory=MEMORY))) == [("table", TABLE), ("live", MEMORY)]
    assert told(look.changes(looked("b", memory=None))) == [("live", None)]
    assert told(look.changes(looked("c", memory=None, disk=False))) == [("table", None)]


def test_what_is_gone_may_have_gone_until_the_reading_had_ended() -> None:
    look = LastLook()
    first = looked("a", memory=MEMORY)
    look.changes(first)
    ended_ns = max(row.time for row in first) + 1_000_000_000
    version, gone = look.changes(looked("b", memory=None), ended_ns=ended_ns)
    assert gone.time == ended_ns > version.time
    look.changes(looked("c", memory=MEMORY))
    version, *rest = last = looked("d", memory=None, disk=False)
    assert rest == []
    assert [row.time for row in look.changes(last)] == [version.time] * 3, "nothing else tells"


def test_objects_of_two_kinds_with_one_name_are_told_apart_in_memory() -> None:
    observed = reading(phase="running", node="n1", sample=0)
    version = looked("a", memory=None, disk=False)[0]
    kinds = {kind: observed("live", "k", "t", definition={"kind": kind}) for kind in ("type", "materialized view")}
    look = LastLook()
    assert len(look.changes([version, *kinds.values()])) == 3
    assert told(look.changes([version, *kinds.values()])) == []
    (gone,) = look.changes([version, kinds["type"]])[1:]
    assert (gone.kind, gone.name, gone.id, gone.definition) == ("live", "t", "view", None)


def test_a_memory_that_could_not_be_read_is_not_gone() -> None:
    look = LastLook()
    look.changes(looked("a", memory=MEMORY))
    assert told(look.changes(looked("b", memory=None, memory_error="timed out"))) == []
    assert told(look.changes(looked("c", memory=None, disk=False, memory_error="timed out"))) == [("table", None)]
    assert told(look.changes(looked("d", memory=MEMORY, disk=False))) == [], "it is as it was shown last"
    assert told(look.changes(looked("e", memory=None, disk=False))) == [("live", None)]
