"""Commands: `swarm`, which judges many seeds on simulated clusters."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from schemaquake.harness.cli.completion import complete_systems
from schemaquake.harness.cli.json_output import print_json
from schemaquake.harness.cli.options import FOLDER, NUMBER, SYSTEM, AsJson, Engine, Master, OptionsOfSimulation
from schemaquake.harness.cli.sections import MODEL, add_command
from schemaquake.harness.console import answers, configure_logging, stderr, write_line
from schemaquake.harness.errors import ExitCode, PlanError
from schemaquake.harness.installed_options import refuse_undeclared
from schemaquake.harness.named_folders import why_no_folder
from schemaquake.results.runs.option_lists import named_values, refuse_below, refuse_engine
from schemaquake.results.wording import counted

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["register"]

_SYSTEMS: Final = ("simulated:cassandra-5.0", "simulated:cassandra-6.0")
_SPARK_FROM: Final = 200
"""Fewer seeds are over before Spark has started."""
_SEED_END: Final = 1 << 63


def register(app: typer.Typer) -> None:
    """Add the command of this package."""
    add_command(
        app,
        _swarm,
        "swarm",
        MODEL,
        "schemaquake swarm --seeds 0:20",
        "schemaquake swarm --seeds 7",
        "schemaquake swarm --seeds 0:1000 --system simulated:cassandra-6.0 -O bugs=none --folder sweep",
        page="docs/simulation.md",
        interrupted="finished waves are kept in the folder of the sweep; the same command goes on with the next",
        computes=True,
    )


def _swarm(
    *,
    seeds: Annotated[
        str, typer.Option(metavar="FROM:TO|N", help="Seeds, TO not included; of one alone the row is printed.")
    ] = "0:1000",
    system: Annotated[
        list[str] | None,
        typer.Option(
            metavar=SYSTEM,
            help="Simulated system; may be repeated: each seed draws one.",
            show_default=", ".join(_SYSTEMS),
            autocompletion=complete_systems,
        ),
    ] = None,
    option: OptionsOfSimulation = None,
    stop_after: Annotated[int | None, typer.Option(metavar=NUMBER, help="End after so many distinct findings.")] = None,
    reduce: Annotated[
        int, typer.Option(metavar=NUMBER, help="Runs that may be spent on making the plan of a finding smaller.")
    ] = 20,
    shrink: Annotated[
        int, typer.Option(metavar=NUMBER, help="Runs that may be spent on leaving out statements of a finding.")
    ] = 60,
    wave: Annotated[
        int,
        typer.Option(
            metavar=NUMBER, help="Seeds judged between two saves; after an interruption the finished waves are kept."
        ),
    ] = 100,
    folder: Annotated[
        Path, typer.Option(metavar=FOLDER, help="Folder of the sweep; one with an unfinished sweep is continued.")
    ] = Path("runs/swarm"),
    engine: Engine = "auto",
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Judge many seeds on simulated clusters, each with a different subset of workloads, nemeses and sizes."""
    configure_logging(verbose=False)
    from schemaquake.results.engines.engine import choose  # noqa: PLC0415 - every other command would wait for it
    from schemaquake.results.swarm.one_seed import row_of  # noqa: PLC0415 - as above
    from schemaquake.results.swarm.sweep import Order, Swarm  # noqa: PLC0415 - as above

    first, last = _span(seeds)
    refuse_below(1, wave=wave, stop_after=stop_after)
    refuse_below(0, reduce=reduce, shrink=shrink)
    refuse_engine(engine)
    options = named_values(option or [])
    refuse_undeclared(options, workloads=(), nemeses=(), cluster="simulated")
    if (folder.exists() or folder.is_symlink()) and (why := why_no_folder(folder)) is not None:
        raise PlanError(f"--folder {folder}: {why}; name the folder of the sweep")
    order = Order(first=first, last=last, systems=tuple(system or _SYSTEMS), options=options, wave=wave)
    order.plan(first)  # refuses unknown systems now
    if ":" not in seeds:
        row = row_of(order.plan(first))
        if as_json:
            print_json(row)
        else:
            write_line(row["command"])
        raise typer.Exit(_code([row]))
    chosen = engine if engine != "auto" else "spark" if master or last - first >= _SPARK_FROM else "local"
    swarm = Swarm.begin(folder, order)
    began = time.perf_counter()
    rows: Sequence[Mapping[str, Any]] = ()
    with (
        swarm.alone(),
        choose(chosen, events=0, master=master or ("local[2]" if chosen == "spark" else None)) as carrier,
    ):
        for rows in swarm.run(carrier, stop_after=stop_after):
            _print_wave(rows, time.perf_counter() - began)
        findings = swarm.finish(rows, reduce=reduce, shrink=shrink)
    document = _document(rows, findings, order.systems)
    if as_json:
        print_json(document)
    _print(document, folder, answers(as_json=as_json))
    raise typer.Exit(_code(rows))


def _document(
    rows: Sequence[Mapping[str, Any]], findings: Sequence[Mapping[str, Any]], systems: Sequence[str]
) -> dict[str, Any]:
    from schemaquake.results.swarm.drawing import steps_of  # noqa: PLC0415 - every other command would wait for it
    from schemaquake.results.swarm.table import coverage_of, doubts_of, never_met  # noqa: PLC0415 - as above

    coverage = coverage_of(rows)
    steps = dict.fromkeys(step for system in systems for step in steps_of(system))
    return {
        "seeds": len(rows),
        "outcomes": dict(sorted(Counter(row["outcome"] for row in rows).items())),
        "operations": sum(row["operations"] for row in rows),
        "cpu_seconds": round(sum(row["ms"] for row in rows) / 1000, 1),
        "findings": list(findings),
        "doubts": doubts_of(rows),
        "coverage": {
            "passages": len(coverage),
            "new by thousand seeds": dict(sorted(Counter(f"{row['first'] // 1000}k" for row in coverage).items())),
            "never": never_met(coverage, steps),
        },
    }


def _print_wave(rows: Sequence[Mapping[str, Any]], seconds: float) -> None:
    found = {finding["id"] for row in rows for finding in row["findings"]}
    stderr().print(f"{counted(len(rows), 'seed')}, {counted(len(found), 'finding')}, {seconds:.0f} s", markup=False)


def _print(document: Mapping[str, Any], folder: Path, console: Console) -> None:
    for finding in document["findings"]:
        seen = f"{finding['id']}  {finding['anomaly']}: {finding['about']} ({counted(finding['seeds'], 'seed')})"
        console.print(seen, markup=False)
        console.print(f"    {finding['reduced'] or finding['command']}", markup=False, soft_wrap=True)
        if finding["script"]:
            script = folder / "findings" / finding["script"]
            console.print(f"    {script} ({counted(finding['statements'], 'statement')})", markup=False, soft_wrap=True)
    for doubt in document["doubts"]:
        seeds = f"{counted(doubt['seeds'], 'seed')}, the first {doubt['seed']}"
        seen = f"{doubt['outcome']}: {doubt['doubt'].partition('; ')[0]} ({seeds})"
        console.print(seen, markup=False, soft_wrap=True)
        console.print(f"    {doubt['command']}", markup=False, soft_wrap=True)
    outcomes = ", ".join(f"{count} {name}" for name, count in document["outcomes"].items())
    never = document["coverage"]["never"]
    console.print(
        f"{counted(document['seeds'], 'seed')}: {outcomes}; {document['cpu_seconds']:,} s of CPU", markup=False
    )
    console.print(
        f"{counted(document['coverage']['passages'], 'kind')} of passages (step × handled × faults)", markup=False
    )
    for what, names in never.items():
        if names:
            console.print(f"steps never {what}: {', '.join(names)}", markup=False)
    console.print(f"tables: {folder}", markup=False)


def _code(rows: Sequence[Mapping[str, Any]]) -> ExitCode:
    outcomes = {row["outcome"] for row in rows}
    if "failed" in outcomes:
        return ExitCode.CRASHED
    if "invalid" in outcomes:
        return ExitCode.INVALID
    return ExitCode.UNKNOWN if "unknown" in outcomes else ExitCode.VALID


def _span(text: str) -> tuple[int, int]:
    """Parse `7` or `0:1000`. Raises PlanError."""
    first, colon, last = text.partition(":")
    try:
        begin, end = int(first), int(last) if colon else int(first) + 1
    except ValueError:
        raise PlanError(f'--seeds is FROM:TO, or one seed, not "{text}"') from None
    if begin >= end:
        raise PlanError(f"--seeds {text}: TO is above FROM, and not included")
    if begin < -_SEED_END or end > _SEED_END:
        raise PlanError(f"--seeds {text}: a seed must fit into 64 bits")
    return begin, end
