"""Every racing workload finds its bug on a version that has it, and stays quiet on one that has not.

One run of all of them on each of two systems, as `schemaquake demo` does it, judged by every checker.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command import OF_CREATE_TABLE, PATIENCE
from command import schemaquake as command

from schemaquake.results.report.from_store import material_of
from schemaquake.results.report.material import Race, races_of
from schemaquake.results.store.store import Store

pytestmark = pytest.mark.cluster

AFFECTED = "cassandra:5.0.9"
FIXED = "cassandra:6.0-alpha2"
FEW = ("create-table", "drop-type")
"""Kinds of races of which each breaks 5.0.9 nearly every time."""

SYMPTOMS: Mapping[str, frozenset[str]] = {
    "create-table": OF_CREATE_TABLE,
    "drop-type": frozenset({"dangling-type"}),
    "drop-function": frozenset({"dangling-function"}),
    "drop-table-view": frozenset({"orphan-view"}),
    "drop-alter": frozenset({"headless-table", "bad-primary-key"}),
    "drop-keyspace": frozenset({"resurrected-object"}),
    "alter-options": frozenset({"lost-option"}),
    "alter-type": frozenset({"lost-field"}),
}
"""What the bug catalogue says one of these races leaves behind on 5.0; any one of the set will do."""


def schemaquake(*arguments: str, runs: Path, expected: int | None) -> dict[str, Any]:
    """The command as a user gives it; its one JSON document. `expected` is the exit code, None for any verdict's."""
    patience = PATIENCE if arguments[0] == "run" else ()
    allowed = (0, 1, 2) if expected is None else (expected,)
    done = command(*arguments, *patience, "--runs", runs, "--json", expected=allowed)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def raced(runs: Path) -> Any:
    """system → the document of one run of a few races, or of every race, made once and only if asked for."""

    @cache
    def run(system: str, expected: int | None, *, every: bool = False) -> dict[str, Any]:
        # A few races on the version that holds: its restarts are among the long cases.
        restart = "none" if system == FIXED and not every else "together"
        races = ["--races", "4"] if every else ["--races", "2", "-O", f"only={','.join(FEW)}"]
        return schemaquake(
            "run", "--system", system, "--workload", "racing-ddl", *races, "--seed", "1",
            "--restart", restart, "--settle-limit", "10",
            runs=runs, expected=expected,
        )  # fmt: skip

    return run


def broken(document: Mapping[str, Any]) -> dict[str, list[Race]]:
    races = races_of(material_of(Store(Path(document["run"]))).races)
    return {
        workload: [race for race in races if race.workload == workload and race.broken]
        for workload in {race.workload for race in races}
    }


def test_5_0_9_is_invalid_and_a_node_does_not_start_again(raced: Any, runs: Path) -> None:
    """Two races of a kind may leave all nodes able to start: then there are more that meet DROP TYPE, on a cluster of their own."""
    document = raced(AFFECTED, 1)
    assert document["valid"] is False
    types = {anomaly["type"] for anomaly in document["anomalies"]}
    assert "non-linearizable-ddl" in types
    if "node-will-not-start" not in types:
        more = schemaquake(
            "run", "--system", AFFECTED, "--workload", "drop-type", "--races", "8", "--seed", "2", "--restart", "together",
            "--settle-limit", "10", runs=runs, expected=1,
        )  # fmt: skip
        assert "node-will-not-start" in {anomaly["type"] for anomaly in more["anomalies"]}


@pytest.mark.long
@pytest.mark.parametrize("workload", sorted(SYMPTOMS))
def test_5_0_9_shows_the_symptom_of_the_catalogue(raced: Any, runs: Path, workload: str) -> None:
    """Four races may all go well: then there are more of that kind, on a cluster of their own."""
    if SYMPTOMS[workload] & _anomalies(broken(raced(AFFECTED, 1, every=True))[workload]):
        return
    more = schemaquake(
        "run", "--system", AFFECTED, "--workload", workload, "--races", "16", "--seed", "2", "--restart", "none",
        "--settle-limit", "10", runs=runs, expected=1,
    )  # fmt: skip
    assert SYMPTOMS[workload] & _anomalies(broken(more)[workload])


def _anomalies(races: list[Race]) -> set[str]:
    return {name for race in races for name in race.anomalies}


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)], ids=["few", "every"])
def test_6_0_alpha2_refuses_what_broke_5_0_9(raced: Any, every: bool) -> None:
    document = raced(FIXED, None, every=every)
    unexplained = [anomaly for anomaly in document["anomalies"] if not _known_in_alpha2(anomaly)]
    assert unexplained == []
    kinds = {workload for workload, races in broken(document).items() if races}
    assert kinds <= {"create-index"}


def _known_in_alpha2(anomaly: Mapping[str, Any]) -> bool:
    """What docs/findings.md tells of 6.0-alpha2: a write that meets ALTER … DROP, and a DROP FUNCTION that meets a race."""
    objects = anomaly["objects"]
    if objects and all("_create_index_" in name for name in objects):
        return anomaly["type"] in {"unreadable-table", "unwritable-table", "lost-rows"}
    return anomaly["type"] == "unexpected-log-error" and anomaly["evidence"]["rule"] == "unexpected-exception"


def test_the_verdict_can_be_derived_again_from_the_stored_files_alone(raced: Any, runs: Path) -> None:
    first = raced(AFFECTED, 1)
    again = schemaquake_check(Path(first["run"]))
    assert again["valid"] is False
    assert [a["type"] for a in again["anomalies"]] == [a["type"] for a in first["anomalies"]]
    assert runs.exists()


def schemaquake_check(run: Path) -> dict[str, Any]:
    finished = subprocess.run(
        [sys.executable, "-m", "schemaquake.harness.cli.command_line", "check", str(run), "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert finished.returncode == 1, finished.stderr[-2000:]
    document: dict[str, Any] = json.loads(finished.stdout)
    return document


@pytest.mark.long
def test_across_a_cut_5_0_9_breaks_every_time_and_6_0_refuses_the_minority(runs: Path) -> None:
    arguments = ("--workload", "drop-type,drop-keyspace", "--races", "4", "--mode", "partition", "--restart", "none")
    affected = schemaquake("run", "--system", AFFECTED, *arguments, runs=runs, expected=1)
    assert {"dangling-type", "resurrected-object"} <= {anomaly["type"] for anomaly in affected["anomalies"]}
    fixed = schemaquake("run", "--system", FIXED, *arguments, runs=runs, expected=0)
    assert fixed["valid"] is True
