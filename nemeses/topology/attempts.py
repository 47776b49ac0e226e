"""Attempts: one operation on the topology, tried again or ended as an operator would when it fails.

After a failure it is retried, resumed, aborted, or started over: aborted, left alone for a while, and begun anew.
The outcome of an operation is `ok` if an attempt was acknowledged, `fail` if the first answer proves that nothing was
changed or an abort was acknowledged, and `info` otherwise. Its value is
`{"attempts": [attempt, …], "after_failure": word, "seconds"}`, with what the operation itself adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from schemaquake.harness.errors import ClusterError, PlanError
from schemaquake.harness.model.membership import SERVING, ChangeOutcome, MemberState
from schemaquake.harness.model.operation import JSON, Completion
from schemaquake.harness.model.protocols import Cluster, Fault, MemberListing
from schemaquake.harness.model.topology import Attempt, ChangesTopology, TopologyVerb
from schemaquake.harness.wait import pause_for, until

__all__ = [
    "DEAD_LIMIT_S",
    "Recovery",
    "all_up",
    "ask_about_dead",
    "changing",
    "lacks",
    "member_states",
    "refused",
    "serving_members",
    "some_other",
    "try_out",
    "undone_by",
]

DEAD_LIMIT_S: Final = 60.0
"""How long the others may take to take a node for dead that was taken down."""
_PAUSE_S: Final = 5.0
"""The time between a failure and what is done about it, in which a fault may end or gossip may spread."""
_RETRIES: Final = 3
_STARTS_OVER_AFTER_S: Final = 15.0
"""The time between an abort and the next beginning, in which rows are written that only a new beginning can hand over."""
_BACK_LIMIT_S: Final = 90.0
"""How long an operator waits for a node that a fault took down before the next try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The ways to go on when an attempt failed; one that is None does not exist."""

    up: Callable[[], bool] = lambda: True
    """Tells whether every node serves whose part in the operation is not to be down; until then nothing is tried."""
    retry: Callable[[], Attempt] | None = None
    resume: Callable[[], Attempt] | None = None
    abort: Callable[[], Attempt] | None = None
    undoes: bool = True
    """False if an abort that went well may have undone nothing, because others carry the change on."""
    starts_over: bool = False
    """True if what was aborted can be begun anew (`start-over`), after a time in which clients write to the node as before."""

    def way(self, name: str) -> Callable[[], Attempt]:
        """Return the way of that name, or to try again where there is none."""
        way = {"resume": self.resume, "abort": self.abort}.get(name) or self.retry
        assert way is not None
        return way


def changing(cluster: Cluster) -> ChangesTopology:
    """Return the cluster as one whose membership can be changed. Raises PlanError for any other."""
    if not isinstance(cluster, ChangesTopology):
        raise PlanError("the membership of this cluster cannot be changed")
    return cluster


def lacks(cluster: Cluster, *verbs: TopologyVerb, replaces: bool = False) -> str | None:
    """Say why the cluster cannot be asked for any of these, as `OwnLack` does; None if it can."""
    if not isinstance(cluster, ChangesTopology):
        return "the membership of this cluster cannot be changed"
    if replaces and (reason := cluster.cannot_replace()) is not None:
        return reason
    return next((reason for verb in verbs if (reason := cluster.cannot(verb)) is not None), None)


def undone_by(cluster: Cluster, verb: TopologyVerb) -> bool:
    """Return whether a change is undone by this verb, or where there is none by a restart of the node that began it.

    Not so by a restart where others carry changes on: a request that still waits its turn is seen on no node.
    """
    change = changing(cluster)
    return change.cannot(verb) is None or not change.outlives_restart()


def member_states(cluster: Cluster) -> Mapping[str, MemberState]:
    """Return the state of each node that the cluster lists; empty for a cluster that lists no members. Raises ClusterError."""
    listed = cluster.members() if isinstance(cluster, MemberListing) else {}
    return {name: member.state for name, member in listed.items()}


def some_other(cluster: Cluster, *names: str) -> str:
    """Return the first node that serves and is none of these, as the one to be asked. Raises ClusterError."""
    states = member_states(cluster)
    for node in cluster.nodes:
        if node.name not in names and states.get(node.name, "normal") in SERVING and node.state() == "running":
            return node.name
    raise ClusterError(f"no node but {', '.join(names)} runs that could be asked")


def serving_members(cluster: Cluster) -> Sequence[str]:
    """Return the members that run, in the order of the nodes."""
    states = member_states(cluster)
    return [
        node.name for node in cluster.nodes if states.get(node.name, "normal") in SERVING and node.state() == "running"
    ]


def ask_about_dead(cluster: Cluster, name: str, verb: TopologyVerb, *, limit_s: float) -> Attempt:
    """Ask another node for a change of one that was killed, once the others take it for dead.

    Before that they refuse ("Can't abort bootstrap for NodeId{id=4} - it is alive").
    """
    change = changing(cluster)
    change.await_dead(name, limit_s=DEAD_LIMIT_S)
    return change.ask(verb, on=some_other(cluster, name), about=name, limit_s=limit_s)


def all_up(cluster: Cluster, *but: str) -> bool:
    """Return whether every member serves, but for these nodes; not if no node says who the members are."""
    try:
        states = member_states(cluster)
    except ClusterError:  # a later attempt is the one that says so, beside those before it
        return False
    return all(
        node.state() == "running" and node.await_serving(deadline_s=1).served
        for node in cluster.nodes
        if node.name not in but and states.get(node.name, "normal") in SERVING
    )


def refused(reason: str) -> Completion:
    """Return the completion of an operation that was not asked for, because the cluster is not as it was planned to be."""
    return Completion(type="fail", value={"attempts": []}, error=f"NotAsked: {reason}")


def try_out(
    operation: Fault, begin: Callable[[], Attempt], recovery: Recovery, *, more: Mapping[str, JSON] | None = None
) -> Completion:
    """Make the first attempt, and what the operation's `after_failure` says as long as its outcome is unknown."""
    way = str(operation.parameters.get("after_failure", "retry"))
    attempts = [begin()]
    outcome = attempts[0].outcome
    if outcome == "info" and way == "start-over" and recovery.starts_over:
        outcome = _start_over(attempts, begin, recovery)
    elif outcome == "info":
        act = recovery.way(way)
        for _ in range(_RETRIES):
            _await_all_up(recovery)
            attempts.append(act())
            if attempts[-1].outcome != "info":
                break
        outcome = "info"
        if attempts[-1].outcome == "ok":
            is_abort = act == recovery.abort
            outcome = "ok" if not is_abort else "fail" if recovery.undoes else "info"
    value = {
        "attempts": [attempt.to_json() for attempt in attempts],
        "seconds": round(sum(attempt.seconds for attempt in attempts), 3),
        **(more or {}),
    }
    last = attempts[-1]
    error = None if outcome == "ok" else f"{_name_of(last)}: {last.answer or last.command}"
    return Completion(type=outcome, value=value, error=error)


def _start_over(attempts: list[Attempt], begin: Callable[[], Attempt], recovery: Recovery) -> ChangeOutcome:
    """Take the node back to what it was, let clients go on for a while, and begin anew, until an attempt is acknowledged.

    The answers are added to `attempts`. There may be nothing to abort, so what that answers decides only whether a refusal
    of the next beginning counts: it does if all before it was undone.
    """
    assert recovery.abort is not None
    for _ in range(_RETRIES):
        _await_all_up(recovery)
        aborted = recovery.abort()
        attempts.append(aborted)
        pause_for(_STARTS_OVER_AFTER_S)
        _await_all_up(recovery)
        begun = begin()
        attempts.append(begun)
        if begun.outcome == "fail":
            return "fail" if aborted.outcome == "ok" and recovery.undoes else "info"
        if begun.outcome == "ok":
            return "ok"
    return "info"


def _await_all_up(recovery: Recovery) -> None:
    pause_for(_PAUSE_S)
    with suppress(TimeoutError):  # then the attempt says what is wrong
        until(recovery.up, deadline_s=_BACK_LIMIT_S, what="all nodes up", every_s=1)


def _name_of(attempt: Attempt) -> str:
    if attempt.timed_out:
        return "TimedOut"
    return "Refused" if attempt.outcome == "fail" else "Failed" if attempt.outcome == "info" else "Aborted"
