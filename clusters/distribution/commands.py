"""The commands that this package adds to `schemaquake`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from schemaquake.harness.cli.completion import complete_systems
from schemaquake.harness.cli.options import AsJson, OwnDistribution
from schemaquake.harness.cli.sections import PREPARE, add_command
from schemaquake.harness.console import changing_line
from schemaquake.harness.errors import PlanError

if TYPE_CHECKING:
    from schemaquake.clusters.distribution.distribution import Distribution

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add `fetch`."""
    add_command(
        app,
        fetch_systems,
        "fetch",
        PREPARE,
        "schemaquake fetch cassandra:5.0.9 cassandra:6.0-alpha2",
        "schemaquake fetch cassandra:5.0.9 --verify",
        page="docs/tutorial.md",
    )


def fetch_systems(
    systems: Annotated[
        list[str],
        typer.Argument(
            metavar="SYSTEM...",
            help="Systems to fetch, such as cassandra:5.0.9 (schemaquake list systems).",
            autocompletion=complete_systems,
        ),
    ],
    distribution: OwnDistribution = None,
    resolver: Annotated[
        Literal["auto", "maven", "ivy"],  # a ResolverName, whose module is not imported before it is needed
        typer.Option(
            metavar="auto|maven|ivy",
            help="Download tool: maven is faster, ivy comes with PySpark; auto takes maven if installed.",
        ),
    ] = "auto",
    check_only: Annotated[
        bool, typer.Option("--verify", help="Only check the files of earlier fetches; download nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fetch distributions into the cache, so that runs need no network."""
    from schemaquake.clusters.distribution.fetch import fetch, verify  # noqa: PLC0415 - every other command would wait for it

    versions = [_version_of_jars(system) for system in systems]
    if distribution is not None and len(versions) > 1:
        raise PlanError("--distribution is one version: name one system")
    if distribution is not None and check_only:
        raise PlanError("--verify checks the cache: it cannot be used together with --distribution")
    with changing_line("looking into the cache") as progress:
        if check_only:
            fetched = [verify(version) for version in versions]
        else:
            fetched = [
                fetch(version, distribution=distribution, resolver=resolver, progress=progress) for version in versions
            ]
    if as_json:
        typer.echo(json.dumps({"distributions": [_document(each) for each in fetched]}, indent=2))
        return
    for each in fetched:
        state = "intact" if check_only else "ready"
        typer.echo(f"cassandra {each.version} is {state}: {len(each.class_path)} jars in {each.class_path[0].parent}")


def _version_of_jars(text: str) -> str:
    """Find the version of Cassandra in the system's jars. Raises PlanError for a system that the harness cannot start."""
    from schemaquake.clusters.systems.system import parse_system, recipe_for  # noqa: PLC0415 - as above

    system = parse_system(text)
    recipe_for(system)
    return system.jars or system.version


def _document(distribution: Distribution) -> dict[str, Any]:
    return {
        "system": f"cassandra:{distribution.version}",
        "source": distribution.source,
        "digest": distribution.digest,
        "home": None if distribution.home is None else str(distribution.home),
        "jars": [str(jar) for jar in distribution.class_path],
        "bytes": sum(jar.stat().st_size for jar in distribution.class_path),
    }
