"""The compiled search: `schemaquake.checkers.linearizability.search` for guarded assignments, key after key.

Beyond what that search does, a call of unknown outcome is taken only when it makes possible what was not: an order in
which no call needs what it did is an order without it. After such a call (`owed`) only what needs its value may follow.

Compiled once a machine (`schemaquake.harness.compiled`): a compiled loop decides a million calls of 5,000 keys in a fraction of a
second where the same search in Python takes half a minute (`python -m benchmarks linearizability`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from schemaquake.checkers.linearizability.register_calls import NEVER
from schemaquake.checkers.linearizability.search import Limits, Outcome
from schemaquake.harness.compiled import compiled, is_plain, phase

__all__ = ["NOTHING", "Batch", "decide_batch"]

_Numbers: TypeAlias = npt.NDArray[np.int64]
_Codes: TypeAlias = npt.NDArray[np.int32]

NOTHING: Final = -1
"""Where a call requires, forbids or assigns nothing."""

_NEVER: Final = NEVER
_WORD: Final = 64
_SHOWN_MOST: Final = 8
_CONFIGURATIONS_BETWEEN_LOOKS: Final = 1 << 17
_FIRST_ROOM: Final = 1 << 12
_CONFIGURATIONS_OF_PYTHON: Final = 1 << 9
"""Configurations that are looked at before the compiler is worth its start."""
_ELEMENTS_OF_A_CONFIGURATION: Final = 1 << 5
"""Steps of a loop that one configuration takes."""

# Where `_search` stopped, and the places of its `progress`.
_FINISHED, _REFUTED, _PAUSED, _FULL = 0, 1, 2, 3
_KEY, _DEPTH, _USED, _COUNT, _DEEPEST, _DEEPEST_DEPTH, _SAVED, _SHOWN, _BUILT, _GENERATION = range(10)


class _Calls(NamedTuple):
    """The columns of a `Batch` that the search reads."""

    offsets: _Numbers
    begins: _Numbers
    ends: _Numbers
    requires: _Codes
    forbids: _Codes
    assigns: _Codes


class _Open(NamedTuple):
    """One key's answers in order; the calls open at each, what must end first, first; and the bit of each call in `taken`."""

    answers: _Codes
    starts: _Codes
    calls: _Codes
    slots: _Codes
    scratch: _Codes


class _Frames(NamedTuple):
    """The path of the search, a configuration a frame.

    Of each: the answers accounted for, the state, whether the last call is still owed a use of its value, the next open call
    to try, the open calls that took effect, and the call that led here.
    """

    answered: _Codes
    states: _Codes
    owed: npt.NDArray[np.bool_]
    cursors: _Codes
    taken: npt.NDArray[np.uint64]
    moves: _Codes


class _Deepest(NamedTuple):
    """The longest order found so far, and the states it can leave behind."""

    moves: _Codes
    states: _Codes


class _Memo(NamedTuple):
    """A hash table of configurations; a cell is in use if it is of the key's generation."""

    cells: npt.NDArray[np.uint64]
    generations: _Codes


@dataclass(frozen=True, slots=True)
class Batch:
    """Calls, key by key (`offsets` says where each begins), in order of `begins` within a key.

    Values are numbered from 0; `keys` are their numbers outside.
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
    most_open, entries = _survey(batch.offsets, batch.begins, batch.ends)
    words = (most_open + _WORD - 1) // _WORD
    starts = batch.offsets[:-1]
    for count in np.unique(words):
        which = np.flatnonzero(words == count)
        some = batch if len(which) == len(words) else batch.of(which)
        search = _Search(some, int(count), int(entries[which].max()), limits)
        for position, outcome in search.outcomes():
            shift = int(starts[which[position]] - some.offsets[position])
            yield int(some.keys[position]), _shifted(outcome, shift)


def _shifted(outcome: Outcome, shift: int) -> Outcome:
    return Outcome(
        linearizable=outcome.linearizable,
        order=tuple(label + shift for label in outcome.order),
        states=outcome.states,
        stuck=None if outcome.stuck is None else outcome.stuck + shift,
        configurations=outcome.configurations,
        limit=outcome.limit,
    )


class _Search:
    """The arrays in which one search after another is carried out, for keys of equally many words of open calls."""

    def __init__(self, batch: Batch, word_count: int, entries: int, limits: Limits) -> None:
        self._batch = batch
        self._limits = limits
        longest = int(np.diff(batch.offsets).max())
        depth = longest + 2
        self._progress = np.zeros(10, np.int64)
        self._calls = _Calls(batch.offsets, batch.begins, batch.ends, batch.requires, batch.forbids, batch.assigns)
        self._open = _Open(
            answers=np.zeros(longest + 1, np.int32),
            starts=np.zeros(longest + 2, np.int32),
            calls=np.zeros(entries + 1, np.int32),
            slots=np.zeros(longest + 1, np.int32),
            scratch=np.zeros((2, longest + 1), np.int32),
        )
        self._frames = _Frames(
            answered=np.zeros(depth, np.int32),
            states=np.zeros(depth, np.int32),
            owed=np.zeros(depth, np.bool_),
            cursors=np.zeros(depth, np.int32),
            taken=np.zeros((depth, word_count), np.uint64),
            moves=np.zeros(depth, np.int32),
        )
        self._deepest = _Deepest(moves=np.zeros(depth, np.int32), states=np.zeros(_SHOWN_MOST, np.int32))
        self._words = word_count
        self._memo = self._room(_FIRST_ROOM)
        self._progress[_GENERATION] = 1

    def _room(self, cells: int) -> _Memo:
        return _Memo(np.zeros((cells, self._words + 1), np.uint64), np.zeros(cells, np.int32))

    def outcomes(self) -> Iterator[tuple[int, Outcome]]:
        """Search each key: (its position in the batch, the outcome)."""
        keys = len(self._batch.keys)
        given = 0
        progress = self._progress
        while given < keys:
            status = self._go_on()
            key = int(progress[_KEY])
            for position in range(given, key):
                yield position, Outcome(linearizable=True)
            given = key
            if status == _FINISHED:
                return
            if status == _REFUTED:
                yield key, self._refuted(key)
            elif status == _FULL and self._grow():
                continue
            elif status == _FULL:
                yield key, self._limits.reached("memory", int(progress[_COUNT]))
            elif time.monotonic() <= self._limits.deadline:
                continue
            else:
                for position in range(key, keys):
                    yield position, self._limits.reached("time", int(progress[_COUNT]))
                return
            given = key + 1
            self._next(given)

    def _go_on(self) -> int:
        plain = is_plain(_CONFIGURATIONS_OF_PYTHON * _ELEMENTS_OF_A_CONFIGURATION)
        return int(
            _search(
                self._calls,
                self._batch.initial,
                self._progress,
                self._open,
                self._frames,
                self._deepest,
                self._memo,
                _CONFIGURATIONS_OF_PYTHON if plain else _CONFIGURATIONS_BETWEEN_LOOKS,
            )
        )

    def _next(self, key: int) -> None:
        """Give this key up, or be done with it, and go to the next."""
        self._progress[_KEY] = key
        self._progress[_BUILT] = 0
        self._progress[_COUNT] = 0
        self._progress[_USED] = 0
        self._progress[_GENERATION] += 1

    def _grow(self) -> bool:
        """Twice the room for the memo, if that is allowed."""
        cells = 2 * len(self._memo.cells)
        bytes_each = 8 * (self._words + 1) + 4
        # Old and new stand side by side while the memo moves.
        if cells * bytes_each * 3 // 2 > self._limits.memory_bytes:
            return False
        memo = self._room(cells)
        _move(*self._memo, *memo, int(self._progress[_GENERATION]))
        self._memo = memo
        return True

    def _refuted(self, key: int) -> Outcome:
        begin = int(self._batch.offsets[key])
        depth, shown, deepest = (int(self._progress[at]) for at in (_DEEPEST_DEPTH, _SHOWN, _DEEPEST))
        return Outcome(
            linearizable=False,
            order=tuple(begin + int(call) for call in self._deepest.moves[1 : depth + 1]),
            states=tuple(dict.fromkeys(int(state) for state in self._deepest.states[:shown])),
            stuck=begin + int(self._open.answers[deepest]),
            configurations=int(self._progress[_COUNT]),
        )


@compiled
def _survey(offsets: _Numbers, begins: _Numbers, ends: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Count for each key the calls open at once at most, and those open at all answers together."""
    keys = len(offsets) - 1
    most = np.zeros(keys, np.int64)
    entries = np.zeros(keys, np.int64)
    longest = 0
    for key in range(keys):
        longest = max(longest, offsets[key + 1] - offsets[key])
    waiting = np.zeros(longest + 1, np.int64)
    for key in range(keys):
        count = 0
        for call in range(offsets[key], offsets[key + 1]):
            while count > 0 and waiting[0] < begins[call]:
                entries[key] += count
                count -= 1
                waiting[:count] = waiting[1 : count + 1]
            at = count
            while at > 0 and waiting[at - 1] > ends[call]:
                waiting[at] = waiting[at - 1]
                at -= 1
            waiting[at] = ends[call]
            count += 1
            most[key] = max(most[key], count)
        while count > 0 and waiting[0] != _NEVER:
            entries[key] += count
            count -= 1
            waiting[:count] = waiting[1 : count + 1]
    return most, entries


@compiled
def _build(
    begin: int,
    end: int,
    begins: _Numbers,
    ends: _Numbers,
    answers: _Codes,
    open_starts: _Codes,
    open_calls: _Codes,
    slots: _Codes,
    scratch: _Codes,
) -> int:
    """List the answers of one key in order, the calls that are open at each (what must end first, first), and a bit for each.

    Returns how many answers there are.
    """
    waiting = scratch[0]
    free = scratch[1]
    free_count = 0
    count = 0
    slots_used = 0
    answered = 0
    entries = 0
    for call in range(begin, end + 1):
        while count > 0:
            first = begin + waiting[0]
            if ends[first] == _NEVER or (call < end and ends[first] >= begins[call]):
                break
            answers[answered] = waiting[0]
            open_starts[answered] = entries
            for at in range(count):
                open_calls[entries] = waiting[at]
                entries += 1
            answered += 1
            free[free_count] = slots[waiting[0]]
            free_count += 1
            count -= 1
            for at in range(count):
                waiting[at] = waiting[at + 1]
        if call == end:
            break
        at = count
        while at > 0 and ends[begin + waiting[at - 1]] > ends[call]:
            waiting[at] = waiting[at - 1]
            at -= 1
        waiting[at] = call - begin
        count += 1
        if free_count > 0:
            free_count -= 1
            slots[call - begin] = free[free_count]
        else:
            slots[call - begin] = slots_used
            slots_used += 1
    open_starts[answered] = entries
    return answered


@phase
def _has(taken: npt.NDArray[np.uint64], slot: int) -> bool:
    return bool((taken[slot >> 6] >> np.uint64(slot & 63)) & np.uint64(1))


@phase
def _fits(needs: int, state: int) -> bool:
    # numba knows no "in" for a tuple of two widths.
    return needs == NOTHING or needs == state  # noqa: PLR1714


@phase
def _hash(head: np.uint64, taken: npt.NDArray[np.uint64]) -> np.uint64:
    mixed = head * np.uint64(0x9E3779B97F4A7C15)
    for word in taken:
        mixed ^= mixed >> np.uint64(29)
        mixed = (mixed ^ word) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(29))


@phase
def _place(
    head: np.uint64,
    taken: npt.NDArray[np.uint64],
    memo: npt.NDArray[np.uint64],
    generations: _Codes,
    generation: int,
) -> np.int64:
    """Find where a configuration is remembered; −1 − cell if it is not, and could be in that cell."""
    last = np.uint64(len(memo) - 1)
    cell = _hash(head, taken) & last
    while generations[cell] == generation:
        if memo[cell, 0] == head:
            same = True
            for word in range(len(taken)):
                if memo[cell, word + 1] != taken[word]:
                    same = False
                    break
            if same:
                return np.int64(cell)
        cell = (cell + np.uint64(1)) & last
    return np.int64(-1) - np.int64(cell)


@compiled
def _move(
    memo: npt.NDArray[np.uint64],
    generations: _Codes,
    new_memo: npt.NDArray[np.uint64],
    new_generations: _Codes,
    generation: int,
) -> None:
    """Move everything of this generation from one memo to a larger one."""
    for cell in range(len(memo)):
        if generations[cell] == generation:
            to = -1 - _place(memo[cell, 0], memo[cell, 1:], new_memo, new_generations, generation)
            new_memo[to] = memo[cell]
            new_generations[to] = generation


@phase
def _wanted(
    value: int,
    state: int,
    call: int,
    first: int,
    last: int,
    begin: int,
    open_calls: _Codes,
    slots: _Codes,
    taken: npt.NDArray[np.uint64],
    requires: _Codes,
    forbids: _Codes,
) -> bool:
    """Tell whether some other open call is possible with this value and is not with this state."""
    for at in range(first, last):
        other = open_calls[at]
        if other != call and not _has(taken, slots[other]):
            needs = requires[begin + other]
            if needs == value or (forbids[begin + other] == state and needs == NOTHING):
                return True
    return False


@phase
def _next_move(
    cursor: int,
    first: int,
    last: int,
    begin: int,
    state: int,
    owes: bool,
    ends: _Numbers,
    requires: _Codes,
    forbids: _Codes,
    assigns: _Codes,
    open_calls: _Codes,
    slots: _Codes,
    taken: npt.NDArray[np.uint64],
) -> int:
    """Find the place, from `cursor` on, of an open call that can come next; `last` if there is none."""
    for at in range(cursor, last):
        call = open_calls[at]
        to = assigns[begin + call]
        needs = requires[begin + call]
        if to == NOTHING or _has(taken, slots[call]) or not _fits(needs, state) or (owes and needs == NOTHING):
            continue
        if ends[begin + call] == _NEVER and (
            to == state or not _wanted(to, state, call, first, last, begin, open_calls, slots, taken, requires, forbids)
        ):
            continue
        # Of calls that do the same, the one that must end first will do.
        twin = False
        for earlier in range(first, at):
            other = open_calls[earlier]
            if assigns[begin + other] == to and requires[begin + other] == needs and not _has(taken, slots[other]):
                twin = True
                break
        if not twin:
            return at
    return last


@phase
def _observe(
    here: int,
    begin: int,
    state: int,
    requires: _Codes,
    forbids: _Codes,
    assigns: _Codes,
    open_starts: _Codes,
    open_calls: _Codes,
    slots: _Codes,
    taken: npt.NDArray[np.uint64],
) -> bool:
    """Make every observation that fits; whether there was one."""
    made = False
    for at in range(open_starts[here], open_starts[here + 1]):
        call = open_calls[at]
        if assigns[begin + call] != NOTHING or forbids[begin + call] == state:
            continue
        if _fits(requires[begin + call], state) and not _has(taken, slots[call]):
            taken[slots[call] >> 6] |= np.uint64(1) << np.uint64(slots[call] & 63)
            made = True
    return made


@phase
def _note_depth(progress: _Numbers, states: _Codes, here: int, depth: int, state: int) -> None:
    """Note how far an order came, and the first few states that so long a one can leave behind."""
    if here > progress[_DEEPEST]:
        progress[_DEEPEST] = here
        progress[_DEEPEST_DEPTH] = depth
        progress[_SAVED] = 0
        progress[_SHOWN] = 1
        states[0] = state
    elif here == progress[_DEEPEST] and progress[_SHOWN] < len(states):
        for shown in range(progress[_SHOWN]):
            if states[shown] == state:
                return
        states[progress[_SHOWN]] = state
        progress[_SHOWN] += 1


@compiled
def _go_to_next_key(progress: _Numbers) -> None:
    """Forget everything about a key that is decided."""
    progress[_KEY] += 1
    progress[_BUILT] = 0
    progress[_COUNT] = 0
    progress[_USED] = 0
    progress[_DEPTH] = -1
    progress[_GENERATION] += 1


@compiled
def _search(  # noqa: C901, PLR0912, PLR0915 - one loop: its frames, handed on, cost more than its steps
    calls: _Calls,
    initial: int,
    progress: _Numbers,
    opened: _Open,
    frames: _Frames,
    deepest: _Deepest,
    memo_of_key: _Memo,
    budget: int,
) -> int:
    """Go on with key `progress[_KEY]` and those after it, until one is refuted, there is no room, or the budget is spent.

    Exponential in the calls of one key that are open at once, and linear in everything else.
    """
    offsets, begins, ends, requires, forbids, assigns = calls
    answers, open_starts, open_calls, slots, scratch = opened
    answered, states, owed, cursors, taken, moves = frames
    deepest_moves, deepest_states = deepest
    memo, generations = memo_of_key
    while progress[_KEY] < len(offsets) - 1:
        key = progress[_KEY]
        begin = offsets[key]
        depth = progress[_DEPTH]
        if progress[_BUILT] == 0:
            count = _build(begin, offsets[key + 1], begins, ends, answers, open_starts, open_calls, slots, scratch)
            progress[_BUILT] = count + 1
            # Frame 0 comes before everything; what is "tried" first there is to do nothing but observe.
            depth = -1
            progress[_DEEPEST] = -1
            progress[_SAVED] = 0
            progress[_SHOWN] = 0
        total = progress[_BUILT] - 1
        generation = progress[_GENERATION]
        done = False
        while not done:
            fresh = depth + 1
            if depth < 0:
                if progress[_COUNT] > 0:
                    progress[_DEPTH] = depth
                    return _REFUTED
                answered[0] = 0
                states[0] = initial
                owed[0] = False
                taken[0] = np.uint64(0)
                moves[0] = -1
                retry = 0
            else:
                here = answered[depth]
                retry = cursors[depth]
                last = open_starts[here + 1]
                at = _next_move(
                    retry,
                    open_starts[here],
                    last,
                    begin,
                    states[depth],
                    owed[depth],
                    ends,
                    requires,
                    forbids,
                    assigns,
                    open_calls,
                    slots,
                    taken[depth],
                )
                if at == last:
                    if progress[_SAVED] == 0 and depth == progress[_DEEPEST_DEPTH]:
                        deepest_moves[: depth + 1] = moves[: depth + 1]
                        progress[_SAVED] = 1
                    depth -= 1
                    continue
                cursors[depth] = at + 1
                move = open_calls[at]
                taken[fresh] = taken[depth]
                slot = slots[move]
                taken[fresh, slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)
                answered[fresh] = here
                states[fresh] = assigns[begin + move]
                owed[fresh] = ends[begin + move] == _NEVER
                moves[fresh] = move
            # Observations that fit are made at once, and answers that can be are accounted for.
            here = answered[fresh]
            state = states[fresh]
            while here < total:
                if _observe(
                    here, begin, state, requires, forbids, assigns, open_starts, open_calls, slots, taken[fresh]
                ):
                    owed[fresh] = False
                slot = slots[answers[here]]
                if not _has(taken[fresh], slot):
                    break
                taken[fresh, slot >> 6] &= ~(np.uint64(1) << np.uint64(slot & 63))
                here += 1
            answered[fresh] = here
            if here == total:
                done = True
                break
            head = (np.uint64(here) << np.uint64(33)) | (np.uint64(state) << np.uint64(1)) | np.uint64(owed[fresh])
            cell = _place(head, taken[fresh], memo, generations, generation)
            if cell >= 0:
                continue
            if 3 * (progress[_USED] + 1) > 2 * len(memo):
                # The same move again, once there is room.
                if depth >= 0:
                    cursors[depth] = retry
                progress[_DEPTH] = depth
                return _FULL
            cell = -1 - cell
            memo[cell, 0] = head
            memo[cell, 1:] = taken[fresh]
            generations[cell] = generation
            progress[_USED] += 1
            progress[_COUNT] += 1
            _note_depth(progress, deepest_states, here, fresh, state)
            depth = fresh
            cursors[depth] = open_starts[here]
            budget -= 1
            if budget <= 0:
                progress[_DEPTH] = depth
                return _PAUSED
        _go_to_next_key(progress)
    return _FINISHED
