"""Waiting that ends when nothing is under way any more loses nothing: whole runs on simulated clusters that differ for good, or for a while."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from schemaquake.clusters.simulated.cluster import SimulatedCluster
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.run.conductor import Conductor

QUIET_S = 13
"""What follows from the timers of 5.0 as servers are started here (`Recipe.quiet`); the simulated nodes have the same delays."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`run(seed, quiet_s=…)`: how waiting for agreement ended after the races, and all that nodes were read to have then and later."""

    def carry_out(seed: int, *, quiet_s: float, workload: str, **options: str) -> tuple[dict[str, Any], set[Any]]:
        monkeypatch.setattr(SimulatedCluster, "quiet_s", quiet_s, raising=False)
        folder = tmp_path / f"{quiet_s}"
        folder.mkdir()
        plan = Plan(
            system="simulated:cassandra-5.0",
            cluster="simulated",
            workloads=(workload,),
            options={"races": "2", **options},
            seed=seed,
            settle_limit_s=60,
            restart="together",
        )
        Conductor(plan, folder).run()
        rows = [
            orjson.loads(line)
            for path in (folder / "journals").glob("*.jsonl")
            for line in path.read_bytes().splitlines()
        ]
        settled = [_value(row) for row in rows if row.get("f") == "settle"]
        read = {
            (
                row["phase"],
                row["node"],
                row["kind"],
                row.get("keyspace"),
                row.get("name"),
                row.get("id"),
                str(row.get("definition")),
            )
            for row in rows
            if row.get("phase") in {"settled", "restarted"} and "kind" in row
        }
        (after_races,) = [note for note in settled if note["phase"] == "settled"]
        return after_races, read

    return carry_out


def _value(row: dict[str, Any]) -> dict[str, Any]:
    value: dict[str, Any] = orjson.loads(row["value"]) if isinstance(row["value"], str) else row["value"]
    return value


@pytest.mark.parametrize("seed", [3, 6])
def test_nodes_that_differ_for_good_are_read_as_after_a_minute(run: Any, seed: int) -> None:
    long, after_a_minute = run(seed, quiet_s=0, workload="racing-ddl", mode="partition")
    short, soon = run(seed, quiet_s=QUIET_S, workload="racing-ddl", mode="partition")
    assert (long["agreed"], short["agreed"]) == (False, False)
    assert long["seconds"] > 60
    assert QUIET_S <= short["quiet_s"] <= short["seconds"] < QUIET_S + 1
    assert len(soon) > 100
    assert soon == after_a_minute


def test_nodes_that_a_late_message_brings_together_are_waited_for(run: Any) -> None:
    """And a time that is shorter than their timers, which would not wait for it, is seen by these tests."""
    late = {"workload": "create-table", "mode": "partition", "slow": "n1-n3:2000"}
    long, after_a_minute = run(1, quiet_s=0, **late)
    short, soon = run(1, quiet_s=QUIET_S, **late)
    assert long["agreed"]
    assert long == short
    assert soon == after_a_minute
    too_short, too_soon = run(1, quiet_s=0.5, **late)
    assert not too_short["agreed"]
    assert too_soon != after_a_minute
