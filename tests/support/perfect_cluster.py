"""A perfect cluster: schema changes take effect one after another, and every node has what came of them.

The counterpart of the damaged ones: whatever it is asked, and however late or never its answers arrive, no checker may
accuse it. Statements overlap in time as clients see it; each takes effect at one point between its two ends, and one
whose outcome stayed unknown at one point after its beginning, or never.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import orjson
import pyarrow as pa
from described import described
from hypothesis import strategies as st

from schemaquake.checkers.evidence.cql_types import user_types
from schemaquake.harness.ddl import schema_changes as ddl
from schemaquake.harness.ddl.cql import indexed_column
from schemaquake.harness.model.records import HISTORY, OBSERVATIONS, Records
from schemaquake.harness.model.steps import Invoke

NODES = ("n1", "n2", "n3")
MS = 1_000_000
EPOCH_MS = 1_795_000_000_000
"""The wall clock (ms since 1970) at which a run's own clock is 0."""
_GREGORIAN_MS = 12_219_292_800_000
DEFAULTS: Mapping[str, Any] = {
    "bloom_filter_fp_chance": 0.01,
    "caching": {"keys": "ALL", "rows_per_partition": "NONE"},
    "comment": "",
    "compaction": {
        "class": "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy",
        "max_threshold": "32",
        "min_threshold": "4",
    },
    "compression": {"chunk_length_in_kb": "16", "class": "org.apache.cassandra.io.compress.LZ4Compressor"},
    "default_time_to_live": 0,
    "flags": ["compound"],
    "gc_grace_seconds": 864000,
    "speculative_retry": "99p",
}
"""The options of a table for which no statement asked."""
_PACKAGES = {"compaction": "org.apache.cassandra.db.compaction.", "compression": "org.apache.cassandra.io.compress."}


@dataclass
class Keyspace:
    """What one keyspace holds. Tables: columns as name → [type, kind], options, indexes as name → column, id."""

    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    types: dict[str, dict[str, str]] = field(default_factory=dict)
    functions: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    aggregates: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    views: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    replication: Mapping[str, Any] = field(default_factory=dict)
    indexed: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """What each index was made as: table, column or function of one, class."""

    def uses(self, name: str) -> bool:
        """Whether anything here has that type."""
        texts = [column[0] for table in self.tables.values() for column in table["columns"].values()]
        texts += [cql_type for fields in self.types.values() for cql_type in fields.values()]
        texts += [function["returns"] for function in self.functions.values()]
        return any(name == used for text in texts for _, used in user_types(text, keyspace=""))

    def within(self, text: str) -> set[str]:
        """Every type that the text names, those of their fields and so on included."""
        named = {name for _, name in user_types(text, keyspace="")}
        inner = [cql_type for name in named for cql_type in self.types.get(name, {}).values()]
        return named.union(*map(self.within, inner))

    def knows(self, text: str) -> bool:
        """Whether every type that the text names exists."""
        return all(name in self.types for _, name in user_types(text, keyspace=""))


class PerfectCluster:
    """Carries out changes in the order of its calls; `apply` says whether it did."""

    def __init__(self) -> None:
        self.keyspaces: dict[str, Keyspace] = {}
        self.now_ms = 0
        """The time of the next change on the run's own clock; ids and drops of columns carry it."""
        self._ids = 0

    def apply(self, change: Invoke) -> bool:
        value = change.value
        name = value["keyspace"]
        if change.f == "create-keyspace":
            if name in self.keyspaces:
                return False
            self.keyspaces[name] = Keyspace(replication=value["replication"])
            return True
        if name not in self.keyspaces:
            return False
        if change.f == "drop-keyspace":
            del self.keyspaces[name]
            return True
        keyspace = self.keyspaces[name]
        done: bool = getattr(self, "_" + change.f.replace("-", "_"))(keyspace, value)
        return done

    def _alter_keyspace(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        keyspace.replication = value["replication"]
        return True

    def _create_table(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        if value["name"] in keyspace.tables or value["name"] in keyspace.views:
            return False
        if not all(keyspace.knows(column[1]) for column in value["columns"]):
            return False
        self._ids += 1
        keyspace.tables[value["name"]] = {
            "columns": {column: [cql_type, kind] for column, cql_type, kind in value["columns"]},
            "options": {**DEFAULTS, **_completed(value.get("options") or {})},
            "indexes": {},
            "dropped": {},
            "id": self._id(),
        }
        return True

    def _drop_table(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        if value["name"] not in keyspace.tables:
            return False
        if any(view["base"] == value["name"] for view in keyspace.views.values()):
            return False
        del keyspace.tables[value["name"]]
        return True

    def _add_column(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        table = keyspace.tables.get(value["name"])
        column, cql_type = value["column"]
        if table is None or column in table["columns"] or not keyspace.knows(cql_type):
            return False
        kinds = {kind for _, kind in table["columns"].values()}
        if value.get("static") and "clustering" not in kinds:
            return False
        table["columns"][column] = [cql_type, "static" if value.get("static") else "regular"]
        return True

    def _drop_column(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        table = keyspace.tables.get(value["name"])
        column = value["column"]
        if table is None or table["columns"].get(column, ["", ""])[1] not in {"regular", "static"}:
            return False
        if column in map(indexed_column, table["indexes"].values()):
            return False
        if any(view["base"] == value["name"] for view in keyspace.views.values()):
            return False
        timestamp = value.get("timestamp")  # µs; USING TIMESTAMP says when it is dropped (CASSANDRA-7190)
        at = EPOCH_MS + self.now_ms if timestamp is None else timestamp // 1000
        table["dropped"][column] = (table["columns"].pop(column)[0], at)
        return True

    def _rename_column(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        table = keyspace.tables.get(value["name"])
        if table is None or value["to"] in table["columns"]:
            return False
        if table["columns"].get(value["column"], ["", ""])[1] not in {"partition_key", "clustering"}:
            return False
        if value["column"] in table["indexes"].values():
            return False
        if any(view["base"] == value["name"] for view in keyspace.views.values()):
            return False
        table["columns"] = _renamed(table["columns"], value["column"], value["to"])
        return True

    def _alter_options(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        table = keyspace.tables.get(value["name"])
        if table is None:
            return False
        table["options"] |= _completed(value["options"])
        return True

    def _create_type(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        if value["name"] in keyspace.types or not all(keyspace.knows(cql_type) for _, cql_type in value["fields"]):
            return False
        keyspace.types[value["name"]] = dict(value["fields"])
        return True

    def _add_field(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        fields = keyspace.types.get(value["name"])
        if fields is None or value["field"][0] in fields or not keyspace.knows(value["field"][1]):
            return False
        if value["name"] in keyspace.within(value["field"][1]):
            return False
        fields[value["field"][0]] = value["field"][1]
        return True

    def _rename_field(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        fields = keyspace.types.get(value["name"])
        if fields is None or value["field"] not in fields or value["to"] in fields:
            return False
        keyspace.types[value["name"]] = _renamed(fields, value["field"], value["to"])
        return True

    def _drop_type(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        if value["name"] not in keyspace.types or keyspace.uses(value["name"]):
            return False
        del keyspace.types[value["name"]]
        return True

    def _create_function(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        if value["name"] in keyspace.functions and not value.get("or_replace"):
            return False
        if not keyspace.knows(value["returns"]):
            return False
        keyspace.functions[value["name"]] = value
        return True

    def _drop_function(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        if any(aggregate["state_function"] == value["name"] for aggregate in keyspace.aggregates.values()):
            return False
        return keyspace.functions.pop(value["name"], None) is not None

    def _create_aggregate(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        function = keyspace.functions.get(value["state_function"])
        if value["name"] in keyspace.aggregates or function is None or function["returns"] != value["state_type"]:
            return False
        keyspace.aggregates[value["name"]] = value
        return True

    def _drop_aggregate(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        return keyspace.aggregates.pop(value["name"], None) is not None

    def _create_view(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        table = keyspace.tables.get(value["base"])
        if table is None or value["name"] in keyspace.views or value["name"] in keyspace.tables:
            return False
        if not all(column in table["columns"] for column in value["primary_key"]):
            return False
        if any(kind == "static" for _, kind in table["columns"].values()):
            return False
        if any(table["columns"][column][0].startswith(("list<", "set<", "map<")) for column in value["primary_key"]):
            return False
        self._ids += 1
        keyspace.views[value["name"]] = {**value, "id": self._id()}
        return True

    def _id(self) -> str:
        """A time uuid of this moment."""
        ticks = (EPOCH_MS + _GREGORIAN_MS + self.now_ms) * 10_000 + self._ids
        return f"{ticks & 0xFFFFFFFF:08x}{ticks >> 32 & 0xFFFF:04x}1{ticks >> 48:03x}8000{self._ids:012x}"

    def _alter_view(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        view = keyspace.views.get(value["name"])
        if view is None:
            return False
        keyspace.views[value["name"]] = {**view, "options": {**view.get("options", {}), **value["options"]}}
        return True

    def _drop_view(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        return keyspace.views.pop(value["name"], None) is not None

    def _create_index(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        table = keyspace.tables.get(value["table"])
        column = indexed_column(value["column"])
        if table is None or table["columns"].get(column, ["", ""])[1] not in {"regular", "static", "clustering"}:
            return False
        if not _can_be_indexed(table["columns"][column][0], value["column"].removesuffix(f"({column})")):
            return False
        if any(value["name"] in other["indexes"] for other in keyspace.tables.values()):
            return False
        alike = (value["table"], value["column"], value.get("using"))
        if any(keyspace.indexed.get(name) == alike for name in table["indexes"]):
            return False
        table["indexes"][value["name"]] = value["column"]
        keyspace.indexed[value["name"]] = alike
        return True

    def _drop_index(self, keyspace: Keyspace, value: Mapping[str, Any]) -> bool:
        return any(table["indexes"].pop(value["name"], None) for table in keyspace.tables.values())

    # ── what a node tells ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def version(self) -> str:
        """A digest of everything."""
        objects = [[name, _objects(keyspace)] for name, keyspace in sorted(self.keyspaces.items())]
        return str(uuid5(NAMESPACE_OID, orjson.dumps(objects).decode()))

    def rows(self, node: str, phase: str, sample: int, time: int) -> list[dict[str, Any]]:
        """Everything, as one reading of one node."""
        told: list[tuple[str, str | None, str | None, str | None, Any]] = [
            ("version", None, None, self.version, {"epoch": None, "memory": "statements"})
        ]
        for name, keyspace in self.keyspaces.items():
            told += _told(name, keyspace)
        return [
            {
                "time": time,
                "phase": phase,
                "node": node,
                "sample": sample,
                "kind": kind,
                "keyspace": keyspace,
                "name": name,
                "id": identity,
                "definition": orjson.dumps(definition).decode(),
                "error": None,
            }
            for kind, keyspace, name, identity, definition in told
        ]


def _renamed(parts: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    return {new if name == old else name: entry for name, entry in parts.items()}


def _completed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as schema tables have them: maps with every key that has a default, and classes with their packages."""
    return {
        name: _completed_map(name, entry) if isinstance(entry, Mapping) else entry for name, entry in options.items()
    }


def _completed_map(option: str, given: Mapping[str, Any]) -> dict[str, str]:
    shown = {key: str(entry) for key, entry in given.items()}
    if "class" in shown and "." not in shown["class"]:
        shown["class"] = _PACKAGES.get(option, "") + shown["class"]
    default = DEFAULTS.get(option, {})
    alike = isinstance(default, Mapping) and shown.get("class", default.get("class")) == default.get("class")
    return {**default, **shown} if alike else shown


def _told(name: str, keyspace: Keyspace) -> list[tuple[str, str | None, str | None, str | None, Any]]:
    told: list[tuple[str, str | None, str | None, str | None, Any]] = []
    for kind, within, identity, definition in _objects(keyspace):
        told.append((kind, name, within, identity, definition))
        for live, live_name, text in described(kind, name, within or "", definition):
            told.append(("live", name, live_name, None, {"kind": live, "statement": text}))
    return told


def _objects(keyspace: Keyspace) -> list[tuple[str, str | None, str | None, Any]]:
    """(kind, name, id, definition) of everything that is on disk."""
    replication = {key: str(entry) for key, entry in keyspace.replication.items()}
    found: list[tuple[str, str | None, str | None, Any]] = [
        ("keyspace", None, None, {"replication": replication, "durable_writes": True})
    ]
    found += [("table", name, table["id"], _table(table)) for name, table in keyspace.tables.items()]
    found += [
        ("type", name, None, {"fields": list(map(list, fields.items()))}) for name, fields in keyspace.types.items()
    ]
    for kind, routines, parts in (
        ("function", keyspace.functions, ("arguments", "returns", "body")),
        ("aggregate", keyspace.aggregates, ("arguments", "state_function", "state_type", "final_function")),
    ):
        found += [(kind, name, None, {part: asked.get(part) for part in parts}) for name, asked in routines.items()]
    found += [("view", name, view["id"], _view(view, keyspace)) for name, view in keyspace.views.items()]
    return found


def _view(view: Mapping[str, Any], keyspace: Keyspace) -> dict[str, Any]:
    base = keyspace.tables[view["base"]]
    key = view["primary_key"]
    kinds = {column: "clustering" if place else "partition_key" for place, column in enumerate(key)}
    others = [name for name, (_, kind) in base["columns"].items() if name not in key and kind != "static"]
    ordered = [*key, *others]  # a view has no static columns
    columns = {column: [base["columns"][column][0], kinds.get(column, "regular")] for column in ordered}
    where = " AND ".join(f"{column} IS NOT NULL" for column in key)
    options = {name: value for name, value in DEFAULTS.items() if name not in {"flags", "default_time_to_live"}}
    options |= _completed(view.get("options", {}))
    options |= {"include_all_columns": True, "where_clause": where}
    definition = _table({"columns": columns, "dropped": {}, "indexes": {}, "options": options})
    return {**definition, "base_table_id": base["id"], "base_table_name": view["base"]}


def _can_be_indexed(cql_type: str, function: str) -> bool:
    """Tell if an index can be on this function of a column: keys of a map, the whole of a frozen collection and of nothing else."""
    match function:
        case "keys" | "entries":
            return cql_type.startswith("map<")
        case "full":
            return cql_type.startswith(("frozen<list<", "frozen<set<", "frozen<map<"))
    return True  # servers refuse it for a frozen collection, and CREATE INDEX IF NOT EXISTS is still written so


def _table(table: Mapping[str, Any]) -> dict[str, Any]:
    positions = {"partition_key": 0, "clustering": 0}
    columns: dict[str, dict[str, Any]] = {}
    for column, (cql_type, kind) in table["columns"].items():
        columns[column] = {"type": cql_type, "kind": kind, "position": positions.get(kind, -1)}
        if kind == "clustering":
            columns[column]["order"] = "asc"
        if kind in positions:
            positions[kind] += 1
    return {
        "columns": columns,
        "dropped_columns": {name: {"type": t, "dropped_time": at} for name, (t, at) in table["dropped"].items()},
        "options": table["options"],
        "indexes": {index: {"kind": "COMPOSITES", "target": column} for index, column in table["indexes"].items()},
    }


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Request:
    """One statement of a run: how long before and after its point (ms) it began and was answered, and how it went."""

    change: Invoke
    before: int
    after: int
    fate: str
    """answered, refused, unknown (it took effect), never (it took none), late (given up before it took effect)."""
    sampled: int
    """Which nodes the observer looked at just then, as a bit set."""


def run(requests: Sequence[Request]) -> Records:
    """The records of a run in which request i takes effect at (i + 1) · 100 ms, if it does."""
    cluster = PerfectCluster()
    events: list[tuple[int, int, dict[str, Any]]] = []
    rows: list[dict[str, Any]] = []
    for number, request in enumerate(requests):
        point = (number + 1) * 100
        cluster.now_ms = point
        did = request.fate not in {"refused", "never"} and cluster.apply(request.change)
        events += _ends(number, request, point, did=did)
        for bit, node in enumerate(NODES):
            if request.sampled & (1 << bit):
                rows += cluster.rows(node, "running", number, (point + bit) * MS)
    for sample, (phase, at) in enumerate((("settled", 100_000), ("restarted", 200_000)), len(requests)):
        for node in NODES:
            rows += cluster.rows(node, phase, sample, at * MS)
    events.sort(key=lambda event: event[:2])
    history = [{**event, "index": index, "time": time * MS} for index, (time, _, event) in enumerate(events)]
    rows.sort(key=lambda row: (row["time"], row["node"]))
    return Records.of(pa.Table.from_pylist(history, schema=HISTORY), pa.Table.from_pylist(rows, schema=OBSERVATIONS))


def _ends(number: int, request: Request, point: int, *, did: bool) -> list[tuple[int, int, dict[str, Any]]]:
    change = request.change
    guarded = change.value.get("if_not_exists") or change.value.get("if_exists")
    outcome = {"unknown": "info", "never": "info", "late": "info", "refused": "fail"}.get(request.fate)
    value: Any = change.value
    if outcome is None:
        outcome = "ok" if did or guarded else "fail"
        value = {**change.value, "applied": did} if guarded else change.value
    event = {
        "process": number,
        "f": change.f,
        "node": NODES[number % 3],
        "key": change.key,
        "error": "refused" if outcome == "fail" else None,
        "mops": None,
    }
    answered = point - request.before + 1 if request.fate == "late" else point + request.after
    told = orjson.dumps(value).decode() if outcome == "ok" else None
    return [
        (point - request.before, 0, {**event, "type": "invoke", "value": orjson.dumps(change.value).decode()}),
        (answered, 1, {**event, "type": outcome, "value": told}),
    ]


def changes() -> st.SearchStrategy[Invoke]:
    """Schema changes over so few names that they meet all the time."""
    keyspace, table = st.sampled_from(["k", "k", "k", "l"]), st.sampled_from(["t", "t", "s"])
    column, cql_type = st.sampled_from(["c", "d", "e"]), st.sampled_from(["int", "frozen<u>", "list<frozen<u>>"])
    guard = st.booleans()
    columns = st.lists(st.tuples(column, cql_type, st.just("regular")), max_size=2, unique_by=lambda c: c[0])
    key = st.sampled_from(["a", "b"]).map(lambda name: [(name, "int", "partition_key")])
    declared = st.builds(lambda k, c: [*k, *c], key, columns)
    options = st.sampled_from([{"comment": "x"}, {"comment": "y"}, {"gc_grace_seconds": 10}])
    function = {"arguments": [["s", "int"]], "returns": "int", "body": "return s;"}
    state = {"arguments": ["int"], "state_function": "f", "state_type": "int"}
    kinds = (
        st.builds(ddl.create_keyspace, keyspace, replication_factor=st.sampled_from([1, 3]), if_not_exists=guard),
        st.builds(ddl.alter_keyspace, keyspace, replication_factor=st.sampled_from([1, 2, 3])),
        st.builds(ddl.drop_keyspace, keyspace, if_exists=guard),
        st.builds(ddl.create_table, keyspace, table, columns=declared, options=options, if_not_exists=guard),
        st.builds(ddl.drop_table, keyspace, table, if_exists=guard),
        st.builds(ddl.add_column, keyspace, table, column, cql_type),
        st.builds(ddl.drop_column, keyspace, table, column),
        st.builds(ddl.rename_column, keyspace, table, st.just("a"), st.sampled_from(["b", "c"])),
        st.builds(ddl.alter_options, keyspace, table, options),
        st.builds(ddl.create_type, keyspace, st.just("u"), fields=st.just([("f0", "int")]), if_not_exists=guard),
        st.builds(ddl.add_field, keyspace, st.just("u"), st.sampled_from(["f1", "f2"]), st.just("int")),
        st.builds(ddl.rename_field, keyspace, st.just("u"), st.just("f1"), st.sampled_from(["f2", "f3"])),
        st.builds(ddl.drop_type, keyspace, st.just("u"), if_exists=guard),
        st.builds(lambda k, again: ddl.create_function(k, "f", **function, or_replace=again), keyspace, guard),
        st.builds(ddl.drop_function, keyspace, st.just("f")),
        st.builds(lambda k: ddl.create_aggregate(k, "g", **state), keyspace),
        st.builds(ddl.drop_aggregate, keyspace, st.just("g")),
        st.builds(ddl.create_view, keyspace, st.just("m"), base=table, primary_key=st.just(["c", "a"])),
        st.builds(ddl.alter_view, keyspace, st.just("m"), options),
        st.builds(ddl.drop_view, keyspace, st.just("m")),
        st.builds(ddl.create_index, keyspace, st.sampled_from(["i", "j"]), table=table, column=column),
        st.builds(ddl.drop_index, keyspace, st.sampled_from(["i", "j"])),
    )
    # Not one_of: it would try the first kinds far more often than the last.
    return st.integers(0, len(kinds) - 1).flatmap(lambda number: kinds[number])


def runs() -> st.SearchStrategy[Records]:
    """Runs of up to forty statements that begin with a table and a type, so that most find something to do."""
    fates = ["answered"] * 6 + ["refused", "unknown", "never", "late"]
    span = st.integers(min_value=2, max_value=350)
    request = st.builds(Request, changes(), span, span, st.sampled_from(fates), st.integers(0, 7))
    columns = [("a", "int", "partition_key"), ("c", "int", "regular"), ("d", "frozen<u>", "regular")]
    opening = [
        Request(change, 2, 2, "answered", 7)
        for change in (
            ddl.create_keyspace("k", replication_factor=3),
            ddl.create_type("k", "u", fields=[("f0", "int")]),
            ddl.create_table("k", "t", columns=columns),
        )
    ]
    return st.lists(request, min_size=8, max_size=40).map(lambda requests: run([*opening, *requests]))
