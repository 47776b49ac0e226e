"""Tracking: one cause over versions, with what was tried and held beside what broke."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schemaquake.results.findings.cause import Cause
from schemaquake.results.findings.description import describe_otherwise
from schemaquake.results.findings.finding import Finding, Rate, Symptom
from schemaquake.results.findings.shapes import parse_shape
from schemaquake.results.findings.tracking import JudgedRace, JudgedRun, TrackedFinding, track_findings

DROPPED = ("drop-type(A)", "create-table(B uses A)")
OTHER = ("drop-table(A)", "add-column(A)")
OLD, NEW, NEVER = "cassandra:5.0.9", "cassandra:6.0-alpha2", "cassandra:4.1.10"


def finding(
    broken: int, tried: int, *, era: str = "system_schema", statements: tuple[str, ...] = DROPPED, **values: object
) -> Finding:
    shapes = tuple(map(parse_shape, statements))
    cause = Cause(product="cassandra", era=era, statements=shapes, symptom=None if shapes else "node-died")
    symptom = Symptom(type="dangling-type", mechanism=None, anomalies=(0,), races=(), nodes=())
    made = Finding(
        cause=cause,
        symptoms=(symptom,),
        races=(),
        sides=(shapes,) if shapes else (),
        rate=Rate(broken, tried, "race" if shapes else "run"),
        first_seen="2026-11-21T10:00:00+00:00",
        last_seen="2026-11-21T11:00:00+00:00",
    )  # fmt: skip
    return replace(made, **values)  # type: ignore[arg-type]  # fields by name


def judged(
    system: str, *findings: Finding, races: tuple[JudgedRace, ...] = (), run: str = "r", valid: bool = False
) -> JudgedRun:
    return JudgedRun(
        system=system, run=run, valid=valid, workloads=("w",), nemeses=(), findings=findings, races=races
    )  # fmt: skip


HELD = JudgedRace(DROPPED, broken=False, decided=True)
UNDECIDED = JudgedRace(DROPPED, broken=False, decided=False)
BROKEN_OTHERWISE = JudgedRace(DROPPED, broken=True, decided=True)
OTHERS = JudgedRace(OTHER, broken=False, decided=True)


def test_a_version_is_not_affected_only_as_far_as_it_was_tried() -> None:
    runs = [
        judged(OLD, finding(2, 3)),
        judged(NEW, races=(HELD, HELD, UNDECIDED, BROKEN_OTHERWISE, OTHERS)),
        judged(NEVER, races=(OTHERS, UNDECIDED)),
    ]
    (tracked,) = track_findings(runs, (OLD, NEW, NEVER))
    assert [(one.state, one.rate) for one in tracked.sightings] == [
        ("affected", Rate(2, 3, "race")),
        ("held", Rate(0, 2, "race")),
        ("not tried", Rate(0, 0, "race")),
    ]
    assert tracked.affected == (OLD,)
    assert tracked.on(NEW).id is None


def test_runs_of_one_version_add_up_and_keep_the_first_and_the_last_sighting() -> None:
    later = finding(1, 2, first_seen="2026-11-22T10:00:00+00:00", last_seen="2026-11-22T10:00:00+00:00")
    runs = [judged(OLD, later, run="b"), judged(OLD, finding(2, 3), run="a"), judged(OLD, races=(HELD,), run="c")]
    (tracked,) = track_findings(runs, (OLD,))
    assert tracked.on(OLD).rate == Rate(3, 6, "race")
    assert tracked.on(OLD).runs == ("b", "a")
    assert (tracked.first_seen, tracked.last_seen) == ("2026-11-21T10:00:00+00:00", "2026-11-22T10:00:00+00:00")


def test_designs_have_ids_of_their_own_and_are_one_row() -> None:
    (tracked,) = track_findings([judged(OLD, finding(1, 1)), judged(NEW, finding(1, 4, era="tcm"))], (OLD, NEW))
    assert tracked.on(OLD).id != tracked.on(NEW).id
    assert tracked.affected == (OLD, NEW)


def test_other_statements_and_another_fault_are_other_rows_and_unknown_causes_come_last() -> None:
    killed = finding(1, 1)
    killed = replace(killed, cause=replace(killed.cause, fault="kill"))
    runs = [judged(OLD, finding(1, 1, statements=()), finding(1, 1), finding(1, 1, statements=OTHER), killed)]
    found = track_findings(runs, (OLD,))
    assert [tracked.example.cause.known for tracked in found] == [True, True, True, False]


def test_a_finding_of_runs_is_held_by_valid_runs_of_the_same_kind_alone() -> None:
    died = finding(1, 1, statements=())
    other = replace(judged(OLD, valid=True, run="o"), workloads=("another",))
    runs = [judged(OLD, died), judged(OLD, valid=True, run="v"), judged(OLD, run="undecided"), other]
    (tracked,) = track_findings(runs, (OLD,))
    assert tracked.on(OLD).rate == Rate(1, 2, "run")


def test_what_was_tracked_is_read_back() -> None:
    runs = [judged(OLD, finding(2, 3)), judged(NEW, races=(HELD,))]
    (tracked,) = track_findings(runs, (OLD, NEW))
    assert TrackedFinding.from_json(tracked.to_json()) == tracked
    assert [JudgedRun.from_json(run.to_json()) for run in runs] == runs
    with pytest.raises(KeyError):
        tracked.on(NEVER)
    assert track_findings([], (OLD,)) == ()


def known_on(
    era: str, symptom: str, *, statements: tuple[str, ...] = ("drop-column(A at B)", "create-index(C at B on A)")
) -> Finding:
    made = finding(1, 1, era=era, statements=statements)
    return replace(made, symptoms=(replace(made.symptoms[0], type=symptom),))


def test_a_design_that_breaks_in_a_way_of_its_own_says_what_that_is_known_as() -> None:
    old, new = known_on("system_schema", "dangling-index-target"), known_on("tcm", "unreadable-table")
    (tracked,) = track_findings([judged(OLD, old), judged(NEW, new), judged(NEVER)], (OLD, NEW, NEVER))
    assert describe_otherwise(tracked, tracked.on(OLD)) == describe_otherwise(tracked, tracked.on(NEVER)) == ""
    told = describe_otherwise(tracked, tracked.on(NEW))
    assert told == f"{new.id}: A row is written to a column that is being dropped, known: no ticket yet"
    assert TrackedFinding.from_json(tracked.to_json()) == tracked
    (same,) = track_findings([judged(OLD, old), judged(NEW, replace(old, rate=Rate(1, 2, "race")))], (OLD, NEW))
    assert describe_otherwise(same, same.on(NEW)) == ""


def test_a_design_on_which_it_is_new_says_so() -> None:
    old, new = known_on("system_schema", "dangling-index-target"), known_on("tcm", "lost-rows")
    (tracked,) = track_findings([judged(OLD, old), judged(NEW, new)], (OLD, NEW))
    assert describe_otherwise(tracked, tracked.on(NEW)) == f"{new.id}, new"
