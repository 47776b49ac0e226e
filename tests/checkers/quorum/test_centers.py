"""What one level promises where there is one data centre, and where nodes say they stand."""

from __future__ import annotations

from itertools import combinations

import orjson
import pyarrow as pa
import pytest
from histories import events, observed

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.quorum.centers import Asked, count_at, find_centers, list_placements, read_locations
from schemaquake.checkers.quorum.levels import count_replicas, read_factor, share_a_replica, sum_factors
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.model.records import OBSERVATIONS, Records

MAJORITIES = ("QUORUM", "LOCAL_QUORUM", "EACH_QUORUM")


def of(level: str, factor: int) -> int:
    counts = {"ONE": 1, "LOCAL_ONE": 1, "TWO": 2, "THREE": 3, "ALL": factor}
    return counts.get(level, factor // 2 + 1)


LEVELS = ("ONE", "LOCAL_ONE", "TWO", "THREE", "ALL", *MAJORITIES)


@pytest.mark.parametrize("factor", range(1, 7))
def test_two_levels_share_a_replica_if_no_two_sets_of_replicas_are_apart(factor: int) -> None:
    answered = {
        level: list(map(set, combinations(range(factor), of(level, factor))))
        for level in LEVELS
        if of(level, factor) <= factor
    }
    for one, sets in answered.items():
        assert count_replicas(one, factor) == of(one, factor)
        for other, others in answered.items():
            is_shared = all(first & second for first in sets for second in others)
            assert share_a_replica(one, other, factor) is is_shared, (one, other)


def test_a_level_that_is_none_is_refused() -> None:
    with pytest.raises(HistoryError, match=r"'ANY'.*ALL, EACH_QUORUM, LOCAL_ONE"):
        count_replicas("ANY", 3)


def test_the_factors_of_all_data_centers_add_up_whatever_they_are_called() -> None:
    assert sum_factors({"class": "NetworkTopologyStrategy", "a": 2, "dc1": "1"}) == 3
    assert sum_factors({"class": "NetworkTopologyStrategy"}) == 0
    assert [read_factor(text) for text in ("3", "3/1", 2)] == [3, 3, 2]
    for odd in ("", "/1", "3/", "3/x", "x", None):
        with pytest.raises(HistoryError, match="is no number"):
            read_factor(odd)


def located(*lines: str) -> dict[str, str]:
    return dict(read_locations(Evidence.of(Records.of(events(), observed(*lines)))))


def ring(node: str, center: str | None, *, phase: str = "settled") -> str:
    told = "" if center is None else f', "dc": "{center}"'
    return f'{phase} {node} ring {{"self": {{"address": "{node}"{told}}}, "peers": {{}}}}'


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        pytest.param([ring("n1", "a"), ring("n2", "b")], {"n1": "a", "n2": "b"}, id="two"),
        pytest.param([ring("n1", "a"), ring("n1", "a", phase="restarted")], {"n1": "a"}, id="twice"),
        pytest.param([ring("n1", "a"), ring("n1", "b", phase="restarted")], {}, id="two things"),
        pytest.param([ring("n1", "a", phase="running")], {}, id="on the way"),
        pytest.param([ring("n1", None)], {}, id="it does not say"),
        pytest.param([ring("n1", None), ring("n1", "a", phase="restarted")], {"n1": "a"}, id="once"),
        pytest.param(['settled n1 keyspace k {"self": {"dc": "a"}}'], {}, id="another reading"),
    ],
)
def test_a_node_stands_where_its_final_readings_say(lines: list[str], found: dict[str, str]) -> None:
    assert located(*lines) == found


def test_a_node_whose_ring_could_not_be_read_stands_nowhere() -> None:
    rows = observed(ring("n1", "a"), ring("n2", "b")).to_pylist()
    unread = [row | {"definition": None} if (row["node"], row["kind"]) == ("n1", "ring") else row for row in rows]
    evidence = Evidence.of(Records.of(events(), pa.Table.from_pylist(unread, schema=OBSERVATIONS)))
    assert read_locations(evidence) == {"n2": "b"}


def change(process: int, f: str, replication: str, outcome: str = "ok") -> list[str]:
    return [
        f'@{process + 1} p{process} n1 invoke {f} k {{"replication": {replication}}}',
        f"@{process + 1} p{process} n1 {outcome}",
    ]


def by_center(**centers: int) -> str:
    return orjson.dumps({"class": "NetworkTopologyStrategy", **centers}).decode()


SIMPLE = '{"class": "SimpleStrategy", "replication_factor": 3}'


def test_replicas_are_those_of_changes_of_keyspaces_by_clients_that_may_have_been_made() -> None:
    made = [*change(0, "create-keyspace", by_center(a=2)), *change(2, "alter-keyspace", by_center(b=2), "info")]
    other = [*change(3, "alter-keyspace", by_center(c=2), "fail E"), *change(4, "create-table", by_center(d=2))]
    value = f'{{"replication": {by_center(e=2)}}}'
    by_nobody = [f"@6 -- invoke alter-keyspace {value}", f"@7 -- ok alter-keyspace {value}"]
    assert list_placements(events(*made, *other, *by_nobody)) == [{"a": 2}, {"b": 2}]
    assert list_placements(events(*change(1, "create-keyspace", SIMPLE))) == [{}]
    assert list_placements(events(*change(1, "create-keyspace", "null"))) == [{}]


def test_one_data_center_after_none_are_not_several() -> None:
    changed = [*change(1, "create-keyspace", SIMPLE), *change(2, "alter-keyspace", by_center(a=3))]
    assert find_centers(events(*changed)) == {}
    assert find_centers(events(*changed, *change(3, "alter-keyspace", by_center(a=3, b=3)))) is None
    assert find_centers(events(*change(3, "create-keyspace", by_center(a=3, b=3)))) == {"a": 3, "b": 3}


def test_a_data_center_without_replicas_has_no_majority() -> None:
    centers = {"dc1": 2, "dc2": 2, "dc3": 0}
    assert count_at(Asked("EACH_QUORUM", "dc1"), centers) == 4
    assert count_at(Asked("LOCAL_QUORUM", "dc4"), centers) == count_at(Asked("LOCAL_QUORUM", None), centers) == 1
    assert count_at(Asked("LOCAL_QUORUM", "dc1"), centers) == 2
