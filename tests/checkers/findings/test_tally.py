"""Tally: the three-valued fold of findings and doubts."""

from __future__ import annotations

from schemaquake.checkers.findings.tally import Tally
from schemaquake.harness.model.verdict import Anomaly, Doubt

FOUND = Anomaly(type="lost-column", title="a column is lost")
OTHER = Anomaly(type="lost-field", title="a field is lost")
UNREAD = Doubt("unread", "n2 could not be read")


def test_nothing_found_and_nothing_in_doubt_is_valid() -> None:
    tally = Tally("some")
    tally.judge(None)
    verdict = tally.verdict(judged=tally.judged)
    assert (verdict.valid, verdict.checker, verdict.figures) == (True, "some", {"judged": 1})


def test_a_doubt_makes_it_unknown() -> None:
    tally = Tally("some")
    tally.judge(UNREAD)
    verdict = tally.verdict()
    assert (verdict.valid, verdict.doubts) == ("unknown", (UNREAD,))


def test_a_finding_outweighs_a_doubt_and_both_are_kept() -> None:
    tally = Tally("some")
    tally.judge(FOUND, UNREAD)
    verdict = tally.verdict()
    assert (verdict.valid, verdict.anomalies, verdict.doubts) == (False, (FOUND,), (UNREAD,))
    assert tally.judged == 1


def test_of_each_type_so_many_are_kept_and_all_are_counted() -> None:
    tally = Tally("some", keep=1)
    tally.add(FOUND, FOUND, OTHER)
    assert tally.verdict().anomalies == (FOUND, OTHER)
    assert tally.found == {"lost-column": 2, "lost-field": 1}


def test_a_finding_that_is_not_kept_is_not_made() -> None:
    made: list[Anomaly] = []

    def make() -> Anomaly:
        made.append(Anomaly(type=FOUND.type, title=f"number {len(made)} of {tally.found}"))
        return made[-1]

    tally = Tally("some", keep=1)
    tally.find(FOUND.type, make)
    tally.find(FOUND.type, make)
    assert [one.title for one in made] == ["number 0 of {'lost-column': 1}"]
    assert tally.verdict().anomalies == tuple(made)
    assert tally.found == {"lost-column": 2}


def test_fewer_findings_than_are_kept_are_all_kept() -> None:
    tally = Tally("some", keep=3)
    tally.add(FOUND, FOUND)
    assert tally.verdict().anomalies == (FOUND, FOUND)
    tally.add(FOUND, FOUND)
    assert len(tally.verdict().anomalies) == 3


def test_a_verdict_that_keeps_no_finding_is_false_all_the_same() -> None:
    tally = Tally("some", keep=0)
    tally.add(FOUND)
    assert tally.verdict().valid is False
