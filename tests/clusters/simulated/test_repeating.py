"""One seed, one run: in two processes with different hash seeds, byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from simulated_runs import carry_out, plan_of

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


@pytest.mark.parametrize("nemesis", ["kill", "pause", "packet-loss", "rolling-restart"])
def test_faults_repeat_too(tmp_path, nemesis):
    plan = plan_of("schema-churn,quorum", nemesis, seed=5, time_limit_s=30, rate=20)
    first, second = (contents(carry_out(plan, tmp_path / name)) for name in ("a", "b"))
    assert first == second


def test_another_seed_is_another_run(tmp_path):
    runs = [contents(carry_out(plan_of("drop-type", seed=seed), tmp_path / str(seed))) for seed in (1, 2)]
    assert runs[0] != runs[1]
