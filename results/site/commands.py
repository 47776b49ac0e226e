"""Commands: publish, serve — a static site of many runs, and the same pages while runs go on."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from schemaquake.harness.cli.json_output import print_json
from schemaquake.harness.cli.options import FOLDER, RUNS, RUNS_BELOW, URL, AsJson, Curated, Verbose
from schemaquake.harness.cli.sections import PUBLISH, add_command
from schemaquake.harness.console import configure_logging, stderr
from schemaquake.harness.errors import ExitCode, PlanError
from schemaquake.results.wording import counted

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add_command(
        app,
        _publish,
        "publish",
        PUBLISH,
        "schemaquake publish runs --to site",
        "schemaquake publish runs --to site --address https://example.org/races/",
        page="docs/publish.md",
        interrupted="pages that are made are kept; the same command goes on",
        computes=True,
    )
    add_command(
        app,
        _serve,
        "serve",
        PUBLISH,
        "schemaquake serve runs",
        "schemaquake serve runs --port 0 --site site",
        page="docs/publish.md",
    )


def _publish(
    runs: Annotated[list[Path], typer.Argument(metavar=RUNS, help=RUNS_BELOW)],
    *,
    to: Annotated[
        Path,
        typer.Option(metavar=FOLDER, help="Folder of the site; pages that have not changed are not written again."),
    ],
    curated: Curated = None,
    address: Annotated[
        str, typer.Option(metavar=URL, help="Address at which the site will be, for links of the feed.")
    ] = "",
    docs: Annotated[
        str,
        typer.Option(metavar=URL, help="Address of this project's docs/, to which findings that it describes lead."),
    ] = "",
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Build a static site of many runs: findings, versions, comparisons, runs, trends, a feed and badges."""
    configure_logging(verbose=verbose)
    from schemaquake.results.findings.curation import NOTHING_CURATED, read_curation  # noqa: PLC0415 - pyarrow takes half a second
    from schemaquake.results.site.building import publish  # noqa: PLC0415 - as above

    curation = NOTHING_CURATED if curated is None else read_curation(curated)
    published = publish(runs, to, curation=curation, address=address, docs=_as_folder(docs))
    if as_json:
        print_json(
            {
                "index": str(published.index),
                "runs": published.runs,
                "findings": published.findings,
                "files": published.files,
                "written": published.written,
                "unread": [{"run": run, "reason": reason} for run, reason in published.unread],
            }
        )
    console = stderr()
    for run, reason in published.unread:
        console.print(f"not read: {run}: {reason}", markup=False, style="yellow")
    console.print(
        f"{published.index}: {counted(published.findings, 'finding')} in {counted(published.runs, 'run')}, "
        f"{counted(published.written, 'file')} written",
        markup=False,
    )
    raise typer.Exit(ExitCode.VALID)


def _as_folder(address: str) -> str:
    """Return the address of a folder with its slash. Raises PlanError for one that a page must not lead to."""
    if address and not address.startswith(("https://", "http://", "/")):
        raise PlanError(f"--docs {address}: an address begins with https://, or with / for a folder of the same host")
    return address if not address or address.endswith("/") else f"{address}/"


def _serve(
    folder: Annotated[Path, typer.Argument(metavar=FOLDER, help="Folder in which runs are, at any depth.")],
    *,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", help="Address to listen on; another than this machine's own needs the printed token."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="PORT", help="Port to listen on; 0: any that is free.", min=0, max=65535)
    ] = 8080,
    site: Annotated[
        Path | None,
        typer.Option(
            metavar=FOLDER, help="Keep the pages in this folder.", show_default="one that is removed at the end"
        ),
    ] = None,
    curated: Curated = None,
    verbose: Verbose = False,
) -> None:
    """Serve the pages of a folder of runs on this machine, with runs in progress as they go. Ends with Ctrl-C."""
    configure_logging(verbose=verbose)
    from schemaquake.results.findings.curation import NOTHING_CURATED, read_curation  # noqa: PLC0415 - as above
    from schemaquake.results.site.server import open_server  # noqa: PLC0415 - as above

    curation = NOTHING_CURATED if curated is None else read_curation(curated)
    with tempfile.TemporaryDirectory(prefix="schemaquake-serve-") as temporary:
        server = open_server(folder, site or Path(temporary) / "site", curation=curation, host=host, port=port)
        stderr().print(
            f"{server.address} shows {folder}; runs in progress: {server.address.partition('?')[0]}live.html",
            markup=False,
        )
        with suppress(KeyboardInterrupt):
            server.run()
    raise typer.Exit(ExitCode.VALID)
