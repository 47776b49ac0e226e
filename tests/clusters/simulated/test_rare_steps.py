"""Steps of protocols that runs hardly come to, each brought about by itself: an order that comes twice, a snapshot that is late, a member that comes back.

Lines that no known seed shows to be wrong name their test here, or another one (`test` in `tests/changed_steps.toml`).
"""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from schemaquake.clusters.simulated.data import RowWrite
from schemaquake.clusters.simulated.disk import Disk, TableFiles
from schemaquake.clusters.simulated.faces import Joining
from schemaquake.clusters.simulated.models.gossiped_ring import GossipedRing, Status, _topology
from schemaquake.clusters.simulated.models.group0 import Command, Group0, _has_own_place, _Image, _Kept, _Life, _State
from schemaquake.clusters.simulated.models.metadata_log import Entry as LogEntry
from schemaquake.clusters.simulated.models.metadata_log import Metadata, MetadataLog
from schemaquake.clusters.simulated.models.metadata_log import _Kept as KeptLog
from schemaquake.clusters.simulated.models.metadata_log import _Life as LogLife
from schemaquake.clusters.simulated.models.raft import Configuration, Entry, Log, Machine, Member, Raft, _Plea
from schemaquake.clusters.simulated.models.sequences import ADVANCE, PREPARE, Sequences, after_sequence
from schemaquake.clusters.simulated.models.topology_coordinator import Board, Order, Request, after_order
from schemaquake.clusters.simulated.processes import Died
from schemaquake.clusters.simulated.ring import SPACE, Ring, even_tokens
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.definitions import Column, Keyspace, Table
from schemaquake.clusters.simulated.topology import Seat, even_topology, former_of
from schemaquake.harness.placements.ring import Location

NAMES = ("n1", "n2", "n3")
RING = even_topology(NAMES, {name: f"id-{name}" for name in NAMES}, version=1)
BETWEEN = even_tokens(3)[1] // 2


def ends(steps, result=None):
    """Carry steps out that wait for nothing more; returns what they return."""
    with pytest.raises(StopIteration) as ended:
        steps.send(result)
    return ended.value.value


# ── orders about the ring ────────────────────────────────────────────────────────────────────────────────────────────

JOIN = Request(("n4", 1), "join", "n4", "id-n4", (BETWEEN,))
LEAVE = Request(("n2", 1), "leave", "n2")


def begun(*requests):
    board = Board(RING)
    for at, request in enumerate(requests, 1):
        board = after_order(board, Order("request", request), at)
    return after_order(board, Order("begin", requests[0].id), len(requests) + 1)


def test_an_order_that_comes_twice_takes_one_step():
    board = begun(JOIN)
    once = after_order(board, Order("advance", ("n4", 2)), 3)
    twice = after_order(once, Order("advance", ("n4", 2)), 4)
    assert [move.done for move in once.topology.moves] == [move.done for move in twice.topology.moves] == [3]


def test_a_change_does_not_begin_while_another_one_goes_on():
    board = begun(JOIN, LEAVE)
    assert after_order(board, Order("begin", LEAVE.id), 4) == board._replace(at=4)


@pytest.mark.parametrize(
    "request_", [JOIN, Request(("n2", 1), "replace", "n2", "id-new", replaced="n2")], ids=lambda one: one.change
)
def test_what_was_asked_for_twice_is_done_once(request_):
    again = request_._replace(id=(request_.node, 2))
    board = begun(request_, again)
    for number, done in enumerate((2, 3), 4):
        board = after_order(board, Order("advance", (request_.node, done)), number)
    assert (board.topology.seats[request_.node].state, board.requests) == ("normal", (again,))
    second = after_order(board, Order("begin", again.id), 6)
    assert (second.requests, second.topology.moves, second.topology.version) == ((), (), board.topology.version)
    assert second.ended == ((request_.id, ""), (again.id, ""))
    other = after_order(board._replace(requests=(again._replace(host_id="id-other"),)), Order("begin", again.id), 6)
    assert other.topology.moves if request_.change == "replace" else other.ended[-1][1], (
        "another node's request is not done"
    )


def test_a_request_is_refused_once_and_only_before_it_begins():
    asked = after_order(Board(RING), Order("request", LEAVE), 1)
    refused = after_order(asked, Order("refuse", (LEAVE.id, "it lives")), 2)
    assert (refused.requests, refused.ended) == ((), ((LEAVE.id, "it lives"),))
    assert after_order(refused, Order("refuse", (LEAVE.id, "it lives")), 3).ended == refused.ended
    board = begun(LEAVE)
    assert after_order(board, Order("refuse", (LEAVE.id, "it lives")), 3).requests == (LEAVE,)


def test_a_request_whose_change_is_rolled_back_has_ended():
    board = after_order(begun(JOIN, LEAVE), Order("roll-back", ("n4", "no answer")), 4)
    assert (board.requests, board.ended) == ((LEAVE,), ((JOIN.id, "no answer"),))


def test_a_step_of_a_sequence_that_was_taken_is_refused():
    registered = RING.registered(2, "n4", "id-n4")
    prepared = after_sequence(registered, 3, PREPARE, ("join", "n4", (BETWEEN,), None, False), has_locks=True)
    started = after_sequence(prepared, 4, ADVANCE, ("n4", "PREPARE"), has_locks=True)
    with pytest.raises(ServerSaid, match="no sequence of n4 is at that step"):
        after_sequence(started, 5, ADVANCE, ("n4", "PREPARE"), has_locks=True)


# ── 6.0 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def sequences(**log):
    known = {"topology": lambda _node: RING, "epoch": lambda _node: 1, **log}
    return Sequences(SimpleNamespace(**known), frozenset())


def living(*names, **server):
    gossip = SimpleNamespace(alive=lambda name: name in names)
    return SimpleNamespace(name="n1", server=SimpleNamespace(gossip=gossip, memory={}, **server))


def test_a_node_that_lives_is_not_removed_by_others():
    with pytest.raises(ServerSaid, match="is alive"):
        next(sequences().reshape(living("n1", "n2"), "remove", about="n2", argument=None))


def test_a_node_that_lives_is_not_removed_by_others_on_5_0():
    node = living("n1", "n2")
    tokens = dict(zip(NAMES, even_tokens(3), strict=True))
    node.disk = Disk()
    node.disk.ring = {name: Status(1, "NORMAL", name, (token,)) for name, token in tokens.items()}
    ring = GossipedRing(frozenset())
    assert ring._allow(node, "remove", "n3", None).word == "LEAVING"
    with pytest.raises(ServerSaid, match="is alive"):
        ring._allow(node, "remove", "n2", None)


def on_the_ring(**words):
    """A node of a ring of 5.0, whose nodes are normal or what is said of them."""
    node = living("n1")
    node.disk = Disk()
    node.disk.ring = {
        name: Status(1, words.get(name, "NORMAL"), name, (token,))
        for name, token in zip(NAMES, even_tokens(3), strict=True)
    }
    return node


def test_a_node_moves_to_no_token_of_another_one_on_5_0():
    ring, node = GossipedRing(frozenset()), on_the_ring()
    assert ring._allow(node, "move", "n1", str(BETWEEN - (SPACE >> 1))).goal == (BETWEEN,)
    with pytest.raises(ServerSaid, match="another node's"):
        ring._allow(node, "move", "n1", str(even_tokens(3)[1] - (SPACE >> 1)))


@pytest.mark.parametrize("word", ["LEFT", "REPLACED", "NORMAL"])
def test_a_node_that_has_left_is_not_removed_again_on_5_0(word):
    node = on_the_ring(n3=word)
    with nullcontext() if word == "NORMAL" else pytest.raises(ServerSaid, match="Host ID not found"):
        GossipedRing(frozenset())._allow(node, "remove", "n3", None)


@pytest.mark.parametrize("theirs", ["another", "the same"])
def test_a_node_without_the_schema_of_the_others_does_not_join_on_5_0(theirs):
    node = living("n2", version="the same")
    node.kernel = SimpleNamespace(heap=SimpleNamespace(now_ns=0))
    node.server.gossip = SimpleNamespace(states={"n2": {"version": theirs}}, peers_alive=lambda: ["n2"])

    def waits():
        for _ in GossipedRing(frozenset())._await_schema(node):
            node.kernel.heap.now_ns += 500_000_000

    with nullcontext() if theirs == "the same" else pytest.raises(Died, match="Didn't receive schemas"):
        waits()
    assert node.kernel.heap.now_ns == (0 if theirs == "the same" else 30_000_000_000)


@pytest.mark.parametrize("word", ["LEFT", "REPLACED", "NORMAL"])
def test_a_node_that_has_left_does_not_start_again_on_5_0(word):
    node = living("n1")
    node.joins, node.disk = None, Disk()
    node.disk.ring = {"n1": Status(1, word, "n1", (even_tokens(3)[0],))}
    ring = GossipedRing(frozenset())
    with nullcontext() if word == "NORMAL" else pytest.raises(Died, match="was decommissioned"):
        ring.begin(node)


@pytest.mark.parametrize(
    ("word", "comes_in"), [("BOOT", True), ("LEFT", False)], ids=["they know it", "they have forgotten it"]
)
def test_a_node_that_the_others_have_forgotten_does_not_come_in_on_5_0(word, comes_in):
    node = living("n1", "n2", tell=None)
    node.server.gossip = SimpleNamespace(alive=lambda _name: True, tell=lambda: None)
    node.name, node.host_ids, node.location = "n4", {"n4": "id-n4"}, Location()
    node.joins, node.disk = Joining(BETWEEN, None), Disk()
    tokens = zip(NAMES, even_tokens(3), strict=True)
    node.disk.ring = {name: Status(1, "NORMAL", name, (token,)) for name, token in tokens}
    ring = GossipedRing(frozenset())
    ring._await_schema = lambda _node: iter(())

    def forget(_node, subject):
        node.disk.ring = {**node.disk.ring, subject: node.disk.ring[subject]._replace(word=word)}
        return iter(())

    ring._stream = forget
    expected = nullcontext() if comes_in else pytest.raises(Died, match="have forgotten this node")
    with expected:
        deque(ring.join(node), maxlen=0)
    assert node.disk.ring["n4"].word == ("NORMAL" if comes_in else word)


@pytest.mark.parametrize("begins", ["before", "meanwhile"])
def test_a_node_does_not_join_beside_another_one_on_5_0(begins):
    node = on_the_ring()
    node.name, node.host_ids, node.location, node.joins = "n4", {"n4": "id-n4"}, Location(), Joining(BETWEEN, None)
    ring = GossipedRing(frozenset())
    ring._await_schema = lambda _node: iter(())

    def other_begins():
        node.disk.ring = {**node.disk.ring, "n5": Status(2, "BOOT", "id-n5", (BETWEEN // 2,))}

    if begins == "before":
        other_begins()
    steps = ring.join(node)
    next(steps)
    if begins == "meanwhile":
        next(steps)
        other_begins()
    with pytest.raises(Died, match="Other bootstrapping"):
        next(steps)
    assert "n4" not in node.disk.ring


@pytest.mark.parametrize("has_heard", [True, False], ids=["told at once", "told nothing"])
def test_a_node_that_starts_knows_what_the_others_were_told_on_5_0(has_heard):
    ring, told = GossipedRing(frozenset()), []
    ring.rows = SimpleNamespace(told=lambda node, subject, _behind: told.append((node.name, subject)))
    node, other = on_the_ring(), on_the_ring()
    other.disk.ring = {**other.disk.ring, "n3": Status(2, "LEFT", "id-n3")}
    ring._at_once = {"n1": node, "n2": other}
    if has_heard:
        node.disk.ring = dict(other.disk.ring)
    ring._look_at_news(node)
    assert told == ([] if has_heard else [("n1", "n3")])


def test_a_node_does_not_leave_if_too_few_stay():
    with pytest.raises(ServerSaid, match="Not enough live nodes"):
        next(sequences().reshape(living(*NAMES), "decommission", about=None, argument=None))


def test_a_step_that_was_refused_and_not_taken_is_not_done():
    def refuse(*_, **__):
        raise ServerSaid("ServerError", "no")
        yield

    steps = sequences(commit=refuse)._commit(living(*NAMES), ADVANCE, ("n4", "PREPARE"), lambda: False)
    with pytest.raises(ServerSaid, match="no"):
        next(steps)


def log_at(epoch):
    """A node of 6.0 at an epoch, and its model."""
    log = MetadataLog(Ring(NAMES), frozenset())
    life = LogLife(Metadata(epoch=epoch))
    server = SimpleNamespace(state=life, gossip=SimpleNamespace(alive=lambda _name: False))
    node = SimpleNamespace(name="n1", server=server, disk=Disk())
    node.disk.state = KeptLog()
    node.kernel = SimpleNamespace(heap=SimpleNamespace(now_ns=0))
    return log, node, life


def test_a_snapshot_that_is_behind_when_its_turn_comes_is_not_taken_over():
    log, node, life = log_at(5)
    life.snapshot = Metadata(epoch=3)
    ends(log._enact(node))
    assert (life.metadata.epoch, life.snapshot) == (5, None)


def test_an_entry_is_enacted_when_its_commit_has_ended():
    log, node, _ = log_at(4)

    def committed(*_):
        return 5
        yield

    log._commit = committed
    steps = log.commit(node, "REGISTER", None, limit_ns=0)
    next(steps)  # nobody lives who has the entry: it waits


def test_a_replication_does_not_change_while_the_ring_does():
    schema = {"k": Keyspace("k", {"class": "SimpleStrategy", "replication_factor": "2"})}
    altered = LogEntry(9, ("n1", 1), "alter-keyspace", {"keyspace": "k", "replication": {"class": "none"}}, 0)
    at_rest = Metadata(epoch=8, schema=schema, topology=RING)
    assert at_rest.after(altered).schema["k"].replication == {"class": "none"}
    moving = RING.registered(7, "n4", "id-n4")
    moving = after_sequence(moving, 8, PREPARE, ("join", "n4", (BETWEEN,), None, False), has_locks=True)
    with pytest.raises(ServerSaid, match="while the ring is changing"):
        replace(at_rest, topology=moving).after(altered)


@pytest.mark.parametrize("most", [1, 3])
def test_the_service_has_as_many_members_as_an_operator_has_asked_for(most):
    metadata = Metadata(topology=RING, registered=NAMES).after(LogEntry(1, ("n1", 1), "RECONFIGURE_CMS", most, 0))
    assert metadata.cms == NAMES[:most]


def test_a_node_remembers_all_requests_that_it_has_enacted():
    log, node, life = log_at(0)
    node.server.staged = lambda _stage, steps: steps
    node.kernel.cost_ns = lambda least, _most: least
    node.clock = SimpleNamespace(wall_ns=lambda: 0)
    node.server.ring, node.server.memory = None, {}
    node.locations = {}
    entries = [LogEntry(epoch, ("n2", epoch), "RECONFIGURE_CMS", 3, 0) for epoch in (1, 2)]
    deque(log._follow(node, entries, None), maxlen=0)
    assert life.metadata.epoch == 2
    assert node.disk.state.enacted == {("n2", 1): 1, ("n2", 2): 2}


# ── Raft ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def members(*names, silent=()):
    return tuple(Member(name, f"id-{name}", votes=name not in silent) for name in names)


def raft_of(role):
    machine = Machine(
        role=lambda _node: role,
        server_id=lambda node: f"id-{node.name}",
        committed=lambda _node: None,
        image=lambda _node: None,
        take_over=lambda *_: None,
    )
    sent = []
    server = SimpleNamespace(
        send=lambda name, kind, body: sent.append((name, kind, body)), staged=lambda _stage, steps: steps
    )
    node = SimpleNamespace(name="n1", server=server, kernel=SimpleNamespace(heap=SimpleNamespace(now_ns=0)))
    return Raft(machine, frozenset()), node, sent


def role_of(configuration, *commands):
    log = Log(group="g", term=1, entries=[Entry(1, at, each) for at, each in enumerate((configuration, *commands), 1)])
    return Raft.new_role(log)


@pytest.mark.parametrize(("group", "is_heeded"), [("g", True), ("another", False)])
def test_messages_of_another_group_are_not_heeded(group, is_heeded):
    raft, node, _ = raft_of(role_of(Configuration(members(*NAMES))))
    plea = _Plea(group, 2, False, (1, 1), "id-n1")
    assert (raft.receive(node, SimpleNamespace(sender="n2", kind="plea", body=plea)) is not None) is is_heeded


def test_one_that_was_elected_and_hears_of_a_later_term_before_it_leads_does_not_lead():
    role = role_of(Configuration(members(*NAMES)))
    role.term = 2
    raft, node, _ = raft_of(role)
    steps = raft._lead(node, 2)
    next(steps)
    role.term = 9
    ends(steps)
    assert not role.is_leader


def test_a_leader_tells_a_member_that_has_all_what_is_committed():
    role = role_of(Configuration(members("n1", "n2", silent=("n2",))), "x")
    role.is_leader, role.commit = True, 2
    raft, node, sent = raft_of(role)
    raft._look_at_members(node, role)
    progress = role.progress["n2"]
    progress.match, progress.commit, progress.waited = 2, 0, 100
    role.heard_ns["n2"] = 0
    raft._tick_leader(node, role)
    assert [(name, body.commit) for name, _, body in sent] == [("n2", 2)]


# ── group 0 ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Told(Exception):
    """What ends a start where it begins to speak with others."""


def begin_to_gossip():
    raise Told


def group_on(topology=RING, **kept):
    """A node of group 0 with this topology on its disk, and its model."""
    group = Group0(Ring(NAMES), frozenset())
    disk = Disk()
    disk.state = _Kept(log=Log(group="g"), server_id="id-n1", board=Board(topology, at=57), **kept)
    node = SimpleNamespace(name="n1", disk=disk, joins=None, peers=NAMES[1:], clock=SimpleNamespace())
    node.host_ids = {name: f"id-{name}" for name in NAMES}
    node.kernel = SimpleNamespace(cost_ns=lambda least, _most: least, heap=SimpleNamespace(now_ns=0))
    gossip = SimpleNamespace(begin=begin_to_gossip, listen=begin_to_gossip)
    node.server = SimpleNamespace(gossip=gossip, memory={}, epoch=0, version=None, ring=topology)
    node.server.state = _Life(Raft.new_role(disk.state.log))
    return group, node


def starts(group, node):
    """Start a node until it begins to gossip."""
    with pytest.raises(Told):
        deque(group.boot(node), maxlen=0)


def test_a_group_that_is_founded_anew_counts_orders_about_the_ring_from_the_beginning():
    group, node = group_on(given_up="g", founder="n1")
    starts(group, node)
    assert (node.disk.state.board.at, node.disk.state.log.group) == (0, "")


def test_a_node_that_starts_says_the_state_that_it_has():
    state = _State(70, "0" * 31 + "1", "CREATE")
    group, node = group_on(history={state.id: state}, last_us=70)
    starts(group, node)
    assert node.server.epoch == 70


@pytest.mark.parametrize("waits", [2, 4], ids=["before its rows", "before its state"])
def test_a_command_that_a_snapshot_overtakes_is_not_carried_on(waits):
    group, node = group_on(last_us=5)
    node.server.serve = lambda *_: None
    seen = []
    group._raft.invariants = SimpleNamespace(
        serves=lambda *_: None, carried_out=lambda *_: None, follows=lambda _node, *times: seen.append(times)
    )
    states = {state.id: state for state in (_State(time, f"{time:032x}", "CREATE") for time in (6, 9))}
    steps = group._carry_out(node, Command(5, 6, f"{6:032x}", (), "CREATE"))
    for _ in range(waits):
        next(steps)
    group._take_over(node, _Image([], states, None, ""), 9)
    ends(steps)
    assert (node.server.version.int, node.disk.state.last_us, node.server.epoch, seen) == (9, 9, 9, [])


@pytest.mark.parametrize(
    ("own", "theirs", "is_looked_at"), [("", "", True), ("8", "", False), ("", "8", False), ("6", "", True)]
)
def test_tables_that_have_a_part_of_the_next_command_are_held_against_none(own, theirs, is_looked_at):
    group, node = group_on(last_us=5, begun=own)
    node.server.serve = lambda *_: None
    seen = []
    group._raft.invariants = SimpleNamespace(
        serves=lambda *_: None, carried_out=lambda _node, state, _tables: seen.append(state)
    )
    group._take_over(node, _Image([], {"6": _State(6, "6" * 32, "CREATE")}, None, theirs), 9)
    assert seen == ["6" * 32] * is_looked_at


def test_a_command_is_begun_until_the_history_has_it():
    group, node = group_on(last_us=5)
    node.server.serve = lambda *_: None
    steps = group._carry_out(node, Command(5, 6, f"{6:032x}", (), "CREATE"))
    begun = [node.disk.state.begun for _ in steps]
    assert begun == ["", "", f"{6:032x}", f"{6:032x}"]
    assert (node.disk.state.begun, list(node.disk.state.history)) == ("", [f"{6:032x}"])


def test_a_node_that_has_left_the_group_leads_no_more():
    group, node = group_on()
    role = node.server.state.role
    role.is_leader, role.leader, role.members = True, "n1", Configuration(members("n2", "n3"))
    node.server.gossip.end = lambda: None
    node.kernel.draws = SimpleNamespace(stream=lambda *_: SimpleNamespace(between=lambda least, _most: least))
    group._coordinator.reshape = lambda *_, **__: iter(())
    ends(group.reshape(node, "decommission", about=None, argument=None))
    assert not role.is_leader


def leads(group, node, *names):
    """Have a node lead a group of these, and return the members that it proposes."""
    role = node.server.state.role
    role.is_leader, role.members = True, Configuration(members(*names))
    proposed = []

    def propose(_node, wanted):
        proposed.append({member.name: (member.id, member.votes) for member in wanted})
        return (1, 1)
        yield

    group._raft.propose_members = propose
    return proposed


def test_a_node_at_the_address_of_a_member_becomes_one_when_that_one_has_no_vote():
    group, node = group_on()
    proposed = leads(group, node, *NAMES)
    assert ends(group._admit(node, Member("n2", "another", votes=False))) is None
    former = {former_of("n2"): ("id-n2", False)}
    assert proposed == [former | {name: (f"id-{name}", True) for name in ("n1", "n3")}]


@pytest.mark.parametrize(("state", "count"), [("normal", 1), ("left", 0), ("replaced", 0)])
def test_a_member_that_left_does_not_come_back(state, count):
    seats = {**RING.seats, "n4": Seat(state, "id-n4")}
    group, node = group_on(RING.registered(2, "n4", "id-n4").__class__(3, seats, RING.ring))
    proposed = leads(group, node, *NAMES)
    ends(group._admit(node, Member("n4", "id-n4", votes=False)))
    assert len(proposed) == count


def test_a_node_asks_for_the_vote_when_it_is_a_member():
    group, node = group_on()
    asked = []
    node.server.ask = lambda _names, _kind, body, **_: asked.append(body)
    node.server.state.role.members = Configuration(members("n2", "n3"))
    node.disk.state.known = {"n2": ""}
    steps = group._become_a_member(node)
    next(steps)
    next(steps)
    assert [(each.name, each.votes) for each in asked] == [("n1", False)]


@pytest.mark.parametrize("known", [None, "older", "newer"])
def test_a_definition_that_is_fetched_replaces_none_that_has_come_meanwhile_and_is_newer(known):
    group, node = group_on()
    older, newer = (
        Table("k", "t", "id", dict.fromkeys(columns, Column("int", "regular")), {}) for columns in (("v",), ("v", "w"))
    )
    learnt, received = [], []
    node.server.ask = lambda *_, **__: "a question"
    node.server.table = {"id": {"older": older, "newer": newer}.get(known)}.get
    node.server.learn = learnt.append
    group._requests.data.receive = lambda _node, message: received.append(message)
    message = SimpleNamespace(sender="n2", epoch=9, body=RowWrite("id", ((1,), ()), {"w": (1, 1)}))
    steps = group._fetch_first(node, message)
    assert next(steps) == "a question"
    ends(steps, SimpleNamespace(answers={"n2": newer}))
    assert learnt == ([] if known == "newer" else [newer])
    assert received == [message]


def test_requests_are_counted_under_the_version_by_which_they_go():
    group, node = group_on()

    def waits():
        yield None

    steps = group._counted(node, waits())
    next(steps)
    assert dict(group.flights(node)) == {RING.version: 1}
    ends(steps)
    assert dict(group.flights(node)) == {RING.version: 0}


def test_a_node_that_takes_its_own_place_refuses_what_is_sent_to_who_had_it_and_has_it_when_it_is_normal():
    group, node = group_on(since=4)
    assert [group._is_stale(node, version) for version in (3, 4)] == [True, False]
    node.server.state.is_silent = True
    assert group._is_stale(node, 4)
    node.joins = Joining(0, "n1")
    registered = RING.vacated(2, "n1", "id-n1").registered(3, "n1", "id-n1")
    assert _has_own_place(node, registered)
    assert not _has_own_place(node, registered, "normal")
    assert _has_own_place(node, RING, "normal")


# ── other designs ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_two_deletions_of_a_row_the_later_one_stays():
    files, key = TableFiles("k", "t", "1"), ((1,), ())
    files.write(key, {}, 10)
    files.write(key, {}, 5)
    assert files.deleted_us == {key: 10}


def test_a_node_that_comes_to_a_second_rack_on_5_0_is_planned_there():
    second = Location("dc1", "rack2")
    owners = {
        name: Status(1, "NORMAL", f"id-{name}", (token,)) for name, token in zip(NAMES, even_tokens(3), strict=True)
    }
    comes = {"n4": Status(0, "BOOT", "id-n4", (SPACE // 7,), location=second)}
    (move,) = _topology({**owners, **comes}).moves
    assert move.plan((("dc1", 2),)).ring.locations["n4"] == second


# ── members that nobody told that they are none any more ─────────────────────────────────────────────────────────────


def told_by(sender, *, state="left", host_id="id-n2", members=("n1", "n3"), kind="raft-ping"):
    """What n1 sends to n2, which has this place in the ring, after a message of the group from `sender`."""
    seats = {**RING.seats, "n2": RING.seats["n2"]._replace(state=state, host_id=host_id)}
    group, node = group_on(replace(RING, seats=seats))
    node.kernel.heap.now_ns = 1
    node.server.state.role.members = Configuration(tuple(Member(name, f"id-{name}", votes=True) for name in members))
    sent = []
    node.server.send = lambda receiver, kind, body=None: sent.append((receiver, kind, body))
    assert group.receive(node, SimpleNamespace(sender=sender, kind=kind, body=None)) is None
    return sent


def test_whoever_speaks_without_a_place_in_the_ring_and_the_group_is_told_that_it_is_banned():
    assert told_by("n2") == [("n2", "banned", "id-n2")]
    assert told_by("n2", state="replaced") == [("n2", "banned", "id-n2")]


@pytest.mark.parametrize(
    "place",
    [
        pytest.param({"state": "normal"}, id="a member"),
        pytest.param({"state": "joining"}, id="on its way in"),
        pytest.param({"members": NAMES}, id="the group has it still"),
        pytest.param({"host_id": "id-of-another"}, id="who left had its address before"),
    ],
)
def test_whoever_has_a_place_is_heard(place):
    assert told_by("n2", **place) == []


@pytest.mark.parametrize(
    ("to", "phase", "has_left", "ends", "waits"),
    [
        ("id-n1", "serving", False, True, True),
        ("id-of-another", "serving", False, False, True),
        ("id-n1", "booting", False, False, True),
        ("id-n1", "left", False, False, True),
        ("id-n1", "serving", True, False, False),
    ],
)
def test_a_banned_node_ends_unless_it_is_just_leaving(to, phase, has_left, ends, waits):
    group, node = group_on()
    ended = []
    node.end_itself = ended.append
    node.server.phase = phase
    node.server.state.has_left = has_left
    assert group.receive(node, SimpleNamespace(sender="n3", kind="banned", body=to)) is None
    assert [text.split(",")[0] for text in ended] == (
        ["received notification of being banned from the cluster from n3"] if ends else []
    )
    assert node.server.state.is_banned is not waits
