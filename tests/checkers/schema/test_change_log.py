"""The log of changes: forks, lost entries and groups that fell apart; and all that only looks like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pytest
from histories import judged
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.checkers.schema.change_log import ChangeLog
from schemaquake.harness.model.verdict import Anomaly, Verdict

CREATE, DROP, OTHER = "CREATE TABLE k.t (a int, PRIMARY KEY (a))", "DROP TABLE k.t", "Starting new topology coordinator"
CALLS = (
    '-- info phase {"phase": "main", "state": "begins"}',
    "@1000 p0 n1 invoke create-table k.t a:int*",
    "@1010 p0 n1 ok",
    "@1020 p1 n2 invoke drop-table k.t",
    "@1030 p1 n2 ok",
)  # fmt: skip
FINAL = '@9000 -- info phase {"phase": "final-settled", "state": "begins"}'
LOG = ((10, OTHER), (20, CREATE), (30, DROP))
GROUP: Mapping[str, Any] = {"id": "g", "upgrade_state": "use_post_raft_procedures", "schema_version": None, "members": ["h1", "h2"], "voters": ["h1", "h2"], "nodes": {"h1": "normal", "h2": "normal"}, "topology": {"transition_state": None}}  # fmt: skip
PASSED, REFUSED = {"passed": True, "seconds": 0.1}, {"passed": False, "seconds": 8.0, "why": "ConnectionRefusedError"}


def told(
    phase_and_node: str,
    log: Sequence[tuple[int, str]] = LOG,
    *,
    barrier: Mapping[str, Any] = PASSED,
    group: Mapping[str, Any] = GROUP,
    cut: bool = False,
) -> list[str]:
    """The version and the log of one reading; statements are told as ScyllaDB describes them."""
    version = {"epoch": log[-1][0] if log else None, "group0": group, "barrier": barrier}
    changes = [
        [f"id{epoch}{text[:3]}", epoch, text if text == OTHER else f'CQL DDL statement: "{text}"']
        for epoch, text in log
    ]
    definition = {"changes": changes, "cut": cut}
    return [
        f"{phase_and_node} version v {orjson.dumps(version).decode()}",
        f"{phase_and_node} log {orjson.dumps(definition).decode()}",
    ]


def verdict(*readings: Sequence[str], history: Sequence[str] = (*CALLS, FINAL)) -> Verdict:
    return ChangeLog().check(judged(history, [line for reading in readings for line in reading]), limit_s=5)


def finding(*readings: Sequence[str], history: Sequence[str] = (*CALLS, FINAL)) -> Anomaly:
    (found,) = verdict(*readings, history=history).anomalies
    return found


def test_one_log_on_all_nodes_with_all_that_was_acknowledged_is_valid() -> None:
    found = verdict(told("settled n1,n2"), told("restarted n1,n2"))
    assert (found.valid, found.reason) == (True, None)
    assert found.figures["entries"] == {"settled": {"n1": 3, "n2": 3}, "restarted": {"n1": 3, "n2": 3}}
    assert found.figures["readings_after_a_barrier"] == found.figures["readings"] == 4


@pytest.mark.parametrize("epoch", ["7", "null"])
def test_a_system_that_keeps_no_log_and_showed_no_epoch_twice_is_not_judged(epoch: str) -> None:
    assert verdict([f'settled n1 version v {{"epoch": {epoch}}}']).judged_nothing


def test_versions_without_an_order_cannot_go_back() -> None:
    readings = ['settled n1,n2 version v {"epoch": null}', 'restarted n1,n2 version u {"epoch": null}']
    assert verdict(readings).judged_nothing


def test_a_node_that_was_not_read_makes_it_unknown() -> None:
    found = verdict(told("settled n1"), ["settled n2 error NoHostAvailable"])
    assert (found.valid, found.anomalies) == ("unknown", ())


# ── forked-log ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_entry_that_a_node_lacks_between_two_of_its_own_is_a_fork() -> None:
    found = finding(told("settled n1"), told("settled n2", (LOG[0], LOG[2]), barrier=REFUSED))
    assert found.type == "forked-log"
    assert found.nodes == ("n1", "n2")
    assert found.evidence["missing_count"] == {"settled": 1}
    assert "E1 = epoch 20, CQL DDL statement" in found.explanation
    assert "n2 has E2" in found.explanation


def test_two_entries_in_one_place_are_a_fork() -> None:
    readings = told("settled n1"), told("settled n2", (*LOG[:2], (30, "DROP TABLE k.u")), barrier=REFUSED)
    assert [found.type for found in verdict(*readings).anomalies] == ["forked-log", "forked-log"]


def test_a_log_that_ends_earlier_is_only_behind() -> None:
    assert verdict(told("settled n1"), told("settled n2", LOG[:2], barrier=REFUSED)).valid is True


def test_a_log_whose_old_entries_were_cleared_away_is_no_fork() -> None:
    assert verdict(told("settled n1"), told("settled n2", LOG[1:])).valid is True


def test_a_log_that_changes_over_a_restart_is_a_fork() -> None:
    readings = told("settled n1"), told("restarted n1", (LOG[0], LOG[2], (40, OTHER)), barrier=REFUSED)
    assert finding(*readings).type == "forked-log"


# ── forgotten-change ─────────────────────────────────────────────────────────────────────────────────────────────────


def running(at: int, node: str, epoch: int) -> list[str]:
    return [f'@{at} running {node} version v {{"epoch": {epoch}}}']


def test_a_node_that_goes_back_forgot_a_change() -> None:
    found = finding(running(2000, "n1", 30), running(2500, "n1", 20), told("settled n1,n2"))
    assert (found.type, found.nodes) == ("forgotten-change", ("n1",))
    assert "n1 showed epoch 20 at 2.500 s" in found.explanation


def test_a_node_that_was_started_in_between_may_be_behind() -> None:
    start = '@2400 -- n1 info node-start {"phase": "fault", "served": true, "seconds": 0.2}'
    calls = (*CALLS, start, FINAL)
    readings = running(2000, "n1", 30), running(2500, "n1", 20), told("settled n1,n2")
    assert verdict(*readings, history=calls).valid is True
    late = start.replace("@2400", "@2600")  # a start is noted when the node serves
    assert verdict(*readings, history=(*CALLS, late, FINAL)).valid is True
    assert verdict(*readings, history=(*CALLS, late.replace("n1", "n2"), FINAL)).valid is False


def test_a_node_under_a_fault_may_have_been_started() -> None:
    fault = (
        '@1500 -- info fault-begins {"id": 1, "nemesis": "kill", "nodes": ["n1"]}',
        '@3000 -- info fault-ends {"id": 1, "nemesis": "kill", "nodes": ["n1"]}',
    )
    readings = running(2000, "n1", 30), running(2500, "n1", 20), told("settled n1,n2")
    assert verdict(*readings, history=(*CALLS, *fault, FINAL)).valid is True


def test_after_a_barrier_a_node_knows_what_any_node_had_shown_before() -> None:
    calls = (CALLS[0], FINAL)
    readings = running(2000, "n2", 40), told("settled n1")
    found = finding(*readings, told("settled n2", (*LOG, (40, OTHER))), history=calls)
    assert (found.type, found.nodes) == ("forgotten-change", ("n1", "n2"))
    assert "after a read barrier" in found.explanation
    behind = told("settled n1", barrier=REFUSED)
    assert verdict(readings[0], behind, told("settled n2", (*LOG, (40, OTHER))), history=calls).valid is True


def test_what_was_shown_after_the_barriers_began_need_not_be_known() -> None:
    readings = running(9500, "n2", 40), told("settled n1"), told("settled n2", (*LOG, (40, OTHER)))
    assert verdict(*readings).valid is True


# ── epochs alone ─────────────────────────────────────────────────────────────────────────────────────────────────────

STARTED = '@15000 -- n1 info node-start {"phase": "restart", "served": true, "seconds": 0.2}'


def epochs(phase: str, **nodes: int) -> list[str]:
    """The version rows of one phase: epochs by node."""
    return [f'{phase} {node} version v{epoch} {{"epoch": {epoch}}}' for node, epoch in nodes.items()]


@pytest.mark.parametrize(
    ("readings", "nodes"),
    [
        pytest.param([epochs("settled", n1=7, n2=7), epochs("restarted", n1=7, n2=7)], (), id="the same"),
        pytest.param([epochs("settled", n1=7, n2=7), epochs("restarted", n1=8, n2=9)], (), id="later ones"),
        pytest.param(
            [epochs("settled", n1=7, n2=7), epochs("restarted", n1=6, n2=7)], ("n1",), id="one, over a restart"
        ),
        pytest.param([epochs("settled", n1=7, n2=7), epochs("restarted", n1=5, n2=5)], ("n1", "n2"), id="all alike"),
        pytest.param(
            [running(900, "n1", 8), epochs("settled", n1=7)], ("n1",), id="a final reading behind an early one"
        ),
        pytest.param(
            [running(900, "n1", 8), running(950, "n1", 7), epochs("settled", n1=9)], ("n1",), id="while it runs"
        ),
        pytest.param(
            [running(900, "n1", 8), running(950, "n2", 7), epochs("settled", n1=9, n2=9)], (), id="another node"
        ),
        pytest.param(
            [running(900, "n1", 8), epochs("restarted", n1=7)], ("n1",), id="over a restart, without a settled reading"
        ),
    ],
)
def test_an_epoch_that_goes_back_is_a_change_forgotten(readings: list[list[str]], nodes: tuple[str, ...]) -> None:
    found = verdict(*readings, history=(*CALLS, FINAL, STARTED))
    assert [one.type for one in found.anomalies] == ["forgotten-change"] * len(nodes)
    assert tuple(node for one in found.anomalies for node in one.nodes) == nodes
    assert found.valid is (not nodes)


def test_a_node_that_has_just_been_started_may_still_apply_its_epochs_while_the_run_goes_on() -> None:
    start = '@940 -- n1 info node-start {"phase": "fault", "served": true, "seconds": 0.02}'
    readings = [running(900, "n1", 8), running(950, "n1", 7), epochs("settled", n1=9, n2=9)]
    history = (start, *CALLS, FINAL)
    assert verdict(*readings, history=history).valid is True
    assert verdict(*readings, history=history[1:]).valid is False
    assert verdict(*readings[:2], epochs("settled", n1=7, n2=8), history=history).valid is False


def test_a_reading_that_failed_shows_no_epoch() -> None:
    readings = [epochs("settled", n1=7, n2=7), ["restarted n1 error NoHostAvailable"], epochs("restarted", n2=7)]
    assert verdict(*readings).anomalies == ()


# ── unlogged-change ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_acknowledged_change_that_a_node_lacks_after_a_barrier_is_unlogged() -> None:
    found = finding(told("settled n1"), told("settled n2", LOG[:2]), history=(*CALLS, FINAL))
    assert (found.type, found.nodes, found.ops, found.objects) == ("unlogged-change", ("n2",), (3,), ("k.t",))
    assert found.evidence == {"acknowledged": 1, "in_the_log": {"settled": {"n2": 0}}}
    assert "the log of n2 has 0 entries of that statement" in found.explanation


def test_a_barrier_that_the_conductor_saw_to_counts_as_one_that_the_reader_did() -> None:
    note = '@9001 -- info barriers {"phase": "settled", "nodes": {"n1": {"passed": true}, "n2": {"passed": %s}}}'
    readings = told("settled n1", barrier=REFUSED), told("settled n2", LOG[:2], barrier=REFUSED)
    assert finding(*readings, history=(*CALLS, FINAL, note % "true")).nodes == ("n2",)
    assert verdict(*readings, history=(*CALLS, FINAL, note % "false")).valid is True


def test_without_a_barrier_a_change_is_missed_only_where_nobody_has_it() -> None:
    behind = told("settled n1,n2", LOG[:2], barrier=REFUSED)
    found = finding(behind)
    assert (found.type, found.nodes, found.ops) == ("unlogged-change", ("n1", "n2"), (3,))
    one_has_it = told("settled n1", LOG[:2], barrier=REFUSED), told("settled n2", barrier=REFUSED)
    assert verdict(*one_has_it).valid is True


def test_without_a_barrier_nothing_is_missed_whose_coordinator_was_started_anew() -> None:
    start = '@1500 -- n2 info node-start {"phase": "fault", "served": true, "seconds": 0.2}'
    behind = told("settled n1,n2", LOG[:2], barrier=REFUSED)
    assert verdict(behind, history=(*CALLS, start, FINAL)).valid is True


@pytest.mark.parametrize("outcome", ["info OperationTimedOut", "fail concurrent modification", 'ok {"applied": false}'])
def test_a_change_that_was_not_acknowledged_need_not_be_logged(outcome: str) -> None:
    calls = (*CALLS[:4], f"@1030 p1 n2 {outcome}", FINAL)
    assert verdict(told("settled n1,n2", LOG[:2]), history=calls).valid is True


def test_a_statement_that_was_acknowledged_twice_stands_there_twice() -> None:
    again = ("@1040 p0 n1 invoke create-table k.t a:int*", "@1050 p0 n1 ok", FINAL)
    found = finding(told("settled n1,n2"), history=(*CALLS, *again))
    assert (found.type, found.ops) == ("unlogged-change", (1, 5))
    assert verdict(told("settled n1,n2", (*LOG, (40, CREATE))), history=(*CALLS, *again)).valid is True


def test_how_a_statement_is_spaced_does_not_matter() -> None:
    spaced = (LOG[0], (20, CREATE.replace(" ", "  ") + ";"), LOG[2])
    assert verdict(told("settled n1,n2", spaced)).valid is True


def test_a_log_that_names_no_statement_at_all_proves_nothing() -> None:
    found = verdict(told("settled n1,n2", (LOG[0],)))
    assert (found.valid, found.anomalies) == ("unknown", ())
    assert "names none of the statements" in str(found.reason)


@pytest.mark.parametrize("old", ["cut", "an hour"])
def test_what_may_be_older_than_the_log_is_not_missed(old: str) -> None:
    calls = CALLS if old == "cut" else (*CALLS, FINAL)
    readings = told("settled n1,n2", LOG[:2], cut=old == "cut")
    if old == "an hour":
        readings = [line.replace("settled", "@3000000 settled") for line in readings]
        calls = (*CALLS, FINAL.replace("@9000", "@2999000"))
    found = verdict(readings, history=calls)
    assert (found.valid, found.anomalies) == ("unknown", ())
    assert "may be older than the log" in str(found.reason)


def test_an_alter_keyspace_may_be_described_in_other_words() -> None:
    alter = ("@1040 p0 n1 invoke alter-keyspace k", "@1050 p0 n1 ok", FINAL)
    assert verdict(told("settled n1,n2"), history=(*CALLS, *alter)).valid is True


# ── divided-group ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_two_groups_are_a_division_with_and_without_barriers() -> None:
    for barrier in (PASSED, REFUSED):
        found = finding(told("settled n1"), told("settled n2", group={**GROUP, "id": "h"}, barrier=barrier))
        assert (found.type, found.nodes) == ("divided-group", ("n1", "n2"))
        assert found.evidence["settled"]["ids of the group"] == {"n1": "g", "n2": "h"}


OTHERS = [
    ({"members": ["h1"], "nodes": {}}, "members of the group"),
    ({"nodes": {"h1": "normal", "h2": "leaving"}, "topology": {"transition_state": "x"}}, "states of the ring's nodes"),
]


@pytest.mark.parametrize(("other", "what"), OTHERS, ids=[what for _, what in OTHERS])
def test_members_and_ring_are_compared_after_barriers_only(other: Mapping[str, Any], what: str) -> None:
    found = finding(told("settled n1"), told("settled n2", group={**GROUP, **other}))
    assert found.type == "divided-group"
    assert what in found.evidence["settled"]
    assert verdict(told("settled n1"), told("settled n2", group={**GROUP, **other}, barrier=REFUSED)).valid is True


def test_a_node_of_the_ring_that_is_no_member_is_a_stranger() -> None:
    stranger = {**GROUP, "nodes": {**GROUP["nodes"], "h3": "normal"}}
    found = finding(told("settled n1,n2", group=stranger))
    assert found.evidence["settled"] == {"nodes in the ring and in the group": {"n1": ["h3"], "n2": ["h3"]}}
    left = {**GROUP, "nodes": {**GROUP["nodes"], "h3": "left"}}
    moving = {**stranger, "topology": {"transition_state": "tablet migration"}}
    for clean in (
        left,
        moving,
        {key: GROUP[key] for key in ("id", "upgrade_state", "schema_version", "members", "voters")},
    ):
        assert verdict(told("settled n1,n2", group=clean)).valid is True


def test_a_group_that_is_not_in_use_makes_it_unknown() -> None:
    found = verdict(told("settled n1,n2", group={**GROUP, "upgrade_state": "recovery"}))
    assert (found.valid, found.anomalies) == ("unknown", ())
    assert "not in use on n1, which says recovery" in str(found.reason)


def test_a_node_that_does_not_tell_its_group_makes_it_unknown() -> None:
    found = verdict(told("settled n1"), told("settled n2", group={"error": "InvalidRequest: no such table"}))
    assert (found.valid, found.anomalies) == ("unknown", ())
    assert [(doubt.kind, "n2" in doubt.text) for doubt in found.doubts] == [("unread", True)]


def test_where_no_log_is_told_nothing_is_judged() -> None:
    untold = ['settled n1,n2 log {"error": "InvalidRequest: no such table"}']
    assert verdict(untold).judged_nothing


# ── for any log ──────────────────────────────────────────────────────────────────────────────────────────────────────

TABLES = st.integers(2, 12)


def run_of(
    tables: int, *, cleared: int = 0, behind: Mapping[str, int] | None = None
) -> tuple[list[str], list[list[str]]]:
    """Calls that make so many tables, one coordinator after another, and what three nodes tell in the end.

    Of each log the first `cleared` entries are gone; a node that is behind by some entries had no barrier.
    """
    calls: list[str] = []
    log: list[tuple[int, str]] = [(5, OTHER)]
    for number in range(tables):
        calls += [f"@{100 + 10 * number} p{number} n{1 + number % 3} invoke create-table k.t{number} a:int*",
                  f"@{105 + 10 * number} p{number} n{1 + number % 3} ok"]  # fmt: skip
        log.append((10 + number, f"CREATE TABLE k.t{number} (a int, PRIMARY KEY (a))"))
    kept = log[cleared:]
    readings = []
    for node in ("n1", "n2", "n3"):
        late = (behind or {}).get(node, 0)
        readings.append(told(f"settled {node}", kept[: len(kept) - late], barrier=REFUSED if late else PASSED))
    return [*calls, FINAL], readings


@given(tables=TABLES, late=st.dictionaries(st.sampled_from(["n1", "n2", "n3"]), st.integers(1, 2), max_size=2))
def test_copies_of_one_log_are_never_accused_however_far_they_reach(tables: int, late: dict[str, int]) -> None:
    calls, readings = run_of(tables, behind=late)
    assert verdict(*readings, history=calls).anomalies == ()


@given(tables=TABLES, data=st.data())
def test_whatever_entry_a_node_lost_from_the_middle_is_found(tables: int, data: st.DataObject) -> None:
    calls, readings = run_of(tables)
    lost = data.draw(st.integers(0, tables - 2))
    torn = [line if f"k.t{lost} " not in line else _without(line, f"k.t{lost} ") for line in readings[1]]
    found = {anomaly.type for anomaly in verdict(readings[0], torn, readings[2], history=calls).anomalies}
    assert found == {"forked-log", "unlogged-change"}


def _without(line: str, text: str) -> str:
    before, brace, after = line.partition("{")
    told_of = orjson.loads(brace + after)
    changes = [change for change in told_of["changes"] if text not in change[2]]
    return before + orjson.dumps({**told_of, "changes": changes}).decode()


# ── epochs that do not grow ──────────────────────────────────────────────────────────────────────────────────────────


def created(at: int, name: str, node: str = "n1", answer: str = "ok") -> list[str]:
    return [f"@{at} p{at} {node} invoke create-table k.{name} a:int*", f"@{at + 5} p{at} {node} {answer}"]


TWO = [*created(910, "x"), *created(920, "y")]


@pytest.mark.parametrize(
    ("history", "readings", "valid"),
    [
        pytest.param(TWO, [(900, 8), (950, 10)], True, id="an epoch for each change"),
        pytest.param(TWO, [(900, 8), (950, 12)], True, id="changes of others, too"),
        pytest.param(TWO, [(900, 8), (930, 9), (950, 9)], "unknown", id="too few"),
        pytest.param(TWO, [(900, 8), (924, 9), (950, 9)], True, id="answered before the second was acknowledged"),
        pytest.param(TWO, [(900, 8), (950, 9)], True, id="answered before it was recorded"),
        pytest.param(TWO, [(900, 8), (918, 9), (922, 9), (930, 9), (950, 9)], "unknown", id="over several readings"),
        pytest.param(TWO, [(912, 9), (930, 9), (950, 9)], "unknown", id="asked after the first reading alone"),
        pytest.param(TWO, [(912, 9), (950, 10)], True, id="one under way at the first reading"),
        pytest.param(TWO, [(900, 8), (922, 9)], True, id="one under way at the last reading"),
        pytest.param(
            [*TWO[:2], *created(920, "y", "n2")], [(900, 8), (950, 9)], True, id="acknowledged by another node"
        ),
        pytest.param(
            [*TWO[:2], *created(920, "y", answer="info no")], [(900, 8), (950, 9)], True, id="of unknown outcome"
        ),
        pytest.param(
            [*TWO[:2], "@920 p3 n1 invoke alter-options k.x comment=a", "@925 p3 n1 ok"],
            [(900, 8), (950, 9)],
            True,
            id="one that may change nothing",
        ),
        pytest.param(
            [*TWO[:2], '@920 p3 n1 invoke drop-table k.x {"if_exists": true}', '@925 p3 n1 ok {"applied": true}'],
            [(900, 8), (950, 9)],
            True,
            id="one that may take another's for its own",
        ),
    ],
)
def test_an_epoch_grows_by_every_change_that_its_node_acknowledged(
    history: Sequence[str], readings: Sequence[tuple[int, int]], valid: object
) -> None:
    shown = [running(at, "n1", epoch) for at, epoch in readings]
    found = verdict(*shown, epochs("settled", n1=90, n2=90), history=(*history, FINAL))
    assert (found.anomalies, found.valid) == ((), valid), found.doubts
