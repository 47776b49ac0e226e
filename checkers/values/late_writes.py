"""Late writes: whether a write that its coordinator had given up took effect after somebody had seen that it had not.

Judges registers that are read at SERIAL and written with conditions (f = `read`, `write`, `cas` of `schemaquake.harness.model.queries`), and
of their writes those whose value nothing else can have set: a read that shows it shows that write. A write that ended in the server's own WriteTimeout is over: its coordinator tries no more, and what is left of
it is at most a proposal that some replica accepted. The next operation on the key decides what becomes of that. So a read
that begins after the time-out and shows something else says that it never happens, and no later read may show it.
Finds: `late-write`. An operation of unknown outcome may take effect at any later time for all that linearizability asks
(`schemaquake.checkers.linearizability` leaves it open for ever); this is the stronger promise that serial reads give since 3.0.24,
3.11.10 and 4.0: they propose, too.

Judges no write whose client lost the connection or its own patience: its coordinator may have gone on.
Sources: CASSANDRA-12126; Aguilera and Frølund, "Strict linearizability and the power of aborting" (2003).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.operations import PairedOperation, operations
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import explain, seconds
from schemaquake.harness.model.records import Records, plain
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict, make_stats

__all__ = ["LateWrites"]

_CALLS: Final = ("read", "write", "cas")
_GIVEN_UP: Final = ("WriteTimeout", "CasWriteTimeout", "CASWriteTimeout")
_TOLD_MOST: Final = 20


class LateWrites:
    """What was given up and seen not to have happened does not happen later."""

    name = "late-writes"
    scope: Literal["keyspace", "run"] = "keyspace"
    finds: tuple[str, ...] = ("late-write",)
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - one pass over the reads
        """Judge every write of a value of its own that timed out on its coordinator. Unknown if there is none."""
        keys = _keys(records.history)
        given_up = sum(len(key.given_up) for key in keys.values())
        if not given_up:
            nothing = Doubt(
                "nothing-to-judge", "no write of a value of its own to a register timed out on its coordinator"
            )
            return Verdict.unknown(self.name, nothing)
        late = [found for name, key in keys.items() for found in _late(name, key)]
        return Verdict(
            valid=not late,
            checker=self.name,
            anomalies=tuple(_anomaly(found) for found in late[:_TOLD_MOST]),
            stats=make_stats({"given_up": given_up, "seen_later": _seen_later(keys), "late": len(late)}),
        )


@dataclass(slots=True)
class _Key:
    """One register: what may have set each value, and its reads in order of invocation."""

    setters: dict[Any, list[PairedOperation]] = field(default_factory=dict)
    reads: list[PairedOperation] = field(default_factory=list)

    @property
    def given_up(self) -> Mapping[Any, PairedOperation]:
        """Writes that timed out on their coordinator, by the value that nothing else can have set."""
        alone = {value: setters[0] for value, setters in self.setters.items() if len(setters) == 1}
        return {
            value: setter
            for value, setter in alone.items()
            if setter.f == "write" and setter.type == "info" and (setter.error or "").startswith(_GIVEN_UP)
        }


@dataclass(frozen=True, slots=True)
class _Late:
    """`write` was over when `before` began, which did not show it; `after` began after that was answered, and did."""

    key: str
    write: PairedOperation
    before: PairedOperation
    after: PairedOperation


def _keys(history: pa.Table) -> Mapping[str, _Key]:
    calls = history.filter(
        pc.and_(
            pc.is_in(plain(history.select(["f"]))["f"], value_set=pa.array(_CALLS)),
            pc.greater_equal(history["process"], 0),
        )
    )
    keys: dict[str, _Key] = {}
    for operation in operations(calls):
        key = keys.setdefault(operation.key or "", _Key())
        if operation.f == "read":
            if operation.type == "ok":
                key.reads.append(operation)
        elif operation.possible:
            key.setters.setdefault(_hashable(_set_by(operation)), []).append(operation)
    return keys


def _set_by(operation: PairedOperation) -> Any:
    """What the register holds if the operation took effect."""
    if operation.f == "cas" and isinstance(operation.argument, list):
        return operation.argument[-1]
    return operation.argument


def _hashable(value: Any) -> Any:
    return repr(value) if isinstance(value, list | dict) else value


def _late(name: str, key: _Key) -> Iterator[_Late]:
    for value, write in key.given_up.items():
        shows = [read for read in key.reads if _hashable(read.value) == value]
        if not shows or write.completed is None:
            continue
        last = shows[-1]
        others = [r for r in key.reads if r.invoked > write.completed and _hashable(r.value) != value]
        first = min(others, key=lambda read: read.completed or 0, default=None)
        if first is not None and first.entirely_before(last):
            yield _Late(name, write, first, next(read for read in shows if first.entirely_before(read)))


def _seen_later(keys: Mapping[str, _Key]) -> int:
    """How many of the given-up writes any read showed, so that there was something to judge them by."""
    return sum(
        any(_hashable(read.value) == value for read in key.reads) for key in keys.values() for value in key.given_up
    )


def _anomaly(found: _Late) -> Anomaly:
    three = (found.write, found.before, found.after)
    return anomaly(
        "late-write",
        objects=[found.key],
        nodes=[operation.node for operation in three if operation.node],
        ops=[operation.index for operation in three],
        evidence={
            "write": _evidence(found.write),
            "read_without": _evidence(found.before),
            "read_with": _evidence(found.after),
        },
        explanation=explain(
            [f"T{number} = {_text(operation)}" for number, operation in enumerate(three, 1)],
            "T1's coordinator had given up before T2 began, and T2, a serial read, did not show it: what was left of T1 "
            "was to be dropped.",
            f"T3, which began after T2 was answered, shows {found.after.value}, which T1 alone wrote.",
        ),
    )


def _text(operation: PairedOperation) -> str:
    asked = f"write {operation.argument}" if operation.f == "write" else "read"
    outcome = f"ok, {operation.value}" if operation.type == "ok" else f"info ({operation.error})"
    when = "" if operation.completed is None else f" at {seconds(operation.completed)}"
    return f"op {operation.index}: p{operation.process} {operation.node or '-'} {asked} -> {outcome}{when}"


def _evidence(operation: PairedOperation) -> Mapping[str, Any]:
    return {
        "op": operation.index,
        "node": operation.node,
        "value": operation.argument if operation.f == "write" else operation.value,
        "invoked_s": round(operation.invoked / 1e9, 6),
        "completed_s": None if operation.completed is None else round(operation.completed / 1e9, 6),
    }
