"""Commands: `explore`, all orders of messages in a small scope."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from schemaquake.harness.cli.interruption import AGAIN
from schemaquake.harness.cli.json_output import print_json
from schemaquake.harness.cli.options import NUMBER, AsJson, OptionsOfSimulation, systems_to_compare
from schemaquake.harness.cli.sections import MODEL, add_command
from schemaquake.harness.console import answers, configure_logging, stderr
from schemaquake.harness.errors import ExitCode, PlanError
from schemaquake.harness.installed_options import refuse_undeclared
from schemaquake.results.runs.option_lists import named_values, refuse_below

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["register"]

_SYSTEMS: Final = ("simulated:cassandra-5.0", "simulated:cassandra-6.0")
_MOST: Final = 3000
_MOST_OF_ALL: Final = 250
"""The executions of each scope where none was named: a first look at all of them takes half a minute."""


def register(app: typer.Typer) -> None:
    """Add the command of this package."""
    add_command(
        app,
        _explore,
        "explore",
        MODEL,
        "schemaquake explore --scope create-create",
        "schemaquake explore --scope add-add --system simulated:cassandra-5.0 --most 100",
        page="docs/simulation.md",
        interrupted=AGAIN,
        computes=True,
    )


def _explore(
    *,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCOPE", help="Changes that meet, such as create-create; may be repeated.", show_default="all"
        ),
    ] = None,
    system: Annotated[list[str] | None, systems_to_compare(", ".join(_SYSTEMS))] = None,
    crash: Annotated[bool, typer.Option("--crash", help="Kill one node and start it again, at every place.")] = False,
    most: Annotated[
        int | None,
        typer.Option(
            metavar=NUMBER,
            help="Largest number of executions of a scope, for each order of its coordinators' clocks.",
            show_default=f"{_MOST} of scopes that are named; else {_MOST_OF_ALL}",
        ),
    ] = None,
    drawn: Annotated[
        int,
        typer.Option(
            metavar=NUMBER,
            help="Draw so many orders at random instead of exploring all: for scopes that are too large.",
            show_default="explore all",
        ),
    ] = 0,
    option: OptionsOfSimulation = None,
    as_json: AsJson = False,
) -> None:
    """Explore all orders of the messages of a few schema changes on three simulated nodes.

    Each scope is printed as it ends. Without --scope, all scopes take half a minute; with it, one scope may take a minute on 6.0.
    """
    configure_logging(verbose=False)
    from schemaquake.clusters.simulated.designs import SCOPES  # noqa: PLC0415 - every other command would wait for it

    limit = most if most is not None else _MOST if scope else _MOST_OF_ALL
    refuse_below(1, most=limit)
    refuse_below(0, drawn=drawn)
    for name in scope or ():
        if name not in SCOPES:
            raise PlanError(f"--scope is one of {', '.join(SCOPES)}, not {name}")
    options = named_values(option or [])
    refuse_undeclared(options, workloads=(), nemeses=(), cluster="simulated")
    rows = []
    console = answers(as_json=as_json)
    for name in scope or SCOPES:
        for system_ in system or (_SYSTEMS if SCOPES[name].moves is None else _SYSTEMS[1:]):
            if limit > _MOST_OF_ALL:  # a scope alone may take minutes
                stderr().print(f"{name} on {system_}: up to {limit:,} orders for each order of clocks", markup=False)
            rows.append(_row(name, system_, crash=crash, most=limit, drawn=drawn, options=options))
            _print(rows[-1], limit, console)
    _print_shortest(rows, console)
    if most is None and not scope and not drawn:
        _print_how_to_go_on(rows, console)
    if as_json:
        print_json({"rows": rows})
    raise typer.Exit(ExitCode.INVALID if any(row["bad"] for row in rows) else _clean(rows))


def _clean(rows: list[dict[str, Any]]) -> ExitCode:
    """Return the exit code where nothing bad was found: an exploration that was cut proves nothing."""
    return ExitCode.VALID if all(row["complete"] for row in rows) else ExitCode.UNKNOWN


def _row(name: str, system: str, *, crash: bool, most: int, drawn: int, options: dict[str, str]) -> dict[str, Any]:
    """Explore one scope on one system, in every order of its coordinators' clocks."""
    from schemaquake.clusters.simulated.designs import SCOPES, explore_design  # noqa: PLC0415 - as above

    began = time.process_time()
    found = list(explore_design(system, SCOPES[name], crash=crash, most=most, drawn=drawn, options=options))
    seconds = time.process_time() - began
    anomalies: Counter[str] = Counter()
    shortest: dict[str, list[str]] = {}
    for _, _, explored in found:
        for end, count in explored.ends.items():
            assert isinstance(end, tuple)
            for anomaly in end:
                anomalies[anomaly] += count
                way = [_named(event) for event in explored.shortest[end]]
                if anomaly not in shortest or len(way) < len(shortest[anomaly]):
                    shortest[anomaly] = way
    executions = sum(explored.executions for _, _, explored in found)
    return {
        "scope": name,
        "system": system,
        "crash": crash,
        "drawn": drawn,
        "executions": executions,
        "bad": sum(explored.ends[end] for _, _, explored in found for end in explored.ends if end != ()),
        "anomalies": dict(sorted(anomalies.items())),
        "shortest": shortest,
        "asleep": sum(explored.blocked for _, _, explored in found),
        "too deep": sum(explored.cut for _, _, explored in found),
        "not repeated": sum(explored.lost for _, _, explored in found),
        "states": sum(explored.states for _, _, explored in found),
        "transitions": sum(explored.transitions for _, _, explored in found),
        "depth": max(explored.depth for _, _, explored in found),
        "complete": all(explored.complete for _, _, explored in found),
        "seconds": round(seconds, 2),
    }


def _named(event: tuple[object, ...]) -> str:
    """Name an event: a request and its number, a crash, or a message with sender and receiver."""
    if event[0] in {"request", "crash", "move"}:
        return f"{event[0]} {event[1]}"
    return f"{event[0]} {event[1]}→{event[2]}"


def _print(row: dict[str, Any], most: int, console: Console) -> None:
    cut = [f"{row[name]} {name}" for name in ("too deep", "not repeated") if row[name]]
    stopped = "drawn" if row["drawn"] else f"--most {most:,} for each order of clocks"
    whole = "complete" if row["complete"] else f"not complete ({', '.join(cut) or stopped})"
    broke = ", ".join(f"{name} {count}" for name, count in row["anomalies"].items())
    text = (
        f"{row['scope']} on {row['system']}: {row['bad']:,} of {row['executions']:,} orders are bad{f' ({broke})' if broke else ''}; {whole}; "
        f"{row['asleep']:,} left out as equal to others, {row['states']:,} states, {row['transitions']:,} transitions, "
        f"depth {row['depth']}, {row['seconds']} s"
    )
    console.print(text, markup=False, soft_wrap=True)


def _print_how_to_go_on(rows: list[dict[str, Any]], console: Console) -> None:
    """Say how scopes that were not looked at as a whole are explored further."""
    left = [row for row in rows if not row["complete"]]
    if left:
        text = (
            f"{len(left)} of {len(rows)} are not complete, and prove nothing where no order is bad. A scope that is named is explored "
            f"further: schemaquake explore --scope {left[0]['scope']} --system {left[0]['system']}"
        )
        console.print(text, markup=False, soft_wrap=True)


def _print_shortest(rows: list[dict[str, Any]], console: Console) -> None:
    for row in rows:
        for anomaly, way in row["shortest"].items():
            text = f"  shortest to {anomaly} in {row['scope']} on {row['system']}: {', '.join(way)}"
            console.print(text, markup=False, soft_wrap=True)
