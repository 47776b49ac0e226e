"""docs/publish_grid.py: several grids become one page, without the folders in which they lay."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
import pytest
from grids import NEW, OLD, finished, grid_plan

from schemaquake.results.grid.folder import GridFolder
from schemaquake.results.grid.plan import Batch

_SCRIPT = Path(__file__).parents[2] / "docs" / "publish_grid.py"
CELLS = ("create-table/create-table/same-table",)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("publish_grid", _SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "_DOCS", tmp_path)
    return module


def made(place: Path, system: str, *broken: str) -> GridFolder:
    folder = GridFolder.create(
        place, grid_plan(systems=(system,), command=f"schemaquake grid --runs {place} --system {system}"), {}
    )
    batch = Batch(system=system, mode="barrier", cells=CELLS, turn=0, number=0)
    folder.append(finished(batch, {CELLS[0]: broken}))
    return folder


def test_grids_of_two_systems_are_one_page_and_what_stands_above_stays(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "grids.md").write_text("# Ours\n\nWords.\n")
    folders = [made(tmp_path / "a", OLD, "lost-rows"), made(tmp_path / "b", NEW)]
    for _ in range(2):
        script.publish(folders)
    page = (tmp_path / "grids.md").read_text()
    assert page.startswith("# Ours\n\nWords.\n")
    assert page.count("written by docs/publish_grid.py") == page.count("## How much broke") == 1
    assert "- `create-table/create-table/same-table`, barrier: 0/1" in page, "it broke on the earlier one alone"
    assert str(tmp_path) not in page
    assert str(tmp_path) not in (tmp_path / "grids" / "grid.html").read_text()
    rows = pq.read_table(tmp_path / "grids" / "cells.parquet").to_pylist()
    assert {(row["system"], row["state"]) for row in rows} == {(OLD, "broke"), (NEW, "held")}
