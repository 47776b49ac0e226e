"""Which run comes next, under a clock that is a number."""

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_executor import FEATURES, VirtualExecutor, clean, crashed, shows

from schemaquake.harness.model.protocols import Demands
from schemaquake.results.matrix.assembly import matrix_of
from schemaquake.results.matrix.conducting import conduct
from schemaquake.results.matrix.matrix_plan import Condition, MatrixPlan
from schemaquake.results.matrix.schedule import CellKey, Schedule
from schemaquake.results.summary.run_summary import CONTROL
from schemaquake.workloads.races.options import racing_options

OLD, MIDDLE, NEW, CLEAN = "cassandra:1.0.12", "cassandra:1.2.19", "cassandra:5.0.9", "cassandra:6.0-alpha2"
DEMANDS = {
    OLD: Demands(memory_mb=500, features=FEATURES - {"types", "functions", "views"}),
    MIDDLE: Demands(memory_mb=600, features=FEATURES - {"types", "functions", "views"}),
    NEW: Demands(memory_mb=2400, features=FEATURES),
    CLEAN: Demands(memory_mb=2600, features=FEATURES),
}
WORKLOADS = ("create-table", "add-columns", "alter-options", "drop-type", "drop-alter")


def planned(**changes):
    values = {"systems": tuple(DEMANDS), "workloads": WORKLOADS, "races": 4, "tries_max": 6}
    return MatrixPlan(**{**values, **changes})


def schedule_of(plan=None):
    plan = plan or planned()
    return Schedule(plan, {system: DEMANDS[system] for system in plan.systems})


def run(schedule, executor, *, at_once=2, budget_s=None, record=lambda _done: None):
    executor.at_once = at_once
    return conduct(schedule, executor, budget_s=budget_s, record=record)


def key(system, workload, mode="barrier"):
    return CellKey(system, workload, mode)


# ── what is run ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_everything_wanted_is_known_in_the_end():
    schedule = schedule_of()
    executor = VirtualExecutor()
    assert run(schedule, executor) == "known"
    known, cells = schedule.counts()
    assert known == cells == 4 * 5 * 2
    assert executor.stopped == 0


def test_what_a_system_never_had_is_not_run_and_says_why():
    schedule = schedule_of()
    executor = VirtualExecutor()
    run(schedule, executor)
    cell = schedule.cell(key(OLD, "drop-type"))
    assert cell.state == "not applicable"
    assert cell.reason == f'workload "drop-type" is not applicable to {OLD}: it has no types'
    assert not [unit for unit in executor.begun if unit.system == OLD and "drop-type" in unit.workloads]


def test_breadth_comes_first():
    schedule = schedule_of()
    executor = VirtualExecutor()
    run(schedule, executor, at_once=1)
    seen = set()
    again_at = None
    for place, unit in enumerate(executor.begun):
        cells = {key(unit.system, name, unit.condition.name) for name in unit.workloads}
        if cells <= seen and again_at is None:
            again_at = place
        assert again_at is None or cells <= seen, "a new cell after the first repeat"
        seen |= cells
    assert again_at is not None
    assert [unit.system for unit in executor.begun[:4]] == list(DEMANDS), "the first of every system comes first"


def test_controls_come_after_the_first_run_of_every_cell_and_are_run_once():
    schedule = schedule_of()
    executor = VirtualExecutor()
    run(schedule, executor, at_once=1)
    controls = [place for place, unit in enumerate(executor.begun) if unit.condition.mode == CONTROL]
    assert len(controls) == 4, "all kinds of a system share one control"
    assert controls == list(range(controls[0], controls[0] + 4))


def test_harmless_kinds_share_a_cluster_and_poisonous_ones_have_their_own():
    schedule = schedule_of()
    executor = VirtualExecutor()
    run(schedule, executor)
    on_new = {unit.workloads for unit in executor.begun if unit.system == NEW and unit.condition.mode == "barrier"}
    assert on_new == {("add-columns", "alter-options"), ("create-table",), ("drop-type",), ("drop-alter",)}
    on_old = {unit.workloads for unit in executor.begun if unit.system == OLD and unit.condition.mode == "barrier"}
    assert all(len(workloads) == 1 for workloads in on_old)
    on_clean = {unit.workloads for unit in executor.begun if unit.system == CLEAN}
    assert on_clean == {WORKLOADS}


def test_kinds_that_disturb_each_other_are_run_apart_and_their_shared_run_counts_for_none():
    def world(unit):
        return shows(unit, at_large=["node-died"] if len(unit.workloads) > 1 else ())

    schedule = schedule_of(planned(systems=(CLEAN,), controls=False))
    executor = VirtualExecutor(world)
    assert run(schedule, executor) == "known"
    shared = [unit for unit in executor.begun if len(unit.workloads) > 1]
    assert len(shared) == 1
    for name in WORKLOADS:
        cell = schedule.cell(key(CLEAN, name))
        assert (cell.state, cell.broken) == ("held", 0)


def test_kinds_that_never_began_because_another_ended_the_cluster_get_runs_of_their_own():
    def world(unit):
        if len(unit.workloads) > 1:
            return shows(unit, begin=["create-table"], at_large=["schema-disagreement"])
        return clean(unit)

    schedule = schedule_of(planned(systems=(CLEAN,), controls=False))
    executor = VirtualExecutor(world)
    run(schedule, executor)
    for name in WORKLOADS:
        assert schedule.cell(key(CLEAN, name)).tried > 0


def test_a_second_run_makes_other_races():
    schedule = schedule_of(planned(systems=(NEW,), workloads=("drop-type",), controls=False))
    executor = VirtualExecutor()
    run(schedule, executor)
    assert [unit.first_race for unit in executor.begun] == [0, 4, 8]
    assert len({unit.id for unit in executor.begun}) == 3


def test_cells_that_agree_need_few_runs_and_those_that_waver_get_more_but_never_more_than_allowed():
    def wavering(unit):
        return shows(unit, at_large=["schema-disagreement"] if unit.turn % 2 else ())

    plan = planned(systems=(NEW,), workloads=("drop-type",), controls=False, tries_max=5)
    sure, unsure = VirtualExecutor(), VirtualExecutor(wavering)
    run(schedule_of(plan), sure)
    run(schedule_of(plan), unsure)
    assert (len(sure.begun), len(unsure.begun)) == (3, 5)


def test_runs_that_are_never_decided_are_given_up():
    schedule = schedule_of(planned(systems=(NEW,), workloads=("drop-type",), controls=False))
    executor = VirtualExecutor(crashed)
    assert run(schedule, executor) == "known"
    assert len(executor.begun) == 2
    cell = schedule.cell(key(NEW, "drop-type"))
    assert (cell.state, cell.reason) == ("unknown", "its process ended with 1 (2 runs)")


def test_runs_that_were_never_decided_are_tried_again_in_the_next_sitting_and_decided_ones_are_not():
    systems, drop = (NEW, OLD), key(NEW, "drop-type")
    schedule = schedule_of(
        planned(systems=systems, workloads=("drop-type", "create-table"), controls=False, tries_max=5)
    )
    run(schedule, VirtualExecutor(lambda unit: (crashed if unit.workloads == ("drop-type",) else clean)(unit)))
    tried = len(schedule.runs[drop])
    assert (tried, schedule.cell(drop).state) == (2, "unknown")
    for sitting, expected in enumerate((2, 1, 0), 1):
        schedule.begin_sitting()
        executor = VirtualExecutor(crashed)
        assert run(schedule, executor) == "known"
        assert [unit.workloads for unit in executor.begun] == [("drop-type",)] * expected, sitting
    assert len(schedule.runs[drop]) == 5, "never more than the largest number of tries"


def test_nemeses_and_cuts_have_runs_of_their_own_without_a_canary():
    plan = planned(
        systems=(CLEAN,), conditions=(Condition("partition"), Condition("barrier", ("kill",))), controls=False
    )
    schedule = schedule_of(plan)
    executor = VirtualExecutor()
    run(schedule, executor)
    assert all(len(unit.workloads) == 1 for unit in executor.begun)
    assert not any(racing_options(plan.run_plan(unit).options).until_poisoned for unit in executor.begun)
    assert {unit.condition.name for unit in executor.begun} == {"partition", "barrier, kill"}


# ── memory and time ──────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), total=st.integers(2600, 9000), at_once=st.integers(1, 5))
def test_no_more_memory_is_ever_taken_than_there_is_and_no_more_clusters_than_allowed(seed, total, at_once):
    random = Random(seed)
    executor = VirtualExecutor(
        chaotic(random), lasts=lambda _unit: random.uniform(5, 90), total_mb=total, judging_s=random.uniform(0, 5)
    )
    schedule = schedule_of()
    assert run(schedule, executor, at_once=at_once) == "known"
    assert executor.most_mb <= total
    assert executor.most_at_once <= at_once
    ids = [unit.id for unit in executor.begun]
    assert len(ids) == len(set(ids)), "nothing is run twice"
    for runs in schedule.runs.values():
        own = [one for one in runs if not one.ambiguous]
        assert len(own) <= schedule.plan.tries_max + 1


def chaotic(random):
    def world(unit):
        if random.random() < 0.15:
            return crashed(unit)
        large = ["node-will-not-start"] if random.random() < 0.3 else ()
        begin = random.sample(unit.workloads, random.randint(1, len(unit.workloads))) if large else None
        rate = random.random()
        return shows(
            unit,
            broken=lambda _name, _number: ["lost-rows"] if random.random() < rate else (),
            at_large=large,
            begin=begin,
            seconds=random.uniform(5, 90),
        )

    return world


def test_what_fits_is_run_while_what_does_not_has_to_wait():
    executor = VirtualExecutor(total_mb=1000)
    schedule = schedule_of()
    assert run(schedule, executor) == "too little memory"
    assert {unit.system for unit in executor.begun} == {OLD, MIDDLE}
    assert schedule.cell(key(NEW, "drop-type")).state == "not run"


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), minutes=st.floats(0.5, 20))
def test_a_budget_is_kept_to_within_what_the_last_runs_took_longer_than_before(seed, minutes):
    random = Random(seed)
    slow = {system: random.uniform(10, 60) for system in DEMANDS}
    executor = VirtualExecutor(
        lambda unit: shows(unit, seconds=slow[unit.system]), lasts=lambda unit: slow[unit.system]
    )
    began = executor.now
    guesses = {}
    schedule = schedule_of()
    begin = executor.begin

    def noted(unit, *, memory_mb):
        guesses[unit.id] = executor.now + schedule.estimate(unit)
        begin(unit, memory_mb=memory_mb)

    executor.begin = noted
    ending = run(schedule, executor, budget_s=minutes * 60)
    assert all(ends <= began + minutes * 60 for ends in guesses.values()), "nothing was begun that was to end later"
    assert executor.now <= began + minutes * 60 + max(slow.values())
    assert ending == ("known" if schedule.counts()[0] == schedule.counts()[1] else "time is up")


def test_times_are_learnt_of_the_same_unit_and_of_its_system():
    schedule = schedule_of(planned(controls=False))
    first = next(d.unit for d in schedule.candidates() if d.unit.system == NEW)
    others = {d.unit.system: d.seconds for d in schedule.candidates() if d.unit.kind != first.kind}
    schedule.begun(first)
    schedule.done(first, shows(first, seconds=4 * schedule.estimate(first)))
    later = {d.unit.system: d.seconds for d in schedule.candidates() if d.unit.kind != first.kind}
    assert later[NEW] == pytest.approx(4 * others[NEW], rel=0.5)
    again = schedule._unit(NEW, first.workloads, first.condition)
    assert schedule.estimate(again) == pytest.approx(schedule.runs[key(NEW, first.workloads[0])][0].seconds)


def test_time_left_falls_to_nothing():
    schedule = schedule_of()
    executor = VirtualExecutor()
    before = schedule.seconds_left(at_once=2)
    run(schedule, executor)
    assert math.isclose(schedule.seconds_left(at_once=2), 0)
    assert before > 60


# ── interruption ─────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), after=st.integers(0, 12))
def test_an_interrupted_matrix_goes_on_with_exactly_what_is_not_done(seed, after):
    def world(unit):
        return chaotic(Random(f"{seed}/{unit.id}"))(unit)

    whole = schedule_of()
    alone = VirtualExecutor(world)
    run(whole, alone, at_once=1)

    done = []
    first = VirtualExecutor(world, interrupt_after=after)
    schedule = schedule_of()
    try:
        run(schedule, first, at_once=1, record=done.append)
        stopped = False
    except KeyboardInterrupt:
        stopped = True
    assert first.stopped == int(stopped)
    resumed = schedule_of()
    for one in done:
        resumed.done(one.unit, one.facts)
    second = VirtualExecutor(world)
    run(resumed, second, at_once=1, record=done.append)

    ids = [one.unit.id for one in done]
    assert len(ids) == len(set(ids)), "what was done is not done again"
    assert ids == [unit.id for unit in alone.begun], "and the rest is what it would have been"
    assert resumed.runs == whole.runs


def test_an_error_ends_every_run_before_it_is_told():
    executor = VirtualExecutor(lasts=lambda unit: 10.0 if unit.system == OLD else 60.0)

    def record(_done):
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        run(schedule_of(), executor, at_once=2, record=record)
    assert executor.stopped >= 1


def test_uncertain_cells_are_counted_by_version():
    conditions = (Condition("barrier", ("kill",)), Condition("barrier", ("pause",)))
    wide = schedule_of(
        planned(
            systems=(CLEAN,), workloads=("add-columns",), races=1, conditions=conditions, tries_max=1, controls=False
        )
    )
    run(wide, VirtualExecutor())
    assert [
        note
        for note in notes_of(wide)
        if note.startswith("2 cells are less certain than ±0.3") and "(2 on 6.0-alpha2)" in note
    ]
    both = schedule_of(planned(systems=(OLD, CLEAN), workloads=("add-columns",), races=1, tries_max=1, controls=False))
    run(both, VirtualExecutor())
    assert [
        note for note in notes_of(both) if "2 cells are" in note and "(1 on 1.0.12 and 1 on 6.0-alpha2); each" in note
    ]


@pytest.mark.parametrize(
    ("anomaly", "begins"),
    [("resurrected-rows", "Needs no race: drop-recreate"), ("lost-rows", "A CONTROL IS LOUD: drop-recreate")],
)
def test_every_note_of_a_matrix_is_a_sentence_with_its_full_stop(anomaly, begins):
    schedule = schedule_of(planned(systems=("cassandra:1.2.19",), workloads=("drop-recreate",), races=1, tries_max=1))
    run(schedule, VirtualExecutor(world=lambda unit: shows(unit, broken=lambda *_: (anomaly,))))
    notes = notes_of(schedule)
    assert notes[0].startswith(begins)
    assert [note for note in notes if "certain than" in note]
    assert [note for note in notes if not note.endswith(".") or note.endswith("..")] == []


def notes_of(schedule):
    return matrix_of(schedule, started="2026-11-21T10:02:11+00:00", finished=None, seconds=1, machine={}).notes
