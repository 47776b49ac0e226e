"""Sightings: what nodes show while the run goes on is what changes begun by then can have made of it.

Judges every reading that is not final, on disk and in memory, object by object and part by part (`schemaquake.checkers.schema.shown_parts`).
A node may be behind the others for any time. But nothing shows a change before it begins, a value that no change gives, or an
object that nobody created; nothing is gone that nobody dropped; and no node goes back behind what it showed before, or
acknowledged before the reading began, even where the reading has no row of it (`schemaquake.checkers.evidence.standing`). What a node
knows ends, for this purpose, with any start of it and with any fault on it, and what it has with an operation that takes its disk away. Where one log
decides for the whole cluster, the disk is a copy that may go stale (`stale-schema-copy`), so only memory is judged for going back.
Finds: `unexplained-sighting`, `older-sighting`.
Source: CEP-21, "strict linearizability of metadata changes"; the ScyllaDB talk; CASSANDRA-18291.

What is left open on purpose: an object that may be older than the history, a keyspace that a statement in free text may have
changed. A reading of several queries may fall into a change: what it may lack for that reason is a doubt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple

import orjson

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.schema_changes import SchemaObject, can_follow, certainly_applied
from schemaquake.checkers.evidence.sights import Place, Sight, read_outages, read_sights
from schemaquake.checkers.evidence.standing import read_standing
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, seconds
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.schema.epochs import started_between
from schemaquake.checkers.schema.judge import Findings, doubt_free_text, judge
from schemaquake.checkers.schema.matching import find_missing_words, find_unasked_words
from schemaquake.checkers.schema.objects import find_removals
from schemaquake.checkers.schema.possible_parts import Part, list_possible_parts
from schemaquake.checkers.schema.shapes import Shapes
from schemaquake.checkers.schema.shown_parts import ShownPart, ShownParts
from schemaquake.harness.ddl.cql import indexed_column
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict

__all__ = ["Sightings"]

_ON_ITS_TABLE: Final[Mapping[str, Any]] = {}
"""The definition of an index that is in its table's row, where it is judged."""


class Sightings:
    """Every reading while the run goes on shows what may have been there at that time."""

    name = "sightings"
    scope: Literal["keyspace", "run"] = "keyspace"
    finds: tuple[str, ...] = ("unexplained-sighting", "older-sighting")
    vouches: bool = (
        False  # that nothing odd was seen on the way shows little: what nodes have in the end is judged by others
    )

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        """Judge every object of every such reading. Nothing to judge without any; unknown without final readings."""
        verdict = judge(self.name, records, _find, limit_s=limit_s)
        if verdict.valid is True and not verdict.figures["judged"]:
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", "no object was read while the run went on"))
        return verdict


# ── judging ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Known:
    """The knowledge of one side of a node: for each part that it showed, the changes that can have made it so."""

    time: int = 0
    parts: dict[Part, frozenset[int]] = field(default_factory=dict)
    shown: dict[SchemaObject, Sequence[PairedOperation]] = field(default_factory=dict)
    """For each object that it showed, and that was not gone since, the CREATEs begun by then."""
    gone: dict[SchemaObject, Sequence[PairedOperation]] = field(default_factory=dict)
    """For each object that it had shown, and that was gone then, the removals begun by then."""


class _Odd(NamedTuple):
    """One thing that a sighting shows and that cannot be, and the changes that bear on it."""

    type: Literal["unexplained-sighting", "older-sighting"]
    part: str
    shown: JSON
    but: str
    changes: Sequence[PairedOperation]
    possible: Sequence[JSON] = ()


def _find(case: Evidence) -> Findings:
    judges = _Judge(case)
    found: dict[tuple[SchemaObject, str, str, str], list[tuple[Sight, _Odd]]] = {}
    doubts: dict[Doubt, None] = {}
    judged: set[SchemaObject] = set()
    all_sights = [*case.derive(read_sights), *read_standing(case)]
    for sight in sorted(all_sights, key=lambda sight: (sight.ends, sight.place, sight.stands)):
        judged.add(sight.subject)
        for odd in judges.judge(sight):
            if isinstance(odd, Doubt):
                doubts[odd] = None
            else:
                one = (sight.subject, str(odd.type), odd.part, orjson.dumps(odd.shown).decode())
                found.setdefault(one, []).append((sight, odd))
    for key in sorted(found):
        subject, sights = key[0], found[key]
        yield doubt_free_text(case, subject.keyspace, _anomaly(case, subject, sights))
    yield from doubts
    yield from [None] * len(judged - {subject for subject, *_ in found})


class _Judge:
    """Judges the sightings of a run in order of time."""

    def __init__(self, case: Evidence) -> None:
        self._case = case
        self._parts = case.derive(list_possible_parts)
        self._shown = ShownParts(case, self._parts)
        self._by_log = any(schema.follows_log for schema in case.readings.schemas)
        self._shapes = Shapes(case.readings.schemas)
        self._known: dict[Place, _Known] = {}
        self._ever: dict[Place, set[SchemaObject]] = {}
        """The objects that each place ever showed since its disk was lost, before a start of the node, too."""
        self._of_history: dict[SchemaObject, bool] = {}
        self._indexes: dict[SchemaObject, list[SchemaObject]] = {}
        for subject in case.changes.objects:
            tables = (
                {create.argument["table"] for create in case.changes.creates(subject)}
                if subject.kind == "index"
                else ()
            )
            if len(tables) == 1:  # one that may be on either of two tables is not missed on one of them
                self._indexes.setdefault(SchemaObject("table", subject.keyspace, *tables), []).append(subject)

    def judge(self, sight: Sight) -> Iterator[_Odd | Doubt]:
        """Yield what cannot be, or could not be decided, of one sighting."""
        known = self._known_of(sight)
        if not self._is_of_history(sight.subject):
            yield from () if sight.stands else self._judge_untouched(sight)
            return
        if self._is_torn_view(sight):
            return
        if sight.stands:
            yield from self._judge_standing(sight, known)
            return
        is_new = sight.subject not in known.shown
        existence = list(self._judge_existence(sight, known))
        yield from existence
        self._remember(sight, known)
        if sight.definition is None:
            return
        yield from self._judge_indexes(sight)
        if sight.named:
            yield _Odd("unexplained-sighting", "name", sight.named, f"its statement names {sight.named}", ())
        yield from _judge_words(sight)
        yield from self._judge_class_of_index(sight)
        fault = self._shapes.find_fault(sight.subject.kind, sight.definition) if sight.place.side == "disk" else ""
        if fault and sight.definition is not _ON_ITS_TABLE:
            text = f"{sight.place.node} showed it with other keys at {seconds(sight.ends)} than any final reading has ({fault})"
            yield Doubt("unread", text, (sight.subject.key,))
        elif not sight.understood:
            text = f"the statement that {sight.place.node} showed at {seconds(sight.ends)} is not understood"
            yield Doubt("unread", text, (sight.subject.key,))
        elif not existence and sight.definition is not _ON_ITS_TABLE and self._parts.is_known(sight.subject):
            yield from self._judge_parts(sight, known, is_new=is_new)

    def _judge_standing(self, sight: Sight, known: _Known) -> Iterator[_Odd | Doubt]:
        """Judge an object that a reading has no row of, for what the node had acknowledged alone: the rest was judged when it was shown."""
        existence = list(self._judge_existence(sight, known))
        yield from existence
        is_judged = sight.understood and sight.definition not in (None, _ON_ITS_TABLE) and not existence
        if is_judged:
            yield from self._judge_indexes(sight)
        if is_judged and self._parts.is_known(sight.subject):
            for odd in self._judge_parts(sight, known, is_new=False):
                if isinstance(odd, Doubt) or odd.type == "older-sighting":
                    yield odd

    def _remember(self, sight: Sight, known: _Known) -> None:
        """Note that an object was there, or is gone."""
        if sight.definition is not None:
            known.gone.pop(sight.subject, None)
            known.shown[sight.subject] = self._begun(sight)
            self._ever.setdefault(sight.place, set()).add(sight.subject)
        elif known.shown.pop(sight.subject, None) is not None:
            removals = find_removals(self._case.changes, sight.subject)
            known.gone[sight.subject] = [one for one in removals if one.invoked <= sight.ends]

    def _known_of(self, sight: Sight) -> _Known:
        """Return what its side of the node is known to have known, up to this sighting."""
        known = self._known.setdefault(sight.place, _Known())
        if self._case.notes.losses.between(sight.place.node, known.time, sight.ends):
            self._ever.pop(sight.place, None)
        if self._was_away(sight.place.node, known.time, sight.ends):
            known = self._known[sight.place] = _Known()
        known.time = sight.ends
        return known

    def _is_torn_view(self, sight: Sight) -> bool:
        """Tell if a table is only the columns of a view whose own row was not read, in the middle of its CREATE or DROP."""
        subject, definition = sight.subject, sight.definition
        if subject.kind != "table" or sight.place.side != "disk" or not sight.corrected or not definition:
            return False
        creates = self._case.changes.creates(SchemaObject("view", subject.keyspace, subject.name))
        return not definition.get("options") and any(one.invoked <= sight.ends for one in creates)

    def _judge_untouched(self, sight: Sight) -> Iterator[_Odd | Doubt]:
        """Judge a keyspace that is older than the history, and that no change of it names: it is always as in the final readings.

        One that no final reading has, another client may have dropped: that is a doubt.
        """
        subject, changes = sight.subject, self._case.changes
        if subject.kind != "keyspace" or changes.on(subject) or changes.texts(subject.keyspace):
            return
        schemas = self._case.readings.schemas
        finals = [schema for schema in schemas if subject.keyspace in schema.keyspaces]
        if sight.definition is not None and not finals and not any(subject in schema.live for schema in schemas):
            text = f"{sight.place.node} showed it {_where(sight.place)}, no final reading has it, and no operation concerns it"
            yield Doubt("undecided", text, (subject.key,))
            return
        if sight.place.side == "disk":
            shown: JSON = sight.definition
            possible = [schema.keyspaces[subject.keyspace] for schema in finals]
        else:
            shown = sight.statement and " ".join(sight.statement.split())
            live = [schema.live[subject].statement for schema in finals if subject in schema.live]
            possible = [" ".join(text.split()) for text in live if text is not None]
        if possible and shown not in possible:
            text = "is gone" if shown is None else f"is {_text(shown)}"
            yield _Odd(
                "unexplained-sighting", "keyspace", shown, f"{text}, and no operation concerns it", (), possible[:1]
            )

    def _judge_class_of_index(self, sight: Sight) -> Iterator[_Odd]:
        """Judge the class that a statement in memory gives an index, where no operation names one."""
        if sight.subject.kind != "index" or sight.statement is None:
            return
        if self._case.notes.upgrades.mixed is not None:
            return  # 6.0 spells out the class that 5.0 leaves out
        if any("using" in create.argument for create in self._begun(sight)):
            return
        final = {
            (live.statement or "").rpartition(")")[2].strip(" ;")
            for schema in self._case.readings.schemas
            for subject, live in schema.live.items()
            if subject[0] == "index"
            and not any("using" in create.argument for create in self._case.changes.creates(SchemaObject(*subject)))
        }
        shown = sight.statement.rpartition(")")[2].strip(" ;")
        if final and shown not in final:
            text = f"its class is {shown or 'that of the server'}"
            yield _Odd("unexplained-sighting", "class", shown, text, self._begun(sight), sorted(final))

    def _judge_indexes(self, sight: Sight) -> Iterator[_Odd | Doubt]:
        """Judge whether the indexes that the history names are on a table's row: they have no rows of their own on disk."""
        shown = sight.definition or {}
        listed = shown.get("indexes")
        is_whole = bool(shown.get("columns")) and bool(shown.get("options"))
        if sight.subject.kind != "table" or sight.place.side != "disk" or listed is None or not is_whole:
            return
        for index in self._indexes.get(sight.subject, ()):
            yield from self.judge(
                replace(sight, subject=index, definition=_ON_ITS_TABLE if index.name in listed else None)
            )

    def _was_away(self, node: str, begins: int, ends: int) -> bool:
        """Tell if a node may have been started, or could not be read, between two times (ns)."""
        outages = self._case.derive(read_outages).get(node, ())
        return any(begins <= time <= ends for time in outages) or started_between(self._case.notes, node, begins, ends)

    def _begun(self, sight: Sight) -> Sequence[PairedOperation]:
        return [one for one in self._case.changes.creates(sight.subject) if one.invoked <= sight.ends]

    def _is_of_history(self, subject: SchemaObject) -> bool:
        """Tell if the object cannot be older than the history: its keyspace, or it, was certainly not there before a CREATE."""
        if subject not in self._of_history:
            keyspace = SchemaObject("keyspace", subject.keyspace, "")
            self._of_history[subject] = not self._case.changes.texts(subject.keyspace) and any(
                certainly_applied(create)
                and not any(can_follow(create, removal) for removal in find_removals(self._case.changes, one))
                for one in (keyspace, subject)
                for create in self._case.changes.creates(one)
            )
        return self._of_history[subject]

    # ── existence ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _judge_existence(self, sight: Sight, known: _Known) -> Iterator[_Odd]:
        subject = sight.subject
        creates = self._begun(sight)
        removals = [one for one in find_removals(self._case.changes, subject) if one.invoked <= sight.ends]
        if sight.definition is not None:
            later = [one for one in self._case.changes.creates(subject) if one not in creates]
            if not creates:
                why = "no CREATE of it had begun" if later else "no operation can have created it"
                yield _Odd("unexplained-sighting", "", None, f"is there, and {why}", later[:1])
                return
            for drop in self._acknowledged_by(sight, _certain_removals(subject, creates, removals)):
                if all(create.entirely_before(drop) for create in creates):
                    yield _Odd("older-sighting", "", None, "is there again", [*creates, drop])
                    return
            gone = known.gone.get(subject, ()) if self._may_not_go_back(sight) else ()
            if gone and _are_final(subject, creates, gone):
                yield _Odd("older-sighting", "", None, "is there again", [*creates, *gone])
            return
        if subject in self._ever.get(sight.place, ()) and not removals:
            yield _Odd("unexplained-sighting", "gone", None, "is gone, and no DROP of it had begun", creates)
            return
        certain = self._acknowledged_by(sight, creates)
        for create in certain:
            if all(removal.entirely_before(create) for removal in removals):
                yield _Odd("older-sighting", "gone", None, "is gone again", [*removals, create])
                return
        shown = known.shown.get(subject, ())
        if shown and not certain and all(one.entirely_before(create) for one in removals for create in shown):
            yield _Odd("older-sighting", "gone", None, "is gone again", [*removals, *shown])

    def _acknowledged_by(self, sight: Sight, changes: Iterable[PairedOperation]) -> Sequence[PairedOperation]:
        """Return those of the changes that the node itself had carried out before the reading began."""
        if self._by_log and sight.place.side == "disk":
            return ()
        return [
            one
            for one in changes
            if one.node == sight.place.node
            and certainly_applied(one)
            # Where a log decides, a statement IF [NOT] EXISTS that did nothing may say that it did something.
            and not (self._by_log and (one.argument.get("if_exists") or one.argument.get("if_not_exists")))
            and one.completed is not None
            and one.completed < sight.begins
            and not self._was_away(sight.place.node, one.completed, sight.ends)
        ]

    # ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _judge_parts(self, sight: Sight, known: _Known, *, is_new: bool) -> Iterator[_Odd | Doubt]:
        assert sight.definition is not None
        in_memory = sight.place.side == "memory"
        for shown in self._shown.of(sight.subject, sight.definition, sight.ends, in_memory=in_memory):
            odd = self._judge_part(sight, known, shown)
            is_torn = shown.torn and sight.corrected
            if odd is not None and is_torn and shown.part.aspect == "columns" and (is_new or self._is_going(sight)):
                continue  # its row came before its columns, or goes after them
            if odd is not None and is_torn and self._is_just_going(sight):
                continue
            if odd is not None and is_torn:
                text = f"{sight.place.node} showed it without {shown.name} at {seconds(sight.ends)}, perhaps in the middle of a change"
                yield Doubt("undecided", text, (sight.subject.key,))
            elif odd is not None:
                yield odd

    def _is_going(self, sight: Sight) -> bool:
        """Tell if a removal of the object had begun."""
        return any(one.invoked <= sight.ends for one in find_removals(self._case.changes, sight.subject))

    def _is_just_going(self, sight: Sight) -> bool:
        """Tell if a removal of the object was under way while it was read: its columns go one after the other."""
        return any(
            one.invoked <= sight.ends and not one.ended_before(sight.begins)
            for one in find_removals(self._case.changes, sight.subject)
        )

    def _judge_part(self, sight: Sight, known: _Known, shown: ShownPart) -> _Odd | None:
        if shown.fault:
            return _Odd("unexplained-sighting", shown.name, shown.shown, f"{shown.name} {shown.fault}", ())
        changes = list({one.operation.index: one.operation for one in shown.causes}.values())
        possible = [one.value for one in shown.causes]
        text = f"{shown.name} is {_text(shown.shown)}"
        if not shown.fitting:
            return _Odd("unexplained-sighting", shown.name, shown.shown, text, changes, possible)
        if not shown.ages:
            return None
        seen = known.parts.get(shown.part, frozenset()) if self._may_not_go_back(sight) else frozenset()
        by_index = {change.index: change for change in changes}
        bounds: list[Sequence[PairedOperation]] = [[by_index[index] for index in seen if index in by_index]]
        bounds += [[change] for change in self._acknowledged_by(sight, changes)]
        fresh = [
            one
            for one in shown.fitting
            if not any(bound and all(one.operation.entirely_before(other) for other in bound) for bound in bounds)
        ]
        if not fresh:
            return _Odd("older-sighting", shown.name, shown.shown, text, changes, possible)
        known.parts[shown.part] = frozenset(one.operation.index for one in fresh)
        return None

    def _may_not_go_back(self, sight: Sight) -> bool:
        return not (self._by_log and sight.place.side == "disk")


def _judge_words(sight: Sight) -> Iterator[_Odd]:
    """Judge what a statement in memory says beside the definition of its object, and no operation asks for."""
    if not sight.statement:
        return
    for words in find_missing_words(sight.statement) if sight.subject.kind == "function" else ():
        yield _Odd("unexplained-sighting", "words", words, f"its statement does not say {words}", ())
    for words in find_unasked_words(sight.subject.kind, sight.statement):
        yield _Odd("unexplained-sighting", "words", words, f"its statement says {words}", ())


def _certain_removals(
    subject: SchemaObject, creates: Sequence[PairedOperation], removals: Iterable[PairedOperation]
) -> Sequence[PairedOperation]:
    """Return the removals after which the object is certainly gone, whichever of the CREATEs made it; a rename leaves an index."""
    own = {f"drop-{subject.kind}", "drop-keyspace"}
    return [
        one
        for one in removals
        if one.f in own or (one.f.startswith("drop-") and all(_goes_with(one, create) for create in creates))
    ]


def _are_final(subject: SchemaObject, creates: Sequence[PairedOperation], removals: Sequence[PairedOperation]) -> bool:
    """Tell if each of these removals was certainly carried out, and none of the CREATEs can have come after any of them."""
    certain = [one for one in _certain_removals(subject, creates, removals) if certainly_applied(one)]
    return len(certain) == len(removals) and all(one.entirely_before(other) for one in creates for other in certain)


def _goes_with(drop: PairedOperation, create: PairedOperation) -> bool:
    """Tell whether the index or view that was created goes with the table or column that is dropped."""
    made = create.argument
    if made.get("table", made.get("base")) != drop.argument["name"]:
        return False
    return drop.f != "drop-column" or indexed_column(made["column"]) == drop.argument["column"]


# ── the finding ──────────────────────────────────────────────────────────────────────────────────────────────────────

_THEN: Final[Mapping[str, str]] = {
    "unexplained-sighting": "a node shows nothing but what changes that have begun can have made",
    "older-sighting": "a node does not go back behind what it showed, or acknowledged, before",
}


def _anomaly(case: Evidence, subject: SchemaObject, found: Sequence[tuple[Sight, _Odd]]) -> Anomaly:
    sight, odd = found[0]
    refused = [one for one in case.changes.all if one.type == "fail" and one.key == subject.key and one.f != "cql"]
    named = [*odd.changes, *(refused if odd.type == "unexplained-sighting" else ())][-LIMITS.suspects :]
    places = sorted({one.place for one, _ in found})
    shown = [{"node": one.place.node, "side": one.place.side, "time_ns": one.ends} for one, _ in found]
    return anomaly(
        odd.type,
        objects=[subject.key],
        nodes=[place.node for place in places],
        ops=[change.index for change in named],
        evidence={
            "part": odd.part,
            "shown": odd.shown,
            "possible": list(odd.possible),
            "sightings": shown[: LIMITS.examples],
            "count": len(shown),
        },
        explanation=Argument(
            named,
            f"{_THEN[odd.type]}: {subject.kind} {subject.key}"
            + (f" can only have {listing(map(_text, odd.possible))} there." if odd.possible else " is bound by that."),
            f"at {seconds(sight.ends)} {sight.place.node} showed {_where(sight.place)} that {odd.but}.",
        ),
    )


def _where(place: Place) -> str:
    return "on its disk" if place.side == "disk" else "in its memory"


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
