"""Golden reports of recorded runs: what the checkers of today say of real records, as a reader sees it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from recorded_0_1 import lay_out_old_run

from schemaquake.results.runs.execution import conclude


@pytest.mark.parametrize("name", ["broken", "cut-short"])
def test_the_report_of_a_recorded_run(name: str, tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    run = lay_out_old_run(name, tmp_path)
    conclude(run, engine="local")
    text = (run / "report.md").read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    golden(f"recorded-{name}.md", text)
