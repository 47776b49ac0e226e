"""Judging before a corpus is built: runs without a summary get one, once; those that cannot be judged are named."""

from __future__ import annotations

from bundles import RUN
from simulated_runs import carry_out, plan_of

from schemaquake.results.corpus.judging import judge_runs
from schemaquake.results.store.store import Store
from schemaquake.results.summary.summarise import FILE_NAME, read_summary


def test_a_run_that_nobody_judged_is_judged_once_and_others_are_named(tmp_path):
    runs = tmp_path / "runs"
    carry_out(plan_of("create-table", options={"races": "1"}), runs / RUN)
    begun = runs / "begun"
    begun.mkdir()
    (begun / "plan.json").write_bytes((runs / RUN / "plan.json").read_bytes())
    found = dict(judge_runs([str(runs), "s3a://elsewhere/runs", str(tmp_path / "none" / "*")]))
    assert found[runs / RUN] is None
    assert found[begun]
    assert read_summary(Store(runs / RUN)).valid is False
    before = (runs / RUN / FILE_NAME).stat().st_mtime_ns
    assert [folder for folder, _ in judge_runs([str(runs)])] == [begun]
    assert (runs / RUN / FILE_NAME).stat().st_mtime_ns == before
