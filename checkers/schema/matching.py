"""Matching: comparison of the parts that a node shows with the values that changes gave them.

A server spells types, classes and names in its own way. Where it is unclear whether two are the same, the answer is yes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from schemaquake.checkers.evidence.cql_types import canonical, user_types
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.option_values import can_be
from schemaquake.checkers.evidence.statements import parse_statement
from schemaquake.checkers.schema.possible_parts import PossibleValue
from schemaquake.checkers.schema.wall_clock import WallClock
from schemaquake.harness.ddl.cql import indexed_column

__all__ = [
    "find_faults_of_drop",
    "find_missing_words",
    "find_unasked_words",
    "is_aggregate",
    "is_column",
    "is_field",
    "is_function",
    "is_index",
    "is_replication",
    "is_type",
    "must_precede",
]


def is_column(shown: Mapping[str, Any], wanted: Any, *, shows_places: bool, shows_frozen: bool) -> bool:
    """Tell if a column as a node describes it is the one that a change declared; `position` is that in its key, -1 for none."""
    if shown["kind"] in _COLUMN_KINDS and shown["kind"] != wanted["kind"]:
        return False
    if shows_places and shown["kind"] in _COLUMN_KINDS and shown["position"] != wanted["position"]:
        return False
    if shown.get("order", wanted.get("order")) != wanted.get("order"):
        return False
    is_key = wanted["kind"] in {"partition_key", "clustering"}
    return is_type(shown["type"], wanted["type"], frozen_counts=shows_frozen and not is_key)


_COLUMN_KINDS: Final = frozenset({"partition_key", "clustering", "static", "regular"})


def is_type(shown: str, wanted: str, *, frozen_counts: bool = False) -> bool:
    """Tell if a type as a node spells it is the one that a change declared; unclear ones may be."""
    if not shown or "org.apache" in shown or shown.startswith("'"):
        return True  # half of it is not known, or CQL has no word for it
    if canonical(shown) != canonical(wanted):
        return False
    if not frozen_counts:
        return True
    # Within what is frozen servers leave out or add the word; an element of a collection that is not is always frozen as a whole.
    is_frozen = bool(_FROZEN.match(wanted))
    thawed = _FROZEN_ELEMENT.search(wanted) is not None and _FROZEN_ELEMENT.search(shown) is None
    return is_frozen == bool(_FROZEN.match(shown)) and (is_frozen or not thawed)


_FROZEN: Final = re.compile(r"\s*(frozen|tuple)\s*<", re.IGNORECASE)
"""The begin of a type that is written as a whole: a tuple always is."""
_FROZEN_ELEMENT: Final = re.compile(r"(?<!\w)(frozen|tuple)\s*<", re.IGNORECASE)


def is_field(shown: str, wanted: str) -> bool:
    """Tell if the type of a field is the one that a change declared: what was asked for as frozen is shown so."""
    if not is_type(shown, wanted):
        return False
    return "org.apache" in shown or not _FROZEN.match(wanted) or bool(_FROZEN.match(shown)) or not shown


def is_replication(shown: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Tell if the replication that a node shows is the one that a change asked for."""
    if not can_be(shown, wanted):
        return False
    # A strategy by data centre spells the factor out for each of them.
    return "NetworkTopology" in str(shown.get("class")) or shown.keys() == wanted.keys()


def is_function(shown: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Tell if a function as a node shows it is the one that a CREATE asked for."""
    arguments = shown.get("arguments") or []
    return (
        [name for name, _ in arguments] == [name for name, _ in wanted["arguments"]]
        and all(is_type(a, b) for (_, a), (_, b) in zip(arguments, wanted["arguments"], strict=True))
        and bool(shown.get("returns"))
        and is_type(shown["returns"], wanted["returns"])
        and shown.get("body") == wanted["body"]
    )


def is_aggregate(shown: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Tell if an aggregate as a node shows it is the one that a CREATE asked for."""
    arguments = shown.get("arguments") or []
    return (
        len(arguments) == len(wanted["arguments"])
        and all(map(is_type, arguments, wanted["arguments"]))
        and bool(shown.get("state_type"))
        and is_type(shown["state_type"], wanted["state_type"])
        and _called(shown.get("state_function")) == _called(wanted["state_function"])
        and _called(shown.get("final_function")) == _called(wanted.get("final_function"))
    )


def _called(function: str | None) -> str | None:
    return None if function is None else function.rpartition(".")[2].partition("(")[0].strip('"')


def is_index(renames: Iterable[tuple[str, str]], shown: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Tell if an index, shown as `table` and `target`, is the one that a CREATE asked for; `renames` are (old, new) names of columns."""
    target = shown["target"]
    if shown["table"] != wanted["table"]:
        return False
    column = indexed_column(wanted["column"])
    columns = {column, *(new for old, new in renames if old == column)}
    # A target may name the column within what is indexed of it: values(c), or a map of lists of columns.
    return isinstance(target, str) and bool(columns & set(re.findall(r"\w+", target)))


def find_missing_words(statement: str) -> Iterator[str]:
    """Yield what a CREATE FUNCTION does not say, and every one is asked for with (`schemaquake.harness.ddl.schema_changes.create_function`)."""
    for words in ("CALLED ON NULL INPUT", "LANGUAGE java"):
        if re.search(rf"\b{words}\b", " ".join(statement.partition("$$")[0].split())) is None:
            yield words


def find_unasked_words(kind: str, text: str) -> Iterator[str]:
    """Yield what the statement of an object in memory says, and none is asked for with (`schemaquake.harness.ddl.schema_changes`)."""
    statement = parse_statement(kind, text)
    shown: Mapping[str, Any] = {} if statement is None else statement.definition
    match kind:
        case "table":
            yield from _unasked_of_table(shown)
        case "aggregate":
            clauses = re.sub(r"\bINITCOND null\b", "", shown.get("clauses", ""), flags=re.IGNORECASE).strip()
            yield from [clauses] if clauses else []
        case "function":
            head = text.partition("$$")[0].partition(")")[2]
            yield from re.findall(r"\b(?:DETERMINISTIC|MONOTONIC)\b", head, re.IGNORECASE)
        case "index":
            yield from _unasked_of_index(shown)


def _unasked_of_table(shown: Mapping[str, Any]) -> Iterator[str]:
    for name, column in shown.get("columns", {}).items():
        if "clauses" in column:
            yield f"{column['clauses']} of column {name}"
    if "further" in shown:
        yield shown["further"]


def _unasked_of_index(shown: Mapping[str, Any]) -> Iterator[str]:
    # A class that is not custom is the one that servers had before there were others.
    using = shown.get("using", _OLD_INDEX)
    if using != _OLD_INDEX and not shown.get("custom"):
        yield f"USING {using}"
    if shown.get("options"):
        yield "WITH OPTIONS"


_OLD_INDEX: Final = "legacy_local_table"


def must_precede(some: Sequence[PossibleValue], others: Sequence[PossibleValue]) -> bool:
    """Tell if a field stands before another one whichever changes made them: fields are appended, and never move."""
    return bool(some and others) and all(_precedes(a.origin, b.origin) for a in some for b in others)


def _precedes(one: tuple[PairedOperation, str], other: tuple[PairedOperation, str]) -> bool:
    (a, first), (b, second) = one, other
    if a is b:
        names = [name for name, _ in a.argument.get("fields", ())]
        return first in names and second in names and names.index(first) < names.index(second)
    return (a.f == "create-type" and b.f == "add-field") or (a.f == b.f == "add-field" and a.entirely_before(b))


def find_faults_of_drop(
    dropped: Mapping[str, Any],
    drops: Sequence[PairedOperation],
    declared: Sequence[Mapping[str, Any]],
    clock: WallClock,
) -> Iterator[str]:
    """Yield what is wrong with the entry of a dropped column, as a predicate.

    `drops` are the possible DROPs of the column, and `declared` all columns of that name that changes declared.
    """
    if not drops:
        yield "is listed, and no operation can have dropped it"
        return
    types = {canonical(one["type"]) for one in declared}
    cql_type, time = dropped.get("type"), dropped.get("dropped_time")
    # The type of an entry has tuples in the place of user-defined types.
    is_plain = not any(user_types(one, keyspace="") for one in types)
    if cql_type and is_plain and canonical(cql_type) not in types:
        yield f"had the type {cql_type}, which no operation gave it"
    if isinstance(time, int) and not any(clock.fits(drop, time) for drop in drops):
        yield f"was dropped at {time} ms of the wall clock, when no operation dropped it"
