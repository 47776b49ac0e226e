"""The folder of a matrix: its plan, the finished units and the paths of all files.

runs/<UTC time>-matrix/
  matrix.json       the plan, the start time and the machine
  progress.jsonl    one line per finished unit, appended and synced; `--resume` continues from it
  runs/             the folders of the runs
  logs/             the output of each run
  tally.json        the current matrix (`schemaquake.results.matrix.tally.Matrix`)
  matrix.html, matrix.md
  cells.parquet, races.parquet
  runs.parquet      the finished units without their folders, for `--known`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from schemaquake.results.matrix.facts import RunFacts
from schemaquake.results.matrix.matrix_plan import Condition, MatrixPlan, Unit
from schemaquake.results.store.progress import Finished, Planned, ProgressFolder

__all__ = ["Done", "MatrixFolder", "parse_unit", "unit_document"]

_LATEST: Final = "latest-matrix"


Done: TypeAlias = Finished[Unit, RunFacts]
"""A finished unit and its facts."""


class MatrixFolder(ProgressFolder):
    """The folder of one matrix."""

    PLAN = "matrix.json"
    TITLE = "the folder of a matrix"
    WORK = "matrix"

    @classmethod
    def create(cls, runs: Path, plan: Planned, machine: Mapping[str, str]) -> Self:
        """Create a folder in `runs`; `runs/latest-matrix` points to it. Raises PlanError if that fails."""
        made = super().create(runs, plan, machine)
        link = runs / f".{made.path.name}.link"
        link.symlink_to(made.path.name)
        link.replace(runs / _LATEST)
        return made

    def plan(self) -> MatrixPlan:
        """Read the plan, with the last goals. Raises HistoryError for a folder that is not a matrix' folder."""
        plan = MatrixPlan.from_json(self.head()["plan"])
        goals = [line["goals"] for line in self.lines() if "goals" in line]
        return plan.towards(**goals[-1]) if goals else plan

    def done(self) -> Sequence[Done]:
        """Read all finished units, in order. Raises HistoryError for damage."""
        return [
            Done(parse_unit(line["unit"]), RunFacts.from_json(line["facts"]))
            for line in self.lines()
            if "facts" in line
        ]

    def seconds(self) -> float:
        """Return the working time over all sessions, s."""
        return sum(float(line["seconds"]) for line in self.lines() if "seconds" in line)

    def append(self, done: Done) -> None:
        """Record a finished unit. It is on disk when this returns."""
        self.append_line(_line(done))

    def replace(self, done: Sequence[Done]) -> None:
        """Replace the finished units and keep everything else. They are on disk when this returns."""
        self.replace_lines([*map(_line, done), *(line for line in self.lines() if "unit" not in line)])

    def append_goals(self, plan: MatrixPlan) -> None:
        """Record how far this session and the next ones are to go, if that is another goal than before."""
        if plan != self.plan():
            self.append_line({"goals": plan.goals})

    def append_session(self, seconds: float) -> None:
        """Record the length of this session."""
        self.append_line({"seconds": round(seconds, 1)})


def _line(done: Done) -> Mapping[str, Any]:
    return {"unit": unit_document(done.unit), "facts": done.facts.to_json()}


def unit_document(unit: Unit) -> dict[str, Any]:
    """Return the unit as progress.jsonl holds it."""
    return {
        "system": unit.system,
        "workloads": list(unit.workloads),
        "condition": [unit.condition.mode, list(unit.condition.nemeses)],
        "first_race": unit.first_race,
        "races": unit.races,
        "turn": unit.turn,
    }


def parse_unit(document: Mapping[str, Any]) -> Unit:
    """Parse what `unit_document` returned."""
    mode, nemeses = document["condition"]
    return Unit(
        **{
            **document,
            "workloads": tuple(document["workloads"]),
            "condition": Condition(mode, tuple(nemeses)),
        }
    )
