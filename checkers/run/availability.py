"""Availability: every kind of operation is answered while a majority of nodes is whole.

Judges, for each kind of operation (`f`), the longest time in which no attempt was answered. An answer is an `ok`, or a
`fail` in which the system itself refuses; an error for an unreachable, unavailable, overloaded or slow system is none. A
node is whole unless a fault was active on it (the conductor's notes), its start failed, or its process ended by itself. An
attempt that needs every replica (level ALL) counts only while all nodes are whole, and one through a node only until an operation begins
that may have it gone for good: whoever asks no other node is answered by nobody then. Storms of refusals are judged beside
it (`schemaquake.checkers.run.refusals`).
Finds: `unavailable`, `refused-operations`. Source: the availability columns of the field (Kingsbury, latency and rate graphs); CEP-21, on the
majority that the metadata service needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operation_lines import OperationLines
from schemaquake.checkers.evidence.topology_operations import TopologyOperation
from schemaquake.checkers.findings.argument import Argument, label
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.findings.tally import Tally
from schemaquake.checkers.run.refusals import NEEDS_ALL, NO_ANSWER, Refusals
from schemaquake.checkers.run.whole_times import WholeTimes
from schemaquake.harness.model.membership import GONE
from schemaquake.harness.model.records import Records, plain
from schemaquake.harness.model.verdict import Anomaly, Doubt, Stat, Verdict

__all__ = ["Availability"]

_Numbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """No kind of operation goes unanswered for `longest_s` while a majority is whole.

    A window begins with an attempt, and counts only if at least `attempts` were begun in it, one after another (no pause
    longer than `longest_s / attempts`), all of them without an answer: without attempts nothing is unavailable.
    """

    name: str = "availability"
    scope: Literal["run", "keyspace"] = "run"
    finds: tuple[str, ...] = ("unavailable", "refused-operations")
    vouches: bool = False
    longest_s: float = 30
    attempts: int = 3

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - n log n needs no limit
        """Judge every kind of operation of a client. Raises HistoryError."""
        history = records.history
        evidence = Evidence.of(records)
        invocation, completion = evidence.ends()
        if not len(invocation):
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", "no client invoked an operation"))
        notes = evidence.notes
        nodes = sorted(evidence.nodes | {node for fault in notes.faults for node in fault.nodes})
        # By what the attempts need: all replicas, or as many as a majority of the nodes has.
        enough = {needs_all: WholeTimes(notes, nodes, needs_all=needs_all) for needs_all in (False, True)}
        calls = _Calls(history, invocation, completion, _leaving_since(notes.operations))
        operations = OperationLines(history)
        tally = Tally(self.name, keep=LIMITS.findings)
        longest: dict[str, float] = {}
        for function in calls.functions:
            windows = [
                (part, unanswered)
                for needs_all, whole in enough.items()
                for window in calls.without_answer(
                    function, needs_all=needs_all, pause_ns=int(self.longest_s / self.attempts * 1e9)
                )
                for part in whole.within(window)
                if len(unanswered := calls.indices(function, part, needs_all=needs_all)) >= self.attempts
            ]
            longest[function] = round(max((ends - begins for (begins, ends), _ in windows), default=0) / 1e9, 3)
            for window, unanswered in windows:
                if window[1] - window[0] >= self.longest_s * 1e9:
                    tally.find("unavailable", partial(_report_window, function, window, unanswered, operations))
        storms = Refusals(records, nodes)
        for storm in storms.found:
            tally.find("refused-operations", partial(storms.report, storm, operations))
        tally.doubt(*storms.doubts)
        return tally.verdict(
            longest_without_answer_s=Stat(longest, "s", "max"),
            longest_refused_s=Stat(storms.longest_s, "s", "max"),
            nodes=Stat(len(nodes), merge="max"),
            windows=tally.found.get("unavailable", 0),
        )


class _Calls:
    """The times (ns) at which operations of each kind were begun and answered."""

    def __init__(
        self, history: pa.Table, invocation: _Numbers, completion: _Numbers, leaving: Mapping[str, int]
    ) -> None:
        """`leaving` is the time from which on a node may be gone: attempts through it do not count then."""
        events = plain(history.select(["index", "time", "type", "f", "node", "value", "error"]))
        times = events["time"].to_numpy()
        answers = events.take(pa.array(completion, mask=completion < 0))
        silent = pc.fill_null(pc.match_substring_regex(answers["error"], NO_ANSWER), fill_value=False)
        answered = pc.or_(
            pc.equal(answers["type"], "ok"), pc.and_(pc.equal(answers["type"], "fail"), pc.invert(silent))
        )
        self._answered = pc.fill_null(answered, fill_value=False).to_numpy(zero_copy_only=False)
        asked = pc.match_substring_regex(events["value"].take(pa.array(invocation)), NEEDS_ALL)
        self._needs_all = pc.fill_null(asked, fill_value=False).to_numpy(zero_copy_only=False)
        self._begun = times[invocation]
        self._ended = np.where(completion < 0, -1, times[completion])
        self._index = events["index"].to_numpy()[invocation]
        asked_nodes = events["node"].take(pa.array(invocation))
        self._counts = np.ones(len(invocation), dtype=bool)
        for node, since in leaving.items():
            through = pc.fill_null(pc.equal(asked_nodes, node), fill_value=False).to_numpy(zero_copy_only=False)
            self._counts &= ~(through & (self._begun >= since))
        encoded = events["f"].take(pa.array(invocation)).combine_chunks().dictionary_encode()
        self._codes = encoded.indices.to_numpy()
        self.functions: Sequence[str] = encoded.dictionary.to_pylist()

    def without_answer(self, function: str, *, needs_all: bool, pause_ns: int) -> Iterator[tuple[int, int]]:
        """Yield (begin, end) in ns of the stretches in which successive attempts had no answer.

        Of the attempts without an answer those count that need all replicas, or those that do not.
        """
        is_called = self._codes == self.functions.index(function)
        unanswered = np.flatnonzero(is_called & self._counts & ~self._answered & (self._needs_all == needs_all))
        if not len(unanswered):
            return
        answers = np.sort(self._ended[is_called & self._answered])
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

    def indices(self, function: str, window: tuple[int, int], *, needs_all: bool) -> Sequence[int]:
        """Return the indices of the operations that began in a window and were not answered; see `without_answer`."""
        is_called = (self._codes == self.functions.index(function)) & self._counts
        is_called &= ~self._answered & (self._needs_all == needs_all)
        found: list[int] = self._index[is_called & (self._begun >= window[0]) & (self._begun < window[1])].tolist()
        return found


def _leaving_since(operations: Iterable[TopologyOperation]) -> Mapping[str, int]:
    """Map each node that an operation may have gone for good to the time (ns) at which the first such one began."""
    since: dict[str, int] = {}
    for operation in operations:
        for node, state in operation.becomes.items():
            if state in GONE and operation.outcome != "fail":
                since[node] = min(operation.invoked, since.get(node, operation.invoked))
    return since


def _report_window(
    function: str, window: tuple[int, int], indices: Sequence[int], operations: OperationLines
) -> Anomaly:
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
