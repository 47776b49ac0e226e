"""Matrices to draw: one with every state a cell can be in, and one in which every text is hostile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from schemaquake.checkers.findings.catalogue import CATALOGUE
from schemaquake.results.matrix.tally import Matrix, Row
from schemaquake.results.summary.cell import Cell, Evidence, Unit, wilson

SYSTEMS = (
    "cassandra:0.7.10", "cassandra:0.8.10", "cassandra:1.0.12", "cassandra:1.1.0", "cassandra:1.1.12",
    "cassandra:1.2.19", "cassandra:2.0.17", "cassandra:2.1.22", "cassandra:2.2.19", "cassandra:3.0.22",
    "cassandra:3.11.19", "cassandra:4.0.19", "cassandra:4.1.10", "cassandra:5.0.9", "cassandra:6.0-alpha2",
)  # fmt: skip
CONTROL = "cassandra:6.0-alpha2"
COMMAND = "schemaquake matrix --full --runs runs"

# workload → anomaly → the versions on which it is found in every race but one.
FOUND: Mapping[str, Mapping[str, str]] = {
    "create-table": {
        "node-will-not-start": "1.1.0 1.1.12",
        "schema-disagreement": "0.7.10 0.8.10 1.0.12 3.0.22 3.11.19",
        "shared-table-id": "0.7.10 0.8.10 1.0.12 1.1.0 1.1.12",
        "conflicting-table-ids": "2.1.22 2.2.19 3.0.22 3.11.19",
        "lost-rows": "4.0.19 4.1.10 5.0.9",
        "lost-rows-after-restart": "2.1.22 2.2.19",
        "merged-definitions": "2.1.22 3.0.22 3.11.19 4.0.19 4.1.10 5.0.9",
        "non-linearizable-ddl": "0.7.10 3.0.22 4.0.19 5.0.9",
    },
    "add-columns": {"lost-column": "0.7.10 0.8.10 1.0.12", "memory-disk-divergence": "1.2.19 2.0.17 2.1.22 2.2.19"},
    "drop-type": {
        "node-will-not-start": "3.0.22 3.11.19 4.0.19 4.1.10 5.0.9",
        "dangling-type": "2.1.22 2.2.19 3.0.22 3.11.19 4.0.19 4.1.10 5.0.9",
    },
    "drop-alter": {"headless-table": "3.0.22 3.11.19 4.0.19 5.0.9", "resurrected-object": "5.0.9"},
    "drop-keyspace": {"resurrected-object": "1.2.19 2.0.17 2.1.22 3.11.19 5.0.9"},
    "alter-options": {"lost-option": "1.0.12 3.0.22 3.11.19 4.0.19 4.1.10 5.0.9"},
    "drop-recreate": {"resurrected-rows": "1.2.19 2.0.17"},
}
NEEDS_TYPES = {"0.7.10", "0.8.10", "1.0.12", "1.1.0", "1.1.12", "1.2.19", "2.0.17"}
UNDECIDED = {("cassandra:1.1.0", "add-columns"), ("cassandra:4.1.10", "drop-alter")}
NOT_RUN = {("cassandra:4.1.10", "drop-keyspace")}
OF_THE_RUN = {"node-will-not-start", "schema-disagreement"}


def matrix(**changes: object) -> Matrix:
    """Fifteen versions, seven workloads, every state: broke, held, unknown, not applicable, not run; quiet controls."""
    rows = tuple(row for workload in FOUND for row in rows_of(workload, "barrier"))
    made = Matrix(
        systems=SYSTEMS,
        rows=rows,
        cells=tuple(cell_of(system, row) for row in rows for system in SYSTEMS),
        control_rows=tuple(Row(workload=workload, mode="single") for workload in FOUND),
        controls=tuple(control_of(system, workload) for workload in FOUND for system in SYSTEMS),
        started="2026-11-21T10:02:11+00:00",
        finished="2026-11-21T10:55:20+00:00",
        seconds=3189.0,
        command=COMMAND,
        machine={
            "cpu": "a processor with 2 cores",
            "memory": "24 GB",
            "java": "OpenJDK 17.0.17",
            "schemaquake": "0.1.0",
        },
        notes=("the time budget ended before every rate was known to ±0.3",),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def rows_of(workload: str, mode: str) -> Iterable[Row]:
    yield Row(workload=workload, mode=mode)
    for kind in FOUND[workload]:
        yield Row(workload=workload, mode=mode, anomaly=kind, title=CATALOGUE[kind].title)


def cell_of(system: str, row: Row) -> Cell:
    """What the table above says of it."""
    version = system.partition(":")[2]
    place = {"system": system, "workload": row.workload, "mode": row.mode, "anomaly": row.anomaly}
    runs = (f"runs/20261121T101112Z-{row.workload}-{version}",)
    if row.workload == "drop-type" and version in NEEDS_TYPES:
        return Cell(**place, state="not applicable", reason=f"{version} has no user-defined types")
    if (system, row.workload) in UNDECIDED:
        return Cell(**place, state="unknown", runs=runs, reason="the cluster never agreed on a schema before the race")
    if (system, row.workload) in NOT_RUN:
        return Cell(**place, state="not run", reason="it was not its turn before the matrix ended")
    found = [kind for kind, versions in FOUND[row.workload].items() if version in versions.split()]
    whole = row.anomaly is None
    unit: Unit = "run" if row.anomaly in OF_THE_RUN else "race"
    tried = 2 if unit == "run" else 12
    if (whole and found) or row.anomaly in found:
        broken = tried if whole or unit == "run" else tried - 1
        kind = found[0] if whole else str(row.anomaly)
        return counted_cell(place, broken, tried, unit, runs, evidence_of(system, row.workload, kind, runs[0]))
    return counted_cell(place, 0, tried, unit, runs, None)


def counted_cell(
    place: Mapping[str, object], broken: int, tried: int, unit: Unit, runs: tuple[str, ...], evidence: Evidence | None
) -> Cell:
    low, high = wilson(broken, tried)
    return Cell(
        **place,  # type: ignore[arg-type]  # the four names of a place
        state="broke" if broken else "held", broken=broken, tried=tried, low=low, high=high, unit=unit, runs=runs,
        evidence=evidence,
    )  # fmt: skip


def evidence_of(system: str, workload: str, kind: str, run: str) -> Evidence:
    keyspace = f"sq_{workload.replace('-', '_')}_003"
    return Evidence(
        run=run,
        keyspace=keyspace,
        title=CATALOGUE[kind].title,
        explanation=(
            f"Let  T1 = op 412: p3 n1 CREATE TABLE {keyspace}.t (k int, v text, PRIMARY KEY (k))  -> ok at 8.214 s\n"
            f"     T2 = op 431: p5 n2 CREATE TABLE {keyspace}.t (k int, v text, PRIMARY KEY (k))  -> ok at 8.219 s\n"
            f"Then both were acknowledged. But n2's final reading after restart shows otherwise: {kind}."
        ),
        statements=(
            (f"CREATE TABLE {keyspace}.t (k int, v text, PRIMARY KEY (k))", f"INSERT INTO {keyspace}.t (k, v) VALUES (1, 'a')"),
            (f"CREATE TABLE {keyspace}.t (k int, v text, PRIMARY KEY (k))",),
        ),
        log_lines=(
            f"n2: ERROR [MigrationStage:1] Exception in thread: ConfigurationException: {kind} in {keyspace}",
            "n3: ERROR [main] Exception encountered during startup",
        ),
        command=f"schemaquake run --system {system} --workload {workload} --races 4 --seed 1",
        report=f"{run}/report.html",
    )  # fmt: skip


def control_of(system: str, workload: str) -> Cell:
    """Quiet wherever the races can be run at all."""
    like = cell_of(system, Row(workload=workload, mode="single"))
    if like.state in {"not applicable", "not run", "unknown"}:
        return replace(like, mode="single")
    place = {"system": system, "workload": workload, "mode": "single", "anomaly": None}
    return counted_cell(place, 0, 2, "race", like.runs, None)


def hostile_matrix(evil: str) -> Matrix:
    """Every text that a cluster, a plan or a name can bring into a page is `evil`."""
    place = {"system": f"cassandra:5.0{evil}", "workload": evil, "mode": evil}
    run = f"runs/{evil}"
    evidence = Evidence(
        run=run, keyspace=evil, title=evil, explanation=evil, statements=((evil, evil), (evil,)), log_lines=(evil,),
        command=evil, report=f"{run}/report.html",
    )  # fmt: skip
    low, high = wilson(2, 3)
    broke = Cell(
        **place, anomaly=evil, state="broke", broken=2, tried=3, low=low, high=high, reason=evil, runs=(run,), evidence=evidence
    )  # fmt: skip
    unknown = Cell(**{**place, "system": evil}, anomaly=evil, state="unknown", reason=evil, runs=(run,))
    rows = (Row(workload=evil, mode=evil), Row(workload=evil, mode=evil, anomaly=evil, title=evil))
    return Matrix(
        systems=(f"cassandra:5.0{evil}", evil),
        rows=rows,
        cells=(broke, replace(broke, anomaly=None), unknown, replace(unknown, anomaly=None)),
        control_rows=(replace(rows[0], mode="single"),),
        controls=(replace(broke, mode="single", anomaly=None),),
        started=evil,
        finished=None,
        command=evil,
        machine={evil: evil},
        notes=(evil,),
    )
