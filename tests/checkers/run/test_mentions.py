"""Mentions: objects are found by names, by observed ids, and by the ids of 1.2 and 2.0."""

from __future__ import annotations

from histories import judged

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.run.mentions import Mentions

HISTORY = (
    "p0 n1 invoke create-table sq_drop_alter_002.t k:int*",
    "p0 n1 ok",
    "p0 n1 invoke create-table sq_drop_alter_002.other k:int*",
    "p0 n1 ok",
)


def keys(text: str, *observations: str) -> list[str]:
    records = judged(HISTORY, observations)
    return list(Mentions(Evidence.of(records)).keys(text))


def test_a_table_is_known_by_its_name() -> None:
    assert keys("No such table sq_drop_alter_002.t, nor sq_drop_alter_003.t") == ["sq_drop_alter_002.t"]


def test_a_table_is_known_by_an_id_that_some_node_told() -> None:
    told = "settled n1 table sq_drop_alter_002.t id=27169b30e5aa11f1a10bc7d846986706 k:int*"
    assert keys("Couldn't find cfId=27169b30-e5aa-11f1-a10b-c7d846986706", told) == ["sq_drop_alter_002.t"]
    assert keys("Couldn't find cfId=27169b30-e5aa-11f1-a10b-c7d846986706") == []


def test_a_table_is_known_by_the_hash_that_1_2_and_2_0_use_for_an_id() -> None:
    """As a node of 1.2.19 wrote it."""
    line = (
        "org.apache.cassandra.db.UnknownColumnFamilyException: Couldn't find cfId=53ef084b-57b0-34a3-8fb4-95a203bd95ba"
    )
    assert keys(line, "settled n1 table sq_drop_alter_002.t k:int*") == ["sq_drop_alter_002.t"]


def test_a_table_is_known_by_its_management_bean() -> None:
    """As a node of 6.0-alpha2 wrote it that did not start again."""
    bean = "javax.management.InstanceAlreadyExistsException: org.apache.cassandra.db:type=Tables,keyspace={},table=t"
    assert keys(bean.format("sq_drop_alter_002")) == ["sq_drop_alter_002.t"]
    assert keys(bean.format("sq_drop_alter_003")) == []


def test_a_table_is_known_by_its_directory() -> None:
    path = "/nodes/n1/data/{}-27169b30e5aa11f1a10bc7d846986706/nb-1-big-Data.db"
    assert keys(path.format("sq_drop_alter_002/t")) == ["sq_drop_alter_002.t"]
    assert keys(path.format("sq_drop_alter_002/t2")) == []
