"""The page of the simulation says what some of its runs show: they show it, as they are printed there."""

from __future__ import annotations

import logging
from pathlib import Path

import pages
import pytest

from schemaquake.harness.cli.command_line import _run
from schemaquake.harness.errors import ExitCode
from schemaquake.results.store.store import Store
from schemaquake.results.summary.summarise import read_summary

SHOWN = {
    "drop-type --seed 7": "dangling-type",
    "racing-ddl --mode partition": "schema-disagreement",
    "bugs=marker-in-log": "node-will-not-start",
    "bug=no-barrier": "missed-quorum-write",
    "bug=wrong-founder": "forgotten-change",
    "bug=own-value": "forked-metadata-log",
    "bug=early-stream": "unexpected-log-error",
}
"""Part of a command → an anomaly that the page says of it."""


@pytest.mark.parametrize(("part", "anomaly"), SHOWN.items(), ids=SHOWN)
def test_a_run_of_the_page_shows_what_the_page_says(part, anomaly, tmp_path, monkeypatch, capfd):
    (argv,) = [argv for argv in pages.commands("simulation.md") if argv[0] == "run" and part in " ".join(argv)]
    monkeypatch.chdir(tmp_path)
    # The command configures logging, to standard error as it is now: that must not outlive the test.
    monkeypatch.setattr(logging.getLogger(), "handlers", list(logging.getLogger().handlers))
    monkeypatch.setattr(logging.getLogger(), "level", logging.getLogger().level)
    code = _run(list(argv))
    found = read_summary(Store(Path("runs/latest").resolve())).findings
    capfd.readouterr()
    assert anomaly in {symptom.type for finding in found for symptom in finding.symptoms}
    assert code == ExitCode.INVALID
