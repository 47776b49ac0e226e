"""Levels where a keyspace has replicas in several data centres."""

from __future__ import annotations

from itertools import combinations

import pytest
from histories import events, observed

from schemaquake.checkers.quorum.centers import Asked, count_at, find_centers, meet
from schemaquake.checkers.quorum.checker import Quorum
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.records import Records

LEVELS = ("ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_ONE", "LOCAL_QUORUM", "EACH_QUORUM")
PLACED = '{"replication": {"class": "NetworkTopologyStrategy", "dc1": 2, "dc2": 2}}'
OTHERS = '{"replication": {"class": "NetworkTopologyStrategy", "dc1": 1, "dc2": 3}}'


def answers(asked, centers):
    """All sets of replicas that give an answer at this level, tried one by one."""
    nodes = [(center, number) for center, count in centers.items() for number in range(count)]
    for size in range(1, len(nodes) + 1):
        for chosen in combinations(nodes, size):
            within = {center: sum(each == center for each, _ in chosen) for center in centers}
            majorities = {center: count // 2 + 1 for center, count in centers.items()}
            gives = {
                "ONE": size >= 1,
                "TWO": size >= 2,
                "THREE": size >= 3,
                "QUORUM": size > len(nodes) // 2,
                "ALL": size == len(nodes),
                "LOCAL_ONE": within.get(asked.center, size) >= 1,
                "LOCAL_QUORUM": within.get(asked.center, size) >= majorities.get(asked.center, 1),
                "EACH_QUORUM": all(within[center] >= majorities[center] for center in centers),
            }
            if gives[asked.level]:
                yield frozenset(chosen)


@pytest.mark.parametrize(
    "centers",
    [{"dc1": 1, "dc2": 1}, {"dc1": 2, "dc2": 1}, {"dc1": 2, "dc2": 2}, {"dc1": 3, "dc2": 1}, {"a": 1, "b": 1, "c": 2}],
)
def test_levels_meet_if_no_two_answers_are_apart(centers):
    # THREE of two replicas, and the like, cannot be answered.
    kinds = [Asked(level, center) for level in LEVELS for center in (None, *centers)]
    sets = {kind: list(answers(kind, centers)) for kind in kinds}
    kinds = [kind for kind in kinds if sets[kind]]
    for one in kinds:
        assert count_at(one, centers) == min(map(len, sets[one]))
        for other in kinds:
            assert meet(one, other, centers) is all(a & b for a in sets[one] for b in sets[other]), (one, other)


def test_an_unknown_level_is_refused():
    with pytest.raises(HistoryError, match="SERIAL"):
        count_at(Asked("SERIAL", None), {"dc1": 1, "dc2": 1})


def found_in(*lines):
    return find_centers(events(*lines))


def test_centers_are_those_of_the_one_replication_there_may_be():
    create = (f"@1 p99 n1 invoke create-keyspace k {PLACED}", "@1 p99 n1 ok")
    assert found_in(*create) == {"dc1": 2, "dc2": 2}
    assert found_in("@1 p99 n1 invoke create-keyspace k", "@1 p99 n1 ok") == {}
    one = PLACED.replace(', "dc2": 2', "")
    assert found_in(f"@1 p99 n1 invoke create-keyspace k {one}", "@1 p99 n1 ok") == {}
    alter = f"@3 p99 n1 invoke alter-keyspace k {OTHERS}"
    assert found_in(*create, alter, "@4 p99 n1 info") is None
    assert found_in(*create, alter, "@4 p99 n1 fail") == {"dc1": 2, "dc2": 2}


def test_a_transient_replica_is_a_replica_and_what_is_no_number_is_refused():
    transient = PLACED.replace('"dc1": 2', '"dc1": "3/1"')
    assert found_in(f"@1 p99 n1 invoke create-keyspace k {transient}", "@1 p99 n1 ok") == {"dc1": 3, "dc2": 2}
    for factor in ('"two"', '"3/one"', "-1", "null"):
        odd = PLACED.replace('"dc1": 2', f'"dc1": {factor}')
        with pytest.raises(HistoryError, match="is no number"):
            found_in(f"@1 p99 n1 invoke create-keyspace k {odd}", "@1 p99 n1 ok")


def judge(
    writer, reader, *, writes="LOCAL_QUORUM", reads="LOCAL_QUORUM", known=("n1", "n2", "n3", "n4"), placed=PLACED
):
    """Judge a put of 7 through one node that a get through another does not show. n1 and n3 are in dc1, n2 and n4 in dc2."""
    lines = [
        f"@1 p99 n1 invoke create-keyspace k {placed}",
        "@1 p99 n1 ok",
        f'@10 p0 {writer} invoke put k.q/1 {{"value": 7, "consistency": "{writes}"}}',
        f"@12 p0 {writer} ok",
        f'@20 p1 {reader} invoke get k.q/1 {{"consistency": "{reads}"}}',
        f'@22 p1 {reader} ok {{"value": null, "writetime": null}}',
    ]
    rings = [
        f'settled {node} ring {{"self": {{"address": "{node}", "dc": "dc{2 - int(node[1]) % 2}"}}, "peers": {{}}}}'
        for node in known
    ]
    return Quorum().check(Records.of(events(*lines), observed(*rings)), limit_s=10)


@pytest.mark.parametrize(
    ("writer", "reader", "more", "valid"),
    [
        pytest.param("n1", "n3", {}, False, id="the same data centre"),
        pytest.param("n1", "n2", {}, True, id="the other one"),
        pytest.param("n1", "n2", {"writes": "EACH_QUORUM"}, False, id="a quorum of each"),
        pytest.param("n1", "n2", {"writes": "TWO"}, True, id="two of the other one"),
        pytest.param("n1", "n2", {"writes": "QUORUM"}, False, id="of three one is here"),
        pytest.param("n1", "n2", {"writes": "QUORUM", "reads": "QUORUM"}, False, id="two quorums of all"),
        pytest.param("n1", "n3", {"reads": "LOCAL_ONE"}, False, id="both of here, and one of here"),
        pytest.param("n1", "n3", {"writes": "LOCAL_ONE", "reads": "LOCAL_ONE"}, True, id="one and one"),
        pytest.param("n1", "n3", {"known": ("n1", "n2")}, True, id="a reader that is nowhere"),
    ],
)
def test_a_local_level_binds_its_own_data_centre(writer, reader, more, valid):
    verdict = judge(writer, reader, **more)
    assert verdict.valid is valid
    assert [each.type for each in verdict.anomalies] == ([] if valid else ["missed-quorum-write"])
    if not valid and more == {}:
        text = verdict.anomalies[0].explanation
        assert "answers at LOCAL_QUORUM through n1 and LOCAL_QUORUM through n3 have a replica in common" in text
