"""Scenario file: races as JSON, as `schemaquake shrink` and people write them (see `schemaquake.workloads.races.scenario`).

A file says what is run and what is looked at, so that nothing in it may be lost without a word: a part that is not known, a statement that
lacks one, and rows that can never be written are mistakes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, get_args

import orjson

from schemaquake.harness.ddl.cql import is_identifier, plain_name, statement
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.steps import Invoke, Wait
from schemaquake.workloads.races.engine import HARMLESS, REFUSES, Lookup, Race, RowPhase, RowProbe
from schemaquake.workloads.races.impossible import refuse_impossible

__all__ = ["ScenarioFile", "race_from_json", "race_to_json"]

_NAMES: Final = frozenset({"keyspace", "name", "base", "table", "index"})
"""The places of an operation's value that name the objects it is about."""
_ROW_OPERATIONS: Final = frozenset({"insert", "read-rows", "delete-row", "truncate"})
_RACE: Final = frozenset({each.name for each in fields(Race)})
"""The parts of a race in a file."""
_COLUMN_KINDS: Final = frozenset({"partition_key", "clustering", "static", "regular"})
_UNSAID: Final = frozenset({"consistency", "phase", "form", "key", "beside", "index", "base", "where"})
"""The places of an operation's value that need not stand in its statement."""
_NUMBER_MOST: Final = 2**31 - 1
_WAIT_MOST_S: Final = 3600


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
            _refuse_unknown(document, "a scenario", {"races", "requires"})
            races = tuple(race_from_json(race) for race in document["races"])
            requires = frozenset(_texts(document.get("requires", ()), "requires"))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise PlanError(f"not a scenario: {type(error).__name__}: {error}") from error
        if not races:
            raise PlanError("not a scenario: it has no races")
        for race in races:
            _refuse_other_keyspaces(race)
            refuse_impossible(race)
        return cls(races, requires)


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
    _refuse_unknown(document, "a race", _RACE)
    setup = tuple(_step(step, setup=True) for step in document["setup"])
    return Race(
        workload=str(document["workload"]),
        variant=str(document.get("variant", "")),
        number=_whole(document.get("number", 0), "the number of a race", _NUMBER_MOST),
        keyspace=_named(document["keyspace"], "keyspace"),
        setup=tuple(step for step in setup if isinstance(step, Invoke)),
        sides=tuple(tuple(_step(step) for step in side) for side in document["sides"]),
        tables=tuple(_probe(probe) for probe in document.get("tables", ())),
        lookups=tuple(_lookup(lookup) for lookup in document.get("lookups", ())),
        disturbance=_whole(document.get("disturbance", HARMLESS), "the disturbance of a race", REFUSES),
        keyspace_exists=bool(document.get("keyspace_exists", True)),
    )


def _refuse_other_keyspaces(race: Race) -> None:
    """Refuse statements about a keyspace that is not moved with the race. Raises PlanError."""
    for step in (*race.setup, *(step for side in race.sides for step in side if isinstance(step, Invoke))):
        assert isinstance(step.value, Mapping)
        if plain_name(str(step.value["keyspace"])) != plain_name(race.keyspace):
            raise PlanError(
                f"{step.f} of {step.key} (race {race.number} of {race.workload}) is about another keyspace than that of "
                f"its race, {race.keyspace}, which gets a name of the run's own"
            )


def _step_document(step: Invoke | Wait) -> dict[str, JSON]:
    if isinstance(step, Wait):
        return {"wait": step.seconds}
    return {"f": step.f, "key": step.key, "value": step.value}


def _step(document: Mapping[str, Any], *, setup: bool = False) -> Invoke | Wait:
    """Read a step. Rows are written and read by sides, and by probes, but not by the setup."""
    if "wait" in document:
        _refuse_unknown(document, "a wait", {"wait"})
        seconds = float(document["wait"])
        if not 0 <= seconds <= _WAIT_MOST_S:
            raise ValueError(f"a side waits from 0 to {_WAIT_MOST_S} s, not {seconds:g}")
        return Wait(seconds)
    _refuse_unknown(document, "an operation", {"f", "key", "value"})
    f, value = str(document["f"]), document.get("value")
    if f not in (SCHEMA_CHANGES if setup else SCHEMA_CHANGES | _ROW_OPERATIONS):
        raise ValueError(f'"{f}" is no schema change')
    if not isinstance(value, Mapping):
        raise TypeError(f"the value of {f} is a JSON object, not {value!r}")
    for place in _NAMES & value.keys():
        if value[place] is not None:
            _named(value[place], place)
    _refuse_no_statement(f, value)
    return Invoke(f, _key(document.get("key"), value), value)


def _refuse_no_statement(f: str, value: Mapping[str, Any]) -> None:
    """Refuse a value that lacks a part of its statement, or has one that would not stand in it. Raises ValueError."""
    read = _Read(value)
    try:
        statement(f, read)
        kinds = {kind for _, _, kind in value["columns"]} if f == "create-table" else set()
    except KeyError as error:
        raise ValueError(f"{f} needs {error}") from error
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"{f} of {orjson.dumps(value).decode()} is no statement") from error
    if unread := sorted(value.keys() - read.names - _UNSAID):
        raise ValueError(f'{f} has no "{unread[0]}": its statement says {", ".join(sorted(read.names))}')
    if unknown := sorted(kinds - _COLUMN_KINDS):
        raise ValueError(f'a column of {f} is {", ".join(sorted(_COLUMN_KINDS))}, not "{unknown[0]}"')


class _Read(Mapping[str, Any]):
    """A value that notes the names by which its parts are asked for."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.names: set[str] = set()
        self._value = value

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return self._value[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._value)

    def __len__(self) -> int:
        return len(self._value)


def _key(given: str | None, value: Mapping[str, Any]) -> str:
    """Return the key by which checkers know the object. Raises ValueError if another one is given."""
    name = value.get("name", value.get("table"))
    key = str(value["keyspace"]) if name is None else f"{value['keyspace']}.{name}"
    if given is not None and list(map(plain_name, given.split("."))) != list(map(plain_name, key.split("."))):
        raise ValueError(f'the key "{given}" is not that of its value, {key}')
    return key if given is None else given


def _named(name: Any, place: str) -> str:
    """Return the name of an object. Raises ValueError for a text that is no identifier."""
    if not isinstance(name, str) or not is_identifier(name):
        raise ValueError(f"the {place} {name!r} is no identifier")
    return name


def _lookup(document: Mapping[str, Any]) -> Lookup:
    _refuse_unknown(document, "a lookup", {each.name for each in fields(Lookup)})
    for place in ("table", "index", "base"):
        if document.get(place) is not None:
            _named(document[place], place)
    return Lookup(**document)


def _probe(document: Mapping[str, Any]) -> RowProbe:
    _refuse_unknown(document, "a kind of row", {each.name for each in fields(RowProbe)})
    phases = frozenset(document.get("phases", get_args(RowPhase)))
    if not phases <= set(get_args(RowPhase)):
        raise ValueError(f"phases of rows are {', '.join(get_args(RowPhase))}, not {', '.join(sorted(phases))}")
    return RowProbe(
        table=_named(document["table"], "table"),
        row=tuple((str(name), value) for name, value in document.get("row", [["v", "a row"]])),
        key=str(document.get("key", "k")),
        phases=phases,
        side=None if document.get("side") is None else _whole(document["side"], "the side of rows", _NUMBER_MOST),
        rows=_whole(document.get("rows", 1), "the number of rows", _NUMBER_MOST, least=1),
    )


def _whole(value: Any, what: str, most: int, *, least: int = 0) -> int:
    """Return a whole number. Raises ValueError for anything else, and for one out of its range."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{what} is a whole number from {least} to {most}, not {value!r}")
    return value


def _texts(value: Any, what: str) -> list[str]:
    """Return a list of texts. Raises ValueError for anything else, such as one text."""
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{what} is a list of texts, not {value!r}")
    return list(value)


def _refuse_unknown(document: Any, what: str, known: AbstractSet[str]) -> None:
    """Refuse a misspelt part, which would be a silent loss of statements or evidence. Raises TypeError, ValueError."""
    if not isinstance(document, Mapping):
        raise TypeError(f"{what} is a JSON object, not {document!r}")
    if unknown := sorted(document.keys() - known):
        raise ValueError(f'{what} has no "{unknown[0]}": its parts are {", ".join(sorted(known))}')
