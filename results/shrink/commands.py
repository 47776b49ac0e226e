"""Commands: shrink, which finds the smallest scenario that still shows a run's anomaly."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import orjson
import typer

from schemaquake.harness.cli.options import NAME, NUMBER, ONE_RUN, AsJson, Verbose, time_budget_of
from schemaquake.harness.cli.sections import RUN, add_command
from schemaquake.harness.console import configure_logging, stderr
from schemaquake.harness.errors import ExitCode, PlanError
from schemaquake.results.runs.option_lists import refuse_no_budget

__all__ = ["register", "shrink_every_finding"]


def register(app: typer.Typer) -> None:
    """Add the command of this package."""
    add_command(
        app,
        _shrink,
        "shrink",
        RUN,
        "schemaquake shrink runs/latest",
        "schemaquake shrink runs/latest --anomaly lost-rows --tries 5 --time-budget 10",
        "schemaquake shrink runs/latest --every-finding",
        page="docs/results.md",
        interrupted="the run is as it was, and the tries so far are in its folder; begin again with the same command",
    )


def _shrink(
    run: Annotated[Path, typer.Argument(metavar=ONE_RUN, help="Folder of a run with an anomaly.")],
    *,
    anomaly: Annotated[
        str | None,
        typer.Option(
            metavar=NAME,
            help="Anomaly that must still show (schemaquake list anomalies).",
            show_default="the verdict's first",
        ),
    ] = None,
    tries: Annotated[int, typer.Option(metavar=NUMBER, help="Number of tries of each candidate.")] = 3,
    rate: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of its tries in which the anomaly must show.")
    ] = 0.5,
    every_finding: Annotated[
        bool, typer.Option("--every-finding", help="Find the statements of each finding, on common clusters.")
    ] = False,
    confirm: Annotated[
        int,
        typer.Option(metavar=NUMBER, help="With --every-finding: number of races of each result, which give its rate."),
    ] = 10,
    time_budget: Annotated[float | None, time_budget_of()] = 30,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Run a failing run again with fewer faults, races, statements and nodes, until nothing more can be left out."""
    configure_logging(verbose=verbose)
    if tries < 1:
        raise PlanError(f"--tries must be at least 1, not {tries}")
    if not 0 < rate <= 1:
        raise PlanError(f"--rate must be more than 0 and at most 1, not {rate:g}")
    if confirm < 1:
        raise PlanError(f"--confirm must be at least 1, not {confirm}")
    if every_finding and anomaly is not None:
        raise PlanError("--every-finding looks for every anomaly: leave out --anomaly")
    refuse_no_budget(time_budget, "--time-budget")
    ends = None if time_budget is None else time.monotonic() + 60 * time_budget
    if every_finding:
        raise typer.Exit(shrink_every_finding(run, tries=tries, confirm=confirm, rate=rate, ends=ends, as_json=as_json))
    from schemaquake.results.shrink.shrunk_run import print_shrunk, shrunk_run  # noqa: PLC0415 - every other command would wait for it

    found = shrunk_run(run, anomaly, tries=tries, rate=rate, ends=ends)
    if found.shrunk is None:
        anomaly = found.failing.anomaly
        stderr().print(
            f"the time budget ended before {anomaly} had its {tries} tries to show again: give a larger --time-budget"
            if found.spent
            else f"{anomaly} did not show again in {rate:.0%} of {tries} tries: try more, or a smaller --rate",
            markup=False,
        )
        raise typer.Exit(ExitCode.UNKNOWN)
    if as_json:
        typer.echo(orjson.dumps(found.document, option=orjson.OPT_INDENT_2).decode())
    print_shrunk(stderr(), found)
    raise typer.Exit(ExitCode.INVALID)


def shrink_every_finding(
    run: Path, *, tries: int, confirm: int, rate: float, ends: float | None, as_json: bool
) -> ExitCode:
    """Shrink every finding of a run and print what is left; the exit code is `unknown` if none of them showed again."""
    from schemaquake.results.shrink.shrunk_findings import print_findings, shrunk_findings  # noqa: PLC0415 - every other command would wait for it

    some = shrunk_findings(run, tries=tries, confirm=confirm, rate=rate, ends=ends)
    if as_json:
        typer.echo(orjson.dumps([one.to_json() for one in some], option=orjson.OPT_INDENT_2).decode())
    print_findings(stderr(), some)
    return ExitCode.INVALID if any(one.written is not None for one in some) else ExitCode.UNKNOWN
