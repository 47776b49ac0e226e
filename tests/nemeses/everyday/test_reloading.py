"""Reloading: a table gets another id, and every node takes up the snapshot of the old one; nothing stays behind."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from file_nodes import FileCluster

from schemaquake.harness.errors import NodeUnreachable, PlanError
from schemaquake.harness.model.context import Context
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.protocols import TopologyNemesis
from schemaquake.harness.model.topology import AsksAsClient, Attempt
from schemaquake.harness.registry import load
from schemaquake.nemeses.everyday import reloading

NODES = ("n1", "n2")
KEYSPACE = "sq_reloaded_rows"
CONTEXT = Context(seed=7, nodes=NODES, time_limit_s=100, workloads=("reloaded-rows",))


class Reloading(FileCluster):
    """Snapshots copy files, tables have folders with ids, and what takes files up keeps what they hold, by node."""

    def __init__(self, folder, *, fails=(), answers=(), empty=(), lacks=()):
        super().__init__(folder, NODES)
        self.lacks = frozenset(lacks)
        self.fails, self.verbs, self.changes = set(fails), [], []
        self.answers_of_clients = list(answers)
        self.taken = {name: [] for name in NODES}
        for name in NODES:
            place = self.table(name, "1")
            place.mkdir(parents=True)
            if name not in empty:
                (place / "nb-1-big-Data.db").write_text(f"rows of {name}")

    def table(self, node, identity):
        return self.folder / node / "data" / KEYSPACE / f"r-{identity}"

    def ask(self, verb, *, on, about=None, argument=None, limit_s):
        self.verbs.append((verb, on))
        outcome = "info" if (verb, on) in self.fails else "ok"
        if verb == "snapshot" and outcome == "ok":
            name, dashes, keyspace = argument.split()
            assert (dashes, keyspace) == ("--", KEYSPACE)
            kept = self.table(on, "1") / "snapshots" / name
            kept.mkdir(parents=True)
            (kept / "manifest.json").write_text("{}")
            for path in self.table(on, "1").glob("nb-*"):
                (kept / path.name).write_text(path.read_text())
        elif outcome == "ok":
            source = self.table(on, "2") if verb == "refresh" else self.folder / argument.split()[-1]
            assert argument.split()[:2] == [KEYSPACE, "r"] or verb == "load"
            for path in sorted(source.glob("nb-*")):
                self.taken[on].append((path.name, path.read_text()))
                path.unlink()
        return Attempt(outcome=outcome, command=verb, node=on, seconds=0.1, answer="" if outcome == "ok" else "words")

    def request(self, node, operation):
        self.changes.append(operation.f)
        outcome = self.answers_of_clients.pop(0) if self.answers_of_clients else "ok"
        if outcome == "unreachable":
            raise NodeUnreachable(f"{node} does not answer")
        if outcome == "ok" and operation.f == "create-table":
            for name in NODES:
                self.table(name, "2").mkdir()
        if outcome == "ok" and operation.f == "drop-table":
            for name in NODES:
                for path in self.table(name, "1").glob("nb-*"):
                    path.unlink()
        return Completion(type=outcome, error=None if outcome == "ok" else "words")

    def left(self):
        return sorted(path.name for path in self.folder.glob("*/data/*/r-2/*")) + [
            path.name for path in self.folder.glob("*/schemaquake*")
        ]


class Asked:
    def __init__(self, cluster):
        self.cluster = cluster

    def ask(self, node, operation):
        return self.cluster.request(node, operation)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(reloading, "pause_for", lambda _seconds: None)


def planned(**options):
    nemesis = load("nemeses", "reload-table")
    context = replace(CONTEXT, options={f"reload-table.{name}": text for name, text in options.items()})
    (operation,) = nemesis.schedule(context, random=context.random("nemesis", "reload-table"))
    return nemesis, operation


def carried_out(cluster, **options):
    nemesis, operation = planned(**options)
    return nemesis.operate_as_client(cluster, operation, Asked(cluster))


@pytest.mark.parametrize("way", ["refresh", "import", "load"])
def test_every_node_takes_up_its_own_snapshot_and_nothing_stays_behind(tmp_path, way):
    cluster = Reloading(tmp_path)
    done = carried_out(cluster, way=way, change="same")
    assert isinstance(load("nemeses", "reload-table"), TopologyNemesis)
    assert isinstance(load("nemeses", "reload-table"), AsksAsClient)
    assert (done.type, done.error) == ("ok", None)
    assert cluster.verbs == [("snapshot", "n1"), ("snapshot", "n2"), (way, "n1"), (way, "n2")]
    assert cluster.changes == ["drop-table", "create-table"]
    # The new table may have a file of the same number by now.
    name = "nb-90001-big-Data.db" if way == "refresh" else "nb-1-big-Data.db"
    assert cluster.taken == {node: [(name, f"rows of {node}")] for node in NODES}
    assert cluster.left() == []


def test_when_each_snapshot_was_asked_for_is_noted(tmp_path, monkeypatch):
    clock = SimpleNamespace(monotonic=iter([100.0, 100.0015, 102.0]).__next__)
    monkeypatch.setattr(reloading, "time", clock)
    done = carried_out(Reloading(tmp_path), way="import", change="same")
    assert done.value["snapshots"] == {"n1": 0.001, "n2": 2.0}
    clock.monotonic = lambda: 0.0
    failed = carried_out(Reloading(tmp_path / "again", fails=[("snapshot", "n1")]), way="import", change="same")
    assert list(failed.value["snapshots"]) == ["n1"]


@pytest.mark.parametrize(("change", "f"), [("add", "add-column"), ("drop", "drop-column")])
def test_the_new_table_may_have_a_column_more_or_less(tmp_path, change, f):
    cluster = Reloading(tmp_path)
    assert carried_out(cluster, way="import", change=change).type == "ok"
    assert cluster.changes == ["drop-table", "create-table", f]


def test_a_table_without_rows_on_a_node_has_nothing_to_take_up_there(tmp_path):
    cluster = Reloading(tmp_path, empty=("n1",))
    assert carried_out(cluster, way="refresh", change="same").type == "ok"
    assert cluster.verbs[2:] == [("refresh", "n2")]


@pytest.mark.parametrize(
    ("fails", "answers", "outcome", "changes"),
    [
        ([("snapshot", "n2")], [], "fail", 0),
        ([], ["fail"], "fail", 1),
        ([], ["info", "info", "info"], "info", 3),
        ([], ["unreachable", "ok", "ok"], "ok", 3),
        ([], ["ok", "fail"], "info", 2),
        ([("import", "n1")], [], "info", 2),
    ],
)
def test_it_is_refused_only_while_the_table_was_certainly_not_dropped(tmp_path, fails, answers, outcome, changes):
    cluster = Reloading(tmp_path, fails=fails, answers=answers)
    done = carried_out(cluster, way="import", change="same")
    assert (done.type, len(cluster.changes)) == (outcome, changes)
    assert cluster.left() == []


def test_one_node_that_took_nothing_up_leaves_its_outcome_open_and_the_others_go_on(tmp_path):
    cluster = Reloading(tmp_path, fails=[("refresh", "n1")])
    done = carried_out(cluster, way="refresh", change="same")
    assert done.type == "info"
    assert [bool(cluster.taken[node]) for node in NODES] == [False, True]
    assert cluster.left() == []


def test_a_node_that_is_down_has_no_snapshot_and_nothing_is_dropped(tmp_path):
    cluster = Reloading(tmp_path)
    cluster.by_name["n2"].kill()
    assert carried_out(cluster, way="import", change="same").type == "fail"
    assert (cluster.verbs, cluster.changes) == ([], [])


def test_nothing_is_dropped_that_cannot_be_loaded_again(tmp_path):
    cluster = Reloading(tmp_path, lacks=("load",))
    done = carried_out(cluster, way="load", change="same")
    assert (done.type, done.error) == ("fail", "NotAsked: no load")
    assert (cluster.verbs, cluster.changes) == ([], [])
    assert carried_out(cluster, way="import", change="same").type == "ok"


def test_the_copy_belongs_to_the_servers_user_and_lies_beside_its_data(tmp_path):
    """`import` has the server take the files out of the copy, as the user that it is, on the disk that its data is on."""
    cluster = Reloading(tmp_path)
    carried_out(cluster, way="import", change="same")
    for node in NODES:
        copied = next(argv for argv in cluster.by_name[node].commands if "mkdir -p" in argv[2])
        assert copied[-2:] == [str(tmp_path / node / "schemaquake-reload"), str(tmp_path / node / "data")]
        assert 'chown -R "$(stat -c %u:%g "$1")"' in copied[2]


def test_no_table_is_dropped_that_its_workload_expects_to_stay():
    nemesis = load("nemeses", "reload-table")
    with pytest.raises(PlanError, match="reloaded-rows"):
        nemesis.schedule(replace(CONTEXT, workloads=("set",)), random=CONTEXT.random("x"))
    with pytest.raises(PlanError, match="way=copy"):
        planned(way="copy")
    with pytest.raises(PlanError, match="change=less"):
        planned(change="less")


def test_the_seed_draws_what_is_not_fixed():
    drawn = set()
    for seed in range(40):
        (operation,) = load("nemeses", "reload-table").schedule(CONTEXT, random=replace(CONTEXT, seed=seed).random("x"))
        drawn.add((operation.parameters["way"], operation.parameters["change"]))
    assert drawn == {(way, change) for way in ("refresh", "import") for change in ("same", "add", "drop")}
