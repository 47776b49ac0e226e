"""Inputs of a site: a bundle is verified and shown as the run that it has, one that was changed is named with the reason."""

from __future__ import annotations

import orjson
from bundles import RUN, forged, judged_run

from schemaquake.harness.sealed_json import load_sealed
from schemaquake.results.bundle.bundling import bundle_run
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
