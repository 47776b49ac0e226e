"""Attribution: the races that an anomaly broke, and the anomalies that concern the run at large.

One rule for every table, page and matrix:

- An anomaly of the whole cluster (its scope in the catalogue) is at large. It may name objects that are not its cause: a
  schema disagreement names the last acknowledged change.
- Any other anomaly belongs to the races whose keyspaces its objects live in; one without objects, to those of its operations.
- One that names no race but a canary belongs to the last race that began, and is at large too: the canaries before that
  race succeeded and nothing raced after it, yet another kind of race may have prepared the damage. The same holds for any
  other keyspace if the main phase ended early, because its race never began.
- An anomaly of a node is at large besides: its rate is counted by runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.findings.catalogue import counted_by_runs, scope_of
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import keyspace_of
from schemaquake.harness.model.verdict import Anomaly

__all__ = ["Attribution", "Ground", "attribute", "attribute_all", "read_ground"]

_RACE: Final = "race"
_MAIN: Final = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The notes of a run that decide which race an anomaly belongs to."""

    races: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Keyspace → the value of the race's note, in the order in which the races began."""
    canaries: frozenset[str] = frozenset()
    """Keyspaces of canaries, in which nothing races."""
    ended_early: bool = False
    """True if the main phase ended before all races began."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """The keyspaces of the races that one anomaly belongs to, and whether it concerns the run at large."""

    races: tuple[str, ...]
    at_large: bool


def read_ground(history: pa.Table) -> Ground:
    """Read the notes on races from a history of a whole run; other events may be left out of it."""
    events = history.filter(pc.equal(history["process"], NEMESIS)).select(["f", "key", "value"])
    wanted = pc.is_in(events["f"], pa.array([_RACE, "phase-ended-early"]))
    races: dict[str, Mapping[str, Any]] = {}
    ended_early = False
    for event in events.filter(wanted).to_pylist():
        value = orjson.loads(event["value"] or "{}")
        if event["f"] != _RACE:
            ended_early = ended_early or value.get("phase") == _MAIN
            continue
        keyspace = keyspace_of(event["key"]) or value.get("keyspace")
        if keyspace is not None:
            races.setdefault(keyspace, value)
    canaries = {keyspace_of(note["canary"]) for note in races.values() if note.get("canary") is not None}
    return Ground(races=races, canaries=frozenset(name for name in canaries if name), ended_early=ended_early)


def attribute(anomaly: Anomaly, ground: Ground, keyspaces: Iterable[str] = ()) -> Attribution:
    """Decide which races an anomaly belongs to. `keyspaces` are those of its operations."""
    if scope_of(anomaly.type) == "cluster":
        return Attribution((), at_large=True)
    objects = [keyspace_of(name) for name in anomaly.objects]
    named = dict.fromkeys(name for name in (objects or keyspaces) if name is not None)
    mine = tuple(name for name in named if name in ground.races)
    if mine:
        return Attribution(mine, at_large=counted_by_runs(anomaly.type))
    stray = bool(named) if ground.ended_early else bool(named.keys() & ground.canaries)
    return Attribution(tuple(ground.races)[-1:] if stray else (), at_large=True)


def attribute_all(anomalies: Iterable[Anomaly], ground: Ground, operations: pa.Table) -> tuple[Attribution, ...]:
    """Attribute each anomaly; `operations` need the columns `index`, `completion` and `key`."""
    return tuple(
        attribute(one, ground, () if one.objects else _keyspaces_of_operations(operations, one.ops))
        for one in anomalies
    )


def _keyspaces_of_operations(operations: pa.Table, indices: Sequence[int]) -> tuple[str, ...]:
    """Return the keyspaces of the operations with these indices, of invocation or completion, each once."""
    if not indices:
        return ()
    wanted = pa.array(indices, pa.int64())
    either = pc.or_kleene(pc.is_in(operations["index"], wanted), pc.is_in(operations["completion"], wanted))
    keys = pc.unique(operations["key"].filter(either)).to_pylist()
    return tuple(dict.fromkeys(name for key in keys if (name := keyspace_of(key)) is not None))
