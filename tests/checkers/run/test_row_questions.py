"""Questions about rows and options that no server can have acknowledged as they were recorded, and their legal twins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pytest
from histories import judged, observed

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.run.row_questions import find_answers_of_absent, find_strange_row_questions
from schemaquake.harness.model.records import HISTORY, Records

NOTES = [
    f'@{at} -- info phase {{"phase": "{phase}", "state": "{state}"}}'
    for phase, begins, ends in (("main", 10, 90), ("final-settled", 100, 190), ("final-restarted", 200, 290))
    for at, state in ((begins, "begins"), (ends, "ends"))
]
TABLE = (
    *("@1 p0 n1 invoke create-keyspace k", "@2 p0 n1 ok"),
    *("@3 p0 n1 invoke create-table k.t a:int* c:int+ x:int", "@4 p0 n1 ok"),
)
ROW = {"keyspace": "k", "table": "t", "row": {"a": 1, "c": 2, "x": 3}, "consistency": "QUORUM", "phase": "racing"}
READ = {
    "keyspace": "k",
    "table": "t",
    "columns": ["a", "c", "x"],
    "consistency": "ALL",
    "phase": "settled",
    "where": {"a": 1},
}
FOUND = [{"a": 1, "c": 2, "x": 3}]
SHOWN = 'settled n1 table k.t id=aa a:int* c:int+ x:int {"options": {"comment": "", "gc_grace_seconds": 1}}'


def asked(
    f: str,
    value: dict[str, Any],
    *,
    at: int = 20,
    answer: dict[str, Any] | None = None,
    end: str = "ok",
    key: str = "k.t",
) -> list[str]:
    told = {"keyspace": "k", "table": "t", **value} if answer is None else answer
    completion = f"ok {orjson.dumps(told).decode()}" if end == "ok" else end
    return [f"@{at} p{at} n1 invoke {f} {key} {orjson.dumps(value).decode()}", f"@{at + 1} p{at} n1 {completion}"]


def inserted(*, at: int = 20, end: str = "ok", without: Sequence[str] = (), **other: Any) -> list[str]:
    value = {name: each for name, each in {**ROW, **other}.items() if name not in without}
    return asked("insert", value, at=at, end=end)


def read(rows: Sequence[dict[str, int]] = FOUND, *, at: int = 120, **other: Any) -> list[str]:
    return asked("read-rows", {**READ, **other}, at=at, answer={**READ, **other, "rows": list(rows)})


def strange(*lines: str, table: Sequence[str] = TABLE, shown: Sequence[str] = (SHOWN,)) -> list[str]:
    evidence = Evidence.of(judged([*table, *NOTES, *lines], shown))
    return [*find_strange_row_questions(evidence), *(doubt.text for doubt in find_answers_of_absent(evidence))]


def test_what_clients_ask_is_not_strange() -> None:
    know = asked("know-table", {"keyspace": "k", "table": "t", "key": "a"}, at=30)
    delete = asked("delete-row", {"keyspace": "k", "table": "t", "where": {"a": 1}, "consistency": "ONE"}, at=40)
    truncate = asked("truncate", {"keyspace": "k", "table": "t", "where": {}, "consistency": "ALL"}, at=50)
    assert strange(*inserted(), *know, *delete, *truncate, *read(), *read(at=220, phase="restarted")) == []


@pytest.mark.parametrize("lacking", ["row", "consistency"])
def test_an_insert_names_its_row_and_its_level(lacking: str) -> None:
    assert f"the question of op 5 does not say {lacking}" in strange(*inserted(without=[lacking], end="fail E"))


def test_a_question_names_what_its_answer_repeats() -> None:
    without = {name: each for name, each in ROW.items() if name != "phase"}
    assert strange(*asked("insert", without, answer=ROW)) == ["the question of op 5 does not say phase"]
    assert strange(*asked("insert", without, answer=without)) == []
    assert strange(*asked("insert", ROW, answer={**ROW, "applied": True})) == []


@pytest.mark.parametrize(
    ("other", "count"),
    [
        pytest.param({"form": "conditional"}, 0, id="conditional"),
        pytest.param({"form": "update", "key": ["a", "c"]}, 0, id="update"),
        pytest.param({"form": "update"}, 1, id="an update without its key"),
        pytest.param({"form": "batch", "beside": {"a": 9}}, 0, id="batch"),
        pytest.param({"form": "batch"}, 1, id="a batch of one row"),
        pytest.param({"form": "upsert"}, 1, id="no form"),
        pytest.param({"consistency": "LOCAL_QUORUM"}, 0, id="level"),
        pytest.param({"consistency": "QUORUMx"}, 1, id="no level"),
    ],
)
def test_forms_and_levels_are_those_that_there_are(other: dict[str, Any], count: int) -> None:
    assert len(strange(*inserted(**other))) == count


@pytest.mark.parametrize(
    ("at", "label", "count"),
    [
        pytest.param(20, "racing", 0, id="in the races"),
        pytest.param(20, "prepared", 0, id="before a race"),
        pytest.param(20, "settled", 1, id="before the nodes settled"),
        pytest.param(120, "settled", 0, id="settled"),
        pytest.param(120, "restarted", 2, id="before the restart"),
        pytest.param(220, "restarted", 0, id="restarted"),
        pytest.param(20, "later", 1, id="no phase"),
        pytest.param(195, "settled", 1, id="after the nodes settled"),
        pytest.param(100, "settled", 0, id="at the very beginning"),
        pytest.param(190, "settled", 0, id="at the very end"),
        pytest.param(100, "racing", 1, id="another at the very beginning"),
        pytest.param(190, "racing", 1, id="another at the very end"),
    ],
)
def test_a_label_is_that_of_the_phase_in_which_was_asked(at: int, label: str, count: int) -> None:
    others = [*inserted(at=130, phase="settled"), *inserted(at=230, phase="restarted")]
    assert len(strange(*inserted(at=at, phase=label), *others)) == count


def test_an_insert_without_a_label_is_strange_among_others_with_one() -> None:
    bare = inserted(at=120, without=["phase"])
    assert strange(*bare) == []
    assert strange(*bare, *inserted(at=130, phase="settled")) == [
        "op 7 is labelled None, and was asked when settled",
    ]
    assert strange(*inserted(at=20, without=["phase"]), *inserted(at=30)) == []


@pytest.mark.parametrize(("at", "when"), [(20, "at another time than"), (195, "at another time than")])
def test_what_is_labelled_wrong_says_when_it_was_asked(at: int, when: str) -> None:
    (said,) = strange(*inserted(at=at, phase="settled"))
    assert said.endswith(f"is labelled settled, and was asked {when} when settled")


@pytest.mark.parametrize("at", [100, 120, 190])
def test_what_is_labelled_as_of_another_phase_says_in_which_it_was_asked(at: int) -> None:
    (said,) = strange(*inserted(at=at, phase="racing"), *inserted(at=130, phase="settled"))
    assert said.endswith("is labelled racing, and was asked when settled")


PREPARED = [
    f'@{at} -- info phase {{"phase": "prepare", "state": "{state}"}}' for at, state in ((5, "begins"), (9, "ends"))
]


@pytest.mark.parametrize(
    ("label", "at", "phase"),
    [
        ("prepared", 5, None),
        ("prepared", 9, None),
        ("prepared", 10, "prepare"),
        ("prepared", 95, "prepare"),
        ("racing", 9, "main"),
        ("racing", 10, None),
        ("racing", 90, None),
        ("racing", 91, "main"),
    ],
)
def test_what_is_labelled_as_of_the_way_is_asked_on_it(label: str, at: int, phase: str | None) -> None:
    found = among([*PREPARED, *NOTES], *inserted(at=at, phase=label))
    expected = f"labelled {label}, and was asked at another time than in phase {phase}"
    assert [text.partition(" is ")[2] for text in found] == ([] if phase is None else [expected])


def test_a_phase_on_the_way_that_has_no_end_or_no_begin_bounds_nothing() -> None:
    for notes in ([PREPARED[0], *NOTES[:1]], [PREPARED[1], *NOTES[1:2]], []):
        assert among(notes, *inserted(at=95, phase="prepared"), *inserted(at=97, phase="racing")) == []


def test_a_phase_without_an_end_hides_no_later_one() -> None:
    (said,) = among([PREPARED[0], *NOTES], *inserted(at=95, phase="racing"))
    assert said.endswith("phase main")


def early(*lines: str, table: Sequence[str] = ()) -> list[str]:
    """What is said of answers from before there can have been a table."""
    evidence = Evidence.of(judged([*table, *lines], (SHOWN,)))
    return [doubt.text for doubt in find_answers_of_absent(evidence) if "nothing had been asked" in doubt.text]


KEYSPACE = ("@1 p0 n1 invoke create-keyspace k", "@2 p0 n1 ok")
LATE = ("@50 p8 n1 invoke create-table k.t a:int* c:int+ x:int", "@51 p8 n1 ok")


@pytest.mark.parametrize("f", ["insert", "read-rows", "know-table", "delete-row", "truncate"])
def test_no_table_answers_before_it_can_have_been_created(f: str) -> None:
    values = {
        "insert": ROW,
        "read-rows": READ | {"phase": "racing"},
        "know-table": {"keyspace": "k", "table": "t", "key": "a"},
        "delete-row": {"keyspace": "k", "table": "t", "where": {"a": 1}, "consistency": "ONE"},
        "truncate": {"keyspace": "k", "table": "t", "where": {}, "consistency": "ALL"},
    }
    (said,) = early(*asked(f, values[f], at=20), table=(*KEYSPACE, *LATE))
    assert said.startswith("op 2 was acknowledged, and nothing had been asked for")
    for twin in (
        asked(f, values[f], at=20, end="fail InvalidRequest: unconfigured table t"),
        asked(f, values[f], at=20, end="info timed out"),
        asked(f, values[f], at=49),  # answered in the instant in which it was asked for
        asked(f, values[f], at=60),
    ):
        assert early(*twin, table=(*KEYSPACE, *LATE)) == []


@pytest.mark.parametrize(
    ("table", "is_odd"),
    [
        pytest.param(
            (*KEYSPACE, "@50 p0 n1 invoke create-table k.t a:int*", "@51 p0 n1 info timed out"), True, id="perhaps made"
        ),
        pytest.param(
            (*KEYSPACE, "@10 p0 n1 invoke create-table k.t a:int*", "@11 p0 n1 info timed out", *LATE),
            False,
            id="perhaps made before",
        ),
        pytest.param(
            (*KEYSPACE, '@10 p0 n1 invoke create-view k.t {"base": "u", "primary_key": ["a"]}', "@11 p0 n1 ok", *LATE),
            False,
            id="a view",
        ),
        pytest.param(
            (*KEYSPACE, '@50 p0 n1 invoke create-view k.t {"base": "u", "primary_key": ["a"]}', "@51 p0 n1 ok"),
            True,
            id="a view that is made later",
        ),
        pytest.param(
            (
                *KEYSPACE,
                '@10 p0 n1 invoke cql k {"statement": "CREATE TABLE k.t (a int PRIMARY KEY)"}',
                "@11 p0 n1 ok",
                *LATE,
            ),
            False,
            id="free text",
        ),
        pytest.param(LATE, False, id="a keyspace that is older than the run"),
        pytest.param((*KEYSPACE,), False, id="never made, which final phases tell"),
        pytest.param((KEYSPACE[0], "@2 p0 n1 info timed out", *LATE), False, id="a keyspace that may be older"),
        pytest.param(
            (KEYSPACE[0] + ' {"if_not_exists": true}', '@2 p0 n1 ok {"applied": false}', *LATE),
            False,
            id="a keyspace that was there",
        ),
        pytest.param(
            ("@0 p7 n1 invoke drop-keyspace k", "@0 p7 n1 ok", *KEYSPACE, *LATE),
            False,
            id="a keyspace that was dropped before",
        ),
        pytest.param(
            (*KEYSPACE, *LATE, "@70 p0 n1 invoke drop-keyspace k", "@71 p0 n1 ok"), True, id="dropped afterwards"
        ),
    ],
)
def test_a_table_may_be_older_than_its_create(table: Sequence[str], *, is_odd: bool) -> None:
    assert bool(early(*inserted(at=20), table=table)) is is_odd


def test_each_table_that_answers_too_early_is_named_once() -> None:
    other = ("@52 p0 n1 invoke create-table k.u a:int*", "@53 p0 n1 ok")
    lines = [*inserted(at=20), *inserted(at=22), *asked("insert", {**ROW, "table": "u"}, at=24, key="k.u")]
    evidence = Evidence.of(judged([*KEYSPACE, *LATE, *other, *lines], (SHOWN,)))
    assert [doubt.objects for doubt in find_answers_of_absent(evidence)] == [("k.t",), ("k.u",)]


def among(notes: Sequence[str], *lines: str) -> list[str]:
    return list(find_strange_row_questions(Evidence.of(judged([*TABLE, *notes, *lines], (SHOWN,)))))


def test_a_phase_that_has_no_end_bounds_nothing() -> None:
    assert among((), *inserted(at=120, phase="settled")) == []
    assert among(NOTES[:3], *inserted(at=120, phase="settled")) == []
    (said,) = among([*NOTES[:2], *NOTES[4:]], *inserted(at=120, phase="restarted"))
    assert said.endswith("was asked at another time than when restarted"), "a phase that was left out hides no other"


def test_a_phase_goes_from_its_first_note_to_its_last() -> None:
    again = NOTES[2].replace("@100", "@150")
    notes = sorted([*NOTES, again], key=lambda line: int(line[1:].split()[0]))
    assert among(notes, *inserted(at=170, phase="settled")) == []
    (said,) = among(notes, *inserted(at=170, phase="racing"), *inserted(at=120, phase="settled"))
    assert said.endswith("is labelled racing, and was asked when settled")
    (said,) = among(notes, *inserted(at=195, phase="settled"))
    assert said.endswith("at another time than when settled")


def answered(kind: str, value: dict[str, Any] | None) -> list[str]:
    """What is strange of an INSERT without a phase that ended so, with that value."""
    question = {name: each for name, each in ROW.items() if name != "phase"}
    rows = judged([*TABLE, *NOTES, *asked("insert", question)], (SHOWN,)).history.to_pylist()
    ended = next(row for row in rows if row["f"] == "insert" and row["type"] == "ok")
    ended |= {"type": kind, "value": None if value is None else orjson.dumps(value).decode()}
    ended["error"] = None if kind == "ok" else "Timeout"
    records = Records.of(pa.Table.from_pylist(rows, schema=HISTORY), observed(SHOWN))
    return list(find_strange_row_questions(Evidence.of(records)))


def test_only_an_answer_repeats_its_question() -> None:
    assert answered("ok", ROW) == ["the question of op 5 does not say phase"]
    assert answered("ok", None) == []
    assert answered("fail", ROW) == []
    assert answered("info", ROW) == []


def test_a_question_without_its_table_is_judged_by_its_shape_alone() -> None:
    (said,) = strange(*asked("insert", {"row": {"ghost": 1}, "consistency": "ONE"}, answer={}, key="k"))
    assert said == "the question of op 5 does not say table"
    bare = strange(*asked("insert", {"keyspace": "k", "table": "t"}, answer={}))
    assert bare == [
        "the question of op 5 does not say consistency and row",
        "op 5 was acknowledged, and wrote a row without the whole key of k.t",
    ]


# ── columns ──────────────────────────────────────────────────────────────────────────────────────────────────────────

GHOST = {"row": {"a": 1, "c": 2, "ghost": 3}}
GIVEN = {
    "added": ["@5 p0 n1 invoke add-column k.t ghost:int", "@6 p0 n1 ok"],
    "added by a lost answer": ["@5 p0 n1 invoke add-column k.t ghost:int", "@6 p0 n1 info"],
    "renamed": ["@5 p0 n1 invoke rename-column k.t x>ghost", "@6 p0 n1 ok"],
    "free text": ['@5 p0 n1 invoke cql k.t {"statement": "ALTER TABLE k.t ADD ghost int"}', "@6 p0 n1 ok"],
}


def test_no_server_takes_a_column_that_nothing_can_have_given_the_table() -> None:
    assert strange(*inserted(**GHOST)) == [
        "op 5 was acknowledged, and no operation can have given k.t ghost",
    ]
    assert strange(*inserted(**GHOST, end="fail InvalidRequest: unknown column")) == []
    assert strange(*inserted(**GHOST, end="info timed out")) == []


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_a_column_that_something_may_have_given_it_is_taken(given: Sequence[str]) -> None:
    assert strange(*given, *inserted(**GHOST)) == []


def test_columns_of_a_table_that_is_older_than_the_history_are_not_known() -> None:
    assert strange(*inserted(**GHOST), table=()) == []


@pytest.mark.parametrize("change", ["add-column k.t y:int", "rename-column k.t x>y", "alter-options k.t comment=x"])
def test_a_change_of_a_table_that_is_older_than_the_history_does_not_tell_its_columns(change: str) -> None:
    assert strange(*inserted(**GHOST), table=[f"@5 p0 n1 invoke {change}", "@6 p0 n1 ok"]) == []


def test_a_row_of_what_may_be_a_view_need_not_have_the_key_of_the_table_of_that_name() -> None:
    view = ['@5 p0 n1 invoke create-view k.t {"base": "s", "columns": null}', "@6 p0 n1 info"]
    assert strange(*view, *inserted(row={"a": 1, "x": 3})) == []


@pytest.mark.parametrize(
    ("f", "value"),
    [
        ("know-table", {"key": "ghost"}),
        ("delete-row", {"where": {"a": 1, "ghost": 1}, "consistency": "ONE"}),
        ("read-rows", {"columns": None, "consistency": "ONE", "phase": "racing", "where": {"ghost": 1}}),
        ("read-rows", {"columns": ["ghost"], "consistency": "ONE", "phase": "racing"}),
        ("insert", {**ROW, "form": "update", "key": ["ghost"]}),
        ("insert", {**ROW, "form": "batch", "beside": {"ghost": 1}}),
    ],
)
def test_every_statement_names_columns_of_its_table(f: str, value: dict[str, Any]) -> None:
    (said,) = strange(*asked(f, {"keyspace": "k", "table": "t", **value}))
    assert said.endswith("no operation can have given k.t ghost")


def test_a_view_has_columns_of_its_base() -> None:
    view = ['@5 p0 n1 invoke create-view k.v {"base": "t", "columns": null}', "@6 p0 n1 ok"]
    value = {"keyspace": "k", "table": "v", "columns": ["x"], "consistency": "ALL", "phase": "racing", "base": "t"}
    assert strange(*view, *asked("read-rows", value, key="k.v")) == []
    (said,) = strange(*view, *asked("read-rows", {**value, "columns": ["ghost"]}, key="k.v"))
    assert said.endswith("no operation can have given k.v ghost")


@pytest.mark.parametrize(
    ("row", "count"),
    [
        pytest.param({"a": 1, "c": 2}, 0, id="whole"),
        pytest.param({"c": 2, "x": 3}, 1, id="without its partition"),
        pytest.param({"a": 1, "x": 3}, 1, id="without its place there"),
    ],
)
def test_an_insert_names_the_whole_key(row: dict[str, int], count: int) -> None:
    assert len(strange(*inserted(row=row))) == count


STATIC = [*TABLE[:2], "@3 p0 n1 invoke create-table k.t a:int* c:int+ x:int!", "@4 p0 n1 ok"]
OTHER_KEY = [*TABLE, "@5 p0 n1 invoke create-table k.t a:int* x:int", "@6 p0 n1 info"]


@pytest.mark.parametrize("table", [STATIC, OTHER_KEY], ids=["static", "another definition"])
def test_a_row_without_a_place_fits_some_tables(table: Sequence[str]) -> None:
    assert strange(*inserted(row={"a": 1, "x": 3}), table=table) == []
    assert len(strange(*inserted(row={"c": 1, "x": 3}), table=table)) == 1


def test_a_column_of_the_key_that_may_have_another_name_is_not_missed() -> None:
    renamed = ["@5 p0 n1 invoke rename-column k.t c>d", "@6 p0 n1 info"]
    assert strange(*renamed, *inserted(row={"a": 1, "d": 2})) == []
    again = [*renamed, "@8 p1 n1 invoke rename-column k.t d>e", "@9 p1 n1 ok"]
    assert strange(*again, *inserted(row={"a": 1, "e": 2})) == []


@pytest.mark.parametrize("row", [{"d": 2, "x": 3}, {"a": 1, "x": 3}, {"c": 2}])
def test_a_row_is_as_whole_as_before_where_another_column_of_the_key_was_renamed(row: dict[str, int]) -> None:
    renamed = ["@5 p0 n1 invoke rename-column k.t c>d", "@6 p0 n1 ok"]
    (said,) = strange(*renamed, *inserted(row=row))
    assert said.endswith("wrote a row without the whole key of k.t")


def test_a_read_lists_the_columns_that_it_asked_for() -> None:
    assert strange(*read(columns=["a", "x"])) == ["op 7 lists other columns than it asked for"]
    assert strange(*read([{"a": 1, "x": 3}])) == ["op 7 lists other columns than it asked for"]
    assert strange(*read([{"a": 1, "c": 2, "y": 3}])) == ["op 7 lists other columns than it asked for"]
    assert strange(*read(columns=["x", "c", "a", "x"])) == []
    assert strange(*read(columns=None)) == []
    assert strange(*read((), columns=["a", "x"])) == []


@pytest.mark.parametrize(
    "version",
    ['{"versions": {"v": ["127.0.0.1"]}}', '{"memory": "statements", "versions": {}}', '{"told_from": "memory"}'],
)
def test_thrift_servers_take_any_column(version: str) -> None:
    thrift = [SHOWN, f"settled n1 version v {version}"]
    assert strange(*inserted(row={"ghost": 1}), shown=thrift) == []
    assert len(strange(*inserted(row={"ghost": 1}, consistency="FOUR"), shown=thrift)) == 1


# ── options ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "count"),
    [
        pytest.param({"comment": "x"}, 0, id="shown"),
        pytest.param({"COMMENT": "x"}, 0, id="in capitals"),
        pytest.param({"ghost": "x"}, 1, id="of no table"),
        pytest.param({"memtable": "default"}, 0, id="not shown where it is the default"),
        pytest.param({"compaction": {"class": "X"}}, 0, id="shown under other names up to 2.2"),
    ],
)
def test_an_option_is_one_that_some_table_has(options: dict[str, Any], count: int) -> None:
    change = [f"@20 p9 n1 invoke alter-options k.t {orjson.dumps({'options': options}).decode()}", "@21 p9 n1 ok"]
    assert len(strange(*change)) == count
    assert strange(*change, shown=()) == []
    assert strange(*change[:1], "@21 p9 n1 fail SyntaxException: unknown property") == []


def test_a_compaction_has_a_class() -> None:
    shown = [SHOWN.replace('"comment": ""', '"compaction": {"class": "X"}')]
    for compaction, count in (({"min_threshold": 5}, 1), ({"class": "X", "min_threshold": 5}, 0), ({}, 0)):
        value = {"options": {"compaction": compaction}}
        change = [f"@20 p9 n1 invoke alter-options k.t {orjson.dumps(value).decode()}", "@21 p9 n1 ok"]
        assert len(strange(*change, shown=shown)) == count
    twice = [
        line
        for at in (20, 30)
        for line in (
            f'@{at} p{at} n1 invoke alter-options k.t {{"options": {{"compaction": {{"min_threshold": {at}}}}}}}',
            f"@{at + 1} p{at} n1 ok",
        )
    ]
    assert strange(*twice, shown=shown) == ["op 5 was acknowledged, and its compaction has no class"], "the first alone"


def test_of_several_options_that_no_table_has_the_first_change_is_named() -> None:
    twice = [
        line
        for at in (20, 30)
        for line in (
            f'@{at} p{at} n1 invoke alter-options k.t {{"options": {{"ghost{at}": 1, "comment": "x"}}}}',
            f"@{at + 1} p{at} n1 ok",
        )
    ]
    assert strange(*twice) == ["op 5 was acknowledged, and no table has an option ghost20"]


DROP = ("@30 p1 n1 invoke drop-table k.t", "@31 p1 n1 ok")


@pytest.mark.parametrize("end", [DROP, ("@30 p1 n1 invoke drop-keyspace k", "@31 p1 n1 ok")])
def test_a_table_that_was_dropped_answers_nobody_once_nodes_have_settled(end: Sequence[str]) -> None:
    (said,) = strange(*end, *read(), *read(at=130), shown=())
    assert re.fullmatch(r"op \d+ was acknowledged, and op \d+ had dropped it", said)
    refused = asked("read-rows", READ, at=120, end="fail InvalidRequest: unconfigured table t")
    assert strange(*end, *refused, shown=()) == []
    assert strange(*read(), shown=()) == []
    assert strange(*end, *read()) == [], "a node shows it: the schema's checkers say that it was brought back"


@pytest.mark.parametrize(
    "end",
    [
        (DROP[0], "@31 p1 n1 info timed out"),
        (DROP[0], "@31 p1 n1 fail InvalidRequest: no"),
        (*DROP, "@32 p1 n1 invoke create-table k.t a:int* c:int+ x:int", "@33 p1 n1 ok"),
        (*DROP, "@32 p1 n1 invoke create-table k.t a:int* c:int+ x:int", "@33 p1 n1 info timed out"),
        ("@30 p2 n2 invoke create-table k.t a:int* c:int+ x:int", *DROP, "@33 p2 n2 ok"),
        (
            *DROP,
            '@32 p2 n1 invoke create-view k.t {"base": "s", "primary_key": ["a", "c"]}',
            "@33 p2 n1 info timed out",
        ),
        (*DROP, '@32 p1 n1 invoke cql k {"statement": "CREATE TABLE t (a int PRIMARY KEY)"}', "@33 p1 n1 ok"),
        ("@30 p1 n1 invoke drop-table k.s", "@31 p1 n1 ok"),
    ],
)
def test_a_table_that_may_be_there_again_answers(end: Sequence[str]) -> None:
    assert not any("had dropped" in said for said in strange(*end, *read()))


def test_a_table_that_nothing_created_answers_nobody_once_nodes_have_settled() -> None:
    other = {"keyspace": "k", "table": "s", "columns": ["a"], "consistency": "ALL", "phase": "settled"}
    lines = asked("read-rows", other, at=120, answer={**other, "rows": []}, key="k.s")
    (said,) = strange(*lines)
    assert said.endswith("was acknowledged, and no operation can have created it")
    assert strange(*lines, table=()) == []  # the keyspace may be older than the history
    view = ['@5 p0 n1 invoke create-view k.s {"base": "t", "primary_key": ["a", "c"]}', "@6 p0 n1 info timed out"]
    assert not any("can have created" in one for one in strange(*view, *lines))
