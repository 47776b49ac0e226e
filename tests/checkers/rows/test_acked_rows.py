"""Acknowledged rows: the smallest loss of every kind, and its twin that is legal."""

from __future__ import annotations

import pyarrow as pa
import pytest
from examples import examples
from histories import events, judged, with_other_names
from hypothesis import given, settings
from hypothesis import strategies as st

from schemaquake.checkers.rows.acked_rows import AckedRows
from schemaquake.checkers.rows.same_values import same_value
from schemaquake.harness.model.records import HISTORY, Records
from schemaquake.harness.model.verdict import Verdict
from schemaquake.harness.registry import load

SETUP = (
    "@1 p90 n1 invoke create-keyspace k",
    "@2 p90 n1 ok",
    "@3 p91 n1 invoke create-table k.t k:int* v:text c:int d:double",
    "@4 p91 n1 ok",
)
EVERYWHERE = ("@1 settled n1,n2,n3 keyspace k",)
"""The reading comes before the reads of the rows."""
ROW = '{"k": 1, "v": "a"}'


def insert(
    at: int, row: str = ROW, *, consistency: str = "QUORUM", phase: str = "racing", outcome: str = "ok"
) -> list[str]:
    value = f'{{"row": {row}, "consistency": "{consistency}", "phase": "{phase}"}}'
    return [f"@{at} p{at} n1 invoke insert k.t {value}", f"@{at + 1} p{at} n1 {outcome}"]


def read(
    at: int,
    rows: str | None,
    *,
    node: str = "n1",
    consistency: str = "ALL",
    phase: str = "settled",
    columns: str = '["k", "v"]',
    where: str = "{}",
) -> list[str]:
    """A read that shows these rows; None: it failed."""
    value = f'"consistency": "{consistency}", "phase": "{phase}", "columns": {columns}, "where": {where}'
    end = "fail ReadFailure: 1 failure" if rows is None else f'ok {{"rows": [{rows}]}}'
    return [f"@{at} p{at} {node} invoke read-rows k.t {{{value}}}", f"@{at + 1} p{at} {node} {end}"]


def judge(*lines: list[str], setup: tuple[str, ...] = SETUP, limit_s: float = 5) -> Verdict:
    return AckedRows().check(judged([*setup, *(text for line in lines for text in line)], EVERYWHERE), limit_s=limit_s)


def told(verdict: Verdict) -> list[tuple[str, str]]:
    return [(a.type, a.evidence["kind"]) for a in verdict.anomalies]


# ── gone with their table ────────────────────────────────────────────────────────────────────────────────────────────

TABLE_SHOWN = ("@1 settled n2 table k.t k:int* v:text c:int d:double",)


def dropped(at: int, outcome: str, *, what: str = "drop-table k.t") -> list[str]:
    return [f"@{at} p{at} n2 invoke {what}", f"@{at + 1} p{at} n2 {outcome}"]


@pytest.mark.parametrize(
    ("drop", "shown", "kinds"),
    [
        pytest.param(dropped(20, "info timed out"), (), [], id="a drop of unknown outcome, and no node has it"),
        pytest.param(dropped(20, "info timed out", what="drop-keyspace k"), (), [], id="with its keyspace"),
        pytest.param(dropped(20, "info timed out"), TABLE_SHOWN, ["unread"], id="a node has it still"),
        pytest.param(dropped(20, "fail InvalidRequest: no"), (), ["unread"], id="a refused drop"),
        pytest.param(dropped(20, "info timed out", what="drop-table k.u"), (), ["unread"], id="another table"),
        pytest.param([], (), ["unread"], id="no drop"),
    ],
)
def test_rows_of_a_table_that_a_drop_can_have_taken_are_looked_for_nowhere(drop, shown, kinds):
    lines = [*SETUP, *insert(10), *drop, *read(30, None)]
    verdict = AckedRows().check(judged(lines, [*EVERYWHERE, *shown]), limit_s=5)
    assert [doubt.kind for doubt in verdict.doubts if doubt.weighs] == kinds
    assert verdict.anomalies == ()


def test_rows_that_are_read_after_such_a_drop_are_judged():
    lines = [*SETUP, *insert(10), *dropped(20, "info timed out"), *read(30, "")]
    verdict = AckedRows().check(judged(lines, [*EVERYWHERE, *TABLE_SHOWN]), limit_s=5)
    assert verdict.valid is not True


# ── lost ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_acknowledged_row_that_a_read_at_all_does_not_show_is_lost() -> None:
    verdict = judge(insert(10), read(30, ""))
    assert told(verdict) == [("lost-rows", "missing")]
    assert verdict.anomalies[0].objects == ("k.t",)
    assert verdict.anomalies[0].ops == (2, 4)
    assert verdict.anomalies[0].evidence["written"] == [
        {"phase": "racing", "consistency": "QUORUM", "lost": 1, "of": 1}
    ]


DELETED = ['@15 p15 n2 invoke delete-row k.t {"where": {"k": 1}, "consistency": "QUORUM"}', "@16 p15 n2 info Timeout"]


@pytest.mark.parametrize(
    ("lines", "rows", "valid"),
    [
        pytest.param([insert(10)], "", "unknown", id="lacks it"),
        pytest.param([insert(10)], ROW, True, id="lists it"),
        pytest.param([insert(10, consistency="ONE")], "", True, id="at levels that need not share a replica"),
        pytest.param([insert(21)], "", True, id="was answered while the row was written"),
        pytest.param([insert(10), DELETED], "", True, id="lacks a row that may have been deleted"),
    ],
)
@pytest.mark.parametrize("where", ["{}", '{"k": 1}'])
def test_a_read_while_statements_race_lists_what_must_be_there(
    lines: list[list[str]], rows: str, valid: bool | str, where: str
) -> None:
    on_the_way = read(22, rows, consistency="QUORUM", phase="racing", where=where)
    assert judge(*lines, on_the_way, read(40, ROW)).valid == valid


def test_a_read_while_statements_race_says_nothing_of_another_key_or_of_a_table_that_may_have_been_dropped() -> None:
    elsewhere = read(22, "", consistency="QUORUM", phase="racing", where='{"k": 2}')
    assert judge(insert(10), elsewhere, read(40, ROW)).valid is True
    on_the_way = read(22, "", consistency="QUORUM", phase="racing")
    assert judge(insert(10), dropped(15, "info timed out"), on_the_way, read(40, ROW)).valid is True


def test_a_row_that_is_read_is_not_lost() -> None:
    assert judge(insert(10), read(30, ROW)).valid is True


def test_a_row_that_nobody_vouched_for_may_be_missing_or_there() -> None:
    assert judge(insert(10, outcome="info"), read(30, "")).valid is True
    assert judge(insert(10, outcome="info"), read(30, ROW)).valid is True


def test_a_row_that_was_refused_is_missing_and_in_doubt_where_it_is_there() -> None:
    assert judge(insert(10, outcome="fail"), read(30, "")).valid is True
    assert judge(insert(10, outcome="fail"), read(30, ROW)).valid == "unknown"


def test_rows_of_one_table_are_one_finding() -> None:
    verdict = judge(insert(10), insert(12, '{"k": 2, "v": "b"}', consistency="ONE"), read(30, '{"k": 3, "v": "x"}'))
    assert told(verdict) == [("lost-rows", "missing"), ("resurrected-rows", "nobody wrote it")]
    assert verdict.anomalies[0].evidence["lost"] == 2
    assert "2 of 2 acknowledged rows of k.t" in verdict.anomalies[0].explanation


def test_a_read_that_began_before_the_write_ended_need_not_show_it() -> None:
    assert judge(insert(10), read(11, ""), read(30, ROW)).valid is True


def test_a_row_written_at_one_must_be_read_at_all_but_not_at_quorum() -> None:
    assert told(judge(insert(10, consistency="ONE"), read(30, ""))) == [("lost-rows", "missing")]
    verdict = judge(insert(10, consistency="ONE"), read(30, "", consistency="QUORUM"))
    assert verdict.valid == "unknown"
    assert [(doubt.kind, doubt.objects) for doubt in verdict.doubts] == [("unread", ("k.t",))]


def test_a_row_written_at_quorum_must_be_read_at_quorum() -> None:
    where = '{"k": 1}'
    assert told(judge(insert(10), read(30, "", consistency="QUORUM", where=where))) == [("lost-rows", "missing")]
    assert judge(insert(10), read(30, ROW, consistency="QUORUM", where=where)).valid is True


def test_a_row_that_was_asked_for_again_until_it_was_written_is_one_row() -> None:
    again = [*insert(10, outcome="fail InvalidRequest: unconfigured table"), *insert(12, outcome="info"), *insert(14)]
    assert told(judge(again, read(30, ""))) == [("lost-rows", "missing")]
    assert judge(again, read(30, ROW)).valid is True


def test_whoever_asks_whether_a_table_is_known_has_written_nothing_to_it() -> None:
    asked = ['@5 p5 n2 invoke know-table k.t {"table": "t", "key": "k"}', "@6 p5 n2 ok"]
    verdict = judge(asked, insert(10), read(30, ROW, node="n2"), read(32, '{"k": 3, "v": "x"}'))
    assert ("resurrected-rows", "nobody wrote it") in told(verdict)


def test_a_read_of_another_key_says_nothing() -> None:
    verdict = judge(insert(10), read(30, "", consistency="QUORUM", where='{"k": 2}'))
    assert verdict.valid == "unknown"


REMOVALS = {
    "drop-table": ("drop-table k.t", "ok"),
    "drop-keyspace": ("drop-keyspace k", "ok"),
    "drop of its only column": ("drop-column k.t v", "ok"),
    "delete": ('delete-row k.t {"where": {"k": 1}, "consistency": "QUORUM"}', "ok"),
}
DOUBTS = {
    "drop-table of unknown outcome": ("drop-table k.t", "info"),
    "drop-keyspace of unknown outcome": ("drop-keyspace k", "info"),
    "replication": (
        'alter-keyspace k {"replication": {"class": "SimpleStrategy", "replication_factor": 1}}',
        "ok",
    ),
    "renamed key": ("rename-column k.t k>l", "ok"),
    "free text": ('cql k.t {"statement": "TRUNCATE k.t"}', "ok"),
}
NO_EXCUSES = {
    "the same replication": ("alter-keyspace k", "ok"),
    "time to live of a day": ("alter-options k.t default_time_to_live=86400", "ok"),
    "another option": ("alter-options k.t comment=x", "info"),
    "another table": ("drop-table k.s", "info"),
    "another keyspace": ("drop-keyspace l", "info"),
    "another column": ("drop-column k.t c", "info"),
    "another name": ("rename-column k.t c>e", "info"),
}
BEFORE = ["drop-table", "drop-keyspace", "drop of its only column", "delete"]


@pytest.mark.parametrize("name", REMOVALS)
def test_what_may_have_been_removed_since_is_not_lost(name: str) -> None:
    removal, outcome = REMOVALS[name]
    assert judge(insert(10), [f"@11 p1 n2 invoke {removal}", f"@20 p1 n2 {outcome}"], read(30, "")).valid is True


@pytest.mark.parametrize("name", DOUBTS)
def test_what_may_or_may_not_have_been_removed_is_in_doubt_where_it_is_lost(name: str) -> None:
    removal, outcome = DOUBTS[name]
    asked = [f"@11 p1 n2 invoke {removal}", f"@20 p1 n2 {outcome}"]
    lost = judge(insert(10), asked, read(30, ""))
    assert (lost.valid, [doubt.kind for doubt in lost.doubts]) == ("unknown", ["undecided"])
    assert judge(insert(10), asked, read(30, ROW)).valid is True


@pytest.mark.parametrize("name", NO_EXCUSES)
def test_what_cannot_have_removed_a_row_excuses_no_loss(name: str) -> None:
    change, outcome = NO_EXCUSES[name]
    asked = [f"@11 p1 n2 invoke {change}", f"@20 p1 n2 {outcome}"]
    assert told(judge(insert(10), asked, read(30, ""))) == [("lost-rows", "missing")]


def test_a_time_to_live_that_may_be_over_explains_a_loss() -> None:
    option = ["@5 p1 n2 invoke alter-options k.t default_time_to_live=1", "@6 p1 n2 ok"]
    assert told(judge(option, insert(10), read(900, ""))) == [("lost-rows", "missing")]
    assert judge(option, insert(10), read(1010, "")).valid is True
    assert told(judge(insert(3), option, read(1010, ""))) == [("lost-rows", "missing")]


def test_a_cell_that_was_written_over_does_not_come_back_when_the_later_one_expires() -> None:
    option = ["@14 p1 n2 invoke alter-options k.t default_time_to_live=1", "@15 p1 n2 ok"]
    null = read(1200, '{"k": 1, "v": null}')
    assert judge(insert(10), option, insert(20, '{"k": 1, "v": "b"}'), null).valid is True
    assert told(judge(insert(10), option, null)) == [("lost-rows", "changed")]


def test_a_row_that_was_written_over_is_gone_when_the_later_one_expires() -> None:
    option = ["@14 p1 n2 invoke alter-options k.t default_time_to_live=1", "@15 p1 n2 ok"]
    again = insert(20, '{"k": 1, "v": "b"}')
    assert judge(insert(10), option, again, read(1200, "")).valid is True
    for kept in (
        insert(10, '{"k": 1, "v": "a", "c": 1}'),  # a cell that the later one leaves alone
        insert(16),  # it expires, too, but later than it is read
    ):
        assert told(judge(kept, option, again, read(1010, ""))) == [("lost-rows", "missing")]
    for other in (
        insert(20, '{"k": 2, "v": "b"}'),
        insert(20, outcome="fail"),
        [line.replace('{"row"', '{"form": "update", "row"') for line in again],  # leaves the row's marker alone
    ):
        assert told(judge(insert(10), option, other, read(1200, ""))) == [("lost-rows", "missing")]


def test_replicas_that_had_moved_before_the_cluster_settled_excuse_no_later_row() -> None:
    moved = [
        '@11 p1 n2 invoke alter-keyspace k {"replication": {"class": "SimpleStrategy", "replication_factor": 1}}',
        "@12 p1 n2 ok",
    ]
    assert judge(moved, insert(20), read(30, "")).valid == "unknown"
    late = insert(20, phase="settled")
    assert told(judge(moved, late, read(30, ""))) == [("lost-rows", "missing")]


def test_a_drop_of_unknown_outcome_excuses_nothing_once_every_process_has_ended() -> None:
    drop = ["@12 p1 n2 invoke drop-table k.t", "@13 p1 n2 info"]
    boots = [f'@0 -- {n} info node-start {{"phase": "boot", "served": true}}' for n in ("n1", "n2", "n3")]
    starts = [f'@50 -- {n} info node-start {{"phase": "restart", "served": true}}' for n in ("n1", "n2", "n3")]
    late = read(70, "", phase="restarted")
    assert told(judge(boots, insert(10), drop, starts, late)) == [("lost-rows-after-restart", "missing")]
    assert judge(boots, insert(10), drop, starts[1:], late).valid == "unknown"


def test_a_drop_of_unknown_outcome_and_a_create_after_it_explain_a_loss() -> None:
    drop = ["@12 p1 n2 invoke drop-table k.t", "@13 p1 n2 info"]
    again = ["@14 p2 n2 invoke create-table k.t k:int* v:text", "@15 p2 n2 ok"]
    assert judge(insert(10), drop, again, read(30, "")).valid is True


# ── clocks ───────────────────────────────────────────────────────────────────────────────────────────────────────────

DELETE = ['@5 p1 n2 invoke delete-row k.t {"where": {"k": 1}, "consistency": "QUORUM"}', "@6 p1 n2 ok"]


def skewed(at: int, node: str, seconds: float) -> list[str]:
    value = f'{{"id": {at}, "nemesis": "x", "nodes": ["{node}"], "parameters": {{"offsets": {{"{node}": {seconds}}}}}}}'
    return [f"@{at} -- info fault-begins {value}", f'@{at} -- info fault-ends {{"id": {at}}}']


def test_a_row_that_a_delete_of_a_fast_clock_hides_is_in_doubt() -> None:
    for node, shift in (("n2", 1.0), ("n1", -1.0), ("n2", 0.005)):
        assert judge(skewed(4, node, shift), DELETE, insert(10), read(30, "")).valid == "unknown"
    for node, shift in (("n2", -1.0), ("n1", 1.0), ("n3", 5.0), ("n2", 0.003)):
        assert told(judge(skewed(4, node, shift), DELETE, insert(10), read(30, ""))) == [("lost-rows", "missing")]
    other = [line.replace('"k": 1', '"k": 2') for line in DELETE]
    assert told(judge(skewed(4, "n2", 1.0), other, insert(10), read(30, ""))) == [("lost-rows", "missing")]
    assert told(judge(DELETE, insert(10), skewed(12, "n2", 1.0), read(30, ""))) == [("lost-rows", "missing")]


def test_a_row_of_a_fast_clock_that_a_delete_does_not_hide_is_in_doubt() -> None:
    delete = [line.replace("@5", "@15").replace("@6", "@16") for line in DELETE]
    for node, shift in (("n1", 1.0), ("n2", -1.0)):
        assert judge(skewed(4, node, shift), insert(10), delete, read(30, ROW)).valid == "unknown"
    for node, shift in (("n2", 1.0), ("n1", -1.0), ("n3", 1.0)):
        assert told(judge(skewed(4, node, shift), insert(10), delete, read(30, ROW))) == [
            ("resurrected-rows", "removed")
        ]


@pytest.mark.parametrize("name", BEFORE)
def test_what_was_removed_before_explains_no_loss(name: str) -> None:
    removal, outcome = REMOVALS[name]
    anew = ["@7 p2 n2 invoke create-table k.t k:int* v:text", "@8 p2 n2 ok"]
    verdict = judge([f"@5 p1 n2 invoke {removal}", f"@6 p1 n2 {outcome}"], anew, insert(10), read(30, ""))
    assert told(verdict) == [("lost-rows", "missing")]


@pytest.mark.parametrize("removal", ["drop-table k.t", "drop-keyspace k"])
def test_what_is_written_to_a_table_that_nobody_made_again_need_not_stay(removal: str) -> None:
    assert judge([f"@5 p1 n2 invoke {removal}", "@6 p1 n2 ok"], insert(10), read(30, None)).valid is True


@pytest.mark.parametrize(
    "removal", ["drop-table k.t", "drop-column k.t c", 'delete-row k.t {"where": {"k": 2}, "consistency": "QUORUM"}']
)
def test_a_removal_that_failed_or_concerns_another_explains_no_loss(removal: str) -> None:
    outcome = "fail" if removal == "drop-table k.t" else "ok"
    verdict = judge(insert(10), [f"@11 p1 n2 invoke {removal}", f"@20 p1 n2 {outcome}"], read(30, ""))
    assert told(verdict) == [("lost-rows", "missing")]


def ones(at: int, *shown: str | None) -> list[list[str]]:
    return [read(at + i, rows, node=f"n{i + 1}", consistency="ONE") for i, rows in enumerate(shown)]


def test_a_row_that_no_node_has_is_lost_although_no_read_at_all_succeeded() -> None:
    verdict = judge(insert(10, consistency="ONE"), *ones(30, "", "", ""), read(50, None))
    assert told(verdict) == [("lost-rows", "missing")]
    assert verdict.anomalies[0].nodes == ("n1", "n2", "n3")


def test_a_node_that_has_it_or_did_not_answer_may_be_the_one() -> None:
    assert judge(insert(10, consistency="ONE"), *ones(30, "", ROW, ""), read(50, None)).valid is True
    assert judge(insert(10, consistency="ONE"), *ones(30, "", None, ""), read(50, None)).valid == "unknown"
    assert judge(insert(10, consistency="ONE"), *ones(30, "", ""), read(50, None)).valid == "unknown"


def test_where_not_every_node_is_a_replica_reads_at_one_prove_no_loss() -> None:
    few = SETUP[0] + ' {"replication": {"class": "SimpleStrategy", "replication_factor": 2}}'
    verdict = judge(insert(10, consistency="ONE"), *ones(30, "", "", ""), setup=(few, *SETUP[1:]))
    assert verdict.valid == "unknown"


def test_a_loss_tells_which_nodes_still_hold_the_row() -> None:
    (found,) = judge(insert(10, consistency="ONE"), *ones(30, "", ROW, ""), read(50, "")).anomalies
    assert found.evidence["held_by"] == {"n2": 1}
    assert "n2 still shows 1" in found.explanation


def removed(at: int, node: str = "n2", *, outcome: str = "ok", number: int = 0, loses_disk: bool = True) -> list[str]:
    """The removal of a node with its disk."""
    parameters = '{"loses_disk": true}' if loses_disk else "{}"
    value = (
        f'{{"operation": {number}, "nodes": ["{node}"], "parameters": {parameters}, "becomes": {{"{node}": "left"}}}}'
    )
    return [f"@{at} -- {node} invoke removenode {value}", f"@{at + 2} -- {node} {outcome} removenode {value}"]


DISKS = {
    "none": ("QUORUM", [], "ALL", False),
    "one of two copies": ("QUORUM", [removed(15)], "ALL", False),
    "both copies": ("QUORUM", [removed(15), removed(18, "n3", number=1)], "ALL", "unknown"),
    "two of three copies": ("ALL", [removed(15), removed(18, "n3", number=1)], "ALL", False),
    "the only copy": ("ONE", [removed(15)], "ALL", "unknown"),
    "one of two, and two are asked that may have none": ("QUORUM", [removed(15)], "QUORUM", "unknown"),
    "one of three, and two are asked": ("ALL", [removed(15)], "QUORUM", False),
    "as the row was written": ("ONE", [removed(9)], "ALL", "unknown"),
    "of unknown outcome": ("ONE", [removed(15, outcome="info")], "ALL", "unknown"),
    "refused": ("ONE", [removed(15, outcome="fail")], "ALL", False),
    "its rows were handed over": ("ONE", [removed(15, loses_disk=False)], "ALL", False),
    "before the row was written": ("ONE", [removed(5)], "ALL", False),
}


@pytest.mark.parametrize("case", DISKS)
def test_a_disk_that_was_taken_away_may_have_had_a_copy_of_a_row(case: str) -> None:
    level, removals, asked, valid = DISKS[case]
    written = insert(10, consistency=level)
    early = [one for one in removals if one[0] in {removed(5)[0], removed(9)[0]}]
    late = [one for one in removals if one not in early]
    result = judge(*early, written, *late, read(30, "", consistency=asked))
    assert result.valid == valid
    assert told(result) == ([] if valid else [("lost-rows", "missing")])
    assert judge(*early, written, *late, read(30, ROW, consistency=asked)).valid is True
    # Each read must be explained: one at ALL asks whatever copy is left.
    both = judge(*early, written, *late, read(30, "", consistency=asked), read(40, "", consistency="ALL"))
    assert both.valid == ("unknown" if valid == "unknown" and asked == "ALL" else False)
    # What is taken away after the read is no reason for it.
    assert told(judge(*early, written, read(30, "", consistency=asked), removed(50))) == (
        [("lost-rows", "missing")] if not early or valid is False else []
    )


def test_all_nodes_that_are_read_at_one_may_lack_the_row_whose_only_copy_was_taken_away() -> None:
    for level, valid in (("ONE", "unknown"), ("QUORUM", False)):
        written = insert(10, consistency=level)
        assert judge(written, removed(15), *ones(30, "", "", ""), read(50, None)).valid == valid


def test_where_replicas_are_not_counted_any_disk_may_have_had_the_last_copy() -> None:
    centers = SETUP[0] + ' {"replication": {"class": "NetworkTopologyStrategy", "dc1": 3}}'
    for removals, valid in (([], False), ([removed(15)], "unknown")):
        assert judge(insert(10), *removals, read(30, ""), setup=(centers, *SETUP[1:])).valid == valid
        quorum = judge(insert(10), *removals, read(30, "", consistency="QUORUM"), setup=(centers, *SETUP[1:]))
        assert quorum.valid == valid


def test_a_null_in_place_of_a_value_may_be_of_replicas_that_lack_it_where_its_copies_were_taken_away() -> None:
    row, null = '{"k": 1, "v": "a", "c": 3}', '{"k": 1, "v": "a", "c": null}'
    columns = '["k", "v", "c"]'
    for level, valid in (("ONE", "unknown"), ("QUORUM", False)):
        written = insert(10, row, consistency=level)
        assert judge(written, removed(15), read(30, null, columns=columns)).valid == valid
        assert judge(written, removed(15), read(30, row, columns=columns)).valid is True
        other = row.replace("3", "9")
        assert judge(written, removed(15), read(30, other, columns=columns)).valid is False


def test_a_deleted_row_may_be_back_where_the_disks_that_knew_of_it_were_taken_away() -> None:
    delete = ['@12 p1 n2 invoke delete-row k.t {"where": {"k": 1}, "consistency": "QUORUM"}', "@13 p1 n2 ok"]
    two = [*removed(15), *removed(18, "n3", number=1)]
    for removals, valid in ((removed(15), False), (two, "unknown"), (removed(5), False)):
        early = removals if removals == removed(5) else []
        late = [] if early else removals
        assert judge(early, insert(10), delete, late, read(30, ROW)).valid == valid
        assert judge(early, insert(10), delete, late, read(30, "")).valid is True


def test_a_table_that_cannot_be_read_is_unknown_unless_it_may_be_gone() -> None:
    verdict = judge(insert(10), read(30, None))
    assert verdict.valid == "unknown"
    assert "ReadFailure: 1 failure" in (verdict.reason or "")
    assert judge(insert(10), ["@11 p1 n2 invoke drop-table k.t", "@20 p1 n2 ok"], read(30, None)).valid is True


# ── after a restart ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("settled", [ROW, None])
def test_a_row_that_was_there_or_could_not_be_read_is_lost_by_the_restart(settled: str | None) -> None:
    verdict = judge(insert(10), read(30, settled), read(60, "", phase="restarted"))
    assert told(verdict) == [("lost-rows-after-restart", "missing")]
    assert judge(insert(10), read(30, ROW), read(60, ROW, phase="restarted")).valid is True


def test_a_row_that_was_lost_before_the_restart_is_told_once() -> None:
    assert told(judge(insert(10), read(30, ""), read(60, "", phase="restarted"))) == [("lost-rows", "missing")]


def test_a_row_written_after_the_restart_was_not_lost_by_it() -> None:
    verdict = judge(read(30, ""), insert(50, phase="restarted"), read(60, "", phase="restarted"))
    assert told(verdict) == [("lost-rows", "missing")]


# ── changed ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_cell_that_reads_otherwise_is_a_loss() -> None:
    verdict = judge(insert(10), read(30, '{"k": 1, "v": "b"}'))
    assert told(verdict) == [("lost-rows", "changed")]
    assert verdict.anomalies[0].evidence["examples"][0]["read"] == "b"


def test_any_write_of_the_cell_explains_it() -> None:
    for outcome in ("ok", "info"):
        assert judge(
            insert(10), insert(12, '{"k": 1, "v": "b"}', outcome=outcome), read(30, '{"k": 1, "v": "b"}')
        ).valid


def test_a_null_counts_only_where_the_write_must_show() -> None:
    null = '{"k": 1, "v": null}'
    assert told(judge(insert(10), read(30, null))) == [("lost-rows", "changed")]
    assert judge(insert(10, consistency="ONE"), read(29, null, consistency="QUORUM"), read(30, ROW)).valid is True
    assert judge(insert(10, outcome="info"), read(30, null)).valid is True


def test_a_cell_nobody_wrote_is_null_and_so_is_one_that_may_be_dropped() -> None:
    columns = '["k", "v", "c"]'
    assert judge(insert(10), read(30, '{"k": 1, "v": "a", "c": null}', columns=columns)).valid is True
    drop = ["@11 p1 n2 invoke drop-column k.t c", "@20 p1 n2 info"]
    row, nulled = '{"k": 1, "v": "a", "c": 3}', '{"k": 1, "v": "a", "c": null}'
    assert judge(insert(10, row), drop, read(30, nulled, columns=columns)).valid is True
    assert told(judge(insert(10, row), read(30, nulled, columns=columns))) == [("lost-rows", "changed")]
    # What is there of a dropped column is what was written, also when it was added again.
    other = read(30, '{"k": 1, "v": "a", "c": 4}', columns=columns)
    assert told(judge(insert(10, row), drop, other)) == [("lost-rows", "changed")]
    assert judge(insert(10, row), drop, read(30, row, columns=columns)).valid is True


def remembered(way: str) -> tuple[str, ...]:
    return tuple(f'settled {node} version v {{"memory": "{way}"}}' for node in ("n1", "n2", "n3"))


@pytest.mark.parametrize("way", ["statements", "columns"])
@pytest.mark.parametrize("outcome", ["ok", "info"])
def test_a_row_of_cql_outlives_its_only_column_and_one_of_thrift_does_not(outcome: str, way: str) -> None:
    history = [
        *SETUP,
        *insert(10),
        "@11 p1 n2 invoke drop-column k.t v",
        f"@20 p1 n2 {outcome}",
        *read(30, "", columns='["k"]'),
    ]
    thrift = AckedRows().check(judged(history, EVERYWHERE), limit_s=5)
    assert not thrift.anomalies
    cql = AckedRows().check(judged(history, [*EVERYWHERE, *remembered(way)]), limit_s=5)
    assert told(cql) == [("lost-rows", "missing")]
    shown = [*history[:-2], *read(30, '{"k": 1}', columns='["k"]')]
    assert AckedRows().check(judged(shown, [*EVERYWHERE, *remembered(way)]), limit_s=5).valid is True


@pytest.mark.parametrize("way", ["statements", "columns"])
def test_a_row_of_an_update_goes_with_its_only_column(way: str) -> None:
    """It leaves no marker of its row."""
    update = [line.replace('"row"', '"form": "update", "row"') for line in insert(10)]
    dropped = ["@11 p1 n2 invoke drop-column k.t v", "@20 p1 n2 ok"]
    other = ["@11 p1 n2 invoke drop-column k.t c", "@20 p1 n2 ok"]
    for drop, kinds in ((dropped, []), (other, [("lost-rows", "missing")]), ([], [("lost-rows", "missing")])):
        history = [*SETUP, *update, *drop, *read(30, "", columns='["k"]' if drop == dropped else '["k", "v"]')]
        assert told(AckedRows().check(judged(history, [*EVERYWHERE, *remembered(way)]), limit_s=5)) == kinds
    beside = [*SETUP, *update, *insert(12), *dropped, *read(30, "", columns='["k"]')]
    (lost,) = AckedRows().check(judged(beside, [*EVERYWHERE, *remembered(way)]), limit_s=5).anomalies
    assert lost.evidence["lost"] == 1, "the marker of an INSERT stays"


def test_a_row_that_no_key_of_any_definition_explains_is_in_doubt() -> None:
    other = ["@5 p7 n2 invoke create-table k.t k:int* v:text+", "@6 p7 n2 info timed out"]
    strange = judge(insert(10), other, read(30, '{"k": 2, "v": "b"}'))
    assert [doubt.kind for doubt in strange.doubts] == ["undecided"]
    assert told(judge(insert(10), read(30, '{"k": 2, "v": "b"}, {"k": 1, "v": "a"}'))) == [
        ("resurrected-rows", "nobody wrote it")
    ]
    # By one of the keys, (k) or (k, v), an INSERT has it.
    assert judge(insert(10), other, read(30, '{"k": 1, "v": "a"}')).valid is True


def test_a_column_dropped_by_a_fast_clock_that_hides_later_cells_is_a_loss() -> None:
    again = ["@5 p1 n2 invoke drop-column k.t c", "@6 p1 n2 ok", "@7 p1 n2 invoke add-column k.t c:int", "@8 p1 n2 ok"]
    verdict = judge(again, insert(10, '{"k": 1, "c": 3}'), read(30, '{"k": 1, "c": null}', columns='["k", "c"]'))
    assert told(verdict) == [("lost-rows", "changed")]


def test_a_type_of_several_spellings_is_not_compared() -> None:
    columns = '["k", "d"]'
    verdict = judge(insert(10, '{"k": 1, "d": 0.1}'), read(30, '{"k": 1, "d": 0.10000000149}', columns=columns))
    assert verdict.valid is True


def test_one_field_read_as_another_is_a_loss_and_a_new_field_is_null() -> None:
    setup = (*SETUP[:2], "@3 p91 n1 invoke create-table k.t k:int* v:frozen<u>", "@4 p91 n1 ok")
    row = '{"k": 1, "v": {"a": 1, "f1": 11}}'
    other = '{"k": 1, "v": {"a": 1, "f2": 11}}'
    assert told(judge(insert(10, row), read(30, other), setup=setup)) == [("lost-rows", "changed")]
    grown = '{"k": 1, "v": {"a": 1, "f1": 11, "f2": null}}'
    assert judge(insert(10, row), read(30, grown), setup=setup).valid is True


@pytest.mark.parametrize(
    ("column", "valid"),
    [("v:text", False), ("v:list<text>", False), ("v:frozen<u>", True), ("v:map<int,frozen<u>>", True)],
)
@pytest.mark.parametrize("outcome", ["ok", "info"])
def test_a_renamed_field_excuses_cells_of_user_defined_types_alone(column: str, valid: bool, outcome: str) -> None:
    setup = (*SETUP[:2], f"@3 p91 n1 invoke create-table k.t k:int* {column}", "@4 p91 n1 ok")
    rename = ["@5 p92 n1 invoke rename-field k.u a>b", f"@6 p92 n1 {outcome}"]
    values = {"v:text": ('"a"', '"b"'), "v:list<text>": ('["a"]', '["b"]'), "v:frozen<u>": ('{"a": 1}', '{"b": 1}')}
    written, shown = values.get(column, ('[[1, {"a": 1}]]', '[[1, {"b": 1}]]'))
    verdict = judge(
        rename, insert(10, f'{{"k": 1, "v": {written}}}'), read(30, f'{{"k": 1, "v": {shown}}}'), setup=setup
    )
    assert verdict.valid is valid


@pytest.mark.parametrize(
    ("read_value", "written", "cql_type", "same"),
    [
        ([1, 2], [1, 2], "list<int>", True),
        ([2, 1], [1, 2], "list<int>", False),
        ([2, 1], [1, 2], "set<int>", True),
        (None, [], "list<int>", True),
        (None, 1, "int", False),
        ([{"a": 1, "b": None}], [{"a": 1}], "list<u>", True),
        ("1", 1, "int", False),
    ],
)
def test_values_are_the_same(read_value: object, written: object, cql_type: str, same: bool) -> None:
    assert same_value(read_value, written, cql_type=cql_type) is same


# ── revived and unwritten ────────────────────────────────────────────────────────────────────────────────────────────

DROP = ["@12 p1 n2 invoke drop-table k.t", "@13 p1 n2 ok"]
ANEW = ["@14 p1 n2 invoke create-table k.t k:int* v:text", "@15 p1 n2 ok"]


def test_a_row_of_a_former_life_of_its_table_is_resurrected() -> None:
    verdict = judge(insert(10), DROP, ANEW, read(30, ROW, consistency="ONE"))
    assert told(verdict) == [("resurrected-rows", "removed")]
    assert judge(insert(10), DROP, ANEW, read(30, "")).valid is True


def test_a_row_that_may_have_been_written_after_the_drop_is_not_resurrected() -> None:
    assert judge(insert(11), DROP, ANEW, read(30, ROW)).valid is True  # it ends as the DROP begins
    assert judge(insert(10), insert(20, outcome="info"), DROP, ANEW, read(30, ROW)).valid is True
    assert judge(insert(10, outcome="info"), DROP, ANEW, read(30, ROW)).valid is True


@pytest.mark.parametrize("outcome", ["info", 'ok {"applied": false}', "fail"])
def test_a_drop_that_may_have_done_nothing_resurrects_nothing(outcome: str) -> None:
    drop = ['@12 p1 n2 invoke drop-table k.t {"if_exists": true}', f"@13 p1 n2 {outcome}"]
    anew = [line.replace("p1", "p2") for line in ANEW]
    assert judge(insert(10), drop, anew, read(30, ROW)).valid is True


def test_a_table_that_was_not_created_anew_is_told_by_another_checker() -> None:
    assert judge(insert(10), DROP, read(30, ROW)).valid is True


def test_a_deleted_row_that_is_read_is_resurrected() -> None:
    delete = ['@12 p1 n2 invoke delete-row k.t {"where": {"k": 1}, "consistency": "QUORUM"}', "@13 p1 n2 ok"]
    assert told(judge(insert(10), delete, read(30, ROW))) == [("resurrected-rows", "removed")]
    assert judge(insert(10), delete, read(30, ROW, consistency="ONE")).valid is True


def test_replicas_that_had_to_take_no_part_in_a_delete_may_be_left_alone_with_the_row() -> None:
    """Three replicas of which two acknowledged the delete, and then one: perhaps the third."""
    fewer = '{"replication": {"class": "SimpleStrategy", "replication_factor": 1}}'
    moved = [f"@15 p1 n2 invoke alter-keyspace k {fewer}", "@16 p1 n2 info"]
    delete = ['@12 p1 n2 invoke delete-row k.t {"where": {"k": 1}, "consistency": "QUORUM"}', "@13 p1 n2 ok"]
    assert judge(insert(10), delete, moved, read(30, ROW)).valid == "unknown"
    everywhere = [line.replace("QUORUM", "ALL") for line in delete]
    assert told(judge(insert(10), everywhere, moved, read(30, ROW))) == [("resurrected-rows", "removed")]
    before = [line.replace("@15", "@5").replace("@16 p1 n2 info", "@6 p1 n2 ok") for line in moved]
    assert told(judge(before, insert(10), delete, read(30, ROW))) == [("resurrected-rows", "removed")]


def test_a_deletion_that_may_be_forgotten_resurrects_nothing() -> None:
    forget = ["@5 p1 n2 invoke alter-options k.t gc_grace_seconds=0", "@6 p1 n2 ok"]
    delete = ['@12 p1 n2 invoke delete-row k.t {"where": {"k": 1}, "consistency": "QUORUM"}', "@13 p1 n2 ok"]
    assert judge(forget, insert(10), delete, read(30, ROW)).valid is True


def test_a_row_nobody_wrote_is_resurrected() -> None:
    verdict = judge(read(30, ROW, consistency="ONE"))
    assert told(verdict) == [("resurrected-rows", "nobody wrote it")]
    other = ['@8 p1 n2 invoke cql k.t {"statement": "INSERT INTO k.t (k) VALUES (1)"}', "@9 p1 n2 ok"]
    assert judge(other, read(30, ROW)).valid == "unknown"


def test_rows_of_several_definitions_are_known_by_their_own_keys() -> None:
    setup = (
        *SETUP[:2],
        "@3 p91 n1 invoke create-table k.t a:int* x:int",
        "@3 p92 n2 invoke create-table k.t b:int* y:int",
        "@4 p91 n1 ok",
        "@4 p92 n2 ok",
    )
    columns = '["a", "x"]'
    verdict = judge(
        insert(10, '{"a": 1, "x": 0}'), insert(12, '{"b": 2, "y": 0}'), read(30, "", columns=columns), setup=setup
    )
    assert told(verdict) == [("lost-rows", "missing")]
    assert verdict.anomalies[0].evidence["lost"] == 1
    assert "1 of 2 acknowledged rows" in (verdict.reason or "")


# ── in general ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_any_row_there_is_nothing_to_judge() -> None:
    assert judge().judged_nothing


def test_the_time_limit_leaves_the_rest_unknown() -> None:
    other = [line.replace("k.t", "k.s") for line in insert(12)]
    verdict = judge(insert(10), other, read(30, ROW), limit_s=-1)
    assert verdict.valid == "unknown"
    assert "time limit" in (verdict.reason or "")


def test_it_is_registered() -> None:
    assert isinstance(load("checkers", "acked-rows"), AckedRows)


@st.composite
def histories(draw: st.DrawFn) -> list[str]:
    """Inserts, a possible drop and re-creation, and reads that show any part of what was written."""
    lines: list[list[str]] = []
    for at in range(10, 10 + 2 * draw(st.integers(1, 4)), 2):
        row = f'{{"k": {draw(st.integers(1, 3))}, "v": "{draw(st.sampled_from("ab"))}"}}'
        lines.append(insert(at, row, consistency=draw(st.sampled_from(["ONE", "QUORUM"]))))
    if draw(st.booleans()):
        lines += [DROP, ANEW]
    for at, phase in ((30, "settled"), (60, "restarted")):
        for i, level in enumerate(("ONE", "QUORUM", "ALL")):
            shown = draw(st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["a", "b"])), max_size=3))
            rows = ", ".join(f'{{"k": {k}, "v": "{v}"}}' for k, v in shown)
            rows_or_none = rows if draw(st.booleans()) else None
            lines.append(read(at + i, rows_or_none, node=f"n{i + 1}", consistency=level, phase=phase))
    return [*SETUP, *(text for line in lines for text in line)]


@settings(max_examples=examples(80), deadline=None)
@given(lines=histories(), choices=st.data())
def test_weakening_answers_to_info_never_turns_valid_into_invalid(lines: list[str], choices: st.DataObject) -> None:
    before = AckedRows().check(judged(lines, EVERYWHERE), limit_s=5)
    rows = events(*lines).to_pylist()
    last: dict[int, int] = {row["process"]: row["index"] for row in rows}
    for row in rows:
        # A process whose operation ended in info makes no other.
        if row["type"] in {"ok", "fail"} and last[row["process"]] == row["index"] and choices.draw(st.booleans()):
            row |= {"type": "info", "value": None, "error": "timed out"}
    weaker = Records.of(pa.Table.from_pylist(rows, schema=HISTORY), judged((), EVERYWHERE).observations)
    after = AckedRows().check(weaker, limit_s=5)
    assert {a.type for a in after.anomalies} <= {a.type for a in before.anomalies} | {"lost-rows-after-restart"}
    assert not (before.valid is not False and after.valid is False)


@settings(max_examples=examples(40), deadline=None)
@given(lines=histories())
def test_names_of_nodes_and_processes_and_keyspaces_mean_nothing(lines: list[str]) -> None:
    records = judged(lines, EVERYWHERE)
    other = with_other_names(records)
    one, two = (AckedRows().check(told, limit_s=5) for told in (records, other))
    assert one.valid == two.valid
    assert [(a.type, a.ops) for a in one.anomalies] == [(a.type, a.ops) for a in two.anomalies]
    assert [a.objects for a in two.anomalies] == [("other.t",)] * len(two.anomalies)


WIDE = (*SETUP[:2], "@3 p91 n1 invoke create-table k.t k:int* q:int+ v:text", "@4 p91 n1 ok")
WIDE_ROW = '{"k": 1, "q": 0, "v": "a"}'


def test_a_read_of_a_part_of_the_key_shows_a_row_that_nobody_wrote() -> None:
    part = {"columns": '["k"]'}
    written = insert(10, WIDE_ROW)
    assert judge(written, read(30, '{"k": 1}', **part), setup=WIDE).valid is True
    found = judge(written, read(30, '{"k": 1}, {"k": 2}', **part), setup=WIDE)
    assert told(found) == [("resurrected-rows", "nobody wrote it")]
    renamed = ["@5 p3 n1 invoke rename-column k.t k>z", "@6 p3 n1 info Timeout"]
    assert told(judge(renamed, written, read(30, '{"k": 1}, {"k": 2}', **part), setup=WIDE)) == []
    beside = ["@5 p3 n1 invoke rename-column k.t q>z", "@6 p3 n1 ok"]
    later = insert(10, '{"k": 1, "z": 0, "v": "a"}')
    assert judge(beside, later, read(30, '{"k": 1}', **part), setup=WIDE).valid is True
    assert judge(beside, later, read(30, '{"k": 1}, {"k": 2}', **part), setup=WIDE).valid == "unknown"


# ── a view of the table's name ───────────────────────────────────────────────────────────────────────────────────────

LOST_TABLE = (
    *("@1 p90 n1 invoke create-keyspace k", "@2 p90 n1 ok"),
    *("@3 p91 n1 invoke create-table k.t k:int* v:text", "@4 p91 n1 info"),
    *("@5 p92 n1 invoke create-table k.base k:int* c:int", "@6 p92 n1 ok"),
)
BASE_ROW = [line.replace("k.t", "k.base") for line in insert(10, '{"k": 7, "c": 1}')]


def make_view(at: int) -> list[str]:
    view = '{"base": "base", "primary_key": ["c", "k"]}'
    return [f"@{at} p93 n1 invoke create-view k.t {view}", f"@{at + 1} p93 n1 ok"]


def test_a_view_of_the_name_of_a_table_that_was_never_made_has_the_rows_of_its_base() -> None:
    seen = read(30, '{"k": 7}', columns='["k"]')
    base = [line.replace("k.t", "k.base").replace("p30", "p32") for line in read(30, '{"k": 7}', columns='["k"]')]
    assert judge(make_view(20), BASE_ROW, seen, base, setup=LOST_TABLE).valid is True
    assert told(judge(make_view(40), BASE_ROW, seen, setup=LOST_TABLE)) == [("resurrected-rows", "nobody wrote it")]
    assert told(judge(BASE_ROW, seen, setup=LOST_TABLE)) == [("resurrected-rows", "nobody wrote it")]


def test_a_view_of_the_tables_name_has_no_rows_that_its_base_never_had() -> None:
    strange = read(30, '{"k": 8}', columns='["k"]')
    assert told(judge(make_view(20), BASE_ROW, strange, setup=LOST_TABLE)) == [("resurrected-rows", "nobody wrote it")]


def test_a_key_of_a_dropped_table_that_the_base_has_as_well_is_in_doubt() -> None:
    dropped = ["@14 p94 n1 invoke drop-table k.t", "@15 p94 n1 ok"]
    again = ["@16 p95 n1 invoke create-table k.t k:int* v:text", "@17 p95 n1 ok", "@18 p96 n1 invoke drop-table k.t"]
    history = [insert(12, '{"k": 7, "v": "a"}'), dropped, again]
    seen = read(30, '{"k": 7}', columns='["k"]')
    assert told(judge(BASE_ROW, *history, seen, setup=LOST_TABLE)) == [("resurrected-rows", "removed")]
    assert judge(BASE_ROW, *history, make_view(20), seen, setup=LOST_TABLE).valid == "unknown"
