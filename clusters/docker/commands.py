"""Commands for containers: `schemaquake image`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from schemaquake.clusters.distribution.commands import progress_to_stderr
from schemaquake.harness.cli.sections import PREPARE

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command `image`."""
    app.command("image", rich_help_panel=PREPARE)(image)


def image(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="cassandra:VERSION, for example cassandra:5.0.9.")],
    base: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="Build upon this image, which must have a Java, instead of a Debian base."),
    ] = None,
    suite: Annotated[
        str | None, typer.Option(help="The Debian suite to make the base of. Default: this machine's own.")
    ] = None,
    mirror: Annotated[
        str | None, typer.Option(metavar="URL", help="The mirror to get it from. Default: the one that apt uses.")
    ] = None,
    distribution: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Use this tarball or unpacked folder instead of the cached jars."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The engine's socket, for example unix:///run/docker.sock; else DOCKER_HOST."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")] = False,
) -> None:
    """Build an image of one version for `--cluster docker`, on this machine's docker engine."""
    # Not before it is needed: the SDK takes a third of a second to import.
    from schemaquake.clusters.docker.engine import DockerEngine  # noqa: PLC0415
    from schemaquake.clusters.docker.image import build_image  # noqa: PLC0415
    from schemaquake.clusters.systems.system import parse_system  # noqa: PLC0415

    chosen = parse_system(system)
    engine = DockerEngine.connect(host)
    try:
        with progress_to_stderr() as progress:
            built = build_image(
                engine, chosen, base=base, suite=suite, mirror=mirror, distribution=distribution, progress=progress
            )
    finally:
        engine.close()
    if as_json:
        typer.echo(json.dumps({"image": built.name, "base": built.base, "digest": built.digest}, indent=2))
        return
    sys.stdout.write(
        f"{built.name} is ready, built upon {built.base}: schemaquake run --cluster docker --system {chosen}\n"
    )
