"""Commands: `quorums`, whether quorums of all epochs of a change meet, and `placements`, random changes with their invariants."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer
from rich.table import Table

from schemaquake.harness.cli.json_output import print_json
from schemaquake.harness.console import configure_logging, stderr
from schemaquake.harness.errors import ExitCode, PlanError
from schemaquake.harness.placements.intersections import (
    BARRIERS,
    SCENARIOS,
    Intersections,
    Rule,
    Scenario,
    guarded,
    interleavings,
    intersect,
)
from schemaquake.harness.placements.walk import GRID, INVARIANTS, Cell, Locks, Rules, Walk, walk

__all__ = ["register"]

_LAYOUTS = tuple(dict.fromkeys(cell.layout for cell in GRID))


def register(app: typer.Typer) -> None:
    """Add the commands of this package."""
    app.command("quorums")(_quorums)
    app.command("placements")(_placements)


# ── quorums ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _quorums(
    *,
    replicas: Annotated[str, typer.Option(help="replication factors, as FROM:TO or one")] = "1:7",
    rule: Annotated[
        str, typer.Option(help="majority: of the write replicas; pending: of the read replicas, and all pending ones")
    ] = "majority",
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document on standard output")] = False,
) -> None:
    """Intersect the read and write quorums of every pair of epochs while replicas change (CEP-21), with and without barriers."""
    configure_logging(verbose=False)
    rows = list(quorum_rows(_span(replicas), _rule(rule)))
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
    stderr().print(table)
    stderr().print(barriers)


def quorum_rows(factors: Sequence[int], rule: Rule) -> Iterator[dict[str, Any]]:
    """Yield a row for each scenario and replication factor."""
    for scenario in SCENARIOS.values():
        for factor in factors:
            if factor >= scenario.least:
                yield _scenario_row(scenario, factor, rule)
    for factor in factors:
        if factor >= 2:
            yield _interleaved_row(factor, rule)


def _scenario_row(scenario: Scenario, factor: int, rule: Rule) -> dict[str, Any]:
    views = scenario.views(factor)
    row = _row(scenario.name, scenario.about, factor, intersect(views, rule))
    if scenario.name == "one":
        row["a node down"] = intersect(views, rule, down=1).pairs
        row["guarded"] = {
            "cases": guarded(views, rule).cases,
            "all barriers": guarded(views, rule).bad,
            "none": guarded(views, rule, barriers=frozenset()).bad,
            "one answer": guarded(views, rule, answers=1).bad,
            "not before MID": guarded(views, rule, barriers=BARRIERS - {1}).bad,
            "not before FINISH": guarded(views, rule, barriers=BARRIERS - {2}).bad,
        }
    elif scenario.name == "two in a row":
        # Epoch 3 is the first FINISH: the second START that does not wait for it has no barrier there.
        barriers = frozenset({1, 2, 4, 5})
        row["guarded"] = {
            "cases": guarded(views, rule).cases,
            "all barriers": guarded(views, rule, barriers=barriers | {3}).bad,
            "START does not wait": guarded(views, rule, barriers=barriers).bad,
        }
    return row


def _interleaved_row(factor: int, rule: Rule) -> dict[str, Any]:
    """Intersect the epochs of two changes of one range at once, over all twenty orders of their steps: what the locks prevent."""
    nodes = (1 << factor) - 1
    found = [intersect(views, rule) for views in interleavings((1, 1 << factor), (2, 2 << factor), nodes)]
    worst = max(found, key=lambda each: each.violations)
    row = _row("two at once", "two changes of a range without locks: the worst of twenty orders", factor, worst)
    row["orders"] = len(found)
    row["orders with violations"] = sum(each.violations > 0 for each in found)
    return row


def _row(name: str, about: str, factor: int, found: Intersections) -> dict[str, Any]:
    return {
        "scenario": name,
        "about": about,
        "replicas": factor,
        "pairs": found.pairs,
        "violations": found.violations,
        "cells": {f"R{i}W{j}": list(counts) for (i, j), counts in found.cells.items()},
        "worst": str(found.worst),
        "guarded": None,
    }


# ── placements ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _placements(
    *,
    seeds: Annotated[str, typer.Option(help="seeds of every cell, as FROM:TO (TO not included) or one")] = "0",
    layout: Annotated[list[str] | None, typer.Option(help=f"of {', '.join(_LAYOUTS)}; default: all")] = None,
    joins: Annotated[int, typer.Option(help="joins of each history")] = 50,
    locks: Annotated[
        str,
        typer.Option(help="what keeps a change from beginning: commuting, touched (that of Cassandra 6.0) or none"),
    ] = "commuting",
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document on standard output")] = False,
) -> None:
    """Let nodes join, leave, move and be replaced on rings of the placement model, and judge every step (CEP-21)."""
    configure_logging(verbose=False)
    cells = [cell for cell in GRID if cell.layout in (layout or _LAYOUTS)]
    if not cells:
        raise PlanError(f"--layout is one of {', '.join(_LAYOUTS)}, not {', '.join(layout or ())}")
    began = time.perf_counter()
    rules = Rules(locks=_locks(locks))
    walks = [walk(cell, seed, joins=joins, rules=rules) for cell in cells for seed in _span(seeds, last=False)]
    seconds = time.perf_counter() - began
    if as_json:
        print_json({"seconds": round(seconds, 3), "invariants": dict(INVARIANTS), "cells": _cells(walks)})
    table = Table("layout", "RF", "at once", "histories", "steps", "refused", "cancelled", "broken")
    for row in _cells(walks):
        table.add_row(
            row["layout"], row["replicas"], *(f"{row[name]:,}" for name in ("concurrency", "histories", "steps")),
            *(f"{row[name]:,}" for name in ("refused", "cancelled")),
            "; ".join(f"{each['invariant']} (seed {each['seed']})" for each in row["broken"]),
        )  # fmt: skip
    stderr().print(table)
    steps = sum(each.operations for each in walks)
    stderr().print(f"{steps:,} steps in {seconds:.1f} s: {steps / max(seconds, 1e-9):,.0f} a second")
    raise typer.Exit(ExitCode.INVALID if any(each.broken for each in walks) else ExitCode.VALID)


def _cells(walks: Sequence[Walk]) -> list[dict[str, Any]]:
    by_cell: dict[Cell, list[Walk]] = {}
    for each in walks:
        by_cell.setdefault(each.cell, []).append(each)
    rows = []
    for cell, mine in by_cell.items():
        steps = sum((each.steps for each in mine), Counter[str]())
        rows.append(
            {
                "layout": cell.layout,
                "replicas": f"{cell.factor.total}/{cell.factor.transient}" if cell.factor.transient else str(cell.factor.total),
                "concurrency": cell.concurrency,
                "histories": len(mine),
                "steps": sum(each.operations for each in mine),
                "refused": steps["refused"],
                "cancelled": steps["cancel"],
                "by step": dict(sorted(steps.items())),
                "broken": [
                    {"seed": each.seed, "invariant": one.invariant, "step": one.step, "end": one.end, "text": one.text}
                    for each in mine
                    for one in each.broken
                ],
            }
        )  # fmt: skip
    return rows


# ── options ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _span(text: str, *, last: bool = True) -> range:
    """Parse `3` or `1:7`; `last`: the end belongs to it. Raises PlanError."""
    first, colon, end = text.partition(":")
    try:
        span = range(int(first), int(end) + last) if colon else range(int(first), int(first) + 1)
    except ValueError:
        raise PlanError(f'"{text}" is neither a number nor FROM:TO') from None
    if not span or (last and not 1 <= span[0] <= span[-1] <= 9):
        raise PlanError(f'"{text}": ' + ("1 to 9 replicas can be counted" if last else "there is no seed in it"))
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
