"""Puts a matrix into these pages: `python docs/publish_matrix.py FOLDER [NAME TITLE]`, the folder that `schemaquake matrix` made.

NAME.md (matrix.md) keeps what stands above its mark, for whoever has something to say of it; the page for a browser, the cells
and the races lie in NAME/. The reports of single runs stay behind, and so do links to them.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import orjson

from schemaquake.results.matrix.markdown import render_matrix_markdown
from schemaquake.results.matrix.page import render_matrix_html
from schemaquake.results.matrix.tally import Matrix
from schemaquake.results.summary.cell import Cell

_DOCS = Path(__file__).parent
_MARK = "<!-- From here on written by docs/publish_matrix.py. -->\n\n"


def publish(folder: Path, name: str = "matrix", title: str = "Fifteen years, one matrix") -> None:
    """Write NAME.md and NAME/{matrix.html,cells.parquet,races.parquet}. Raises FileNotFoundError."""
    # Servers write their own paths into their logs: what lay where is nobody's business here.
    told = (folder / "tally.json").read_text(encoding="utf-8").replace(f"{folder.resolve()}/", "")
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
    for table in ("cells.parquet", "races.parquet"):
        shutil.copyfile(folder / table, beside / table)


def _anywhere(command: str) -> str:
    """The command without the folder that took the runs: that is everybody's own choice."""
    words = shlex.split(command)
    kept = [word for at, word in enumerate(words) if "--runs" not in words[max(0, at - 1) : at + 1]]
    return shlex.join(kept)


def _without_report(cell: Cell) -> Cell:
    return replace(cell, evidence=None if cell.evidence is None else replace(cell.evidence, report=None))


if __name__ == "__main__":
    publish(Path(sys.argv[1]), *sys.argv[2:])
