"""Allowance: what a plan asks of a deployed cluster, against what its owner allows.

Asked before anything is touched. Every kind of fault needs its word in `allow`; a kind that has no word is never
injected. No fault may last longer than `max_fault_seconds`, for then the nodes undo it by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from schemaquake.clusters.cluster_file.model import Allowed, ClusterFile
from schemaquake.harness.errors import FaultNotAllowed, PlanError
from schemaquake.harness.faults.executor import compose
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.registry import load
from schemaquake.harness.run.conductor import main_limit_s

__all__ = ["WORDS", "Asked", "asked", "check_plan"]

WORDS: Final[Mapping[str, Allowed]] = {
    "partition": "partition",
    "packet-loss": "packets",
    "kill": "kill",
    "stop": "stop",
    "pause": "pause",
    "restart": "restart",
    "rolling-restart": "restart",
    "clock": "clock",
    "error-injection": "errors",
}
"""Nemesis → the word that allows it."""

_HOW: Final = ("restart", "rolling-restart")
_OF_OUR_SERVERS: Final = ("yaml.", "property.")


class Asked(NamedTuple):
    """One word that a plan needs, what in the plan needs it, and how to ask for less."""

    word: Allowed
    by: str
    instead: str


def asked(plan: Plan) -> Sequence[Asked]:
    """Every word that the plan needs; of nemeses without one, none."""
    found = [
        Asked(WORDS[name], f"--nemesis {name}", f"leave out --nemesis {name}") for name in plan.nemeses if name in WORDS
    ]
    found += [
        Asked("kill", f"-O {name}.how=kill", f"leave out -O {name}.how")
        for name in _HOW
        if name in plan.nemeses and plan.options.get(f"{name}.how") == "kill"
    ]
    if plan.mode == "partition":
        found.append(Asked("partition", "--mode partition", "take another --mode"))
    if plan.restart != "none":
        found.append(Asked("restart", f"--restart {plan.restart} (of every node, at the end)", "say --restart none"))
    return found


def check_plan(plan: Plan, file: ClusterFile) -> None:
    """Refuse what the file does not allow, and what contradicts it.

    Raises FaultNotAllowed with every refusal, a line each; PlanError for a plan that is made for another cluster.
    """
    _refuse(PlanError, _contradictions(plan, file))
    _refuse(FaultNotAllowed, (*_not_allowed(plan, file), *_too_long(plan, file)))


def _refuse(error: type[PlanError], sentences: Iterator[str] | Sequence[str]) -> None:
    if told := "\n".join(dict.fromkeys(sentences)):
        raise error(told)


def _contradictions(plan: Plan, file: ClusterFile) -> Iterator[str]:
    """The command line refuses these, too; a plan may also come from elsewhere."""
    for what, planned, written in (
        ("the cluster", plan.cluster, file.provider),
        ("the system", plan.system, file.system),
        ("the number of nodes", plan.nodes, file.node_count),
        ("the keyspace prefix", plan.keyspace_prefix, file.keyspace_prefix),
    ):
        if written is not None and planned != written:
            yield f"{what} of the plan is {planned}, and that of the cluster file {written}: change one of them"
    if file.provider == "ssh":
        for option in plan.options:
            if option.startswith(_OF_OUR_SERVERS):
                yield f"-O {option} is for servers that the harness makes itself, not for those of a deployed cluster: leave it out"
        if plan.distribution is not None:
            yield "--distribution is for servers that the harness makes itself: what runs on those hosts runs there already"


def _not_allowed(plan: Plan, file: ClusterFile) -> Iterator[str]:
    for name in plan.nemeses:
        if name not in WORDS:
            yield (
                f'nemesis "{name}" is not known to be safe on a cluster that is somebody\'s, so no word allows it; '
                f"there are: {', '.join(WORDS)}"
            )
    for need in asked(plan):
        if need.word not in file.allow:
            yield f'{need.by} needs "{need.word}", which the cluster file does not allow: add it to allow, or {need.instead}'


def _too_long(plan: Plan, file: ClusterFile) -> Iterator[str]:
    """A fault that its nodes would undo while it is still wanted is not the fault that was planned."""
    limit_s = file.max_fault_seconds
    context = plan.context(frozenset())
    for name in plan.nemeses:
        if name not in WORDS:
            continue
        longest_s = max(
            (fault.ends_s - fault.begins_s for fault in compose([load("nemeses", name)], context)), default=0
        )
        if longest_s > limit_s:
            shorter = (
                f"-O {name}.seconds_a_node={limit_s / plan.nodes:g} or less"
                if name == "rolling-restart"
                else "a shorter --time-limit"
            )
            yield (
                f"--nemesis {name} plans a fault of {longest_s:g} s, and max_fault_seconds is {limit_s:g}: "
                f"raise that in the cluster file, or ask for {shorter}"
            )
    if plan.mode == "partition" and (held_s := main_limit_s(plan)) > limit_s:
        yield (
            f"--mode partition holds its cut for the whole main phase, which may last {held_s:g} s, and max_fault_seconds "
            f"is {limit_s:g}: raise that in the cluster file, or say --time-limit {plan.time_limit_s * limit_s / held_s:g}"
        )
