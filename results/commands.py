"""Commands: run, demo, check, report, recover, findings — from a plan to a page.

Progress goes to standard error; standard output belongs to `--json`. Exit codes as in `schemaquake.harness.errors.ExitCode`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from schemaquake.harness.cli.completion import complete_names, complete_systems
from schemaquake.harness.cli.interruption import AGAIN
from schemaquake.harness.cli.json_output import print_json
from schemaquake.harness.cli.options import (
    FILE,
    MIB,
    MINUTES,
    NAME,
    NAMES,
    NUMBER,
    ONE_RUN,
    RUNS,
    RUNS_BELOW,
    SECONDS,
    SYSTEM,
    AsJson,
    Curated,
    Engine,
    KeepData,
    Limit,
    Master,
    Nemesis,
    Options,
    OwnDistribution,
    ResumeAnalysis,
    Runs,
    Verbose,
    Workload,
    end_after_operations,
    number_of_nodes,
    number_of_races,
    number_of_spares,
    random_seed,
    restart_of_nodes,
    settling_limit,
    systems_to_compare,
    time_of_main_phase,
)
from schemaquake.harness.cli.sections import (
    CLUSTER,
    FAULTS,
    JUDGE,
    OUTPUT,
    RUN,
    TIME,
    WORKLOADS,
    add_command,
)
from schemaquake.harness.console import answers, configure_logging, stderr, write_line
from schemaquake.harness.errors import ExitCode, PlanError
from schemaquake.harness.installed_options import refuse_undeclared
from schemaquake.results.engines.masters import is_local
from schemaquake.results.runs.cluster_choice import choose_cluster
from schemaquake.results.runs.option_lists import (
    named_values,
    refuse_below,
    refuse_engine,
    refuse_no_budget,
    refuse_no_time,
    split,
    with_shorthands,
)

if TYPE_CHECKING:
    from schemaquake.harness.model.plan import Plan
    from schemaquake.harness.model.verdict import Verdict

__all__ = ["register"]

log = logging.getLogger(__name__)

_DEMO_SYSTEMS: Final = ("cassandra:5.0.9", "cassandra:6.0-alpha2")
_DEMO_WORKLOADS: Final = ("racing-ddl",)


def register(app: typer.Typer) -> None:
    """Add the commands of this package."""
    add_command(
        app,
        _demo,
        "demo",
        RUN,
        "schemaquake demo",
        "schemaquake demo --system cassandra:4.1.11 --system cassandra:6.0-alpha2 --races 5",
        page="docs/results.md",
        interrupted="runs that ended are kept; begin again with the same command",
    )
    add_command(
        app,
        _run,
        "run",
        RUN,
        "schemaquake run --system cassandra:5.0.9 --workload drop-type",
        "schemaquake run --system simulated:cassandra-5.0 --workload create-table --nemesis partition --seed 7",
        "schemaquake run --cluster cluster.toml --workload schema-churn --rate 5 --nemesis kill --dry-run",
        page="docs/workloads.md",
        sectioned=True,
        interrupted="what was recorded is kept in the run's folder; judge it with: schemaquake recover RUN",
    )
    add_command(
        app,
        _check,
        "check",
        JUDGE,
        "schemaquake check runs/latest",
        "schemaquake check runs/latest --checker table-ids --json",
        "schemaquake check history.edn --model list-append --consistency-models strict-serializable",
        page="docs/checkers.md",
        interrupted="nothing is kept of a file; the analysis of a run goes on with: schemaquake check RUN --resume-analysis",
        computes=True,
    )
    add_command(
        app,
        _report,
        "report",
        JUDGE,
        "schemaquake report runs/latest",
        "schemaquake report runs/latest --ticket SQ-5I7VPJD4 --as jira",
        page="docs/results.md",
        interrupted="the records and the verdict are as they were; draw the reports again with the same command",
        computes=True,
    )
    add_command(
        app,
        _recover,
        "recover",
        JUDGE,
        "schemaquake recover runs/latest",
        page="docs/results.md",
        interrupted="the records are kept; the analysis goes on with: schemaquake recover RUN --resume-analysis",
        computes=True,
    )
    add_command(
        app,
        _findings,
        "findings",
        JUDGE,
        "schemaquake findings runs",
        "schemaquake findings runs --json",
        page="docs/results.md",
        interrupted=AGAIN,
        computes=True,
    )


def _run(
    *,
    workload: Workload,
    nemesis: Nemesis = "none",
    system: Annotated[
        str | None,
        typer.Option(
            metavar=SYSTEM,
            help="System to run, such as cassandra:5.0.9 (schemaquake list systems); a cluster file may name it.",
            autocompletion=complete_systems,
            rich_help_panel=CLUSTER,
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="KIND|FILE",
            help="Kind of cluster (schemaquake list clusters), or the file of a deployed one: FILE.toml.",
            show_default="that of the system: local or simulated",
            rich_help_panel=CLUSTER,
        ),
    ] = None,
    nodes: Annotated[int | None, number_of_nodes("3, or as the cluster file says")] = None,
    spares: Annotated[int, number_of_spares()] = 0,
    data_centers: Annotated[
        int,
        typer.Option(
            metavar=NUMBER,
            help="Data centres, to which the nodes are dealt in turn; --replication-factor is then that of each.",
            rich_help_panel=CLUSTER,
        ),
    ] = 1,
    racks: Annotated[
        int,
        typer.Option(
            metavar=NUMBER,
            help="Racks of each data centre, to which its nodes are dealt in turn; replicas are in as many of them as there are.",
            rich_help_panel=CLUSTER,
        ),
    ] = 1,
    mode: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="barrier: clients released together; partition: on both sides of a cut; single: one after another through one coordinator.",
            show_default="barrier",
            rich_help_panel=WORKLOADS,
        ),
    ] = None,
    races: Annotated[int | None, number_of_races("10")] = None,
    first_race: Annotated[
        int | None,
        typer.Option(
            metavar=NUMBER,
            help="Number of the first race; the others follow it.",
            show_default="0",
            rich_help_panel=WORKLOADS,
        ),
    ] = None,
    until_poisoned: Annotated[
        bool,
        typer.Option(
            "--until-poisoned",
            help="Stop racing on a cluster that refuses every further schema change.",
            rich_help_panel=WORKLOADS,
        ),
    ] = False,
    seed: Annotated[int, random_seed()] = 1,
    time_limit: Annotated[float, time_of_main_phase()] = 60,
    ends_after: Annotated[float | None, end_after_operations()] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="OPERATIONS",
            help="Operations a second of each free-running workload.",
            show_default="as each workload has it",
            rich_help_panel=WORKLOADS,
        ),
    ] = None,
    concurrency: Annotated[
        str | None,
        typer.Option(
            metavar="N|Nn",
            help="Workers of a free-running workload: 6, or 2n for two a node.",
            rich_help_panel=WORKLOADS,
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            metavar=NUMBER,
            help="Replication factor of every keyspace.",
            show_default="3, or the number of nodes if smaller",
            rich_help_panel=CLUSTER,
        ),
    ] = None,
    keyspace_prefix: Annotated[
        str | None,
        typer.Option(
            metavar=NAME, help="Prefix of every keyspace of the run.", show_default="sq", rich_help_panel=WORKLOADS
        ),
    ] = None,
    option: Options = None,
    request_timeout: Annotated[
        float, typer.Option(metavar=SECONDS, help="Time for a client to wait for an answer.", rich_help_panel=TIME)
    ] = 20,
    start_timeout: Annotated[
        float, typer.Option(metavar=SECONDS, help="Time for a node to start and serve.", rich_help_panel=TIME)
    ] = 120,
    settle_limit: Annotated[float, settling_limit()] = 20,
    restart: Annotated[str, restart_of_nodes()] = "rolling",
    keep_data: KeepData = False,
    distribution: OwnDistribution = None,
    engine: Engine = "auto",
    master: Master = None,
    limit: Limit = 120,
    runs: Runs = Path("runs"),
    shrink: Annotated[
        float | None,
        typer.Option(
            metavar=MINUTES,
            help="After a run that broke, look this long for the few statements of each finding.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    dry: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print the schedule of faults by node, with the commands, and touch nothing.",
            rich_help_panel=FAULTS,
        ),
    ] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Run workloads under faults on a real or simulated cluster, judge the history, and report it."""
    configure_logging(verbose=verbose)
    from schemaquake.harness.model.plan import Plan  # noqa: PLC0415 - every other command would wait for it

    choice = choose_cluster(cluster, system=system, nodes=nodes, keyspace_prefix=keyspace_prefix)
    workloads = split(workload)
    refuse_no_budget(shrink, "--shrink")
    plan = Plan(
        system=choice.system,
        workloads=workloads,
        nemeses=() if nemesis == "none" else split(nemesis),
        cluster=choice.cluster,
        cluster_file=choice.cluster_file,
        nodes=choice.nodes,
        spares=spares,
        data_centers=data_centers,
        racks=racks,
        seed=seed,
        time_limit_s=time_limit,
        ends_after_s=ends_after,
        rate=rate,
        concurrency=_concurrency(concurrency, choice.nodes),
        replication_factor=replication_factor,
        keyspace_prefix=choice.keyspace_prefix,
        options=with_shorthands(
            workloads,
            named_values(option or []),
            {"mode": mode, "races": races, "first-race": first_race, "until-poisoned": until_poisoned},
        ),
        request_timeout_s=request_timeout,
        start_timeout_s=start_timeout,
        settle_limit_s=settle_limit,
        restart=restart,  # type: ignore[arg-type]  # Plan rejects an unknown kind of restart, by name
        keep_data=keep_data,
        distribution=distribution,
    )
    from schemaquake.harness.run.applicability import refuse_inapplicable  # noqa: PLC0415 - as below
    from schemaquake.results.runs.execution import carry_out, print_summary, tell_on  # noqa: PLC0415 - pyarrow takes half a second to import

    refuse_undeclared(plan.options, workloads=plan.workloads, nemeses=plan.nemeses, cluster=plan.cluster)
    refuse_inapplicable(plan)
    refuse_engine(engine)
    refuse_no_time(limit, "--limit")
    if dry:
        _print_dry_run(plan, as_json=as_json)
        raise typer.Exit(ExitCode.VALID)
    finished = carry_out(plan, runs, engine=engine, master=master, limit_s=limit, tell=tell_on(stderr()))
    if as_json:
        print_json(finished.document())
    print_summary(finished, stderr())
    if shrink is not None and finished.exit_code is ExitCode.INVALID:
        from schemaquake.results.shrink.commands import shrink_every_finding  # noqa: PLC0415 - most runs have no use for it

        ends = time.monotonic() + 60 * shrink
        shrink_every_finding(finished.store.folder, tries=3, confirm=10, rate=0.5, ends=ends, as_json=False)
    raise typer.Exit(finished.exit_code)


def _print_dry_run(plan: Plan, *, as_json: bool) -> None:
    from schemaquake.results.runs.dry_run import dry_run, lines_of  # noqa: PLC0415 - as above

    faults = dry_run(plan)
    if as_json:
        print_json({"plan": plan.to_json(), "faults": [fault.to_json() for fault in faults]})
        return
    for line in lines_of(plan, faults):
        write_line(line)


def _demo(
    *,
    seed: Annotated[int, random_seed()] = 1,
    races: Annotated[int, number_of_races()] = 3,
    system: Annotated[list[str] | None, systems_to_compare(", ".join(_DEMO_SYSTEMS))] = None,
    runs: Runs = Path("runs"),
    engine: Engine = "auto",
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Run the same races on Cassandra 5.0 (they break it) and 6.0 (it holds), and compare both on one page."""
    configure_logging(verbose=verbose)
    from schemaquake.harness.model.plan import Plan  # noqa: PLC0415 - as above
    from schemaquake.harness.run.applicability import refuse_inapplicable  # noqa: PLC0415 - as above
    from schemaquake.results.runs.comparing import compare_runs, print_comparison, run_all  # noqa: PLC0415 - as above

    plans = [
        Plan(
            system=name,
            workloads=_DEMO_WORKLOADS,
            options=with_shorthands(_DEMO_WORKLOADS, {}, {"races": races}),
            seed=seed,
            time_limit_s=30,
            restart="together",
            settle_limit_s=10,
        )
        for name in system or _DEMO_SYSTEMS
    ]
    refuse_engine(engine)
    for plan in plans:
        refuse_inapplicable(plan)
    compared = compare_runs(run_all(plans, runs, engine=engine, limit_s=60), runs)
    if as_json:
        print_json(compared.document())
    print_comparison(compared, stderr())
    raise typer.Exit(ExitCode.VALID if compared.completed else ExitCode.CRASHED)


def _check(
    history: Annotated[
        list[Path], typer.Argument(metavar="RUN|FILE...", help="Folders of runs, or files of histories.")
    ],
    *,
    checker: Annotated[
        str | None,
        typer.Option(
            metavar=NAMES,
            help="One or more checkers (schemaquake list checkers).",
            show_default="all",
            autocompletion=complete_names("checkers", many=True),
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Model of the history, such as cas-register, set-full or list-append."),
    ] = None,
    history_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Format of the history: edn, json, parquet or another (schemaquake list formats).",
            show_default="as the file's name says",
        ),
    ] = None,
    independent: Annotated[
        bool, typer.Option("--independent", help="Every value is [key value]: judge each key separately.")
    ] = False,
    initial: Annotated[
        str | None, typer.Option(metavar="JSON", help="Value before the first operation, as JSON.")
    ] = None,
    failed_cas: Annotated[
        str,
        typer.Option(
            metavar="MEANING", help="informative: a failed cas proves another value; ignored: it proves nothing."
        ),
    ] = "ignored",
    null_reads: Annotated[
        str, typer.Option(metavar="MEANING", help="Meaning of a read of null: value (null was read), or unknown.")
    ] = "value",
    consistency_models: Annotated[
        str | None,
        typer.Option(metavar=NAMES, help="Consistency models of transactions, such as strict-serializable."),
    ] = None,
    linearizable_keys: Annotated[
        bool, typer.Option("--linearizable-keys", help="With --model rw-register: each key is linearizable.")
    ] = False,
    knossos: Annotated[
        Path | None,
        typer.Option(
            metavar=FILE, help="Jar of knossos, or a launcher of it: judges too, and the verdicts are compared."
        ),
    ] = None,
    memory_limit: Annotated[
        int, typer.Option(metavar=MIB, help="Memory of one search; beyond it, the verdict is unknown.")
    ] = 512,
    memory: Annotated[
        int | None,
        typer.Option(
            metavar=MIB,
            help="Memory for the check; a larger history of transactions or registers is judged in pieces.",
            show_default="most of the machine's",
        ),
    ] = None,
    resume_analysis: ResumeAnalysis = False,
    report: Annotated[
        Path | None,
        typer.Option(metavar=FILE, help="Write a page on the judged history file, with pictures of cycles."),
    ] = None,
    engine: Engine = "auto",
    master: Master = None,
    limit: Limit = 120,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Judge stored files again, and print each with its verdict: true, false or unknown."""
    configure_logging(verbose=verbose)
    refuse_below(1, memory=memory, memory_limit=memory_limit)
    refuse_no_time(limit, "--limit")
    memory_bytes = None if memory is None else memory << 20
    if len(history) == 1 and history_format in (None, "parquet"):
        alone = model is not None or (checker is not None and "," not in checker)
        at_once = engine == "local" or (alone and is_local(master))
        _begin_examination(history[0], at_once=at_once, memory_bytes=memory_bytes)
    from schemaquake.harness.history.lean_arrow import lean_arrow  # noqa: PLC0415 - as above

    lean_arrow()
    from schemaquake.results.judging.history_models import ModelOptions  # noqa: PLC0415 - as above
    from schemaquake.results.runs.checking import check_document, check_path, exit_code_of_all, write_page  # noqa: PLC0415 - as above

    options = ModelOptions(
        initial=initial,
        failed_cas=failed_cas,  # type: ignore[arg-type]  # the options reject an unknown value, by name
        null_reads=null_reads,  # type: ignore[arg-type]  # the same
        consistency_models=split(consistency_models or ""),
        linearizable_keys=linearizable_keys,
        memory_bytes=memory_limit << 20,
    )
    if report is not None and (len(history) != 1 or history[0].is_dir()):
        raise PlanError("--report is for one history file; a run's folder has a report of its own")
    names = None if checker is None else list(split(checker))
    verdicts = [
        (
            path,
            check_path(
                path,
                checkers=names,
                file_format=history_format,
                engine=engine,
                master=master,
                limit_s=limit,
                model=model,
                options=options,
                independent=independent,
                knossos=knossos,
                memory_bytes=memory_bytes,
                resume=resume_analysis,
            ),
        )
        for path in history
    ]
    if report is not None:
        write_page(report, *verdicts[0])
        stderr().print(str(report), markup=False)
    if as_json:
        whole = checker is None and model is None
        documents = [check_document(path, verdict, whole=whole) for path, verdict in verdicts]
        print_json(documents[0] if len(documents) == 1 else documents)
    else:
        for path, verdict in verdicts:
            write_line(f"{path}\t{str(verdict.valid).lower()}")
    _print_reasons(verdicts, only_disagreements=as_json)
    raise typer.Exit(exit_code_of_all(verdict for _, verdict in verdicts))


def _print_reasons(verdicts: Sequence[tuple[Path, Verdict]], *, only_disagreements: bool) -> None:
    """Print why paths are undecided, and where a second opinion disagrees, to standard error."""
    for path, verdict in verdicts:
        if verdict.figures.get("disagreement"):
            stderr().print(f"{path}: {verdict.reason}", style="bold red", markup=False)
        elif verdict.valid == "unknown" and not only_disagreements:
            stderr().print(f"{path}: {verdict.reason}", markup=False)


def _begin_examination(path: Path, *, at_once: bool, memory_bytes: int | None) -> None:
    """Begin to examine a Parquet file that another tool made, while the command imports what it judges with.

    `at_once`: it will be read as a whole by one process of this machine, if it fits into its memory.
    """
    if path.suffix != ".parquet" or not path.is_file():
        return
    from schemaquake.results.judging.memory import allowed_bytes, fits_at_once  # noqa: PLC0415 - as above
    from schemaquake.results.store.examination import begin_examination  # noqa: PLC0415 - as above

    fits = fits_at_once(path.stat().st_size, allowed_bytes() if memory_bytes is None else memory_bytes)
    begin_examination(path.resolve(), hand_over=at_once and fits)


def _report(
    run: Annotated[Path, typer.Argument(metavar=ONE_RUN, help="Folder of a judged run.")],
    *,
    ticket: Annotated[
        str | None,
        typer.Option(metavar="SQ-ID", help="Print the text of a ticket for this finding, and draw nothing."),
    ] = None,
    markup: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="MARKUP", help="Notation of the ticket: markdown or jira.", show_default="markdown"
        ),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Draw a run's reports again from its stored files."""
    configure_logging(verbose=verbose)
    if markup is not None and ticket is None:
        raise PlanError(f"--as {markup} is the notation of a ticket: name its finding with --ticket SQ-…")
    if ticket is not None:
        from schemaquake.results.report.from_store import ticket_of  # noqa: PLC0415 - as above

        write_line(ticket_of(run, ticket, markup or "markdown").rstrip("\n"))
        raise typer.Exit(ExitCode.VALID)
    from schemaquake.results.runs.execution import write_reports  # noqa: PLC0415 - as above

    stderr().print(str(write_reports(run)), markup=False)
    raise typer.Exit(ExitCode.VALID)


def _recover(
    run: Annotated[Path, typer.Argument(metavar=ONE_RUN, help="Folder of an interrupted run.")],
    *,
    resume_analysis: ResumeAnalysis = False,
    engine: Engine = "auto",
    limit: Limit = 120,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Merge an interrupted run's journals into a history, judge it and report it."""
    configure_logging(verbose=verbose)
    from schemaquake.results.runs.execution import conclude, print_summary  # noqa: PLC0415 - as above

    refuse_engine(engine)
    refuse_no_time(limit, "--limit")
    finished = conclude(run, engine=engine, limit_s=limit, resume=resume_analysis)
    if as_json:
        print_json(finished.document())
    print_summary(finished, stderr())
    raise typer.Exit(finished.exit_code)


def _findings(
    runs: Annotated[list[Path], typer.Argument(metavar=RUNS, help=RUNS_BELOW)],
    *,
    curated: Curated = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """List the findings of several runs: which versions each affects, on which it was not seen, n of m, first and last."""
    configure_logging(verbose=verbose)
    from schemaquake.results.findings.curation import NOTHING_CURATED, read_curation  # noqa: PLC0415 - as above
    from schemaquake.results.runs.tracking import print_tracked, track_runs  # noqa: PLC0415 - as above

    tracked = track_runs(runs, NOTHING_CURATED if curated is None else read_curation(curated))
    if as_json:
        print_json(tracked.to_json())
    print_tracked(tracked, answers(as_json=as_json))
    raise typer.Exit(ExitCode.VALID)


def _concurrency(text: str | None, nodes: int) -> int | None:
    """Parse `6`, or `2n`: two a node."""
    if text is None:
        return None
    number = text.removesuffix("n")
    if not number.isdigit() or int(number) == 0:
        raise PlanError(f'--concurrency is a number of workers (6) or a number a node (2n), not "{text}"')
    return int(number) * (nodes if text.endswith("n") else 1)
