"""Replication: the number of replicas of a keyspace is changed by one, and every node is repaired.

The ALTER KEYSPACE is a request of a client like any other: it stands in the history with its own outcome, and checkers of the
schema judge it. By one at a time, because quorums before and after then share a replica even before the repair: a majority of
n and one of n + 1 replicas are more than n + 1 together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from schemaquake.harness.ddl.schema_changes import alter_keyspace
from schemaquake.harness.errors import ClusterError, PlanError
from schemaquake.harness.model.operation import JSON, Completion
from schemaquake.harness.model.options import option, truth
from schemaquake.harness.model.protocols import Cluster, Context, Fault
from schemaquake.harness.model.topology import Attempt, Requests
from schemaquake.harness.wait import pause_for, until
from schemaquake.nemeses.schedule.options import configured
from schemaquake.nemeses.topology import standard_options as standard
from schemaquake.nemeses.topology.attempts import all_up, changing, lacks, refused, serving_members, some_other
from schemaquake.nemeses.topology.planning import ANY, in_series, nobody_changes, planned
from schemaquake.nemeses.topology.requests import ask_as_client, refuse_unrecorded

__all__ = ["RfChange"]

_TRIES: Final = 3
_PAUSE_S: Final = 5.0
_BACK_LIMIT_S: Final = 90.0
_SHOWN_LIMIT_S: Final = 30.0
_STRATEGY: Final = "SimpleStrategy"


@dataclass(frozen=True, kw_only=True)
class RfChange:
    """`--nemesis rf-change`; `-O rf-change.factor=2`."""

    name = "rf-change"
    needs = frozenset({"topology"})
    keeps_members = True
    allowed_by = "topology"
    options = standard.TopologyOptions()

    keyspace: str = option(ANY, "the keyspace, one of the run's; `any`: the seed chooses among those there are")
    factor: int = option(0, "the replication factor that it gets; 0: one more or one less, as the seed draws")
    repair: bool = option(True, "true if every node is repaired afterwards, as operators have to", parse=truth)
    count: int = standard.count()
    begins_s: float = standard.at()
    limit_s: float = standard.limit()

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan one change, or `count`, which concern no node in particular. Raises PlanError."""
        plan = configured(self, context)
        if plan.factor < 0:
            raise PlanError(f"-O {self.name}.factor={plan.factor}: at least 1")

        def one(_number: int) -> Sequence[Fault]:
            return planned(
                self.name,
                context,
                random,
                nodes=(),
                begins_s=plan.begins_s,
                keyspace=plan.keyspace,
                factor=plan.factor,
                repair=plan.repair,
                limit_s=plan.limit_s,
                fraction=round(random.random(), 9),
            )

        return in_series(plan, context, one)

    becomes = nobody_changes

    words_for = standard.words_for_aim

    def missing(self, cluster: Cluster) -> str | None:
        """Say why rows cannot be brought to their new replicas here."""
        return lacks(cluster, "repair")

    operate = refuse_unrecorded

    def operate_as_client(self, cluster: Cluster, operation: Fault, requests: Requests) -> Completion:
        """Alter the keyspace through a node that serves, wait until all show it, then repair all nodes, one after another.

        `shown_by` of the value are the nodes that showed the new factor before the first repair: a node repairs the ranges that it
        has by the factor that it knows.
        """
        coordinator = some_other(cluster)
        chosen = _choose(requests.replications(coordinator), operation, nodes=len(serving_members(cluster)))
        if chosen is None:
            return refused("there is no keyspace whose replication factor could be changed")
        keyspace, before, factor = chosen
        attempts = _alter(cluster, requests, keyspace, factor)
        shown_by = _await_shown(cluster, requests, keyspace, factor) if attempts[-1].outcome == "ok" else []
        if attempts[-1].outcome == "ok" and operation.parameters["repair"]:
            attempts += _repair_all(cluster, keyspace, float(operation.parameters["limit_s"]))
        # A refusal of what was perhaps done before proves nothing, and no refusal of a repair undoes the ALTER.
        outcome = attempts[-1].outcome if len(attempts) == 1 or attempts[-1].outcome == "ok" else "info"
        value = {
            "attempts": [attempt.to_json() for attempt in attempts],
            "seconds": round(sum(attempt.seconds for attempt in attempts), 3),
            "keyspace": keyspace,
            "from": before,
            "to": factor,
            "shown_by": shown_by,
        }
        last = attempts[-1]
        error = None if outcome == "ok" else f"Failed: {last.answer or last.command}"
        return Completion(type=outcome, value=value, error=error)


def _choose(
    replications: Mapping[str, Mapping[str, JSON]], operation: Fault, *, nodes: int
) -> tuple[str, int, int] | None:
    """Choose a keyspace, and return it with its factor and the next one; None if no keyspace can have another."""
    wanted, factor = operation.parameters["keyspace"], int(operation.parameters["factor"])
    found = []
    for keyspace, replication in sorted(replications.items()):
        if not str(replication.get("class", "")).endswith(_STRATEGY) or wanted not in {ANY, keyspace}:
            continue
        now = int(replication["replication_factor"])
        nexts = (factor,) if factor else (now - 1, now + 1)
        found += [(keyspace, now, each) for each in nexts if each != now and 1 <= each <= nodes]
    return found[int(float(operation.parameters["fraction"]) * len(found))] if found else None


def _alter(cluster: Cluster, requests: Requests, keyspace: str, factor: int) -> list[Attempt]:
    """Ask for the change, and again, through a node that serves then, while its outcome is unknown."""
    attempts: list[Attempt] = []
    while not attempts or (attempts[-1].outcome == "info" and len(attempts) < _TRIES):
        if attempts:
            _await_all_up(cluster)
        attempts.append(_alter_once(cluster, requests, keyspace, factor))
    return attempts


def _alter_once(cluster: Cluster, requests: Requests, keyspace: str, factor: int) -> Attempt:
    change = alter_keyspace(keyspace, replication_factor=factor)
    command = f"ALTER KEYSPACE {keyspace}, replication factor {factor}"
    return ask_as_client(requests, some_other(cluster), change, command=command)


def _await_shown(cluster: Cluster, requests: Requests, keyspace: str, factor: int) -> list[str]:
    """Wait until every member that serves shows the new factor, and return those that do in the end."""
    shown: list[str] = []

    def all_show_it() -> bool:
        shown[:] = [node for node in serving_members(cluster) if _shows(requests, node, keyspace, factor)]
        return len(shown) == len(serving_members(cluster))

    with suppress(TimeoutError):  # then the repairs of some nodes may be of too few ranges, which the value says
        until(all_show_it, deadline_s=_SHOWN_LIMIT_S, what="the new replication factor on all nodes", every_s=1)
    return shown


def _shows(requests: Requests, node: str, keyspace: str, factor: int) -> bool:
    try:
        replication = requests.replications(node).get(keyspace, {})
    except ClusterError:
        return False
    return str(replication.get("replication_factor")) == str(factor)


def _repair_all(cluster: Cluster, keyspace: str, limit_s: float) -> list[Attempt]:
    """Repair every node that serves; one whose repair failed is repaired again. Ends at a node that cannot be."""
    attempts: list[Attempt] = []
    for node in serving_members(cluster):
        for number in range(_TRIES):
            if number:
                _await_all_up(cluster)
            attempts.append(changing(cluster).ask("repair", on=node, argument=keyspace, limit_s=limit_s))
            if attempts[-1].outcome == "ok":
                break
        else:
            break
    return attempts


def _await_all_up(cluster: Cluster) -> None:
    pause_for(_PAUSE_S)
    with suppress(TimeoutError):  # then the attempt says what is wrong
        until(partial(all_up, cluster), deadline_s=_BACK_LIMIT_S, what="all nodes up", every_s=1)
