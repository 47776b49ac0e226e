"""Tables of a corpus: their columns, and a version that grows when columns are added. None is ever removed or renamed.

Every table has `run`, the identity of the run, and `system`, so that most questions need no join.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

__all__ = ["CORPUS_SCHEMA", "DOCUMENT", "FROM_SUMMARIES", "NOTES", "OPERATIONS", "RUNS", "SCHEMAS"]

CORPUS_SCHEMA: Final = 1
"""Version of the columns. Files of an older one lack some, which are then null."""

_TEXTS: Final = pa.list_(pa.string())
_OF_RUN: Final = [("run", pa.string()), ("system", pa.string())]

RUNS: Final = pa.schema(
    [
        ("run", pa.string()),  # identity, from the run's name, start, plan and seed; of a damaged one, from its place
        ("name", pa.string()),  # of the run's folder
        ("place", pa.string()),  # where it was read: a folder, a bundle, or a sweep's file and the seed
        ("source", pa.string()),  # the same without the seed
        ("stamp", pa.string()),  # lengths and times of the files that were read
        ("digest", pa.string()),  # SHA-256 of the summary
        ("state", pa.string()),  # judged, damaged, not judged, incomplete
        ("reason", pa.string()),  # why it is not judged; else null
        ("system", pa.string()),
        ("product", pa.string()),
        ("version", pa.string()),
        ("cluster", pa.string()),
        ("nodes", pa.int32()),
        ("workloads", _TEXTS),
        ("nemeses", _TEXTS),
        ("mode", pa.string()),
        ("seed", pa.int64()),
        ("started", pa.string()),  # UTC, ISO 8601; null: not known
        ("seconds", pa.float64()),
        ("completed", pa.bool_()),
        ("error", pa.string()),
        ("valid", pa.string()),  # valid, invalid, unknown
        ("harness", pa.string()),  # version of Schemaquake that ran it
        ("ok", pa.int64()),  # operations by outcome
        ("fail", pa.int64()),
        ("info", pa.int64()),
        ("races", pa.int64()),  # rows in the tables of that name
        ("broken", pa.int64()),  # races with an anomaly
        ("anomalies", pa.int64()),
        ("findings", pa.int64()),
        ("checkers", pa.int64()),
        ("phases", pa.int64()),
        ("operations", pa.int64()),  # rows in `operations`; 0 where the run's tables were not at hand
        ("notes", pa.int64()),
    ]
)

_RACES: Final = pa.schema(
    [
        *_OF_RUN,
        ("keyspace", pa.string()),
        ("workload", pa.string()),
        ("variant", pa.string()),
        ("number", pa.int64()),
        ("mode", pa.string()),
        ("nemeses", _TEXTS),  # of the run
        ("statements", _TEXTS),  # shapes of the contested ones
        ("anomalies", _TEXTS),  # types
        ("broken", pa.bool_()),
        ("decided", pa.bool_()),
        ("ok", pa.int64()),
        ("fail", pa.int64()),
        ("info", pa.int64()),
    ]
)

_ANOMALIES: Final = pa.schema(
    [
        *_OF_RUN,
        ("type", pa.string()),
        ("keyspaces", _TEXTS),
        ("nodes", _TEXTS),
        ("count", pa.int64()),
    ]
)

_FINDINGS: Final = pa.schema(
    [
        *_OF_RUN,
        ("finding", pa.string()),  # SQ-…, of the system's design
        ("cause", pa.string()),  # the same on all designs of a product; JSON
        ("title", pa.string()),
        ("symptoms", _TEXTS),  # types, the worst first
        ("fault", pa.string()),
        ("tickets", _TEXTS),
        ("unit", pa.string()),  # race or run
        ("broken", pa.int64()),
        ("tried", pa.int64()),
        ("low", pa.float64()),  # 95 %, Wilson
        ("high", pa.float64()),
        ("sides", pa.list_(_TEXTS)),  # shapes of the contested statements of each of its races
        ("first_seen", pa.string()),
        ("last_seen", pa.string()),
        ("document", pa.string()),  # JSON of schemaquake.results.findings.finding.Finding, without places in a verdict
    ]
)

_CHECKERS: Final = pa.schema(
    [
        *_OF_RUN,
        ("checker", pa.string()),
        ("valid", pa.string()),
        ("doubts", _TEXTS),  # kinds
        ("reason", pa.string()),
    ]
)

_PHASES: Final = pa.schema([*_OF_RUN, ("phase", pa.string()), ("begins_s", pa.float64()), ("seconds", pa.float64())])

OPERATIONS: Final = pa.schema(
    [
        *_OF_RUN,
        ("index", pa.int64()),
        ("process", pa.int32()),
        ("type", pa.string()),  # ok, fail, info
        ("f", pa.string()),
        ("node", pa.string()),
        ("key", pa.string()),
        ("invoked", pa.int64()),  # ns since the run started
        ("completed", pa.int64()),  # null: never
        ("error", pa.string()),
    ]
)
"""Operations without their values."""

NOTES: Final = pa.schema(
    [
        *_OF_RUN,
        ("index", pa.int64()),
        ("time", pa.int64()),  # ns since the run started
        ("f", pa.string()),  # phase, fault-begins, fault-ends, node-start, node-died, settle, …
        ("node", pa.string()),
        ("value", pa.string()),  # JSON
    ]
)
"""Events of process −1: what the harness and the nemeses did. Races have a table of their own."""

FROM_SUMMARIES: Final[Mapping[str, pa.Schema]] = {
    "races": _RACES,
    "anomalies": _ANOMALIES,
    "findings": _FINDINGS,
    "checkers": _CHECKERS,
    "phases": _PHASES,
}
"""Tables with several rows a run that come from its summary."""

SCHEMAS: Final[Mapping[str, pa.Schema]] = {"runs": RUNS, **FROM_SUMMARIES, "operations": OPERATIONS, "notes": NOTES}
"""Every table of a corpus."""

DOCUMENT: Final = pa.schema(
    [
        pa.field("row", pa.struct(list(RUNS))),
        *(pa.field(name, pa.list_(pa.struct(list(schema)))) for name, schema in FROM_SUMMARIES.items()),
    ]
)
"""One run as it is parsed: its row, and its rows of the other tables."""
