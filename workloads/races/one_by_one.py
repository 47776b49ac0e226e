"""One by one: schema changes that are not raced, made by one coordinator in turn, as every era's manual asks.

Up to 1.1 a change is refused while an earlier one is still on its way to some node ("Cluster schema does not yet agree",
`SchemaDisagreementException`; CASSANDRA-2222, until CASSANDRA-4487 in 1.2), and before that check existed it forked the
cluster (seed document 1, "Concurrency": only one migration can be active within a cluster at any time). The client never
waits for agreement; here a refused change is asked for again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from schemaquake.harness.model.protocols import Context
from schemaquake.harness.model.steps import Invoke, Require, Step, Wait
from schemaquake.workloads.races.options import racing_options

__all__ = ["heard_by_all", "one_at_a_time", "one_by_one", "rest"]

# About the time in which an idle peer has a migration: most changes are then accepted at the first attempt.
_ARRIVES_S: Final = 0.03
# Long against the milliseconds a migration takes to reach an idle peer, short against a run.
_REST_S: Final = 0.4
_TAKEN_WITHIN_S: Final = 20.0


def one_at_a_time(context: Context) -> bool:
    """Return True if only one change may be active at a time in this era's clusters: up to 1.1, before collections."""
    return not {"collections", "types"} & context.features


def one_by_one(changes: Iterable[Invoke], context: Context) -> Iterator[Step]:
    """Yield the changes in order; where the era needs it each is required, and has time to reach every node."""
    if not one_at_a_time(context):
        yield from changes
        return
    for change in changes:
        yield Require(change, _TAKEN_WITHIN_S)
        yield Wait(_ARRIVES_S)


def rest(context: Context) -> Iterator[Wait]:
    """Yield the pause between two changes that must not meet and may not be repeated; none where coordinators act alone."""
    if one_at_a_time(context):
        yield Wait(_REST_S)


def heard_by_all(context: Context) -> Iterator[Wait]:
    """Yield the pause of a client that is alone and patient (`-O patience=SECONDS`; 0: it asks for one change after the other).

    Raises PlanError for an option that is no such number.
    """
    patience_s = racing_options(context.options).patience
    if patience_s:
        yield Wait(patience_s)
    else:
        yield from rest(context)
