"""A run as Cassandra 5.0 leaves it: five of six DROP TYPE races and every CREATE TABLE race lost, two nodes down.

Written as the conductor, the workers and the observer would write it; one seed, so reports of it never change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from random import Random
from typing import Any

import orjson
import pyarrow as pa

from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.ddl.rows import insert, read_rows
from schemaquake.harness.ddl.schema_changes import create_keyspace, create_table, create_type, drop_type
from schemaquake.harness.errors import ExitCode
from schemaquake.harness.history.pairing import pair
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import HISTORY, LOGS, OBSERVATIONS
from schemaquake.harness.model.steps import Invoke
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict, make_stats
from schemaquake.harness.run.runner import Outcome
from schemaquake.results.report.comparison import ComparedRun, recipes_of
from schemaquake.results.report.material import Material, RunFile
from schemaquake.results.summary.summarise import summary_of
from schemaquake.results.tables.races import tabulate_races
from schemaquake.results.tables.rates import count_rates, measure_latencies

NODES = ("n1", "n2", "n3")
RACES_EACH = 6
LUCKY_RACE = 4
"""The one race of drop-type whose sides did not overlap."""
FORGOTTEN_RACE = 3
"""The race of drop-type whose table never reached n3."""
DIED_OF = (
    "org.apache.cassandra.exceptions.InvalidRequestException: Unknown type sq_drop_type_000.u "
    "Exception (java.lang.RuntimeException) encountered during startup"
)

PLAN: Mapping[str, Any] = {
    "system": "cassandra:5.0.9",
    "workloads": ["drop-type", "create-table"],
    "cluster": "local",
    "nodes": 3,
    "nemeses": ["packet-loss"],
    "mode": "barrier",
    "races": RACES_EACH,
    "seed": 20261,
    "time_limit_s": 60.0,
    "rate": None,
    "concurrency": None,
    "replication_factor": None,
    "keyspace_prefix": "sq",
    "options": {},
    "request_timeout_s": 20.0,
    "start_timeout_s": 120.0,
    "settle_limit_s": 20.0,
    "restart": "rolling",
    "keep_data": False,
    "distribution": None,
    "schemaquake_version": "0.1.0",
}


class Author:
    """Writes a run down, second by second."""

    def __init__(self) -> None:
        self.random = Random(7)
        self.events: list[dict[str, Any]] = []
        self.observations: list[dict[str, Any]] = []
        self.anomalies: dict[str, list[Anomaly]] = {}
        self.processes = {node: number for number, node in enumerate(NODES)}
        self.versions = dict.fromkeys(NODES, "")
        self.sample = 0

    # ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def note(self, at: float, f: str, value: Any, *, node: str | None = None, key: str | None = None) -> None:
        self._event(at, NEMESIS, "info", f, node, key, value, None)

    def ask(
        self,
        at: float,
        node: str,
        asked: Invoke,
        *,
        lasts: float,
        outcome: str = "ok",
        error: str | None = None,
        brings: Any = None,
    ) -> Invoke:
        process = self.processes[node]
        self._event(at, process, "invoke", asked.f, node, asked.key, asked.value, None)
        if outcome == "info":
            self.processes[node] += 3
        if error != "never answered":
            value = asked.value if brings is None else asked.value | brings
            self._event(at + lasts, process, outcome, asked.f, node, asked.key, value, error)
        return asked

    def _event(self, at: float, process: int, kind: str, f: str, node: Any, key: Any, value: Any, error: Any) -> None:
        self.events.append(
            {
                "time": round(at * 1e9),
                "process": process,
                "type": kind,
                "f": f,
                "node": node,
                "key": key,
                "value": orjson.dumps(value).decode(),
                "error": error,
                "mops": None,
            }
        )

    def phase(self, name: str, begins: float, ends: float) -> None:
        self.note(begins, "phase", {"phase": name, "state": "begins"})
        self.note(ends, "phase", {"phase": name, "state": "ends"})

    # ── observations ─────────────────────────────────────────────────────────────────────────────────────────────────

    def see(
        self,
        at: float,
        phase: str,
        node: str,
        kind: str,
        keyspace: str | None,
        name: str | None,
        definition: Any,
        identity: str | None = None,
    ) -> None:
        self.observations.append(
            {
                "time": round(at * 1e9),
                "phase": phase,
                "node": node,
                "sample": self.sample,
                "kind": kind,
                "keyspace": keyspace,
                "name": name,
                "id": identity,
                "definition": None if definition is None else orjson.dumps(definition).decode(),
                "error": None,
            }
        )

    def claim(self, at: float, node: str, version: str, phase: str = "running") -> None:
        self.sample += 1
        self.versions[node] = version
        self.see(at, phase, node, "version", None, None, {"epoch": None}, version)

    def find(self, kind: str, **more: Any) -> Anomaly:
        found = anomaly(kind, **more)
        self.anomalies.setdefault(kind, []).append(found)
        return found


def version(*words: object) -> str:
    digest = blake2b("/".join(map(str, words)).encode(), digest_size=16).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"


def table_id(*words: object) -> str:
    return blake2b("/".join(map(str, words)).encode(), digest_size=16).hexdigest()


def definition(columns: Sequence[tuple[str, str, str]]) -> Mapping[str, Any]:
    return {
        "columns": {
            name: {"type": cql, "kind": kind, "position": 0 if kind == "partition_key" else -1}
            for name, cql, kind in columns
        },
        "dropped_columns": {},
        "options": {"comment": "", "gc_grace_seconds": 864000},
        "indexes": {},
    }


def keyspace_of_race(workload: str, number: int) -> str:
    return f"sq_{workload.replace('-', '_')}_{number:03d}"


def broken_run() -> Material:
    """The material of that run."""
    author = Author()
    _boot_and_set_up(author)
    for number in range(RACES_EACH):
        _drop_type(author, 16.0 + number * 0.9, number)
    for number in range(RACES_EACH):
        _create_table(author, 21.9 + number * 0.9, number)
    _end(author)
    return _material(author, PLAN, _logs(), _verdict)


def held_run(*, undecided: bool = False) -> Material:
    """The same plan on Cassandra 6.0, which refuses one side of every race; `undecided`: one checker could not tell."""
    author = Author()
    _boot_and_set_up(author)
    for number in range(RACES_EACH):
        _refused_race(author, 16.0 + number * 0.9, "drop-type", number)
        _refused_race(author, 21.9 + number * 0.9, "create-table", number)
    _end_well(author)

    def verdict(_author: Author, _place: Mapping[int, int]) -> Verdict:
        parts = [Verdict(valid=True, checker=name) for name in ("table-ids", "references", "divergence", "restart")]
        if undecided:
            doubt = Doubt("time", "gave up after 120 s: 14 operations of one table never completed")
            parts.append(Verdict.unknown("schema-linearizability", doubt))
        return Verdict(valid="unknown" if undecided else True, checker="all", parts=tuple(parts))

    return _material(author, {**PLAN, "system": "cassandra:6.0-alpha2"}, LOGS.empty_table(), verdict)


def compared(plan: Mapping[str, Any], material: Material) -> ComparedRun:
    """The run as a comparison takes it, as if it had been carried out by that plan."""
    outcome = Outcome(completed=True, error=None, exit_code=ExitCode.of(material.verdict.valid))
    summary = summary_of(
        material.run,
        plan,
        material.verdict,
        outcome,
        notes=material.history,
        operations=material.operations,
        races=material.races,
        started=material.started,
        seconds=material.duration / 1e9,
    )
    recipes = recipes_of(replace(material, plan=plan))
    return ComparedRun(plan=plan, summary=summary, recipes=recipes, report=f"{material.run}/report.html")


def _refused_race(author: Author, at: float, workload: str, number: int) -> None:
    keyspace = keyspace_of_race(workload, number)
    name = "x" if workload == "drop-type" else "t"
    columns = [("k", "int", "partition_key"), ("c", "frozen<u>" if workload == "drop-type" else "int", "regular")]
    created = create_table(keyspace, name, columns=columns)
    sides = [drop_type(keyspace, "u"), created] if workload == "drop-type" else [created, created]
    error = f"InvalidRequest: Cannot drop user type '{keyspace}.u' as it is still used by table x"
    if workload == "create-table":
        error = f"AlreadyExists: table {keyspace}.t already exists"
    _note_race(author, at, keyspace, workload, number, sides)
    author.ask(at + 0.021, "n1", sides[0], lasts=0.14, outcome="fail", error=error)
    author.ask(at + 0.022, "n2", created, lasts=0.09)
    for place, node in enumerate(NODES):
        seen = at + 0.15 + 0.02 * place
        author.see(seen, "running", node, "table", keyspace, name, definition(columns), table_id(keyspace, name))
        author.claim(seen, node, version(workload, number))


def _end_well(author: Author) -> None:
    author.phase("heal", 27.9, 28.0)
    author.phase("settle-settled", 28.0, 28.5)
    agreed = dict.fromkeys(NODES, version("agreed"))
    author.note(28.5, "settle", {"phase": "settled", "agreed": True, "seconds": 0.42, "versions": agreed})
    for node in NODES:
        author.claim(28.6, node, version("agreed"), "settled")
        _read_well(author, 28.6, "settled", node)
    author.phase("restart", 29.0, 60.0)
    for place, node in enumerate(NODES):
        author.note(39.0 + 10 * place, "node-start", _served("restart", 9.4), node=node)
        author.claim(60.2, node, version("agreed"), "restarted")
        _read_well(author, 60.2, "restarted", node)


def _read_well(author: Author, at: float, phase: str, node: str) -> None:
    for number in range(RACES_EACH):
        for workload, name, kind in (("drop-type", "x", "frozen<u>"), ("create-table", "t", "int")):
            keyspace = keyspace_of_race(workload, number)
            columns = [("k", "int", "partition_key"), ("c", kind, "regular")]
            author.see(at, phase, node, "table", keyspace, name, definition(columns), table_id(keyspace, name))
            if workload == "drop-type":
                author.see(at, phase, node, "type", keyspace, "u", {"fields": [["a", "int"], ["b", "text"]]})


def _boot_and_set_up(author: Author) -> None:
    author.phase("boot", 0.01, 12.4)
    for node, seconds in zip(NODES, (11.8, 12.1, 12.3), strict=True):
        author.note(seconds, "node-start", _served("boot", seconds), node=node)
    for node in NODES:
        author.claim(12.5, node, version("empty"))
    author.phase("setup", 12.6, 15.0)
    at = 12.7
    for workload in ("drop-type", "create-table"):
        for number in range(RACES_EACH):
            keyspace = keyspace_of_race(workload, number)
            author.ask(at, "n1", create_keyspace(keyspace, replication_factor=3), lasts=0.05)
            at += 0.07
            if workload == "drop-type":
                author.ask(at, "n1", create_type(keyspace, "u", fields=[("a", "int"), ("b", "text")]), lasts=0.06)
                at += 0.08
                for node in NODES:
                    author.see(
                        at + 0.2, "running", node, "type", keyspace, "u", {"fields": [["a", "int"], ["b", "text"]]}
                    )
    for node in NODES:
        author.claim(14.5, node, version("set up"))
    author.note(
        14.9,
        "settle",
        {"phase": "setup", "agreed": True, "seconds": 0.61, "versions": dict.fromkeys(NODES, version("set up"))},
    )
    author.phase("prepare", 15.0, 15.4)
    author.phase("main", 15.4, 27.9)
    fault = {"id": 0, "nemesis": "packet-loss", "nodes": ["n2"], "parameters": {"percent": 20}}
    author.note(18.4, "fault-begins", fault | {"effect": {"qdisc": "netem loss 20%"}})
    author.note(22.1, "fault-ends", fault | {"effect": {"qdisc": "none"}})


def _served(phase: str, seconds: float) -> Mapping[str, Any]:
    return {"phase": phase, "served": True, "seconds": seconds, "exit_code": None, "first_error": None}


def _rows(author: Author, at: float, keyspace: str, table: str, row: Mapping[str, Any], *, lost: bool) -> list[int]:
    indices = []
    for number, node in enumerate(NODES):
        lasts = author.random.uniform(0.004, 0.03)
        asked = insert(keyspace, table, {"k": 200_000_000 + number * 100, **row}, consistency="ONE", phase="racing")
        begun = at + 0.012 * number + author.random.uniform(0, 0.01)
        indices.append(len(author.events))
        if not lost and number == 2:
            author.ask(
                begun, node, asked, lasts=lasts, outcome="fail", error=f"InvalidRequest: table {table} does not exist"
            )
        else:
            author.ask(begun, node, asked, lasts=lasts)
    return indices


def _drop_type(author: Author, at: float, number: int) -> None:
    keyspace = keyspace_of_race("drop-type", number)
    lucky = number == LUCKY_RACE
    a, b = [("n1", "n2"), ("n2", "n3"), ("n3", "n1")][number % 3]
    dropped = drop_type(keyspace, "u")
    created = create_table(keyspace, "x", columns=[("k", "int", "partition_key"), ("c", "frozen<u>", "regular")])
    _note_race(author, at, keyspace, "drop-type", number, [dropped, created])
    begun_a, begun_b = at + 0.021, at + 0.0224
    author.ask(begun_a, a, dropped, lasts=author.random.uniform(0.07, 0.12))
    error = f"InvalidRequest: Unknown type {keyspace}.u" if lucky else None
    author.ask(
        begun_b, b, created, lasts=author.random.uniform(0.08, 0.16), outcome="fail" if lucky else "ok", error=error
    )
    definition_x = definition([("k", "int", "partition_key"), ("c", "frozen<u>", "regular")])
    identity = table_id(keyspace, "x")
    order = [a, b, *(node for node in NODES if node not in {a, b})]
    for place, node in enumerate(order):
        seen = at + 0.16 + 0.11 * place
        if not lucky:
            if node == b:
                author.see(seen - 0.05, "running", node, "table", keyspace, "x", definition_x, identity)
                author.see(seen + 0.3, "running", node, "type", keyspace, "u", None)
            else:
                author.see(seen, "running", node, "type", keyspace, "u", None)
                if (number, node) == (FORGOTTEN_RACE, "n3"):
                    continue
                author.see(seen + 0.28, "running", node, "table", keyspace, "x", definition_x, identity)
        else:
            author.see(seen, "running", node, "type", keyspace, "u", None)
        author.claim(seen + 0.3, node, version("drop-type", number, node if node == "n1" or place == 0 else "rest"))
    if not lucky:
        _accuse_of_dangling(author, keyspace, number, a, b)


def _accuse_of_dangling(author: Author, keyspace: str, number: int, a: str, b: str) -> None:
    author.find(
        "dangling-type",
        objects=[f"{keyspace}.x", f"{keyspace}.u"],
        nodes=NODES,
        ops=_invocations(author, keyspace, {"drop-type", "create-table"}),
        evidence={"type": f"{keyspace}.u", "column": "c frozen<u>", "settled": dict.fromkeys(NODES, "x without u")},
        explanation=(
            f"Let  T1 = {a} DROP TYPE {keyspace}.u -> ok\n"
            f"     T2 = {b} CREATE TABLE {keyspace}.x (k int, c frozen<u>, PRIMARY KEY (k)) -> ok\n"
            "Then T1 was acknowledged, so no table may use u; T2 was acknowledged, so u must exist.\n"
            "     One of the two had to be refused.\n"
            f"But  every node's final reading shows {keyspace}.x with column c of type frozen<u>, and no type u."
        ),
    )


def _create_table(author: Author, at: float, number: int) -> None:
    keyspace = keyspace_of_race("create-table", number)
    declared = [
        [("a", "int", "partition_key"), ("x", "int", "regular")],
        [("b", "int", "partition_key"), ("y", "int", "regular")],
        [("k", "int", "partition_key"), ("z", "text", "regular")],
    ]
    created = [create_table(keyspace, "t", columns=columns) for columns in declared]
    _note_race(author, at, keyspace, "create-table", number, created)
    for place, (node, asked) in enumerate(zip(NODES, created, strict=True)):
        begun = at + 0.02 + 0.0011 * place + author.random.uniform(0, 0.002)
        if number == 3 and place == 2:
            author.ask(begun, node, asked, lasts=0.9, outcome="info", error="OperationTimedOut: no answer within 20 s")
        else:
            author.ask(begun, node, asked, lasts=author.random.uniform(0.07, 0.19))
        author.see(
            at + 0.17 + 0.02 * place,
            "running",
            node,
            "table",
            keyspace,
            "t",
            definition(declared[place]),
            table_id(keyspace, node),
        )
        author.claim(at + 0.2 + 0.02 * place, node, version("create-table", number, node))
    lost = _rows(author, at + 0.24, keyspace, "t", {"z": "a row"}, lost=True)
    merged = definition([column for columns in declared for column in columns])
    for place, node in enumerate(NODES):
        author.see(at + 0.56 + 0.06 * place, "running", node, "table", keyspace, "t", merged, table_id(keyspace, "n3"))
        author.claim(at + 0.6 + 0.06 * place, node, version("merged", number, node == "n1"))
    _accuse_of_merging(author, keyspace, number, lost)


def _accuse_of_merging(author: Author, keyspace: str, number: int, rows: Sequence[int]) -> None:
    creates = _invocations(author, keyspace, {"create-table"})
    author.find(
        "merged-definitions",
        objects=[f"{keyspace}.t"],
        nodes=NODES,
        ops=creates,
        evidence={
            "columns": {"a": "int", "b": "int", "k": "int", "x": "int", "y": "int", "z": "text"},
            "partition_key": ["a", "b", "k"],
            "creates": [{"node": node, "op": op} for node, op in zip(NODES, creates, strict=True)],
        },
        explanation=(
            f"Let  T1 = n1 CREATE TABLE {keyspace}.t (a int, x int, PRIMARY KEY (a)) -> ok\n"
            f"     T2 = n2 CREATE TABLE {keyspace}.t (b int, y int, PRIMARY KEY (b)) -> ok\n"
            f"     T3 = n3 CREATE TABLE {keyspace}.t (k int, z text, PRIMARY KEY (k)) -> ok\n"
            "Then t is what one of them declares, and the other two had to be refused.\n"
            "But  every node's final reading shows (a, b, k, x, y, z): parts of all three."
        ),
    )
    if number < 3:
        author.find(
            "lost-rows",
            objects=[f"{keyspace}.t"],
            nodes=["n1", "n2"],
            ops=rows[:2],
            evidence={"written": 3, "read at ALL": 1, "missing keys": [200000000, 200000100]},
            explanation=(
                "Let  W1, W2 = two INSERTs at ONE, acknowledged through n1 and n2\n"
                "Then both rows are in t, which nobody dropped.\n"
                "But  reads at ALL through every node return neither."
            ),
        )


def _note_race(author: Author, at: float, keyspace: str, workload: str, number: int, sides: Sequence[Invoke]) -> None:
    value = {
        "workload": workload,
        "variant": "plain",
        "number": number,
        "mode": "barrier",
        "sides": [[statement(side.f, side.value)] for side in sides],
    }
    author.note(at, "race", value, key=keyspace)


def _invocations(author: Author, keyspace: str, fs: set[str]) -> list[int]:
    return [
        number
        for number, event in enumerate(author.events)
        if event["type"] == "invoke" and event["f"] in fs and event["key"] and event["key"].split(".")[0] == keyspace
    ]


def _end(author: Author) -> None:
    author.phase("heal", 27.9, 28.0)
    author.phase("settle-settled", 28.0, 48.1)
    different = {"n1": version("final", "n1"), "n2": version("final", "rest"), "n3": version("final", "rest")}
    for node in NODES:
        author.claim(28.4, node, different[node])
    author.note(48.1, "settle", {"phase": "settled", "agreed": False, "seconds": 20.04, "versions": different})
    author.phase("final-settled", 48.2, 52.6)
    _read_everything(author, 48.3, "settled", NODES, different)
    _probe(author, 49.0, NODES, "settled")
    author.phase("restart", 52.6, 79.4)
    author.note(
        61.2,
        "node-start",
        {"phase": "restart", "served": False, "seconds": 8.4, "exit_code": 3, "first_error": DIED_OF},
        node="n1",
    )
    author.note(
        69.9,
        "node-start",
        {"phase": "restart", "served": False, "seconds": 8.5, "exit_code": 3, "first_error": DIED_OF},
        node="n2",
    )
    author.note(79.3, "node-start", _served("restart", 9.2), node="n3")
    author.phase("settle-restarted", 79.4, 79.9)
    author.note(
        79.8, "settle", {"phase": "restarted", "agreed": True, "seconds": 0.41, "versions": {"n3": different["n3"]}}
    )
    author.phase("final-restarted", 79.9, 81.7)
    _read_everything(author, 80.0, "restarted", ("n3",), different)
    _probe(author, 80.4, ("n3",), "restarted")
    author.find(
        "schema-disagreement",
        objects=[],
        nodes=NODES,
        evidence={"settle": "not agreed within 20 s", "versions": different},
        explanation=(
            "Let  S = the wait for one schema version after the last fault was healed\n"
            "Then every node shows the same version within 20 s.\n"
            "But  n1 shows another version than n2 and n3 at 48.1 s, although their schema tables are equal."
        ),
    )
    for node in ("n1", "n2"):
        author.find(
            "node-will-not-start",
            objects=[keyspace_of_race("drop-type", number) for number in range(RACES_EACH) if number != LUCKY_RACE],
            nodes=[node],
            evidence={"exit code": 3, "first error": DIED_OF},
            explanation=(
                f"Let  R = kill and start of {node} after the cluster settled\n"
                f"Then {node} serves clients again: it was stopped by nobody and its disk is whole.\n"
                f"But  it ended by itself with exit code 3: Unknown type sq_drop_type_000.u"
            ),
        )


def _read_everything(author: Author, at: float, phase: str, nodes: Sequence[str], versions: Mapping[str, str]) -> None:
    for node in nodes:
        author.claim(at, node, versions[node], phase)
        for number in range(RACES_EACH):
            keyspace = keyspace_of_race("drop-type", number)
            author.see(
                at,
                phase,
                node,
                "keyspace",
                keyspace,
                None,
                {"replication": {"class": "SimpleStrategy"}, "durable_writes": True},
            )
            if number != LUCKY_RACE and (number, node) != (FORGOTTEN_RACE, "n3"):
                columns = [("k", "int", "partition_key"), ("c", "frozen<u>", "regular")]
                author.see(at, phase, node, "table", keyspace, "x", definition(columns), table_id(keyspace, "x"))
            keyspace = keyspace_of_race("create-table", number)
            author.see(
                at,
                phase,
                node,
                "keyspace",
                keyspace,
                None,
                {"replication": {"class": "SimpleStrategy"}, "durable_writes": True},
            )
            names = [("a", "int", "partition_key"), ("b", "int", "partition_key"), ("k", "int", "partition_key")]
            columns = [*names, ("x", "int", "regular"), ("y", "int", "regular"), ("z", "text", "regular")]
            author.see(at, phase, node, "table", keyspace, "t", definition(columns), table_id(keyspace, "n3"))


def _probe(author: Author, at: float, nodes: Sequence[str], phase: str) -> None:
    for node in nodes:
        clock = at
        for number in range(RACES_EACH):
            keyspace = keyspace_of_race("create-table", number)
            author.ask(
                clock,
                node,
                read_rows(keyspace, "t", consistency="ONE", phase=phase),
                lasts=author.random.uniform(0.003, 0.02),
                brings={"rows": []},
            )
            clock += 0.09
            author.ask(
                clock,
                node,
                read_rows(keyspace, "t", consistency="ALL", phase=phase),
                lasts=author.random.uniform(0.02, 0.09),
                outcome="fail",
                error="ServerError: java.nio.BufferUnderflowException",
            )
            clock += 0.2


def _material(
    author: Author, plan: Mapping[str, Any], logs: pa.Table, judge: Callable[[Author, Mapping[int, int]], Verdict]
) -> Material:
    events = sorted(enumerate(author.events), key=lambda entry: (entry[1]["time"], entry[0]))
    place = {before: after for after, (before, _) in enumerate(events)}
    history = pa.Table.from_pylist(
        [{"index": index} | event for index, (_, event) in enumerate(events)], schema=HISTORY
    )
    operations = pair(history)
    verdict = judge(author, place)
    return Material(
        run=f"20261121T100211Z-drop-type-{plan['system'].replace(':', '-')}",
        plan=plan,
        verdict=verdict,
        history=history,
        operations=operations,
        rates=count_rates(operations),
        latencies=measure_latencies(operations),
        races=tabulate_races(history, operations, verdict.anomalies),
        observations=pa.Table.from_pylist(
            sorted(author.observations, key=lambda row: row["time"]), schema=OBSERVATIONS
        ),
        logs=logs,
        started=datetime(2026, 11, 21, 10, 2, 11, tzinfo=UTC),
        environment={
            "schemaquake": "0.1.0",
            "Python": "3.11.2",
            "Java": "OpenJDK 17.0.17",
            "kernel": "Linux 6.18.5",
            "machine": "x86_64, 2 cores, 24 GB",
        },
        files=(
            RunFile(path="plan.json", size=812, meaning="everything needed to repeat the run"),
            RunFile(path="history.parquet", size=48_213, meaning="every operation, one row an event"),
            RunFile(path="observations.parquet", size=91_004, meaning="what each node said of its schema"),
            RunFile(path="nodes/n1/system.log", size=1_204_339, meaning="the node's own log"),
        ),
    )


def _moved(found: Anomaly, place: Mapping[int, int]) -> Anomaly:
    return Anomaly.from_json(found.to_json() | {"ops": [place[op] for op in found.ops]})


def _verdict(author: Author, place: Mapping[int, int]) -> Verdict:
    found = {kind: tuple(_moved(one, place) for one in some) for kind, some in author.anomalies.items()}
    parts = (
        Verdict(valid=True, checker="table-ids", stats=make_stats({"tables": 11})),
        Verdict(
            valid=False,
            checker="merged-definitions",
            anomalies=found["merged-definitions"],
            stats=make_stats({"tables": 11}),
        ),
        Verdict(
            valid=False, checker="references", anomalies=found["dangling-type"], stats=make_stats({"references": 5})
        ),
        Verdict(
            valid=False, checker="divergence", anomalies=found["schema-disagreement"], stats=make_stats({"versions": 2})
        ),
        Verdict(
            valid=False,
            checker="acked-rows",
            anomalies=found["lost-rows"],
            stats=make_stats({"acknowledged": 18, "lost": 6}),
        ),
        Verdict(
            valid=False, checker="restart", anomalies=found["node-will-not-start"], stats=make_stats({"restarts": 3})
        ),
        Verdict(
            valid="unknown",
            checker="writability",
            doubts=(Doubt("undecided", "n1 and n2 did not come back, so nothing could be written through them"),),
            stats=make_stats({"probes": 36}),
        ),
        Verdict(valid=True, checker="data-directories", stats=make_stats({"directories": 33})),
        Verdict(valid=True, checker="observed", stats=make_stats({"readings": 94})),
    )
    every = tuple(one for some in found.values() for one in some)
    doubts = tuple(replace(doubt, checker="writability") for doubt in parts[6].doubts)
    return Verdict(
        valid=False,
        checker="all",
        anomalies=every,
        parts=parts,
        stats=make_stats({"checkers": len(parts)}),
        doubts=doubts,
    )


def _logs() -> pa.Table:
    rows = []
    for node in ("n1", "n2"):
        rows += [
            {
                "node": node,
                "boot": 0,
                "line": 2211,
                "timestamp": "2026-11-21 10:02:28,114",
                "level": "ERROR",
                "thread": "InternalResponseStage:2",
                "message": "Exception in thread Thread[InternalResponseStage:2,5,SharedPool]",
                "stack": "org.apache.cassandra.exceptions.InvalidRequestException: Unknown type sq_drop_type_000.u\n"
                "\tat org.apache.cassandra.cql3.CQL3Type$Raw$RawUT.prepare(CQL3Type.java:745)\n"
                "\tat org.apache.cassandra.schema.SchemaKeyspace.createColumnFromRow(SchemaKeyspace.java:1203)",
            },
            {
                "node": node,
                "boot": 1,
                "line": 188,
                "timestamp": "2026-11-21 10:03:10,902",
                "level": "ERROR",
                "thread": "main",
                "message": "Exception encountered during startup",
                "stack": DIED_OF,
            },
        ]
    rows.append(
        {
            "node": "n3",
            "boot": 0,
            "line": 2094,
            "timestamp": "2026-11-21 10:02:30,002",
            "level": "WARN",
            "thread": "MigrationStage:1",
            "message": "Unable to pull schema from n1: Unknown type",
            "stack": None,
        }
    )
    return pa.Table.from_pylist(rows, schema=LOGS)
