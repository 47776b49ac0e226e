"""Quorum evidence: findings from violations, with the operations that prove them.

One finding per kind and key, with the first case in full: the write and the read, side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from schemaquake.checkers.evidence.operation_lines import render_operation
from schemaquake.checkers.findings.argument import Argument, label
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, phase_text, seconds
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.quorum.operations import NOTHING, Operations
from schemaquake.checkers.quorum.probes import UnderReplicated
from schemaquake.checkers.quorum.violations import Pairs, Violations, count_lost
from schemaquake.harness.counts import counted
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.verdict import Anomaly

__all__ = ["report_violations"]

_NO_READS: Final = "no later read of the key was answered"


def report_violations(operations: Operations, found: Violations) -> Iterator[Anomaly]:
    """Yield the findings, at most twenty keys of a kind; the verdict's `stats` count all."""
    reporter = _Reporter(operations, found)
    for pairs, report in (
        (found.missed, reporter.missed),
        (found.non_monotonic, reporter.non_monotonic),
        (found.shadowed, reporter.shadowed),
    ):
        yield from (report(group) for group in list(_group_by_key(operations, pairs).values())[: LIMITS.objects])
    yield from (reporter.under_replicated(owed) for owed in found.under_replicated[: LIMITS.objects])
    by_key = _group_by_key(operations, [(read, read) for read in found.unwritten])
    yield from (reporter.unwritten([read for read, _ in group]) for group in list(by_key.values())[: LIMITS.objects])


def _group_by_key(operations: Operations, pairs: Pairs) -> Mapping[int, Pairs]:
    groups: dict[int, list[tuple[int, int]]] = {}
    for pair in pairs:
        groups.setdefault(int(operations.key[pair[1]]), []).append(pair)
    return groups


class _Reporter:
    """The findings and their explanations, from operations of one history."""

    def __init__(self, operations: Operations, found: Violations) -> None:
        self._operations = operations
        self._found = found

    def missed(self, pairs: Pairs) -> Anomaly:
        put, get = pairs[0]
        reason = self._explain_overlap("T1 was acknowledged before T2 began", put, get)
        if self._operations.version[get] == NOTHING:
            but = "T2 found no value, and values are never deleted"
        else:
            but = f"T2 shows {self._render_value(get)}, which is the older value on the replicas: {self._compare_writetimes(put, get)}"
        return self._report_pairs("missed-quorum-write", pairs, ("put", "get"), reason, but)

    def non_monotonic(self, pairs: Pairs) -> Anomaly:
        first, second = pairs[0]
        reason = self._explain_overlap(
            f"T1 was answered before T2 began, and had repaired the replicas that it read to {self._render_value(first)}",
            first,
            second,
        )
        but = f"T2 shows {self._render_value(second)}, which is older: {self._compare_writetimes(first, second)}"
        return self._report_pairs("non-monotonic-quorum-read", pairs, ("first get", "second get"), reason, but)

    def shadowed(self, pairs: Pairs) -> Anomaly:
        hiding, hidden = pairs[0]
        operations = self._operations
        read = next((self._found.shown[put] for _, put in pairs if put in self._found.shown), None)
        if read is not None:
            hiding, hidden = next(pair for pair in pairs if self._found.shown.get(pair[1]) == read)
        shown = (
            f"T3, begun after T2 was acknowledged, shows {self._render_value(read)}" if read is not None else _NO_READS
        )
        count = len({put for _, put in pairs})
        return anomaly(
            "shadowed-write",
            objects=[operations.keys[operations.key[hidden]]],
            nodes=[self._find_node(at) for pair in pairs for at in pair],
            ops=[int(operations.index[at]) for pair in pairs[: LIMITS.examples] for at in pair]
            + ([int(operations.index[read])] if read is not None else []),
            evidence={
                "hidden": count,
                "examples": [
                    {"hides": self._render_evidence(hiding_put), "hidden": self._render_evidence(put)}
                    for hiding_put, put in pairs[: LIMITS.examples]
                ],
                "shown_by": None if read is None else self._render_evidence(read),
            },
            explanation=Argument(
                label(self._render_operation(at) for at in (hiding, hidden, read) if at is not None),
                "T1 was acknowledged before T2 began, so T2 is the later write.",
                f"the replicas keep the higher writetime, and {self._compare_writetimes(hiding, hidden)}: T2 never took effect, though "
                f"it was acknowledged; {shown}. The same holds for {count} acknowledged puts of this key. No quorum was "
                "broken: this is last-write-wins under clocks that differ.",
            ),
        )

    def under_replicated(self, owed: UnderReplicated) -> Anomaly:
        operations = self._operations
        promised = owed.promised
        held = {
            node: None if operations.version[probe] == NOTHING else self._render_value(probe)
            for node, probe in owed.probes.items()
        }
        shows = listing(f"{node} {'nothing' if value is None else value}" for node, value in held.items())
        few = f"only {listing(owed.holders)} of them" if owed.holders else "none of them"
        return anomaly(
            "under-replicated-value",
            objects=[operations.keys[operations.key[owed.put]]],
            nodes=owed.older,
            ops=[int(operations.index[at]) for at in (owed.put, *owed.probes.values())],
            evidence={
                "phase": owed.phase,
                "put": self._render_evidence(owed.put),
                "promised": promised,
                "held_by": list(owed.holders),
                "probes": {node: self._render_evidence(probe) for node, probe in owed.probes.items()},
            },
            explanation=Argument(
                label([self._render_operation(owed.put)]),
                f"T1 was acknowledged at {self._find_level(owed.put)}, so {promised} of {owed.replicas} replicas have it, or a "
                f"later one{self._after_changes()}.",
                f"{phase_text(owed.phase)} a read at ONE through each node, which a replica answers from its own data, shows {shows}: {few} can have it.",
            ),
        )

    def unwritten(self, reads: Sequence[int]) -> Anomaly:
        operations = self._operations
        read = reads[0]
        put = int(operations.put[operations.version[read]])
        if put < 0:
            shown, but = [read], "no operation ever put it"
        else:
            shown = [read, put]
            but = "T2, which put it, was refused" if operations.refused[put] else "T2 began only after T1 was answered"
        return anomaly(
            "unwritten-value",
            objects=[operations.keys[operations.key[read]]],
            nodes=[self._find_node(at) for at in reads],
            ops=[int(operations.index[at]) for at in (*reads[: LIMITS.examples], *([put] if put >= 0 else []))],
            evidence={"count": len(reads), "examples": [self._render_evidence(at) for at in reads[: LIMITS.examples]]},
            explanation=Argument(
                label(map(self._render_operation, shown)),
                f"T1 shows {self._render_value(read)}, so some operation put {self._render_value(read)} there before.",
                f"{but}. The same holds for {counted(len(reads), 'read')} of this key.",
            ),
        )

    def _report_pairs(self, kind: str, pairs: Pairs, sides: tuple[str, str], reason: str, but: str) -> Anomaly:
        operations = self._operations
        first, other = pairs[0]
        later = len({pair[1] for pair in pairs})
        return anomaly(
            kind,
            objects=[operations.keys[operations.key[other]]],
            nodes=[self._find_node(at) for pair in pairs for at in pair],
            ops=[int(operations.index[at]) for pair in pairs[: LIMITS.examples] for at in pair],
            evidence={
                "count": later,
                "examples": [
                    {side: self._render_evidence(at) for side, at in zip(sides, pair, strict=True)}
                    for pair in pairs[: LIMITS.examples]
                ],
            },
            explanation=Argument(
                label(self._render_operation(at) for at in (first, other)),
                reason,
                f"{but}. The same holds for {later} gets of this key.",
            ),
        )

    def _explain_overlap(self, order: str, first: int, other: int) -> str:
        operations, series = self._operations, self._found.series
        if lost := count_lost(operations, first, other):
            order = f"{order}, and operations took away at most {lost} {'disk' if lost == 1 else 'disks'} in between"
        if not series.is_constant:
            by = [series.describe(operations.moments[operations.level[at]]) for at in (first, other)]
            return (
                f"{order}; T1 asked at {operations.levels[first]} by the replication factor {by[0]}, T2 at {operations.levels[other]} by {by[1]}, and "
                f"whatever the changes of the factor ({series.describe_all()}) took of the copies of T1, T2 read from a replica that has its value, or a later one."
            )
        (copies,) = series.factors
        first_copies, second_copies = int(operations.copies[first]), int(operations.copies[other])
        if first_copies + second_copies <= copies:  # they meet in a data centre
            asked = listing(f"{self._find_level(at)} through {self._find_node(at)}" for at in (first, other))
            return f"{order}; answers at {asked} have a replica in common, so T2 read from one that has the value of T1, or a later one."
        return (
            f"{order}; any {first_copies} and any {second_copies} of {copies} replicas share one ({first_copies} + {second_copies} > {copies}), so T2 read "
            "from a replica that has the value of T1, or a later one."
        )

    def _after_changes(self) -> str:
        series = self._found.series
        return "" if series.is_constant else f", after the replication factors {series.describe_all()}"

    def _compare_writetimes(self, first: int, other: int) -> str:
        """Compare the writetimes of T1 and T2: `T1 has the writetime 12 µs, T2 11 µs`; bounds where they are not known."""
        earlier, later = self._render_writetime(first), self._render_writetime(other)
        text = f"T1 has the writetime {earlier}, T2 {later}"
        return f"{text}, and at one writetime the greater value wins" if earlier == later else text

    def _render_writetime(self, at: int) -> str:
        order, version = self._found.versions, self._operations.version[at]
        since, until, ceiling = (int(bound[version]) for bound in (order.since, order.until, order.ceiling))
        if since == until:
            return f"{since} µs"
        if ceiling < until:
            return f"below {ceiling} µs (no read returned it; a later put through its coordinator has that writetime)"
        return f"between {since} and {until} µs (no read returned it; bounds by its coordinator's clock)"

    def _render_operation(self, at: int) -> str:
        """Render an operation: `op 412: p3 n1 put k.q/5 := 17 at QUORUM -> ok at 8.214 s`."""
        operations = self._operations
        process, kind = operations.rows["process"][at].as_py(), operations.rows["type"][at].as_py()
        key = operations.keys[operations.key[at]]
        request, answer = (f"put {key} := {self._render_value(at)}", kind)
        if operations.f[at] != 0:
            request, answer = f"{operations.rows['f'][at].as_py()} {key}", f"{kind}, {self._render_value(at)}"
        completed = operations.rows["completed"][at].as_py()
        return render_operation(
            int(operations.index[at]),
            process,
            self._find_node(at),
            f"{request} at {self._find_level(at)}",
            answer,
            when="" if completed is None else f" at {seconds(completed)}",
        )

    def _render_evidence(self, at: int) -> Mapping[str, JSON]:
        """Render an operation as evidence; times in s, the writetime in µs."""
        operations, order, version = self._operations, self._found.versions, self._operations.version[at]
        completed = operations.rows["completed"][at].as_py()
        known = version != NOTHING and order.since[version] == order.until[version]
        bounds: Mapping[str, Any] = {}
        if version != NOTHING and not known and order.since[version] != np.iinfo(np.int64).min:
            bounds = {"writetime_between": [int(order.since[version]), int(order.until[version])]}
        return {
            "op": int(operations.index[at]),
            "node": self._find_node(at),
            "consistency": self._find_level(at),
            "value": None if version == NOTHING else int(operations.value[version]),
            "writetime": int(order.since[version]) if known else None,
            **bounds,
            "invoked_s": round(int(operations.invoked[at]) / 1e9, 6),
            "completed_s": None if completed is None else round(completed / 1e9, 6),
        }

    def _render_value(self, at: int) -> str:
        version = self._operations.version[at]
        return "nothing" if version == NOTHING else str(int(self._operations.value[version]))

    def _find_level(self, at: int) -> str:
        return str(self._operations.levels[at])

    def _find_node(self, at: int) -> str:
        return str(self._operations.nodes[self._operations.node[at]])
