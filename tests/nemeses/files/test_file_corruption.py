"""File corruption: one bit of a file of users flips, and flips back, whoever is left to do it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from file_nodes import FileCluster

from schemaquake.clusters.local.provider import LocalProvider
from schemaquake.harness.errors import ClusterError, PlanError
from schemaquake.harness.model.context import Context
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import OwnLack
from schemaquake.harness.registry import load
from schemaquake.harness.sealed_json import dump_sealed

CONTEXT = Context(seed=3, nodes=("n1", "n2", "n3"), time_limit_s=100)
ROWS = bytes(range(256)) * 4


def planned(seed=3, **options):
    nemesis = load("nemeses", "file-corruption")
    given = {f"file-corruption.{name}": text for name, text in options.items()}
    context = replace(CONTEXT, seed=seed, options=given)
    return nemesis, nemesis.schedule(context, random=context.random("nemesis", "file-corruption"))


@pytest.fixture
def cluster(tmp_path):
    made = FileCluster(tmp_path / "nodes")
    for name in made.by_name:
        table = tmp_path / "nodes" / name / "data" / "sq_set" / "t-1"
        table.mkdir(parents=True)
        (table / "oa-1-big-Data.db").write_bytes(ROWS)
        for other in ("snapshots/s/oa-1-big-Data.db", "backups/oa-2-big-Data.db", "oa-1-big-Index.db"):
            (table / other).parent.mkdir(parents=True, exist_ok=True)
            (table / other).write_bytes(ROWS)
        system = tmp_path / "nodes" / name / "data" / "system" / "local-1"
        system.mkdir(parents=True)
        (system / "oa-1-big-Data.db").write_bytes(ROWS)
        (tmp_path / "nodes" / name / "commitlog" / "CommitLog-7-1.log").write_bytes(b"head" + ROWS + bytes(4096))
        (tmp_path / "nodes" / name / "commitlog" / "CommitLog-7-2.log").write_bytes(bytes(4096))
        (tmp_path / "nodes" / name / "commitlog" / "CommitLog-7-3.log").write_bytes(b"a header, no more" + bytes(4096))
    return made


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("kind", ["sstable", "commitlog"])
def test_one_bit_of_one_file_of_users_flips_and_flips_back(cluster, kind):
    before = contents(cluster.folder)
    nemesis, faults = planned(kinds=kind)
    assert isinstance(nemesis, OwnLack)
    for fault in faults:
        effect = nemesis.inject(cluster, fault)
        (name,) = fault.nodes
        damaged = effect["nodes"][name]
        path, offset = Path(damaged["file"]), damaged["offset"]
        assert damaged["kind"] == kind
        assert path.name == ("oa-1-big-Data.db" if kind == "sstable" else "CommitLog-7-1.log")
        assert "system" not in path.parts
        now = path.read_bytes()
        differing = [at for at, (one, other) in enumerate(zip(before[path], now, strict=True)) if one != other]
        assert differing == [offset]
        assert (before[path][offset], now[offset]) == (damaged["before"], damaged["after"])
        assert (damaged["before"] ^ damaged["after"]).bit_count() == 1
        assert cluster.by_name[name].started == 1, "the server reads it when it starts"
        healed = nemesis.heal(cluster, fault)
        assert (healed["observed"], healed["restored"]) == (True, {name: "restored"})
        assert contents(cluster.folder) == before
        assert nemesis.heal(cluster, fault)["restored"] == {name: "none"}, "healing may be repeated"
        cluster.by_name[name].started = 0


@pytest.mark.parametrize("kind", ["sstable", "commitlog"])
def test_a_guard_flips_it_back_by_its_commands_alone_before_the_fault_after_it_and_twice(cluster, kind):
    before = contents(cluster.folder)
    nemesis, (fault, *_) = planned(kinds=kind)
    ((name, undo),) = nemesis.undo(cluster, fault).items()
    assert [each.verb for each in undo] == [None, "resume", "start"]

    def guard():
        return subprocess.run(undo[0].argv, capture_output=True, text=True, check=True).stdout.strip()

    assert guard() == "none"
    nemesis.inject(cluster, fault)
    assert contents(cluster.folder) != before
    assert [guard(), guard()] == ["restored", "none"]
    assert contents(cluster.folder) == before
    assert nemesis.heal(cluster, fault)["restored"] == {name: "none"}


def test_rows_are_flushed_before_so_that_there_is_a_file(cluster):
    nemesis, (fault, *_) = planned(kinds="sstable")
    nemesis.inject(cluster, fault)
    assert cluster.asked == [("flush", fault.nodes[0], None)]
    nemesis.heal(cluster, fault)


def test_a_commit_log_is_damaged_before_anything_empties_it(cluster):
    nemesis, (fault, *_) = planned(kinds="commitlog")
    nemesis.inject(cluster, fault)
    assert cluster.asked == []


def test_where_there_is_no_file_of_the_kind_the_other_is_damaged(cluster):
    nemesis, (fault, *_) = planned(kinds="sstable")
    (name,) = fault.nodes
    for path in (cluster.folder / name / "data").rglob("*"):
        if path.is_file():
            path.unlink()
    assert nemesis.inject(cluster, fault)["nodes"][name]["kind"] == "commitlog"
    nemesis.heal(cluster, fault)
    for path in (cluster.folder / name / "commitlog").iterdir():
        path.unlink()
    with pytest.raises(ClusterError, match="no file"):
        nemesis.inject(cluster, fault)
    assert nemesis.heal(cluster, fault)["restored"] == {name: "none"}
    assert cluster.by_name[name].state() == "running"


def test_what_the_server_has_rewritten_or_deleted_is_left_alone(cluster):
    nemesis, (fault, *_) = planned(kinds="sstable")
    (name,) = fault.nodes
    path = Path(nemesis.inject(cluster, fault)["nodes"][name]["file"])
    rewritten = bytes((byte + 128) % 256 for byte in path.read_bytes())
    path.write_bytes(rewritten)
    assert nemesis.heal(cluster, fault)["restored"] == {name: "rewritten"}
    assert path.read_bytes() == rewritten
    path.write_bytes(ROWS)
    path = Path(nemesis.inject(cluster, fault)["nodes"][name]["file"])
    path.unlink()
    assert nemesis.heal(cluster, fault)["restored"] == {name: "gone"}
    assert not path.exists()


def test_the_seed_draws_file_byte_and_bit(cluster):
    _, faults = planned()
    assert planned()[1] == faults
    drawn = [fault.parameters for seed in range(20) for fault in planned(seed=seed)[1]]
    assert {one["kind"] for one in drawn} == {"sstable", "commitlog"}
    assert {one["bit"] for one in drawn} == set(range(8))
    with pytest.raises(PlanError):
        planned(kinds="music")


def test_files_that_are_not_the_runs_own_are_never_damaged(cluster):
    nemesis, _ = planned()
    assert nemesis.missing(cluster) is None
    assert nemesis.missing(object()) is not None


DAMAGE = """
import sys, time
from pathlib import Path
from file_nodes import FileCluster
from schemaquake.harness.model.context import Context
from schemaquake.harness.registry import load

class There(FileCluster):
    def __init__(self, folder):
        self.folder, self.volumes, self.asked, self.lacks = folder, False, [], frozenset()
        from file_nodes import FileNode
        from collections import deque
        self.answers = deque()
        self.nodes = [FileNode("n1")]
        self.by_name = {"n1": self.nodes[0]}

nemesis = load("nemeses", "file-corruption")
context = Context(seed=3, nodes=("n1",), time_limit_s=100)
fault = nemesis.schedule(context, random=context.random("x"))[0]
print(nemesis.inject(There(Path(sys.argv[1])), fault)["nodes"]["n1"]["file"], flush=True)
sys.stdin.read()
"""


def test_a_harness_that_is_killed_in_the_middle_leaves_a_record_by_which_heal_restores(cluster, tmp_path):
    folder = cluster.folder.parent
    plan = Plan(system="cassandra:5.0.9", workloads=("set",), keep_data=True)
    (folder / "plan.json").write_bytes(dump_sealed(plan.to_json()))
    before = contents(cluster.folder)
    harness = subprocess.Popen(
        [sys.executable, "-c", DAMAGE, str(cluster.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert harness.stdout is not None
        damaged = Path(harness.stdout.readline().strip())
        assert damaged.read_bytes() != before[damaged]
    finally:
        harness.send_signal(signal.SIGKILL)
        harness.communicate(timeout=120)
    (said,) = LocalProvider().heal(folder)
    assert damaged.name in said
    assert contents(cluster.folder) == before
    assert LocalProvider().heal(folder) == []


@pytest.mark.parametrize(
    "record", ["", "3 1", "3 one 2 {path}", "3 300 2 {path}", "99999 1 2 {path}", "0 1 0 /etc/hostname"]
)
def test_a_record_that_is_not_whole_or_names_something_else_changes_nothing(cluster, record):
    folder = cluster.folder.parent
    plan = Plan(system="cassandra:5.0.9", workloads=("set",), keep_data=True)
    (folder / "plan.json").write_bytes(dump_sealed(plan.to_json()))
    path = cluster.folder / "n1" / "commitlog" / "CommitLog-7-2.log"
    before = contents(cluster.folder)
    (cluster.folder / "n1" / "damage-0").write_text(record.format(path=path))
    assert LocalProvider().heal(folder) == []
    assert contents(cluster.folder) == before
