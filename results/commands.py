"""Commands: run, demo, matrix, check, report, recover — from a plan to a page.

Progress goes to standard error; standard output belongs to `--json`. Exit codes as in `harness.errors.ExitCode`.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer

from harness.console import configure_logging, stderr
from harness.errors import ExitCode, PlanError
from harness.plan import Plan

__all__ = ["register"]

log = logging.getLogger(__name__)

_DEMO_SYSTEMS: Final = ("cassandra:5.0.9", "cassandra:6.0-alpha2")

# ── options that several commands share ──────────────────────────────────────────────────────────────────────────────

Runs = Annotated[Path, typer.Option("--runs", help="the folder that takes the run's folder")]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON document on standard output")]
Engine = Annotated[str, typer.Option(help="where checkers run: local, spark, or auto (by the size of the history)")]
Master = Annotated[str | None, typer.Option(help="a Spark master, for example spark://host:7077 or local[4]")]
Limit = Annotated[float, typer.Option("--limit", help="seconds for each checker before it says unknown")]
Seed = Annotated[int, typer.Option(help="fixes the schedule: operations, races, faults")]
Nodes = Annotated[int, typer.Option(help="how many nodes")]
Races = Annotated[int, typer.Option(help="how many races of each racing workload")]
Mode = Annotated[str, typer.Option(help="barrier: clients released together; partition: on both sides of a cut")]
Restart = Annotated[str, typer.Option(help="of every node before the last readings: rolling, together or none")]
TimeLimit = Annotated[
    float, typer.Option(help="seconds of the main phase, for workloads that never end and for faults")
]
SettleLimit = Annotated[float, typer.Option(help="seconds to wait for schema agreement before calling it disagreement")]
StartTimeout = Annotated[float, typer.Option(help="seconds a node may take to serve")]
ClusterName = Annotated[str, typer.Option("--cluster", help="the kind of cluster (schemaquake list clusters)")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="every step")]


def register(app: typer.Typer) -> None:
    """Add the commands of this package."""
    app.command("demo")(_demo)
    app.command("run")(_run)
    app.command("matrix")(_matrix)
    app.command("check")(_check)
    app.command("report")(_report)
    app.command("recover")(_recover)


def _run(
    *,
    system: Annotated[str, typer.Option(help="what to run, for example cassandra:5.0.9")],
    workload: Annotated[str, typer.Option(help="one or more, with commas (schemaquake list workloads)")],
    nemesis: Annotated[str, typer.Option(help="none, or one or more with commas (schemaquake list nemeses)")] = "none",
    cluster: ClusterName = "local",
    nodes: Nodes = 3,
    mode: Mode = "barrier",
    races: Races = 10,
    seed: Seed = 1,
    time_limit: TimeLimit = 60,
    rate: Annotated[float | None, typer.Option(help="operations a second of each free-running workload")] = None,
    concurrency: Annotated[
        str | None, typer.Option(help="workers of a free-running workload: 6, or 2n for two a node")
    ] = None,
    replication_factor: Annotated[int | None, typer.Option(help="of every keyspace; 3, or fewer nodes")] = None,
    keyspace_prefix: Annotated[str, typer.Option(help="of every keyspace the run makes")] = "sq",
    option: Annotated[list[str] | None, typer.Option("-O", help="name=value, for workloads and nemeses")] = None,
    request_timeout: Annotated[float, typer.Option(help="seconds until a client gives up on an answer")] = 20,
    start_timeout: StartTimeout = 120,
    settle_limit: SettleLimit = 20,
    restart: Restart = "rolling",
    keep_data: Annotated[bool, typer.Option(help="keep the nodes' data directories")] = False,
    distribution: Annotated[Path | None, typer.Option(help="a Cassandra tarball or folder of your own")] = None,
    engine: Engine = "auto",
    master: Master = None,
    limit: Limit = 120,
    runs: Runs = Path("runs"),
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Run workloads under faults on a real cluster, judge what happened, and report it."""
    configure_logging(verbose=verbose)
    plan = Plan(
        system=system,
        workloads=_split(workload),
        nemeses=() if nemesis == "none" else _split(nemesis),
        cluster=cluster,
        nodes=nodes,
        mode=mode,  # type: ignore[arg-type]  # Plan rejects what is no mode, by name
        races=races,
        seed=seed,
        time_limit_s=time_limit,
        rate=rate,
        concurrency=_concurrency(concurrency, nodes),
        replication_factor=replication_factor,
        keyspace_prefix=keyspace_prefix,
        options=_options(option or []),
        request_timeout_s=request_timeout,
        start_timeout_s=start_timeout,
        settle_limit_s=settle_limit,
        restart=restart,  # type: ignore[arg-type]  # the same
        keep_data=keep_data,
        distribution=distribution,
    )
    from results.execution import carry_out, print_summary  # noqa: PLC0415 - pyarrow takes half a second to import

    finished = carry_out(plan, runs, engine=engine, master=master, limit_s=limit)
    if as_json:
        _print_json(finished.document())
    print_summary(finished, stderr())
    raise typer.Exit(finished.exit_code)


def _demo(
    *,
    seed: Seed = 1,
    races: Annotated[int, typer.Option(help="of each kind, on each system")] = 3,
    system: Annotated[list[str] | None, typer.Option(help="the systems to compare")] = None,
    runs: Runs = Path("runs"),
    engine: Engine = "auto",
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Run the headline: the same races on Cassandra 5.0 (they break it) and 6.0 (it holds), then one page that compares them."""
    configure_logging(verbose=verbose)
    from results.comparing import compare_runs, print_comparison, run_all  # noqa: PLC0415 - as above

    plans = [
        Plan(
            system=name,
            workloads=("racing-ddl",),
            races=races,
            seed=seed,
            time_limit_s=30,
            restart="together",
            settle_limit_s=10,
        )
        for name in system or _DEMO_SYSTEMS
    ]
    compared = compare_runs(run_all(plans, runs, engine=engine, limit_s=60), runs)
    if as_json:
        _print_json(compared.document())
    print_comparison(compared, stderr())
    raise typer.Exit(ExitCode.VALID if compared.completed else ExitCode.CRASHED)


def _matrix(
    *,
    system: Annotated[list[str], typer.Option(help="a column; repeat for more")],
    workload: Annotated[list[str], typer.Option(help="a row; repeat, or use commas")],
    nemesis: Annotated[
        list[str] | None, typer.Option(help="none, or names with commas; repeat for more combinations")
    ] = None,
    mode: Annotated[list[str] | None, typer.Option(help="barrier or partition; repeat for both")] = None,
    nodes: Nodes = 3,
    races: Races = 6,
    seed: Seed = 1,
    time_limit: TimeLimit = 30,
    restart: Restart = "together",
    settle_limit: SettleLimit = 10,
    runs: Runs = Path("runs"),
    engine: Engine = "auto",
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Run every combination of systems, workloads, nemeses and modes, then one comparison page."""
    configure_logging(verbose=verbose)
    from results.comparing import compare_runs, print_comparison, run_all  # noqa: PLC0415 - as above

    plans = [
        Plan(
            system=name,
            workloads=(one,),
            nemeses=() if faults == "none" else _split(faults),
            mode=how,  # type: ignore[arg-type]  # Plan rejects what is no mode, by name
            nodes=nodes,
            races=races,
            seed=seed,
            time_limit_s=time_limit,
            restart=restart,  # type: ignore[arg-type]  # the same
            settle_limit_s=settle_limit,
        )
        for name in system
        for one in [part for entry in workload for part in _split(entry)]
        for faults in nemesis or ["none"]
        for how in mode or ["barrier"]
    ]
    compared = compare_runs(run_all(plans, runs, engine=engine), runs)
    if as_json:
        _print_json(compared.document())
    print_comparison(compared, stderr())
    raise typer.Exit(compared.exit_code)


def _check(
    history: Annotated[list[Path], typer.Argument(help="runs' folders, or history files")],
    *,
    checker: Annotated[str | None, typer.Option(help="only these, with commas (schemaquake list checkers)")] = None,
    history_format: Annotated[
        str | None, typer.Option("--format", help="parquet, if the file's name does not say so")
    ] = None,
    engine: Engine = "auto",
    master: Master = None,
    limit: Limit = 120,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Judge stored files again, and nothing else: prints FILE<TAB>true|false|unknown, or one JSON document."""
    configure_logging(verbose=verbose)
    from results.checking import check_path, exit_code_of_all  # noqa: PLC0415 - as above

    names = None if checker is None else list(_split(checker))
    verdicts = [
        (
            path,
            check_path(path, checkers=names, file_format=history_format, engine=engine, master=master, limit_s=limit),
        )
        for path in history
    ]
    if as_json:
        documents = [{"path": str(path), **verdict.to_json()} for path, verdict in verdicts]
        _print_json(documents[0] if len(documents) == 1 else documents)
    else:
        for path, verdict in verdicts:
            sys.stdout.write(f"{path}\t{str(verdict.valid).lower()}\n")
    raise typer.Exit(exit_code_of_all(verdict for _, verdict in verdicts))


def _report(
    run: Annotated[Path, typer.Argument(help="the run's folder")],
    *,
    verbose: Verbose = False,
) -> None:
    """Draw a run's reports again from its stored files."""
    configure_logging(verbose=verbose)
    from results.execution import write_reports  # noqa: PLC0415 - as above

    stderr().print(str(write_reports(run)), markup=False)
    raise typer.Exit(ExitCode.VALID)


def _recover(
    run: Annotated[Path, typer.Argument(help="the folder of a run that was interrupted")],
    *,
    engine: Engine = "auto",
    limit: Limit = 120,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Make a history of an interrupted run's journals, judge it and report it."""
    configure_logging(verbose=verbose)
    from results.execution import conclude, print_summary  # noqa: PLC0415 - as above

    finished = conclude(run, engine=engine, limit_s=limit)
    if as_json:
        _print_json(finished.document())
    print_summary(finished, stderr())
    raise typer.Exit(finished.exit_code)


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _concurrency(text: str | None, nodes: int) -> int | None:
    """`6`, or `2n`: two a node."""
    if text is None:
        return None
    number = text.removesuffix("n")
    if not number.isdigit() or int(number) == 0:
        raise PlanError(f'--concurrency is a number of workers (6) or a number a node (2n), not "{text}"')
    return int(number) * (nodes if text.endswith("n") else 1)


def _options(entries: Sequence[str]) -> dict[str, str]:
    for entry in entries:
        if "=" not in entry:
            raise PlanError(f'-O wants name=value, not "{entry}"')
    return dict(entry.split("=", 1) for entry in entries)


def _print_json(document: Any) -> None:
    """One document and nothing else; a reader who left early is no error of ours."""
    try:
        sys.stdout.buffer.write(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
