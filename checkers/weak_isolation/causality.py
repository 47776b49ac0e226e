"""Causality: what causal consistency says of the order in which transactions commit.

Transaction t3 read key x from t1, and t2, which wrote x, too, happened before t3 (by sessions and reads, over any number of
transactions): then t2 committed before t1. What happened before a transaction is in its clock: how far along each
session. A clock is kept until the last one that needs it has seen it, so there are about as many as sessions and versions in
use. Sessions that have ended share a column once all clocks know them, or none does: so there are about as many columns
as sessions at a time, however many processes were retired.

Most steps lead forward in an order in which the transactions may have committed as far as reads tell, and prove nothing.
So only those that lead back are looked for, and if there are some, then whatever lies in the windows that they span: a
cycle has a step back, and does not leave its window.
Sources: Biswas and Enea (OOPSLA 2019); Møldrup and Pavlogiannis, AWDIT (PLDI 2025), for looking up the last writer of a key
in each session by clocks; Fidge (1988) and Mattern (1989) for clocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from schemaquake.checkers.elle.arrays import Bytes, Ints, Longs
from schemaquake.checkers.weak_isolation.axioms import EARLIER, LATER, by_session, longer, put
from schemaquake.checkers.weak_isolation.readings import INITIAL, Readings
from schemaquake.harness.compiled import compiled, phase

__all__ = ["TooMuch", "of_causality"]

_SLICE: Final = 1 << 15  # transactions between two looks at the time
_NEAR: Final = 16  # writers of a key that are looked at one by one, before it is asked session by session
_FAR: Final = (1 << 31) - 1


class TooMuch(Exception):
    """Time or memory did not suffice."""


class _Writes(NamedTuple):
    """Writers of each key, one session after another: those of key k are `start[k]:start[k + 1]` of `writer`.

    Of one session are `run[n]:run[n + 1]`; the runs of key k are those from `runs[k]` to `runs[k + 1]`.
    """

    start: Longs
    writer: Ints
    runs: Longs
    run: Longs


class _Clocks(NamedTuple):
    """The state of a pass. Row `row[t]` of `clock` has how far along each session all came that happened before t, t included.

    `uses[t]` counts who still needs that; then the row goes to `unused`. `session[t]` is the first transaction of its
    session, `place[t]` how far along that is; −1 until the pass has come to t. It stays so for those of which `ahead` says
    that no other session sees them, or any after them in theirs (1: sees them, but none after; 2: also one after).
    `column[s]` has session s, unless `into[s]` is another one, with whose column its own was joined. `owner` has the sessions
    of the columns, −1 if it is free; `tail` how far they came, `end` their last transaction that others see, −1 if it is still
    to come.
    `listed` has the writers of each key in the order of the pass, from where `_Writes.start` says: `length[k]` so far, and
    `entry` says for each write where it stands there. `reported` has the last step reported for each write.
    """

    numbers: Longs
    uses: Ints
    ahead: Bytes
    session: Ints
    place: Ints
    row: Ints
    clock: Ints
    unused: Ints
    column: Ints
    into: Ints
    owner: Ints
    tail: Ints
    end: Ints
    listed: Ints
    length: Ints
    entry: Ints
    reported: Ints


def of_causality(readings: Readings, order: Ints, *, late: Callable[[], bool], memory_bytes: int) -> Ints:
    """Find the steps that causal consistency asks for, one a row as of `schemaquake.checkers.weak_isolation.axioms`.

    In `order` every transaction is behind those that it read from, and behind those of its session. Steps forward in it are
    left out where they lie on no cycle. Raises TooMuch if it is late, or if clocks would take more memory than that.
    """
    writes = _writes(readings, by_session(readings.before))
    position = np.full(len(readings.before), -1, np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    everywhere = np.full(len(readings.before), -1, np.int32)
    back = _pass(readings, writes, order, position, everywhere, late, memory_bytes)
    broken: Ints = back[back[:, LATER] == INITIAL]
    back = back[back[:, LATER] != INITIAL]
    if not len(back):
        return broken
    windows = np.empty(len(readings.before), np.int32)
    windows[order] = _windows(position[back[:, LATER]], position[back[:, EARLIER]], len(order))
    within = _pass(readings, writes, order, np.zeros(0, np.int32), windows, late, memory_bytes)
    steps: Ints = np.concatenate([broken, within])
    return steps


def _pass(
    readings: Readings,
    writes: _Writes,
    order: Ints,
    position: Ints,
    windows: Ints,
    late: Callable[[], bool],
    memory_bytes: int,
) -> Ints:
    """Find the steps that lead back by `position`; or without one, all that lead from a window into itself."""
    clocks = _begun(readings, len(writes.writer))
    found = [np.zeros((0, 4), np.int32)]
    for begin in range(0, len(order), _SLICE):
        if late():
            raise TooMuch("time")
        part = order[begin : begin + _SLICE]
        steps, clocks = _advanced(readings, writes, part, position, windows, clocks, memory_bytes // 4)
        if clocks.numbers[0] < 0:
            raise TooMuch("memory")
        found.append(steps)
    return np.concatenate(found)


def _begun(readings: Readings, writes: int) -> _Clocks:
    count = len(readings.before)
    uses, ahead, session = _uses(readings)
    return _Clocks(
        numbers=np.zeros(1, np.int64),
        uses=uses,
        ahead=ahead,
        session=session,
        place=np.full(count, -1, np.int32),
        row=np.full(count, -1, np.int32),
        clock=np.zeros((0, 16), np.int32),
        unused=np.zeros(0, np.int32),
        column=np.full(count, -1, np.int32),
        into=np.arange(count, dtype=np.int32),
        owner=np.full(16, -1, np.int32),
        tail=np.zeros(16, np.int32),
        end=np.full(16, -1, np.int32),
        listed=np.empty(writes, np.int32),
        length=np.zeros(readings.keys, np.int32),
        entry=np.empty(writes, np.int32),
        reported=np.full(writes, -1, np.int32),
    )


def _windows(begins: Ints, ends: Ints, count: int) -> Ints:
    """Find for every place in the order its window, −1 for none: what the steps back span, joined where they meet."""
    depth = np.zeros(count + 1, np.int64)
    np.add.at(depth, begins, 1)
    np.add.at(depth, ends + 1, -1)
    inside = np.cumsum(depth)[:count] > 0
    opens = inside.copy()
    opens[1:] &= ~inside[:-1]
    found: Ints = np.where(inside, np.cumsum(opens), -1).astype(np.int32)
    return found


@compiled
def _uses(readings: Readings) -> tuple[Ints, Bytes, Ints]:
    """Compute `uses`, `ahead` and `session` of each transaction (see `_Clocks`)."""
    count = len(readings.before)
    uses = np.zeros(count, np.int32)
    ahead = np.zeros(count, np.int8)
    session = np.arange(count, dtype=np.int32)
    for t in range(count):
        if readings.before[t] >= 0:
            session[t] = session[readings.before[t]]
            uses[readings.before[t]] += 1
        for at in range(readings.read_first[t], readings.read_first[t + 1]):
            if readings.read_from[at] >= 0:
                uses[readings.read_from[at]] += 1
    for t in range(count):
        for at in range(readings.read_first[t], readings.read_first[t + 1]):
            w = readings.read_from[at]
            if w >= 0 and session[w] != session[t]:
                ahead[w] = 1
    for t in range(count - 1, -1, -1):
        if ahead[t] > 0 and readings.before[t] >= 0:
            ahead[readings.before[t]] = 2
    return uses, ahead, session


@compiled
def _writes(readings: Readings, sessions: Ints) -> _Writes:
    keys = readings.keys
    start = np.zeros(keys + 2, np.int64)
    runs = np.zeros(keys + 2, np.int64)
    stamp = np.full(keys, -1, np.int32)
    for k in readings.write_key:
        start[k + 2] += 1
    session = -1
    for t in sessions:
        session += readings.before[t] < 0
        for at in range(readings.write_first[t], readings.write_first[t + 1]):
            k = readings.write_key[at]
            if stamp[k] != session:
                stamp[k] = session
                runs[k + 2] += 1
    for k in range(2, keys + 2):
        start[k] += start[k - 1]
        runs[k] += runs[k - 1]
    writer = np.empty(len(readings.write_key), np.int32)
    run = np.empty(runs[keys + 1] + 1, np.int64)
    run[runs[keys + 1]] = len(writer)
    stamp[:] = -1
    session = -1
    for t in sessions:
        session += readings.before[t] < 0
        for at in range(readings.write_first[t], readings.write_first[t + 1]):
            k = readings.write_key[at]
            if stamp[k] != session:
                stamp[k] = session
                run[runs[k + 1]] = start[k + 1]
                runs[k + 1] += 1
            writer[start[k + 1]] = t
            start[k + 1] += 1
    return _Writes(start[: keys + 1].copy(), writer, runs[: keys + 1].copy(), run)


@compiled
def _advanced(  # noqa: C901, PLR0912 - one transaction after another, its phases in order
    readings: Readings,
    writes: _Writes,
    part: Ints,
    position: Ints,
    windows: Ints,
    clocks: _Clocks,
    most: int,
) -> tuple[Ints, _Clocks]:
    """Advance the pass over some more transactions. `numbers` has −1 if the clocks would have more than `most` places.

    Each transaction costs O(c · (1 + r)) for c columns and r reads from others, and O(n log m) for each key it reads,
    n being the sessions that wrote the key and m the writes of one of them.
    """
    numbers, uses, ahead, session, place, row, clock, unused = clocks[:8]
    column, into, owner, tail, last_seen, listed, length, entry, reported = clocks[8:]
    free = numbers[0]
    steps = np.empty((1024, 4), np.int32)
    count = 0
    for t in part:
        before = readings.before[t]

        # A column, if this is the first transaction of a session that others see.
        own = column[session[t]]
        if before < 0 and ahead[t] > 0:
            own = _free_column(owner)
            if own < 0:
                _join(readings.before, place, clock, unused[:free], into, owner, tail, last_seen)
                if 2 * np.count_nonzero(owner < 0) < len(owner):
                    clock, owner, tail, last_seen = _wider(clock, owner, tail, last_seen)
                own = _free_column(owner)
            owner[own], tail[own], last_seen[own] = t, 0, -1
            column[t] = own

        # The clock: the row of the transaction before, or a copy if others need that row, joined with those read from.
        if before >= 0 and uses[before] == 1:
            mine = row[before]
        else:
            if free == 0:
                clock, unused, free = _higher(clock)
            free -= 1
            mine = unused[free]
            _copy_clock(clock, mine, row[before] if before >= 0 else -1)
        if clock.size > most:
            numbers[0] = -1
            return steps[:0].copy(), clocks
        _join_clocks(readings, session, place, row, clock, column, into, t, mine)
        if ahead[t] > 0:
            tail[own] += 1
            clock[mine, own] = tail[own]
            if ahead[t] == 1:
                last_seen[own] = t

        for at in range(readings.read_first[t], readings.read_first[t + 1]):
            w, k = readings.read_from[at], readings.read_key[at]
            if readings.again[at] or length[k] == 0:
                continue
            write = _write_of(readings, w, k)
            needed = count + writes.runs[k + 1] - writes.runs[k] + _NEAR
            if needed > len(steps):
                steps = longer(steps, needed)
            if len(position) and length[k] - 1 - (-1 if w < 0 else entry[write]) <= _NEAR:
                count = _near_steps(
                    writes, session, place, clock, column, into, listed, length, entry, reported,
                    steps, count, t, mine, w, k, write,
                )  # fmt: skip
            elif len(position) or (w >= 0 and windows[w] >= 0):
                count = _steps_by_session(
                    writes, position, windows, session, place, row, clock, column, into, reported,
                    steps, count, t, mine, w, k, write,
                )  # fmt: skip

        # From here on the transaction can be seen; and rows that nothing needs any more are released.
        _list_writes(readings, writes, listed, length, entry, t)
        row[t] = mine
        if ahead[t] > 0:
            place[t] = tail[own]
        free = _release(readings, uses, row, unused, free, t, mine)
    numbers[0] = free
    return steps[:count].copy(), _Clocks(
        numbers, uses, ahead, session, place, row, clock, unused,
        column, into, owner, tail, last_seen, listed, length, entry, reported,
    )  # fmt: skip


@phase
def _copy_clock(clock: Ints, target: int, source: int) -> None:
    """Copy one row of the clock to another; from −1, clear it."""
    for c in range(clock.shape[1]):
        clock[target, c] = 0 if source < 0 else clock[source, c]


@phase
def _join_clocks(
    readings: Readings,
    session: Ints,
    place: Ints,
    row: Ints,
    clock: Ints,
    column: Ints,
    into: Ints,
    t: int,
    mine: int,
) -> None:
    """Raise the row `mine` to the rows of all transactions that t read from and did not know yet."""
    for at in range(readings.read_first[t], readings.read_first[t + 1]):
        w = readings.read_from[at]
        if w >= 0 and (place[w] < 0 or clock[mine, _column(column, into, session[w])] < place[w]):
            for c in range(clock.shape[1]):
                clock[mine, c] = max(clock[mine, c], clock[row[w], c])


@phase
def _write_of(readings: Readings, w: int, k: int) -> int:
    """Find the write of key k among those of transaction w, by halving; −1 for the initial value."""
    if w < 0:
        return -1
    first, last = readings.write_first[w], readings.write_first[w + 1]
    while last - first > 1:
        middle = (first + last) // 2
        if readings.write_key[middle] <= k:
            first = middle
        else:
            last = middle
    return first  # type: ignore[no-any-return] # a whole number of NumPy's


@phase
def _near_steps(
    writes: _Writes,
    session: Ints,
    place: Ints,
    clock: Ints,
    column: Ints,
    into: Ints,
    listed: Ints,
    length: Ints,
    entry: Ints,
    reported: Ints,
    steps: Ints,
    count: int,
    t: int,
    mine: int,
    w: int,
    k: int,
    write: int,
) -> int:
    """Report the few writers of k that the pass met since the one that was read, if they happened before t."""
    since = -1 if w < 0 else entry[write]
    for n in range(length[k] - 1, since, -1):
        e = listed[writes.start[k] + n]
        if place[e] < 0 or clock[mine, _column(column, into, session[e])] < place[e]:
            continue
        if w < 0 or reported[write] != e:
            put(steps, count, e, w, t, k)
            count += 1
        if w < 0:
            break
        reported[write] = e
    return count


@phase
def _steps_by_session(
    writes: _Writes,
    position: Ints,
    windows: Ints,
    session: Ints,
    place: Ints,
    row: Ints,
    clock: Ints,
    column: Ints,
    into: Ints,
    reported: Ints,
    steps: Ints,
    count: int,
    t: int,
    mine: int,
    w: int,
    k: int,
    write: int,
) -> int:
    """Report of every session its last write of k that happened before t, if its step leads back or lies in a window."""
    for r in range(writes.runs[k], writes.runs[k + 1]):
        e = writes.writer[writes.run[r]]
        if place[e] < 0:
            continue
        last = _last_known(writes, place, r, clock[mine, _column(column, into, session[e])])
        if last < 0:
            continue
        e = writes.writer[last]
        if e == w or (w >= 0 and reported[write] == e):
            continue
        if len(position):
            if w >= 0 and position[e] < position[w]:
                continue
        elif windows[e] != windows[w] or clock[row[w], _column(column, into, session[e])] >= place[e]:
            continue
        put(steps, count, e, w, t, k)
        count += 1
        if w < 0:
            break
        reported[write] = e
    return count


@phase
def _last_known(writes: _Writes, place: Ints, r: int, known: int) -> int:
    """Find the last write of a run that is not further than `known`, by halving; −1 if there is none."""
    low, high = writes.run[r], writes.run[r + 1]
    while low < high:
        middle = (low + high) // 2
        if 0 <= place[writes.writer[middle]] <= known:
            low = middle + 1
        else:
            high = middle
    return -1 if low == writes.run[r] else low - 1


@phase
def _list_writes(readings: Readings, writes: _Writes, listed: Ints, length: Ints, entry: Ints, t: int) -> None:
    """Append the writes of t to the writers of their keys."""
    for at in range(readings.write_first[t], readings.write_first[t + 1]):
        k = readings.write_key[at]
        entry[at] = length[k]
        listed[writes.start[k] + length[k]] = t
        length[k] += 1


@phase
def _release(readings: Readings, uses: Ints, row: Ints, unused: Ints, free: int, t: int, mine: int) -> int:
    """Give back the rows that only t still needed, its own too if nothing needs it; returns how many are unused."""
    before = readings.before[t]
    if before >= 0:
        uses[before] -= 1
        if uses[before] == 0:
            if row[before] != mine:
                unused[free] = row[before]
                free += 1
            row[before] = -1
    for at in range(readings.read_first[t], readings.read_first[t + 1]):
        w = readings.read_from[at]
        if w >= 0:
            uses[w] -= 1
            if uses[w] == 0:
                unused[free] = row[w]
                free += 1
                row[w] = -1
    if uses[t] == 0:
        unused[free] = mine
        free += 1
        row[t] = -1
    return free


@compiled
def _column(column: Ints, into: Ints, session: int) -> int:
    """Find the column of a session, whichever it was joined with."""
    while into[session] != session:
        into[session] = into[into[session]]
        session = into[session]
    return column[session]  # type: ignore[no-any-return] # a whole number of NumPy's


@compiled
def _free_column(owner: Ints) -> int:
    for c in range(len(owner)):
        if owner[c] < 0:
            return c
    return -1


@compiled
def _higher(clock: Ints) -> tuple[Ints, Ints, int]:
    """Twice as many rows, the new ones unused."""
    rows = max(16, 2 * len(clock))
    found = np.zeros((rows, clock.shape[1]), np.int32)
    found[: len(clock)] = clock
    unused = np.empty(rows, np.int32)
    for n in range(len(clock), rows):
        unused[n - len(clock)] = n
    return found, unused, rows - len(clock)


@compiled
def _wider(clock: Ints, owner: Ints, tail: Ints, last_seen: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Twice as many columns, the new ones free."""
    width = len(owner)
    found = np.zeros((len(clock), 2 * width), np.int32)
    found[:, :width] = clock
    owners, tails = np.full(2 * width, -1, np.int32), np.zeros(2 * width, np.int32)
    ends = np.full(2 * width, -1, np.int32)
    owners[:width], tails[:width], ends[:width] = owner, tail, last_seen
    return found, owners, tails, ends


@compiled
def _join(  # noqa: C901, PLR0912 - as above
    before: Ints, place: Ints, clock: Ints, unused: Ints, into: Ints, owner: Ints, tail: Ints, last_seen: Ints
) -> None:
    """Join the columns of ended sessions that can no longer be distinguished.

    A transaction learns of such a session only from the clocks in use. If each of them has nothing of it, or as much as any
    other, that is all that will ever be seen of it; and if that is so of two of them, and the same clocks have them, nobody
    will ever know the one without the other.
    """
    used = np.ones(len(clock), np.bool_)
    used[unused] = False
    rows = np.flatnonzero(used)
    digest = np.zeros(len(owner), np.uint64)
    whole = (owner >= 0) & (last_seen >= 0)
    for c in range(len(owner)):
        most = np.int32(0)
        for r in rows:
            most = max(most, clock[r, c])
        for r in rows:
            if not whole[c]:
                break
            if clock[r, c] == most and most > 0:
                digest[c] = (digest[c] ^ np.uint64(r + 1)) * np.uint64(0x9E3779B97F4A7C15)
            else:
                whole[c] = clock[r, c] == 0
        if whole[c] and most < tail[c]:
            t = last_seen[c]
            while t >= 0 and place[t] > most:
                place[t] = -1
                t = before[t]
            tail[c] = most
    candidates = np.flatnonzero(whole)
    candidates = candidates[np.argsort(digest[candidates])]
    for n in range(1, len(candidates)):
        one, other = candidates[n - 1], candidates[n]
        alike = digest[one] == digest[other]
        for r in rows:
            alike &= (clock[r, one] > 0) == (clock[r, other] > 0)
        if not alike:
            continue
        # A clock that has the other one has all of both: that is further than any place.
        for r in rows:
            if clock[r, other] > 0:
                clock[r, other] = _FAR
            clock[r, one] = 0
        tail[other] = _FAR
        into[owner[one]] = owner[other]
        owner[one] = -1
