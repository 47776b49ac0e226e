"""Commands: `quorums`, whether quorums of all epochs of a change meet, and `placements`, random changes with their invariants."""

from __future__ import annotations

import time
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from schemaquake.harness.cli.interruption import AGAIN
from schemaquake.harness.cli.json_output import print_json
from schemaquake.harness.cli.options import NAME, NUMBER, AsJson
from schemaquake.harness.cli.sections import MODEL, add_command
from schemaquake.harness.console import answers, configure_logging, stderr
from schemaquake.harness.errors import ExitCode, PlanError
from schemaquake.results.runs.option_lists import refuse_below
from schemaquake.results.wording import counted

if TYPE_CHECKING:
    from schemaquake.harness.placements.intersections import Rule
    from schemaquake.harness.placements.walk import Locks

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands of this package."""
    add_command(
        app,
        _quorums,
        "quorums",
        MODEL,
        "schemaquake quorums --replicas 3",
        "schemaquake quorums --rule pending --json",
        page="docs/simulation.md",
        interrupted=AGAIN,
        computes=True,
    )
    add_command(
        app,
        _placements,
        "placements",
        MODEL,
        "schemaquake placements --seeds 0:2 --joins 10",
        "schemaquake placements --layout racks --joins 10 --locks touched",
        page="docs/simulation.md",
        interrupted=AGAIN,
        computes=True,
    )


# ── quorums ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _quorums(
    *,
    replicas: Annotated[str, typer.Option(metavar="FROM:TO|N", help="Replication factors, 1 to 9.")] = "1:7",
    rule: Annotated[
        str,
        typer.Option(
            metavar="RULE", help="majority: of the write replicas; pending: of the read replicas, and all pending ones."
        ),
    ] = "majority",
    as_json: AsJson = False,
) -> None:
    """Intersect the read and write quorums of every pair of epochs while replicas change (CEP-21), with and without barriers."""
    from rich.table import Table  # noqa: PLC0415 - other commands need not wait for it

    from schemaquake.results.experiments.placements.rows import quorum_rows  # noqa: PLC0415 - nor for this

    configure_logging(verbose=False)
    rows = list(quorum_rows(_span(replicas, "--replicas"), _rule(rule)))
    if as_json:
        print_json({"rule": rule, "rows": rows})
    table = Table("scenario", "RF", "pairs", "no node in common", "epochs", "worst")
    barriers = Table("barriers", "RF", "cases", "missed")
    for row in rows:
        cells = row["cells"]
        epochs = " ".join(cells) if len(cells) <= 4 else f"{len(cells)} pairs of epochs"
        numbers = f"{row['pairs']:,}", f"{row['violations']:,}"
        table.add_row(row["scenario"], str(row["replicas"]), *numbers, epochs, row["worst"])
        for name, count in (row["guarded"] or {}).items():
            if name != "cases":
                cases = f"{row['guarded']['cases']:,}"
                barriers.add_row(f"{row['scenario']}: {name}", str(row["replicas"]), cases, f"{count:,}")
    console = answers(as_json=as_json)
    console.print(table)
    console.print(
        "RF: replication factor. R0W3: a read in epoch 0 and a write in epoch 3 of the change. "
        "worst: the largest share of pairs without a node in common, of one such pair of epochs."
    )
    console.print(barriers)
    console.print("missed: pairs of quorums that have no node in common, and in which no node need notice it.")


# ── placements ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _placements(
    *,
    seeds: Annotated[str, typer.Option(metavar="FROM:TO|N", help="Seeds of every cell; TO is not included.")] = "0",
    layout: Annotated[
        list[str] | None,
        typer.Option(metavar=NAME, help="Layout: simple, racks or data centers; may be repeated.", show_default="all"),
    ] = None,
    joins: Annotated[int, typer.Option(metavar=NUMBER, help="Number of joins of each history.")] = 50,
    locks: Annotated[
        str,
        typer.Option(
            metavar="LOCKS",
            help="What keeps a change from beginning: commuting, touched (that of Cassandra 6.0) or none.",
        ),
    ] = "commuting",
    as_json: AsJson = False,
) -> None:
    """Let nodes join, leave, move and be replaced on rings of the placement model, and judge every step (CEP-21)."""
    from rich.table import Table  # noqa: PLC0415 - other commands need not wait for it

    from schemaquake.harness.placements.walk import GRID, INVARIANTS, Rules, walk  # noqa: PLC0415 - nor for this
    from schemaquake.results.experiments.placements.rows import cell_rows  # noqa: PLC0415

    configure_logging(verbose=False)
    refuse_below(0, joins=joins)
    layouts = tuple(dict.fromkeys(cell.layout for cell in GRID))
    cells = [cell for cell in GRID if cell.layout in (layout or layouts)]
    for name in layout or ():
        if name not in layouts:
            raise PlanError(f'--layout is one of {", ".join(layouts)}, not "{name}"')
    began = time.perf_counter()
    rules = Rules(locks=_locks(locks))
    numbers = _span(seeds, "--seeds", last=False)
    walks = []
    for name, some in groupby(cells, key=lambda cell: cell.layout):
        mine = list(some)
        stderr().print(
            f"{name}: {counted(len(mine) * len(numbers), 'history', 'histories')} of {counted(joins, 'join')}",
            markup=False,
        )
        walks += [walk(cell, seed, joins=joins, rules=rules) for cell in mine for seed in numbers]
    seconds = time.perf_counter() - began
    if as_json:
        print_json({"seconds": round(seconds, 3), "invariants": dict(INVARIANTS), "cells": cell_rows(walks)})
    table = Table("layout", "RF", "at once", "histories", "steps", "refused", "cancelled", "broken")
    for row in cell_rows(walks):
        table.add_row(
            row["layout"], row["replicas"], *(f"{row[name]:,}" for name in ("concurrency", "histories", "steps")),
            *(f"{row[name]:,}" for name in ("refused", "cancelled")),
            "; ".join(f"{each['invariant']} (seed {each['seed']})" for each in row["broken"]) or "none",
        )  # fmt: skip
    console = answers(as_json=as_json)
    console.print(table)
    steps = sum(each.operations for each in walks)
    console.print(f"{steps:,} steps in {seconds:.1f} s: {steps / max(seconds, 1e-9):,.0f} a second")
    raise typer.Exit(ExitCode.INVALID if any(each.broken for each in walks) else ExitCode.VALID)


# ── options ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _span(text: str, option: str, *, last: bool = True) -> range:
    """Parse `3` or `1:7`; `last`: the end belongs to it. Raises PlanError that names the option."""
    first, colon, end = text.partition(":")
    try:
        span = range(int(first), int(end) + last) if colon else range(int(first), int(first) + 1)
    except ValueError:
        raise PlanError(f'{option} is a number or FROM:TO, not "{text}"') from None
    if not span or (last and not 1 <= span[0] <= span[-1] <= 9):
        why = "FROM and TO are 1 to 9, and FROM is not above TO" if last else "TO is above FROM, and not included"
        raise PlanError(f"{option} {text}: {why}")
    return span


def _rule(text: str) -> Rule:
    match text:
        case "majority" | "pending":
            return text
    raise PlanError(f"--rule is majority or pending, not {text}")


def _locks(text: str) -> Locks:
    match text:
        case "none" | "touched" | "commuting":
            return text
    raise PlanError(f"--locks is commuting, touched or none, not {text}")
