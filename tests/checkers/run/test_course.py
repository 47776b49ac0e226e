"""The conductor's notes: one that is missing, damaged, or contradicts another is a doubt; a whole course is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pytest
from histories import judged

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.run.course import find_gaps
from schemaquake.harness.model.records import HISTORY, Records

PHASES = ("setup", "prepare", "main", "heal", "settle-settled", "final-settled")
AFTER_RESTART = ("settle-restarted", "final-restarted")
AGREED = '"agreed": true, "versions": {"n1": "v", "n2": "v"}'
READ = ["@150 settled n1,n2 keyspace k", "@250 restarted n1,n2 keyspace k"]


def phase(name: str, at: int, *within: str) -> list[str]:
    note = f'-- info phase {{"phase": "{name}", "state": '
    return [f'@{at} {note}"begins"}}', *within, f'@{at + 5} {note}"ends"}}']


def start(node: str, at: int, name: str) -> str:
    return f'@{at} -- {node} info node-start {{"phase": "{name}", "served": true}}'


def settle(name: str, at: int, rest: str = AGREED) -> str:
    return f'@{at} -- info settle {{"phase": "{name}", {rest}}}'


def course(*, restarted: bool = True, shown: str = AGREED) -> list[str]:
    lines = phase("boot", 1, start("n1", 2, "boot"), start("n2", 3, "boot"))
    for number, name in enumerate(PHASES, 1):
        within = [settle("settled", 10 * number + 1, shown)] if name == "settle-settled" else []
        lines += phase(name, 10 * number, *within)
    if restarted:
        lines += phase("restart", 160, start("n1", 161, "restart"), start("n2", 162, "restart"))
        lines += phase("settle-restarted", 170, settle("restarted", 171))
        lines += phase("final-restarted", 180)
    return lines


def gaps(history: Sequence[str], observations: Sequence[str] = READ) -> list[str]:
    doubts = list(find_gaps(Evidence.of(judged(list(history), list(observations)))))
    assert {doubt.kind for doubt in doubts} <= {"incomplete-run"}
    return [doubt.text for doubt in doubts]


def test_a_whole_course_has_no_gaps() -> None:
    assert gaps(course()) == []
    assert gaps(course(restarted=False), READ[:1]) == []


LISTS = {"v": ["10.0.0.1", "10.0.0.2"]}


def listed(node: str, versions: Any, *, phase: str = "settled", own: str = "v") -> str:
    at = 150 if phase == "settled" else 250
    told = {"epoch": None, **({} if versions is None else {"versions": versions})}
    return f"@{at} {phase} {node} version {own} {orjson.dumps(told).decode()}"


def versions_of_n2(versions: Any, *, phase: str = "settled", own: str = "v") -> list[str]:
    """What is said if n2 lists these versions, and n1 lists both nodes with one."""
    rows = [listed(node, LISTS, phase=name) for name in ("settled", "restarted") for node in ("n1", "n2")]
    told = listed("n2", versions, phase=phase, own=own)
    return gaps(course(), [*READ, *(row for row in rows if row != listed("n2", LISTS, phase=phase)), told])


@pytest.mark.parametrize("phase", ["settled", "restarted"])
def test_a_list_of_all_nodes_versions_that_contradicts_what_they_showed_is_a_doubt(phase: str) -> None:
    assert versions_of_n2(LISTS, phase=phase) == []
    assert versions_of_n2({"v": LISTS["v"][::-1]}, phase=phase) == []
    for odd in (
        None,
        {},
        {"v": ["10.0.0.2"]},
        {"w": LISTS["v"]},
        {"v": ["10.0.0.1"], "w": ["10.0.0.2"]},
        {**LISTS, "w": []},
    ):
        (said,) = versions_of_n2(odd, phase=phase)
        assert said.startswith("n2 lists the versions")
        assert phase in said
    # An address that only this node names: one of the two lists is wrong.
    assert {said.split()[0] for said in versions_of_n2({"v": [*LISTS["v"], "10.0.0.3"]}, phase=phase)} == {"n1"}


def test_versions_of_nodes_that_differ_or_were_not_read_are_for_others_to_judge() -> None:
    apart = {"v": ["10.0.0.1"], "w": ["10.0.0.2"]}
    assert versions_of_n2(apart, own="w") == []
    rows = [listed("n1", {"v": ["10.0.0.1"], "UNREACHABLE": ["10.0.0.2"]}), "@151 settled n2 error NoHostAvailable"]
    assert [said for said in gaps(course(), [*READ[1:], "@150 settled n1 keyspace k", *rows]) if "lists" in said] == []
    assert gaps(course(), [*READ, listed("n1", None), listed("n2", None)]) == [], "no list of a system that keeps none"


def test_a_history_without_phases_is_not_judged() -> None:
    assert gaps(["@1 p0 n1 invoke create-keyspace k", "@2 p0 n1 ok", settle("settled", 3, '"agreed": false')]) == []


@pytest.mark.parametrize("number", range(len(course())))
def test_every_single_note_is_missed_but_the_healing_and_later_starts(number: int) -> None:
    lines = course()
    gone = lines.pop(number)
    # That a phase began and never ended, and that a node was not restarted, are judged beside this.
    elsewhere = '"ends"' in gone or '"restart", "served"' in gone
    assert bool(gaps(lines)) is not elsewhere, gone


@pytest.mark.parametrize(
    ("told", "damaged"),
    [
        ('"phase": "main", ', ""),
        ('"phase": "main", "state": "begins"', '"phase": "main", "state": "x"'),
        ('"phase": "boot", "served": true', '"phase": "boot", "served": false'),
        ('"phase": "boot", "served"', '"served"'),
        ('info settle {"phase": "settled"', 'info settle {"phase": "x"'),
        ('info settle {"phase": "settled", ', "info settle {"),
    ],
)
def test_a_damaged_note_is_a_gap(told: str, damaged: str) -> None:
    lines = [line.replace(told, damaged) for line in course()]
    assert lines != course()
    assert gaps(lines) != []


@pytest.mark.parametrize(
    "shown",
    [
        '"agreed": false, "versions": {"n1": "v", "n2": "v"}',
        '"agreed": true, "versions": {"n1": "v", "n2": "w"}',
        '"agreed": true, "versions": {"n1": "unreadable: e", "n2": "unreadable: e"}',
        '"agreed": true, "versions": {"n1": null, "n2": null}',
        '"agreed": true, "versions": {"n1": "v"}',
        '"agreed": true, "versions": {"n1": "v", "n2": "v", "n3": "v"}',
        '"agreed": true, "versions": {}',
        '"agreed": true',
        '"versions": {"n1": "v", "n2": "v"}',
    ],
)
def test_a_settling_that_contradicts_its_versions_or_the_readings_is_a_gap(shown: str) -> None:
    assert len(gaps(course(shown=shown))) == 1 + ('"versions": {}' in shown)


@pytest.mark.parametrize(
    "shown",
    [
        '"agreed": false, "versions": {"n1": "v", "n2": "w"}',
        '"agreed": false, "versions": {"n1": "v", "n2": "unreadable: e"}',
    ],
)
def test_a_settling_without_agreement_is_no_gap(shown: str) -> None:
    assert gaps(course(shown=shown)) == []


def test_a_node_that_could_not_be_read_has_a_version_or_none() -> None:
    read = ["@150 settled n1 keyspace k", '@151 settled n2 error="Timeout" version', "@250 restarted n1,n2 keyspace k"]
    assert gaps(course(), read) == []


def test_nothing_follows_a_restart_after_which_no_node_serves() -> None:
    dead = [start(node, 161, "restart").replace("true", "false") for node in ("n1", "n2")]
    assert gaps([*course(restarted=False), *phase("restart", 160, *dead)], READ[:1]) == []


def test_a_keyspace_that_no_operation_created_is_older_than_the_run() -> None:
    changed = ["@41 p0 n1 invoke create-table k.t a:int*", "@42 p0 n1 ok"]
    asked = "@11 p9 n1 invoke create-keyspace k"
    for answer in ("@12 p9 n1 ok", "@12 p9 n1 info timed out"):
        assert gaps([*course(), asked, answer, *changed]) == []
    for before in ([], [asked, "@12 p9 n1 fail AlreadyExists: k"]):
        assert gaps([*course(), *before, *changed]) == ["keyspace k was changed, and no operation can have created it"]
    text = ['@11 p9 n1 invoke cql k {"statement": "CREATE KEYSPACE k"}', "@12 p9 n1 ok"]
    assert gaps([*course(), *text, *changed]) == []


def test_a_phase_that_began_twice_is_a_gap() -> None:
    assert gaps([*course(), *phase("main", 300)]) == ["phase main began 2 times"]


def test_a_node_that_joined_was_started_as_no_other() -> None:
    joined = [
        '@45 -- n3 invoke bootstrap {"operation": 1, "becomes": {"n3": "normal"}}',
        '@46 -- n3 ok bootstrap {"operation": 1, "becomes": {"n3": "normal"}}',
    ]
    lines = course(shown='"agreed": true, "versions": {"n1": "v", "n2": "v", "n3": "v"}')
    read = ["@150 settled n1,n2,n3 keyspace k", READ[1]]
    assert gaps([*lines[:10], *joined, *lines[10:]], read) == []
    assert gaps(lines, read) == ["n3 was read, and no start of it that served is noted before"]


def members(at: int, moment: str) -> str:
    """The note of two members whose host ids are not known."""
    rest = '"state": "normal", "address": "", "host_id": null, "spare": false, "expected": "normal"'
    return f'@{at} -- info membership {{"at": "{moment}", "members": {{"n1": {{{rest}}}, "n2": {{{rest}}}}}}}'


PLAN = '@1 -- info run-planned {"restart": "rolling", "logs": ["n1", "n2"], "pull_delay_s": 60}'
ASKED = ["@32 p99 n1 invoke create-keyspace k", "@33 p99 n1 ok"]
FAULTS = '@31 -- info faults-planned {"count": 0, "ids": []}'


def planned(plan: str = PLAN, *, setup: str = AGREED, restarted: bool = True) -> list[str]:
    noted = [members(1, "boot"), members(42, "heal"), *([members(163, "restart")] if restarted else [])]
    return [plan, *course(restarted=restarted), settle("setup", 12, setup), FAULTS, *ASKED, *noted]


def test_a_course_with_a_plan_has_no_gaps() -> None:
    assert gaps(planned()) == []
    assert gaps(planned(PLAN.replace("rolling", "none"), restarted=False), READ[:1]) == []
    assert gaps(planned(PLAN.replace('["n1", "n2"]', "[]"))) == []  # a cluster that keeps no logs
    assert gaps(planned(PLAN.replace('"n2"]', '"n2", "n3"]'))) == []  # of a node that is to join


@pytest.mark.parametrize("gone", [PLAN, FAULTS, settle("setup", 12)], ids=["plan", "faults", "settling"])
def test_what_every_run_with_a_plan_notes_is_missed(gone: str) -> None:
    assert len(gaps([line for line in planned() if line != gone])) == 1


@pytest.mark.parametrize(
    "told",
    [
        PLAN.replace("rolling", "none"),
        PLAN.replace("rolling", "other"),
        PLAN.replace('"restart": "rolling", ', ""),
        PLAN.replace('"logs": ["n1", "n2"], ', ""),
        PLAN.replace(', "n2"', ""),
        PLAN.replace(', "pull_delay_s": 60', ""),
    ],
)
def test_a_plan_that_says_less_or_something_else_is_a_gap(told: str) -> None:
    assert told != PLAN
    assert len(gaps(planned(told))) == 1


@pytest.mark.parametrize(
    "rest", ['"count": 1, "ids": []', '"count": 0, "ids": [0]', '"count": 0', '"count": 2, "ids": [1, 1]']
)
def test_planned_faults_are_as_many_as_are_named(rest: str) -> None:
    lines = [f"@31 -- info faults-planned {{{rest}}}" if line == FAULTS else line for line in planned()]
    assert len(gaps(lines)) == 1
    named = [line.replace('"count": 0, "ids": []', '"count": 2, "ids": [3, 4]') for line in planned()]
    assert gaps(named) == []


@pytest.mark.parametrize("ended", ['"exit_code": 0', '"exit_code": 137', '"first_error": "x"'])
def test_a_start_that_served_did_not_end(ended: str) -> None:
    lines = [line.replace('"served": true', f'"served": true, {ended}') if "n1" in line else line for line in course()]
    assert set(gaps(lines)) == {"a note of a start of n1 says that it served, and how it ended"}
    nothing = [
        line.replace('"served": true', '"served": true, "exit_code": null, "first_error": null') for line in course()
    ]
    assert gaps(nothing) == []


@pytest.mark.parametrize("nodes", ['{"n1": "v"}', '{"n1": "v", "n2": "v", "n3": "v"}'])
def test_a_setup_settles_on_the_nodes_that_were_booted(nodes: str) -> None:
    assert len(gaps(planned(setup=f'"agreed": true, "versions": {nodes}'))) == 1


def edited(change: Callable[[list[dict[str, object]]], None]) -> list[str]:
    """The gaps of a whole course whose events were changed."""
    records = judged(course(), READ)
    rows = records.history.to_pylist()
    change(rows)
    history = pa.Table.from_pylist(rows, schema=HISTORY)
    return [doubt.text for doubt in find_gaps(Evidence.of(Records.of(history, records.observations)))]


def test_an_event_whose_number_is_left_out_is_missed() -> None:
    assert edited(lambda rows: None) == []
    events = len(judged(course(), READ).history)
    for number in range(events - 1):
        assert any("no events" in text for text in edited(lambda rows, at=number: rows.pop(at)))


def test_times_that_go_back_are_in_doubt() -> None:
    (text,) = edited(lambda rows: rows[7].update(time=rows[6]["time"] - 1))
    assert "number 6 and number 7" in text
    assert edited(lambda rows: rows[7].update(time=rows[6]["time"])) == []


QUESTION = '"row": {"a": 1}, "consistency": "ONE"'


@pytest.mark.parametrize("answer", ['"row": {"a": 2}', '"consistency": "ALL"', '"row": null'])
def test_an_answer_of_another_question_is_in_doubt(answer: str) -> None:
    create = ["@21 p0 n1 invoke create-keyspace k", "@22 p0 n1 ok"]
    ask = f"@23 p1 n1 invoke insert k.t {{{QUESTION}}}"
    told = [*course()[:10], *create, ask, f"@24 p1 n1 ok {{{QUESTION}}}", *course()[10:]]
    assert [text for text in gaps(sorted(told, key=at)) if "answer" in text] == []
    told[13] = f"@24 p1 n1 ok {{{answer}}}"
    assert len([text for text in gaps(sorted(told, key=at)) if "differs from its question" in text]) == 1


def at(line: str) -> int:
    return int(line[1:].partition(" ")[0])
