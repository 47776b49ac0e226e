"""Sights: what nodes showed in readings while the run went on, and what their next readings corrected."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest
from histories import judged, observed

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.sights import Sight, read_outages, read_sights
from schemaquake.harness.model.records import HISTORY, OBSERVATIONS

LIVE = "live k.{0} CREATE TABLE k.{0} (a int PRIMARY KEY)"
T, OTHER = LIVE.format("t"), LIVE.format("s")
DISK = "table k.t id=aa a:int*"
VIEW = "view k.m id=aa a:int*"
GONE = "live k.t gone table"


def sights(*lines: str) -> Sequence[Sight]:
    """The sights of readings of n1, each `@ms version what`."""
    rows = []
    for line in lines:
        at, version, what = line.split(" ", 2)
        rows += [f"{at} running n1 version {version}", f"{at} running n1 {what}"]
    return read_sights(Evidence.of(judged([], rows)))


@pytest.mark.parametrize(
    ("readings", "corrected"),
    [
        ((f"@10 v1 {T}",), False),
        ((f"@10 v1 {T}", f"@20 v1 {T}"), True),
        ((f"@10 v1 {T}", f"@20 v2 {T}"), True),
        ((f"@10 v1 {T}", f"@20 v2 {OTHER}"), False),
        ((f"@10 v1 {T}", f"@20 v1 {OTHER}", f"@30 v2 {T}"), True),  # only what has another version was read anew
        ((f"@10 v1 {T}", f"@20 v1 {OTHER}", f"@30 v2 {OTHER}", f"@40 v2 {T}"), False),
        ((f"@10 v1 {T}", f"@20 v2 {OTHER}", f"@30 v2 {T}"), False),
        ((f"@10 v2 {T}", f"@20 v1 {OTHER}", f"@30 v1 {T}"), False),
        ((f"@10 v1 {T}", f"@20 v2 {GONE}"), True),
        ((f"@10 v1 {T}", "@20 v2 live k.t gone"), True),  # runs of 0.1 do not say which kind of object it was
        ((f"@10 v1 {T}", '@20 v2 live k.t {"kind": "type", "statement": "CREATE TYPE k.t (a int)"}'), False),
        ((f"@10 v1 {T}", f"@20 v2 {DISK}"), False),
        ((f"@10 v1 {DISK}", f"@20 v2 {T}"), False),
        ((f"@10 v1 {DISK}", f"@20 v2 {DISK}"), True),
        (("@10 v1 keyspace k", "@20 v2 keyspace k"), True),
        (("@10 v1 keyspace k", '@20 v2 live k {"kind": "keyspace", "statement": "CREATE KEYSPACE k"}'), False),
        ((f"@10 v1 {DISK}", f"@20 v2 {DISK.replace('k.t', 'l.t')}"), False),
        ((f"@10 v1 {DISK}", "@20 v1 table k.s id=bb a:int*", f"@30 v2 {DISK}"), True),
        ((f"@10 v1 {VIEW}", "@20 v1 view k.w id=bb a:int*", f"@30 v2 {VIEW}"), True),
    ],
)
def test_the_next_reading_of_another_version_may_correct_what_was_shown(
    readings: Sequence[str], *, corrected: bool
) -> None:
    assert sights(*readings)[0].corrected is corrected


def test_a_sight_lies_between_the_node_s_last_reading_and_the_end_of_its_own() -> None:
    lines = [f"@20 running n2 {T}", f"@20 running n1 {OTHER}", f"@30 running n1 {T}", f"@30 running n1 {DISK}"]
    found = read_sights(Evidence.of(judged([], lines)))
    assert [
        (sight.place, sight.subject.name, sight.begins // 1_000_000, sight.ends // 1_000_000) for sight in found
    ] == [
        (("n1", "memory"), "s", 0, 20),
        (("n2", "memory"), "t", 0, 20),
        (("n1", "memory"), "t", 20, 30),
        (("n1", "disk"), "t", 20, 30),
    ]


@pytest.mark.parametrize("row", ["keyspace k", DISK, VIEW, "type k.u f0:int"])
def test_a_row_of_a_schema_s_tables_is_a_sight_of_a_disk(row: str) -> None:
    (sight,) = sights(f"@10 v1 {row}")
    assert (sight.place, sight.subject.kind) == (("n1", "disk"), row.split(" ", 1)[0])


def test_an_error_of_one_object_is_neither_a_sight_of_it_nor_an_outage_of_its_node() -> None:
    rows = observed("@10 running n1 version v1", f"@10 running n1 {DISK}", f"@10 running n1 {VIEW}").to_pylist()
    odd = [{**row, "error": None if row["kind"] == "version" else "Timeout"} for row in rows]
    case = Evidence(HISTORY.empty_table(), pa.Table.from_pylist(odd, schema=OBSERVATIONS))
    assert not read_sights(case)
    assert read_outages(case) == {}


def test_final_readings_are_no_sights() -> None:
    lines = [f"settled n1 {DISK}", f"restarted n1 {DISK}", f"@10 running n1 {DISK}"]
    assert [sight.ends for sight in read_sights(Evidence.of(judged([], lines)))] == [10_000_000]


def test_what_is_gone_is_the_object_of_this_kind_that_was_shown() -> None:
    both = (f"@10 v1 {T}", '@20 v2 live k.t {"kind": "type", "statement": "CREATE TYPE k.t (a int)"}')
    for last, kind in ((GONE, "table"), ("live k.t gone type", "type"), ("live k.t gone", "type")):
        gone = sights(*both, f"@30 v3 {last}")[-1]
        assert (gone.definition, gone.subject.kind) == (None, kind)
    assert not sights(f"@10 v1 {GONE}")


@pytest.mark.parametrize(
    ("row", "understood", "named"),
    [
        (T, True, ""),
        ("live k.t CREATE TABLE t (a int PRIMARY KEY)", True, ""),
        ("live k.t CREATE TABLE k.s (a int PRIMARY KEY)", True, "k.s"),
        ("live k.t CREATE TABLE l.t (a int PRIMARY KEY)", True, "l.t"),
        ("live k.t CREATE TABLE k.t (", False, ""),
    ],
)
def test_a_statement_of_a_memory_may_be_odd_or_that_of_another_object(
    row: str, named: str, *, understood: bool
) -> None:
    (sight,) = sights(f"@10 v1 {row}")
    assert (sight.understood, sight.named, sight.subject.name) == (understood, named, "t")
    assert sight.statement == row.split(" ", 2)[2]


def test_an_object_of_which_a_memory_says_nothing_is_not_understood() -> None:
    (sight,) = sights('@10 v1 live k.t {"kind": "table"}')
    assert (sight.understood, sight.statement, sight.definition) == (False, None, {})


@pytest.mark.parametrize("name", ["f(int)", "f(frozen<list<int>>)", '"F"(int)', '"F"', "f"])
def test_a_function_is_named_without_its_arguments(name: str) -> None:
    statement = f"CREATE FUNCTION k.{name} CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return x;'"
    (sight,) = sights(f"@10 v1 live k.{name} {json.dumps({'kind': 'function', 'statement': statement})}")
    assert sight.subject == ("function", "k", name.partition("(")[0].strip('"'))


def test_a_memory_without_statements_is_no_sight() -> None:
    assert not sights('@10 v1 live k.t {"kind": "table", "columns": {"a": "int"}}')
    assert not sights('@10 v1 live k.t {"kind": "table", "refusal": "unconfigured table t"}')
    assert not sights('@10 v1 table k.t_i id=aa a:int* {"derived_from": "t"}')


def test_what_a_node_could_not_read_is_not_gone() -> None:
    unread = '@20 running n1 version v2 {"memory_error": "OperationTimedOut"}'
    lines = [f"@10 running n1 {T}", f"@20 running n1 {GONE}", f"@20 running n1 {OTHER}"]
    assert [sight.subject.name for sight in read_sights(Evidence.of(judged([], [*lines, unread])))] == ["t", "s"]
    assert len(read_sights(Evidence.of(judged([], lines)))) == 3
    disk = ["@20 running n1 keyspace k gone", "@20 running n1 table k.t gone"]
    found = read_sights(Evidence.of(judged([], [*lines[:1], *disk, unread])))
    assert [(sight.subject.kind, sight.definition) for sight in found[1:]] == [("keyspace", None), ("table", None)]


def test_the_times_at_which_a_node_could_not_be_read() -> None:
    lines = [
        "@10 running n1 error NoHostAvailable",
        "@20 running n2 version v1",
        "@30 running n1 error NoHostAvailable",
    ]
    assert read_outages(Evidence.of(judged([], lines))) == {"n1": [10_000_000, 30_000_000]}


MEMBERS = '@{} -- info membership {{"at": "{}", "members": {{}}}}'


@pytest.mark.parametrize(
    ("notes", "begins"),
    [
        ([], 0),
        ([MEMBERS.format(5, "boot")], 5),
        ([MEMBERS.format(5, "boot"), MEMBERS.format(8, "boot")], 5),
        ([MEMBERS.format(5, "operation"), MEMBERS.format(7, "boot")], 7),
        ([MEMBERS.format(5, "heal")], 0),
        ([MEMBERS.format(15, "boot")], 10),  # which is a contradiction, and for others to judge
        (['@5 -- info race {"at": "boot"}'], 0),
    ],
)
def test_no_node_is_read_before_the_members_are_noted_for_the_boot(notes: Sequence[str], begins: int) -> None:
    rows = [f"@{at} running {node} {DISK}" for at in (10, 20) for node in ("n1", "n2")]
    found = read_sights(Evidence.of(judged(notes, rows)))
    assert [sight.begins // 1_000_000 for sight in found] == [begins, begins, 10, 10]
