"""Reloaded rows: rows of a table that is dropped, created anew and loaded from its snapshot by the nemesis `reload-table`.

Workers insert rows with keys of their own, and delete some of them again, before, while and after the table is exchanged. Each row is written
once, so that what a load puts back never meets another write of the same row. Every final phase reads the table through each coordinator at
ONE and through the first at ALL. With `-O delete-again=true` some of the rows that were deleted are deleted once more, some time later.

Must hold: a row that was acknowledged before the reload began is there again when it was acknowledged, and so is every row that was written
to the new table; a row that was deleted before stays deleted (checker `acked-rows`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Final

from schemaquake.harness.ddl.reloaded_table import RELOADED_ROWS, TABLE, WANING, create_reloaded, reloaded_keyspace
from schemaquake.harness.ddl.rows import delete_row, insert, read_rows
from schemaquake.harness.model.options import configured, option, truth
from schemaquake.harness.model.protocols import Context, Phase, Worker
from schemaquake.harness.model.steps import Invoke, Step, Wait
from schemaquake.workloads.data.reading_and_writing import DataWorkload, unique_values
from schemaquake.workloads.one_a_node import share

__all__ = ["ReloadedRows"]

_FIRST_ROWS: Final = 20
"""Rows of each worker that are there when the main phase begins."""
_DELETES: Final = 0.1
_AGAIN: Final = 0.3
"""The share of the inserts after which, with `delete-again`, a row that was deleted before is deleted again."""
_SECONDS_TO_READ: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadedOptions:
    """Options of rows that are deleted."""

    delete_again: bool = option(
        False, "true if rows that were deleted are deleted again, some time later, or false", parse=truth
    )


class ReloadedRows(DataWorkload):
    """Inserts and deletes of unique rows in one table, and reads of all of them in the end."""

    def __init__(self) -> None:
        super().__init__(
            name=RELOADED_ROWS,
            requires=frozenset({"keyspaces", "tables", "cql", "columns"}),
            tables=lambda context: (create_reloaded(context),),
            operations=_inserts_and_deletes,
            last_reads=_last_reads,
            options=ReloadedOptions(),
        )

    def steps(self, phase: Phase, worker: Worker, context: Context, *, phase_label: str) -> Iterator[Step]:
        """Return the steps of a data workload, with rows that are written before the main phase."""
        if phase == "prepare":
            return _first_rows(worker, context)
        return super().steps(phase, worker, context, phase_label=phase_label)


def _first_rows(worker: Worker, context: Context) -> Iterator[Invoke]:
    """Write the rows with a value in the column that the table may lose.

    None is written later: a write that meets the DROP of its column leaves a table of 5.0 that cannot be read, reloaded or not.
    """
    for key in islice(unique_values(worker), _FIRST_ROWS):
        row = {"k": key, "v": key, WANING: key}
        yield insert(reloaded_keyspace(context), TABLE, row, consistency="QUORUM", phase="prepared")


def _inserts_and_deletes(worker: Worker, context: Context, random: Random) -> Iterator[Invoke]:
    keyspace = reloaded_keyspace(context)
    deletes_again = configured(ReloadedOptions(), context.options).delete_again
    deleted: list[int] = []
    for key in islice(unique_values(worker), _FIRST_ROWS, None):
        yield insert(keyspace, TABLE, {"k": key, "v": key}, consistency="QUORUM")
        if random.random() < _DELETES:
            yield delete_row(keyspace, TABLE, {"k": key}, consistency="QUORUM")
            deleted.append(key)
        if deletes_again and deleted and random.random() < _AGAIN:
            yield delete_row(keyspace, TABLE, {"k": random.choice(deleted)}, consistency="QUORUM")


def _last_reads(worker: Worker, context: Context, label: str) -> Iterator[Step]:
    keyspace = reloaded_keyspace(context)
    yield Wait(worker.index * _SECONDS_TO_READ)  # a read at ALL repairs what one at ONE is to show
    yield read_rows(keyspace, TABLE, consistency="ONE", phase=label)
    for name in share([TABLE], worker, context):
        yield Wait(len(context.nodes) * _SECONDS_TO_READ)
        yield read_rows(keyspace, name, consistency="ALL", phase=label)
