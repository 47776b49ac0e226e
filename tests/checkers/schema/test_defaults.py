"""Defaults: an option that no change set is the same for all tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from histories import judged

from schemaquake.checkers.schema.defaults import Defaults
from schemaquake.harness.model.verdict import Anomaly, Verdict

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


THRIFT = {"column_type": "Standard", "comparator_type": "UTF8Type", "column_aliases": []}
A, C = {"type": "int", "kind": "partition_key", "position": 0}, {"type": "int", "kind": "regular", "position": -1}


def other_on_the_way(
    *shown: dict[str, Any], history: Sequence[str] = (), final: dict[str, Any] | None = None
) -> list[str]:
    """The doubts about table t if n1, n2 … show it one after the other as `shown`, and final readings as `final`; null: it is gone."""

    def row(extra: dict[str, Any]) -> str:
        columns = extra.get("columns", {"a": A})
        options = {**OPTIONS, **THRIFT, **{name: value for name, value in extra.items() if name != "columns"}}
        kept = {name: value for name, value in options.items() if value is not None}
        return orjson.dumps({"columns": columns, "options": kept}).decode()

    gone = [] if final is not None else ["@500 p8 n1 invoke drop-table k.t", "@501 p8 n1 ok"]
    finals = [f"settled n1,n2 table k.{name} id={number} {row({})}" for number, name in enumerate("rs", 1)]
    finals += [] if final is None else [f"settled n1,n2 table k.t id=3 {row(final)}"]
    running = [
        line
        for number, extra in enumerate(shown, 1)
        for line in (
            f"@{30 + number} running n{number} keyspace k",
            f"@{30 + number} running n{number} table k.t id=3 {row(extra)}",
        )
    ]
    records = judged([*KEYSPACE, *TABLES, *history, *gone], ["settled n1,n2 keyspace k", *finals, *running])
    judgement = Defaults().check(records, limit_s=5)
    assert judgement.anomalies == ()
    assert all(doubt.objects == ("k.t",) for doubt in judgement.doubts if "same columns" in doubt.text)
    return [doubt.text for doubt in judgement.doubts if "same columns" in doubt.text]


OTHER = [
    ("comparator_type", "Int32Type"),
    ("comparator_type", None),
    ("column_aliases", None),
    ("column_type", "Super"),
]


@pytest.mark.parametrize(("name", "value"), [*OTHER, ("key_alias", "k")])
def test_what_follows_from_the_columns_is_the_same_whenever_they_are(name: str, value: str | None) -> None:
    odd = {name: value}
    wanted = f"with another {name} than other readings have with the same columns"
    for texts in (
        other_on_the_way(odd, {}, {}),
        other_on_the_way({}, odd, {}),
        other_on_the_way(odd, final={}),
        other_on_the_way({}, odd, odd, final={}),
    ):
        assert len(texts) == 1
        assert texts[0].endswith(wanted)
    assert " n2 " in other_on_the_way({}, odd, odd, final={})[0], "the first that shows it"
    assert other_on_the_way({}, {}, {}) == other_on_the_way({}, final={}) == other_on_the_way(odd, odd) == []


@pytest.mark.parametrize(("name", "value"), OTHER)
def test_what_follows_from_the_columns_is_compared_only_with_the_same_columns(name: str, value: str | None) -> None:
    odd: dict[str, Any] = {name: value}
    assert other_on_the_way({**odd, "columns": {"a": A, "c": C}}, {}, {}) == []
    assert other_on_the_way({**odd, "columns": {"a": A, "c": C}}, final={}) == []
    another = ("@5 p9 n1 invoke create-table k.t a:int*", "@12 p9 n1 info Timeout")
    assert other_on_the_way(odd, {}, {}, history=another) == [], "each CREATE may have made another kind of table"


@pytest.mark.parametrize(
    ("change", "next_one", "count"),
    [
        (("@30 p9 n1 invoke add-column k.t c:int", "@33 p9 n1 ok"), True, 0),
        (("@30 p9 n1 invoke add-column k.t c:int", "@31 p9 n1 ok"), True, 0),  # it reaches other nodes later
        (("@30 p9 n1 invoke add-column k.t c:int", "@31 p9 n1 info Timeout"), True, 0),
        (("@30 p9 n1 invoke drop-column k.t c", "@33 p9 n1 ok"), True, 0),
        (("@30 p9 n1 invoke add-column k.t c:int", "@33 p9 n1 ok"), False, 1),  # the node keeps to it
        (("@50 p9 n1 invoke add-column k.t c:int", "@51 p9 n1 ok"), True, 1),
        (("@30 p9 n1 invoke alter-options k.t comment=x", "@33 p9 n1 ok"), True, 1),
    ],
)
def test_a_reading_in_the_middle_of_a_change_of_columns_has_them_without_what_follows(
    change: Sequence[str], *, next_one: bool, count: int
) -> None:
    """n2 is read while column c arrives: with the column, and with options that were read before it."""

    def row(comparator: str) -> str:
        options = {**OPTIONS, **THRIFT, "comparator": comparator}
        return orjson.dumps({"columns": {"a": A, "c": C}, "options": options}).decode()

    def shown(at: int, version: str, comparator: str) -> list[str]:
        return [
            f"@{at} running n2 version {version} {{}}",
            f"@{at} running n2 keyspace k",
            f"@{at} running n2 table k.t id=3 {row(comparator)}",
        ]

    finals = [f"settled n1,n2 table k.{name} id={number} {row('new')}" for number, name in enumerate("rst", 1)]
    running = [*shown(32, "v1", "old"), *(shown(34, "v2", "new") if next_one else [])]
    records = judged([*KEYSPACE, *TABLES, *change], ["settled n1,n2 keyspace k", *finals, *running])
    doubts = [doubt for doubt in Defaults().check(records, limit_s=5).doubts if "same columns" in doubt.text]
    assert len(doubts) == count


def test_an_old_table_keeps_dropped_collections_in_what_compares_its_columns() -> None:
    """1.2 and 2.0 add each collection to the comparator of its table, and take none out of it."""
    added, odd = ("@20 p9 n1 invoke add-column k.t d:set<int>", "@21 p9 n1 ok"), {"comparator": "CompositeType"}
    dropped = ("@22 p9 n1 invoke drop-column k.t d", "@23 p9 n1 ok")
    assert len(other_on_the_way({"comparator": "CompositeType"}, {}, {}, history=added)) == 1
    assert other_on_the_way(odd, {}, {}, history=[*added, *dropped]) == []
    assert len(other_on_the_way({"key_alias": "k"}, {}, {}, history=[*added, *dropped])) == 1


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


# ── which of several values is odd ───────────────────────────────────────────────────────────────────────────────────


def create(name: str, at: int = 3, answer: str = "ok") -> list[str]:
    return [f"@{at} p{name} n1 invoke create-table k.{name} a:int*".replace(f"p{name}", f"p{ord(name)}"), f"@{at + 1} p{ord(name)} n1 {answer}"]  # fmt: skip


def row(name: str, options: dict[str, Any], kind: str = "table", **more: Any) -> str:
    told = {"options": options, **more}
    return f"settled n1,n2 {kind} k.{name} id={ord(name)} a:int* {orjson.dumps(told).decode()}"


def verdict(history: Sequence[str], shown: Sequence[str]) -> Verdict:
    lines = sorted([*KEYSPACE, *history], key=lambda line: int(line[1:].partition(" ")[0]))
    return Defaults().check(judged(lines, ["settled n1,n2 keyspace k", *shown]), limit_s=20)


def apart(values: dict[str, Any], *, option: str = "retry") -> dict[str, tuple[str, str]]:
    """By table, the value that is shown and that which it should be, in every reading."""
    history = [line for name in values for line in create(name)]
    judgement = verdict(history, [row(name, {"comment": "", option: value}) for name, value in values.items()])
    assert Defaults.vouches
    judged_alike = len({one.evidence["option"] for one in judgement.anomalies})
    assert judgement.stats["judged"].value == 2 - judged_alike + len(judgement.anomalies), "the option, and the comment"
    found = {}
    for one in judgement.anomalies:
        (shown,) = {(told["shown"], told["others"]) for told in one.evidence["readings"]["settled"].values()}
        found[one.objects[0]] = shown
    return found


@pytest.mark.parametrize(
    ("values", "odd"),
    [
        ({"r": 1, "s": 1, "t": 1}, {}),
        ({"r": 1}, {}),
        ({"r": 1, "s": 1, "t": 2}, {"k.t": ("2", "1")}),
        ({"r": 1, "s": 2, "t": 2}, {"k.r": ("1", "2")}),
        ({"r": "long", "s": "x", "t": "x"}, {"k.r": ('"long"', '"x"')}),
        ({"r": "x", "s": "long", "t": "long"}, {"k.r": ('"x"', '"long"')}),
        ({"r": 1, "s": 2}, {"k.r": ("1", "2"), "k.s": ("2", "1")}),
        ({"r": 2, "s": 1}, {"k.r": ("2", "1"), "k.s": ("1", "2")}),
        ({"r": 1, "s": 2, "t": 3}, {"k.r": ("1", "2"), "k.s": ("2", "1"), "k.t": ("3", "1")}),
        ({"r": 3, "s": 2, "t": 2, "u": 1}, {"k.r": ("3", "2"), "k.u": ("1", "2")}),
        ({"r": 1, "s": 1, "t": 2, "u": 2}, {"k.r": ("1", "2"), "k.s": ("1", "2"), "k.t": ("2", "1"), "k.u": ("2", "1")}),
        ({"r": 3, "s": 3, "t": 2, "u": 2, "v": 1}, {"k.r": ("3", "2"), "k.s": ("3", "2"), "k.t": ("2", "3"), "k.u": ("2", "3"), "k.v": ("1", "2")}),
    ],
)  # fmt: skip
def test_the_value_of_most_is_the_usual_one_and_without_most_each_is_odd(
    values: dict[str, Any], odd: dict[str, tuple[str, str]]
) -> None:
    assert apart(values) == odd


def test_a_finding_names_the_last_changes_of_its_object_alone() -> None:
    alters = [
        line
        for at in range(30, 46, 2)
        for line in (f'@{at} p{at} n1 invoke alter-options k.s {{"options": {{"x": {at}}}}}', f"@{at + 1} p{at} n1 ok")
    ]
    dropped = ["@50 p99 n1 invoke drop-column k.s c", "@51 p99 n1 info no"]
    history = [*create("r"), *create("s", 10), *create("t", 20), *alters, *dropped]
    shown = [row(name, {"retry": value, "comment": ""}) for name, value in (("r", 1), ("s", 2), ("t", 1))]
    (one,) = verdict(history, shown).anomalies
    lines = sorted([*KEYSPACE, *history], key=lambda line: int(line[1:].partition(" ")[0]))
    events = judged(lines).history.to_pylist()
    of_s = [event["index"] for event in events if event["type"] == "invoke" and event["f"] == "alter-options"]
    assert one.ops == tuple(of_s[-6:])
    few = [line for line in history if int(line[1:].partition(" ")[0]) < 34]
    (one,) = verdict(few, shown).anomalies
    assert len(one.ops) == 3


def test_an_option_after_one_of_the_columns_is_compared() -> None:
    history = [*create("r"), *create("s", 10), *create("t", 20)]
    options = {"comparator": "x", "cf_id": 1, "retry": 1}
    assert verdict(history, [row(name, options) for name in "rst"]).anomalies == ()
    (one,) = verdict(history, [*(row(name, options) for name in "rs"), row("t", {**options, "retry": 2})]).anomalies
    assert one.objects == ("k.t",)


def test_entries_of_a_map_depend_on_its_class() -> None:
    change = '{"options": {"compression": {"class": "Zstd"}}}'
    history = [*create("r"), *create("s", 10), *create("t", 20), f"@30 p1 n1 invoke alter-options k.t {change}", "@31 p1 n1 ok"]  # fmt: skip
    usual, other = {"class": "LZ4", "chunk": 16}, {"class": "Zstd", "chunk": 64}
    assert verdict(history, [*(row(name, {"compression": usual}) for name in "rs"), row("t", {"compression": other})]).anomalies == ()  # fmt: skip
    found = verdict(history, [*(row(name, {"compression": usual}) for name in "rt"), row("s", {"compression": {**usual, "chunk": 8}})]).anomalies  # fmt: skip
    assert [one.objects for one in found] == [("k.s",)]


def unread(judgement: Verdict) -> list[tuple[str, ...]]:
    return [doubt.objects for doubt in judgement.doubts if "no option" in doubt.text or "other options" in doubt.text]


def test_a_row_is_incomplete_only_if_all_others_have_more() -> None:
    history = [line for at, name in enumerate("rstu") for line in create(name, 3 + 5 * at)]
    whole, less = {"comment": "", "retry": 1, "more": 2}, {"comment": "", "retry": 1}
    assert unread(verdict(history, [*(row(name, whole) for name in "rst"), row("u", less)])) == [("k.u",)]
    assert unread(verdict(history, [*(row(name, whole) for name in "rs"), *(row(name, less) for name in "tu")])) == []
    assert unread(verdict(history, [row("r", whole), *(row(name, less) for name in "stu")])) == []
    assert unread(verdict(history, [row("r", whole), *(row(name, less) for name in "st")])) == []
    assert unread(verdict(history, [*(row(name, whole) for name in "rst"), row("u", {})])) == [], (
        "nothing of it was read"
    )


# ── nodes that become another release ────────────────────────────────────────────────────────────────────────────────


def operation(number: int, node: str, begins: int, ends: int, *, stage: str = "node", to: str = "b") -> list[str]:
    value = {
        "operation": number,
        "nodes": [node],
        "parameters": {"stage": stage, "to": to},
        "becomes": {node: "normal"},
    }
    effect = {"attempts": [], "system": to, "promises": {"source": "x", "until": "last-steps"}}
    told = [orjson.dumps(one).decode() for one in (value, {**value, "effect": effect})]
    return [f"@{begins} -- {node} invoke rolling-upgrade {told[0]}", f"@{ends} -- {node} ok rolling-upgrade {told[1]}"]


UPGRADE = [*operation(1, "n1", 100, 200), *operation(2, "n2", 300, 400), *operation(3, "n1", 500, 600, stage="finish")]


@pytest.mark.parametrize(
    ("at", "answer", "compared"),
    [
        (50, "ok", True),
        (98, "ok", True),
        (99, "ok", False),
        (150, "ok", False),
        (700, "ok", False),
        (50, "info no", False),
    ],
)
def test_what_was_made_since_nodes_became_another_release_is_not_compared(
    at: int, answer: str, *, compared: bool
) -> None:
    history = [*create("r"), *create("s", 10), *create("u", 15), *create("t", at, answer)]
    shown = [
        *(row(name, {"comment": "", "retry": 1, "more": 1}) for name in "rsu"),
        row("t", {"comment": "", "retry": 2}),
    ]
    for upgrade in (UPGRADE, []):
        judgement = verdict([*history, *upgrade], shown)
        is_compared = compared or not upgrade
        assert [one.objects for one in judgement.anomalies if one.evidence["option"] == "retry"] == (
            [("k.t",)] if is_compared else []
        )
        assert unread(judgement) == ([("k.t",)] if is_compared else [])


USUAL = {"comment": "", "retry": 1}


def seen(*readings: tuple[int, dict[str, Any]], history: Sequence[str] = ()) -> Verdict:
    """The verdict if n2 shows table t with these options at these times (ms), and all final readings are alike."""
    made = [line for name in "rst" for line in create(name)]
    running = [
        line
        for at, options in readings
        for line in (f"@{at} running n2 keyspace k", f"@{at} running n2 {row('t', options).partition(' n1,n2 ')[2]}")
    ]
    return verdict([*made, *history], [*(row(name, USUAL) for name in "rst"), *running])


def test_on_the_way_options_are_compared_once_all_nodes_are_of_one_release() -> None:
    odd, lacking = {**USUAL, "retry": 2}, {"retry": 1}
    assert [one.objects for one in seen((599, odd)).anomalies] == [("k.t",)]
    assert unread(seen((599, lacking))) == [("k.t",)]
    for at in (150, 599, 600):
        assert seen((at, odd), history=UPGRADE).anomalies == ()
    for earlier in ([], [(150, USUAL)]):
        assert [one.objects for one in seen(*earlier, (601, odd), history=UPGRADE).anomalies] == [("k.t",)]
        assert unread(seen(*earlier, (601, lacking), history=UPGRADE)) == [("k.t",)]
        assert odd_ones(seen(*earlier, (601, odd), history=UPGRADE)) == []


def odd_ones(judgement: Verdict) -> list[tuple[str, ...]]:
    """The objects that a reading of the mixed time shows as no other one of the same release does."""
    return [doubt.objects for doubt in judgement.doubts if doubt.text.endswith("have another value")]


@pytest.mark.parametrize("odd", [{**USUAL, "retry": 2}, {"retry": 1}, {**USUAL, "more": 1}])
def test_while_nodes_are_of_two_releases_readings_of_one_release_are_compared(odd: dict[str, Any]) -> None:
    # n2 is of the older release until 300 ms and of the newer one from 400 ms on.
    assert odd_ones(seen((150, USUAL), (160, USUAL), (450, USUAL), (460, USUAL), history=UPGRADE)) == []
    assert odd_ones(seen((150, USUAL), (160, USUAL), (170, odd), history=UPGRADE)) == [("k.t",)]
    assert odd_ones(seen((450, USUAL), (460, odd), (470, USUAL), history=UPGRADE)) == [("k.t",)]
    assert odd_ones(seen((150, odd), (160, odd), (450, USUAL), history=UPGRADE)) == [], "a release has its own"
    assert odd_ones(seen((350, odd), (450, USUAL), (460, USUAL), history=UPGRADE)) == [("k.t",)], "neither has it"
    assert odd_ones(seen((150, odd), (160, odd), (350, odd), (450, USUAL), history=UPGRADE)) == [], (
        "it was not yet upgraded"
    )
    alter = ['@20 p7 n2 invoke alter-options k.t {"options": {"retry": 5}}', "@21 p7 n2 info no"]
    changed = {**USUAL, "retry": 5}
    assert odd_ones(seen((150, USUAL), (160, USUAL), (170, changed), history=[*alter, *UPGRADE])) == []


NEXT_UPGRADE = [
    *operation(4, "n2", 700, 800, to="c"),
    *operation(5, "n1", 900, 1000, to="c"),
    *operation(6, "n1", 1100, 1200, stage="finish", to="c"),
]


@pytest.mark.parametrize(
    ("readings", "is_odd"),
    [
        pytest.param([(150, 5), (350, 7), (750, 1)], False, id="each is seen once, while the node became it"),
        pytest.param([(450, 7), (460, 7), (750, 7), (850, 1)], False, id="it was not upgraded again yet"),
        pytest.param([(450, 7), (460, 7), (750, 8)], True, id="neither the one before nor the last has it"),
        pytest.param(
            [(150, 5), (160, 5), (450, 7), (460, 7), (750, 5)], True, id="it was never as old as that any more"
        ),
        pytest.param([(450, 7), (460, 7), (470, 5), (150, 5), (160, 5)], True, id="it had become another one"),
        pytest.param([(150, 5), (160, 5), (450, 7), (460, 7), (850, 1)], False, id="each release has its own"),
    ],
)
def test_of_several_upgrades_readings_are_compared_with_those_of_the_same_release(
    readings: Sequence[tuple[int, int]], *, is_odd: bool
) -> None:
    shown = [(at, {**USUAL, "retry": retry}) for at, retry in readings]
    found = odd_ones(seen(*sorted(shown, key=lambda one: one[0]), history=[*UPGRADE, *NEXT_UPGRADE]))
    assert found == ([("k.t",)] if is_odd else [])


@pytest.mark.parametrize(
    ("readings", "is_odd"),
    [
        pytest.param([(150, 2)], False, id="nothing else is of the older release"),
        pytest.param([(150, 1), (160, 1), (350, 2), (450, 2), (460, 2)], False, id="the node was upgraded already"),
        pytest.param([(450, 2)], True, id="the final readings are of its release"),
        pytest.param([(450, 2), (460, 2)], False, id="its release had it for a time"),
        pytest.param([(450, 2), (460, 2), (470, 3), (480, 3)], True, id="its release had one of two at most"),
        pytest.param([(450, 2), (460, 2), (470, 1), (480, 1)], True, id="its release had what it has in the end"),
    ],
)
def test_while_nodes_are_of_two_releases_most_readings_say_what_a_release_has(
    readings: Sequence[tuple[int, int]], *, is_odd: bool
) -> None:
    shown = [(at, {**USUAL, "retry": retry}) for at, retry in readings]
    assert odd_ones(seen(*shown, history=UPGRADE)) == ([("k.t",)] if is_odd else [])


def test_while_nodes_are_of_two_releases_the_doubt_names_the_reading() -> None:
    odd = {**USUAL, "retry": 2}
    for readings, named in (
        ([(450, odd)], "at 0.450 s n2 showed retry as 2"),
        ([(150, odd), (160, odd), (170, USUAL)], "at 0.170 s n2 showed retry as 1"),
    ):
        (text,) = (doubt.text for doubt in seen(*readings, history=UPGRADE).doubts if doubt.kind == "unread")
        assert text == f"{named} on disk, and other readings of nodes of the same release have another value"


def test_keyspaces_and_indexes_in_memory_are_compared_while_nodes_are_of_two_releases() -> None:
    index = ["@40 p9 n1 invoke create-index k.i t a", "@41 p9 n1 ok"]
    made = [line for name in "rst" for line in create(name)]

    def doubts(at: int, *statements: str) -> list[tuple[str, ...]]:
        running = [
            line
            for time, one in enumerate(statements, at)
            for line in (f"@{time} running n2 keyspace k", f"@{time} running n2 live {one}")
        ]
        judgement = verdict([*made, *index, *UPGRADE], [*(row(name, USUAL) for name in "rst"), *running])
        assert judgement.anomalies == ()
        assert all(" in memory, " in doubt.text for doubt in judgement.doubts if doubt.objects in odd_ones(judgement))
        return odd_ones(judgement)

    keyspace = "k CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3} AND "
    for key, plain, other in (
        ("k.i", "k.i CREATE INDEX i ON k.t (a)", "k.i CREATE INDEX i ON k.t (a) USING 'sai'"),
        ("k", f"{keyspace}durable_writes = true", f"{keyspace}durable_writes = true AND more = 1"),
    ):
        for at in (150, 450):
            assert doubts(at, plain, plain, plain) == doubts(at, other) == []
            assert set(doubts(at, plain, other, plain)) == {(key,)}
            assert set(doubts(at, plain, other)) == {(key,)}, "one of them is wrong"


def test_an_index_that_is_made_again_while_versions_are_mixed_may_be_of_another_class() -> None:
    def doubts(asked: str) -> list[tuple[str, ...]]:
        lives = [
            *(f"@40 p9 n1 invoke create-index k.i t a {asked}", "@41 p9 n1 ok"),
            *("@50 p9 n1 invoke drop-index k.i", "@51 p9 n1 ok"),
            *("@60 p9 n1 invoke create-index k.i t a", "@61 p9 n1 ok"),
        ]
        made = [line for name in "rst" for line in create(name)]
        running = [
            f"@{time} running n2 {one}"
            for time, shown in ((45, " USING 'sai'"), (150, ""), (160, ""))
            for one in ("keyspace k", f"live k.i CREATE INDEX i ON k.t (a){shown}")
        ]
        return odd_ones(verdict([*made, *lives, *UPGRADE], [*(row(name, USUAL) for name in "rst"), *running]))

    assert doubts('{"using": "sai"}') == []
    assert doubts("{}") == [("k.i",)], "nobody asked for it"


def test_a_keyspace_in_memory_is_compared_once_all_nodes_are_of_one_release() -> None:
    text = "k CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}"

    def judged_with(at: int, options: str) -> Verdict:
        made = [line for name in "rst" for line in create(name)]
        running = [
            f"@{time} running n2 {one}"
            for time, more in ((150, ""), (at, options))
            for one in ("keyspace k", f"live {text} AND durable_writes = true{more}")
        ]
        finals = [f"settled n1,n2 live {text} AND durable_writes = true", *(row(name, USUAL) for name in "rst")]
        return verdict([*made, *UPGRADE], [*finals, *running])

    assert judged_with(601, "").anomalies == ()
    later, before = judged_with(601, " AND more = 1"), judged_with(450, " AND more = 1")
    assert {one.objects for one in later.anomalies} == {("k",)}
    assert (odd_ones(later), before.anomalies) == ([], ())
    assert set(odd_ones(before)) == {("k",)}


MAP = {"class": "X", "min": "6"}
MADE = ['@20 p116 n1 invoke create-table k.t a:int* {"options": %s}', "@21 p116 n1 ok"]
AGAIN = ["@30 p7 n1 invoke drop-table k.t", "@31 p7 n1 ok", *create("t", 40)]


def made(**options: Any) -> list[str]:
    """The creation of table t with these options."""
    return [MADE[0] % orjson.dumps(options).decode(), MADE[1]]


def alter(**options: Any) -> list[str]:
    asked = orjson.dumps({"options": options}).decode()
    return [f"@30 p7 n2 invoke alter-options k.t {asked}", "@31 p7 n2 info no"]


@pytest.mark.parametrize(
    ("history", "odd", "is_odd"),
    [
        pytest.param(made(compaction=MAP), {"compaction": {**MAP, "max": "7"}}, True, id="keys of a map"),
        pytest.param(made(compaction=MAP), {"compaction": {**MAP, "min": "7"}}, False, id="its values"),
        pytest.param(
            [*made(compaction=MAP), *alter(compaction={"class": "X", "max": 7})],
            {"compaction": {"class": "X", "max": "7"}},
            False,
            id="keys of a map that two changes may have set",
        ),
        pytest.param(made(retry=1, compaction=MAP), {"retry": 7}, False, id="an option that its change set"),
        pytest.param(create("t"), {"compaction": MAP, "comparator": "y"}, True, id="what follows from the columns"),
        pytest.param(
            create("t"),
            {"compaction": MAP, "comparator": "y", "columns": {"a": "int", "b": "int"}},
            False,
            id="what follows from other columns",
        ),
        pytest.param([*create("t"), *AGAIN], {"comparator": "y"}, False, id="a table that was created twice"),
        pytest.param(create("t"), {"more": 1}, True, id="the names of its options"),
        pytest.param([*create("t"), *alter(more=1)], {"more": 1}, False, id="a name that a change sets"),
    ],
)
def test_while_nodes_are_of_two_releases_maps_names_and_columns_are_compared(
    history: Sequence[str], odd: dict[str, Any], *, is_odd: bool
) -> None:
    usual = {**USUAL, "compaction": MAP, "comparator": "x"}
    running = []
    for at, options in ((150, usual), (160, usual), (170, {**usual, **odd})):
        columns = " ".join(f"{name}:{type_}" for name, type_ in options.get("columns", {"a": "int"}).items())
        told = {name: value for name, value in options.items() if name != "columns"}
        shown = orjson.dumps({"options": told}).decode()
        running += [
            f"@{at} running n2 keyspace k",
            f"@{at} running n2 table k.t id=116 {columns.replace('a:int', 'a:int*')} {shown}",
        ]
    others = [line for name in "rs" for line in create(name)]
    judgement = verdict([*others, *history, *UPGRADE], [*(row(name, usual) for name in "rst"), *running])
    assert odd_ones(judgement) == ([("k.t",)] if is_odd else [])


def test_while_nodes_are_of_two_releases_a_disk_is_not_compared_with_a_memory() -> None:
    running = []
    for at in (150, 160):
        shown = [row("t", USUAL), live("t", "comment = '' AND retry = '1' AND more = 1")]
        running += [f"@{at} running n2 {one.partition(' n1,n2 ')[2]}" for one in ("settled n1,n2 keyspace k", *shown)]
    made = [line for name in "rst" for line in create(name)]
    assert odd_ones(verdict([*made, *UPGRADE], [*(row(name, USUAL) for name in "rst"), *running])) == []


def test_while_nodes_are_of_two_releases_a_table_may_be_altered() -> None:
    altered = ["@165 p7 n2 invoke alter-options k.t retry=y", "@166 p7 n2 ok"]
    running = []
    for at, retry in ((150, "x"), (160, "x"), (170, "y")):
        shown = [row("t", USUAL), live("t", f"comment = '' AND retry = '{retry}'")]
        running += [f"@{at} running n2 {one.partition(' n1,n2 ')[2]}" for one in ("settled n1,n2 keyspace k", *shown)]
    made = [line for name in "rst" for line in create(name)]
    assert odd_ones(verdict([*made, *altered, *UPGRADE], [*(row(name, USUAL) for name in "rst"), *running])) == []


def test_on_the_way_a_view_has_no_option_that_tables_have_not_where_no_view_is_left() -> None:
    made = [line for name in "rst" for line in create(name)]
    asked = '{"base": "r", "columns": ["a"], "primary_key": ["a"]}'
    views = [
        f"@5 p5 n1 invoke create-view k.v {asked}",
        "@6 p5 n1 ok",
        "@60 p5 n1 invoke drop-view k.v",
        "@61 p5 n1 ok",
    ]

    def shown(options: dict[str, Any], *final: str) -> list[tuple[str, ...]]:
        view = row("v", options, "view", base="r").partition(" n1,n2 ")[2]
        running = ["@30 running n2 keyspace k", f"@30 running n2 {view}"]
        return unread(
            verdict([*made, *views[: 2 if final else 4]], [*(row(name, USUAL) for name in "rst"), *final, *running])
        )

    assert shown(USUAL) == []
    assert shown({"comment": ""}) == [], "views may lack what tables have"
    assert shown({**USUAL, "more": 1}) == [("k.v",)]
    left = row("v", {**USUAL, "more": 1}, "view", base="r")
    assert shown({**USUAL, "more": 1}, left) == [], "a view that is left has it"
    assert shown(USUAL, left) == [("k.v",)]


def test_on_the_way_a_table_has_the_options_of_every_other_one() -> None:
    alter = ['@20 p7 n2 invoke alter-options k.t {"options": {"more": 5}}', "@21 p7 n2 info no"]
    assert unread(seen((30, USUAL))) == []
    assert unread(seen((30, {**USUAL, "comparator": "x"}))) == [], "it follows from the columns"
    for odd in ({"comment": ""}, {**USUAL, "more": 5}, {"comment": "", "more": 5}):
        assert unread(seen((30, odd))) == [("k.t",)]
    assert unread(seen((30, {**USUAL, "more": 5}), history=alter)) == []
    (text,) = (doubt.text for doubt in seen((30, USUAL), (40, {"comment": ""}), (45, {"comment": ""})).doubts)
    assert text == "at 0.040 s n2 showed it with other options than any other table has (retry)"


def test_an_option_that_only_the_create_names_stays_in_the_row_of_its_table() -> None:
    def told(*more: str, final: dict[str, Any] = USUAL, asked: str = '{"options": {"more": "NONE"}}') -> list[str]:
        made = [*create("r"), "@8 p7 n2 invoke create-table k.t a:int* " + asked, "@9 p7 n2 ok", *more]
        running = [
            "@30 running n2 keyspace k",
            f"@30 running n2 {row('t', {**USUAL, 'more': 'NONE'}).partition(' n1,n2 ')[2]}",
        ]
        rows = [row("r", {**USUAL, "more": 5}), row("t", final), *running]
        return [doubt.text for doubt in verdict(made, rows).doubts if doubt.objects == ("k.t",)]

    assert told() == ["at 0.030 s n2 showed it with other options than its own final readings have (more)"]
    assert told(final={**USUAL, "more": "NONE"}) == []
    altered = ('@40 p7 n2 invoke alter-options k.t {"options": {"more": "NONE"}}', "@41 p7 n2 ok")
    assert told(*altered) == [], "a row may leave out what is switched off"


def test_on_the_way_an_option_that_a_change_names_may_have_any_value() -> None:
    alter = ['@20 p7 n2 invoke alter-options k.t {"options": {"retry": 5}}', "@21 p7 n2 info no"]
    judgement = seen((30, {**USUAL, "retry": 5}), history=alter)
    assert unread(judgement) == []
    assert judgement.anomalies == ()


@pytest.mark.parametrize("shown", ["id=116 a:int*", "gone"])
def test_on_the_way_a_table_without_options_or_that_is_gone_has_none_to_compare(shown: str) -> None:
    running = ["@30 running n2 keyspace k", f"@30 running n2 table k.t {shown}"]
    judgement = verdict(
        [line for name in "rst" for line in create(name)], [*(row(name, USUAL) for name in "rst"), *running]
    )
    assert unread(judgement) == []
    assert judgement.anomalies == ()


def test_on_the_way_the_first_reading_is_told() -> None:
    (one,) = seen((30, USUAL), (40, {**USUAL, "retry": 2}), (45, {**USUAL, "retry": 2}), (50, USUAL)).anomalies
    assert "at 0.040 s n2 showed it" in one.explanation
    assert [told["time_ns"] for told in one.evidence["sightings"]] == [40_000_000, 45_000_000]


SET = (
    '@20 p7 n2 invoke alter-options k.t {"options": {"compaction": {"class": "SizeTieredCompactionStrategy", "min_threshold": 6}}}',
    "@21 p7 n2 ok",
)
SIX = {**SIZE_TIERED, "min_threshold": "6"}
LEVELED = {"class": "LeveledCompactionStrategy", "sstable_size_in_mb": "16"}
TO_LEVELED = (
    '@20 p7 n2 invoke alter-options k.t {"options": {"compaction": {"class": "LeveledCompactionStrategy", "sstable_size_in_mb": 16}}}',
    "@21 p7 n2 ok",
)


LATER = tuple(line.replace("@20 ", "@40 ").replace("@21 ", "@41 ").replace("p7", "p8") for line in SET)


def lacking(compaction: dict[str, str], key: str) -> dict[str, str]:
    return {name: value for name, value in compaction.items() if name != key}


def keys_on_the_way(*seen: dict[str, str], final: dict[str, str], history: Sequence[str] = SET) -> list[str]:
    """The doubts about keys if n2 shows t with these maps at 30, 31 … ms, r and s with the default, and t in the end with another."""
    maps = {"r": SIZE_TIERED, "s": SIZE_TIERED, "t": final}
    rows = ["settled n1,n2 keyspace k"]
    rows += [
        f"settled n1,n2 table k.{name} id={name} a:int* {json({'compaction': map_})}" for name, map_ in maps.items()
    ]
    for at, map_ in enumerate(seen, 30):
        rows += [f"@{at} running n2 keyspace k", f"@{at} running n2 table k.t id=t a:int* {json({'compaction': map_})}"]
    judgement = Defaults().check(judged([*KEYSPACE, *TABLES, *history], rows), limit_s=5)
    assert judgement.anomalies == ()
    assert all(doubt.kind == "unread" and doubt.objects == ("k.t",) for doubt in judgement.doubts)
    return [doubt.text for doubt in judgement.doubts]


def test_on_the_way_a_map_has_the_keys_that_were_written_and_those_that_its_class_has_by_default() -> None:
    assert keys_on_the_way(SIX, final=SIX) == []
    (text,) = keys_on_the_way(SIX, lacking(SIX, "max_threshold"), final=SIX)
    assert text == (
        "at 0.031 s n2 showed its compaction with other keys or values than the change that set it gives it (class and min_threshold)"
    )
    assert len(keys_on_the_way({**SIX, "nobody": "asked"}, final=SIX)) == 1


def test_on_the_way_a_map_may_have_its_default_keys_until_its_change_and_after_one_of_unknown_outcome() -> None:
    unknown = (SET[0], "@21 p7 n2 info Timeout")
    assert keys_on_the_way(SIZE_TIERED, SIX, final=SIX) == []
    assert keys_on_the_way(SIZE_TIERED, SIX, final=SIZE_TIERED, history=unknown) == []
    assert len(keys_on_the_way(SIZE_TIERED, lacking(SIX, "max_threshold"), final=SIZE_TIERED, history=unknown)) == 1


def test_on_the_way_a_map_may_have_the_keys_that_a_final_reading_has_after_the_same_statement() -> None:
    assert keys_on_the_way(LEVELED, final=LEVELED, history=TO_LEVELED) == [], "its class is nobody's default"
    assert len(keys_on_the_way({**LEVELED, "fanout_size": "10"}, final=LEVELED, history=TO_LEVELED)) == 1


@pytest.mark.parametrize(
    "odd", [{**SIZE_TIERED, "min_threshold": "5"}, {"class": "OtherStrategy"}, {"class": "OtherStrategy", "odd": "1"}]
)
def test_on_the_way_a_map_that_no_change_can_have_set_is_that_of_other_tables(odd: dict[str, str]) -> None:
    (text,) = keys_on_the_way(SIX, odd, final=SIX)
    assert text.startswith("at 0.031 s n2 showed its compaction with other keys or values")


def test_on_the_way_a_map_by_default_is_that_of_earlier_readings_where_no_final_one_has_it() -> None:
    def shown(*maps: tuple[int, dict[str, str]], history: Sequence[str] = SET) -> list[str]:
        rows = [f"@{at} running n2 table k.t id=t a:int* {json({'compaction': one})}" for at, one in maps]
        rows += [f"@{at} running n2 keyspace k" for at, _ in maps]
        finals = ["settled n1,n2 keyspace k", f"settled n1,n2 table k.t id=t a:int* {json({'compaction': SIX})}"]
        judgement = Defaults().check(judged([*KEYSPACE, *TABLES[4:], *history], [*finals, *rows]), limit_s=5)
        return [doubt.text[:10] for doubt in judgement.doubts if "with other keys" in doubt.text]

    five = {**SIZE_TIERED, "min_threshold": "5"}
    assert shown((17, SIZE_TIERED), (30, SIZE_TIERED), (31, SIX)) == []
    assert shown((17, SIZE_TIERED), (30, SIX), (31, SIX)) == []
    assert shown((17, SIZE_TIERED), (30, {"class": "Other"}), (31, SIX)) == ["at 0.030 s"]
    assert shown((17, SIZE_TIERED), (30, five), (31, SIX)) == ["at 0.030 s"]
    assert shown((15, five), (17, SIZE_TIERED), (18, five), (19, SIZE_TIERED), (30, SIZE_TIERED)) == ["at 0.017 s"]
    assert shown((16, five), (17, SIZE_TIERED), (30, SIZE_TIERED)) == ["at 0.017 s"], "the first of two"
    assert shown((15, SIX), (16, five), (17, SIX), (18, five), (19, five), (30, five)) == ["at 0.015 s"], "most have it"
    unknown = (TO_LEVELED[0], "@21 p7 n2 info Timeout")
    more = {**LEVELED, "fanout_size": "10"}
    for second in (LEVELED, more):
        maps = ((30, SIZE_TIERED if second is LEVELED else LEVELED), (31, second))
        assert shown(*maps, history=(*unknown, *LATER)) == [], "either may be its default"


def test_on_the_way_maps_after_the_same_statement_are_compared_where_no_final_reading_has_it() -> None:
    born = f"{TABLES[4]} {orjson.dumps({'options': {'compaction': LEVELED}}).decode()}"
    history = [*KEYSPACE, *TABLES[:4], born, "@12 p2 n1 ok", "@40 p7 n2 invoke drop-table k.t", "@41 p7 n2 ok"]
    finals = [f"settled n1,n2 table k.{name} id={name} a:int* {json({'compaction': SIZE_TIERED})}" for name in "rs"]

    def shown(*maps: dict[str, str]) -> list[str]:
        rows = [
            f"@{at} running n2 table k.t id=t a:int* {json({'compaction': one})}" for at, one in enumerate(maps, 30)
        ]
        keyspaces = ["settled n1,n2 keyspace k", *(f"@{30 + at} running n2 keyspace k" for at in range(len(maps)))]
        judgement = Defaults().check(judged(history, [*keyspaces, *finals, *rows]), limit_s=5)
        return [doubt.text for doubt in judgement.doubts if "with other keys" in doubt.text]

    more = {**LEVELED, "fanout_size": "10"}
    assert shown(more, more) == [], "whatever a server adds, it adds it always"
    assert [text[:11] for text in shown(more, LEVELED, more)] == ["at 0.031 s "]
    assert [text[:11] for text in shown(LEVELED, more, LEVELED)] == ["at 0.031 s "]


@pytest.mark.parametrize("name", ["caching", "compression"])
@pytest.mark.parametrize(
    ("strategy", "columns", "other", "is_odd"),
    [
        ("X", "a:int*", False, False),
        ("Y", "a:int*", True, False),
        ("X", "a:int* c:counter", True, False),
        ("X", "a:int*", True, True),
        ("Y", "a:int*", False, True),
        ("X", "a:int* c:counter", False, True),
    ],
)
def test_on_the_way_a_map_by_default_is_that_of_tables_of_its_strategy_that_have_counters_or_none(
    name: str, strategy: str, columns: str, *, other: bool, is_odd: bool
) -> None:
    def shown(table: str, strategy: str, columns: str, map_: dict[str, str]) -> str:
        options = {"comment": "", "compaction": {"class": strategy}, name: map_}
        return f"table k.{table} id={table} {columns} {orjson.dumps({'options': options}).decode()}"

    usual, unusual = {"k": "1", "m": "1"}, {"k": "2", "m": "2"}
    known = [("X", "a:int*", usual), ("Y", "a:int*", unusual), ("X", "a:int* c:counter", unusual)]
    finals = [f"settled n1,n2 {shown(table, *one)}" for table, one in zip("rst", known, strict=True)]
    history = [
        line
        for at, (table, (of, types, _)) in enumerate(zip("rstu", [*known, (strategy, columns, usual)], strict=True), 3)
        for line in (
            f'@{at} p{at} n1 invoke create-table k.{table} {types} {{"options": {{"compaction": {{"class": "{of}"}}}}}}',
            f"@{at + 10} p{at} n1 ok",
        )
    ]
    history.sort(key=lambda line: int(line[1:].partition(" ")[0]))
    dropped = ["@40 p7 n2 invoke drop-table k.u", "@41 p7 n2 ok"]
    running = [
        "@30 running n2 keyspace k",
        f"@30 running n2 {shown('u', strategy, columns, unusual if other else usual)}",
    ]
    rows = ["settled n1,n2 keyspace k", *finals, *running]
    judgement = Defaults().check(judged([*KEYSPACE, *history, *dropped], rows), limit_s=5)
    assert [doubt.objects for doubt in judgement.doubts if "with other keys" in doubt.text] == [("k.u",)] * is_odd


def test_on_the_way_a_map_in_memory_has_the_keys_that_memory_shows() -> None:
    def shown(options: str) -> int:
        finals = [row(name, {"comment": "", "compaction": SIZE_TIERED}) for name in "rst"]
        finals += [live(name, "compaction = {'class': 'X'}") for name in "rst"]
        running = ["@30 running n2 keyspace k", "@30 running n2 " + live("t", options).partition(" n1,n2 ")[2]]
        made = [line for name in "rst" for line in create(name)]
        return sum("with other keys" in doubt.text for doubt in verdict(made, [*finals, *running]).doubts)

    assert shown("compaction = {'class': 'X'}") == 0
    assert shown("compaction = {'class': 'X', 'more': 1}") == 1


def test_on_the_way_other_values_than_those_of_a_statement_say_nothing_of_keys() -> None:
    history = [*KEYSPACE, *TABLES[:4], *made(compaction={"class": "Z", "k": 6})]
    finals = [f"settled n1,n2 table k.{name} id={name} a:int* {json({'compaction': SIZE_TIERED})}" for name in "rs"]
    running = ["@30 running n2 keyspace k", f"@30 running n2 table k.t id=t a:int* {json({'compaction': SIX})}"]
    rows = ["settled n1,n2 keyspace k", *finals, *running]
    assert [
        doubt.text for doubt in Defaults().check(judged(history, rows), limit_s=5).doubts if "keys" in doubt.text
    ] == []


# ── statements of memory, indexes, views and keyspaces ───────────────────────────────────────────────────────────────


def live(name: str, options: str, *, phase: str = "settled", nodes: str = "n1,n2") -> str:
    return f"{phase} {nodes} live k.{name} CREATE TABLE k.{name} (a int PRIMARY KEY) WITH {options}"


STANDS = [line for at, name in enumerate("rst") for line in create(name, 3 + 5 * at)]
PLAIN_ROWS = [row(name, {"comment": ""}) for name in "rst"]
SAME = [live(name, "comment = '' AND retry = 'x'") for name in "rst"]


def test_options_in_memory_are_compared_with_those_in_memory() -> None:
    assert verdict(STANDS, [*PLAIN_ROWS, *SAME]).anomalies == ()
    (one,) = verdict(STANDS, [*PLAIN_ROWS, *SAME[:2], live("t", "comment = '' AND retry = 'y'")]).anomalies
    assert (one.objects, one.evidence["option"], one.evidence["place"]) == (("k.t",), "retry", "in memory")
    altered = ["@30 p1 n1 invoke alter-options k.t retry=y", "@31 p1 n1 ok"]
    assert (
        verdict([*STANDS, *altered], [*PLAIN_ROWS, *SAME[:2], live("t", "comment = '' AND retry = 'y'")]).anomalies
        == ()
    )
    unparsed = "settled n1,n2 live k.t CREATE TABLE what is this"
    assert verdict(STANDS, [*PLAIN_ROWS, *SAME[:2], unparsed]).anomalies == ()
    bare = [f"settled n1,n2 live k.{name} CREATE TABLE k.{name} (a int PRIMARY KEY)" for name in "rst"]
    assert verdict(STANDS, [*PLAIN_ROWS, *bare]).anomalies == ()


def test_options_that_memory_shows_on_the_way_are_compared_with_those_of_memory_in_the_end() -> None:
    def on_the_way(options: str) -> Verdict:
        running = ["@30 running n2 keyspace k", "@30 running n2 " + live("t", options).partition(" n1,n2 ")[2]]
        return verdict(STANDS, [*PLAIN_ROWS, *SAME, *running])

    assert on_the_way("comment = '' AND retry = 'x'").anomalies == ()
    assert unread(on_the_way("comment = '' AND retry = 'x'")) == []
    (one,) = on_the_way("comment = '' AND retry = 'y'").anomalies
    assert (one.objects, one.evidence["place"]) == (("k.t",), "in memory")
    assert unread(on_the_way("comment = ''")) == [("k.t",)]
    assert unread(on_the_way("comment = '' AND retry = 'x' AND more = 1")) == [("k.t",)]


def indexed(
    kinds: dict[str, str | None],
    using: dict[str, str] | None = None,
    *,
    asked: str = "",
    log: bool = False,
    derived: bool = False,
) -> list[tuple[Any, ...]]:
    """What is found if tables r, s and t each have an index of this kind, which memory shows with these words."""
    names = dict(zip("rst", "ijl", strict=True))
    history = [
        *STANDS,
        *(
            line
            for at, (table, index) in enumerate(names.items())
            if index in kinds
            for line in (f"@{30 + at} p{at} n1 invoke create-index k.{index} {table} a{asked if index == 'l' else ''}", f"@{40 + at} p{at} n1 ok")
        ),
    ]  # fmt: skip
    told = {"derived_from": "x"} if derived else {}
    shown = [
        row(
            table,
            {"comment": ""},
            indexes={index: {"kind": kinds.get(index, "ODD"), "target": "a"}},
            **(told if table == "t" else {}),
        )
        for table, index in names.items()
    ]
    shown += [
        f"settled n1,n2 live k.{index} CREATE INDEX {index} ON k.{table} (a){(using or {})[index]};"
        for table, index in names.items()
        if index in (using or {})
    ]
    if log:
        shown += ['settled n1,n2 version v9 {"epoch": 9, "authority": "log"}', *SAME]
    return [(one.objects, one.evidence["option"], one.evidence["place"]) for one in verdict(history, shown).anomalies]


def test_indexes_are_of_the_kind_that_the_server_chooses() -> None:
    alike = {"i": "KEYS", "j": "KEYS", "l": "KEYS"}
    odd = [(("k.l",), "kind", "on disk")]
    assert indexed(alike) == []
    assert indexed({**alike, "l": "CUSTOM"}) == odd
    assert indexed({**alike, "l": None}) == odd
    assert indexed({**alike, "l": "CUSTOM"}, asked=' {"using": "sai"}') == []
    assert indexed({"i": "KEYS", "j": "KEYS"}) == [], "the third is none of the history"
    assert indexed({**alike, "l": "CUSTOM"}, derived=True) == [], "a table that the server keeps for itself"
    known = dict.fromkeys("ijl", "")
    assert indexed({**alike, "l": None}, known, log=True) == [], "a log does not tell it"
    assert indexed({**alike, "l": "CUSTOM"}, known, log=True) == odd


def test_the_class_of_an_index_in_memory_is_compared() -> None:
    kinds = {"i": "KEYS", "j": "KEYS", "l": "KEYS"}
    alike = {"i": " USING 'x'", "j": " USING 'x'", "l": " USING 'x'"}
    assert indexed(kinds, alike) == []
    assert indexed(kinds, {**alike, "l": ""}) == [(("k.l",), "USING", "in memory")]
    assert indexed(kinds, {**alike, "l": " USING 'y'"}) == [(("k.l",), "USING", "in memory")]


def viewed(tables: dict[str, Any], views: dict[str, Any]) -> list[tuple[Any, ...]]:
    asked = ' {"base": "r", "primary_key": ["a"]}'
    history = [*STANDS, *(line for at, name in enumerate(views) for line in (f"@{30 + at} p{at} n1 invoke create-view k.{name}{asked}", f"@{40 + at} p{at} n1 ok"))]  # fmt: skip
    shown = [row(name, {"comment": "", **options}) for name, options in tables.items()]
    shown += [row(name, {"comment": "", **options}, "view", base="r") for name, options in views.items()]
    return [(one.objects, one.evidence["option"]) for one in verdict(history, shown).anomalies]


def test_views_have_the_options_of_tables_but_for_those_that_no_view_has() -> None:
    usual = {"retry": 1}
    tables = dict.fromkeys("rst", usual)
    assert viewed(tables, {"v": usual, "w": usual}) == []
    assert viewed(tables, {"v": usual, "w": {"retry": 2}}) == [(("k.w",), "retry")]
    assert viewed({**tables, "t": {"retry": 2}}, {"v": usual}) == [(("k.t",), "retry")]
    assert viewed({name: {**usual, "of_tables": 1} for name in "rst"}, {"v": usual, "w": usual}) == []
    assert viewed(tables, {"v": usual, "w": {**usual, "more": 1}}) == [(("k.w",), "more")]
    assert viewed(tables, {"v": {**usual, "more": 1}}) == [(("k.v",), "more")]
    lacking = {**tables, "t": {}}
    assert viewed(lacking, {"v": usual}) == [(("k.t",), "retry")]
    assert viewed({**{name: {**usual, "of_tables": 1} for name in "rs"}, "t": usual}, {"v": usual}) == [
        (("k.t",), "of_tables")
    ]


LOG = 'settled n1,n2 version v9 {"epoch": 9, "authority": "log"}'


def test_where_a_log_decides_copies_on_disk_are_compared_and_what_memory_alone_knows_is_none() -> None:
    rows = [row(name, {"comment": "", "only_on_disk": 1}) for name in "rst"]
    assert verdict(STANDS, [LOG, *rows, *SAME]).anomalies == ()
    lacking = [line.replace("n1,n2", "n2") if " k.t " in line else line for line in rows]
    assert verdict(STANDS, [LOG, *lacking, *SAME]).anomalies == ()
    odd = row("t", {"comment": "", "only_on_disk": 2})
    (one,) = verdict(STANDS, [LOG, *rows[:2], odd, *SAME]).anomalies
    assert (one.objects, one.evidence["place"]) == (("k.t",), "on disk")


def test_keyspaces_are_compared_with_those_of_their_strategy_alone() -> None:
    networked = PLAIN.replace("SimpleStrategy", "NetworkTopologyStrategy").replace("replication_factor", "dc1")
    shown = [f"settled n1,n2 live k CREATE KEYSPACE k {PLAIN} AND fast_path = 'simple'", f"settled n1,n2 live l CREATE KEYSPACE l {networked} AND fast_path = 'other'"]  # fmt: skip
    both = ["settled n1,n2 keyspace l"]
    assert verdict(SECOND, [*both, *shown]).anomalies == ()
    assert verdict(SECOND, [*both, *shown[:1], shown[1].replace(networked, PLAIN)]).anomalies
    unparsed = "settled n1,n2 live l CREATE KEYSPACE what is this"
    assert verdict(SECOND, [*both, *shown[:1], unparsed]).anomalies == ()
    running = ["@40 running n1 keyspace k", "@40 running n1 keyspace l"]
    assert verdict(SECOND, [*both, *shown, *running]).anomalies == (), "disk says nothing of such options"
