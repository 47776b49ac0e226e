"""The plan of a matrix: which systems, workloads and conditions, how sure a rate has to be, and the run of every unit.

The project's own lists are data (`matrix.toml`). A plan is written into the matrix' folder, and whoever resumes it must
mean the same.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.model.options import written
from schemaquake.harness.model.plan import Plan, RestartMode
from schemaquake.harness.registry import load, names
from schemaquake.results.runs.option_lists import with_shorthands
from schemaquake.results.summary.cell import condition_name
from schemaquake.workloads.races.engine import RacingWorkload
from schemaquake.workloads.races.options import Mode, racing_options

__all__ = ["CONTROL", "Condition", "MatrixPlan", "Preset", "Unit", "document", "preset"]

Preset: TypeAlias = Literal["full", "quick"]

CONTROL: Final = "single"
"""The mode of the controls: the same statements one after another through one coordinator."""

SHARED: Final = "racing-ddl"
"""The workload that lets several kinds of race take turns on one cluster."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A mode and the nemeses at work."""

    mode: Mode
    nemeses: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """`barrier`, `barrier, kill and pause`."""
        return condition_name(self.mode, self.nemeses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One run to be done: kinds of race that share a cluster, or one workload alone."""

    system: str
    workloads: tuple[str, ...]
    condition: Condition
    first_race: int
    races: int
    turn: int
    """How many units of the same system, workloads and condition came before it."""

    @property
    def id(self) -> str:
        """The same in every process and after every interruption."""
        workloads = "+".join(self.workloads)
        return f"{self.system}/{workloads}/{self.condition.name}/{self.first_race}+{self.races}/{self.turn}"

    @property
    def kind(self) -> tuple[str, tuple[str, ...], str]:
        """What takes about as long: the same races on the same system."""
        return self.system, self.workloads, self.condition.name


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixPlan:
    """Everything that must stay the same over interruptions. Times in seconds."""

    systems: tuple[str, ...]
    workloads: tuple[str, ...]
    conditions: tuple[Condition, ...] = (Condition("barrier"),)
    controls: bool = True
    cluster: str = "local"
    nodes: int = 3
    seed: int = 1
    races: int = 6
    """Of each kind, in one run."""
    confidence: float = 0.3
    """A cell is known when the 95 % interval of its rate is at most so far from its middle."""
    tries_max: int = 6
    """The most runs of one cell, undecided ones included."""
    time_limit_s: float = 30
    settle_limit_s: float = 10
    start_timeout_s: float = 120
    request_timeout_s: float = 10
    restart: RestartMode = "together"
    options: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    """As it was asked for the first time."""

    def __post_init__(self) -> None:
        """Reject what no matrix could mean, by name."""
        for objection, sentence in (
            (not self.systems, "no system: name at least one with --system, or ask for --quick or --full"),
            (not self.workloads, "no workload: name at least one with --workload (schemaquake list workloads)"),
            (not 0 < self.confidence <= 0.5, f"--confidence must be between 0 and 0.5, not {self.confidence:g}"),
            (self.tries_max < 1, f"--tries-max must be at least 1, not {self.tries_max}"),
            (len(set(self.systems)) < len(self.systems), "a system is named twice"),
            (len(set(self.workloads)) < len(self.workloads), "a workload is named twice"),
            (CONTROL in {one.mode for one in self.conditions}, f"mode {CONTROL} is the control: it is run by itself"),
        ):
            if objection:
                raise PlanError(sentence)
        for system in self.systems:
            for condition in self.conditions:
                for workload in self.workloads:
                    first = Unit(
                        system=system,
                        workloads=(workload,),
                        condition=condition,
                        first_race=0,
                        races=self.races,
                        turn=0,
                    )
                    self.run_plan(first).check_options()

    @property
    def racing(self) -> tuple[str, ...]:
        """Its workloads that are made of races."""
        return tuple(name for name in self.workloads if is_racing(name))

    @property
    def all_conditions(self) -> tuple[Condition, ...]:
        """Those asked for, and the control."""
        return (*self.conditions, Condition(CONTROL)) if self.controls and self.racing else self.conditions

    def condition(self, name: str) -> Condition:
        """Look up the condition of that name. Raises KeyError."""
        return {one.name: one for one in self.all_conditions}[name]

    def run_plan(self, unit: Unit) -> Plan:
        """The run of a unit. Raises PlanError for what cannot be run."""
        racing = all(is_racing(name) for name in unit.workloads)
        return Plan(
            system=unit.system,
            workloads=(SHARED,) if len(unit.workloads) > 1 else unit.workloads,
            cluster=self.cluster,
            nodes=self.nodes,
            nemeses=unit.condition.nemeses,
            # Workloads without races have nothing to go on with: another seed makes other operations.
            seed=self.seed if racing else self.seed + unit.turn,
            time_limit_s=self.time_limit_s,
            settle_limit_s=self.settle_limit_s,
            start_timeout_s=self.start_timeout_s,
            request_timeout_s=self.request_timeout_s,
            restart=self.restart,
            options=self._racing_options(unit) if racing else self._other_options(unit),
        )

    def _racing_options(self, unit: Unit) -> Mapping[str, str]:
        """Return the options of a run of races."""
        shared = {"only": ",".join(unit.workloads)} if len(unit.workloads) > 1 else {}
        options = replace(
            racing_options(self.options),
            mode=unit.condition.mode,
            races=unit.races,
            first_race=unit.first_race,
            # A canary would be answered by the cut or the fault; there one run ends with its races.
            until_poisoned=unit.condition.mode != "partition" and not unit.condition.nemeses,
        )
        return {**written(options, beside=self.options), **shared}

    def _other_options(self, unit: Unit) -> Mapping[str, str]:
        """Return the options of a run without races. Raises PlanError for a mode that its workloads do not know."""
        mode = None if unit.condition.mode == "barrier" else unit.condition.mode
        return with_shorthands(unit.workloads, self.options, {"mode": mode})

    def sharing(self, system: str, condition: Condition) -> tuple[str, ...]:
        """The workloads that may be tried on one cluster."""
        if condition.nemeses or condition.mode == "partition" or "variant" in self.options:
            return ()
        lists = document()["sharing"]
        if condition.mode == CONTROL or _matches(system, lists["any_kind_on"]):
            return self.racing
        if _matches(system, lists["none_on"]):
            return ()
        return tuple(name for name in self.racing if name in lists["harmless"])

    def to_json(self) -> dict[str, Any]:
        """The plan as matrix.json holds it."""
        document = {one.name: getattr(self, one.name) for one in fields(self)}
        return {
            **document,
            "systems": list(self.systems),
            "workloads": list(self.workloads),
            "conditions": [[one.mode, list(one.nemeses)] for one in self.conditions],
            "options": dict(self.options),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> MatrixPlan:
        """Read back what `to_json` wrote; raises HistoryError for what is no plan of this version."""
        known = {one.name for one in fields(cls)}
        needed = {one.name for one in fields(cls) if one.default is MISSING and one.default_factory is MISSING}
        if not needed <= document.keys() <= known:
            odd = sorted((document.keys() - known) | (needed - document.keys()))
            raise HistoryError(
                f"the matrix was planned by another version of Schemaquake; it differs in {', '.join(odd)}"
            )
        return cls(
            **{
                **document,
                "systems": tuple(document["systems"]),
                "workloads": tuple(document["workloads"]),
                "conditions": tuple(Condition(mode, tuple(nemeses)) for mode, nemeses in document["conditions"]),
            }
        )

    def differences(self, other: MatrixPlan) -> list[str]:
        """The names of what the two do not share; the wording of the command is no difference."""
        mine, theirs = self.to_json(), other.to_json()
        return sorted(name for name in mine if name != "command" and mine[name] != theirs[name])


def preset(name: Preset) -> Mapping[str, Any]:
    """The project's own lists: systems, workloads, modes, races, confidence, tries_max, time_budget_min."""
    found: Mapping[str, Any] = document()[name]
    return found


def expanded(workloads: Sequence[str]) -> tuple[str, ...]:
    """The workloads, with `racing-ddl` replaced by every kind of race there is; each once. Raises PlanError."""
    found: list[str] = []
    for name in workloads:
        found += [one for one in names("workloads") if is_racing(one)] if name == SHARED else [name]
    return tuple(dict.fromkeys(found))


@cache
def is_racing(workload: str) -> bool:
    """Whether it is one kind of race, numbered and each in a keyspace of its own. Raises PlanError for an unknown name."""
    return isinstance(load("workloads", workload), RacingWorkload)


def shell(argv: Sequence[str]) -> str:
    """A command as one line for a shell."""
    return shlex.join(argv)


def _matches(system: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(system, pattern) for pattern in patterns)


@cache
def document() -> Mapping[str, Any]:
    """The content of `matrix.toml`."""
    return tomllib.loads(files(__package__).joinpath("matrix.toml").read_text(encoding="utf-8"))
