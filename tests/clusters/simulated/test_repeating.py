"""One seed, one run: in two processes with different hash seeds, byte for byte."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

import orjson
import pytest
from simulated_runs import FIVE, SIX, carry_out, plan_of

from schemaquake.clusters.simulated.provider import SimulatedProvider
from schemaquake.harness.model.plan import Plan

FILES = ("journals/*", "nodes/*/*", "ledger.jsonl", "simulation.json")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for names in FILES for p in sorted(folder.glob(names))}


def in_another_process(plan, folder: Path, hash_seed: str) -> dict[str, bytes]:
    folder.mkdir()
    (folder / "plan.json").write_bytes(orjson.dumps(plan.to_json()))
    subprocess.run(
        [sys.executable, "-m", "schemaquake.harness.run.conductor", str(folder)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
    )
    return contents(folder)


def test_a_seed_gives_the_same_bytes_under_any_hash_seed(tmp_path):
    plan = plan_of("racing-ddl,quorum", "partition", "clock", seed=11, options={"races": "1"}, time_limit_s=20)
    runs = [in_another_process(plan, tmp_path / seed, seed) for seed in ("0", "1")]
    assert "journals/observations-observer.jsonl" in runs[0]
    assert "nodes/n3/system-1.log" in runs[0]
    differing = [name for name in runs[0] if runs[0][name] != runs[1].get(name)]
    assert (differing, runs[0].keys() ^ runs[1].keys()) == ([], set())


@pytest.mark.parametrize(
    ("system", "nemesis", "spares"),
    [
        (SIX, "cancel-sequence", 0),
        (SIX, "abort-bootstrap", 1),
        pytest.param(FIVE, "abort-bootstrap", 1, marks=pytest.mark.long),
    ],
)
def test_a_change_that_is_cancelled_gives_the_same_bytes_under_any_hash_seed(tmp_path, system, nemesis, spares):
    plan = plan_of("quorum", nemesis, system=system, seed=2, nodes=4, spares=spares, rate=20, time_limit_s=20)
    runs = [in_another_process(plan, tmp_path / seed, seed) for seed in ("0", "1")]
    differing = [name for name in runs[0] if runs[0][name] != runs[1].get(name)]
    assert (differing, runs[0].keys() ^ runs[1].keys()) == ([], set())
    assert nemesis.encode() in runs[0]["journals/events-conductor.jsonl"]


@pytest.mark.parametrize("nemesis", ["kill", "pause", "packet-loss", "rolling-restart"])
def test_faults_repeat_too(tmp_path, nemesis):
    plan = plan_of("schema-churn,quorum", nemesis, seed=5, time_limit_s=30, rate=20)
    first, second = (contents(carry_out(plan, tmp_path / name)) for name in ("a", "b"))
    assert first == second


def test_another_seed_is_another_run(tmp_path):
    runs = [contents(carry_out(plan_of("drop-type", seed=seed), tmp_path / str(seed))) for seed in (1, 2)]
    assert runs[0] != runs[1]


class Forever:
    """A wait that nothing ends and nothing in the heap remembers."""

    def begin(self, process):
        return False


def test_nothing_happens_when_the_processes_of_a_killed_server_are_collected(tmp_path):
    def wait():
        yield Forever()

    plan = Plan(system="simulated:cassandra-6.0", workloads=("schema-churn",), cluster="simulated")
    provider = SimulatedProvider()
    runtime = provider.runtime(plan)
    cluster = provider.create(plan, tmp_path)
    with runtime.waiting():
        cluster.start()
    node = cluster.nodes[0]
    for name in ("first", "second"):
        node.server.begin(name, node.server.staged("stage", wait()))
    server = weakref.ref(node.server)
    gc.disable()
    try:
        node.kill()
        runtime.sleep(30)
        scheduled = runtime.heap.scheduled
        assert server() is not None
    finally:
        gc.enable()
    gc.collect()
    assert server() is None
    assert runtime.heap.scheduled == scheduled
