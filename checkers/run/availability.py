"""Availability: every kind of operation is answered while a majority of nodes is whole.

Judges, for each kind of operation (`f`), the longest time in which no attempt was answered. An answer is an `ok`, or a
`fail` in which the system itself refuses; an error for an unreachable, unavailable, overloaded or slow system is none. A
node is whole unless a fault was active on it (the conductor's notes), its start failed, or its process ended by itself.
Finds: `unavailable`. Source: the availability columns of the field (Kingsbury, latency and rate graphs); CEP-21, on the
majority that the metadata service needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.evidence.operation_lines import OperationLines
from schemaquake.checkers.findings.argument import Argument, label
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.findings.tally import Tally
from schemaquake.harness.history.pairing import ends
from schemaquake.harness.model.records import Records, plain
from schemaquake.harness.model.verdict import Anomaly, Doubt, Stat, Verdict

__all__ = ["Availability"]

_Numbers: TypeAlias = npt.NDArray[np.int64]
_NO_ANSWER: Final = r"(?i)unavailable|nohostavailable|no host|timed? ?out|overloaded|connection|unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """No kind of operation goes unanswered for `longest_s` while a majority is whole.

    A window begins with an attempt, and counts only if at least `attempts` were begun in it, one after another (no pause
    longer than `longest_s / attempts`), all of them without an answer: without attempts nothing is unavailable.
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
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", "no client invoked an operation"))
        whole = _Whole(Evidence.of(records).notes, nodes)
        calls = _Calls(history, invocation, completion)
        operations = OperationLines(history)
        tally = Tally(self.name, keep=LIMITS.findings)
        longest: dict[str, float] = {}
        for function in calls.functions:
            windows = [
                part
                for window in calls.without_answer(function, pause_ns=int(self.longest_s / self.attempts * 1e9))
                for part in whole.within(window)
                if len(calls.indices(function, part)) >= self.attempts
            ]
            longest[function] = round(max((ends - begins for begins, ends in windows), default=0) / 1e9, 3)
            for window in windows:
                if window[1] - window[0] >= self.longest_s * 1e9:
                    tally.find("unavailable", partial(_report_window, function, window, calls, operations))
        return tally.verdict(
            longest_without_answer_s=Stat(longest, "s", "max"),
            nodes=Stat(len(nodes), merge="max"),
            windows=tally.found.get("unavailable", 0),
        )


class _Calls:
    """The times (ns) at which operations of each kind were begun and answered."""

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
        """Yield (begin, end) in ns of the stretches in which successive attempts had no answer."""
        is_called = self._codes == self.functions.index(function)
        answers = np.sort(self._ended[is_called & self._answered])
        unanswered = np.flatnonzero(is_called & ~self._answered)
        unanswered = unanswered[np.argsort(self._begun[unanswered], kind="stable")]
        begins = until = -1
        for begun, ended in zip(self._begun[unanswered].tolist(), self._ended[unanswered].tolist(), strict=True):
            answered = np.searchsorted(answers, begins) < np.searchsorted(answers, begun)
            if begins >= 0 and (answered or begun - until > pause_ns):
                yield begins, until
                begins = -1
            begins = begun if begins < 0 else begins
            until = max(until, begun, ended)
        if begins >= 0:
            yield begins, until

    def indices(self, function: str, window: tuple[int, int]) -> Sequence[int]:
        """Return the indices of the operations that began in a window and were not answered."""
        is_called = (self._codes == self.functions.index(function)) & ~self._answered
        found: list[int] = self._index[is_called & (self._begun >= window[0]) & (self._begun < window[1])].tolist()
        return found


class _Whole:
    """The stretches of time in which a majority of the nodes was whole."""

    def __init__(self, notes: Notes, nodes: Sequence[str]) -> None:
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
                *notes.membership.times,
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
            members = [node for node in nodes if notes.membership.serves(node, begins)]
            whole = sum(harmed[node] == 0 and node not in down for node in members)
            if 2 * whole > len(members) or not nodes:
                self._parts.append((begins, int(until)))

    def within(self, window: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """Yield the stretches (begin, end) of a window in which a majority was whole, with neighbours joined."""
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


def _report_window(function: str, window: tuple[int, int], calls: _Calls, operations: OperationLines) -> Anomaly:
    indices = calls.indices(function, window)
    shown = [*indices[:2], indices[-1]]
    lines = operations.lines(shown)
    begins, until = (time / 1e9 for time in window)
    return anomaly(
        "unavailable",
        nodes=operations.nodes(indices),
        ops=indices[: LIMITS.members],
        evidence={"f": function, "begins_ns": window[0], "ends_ns": window[1], "attempts": len(indices)},
        explanation=Argument(
            label(lines),
            f"from {begins:.3f} s to {until:.3f} s a majority of the nodes was whole, so {function} should have been answered.",
            f"{len(indices)} attempts began in that time, and none was answered.",
        ).render(),
    )
