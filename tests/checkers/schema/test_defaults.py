"""Defaults: an option that no change set is the same for all tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from histories import judged

from schemaquake.checkers.schema.defaults import Defaults
from schemaquake.harness.model.verdict import Anomaly

KEYSPACE = ("@1 p90 n1 invoke create-keyspace k", "@2 p90 n1 ok")
TABLES = tuple(
    line
    for number, name in enumerate("rst")
    for line in (
        f"@{3 + number} p{number} n1 invoke create-table k.{name} a:int* c:int",
        f"@{10 + number} p{number} n1 ok",
    )
)
SIZE_TIERED = {"class": "SizeTieredCompactionStrategy", "max_threshold": "32", "min_threshold": "4"}
OPTIONS = {"comment": "", "gc_grace_seconds": 864000, "compaction": SIZE_TIERED}
ALTER = ('@20 p7 n2 invoke alter-options k.t {"options": {"gc_grace_seconds": 5}}',)


def json(options: dict[str, Any]) -> str:
    return orjson.dumps({"options": {"comment": "", **options}}).decode()


def found(history: Sequence[str], **options: dict[str, Any]) -> list[Anomaly]:
    shown = [
        f"settled n1,n2 table k.{name} id={number} "
        + orjson.dumps({"options": {**OPTIONS, **options.get(name, {})}})
        .decode()
        .replace("{", '{"columns": {"a": {"type": "int", "kind": "partition_key", "position": 0}}, ', 1)
        for number, name in enumerate("rst", 1)
    ]
    verdict = Defaults().check(judged([*KEYSPACE, *TABLES, *history], ["settled n1,n2 keyspace k", *shown]), limit_s=5)
    assert verdict.valid is not bool(verdict.anomalies)
    return list(verdict.anomalies)


def test_tables_with_the_same_defaults_are_sound() -> None:
    assert found([]) == []


def test_an_option_that_nobody_set_is_found_although_all_nodes_agree() -> None:
    (one,) = found([], t={"gc_grace_seconds": 5})
    assert (one.type, one.objects, one.nodes) == ("unasked-option", ("k.t",), ("n1", "n2"))
    assert one.evidence["option"] == "gc_grace_seconds"
    assert one.evidence["readings"]["settled"]["n1"] == {"shown": "5", "others": "864000"}


LONELY = ("@3 p0 n1 invoke create-table k.t a:int*", "@4 p0 n1 ok")


def lonely(**options: Any) -> list[Anomaly]:
    """What is found if the only table of a run has these options."""
    shown = json({**OPTIONS, **options})
    rows = ["settled n1,n2 keyspace k", f"settled n1,n2 table k.t id=1 a:int* {shown}"]
    return list(Defaults().check(judged([*KEYSPACE, *LONELY], rows), limit_s=5).anomalies)


@pytest.mark.parametrize(
    ("option", "odd", "usual"),
    [
        ("comment", "x", None),
        ("gc_grace_seconds", 5, "864000"),
        ("crc_check_chance", 0.5, 1),
        ("default_time_to_live", 3, "0"),
        ("max_index_interval", 128, 2048),
        ("memtable_flush_period_in_ms", 1, 0),
        ("min_index_interval", 2048, 128),
    ],
)
def test_an_option_of_the_only_table_is_compared_with_the_default_of_every_release(
    option: str, odd: Any, usual: Any
) -> None:
    assert lonely(**{option: usual}) == []
    (one,) = lonely(**{option: odd})
    assert (one.type, one.objects, one.evidence["option"]) == ("unasked-option", ("k.t",), option)
    assert "in every release" in one.explanation


def test_of_two_tables_that_differ_the_one_without_the_default_of_every_release_is_named() -> None:
    (one,) = found([*ALTER, "@21 p7 n2 info Timeout"], r={"gc_grace_seconds": 6})
    assert one.objects == ("k.r",)
    (one,) = found(ALTER, r={"gc_grace_seconds": 6})
    assert one.objects == ("k.r",)


def test_other_options_of_the_only_table_prove_nothing() -> None:
    assert lonely(caching={"keys": "NONE"}, speculative_retry="NEVER", bloom_filter_fp_chance=0.5) == []


def test_a_refused_option_that_is_set_is_found_and_an_unanswered_one_is_not() -> None:
    assert found([*ALTER, "@21 p7 n2 fail InvalidRequest: no"], t={"gc_grace_seconds": 5})
    for answer in ("@21 p7 n2 info Timeout", "@21 p7 n2 ok"):
        assert found([*ALTER, answer], t={"gc_grace_seconds": 5}) == []


def test_an_option_of_a_former_life_is_found() -> None:
    again = (
        "@22 p7 n2 invoke drop-table k.t",
        "@23 p7 n2 ok",
        "@24 p7 n2 invoke create-table k.t a:int*",
        "@25 p7 n2 ok",
    )
    assert found([*ALTER, "@21 p7 n2 ok", *again], t={"gc_grace_seconds": 5})
    assert found([*ALTER, "@21 p7 n2 ok", *again]) == []


def test_what_came_back_after_it_was_dropped_accuses_nothing_of_other_defaults() -> None:
    """A keyspace that a lost race brought back beside a sound table of the run's own: the sound one was named, too."""
    drop = ("@22 p7 n2 invoke drop-table k.t", "@23 p7 n2 ok", "@24 p8 n1 invoke drop-table k.s", "@25 p8 n1 ok")
    altered = (*ALTER, "@21 p7 n2 ok")
    assert found([*altered, *drop], t={"gc_grace_seconds": 5}) == []
    # A DROP that nobody answered may not have happened: the table is what it was.
    perhaps = ("@24 p8 n1 invoke drop-table k.s", "@25 p8 n1 info Timeout")
    assert {one.objects for one in found([*perhaps], s={"gc_grace_seconds": 5})} == {("k.s",)}
    # And so is one that was made again meanwhile, as far as can be known.
    meanwhile = (
        "@22 p7 n2 invoke drop-table k.t",
        "@23 p8 n1 invoke create-table k.t a:int*",
        "@24 p7 n2 ok",
        "@25 p8 n1 ok",
    )
    assert found([*altered, *meanwhile], t={"gc_grace_seconds": 7})


def on_the_way(at: int, **options: Any) -> list[Anomaly]:
    """What is found if n2 shows table t with these options at that time (ms), and every final reading is sound."""
    columns = {"a": {"type": "int", "kind": "partition_key", "position": 0}}
    finals = [
        f"settled n1,n2 table k.{name} id={number} {orjson.dumps({'columns': columns, 'options': OPTIONS}).decode()}"
        for number, name in enumerate("rst", 1)
    ]
    shown = {"columns": columns, "options": {**OPTIONS, **options}}
    running = [f"@{at} running n2 keyspace k", f"@{at} running n2 table k.t id=3 {orjson.dumps(shown).decode()}"]
    history = [*KEYSPACE, *TABLES, *ALTER, "@21 p7 n2 info Timeout"]
    records = judged(history, ["settled n1,n2 keyspace k", *finals, *running])
    return list(Defaults().check(records, limit_s=5).anomalies)


def test_a_default_that_a_reading_on_the_way_shows_otherwise_is_found() -> None:
    (one,) = on_the_way(30, comment="odd")
    assert (one.type, one.objects, one.nodes) == ("unasked-option", ("k.t",), ("n2",))
    assert (one.evidence["option"], one.evidence["shown"]) == ("comment", '"odd"')
    assert on_the_way(30) == []


def test_an_option_on_the_way_may_be_set_from_the_begin_of_its_change_on() -> None:
    assert on_the_way(30, gc_grace_seconds=5) == []
    assert on_the_way(20, gc_grace_seconds=5) == []
    assert [one.evidence["option"] for one in on_the_way(19, gc_grace_seconds=5)] == ["gc_grace_seconds"]


def seen_just_made(flags: list[str], *, columns: bool) -> list[Anomaly]:
    """What is found if n2 shows a table of counters as it is made, with these flags, perhaps before its columns are there."""
    kinds = {"r": "int", "s": "int", "t": "counter"}
    usual = {"int": ["compound"], "counter": ["compound", "counter"]}

    def row(kind: str, flags: list[str], *, columns: bool) -> str:
        parts = {
            "a": {"type": "int", "kind": "partition_key", "position": 0},
            "c": {"type": kind, "kind": "regular", "position": -1},
        }
        options = {**OPTIONS, "flags": flags}
        return orjson.dumps({"columns": parts if columns else {}, "options": options}).decode()

    made = [line.replace("k.t a:int* c:int", "k.t a:int* c:counter") for line in TABLES]
    finals = [
        f"settled n1,n2 table k.{name} id={number} {row(kind, usual[kind], columns=True)}"
        for number, (name, kind) in enumerate(kinds.items(), 1)
    ]
    running = ["@30 running n2 keyspace k", f"@30 running n2 table k.t id=3 {row('counter', flags, columns=columns)}"]
    records = judged([*KEYSPACE, *made], ["settled n1,n2 keyspace k", *finals, *running])
    return list(Defaults().check(records, limit_s=5).anomalies)


def test_a_table_seen_before_its_columns_may_be_one_of_counters() -> None:
    for columns in (True, False):
        assert seen_just_made(["compound", "counter"], columns=columns) == []
        (one,) = seen_just_made(["compound", "odd"], columns=columns)
        assert (one.type, one.objects, one.evidence["option"]) == ("unasked-option", ("k.t",), "flags")


def test_entries_of_a_map_are_options_too() -> None:
    for entry in ({"max_threshold": "64"}, {"more": "1"}, {"class": "com.example.SizeTieredCompactionStrategy"}):
        assert found([], t={"compaction": {**SIZE_TIERED, **entry}})
    lacking = {name: value for name, value in SIZE_TIERED.items() if name != "max_threshold"}
    assert found([], t={"compaction": lacking})


def test_entries_that_no_statement_names_have_the_defaults_of_their_class() -> None:
    leveled = {"class": "LeveledCompactionStrategy", "sstable_size_in_mb": "160"}
    alter = ['@20 p7 n2 invoke alter-options k.t {"options": {"compaction": {"class": "LeveledCompactionStrategy"}}}']
    history = [*alter, "@21 p7 n2 ok"]
    # The defaults of other options depend on the strategy, too.
    assert found(history, t={"compaction": leveled, "bloom_filter_fp_chance": 0.1}) == []


@pytest.mark.parametrize("option", ["comparator", "gc_grace_seconds"])
def test_a_row_without_what_all_others_have_was_not_read_whole(option: str) -> None:
    """Also an option of the columns, and one that a change set: every table has the same columns in `system_schema`."""
    options = {name: {option: 1} for name in "rs"}
    shown = [
        f"settled n1,n2 table k.{name} id={n} a:int* {json(options.get(name, {}))}" for n, name in enumerate("rst", 1)
    ]
    verdict = Defaults().check(judged([*KEYSPACE, *TABLES], ["settled n1,n2 keyspace k", *shown]), limit_s=5)
    assert [(doubt.kind, doubt.objects) for doubt in verdict.doubts if option in doubt.text] == [("unread", ("k.t",))]
    two = Defaults().check(judged([*KEYSPACE, *TABLES], ["settled n1,n2 keyspace k", *shown[1:]]), limit_s=5)
    assert two.doubts == (), "two tables do not show what every table has"


def test_what_follows_from_the_columns_is_not_compared() -> None:
    assert found([], t={"comparator": "CompositeType", "memtable_throughput_in_mb": 64}) == []


def test_two_tables_that_differ_are_both_named_for_nothing_says_which_is_wrong() -> None:
    alter = [line.replace("gc_grace_seconds", "speculative_retry") for line in ALTER]
    values = {"r": {"speculative_retry": "1ms"}, "s": {"speculative_retry": "2ms"}}
    both = found([*alter, "@24 p7 n2 info Timeout"], **values)
    assert {one.objects for one in both} == {("k.r",), ("k.s",)}


SECOND = ("@5 p91 n1 invoke create-keyspace l", "@6 p91 n1 ok")
PLAIN = "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': '3'} AND durable_writes = true"


def keyspaces(k: str, node: str = "n1,n2", phase: str = "settled") -> list[Anomaly]:
    """What is found if memory shows keyspace k with these further options, and its other readings are sound."""
    shown = [f"settled n1,n2 live {name} CREATE KEYSPACE {name} {PLAIN} AND fast_path = 'simple'" for name in "kl"]
    odd = f"@40 {phase} {node} live k CREATE KEYSPACE k {PLAIN}{k}"
    rows = [*(shown[1:] if phase == "settled" else shown), odd, "settled n1,n2 keyspace k", "settled n1,n2 keyspace l"]
    return list(Defaults().check(judged([*KEYSPACE, *SECOND], rows), limit_s=5).anomalies)


@pytest.mark.parametrize("phase", ["settled", "running"])
def test_an_option_of_a_keyspace_that_memory_alone_shows_is_that_of_other_keyspaces(phase: str) -> None:
    assert keyspaces(" AND fast_path = 'simple'", phase=phase) == []
    for odd in ("", " AND fast_path = 'simplex'", " AND fast_pathx = 'simple'", " AND fast_path = 'simple' AND x = 1"):
        found = keyspaces(odd, "n2", phase)
        assert {(one.type, one.evidence["place"]) for one in found} == {("unasked-option", "in memory")}
        assert "k" in {key for one in found for key in one.objects}
