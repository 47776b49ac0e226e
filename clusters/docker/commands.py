"""Commands for containers: `schemaquake image`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from schemaquake.harness.cli.completion import complete_systems
from schemaquake.harness.cli.options import NAME, SYSTEM, URL, AsJson, OwnDistribution
from schemaquake.harness.cli.sections import PREPARE, add_command
from schemaquake.harness.console import changing_line

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command `image`."""
    add_command(
        app,
        image,
        "image",
        PREPARE,
        "schemaquake image cassandra:5.0.9",
        "schemaquake image cassandra:4.1.11 --base eclipse-temurin:11-jre",
        page="docs/containers.md",
    )


def image(
    system: Annotated[
        str,
        typer.Argument(
            metavar=SYSTEM,
            help="System to build an image of, such as cassandra:5.0.9.",
            autocompletion=complete_systems,
        ),
    ],
    base: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE", help="Image with a Java to build upon.", show_default="a Debian base that is made"
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(metavar=NAME, help="Debian suite to make the base of.", show_default="this machine's own"),
    ] = None,
    mirror: Annotated[
        str | None, typer.Option(metavar=URL, help="Mirror to get it from.", show_default="the one that apt uses")
    ] = None,
    distribution: OwnDistribution = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar=URL,
            help="Socket of the docker engine, such as unix:///run/docker.sock.",
            show_default="DOCKER_HOST",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build an image of one version for `--cluster docker`, on this machine's docker engine."""
    # Not before it is needed: the SDK takes a third of a second to import.
    from schemaquake.clusters.docker.engine import DockerEngine  # noqa: PLC0415
    from schemaquake.clusters.docker.image import build_image  # noqa: PLC0415
    from schemaquake.clusters.systems.system import parse_system  # noqa: PLC0415

    chosen = parse_system(system)
    engine = DockerEngine.connect(host)
    try:
        with changing_line("looking into the cache") as progress:
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
