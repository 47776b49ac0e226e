"""Metadata log: every node has the same entries of the one log of changes of schema and topology, and loses none.

Judges the entries (epoch, kind, entry id) that each node had after the cluster settled and after every node was
restarted (`epochs` rows; Cassandra 6.0).
Finds: `forked-metadata-log`, `gap-in-metadata-log`, `lost-metadata`. Source: CEP-21, one log of epochs; CASSANDRA-21455
(logs with gaps).

A node that joined, or was far behind, begins with a snapshot, so that its entries may begin later than those of others;
a gap before a snapshot is legal. Entries that another node has and this one lacks only count as lost if they were known
before the restart, because the newest may still be on their way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, NamedTuple

import orjson
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, phase_text
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.findings.tally import Tally
from schemaquake.checkers.topology.accounts import PHASES
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict

__all__ = ["MetadataLog"]

_SNAPSHOTS: Final = frozenset({"2", "3"})
"""Kinds of entries that stand for all before them (FORCE_SNAPSHOT, TRIGGER_SNAPSHOT)."""


class _Entry(NamedTuple):
    epoch: int
    kind: str
    id: str

    def text(self) -> str:
        return f"epoch {self.epoch}: entry {self.id} of kind {self.kind}"


@dataclass(frozen=True, slots=True)
class _Log:
    """The entries that one node had in one phase, in order of their epochs."""

    phase: str
    node: str
    entries: Sequence[_Entry]

    @property
    def by_epoch(self) -> Mapping[int, _Entry]:
        return {entry.epoch: entry for entry in self.entries}


class MetadataLog:
    """All nodes have one metadata log, without gaps, and keep it."""

    name = "metadata-log"
    scope: Literal["keyspace", "run"] = "run"
    finds: tuple[str, ...] = ("forked-metadata-log", "gap-in-metadata-log", "lost-metadata")
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - a few thousand entries take no time
        """Judge all logs. Stats: the last epoch by phase and node."""
        logs = [log for log in _read_logs(Evidence.of(records)) if log.entries]
        if not logs:
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", "no node showed entries of a metadata log"))
        tally = Tally(self.name, keep=LIMITS.findings)
        tally.judge(*_find_forks(logs))
        for log in logs:
            tally.judge(*_find_gaps(log))
        tally.judge(*_find_losses(logs))
        last: dict[str, dict[str, int]] = {}
        for log in logs:
            last.setdefault(log.phase, {})[log.node] = log.entries[-1].epoch
        return tally.verdict(last_epochs=last)


def _read_logs(evidence: Evidence) -> Sequence[_Log]:
    """Read the last log of each node in each final phase, in order of phases and nodes."""
    table = evidence.observations
    rows = table.filter(pc.equal(table["kind"], "epochs")).sort_by([("time", "ascending")]).to_pylist()
    found = {
        (row["phase"], row["node"]): sorted(
            _Entry(int(e), str(k), str(i)) for e, k, i in orjson.loads(row["definition"])["entries"]
        )
        for row in rows
        if row["definition"] is not None
    }
    return [
        _Log(phase, node, found[phase, node])
        for phase in PHASES
        for _, node in sorted(k for k in found if k[0] == phase)
    ]


def _find_forks(logs: Sequence[_Log]) -> Iterator[Anomaly]:
    """Yield a finding for each epoch under which two logs have different entries."""
    known: dict[int, dict[_Entry, list[_Log]]] = {}
    for log in logs:
        for entry in log.entries:
            known.setdefault(entry.epoch, {}).setdefault(entry, []).append(log)
    for epoch, entries in sorted(known.items()):
        if len(entries) > 1:
            told = [
                f"{listing(sorted({log.node for log in having}))} {'has' if len({log.node for log in having}) == 1 else 'have'} {entry.text()}"
                for entry, having in entries.items()
            ]
            yield anomaly(
                "forked-metadata-log",
                nodes=[log.node for having in entries.values() for log in having],
                evidence={"epoch": epoch, "entries": [list(entry) for entry in entries]},
                explanation=Argument([], "an epoch is one entry, the same on every node.", f"{'; '.join(told)}."),
            )


def _find_gaps(log: _Log) -> Iterator[Anomaly]:
    """Yield a finding for each gap that no snapshot explains, or an epoch that a log has twice."""
    for before, after in pairwise(log.entries):
        if after.epoch in {before.epoch + 1, before.epoch} or after.kind in _SNAPSHOTS:
            continue  # one epoch with two entries is a fork
        yield anomaly(
            "gap-in-metadata-log",
            nodes=[log.node],
            evidence={"phase": log.phase, "before": list(before), "after": list(after)},
            explanation=Argument(
                [],
                f"{log.node} applied {after.text()} on what it had, so it must have applied every epoch before.",
                f"{phase_text(log.phase)} its log goes from epoch {before.epoch} to {after.epoch} without a snapshot.",
            ),
        )


def _find_losses(logs: Sequence[_Log]) -> Iterator[Anomaly]:
    """Yield a finding for each node that ends, after the restart, before an epoch that was known when the cluster had settled."""
    earlier = [log for log in logs if log.phase == PHASES[0]]
    if not earlier:
        return
    newest = max((log.entries[-1], log.node) for log in earlier)
    for log in logs:
        entry, node = newest
        if log.phase == PHASES[1] and log.entries[-1].epoch < entry.epoch:
            yield anomaly(
                "lost-metadata",
                nodes=[log.node, node],
                evidence={"known": list(entry), "last": list(log.entries[-1])},
                explanation=Argument(
                    [],
                    f"{node} had {entry.text()} when the cluster had settled, so every node must have it after the restart.",
                    f"the log of {log.node} ends with epoch {log.entries[-1].epoch}.",
                ),
            )
