"""Rows of the tables of `quorums` and `placements`, as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

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
from schemaquake.harness.placements.walk import Cell, Walk

__all__ = ["cell_rows", "quorum_rows"]


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


def cell_rows(walks: Sequence[Walk]) -> list[dict[str, Any]]:
    """List a row for each cell of the grid: its histories, steps by kind, and invariants that broke."""
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
