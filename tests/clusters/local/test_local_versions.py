"""Versions of local nodes: another server with the same data, in an order that can be cut off at any place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schemaquake.clusters.local import namespaces
from schemaquake.clusters.local.cluster import InstalledVersion, LocalCluster, ServerSetup
from schemaquake.clusters.nodes.client_port import ClientPort
from schemaquake.clusters.systems.system import parse_system, recipe_for
from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.upgrade import ChangesVersions
from schemaquake.harness.wait import until

OLD, NEW = "cassandra:5.0.9", "cassandra:6.0-alpha2"

JAVA = """
case "$*" in
  *old.jar*NodeTool*) echo "${@: -2}" >> "$0.asked"; for bad in "$0.broken" "$0.answer"; do if [ -e "$bad" ]; then cat "$bad"; exit 1; fi; done ;;
  *NodeTool*) echo "${@: -2}" >> "$0.asked"; if [ -e "$0.answer" ]; then cat "$0.answer"; exit 1; fi ;;
  *) echo "$@"; exec sleep 120 ;;
esac
"""


def local(folder, java, first, *others):
    old = parse_system(first)
    return LocalCluster(
        InstalledVersion(system=old, recipe=recipe_for(old), java=java, class_path=[Path("/jars/old.jar")]),
        folder=folder,
        names=["n1", "n2"],
        start_timeout_s=5,
        setup=ServerSetup(java_options=[]),
        others=[
            InstalledVersion(system=new, recipe=recipe_for(new), java=java, class_path=[Path("/jars/new.jar")])
            for new in map(parse_system, others)
        ],
    )


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    monkeypatch.setattr(namespaces, "in_namespace", lambda _name: [])
    monkeypatch.setattr(ClientPort, "answers", lambda _self: True)
    java = tmp_path / "java"
    java.write_text(f"#!/bin/bash{JAVA}")
    java.chmod(0o755)
    made = local(tmp_path / "run", java, OLD, NEW)
    for node in made.nodes:
        node.prepare()
        node.start()
    yield made
    made.stop()


@pytest.fixture
def asked(tmp_path):
    """What nodetool was asked for so far."""
    path = tmp_path / "java.asked"
    return lambda: path.read_text().split("\n")[:-1] if path.exists() else []


@pytest.mark.parametrize(
    ("first", "others", "shown"),
    [
        (OLD, (NEW,), {"drain", "stop", "start", "initialize", "rewrite"}),
        ("cassandra:4.1.10", (OLD,), {"drain", "stop", "start", "rewrite"}),
        (OLD, (), set()),
    ],
)
def test_only_upgrades_to_6_0_have_a_step_of_their_own_at_the_end(tmp_path, first, others, shown):
    steps = local(tmp_path / "run", Path("/bin/false"), first, *others).steps_shown()
    assert shown == set(steps) & {"drain", "stop", "start", "initialize", "rewrite"}


def words(node, jar):
    return until(lambda: jar in node.log_text(), deadline_s=30, what=f"a server of {jar}")


def test_a_node_is_drained_and_its_server_exchanged_with_the_data_it_has(cluster, asked):
    first, second = cluster.nodes
    assert isinstance(cluster, ChangesVersions)
    data = Path(first.folder.path) / "data" / "rows"
    data.write_text("kept")
    words(first, "/jars/old.jar")
    attempt = cluster.become("n1", NEW, limit_s=30)
    assert (attempt.outcome, attempt.command) == ("ok", f"drain, stop, start as {NEW}")
    assert asked() == ["7199 drain"]
    words(first, "/jars/new.jar")
    assert data.read_text() == "kept"
    assert cluster.running() == {"n1": NEW, "n2": OLD}
    assert "discovery_timeout" in json.loads((Path(first.folder.path) / "cassandra.yaml").read_text())
    words(second, "/jars/old.jar")


def test_who_starts_a_node_after_the_drain_starts_the_newer_one_and_a_second_try_leaves_out_what_is_done(
    cluster, asked
):
    first = cluster.nodes[0]
    first.kill()
    assert cluster.become("n1", NEW, limit_s=30).outcome == "ok"
    assert asked() == [], "a server that does not run is not drained"
    first.kill()
    first.start()
    words(first, "/jars/new.jar")
    assert cluster.become("n1", NEW, limit_s=30).outcome == "ok"
    assert first.state() == "running"


def test_a_drain_that_fails_leaves_the_node_as_it_is(cluster, tmp_path):
    (tmp_path / "java.answer").write_text("no drain today")
    attempt = cluster.become("n1", NEW, limit_s=30)
    assert (attempt.outcome, attempt.answer) == ("info", "no drain today")
    assert cluster.running()["n1"] == OLD
    words(cluster.nodes[0], "/jars/old.jar")


def test_a_node_goes_back(cluster):
    cluster.become("n1", NEW, limit_s=30)
    assert cluster.become("n1", OLD, limit_s=30).outcome == "ok"
    words(cluster.nodes[0], "/jars/old.jar")
    assert cluster.running()["n1"] == OLD


def test_the_last_commands_are_carried_out_once_each(cluster, asked):
    for name in ("n1", "n2"):
        cluster.become(name, NEW, limit_s=30)
    assert cluster.finish(NEW, on="n2", limit_s=30).outcome == "ok"
    assert asked()[2:] == ["cms initialize", "reconfigure 2", "7199 upgradesstables", "7199 upgradesstables"]
    assert cluster.finish(NEW, on="n2", limit_s=30).outcome == "ok"
    assert len(asked()) == 6


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ("Got mismatching cluster metadatas. Check logs", "fail"),
        ("All nodes are not yet upgraded - /10.77.0.2 is running 5.0.9", "fail"),
        ("Connection refused", "info"),
    ],
)
def test_an_answer_to_the_last_step_may_prove_that_nothing_was_changed(cluster, tmp_path, said, outcome):
    (tmp_path / "java.answer").write_text(said)
    assert cluster.finish(NEW, on="n1", limit_s=30).outcome == outcome


def test_a_last_step_whose_answer_was_lost_is_known_to_be_done(cluster, tmp_path):
    (tmp_path / "java.answer").write_text("Can't upgrade from gossip since CMS is already initialized")
    assert cluster.finish(NEW, on="n1", limit_s=30).outcome == "ok"


def test_steps_are_told_while_they_go_on(cluster, monkeypatch):
    seen = []
    monkeypatch.setattr(
        type(cluster.nodes[0]), "stop", lambda _self, *, deadline_s: seen.append(cluster._versions.steps(["n1"]))
    )
    cluster.become("n1", NEW, limit_s=30)
    assert seen == [{"stop"}]
    assert cluster._versions.steps(["n1"]) == set()


def test_the_step_start_begins_with_a_server_that_runs(cluster, monkeypatch):
    kind, seen = type(cluster.nodes[0]), []
    start, await_serving = kind.start, kind.await_serving

    def starting(node):
        seen.append(("before", cluster._versions.steps(["n1"])))
        start(node)

    def awaiting(node, *, deadline_s):
        seen.append((node.state(), cluster._versions.steps(["n1"])))
        return await_serving(node, deadline_s=deadline_s)

    monkeypatch.setattr(kind, "start", starting)
    monkeypatch.setattr(kind, "await_serving", awaiting)
    cluster.become("n1", NEW, limit_s=30)
    assert seen == [("before", set()), ("running", {"start"})]


@pytest.mark.parametrize("system", ["cassandra:4.1.10", "scylladb:2025.1.0"])
def test_what_was_not_prepared_no_node_becomes(cluster, system):
    assert "not prepared" in cluster.cannot_become(system)
    with pytest.raises(ClusterError):
        cluster.become("n1", system, limit_s=1)


@pytest.mark.parametrize(
    ("first", "second", "can"),
    [
        (OLD, NEW, True),
        ("cassandra:4.1.10", "cassandra:5.0.9", True),
        ("cassandra:4.0.19", NEW, True),
        ("cassandra:3.11.19", NEW, False),
        ("cassandra:3.11.19", "cassandra:4.0.19", True),
        ("cassandra:2.2.19", "cassandra:3.11.19", True),
        ("cassandra:1.2.19", "cassandra:3.11.19", False),
        ("cassandra:5.0.8", OLD, True),
        (NEW, OLD, False),
        ("cassandra:4.0.19", "cassandra:3.11.19", False),
        (NEW, "scylladb:2025.1.0", False),
    ],
)
def test_paths_are_those_that_release_notes_allow(tmp_path, first, second, can):
    assert (on_the_way(tmp_path, first, second).cannot_become(second) is None) == can


def on_the_way(folder, first, *others):
    begin, further = parse_system(first), [parse_system(other) for other in others]
    return LocalCluster(
        InstalledVersion(system=begin, recipe=recipe_for(begin), java=folder / "java", class_path=[]),
        folder=folder,
        names=["n1"],
        start_timeout_s=1,
        setup=ServerSetup(java_options=[]),
        others=[
            InstalledVersion(
                system=end,
                recipe=recipe_for(end if end.launch is not None else begin),
                java=folder / "java",
                class_path=[],
            )
            for end in further
        ],
    )


def test_each_version_of_a_longer_path_is_reached_from_the_one_before_it(tmp_path):
    path = ("cassandra:3.11.19", "cassandra:4.0.19", "cassandra:4.1.10", OLD, NEW)
    made = on_the_way(tmp_path, *path)
    assert [made.cannot_become(system) for system in path[1:]] == [None] * 4
    assert "n1" in made.not_ready(NEW)
    assert made.not_ready(path[1]) is None
    assert made.promises(path[1])["source"] != made.promises(NEW)["source"]
    assert [made.cannot_go_back(system) is None for system in path[1:]] == [False, False, True, True]
    assert on_the_way(tmp_path, "cassandra:3.11.19", OLD, NEW).cannot_become(OLD) is not None
    assert "not prepared" in made.not_ready(path[0])


def test_the_next_upgrade_waits_for_the_end_of_the_one_before(tmp_path, cluster, asked):
    between = "cassandra:4.1.10"
    path = local(tmp_path / "path", tmp_path / "java", "cassandra:4.0.19", between, OLD)
    try:
        for node in path.nodes:
            node.prepare()
            node.start()
        path.become("n1", between, limit_s=30)
        assert path.not_ready(OLD) == "n2 did not become cassandra:4.1.10"
        path.become("n2", between, limit_s=30)
        assert "has not ended" in path.not_ready(OLD)
        before = len(asked())
        assert path.finish(between, on="n1", limit_s=30).outcome == "ok"
        assert path.not_ready(OLD) is None
        for node in ("n1", "n2"):
            path.become(node, OLD, limit_s=30)
        assert path.finish(OLD, on="n1", limit_s=30).outcome == "ok"
        assert [line for line in asked()[before:] if "upgradesstables" in line] == ["7199 upgradesstables"] * 4
    finally:
        path.stop()


def test_a_refused_end_goes_on_without_comparing_the_other_nodes(cluster, tmp_path, asked):
    for name in ("n1", "n2"):
        cluster.become(name, NEW, limit_s=30)
    answer = tmp_path / "java.answer"
    answer.write_text("Got mismatching cluster metadatas. Aborting migration")
    assert cluster.finish(NEW, on="n2", limit_s=30).outcome == "fail"
    before = len(asked())
    assert cluster.finish(NEW, on="n2", limit_s=30, insists=True).outcome == "fail"
    assert [line.split() for line in asked()[before:]] == [["--ignore", "10.77.0.1"]]
    answer.unlink()
    assert cluster.finish(NEW, on="n2", limit_s=30, insists=True).outcome == "ok"


def test_a_node_whose_own_nodetool_does_not_run_is_drained_by_that_of_the_other_version(cluster, asked, tmp_path):
    (tmp_path / "java.broken").write_text("NoSuchMethodError: DirectBuffer.cleaner()")
    assert cluster.become("n1", NEW, limit_s=30).outcome == "ok"
    assert [line.split()[-1] for line in asked()] == ["drain", "drain"]
    assert cluster.running() == {"n1": NEW, "n2": OLD}


def test_a_drain_that_neither_nodetool_can_ask_for_leaves_the_node_and_its_own_tool_as_they_were(
    cluster, asked, tmp_path
):
    (tmp_path / "java.broken").write_text("NoSuchMethodError: DirectBuffer.cleaner()")
    (tmp_path / "java.answer").write_text("Connection refused")
    attempt = cluster.become("n1", NEW, limit_s=30)
    assert (attempt.outcome, attempt.command) == ("info", "nodetool drain")
    assert "DirectBuffer" in attempt.answer
    assert cluster.running() == {"n1": OLD, "n2": OLD}
    (tmp_path / "java.answer").unlink()
    # Its own is asked again, which does not run.
    assert cluster.nodes[0].nodetool("flush").exit_code == 1
    assert len(asked()) == 3
