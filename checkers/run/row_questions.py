"""Row questions: statements about rows and options of tables that no server can have acknowledged as they were recorded.

A statement names what every one of its kind names, at a level of consistency that there is. Its label is that of the phase in which it was asked.
A server takes none that names a column which no operation can have given the table, an INSERT without the whole key, or an
option that no release knows. A read lists the columns that it asked for. Once nodes have settled, no table answers that is certainly not there.

For histories with the conductor's notes alone, as `schemaquake.checkers.run.questions`, which it stands beside. Thrift servers take columns that
nothing declared, so that columns and keys are judged for CQL alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaChanges, SchemaObject, certainly_applied
from schemaquake.checkers.findings.explanation import listing
from schemaquake.harness.model.verdict import Doubt

__all__ = ["find_answers_of_absent", "find_strange_row_questions"]

_NAMED: Final[Mapping[str, frozenset[str]]] = {
    "insert": frozenset({"keyspace", "table", "row", "consistency"}),
    "read-rows": frozenset({"keyspace", "table", "columns", "consistency", "phase"}),
    "delete-row": frozenset({"keyspace", "table", "where", "consistency"}),
    "truncate": frozenset({"keyspace", "table", "where", "consistency"}),
    "know-table": frozenset({"keyspace", "table", "key"}),
}
"""What every statement of a kind names (`schemaquake.harness.ddl.rows`)."""
_NEEDS: Final[Mapping[str, str]] = {"update": "key", "batch": "beside"}
"""What a form of writing a row names beside that."""
_FORMS: Final = frozenset({"conditional", *_NEEDS})
_OPTIONAL: Final = frozenset({"phase", "form", "key", "beside", "columns", "where", "index", "base"})
"""What some statements of a kind name; an answer that names it is that of a question that does."""
_LEVELS: Final = frozenset(
    {"ANY", "ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_ONE", "LOCAL_QUORUM", "EACH_QUORUM", "NODE_LOCAL"}
    | {"SERIAL", "LOCAL_SERIAL"}
)
_FINAL: Final = ("settled", "restarted")
_LABELS: Final = frozenset({"prepared", "racing", *_FINAL})
_ON_THE_WAY: Final = (("prepared", "prepare"), ("racing", "main"))
"""Labels of statements before the final phases, with the phase in which they are asked."""
_WITH_OPTIONS: Final = frozenset({"create-table", "alter-options", "create-view", "alter-view"})
_UNSHOWN: Final = frozenset(
    {
        "id",
        "compaction",
        "compression",
        "cdc",
        "extensions",
        "memtable",
        "incremental_backups",
        "allow_auto_snapshot",
        "default_time_to_live",
    }
    | {"read_repair_chance", "dclocal_read_repair_chance", "local_read_repair_chance", "crc_check_chance"}
    | {"index_interval", "replicate_on_write", "populate_io_cache_on_flush", "clustering order by", "compact storage"}
    | {"tombstone_gc", "per_partition_rate_limit", "synchronous_updates", "paxos_grace_seconds", "in_memory"}
)
"""Options that some release takes and shows under other names, not where they have their default, or not at all."""


def find_strange_row_questions(evidence: Evidence) -> Iterator[str]:
    """Yield what is wrong with the questions about rows and options of a run with notes. Raises HistoryError."""
    operations = evidence.operations(_NAMED)
    for operation in operations:
        yield from _find_shapeless(operation)
    yield from _find_mislabelled(evidence, operations)
    yield from _find_unknown_options(evidence)
    if _is_thrift(evidence):
        return
    tables: dict[SchemaObject, _Columns] = {}
    for operation in operations:
        asked = operation.argument
        if operation.type == "ok" and isinstance(asked, dict) and {"keyspace", "table"} <= asked.keys():
            subject = SchemaObject("table", asked["keyspace"], asked["table"])
            if subject not in tables:
                tables[subject] = _Columns(evidence, subject)
            yield from tables[subject].find_strange(operation)


def _find_shapeless(operation: PairedOperation) -> Iterator[str]:
    """Yield what a question lacks that every one of its kind names, or that its answer names; and a level that there is none of."""
    asked, answer = operation.argument, operation.value
    if not isinstance(asked, dict):
        return
    lacking = _NAMED[operation.f] - asked.keys()
    if operation.type == "ok" and isinstance(answer, dict):
        lacking |= (answer.keys() & _OPTIONAL) - asked.keys()
    form = asked.get("form")
    needed = _NEEDS.get(str(form))
    lacking |= set() if needed is None else {needed} - asked.keys()
    if lacking:
        yield f"the question of op {operation.index} does not say {listing(sorted(lacking))}"
    if form is not None and form not in _FORMS:
        yield f"op {operation.index} writes a row by a form that there is none of: {form}"
    level = asked.get("consistency")
    if "consistency" in _NAMED[operation.f] and level is not None and level not in _LEVELS:
        yield f"op {operation.index} was asked at a level of consistency that there is none of: {level}"


# ── labels ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _find_mislabelled(evidence: Evidence, operations: Sequence[PairedOperation]) -> Iterator[str]:
    """Yield the first operation of each phase that is labelled as one of another phase, and the first label of none.

    One without a label is strange among others of its kind that have one.
    """
    other = next((one for one in operations if _label(one) not in {None, *_LABELS}), None)
    if other is not None:
        yield f"op {other.index} is labelled {_label(other)}, which is no phase of a run"
    reported: set[int] = set()
    for phase in _FINAL:
        times = [time for time, name, _ in evidence.notes.phases if name == f"final-{phase}"]
        if len(times) < 2:
            continue
        within = [one for one in operations if times[0] <= one.invoked <= times[-1]]
        labelled = {one.f for one in within if _label(one) == phase}
        odd = [one for one in operations if _label(one) == phase and not times[0] <= one.invoked <= times[-1]]
        odd += [one for one in within if one.f in labelled and _label(one) != phase]
        if odd:
            reported.update(one.index for one in odd)
            yield f"op {odd[0].index} is labelled {_label(odd[0])}, and was asked {_when(odd[0], times, phase)}"
    for label, phase in _ON_THE_WAY:
        begin, end = evidence.notes.began(phase), evidence.notes.ended(phase)
        if begin is None or end is None:
            continue
        labelled_so = (one for one in operations if _label(one) == label and one.index not in reported)
        stray = next((one for one in labelled_so if not begin <= one.invoked <= end), None)
        if stray is not None:
            yield f"op {stray.index} is labelled {label}, and was asked at another time than in phase {phase}"


def _label(operation: PairedOperation) -> str | None:
    label = operation.argument.get("phase") if isinstance(operation.argument, dict) else None
    return None if label is None else str(label)


def _when(operation: PairedOperation, times: Sequence[int], phase: str) -> str:
    return f"when {phase}" if times[0] <= operation.invoked <= times[-1] else f"at another time than when {phase}"


# ── absent tables ───────────────────────────────────────────────────────────────────────────────────────────────────


def find_answers_of_absent(evidence: Evidence) -> Iterator[Doubt]:
    """Yield a doubt for each table of which a statement of a final phase was acknowledged although it was certainly not there.

    One that a node shows in the end was brought back, which the checkers of the schema judge. In any phase, a statement is
    one too that was acknowledged before anything can have created its table. Raises HistoryError.
    """
    yield from _find_answers_before(evidence)
    whys: dict[tuple[str, str], PairedOperation | str | None] = {
        place: None for schema in evidence.readings.schemas for place in (*schema.tables, *schema.views)
    }
    for operation in evidence.operations(_NAMED):
        asked = operation.argument
        if operation.type != "ok" or _label(operation) not in _FINAL or not {"keyspace", "table"} <= asked.keys():
            continue
        place = (asked["keyspace"], asked["table"])
        why = whys[place] if place in whys else _find_absence(evidence.changes, *place)
        whys[place] = why
        if isinstance(why, PairedOperation) and why.entirely_before(operation):
            why = f"op {why.index} had dropped it"
        if isinstance(why, str):
            whys[place] = None
            yield Doubt("undecided", f"op {operation.index} was acknowledged, and {why}", (".".join(place),))


def _find_answers_before(evidence: Evidence) -> Iterator[Doubt]:
    """Yield a doubt for each table of which a statement was acknowledged before a CREATE of it, or of its view, had been asked for."""
    made: dict[tuple[str, str], int | None] = {}
    for operation in evidence.operations(_NAMED):
        asked = operation.argument
        is_answered = operation.type == "ok" and operation.completed is not None and isinstance(asked, dict)
        if not is_answered or not {"keyspace", "table"} <= asked.keys():
            continue
        place = (asked["keyspace"], asked["table"])
        if place not in made:
            made[place] = _find_first_create(evidence.changes, *place)
        first = made[place]
        if first is not None and _answered(operation) < first:
            made[place] = None
            text = f"op {operation.index} was acknowledged, and nothing had been asked for that creates its table"
            yield Doubt("undecided", text, (".".join(place),))


def _find_first_create(changes: SchemaChanges, keyspace: str, name: str) -> int | None:
    """Return when (ns) the first operation began that can have created a relation of that name; None: one may be older, or there is none."""
    creates = [one for kind in ("table", "view") for one in changes.creates(SchemaObject(kind, keyspace, name))]
    if changes.texts(keyspace) or not creates or not changes.founds(keyspace):
        return None
    return min(create.invoked for create in creates)


def _find_absence(changes: SchemaChanges, keyspace: str, name: str) -> PairedOperation | str | None:
    """Return the DROP after which no relation of that name can be there, or why there was never one; None: there may be one."""
    if changes.texts(keyspace):
        return None
    whole = SchemaObject("keyspace", keyspace, "")
    made = [one for kind in ("table", "view") if changes.creates(one := SchemaObject(kind, keyspace, name))]
    last = _find_last_drop(changes, whole)
    if last is None and not made and any(create.acknowledged for create in changes.creates(whole)):
        return "no operation can have created it"
    drops = [_find_last_drop(changes, one) for one in made]
    if last is None and drops and None not in drops:
        last = max((drop for drop in drops if drop is not None), key=_answered)
    return last


def _find_last_drop(changes: SchemaChanges, subject: SchemaObject) -> PairedOperation | None:
    """Return the first DROP of an object that certainly came after each CREATE of it; None: there is none."""
    creates = changes.creates(subject)
    return next(
        (
            drop
            for drop in changes.drops(subject)
            if creates and certainly_applied(drop) and all(create.entirely_before(drop) for create in creates)
        ),
        None,
    )


def _answered(operation: PairedOperation) -> int:
    return operation.completed or operation.invoked


# ── columns ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Columns:
    """The columns that a table, or a view of that name, may have had, and its possible keys; `known` False: any."""

    def __init__(self, evidence: Evidence, subject: SchemaObject) -> None:
        changes = evidence.changes
        views = changes.creates(SchemaObject("view", subject.keyspace, subject.name))
        bases = {SchemaObject("table", subject.keyspace, view.argument["base"]) for view in views}
        made = [change for one in (subject, *sorted(bases)) for change in changes.on(one)]
        self.known = not changes.texts(subject.keyspace) and any(change.f == "create-table" for change in made)
        self._key = subject.key
        self._names = frozenset(name for change in made for name in _named_columns(change))
        self._required = [
            [changes.names_of_column(subject, name) for name in _required(create)]
            for create in changes.creates(subject)
        ]
        self._has_views = bool(views)

    def find_strange(self, operation: PairedOperation) -> Iterator[str]:
        """Yield what no server can have acknowledged of this operation."""
        asked, answer = operation.argument, operation.value
        columns = asked.get("columns")
        rows = answer.get("rows") if isinstance(answer, dict) else None
        if columns is not None and any(row.keys() != set(columns) for row in rows or ()):
            yield f"op {operation.index} lists other columns than it asked for"
        if not self.known:
            return
        where, row = asked.get("where") or {}, asked.get("row") or {}
        key = [asked["key"]] if isinstance(asked.get("key"), str) else asked.get("key") or ()
        named = {*(columns or ()), *where, *row, *key, *(asked.get("beside") or {})}
        unknown = sorted(named - self._names)
        if unknown:
            yield f"op {operation.index} was acknowledged, and no operation can have given {self._key} {listing(unknown)}"
        if operation.f == "insert" and not self._may_be_whole(row):
            yield f"op {operation.index} was acknowledged, and wrote a row without the whole key of {self._key}"

    def _may_be_whole(self, row: Mapping[str, Any]) -> bool:
        """Tell if a row may have a whole key; one of static columns alone has that of its partition."""
        return self._has_views or any(
            not any(names.isdisjoint(row) for names in required) for required in self._required
        )


def _named_columns(change: PairedOperation) -> Iterator[str]:
    """Yield the columns that a change of a table may give it."""
    match change.f:
        case "create-table":
            yield from (name for name, *_ in change.argument["columns"])
        case "add-column":
            yield change.argument["column"][0]
        case "rename-column":
            yield change.argument["to"]


def _required(create: PairedOperation) -> frozenset[str]:
    """Return the columns without which a table of this CREATE takes no row."""
    columns = create.argument["columns"]
    has_static = any(kind == "static" for _, _, kind in columns)
    kinds = {"partition_key"} if has_static else {"partition_key", "clustering"}
    return frozenset(name for name, _, kind in columns if kind in kinds)


# ── options ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _find_unknown_options(evidence: Evidence) -> Iterator[str]:
    """Yield the first acknowledged change with an option that no table of any final reading has, and the first compaction without a class."""
    shown = {
        name
        for schema in evidence.shown.schemas
        for table in (*schema.tables.values(), *schema.views.values())
        for name in table.options
    }
    changes = [
        change
        for change in evidence.changes.all
        if change.type == "ok" and change.f in _WITH_OPTIONS and change.argument.get("options")
    ]
    for change in changes if shown else ():
        unknown = sorted(name for name in change.argument["options"] if name.lower() not in shown | _UNSHOWN)
        if unknown:
            yield f"op {change.index} was acknowledged, and no table has an option {listing(unknown)}"
            break
    for change in changes:
        compaction = change.argument["options"].get("compaction")
        if isinstance(compaction, dict) and compaction and "class" not in compaction:
            yield f"op {change.index} was acknowledged, and its compaction has no class"
            break


def _is_thrift(evidence: Evidence) -> bool:
    """Tell if nodes were read as those of the Thrift days are: a reading lists the versions of all nodes, or is of memory alone."""
    rows = evidence.observations
    versions = rows["definition"].filter(pc.equal(rows["kind"], "version")).drop_null().to_pylist()
    return any(not orjson.loads(text).keys().isdisjoint(("versions", "told_from")) for text in versions)
