"""Authority: the schema that decides, where what a node has on disk is only a copy of it.

Where one log of changes decides for the whole cluster (Cassandra 6.0, ScyllaDB), the schema is what the log's newest
state says. A node applies the log to its memory and writes `system_schema` for clients. So there the newest memory is
judged, and a copy on disk that differs from it is a finding of its own; whatever else would follow from reading that
copy (a lost column, two ids, a dangling type) is not true of the schema. In every other system each node's own disk, or
its memory where the disk cannot be read, decides, and readings are judged as they are.

- A node that has not applied the newest state yet is no witness of it: its reading is left out, for its version differs.
- Where no node's memory was observed, or it was not understood, the copies are the best witness, and stay as they are.
- Memory shows no ids and no dropped columns. Copies of one object that differ in such things are distinguished by majority.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import orjson

from schemaquake.checkers.evidence.cql_types import canonical
from schemaquake.checkers.evidence.node_schemas import (
    Aggregate,
    Column,
    FinalReadings,
    Function,
    NodeSchema,
    Table,
)
from schemaquake.checkers.evidence.option_values import can_be
from schemaquake.checkers.evidence.statements import Statement, parse_statement
from schemaquake.harness.model.operation import JSON

__all__ = ["Judged", "StaleObject", "describe_difference", "judge_by_authority"]

_Key: TypeAlias = tuple[str, str, str]
"""(kind, keyspace, name); the name of a keyspace is ""."""
_Memory: TypeAlias = Mapping[_Key, Statement]
_Difference: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
"""The text and the parts of a `StaleObject`."""

_KINDS: Final = frozenset({"keyspace", "table", "view", "type", "function", "aggregate", "index"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleObject:
    """One object whose copy on a node's disk is not what the cluster's log says.

    `copy` and `authority` are the two definitions, null where there is no such object; `text` is what a reader of the
    copy sees: "has no column c". `parts` are the parts that differ, as (column, option, field …, name); none: the whole.
    """

    phase: str
    node: str
    kind: str
    keyspace: str
    name: str
    copy: JSON
    authority: JSON
    text: str
    parts: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """The object's name in verdicts."""
        return f"{self.keyspace}.{self.name}" if self.name else self.keyspace


@dataclass(frozen=True, slots=True)
class Judged:
    """The readings by which the schema is judged, and the copies that differ from them."""

    readings: FinalReadings
    stale: tuple[StaleObject, ...] = ()


def judge_by_authority(shown: FinalReadings) -> Judged:
    """Replace copies by what the cluster's log says, where there is such a log."""
    if not any(schema.follows_log for schema in shown.schemas):
        return Judged(shown)
    schemas: list[NodeSchema] = []
    stale: list[StaleObject] = []
    for phase in shown.phases:
        judged, found = _judge_phase(shown.of(phase))
        schemas += judged
        stale += found
    return Judged(FinalReadings(tuple(schemas), shown.unread), tuple(stale))


def _judge_phase(schemas: Sequence[NodeSchema]) -> tuple[Sequence[NodeSchema], Sequence[StaleObject]]:
    logged = [schema for schema in schemas if schema.follows_log]
    newest = _newest(logged)
    memories = {schema.node: memory for schema in newest if (memory := _memory(schema)) is not None}
    if not memories:
        return schemas, ()
    agreed = next(iter(memories.values()))
    unanimous = all(memory == agreed for memory in memories.values())
    judged: list[NodeSchema] = [schema for schema in schemas if not schema.follows_log]
    stale: list[StaleObject] = []
    for schema in newest:
        memory = memories.get(schema.node, agreed if unanimous else None)
        if memory is None:
            judged.append(schema)
            continue
        found = list(_differences(schema, memory))
        stale += found
        judged.append(_correct(schema, memory, found))
    if unanimous:
        known = {(each.node, each.kind, each.keyspace, each.name) for each in stale}
        lacking = {(schema.node, *key) for schema in newest for key in agreed.keys() - schema.stored().keys()}
        judged, apart = _tell_copies_apart(judged, known | lacking)
        stale += apart
    return sorted(judged, key=lambda schema: schema.node), stale


def _newest(schemas: Sequence[NodeSchema]) -> Sequence[NodeSchema]:
    """Return the readings of the newest state. An epoch may also count changes that are none of the schema."""
    newest = max((schema.epoch for schema in schemas if schema.epoch is not None), default=None)
    versions = {schema.version for schema in schemas if schema.epoch == newest}
    return [schema for schema in schemas if schema.version in versions]


def _memory(schema: NodeSchema) -> _Memory | None:
    """Parse a node's memory; None if it was not observed, or something in it is not understood."""
    if not schema.remembers or schema.unanswered or schema.refusals:
        return None
    memory: dict[_Key, Statement] = {}
    for key, live in schema.live.items():
        if key[0] not in _KINDS:
            continue
        statement = None if live.statement is None else parse_statement(key[0], live.statement)
        if statement is None:
            return None
        memory[key] = statement
    return memory


# ── one copy and its authority ───────────────────────────────────────────────────────────────────────────────────────


def _differences(schema: NodeSchema, memory: _Memory) -> Iterator[StaleObject]:
    """List the objects whose copy is not what this memory says; not those that go with a whole keyspace or table."""
    copies = frozenset(schema.objects())
    remembered = frozenset(memory) - schema.derived
    on_one_side = copies ^ remembered
    for key in sorted(copies | remembered):
        kind, keyspace, name = key
        if kind != "keyspace" and {key, ("keyspace", keyspace, "")} <= on_one_side:
            continue
        statement = memory.get(key)
        if key not in copies:
            found: _Difference | None = ("is not there", ())
        elif statement is None:
            found = ("is still there", ())
        else:
            found = describe_difference(key, schema, statement)
        if found is not None:
            yield StaleObject(
                phase=schema.phase,
                node=schema.node,
                kind=kind,
                keyspace=keyspace,
                name=name,
                copy=_row(schema, key) if key in copies else None,
                authority=None if statement is None else dict(statement.definition),
                text=found[0],
                parts=found[1],
            )


def _row(schema: NodeSchema, key: _Key) -> JSON:
    if key[0] != "index":
        return schema.stored().get(key)
    return {table.name: dict(table.indexes[key[2]]) for table in _owners(schema, key)}


def _owners(schema: NodeSchema, key: _Key) -> Sequence[Table]:
    return [table for (keyspace, _), table in schema.tables.items() if keyspace == key[1] and key[2] in table.indexes]


def describe_difference(
    key: tuple[str, str, str], schema: NodeSchema, statement: Statement
) -> tuple[str, tuple[tuple[str, str], ...]] | None:
    """Describe how the object on the node's disk differs from the statement by which memory shows it; None if it does not.

    `key` is (kind, keyspace, name), the name of a keyspace being "". Returns the text and the parts of a `StaleObject`. What only
    one of the two shows is not compared.
    """
    place, wanted = key[1:], statement.definition
    if (statement.keyspace or key[1], statement.name) != place:
        return f"is described under the name {statement.keyspace}.{statement.name}", ()
    match key[0]:
        case "keyspace":
            # A statement that spells any option of a keyspace spells both that every keyspace has.
            spelled = {**dict.fromkeys(("replication", "durable_writes"), "none"), **wanted} if wanted else {}
            return _differs_in("replication", schema.keyspaces[key[1]], spelled)
        case "table":
            return _table_difference(schema.tables[place], wanted)
        case "view":
            view = schema.views[place]
            keys = {name: (column["kind"], column["position"]) for name, column in wanted["columns"].items()}
            shown = {name: (c.kind, c.position) for name, c in view.columns.items() if c.kind in _KEY_KINDS}
            if view.base_table_name != wanted["base_table_name"]:
                return f"is a view of {view.base_table_name}", ()
            if keys != shown:
                return "has another key", ()
            return (
                _where_difference(view, wanted)
                or _selection_difference(view, wanted)
                or _order_difference(view, wanted)
                or _differs_in("option", {**view.options, "where_clause": None}, wanted["options"])
            )
        case "type":
            fields = [(name, canonical(cql_type)) for name, cql_type in schema.types[place]]
            return _parts_difference("field", fields, [(name, canonical(t)) for name, t in wanted["fields"]])
        case "function":
            return _differs_in("routine", _plain(schema.functions[place].definition), _plain(wanted))
        case "aggregate":
            return _differs_in("routine", _plain(schema.aggregates[place].definition), _plain(wanted))
        case _:
            return _index_difference(key[2], _owners(schema, key), wanted)


_KEY_KINDS: Final = frozenset({"partition_key", "clustering"})
_REGULAR: Final = {"kind": "regular", "position": -1}


def _table_difference(table: Table, wanted: Mapping[str, Any]) -> _Difference | None:
    if table.headless:
        return "is half a table", ()
    shown = [
        (name, _spelled(column.type), *_place(column.kind, column.position)) for name, column in table.columns.items()
    ]
    declared = [
        (name, _spelled(column["type"]), *_place(column["kind"], column["position"]))
        for name, column in wanted["columns"].items()
        # A statement for restoring a table may declare dropped columns too, so as to drop them again.
        if name in table.columns or name not in table.dropped_columns
    ]
    return (
        _parts_difference("column", sorted(shown), sorted(declared))
        or _order_difference(table, wanted)
        or _id_difference(table, wanted)
        or _differs_in("option", table.options, wanted["options"])
    )


def _where_difference(view: Table, wanted: Mapping[str, Any]) -> _Difference | None:
    """Compare the condition of a view without quotes, spaces and the order of its parts, where both sides show it."""
    sides = [options.get("where_clause") for options in (view.options, wanted["options"])]
    conditions = [sorted(_bare(part) for part in re.split(r"\bAND\b", str(side))) for side in sides]
    if None in sides or conditions[0] == conditions[1]:
        return None
    return "has another condition", (("option", "where_clause"),)


def _selection_difference(view: Table, wanted: Mapping[str, Any]) -> _Difference | None:
    """Compare the columns of a view with those that its statement selects, where it names them one by one."""
    if "selected" not in wanted or not view.columns:
        return None
    return _parts_difference(
        "column", sorted((name,) for name in view.columns), sorted((name,) for name in wanted["selected"])
    )


def _id_difference(table: Table, wanted: Mapping[str, Any]) -> _Difference | None:
    shown = wanted["options"].get("id")
    if shown is None or table.id is None:
        return None
    spelled = f"{shown:032x}" if isinstance(shown, int) else str(shown).replace("-", "")
    return None if spelled == table.id else (f"has the id {table.id}", ())


def _order_difference(table: Table, wanted: Mapping[str, Any]) -> _Difference | None:
    """Compare the order of clustering columns, where both sides tell it."""
    declared = wanted["options"].get("clustering_order") or {}
    shown = {name: column.get("order") for name, column in table.definition["columns"].items() if column.get("order")}
    if not declared or not shown:
        return None
    other = sorted(name for name in declared.keys() | shown.keys() if declared.get(name) != shown.get(name))
    return (f"has another order of {' and '.join(other)}", tuple(("column", name) for name in other)) if other else None


def _index_difference(name: str, owners: Sequence[Table], wanted: Mapping[str, Any]) -> _Difference | None:
    if [table.name for table in owners] != [wanted["table"]]:
        return f"is on {' and '.join(table.name for table in owners)}", ()
    (owner,) = owners
    target = owner.indexes[name].get("target")
    return None if _bare(target) == _bare(wanted["target"]) else (f"is on {target}", ())


def _bare(written: Any) -> str:
    """Spell the target of an index, or a part of a condition, without quotes and spaces."""
    return re.sub(r'[\s"]', "", str(written))


def _place(kind: str, position: int) -> tuple[str, ...]:
    return (kind, str(position)) if kind in _KEY_KINDS else (kind,)


def _spelled(cql_type: str) -> str:
    return "" if "org.apache" in cql_type else canonical(cql_type)


def _parts_difference(
    part: str, shown: Sequence[tuple[Any, ...]], declared: Sequence[tuple[Any, ...]]
) -> _Difference | None:
    if shown == declared:
        return None
    names, wanted = [entry[0] for entry in shown], [entry[0] for entry in declared]
    lacking, extra = [n for n in wanted if n not in names], [n for n in names if n not in wanted]
    texts = [f"has no {part} {name}" for name in lacking] + [f"still has {part} {name}" for name in extra]
    changed = [entry[0] for entry in shown if entry not in declared and entry[0] in wanted]
    texts += [f"has another definition of {part} {name}" for name in changed]
    if not texts:
        return f"has its {part}s in another order", ()
    return " and ".join(texts), tuple((part, name) for name in (*lacking, *extra, *changed))


def _list_other_values(shown: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """List the names that both sides have, with values that cannot be the same."""
    return [
        name
        for name, value in wanted.items()
        if name in shown and shown[name] is not None and not _are_alike(shown[name], value)
    ]


def _are_alike(shown: JSON, described: JSON) -> bool:
    return can_be(shown, described) and can_be(described, shown)


def _plain(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Spell types in one way, and functions without keyspace and arguments."""
    found = dict(definition)
    for name in ("returns", "state_type"):
        if isinstance(found.get(name), str):
            found[name] = canonical(found[name])
    for name in ("state_function", "final_function"):
        if isinstance(found.get(name), str):
            found[name] = found[name].rpartition(".")[2].partition("(")[0].strip('"')
    found["arguments"] = [
        canonical(entry) if isinstance(entry, str) else f"{entry[0]} {canonical(entry[1])}"
        for entry in found.get("arguments") or ()
    ]
    return found


def _differs_in(part: str, shown: Mapping[str, Any], wanted: Mapping[str, Any]) -> _Difference | None:
    names = sorted(_list_other_values(shown, wanted))
    if not names:
        return None
    parts = tuple((part, name if part == "option" else "") for name in names)
    return f"has another value of {' and '.join(names)}", parts


# ── the schema that decides ──────────────────────────────────────────────────────────────────────────────────────────


def _correct(schema: NodeSchema, memory: _Memory, stale: Iterable[StaleObject]) -> NodeSchema:
    """Return the node's schema as its memory has it: the rows of its copy, and statements in place of stale rows."""
    wrong = {(found.kind, found.keyspace, found.name) for found in stale}
    if not wrong:
        return schema
    copies = frozenset(schema.objects())
    copied = _rows_of(schema)
    parts: dict[str, dict[Any, Any]] = {kind: {} for kind in copied}
    for kind, rows in copied.items():
        for key, row in rows.items():
            whole = (kind, key, "") if kind == "keyspace" else (kind, *key)
            if (whole in memory and whole not in wrong) or whole in schema.derived:
                parts[kind][key] = row
    for whole, statement in memory.items():
        kind, keyspace, name = whole
        key = keyspace if kind == "keyspace" else (keyspace, name)
        if kind != "index" and (whole in wrong or whole not in copies):
            parts[kind][key] = _described(statement, memory)
    indexes = _indexes(memory)
    tables = {
        key: replace(
            table,
            indexes={
                name: row if ("index", key[0], name) in wrong else table.indexes.get(name, row)
                for name, row in indexes.get(key, {}).items()
            },
        )
        for key, table in parts["table"].items()
    }
    views = {key: _with_its_base(key, view, schema, tables) for key, view in parts["view"].items()}
    return _with_rows(schema, {**parts, "table": tables, "view": views})


def _with_its_base(
    key: tuple[str, str], view: Table, schema: NodeSchema, judged: Mapping[tuple[str, str], Table]
) -> Table:
    """Return a view that selects every column with those of its base in memory, where the base's copy was replaced.

    Its statement names no columns, so its row is not stale by itself: it shows what the base's row of the same reading does.
    A row that shows anything else stays as it is, to be judged.
    """
    place = (key[0], view.base_table_name or "")
    copy, base = schema.tables.get(place), judged.get(place)
    if copy is None or base is None:
        return view
    shown, of_copy, of_base = (
        {name: column.type for name, column in table.columns.items() if column.kind != "static"}
        for table in (view, copy, base)
    )
    if not view.options.get("include_all_columns") or shown != of_copy:
        return view
    described = view.definition["columns"]
    columns = {name: {**described.get(name, _REGULAR), "type": cql_type} for name, cql_type in of_base.items()}
    return replace(
        view,
        columns={name: Column(c["type"], c["kind"], c["position"]) for name, c in columns.items()},
        definition={**view.definition, "columns": columns},
    )


def _rows_of(schema: NodeSchema) -> Mapping[str, Mapping[Any, Any]]:
    return {
        "keyspace": schema.keyspaces,
        "table": schema.tables,
        "view": schema.views,
        "type": schema.types,
        "function": schema.functions,
        "aggregate": schema.aggregates,
    }


def _with_rows(schema: NodeSchema, rows: Mapping[str, Mapping[Any, Any]]) -> NodeSchema:
    """Return the schema with other objects of these kinds."""
    changes: dict[str, Any] = {f"{kind}s": of_kind for kind, of_kind in rows.items()}
    return replace(schema, **changes)


def _indexes(memory: _Memory) -> Mapping[tuple[str, str], Mapping[str, Mapping[str, JSON]]]:
    found: dict[tuple[str, str], dict[str, Mapping[str, JSON]]] = {}
    for (kind, keyspace, name), statement in memory.items():
        if kind == "index":
            owner = (keyspace, str(statement.definition["table"]))
            found.setdefault(owner, {})[name] = {"kind": None, "target": statement.definition["target"]}
    return found


def _described(statement: Statement, memory: _Memory) -> Any:
    """Make the value that `NodeSchema` holds of such an object."""
    definition = statement.definition
    match statement.kind:
        case "keyspace":
            return dict(definition)
        case "type":
            return tuple((name, cql_type) for name, cql_type in definition["fields"])
        case "function":
            arguments = tuple((name, cql_type) for name, cql_type in definition["arguments"])
            return Function(arguments, definition["returns"], definition)
        case "aggregate":
            return Aggregate(
                tuple(definition["arguments"]),
                definition["state_function"],
                definition["state_type"],
                definition["final_function"],
                definition,
            )
        case "view":
            columns = _columns_of_view(statement, memory)
        case _:
            columns = {name: dict(column) for name, column in definition["columns"].items()}
    order = definition["options"].get("clustering_order") or {}
    for name, column in columns.items():
        if column["kind"] == "clustering":
            column["order"] = str(order.get(name, "asc")).lower()
    return Table(
        keyspace=statement.keyspace,
        name=statement.name,
        id=None,
        columns={name: Column(c["type"], c["kind"], c["position"]) for name, c in columns.items()},
        dropped_columns=frozenset(),
        options=definition["options"],
        indexes={},
        base_table_id=None,
        base_table_name=definition.get("base_table_name"),
        definition={**definition, "columns": columns},
        described=True,
    )


def _columns_of_view(statement: Statement, memory: _Memory) -> dict[str, dict[str, Any]]:
    """Return the columns of a view with the types that those of its base have; none where memory has no such base."""
    definition = statement.definition
    base = memory.get(("table", statement.keyspace, str(definition["base_table_name"])))
    if base is None:
        return {}
    described, key = base.definition["columns"], definition["columns"]
    chosen = definition.get("selected", described)
    return {n: {"type": c["type"], **key.get(n, _REGULAR)} for n, c in described.items() if n in chosen}


# ── what memory does not show ────────────────────────────────────────────────────────────────────────────────────────


def _tell_copies_apart(
    schemas: Sequence[NodeSchema], known: set[tuple[str, ...]]
) -> tuple[list[NodeSchema], Sequence[StaleObject]]:
    """Find copies of one object that differ although all memories are the same.

    At most one of them is what the log says: that of most nodes; where there is none such, it is not known which. `known`
    are (node, *key) of copies that are known to be stale, or that the node does not have.
    """
    judged = {schema.node: schema for schema in schemas}
    stale: list[StaleObject] = []
    for key in sorted({key for schema in schemas for key in schema.stored()}):
        rows = {
            schema.node: row
            for schema in schemas
            if (schema.node, *key) not in known and (row := schema.stored().get(key)) is not None
        }
        texts = {node: _text(row) for node, row in rows.items()}
        counts = Counter(texts.values())
        if len(counts) < 2:
            continue
        (most, number), *_ = counts.most_common()
        holder = next(node for node, text in texts.items() if text == most) if number * 2 > len(rows) else None
        right = None if holder is None else rows[holder]
        for node, row in rows.items():
            if holder is not None and texts[node] == most:
                continue
            other = next(r for n, r in rows.items() if texts[n] != texts[node]) if holder is None else right
            kind, keyspace, name = key
            stale.append(
                StaleObject(
                    phase=judged[node].phase,
                    node=node,
                    kind=kind,
                    keyspace=keyspace,
                    name=name,
                    copy=row,
                    authority=right,
                    text=_other_parts(row, other),
                    parts=_list_parts(row, other),
                )
            )
        for node in rows:
            judged[node] = _as_another(judged[node], key, None if holder is None else judged[holder])
    return list(judged.values()), stale


def _text(row: JSON) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_SORT_KEYS)


def _other_parts(row: JSON, other: JSON) -> str:
    if not isinstance(row, dict):
        return "differs from the copies on other nodes"
    parts = [
        f"its {name.replace('_', ' ')}" if name in _NAMED_PARTS else f"its properties under {name}"
        for name in _list_differing(row, other)
    ]
    return f"differs from the copies on other nodes in {' and '.join(parts)}"


def _list_parts(row: JSON, other: JSON) -> tuple[tuple[str, str], ...]:
    """List the parts in which two rows differ; none: they differ in something that belongs to the object as a whole."""
    names = _list_differing(row, other) if isinstance(row, dict) else []
    if not set(names) <= _PART_OF.keys():
        return ()
    return tuple(
        (_PART_OF[name], part) for name in names for part in _list_differing(row.get(name) or {}, other.get(name) or {})
    )


def _list_differing(one: Mapping[str, JSON], two: Mapping[str, JSON]) -> Sequence[str]:
    """List the names under which two maps have different values, where one that a map lacks counts as null."""
    return sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))


_NAMED_PARTS: Final = frozenset(
    {
        *("id", "columns", "dropped_columns", "options", "indexes", "base_table_id", "base_table_name"),
        *(
            "replication",
            "durable_writes",
            "arguments",
            "returns",
            "body",
            "state_function",
            "state_type",
            "final_function",
        ),
    }
)
"""The parts of definitions whose names are words; others are names of the system's own."""
_PART_OF: Final = {"columns": "column", "dropped_columns": "column", "options": "option", "indexes": "index"}


def _as_another(schema: NodeSchema, key: _Key, holder: NodeSchema | None) -> NodeSchema:
    """Return the schema with that object as `holder` has it; None: of a table, without its id."""
    kind = key[0]
    place: Any = key[1] if kind == "keyspace" else key[1:]
    rows = _rows_of(schema)[kind]
    if holder is not None:
        row = _rows_of(holder)[kind][place]
    elif kind in {"table", "view"}:
        row = replace(rows[place], id=None, described=True)
    else:
        return schema
    return _with_rows(schema, {kind: {**rows, place: row}})
