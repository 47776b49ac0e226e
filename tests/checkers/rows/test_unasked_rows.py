"""Rows that a read did not ask for, or more of one key than were written, and their legal twins."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from histories import judged

from schemaquake.checkers.rows.acked_rows import AckedRows

TABLE = [
    '@3 p91 n1 invoke create-table k.t {"columns": [["k", "int", "partition_key"], ["q", "int", "clustering"], ["v", "text", "regular"]]}',
    "@4 p91 n1 ok",
]
RENAME = ["@7 p93 n1 invoke rename-column k.t q>b", "@8 p93 n1 info"]
BACK = ["@11 p95 n1 invoke rename-column k.t b>q", "@12 p95 n1 info"]
CROSSED = [
    "@7 p93 n1 invoke rename-column k.t q>b",
    "@8 p93 n1 ok",
    "@9 p94 n1 invoke rename-column k.t k>q",
    "@10 p94 n1 info",
]
ADDED = ["@5 p92 n1 invoke add-column k.t b:int", "@6 p92 n1 info"]
TEXT = ['@9 p94 n1 invoke cql k {"statement": "x"}', "@10 p94 n1 ok"]


def insert(at: int, outcome: str = "ok", **row: Any) -> list[str]:
    value = {"row": row, "consistency": "ONE", "phase": "racing"}
    return [f"@{at} p{at} n1 invoke insert k.t {orjson.dumps(value).decode()}", f"@{at + 1} p{at} n1 {outcome}"]


def read(
    *rows: dict[str, Any], where: Any = None, columns: list[str] | None = None, at: int = 40, **more: Any
) -> list[str]:
    value = {"columns": columns, "consistency": "ONE", "phase": "racing", "where": where, **more}
    return [
        f"@{at} p{at} n2 invoke read-rows k.t {orjson.dumps(value).decode()}",
        f"@{at + 1} p{at} n2 ok {orjson.dumps({'rows': list(rows)}).decode()}",
    ]


def doubts(*lines: list[str]) -> list[str]:
    texts = ["@1 p90 n1 invoke create-keyspace k", "@2 p90 n1 ok", *(text for some in lines for text in some)]
    verdict = AckedRows().check(judged(texts, ("settled n1,n2,n3 keyspace k",)), limit_s=5)
    return [doubt.text for doubt in verdict.doubts if "asked for" in doubt.text or " lists " in doubt.text]


ONE, TWO = insert(20, k=1, q=0, v="a"), insert(22, k=1, q=1, v="b")


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        pytest.param([TABLE, ONE, read({"k": 2}, where={"k": 1}, columns=["k"])], 1, id="another partition"),
        pytest.param([TABLE, ONE, read({"k": 0}, where={"k": 1}, columns=["k"])], 1, id="a lower partition"),
        pytest.param([TABLE, ONE, read({"k": 1, "q": 4}, where={"k": 1, "q": 0})], 1, id="another row"),
        pytest.param([TABLE, ONE, read({"k": 1000}, where={"k": 1000}, columns=["k"])], 0, id="its own, a high number"),
        pytest.param([TABLE, ONE, [*read(where={"k": 1})[:1], "@41 p40 n2 fail no"]], 0, id="a read that failed"),
        pytest.param([TABLE, ONE, read({"k": 1}, where={"k": 1}, columns=["k"])], 0, id="its own"),
        pytest.param([TABLE, ONE, read({"v": "a"}, where={"k": 1}, columns=["v"])], 0, id="the key is not read"),
        pytest.param([TABLE, ONE, read({"k": 2}, where={"v": 1}, index="i", columns=["k"])], 0, id="through an index"),
        pytest.param([TABLE, ONE, read({"k": "2"}, where={"k": 1}, columns=["k"])], 0, id="in another spelling"),
        pytest.param([TABLE, ONE, read(where={"k": 1}, columns=["k"])], 0, id="no row"),
    ],
)
def test_rows_of_another_key_than_was_asked_for_are_a_doubt(lines: list[list[str]], count: int) -> None:
    assert len(doubts(*lines)) == count


OTHER_KEY = ["@5 p92 n2 invoke create-table k.t k:int* v:text+", "@6 p92 n2 info no"]
TWICE = read({"k": 1}, {"k": 1}, where={"k": 1}, columns=["k"])


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        pytest.param([TABLE, ONE, TWICE], 1, id="one more than was written"),
        pytest.param(
            [TABLE, ONE, insert(22, "fail InvalidRequest: no", k=1, q=1), TWICE], 1, id="the other was refused"
        ),
        pytest.param([TABLE, ONE, ONE[:0] + insert(24, k=1, q=0, v="c"), TWICE], 1, id="one row written twice"),
        pytest.param([TABLE, ONE, insert(22, k=2, q=1), TWICE], 1, id="another partition's"),
        pytest.param([TABLE, ONE, read({"q": 0}, {"q": 0}, columns=["q"])], 1, id="by the other part of the key"),
        pytest.param(
            [TABLE, ONE, read({"q": 0}, {"q": 1}, columns=["q"]), read({"k": 1}, {"k": 1}, columns=["k"], at=50)],
            1,
            id="after a read of another part that is whole",
        ),
        pytest.param(
            [TABLE, ONE, read({"q": 0}, {"q": 0}, columns=["q"]), read({"k": 1}, {"k": 1}, columns=["k"], at=50)],
            1,
            id="by both parts, which is told once",
        ),
        pytest.param([TABLE, ONE, TWO, TWICE], 0, id="two rows"),
        pytest.param([TABLE, ONE, TWO, read({"k": 1}, {"k": 9}, columns=["k"])], 0, id="fewer, and one of nobody's"),
        pytest.param(
            [TABLE, OTHER_KEY, ONE, TWICE], 0, id="a second CREATE with another key, by which it may be two rows"
        ),
        pytest.param([TABLE, ONE, insert(22, "info OperationTimedOut: no", k=1, q=1), TWICE], 0, id="perhaps two"),
        pytest.param([TABLE, RENAME, ONE, TWICE], 1, id="a key that may have been renamed"),
        pytest.param([TABLE, RENAME, ONE, insert(22, k=1, b=0), TWICE], 1, id="one row under two names"),
        pytest.param([TABLE, RENAME, ONE, insert(22, k=1, b=1), TWICE], 0, id="two rows under two names"),
        pytest.param([TABLE, RENAME, BACK, ONE, insert(22, k=1, b=1), TWICE], 0, id="a name given, and taken back"),
        pytest.param([TABLE, CROSSED, ONE, TWICE], 0, id="a name that both columns of the key may have had"),
        pytest.param([TABLE, ADDED, RENAME, ONE, TWICE], 0, id="a name that another column may have had"),
        pytest.param([TABLE, TEXT, ONE, TWICE], 0, id="free text"),
        pytest.param([TABLE, ONE, insert(22, k=1, v="s"), TWICE], 0, id="an INSERT without the whole key"),
        pytest.param([ONE, TWICE], 0, id="a table that the history did not create"),
        pytest.param([TABLE, read({"v": "a"}, {"v": "a"}, columns=["v"])], 0, id="nothing of the key is read"),
    ],
)
def test_more_rows_of_one_partition_than_were_written_are_a_doubt(lines: list[list[str]], count: int) -> None:
    assert len(doubts(*lines)) == count


REFUSED = "fail InvalidRequest: it cannot be done"
LATER = insert(60, k=3, q=0)
SHOWN = read({"k": 3, "q": 0})
CONDITIONAL = insert(26, REFUSED, k=3, q=0, v="a")[0].replace('"row"', '"form":"conditional","row"')


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        pytest.param([insert(26, REFUSED, k=3, q=0, v="a"), read({"k": 3, "q": 0})], 1, id="refused"),
        pytest.param(
            [insert(26, "fail Unavailable", k=3, q=0), read({"k": 3, "q": 0, "v": None})], 1, id="in any words"
        ),
        pytest.param([insert(26, "info Timeout", k=3, q=0), read({"k": 3, "q": 0})], 0, id="of unknown outcome"),
        pytest.param([insert(26, REFUSED, k=3, q=0), read({"k": 1, "q": 0})], 0, id="another row is there"),
        pytest.param([insert(26, REFUSED, k=3, q=0), read({"k": 3})], 0, id="the key is not whole"),
        pytest.param(
            [insert(26, REFUSED, k=3, q=0), insert(28, "info Timeout", k=3, q=0), read({"k": 3, "q": 0})],
            0,
            id="another one of the key may have written",
        ),
        pytest.param([[CONDITIONAL, f"@27 p26 n1 {REFUSED}"], read({"k": 3, "q": 0})], 0, id="for its condition"),
        pytest.param(
            [RENAME, insert(26, REFUSED, k=3, q=0), read({"k": 3, "b": 0})], 1, id="a key that may be renamed"
        ),
        pytest.param([TEXT, insert(26, REFUSED, k=3, q=0), read({"k": 3, "q": 0})], 0, id="free text"),
        pytest.param([insert(26, REFUSED, k=3, q=0), SHOWN, LATER], 1, id="refused, and asked for again"),
    ],
)
def test_a_row_that_refused_inserts_alone_can_have_written_is_a_doubt(lines: list[list[str]], count: int) -> None:
    assert len(doubts(TABLE, ONE, *lines)) == count


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        pytest.param([SHOWN, LATER], 1, id="it began after the read"),
        pytest.param([SHOWN, insert(60, "info Timeout", k=3, q=0)], 1, id="of unknown outcome"),
        pytest.param([insert(26, k=3, q=0), SHOWN, LATER], 0, id="the second of the key"),
        pytest.param([insert(26, "info Timeout", k=3, q=0), SHOWN, LATER], 0, id="perhaps the second"),
        pytest.param([[SHOWN[0], LATER[0], SHOWN[1].replace("@41", "@60"), LATER[1]]], 0, id="it began meanwhile"),
        pytest.param([read({"k": 1, "q": 0}), LATER], 0, id="another row is there"),
        pytest.param([TEXT, SHOWN, LATER], 0, id="free text"),
    ],
)
def test_a_row_that_is_shown_before_its_first_insert_began_is_a_doubt(lines: list[list[str]], count: int) -> None:
    assert len(doubts(TABLE, ONE, *lines)) == count


@pytest.mark.parametrize(
    ("other", "refused", "shown", "count"),
    [
        (1, 2, 2, 1),
        (1, 1000, 1000, 1),
        (1000, 1000, 1000, 0),
        (3, 2, 1, 0),
        (1, 2, 3, 0),
        (1, 2, 1, 0),
        (2, 2, 2, 0),
        (None, 2, 2, 1),
        ("1", "2", "2", 0),
        ("2", 2, 2, 0),
    ],
    ids=[
        *("refused", "refused, a high number", "both, a high number", "a lower one", "a higher one"),
        *("the other's", "both", "beside none", "a text", "perhaps another spelling"),
    ],
)
def test_an_integer_that_refused_inserts_alone_can_have_written_is_a_doubt(
    other: Any, refused: Any, shown: Any, count: int
) -> None:
    lines = [insert(26, k=3, q=0, v=other), insert(28, REFUSED, k=3, q=0, v=refused)]
    assert len(doubts(TABLE, *lines, read({"k": 3, "q": 0, "v": shown}))) == count


def conditional(at: int, outcome: str = "fail not applied: the condition did not hold", **row: Any) -> list[str]:
    return [
        line.replace('"consistency"', '"form": "conditional", "consistency"') for line in insert(at, outcome, **row)
    ]


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        pytest.param([conditional(20, k=1, q=0)], 1, id="alone"),
        pytest.param([conditional(20, k=1, q=0), conditional(22, k=1, q=0)], 1, id="two that lost"),
        pytest.param([insert(20, k=1, q=1), conditional(22, k=1, q=0)], 1, id="another row was written"),
        pytest.param([conditional(20, k=1, q=0), insert(22, k=1, q=0)], 1, id="its row was written later"),
        pytest.param([insert(20, k=1, q=0), conditional(22, k=1, q=0)], 0, id="its row was written"),
        pytest.param([insert(20, "info timed out", k=1, q=0), conditional(22, k=1, q=0)], 0, id="perhaps written"),
        pytest.param([conditional(20, "ok", k=1, q=0), conditional(22, k=1, q=0)], 0, id="one that won"),
        pytest.param([conditional(20, "fail WriteTimeout", k=1, q=0)], 0, id="refused for another reason"),
        pytest.param([conditional(20, k=1, q=0), TEXT], 0, id="free text"),
    ],
)
def test_an_insert_is_not_applied_only_where_its_row_may_be_there(lines: list[list[str]], count: int) -> None:
    texts = ["@1 p90 n1 invoke create-keyspace k", "@2 p90 n1 ok", *TABLE, *(text for some in lines for text in some)]
    verdict = AckedRows().check(judged(sorted(texts, key=_at), ("settled n1,n2,n3 keyspace k",)), limit_s=5)
    assert len([doubt for doubt in verdict.doubts if "was not applied because" in doubt.text]) == count


def _at(line: str) -> int:
    return int(line.split(maxsplit=1)[0][1:])
