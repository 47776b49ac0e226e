"""The conductor's notes: one that is missing, damaged, or contradicts another is a doubt; a whole course is none."""

from __future__ import annotations

import re
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
READ = ["@62 settled n1,n2 keyspace k", "@182 restarted n1,n2 keyspace k"]


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
    at = (62 if phase == "settled" else 182) + int(node[1:])
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


@pytest.mark.parametrize(("phase", "other"), [("settled", "restarted"), ("restarted", "settled")])
def test_a_node_that_was_not_read_excuses_the_lists_of_its_own_phase_alone(phase: str, other: str) -> None:
    for odd in (phase, other):
        lists = {name: {"w": LISTS["v"]} if name == odd else LISTS for name in (phase, other)}
        told = [listed(node, lists[phase] if node == "n1" else LISTS, phase=phase) for node in ("n1", "n2")]
        shown = [row.replace("n1,n2", "n1") if other in row else row for row in READ]
        unread = f"@183 {other} n2 error NoHostAvailable"
        found = gaps(course(), [*shown, *told, listed("n1", lists[other], phase=other), unread])
        assert [text for text in found if "lists" in text] == (
            [f"n1 lists the versions of all nodes otherwise than they showed them when {phase}"] if odd == phase else []
        )


def test_versions_of_nodes_that_differ_or_were_not_read_are_for_others_to_judge() -> None:
    apart = {"v": ["10.0.0.1"], "w": ["10.0.0.2"]}
    assert versions_of_n2(apart, own="w") == []
    rows = [listed("n1", {"v": ["10.0.0.1"], "UNREACHABLE": ["10.0.0.2"]}), "@63 settled n2 error NoHostAvailable"]
    rows += [listed(node, LISTS, phase="restarted") for node in ("n1", "n2")]
    assert [said for said in gaps(course(), [*READ[1:], "@62 settled n1 keyspace k", *rows]) if "lists" in said] == []
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
    ("gone", "said"),
    [
        ('"main", "state": "begins"', ["phase main ended and was never noted to begin"]),
        ('"main", "state": "ends"', []),
        ('"main"', ["there is no note of phase main"]),
        ('"boot", "state": "begins"', ["phase boot ended and was never noted to begin"]),
    ],
)
def test_a_phase_that_was_not_noted_is_named(gone: str, said: list[str]) -> None:
    assert gaps([line for line in course() if gone not in line]) == said


@pytest.mark.parametrize("state", ['"x"', '"a"', "null"])
def test_a_note_of_a_phase_without_its_state_is_counted_as_neither(state: str) -> None:
    for told in ("begins", "ends"):
        lines = [line.replace(f'"main", "state": "{told}"', f'"main", "state": {state}') for line in course()]
        damaged = "a note of a phase does not say which phase it is of, or whether it begins or ends"
        assert gaps(lines)[0] == damaged
        assert gaps(lines)[1:] == ([] if told == "ends" else ["phase main ended and was never noted to begin"])


def test_after_a_restart_from_which_nodes_came_back_they_are_read_again() -> None:
    lines = [*course(restarted=False), *phase("restart", 160, start("n1", 161, "restart"))]
    assert gaps(lines, READ[:1]) == [
        "there is no note of phase settle-restarted",
        "there is no note of phase final-restarted",
    ]


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


def both(phase: str, versions: Any, own: str = "v") -> list[str]:
    return [listed(node, versions, phase=phase, own=own) for node in ("n1", "n2")]


@pytest.mark.parametrize(("phase", "other"), [("settled", "restarted"), ("restarted", "settled")])
def test_lists_that_all_nodes_lack_or_change_alike_are_doubts(phase: str, other: str) -> None:
    noted = {
        name: {"state": "normal", "address": f"10.0.0.{name[1]}", "host_id": None, "spare": False, "expected": "normal"}
        for name in ("n1", "n2")
    }
    members = f'@7 -- info membership {{"moment": "boot", "members": {orjson.dumps(noted).decode()}}}'

    def said(versions: Any, *notes: str) -> list[str]:
        found = gaps([*course()[:3], *notes, *course()[3:]], [*READ, *both(phase, versions), *both(other, LISTS)])
        return [text for text in found if "lists" in text]

    assert said(LISTS) == said(LISTS, members) == []
    assert len(said(None)) == 2
    strangers = {"v": ["10.0.0.1", "10.0.0.9"]}
    assert said(strangers) == [], "an address that nobody has noted"
    assert len(said(strangers, members)) == 2


@pytest.mark.parametrize("phase", ["settled", "restarted"])
def test_a_version_that_all_nodes_show_after_they_settled_at_another_one_is_a_gap(phase: str) -> None:
    other = "restarted" if phase == "settled" else "settled"
    read = [*READ, *both(phase, None, "w"), *both(other, None)]
    (said,) = gaps(course(), read)
    assert said.startswith("the nodes settled at one version and showed another one")
    assert said.endswith(phase)
    assert gaps(course(), [*READ, *both(phase, None), *both(other, None)]) == []
    apart = [listed("n1", None, phase=phase, own="w"), listed("n2", None, phase=phase)]
    assert gaps(course(), [*READ, *apart, *both(other, None)]) == [], "who differs is judged elsewhere"
    late = ["@30 p7 n1 invoke create-table k.late {}", "@40 p7 n1 info timed out"]
    found = gaps([*course(), *late], read)
    assert [text for text in found if "settled at one version" in text] == [], "it may have taken effect since"


def test_a_node_that_could_not_be_read_has_a_version_or_none() -> None:
    read = ["@62 settled n1 keyspace k", '@63 settled n2 error="Timeout" version', "@182 restarted n1,n2 keyspace k"]
    assert gaps(course(), read) == []


@pytest.mark.parametrize(("phase", "other"), [("settled", "restarted"), ("restarted", "settled")])
def test_a_node_that_could_not_be_read_at_all_may_have_a_version(phase: str, other: str) -> None:
    time = 62 if phase == "settled" else 182
    read = [next(row for row in READ if other in row), f"@{time} {phase} n1 keyspace k"]
    assert gaps(course(), [*read, f"@{time + 1} {phase} n2 error NoHostAvailable"]) == []
    lines = [
        line.replace(f'"phase": "{phase}", {AGREED}', f'"phase": "{phase}", "agreed": true, "versions": {{"n1": "v"}}')
        for line in course()
    ]
    (said,) = gaps(lines)
    assert said.startswith(f"the versions noted when phase {phase} settled")
    assert said.endswith(": n2 differ")
    (said,) = gaps(
        [
            line.replace(f'"phase": "{phase}", {AGREED[:-1]}', f'"phase": "{phase}", {AGREED[:-1]}, "n3": "v"')
            for line in course()
        ]
    )
    assert said.endswith(": n3 differ")


def test_a_node_may_be_read_in_the_moment_in_which_it_is_known_to_serve() -> None:
    lines = [line.replace("@3 -- n2", "@62 -- n2") for line in course()]
    assert lines != course()
    assert gaps(sorted(lines, key=at)) == []
    late = sorted((line.replace("@62 -- n2", "@63 -- n2") for line in lines), key=at)
    assert gaps(late) == ["n2 was read, and no start of it that served is noted before"]


@pytest.mark.parametrize("more", [0, 1])
def test_a_node_that_was_never_started_is_missed_whenever_it_was_read(more: int) -> None:
    lines = [line for line in course() if " -- n2 " not in line]
    records = judged(lines, READ)
    rows = [{**row, "time": row["time"] + more} for row in records.observations.to_pylist()]
    observations = pa.Table.from_pylist(rows, schema=records.observations.schema)
    found = [doubt.text for doubt in find_gaps(Evidence.of(Records.of(records.history, observations)))]
    assert "n2 was read, and no start of it that served is noted before" in found


def test_what_follows_a_restart_is_all_there_or_nothing() -> None:
    dead = [start(node, 161, "restart").replace("true", "false") for node in ("n1", "n2")]
    lines = [*course(restarted=False), *phase("restart", 160, *dead), *phase("settle-restarted", 170)]
    assert gaps(lines, READ[:1]) == ["there is no note of phase final-restarted"]


def test_a_settling_of_no_phase_of_a_run_is_a_gap() -> None:
    assert gaps([*course(), settle("x", 172)]) == ["a note of settling names no phase of a run, but x"]


def test_nothing_follows_a_restart_after_which_no_node_serves() -> None:
    dead = [start(node, 161, "restart").replace("true", "false") for node in ("n1", "n2")]
    assert gaps([*course(restarted=False), *phase("restart", 160, *dead)], READ[:1]) == []


def test_a_keyspace_that_no_operation_created_is_older_than_the_run() -> None:
    changed = ["@31 p0 n1 invoke create-table k.t a:int*", "@32 p0 n1 ok"]
    asked = "@11 p9 n1 invoke create-keyspace k"
    for answer in ("@12 p9 n1 ok", "@12 p9 n1 info timed out"):
        assert gaps([*course(), asked, answer, *changed]) == []
    for before in ([], [asked, "@12 p9 n1 fail AlreadyExists: k"]):
        assert gaps([*course(), *before, *changed]) == ["keyspace k was changed, and no operation can have created it"]
    text = ['@11 p9 n1 invoke cql k {"statement": "CREATE KEYSPACE k"}', "@12 p9 n1 ok"]
    assert gaps([*course(), *text, *changed]) == []


def test_a_keyspace_that_appears_while_nobody_asks_for_it_is_a_gap() -> None:
    def shown(phase: str, *keyspaces: str) -> list[str]:
        return [f"@{62 if phase == 'settled' else 5} {phase} n1 keyspace {name}" for name in keyspaces]

    found = ["keyspace ghost is in a final reading and in none before, and no operation concerns it"]
    asked = ["@11 p9 n1 invoke create-keyspace ghost"]
    final = shown("settled", "k", "ghost")
    assert gaps(course(), shown("running", "k") + final) == found
    assert gaps(course(), shown("running", "k", "ghost") + final) == []  # older than the run
    assert gaps(course(), final) == []  # nothing was read before
    for answer in ("ok", "info timed out", "fail AlreadyExists: ghost"):  # other checkers judge what was asked for
        assert gaps([*course(), *asked, f"@12 p9 n1 {answer}"], shown("running", "k") + final) == []
    text = ['@11 p9 n1 invoke cql ghost {"statement": "CREATE KEYSPACE ghost"}', "@12 p9 n1 ok"]
    assert gaps([*course(), *text], shown("running", "k") + final) == []


def test_a_keyspace_that_was_perhaps_made_and_never_changed_is_no_gap() -> None:
    assert gaps([*course(), "@11 p9 n1 invoke create-keyspace l", "@12 p9 n1 info timed out"]) == []


def test_a_phase_that_began_twice_is_a_gap() -> None:
    assert gaps([*course(), *phase("main", 300)]) == [
        "phase main began 2 times",
        "the notes of phases final-restarted and main are not in the order of a run",
    ]


def test_a_node_that_joined_was_started_as_no_other() -> None:
    attempt = '{"outcome": "ok", "command": "join", "node": "n3", "seconds": 0, "answer": "", "timed_out": false}'
    joined = [
        '@45 -- n3 invoke bootstrap {"operation": 1, "becomes": {"n3": "normal"}}',
        f'@46 -- n3 ok bootstrap {{"operation": 1, "becomes": {{"n3": "normal"}}, "effect": {{"attempts": [{attempt}]}}}}',
    ]
    lines = course(shown='"agreed": true, "versions": {"n1": "v", "n2": "v", "n3": "v"}')
    read = ["@62 settled n1,n2,n3 keyspace k", READ[1]]
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


@pytest.mark.parametrize("restarted", [True, False])
def test_of_the_nodes_that_served_at_first_each_keeps_a_log(restarted: bool) -> None:
    plan, read = (PLAN if restarted else PLAN.replace("rolling", "none")), READ if restarted else READ[:1]
    others = [start("n3", 46, "operation"), start("n3", 4, "boot").replace("true", "false")]
    for other in others:
        assert gaps(sorted([*planned(plan, restarted=restarted), other], key=at), read) == []
    for lacking in ("n1", "n2"):
        logs = plan.replace('["n1", "n2"]', str([node for node in ("n1", "n2") if node != lacking]).replace("'", '"'))
        assert gaps(planned(logs, restarted=restarted), read) == [
            f"the note of the plan lists logs of some nodes, and none of {lacking}"
        ]


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
    "rest",
    [
        '"count": 1, "ids": []',
        '"count": 0, "ids": [0]',
        '"count": 0',
        '"count": 2, "ids": [1, 1]',
        '"count": 1, "ids": [1, 1]',
    ],
)
def test_planned_faults_are_as_many_as_are_named(rest: str) -> None:
    lines = [f"@31 -- info faults-planned {{{rest}}}" if line == FAULTS else line for line in planned()]
    assert len(gaps(lines)) == 1
    named = [line.replace('"count": 0, "ids": []', '"count": 2, "ids": [3, 4]') for line in planned()]
    assert gaps(named) == []
    begun = '@45 -- info fault-begins {"id": 3, "nemesis": "kill", "nodes": ["n1"]}'
    assert gaps(sorted([*named, begun], key=at)) == []


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


@pytest.mark.parametrize("number", [4, 5])
def test_the_first_gap_between_numbers_is_named(number: int) -> None:
    def leave_out(rows: list[dict[str, object]]) -> None:
        del rows[20]
        del rows[number]

    assert edited(leave_out)[0] == f"there are no events between number {number - 1} and number {number + 1}"


def test_times_that_go_back_are_in_doubt() -> None:
    (text,) = edited(lambda rows: rows[7].update(time=rows[6]["time"] - 1))
    assert "number 6 and number 7" in text
    assert edited(lambda rows: rows[7].update(time=rows[6]["time"])) == []


def test_an_operation_that_asked_nothing_is_answered_with_nothing() -> None:
    for answer in ("ok", 'ok {"rows": []}'):
        assert gaps(sorted([*course(), "@23 p1 n1 invoke truncate", f"@24 p1 n1 {answer}"], key=at)) == []


QUESTION = '"row": {"a": 1}, "consistency": "ONE"'


@pytest.mark.parametrize("answer", ['"row": {"a": 2}', '"consistency": "ALL"', '"row": null'])
def test_an_answer_of_another_question_is_in_doubt(answer: str) -> None:
    create = ["@21 p0 n1 invoke create-keyspace k", "@22 p0 n1 ok"]
    ask = f"@23 p1 n1 invoke insert k.t {{{QUESTION}}}"
    told = [*course()[:10], *create, ask, f"@24 p1 n1 ok {{{QUESTION}}}", *course()[10:]]
    assert [text for text in gaps(sorted(told, key=at)) if "answer" in text] == []
    told[13] = f"@24 p1 n1 ok {{{answer}}}"
    assert len([text for text in gaps(sorted(told, key=at)) if "differs from its question" in text]) == 1


@pytest.mark.parametrize("f", ["check-rows", "write-rows", "delete-rows", "delete-partition"])
def test_an_answer_of_other_partitions_is_in_doubt(f: str) -> None:
    create = ["@21 p0 n1 invoke create-keyspace k", "@22 p0 n1 ok"]
    asked = '"first": 0, "count": 2, "consistency": "QUORUM"'
    for answer, is_strange in (
        (asked + ', "rows": 8', False),
        (asked.replace("2", "3"), True),
        (asked.replace('"first": 0', '"first": 1'), True),
        (asked.replace("QUORUM", "ONE"), True),
    ):
        told = [
            *course()[:10],
            *create,
            f"@23 p1 n1 invoke {f} k.d {{{asked}}}",
            f"@24 p1 n1 ok {{{answer}}}",
            *course()[10:],
        ]
        found = [text for text in gaps(sorted(told, key=at)) if "question" in text]
        assert bool(found) is is_strange, found


def conditional(number: int, answer: str, *, guard: str = "if_not_exists") -> list[str]:
    asked = f'{{"{guard}": true}}'
    change = "create-type k.u a:int" if guard == "if_not_exists" else "drop-type k.u"
    return [f"@{number} p{number} n1 invoke {change} {asked}", f"@{number} p{number} n1 {answer}"]


@pytest.mark.parametrize(
    ("answers", "is_strange"),
    [
        (['ok {"applied": true}', 'ok {"applied": false}'], False),
        (['ok {"applied": true}', "ok"], True),
        (["ok", 'ok {"applied": false}'], True),
        (['ok {"applied": true}', 'ok {"applied": null}'], True),
        (["ok", "ok"], False),
        (['ok {"applied": true}', "info Timeout"], False),
        (['ok {"applied": true}', "fail InvalidRequest: no"], False),
    ],
)
@pytest.mark.parametrize("guard", ["if_exists", "if_not_exists"])
def test_either_all_changes_that_may_be_no_ops_say_whether_they_were_or_none(
    answers: list[str], guard: str, *, is_strange: bool
) -> None:
    create = ["@21 p0 n1 invoke create-keyspace k", "@22 p0 n1 ok"]
    asked = [line for number, answer in enumerate(answers) for line in conditional(23 + number, answer, guard=guard)]
    said = gaps(sorted([*course()[:10], *create, *asked, *course()[10:]], key=at))
    assert [("without whether" in text) for text in said] == [True] * is_strange


@pytest.mark.parametrize(
    ("answer", "is_strange"),
    [
        ('ok {"applied": true}', True),
        ('ok {"applied": false}', True),
        ('ok {"applied": null}', False),
        ("ok", False),
        ('fail InvalidRequest: {"applied": true}', False),
    ],
)
def test_an_answer_says_whether_anything_changed_only_where_that_was_asked(answer: str, *, is_strange: bool) -> None:
    create = ["@21 p0 n1 invoke create-keyspace k", "@22 p0 n1 ok"]
    asked = ['@23 p1 n1 invoke create-type k.u a:int {"if_not_exists": false}', f"@24 p1 n1 {answer}"]
    guarded = conditional(25, 'ok {"applied": true}', guard="if_exists")
    said = gaps(sorted([*course()[:10], *create, *asked, *guarded, *course()[10:]], key=at))
    assert [text for text in said if "without" in text] == [
        "the answer of op 9 says whether it changed anything, and it was asked without IF [NOT] EXISTS"
    ] * is_strange


def at(line: str) -> int:
    return int(line[1:].partition(" ")[0])


@pytest.mark.parametrize(
    ("asked", "names_another"),
    [
        ('insert k.t {"row": {"k": 1}}', False),
        ('insert k.t {"table": "u", "row": {"k": 1}}', True),
        ('insert k.t {"keyspace": "l", "row": {"k": 1}}', True),
        ("drop-table k.t", False),
        ('drop-table k.t {"keyspace": "l"}', True),
        ('drop-table k.t {"name": "u"}', True),
        ("add-column k.t b:int", False),
        ('add-column k.t b:int {"keyspace": "l"}', True),
        ('alter-options k.t {"keyspace": "k", "name": "u", "options": {}}', True),
        ("drop-keyspace k", False),
        ('cql k {"statement": "DROP KEYSPACE l"}', False),
    ],
)
@pytest.mark.parametrize("answer", ["ok", "fail InvalidRequest: no", "info timed out"])
def test_a_question_is_about_the_object_of_its_key(asked: str, answer: str, *, names_another: bool) -> None:
    lines = [f"@11 p9 n1 invoke {asked}", f"@12 p9 n1 {answer}"]
    assert any("names another object" in text for text in gaps([*course(), *lines])) is names_another


@pytest.mark.parametrize(
    ("readings", "phase"),
    [
        (["@49 settled n2 keyspace k", "@62 settled n1 keyspace k", READ[1]], "settled"),
        (["@170 settled n2 keyspace k", "@62 settled n1 keyspace k", READ[1]], "settled"),
        ([READ[0], "@169 restarted n2 keyspace k", "@182 restarted n1 keyspace k"], "restarted"),
        ([READ[0], "@186 restarted n2 keyspace k", "@182 restarted n1 keyspace k"], "restarted"),
        (["@66 settled n2 keyspace k", "@62 settled n1 keyspace k", READ[1]], "settled"),
    ],
)
def test_a_final_reading_from_another_time_is_a_gap(readings: Sequence[str], phase: str) -> None:
    assert gaps(course(), readings) == [f"a reading of phase {phase} is from another time"]


def test_a_final_reading_from_when_its_phase_settles_on_is_none() -> None:
    for shift in (0, 1):
        readings = [f"@{50 + shift} settled n1,n2 keyspace k", f"@{170 + shift} restarted n1,n2 keyspace k"]
        assert gaps(course(), readings) == []


@pytest.mark.parametrize(
    ("process", "time", "said"),
    [
        ("p5", 2, ["op 1 was asked between the beginnings of phases boot and setup"]),
        ("p5", 11, []),
        ("p5", 39, []),
        ("p5", 41, ["op 14 was asked between the beginnings of phases heal and final-settled"]),
        ("p5", 52, ["op 20 was asked between the beginnings of phases heal and final-settled"]),
        ("p1000000000", 52, []),  # the harness heals
        ("p5", 62, []),
        ("p5", 163, ["op 30 was asked between the beginnings of phases restart and final-restarted"]),
        ("p5", 182, []),
    ],
)
def test_what_clients_ask_for_while_the_cluster_settles_is_a_gap(process: str, time: int, said: Sequence[str]) -> None:
    history = [*course(), f"@{time} {process} n1 invoke add 5", f"@{time} {process} n1 ok 5"]
    found = [text for text in gaps(sorted(history, key=at)) if "times of events" not in text]
    assert [re.sub(r"op \d+", "op", text) for text in found] == [re.sub(r"op \d+", "op", text) for text in said]


def asked_between(history: Sequence[str]) -> list[str]:
    return [re.sub(r"op \d+", "op", text) for text in gaps(sorted(history, key=at)) if "was asked between" in text]


def test_of_several_questions_in_one_stretch_the_first_is_named() -> None:
    early, late = ([f"@{ms} p{ms} n1 invoke add 5", f"@{ms} p{ms} n1 ok 5"] for ms in (41, 52))
    (said,) = [text for text in gaps(sorted([*course(), *early, *late], key=at)) if "was asked between" in text]
    assert said == "op 11 was asked between the beginnings of phases heal and final-settled"


@pytest.mark.parametrize(
    ("time", "said"),
    [
        (41, []),
        (50, []),
        (52, ["op was asked between the beginnings of phases settle-settled and final-settled"]),
        (60, []),
    ],
)
def test_without_a_note_of_the_healing_clients_ask_nothing_while_nodes_settle(time: int, said: Sequence[str]) -> None:
    unhealed = [line for line in course() if '"heal"' not in line]
    assert asked_between([*unhealed, f"@{time} p5 n1 invoke add 5", f"@{time} p5 n1 ok 5"]) == said


def test_after_a_restart_that_was_broken_off_clients_ask_nothing_more() -> None:
    broken = [
        line for line in course() if not any(name in line for name in ('"settle-restarted"', '"final-restarted"'))
    ]
    assert asked_between([*broken, "@250 p5 n1 invoke add 5", "@250 p5 n1 ok 5"]) == [
        "op was asked between the beginnings of phases restart and final-restarted"
    ]


def test_a_change_of_the_schema_after_the_cluster_had_settled_is_a_gap() -> None:
    made = ["@11 p9 n1 invoke create-keyspace k", "@12 p9 n1 ok"]
    assert gaps([*course(), *made]) == []
    at_once = [*course(), *made, "@60 p8 n1 invoke create-table k.t a:int*", "@61 p8 n1 ok"]
    assert not any("after the cluster had settled" in text for text in gaps(sorted(at_once, key=at)))
    (said,) = gaps([*course(), *made, "@62 p8 n1 invoke create-table k.t a:int*", "@63 p8 n1 ok"])
    assert said.endswith("was to change the schema after the cluster had settled")


@pytest.mark.parametrize("phase", ["settled", "restarted"])
def test_a_final_reading_at_the_end_of_its_phase_is_none(phase: str) -> None:
    last = {"settled": "@65 settled n2 keyspace k", "restarted": "@185 restarted n2 keyspace k"}
    assert gaps(course(), [*READ, last[phase]]) == []


@pytest.mark.parametrize(("time", "is_odd"), [(0, True), (1, False), (100, False), (185, False), (186, True)])
def test_a_reading_during_the_run_is_from_between_its_begin_and_its_end(time: int, *, is_odd: bool) -> None:
    found = gaps(course(), [*READ, f"@{time} running n1 keyspace k"])
    assert found == (["a reading during the run is from another time"] if is_odd else [])
    endless = [line for line in course() if not ('"final-restarted"' in line and '"ends"' in line)]
    late = [*READ, f"@{time} running n1 keyspace k"]
    assert bool(gaps(endless, late)) is (time == 0), "a run that was broken off has no end"


@pytest.mark.parametrize(("time", "is_odd"), [(4, True), (5, False)])
def test_no_node_is_read_before_the_members_are_noted_for_the_boot(time: int, *, is_odd: bool) -> None:
    noted = '@5 -- info membership {"at": "boot", "members": {}}'
    text = "a reading during the run is from another time"
    assert (text in gaps(sorted([*course(), noted], key=at), [*READ, f"@{time} running n1 keyspace k"])) is is_odd
    assert text not in gaps(course(), [*READ, f"@{time} running n1 keyspace k"])


@pytest.mark.parametrize(
    ("note", "times", "odd_times", "said"),
    [
        ("settle setup", (10, 15), (9, 16), "phase setup settled is from another time"),
        ("settle settled", (50, 55), (49, 56, 62), "phase settled settled is from another time"),
        ("settle restarted", (170, 175), (169, 176, 51), "phase restarted settled is from another time"),
        ("members heal", (40, 45), (39, 46), "noted for phase heal, and were at another time"),
        ("members restart", (160, 165), (159, 166), "noted for phase restart, and were at another time"),
        ("members boot", (1, 12, 20), (21,), "noted for the boot, and were after the setup"),
        ("members operation", (1, 66, 186), (), ""),
        ("faults-planned", (30, 35), (29, 36), "planned faults are noted at another time"),
    ],
)
def test_a_note_of_a_phase_is_from_that_phase(
    note: str, times: Sequence[int], odd_times: Sequence[int], said: str
) -> None:
    kind, _, name = note.partition(" ")
    f, value = {
        "settle": ("settle", f'{{"phase": "{name}", {AGREED}}}'),
        "members": ("membership", f'{{"at": "{name}", "members": {{}}}}'),
        "faults-planned": ("faults-planned", '{"count": 0, "ids": []}'),
    }[kind]
    for time in (*times, *odd_times):
        found = gaps(sorted([*course(), f"@{time} -- info {f} {value}"], key=at))
        about = [text for text in found if "another time" in text or "after the setup" in text]
        assert len(about) == (1 if time in odd_times else 0)
        assert all(said in text for text in about)


def test_a_note_of_the_members_that_does_not_say_when_it_is_of_is_not_taken_for_that_of_the_boot() -> None:
    note = '@21 -- info membership {"members": {}}'
    assert not any("noted for the boot" in text for text in gaps(sorted([*course(), note], key=at)))


@pytest.mark.parametrize(("time", "is_odd"), [(0, False), (7, False), (10, False), (11, True), (63, True)])
def test_a_plan_is_noted_before_the_run_begins(time: int, *, is_odd: bool) -> None:
    plan = f'@{time} -- info run-planned {{"restart": "rolling", "logs": [], "pull_delay_s": 0}}'
    found = gaps(sorted([*course(), plan], key=at))
    assert ("the plan is noted after the run had begun" in found) is is_odd


@pytest.mark.parametrize(
    ("moved", "to", "said"),
    [
        ('"settle-settled", "state": "begins"', 63, "final-settled and settle-settled"),
        ('"main", "state": "ends"', 42, "heal and main"),
        ('"restart", "state": "begins"', 61, "restart and final-settled"),
    ],
)
def test_phases_are_noted_in_the_order_of_a_run(moved: str, to: int, said: str) -> None:
    lines = [re.sub(r"@\d+", f"@{to}", line) if moved in line else line for line in course()]
    assert any(f"phases {said} are not in the order" in text for text in gaps(sorted(lines, key=at)))


def test_a_phase_of_another_name_may_be_anywhere() -> None:
    assert gaps(sorted([*course(), *phase("rest", 31)], key=at)) == []
