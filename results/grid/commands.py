"""Commands: grid — every pair of schema changes on related objects, raced on each system; rediscovered — which known races it found."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from schemaquake.harness.cli.interruption import AGAIN
from schemaquake.harness.cli.json_output import print_json
from schemaquake.harness.cli.options import (
    FILE,
    FOLDER,
    NAMES,
    NUMBER,
    AsJson,
    JudgeAgain,
    Options,
    Runs,
    Verbose,
    clusters_at_once,
    kind_of_cluster,
    number_of_nodes,
    random_seed,
    settling_limit,
    systems_to_compare,
    time_budget_of,
)
from schemaquake.harness.cli.sections import CLUSTER, COMPARE, WORKLOADS, add_command
from schemaquake.harness.console import configure_logging, stderr, write_line
from schemaquake.harness.errors import ExitCode, JournalError, PlanError
from schemaquake.results.runs.cluster_choice import usual_cluster
from schemaquake.results.runs.interrupting import interruptible
from schemaquake.results.runs.option_lists import refuse_no_budget, split
from schemaquake.results.runs.resuming import resuming

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from schemaquake.harness.model.protocols import Demands
    from schemaquake.results.grid.folder import DoneBatch
    from schemaquake.results.grid.plan import GridPlan
    from schemaquake.results.grid.schedule import GridSchedule
    from schemaquake.results.grid.tally import GridCell

__all__ = ["register"]

log = logging.getLogger(__name__)

_SYSTEMS: Final = ("cassandra:5.0.9", "cassandra:6.0-alpha2")
_REQUEST_TIMEOUT_S: Final = 30.0
"""Patience with the changes of a whole round, which a coordinator carries out one after another."""

_PLANNED: Final = (
    *("system", "cells", "mode", "quick", "tries", "within", "batch", "lanes", "options", "nodes", "seed", "cluster"),
    *("settle_limit", "known", "runs"),
)
"""Parameters of the command that a grid's folder has already."""


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    add_command(
        app,
        _grid,
        "grid",
        COMPARE,
        "schemaquake grid --system simulated:cassandra-5.0 --cells 'drop-type/*' --quick",
        "schemaquake grid --within 0.2 --time-budget 120",
        "schemaquake grid --resume runs/20261127T120000Z-grid",
        page="docs/grid.md",
        sectioned=True,
        interrupted="batches that ended are kept; go on with: schemaquake grid --resume FOLDER",
    )
    add_command(
        app,
        _rediscovered,
        "rediscovered",
        COMPARE,
        "schemaquake rediscovered docs/grids/cells.parquet",
        page="docs/grid.md",
        interrupted=AGAIN,
        computes=True,
    )


def _grid(
    context: typer.Context,
    *,
    system: Annotated[list[str] | None, systems_to_compare(", ".join(_SYSTEMS))] = None,
    cells: Annotated[
        str,
        typer.Option(
            metavar=NAMES,
            help="Names of cells; * stands for any letters, as in drop-type/*.",
            rich_help_panel=WORKLOADS,
        ),
    ] = "*",
    mode: Annotated[
        str,
        typer.Option(
            metavar="MODE[,MODE]",
            help="barrier, partition or single, with commas for several.",
            rich_help_panel=WORKLOADS,
        ),
    ] = "barrier",
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Each pair of statements once: its closest relation, and no variants.",
            rich_help_panel=WORKLOADS,
        ),
    ] = False,
    tries: Annotated[
        int | None,
        typer.Option(
            metavar=NUMBER,
            help="Number of races of each cell.",
            show_default="3, with --quick 1",
            rich_help_panel=WORKLOADS,
        ),
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(
            metavar="WIDTH",
            help="Race each cell on until the 95 % interval of its rate is known to this, such as 0.2 for ±20 %.",
            rich_help_panel=WORKLOADS,
        ),
    ] = None,
    batch: Annotated[
        int,
        typer.Option(metavar=NUMBER, help="Largest number of cells on one cluster.", rich_help_panel=CLUSTER),
    ] = 60,
    lanes: Annotated[
        int,
        typer.Option(
            metavar=NUMBER, help="Number of races released at once in mode barrier.", rich_help_panel=WORKLOADS
        ),
    ] = 6,
    options: Options = None,
    nodes: Annotated[int, number_of_nodes()] = 3,
    seed: Annotated[int, random_seed()] = 1,
    cluster: Annotated[str | None, kind_of_cluster()] = None,
    settle_limit: Annotated[float, settling_limit()] = 25,
    jobs: Annotated[int, clusters_at_once()] = 2,
    time_budget: Annotated[float | None, time_budget_of()] = None,
    resume: Annotated[Path | None, typer.Option(metavar=FOLDER, help="Continue the grid of this folder.")] = None,
    judge_again: JudgeAgain = False,
    known: Annotated[
        Path | None,
        typer.Option(metavar=FILE, help="batches.parquet of an earlier grid, whose races count in a new one."),
    ] = None,
    runs: Runs = Path("runs"),
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Race every pair of schema changes on related objects, on each system, and draw one page."""
    configure_logging(verbose=verbose)
    from schemaquake.results.grid.folder import GridFolder  # noqa: PLC0415 - all other commands would wait
    from schemaquake.results.grid.plan import GridPlan  # noqa: PLC0415
    from schemaquake.results.grid.recorded import read_batches, renumbered  # noqa: PLC0415
    from schemaquake.results.matrix.machine import facts  # noqa: PLC0415
    from schemaquake.results.matrix.matrix_plan import shell  # noqa: PLC0415

    if jobs < 1:
        raise PlanError(f"--jobs must be at least 1, not {jobs}")
    refuse_no_budget(time_budget, "--time-budget")
    if judge_again and resume is None:
        raise PlanError("--judge-again needs recorded runs: name the grid with --resume FOLDER")
    if resume is None:
        systems = tuple(system) if system else _SYSTEMS
        plan = GridPlan(
            systems=systems,
            modes=split(mode),  # type: ignore[arg-type]  # the workload rejects what is no mode
            cells=split(cells),
            pairs_once=quick,
            tries=(1 if quick else 3) if tries is None else tries,
            within=within,
            batch=batch,
            lanes=lanes,
            options=tuple(options or ()),
            request_timeout_s=_REQUEST_TIMEOUT_S,
            cluster=cluster or usual_cluster(systems),
            nodes=nodes,
            seed=seed,
            settle_limit_s=settle_limit,
            command=shell(["schemaquake", *sys.argv[1:]]),
        )
    else:
        _refuse_planned(context)
        plan = GridFolder(resume).plan()
    demands = {one: _demands(plan, one) for one in plan.systems}
    if resume is None:
        plan = replace(plan, when_busy={one: dict(demand.when_busy) for one, demand in demands.items()})
    able = {one: _able(plan, demand) for one, demand in demands.items()}
    _refuse_unraceable(plan, demands, able)
    memory_mb = {one: demand.memory_mb for one, demand in demands.items()}
    earlier = [] if known is None else read_batches(known)
    folder = GridFolder.create(runs, plan, facts()) if resume is None else GridFolder(resume)
    for one in renumbered(one for one in earlier if one.unit.system in plan.systems and one.unit.mode in plan.modes):
        folder.append(one)
    flags = [flag for flag, is_given in (("--json", as_json), ("--verbose", verbose)) if is_given]
    go_on = resuming("grid", folder.path, jobs=jobs, budget_min=time_budget, flags=flags)
    if judge_again:
        from schemaquake.results.grid import judging_again  # noqa: PLC0415 - as above

        with folder.alone():
            judging_again.judge_again(folder)
        time_budget = 0.0
    code = _carry_out(plan, folder, able, memory_mb, jobs=jobs, budget_min=time_budget, go_on=go_on, as_json=as_json)
    raise typer.Exit(code)


def _refuse_planned(context: typer.Context) -> None:
    """Refuse options that the plan of a resumed grid has already. Raises PlanError."""
    if planned := [name for name in _PLANNED if _is_given(context, name)]:
        options_given = ", ".join(f"--{name.replace('_', '-')}" if name != "options" else "-O" for name in planned)
        raise PlanError(f"--resume continues the plan of its folder: leave out {options_given}")


def _is_given(context: typer.Context, name: str) -> bool:
    """Tell if an option stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _demands(plan: GridPlan, system: str) -> Demands:
    """Return what a cluster of the system takes, and what the system is able to do. Raises PlanError for options that do not fit."""
    from schemaquake.harness.installed_options import refuse_undeclared  # noqa: PLC0415 - as above
    from schemaquake.harness.model.protocols import Forecast  # noqa: PLC0415
    from schemaquake.harness.registry import load  # noqa: PLC0415
    from schemaquake.results.grid.plan import Batch  # noqa: PLC0415

    run_plan = plan.run_plan(Batch(system=system, mode=plan.modes[0], cells=plan.cells, turn=0, number=0))
    run_plan.check_options()
    refuse_undeclared(run_plan.options, workloads=run_plan.workloads, nemeses=(), cluster=plan.cluster)
    provider = load("clusters", plan.cluster)
    if not isinstance(provider, Forecast):
        raise PlanError(f"the cluster provider {plan.cluster} does not say what a cluster takes")
    return provider.demands(run_plan)


def _able(plan: GridPlan, demands: Demands) -> list[Any]:
    """Return the cells that a system can be raced by. Raises PlanError for an unknown name, NotApplicable if there are none."""
    from schemaquake.workloads.races.grid import GridOptions, chosen_cells  # noqa: PLC0415 - as above

    chosen = [cell for _, cell in chosen_cells(GridOptions(cells=plan.cells), demands.features)]
    return _closest(chosen) if plan.pairs_once else chosen


def _refuse_unraceable(plan: GridPlan, demands: Mapping[str, Demands], able: Mapping[str, Sequence[Any]]) -> None:
    """Refuse nodes and modes with which no cell can be raced: every cluster would be refused in its turn. Raises PlanError."""
    from schemaquake.harness.registry import load  # noqa: PLC0415 - as above
    from schemaquake.results.grid.plan import Batch  # noqa: PLC0415

    for system, demand in demands.items():
        for mode in plan.modes:
            first = Batch(system=system, mode=mode, cells=(able[system][0].name,), turn=0, number=0)
            run_plan = plan.run_plan(first)
            context = run_plan.context(demand.features)
            for name in run_plan.workloads:
                workload = load("workloads", name)
                workload.crew(context)
                workload.faults(context)


def _closest(cells: Sequence[Any]) -> list[Any]:
    """Return the first cell of each pair of statements, which come with the closest relation first; variants are left out."""
    from schemaquake.workloads.statements.meetings import RELATIONS  # noqa: PLC0415 - as above

    first: dict[tuple[str, ...], Any] = {}
    plain = [cell for cell in cells if all(statement.variant_of is None for statement in cell.statements)]
    for cell in sorted(plain, key=lambda one: RELATIONS.index(one.relation)):
        first.setdefault(tuple(statement.name for statement in cell.statements), cell)
    return list(first.values())


def _carry_out(
    plan: GridPlan,
    folder: Any,
    able: dict[str, list[Any]],
    memory_mb: dict[str, int],
    *,
    jobs: int,
    budget_min: float | None,
    go_on: str,
    as_json: bool,
) -> ExitCode:
    from schemaquake.results.grid.page import headline_of  # noqa: PLC0415 - as above
    from schemaquake.results.grid.session import GridSession  # noqa: PLC0415
    from schemaquake.results.summary.cell import document_of  # noqa: PLC0415

    def look(schedule: GridSchedule, done: DoneBatch) -> None:
        broken = sum(bool(race.symptoms) for race in done.facts.races)
        log.info(
            "batch done",
            extra={
                "batch": done.unit.id,
                "races": len(done.facts.races),
                "broke": broken,
                "seconds": round(done.facts.seconds),
                "known": f"{schedule.known} of {schedule.wanted} races",
                **({"error": done.facts.error} if done.facts.error else {}),
            },
        )

    session = GridSession(plan, folder, able, memory_mb)
    with folder.alone(), interruptible():
        try:
            cells, ending = session.run(jobs=jobs, budget_s=None if budget_min is None else budget_min * 60, look=look)
        except OSError as error:
            raise JournalError(
                f"{folder.path} cannot be written: {error.strerror or error}. What was finished is kept: when that is "
                f"mended, such as by more room on the disk, continue with {go_on}"
            ) from error
    console = stderr()
    console.print(headline_of(cells), markup=False)
    if ending != "known":
        console.print(f"{ending}: continue with {go_on}", markup=False, soft_wrap=True)
    console.print(f"page: {folder.path / 'grid.html'}", markup=False)
    if as_json:
        print_json(
            {
                "folder": str(folder.path),
                "page": str(folder.path / "grid.html"),
                "ending": ending,
                "cells": [
                    {
                        **document_of(cell),
                        "worst": None if cell.worst is None else document_of(cell.worst),
                        "findings": [document_of(one) for one in cell.findings],
                    }
                    for cell in cells
                ],
            }
        )
    return _exit_code(cells, ending)


def _rediscovered(
    places: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER|FILE...", help="Folders of grids, of runs of schema-churn, or tables of cells."),
    ],
    *,
    races: Annotated[
        Path | None, typer.Option(metavar=FILE, help="List of races (TOML).", show_default="the project's own")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the known races that a grid, or runs of schema-churn, found without being given them. Exit code 2 if one is lacking."""
    configure_logging(verbose=False)
    from schemaquake.results.grid.rediscovery import read_known_races, rediscover  # noqa: PLC0415 - as above

    found = rediscover(read_known_races(races), places)
    if as_json:
        print_json(found.to_json())
    else:
        write_line(found.to_markdown())
    raise typer.Exit(ExitCode.UNKNOWN if found.lacking() else ExitCode.VALID)


def _exit_code(cells: Sequence[GridCell], ending: str) -> ExitCode:
    """Return 1 if a cell broke, 2 if one is undecided or was not run, 255 if the grid was interrupted."""
    if ending == "interrupted":
        return ExitCode.CRASHED
    states = {cell.state for cell in cells}
    if "broke" in states:
        return ExitCode.INVALID
    return ExitCode.UNKNOWN if states & {"unknown", "not run"} else ExitCode.VALID
