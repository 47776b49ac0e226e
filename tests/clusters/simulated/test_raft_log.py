"""A Raft log's terms, its latest members, the majorities that decide while members change, and votes that a later term overtakes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from schemaquake.clusters.simulated.models.raft import (
    Configuration,
    Entry,
    Log,
    Machine,
    Member,
    Raft,
    _Answer,
    _Append,
    _Confirm,
    _Lost,
    _Plea,
    _Snapshot,
    _Vote,
)


def members(*names, silent=()):
    return tuple(Member(name, name * 8, votes=name not in silent) for name in names)


def log_of(*commands, index=0):
    return Log(index=index, entries=[Entry(1, index + place, command) for place, command in enumerate(commands, 1)])


def test_a_majority_of_old_and_new_decides_while_members_change():
    joint = Configuration(members("a", "b", "c"), members("a"))
    assert not joint.agreed(["b", "c"])
    assert not joint.agreed(["a"])
    assert joint.agreed(["a", "b"])
    assert Configuration(members("a", "b", "c")).agreed(["b", "c"])


def test_a_member_without_a_vote_does_not_count():
    five = Configuration(members("a", "b", "c", silent=("b", "c")))
    assert five.agreed(["a"])
    assert not five.agreed(["b", "c"])
    assert [five.votes(name) for name in "abc"] == [True, False, False]
    assert five.names == ("a", "b", "c")


def test_the_latest_members_count_though_they_are_not_committed():
    first, second = Configuration(members("a")), Configuration(members("a", "b"))
    assert log_of(first, None, second, None).configuration() == (second, 3)
    assert log_of(None).configuration() == (Configuration(()), 0)


def test_what_a_snapshot_has_is_forgotten_but_for_the_members():
    named = Configuration(members("a", "b"))
    log = log_of(named, "x", "y")
    log.forget(2)
    assert (log.index, log.index_term, log.last, log.members) == (2, 1, 3, named)
    assert [log.term_at(index) for index in (1, 2, 3, 4)] == [-1, 1, 1, -1]
    assert log.entry(3).command == "y"


def raft_of(role):
    machine = Machine(
        role=lambda _node: role,
        server_id=lambda node: f"id-{node.name}",
        committed=lambda _node: None,
        image=lambda _node: None,
        take_over=lambda *_: None,
    )
    sent = []
    node = SimpleNamespace(
        name="a", server=SimpleNamespace(send=lambda name, kind, body: sent.append((name, kind, body)))
    )
    return Raft(machine, frozenset()), node, sent


def hears_of_a_later_term(role):
    role.term, role.vote = 9, ""


def test_a_candidate_that_hears_of_a_later_term_meanwhile_asks_for_no_votes():
    role = Raft.new_role(log_of(Configuration(members("a", "b", "c"))))
    raft, node, sent = raft_of(role)
    steps = raft._stand(node, on_trial=False)
    next(steps)
    next(steps)  # its own vote is on its way to the disk
    hears_of_a_later_term(role)
    with pytest.raises(StopIteration):
        next(steps)
    assert (role.granted, sent) == (None, [])


def test_a_node_that_hears_of_a_later_term_meanwhile_gives_no_vote_in_it():
    role = Raft.new_role(log_of(Configuration(members("a", "b", "c"))))
    role.term = 2
    raft, node, sent = raft_of(role)
    plea = SimpleNamespace(group="", term=2, on_trial=False, last=(1, 1), to="id-a")
    steps = raft._weigh(node, SimpleNamespace(sender="b", body=plea))
    next(steps)
    next(steps)  # w2
    hears_of_a_later_term(role)
    with pytest.raises(StopIteration):
        next(steps)
    assert role.vote == ""
    assert [(name, vote.term, vote.granted) for name, _, vote in sent] == [("b", 9, False)]


def test_a_member_that_comes_back_under_another_id_has_lost_what_it_had_confirmed():
    """Asked from the entry after that on, it refused the same one for ever, and a ring change waited for it."""
    role = Raft.new_role(log_of(Configuration(members("a", "b")), "x"))
    role.is_leader = True
    raft, node, _ = raft_of(role)
    raft._look_at_members(node, role)
    role.progress["b"].match = 2
    role.log.entries.append(Entry(1, 3, Configuration(members("a", "b", "c"))))
    raft._look_at_members(node, role)
    assert role.progress["b"].match == 2
    role.log.entries.append(Entry(1, 4, Configuration((*members("a", "c"), Member("b", "another", votes=False)))))
    raft._look_at_members(node, role)
    assert {name: each.match for name, each in role.progress.items()} == {"b": 0, "c": 0}


def raft_that_gets(role):
    """A part of the group, whose node has the server id `id-a`."""
    raft, node, sent = raft_of(role)
    node.kernel = SimpleNamespace(heap=SimpleNamespace(now_ns=0))
    node.server.staged = lambda _stage, steps: steps
    node.server.answer = lambda message, body: sent.append((message.sender, "answer", body))
    return raft, node, sent


@pytest.mark.parametrize(("addressee", "is_heeded"), [("id-a", True), ("id-of-the-dead", False)])
@pytest.mark.parametrize("kind", ["append", "snapshot", "plea", "confirm"])
def test_a_message_for_the_node_that_had_an_address_before_is_not_heeded(kind, addressee, is_heeded):
    role = Raft.new_role(Log(group="g", term=1))
    raft, node, sent = raft_that_gets(role)
    last = (1, 0)
    body = {
        "append": _Append("g", 1, last, (), 0, addressee),
        "snapshot": _Snapshot("g", 1, last, Configuration(()), None, addressee),
        "plea": _Plea("g", 1, False, last, addressee),
        "confirm": _Confirm("g", 1, {"a": addressee}),
    }[kind]
    steps = raft.receive(node, SimpleNamespace(sender="b", kind=kind, body=body))
    assert (steps is not None or sent == [("b", "answer", True)]) is is_heeded


@pytest.mark.parametrize(
    ("voter", "granted"), [("bbbbbbbb", {"a": None, "b": None}), ("id-of-the-new-one", {"a": None})]
)
def test_a_vote_counts_if_it_is_of_the_member_that_was_asked(voter, granted):
    log = log_of(Configuration(members("a", "b", "c", "d")))
    log.group, log.term = "g", 2
    role = Raft.new_role(log)
    role.granted = {"a": None}
    raft, node, _ = raft_that_gets(role)
    raft.receive(node, SimpleNamespace(sender="b", kind="vote", body=_Vote("g", 2, False, True, voter)))
    assert role.granted == granted


@pytest.mark.parametrize(("voter", "match"), [("bbbbbbbb", 2), ("id-of-the-dead", 0)])
def test_a_leader_counts_what_a_member_has_and_not_what_the_one_before_had(voter, match):
    log = log_of(Configuration(members("a", "b", "c", "d", "e")), "x")
    log.group, log.term = "g", 1
    role = Raft.new_role(log)
    role.is_leader = True
    raft, node, _ = raft_that_gets(role)
    raft._look_at_members(node, role)
    raft.receive(node, SimpleNamespace(sender="b", kind="append-answer", body=_Answer("g", 1, True, 2, 0, voter)))
    assert role.progress["b"].match == match


@pytest.mark.parametrize(("is_leader", "kinds"), [(True, ["append"]), (False, [])], ids=["the leader", "another one"])
def test_a_leader_tells_a_member_that_knows_none_what_is_committed(is_leader, kinds):
    log = log_of(Configuration(members("a", "b", silent=("b",))), "x")
    log.group, log.term = "g", 1
    role = Raft.new_role(log)
    role.is_leader, role.commit = is_leader, 2
    raft, node, sent = raft_that_gets(role)
    raft._look_at_members(node, role)
    if is_leader:
        role.progress["b"].match, role.progress["b"].commit = 2, 2  # nothing to send, as far as it knows
    raft.receive(node, SimpleNamespace(sender="b", kind="lost", body=_Lost("g", 1, "bbbbbbbb")))
    assert [kind for _, kind, _ in sent] == kinds
    assert all(body.commit == 2 for _, _, body in sent)
