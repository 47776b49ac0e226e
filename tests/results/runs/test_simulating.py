"""`schemaquake simulate`: a line for each run that begins and ends, then the answer; every step with -v."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import schemaquake

ARGUMENTS = ("simulate", "--workload", "create-table", "-O", "races=1", "--time-limit", "5")


def lines_before_the_table(*more: str, runs: Path) -> list[str]:
    printed = schemaquake(*ARGUMENTS, "--runs", runs, *more).stderr
    return printed.partition("┏")[0].splitlines()


def test_the_answer_comes_after_a_line_for_each_run_that_begins_and_ends(tmp_path: Path) -> None:
    lines = lines_before_the_table(runs=tmp_path)
    systems = ("simulated:cassandra-5.0", "simulated:cassandra-6.0")
    assert [line for line in lines if line.endswith("create-table, seed 1")] == [
        f"{system}: create-table, seed 1" for system in systems
    ]
    ends = {line for line in lines if line.endswith((" finding", " findings"))}
    assert {line.partition(": ")[0] for line in ends} == set(systems)
    assert len(lines) == 4


@pytest.mark.long
def test_every_step_has_a_line_if_it_is_asked_for(tmp_path: Path) -> None:
    lines = lines_before_the_table("-v", runs=tmp_path)
    assert sum("phase done" in line for line in lines) >= 10
    assert not any(line.endswith("seed 1") and not line.startswith("[") for line in lines)
