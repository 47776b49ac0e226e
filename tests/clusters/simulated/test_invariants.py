"""What must hold of all nodes at once: each breach is logged by a node, and its legal twin, one fact away, is not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest
from simulated_runs import SCYLLA, SIX, plan_of

from schemaquake.clusters.simulated.data import RowWrite
from schemaquake.clusters.simulated.disk import Disk
from schemaquake.clusters.simulated.models.invariants import (
    Breaches,
    GroupInvariants,
    LogInvariants,
    RingInvariants,
    RowInvariants,
)
from schemaquake.clusters.simulated.models.raft import Configuration, Entry, Log, Member
from schemaquake.clusters.simulated.provider import SimulatedProvider
from schemaquake.clusters.simulated.ring import Ring
from schemaquake.clusters.simulated.topology import Moving, Topology, even_topology
from schemaquake.harness.errors import PlanError
from schemaquake.harness.run.conductor import Conductor
from schemaquake.harness.sealed_json import dump_sealed

NAMES = ("n1", "n2", "n3")
THREE = Configuration(tuple(Member(name, name, votes=True) for name in NAMES))
LISTENS = Configuration((*THREE.now, Member("n4", "n4", votes=False), Member("n5", "n5", votes=False)))


@dataclass
class SeenNode:
    """A node of which an observer sees the disk, and of whose log it is the only author."""

    name: str
    said: list[str] = field(default_factory=list)
    disk: Disk = field(default_factory=Disk)
    server: SimpleNamespace | None = None
    locations: dict = field(default_factory=dict)

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


@pytest.mark.parametrize(
    ("group", "applied", "breaches"),
    [("g", 2, []), ("g", 1, ["a change begins on what was committed"]), ("h", 0, [])],
)
def test_a_change_begins_on_what_was_committed_before_it(group, applied, breaches):
    log = log_with(1, 1)
    nodes, seen = group_of(dict.fromkeys(NAMES, log))
    assert seen.floor(log) == 0
    seen.committed(nodes["n1"], log, 1, 2, THREE)
    seen.begun(nodes["n2"], log, applied, (group, seen.floor(log)))
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
    return SimpleNamespace(epoch=epoch, topology=topology, schema=schema)


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


@pytest.mark.parametrize(("know", "breaches"), [(2, []), (1, ["a majority knows a step before the next one"])])
def test_a_majority_knows_a_step_before_the_next_one(know, breaches):
    nodes = nodes_named(NAMES)
    base = even_topology(NAMES, {name: name for name in NAMES})
    move = Moving("join", "n4", base.ring, (5,), done=2)
    after = Topology(9, base.seats, base.ring, (move,))
    seen = LogInvariants(Breaches())
    for name in NAMES[:know]:
        seen.published(nodes[name], metadata(9, after, k=3))
    nodes["n1"].server = SimpleNamespace(memory={"k": None})
    seen.advances(nodes["n1"], move, lambda factors: [NAMES] if set(factors) == {3} else [])
    assert said(nodes) == breaches


def test_a_range_is_locked_once():
    nodes = nodes_named(("n1",))
    base = even_topology(("n1",), {"n1": "n1"})
    for moves, breaches in (
        ([joining("n2", 5, base)], []),
        ([joining("n2", 5, base), joining("n3", 9, base)], ["a range is locked once"]),
    ):
        LogInvariants(Breaches()).published(nodes["n1"], metadata(4, Topology(4, base.seats, base.ring, tuple(moves))))
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


@pytest.mark.parametrize(
    ("versions", "flights", "breaches"),
    [
        ((5, 5), {5: 1, 4: 0}, []),
        ((5, 4), {}, ["all members know a state before the next one"]),
        ((5, 5), {4: 1}, ["earlier requests have ended"]),
    ],
)
def test_all_members_know_a_state_of_the_topology_before_the_next_one(versions, flights, breaches):
    nodes = nodes_named(("n1", "n2", "n3"))
    nodes["n2"].server = SimpleNamespace()
    known = dict(zip(("n1", "n2"), versions, strict=True)) | {"n3": 0}
    seen = RingInvariants(list(nodes.values()), lambda node: known[node.name], lambda _node: flights, Breaches())
    seen.goes_on(nodes["n1"], 5, ["n1", "n2"])
    assert said(nodes) == breaches


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

KEY = (("a",), ())
CELLS = {"": (7, True), "v": (7, 1)}


def rows_on(holders, cells=CELLS, deleted_us=0):
    nodes = nodes_named(NAMES)
    for name in holders:
        nodes[name].disk.files("k", "t", "id").write(KEY, cells, deleted_us)
    return nodes


@pytest.mark.parametrize("consistency", ["QUORUM", "ONE"])
@pytest.mark.parametrize("holders", [("n1", "n2"), ("n3",)])
def test_every_quorum_has_what_was_acknowledged_at_quorum(holders, consistency):
    nodes = rows_on(holders)
    seen = RowInvariants(list(nodes.values()), Breaches())
    seen.written(nodes["n1"], RowWrite("id", KEY, CELLS), Ring(NAMES), 3, consistency)
    is_broken = len(holders) < 2 and consistency == "QUORUM"
    assert said(nodes) == (["every quorum has a write"] if is_broken else [])


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
    seen.returned(nodes["n1"], "id", {KEY: (0, CELLS)}, Ring(NAMES), 3, "QUORUM")
    assert said(nodes) == breaches


def test_rows_of_a_table_that_a_node_does_not_know_are_not_looked_at():
    nodes = rows_on(())
    nodes["n2"].server = SimpleNamespace(table=lambda _id: None, ring=None)
    seen = RowInvariants(list(nodes.values()), Breaches())
    seen.written(nodes["n1"], RowWrite("id", KEY, CELLS), Ring(NAMES), 3, "QUORUM")
    assert said(nodes) == []


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
