"""A cell reads as what was written last, not as what was there before."""

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


def insert(
    at: int, row: str, *, outcome: str = "ok", node: str = "n1", ended_at: int = 0, level: str = "QUORUM"
) -> list[str]:
    value = f'{{"row": {row}, "consistency": "{level}", "phase": "racing"}}'
    return [f"@{at} p{at} {node} invoke insert k.t {value}", f"@{ended_at or at + 1} p{at} {node} {outcome}"]


def change(at: int, what: str, *, outcome: str = "ok") -> list[str]:
    return [f"@{at} p{at} n2 invoke {what}", f"@{at + 1} p{at} n2 {outcome}"]


def delete(at: int, *, columns: str = '["c"]', outcome: str = "ok", level: str = "QUORUM") -> list[str]:
    return change(
        at, f'delete-row k.t {{"where": {{"k": 1}}, "consistency": "{level}", "columns": {columns}}}', outcome=outcome
    )


def read(row: str, *, at: int = 95_000, consistency: str = "ALL") -> list[str]:
    value = f'"consistency": "{consistency}", "phase": "settled", "columns": ["k", "v", "c"], "where": {{}}'
    return [f"@{at} p{at} n3 invoke read-rows k.t {{{value}}}", f'@{at + 1} p{at} n3 ok {{"rows": [{row}]}}']


FIRST = insert(1000, '{"k": 1, "v": "a", "c": 3}')
SECOND = insert(3000, '{"k": 1, "c": 5}', node="n2")
OLDER = read('{"k": 1, "v": "a", "c": 3}')
NEWER = read('{"k": 1, "v": "a", "c": 5}')
EMPTY = read('{"k": 1, "v": "a", "c": null}')


def judge(*steps: Sequence[str], plan: str = PLANNED) -> Verdict:
    lines = [plan, *SETUP, *(line for step in steps for line in step)]
    return AckedRows().check(judged(lines, EVERYWHERE), limit_s=5)


NULL = insert(3000, '{"k": 1, "c": null}', node="n2")


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(SECOND, id="insert"),
        pytest.param(delete(3000), id="delete of the cell"),
        pytest.param(NULL, id="insert of null"),
    ],
)
def test_a_value_that_was_written_over_or_deleted_is_lost_data(later):
    (found,) = judge(FIRST, later, OLDER).anomalies
    assert (found.type, found.objects, found.nodes) == ("lost-rows", ("k.t",), ("n3",))
    assert found.evidence["kind"] == "overwritten"
    assert (found.evidence["lost"], found.evidence["columns"]) == (1, ["c"])
    assert found.evidence["examples"] == [{"op": 7, "column": "c", "read": 3, "read_op": 9}]
    assert "a later read must not show the older one" in found.explanation


@pytest.mark.parametrize(
    ("later", "shown"),
    [
        pytest.param(SECOND, NEWER, id="the last value"),
        pytest.param(insert(3000, '{"k": 1, "c": 5}', outcome="info timed out"), OLDER, id="perhaps not written over"),
        pytest.param(insert(3000, '{"k": 1, "c": 5}', outcome="fail refused"), OLDER, id="refused"),
        pytest.param(insert(3000, '{"k": 1, "c": 3}', node="n2"), OLDER, id="the same value again"),
        pytest.param(insert(3000, '{"k": 1, "v": "a"}', node="n2"), OLDER, id="another column"),
        pytest.param(
            insert(3000, '{"k": 2, "c": 5}', node="n2"),
            read('{"k": 1, "v": "a", "c": 3}, {"k": 2, "v": null, "c": 5}'),
            id="another row",
        ),
        pytest.param(insert(999, '{"k": 1, "c": 5}', ended_at=3000), OLDER, id="written at the same time"),
        pytest.param([*SECOND, *insert(4000, '{"k": 1, "c": 3}')], OLDER, id="written back"),
        pytest.param(
            [*SECOND, *insert(4000, '{"k": 1, "c": 3}', outcome="info timed out")], OLDER, id="perhaps written back"
        ),
        pytest.param(
            insert(3000, '{"k": 1, "c": 5}', level="ONE"),
            read('{"k": 1, "v": "a", "c": 3}', consistency="QUORUM"),
            id="levels without a common replica",
        ),
        pytest.param(delete(3000), EMPTY, id="the cell is gone and the row is there"),
        pytest.param(NULL, EMPTY, id="the cell is null and the row is there"),
        pytest.param([*NULL, *insert(4000, '{"k": 1, "c": 3}')], OLDER, id="null, and written again"),
        pytest.param(insert(3000, '{"k": 1, "c": null}', outcome="info timed out"), OLDER, id="perhaps null"),
        pytest.param(delete(3000, columns='["v"]'), read('{"k": 1, "v": null, "c": 3}'), id="another cell"),
        pytest.param(delete(3000, outcome="info timed out"), OLDER, id="perhaps deleted"),
        pytest.param([*delete(3000), *insert(4000, '{"k": 1, "c": 3}')], OLDER, id="written again"),
        pytest.param(
            [*SECOND, *change(4000, "drop-column k.t c", outcome="info timed out")], OLDER, id="perhaps dropped"
        ),
    ],
)
def test_its_twins_are_legal(later, shown):
    verdict = judge(FIRST, later, shown)
    assert (verdict.valid, verdict.anomalies) == (True, ())


@pytest.mark.parametrize(
    ("later", "plan"),
    [
        pytest.param(SECOND, ELSEWHERE, id="clocks of other machines"),
        pytest.param(insert(1050, '{"k": 1, "c": 5}', node="n2"), PLANNED, id="a moment later"),
        pytest.param(delete(1050), PLANNED, id="deleted a moment later"),
    ],
)
def test_where_clocks_may_say_otherwise_it_is_a_doubt(later, plan):
    verdict = judge(FIRST, later, OLDER, plan=plan)
    assert (verdict.valid, [doubt.kind for doubt in verdict.doubts]) == ("unknown", ["undecided"])


def test_a_row_that_is_gone_although_one_cell_of_it_was_deleted_is_lost():
    lines = [PLANNED, *SETUP, *FIRST, *delete(3000), *read("")]
    remembering = ('settled n1,n2,n3 version v {"memory": "statements"}',)
    (found,) = AckedRows().check(judged(lines, [*EVERYWHERE, *remembering]), limit_s=5).anomalies
    assert (found.type, found.evidence["kind"]) == ("lost-rows", "missing")


def test_a_row_without_a_marker_goes_with_its_last_cell():
    value = '{"row": {"k": 1, "c": 3}, "consistency": "QUORUM", "phase": "racing", "form": "update", "key": ["k"]}'
    verdict = judge(change(1000, f"insert k.t {value}"), delete(3000), read(""))
    assert (verdict.valid, verdict.anomalies) == (True, ())


@pytest.mark.parametrize("later", [delete(3000), NULL], ids=["deleted", "null"])
def test_a_deleted_cell_may_be_back_when_its_grace_is_over(later):
    short = 'alter-options k.t {"options": {"gc_grace_seconds": 1}}'
    assert judge(FIRST, change(2000, short), later, OLDER).anomalies == ()


def test_a_value_may_not_be_back_when_the_grace_of_deletes_is_over():
    short = 'alter-options k.t {"options": {"gc_grace_seconds": 1}}'
    (found,) = judge(FIRST, change(2000, short), SECOND, OLDER).anomalies
    assert found.evidence["kind"] == "overwritten"


def judge_cells(first: str, later: str, shown: str, *, cql_type: str) -> Verdict:
    """Judge a table whose column `c` has this type and gets two values, one after the other, of which reads show one."""
    columns = f'[["k", "int", "partition_key"], ["v", "text", "regular"], ["c", "{cql_type}", "regular"]]'
    lines = [PLANNED, *SETUP[:2]]
    if cql_type == "u":
        lines += change(10, 'create-type k.u {"fields": [["a", "int"], ["b", "int"]]}')
    lines += change(20, f'create-table k.t {{"columns": {columns}}}')
    for at, cell in ((1000, first), (3000, later)):
        lines += insert(at, f'{{"k": 1, "v": "a", "c": {cell}}}')
    lines += read(f'{{"k": 1, "v": "a", "c": {shown}}}')
    return AckedRows().check(judged(lines, EVERYWHERE), limit_s=5)


CELLS = [
    pytest.param("u", '{"a": 1, "b": 2}', '{"a": 3, "b": 4}', id="user-defined type"),
    pytest.param("u", '{"a": 1, "b": 2}', '{"a": null, "b": 2}', id="a field of one"),
    pytest.param("list<int>", "[1, 2]", "[2, 1]", id="list"),
    pytest.param("set<int>", "[1, 2]", "[1, 3]", id="set"),
    pytest.param("map<text, int>", '{"x": 1}', '{"y": 2}', id="map"),
    pytest.param("map<text, int>", '{"x": 1}', "{}", id="emptied map"),
]


@pytest.mark.parametrize(("cql_type", "first", "later"), CELLS)
def test_a_whole_collection_or_value_of_a_type_is_overwritten_like_any_other(cql_type, first, later):
    (found,) = judge_cells(first, later, first, cql_type=cql_type).anomalies
    assert (found.type, found.evidence["kind"], found.evidence["columns"]) == ("lost-rows", "overwritten", ["c"])
    shown = "null" if later == "{}" else later
    assert judge_cells(first, later, shown, cql_type=cql_type).anomalies == ()


@pytest.mark.parametrize(
    ("cql_type", "first", "later", "shown"),
    [
        pytest.param("set<int>", "[1, 2]", "[2, 1]", "[1, 2]", id="a set has no order"),
        pytest.param("u", '{"a": 1}', '{"a": 1, "b": null}', '{"a": 1, "b": null}', id="a field that is null"),
        pytest.param("list<int>", "[]", "null", "null", id="an empty one is null"),
    ],
)
def test_values_that_are_the_same_to_a_server_replace_nothing(cql_type, first, later, shown):
    assert judge_cells(first, later, shown, cql_type=cql_type).anomalies == ()


def test_a_write_that_ended_after_the_read_began_is_not_owed():
    late = insert(94_999, '{"k": 1, "c": 5}', ended_at=95_003)
    assert judge(FIRST, late, OLDER).anomalies == ()


def on_the_way(row: str, *, consistency: str = "QUORUM") -> list[str]:
    lines = read(row, at=50_000, consistency=consistency)
    return [line.replace("settled", "racing") for line in lines]


WHOLE = change(3000, 'delete-row k.t {"where": {"k": 1}, "consistency": "QUORUM"}')
ROW = '{"k": 1, "v": "a", "c": 3}'


@pytest.mark.parametrize(
    ("later", "end"),
    [
        pytest.param(SECOND, NEWER, id="written over"),
        pytest.param(delete(3000), EMPTY, id="a cell deleted"),
        pytest.param(WHOLE, read(""), id="deleted"),
    ],
)
def test_a_read_on_the_way_that_shows_what_was_gone_is_a_doubt(later, end):
    verdict = judge(FIRST, later, on_the_way(ROW), end)
    assert (verdict.valid, [doubt.kind for doubt in verdict.doubts]) == ("unknown", ["undecided"])
    assert "had taken away" in verdict.doubts[0].text
    assert judge(FIRST, later, end).valid is True


@pytest.mark.parametrize(
    "twin",
    [
        pytest.param([WHOLE, on_the_way(ROW, consistency="ONE")], id="a single replica"),
        pytest.param([WHOLE, insert(4000, ROW, outcome="info timed out"), on_the_way(ROW)], id="perhaps written again"),
        pytest.param(
            [insert(2999, ROW, ended_at=3002, outcome="fail refused"), WHOLE, on_the_way(ROW)], id="at the same time"
        ),
        pytest.param(
            [change(1500, "drop-table k.t", outcome="info timed out"), WHOLE, on_the_way(ROW)], id="perhaps dropped"
        ),
    ],
)
def test_a_read_on_the_way_that_may_show_it_is_none(twin):
    verdict = judge(FIRST, *twin, read(""))
    assert [doubt.text for doubt in verdict.doubts if "had taken away" in doubt.text] == []
    assert verdict.anomalies == ()


def test_each_column_of_a_row_is_looked_at():
    first = insert(1000, '{"k": 1, "v": "a", "c": 3}')
    null = insert(2000, '{"k": 1, "c": null}', node="n2")
    over = insert(3000, '{"k": 1, "v": "b"}', node="n2")
    for steps, shown in (
        ((first, over), '{"k": 1, "v": "a", "c": 3}'),
        ((first, null, over), '{"k": 1, "v": "a", "c": null}'),
    ):
        (found,) = judge(*steps, read(shown)).anomalies
        assert (found.type, found.evidence["columns"]) == ("lost-rows", ["v"])


def test_of_a_row_only_the_columns_that_a_read_names_are_looked_at():
    value = '"consistency": "ALL", "phase": "settled", "columns": ["k", "c"], "where": {}'
    lines = [f"@95000 p95 n3 invoke read-rows k.t {{{value}}}", '@95001 p95 n3 ok {"rows": [{"k": 1, "c": 3}]}']
    (found,) = judge(FIRST, SECOND, lines).anomalies
    assert found.evidence["columns"] == ["c"]
    odd = [line.replace('"c": 3}]', '"c": 5, "odd": 1}]') for line in lines]
    assert not any(one.type == "lost-rows" for one in judge(FIRST, SECOND, odd).anomalies)


def test_where_deletes_are_forgotten_a_null_proves_nothing_and_a_later_value_does():
    short = change(500, 'alter-options k.t {"options": {"gc_grace_seconds": 1}}')
    null = insert(2000, '{"k": 1, "c": null}', node="n2")
    gone = delete(2500, columns='["v"]')
    (found,) = judge(short, FIRST, null, gone, SECOND, read('{"k": 1, "v": null, "c": 3}')).anomalies
    assert (found.evidence["columns"], found.evidence["examples"][0]["op"]) == (["c"], 13)


def test_a_value_of_which_a_field_is_null_is_one_that_was_written_over():
    first, later = '{"a": 1, "b": 2}', '{"a": 3, "b": 4}'
    found = judge_cells(first, later, '{"a": 1, "b": null}', cql_type="u").anomalies
    assert "overwritten" in [one.evidence["kind"] for one in found]
    assert "overwritten" not in [
        one.evidence["kind"] for one in judge_cells(first, later, '{"a": 3, "b": null}', cql_type="u").anomalies
    ]


@pytest.mark.parametrize("outcome", ["info timed out", "fail refused"])
def test_a_value_that_nobody_acknowledged_is_none_that_was_written_over(outcome):
    unsure = insert(1000, '{"k": 1, "v": "a", "c": 3}', outcome=outcome)
    assert [one for one in judge(unsure, SECOND, OLDER).anomalies if one.evidence["kind"] == "overwritten"] == []


@pytest.mark.parametrize(
    "cause",
    [
        pytest.param(
            change(4000, 'delete-row k.t {"where": {"k": 1}, "consistency": "QUORUM"}', outcome="info timed out"),
            id="perhaps deleted as a whole",
        ),
        pytest.param(change(4000, "rename-column k.t c>d", outcome="info timed out"), id="renamed"),
        pytest.param(delete(4000, outcome="info timed out"), id="perhaps deleted"),
    ],
)
def test_a_write_that_may_have_been_undone_is_not_owed(cause):
    verdict = judge(FIRST, SECOND, cause, OLDER)
    assert [one for one in verdict.anomalies if one.evidence.get("kind") == "overwritten"] == []
    assert [doubt.text for doubt in verdict.doubts if "an older value" in doubt.text] == []


def test_the_report_counts_cells_and_names_all_their_writes():
    again = insert(1500, '{"k": 1, "c": 3}', node="n2")
    other = [*insert(1600, '{"k": 2, "v": "b", "c": 4}'), *insert(3500, '{"k": 2, "c": 6}')]
    shown = '{"k": 1, "v": "a", "c": 3}, {"k": 2, "v": "b", "c": 4}'
    (found,) = judge(FIRST, again, other[:2], SECOND, other[2:], read(shown), read(shown, at=96_000)).anomalies
    assert found.evidence["lost"] == 2
    assert found.ops == (5, 7, 9, 11, 13)
    assert [(one["op"], one["read_op"]) for one in found.evidence["examples"]] == [
        (11, 15),
        (13, 15),
        (11, 17),
        (13, 17),
    ]
    assert "T1 = op 5:" in found.explanation
    assert "T2 = op 11:" in found.explanation


@pytest.mark.parametrize(
    "twin",
    [
        pytest.param(
            [FIRST, on_the_way(ROW), change(60_000, WHOLE[0].partition("invoke ")[2])], id="deleted afterwards"
        ),
        pytest.param(
            [FIRST, [WHOLE[0], WHOLE[1].replace("ok", "info timed out")], on_the_way(ROW)], id="perhaps deleted"
        ),
        pytest.param(
            [
                FIRST,
                change(2000, 'alter-keyspace k {"replication": {"class": "SimpleStrategy", "replication_factor": 2}}'),
                WHOLE,
                on_the_way(ROW),
            ],
            id="replicas moved",
        ),
        pytest.param(
            [FIRST, change(3000, 'truncate k.t {"where": {}, "consistency": "QUORUM"}'), on_the_way(ROW)],
            id="truncated, perhaps not everywhere yet",
        ),
        pytest.param(
            [FIRST, change(2000, 'cql k {"statement": "INSERT INTO k.t (k) VALUES (1)"}'), WHOLE, on_the_way(ROW)],
            id="free text",
        ),
    ],
)
def test_a_read_on_the_way_that_may_still_show_it_is_none(twin):
    verdict = judge(*twin, read(""))
    assert [doubt.text for doubt in verdict.doubts if "had taken away" in doubt.text] == []


def removed(at: int, node: str, number: int) -> list[str]:
    value = f'{{"operation": {number}, "nodes": ["{node}"], "parameters": {{"loses_disk": true}}, "becomes": {{"{node}": "left"}}}}'
    return [f"@{at} -- {node} invoke removenode {value}", f"@{at + 2} -- {node} ok removenode {value}"]


@pytest.mark.parametrize(
    ("disks", "valid"),
    [
        pytest.param([], False, id="none"),
        pytest.param([removed(5000, "n1", 0)], False, id="one of two copies"),
        pytest.param([removed(5000, "n1", 0), removed(6000, "n2", 1)], "unknown", id="both copies"),
        pytest.param([removed(96_000, "n1", 0), removed(97_000, "n2", 1)], False, id="after the read"),
    ],
)
@pytest.mark.parametrize("later", ["write", "delete"])
def test_an_older_value_may_be_of_replicas_that_lack_the_later_one_where_its_copies_were_taken_away(
    disks: list[list[str]], later: str, *, valid: object
) -> None:
    second = SECOND if later == "write" else delete(3000)
    before = [one for one in disks if not one[0].startswith("@9")]
    after = [one for one in disks if one not in before]
    assert judge(FIRST, second, *before, OLDER, *after).valid == valid
    newer = NEWER if later == "write" else EMPTY
    assert judge(FIRST, second, *before, newer, *after).valid is True
