"""Recorded batches: everything that a grid knows, as one Parquet file without its runs, from which another grid can go on.

One row a batch, with its races as nested rows. Explanations of all symptoms of a race but the worst are left out, and so are the runs'
folders, which stay where they were made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from schemaquake.harness.errors import HistoryError
from schemaquake.results.findings.cause import Cause, read_design
from schemaquake.results.findings.known import KnownFinding, known_findings
from schemaquake.results.grid.facts import BatchFacts, RaceFacts, is_behind, is_divided, without_consequences
from schemaquake.results.grid.folder import DoneBatch
from schemaquake.results.grid.plan import Batch
from schemaquake.results.store.named_tables import read_named_table
from schemaquake.results.store.store import write_table

__all__ = ["BATCHES", "decided_anew", "distinct", "read_batches", "renumbered", "with_newest_findings", "write_batches"]

_SYMPTOM: Final = pa.struct([("type", pa.string()), ("title", pa.string()), ("explanation", pa.string())])
_FINDING: Final = pa.struct(
    [
        ("id", pa.string()),
        ("title", pa.string()),
        ("tickets", pa.list_(pa.string())),
        ("page", pa.string()),
        ("known", pa.bool_()),
    ]
)
_RACE: Final = pa.struct(
    [
        ("cell", pa.string()),
        ("keyspace", pa.string()),
        ("statements", pa.list_(pa.string())),
        ("acknowledged", pa.int64()),
        ("unanswered", pa.int64()),
        ("symptoms", pa.list_(_SYMPTOM)),
        ("finding", _FINDING),
        ("doubts", pa.list_(pa.string())),
    ]
)
BATCHES: Final = pa.schema(
    [
        ("system", pa.string()),
        ("mode", pa.string()),
        ("cells", pa.list_(pa.string())),
        ("turn", pa.int64()),
        ("completed", pa.bool_()),
        ("applicable", pa.bool_()),
        ("error", pa.string()),
        ("seconds", pa.float64()),
        ("races", pa.list_(_RACE)),
        ("at_large", pa.list_(_SYMPTOM)),
        ("doubts", pa.list_(pa.string())),
        ("server", pa.string()),
    ]
)
_OF_THE_BATCH: Final = ("system", "mode", "cells", "turn")


def write_batches(path: Path, done: Iterable[DoneBatch]) -> None:
    """Write one row a batch (`BATCHES`)."""
    write_table(path, pa.Table.from_pylist([_row(one) for one in done], schema=BATCHES))


def read_batches(path: Path) -> list[DoneBatch]:
    """Read what `write_batches` wrote, numbered from 0. Raises HistoryError for a file that is none, or missing."""
    rows = read_named_table(
        path, BATCHES, rows="batches of a grid", usual="the batches.parquet of a grid", needed=_OF_THE_BATCH
    ).to_pylist()
    try:
        return list(renumbered(_batch(row) for row in rows))
    except (KeyError, TypeError) as error:
        raise HistoryError(f"{path} has no batches of a grid: {error}") from error


def renumbered(done: Iterable[DoneBatch]) -> Iterator[DoneBatch]:
    """Number batches of several grids anew."""
    for number, one in enumerate(done):
        yield DoneBatch(replace(one.unit, number=number), one.facts)


def distinct(done: Iterable[DoneBatch]) -> list[DoneBatch]:
    """Leave out what is there twice: a grid that went on with another's batches has them, too."""
    found = {
        (one.unit.system, one.unit.mode, one.unit.cells, one.unit.turn, one.facts.seconds): one
        for one in reversed(list(done))
    }
    return list(renumbered(reversed(found.values())))


def with_newest_findings(done: Iterable[DoneBatch]) -> list[DoneBatch]:
    """Give each broken race what is known of its finding now: by the list of known findings, or by any batch of these.

    Runs of batches from elsewhere are not there to be judged again; a finding's id follows from its cause, so that its entry is found without them.
    """
    every = list(done)
    found = [race.finding for one in every for race in one.facts.races if race.finding is not None]
    known = {finding.id: finding for finding in found if finding.known}
    listed: dict[str, Mapping[str, KnownFinding]] = {
        system: _entries_by_id(system) for system in {one.unit.system for one in every}
    }

    def renewed(race: RaceFacts, system: str) -> RaceFacts:
        if race.finding is None or race.finding.known:
            return race
        entry = listed[system].get(race.finding.id)
        types = {symptom.type for symptom in race.symptoms}
        if entry is not None and (not entry.symptoms or entry.symptoms & types):
            cause = replace(race.finding, title=entry.title, tickets=entry.tickets, page=entry.page, known=True)
            return replace(race, finding=cause)
        return replace(race, finding=known.get(race.finding.id, race.finding))

    return [
        DoneBatch(
            one.unit,
            replace(one.facts, races=tuple(renewed(race, one.unit.system) for race in one.facts.races)),
        )
        for one in every
    ]


def _entries_by_id(system: str) -> Mapping[str, KnownFinding]:
    """Map ids of findings of a system's design to their entries; those that fit whatever else raced have no id."""
    product, era = read_design(system)
    return {
        Cause(product=product, era=era, statements=entry.statements, fault=entry.fault).id: entry
        for entry in reversed(known_findings())
        if era in entry.eras and not entry.alone
    }


def _row(one: DoneBatch) -> dict[str, Any]:
    facts = replace(one.facts, run=None, command="", races=tuple(map(_in_short, one.facts.races)))
    document = facts.to_json()
    own = {name: value for name, value in one.unit.to_json().items() if name in _OF_THE_BATCH}
    return own | {name: document[name] for name in BATCHES.names if name not in _OF_THE_BATCH}


def _in_short(race: RaceFacts) -> RaceFacts:
    worst, *others = race.symptoms or (None,)
    if worst is None:
        return race
    return replace(race, symptoms=(worst, *(replace(one, explanation="") for one in others)))


def _batch(row: dict[str, Any]) -> DoneBatch:
    unit = Batch.from_json({name: row[name] for name in _OF_THE_BATCH} | {"number": 0})
    facts = {name: value for name, value in row.items() if name not in _OF_THE_BATCH}
    return decided_anew(DoneBatch(unit, BatchFacts.from_json({**facts, "run": None})))


def decided_anew(done: DoneBatch) -> DoneBatch:
    """Put in doubt what other races of the batch may have brought: less was known of that when older batches were recorded."""
    races = done.facts.races
    # Which races were one round is not recorded; those under a cut are.
    at_once = len(races) if done.unit.mode == "partition" else 1
    divided = is_divided(chain(done.facts.at_large, *(race.symptoms for race in races)))
    decided = without_consequences(races, at_once=at_once, divided=divided, behind=is_behind(done.facts.at_large))
    return replace(done, facts=replace(done.facts, races=tuple(decided)))
