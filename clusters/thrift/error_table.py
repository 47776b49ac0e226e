"""Thrift error table: the rows of `schemaquake.clusters.thrift.outcomes`, which need no Thrift library to be read.

The texts begin with the call that failed, because of the two calls of an alteration, the first changes nothing. In
all these versions every `system_…` call asks all live nodes for their versions before it applies anything
(CassandraServer.validateSchemaAgreement), and never after: a disagreement that such a call reports proves that nothing
was changed. `execute_cql_query` asks once more after it applied a change, and reports both with the same exception.
A migration that is not the next one (0.7–1.0) dies on the server's migration stage, and its client receives an internal
error, as it does when the stage died half-way: a client cannot distinguish the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schemaquake.clusters.systems.outcome import Outcome

__all__ = ["TABLE"]

TABLE: Final[Sequence[Outcome]] = (
    Outcome("*", "", "read", "fail", "a read changes nothing, even if it failed"),
    Outcome("NotConnected", "", "any", "fail", "no connection to the pinned coordinator: it was never sent"),
    Outcome(
        "NotInThisEra", "", "any", "fail", "the interface of this version has no such operation: it was never sent"
    ),
    Outcome("RefusedHere", "", "any", "fail", "the definition just read does not allow it: it was never sent"),
    Outcome("ValueError", "", "write", "fail", "a value that the column cannot hold: it was never sent"),
    Outcome(
        "*", r"^(?:set_keyspace|describe_\w+)\b", "any", "fail", "the call only reads, and the change was not sent yet"
    ),
    Outcome("NotFoundException", "", "any", "fail", "the coordinator does not know the object, and did nothing"),
    Outcome(
        "SchemaDisagreementException",
        r"^execute_cql_query\b",
        "schema",
        "info",
        "0.8–1.1: before the change was applied, or after: CQL asks twice, and answers the same",
    ),
    Outcome(
        "SchemaDisagreementException",
        "",
        "schema",
        "fail",
        "0.8–1.1: the nodes did not agree before the change, so nothing was applied",
    ),
    Outcome(
        "InvalidRequestException",
        r"Cluster schema does not yet agree",
        "schema",
        "fail",
        "0.7.3 and later: the nodes did not agree before the change, so nothing was applied",
    ),
    Outcome("InvalidRequestException", "", "any", "fail", "the coordinator refused it before doing anything"),
    Outcome("UnavailableException", "", "write", "fail", "too few replicas were alive, so it was sent to none"),
    Outcome("TimedOutException", "", "any", "info", "some replicas may have it"),
    Outcome("TApplicationException", r"Invalid method name", "any", "fail", "the server knows no such call"),
    Outcome("TApplicationException", "", "any", "info", "the server failed somewhere on the way"),
    Outcome("TTransportException", "", "any", "info", "the connection broke after the request may have left"),
    Outcome("OSError", "", "any", "info", "no answer came in time, or the connection broke"),
    Outcome("*", "", "any", "info", "not listed: the effect is unknown"),
)
