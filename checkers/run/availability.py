"""Availability: whether every kind of operation was answered as long as a majority of nodes was whole.

Judges, kind by kind (`f`), how long nobody had an answer although there were attempts. An answer is an `ok`, and also a `fail`
in which the system itself refuses; being unreachable, unavailable, overloaded or too slow is none. A node is whole
unless a fault was at work on it (the conductor's notes), a start of it failed, or it ended by itself.
Finds: `unavailable`. Source: the availability columns of the field (Kingsbury, latency and rate graphs); CEP-21, on the
majority that the metadata service needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.evidence.operation_lines import OperationLines
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.harness.history.pairing import ends
from schemaquake.harness.model.records import Records, plain
from schemaquake.harness.model.verdict import Anomaly, Doubt, Stat, Verdict, make_stats

__all__ = ["Availability"]

_Numbers: TypeAlias = npt.NDArray[np.int64]
_NO_ANSWER: Final = r"(?i)unavailable|nohostavailable|no host|timed? ?out|overloaded|connection|unreachable"
_TOLD_MOST: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """No kind of operation goes unanswered for `longest_s` while a majority is whole.

    A window begins with an attempt, and counts only if at least `attempts` were begun in it, one after another (no pause
    longer than `longest_s / attempts`), all of them without an answer: where nobody asks, nothing is unavailable.
    """

    name: str = "availability"
    scope: Literal["run", "keyspace"] = "run"
    finds: tuple[str, ...] = ("unavailable",)
    vouches: bool = False
    longest_s: float = 30
    attempts: int = 3

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - n log n needs no limit
        """Judge every kind of operation of a client. Raises HistoryError."""
        history = records.history
        nodes = sorted(node for node in pc.unique(plain(history)["node"]).to_pylist() if node is not None)
        invocation, completion = ends(history)
        if not len(invocation):
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", "no client did anything"))
        whole = _Whole(history, nodes)
        calls = _Calls(history, invocation, completion)
        operations = OperationLines(history)
        anomalies: list[Anomaly] = []
        longest: dict[str, float] = {}
        for function in calls.functions:
            windows = [
                part
                for window in calls.without_answer(function, pause_ns=int(self.longest_s / self.attempts * 1e9))
                for part in whole.within(window)
                if len(calls.indices(function, part)) >= self.attempts
            ]
            longest[function] = round(max((ends - begins for begins, ends in windows), default=0) / 1e9, 3)
            anomalies += [
                _told(function, window, calls, operations)
                for window in windows
                if window[1] - window[0] >= self.longest_s * 1e9
            ]
        return Verdict(
            valid=not anomalies,
            checker=self.name,
            anomalies=tuple(anomalies[:_TOLD_MOST]),
            stats=make_stats(
                {
                    "longest_without_answer_s": Stat(longest, "s", "max"),
                    "nodes": Stat(len(nodes), merge="max"),
                    "windows": len(anomalies),
                }
            ),
        )


class _Calls:
    """When operations of each kind were begun and answered."""

    def __init__(self, history: pa.Table, invocation: _Numbers, completion: _Numbers) -> None:
        events = plain(history.select(["index", "time", "type", "f", "error"]))
        times = events["time"].to_numpy()
        answers = events.take(pa.array(completion, mask=completion < 0))
        silent = pc.fill_null(pc.match_substring_regex(answers["error"], _NO_ANSWER), fill_value=False)
        answered = pc.or_(
            pc.equal(answers["type"], "ok"), pc.and_(pc.equal(answers["type"], "fail"), pc.invert(silent))
        )
        self._answered = pc.fill_null(answered, fill_value=False).to_numpy(zero_copy_only=False)
        self._begun = times[invocation]
        self._ended = np.where(completion < 0, -1, times[completion])
        self._index = events["index"].to_numpy()[invocation]
        encoded = events["f"].take(pa.array(invocation)).combine_chunks().dictionary_encode()
        self._codes = encoded.indices.to_numpy()
        self.functions: Sequence[str] = encoded.dictionary.to_pylist()

    def without_answer(self, function: str, *, pause_ns: int) -> Iterator[tuple[int, int]]:
        """(begin, end) of the times in which one attempt after another had no answer."""
        of = self._codes == self.functions.index(function)
        answers = np.sort(self._ended[of & self._answered])
        vain = np.flatnonzero(of & ~self._answered)
        vain = vain[np.argsort(self._begun[vain], kind="stable")]
        begins = until = -1
        for begun, ended in zip(self._begun[vain].tolist(), self._ended[vain].tolist(), strict=True):
            answered = np.searchsorted(answers, begins) < np.searchsorted(answers, begun)
            if begins >= 0 and (answered or begun - until > pause_ns):
                yield begins, until
                begins = -1
            begins = begun if begins < 0 else begins
            until = max(until, begun, ended)
        if begins >= 0:
            yield begins, until

    def indices(self, function: str, window: tuple[int, int]) -> Sequence[int]:
        """Those that were begun in a window and never answered."""
        of = (self._codes == self.functions.index(function)) & ~self._answered
        found: list[int] = self._index[of & (self._begun >= window[0]) & (self._begun < window[1])].tolist()
        return found


class _Whole:
    """When a majority of the nodes was whole."""

    def __init__(self, history: pa.Table, nodes: Sequence[str]) -> None:
        notes = Notes(history)
        changes: list[tuple[int, str, int]] = []
        for fault in notes.faults:
            for node in set(fault.nodes) or set(nodes):
                changes.append((fault.begins, node, 1))
                if fault.ends is not None:
                    changes.append((fault.ends, node, -1))
        moments = sorted(
            {
                0,
                *(time for time, _, _ in changes),
                *(start.time for start in notes.starts),
                *(d.time for d in notes.deaths),
            }
        )
        self._parts: list[tuple[int, int]] = []
        self._nodes = nodes
        for begins, until in zip(moments, [*moments[1:], np.iinfo(np.int64).max], strict=True):
            harmed = dict.fromkeys(nodes, 0)
            for time, node, change in changes:
                if time <= begins and node in harmed:
                    harmed[node] += change
            down = notes.down(begins)
            whole = sum(count == 0 and node not in down for node, count in harmed.items())
            if 2 * whole > len(nodes) or not nodes:
                self._parts.append((begins, int(until)))

    def within(self, window: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """The stretches of a window in which a majority was whole, neighbours joined."""
        joined: tuple[int, int] | None = None
        for begins, until in self._parts:
            begins, until = max(begins, window[0]), min(until, window[1])  # noqa: PLW2901 - the part within the window
            if begins >= until:
                continue
            if joined is not None and joined[1] == begins:
                joined = (joined[0], until)
                continue
            if joined is not None:
                yield joined
            joined = (begins, until)
        if joined is not None:
            yield joined


def _told(function: str, window: tuple[int, int], calls: _Calls, operations: OperationLines) -> Anomaly:
    indices = calls.indices(function, window)
    shown = [*indices[:2], indices[-1]]
    lines = operations.lines(shown)
    let = "\n".join(f"{'Let ' if n == 0 else '    '} T{n + 1} = {line}" for n, line in enumerate(lines))
    begins, until = (time / 1e9 for time in window)
    return anomaly(
        "unavailable",
        nodes=operations.nodes(indices),
        ops=indices[:100],
        evidence={"f": function, "begins_ns": window[0], "ends_ns": window[1], "attempts": len(indices)},
        explanation=f"{let}\nThen from {begins:.3f} s to {until:.3f} s a majority of the nodes was whole, and {function} should have "
        f"been answered.\n     But {len(indices)} attempts were begun in that time, and none was.",
    )
