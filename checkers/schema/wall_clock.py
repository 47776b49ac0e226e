"""Wall clock: the time of day at which a change can have happened, from the times that nodes and the run recorded.

A run's own clock counts from its start. Where nodes read the harness's wall clock, the note of the plan says what that was. And an id that is a
time uuid (RFC 4122, version 1) carries the time of day at which its table was created, and the CREATE has a time on the run's clock:
together they set the one against the other.
"""

from __future__ import annotations

from typing import Final

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, certainly_applied
from schemaquake.harness.units import MS

__all__ = ["WallClock"]

_HEX_DIGITS: Final = 32
_GREGORIAN_MS: Final = 12_219_292_800_000
"""From the beginning of the Gregorian calendar, from which time uuids count, to 1970."""
_TICKS_A_MS: Final = 10_000
_DAY_MS: Final = 86_400_000
_SEVERAL: Final = 3
_SPREAD_MS: Final = 60_000
"""How far the clocks of machines may be apart without being at fault."""


class WallClock:
    """The time of day (ms since 1970) at which the run's clock was 0, within bounds; unknown without a note and any time uuid."""

    def __init__(self, case: Evidence) -> None:
        """Derive the bounds from the note of the plan, and from the ids of tables that were certainly created once."""
        self._case = case
        self._noted = self._earliest = self._latest = case.notes.begins_ms
        self._far: dict[int, float] = {}
        """What the ids of tables say that are days away from the note, by CREATE: they are no times, but for several that say the same."""
        for schema in case.readings.schemas:
            for (keyspace, name), table in schema.tables.items():
                creates = case.changes.creates(SchemaObject("table", keyspace, name))
                created = _time_of(table.id)
                is_sure = created is not None and len(creates) == 1 and certainly_applied(creates[0])
                if created is not None and is_sure and not self._may_be_skewed(creates[0]):
                    self._learn(created, creates[0])

    def is_contradicted(self) -> bool:
        """Tell if the note of the plan and ids of tables are further apart than clocks may be, and an answer may take."""
        noted = self._noted
        if noted is None or self._earliest is None or self._latest is None:
            return False
        far = self._far.values()
        are_alike = len(far) >= _SEVERAL and max(far) - min(far) <= 2 * _SPREAD_MS
        return are_alike or max(noted - self._earliest, self._latest - noted) > 2 * _SPREAD_MS

    def _may_be_skewed(self, operation: PairedOperation) -> bool:
        """Tell if a server may have dated the operation by a wrong clock.

        Its timestamps do not go back while it runs, so a clock that was ahead counts after it was put right, too.
        """
        faults = self._case.notes.faults
        was_skewed = any(fault.offsets and fault.begins <= operation.invoked for fault in faults)
        return was_skewed or bool(self._case.notes.active(operation.invoked, operation.completed))

    def _learn(self, created: float, create: PairedOperation) -> None:
        completed = create.completed or create.invoked
        earliest, latest = created - completed / MS, created - create.invoked / MS
        if self._noted is not None and abs(latest - self._noted) > _DAY_MS:
            self._far[create.index] = latest
            return
        self._earliest = earliest if self._earliest is None else min(self._earliest, earliest)
        self._latest = latest if self._latest is None else max(self._latest, latest)

    def fits(self, operation: PairedOperation, time_ms: int) -> bool:
        """Tell if the operation can have had this time of day.

        A statement that names its own time has that one. While a fault was in place any clock may have been wrong, and
        after one of a clock, too.
        """
        timestamp = operation.argument.get("timestamp")
        if timestamp is not None:
            return time_ms == int(timestamp) // 1000
        if self._earliest is None or self._latest is None:
            return True
        if self._may_be_skewed(operation):
            return True
        begins = self._earliest + operation.invoked / MS - _SPREAD_MS
        if time_ms < begins:
            return False
        answered = operation.completed if operation.type == "ok" else None
        return answered is None or time_ms <= self._latest + answered / MS + _SPREAD_MS


def _time_of(identity: str | None) -> float | None:
    """Return the time (ms since 1970) in a time uuid's hexadecimal digits; None for any other id."""
    if identity is None or len(identity) != _HEX_DIGITS or identity[12] != "1" or identity[16] not in "89ab":
        return None
    ticks = int(identity[13:16] + identity[8:12] + identity[:8], 16)
    return ticks / _TICKS_A_MS - _GREGORIAN_MS
