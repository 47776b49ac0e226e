"""The plan of a grid: systems, cells, and how often each cell is raced; and the run of every batch.

The plan is written into the grid's folder, and a resumed grid must have the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.plan import Plan
from schemaquake.results.runs.option_lists import first_repeated, named_values
from schemaquake.results.store.progress import plan_values
from schemaquake.workloads.races.options import Mode

__all__ = ["Batch", "GridPlan"]

WORKLOAD: Final = "grid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Cells that are raced on one cluster."""

    system: str
    mode: Mode
    cells: tuple[str, ...]
    turn: int
    """Number of the race of each cell: cells of one batch have been raced as often."""
    number: int
    """Number of the batch in its grid."""

    @property
    def id(self) -> str:
        """Identifier that no other batch of the grid has."""
        return f"{self.number:04d} {self.system} {self.mode} {self.turn}"

    def to_json(self) -> dict[str, Any]:
        """Return the batch as progress.jsonl holds it."""
        return {
            "system": self.system,
            "mode": self.mode,
            "cells": list(self.cells),
            "turn": self.turn,
            "number": self.number,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Batch:
        """Parse what `to_json` returned."""
        return cls(**{**document, "cells": tuple(document["cells"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class GridPlan:
    """The parameters that stay the same over all sessions. Times in seconds."""

    systems: tuple[str, ...]
    modes: tuple[Mode, ...] = ("barrier",)
    cells: tuple[str, ...] = ("*",)
    """Patterns of cells' names."""
    pairs_once: bool = False
    """True to race of each pair of statements only the closest relation, and no variants."""
    tries: int = 3
    """Races of each cell in each mode."""
    within: float | None = None
    """Half of the widest 95 % interval of a rate that is known well enough; cells are raced on until theirs is. None: `tries` are enough."""
    batch: int = 60
    """Largest number of cells on one cluster."""
    lanes: int = 1
    """Races released at once in mode `barrier`; a grid planned before there were lanes has one."""
    options: tuple[str, ...] = ()
    """Further options of every run, as `-O` takes them: `yaml.NAME=VALUE`."""
    when_busy: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By system, options of its runs that `options` may replace (`Demands.when_busy`); a grid planned before has none."""
    cluster: str = "local"
    nodes: int = 3
    seed: int = 1
    settle_limit_s: float = 10
    start_timeout_s: float = 120
    request_timeout_s: float = 10
    command: str = ""
    """Command line that created the grid."""

    def __post_init__(self) -> None:
        """Reject invalid values, by name."""
        for objection, sentence in (
            (not self.systems, "no system: name at least one with --system"),
            (not self.modes, "no mode: name at least one with --mode"),
            (not self.cells, "no cells: name some with --cells, or leave it out for all"),
            (first_repeated(self.systems) is not None, f"--system {first_repeated(self.systems)} is given twice"),
            (first_repeated(self.modes) is not None, f"--mode {first_repeated(self.modes)} is given twice"),
            (self.tries < 1, f"--tries must be at least 1, not {self.tries}"),
            (
                self.within is not None and not 0 < self.within < 0.5,
                f"--within must be above 0 and below 0.5, not {self.within}",
            ),
            (self.batch < 1, f"--batch must be at least 1, not {self.batch}"),
            (self.lanes < 1, f"--lanes must be at least 1, not {self.lanes}"),
        ):
            if objection:
                raise PlanError(sentence)

    def run_plan(self, batch: Batch) -> Plan:
        """Build the run plan of a batch. Raises PlanError for one that cannot be run."""
        return Plan(
            system=batch.system,
            workloads=(WORKLOAD,),
            cluster=self.cluster,
            nodes=self.nodes,
            seed=self.seed,
            time_limit_s=max(60.0, 2.0 * len(batch.cells)),
            settle_limit_s=self.settle_limit_s,
            start_timeout_s=self.start_timeout_s,
            request_timeout_s=self.request_timeout_s,
            restart="together",
            options=self._options(batch),
        )

    def _options(self, batch: Batch) -> dict[str, str]:
        options = {**self.when_busy.get(batch.system, {}), **named_values(self.options), "cells": ",".join(batch.cells)}
        if batch.turn:
            options["first-race"] = str(batch.turn)
        if batch.mode != "barrier":
            options["mode"] = batch.mode
        if batch.mode == "barrier":
            options["until-poisoned"] = "true"  # what races after that would show the damage of another cell
            if self.lanes > 1:
                options["lanes"] = str(self.lanes)
        return options

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the document in grid.json."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> GridPlan:
        """Parse what `to_json` returned. Raises HistoryError for a plan of another version."""
        return cls(**plan_values(cls, document, "the grid"))
