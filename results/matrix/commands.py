"""Commands: matrix — every combination of system, workload and condition, repeated until each rate is known."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from schemaquake.harness.cli.completion import complete_names
from schemaquake.harness.cli.json_output import print_json
from schemaquake.harness.cli.options import (
    FILE,
    FOLDER,
    NAMES,
    NUMBER,
    AsJson,
    Engine,
    JudgeAgain,
    Options,
    Runs,
    Verbose,
    clusters_at_once,
    end_after_operations,
    kind_of_cluster,
    number_of_nodes,
    number_of_races,
    number_of_spares,
    random_seed,
    restart_of_nodes,
    settling_limit,
    systems_to_compare,
    time_budget_of,
    time_of_main_phase,
)
from schemaquake.harness.cli.sections import COMPARE, FAULTS, WORKLOADS, add_command
from schemaquake.harness.console import configure_logging, stderr
from schemaquake.harness.errors import ExitCode, PlanError
from schemaquake.harness.installed_options import refuse_undeclared
from schemaquake.results.runs.cluster_choice import usual_cluster
from schemaquake.results.runs.interrupting import interruptible
from schemaquake.results.runs.option_lists import named_values, refuse_engine, split
from schemaquake.results.runs.resuming import resuming
from schemaquake.results.store.progress import plan_differences

if TYPE_CHECKING:
    from schemaquake.results.matrix.matrix_plan import Condition, MatrixPlan, Preset

__all__ = ["register"]

log = logging.getLogger(__name__)

_PAGE_EVERY_S: Final = 20.0
_RESERVED_S: Final = 20.0
"""Part of the time budget reserved for the page and the tables, s."""


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    add_command(
        app,
        _matrix,
        "matrix",
        COMPARE,
        "schemaquake matrix --quick",
        "schemaquake matrix --system simulated:cassandra-5.0 --system simulated:cassandra-6.0 --workload drop-type",
        "schemaquake matrix --resume runs/20261127T120000Z-matrix --confidence 0.1",
        page="docs/matrix.md",
        sectioned=True,
        interrupted="runs that ended are kept; go on with: schemaquake matrix --resume FOLDER",
    )


def _matrix(
    *,
    system: Annotated[list[str] | None, systems_to_compare("those of --quick or --full")] = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(
            metavar=NAMES,
            help="One or more workloads (schemaquake list workloads), each a row; may be repeated.",
            autocompletion=complete_names("workloads", many=True),
            rich_help_panel=WORKLOADS,
        ),
    ] = None,
    nemesis: Annotated[
        list[str] | None,
        typer.Option(
            metavar=NAMES,
            help="One or more nemeses (schemaquake list nemeses), or none; repeat for more combinations.",
            show_default="none",
            autocompletion=complete_names("nemeses", "none", many=True),
            rich_help_panel=FAULTS,
        ),
    ] = None,
    mode: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODE",
            help="barrier or partition; repeat for both.",
            show_default="barrier",
            rich_help_panel=WORKLOADS,
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Fifteen versions of Cassandra; the default without --system.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Five versions and the four fastest races.")] = False,
    topology: Annotated[
        bool,
        typer.Option("--topology", help="Operations on the topology, each alone and with a kill at each of its steps."),
    ] = False,
    upgrades: Annotated[
        bool, typer.Option("--upgrades", help="Rolling upgrades, each alone and with a kill at each of their steps.")
    ] = False,
    controls: Annotated[
        bool | None,
        typer.Option(
            "--controls/--no-controls",
            help="Also run the same statements one after another through one coordinator, where nothing may break.",
            show_default="with --full and --quick",
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(metavar="WIDTH", help="Repeat a cell until the 95 % interval of its rate is at most ± this wide."),
    ] = None,
    tries_max: Annotated[
        int | None,
        typer.Option(metavar=NUMBER, help="Largest number of runs of a cell.", show_default="1 if systems are named"),
    ] = None,
    nodes: Annotated[int | None, number_of_nodes("3")] = None,
    spares: Annotated[int | None, number_of_spares("0")] = None,
    races: Annotated[int | None, number_of_races("6")] = None,
    seed: Annotated[int | None, random_seed("1")] = None,
    time_limit: Annotated[float | None, time_of_main_phase("30")] = None,
    ends_after: Annotated[float | None, end_after_operations()] = None,
    settle_limit: Annotated[float | None, settling_limit("10")] = None,
    restart: Annotated[str | None, restart_of_nodes("together")] = None,
    cluster: Annotated[str | None, kind_of_cluster()] = None,
    option: Options = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar=FOLDER, help="Continue the matrix of this folder, perhaps with another --confidence or --tries-max."
        ),
    ] = None,
    known: Annotated[
        Path | None,
        typer.Option(
            metavar=FILE,
            help="runs.parquet of an earlier matrix, also of another machine: begin with those of its runs that have the same settings.",
        ),
    ] = None,
    judge_again: JudgeAgain = False,
    jobs: Annotated[int | None, clusters_at_once("one per core, more while cores are idle")] = None,
    time_budget: Annotated[float | None, time_budget_of("55 with --full, 9 with --quick")] = None,
    runs: Runs = Path("runs"),
    engine: Engine = "auto",
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Run every combination of systems, workloads, nemeses and modes until each rate is known, and draw one page."""
    configure_logging(verbose=verbose)
    from schemaquake.results.matrix.matrix_plan import expanded, preset  # noqa: PLC0415 - all other commands would wait
    from schemaquake.results.summary.run_summary import CONTROL  # noqa: PLC0415

    presets: dict[Preset, bool] = {"quick": quick, "full": full, "topology": topology, "upgrades": upgrades}
    named = [name for name, is_given in presets.items() if is_given]
    if len(named) > 1:
        raise PlanError(f"--{named[0]} and --{named[1]} exclude each other: give one of them")
    chosen: Preset | None = named[0] if named else "full" if not system and resume is None else None
    asked = {
        "systems": tuple(system) if system else None,
        "workloads": expanded([part for entry in workload for part in split(entry)]) if workload else None,
        "conditions": _conditions(mode, nemesis),
        "controls": True if mode and CONTROL in mode else controls,
        "confidence": confidence,
        "tries_max": tries_max,
        "nodes": nodes,
        "spares": spares,
        "races": races,
        "seed": seed,
        "time_limit_s": time_limit,
        "ends_after_s": ends_after,
        "settle_limit_s": settle_limit,
        "restart": restart,
        "cluster": cluster,
        "options": named_values(option) if option else None,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    plan = None if chosen is None and resume is not None else planned(chosen, given)
    if resume is not None:
        plan = _resumed(resume, plan, given)
    assert plan is not None
    refuse_undeclared(plan.all_options, workloads=plan.all_workloads, nemeses=plan.all_nemeses, cluster=plan.cluster)
    refuse_engine(engine)
    if nemesis and resume is None:  # those of a preset are printed as not applicable where they are not
        _refuse_impossible(plan)
    budget = time_budget if time_budget is not None else preset(chosen)["time_budget_min"] if chosen else None
    if known is not None and resume is not None:
        raise PlanError("--known begins a new matrix, and --resume goes on with one: leave out one of them")
    if judge_again and resume is None:
        raise PlanError("--judge-again needs recorded runs: name the matrix with --resume FOLDER")
    code = _carry_out(
        plan,
        runs,
        resume=resume,
        known=known,
        jobs=jobs,
        budget_min=budget,
        engine=engine,
        as_json=as_json,
        verbose=verbose,
        judge_again_only=judge_again,
    )
    raise typer.Exit(code)


def _refuse_impossible(plan: MatrixPlan) -> None:
    """Refuse nemeses that are not installed, and those that are applicable to none of the systems. Raises PlanError."""
    from schemaquake.harness.registry import load  # noqa: PLC0415 - as above
    from schemaquake.harness.run.applicability import why_impossible  # noqa: PLC0415 - as above

    for name in plan.all_nemeses:
        load("nemeses", name)
    for condition in plan.conditions:
        reasons = [why_impossible(plan.first_run(system, condition)) for system in plan.systems]
        if all(reasons):
            raise PlanError("; ".join(filter(None, reasons)))


def planned(chosen: Preset | None, given: dict[str, Any]) -> MatrixPlan:
    """Build the plan from the options given, on top of the preset. Without a preset, each cell is run once. Raises PlanError."""
    from schemaquake.results.matrix.matrix_plan import MatrixPlan, conditions_of, preset, shell  # noqa: PLC0415 - as above

    values: dict[str, Any] = {"tries_max": 1, "controls": False}
    if chosen is not None:
        lists = preset(chosen)
        kind = usual_cluster(given.get("systems", lists["systems"]))
        values = {
            "systems": tuple(lists["systems"]),
            "workloads": tuple(lists.get("workloads_on", {}).get(kind, lists["workloads"])),
            "conditions": conditions_of(chosen),
            "controls": "modes" in lists,
            **lists.get("values", {}),
            **{name: lists[name] for name in ("races", "confidence", "tries_max")},
        }
    elif "confidence" in given:
        del values["tries_max"]
    if "workloads" not in values | given:
        raise PlanError("no workload: name at least one with --workload (schemaquake list workloads)")
    values |= given
    values.setdefault("cluster", usual_cluster(values["systems"]))
    return MatrixPlan(**values, command=shell(["schemaquake", *sys.argv[1:]]))


def _resumed(folder: Path, plan: MatrixPlan | None, given: dict[str, Any]) -> MatrixPlan:
    """Return the plan of the folder, with the goals that are given. Raises PlanError if the options ask for another plan."""
    from schemaquake.results.matrix.matrix_folder import MatrixFolder  # noqa: PLC0415 - pyarrow takes half a second to import

    before = MatrixFolder(folder).plan()
    goals = {name: given[name] for name in before.goals if name in given}
    before = before.towards(**goals)
    wanted = plan if plan is not None else before
    differ = plan_differences(before.to_json(), wanted.to_json())
    differ += [name for name, value in given.items() if plan is None and getattr(before, name) != value]
    if differ:
        raise PlanError(
            f"the plan of {folder} differs in {', '.join(differ)}. Resume it without these options, or start a new matrix."
        )
    return before


def _carry_out(
    plan: MatrixPlan,
    runs: Path,
    *,
    resume: Path | None,
    known: Path | None,
    jobs: int | None,
    budget_min: float | None,
    engine: str,
    as_json: bool,
    verbose: bool,
    judge_again_only: bool,
) -> ExitCode:
    from schemaquake.results.matrix import machine  # noqa: PLC0415 - as above
    from schemaquake.results.matrix.display import describe_undecided, overview  # noqa: PLC0415
    from schemaquake.results.matrix.judging_again import judge_again  # noqa: PLC0415
    from schemaquake.results.matrix.matrix_folder import MatrixFolder  # noqa: PLC0415
    from schemaquake.results.matrix.recorded import fitting, read_runs  # noqa: PLC0415
    from schemaquake.results.matrix.session import Session  # noqa: PLC0415
    from schemaquake.results.runs.tracking import findings_table  # noqa: PLC0415

    if jobs is not None and jobs < 1:
        raise PlanError(f"--jobs must be at least 1, not {jobs}")
    if budget_min is not None and not budget_min > 0:
        raise PlanError(f"--time-budget must be more than 0 minutes, not {budget_min:g}")
    demands = machine.demands_of(plan)
    recorded = [] if known is None else read_runs(known)
    earlier = fitting(plan, recorded)
    if known is not None:
        log.info("earlier runs", extra={"file": str(known), "runs": len(recorded), "of this matrix": len(earlier)})
    folder = MatrixFolder.create(runs, plan, machine.facts()) if resume is None else MatrixFolder(resume)
    budget_s = None if budget_min is None else max(1.0, budget_min * 60 - _RESERVED_S)
    with folder.alone(), interruptible():
        folder.append_goals(plan)
        for one in earlier:
            folder.append(one)
        if judge_again_only:
            judge_again(folder)
            budget_s = 0.0
        session = Session(plan, folder, demands, page_every_s=_PAGE_EVERY_S)
        matrix, ending = session.run(
            at_once=jobs or machine.clusters_at_once(), elastic=jobs is None, budget_s=budget_s, engine=engine
        )
    if as_json:
        print_json({**matrix.to_json(), "folder": str(folder.path), "page": str(folder.path / "matrix.html")})
    console = stderr()
    if matrix.findings:
        console.print(findings_table(matrix.findings))
    console.print(overview(matrix))
    for note in (*describe_undecided(matrix), *matrix.notes):
        console.print(
            note, markup=False, soft_wrap=True, style="bold red" if note.startswith("A CONTROL") else "yellow"
        )
    if ending != "known":
        flags = [] if engine == "auto" else ["--engine", engine]
        flags += [flag for flag, is_given in (("--json", as_json), ("--verbose", verbose)) if is_given]
        go_on = resuming("matrix", folder.path, jobs=jobs, budget_min=budget_min, flags=flags)
        console.print(f"{ending}: continue with {go_on}", markup=False, soft_wrap=True)
    console.print(f"page: {folder.path / 'matrix.html'}", markup=False)
    return exit_code(matrix, ending)


def exit_code(matrix: Any, ending: str) -> ExitCode:
    """Return 1 if a cell broke, 2 if a cell is undecided or was not run, 255 if the matrix was interrupted."""
    if ending == "interrupted":
        return ExitCode.CRASHED
    states = {cell.state for cell in (*matrix.cells, *matrix.controls) if cell.anomaly is None}
    if "broke" in states:
        return ExitCode.INVALID
    return ExitCode.UNKNOWN if states & {"unknown", "not run"} or "held" not in states else ExitCode.VALID


def _conditions(modes: Sequence[str] | None, nemeses: Sequence[str] | None) -> tuple[Condition, ...] | None:
    if not modes and not nemeses:
        return None
    from schemaquake.results.matrix.matrix_plan import Condition  # noqa: PLC0415 - as above
    from schemaquake.results.summary.run_summary import CONTROL  # noqa: PLC0415

    raced = [mode for mode in modes or ["barrier"] if mode != CONTROL] or ["barrier"]
    return tuple(
        Condition(mode, () if faults == "none" else split(faults))  # type: ignore[arg-type]  # the workload rejects what is no mode
        for faults in nemeses or ["none"]
        for mode in raced
    )
