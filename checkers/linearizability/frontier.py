"""The frontier: registers and mutexes searched answer by answer, every configuration of a key at once.

Calls are guarded assignments (`schemaquake.checkers.linearizability.guarded`). A configuration says, after some answers, which value
the object has, which open calls can still assign (`usable`) and which still have to happen before their answer (`debts`). After Wing
and Gong (1993) and Lowe (2017), and just in time: a call is put into the order only when the answer that comes next needs it. Four
rules keep the configurations few; each takes an order that works and makes one of it that the search does find.

- A plain write that no call sees may stand directly before another one, or where the object has its value anyway. From such a moment on
  it owes nothing, and can still be used for its value until it is answered.
- Unless it is the call that is answered next, a plain write or a swap of unknown outcome is put into the order for a call that is open
  and sees it; else it can wait. An order that goes on after a write that nothing saw has that write for nothing.
  A write of the value that is there anyway can be such a write, too: other writes may stand before it, and a swap follow it.
- A configuration that can use more, and owes less, makes another of the same value superfluous.
- Of calls that do the same, the one that must end first will do.

Configurations that differ only in the unknown calls they have used are many even so. At first one of them is kept, with the most to
spare: an order that is found so is one. If there is none, unknown calls may take effect more than once, first all of them, then all but those
that assign one value: what has no order then has none at all.

Compiled once a machine (`schemaquake.harness.compiled`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from schemaquake.checkers.linearizability.register_calls import NEVER
from schemaquake.checkers.linearizability.search import Limits, Outcome
from schemaquake.harness.compiled import always_compiled, compiled, is_plain, phase, working_time

__all__ = ["NOTHING", "Batch", "compile_all", "decide_batch"]

_Numbers: TypeAlias = npt.NDArray[np.int64]
_Codes: TypeAlias = npt.NDArray[np.int32]
_Mask: TypeAlias = npt.NDArray[np.bool_]
_Bits: TypeAlias = npt.NDArray[np.uint64]
_Whole: TypeAlias = int | np.int32 | np.int64

NOTHING: Final = -1
"""Where a call requires, forbids or assigns nothing."""

_NEVER: Final = NEVER
_WORD: Final = 64
_SHOWN_MOST: Final = 8
_ALIKE_FIRST, _ALIKE_THEN = 1, 16
"""Configurations that are kept at first, and in a second attempt, of those that differ only in the unknown calls they have used."""
_STEPS_BETWEEN_LOOKS: Final = 1 << 22
_STEPS_OF_PYTHON: Final = 1 << 13
"""Steps that are made before the compiler is worth its start."""
_FIRST_ROOM: Final = 1 << 8
_BUCKETS: Final = 32

# What may follow a call: anything; only a swap from its value; that, or a plain write.
_ANY, _SWAP, _SWAP_OR_WRITE = 0, 1, 2

# A function is compiled anew for each constant that it is called with, and not for a converted one: hence `np.int64(_ANY)`.

# Where `_search` stopped, and the places of its `progress`.
_FINISHED, _REFUTED, _PAUSED, _FULL = 0, 1, 2, 3
_KEY, _NEXT, _OPEN, _FREE, _SLOTS, _INSIDE, _BETWEEN, _WITHIN = range(8)
_PENDING, _LOGGED, _ROOTS, _ANSWERED, _CUT, _COUNT, _LEFT = range(8, 15)


class _Calls(NamedTuple):
    """The columns of a `Batch` that the search reads, and which calls may take effect again and again."""

    offsets: _Numbers
    begins: _Numbers
    ends: _Numbers
    requires: _Codes
    forbids: _Codes
    assigns: _Codes
    lasting: _Mask


class _Open(NamedTuple):
    """The open calls of a key, what must end first, first; the bit of each call; bits that are free, and those of unknown calls."""

    calls: _Codes
    slots: _Codes
    free: _Codes
    unknown: _Bits


class _Table(NamedTuple):
    """Configurations that none other makes superfluous, in chains by their value.

    `bits` has the words of `usable`, then those of `debts`; `may` is what may follow; `spare` counts the unknown calls that can be used;
    `nodes` are places in the log.
    """

    bits: _Bits
    states: _Codes
    may: _Codes
    spare: _Codes
    nodes: _Codes
    following: _Codes
    alive: _Mask
    heads: _Codes


class _Log(NamedTuple):
    """The calls put into the order, each with the one before it and the answers before it, for the orders of a refutation."""

    parents: _Codes
    calls: _Codes
    answered: _Codes


@dataclass(frozen=True, slots=True)
class Batch:
    """Calls, key by key (`offsets` says where each begins), in order of `begins` within a key.

    Values are numbered from 0; `keys` are their numbers outside. What assigns has no value that it forbids.
    """

    keys: _Numbers
    offsets: _Numbers
    begins: _Numbers
    ends: _Numbers
    requires: _Codes
    forbids: _Codes
    assigns: _Codes
    initial: int

    def of(self, positions: _Numbers) -> Batch:
        """Select some of the keys."""
        lengths = np.diff(self.offsets)[positions]
        which = np.repeat(self.offsets[positions] - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
        which += np.arange(len(which))
        return Batch(
            self.keys[positions],
            np.concatenate([[0], np.cumsum(lengths)]),
            self.begins[which],
            self.ends[which],
            self.requires[which],
            self.forbids[which],
            self.assigns[which],
            self.initial,
        )


def decide_batch(batch: Batch, limits: Limits) -> Iterator[tuple[int, Outcome]]:
    """Decide every key: (key, outcome); labels are positions in the batch, states are numbers of values."""
    words = (_most_open(batch.offsets, batch.begins, batch.ends) + _WORD - 1) // _WORD
    for count in np.unique(words):
        which = np.flatnonzero(words == count)
        some = batch if len(which) == len(words) else batch.of(which)
        hard: list[int] = []
        for position, outcome, exact in _Search(some, int(count), limits, most=_ALIKE_FIRST).outcomes():
            if exact or outcome.linearizable is True:
                yield int(some.keys[position]), _shifted(outcome, batch, some, which, position)
            else:
                hard.append(position)
        for position in hard:
            outcome = _hard(some.of(np.array([position])), int(count), limits)
            yield (
                int(some.keys[position]),
                _shifted(outcome, batch, some.of(np.array([position])), which[[position]], 0),
            )


def compile_all() -> None:
    """Compile everything here, in a search of a write and a read at once."""
    always_compiled()
    column = np.array([[NOTHING, 1], [NOTHING, NOTHING], [1, NOTHING]], np.int32)
    moments = np.arange(2, dtype=np.int64)
    batch = Batch(np.zeros(1, np.int64), np.array([0, 2]), moments, moments + 2, column[0], column[1], column[2], 0)
    ((_, outcome),) = decide_batch(batch, Limits(deadline=working_time() + 60))
    assert outcome.linearizable is True
    _Search(batch, 1, Limits(deadline=working_time() + 60)).compact()


def _shifted(outcome: Outcome, batch: Batch, some: Batch, which: _Numbers, position: int) -> Outcome:
    """Convert positions in some keys of a batch to positions in the batch."""
    shift = int(batch.offsets[which[position]] - some.offsets[position])
    return replace(
        outcome,
        order=tuple(label + shift for label in outcome.order),
        stuck=None if outcome.stuck is None else outcome.stuck + shift,
    )


def _hard(key: Batch, word_count: int, limits: Limits) -> Outcome:
    """Decide one key in which the configurations that were kept at first have no order."""
    unknown = (key.ends == _NEVER) & (key.assigns != NOTHING)
    for counted in (NOTHING, *np.unique(key.assigns[unknown]).tolist()):
        lasting = unknown & (key.assigns != counted)
        ((_, outcome, exact),) = _Search(key, word_count, limits, most=_ALIKE_THEN, lasting=lasting).outcomes()
        if exact and outcome.linearizable is not True:
            return outcome
    ((_, outcome, exact),) = _Search(key, word_count, limits, most=_ALIKE_THEN).outcomes()
    if not exact and outcome.linearizable is not True:
        ((_, outcome, _),) = _Search(key, word_count, limits).outcomes()
    return outcome


class _Search:
    """The arrays in which one key after another is searched, for keys of equally many words of open calls.

    Of configurations that differ only in the unknown calls they have used, `most` are kept; None: all of them.
    Calls that are `lasting` may take effect again and again.
    """

    def __init__(
        self, batch: Batch, word_count: int, limits: Limits, *, most: int | None = None, lasting: _Mask | None = None
    ) -> None:
        self._batch = batch
        self._limits = limits
        self._most = most or 0
        self._words = word_count
        self._lenient = lasting is not None
        longest = int(np.diff(batch.offsets).max())
        self._calls = _Calls(
            batch.offsets,
            batch.begins,
            batch.ends,
            batch.requires,
            batch.forbids,
            batch.assigns,
            np.zeros(len(batch.begins), np.bool_) if lasting is None else lasting,
        )
        self._open = _Open(
            np.zeros(longest + 1, np.int32),
            np.zeros(longest + 1, np.int32),
            np.zeros(longest + 1, np.int32),
            np.zeros(word_count, np.uint64),
        )
        self._progress = np.zeros(15, np.int64)
        self._tables = self._room(_FIRST_ROOM), self._room(_FIRST_ROOM)
        self._pending = np.zeros(_FIRST_ROOM, np.int32)
        self._log = _log(_FIRST_ROOM)

    def _room(self, size: int) -> _Table:
        return _Table(
            bits=np.zeros((size, 2 * self._words), np.uint64),
            states=np.zeros(size, np.int32),
            may=np.zeros(size, np.int32),
            spare=np.zeros(size, np.int32),
            nodes=np.zeros(size, np.int32),
            following=np.zeros(size, np.int32),
            alive=np.zeros(size, np.bool_),
            heads=np.full(_BUCKETS, -1, np.int32),
        )

    def outcomes(self) -> Iterator[tuple[int, Outcome, bool]]:
        """Search each key: (its position in the batch, the outcome, whether nothing was left out)."""
        keys = len(self._batch.keys)
        progress = self._progress
        given = 0
        while given < keys:
            status = self._go_on()
            key = int(progress[_KEY])
            for position in range(given, key):
                yield position, Outcome(linearizable=True), True
            given = key
            if status == _FINISHED:
                return
            if status == _REFUTED:
                yield key, self._refuted(key), progress[_CUT] == 0
            elif status == _FULL and self._grow():
                continue
            elif status == _FULL:
                yield key, self._limits.reached("memory", int(progress[_COUNT])), True
            elif working_time() <= self._limits.deadline:
                continue
            else:
                for position in range(key, keys):
                    yield position, self._limits.reached("time", int(progress[_COUNT])), True
                return
            given = key + 1
            _go_to(given, progress, self._batch.offsets)

    def _go_on(self) -> int:
        plain = is_plain(_STEPS_OF_PYTHON)
        self._progress[_LEFT] = _STEPS_OF_PYTHON if plain else _STEPS_BETWEEN_LOOKS
        return int(
            _search(
                self._calls,
                np.int32(self._batch.initial),
                self._progress,
                self._open,
                *self._tables,
                self._pending,
                self._log,
                self._most,
            )
        )

    def compact(self) -> int:
        """Drop from the log all that led nowhere; returns how many calls are left."""
        return int(_forget(self._log, self._progress, *self._tables))

    def _grow(self) -> bool:
        """Make room for as many configurations again, and for as much of the log, if that is allowed."""
        size = len(self._pending)
        between, within = self._tables
        kept = self.compact()
        logged = len(self._log.calls) * (1 if 2 * kept < len(self._log.calls) else 2)
        full = int(self._progress[[_BETWEEN, _WITHIN]].max()) + int(self._progress[_OPEN]) + 2 > size
        size = 2 * size if full else size
        # Old and new stand side by side while they move.
        if 3 * (size * (16 * self._words + 17) + logged * 6) > self._limits.memory_bytes:
            return False
        if full:
            self._tables = _copied(between, self._room(size)), _copied(within, self._room(size))
            self._pending = _resized(self._pending, size)
        self._log = _Log(*(_resized(column, logged) for column in self._log))
        return True

    def _refuted(self, key: int) -> Outcome:
        """Make the outcome of the key that has just been refuted: its last configurations are those of the longest orders."""
        begin = int(self._batch.offsets[key])
        within = self._tables[1]
        roots = range(int(self._progress[_ROOTS]))
        steps: list[tuple[int, int]] = []
        node = int(within.nodes[0])
        while node >= 0:
            steps.append((int(self._log.answered[node]), int(self._log.calls[node])))
            node = int(self._log.parents[node])
        order = _replayed(self._batch, key, steps[::-1], int(self._progress[_ANSWERED]))
        states = dict.fromkeys(int(within.states[root]) for root in roots)
        return Outcome(
            linearizable=False,
            order=tuple(begin + call for call in order),
            states=tuple(states)[:_SHOWN_MOST],
            stuck=begin + int(self._open.calls[0]),
            configurations=int(self._progress[_COUNT]),
            lenient=self._lenient,
        )


def _log(size: int) -> _Log:
    return _Log(np.zeros(size, np.int32), np.zeros(size, np.int32), np.zeros(size, np.int32))


def _resized(column: _Codes, size: int) -> _Codes:
    resized = np.zeros(max(size, len(column)), np.int32)
    resized[: len(column)] = column
    return resized


def _copied(table: _Table, into: _Table) -> _Table:
    for name in table._fields:
        column = getattr(table, name)
        getattr(into, name)[: len(column)] = column
    return into


def _replayed(batch: Batch, key: int, steps: Sequence[tuple[int, int]], answered: int) -> list[int]:
    """List the calls of one key in an order that has these steps, (answers before it, call), and accounts for so many answers.

    What the search did not list stands where it may: observations as soon as they fit, other writes where no call sees them.
    """
    begin, end = int(batch.offsets[key]), int(batch.offsets[key + 1])
    requires, forbids, assigns = (
        column[begin:end].tolist() for column in (batch.requires, batch.forbids, batch.assigns)
    )
    begins, ends = batch.begins[begin:end].tolist(), batch.ends[begin:end].tolist()
    listed = {call for _, call in steps}
    answers = sorted(moment for moment in ends if moment != _NEVER)
    order: list[int] = []
    state = batch.initial
    following = iter(steps)
    number, step = next(following, (-1, -1))
    waiting: list[int] = []
    begun = 0
    for answer in range(answered + 1):
        while begun < len(begins) and begins[begun] <= answers[answer]:
            if begun not in listed and ends[begun] != _NEVER:
                waiting.append(begun)
            begun += 1
        while True:
            order += [call for call in waiting if _stands(call, state, requires, forbids, assigns)]
            waiting = [call for call in waiting if not _stands(call, state, requires, forbids, assigns)]
            if number != answer:
                break
            if requires[step] == NOTHING:
                order += [call for call in waiting if requires[call] == NOTHING and assigns[call] != NOTHING]
                waiting = [call for call in waiting if requires[call] != NOTHING or assigns[call] == NOTHING]
            order.append(step)
            state = assigns[step]
            number, step = next(following, (-1, -1))
    return order


def _stands(call: int, state: int, requires: Sequence[int], forbids: Sequence[int], assigns: Sequence[int]) -> bool:
    """Tell whether a call leaves this state as it is."""
    if requires[call] == NOTHING and assigns[call] == NOTHING:
        return forbids[call] != state
    return requires[call] in {NOTHING, state} and assigns[call] in {NOTHING, state}


@compiled
def _most_open(offsets: _Numbers, begins: _Numbers, ends: _Numbers) -> _Numbers:
    """Count for each key the calls that are open at once at most."""
    keys = len(offsets) - 1
    most = np.zeros(keys, np.int64)
    longest = 0
    for key in range(keys):
        longest = max(longest, offsets[key + 1] - offsets[key])
    waiting = np.zeros(longest + 1, np.int64)
    for key in range(keys):
        count = 0
        for call in range(offsets[key], offsets[key + 1]):
            while count > 0 and waiting[0] < begins[call]:
                count -= 1
                for place in range(count):  # not a slice: the compiler takes seconds for those
                    waiting[place] = waiting[place + 1]
            at = count
            while at > 0 and waiting[at - 1] > ends[call]:
                waiting[at] = waiting[at - 1]
                at -= 1
            waiting[at] = ends[call]
            count += 1
            most[key] = max(most[key], count)
    return most


@compiled
def _go_to(key: int, progress: _Numbers, offsets: _Numbers) -> None:
    """Begin with a key, and forget everything about the one before."""
    progress[:_LEFT] = 0
    progress[_KEY] = key
    progress[_NEXT] = offsets[key]


@compiled
def _forget(  # noqa: C901 - mark what is in use, close up, say where it is now
    log: _Log, progress: _Numbers, between: _Table, within: _Table
) -> int:
    """Drop from the log all that led nowhere; returns how many calls are left."""
    parents, calls, answered = log
    logged = progress[_LOGGED]
    places = np.full(logged, -1, np.int32)
    for at in range(progress[_BETWEEN]):
        if between.alive[at] and between.nodes[at] >= 0:
            places[between.nodes[at]] = 0
    for at in range(progress[_WITHIN]):
        if within.nodes[at] >= 0:
            places[within.nodes[at]] = 0
    for at in range(logged - 1, -1, -1):
        if places[at] == 0 and parents[at] >= 0:
            places[parents[at]] = 0
    kept = 0
    for at in range(logged):
        if places[at] == 0:
            places[at] = kept
            parents[kept] = -1 if parents[at] < 0 else places[parents[at]]
            calls[kept] = calls[at]
            answered[kept] = answered[at]
            kept += 1
    for at in range(progress[_BETWEEN]):
        if between.nodes[at] >= 0:
            between.nodes[at] = places[between.nodes[at]]
    for at in range(progress[_WITHIN]):
        if within.nodes[at] >= 0:
            within.nodes[at] = places[within.nodes[at]]
    progress[_LOGGED] = kept
    return kept


@phase
def _has(bits: _Bits, slot: int) -> bool:
    return bool((bits[slot >> 6] >> np.uint64(slot & 63)) & np.uint64(1))


@phase
def _set(bits: _Bits, slot: int) -> None:
    bits[slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)


@phase
def _clear(bits: _Bits, slot: int) -> None:
    bits[slot >> 6] &= ~(np.uint64(1) << np.uint64(slot & 63))


@phase
def _copy(rows: _Bits, at: _Whole, into: _Bits, to: _Whole) -> None:
    """Copy a row. Word by word: assigning slices, the compiler takes seconds for the case of different lengths."""
    for word in range(rows.shape[1]):
        into[to, word] = rows[at, word]


@phase
def _put(  # noqa: C901, PLR0912 - one pass over those of the same value
    table: _Table,
    count: _Whole,
    state: _Whole,
    may: _Whole,
    node: _Whole,
    unknown: _Bits,
    most: int,
    progress: _Numbers,
) -> bool:
    """Put the configuration whose bits are in row `count` into the table; false if others make it superfluous."""
    bits, states, mays, spares, nodes, following, alive, heads = table
    width = bits.shape[1]
    half = width >> 1
    bucket = (3 * state + may) % len(heads)
    spare = 0
    for word in range(half):
        rest = bits[count, word] & unknown[word]
        while rest != 0:
            rest &= rest - np.uint64(1)
            spare += 1
    alike = 0
    last = -1
    at = heads[bucket]
    while at >= 0:
        progress[_LEFT] -= 1
        then = following[at]
        if states[at] == state and mays[at] == may:
            # First of all, whether what is known goes against the new one, and against the old one.
            worse_known = better = True
            for word in range(half):
                usable, other = bits[count, word], bits[at, word]
                owed, other_owed = bits[count, half + word], bits[at, half + word]
                worse_known = worse_known and (usable & ~(other | unknown[word])) | (other_owed & ~owed) == 0
                better = better and (other & ~usable) | (owed & ~other_owed) == 0
                if not (worse_known or better):
                    break
            worse = worse_known and spares[at] >= spare
            for word in range(half):
                worse = worse and bits[count, word] & unknown[word] & ~bits[at, word] == 0
            if worse:
                return False
            if worse_known and spares[at] >= spare:
                alike += 1
                if alike == most:
                    progress[_CUT] = 1
                    return False
            if better:
                alive[at] = False
                if last < 0:
                    heads[bucket] = then
                else:
                    following[last] = then
                at = then
                continue
        last = at
        at = then
    states[count] = state
    mays[count] = may
    spares[count] = spare
    nodes[count] = node
    following[count] = heads[bucket]
    alive[count] = True
    heads[bucket] = count
    return True


@phase
def _settle(
    state: int, begin: int, opened: int, opens: _Open, requires: _Codes, forbids: _Codes, assigns: _Codes, debts: _Bits
) -> None:
    """Drop the debts of open calls that leave this state as it is."""
    calls, slots, _, _ = opens
    for place in range(opened):
        call = calls[place]
        needs = requires[begin + call]
        to = assigns[begin + call]
        if to == NOTHING:
            if needs == state or (needs == NOTHING and forbids[begin + call] != state):
                _clear(debts, slots[call])
        elif needs == NOTHING and to == state:
            _clear(debts, slots[call])


@phase
def _wanted(
    to: int,
    state: int,
    mover: int,
    begin: int,
    opened: int,
    opens: _Open,
    requires: _Codes,
    forbids: _Codes,
    assigns: _Codes,
    row: _Bits,
) -> int:
    """Tell who sees that the state becomes `to`: 2, an observation; 1, swaps only; 0, no open call."""
    calls, slots, _, _ = opens
    debts = row[len(row) >> 1 :]
    found = 0
    for place in range(opened):
        other = calls[place]
        needs = requires[begin + other]
        if assigns[begin + other] != NOTHING:
            if needs == to and other != mover and _has(row, slots[other]):
                found = 1
        elif (needs == to or (needs == NOTHING and forbids[begin + other] == state != to)) and _has(
            debts, slots[other]
        ):
            return 2
    return found


@phase
def _is_twin(place: int, begin: int, opens: _Open, requires: _Codes, assigns: _Codes, row: _Bits) -> bool:
    """Tell whether a call that must end earlier does the same."""
    calls, slots, _, _ = opens
    call = begin + calls[place]
    for earlier in range(place):
        other = calls[earlier]
        if (
            assigns[begin + other] == assigns[call]
            and requires[begin + other] == requires[call]
            and _has(row, slots[other])
        ):
            return True
    return False


@phase
def _note(log: _Log, logged: int, parent: int, call: int, answered: int) -> None:
    parents, calls, answers = log
    parents[logged] = parent
    calls[logged] = call
    answers[logged] = answered


@phase
def _open_next(begin: int, end: int, begins: _Numbers, ends: _Numbers, progress: _Numbers, opens: _Open) -> int:
    """Open the calls that begin before the next answer; returns how many there are."""
    calls, slots, free, unknown = opens
    fresh = 0
    while progress[_NEXT] < end:
        call = progress[_NEXT]
        opened = progress[_OPEN]
        if opened > 0 and begins[call] > ends[begin + calls[0]]:
            break
        at = opened
        while at > 0 and ends[begin + calls[at - 1]] > ends[call]:
            calls[at] = calls[at - 1]
            at -= 1
        calls[at] = call - begin
        if progress[_FREE] > 0:
            progress[_FREE] -= 1
            slots[call - begin] = free[progress[_FREE]]
        else:
            slots[call - begin] = progress[_SLOTS]
            progress[_SLOTS] += 1
        if ends[call] == _NEVER:
            _set(unknown, slots[call - begin])
        progress[_OPEN] += 1
        progress[_NEXT] += 1
        fresh += 1
    return fresh


@phase
def _take_up(
    row: _Bits, state: int, begin: int, fresh: int, calls_of_key: _Calls, progress: _Numbers, opens: _Open
) -> None:
    """Have a configuration take up the newest calls, and make all observations that fit."""
    _, _, ends, requires, forbids, assigns, _ = calls_of_key
    _, slots, _, _ = opens
    debts = row[len(row) >> 1 :]
    newest = progress[_NEXT] - begin
    for call in range(newest - fresh, newest):
        if assigns[begin + call] != NOTHING:
            _set(row, slots[call])
        if ends[begin + call] != _NEVER:
            _set(debts, slots[call])
    _settle(state, begin, progress[_OPEN], opens, requires, forbids, assigns, debts)


@phase
def _passes(between: _Table, begin: int, fresh: int, calls_of_key: _Calls, progress: _Numbers, opens: _Open) -> bool:
    """Tell whether the only configuration goes on to the next answer as it is; then it has taken up what is open."""
    row = between.bits[0]
    _take_up(row, between.states[0], begin, fresh, calls_of_key, progress, opens)
    slot = opens.slots[opens.calls[0]]
    # A write that can still be used might be wanted now.
    if _has(row, slot) or _has(row[len(row) >> 1 :], slot):
        return False
    progress[_COUNT] += 1
    return True


@compiled
def _enter(
    begin: int,
    fresh: int,
    calls_of_key: _Calls,
    progress: _Numbers,
    opens: _Open,
    tables: tuple[_Table, _Table],
    pending: _Codes,
    most: int,
) -> None:
    """Begin with the next answer: every configuration takes up the calls that are open now."""
    between, within = tables
    unknown = opens.unknown
    within.heads[:] = -1
    anything = np.int64(_ANY)
    count = np.int64(0)
    for at in range(progress[_BETWEEN]):
        if not between.alive[at]:
            continue
        _copy(between.bits, at, within.bits, count)
        state = between.states[at]
        _take_up(within.bits[count], state, begin, fresh, calls_of_key, progress, opens)
        if _put(within, count, state, anything, np.int64(between.nodes[at]), unknown, most, progress):
            pending[count] = count
            count += 1
    between.heads[:] = -1
    progress[_BETWEEN] = 0
    progress[_WITHIN] = progress[_ROOTS] = progress[_PENDING] = count
    progress[_COUNT] += count
    progress[_INSIDE] = 1


@compiled
def _search(  # noqa: C901, PLR0912, PLR0915 - one loop: its arrays, handed on, cost more than its steps
    calls_of_keys: _Calls,
    initial: _Whole,
    progress: _Numbers,
    opens: _Open,
    between: _Table,
    within: _Table,
    pending: _Codes,
    log: _Log,
    most: int,
) -> int:
    """Go on with key `progress[_KEY]` and those after it, until one is refuted, there is no room, or no steps are left.

    Exponential in the calls of one key that are open at once, and linear in everything else.
    """
    offsets, begins, ends, requires, forbids, assigns, lasting = calls_of_keys
    calls, slots, free, unknown = opens
    half = within.bits.shape[1] >> 1
    while progress[_KEY] < len(offsets) - 1:
        begin, end = offsets[progress[_KEY]], offsets[progress[_KEY] + 1]
        if progress[_NEXT] == begin:
            between.heads[:] = -1
            between.bits[0] = 0
            unknown[:] = 0
            _put(between, np.int64(0), initial, np.int64(_ANY), np.int64(-1), unknown, most, progress)
            progress[_BETWEEN] = 1
        while True:
            if progress[_INSIDE] == 0:
                fresh = _open_next(begin, end, begins, ends, progress, opens)
                if progress[_OPEN] == 0 or ends[begin + calls[0]] == _NEVER:
                    break
                if progress[_BETWEEN] != 1 or not _passes(between, begin, fresh, calls_of_keys, progress, opens):
                    _enter(begin, fresh, calls_of_keys, progress, opens, (between, within), pending, most)
            awaited = calls[0]
            opened = progress[_OPEN]
            is_write = requires[begin + awaited] == NOTHING and assigns[begin + awaited] != NOTHING
            while progress[_PENDING] > 0:
                room = opened + 2
                if max(progress[_BETWEEN], progress[_WITHIN]) + room > len(pending):
                    return _FULL
                if progress[_LOGGED] + room > len(log.calls):
                    return _FULL
                if progress[_LEFT] <= 0:
                    return _PAUSED
                progress[_PENDING] -= 1
                at = pending[progress[_PENDING]]
                if not within.alive[at]:
                    continue
                row = within.bits[at]
                state = within.states[at]
                may = within.may[at]
                owes = _has(row[half:], slots[awaited])
                # A write that is answered next either owes nothing from the start, or is what these calls were put there for.
                if may == _ANY and not owes and (at < progress[_ROOTS] or not is_write):
                    to = progress[_BETWEEN]
                    _copy(within.bits, at, between.bits, to)
                    _clear(between.bits[to], slots[awaited])
                    if _put(between, to, state, np.int64(_ANY), np.int64(within.nodes[at]), unknown, most, progress):
                        progress[_BETWEEN] += 1
                    if not is_write or not _has(row, slots[awaited]):
                        continue
                for place in range(opened):
                    call = calls[place]
                    if not _has(row, slots[call]):
                        continue
                    target = assigns[begin + call]
                    needs = requires[begin + call]
                    blind = needs == NOTHING
                    if (not blind and needs != state) or (blind and may == _SWAP):
                        continue
                    progress[_LEFT] -= opened
                    if _is_twin(place, begin, opens, requires, assigns, row):
                        continue
                    seers = _wanted(target, state, call, begin, opened, opens, requires, forbids, assigns, row)
                    required = ends[begin + call] != _NEVER
                    if seers == 0 and call != awaited and (blind or not required):
                        continue
                    if call == awaited:
                        table, count, then = between, progress[_BETWEEN], _ANY
                    else:
                        then = _ANY if seers == 2 else _SWAP if blind or not required else _SWAP_OR_WRITE
                        table, count = within, progress[_WITHIN]
                    changed = table.bits[count]
                    _copy(within.bits, at, table.bits, count)
                    if not lasting[begin + call]:
                        _clear(changed, slots[call])
                    if blind:
                        # From here on no open write has to be put into the order for its own sake.
                        for other in calls[:opened]:
                            if requires[begin + other] == NOTHING and assigns[begin + other] != NOTHING:
                                _clear(changed[half:], slots[other])
                    _clear(changed[half:], slots[call])
                    _settle(target, begin, opened, opens, requires, forbids, assigns, changed[half:])
                    if not _put(table, count, target, then, progress[_LOGGED], unknown, most, progress):
                        continue
                    _note(log, progress[_LOGGED], within.nodes[at], call, progress[_ANSWERED])
                    progress[_LOGGED] += 1
                    if call == awaited:
                        progress[_BETWEEN] += 1
                        continue
                    pending[progress[_PENDING]] = count
                    progress[_PENDING] += 1
                    progress[_WITHIN] += 1
                    progress[_COUNT] += 1
            if progress[_BETWEEN] == 0:
                return _REFUTED
            # The call is answered, and its bit is free.
            free[progress[_FREE]] = slots[awaited]
            progress[_FREE] += 1
            for place in range(1, opened):
                calls[place - 1] = calls[place]
            progress[_OPEN] -= 1
            progress[_ANSWERED] += 1
            progress[_INSIDE] = 0
        _go_to(progress[_KEY] + 1, progress, offsets)
    return _FINISHED
