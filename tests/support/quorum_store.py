"""A quorum store, simulated: replicas, coordinators with clocks of their own, and messages that arrive in any order.

A put is acknowledged once its level's replicas have it; the others get it later, or never. A get asks its level's
replicas, brings them to what the latest of them has, and answers. With clocks that agree nothing is ever wrong here;
with clocks that differ, only last-write-wins is. `forgetful` replicas lose key 0 before they are probed.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import orjson
import pyarrow as pa

from schemaquake.harness.model.records import HISTORY

COPIES = 3
NODES = ("n1", "n2", "n3")
EPOCH_MS = 1_700_000_000_000
NEEDED = {"ONE": 1, "QUORUM": 2, "ALL": 3}


@dataclass
class Version:
    writetime: int
    value: int

    def newer_than(self, other: Version | None) -> bool:
        return other is None or (self.writetime, self.value) > (other.writetime, other.value)


class Store:
    """Carries out random operations one small step at a time; every step takes a millisecond or two."""

    def __init__(
        self,
        seed: int,
        *,
        skew_ms: Mapping[str, int] | None = None,
        writes: str = "QUORUM",
        reads: str = "QUORUM",
        keys: int = 2,
        lost: float = 0.2,
        unknown: float = 0.1,
        forgetful: int = 0,
    ) -> None:
        self.random = Random(seed)
        self.skew_ms = skew_ms or {}
        self.writes, self.reads, self.keys = writes, reads, keys
        self.lost, self.unknown, self.forgetful = lost, unknown, forgetful
        self.replicas: dict[str, dict[int, Version]] = {node: {} for node in NODES}
        self.last: dict[str, int] = {}
        self.now_ms = 100
        self.rows: list[dict[str, Any]] = []
        self.values = iter(range(1, 10_000))
        self.processes = iter(range(1, 10_000))

    def history(self, operations: int) -> pa.Table:
        """So many puts and gets by three workers at a time, then a probe of every key through every node."""
        self._event(0, "invoke", "create-keyspace", "n1", "k", {"replication": {"class": "S", "replication_factor": 3}})
        self._event(0, "ok", "create-keyspace", "n1", "k", {"replication": {"class": "S", "replication_factor": 3}})
        running: list[Generator[None, None, None]] = []
        detached: list[Generator[None, None, None]] = []
        started = 0
        while started < operations or running:
            while started < operations and len(running) < 3:
                running.append(self._operation(NODES[started % 3], detached))
                started += 1
            chosen = self.random.choice([*running, *detached])
            self.now_ms += self.random.choice((1, 1, 2))
            if next(chosen, "over") == "over":
                (running if chosen in running else detached).remove(chosen)
        for node in self.random.sample(NODES, self.forgetful):
            self.replicas[node].pop(0, None)
        self._event(-1, "info", "phase", None, None, {"phase": "final-settled", "state": "begins"})
        for key in range(self.keys):
            for node in NODES:
                self.now_ms += 1
                for _ in self._get(next(self.processes), node, key, "probe", "ONE", asked=[node]):
                    self.now_ms += 1
        return table(self.rows)

    def _operation(self, node: str, detached: list[Generator[None, None, None]]) -> Generator[None, None, None]:
        key, process = self.random.randrange(self.keys), next(self.processes)
        if self.random.random() < 0.5:
            return self._put(process, node, key, detached)
        asked = self.random.sample(NODES, NEEDED[self.reads])
        return self._get(process, node, key, "get", self.reads, asked=asked)

    def _put(
        self, process: int, node: str, key: int, detached: list[Generator[None, None, None]]
    ) -> Generator[None, None, None]:
        value = next(self.values)
        asked = {"value": value, "consistency": self.writes}
        self._event(process, "invoke", "put", node, f"k.q/{key}", asked)
        yield
        version = Version(self._stamp(node), value)
        order = self.random.sample(NODES, COPIES)
        if self.random.random() < self.unknown:
            reached = order[: self.random.randrange(COPIES)]
            detached.append(self._deliver(key, version, reached))
            yield
            self._event(process, "info", "put", node, f"k.q/{key}", None, "WriteTimeout")
            return
        needed = NEEDED[self.writes]
        for replica in order[:needed]:
            self._apply(replica, key, version)
            yield
        self._event(process, "ok", "put", node, f"k.q/{key}", asked)
        late = [replica for replica in order[needed:] if self.random.random() >= self.lost]
        detached.append(self._deliver(key, version, late))

    def _deliver(self, key: int, version: Version, replicas: list[str]) -> Generator[None, None, None]:
        for replica in replicas:
            self._apply(replica, key, version)
            yield

    def _get(
        self, process: int, node: str, key: int, f: str, level: str, *, asked: list[str]
    ) -> Generator[None, None, None]:
        self._event(process, "invoke", f, node, f"k.q/{key}", {"consistency": level})
        yield
        found: Version | None = None
        for replica in asked:
            held = self.replicas[replica].get(key)
            if held is not None and held.newer_than(found):
                found = held
            yield
        for replica in asked if found is not None else ():
            assert found is not None
            self._apply(replica, key, found)
            yield
        told = {"value": None, "writetime": None} if found is None else vars(found)
        self._event(process, "ok", f, node, f"k.q/{key}", {"consistency": level, **told})

    def _apply(self, replica: str, key: int, version: Version) -> None:
        if version.newer_than(self.replicas[replica].get(key)):
            self.replicas[replica][key] = version

    def _stamp(self, node: str) -> int:
        """As a server does: whole milliseconds of its own clock, and never the same or a lower one again."""
        clock = (EPOCH_MS + self.now_ms + self.skew_ms.get(node, 0)) * 1000
        self.last[node] = max(clock, self.last.get(node, 0) + 1)
        return self.last[node]

    def _event(
        self, process: int, kind: str, f: str, node: str | None, key: str | None, value: Any, error: str | None = None
    ) -> None:
        self.rows.append(
            {
                "time": self.now_ms * 1_000_000,
                "process": process,
                "type": kind,
                "f": f,
                "node": node,
                "key": key,
                "value": None if value is None else orjson.dumps(value).decode(),
                "error": error,
                "mops": None,
            }
        )


def table(rows: list[dict[str, Any]]) -> pa.Table:
    """A history of these events, in order of time."""
    ordered = sorted(rows, key=lambda row: row["time"])
    return pa.Table.from_pylist([{**row, "index": index} for index, row in enumerate(ordered)], schema=HISTORY)
