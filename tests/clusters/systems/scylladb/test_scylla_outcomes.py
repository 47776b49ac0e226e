"""ScyllaDB outcomes: what group 0 says of a schema change, whatever class of error it says it with."""

from __future__ import annotations

import pytest
from cassandra import AlreadyExists, InvalidRequest
from cassandra.protocol import ConfigurationException, ServerError

from schemaquake.clusters.cql import outcomes
from schemaquake.clusters.systems.scylladb.outcomes import TABLE
from schemaquake.harness.registry import load

GROUP = "group [2e8b1b70-93d5-11ee-8b41-d3a3a9d6e1c1] "
CONCURRENT = "Failed to apply group 0 change due to concurrent modification"
UNKNOWN = (
    "The outcome of this statement is unknown. It may or may not have been applied. "
    "Retrying the statement may be necessary."
)
UPGRADING = (
    "Cannot perform schema or topology changes during this time; the cluster is currently upgrading to use Raft for "
    "schema operations."
)


def server(text):
    return ServerError(0x0000, text, {})


CASES = [
    ("others came in between", server(CONCURRENT), "schema", "fail"),
    ("the same, as a refusal", InvalidRequest(CONCURRENT), "schema", "fail"),
    ("the outcome is unknown", InvalidRequest(UNKNOWN), "schema", "info"),
    ("the same, as a failure", server(UNKNOWN), "schema", "info"),
    ("no answer from the leader", server(f"{GROUP}raft operation [add_entry] timed out"), "schema", "info"),
    ("no majority to ask", server(f"{GROUP}raft operation [read_barrier] timed out, there is no raft quorum"), "schema", "fail"),
    ("the cluster is being upgraded", server(UPGRADING), "schema", "fail"),
    ("maintenance", ConfigurationException(0x2300, "cannot start group0 operation in the maintenance mode", {}), "schema", "fail"),
    ("validated and refused", ConfigurationException(0x2300, "Cannot create a table with RF 0", {}), "schema", "fail"),
    ("exists already", AlreadyExists(keyspace="k", table="t"), "schema", "fail"),
    ("anything else of the server's", server("std::bad_alloc"), "schema", "info"),
    ("a strongly consistent write", server(UNKNOWN), "write", "info"),
    ("a read", InvalidRequest(UNKNOWN), "read", "fail"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "on", "means"), [pytest.param(error, on, means, id=name) for name, error, on, means in CASES]
)
def test_error_means_no_more_than_it_proves(error, on, means):
    outcome = outcomes.classify(error, on=on, system_outcomes=TABLE)
    assert outcome.means == means
    assert outcome.because


def test_what_scylladb_says_means_nothing_new_on_cassandra():
    assert outcomes.classify(ConfigurationException(0x2300, "", {}), on="schema").means == "info"
    assert outcomes.classify(server(CONCURRENT), on="schema").means == "info"


SAID = [
    CONCURRENT,
    UNKNOWN,
    f"{GROUP}raft operation [read_barrier] timed out",
    f"{GROUP}raft operation [modify_config] timed out",
    UPGRADING,
    "",
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.text[:30] or row.error)
def test_no_row_stands_in_the_shade_of_an_earlier_one(row):
    error = type("Unheard" if row.error == "*" else row.error, (Exception,), {})
    assert any(outcomes.classify(error(text), on="schema", system_outcomes=TABLE) is row for text in SAID)


def test_the_table_is_what_list_errors_prints():
    assert load("outcomes", "group0") is TABLE
