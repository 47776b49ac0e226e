"""A ScyllaDB node as its interfaces show it: rows of its system tables, and its REST interface as a server in this process.

Shapes are those that ScyllaDB's documentation of system tables and its interface descriptions give; no server was asked.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID

import orjson
from cassandra import InvalidRequest

GROUP = "f2ab9330-a2c4-11ef-8f2b-1c5d6e7f8a9b"
SERVERS = tuple(UUID(int=0xC0FFEE00 + number) for number in range(3))
TABLE_ID = UUID("5a1c395e-4d04-11ef-b4c5-c1b2e1a1f0aa")
VERSION = UUID("0b1c2d3e-a2d0-11ef-8000-2c5d6e7f8a9b")


def state_id(tick: int) -> UUID:
    """A time-based UUID; a later tick is a later state."""
    time = 0x1EFA2C4_00000000 + tick
    return UUID(fields=(time & 0xFFFFFFFF, time >> 32 & 0xFFFF, 0x1000 | time >> 48, 0x8F, 0x2B, 0x1C5D6E7F8A9B))


def ddl(text: str) -> str:
    """How the log of changes describes a statement."""
    return f'CQL DDL statement: "{text}"'


class ScyllaNode:
    """Answers statements from rows; what it was not given is empty, and what its release lacks is refused."""

    def __init__(
        self,
        *,
        history: Sequence[tuple[int, str]] = (),
        topology: bool = True,
        group: str | None = GROUP,
        **tables: Sequence[Mapping[str, Any]],
    ) -> None:
        self.history = list(history)
        self.group = group
        self.version = VERSION
        self.tables = tables
        self.asked: list[str] = []
        self._has_topology = topology

    def __call__(self, text: str) -> list[Mapping[str, Any]]:
        self.asked.append(text)
        if text == "SELECT schema_version FROM system.local WHERE key = 'local'":
            return [{"schema_version": self.version}]
        if text == "DESCRIBE SCHEMA":
            return list(self.tables.get("describe", ()))
        found = re.search(r" FROM (system(?:_schema)?)\.(\w+)", text)
        assert found, f"not a statement this node knows: {text}"
        keyspace, table = found.groups()
        if keyspace == "system_schema" and "'topology'" in text:
            return [{"column_name": name} for name in _TOPOLOGY] if self._has_topology else []
        if keyspace == "system":
            return list(getattr(self, f"{table}_rows")(text))
        return list(self.tables.get(table, ()))

    def group0_history_rows(self, text: str) -> Iterator[Mapping[str, Any]]:
        limit = int(re.search(r"LIMIT (\d+)$", text)[1])
        newest_first = sorted(self.history, reverse=True)[:limit]
        for tick, description in newest_first:
            row = {"state_id": state_id(tick), "description": description}
            yield row if "description" in text else {"state_id": row["state_id"]}

    def scylla_local_rows(self, _text: str) -> Iterator[Mapping[str, Any]]:
        told = {
            "raft_group0_id": self.group,
            "group0_upgrade_state": "use_post_raft_procedures",
            "group0_schema_version": str(self.version),
            "topology_schema_commitlog": "x",
        }
        yield from ({"key": key, "value": value} for key, value in told.items() if value is not None)

    def raft_state_rows(self, text: str) -> Iterator[Mapping[str, Any]]:
        assert text.endswith(f"WHERE group_id = {self.group}")
        for disposition in ("CURRENT", "PREVIOUS"):
            for number, server in enumerate(SERVERS[: 3 if disposition == "CURRENT" else 2]):
                yield {"disposition": disposition, "server_id": server, "can_vote": number < 2}

    def topology_rows(self, text: str) -> Iterator[Mapping[str, Any]]:
        if not self._has_topology:
            raise InvalidRequest("unconfigured table topology")
        names = re.search(r"SELECT (.*) FROM", text)[1].split(", ")
        assert "committed_cdc_generations" not in names, "a value that no driver reads"
        for server in SERVERS:
            row = {**_TOPOLOGY, "host_id": server}
            yield {name: row[name] for name in names}


_TOPOLOGY = {
    "host_id": SERVERS[0],
    "node_state": "normal",
    "version": 17,
    "fence_version": 16,
    "transition_state": None,
    "upgrade_state": "done",
    "committed_cdc_generations": None,
}


# ── the REST interface ───────────────────────────────────────────────────────────────────────────────────────────────


class Rest:
    """What a node's REST interface was asked, and how it answers."""

    def __init__(self, *, injects: bool = True, quorum: bool = True) -> None:
        self.injects = injects
        """Whether the build has error injection."""
        self.quorum = quorum
        self.asked: list[tuple[str, str]] = []
        self.enabled: dict[str, Mapping[str, Any]] = {}

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, Any]:
        self.asked.append((method, target))
        url = urlsplit(target)
        if (method, url.path) == ("POST", "/raft/read_barrier"):
            if self.quorum:
                return 200, None
            words = f"group [{GROUP}] raft operation [read_barrier] timed out, there is no raft quorum"
            return 500, {"message": words, "code": 500}
        name = re.fullmatch(r"/v2/error_injection/injection(?:/([^/]+))?", url.path)
        if name is None:
            return 404, {"message": "Not found", "code": 404}
        return self._injection(method, unquote(name[1]) if name[1] else None, parse_qs(url.query), body)

    def _injection(
        self, method: str, name: str | None, query: Mapping[str, Sequence[str]], body: bytes
    ) -> tuple[int, Any]:
        """A build without error injection takes everything and enables nothing."""
        if method == "GET" and name is None:
            return 200, sorted(self.enabled)
        if not self.injects:
            return 200, None
        if method == "POST" and name is not None:
            parameters = orjson.loads(body) if body else {}
            self.enabled[name] = {"one_shot": query.get("one_shot") == ["True"], "parameters": parameters}
            return 200, None
        if method == "DELETE" and name is not None:
            self.enabled.pop(name, None)
            return 200, None
        return 404, {"message": "Not found", "code": 404}


@contextmanager
def serving(rest: Rest) -> Iterator[tuple[str, int]]:
    """The address at which the interface answers, while the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, said = rest.answer(self.command, self.path, body)
            content = b"" if said is None else orjson.dumps(said)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - the server's own names

        def log_message(self, *_arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.server_address[0], server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
