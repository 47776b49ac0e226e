"""Lookups: a row that a read by key shows and an index or a view does not, and its legal twins."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from histories import events, judged

from schemaquake.checkers.findings.catalogue import CATALOGUE
from schemaquake.checkers.rows.acked_rows import AckedRows
from schemaquake.harness.model.verdict import Verdict

S = 1_000
SETUP = [
    "@1 p90 n1 invoke create-keyspace k",
    "@2 p90 n1 ok",
    "@3 p91 n1 invoke create-table k.t k:int* v:text c:int",
    "@4 p91 n1 ok",
]
INDEX = ["@5 p92 n1 invoke create-index k.i t c", "@6 p92 n1 ok"]
VIEW = ['@5 p92 n1 invoke create-view k.w {"base": "t", "primary_key": ["c", "k"]}', "@6 p92 n1 ok"]
KIND = {"index": INDEX, "view": VIEW}
LATE = 40 * S


def call(at: int, f: str, key: str, value: dict[str, Any], end: str = "ok") -> list[str]:
    return [
        f"@{at} p{at} n1 invoke {f} {key} {orjson.dumps(value).decode()}",
        f"@{at + 1} p{at} n1 {end}",
    ]


def insert(at: int = 10, *, k: int = 1, c: int = 7, outcome: str = "ok") -> list[str]:
    value = {"row": {"k": k, "c": c}, "consistency": "QUORUM", "phase": "racing"}
    return call(at, "insert", "k.t", value, outcome)


def read(*rows: dict[str, int], at: int = LATE, level: str = "ALL") -> list[str]:
    value = {"columns": ["k", "c"], "consistency": level, "phase": "settled"}
    return call(at, "read-rows", "k.t", value, f"ok {orjson.dumps({'rows': list(rows)}).decode()}")


def lookup(
    kind: str, *rows: dict[str, int], at: int = LATE + 10, level: str = "ALL", end: str | None = None, asks: int = 7
) -> list[str]:
    value: dict[str, Any] = {"columns": ["k", "c"], "consistency": level, "phase": "settled", "where": {"c": asks}}
    value |= {"index": "i"} if kind == "index" else {"base": "t"}
    said = end or f"ok {orjson.dumps({'rows': list(rows)}).decode()}"
    return call(at, "read-rows", "k.t" if kind == "index" else "k.w", value, said)


ROW = {"k": 1, "c": 7}


def judge(kind: str, *lines: list[str]) -> Verdict:
    texts = [*SETUP, *KIND[kind], *(text for some in lines for text in some)]
    return AckedRows().check(judged(texts, ("settled n1,n2,n3 keyspace k",)), limit_s=5)


def found(verdict: Verdict) -> list[str]:
    return [one.type for one in verdict.anomalies]


@pytest.mark.parametrize("kind", KIND)
def test_a_row_that_is_there_and_is_not_found_is_missing(kind: str) -> None:
    verdict = judge(kind, insert(), insert(12, k=2), read(ROW, {"k": 2, "c": 7}), lookup(kind, {"k": 2, "c": 7}))
    assert found(verdict) == [f"missing-from-{kind}"]
    (anomaly,) = verdict.anomalies
    assert anomaly.objects == ("k.t", "k.i" if kind == "index" else "k.w")
    assert anomaly.evidence["missing"] == 1
    assert anomaly.evidence["examples"] == [{"op": 6, "row": ROW}]
    assert set(found(verdict)) <= CATALOGUE.keys()


@pytest.mark.parametrize("kind", KIND)
@pytest.mark.parametrize(
    "twin",
    [
        pytest.param(lambda kind: [insert(), read(ROW), lookup(kind, ROW)], id="it is found"),
        pytest.param(lambda kind: [insert(c=8), read({"k": 1, "c": 8}), lookup(kind)], id="another value"),
        pytest.param(lambda kind: [insert(outcome="info"), read(ROW), lookup(kind, ROW)], id="unanswered, and found"),
        pytest.param(lambda kind: [insert(outcome="info"), read(), lookup(kind)], id="unanswered, and not there"),
        pytest.param(
            lambda kind: [insert(outcome="info"), read(ROW, at=LATE + 20), lookup(kind)],
            id="unanswered, and there later",
        ),
        pytest.param(lambda kind: [insert(), insert(20, c=9), read(ROW), lookup(kind)], id="two writes of the key"),
        pytest.param(lambda kind: [insert(), read(ROW), lookup(kind, level="ONE")], id="a lookup at ONE"),
        pytest.param(lambda kind: [insert(LATE + 11), read(ROW, at=LATE + 20), lookup(kind)], id="written later"),
        pytest.param(
            lambda kind: [insert(), read(ROW), call(20, "drop-table", "k.t", {}, "info"), lookup(kind)],
            id="a drop of the table that may still happen",
        ),
        pytest.param(
            lambda kind: [
                insert(),
                read(ROW),
                call(
                    20,
                    "drop-index" if kind == "index" else "drop-view",
                    "k.i" if kind == "index" else "k.w",
                    {},
                    "info",
                ),
                lookup(kind),
            ],
            id="a drop of it that may have happened",
        ),
        pytest.param(
            lambda kind: [
                insert(),
                read(ROW),
                ["@20 p20 n1 invoke drop-column k.t c", "@21 p20 n1 info"],
                lookup(kind),
            ],
            id="a drop of its column",
        ),
    ],
)
def test_its_twins_are_legal(kind: str, twin: Any) -> None:
    assert found(judge(kind, *twin(kind))) == []


@pytest.mark.parametrize("kind", KIND)
def test_a_row_of_an_insert_that_was_never_answered_may_be_missing_but_not_silently(kind: str) -> None:
    verdict = judge(kind, insert(outcome="info"), read(ROW), lookup(kind))
    assert (verdict.valid, [doubt.kind for doubt in verdict.doubts]) == ("unknown", ["undecided"])
    assert "did not find 1 row that a read of the table had shown" in verdict.doubts[0].text


@pytest.mark.parametrize("kind", KIND)
def test_a_row_that_no_read_shows_is_lost_and_not_missing_from_anything(kind: str) -> None:
    assert found(judge(kind, insert(), read(), lookup(kind))) == ["lost-rows"]


@pytest.mark.parametrize(("kind", "enough_s"), [("index", 10), ("view", 30)])
def test_an_index_and_a_view_have_time_to_be_built(kind: str, enough_s: int) -> None:
    early = judge(kind, insert(), read(ROW, at=100), lookup(kind, at=enough_s * S))
    assert (early.valid, [doubt.kind for doubt in early.doubts]) == ("unknown", ["undecided"])
    late = judge(kind, insert(), read(ROW, at=100), lookup(kind, at=enough_s * S + 20))
    assert found(late) == [f"missing-from-{kind}"]


@pytest.mark.parametrize("kind", KIND)
def test_a_lookup_that_is_not_answered_decides_nothing(kind: str) -> None:
    verdict = judge(kind, insert(), read(ROW), lookup(kind, end="fail ReadFailure: the index is not built"))
    assert (verdict.valid, [doubt.kind for doubt in verdict.doubts]) == ("unknown", ["unread"])


@pytest.mark.parametrize("kind", KIND)
def test_two_definitions_of_one_name_promise_nothing(kind: str) -> None:
    again = KIND[kind][0].replace("@5 p92", "@7 p93").replace(" t c", " t v"), "@8 p93 n1 ok"
    assert found(judge(kind, list(again), insert(), read(ROW), lookup(kind))) == []


def test_a_truncate_excuses_what_was_there_before_and_nothing_written_after_it() -> None:
    wiped = call(20, "truncate", "k.t", {"where": {}, "consistency": "ALL"})
    assert found(judge("index", insert(), wiped, read())) == []
    assert found(judge("index", insert(), wiped, insert(30, k=2), read())) == ["lost-rows"]


@pytest.mark.parametrize(("level", "expected"), [("QUORUM", []), ("ALL", ["resurrected-rows"])])
def test_a_truncate_removes_for_certain_what_was_acknowledged_everywhere(level: str, expected: list[str]) -> None:
    row = call(10, "insert", "k.t", {"row": ROW, "consistency": level, "phase": "racing"})
    wiped = call(20, "truncate", "k.t", {"where": {}, "consistency": "ALL"})
    assert found(judge("index", row, wiped, read(ROW), lookup("index", ROW))) == expected


@pytest.mark.parametrize("kind", KIND)
def test_a_drop_of_unknown_outcome_is_a_doubt_until_a_final_reading_decides_it(kind: str) -> None:
    subject, drop = ("k.i", "drop-index") if kind == "index" else ("k.w", "drop-view")
    lines = [*SETUP, *KIND[kind], *insert(), *call(20, drop, subject, {}, "info"), *read(ROW), *lookup(kind)]
    indexes = '{"indexes": {"i": {"kind": "COMPOSITES", "target": "c"}}}'
    there = ["keyspace k", f"table k.t id=1 k:int* v:text c:int {indexes if kind == 'index' else ''}"]
    if kind == "view":
        there.append('view k.w id=2 c:int* k:int+ v:text {"base_table_name": "t", "base_table_id": "1"}')
    gone = ["keyspace k", "table k.t id=1 k:int* v:text c:int"]

    def judge_with(shown: list[str], phases: str) -> Verdict:
        return AckedRows().check(judged(lines, [f"{phases} n1,n2,n3 {line}" for line in shown]), limit_s=5)

    doubted = judge_with(there, "settled")  # before the lookup
    assert (found(doubted), doubted.valid) == ([], "unknown")
    assert found(judge_with(there, "@90000 settled")) == [f"missing-from-{kind}"]
    taken = judge_with(gone, "settled")
    assert (found(taken), taken.valid) == ([], True)


def test_a_lookup_is_no_read_of_its_table() -> None:
    history = events(*SETUP, *INDEX, *insert(), *lookup("index"))
    assert "read-rows" in history["f"].to_pylist()
    assert found(judge("index", insert(), lookup("index"))) == []


def delete(kind: str = "delete-row", *, at: int = 20, level: str = "ALL", end: str = "ok") -> list[str]:
    return call(at, kind, "k.t", {"where": {"k": 2} if kind == "delete-row" else {}, "consistency": level}, end)


SECOND = {"k": 2, "c": 7}


@pytest.mark.parametrize("kind", KIND)
@pytest.mark.parametrize(
    ("row", "anomaly"),
    [
        pytest.param({"k": 2, "c": 7}, "resurrected-rows", id="a row that nothing wrote"),
        pytest.param({"k": 3, "c": 7}, "lost-rows", id="a value that its row never had"),
    ],
)
def test_a_lookup_lists_nothing_but_rows_of_its_table(kind: str, row: dict[str, int], anomaly: str) -> None:
    others = [*insert(), *insert(12, k=3, c=8), *read(ROW, {"k": 3, "c": 8})]
    assert found(judge(kind, others, lookup(kind, ROW, row))) == [anomaly]
    assert found(judge(kind, others, lookup(kind, ROW))) == []


@pytest.mark.parametrize("kind", KIND)
def test_a_row_that_was_written_over_since_may_be_one_of_an_older_replica(kind: str) -> None:
    assert found(judge(kind, insert(12, k=2, c=7), insert(14, k=2, c=8), lookup(kind, SECOND))) == []


@pytest.mark.parametrize("kind", KIND)
def test_a_row_with_another_value_than_was_asked_for_is_a_doubt(kind: str) -> None:
    verdict = judge(kind, insert(12, k=2, c=8), read({"k": 2, "c": 8}), lookup(kind, {"k": 2, "c": 8}))
    assert (verdict.valid, [doubt.kind for doubt in verdict.doubts]) == ("unknown", ["undecided"])


@pytest.mark.parametrize(
    ("kind", "removal", "valid"),
    [
        pytest.param("index", delete(), False, id="index - deleted on all replicas"),
        pytest.param("index", delete(level="QUORUM"), "unknown", id="index - a replica may lack the delete"),
        pytest.param("view", delete(), "unknown", id="view - it may be behind"),
        pytest.param("view", delete("truncate"), "unknown", id="view - truncated"),
        pytest.param("index", delete(end="info"), True, id="index - perhaps deleted"),
    ],
)
def test_a_lookup_lists_no_row_that_was_deleted(kind: str, removal: list[str], valid: bool | str) -> None:
    writing = [text.replace("QUORUM", "ALL") for text in insert(12, k=2)]
    verdict = judge(kind, writing, removal, lookup(kind, SECOND))
    assert verdict.valid == valid
    assert set(found(verdict)) <= {"resurrected-rows"}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(["@7 p93 n1 invoke create-table k.w k:int* c:int", "@8 p93 n1 info"], id="a table of its name"),
        pytest.param(
            ['@7 p93 n1 invoke create-view k.w {"base": "u", "primary_key": ["c", "k"]}', "@8 p93 n1 info"],
            id="a view of another table",
        ),
    ],
)
def test_a_lookup_that_may_have_read_something_else_says_nothing_of_the_table(other: list[str]) -> None:
    assert found(judge("view", other, insert(), read(ROW), lookup("view", ROW, SECOND))) == []
    assert found(judge("view", insert(), read(ROW), lookup("view", ROW, SECOND))) == ["resurrected-rows"]


def test_a_null_in_a_view_that_may_have_been_built_of_a_part_of_the_row_is_none() -> None:
    both = call(10, "insert", "k.t", {"row": {"k": 1, "c": 7, "v": "a"}, "consistency": "QUORUM", "phase": "racing"})
    asked = {"columns": ["k", "v"], "consistency": "ALL", "phase": "settled", "where": {"c": 7}, "base": "t"}
    shown = call(LATE, "read-rows", "k.w", asked, 'ok {"rows": [{"k": 1, "v": null}]}')
    assert found(judge("view", both, shown)) == []
    altered = [text.replace("null", '"b"') for text in shown]
    assert found(judge("view", both, altered)) == ["lost-rows"]


def removed(at: int) -> list[str]:
    value = '{"operation": 0, "nodes": ["n2"], "parameters": {"loses_disk": true}, "becomes": {"n2": "left"}}'
    return [f"@{at} -- n2 invoke removenode {value}", f"@{at + 2} -- n2 ok removenode {value}"]


@pytest.mark.parametrize("kind", KIND)
def test_a_disk_that_was_taken_away_may_have_had_a_view_s_rows_and_an_index_is_where_its_rows_are(kind: str) -> None:
    lost = judge(kind, insert(), removed(20), read(ROW), lookup(kind))
    assert found(lost) == ([] if kind == "view" else ["missing-from-index"])
    assert lost.valid == ("unknown" if kind == "view" else False)
    assert judge(kind, insert(), removed(20), read(ROW), lookup(kind, ROW)).valid is True
    both = judge(kind, insert(), removed(20), insert(30, k=2), read(ROW, {"k": 2, "c": 7}), lookup(kind))
    assert [one.evidence["missing"] for one in both.anomalies] == ([1] if kind == "view" else [2])
    for none in ([removed(7), insert()], [insert()]):
        assert found(judge(kind, *none, read(ROW), lookup(kind))) == [f"missing-from-{kind}"]
    late = judge(kind, insert(), read(ROW), lookup(kind), removed(LATE + 50))
    assert found(late) == [f"missing-from-{kind}"]
