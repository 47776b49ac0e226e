"""Defaults: an option that no change set is the same for all tables.

A statement names some options, and the server gives the others their defaults. So two tables whose changes name neither of
two values cannot have both: one of them was changed by a request that was refused, or by none. Judges the options of every
table and view on each node's disk and in its memory, the kinds of indexes, and the options of keyspaces that memory alone
shows. Readings on the way, while the run goes on, are compared with the final ones.
Finds: `unasked-option`.
Source: CEP-21, "strict linearizability of metadata changes"; the ScyllaDB talk.

Defaults depend on the release, the strategy of compaction and the replication. So tables are compared only if they were
created in this history, and are alike in the other two. A few options have one default in every release: they are compared
with it, so that a lone table is judged, too. Options that follow from the columns of a table are compared among readings of
that table alone, while it has the same columns: a doubt. Where nodes became another release, only tables that were created
before are compared; readings from that time are compared with those of nodes of the same release
(`schemaquake.checkers.schema.odd_sightings`): a doubt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import orjson

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.node_schemas import NodeSchema, Table, read_table
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.option_values import can_be, stored_name
from schemaquake.checkers.evidence.schema_changes import SchemaObject
from schemaquake.checkers.evidence.sights import Sight, read_sights
from schemaquake.checkers.evidence.statements import parse_statement
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, seconds, where
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.schema.judge import Findings, judge
from schemaquake.checkers.schema.odd_sightings import Shown, find_odd, is_mixed
from schemaquake.checkers.schema.possible_parts import DEFAULT, Part, PossibleParts, PossibleValue, list_possible_parts
from schemaquake.harness.ddl.schema_changes import ALTERS
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict

__all__ = ["Defaults"]

_OF_COLUMNS: Final = frozenset(
    {
        *("cf_id", "clustering_order", "column_aliases", "column_type", "compact_storage", "comparator"),
        *("comparator_type", "default_validation_class", "default_validator", "id", "include_all_columns"),
        *("is_dense", "key_alias", "key_aliases", "key_validation_class", "key_validator", "subcomparator"),
        *("subcomparator_type", "type", "value_alias", "where_clause"),
    }
)
"""Options that follow from what a table is, not from a default."""
_OF_COLUMN_CHANGES: Final = frozenset({"add-column", "drop-column", "rename-column"})
_ARRIVES_NS: Final = 10_000_000_000
"""How long after its acknowledgement a change may reach another node, for a reading in its middle to be excused."""
_OF_EVERY_RELEASE: Final[Mapping[str, JSON]] = {
    "comment": "",
    "crc_check_chance": 1.0,
    "default_time_to_live": 0,
    "gc_grace_seconds": 864_000,
    "max_index_interval": 2048,
    "memtable_flush_period_in_ms": 0,
    "min_index_interval": 128,
}
"""Options with the same default in every release that has them, and that no file of settings changes."""
_TABLES_TOO_FEW: Final = 2
"""With so many tables or fewer, that one lacks an option does not show which of them is complete."""
_DEFAULT_BY_MEMORY: Final = ("memtable_throughput", "memtable_operations", "memtable_flush_after")
"""Beginnings of the names of options whose defaults up to 1.0 depend on the memory of the node that made the table."""


_Keys: TypeAlias = frozenset[str]
"""The keys of one map of options."""


class Defaults:
    """The checker of options that no change set: they must be alike."""

    name = "defaults"
    scope: Literal["keyspace", "run"] = "run"
    finds: tuple[str, ...] = ("unasked-option",)
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge every option by which tables can be compared. Unknown without final readings."""
        return judge(self.name, records, _find, limit_s=limit_s)


class _Question(NamedTuple):
    """One option of things that have the same default for it. `option` is `name` or, within a map, `name.key`."""

    side: str
    conditions: str
    option: str

    @property
    def place(self) -> str:
        """The side, as a finding names it."""
        return "in memory" if self.side in {"statement", "memory"} else "on disk"


@dataclass(slots=True)
class _Answers:
    """The values of one option that no change set."""

    shown: dict[str, set[SchemaObject]] = field(default_factory=dict)
    """Value as JSON → the objects that show it."""


def _find(case: Evidence) -> Findings:
    parts = case.derive(list_possible_parts)
    later = _created_since(case)
    parts = parts.without(later) if later else parts
    found: dict[tuple[_Question, SchemaObject], dict[str, dict[str, tuple[str, str]]]] = {}
    questions: set[_Question] = set()
    for schema in case.readings.schemas:
        for question, answers in _collect_answers(schema, parts).items():
            questions.add(question)
            for subject, shown, usual in _list_odd(question, answers):
                found.setdefault((question, subject), {}).setdefault(schema.phase, {})[schema.node] = (shown, usual)
    for question, subject in sorted(found):
        yield _anomaly(case, question, subject, found[question, subject])
    yield from _find_incomplete(case, later)
    ended = _collect_usual_values(case, parts)
    yield from _find_on_the_way(case, parts, ended)
    yield from _find_incomplete_on_the_way(case, parts)
    yield from _find_other_table_on_the_way(case, parts)
    yield from _find_other_keys_on_the_way(case, parts)
    if case.notes.upgrades.operations:
        yield from find_odd(case.notes.upgrades, _shown_while_mixed(case, parts), ended)
    # A question without an odd answer is one sound object.
    yield from [None] * len(questions - {question for question, _ in found})


def _collect_usual_values(case: Evidence, parts: PossibleParts) -> Mapping[_Question, set[str]]:
    """Map each question, whatever the replication, to the values that final readings show."""
    found: dict[_Question, set[str]] = {}
    for schema in case.readings.schemas:
        for side, relations in _list_relations(schema, parts).items():
            for subject, table, options in relations:
                set_options = _SetOptions(options, subject, parts.values)
                for entry in _list_entries(side, table, options):
                    if set_options.is_default(entry.option):
                        found.setdefault(entry.question, set()).add(entry.text)
        for _, definition in _list_keyspaces(schema, parts):
            for question, value in _defaults_of_keyspace(definition):
                found.setdefault(question, set()).add(_json(value))
    return found


def _created_since(case: Evidence) -> frozenset[SchemaObject]:
    """Collect the objects that a possible CREATE may have made since the first node became another release."""
    mixed = case.notes.upgrades.mixed
    if mixed is None:
        return frozenset()
    return frozenset(
        subject
        for subject in case.changes.objects
        for create in case.changes.creates(subject)
        if create.type == "info" or create.completed is None or create.completed >= mixed[0]
    )


def _list_odd(question: _Question, answers: _Answers) -> Iterator[tuple[SchemaObject, str, str]]:
    """Yield each object that differs, its value, and what it should be.

    That is the default of every release; else the value of most, or of all other objects if no value has the most.
    """
    ordered = sorted(answers.shown.items(), key=lambda item: (-len(item[1]), item[0]))
    default = _OF_EVERY_RELEASE.get(question.option)
    odd = [(shown, _json(default)) for shown, _ in ordered if default is not None and not _is_default(shown, default)]
    if not odd and len(ordered) > 1:
        (usual, most), (next_usual, second) = ordered[:2]
        differing = ordered if len(most) == len(second) else ordered[1:]
        odd = [(shown, next_usual if shown == usual else usual) for shown, _ in differing]
    for shown, wanted in odd:
        yield from ((subject, shown, wanted) for subject in sorted(answers.shown[shown]))


def _is_default(shown: str, default: JSON) -> bool:
    """Tell if a value, as JSON, is the default, or none: that is for others to judge."""
    value = orjson.loads(shown)
    return value is None or can_be(value, default)


def _find_incomplete(case: Evidence, later: Collection[SchemaObject]) -> Iterator[Doubt]:
    """Yield a doubt for each table whose row lacks an option that the rows of all other tables have: it was not read.

    Tables of `later` were made by another release.
    """
    lacking: dict[tuple[SchemaObject, str], dict[str, list[str]]] = {}
    for schema in case.readings.schemas:
        for kind, relations in (("table", schema.tables), ("view", schema.views)):
            rows = {
                key: frozenset(relation.options)
                for key, relation in relations.items()
                if relation.options and SchemaObject(kind, *key) not in later
            }
            known = Counter(name for names in rows.values() for name in names)
            for key, names in rows.items() if len(rows) > _TABLES_TOO_FEW else ():
                for name in (name for name, count in known.items() if count == len(rows) - 1 and name not in names):
                    places = lacking.setdefault((SchemaObject(kind, *key), name), {})
                    places.setdefault(schema.phase, []).append(schema.node)
    for (subject, name), places in sorted(lacking.items()):
        text = f"{where(places, 'shows', 'show')} no option {name} of it, which every other {subject.kind} has"
        yield Doubt("unread", text, (subject.key,))


# ── readings while the run goes on ───────────────────────────────────────────────────────────────────────────────────


def _find_on_the_way(case: Evidence, parts: PossibleParts, usual: Mapping[_Question, set[str]]) -> Findings:
    """Yield a finding for each default that a reading on the way shows, and no final reading under the same conditions.

    Two nodes need not have the same replication at one moment on the way, so that it is no condition.
    """
    found: dict[tuple[_Question, SchemaObject, str], list[Sight]] = {}
    known: dict[tuple[str, int], Sequence[_Entry]] = {}
    of_relations = [
        (sight, _list_defaults_on_the_way(case, sight, parts, known)) for sight in _relations_on_the_way(case, parts)
    ]
    for sight, shown in (*of_relations, *_keyspaces_on_the_way(case, parts)):
        for question, text in shown:
            if question in usual and text not in usual[question] | _usual_values_of_counters(question, sight, usual):
                found.setdefault((question, sight.subject, text), []).append(sight)
    for (question, subject, text), sights in sorted(found.items()):
        yield _anomaly_on_the_way(question, subject, text, sights, usual[question])


def _usual_values_of_counters(question: _Question, sight: Sight, usual: Mapping[_Question, set[str]]) -> set[str]:
    """Return what tables with counters have, if the reading does not say whether the table is one of them.

    A server reads a table's options and its columns one after the other, so that a table just made may be seen without columns.
    """
    assert sight.definition is not None
    if sight.definition.get("columns"):
        return set()
    *others, _ = orjson.loads(question.conditions)
    conditions = orjson.dumps([*others, True], option=orjson.OPT_SORT_KEYS).decode()
    return usual.get(question._replace(conditions=conditions), set())


def _find_incomplete_on_the_way(case: Evidence, parts: PossibleParts) -> Iterator[Doubt]:
    """Yield a doubt for each table with an option that no final one of its kind has, or without one that all have.

    It was not read as it stands there. Options that changes name, or that follow from the columns, need not be alike; but one that no
    change but the CREATE names is not there once, and not in the final readings of the same table.
    """
    final: dict[tuple[str, str], list[frozenset[str]]] = {}
    own: dict[tuple[str, SchemaObject], frozenset[str]] = {}
    for schema in case.readings.schemas:
        for side, relations in _list_relations(schema, parts).items():
            for subject, _, options in relations:
                final.setdefault((side, subject.kind), []).append(frozenset(options) - _OF_COLUMNS)
                own[side, subject] = own.get((side, subject), frozenset()) | frozenset(options)
    odd: dict[SchemaObject, tuple[Sight, str, str]] = {}
    for sight in _relations_on_the_way(case, parts):
        assert sight.definition is not None
        subject = sight.subject
        side = _side_of(case, sight)
        rows = final.get((side, subject.kind), [])
        known = rows or final.get((side, "table"), [])  # no view has an option that tables have not
        if known:
            names = frozenset(sight.definition["options"]) - _OF_COLUMNS
            strange = names - frozenset[str]().union(*known) - parts.names(subject, "option")
            strange |= frozenset.intersection(*rows) - names if rows else frozenset()
            others = f"any other {subject.kind} has"
            if not strange and (side, subject) in own and len(case.changes.creates(subject)) == 1:
                strange = frozenset(
                    each for each in names - own[side, subject] if not _is_altered(parts, subject, each)
                )
                others = "its own final readings have"
            if strange:
                odd.setdefault(subject, (sight, min(strange), others))
    for subject, (sight, name, others) in sorted(odd.items()):
        text = f"at {seconds(sight.ends)} {sight.place.node} showed it with other options than {others} ({name})"
        yield Doubt("unread", text, (subject.key,))


def _is_altered(parts: PossibleParts, subject: SchemaObject, option: str) -> bool:
    """Tell if a change other than the CREATE may have set this option."""
    return any(value.operation.f in ALTERS for value in parts.values(Part(subject, "option", option)))


def _find_other_table_on_the_way(case: Evidence, parts: PossibleParts) -> Iterator[Doubt]:
    """Yield a doubt for each table that was shown once with other options of its columns than whenever it had the same columns.

    They are compared with the final readings of the table, and if there are none, with what most readings on the way show.
    Left out: a table that two operations may have created, as each may have been of another kind, and a reading in which a change of
    its columns may have arrived, where the node's next one shows the table otherwise: its columns are read after its options.
    """
    shown: dict[tuple[SchemaObject, bytes], list[tuple[Sight, Mapping[str, str]]]] = {}
    for sight in _relations_on_the_way(case, parts):
        assert sight.definition is not None
        subject = sight.subject
        is_judged = sight.place.side == "disk" and subject.kind == "table" and len(case.changes.creates(subject)) == 1
        if is_judged and not (sight.corrected and _may_change_columns(parts.operations(subject), sight)):
            columns, options = _split_off_columns(sight.definition, parts.operations(subject))
            shown.setdefault((subject, columns), []).append((sight, options))
    if not any(options for sights in shown.values() for _, options in sights):
        return
    final: dict[tuple[SchemaObject, bytes], list[Mapping[str, str]]] = {}
    for schema in case.readings.schemas:
        for key, table in schema.tables.items():
            subject = SchemaObject("table", *key)
            columns, options = _split_off_columns(table.definition, parts.operations(subject))
            final.setdefault((subject, columns), []).append(options)
    for (subject, columns), sights in shown.items():
        others = final.get((subject, columns)) or [options for _, options in sights]
        for name in sorted({name for options in (*others, *(own for _, own in sights)) for name in options}):
            counts = Counter(options.get(name) for options in others)
            usual = counts.keys() if (subject, columns) in final else {counts.most_common(1)[0][0]}
            odd = next((sight for sight, options in sights if options.get(name) not in usual), None)
            if odd is not None:
                text = (
                    f"at {seconds(odd.ends)} {odd.place.node} showed it with another {name} than other readings have "
                    "with the same columns"
                )
                yield Doubt("unread", text, (subject.key,))


def _may_change_columns(changes: Sequence[PairedOperation], sight: Sight) -> bool:
    """Tell if a change of a table's columns may have reached the node while it was read."""
    return any(
        change.f in _OF_COLUMN_CHANGES
        and change.invoked <= sight.ends
        and not change.ended_before(sight.begins - _ARRIVES_NS)
        for change in changes
    )


def _find_other_keys_on_the_way(case: Evidence, parts: PossibleParts) -> Iterator[Doubt]:
    """Yield a doubt for each table whose map of options, which a change set, has other keys on the way than that change gives it.

    A server adds the keys that its class has by default, so they are those that the statement names and those of a map that nobody
    set; or those that a final reading has after the same statement. Where there is neither, readings on the way with
    the same statement are compared with each other. A map that no statement wrote is the one that tables have by default.
    """
    known = _KnownKeys(case, parts)
    maps = [
        (
            sight,
            side,
            name,
            shown,
            [one.value for one in parts.values_by(Part(sight.subject, "option", name), sight.ends)],
        )
        for sight, side, name, shown in _maps_on_the_way(case, parts)
    ]
    for sight, side, name, shown, values in maps:
        if all(value is DEFAULT for value in values):
            known.add_on_the_way(_Place.of(side, name, sight.definition), shown)
    alike: dict[tuple[str, str, str], list[tuple[Sight, _Keys]]] = {}
    odd: dict[tuple[SchemaObject, str], tuple[Sight, _Keys]] = {}
    for sight, side, name, shown, values in maps:
        is_default = known.may_be_default(_Place.of(side, name, sight.definition), shown)
        fitting = [value for value in values if (is_default if value is DEFAULT else can_be(shown, value))]
        possible = known.list_possible(side, name, shown, fitting)
        keys = frozenset(shown)
        if (possible and keys not in possible) or (not is_default and not fitting and DEFAULT in (values or [DEFAULT])):
            odd.setdefault((sight.subject, name), (sight, keys))
        elif not possible and len({_json(value) for value in fitting}) == 1:
            alike.setdefault((side, name, _json(fitting[0])), []).append((sight, keys))
    for (_, name, _), sights in alike.items():
        most = Counter(keys for _, keys in sights).most_common(1)[0][0]
        for sight, keys in sights:
            if keys != most:
                odd.setdefault((sight.subject, name), (sight, keys))
    for (subject, name), (sight, keys) in sorted(odd.items()):
        text = (
            f"at {seconds(sight.ends)} {sight.place.node} showed its {name} with other keys or values than the change that set it "
            f"gives it ({listing(sorted(keys))})"
        )
        yield Doubt("unread", text, (subject.key,))


def _maps_on_the_way(case: Evidence, parts: PossibleParts) -> Iterator[tuple[Sight, str, str, Mapping[str, JSON]]]:
    """Yield the options of tables and views on the way that are maps: (sighting, side, name of the option, map)."""
    for sight in _relations_on_the_way(case, parts):
        assert sight.definition is not None
        side = _side_of(case, sight)
        for name, shown in sight.definition["options"].items():
            if isinstance(shown, Mapping) and name not in _OF_COLUMNS:
                yield sight, side, name, shown


class _Place(NamedTuple):
    """An option that is a map, and on what its default may depend: the strategy of compaction, and whether the table has counters."""

    side: str
    option: str
    strategy: JSON
    counts: bool

    @classmethod
    def of(cls, side: str, name: str, definition: Mapping[str, Any] | None) -> _Place:
        """Return the place of one option of a table or view."""
        shown = definition or {}
        compaction = (shown.get("options") or {}).get("compaction")
        strategy = compaction.get("class") if isinstance(compaction, Mapping) and name != "compaction" else None
        types = (str(column.get("type")) for column in (shown.get("columns") or {}).values())
        return cls(side, name, strategy, any("counter" in one for one in types))


class _KnownKeys:
    """Keys that options which are maps may have, by their class and by what statements wrote, and the maps that they have by default."""

    def __init__(self, case: Evidence, parts: PossibleParts) -> None:
        self._by_default: dict[tuple[str, str, JSON], set[_Keys]] = {}
        self._by_statement: dict[tuple[str, str, str], set[_Keys]] = {}
        self._maps: dict[_Place, set[str]] = {}
        self._maps_on_the_way: dict[_Place, Counter[str]] = {}
        for schema in case.readings.schemas:
            for side, relations in _list_relations(schema, parts).items():
                for subject, table, options in relations:
                    definition = {
                        "options": options,
                        "columns": {name: {"type": c.type} for name, c in table.columns.items()},
                    }
                    self._add(side, definition, subject, parts)

    def _add(self, side: str, definition: Mapping[str, Any], subject: SchemaObject, parts: PossibleParts) -> None:
        for name, shown in definition["options"].items():
            if not isinstance(shown, Mapping) or name in _OF_COLUMNS:
                continue
            values = [one.value for one in parts.values(Part(subject, "option", name))]
            if all(value is DEFAULT for value in values):
                self._by_default.setdefault((side, name, shown.get("class")), set()).add(frozenset(shown))
                self._maps.setdefault(_Place.of(side, name, definition), set()).add(_json(shown))
            elif len({_json(value) for value in values}) == 1 and can_be(shown, values[0]):
                self._by_statement.setdefault((side, name, _json(values[0])), set()).add(frozenset(shown))

    def add_on_the_way(self, place: _Place, shown: Mapping[str, JSON]) -> None:
        """Add a map of a reading on the way that no statement can have written by then; it counts where no final reading has one."""
        self._maps_on_the_way.setdefault(place, Counter())[_json(shown)] += 1

    def may_be_default(self, place: _Place, shown: Mapping[str, JSON]) -> bool:
        """Compare a map with those of tables whose option nobody set.

        The final readings decide, or else what most readings on the way show.
        """
        usual: Collection[str] = self._maps.get(place, ())
        if not usual and place in self._maps_on_the_way:
            usual = [self._maps_on_the_way[place].most_common(1)[0][0]]
        return not usual or _json(shown) in usual

    def list_possible(
        self, side: str, name: str, shown: Mapping[str, JSON], values: Iterable[JSON]
    ) -> Collection[_Keys]:
        """List the keys that the map can have after statements that wrote these values; none if nothing tells."""
        usual = self._by_default.get((side, name, shown.get("class")), set())
        found: set[_Keys] = set()
        for value in values:
            if value is DEFAULT:
                found |= usual
            elif isinstance(value, Mapping):
                found |= self._by_statement.get((side, name, _json(value)), set())
                found |= {own | _named_keys(value) for own in usual}
        return found


def _named_keys(value: Mapping[str, JSON]) -> _Keys:
    return frozenset(map(stored_name, value))


def _split_off_columns(
    definition: Mapping[str, Any], operations: Iterable[PairedOperation]
) -> tuple[bytes, Mapping[str, str]]:
    """Return the columns of a table as text, and the options that follow from them, as JSON."""
    left_out = {"id", "cf_id"}
    if any(operation.f == "drop-column" for operation in operations):
        left_out.add("comparator")  # 1.2 and 2.0 keep collections in it that were dropped
    options = {
        name: _json(value)
        for name, value in (definition.get("options") or {}).items()
        if name in _OF_COLUMNS and name not in left_out
    }
    return orjson.dumps(definition.get("columns"), option=orjson.OPT_SORT_KEYS), options


def _relations_on_the_way(case: Evidence, parts: PossibleParts, *, while_mixed: bool = False) -> Iterator[Sight]:
    """Yield the tables and views of readings on the way that have options: after nodes became another release, or until then."""
    for sight in case.derive(read_sights):
        if is_mixed(case.notes.upgrades, sight) != while_mixed:
            continue
        has_options = bool((sight.definition or {}).get("options"))
        if sight.subject.kind in {"table", "view"} and has_options and parts.is_known(sight.subject):
            yield sight


def _keyspaces_on_the_way(
    case: Evidence, parts: PossibleParts, *, while_mixed: bool = False
) -> Iterator[tuple[Sight, Iterator[tuple[_Question, str]]]]:
    """Yield the keyspaces that memories showed on the way, with their options."""
    for sight in case.derive(read_sights):
        if is_mixed(case.notes.upgrades, sight) != while_mixed:
            continue
        definition = sight.definition
        is_of_memory = sight.subject.kind == "keyspace" and sight.place.side == "memory"
        if is_of_memory and definition and parts.is_known(sight.subject):
            yield sight, ((question, _json(value)) for question, value in _defaults_of_keyspace(definition))


def _shown_while_mixed(case: Evidence, parts: PossibleParts) -> Iterator[Shown]:
    """Yield what readings show that no change sets, from the time when nodes may have been of two releases.

    These are options, their names, the keys of their maps, what follows from the columns, and the classes of indexes.
    """
    sights = list(_relations_on_the_way(case, parts, while_mixed=True))
    asked = {name for sight in sights for name in parts.names(sight.subject, "option")}
    known: dict[tuple[str, int], Sequence[_Entry]] = {}
    for sight in sights:
        assert sight.definition is not None
        options: Mapping[str, JSON] = sight.definition["options"]
        side = _side_of(case, sight)
        for question, text in (
            _list_defaults_on_the_way(case, sight, parts, known) if sight.definition.get("columns") else ()
        ):
            yield Shown(sight, question, text, question.option)
        names = _json(sorted(frozenset(options) - _OF_COLUMNS - asked))
        yield Shown(sight, ("names", side, sight.subject), names, "the names of its options")
        for name, value in options.items():
            written = {_json(one.value) for one in parts.values_by(Part(sight.subject, "option", name), sight.ends)}
            if isinstance(value, Mapping) and len(written) == 1:
                yield Shown(sight, ("keys", side, name, *written), _json(sorted(value)), f"the keys of its {name}")
        if side != "statement" and len(case.changes.creates(sight.subject)) == 1:
            columns, following = _split_off_columns(sight.definition, parts.operations(sight.subject))
            yield Shown(
                sight, ("columns", sight.subject, columns), _json(dict(following)), "what follows from its columns"
            )
    for sight, entries in _keyspaces_on_the_way(case, parts, while_mixed=True):
        yield from (Shown(sight, question, text, question.option) for question, text in entries)
    for sight in case.derive(read_sights):
        is_shown = sight.subject.kind == "index" and sight.statement is not None and parts.is_known(sight.subject)
        if (
            is_shown
            and is_mixed(case.notes.upgrades, sight)
            and not _names_its_kind(parts.values_by(Part(sight.subject, "whole"), sight.ends))
        ):
            assert sight.statement is not None
            yield Shown(sight, ("class", sight.subject), sight.statement.rpartition(")")[2].strip(" ;"), "its class")


def _list_defaults_on_the_way(
    case: Evidence, sight: Sight, parts: PossibleParts, known: dict[tuple[str, int], Sequence[_Entry]]
) -> Iterator[tuple[_Question, str]]:
    """Yield the defaults of one sighting; `known` are the entries of definitions seen before, which the evidence keeps."""
    assert sight.definition is not None
    options: Mapping[str, JSON] = sight.definition["options"]
    side = _side_of(case, sight)
    seen = (side, id(sight.definition))
    if seen not in known:
        columns = {  # the statement of a view gives its columns no types
            name: {"type": "", "kind": "untold", "position": None, **column}
            for name, column in (sight.definition.get("columns") or {}).items()
        }
        key = (sight.subject.keyspace, sight.subject.name)
        known[seen] = _list_entries(side, read_table(key, None, {**sight.definition, "columns": columns}), options)
    set_options = _SetOptions(options, sight.subject, lambda part: parts.values_by(part, sight.ends))
    yield from ((entry.question, entry.text) for entry in known[seen] if set_options.is_default(entry.option))


class _Entry(NamedTuple):
    """One option that is shown, whatever the replication: as changes name it, with its question, and its value as JSON."""

    option: str
    question: _Question
    text: str


def _list_entries(side: str, table: Table, options: Mapping[str, JSON]) -> Sequence[_Entry]:
    """List the options of a table or a view; of a map also which keys it has."""
    flat = _flatten(options)
    keys = {
        f"{name}.": ",".join(sorted(value))
        for name, value in options.items()
        if name in flat and isinstance(value, Mapping)
    }
    conditions = _Conditions(None, table, options)
    return [
        _Entry(
            option.removesuffix(".") if option in keys else option,
            _Question(side, conditions.render(option), option),
            _json(value),
        )
        for option, value in {**flat, **keys}.items()
    ]


def _side_of(case: Evidence, sight: Sight) -> str:
    """Return the side of a reading on the way, as `_list_relations` names those of final ones."""
    if sight.place.side == "memory":
        return "statement"
    return next((schema.source for schema in case.readings.schemas), "disk")


def _anomaly_on_the_way(
    question: _Question, subject: SchemaObject, shown: str, sights: Sequence[Sight], usual: Iterable[str]
) -> Anomaly:
    first = sights[0]
    return anomaly(
        "unasked-option",
        objects=[subject.key],
        nodes=[sight.place.node for sight in sights],
        evidence={
            "option": question.option,
            "place": question.place,
            "shown": shown,
            "others": sorted(usual),
            "sightings": [{"node": sight.place.node, "time_ns": sight.ends} for sight in sights][: LIMITS.examples],
        },
        explanation=Argument(
            (),
            f"no change begun by then sets {question.option} of {subject.kind} {subject.key}, and all final readings of what "
            f"was created alike, and not changed, have {listing(sorted(usual))}.",
            f"at {seconds(first.ends)} {first.place.node} showed it as {shown} {question.place}.",
        ),
    )


# ── options that no change set ───────────────────────────────────────────────────────────────────────────────────────


def _collect_answers(schema: NodeSchema, parts: PossibleParts) -> Mapping[_Question, _Answers]:
    """Map each question to its answers, from one node's reading."""
    answers: dict[_Question, _Answers] = {}
    for side, relations in _list_relations(schema, parts).items():
        listed = _options_by_kind(relations)
        for subject, table, options in relations:
            flat = _flatten(options)
            conditions = _Conditions(schema.keyspaces.get(subject.keyspace), table, options)
            set_options = _SetOptions(options, subject, parts.values)
            for option in sorted(name for name in listed[subject.kind] if _has_place(name, options)):
                if set_options.is_default(option):
                    _add_answer(answers, _Question(side, conditions.render(option), option), subject, flat.get(option))
    for (keyspace, name), table in schema.tables.items():
        for index, definition in table.indexes.items():
            subject = SchemaObject("index", keyspace, index)
            derived = ("table", keyspace, name) in schema.derived
            if parts.is_known(subject) and not derived and not _names_its_kind(parts.values(Part(subject, "whole"))):
                for side, option, value in _list_kinds_of_index(schema, subject, definition):
                    _add_answer(answers, _Question(side, "index", option), subject, value)
    _add_keyspaces(answers, schema, parts)
    return answers


def _add_keyspaces(answers: dict[_Question, _Answers], schema: NodeSchema, parts: PossibleParts) -> None:
    """Add the options of keyspaces that one node's memory shows."""
    for subject, definition in _list_keyspaces(schema, parts):
        for question, value in _defaults_of_keyspace(definition):
            _add_answer(answers, question, subject, value)


def _list_keyspaces(schema: NodeSchema, parts: PossibleParts) -> Iterator[tuple[SchemaObject, Mapping[str, Any]]]:
    """Yield the keyspaces of the history that memory describes, as their statements define them."""
    for key, live in schema.live.items():
        subject = SchemaObject(*key)
        statement = None if live.statement is None else parse_statement(subject.kind, live.statement)
        if subject.kind == "keyspace" and statement is not None and parts.is_known(subject):
            yield subject, statement.definition


def _defaults_of_keyspace(definition: Mapping[str, Any]) -> Iterator[tuple[_Question, JSON]]:
    """Yield each option that only memory shows of a keyspace, and the names of all of them; no statement sets one."""
    options: Mapping[str, JSON] = definition.get("options") or {}
    conditions = _json(["keyspace", (definition.get("replication") or {}).get("class")])
    yield _Question("statement", conditions, "options"), ",".join(sorted(options))
    yield from ((_Question("statement", conditions, name), value) for name, value in _flatten(options).items())


def _names_its_kind(values: Iterable[PossibleValue]) -> bool:
    """Tell if one of these changes asked for an index of a certain class."""
    return any("using" in value.value for value in values)


def _add_answer(answers: dict[_Question, _Answers], question: _Question, subject: SchemaObject, value: JSON) -> None:
    answers.setdefault(question, _Answers()).shown.setdefault(_json(value), set()).add(subject)


def _json(value: JSON) -> str:
    """Render a value so that equal ones are the same text."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _list_relations(
    schema: NodeSchema, parts: PossibleParts
) -> Mapping[str, Sequence[tuple[SchemaObject, Table, Mapping[str, JSON]]]]:
    """Map each side to the options that every table and view of the history has there."""
    found: dict[str, list[tuple[SchemaObject, Table, Mapping[str, JSON]]]] = {}
    derived = schema.derived
    for kind, relations in (("table", schema.tables), ("view", schema.views)):
        for key, table in relations.items():
            subject = SchemaObject(kind, *key)
            # What came back after it was dropped has the options that it had then: that it is there is another finding.
            is_expected = parts.is_known(subject) and parts.may_exist(subject)
            if table.has_own_row and (kind, *key) not in derived and is_expected:
                for side, options in _list_sides(schema, subject, table):
                    found.setdefault(side, []).append((subject, table, options))
    return found


def _options_by_kind(
    relations: Sequence[tuple[SchemaObject, Table, Mapping[str, JSON]]],
) -> Mapping[str, frozenset[str]]:
    """Map tables and views to the options that any of them has: one that no view has is no option of views.

    Both have the same options but for a few that only tables have; tables lack what only views have.
    """
    of_kind = {
        kind: frozenset(name for subject, _, options in relations if subject.kind == kind for name in _flatten(options))
        for kind in ("table", "view")
    }
    return {**of_kind, "table": of_kind["table"] | of_kind["view"]}


def _has_place(option: str, options: Mapping[str, JSON]) -> bool:
    """Tell if the object can have that entry: one of a map only where it has the map."""
    name, _, key = option.partition(".")
    return not key or isinstance(options.get(name), Mapping)


def _list_kinds_of_index(
    schema: NodeSchema, subject: SchemaObject, index: Mapping[str, JSON]
) -> Iterator[tuple[str, str, JSON]]:
    """Yield (side, option, value): an index is of the kind that the server chooses where no statement names one."""
    if index.get("kind") is not None or not schema.follows_log:
        yield schema.source, "kind", index.get("kind")
    live = schema.live.get(subject)
    if live is not None and live.statement is not None:
        yield "statement", "USING", live.statement.rpartition(")")[2].strip(" ;")


def _list_sides(schema: NodeSchema, subject: SchemaObject, table: Table) -> Iterator[tuple[str, Mapping[str, JSON]]]:
    """Yield (side, options) for each side of a node that shows options of the object: its disk, its memory."""
    # Where a log decides, a table that the copy on disk lacks is told from memory, which shows other options; it has no id.
    if table.id is not None or not schema.follows_log:
        yield schema.source, table.options
    live = schema.live.get(subject)
    if live is not None and live.statement is not None:
        statement = parse_statement(subject.kind, live.statement)
        if statement is not None:
            yield "statement", statement.definition.get("options") or {}


class _Conditions:
    """Everything on which the defaults of one table's or view's options may depend, as JSON."""

    def __init__(self, keyspace: Mapping[str, Any] | None, table: Table, options: Mapping[str, JSON]) -> None:
        compaction = options.get("compaction") or options.get("compaction_strategy")
        self._strategy = compaction.get("class") if isinstance(compaction, Mapping) else compaction
        self._replication = (keyspace or {}).get("replication")
        self._counts = any("counter" in column.type for column in table.columns.values())
        self._options = options
        self._rendered: dict[tuple[bool, str | None], str] = {}

    def render(self, option: str) -> str:
        """Render the conditions of one option."""
        name, _, key = option.partition(".")
        names_strategy = key in {"", "class"} and name.startswith("compaction")
        # Other keys of a map have defaults that depend on its class.
        within = name if key not in {"", "class"} else None
        known = self._rendered.get((names_strategy, within))
        if known is None:
            own = None if within is None else self._options.get(within)
            of_class = own.get("class") if isinstance(own, Mapping) else None
            strategy = None if names_strategy else self._strategy
            known = _json([strategy, of_class, self._replication, self._counts])
            self._rendered[names_strategy, within] = known
        return known


def _flatten(options: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return the options with the entries of maps apart, as `name.key`, without those that follow from the columns."""
    flat: dict[str, JSON] = {}
    for name, value in options.items():
        if name in _OF_COLUMNS or name.startswith(_DEFAULT_BY_MEMORY):
            continue
        if isinstance(value, Mapping):
            flat[name] = "a map"
            flat |= {f"{name}.{key}": entry for key, entry in value.items()}
        else:
            flat[name] = value
    return flat


class _SetOptions:
    """The options of one object that a change set."""

    def __init__(
        self,
        options: Mapping[str, JSON],
        subject: SchemaObject,
        values_of: Callable[[Part], Sequence[PossibleValue]],
    ) -> None:
        """Take the options that are shown, and the values that changes may have given each part."""
        self._options = options
        self._subject = subject
        self._values_of = values_of
        self._named: dict[str, frozenset[str] | None] = {}

    def is_default(self, option: str) -> bool:
        """Tell if no change that may have been the last set this option of the object."""
        name, _, key = option.partition(".")
        named = self._named[name] if name in self._named else self._named.setdefault(name, self._name_keys(name))
        if named is None:
            return True
        # Keys that a map does not name have defaults too, which depend on its class.
        return bool(key) and isinstance(self._options.get(name), Mapping) and key not in named

    def _name_keys(self, name: str) -> frozenset[str] | None:
        """Collect the keys that changes named of an option; None if none of them set it."""
        part = Part(self._subject, "option", name)
        values = [value.value for value in self._values_of(part) if value.value is not DEFAULT]
        if not values:
            return None
        return frozenset(stored_name(str(one)) for value in values if isinstance(value, Mapping) for one in value)


# ── the finding ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _anomaly(
    case: Evidence,
    question: _Question,
    subject: SchemaObject,
    readings: Mapping[str, Mapping[str, tuple[str, str]]],
) -> Anomaly:
    operations = [
        operation
        for operation in case.changes.all
        if operation.key == subject.key and (operation.f.startswith(("create-", "alter-")))
    ][-LIMITS.suspects :]
    shown = sorted({value for nodes in readings.values() for value, _ in nodes.values()})
    usual = sorted({value for nodes in readings.values() for _, value in nodes.values()})
    return anomaly(
        "unasked-option",
        objects=[subject.key],
        nodes=[node for nodes in readings.values() for node in nodes],
        ops=[operation.index for operation in operations],
        evidence={"option": question.option, "place": question.place, "readings": _render_readings(readings)},
        explanation=Argument(
            operations,
            f"no change that can have happened sets {question.option} of {subject.kind} {subject.key}, and "
            + (
                f"its default is {listing(usual)} in every release."
                if question.option in _OF_EVERY_RELEASE
                else f"others that were created alike, and not changed since, have {listing(usual)}."
            ),
            f"{where(readings, 'has', 'have')} it as {listing(shown)} {question.place}.",
        ),
    )


def _render_readings(readings: Mapping[str, Mapping[str, tuple[str, str]]]) -> JSON:
    return {
        phase: {node: {"shown": shown, "others": usual} for node, (shown, usual) in nodes.items()}
        for phase, nodes in readings.items()
    }
