"""docs/publish_matrix.py: a matrix becomes a page of its own name, without the folder in which it lay."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import orjson
import pyarrow as pa
import pytest
from matrices import matrix

from schemaquake.harness.model.plan import Plan
from schemaquake.results.matrix.recorded import RUNS
from schemaquake.results.matrix.tables import ALL_RACES
from schemaquake.results.store.store import read_table, write_table

_SCRIPT = Path(__file__).parents[2] / "docs" / "publish_matrix.py"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("publish_matrix", _SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "_DOCS", tmp_path / "docs")
    (tmp_path / "docs").mkdir()
    return module


def test_what_stands_above_stays_and_each_name_has_pages_of_its_own(script: ModuleType, tmp_path: Path) -> None:
    folder = _make_folder(tmp_path, f"schemaquake matrix --topology --runs {tmp_path}/runs")
    _write_runs(folder, "runs/new", lines=f"{folder}/runs/new/system.log")
    for name in ("matrix", "topology-matrix"):
        (tmp_path / "docs" / f"{name}.md").write_text(f"# Ours\n\n{name} in words.\n\n")
    script.publish(folder)
    for _ in range(2):
        script.publish(folder, "topology-matrix", "Nodes come and go")
    page = (tmp_path / "docs" / "topology-matrix.md").read_text()
    assert page.startswith("# Ours\n\ntopology-matrix in words.\n")
    assert page.count("written by docs/publish_matrix.py") == page.count("# Nodes come and go") == 1
    assert "# Fifteen years, one matrix" in (tmp_path / "docs" / "matrix.md").read_text()
    written = tmp_path / "docs" / "topology-matrix"
    assert sorted(path.name for path in written.iterdir()) == [
        "cells.parquet",
        "matrix.html",
        "races.parquet",
        "runs.parquet",
    ]
    assert read_table(written / "runs.parquet", RUNS)["facts"].to_pylist() == ["runs/new/system.log"]
    assert str(tmp_path) not in page
    assert str(tmp_path) not in (written / "matrix.html").read_text()


def test_races_of_runs_that_a_matrix_began_with_stay(script: ModuleType, tmp_path: Path) -> None:
    folder = _make_folder(tmp_path, "schemaquake matrix")
    (tmp_path / "docs" / "matrix.md").write_text("# Ours\n\n")
    for runs in (("a", "b"), ("b", "c"), ("b", "c")):
        # The folder has the last run alone: the others were begun with.
        _write_runs(folder, *runs, raced=runs[-1:])
        script.publish(folder)
    assert read_table(tmp_path / "docs" / "matrix" / "races.parquet", ALL_RACES)["run"].to_pylist() == ["b", "c"]


def test_of_races_that_are_nowhere_else_there_is_what_their_runs_tell(script: ModuleType, tmp_path: Path) -> None:
    folder = _make_folder(tmp_path, "schemaquake matrix")
    (tmp_path / "docs" / "matrix.md").write_text("# Ours\n\n")
    told = [
        {"keyspace": f"sq_drop_type_{number:03}", "workload": "drop-type", "number": number, "acknowledged": number + 7}
        | {"anomalies": ["dangling-type"] if number == 4 else [], "doubts": []}
        for number in (3, 4)
    ]
    _write_runs(folder, "a", "b", raced=("b",), lines=orjson.dumps({"races": told}).decode())
    script.publish(folder)
    rows = read_table(tmp_path / "docs" / "matrix" / "races.parquet", ALL_RACES).to_pylist()
    assert [(row["run"], row["number"], row["broken"], row["ok"], row["variant"]) for row in rows] == [
        ("a", 3, False, 10, "table"),
        ("a", 4, True, 11, "column"),
        ("b", None, None, None, None),
    ]
    assert (rows[1]["mode"], rows[1]["seed"], rows[1]["anomalies"]) == ("single", 5, ["dangling-type"])
    assert (rows[1]["sides"], rows[1]["fail"], rows[1]["info"]) == (None, None, None)


def _make_folder(tmp_path: Path, command: str) -> Path:
    """Make the folder of a matrix that this command began, without its runs."""
    folder = tmp_path / "runs" / "m"
    folder.mkdir(parents=True)
    (folder / "tally.json").write_bytes(orjson.dumps(matrix(command=command).to_json()))
    (folder / "cells.parquet").write_bytes(b"cells")
    return folder


def _write_runs(folder: Path, *runs: str, raced: tuple[str, ...] | None = None, lines: str = '{"races": []}') -> None:
    """Write the tables of a matrix with these runs, one race in each of `raced`."""
    plan = Plan(system="cassandra:5.0.9", workloads=("drop-type",), seed=5, options={"mode": "single"})
    of_all = {"system": plan.system, "unit": "{}", "plan": orjson.dumps(plan.to_json()).decode(), "facts": lines}
    units = [{**of_all, "run": run} for run in runs]
    write_table(folder / "runs.parquet", pa.Table.from_pylist(units, schema=RUNS))
    races = [{"system": "s", "run": run} for run in (runs if raced is None else raced)]
    write_table(folder / "races.parquet", pa.Table.from_pylist(races, schema=ALL_RACES))
