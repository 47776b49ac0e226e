"""Command `model-against-server`: the cells of a recorded grid on simulated systems, and a page that says where they part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from schemaquake.harness.atomic import write_bytes
from schemaquake.harness.cli.interruption import AGAIN
from schemaquake.harness.cli.json_output import print_json
from schemaquake.harness.cli.options import FILE, NUMBER, SYSTEM, AsJson
from schemaquake.harness.cli.sections import MODEL, add_command
from schemaquake.harness.console import configure_logging, stderr
from schemaquake.harness.errors import ExitCode, PlanError
from schemaquake.harness.named_files import read_named_text
from schemaquake.harness.named_folders import why_no_folder
from schemaquake.results.runs.option_lists import refuse_below

if TYPE_CHECKING:
    from schemaquake.results.experiments.fidelity.comparison import Compared, ModelRaces

__all__ = ["PAIRS", "register"]

PAIRS: Final[Mapping[str, str]] = {
    "cassandra:5.0.9": "simulated:cassandra-5.0",
    "cassandra:6.0-alpha2": "simulated:cassandra-6.0-alpha2",
}
"""By system of a recorded grid the simulated one that is a model of it."""
_SETTLE_LIMIT_S: Final = 10.0


def register(app: typer.Typer) -> None:
    """Add the command of this package."""
    add_command(
        app,
        _compare,
        "model-against-server",
        MODEL,
        "schemaquake model-against-server docs/grids/cells.parquet",
        "schemaquake model-against-server docs/grids/cells.parquet --cells drop-type --tries 1",
        page="docs/model-against-server.md",
        interrupted=AGAIN,
        computes=True,
    )


def _compare(
    *,
    recorded: Annotated[Path, typer.Argument(metavar=FILE, help="cells.parquet of a grid that was raced on servers.")],
    system: Annotated[
        list[str] | None,
        typer.Option(metavar=SYSTEM, help="System of the grid; may be repeated.", show_default="all that have a model"),
    ] = None,
    cells: Annotated[
        str, typer.Option(metavar="TEXT", help="Race the cells whose names have this in them.", show_default="all")
    ] = "",
    tries: Annotated[
        int, typer.Option(metavar=NUMBER, help="Number of races of each cell on the model, each a run of its own.")
    ] = 3,
    page: Annotated[
        Path | None, typer.Option(metavar=FILE, help="Markdown file; the part below its marked line is replaced.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Race the cells of a recorded grid on simulated systems, and say where model and server differ."""
    configure_logging(verbose=False)
    import pyarrow.compute as pc  # noqa: PLC0415 - every other command would wait for it

    from schemaquake.results.experiments.fidelity.comparison import compare, render_comparison  # noqa: PLC0415 - as above
    from schemaquake.results.grid.tally import CELLS  # noqa: PLC0415 - as above
    from schemaquake.results.store.named_tables import read_named_table  # noqa: PLC0415 - as above

    refuse_below(1, tries=tries)
    above = "" if page is None else _above_mark(page)
    table = read_named_table(
        recorded,
        CELLS,
        rows="cells of a grid",
        usual="the cells.parquet of a grid",
        needed=("system", "mode", "cell", "state"),
    )
    if not len(table):
        raise PlanError(f"{recorded} has no cells: race the grid first")
    table = table.filter(pc.match_substring(table["cell"], cells))
    if not len(table):
        raise PlanError(f'{recorded} has no cell with "{cells}" in its name, which is STATEMENT/STATEMENT/RELATION')
    there = [name for name in dict.fromkeys(table["system"].to_pylist()) if name in PAIRS]
    unknown = [name for name in system or () if name not in there]
    if unknown or not there:
        raise PlanError(f"{', '.join(unknown) or recorded} has no races of a system with a model: {', '.join(PAIRS)}")
    models = {name: PAIRS[name] for name in system or there}
    found: list[Compared] = []
    for name, model in models.items():
        found += compare(table, name, race=_racer(model, tries))
    text = render_comparison(found, models)
    if page is not None:
        write_bytes(page, (above + MARK + text).encode())
    if as_json:
        print_json({"cells": [_document(one) for one in found]})
    counts = Counter(one.kind for one in found)
    summary = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    stderr().print(f"{len(found)} cells: {summary}", markup=False)
    raise typer.Exit(ExitCode.VALID)


MARK: Final = "<!-- From here on written by schemaquake model-against-server. -->\n\n"


def _above_mark(page: Path) -> str:
    """Read the text above the mark, which is written by hand and stays. Raises PlanError for a page that is no file of text."""
    try:
        return read_named_text(page).partition(MARK)[0]
    except FileNotFoundError as error:
        why = why_no_folder(page.parent)
        if why is not None or page.is_symlink():
            raise PlanError(f"--page {page} cannot be written: {why or 'it is a link to what is not there'}") from error
        return "# Model against server\n\n"
    except OSError as error:
        raise PlanError(f"--page {page} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PlanError(f"--page {page} is no text in UTF-8: name a Markdown file, or one that is not there") from error


def _racer(model: str, tries: int) -> Callable[[str, str], ModelRaces | None]:
    """Return what races one cell in one mode on a simulated system, each race a run of its own with a seed of its own."""
    from schemaquake.clusters.systems.system import parse_system  # noqa: PLC0415 - as above
    from schemaquake.results.experiments.fidelity.comparison import ModelRaces  # noqa: PLC0415
    from schemaquake.results.grid.plan import Batch, GridPlan  # noqa: PLC0415
    from schemaquake.results.swarm.one_seed import row_of  # noqa: PLC0415
    from schemaquake.workloads.statements.meetings import meetings  # noqa: PLC0415

    features = parse_system(model).features
    needs = {cell.name: cell.features for cell in meetings()}

    def race(mode: str, cell: str) -> ModelRaces | None:
        if cell not in needs or not needs[cell] <= features:
            return None
        plan = GridPlan(systems=(model,), cluster="simulated", settle_limit_s=_SETTLE_LIMIT_S)
        batch = Batch(system=model, mode=mode, cells=(cell,), turn=0, number=0)  # type: ignore[arg-type]  # of the grid's table
        rows = [row_of(replace(plan, seed=seed).run_plan(batch)) for seed in range(1, tries + 1)]
        failed = next((row for row in rows if row["outcome"] in {"refused", "failed"}), None)
        if failed is not None:
            raise PlanError(f"{cell} could not be raced on {model}: {failed['doubt']}")
        kinds = Counter(kind for row in rows for kind in row["anomalies"])
        return ModelRaces(
            tried=tries, broken=sum(row["outcome"] == "invalid" for row in rows), anomalies=tuple(kinds.most_common())
        )

    return race


def _document(one: Compared) -> dict[str, Any]:
    model = None
    if one.model is not None:
        model = {"broken": one.model.broken, "tried": one.model.tried, "anomalies": dict(one.model.anomalies)}
    return {
        "system": one.system,
        "mode": one.mode,
        "cell": one.cell,
        "kind": one.kind,
        "server": {
            "broken": one.server_broken,
            "tried": one.server_tried,
            "anomalies": list(one.server_anomalies),
        },
        "model": model,
    }
