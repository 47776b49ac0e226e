"""Rounds of churn as races of their own: what they need is there, and nothing else."""

from __future__ import annotations

import pytest
from crew_at_work import FEATURES
from perfect_cluster import PerfectCluster

from schemaquake.harness.ddl.schema_changes import create_keyspace
from schemaquake.harness.model.protocols import Context
from schemaquake.harness.model.steps import Invoke
from schemaquake.workloads.churn.races import rounds_in
from schemaquake.workloads.races.scenario_file import race_from_json, race_to_json

CONTEXT = Context(seed=4, nodes=("n1", "n2", "n3"), features=FEATURES | {"cql", "rename"}, crew=3)
FIRST = "sq_schema_churn_000"


@pytest.fixture(scope="module")
def races():
    return rounds_in(CONTEXT, keyspaces={FIRST}, rounds=30)


def test_every_setup_can_be_carried_out_and_lets_a_statement_succeed(races):
    able = 0
    for found in races:
        cluster = PerfectCluster()
        if found.race.keyspace_exists:
            assert cluster.apply(create_keyspace(FIRST, replication_factor=3))
        assert all(cluster.apply(change) for change in found.race.setup)
        able += cluster.apply(found.race.sides[0][0])
    assert able > 0.8 * len(races)


def test_a_setup_has_no_more_than_what_is_named(races):
    assert sum(len(found.race.setup) for found in races) < 4 * len(races)


def test_single_rounds_come_with_pairs_of_successive_ones(races):
    variants = [found.race.variant for found in races]
    assert len(variants) == 30 + 29
    assert {"0", "1", "0+1"} <= set(variants)


def test_a_race_of_churn_is_read_back_from_a_scenario(races):
    for found in races:
        assert race_from_json(race_to_json(found.race)) == found.race
        assert all(isinstance(step, Invoke) for side in found.race.sides for step in side)


def test_other_keyspaces_are_left_out():
    assert rounds_in(CONTEXT, keyspaces={"other"}, rounds=5) == ()
