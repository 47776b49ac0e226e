"""The plan of a matrix: systems, workloads and conditions, the required certainty of rates, and the run of every unit.

The project's own lists are data (`matrix.toml`). The plan is written into the matrix' folder, and a resumed matrix must have
the same plan.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.options import written
from schemaquake.harness.model.plan import Plan, RestartMode
from schemaquake.harness.registry import load, names
from schemaquake.results.runs.option_lists import first_repeated, with_shorthands
from schemaquake.results.store.progress import plan_values
from schemaquake.results.summary.cell import condition_name
from schemaquake.results.summary.run_summary import CONTROL
from schemaquake.workloads.races.engine import RacingWorkload
from schemaquake.workloads.races.options import Mode, racing_options

__all__ = ["Condition", "MatrixPlan", "Preset", "Unit", "conditions_of", "document", "parse_nemesis", "preset"]

Preset: TypeAlias = Literal["full", "quick", "topology", "upgrades"]

SHARED: Final = "racing-ddl"
"""Workload in which several kinds of race take turns on one cluster."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A mode and the active nemeses."""

    mode: Mode
    nemeses: tuple[str, ...] = ()
    """Each by its name, or with options of the run behind colons: `decommission:aim=kill@START`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The nemeses without options."""
        return tuple(dict.fromkeys(parse_nemesis(text)[0] for text in self.nemeses))

    @property
    def options(self) -> Mapping[str, str]:
        """The options that stand behind nemeses. Raises PlanError for two values of one."""
        found: dict[str, str] = {}
        for text in self.nemeses:
            for name, value in parse_nemesis(text)[1]:
                if found.setdefault(name, value) != value:
                    raise PlanError(f"--nemesis {','.join(self.nemeses)}: {name} has two values")
        return found

    @property
    def name(self) -> str:
        """Name of the condition: `barrier`, or `barrier, kill and pause`."""
        return condition_name(self.mode, self.nemeses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One planned run: kinds of race that share a cluster, or one workload alone."""

    system: str
    workloads: tuple[str, ...]
    condition: Condition
    first_race: int
    races: int
    turn: int
    """Number of earlier units with the same system, workloads and condition."""

    @property
    def id(self) -> str:
        """Identifier that is the same in every process and session."""
        workloads = "+".join(self.workloads)
        return f"{self.system}/{workloads}/{self.condition.name}/{self.first_race}+{self.races}/{self.turn}"

    @property
    def kind(self) -> tuple[str, tuple[str, ...], str]:
        """Key of units that take about the same time: the same races on the same system."""
        return self.system, self.workloads, self.condition.name


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixPlan:
    """The parameters that stay the same over all sessions. Times in seconds."""

    systems: tuple[str, ...]
    workloads: tuple[str, ...]
    conditions: tuple[Condition, ...] = (Condition("barrier"),)
    controls: bool = True
    cluster: str = "local"
    nodes: int = 3
    spares: int = 0
    """Nodes that are prepared beside `nodes`, for nemeses that make one join."""
    seed: int = 1
    races: int = 6
    """Races of each kind per run."""
    confidence: float = 0.3
    """Half width of the 95 % interval of a rate at which a cell is known."""
    tries_max: int = 6
    """Maximum runs per cell, including undecided ones."""
    time_limit_s: float = 30
    ends_after_s: float | None = None
    """The main phase of each run ends so long after its last operation on the topology; None: at the time limit."""
    settle_limit_s: float = 10
    start_timeout_s: float = 120
    request_timeout_s: float = 10
    restart: RestartMode = "together"
    options: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    """Command line that created the matrix."""

    def __post_init__(self) -> None:
        """Reject invalid values, by name."""
        for objection, sentence in (
            (not self.systems, "no system: name at least one with --system, or ask for --quick or --full"),
            (not self.workloads, "no workload: name at least one with --workload (schemaquake list workloads)"),
            (not 0 < self.confidence <= 0.5, f"--confidence must be above 0 and at most 0.5, not {self.confidence:g}"),
            (self.tries_max < 1, f"--tries-max must be at least 1, not {self.tries_max}"),
            (first_repeated(self.systems) is not None, f"--system {first_repeated(self.systems)} is given twice"),
            (
                first_repeated(self.workloads) is not None,
                f"--workload {first_repeated(self.workloads)} is given twice",
            ),
            (
                CONTROL in {one.mode for one in self.conditions},
                f"mode {CONTROL} is the control; use --controls instead",
            ),
        ):
            if objection:
                raise PlanError(sentence)
        for system in self.systems:
            for condition in self.conditions:
                for workload in self.workloads:
                    self._first_run(system, workload, condition).check_options()

    def first_run(self, system: str, condition: Condition) -> Plan:
        """Return the plan of the first run of a column in this condition."""
        return self._first_run(system, self.workloads[0], condition)

    def _first_run(self, system: str, workload: str, condition: Condition) -> Plan:
        first = Unit(system=system, workloads=(workload,), condition=condition, first_race=0, races=self.races, turn=0)
        return self.run_plan(first)

    @property
    def goals(self) -> Mapping[str, float | int]:
        """The parameters that say how far the matrix goes, and not what a run of it is; a later session may set others."""
        return {"confidence": self.confidence, "tries_max": self.tries_max}

    def towards(self, **goals: Any) -> MatrixPlan:
        """Return the plan with these goals, in its command, too. Raises PlanError for goals that are none."""
        given = {
            f"--{name.replace('_', '-')}": f"{value:g}" for name, value in goals.items() if value != self.goals[name]
        }
        if not given:
            return self
        words = shlex.split(self.command)
        for option, value in given.items():
            if option in words[:-1]:
                words[words.index(option) + 1] = value
            else:
                words += [option, value]
        return replace(self, **goals, command=shell(words) if self.command else "")

    @property
    def racing(self) -> tuple[str, ...]:
        """Workloads that are made of races."""
        return tuple(name for name in self.workloads if is_racing(name))

    @property
    def all_conditions(self) -> tuple[Condition, ...]:
        """The requested conditions, and the control."""
        return (*self.conditions, Condition(CONTROL)) if self.controls and self.racing else self.conditions

    @property
    def all_workloads(self) -> tuple[str, ...]:
        """Its workloads, and the one that several of them share where they are made of races."""
        return (*self.workloads, SHARED) if self.racing else self.workloads

    @property
    def all_nemeses(self) -> tuple[str, ...]:
        """The nemeses of all its conditions, each once."""
        return tuple(dict.fromkeys(name for one in self.conditions for name in one.names))

    @property
    def all_options(self) -> Mapping[str, str]:
        """The options of all its runs, each with one of its values."""
        return {name: value for one in self.conditions for name, value in one.options.items()} | dict(self.options)

    def condition(self, name: str) -> Condition:
        """Look up the condition of that name. Raises KeyError."""
        return {one.name: one for one in self.all_conditions}[name]

    def run_plan(self, unit: Unit) -> Plan:
        """Build the run plan of a unit. Raises PlanError for a unit that cannot be run."""
        racing = all(is_racing(name) for name in unit.workloads)
        return Plan(
            system=unit.system,
            workloads=(SHARED,) if len(unit.workloads) > 1 else unit.workloads,
            cluster=self.cluster,
            nodes=self.nodes,
            spares=self.spares,
            nemeses=unit.condition.names,
            # Workloads without races have no race numbers to continue from: another seed makes other operations.
            seed=self.seed if racing else self.seed + unit.turn,
            time_limit_s=self.time_limit_s,
            ends_after_s=self.ends_after_s,
            settle_limit_s=self.settle_limit_s,
            start_timeout_s=self.start_timeout_s,
            request_timeout_s=self.request_timeout_s,
            restart=self.restart,
            options={**(self._racing_options(unit) if racing else self._other_options(unit)), **unit.condition.options},
        )

    def _racing_options(self, unit: Unit) -> Mapping[str, str]:
        """Return the options of a run of races."""
        shared = {"only": ",".join(unit.workloads)} if len(unit.workloads) > 1 else {}
        options = replace(
            racing_options(self.options),
            mode=unit.condition.mode,
            races=unit.races,
            first_race=unit.first_race,
            # Under a cut or a fault a canary would fail because of it, so these runs have no canary.
            until_poisoned=unit.condition.mode != "partition" and not unit.condition.nemeses,
        )
        return {**written(options, beside=self.options), **shared}

    def _other_options(self, unit: Unit) -> Mapping[str, str]:
        """Return the options of a run without races. Raises PlanError for a mode that its workloads do not know."""
        mode = None if unit.condition.mode == "barrier" else unit.condition.mode
        return with_shorthands(unit.workloads, self.options, {"mode": mode})

    def sharing(self, system: str, condition: Condition) -> tuple[str, ...]:
        """Return the workloads that may share one cluster."""
        if condition.nemeses or condition.mode == "partition" or "variant" in self.options:
            return ()
        lists = document()["sharing"]
        if condition.mode == CONTROL or _matches(system, lists["any_kind_on"]):
            return self.racing
        if _matches(system, lists["none_on"]):
            return ()
        return tuple(name for name in self.racing if name in lists["harmless"])

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the document in matrix.json."""
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
        """Parse what `to_json` returned. Raises HistoryError for a plan of another version."""
        values = plan_values(cls, document, "the matrix")
        conditions = tuple(Condition(mode, tuple(nemeses)) for mode, nemeses in values["conditions"])
        return cls(**{**values, "conditions": conditions})


def preset(name: Preset) -> Mapping[str, Any]:
    """Return a preset from matrix.toml: systems, workloads, modes, races, confidence, tries_max, time_budget_min.

    One of operations has `nemeses` and `aims` in place of `modes`, each operation without and with each aim, and values of the plan in
    `values`.
    """
    found: Mapping[str, Any] = document()[name]
    return found


def conditions_of(name: Preset) -> tuple[Condition, ...]:
    """Return the conditions of a preset."""
    lists = preset(name)
    aims = ["", *(f":aim={aim}" for aim in lists.get("aims", ()))]
    aimed = [Condition("barrier", (f"{nemesis}{aim}",)) for nemesis in lists.get("nemeses", ()) for aim in aims]
    plain = [Condition("barrier", (nemesis,)) for nemesis in lists.get("unaimed", ())]
    return (*(Condition(mode) for mode in lists.get("modes", ())), *aimed, *plain)


def parse_nemesis(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Split `decommission:aim=kill@START:aim-s=5` into its name and its options. Raises PlanError.

    A colon begins an option where a name and an equals sign follow, so that values may have colons.
    """
    name, *parts = re.split(r":(?=[a-z][a-z0-9_.-]*=)", text)
    if ":" in name or not name:
        raise PlanError(f"--nemesis {text}: behind a colon stands an option, as in decommission:aim=kill@START")
    found = [part.partition("=") for part in parts]
    return name, tuple((option, value) for option, _, value in found)


def expanded(workloads: Sequence[str]) -> tuple[str, ...]:
    """Replace `racing-ddl` by all kinds of race; each workload appears once. Raises PlanError."""
    found: list[str] = []
    for name in workloads:
        found += [one for one in names("workloads") if is_racing(one)] if name == SHARED else [name]
    return tuple(dict.fromkeys(found))


@cache
def is_racing(workload: str) -> bool:
    """Return True if the workload is one kind of race with numbered races in keyspaces of their own. Raises PlanError for an unknown name."""
    return isinstance(load("workloads", workload), RacingWorkload)


def shell(argv: Sequence[str]) -> str:
    """Join a command into one line for a shell."""
    return shlex.join(argv)


def _matches(system: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(system, pattern) for pattern in patterns)


@cache
def document() -> Mapping[str, Any]:
    """Read `matrix.toml`."""
    return tomllib.loads(files(__package__).joinpath("matrix.toml").read_text(encoding="utf-8"))
