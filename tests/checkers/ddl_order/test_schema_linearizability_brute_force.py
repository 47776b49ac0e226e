"""The checker of DDL linearizability against every order there is, under a schema written down a second time."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import pytest
from examples import examples
from histories import judged
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemaquake.checkers.ddl_order.checker import SchemaLinearizability


class Refused(Exception):
    """The statement is not legal now."""


@dataclass(frozen=True)
class Asked:
    """One operation: the words of its line, its interval in ms, and its outcome; `applied` of a conditional one.

    `maybe` is for what may have happened, but not after its end.
    """

    words: str
    begins: int
    ends: int
    outcome: str
    conditional: bool = False
    applied: bool = True

    @property
    def f(self) -> str:
        return self.words.split()[0]

    @property
    def no_op(self) -> bool:
        return self.conditional and self.outcome == "ok" and not self.applied

    def lines(self, process: int) -> Iterator[tuple[int, str]]:
        guard = "if_exists" if self.f.startswith("drop") else "if_not_exists"
        guarded = f' {{"{guard}": true}}' if self.conditional else ""
        yield self.begins, f"p{process} n{process % 3 + 1} invoke {self.words}{guarded}"
        answer = f' {{"applied": {str(self.applied).lower()}}}' if self.conditional and self.outcome == "ok" else ""
        yield self.ends, f"p{process} n{process % 3 + 1} {self.outcome}{answer}"


# ── the schema, a second time ────────────────────────────────────────────────────────────────────────────────────────


def must(condition: object) -> None:
    if not condition:
        raise Refused


def nothing() -> dict[str, Any]:
    return {"keyspace": False, "tables": {}, "types": {}, "indexes": {}}


def carry_out(schema: dict[str, Any], asked: Asked) -> None:  # noqa: C901, PLR0912 - one case a statement
    f, key, *words = asked.words.split()
    name = key.partition(".")[2]
    tables, types, indexes = schema["tables"], schema["types"], schema["indexes"]
    match f:
        case "create-keyspace":
            must(not schema["keyspace"])
            schema["keyspace"] = True
        case "drop-keyspace":
            must(schema["keyspace"])
            schema.update(nothing())
        case "create-table":
            columns = dict(word.replace("*", "").split(":") for word in words)
            must(schema["keyspace"] and name not in tables)
            must(all(used == "int" or used in types for used in columns.values()))
            tables[name] = {"columns": columns, "comment": None}
        case "drop-table":
            must(name in tables)
            del tables[name]
            for index in [index for index, (table, _) in indexes.items() if table == name]:
                del indexes[index]
        case "add-column":
            column, used = words[0].split(":")
            must(name in tables and column not in tables[name]["columns"])
            must(used == "int" or used in types)
            tables[name]["columns"][column] = used
        case "drop-column":
            must(name in tables and words[0] in tables[name]["columns"])
            del tables[name]["columns"][words[0]]
            for index in [index for index, on in indexes.items() if on == (name, words[0])]:
                del indexes[index]
        case "alter-options":
            must(name in tables)
            tables[name]["comment"] = words[0].partition("=")[2]
        case "create-type":
            must(schema["keyspace"] and name not in types)
            types[name] = {word.split(":")[0] for word in words}
        case "add-field":
            must(name in types and words[0].split(":")[0] not in types[name])
            types[name].add(words[0].split(":")[0])
        case "drop-type":
            must(name in types)
            must(all(name not in table["columns"].values() for table in tables.values()))
            del types[name]
        case "create-index":
            must(name not in indexes and words[0] in tables and words[1] in tables[words[0]]["columns"])
            indexes[name] = (words[0], words[1])
        case "drop-index":
            must(name in indexes)
            del indexes[name]


def known(schema: Mapping[str, Any], asked: Asked) -> bool:
    """Whether the object that a conditional statement speaks of is there."""
    _, kind = asked.f.split("-")
    name = asked.words.split()[1].partition(".")[2]
    return (
        bool(schema["keyspace"]) if kind == "keyspace" else name in schema[f"{kind}s" if kind != "index" else "indexes"]
    )


def has_an_order(history: Sequence[Asked], shown: Mapping[str, Any] | None) -> bool:
    """Try every subset of what may have happened, in every order that real time allows."""
    required = [asked for asked in history if asked.outcome == "ok" and not asked.no_op]
    optional = [asked for asked in history if asked.outcome in {"info", "maybe"}]
    reports = [asked for asked in history if asked.no_op]
    return any(
        bears_out(order, states, reports, shown)
        for size in range(len(optional) + 1)
        for happened in combinations(optional, size)
        for order, states in legal_orders([], [nothing()], [*required, *happened])
    )


def ended(asked: Asked) -> float:
    return float("inf") if asked.outcome == "info" else asked.ends


def legal_orders(
    order: list[Asked], states: list[dict[str, Any]], left: Sequence[Asked]
) -> Iterator[tuple[list[Asked], list[dict[str, Any]]]]:
    if not left:
        yield order, states
    for at, asked in enumerate(left):
        others = [*left[:at], *left[at + 1 :]]
        if any(ended(other) < asked.begins for other in others):
            continue
        schema = copy.deepcopy(states[-1])
        try:
            carry_out(schema, asked)
        except Refused:
            continue
        yield from legal_orders([*order, asked], [*states, schema], others)


def bears_out(
    order: Sequence[Asked],
    states: Sequence[Mapping[str, Any]],
    reports: Sequence[Asked],
    shown: Mapping[str, Any] | None,
) -> bool:
    """A report of IF [NOT] EXISTS may be stale: it was true at some moment before it was given."""
    for report in reports:
        begun = [at for at in range(len(states)) if not any(asked.begins > report.ends for asked in order[:at])]
        if not any(known(states[at], report) is report.f.startswith("create") for at in begun):
            return False
    return shown is None or shown == seen(states[-1])


def seen(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a reading shows of a schema; a comment that was never set reads as an empty one."""
    return {
        **schema,
        "tables": {
            name: {"columns": table["columns"], "comment": table["comment"] or ""}
            for name, table in schema["tables"].items()
        },
    }


def observations(shown: Mapping[str, Any]) -> list[str]:
    lines = ["settled n1,n2,n3 version v"]
    if shown["keyspace"]:
        lines.append("settled n1,n2,n3 keyspace k")
    for name, table in shown["tables"].items():
        columns = " ".join(f"{c}:{t}{'*' if c == 'a' else ''}" for c, t in table["columns"].items())
        indexes = {i: {"kind": "COMPOSITES", "target": c} for i, (on, c) in shown["indexes"].items() if on == name}
        more = (
            f'{{"options": {{"comment": "{table["comment"]}"}}, "indexes": {str(indexes).replace(chr(39), chr(34))}}}'
        )
        lines.append(f"settled n1,n2,n3 table k.{name} id=aa {columns} {more}")
    lines += [
        f"settled n1,n2,n3 type k.{name} {' '.join(f'{field}:int' for field in sorted(fields))}"
        for name, fields in shown["types"].items()
    ]
    return lines


# ── small random histories ───────────────────────────────────────────────────────────────────────────────────────────

STATEMENTS = [
    "create-table k.t a:int* c:u",
    "create-table k.t a:int*",
    "drop-table k.t",
    "drop-table k.t",
    "add-column k.t c:int",
    "add-column k.t c:u",
    "add-column k.t d:int",
    "drop-column k.t c",
    "drop-column k.t c",
    "drop-column k.t d",
    "alter-options k.t comment=x",
    "alter-options k.t comment=y",
    "create-type k.u f:int",
    "create-type k.u f:int g:int",
    "add-field k.u g:int",
    "drop-type k.u",
    "create-index k.i t c",
    "drop-index k.i",
    "drop-keyspace k",
    "create-keyspace k",
]
# Before the rest, so that every object that is spoken of is created by somebody.
SETUP = ["create-keyspace k", "create-table k.t a:int* c:int", "create-type k.u f:int", "create-index k.i t c"]


@st.composite
def histories(draw: st.DrawFn) -> list[Asked]:
    count = draw(st.integers(2, 5))
    asked = [
        Asked(words, 2 * at, 2 * at + 1, draw(st.sampled_from(["ok", "ok", "ok", "info"])))
        for at, words in enumerate(SETUP)
    ]
    for _ in range(count):
        begins = draw(st.integers(10, 30))
        words = draw(st.sampled_from(STATEMENTS))
        conditional = words.startswith(("create", "drop")) and "column" not in words and draw(st.integers(0, 4)) == 0
        if conditional and words.startswith("create-index"):
            conditional = False
        asked.append(
            Asked(
                words,
                begins,
                begins + draw(st.integers(1, 8)),
                draw(st.sampled_from(["ok", "ok", "ok", "info"])),
                conditional,
                draw(st.booleans()),
            )
        )
    return asked


@st.composite
def histories_and_readings(draw: st.DrawFn) -> tuple[list[Asked], Mapping[str, Any] | None]:
    """A history, and what some order of some of its operations led to; often that is the outcome of a legal one."""
    history = draw(histories())
    if draw(st.integers(0, 4)) == 0:
        return history, None
    schema = nothing()
    order = sorted(history, key=lambda asked: (asked.begins + draw(st.integers(0, 6)), asked.words))
    for asked in order:
        if asked.outcome == "info" and draw(st.booleans()):
            continue
        try:
            carry_out(schema, asked)
        except Refused:
            continue
    return history, seen(schema)


def lines_of(history: Sequence[Asked]) -> list[str]:
    events = [event for process, asked in enumerate(history) for event in asked.lines(process)]
    return [f"@{time} {line}" for time, line in sorted(events, key=lambda event: event[0])]


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories_and_readings())
def test_the_checker_agrees_with_every_order_there_is(drawn: tuple[list[Asked], Mapping[str, Any] | None]) -> None:
    history, shown = drawn
    records = judged(lines_of(history), [] if shown is None else observations(shown))
    verdict = SchemaLinearizability().check(records, limit_s=20)
    if has_an_order(history, shown):
        assert verdict.valid is (True if shown is not None else "unknown"), verdict.anomalies
    else:
        assert verdict.valid is False


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories_and_readings())
def test_what_the_witness_needs_has_no_order_even_if_nothing_else_is_certain(
    drawn: tuple[list[Asked], Mapping[str, Any] | None],
) -> None:
    history, shown = drawn
    records = judged(lines_of(history), [] if shown is None else observations(shown))
    verdict = SchemaLinearizability().check(records, limit_s=20)
    for found in verdict.anomalies:
        invoked_at = {
            int(line.split()[1].removeprefix("p")): index
            for index, line in enumerate(lines_of(history))
            if " invoke " in line
        }
        weakened = [
            asked if invoked_at[process] in found.ops else replace(asked, outcome="maybe")
            for process, asked in enumerate(history)
            if invoked_at[process] in found.ops or not asked.no_op
        ]
        assert found.evidence["why"]
        assert not has_an_order(weakened, shown if found.evidence["contradicts"] == "readings" else None)


@pytest.mark.parametrize("outcome", ["ok", "info"])
def test_the_second_schema_itself_knows_a_race(outcome: str) -> None:
    race = [
        Asked("create-keyspace k", 0, 1, "ok"),
        Asked("create-table k.t a:int*", 2, 4, "ok"),
        Asked("create-table k.t a:int*", 2, 4, outcome),
    ]
    assert has_an_order(race, None) is (outcome == "info")
