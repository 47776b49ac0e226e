"""Verdicts: the answer of a checker as data, and the combination of several.

Three values, worst first: `False` outweighs `"unknown"` outweighs `True`. No verdict at all is unknown, and
unknown is never good news: a check that could not decide is not a check that passed.

Why a verdict is not decided stands in its `doubts`, each of a kind that programs can compare. `reason` is the same for
people, rendered from them (`Doubt.sentence`) and parsed nowhere. Documents of version 0.1 have a `reason` only:
`schemaquake.harness.model.verdict_upgrade` makes doubts of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final, Literal, TypeAlias, get_args

from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.verdict_upgrade import upgrade_verdict

__all__ = [
    "VERDICT_SCHEMA",
    "Anomaly",
    "Doubt",
    "DoubtKind",
    "Merge",
    "Stat",
    "Validity",
    "Verdict",
    "combine",
    "describe_doubts",
    "make_stats",
    "merge_doubts",
    "merge_stats",
    "render_doubts",
]

VERDICT_SCHEMA: Final = 2
"""The version of the format of `verdict.json`. Version 0.1 wrote documents without a number."""

Validity: TypeAlias = Literal[True, False, "unknown"]

DoubtKind: TypeAlias = Literal["nothing-to-judge", "unread", "time", "memory", "crashed", "undecided", "incomplete-run"]
"""The kinds of reasons why something is not decided.

- `nothing-to-judge`: the history has nothing that the checker's question applies to;
- `unread`: a node, a disk or a file could not be read;
- `time`, `memory`: a limit was reached;
- `crashed`: the checker failed, and its failure says nothing about the cluster;
- `incomplete-run`: the run itself did not come to its end;
- `undecided`: the evidence fits more than one answer.
"""

Merge: TypeAlias = Literal["sum", "max", "min"]

_NAMED_MOST: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One proven violation: its type, objects, nodes, operations, and the proof that no legal execution explains it.

    `type` is a stable name of the catalogue; `ops` are indices into the history; `objects` are `keyspace` or
    `keyspace.name`; `explanation` is in the form Let …, Then …, But …; `references` are tickets and seed documents.
    """

    type: str
    title: str
    objects: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    ops: tuple[int, ...] = ()
    evidence: JSON = None
    explanation: str = ""
    references: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the anomaly as verdict.json holds it."""
        return {
            "type": self.type,
            "title": self.title,
            "objects": list(self.objects),
            "nodes": list(self.nodes),
            "ops": list(self.ops),
            "evidence": self.evidence,
            "explanation": self.explanation,
            "references": list(self.references),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Anomaly:
        """Read back what `to_json` wrote."""
        return cls(
            type=document["type"],
            title=document["title"],
            objects=tuple(document["objects"]),
            nodes=tuple(document["nodes"]),
            ops=tuple(document["ops"]),
            evidence=document["evidence"],
            explanation=document["explanation"],
            references=tuple(document["references"]),
        )


@dataclass(frozen=True, slots=True)
class Doubt:
    """One reason why something is not decided.

    `text` has no full stop and does not repeat `objects`: the keyspaces, `keyspace.name`s or keys that are concerned;
    empty: everything that was judged. `checker` is set where doubts of several checkers stand together; None there: the
    doubt is about the whole run.
    """

    kind: DoubtKind
    text: str
    objects: tuple[str, ...] = ()
    checker: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a kind that is not known."""
        if self.kind not in get_args(DoubtKind):
            raise ValueError(f"a doubt is one of {', '.join(get_args(DoubtKind))}, not {self.kind!r}")

    @property
    def weighs(self) -> bool:
        """False for a question that did not arise: it keeps nothing else from being decided."""
        return self.kind != "nothing-to-judge"

    @property
    def sentence(self) -> str:
        """The doubt for a person: `checker: nothing to judge: text (object, object, object and 2 more)`."""
        return _doubt_sentence(self, () if self.checker is None else (self.checker,))

    def to_json(self) -> dict[str, Any]:
        """Return the doubt as verdict.json holds it; absent parts left out."""
        document: dict[str, Any] = {"kind": self.kind, "text": self.text}
        if self.objects:
            document["objects"] = list(self.objects)
        if self.checker is not None:
            document["checker"] = self.checker
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Doubt:
        """Read back what `to_json` wrote."""
        return cls(document["kind"], document["text"], tuple(document.get("objects", ())), document.get("checker"))


@dataclass(frozen=True, slots=True)
class Stat:
    """A statistic of a verdict. `unit` is null for counts, names and whatever needs none.

    `merge` says how the numbers of several keyspaces become one. A map is merged entry by entry; of anything else every
    value that occurs is kept, once.
    """

    value: JSON
    unit: str | None = None
    merge: Merge = "sum"

    def merged(self, other: Stat) -> Stat:
        """Return both as one. The unit and the way to merge are this one's."""
        return Stat(_merged(self.merge, self.value, other.value), self.unit, self.merge)

    def to_json(self) -> dict[str, Any]:
        """Return the statistic as verdict.json holds it; a unit of none and a sum are left out."""
        document: dict[str, Any] = {"value": self.value}
        if self.unit is not None:
            document["unit"] = self.unit
        if self.merge != "sum":
            document["merge"] = self.merge
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Stat:
        """Read back what `to_json` wrote."""
        return cls(document["value"], document.get("unit"), document.get("merge", "sum"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A checker's answer.

    `doubts` say why it is unknown; one that is False may have some, too, about what else there might be. `parts` are the
    verdicts it was combined from. `undecided` are the keyspaces that are unknown in a verdict reached keyspace by
    keyspace; null: it was reached as a whole.
    """

    valid: Validity
    checker: str
    anomalies: tuple[Anomaly, ...] = ()
    stats: Mapping[str, Stat] = field(default_factory=dict)
    doubts: tuple[Doubt, ...] = ()
    parts: tuple[Verdict, ...] = ()
    undecided: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a validity that is none: 1, None or a misspelt word would pass for an answer."""
        if not (self.valid is True or self.valid is False or self.valid == "unknown"):
            raise ValueError(f'a verdict is True, False or "unknown", not {self.valid!r}')
        if any(not isinstance(stat, Stat) for stat in self.stats.values()):
            raise ValueError(f"the statistics of {self.checker} are Stats: make_stats makes them of plain values")

    @classmethod
    def unknown(cls, checker: str, *doubts: Doubt, stats: Mapping[str, Stat] | None = None) -> Verdict:
        """Make a verdict that is not decided, for these doubts."""
        return cls(valid="unknown", checker=checker, doubts=doubts, stats=stats or {})

    @property
    def reason(self) -> str | None:
        """The doubts for a person; null if there are none."""
        return render_doubts(self.doubts)

    @property
    def judged_nothing(self) -> bool:
        """True if the checker's question did not arise, which is neither good news nor bad."""
        return self.valid == "unknown" and bool(self.doubts) and not any(doubt.weighs for doubt in self.doubts)

    @property
    def figures(self) -> dict[str, JSON]:
        """The values of the statistics, by name."""
        return {name: stat.value for name, stat in self.stats.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as one JSON document; keys in a fixed order, absent parts left out.

        `reason` is there for readers. `from_json` reads the doubts.
        """
        return {"schema": VERDICT_SCHEMA, **_verdict_document(self)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Verdict:
        """Read back what `to_json` wrote, now or in version 0.1. Raises ValueError for a later schema."""
        schema = document.get("schema", 1)
        if schema > VERDICT_SCHEMA:
            raise ValueError(f"the verdict has schema {schema}, and this version reads up to {VERDICT_SCHEMA}")
        return cls._read(upgrade_verdict(document) if schema == 1 else document)

    @classmethod
    def _read(cls, document: Mapping[str, Any]) -> Verdict:
        undecided = document.get("undecided")
        return cls(
            valid=document["valid"],
            checker=document["checker"],
            anomalies=tuple(Anomaly.from_json(anomaly) for anomaly in document["anomalies"]),
            stats={name: Stat.from_json(stat) for name, stat in document["stats"].items()},
            doubts=tuple(Doubt.from_json(doubt) for doubt in document.get("doubts", ())),
            parts=tuple(cls._read(part) for part in document.get("parts", ())),
            undecided=None if undecided is None else tuple(undecided),
        )


def combine(validities: Iterable[Validity]) -> Validity:
    """Combine several answers: false outweighs unknown outweighs true; nothing at all is unknown."""
    seen = set(validities)
    if False in seen:
        return False
    if "unknown" in seen or not seen:
        return "unknown"
    return True


def render_doubts(doubts: Iterable[Doubt]) -> str | None:
    """Render doubts as one line for a person; null if there are none."""
    return "; ".join(doubt.sentence for doubt in doubts) or None


def describe_doubts(doubts: Iterable[Doubt]) -> tuple[str, ...]:
    """Describe doubts for a person, those of one kind and text once: `checker, checker and 2 more: text (object, object)`."""
    every = list(doubts)
    checkers: dict[tuple[DoubtKind, str], dict[str, None]] = {}
    for doubt in every:
        names = checkers.setdefault((doubt.kind, doubt.text), {})
        if doubt.checker is not None:
            names[doubt.checker] = None
    return tuple(
        _doubt_sentence(doubt, tuple(checkers[doubt.kind, doubt.text]))
        for doubt in merge_doubts(replace(doubt, checker=None) for doubt in every)
    )


def merge_doubts(doubts: Iterable[Doubt]) -> tuple[Doubt, ...]:
    """Merge doubts that say the same of different objects; in the order in which they are first named."""
    objects: dict[tuple[DoubtKind, str, str | None], list[tuple[str, ...]]] = {}
    for doubt in doubts:
        objects.setdefault((doubt.kind, doubt.text, doubt.checker), []).append(doubt.objects)
    return tuple(
        # A doubt about everything needs no list of objects.
        Doubt(kind, text, () if () in named else tuple(dict.fromkeys(sum(named, ()))), checker)
        for (kind, text, checker), named in objects.items()
    )


def _doubt_sentence(doubt: Doubt, checkers: Sequence[str]) -> str:
    objects = f" ({_first_names(doubt.objects)})" if doubt.objects else ""
    nothing = "" if doubt.weighs else "nothing to judge: "
    return f"{f'{_first_names(checkers)}: ' if checkers else ''}{nothing}{doubt.text}{objects}"


def _first_names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_MOST
    return f"{', '.join(names[:_NAMED_MOST])}{f' and {more} more' if more > 0 else ''}"


def make_stats(values: Mapping[str, JSON | Stat]) -> dict[str, Stat]:
    """Make statistics of plain values, which are counts or need no merging; a Stat stays what it is."""
    return {name: value if isinstance(value, Stat) else Stat(value) for name, value in values.items()}


def merge_stats(several: Iterable[Mapping[str, Stat]]) -> dict[str, Stat]:
    """Merge the statistics of several verdicts of one checker by name."""

    def add(merged: dict[str, Stat], stats: Mapping[str, Stat]) -> dict[str, Stat]:
        both = {name: merged[name].merged(stats[name]) for name in merged if name in stats}
        return {**merged, **stats, **both}

    empty: dict[str, Stat] = {}
    return reduce(add, several, empty)


def _verdict_document(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict without the number of the schema, which only a whole document has."""
    document: dict[str, Any] = {
        "valid": verdict.valid,
        "checker": verdict.checker,
        "anomalies": [anomaly.to_json() for anomaly in verdict.anomalies],
        "stats": {name: stat.to_json() for name, stat in verdict.stats.items()},
    }
    if verdict.doubts:
        document["reason"] = verdict.reason
        document["doubts"] = [doubt.to_json() for doubt in verdict.doubts]
    if verdict.undecided is not None:
        document["undecided"] = list(verdict.undecided)
    if verdict.parts:
        document["parts"] = [_verdict_document(part) for part in verdict.parts]
    return document


def _merged(merge: Merge, one: JSON, other: JSON) -> JSON:
    if isinstance(one, dict) and isinstance(other, dict):
        both = {entry: _merged(merge, one[entry], other[entry]) for entry in one if entry in other}
        return {**one, **other, **both}
    if _is_number(one) and _is_number(other):
        return one + other if merge == "sum" else max(one, other) if merge == "max" else min(one, other)
    if one == other:
        return one
    entries, more = (value if isinstance(value, list) else [value] for value in (one, other))
    return [*entries, *(entry for entry in more if entry not in entries)]


def _is_number(value: JSON) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
