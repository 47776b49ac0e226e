"""Changes of the ring of simulated clusters: the steps as values, and runs in which nodes come and go."""

from __future__ import annotations

from types import SimpleNamespace

import orjson
import pytest
from simulated_runs import FIVE, SCYLLA, SIX, simulate

from schemaquake.clusters.simulated.models.commit_rules import parse_rules
from schemaquake.clusters.simulated.models.gossiped_ring import GossipedRing
from schemaquake.clusters.simulated.models.sequences import Sequences
from schemaquake.clusters.simulated.models.topology_coordinator import Coordinator
from schemaquake.clusters.simulated.reshaping import Reshaping
from schemaquake.clusters.simulated.ring import SPACE
from schemaquake.clusters.simulated.topology import Moving, even_topology, former_of, shown_token, spare_token
from schemaquake.harness.errors import NotApplicable, PlanError
from schemaquake.harness.model.records import plain
from schemaquake.harness.placements.strategies import Factor, Simple
from schemaquake.results.store.store import Store

NAMES = ("n1", "n2", "n3", "n4")
TOKENS = [SPACE * number // 37 for number in range(37)]


def started(change, node, **named):
    topology = even_topology(NAMES, dict.fromkeys(NAMES, "id"), version=1)
    if node not in topology.seats:
        topology = topology.registered(2, node, "id")
    return topology.prepare(3, Moving(change, node, topology.ring, **named))


CHANGES = [
    ("join", "n5", {"tokens": (spare_token(4, 0),)}),
    ("leave", "n3", {}),
    ("leave", "n3", {"removed": True}),
    ("move", "n2", {"tokens": (spare_token(4, 2),)}),
    ("replace", "n5", {"replaced": "n2"}),
]


@pytest.mark.parametrize(("change", "node", "named"), CHANGES)
@pytest.mark.parametrize("factor", [1, 2, 3, 5])
def test_steps_lead_to_the_placement_of_the_ring_afresh(change, node, named, factor):
    before = even_topology(NAMES, dict.fromkeys(NAMES, "id"))
    prepared = started(change, node, **named)
    start = prepared.advance(4, node)
    mid = start.advance(5, node)
    finish = mid.advance(6, node)
    afresh = Simple(Factor(factor)).replicate(finish.ring)
    for token in TOKENS:
        old = set(before.replicas(before.place(token), factor))
        new = {replica.node for replica in afresh.at(token)}
        assert set(prepared.replicas(prepared.place(token), factor)) == old
        assert set(prepared.writes(prepared.place(token), factor)) == old
        assert set(start.replicas(start.place(token), factor)) == old
        assert set(start.writes(start.place(token), factor)) == old | new
        assert set(mid.replicas(mid.place(token), factor)) == new
        assert set(mid.writes(mid.place(token), factor)) == old | new
        assert set(finish.replicas(finish.place(token), factor)) == new
        assert set(finish.writes(finish.place(token), factor)) == new
    assert not finish.moves


@pytest.mark.parametrize(("change", "node", "named"), CHANGES)
def test_what_is_cancelled_is_as_before(change, node, named):
    before = even_topology(NAMES, dict.fromkeys(NAMES, "id"))
    topology = started(change, node, **named)
    for version in (4, 5):
        topology = topology.advance(version, node)
    cancelled = topology.cancel(9, node)
    for token in TOKENS:
        for of in (cancelled.replicas, cancelled.writes):
            assert set(of(cancelled.place(token), 3)) == set(before.replicas(before.place(token), 3))


@pytest.mark.parametrize(("change", "node", "named"), CHANGES)
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_whoever_comes_to_a_range_is_sent_its_rows_by_who_loses_it(change, node, named, factor):
    before = even_topology(NAMES, dict.fromkeys(NAMES, "id"))
    start = started(change, node, **named).advance(4, node)
    after = start.advance(5, node)
    transfers = list(start.transfers(start.moves[0], factor))
    dead = start.moves[0].dead
    for token in TOKENS:
        old = before.replicas(before.place(token), factor)
        new = after.replicas(after.place(token), factor)
        mine = [each for each in transfers if each.span.has(token)]
        assert {each.target for each in mine} == set(new) - set(old)
        for each in mine:
            assert set(each.sources) <= set(old) - {dead}
            if each.is_strict:
                assert set(each.sources) <= set(old) - set(new)
        assert all(each.is_strict for each in mine) or dead is not None


def test_ranges_of_a_change_are_locked():
    topology = started("join", "n5", tokens=(spare_token(4, 0),))
    assert "locked" in (topology.obstacle(Moving("leave", "n1", topology.ring)) or "")
    assert topology.obstacle(Moving("leave", "n1", topology.ring), has_locks=False) is None
    assert "already" in (topology.obstacle(Moving("leave", "n5", topology.ring)) or "")
    assert topology.cancel(4, "n5").obstacle(Moving("leave", "n1", topology.ring)) is None


def test_a_placement_that_has_changed_since_is_known_by_its_range():
    topology = started("join", "n5", tokens=(spare_token(4, 0),))
    assert not topology.changed_since(1, None)  # PREPARE changes nothing
    start = topology.advance(4, "n5")
    assert start.changed_since(3, None)
    assert not start.changed_since(4, None)
    locked = start.moves[0].locked()
    assert start.changed_since(3, locked[0].end)


def test_spares_have_tokens_of_their_own():
    tokens = {*(SPACE * place // 3 for place in range(3)), *(spare_token(3, number) for number in range(9))}
    assert len(tokens) == 12
    assert shown_token(0) == str(-(1 << 63))


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

OPERATIONS = {
    "bootstrap": {"nodes": 3, "spares": 1},
    "decommission": {"nodes": 4},
    "removenode": {"nodes": 4},
    "replace": {"nodes": 3, "spares": 1},
    "move": {"nodes": 4},
}


def changed(folder, system, nemesis, *, seed=1, bugs=None, workload="quorum", **named):
    values = {"rate": 20, "time_limit_s": 40} | OPERATIONS[nemesis.split(",")[0]] | named
    return simulate(
        folder, workload, *nemesis.split(","), system=system, seed=seed, options=bugs or {"bugs": "none"}, **values
    )


def outcomes(run, f):
    lines = (run.folder / "journals" / "events-conductor.jsonl").read_bytes().splitlines()
    return [event["type"] for event in map(orjson.loads, lines) if event["f"] == f]


CHANGED = [(system, nemesis) for system in (FIVE, SIX, SCYLLA) for nemesis in OPERATIONS]
QUICK = {(SIX, "bootstrap"), (SCYLLA, "decommission"), (FIVE, "move")}


@pytest.mark.parametrize(
    ("system", "nemesis"),
    [
        pytest.param(
            *case, id=f"{case[0].partition(':')[2]} {case[1]}", marks=() if case in QUICK else pytest.mark.long
        )
        for case in CHANGED
        if case != (SCYLLA, "move")  # there is no such command
    ],
)
def test_quorums_meet_while_the_ring_changes(tmp_path, system, nemesis):
    run = changed(tmp_path, system, nemesis, seed=2)
    assert dict(run.types) == {}
    assert run.verdict.valid is True
    assert outcomes(run, nemesis)[-1] == "ok"


@pytest.mark.parametrize("system", [FIVE, pytest.param(SIX, marks=pytest.mark.long), SCYLLA])
def test_a_node_takes_its_own_place_with_an_empty_disk(tmp_path, system):
    options = {"bugs": "none", "invariants": "checked", "replace.address": "same", "replace.node": "n2"}
    run = changed(tmp_path, system, "replace", bugs=options, nodes=4, spares=0, replication_factor=3)
    assert (run.verdict.valid, dict(run.types)) == (True, {})
    assert outcomes(run, "replace") == ["invoke", "ok"]
    first, *_, last = (note["members"]["n2"]["host_id"] for note in run.notes("membership"))
    assert (first == last) is (system != SCYLLA)  # there the dead node and the new one are two
    rings = [row for row in Store(run.folder).records().observations.to_pylist() if row["kind"] == "ring"]
    listed = [orjson.loads(row["definition"])["peers"].get("10.66.0.2") for row in rings if row["node"] != "n2"]
    assert {peer["host_id"] for peer in listed} == {last}


def test_who_takes_its_own_place_and_who_had_it_are_two_until_the_new_one_is_read_from():
    before = even_topology(NAMES, dict.fromkeys(NAMES, "id"), version=1)
    former = former_of("n2")
    place = before.place(before.seats["n2"].tokens[0])
    vacated = before.vacated(2, "n2", "other")
    assert vacated.replicas(place, 2) == (former, "n3")
    start = vacated.prepare(2, Moving("replace", "n2", vacated.ring, replaced=former)).advance(3, "n2")
    assert (start.replicas(place, 2), start.writes(place, 2)) == ((former, "n3"), (former, "n3", "n2"))
    (transfer, *_) = start.transfers(start.moves[0], 2)
    assert (transfer.target, former in transfer.sources) == ("n2", False)
    cancelled = start.cancel(4, "n2")
    assert cancelled.replicas(place, 2) == cancelled.writes(place, 2) == (former, "n3")
    assert cancelled.vacated(5, "n2", "third").ring == cancelled.ring  # another attempt finds the place left already
    after = start.advance(4, "n2").advance(5, "n2")
    assert set(after.replicas(place, 2)) == {"n2", "n3"}
    assert after.ring == before.ring
    assert (after.seats["n2"].host_id, after.seats[former].state) == ("other", "replaced")


@pytest.mark.parametrize("system", [FIVE, SIX, SCYLLA])
def test_a_changed_replication_factor_is_in_the_history_and_quorums_meet(tmp_path, system):
    options = {"bugs": "none", "invariants": "checked"} if system == SCYLLA else {}
    run = simulate(
        tmp_path, "quorum", "rf-change", system=system, seed=3, nodes=4, rate=20, time_limit_s=20, options=options
    )
    assert (run.verdict.valid, dict(run.types)) == (True, {})
    assert outcomes(run, "rf-change") == ["invoke", "ok"]
    assert outcomes(run, "alter-keyspace") == ["invoke", "ok"]
    (change,) = [note["effect"] for note in run.notes("rf-change") if "effect" in note]
    assert [one["command"].split()[0] for one in change["attempts"]] == ["ALTER"] + ["repair"] * 4


def test_schema_changes_are_refused_while_commits_are_paused_and_made_afterwards(tmp_path):
    options = {"bugs": "none", "pause-commits.begins_s": "4", "pause-commits.lasts_s": "6"}
    run = simulate(
        tmp_path, "schema-churn", "pause-commits", system=SIX, seed=2, rate=20, time_limit_s=16, options=options
    )
    assert (run.verdict.valid, dict(run.types)) == (True, {})
    events = plain(Store(run.folder).records().history).to_pylist()
    begun, ended = (note for note in events if note["f"] == "pause-commits")
    assert ended["type"] == "ok"
    said = [one for one in events if "Commits are paused" in (one["error"] or "")]
    assert len(said) > 5
    assert {one["type"] for one in said} == {"fail"}
    assert all(begun["time"] < one["time"] < ended["time"] + 1_000_000_000 for one in said)
    changed = [one["time"] for one in events if one["f"] == "alter-options" and one["type"] == "ok"]
    assert min(changed) < begun["time"]
    assert max(changed) > ended["time"]


@pytest.mark.parametrize("system", [FIVE, pytest.param(SIX, marks=pytest.mark.long), SCYLLA])
@pytest.mark.parametrize("flaw", ["unstreamed", ""])
def test_a_repair_that_loses_a_row_is_seen_though_clients_ask_the_first_replica(tmp_path, system, flaw):
    options = {"invariants": "checked", "keys": "60", "rf-change.count": "2"}
    options |= {"bug": flaw} if flaw else {"bugs": "none"}
    run = simulate(
        tmp_path, "quorum", "rf-change", system=system, seed=1, nodes=4, replication_factor=1, rate=10, time_limit_s=20,
        options=options,
    )  # fmt: skip
    assert outcomes(run, "rf-change") == ["invoke", "ok"] * 2
    assert dict(run.types) == ({"unexpected-log-error": 1} if flaw else {})


@pytest.mark.parametrize("nemesis", ["removenode", "replace"])
def test_a_dead_node_is_not_asked_whether_it_knows_the_steps_by_which_it_goes(tmp_path, nemesis):
    options = {"bugs": "none", "invariants": "checked", f"{nemesis}.limit-s": "40", "replace.address": "new"}
    run = changed(tmp_path, SIX, nemesis, bugs=options, replication_factor=2, time_limit_s=12, rate=5)
    # Of the two replicas of a row one is the dead node, and a majority of them would be both.
    assert outcomes(run, nemesis) == ["invoke", "ok"]
    assert (run.verdict.valid, dict(run.types)) == (True, {})


@pytest.mark.parametrize("seed", [1, 2])
def test_a_node_that_is_called_back_while_it_leaves_is_a_member_and_serves(tmp_path, seed):
    options = {"bugs": "none", "invariants": "checked", "cancel-sequence.kind": "decommission"}
    run = simulate(
        tmp_path, "quorum", "cancel-sequence", system=SIX, seed=seed, nodes=4, rate=20, time_limit_s=20, options=options
    )
    (called_back,) = [note["effect"] for note in run.notes("cancel-sequence") if "effect" in note]
    leaving, aborting = called_back["attempts"]
    assert (leaving["outcome"], aborting["outcome"]) in {("info", "ok"), ("fail", "ok")}
    assert outcomes(run, "cancel-sequence") == ["invoke", "fail"]
    assert (run.verdict.valid, dict(run.types)) == (True, {})


CRASHES = [
    (system, step, nemesis)
    for system, design in ((FIVE, GossipedRing), (SIX, Sequences), (SCYLLA, Coordinator))
    for step in design.steps
    for nemesis in ("bootstrap", "decommission")
]


@pytest.mark.long
@pytest.mark.parametrize("step", [*Coordinator.steps, "group0/start/d2", "group0/start/d5", "group0/apply/g7"])
@pytest.mark.parametrize("fault", ["kill.at", "pause.at"])
def test_a_fault_at_a_step_of_a_node_that_takes_its_own_place_loses_nothing(tmp_path, step, fault):
    options = {"bugs": "none", "invariants": "checked", "replace.address": "same", fault: step}
    run = changed(tmp_path, SCYLLA, "replace", seed=3, bugs=options, nodes=4, spares=0, replication_factor=3)
    assert dict(run.types) == {}


@pytest.mark.long
@pytest.mark.parametrize(("system", "step", "nemesis"), CRASHES)
@pytest.mark.parametrize("fault", ["kill.at", "pause.at"])
def test_a_fault_at_a_step_of_a_change_loses_nothing(tmp_path, system, step, nemesis, fault):
    run = changed(tmp_path, system, nemesis, seed=3, bugs={"bugs": "none", fault: step})
    assert dict(run.types) == {}


def test_a_node_that_is_killed_while_it_leaves_is_a_member_until_it_is_asked_again(tmp_path):
    options = {"bugs": "none", "kill.at": "6.0/sequence/q5", "decommission.after-failure": "retry"}
    run = changed(tmp_path, SIX, "decommission", seed=3, bugs=options)
    assert ["6.0/sequence/q5", "kill", 1] in run.books["crashes"]
    assert dict(run.types) == {}
    assert outcomes(run, "decommission") == ["invoke", "ok"]


def test_a_node_that_is_taken_out_while_it_is_started_again_is_told_and_ends(tmp_path):
    options = {
        "append": "single",
        "bootstrap.after-failure": "resume",
        "bootstrap.begins-s": "4",
        "bootstrap.limit-s": "40",
        "bugs": "none",
        "consistency": "LOCAL_QUORUM",
        "decommission.begins-s": "6.9",
        "decommission.limit-s": "40",
        "invariants": "checked",
        "overlap": "true",
        "partition.targets": "data-center",
        "relay": "true",
        "snapshots": "often",
    }
    run = simulate(
        tmp_path, "schema-churn,set", "bootstrap", "decommission", "rolling-restart", "partition", system=SCYLLA, seed=67386,
        nodes=6, spares=1, data_centers=2, racks=2, time_limit_s=12, rate=2, replication_factor=2, options=options,
    )  # fmt: skip
    assert dict(run.types) == {}
    assert run.verdict.valid is not False
    logs = [path.read_text() for path in sorted((run.folder / "nodes" / "n5").iterdir())]
    assert any("received notification of being banned" in text for text in logs)
    assert [note["members"]["n5"]["expected"] for note in run.notes("membership")][-1] == "left"


def test_the_same_seed_changes_the_ring_in_the_same_way(tmp_path):
    journals = []
    options = {"aim": "pause@under-way:n2", "aim-s": "2"}
    for name in ("one", "two"):
        run = changed(tmp_path / name, FIVE, "bootstrap", seed=5, time_limit_s=20, bugs={"bugs": "none", **options})
        assert run.notes("operation-step") == [{"operation": 0, "step": "under-way"}]
        assert [note["nodes"] for note in run.notes("fault-begins")] == [["n2"]]
        files = sorted((run.folder / "journals").iterdir())
        journals.append([(path.name, path.read_bytes()) for path in files])
    assert journals[0] == journals[1]


@pytest.mark.parametrize(
    ("system", "step", "known"), [(FIVE, "stream", "under-way"), (FIVE, "MID", "under-way"), (SIX, "under-way", "MID, PREPARE, START"), (SCYLLA, "stream", "MID, PREPARE, START")]
)  # fmt: skip
def test_an_aim_at_a_step_that_a_design_never_shows_is_refused(tmp_path, system, step, known):
    with pytest.raises(NotApplicable, match=f"shows no step {step} of decommission; known here are {known}"):
        changed(tmp_path, system, "decommission", bugs={"bugs": "none", "aim": f"kill@{step}"}, time_limit_s=10)


@pytest.mark.parametrize("act", ["pause", "refuse", "delay", "drop", "double", "reorder"])
def test_a_service_that_mistreats_a_commit_loses_nothing(tmp_path, act):
    marked = changed(tmp_path, SIX, "bootstrap", seed=4, bugs={"bugs": "none", f"cms.{act}": "MID_JOIN"})
    assert dict(marked.types) == {}


def test_a_commit_that_is_refused_is_tried_again_by_the_nemesis(tmp_path):
    options = {"bugs": "none", "cms.refuse": "PREPARE_LEAVE", "decommission.after-failure": "retry"}
    run = changed(tmp_path, SIX, "decommission", seed=4, bugs=options)
    assert dict(run.types) == {}


def test_a_change_that_is_rolled_back_leaves_no_member_of_the_group(tmp_path):
    options = {"bugs": "none", "replace.address": "new", "replace.limit-s": "40"}
    # Nobody else has the rows of the one that died, so it can be replaced as little the second time.
    run = changed(tmp_path, SCYLLA, "replace", bugs=options, replication_factor=1, time_limit_s=12, rate=5)
    _, text = run.notes("replace")
    answers = [attempt["answer"] for attempt in text["effect"]["attempts"]]
    assert len(answers) > 1
    assert all("rolled back" in answer for answer in answers)
    assert dict(run.types) == {}


def test_a_join_that_the_locks_refuse_is_refused(tmp_path):
    options = {
        "bugs": "none",
        "overlap": "true",
        "move.begins-s": "2",
        "move.node": "n2",
        "move.token": str((1 << 60) - (1 << 63)),
        "cms.pause": "MID_MOVE",
        "bootstrap.begins-s": "4",
        "bootstrap.after-failure": "retry",
    }
    run = changed(tmp_path, SIX, "bootstrap,move", nodes=4, bugs=options, time_limit_s=12, rate=5)
    assert outcomes(run, "bootstrap") == ["invoke", "fail"]
    assert outcomes(run, "move") == ["invoke", "ok"]
    assert dict(run.types) == {}


@pytest.mark.parametrize(("move_begins", "joins"), [("3", ["invoke", "fail"]), ("16", ["invoke", "ok"])])
def test_a_node_does_not_join_while_another_one_moves(tmp_path, move_begins, joins):
    options = {
        "bugs": "none",
        "overlap": "true",
        "move.begins-s": move_begins,
        "move.node": "n2",
        "move.token": str((1 << 60) - (1 << 63)),
        "bootstrap.begins-s": "2",
        "bootstrap.after-failure": "abort",
        "invariants": "checked",
    }
    run = changed(tmp_path, FIVE, "bootstrap,move", nodes=4, bugs=options, time_limit_s=20, rate=5)
    assert outcomes(run, "bootstrap") == joins
    assert outcomes(run, "move") == ["invoke", "ok"]
    assert dict(run.types) == {}


def test_rules_of_commits_are_checked():
    with pytest.raises(PlanError, match="no such entry"):
        parse_rules({"cms.pause": "FINISH_JION"}, ["create-table"])
    rules = parse_rules({"cms.pause": "create-table@2,START_JOIN"}, ["create-table"])
    assert rules.acts("create-table", ("n1", 1)) == frozenset()
    assert rules.acts("create-table", ("n1", 2)) == {"pause"}
    assert rules.acts("create-table", ("n1", 2)) == {"pause"}  # the same one, tried again
    assert rules.acts("START_JOIN", ("n1", 3)) == {"pause"}
    assert parse_rules({}, []).acts("create-table", ("n1", 1)) == frozenset()


def test_changes_of_the_ring_follow_one_another(tmp_path):
    options = {"bugs": "none", "bootstrap.begins-s": "3", "decommission.begins-s": "3.1"}
    run = changed(tmp_path, FIVE, "bootstrap,decommission", seed=5, nodes=4, spares=1, bugs=options)
    lines = (run.folder / "journals" / "events-conductor.jsonl").read_bytes().splitlines()
    events = [event for event in map(orjson.loads, lines) if event["f"] in {"bootstrap", "decommission"}]
    ends = [(event["f"], event["type"]) for event in events]
    assert ends == [("bootstrap", "invoke"), ("bootstrap", "ok"), ("decommission", "invoke"), ("decommission", "ok")]
    assert run.verdict.valid is True


def test_a_node_that_is_not_registered_does_not_join():
    topology = even_topology(NAMES, dict.fromkeys(NAMES, "id"))
    joining = Moving("join", "n5", topology.ring, tokens=(spare_token(4, 0),))
    assert "registered" in (topology.obstacle(joining) or "")
    assert topology.registered(3, "n5", "id5").obstacle(joining) is None


def test_members_of_a_cluster_of_which_no_node_serves_are_those_that_were_listed_last():
    def listing(*addresses):
        return SimpleNamespace(answer=lambda _node, _text: [{"peer": address} for address in addresses])

    nodes = [
        SimpleNamespace(
            name=name, address=name, server=object(), serving=object(), host_ids={}, model=listing("a", "b")
        )
        for name in ("a", "b", "c")
    ]
    reshaping = Reshaping(*[None] * 3, nodes, spares=["c"])
    for node in nodes:
        node.serving = None
    assert states(reshaping) == {"a": "normal", "b": "normal", "c": "absent"}, "as it is planned"
    for node in nodes:
        node.serving, node.model = object(), listing("a", "c")
    assert states(reshaping) == {"a": "normal", "b": "joining", "c": "normal"}, "the others have not heard of it yet"
    for listed in (("a", "b", "c"), ("a", "c")):
        for node in nodes:
            node.model = listing(*listed)
        assert states(reshaping) == {"a": "normal", "b": "normal" if "b" in listed else "left", "c": "normal"}
    for node in nodes:
        node.serving = None
    assert states(reshaping) == {"a": "normal", "b": "left", "c": "normal"}


def states(reshaping):
    return {name: member.state for name, member in reshaping.members().items()}
