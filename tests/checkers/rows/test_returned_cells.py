"""Values of a column that was dropped and added again: those from before the DROP stay away."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from histories import judged

from schemaquake.checkers.rows.acked_rows import AckedRows
from schemaquake.harness.model.verdict import Verdict

PLANNED = (
    '@0 -- info run-planned {"restart": "none", "logs": [], "pull_delay_s": 0, "utc": "2026-11-28T10:00:00.000+00:00"}'
)
ELSEWHERE = PLANNED.replace(', "utc": "2026-11-28T10:00:00.000+00:00"', "")
SETUP = (
    "@1 p90 n1 invoke create-keyspace k",
    "@2 p90 n1 ok",
    "@3 p91 n1 invoke create-table k.t k:int* v:text c:int",
    "@4 p91 n1 ok",
)
EVERYWHERE = ("@90000 settled n1,n2,n3 keyspace k",)


def insert(at: int, row: str, *, outcome: str = "ok", node: str = "n1", ended_at: int = 0) -> list[str]:
    value = f'{{"row": {row}, "consistency": "QUORUM", "phase": "racing"}}'
    return [f"@{at} p{at} {node} invoke insert k.t {value}", f"@{ended_at or at + 1} p{at} {node} {outcome}"]


def change(at: int, what: str, *, outcome: str = "ok", ended_at: int = 0) -> list[str]:
    return [f"@{at} p{at} n2 invoke {what}", f"@{ended_at or at + 1} p{at} n2 {outcome}"]


def read(row: str, *, at: int = 95_000, columns: str = '["k", "v", "c"]', consistency: str = "ALL") -> list[str]:
    value = f'"consistency": "{consistency}", "phase": "settled", "columns": {columns}, "where": {{}}'
    return [f"@{at} p{at} n3 invoke read-rows k.t {{{value}}}", f'@{at + 1} p{at} n3 ok {{"rows": [{row}]}}']


BEFORE = insert(1000, '{"k": 1, "v": "a", "c": 3}')
DROP = change(2000, "drop-column k.t c")
ADD = change(3000, "add-column k.t c:int")
BACK = read('{"k": 1, "v": "a", "c": 3}')
GONE = read('{"k": 1, "v": "a", "c": null}')


def judge(*steps: Sequence[str], plan: str = PLANNED) -> Verdict:
    lines = [plan, *SETUP, *(line for step in steps for line in step)]
    return AckedRows().check(judged(lines, EVERYWHERE), limit_s=5)


def test_a_value_from_before_the_drop_is_found():
    (found,) = judge(BEFORE, DROP, ADD, BACK).anomalies
    assert (found.type, found.objects, found.nodes) == ("resurrected-cells", ("k.t",), ("n3",))
    assert (found.evidence["cells"], found.evidence["columns"], found.evidence["read_at"]) == (1, ["c"], ["ALL"])
    assert "dropped c: it must read as null" in found.explanation


def test_one_that_is_gone_is_none():
    verdict = judge(BEFORE, DROP, ADD, GONE)
    assert (verdict.valid, verdict.anomalies) == (True, ())


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(insert(3500, '{"k": 1, "c": 3}'), id="written again"),
        pytest.param(insert(3500, '{"k": 1, "c": 3}', outcome="info timed out"), id="perhaps written again"),
        pytest.param(insert(1999, '{"k": 1, "c": 3}', ended_at=2000), id="written while it was dropped"),
        pytest.param(insert(900, '{"k": 1, "c": 3}', outcome="info timed out"), id="a write that may be late"),
    ],
)
def test_a_value_that_may_have_been_written_later_is_none(more):
    verdict = judge(BEFORE, DROP, ADD, more, BACK)
    assert (verdict.valid, verdict.anomalies) == (True, ())


@pytest.mark.parametrize(
    "drop",
    [
        pytest.param([], id="none"),
        pytest.param(change(2000, "drop-column k.t c", outcome="info timed out"), id="of unknown outcome"),
        pytest.param(change(2000, "drop-column k.t c", outcome="fail InvalidRequest: no"), id="refused"),
        pytest.param(change(2000, "drop-column k.t v"), id="of another column"),
        pytest.param(change(2000, "drop-column k.t c", ended_at=95_001), id="answered after the read"),
        pytest.param(change(900, "drop-column k.t c", ended_at=1000), id="while it was written"),
    ],
)
def test_without_a_drop_that_came_between_it_is_none(drop):
    back = read('{"k": 1, "c": 3}', columns='["k", "c"]')
    assert "resurrected-cells" not in {found.type for found in judge(BEFORE, drop, ADD, back).anomalies}


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((BEFORE, change(2000, 'drop-column k.t c {"timestamp": 5}')), id="a time was named"),
        pytest.param((insert(1950, '{"k": 1, "v": "a", "c": 3}'), DROP), id="clocks may be so far apart"),
    ],
)
def test_where_timestamps_may_be_the_other_way_round_it_is_a_doubt(steps):
    verdict = judge(*steps, ADD, BACK)
    assert (verdict.valid, verdict.anomalies) == ("unknown", ())
    assert [doubt.objects for doubt in verdict.doubts] == [("k.t",)]
    assert "cells of dropped columns" in verdict.doubts[0].text


def test_clocks_of_machines_that_nobody_compared_may_be_a_minute_apart():
    assert judge(BEFORE, DROP, ADD, BACK, plan=ELSEWHERE).valid == "unknown"
    late = [change(62_000, "drop-column k.t c"), change(63_000, "add-column k.t c:int")]
    assert [found.type for found in judge(BEFORE, *late, BACK, plan=ELSEWHERE).anomalies] == ["resurrected-cells"]


@pytest.mark.parametrize(
    ("node", "seconds", "valid"),
    [("n1", 5.0, "unknown"), ("n2", -5.0, "unknown"), ("n1", 0.5, False), ("n2", 5.0, False), ("n3", 60.0, False)],
)
def test_a_clock_that_was_shifted_by_more_than_lies_between_makes_it_a_doubt(node, seconds, valid):
    value = f'{{"id": 0, "nemesis": "x", "nodes": ["{node}"], "parameters": {{"offsets": {{"{node}": {seconds}}}}}}}'
    skew = [f"@500 -- info fault-begins {value}", '@600 -- info fault-ends {"id": 0}']
    verdict = judge(skew, BEFORE, DROP, ADD, BACK)
    assert verdict.valid == valid
    assert [found.type for found in verdict.anomalies] == ([] if valid else ["resurrected-cells"])


@pytest.mark.parametrize(
    "add",
    [
        pytest.param([], id="none"),
        pytest.param(change(1500, "add-column k.t c:int"), id="before the drop"),
        pytest.param(change(3000, "add-column k.t c:int", outcome="fail InvalidRequest: no"), id="refused"),
        pytest.param(change(3000, "add-column k.t c:int", outcome="info timed out"), id="of unknown outcome"),
        pytest.param(change(3000, "add-column k.t d:int"), id="of another column"),
    ],
)
def test_a_column_that_was_not_added_again_is_judged_as_a_column(add):
    assert "resurrected-cells" not in {found.type for found in judge(BEFORE, DROP, add, BACK).anomalies}


def test_an_add_that_meets_the_drop_counts():
    met = change(1990, "add-column k.t c:int", ended_at=2001)
    assert [found.type for found in judge(BEFORE, DROP, met, BACK).anomalies] == ["resurrected-cells"]


def test_a_renamed_column_is_not_judged():
    rename = change(2500, "rename-column k.t c>d")
    assert "resurrected-cells" not in {found.type for found in judge(BEFORE, DROP, rename, ADD, BACK).anomalies}


def test_the_last_drop_counts_and_rows_are_counted_once():
    more = insert(1100, '{"k": 2, "v": "b", "c": 4}')
    again = [change(4000, "drop-column k.t c"), change(5000, "add-column k.t c:int")]
    between = insert(3500, '{"k": 2, "c": 5}')
    rows = '{"k": 1, "v": "a", "c": 3}, {"k": 2, "v": "b", "c": 5}'
    (found,) = judge(BEFORE, more, DROP, ADD, between, *again, read(rows), read(rows, at=96_000)).anomalies
    assert found.evidence["cells"] == 2
    later, shown = insert(5500, '{"k": 2, "c": 5}'), read('{"k": 1, "v": "a", "c": null}, {"k": 2, "v": "b", "c": 5}')
    assert judge(BEFORE, more, DROP, ADD, later, shown).anomalies == ()
