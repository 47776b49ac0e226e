"""What must hold of all nodes at once: each breach is logged by a node, and its legal twin, one fact away, is not."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import SimpleNamespace
from uuid import UUID

import pytest
from simulated_runs import SCYLLA, SIX, plan_of

from schemaquake.clusters.simulated.data import RowWrite
from schemaquake.clusters.simulated.disk import Disk
from schemaquake.clusters.simulated.faces import Joining
from schemaquake.clusters.simulated.models.group0 import Group0
from schemaquake.clusters.simulated.models.invariants import (
    Breaches,
    GroupInvariants,
    LogInvariants,
    RingInvariants,
)
from schemaquake.clusters.simulated.models.metadata_log import Metadata
from schemaquake.clusters.simulated.models.raft import Configuration, Entry, Log, Member
from schemaquake.clusters.simulated.models.row_invariants import RowInvariants
from schemaquake.clusters.simulated.models.schema_invariants import ChainInvariants, MergeInvariants
from schemaquake.clusters.simulated.processes import Died
from schemaquake.clusters.simulated.provider import SimulatedProvider
from schemaquake.clusters.simulated.ring import Ring, token_of
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.definitions import Column, Keyspace, Table
from schemaquake.clusters.simulated.schema.mutations import Writing, difference
from schemaquake.clusters.simulated.schema.rows import RowChange, SchemaRows
from schemaquake.clusters.simulated.topology import Moving, Topology, Transfer, even_topology
from schemaquake.harness.errors import PlanError
from schemaquake.harness.run.conductor import Conductor
from schemaquake.harness.sealed_json import dump_sealed
from schemaquake.harness.units import S

NAMES = ("n1", "n2", "n3")
THREE = Configuration(tuple(Member(name, name, votes=True) for name in NAMES))
WRONGLY = ["a candidate counts votes that were given"]
LISTENS = Configuration((*THREE.now, Member("n4", "n4", votes=False), Member("n5", "n5", votes=False)))


@dataclass
class SeenNode:
    """A node of which an observer sees the disk, and of whose log it is the only author."""

    name: str
    said: list[str] = field(default_factory=list)
    disk: Disk = field(default_factory=Disk)
    server: SimpleNamespace | None = None
    locations: dict = field(default_factory=dict)
    host_ids: dict = field(default_factory=dict)
    joins: Joining | None = None
    weather: str = ""
    kernel: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(heap=SimpleNamespace(now_ns=0)))

    def by_data_center(self, names):
        return {"dc1": tuple(dict.fromkeys(names))}

    @property
    def console(self):
        return SimpleNamespace(
            error=lambda _thread, _place, text, _stack: self.said.append(text.removeprefix("Broken: "))
        )


def nodes_named(names):
    return {name: SeenNode(name) for name in names}


def said(nodes):
    return [text for node in nodes.values() for text in node.said]


def log_with(*terms, group="g"):
    log = Log(group=group)
    log.entries = [Entry(term, number, f"c{term}") for number, term in enumerate(terms, start=1)]
    return log


def group_of(logs):
    nodes = nodes_named(logs)
    return nodes, GroupInvariants(list(nodes.values()), lambda node: logs[node.name], Breaches())


# ── Raft ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("second", "breaches"), [("n1", []), ("n3", ["one vote a term"])])
def test_a_node_votes_for_one_candidate_of_a_term(second, breaches):
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with(1)))
    seen.voted(nodes["n2"], log_with(), 2, "n1")
    seen.voted(nodes["n2"], log_with(), 2, second)
    seen.voted(nodes["n2"], log_with(), 3, "n3")  # another term
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("voters", "members", "breaches"),
    [
        (["n1", "n2"], THREE, []),
        (["n1"], THREE, ["a leader has a majority"]),
        (["n1", "n4", "n5"], LISTENS, ["a leader has a majority"]),
        (["n1", "n2"], Configuration(LISTENS.now, (Member("n3", "n3", votes=True),)), ["a leader has a majority"]),
    ],
    ids=["majority", "alone", "by those without a vote", "not of the old ones"],
)
def test_a_leader_has_the_votes_of_a_majority(voters, members, breaches):
    nodes, seen = group_of(dict.fromkeys(("n1", "n2", "n3", "n4", "n5"), log_with()))
    for name in voters:
        seen.voted(nodes[name], log_with(), 2, "n1")
    seen.led(nodes["n1"], log_with(), 2, members)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("log", "breaches"),
    [
        (log_with(1, 1, 2), []),
        (log_with(1), ["a leader has what was committed"]),
        (log_with(1, 2), ["a leader has what was committed"]),
        (log_with(1, group="h"), []),
    ],
    ids=["more", "less", "another entry", "another group"],
)
def test_a_leader_has_what_was_committed(log, breaches):
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with(1, 1)))
    seen.committed(nodes["n3"], log_with(1, 1), 1, 2, THREE)
    for name in ("n1", "n2"):
        seen.voted(nodes[name], log, 3, "n1")
    seen.led(nodes["n1"], log, 3, THREE)
    assert said(nodes) == breaches


@pytest.mark.parametrize(("term", "breaches"), [(3, []), (5, []), (6, ["a leader has what was committed"])])
def test_a_leader_that_was_held_up_need_not_have_what_a_later_term_committed(term, breaches):
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with(1, 1)))
    seen.committed(nodes["n3"], replace(log_with(1, 1), term=5), 1, 2, THREE)
    for name in ("n1", "n2"):
        seen.voted(nodes[name], log_with(1), term, "n1")
    seen.led(nodes["n1"], log_with(1), term, THREE)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("voted", "breaches"),
    [(("n3", 2, "n1"), []), (("n3", 1, "n1"), WRONGLY), (("n3", 2, "n2"), WRONGLY), (("n2", 2, "n1"), WRONGLY)],
    ids=["given", "in another term", "to another candidate", "by another node"],
)
def test_a_candidate_counts_votes_that_were_given(voted, breaches):
    voter, term, candidate = voted
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with()))
    seen.voted(nodes[voter], log_with(), term, candidate)
    seen.counts(nodes["n1"], log_with(), 2, "n3")
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("answered", "breaches"), [(3, []), (2, ["a leader counts answers to its own term"])], ids=["its own", "earlier"]
)
def test_a_leader_counts_answers_to_its_own_term(answered, breaches):
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with()))
    seen.heard_answer(nodes["n1"], 3, answered)
    assert said(nodes) == breaches


def test_a_term_has_one_leader():
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with()))
    for voter in ("n1", "n3"):
        seen.voted(nodes[voter], log_with(), 2, "n1")
    seen.led(nodes["n1"], log_with(), 2, THREE)
    seen.led(nodes["n1"], log_with(), 2, THREE)
    assert said(nodes) == []
    seen.led(nodes["n2"], log_with(), 2, THREE)
    assert said(nodes) == ["one leader a term", "a leader has a majority"]


@pytest.mark.parametrize(
    ("others", "breaches"),
    [
        ({"n2": log_with(1, 1), "n3": log_with(1)}, []),
        ({"n2": log_with(1, 2), "n3": log_with(1)}, ["a majority has what is committed"]),
        ({"n2": Log(group="g", index=5), "n3": log_with(1)}, []),
        ({"n2": None, "n3": log_with(1, 1, group="h")}, ["a majority has what is committed"]),
    ],
    ids=["two of three", "another entry", "in a snapshot", "another group"],
)
def test_what_a_leader_commits_is_on_a_majority(others, breaches):
    nodes, seen = group_of({"n1": log_with(1, 1), **others})
    seen.committed(nodes["n1"], log_with(1, 1), 1, 2, THREE)
    assert said(nodes) == breaches


@pytest.mark.parametrize(("terms", "breaches"), [((1, 1), []), ((1, 2), ["one entry a place"])])
def test_what_is_committed_is_the_same_everywhere(terms, breaches):
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with(1, 1)))
    seen.committed(nodes["n1"], log_with(1, 1), 1, 2, THREE)
    seen.committed(nodes["n2"], log_with(*terms), 1, 2, None)
    assert said(nodes) == breaches


@pytest.mark.parametrize(("number", "breaches"), [(2, []), (3, ["what is carried out is committed"])])
def test_what_is_carried_out_is_committed(number, breaches):
    log = log_with(1, 1, 1)
    nodes, seen = group_of(dict.fromkeys(NAMES, log))
    seen.committed(nodes["n1"], log, 1, 2, THREE)
    seen.applies(nodes["n2"], log, number)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("group", "applied", "breaches"),
    [("g", 2, []), ("g", 1, ["a change begins on what was committed"]), ("h", 0, [])],
)
def test_a_change_begins_on_what_was_committed_before_it(group, applied, breaches):
    log = log_with(1, 1)
    nodes, seen = group_of(dict.fromkeys(NAMES, log))
    assert seen.floor(log) == 0
    seen.committed(nodes["n1"], log, 1, 2, THREE)
    seen.passed(nodes["n2"], applied, applied)
    seen.begun(nodes["n2"], log, applied, (group, seen.floor(log)), 0)
    assert said(nodes) == breaches


# ── metadata log ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("epoch", "entry_id", "before", "breaches"),
    [
        (4, ("n1", 1), 3, []),
        (4, ("n2", 1), 3, ["one entry an epoch"]),
        (5, ("n2", 1), 3, ["no epoch is left out"]),
    ],
)
def test_an_epoch_is_one_entry_and_none_is_left_out(epoch, entry_id, before, breaches):
    nodes = nodes_named(NAMES)
    seen = LogInvariants(Breaches())
    seen.enacted(nodes["n1"], 4, ("n1", 1), 3)
    seen.enacted(nodes["n2"], epoch, entry_id, before)
    assert said(nodes) == breaches


def metadata(epoch, topology, **keyspaces):
    schema = {name: SimpleNamespace(replication_factor=factor) for name, factor in keyspaces.items()}
    there = [name for name, seat in topology.seats.items() if seat.state in {"normal", "leaving", "moving"}]
    return SimpleNamespace(cms=tuple(there[:3]), epoch=epoch, topology=topology, schema=schema, members_most=3)


@pytest.mark.parametrize(("changed", "breaches"), [(False, []), (True, ["one outcome an epoch"])])
def test_an_epoch_has_one_outcome(changed, breaches):
    nodes = nodes_named(NAMES)
    seen = LogInvariants(Breaches())
    topology = even_topology(NAMES, {name: name for name in NAMES})
    seen.published(nodes["n1"], metadata(4, topology))
    seen.published(nodes["n2"], metadata(4, topology, **({"k": 3} if changed else {})))
    assert said(nodes) == breaches


def joining(name, token, base):
    return Moving("join", name, base.ring, (token,))


@pytest.mark.parametrize(("know", "breaches"), [(3, []), (2, ["a majority knows a step before the next one"])])
def test_a_majority_knows_a_step_before_the_next_one(know, breaches):
    nodes = nodes_named(NAMES)
    base = even_topology(NAMES, {name: name for name in NAMES})
    move = Moving("join", "n4", base.ring, (5,), done=2)
    after = Topology(9, base.seats, base.ring, (move,))
    seen = LogInvariants(Breaches())
    for name in NAMES[:know]:
        seen.published(nodes[name], metadata(9, after, k=3))
    nodes["n1"].server = SimpleNamespace(memory={"k": None})
    seen.advances(nodes["n1"], move, after)  # n4 is written to, too
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("request_", "version", "at", "breaches"),
    [
        ("write", 1, 2, True),  # n4 is to come, and is not sent the row
        ("write", 1, 3, True),
        ("write", 2, 3, False),  # n4 is written to at both
        ("write", 2, 5, False),  # cancelled since: one replica more than needed
        ("read", 1, 2, False),
        ("read", 2, 3, False),
        ("read", 3, 5, True),  # n4 is written to no more
    ],
)
def test_a_replica_serves_nobody_who_leaves_out_a_replica_to_come_or_asks_a_former_one(request_, version, at, breaches):
    nodes = nodes_named(NAMES)
    base = even_topology(NAMES, {name: name for name in NAMES}, version=1)
    registered = base.registered(1, "n4", "n4")
    prepared = registered.prepare(1, joining("n4", 5, base))
    begun = prepared.advance(2, "n4")
    known = {1: prepared, 2: begun, 3: begun.advance(3, "n4"), 5: begun.advance(3, "n4").cancel(5, "n4")}
    seen = LogInvariants(Breaches())
    for epoch, topology in known.items():
        seen.published(nodes["n1"], metadata(epoch, topology, k=1))
    seen.served(nodes["n1"], request_, 3, version, 1, known[at])
    assert said(nodes) == (["a replica serves nobody whose quorums need not meet its own"] if breaches else [])


@pytest.mark.parametrize("forgets", [0, 2, 3, 4, 5], ids=["nothing", "START", "MID", "FINISH", "CANCEL"])
def test_a_topology_remembers_whose_placement_it_changes(forgets):
    nodes = nodes_named(NAMES)
    founded = even_topology(NAMES, {name: name for name in NAMES}, version=0).registered(1, "n4", "n4")
    founded = founded.prepare(1, joining("n4", 5, founded))
    start = founded.advance(2, "n4")
    mid = start.advance(3, "n4")
    last = mid.cancel(5, "n4") if forgets == 5 else mid.advance(4, "n4")
    seen = LogInvariants(Breaches())
    for topology in (founded, start, mid, last):
        known = tuple(each for each in topology.history if each[0] != forgets)
        seen.published(nodes["n1"], metadata(topology.version, replace(topology, history=known), k=1))
    assert said(nodes) == (["a topology remembers whose placement it changes"] if forgets else [])


def test_a_range_is_locked_once():
    nodes = nodes_named(("n1",))
    base = even_topology(("n1",), {"n1": "n1"})
    for moves, breaches in (
        ([joining("n2", 5, base)], []),
        ([joining("n2", 5, base), joining("n3", 9, base)], ["a range is locked once"]),
    ):
        LogInvariants(Breaches()).published(nodes["n1"], metadata(4, Topology(4, base.seats, base.ring, tuple(moves))))
        assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("last", "breaches"),
    [((2, 1), []), ((3, 1), ["a candidate names its last entry"]), ((2, 2), ["a candidate names its last entry"])],
    ids=["its own", "a later term", "one that it has not"],
)
def test_a_candidate_names_its_last_entry(last, breaches):
    nodes = nodes_named(NAMES)
    log = Log("g", 3, entries=[Entry(2, 1, None)])
    GroupInvariants(list(nodes.values()), lambda _node: log, Breaches()).pleads(nodes["n1"], log, last)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("promised", "entry_id", "breaches"),
    [
        (("n1", "n2"), ("n1", 1), []),
        (("n1", "n2", "n3"), ("n3", 1), []),
        (("n1", "n2", "n3"), ("n1", 1), ["what was accepted last is proposed"]),
        (("n2",), ("n2", 7), []),
    ],
    ids=["the only one", "of the highest ballot", "of the lowest ballot", "nothing was accepted"],
)
def test_what_was_accepted_last_is_proposed(promised, entry_id, breaches):
    nodes = nodes_named(NAMES)
    seen = LogInvariants(Breaches())
    for name, ballot in (("n1", 3), ("n3", 5)):
        accepted = (ballot, name), SimpleNamespace(id=(name, 1))
        seen.promised(nodes[name], 4, (8, "n2"), accepted)
    seen.promised(nodes["n2"], 4, (8, "n2"))
    seen.proposes(nodes["n2"], 4, (8, "n2"), promised, entry_id, promised)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("members", "breaches"),
    [(NAMES, []), ((*NAMES, "n4"), ["a majority promises before an entry is proposed"])],
    ids=["two of three", "two of four"],
)
def test_a_majority_promises_before_an_entry_is_proposed(members, breaches):
    nodes = nodes_named(NAMES)
    LogInvariants(Breaches()).proposes(nodes["n2"], 4, (8, "n2"), ("n1", "n2"), ("n2", 7), members)
    assert said(nodes) == breaches


BY_ENACTED = "who refuses goes by what it has enacted"
HAS_READ = "who refuses has read the log"


@pytest.mark.parametrize(
    ("judged_at", "read_ns", "is_due", "breaches"),
    [
        (4, 7, True, []),
        (4, 5, True, []),
        (4, 7, False, [BY_ENACTED]),
        (3, 7, True, [BY_ENACTED]),
        (4, 4, True, [HAS_READ]),
        (4, None, True, [HAS_READ]),
    ],
    ids=["read since", "read at once", "not due any more", "by an earlier epoch", "read before", "never read"],
)
def test_who_refuses_goes_by_what_it_has_enacted_when_it_has_read_the_log(judged_at, read_ns, is_due, breaches):
    nodes = nodes_named(NAMES)
    seen = LogInvariants(Breaches())
    seen.reads(nodes["n1"])
    if read_ns is not None:
        nodes["n2"].kernel.heap.now_ns = read_ns
        seen.reads(nodes["n2"])
    seen.refuses(nodes["n2"], 4, judged_at, 5, is_due=is_due)
    assert said(nodes) == breaches


@pytest.mark.parametrize("end", ["made", "given up", "under way"])
def test_a_change_of_the_ring_that_has_ended_was_made(end):
    ring = even_topology(NAMES, dict.fromkeys(NAMES, ""))
    move = Moving("move", "n2", ring.ring, (7,))
    under_way = ring.prepare(2, move)
    ended = under_way.advance(3, "n2").advance(4, "n2").advance(5, "n2")
    nodes = nodes_named(NAMES)
    topology = {"made": ended, "given up": under_way.cancel(3, "n2"), "under way": under_way}[end]
    LogInvariants(Breaches()).ended(nodes["n2"], move, topology)
    assert said(nodes) == ([] if end == "made" else ["a change that has ended was made"])


@pytest.mark.parametrize(
    ("turns", "members", "breaches"),
    [
        (("n1", "n2", "n3"), NAMES, []),
        (("n1", "n1", "n1"), NAMES, ["who gives up has turned to all members"]),
        (("n1", "n1"), NAMES, []),
        (("n4", "n4", "n4", "n4"), ("n1", "n2", "n4"), []),
    ],
    ids=["one after another", "one alone", "no time for more", "itself"],
)
def test_who_gives_up_has_turned_to_all_members(turns, members, breaches):
    nodes = nodes_named((*NAMES, "n4"))
    seen = LogInvariants(Breaches())
    for member in turns:
        seen.turns_to(("n4", 7), member, members)
    seen.turns_to(("n4", 8), "n1", members)
    seen.gives_up(nodes["n4"], ("n4", 7))
    assert said(nodes) == breaches


def test_who_gives_up_need_not_have_turned_to_members_that_came_meanwhile():
    nodes = nodes_named((*NAMES, "n4"))
    seen = LogInvariants(Breaches())
    for members in (("n1", "n2"), ("n1", "n3"), ("n1", "n3")):
        seen.turns_to(("n4", 7), "n1", members)
    seen.gives_up(nodes["n4"], ("n4", 7))
    assert said(nodes) == []


@pytest.mark.parametrize(("schema", "breaches"), [({}, []), ({"k": 1}, ["a node serves what it has enacted"])])
def test_a_node_serves_what_it_has_enacted(schema, breaches):
    nodes = nodes_named(NAMES)
    nodes["n1"].server = SimpleNamespace(memory=schema)
    LogInvariants(Breaches()).serves(nodes["n1"], Metadata(epoch=4))
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("is_outside", "breaches"), [(False, []), (True, ["who serves has a part in what is decided"])]
)
def test_who_serves_has_a_part_in_what_is_decided(is_outside, breaches):
    nodes = nodes_named(NAMES)
    LogInvariants(Breaches()).decides(nodes["n1"], is_outside=is_outside)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("applied", "passed_ns", "breaches"),
    [
        (5, 7, []),
        (4, 7, ["a read barrier waits for what was committed"]),
        (5, 6, ["a change begins behind a read barrier"]),
        (5, None, ["a change begins behind a read barrier"]),
    ],
    ids=["passed", "not carried out yet", "one of before", "none"],
)
def test_a_change_of_group_0_begins_behind_a_read_barrier(applied, passed_ns, breaches):
    log = log_with(1)
    nodes, seen = group_of(dict.fromkeys(NAMES, log))
    seen.passed(nodes["n1"], 5, 5)
    if passed_ns is not None:
        nodes["n2"].kernel.heap.now_ns = passed_ns
        seen.passed(nodes["n2"], applied, 5)
    seen.begun(nodes["n2"], log, applied, ("g", 0), 7)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("carried_out", "breaches"), [(["b", "a"], []), (["b"], ["who acknowledges a change has carried it out"])]
)
def test_who_acknowledges_a_change_has_carried_it_out(carried_out, breaches):
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with(1)))
    seen.acknowledged(nodes["n2"], "a", carried_out)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("theirs_us", "breaches"), [(6, []), (5, ["a replica asks nobody who is behind"])], ids=["ahead", "at one state"]
)
def test_a_replica_asks_nobody_who_is_behind(theirs_us, breaches):
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with(1)))
    seen.asks(nodes["n2"], "n1", theirs_us, 5)
    assert said(nodes) == breaches


@pytest.mark.parametrize(("is_told", "breaches"), [(True, []), (False, ["who changes the ring has told so"])])
def test_who_changes_the_ring_has_told_so(is_told, breaches):
    nodes = nodes_named(NAMES)
    RowInvariants(list(nodes.values()), Breaches()).streams_nothing(nodes["n2"], "n2", is_told=is_told)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("behind", "breaches"), [([], []), (["n3"], ["what is told of a node is known to all at once"])]
)
def test_what_is_told_of_a_node_is_known_to_all_at_once(behind, breaches):
    nodes = nodes_named(NAMES)
    RowInvariants(list(nodes.values()), Breaches()).told(nodes["n2"], "n1", behind)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("subject", "waited_s", "is_started_again", "is_broken"),
    [("n2", 5, False, False), ("n2", 4.9, False, True), ("n3", 5, False, True), ("n2", 5, True, True)],
    ids=["all have heard", "too early", "not told of", "told before a start"],
)
def test_rows_are_streamed_when_all_have_heard_of_a_change(subject, waited_s, is_started_again, is_broken):
    nodes = nodes_named(NAMES)
    seen = RowInvariants(list(nodes.values()), Breaches())
    seen.changes(nodes["n1"], "n2", ())
    nodes["n1"].kernel.heap.now_ns = round(waited_s * S)
    if is_started_again:
        nodes["n1"].server = object()
    seen.begins_streams(nodes["n1"], subject, None)
    assert said(nodes) == (["rows are streamed when all have heard of a change"] if is_broken else [])


@pytest.mark.parametrize(("dead", "breaches"), [(None, []), ("n2", []), ("n1", ["who lives is asked for its rows"])])
def test_who_lives_is_asked_for_its_rows(dead, breaches):
    nodes = nodes_named(NAMES)
    seen = RowInvariants(list(nodes.values()), Breaches())
    seen.changes(nodes["n1"], "n1", ())
    nodes["n1"].kernel.heap.now_ns = 5 * S
    seen.begins_streams(nodes["n1"], "n1", dead)
    assert said(nodes) == breaches


@pytest.mark.parametrize("forgets", [0, 5], ids=["nothing", "all but the last one"])
def test_a_topology_remembers_more_than_its_last_change(forgets):
    names = tuple(f"n{number:02}" for number in range(20))
    nodes = nodes_named(("n1",))
    founded = even_topology(names, dict.fromkeys(names, ""), version=0).registered(1, "n4", "n4")
    topologies = {1: founded.prepare(1, joining("n4", 5, founded))}
    for done in (2, 3, 4):
        topologies[done] = topologies[done - 1].advance(done, "n4")
    topologies[5] = topologies[4].prepare(5, Moving("leave", "n10", topologies[4].ring))
    topologies[6] = topologies[5].advance(6, "n10")
    seen = LogInvariants(Breaches())
    for version, topology in topologies.items():
        known = tuple(each for each in topology.history if each[0] > (forgets if version == 6 else 0))
        seen.published(nodes["n1"], metadata(version, replace(topology, history=known), k=1))
    assert said(nodes) == (["a topology remembers whose placement it changes"] if forgets else [])


@pytest.mark.parametrize(
    ("kept", "breaches"), [((5, "n2"), []), ((3, "n1"), ["a member has what it has accepted"])], ids=["it", "an earlier one"]
)  # fmt: skip
def test_a_member_has_what_it_has_accepted(kept, breaches):
    nodes = nodes_named(NAMES)
    LogInvariants(Breaches()).accepted(nodes["n3"], 4, (5, "n2"), kept)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("epoch", "enacted", "is_broken"), [(3, 2, True), (2, 2, False), (2, 3, False), (4, 3, False)],
    ids=["has not changed it yet", "the same", "ahead", "nothing of it has changed"],
)  # fmt: skip
def test_a_replica_catches_up_with_its_coordinator_first(epoch, enacted, is_broken):
    nodes = nodes_named(NAMES)
    seen = LogInvariants(Breaches())
    table = Table("k", "t", "id", {}, {})
    before, after = (
        {"k": Keyspace("k", {}, {"t": each})}
        for each in (table, replace(table, columns={"c": Column("int", "regular")}))
    )
    for number, schema in ((2, before), (3, after), (4, dict(after))):
        seen.published(nodes["n1"], Metadata(number, schema))
    seen.behind(nodes["n2"], "id", epoch, enacted)
    assert said(nodes) == (["a replica catches up with its coordinator first"] if is_broken else [])


@pytest.mark.parametrize(("state", "breaches"), [("leaving", []), ("left", ["who has left decides no more"])])
def test_who_has_left_decides_no_more(state, breaches):
    nodes = nodes_named(NAMES)
    topology = ring_of(*NAMES)
    seats = {**topology.seats, "n2": topology.seats["n2"]._replace(state=state)}
    metadata = SimpleNamespace(epoch=7, schema={}, topology=replace(topology, seats=seats), cms=NAMES, members_most=3)
    LogInvariants(Breaches()).published(nodes["n1"], metadata)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("members", "breaches"),
    [
        (("n1", "n2", "n3"), []),
        (("n2", "n3", "n4"), ["the first who registered decide"]),
        ((), ["the first who registered decide"]),
    ],
    ids=["the first three", "the last three", "nobody"],
)
def test_the_first_who_registered_are_the_members_of_the_service(members, breaches):
    nodes = nodes_named(NAMES)
    published = metadata(7, ring_of("n1", "n2", "n3", "n4"))
    LogInvariants(Breaches()).published(nodes["n1"], SimpleNamespace(**{**vars(published), "cms": members}))
    assert said(nodes) == breaches


def test_a_majority_of_the_members_decides_an_epoch_once_and_none_goes_below_a_promise():
    nodes = nodes_named(NAMES)
    seen = LogInvariants(Breaches())
    seen.reached(nodes["n1"], NAMES, ["n1", "n3"])
    seen.decided(nodes["n1"], 4, ("n1", 1))
    seen.decided(nodes["n2"], 4, ("n1", 1))
    seen.promised(nodes["n1"], 4, (10, "n1"))
    seen.promised(nodes["n1"], 4, (12, "n2"))
    seen.promised(nodes["n1"], 5, (11, "n1"))
    assert said(nodes) == []
    seen.reached(nodes["n1"], NAMES, ["n1"])
    seen.decided(nodes["n2"], 4, ("n2", 1))
    seen.promised(nodes["n1"], 4, (11, "n1"))
    assert sorted(said(nodes)) == ["a majority decides", "an epoch is decided once", "no ballot below a promise"]


def test_who_has_lost_its_log_reads_all_of_it_and_decides_nothing_before():
    nodes = nodes_named(NAMES)
    seen = LogInvariants(Breaches())
    seen.enacted(nodes["n1"], 1, ("n1", 1), 0)
    seen.promised(nodes["n3"], 2, (12, "n2"))
    seen.begins_anew(nodes["n3"])
    seen.promised(nodes["n3"], 2, (11, "n1"))  # nobody knows what it had promised
    seen.reached(nodes["n1"], NAMES, ["n1", "n2"])
    seen.enacted(nodes["n1"], 2, ("n1", 2), 1)  # later
    seen.has_read(nodes["n3"], 1)
    seen.reached(nodes["n1"], NAMES, ["n1", "n3"])
    assert said(nodes) == []
    seen.begins_anew(nodes["n3"])
    seen.reached(nodes["n1"], NAMES, ["n1", "n3"])
    assert said(nodes) == ["who has lost its log decides nothing"]
    seen.has_read(nodes["n3"], 1)
    assert said(nodes)[1:] == ["who has lost its log reads all of it"]


@pytest.mark.parametrize(
    ("asked_ns", "breaches"), [(7, []), (6, ["a majority decides"]), (None, ["a majority decides"])]
)
def test_a_member_appends_what_a_majority_has_answered_to(asked_ns, breaches):
    nodes = nodes_named(NAMES)
    clock = nodes["n1"].kernel.heap
    seen = LogInvariants(Breaches())
    if asked_ns is not None:
        clock.now_ns = asked_ns
        seen.reached(nodes["n1"], NAMES, ["n1", "n3"])
    clock.now_ns = nodes["n2"].kernel.heap.now_ns = 7
    seen.appends(nodes["n1"], 4)
    assert said(nodes) == breaches
    if not breaches:
        seen.appends(nodes["n2"], 4)  # another one has asked
        assert said(nodes) == ["a majority decides"]


@pytest.mark.parametrize(
    ("versions", "flights", "dead", "group", "breaches"),
    [
        ((5, 5, 5), {5: 1, 4: 0}, None, ("n1", "n2", "n3"), []),
        ((5, 5, 4), {}, None, ("n1", "n2", "n3"), ["all members know a state before the next one"]),
        ((5, 5, 4), {}, "n3", ("n1", "n2", "n3"), []),
        ((5, 5, 4), {}, None, ("n1", "n2"), []),
        ((5, 5, 5), {4: 1}, None, ("n1", "n2", "n3"), ["earlier requests have ended"]),
    ],
    ids=["all know it", "one does not", "it is dead", "it was given up", "an earlier request"],
)
def test_all_members_know_a_state_of_the_topology_before_the_next_one(versions, flights, dead, group, breaches):
    names = ("n1", "n2", "n3")
    nodes = nodes_named((*names, "n4"))  # the last one is no member
    nodes["n2"].server = SimpleNamespace()
    known = dict(zip(names, versions, strict=True)) | {"n4": 0}
    topology = even_topology(names, dict.fromkeys(names, "id"), version=5)
    move = Moving("leave", dead or "n2", topology.ring, removed=dead is not None)
    seen = RingInvariants(list(nodes.values()), lambda node: known[node.name], lambda _node: flights, Breaches())
    seen.goes_on(nodes["n1"], topology, move, 0, lambda name: name in group)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("done", "fence", "breaches"),
    [(3, 5, []), (2, 4, []), (3, 4, ["late requests are refused before a change ends"])],
    ids=["refused", "before others are read from", "not refused"],
)
def test_late_requests_are_refused_before_a_change_ends(done, fence, breaches):
    nodes = nodes_named(NAMES)
    seen = RingInvariants(list(nodes.values()), lambda _node: 5, lambda _node: {}, Breaches())
    topology = ring_of(*NAMES)
    seen.goes_on(nodes["n1"], topology, Moving("leave", "n2", topology.ring, done=done), fence, lambda _name: True)
    assert said(nodes) == breaches


def ring_of(*names, version=5, moves=()):
    return replace(even_topology(names, dict.fromkeys(names, "id"), version=version), moves=moves)


def ring_invariants(names):
    nodes = nodes_named(names)
    return nodes, RingInvariants(list(nodes.values()), lambda _node: 0, lambda _node: {}, Breaches())


@pytest.mark.parametrize(
    ("done", "version", "breaches"),
    [(2, 6, []), (3, 6, ["a step is taken once"]), (3, 5, [])],
    ids=["the next one", "taken already", "nothing changes"],
)
def test_a_step_is_taken_once(done, version, breaches):
    nodes, seen = ring_invariants(NAMES)
    before = ring_of(*NAMES)
    before = replace(before, moves=(Moving("leave", "n2", before.ring, done=done),))
    seen.ordered(nodes["n1"], "g", 9, before, replace(before, version=version), ("n2", 2))
    assert said(nodes) == breaches


LEAPS = ["a change of the ring takes one step after the other"]


def steps_of_a_join(first):
    """Return the topologies of a join, from before it until it is over, by the steps behind it."""
    base = even_topology(NAMES, {name: name for name in NAMES}, version=0).registered(0, "n4", "n4")
    topologies = {0: base, 1: base.prepare(1, joining("n4", 5, base))}
    for done in (2, 3, 4):
        topologies[done] = topologies[done - 1].advance(done, "n4")
    return {done: topology for done, topology in topologies.items() if done not in range(1, first)}


@pytest.mark.parametrize("change", ["join", "leave", "move"])
@pytest.mark.parametrize("left_out", [None, 1, 2, 3], ids=["nothing", "PREPARE", "START", "MID"])
def test_a_sequence_takes_one_step_after_the_other(change, left_out):
    nodes = nodes_named(NAMES)
    base = even_topology(NAMES, {name: name for name in NAMES}, version=0).registered(0, "n4", "n4")
    node = "n4" if change == "join" else "n3"
    topologies = [base, base.prepare(1, Moving(change, node, base.ring, () if change == "leave" else (5,)))]
    for done in (2, 3, 4):
        topologies.append(topologies[-1].advance(done, node))
    seen = LogInvariants(Breaches())
    for epoch, topology in enumerate(each for done, each in enumerate(topologies) if done != left_out):
        seen.published(nodes["n1"], metadata(epoch, topology, k=1))
    assert said(nodes) == (LEAPS if left_out else [])


@pytest.mark.parametrize("done", [1, 2, 3])
def test_a_sequence_may_be_cancelled_at_any_step(done):
    nodes = nodes_named(NAMES)
    topologies = steps_of_a_join(1)
    seen = LogInvariants(Breaches())
    seen.published(nodes["n1"], metadata(4, topologies[done], k=1))
    seen.published(nodes["n1"], metadata(5, topologies[done].cancel(5, "n4"), k=1))
    assert said(nodes) == []


@pytest.mark.parametrize("left_out", [None, 2, 3], ids=["nothing", "write both", "read new"])
def test_a_change_of_the_ring_in_group_0_takes_one_step_after_the_other(left_out):
    nodes, seen = ring_invariants(NAMES)
    topologies = {done: each for done, each in steps_of_a_join(2).items() if done != left_out}
    for before, after in pairwise(topologies):
        step = None if before == 0 else ("n4", before)
        seen.ordered(nodes["n1"], "g", after, topologies[before], topologies[after], step)
    assert said(nodes) == (LEAPS if left_out else [])


@pytest.mark.parametrize(
    ("version", "is_awaited", "is_same", "is_broken"),
    [(4, True, True, True), (5, True, True, False), (4, False, True, False), (4, True, False, False)],
    ids=["an earlier one", "of this state", "answered", "of a server that was killed"],
)
def test_a_coordinator_waits_for_no_answer_by_an_earlier_state(version, is_awaited, is_same, is_broken):
    nodes = nodes_named(NAMES)
    rows = RowInvariants(list(nodes.values()), Breaches())
    nodes["n2"].server = SimpleNamespace(number=1)
    rows.asks(nodes["n2"], SimpleNamespace(version=version), [SimpleNamespace(is_awaited=is_awaited)])
    if not is_same:
        nodes["n2"].server = SimpleNamespace(number=2)
    seen = RingInvariants(list(nodes.values()), lambda _node: 5, lambda _node: {}, Breaches(), under_way=rows.under_way)
    topology = ring_of(*NAMES)
    seen.goes_on(nodes["n1"], topology, Moving("leave", "n3", topology.ring), 0, lambda _name: True)
    assert said(nodes) == (["earlier requests have ended"] if is_broken else [])


@pytest.mark.parametrize(
    ("number", "group", "is_wiped", "is_broken"),
    [(10, "g", False, False), (9, "g", False, True), (9, "h", False, False), (9, "g", True, False)],
    ids=["the next one", "the same", "of another group", "on another disk"],
)
def test_an_order_about_the_ring_is_carried_out_once(number, group, is_wiped, is_broken):
    nodes, seen = ring_invariants(NAMES)
    ring = ring_of(*NAMES)
    seen.ordered(nodes["n1"], "g", 9, ring, ring, None)
    if is_wiped:
        nodes["n1"].disk = Disk()
    seen.ordered(nodes["n1"], group, number, ring, ring, None)
    assert said(nodes) == (["an order about the ring is carried out once"] if is_broken else [])


LISTS = ["an index or a view lists the rows of its table"]
INDEXED = Table("k", "t", "id", {"k": Column("int", "partition_key"), "c": Column("int", "regular")})
VIEW = replace(
    INDEXED,
    name="v",
    id="v",
    base=("id", "t"),
    columns={"c": Column("int", "partition_key"), "k": Column("int", "clustering")},
)


@pytest.mark.parametrize(
    ("through", "sought", "listed", "breaches"),
    [
        (INDEXED, {"c": 7}, [1], []),
        (INDEXED, {"c": 7}, [], LISTS),
        (INDEXED, {"c": 7}, [1, 2], LISTS),
        (VIEW, {}, [1, 2], []),
        (VIEW, {}, [1, 2, 3], LISTS),
        (VIEW, {"k": 2}, [2], []),
        (VIEW, {"c": 9}, [1], LISTS),
    ],
)
def test_an_index_or_a_view_lists_the_rows_of_its_table(through, sought, listed, breaches):
    nodes = nodes_named(NAMES)
    rows = {1: {"c": (5, 7)}, 2: {"c": (5, 8)}, 3: {"c": (5, None)}}
    found = [(INDEXED, ((key,), ()), cells) for key, cells in rows.items()]
    seen = RowInvariants(list(nodes.values()), Breaches())
    seen.lists(nodes["n1"], through, sought, found, [each for each in found if each[1][0][0] in listed])
    assert said(nodes) == breaches


def test_questions_that_were_answered_are_forgotten():
    nodes = nodes_named(NAMES)
    rows = RowInvariants(list(nodes.values()), Breaches())
    questions = [SimpleNamespace(is_awaited=number == 0) for number in range(100)]
    for number, question in enumerate(questions):
        rows.asks(nodes["n2"], SimpleNamespace(version=number), [question])
    assert rows.under_way(nodes["n2"]) == [0]


@pytest.mark.parametrize(
    ("held", "write", "before_us", "breaches"),
    [
        (({"c": (5, 1)}, 0), ({"c": (5, 1)}, 0), 0, []),
        (({"c": (6, 1)}, 0), ({"c": (5, 1)}, 0), 0, []),
        (({}, 9), ({"c": (5, 1)}, 0), 9, []),
        (({"c": (4, 1)}, 0), ({"c": (5, 1)}, 0), 0, ["a replica has what was written to it"]),
        (({}, 0), ({}, 7), 0, ["a replica has what was written to it"]),
        (({}, 7), ({}, 7), 9, ["a replica has what was written to it"]),
    ],
    ids=["it", "a later one", "it was deleted later", "an earlier one", "not the deletion", "an earlier deletion"],
)
def test_a_replica_has_what_was_written_to_it(held, write, before_us, breaches):
    nodes = nodes_named(NAMES)
    nodes["n1"].disk.files("k", "t", "id").write(KEY, *held)
    rows = RowInvariants(list(nodes.values()), Breaches())
    rows.stored(nodes["n1"], RowWrite("id", KEY, *write), before_us)
    assert said(nodes) == breaches


def test_one_change_of_the_ring_goes_on_at_a_time():
    nodes, seen = ring_invariants(NAMES)
    before = ring_of(*NAMES)
    one, other = (Moving("leave", name, before.ring) for name in ("n2", "n3"))
    seen.ordered(nodes["n1"], "g", 9, before, replace(before, version=6, moves=(one,)), None)
    assert said(nodes) == []
    seen.ordered(nodes["n1"], "g", 10, before, replace(before, version=7, moves=(one, other)), None)
    assert said(nodes) == ["one change of the ring at a time"]


@pytest.mark.parametrize(
    ("done", "step", "breaches"),
    [(2, None, []), (3, None, ["what is read from is not rolled back"]), (3, ("n2", 3), [])],
    ids=["it is not read from", "it is", "its last step"],
)
def test_what_is_read_from_is_not_rolled_back(done, step, breaches):
    nodes, seen = ring_invariants(NAMES)
    before = ring_of(*NAMES)
    before = replace(before, moves=(Moving("leave", "n2", before.ring, done=done),))
    seen.ordered(nodes["n1"], "g", 9, before, replace(before, version=6, moves=()), step)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("moves", "factor", "breaches"),
    [(1, 3, []), (0, 2, []), (1, 2, ["a replication changes while the ring is at rest"])],
    ids=["the same", "at rest", "while a node joins"],
)
def test_no_replication_changes_while_the_ring_does(moves, factor, breaches):
    nodes = nodes_named(NAMES)
    base = even_topology(NAMES, {name: name for name in NAMES})
    ring = Topology(4, base.seats, base.ring, (joining("n4", 5, base),) * moves)
    seen = LogInvariants(Breaches())
    seen.published(nodes["n1"], metadata(4, ring, k=3))
    seen.published(nodes["n1"], metadata(5, ring, k=factor))
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("us", "deleted_us", "breaches"),
    [
        (6, 4, []),
        (5, 4, ["a client is shown nothing that was deleted or dropped"]),
        (6, 6, ["a client is shown nothing that was deleted or dropped"]),
    ],
    ids=["later than both", "not later than the drop", "not later than the deletion"],
)
def test_a_client_is_shown_nothing_that_was_deleted_or_dropped(us, deleted_us, breaches):
    nodes = nodes_named(NAMES)
    table = Table("k", "t", "id", {"c": Column("int", "regular")}, {}, {"c": ("int", 5)})
    RowInvariants(list(nodes.values()), Breaches()).shows(nodes["n1"], table, KEY, deleted_us, {"c": (us, 1)})
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("deleted_us", "breaches"),
    [(9, []), (0, ["a read leaves no replica behind that it asked"])],
    ids=["with the deletion", "without it"],
)
def test_a_read_leaves_no_replica_behind_that_it_asked(deleted_us, breaches):
    nodes = nodes_named(NAMES)
    for node in nodes.values():
        node.server, node.disk = None, Disk()
    nodes["n2"].disk.files("k", "t", "id").write(KEY, CELLS, deleted_us)
    RowInvariants(list(nodes.values()), Breaches()).mended(nodes["n1"], RowWrite("id", KEY, {}, 9), ["n2"])
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("tokens", "breaches"), [((7,), []), ((3,), ["who takes a place has its tokens"])], ids=["its tokens", "others"]
)
def test_who_takes_a_place_has_its_tokens(tokens, breaches):
    nodes = nodes_named(NAMES)
    RowInvariants(list(nodes.values()), Breaches()).takes_place(nodes["n1"], tokens, (7,))
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("is_changing", "breaches"),
    [(True, []), (False, ["who was forgotten does not come in"])],
    ids=["joining", "forgotten"],
)
def test_who_was_forgotten_does_not_come_in(is_changing, breaches):
    nodes = nodes_named(NAMES)
    RowInvariants(list(nodes.values()), Breaches()).settles(nodes["n1"], "n1", is_changing=is_changing)
    assert said(nodes) == breaches


@pytest.mark.parametrize("state", ["normal", "joining", "leaving", "moving"])
def test_a_start_ends_what_a_node_was_about_to_do(state):
    nodes = nodes_named(NAMES)
    RowInvariants(list(nodes.values()), Breaches()).starts(nodes["n1"], state)
    assert said(nodes) == (["a start ends a change of the ring"] if state in {"leaving", "moving"} else [])


def test_who_died_as_it_joined_is_forgotten():
    nodes = nodes_named(NAMES)
    seen = RowInvariants(list(nodes.values()), Breaches())
    seen.forgets(nodes["n1"], [])
    assert said(nodes) == []
    seen.forgets(nodes["n1"], ["n4"])
    assert said(nodes) == ["who died as it joined is forgotten"]


@pytest.mark.parametrize(("version", "breaches"), [(6, []), (5, ["a state of the ring has a later version"])])
def test_a_state_of_the_ring_has_a_later_version(version, breaches):
    nodes, seen = ring_invariants(NAMES)
    before = ring_of(*NAMES, version=5)
    seen.ordered(nodes["n1"], "g", 9, before, before, None)  # a request, or a fence
    assert said(nodes) == []
    seen.ordered(nodes["n1"], "g", 10, before, before.registered(version, "n4", "id-n4"), None)
    assert said(nodes) == breaches


def test_a_step_of_a_change_that_has_ended_is_not_taken():
    nodes, seen = ring_invariants(NAMES)
    seen.ordered(nodes["n1"], "g", 9, ring_of(*NAMES), ring_of(*NAMES), ("n2", 2))
    seen.ordered(nodes["n1"], "g", 10, ring_of(*NAMES), ring_of(*NAMES, version=6), None)  # no step: a request begins
    assert said(nodes) == []
    seen.ordered(nodes["n1"], "g", 11, ring_of(*NAMES), ring_of(*NAMES, version=6), ("n2", 2))
    assert said(nodes) == ["a step is taken once"]


@pytest.mark.parametrize(
    ("group", "index", "at", "breaches"),
    [
        ("g", 12, 9, []),
        ("g", 12, 4, ["a snapshot has the topology"]),
        ("g", 8, 4, []),
        ("h", 12, 0, []),
    ],
    ids=["has it", "lacks the last order", "from before the last order", "of another group"],
)
def test_a_snapshot_has_the_topology(group, index, at, breaches):
    nodes, seen = ring_invariants(NAMES)
    for number in (4, 9):
        seen.ordered(nodes["n1"], "g", number, ring_of(*NAMES), ring_of(*NAMES, version=6), None)
    seen.taken_over(nodes["n2"], group, index, at)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("log", "breaches"),
    [
        (log_with(1, 1, 2), []),
        (log_with(2, 1), ["a log is in order"]),
        (log_with(1, 2, 2), ["logs that have an entry agree before it"]),
    ],
    ids=["the same", "a term goes back", "another one before"],
)
def test_logs_that_have_an_entry_agree_before_it(log, breaches):
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with()))
    seen.kept(nodes["n1"], log_with(1, 1, 2), 1)
    with pytest.raises(Died) if "a log is in order" in breaches else nullcontext():
        seen.kept(nodes["n2"], log, 1)
    assert said(nodes) == breaches


def test_an_entry_of_a_term_is_one_and_in_its_place():
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with()))
    seen.kept(nodes["n1"], log_with(1, 1), 1)
    other, moved = log_with(1, 1), log_with(1, 1)
    other.entries[1] = Entry(1, 2, "another")
    moved.entries[1] = Entry(1, 3, "c1")
    seen.kept(nodes["n2"], other, 2)
    with pytest.raises(Died, match="entry 3 of n3 is in place 2"):
        seen.kept(nodes["n3"], moved, 2)
    assert said(nodes) == ["an entry of a term is one", "a log is in order"]


def test_entries_are_taken_from_the_leader_of_the_present_term():
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with()))
    for voter in ("n1", "n3"):
        seen.voted(nodes[voter], log_with(), 2, "n1")
    seen.led(nodes["n1"], log_with(), 2, THREE)
    seen.taken(nodes["n2"], log_with(), 2, "n1", 0)
    seen.taken(nodes["n2"], log_with(), 3, "n3", 0)
    assert said(nodes) == []
    seen.taken(nodes["n3"], log_with(), 2, "n2", 0)
    seen.taken(nodes["n2"], log_with(), 2, "n1", 0)
    assert said(nodes) == ["entries are of the present term", "entries are the leader's"]


def booted(seen, node, log):
    seen.booted(node, log, log.term, log.vote)


@pytest.mark.parametrize(
    ("term", "vote", "breaches"),
    [
        (3, "n2", []),
        (3, "", ["a start goes by what was kept"]),
        (2, "n2", ["a start goes by what was kept"]),
    ],
    ids=["both", "no vote", "an earlier term"],
)
def test_a_start_goes_by_the_term_and_the_vote_that_were_kept(term, vote, breaches):
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with()))
    seen.booted(nodes["n1"], Log(group="g", term=3, vote="n2"), term, vote)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("agreed", "breaches"),
    [(3, []), (2, ["a follower commits what it has of its leader"])],
    ids=["all of it", "all but the last entry"],
)
def test_a_follower_commits_what_it_has_of_its_leader(agreed, breaches):
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with(1, 1, 1)))
    seen.committed(nodes["n1"], log_with(1, 1, 1), 1, 3, THREE)
    seen.taken(nodes["n2"], log_with(1, 1, 1), 1, "n1", agreed)
    seen.committed(nodes["n2"], log_with(1, 1, 1), 1, 3, None)
    assert said(nodes) == breaches


def test_a_vote_is_for_as_long_a_log_and_a_term_outlives_a_restart():
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with()))
    seen.asked_for(nodes["n1"], log_with(1, 2), 3, (2, 2))
    seen.asked_for(nodes["n1"], log_with(1, 2), 3, (3, 1))
    seen.voted(nodes["n1"], log_with(1, 2), 3, "n2")
    booted(seen, nodes["n1"], Log(group="g", term=3, vote="n2"))
    booted(seen, nodes["n1"], Log(group="g", term=4))
    assert said(nodes) == []
    seen.asked_for(nodes["n1"], log_with(1, 2), 3, (1, 7))
    booted(seen, nodes["n1"], Log(group="g", term=2))
    booted(seen, nodes["n1"], Log(group="g", term=3))
    assert said(nodes) == ["a vote is for as long a log", "a term outlives a restart", "a vote outlives a restart"]


def test_who_begins_with_an_empty_disk_is_another_one_than_who_had_its_name():
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with()))
    seen.voted(nodes["n2"], log_with(), 3, "n1")
    booted(seen, nodes["n2"], Log())
    booted(seen, nodes["n2"], Log(group="g", term=3))  # the new one was killed, and has voted for nobody
    seen.counts(nodes["n1"], log_with(), 3, "n2")  # a vote of the one before is one still
    seen.voted(nodes["n1"], log_with(), 3, "n1")
    seen.led(nodes["n1"], log_with(), 3, THREE)
    assert said(nodes) == []
    seen.voted(nodes["n2"], log_with(), 4, "n1")
    booted(seen, nodes["n2"], Log(group="g", term=3))
    assert said(nodes) == ["a term outlives a restart"]


def test_a_snapshot_knows_the_members_and_the_log_goes_on_after_it():
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with()))
    log = log_with(1, 1, 1)
    log.entries[1] = Entry(1, 2, LISTENS)
    seen.committed(nodes["n1"], log, 1, 3, None)
    behind = Log(group="g", index=2, index_term=1, members=LISTENS, entries=[log.entries[2]])
    seen.begins_after(nodes["n1"], behind)
    seen.begins_after(nodes["n1"], Log(group="g", index=1, index_term=1, members=THREE, entries=log.entries[1:]))
    assert said(nodes) == []
    seen.begins_after(nodes["n2"], replace(behind, members=THREE))
    with pytest.raises(Died):
        seen.begins_after(nodes["n3"], replace(behind, entries=log.entries))
    assert said(nodes) == ["a snapshot knows the members", "a log is in order"]


def test_a_node_goes_by_the_latest_members_that_its_log_names():
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with()))
    log = log_with(1, 1)
    log.members, log.entries[0] = THREE, Entry(1, 1, LISTENS)
    seen.goes_by(nodes["n1"], log, LISTENS)
    seen.goes_by(nodes["n1"], Log(group="g", members=THREE), THREE)
    assert said(nodes) == []
    seen.goes_by(nodes["n1"], log, THREE)
    assert said(nodes) == ["a node goes by the latest members"]


@pytest.mark.parametrize(
    ("members", "before", "is_settled", "is_right"),
    [
        (Configuration(LISTENS.now, THREE.now), THREE, True, True),
        (LISTENS, Configuration(LISTENS.now, THREE.now), True, True),
        (Configuration(LISTENS.now, THREE.now), THREE, False, False),
        (LISTENS, THREE, True, False),
        (THREE, Configuration(LISTENS.now, THREE.now), True, False),
    ],
    ids=["first step", "second step", "not committed", "at once", "others than in the first step"],
)
def test_members_change_in_two_steps(members, before, is_settled, is_right):
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with()))
    seen.names(nodes["n1"], members, before, is_settled=is_settled)
    assert said(nodes) == ([] if is_right else ["members change in two steps"])


def test_who_confirms_a_leader_is_in_its_term():
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with()))
    seen.in_term(nodes["n2"], log_with(), 3)
    seen.confirms(nodes["n1"], log_with(), 2)
    seen.confirms(nodes["n2"], log_with(), 3)
    assert said(nodes) == []
    seen.confirms(nodes["n2"], log_with(), 2)
    assert said(nodes) == ["who confirms a leader is in its term"]


def test_a_node_of_the_group_serves_what_its_tables_have():
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with()))
    node = nodes["n1"]
    schema, rows = rows_of_a_table()
    node.disk.schema.merge(rows)
    node.server = SimpleNamespace(memory=schema)
    seen.serves(node, {"k": None})
    assert said(nodes) == []
    node.server.memory = {}
    seen.serves(node, {"k": None})
    assert said(nodes) == ["a node serves what its tables have"]


def test_a_state_is_later_than_the_one_before():
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with()))
    seen.follows(nodes["n1"], 4_000, 4_001)
    assert said(nodes) == []
    seen.follows(nodes["n1"], 4_000, 4_000)
    assert said(nodes) == ["a state is later than the one before"]


@pytest.mark.parametrize(("apart_ns", "is_broken"), [(0, True), (2_000_000, False)])
def test_a_leader_that_sends_a_member_entries_without_end_dies(apart_ns, is_broken):
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with()))
    node, deaths = nodes["n1"], []
    node.server, node.die = SimpleNamespace(), deaths.append
    node.kernel.after = lambda _ns, act: act()
    for _ in range(1500):
        seen.sends(node, "n2")
        seen.sends(node, "n3") if apart_ns else None
        node.kernel.heap.now_ns += apart_ns
    assert said(nodes) == (["a leader and a member come to agree"] if is_broken else [])
    assert len(deaths) == is_broken


@pytest.mark.parametrize(
    ("known", "later", "is_broken"),
    [("the table", True, True), ("nothing", True, False), ("the table", False, False)],
    ids=["ahead", "has it no more", "behind"],
)
def test_a_replica_asks_a_coordinator_that_is_ahead(known, later, is_broken):
    nodes, model = nodes_named(("n1", "n2")), Group0(Ring(("n1", "n2")), frozenset())
    model.watch(list(nodes.values()))
    table = Table("k", "t", "id", {}, {})
    for name, last_us, tables in (
        ("n1", 1, {}),
        ("n2", 2 if later else 1, {"id": table} if known == "the table" else {}),
    ):
        nodes[name].server = SimpleNamespace(table=tables.get)
        nodes[name].disk.state = SimpleNamespace(last_us=last_us)
    body = SimpleNamespace(table_id="id")
    model._look_at_request(nodes["n1"], SimpleNamespace(sender="n2", body=body))
    assert said(nodes) == (["a replica asks a coordinator that is ahead"] if is_broken else [])
    nodes["n1"].said, nodes["n1"].server.table = [], {"id": table}.get
    model._look_at_request(nodes["n1"], SimpleNamespace(sender="n2", body=body))
    assert said(nodes) == []


@pytest.mark.parametrize(
    ("group", "applied", "now_ns", "breaches"),
    [
        ("g", 3, 4, []),
        ("g", 2, 5, []),
        ("new", 2, 4, []),
        ("g", 2, 4, ["who starts has what was committed, or has waited for it"]),
    ],
    ids=["it has", "it has waited", "another group", "it has not"],
)
def test_who_starts_has_what_was_committed_or_has_waited_for_it(group, applied, now_ns, breaches):
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with(1, 1, 1)))
    nodes["n1"].kernel = SimpleNamespace(heap=SimpleNamespace(now_ns=now_ns))
    seen.started(nodes["n1"], log_with(1, 1, 1), applied, (group, 3), 5)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("epoch", "others", "now_s", "breaches"),
    [
        (4, {"n2": 4, "n3": 5}, 1, []),
        (3, {}, 1, []),
        (3, {"n2": 4, "n3": 5}, 3, []),
        (3, {"n2": 4, "n3": 5}, 1, ["who starts has asked for what it missed"]),
    ],
    ids=["it has what one had", "nobody lives", "nobody has answered", "it has asked nobody"],
)
def test_who_starts_has_asked_for_what_it_missed(epoch, others, now_s, breaches):
    node = SeenNode("n1")
    node.kernel = SimpleNamespace(heap=SimpleNamespace(now_ns=now_s * S))
    LogInvariants(Breaches()).asked(node, epoch, others, 0)
    assert node.said == breaches


@pytest.mark.parametrize(
    ("way", "breaches"), [("asked", []), ("read", []), ("", ["who starts has asked for what it missed"])]
)
def test_each_start_of_6_0_asks_for_what_it_missed(way, breaches):
    node, seen = SeenNode("n1"), LogInvariants(Breaches())
    node.server = SimpleNamespace(memory={})
    seen.asked(node, 0, {}, 0)
    node.server = SimpleNamespace(memory={}, number=2)
    if way == "asked":
        seen.asked(node, 0, {}, 0)
    elif way == "read":
        seen.has_read(node, 0)
    seen.goes_up(node)
    assert node.said == breaches


@pytest.mark.parametrize(
    ("waits", "breaches"), [(True, []), (False, ["who starts has what was committed, or has waited for it"])]
)
def test_each_start_of_a_member_waits_for_what_was_committed(waits, breaches):
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with(1)))
    nodes["n1"].server = SimpleNamespace(number=1)
    seen.started(nodes["n1"], log_with(1), 1, ("g", 1), 5)
    nodes["n1"].server = SimpleNamespace(number=2)
    if waits:
        seen.started(nodes["n1"], log_with(1), 1, ("g", 1), 5)
    seen.goes_up(nodes["n1"])
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("enacted", "now_s", "breaches"),
    [(7, 1, []), (6, 3, []), (6, 1, ["a replica catches up with its coordinator first"])],
    ids=["it has", "nobody has answered", "it has not asked"],
)
def test_a_replica_that_is_behind_asks_its_coordinator_first(enacted, now_s, breaches):
    node = SeenNode("n1")
    node.kernel = SimpleNamespace(heap=SimpleNamespace(now_ns=now_s * S))
    LogInvariants(Breaches()).caught_up(node, "n2", 7, (6, enacted), 0)
    assert node.said == breaches


@pytest.mark.parametrize(
    ("confirmed", "breaches"),
    [(("n1", "n2", "n4"), []), (("n1", "n4"), ["a majority confirms a leader"])],
    ids=["of both", "of the new ones alone"],
)
def test_while_members_change_the_old_and_the_new_ones_confirm_a_leader(confirmed, breaches):
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with()))
    members = Configuration(tuple(Member(name, name, votes=True) for name in ("n1", "n4")), THREE.now)
    seen.answered(nodes["n1"], 3, 3, members, confirmed)
    assert said(nodes) == breaches


def test_a_leader_counts_entries_of_its_own_term_and_others_follow():
    logs = dict.fromkeys(NAMES, log_with(1, 1, 2))
    nodes, seen = group_of(logs)
    for term, leader in ((1, "n1"), (2, "n2")):
        for voter in NAMES:
            seen.voted(nodes[voter], log_with(1, 1, 2), term, leader)
        seen.led(nodes[leader], log_with(1, 1, 2), term, THREE)
    seen.committed(nodes["n2"], log_with(1, 1, 2), 1, 3, THREE)
    seen.committed(nodes["n3"], log_with(1, 1, 2), 1, 3, None)
    assert said(nodes) == []
    seen.committed(nodes["n2"], log_with(1, 1, 2), 1, 2, THREE)
    seen.committed(nodes["n3"], log_with(1, 1, 2, 2), 4, 4, None)
    assert said(nodes) == ["a leader counts entries of its own term", "a follower commits what a leader has"]


def test_a_majority_confirms_and_a_state_is_the_same_everywhere():
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with()))
    seen.confirmed(nodes["n1"], NAMES, ["n1", "n2"])
    seen.carried_out(nodes["n1"], "s1", "tables")
    seen.carried_out(nodes["n2"], "s1", "tables")
    seen.founded(nodes["n1"], anew=False)
    seen.founded(nodes["n3"], anew=True)
    seen.answered(nodes["n1"], 4, 4, THREE, NAMES)
    assert said(nodes) == []
    seen.answered(nodes["n1"], 3, 4, THREE, NAMES)
    seen.confirmed(nodes["n1"], NAMES, ["n1"])
    seen.carried_out(nodes["n2"], "s2", "tables")
    seen.carried_out(nodes["n3"], "s2", "others")
    seen.founded(nodes["n2"], anew=False)
    assert sorted(said(nodes)) == [
        "a cluster has one group", "a majority confirms a leader", "a read barrier has all that was committed",
        "a state is the same everywhere",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("base", "epochs", "enacted", "is_broken"),
    [
        (0, [1, 2, 3], 3, False),
        (8, [], 8, False),
        (8, [9], 9, False),
        (8, [8, 9], 9, True),
        (8, [10], 10, True),
        (8, [9, 10], 9, True),
    ],
)
def test_a_disk_has_every_epoch_after_its_snapshot(base, epochs, enacted, is_broken):
    nodes = nodes_named(NAMES)
    LogInvariants(Breaches()).kept(nodes["n1"], base, epochs, enacted)
    assert said(nodes) == ["a disk has every epoch after its snapshot"] * is_broken


def test_what_is_enacted_outlives_a_restart_and_is_served_before_it_is_acknowledged():
    nodes = nodes_named(NAMES)
    for node in nodes.values():
        node.joins = None
    seen = LogInvariants(Breaches())
    seen.enacted(nodes["n1"], 4, ("n1", 1), 3)
    seen.published(nodes["n1"], metadata(4, Topology()))
    seen.booted(nodes["n1"], 4)
    seen.acknowledged(nodes["n1"], ("n1", 1), 4)
    seen.passes(nodes["n2"], 4, 4)
    assert said(nodes) == []
    seen.booted(nodes["n1"], 3)
    seen.acknowledged(nodes["n2"], ("n1", 1), 3)
    seen.passes(nodes["n3"], 4, 3)
    assert said(nodes) == [
        "an epoch outlives a restart",
        "a coordinator has enacted what it acknowledges",
        "who confirms an epoch has enacted it",
    ]


def test_a_replica_refuses_nobody_who_knows_its_definition():
    nodes = nodes_named(NAMES)
    seen = LogInvariants(Breaches())
    schema, _ = rows_of_a_table()
    table = schema["k"].tables["t"]
    wider = replace(table, columns={**table.columns, "v": Column("text", "regular")})
    for epoch, tables in ((4, {}), (5, {"t": table}), (6, {"t": wider}), (7, {"t": table}), (8, {"t": table})):
        seen.published(
            nodes["n1"],
            SimpleNamespace(
                cms=(), members_most=3, epoch=epoch, schema={"k": Keyspace("k", {}, tables)}, topology=Topology()
            ),
        )
    for epoch, enacted in (
        (4, 5),
        (5, 6),
        (5, 7),
        (9, 8),
        (3, 5),
    ):  # not there yet, another one, meanwhile, ahead, not seen
        seen.refused(nodes["n2"], table.id, epoch, enacted)
    assert said(nodes) == []
    seen.refused(nodes["n2"], table.id, 7, 8)
    assert said(nodes) == ["a replica refuses nobody who knows its definition"]


def test_a_replica_serves_nobody_who_knows_another_definition():
    nodes = nodes_named(NAMES)
    seen = LogInvariants(Breaches())
    schema, _ = rows_of_a_table()
    table = schema["k"].tables["t"]
    wider = replace(table, columns={**table.columns, "v": Column("text", "regular")})
    for epoch, tables in ((4, {}), (5, {"t": table}), (6, {"t": table, "u": table}), (7, {"t": wider})):
        seen.published(
            nodes["n1"],
            SimpleNamespace(
                cms=(), members_most=3, epoch=epoch, schema={"k": Keyspace("k", {}, tables)}, topology=Topology()
            ),
        )
    for epoch, enacted in ((4, 7), (5, 6), (7, 7), (7, 6)):
        seen.defined(nodes["n2"], table.id, epoch, enacted)
    assert said(nodes) == []
    seen.defined(nodes["n2"], table.id, 5, 7)
    assert said(nodes) == ["a replica serves nobody who knows another definition"]


@pytest.mark.parametrize(("name", "breaches"), [("k", []), ("other", ["a copy is what was enacted"])])
def test_a_copy_is_what_was_enacted(name, breaches):
    schema, rows = rows_of_a_table()
    node = SeenNode("n1")
    node.disk.schema.merge(rows)
    enacted = SimpleNamespace(cms=(), epoch=5, schema={"k": replace(schema["k"], name=name)})
    LogInvariants(Breaches()).copied(node, enacted, ["k"])
    assert node.said == breaches


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

KEY = (("a",), ())
CELLS = {"": (7, True), "v": (7, 1)}


def rows_on(holders, cells=CELLS, deleted_us=0):
    nodes = nodes_named(NAMES)
    for name in holders:
        nodes[name].disk.files("k", "t", "id").write(KEY, cells, deleted_us)
    return nodes


@pytest.mark.parametrize(
    ("living", "receivers", "breaches"),
    [
        pytest.param(("n1", "n2", "n3"), ("n1", "n2", "n3"), [], id="all"),
        pytest.param(("n1", "n2"), ("n1", "n2"), [], id="all who live"),
        pytest.param(
            ("n1", "n2", "n3"), ("n1", "n2"), ["a write is sent to all replicas that live"], id="a quorum alone"
        ),
    ],
)
def test_a_write_is_sent_to_all_replicas_that_live(living, receivers, breaches):
    nodes = rows_on(())
    gossip = SimpleNamespace(living=lambda names: [name for name in names if name in living])
    nodes["n1"].server = SimpleNamespace(gossip=gossip)
    seen = RowInvariants(list(nodes.values()), Breaches())
    seen.sends(nodes["n1"], KEY, Ring(NAMES), 3, receivers)
    assert said(nodes) == breaches


def by_center(names):
    return {
        center: tuple(name for name in names if int(name[1:]) % 2 == odd) for center, odd in (("dc1", 1), ("dc2", 0))
    }


@pytest.mark.parametrize(
    ("consistency", "answered", "is_broken"),
    [
        ("QUORUM", ("n1", "n2", "n3"), False),
        ("QUORUM", ("n1", "n3"), True),
        ("LOCAL_QUORUM", ("n1", "n3"), False),
        ("LOCAL_QUORUM", ("n1", "n2", "n4"), True),
        ("EACH_QUORUM", ("n1", "n2", "n3", "n4"), False),
        ("EACH_QUORUM", ("n1", "n2", "n3"), True),
        ("LOCAL_ONE", ("n1",), False),
        ("LOCAL_ONE", ("n2",), True),
        ("ONE", ("n2",), False),
        ("ALL", ("n1", "n2", "n3"), True),
    ],
)
def test_a_read_has_answers_of_as_many_replicas_as_its_level_says(consistency, answered, is_broken):
    names = ("n1", "n2", "n3", "n4")
    nodes = nodes_named(names)
    nodes["n1"].locations, nodes["n1"].location = {"n1": "here"}, SimpleNamespace(data_center="dc1")
    nodes["n1"].by_data_center = by_center
    seen = RowInvariants(list(nodes.values()), Breaches())
    seen.counts(nodes["n1"], [0], answered, Ring(names), 4, consistency)
    assert ("a read has answers of as many replicas as its level says" in said(nodes)) == is_broken


@pytest.mark.parametrize("consistency", ["QUORUM", "ONE"])
@pytest.mark.parametrize("holders", [("n1", "n2"), ("n3",)])
def test_every_quorum_has_what_was_acknowledged_at_quorum(holders, consistency):
    nodes = rows_on(holders)
    seen = RowInvariants(list(nodes.values()), Breaches())
    seen.written(nodes["n1"], RowWrite("id", KEY, CELLS), Ring(NAMES), 3, consistency)
    is_broken = len(holders) < 2 and consistency == "QUORUM"
    too_few = ["an acknowledged write is on as many replicas as its level says", "every quorum has a write"]
    assert said(nodes) == (too_few if is_broken else [])


@pytest.mark.parametrize(
    ("consistency", "holders", "is_broken"),
    [
        ("ONE", ("n2",), False),
        ("ONE", (), True),
        ("TWO", ("n1", "n2"), False),
        ("TWO", ("n1",), True),
        ("ALL", ("n1", "n2", "n3"), False),
        ("ALL", ("n1", "n2"), True),
    ],
)
def test_a_write_is_on_as_many_replicas_as_its_level_says(consistency, holders, is_broken):
    nodes = rows_on(holders)
    seen = RowInvariants(list(nodes.values()), Breaches())
    seen.written(nodes["n1"], RowWrite("id", KEY, CELLS), Ring(NAMES), 3, consistency)
    assert ("an acknowledged write is on as many replicas as its level says" in said(nodes)) == is_broken


@pytest.mark.parametrize(
    ("found", "breaches"),
    [
        ({KEY: (0, CELLS)}, []),
        ({KEY: (0, {"": (9, True), "v": (9, 2)})}, []),
        ({KEY: (8, {})}, []),
        ({KEY: (0, {"": (7, True), "v": (6, 1)})}, ["a read has what was acknowledged before it"]),
        ({}, ["a read has what was acknowledged before it"]),
    ],
    ids=["the row", "a later one", "its deletion", "an earlier cell", "no row"],
)
def test_a_read_has_what_was_acknowledged_before_it(found, breaches):
    nodes = rows_on(NAMES, {"": (9, True), "v": (9, 2)}, 8)  # all disks are ahead of what was read
    seen = RowInvariants(list(nodes.values()), Breaches())
    seen.written(nodes["n1"], RowWrite("id", KEY, CELLS), Ring(NAMES), 3, "QUORUM")
    floor = seen.asked("id", KEY[0])
    seen.written(nodes["n1"], RowWrite("id", KEY, {"": (10, True)}), Ring(NAMES), 3, "ONE")
    seen.returned(nodes["n2"], "id", found, Ring(NAMES), 3, "QUORUM", floor)
    assert [text for text in said(nodes) if text.startswith("a read")] == breaches


def test_a_read_need_not_have_what_is_acknowledged_while_it_is_under_way():
    nodes = rows_on(NAMES)
    seen = RowInvariants(list(nodes.values()), Breaches())
    floor = seen.asked("id", KEY[0])
    seen.written(nodes["n1"], RowWrite("id", KEY, CELLS), Ring(NAMES), 3, "QUORUM")
    seen.returned(nodes["n2"], "id", {}, Ring(NAMES), 3, "QUORUM", floor)
    assert said(nodes) == []


@pytest.mark.parametrize(
    ("holders", "factor", "breaches"),
    [
        (("n1", "n2", "n3"), 3, []),
        (("n1", "n2"), 3, ["who is read from has what was acknowledged"]),
        (("n1", "n2", "n3"), 1, ["who is read from has what was acknowledged"]),
    ],
    ids=["two of the new ones", "one of the new ones", "the new one alone lacks it"],
)
def test_who_is_read_from_has_what_was_acknowledged(holders, factor, breaches):
    nodes = nodes_named(("n1", "n2", "n3", "n4"))
    for name in holders:
        nodes[name].disk.files("k", "t", "id").write(KEY, CELLS)
    seen = RowInvariants(list(nodes.values()), Breaches())
    readers = ("n4", "n2", "n3")[:factor] if factor > 1 else ("n4",)
    before = SimpleNamespace(
        place=lambda _t: 0, replicas=lambda _p, _f: holders, writes=lambda _p, _f: holders, version=0
    )
    after = SimpleNamespace(place=lambda _t: 0, replicas=lambda _p, _f: readers)
    seen.written(nodes["n1"], RowWrite("id", KEY, CELLS), before, 3, "QUORUM")
    seen.turned(nodes["n1"], after, 1)
    assert said(nodes) == breaches
    seen.forget()
    seen.turned(nodes["n2"], after, 2)
    assert said(nodes) == breaches


def nodes_that_serve(factor, ring, *, names=("n1", "n2", "n3", "n4")):
    """Nodes that serve table `t`, whose keyspace has that replication factor."""
    table = Table("k", "t", "id", {}, {})
    nodes = nodes_named(names)
    for node in nodes.values():
        memory = {"k": SimpleNamespace(replication_factor=factor)}
        node.server = SimpleNamespace(ring=ring, memory=memory, table={"id": table}.get)
    return nodes


REPAIR = "a repair leaves no replica without what was acknowledged"


@pytest.mark.parametrize(
    ("written_by", "factor", "holders", "breaches"),
    [
        (1, 2, ("n1", "n2"), []),
        (1, 2, ("n1",), [REPAIR]),
        (2, 3, ("n1", "n2"), [REPAIR]),
        (3, 3, ("n1", "n2"), [REPAIR]),
        (3, 2, ("n1", "n3"), []),
        (1, 1, ("n1",), []),
    ],
    ids=["on both", "on one", "not on the new one", "on two of three", "fewer than before", "its only replica"],
)
def test_a_repair_leaves_no_replica_without_what_was_acknowledged(written_by, factor, holders, breaches):
    ring = SimpleNamespace(
        place=lambda _t: 0, replicas=lambda _p, f: NAMES[:f], writes=lambda _p, f: NAMES[:f], version=0
    )
    nodes = nodes_that_serve(factor, ring)
    for name in holders:
        nodes[name].disk.files("k", "t", "id").write(KEY, CELLS)
    seen = RowInvariants(list(nodes.values()), Breaches())
    seen.written(nodes["n1"], RowWrite("id", KEY, CELLS), ring, written_by, "QUORUM")
    before = seen.acknowledged()
    seen.repaired(nodes["n4"], ring, before)  # no replica
    assert said(nodes) == []
    seen.repaired(nodes["n1"], ring, before)
    assert said(nodes) == breaches


PULLS = ["who joins pulls the schema of the others"]


def rows_of_a_keyspace():
    changes = SchemaRows()
    changes.merge([RowChange("k", ("keyspaces",), {"name": (1, "k")})])
    return changes.changes()


@pytest.mark.parametrize(
    ("what", "after_s", "breaches"),
    [
        ("nothing", 16, PULLS),
        ("nothing", 14, []),
        ("it has it", 16, []),
        ("another version", 16, []),
        ("a fault", 16, []),
        ("another server", 16, []),
        ("not heard", 16, []),
    ],
)
def test_who_joins_has_the_schema_of_one_that_it_hears_after_a_while(what, after_s, breaches):
    nodes = nodes_named(NAMES)
    gossip = SimpleNamespace(peers_alive=lambda: [] if what == "not heard" else ["n1"])
    nodes["n3"].server = SimpleNamespace(gossip=gossip)
    nodes["n1"].server = SimpleNamespace(version=1)
    nodes["n1"].disk.schema.merge(rows_of_a_keyspace())
    if what == "it has it":
        nodes["n3"].disk.schema.merge(rows_of_a_keyspace())
    seen = RowInvariants(list(nodes.values()), Breaches())
    seen.awaits_schema(nodes["n3"])
    nodes["n3"].kernel.heap.now_ns = 8 * S
    if what == "another version":
        nodes["n1"].server.version = 2
    if what == "another server":
        nodes["n1"].server = SimpleNamespace(version=1, number=2)
    nodes["n1"].weather = "cut" if what == "a fault" else ""
    seen.awaits_schema(nodes["n3"])
    nodes["n1"].weather = ""
    nodes["n3"].kernel.heap.now_ns = after_s * S
    seen.awaits_schema(nodes["n3"])
    assert said(nodes) == breaches


@pytest.mark.parametrize(("holders", "breaches"), [(("n1", "n2"), []), (("n1",), [REPAIR])])
def test_a_repair_that_says_that_it_is_done_is_looked_at_whatever_it_did(holders, breaches):
    ring = even_topology(NAMES, dict.fromkeys(NAMES, ""))
    first = ring.replicas(ring.place(token_of(KEY[0])), 1)[0]
    names = (first, *(name for name in NAMES if name != first))
    nodes = nodes_that_serve(3, ring)
    for name, named in zip(names, NAMES, strict=True):
        if named in holders:
            nodes[name].disk.files("k", "t", "id").write(KEY, CELLS)
    seen = RowInvariants(list(nodes.values()), Breaches())
    seen.written(nodes[first], RowWrite("id", KEY, CELLS), ring, 1, "QUORUM")

    def repair():
        for name in names if len(holders) > 1 else ():
            nodes[name].disk.files("k", "t", "id").write(KEY, CELLS)
        for transfer in ring.own_transfers(first, 3):
            for name in NAMES:
                seen.streamed(nodes[name], transfer, NAMES)
        yield "a question"
        return "done"

    steps = seen.look_at_repair(nodes[first], repair())
    assert next(steps) == "a question"
    assert said(nodes) == []
    with pytest.raises(StopIteration, match="done"):
        next(steps)
    assert said(nodes) == breaches


STREAMED = "a repair that is done has streamed from and to all replicas"


def stream_to(seen, node, ring, sources=NAMES):
    """Have it noted that all ranges of n1, which a node has, too, were streamed to that one from these."""
    for transfer in ring.own_transfers("n1", 3):
        if node.name in {transfer.target, *transfer.sources}:
            seen.streamed(node, transfer, [name for name in sources if name != node.name])


@pytest.mark.parametrize(
    ("left_out", "meanwhile", "breaches"),
    [
        ("", "", []),
        ("n2", "", [STREAMED]),
        ("n1", "", [STREAMED]),
        ("n1", "from one replica alone", [STREAMED]),
        ("n2", "streamed before", [STREAMED]),
        ("n2", "the keyspace is dropped", []),
        ("n2", "it fails", []),
    ],
)
def test_a_repair_that_says_that_it_is_done_has_streamed_from_and_to_all_replicas(left_out, meanwhile, breaches):
    ring = even_topology(NAMES, dict.fromkeys(NAMES, ""))
    nodes = nodes_that_serve(3, ring)
    seen = RowInvariants(list(nodes.values()), Breaches())

    def repair():
        yield "a question"
        for name in NAMES:
            if name != left_out:
                stream_to(seen, nodes[name], ring, NAMES if name == "n1" else ("n1",))
        if meanwhile == "from one replica alone":
            stream_to(seen, nodes[left_out], ring, ("n2",))
        if meanwhile == "it fails":
            raise ServerSaid("ServerError", "Repair session failed")

    if meanwhile == "streamed before":
        stream_to(seen, nodes[left_out], ring)
    steps = seen.look_at_repair(nodes["n1"], repair())
    assert next(steps) == "a question"
    if meanwhile == "the keyspace is dropped":
        nodes["n1"].server.memory = {}
    with pytest.raises(ServerSaid if meanwhile == "it fails" else StopIteration):
        next(steps)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("sources", "target", "factor", "is_broken"),
    [
        (("n1", "n2"), "n4", 3, False),
        (("n1",), "n4", 3, True),
        (("n1", "n4"), "n4", 3, True),
        (("n1", "n2"), "n3", 3, False),
        (("n1", "n2"), "n4", 4, False),
        (("n1",), "n4", 1, False),
        (("n2",), "n4", 1, True),
    ],
    ids=["a quorum", "one too few", "itself", "of its own place", "fewer nodes than replicas", "the only one", "none that is read from"],
)  # fmt: skip
def test_rows_are_streamed_from_enough_replicas(sources, target, factor, is_broken):
    nodes = nodes_named((*NAMES, "n4"))
    topology = ring_of(*NAMES)
    nodes["n4"].server = SimpleNamespace(ring=topology)
    span = next(
        each.span for each in topology.own_transfers("n1", min(factor, 3))
        if topology.replicas(topology.place(each.span.end), 1) == ("n1",)
    )  # fmt: skip
    transfer = Transfer(factor, span, target, sources, is_strict=False, readers=sources)
    RowInvariants(list(nodes.values()), Breaches()).streams_from(nodes["n4"], transfer, sources)
    assert said(nodes) == (["rows are streamed from enough replicas"] if is_broken else [])


@pytest.mark.parametrize(("has_looked", "breaches"), [(True, []), (False, ["who takes its own place has its ranges"])])
def test_who_takes_its_own_place_comes_back_when_it_has_it(has_looked, breaches):
    nodes = rows_on(())
    seen = RowInvariants(list(nodes.values()), Breaches())
    nodes["n1"].server = SimpleNamespace(number=1)
    seen.has_own_place(nodes["n1"], even_topology(NAMES, dict.fromkeys(NAMES, "")), {})
    if not has_looked:
        nodes["n1"].server = SimpleNamespace(number=2)
    seen.comes_back(nodes["n1"])
    assert said(nodes) == breaches


@pytest.mark.parametrize(("stamp", "breaches"), [(4, []), (3, ["news of a node are later than those before"])])
def test_news_of_a_node_are_later_than_those_before(stamp, breaches):
    nodes = rows_on(())
    RowInvariants(list(nodes.values()), Breaches()).tells(nodes["n1"], "n2", stamp, 3)
    assert said(nodes) == breaches


@pytest.mark.parametrize(("ends", "breaches"), [((5, 9), []), ((5,), ["who is to be read from has its ranges"])])
def test_who_is_to_be_read_from_has_its_ranges(ends, breaches):
    nodes = rows_on(())
    seen = RowInvariants(list(nodes.values()), Breaches())
    for end in ends:
        span = SimpleNamespace(end=end)
        seen.streamed(nodes["n2"], Transfer(3, span, "n2", ("n1",), is_strict=True, readers=("n1",)), ("n1",))
    seen.has_taken_over(nodes["n1"], "n2", [(3, 5), (3, 9)])
    assert said(nodes) == breaches


@pytest.mark.parametrize(("others", "breaches"), [([], []), (["n3"], ["one change of the ring at a time"])])
def test_the_ring_changes_in_one_place_at_a_time(others, breaches):
    nodes = nodes_named(NAMES)
    RowInvariants(list(nodes.values()), Breaches()).changes(nodes["n1"], "n2", others)
    assert said(nodes) == breaches


@pytest.mark.parametrize("meanwhile", ["acknowledged later", "the ring turned", "another ring is known"])
def test_a_repair_is_not_held_to_what_came_meanwhile(meanwhile):
    ring = SimpleNamespace(
        place=lambda _t: 0, replicas=lambda _p, f: NAMES[:f], writes=lambda _p, f: NAMES[:f], version=0
    )
    nodes = nodes_that_serve(2, ring)
    nodes["n1"].disk.files("k", "t", "id").write(KEY, CELLS)
    seen = RowInvariants(list(nodes.values()), Breaches())
    before = seen.acknowledged()
    seen.written(nodes["n1"], RowWrite("id", KEY, CELLS), ring, 1, "QUORUM")
    if meanwhile != "acknowledged later":
        before = seen.acknowledged()
    if meanwhile == "the ring turned":
        seen.turned(nodes["n1"], ring, 1)
    if meanwhile == "another ring is known":
        nodes["n1"].server.ring = Ring(NAMES)
    seen.repaired(nodes["n1"], ring, before)
    assert said(nodes) == []


@pytest.mark.parametrize(
    ("written_by", "read_by", "is_broken"),
    [(1, 1, True), (1, 2, True), (3, 2, True), (1, 3, False), (4, 2, False), ((("dc1", 1),), (("dc1", 2),), False)],
)
def test_a_read_is_held_to_writes_by_the_same_factor_or_the_next_one(written_by, read_by, is_broken):
    nodes = rows_on(NAMES)
    seen = RowInvariants(list(nodes.values()), Breaches())
    ring = SimpleNamespace(place=lambda _t: 0, replicas=lambda _p, _f: NAMES, writes=lambda _p, _f: NAMES, version=0)
    seen.written(nodes["n1"], RowWrite("id", KEY, CELLS), ring, written_by, "QUORUM")
    seen.returned(nodes["n2"], "id", {}, ring, read_by, "QUORUM", seen.asked("id", KEY[0]))
    assert said(nodes) == (["a read has what was acknowledged before it"] if is_broken else [])


def test_what_was_written_by_another_factor_is_not_added_up():
    nodes = rows_on(NAMES)
    seen = RowInvariants(list(nodes.values()), Breaches())
    for factor, column in ((1, "v"), (3, "w")):
        write = RowWrite("id", KEY, {column: (7, 1)})
        nodes["n1"].disk.files("k", "t", "id").write(KEY, write.cells)
        seen.written(nodes["n1"], write, Ring(NAMES), factor, "QUORUM")
    (stamps,) = seen.asked("id", KEY[0]).values()
    assert (stamps.factor, dict(stamps.cells)) == (3, {"w": 7})


@pytest.mark.parametrize(
    ("replaced", "breaches"),
    [("n2", []), ("n4", ["who is read from has what was acknowledged"])],
    ids=["it takes its own place", "it takes another one's"],
)
def test_a_node_that_is_read_from_has_an_empty_disk_only_in_its_own_place(replaced, breaches):
    nodes = rows_on(NAMES)
    seen = RowInvariants(list(nodes.values()), Breaches())
    seen.written(nodes["n1"], RowWrite("id", KEY, CELLS), Ring(NAMES), 3, "QUORUM")
    for name in NAMES:
        nodes[name].disk = Disk()
    nodes["n2"].joins = Joining(0, replaced)
    seen.turned(nodes["n1"], Ring(NAMES), 1)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("left_out", "starts_again", "breaches"),
    [
        (0, False, []),
        (1, False, ["who takes its own place has its ranges"]),
        (0, True, ["who takes its own place has its ranges"]),
    ],
    ids=["all", "all but one", "all, by the server before"],
)
def test_who_takes_its_own_place_has_streamed_all_its_ranges(left_out, starts_again, breaches):
    nodes = nodes_named((*NAMES, "n4"))
    ring = even_topology(tuple(nodes), dict.fromkeys(nodes, "id"))
    seen = RowInvariants(list(nodes.values()), Breaches())
    nodes["n2"].server = object()
    for transfer in list(ring.own_transfers("n2", 3))[left_out:]:
        seen.streamed(nodes["n2"], transfer, transfer.sources)
    if starts_again:
        nodes["n2"].server = object()
    seen.took_own_place(nodes["n2"], ring, 3)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("factors", "breaches"),
    [((3,), []), ((3, 2), ["who takes its own place has its ranges"])],
    ids=["streamed", "one not streamed"],
)
def test_who_takes_its_own_place_has_streamed_rows_of_all_keyspaces(factors, breaches):
    nodes = nodes_named((*NAMES, "n4"))
    ring = even_topology(tuple(nodes), dict.fromkeys(nodes, "id"))
    seen = RowInvariants(list(nodes.values()), Breaches())
    nodes["n2"].server = object()
    for transfer in ring.own_transfers("n2", 3):
        seen.streamed(nodes["n2"], transfer, transfer.sources)
    schema = {f"k{factor}": SimpleNamespace(replication_factor=factor) for factor in factors}
    seen.has_own_place(nodes["n2"], ring, schema)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("host_id", "breaches"),
    [("another", []), ("its own", ["who is read from has what was acknowledged"])],
    ids=["another node has its address", "it is read from itself"],
)
def test_who_died_is_not_read_from_though_another_one_has_its_address(host_id, breaches):
    nodes = rows_on(("n1", "n2"))
    for name in NAMES:
        nodes[name].host_ids = {name: "its own"}
    nodes["n1"].server = nodes["n2"].server = nodes["n3"].server = None
    seen = RowInvariants(list(nodes.values()), Breaches())
    seen.written(nodes["n1"], RowWrite("id", KEY, CELLS), Ring(NAMES), 3, "QUORUM")
    nodes["n2"].disk = Disk()
    ids = dict.fromkeys(NAMES, "its own") | {"n2": host_id}
    seen.turned(nodes["n1"], even_topology(NAMES, ids, version=1), 1)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("held", "deleted_us", "breaches"),
    [
        ({"": (7, True), "v": (9, 2)}, 0, []),
        ({"": (7, True), "v": (6, 1)}, 0, ["every quorum has a row that was read"]),
        ({}, 8, []),
    ],
    ids=["a later cell", "an earlier cell", "deleted since"],
)
def test_every_quorum_has_what_was_read_at_quorum_or_what_came_after_it(held, deleted_us, breaches):
    nodes = rows_on(NAMES, held, deleted_us)
    seen = RowInvariants(list(nodes.values()), Breaches())
    seen.returned(nodes["n1"], "id", {KEY: (0, CELLS)}, Ring(NAMES), 3, "QUORUM", {})
    assert said(nodes) == breaches


def test_rows_of_a_table_that_a_node_does_not_know_are_not_looked_at():
    nodes = rows_on(())
    nodes["n2"].server = SimpleNamespace(table=lambda _id: None, ring=None)
    seen = RowInvariants(list(nodes.values()), Breaches())
    seen.written(nodes["n1"], RowWrite("id", KEY, CELLS), Ring(NAMES), 3, "QUORUM")
    assert said(nodes) == []


# ── schemas ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def rows_of_a_table(us=5):
    table = Table("k", "t", "0" * 31 + "1", {"id": Column("int", "partition_key", 0)})
    schema = {"k": Keyspace("k", {"class": "SimpleStrategy", "replication_factor": 1}, {"t": table})}
    return schema, difference({}, schema, us, Writing())


def merged_on(rows, *, memory=None, version=None, keeps_files=True):
    """A node whose disk has these rows, and that serves them unless told otherwise."""
    schema, _ = rows_of_a_table()
    node = SeenNode("n1")
    node.disk.schema.merge(rows)
    node.server = SimpleNamespace(
        memory=schema if memory is None else memory, version=version or node.disk.schema.version()
    )
    if keeps_files:
        node.disk.files("k", "t", "0" * 31 + "1")
    return node


def test_a_node_serves_what_its_disk_has():
    schema, rows = rows_of_a_table()
    _, earlier = rows_of_a_table(4)
    cases = {
        (): merged_on(rows),
        ("a node serves what its disk has",): merged_on(rows, memory={}),
        ("a version is the digest of the disk",): merged_on(rows, version=UUID(int=3)),
        ("what is served has its files",): merged_on(rows, keeps_files=False),
        ("what was merged is on the disk",): merged_on(earlier),
    }
    for breaches, node in cases.items():
        MergeInvariants(Breaches()).merged(node, rows)
        assert tuple(node.said) == breaches
    later = merged_on([*earlier, *rows])
    MergeInvariants(Breaches()).merged(later, earlier)  # what is on the disk came after what was merged
    MergeInvariants(Breaches()).changed(later, schema, rows)
    assert later.said == []
    MergeInvariants(Breaches()).changed(later, {}, rows)
    assert later.said == ["a change comes to what was asked for"]


@pytest.mark.parametrize(("same", "breaches"), [(True, []), (False, ["a version is the same definitions"])])
def test_a_version_is_the_same_definitions(same, breaches):
    nodes, (schema, _) = nodes_named(NAMES), rows_of_a_table()
    seen = MergeInvariants(Breaches())
    version = UUID(int=7)
    for name in ("n1", "n2"):
        node = nodes[name]
        memory = dict(schema) if same or name == "n1" else {}
        node.server = SimpleNamespace(version=version, memory=memory)
        seen._compare_versions(node)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("is_served", "has_rows", "breaches"),
    [(True, True, []), (False, False, []), (False, True, ["a start leaves no files of what was dropped"])],
    ids=["a table that there is", "a dropped one without rows", "a dropped one"],
)
def test_a_start_leaves_no_files_of_what_was_dropped(is_served, has_rows, breaches):
    node = SeenNode("n1")
    node.disk = Disk()
    files = node.disk.files("k", "t", "id")
    if has_rows:
        files.write(KEY, CELLS)
    node.server = SimpleNamespace(table={"id": object()}.get if is_served else {}.get)
    ChainInvariants(Breaches()).started(node)
    assert node.said == breaches


def test_a_version_of_a_chain_is_one_schema_and_none_goes_back():
    schema, _ = rows_of_a_table()
    one, two = SeenNode("n1"), SeenNode("n2")
    seen = ChainInvariants(Breaches())
    seen.served(one, "", 0, {})
    seen.served(one, "a", 1, schema)
    seen.served(two, "a", 1, dict(schema))
    seen.served(one, "a", 1, schema)  # a start
    seen.served(one, "b", 2, {})
    assert one.said + two.said == []
    seen.served(two, "b", 2, schema)
    seen.served(one, "a", 1, schema)
    assert (one.said, two.said) == (["no version goes back"], ["a version is the same everywhere"])


@pytest.mark.parametrize(
    ("others", "breaches"),
    [
        ({"n2": 5, "n3": 5}, []),
        ({"n2": 5, "n3": 4}, ["a change begins where versions agree"]),
        ({"n2": 5}, ["a change begins where versions agree"]),
    ],
    ids=["all", "another version", "one was not asked"],
)
@pytest.mark.parametrize("observer", [ChainInvariants, MergeInvariants])
def test_a_change_begins_where_versions_agree(observer, others, breaches):
    node = SeenNode("n1")
    node.server = SimpleNamespace(gossip=SimpleNamespace(alive=lambda name: name != "n4"))
    observer(Breaches()).agreed(node, 5, others, ["n2", "n3", "n4"], 0)
    assert node.said == breaches


@pytest.mark.parametrize("observer", [ChainInvariants, MergeInvariants])
def test_each_change_is_made_after_versions_were_asked_for(observer):
    node = SeenNode("n1")
    node.server = SimpleNamespace(gossip=SimpleNamespace(alive=lambda _name: True))
    seen = observer(Breaches())
    seen.agreed(node, 5, {"n2": 5}, ["n2"], 0)
    seen.makes(node)
    assert node.said == []
    seen.makes(node)
    assert node.said == ["a change begins where versions agree"]


@pytest.mark.parametrize("observer", [ChainInvariants, MergeInvariants])
def test_a_change_begins_without_a_version_when_it_was_waited_for(observer):
    node = SeenNode("n1")
    node.server = SimpleNamespace(gossip=SimpleNamespace(alive=lambda _name: True))
    seen = observer(Breaches())
    node.kernel.heap.now_ns = 3_000_000_000
    seen.agreed(node, 5, {"n2": 5, "n3": None}, ["n2", "n3"], 1_000_000_000)
    assert node.said == []
    seen.agreed(node, 5, {"n2": 5, "n3": None}, ["n2", "n3"], 1_000_000_001)
    assert node.said == ["a change begins where versions agree"]


@pytest.mark.parametrize(
    ("others", "breaches"),
    [
        ({"n2": "a", "n3": "a"}, []),
        ({"n2": "a", "n3": "b"}, ["who joins has the schema of the others"]),
        ({}, ["who joins has the schema of the others"]),
    ],
    ids=["one version", "two versions", "nobody was heard of"],
)
def test_who_joins_has_the_schema_of_the_others(others, breaches):
    node = SeenNode("n1")
    RowInvariants([node], Breaches()).joins(node, "a", others)
    assert node.said == breaches


def test_migrations_are_sent_and_carried_out_in_their_order():
    node = SeenNode("n1")
    first, second = SimpleNamespace(last="", version="a"), SimpleNamespace(last="a", version="b")
    seen = ChainInvariants(Breaches())
    seen.pushed(node, "", [first, second])
    seen.pushed(node, "a", [second])
    seen.pushed(node, "b", [])
    seen.applied(node, "a", second)
    assert node.said == []
    seen.applied(node, "", second)
    assert node.said == ["a migration goes on top of the version that it names"]
    for theirs, migrations in (("", [second, first]), ("", [second])):
        other = SeenNode("n2")
        ChainInvariants(Breaches()).pushed(other, theirs, migrations)
        assert other.said == ["migrations are sent in their order"]


def test_a_start_serves_what_is_on_the_disk():
    _, rows = rows_of_a_table()
    node = merged_on(rows)
    MergeInvariants(Breaches()).started(node)
    assert node.said == []
    node.server.memory = {}
    MergeInvariants(Breaches()).started(node)
    assert node.said == ["a node serves what its disk has"]


@pytest.mark.parametrize(
    ("candidate", "term", "last", "breaches"),
    [
        ("n3", 2, (1, 1), []),
        ("n3", 3, (0, 0), []),
        ("n3", 3, (1, 1), ["who may have a vote has it"]),
        ("n1", 2, (1, 1), ["who may have a vote has it"]),
        ("n3", 4, (1, 1), []),
    ],
    ids=["another one has it", "a shorter log", "nobody has it", "it had it before", "not its term"],
)
def test_a_vote_is_refused_for_a_reason(candidate, term, last, breaches):
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with(1)))
    seen.voted(nodes["n2"], log_with(1), 2, "n1")
    seen.in_term(nodes["n2"], log_with(1), max(term, 2) if term < 4 else 5)
    seen.refused(nodes["n2"], log_with(1), term, candidate, last)
    assert said(nodes) == breaches


@pytest.mark.parametrize(
    ("leader", "hears", "breaches"),
    [("", False, []), ("n3", False, []), ("n3", True, ["nobody who hears a leader votes on trial"])],
)
def test_nobody_who_hears_a_leader_votes_on_trial(leader, hears, breaches):
    nodes, seen = group_of(dict.fromkeys(NAMES, log_with(1)))
    seen.tried(nodes["n2"], "n1", leader, hears_leader=hears)
    assert said(nodes) == breaches


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_option_that_is_none_is_refused(tmp_path):
    plan = plan_of("schema-churn", options={"invariants": "perhaps"})
    provider = SimulatedProvider()
    provider.runtime(plan)
    with pytest.raises(PlanError, match="unchecked or checked"):
        provider.create(plan, tmp_path)


PAXOS = {"log": "paxos", "cut.at": "6.0/paxos/p3@16", "fault.seconds": "15"}
LATE = {"slow": "n1-n3:400,n2-n3:400,n4-n3:400"}


@pytest.mark.parametrize("is_flawed", [True, False], ids=["flaw", "twin"])
@pytest.mark.parametrize(
    ("plan", "flaw", "invariant"),
    [
        (
            plan_of("quorum", "bootstrap", system=SCYLLA, options=LATE, nodes=4, spares=1, rate=8, time_limit_s=12),
            "early-stream",
            "all members know a state before the next one",
        ),
        (
            plan_of("schema-churn", system=SIX, seed=2, options=PAXOS, rate=20, time_limit_s=25),
            "own-value",
            "an epoch is decided once",
        ),
    ],
    ids=["group 0", "metadata log"],
)
def test_a_flaw_breaks_an_invariant_that_its_twin_keeps(tmp_path, plan, flaw, invariant, is_flawed):
    bugs = {"bug": flaw} if is_flawed else {"bugs": "none"}
    plan = replace(plan, options={**plan.options, **bugs, "invariants": "checked"})
    (tmp_path / "plan.json").write_bytes(dump_sealed(plan.to_json()))
    Conductor(plan, tmp_path).run()
    logs = "".join(path.read_text() for path in tmp_path.rglob("system-*.log"))
    assert (f"AssertionError: {invariant}" in logs) == is_flawed
    assert is_flawed or "AssertionError" not in logs
