"""Scenarios of the findings: files that run as the page says."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from pages import ROOT

from schemaquake.workloads.races.scenario_file import ScenarioFile

FILES = sorted((ROOT / "docs" / "scenarios").glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_scenario_can_be_read_and_stands_on_the_page_of_findings(path: Path) -> None:
    scenario = ScenarioFile.from_json(orjson.loads(path.read_bytes()))
    assert all(race.sides[0] for race in scenario.races)
    assert f"-O scenario=docs/scenarios/{path.name}" in (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")


def test_clients_of_own_keyspaces_never_meet() -> None:
    scenario = ScenarioFile.from_json(orjson.loads((ROOT / "docs" / "scenarios" / "own-keyspaces.json").read_bytes()))
    assert all(len([side for side in race.sides if side]) == 1 for race in scenario.races), "one client a keyspace"
    assert sorted(race.number for race in scenario.races) == list(range(6)), "each coordinator has two of them"
