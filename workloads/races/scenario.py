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
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, cast, get_args

import orjson

from schemaquake.harness.ddl.cql import is_identifier, plain_name
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.errors import NotApplicable, PlanError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.options import configured, option
from schemaquake.harness.model.protocols import Context, FaultRequest, Phase, Worker
from schemaquake.harness.model.steps import Invoke, Step, Wait
from schemaquake.workloads.races.cut import requested_cuts
from schemaquake.workloads.races.engine import (
    Lookup,
    Race,
    RowPhase,
    RowProbe,
    crew,
    race_keyspace,
    race_numbers,
    steps,
)
from schemaquake.workloads.races.options import RacingOptions

__all__ = ["Scenario", "ScenarioFile", "race_from_json", "race_to_json", "without_vain_probes"]

_NAMES: Final = frozenset({"keyspace", "name", "base", "table", "index"})
"""The places of an operation's value that name the objects it is about."""
_ROW_OPERATIONS: Final = frozenset({"insert", "read-rows", "delete-row", "truncate"})
_STRIDE: Final = 42
"""Races whose numbers differ by it meet in the same order (7 orders) and, with three nodes, begin a like cycle of pairs (6)."""


@dataclass(frozen=True, slots=True)
class ScenarioFile:
    """The content of a scenario's file: races, in the order in which they are run, and the features they need."""

    races: tuple[Race, ...]
    requires: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Any]:
        """Return the content as JSON."""
        return {"requires": sorted(self.requires), "races": [race_to_json(race) for race in self.races]}

    @classmethod
    def from_json(cls, document: Any) -> ScenarioFile:
        """Read a file written by `to_json` or by hand. Raises PlanError that names the mistake."""
        try:
            races = tuple(race_from_json(race) for race in document["races"])
            requires = frozenset(document.get("requires", ()))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise PlanError(f"not a scenario: {type(error).__name__}: {error}") from error
        if not races:
            raise PlanError("not a scenario: it has no races")
        for race in races:
            _refuse_vain_probes(race)
        return cls(races, requires)


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
    options = ScenarioOptions()

    def faults(self, context: Context) -> Sequence[FaultRequest]:
        """Return the cut of mode `partition`. Raises PlanError if it has no two sides."""
        return requested_cuts(configured(self.options, context.options), context)

    def races(self, context: Context) -> tuple[Race, ...]:
        """Return every race of the run in order: all of the file, repeated. Raises PlanError, NotApplicable."""
        return _races(context)

    def crew(self, context: Context) -> Sequence[Worker]:
        """Return the crew. Raises PlanError for a file without races, NotApplicable for a system that lacks a feature."""
        return crew(_races(context), context)

    def steps(self, phase: Phase, worker: Worker, context: Context, *, phase_label: str) -> Iterator[Step]:
        """Return the steps of one worker in one phase of every race."""
        return steps(_races(context), phase, worker, context, phase_label=phase_label)


def race_to_json(race: Race) -> dict[str, Any]:
    """Return a race as a scenario's file holds it."""
    return {
        "workload": race.workload,
        "variant": race.variant,
        "number": race.number,
        "keyspace": race.keyspace,
        "setup": [_step_document(step) for step in race.setup],
        "sides": [[_step_document(step) for step in side] for side in race.sides],
        "tables": [
            {
                "table": probe.table,
                "row": [[name, value] for name, value in probe.row],
                "key": probe.key,
                "phases": [phase for phase in get_args(RowPhase) if phase in probe.phases],
                "side": probe.side,
                "rows": probe.rows,
            }
            for probe in race.tables
        ],
        "lookups": [asdict(lookup) for lookup in race.lookups],
        "disturbance": race.disturbance,
        **({} if race.keyspace_exists else {"keyspace_exists": False}),
    }


def race_from_json(document: Mapping[str, Any]) -> Race:
    """Read back what `race_to_json` wrote. Raises KeyError, TypeError, ValueError for what is no race."""
    setup = tuple(_step(step, setup=True) for step in document["setup"])
    return Race(
        workload=str(document["workload"]),
        variant=str(document.get("variant", "")),
        number=int(document.get("number", 0)),
        keyspace=_named(document["keyspace"], "keyspace"),
        setup=tuple(step for step in setup if isinstance(step, Invoke)),
        sides=tuple(tuple(_step(step) for step in side) for side in document["sides"]),
        tables=tuple(_probe(probe) for probe in document.get("tables", ())),
        lookups=tuple(_lookup(lookup) for lookup in document.get("lookups", ())),
        disturbance=int(document.get("disturbance", 0)),
        keyspace_exists=bool(document.get("keyspace_exists", True)),
    )


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


def without_vain_probes(race: Race) -> Race:
    """Leave out the rows that no outcome of the race lets anybody write, such as those of a table whose CREATE was left out."""
    made = _made_by(race)
    return replace(race, tables=tuple(probe for probe in race.tables if _lack(made, probe) is None))


def _refuse_vain_probes(race: Race) -> None:
    """Refuse rows that no outcome of the race lets anybody write. Raises PlanError."""
    made = _made_by(race)
    for probe in race.tables:
        if (lack := _lack(made, probe)) is not None:
            raise PlanError(
                f"the rows of {race.keyspace}.{probe.table} (race {race.number} of {race.workload}) can never be written: {lack}"
            )


def _made_by(race: Race) -> _Made:
    made = _Made()
    for change in [*race.setup, *(step for side in race.sides for step in side if isinstance(step, Invoke))]:
        made.add(change.f, cast("Mapping[str, Any]", change.value))
    return made


def _lack(made: _Made, probe: RowProbe) -> str | None:
    """Return what the race lacks for these rows to be written, in words; None if it lacks nothing."""
    name = plain_name(probe.table)
    name = made.bases.get(name, name)
    if name not in made.columns:
        return "no statement of the race creates that table"
    mine = {plain_name(column): column for column in probe.columns}
    lacking = sorted(mine.keys() - made.columns[name])
    if lacking:
        return f"no statement of the race gives it a column {mine[lacking[0]]}"
    if name not in made.renamed and not any(key <= mine.keys() for key in made.keys.get(name, ())):
        return "they lack a column of its primary key, or it has counters"
    return None


@dataclass(slots=True)
class _Made:
    """The tables that a race's statements create or alter, by plain name, whichever of them succeed."""

    columns: dict[str, set[str]] = field(default_factory=dict)
    keys: dict[str, list[set[str]]] = field(default_factory=dict)
    """The primary key of each definition into which rows can be inserted."""
    renamed: set[str] = field(default_factory=set)
    """Tables with a renamed column, whose key may have any of two names."""
    bases: dict[str, str] = field(default_factory=dict)
    """View → its base."""

    def add(self, f: str, definition: Mapping[str, Any]) -> None:
        """Take one statement into account."""
        name = plain_name(str(definition.get("name", "")))
        match f:
            case "create-table":
                columns = [
                    (plain_name(str(column)), kind, cql_type) for column, cql_type, kind in definition["columns"]
                ]
                self.columns.setdefault(name, set()).update(column for column, _, _ in columns)
                if not any(cql_type == "counter" for _, _, cql_type in columns):
                    key = {column for column, kind, _ in columns if kind in {"partition_key", "clustering"}}
                    self.keys.setdefault(name, []).append(key)
            case "add-column":
                self.columns.setdefault(name, set()).add(plain_name(str(definition["column"][0])))
            case "rename-column":
                self.columns.setdefault(name, set()).add(plain_name(str(definition["to"])))
                self.renamed.add(name)
            case "create-view":
                self.bases[name] = plain_name(str(definition["base"]))


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


def _file(options: ScenarioOptions) -> ScenarioFile:
    if not options.scenario:
        raise PlanError("the workload scenario needs a file: name it with -O scenario=PATH")
    return _read(Path(options.scenario).resolve())


@cache
def _read(path: Path) -> ScenarioFile:
    try:
        return ScenarioFile.from_json(orjson.loads(path.read_bytes()))
    except OSError as error:
        raise PlanError(f"cannot read the scenario {path}: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise PlanError(f"{path} is no JSON: {error}") from error
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from error


def _step_document(step: Invoke | Wait) -> dict[str, JSON]:
    if isinstance(step, Wait):
        return {"wait": step.seconds}
    return {"f": step.f, "key": step.key, "value": step.value}


def _step(document: Mapping[str, Any], *, setup: bool = False) -> Invoke | Wait:
    """Read a step. Rows are written and read by sides, and by probes, but not by the setup."""
    if "wait" in document:
        return Wait(float(document["wait"]))
    if document["f"] not in (SCHEMA_CHANGES if setup else SCHEMA_CHANGES | _ROW_OPERATIONS):
        raise ValueError(f'"{document["f"]}" is no schema change')
    for place in _NAMES & document["value"].keys():
        if document["value"][place] is not None:
            _named(document["value"][place], place)
    return Invoke(document["f"], document.get("key"), document["value"])


def _named(name: Any, place: str) -> str:
    """Return the name of an object. Raises ValueError for a text that is no identifier."""
    if not isinstance(name, str) or not is_identifier(name):
        raise ValueError(f"the {place} {name!r} is no identifier")
    return name


def _lookup(document: Mapping[str, Any]) -> Lookup:
    for place in ("table", "index", "base"):
        if document.get(place) is not None:
            _named(document[place], place)
    return Lookup(**document)


def _probe(document: Mapping[str, Any]) -> RowProbe:
    phases = frozenset(document.get("phases", get_args(RowPhase)))
    if not phases <= set(get_args(RowPhase)):
        raise ValueError(f"phases of rows are {', '.join(get_args(RowPhase))}, not {', '.join(sorted(phases))}")
    return RowProbe(
        table=_named(document["table"], "table"),
        row=tuple((str(name), value) for name, value in document.get("row", [["v", "a row"]])),
        key=str(document.get("key", "k")),
        phases=phases,
        side=document.get("side"),
        rows=int(document.get("rows", 1)),
    )
