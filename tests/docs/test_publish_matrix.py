"""docs/publish_matrix.py: a matrix becomes a page of its own name, without the folder in which it lay."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import orjson
import pytest
from matrices import matrix

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
    folder = tmp_path / "runs" / "m"
    folder.mkdir(parents=True)
    one = matrix(command=f"schemaquake matrix --topology --runs {tmp_path}/runs")
    (folder / "tally.json").write_bytes(orjson.dumps(one.to_json()))
    for table in ("cells.parquet", "races.parquet"):
        (folder / table).write_bytes(table.encode())
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
    assert sorted(path.name for path in written.iterdir()) == ["cells.parquet", "matrix.html", "races.parquet"]
    assert str(tmp_path) not in page
    assert str(tmp_path) not in (written / "matrix.html").read_text()
