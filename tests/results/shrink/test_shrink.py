"""The least that still fails, on an oracle that knows; also one that does not always say so."""

import stat
import subprocess
from dataclasses import replace
from random import Random

import orjson
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from racing_context import racing_context

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.verdict import Anomaly, Verdict
from schemaquake.harness.registry import load
from schemaquake.results.matrix.facts import RaceFacts, RunFacts
from schemaquake.results.shrink.candidate import Candidate, atoms, keeping, statements_of
from schemaquake.results.shrink.ddmin import ddmin
from schemaquake.results.shrink.failing_run import FailingRun, failing_run, requires_of
from schemaquake.results.shrink.reproduction import reproduction
from schemaquake.results.shrink.shrinking import BudgetSpent, Measured, Shrinking, Shrunk
from schemaquake.results.shrink.shrunk_run import write_shrunk
from schemaquake.results.shrink.trying import Trying, measured, plan_of, scenario_of
from schemaquake.results.store.store import Store
from schemaquake.results.tables.races import RACES
from schemaquake.workloads.races.engine import Race
from schemaquake.workloads.races.options import racing_options
from schemaquake.workloads.races.scenario_file import ScenarioFile

FEATURES = frozenset({"keyspaces", "tables", "columns", "options", "indexes", "types", "functions", "views"})
PLAN = Plan(
    system="cassandra:5.0.9", workloads=("drop-type",), options={"races": "3"}, seed=7, nemeses=("kill", "pause")
)


def races(kind="drop-type", count=3):
    made: tuple[Race, ...] = load("workloads", kind).races(
        racing_context(seed=7, nodes=("n1", "n2", "n3"), features=FEATURES, races=count)
    )
    return made


def candidate(**changes):
    values = {"races": races(), "nemeses": PLAN.nemeses, "mode": "barrier", "nodes": 3}
    return Candidate(**{**values, **changes})


# ── delta debugging ──────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))))
def test_exactly_what_is_needed_is_left_when_it_is_needed_together(case):
    count, needed = case
    assert ddmin(range(count), lambda some: needed <= set(some)) == sorted(needed)


@given(st.integers(1, 25), st.integers(0, 10_000))
def test_what_is_left_is_1_minimal_whatever_fails(count, seed):
    wanted = [frozenset(Random(f"{seed}/{n}").sample(range(count), min(count, 3))) for n in range(3)]

    def fails(some):
        return any(want <= set(some) for want in wanted)

    left = ddmin(range(count), fails)
    assert fails(left)
    assert left == sorted(left)
    assert not any(fails([item for item in left if item != without]) for without in left)


def test_a_large_list_takes_few_questions():
    asked = []

    def fails(some):
        asked.append(list(some))
        return 617 in some

    assert ddmin(range(1000), fails) == [617]
    assert len(asked) < 50


# ── candidates ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_keeping_everything_changes_nothing_and_keeping_nothing_leaves_no_side():
    whole = candidate()
    assert keeping(whole, atoms(whole)) == whole
    assert all(not race.sides and not race.setup and not race.tables for race in keeping(whole, []).races)


def test_a_side_without_statements_takes_its_rows_with_it_and_the_others_keep_their_places():
    whole = candidate(races=races()[:1])
    (race,) = whole.races
    assert [probe.side for probe in race.tables] == [None, 1]
    without_first = keeping(whole, [atom for atom in atoms(whole) if atom[0] != "side" or atom[2] != 0]).races[0]
    assert [probe.side for probe in without_first.tables] == [None, 0]
    without_second = keeping(whole, [atom for atom in atoms(whole) if atom[0] != "side" or atom[2] != 1]).races[0]
    assert [probe.side for probe in without_second.tables] == [None]


@pytest.mark.parametrize("kind", ["drop-type", "create-table", "drop-alter", "create-index"])
def test_whatever_is_left_out_the_rest_is_a_scenario_that_can_be_run(kind):
    """Rows of a table whose CREATE is left out can never be written, and a scenario with such rows is refused."""
    whole = candidate(races=races(kind, count=2))
    every = atoms(whole)
    for left_out in [{atom} for atom in every] + [{atom for atom in every if atom[0] == "setup"}]:
        smaller = keeping(whole, [atom for atom in every if atom not in left_out])
        document = orjson.loads(orjson.dumps(scenario_of(smaller).to_json()))
        assert ScenarioFile.from_json(document).races == smaller.races
    assert scenario_of(whole).races == whole.races, "nothing is left out of a race that is whole"


def test_a_round_of_churn_whose_table_an_earlier_one_created_has_no_rows_alone():
    (race,) = races("drop-alter", count=1)
    alone = replace(race, setup=(), sides=tuple(side for side in race.sides if side[0].f != "create-table"))
    assert race.tables
    assert not scenario_of(candidate(races=(alone,))).races[0].tables


def test_no_fewer_nodes_than_sides_are_tried():
    assert [one.nodes for one in candidate(nodes=5).fewer_nodes()] == [2, 3, 4]
    (race,) = races("create-table", 1)
    three = candidate(races=(replace(race, sides=race.sides[:1] * 3),), nodes=4)
    assert [one.nodes for one in three.fewer_nodes()] == [3]


# ── the search ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Bug:
    """Needs DROP TYPE and what uses the type, after CREATE TYPE, in one race, and the fault `kill` if it says so."""

    def __init__(self, *, fault=None, nodes=2, rate=1.0, tries=3, budget=None):
        self.fault, self.nodes, self.rate, self.tries, self.budget = fault, nodes, rate, tries, budget
        self.asked = []

    def __call__(self, candidate):
        if self.budget is not None and len(self.asked) >= self.budget:
            raise BudgetSpent
        self.asked.append(candidate)
        there = (
            any(self._in(race) for race in candidate.races)
            and (self.fault is None or self.fault in candidate.nemeses)
            and candidate.nodes >= self.nodes
        )
        random = Random(len(self.asked))
        return Measured(sum(there and random.random() < self.rate for _ in range(self.tries)), self.tries)

    def _in(self, race):
        before = [step.f for step in race.setup]
        during = [[step.f for step in side] for side in race.sides]
        return "create-type" in before and ["drop-type"] in during and len(during) == 2


def test_one_race_two_statements_and_the_type_are_left():
    bug = Bug(fault="pause")
    shrunk = Shrinking(bug, rate=0.5).shrink(candidate())
    assert shrunk.minimal
    left = shrunk.candidate
    assert (left.nemeses, left.nodes, len(left.races)) == (("pause",), 2, 1)
    assert [step.f for step in left.races[0].sides[0]] == ["drop-type"]
    assert [step.f for step in left.races[0].setup] == ["create-type"]
    assert left.races[0].tables == ()
    assert shrunk.measured == Measured(3, 3)
    assert len(bug.asked) == len({one.identity for one in bug.asked}), "nothing is asked twice"


def test_without_any_one_part_the_smallest_scenario_does_not_fail():
    shrunk = Shrinking(Bug(), rate=0.5).shrink(candidate(races=(*races(), *races("add-columns"))))
    every = atoms(shrunk.candidate)
    for without in every:
        smaller = keeping(shrunk.candidate, [atom for atom in every if atom != without])
        assert not Bug()(smaller).fails(0.5)


def test_a_cut_is_left_out_where_it_is_not_needed():
    assert Shrinking(Bug(), rate=0.5).shrink(candidate(mode="partition", nemeses=())).candidate.mode == "barrier"


def test_a_restart_is_left_out_where_it_is_not_needed():
    assert Shrinking(Bug(), rate=0.5).shrink(candidate(restart="together")).candidate.restart == "none"

    class AfterRestart(Bug):
        def __call__(self, candidate):
            return super().__call__(candidate) if candidate.restart != "none" else Measured(0, 3)

    assert Shrinking(AfterRestart(), rate=0.5).shrink(candidate(restart="rolling")).candidate.restart == "rolling"


def test_a_guess_that_fails_saves_the_rest():
    bug = Bug()
    Shrinking(bug, rate=0.5).shrink(candidate(races=races(count=6)), likely=[candidate(races=races()[:1])])
    assert all(len(one.races) == 1 for one in bug.asked)


def test_what_does_not_show_again_is_not_shrunk():
    assert Shrinking(Bug(nodes=9), rate=0.5).shrink(candidate()) is None


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 60))
def test_within_a_budget_the_best_so_far_is_given_and_it_fails(budget):
    bug = Bug(budget=budget, fault="kill")
    shrunk = Shrinking(bug, rate=0.5).shrink(candidate())
    assert len(bug.asked) <= budget
    if shrunk is None:
        assert budget == 0
    else:
        assert shrunk.measured.fails(0.5)
        assert Bug(fault="kill")(shrunk.candidate).fails(0.5)


@pytest.mark.parametrize("seed", range(3))
def test_a_flaky_one_is_found_at_its_rate_and_is_no_larger_than_it_must_be(seed):
    class Flaky(Bug):
        def __call__(self, candidate):
            found = super().__call__(candidate)
            random = Random(f"{seed}/{len(self.asked)}")
            return Measured(sum(random.random() < 0.8 for _ in range(found.broken)), found.tried)

    shrunk = Shrinking(Flaky(tries=15), rate=0.5).shrink(candidate())
    assert len(shrunk.candidate.races) == 1
    assert len(atoms(shrunk.candidate)) == 3
    assert 0.5 <= shrunk.measured.broken / shrunk.measured.tried < 1


@pytest.mark.parametrize(
    ("broken", "tried", "rate", "fails"),
    [
        (2, 3, 0.5, True),
        (1, 3, 0.5, False),
        (1, 2, 0.5, True),
        (0, 3, 0.01, False),
        (0, 0, 0.5, False),
        (1, 9, 0.1, True),
    ],
    ids=["most", "few", "just", "never", "no try", "rare"],
)
def test_a_candidate_fails_at_the_stated_rate(broken, tried, rate, fails):
    assert Measured(broken, tried).fails(rate) is fails


# ── real runs, by what they leave ────────────────────────────────────────────────────────────────────────────────────


def facts(*anomalies, at_large=(), completed=True):
    return RunFacts(
        run="runs/a",
        completed=completed,
        at_large=tuple(at_large),
        races=tuple(
            RaceFacts(keyspace=f"sq_scenario_{n:03d}", workload="w", number=n, acknowledged=1, anomalies=tuple(found))
            for n, found in enumerate(anomalies)
        ),
    )


def test_a_repeat_of_several_races_shows_what_any_of_them_shows():
    lost = ["lost-rows"]
    assert measured(facts(lost, [], [], [], [], lost), "lost-rows", 2, whole=False) == Measured(2, 3)
    assert measured(facts([], [], at_large=lost), "lost-rows", 1, whole=False) == Measured(1, 2)
    assert measured(facts([], lost, completed=False), "lost-rows", 1, whole=False) == Measured(1, 1)
    assert measured(facts(completed=True), "lost-rows", 1, whole=False) == Measured(0, 0)


def test_an_anomaly_of_the_whole_run_is_one_try_a_run():
    died = ["node-died"]
    assert measured(facts([], [], at_large=died), "node-died", 2, whole=True) == Measured(1, 1)
    assert measured(facts([], []), "node-died", 2, whole=True) == Measured(0, 1)
    assert measured(facts(completed=False), "node-died", 1, whole=True) == Measured(0, 0)


def failing(anomaly="lost-rows"):
    return FailingRun(plan=PLAN, anomaly=anomaly, title="Rows are gone", races=races(), shows=races()[:1])


def test_runs_end_as_soon_as_the_rate_is_settled(tmp_path, monkeypatch):
    shown = iter([["node-died"], [], ["node-died"], *[[]] * 9])
    plans = []

    def carry_out(_self, plan):
        plans.append(plan)
        return facts([], at_large=next(shown))

    monkeypatch.setattr(Trying, "_carry_out", carry_out)
    trying = Trying(failing("node-died"), tmp_path, tries=3, rate=0.5)
    assert trying(candidate()) == Measured(2, 3)
    assert trying(candidate(nodes=2)) == Measured(0, 2), "the third could not make it two"
    assert {racing_options(plan.options).races for plan in plans} == {1}


def test_an_anomaly_of_a_race_is_tried_in_keyspaces_of_its_own_until_the_cluster_is_poisoned(tmp_path):
    plan = plan_of(failing().plan, candidate(nemeses=()), tmp_path / "s.json", repeats=4)
    options = racing_options(plan.options)
    assert (options.races, options.until_poisoned, plan.workloads) == (4, True, ("scenario",))
    faulty = plan_of(failing().plan, candidate(), tmp_path / "s.json", repeats=4)
    assert not racing_options(faulty.options).until_poisoned
    assert faulty.nemeses == ("kill", "pause")


def stored(tmp_path, anomalies, made=None):
    store = Store(tmp_path)
    store.write_plan(PLAN)
    store.write_verdict(Verdict(valid=False, checker="all", anomalies=tuple(anomalies)))
    rows = [
        {"keyspace": race.keyspace, "workload": race.workload, "number": race.number, "mode": "barrier", "sides": []}
        for race in (races() if made is None else made)
    ]
    empty = {"broken": False, "anomalies": [], "ok": 0, "fail": 0, "info": 0}
    store.write_analysis("races", RACES.empty_table().from_pylist([{**row, **empty} for row in rows], schema=RACES))
    return store


def test_a_failing_runs_races_are_made_again_from_plan_and_seed(tmp_path):
    anomalies = [
        Anomaly(type="lost-rows", title="Rows are gone", objects=("sq_drop_type_001.t",)),
        Anomaly(type="node-died", title="A node died"),
    ]
    run = failing_run(stored(tmp_path, anomalies), None)
    assert (run.anomaly, run.title) == ("lost-rows", "Rows are gone")
    assert [race.keyspace for race in run.races] == ["sq_drop_type_000", "sq_drop_type_001", "sq_drop_type_002"]
    assert run.shows == run.races[1:2]
    assert "types" in requires_of(run.races)
    assert failing_run(Store(tmp_path), "node-died").of_the_run


def test_what_cannot_be_shrunk_is_refused_with_the_reason(tmp_path):
    with pytest.raises(PlanError, match="no anomaly"):
        failing_run(stored(tmp_path, []), None)
    found = [Anomaly(type="lost-rows", title="Rows are gone")]
    with pytest.raises(PlanError, match=r"shows lost-rows \(1\)"):
        failing_run(stored(tmp_path, found), "node-died")
    with pytest.raises(PlanError, match="had no races"):
        failing_run(stored(tmp_path, found, made=[]), None)


# ── what is left behind ──────────────────────────────────────────────────────────────────────────────────────────────


def shrunk_one(**changes):
    left = candidate(races=races()[:1], nemeses=(), **changes)
    return Shrunk(candidate=left, measured=Measured(2, 3), minimal=True, asked=9)


def test_the_folder_holds_the_scenario_and_a_script_that_runs_it_from_anywhere(tmp_path):
    document = write_shrunk(tmp_path, failing(), shrunk_one(), tries=3)
    file = ScenarioFile.from_json(orjson.loads((tmp_path / "scenario.json").read_bytes()))
    assert [race.keyspace for race in file.races] == ["sq_drop_type_000"]
    assert document["size"] == {"races": 1, "statements": 4, "kinds of row": 2, "nodes": 3, "faults": 0}
    script = tmp_path / "reproduce.sh"
    assert script.stat().st_mode & stat.S_IXUSR
    program = tmp_path / "bin" / "schemaquake"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    environment = {"PATH": f"{program.parent}:/usr/bin:/bin"}
    ran = subprocess.run([script], capture_output=True, text=True, check=True, cwd="/", env=environment)
    words = ran.stdout.splitlines()
    assert words[:1] == ["run"]
    assert f"scenario={tmp_path.resolve()}/scenario.json" in words
    assert words[words.index("--races") + 1] == "3"
    missing = subprocess.run([script], capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"})
    assert missing.returncode == 254
    assert "pip install schemaquake" in missing.stderr


def test_the_script_tells_the_statements_and_the_rate():
    text = reproduction(failing(), shrunk_one(), tries=3)
    before, sides = statements_of(races()[0])
    assert "# It showed in 2 of 3 tries" in text
    for statement in (*before, *(one for side in sides for one in side)):
        assert f"#   {statement};" in text
