"""Dialect: what a CQL client needs to know of the system that it talks to.

A client asks each of its questions through these values and compares no name of a system. All of them are pickled into
the workers' processes, so an implementation is a frozen dataclass of small fields, or a class without any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

from schemaquake.clusters.systems.outcome import Outcome
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Node

__all__ = [
    "Authority",
    "Barrier",
    "CqlDialect",
    "Query",
    "ReadBarrier",
    "RingReading",
    "SchemaReading",
    "StepReading",
    "Stored",
]

Query: TypeAlias = Callable[[str], Iterable[Mapping[str, Any]]]
"""Runs one statement on the pinned node at consistency ONE and returns its rows as mappings."""

Stored: TypeAlias = tuple[str, str, str | None, str | None, JSON]
"""(kind, keyspace, name, id, definition) of one object; `schemaquake.harness.model.observation` says what each kind has."""

Authority: TypeAlias = Literal["memory", "disk", "log", "group0"]
"""The source that decides what a node's schema is.

- `memory`: what the node remembers, for what it stores cannot be read by clients
- `disk`: rows of schema tables, each node's own, merged in any order
- `log`: one log of changes for the whole cluster, committed by Paxos
- `group0`: one log of changes for the whole cluster, committed by a Raft group
"""


class SchemaReading(Protocol):
    """A way to read one node's own account of its schema by CQL."""

    @property
    def describes_memory(self) -> bool:
        """True where `DESCRIBE SCHEMA` is tried; a release that does not know it is asked table by table."""
        ...

    def read_version(self, query: Query) -> tuple[str, int | None]:
        """Read (schema version, epoch of the last change); the version is "" and the epoch null where none is stored.

        Epochs order the changes of the whole cluster; they are null in a system that does not order them.
        """
        ...

    def read_schema(self, query: Query) -> Iterator[Stored]:
        """Read every object on the node's disk; callers leave out the keyspaces in `SYSTEM_KEYSPACES`."""
        ...

    def read_state(self, query: Query) -> Mapping[str, JSON]:
        """Read what else belongs into a reading's `version` row, by name; empty where there is nothing."""
        ...

    def read_log(self, query: Query) -> JSON | None:
        """Read the newest changes of the log that the node keeps, in the shape of a `log` row; None if it keeps none."""
        ...

    def read_keyspaces(self, query: Query) -> Sequence[str]:
        """Read the names of all keyspaces."""
        ...

    def read_release(self, query: Query) -> str:
        """Read the release that the server says it is."""
        ...


class RingReading(Protocol):
    """A way to read one node's own account of the ring by CQL."""

    def read_ring(self, query: Query) -> Mapping[str, JSON]:
        """Read the node's account of all members, in the shape of a `ring` row."""
        ...

    def read_epochs(self, query: Query) -> JSON | None:
        """Read the entries of the metadata log that the node has, in the shape of an `epochs` row; None if there is none."""
        ...


@runtime_checkable
class StepReading(Protocol):
    """A `RingReading` that can also tell how far an operation on the topology has come."""

    steps: ClassVar[frozenset[str]]
    """The steps that it can read."""

    def read_steps(self, query: Query, addresses: Sequence[str]) -> Iterator[str]:
        """Read the steps of the operation of these nodes, in the words of `schemaquake.harness.model.aim.STEPS`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """The result of asking for a barrier: passed or not, after how long, and if not, why not."""

    passed: bool
    seconds: float
    why: str | None = None

    def to_json(self) -> dict[str, bool | float | str]:
        """Render it as a `version` observation has it."""
        document: dict[str, bool | float | str] = {"passed": self.passed, "seconds": round(self.seconds, 3)}
        return document if self.why is None else {**document, "why": self.why}


class ReadBarrier(Protocol):
    """A way to make a node apply all that was committed before. Neither verb raises: a failure is in the answer."""

    def wait(self, address: str, *, timeout_s: float) -> Barrier:
        """Ask the node from afar."""
        ...

    def wait_on(self, node: Node, *, timeout_s: float) -> Barrier:
        """Ask the node by a command that is carried out on it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CqlDialect:
    """The facts of a system that a CQL client needs; picklable."""

    protocol_version: int
    schema: SchemaReading
    outcomes: Sequence[Outcome] = ()
    """Rows for errors that prove something else here than in other systems; tried before the table of all CQL."""
    barrier: ReadBarrier | None = None
    """Asked before each reading that judges; None where a reading needs none."""
    authority: Authority = "disk"
    """The source that decides what a node's schema is; readings name it if it is not the disk."""
    ring: RingReading | None = None
    """How the ring is read in readings that judge; None where it is not."""
