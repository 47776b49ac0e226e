"""Membership: who is listed where, what a refusal and an unknown outcome allow, and what hangs."""

from __future__ import annotations

import orjson
import pyarrow as pa
import pytest
from histories import judged
from ring_accounts import ADDRESS, NODES, account, member, noted, registered

from schemaquake.checkers.topology.membership import Membership
from schemaquake.harness.model.records import OBSERVATIONS, Records

START = noted("boot", {"n1": "normal", "n2": "normal", "n3": "normal", "n4": "absent"})
FOUNDERS = ("n1", "n2", "n3")


def operation(f, becomes, outcome="ok", *, number=0, ms=100, ends_ms=200, to=None, **effect):
    """The two events of an operation; without an outcome it has no end."""
    value = {"operation": number, "nodes": list(becomes), "parameters": {}, "becomes": becomes}
    lines = [f"@{ms} -- invoke {f} {orjson.dumps(value).decode()}"]
    if outcome is not None:
        ended = {**value, "effect": {"attempts": [], "token": to, **effect}}
        lines.append(f"@{ends_ms} -- {outcome} {f} {orjson.dumps(ended).decode()}")
    return lines


JOINS = operation("bootstrap", {"n4": "normal"})
LEAVES = operation("decommission", {"n3": "left"})


def verdict(events, accounts):
    return Membership().check(judged([START, *events], accounts), limit_s=5)


def found(events, accounts):
    return sorted({(one.type, one.objects) for one in verdict(events, accounts).anomalies})


def all_say(members, by=None, **more):
    return [account(node, members, **more) for node in (by or members)]


def gossip(members, status="NORMAL"):
    return {ADDRESS[name]: status for name in members}


@pytest.mark.parametrize("changed", [{ADDRESS["n2"]: "LEFT"}, {ADDRESS["n2"]: "shutdown"}])
def test_a_member_that_gossip_does_not_call_normal_is_in_doubt(changed):
    for told in (gossip(FOUNDERS) | changed, gossip(("n1", "n3"))):
        result = verdict([], [*all_say(FOUNDERS, ("n1", "n2")), account("n3", FOUNDERS, phase="settled", gossip=told)])
        assert (result.valid, [doubt.kind for doubt in result.doubts]) == ("unknown", ["undecided"])


def test_gossip_may_remember_a_node_that_left_and_what_an_unknown_outcome_did_is_open():
    left = gossip(NODES) | gossip(("n3",), "LEFT")
    assert verdict(LEAVES, all_say(("n1", "n2"), gossip=left)).doubts == ()
    open_to_doubt = operation("decommission", {"n3": "left"}, "info")
    assert verdict(open_to_doubt, all_say(("n1", "n2"), gossip=left)).doubts == ()


@pytest.mark.parametrize(
    "changed",
    [
        {"host_id": "other"},
        {"tokens": ["7"]},
        {"tokens": []},
        {"state": "MOVING"},
        {"state": "BOOTSTRAPPING"},
        {"host_id": None},
    ],
)
def test_a_directory_that_contradicts_the_peers_of_its_node_is_in_doubt(changed):
    directory = registered(dict.fromkeys(FOUNDERS, "JOINED"))
    assert verdict([], all_say(FOUNDERS, directory=directory)).doubts == ()
    directory[ADDRESS["n2"]] = {**directory[ADDRESS["n2"]], **changed}
    result = verdict([], all_say(FOUNDERS, directory=directory))
    assert (result.valid, {doubt.kind for doubt in result.doubts}) == ("unknown", {"undecided"})
    unended = operation("move", {"n2": "normal"}, None)  # its steps may be under way
    assert not any(
        "contradicts" in doubt.text for doubt in verdict(unended, all_say(FOUNDERS, directory=directory)).doubts
    )


@pytest.mark.parametrize(("stage", "is_odd"), [("node", False), ("finish", True)])
def test_a_directory_may_give_an_upgraded_node_another_host_id_until_the_upgrade_has_ended(stage, *, is_odd):
    steps = [
        line.replace('"parameters":{}', f'"parameters":{{"stage":"{stage}"}}')
        for line in operation("rolling-upgrade", {"n2": "normal"})
    ]
    directory = registered(dict.fromkeys(FOUNDERS, "JOINED"))
    assert verdict(steps, all_say(FOUNDERS, directory=directory)).doubts == ()
    directory[ADDRESS["n2"]] = {**directory[ADDRESS["n2"]], "host_id": "other"}
    texts = [doubt.text for doubt in verdict(steps, all_say(FOUNDERS, directory=directory)).doubts]
    assert any("contradicts its peers" in text for text in texts) is is_odd


def test_a_directory_with_a_stranger_is_in_doubt_and_one_with_who_left_is_not():
    more = registered({**dict.fromkeys(FOUNDERS, "JOINED"), "n5": "JOINED"})
    assert verdict([], all_say(FOUNDERS, directory=more)).valid == "unknown"
    left = registered({**dict.fromkeys(FOUNDERS, "JOINED"), "n5": "LEFT"})
    assert verdict([], all_say(FOUNDERS, directory=left)).doubts == ()


@pytest.mark.parametrize(
    "changed",
    [
        {"address": "com.example.3"},  # listed under an address that is not its own
        {"address": None},
        {"host_id": "h-n2"},
        {"tokens": ["50", "25"]},
    ],
)
def test_an_account_that_contradicts_itself_is_in_doubt_also_when_all_nodes_give_it(changed):
    strange = {**member("n3"), **changed}
    result = verdict([], [account(node, FOUNDERS, n3=strange) for node in FOUNDERS[:2]])
    assert (result.valid, {doubt.kind for doubt in result.doubts}) == ("unknown", {"undecided"})
    unended = operation("replace", {"n3": "normal"}, None)
    told = verdict(unended, [account(node, FOUNDERS, n3=strange) for node in FOUNDERS[:2]])
    assert not any("contradicts itself" in doubt.text for doubt in told.doubts)


def test_nodes_without_host_ids_and_tokens_are_not_alike():
    bare = {name: {**member(name), "host_id": None, "tokens": []} for name in FOUNDERS}
    assert verdict([], all_say(FOUNDERS, **bare)).doubts == ()


@pytest.mark.parametrize("more", [{}, {"gossip": gossip(FOUNDERS)}, {"gossip": gossip((*FOUNDERS, "n5"))}])
def test_a_member_that_is_no_node_of_the_run_may_be_there_if_all_nodes_say_so(more):
    with_stranger = (*FOUNDERS, "n5")
    result = verdict([], all_say(with_stranger, FOUNDERS, **more))
    assert result.valid == (True if ADDRESS["n5"] in more.get("gossip", ADDRESS.values()) else "unknown")
    some = [account("n1", with_stranger, **more), *all_say(FOUNDERS, ("n2", "n3"), **more)]
    assert found([], some) == [("ring-disagreement", (ADDRESS["n5"],))]
    # The operations name every node: one that none of them names is a finding in each account by itself.
    assert found(LEAVES, [account("n1", ("n1", "n2", "n5")), account("n2", ("n1", "n2"))]) == [
        ("ghost-member", (ADDRESS["n5"],))
    ]


def test_a_member_that_the_directory_of_the_same_node_lacks_is_in_doubt():
    directory = registered(dict.fromkeys(FOUNDERS, "JOINED"))
    assert verdict([], all_say((*FOUNDERS, "n5"), FOUNDERS, directory=directory)).valid == "unknown"


def test_nobody_changed_anything_and_all_list_all():
    result = verdict([], all_say(FOUNDERS))
    assert (result.valid, result.doubts) == (True, ())


@pytest.mark.parametrize(
    ("events", "members"),
    [
        (JOINS, NODES),
        (LEAVES, ("n1", "n2")),
        (operation("replace", {"n3": "replaced", "n4": "normal"}), ("n1", "n2", "n4")),
        (operation("replace", {"n3": "normal"}), FOUNDERS),
        (operation("decommission", {"n3": "left"}, "fail"), FOUNDERS),
        (operation("bootstrap", {"n4": "normal"}, "fail"), FOUNDERS),
        # Of unknown outcome: either is right, if all say the same.
        (operation("bootstrap", {"n4": "normal"}, "info"), FOUNDERS),
        (operation("bootstrap", {"n4": "normal"}, "info"), NODES),
        (operation("decommission", {"n3": "left"}, "info"), ("n1", "n2")),
        # It joined and left again.
        ([*JOINS, *operation("decommission", {"n4": "left"}, number=1, ms=300, ends_ms=400)], FOUNDERS),
        # A second attempt was acknowledged after an unknown one.
        ([*operation("decommission", {"n3": "left"}, "info"), *operation("decommission", {"n3": "left"}, number=1, ms=300, ends_ms=400)], ("n1", "n2")),
    ],
)  # fmt: skip
def test_what_the_operations_left_is_right(events, members):
    result = verdict(events, all_say(members))
    assert (result.anomalies, result.doubts, result.valid) == ((), (), True)


def test_a_node_that_joined_and_that_one_other_does_not_list_is_missing():
    accounts = [account("n1", FOUNDERS), *all_say(NODES, by=("n2", "n3", "n4"))]
    assert found(JOINS, accounts) == [("missing-member", ("n4",))]


def test_a_founder_that_is_forgotten_is_missing():
    accounts = [account("n1", ("n1", "n2")), account("n2", FOUNDERS), account("n3", FOUNDERS)]
    assert found([], accounts) == [("missing-member", ("n3",))]


@pytest.mark.parametrize("phase", ["settled", "restarted"])
def test_a_node_that_left_and_is_listed_is_a_ghost_also_when_it_comes_back_with_a_restart(phase):
    other = "restarted" if phase == "settled" else "settled"
    accounts = [
        *all_say(("n1", "n2"), phase=other),
        account("n1", FOUNDERS, phase=phase),
        account("n2", ("n1", "n2"), phase=phase),
    ]
    assert found(LEAVES, accounts) == [("ghost-member", ("n3",))]


@pytest.mark.parametrize(
    ("status", "ghost"), [("NORMAL", True), ("LEFT", False), ("removed", False), ("shutdown", False)]
)
def test_gossip_has_a_ghost_only_if_it_calls_it_normal(status, ghost):
    gossip = {ADDRESS["n1"]: "NORMAL", ADDRESS["n2"]: "NORMAL", ADDRESS["n3"]: status}
    kinds = found(LEAVES, all_say(("n1", "n2"), gossip=gossip))
    assert kinds == ([("ghost-member", ("n3",))] if ghost else [])


@pytest.mark.parametrize(
    ("state", "ghost"), [("LEFT", False), ("REGISTERED", False), ("JOINED", True), ("LEAVING", True)]
)
def test_the_directory_keeps_nodes_that_left_as_left(state, ghost):
    directory = registered({"n1": "JOINED", "n2": "JOINED", "n3": state})
    kinds = found(LEAVES, all_say(("n1", "n2"), directory=directory))
    assert kinds == ([("ghost-member", ("n3",))] if ghost else [])


def test_a_member_that_the_directory_has_not_is_missing():
    directory = registered({"n1": "JOINED", "n2": "JOINED", "n3": "JOINED", "n4": "BOOTSTRAPPING"})
    assert found(JOINS, all_say(NODES, directory=directory)) == []
    lacking = registered({"n1": "JOINED", "n2": "JOINED", "n3": "JOINED", "n4": "REGISTERED"})
    assert found(JOINS, all_say(NODES, directory=lacking)) == [("missing-member", ("n4",))]


def test_a_directory_that_keeps_who_left_or_was_replaced_contradicts_nothing():
    without_n3 = registered({"n1": "JOINED", "n2": "JOINED", "n3": "LEFT"})
    assert verdict(LEAVES, all_say(("n1", "n2"), directory=without_n3)).doubts == ()
    replaced = operation("replace", {"n3": "replaced", "n4": "normal"})
    another = registered({"n1": "JOINED", "n2": "JOINED", "n3": "LEFT", "n4": "JOINED"})
    assert verdict(replaced, all_say(("n1", "n2", "n4"), directory=another)).doubts == ()


def test_a_node_that_was_replaced_is_a_ghost_also_in_the_account_of_the_one_that_replaced_it():
    replaced = operation("replace", {"n3": "replaced", "n4": "normal"})
    others = all_say(("n1", "n2", "n4"), by=("n1", "n2"))
    assert found(replaced, [*others, account("n4", NODES)]) == [("ghost-member", ("n3",))]


def test_what_was_refused_and_happened_is_called_that():
    refused = operation("decommission", {"n3": "left"}, "fail")
    assert found(refused, all_say(("n1", "n2"))) == [("failed-change-took-effect", ("n3",))]
    joined = operation("bootstrap", {"n4": "normal"}, "fail")
    assert found(joined, all_say(NODES)) == [("failed-change-took-effect", ("n4",))]


def test_after_an_unknown_outcome_the_accounts_must_agree():
    unknown = operation("bootstrap", {"n4": "normal"}, "info")
    accounts = [account("n1", FOUNDERS), *all_say(NODES, by=("n2", "n3"))]
    assert found(unknown, accounts) == [("ring-disagreement", ("n4",))]


@pytest.mark.parametrize("changed", [{"tokens": ["51"]}, {"host_id": "other"}])
def test_one_node_that_knows_another_by_other_tokens_or_another_host_id_disagrees(changed):
    accounts = [account("n1", FOUNDERS, n3=member("n3", **changed)), *all_say(FOUNDERS, by=("n2", "n3"))]
    assert found([], accounts) == [("ring-disagreement", ("n3",))]
    # All of them say the same: after a replacement at the same address there may be a new host id.
    same = [account(node, FOUNDERS, n3=member("n3", **changed)) for node in FOUNDERS]
    assert found([], same) == []


def test_a_move_shows_everywhere_unless_another_change_followed():
    moved = operation("move", {"n3": "normal"}, to="60")
    new = {"n3": member("n3", tokens=["60"])}
    assert found(moved, all_say(FOUNDERS, **new)) == []
    assert found(moved, all_say(FOUNDERS)) == [("change-without-effect", ("n3",))]
    assert found(operation("move", {"n3": "normal"}, "fail", to="60"), all_say(FOUNDERS)) == []
    again = operation("move", {"n3": "normal"}, number=1, ms=300, ends_ms=400, to="70")
    assert found([*moved, *again], all_say(FOUNDERS, n3=member("n3", tokens=["70"]))) == []
    assert found([*moved, *again], all_say(FOUNDERS, **new)) == [("change-without-effect", ("n3",))]


ATTEMPT = {"outcome": "info", "command": "nodetool decommission", "node": "n3", "seconds": 1.0, "timed_out": True}


def fault(begins_ms, ends_ms):
    value = orjson.dumps({"id": 9, "nemesis": "partition", "nodes": ["n1"], "parameters": {}}).decode()
    return [f"@{begins_ms} -- info fault-begins {value}", f"@{ends_ms} -- info fault-ends {value}"]


def test_an_operation_that_runs_into_its_limit_hangs_unless_a_fault_held_it_up():
    hangs = operation("decommission", {"n3": "left"}, "info", ends_ms=5000, attempts=[ATTEMPT])
    assert found(hangs, all_say(FOUNDERS)) == [("hanging-change", ("n3",))]
    assert [one.evidence["operation"] for one in verdict(hangs, all_say(FOUNDERS)).anomalies] == ["decommission"]
    for elsewhere in (fault(2, 3), fault(150, 4000), fault(5000, 6000)):
        assert found([*hangs, *elsewhere], all_say(FOUNDERS)) == [("hanging-change", ("n3",))]
    # A fault that ended less than its limit (1 s) before may have held it up.
    for doubtful in ([*hangs, *fault(150, 4500)], [*hangs, *fault(150, 6000)]):
        result = verdict(doubtful, all_say(FOUNDERS))
        assert (result.valid, [doubt.kind for doubt in result.doubts]) == ("unknown", ["time"])
    answered = {**ATTEMPT, "timed_out": False}
    tried = operation("decommission", {"n3": "left"}, "info", ends_ms=5000, attempts=[ATTEMPT, answered])
    assert found(tried, all_say(FOUNDERS)) == []


RESTART = {"outcome": "ok", "command": "restart", "node": "n3", "seconds": 1.0, "timed_out": False}
ANSWERED = {**ATTEMPT, "timed_out": False}


@pytest.mark.parametrize(
    ("attempts", "hangs"),
    [
        ([ATTEMPT, RESTART, ATTEMPT], True),
        ([ATTEMPT, RESTART, ATTEMPT, RESTART, ATTEMPT], True),
        ([ATTEMPT, {**RESTART, "command": "nodetool abortdecommission"}, ATTEMPT], True),
        # One limit alone: it may have been slow.
        ([ATTEMPT, RESTART], False),
        ([ATTEMPT, RESTART, ANSWERED], False),
        ([ATTEMPT, RESTART, {**ANSWERED, "outcome": "ok"}], False),
        ([ATTEMPT, RESTART, ATTEMPT, RESTART, ANSWERED], False),
        ([ANSWERED, RESTART, ATTEMPT], False),
        # The node was not taken back, so the second beginning met the first.
        ([ATTEMPT, {**RESTART, "outcome": "info"}, ATTEMPT], False),
        # Answers of tries at the same, or at something else, are answers.
        ([ATTEMPT, ANSWERED, ATTEMPT], False),
        ([ATTEMPT, {**ANSWERED, "outcome": "ok"}, ATTEMPT], False),
        ([ATTEMPT, RESTART, {**ATTEMPT, "command": "nodetool move"}], False),
        ([ATTEMPT, RESTART, {**ATTEMPT, "command": "nodetool assassinate"}], False),
        ([ATTEMPT, RESTART, ATTEMPT, RESTART], False),
    ],
)
def test_an_operation_hangs_that_was_taken_back_and_runs_into_its_limit_each_time_that_it_is_begun(attempts, hangs):
    tried = operation("decommission", {"n3": "left"}, "info", ends_ms=9000, attempts=attempts)
    assert found(tried, all_say(FOUNDERS)) == ([("hanging-change", ("n3",))] if hangs else [])
    doubts = [doubt.kind for doubt in verdict([*tried, *fault(150, 8500)], all_say(FOUNDERS)).doubts]
    assert doubts == (["time"] if hangs else []), "a fault may have held the last of them up"
    assert found([*tried, *fault(150, 4000)], all_say(FOUNDERS)) == ([("hanging-change", ("n3",))] if hangs else [])


def replicated(count, ms, outcome="ok", f="alter-keyspace"):
    """The two events, 10 ms apart, of a change to so many replicas."""
    replication = {"replication": {"class": "SimpleStrategy", "replication_factor": count}}
    return [f"@{ms} p0 n1 invoke {f} k {orjson.dumps(replication).decode()}", f"@{ms + 10} p0 n1 {outcome}"]


@pytest.mark.parametrize(
    ("altered", "valid"),
    [
        ([], False),
        (replicated(1, 60), "unknown"),
        (replicated(1, 60, "info"), "unknown"),
        (replicated(1, 60, "fail InvalidRequest: no"), False),
        (replicated(1, 4000), "unknown"),
        (replicated(1, 5000), False),
        (replicated(1, 6000), False),
        ([*replicated(1, 60), *replicated(2, 80)], False),
        ([*replicated(1, 60), *replicated(2, 4000)], "unknown"),  # one replica as the removal began
        ([*replicated(2, 30, "fail InvalidRequest: no"), *replicated(1, 60)], "unknown"),
        ([*replicated(1, 60), *replicated(2, 90)], "unknown"),  # answered as the removal began
        ([*replicated(1, 60), *replicated(2, 80, "info")], "unknown"),
    ],
)
def test_a_removal_that_takes_the_only_replica_of_rows_away_need_not_end(altered, valid):
    made = replicated(3, 10, f="create-keyspace")
    hangs = operation("removenode", {"n3": "left"}, "info", ends_ms=5000, attempts=[ATTEMPT])
    dies = [line.replace('"parameters":{', '"parameters":{"loses_disk":true,') for line in hangs]
    dies = [line.replace("true,}", "true}") for line in dies]
    result = verdict([*made, *altered, *dies], all_say(FOUNDERS))
    assert (result.valid, len(result.doubts)) == (valid, valid == "unknown")
    assert [one.type for one in result.anomalies] == ([] if valid else ["hanging-change"])
    # A node that hands its rows over loses nothing.
    assert found([*made, *altered, *hangs], all_say(FOUNDERS)) == [("hanging-change", ("n3",))]


@pytest.mark.parametrize(
    ("authority", "parameters", "others", "doubts"),
    [
        ("log", '{"loses_disk":true}', {"n3": "left"}, ["undecided"]),
        ("group0", '{"loses_disk":true}', {"n3": "left"}, ["undecided"]),
        ("disk", '{"loses_disk":true}', {"n3": "left"}, []),
        ("group0", '{"loses_disk":true}', {}, []),
        ("group0", "{}", {"n3": "left"}, []),
    ],
)
def test_an_operation_that_takes_a_majority_of_the_members_away_need_not_end_where_a_log_decides(
    authority, parameters, others, doubts
):
    # As where one of two members takes its own place with an empty disk, or is removed.
    left = [*FOUNDERS[:2], *(name for name in FOUNDERS[2:] if name not in others)]
    hangs = operation("replace", {"n2": "normal"}, "info", number=1, ms=1000, ends_ms=5000, attempts=[ATTEMPT])
    hangs = [line.replace('"parameters":{}', f'"parameters":{parameters}') for line in hangs]
    before = operation("decommission", others) if others else []
    readings = [f'settled {",".join(left)} version v1 {{"authority": "{authority}"}}']
    result = verdict([*before, *hangs], [*all_say(left), *readings])
    assert [doubt.kind for doubt in result.doubts] == doubts
    assert [one.type for one in result.anomalies] == ([] if doubts else ["hanging-change"])


def test_a_sequence_that_is_under_way_when_all_have_answered_hangs():
    directory = registered(dict.fromkeys(NODES, "JOINED"), sequences={"n4": "JOIN: MID_JOIN"})
    assert found(JOINS, all_say(NODES, directory=directory)) == [("hanging-change", ("n4",))]
    unknown = operation("bootstrap", {"n4": "normal"}, "info")
    assert found(unknown, all_say(NODES, directory=directory)) == []


def test_an_address_of_nobody_is_a_ghost_in_a_run_that_changed_the_ring():
    accounts = [*all_say(NODES, by=("n1", "n2", "n4")), account("n3", (*NODES, "n5"))]
    assert found(JOINS, accounts) == [("ghost-member", (ADDRESS["n5"],))]
    # A deployed cluster may have nodes that its file does not name.
    others = [account(node, (*FOUNDERS, "n5")) for node in FOUNDERS]
    assert found([], others) == []


@pytest.mark.parametrize("prefix", ["192.0.2.", "1.0.0."])
def test_nodes_that_clients_reach_by_other_addresses_are_judged_by_their_own(prefix):
    public = START.replace("10.0.0.", prefix)
    silent = all_say(FOUNDERS, by=("n1", "n2"))
    assert Membership().check(judged([public], silent), limit_s=5).anomalies == ()
    forgotten = [account("n1", ("n1",)), *all_say(FOUNDERS, by=("n2", "n3"))]
    kinds = {one.type for one in Membership().check(judged([public], forgotten), limit_s=5).anomalies}
    assert kinds == {"missing-member"}


def test_what_was_not_read_is_a_doubt():
    assert [doubt.kind for doubt in verdict([], []).doubts] == ["nothing-to-judge"]
    assert [doubt.kind for doubt in verdict(JOINS, []).doubts] == ["unread"]
    unread = [*all_say(FOUNDERS, by=("n1", "n2")), "settled n3 ring NodeUnreachable: gone"]
    assert [(doubt.kind, "n3" in doubt.text) for doubt in verdict([], unread).doubts] == [("unread", True)]
    unended = operation("decommission", {"n3": "left"}, None)
    assert [doubt.kind for doubt in verdict(unended, all_say(FOUNDERS)).doubts] == ["incomplete-run"]


@pytest.mark.parametrize("other", [{"dc": "dc2"}, {"rack": "r2"}, {"dc": None}])
def test_a_place_of_a_member_that_nodes_name_differently_is_in_doubt(other):
    placed = {name: {**member(name), "dc": "dc1", "rack": "r1"} for name in FOUNDERS}
    assert verdict([], [account(node, FOUNDERS, **placed) for node in FOUNDERS]).valid is True
    for liar in FOUNDERS:
        told = placed | {"n2": placed["n2"] | other}
        accounts = [account(node, FOUNDERS, **(told if node == liar else placed)) for node in FOUNDERS]
        result = verdict([], accounts)
        assert (result.valid, {doubt.kind for doubt in result.doubts}) == ("unknown", {"undecided"})


@pytest.mark.parametrize("liar", FOUNDERS)
def test_nodes_of_two_releases_may_name_places_differently_and_those_of_one_may_not(liar):
    placed = {name: {**member(name), "dc": "dc1", "rack": "r1"} for name in FOUNDERS}
    others = {name: {**member(name), "dc": "dc2", "rack": "r2"} for name in FOUNDERS}
    releases = {"n1": "5", "n2": "5", "n3": "6"}
    shown = [
        f'{phase} {node} version v {{"release": "{release}"}}'
        for phase in ("settled", "restarted")
        for node, release in releases.items()
    ]
    told = {node: others if release == "6" else placed for node, release in releases.items()}
    accounts = {node: account(node, FOUNDERS, **told[node]) for node in FOUNDERS}
    assert verdict([], [*shown, *accounts.values()]).doubts == ()
    accounts[liar] = account(liar, FOUNDERS, **(told[liar] | {"n2": {**member("n2"), "dc": "dc3", "rack": "r1"}}))
    doubts = [doubt.text for doubt in verdict([], [*shown, *accounts.values()]).doubts]
    assert any(f"the data centre or rack of {ADDRESS['n2']}" in text for text in doubts) is (releases[liar] == "5")


@pytest.mark.parametrize("changed", ["other", None])
def test_directories_that_give_a_node_two_host_ids_are_in_doubt(changed):
    directory = registered(dict.fromkeys(FOUNDERS, "JOINED"))
    other = directory | {ADDRESS["n2"]: {**directory[ADDRESS["n2"]], "host_id": changed}}
    again = all_say(FOUNDERS, directory=directory, phase="restarted")
    assert verdict([], [*all_say(FOUNDERS, directory=directory), *again]).doubts == ()
    for accounts in (
        [account("n1", FOUNDERS, directory=other), *all_say(FOUNDERS, ("n2", "n3"), directory=directory)],
        [*all_say(FOUNDERS, directory=other), *again],
    ):
        texts = [doubt.text for doubt in verdict([], accounts).doubts]
        assert f"directories differ in the host id of {ADDRESS['n2']}" in texts


def test_two_nodes_with_one_id_are_in_doubt_also_while_another_one_is_of_unknown_state():
    """Only nodes of the operation itself may be in between."""
    unknown = operation("bootstrap", {"n4": "normal"}, "info")
    for changed in ({"host_id": "h-n2"}, {"tokens": ["25"]}):
        twice = all_say(FOUNDERS, n3={**member("n3"), **changed})
        result = verdict(unknown, twice)
        assert (result.valid, {doubt.kind for doubt in result.doubts}) == ("unknown", {"undecided"})
        assert verdict(operation("move", {"n3": "normal"}, "info"), twice).doubts == ()
    assert verdict(unknown, all_say(FOUNDERS)).doubts == ()


def request(node, ms, *, ends_ms=None, outcome="ok", process=5):
    return [
        f"@{ms} p{process} {node} invoke get k.q/0",
        f"@{ms + 1 if ends_ms is None else ends_ms} p{process} {node} {outcome}",
    ]


def test_a_node_that_left_and_answers_clients_is_in_doubt():
    others = all_say(("n1", "n2"))
    for legal in (
        request("n3", 150),
        request("n3", 190, ends_ms=210),
        request("n3", 200, ends_ms=210),
        request("n3", 250, outcome="fail"),
        request("n3", 250, outcome="info"),
        request("n2", 250),
    ):
        assert verdict([*LEAVES, *legal], others).valid is True
    result = verdict([*LEAVES, *request("n3", 250)], others)
    assert (result.valid, [doubt.kind for doubt in result.doubts]) == ("unknown", ["undecided"])
    assert "n3 answered 1 requests" in result.doubts[0].text
    (doubt,) = verdict([*LEAVES, *request("n3", 250), *request("n3", 260, process=6)], others).doubts
    assert "n3 answered 2 requests" in doubt.text
    assert doubt.text.endswith("the first is op 3")
    # Where the outcome is unknown, or the node came back, it may.
    unknown = operation("decommission", {"n3": "left"}, "info")
    assert verdict([*unknown, *request("n3", 250)], all_say(FOUNDERS)).valid is True
    back = operation("bootstrap", {"n3": "normal"}, number=1, ms=300, ends_ms=400)
    assert verdict([*LEAVES, *back, *request("n3", 450)], all_say(FOUNDERS)).valid is True


def test_a_node_that_answers_clients_before_it_was_asked_to_join_is_in_doubt():
    others = all_say(NODES)
    for legal in (
        request("n4", 250),
        request("n4", 90, ends_ms=110),
        request("n4", 90, ends_ms=100),
        request("n4", 50, outcome="fail"),
        request("n4", 50, outcome="info"),
        request("n3", 50),
    ):
        assert verdict([*JOINS, *legal], others).valid is True
    result = verdict([*JOINS, *request("n4", 50), *request("n4", 60, process=6)], others)
    assert (result.valid, [doubt.kind for doubt in result.doubts]) == ("unknown", ["undecided"])
    assert result.doubts[0].text == "n4 answered 2 requests of clients before it was asked to join; the first is op 1"
    never = verdict(request("n4", 250), all_say(FOUNDERS))
    assert "n4 answered 1 requests of clients before it was asked to join" in never.doubts[0].text


def readings(events, accounts, node, ms, *, error=None):
    """Judge a run in which a node was asked for its schema while the run went on."""
    records = judged([START, *events], accounts)
    seen = dict.fromkeys(OBSERVATIONS.names) | {
        "time": ms * 1_000_000, "phase": "running", "node": node, "sample": 1, "kind": "version", "id": "v", "error": error
    }  # fmt: skip
    rows = pa.Table.from_pylist([*records.observations.to_pylist(), seen], schema=OBSERVATIONS)
    return Membership().check(Records.of(records.history, rows), limit_s=5)


@pytest.mark.parametrize(
    ("events", "members", "node", "ms", "text"),
    [
        pytest.param(JOINS, NODES, "n4", 50, "before it was asked to join", id="before it joins"),
        pytest.param(JOINS, NODES, "n4", 100, None, id="as it begins to join"),
        pytest.param(JOINS, NODES, "n4", 150, None, id="while it joins"),
        pytest.param(JOINS, NODES, "n3", 50, None, id="a founder"),
        pytest.param([], FOUNDERS, "n4", 50, "before it was asked to join", id="it never joins"),
        pytest.param(LEAVES, ("n1", "n2"), "n3", 150, None, id="before it has left"),
        pytest.param(LEAVES, ("n1", "n2"), "n3", 10_000, None, id="the reading may have begun before"),
        pytest.param(LEAVES, ("n1", "n2"), "n3", 10_200, None, id="it may have just begun before"),
        pytest.param(LEAVES, ("n1", "n2"), "n3", 10_201, "after its decommission was acknowledged", id="long after"),
        pytest.param(operation("decommission", {"n3": "left"}, "fail"), FOUNDERS, "n3", 10_201, None, id="it stays"),
    ],
)
def test_a_node_that_shows_its_schema_while_it_is_no_member_is_in_doubt(events, members, node, ms, text):
    assert readings(events, all_say(members), node, ms, error="refused").doubts == ()
    result = readings(events, all_say(members), node, ms)
    assert [text in doubt.text for doubt in result.doubts] == ([] if text is None else [True])
    assert result.valid == (True if text is None else "unknown")


def test_a_node_that_is_shown_again_after_it_had_left_is_in_doubt():
    def shown(state, ms):
        return noted("operation", {"n1": "normal", "n2": "normal", "n3": state, "n4": "absent"}, ms=ms)

    others = all_say(("n1", "n2"))
    assert verdict([*LEAVES, shown("left", 210), shown("left", 300)], others).valid is True
    # The one that is asked may not have heard yet.
    assert verdict([*LEAVES, shown("normal", 210), shown("left", 300)], others).valid is True
    for state in ("normal", "leaving"):
        result = verdict([*LEAVES, shown("left", 210), shown(state, 300), shown("left", 400)], others)
        assert (result.valid, [doubt.kind for doubt in result.doubts]) == ("unknown", ["undecided"])
    for begins, ends in ((220, 290), (205, 210)):
        back = operation("bootstrap", {"n3": "normal"}, number=1, ms=begins, ends_ms=ends)
        assert verdict([*LEAVES, shown("left", 210), *back, shown("normal", 300)], all_say(FOUNDERS)).valid is True
    earlier = operation("bootstrap", {"n3": "normal"}, number=1, ms=204, ends_ms=209)
    assert verdict([*LEAVES, *earlier, shown("left", 210), shown("normal", 300)], all_say(FOUNDERS)).valid == "unknown"
    unended = operation("bootstrap", {"n3": "normal"}, None, number=1, ms=220)
    doubts = verdict([*LEAVES, shown("left", 210), *unended, shown("normal", 300)], all_say(FOUNDERS)).doubts
    assert [doubt.kind for doubt in doubts] == ["incomplete-run"]


@pytest.mark.parametrize(
    ("seconds", "valid"), [(9.0, True), (60.0, True), (75.0, True), (75.5, "unknown"), (80.0, "unknown")]
)
def test_an_attempt_that_ended_long_after_its_limit_is_in_doubt(seconds, valid):
    slow = {**ATTEMPT, "outcome": "ok", "timed_out": False, "seconds": seconds}
    lines = operation("decommission", {"n3": "left"}, ends_ms=99000, attempts=[slow])
    limited = [line.replace('"parameters":{}', '"parameters":{"limit_s":10.0}') for line in lines]
    result = verdict(limited, all_say(("n1", "n2")))
    assert (result.valid, [doubt.kind for doubt in result.doubts]) == (valid, ["time"] * (valid == "unknown"))


# ── gossip forgets a node that was replaced ──────────────────────────────────────────────────────────────────────────

REPLACED = operation("replace", {"n3": "replaced", "n4": "normal"}, ends_ms=1_000)
LATER = ("n1", "n2", "n4")


def told_at(ms, phase, *, by=LATER, listed=(), members=LATER, **more):
    gossiped = gossip((*LATER, *listed))
    return [f"@{ms} {account(node, members, phase=phase, gossip=gossiped, **more)}" for node in by]


@pytest.mark.parametrize("ms", [50_000, 61_000])
def test_gossip_may_list_a_node_for_a_minute_after_it_was_replaced(ms):
    accounts = [*told_at(ms, "settled", listed=("n3",)), *told_at(130_000, "restarted")]
    result = verdict(REPLACED, accounts)
    assert (result.valid, result.doubts) == (True, ())


@pytest.mark.parametrize("last", LATER)
def test_gossip_that_lists_it_in_the_last_account_of_a_node_is_in_doubt(last):
    others = [node for node in LATER if node != last]
    accounts = [*told_at(50_000, "settled", listed=("n3",)), *told_at(60_000, "restarted", by=others)]
    result = verdict(REPLACED, accounts)
    assert (result.valid, [doubt.text for doubt in result.doubts]) == (
        "unknown",
        [f"n3 was replaced less than 60 s before the last account of {last}, which may still list it in gossip"],
    )


@pytest.mark.parametrize(
    "accounts",
    [
        told_at(62_000, "settled", listed=("n3",)),
        told_at(50_000, "settled", members=(*LATER, "n3"), listed=("n3",)),
        told_at(50_000, "settled", listed=("n3",), directory=registered(dict.fromkeys(LATER, "JOINED"))),
    ],
    ids=["longer", "in system.peers, too", "where there is a directory"],
)
def test_a_replaced_node_that_is_listed_longer_or_elsewhere_is_a_ghost(accounts):
    assert "ghost-member" in {one.type for one in verdict(REPLACED, accounts).anomalies}


def test_a_node_that_left_is_a_ghost_in_gossip_at_once():
    accounts = [
        f"@5000 {account(node, ('n1', 'n2'), phase='settled', gossip=gossip(FOUNDERS))}" for node in ("n1", "n2")
    ]
    assert "ghost-member" in {one.type for one in verdict(LEAVES, accounts).anomalies}


@pytest.mark.parametrize("phase", ["settled", "restarted"])
def test_a_node_that_showed_its_schema_and_no_ring_is_in_doubt(phase):
    read = f"{phase} n1,n2,n3 keyspace k"
    every = [account(node, FOUNDERS, phase=one) for node in FOUNDERS for one in ("settled", "restarted")]
    assert verdict([], [*every, read]).valid is True
    missing = account("n2", FOUNDERS, phase=phase)
    result = verdict([], [*(one for one in every if one != missing), read])
    assert (result.valid, [doubt.kind for doubt in result.doubts]) == ("unknown", ["unread"])
    assert "n2 showed its schema" in result.doubts[0].text


def test_readings_without_any_account_of_the_ring_are_not_judged():
    result = verdict([], ["settled n1,n2,n3 keyspace k"])
    assert [doubt.kind for doubt in result.doubts] == ["nothing-to-judge"]


def other(node, phase, **changes):
    """An account in which n2 is told otherwise."""
    row, _, definition = account(node, FOUNDERS, phase=phase).partition("{")
    told = orjson.loads("{" + definition)
    (told["self"] if node == "n2" else told["peers"][ADDRESS["n2"]]).update(changes)
    return row + orjson.dumps(told).decode()


@pytest.mark.parametrize("changes", [{"tokens": ["5"]}, {"host_id": "h9"}, {"rack": "r9"}])
def test_a_member_that_all_tell_otherwise_after_the_restart_is_in_doubt(changes):
    settled = [account(node, FOUNDERS, phase="settled") for node in FOUNDERS]
    restarted = [other(node, "restarted", **changes) for node in FOUNDERS]
    assert verdict([], [*settled, *(account(node, FOUNDERS, phase="restarted") for node in FOUNDERS)]).doubts == ()
    result = verdict([], [*settled, *restarted])
    (doubt,) = result.doubts
    assert doubt.text.startswith(ADDRESS["n2"])
    assert result.anomalies == (), "in each phase all say the same"
    one = [other("n1", "settled", **changes), *settled[1:]]
    again = [account(node, FOUNDERS, phase="restarted") for node in FOUNDERS]
    assert not any("after the restart" in each.text for each in verdict([], [*one, *again]).doubts)
    alike = [other(node, phase, **changes) for phase in ("settled", "restarted") for node in FOUNDERS]
    assert verdict([], alike).doubts == ()
    open_to_doubt = operation("move", {"n2": "normal"}, "info")
    assert not any("after the restart" in one.text for one in verdict(open_to_doubt, [*settled, *restarted]).doubts)


# ── which of several ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_vouches():
    assert Membership().vouches


def test_accounts_and_operations_are_counted():
    accounts = [*all_say(FOUNDERS, phase="settled"), *all_say(FOUNDERS, by=("n1", "n2"), phase="restarted")]
    result = verdict(operation("move", {"n3": "normal"}, None), accounts)
    assert result.figures["accounts"] == {"settled": 3, "restarted": 2}
    assert result.figures["operations"] == {"unended": 1}


def test_a_node_that_is_known_by_its_own_word_alone_is_no_stranger_and_any_other_is():
    start = noted("boot", dict.fromkeys(FOUNDERS, "normal"))
    told = [*all_say(("n1", "n2", "n4"), by=("n2", "n4"))]
    for listed, kinds in ((("n1", "n2", "n4"), []), (("n1", "n2", "n4", "n5"), [("ghost-member", (ADDRESS["n5"],))])):
        records = judged([start, *LEAVES], [account("n1", listed), *told])
        anomalies = Membership().check(records, limit_s=5).anomalies
        assert sorted({(one.type, one.objects) for one in anomalies}) == kinds


def test_a_node_whose_address_nobody_told_hides_no_other_one():
    """Clients reach the nodes by other addresses, and n1 gave no account, so that its own address is not known."""
    start = START.replace("10.0.0.", "192.0.2.")
    whole, without_n3 = account("n3", FOUNDERS), account("n2", ("n1", "n2"))
    kinds = {one.type for one in Membership().check(judged([start], [without_n3, whole]), limit_s=5).anomalies}
    assert kinds == {"missing-member"}
    twin = Membership().check(judged([start], [account("n2", FOUNDERS), whole]), limit_s=5)
    assert twin.anomalies == ()


@pytest.mark.parametrize("node", NODES)
def test_a_sequence_that_is_under_way_is_of_the_node_that_has_it(node):
    directories = [registered(dict.fromkeys(NODES, "JOINED"), sequences=each) for each in ({node: "JOIN"}, {})]
    accounts = [account("n1", NODES, directory=directories[0], phase="settled")]
    accounts += all_say(NODES, ("n2", "n3", "n4"), directory=directories[1], phase="settled")
    (hangs,) = verdict(JOINS, accounts).anomalies
    assert (hangs.objects, set(hangs.nodes)) == ((node,), {node, "n1"})


def test_nodes_disagree_on_a_member_that_another_one_lacks():
    lacking = account("n1", FOUNDERS)
    others = [account("n2", NODES), account("n3", NODES, n4=member("n4", tokens=["76"]))]
    assert found(JOINS, [lacking, *others]) == [("missing-member", ("n4",)), ("ring-disagreement", ("n4",))]
    assert found(JOINS, [lacking, *all_say(NODES, ("n2", "n3"))]) == [("missing-member", ("n4",))]


@pytest.mark.parametrize("node", FOUNDERS)
def test_nodes_disagree_on_any_node_whose_leaving_is_of_unknown_outcome(node):
    unknown = operation("decommission", {node: "left"}, "info")
    rest = tuple(one for one in FOUNDERS if one != node)
    first, second = rest
    assert found(unknown, [account(first, FOUNDERS), account(second, rest)]) == [("ring-disagreement", (node,))]
    assert found(unknown, all_say(rest)) == []


def test_places_are_compared_also_where_the_release_of_one_node_is_not_known():
    """While nodes are of two releases, an account of a node whose release nothing tells says nothing of places."""
    upgrade = [
        line.replace('"parameters":{}', '"parameters":{"stage":"node"}')
        for line in operation("rolling-upgrade", {"n2": "normal"})
    ]
    shown = [f'settled {node} version v {{"release": "5"}}' for node in ("n2", "n3")]
    placed = {name: {**member(name), "dc": "dc1", "rack": "r1"} for name in FOUNDERS}
    other = placed | {"n1": placed["n1"] | {"rack": "r2"}}
    for told, strange in ((placed, False), (other, True)):
        accounts = [
            account("n1", FOUNDERS, phase="settled", **other),
            account("n2", FOUNDERS, phase="settled", **placed),
            account("n3", FOUNDERS, phase="settled", **told),
        ]
        texts = [doubt.text for doubt in verdict(upgrade, [*shown, *accounts]).doubts]
        assert any(f"the data centre or rack of {ADDRESS['n1']}" in text for text in texts) is strange


def test_requests_of_any_client_are_answers_and_those_of_the_conductor_are_none():
    others = all_say(("n1", "n2"))
    (doubt,) = verdict([*LEAVES, *request("n3", 250, process=0)], others).doubts
    assert "n3 answered 1 requests" in doubt.text
    own = ["@250 -- n3 invoke check-node {}", "@251 -- n3 ok check-node {}"]
    assert verdict([*LEAVES, *own], others).doubts == ()


def test_a_fault_that_begins_after_an_operation_had_ended_did_not_hold_it_up():
    hangs = operation("decommission", {"n3": "left"}, "info", ends_ms=5000, attempts=[ATTEMPT])
    assert found([*hangs, *fault(5500, 6000)], all_say(FOUNDERS)) == [("hanging-change", ("n3",))]
    assert verdict([*hangs, *fault(4999, 6000)], all_say(FOUNDERS)).valid == "unknown"


def test_a_slow_attempt_is_told_with_what_the_slowest_one_took():
    slow = [{**ATTEMPT, "outcome": "ok", "timed_out": False, "seconds": seconds} for seconds in (80.0, 95.0, 90.0)]
    lines = operation("decommission", {"n3": "left"}, ends_ms=99000, attempts=slow)
    limited = [line.replace('"parameters":{}', '"parameters":{"limit_s":10.0}') for line in lines]
    (doubt,) = verdict(limited, all_say(("n1", "n2"))).doubts
    assert doubt.text == "an attempt at decommission of n3 took 95 s, and its limit is 10 s (op 1)"


@pytest.mark.parametrize(
    ("before", "gone", "left", "doubts"),
    [
        ([], ("n3",), ("n1", "n2"), []),
        ([], ("n2", "n3"), ("n1",), ["undecided"]),
        (operation("decommission", {"n1": "left"}), ("n3",), ("n2",), ["undecided"]),
    ],
)
@pytest.mark.parametrize("to", ["left", "replaced"])
def test_nodes_that_are_removed_were_members_until_then(before, gone, left, doubts, to):
    becomes = dict.fromkeys(gone, to)
    hangs = operation("removenode", becomes, "info", number=1, ms=1000, ends_ms=5000, attempts=[ATTEMPT])
    hangs = [line.replace('"parameters":{}', '"parameters":{"loses_disk":true}') for line in hangs]
    accounts = all_say(("n2", "n3") if before else FOUNDERS, by=left)
    version = f'settled {",".join(left)} version v1 {{"authority": "log"}}'
    shown = noted("restart", dict.fromkeys(FOUNDERS, "normal") | dict.fromkeys(gone, "left"), ms=6000)
    result = verdict([*before, *hangs, shown], [*accounts, version])
    assert [doubt.kind for doubt in result.doubts] == doubts
    assert [one.type for one in result.anomalies] == ([] if doubts else ["hanging-change"])


def test_of_several_operations_the_last_one_is_told_first():
    leaves = operation("decommission", {"n4": "left"}, number=1, ms=300, ends_ms=400)
    ghosts = verdict([*JOINS, *leaves], all_say(NODES, by=FOUNDERS)).anomalies
    for ghost in ghosts:
        lines = [line for line in ghost.explanation.splitlines() if "op " in line]
        assert ["decommission n4" in line for line in lines] == [True, False]
        assert "T1 =" in lines[0]


@pytest.mark.parametrize(
    ("seconds", "fault_ends_ms", "kind"),
    [
        ((1.0, 3.0), 2001, "time"),  # the fault held the longer one up
        ((3.0, 1.0), 2001, "time"),
        ((1.0, 3.0), 2000, "hanging-change"),
        ((1.0,), 4001, "time"),
        ((1.0,), 4000, "hanging-change"),
        # It was not asked for: no node was reached.
        ((0.9,), 2000, None),
        ((1.0, 0.9), 2000, None),
        ((None,), 2000, None),
    ],
)
def test_a_fault_may_hold_up_the_longest_of_the_attempts_and_one_that_was_not_made_hung_for_nothing(
    seconds, fault_ends_ms, kind
):
    attempts = [{**ATTEMPT, "seconds": each} for each in seconds]
    hangs = operation("decommission", {"n3": "left"}, "info", ends_ms=5000, attempts=attempts)
    result = verdict([*hangs, *fault(150, fault_ends_ms)], all_say(FOUNDERS))
    assert [*(one.type for one in result.anomalies), *(one.kind for one in result.doubts)] == ([kind] if kind else [])


@pytest.mark.parametrize("phase", ["settled", "restarted"])
def test_nodes_that_disagree_are_told_with_the_phase_in_which_they_do(phase):
    same = [account(node, FOUNDERS, phase=each) for each in ("settled", "restarted") for node in FOUNDERS]
    strange = account("n1", FOUNDERS, phase=phase, n3=member("n3", tokens=["51"]))
    others = [one for one in same if one != account("n1", FOUNDERS, phase=phase)]
    (one,) = verdict([], [strange, *others]).anomalies
    assert (one.type, one.evidence["phase"]) == ("ring-disagreement", phase)


def test_a_member_that_gossip_does_not_list_is_told_otherwise_than_one_with_another_status():
    for told, text in (
        (gossip(("n1", "n3")), "n2, a member, is not in gossip of n1"),
        (gossip(FOUNDERS) | {ADDRESS["n2"]: "LEFT"}, "n2, a member, is LEFT in gossip of n1"),
        (gossip(FOUNDERS) | {ADDRESS["n2"]: ""}, "n2, a member, is without a status in gossip of n1"),
    ):
        accounts = [account("n1", FOUNDERS, phase="settled", gossip=told), *all_say(FOUNDERS, ("n2", "n3"))]
        (doubt,) = verdict([], accounts).doubts
        assert doubt.text.endswith(text)


@pytest.mark.parametrize(
    ("events", "members", "because"),
    [
        (LEAVES, FOUNDERS, "T1 was acknowledged, so n3 is no member"),
        (JOINS, FOUNDERS, "T1 was acknowledged, so n4 is a member"),
        ([], ("n1", "n2"), "Then n3 is a member"),
        (operation("decommission", {"n3": "left"}, "fail"), ("n1", "n2"), "the answer to T1 proves that nothing was changed, so n3 is"),
    ],
)  # fmt: skip
def test_a_list_of_members_is_held_against_the_answer_that_decided(events, members, because):
    anomalies = verdict(events, all_say(members, by=("n1", "n2"))).anomalies
    assert anomalies
    assert all(because in one.explanation for one in anomalies)
