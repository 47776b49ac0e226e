"""Statements in memory: what they say beside the definition of an object is what somebody asked for.

Masks, constraints, comments on columns, initial conditions and options of indexes are in no reading of schema tables, so that nodes
can show them alike although no operation asked for one.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import pytest
from histories import judged

from schemaquake.checkers.schema.definitions import Definitions
from schemaquake.checkers.schema.divergence import Divergence
from schemaquake.checkers.schema.sightings import Sightings
from schemaquake.harness.model.verdict import Verdict

ALL = "settled,restarted n1,n2,n3"
ASKED = (
    *("@1 p90 n1 invoke create-keyspace k", "@2 p90 n1 ok"),
    *("@3 p90 n1 invoke create-table k.t a:int* c:int e:frozen<u> m:map<text,frozen<u>>", "@4 p90 n1 ok"),
    *("@5 p90 n1 invoke create-index k.i t c", "@6 p90 n1 ok"),
    '@7 p90 n1 invoke create-function k.f {"arguments": [["s", "int"]], "returns": "int", "body": "return s;"}',
    "@8 p90 n1 ok",
    '@9 p90 n1 invoke create-aggregate k.g {"arguments": ["int"], "state_function": "f", "state_type": "int"}',
    "@10 p90 n1 ok",
    *("@11 p90 n1 invoke create-type k.w f0:int f1:frozen<u>", "@12 p90 n1 ok"),
)
TABLE = "CREATE TABLE k.t (a int PRIMARY KEY, c int, e frozen<u>, m map<text, frozen<u>>) WITH comment = ''"
INDEX = "CREATE INDEX i ON k.t (c) USING 'legacy_local_table'"
FUNCTION = "CREATE FUNCTION k.f(s int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS $$return s;$$"
AGGREGATE = "CREATE AGGREGATE k.g(int) SFUNC f STYPE int"
TYPE = "CREATE TYPE k.w (f0 int, f1 frozen<u>)"
KIND = '{"indexes": {"i": {"kind": "COMPOSITES", "target": "c"}}}'
DISK = (
    f"{ALL} keyspace k",
    f"{ALL} table k.t id=1 a:int* c:int e:frozen<u> m:map<text,frozen<u>> {KIND}",
    f'{ALL} function k.f {{"arguments": [["s", "int"]], "returns": "int", "body": "return s;"}}',
    f'{ALL} aggregate k.g {{"arguments": ["int"], "state_function": "f", "state_type": "int", "final_function": null}}',
    f"{ALL} type k.w f0:int f1:frozen<u>",
)
STATEMENTS = {"k.t": TABLE, "k.i": INDEX, "k.f(int)": FUNCTION, "k.g(int)": AGGREGATE, "k.w": TYPE}

ODD = {
    "a mask": ("k.t", TABLE.replace("c int", "c int MASKED WITH system.mask_default()")),
    "a constraint": ("k.t", TABLE.replace("c int", "c int CHECK c > 3")),
    "a constraint that is not null": ("k.t", TABLE.replace("c int", "c int CHECK NOT NULL")),
    "a comment on a column": ("k.t", f"{TABLE}; COMMENT ON COLUMN k.t.c IS 'x'"),
    "a label": ("k.t", f"{TABLE}; SECURITY LABEL ON TABLE k.t IS 'x'"),
    "a trigger": ("k.t", f"{TABLE}; CREATE TRIGGER x ON k.t USING 'org.X'"),
    "a function of the same answers": ("k.f(int)", FUNCTION.replace("LANGUAGE", "DETERMINISTIC LANGUAGE")),
    "an initial condition": ("k.g(int)", f"{AGGREGATE} INITCOND 5"),
    "an aggregate of the same answers": ("k.g(int)", f"{AGGREGATE} DETERMINISTIC"),
    "a state function of another keyspace": ("k.g(int)", AGGREGATE.replace("SFUNC f", "SFUNC l.f")),
    "options of an index": ("k.i", f"{INDEX} WITH OPTIONS = {{'similarity_function': 'dot_product'}}"),
    "a class of an index": ("k.i", INDEX.replace("legacy_local_table", "sai")),
}
LAWFUL = {
    "what was asked for": ("k.t", TABLE),
    "no initial condition": ("k.g(int)", f"{AGGREGATE} INITCOND null"),
    "functions of the own keyspace": ("k.g(int)", AGGREGATE.replace("SFUNC f", "SFUNC k.f")),
    "the only class there was": ("k.i", INDEX.partition(" USING")[0]),
}


def shown(name: str, statement: str, when: str = ALL) -> Sequence[str]:
    kinds = {"k.t": "table", "k.i": "index", "k.f(int)": "function", "k.g(int)": "aggregate", "k.w": "type"}
    return [
        f"{when} live {one} {orjson.dumps({'kind': kinds[one], 'statement': text}).decode()}"
        for one, text in {**STATEMENTS, name: statement}.items()
    ]


def parts(verdict: Verdict) -> set[str]:
    return {anomaly.evidence["part"] for anomaly in verdict.anomalies}


@pytest.mark.parametrize(("name", "statement"), ODD.values(), ids=ODD)
def test_what_no_operation_asked_for_is_found_though_all_nodes_show_it(name: str, statement: str) -> None:
    verdict = Definitions().check(judged(ASKED, [*DISK, *shown(name, statement)]), limit_s=5)
    assert (verdict.valid, parts(verdict)) == (False, {"statement in memory"})


@pytest.mark.parametrize(("name", "statement"), ODD.values(), ids=ODD)
def test_what_no_operation_asked_for_is_found_on_the_way(name: str, statement: str) -> None:
    seen = shown(name, statement, "@50 running n2")
    verdict = Sightings().check(judged(ASKED, [*DISK, *shown("k.t", TABLE), *seen]), limit_s=5)
    assert (verdict.valid, parts(verdict) - {"class"}) == (False, {"words"})


@pytest.mark.parametrize(("name", "statement"), LAWFUL.values(), ids=LAWFUL)
@pytest.mark.parametrize("checker", [Definitions(), Sightings(), Divergence()], ids=lambda one: one.name)
def test_what_was_asked_for_accuses_nobody(checker, name: str, statement: str) -> None:
    seen = shown(name, statement, "@50 running n1,n2,n3")
    verdict = checker.check(judged(ASKED, [*DISK, *shown(name, statement), *seen]), limit_s=5)
    assert (verdict.valid, verdict.doubts) == (True, ())


@pytest.mark.parametrize(("name", "statement"), ODD.values(), ids=ODD)
def test_a_statement_in_free_text_may_have_asked_for_anything(name: str, statement: str) -> None:
    free = ('@20 p91 n1 invoke cql k {"statement": "ALTER TABLE k.t ALTER c CHECK c > 3"}', "@21 p91 n1 ok")
    for checker in (Definitions(), Sightings(), Divergence()):
        seen = [*shown(name, statement), *shown(name, statement, "@50 running n1,n2,n3")]
        assert checker.check(judged([*ASKED, *free], [*DISK, *seen]), limit_s=5).anomalies == ()


@pytest.mark.parametrize(
    ("kind", "statement", "odd"),
    [
        ("COMPOSITES", INDEX, False),
        ("COMPOSITES", "CREATE CUSTOM INDEX i ON k.t (c) USING 'sai'", True),
        ("CUSTOM", "CREATE CUSTOM INDEX i ON k.t (c) USING 'sai'", False),
        ("CUSTOM", INDEX, True),
    ],
)
def test_an_index_is_custom_on_both_sides_or_on_none(kind: str, statement: str, *, odd: bool) -> None:
    disk = [line.replace("COMPOSITES", kind) for line in DISK]
    verdict = Definitions().check(judged(ASKED, [*disk, *shown("k.i", statement)]), limit_s=5)
    assert parts(verdict) == ({"kind"} if odd else set())


@pytest.mark.parametrize(
    ("was", "became", "part"),
    [("map<text,frozen<u>>", "map<text,u>", "column m"), ("f1:frozen<u>", "f1:u", "field f1")],
)
def test_what_was_asked_for_as_frozen_within_another_type_is_shown_so(was: str, became: str, part: str) -> None:
    disk = [line.replace(was, became) for line in DISK]
    memory = [
        line.replace("map<text, frozen<u>>", "map<text, u>").replace("f1 frozen<u>", "f1 u")
        for line in shown("k.t", TABLE)
    ]
    assert parts(Definitions().check(judged(ASKED, [*disk, *memory]), limit_s=5)) == {part}
    seen = Sightings().check(
        judged(ASKED, [*DISK, *shown("k.t", TABLE), *(line.replace(ALL, "@50 running n2") for line in disk)]), limit_s=5
    )
    assert parts(seen) == {part}
