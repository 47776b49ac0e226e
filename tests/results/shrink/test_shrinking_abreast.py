"""Several findings shrunk at the same time: on an oracle that knows, on one that is never sure, and on a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_runs import SIX, carry_out, plan_of

from schemaquake.harness.cli.command_line import _run
from schemaquake.harness.errors import ExitCode
from schemaquake.harness.model.steps import Invoke
from schemaquake.results.grid.facts import BatchFacts, RaceFacts, Symptom
from schemaquake.results.runs.execution import conclude
from schemaquake.results.shrink.abreast import Asked, Smallest, Target, shrink_abreast
from schemaquake.results.shrink.racing_abreast import RacingAbreast, counted
from schemaquake.results.shrink.shrinking import BudgetSpent, Measured
from schemaquake.results.shrink.shrunk_findings import shrunk_findings
from schemaquake.workloads.races.engine import Race


def drop(name: str) -> Invoke:
    return Invoke("drop-type", f"k.{name}", {"keyspace": "k", "name": name})


def create(name: str) -> Invoke:
    return Invoke("create-type", f"k.{name}", {"keyspace": "k", "name": name, "fields": [["f", "int"]]})


def race(*sides: str, setup: str = "", number: int = 0) -> Race:
    """`race("ab", "c", setup="xy")`: one coordinator drops types a and b, the other c; x and y are made before."""
    return Race(
        workload="schema-churn",
        variant="0",
        number=number,
        keyspace="k",
        setup=tuple(map(create, setup)),
        sides=tuple(tuple(map(drop, side)) for side in sides),
        tables=(),
    )


def names(one: Race | None) -> str:
    """The letters that are left: of the setup, then of the sides."""
    assert one is not None
    sides = ["".join(step.value["name"] for step in side if isinstance(step, Invoke)) for side in one.sides]
    return "/".join(["".join(step.value["name"] for step in one.setup), *sides])


class Knowing:
    """An oracle by a rule; it counts the clusters."""

    def __init__(self, rule: Callable[[str, str], bool], *, decided: float = 1.0, budget: int = 10_000) -> None:
        self.rule = rule
        self.random = Random(7)
        self.decided = decided
        self.budget = budget
        self.calls: list[int] = []

    def __call__(self, asked: Sequence[Asked]) -> Sequence[Measured]:
        if len(self.calls) >= self.budget:
            raise BudgetSpent
        self.calls.append(len(asked))
        tried = [sum(self.random.random() < self.decided for _ in range(one.tries)) for one in asked]
        return [
            Measured(n if self.rule(names(one.race), one.anomaly) else 0, n)
            for one, n in zip(asked, tried, strict=True)
        ]


def target(*suspects: Race, anomaly: str = "lost-column") -> Target:
    return Target(id=f"SQ-{anomaly}", anomaly=anomaly, suspects=suspects)


def shrunk(*targets: Target, oracle: Knowing, confirm: int = 0) -> list[Smallest]:
    return shrink_abreast(targets, oracle, rate=0.5, tries=3, confirm=confirm)


def needing(*needed: str) -> Callable[[str, str], bool]:
    return lambda left, _: all(name in left for name in needed)


def test_two_statements_of_two_coordinators_and_what_they_rest_on_are_left():
    oracle = Knowing(needing("b", "e", "y"))
    (found,) = shrunk(target(race("abc", "def", "gh", setup="xyz")), oracle=oracle)
    assert names(found.race) == "y/b/e"
    assert found.minimal
    assert found.measured.broken == found.measured.tried
    assert len(oracle.calls) <= 8


def test_three_that_are_needed_together_are_left_and_one_that_is_enough_by_itself():
    three, one = target(race("ab", "cd", "ef")), target(race("pq", "r"), anomaly="unreadable-table")
    rule = {"lost-column": needing("a", "d", "e"), "unreadable-table": needing("r")}
    oracle = Knowing(lambda left, anomaly: rule[anomaly](left, anomaly))
    assert [names(found.race) for found in shrunk(three, one, oracle=oracle)] == ["/a/d/e", "/r"]


def test_a_dozen_findings_need_hardly_more_clusters_than_one():
    def clusters(count: int) -> int:
        oracle = Knowing(needing("b", "e"))
        some = [replace(target(race("abc", "def", setup="xyz")), id=f"SQ-{n}") for n in range(count)]
        assert {names(found.race) for found in shrunk(*some, oracle=oracle)} == {"/b/e"}
        return len(oracle.calls)

    assert clusters(12) == clusters(1)


def test_later_suspects_are_raced_when_the_first_ones_show_nothing_and_the_smallest_is_taken():
    innocent = [race("ab", "c", number=n) for n in range(7)]
    guilty, plainer = race("abp", "qc", number=7), race("p", "q", number=8)
    oracle = Knowing(needing("p", "q"))
    (found,) = shrunk(target(*innocent, guilty, plainer), oracle=oracle)
    assert found.race == plainer
    assert oracle.calls[:2] == [6, 3]
    assert len(oracle.calls) <= 6


def test_what_no_suspect_shows_again_has_no_race_and_ends_the_search():
    oracle = Knowing(lambda *_: False)
    (found,) = shrunk(target(*(race("a", "b", number=n) for n in range(8))), oracle=oracle)
    assert (found.race, found.minimal, found.raced) == (None, False, 8)
    assert oracle.calls == [6, 2, 6], "two tries of six, three of two, and the third try of the six"


def test_no_suspects_need_no_cluster():
    oracle = Knowing(needing())
    (found,) = shrunk(target(), oracle=oracle)
    assert (found.race, oracle.calls) == (None, [])


def test_a_race_that_is_never_decided_has_not_broken():
    oracle = Knowing(needing("a"), decided=0.0)
    (found,) = shrunk(target(race("ab", "c")), oracle=oracle)
    assert found.race is None


def test_a_spent_budget_leaves_what_was_found_and_says_that_it_is_not_the_smallest():
    (found,) = shrunk(target(race("abc", "def", setup="xyz")), oracle=Knowing(needing("b", "e"), budget=2))
    assert not found.minimal
    assert found.race is not None
    (nothing,) = shrunk(target(race("abc", "def")), oracle=Knowing(needing("b", "e"), budget=0))
    assert (nothing.race, nothing.minimal) == (None, False)


def test_the_rate_that_is_told_is_that_of_the_races_after_the_search():
    seen: list[int] = []

    class Flaky(Knowing):
        def __call__(self, asked: Sequence[Asked]) -> Sequence[Measured]:
            tries = asked[0].tries
            seen.append(tries)
            found = super().__call__(asked)
            return [Measured(one.broken and 4, one.tried) for one in found] if tries == 10 else found

    (found,) = shrunk(target(race("a", "b")), oracle=Flaky(needing("a", "b")), confirm=10)
    assert found.measured == Measured(4, 10)
    assert found.minimal
    assert max(seen[:-1]) <= 3


@given(st.integers(0, 10_000))
def test_what_is_left_breaks_and_without_any_one_part_does_not(seed):
    random = Random(seed)
    letters = "abcdefgh"
    sides = [letters[:3], letters[3:5], letters[5:]]
    wants = [random.sample("xyz" + letters, random.randint(1, 4)) for _ in range(2)]

    def rule(left: str, _: str) -> bool:
        return any(all(name in left for name in want) for want in wants)

    (found,) = shrunk(target(race(*sides, setup="xyz")), oracle=Knowing(rule))
    if found.race is None:
        assert not rule("xyz/" + "/".join(sides), "")
        return
    left = names(found.race)
    assert rule(left, "")
    for letter in left.replace("/", ""):
        smaller = left.replace(letter, "")
        # A race without any statement is none.
        assert not smaller.partition("/")[2].replace("/", "") or not rule(smaller, "")


# ── races on common clusters ─────────────────────────────────────────────────────────────────────────────────────────


def facts(*races: RaceFacts) -> BatchFacts:
    return BatchFacts(run="runs/1", completed=True, races=races)


def raced(number: int, *types: str, doubts: tuple[str, ...] = ()) -> RaceFacts:
    symptoms = tuple(Symptom(type=name, title="", explanation="") for name in types)
    return RaceFacts(
        cell="", keyspace=f"sq_scenario_{number:03d}", statements=(), acknowledged=2, symptoms=symptoms, doubts=doubts
    )


def test_races_are_counted_by_the_place_of_their_keyspace_and_by_what_is_known_of_them():
    asked = [Asked(race("a", "b"), "lost-column"), Asked(race("c", "d"), "dangling-type")]
    asked = [*asked, *asked, asked[0]]
    known = facts(
        raced(0, "lost-column"),
        raced(1, "lost-column"),  # another anomaly is wanted of that one
        raced(2, doubts=("undecided: another race's doing",)),
        raced(3, "dangling-type", doubts=("unread: a table",)),
    )
    measured = [counted(known, place, one) for place, one in enumerate(asked)]
    assert measured == [Measured(1, 1), Measured(0, 1), Measured(0, 0), Measured(1, 1), Measured(0, 0)]


def test_a_run_that_never_began_decided_nothing():
    assert counted(facts(), 0, Asked(race("a", "b"), "lost-column")) == Measured(0, 0)


class Poisoned(RacingAbreast):
    """Clusters that see two races each, and then take no more changes."""

    companies: list[int]

    def _carry_out(self, asked: Sequence[Asked], *, lanes: int) -> BatchFacts:
        self.clusters += 1
        self.companies.append(len(asked))
        return facts(*(raced(number, "lost-column") for number in range(min(2, len(asked)))))


def test_races_that_their_cluster_did_not_live_to_see_go_to_others_and_are_given_up_in_the_end(tmp_path):
    oracle = Poisoned(plan_of("schema-churn"), tmp_path)
    oracle.companies = []
    measured = oracle([Asked(race("a", "b", number=n), "lost-column") for n in range(5)])
    assert measured[:2] == [Measured(1, 1)] * 2
    assert all(one.tried <= 4 for one in measured)
    assert oracle.clusters <= 20
    assert oracle.companies[0] == 5


def test_one_race_answers_for_every_anomaly_that_it_may_show(tmp_path):
    oracle = Poisoned(plan_of("schema-churn"), tmp_path)
    oracle.companies = []
    one, other = race("a", "b", number=1), race("a", "b", number=2)
    asked = [Asked(one, "lost-column"), Asked(one, "dangling-type"), Asked(other, "dangling-type")]
    assert oracle(asked) == [Measured(1, 1), Measured(0, 1), Measured(0, 1)]
    assert oracle.companies == [2]


def test_a_cluster_is_given_about_as_many_races_as_one_before_it_lived_to_see(tmp_path):
    oracle = Poisoned(plan_of("schema-churn"), tmp_path)
    oracle.companies = []
    oracle([Asked(race("a", "b", number=n), "lost-column") for n in range(40)])
    assert oracle.companies[0] == 40
    assert max(oracle.companies[1:]) <= 6


def test_a_suspect_whose_cluster_did_not_live_to_see_it_is_not_called_innocent(tmp_path):
    class Dead(Poisoned):
        def _carry_out(self, asked: Sequence[Asked], *, lanes: int) -> BatchFacts:
            self.clusters += 1
            return facts()

    (found,) = shrink_abreast([target(race("a", "b"))], Dead(plan_of("schema-churn"), tmp_path), rate=0.5, tries=1)
    assert found.race is None
    assert found.raced == 0


def test_what_was_raced_before_the_budget_ended_counts(tmp_path):
    class Short(RacingAbreast):
        def _carry_out(self, asked: Sequence[Asked], *, lanes: int) -> BatchFacts:
            if self.clusters:
                raise BudgetSpent
            self.clusters += 1
            return facts(*(raced(number, "lost-column") for number in range(len(asked))))

    oracle = Short(plan_of("schema-churn"), tmp_path)
    many = [Asked(race("a", "b", number=n), "lost-column", 2) for n in range(40)]
    measured = oracle(many)
    assert sum(one.tried for one in measured) == 60
    assert measured[0] == Measured(2, 2)
    with pytest.raises(BudgetSpent):
        oracle(many)
    (found,) = shrink_abreast([target(many[0].race)], Short(plan_of("schema-churn"), tmp_path), rate=0.5, tries=3)
    assert found.race == many[0].race
    assert not found.minimal


# ── from end to end ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.long
def test_a_run_of_churn_ends_with_the_statements_of_every_finding(tmp_path: Path, capfdbinary) -> None:
    """A simulated 5.0, whose coordinators act alone: each finding is shown again by few of its statements."""
    run = tmp_path / "run"
    finished = conclude(carry_out(plan_of("schema-churn", seed=1, time_limit_s=6, restart="none"), run), engine="local")
    assert finished.verdict.valid is False
    code = _run(["shrink", str(run), "--every-finding", "--tries", "1", "--confirm", "2", "--json"])
    found = orjson.loads(capfdbinary.readouterr().out)
    assert code == ExitCode.INVALID
    shown = [one for one in found if "sides" in one]
    assert shown
    for one in shown:
        assert one["minimal"]
        assert 1 <= sum(map(len, one["sides"])) <= 3
        assert 0 < one["broken"] <= one["tried"]
        folder = run / "shrunk" / one["folder"]
        assert (folder / "scenario.json").exists()
        assert (folder / "reproduce.sh").exists()
    assert all(one["why_not"] for one in found if "sides" not in one)
    assert (run / "shrunk" / "findings.md").read_text().count("## SQ-") == len(found)


def broken_races(folder: Path) -> Path:
    """A judged run of two races on a simulated 5.0."""
    plan = plan_of("drop-type", seed=1, time_limit_s=20, restart="none", options={"races": "2"})
    assert conclude(carry_out(plan, folder), engine="local").verdict.valid is False
    return folder


@pytest.mark.long
def test_findings_of_races_end_as_the_two_statements_of_each(tmp_path: Path, capfdbinary) -> None:
    run = broken_races(tmp_path / "run")
    code = _run(["shrink", str(run), "--every-finding", "--tries", "1", "--confirm", "1", "--json"])
    printed = capfdbinary.readouterr()
    found = orjson.loads(printed.out)
    assert code == ExitCode.INVALID
    shown = [one for one in found if "sides" in one]
    once = {orjson.dumps([one["finding"], one["setup"], one["sides"]]) for one in shown}
    assert len(once) < len(shown)
    assert printed.err.count(b"-- before") == (run / "shrunk" / "findings.md").read_text().count("```sql") == len(once)
    assert "dangling-type" in {one["anomaly"] for one in shown}
    assert all([len(side) for side in one["sides"]] in ([1], [1, 1]) for one in shown)


def test_what_showed_once_and_never_when_it_was_confirmed_is_no_reproducer(tmp_path: Path) -> None:
    run = broken_races(tmp_path / "run")

    def once(asked: Sequence[Asked]) -> list[Measured]:
        return [Measured(0, 7) if one.tries == 7 else Measured(one.tries, one.tries) for one in asked]

    def always(asked: Sequence[Asked]) -> list[Measured]:
        return [Measured(one.tries, one.tries) for one in asked]

    found = [one.to_json() for one in shrunk_findings(run, tries=1, confirm=7, rate=1.0, ends=None, oracle=once)]
    searched = [one for one in found if one["suspects"]]
    assert searched
    assert all("sides" not in one and "none of the 7 races after that" in one["why_not"] for one in searched)
    again = [one.to_json() for one in shrunk_findings(run, tries=1, confirm=7, rate=1.0, ends=None, oracle=always)]
    assert all((one["broken"], one["tried"]) == (7, 7) for one in again if one["suspects"])


def test_without_time_nothing_is_found_and_nothing_claimed(tmp_path: Path, capfdbinary) -> None:
    run = broken_races(tmp_path / "run")
    asked = ["shrink", str(run), "--every-finding", "--tries", "1"]
    assert _run([*asked, "--anomaly", "dangling-type"]) not in {0, 1, 2}
    capfdbinary.readouterr()
    assert _run([*asked, "--time-budget", "0", "--json"]) == ExitCode.UNKNOWN
    found = orjson.loads(capfdbinary.readouterr().out)
    assert found
    assert all("sides" not in one and one["why_not"] for one in found)


def test_a_run_without_an_anomaly_is_not_shrunk(tmp_path: Path, capfd) -> None:
    run = tmp_path / "run"
    plan = plan_of("drop-type", system=SIX, seed=1, time_limit_s=20, restart="none", options={"races": "1"})
    assert conclude(carry_out(plan, run), engine="local").verdict.valid is True
    assert _run(["shrink", str(run), "--every-finding"]) not in {0, 1}
    assert "nothing to shrink" in " ".join(capfd.readouterr().err.split())


@pytest.mark.parametrize("minutes", ["nan", "-1"])
@pytest.mark.parametrize(
    "command",
    [
        ["run", "--system", "cassandra:5.0.9", "--workload", "drop-type", "--shrink"],
        ["shrink", "nowhere", "--time-budget"],
        ["shrink", "nowhere", "--every-finding", "--time-budget"],
    ],
    ids=" ".join,
)
def test_a_budget_that_is_no_time_is_refused_before_anything_runs(tmp_path, monkeypatch, capfd, command, minutes):
    monkeypatch.chdir(tmp_path)
    assert _run([*command, minutes]) == ExitCode.BAD_ARGUMENTS
    assert "minutes" in capfd.readouterr().err
    assert not list(tmp_path.iterdir())
