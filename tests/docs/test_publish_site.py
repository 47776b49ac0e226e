"""docs/publish_site.py: what the project recorded can be read, has no path of one machine, and becomes a site."""

from __future__ import annotations

import importlib.util
import runpy
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from bundles import RUN, judged_run

from schemaquake.harness.errors import HistoryError
from schemaquake.harness.sealed_json import dump_sealed, load_sealed
from schemaquake.results.store.store import Store
from schemaquake.results.summary.summarise import read_summary

_SCRIPT = Path(__file__).parents[2] / "docs" / "publish_site.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("publish_site", _SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["publish_site"] = module
    spec.loader.exec_module(module)
    return module


def test_what_is_recorded_can_be_read_and_is_small(script, tmp_path):
    assert script.RECORDED.stat().st_size < 2_000_000
    with zipfile.ZipFile(script.RECORDED) as archive:
        archive.extractall(tmp_path)
    runs = sorted(path.parent for path in tmp_path.glob("runs/*/summary.json"))
    summaries = [read_summary(Store(run)) for run in runs]
    assert {summary.cluster for summary in summaries} == {"local"}
    assert sum(bool(summary.findings) for summary in summaries) >= 5


def test_runs_are_recorded_without_places_and_become_a_site(script, tmp_path):
    run = judged_run(tmp_path / "runs" / RUN)
    summary = load_sealed((run / "summary.json").read_bytes())
    assert script.record([tmp_path / "runs"], [], tmp_path / "none.zip") == [], (
        "a simulated run is not the project's record"
    )
    (run / "summary.json").write_bytes(dump_sealed(summary | {"cluster": "local"}))
    other = tmp_path / "runs" / "other"
    other.mkdir()
    for name in ("plan.json", "summary.json"):
        (other / name).write_bytes((run / name).read_bytes())
    (other / "summary.json").write_bytes(dump_sealed(summary | {"cluster": "local", "run": "other"}))
    assert script.record([tmp_path / "runs"], [run], tmp_path / "one.zip") == [RUN, "other"]
    script.record([tmp_path / "runs"], [run], tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    published = script.build(tmp_path / "site", tmp_path / "one.zip")
    assert (published.runs, published.unread) == (2, [])
    assert (tmp_path / "site" / "reports" / f"{RUN}.html").is_file()
    (other / "summary.json").write_bytes(dump_sealed(summary | {"cluster": "local", "error": "no /home/somebody/x"}))
    with pytest.raises(HistoryError, match=r"other/summary\.json has a path"):
        script.record([tmp_path / "runs"], [run], tmp_path / "three.zip")


def test_every_page_is_in_the_list_of_the_docs_site():
    names = runpy.run_path(str(_SCRIPT.parent / "sphinx" / "conf.py"))
    listed = [page for pages in names["PAGES"].values() for page in pages]
    written = {path.stem for path in _SCRIPT.parent.glob("*.md")}
    assert {*listed} <= written
    source = ["[code](../results/site) and [page](corpus.md) and [main](../README.md)"]
    names["prepare"](None, "docs/publish", source)
    assert source == ["code and [page](corpus.md) and [main](../README.md)"]
    names["prepare"](None, names["root_doc"], source)
    assert all(source[0].count(f"docs/{page}\n") == 1 for page in written)
