"""ScyllaDB outcomes: what an error of group 0 proves about the schema change that met it; the rest is as of any CQL.

A change is a command of the Raft group's log that names the state it starts from. A coordinator first waits by a read
barrier until it knows all that was committed, validates, and only then adds the command; so whatever fails before that
proves that nothing happened, and a command that was added may be applied although nobody waits for it any more. Some of
these errors come as ServerError and some as InvalidRequest, from one release to the next: the text is what counts.
Source: ScyllaDB, Making Schema Changes Safe with Raft; scylladb #17362; service/raft/raft_group0_client.cc of ScyllaDB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schemaquake.clusters.systems.outcome import Outcome

__all__ = ["TABLE"]

TABLE: Final[Sequence[Outcome]] = (
    Outcome(
        "*",
        r"concurrent modification|concurrent group 0 modification",
        "schema",
        "fail",
        "the state it started from was another one at each of its attempts, so none of them was applied",
    ),
    Outcome(
        "*",
        r"The outcome of this statement is unknown",
        "schema",
        "info",
        "the leader changed or the coordinator gave up while the command was being committed",
    ),
    Outcome(
        "*",
        r"raft operation \[read_barrier\] timed out",
        "schema",
        "fail",
        "the coordinator did not learn which state to start from, so there is no command",
    ),
    Outcome(
        "*", r"raft operation \[\w+\] timed out", "schema", "info", "the command may be in the log, and be applied yet"
    ),
    Outcome(
        "*",
        r"Cannot perform schema or topology changes during this time|in the maintenance mode",
        "schema",
        "fail",
        "the coordinator takes no change in this state",
    ),
    Outcome(
        "ConfigurationException",
        "",
        "schema",
        "fail",
        "a change is validated before its command is added to the log",
    ),
)
"""Tried before the rows of `schemaquake.clusters.cql.outcomes`."""
