"""`schemaquake simulate`: a line for each run that begins and ends, then the answer; every step with -v."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
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


def test_what_the_readme_says_of_the_first_command_is_what_it_prints_and_nothing_is_left_open(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    said = " ".join(readme.partition("schemaquake simulate\n…\n")[2].partition("\npage:")[0].split())
    assert re.search(r"9 of 11 kinds .* none of 11 kinds", said)
    printed = schemaquake("simulate", "--runs", tmp_path).stderr
    assert said in " ".join(printed.split())
    assert "not decided" not in printed
    page = next(path for path in tmp_path.glob("*-comparison.html") if not path.is_symlink()).read_text(
        encoding="utf-8"
    )
    assert "seen in virtual time" in page
    assert "2000-01-01" not in page
    verdicts = [orjson.loads(path.read_bytes()) for path in sorted(tmp_path.glob("*/verdict.json"))]
    assert {verdict["valid"] for verdict in verdicts} == {True, False}
    new = [finding["id"] for verdict in verdicts for finding in verdict["findings"] if finding["known"] is None]
    # Two follow from the races; no entry of the catalogue is for them alone.
    assert new == ["SQ-DROJ3SPU", "SQ-YNSJQIOW"]
