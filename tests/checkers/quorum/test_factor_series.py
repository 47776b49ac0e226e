"""The series of replication factors: which of them a request may have gone by, and how many copies are left by another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from histories import judged

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.quorum.factors import FactorSeries, Moment

MS = 1_000_000


def asked(
    at: int,
    factor: int,
    answer: str = "ok",
    *,
    f: str = "alter-keyspace",
    lasts: int = 1,
    node: str = "n1",
    key: str = "k",
) -> list[str]:
    replication = orjson.dumps({"replication": {"class": "S", "replication_factor": factor}}).decode()
    return [f"@{at} p{at} {node} invoke {f} {key} {replication}", f"@{at + lasts} p{at} {node} {answer}"]


def created(factor: int = 3, answer: str = "ok") -> list[str]:
    return asked(1, factor, answer, f="create-keyspace")


def shown(at: int, factor: int, node: str, key: str = "k") -> str:
    replication = orjson.dumps({"replication": {"class": "S", "replication_factor": factor}}).decode()
    return f"@{at} running#{at} {node} keyspace {key} {replication}"


def members(*states: str) -> list[str]:
    told = {f"n{number}": {"state": state, "expected": state} for number, state in enumerate(states, 1)}
    return [f"@0 -- info membership {orjson.dumps({'at': 'boot', 'members': told}).decode()}"]


def series(*parts: Sequence[str], seen: Sequence[str] = ()) -> FactorSeries:
    lines = sorted((line for part in parts for line in part), key=lambda line: int(line[1:].split()[0]))
    return FactorSeries(Evidence.of(judged(lines, seen)))


def moments(found: FactorSeries, node: str | None, *times: tuple[int, int]) -> list[tuple[int, int]]:
    return [found.moment(node, invoked * MS, completed * MS)[:2] for invoked, completed in times]


@pytest.mark.parametrize(
    ("parts", "factors"),
    [
        ([], []),
        ([created(answer="fail")], []),
        ([created(answer='ok {"applied": false}')], []),
        ([created(answer="info")], [3]),
        ([created()], [3]),
        ([created(), asked(10, 3)], [3]),
        ([created(), asked(10, 4, "fail")], [3]),
        ([created(), asked(10, 4, "info")], [3, 4]),
        ([created(), asked(10, 4), asked(20, 4, "info"), asked(30, 3)], [3, 4, 3]),
        ([['@1 p1 n1 invoke create-keyspace k {"replication": {"class": "S"}}', "@2 p1 n1 ok"]], [0]),
        ([["@1 -- invoke create-keyspace k", "@2 -- ok create-keyspace k"]], []),
    ],
)
def test_the_factors_are_those_of_possible_changes_neighbours_as_one(
    parts: list[list[str]], factors: list[int]
) -> None:
    found = series(*parts)
    assert found.factors == factors
    assert found.is_constant is (len(factors) < 2)
    assert found.is_ordered


RAISED = [*created(), *asked(100, 4), *asked(200, 3, "info")]


def test_a_request_goes_by_what_its_coordinator_knew_and_what_was_asked_for_before_it_ended() -> None:
    found = series(RAISED, seen=[shown(150, 4, "n2"), shown(160, 9, "n2", key="j")])
    assert moments(found, "n1", (50, 99), (50, 100), (99, 101), (100, 102), (101, 102), (199, 201), (250, 260)) == [
        *((0, 0), (0, 0), (0, 1), (0, 1), (1, 1), (1, 2), (1, 2)),
    ]
    assert moments(found, "n2", (149, 151), (150, 151), (151, 300)) == [(0, 1), (1, 1), (1, 2)]
    assert moments(found, "n3", (250, 251)) == moments(found, None, (250, 251)) == [(0, 2)]
    assert moments(found, "n1", (0, 1)) == [(0, 0)]
    assert found.is_ordered
    assert [found.describe(Moment(*span, 0, 0)) for span in ((0, 0), (0, 1), (0, 2))] == ["3", "3 or 4", "3 or 4"]
    assert found.describe_all() == "3, 4 and 3"


def test_what_a_node_showed_is_the_next_change_to_that_factor() -> None:
    steps = [created(2), asked(100, 3), asked(200, 2), asked(300, 3)]
    found = series(*steps, seen=[shown(150, 2, "n2"), shown(310, 3, "n2"), shown(320, 2, "n3")])
    assert moments(found, "n2", (160, 160), (310, 400)) == [(0, 1), (1, 3)]
    assert moments(found, "n3", (330, 400)) == [(0, 3)]
    early = series(*steps, seen=[shown(100, 3, "n2")])
    assert (early.is_ordered, series(*steps, seen=[shown(101, 3, "n2")]).is_ordered) == (False, True)


def test_a_factor_that_was_shown_after_a_later_one_was_known_leaves_no_order() -> None:
    assert [series(RAISED, seen=[shown(at, 3, "n1")]).is_ordered for at in (100, 150, 250)] == [True, False, True]


@pytest.mark.parametrize(
    ("lasts", "answer", "is_ordered"), [(99, "ok", True), (100, "ok", True), (101, "ok", False), (101, "info", True)]
)
def test_changes_that_overlap_have_no_order(lasts: int, answer: str, *, is_ordered: bool) -> None:
    found = series(created(), asked(100, 4, answer, lasts=lasts), asked(200, 2))
    assert found.is_ordered is is_ordered
    assert moments(found, "n1", (250, 260)) == [(2, 2) if is_ordered else (0, 2)]


def test_of_one_change_that_was_asked_for_twice_the_first_acknowledgement_counts() -> None:
    found = series(created(), asked(100, 4, lasts=50), asked(110, 4, lasts=5, node="n2"), asked(140, 2, node="n3"))
    assert found.is_ordered
    assert moments(found, "n1", (149, 151), (150, 151)) == [(0, 2), (1, 2)]
    assert moments(found, "n2", (114, 116), (115, 116)) == [(0, 1), (1, 1)]


LEVELS = ("ONE", "QUORUM", "ALL")


def table(found: FactorSeries, by: Moment, read_by: Moment, **how: Any) -> list[list[bool]]:
    return [[found.share(write, by, read, read_by, **how) for read in LEVELS] for write in LEVELS]


def test_with_one_factor_answers_share_a_replica_as_levels_say() -> None:
    found, now = series(created()), Moment(0, 0, 0, 0)
    assert table(found, now, now) == [[False, False, True], [False, True, True], [True, True, True]]
    assert table(found, now, now, lost=1) == [[False] * 3, [False, False, True], [False, True, True]]
    assert table(found, now, now, lost=3) == [[False] * 3] * 3
    assert [found.copies(level, now, now, replicas=3) for level in LEVELS] == [1, 2, 3]
    assert [found.copies(level, now, now, replicas=2) for level in LEVELS] == [0, 1, 2]


def test_copies_are_counted_up_to_the_number_of_nodes_where_none_joins() -> None:
    now = Moment(0, 0, 0, 0)
    whole = series(members("normal", "leaving", "normal", "absent"), created(5))
    assert table(whole, now, now) == [[False, True, True], [True] * 3, [True] * 3]
    assert [whole.copies(level, now, now, replicas=3) for level in LEVELS] == [1, 3, 3]
    joining = {"operation": 1, "nodes": ["n4"], "parameters": {}, "becomes": {"n4": "normal"}}
    join = [f"@{at} -- {kind} bootstrap {orjson.dumps(joining).decode()}" for at, kind in ((50, "invoke"), (60, "ok"))]
    grown = series(members("normal", "normal", "normal", "absent"), created(5), join)
    assert [grown.copies(level, now, now, replicas=5) for level in LEVELS] == [1, 3, 5]
    assert [series(created(5)).copies(level, now, now, replicas=5) for level in LEVELS] == [1, 3, 5]


def test_a_lower_factor_takes_copies_away_for_good_and_a_higher_one_brings_none() -> None:
    found = series(created(4), asked(100, 2), asked(200, 4))
    first, low, last = (Moment(at, at, 0, 0) for at in range(3))
    assert [found.copies(level, first, low, replicas=2) for level in LEVELS] == [0, 1, 2]
    assert [found.copies(level, first, last, replicas=4) for level in LEVELS] == [0, 1, 2]
    assert [found.copies(level, low, last, replicas=4) for level in LEVELS] == [1, 2, 2]
    assert table(found, first, last) == [[False] * 3, [False, False, True], [False, True, True]]
    assert table(found, low, last) == [[False, False, True], [False, True, True], [False, True, True]]
    assert table(found, first, last, certain=False) == table(found, first, last), "each change was made"
    assert [found.copies("ALL", by, by, replicas=4) for by in (first, low, last)] == [4, 2, 4]
    assert table(found, last, first) == table(found, first, last), "the reader may not have heard of either change"
    assert [found.copies(level, Moment(0, 2, 0, 0), last, replicas=4) for level in LEVELS] == [0, 1, 2]
    assert [found.copies(level, last, Moment(0, 2, 0, 0), replicas=4) for level in LEVELS] == [0, 1, 2]


def test_what_holds_on_one_way_is_possible_and_what_holds_on_all_is_certain() -> None:
    found = series(created(3), asked(100, 1, "info"), asked(200, 3))
    first, last = Moment(0, 0, 0, 0), Moment(2, 2, 0, 0)
    assert table(found, first, last, certain=True) == [[False] * 3, [False] * 3, [False, False, True]]
    assert table(found, first, last, certain=False) == [[False, False, True], [False, True, True], [True, True, True]]
    by_it = Moment(1, 1, 0, 0)
    for certain in (True, False):
        promised = table(found, first, by_it, certain=certain)
        assert promised == [[False] * 3, [False] * 3, [True] * 3], "the read went by that change: it was made"


def test_without_an_order_only_what_every_pair_of_factors_promises_is_certain() -> None:
    found = series(created(3), asked(100, 2, lasts=150), asked(200, 4))
    assert not found.is_ordered
    now = Moment(0, 2, 0, 0)
    assert table(found, now, now) == [[False] * 3, [False, False, True], [False, True, True]]
    assert table(found, now, now, certain=False)[2] == [True] * 3
    assert found.at_end(900 * MS, 4, nodes=4) is None


@pytest.mark.parametrize(
    ("parts", "replicas", "nodes", "moment"),
    [
        pytest.param([created()], 3, 3, Moment(0, 0, 0, 0), id="one factor"),
        pytest.param([created()], 2, 3, None, id="another one"),
        pytest.param([created()], 2, 2, Moment(0, 0, 0, 0), id="no more than there are nodes"),
        pytest.param([created(), asked(100, 2)], 2, 3, Moment(1, 1, 0, 0), id="the last one"),
        pytest.param([created(), asked(100, 2)], 3, 3, None, id="none that was acknowledged before it"),
        pytest.param([created(), asked(100, 2, "info")], 3, 3, Moment(0, 0, 0, 0), id="it came to nothing"),
        pytest.param([created(), asked(100, 2, "info")], 2, 3, Moment(1, 1, 0, 0), id="it came to be"),
        pytest.param([created(), asked(100, 5, "info")], 3, 3, Moment(0, 1, 0, 0), id="either"),
        pytest.param([created(answer="info")], 3, 3, Moment(0, 0, 0, 0), id="one that nobody acknowledged"),
        pytest.param(
            [created(answer="info"), asked(100, 2, "info")], 2, 3, Moment(1, 1, 0, 0), id="two that nobody acknowledged"
        ),
        pytest.param([created(), asked(899, 2)], 2, 3, Moment(1, 1, 0, 0), id="asked for just before"),
        pytest.param([created(), asked(100, 2), asked(900, 3)], 3, 3, None, id="two, of which one just then"),
        pytest.param([created(), asked(900, 2)], 2, 3, None, id="asked for just then"),
    ],
)
def test_in_the_end_the_replicas_tell_the_factor(
    parts: list[list[str]], replicas: int, nodes: int, moment: Moment | None
) -> None:
    assert series(*parts).at_end(900 * MS, replicas, nodes=nodes) == moment


def repair(
    at: int,
    to: Any,
    number: int,
    *,
    lasts: int = 20,
    outcome: str = "ok",
    nodes: str = "n1,n2,n3",
    command: str = "repair k",
    keyspace: str = "k",
    shown_by: str = "n1,n2,n3",
    altered: str = "ok",
) -> list[str]:
    value = {"operation": number, "nodes": [], "parameters": {}, "becomes": {}}
    attempts = [{"outcome": "ok", "command": command, "node": node} for node in nodes.split(",") if node]
    effect = {
        "attempts": attempts,
        "keyspace": keyspace,
        "to": to,
        "shown_by": [node for node in shown_by.split(",") if node],
    }
    return [
        f"@{at} -- invoke rf-change {orjson.dumps(value).decode()}",
        *(asked(at + 1, to, altered) if isinstance(to, int) else []),
        f"@{at + lasts} -- {outcome} rf-change {orjson.dumps({**value, 'effect': effect}).decode()}",
    ]


def test_repairs_count_from_their_end_for_reads_and_up_to_their_begin_for_writes() -> None:
    """The change is acknowledged at 102 ms, when the repair begins, and the repair ends at 120."""
    found = series(members(*["normal"] * 3), created(2), repair(100, 3, 1))
    spans = [(90, 102), (90, 103), (119, 130), (120, 130)]
    assert [found.moment("n1", begin * MS, end * MS)[2:] for begin, end in spans] == [(0, 0), (0, 1), (0, 1), (1, 1)]
    before, beside, after = Moment(0, 0, 0, 0), Moment(0, 0, 0, 1), Moment(1, 1, 1, 1)
    assert [found.copies(level, before, after, replicas=3) for level in LEVELS] == [3, 3, 3]
    assert [found.copies(level, beside, after, replicas=3) for level in LEVELS] == [1, 2, 2]
    assert [found.copies(level, Moment(1, 1, 0, 0), after, replicas=3) for level in LEVELS] == [3, 3, 3]
    assert [found.copies(level, before, Moment(1, 1, 0, 1), replicas=3) for level in LEVELS] == [1, 2, 2]
    assert found.at_end(900 * MS, 3, nodes=3) == Moment(1, 1, 1, 1)


@pytest.mark.parametrize(
    ("how", "certain", "possible"),
    [
        pytest.param({}, True, True, id="of all"),
        pytest.param({"nodes": "n1,n2,n3,n4"}, True, True, id="of all, and of one that is no member"),
        pytest.param({"shown_by": "n1,n2,n3,n4"}, True, True, id="known to all, and to one that is no member"),
        pytest.param({"nodes": "n1,n2"}, False, True, id="of some"),
        pytest.param({"nodes": ""}, False, False, id="of none"),
        pytest.param({"command": "cleanup"}, False, False, id="no repair"),
        pytest.param({"command": "nodetool repairs"}, False, False, id="another word"),
        pytest.param({"outcome": "info"}, False, False, id="not ended"),
        pytest.param({"outcome": "fail"}, False, False, id="refused"),
        pytest.param({"shown_by": "n1,n2"}, False, True, id="not known to all"),
        pytest.param({"keyspace": "j"}, False, False, id="of another keyspace"),
        pytest.param({"to": "3"}, False, False, id="of no factor"),
        pytest.param({"altered": "info"}, False, False, id="of a change that may not have been made"),
    ],
)
def test_a_repair_is_certain_if_all_were_repaired_by_the_new_factor(
    how: dict[str, Any], *, certain: bool, possible: bool
) -> None:
    """A put at ONE by two replicas, and a read at ONE by three: only a repair of all of them makes them meet."""
    others = [] if how.get("to", 3) == 3 else asked(101, 3)
    found = series(members(*["normal"] * 3), created(2), repair(100, **{"to": 3, "number": 1, **how}), others)
    before, after = found.moment("n1", 10 * MS, 20 * MS), found.moment("n1", 130 * MS, 140 * MS)
    assert found.share("ONE", before, "ONE", after) is certain
    assert found.share("ONE", before, "ONE", after, certain=False) is possible
    assert found.copies("ONE", before, after, replicas=3) == (3 if certain else 1)


@pytest.mark.parametrize("factor", [1, 4])
def test_a_repair_after_which_another_change_was_asked_for_is_of_neither(factor: int) -> None:
    found = series(members(*["normal"] * 3), created(2), repair(100, 3, 1), asked(119, factor))
    assert found.moment("n1", 130 * MS, 140 * MS).since == 0
    later = series(members(*["normal"] * 3), created(2), repair(100, 3, 1), asked(121, factor))
    assert later.moment("n1", 130 * MS, 140 * MS).since == 1


def test_a_repair_after_a_change_to_the_same_factor_brings_what_was_written_by_it_to_all() -> None:
    found = series(members(*["normal"] * 3), created(3), repair(100, 3, 1), asked(200, 2))
    before, after = found.moment("n1", 10 * MS, 20 * MS), found.moment("n1", 130 * MS, 140 * MS)
    assert found.share("ONE", before, "ONE", after)
    assert not found.share("ONE", before, "ONE", found.moment("n1", 119 * MS, 140 * MS)), "it may not have ended"


def test_a_repair_before_the_first_change_is_of_none() -> None:
    """An operation whose own ALTER was refused, on a keyspace of that name that was made only later."""
    refused = repair(100, 3, 1, altered="fail", shown_by="")
    found = series(members(*["normal"] * 3), refused, asked(200, 2, f="create-keyspace"), asked(300, 3))
    assert found.moment("n1", 400 * MS, 410 * MS) == (1, 1, 0, 0)


def test_an_operation_that_was_refused_hides_no_later_repair() -> None:
    steps = [created(2), repair(50, 3, 1, outcome="fail", altered="fail", shown_by=""), repair(100, 3, 2)]
    found = series(members(*["normal"] * 3), *steps)
    assert found.moment("n1", 130 * MS, 140 * MS) == (1, 1, 1, 1)


def test_repairs_are_in_order_of_their_begins() -> None:
    steps = [created(2), repair(100, 3, 1), repair(200, 2, 2), repair(300, 3, 3, outcome="info")]
    found = series(members(*["normal"] * 3), *steps)
    assert [found.moment("n1", at * MS, at * MS)[2:] for at in (90, 110, 150, 210, 250, 400)] == [
        *((0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 2)),
    ]


def test_data_centres_have_their_factors_together() -> None:
    centres = '{"replication": {"class": "NetworkTopologyStrategy", "a": 2, "b": "3/1"}}'
    lines = [f"@1 p1 n1 invoke create-keyspace k {centres}", "@2 p1 n1 ok"]
    assert series(lines).factors == [5]
    assert series(lines, seen=[f"@9 running#9 n1 keyspace k {centres}"]).is_ordered
    bare = '@9 running#9 n1 keyspace k {"replication": {"class": "NetworkTopologyStrategy"}}'
    assert series(lines, asked(100, 4), seen=[bare]).is_ordered, "one without factors says nothing"


def test_a_process_that_ended_early_may_have_kept_nothing() -> None:
    start = ['@5000 -- n1 info node-start {"phase": "fault", "served": true, "seconds": 0.001}']
    found = series(created(), asked(100, 4), start)
    assert moments(found, "n1", (2998, 2998), (2999, 2999), (6000, 6001)) == [(1, 1), (0, 1), (0, 1)]


def test_a_repair_that_ended_after_the_read_began_brings_it_nothing() -> None:
    found = series(members(*["normal"] * 3), created(2), repair(100, 3, 1), repair(200, 2, 2))
    before = Moment(0, 0, 0, 0)
    spans = [(since, found.copies("ONE", before, Moment(2, 2, since, 2), replicas=2)) for since in (0, 1, 2)]
    assert spans == [(0, 1), (1, 2), (2, 2)]


@pytest.mark.parametrize(("outcome", "certain"), [("ok", True), ("info", False)])
def test_a_repair_beside_an_operation_that_may_still_go_on_is_not_certain(outcome: str, *, certain: bool) -> None:
    value = orjson.dumps({"operation": 9, "nodes": ["n1"], "parameters": {}, "becomes": {}}).decode()
    upgrade = [f"@50 -- invoke upgrade {value}", f"@60 -- {outcome} upgrade {value}"]
    found = series(members(*["normal"] * 3), created(2), upgrade, repair(100, 3, 1))
    before, after = found.moment("n1", 10 * MS, 20 * MS), found.moment("n1", 130 * MS, 140 * MS)
    assert found.share("ONE", before, "ONE", after) is certain


def test_a_process_keeps_what_its_node_knew_long_before_its_end_may_have_begun() -> None:
    """It ended between 18 s and 30 s, so that the change acknowledged at 10 s may not have been on its disk."""
    start = ['@30000 -- n1 info node-start {"phase": "fault", "served": true, "seconds": 10}']
    found = series(created(), asked(50, 5), asked(100, 4), asked(10_000, 2), start)
    assert moments(found, "n1", (17_999, 17_999), (18_000, 18_001), (30_001, 30_002)) == [(3, 3), (2, 3), (2, 3)]


def test_a_node_that_was_seen_to_know_a_factor_goes_by_it_when_the_operation_has_ended() -> None:
    found = series(members(*["normal"] * 3), created(2), repair(100, 3, 1), asked(200, 2))
    assert moments(found, "n2", (119, 119), (120, 120), (250, 260)) == [(0, 1), (1, 1), (1, 2)]
    assert moments(found, "n4", (250, 260)) == [(0, 2)]


def test_a_change_that_may_have_been_left_out_leaves_a_way_where_it_takes_nothing_away() -> None:
    found = series(created(2), asked(100, 3, "info"), asked(200, 4))
    first, last = Moment(0, 0, 0, 0), Moment(2, 2, 0, 0)
    assert [found.copies(level, first, last, replicas=4) for level in LEVELS] == [1, 2, 2]
    assert not found.share("ALL", first, "QUORUM", Moment(0, 2, 0, 0), lost=1)
    assert not found.share("ONE", first, "ONE", last, certain=False)


def test_of_several_repairs_those_after_the_write_count() -> None:
    every: dict[str, Any] = {"nodes": "n1,n2,n3,n4", "shown_by": "n1,n2,n3,n4"}
    found = series(members(*["normal"] * 4), created(2), repair(100, 3, 1, **every), repair(200, 4, 2, **every))
    after = Moment(2, 2, 2, 2)
    written = [
        found.copies("ONE", Moment(at, at, 0, begun), after, replicas=4) for at, begun in ((0, 0), (0, 1), (2, 2))
    ]
    assert written == [4, 4, 1]


def test_a_change_asked_for_after_the_last_readings_began_leaves_the_end_undecided() -> None:
    for at in (900, 901):
        assert series(created(), asked(100, 2), asked(at, 3, "info")).at_end(900 * MS, 2, nodes=3) is None


@pytest.mark.parametrize("f", ["bootstrap", "upgrade"])
@pytest.mark.parametrize("outcome", ["ok", "info"])
def test_only_a_change_of_the_factor_repairs_for_it_and_is_over_when_it_ends(f: str, outcome: str) -> None:
    """Another operation that shows the same effect is no repair; of unknown outcome it may go on for good."""
    other = [line.replace("rf-change", f) for line in repair(50, 3, 1, outcome=outcome)]
    found = series(members(*["normal"] * 3), created(2), other)
    before, between = found.moment("n1", 10 * MS, 20 * MS), found.moment("n1", 80 * MS, 90 * MS)
    assert not found.share("ONE", before, "ONE", between, certain=False)
    again = series(members(*["normal"] * 3), created(2), other, repair(100, 3, 2))
    assert again.share("ONE", before, "ONE", again.moment("n1", 130 * MS, 140 * MS)) is (outcome == "ok")


def test_a_change_of_the_factor_that_came_to_nothing_is_over_when_it_ended() -> None:
    steps = [created(2), repair(50, 3, 1, outcome="info", altered="fail", shown_by=""), repair(100, 3, 1000)]
    found = series(members(*["normal"] * 3), *steps)
    before, after = found.moment("n1", 10 * MS, 20 * MS), found.moment("n1", 130 * MS, 140 * MS)
    assert found.share("ONE", before, "ONE", after)


@pytest.mark.parametrize("outcome", ["fail", "info"])
def test_a_node_that_was_not_repaired_makes_a_repair_possible_at_most(outcome: str) -> None:
    failed = [
        line.replace(
            '"outcome":"ok","command":"repair k","node":"n3"', f'"outcome":"{outcome}","command":"repair k","node":"n3"'
        )
        for line in repair(100, 3, 1)
    ]
    found = series(members(*["normal"] * 3), created(2), failed)
    before, after = found.moment("n1", 10 * MS, 20 * MS), found.moment("n1", 130 * MS, 140 * MS)
    assert not found.share("ONE", before, "ONE", after)
    assert found.share("ONE", before, "ONE", after, certain=False)
