"""Quorum: reads see the writes that a quorum acknowledged, and values are on as many replicas as promised.

Judges the puts, gets and probes of `schemaquake.harness.model.queries`. Where the levels of a write and a read make their
replicas share one (R + W > N), a get that began after a put was acknowledged shows that put, or a later value.
Writetimes decide which value is later (`schemaquake.checkers.quorum.versions`), not the order of the requests: a write that
loses by last-write-wins under skewed clocks is a `shadowed-write`, and never a broken quorum.
Finds: `missed-quorum-write`, `non-monotonic-quorum-read`, `under-replicated-value`, `shadowed-write`, `unwritten-value`.

- A get without any value after an acknowledged put is a missed write whatever the clocks did: puts are never deleted.
- Two gets whose replicas must share one, the second begun after the first was answered, and the second shows an older
  value: blocking read repair rules this out, for acknowledged puts and others. A get with a missed write is not counted.
- In a final phase every key is read at ONE through every node. A replica answers from its own data, so an acknowledged put
  (or a later one) that fewer than W nodes show is under-replicated.
- An acknowledged put that an earlier acknowledged put hides, because the earlier one has the higher writetime (or the
  same one and the greater value), is shadowed: the last-write-wins rule loses it by design.

Where a keyspace has replicas in several data centres, LOCAL_QUORUM and LOCAL_ONE stand for replicas of the coordinator's, and EACH_QUORUM
for a majority in each (`schemaquake.checkers.quorum.centers`).

Where the replication factor is changed, `schemaquake.checkers.quorum.factors` follows what levels promise from one factor to the next.

Levels that need not share a replica promise nothing: their stale reads are counted. Unknown: a put whose writetime no
read returned and whose coordinator's clock cannot be trusted, if a later get shows an earlier put; failed probes that
could have shown too few replicas. Sources: Gifford, "Weighted voting for replicated data" (SOSP 1979); CEP-21, quorum intersection;
CASSANDRA-14740 (monotonic quorum reads), CASSANDRA-14801 (quorums that do not intersect), CASSANDRA-6106.
"""

from __future__ import annotations

from typing import Literal

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.findings.tally import Tally
from schemaquake.checkers.quorum.centers import find_centers, read_locations
from schemaquake.checkers.quorum.evidence import report_violations
from schemaquake.checkers.quorum.factors import FactorSeries
from schemaquake.checkers.quorum.operations import read_quorum_operations
from schemaquake.checkers.quorum.violations import find_violations
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Doubt, Stat, Verdict

__all__ = ["Quorum"]


class Quorum:
    """Quorums intersect, and every value is on the promised number of replicas."""

    name = "quorum"
    scope: Literal["keyspace", "run"] = "keyspace"
    finds: tuple[str, ...] = (
        "missed-quorum-write",
        "non-monotonic-quorum-read",
        "under-replicated-value",
        "shadowed-write",
        "unwritten-value",
    )
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - sorts of a few arrays
        """Judge every key. Raises HistoryError for operations that have no meaning (see `read_quorum_operations`)."""
        evidence = Evidence.of(records)
        series = evidence.derive(FactorSeries)
        centers = find_centers(records.history)
        operations = read_quorum_operations(
            evidence,
            series=series,
            centers=centers or {},
            locations=read_locations(evidence) if centers else {},
        )
        if not len(operations.acknowledged_puts) or not len(operations.gets) + len(operations.probes):
            missing = (
                "put was acknowledged" if len(operations.gets) + len(operations.probes) else "get or probe was answered"
            )
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", f"no {missing}"))
        if centers is None:
            text = "the replicas that each data centre has are not the same all the time, so what levels promise is not known"
            return Verdict.unknown(self.name, Doubt("undecided", text))
        if not series.factors:
            text = "the replication factor of the keyspace is not known: no CREATE KEYSPACE is known"
            return Verdict.unknown(self.name, Doubt("undecided", text))
        found = find_violations(operations, evidence.notes, series=series)
        tally = Tally(self.name)
        tally.add(*report_violations(operations, found))
        tally.doubt(*found.doubts)
        stats: dict[str, JSON] = {
            "puts": len(operations.puts),
            "acknowledged": len(operations.acknowledged_puts),
            "gets": len(operations.gets),
            "probes": len(operations.probes),
            "keys": len(operations.keys),
            "replicas_max": Stat(max(series.factors), merge="max"),
            **found.counts,
        }
        return tally.verdict(**stats)
