"""Scenario: races that are written down in a file, to be run as they stand: `-O scenario=PATH`.

A file is one JSON object:

    {"requires": ["tables", "types"],            features without which it cannot be run
     "races": [{
       "workload": "drop-type", "variant": "table", "number": 0,     its origin; the number fixes the coordinators of its sides
       "keyspace": "k",                          the name of its keyspace, wherever the rest uses it
       "setup": [{"f": "create-type", "key": "k.u", "value": {…}}],  operations as a history has them
       "sides": [[…], [… {"wait": 0.2} …]],      a list of operations for each coordinator
       "tables": [{"table": "t", "row": [["v", "a row"]], "key": "k", "phases": ["settled"], "side": null, "rows": 1}],
       "lookups": [{"table": "t", "column": "c", "value": 7, "index": "i"}],     reads through an index or a view after the race
       "disturbance": 0}]}

`--races` is how often all of them are run, each time in keyspaces of their own. The same engine runs them as runs the
workloads they come from (`schemaquake.workloads.races.engine`), so anomalies of those workloads can be repeated. `schemaquake shrink` writes such files.

Must hold: the guarantees of the workload that a race comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

import orjson

from schemaquake.harness.ddl.cql import plain_name
from schemaquake.harness.errors import NotApplicable, PlanError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.options import configured, option
from schemaquake.harness.model.protocols import Context, FaultRequest, Phase, Worker
from schemaquake.harness.model.steps import Invoke, Step, Wait
from schemaquake.harness.named_files import read_named_bytes
from schemaquake.workloads.races.cut import requested_cuts
from schemaquake.workloads.races.engine import Race, crew, race_keyspace, race_numbers, racers_max, steps
from schemaquake.workloads.races.options import RacingOptions
from schemaquake.workloads.races.scenario_file import ScenarioFile

__all__ = ["Scenario", "in_keyspace"]

_STRIDE: Final = 42
"""Races whose numbers differ by it meet in the same order (7 orders) and, with three nodes, begin a like cycle of pairs (6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOptions(RacingOptions):
    """Options of races that are written down; `races` is how often all of them are run."""

    scenario: str = option("", "the path of the file that holds the races", parse=str)

    def check(self, context: Context) -> None:
        """Refuse options that exclude each other, and a run without a file. Raises PlanError."""
        RacingOptions.check(self, context)
        _file(self)


class Scenario:
    """The races of a file."""

    name = "scenario"
    requires = frozenset({"keyspaces"})
    sets_up_first = True
    options = ScenarioOptions()

    def faults(self, context: Context) -> Sequence[FaultRequest]:
        """Return the cut of mode `partition`. Raises PlanError if it has no two sides."""
        return requested_cuts(configured(self.options, context.options), context)

    def races(self, context: Context) -> tuple[Race, ...]:
        """Return every race of the run in order: all of the file, repeated. Raises PlanError, NotApplicable."""
        return _races(context)

    def crew(self, context: Context) -> Sequence[Worker]:
        """Return the crew. Raises PlanError for a file without races or with too many sides, NotApplicable for a system that lacks a feature."""
        races = _races(context)
        _refuse_more_sides(races, context)
        return crew(races, context)

    def steps(self, phase: Phase, worker: Worker, context: Context, *, phase_label: str) -> Iterator[Step]:
        """Return the steps of one worker in one phase of every race."""
        return steps(_races(context), phase, worker, context, phase_label=phase_label)


def in_keyspace(race: Race, keyspace: str, number: int) -> Race:
    """Return the same race in another keyspace. Names move by their role: a column that is called as the keyspace stays."""

    def step(one: Invoke | Wait) -> Invoke | Wait:
        return one if isinstance(one, Wait) else _moved(one, race.keyspace, keyspace)

    return replace(
        race,
        number=number,
        keyspace=keyspace,
        setup=tuple(_moved(one, race.keyspace, keyspace) for one in race.setup),
        sides=tuple(tuple(step(one) for one in side) for side in race.sides),
    )


_PARTS: Final = frozenset({"columns", "column", "fields", "field"})
"""Parts of a definition that are names with their types; DROP and RENAME have a bare name there."""
_TYPES: Final = frozenset({"returns", "state_type"})
"""Parts of a definition that are types."""
_FUNCTIONS: Final = frozenset({"state_function", "final_function"})
"""Parts of a definition that name a function, perhaps with its keyspace."""
_WORD: Final = re.compile(
    r"""'(?:[^']|'')*'|(?P<dot>\.\s*)?(?P<name>"(?:[^"]|"")+"|[A-Za-z]\w*)(?=(?P<qualifies>\s*\.)?)"""
)
"""A name in a type or before a function, or a literal, which is no name."""


def _moved(change: Invoke, old: str, new: str) -> Invoke:
    """Return an operation with its keyspace renamed, wherever it stands as the keyspace of something."""
    value = change.value
    assert isinstance(value, Mapping)
    given = value.get("keyspace")
    if not isinstance(given, str) or plain_name(given) != plain_name(old):
        return change
    moved: dict[str, JSON] = dict(value) | {"keyspace": new}
    for name in moved.keys() & _PARTS:
        moved[name] = _with_parts(moved[name], old, new)
    for name in moved.keys() & (_TYPES | _FUNCTIONS):
        moved[name] = _requalified(moved[name], old, new)
    arguments = moved.get("arguments")
    if isinstance(arguments, list | tuple):  # of a function with names, of an aggregate without
        moved["arguments"] = [
            _with_type(one, old, new) if isinstance(one, list | tuple) else _requalified(one, old, new)
            for one in arguments
        ]
    key = change.key
    if key is not None and (key == given or key.startswith(f"{given}.")):
        key = new + key.removeprefix(given)
    return replace(change, key=key, value=moved)


def _with_parts(parts: JSON, old: str, new: str) -> JSON:
    """Move the types of one column or field, or of a list of them."""
    match parts:
        case [str(), *_]:
            return _with_type(parts, old, new)
        case [*entries]:
            return [_with_type(entry, old, new) for entry in entries]
    return parts


def _with_type(part: JSON, old: str, new: str) -> JSON:
    """Move the type of a part: the second entry, behind its name."""
    match part:
        case [name, cql_type, *kind]:
            return [name, _requalified(cql_type, old, new), *kind]
    return part


def _requalified(text: JSON, old: str, new: str) -> JSON:
    """Rename a keyspace where it qualifies a name: `frozen<k.u>`, `"k".fn`. A type that is called as the keyspace stays."""

    def renamed(word: re.Match[str]) -> str:
        name = word["name"]
        if name is None or word["dot"] or word["qualifies"] is None or plain_name(name) != plain_name(old):
            return word[0]
        return new

    return _WORD.sub(renamed, text) if isinstance(text, str) else text


def _races(context: Context) -> tuple[Race, ...]:
    """Return every race of the run in order: all of the file, repeated."""
    options = configured(Scenario.options, context.options)
    file = _file(options)
    lacking = file.requires - context.features
    if lacking:
        raise NotApplicable(
            f"{options.scenario} is not applicable here: this system has no {', '.join(sorted(lacking))}"
        )
    made = []
    for turn in race_numbers(context):
        for place, race in enumerate(file.races):
            keyspace = race_keyspace(context, "scenario", turn * len(file.races) + place)
            made.append(in_keyspace(race, keyspace, race.number + _STRIDE * turn))
    return tuple(made)


def _refuse_more_sides(races: Sequence[Race], context: Context) -> None:
    """Refuse races with sides that no coordinator would carry out. Raises PlanError."""
    mode = configured(Scenario.options, context.options).mode
    most = max(len(race.sides) for race in races)
    if mode != "single" and most > (there := racers_max(context)):
        raise PlanError(f"a race of the scenario has {most} sides, and in mode {mode} here only {there} can take part")


def _file(options: ScenarioOptions) -> ScenarioFile:
    if not options.scenario:
        raise PlanError("the workload scenario needs a file: name it with -O scenario=PATH")
    return _read(Path(options.scenario).resolve())


@cache
def _read(path: Path) -> ScenarioFile:
    try:
        return ScenarioFile.from_json(orjson.loads(read_named_bytes(path)))
    except OSError as error:
        raise PlanError(f"cannot read the scenario {path}: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise PlanError(f"{path} is no JSON: {error}") from error
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from error
