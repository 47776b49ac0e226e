"""Full and read-only disks, on real file systems in an enclosure of their own: felt by the server alone, and gone with the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from file_nodes import FileCluster

from schemaquake.clusters.local.namespaces import enclosure
from schemaquake.clusters.local.volumes import remove_volume
from schemaquake.harness.errors import ClusterError, EnvironmentLacks
from schemaquake.harness.model.context import Context
from schemaquake.harness.registry import load

CONTEXT = Context(seed=3, nodes=("n1", "n2", "n3"), time_limit_s=100)
KINDS = ("fill-disk", "read-only-disk")

INSIDE = """
import errno, json, sys
from pathlib import Path
from file_nodes import FileCluster
from schemaquake.clusters.local.volumes import make_volume, remove_volume
from schemaquake.harness.model.context import Context
from schemaquake.harness.registry import load

kind, folder, waits = sys.argv[1], Path(sys.argv[2]), sys.argv[3] == "waits"
cluster = FileCluster(folder, ("n1", "n2", "n3"), volumes=True)
for name in cluster.by_name:
    make_volume(folder / name, ["data", "commitlog"])
nemesis = load("nemeses", kind)
context = Context(seed=3, nodes=("n1", "n2", "n3"), time_limit_s=100)
fault = nemesis.schedule(context, random=context.random("x"))[0]
(hit,) = fault.nodes

def refusals():
    found = {}
    for name in cluster.by_name:
        for part in ("data", "commitlog"):
            path = folder / name / part / "rows"
            try:
                path.write_bytes(b"x" * 70000)
                path.unlink()
            except OSError as error:
                found[f"{name}/{part}"] = errno.errorcode[error.errno]
                path.unlink(missing_ok=True) if error.errno == errno.ENOSPC else None
    return found

before = refusals()
effect = nemesis.inject(cluster, fault)
if waits:
    print(json.dumps({"hit": hit}), flush=True)
    sys.stdin.read()
under = refusals()
healed = nemesis.heal(cluster, fault)
print(json.dumps({
    "hit": hit, "before": before, "under": under, "after": refusals(), "observed": [effect["observed"], healed["observed"]],
    "again": nemesis.heal(cluster, fault)["observed"], "state": cluster.by_name[hit].state(),
    "starts": cluster.by_name[hit].started}), flush=True)
for name in cluster.by_name:
    remove_volume(folder / name, ["data", "commitlog"])
assert not any(path.is_mount() for path in folder.rglob("*"))
"""


@pytest.fixture
def inside(tmp_path):
    """Begin a script in an enclosure; all of them end with the test."""
    begun = []

    def begin(kind, *, waits=False):
        try:
            prefix = enclosure()
        except EnvironmentLacks as reason:
            pytest.skip(str(reason))
        arguments = [kind, str(tmp_path / "nodes"), "waits" if waits else "goes on"]
        process = subprocess.Popen(
            [*prefix, sys.executable, "-c", INSIDE, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        begun.append(process)
        return process

    yield begin
    for process in begun:
        process.kill()
        process.communicate(timeout=120)


@pytest.mark.parametrize(("kind", "error", "starts"), [("fill-disk", "ENOSPC", 2), ("read-only-disk", "EROFS", 3)])
def test_a_disk_refuses_writes_on_its_node_alone_until_it_is_healed(inside, kind, error, starts):
    said, _ = inside(kind).communicate(timeout=300)
    found = json.loads(said)
    hit = found["hit"]
    assert (found["before"], found["after"]) == ({}, {})
    assert found["under"] == {f"{hit}/data": error, f"{hit}/commitlog": error}
    assert found["observed"] == [True, True]
    assert found["again"] is False, "there was nothing left to heal"
    assert (found["state"], found["starts"]) == ("running", starts)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_when_the_harness_is_killed_in_the_middle(inside, tmp_path, kind):
    process = inside(kind, waits=True)
    hit = json.loads(process.stdout.readline())["hit"]
    process.kill()
    process.communicate(timeout=120)
    place = tmp_path / "nodes" / hit
    assert not any(path.is_mount() for path in place.iterdir())
    assert [list(path.iterdir()) for path in place.iterdir()] == [[], [], []]
    (place / "data" / "rows").write_bytes(b"x" * 70000)
    remove_volume(place, ["data", "commitlog"])
    assert sorted(path.name for path in place.iterdir()) == ["commitlog", "data"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_that_others_use_is_never_touched(tmp_path, kind):
    nemesis = load("nemeses", kind)
    cluster = FileCluster(tmp_path / "nodes")
    (fault, *_) = nemesis.schedule(CONTEXT, random=CONTEXT.random("x"))
    with pytest.raises(ClusterError, match="of its own"):
        nemesis.inject(cluster, fault)
    assert all(node.commands == [] and node.state() == "running" for node in cluster.nodes)
    assert nemesis.missing(cluster) is None
    assert nemesis.missing(object()) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_faults_are_bounded_and_drawn_from_the_seed(kind):
    nemesis = load("nemeses", kind)
    faults = nemesis.schedule(CONTEXT, random=CONTEXT.random("x"))
    assert faults == nemesis.schedule(CONTEXT, random=CONTEXT.random("x"))
    assert all(0 < fault.begins_s < fault.ends_s < 100 and fault.ends_s - fault.begins_s <= 25 for fault in faults)
    options = {f"{kind}.targets": "all"}
    everywhere = nemesis.schedule(replace(CONTEXT, options=options), random=CONTEXT.random("x"))
    assert {frozenset(fault.nodes) for fault in everywhere} == {frozenset(CONTEXT.nodes)}
