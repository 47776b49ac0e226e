"""A server that stands in for Cassandra 5.0 where its schema and its data do not matter: it speaks CQL, and says yes to everything.

    python cql_stand_in.py LOG PORT ADDRESS [PEER… | @MEMBERS OPTIONS]

With @MEMBERS its peers are the other addresses in that file, which all servers share: one that starts adds its own, and takes out the one
whose place it takes by the file OPTIONS (`-Dcassandra.replace_address_first_boot=`). It knows its peers, has one schema version, and keeps registers (`UPDATE … SET v = …`, `SELECT v …`) in memory. One thread, any
number of sessions. Ended by SIGTERM.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import signal
import socket
import struct
import sys
import uuid
from pathlib import Path

HEADER = struct.Struct(">BBhBi")
ERROR, STARTUP, READY, OPTIONS, SUPPORTED, QUERY, RESULT, PREPARE, REGISTER = 0, 1, 2, 5, 6, 7, 8, 9, 11
VOID, ROWS = struct.pack(">i", 1), 2
BOOLEAN, INT, UUID, VARCHAR, INET, MAP = 0x04, 0x09, 0x0C, 0x0D, 0x10, 0x21
TEXTS = struct.pack(">HH", VARCHAR, VARCHAR)
"""What a map's keys and values are."""
INVALID = 0x2200
VERSION = uuid.UUID(int=7)
UPDATE = re.compile(r"UPDATE (\S+) SET v = (\d+).* WHERE k = (\d+)(?: IF (\w+) = (\w+))?", re.DOTALL)
SELECT = re.compile(r"SELECT v FROM (\S+) WHERE k = (\d+)")


def text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


def cell(kind: int, value: object) -> bytes:
    if value is None:
        return struct.pack(">i", -1)
    packed = {
        BOOLEAN: lambda: struct.pack(">?", value),
        INT: lambda: struct.pack(">i", value),
        UUID: lambda: value.bytes,
        VARCHAR: lambda: str(value).encode(),
        INET: lambda: socket.inet_aton(value),
        MAP: lambda: (
            struct.pack(">i", len(value)) + b"".join(cell(VARCHAR, word) for pair in value.items() for word in pair)
        ),
    }[kind]()
    return struct.pack(">i", len(packed)) + packed


def rows(columns: dict[str, int], *values: tuple[object, ...]) -> bytes:
    head = struct.pack(">iii", ROWS, 1, len(columns)) + text("system") + text("rows")
    head += b"".join(
        text(name) + struct.pack(">H", kind) + (TEXTS if kind == MAP else b"") for name, kind in columns.items()
    )
    cells = [cell(kind, value) for row in values for kind, value in zip(columns.values(), row, strict=True)]
    return head + struct.pack(">i", len(values)) + b"".join(cells)


LOCAL = {
    "key": VARCHAR, "cluster_name": VARCHAR, "data_center": VARCHAR, "rack": VARCHAR, "release_version": VARCHAR,
    "partitioner": VARCHAR, "schema_version": UUID, "host_id": UUID, "rpc_address": INET, "broadcast_address": INET,
    "listen_address": INET,
}  # fmt: skip
KEYSPACE = {"keyspace_name": VARCHAR, "durable_writes": BOOLEAN, "replication": MAP}
PEER = {"peer": INET, "data_center": VARCHAR, "rack": VARCHAR, "release_version": VARCHAR, "schema_version": UUID, "host_id": UUID, "rpc_address": INET}  # fmt: skip


class Server:
    def __init__(self, address: str, peers: list[str]) -> None:
        self.address = address
        self.own_peers = peers
        self.registers: dict[tuple[str, str], int] = {}
        self.sessions = 0

    @property
    def peers(self) -> list[str]:
        if not self.own_peers or not self.own_peers[0].startswith("@"):
            return self.own_peers
        return [each for each in Path(self.own_peers[0][1:]).read_text("utf-8").split() if each != self.address]

    @property
    def keyspaces(self) -> list[str]:
        """What was there before any run: a file beside that of the members may name some."""
        found = Path(f"{self.own_peers[0][1:]}.keyspaces") if self.own_peers else Path()
        return found.read_text("utf-8").split() if found.is_file() else []

    def join(self) -> None:
        """Add this server to the members, if they are in a file."""
        if self.own_peers and self.own_peers[0].startswith("@"):
            options = Path(self.own_peers[1])
            place = re.search(
                r"replace_address_first_boot=(\S+)", options.read_text("utf-8") if options.exists() else ""
            )
            with Path(self.own_peers[0][1:]).open("r+", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                members = [each for each in file.read().split() if place is None or each != place[1]]
                file.seek(0)
                file.truncate()
                file.write("\n".join(dict.fromkeys([*members, self.address])))

    def answer(self, query: str) -> tuple[int, bytes]:
        def host(address: str) -> uuid.UUID:
            return uuid.UUID(bytes=bytes(12) + socket.inet_aton(address))

        if "FROM system.local" in query:
            shown = ("local", "stand-in", "dc1", "r1", "5.0.9", "Murmur3Partitioner", VERSION, host(self.address))
            return RESULT, rows(LOCAL, (*shown, *[self.address] * 3))
        if "FROM system.peers_v2" in query:
            return ERROR, struct.pack(">i", INVALID) + text("unconfigured table peers_v2")
        if "FROM system.peers" in query:
            return RESULT, rows(PEER, *((peer, "dc1", "r1", "5.0.9", VERSION, host(peer), peer) for peer in self.peers))
        if "FROM system_schema.keyspaces" in query:
            replication = {"class": "SimpleStrategy", "replication_factor": "1"}
            return RESULT, rows(KEYSPACE, *((name, True, replication) for name in self.keyspaces))
        if found := SELECT.search(query):
            value = self.registers.get((found[1], found[2]))
            return RESULT, rows({"v": INT}, *([] if value is None else [(value,)]))
        if found := UPDATE.search(query):
            key = (found[1], found[3])
            holds = found[4] != "v" or str(self.registers.get(key)) == found[5]
            if holds:
                self.registers[key] = int(found[2])
            return RESULT, rows({"[applied]": BOOLEAN}, (holds,))
        if query.lstrip().upper().startswith("SELECT"):
            return RESULT, rows({"keyspace_name": VARCHAR})
        return RESULT, VOID

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.sessions += 1
        try:
            while True:
                version, _, stream, opcode, length = HEADER.unpack(await reader.readexactly(HEADER.size))
                kind, body = self.respond(opcode, await reader.readexactly(length))
                writer.write(HEADER.pack((version & 0x7F) | 0x80, 0, stream, kind, len(body)) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def respond(self, opcode: int, body: bytes) -> tuple[int, bytes]:
        if opcode == OPTIONS:
            return SUPPORTED, b"\0\2" + text("CQL_VERSION") + b"\0\1" + text("3.4.7") + text("COMPRESSION") + b"\0\0"
        if opcode == QUERY:
            (length,) = struct.unpack_from(">i", body)
            return self.answer(body[4 : 4 + length].decode())
        if opcode in {STARTUP, REGISTER}:
            return READY, b""
        return ERROR, struct.pack(">i", 0x000A) + text("this server only knows simple queries")


async def main(log: str, port: str, address: str, *peers: str) -> None:
    def say(what: str) -> None:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"INFO  [main] 2026-01-01 09:00:00,123 Server.java:1 - {what}\n")

    server = Server(address, list(peers))
    server.join()
    await asyncio.start_server(server.serve, address, int(port), reuse_port=True, backlog=1024)
    say(f"listening on {address}")
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    say(f"shutting down after {server.sessions} sessions")
    os._exit(0)  # sessions are cut off, as a server's are that ends


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
