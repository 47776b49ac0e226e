"""Operations on the topology: what is asked of which node, what is done after a failure, and what the outcome is."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial

import pytest
from changing_cluster import ChangingCluster

from schemaquake.harness.errors import ClusterError, PlanError
from schemaquake.harness.model.context import Context
from schemaquake.harness.model.protocols import Fault, OwnLack, TopologyNemesis
from schemaquake.harness.registry import load
from schemaquake.nemeses.topology import attempts, bootstrap, lost_majority, metadata_service

KINDS = ("bootstrap", "decommission", "removenode", "assassinate", "replace", "move", "cms-reconfigure")
CONTEXT = Context(seed=7, nodes=("n1", "n2", "n3", "n4"), spares=("n5", "n6"), time_limit_s=100)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    for module in (attempts, lost_majority):
        monkeypatch.setattr(module, "pause_for", lambda _seconds: None)


def planned(kind, *, seed=7, **options):
    nemesis = load("nemeses", kind)
    given = {f"{kind}.{name}": text for name, text in options.items()}
    context = replace(CONTEXT, seed=seed, options=given)
    (operation,) = nemesis.schedule(context, random=context.random("nemesis", kind))
    return nemesis, operation


def carried_out(kind, *, answers=(), lacks=(), taken_for_alive=False, carried_on=False, **options):
    nemesis, operation = planned(kind, **options)
    cluster = ChangingCluster(
        CONTEXT.nodes,
        CONTEXT.spares,
        answers=answers,
        lacks=lacks,
        taken_for_alive=taken_for_alive,
        carried_on=carried_on,
    )
    return nemesis.operate(cluster, operation), cluster, operation


@pytest.mark.parametrize("kind", KINDS)
def test_each_is_an_operation_that_is_ok_when_its_first_attempt_is(kind):
    nemesis, operation = planned(kind)
    assert isinstance(nemesis, TopologyNemesis)
    assert isinstance(nemesis, OwnLack)
    done, cluster, _ = carried_out(kind)
    assert (done.type, done.error) == ("ok", None)
    assert [one["outcome"] for one in done.value["attempts"]] == ["ok"]
    assert len([verb for verb, *_ in cluster.asked if verb != "repair"]) == 1
    assert 0 < operation.begins_s < operation.ends_s == 100


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_plans_the_same_operation_and_the_first_node_stays(kind):
    for seed in range(40):
        _, operation = planned(kind, seed=seed)
        assert planned(kind, seed=seed)[1] == operation
        assert "n1" not in operation.nodes


def test_what_is_done_after_a_failure_is_a_choice_of_the_seed():
    drawn = {planned("bootstrap", seed=seed)[1].parameters["after_failure"] for seed in range(40)}
    assert drawn == {"retry", "resume", "abort"}
    assert planned("bootstrap", after_failure="resume")[1].parameters["after_failure"] == "resume"
    with pytest.raises(PlanError):
        planned("bootstrap", after_failure="pray")


def series(kind, count, *, seed=7, context=CONTEXT, **options):
    nemesis = load("nemeses", kind)
    given = {f"{kind}.{name}": text for name, text in (options | {"count": str(count)}).items()}
    context = replace(context, seed=seed, options=given)
    return nemesis.schedule(context, random=context.random("nemesis", kind))


MANY = replace(CONTEXT, nodes=("n1", "n2", "n3", "n4", "n5"), spares=("n6", "n7", "n8", "n9"))


@pytest.mark.parametrize("kind", [*KINDS, "rf-change", "pause-commits", "abort-bootstrap", "cancel-sequence"])
def test_operations_of_a_series_follow_one_another(kind):
    found = series(kind, 4, context=MANY)
    begins = [operation.begins_s for operation in found]
    apart = {round(after - before, 1) for before, after in itertools.pairwise(begins)}
    assert len(found) == 4
    assert len(apart) == 1
    assert apart.pop() > 10
    assert begins[-1] < 90
    assert series(kind, 4, context=MANY) == found
    alone = series(kind, 1, context=MANY)
    assert replace(found[0], begins_s=0) == replace(alone[0], begins_s=0)
    assert found[0].begins_s == alone[0].begins_s


@pytest.mark.parametrize(
    "kind", ["bootstrap", "decommission", "removenode", "assassinate", "replace", "abort-bootstrap", "cancel-sequence"]
)
@pytest.mark.parametrize("seed", range(5))
def test_a_node_joins_or_leaves_once_in_a_series(kind, seed):
    nodes = [node for operation in series(kind, 4, seed=seed, context=MANY) for node in operation.nodes]
    assert len(set(nodes)) == len(nodes)
    assert "n1" not in nodes


@pytest.mark.parametrize(
    ("kind", "count", "options"),
    [
        ("bootstrap", 3, {}),
        ("bootstrap", 2, {"node": "n5"}),
        ("abort-bootstrap", 3, {}),
        ("decommission", 4, {}),
        ("decommission", 2, {"node": "n2"}),
        ("removenode", 4, {}),
        ("assassinate", 4, {}),
        ("replace", 4, {}),
        ("replace", 3, {"address": "new"}),
        ("move", 2, {"token": "5"}),
        *((kind, count, {}) for kind in (*KINDS, "abort-bootstrap", "cancel-sequence") for count in (0, -1)),
    ],
)
def test_a_series_that_has_no_nodes_is_refused(kind, count, options):
    with pytest.raises(PlanError, match=f"{kind}.count={count}"):
        series(kind, count, **options)


def test_moves_and_replacements_at_the_same_address_need_no_spare():
    without = replace(CONTEXT, spares=())
    assert [len(operation.nodes) for operation in series("replace", 3, context=without)] == [1, 1, 1]
    moves = series("move", 5, context=without)
    assert len({operation.parameters["fraction"] for operation in moves}) == 5
    assert {operation.nodes[0] for operation in moves} == {"n2", "n3", "n4"}


def test_kinds_of_one_run_want_different_nodes():
    for seed in range(20):
        wanted = [planned(kind, seed=seed)[1].nodes[0] for kind in ("decommission", "removenode", "assassinate")]
        assert len(set(wanted)) == 3


LEAVERS = ("decommission", "removenode", "replace", "assassinate")


def leavers(counts, context, seed=0):
    """By kind the nodes that its operations in one run take away."""
    given = {f"{kind}.count": str(count) for kind, count in counts.items()} | {"replace.address": "same"}
    context = replace(context, nemeses=tuple(counts), options=given, seed=seed)
    nemeses = {kind: load("nemeses", kind) for kind in counts}
    found = {
        kind: nemesis.schedule(context, random=context.random("nemesis", kind)) for kind, nemesis in nemeses.items()
    }
    return {kind: [operation.nodes[0] for operation in operations] for kind, operations in found.items()}


@pytest.mark.parametrize("kinds", [pair for n in (2, 3, 4) for pair in itertools.permutations(LEAVERS, n)])
@pytest.mark.parametrize("seed", range(3))
def test_series_of_several_kinds_want_different_nodes(kinds, seed):
    context = replace(CONTEXT, nodes=tuple(f"n{number}" for number in range(1, 10)))
    for counts in itertools.product((1, 2), repeat=len(kinds)):
        wanted = leavers(dict(zip(kinds, counts, strict=True)), context, seed)
        nodes = [node for found in wanted.values() for node in found]
        assert len(set(nodes)) == len(nodes) == sum(counts)


@pytest.mark.parametrize("kinds", [(one,) for one in LEAVERS] + [("decommission", "removenode")])
@pytest.mark.parametrize("seed", range(5))
def test_who_moves_is_no_node_that_leaves_while_there_are_enough(kinds, seed):
    wanted = leavers(dict.fromkeys((*kinds, "move"), 1), MANY, seed)
    assert wanted["move"][0] not in {node for kind in kinds for node in wanted[kind]}
    alone = leavers({"move": 1}, MANY, seed)
    assert alone["move"] == leavers({"decommission": 1}, MANY, seed)["decommission"], (
        "a run of moves alone is as it was"
    )


def test_series_of_several_kinds_that_take_more_nodes_than_can_leave_are_refused():
    assert len(leavers({"decommission": 1, "removenode": 3}, MANY)["removenode"]) == 3
    with pytest.raises(PlanError, match=r"2 of decommission, 3 of removenode: .* 4 nodes of this run can leave"):
        leavers({"removenode": 3, "decommission": 2}, MANY)


def test_one_more_kind_without_a_series_moves_none():
    alone = {kind: leavers({kind: 1}, MANY)[kind] for kind in ("decommission", "removenode", "assassinate")}
    assert leavers(dict.fromkeys(alone, 1), MANY) == alone


@pytest.mark.parametrize("kind", ["decommission", "move", "cms-reconfigure"])
def test_a_refusal_is_a_fail_and_nothing_follows(kind):
    done, cluster, _ = carried_out(kind, answers=["fail"])
    assert (done.type, done.error) == ("fail", "Refused: words")
    assert len(cluster.asked) == 1


@pytest.mark.parametrize(
    ("answers", "way", "outcome", "verbs"),
    [
        (["info", "ok"], "retry", "ok", ["decommission"] * 2),
        (["info", "info", "ok"], "retry", "ok", ["decommission"] * 3),
        # Which attempt the refusal of the second speaks of, nobody knows.
        (["info", "fail"], "retry", "info", ["decommission"] * 2),
        (["info"] * 9, "retry", "info", ["decommission"] * 4),
        (["info", "ok"], "abort", "fail", ["decommission", "abort-leave"]),
        (["info", "info", "info", "info"], "abort", "info", ["decommission"] + ["abort-leave"] * 3),
        (["info", "fail"], "abort", "info", ["decommission", "abort-leave"]),
    ],
)
def test_a_failed_decommission_is_tried_again_or_aborted(answers, way, outcome, verbs):
    done, cluster, _ = carried_out("decommission", answers=answers, after_failure=way)
    assert done.type == outcome
    assert [verb for verb, *_ in cluster.asked] == verbs


LEAVE, STAY = "decommission", "abort-leave"


@pytest.mark.parametrize(
    ("answers", "outcome", "verbs"),
    [
        (["info", "ok", "ok"], "ok", [LEAVE, STAY, LEAVE]),
        (["info", "ok", "info", "ok", "ok"], "ok", [LEAVE, STAY, LEAVE, STAY, LEAVE]),
        # What the first attempt had done was undone, so the refusal speaks of all there is.
        (["info", "ok", "fail"], "fail", [LEAVE, STAY, LEAVE]),
        # There was nothing to abort, or so it seems.
        (["info", "info", "ok"], "ok", [LEAVE, STAY, LEAVE]),
        (["info", "fail", "fail"], "info", [LEAVE, STAY, LEAVE]),
        (["info"] * 9, "info", [LEAVE, STAY] * 3 + [LEAVE]),
        (["info", "ok"] * 3 + ["info"], "info", [LEAVE, STAY] * 3 + [LEAVE]),
        (["ok"], "ok", [LEAVE]),
        (["fail"], "fail", [LEAVE]),
    ],
)
def test_a_decommission_that_starts_over_is_aborted_first_and_rows_are_written_in_between(
    monkeypatch, answers, outcome, verbs
):
    pauses = []
    monkeypatch.setattr(attempts, "pause_for", pauses.append)
    done, cluster, _ = carried_out("decommission", answers=answers, after_failure="start-over")
    assert done.type == outcome
    assert [verb for verb, *_ in cluster.asked] == verbs
    assert pauses.count(15.0) == verbs.count(LEAVE) - 1


def test_a_node_starts_over_by_a_restart_where_nothing_aborts():
    done, cluster, operation = carried_out(
        "decommission", answers=["info", "ok"], lacks=["abort-leave"], after_failure="start-over"
    )
    assert done.type == "ok"
    assert cluster.by_name[operation.nodes[0]].started == 1
    assert [attempt["command"] for attempt in done.value["attempts"]][1] == "restart"
    assert [verb for verb, *_ in cluster.asked] == [LEAVE, LEAVE]


def test_where_nothing_aborts_a_decommission_the_node_is_restarted():
    done, cluster, operation = carried_out(
        "decommission", answers=["info"], lacks=["abort-leave"], after_failure="abort"
    )
    assert done.type == "fail"
    assert cluster.by_name[operation.nodes[0]].started == 1


@pytest.mark.parametrize(
    ("kind", "lacks"), [("decommission", "abort-leave"), ("move", "abort-move"), ("removenode", "abort-remove")]
)
@pytest.mark.parametrize(("carried_on", "outcome"), [(True, "info"), (False, "fail")])
def test_a_restart_proves_nothing_where_others_carry_the_change_on(kind, lacks, carried_on, outcome):
    """A request that waits its turn shows on no node, and its coordinator comes to it after the restart."""
    done, cluster, operation = carried_out(
        kind, answers=["info"], lacks=[lacks], after_failure="abort", carried_on=carried_on
    )
    assert done.type == outcome
    assert [attempt["command"] for attempt in done.value["attempts"]][1:] == ["restart"]
    assert cluster.by_name[operation.nodes[0]].state() == "running"


def test_what_others_carry_on_starts_over_without_a_proof():
    done, _, _ = carried_out(
        "decommission", answers=["info", "fail"], lacks=["abort-leave"], after_failure="start-over", carried_on=True
    )
    assert done.type == "info"


def test_a_failed_bootstrap_begins_anew_with_an_empty_disk():
    done, cluster, _ = carried_out("bootstrap", answers=["info", "ok", "ok"], after_failure="retry")
    assert done.type == "ok"
    assert cluster.asked == [("join", "n5", None), ("abort-join", "n1", "n5"), ("join", "n5", None)]


def test_an_aborted_bootstrap_leaves_no_server_behind():
    done, cluster, _ = carried_out("bootstrap", answers=["info"], lacks=["abort-join"], after_failure="abort")
    assert (done.type, cluster.by_name["n5"].state()) == ("fail", "stopped")


@pytest.mark.parametrize("trace", ["a member", "a step"])
def test_a_kill_aborts_no_bootstrap_that_others_go_on_with(monkeypatch, trace):
    """A node may have told the others that it has joined just before it died; and where a coordinator joins it, its death ends nothing."""
    monkeypatch.setattr(bootstrap, "_FORGOTTEN_S", 0.0)
    nemesis, operation = planned("bootstrap", after_failure="abort")
    cluster = ChangingCluster(CONTEXT.nodes, CONTEXT.spares, answers=["info"] * 9, lacks=["abort-join"])
    if trace == "a member":
        cluster.states["n5"] = "normal"
    else:
        cluster.steps = lambda nodes: ["under-way"] if "n5" in nodes else []
    done = nemesis.operate(cluster, operation)
    assert (done.type, cluster.by_name["n5"].state()) == ("info", "stopped")
    assert {attempt["outcome"] for attempt in done.value["attempts"]} == {"info"}


def test_a_spare_that_runs_is_not_asked_to_join():
    nemesis, operation = planned("bootstrap")
    cluster = ChangingCluster((*CONTEXT.nodes, "n5"))
    assert nemesis.operate(cluster, operation).type == "fail"
    assert cluster.asked == []


@pytest.mark.parametrize(("kind", "verb"), [("removenode", "remove"), ("assassinate", "assassinate")])
def test_a_node_is_taken_down_before_it_is_taken_out(kind, verb):
    done, cluster, operation = carried_out(kind)
    dead = operation.nodes[0]
    assert (done.type, cluster.by_name[dead].state()) == ("ok", "stopped")
    assert cluster.asked[0] == (verb, "n1", dead)
    repaired = [on for verb, on, _ in cluster.asked if verb == "repair"]
    assert repaired == ([node for node in CONTEXT.nodes if node != dead] if kind == "assassinate" else [])


@pytest.mark.parametrize("answers", [["fail"], ["info"] * 9])
def test_a_node_that_was_not_removed_is_started_again(answers):
    done, cluster, operation = carried_out("removenode", answers=answers, after_failure="retry")
    assert done.type == answers[0]
    assert cluster.by_name[operation.nodes[0]].state() == "running"


def test_a_node_that_is_no_member_any_more_is_not_started_again():
    nemesis, operation = planned("removenode", after_failure="retry")
    cluster = ChangingCluster(CONTEXT.nodes, answers=["info"] * 9)
    cluster.states[operation.nodes[0]] = "left"
    assert nemesis.operate(cluster, operation).type == "info"
    assert cluster.by_name[operation.nodes[0]].state() == "stopped"


@pytest.mark.parametrize("kind", ["removenode", "replace"])
def test_a_node_that_others_take_for_alive_is_not_taken_out(kind):
    done, cluster, operation = carried_out(kind, taken_for_alive=True)
    assert (done.type, cluster.asked) == ("fail", [])
    assert cluster.by_name[operation.nodes[0]].state() == "running"


def test_a_majority_dies_and_the_others_recover_the_group_and_remove_the_dead():
    done, cluster, operation = carried_out("lost-majority", behind="false")
    dead = operation.nodes
    assert (done.type, len(dead)) == ("ok", 2)
    assert [verb for verb, *_ in cluster.asked] == ["recover-group", "remove", "remove"]
    assert [about for verb, _, about in cluster.asked if verb == "remove"] == list(dead)
    assert {cluster.by_name[name].state() for name in dead} == {"stopped"}


@pytest.mark.parametrize("answers", [["info"] * 9, ["ok", *["info"] * 9]])
def test_nodes_of_a_lost_majority_are_never_started_again(answers):
    done, cluster, operation = carried_out("lost-majority", answers=answers)
    assert done.type == "info"
    assert {cluster.by_name[name].state() for name in operation.nodes} == {"stopped"}


def test_a_majority_that_is_taken_for_alive_is_started_again():
    done, cluster, operation = carried_out("lost-majority", taken_for_alive=True)
    assert (done.type, cluster.asked) == ("fail", [])
    assert {cluster.by_name[name].state() for name in operation.nodes} == {"running"}


@pytest.mark.parametrize("options", [{"nodes": "n2"}, {"nodes": "n2+n3+n4"}, {"nodes": "n2+n9"}, {"behind": "pray"}])
def test_as_many_die_as_make_a_majority_impossible_and_fewer_than_a_row_has_replicas(options):
    with pytest.raises(PlanError):
        planned("lost-majority", **options)


def test_a_replacement_has_a_new_address_or_the_same():
    nemesis, new = planned("replace", address="new")
    assert nemesis.becomes(new) == {new.nodes[0]: "replaced", "n6": "normal"}
    _, cluster, _ = carried_out("replace", address="new")
    assert cluster.asked == [("join", "n6", new.nodes[0])]
    nemesis, same = planned("replace", address="same")
    assert nemesis.becomes(same) == {same.nodes[0]: "normal"}
    _, cluster, _ = carried_out("replace", address="same")
    assert cluster.asked == [("join", same.nodes[0], same.nodes[0])]


def test_a_move_says_which_token_was_asked_for():
    done, cluster, operation = carried_out("move", token="-42")  # noqa: S106 - a place in the ring
    assert done.value == {**done.value, "token": "-42"}
    assert cluster.asked == [("move", operation.nodes[0], "-42")]
    done, _, operation = carried_out("move")
    assert int(done.value["token"]) == int(operation.parameters["fraction"] * 100)


def test_without_spares_a_bootstrap_is_refused_beforehand():
    nemesis = load("nemeses", "bootstrap")
    with pytest.raises(PlanError, match="--spares"):
        nemesis.schedule(replace(CONTEXT, spares=()), random=CONTEXT.random())


def test_a_system_without_the_command_cannot_have_the_nemesis():
    cluster = ChangingCluster(CONTEXT.nodes, lacks=["reconfigure", "assassinate", "replace"])
    assert load("nemeses", "cms-reconfigure").missing(cluster) == "no reconfigure"
    assert load("nemeses", "assassinate").missing(cluster) == "no assassinate"
    assert load("nemeses", "replace").missing(cluster) == "no replace"
    assert load("nemeses", "decommission").missing(cluster) is None
    assert load("nemeses", "decommission").missing(object()) is not None


def test_operations_overlap_only_if_they_are_allowed_to():
    assert "overlaps" not in planned("move")[1].parameters
    nemesis = load("nemeses", "move")
    context = replace(CONTEXT, options={"overlap": "true"})
    assert nemesis.schedule(context, random=context.random())[0].parameters["overlaps"] is True


@pytest.fixture
def waits(monkeypatch):
    """What happens while commits are paused, called in turn; the seconds of every wait."""
    waited = []
    monkeypatch.setattr(metadata_service, "pause_for", waited.append)
    return waited


def test_commits_are_paused_on_every_node_for_a_while_and_resumed(waits):
    done, cluster, operation = carried_out("pause-commits")
    assert done.type == "ok"
    asked = [(verb, on) for verb, on, _ in cluster.asked]
    assert sorted(asked[:4]) == [("pause-commits", name) for name in CONTEXT.nodes]
    assert sorted(asked[4:]) == [("resume-commits", name) for name in CONTEXT.nodes]
    assert waits == [operation.parameters["lasts_s"]]
    assert operation.parameters["overlaps"] is True, "other operations meet it"


def test_how_long_commits_are_paused_is_a_choice_of_the_seed_unless_it_is_said():
    drawn = {planned("pause-commits", seed=seed)[1].parameters["lasts_s"] for seed in range(40)}
    assert len(drawn) > 10
    assert all(5 <= seconds <= 20 for seconds in drawn)
    assert planned("pause-commits", lasts_s="3")[1].parameters["lasts_s"] == 3


def test_a_node_that_does_not_resume_is_asked_again(waits):
    done, cluster, _ = carried_out("pause-commits", answers=["ok"] * 4 + ["info", "ok", "ok", "ok", "info"])
    assert done.type == "ok"
    assert len([verb for verb, *_ in cluster.asked if verb == "resume-commits"]) == 6


def test_a_node_that_never_resumes_leaves_the_outcome_open(waits):
    done, cluster, _ = carried_out("pause-commits", answers=["ok"] * 4 + ["info"] * 100)
    assert (done.type, done.error) == ("info", "Failed: words")
    assert {on for verb, on, _ in cluster.asked if verb == "resume-commits"} == set(CONTEXT.nodes)


def test_commits_are_resumed_when_the_wait_is_interrupted(monkeypatch):
    def interrupted(_seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(metadata_service, "pause_for", interrupted)
    nemesis, operation = planned("pause-commits")
    cluster = ChangingCluster(CONTEXT.nodes)
    with pytest.raises(KeyboardInterrupt):
        nemesis.operate(cluster, operation)
    assert sorted(on for verb, on, _ in cluster.asked if verb == "resume-commits") == list(CONTEXT.nodes)


def test_a_node_that_ended_meanwhile_needs_no_resuming(monkeypatch):
    nemesis, operation = planned("pause-commits")
    cluster = ChangingCluster(CONTEXT.nodes)
    monkeypatch.setattr(metadata_service, "pause_for", lambda _seconds: cluster.by_name["n2"].kill())
    assert nemesis.operate(cluster, operation).type == "ok"
    assert sorted(on for verb, on, _ in cluster.asked if verb == "resume-commits") == ["n1", "n3", "n4"]


def test_where_commits_cannot_be_paused_nothing_is_planned():
    nemesis, _ = planned("pause-commits")
    assert nemesis.missing(ChangingCluster(CONTEXT.nodes)) is None
    assert nemesis.missing(ChangingCluster(CONTEXT.nodes, lacks=["resume-commits"])) == "no resume-commits"


def test_a_cluster_whose_members_nobody_names_is_not_up_and_attempts_go_on(monkeypatch):
    monkeypatch.setattr(attempts, "pause_for", lambda _seconds: None)
    monkeypatch.setattr(attempts, "_BACK_LIMIT_S", 0)

    class Silent(ChangingCluster):
        def members(self):
            raise ClusterError("no node answers that could list the members")

    cluster = Silent(("n1", "n2"), answers=("info", "ok"))
    assert not attempts.all_up(cluster)
    assert attempts.all_up(ChangingCluster(("n1", "n2")))
    ask = partial(cluster.ask, "cleanup", on="n1", limit_s=1)
    operation = Fault(id=0, nemesis="x", begins_s=0, ends_s=1, nodes=("n1",), parameters={"after_failure": "retry"})
    done = attempts.try_out(operation, ask, attempts.Recovery(up=partial(attempts.all_up, cluster), retry=ask))
    assert (done.type, [one["outcome"] for one in done.value["attempts"]]) == ("ok", ["info", "ok"])
