"""Pages read as a browser reads them, and a run whose every text is hostile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pyarrow as pa
from synthetic_run import broken_run, keyspace_of_race

from schemaquake.harness.history.pairing import OPERATIONS
from schemaquake.harness.model.records import HISTORY, LOGS, OBSERVATIONS
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict, make_stats
from schemaquake.results.report.material import Material

VOID = {"meta", "br", "link", "img", "input", "hr", "base", "col"}


LOADING = {"src", "srcset", "data", "poster", "action", "formaction", "background", "xlink:href"}


class Page(HTMLParser):
    """What a browser would find: elements with attributes, text by element, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif "style" not in self.open:
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())

    def all(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.elements if name == tag)


def styles(text: str) -> str:
    return "".join(re.findall(r"<style>(.*?)</style>", text, re.DOTALL))


EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'{{ 7*7 }}<!--\u2028]]>`"


def hostile_run() -> Material:
    """A run in which every text that a cluster, a plan or a checker can bring in is EVIL."""
    run = broken_run()
    anomalies = tuple(
        Anomaly(
            type=f"type-{EVIL}", title=EVIL, objects=(f"{keyspace_of_race('drop-type', 0)}.{EVIL}", EVIL), nodes=(EVIL,),
            ops=(1, 2), evidence={EVIL: [EVIL]}, explanation=f"Let {EVIL}\nBut {EVIL}", references=(EVIL,),
        )
        for _ in range(1)
    )  # fmt: skip
    parts = (
        Verdict(valid=False, checker=EVIL, anomalies=anomalies, stats=make_stats({EVIL: EVIL})),
        Verdict.unknown("c", Doubt("undecided", EVIL, (EVIL,))),
    )
    return Material(
        run=EVIL,
        plan={**run.plan, "system": f"cassandra:{EVIL}", "options": {"o": EVIL}, "schemaquake_version": EVIL},
        verdict=Verdict(
            valid=False, checker="all", anomalies=anomalies, parts=parts, doubts=(Doubt("undecided", EVIL),)
        ),
        history=_poisoned(run.history, HISTORY, {"error": EVIL, "f": EVIL}),
        operations=_poisoned(run.operations, OPERATIONS, {"error": EVIL}),
        rates=run.rates,
        latencies=_renamed(run.latencies),
        races=run.races,
        observations=_poisoned(run.observations, OBSERVATIONS, {"name": EVIL, "id": EVIL}),
        logs=_poisoned(run.logs, LOGS, {"message": EVIL, "stack": EVIL, "thread": EVIL}),
        environment={EVIL: EVIL},
        started=run.started,
    )


def _poisoned(table: pa.Table, schema: pa.Schema, evil: dict[str, str]) -> pa.Table:
    rows = []
    for row in table.to_pylist():
        keep = row.get("process") == -1 or row.get("kind") == "version"
        rows.append(row if keep else row | evil)
    return pa.Table.from_pylist(rows, schema=schema)


def _renamed(latencies: pa.Table) -> pa.Table:
    return pa.Table.from_pylist([row | {"f": EVIL} for row in latencies.to_pylist()], schema=latencies.schema)
