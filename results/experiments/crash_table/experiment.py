"""The tries themselves: one node, a schema change, SIGKILL in the middle of it, a start, and a look at the result.

Runs inside the cluster's enclosure (`python -m schemaquake.results.experiments.crash_table.experiment FOLDER`) and appends a line of JSON to
`tries.jsonl` for each try. The node is alone, so no other node can restore its lost definitions.
"""

from __future__ import annotations

import logging
import re
import shutil
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import orjson

from schemaquake.clusters.local.cluster import LocalCluster
from schemaquake.clusters.local.provider import LocalProvider
from schemaquake.clusters.nodes.node import ServerNode
from schemaquake.clusters.thrift.client import ThriftClient
from schemaquake.clusters.thrift.connection import Connection
from schemaquake.clusters.thrift.rows import slices
from schemaquake.harness.console import configure_logging
from schemaquake.harness.ddl.rows import insert, read_rows
from schemaquake.harness.ddl.schema_changes import create_keyspace, create_table, drop_table
from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Boot
from schemaquake.harness.model.steps import Invoke
from schemaquake.harness.wait import pause_for
from schemaquake.results.experiments.crash_table.delays import next_delay
from schemaquake.results.experiments.crash_table.evidence import ACKNOWLEDGED, Evidence, Kind, died_after

__all__ = ["KINDS", "TRIES", "main"]

log = logging.getLogger(__name__)

TRIES: Final = "tries.jsonl"
KINDS: Final[tuple[Kind, ...]] = ("create-table", "drop-table")
_MET: Final = {
    "create-table": ("1", "2", "3", "4", "5 or 6", ACKNOWLEDGED),
    "drop-table": ("1", "2", "3", "4", "5", "6", ACKNOWLEDGED),
}
_KEYSPACE: Final = "crash"
_COLUMNS: Final = [("k", "int", "partition_key"), ("v", "text", "regular")]
_ROWS: Final = 3
_HORIZON: Final = 1.2
"""The latest moment of a kill, as a multiple of the duration of an undisturbed change."""
_START_S: Final = 60.0
_LOG_LINES_MOST: Final = 12
_TELLING: Final = re.compile(
    r"Applying migration|Loading schema version|Migration not applied|flushing \S*(Schema|Migrations)-|ERROR"
)


@dataclass(frozen=True, slots=True)
class _Stored:
    """The history of a node's schema in its system tables."""

    definitions: frozenset[bytes]
    migrations: frozenset[bytes]
    last: bytes | None


def main() -> None:
    """Carry out the plan of the folder named on the command line."""
    folder = Path(sys.argv[1])
    configure_logging()
    plan = Plan.read(folder)
    cluster = LocalProvider().create(plan, folder)
    try:
        cluster.start()
        _Experiment(cluster, plan, folder / TRIES).run(int(plan.options["tries"]))
    finally:
        cluster.stop()


class _Experiment:
    """A node and the tries made on it."""

    def __init__(self, cluster: LocalCluster, plan: Plan, record: Path) -> None:
        self._cluster = cluster
        self._node: ServerNode = cluster.nodes[0]
        self._random = Random(plan.seed)
        self._timeout_s = plan.request_timeout_s
        self._record = record
        self._past: dict[Kind, list[tuple[float, str]]] = {kind: [] for kind in KINDS}
        self._client: ThriftClient | None = None
        self._connection: Connection | None = None

    def run(self, tries: int) -> None:
        """Try both kinds in turn, `tries` times each."""
        self._connect()
        self._must(create_keyspace(_KEYSPACE, replication_factor=1))
        horizons = {kind: _HORIZON * self._undisturbed(kind) for kind in KINDS}
        log.info("undisturbed changes took", extra={kind: round(h / _HORIZON, 3) for kind, h in horizons.items()})
        for number in range(tries * len(KINDS)):
            kind = KINDS[number % len(KINDS)]
            delay_s = next_delay(self._past[kind], _MET[kind], horizon_s=horizons[kind], random=self._random)
            evidence = self._try(number, kind, delay_s)
            self._past[kind].append((delay_s, died_after(evidence)))
            with self._record.open("ab") as record:
                record.write(orjson.dumps(evidence.to_json(), option=orjson.OPT_APPEND_NEWLINE))
            log.info("try", extra={"number": number, "kind": kind, "died_after": died_after(evidence)})
            if not evidence.started:
                self._start_anew()

    def _undisturbed(self, kind: Kind) -> float:
        """Return the longest duration of three undisturbed changes, in seconds; the first of a Java process is slow."""
        took = []
        for number in range(4):
            change = self._prepare(kind, f"warm{number}_{kind[:4]}")
            began = time.monotonic()
            self._must(change)
            took.append(time.monotonic() - began)
            self._tidy(change)
        return max(took[1:])

    # ── one try ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _try(self, number: int, kind: Kind, delay_s: float) -> Evidence:
        change = self._prepare(kind, f"t{number}")
        before = self._stored()
        logged = len(self._node.log_text())
        done = self._kill_during(change, delay_s)
        table = change.value["name"]
        snapshot, files = self._snapshot(table), kind == "drop-table" and self._files(table)
        flushing = self._flushing()
        lines = self._node.log_text()[logged:].splitlines()
        boot = self._start()
        lines += self._node.log_text().splitlines()
        found = Evidence(
            number=number,
            kind=kind,
            delay_s=delay_s,
            outcome=done.type,
            error=done.error,
            snapshot=snapshot,
            files=files,
            flushing=flushing,
            started=boot.served,
            first_error=boot.first_error,
            log=tuple(line.strip() for line in lines if _TELLING.search(line))[-_LOG_LINES_MOST:],
        )
        return self._look_inside(found, change, before) if boot.served else found

    def _prepare(self, kind: Kind, table: str) -> Invoke:
        """Return the change to be made. A table to be dropped is created, with rows that lie in files."""
        if kind == "create-table":
            return create_table(_KEYSPACE, table, columns=_COLUMNS)
        self._must(create_table(_KEYSPACE, table, columns=_COLUMNS))
        for key in range(_ROWS):
            self._must(insert(_KEYSPACE, table, {"k": key, "v": f"of {table}"}, consistency="ONE"))
        flushed = self._node.nodetool("flush", _KEYSPACE, table)
        if flushed.exit_code != 0 or not self._files(table):
            raise ClusterError(f"`nodetool flush` left no files of {table}: {flushed.stderr[-400:]}")
        return drop_table(_KEYSPACE, table)

    def _kill_during(self, change: Invoke, delay_s: float) -> Completion:
        """Send the change, kill the node so much later, and return the client's completion."""
        client = self._connected()
        completions: list[Completion] = []
        sent = threading.Event()

        def send() -> None:
            sent.set()
            completions.append(client.invoke(change))

        sender = threading.Thread(target=send)
        sender.start()
        sent.wait()
        pause_for(delay_s)
        self._node.kill()
        sender.join()
        self._disconnect()
        return completions[0]

    def _start(self) -> Boot:
        self._node.start()
        boot = self._node.await_serving(deadline_s=_START_S)
        if boot.served:
            self._connect()
        return boot

    def _look_inside(self, evidence: Evidence, change: Invoke, before: _Stored) -> Evidence:
        """Read the started node's state. Afterwards the table is gone."""
        after = self._stored()
        table = change.value["name"]
        exists = self._is_there(table)
        applied = exists == (evidence.kind == "create-table")
        files_after = evidence.kind == "drop-table" and self._files(table)
        news = {version.hex() for version in after.migrations - before.migrations}
        news |= {bytes.fromhex(key.decode().replace("-", "")).hex() for key in after.definitions - before.definitions}
        text = self._node.log_text()
        loaded = re.search(r"Loading schema version ([0-9a-f-]+)", text)
        rows = None
        if evidence.kind == "drop-table":
            if not exists:
                self._connected().invoke(create_table(_KEYSPACE, table, columns=_COLUMNS))
            read = self._connected().invoke(read_rows(_KEYSPACE, table, consistency="ONE", phase="restarted"))
            rows = len(read.value["rows"]) if read.type == "ok" else 0
        changes_again = self._tidy(change)
        fields = {name: getattr(evidence, name) for name in Evidence.__slots__}
        return Evidence(
            **{
                **fields,
                "definitions": bool(after.definitions - before.definitions),
                "migration": bool(after.migrations - before.migrations),
                "moved": after.last != before.last,
                "loaded": loaded is not None and loaded[1].replace("-", "") in news,
                "reapplied": "Applying migration" in text[: text.find("Listening for thrift clients")],
                "applied": applied,
                "files_after": files_after,
                "changes_again": changes_again,
                "rows": rows,
            }
        )

    def _tidy(self, change: Invoke) -> bool:
        """Return True if the node makes a change that has to succeed: the table of the try is dropped, or created and dropped."""
        table = change.value["name"]
        client = self._connected()
        made = self._is_there(table) or client.invoke(create_table(_KEYSPACE, table, columns=_COLUMNS)).type == "ok"
        dropped = client.invoke(drop_table(_KEYSPACE, table)).type == "ok"
        for path in self._data().rglob(f"*{table}-*"):
            path.unlink(missing_ok=True)  # its name is never used again
        return made and dropped

    # ── state on disk ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _stored(self) -> _Stored:
        """Read the row keys of system.Schema and the column names of system.Migrations."""
        connection = self._connection
        assert connection is not None
        call, dialect = connection.call, connection.dialect
        one = dialect.idl.ConsistencyLevel.ONE
        call("set_keyspace", "system")
        rows = dict(slices(call, dialect, "Schema", one))
        last = dict(rows.pop(b"Last Migration", ())).get(b"Last Migration")
        migrations = dict(slices(call, dialect, "Migrations", one)).get(b"Migrations Key", ())
        return _Stored(frozenset(rows), frozenset(name for name, _ in migrations), last)

    def _is_there(self, table: str) -> bool:
        connection = self._connection
        assert connection is not None
        described = connection.call("describe_keyspace", _KEYSPACE)
        return any(definition.name == table for definition in described.cf_defs)

    def _data(self) -> Path:
        return Path(self._node.folder.path) / "data" / _KEYSPACE

    def _files(self, table: str) -> bool:
        """Return True if data files of the table are on disk that no marker gives up."""
        given_up = {path.name.rsplit("-", 1)[0] for path in self._data().glob(f"{table}-*-Compacted")}
        return any(path.name.rsplit("-", 1)[0] not in given_up for path in self._data().glob(f"{table}-*-Data.db"))

    def _flushing(self) -> bool:
        system = Path(self._node.folder.path) / "data" / "system"
        return any(path for name in ("Schema", "Migrations") for path in system.glob(f"{name}-tmp-*"))

    def _snapshot(self, table: str) -> bool:
        return any(self._data().glob(f"snapshots/*/{table}-*-Data.db"))

    # ── the node ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _connect(self) -> None:
        self._disconnect()
        client = self._cluster.connector().connect(self._node.name, request_timeout_s=self._timeout_s)
        assert isinstance(client, ThriftClient)
        self._client = client
        self._connection = Connection(self._node.address, 9160, timeout_s=self._timeout_s)
        self._connection.ensure(deadline_s=10)

    def _disconnect(self) -> None:
        for open_one in (self._client, self._connection):
            if open_one is not None:
                open_one.close()
        self._client = self._connection = None

    def _connected(self) -> ThriftClient:
        assert self._client is not None
        return self._client

    def _must(self, operation: Invoke) -> None:
        done = self._connected().invoke(operation)
        if done.type != "ok":
            raise ClusterError(f"{operation.f} {operation.key} failed on an undisturbed node: {done.error}")

    def _start_anew(self) -> None:
        """Replace the node with an empty one, after a start that failed."""
        self._node.kill()
        for name in ("data", "commitlog", "saved_caches"):
            for path in (Path(self._node.folder.path) / name).glob("*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        if not self._start().served:
            raise ClusterError(f"an empty node does not start; its log: {self._node.log.location}")
        self._must(create_keyspace(_KEYSPACE, replication_factor=1))


if __name__ == "__main__":
    main()
