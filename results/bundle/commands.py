"""Commands: bundle, verify — one run as a file that others can check, and the check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from schemaquake.harness.cli.interruption import AGAIN
from schemaquake.harness.cli.json_output import print_json
from schemaquake.harness.cli.options import FILE, NUMBER, ONE_RUN, AsJson, Limit, Verbose
from schemaquake.harness.cli.sections import PUBLISH, add_command
from schemaquake.harness.console import answers, configure_logging
from schemaquake.harness.errors import ExitCode
from schemaquake.results.runs.option_lists import refuse_below, refuse_no_time

if TYPE_CHECKING:
    from schemaquake.results.bundle.verification import Check

__all__ = ["register"]

_STYLES = {"ok": "green", "differs": "bold red", "not checked": "yellow"}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add_command(
        app,
        _bundle,
        "bundle",
        PUBLISH,
        "schemaquake bundle runs/latest",
        "schemaquake bundle runs/latest --to drop-type.sqz.zip --sign ~/.ssh/id_ed25519",
        page="docs/publish.md",
        interrupted="no bundle was written; run the command again",
        computes=True,
    )
    add_command(
        app,
        _verify,
        "verify",
        PUBLISH,
        "schemaquake verify drop-type.sqz.zip",
        "schemaquake verify drop-type.sqz.zip --signers allowed_signers --repeat 3",
        page="docs/publish.md",
        interrupted=AGAIN,
    )


def _bundle(
    run: Annotated[Path, typer.Argument(metavar=ONE_RUN, help="Folder of a run.")],
    *,
    to: Annotated[
        Path | None, typer.Option(metavar=FILE, help="File to write.", show_default="beside the run's folder")
    ] = None,
    sign: Annotated[
        Path | None,
        typer.Option(metavar=FILE, help="SSH key to sign with; the signature lies beside the bundle, as FILE.sig."),
    ] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Write a run as one archive that others can check, without names of machines and people, and without secrets."""
    configure_logging(verbose=verbose)
    from schemaquake.results.bundle.bundling import bundle_run  # noqa: PLC0415 - pyarrow takes half a second to import

    bundled = bundle_run(run, to=to, key=sign)
    console = answers(as_json=as_json)
    if as_json:
        print_json(
            {
                "bundle": str(bundled.path),
                "id": bundled.id,
                "bytes": bundled.size,
                "files": bundled.files,
                "redactions": bundled.redactions,
                "signature": None if bundled.signature is None else str(bundled.signature),
            }
        )
    console.print(f"{bundled.path}: {bundled.files} files, {bundled.size:,} bytes", markup=False)
    console.print(f"id sha256:{bundled.id}", markup=False)
    replaced = ", ".join(f"{kind} {count:,}" for kind, count in bundled.redactions.items())
    console.print(f"replaced: {replaced or 'nothing'}", markup=False)
    raise typer.Exit(ExitCode.VALID)


def _verify(
    bundle: Annotated[Path, typer.Argument(metavar=FILE, help="File of a bundle.")],
    *,
    signature: Annotated[
        Path | None,
        typer.Option(metavar=FILE, help="Signature of the bundle.", show_default="FILE.sig, if that exists"),
    ] = None,
    signers: Annotated[
        Path | None,
        typer.Option(metavar=FILE, help="List of those whose signatures count (allowed signers of OpenSSH)."),
    ] = None,
    repeat: Annotated[
        int,
        typer.Option(
            metavar=NUMBER, help="Run the bundle's plan so many times on this machine, and count its findings."
        ),
    ] = 0,
    fetch: Annotated[
        bool,
        typer.Option(
            "--fetch",
            help="Fetch the servers' jars from a Maven repository, and compare those too whose checksums are unknown.",
        ),
    ] = False,
    limit: Limit = 120,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Check a bundle: hashes, signature, records; judge everything again; name each difference."""
    configure_logging(verbose=verbose)
    from schemaquake.results.bundle.jars import fetched_checksums  # noqa: PLC0415 - as above
    from schemaquake.results.bundle.verification import verify_bundle  # noqa: PLC0415 - as above

    refuse_no_time(limit, "--limit")
    refuse_below(0, repeat=repeat)
    repeater = None
    if repeat > 0:
        from schemaquake.results.bundle.repeating import repeat_run  # noqa: PLC0415 - as above
        from schemaquake.results.store.store import Store  # noqa: PLC0415 - as above

        def repeater(store: Store) -> Check:
            return repeat_run(store, repeat, limit_s=limit)

    verified = verify_bundle(
        bundle,
        signature=signature,
        signers=signers,
        limit_s=limit,
        checksums=fetched_checksums if fetch else None,
        repeat=repeater,
    )
    if as_json:
        print_json(verified.to_json())
    console = answers(as_json=as_json)
    for check in verified.checks:
        console.print(f"{check.state:<11} {check.name}", style=_STYLES[check.state], markup=False)
        for detail in check.details:
            console.print(f"            {detail}", markup=False, highlight=False)
    if verified.id is not None:
        console.print(f"id sha256:{verified.id}", markup=False)
    raise typer.Exit(verified.exit_code)
