"""What a finished run says on the terminal beside its verdict and its findings."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from bundles import RUN, judged_run
from rich.console import Console

from schemaquake.harness.errors import ExitCode
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.verdict import Verdict, make_stats
from schemaquake.results.runs.execution import FinishedRun, print_summary
from schemaquake.results.store.store import Store
from schemaquake.results.summary.summarise import read_summary


def printed(*, findings=(), width=200, **stats):
    part = Verdict(valid=True, checker="faults", stats=make_stats(stats))
    run = FinishedRun(
        store=Store(Path("runs/one")),
        plan=Plan(system="cassandra:5.0.9", workloads=("set",)),
        verdict=Verdict(valid=True, checker="all", parts=(part,)),
        completed=True,
        error=None,
        exit_code=ExitCode.VALID,
        findings=findings,
    )
    output = io.StringIO()
    print_summary(run, Console(file=output, width=width))
    return output.getvalue().splitlines()


@pytest.mark.parametrize(
    ("stats", "said"),
    [
        ({"fault-skipped": 1}, "1 planned fault"),
        ({"operation-skipped": 7}, "7 planned operations on the topology"),
        (
            {"operation-skipped": 1, "fault-skipped": 2},
            "2 planned faults and 1 planned operation on the topology",
        ),
    ],
)
def test_what_was_planned_and_did_not_happen_is_said(stats, said):
    assert printed(**{"fault-begins": 3, **stats})[1:-1] == [f"skipped: {said}; harness.jsonl has the reasons"]


def test_nothing_is_said_where_all_happened():
    assert printed(**{"fault-begins": 3, "fault-ends": 3})[1:-1] == []


def test_a_terminal_of_80_columns_breaks_no_name_of_an_anomaly(tmp_path):
    finding = read_summary(Store(judged_run(tmp_path / RUN))).findings[0]
    symptom = replace(finding.symptoms[0], type="unexplained-definition", anomalies=(0, 1, 2))
    lines = printed(findings=(replace(finding, symptoms=(symptom, *finding.symptoms)),), width=80)
    assert max(map(len, lines)) <= 80
    assert any("unexplained-definition ×3" in line for line in lines)
