"""Simulate: a first run that needs neither Java nor root — the same races on two simulated systems, and a page about both."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from schemaquake.harness.cli.json_output import print_json
from schemaquake.harness.cli.options import (
    AsJson,
    Nemesis,
    Options,
    Runs,
    Verbose,
    Workload,
    number_of_nodes,
    random_seed,
    systems_to_compare,
    time_of_main_phase,
)
from schemaquake.harness.cli.sections import RUN, add_command
from schemaquake.harness.console import changing_line, configure_logging, stderr
from schemaquake.harness.errors import ExitCode
from schemaquake.results.runs.option_lists import named_values, split

if TYPE_CHECKING:
    from schemaquake.results.runs.comparing import Attempt

__all__ = ["register"]

_SYSTEMS: Final = ("simulated:cassandra-5.0", "simulated:cassandra-6.0")
_CLUSTER: Final = "simulated"


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_command(
        app,
        _simulate,
        "simulate",
        RUN,
        "schemaquake simulate",
        "schemaquake simulate --workload drop-type --nemesis partition --seed 7",
        "schemaquake simulate --workload create-table -O races=5 --json",
        page="docs/simulation.md",
        interrupted="runs that ended are kept; begin again with the same command",
    )


def _simulate(
    *,
    seed: Annotated[int, random_seed()] = 1,
    system: Annotated[list[str] | None, systems_to_compare(", ".join(_SYSTEMS))] = None,
    workload: Workload = "racing-ddl",
    nemesis: Nemesis = "none",
    nodes: Annotated[int, number_of_nodes()] = 3,
    time_limit: Annotated[float, time_of_main_phase()] = 60,
    option: Options = None,
    runs: Runs = Path("runs"),
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Run the same races on simulated Cassandra 5.0 and 6.0, in seconds, without Java, and compare both on one page."""
    configure_logging(verbose=verbose, brief=not verbose)
    from schemaquake.harness.installed_options import refuse_undeclared  # noqa: PLC0415 - every other command would wait for it
    from schemaquake.harness.model.plan import Plan  # noqa: PLC0415 - as above
    from schemaquake.harness.run.applicability import refuse_inapplicable  # noqa: PLC0415 - as above
    from schemaquake.results.runs.comparing import compare_runs, print_comparison, run_all  # noqa: PLC0415 - as above

    workloads = split(workload)
    options = named_values(option or [])
    if workloads == ("racing-ddl",):
        options = {"races": "3", **options}
    plans = [
        Plan(
            system=name,
            workloads=workloads,
            nemeses=() if nemesis == "none" else split(nemesis),
            cluster=_CLUSTER,
            nodes=nodes,
            seed=seed,
            time_limit_s=time_limit,
            options=options,
        )
        for name in system or _SYSTEMS
    ]
    refuse_undeclared(options, workloads=workloads, nemeses=plans[0].nemeses, cluster=_CLUSTER)
    for plan in plans:
        refuse_inapplicable(plan)
    with nullcontext(_say_nothing) if verbose else changing_line("simulating") as show:
        attempts = run_all(
            plans,
            runs,
            engine="local",
            limit_s=60,
            begun=lambda plan: show(f"{plan.system}: {', '.join(plan.workloads)}, seed {plan.seed}"),
            ended=lambda attempt: show(_describe(attempt)),
        )
    compared = compare_runs(attempts, runs)
    if as_json:
        print_json(compared.document())
    print_comparison(compared, stderr())
    raise typer.Exit(ExitCode.VALID if compared.completed else ExitCode.CRASHED)


def _say_nothing(_text: str) -> None:
    """Show nothing: every step has a line already."""


def _describe(attempt: Attempt) -> str:
    from schemaquake.results.wording import counted  # noqa: PLC0415 - as above

    run = attempt.run
    if run is None or not run.completed:
        return f"{attempt.plan.system}: not completed: {attempt.refusal}"
    word = {True: "valid", False: "invalid", "unknown": "unknown"}[run.verdict.valid]
    return f"{attempt.plan.system}: {word}, {counted(len(run.findings), 'finding', 'findings')}"
