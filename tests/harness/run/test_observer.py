"""The observer: a real process that looks at every node of a scripted cluster and writes down what each shows."""

from __future__ import annotations

import os
import signal
import time

import pytest
from scripted_cluster import ScriptedConnector, set_state

from schemaquake.harness.errors import ClusterError, NodeUnreachable
from schemaquake.harness.history.journal import start_clock
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.run.observer import ProcessObserver
from schemaquake.harness.wait import pause_for, until


@pytest.fixture
def observer_of(tmp_path, scripted):
    """`observer_of(n1="a b", n2="b")`: an observer of nodes that show these versions, one at each look."""
    observers = []

    def make(*, connect=True, **shows):
        observer = ProcessObserver(
            ScriptedConnector(tmp_path, shows),
            journal=tmp_path / "observations-observer.jsonl",
            started_ns=start_clock(tmp_path),
            request_timeout_s=5,
        )
        observers.append(observer)
        if connect:
            observer.connect(list(shows))
        return observer

    yield make
    for observer in observers:
        observer.stop()


@pytest.fixture
def seen(tmp_path, observations):
    """What is in the journal: (phase, node, kind, id or error)."""

    def read():
        return [(o["phase"], o["node"], o["kind"], o["id"] or o["error"]) for o in observations(tmp_path)]

    return read


# ── settle ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_nodes_that_show_one_version_are_settled(observer_of):
    settled = observer_of(n1="a", n2="a", n3="a").settle(limit_s=10)
    assert settled.agreed
    assert settled.versions == {"n1": "a", "n2": "a", "n3": "a"}
    assert 0 < settled.seconds < 10


def test_to_agree_for_a_moment_is_not_to_settle(observer_of, seen):
    settled = observer_of(n1="a a b b", n2="b a a b").settle(limit_s=10)
    assert settled.agreed
    assert settled.versions == {"n1": "b", "n2": "b"}
    looks = [version for _, node, _, version in seen() if node == "n1"]
    assert looks == ["a", "a", "b", "b", "b"], (
        "agreed at the second, the fourth and the fifth look; settled at the fifth"
    )


def test_nodes_may_move_on_together_and_still_agree(observer_of):
    settled = observer_of(n1="a b", n2="a b").settle(limit_s=10)
    assert settled.agreed
    assert settled.versions == {"n1": "b", "n2": "b"}


def test_nodes_that_go_on_differing_do_not_settle_and_the_last_versions_are_told(observer_of):
    settled = observer_of(n1="a", n2="b c").settle(limit_s=1)
    assert not settled.agreed
    assert settled.versions == {"n1": "a", "n2": "c"}
    assert 1 <= settled.seconds < 8


def test_waiting_ends_when_nothing_is_under_way_any_more(observer_of):
    settled = observer_of(n1="a", n2="b").settle(limit_s=600, quiet_s=0.5)
    assert not settled.agreed
    assert settled.versions == {"n1": "a", "n2": "b"}
    assert 0.5 <= settled.quiet_s <= settled.seconds


def test_a_node_that_cannot_be_read_agrees_with_nobody(observer_of):
    settled = observer_of(n1="a", n2="!").settle(limit_s=0.6)
    assert not settled.agreed
    assert settled.versions == {"n1": "a", "n2": "unreadable: Scripted: no answer"}


def test_nodes_that_cannot_be_read_do_not_agree_with_each_other_either(observer_of):
    assert not observer_of(n1="!", n2="!").settle(limit_s=0.6).agreed


def test_a_node_that_comes_back_settles_with_the_others(observer_of):
    assert observer_of(n1="a", n2="! ! a").settle(limit_s=10).agreed


def test_only_the_nodes_that_serve_are_asked_after_a_restart(observer_of, tmp_path):
    observer = observer_of(n1="a", n2="b", n3="a")
    set_state(tmp_path, "n2", "stopped")
    observer.connect(["n1", "n3"])
    settled = observer.settle(limit_s=10)
    assert settled.agreed
    assert set(settled.versions) == {"n1", "n3"}


# ── readings ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_final_reading_is_complete_and_bears_its_phase(observer_of, seen):
    observer_of(n1="a", n2="b").read("settled")
    assert sorted(map(str, seen())) == sorted(
        map(
            str,
            [
                ("settled", "n1", "version", "a"),
                ("settled", "n1", "keyspace", None),
                ("settled", "n2", "version", "b"),
                ("settled", "n2", "keyspace", None),
            ],
        )
    )


def test_a_node_that_cannot_be_read_leaves_its_error_and_nothing_else(observer_of, seen):
    observer_of(n1="!", n2="b").read("settled")
    assert [row for row in seen() if row[1] == "n1"] == [("settled", "n1", "version", "Scripted: no answer")]


def test_every_reading_has_a_number_of_its_own(observer_of, observations, tmp_path):
    observer = observer_of(n1="a", n2="a")
    observer.read("settled")
    observer.read("restarted")
    numbers = {(o["phase"], o["sample"]) for o in observations(tmp_path)}
    assert len(numbers) == 2
    assert len({sample for _, sample in numbers}) == 2


def test_readings_of_others_are_recorded_with_its_own(observer_of, observations, tmp_path):
    directory = Observation(
        time=time.monotonic_ns() + 1_000_000_000,
        phase="settled",
        node="n1",
        sample=0,
        kind="data-directory",
        keyspace="ks",
        name="t",
        id="5a1c395e4d0411efb4c5c1b2e1a1f0aa",
        definition={"live": True, "snapshots": []},
    )
    observer = observer_of(n1="a")
    observer.record([directory])
    observer.record([])
    (row,) = observations(tmp_path)
    assert (row["kind"], row["node"], row["name"], row["definition"]) == (
        "data-directory",
        "n1",
        "t",
        '{"live":true,"snapshots":[]}',
    )


# ── sampling ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_samples_while_it_is_told_to_and_no_longer(observer_of, seen):
    observer = observer_of(n1="a b c d e f g h", n2="a")
    assert seen() == []
    observer.sample("running")
    until(lambda: len(seen()) >= 4, deadline_s=120, what="two samples of two nodes")
    observer.sample(None)
    observer.read("settled")
    taken = [row for row in seen() if row[0] == "running"]
    pause_for(1.2)
    after = [row for row in seen() if row[0] == "running"]
    assert len(after) - len(taken) <= 2, "at most the sample that was under way"
    assert {(phase, node) for phase, node, _, _ in taken} == {("running", "n1"), ("running", "n2")}
    assert [version for _, node, _, version in taken if node == "n1"][:2] == ["a", "b"]


def test_a_defect_while_sampling_is_told_at_the_next_question(observer_of):
    """Or the run would go on, and end, without observations."""
    observer = observer_of(n1="a burst a")
    observer.sample("running")

    def told():
        try:
            observer.sample("running")
        except ClusterError as error:
            return str(error)
        return None

    assert "RuntimeError: the eyes burst" in until(told, deadline_s=120, what="the defect")


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_node_that_does_not_answer_is_unreachable(observer_of, tmp_path):
    observer = observer_of(connect=False, n1="a", n2="a")
    set_state(tmp_path, "n2", "stopped")
    with pytest.raises(NodeUnreachable, match="node n2 did not accept a session"):
        observer.connect(["n1", "n2"])
    observer.connect(["n1"])
    assert observer.settle(limit_s=10).agreed


def test_a_defect_of_a_reading_reaches_the_conductor_with_its_traceback(observer_of):
    with pytest.raises(ClusterError, match="RuntimeError: the eyes burst"):
        observer_of(n1="burst").read("settled")


def test_a_process_that_ended_by_itself_is_told_with_its_exit_code(observer_of):
    observer = observer_of(n1="a")
    os.kill(observer._process.pid, signal.SIGKILL)
    with pytest.raises(ClusterError, match="the observer process ended by itself, exit code -9"):
        observer.read("settled")
    observer.stop()


def test_stopping_it_leaves_no_process_and_may_be_repeated(observer_of):
    observer = observer_of(n1="a")
    observer.sample("running")
    observer.stop()
    observer.stop()
    assert not observer._process.is_alive()
