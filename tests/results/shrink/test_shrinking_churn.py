"""A run of churn that broke ends, with one command, as the few statements to blame: on a simulated cluster, from end to end."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from simulated_runs import carry_out, plan_of

from schemaquake.harness.cli.command_line import _run
from schemaquake.harness.errors import ExitCode
from schemaquake.results.runs.execution import conclude


def broken_run(folder: Path) -> Path:
    """A judged run of churn on the design of 5.0, whose coordinators act alone."""
    plan = plan_of("schema-churn", seed=1, time_limit_s=12, restart="none")
    finished = conclude(carry_out(plan, folder), engine="local")
    assert finished.verdict.valid is False
    return folder


@pytest.mark.long
@pytest.mark.parametrize("anomaly", ["lost-option"])
def test_a_broken_run_of_churn_ends_as_the_statements_to_blame(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], anomaly: str
) -> None:
    run = broken_run(tmp_path / "run")
    code = _run(["shrink", str(run), "--anomaly", anomaly, "--tries", "2", "--json"])
    shrunk = orjson.loads(capfdbinary.readouterr().out)
    assert code == ExitCode.INVALID
    assert (shrunk["anomaly"], shrunk["minimal"]) == (anomaly, True)
    (race,) = shrunk["scenario"]["races"]
    assert 2 <= sum(len(side) for side in race["sides"]) <= 3
    assert shrunk["broken"] >= 1
    assert (run / "shrunk" / "reproduce.sh").exists()
