"""Replica sets: quorums that must meet, rows that are owed to replicas, and what operations and unknown outcomes allow."""

from __future__ import annotations

import orjson
import pytest
from bulk_rows import (
    CREATED,
    START,
    TOKENS,
    WIDER,
    altered,
    check,
    delete,
    found,
    operation,
    probes,
    rf_change,
    says,
    text,
    verdict,
    write,
)
from histories import judged
from ring_accounts import account

from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.topology.replica_sets import ReplicaSets

FIRST = write(1, ms=10)


def test_what_was_written_is_read():
    result = verdict(FIRST, check([0, 10, 1], ms=20))
    assert result.checker == "replica-sets"
    assert (result.valid, result.anomalies, result.doubts) == (True, (), ())


def test_nothing_is_judged_without_a_check_or_a_write():
    assert verdict(FIRST).valid == "unknown"
    assert verdict(check([], ms=20)).valid == "unknown"


@pytest.mark.parametrize(
    ("runs", "kinds"),
    [
        ([], [("missed-rows", 10)]),
        ([0, 9, 1], [("missed-rows", 1)]),
        ([0, 4, 1, 5, 5, 1], [("missed-rows", 1)]),
        ([0, 10, 1], []),
        ([0, 10, 9], [("unwritten-rows", 10)]),
        ([0, 11, 1], [("unwritten-rows", 1)]),
    ],
)
def test_a_quorum_shows_every_row_of_an_acknowledged_write_and_no_other(runs, kinds):
    assert found(FIRST, check(runs, ms=20)) == kinds


@pytest.mark.parametrize(
    ("second", "runs", "kinds"),
    [
        # An overwrite of rows 2 to 4.
        (write(2, ms=30, first=2, count=3), [0, 2, 1, 2, 3, 2, 5, 5, 1], []),
        (write(2, ms=30, first=2, count=3), [0, 10, 1], [("stale-rows", 3)]),
        (write(2, ms=30, first=2, count=3), [0, 2, 1, 2, 2, 2, 4, 6, 1], [("stale-rows", 1)]),
        (write(2, ms=30, first=2, count=3), [0, 2, 1, 5, 5, 1], [("missed-rows", 3)]),
        # A deletion of them.
        (delete(2, ms=30, first=2, count=3), [0, 2, 1, 5, 5, 1], []),
        (delete(2, ms=30, first=2, count=3), [0, 10, 1], [("undeleted-rows", 3)]),
        (delete(2, ms=30, first=2, count=3), [0, 2, 1, 6, 4, 1], [("missed-rows", 1)]),
        (write(2, ms=30, f="delete-partition"), [], []),
        (write(2, ms=30, f="delete-partition"), [3, 1, 1], [("undeleted-rows", 1)]),
        # Unknown: both are legal, row by row.
        (write(2, ms=30, first=2, count=3, outcome="info"), [0, 10, 1], []),
        (write(2, ms=30, first=2, count=3, outcome="info"), [0, 3, 1, 3, 1, 2, 4, 6, 1], []),
        (delete(2, ms=30, first=2, count=3, outcome="info"), [0, 3, 1, 4, 6, 1], []),
        # Refused: it did not happen.
        (write(2, ms=30, first=2, count=3, outcome="fail"), [0, 10, 1], []),
        (write(2, ms=30, first=2, count=3, outcome="fail"), [0, 2, 1, 2, 3, 2, 5, 5, 1], [("unwritten-rows", 3)]),
        (delete(2, ms=30, first=2, count=3, outcome="fail"), [0, 2, 1, 5, 5, 1], [("missed-rows", 3)]),
    ],
)  # fmt: skip
def test_later_writes_by_their_write_times(second, runs, kinds):
    assert found(FIRST, second, check(runs, ms=40)) == kinds


def test_an_earlier_write_time_loses_whenever_it_was_sent():
    late = write(1, ms=30, level="QUORUM")
    assert found(write(2, ms=10), late, check([0, 10, 2], ms=40)) == []
    assert found(write(2, ms=10), late, check([0, 10, 1], ms=40)) == [("stale-rows", 10)]


@pytest.mark.parametrize("ends_ms", [20, 25])
def test_a_write_that_is_acknowledged_while_the_check_goes_on_may_be_missed_or_shown(ends_ms):
    second = write(2, ms=15, ends_ms=ends_ms)
    for shown in (1, 2):
        assert found(FIRST, second, check([0, 10, shown], ms=20, ends_ms=30)) == []
    assert found(FIRST, second, check([0, 10, 1], ms=40)) == [("stale-rows", 10)]


@pytest.mark.parametrize(
    ("writes", "reads", "owed"),
    [
        ("QUORUM", "QUORUM", True),
        ("ONE", "ALL", True),
        ("ALL", "ONE", True),
        ("ONE", "QUORUM", False),
        ("QUORUM", "ONE", False),
    ],
)
def test_only_levels_that_share_a_replica_owe_anything(writes, reads, owed):
    assert found(write(1, ms=10, level=writes), check([], ms=20, level=reads)) == (
        [("missed-rows", 10)] if owed else []
    )


def test_one_request_made_twice_is_one_write():
    first = write(1, ms=10, outcome="info")
    again = [line.replace("p1 ", "p8 ") for line in write(1, ms=20)]
    assert found(first, again, check([0, 10, 1], ms=30)) == []
    assert found(first, again, check([], ms=30)) == [("missed-rows", 10)]
    assert found(first, check([], ms=30)) == []


def test_a_strange_row_is_named():
    result = verdict(FIRST, check([0, 10, 1], ms=20, strange=[[0, 5, 6, 7]]))
    assert [(one.type, one.evidence["rows"]) for one in result.anomalies] == [("unwritten-rows", 1)]


def test_an_operation_that_moves_ranges_takes_no_copy_away():
    joins = operation("bootstrap", {"n4": "normal"})
    assert found(FIRST, joins, check([], ms=300)) == [("missed-rows", 10)]
    (anomaly,) = verdict(FIRST, joins, check([], ms=150)).anomalies
    assert [(one["f"], one["under_way"]) for one in anomaly.evidence["operations"]] == [("bootstrap", True)]


@pytest.mark.parametrize(
    ("level", "reads", "owed"), [("QUORUM", "QUORUM", False), ("QUORUM", "ALL", True), ("ALL", "QUORUM", True)]
)
def test_a_lost_disk_takes_one_copy_away(level, reads, owed):
    removed = operation("removenode", {"n3": "left"}, loses_disk=True)
    missed = [("missed-rows", 10)] if owed else []
    assert found(write(1, ms=10, level=level), removed, check([], ms=300, level=reads)) == missed
    # Written after it: all copies are there.
    assert found(write(1, ms=250, level=level), removed, check([], ms=300, level=reads)) == [("missed-rows", 10)]
    refused = operation("removenode", {"n3": "left"}, "fail", loses_disk=True)
    assert found(write(1, ms=10, level=level), refused, check([], ms=300, level=reads)) == [("missed-rows", 10)]


ALL = [0, 10, 1]


@pytest.mark.parametrize(
    ("held", "level", "short"),
    [
        ({"n1": ALL, "n2": ALL, "n3": []}, "QUORUM", False),
        ({"n1": ALL, "n2": [], "n3": []}, "QUORUM", True),
        ({"n1": ALL, "n2": [], "n3": []}, "ONE", False),
        ({"n1": [], "n2": [], "n3": []}, "ONE", True),
        ({"n1": ALL, "n2": ALL, "n3": []}, "ALL", True),
        # One that was not asked may hold everything.
        ({"n1": ALL, "n2": []}, "QUORUM", False),
        ({"n1": [], "n2": []}, "QUORUM", True),
    ],
)
def test_replicas_hold_as_many_copies_as_were_acknowledged(held, level, short):
    kinds = [kind for kind, _ in found(write(1, ms=10, level=level), probes(held))]
    # A read at ONE must show what was acknowledged at ALL, too.
    assert kinds == ["missed-rows"] * (level == "ALL") + ["under-replicated-rows"] * short


@pytest.mark.parametrize("level", ["ALL", "QUORUM", "TWO"])
@pytest.mark.parametrize(("holders", "short"), [(1, True), (2, False)])
def test_what_more_replicas_answer_in_a_final_phase_is_not_what_the_coordinator_holds(level, holders, short):
    held = {node: ALL if number < holders else [] for number, node in enumerate(("n1", "n2", "n3"))}
    later = [check(ALL, ms=1100 + 10 * number, node=node, level=level) for number, node in enumerate(held)]
    assert found(FIRST, probes(held), *later) == ([("under-replicated-rows", 10)] if short else [])


@pytest.mark.parametrize(("ends_ms", "short"), [(999, True), (1000, False), (1001, False)])
def test_copies_are_owed_of_what_was_acknowledged_before_the_replicas_were_asked(ends_ms, short):
    held = {node: [] for node in ("n1", "n2", "n3")}
    late = write(1, ms=990, ends_ms=ends_ms)
    lines = sorted([*late, *probes(held)], key=lambda line: int(line[1:].split()[0]))
    assert found(lines) == ([("under-replicated-rows", 10)] if short else [])


@pytest.mark.parametrize("other", ["a", "z"])
def test_the_replication_of_another_keyspace_places_no_row_of_this_one(other):
    single = {"replication": {"class": "SimpleStrategy", "replication_factor": 1}}
    seen = [f"settled,restarted n1,n2,n3 keyspace {other} {text(single)}"]
    for held, short in (({"n1": ALL, "n2": ALL, "n3": []}, False), ({"n1": ALL, "n2": [], "n3": []}, True)):
        result = verdict(FIRST, probes(held), seen=seen)
        assert [one.type for one in result.anomalies] == ["under-replicated-rows"] * short
        assert result.doubts == ()


def test_only_the_replicas_that_follow_from_the_ring_count():
    """Four nodes, three copies: the fourth holds nothing, or asks the others."""
    four = ("n1", "n2", "n3", "n4")
    kinds = {}
    for empty in four:
        held = {node: [] if node == empty else ALL for node in four}
        found_there = found(write(1, ms=10, level="ALL"), probes(held), nodes=four)
        kinds[empty] = [kind for kind, _ in found_there if kind == "under-replicated-rows"]
    assert sorted(map(len, kinds.values())) == [0, 1, 1, 1]


def test_replicas_may_hold_a_later_write_or_a_later_deletion():
    newer = [0, 10, 2]
    assert found(FIRST, write(2, ms=20, level="ONE"), probes({"n1": newer, "n2": newer, "n3": []})) == []
    assert found(FIRST, delete(2, ms=20, level="ONE"), probes({"n1": ALL, "n2": [], "n3": []})) == []
    assert found(FIRST, write(2, ms=20), probes({"n1": newer, "n2": ALL, "n3": ALL})) == [("under-replicated-rows", 10)]
    assert found(FIRST, delete(2, ms=20), probes({"n1": [], "n2": ALL, "n3": ALL})) == [("under-replicated-rows", 10)]


def test_a_copy_may_be_on_the_disk_that_was_lost():
    removed = operation("replace", {"n3": "normal"}, loses_disk=True)
    assert found(FIRST, removed, probes({"n1": ALL, "n2": [], "n3": []})) == []
    assert found(FIRST, removed, probes({"n1": [], "n2": [], "n3": []})) == [("under-replicated-rows", 10)]


@pytest.mark.parametrize(
    ("factor", "writes", "reads", "before", "after"),
    [
        (2, "QUORUM", "QUORUM", True, True),
        (4, "QUORUM", "QUORUM", True, True),
        # One of two may be left, or one of three be asked that holds nothing yet.
        (1, "QUORUM", "QUORUM", False, False),
        (5, "QUORUM", "QUORUM", False, False),
        (2, "ONE", "ALL", False, True),
        (4, "ONE", "ALL", True, False),
        (2, "ALL", "ONE", True, False),
        (4, "ALL", "ONE", False, True),
        (2, "ALL", "QUORUM", True, True),
    ],
)
def test_a_read_may_have_gone_by_either_of_two_replication_factors(factor, writes, reads, before, after):
    """Nobody says when n2, which reads, hears of the change; n1 made it."""
    missed = [("missed-rows", 10)]
    early = [write(1, ms=10, level=writes), altered(factor), check([], ms=300, level=reads)]
    assert found(*early, factor=factor, start=WIDER) == (missed if before else [])
    late = [altered(factor, ms=5), write(1, ms=10, level=writes), check([], ms=300, level=reads)]
    assert found(*late, factor=factor, start=WIDER) == (missed if after else [])


@pytest.mark.parametrize(
    ("level", "holders", "owed"),
    [
        pytest.param("QUORUM", 2, True, id="three answers, of all nodes"),
        pytest.param("QUORUM", 3, False, id="all have it"),
        pytest.param("TWO", 1, True, id="two answers"),
        pytest.param("TWO", 2, False, id="as many as answered"),
        pytest.param("ONE", 1, False, id="one answer"),
    ],
)
def test_a_factor_above_the_number_of_nodes_has_a_replica_on_each(level, holders, owed):
    wide = [line.replace('"replication_factor": 3', '"replication_factor": 5') for line in CREATED]
    shown = probes({node: ALL if number < holders else [] for number, node in enumerate(("n1", "n2", "n3"))})
    lines = [START, *wide, *write(1, ms=10, level=level), *shown]
    result = ReplicaSets().check(judged(lines, says(("n1", "n2", "n3"), factor=5)), limit_s=5)
    assert ("under-replicated-rows" in {one.type for one in result.anomalies}) is owed
    # A node more, on which the third answer may have been.
    joined = operation("bootstrap", {"n4": "normal"}, ms=1, ends_ms=2)
    more = [START, *wide, *joined, *write(1, ms=10, level=level), *check([], ms=300, level="ONE")]
    assert ReplicaSets().check(judged(more, says(("n1", "n2", "n3"), factor=5)), limit_s=5).anomalies == ()


def test_a_read_at_one_shows_what_a_quorum_of_five_has_on_three_nodes():
    wide = [line.replace('"replication_factor": 3', '"replication_factor": 5') for line in CREATED]
    for level, is_owed in (("QUORUM", True), ("TWO", False)):
        lines = [START, *wide, *write(1, ms=10, level=level), *check([], ms=300, level="ONE")]
        found_types = [
            one.type
            for one in ReplicaSets().check(judged(lines, says(("n1", "n2", "n3"), factor=5)), limit_s=5).anomalies
        ]
        assert found_types == (["missed-rows"] if is_owed else [])


def test_an_alter_that_was_refused_or_asks_for_the_same_changes_no_quorum():
    for change in (altered(1, outcome="fail"), altered(3)):
        assert found(FIRST, change, check([], ms=300)) == [("missed-rows", 10)]


@pytest.mark.parametrize(
    ("factor", "holders", "short"),
    [
        (3, "n1", True),
        (3, "n1,n2", False),
        (4, "n1,n2", False),
        (4, "n1", True),
        (4, "", True),
        (2, "", True),
        (1, "", False),
    ],
)
def test_copies_are_counted_by_what_the_change_left(factor, holders, short):
    held = {name: ALL if name in holders.split(",") else [] for name in ("n1", "n2", "n3")}
    result = verdict(FIRST, altered(factor), probes(held), factor=factor)
    assert [one.type for one in result.anomalies] == (["under-replicated-rows"] if short else [])
    assert result.valid is not short


def test_copies_are_not_counted_where_nodes_place_rows_by_a_factor_that_was_not_the_last():
    held = {name: [] for name in ("n1", "n2", "n3")}
    result = verdict(FIRST, altered(2), probes(held), factor=3)
    assert (result.valid, result.anomalies) == ("unknown", ())
    assert any("contradicts the replication factors 3 and 2" in doubt.text for doubt in result.doubts)


UP_AND_DOWN = [rf_change(2, ms=100, number=1), rf_change(1, ms=200, number=2), rf_change(2, ms=300, number=3), rf_change(3, ms=400, number=4)]  # fmt: skip


def test_a_series_of_changes_with_their_repairs_leaves_every_promise_as_it_was():
    for read in (150, 250, 350, 450):
        steps = [step for step, ms in zip(UP_AND_DOWN, (100, 200, 300, 400), strict=True) if ms < read]
        last = {150: 2, 250: 1, 350: 2, 450: 3}[read]
        for shown, kinds in (([0, 10, 1], []), ([], [("missed-rows", 10)])):
            result = verdict(FIRST, *steps, check(shown, ms=read), factor=last)
            assert [(one.type, one.evidence["rows"]) for one in result.anomalies] == kinds
            assert result.valid is (not kinds)
    # Written in each period, and read in the last one.
    for written in (10, 150, 250, 350):
        late = [write(1, ms=written), *UP_AND_DOWN, check([], ms=450)]
        assert found(*late) == [("missed-rows", 10)]
        assert verdict(write(1, ms=written), *UP_AND_DOWN, check([0, 10, 1], ms=450)).valid is True


def test_what_a_repair_brought_is_on_all_replicas():
    held = {"n1": ALL, "n2": ALL, "n3": []}
    assert found(FIRST, *UP_AND_DOWN, probes(held)) == [("missed-rows", 10), ("under-replicated-rows", 10)]
    assert verdict(FIRST, *UP_AND_DOWN, probes(dict.fromkeys(held, ALL))).valid is True
    # Written while the last repair went on: two of three.
    assert verdict(*UP_AND_DOWN, write(1, ms=410), probes(held)).valid is True


DOWN_AND_UP = [rf_change(2, ms=100, number=1), rf_change(1, ms=200, number=2)]


@pytest.mark.parametrize(
    ("change", "valid"),
    [
        # A repair that failed brings nothing: one of two replicas has it, and a quorum of three may ask the others.
        (rf_change(3, ms=400, outcome="info", repaired="n1", failed="n2", number=4), True),
        (rf_change(3, ms=400, outcome="info", repaired="", number=4), True),
        # One by which a node was left out, or which began before a node knew, may have brought it.
        (rf_change(3, ms=400, repaired="n1,n2", number=4), "unknown"),
        (rf_change(3, ms=400, shown_by="n1,n2", number=4), "unknown"),
        (rf_change(3, ms=400, shown_by="", number=4), "unknown"),
        # One beside another operation, too.
        ([*rf_change(3, ms=400, number=4), *operation("move", {}, number=7, ms=405, ends_ms=407)], "unknown"),
        (rf_change(3, ms=400, number=4), False),
    ],
)
def test_a_repair_counts_if_all_nodes_knew_the_factor_and_were_repaired_alone(change, valid):
    """From one replica to three at once: only a repair brings what was on that one."""
    result = verdict(FIRST, *DOWN_AND_UP, change, check([], ms=500, node="n1"))
    assert result.valid == valid
    assert verdict(FIRST, *DOWN_AND_UP, change, check([0, 10, 1], ms=500, node="n1")).valid is True


def seen(*pairs, nodes="n1,n2,n3"):
    """Readings of the keyspace as the nodes showed it while the run went on: (ms, factor)."""
    return [
        f'@{ms} running#{ms} {nodes} keyspace k {{"replication": {{"class": "SimpleStrategy", "replication_factor": {factor}}}}}'
        for ms, factor in pairs
    ]


def test_a_node_that_showed_a_factor_goes_by_no_earlier_one():
    wide = [altered(5, ms=5), write(1, ms=60), check([], ms=300)]
    # n2 may still go by three, and ask two of them, of which one of the three of five has the rows.
    assert verdict(*wide, factor=5, start=WIDER).valid == "unknown"
    assert found(*wide, factor=5, start=WIDER, seen=seen((40, 5))) == [("missed-rows", 10)]
    right = [altered(5, ms=5), write(1, ms=60), check([0, 10, 1], ms=300)]
    assert verdict(*right, factor=5, start=WIDER, seen=seen((40, 5))).valid is True
    # Its process ended soon after: what it showed was perhaps not on its disk.
    died = ["@70 -- n2 info node-died {}"]
    assert verdict(wide[0], wide[1], died, wide[2], factor=5, start=WIDER, seen=seen((40, 5))).valid == "unknown"


def test_factors_that_nodes_show_in_another_order_are_of_no_order():
    """Two of three, one of two, and one of three again without a repair: a quorum need not show it, if that is what happened."""
    steps = [FIRST, altered(2), altered(3, ms=150, process=98)]
    strange = seen((120, 2), (170, 3), (200, 2), (220, 3))
    for shown, in_order, in_none in (([], True, "unknown"), ([0, 10, 1], True, True)):
        assert verdict(*steps, check(shown, ms=300), seen=seen((120, 2), (170, 3))).valid == in_order
        assert verdict(*steps, check(shown, ms=300), seen=strange).valid == in_none
    # Back from four to three takes away one that had nothing of it.
    up = [FIRST, altered(4), altered(3, ms=150, process=98), check([], ms=300)]
    assert verdict(*up, seen=seen((120, 4), (170, 3))).valid is False


def test_a_change_of_unknown_outcome_may_have_been_made_or_not():
    down = altered(1, outcome="info")
    # Two of three, then none of one, or two of three: a quorum need not show it. Nor need it after another change.
    assert verdict(FIRST, down, check([], ms=300)).valid == "unknown"
    assert (
        verdict(FIRST, down, altered(3, ms=200, process=98), check([], ms=300), seen=seen((90, 3))).valid == "unknown"
    )
    up = altered(4, outcome="info")
    assert found(FIRST, up, check([], ms=300)) == [("missed-rows", 10)]
    for shown in ([0, 10, 1],):
        assert verdict(FIRST, down, check(shown, ms=300)).valid is True
    # Copies: by whichever factor nodes show in the end.
    held = {"n1": ALL, "n2": [], "n3": []}
    assert found(FIRST, up, probes(held)) == [("under-replicated-rows", 10)]


def test_changes_that_overlap_are_of_no_order():
    first, second = altered(2, process=98), altered(4, ms=101, process=99)
    first[1] = "@110 p98 n1 ok"
    result = verdict(FIRST, first, second, check([], ms=300), factor=4)
    assert (result.valid, result.anomalies) == ("unknown", ())
    assert verdict(FIRST, first, second, check([0, 10, 1], ms=300), factor=4).valid is True
    (doubt,) = verdict(FIRST, first, second, check([], ms=300), check([0, 9, 1], ms=310), factor=4).doubts
    assert doubt.text.startswith("2 checks do not show what they had to by some of the replication factors")
    assert doubt.text.endswith("the first: op 9, row 0 of partition 0, after op 3")


NEWER = [0, 10, 2]
RESTART = ['@40000 -- info phase {"phase": "restart", "state": "begins"}']
OVERWRITTEN = [FIRST, write(2, ms=20)]
FOUR = ("n1", "n2", "n3", "n4")


def disowned(*parts):
    """Who is named for showing rows of a partition that it owns no copy of, in a ring of four nodes."""
    result = verdict(*parts, nodes=FOUR)
    return [one.nodes for one in result.anomalies if one.type == "disowned-rows"]


def test_exactly_one_of_four_nodes_owns_no_copy_and_is_named():
    held = dict.fromkeys(FOUR, NEWER)
    asked = {name: probes({name: ALL}, ms=50000, phase="restarted") for name in FOUR}
    named = {name: disowned(*OVERWRITTEN, probes(held), RESTART, asked[name]) for name in FOUR}
    (stranger,) = [name for name, found in named.items() if found]
    owner = next(name for name in FOUR if name != stranger)
    assert named[stranger] == [(stranger,)]

    def told(*, after=ALL, changed=None, writes=OVERWRITTEN, restart=RESTART, more=()):
        last = probes({stranger: after}, ms=50000, phase="restarted")
        return disowned(*writes, probes(held | (changed or {})), restart, last, more)

    assert told(after=NEWER) == []
    # What more replicas answer it afterwards does not excuse what it answered at ONE.
    assert all(
        told(more=check(NEWER, ms=50100, node=stranger, level=level)) == [(stranger,)] for level in ("ALL", "QUORUM")
    )
    # One owner had the earlier row, or none; rows that are gone may have been deleted.
    assert told(changed={owner: ALL}) == []
    assert told(changed={owner: []}) == []
    assert told(after=[]) == []
    # It held the earlier rows itself before, which is what is left of a range that moved away.
    assert told(changed={stranger: ALL}) == [(stranger,)]
    # Before the restart it had them, and it was not asked again.
    others = probes({owner: NEWER}, ms=50000, phase="restarted")
    assert disowned(*OVERWRITTEN, probes(held | {stranger: ALL}), RESTART, others) == []
    # Half of the rows were overwritten.
    half = [FIRST, write(2, ms=20, count=5)]
    part = [0, 5, 2, 5, 5, 1]
    assert told(writes=half, changed=dict.fromkeys(FOUR, part)) == [(stranger,)]
    assert told(writes=half, changed=dict.fromkeys(FOUR, part), after=part) == []
    # What was acknowledged just before the restart may be gone, and without a restart there was none.
    assert told(writes=[FIRST, write(2, ms=30000)]) == []
    assert told(writes=[FIRST, write(2, ms=24998)]) == [(stranger,)]
    assert told(writes=[FIRST, write(2, ms=24999)]) == []
    assert told(writes=[FIRST, write(2, ms=20, outcome="info")]) == []
    assert told(restart=[]) == []
    assert told(writes=[*OVERWRITTEN, altered(4, ms=30)]) == []


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2)])
@pytest.mark.parametrize("asked", FOUR)
def test_where_replicas_change_before_the_restart_nobody_is_held_to_what_was_shown_before(asked, before, after):
    held, last = probes(dict.fromkeys(FOUR, NEWER)), probes({asked: ALL}, ms=50000, phase="restarted")
    created = [line.replace('"replication_factor": 3', f'"replication_factor": {before}') for line in CREATED]
    lines = [
        START,
        *created,
        *(line for part in (*OVERWRITTEN, held, altered(after, ms=30000), RESTART, last) for line in part),
    ]
    shown = [*says(FOUR, phase="settled", factor=before), *says(FOUR, phase="restarted", factor=after)]
    result = ReplicaSets().check(judged(lines, shown), limit_s=5)
    assert "disowned-rows" not in {one.type for one in result.anomalies}
    assert not any("as older than before it" in doubt.text for doubt in result.doubts)


def test_replicas_before_the_restart_follow_from_the_ring_that_was_listed_then():
    moved = {node: {"address": f"10.0.0.{node[1:]}", "host_id": node, "tokens": TOKENS[other], "dc": "dc1", "rack": "r1"} for node, other in zip(FOUR, ("n2", "n3", "n4", "n1"), strict=True)}  # fmt: skip
    again = [account(node, FOUR, phase="restarted", **moved) for node in FOUR]
    shown = says(FOUR, phase="settled")
    for empty in FOUR:
        lines = [*write(1, ms=10, level="ALL"), *probes({node: [] if node == empty else ALL for node in FOUR})]
        one, other = (
            ReplicaSets().check(judged([START, *CREATED, *lines], rows), limit_s=5)
            for rows in (shown, [*shown, *again])
        )
        assert [each.type for each in one.anomalies] == [each.type for each in other.anomalies]


def doubts(*parts):
    return [doubt.text for doubt in verdict(*parts).doubts]


THREE = ("n1", "n2", "n3")


@pytest.mark.parametrize(
    ("before", "after", "writes", "rows"),
    [
        pytest.param(NEWER, NEWER, OVERWRITTEN, 0, id="the same"),
        pytest.param(NEWER, ALL, OVERWRITTEN, 10, id="older rows"),
        pytest.param(NEWER, [], OVERWRITTEN, 10, id="no rows"),
        pytest.param(NEWER, [0, 7, 2], OVERWRITTEN, 3, id="some rows are gone"),
        pytest.param(ALL, NEWER, OVERWRITTEN, 0, id="newer rows, by a hint or a repair"),
        pytest.param([], ALL, OVERWRITTEN, 0, id="rows that it lacked"),
        pytest.param(
            NEWER, [], [*OVERWRITTEN, write(3, ms=30, f="delete-rows", outcome="info")], 0, id="a deletion came"
        ),
        pytest.param(
            NEWER, [], [*OVERWRITTEN, write(3, ms=30, count=4, f="delete-rows", outcome="info")], 6, id="of four"
        ),
        pytest.param(
            NEWER, [], [*OVERWRITTEN, write(3, ms=30, f="delete-rows", outcome="fail")], 10, id="it was refused"
        ),
        pytest.param(
            NEWER, ALL, [*OVERWRITTEN, write(3, ms=30, f="delete-rows", outcome="info")], 10, id="not to older ones"
        ),
    ],
)
def test_a_replica_that_shows_less_after_the_restart_than_before_is_a_doubt(before, after, writes, rows):
    held, again = dict.fromkeys(THREE, NEWER) | {"n3": before}, dict.fromkeys(THREE, NEWER) | {"n3": after}
    result = verdict(*writes, probes(held), RESTART, probes(again, ms=50000, phase="restarted"))
    texts = [doubt.text for doubt in result.doubts if "as older than before it" in doubt.text]
    assert (result.anomalies, len(texts)) == ((), bool(rows))
    if rows:
        counted = f"replicas show {rows} rows after the restart as older than before it, or no more; the first: n3 row "
        assert texts[0].startswith(counted)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({}, {"rows": 9}),
        ({}, {"rows": 11}),
        ({}, {"rows": None}),
        ({"count": 2}, {}),
        ({}, {"runs": [[0, 5, 1, 4, 5, 1]]}),
        ({}, {"runs": [[5, 5, 1, 0, 5, 1]]}),
        ({}, {"runs": [[0, 10, 1, 10, 0, 1]]}),
        ({}, {"runs": [[0, 10, 0]]}),
        ({}, {"rows": 16, "strange": [[0, 1, 1, 1]] * 5, "runs": [[0, 12, 1]]}),
    ],
)
def test_a_check_that_contradicts_itself_is_a_doubt(asked, answer):
    question, end = check([0, 10, 1], ms=20)
    head, _, value = question.partition(" k.d ")
    found = {"rows": 10, "runs": [[0, 10, 1]]} | answer
    changed = [f"{head} k.d {text(orjson.loads(value) | asked)}", f"{end.split(' ok ')[0]} ok {text(found)}"]
    assert any("contradict themselves" in doubt for doubt in doubts(FIRST, changed))
    assert doubts(FIRST, [question, end]) == []


def test_of_several_checks_that_contradict_themselves_the_first_is_named():
    odd = [line.replace('"rows":10', '"rows":9') for line in (*check(ALL, ms=20), *check(ALL, ms=30))]
    (doubt,) = doubts(FIRST, odd)
    assert doubt == "2 checks contradict themselves in the rows that they name and count; the first is op 5"


def test_strange_rows_beyond_the_first_five_are_counted_and_not_named():
    question, end = check([0, 10, 1], ms=20, strange=[[0, 1, 1, 1]] * 5)
    more = end.replace('"rows":10', '"rows":17')
    assert more != end
    assert doubts(FIRST, [question, more]) == []


def other(lines, **changed):
    """The same write with other parts of its value, as another process asked for it; None: without that part."""
    head, _, value = lines[0].partition(" k.d ")
    parts = {name: part for name, part in (orjson.loads(value) | changed).items() if part is not None}
    return [f"{head} k.d {text(parts)}", lines[1]]


@pytest.mark.parametrize("changed", [{"pd": "17"}, {"pd": None}, {"lts": 1}])
def test_writes_that_contradict_one_another_are_a_doubt(changed):
    second = write(2, ms=30, first=2, count=3)
    assert doubts(FIRST, second, check([0, 2, 1, 2, 3, 2, 5, 5, 1], ms=40)) == []
    assert any("contradict one another" in doubt for doubt in doubts(FIRST, other(second, **changed), check([], ms=40)))


def test_a_replica_that_did_not_say_what_it_holds_is_a_doubt():
    held = {"n1": ALL, "n2": ALL, "n3": ALL}
    assert doubts(FIRST, probes(held)) == []
    del held["n3"]
    (doubt,) = doubts(FIRST, probes(held))
    assert "of partition 0 n3 did not answer" in doubt


def test_a_final_phase_without_a_read_of_single_replicas_is_a_doubt():
    plan = ['@0 -- info run-planned {"restart": "rolling"}']
    restarted = ['@1200 -- info phase {"phase": "final-restarted", "state": "begins"}']
    held = probes({"n1": ALL, "n2": ALL, "n3": ALL})
    assert doubts(plan, FIRST, held) == []
    (doubt,) = doubts(plan, FIRST, held, restarted)
    assert "no node was asked for the rows that it holds itself" in doubt
    assert doubts(FIRST, held, restarted) == [], "a run of 0.1 has no plan"


def test_it_vouches():
    assert ReplicaSets().vouches


def test_what_is_lacking_is_named():
    assert doubts(FIRST) == ["no check was answered"]
    assert doubts(check([], ms=20)) == ["no write was acknowledged"]


@pytest.mark.parametrize(("limit_s", "kinds"), [(5, []), (-1, ["time"])])
def test_checks_that_are_not_judged_in_time_are_one_doubt(limit_s, kinds):
    lines = [START, *CREATED, *FIRST, *check([], ms=20), *check([0, 10, 1], ms=30)]
    result = ReplicaSets().check(judged(lines, says(("n1", "n2", "n3"))), limit_s=limit_s)
    assert [doubt.kind for doubt in result.doubts] == kinds
    assert (result.valid is False) is not bool(kinds)
    assert [doubt.text for doubt in result.doubts] == ["2 of 2 checks are not judged" for _ in kinds]


def test_writes_checks_rows_and_levels_are_counted():
    checks = [check([[0, 10, 1], [0, 4, 3, 5, 2, 3]], ms=40), check([0, 10, 1], ms=50, level="ONE")]
    result = verdict(FIRST, write(3, ms=30, partition=1), *checks, check([0, 10, 1], ms=60))
    figures = {name: result.figures[name] for name in ("writes", "checks", "rows", "levels")}
    assert figures == {"writes": 2, "checks": 3, "rows": 36, "levels": {"ONE": 1, "QUORUM": 2}}


def test_a_finding_names_all_nodes_and_partitions_and_some_examples():
    writes = [FIRST, write(3, ms=30, partition=1)]
    result = verdict(*writes, check([[0, 10, 1], []], ms=40), check([[], [0, 10, 3]], ms=50, node="n3"))
    (missed,) = result.anomalies
    assert (missed.type, missed.nodes, missed.evidence["partitions"]) == ("missed-rows", ("n2", "n3"), [0, 1])
    assert [one["check"]["node"] for one in missed.evidence["examples"]] == ["n2", "n3"]
    for more in range(3):
        number = LIMITS.examples - 1 + more
        (missed,) = verdict(FIRST, *(check([], ms=40 + 2 * at) for at in range(number))).anomalies
        assert len(missed.evidence["examples"]) == min(number, LIMITS.examples)
        assert missed.evidence["rows"] == 10 * number


@pytest.mark.parametrize(
    ("ms", "moment"), [(50, ""), (99, ""), (100, "0"), (250, "0"), (299, "0"), (300, "settled"), (310, "settled")]
)
def test_a_finding_is_of_the_last_operation_that_had_begun_or_of_a_final_phase(ms, moment):
    joins = operation("bootstrap", {"n4": "normal"})
    settled = ['@300 -- info phase {"phase": "final-settled", "state": "begins"}']
    lines = sorted([*joins, *settled, *check([], ms=ms)], key=lambda line: int(line[1:].split()[0]))
    (missed,) = verdict(FIRST, lines, nodes=FOUR).anomalies
    assert (missed.type, missed.evidence["moment"]) == ("missed-rows", moment)


def test_a_strange_row_has_no_number_and_no_write_time():
    (strange,) = verdict(FIRST, check([0, 10, 1], ms=20, strange=[[0, 5, 6, 7]])).anomalies
    (example,) = strange.evidence["examples"]
    assert (example["row"], example["rows"], example["found"], example["write"]) == (-1, 1, None, None)


@pytest.mark.parametrize(("runs", "wrong"), [([0, 10, 9], ["unwritten-rows"]), ([0, 10, 1], [])])
def test_a_doubt_about_factors_is_of_a_partition_that_has_no_other_flaw(runs, wrong):
    first, second = altered(2, process=98), altered(4, ms=101, process=99)
    first[1] = "@110 p98 n1 ok"
    result = verdict(FIRST, write(3, ms=30, partition=1), first, second, check([runs, []], ms=300), factor=4)
    assert [one.type for one in result.anomalies] == wrong
    assert sum("row 0 of partition 1, after op" in doubt.text for doubt in result.doubts) == 1


@pytest.mark.parametrize(
    ("parts", "then", "but"),
    [
        (
            [check([], ms=40, level="ALL")],
            "acknowledged by 2 of 3 replicas before T2 asked 3, so they share one, and T2 must show T1 or a later write.",
            "T2 shows no such row in place of row 0 of partition 0.",
        ),
        (
            [write(2, ms=30), check([0, 10, 1], ms=40)],
            "acknowledged by 2 of 3 replicas before T2 asked 2, so they share one, and T2 must show T1 or a later write.",
            "T2 shows the row as the write of time 1 µs made it in place of row 0 of partition 0.",
        ),
        (
            [check([0, 11, 1], ms=40)],
            "a read shows only what was written.",
            "T1 shows row 10 of partition 0 with write time 1 µs, and no possible write made that.",
        ),
        (
            [check([0, 10, 9], ms=40)],
            "acknowledged by 2 of 3 replicas before T2 asked 2, so they share one, and T2 must show T1 or a later write.",
            "T2 shows the row as the write of time 9 µs made it in place of row 0 of partition 0.",
        ),
        (
            [check([0, 10, 9], ms=40, level="ONE")],
            "a read shows only what was written.",
            "T1 shows row 0 of partition 0 with write time 9 µs, and no possible write made that.",
        ),
        (
            [operation("removenode", {"n3": "left"}, loses_disk=True), check([], ms=300, level="ALL")],
            "so they share one, and T2 must show T1 or a later write, though 1 replicas lost their disk.",
            "T2 shows no such row in place of row 0 of partition 0.",
        ),
        (
            [check([0, 10, 1], ms=40, strange=[[0, 5, 6, 7]])],
            "a read shows only what was written.",
            "T1 shows a row whose clustering or value no write gave it, and no possible write made that.",
        ),
    ],
)
def test_a_finding_says_what_was_owed_and_what_was_shown(parts, then, but):
    (one,) = verdict(FIRST, *parts).anomalies
    assert then in one.explanation
    assert but in one.explanation
    assert one.objects == ("k.d",)


@pytest.mark.parametrize(("ms", "listed"), [(50, 0), (99, 0), (100, 1), (199, 1), (200, 1), (250, 1)])
def test_a_finding_lists_the_operations_that_had_begun(ms, listed):
    joins = operation("bootstrap", {"n4": "normal"})
    lines = sorted([*joins, *check([], ms=ms)], key=lambda line: int(line[1:].split()[0]))
    (missed,) = verdict(FIRST, lines, nodes=FOUR).anomalies
    assert [one["f"] for one in missed.evidence["operations"]] == ["bootstrap"] * listed
    assert [one["under_way"] for one in missed.evidence["operations"]] == [ms < 200] * listed
    assert len(missed.ops) == 2 + listed


@pytest.mark.parametrize(("ms", "step"), [(120, None), (130, "boot"), (139, "boot"), (140, "stream"), (250, "stream")])
def test_an_operation_is_listed_with_the_step_that_it_had_reached(ms, step):
    steps = [
        f'@{at} -- info operation-step {{"operation": 0, "step": "{name}"}}'
        for at, name in ((130, "boot"), (140, "stream"))
    ]
    joins = operation("bootstrap", {"n4": "normal"})
    lines = sorted([*joins, *steps, *check([], ms=ms)], key=lambda line: int(line[1:].split()[0]))
    (missed,) = verdict(FIRST, lines, nodes=FOUR).anomalies
    assert [one["step"] for one in missed.evidence["operations"]] == [step]
