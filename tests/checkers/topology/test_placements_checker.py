"""Placements: what nodes describe, what follows from their ring, and what an operation under way allows."""

from __future__ import annotations

import orjson
import pytest
from bulk_rows import START, TOKENS, operation
from histories import judged
from ring_accounts import ADDRESS, account, registered

from schemaquake.checkers.topology.placements import Placements
from schemaquake.harness.placements.ring import Location, Ring
from schemaquake.harness.placements.strategies import parse_strategy

NODES = ("n1", "n2", "n3", "n4")
SIMPLE = {"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": "3"}
TWO_CENTERS = {"class": "NetworkTopologyStrategy", "dc1": "2", "dc2": "1"}
TRANSIENT = {"class": "NetworkTopologyStrategy", "dc1": "3/1"}
ONE_RACK = dict.fromkeys(NODES, ("dc1", "r1"))
RACKS = {"n1": ("dc1", "r1"), "n2": ("dc1", "r1"), "n3": ("dc1", "r2"), "n4": ("dc2", "r1")}


def ring(places=ONE_RACK, nodes=NODES):
    """The members as a node lists them."""
    return {
        name: {"address": ADDRESS[name], "host_id": name, "tokens": TOKENS[name], "dc": places[name][0], "rack": places[name][1]}
        for name in nodes
    }  # fmt: skip


def ranges(replication=SIMPLE, places=ONE_RACK, nodes=NODES):
    """The ranges that follow from it, as (start, end, addresses)."""
    strategy = parse_strategy(replication)
    located = {name: Location(*places[name]) for name in nodes}
    model = strategy.replicate(Ring.of({name: [int(TOKENS[name][0])] for name in nodes}, located))
    return [
        [str(span.start), str(span.end), [ADDRESS[replica.node] for replica in group]] for span, group in model.items()
    ]


def described(node, answer, *, phase="settled,restarted"):
    return f"{phase} {node} ownership {orjson.dumps({'k': answer}).decode()}"


def verdict(answers, *, replication=SIMPLE, places=ONE_RACK, events=(), nodes=NODES, **more):
    """Judge what these nodes described (`answers` by node)."""
    rows = [account(node, nodes, **ring(places, nodes), **more) for node in answers]
    rows += [described(node, answer) for node, answer in answers.items()]
    rows.append(
        f"settled,restarted {','.join(answers)} keyspace k {orjson.dumps({'replication': replication}).decode()}"
    )
    return Placements().check(judged([START, *events], rows), limit_s=5)


def kinds(*arguments, **named):
    return sorted({one.type for one in verdict(*arguments, **named).anomalies})


def all_say(spans):
    return {node: {"ranges": spans} for node in NODES}


@pytest.mark.parametrize(
    ("replication", "places"),
    [
        (SIMPLE, ONE_RACK),
        (SIMPLE, RACKS),
        (TWO_CENTERS, RACKS),
        (TRANSIENT, ONE_RACK),
        ({**TWO_CENTERS, "dc1": "3"}, RACKS),
    ],
)
def test_what_follows_from_the_ring_is_right_in_any_order(replication, places):
    spans = [[start, end, addresses[::-1]] for start, end, addresses in ranges(replication, places)]
    result = verdict(all_say(spans), replication=replication, places=places)
    assert (result.valid, result.anomalies, result.doubts) == (True, (), ())


def test_a_range_that_is_cut_at_the_lowest_token_is_the_same_ring():
    (first, *others) = ranges()
    lowest = str(-(2**63))
    spans = [[first[0], lowest, first[2]], [lowest, first[1], first[2]], *others]
    assert verdict(all_say(spans)).valid is True


def test_a_replica_that_does_not_follow_from_the_ring_is_misplaced():
    wrong = ranges()
    stranger = next(address for address in ADDRESS.values() if address not in wrong[1][2])
    wrong[1] = [*wrong[1][:2], [*wrong[1][2][:2], stranger]]
    assert kinds(all_say(wrong)) == ["misplaced-replicas"]
    lacking = ranges()
    lacking[1] = [*lacking[1][:2], lacking[1][2][:2]]
    assert kinds(all_say(lacking)) == ["misplaced-replicas"]


def test_racks_and_data_centres_decide():
    assert kinds(all_say(ranges(SIMPLE, RACKS)), replication=TWO_CENTERS, places=RACKS) == ["misplaced-replicas"]
    assert kinds(all_say(ranges(TWO_CENTERS, RACKS)), replication=TWO_CENTERS, places=ONE_RACK) == [
        "misplaced-replicas"
    ]


def test_one_node_that_describes_another_ring_is_alone_with_it():
    former = ("n1", "n2", "n3")
    answers = {**all_say(ranges()), "n2": {"ranges": ranges(nodes=former)}}
    result = verdict(answers)
    assert {(one.type, one.nodes) for one in result.anomalies} == {
        ("misplaced-replicas", ("n2",)),
        ("divided-placements", ("n1", "n2")),
    }


@pytest.mark.parametrize("change", ["gap", "overlap", "twice"])
def test_ranges_must_be_a_ring(change):
    spans = ranges()
    if change == "gap":
        spans = spans[1:]
    elif change == "overlap":
        spans[1] = [spans[0][0], *spans[1][1:]]
    else:
        spans[1] = [*spans[1][:2], [*spans[1][2][:2], spans[1][2][0]]]
    assert "misplaced-replicas" in kinds(all_say(spans))


def test_while_an_operation_is_under_way_other_replicas_are_a_doubt():
    answers = all_say(ranges(nodes=("n1", "n2", "n3")))
    states = {**dict.fromkeys(NODES, "JOINED"), "n4": "JOINED"}
    still = registered(states, sequences={"n4": "{kind: JOIN, nextStep: FINISH_JOIN}"})
    result = verdict(answers, directory=still)
    assert (result.valid, result.anomalies) == ("unknown", ())
    assert {doubt.kind for doubt in result.doubts} == {"undecided"}
    assert kinds(answers, directory=registered(states)) == ["misplaced-replicas"]


@pytest.mark.parametrize(("outcome", "pending"), [("ok", True), ("fail", True), ("info", False)])
def test_a_member_that_stays_leaving_when_all_operations_ended_has_pending_ranges(outcome, pending):
    leaves = operation("decommission", {"n3": "left"}, outcome)
    gossip = {ADDRESS[node]: "NORMAL" for node in NODES} | {ADDRESS["n3"]: "LEAVING"}
    assert kinds(all_say(ranges()), events=leaves, gossip=gossip) == (["pending-ranges"] if pending else [])
    gone = {ADDRESS[node]: "NORMAL" for node in NODES} | {ADDRESS["n5"]: "BOOT"}
    assert kinds(all_say(ranges()), events=leaves, gossip=gone) == []


def test_a_node_without_an_answer_is_a_doubt_and_none_at_all_is_nothing_to_judge():
    result = verdict({**all_say(ranges()), "n2": {"error": "connection refused"}})
    assert (result.valid, [doubt.kind for doubt in result.doubts]) == ("unknown", ["unread", "unread"])
    assert [doubt.kind for doubt in Placements().check(judged([START], []), limit_s=5).doubts] == ["nothing-to-judge"]


def test_a_strategy_that_is_not_modelled_is_a_doubt():
    result = verdict(all_say(ranges()), replication={"class": "EverywhereStrategy"})
    assert (result.valid, {doubt.kind for doubt in result.doubts}) == ("unknown", {"undecided"})


def test_a_node_that_names_no_range_is_misplaced_and_one_that_describes_nothing_is_a_doubt():
    spans = ranges()
    assert kinds({**all_say(spans), "n3": {"ranges": []}}) == ["misplaced-replicas"]
    rows = [account(node, NODES, **ring()) for node in NODES]
    rows.append(f"settled,restarted {','.join(NODES)} keyspace k {orjson.dumps({'replication': SIMPLE}).decode()}")
    described_by = [described(node, {"ranges": spans}) for node in NODES]
    assert Placements().check(judged([START], [*rows, *described_by]), limit_s=5).valid is True
    result = Placements().check(judged([START], [*rows, *described_by[:3]]), limit_s=5)
    assert (result.valid, {doubt.kind for doubt in result.doubts}) == ("unknown", {"unread"})
    assert all("n4 did not describe the ranges of k" in doubt.text for doubt in result.doubts)


def wrong_ranges():
    """The ranges that follow from the ring, but for one replica of the second one."""
    spans = ranges()
    stranger = next(address for address in ADDRESS.values() if address not in spans[1][2])
    spans[1] = [*spans[1][:2], [*spans[1][2][:2], stranger]]
    return spans


def told(answers, *, gossip=None, directory=None, events=(), when="settled"):
    """Judge descriptions by (phase, node); `gossip` and `directory` are those that n1 shows in the phase `when`."""
    rows = [
        account(node, NODES, phase=phase, **ring(), **({"gossip": gossip, "directory": directory} if (phase, node) == (when, "n1") else {}))
        for phase in ("settled", "restarted")
        for node in NODES
    ]  # fmt: skip
    rows += [described(node, {"ranges": spans}, phase=phase) for (phase, node), spans in answers.items()]
    rows.append(f"settled,restarted {','.join(NODES)} keyspace k {orjson.dumps({'replication': SIMPLE}).decode()}")
    return Placements().check(judged([START, *events], rows), limit_s=5)


def in_phases(settled, restarted):
    return {(phase, node): spans for phase, spans in (("settled", settled), ("restarted", restarted)) for node in NODES}


def test_descriptions_are_compared_with_those_of_their_own_phase():
    result = told(in_phases(ranges(), wrong_ranges()))
    assert {(one.type, one.evidence["phase"]) for one in result.anomalies} == {("misplaced-replicas", "restarted")}
    assert sorted(one.nodes for one in result.anomalies) == [(node,) for node in NODES]
    assert result.figures == {"descriptions": 8, "ranges": 32}


def test_a_misplaced_replica_is_told_with_its_token():
    answers = in_phases(ranges(), ranges())
    answers["settled", "n2"] = wrong_ranges()
    misplaced, divided = sorted(told(answers).anomalies, key=lambda one: one.type, reverse=True)
    token = ranges()[1][1]
    right, wrong = (sorted(spans[1][2]) for spans in (ranges(), wrong_ranges()))
    assert misplaced.evidence["differences"] == [{"token": token, "described": wrong, "expected": right}]
    assert f"it names {wrong[0]}, {wrong[1]} and {wrong[2]} for token {token}, not {right[0]}" in misplaced.explanation
    assert divided.nodes == ("n1", "n2")
    assert divided.evidence["differences"] == {"n2": [{"token": token, "described": right, "expected": wrong}]}
    assert f"for token {token} n1 names" in divided.explanation


def test_every_node_that_describes_other_replicas_than_the_first_is_named():
    answers = in_phases(ranges(), ranges())
    answers["settled", "n2"] = answers["settled", "n4"] = wrong_ranges()
    (divided,) = (one for one in told(answers).anomalies if one.type == "divided-placements")
    assert (divided.nodes, sorted(divided.evidence["differences"])) == (("n1", "n2", "n4"), ["n2", "n4"])


def test_a_description_that_is_no_ring_is_told_as_that_though_its_replicas_are_right():
    spans = ranges()
    cut = [*spans, [spans[0][0], spans[0][1], spans[0][2]]]
    result = told(in_phases(cut, ranges()))
    assert {one.type for one in result.anomalies} == {"misplaced-replicas"}
    assert all(" it names " not in one.explanation for one in result.anomalies)


UNDER_WAY = [
    {"gossip": {ADDRESS["n5"]: "BOOT"}},
    {"gossip": {ADDRESS["n5"]: "BOOT_REPLACE"}},
    {"directory": {ADDRESS["n5"]: {"state": "BOOTSTRAPPING", "sequence": None}}},
    {"directory": {ADDRESS["n5"]: {"state": "REGISTERED", "sequence": "{kind: JOIN}"}}},
]
QUIET = [
    {"gossip": {ADDRESS["n5"]: "LEFT"}},
    {"gossip": {}},
    {"directory": {ADDRESS["n5"]: {"state": "REGISTERED", "sequence": None}}},
    {"directory": {ADDRESS["n5"]: {"state": "REGISTERED"}}},
]


@pytest.mark.parametrize("shown", [*UNDER_WAY, *QUIET], ids=str)
def test_what_is_under_way_in_one_phase_excuses_what_differs_in_that_one_alone(shown):
    is_busy = shown in UNDER_WAY
    first = told(in_phases(wrong_ranges(), ranges()), **shown)
    assert [one.type for one in first.anomalies] == ([] if is_busy else ["misplaced-replicas"] * 4)
    assert [doubt.kind for doubt in first.doubts] == (["undecided"] * 4 if is_busy else [])
    second = told(in_phases(ranges(), wrong_ranges()), **shown)
    assert [one.type for one in second.anomalies] == ["misplaced-replicas"] * 4
    answers = in_phases(ranges(), ranges())
    answers["settled", "n2"] = wrong_ranges()
    divided = told(answers, **shown)
    assert [one.type for one in divided.anomalies] == ([] if is_busy else ["misplaced-replicas", "divided-placements"])
    assert any("n1 names" in doubt.text for doubt in divided.doubts) is is_busy


@pytest.mark.parametrize("source", ["gossip", "the directory"])
def test_pending_ranges_say_where_they_are_shown(source):
    leaves = operation("decommission", {"n3": "left"}, "ok")
    shown = (
        {"gossip": {ADDRESS["n3"]: "LEAVING"}}
        if source == "gossip"
        else {"directory": {ADDRESS["n3"]: {"state": "LEAVING"}}}
    )
    result = told(in_phases(ranges(), ranges()), events=leaves, **shown)
    (found,) = result.anomalies
    assert (found.type, found.objects, found.nodes) == ("pending-ranges", (ADDRESS["n3"],), ("n1",))
    assert found.evidence["states"] == {source: "LEAVING"}
    assert f"n1 shows {ADDRESS['n3']} as LEAVING in {source}." in found.explanation


@pytest.mark.parametrize("missing", ["ring", "keyspace"])
def test_ranges_without_what_they_follow_from_are_a_doubt(missing):
    rows = [described("n1", {"ranges": ranges()})]
    if missing != "ring":
        rows.append(account("n1", NODES, **ring()))
    if missing != "keyspace":
        rows.append(f"settled,restarted n1 keyspace k {orjson.dumps({'replication': SIMPLE}).decode()}")
    result = Placements().check(judged([START], rows), limit_s=5)
    wanted = "account of the ring" if missing == "ring" else "replication of k"
    assert result.valid == "unknown"
    assert [doubt.text.endswith(f"gave no {wanted}") for doubt in result.doubts] == [True, True]


def test_it_vouches():
    assert Placements().vouches


@pytest.mark.parametrize("shown", UNDER_WAY, ids=str)
def test_what_is_under_way_after_the_restart_excuses_nothing_before_it(shown):
    before = told(in_phases(wrong_ranges(), ranges()), when="restarted", **shown)
    assert [one.type for one in before.anomalies] == ["misplaced-replicas"] * 4
    after = told(in_phases(ranges(), wrong_ranges()), when="restarted", **shown)
    assert (after.anomalies, {doubt.kind for doubt in after.doubts}) == ((), {"undecided"})


def test_a_keyspace_that_nobody_describes_and_a_node_that_lists_no_ring_leave_no_doubt():
    replication = orjson.dumps({"replication": SIMPLE}).decode()
    rows = [account(node, NODES, **ring()) for node in NODES]
    rows += [described(node, {"ranges": ranges()}) for node in NODES]
    rows.append(f"settled,restarted {','.join(NODES)} keyspace k {replication}")
    others = [f"settled,restarted n1 keyspace other {replication}", f"settled,restarted n5 keyspace k {replication}"]
    for other in others:
        assert Placements().check(judged([START], [*rows, other]), limit_s=5).valid is True
    listed = account("n5", NODES, **ring())
    result = Placements().check(judged([START], [*rows, others[1], listed]), limit_s=5)
    assert {doubt.kind for doubt in result.doubts} == {"unread"}


def test_of_a_description_that_is_no_ring_no_other_replicas_are_told():
    spans = wrong_ranges()
    result = told(in_phases([*spans, spans[0]], ranges()))
    misplaced = [one for one in result.anomalies if one.type == "misplaced-replicas"]
    assert [one.nodes for one in misplaced] == [(node,) for node in NODES]
    assert all(one.evidence["differences"] and ", not 10." not in one.explanation for one in misplaced)


def of_two_keyspaces(first, second, **states):
    """Judge what n1 and n2 describe of j and of k, before the restart; n2 describes them as `first` and `second`."""
    rows = [account(node, NODES, phase="settled", **ring(), **states) for node in ("n1", "n2")]
    for node, of_j, of_k in (("n1", ranges(), ranges()), ("n2", first, second)):
        answers = {"j": {"ranges": of_j}, "k": {"ranges": of_k}}
        rows.append(f"settled {node} ownership {orjson.dumps(answers).decode()}")
    replication = orjson.dumps({"replication": SIMPLE}).decode()
    rows += [f"settled n1,n2 keyspace {keyspace} {replication}" for keyspace in ("j", "k")]
    return Placements().check(judged([START], rows), limit_s=5)


@pytest.mark.parametrize("divided", ["", "j", "k", "jk"])
def test_nodes_are_compared_in_every_keyspace(divided):
    answers = [wrong_ranges() if keyspace in divided else ranges() for keyspace in "jk"]
    found = of_two_keyspaces(*answers).anomalies
    assert [one.objects for one in found if one.type == "divided-placements"] == [(each,) for each in divided]
    result = of_two_keyspaces(*answers, gossip={ADDRESS["n5"]: "BOOT"})
    # For each keyspace: n2 against the ring that it lists, and against n1.
    assert (result.anomalies, len(result.doubts)) == ((), 2 * len(divided))


def test_a_division_is_told_with_the_first_token_and_the_first_node_that_differ():
    answers = in_phases(ranges(), ranges())
    answers["settled", "n2"] = wrong_ranges()
    twice = wrong_ranges()
    stranger = next(address for address in ADDRESS.values() if address not in twice[2][2])
    twice[2] = [*twice[2][:2], [*twice[2][2][:2], stranger]]
    answers["settled", "n3"] = twice
    (divided,) = (one for one in told(answers).anomalies if one.type == "divided-placements")
    assert f"for token {ranges()[1][1]} n1 names" in divided.explanation
    assert ", and n2 " in divided.explanation
    assert len(divided.evidence["differences"]["n3"]) == 2
    answers["settled", "n2"], answers["settled", "n3"] = twice, ranges()
    (divided,) = (one for one in told(answers).anomalies if one.type == "divided-placements")
    assert f"for token {ranges()[1][1]} n1 names" in divided.explanation
