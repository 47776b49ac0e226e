"""Lying clusters: a simulated cluster without a flaw that lies as a whole about one schema change, in a run with faults.

The change is chosen by its number, in the order in which servers are asked. From its moment on, or from the end of the main phase or
the restart on, all that nodes do, show and keep follows the lie: disks, memories, logs and later changes fit together. Whether that
is a lie at all is decided by a model of its own: an order of the changes, as they were acknowledged, refused or lost, that
ends in the schema that the cluster ends in (`is_lawful`). Nothing of the checkers is used for it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import orjson
from one_plan import carried_out

from schemaquake.clusters.simulated import processes
from schemaquake.clusters.simulated.faces import Node, Steps
from schemaquake.clusters.simulated.models import group0, merging, metadata_log, rows
from schemaquake.clusters.simulated.models.requests import Requests
from schemaquake.clusters.simulated.models.serving import serve_schema, server_of
from schemaquake.clusters.simulated.processes import Sleep
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.schema.changes import Making, carry_out
from schemaquake.clusters.simulated.schema.definitions import Keyspace, Schema, Table
from schemaquake.clusters.simulated.schema.loading import load_keyspaces
from schemaquake.clusters.simulated.schema.mutations import Writing, difference
from schemaquake.clusters.simulated.schema.rows import SchemaRows
from schemaquake.clusters.systems.system import parse_system
from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.records import Records
from schemaquake.harness.registry import load
from schemaquake.harness.run.phases import Phases

__all__ = ["KINDS", "LAWFUL", "Asked", "Plant", "Told", "drawn_plan", "is_lawful", "plants_of", "told"]

KINDS: Mapping[str, str] = {
    "left out": "acknowledged, and carried out nowhere",
    "otherwise": "carried out otherwise than asked",
    "acknowledged": "refused by validation, and acknowledged",
    "refused": "carried out, and answered by a refusal",
    "late": "acknowledged, and carried out three seconds later",
    "undone": "gone from every node when the faults are healed",
    "undone by restart": "gone from every disk before the nodes are started again",
    "undone on one": "gone from disk and memory of one node when the faults are healed",
    "forgotten by one": "gone from the memory of one node when the faults are healed",
    "skipped by one": "carried out by all nodes but one",
}
LAWFUL: Mapping[str, str] = {
    "lost, done": "carried out, and the answer is lost",
    "lost, done late": "the answer is lost, and three seconds later it is carried out",
    "lost": "the answer is lost, and it is carried out nowhere",
}
"""What a change may come to whose outcome is unknown."""
_REFUSALS = frozenset({"InvalidRequest", "AlreadyExists", "ConfigurationException"})
_LATER_NS = 3_000_000_000
_TYPES = ("int", "text", "bigint")
_WRITING = Writing(keyspace_row=False, whole_row=False)
_STATES_MOST = 200_000


@dataclass(frozen=True)
class Asked:
    """A schema change that a server was asked for."""

    node: str
    f: str
    value: Mapping[str, Any]


@dataclass(frozen=True)
class Plant:
    """What becomes of which change; `draw` says which of several ways, and `lost` how many of the others have a lost answer."""

    kind: str
    number: int
    draw: int = 0
    lost: float = 0.0


@dataclass
class Told:
    """A run on a lying cluster. `finals` has the schema of each (phase, node) in memory and on disk."""

    records: Records
    asked: Sequence[Asked]
    finals: Mapping[tuple[str, str], tuple[Schema, Schema | None]]

    @property
    def lawful(self) -> bool | None:
        """Whether all nodes agree, and the changes as they were answered may have led there; None: not decided."""
        ends = []
        for label in dict.fromkeys(label for label, _ in self.finals):
            shown = [both for (phase, _), both in self.finals.items() if phase == label]
            if len({repr(disk and _bare(disk)) for both in shown for disk in both}) != 1 or shown[0][1] is None:
                return False
            ends.append(shown[0][0])
        return is_lawful(self.records, ends) if ends else False


def drawn_plan(seed: int, system: str) -> Plan:
    """Return a plan with faults in which changes are concurrent and some outcomes unknown."""
    draw = Random(seed)
    nemeses = tuple(name for name in ("kill", "partition", "pause", "clock") if draw.random() < 0.5)
    races = (
        "create-table",
        "drop-type",
        "alter-options",
        "drop-recreate",
        "create-index",
        "drop-function",
        "alter-type",
    )
    fitting = [name for name in races if load("workloads", name).requires <= parse_system(system).features]
    workloads = ("schema-churn",) if draw.random() < 0.7 else tuple(draw.sample(fitting, 3))
    options = {"bugs": "none"} | ({"mode": "barrier", "races": "1"} if workloads != ("schema-churn",) else {})
    return Plan(
        system=system, workloads=workloads, nemeses=nemeses, cluster="simulated", seed=seed,
        time_limit_s=10, rate=draw.choice((4, 8, 16)), options=options,
    )  # fmt: skip


def plants_of(
    asked: Sequence[Asked], seed: int, count: int, kinds: Sequence[str] = (*KINDS, *LAWFUL)
) -> Sequence[Plant]:
    """Draw plants about these changes: kinds in turn, changes by chance."""
    draw = Random(f"plants {seed}")
    order = draw.sample(kinds, len(kinds))
    return [
        Plant(
            order[number % len(order)], draw.randrange(len(asked)), draw.randrange(1000), draw.choice((0.0, 0.1, 0.3))
        )
        for number in range(count)
    ]


def told(plan: Plan, plant: Plant | None = None) -> Told:
    """Carry a plan out on a cluster that lies so; without a plant it does not lie."""
    liar = _Liar(plant or Plant("", -1))
    with tempfile.TemporaryDirectory() as folder, liar.at_work():
        records = carried_out(plan, Path(folder))
    return Told(records, liar.asked, liar.finals)


# ── the lie ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class _Liar:
    plant: Plant
    asked: list[Asked] = field(default_factory=list)
    finals: dict[tuple[str, str], tuple[Schema, Schema | None]] = field(default_factory=dict)
    _target: Mapping[str, Any] | None = None
    _other: Mapping[str, Any] | None = None
    _made: tuple[Schema, Schema] | None = None
    """The schema before and after the change, as it was carried out last."""
    _odd: str = ""
    """The node that lacks the change."""
    _running: list[str] = field(default_factory=lambda: [""])

    @contextmanager
    def at_work(self) -> Iterator[None]:
        with ExitStack() as stack:
            for module in (rows, merging, metadata_log, group0):
                stack.enter_context(patch.object(module, "carry_out", self._carry_out))
            for owner, name in (
                (Requests, "serve"),
                (processes.Process, "resume"),
                (group0.Group0, "_carry_out"),
                (Phases, "_judge"),
                (Phases, "_restart"),
            ):
                stack.enter_context(
                    patch.object(
                        owner, name, self._around(getattr(self, f"_{name.strip('_')}_as_told"), getattr(owner, name))
                    )
                )
            yield

    @staticmethod
    def _around(method: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, **named: method(original, *arguments, **named)

    def _serve_as_told(self, original: Callable[..., Steps], requests: Requests, node: Node, request: Any) -> Any:
        if request.f not in SCHEMA_CHANGES or request.query is not None:
            return original(requests, node, request)
        number = len(self.asked)
        self.asked.append(Asked(node.name, request.f, request.value))
        if number != self.plant.number:
            return self._perhaps_lost(number, lambda: original(requests, node, request))
        self._target = request.value
        self._other = _otherwise(request.value, self.plant.draw)
        others = [name for name in sorted(node.host_ids) if name != node.name]
        self._odd = others[self.plant.draw % len(others)]
        return self._answered(node, lambda: original(requests, node, request))

    def _perhaps_lost(self, number: int, begin: Callable[[], Steps]) -> Steps:
        """Carry a change out as it is; its answer may be lost, or its request."""
        draw = Random(f"lost {self.plant.draw} {number}")
        is_lost, is_done = draw.random() < self.plant.lost and number > 0, draw.random() < 0.6
        result = (yield from begin()) if is_done or not is_lost else None
        if is_lost:
            raise ServerSaid("OperationTimedOut", "no answer")
        return result

    def _answered(self, node: Node, begin: Callable[[], Steps]) -> Steps:
        """Carry the change out, and answer as the lie has it."""
        kind = self.plant.kind
        if kind == "lost":
            raise ServerSaid("OperationTimedOut", "no answer")
        if kind in {"late", "lost, done late"}:
            server_of(node).begin("late", self._later(begin))
            if kind == "late":
                return True
            raise ServerSaid("OperationTimedOut", "no answer")
        try:
            result = yield from begin()
        except ServerSaid as said:
            if kind == "acknowledged" and said.error in _REFUSALS:
                return True
            raise
        if kind == "refused" and result is not False:
            raise ServerSaid("InvalidRequest", "it cannot be done")
        if kind == "lost, done":
            raise ServerSaid("OperationTimedOut", "no answer")
        return result

    @staticmethod
    def _later(begin: Callable[[], Steps]) -> Steps:
        yield Sleep(_LATER_NS)
        try:
            yield from begin()
        except ServerSaid:
            return

    def _carry_out(self, schema: Schema, f: str, value: Mapping[str, Any], making: Making) -> Schema:
        if value is not self._target:
            return carry_out(schema, f, value, making)
        if self.plant.kind == "otherwise" and self._other is not None:
            value = self._other
        after = carry_out(schema, f, value, making)
        if after is schema:
            return schema
        self._made = (schema, after)
        if self.plant.kind == "left out" or (self.plant.kind == "skipped by one" and self._running[-1] == self._odd):
            return dict(schema)
        return after

    def _resume_as_told(self, original: Callable[..., None], process: Any, *arguments: Any) -> None:
        self._running.append(process.node.name)
        try:
            original(process, *arguments)
        finally:
            self._running.pop()

    def _carry_out_as_told(self, original: Callable[..., Steps], model: Any, node: Node, command: Any) -> Steps:
        """Carry a command of group 0 out, on all nodes but one."""
        if self.plant.kind == "skipped by one" and node.name == self._odd and self._target is not None:
            f = self.asked[self.plant.number].f
            if command.text == f'CQL DDL statement: "{statement(f, self._target)}"':
                command = command._replace(rows=())
        return original(model, node, command)

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _judge_as_told(self, original: Callable[..., None], phases: Phases, label: str, serving: Sequence[str]) -> None:
        nodes = [node for node in phases._nodes.values() if node.name in serving]
        if label == "settled" and nodes:
            match self.plant.kind:
                case "undone":
                    self._undo(nodes, disk=True, memory=True)
                case "undone on one":
                    self._undo([node for node in nodes if node.name == self._odd], disk=True, memory=True)
                case "forgotten by one":
                    self._undo([node for node in nodes if node.name == self._odd], disk=False, memory=True)
        original(phases, label, serving)
        for node in nodes:
            if node.serving is not None:
                self.finals[label, node.name] = (node.serving.memory, _on_disk(node))

    def _restart_as_told(self, original: Callable[..., Any], phases: Phases, serving: Sequence[str]) -> Any:
        if self.plant.kind == "undone by restart":
            self._undo([node for node in phases._nodes.values() if node.name in serving], disk=True, memory=False)
        return original(phases, serving)

    def _undo(self, nodes: Sequence[Any], *, disk: bool, memory: bool) -> None:
        if self._made is None:
            return
        for node in nodes:
            if node.serving is None:
                continue
            after = _undone(*self._made, node.serving.memory)
            if after != node.serving.memory:
                _put(node, after, disk=disk, memory=memory, alone=len(nodes) == 1)


def _on_disk(node: Node) -> Schema | None:
    try:
        return load_keyspaces(node.disk.schema, sorted(node.disk.schema.keyspaces), {}, lambda _: None)
    except ServerSaid:
        return None


def _put(node: Any, schema: Schema, *, disk: bool, memory: bool, alone: bool) -> None:
    """Have a node hold that schema, as if there had never been another."""
    model, state, kept = node.model, node.server.state, node.disk.state
    if disk:
        stamps = [
            us
            for change in node.disk.schema.changes()
            for us in (change.deleted_us, *(c[0] for c in change.cells.values()))
        ]
        stored = difference({}, schema, max(stamps, default=0) + 1, _WRITING)
        node.disk.schema = SchemaRows()
        node.disk.schema.merge(stored)
        if isinstance(model, metadata_log.MetadataLog):
            kept.base, kept.entries = replace(state.metadata, schema=schema), []
        if isinstance(model, rows.Rows) and not alone:
            node.server.version = node.disk.schema.version()
            if model._order is not None:
                model._order.schema, model._order._rows = schema, stored
    if memory:
        serve_schema(node, schema)
        if isinstance(model, metadata_log.MetadataLog):
            state.metadata = replace(state.metadata, schema=schema)


def _undone(before: Any, after: Any, final: Any) -> Any:
    """Return `final` without what is in `after` and not in `before`, and with what is in `before` and not in `after`."""
    if before == after:
        return final
    if final == after:
        return before
    if all(isinstance(each, Mapping) for each in (before, after, final)):
        found = {}
        for name in dict.fromkeys((*final, *before)):
            if name in final and name in after and name in before:
                found[name] = _undone(before[name], after[name], final[name])
            elif name in final and name not in after:
                found[name] = final[name]
            elif name not in final and name in before and name not in after:
                found[name] = before[name]
        return found
    if all(isinstance(each, tuple) for each in (before, after, final)):
        return tuple(each for each in final if each in before or each not in after)
    if is_dataclass(final) and not isinstance(final, type) and type(before) is type(after) is type(final):
        changed = {
            each.name: _undone(getattr(before, each.name), getattr(after, each.name), getattr(final, each.name))
            for each in fields(final)
            if each.init
        }
        return replace(final, **changed)
    return final


def _otherwise(value: Mapping[str, Any], draw: int) -> Mapping[str, Any]:
    """Return a statement that differs in one thing from this one; never in the object's name."""
    leaves = [
        path
        for path, leaf in _leaves(value)
        if path[0] not in {"keyspace", "if_exists", "if_not_exists", "applied"}
        and path not in {("name",), ("table",)}
        and isinstance(leaf, str | int)
    ]
    if not leaves:
        return value
    path = leaves[draw % len(leaves)]
    changed = orjson.loads(orjson.dumps(value))
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = _other_leaf(inner[path[-1]], draw)
    return dict(changed)


def _other_leaf(leaf: Any, draw: int) -> Any:
    if isinstance(leaf, bool):
        return not leaf
    if isinstance(leaf, int):
        return leaf + 1
    if leaf in _TYPES:
        return _TYPES[(_TYPES.index(leaf) + 1 + draw % 2) % 3]
    for kinds in (("regular", "static"), ("partition_key", "clustering")):
        if leaf in kinds:
            return kinds[1 - kinds.index(leaf)]
    return f"{leaf}x"


def _leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(tree, Mapping):
        for name, each in tree.items():
            yield from _leaves(each, (*path, name))
    elif isinstance(tree, list | tuple):
        for number, each in enumerate(tree):
            yield from _leaves(each, (*path, number))
    else:
        yield path, tree


# ── whether it is one ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Change:
    invoked: int
    answered: float
    f: str
    value: Mapping[str, Any]
    must: bool
    """Whether it was acknowledged as a change; a no-op of another's change is one as well."""


def is_lawful(records: Records, ends: Sequence[Schema]) -> bool | None:
    """Return whether some order of the changes, each at a moment between question and answer, leads to these schemas; None: not decided.

    The schemas are those after all changes were answered, in their order. Acknowledged changes are carried out, refused ones are
    not, and of the others any: those may be carried out after they were lost, too, between one schema and the next.
    """
    changes = _changes(records)
    names = dict.fromkeys([*(name for end in ends for name in end), *(change.value["keyspace"] for change in changes)])
    found = [
        _leads_to([each for each in changes if each.value["keyspace"] == name], name, [end.get(name) for end in ends])
        for name in names
    ]
    return False if False in found else None if None in found else True


def _changes(records: Records) -> Sequence[_Change]:
    found: list[_Change] = []
    open_: dict[int, Mapping[str, Any]] = {}
    for number, event in enumerate(records.history.to_pylist()):
        if event["process"] == NEMESIS or event["f"] not in SCHEMA_CHANGES:
            continue
        if event["type"] == "invoke":
            open_[event["process"]] = {**event, "number": number}
            continue
        asked = open_.pop(event["process"])
        value = orjson.loads(asked["value"])
        answer = orjson.loads(event["value"]) if event["value"] else {}
        is_no_op = (value.get("if_exists") or value.get("if_not_exists")) and answer.get("applied") is False
        if event["type"] == "fail" or (event["type"] == "ok" and is_no_op):
            continue
        is_sure = event["type"] == "ok"
        found.append(_Change(asked["number"], number if is_sure else float("inf"), asked["f"], value, is_sure))
    found += [_Change(e["number"], float("inf"), e["f"], orjson.loads(e["value"]), must=False) for e in open_.values()]
    return sorted(found, key=lambda change: change.invoked)


def _leads_to(changes: Sequence[_Change], name: str, ends: Sequence[Keyspace | None]) -> bool | None:
    """Search depth first; a state is what was done, the schema, and how many of the ends were met."""
    wanted = [repr(_bare({} if end is None else {name: end})) for end in ends]
    must = sum(1 << place for place, change in enumerate(changes) if change.must)
    known: set[tuple[int, str, int]] = set()
    stack: list[tuple[int, Schema, int]] = [(0, {}, 0)]
    while stack:
        done, schema, met = stack.pop()
        state = repr(_bare(schema))
        while met < len(wanted) and done & must == must and state == wanted[met]:
            met += 1
        if met == len(wanted):
            return True
        if (done, state, met) in known:
            continue
        if len(known) > _STATES_MOST:
            return None
        known.add((done, state, met))
        left = [place for place in range(len(changes)) if not done >> place & 1]
        first = min((changes[place].answered for place in left), default=float("inf"))
        for place in left:
            change = changes[place]
            if change.invoked > first:
                break
            after = _after(schema, change)
            if after is not None:
                stack.append((done | 1 << place, after, met))
    return False


def _after(schema: Schema, change: _Change) -> Schema | None:
    try:
        return carry_out(schema, change.f, change.value, Making(lambda *_: "0" * 32, 0))
    except ServerSaid:
        return None


def _bare(schema: Schema) -> Any:
    """The schema without what chance and clocks decide: ids and times of drops; names in order."""
    return {
        name: replace(
            keyspace,
            replication=dict(sorted(keyspace.replication.items())),
            tables={each: _bare_table(table) for each, table in sorted(keyspace.tables.items())},
            views={each: _bare_table(table) for each, table in sorted(keyspace.views.items())},
            types=dict(sorted(keyspace.types.items())),
            functions=dict(sorted(keyspace.functions.items())),
            aggregates=dict(sorted(keyspace.aggregates.items())),
        )
        for name, keyspace in sorted(schema.items())
    }


def _bare_table(table: Table) -> Table:
    return replace(
        table,
        id="",
        columns=dict(sorted(table.columns.items())),
        options={name: _sorted(value) for name, value in sorted(table.options.items())},
        dropped={name: (cql_type, 0) for name, (cql_type, _) in sorted(table.dropped.items())},
        indexes=dict(sorted(table.indexes.items())),
        base=None if table.base is None else ("", table.base[1]),
    )


def _sorted(value: Any) -> Any:
    return dict(sorted(value.items())) if isinstance(value, Mapping) else value
