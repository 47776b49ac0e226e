"""Quorum: whether reads see what a quorum was told to keep, and values are on as many replicas as promised.

Judges the puts, gets and probes of `schemaquake.harness.model.queries`. While the replicas that a write and a read speak of must share
one (R + W > N), a get that began after a put was acknowledged shows it, or a value that the replicas hold for later.
What is later is decided by writetimes and not by who came first (`schemaquake.checkers.quorum.versions`), so that last-write-wins
under skewed clocks is never taken for a broken quorum: it has a name of its own.
Finds: `missed-quorum-write`, `non-monotonic-quorum-read`, `under-replicated-value`, `shadowed-write`, `unwritten-value`.

- A get without any value after an acknowledged put is a missed write whatever the clocks did: nothing is ever deleted.
- Two gets whose replicas must share one, the second begun after the first was answered, and the second shows an older
  value: blocking read repair promises that this cannot be, acknowledged or not. Told of what was not missed anyway.
- In a final phase every key is asked at ONE through every node. Where every node is a replica, which answers from its
  own data, fewer than W of them with the value, or a later one, break what was promised when it was acknowledged.
- An acknowledged put that an earlier acknowledged one hides, because that one has the higher writetime (or the same one
  and the greater value), is lost by design of the last-write-wins rule, and told apart from all above.

Levels that need not share a replica promise nothing: their stale reads are counted. Unknown: a put whose writetime
nobody saw and whose coordinator's clock was not to be trusted, if a later get shows an earlier put; probes that failed,
if they matter. Sources: Gifford, "Weighted voting for replicated data" (SOSP 1979); CEP-21, quorum intersection;
CASSANDRA-14740 (monotonic quorum reads), CASSANDRA-14801 (quorums that do not intersect), CASSANDRA-6106.
"""

from __future__ import annotations

from typing import Literal

from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.quorum.evidence import told
from schemaquake.checkers.quorum.operations import quorum_operations, replication_factors
from schemaquake.checkers.quorum.violations import violations
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Doubt, Stat, Verdict, make_stats

__all__ = ["Quorum"]


class Quorum:
    """Quorums intersect, and values are where they were promised to be."""

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
        """Judge every key. Raises HistoryError for operations that have no meaning (see `quorum_operations`)."""
        factors = replication_factors(records.history)
        of = quorum_operations(records.history, replication_factor=max(factors, default=1))
        if not len(of.acknowledged_puts) or not len(of.gets) + len(of.probes):
            what = "put was acknowledged" if len(of.gets) + len(of.probes) else "get or probe was answered"
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", f"no {what}"))
        if len(factors) != 1:
            shown = f"it was told {', '.join(map(str, sorted(factors)))}" if factors else "no CREATE KEYSPACE is known"
            text = f"how many replicas the keyspace keeps is not known: {shown}"
            return Verdict.unknown(self.name, Doubt("undecided", text))
        (copies,) = factors
        found = violations(of, Notes(records.history), copies=copies)
        anomalies = tuple(told(of, found))
        stats: dict[str, JSON] = {
            "puts": len(of.puts),
            "acknowledged": len(of.acknowledged_puts),
            "gets": len(of.gets),
            "probes": len(of.probes),
            "keys": len(of.keys),
            "replicas_max": Stat(copies, merge="max"),
            **found.counts,
        }
        return Verdict(
            valid=False if anomalies else "unknown" if found.doubts else True,
            checker=self.name,
            anomalies=anomalies,
            stats=make_stats(stats),
            doubts=tuple(found.doubts),
        )
