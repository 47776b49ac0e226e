"""The command `schemaquake doctor`: what a deployed cluster lacks, as a table, before anything there is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from schemaquake.harness.cli.completion import complete_systems
from schemaquake.harness.cli.json_output import print_json
from schemaquake.harness.cli.options import FILE, SYSTEM, AsJson
from schemaquake.harness.cli.sections import PREPARE, add_command
from schemaquake.harness.console import configure_logging, stdout
from schemaquake.harness.errors import ExitCode

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command `doctor`."""
    add_command(
        app,
        doctor,
        "doctor",
        PREPARE,
        "schemaquake doctor --cluster cluster.toml",
        "schemaquake doctor --cluster cluster.toml --system cassandra:5.0.9 --json",
        page="docs/deployed.md",
    )


def doctor(
    cluster: Annotated[Path, typer.Option(metavar=FILE, help="File of the deployed cluster.")],
    system: Annotated[
        str | None,
        typer.Option(
            metavar=SYSTEM,
            help="System that the servers should be, such as cassandra:5.0.9; the file may name it.",
            autocompletion=complete_systems,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that every node of a deployed cluster has what the faults allowed by its file need. Changes nothing.

    Exit code 0 if nothing is missing, 1 if something is, 254 if the file cannot be used.
    """
    # Not before they are needed: SSH, the driver and the file's checks take long to import.
    from schemaquake.clusters.cluster_file.parse import read_cluster_file  # noqa: PLC0415
    from schemaquake.clusters.doctor.doctor import examine_cluster, examine_engine  # noqa: PLC0415

    configure_logging()
    file = read_cluster_file(cluster)
    found = examine_cluster(file, system=system) if file.provider == "ssh" else examine_engine(file, system=system)
    if as_json:
        print_json(found.document())
    else:
        console = stdout()
        console.print(found.table())
        for sentence in found.missing:
            console.print(f"\n{sentence}", markup=False)
    raise typer.Exit(ExitCode.VALID if found.ok else ExitCode.INVALID)
