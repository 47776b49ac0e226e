"""Pieces: registers and other objects judged key by key, in shares; a history is linearizable if each of its keys is.

By ranges of the history each operation goes to the share of its key (both of its events, by the key of the invocation), then
each share is judged by the checker itself. Herlihy and Wing (1990) prove that nothing is lost: linearizability is local.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.exchange.exchange import Exchange, Part, Parts, Rows, of_part
from schemaquake.checkers.exchange.frontier import FRONTIER, apart, joined
from schemaquake.harness.history.pairing import ends
from schemaquake.harness.model.records import HISTORY, Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict, combine, merge_doubts, merge_stats

__all__ = ["check_in_pieces"]

_BY_SEARCH: Final = "search"


class _Check(Protocol):
    """The checker's own `check`."""

    def __call__(self, records: Records, *, limit_s: float) -> Verdict: ...


@dataclass(frozen=True, slots=True)
class _Range:
    number: int
    shares: int


@dataclass(frozen=True, slots=True)
class _Scattered:
    """A range's operations by the share of their key, and the events that the range cannot pair."""

    events: Parts
    frontier: Part


@dataclass(frozen=True, slots=True)
class _Share:
    """One share of the keys: the checker is to judge these events."""

    check: _Check
    events: Sequence[Part]
    metadata: Mapping[bytes, bytes]
    limit_s: float


def check_in_pieces(name: str, check: _Check, exchange: Exchange, *, limit_s: float, shown_most: int) -> Verdict:
    """Judge every key of the exchange's history by the checker of that name; show at most so many anomalies.

    Raises HistoryError for values that the model cannot have.
    """
    shares = exchange.shares
    scattered = exchange.each(_scatter, [_Range(number, shares) for number in range(len(exchange.first) - 1)])
    events, _ = joined(exchange.read([part.frontier for part in scattered], FRONTIER))
    across = _share_out(exchange, events, "across", shares)
    parts = [of_part([*(part.events for part in scattered), across], number) for number in range(shares)]
    metadata = {b"names": exchange.metadata.get(b"names", b"{}")}
    asked = [_Share(check, part, metadata, limit_s) for part in parts if part]
    # Nothing may end by itself: what takes twice the limit is ended.
    found = exchange.each_within(2 * limit_s, _judge, asked)
    return _combined([_given_up(name, limit_s) if verdict is None else verdict for verdict in found], check, shown_most)


def _scatter(rows: Rows, message: _Range) -> _Scattered:
    """Share the operations of a range out by key."""
    events = rows.events(message.number)
    places = rows.first[message.number] + np.arange(len(events))
    whole, frontier = apart(events, places, message.number)
    shared = _share_out(rows, events.filter(pa.array(whole)), str(message.number), message.shares)
    return _Scattered(shared, rows.keep(f"frontier-{message.number}", frontier))


def _share_out(rows: Rows, events: pa.Table, name: str, shares: int) -> Parts:
    """Share both events of every operation out by its key; the nemesis' go nowhere."""
    invocation, completion = ends(events)
    share = np.full(len(events), shares)
    share[invocation] = _share_of(events["key"], shares)[invocation]
    answered = completion >= 0
    share[completion[answered]] = share[invocation[answered]]
    return rows.share(f"events-{name}", events, share, shares)


def _share_of(keys: pa.ChunkedArray, shares: int) -> npt.NDArray[np.int64]:
    """Compute the share of each key, the same in every process."""
    encoded = keys.combine_chunks().dictionary_encode()
    known = [zlib.crc32(key.encode()) % shares for key in encoded.dictionary.to_pylist()]
    found: npt.NDArray[np.int64] = np.array([*known, 0], np.int64)[encoded.indices.fill_null(len(known)).to_numpy()]
    return found


def _judge(rows: Rows, share: _Share) -> Verdict:
    """Judge one share of the keys by the checker."""
    events = rows.read(share.events, HISTORY)
    events = events.take(pc.sort_indices(events["index"])).replace_schema_metadata(dict(share.metadata))
    return share.check(Records.of(events), limit_s=share.limit_s)


def _given_up(name: str, limit_s: float) -> Verdict:
    text = f"some keys were given up: they did not end by themselves within twice the limit of {limit_s:g} s"
    return Verdict.unknown(name, Doubt("time", text))


def _combined(verdicts: Sequence[Verdict], check: _Check, shown_most: int) -> Verdict:
    """Make one verdict of those on the shares. As many anomalies are shown as of one history, and the same."""
    judged = [verdict for verdict in verdicts if not verdict.judged_nothing]
    if not judged:
        return verdicts[0] if verdicts else check(Records.of(HISTORY.empty_table()), limit_s=1)
    anomalies = sorted((anomaly for verdict in judged for anomaly in verdict.anomalies), key=_shown_first)
    return Verdict(
        valid=combine(verdict.valid for verdict in judged),
        checker=judged[0].checker,
        anomalies=tuple(anomalies[:shown_most]),
        stats=merge_stats(verdict.stats for verdict in judged),
        doubts=merge_doubts(doubt for verdict in judged for doubt in verdict.doubts),
    )


def _shown_first(anomaly: Anomaly) -> tuple[bool, str]:
    """Order anomalies as in one history: those of zones before those of a search, then by key."""
    evidence: Mapping[str, Any] = anomaly.evidence if isinstance(anomaly.evidence, dict) else {}
    return evidence.get("why") == _BY_SEARCH, anomaly.objects[0] if anomaly.objects else ""
