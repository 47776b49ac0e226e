"""Outcomes: the one table that says what every error class proves about the operation that met it.

Only an error that proves an operation did not happen makes it `fail`; an error that is not listed is `info`. The first row
that matches decides. The same table feeds the client, `schemaquake list errors` and the documentation.
Sources: native protocol specification §9; CASSANDRA-18330 for the 6.0 rows; observations of real servers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from schemaquake.clusters.systems.outcome import Kind, Outcome, first_match

__all__ = ["TABLE", "classify", "is_already_there"]


TABLE: Final[Sequence[Outcome]] = (
    Outcome("*", "", "read", "fail", "a read changes nothing, even if it failed"),
    Outcome("NoHostAvailable", "", "any", "fail", "no connection to the pinned coordinator: it was never sent"),
    Outcome("SyntaxException", "", "any", "fail", "it could not be parsed"),
    Outcome("Unauthorized", "", "any", "fail", "the coordinator refused it for lack of permission"),
    Outcome("AlreadyExists", "", "any", "fail", "the coordinator already knew the object, and did nothing"),
    Outcome(
        "InvalidRequest",
        r"Could not perform commit|Time remaining",
        "schema",
        "info",
        "6.0: the metadata service may have committed it; a timeout arrives as InvalidRequest",
    ),
    Outcome(
        "InvalidRequest",
        r"Timed out while waiting for the follower to enact",
        "schema",
        "info",
        "6.0: committed, but not yet visible on this coordinator",
    ),
    Outcome(
        "*",
        r"Can't commit transformations when running in gossip mode",
        "schema",
        "fail",
        "6.0: refused until `nodetool cms initialize`, before anything was done",
    ),
    Outcome(
        "*", r"Commits are paused", "schema", "fail", "6.0: refused before anything was done, as an operator had asked"
    ),
    Outcome("InvalidRequest", "", "any", "fail", "the coordinator refused it before doing anything"),
    Outcome(
        "ConfigurationException",
        r"Cannot (add|drop|update) .*non existing|Keyspace \S+ doesn't exist",
        "schema",
        "fail",
        "1.2–3.11: the coordinator did not know the object to change, and did nothing",
    ),
    Outcome(
        "ConfigurationException",
        "",
        "schema",
        "info",
        "2.1–5.0: the change may already stand in this node's schema tables when loading it fails",
    ),
    Outcome("ConfigurationException", "", "any", "fail", "the coordinator refused it before doing anything"),
    Outcome("Unavailable", "", "write", "fail", "too few replicas were alive, so it was sent to none"),
    Outcome(
        "Unavailable",
        "",
        "conditional",
        "info",
        "replicas are counted anew for every round and for the commit: an earlier round's proposal may stand",
    ),
    Outcome("IsBootstrappingErrorMessage", "", "any", "fail", "the coordinator does not serve yet"),
    Outcome("WriteTimeout", "", "any", "info", "some replicas may have it"),
    Outcome("WriteFailure", "", "any", "info", "some replicas may have it"),
    Outcome("OperationTimedOut", "", "any", "info", "no answer came in time"),
    Outcome(
        "ServerError",
        r"ExecutionException",
        "schema",
        "info",
        "1.2–3.11: the schema tables are written before the merge that failed, and the write stays",
    ),
    Outcome("ServerError", "", "any", "info", "the server failed somewhere on the way"),
    Outcome(
        "OverloadedErrorMessage", "", "any", "info", "shed by the coordinator or by a replica: the error does not say"
    ),
    Outcome("TruncateError", "", "any", "info", "some replicas may have truncated"),
    Outcome("ConnectionException", "", "any", "info", "the connection broke after the request may have left"),
    Outcome("ConnectionShutdown", "", "any", "info", "the connection broke after the request may have left"),
    Outcome("*", "", "any", "info", "not listed: the effect is unknown"),
)


def classify(error: BaseException, *, on: Kind, system_outcomes: Sequence[Outcome] = ()) -> Outcome:
    """Find the first row for this error on this kind of operation. `system_outcomes` are one system's own rows, tried first."""
    return first_match((*system_outcomes, *TABLE), error, str(error), on=on)


_ALREADY_THERE: Final = re.compile(
    r"AlreadyExists|\balready (exist|defined|contains)|conflicts with an existing column"
)


def is_already_there(error: str) -> bool:
    """Return True if an error, class first, says that the object exists. Holds for the texts of every line, 0.7 to 6.0."""
    return _ALREADY_THERE.search(error) is not None
