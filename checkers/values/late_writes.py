"""Late writes: no abandoned write takes effect after a serial read showed that it had not.

Judges registers that are read at SERIAL and written with conditions (f = `read`, `write`, `cas` of
`schemaquake.harness.model.queries`), and of their writes those whose value no other operation can have set: a read of that
value shows that write. A write that ended in the server's own WriteTimeout is over: its coordinator does not retry, and at
most a proposal remains that some replica accepted. The next operation on the key decides the proposal. So if a read that
begins after the time-out shows another value, the write never happens, and no later read may show it.
Finds: `late-write`. Linearizability allows an operation of unknown outcome to take effect at any later time
(`schemaquake.checkers.linearizability` leaves it open for ever). Serial reads promise more since 3.0.24, 3.11.10 and 4.0:
they propose, too.

Writes that ended in a lost connection or the client's own time-out are not judged: the coordinator may have gone on.
Sources: CASSANDRA-12126; Aguilera and Frølund, "Strict linearizability and the power of aborting" (2003).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.operations import PairedOperation, operations
from schemaquake.checkers.findings.argument import Argument, label
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.findings.tally import Tally
from schemaquake.harness.model.records import Records, plain
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict

__all__ = ["LateWrites"]

_CALLS: Final = ("read", "write", "cas")
_GIVEN_UP: Final = ("WriteTimeout", "CasWriteTimeout", "CASWriteTimeout")
_LIMITS: Final = replace(LIMITS, findings=20)


class LateWrites:
    """A write that was abandoned and not seen by a serial read does not take effect later."""

    name = "late-writes"
    scope: Literal["keyspace", "run"] = "keyspace"
    finds: tuple[str, ...] = ("late-write",)
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - one pass over the reads
        """Judge every write of a unique value that timed out on its coordinator. Unknown if there is none."""
        keys = _group_by_register(records.history)
        given_up = sum(len(key.given_up) for key in keys.values())
        if not given_up:
            nothing = Doubt("nothing-to-judge", "no write of a unique value to a register timed out on its coordinator")
            return Verdict.unknown(self.name, nothing)
        tally = Tally(self.name, keep=_LIMITS.findings)
        for name, key in keys.items():
            for found in _find_late(name, key):
                tally.find("late-write", partial(_report, found))
        return tally.verdict(given_up=given_up, seen_later=_count_seen(keys), late=tally.found.get("late-write", 0))


@dataclass(slots=True)
class _Register:
    """One register: the operations that may have set each value, and its reads in order of invocation."""

    setters: dict[Any, list[PairedOperation]] = field(default_factory=dict)
    reads: list[PairedOperation] = field(default_factory=list)

    @property
    def given_up(self) -> Mapping[Any, PairedOperation]:
        """The writes that timed out on their coordinator, by their values, which no other operation can have set."""
        alone = {value: setters[0] for value, setters in self.setters.items() if len(setters) == 1}
        return {
            value: setter
            for value, setter in alone.items()
            if setter.f == "write" and setter.type == "info" and (setter.error or "").startswith(_GIVEN_UP)
        }


@dataclass(frozen=True, slots=True)
class _Late:
    """One late write: the read `before` began after `write` had ended and does not show it; the later read `after` does."""

    key: str
    write: PairedOperation
    before: PairedOperation
    after: PairedOperation


def _group_by_register(history: pa.Table) -> Mapping[str, _Register]:
    calls = history.filter(
        pc.and_(
            pc.is_in(plain(history.select(["f"]))["f"], value_set=pa.array(_CALLS)),
            pc.greater_equal(history["process"], 0),
        )
    )
    keys: dict[str, _Register] = {}
    for operation in operations(calls):
        key = keys.setdefault(operation.key or "", _Register())
        if operation.f == "read":
            if operation.type == "ok":
                key.reads.append(operation)
        elif operation.possible:
            key.setters.setdefault(_hashable(_find_set_value(operation)), []).append(operation)
    return keys


def _find_set_value(operation: PairedOperation) -> Any:
    """Find the value that the operation sets."""
    if operation.f == "cas" and isinstance(operation.argument, list):
        return operation.argument[-1]
    return operation.argument


def _hashable(value: Any) -> Any:
    return repr(value) if isinstance(value, list | dict) else value


def _find_late(name: str, key: _Register) -> Iterator[_Late]:
    for value, write in key.given_up.items():
        shows = [read for read in key.reads if _hashable(read.value) == value]
        if not shows or write.completed is None:
            continue
        last = shows[-1]
        differing = [r for r in key.reads if r.invoked > write.completed and _hashable(r.value) != value]
        first = min(differing, key=lambda read: read.completed or 0, default=None)
        if first is not None and first.entirely_before(last):
            yield _Late(name, write, first, next(read for read in shows if first.entirely_before(read)))


def _count_seen(keys: Mapping[str, _Register]) -> int:
    """Count the abandoned writes that any read showed."""
    return sum(
        any(_hashable(read.value) == value for read in key.reads) for key in keys.values() for value in key.given_up
    )


def _report(found: _Late) -> Anomaly:
    operations_involved = (found.write, found.before, found.after)
    return anomaly(
        "late-write",
        objects=[found.key],
        nodes=[operation.node for operation in operations_involved if operation.node],
        ops=[operation.index for operation in operations_involved],
        evidence={
            "write": _evidence(found.write),
            "read_without": _evidence(found.before),
            "read_with": _evidence(found.after),
        },
        explanation=Argument(
            label(_render(operation) for operation in operations_involved),
            "T1's coordinator had given up before T2 began, and T2, a serial read, did not show T1's value: so T1 must "
            "never take effect.",
            f"T3, which began after T2 was answered, shows {found.after.value}, which T1 alone wrote.",
        ).render(),
    )


def _render(operation: PairedOperation) -> str:
    request = f"write {operation.argument}" if operation.f == "write" else "read"
    return operation.text(request, outcome=f"ok, {operation.value}" if operation.type == "ok" else None)


def _evidence(operation: PairedOperation) -> Mapping[str, Any]:
    return {
        "op": operation.index,
        "node": operation.node,
        "value": operation.argument if operation.f == "write" else operation.value,
        "invoked_s": round(operation.invoked / 1e9, 6),
        "completed_s": None if operation.completed is None else round(operation.completed / 1e9, 6),
    }
