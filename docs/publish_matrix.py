"""Puts a matrix into these pages: `python docs/publish_matrix.py FOLDER [NAME TITLE]`, the folder that `schemaquake matrix` made.

NAME.md (matrix.md) keeps what stands above its mark; the page for a browser, the cells, the races and the runs, with which another
matrix can go on (`--known NAME/runs.parquet`), lie in NAME/. The reports of single runs stay behind. Of a race of a run that the matrix
began with, where neither the folder nor what was published has it, there is what its run tells: no statements, no refusals.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.clusters.systems.system import parse_system
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.registry import load
from schemaquake.results.matrix.markdown import render_matrix_markdown
from schemaquake.results.matrix.page import render_matrix_html
from schemaquake.results.matrix.recorded import RUNS
from schemaquake.results.matrix.tables import ALL_RACES
from schemaquake.results.matrix.tally import Matrix
from schemaquake.results.store.store import read_table, write_table
from schemaquake.results.summary.cell import Cell
from schemaquake.workloads.races.options import racing_options

_DOCS = Path(__file__).parent
_MARK = "<!-- From here on written by docs/publish_matrix.py. -->\n\n"


def publish(folder: Path, name: str = "matrix", title: str = "Fifteen years, one matrix") -> None:
    """Write NAME.md and NAME/{matrix.html,cells.parquet,races.parquet,runs.parquet}. Raises FileNotFoundError."""
    # Servers write their own paths into their logs.
    place = f"{folder.resolve()}/"
    told = (folder / "tally.json").read_text(encoding="utf-8").replace(place, "")
    matrix = Matrix.from_json(orjson.loads(told))
    alone = replace(
        matrix, command=_anywhere(matrix.command), cells=tuple(_without_report(cell) for cell in matrix.cells)
    )
    page = _DOCS / f"{name}.md"
    said, mark, _ = page.read_text(encoding="utf-8").partition(_MARK)
    page.write_text(said + (mark or _MARK) + render_matrix_markdown(alone, title=title), encoding="utf-8")
    beside = _DOCS / name
    beside.mkdir(exist_ok=True)
    (beside / "matrix.html").write_text(render_matrix_html(alone), encoding="utf-8")
    shutil.copyfile(folder / "cells.parquet", beside / "cells.parquet")
    runs = read_table(folder / "runs.parquet", RUNS)
    write_table(beside / "races.parquet", _races(folder, beside, runs))
    facts = pc.replace_substring(runs["facts"], pattern=place, replacement="")
    write_table(beside / "runs.parquet", runs.set_column(runs.schema.get_field_index("facts"), "facts", facts))


def _races(folder: Path, beside: Path, runs: pa.Table) -> pa.Table:
    """Return the races of all runs: of the folder's own, of those published before, and of what the other runs tell of theirs."""
    tables = [read_table(folder / "races.parquet", ALL_RACES)]
    published = beside / "races.parquet"
    if published.exists():
        earlier = read_table(published, ALL_RACES)
        tables.append(earlier.filter(pc.is_in(earlier["run"], runs["run"])))
    known: set[str] = set()
    kept = []
    for table in tables:
        kept.append(table.filter(pc.invert(_is_of(table, known))))
        known |= set(table["run"].to_pylist())
    kept.append(_told(runs.filter(pc.invert(_is_of(runs, known)))))
    return pa.concat_tables(kept).sort_by([("run", "ascending"), ("number", "ascending")])


def _is_of(table: pa.Table, runs: Collection[str]) -> pa.ChunkedArray:
    return pc.is_in(table["run"], pa.array(sorted(runs), pa.string()))


def _told(runs: pa.Table) -> pa.Table:
    """Build the races of runs from their facts; the plan says which variant each was."""
    rows = []
    for run in runs.to_pylist():
        plan = Plan.from_json(orjson.loads(run["plan"]))
        context = plan.context(parse_system(plan.system).features)
        for race in orjson.loads(run["facts"])["races"]:
            name, number = race["workload"], race["number"]
            made = load("workloads", name).race(number, context.random(name, "race", number), context)
            of_run = {"system": run["system"], "run": run["run"], "seed": plan.seed, "nemeses": list(plan.nemeses)}
            counts = {"broken": bool(race["anomalies"]), "anomalies": race["anomalies"], "ok": race["acknowledged"]}
            of_race = {"keyspace": race["keyspace"], "workload": name, "number": number, "variant": made.variant}
            rows.append({**of_run, **of_race, "mode": racing_options(plan.options).mode, **counts})
    return pa.Table.from_pylist(rows, schema=ALL_RACES)


def _anywhere(command: str) -> str:
    """The command without the folder that took the runs: that is everybody's own choice."""
    words = shlex.split(command)
    kept = [word for at, word in enumerate(words) if "--runs" not in words[max(0, at - 1) : at + 1]]
    return shlex.join(kept)


def _without_report(cell: Cell) -> Cell:
    return replace(cell, evidence=None if cell.evidence is None else replace(cell.evidence, report=None))


if __name__ == "__main__":
    publish(Path(sys.argv[1]), *sys.argv[2:])
