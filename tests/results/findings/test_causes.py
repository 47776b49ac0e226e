"""Causes: ids are the same for ever, and what is known is known by structure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schemaquake.checkers.findings.catalogue import CATALOGUE
from schemaquake.results.findings.cause import Cause, read_design
from schemaquake.results.findings.description import describe_cause, describe_rate
from schemaquake.results.findings.finding import Rate
from schemaquake.results.findings.known import known_finding, known_findings
from schemaquake.results.findings.shapes import _with_letters, parse_shape
from schemaquake.results.matrix.eras import ERAS

DESIGN = {"product": "cassandra", "era": "system_schema"}


def cause(*statements: str, **values: str) -> Cause:
    return Cause(**{**DESIGN, **values}, statements=tuple(map(parse_shape, statements)))


@pytest.mark.parametrize(
    ("one", "name"),
    [
        (cause("drop-type(A)", "create-table(B uses A)"), "SQ-E3ZATWYL"),
        (cause("create-table(A) 2+"), "SQ-YULBEEPH"),
        (cause("drop-table(A)", fault="kill", era="tcm"), "SQ-EEUK5QQ4"),
        (cause(symptom="schema-disagreement"), "SQ-PSY4LXIS"),
        (cause(symptom="unexpected-log-error", mechanism="r FooException"), "SQ-T4PKRBYM"),
        (cause(upgrade_to="tcm"), "SQ-Z76BL5MK"),
    ],
    ids=["a pair", "several", "under a fault", "a symptom", "a mechanism", "an upgrade"],
)
def test_ids_do_not_change(one: Cause, name: str) -> None:
    assert one.id == name


@pytest.mark.parametrize("field", ["product", "era", "fault", "symptom", "mechanism", "upgrade_to"])
def test_whatever_is_part_of_the_cause_is_part_of_its_id(field: str) -> None:
    one = cause("drop-table(A)")
    assert replace(one, **{field: "another"}).id != one.id
    assert Cause.from_json(one.to_json()) == one


def test_an_unknown_system_has_a_product_and_no_design() -> None:
    assert read_design("cassandra:5.0.9") == ("cassandra", "system_schema")
    assert read_design("simulated:cassandra-5.0") == ("simulated", "system_schema")
    assert read_design("simulated:cassandra-0.7") != read_design("simulated:cassandra-5.0"), (
        "another design, another cause"
    )
    assert read_design("quakedb:1.0") == ("quakedb", "")
    assert read_design("no system") == ("no system", "")


def test_entries_are_canonical_and_speak_of_what_there_is() -> None:
    eras = {era.name for era in ERAS}
    for entry in known_findings():
        letters = [shape.object for shape in entry.statements]
        assert set(letters) <= set("ABC"), entry.title
        assert [parse_shape(str(shape)) for shape in entry.statements] == list(entry.statements)
        assert tuple(_with_letters(list(entry.statements))) == entry.statements, (
            f"{entry.title}: no cause has this order"
        )
        assert entry.eras <= eras, entry.title
        assert entry.symptoms <= CATALOGUE.keys(), entry.title
        assert entry.tickets or entry.page, entry.title
        assert entry.statements or entry.upgrade_to or (entry.mechanism and entry.symptoms), f"{entry.title}: fits all"


def test_a_finding_is_known_on_its_designs_with_its_symptoms_and_its_fault() -> None:
    written = cause("drop-column(A at B)", "create-index(C at B on A)", era="tcm")
    assert known_finding(written, ["unreadable-table", "lost-rows"]) is not None
    assert known_finding(written, ["dangling-index-target"]) is None
    assert known_finding(replace(written, era="group0"), ["unreadable-table"]) is None
    killed = cause("drop-table(A)", era="tcm", fault="kill")
    assert known_finding(killed, ["node-will-not-start"]) is not None
    assert known_finding(replace(killed, fault="pause"), ["node-will-not-start"]) is None
    assert known_finding(replace(killed, fault=None), ["node-will-not-start"]) is None


def test_an_upgrade_is_known_by_the_design_that_nodes_were_becoming() -> None:
    one = cause(upgrade_to="tcm")
    assert one.known
    assert known_finding(one, ["lost-column"]) is not None
    assert known_finding(replace(one, upgrade_to="system_schema"), ["lost-column"]) is None
    assert known_finding(replace(one, upgrade_to=None), ["lost-column"]) is None


def test_a_symptom_without_a_cause_is_known_by_its_mechanism() -> None:
    of_hints = cause(symptom="unexpected-log-error", mechanism="hint-of-another-version IllegalArgumentException")
    assert known_finding(of_hints, ["unexpected-log-error"]) is not None
    for mechanism in ("unexpected-exception IllegalArgumentException", "hint-of-another-version", None):
        assert known_finding(replace(of_hints, mechanism=mechanism), ["unexpected-log-error"]) is None
    assert known_finding(of_hints, ["lost-rows"]) is None
    hangs = cause(symptom="hanging-change", era="tcm", mechanism="address-change")
    assert [
        known_finding(replace(hangs, mechanism=f), ["hanging-change"]) is not None for f in ("address-change", "move")
    ] == [True, False]


def test_what_needs_no_other_statement_is_known_whatever_raced_unless_it_shows_more() -> None:
    for era in ("tcm", "system_schema"):
        met = cause("drop-column(A)", "create-type(B)", era=era)
        assert known_finding(met, ["unreadable-table"]) is not None
        assert known_finding(met, ["unreadable-table", "lost-rows"]) is None
        assert known_finding(cause("add-column(A)", "create-type(B)", era=era), ["unreadable-table"]) is None
    assert known_finding(cause("drop-column(A)", "create-type(B)", era="group0"), ["unreadable-table"]) is None
    alone = [entry for entry in known_findings() if entry.alone]
    assert alone
    assert all(entry.symptoms for entry in alone)
    assert list(known_findings())[-len(alone) :] == alone, "they come last"


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (cause("drop-type(A)", "create-table(B uses A)"), "DROP TYPE A meets CREATE TABLE B with type A"),
        (cause("create-table(A) 2+"), "CREATE TABLE A, twice or more at once"),
        (cause("drop-index(A)", fault="clock+kill"), "DROP INDEX A during clock and kill"),
        (
            cause("drop-column(A at B)", "create-index(C at B on A)"),
            "ALTER TABLE A DROP column B meets CREATE INDEX C column B on A",
        ),
        (cause(symptom="unheard-of", mechanism="r"), "unheard-of (r)"),
        (cause(upgrade_to="tcm"), "The schema is changed while nodes are of two versions"),
    ],
    ids=["a pair", "itself", "a fault", "a column", "a symptom", "an upgrade"],
)
def test_a_cause_is_described(one: Cause, words: str) -> None:
    assert describe_cause(one) == words


def test_every_kind_of_statement_and_relation_can_be_described() -> None:
    for entry in known_findings():
        assert describe_cause(Cause(**DESIGN, statements=entry.statements))


def test_a_rate_has_its_interval() -> None:
    assert describe_rate(Rate(3, 3, "race")) == "3 of 3 races, 44–100 %"
    assert describe_rate(Rate(0, 0, "run")) == "0 of 0 runs, 0–100 %"
