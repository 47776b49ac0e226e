"""Inputs of a site: a bundle is verified and shown as the run that it has, one that was changed is named with the reason."""

from __future__ import annotations

import re
from dataclasses import replace

import orjson
from bundles import RUN, forged, judged_run
from grids import OLD, finished, grid_plan
from matrices import matrix

from schemaquake.harness.sealed_json import load_sealed
from schemaquake.results.bundle.bundling import bundle_run
from schemaquake.results.grid.folder import GridFolder
from schemaquake.results.grid.plan import Batch
from schemaquake.results.site.building import publish


def test_a_bundle_is_a_run_of_the_site_if_it_says_what_its_records_say(tmp_path):
    run = judged_run(tmp_path / "here" / RUN)
    (tmp_path / "runs").mkdir()
    bundle_run(run, to=tmp_path / "runs" / "one.sqz.zip")

    def edit(contents):
        document = load_sealed(contents["verdict.json"])
        document["anomalies"].pop(0)
        contents["verdict.json"] = orjson.dumps(document)

    forged(tmp_path / "runs" / "one.sqz.zip", tmp_path / "runs" / "two.sqz.zip", edit)
    published = publish([tmp_path / "runs"], tmp_path / "site")
    assert published.runs == 1
    ((name, reason),) = published.unread
    assert name == "two.sqz.zip"
    assert "does not verify: verdict" in reason
    pages = [path.read_text() for path in (tmp_path / "site" / "findings").glob("SQ-*.html")]
    assert any("Ticket" in page for page in pages), "its records give the text of a ticket"
    again = publish([tmp_path / "runs"], tmp_path / "site")
    assert (again.written, again.runs, len(again.unread)) == (0, 1, 1)


def test_matrices_and_grids_are_pages_that_lead_to_runs_and_findings_and_back(tmp_path):
    runs = tmp_path / "runs"
    judged_run(runs / RUN)
    one = matrix()
    broken = next(cell for cell in one.cells if cell.state == "broke" and cell.anomaly)
    told = replace(
        one, cells=tuple(replace(cell, runs=(f"runs/{RUN}",)) if cell is broken else cell for cell in one.cells)
    )
    folder = runs / "20261121T100211Z-matrix"
    folder.mkdir()
    (folder / "matrix.json").write_bytes(b"{}")
    (folder / "tally.json").write_bytes(orjson.dumps(told.to_json()))
    grid = GridFolder.create(runs, grid_plan(), {"cpu": "two cores"})
    batch = Batch(system=OLD, mode="barrier", cells=("create-type/create-type/same-type",), turn=0, number=0)
    grid.append(finished(batch, {"create-type/create-type/same-type": ["lost-column"]}))
    damaged = runs / "20261121T110000Z-matrix"
    damaged.mkdir()
    (damaged / "matrix.json").write_bytes(b"{}")
    (damaged / "tally.json").write_bytes(b"[]")
    published = publish([runs], tmp_path / "site")
    assert [name for name, _ in published.unread] == [damaged.name]
    index = (tmp_path / "site" / "index.html").read_text()
    for name in (folder.name, grid.path.name):
        assert f'href="overviews/{name}.html"' in index
        assert 'href="../index.html"' in (tmp_path / "site" / "overviews" / f"{name}.html").read_text()
    page = (tmp_path / "site" / "overviews" / f"{folder.name}.html").read_text()
    assert f'href="../runs/{RUN}.html"' in page
    assert str(tmp_path) not in page
    others = {path.rpartition("/")[2] for path in re.findall(r'href="\.\./runs/([^"]+)"', page)}
    assert others == {f"{RUN}.html"}, "a run that the site does not have is no link"
