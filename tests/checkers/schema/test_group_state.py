"""What nodes show of their group and of its log, and cannot be true; and all that only looks like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson
import pytest
from histories import judged

from schemaquake.checkers.schema.change_log import ChangeLog

CREATE, ADD, DROP = "CREATE TABLE k.t (a int, PRIMARY KEY (a))", "ALTER TABLE k.t ADD b int", "DROP TABLE k.t"
OTHER = "Starting new topology coordinator"
CALLS = (
    "@1000 p0 n1 invoke create-table k.t a:int*",
    "@1010 p0 n1 ok",
    "@1015 p0 n1 invoke add-column k.t b:int",
    "@1018 p0 n1 ok",
    "@1020 p1 n2 invoke drop-table k.t",
    "@1030 p1 n2 ok",
)
FINAL = '@9000 -- info phase {"phase": "final-settled", "state": "begins"}'
LOG = ((10, OTHER), (20, CREATE), (30, ADD), (40, DROP))
TOPOLOGY = {"version": 7, "fence_version": 7, "transition_state": None}
GROUP: Mapping[str, Any] = {
    "id": "g", "upgrade_state": "use_post_raft_procedures", "schema_version": None, "members": ["h1", "h2", "h3"],
    "voters": ["h1", "h2", "h3"], "nodes": {"h1": "normal", "h2": "normal", "h3": "normal"}, "topology": TOPOLOGY,
}  # fmt: skip


def time_id(epoch: int, node: int = 1) -> str:
    return str(UUID(fields=(epoch, 0, 0x1000, 0x80, 0, node)))


def told(
    place: str,
    log: Sequence[tuple[int, str]] | None = LOG,
    *,
    epoch: int | None = 40,
    group: Mapping[str, Any] | None = None,
    passed: bool = True,
    ids: Mapping[int, str] | None = None,
    **more: Any,
) -> list[str]:
    version = {"epoch": epoch, "group0": {**(GROUP if group is None else group), **more}, "barrier": {"passed": passed}}
    changes = [
        [(ids or {}).get(at, time_id(at)), at, text if text == OTHER else f'CQL DDL statement: "{text}"']
        for at, text in log or ()
    ]
    lines = [f"{place} version v {orjson.dumps(version).decode()}"]
    return (
        lines if log is None else [*lines, f"{place} log {orjson.dumps({'changes': changes, 'cut': False}).decode()}"]
    )


def doubts(*readings: Sequence[str], history: Sequence[str] = (*CALLS, FINAL)) -> list[str]:
    records = judged(history, [line for reading in readings for line in reading])
    verdict = ChangeLog().check(records, limit_s=5)
    assert verdict.anomalies == ()
    return [doubt.text for doubt in verdict.doubts]


def of_all(*arguments: Any, **named: Any) -> list[list[str]]:
    return [told("settled n1,n2", *arguments, **named), told("restarted n1,n2", *arguments, **named)]


def test_a_log_of_what_was_asked_in_its_order_is_no_doubt() -> None:
    assert doubts(*of_all()) == []


@pytest.mark.parametrize(
    ("readings", "words"),
    [
        pytest.param(of_all((*LOG, (50, ADD)), epoch=50), "2 entries of a statement that 1", id="one more entry"),
        pytest.param(of_all((*LOG, (50, "DROP TYPE k.u")), epoch=50), "that 0 operations", id="one that nobody asked"),
        pytest.param(of_all((LOG[0], (20, CREATE), (30, DROP), (40, ADD))), "began only when", id="in another order"),
        pytest.param(of_all(ids={30: time_id(31)}), "not of their time", id="an id of another time"),
        pytest.param(of_all(ids={30: "x"}), "not of their time", id="an id that is none"),
        pytest.param(of_all(epoch=45), "had shown 45", id="a log without the newest state"),
        pytest.param(of_all(()), "had shown 40", id="an empty log"),
        pytest.param(of_all(None), "was not read", id="no log"),
    ],
)
def test_a_log_that_is_wrong_on_all_nodes_alike_is_a_doubt(readings: list[list[str]], words: str) -> None:
    history = CALLS[:2] if "had shown 40" in words else CALLS
    assert any(
        words in text for text in doubts(*readings, history=(*history[: 0 if words == "had shown 40" else None], FINAL))
    )


RANDOM = "0b8a3d4e-5f1c-4c7a-9d2e-6f7a8b9c0d1e"
ROWS = ('@1040 p2 n1 invoke insert k.t {"row": {"a": 1}}', "@1050 p2 n1 ok", "@1051 p2 n1 invoke txn", "@1052 p2 n1 ok")
ALTERED = ("@1060 p2 n1 invoke alter-keyspace k", "@1070 p2 n1 ok")
MADE = "CREATE TYPE IF NOT EXISTS k.u (f int)"
AGAIN = (
    '@1040 p2 n1 invoke create-type k.u f:int {"if_not_exists": true}',
    '@1050 p2 n1 ok {"applied": false}',
    "@1060 p2 n1 invoke drop-type k.u",
    "@1070 p2 n1 ok",
    '@1080 p2 n1 invoke create-type k.u f:int {"if_not_exists": true}',
    "@1090 p2 n1 ok",
)


@pytest.mark.parametrize(
    ("readings", "history"),
    [
        pytest.param(of_all((*LOG, (50, "DROP TYPE other.u")), epoch=50), CALLS, id="of a keyspace of others"),
        pytest.param(of_all((*LOG, (50, "ALTER KEYSPACE k WITH x")), epoch=50), CALLS, id="words of its own"),
        pytest.param(
            of_all((*LOG, (50, ADD)), epoch=50),
            (*CALLS, "@1040 p2 n1 invoke add-column k.t b:int", "@1050 p2 n1 info"),
            id="a change of unknown outcome",
        ),
        pytest.param(
            of_all((LOG[0], (20, CREATE), (30, DROP), (40, ADD))),
            (*CALLS[:3], CALLS[4], CALLS[5], "@1040 p0 n1 ok"),
            id="changes that met",
        ),
        pytest.param(of_all(epoch=35), CALLS, id="a log that went on while it was read"),
        pytest.param(of_all(ids=dict.fromkeys((10, 20, 30, 40), "x")), CALLS, id="ids of another kind"),
        pytest.param(of_all(ids=dict.fromkeys((10, 20, 30, 40), RANDOM)), CALLS, id="random ids"),
        pytest.param(of_all(ids=dict.fromkeys((10, 20, 30, 40), str(UUID(int=0)))), CALLS, id="empty ids"),
        pytest.param(
            of_all(tuple((at + 10**6, text) for at, text in LOG), epoch=40 + 10**6), CALLS, id="ids of later times"
        ),
        pytest.param(of_all(), (*CALLS, "@1040 p2 n1 invoke add-column k.t b:int"), id="a change that came to nothing"),
        pytest.param(
            of_all((*LOG, (50, "DROP TYPE k.u")), epoch=50),
            (*CALLS, '@1040 p2 n1 invoke cql k {"statement": "DROP TYPE k.u"}', "@1050 p2 n1 ok"),
            id="free text",
        ),
        pytest.param(of_all(), (*CALLS, *ROWS, *ALTERED), id="rows and replication"),
        pytest.param(
            of_all((LOG[0], (20, "create table k.t (a int primary key)")), epoch=20), CALLS[:1], id="another spelling"
        ),
        pytest.param(
            of_all((LOG[0], (20, CREATE), (30, DROP), (40, ADD))),
            (*CALLS[:3], "@1020 p0 n1 ok", "@1020 p1 n2 invoke drop-table k.t", CALLS[5]),
            id="changes that met at an instant",
        ),
        pytest.param(
            of_all((*LOG, (50, "DROP TYPE k.u"), (60, MADE)), epoch=60),
            (*CALLS, *AGAIN),
            id="one that was a no-op first",
        ),
    ],
)
def test_its_twins_are_legal(readings: list[list[str]], history: Sequence[str]) -> None:
    assert doubts(*readings, history=(*history, FINAL)) == []


def test_an_entry_too_many_is_no_change_in_another_order() -> None:
    found = doubts(*of_all((*LOG, (50, ADD)), epoch=50))
    assert found
    assert not any("began only when" in text for text in found)


def test_a_change_is_held_against_the_latest_before_it_not_the_last() -> None:
    """The CREATE had been answered when the DROP was asked, though not yet when the ADD was."""
    met = (
        "@1000 p0 n1 invoke create-table k.t a:int*",
        "@1015 p1 n2 invoke add-column k.t b:int",
        "@1018 p0 n1 ok",
        "@1020 p2 n2 invoke drop-table k.t",
        "@1050 p1 n2 ok",
        "@1060 p2 n2 ok",
        FINAL,
    )
    assert any(
        "began only when" in text
        for text in doubts(*of_all((LOG[0], (20, DROP), (30, ADD), (40, CREATE))), history=met)
    )
    assert doubts(*of_all((LOG[0], (20, CREATE), (30, DROP), (40, ADD))), history=met) == []


def without(*names: str) -> Mapping[str, Any]:
    return {name: value for name, value in GROUP.items() if name not in names}


BOOTSTRAP = '@8000 -- invoke bootstrap {"operation": 0, "nodes": ["n4"], "becomes": {"n4": "normal"}}'


@pytest.mark.parametrize(
    ("other", "words"),
    [
        pytest.param({"group": without("voters")}, "nothing of voters", id="no voters told"),
        pytest.param({"topology": {"version": 7, "transition_state": None}}, "topology.fence_version", id="no fence"),
        pytest.param({"voters": ["h1", "h2", "h9"]}, "that vote are not members", id="a strange voter"),
        pytest.param({"voters": []}, "or none", id="no voter"),
        pytest.param({"voters": ["h1", "h2", "h3", "h3"]}, "or twice", id="a voter twice"),
        pytest.param({"voters": ["h1", "h2"]}, "different members that vote", id="other voters"),
        pytest.param({"schema_version": "x"}, "different versions of the schema", id="another version"),
        pytest.param({"topology": {**TOPOLOGY, "transition_state": "x"}}, "different states", id="another state"),
        pytest.param({"topology": {**TOPOLOGY, "version": 8}}, "that does not change", id="another topology"),
        pytest.param({"topology": {**TOPOLOGY, "fence_version": 8}}, "above the topology", id="a fence too high"),
    ],
)
def test_the_state_of_one_node_that_is_not_the_others_is_a_doubt(other: Mapping[str, Any], words: str) -> None:
    for phase, begins in (("settled", "after the cluster settled"), ("restarted", "after every node was restarted")):
        found = doubts(told("settled n3"), told(f"{phase} n1"), told(f"{phase} n2", **other))
        assert any(words in text and text.startswith(begins) for text in found)


def test_a_node_that_tells_no_voters_hides_no_odd_ones_of_another() -> None:
    found = doubts(told("settled n1", group=without("voters")), told("settled n2", voters=[]))
    assert any("or none" in text for text in found)


@pytest.mark.parametrize(
    ("readings", "history"),
    [
        pytest.param([told("settled n1"), told("settled n2", voters=["h1", "h2"], passed=False)], CALLS, id="behind"),
        pytest.param(
            [told("settled n1"), told("settled n2", voters=["h1", "h2"])], (*CALLS, BOOTSTRAP), id="the ring changes"
        ),
        pytest.param(
            [
                told("settled n1", topology={**TOPOLOGY, "transition_state": "tablet migration"}),
                told("settled n2", topology={**TOPOLOGY, "version": 9}),
            ],
            CALLS,
            id="a topology that changes by itself",
        ),
        pytest.param(
            [told("settled n1,n2", group=without("nodes", "topology"))], CALLS, id="a release that tells less"
        ),
    ],
)
def test_states_that_may_differ_are_no_doubt(readings: list[list[str]], history: Sequence[str]) -> None:
    assert doubts(*readings, history=(*history, FINAL)) == []


def test_a_group_without_a_voter_is_no_group_with_one_and_a_node_alone_votes_alone() -> None:
    assert not any("one member that votes" in text for text in doubts(*of_all(voters=[])))
    assert doubts(*of_all(members=["h1"], nodes={"h1": "normal"}, voters=["h1"])) == []


def test_of_nodes_that_show_different_members_voters_are_not_compared() -> None:
    four = ["h1", "h2", "h3", "h4"]
    readings = [*told("settled n1"), *told("settled n2", members=four, voters=four)]
    verdict = ChangeLog().check(judged((*CALLS, FINAL), readings), limit_s=5)
    assert [anomaly.type for anomaly in verdict.anomalies] == ["divided-group"]
    assert not any("that vote" in doubt.text for doubt in verdict.doubts)


def test_a_topology_that_goes_back_after_a_barrier_is_a_doubt() -> None:
    older = {**TOPOLOGY, "version": 6, "fence_version": 6}
    found = doubts(told("settled n1,n2"), told("restarted n1,n2", topology=older))
    assert sum("had shown 7 before" in text for text in found) == 4
    assert doubts(told("settled n1,n2", topology=older), told("restarted n1,n2")) == []


def test_a_fence_that_goes_back_is_a_doubt_whatever_is_said_of_the_version() -> None:
    older = {"version": None, "fence_version": 6, "transition_state": None}
    found = doubts(told("settled n1,n2"), told("restarted n1,n2", topology=older))
    assert sum("shows fence_version 6" in text and "had shown 7" in text for text in found) == 2


@pytest.mark.parametrize(
    ("readings", "words"),
    [
        pytest.param(of_all(group=without("voters")), "nothing of voters", id="no voters, told by none"),
        pytest.param(of_all(group=without("members", "voters")), "nothing of members and voters", id="no members"),
        pytest.param(of_all(group=without("topology")), "nothing of topology", id="states of nodes alone"),
        pytest.param(
            of_all(group={"id": None}), "nothing of schema_version and upgrade_state", id="nothing but no group"
        ),
        pytest.param(of_all(group={}), "nothing of id, schema_version and upgrade_state", id="nothing"),
        pytest.param(of_all(voters=["h1"]), "one member that votes, of 3", id="one voter"),
        pytest.param(
            [told("settled n1,n2"), told("restarted n1,n2", id="h")], "is of group h, and was of g", id="another group"
        ),
        pytest.param(
            [told("settled n1,n2"), told("restarted n1,n2", topology={**TOPOLOGY, "transition_state": "join_group0"})],
            "in the middle of join_group0",
            id="a transition that nobody asked for",
        ),
    ],
)
def test_what_all_nodes_tell_alike_is_held_against_what_a_group_always_is(
    readings: list[list[str]], words: str
) -> None:
    found = doubts(*readings)
    assert any(words in text for text in found), found


def test_a_transition_of_an_operation_and_one_voter_of_two_members_are_no_doubt() -> None:
    moving = of_all(topology={**TOPOLOGY, "transition_state": "join_group0"})
    assert doubts(*moving, history=(*CALLS, BOOTSTRAP, FINAL)) == []
    nodes = {"h1": "normal", "h2": "normal"}
    assert doubts(*of_all(members=["h1", "h2"], nodes=nodes, voters=["h1"])) == []
