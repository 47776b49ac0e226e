"""Operations on nodes in reports: a table, a row of the picture, nodes that have left, and the versions that nodes became."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa
from hostile_pages import EVIL, Page
from synthetic_run import held_run

from schemaquake.harness.model.records import HISTORY, OBSERVATIONS
from schemaquake.results.report.charts import chart_data
from schemaquake.results.report.findings import headline
from schemaquake.results.report.html import render_report_html
from schemaquake.results.report.markdown import render_report_markdown
from schemaquake.results.report.material import Material
from schemaquake.results.report.overview import FAULTS, ROW, disagreement_s, draw_overview

Event = tuple[float, str, str, dict[str, Any]]


def operation(
    number: int, name: str, node: str, begins: float, ends: float | None, *, outcome: str = "ok", **more: Any
) -> list[Event]:
    """The events (s, type, f, value) of one operation on a node."""
    value = {
        "operation": number,
        "nodes": [node],
        "parameters": more.get("parameters", {}),
        "becomes": more.get("becomes", {}),
    }
    effect = {"attempts": more.get("attempts", [{"outcome": outcome, "command": f"nodetool {name}", "answer": "told"}])}
    effect |= {"system": more["system"]} if "system" in more else {}
    end = [] if ends is None else [(ends, outcome, name, {**value, "effect": effect})]
    return [(begins, "invoke", name, value), *end]


def run(*events: Event, versions: tuple[tuple[float, str, str], ...] = ()) -> Material:
    """A run that held, with these notes, and these versions (s, node, version) in place of its own."""
    base = held_run()
    rows = [
        dict.fromkeys(HISTORY.names)
        | {
            "index": index,
            "time": int(at * 1e9),
            "process": -1,
            "type": kind,
            "f": f,
            "value": orjson.dumps(value).decode(),
        }
        for index, (at, kind, f, value) in enumerate(sorted(events, key=lambda one: one[0]))
    ]
    seen = [
        dict.fromkeys(OBSERVATIONS.names)
        | {
            "time": int(at * 1e9),
            "phase": "running",
            "node": node,
            "sample": 1,
            "kind": "version",
            "id": version,
            "definition": "{}",
        }
        for at, node, version in versions
    ]
    history = pa.Table.from_pylist(rows, schema=HISTORY)
    return replace(base, history=history, observations=pa.Table.from_pylist(seen, schema=OBSERVATIONS))


PHASES: tuple[Event, ...] = (
    (0.0, "info", "phase", {"phase": "main", "state": "begins"}),
    (100.0, "info", "phase", {"phase": "main", "state": "ends"}),
)
LEAVES = operation(1, "decommission", "n3", 30, 50, becomes={"n3": "left"})


def test_each_operation_is_a_row_with_its_outcome_and_what_was_asked_for() -> None:
    refused = operation(2, "move", "n2", 60, 61.5, outcome="fail")
    hanging = operation(3, "bootstrap", "n4", 70, None)
    material = run(*PHASES, *LEAVES, *refused, *hanging)
    page = Page(render_report_html(material))
    for words in (
        "Operations on nodes",
        "decommission n3 30.0 s 20.0 s ✓ ok nodetool decommission",
        "move n2 60.0 s 1.5 s refused nodetool move told",
        "bootstrap n4 70.0 s no end no outcome –",
    ):
        assert words in page.words
    assert "nodetool decommission told" not in page.words, "an answer is told where it explains something"
    text = render_report_markdown(material)
    assert "| decommission | n3 | 30.0 s | 20.0 s | ok | `nodetool decommission` |" in text
    assert "| bootstrap | n4 | 70.0 s | no end | no outcome | – |" in text
    assert "Operations on nodes" not in render_report_markdown(held_run())
    assert "Operations on nodes" not in Page(render_report_html(held_run())).words


def test_what_a_server_answered_is_text() -> None:
    attempts = [{"outcome": "info", "command": EVIL, "answer": EVIL}]
    page = render_report_html(run(*PHASES, *operation(1, "move", "n1", 1, 2, outcome="info", attempts=attempts)))
    assert EVIL not in page
    assert "? unknown" in Page(page).words


def test_an_operation_has_a_place_of_its_own_in_the_picture() -> None:
    fault = {"id": 1, "nemesis": "kill", "nodes": ["n1"], "parameters": {}}
    both = [(20.0, "info", "fault-begins", fault), (25.0, "info", "fault-ends", fault)]
    for events, row in (((), FAULTS), (both, FAULTS + ROW)):
        picture = draw_overview(run(*PHASES, *LEAVES, *events))
        assert picture is not None
        ((y, label, title),) = ((one.y, one.label, one.title) for one in picture.operations)
        assert (y, label, title) == (row, "decommission n3", "decommission on n3, ok, 20.0 s")
        assert picture.agreement_y > row + ROW
    short = draw_overview(run(*PHASES, *operation(1, "decommission", "n3", 30, 33)))
    assert short is not None
    assert [one.label for one in short.operations] == ["n3"]
    names = [name for name, *_ in chart_data(run(*PHASES, *LEAVES))["faults"]]
    assert names == ["decommission"]


def test_a_node_that_left_takes_no_part_any_more() -> None:
    seen = ((1, "n1", "a"), (1, "n3", "a"), (60, "n1", "b"), (70, "n3", "c"))
    stays = operation(1, "decommission", "n3", 30, 50, outcome="info", becomes={"n3": "left"})
    returns = operation(2, "replace", "n3", 55, 58, becomes={"n3": "normal"})
    for events, differs, final in (
        (LEAVES, 0, "left"),
        (stays, 10 + 30, "c"),
        ([*LEAVES, *returns], 10 + 30, "c"),
    ):
        material = run(*PHASES, *events, versions=seen)
        picture = draw_overview(material)
        assert picture is not None
        assert [text for _, text, _ in picture.finals][-1] == final
        assert disagreement_s(material) == differs
        assert ("1 node left, the others agree" in picture.verdict) is (final == "left")


def test_the_headline_names_the_versions_that_nodes_became() -> None:
    def upgrade(number: int, to: str, begins: float, **more: Any) -> list[Event]:
        parameters = {"stage": more.pop("stage", "node"), "to": to}
        return operation(number, "rolling-upgrade", "n1", begins, begins + 5, parameters=parameters, system=to, **more)

    first, second = upgrade(1, "cassandra:5.0.9", 10), upgrade(2, "cassandra:6.0-alpha2", 20)
    assert ", upgraded to 5.0.9 and 6.0-alpha2, held: " in headline(run(*PHASES, *first, *second))
    failed = upgrade(2, "cassandra:6.0-alpha2", 20, outcome="info")
    assert ", upgraded to 5.0.9, held: " in headline(run(*PHASES, *first, *failed))
    assert "upgraded" not in headline(run(*PHASES, *LEAVES))
    end = upgrade(3, "cassandra:5.0.9", 30, stage="finish")
    back = upgrade(4, "cassandra:5.0.9", 40, stage="back")
    page = Page(render_report_html(run(*PHASES, *first, *end, *back)))
    for words in (
        "rolling-upgrade to cassandra:5.0.9",
        "rolling-upgrade ends, to cassandra:5.0.9",
        "rolling-upgrade back from cassandra:5.0.9",
    ):
        assert words in page.words
