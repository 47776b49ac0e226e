"""Outcomes: only an error that proves that nothing happened is a fail; what nobody listed is info."""

from __future__ import annotations

import importlib
import re

import pytest
from cassandra import ConsistencyLevel, OperationTimedOut, WriteType, protocol
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionException, ConnectionShutdown, CrcMismatchException

from schemaquake.clusters.cql.outcomes import TABLE, classify, is_already_there
from schemaquake.harness.registry import load

DRIVER = [importlib.import_module(name) for name in ("cassandra", "cassandra.protocol", "cassandra.connection")]
REPLICAS = {"consistency": ConsistencyLevel.QUORUM, "required_responses": 2, "received_responses": 1}


def answered(message_class, text, **info):
    """The exception that a client meets when the server answers with that error frame."""
    return message_class(0, text, info).to_exception()


def refused(text):
    return answered(protocol.InvalidRequestException, text)


WRITE_TIMEOUT = answered(protocol.WriteTimeoutErrorMessage, "", **REPLICAS, write_type=WriteType.SIMPLE)
WRITE_FAILURE = answered(
    protocol.WriteFailureMessage,
    "",
    **REPLICAS,
    write_type=WriteType.SIMPLE,
    failures=1,
    error_code_map={"10.77.0.2": 0x0007},
)
READ_TIMEOUT = answered(protocol.ReadTimeoutErrorMessage, "", **REPLICAS, data_retrieved=False)
READ_FAILURE = answered(
    protocol.ReadFailureMessage, "", **REPLICAS, failures=1, error_code_map={}, data_retrieved=False
)
UNAVAILABLE = answered(
    protocol.UnavailableErrorMessage,
    "",
    consistency=ConsistencyLevel.QUORUM,
    required_replicas=2,
    alive_replicas=1,
)
COMMIT_TIMEOUT = refused("Could not perform commit after 3 attempts. Time remaining: 0ms")
ENACT_TIMEOUT = refused("Timed out while waiting for the follower to enact the epoch Epoch{epoch=31}")
PAUSED = refused("Commits are paused, not trying to commit CreateTable")
MERGED = answered(protocol.ConfigurationException, "Column family ID mismatch (found 5b1c; expected 6e21)")
MERGE_FAILED = answered(
    protocol.ServerError,
    "java.lang.RuntimeException: java.util.concurrent.ExecutionException: "
    "org.apache.cassandra.exceptions.ConfigurationException: Column family ID mismatch (found 5b1c; expected 6e21)",
)

CASES = [
    ("6.0's commit may have been made", COMMIT_TIMEOUT, "schema", "info"),
    ("6.0 committed, this coordinator has not seen it", ENACT_TIMEOUT, "schema", "info"),
    ("6.0 took nothing while paused", PAUSED, "schema", "fail"),
    ("a refused change", refused("Keyspace 'k' doesn't exist"), "schema", "fail"),
    ("a refused write", refused("unconfigured table t"), "write", "fail"),
    ("a write that speaks of a commit is refused all the same", COMMIT_TIMEOUT, "write", "fail"),
    ("a statement that is none", answered(protocol.SyntaxException, "line 1:0 no viable alternative"), "any", "fail"),
    ("not allowed", answered(protocol.UnauthorizedErrorMessage, "User x has no CREATE permission"), "any", "fail"),
    ("known already", answered(protocol.AlreadyExistsException, "", keyspace="k", table="t"), "schema", "fail"),
    ("the change stands where its node cannot load it", MERGED, "schema", "info"),
    *(
        (f"unknown to the coordinator - {text}", answered(protocol.ConfigurationException, text), "schema", "fail")
        for text in (
            "Cannot drop non existing keyspace 'k'.",
            "Cannot add column family 't' to non existing keyspace 'k'.",
            "Cannot add table 't' to non existing keyspace 'k'.",
            "Cannot update non existing column family 't' in keyspace 'k'.",
            "Keyspace k doesn't exist",
        )
    ),
    ("1.2 to 3.11 failed in their merge, after the write", MERGE_FAILED, "schema", "info"),
    ("a refused write by configuration", MERGED, "write", "fail"),
    ("never sent", NoHostAvailable("Unable to complete the operation against any hosts", {}), "any", "fail"),
    ("no answer in time", OperationTimedOut({"10.77.0.1": "Client request timeout"}), "write", "info"),
    ("no answer to a change in time", OperationTimedOut(), "schema", "info"),
    ("too few replicas were alive to try", UNAVAILABLE, "write", "fail"),
    ("too few replicas for a later round of a lightweight transaction", UNAVAILABLE, "conditional", "info"),
    ("a refused lightweight transaction", refused("unconfigured table t"), "conditional", "fail"),
    ("too few replicas for a change: nobody promises that nothing was done", UNAVAILABLE, "schema", "info"),
    ("some replicas answered", WRITE_TIMEOUT, "write", "info"),
    ("a replica refused", WRITE_FAILURE, "write", "info"),
    ("a change whose mutation timed out", WRITE_TIMEOUT, "schema", "info"),
    ("not serving yet", answered(protocol.IsBootstrappingErrorMessage, "Cannot achieve"), "any", "fail"),
    ("failed on the way", answered(protocol.ServerError, "java.lang.NullPointerException"), "schema", "info"),
    ("a server error on a write", answered(protocol.ServerError, "BufferUnderflowException"), "write", "info"),
    ("shed", answered(protocol.OverloadedErrorMessage, "Query timed out"), "write", "info"),
    ("half truncated", answered(protocol.TruncateError, "Truncate timed out"), "schema", "info"),
    ("the connection broke", ConnectionException("Pool for 10.77.0.1 is shutdown"), "schema", "info"),
    ("the connection was closed", ConnectionShutdown("Connection to 10.77.0.1 was closed"), "write", "info"),
    ("a frame was damaged", CrcMismatchException("CRC mismatch"), "write", "info"),
    ("something nobody has seen before", KeyError("schema_version"), "schema", "info"),
    ("something the driver tripped over", ValueError("unpack requires 4 bytes"), "write", "info"),
    ("a function failed in a write", answered(
        protocol.FunctionFailureMessage, "", keyspace="k", function="f", arg_types=["int"]), "write", "info"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "on", "means"), [pytest.param(error, on, means, id=name) for name, error, on, means in CASES]
)
def test_error_means_no_more_than_it_proves(error, on, means):
    for kind in ("write", "schema") if on == "any" else (on,):
        outcome = classify(error, on=kind)
        assert outcome.means == means
        assert outcome.because


@pytest.mark.parametrize(
    "error",
    [
        READ_TIMEOUT,
        READ_FAILURE,
        UNAVAILABLE,
        COMMIT_TIMEOUT,
        OperationTimedOut(),
        ConnectionShutdown("closed"),
        answered(protocol.ServerError, "BufferUnderflowException"),
        KeyError("x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_becomes_of_a_read_it_changed_nothing(error):
    assert classify(error, on="read").means == "fail"


def test_no_error_means_that_it_happened():
    assert {row.means for row in TABLE} == {"fail", "info"}


def test_what_is_not_listed_is_info():
    assert (TABLE[-1].error, TABLE[-1].text, TABLE[-1].on, TABLE[-1].means) == ("*", "", "any", "info")


# What the server says where the table looks at its words.
WORDS = [
    "Could not perform commit after 3 attempts. Time remaining: 0ms",
    "Timed out while waiting for the follower to enact",
    "Can't commit transformations when running in gossip mode. Enable the ClusterMetadataService with `nodetool cms initialize`.",
    "Commits are paused",
    "Keyspace k doesn't exist",
    "ExecutionException",
    "",
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.error}-{row.on}-{row.text[:12]}")
def test_no_row_stands_in_the_shade_of_an_earlier_one(row):
    text = next(words for words in WORDS if re.search(row.text, words))
    error = type("Unheard" if row.error == "*" else row.error, (Exception,), {})(text)
    kinds = ("read", "write", "schema") if row.on == "any" else (row.on,)
    assert row in [classify(error, on=kind) for kind in kinds]


@pytest.mark.parametrize("name", sorted({row.error for row in TABLE} - {"*", "NoHostAvailable"}))
def test_every_listed_error_is_one_the_driver_raises(name):
    found = [getattr(module, name) for module in DRIVER if hasattr(module, name)]
    assert any(isinstance(cls, type) and issubclass(cls, Exception) for cls in found)


def test_the_table_is_what_list_errors_prints():
    assert load("outcomes", "cql") is TABLE


@pytest.mark.parametrize(
    ("error", "there"),
    [
        ("AlreadyExists: Table 'ks.t' already exists", True),
        ("InvalidRequest: Error from server: A user type of name ks.u already exists", True),
        ("InvalidRequestException: system_add_keyspace: Keyspace already exists.", True),
        ("InvalidRequestException: CF t is already defined in that keyspace.", True),
        ("InvalidRequest: Invalid column name c because it conflicts with an existing column", True),
        ("InvalidRequest: Table 'ks.t' doesn't exist", False),
        ("OperationTimedOut: errors={}", False),
    ],
)
def test_what_is_already_there_is_told_from_other_refusals(error: str, there: bool) -> None:
    assert is_already_there(error) is there
