"""Commands: crash-table, a node of the ordered-migrations era killed at every step of a schema change."""

from __future__ import annotations

import dataclasses
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from schemaquake.harness.cli.json_output import print_json
from schemaquake.harness.cli.options import NUMBER, SYSTEM, AsJson, KeepData, Runs, Verbose, random_seed
from schemaquake.harness.cli.sections import RUN, add_command
from schemaquake.harness.console import configure_logging, stdout
from schemaquake.harness.errors import ClusterError, PlanError

if TYPE_CHECKING:
    from rich.table import Table

    from schemaquake.harness.model.plan import Plan
    from schemaquake.results.experiments.crash_table.evidence import Evidence
    from schemaquake.results.experiments.crash_table.table import Row

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command of this package."""
    add_command(
        app,
        _crash_table,
        "crash-table",
        RUN,
        "schemaquake crash-table",
        "schemaquake crash-table --system cassandra:0.8.10 --tries 10",
        page="docs/results.md",
    )


def _crash_table(
    system: Annotated[
        str,
        typer.Option(
            metavar=SYSTEM, help="Version that keeps its schema as an ordered list of migrations: 0.7 to 1.0."
        ),
    ] = "cassandra:0.7.10",
    *,
    tries: Annotated[int, typer.Option(metavar=NUMBER, help="Number of kills of a create and of a drop, each.")] = 40,
    seed: Annotated[int, random_seed()] = 1,
    runs: Runs = Path("runs"),
    keep_data: KeepData = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Kill one node of Cassandra 0.7 to 1.0 at each step of a schema change, start it again, and compare the outcome with the design."""
    configure_logging(verbose=verbose)
    # Imported here, because every other command of schemaquake would wait for them.
    from schemaquake.clusters.systems.system import parse_system  # noqa: PLC0415
    from schemaquake.harness.atomic import write_bytes  # noqa: PLC0415
    from schemaquake.harness.model.plan import Plan  # noqa: PLC0415
    from schemaquake.results.experiments.crash_table.table import render_markdown, rows_of  # noqa: PLC0415
    from schemaquake.results.store.store import Store  # noqa: PLC0415

    if tries < 1:
        raise PlanError(f"--tries must be at least 1, not {tries}")
    if not parse_system(system).applies_in_order:
        raise PlanError(f"{system} does not apply migrations in order; a crash table is of Cassandra 0.7 to 1.0")
    store = Store.create(runs, "crash-table", system)
    plan = Plan(
        system=system,
        workloads=("create-table",),  # a plan names one; the node gets the features that it requires
        nodes=1,
        seed=seed,
        options={"tries": str(tries)},
        keep_data=keep_data,
    )
    found = _carry_out(plan, store.folder)
    command = shlex.join(["schemaquake", "crash-table", "--system", system, "--tries", f"{tries}", "--seed", f"{seed}"])
    rows = list(rows_of(found))
    document = _document(system, command, store.folder, found, rows)
    write_bytes(store.folder / "crash-table.json", orjson.dumps(document, option=orjson.OPT_INDENT_2))
    write_bytes(store.folder / "crash-table.md", render_markdown(system, found, command).encode())
    if as_json:
        print_json(document)
        return
    stdout().print(_table(system, rows))
    sys.stdout.write(f"{store.folder / 'crash-table.md'}\n")


def _carry_out(plan: Plan, folder: Path) -> list[Evidence]:
    """Make every try, inside the provider's enclosure. Raises ClusterError if they ended early."""
    # Imported here as well: drivers take half a second to import.
    from schemaquake.clusters.local.provider import LocalProvider  # noqa: PLC0415
    from schemaquake.harness.atomic import write_bytes  # noqa: PLC0415
    from schemaquake.harness.sealed_json import dump_sealed  # noqa: PLC0415
    from schemaquake.results.experiments.crash_table.experiment import TRIES  # noqa: PLC0415
    from schemaquake.results.experiments.crash_table.table import evidence_of  # noqa: PLC0415

    write_bytes(folder / "plan.json", dump_sealed(plan.to_json()))
    provider = LocalProvider()
    provider.prepare(plan, folder)
    inside = [
        sys.executable,
        "-P",
        "-m",
        "schemaquake.results.experiments.crash_table.experiment",
        str(folder.resolve()),
    ]
    finished = subprocess.run([*provider.enclosure(folder), *inside], check=False)
    path = folder / TRIES
    lines = path.read_bytes().splitlines() if path.exists() else []
    if finished.returncode != 0:
        raise ClusterError(f"the tries ended early, after {len(lines)}; those made are in {path}")
    return [evidence_of(orjson.loads(line)) for line in lines]


def _document(system: str, command: str, folder: Path, tries: list[Evidence], rows: list[Row]) -> dict[str, Any]:
    return {
        "system": system,
        "command": command,
        "folder": str(folder),
        "rows": [dataclasses.asdict(row) for row in rows],
        "tries": [evidence.to_json() for evidence in tries],
    }


def _table(system: str, rows: list[Row]) -> Table:
    from rich.table import Table  # noqa: PLC0415 - as above

    table = Table(title=f"killed at every step of a migration: {system}", show_lines=True)
    for name in ("died after", "change", "the design says", "as it says", "what happened"):
        table.add_column(name, ratio=3 if name[:3] in {"the", "wha"} else 1)
    for row in rows:
        says = "\n".join(f"{step.does}: {step.says}" for step in row.steps)
        agreed = f"{row.as_told} of {row.tries}" if row.steps else f"({row.tries})"
        happened = "\n".join(f"{count}: {text}" for text, count in row.happened.items())
        table.add_row(row.died_after, row.kind, says, agreed, happened)
    return table
