"""Steps of operations on the topology, by the words of 5.0 and 6.0."""

from __future__ import annotations

import pytest

from schemaquake.clusters.systems.dialect import StepReading
from schemaquake.clusters.systems.system import parse_system
from schemaquake.harness.model.aim import STEPS

US, THEM = "10.0.0.3", "10.0.0.1"


def steps(version, **tables):
    """Read the steps of the node `US`; a table that is not given is refused."""
    reading = parse_system(version).cql.ring
    assert isinstance(reading, StepReading)

    def query(text):
        (name,) = [name for name in ("gossip_info", "streaming", "cluster_metadata_directory") if name in text]
        if name not in tables:
            raise RuntimeError(f"unconfigured table {name}")
        return tables[name]

    return sorted(reading.read_steps(query, [US]))


def directory(sequence, address=US):
    return [
        {"broadcast_address": THEM, "multi_step_operation": None},
        {"broadcast_address": address, "multi_step_operation": sequence},
    ]


@pytest.mark.parametrize(
    ("following", "done"),
    [
        ("START_LEAVE", ["PREPARE"]),
        ("MID_JOIN", ["START"]),
        ("FINISH_REPLACE", ["MID"]),
        ("PREPARE_MOVE", []),
        ("SOMETHING", []),
    ],
)
def test_the_directory_names_the_step_to_come(following, done):
    sequence = {"kind": "LEAVE", "status": "", "nextStep": following}
    assert steps("cassandra:6.0-alpha2", cluster_metadata_directory=directory(sequence)) == done
    assert steps("cassandra:6.0-alpha2", cluster_metadata_directory=directory(sequence, address=THEM)) == []
    assert steps("cassandra:6.0-alpha2", cluster_metadata_directory=directory({})) == []


@pytest.mark.parametrize(
    ("status", "under_way"),
    [("LEAVING,5", True), ("BOOT,5", True), ("MOVING,5", True), ("NORMAL,5", False), (None, False)],
)
def test_gossip_says_that_one_joins_leaves_or_moves(status, under_way):
    rows = [
        {"address": US, "status_with_port": status, "status": status},
        {"address": THEM, "status_with_port": "LEAVING,1"},
    ]
    assert steps("cassandra:5.0.9", gossip_info=rows) == (["under-way"] if under_way else [])


@pytest.mark.parametrize(
    ("status", "streams"), [("start", True), ("INIT", True), ("success", False), ("failure", False)]
)
@pytest.mark.parametrize(("version", "other"), [("cassandra:5.0.9", "gossip_info"), ("cassandra:6.0-alpha2", "cluster_metadata_directory")])  # fmt: skip
def test_a_stream_that_has_not_ended_is_one(version, other, status, streams):
    found = steps(version, streaming=[{"status": "success"}, {"status": status}], **{other: []})
    assert found == (["stream"] if streams else [])


def test_a_line_without_these_tables_shows_no_steps():
    assert steps("cassandra:3.11.19") == []


def test_a_ring_says_which_steps_it_shows():
    gossiping, logged = (
        parse_system(version).cql.ring.steps for version in ("cassandra:5.0.9", "cassandra:6.0-alpha2")
    )
    assert gossiping == {"under-way", "stream"}
    assert logged == {"PREPARE", "START", "MID", "stream"}
    assert gossiping | logged == set(STEPS)
