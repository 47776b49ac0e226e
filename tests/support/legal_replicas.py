"""Rows on the replicas of a legal cluster: the last timestamp wins, and each node has what reached it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NODES = ("n1", "n2", "n3")


@dataclass
class Copy:
    """One replica's copy of a row: cells as column → (timestamp, value, time of expiry or None), and its deletion."""

    born: tuple[int, float | None] = (-1, None)
    deleted: int = -1
    cells: dict[str, tuple[int, Any, float | None]] = field(default_factory=dict)

    def merge(self, other: Copy) -> None:
        self.born = max(self.born, other.born, key=lambda born: born[0])
        self.deleted = max(self.deleted, other.deleted)
        for column, cell in other.cells.items():
            if column not in self.cells or self.cells[column][0] < cell[0]:
                self.cells[column] = cell

    def read(self, now: float) -> Mapping[str, Any] | None:
        """The live cells; None: there is no row."""
        live = {
            column: value
            for column, (stamp, value, expires) in self.cells.items()
            if stamp > self.deleted and (expires is None or now < expires)
        }
        stamp, expires = self.born
        is_there = stamp > self.deleted and (expires is None or now < expires)
        return live if is_there or live else None


class Replicas:
    """The rows of one life of one table, on every node."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[Any, Copy]] = {node: {} for node in NODES}

    def write(self, nodes: Iterable[str], key: Any, change: Copy) -> None:
        for node in nodes:
            self.nodes[node].setdefault(key, Copy()).merge(change)

    def forget(self, column: str) -> None:
        for rows in self.nodes.values():
            for copy in rows.values():
                copy.cells.pop(column, None)

    def read(self, nodes: Sequence[str], now: float) -> Mapping[Any, Mapping[str, Any]]:
        """The rows that these replicas show together."""
        merged: dict[Any, Copy] = {}
        for node in nodes:
            for key, copy in self.nodes[node].items():
                merged.setdefault(key, Copy()).merge(copy)
        return {key: row for key, copy in merged.items() if (row := copy.read(now)) is not None}


def replicas_of(key: Any, copies: int) -> Sequence[str]:
    """The nodes that have a row, as SimpleStrategy places it."""
    first = hash(key) % len(NODES)
    return [NODES[(first + number) % len(NODES)] for number in range(min(copies, len(NODES)))]


def needed(level: str, copies: int) -> int:
    return {"ONE": 1, "QUORUM": copies // 2 + 1, "ALL": copies}[level]
