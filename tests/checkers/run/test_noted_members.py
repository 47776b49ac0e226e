"""Notes of the members, and of operations on them, that contradict one another; and what a changing ring may note."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import orjson
import pyarrow as pa
import pytest
from histories import judged

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.run.noted_members import find_strange_members, find_strange_operations
from schemaquake.harness.model.records import HISTORY, OBSERVATIONS, Records
from schemaquake.harness.model.traits import nemesis_traits
from schemaquake.harness.registry import load_all

Members = dict[str, dict[str, Any]]


def members(**states: tuple[str, str]) -> Members:
    """Members as one note has them: the state that the cluster shows, and the expected one."""
    return {
        node: {
            "state": state,
            "address": f"10.0.0.{node[1]}",
            "host_id": f"id-{node}",
            "spare": node == "n3",
            "expected": due,
        }
        for node, (state, due) in states.items()
    }


NORMAL, ABSENT = ("normal", "normal"), ("absent", "absent")
THREE = members(n1=NORMAL, n2=NORMAL, n3=ABSENT)
JOINED = members(n1=NORMAL, n2=NORMAL, n3=NORMAL)
ATTEMPT = {"outcome": "ok", "command": "join", "node": "n3", "seconds": 2.0, "answer": "", "timed_out": False}
PHASES = [
    f'@{at} -- info phase {{"phase": "{name}", "state": "{state}"}}'
    for at, name, state in ((50_000, "final-settled", "begins"), (70_000, "final-restarted", "begins"))
]
PLAN = '@2 -- info run-planned {"restart": "rolling", "logs": [], "pull_delay_s": 0}'


def note(at: int, moment: str, noted: Any) -> str:
    return f"@{at} -- info membership {orjson.dumps({'at': moment, 'members': noted}).decode()}"


def notes(*, after: Members = THREE) -> list[str]:
    return [note(1, "boot", THREE), note(40_000, "heal", after), note(60_000, "restart", after)]


def operation(outcome: str = "ok", *, effect: Any = None, ended_at: int = 15_000, **end: Any) -> list[str]:
    value = {"operation": 1, "nodes": ["n3"], "parameters": {"limit_s": 60}, "becomes": {"n3": "normal"}}
    effect = {"attempts": [ATTEMPT], "seconds": 2.0} if effect is None else effect
    ended = orjson.dumps({**value, "effect": effect, **end}).decode()
    return [
        f"@10000 -- n3 invoke bootstrap {orjson.dumps(value).decode()}",
        f"@{ended_at} -- n3 {outcome} bootstrap {ended}",
        note(16_000, "operation", JOINED if outcome == "ok" else THREE),
    ]


def strange(
    *lines: str,
    ring: dict[str, str | None] | None = None,
    error: str | None = "Refused",
    plan: str = PLAN,
    phases: list[str] = PHASES,
    directory: dict[str, Any] | None = None,
) -> list[str]:
    """What is strange in these notes; `error` is that of operations that were not acknowledged.

    `ring` has the host id that a node gives itself at 55 s; None: it says nothing of itself. `directory` is that of each of them.
    """
    records = judged([*([plan] if plan else []), *phases, *lines])
    rows = [
        {
            **dict.fromkeys(OBSERVATIONS.names),
            "time": 55_000_000_000,
            "phase": "settled",
            "node": node,
            "sample": 1,
            "kind": "ring",
            "definition": orjson.dumps(
                {"peers": {}, "directory": directory}
                | ({} if told is None else {"self": {"address": "", "host_id": told, "tokens": []}})
            ).decode(),
        }
        for node, told in (ring or {}).items()
    ]
    observations = pa.Table.from_pylist(rows, schema=OBSERVATIONS)
    events = [
        event | {"error": error if event["process"] == -1 and event["type"] in {"fail", "info"} else event["error"]}
        for event in records.history.to_pylist()
    ]
    history = pa.Table.from_pylist(events, schema=HISTORY)
    evidence = Evidence.of(Records.of(history, observations))
    return [*find_strange_members(evidence), *find_strange_operations(evidence)]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(notes(), id="nothing changes"),
        pytest.param([*notes(after=JOINED), *operation()], id="a node joins"),
        pytest.param([*notes(), *operation("fail", effect={"attempts": []})], id="a join is refused"),
        pytest.param(
            [
                *notes(after=members(n1=NORMAL, n2=NORMAL, n3=("joining", "joining"))),
                *operation("info"),
            ],
            id="a join of unknown outcome",
        ),
        pytest.param(
            [
                *notes(after=members(n1=NORMAL, n2=NORMAL, n3=("joining", "joining"))),
                *operation("info", effect={"attempts": [ATTEMPT | {"outcome": "info", "timed_out": True}]}),
            ],
            id="a join that nobody saw end",
        ),
        *(
            pytest.param(
                [
                    *notes(),
                    *operation("fail", effect={"attempts": [ATTEMPT | {"outcome": one} for one in ("info", last)]}),
                ],
                id=f"a join that was tried again, and {what}",
            )
            for last, what in (("fail", "refused"), ("ok", "taken back"))
        ),
        pytest.param(
            [note(1, "boot", members(n1=NORMAL, n2=("absent", "normal"), n3=ABSENT)), *notes()[1:]],
            id="not every node lists every other one just after the boot",
        ),
    ],
)
def test_what_a_ring_may_note_is_not_strange(lines: list[str]) -> None:
    assert strange(*lines) == []


def test_two_nodes_of_one_host_id_are_strange_unless_one_takes_the_place_of_the_other() -> None:
    left = members(n1=NORMAL, n2=("left", "left"), n3=NORMAL)
    left["n3"]["host_id"] = "id-n2"
    lines = [note(1, "boot", THREE), note(40_000, "heal", left), note(60_000, "restart", left)]
    shared = "the notes of the members give n2 and n3 one host id, id-n2"
    assert shared in strange(*lines, *operation())
    for became, found in (({"n2": "replaced", "n3": "normal"}, False), ({"n1": "normal", "n3": "normal"}, True)):
        texts = strange(
            *lines, *(line.replace('{"n3":"normal"}', orjson.dumps(became).decode()) for line in operation())
        )
        assert (shared in texts) is found
    unnamed = deepcopy(THREE)
    for member in unnamed.values():
        member["host_id"] = None
    assert (
        strange(*(note(at, moment, unnamed) for at, moment in ((1, "boot"), (40_000, "heal"), (60_000, "restart"))))
        == []
    )


def test_a_host_id_that_was_not_known_is_learnt() -> None:
    unknown = deepcopy(THREE)
    unknown["n1"]["host_id"] = None
    assert strange(note(1, "boot", unknown), *notes()[1:], ring={"n1": "id-n1"}) == []


def test_the_host_id_of_a_node_that_joined_is_its_new_one() -> None:
    after = deepcopy(JOINED)
    after["n3"]["host_id"] = "another"
    assert strange(*notes(after=after), *operation(), ring={"n3": "another"}) == []


def damaged() -> Iterator[Any]:
    for field, other in (
        ("address", "10.0.0.9"),
        ("address", "1.0.0.1"),
        ("host_id", "other"),
        ("spare", True),
        ("expected", "leaving"),
        ("expected", "x"),
        ("state", "x"),
    ):
        changed = deepcopy(THREE)
        changed["n1"][field] = other
        yield pytest.param([*notes()[:2], note(60_000, "restart", changed)], id=f"{field} is {other}")
    for field in THREE["n1"]:
        changed = deepcopy(THREE)
        del changed["n1"][field]
        yield pytest.param([*notes()[:2], note(60_000, "restart", changed)], id=f"no {field}")
    spare = deepcopy(THREE)
    spare["n3"]["spare"] = False
    yield pytest.param([*notes()[:2], note(60_000, "restart", spare)], id="no spare any more")
    more = deepcopy(THREE)
    more["n1"]["more"] = 1
    yield pytest.param([*notes()[:2], note(60_000, "restart", more)], id="a field that there is not")
    less = {node: member for node, member in THREE.items() if node != "n2"}
    yield pytest.param([*notes()[:2], note(60_000, "restart", less)], id="a node less")
    for none in ({}, ["n1"], None):
        yield pytest.param([*notes()[:2], note(60_000, "restart", none)], id=f"no members but {none}")
    for number, moment in enumerate(("boot", "heal", "restart")):
        yield pytest.param([line for at, line in enumerate(notes()) if at != number], id=f"no note of {moment}")
        yield pytest.param([*notes(), note(65_000, moment, THREE)], id=f"two notes of {moment}")
    yield pytest.param([*notes()[:1], note(2, "boot", THREE), *notes()[1:]], id="two notes of boot at once")
    yield pytest.param([*notes(), note(65_000, "lunch", THREE)], id="a note of another moment")


def test_members_are_noted_whenever_a_node_has_ended_by_itself() -> None:
    assert strange(*notes(), *(note(at, "death", THREE) for at in (52_000, 56_000, 72_000))) == []


@pytest.mark.parametrize("lines", list(damaged()))
def test_a_note_of_members_that_contradicts_another_one_is_strange(lines: list[str]) -> None:
    assert len(strange(*lines)) == 1


@pytest.mark.parametrize("none", [{}, ["n1"], None])
def test_a_note_without_members_is_named(none: Any) -> None:
    (said,) = strange(*notes()[:2], note(60_000, "restart", none))
    assert said.endswith("names none")


def test_a_member_of_which_nothing_is_said_is_named() -> None:
    (said,) = strange(*notes()[:2], note(60_000, "restart", THREE | {"n1": None}))
    assert "does not say of n1" in said


def test_notes_of_different_nodes_are_named_and_those_behind_them_are_read() -> None:
    more = THREE | members(n4=ABSENT)
    changed = deepcopy(THREE)
    changed["n1"]["address"] = "10.0.0.9"
    first, second = strange(*notes()[:1], note(40_000, "heal", more), note(60_000, "restart", changed))
    assert first == "the notes of the members name different nodes: n4 not in each"
    assert second.startswith("the notes of the members differ on n1")


@pytest.mark.parametrize("reached", range(3))
def test_a_run_that_broke_off_has_the_notes_of_the_phases_that_it_came_to(reached: int) -> None:
    assert strange(*notes()[: reached + 1], phases=PHASES[:reached]) == []
    assert strange(*notes()[: reached + 1], phases=PHASES[: max(0, reached - 1)]) == [], "broken off before the phase"
    if reached:
        assert len(strange(*notes()[:reached], phases=PHASES[:reached])) == 1


def test_an_operation_without_an_end_has_no_note_of_the_members_behind_it() -> None:
    joining = members(n1=NORMAL, n2=NORMAL, n3=("joining", "joining"))
    assert strange(*notes(after=joining), *operation()[:1]) == []
    lines = [*notes(after=joining), *operation()[:1], note(16_000, "operation", joining)]
    assert strange(*lines) == [
        "0 operations on the topology ended, and the members are noted 1 times behind one",
    ]


def test_while_an_operation_goes_on_a_node_is_what_is_shown_and_a_refused_one_changes_nothing() -> None:
    """Commits were paused while a node joined, so that members were noted in between."""
    paused = {"operation": 2, "nodes": [], "parameters": {}, "becomes": {}}
    ends = paused | {"effect": {"attempts": [ATTEMPT | {"seconds": 0.5}]}}
    pause = [
        f"@{11_000 + 1000 * number} -- {kind} pause-commits {orjson.dumps(value).decode()}"
        for number, (kind, value) in enumerate((("invoke", paused), ("ok", ends)))
    ]
    for shown, due, is_strange in (
        ("joining", "joining", False),
        ("normal", "normal", False),
        ("absent", "absent", False),
        ("joining", "absent", True),
        ("absent", "normal", True),
    ):
        between = members(n1=NORMAL, n2=NORMAL, n3=(shown, due))
        found = strange(*notes(after=JOINED), *operation(), *pause, note(12_001, "operation", between))
        assert ["what is expected of n3" in text for text in found] == [True] * is_strange, (shown, due)
    for due, is_strange in (("absent", False), ("joining", True)):
        behind = members(n1=NORMAL, n2=NORMAL, n3=("joining", due))
        lines = [*operation("fail", effect={"attempts": []})[:2], note(16_000, "operation", behind)]
        assert bool(strange(*notes(), *lines)) is is_strange, due


def test_what_is_expected_follows_from_the_outcomes_of_operations() -> None:
    assert len(strange(*notes(), *operation())) == 2, "both notes behind it still expect the spare to be absent"
    assert len(strange(*notes(after=JOINED))) == 2


def test_a_node_that_gives_itself_another_host_id_is_strange() -> None:
    assert len(strange(*notes(), ring={"n1": "other", "n2": "id-n2"})) == 1
    assert len(strange(*notes(), ring={"n1": None, "n2": "other"})) == 1
    assert strange(*notes(), ring={"n1": None, "n2": "id-n2"}) == []


def test_a_directory_has_the_host_ids_of_the_notes() -> None:
    def listed(**ids: str | None) -> dict[str, Any]:
        return {f"10.0.0.{node[1]}": {"host_id": identity, "state": "JOINED"} for node, identity in ids.items()}

    right, wrong = listed(n1="id-n1", n2="id-n2"), listed(n1="id-n1", n2="other")
    assert strange(*notes(), ring={"n1": "id-n1"}, directory=right) == []
    assert strange(*notes(), ring={"n1": "id-n1", "n2": None}, directory=wrong) == [
        "the directories of n1 and n2 give 10.0.0.2 a host id that no note of the members has"
    ]
    # A spare has none before it joins, and a replacement may keep the address: either id is known then.
    assert strange(*notes(), ring={"n1": "id-n1"}, directory=listed(n1="id-n1", n2=None, n9="other")) == []
    again = deepcopy(JOINED)
    again["n3"]["host_id"] = "again"
    for told, found in (("id-n3", 0), ("again", 0), ("other", 1)):
        lines = [*notes(after=again), *operation()]
        assert len(strange(*lines, ring={"n1": "id-n1"}, directory=listed(n3=told))) == found


@pytest.mark.parametrize(("outcome", "found"), [("ok", 1), ("fail", 0), ("info", 0)])
def test_an_operation_that_did_not_end_well_may_leave_a_host_id_that_is_not_noted(outcome: str, found: int) -> None:
    attempt = ATTEMPT | {"outcome": outcome, "timed_out": outcome == "info"}
    lines = [*notes(after=JOINED if outcome == "ok" else THREE), *operation(outcome, effect={"attempts": [attempt]})]
    directory = {"10.0.0.3": {"host_id": "other", "state": "JOINED"}}
    assert len(strange(*lines, ring={"n1": "id-n1"}, directory=directory)) == found


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(operation(nodes=["n2"]), id="of another node"),
        pytest.param(operation(parameters={}), id="other parameters"),
        pytest.param(operation(becomes={"n3": "left"}), id="another state"),
        pytest.param(operation(effect={"attempts": []}), id="acknowledged without an attempt"),
        pytest.param(operation(effect={"attempts": [ATTEMPT | {"outcome": "info"}]}), id="its last attempt was not"),
        pytest.param(operation(effect={"attempts": [ATTEMPT | {"outcome": "lie"}]}), id="an outcome that there is not"),
        pytest.param(operation(effect={"attempts": [ATTEMPT | {"seconds": 20.0}]}), id="an attempt that lasted longer"),
        pytest.param(operation(effect={"attempts": [ATTEMPT | {"timed_out": True}]}), id="at its limit"),
        pytest.param(operation(effect={"attempts": [{"outcome": "ok"}]}), id="an attempt without its fields"),
        pytest.param(operation(effect={"attempts": [ATTEMPT | {"more": 1}]}), id="an attempt with a field more"),
        pytest.param(operation(effect={"attempts": "lie"}), id="no attempts at all"),
        pytest.param(
            operation(effect={"attempts": [ATTEMPT | {"command": "start", "node": "n1"}]}), id="another node started"
        ),
        pytest.param(operation("fail", effect={"attempts": [ATTEMPT | {"outcome": "info"}]}), id="failed"),
        pytest.param(operation()[1:], id="without a begin"),
        pytest.param(
            operation(effect={"attempts": [ATTEMPT | {"outcome": "info"}, ATTEMPT], "seen": "START"}),
            id="to be cancelled, and not done itself",
        ),
    ],
)
def test_an_operation_that_ended_as_none_can_is_strange(lines: list[str]) -> None:
    lines = [line for line in lines if "membership" not in line]
    assert len([text for text in strange(*notes(), *lines) if text.startswith("operation 1 ")]) == 1


def test_one_that_was_faster_than_its_cancellation_is_not() -> None:
    attempts = [ATTEMPT | {"seconds": 4.9}, ATTEMPT | {"outcome": "info", "seconds": 1.0}]
    for seconds, is_strange in ((4.9, False), (4.0, True), (6.5, True)):
        effect = {"attempts": attempts, "seen": "MID", "seconds": seconds}
        lines = [line for line in operation(effect=effect) if "membership" not in line]
        found = [text for text in strange(*notes(), *lines) if text.startswith("operation 1 ")]
        assert bool(found) is is_strange


@pytest.mark.parametrize("effect", [{"attempts": []}, {"seconds": 1.0}])
def test_an_operation_that_failed_without_an_error_is_strange(effect: Any) -> None:
    lines = [*notes(), *operation("fail", effect=effect)]
    assert strange(*lines) == []
    assert strange(*lines, error=None) == ["operation 1 on the topology ended as none can: it failed without an error"]


@pytest.mark.parametrize(("seconds", "is_strange"), [(0.0, False), (6.5, False), (6.6, True), (-0.1, True)])
def test_an_attempt_lasts_as_long_as_its_operation_at_most(seconds: float, *, is_strange: bool) -> None:
    attempts = {"attempts": [ATTEMPT | {"seconds": seconds}]}
    found = strange(*notes(after=JOINED), *operation(effect=attempts, ended_at=15_500))
    assert [text.rpartition(": ")[2] for text in found] == ["an attempt lasted longer than all of it"] * is_strange


def test_a_run_with_a_plan_notes_its_members_and_one_of_before_there_were_plans_need_not() -> None:
    assert strange(plan="") == []
    assert any("when it was booted" in text for text in strange())
    assert strange(*notes(), plan="") == []
    assert any("when it was booted" in text for text in strange(*notes()[1:], plan=""))


def test_the_last_note_before_a_reading_says_which_host_id_a_node_has() -> None:
    after = deepcopy(JOINED)
    after["n3"]["host_id"] = "another"
    lines = [*notes(after=after)[:2], *operation()]
    # Read at 55 s: the note of the restart is of later.
    later = deepcopy(after)
    later["n3"]["host_id"] = "yet another"

    def own_word(*restart: str, ring: str) -> list[str]:
        return [text for text in strange(*lines, *restart, ring={"n3": ring}) if "own word" in text]

    assert own_word(note(60_000, "restart", later), ring="another") == []
    assert own_word(note(55_000, "restart", after), ring="another") == [], "noted as it was read"
    assert len(own_word(note(55_000, "restart", later), ring="another")) == 1
    for told in ("id-n3", "yet another"):
        assert len(own_word(note(60_000, "restart", later), ring=told)) == 1


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize(("name", "words"), [("host_id", "two host ids"), ("address", "two addresses")])
def test_a_node_is_the_same_in_the_last_two_notes_without_an_operation_between(
    name: str, words: str, *, between: bool
) -> None:
    joined, later = deepcopy(JOINED), deepcopy(JOINED)
    later["n3"][name] = "another"
    last = [line.replace("@10000", "@41000").replace("@15000", "@45000") for line in operation()[:2]] if between else []
    behind = [note(46_000, "operation", JOINED)] if between else operation()
    begun = THREE if between else joined
    lines = [note(1, "boot", THREE), note(40_000, "heal", begun), *last, *behind]
    texts = strange(*lines, note(60_000, "restart", later))
    assert any(words in text for text in texts) is not between
    assert strange(*lines, note(60_000, "restart", joined)) == []


def upgrade(
    stage: str = "node", outcome: str = "ok", *attempts: dict[str, Any], at: int = 10_000, **effect: Any
) -> list[str]:
    """The upgrade of n2, or the end of all of it, of five seconds."""
    value = {"operation": at, "nodes": ["n2"], "parameters": {"stage": stage}, "becomes": {"n2": "normal"}}
    tried = attempts or (ATTEMPT | {"node": "n2", "command": "drain, stop, start as b"},)
    done = {**value, "effect": {"attempts": list(tried), "seconds": 2.0, "stage": stage, "system": "b", **effect}}
    return [
        f"@{at} -- n2 invoke rolling-upgrade {orjson.dumps(value).decode()}",
        f"@{at + 5000} -- n2 {outcome} rolling-upgrade {orjson.dumps(done).decode()}",
        note(at + 5001, "operation", THREE),
    ]


DRAIN = ATTEMPT | {"node": "n2", "command": "nodetool drain", "outcome": "info"}
REWRITE = ATTEMPT | {"node": "n2", "command": "nodetool upgradesstables"}


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(upgrade(), id="a node"),
        pytest.param(
            upgrade("node", "ok", DRAIN, ATTEMPT | {"node": "n2", "command": "start as b"}, seconds=4.0),
            id="at the second try",
        ),
        pytest.param(upgrade("node", "info", DRAIN), id="of unknown outcome"),
        pytest.param(upgrade("finish", "ok", REWRITE), id="the end of it"),
        pytest.param(upgrade("back"), id="taken back"),
        pytest.param(upgrade(seconds=6.0), id="rounded"),
        pytest.param(upgrade(seconds=None), id="of before times were noted"),
    ],
)
def test_what_an_upgrade_may_say_is_not_strange(lines: list[str]) -> None:
    assert strange(*notes(), *lines) == []


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        pytest.param(upgrade("node", "ok", system="c"), "started the node as c", id="system"),
        pytest.param(upgrade("node", "ok", ATTEMPT | {"command": "start as b"}), "another node", id="node"),
        pytest.param(upgrade("node", "ok", REWRITE), "started the node as b", id="command"),
        pytest.param(upgrade("back", "ok", REWRITE), "started the node as b", id="command of the way back"),
        pytest.param(upgrade(seconds=1.5), "lasted less", id="shorter than its attempts"),
        pytest.param(upgrade(seconds=6.2), "longer than there was time", id="longer than it was"),
        pytest.param(
            [line.replace('"stage":"node","system"', '"stage":"finish","system"') for line in upgrade()],
            "another stage",
            id="stage",
        ),
        pytest.param(
            [line.replace('"stage":"node","system"', '"system"') for line in upgrade()], "another stage", id="no stage"
        ),
    ],
)
def test_an_upgrade_that_none_can_have_been_is_strange(lines: list[str], text: str) -> None:
    (said,) = strange(*notes(), *lines)
    assert text in said


@pytest.mark.parametrize("first", ["n1", "n2"])
def test_a_host_id_does_not_change_before_an_operation_that_may_change_it(first: str) -> None:
    def lines(node: str, at: int) -> list[str]:
        return [line.replace('"n2"', f'"{node}"').replace("-- n2 ", f"-- {node} ") for line in upgrade(at=at)[:2]]

    second = "n2" if first == "n1" else "n1"
    steps = [
        *lines(first, 10_000),
        note(15_001, "operation", THREE),
        *lines(second, 20_000),
        note(25_001, "operation", THREE),
    ]
    for node, is_odd in ((first, False), (second, True)):
        changed = deepcopy(THREE)
        changed[node]["host_id"] = "other"
        found = strange(note(1, "boot", changed), *steps, *notes()[1:])
        assert any(f"{node} two host ids before" in text for text in found) is is_odd
    assert strange(*notes(), *steps) == []


@pytest.mark.parametrize(
    ("step", "is_strange"),
    [
        ({"operation": 10_000, "step": "drain"}, False),
        ({"operation": 10_001, "step": "drain"}, True),
        ({"step": "drain"}, True),
        ({"operation": [10_000], "step": "drain"}, True),
        ({"operation": 10_000}, True),
        ({"operation": 10_000, "step": ""}, True),
    ],
)
def test_a_step_is_one_of_an_operation_that_goes_on(step: dict[str, Any], *, is_strange: bool) -> None:
    for at in (10_001, 14_999):
        line = f"@{at} -- info operation-step {orjson.dumps(step).decode()}"
        assert (strange(*notes(), *upgrade(), line) != []) is is_strange
    for at in (9_999, 15_001):
        line = f"@{at} -- info operation-step {orjson.dumps(step).decode()}"
        assert strange(*notes(), *upgrade(), line) != []


@pytest.mark.parametrize("number", [None, [1], {"a": 1}])
def test_an_operation_without_a_number_is_strange(number: Any) -> None:
    lines = [
        line.replace('"operation":10000', f'"operation":{orjson.dumps(number).decode()}') for line in upgrade()[:2]
    ]
    assert any("and not which" in text for text in strange(*notes(), *lines))


def test_a_step_of_an_operation_is_no_end_of_it() -> None:
    step = '@12000 -- n3 info operation-step {"operation": 1, "step": "joining"}'
    assert strange(*notes(after=JOINED), *operation(), step) == []


@pytest.mark.parametrize("outcome", ["ok", "fail", "info"])
def test_a_node_that_becomes_another_version_keeps_its_address_but_not_its_host_id(outcome: str) -> None:
    value = {"operation": 1, "nodes": ["n2"], "parameters": {"stage": "node"}, "becomes": {"n2": "normal"}}
    effect = {"attempts": [ATTEMPT | {"node": "n2", "command": "start as b"}], "stage": "node", "system": "b"}
    lines = [
        f"@{at} -- n2 {kind} rolling-upgrade {orjson.dumps({**value, **told}).decode()}"
        for at, kind, told in ((10_000, "invoke", {}), (15_000, outcome, {"effect": effect}))
    ]
    after = deepcopy(THREE)
    after["n2"]["host_id"] = "another"
    lines.append(note(15_001, "operation", after))
    assert strange(*notes(after=after), *lines, ring={"n2": "yet another"}) == [], "the upgrade has not ended"
    finish = [
        line.replace('"stage":"node"', '"stage":"finish"').replace('"operation":1', '"operation":2')
        for line in lines[:2]
    ]
    whole = [
        *lines,
        finish[0].replace("@10000", "@16000"),
        finish[1].replace("@15000", "@17000"),
        note(17_001, "operation", after),
    ]
    told = strange(*notes(after=after), *whole, ring={"n2": "yet another"})
    assert told == (
        ["n2 has another host id by the notes of the members than by its own word"] if outcome == "ok" else []
    )
    assert strange(*notes(after=after), *whole, ring={"n2": "another"}) == []
    after["n2"]["address"] = "10.0.0.9"
    assert set(strange(*notes(after=after), *lines)) == {
        "the notes of the members differ on n2, and no operation concerns the difference"
    }


@pytest.mark.parametrize("kept", [True, False])
def test_a_note_of_the_members_behind_an_operation_that_is_missing_is_strange(*, kept: bool) -> None:
    lines = [line for line in operation() if kept or "membership" not in line]
    found = strange(*notes(after=JOINED), *lines)
    assert (found == []) is kept, found
    died = '@30 -- info nemesis-died {"nemesis": "bootstrap", "error": "E"}'
    assert strange(died, *notes(after=JOINED), *lines) == []


KEEPING = sorted(name for name, nemesis in load_all("nemeses").items() if nemesis_traits(nemesis).keeps_members)


@pytest.mark.parametrize(
    ("f", "keeps"), [*((name, True) for name in KEEPING), ("replace", False), ("from-elsewhere", False)]
)
@pytest.mark.parametrize("field", ["address", "host_id"])
def test_an_operation_whose_nemesis_keeps_members_changes_no_address_and_no_host_id(
    f: str, field: str, *, keeps: bool
) -> None:
    value = {"operation": 1, "nodes": ["n2"], "parameters": {"kind": "flush"}, "becomes": {"n2": "normal"}}
    ends = {**value, "effect": {"attempts": [ATTEMPT | {"node": "n2"}]}}
    lines = [
        f"@10000 -- n2 invoke {f} {orjson.dumps(value).decode()}",
        f"@15000 -- n2 ok {f} {orjson.dumps(ends).decode()}",
    ]
    after = deepcopy(THREE)
    assert strange(*notes(after=after), *lines, note(15_001, "operation", after)) == []
    after["n2"][field] = "other"
    assert (strange(*notes(after=after), *lines, note(15_001, "operation", after)) != []) is keeps


def test_maintenance_of_a_node_and_of_a_table_keeps_members() -> None:
    assert {"everyday", "reload-table"} <= set(KEEPING)


@pytest.mark.parametrize("name", ["nodes", "parameters"])
def test_an_operation_whose_begin_lacks_what_its_end_says_is_strange(name: str) -> None:
    begin, *rest = operation()
    head, _, text = begin.partition(" {")
    value = orjson.loads("{" + text)
    del value[name]
    assert strange(*notes(after=JOINED), f"{head} {orjson.dumps(value).decode()}", *rest) != []


def test_an_operation_that_was_acknowledged_says_what_was_attempted() -> None:
    assert strange(*notes(after=JOINED), *operation()) == []
    assert strange(*notes(after=JOINED), *operation(effect={"seconds": 1.0})) != []


COMMANDS = (
    *(("nodetool snapshot -t schemaquake-reload -- k", node) for node in ("n1", "n2")),
    *(("drop-table k.t", "n1"), ("create-table k.t", "n1")),
    *(("nodetool refresh -- k t", node) for node in ("n1", "n2")),
)


def reload(
    outcome: str = "ok",
    *,
    snapshots: Any = None,
    attempts: int = len(COMMANDS),
    changes: tuple[str, ...] = ("drop-table k.t", "create-table k.t k:int*"),
    changed_at: int = 18_000,
    ended_at: int = 30_000,
    reloads: Any = True,
) -> list[str]:
    """A reload from 10 s on, to 30 s as a rule, of attempts that last two seconds each."""
    parameters = {"reloads": reloads, "keyspace": "k", "table": "t"}
    value = {"operation": 1, "nodes": [], "parameters": parameters, "becomes": {}}
    tried = [ATTEMPT | {"command": command, "node": node} for command, node in COMMANDS][:attempts]
    effect = {"attempts": tried, "snapshots": {"n1": 0.001, "n2": 5.0} if snapshots is None else snapshots}
    asked = [
        line
        for number, change in enumerate(changes)
        for line in (
            f"@{changed_at + 10 * number} p{5 + number} n1 invoke {change}",
            f"@{changed_at + 10 * number + 1} p{5 + number} n1 ok",
        )
    ]
    return [
        f"@10000 -- invoke reload-table {orjson.dumps(value).decode()}",
        *asked,
        f"@{ended_at} -- {outcome} reload-table {orjson.dumps({**value, 'effect': effect}).decode()}",
        note(ended_at + 1, "operation", THREE),
    ]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(reload(), id="a reload"),
        pytest.param(reload(snapshots={"n1": 0.0, "n2": 2.0}), id="without a pause"),
        pytest.param(reload(snapshots={"n1": 0.0, "n2": 1.001}), id="rounded"),
        pytest.param(reload(snapshots={"n1": 8.0, "n2": 10.0}), id="late"),
        pytest.param(reload(snapshots={"n1": 0.0, "n2": 1.0}), id="as early as can be"),
        pytest.param(reload(snapshots={"n1": 9.5, "n2": 11.5}, ended_at=30_500), id="as late as can be"),
        pytest.param(reload(changed_at=10_000), id="dropped as it began"),
        pytest.param(reload(changed_at=29_989), id="created as it ended"),
        pytest.param(reload("info", changes=("drop-table k.t",)), id="of unknown outcome"),
        pytest.param(reload("fail", snapshots={"n1": 0.0}, attempts=1, changes=()), id="refused by the first node"),
        pytest.param(reload("fail", snapshots={}, attempts=0, changes=()), id="refused at once"),
        pytest.param(reload(changes=(), snapshots={"n7": 1}, reloads=False), id="no reload"),
        pytest.param(
            reload(changes=("drop-table k.t", "create-table k.t k:int*", "add-column k.t c:int")),
            id="with a column more",
        ),
    ],
)
def test_what_a_reload_may_say_is_not_strange(lines: list[str]) -> None:
    assert strange(*notes(), *lines) == []


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        pytest.param(reload(snapshots={"n1": 0.0, "n2": 0.9}), "at another time", id="before the attempts before it"),
        pytest.param(reload(snapshots={"n1": 0.0, "n2": 11.1}), "at another time", id="too late for what came after"),
        pytest.param(reload(snapshots={"n1": 9.1, "n2": 5.0}), "at another time", id="of the first node"),
        pytest.param(reload(snapshots={"n1": 9.6, "n2": 5.0}, ended_at=30_500), "at another time", id="half a second"),
        pytest.param(reload(snapshots={"n1": -1.1, "n2": 5.0}), "at another time", id="before it began"),
        pytest.param(reload(snapshots={"n1": "0", "n2": 5.0}), "at another time", id="no number"),
        pytest.param(reload(snapshots={"n2": 5.0}), "other snapshots", id="a node without one"),
        pytest.param(reload(snapshots={"n1": 0.0, "n2": 5.0, "n3": 5.0}), "other snapshots", id="a node with one"),
        pytest.param(reload(snapshots=["n1", "n2"]), "other snapshots", id="no times"),
        pytest.param(reload(snapshots={}), "other snapshots", id="none"),
        pytest.param(reload(changes=("drop-table k.t",)), "no DROP and CREATE of k.t", id="not made again"),
        pytest.param(reload(changes=("create-table k.t k:int*",)), "no DROP and CREATE", id="not dropped"),
        pytest.param(reload(changes=("drop-table k.u", "create-table k.u k:int*")), "no DROP", id="another table"),
        pytest.param(
            [line.replace("p5 n1", "p5 n2") for line in reload()],
            "drop-table k.t went through another node",
            id="another node",
        ),
        pytest.param(reload(changed_at=9_000), "no DROP and CREATE", id="before it"),
        pytest.param(reload(changed_at=29_995), "no DROP and CREATE", id="after it"),
    ],
)
def test_a_reload_that_none_can_have_been_is_strange(lines: list[str], text: str) -> None:
    (said,) = strange(*notes(), *lines)
    assert text in said


def test_a_reload_of_before_the_times_of_its_snapshots_were_noted_is_not_strange() -> None:
    lines = reload()
    head, _, value = lines[-2].partition(" {")
    ended = orjson.loads("{" + value)
    del ended["effect"]["snapshots"]
    assert strange(*notes(), *lines[:-2], f"{head} {orjson.dumps(ended).decode()}", lines[-1]) == []


def test_a_reload_that_promises_the_times_of_its_snapshots_names_them() -> None:
    whole = [line.replace('"reloads":true', '"reloads":true,"dated":true') for line in reload()]
    assert strange(*notes(), *whole) == []
    without = [line.replace(',"snapshots":{"n1":0.001,"n2":5.0}', "") for line in whole]
    assert without != whole
    (said,) = strange(*notes(), *without)
    assert said.endswith("it does not say when its snapshots began")


# ── everyday operations ──────────────────────────────────────────────────────────────────────────────────────────────

SNAPSHOT = ATTEMPT | {"command": "nodetool snapshot -t schemaquake0", "node": "n1"}
REFRESH = ATTEMPT | {"command": "nodetool refresh -- k t", "node": "n1"}
FLUSH = ATTEMPT | {"command": "nodetool flush", "node": "n1"}


def everyday(kind: str, outcome: str, *attempts: Any, effect: Any = None, **parameters: Any) -> list[str]:
    """An everyday operation on n1, from 10 to 20 s."""
    value = {"operation": 1, "nodes": ["n1"], "parameters": {"kind": kind, **parameters}, "becomes": {}}
    done = {"attempts": list(attempts), "kind": kind, "seconds": 9.0, **(effect or {})}
    return [
        f"@10000 -- n1 invoke everyday {orjson.dumps(value).decode()}",
        f"@20000 -- n1 {outcome} everyday {orjson.dumps({**value, 'effect': done}).decode()}",
        note(20_001, "operation", THREE),
    ]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(everyday("flush", "ok", FLUSH), id="one command"),
        pytest.param(everyday("flush", "fail", FLUSH | {"outcome": "fail"}), id="refused"),
        pytest.param(everyday("flush", "fail"), id="not asked"),
        pytest.param(everyday("gossip", "ok", FLUSH, FLUSH, takes_down=True), id="off and on"),
        pytest.param(
            everyday("gossip", "info", FLUSH, FLUSH | {"outcome": "fail"}, takes_down=True), id="off, and on refused"
        ),
        pytest.param(everyday("resetlocalschema", "ok", FLUSH, forgets=True), id="forgets"),
        pytest.param(everyday("restore", "ok", SNAPSHOT, REFRESH, argument="schemaquake0"), id="restored"),
        pytest.param(everyday("restore", "ok", SNAPSHOT, argument="schemaquake0"), id="nothing to restore"),
    ],
)
def test_what_an_everyday_operation_may_say_is_not_strange(lines: list[str]) -> None:
    assert strange(*notes(), *lines) == []


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        pytest.param(
            everyday("flush", "ok"), "what was attempted|nothing was attempted|that decides was not", id="nothing"
        ),
        pytest.param(everyday("flush", "ok", FLUSH, effect={"kind": "scrub"}), "another kind", id="kind"),
        pytest.param(everyday("flush", "ok", FLUSH | {"node": "n2"}), "another node", id="node"),
        pytest.param(everyday("flush", "ok", FLUSH, takes_down=True), "takes_down", id="takes nothing down"),
        pytest.param(everyday("drain", "ok", FLUSH), "takes_down", id="takes the node down"),
        pytest.param(everyday("gossip", "ok", FLUSH, takes_down=True), "fewer commands", id="off, and never on"),
        pytest.param(everyday("drain", "ok", FLUSH, takes_down=True), "fewer commands", id="drained, and not started"),
        pytest.param(everyday("scrub", "ok", FLUSH, forgets=True), "forgets", id="forgets nothing"),
        pytest.param(everyday("restore", "ok", SNAPSHOT, REFRESH, argument="other"), "does not name", id="snapshot"),
        pytest.param(
            everyday("restore", "ok", SNAPSHOT, REFRESH | {"outcome": "info"}, argument="schemaquake0"),
            "that decides was not",
            id="not taken up",
        ),
        pytest.param(everyday("flush", "info", FLUSH), "outcome is not", id="acknowledged"),
        pytest.param(
            everyday("restore", "ok", SNAPSHOT | {"seconds": 6.0}, REFRESH | {"seconds": 6.0}, argument="schemaquake0"),
            "lasted longer",
            id="longer together",
        ),
    ],
)
def test_an_everyday_operation_that_none_can_have_been_is_strange(lines: list[str], text: str) -> None:
    (said,) = strange(*notes(), *lines)
    assert re.search(text, said)
