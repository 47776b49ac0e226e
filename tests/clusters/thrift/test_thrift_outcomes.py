"""Thrift outcomes: only an error that proves that nothing happened is a fail; what nobody listed is info."""

from __future__ import annotations

import re

import pytest
from thriftpy2.thrift import TApplicationException
from thriftpy2.transport import TTransportException

from schemaquake.clusters.thrift.changes import NotInThisEra, RefusedHere
from schemaquake.clusters.thrift.connection import CallFailed, NotConnected
from schemaquake.clusters.thrift.dialects import DIALECTS
from schemaquake.clusters.thrift.outcomes import TABLE, classify
from schemaquake.harness.registry import load

IDL = DIALECTS[-1].idl
INTERNAL = TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error processing x")
UNHEARD = TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name: 'x'")
BROKE = TTransportException(TTransportException.END_OF_FILE, "TSocket read 0 bytes")
ADD = "system_add_column_family"


def refused(why):
    return IDL.InvalidRequestException(why=why)


CASES = [
    ("disagreement as 0.7 tells it", CallFailed(ADD, refused("Cluster schema does not yet agree")), "schema", "fail"),
    ("disagreement before a change", CallFailed(ADD, IDL.SchemaDisagreementException()), "schema", "fail"),
    ("of CQL nobody knows", CallFailed("execute_cql_query", IDL.SchemaDisagreementException()), "schema", "info"),
    ("refused", CallFailed(ADD, refused("CF is already defined in that keyspace.")), "schema", "fail"),
    ("an unknown object", CallFailed("describe_keyspace", IDL.NotFoundException()), "schema", "fail"),
    ("the migration stage failed", CallFailed(ADD, INTERNAL), "schema", "info"),
    ("no such call", CallFailed("truncate", UNHEARD), "schema", "fail"),
    ("the connection broke under a change", CallFailed(ADD, BROKE), "schema", "info"),
    ("the connection broke before it", CallFailed("describe_keyspace", BROKE), "schema", "fail"),
    ("no answer to the question before it", CallFailed("set_keyspace", TimeoutError("timed out")), "schema", "fail"),
    ("no answer to a change", CallFailed("system_update_keyspace", TimeoutError("timed out")), "schema", "info"),
    ("reset under a write", CallFailed("batch_mutate", ConnectionResetError(104, "reset by peer")), "write", "info"),
    ("some replicas may have it", CallFailed("batch_mutate", IDL.TimedOutException()), "write", "info"),
    ("too few were alive", CallFailed("batch_mutate", IDL.UnavailableException()), "write", "fail"),
    ("too few were alive for a change: nobody promises", CallFailed(ADD, IDL.UnavailableException()), "schema", "info"),
    ("never sent", NotConnected("no connection to 10.77.0.1:9160: refused"), "write", "fail"),
    ("not sayable", NotInThisEra("the Thrift interface of Cassandra 0.7 has no create-type"), "schema", "fail"),
    ("not to be asked for", RefusedHere("ks.t has no column c"), "schema", "fail"),
    ("a value that is none", ValueError("'x' is no value of Int32Type"), "write", "fail"),
    ("a mistake of ours in a change proves nothing", ValueError("too many values to unpack"), "schema", "info"),
    ("something nobody has seen before", KeyError("x"), "schema", "info"),
    ("an answer that could not be read", CallFailed("batch_mutate", KeyError(77)), "write", "info"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "on", "means"), [pytest.param(error, on, means, id=name) for name, error, on, means in CASES]
)
def test_error_means_no_more_than_it_proves(error, on, means):
    outcome = classify(error, on=on)
    assert outcome.means == means
    assert outcome.because


@pytest.mark.parametrize("error", [error for _, error, _, _ in CASES], ids=[name for name, *_ in CASES])
def test_whatever_becomes_of_a_read_it_changed_nothing(error):
    assert classify(error, on="read").means == "fail"


def test_no_error_means_that_it_happened():
    assert {row.means for row in TABLE} == {"fail", "info"}


def test_what_is_not_listed_is_info():
    assert (TABLE[-1].error, TABLE[-1].text, TABLE[-1].on, TABLE[-1].means) == ("*", "", "any", "info")


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.error}-{row.on}-{row.text[:12]}")
def test_no_row_stands_in_the_shade_of_an_earlier_one(row):
    words = [
        "",
        "describe_keyspace: x",
        "execute_cql_query",
        "Cluster schema does not yet agree",
        "Invalid method name",
    ]
    text = next(told for told in words if re.search(row.text, told))
    error = type("Unheard" if row.error == "*" else row.error, (Exception,), {})(text)
    kinds = ("read", "write", "schema") if row.on == "any" else (row.on,)
    assert row in [classify(error, on=kind) for kind in kinds]


def test_a_failed_call_is_told_with_its_name():
    assert str(CallFailed(ADD, refused("no\n good"))) == f"{ADD}: no good"
    assert str(CallFailed(ADD, IDL.SchemaDisagreementException())) == ADD


def test_the_table_is_what_list_errors_prints():
    assert load("outcomes", "thrift") is TABLE
