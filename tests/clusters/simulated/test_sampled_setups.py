"""Sampled setups: when the observer begins to look."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from simulated_runs import carry_out, plan_of


@pytest.mark.parametrize(("workload", "from_the_start"), [("grid", False), ("create-table", True)])
def test_a_setup_in_which_nothing_races_is_sampled_unless_the_workload_declares_it_long(
    tmp_path: Path, workload: str, *, from_the_start: bool
) -> None:
    options = {"races": "1"} | (
        {"cells": "create-type/drop-type/*,add-column/*/same-column"} if workload == "grid" else {}
    )
    journals = carry_out(plan_of(workload, options=options), tmp_path / "run") / "journals"
    changes = [
        event["time"]
        for path in journals.glob("events-*.jsonl")
        for event in map(orjson.loads, path.read_bytes().splitlines())
        if event["f"].startswith(("create-", "add-")) and event["type"] == "ok"
    ]
    samples = [
        row["time"]
        for row in map(orjson.loads, (journals / "observations-observer.jsonl").read_bytes().splitlines())
        if row["phase"] == "running"
    ]
    assert samples, "the races themselves are always sampled"
    assert (min(samples) < min(changes)) is from_the_start
