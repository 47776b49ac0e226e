"""Material: the input of every report, as plain values.

Reports are functions of a material and nothing else: no store, no Spark, no clock. Times are ns since the run started.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.history.pairing import OPERATIONS
from schemaquake.harness.model.records import HISTORY, LOGS, OBSERVATIONS, plain
from schemaquake.harness.model.verdict import Anomaly, Verdict
from schemaquake.results.findings.grouping import Grouped, group_anomalies
from schemaquake.results.tables.attribution import Ground, read_ground
from schemaquake.results.tables.chronicle import Chronicle, chronicle_of
from schemaquake.results.tables.meetings import Coverage, cover
from schemaquake.results.tables.races import RACES
from schemaquake.results.tables.rates import LATENCIES, RATES

__all__ = [
    "Material",
    "Race",
    "RunFile",
    "anomalies_of",
    "checkers_of",
    "counts",
    "races_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """A file of the run's folder. `path` is relative to the folder; `size` is in bytes, None before the file is written."""

    path: str
    size: int | None
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """One race of a racing workload in a keyspace of its own. `anomalies` are types; `ok`, `fail` and `info` count its operations."""

    keyspace: str
    workload: str
    number: int
    mode: str
    sides: tuple[tuple[str, ...], ...] = ()
    """Statements of each participating coordinator, in order of their first invocation."""
    broken: bool = False
    anomalies: tuple[str, ...] = ()
    ok: int = 0
    fail: int = 0
    info: int = 0

    def title(self) -> str:
        """Return the title `drop-type, race 3`."""
        return f"{self.workload}, race {self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """One finished run. Tables follow `schemaquake.harness.model.records`, `schemaquake.harness.history.pairing`, `schemaquake.results.tables.rates` and `schemaquake.results.tables.races`."""

    run: str
    """Name of the run's folder."""
    plan: Mapping[str, Any]
    verdict: Verdict
    history: pa.Table = field(default_factory=HISTORY.empty_table)
    operations: pa.Table = field(default_factory=OPERATIONS.empty_table)
    rates: pa.Table = field(default_factory=RATES.empty_table)
    latencies: pa.Table = field(default_factory=LATENCIES.empty_table)
    races: pa.Table = field(default_factory=RACES.empty_table)
    observations: pa.Table = field(default_factory=OBSERVATIONS.empty_table)
    logs: pa.Table = field(default_factory=LOGS.empty_table)
    started: datetime | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[RunFile] = ()
    shrunk: Mapping[str, Any] = field(default_factory=dict)
    """The document `shrunk/shrunk.json`; empty for a run that was not shrunk."""
    chronicle: Chronicle = field(init=False)
    """Phases, faults, boots and settlings, from the history's notes."""

    nodes: tuple[str, ...] = field(init=False)
    """Names of all nodes, in order: those in observations and operations, or else those of the plan."""

    ground: Ground = field(init=False)
    """The notes that decide which race an anomaly belongs to."""

    grouped: Grouped = field(init=False)
    """The anomalies by cause."""

    def __post_init__(self) -> None:
        """Derive the chronicle, the ground of attribution, the nodes and the findings from the tables once."""
        object.__setattr__(self, "ground", _ground(self))
        object.__setattr__(self, "chronicle", chronicle_of(self.history))
        object.__setattr__(self, "nodes", _nodes(self))
        object.__setattr__(self, "grouped", _grouped(self))

    @property
    def coverage(self) -> Coverage | None:
        """The statements that met in a run of churn; None for any other run."""
        return cover(self.history)

    @property
    def duration(self) -> int:
        """Time of the last event or observation, ns."""
        ends = [pc.max(table.column("time")).as_py() for table in (self.history, self.observations) if table.num_rows]
        return max(ends, default=0)


def anomalies_of(verdict: Verdict) -> tuple[Anomaly, ...]:
    """Collect the anomalies of a verdict and its parts, each once, in order of first appearance."""
    seen: dict[bytes, Anomaly] = {}
    for part in _walk(verdict):
        for anomaly in part.anomalies:
            identity = orjson.dumps(anomaly.to_json(), option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
            seen.setdefault(identity, anomaly)
    return tuple(seen.values())


def checkers_of(verdict: Verdict) -> tuple[Verdict, ...]:
    """Return one verdict per checker: the parts of a combined verdict, or the verdict itself."""
    return verdict.parts or (verdict,)


def counts(verdict: Verdict, part: Verdict) -> bool:
    """Return True if a checker's verdict counts in the run's verdict. One that had nothing to judge does not, if the others decided."""
    return not part.judged_nothing or verdict.valid == "unknown"


def races_of(races: pa.Table) -> tuple[Race, ...]:
    """Decode the table of races, in order of workload and number."""
    rows = [_race(row) for row in plain(races).to_pylist()]
    return tuple(sorted(rows, key=lambda race: (race.workload, race.number, race.keyspace)))


def _race(row: Mapping[str, Any]) -> Race:
    return Race(
        keyspace=row["keyspace"],
        workload=row["workload"] or "race",  # external histories may lack a workload
        number=row["number"] or 0,
        mode=row["mode"] or "",
        sides=tuple(tuple(side) for side in row["sides"] or ()),
        broken=bool(row["broken"]),
        anomalies=tuple(row["anomalies"] or ()),
        ok=row["ok"],
        fail=row["fail"],
        info=row["info"],
    )


def _walk(verdict: Verdict) -> Iterator[Verdict]:
    yield verdict
    for part in verdict.parts:
        yield from _walk(part)


def _grouped(material: Material) -> Grouped:
    return group_anomalies(
        material.verdict,
        system=str(material.plan.get("system", "")),
        history=material.history,
        operations=material.operations,
        races=material.races,
        started=material.started,
    )


def _ground(material: Material) -> Ground:
    """Read the notes on races; a history without them has those of the table of races."""
    ground = read_ground(material.history)
    return (
        ground if ground.races else replace(ground, races={name: {} for name in material.races["keyspace"].to_pylist()})
    )


def _nodes(material: Material) -> tuple[str, ...]:
    named = {
        name
        for table in (material.observations, material.operations)
        for name in pc.unique(table.column("node")).to_pylist()
        if name is not None
    }
    if not named:
        named = {f"n{number + 1}" for number in range(int(material.plan.get("nodes", 0)))}
    return tuple(sorted(named, key=_natural))


def _natural(name: str) -> tuple[str, int, str]:
    """Return a sort key that puts n2 before n10."""
    head = name.rstrip("0123456789")
    digits = name[len(head) :]
    return head, int(digits) if digits else -1, name
