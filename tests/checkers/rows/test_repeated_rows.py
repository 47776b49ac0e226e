"""Repeated rows: one read that lists a primary key twice, and its legal twins."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from histories import events, judged

from schemaquake.checkers.rows.acked_rows import AckedRows
from schemaquake.harness.model.verdict import Verdict

TABLE = ["@3 p91 n1 invoke create-table k.t k:int* v:text c:int", "@4 p91 n1 ok"]
WIDER = [
    '@5 p92 n1 invoke create-table k.t {"columns": [["k", "int", "partition_key"], ["c", "int", "clustering"]]}',
    "@6 p92 n1 info",
]
VIEW = ['@5 p92 n1 invoke create-view k.w {"base": "t", "primary_key": ["c", "k"]}', "@6 p92 n1 ok"]
RENAME = ["@7 p93 n1 invoke rename-column k.t k>b", "@8 p93 n1 info"]
ONE = {"k": 1, "c": 7}


def read(
    *rows: dict[str, Any],
    columns: list[str] | None = None,
    level: str = "ONE",
    phase: str = "racing",
    table: str = "t",
    **more: Any,
) -> list[str]:
    value = {"columns": columns, "consistency": level, "phase": phase, **more}
    return [
        f"@40 p40 n2 invoke read-rows k.{table} {orjson.dumps(value).decode()}",
        f"@41 p40 n2 ok {orjson.dumps({'rows': list(rows)}).decode()}",
    ]


def judge(*lines: list[str]) -> Verdict:
    texts = ["@1 p90 n1 invoke create-keyspace k", "@2 p90 n1 ok", *(text for some in lines for text in some)]
    return AckedRows().check(judged(texts, ("settled n1,n2,n3 keyspace k",)), limit_s=5)


def found(verdict: Verdict) -> list[str]:
    return [one.type for one in verdict.anomalies if one.type == "repeated-rows"]


@pytest.mark.parametrize("phase", ["racing", "settled", "restarted"])
@pytest.mark.parametrize("level", ["ONE", "QUORUM", "ALL"])
@pytest.mark.parametrize("columns", [None, ["k", "c"]], ids=["all columns", "named columns"])
def test_a_key_that_one_read_lists_twice_is_found(phase: str, level: str, columns: list[str] | None) -> None:
    verdict = judge(TABLE, read(ONE, {"k": 2, "c": 7}, {"k": 1, "c": 8}, columns=columns, level=level, phase=phase))
    assert found(verdict) == ["repeated-rows"]
    (anomaly,) = (one for one in verdict.anomalies if one.type == "repeated-rows")
    assert (anomaly.objects, anomaly.nodes, anomaly.ops) == (("k.t",), ("n2",), (4,))
    assert anomaly.evidence["key"] == ["k"]
    assert anomaly.evidence["examples"] == [{"read": 4, "row": ONE, "times": 2}]


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        pytest.param([TABLE, WIDER, read(ONE, ONE)], ["c", "k"], id="the same row under either of two keys"),
        pytest.param([TABLE, RENAME, read({"b": 1, "c": 7}, {"b": 1, "c": 8})], ["b"], id="a key that was renamed"),
        pytest.param([read(ONE, ONE)], [], id="a whole row of a table that the history did not create"),
        pytest.param([TABLE, read(ONE, ONE, where={"c": 7}, index="i")], ["k"], id="through an index"),
        pytest.param([TABLE, VIEW, read(ONE, ONE, table="w", base="t")], ["c", "k"], id="of a view"),
        pytest.param([TABLE, read(ONE, ONE, where={"k": 1})], ["k"], id="a read by key"),
        pytest.param(
            [TABLE, ['@9 p94 n1 invoke cql k {"statement": "x"}', "@10 p94 n1 ok"], read({"c": 7}, {"c": 7})],
            [],
            id="a whole row beside free text",
        ),
    ],
)
def test_it_is_found_by_the_longest_possible_key(lines: list[list[str]], key: list[str]) -> None:
    verdict = judge(*lines)
    assert found(verdict) == ["repeated-rows"]
    assert [one.evidence["key"] for one in verdict.anomalies if one.type == "repeated-rows"] == [key]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([TABLE, read(ONE, {"k": 2, "c": 7})], id="two keys"),
        pytest.param([TABLE, read({"c": 7}, {"c": 7}, columns=["c"])], id="the key is not read"),
        pytest.param([TABLE, WIDER, read(ONE, {"k": 1, "c": 8})], id="rows of the table that was created anew"),
        pytest.param([TABLE, VIEW, read(ONE, {"k": 1, "c": 8}, table="w", base="t")], id="a view that is behind"),
        pytest.param([read({"c": 7}, {"c": 7}, columns=["c"])], id="a table that the history did not create"),
    ],
)
def test_its_twins_are_legal(lines: list[list[str]]) -> None:
    assert found(judge(*lines)) == []


def test_free_text_that_may_have_given_the_table_another_key_leaves_it_undecided() -> None:
    text = ['@9 p94 n1 invoke cql k {"statement": "DROP TABLE k.t"}', "@10 p94 n1 info"]
    verdict = judge(TABLE, text, read(ONE, {"k": 1, "c": 8}))
    assert (verdict.valid, found(verdict)) == ("unknown", [])
    assert any(doubt.kind == "undecided" and doubt.objects == ("k.t",) for doubt in verdict.doubts)


def test_a_read_twice_lists_a_row_twice() -> None:
    first, second = read(ONE), [line.replace("p40", "p50").replace("@4", "@5") for line in read(ONE)]
    assert len(events(*TABLE, *first, *second)) == 6
    assert found(judge(TABLE, first, second)) == []


def test_rows_of_which_one_lacks_a_column_are_no_row_twice() -> None:
    assert found(judge(read(ONE, {"k": 1}))) == []
    assert found(judge(read(ONE, {"k": 1}, ONE))) == ["repeated-rows"]


def test_a_read_that_was_not_answered_lists_nothing() -> None:
    failed = [read(ONE, ONE)[0].replace("p40", "p60").replace("@40", "@60"), "@61 p60 n2 fail ReadTimeout: late"]
    assert found(judge(TABLE, failed)) == []
    assert found(judge(TABLE, [failed[0], "@61 p60 n2 info ReadTimeout: late"])) == []


def test_the_rows_of_all_reads_are_counted_and_those_of_the_first_are_told_first() -> None:
    two, three = {"k": 2, "c": 7}, {"k": 3, "c": 7}
    second = [line.replace("p40", "p50").replace("@4", "@5") for line in read(three, three, three)]
    verdict = judge(TABLE, read(ONE, two, ONE, two), second)
    (anomaly,) = (one for one in verdict.anomalies if one.type == "repeated-rows")
    assert (anomaly.evidence["rows"], anomaly.evidence["reads"], anomaly.ops) == (3, 2, (4, 6))
    told = [(one["read"], one["row"], one["times"]) for one in anomaly.evidence["examples"]]
    assert told == [(4, ONE, 2), (4, two, 2), (6, three, 3)]
    assert anomaly.explanation.index("{'k': 1} 2 times") > 0


def test_a_view_of_the_tables_name_lists_a_part_of_its_key_as_often_as_its_base_does() -> None:
    named = ["@5 p92 n1 invoke create-table k.b k:int* c:int+", "@6 p92 n1 ok"]
    view = ['@7 p93 n1 invoke create-view k.t {"base": "b", "primary_key": ["c", "k"]}', "@8 p93 n1 ok"]
    table = [line.replace("n1 ok", "n1 info") for line in TABLE]
    twice = read({"k": 1}, {"k": 1}, columns=["k"])
    assert found(judge(table, named, twice)) == ["repeated-rows"]
    assert found(judge(table, named, view, twice)) == []
    assert found(judge(table, named, view, read(ONE, ONE, columns=["k", "c"]))) == ["repeated-rows"]
