"""A Raft log's terms, its latest members, and the majorities that decide while members change."""

from __future__ import annotations

from schemaquake.clusters.simulated.models.raft import Configuration, Entry, Log, Member


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
