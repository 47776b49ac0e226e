"""Guarded assignments: the search for registers and mutexes, whose every call requires a value, assigns one, or both.

| call | requires | forbids | assigns |
|---|---|---|---|
| read v | v | – | – |
| write v | – | – | v |
| cas [a b], acquire, release | a | – | b |
| failed cas [a b], where informative | – | a | – |

Small histories are searched by `schemaquake.checkers.linearizability.search`, which gives an order; larger ones, and hard ones, answer by
answer (`schemaquake.checkers.linearizability.frontier`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from schemaquake.checkers.linearizability.register_calls import CAS, FAILED_CAS, NEVER, NIL, READ, WRITE, Calls, counted
from schemaquake.checkers.linearizability.search import Action, Call, Limits, Outcome, State, search
from schemaquake.harness.compiled import working_time
from schemaquake.harness.history.distinct import distinct

if TYPE_CHECKING:
    from schemaquake.checkers.linearizability.frontier import Batch

__all__ = ["decide", "decide_compiled", "decide_one"]

_Numbers: TypeAlias = npt.NDArray[np.int64]

_CALLS_COMPILED: Final = 20_000
"""From so many calls on, compiled code has paid for the half second it takes to load."""
_DENSE: Final = 4
_EASY_BYTES: Final = 2 << 20
"""A history that needs more memory than this, uncompiled, is a hard one."""


class Guarded(NamedTuple):
    """An action; null: it requires, forbids or assigns nothing."""

    requires: int | None
    forbids: int | None
    assigns: int | None


@dataclass(frozen=True, slots=True)
class GuardedModel:
    """One integer, and guarded assignments to it."""

    initial: int

    def step(self, state: State, action: Action) -> State | None:
        assert isinstance(action, Guarded)
        if (action.requires is not None and action.requires != state) or action.forbids == state:
            return None
        return state if action.assigns is None else action.assigns

    def observes(self, action: Action) -> bool:
        assert isinstance(action, Guarded)
        return action.assigns is None


def decide(calls: Calls, initial: int, limits: Limits) -> Iterator[tuple[int, Outcome]]:
    """Decide every key that has calls: (key, outcome); labels are positions in `calls`, states are values."""
    if len(calls) >= _CALLS_COMPILED:
        yield from decide_compiled(calls, initial, limits)
        return
    hard: list[int] = []
    for key in distinct(calls.key):
        outcome = decide_one(calls, int(key), initial, Limits(deadline=limits.deadline, memory_bytes=_EASY_BYTES))
        if outcome.linearizable != "unknown":
            yield int(key), outcome
        elif working_time() < limits.deadline:
            hard.append(int(key))
        else:
            # Whichever bound the easy search met: it is the time that forbids the hard one.
            yield int(key), limits.reached("time", outcome.configurations)
    if hard:
        among = np.flatnonzero(np.isin(calls.key, hard))
        for key, outcome in decide_compiled(calls.select(among), initial, limits):
            yield key, _relabelled(outcome, among)


def decide_one(calls: Calls, key: int, initial: int, limits: Limits) -> Outcome:
    """Decide one key by the search that is not compiled."""
    found = [
        Call(
            label=int(at),
            begins=int(calls.begins[at]),
            ends=None if calls.ends[at] == NEVER else int(calls.ends[at]),
            action=_guarded(int(calls.kind[at]), int(calls.old[at]), int(calls.value[at])),
        )
        for at in np.flatnonzero(calls.key == key)
    ]
    return search(GuardedModel(initial), found, limits)


def _guarded(kind: int, old: int, value: int) -> Guarded:
    if kind == READ:
        return Guarded(value, None, None)
    if kind == WRITE:
        return Guarded(None, None, value)
    return Guarded(old, None, value) if kind == CAS else Guarded(None, old, None)


def _relabelled(outcome: Outcome, labels: _Numbers) -> Outcome:
    return replace(
        outcome,
        order=tuple(int(labels[label]) for label in outcome.order),
        stuck=None if outcome.stuck is None else int(labels[outcome.stuck]),
    )


def decide_compiled(calls: Calls, initial: int, limits: Limits) -> Iterator[tuple[int, Outcome]]:
    """Decide each key as `decide` does, always by the compiled search."""
    from schemaquake.checkers.linearizability.frontier import decide_batch  # noqa: PLC0415 - half a second to load

    order, batch, values = _batch(calls, initial)
    for key, outcome in decide_batch(batch, limits):
        states = tuple(int(values[state]) for state in outcome.states)
        yield key, replace(_relabelled(outcome, order), states=states)


def _batch(calls: Calls, initial: int) -> tuple[_Numbers, Batch, _Numbers]:
    """Sort the calls by key and number values from 0: (position of each call, the batch, the values)."""
    from schemaquake.checkers.linearizability.frontier import NOTHING, Batch  # noqa: PLC0415 - as above

    reads = calls.kind == READ
    swaps = calls.kind == CAS
    values, codes = _numbered(np.concatenate([[initial], calls.value, calls.old[swaps | (calls.kind == FAILED_CAS)]]))
    value = codes[1 : len(calls) + 1]
    old = np.full(len(calls), NOTHING, np.int32)
    old[swaps | (calls.kind == FAILED_CAS)] = codes[len(calls) + 1 :]
    required = np.where(reads, value, np.where(swaps, old, NOTHING)).astype(np.int32)
    forbidden = np.where(calls.kind == FAILED_CAS, old, NOTHING).astype(np.int32)
    # A swap of a value for itself is a read of it.
    observes = reads | (calls.kind == FAILED_CAS) | (old == value)
    assigned = np.where(observes, NOTHING, value).astype(np.int32)
    kept = _not_idle(calls, required, forbidden, assigned)
    order = kept[np.argsort(counted(calls.key[kept]), kind="stable")]
    keys, starts = np.unique(calls.key[order], return_index=True)
    batch = Batch(
        keys=keys.astype(np.int64),
        offsets=np.append(starts, len(order)),
        begins=calls.begins[order],
        ends=calls.ends[order],
        requires=required[order],
        forbids=forbidden[order],
        assigns=assigned[order],
        initial=int(codes[0]),
    )
    return order, batch, values


def _numbered(values: _Numbers) -> tuple[_Numbers, npt.NDArray[np.int32]]:
    """Number values: (values, the number of each); null is 0, and where values lie close together those in between are numbered, too."""
    null = values == NIL
    lowest = int(np.min(values, where=~null, initial=NEVER))
    highest = int(np.max(values, where=~null, initial=NIL))
    if highest - lowest < _DENSE * len(values):
        codes = np.where(null, 0, values - lowest + 1)
        return np.concatenate([[NIL], np.arange(lowest, highest + 1)]), codes.astype(np.int32)
    names, codes = np.unique(values, return_inverse=True)
    return names, codes.astype(np.int32)


def _not_idle(
    calls: Calls, requires: npt.NDArray[np.int32], forbids: npt.NDArray[np.int32], assigns: npt.NDArray[np.int32]
) -> _Numbers:
    """Drop calls that need not have happened and whose value no call needs."""
    kept = calls.required | (assigns >= 0)
    optional = np.flatnonzero(kept & ~calls.required)
    if not len(optional):
        return np.flatnonzero(kept)
    values = int(max(requires.max(), assigns.max())) + 1
    differing = np.zeros(len(calls.keys), bool)
    differing[calls.key[forbids >= 0]] = True
    optional = optional[~differing[calls.key[optional]]]
    while len(optional):
        needing = kept & (requires >= 0)
        needed = distinct(calls.key[needing] * np.int64(values) + requires[needing])
        idle = ~np.isin(calls.key[optional] * np.int64(values) + assigns[optional], needed)
        if not idle.any():
            break
        kept[optional[idle]] = False
        optional = optional[~idle]
    return np.flatnonzero(kept)
