"""Quorum operations: what is read of puts, gets and probes, and which of their answers share a replica."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
import pytest
from histories import events, judged

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.quorum.factors import FactorSeries
from schemaquake.checkers.quorum.operations import (
    NEVER,
    NOTHING,
    Operations,
    find_replication_factors,
    read_quorum_operations,
)
from schemaquake.harness.errors import HistoryError

MS = 1_000_000


def changed(at: int, factor: int, answer: str = "ok", *, f: str = "create-keyspace") -> list[str]:
    replication = orjson.dumps({"replication": {"class": "S", "replication_factor": factor}}).decode()
    return [f"@{at} p0 n1 invoke {f} k {replication}", f"@{at} p0 n1 {answer}"]


def asked(
    at: int,
    f: str,
    value: int | None = None,
    answer: str = "ok",
    *,
    key: str = "a",
    level: str = "ONE",
    node: str = "n1",
) -> list[str]:
    """A request that takes a millisecond; `value` is what is put, or what a read returned, with a writetime if any."""
    request = {"consistency": level, **({"value": value} if f == "put" else {})}
    found = {} if f == "put" or answer != "ok" else {"value": value, "writetime": None if value is None else value * 10}
    told = f" {orjson.dumps(found).decode()}" if found else ""
    return [
        f"@{at} p{at} {node} invoke {f} k.q/{key} {orjson.dumps(request).decode()}",
        f"@{at + 1} p{at} {node} {answer}{told}",
    ]


def replaced(at: int) -> list[str]:
    """The node n3 is replaced by one with an empty disk."""
    value = '{"operation": 0, "nodes": ["n3"], "parameters": {"loses_disk": true}, "becomes": {"n3": "replaced"}}'
    return [f"@{at} -- invoke replace {value}", f"@{at + 1} -- ok replace {value}"]


def read(*parts: list[str], centers: Mapping[str, int] = {}, locations: Mapping[str, str] = {}) -> Operations:
    evidence = Evidence.of(judged([line for part in parts for line in part], []))
    return read_quorum_operations(evidence, series=FactorSeries(evidence), centers=centers, locations=locations)


def test_requests_are_told_apart_by_kind_and_by_whether_they_were_answered() -> None:
    outcomes = ("ok", "info", "fail")
    puts = [asked(10 + at, "put", at, answer) for at, answer in enumerate(outcomes)]
    gets = [asked(20 + at, "get", None, answer) for at, answer in enumerate(outcomes)]
    probes = [asked(30 + at, "probe", None, answer) for at, answer in enumerate(outcomes)]
    found = read(changed(1, 3), *puts, *gets, *probes)
    assert [list(map(int, each)) for each in (found.puts, found.acknowledged_puts, found.gets, found.probes)] == [
        *([0, 1, 2], [0], [3], [6]),
    ]
    assert found.refused.tolist() == [False, False, True] * 3
    assert found.completed.tolist()[:4] == [11 * MS, NEVER, NEVER, 21 * MS]


def test_one_value_of_one_key_is_a_version_with_at_most_one_put() -> None:
    steps = [
        asked(10, "put", 1),
        asked(20, "put", 1, key="b"),
        asked(30, "put", 3),
        asked(40, "get", 1),
        asked(50, "get", 2),
        asked(60, "probe", 3),
        asked(70, "get", None),
        asked(80, "get", 0, key="b"),
        asked(90, "get", None, "info"),
    ]
    found = read(changed(1, 3), *steps)
    shown = [None if each == NOTHING else (int(found.value[each]), int(found.put[each])) for each in found.version]
    assert shown == [(1, 0), (1, 1), (3, 2), (1, 0), (2, -1), (3, 2), None, (0, -1), None]
    assert len(found.value) == len(found.put) == 5
    assert found.writetime.tolist() == [-1, -1, -1, 10, 20, 30, -1, 0, -1]


def test_of_values_that_were_put_twice_the_first_is_named() -> None:
    puts = [asked(10 * at, "put", value) for at, value in enumerate((1, 2, 2, 1, 3, 3), 1)]
    with pytest.raises(HistoryError, match="op 2 and op 8 put the same value 1 into one key"):
        read(changed(1, 3), *puts)


TWICE = [asked(10, "put", 1, level="QUORUM"), asked(30, "get", 1, level="QUORUM")]


@pytest.mark.parametrize(
    ("steps", "shares", "may_share"),
    [
        pytest.param([changed(1, 3), *TWICE], True, True, id="two quorums"),
        pytest.param([changed(1, 3), TWICE[0], replaced(20), TWICE[1]], False, True, id="a disk was lost in between"),
        pytest.param([changed(1, 3), replaced(5), *TWICE], True, True, id="a disk was lost before"),
        pytest.param([changed(1, 3), asked(10, "put", 1), TWICE[1]], False, False, id="one of three, and a quorum"),
        pytest.param(TWICE, False, False, id="nobody knows of how many"),
    ],
)
def test_two_answers_share_a_replica_by_their_levels_and_the_disks_lost_between_them(
    steps: list[list[str]], *, shares: bool, may_share: bool
) -> None:
    found = read(*steps)
    write, then = found.level
    assert (bool(found.shares[write, then]), bool(found.may_share[write, then])) == (shares, may_share)


@pytest.mark.parametrize(("is_lost", "level"), [(False, "ALL"), (True, "ALL"), (False, "ONE")])
def test_with_several_data_centres_any_disk_lost_in_between_leaves_it_open(*, is_lost: bool, level: str) -> None:
    steps = [asked(10, "put", 1, level=level), replaced(20) if is_lost else [], asked(30, "get", 1)]
    found = read(changed(1, 3), *steps, centers={"dc1": 2, "dc2": 1})
    write, then = found.level
    meets = level == "ALL"
    assert (bool(found.shares[write, then]), bool(found.may_share[write, then])) == (meets and not is_lost, meets)


def test_local_levels_are_those_of_the_data_centre_of_their_coordinator() -> None:
    nodes = {"n1": "dc1", "n2": "dc2"}
    steps = [
        asked(10 * at, "get", level=level, node=node)
        for at, (level, node) in enumerate(
            [(level, node) for level in ("LOCAL_QUORUM", "QUORUM") for node in ("n1", "n2", "n3")], 1
        )
    ]
    found = read(changed(1, 3), *steps, centers={"dc1": 2, "dc2": 1}, locations=nodes)
    assert found.level.tolist() == [1, 2, 0, 3, 3, 3], "where n3 is, is not known; QUORUM is one for all"
    assert found.copies.tolist()[3:] == [2, 2, 2]


def test_without_a_known_factor_an_answer_stands_for_one_replica() -> None:
    found = read(*(asked(10 * at, "get", level=level) for at, level in enumerate(("ONE", "QUORUM", "ALL"), 1)))
    assert found.copies.tolist() == [1, 1, 1]
    highest = read(changed(1, 3), changed(2, 2, f="alter-keyspace"), asked(10, "get", level="ALL"))
    assert highest.copies.tolist() == [3]


def test_possible_factors_are_those_of_changes_that_clients_asked_for_and_were_not_refused() -> None:
    steps = [changed(1, 3), changed(2, 4, "fail", f="alter-keyspace"), changed(3, 2, "info", f="alter-keyspace")]
    others = ['@4 -- invoke create-keyspace k {"replication": {"class": "S", "replication_factor": 9}}', "@5 -- ok create-keyspace"]  # fmt: skip
    history = events(*[line for step in steps for line in step], *others)
    assert find_replication_factors(history) == {2, 3}
