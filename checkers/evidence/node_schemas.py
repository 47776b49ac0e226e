"""Node schemas: the whole schema as each node itself showed it at the end of each final phase.

From observations (`schemaquake.harness.model.records.OBSERVATIONS`): of phase `settled` (healed, settled) and `restarted` (every node
was restarted after that), the last complete reading of every node. A reading without a version, or with an error in
any row, is not complete; a node without a complete reading is listed as unread, with its error. Data directories are
no part of a schema; `read_sightings` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.model.observation import kind_in_memory
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import plain

__all__ = [
    "GROUP_HISTORY",
    "PHASES",
    "Aggregate",
    "Column",
    "FinalReadings",
    "Function",
    "Live",
    "NodeSchema",
    "Sighting",
    "Table",
    "Unread",
    "read_final_schemas",
    "read_sightings",
    "read_table",
]

PHASES: Final = ("settled", "restarted")
"""The final phases, in order; only in these are readings complete."""
GROUP_HISTORY: Final = "group0"
"""The key of a version row under which a system whose changes go through a Raft group shows that group's history."""
_NODES_OWN: Final = frozenset({"disk", "memory"})
"""Authorities that are each node's own. Every other is one log of changes for the whole cluster."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table or view.

    `kind` is partition_key, clustering, static, regular, or `untold` where the system's schema tables do not have it.
    `position` counts within the key's kind from 0; -1: not known.
    """

    type: str
    kind: str
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table or a view on one node's disk; `definition` is the whole of it as observed."""

    keyspace: str
    name: str
    id: str | None
    columns: Mapping[str, Column]
    dropped_columns: frozenset[str]
    options: Mapping[str, JSON]
    indexes: Mapping[str, Mapping[str, JSON]]
    base_table_id: str | None
    base_table_name: str | None
    definition: JSON
    described: bool = False
    """True for a table that a node described from its memory, which has no rows and no halves."""

    @property
    def has_own_row(self) -> bool:
        """True if the row with id and options is there; 1.2 and 2.0 have no ids, but always options."""
        return self.described or self.id is not None or bool(self.options)

    @property
    def headless(self) -> bool:
        """True if one half is missing: the table's own row, or every column."""
        return self.has_own_row != bool(self.columns)

    @property
    def residue(self) -> bool:
        """True if nothing is left of the table but rows of its indexes."""
        return not self.has_own_row and not self.columns and bool(self.indexes)


@dataclass(frozen=True, slots=True)
class Function:
    """A user-defined function; `arguments` are (name, type)."""

    arguments: tuple[tuple[str, str], ...]
    returns: str
    definition: JSON


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A user-defined aggregate; functions by name, as the node wrote them."""

    arguments: tuple[str, ...]
    state_function: str | None
    state_type: str | None
    final_function: str | None
    definition: JSON


@dataclass(frozen=True, slots=True)
class Live:
    """One object in a node's memory: the statement that would create it, or the columns that it serves.

    Systems that can describe their memory give a statement; from the others, a table's columns and types are read.
    """

    kind: str
    statement: str | None = None
    columns: Mapping[str, str] | None = None

    @property
    def evidence(self) -> JSON:
        """The statement, or the columns with their types, as a finding shows them."""
        return self.statement if self.columns is None else dict(self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSchema:
    """One node's complete schema in one phase. Objects by (keyspace, name), keyspaces by name.

    Objects in memory are keyed by (kind, keyspace, name), the name of a keyspace being ""; where memory could not be
    observed at all, all three maps of it are empty. `refusals` are the node's answers, in its own words, that it does
    not serve an object of its disk; `unanswered` are the objects for which the question failed.
    """

    phase: str
    node: str
    time: int
    """ns since the run started, of the last row of the reading."""
    version: str | None
    epoch: int | None
    source: str
    """The side that `keyspaces`, `tables` … were read from: `disk`, or `memory` where the disk cannot be read (0.7–1.0)."""
    keyspaces: Mapping[str, JSON]
    tables: Mapping[tuple[str, str], Table]
    views: Mapping[tuple[str, str], Table]
    types: Mapping[tuple[str, str], tuple[tuple[str, str], ...]]
    functions: Mapping[tuple[str, str], Function]
    aggregates: Mapping[tuple[str, str], Aggregate]
    live: Mapping[tuple[str, str, str], Live]
    refusals: Mapping[tuple[str, str, str], str]
    unanswered: frozenset[tuple[str, str, str]]
    authority: str = "disk"
    """The source that decides what the node's schema is, as its reading names it (`schemaquake.harness.model.observation`)."""
    described: bool = False
    """True if the node described its whole memory, so that what is not in `live` is not there."""
    shows_memory: str | None = None
    """What this system shows of its memory, `statements` of all objects or `columns` of tables; readings of 0.1 do not say it."""
    memory_error: str | None = None
    """The node's reason why its memory could not be read; null: none was given."""
    release: str | None = None
    """The release that the node said it is, where nodes may become another one; else None."""

    @property
    def remembers(self) -> bool:
        """True if this node's memory was observed."""
        return bool(self.live or self.refusals) or self.described

    @property
    def follows_log(self) -> bool:
        """True if one log of changes decides for the whole cluster, and schema tables on disk are a copy of its outcome."""
        return self.authority not in _NODES_OWN

    @property
    def asks_before_it_answers(self) -> bool:
        """True if a coordinator carries out all that was committed before it decides on a change (group 0's read barrier)."""
        return self.authority == GROUP_HISTORY

    @property
    def mistakes_no_ops(self) -> bool:
        """True if a coordinator may answer a no-op of IF [NOT] EXISTS as a change: it compares its schema, that may lag behind a log."""
        return self.follows_log and not self.asks_before_it_answers

    def stored(self) -> Mapping[tuple[str, str, str], JSON]:
        """Return the objects on the node's disk as comparable values, by (kind, keyspace, name); a table with its id."""
        disk: dict[tuple[str, str, str], JSON] = {
            ("keyspace", keyspace, ""): definition for keyspace, definition in self.keyspaces.items()
        }
        for kind, tables in (("table", self.tables), ("view", self.views)):
            for key, table in tables.items():
                disk[(kind, *key)] = {"id": table.id, **table.definition}
        disk |= {("type", *key): [list(field) for field in fields] for key, fields in self.types.items()}
        disk |= {("function", *key): function.definition for key, function in self.functions.items()}
        disk |= {("aggregate", *key): aggregate.definition for key, aggregate in self.aggregates.items()}
        return disk

    @property
    def derived(self) -> frozenset[tuple[str, str, str]]:
        """Tables and views that the server keeps for itself, marked `derived_from` in their readings."""
        return frozenset(
            (kind, *key)
            for kind, relations in (("table", self.tables), ("view", self.views))
            for key, relation in relations.items()
            if relation.definition.get("derived_from") is not None
        )

    def objects(self) -> Iterator[tuple[str, str, str]]:
        """List the objects of clients on this node's disk, as (kind, keyspace, name); a keyspace's name is ""."""
        derived = self.derived
        yield from (found for found in self._on_disk() if found not in derived)

    def _on_disk(self) -> Iterator[tuple[str, str, str]]:
        for keyspace in self.keyspaces:
            yield "keyspace", keyspace, ""
        for kind, named in (
            ("view", self.views),
            ("type", self.types),
            ("function", self.functions),
            ("aggregate", self.aggregates),
        ):
            for keyspace, name in named:
                yield kind, keyspace, name
        for (keyspace, name), table in self.tables.items():
            if table.has_own_row:  # columns alone are loaded by no server
                yield "table", keyspace, name
            for index in table.indexes:
                yield "index", keyspace, index


@dataclass(frozen=True, slots=True)
class Unread:
    """A node without a complete reading in a phase, and the error of its last attempt."""

    phase: str
    node: str
    error: str


@dataclass(frozen=True, slots=True)
class FinalReadings:
    """All final readings of a run, or of one keyspace of it."""

    schemas: tuple[NodeSchema, ...]
    unread: tuple[Unread, ...]

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases in which at least one node was read."""
        return tuple(phase for phase in PHASES if any(schema.phase == phase for schema in self.schemas))

    def of(self, phase: str) -> tuple[NodeSchema, ...]:
        """Return the schemas read in one phase, by the nodes' names."""
        return tuple(schema for schema in self.schemas if schema.phase == phase)

    @property
    def memories_unread(self) -> tuple[Unread, ...]:
        """The nodes whose disk was read and whose memory was not, where the system shows it.

        It does if a reading says so, or if any node's memory was read. A node without a table has nothing to show, unless
        its system shows keyspaces, too.
        """
        shown = any(schema.shows_memory or schema.remembers for schema in self.schemas)

        def is_silent(schema: NodeSchema) -> bool:
            has_any = schema.tables or schema.views or (schema.shows_memory == "statements" and schema.keyspaces)
            return shown and schema.source == "disk" and bool(has_any) and not schema.unanswered

        return tuple(
            Unread(schema.phase, schema.node, schema.memory_error or "no reading of it was recorded")
            for schema in self.schemas
            if not schema.remembers and (schema.memory_error is not None or is_silent(schema))
        )


class Sighting(NamedTuple):
    """One object as one node showed it in one reading; `time` in ns since the run started, `definition` null: absent."""

    time: int
    phase: str
    node: str
    keyspace: str
    name: str
    id: str | None
    definition: JSON


_Parse: TypeAlias = Callable[[str], JSON]
_Gone: TypeAlias = Callable[[str, frozenset[str]], frozenset[str]]


def read_final_schemas(
    observations: pa.Table,
    *,
    nodes: frozenset[str] = frozenset(),
    gone: _Gone = lambda _phase, _nodes: frozenset(),
    parse: _Parse = orjson.loads,
) -> FinalReadings:
    """Read the last complete reading of each node in each final phase.

    `nodes` are names known from the history: one without a row in a phase in which others were read is listed as unread,
    as is any node that was observed in another phase, unless it was `gone` by then (`Notes.gone`). A phase without any
    row did not take place.
    """
    of_schemas = observations.filter(pc.not_equal(observations["kind"], "data-directory"))
    known = nodes | frozenset(pc.unique(of_schemas["node"]).to_pylist())
    rows = _rows(of_schemas.filter(pc.is_in(plain(of_schemas.select(["phase"]))["phase"], value_set=pa.array(PHASES))))
    schemas: list[NodeSchema] = []
    unread: list[Unread] = []
    for phase in PHASES:
        readings: dict[str, dict[int, list[dict[str, Any]]]] = {}
        for row in rows:
            if row["phase"] == phase:
                readings.setdefault(row["node"], {}).setdefault(row["sample"], []).append(row)
        excused = gone(phase, known)
        for node in sorted(known) if readings else ():
            samples = sorted(readings.get(node, {}).values(), key=lambda sample: max(row["time"] for row in sample))
            complete = [sample for sample in samples if _is_complete(sample)]
            if complete:
                schemas.append(_schema(phase, node, complete[-1], parse))
            elif node not in excused:
                errors = [row["error"] for sample in samples for row in sample if row["error"] is not None]
                unread.append(Unread(phase, node, errors[-1] if errors else "no reading of it was recorded"))
    return FinalReadings(tuple(schemas), tuple(unread))


def read_sightings(observations: pa.Table, kind: str, *, parse: _Parse = orjson.loads) -> Iterator[Sighting]:
    """Read the observations of one kind, in every phase, in order of time."""
    for row in _rows(observations.filter(pc.equal(observations["kind"], kind))):
        definition = None if row["definition"] is None else parse(row["definition"])
        yield Sighting(
            row["time"], row["phase"], row["node"], row["keyspace"], row["name"] or "", row["id"], definition
        )


def _rows(observations: pa.Table) -> Sequence[dict[str, Any]]:
    rows: list[dict[str, Any]] = plain(observations).to_pylist()
    return rows


def _is_complete(sample: Sequence[Mapping[str, Any]]) -> bool:
    """Tell if a reading has all of the node's disk; its memory need not have been read."""
    on_disk = [row for row in sample if row["kind"] != "live"]
    return any(row["kind"] == "version" for row in on_disk) and all(row["error"] is None for row in on_disk)


def _schema(phase: str, node: str, rows: Sequence[Mapping[str, Any]], parse: _Parse) -> NodeSchema:
    parts: dict[str, dict[tuple[str, str], Any]] = {}
    version: str | None = None
    epoch: int | None = None
    source, authority, described = "disk", "disk", False
    failures = [
        row["error"] for row in rows if row["kind"] == "live" and row["definition"] is None and row["error"] is not None
    ]
    memory_error: str | None = failures[0] if failures else None
    shows_memory: str | None = None
    release: str | None = None
    live: dict[tuple[str, str, str], Live] = {}
    refusals: dict[tuple[str, str, str], str] = {}
    unanswered: set[tuple[str, str, str]] = set()
    for row in rows:
        definition = None if row["definition"] is None else parse(row["definition"])
        if row["kind"] == "version":
            version, epoch = row["id"], (definition or {}).get("epoch")
            source = (definition or {}).get("told_from", source)
            authority = _authority(definition or {})
            described = _describes_all(definition or {})
            memory_error = (definition or {}).get("memory_error", memory_error)
            shows_memory = (definition or {}).get("memory")
            release = (definition or {}).get("release")
        if definition is None:
            continue
        key = (row["keyspace"], row["name"] or "")
        if row["kind"] == "live":
            kind = kind_in_memory("live", None, definition) or ""
            subject = (kind, key[0], _bare(key[1]))
            if row["error"] is not None:
                unanswered.add(subject)
            elif "refusal" in definition:
                refusals[subject] = definition["refusal"]
            else:
                live[subject] = Live(kind, definition.get("statement"), definition.get("columns"))
        elif row["kind"] in _READERS:
            parts.setdefault(row["kind"], {})[key] = _READERS[row["kind"]](key, row["id"], definition)
    return NodeSchema(
        phase=phase,
        node=node,
        time=max(row["time"] for row in rows),
        version=version,
        epoch=epoch,
        source=source,
        keyspaces={keyspace: value for (keyspace, _), value in parts.get("keyspace", {}).items()},
        tables=parts.get("table", {}),
        views=parts.get("view", {}),
        types=parts.get("type", {}),
        functions=parts.get("function", {}),
        aggregates=parts.get("aggregate", {}),
        live={} if failures else live,
        refusals=refusals,
        unanswered=frozenset(unanswered),
        authority=authority,
        described=described and authority not in _NODES_OWN and not failures,
        shows_memory=shows_memory,
        memory_error=memory_error,
        release=release,
    )


def _describes_all(version: Mapping[str, Any]) -> bool:
    """Tell if the node described its whole memory: a system with a log of the cluster does, unless it failed."""
    return ("authority" in version or version.get("memory") == "statements") and "memory_error" not in version


def _authority(version: Mapping[str, Any]) -> str:
    """Return the authority that a version row names. Rows of 0.1 name none: it follows from what only such systems show."""
    if "authority" in version:
        return str(version["authority"])
    if version.get("told_from") == "memory":
        return "memory"
    return "disk" if version.get("epoch") is None else "log"


def _bare(name: str) -> str:
    """Strip a function's argument types and the quotes off a name from memory."""
    return name[1:].split('"', 1)[0] if name.startswith('"') else name.split("(", 1)[0]


def read_table(key: tuple[str, str], table_id: str | None, definition: Mapping[str, Any]) -> Table:
    """Read a table or a view from its definition as observed; `key` is (keyspace, name)."""
    columns = definition.get("columns") or {}
    return Table(
        keyspace=key[0],
        name=key[1],
        id=table_id,
        columns={
            name: Column(column["type"], column["kind"], _position(column["position"]))
            for name, column in columns.items()
        },
        dropped_columns=frozenset(definition.get("dropped_columns") or {}),
        options=definition.get("options") or {},
        indexes=definition.get("indexes") or {},
        base_table_id=definition.get("base_table_id"),
        base_table_name=definition.get("base_table_name"),
        definition=definition,
    )


def _position(observed: int | None) -> int:
    return -1 if observed is None else observed


def _type(_key: tuple[str, str], _id: str | None, definition: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, cql_type) for name, cql_type in definition.get("fields") or ())


def _function(_key: tuple[str, str], _id: str | None, definition: Mapping[str, Any]) -> Function:
    arguments = tuple((name, cql_type) for name, cql_type in definition.get("arguments") or ())
    return Function(arguments, definition.get("returns") or "", definition)


def _aggregate(_key: tuple[str, str], _id: str | None, definition: Mapping[str, Any]) -> Aggregate:
    return Aggregate(
        tuple(definition.get("arguments") or ()),
        definition.get("state_function"),
        definition.get("state_type"),
        definition.get("final_function"),
        definition,
    )


def _keyspace(_key: tuple[str, str], _id: str | None, definition: Mapping[str, Any]) -> Mapping[str, Any]:
    return definition


_READERS: Final = {
    "keyspace": _keyspace,
    "table": read_table,
    "view": read_table,
    "type": _type,
    "function": _function,
    "aggregate": _aggregate,
}
