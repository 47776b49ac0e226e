"""report.md: short, complete, and unmoved by hostile text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_run import broken_run, held_run

from schemaquake.harness.model.records import HISTORY
from schemaquake.harness.model.verdict import Anomaly
from schemaquake.results.report.html import render_report_html
from schemaquake.results.report.markdown import code_block, code_span, escaped, render_report_markdown
from schemaquake.results.report.material import Material


def test_the_report_of_a_broken_run(golden: Callable[[str, str], None]):
    golden("report-invalid.md", render_report_markdown(broken_run()))


def test_the_report_of_a_run_that_held(golden: Callable[[str, str], None]):
    golden("report-valid.md", render_report_markdown(held_run()))


def test_the_report_of_an_undecided_run(golden: Callable[[str, str], None]):
    golden("report-unknown.md", render_report_markdown(held_run(undecided=True)))


def with_a_main_phase_that_ended_early(run: Material) -> Material:
    because = "create-table of sq_canary.t through n2 was not done within 8 s: InvalidRequest: no"
    said = {"phase": "main", "because": because, "key": "sq_canary.t"}
    row = dict.fromkeys(HISTORY.names) | {"index": run.history.num_rows, "time": run.duration, "process": -1}
    row |= {"type": "info", "f": "phase-ended-early", "value": orjson.dumps(said).decode()}
    note = pa.Table.from_pylist([row], schema=run.history.schema)
    return replace(run, history=pa.concat_tables([run.history, note]))


@pytest.mark.parametrize("write", [render_report_markdown, render_report_html])
def test_a_main_phase_that_ended_early_is_told_beside_the_number_of_races(write: Callable[[Material], str]):
    sentence = "no more were begun, because the cluster accepted no further schema changes"
    assert sentence not in write(held_run())
    text = write(with_a_main_phase_that_ended_early(held_run()))
    assert sentence in text
    assert "was not done within 8 s" in text


@given(st.text())
def test_a_fence_is_closed_by_its_own_end_alone(text: str):
    first, *inner, last = code_block(text, "sql").split("\n")
    assert first == last + "sql"
    assert not any(line.strip().startswith(last) for line in inner)


@given(st.text())
def test_a_code_span_is_closed_by_its_own_end_alone(text: str):
    shown = code_span(text)
    assert "\n" not in shown
    ticks = re.match("`+", shown)[0]  # type: ignore[index]
    assert shown.endswith(ticks)
    assert ticks not in re.findall("`+", shown[len(ticks) : -len(ticks)])
    assert re.search(r"(?<!\\)\|", shown) is None


@given(st.text())
def test_escaped_text_is_one_line_without_markup(text: str):
    shown = escaped(text)
    assert "\n" not in shown
    assert re.findall(r"(?<!\\)(?:\\\\)*[<>\[\]|*_`@]", shown) == []


def test_hostile_text_opens_no_tag_and_no_mention():
    run = broken_run()
    evil = "</details><img src=x> @everyone [x](javascript:y) | ```\n# heading"
    anomaly = Anomaly(type=evil, title=evil, nodes=(evil,), evidence={evil: evil}, explanation=evil)
    verdict = replace(run.verdict, anomalies=(anomaly,), parts=(), doubts=())
    text = render_report_markdown(replace(run, verdict=verdict, environment={evil: evil}))
    outside = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    outside = re.sub(r"(?<![`\\])(`+)(?!`).+?(?<!`)\1(?!`)", "", outside)  # code spans
    assert re.search(r"(?<!\\)<img", outside) is None
    assert re.search(r"(?<!\\)@everyone", outside) is None
    assert "\n# heading" not in outside


def test_evidence_is_shortened_and_says_so():
    run = broken_run()
    long = Anomaly(type="t", title="t", evidence=list(range(500)), explanation="e")
    text = render_report_markdown(replace(run, verdict=replace(run.verdict, anomalies=(long,), parts=())))
    assert "… 472 more lines in verdict.json" in text
    assert len(text) < 10_000


@pytest.mark.parametrize("words", ["schemaquake run", "--seed 20261", "DROP TYPE sq_drop_type_000.u;  -- ok at"])
def test_the_report_can_be_repeated_from(words: str):
    assert words in render_report_markdown(broken_run())
