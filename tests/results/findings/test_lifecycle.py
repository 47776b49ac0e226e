"""Life cycle: fixed is a claim until enough tries say so, and one sighting later is a regression."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schemaquake.harness.errors import PlanError
from schemaquake.results.findings.cause import Cause
from schemaquake.results.findings.curation import NOTHING_CURATED, Curated, Curation, read_curation
from schemaquake.results.findings.finding import Finding, Rate, Symptom
from schemaquake.results.findings.lifecycle import follow_findings, follow_on_system, is_at_or_after, tries_needed
from schemaquake.results.findings.shapes import parse_shape
from schemaquake.results.findings.tracking import JudgedRace, JudgedRun, Observation

OLD, NEXT, NEW = "cassandra:5.0.9", "cassandra:5.0.10", "cassandra:6.0"
DROPPED = ("drop-type(A)", "rename-field(B uses A)")
OTHER = ("drop-table(A)", "add-column(A)")


def finding(broken: int, tried: int, *, statements=DROPPED, fault: str | None = None) -> Finding:
    shapes = tuple(map(parse_shape, statements))
    symptom = Symptom(type="dangling-type", mechanism=None, anomalies=(0,), races=(), nodes=())
    return Finding(
        cause=Cause(product="cassandra", era="system_schema", statements=shapes, fault=fault),
        symptoms=(symptom,),
        races=(),
        sides=(shapes,),
        rate=Rate(broken, tried, "race"),
    )


ID = finding(1, 1).id


def seen(day: int, broken: int = 3, tried: int = 3, system: str = OLD, **named) -> JudgedRun:
    return replace(held(day, 0, system), findings=(finding(broken, tried, **named),), valid=False)


def held(day: int, races: int, system: str = OLD, *, nemeses=(), statements=DROPPED, decided: bool = True) -> JudgedRun:
    race = JudgedRace(statements, broken=False, decided=decided)
    return JudgedRun(
        system=system, run=f"r{day:02}-{system}", valid=True, workloads=("w",), nemeses=nemeses, findings=(),
        races=(race,) * races, started=f"2026-11-{day:02}T10:00:00+00:00",
    )  # fmt: skip


def followed(*runs: JudgedRun, curation: Curation = NOTHING_CURATED):
    (one,) = follow_findings(runs, tuple(dict.fromkeys(run.system for run in runs)), curation)
    return one


@pytest.mark.parametrize(("broken", "tried", "needed"), [(3, 3, 6), (11, 24, 10), (1, 3, 48)])
def test_the_tries_that_contradict_a_rate(broken, tried, needed):
    assert tries_needed(Rate(broken, tried, "race")) == needed


def test_what_was_never_seen_cannot_be_missed():
    with pytest.raises(ValueError, match="never seen"):
        tries_needed(Rate(0, 9, "race"))


def test_five_tries_are_too_few_and_six_verify():
    few = followed(seen(1), held(2, 5))
    assert (few.life.stage, few.life.on(OLD).stage, few.life.on(OLD).held_since) == ("new", "affected", 5)
    enough = followed(seen(1), held(2, 5), held(3, 1))
    assert enough.life.stage == "verified"
    assert [(event.kind, event.run) for event in enough.life.events] == [
        ("new", f"r01-{OLD}"), ("verified", f"r03-{OLD}"),
    ]  # fmt: skip


def test_the_order_is_that_of_the_runs_and_not_of_the_arguments():
    assert followed(held(2, 6), seen(3)).life.stage == "new", "it was seen after it held"
    assert followed(held(3, 6), seen(2)).life.stage == "verified"


@pytest.mark.parametrize(
    "run",
    [
        held(2, 9, decided=False),
        held(2, 9, statements=OTHER),
        held(2, 9, system=NEW),
        held(2, 0),
    ],
    ids=["undecided", "other statements", "another version", "no race"],
)
def test_what_did_not_try_it_verifies_nothing(run):
    assert followed(seen(1), run).life.on(OLD).stage == "affected"


def test_a_run_without_the_fault_is_no_try_of_a_finding_that_needs_it():
    killed = replace(seen(1), findings=(finding(3, 3, fault="kill"),), nemeses=("kill",))
    assert followed(killed, held(2, 9)).life.on(OLD).held_since == 0
    assert followed(killed, held(2, 9, nemeses=("clock", "kill"))).life.stage == "verified"


def test_one_sighting_after_it_was_verified_is_a_regression_and_one_before_is_none():
    again = followed(seen(1), held(2, 6), seen(3, 1, 9))
    assert again.life.stage == "regressed"
    assert [event.kind for event in again.life.events] == ["new", "verified", "regressed"]
    assert followed(seen(1), held(2, 5), seen(3, 1, 9)).life.stage == "new"
    # Its rate is lower now: 4 of 12, which takes more tries.
    assert followed(seen(1), held(2, 6), seen(3, 1, 9), held(4, 6)).life.stage == "regressed"
    assert followed(seen(1), held(2, 6), seen(3, 1, 9), held(4, 30)).life.stage == "verified"


def claimed(**named) -> Curation:
    entry = Curated(ids=(ID,), fixed_in=(NEXT,), **named)
    return Curation({ID: entry})


def test_a_claim_is_verified_by_the_old_rate_and_broken_by_one_sighting():
    assert followed(seen(1), curation=claimed()).life.stage == "fixed"
    assert followed(seen(1), held(2, 5, NEXT), curation=claimed()).life.stage == "fixed"
    assert followed(seen(1), held(2, 6, NEXT), curation=claimed()).life.stage == "verified"
    assert followed(seen(1), seen(2, 1, 9, NEXT), curation=claimed()).life.stage == "regressed"
    assert followed(seen(1), held(2, 6, OLD), curation=claimed()).life.stage == "fixed", (
        "another version than the claim's"
    )


def test_what_is_invalid_stays_so_and_a_ticket_makes_it_known():
    assert followed(seen(1), curation=claimed(invalid="as documented")).life.stage == "invalid"
    known = Curation({ID: Curated(ids=(ID,), tickets=("CASSANDRA-1",))})
    assert followed(seen(1), curation=known).life.stage == "known"


def test_merged_findings_are_one_and_a_run_that_has_both_counts_once():
    other = finding(1, 2, statements=OTHER)
    both = replace(seen(1), findings=(finding(2, 3), other))
    merge = Curation(dict.fromkeys((ID, other.id), Curated(ids=(ID, other.id), title="one")))
    one = followed(both, held(2, 2, statements=OTHER), curation=merge)
    assert (one.id, set(one.ids)) == (ID, {ID, other.id})
    assert one.tracked.on(OLD).rate == Rate(3, 7, "race")
    assert len(one.observations) == 2
    assert len(follow_findings([both], (OLD,), NOTHING_CURATED)) == 2


def test_versions_are_in_order():
    assert is_at_or_after(NEXT, OLD)
    assert not is_at_or_after(OLD, NEXT)
    assert is_at_or_after("cassandra:6.0", "cassandra:6.0-alpha2")
    assert not is_at_or_after("cassandra:6.0-alpha2", "cassandra:6.0")
    assert is_at_or_after("cassandra:6.0-alpha10", "cassandra:6.0-alpha2")
    assert is_at_or_after("cassandra:6.0.0", "cassandra:6.0")
    assert not is_at_or_after("scylladb:6.0", "cassandra:5.0")


def test_a_system_that_was_never_affected_has_no_event():
    life = follow_on_system(NEW, [Observation("r", None, NEW, 0, 9)], old=Rate(3, 3, "race"))
    assert (life.stage, life.events, life.is_seen) == ("verified", (), False)
    assert follow_on_system(NEW, [Observation("r", None, NEW, 0, 5)], old=Rate(3, 3, "race")).stage == "held"


GOOD = """
[[finding]]
ids = ["SQ-E3ZATWYL", "SQ-QP3OQCTL"]
title = "T"
tickets = ["CASSANDRA-18330"]
fixed_in = ["cassandra:6.0"]
"""


def test_the_file_of_decisions_is_read_and_rubbish_is_named(tmp_path):
    path = tmp_path / "findings.toml"
    path.write_text(GOOD)
    assert read_curation(path).of(["SQ-QP3OQCTL"]).fixed_in == ("cassandra:6.0",)
    for wrong in (
        "[[finding]]\nids = []",
        '[[finding]]\nids = ["E3ZATWYL"]',
        '[[finding]]\nids = ["SQ-E3ZATWYL"]\ntitel = "x"',
        '[[finding]]\nids = ["SQ-E3ZATWYL"]\ntitle = 7',
        '[[finding]]\nids = "SQ-E3ZATWYL"',
        '[[finding]]\nids = ["SQ-E3ZATWYL"]\nfixed_in = ["6.0"]',
        GOOD + '[[finding]]\nids = ["SQ-QP3OQCTL"]',
        "finding = 3",
        "other = 3",
        "[[",
    ):
        path.write_text(wrong)
        with pytest.raises(PlanError):
            read_curation(path)
    with pytest.raises(PlanError):
        read_curation(tmp_path / "none")
