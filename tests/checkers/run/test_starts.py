"""Starts: those that nothing explains, those that are missing, and logs of more of them than there can have been."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from histories import judged

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.run.node_log import NodeLog
from schemaquake.checkers.run.starts import find_strange_starts, starts_at_least, starts_at_most
from schemaquake.harness.model.records import Records

PLANNED = '@1 -- info run-planned {"logs": ["n1", "n2"], "restart": "rolling"}'


def phase(name: str, at: int) -> list[str]:
    note = f'-- info phase {{"phase": "{name}", "state": '
    return [f'@{at} {note}"begins"}}', f'@{at + 9} {note}"ends"}}']


PHASES = [line for at, name in ((10, "boot"), (20, "setup"), (30, "heal"), (50, "restart")) for line in phase(name, at)]


def start(node: str, at: int, name: str, *, served: bool = True) -> str:
    return f"@{at} -- {node} info node-start {json.dumps({'phase': name, 'served': served})}"


def died(node: str, at: int = 31) -> str:
    return f"@{at} -- {node} info node-died {{}}"


BOOTS = [start("n1", 11, "boot"), start("n2", 12, "boot")]
RESTARTS = [start("n1", 51, "restart"), start("n2", 52, "restart")]
CLEAN = [PLANNED, *PHASES, *BOOTS, *RESTARTS]


def strange(*lines: str) -> Sequence[str]:
    return list(find_strange_starts(Evidence.of(judged([*CLEAN, *lines]))))


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (died("n2"), start("n2", 32, "fault")),
        (died("n2"), start("n2", 32, "fault", served=False)),
        (start("n3", 25, "boot"),),  # started once the first node has the schema
        *((start("n3", at, name),) for at, name in ((10, "boot"), (29, "boot"), (50, "restart"), (59, "restart"))),
        (died("n2"), start("n2", 30, "fault")),
        (died("n2"), died("n2", 33), start("n2", 32, "fault"), start("n2", 39, "fault")),
        (start("n3", 45, "operation"),),
        (*phase("settle-settled", 40), died("n2", 40)),  # its last restart follows, or it has left
    ],
)
def test_starts_with_a_reason_are_sound(lines: Sequence[str]) -> None:
    assert strange(*lines) == []


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((start("n2", 32, "fault"),), "n2 was started again after the faults"),
        ((died("n1"), start("n2", 32, "fault")), "n2 was started again after the faults"),
        ((died("n2"),), "the process of n2 ended"),
        ((*phase("settle-settled", 40), died("n2", 39)), "the process of n2 ended"),
        ((died("n2"), died("n2", 33), start("n2", 32, "fault")), "the process of n2 ended"),
        ((died("n2"), start("n2", 32, "fault"), start("n2", 33, "fault")), "n2 was started again after the faults"),
        ((start("n3", 9, "boot"),), "is noted as one of phase boot, and was at another time"),
        ((start("n3", 30, "boot"),), "is noted as one of phase boot, and was at another time"),
        ((start("n3", 49, "restart"),), "is noted as one of phase restart, and was at another time"),
        ((start("n3", 60, "restart"),), "is noted as one of phase restart, and was at another time"),
        ((start("n3", 55, "repair"),), "a note of a start of n3 does not say in which phase it was"),
        ((died("n2"), start("n2", 22, "fault")), "is noted as one of phase fault, and was at another time"),
        ((start("n2", 13, "boot"),), "2 starts of n2 are noted in phase boot"),
        ((start("n2", 53, "restart"),), "2 starts of n2 are noted in phase restart"),
        ((start("n3", 61, "restart"),), "is noted as one of phase restart, and was at another time"),
        ((start("n3", 31, "boot"),), "is noted as one of phase boot, and was at another time"),
    ],
)
def test_a_start_without_a_reason_and_a_reason_without_a_start_are_doubts(lines: Sequence[str], said: str) -> None:
    assert any(said in text for text in strange(*lines))


def test_a_phase_that_did_not_end_has_all_later_starts() -> None:
    lines = [line for line in CLEAN if not line.startswith("@59")]
    assert not list(find_strange_starts(Evidence.of(judged([*lines, start("n3", 70, "restart")]))))
    never = [line for line in CLEAN if not line.startswith(("@50", "@59"))]
    assert len(list(find_strange_starts(Evidence.of(judged(never))))) == 2


def test_runs_of_0_1_do_not_say_why_nodes_were_started() -> None:
    lines = [line for line in CLEAN if line != PLANNED]
    assert not list(find_strange_starts(Evidence.of(judged([*lines, start("n2", 32, "fault")]))))


BACK = {"seconds": 1.5, "after": "running"}


def fault(
    nemesis: str, at: int = 40, *, node: str = "n2", healed: bool = True, state: object = BACK, lasts: int = 2
) -> list[str]:
    value = {"id": 1 + at, "nemesis": nemesis, "nodes": [node]}
    back = {"observed": True, "nodes": {node: state}}
    begin = f"@{at} -- info fault-begins {json.dumps(value)}"
    return [begin, f"@{at + lasts} -- info fault-ends {json.dumps({**value, 'effect': back})}"] if healed else [begin]


def operation(outcome: str, *attempts: dict[str, Any], at: int = 40) -> list[str]:
    value = {"operation": 0, "nodes": ["n2"], "becomes": {"n2": "normal"}}
    ended = {**value, "effect": {"attempts": list(attempts)}}
    return [f"@{at} -- invoke replace {json.dumps(value)}", f"@{at + 1} -- {outcome} replace {json.dumps(ended)}"]


def counts(*lines: str) -> tuple[int, int | None]:
    notes = Evidence.of(judged([*CLEAN, *lines])).notes
    return starts_at_least(notes, "n2"), starts_at_most(notes, ["n1", "n2"])["n2"]


STARTED = {"outcome": "ok", "command": "start replacing n2", "node": "n2"}


@pytest.mark.parametrize(
    ("lines", "least", "most"),
    [
        ((), 2, 2),
        (fault("kill"), 3, 3),
        (fault("restart"), 3, 3),
        (fault("kill", node="n1"), 2, 2),
        (fault("kill", healed=False), 2, 3),
        (fault("rolling-restart"), 2, 3),
        (fault("pause"), 2, 2),
        (fault("partition"), 2, 2),
        (fault("file-corruption"), 2, None),  # it starts servers in ways of its own
        (fault("file-corruption", node="n1"), 2, 2),
        (["@40 -- info fault-failed " + json.dumps({"id": 1, "nemesis": "kill", "nodes": ["n2"]})], 2, None),
        (operation("ok", STARTED), 2, 3),
        (operation("ok", {**STARTED, "outcome": "info"}, STARTED), 2, 4),
        (operation("ok", {**STARTED, "node": "n1"}), 2, 2),
        (operation("ok", {**STARTED, "command": "decommission"}), 2, 2),
        (operation("info", STARTED), 2, None),
        (operation("ok", {**STARTED, "node": "n1", "command": "recover-group n3"}), 2, None),
        (operation("ok", {**STARTED, "node": "n1", "command": "stop all, start all"}), 2, None),
        (
            operation("fail"),
            2,
            None,
        ),  # its node may have been taken down for it, and is started again without an attempt
        (operation("fail", STARTED), 2, None),
        ([*fault("kill", 38), *operation("ok", STARTED, at=39)], 2, 4),  # one may have left the start to the other
        ([*fault("kill", 30), *operation("ok", STARTED)], 3, 4),
        ([*fault("kill", 40), *operation("ok", STARTED, at=42)], 2, 4),
        ([*fault("kill", 40), *operation("ok", STARTED, at=43)], 3, 4),
        ([*fault("kill", 40), *operation("ok", STARTED, at=39)], 2, 4),
        ([*fault("kill", 40), *operation("ok", STARTED, at=38)], 3, 4),
        ([*fault("kill", 40), operation("ok", at=39)[0]], 2, 3),  # it never ended
        ([*fault("pause", 36, node="n1", lasts=6), *fault("kill", 40), *operation("ok", STARTED, at=37)], 3, 4),
        ([*fault("pause", 36, lasts=9), *fault("kill", 40), *operation("ok", STARTED, at=37)], 3, 4),
        ([*fault("kill", 33), *fault("kill", 40), *operation("ok", STARTED, at=37)], 4, 5),
        (fault("kill", state={**BACK, "after": "dead"}), 2, 3),
        (fault("kill", state={**BACK, "after": "stopped"}), 2, 3),
        (fault("kill", state={"after": "running"}), 2, 3),  # it does not say that it was started
        (fault("kill", state="running"), 2, 3),
        ([fault("kill")[0], fault("kill")[1].replace('"effect": {', '"effect": [], "other": {')], 2, 3),
        ([line.replace("fault-ends", "fault-failed") for line in fault("kill")], 2, None),
        ([line.replace("fault-ends", "fault-begins") for line in fault("kill")], 2, 4),
        (['@40 -- info fault-failed {"id": 1, "nemesis": "kill"}'], 2, None),
        (['@40 -- info fault-failed {"id": 1, "nemesis": "kill", "nodes": ["n1"]}'], 2, 2),
        (operation("ok", {key: STARTED[key] for key in ("outcome", "command")}), 2, 3),
        (operation("ok", {**STARTED, "node": "n1", "command": "install all the files"}), 2, None),
        (operation("ok", {**STARTED, "node": "n1", "command": "start n1, install"}), 2, 2),
        ([line.replace('"attempts": []', '"attempts": ["start n2"]') for line in operation("ok")], 2, None),
        ([line.replace('"attempts": []', '"seconds": 1') for line in operation("ok")], 2, None),
        (operation("ok")[:1], 2, 2),  # it is asked for, and did nothing yet
        ([start(node, 41, "fault") for node in ("n1", "n3")], 2, 2),
        ([start("n2", 41, "operation")], 3, 2),  # counted by its operation's attempts
        ([start("n2", 51, "restart", served=False)], 2, 3),
    ],
)
def test_starts_are_counted_by_their_reasons(lines: Sequence[str], least: int, most: int | None) -> None:
    assert counts(*lines) == (least, most)


def test_a_cluster_that_kills_servers_by_itself_may_have_started_them_any_number_of_times() -> None:
    lines = [line.replace('"logs"', '"kills": true, "logs"') for line in CLEAN]
    assert starts_at_most(Evidence.of(judged(lines)).notes, ["n1", "n2"]) == {"n1": None, "n2": None}


def logs(*boots: int) -> list[str]:
    return [f"{node} boot{boot} INFO main: x" for node, all_of in (("n1", (0, 1)), ("n2", boots)) for boot in all_of]


def doubts(lines: Sequence[str], *boots: int) -> Sequence[str]:
    records: Records = judged([*CLEAN, *lines], [], logs(*boots))
    return [doubt.text for doubt in NodeLog().check(records, limit_s=5).doubts]


def test_a_log_of_a_start_that_nothing_explains_is_a_doubt() -> None:
    assert doubts((), 0, 1) == []
    assert doubts((), 0, 1, 2) == ["n2 has a log of start 2, and no more than 2 starts of it are explained"]
    assert doubts(fault("kill"), 0, 1, 2) == []
    assert doubts(fault("kill"), 0, 1, 2, 3) == [
        "n2 has a log of start 3, and no more than 3 starts of it are explained"
    ]


def test_a_fault_that_started_a_server_again_left_a_log() -> None:
    assert doubts(fault("kill"), 0, 1) == ["n2 served after 3 starts, and logs of 2 of them were read"]
    assert doubts(fault("kill", healed=False), 0, 1) == []


@pytest.mark.parametrize(
    ("at", "is_odd"), [(10, True), (11, False), (25, False)], ids=["before", "in the moment", "afterwards"]
)
def test_a_node_acknowledges_nothing_before_it_was_started(at: int, *, is_odd: bool) -> None:
    def answered(end: str, process: str = "p1", node: str = "n1") -> Sequence[str]:
        lines = [f"@{at - 1} {process} {node} invoke add 1", f"@{at} {process} {node} {end}"]
        return [text for text in strange(*lines) if "acknowledged" in text]

    expected = ["n1 acknowledged an operation, and no start of it that served is noted before"] if is_odd else []
    assert answered("ok 1") == expected
    assert answered("fail Unavailable: nobody") == answered("info timed out") == []
    assert answered("ok 1", process="p1000000000") == [], "the harness itself"
    assert answered("ok 1", node="n9") == [], "a node of which no start is noted is missed when it is read"


def test_the_first_start_that_served_counts_and_nodes_that_join_have_none() -> None:
    early = ("@9 p1 n2 invoke add 1", "@10 p1 n2 ok 1")
    (said,) = (text for text in strange(*early, start("n2", 8, "boot", served=False)) if "acknowledged" in text)
    assert said.startswith("n2 ")
    value = '{"operation": 1, "nodes": ["n3"], "becomes": {"n3": "normal"}}'
    joined = (f"@13 -- n3 invoke bootstrap {value}", f"@14 -- n3 ok bootstrap {value}")
    assert [text for text in strange(*early, *joined) if "acknowledged" in text] == []
