"""Linearizable: whether operations on one object took effect one after another, each between call and answer.

Judges, key by key, calls on a model (`schemaquake.checkers.linearizability.models`); without one, every register (`read`, `write`,
`cas`) and mutex (`acquire`, `release`) of the history. Registers in which no value is written twice are decided by their
zones, in O(n log n); all others by search, which may end in `unknown` for want of time or memory.
Finds: `non-linearizable`, with the prefix that has an order and the states it could leave behind. Sources: Herlihy and Wing
(1990); Wing and Gong (1993); Gibbons and Korach (1997); Lowe (2017). Seed documents do not speak of it: a promise of
Cassandra's only for serial consistency (LWT), CASSANDRA-12126.

What is left open on purpose: a call of unknown outcome may have taken effect at any later time, or never. A read of
unknown outcome, and a failed call, say nothing (a failed `cas` does where the model says so).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.operation_lines import OperationLines
from schemaquake.checkers.exchange.exchange import Exchange
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.linearizability import guarded, zones
from schemaquake.checkers.linearizability.example import example_history
from schemaquake.checkers.linearizability.explanation import explain_search, explain_zones
from schemaquake.checkers.linearizability.models import HistoryModel, Mutex, Register, described
from schemaquake.checkers.linearizability.pieces import check_in_pieces
from schemaquake.checkers.linearizability.register_calls import NIL, READ, Calls, register_calls
from schemaquake.checkers.linearizability.search import Call, Limits, Outcome, search
from schemaquake.harness.compiled import working_time
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.history.pairing import pair
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records, plain
from schemaquake.harness.model.verdict import Anomaly, Doubt, Stat, Verdict, make_stats, merge_doubts

__all__ = ["EXPLAINED_MOST", "Linearizable"]

EXPLAINED_MOST: Final = 20
"""The most objects whose refutation is explained; the others are counted."""
_DEFAULT: Final = (Register(), Mutex())
_NOT_DECIDED: Final = Doubt("undecided", "not decided")
_LEFT: Final = Doubt("undecided", "not decided, once another object was refuted")
_EASY_BYTES: Final = 10 << 20
"""An object of a model that needs more memory than this is a hard one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Linearizable:
    """Every object of `model` is linearizable; None: every register and every mutex there is.

    `memory_bytes` bounds what a search may remember: it ends with `unknown`, never for want of memory.
    """

    name: str = "linearizable"
    scope: Literal["run", "keyspace"] = "run"
    finds: tuple[str, ...] = ("non-linearizable",)
    vouches: bool = True
    model: Register | Mutex | HistoryModel | None = None
    memory_bytes: int = 1 << 29

    ranges_least: ClassVar[int] = 1
    """Searches are always worth sharing out."""

    def warm(self) -> None:
        """Load what is compiled; called while the history is still being read."""
        Linearizable().check(Records.of(example_history()), limit_s=60)

    def compile_all(self) -> None:
        """Compile what any history can need, the search of hard objects among it."""
        from schemaquake.checkers.linearizability import frontier  # noqa: PLC0415 - hard objects alone need it

        self.warm()
        frontier.compile_all()

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge every key. Raises HistoryError for values that the model cannot have."""
        limits = Limits(deadline=working_time() + limit_s, memory_bytes=self.memory_bytes)
        found = _Found()
        for model in (self.model,) if self.model is not None else _DEFAULT:
            if isinstance(model, Register | Mutex):
                _judge_guarded(records.history, model, limits, found, read_only=self.model is not None)
            else:
                _judge_model(records.history, model, limits, found)
        if not found.stats["calls"] and self.model is not None:
            found.asked = _is_asked(records.history, self.model)
        return found.verdict(self.name)

    def check_pieces(self, exchange: Exchange, *, limit_s: float) -> Verdict:
        """Judge the same key by key (`schemaquake.checkers.exchange.exchange.Piecewise`)."""
        return check_in_pieces(self.name, self.check, exchange, limit_s=limit_s, shown_most=EXPLAINED_MOST)


def _is_asked(history: pa.Table, model: Register | Mutex | HistoryModel) -> bool:
    called = pc.unique(plain(history.select(["f", "process"]).filter(pc.greater_equal(history["process"], 0)))["f"])
    return not model.functions.isdisjoint(called.to_pylist())


class _Found:
    """Findings, doubts and statistics of the keys judged so far."""

    def __init__(self) -> None:
        self.anomalies: list[Anomaly] = []
        self.asked = False
        """Whether there is any operation on the model asked for: if all of them failed, that is linearizable."""
        self.stats = {"keys": 0, "calls": 0, "by_zones": 0, "by_search": 0, "refuted": 0, "configurations_max": 0}
        self._doubts: list[Doubt] = []

    def searched(self, outcome: Outcome) -> None:
        self.stats["by_search"] += 1
        self.stats["configurations_max"] = max(self.stats["configurations_max"], outcome.configurations)

    def doubt(self, limit: Doubt | None, key: str | None) -> None:
        self._doubts.append(replace(limit or _NOT_DECIDED, objects=() if key is None else (key,)))

    def refuted(self, anomaly: Anomaly | None) -> None:
        self.stats["refuted"] += 1
        if anomaly is not None:
            self.anomalies.append(anomaly)

    @property
    def room(self) -> bool:
        """True while one more finding may be explained in full; thousands say no more than twenty."""
        return len(self.anomalies) < EXPLAINED_MOST

    def verdict(self, checker: str) -> Verdict:
        if not self.stats["calls"] and not self.asked:
            nothing = Doubt("nothing-to-judge", "no call on such an object is in the history")
            return Verdict.unknown(checker, nothing)
        return Verdict(
            valid=False if self.anomalies else "unknown" if self._doubts else True,
            checker=checker,
            anomalies=tuple(self.anomalies),
            stats=make_stats({**self.stats, "configurations_max": Stat(self.stats["configurations_max"], merge="max")}),
            doubts=merge_doubts(self._doubts),
        )


# ── registers and mutexes ────────────────────────────────────────────────────────────────────────────────────────────


def _judge_guarded(
    history: pa.Table, model: Register | Mutex, limits: Limits, found: _Found, *, read_only: bool
) -> None:
    if isinstance(model, Mutex):
        calls = register_calls(history, model="mutex", failed_cas="ignored", read_only=read_only)
        initial = 0
    else:
        kind: Literal["register", "cas-register"] = "cas-register" if model.swaps else "register"
        calls = register_calls(history, model=kind, failed_cas=model.failed_cas, read_only=read_only)
        initial = calls.values.number(model.start)
        if model.null_reads == "unknown":
            calls = calls.select(~((calls.kind == READ) & (calls.value == NIL)))
    found.stats["calls"] += len(calls)
    found.stats["keys"] += int(np.count_nonzero(np.bincount(calls.key)))
    if not len(calls):
        return
    operations = OperationLines(history)
    unique = zones.with_unique_writes(calls, initial)
    by_zones = np.flatnonzero(unique[calls.key])
    some = calls if len(by_zones) == len(calls) else calls.select(by_zones)
    found.stats["by_zones"] += int(np.count_nonzero(np.bincount(some.key)))
    # In order of their keys, for only the first ones are explained.
    for refutation in sorted(zones.refuted(some, initial), key=lambda one: calls.keys[one.key] or ""):
        found.refuted(_of_zones(operations, some, refutation) if found.room else None)
    by_search = np.flatnonzero(~unique[calls.key])
    rest = calls.select(by_search)
    outcomes = guarded.decide(rest, initial, limits) if len(rest) else ()
    for key, outcome in sorted(outcomes, key=lambda one: calls.keys[one[0]] or ""):
        found.searched(outcome)
        if outcome.linearizable == "unknown":
            found.doubt(outcome.limit, calls.keys[key])
        elif outcome.linearizable is False:
            found.refuted(_of_search(operations, rest, key, outcome, model) if found.room else None)


def _of_zones(operations: OperationLines, calls: Calls, refutation: zones.Refutation) -> Anomaly:
    indices = tuple(int(calls.index[call]) if call >= 0 else -1 for call in refutation.calls)
    explanation = explain_zones(operations, refutation.kind, indices)
    return _anomaly(
        calls.keys[refutation.key],
        [index for index in indices if index >= 0],
        {"why": refutation.kind},
        explanation,
        operations,
    )


def _of_search(
    operations: OperationLines, calls: Calls, key: int, outcome: Outcome, model: Register | Mutex
) -> Anomaly:
    if isinstance(model, Mutex):
        states = [("free", "held")[int(state)] for state in outcome.states]
    else:
        states = [calls.values.text(int(state)) for state in outcome.states]
    return _search_anomaly(operations, calls.keys[key], outcome, states, lambda label: int(calls.index[label]))


def _search_anomaly(
    operations: OperationLines, key: str | None, outcome: Outcome, states: Sequence[str], index: Any
) -> Anomaly:
    assert outcome.stuck is not None
    order = [index(label) for label in outcome.order]
    stuck = index(outcome.stuck)
    explanation = explain_search(operations, order, states, stuck, lenient=outcome.lenient)
    evidence: dict[str, JSON] = {"why": "search", "order": order[-100:], "states": list(states), "stuck": stuck}
    if outcome.lenient:
        evidence["lenient"] = True
    return _anomaly(key, list(dict.fromkeys([*order[-4:], stuck])), evidence, explanation, operations)


def _anomaly(
    key: str | None, indices: Sequence[int], evidence: JSON, explanation: str, operations: OperationLines
) -> Anomaly:
    return anomaly(
        "non-linearizable",
        objects=() if key is None else (key,),
        nodes=operations.nodes(indices),
        ops=indices,
        evidence=evidence,
        explanation=explanation,
    )


# ── any other model ──────────────────────────────────────────────────────────────────────────────────────────────────


def _judge_model(history: pa.Table, model: HistoryModel, limits: Limits, found: _Found) -> None:
    objects = _objects(history, model)
    operations = OperationLines(history)
    found.stats["keys"] += len({key for key, _ in objects})
    found.stats["calls"] += sum(map(len, objects.values()))

    def settled(key: str | None, calls: Sequence[Call], within: Limits) -> bool:
        outcome = search(model, calls, within)
        if outcome.linearizable == "unknown" and within.memory_bytes < limits.memory_bytes:
            if working_time() < limits.deadline:
                return False
            # Whichever bound the easy search met: it is the time that forbids the hard one.
            outcome = limits.reached("time", outcome.configurations)
        found.searched(outcome)
        if outcome.linearizable == "unknown":
            found.doubt(outcome.limit, key)
        elif outcome.linearizable is False:
            states = [described(state) for state in outcome.states]
            found.refuted(
                _search_anomaly(operations, key, outcome, states, lambda label: label) if found.room else None
            )
        return True

    # What is easily decided comes first. Once an object is refuted so is the history, and hard ones are left at that.
    easy = replace(limits, memory_bytes=min(_EASY_BYTES, limits.memory_bytes))
    hard = [(key, calls) for (key, _), calls in objects.items() if not settled(key, calls, easy)]
    for number, (key, calls) in enumerate(hard):
        if found.anomalies:
            found.doubt(_LEFT, key)
            continue
        now = working_time()
        settled(key, calls, replace(limits, deadline=now + (limits.deadline - now) / (len(hard) - number)))


def _objects(history: pa.Table, model: HistoryModel) -> Mapping[tuple[str | None, Any], Sequence[Call]]:
    """Separate the calls on each part of each key; what acts on any part is a call on each of them."""
    calls: dict[tuple[str | None, Any], list[Call]] = {}
    anywhere: dict[str | None, list[Call]] = {}
    for key, call in _calls(history, model):
        part = model.part(call.action)
        if part is None:
            anywhere.setdefault(key, []).append(call)
        else:
            calls.setdefault((key, part), []).append(call)
    by_key = sorted(calls.items(), key=lambda item: item[0][0] or "")
    return {(key, part): [*of_part, *anywhere.get(key, ())] for (key, part), of_part in by_key}


def _calls(history: pa.Table, model: HistoryModel) -> Iterator[tuple[str | None, Call]]:
    names = orjson.loads((history.schema.metadata or {}).get(b"names", b"{}"))
    known = plain(history)
    kept = known.filter(pc.is_in(known["f"], pa.array(sorted(model.functions))))
    for row in pair(kept).to_pylist():
        argument, value = (None if row[name] is None else orjson.loads(row[name]) for name in ("argument", "value"))
        if row["mops"] is not None:
            argument = value = [_steps(mop, names) for mop in row["mops"]]
        try:
            action = model.action(row["f"], row["type"], argument, value)
        except ValueError as error:
            raise HistoryError(f"the {row['f']} of index {row['index']}: {error}") from None
        if action is not None:
            ends = row["completed"] if row["type"] != "info" else None
            yield row["key"], Call(row["index"], row["invoked"], ends, action)


def _steps(mop: Mapping[str, Any], names: Mapping[str, str]) -> list[Any]:
    """Replace the numbers of a micro-operation by names."""

    def named(number: int | None) -> JSON:
        return orjson.loads(names[str(number)]) if str(number) in names else number

    value = named(mop["v"]) if mop["vs"] is None else [named(number) for number in mop["vs"]]
    return [mop["f"], named(mop["k"]), value]
