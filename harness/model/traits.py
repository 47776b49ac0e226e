"""Traits: facts that a plugin may declare of itself, with their defaults.

The protocols (`schemaquake.harness.model.protocols`) name what every plugin must have, and nothing inherits from them. What
a plugin may leave out is of two kinds. A *fact* is an attribute, with a default that is written here and read here alone.
A *verb* is a protocol of its own (`Undoable`, `Guarded`, `CatchingUp`, …), for which `isinstance` asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.protocols import Checker, Cluster, Nemesis, OwnLack, Workload

__all__ = [
    "CheckerTraits",
    "ClusterTraits",
    "NemesisTraits",
    "WorkloadTraits",
    "checker_traits",
    "cluster_traits",
    "lack",
    "lacking_means",
    "nemesis_traits",
    "workload_traits",
]

Traits = TypeVar("Traits")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadTraits:
    """Facts that a workload may declare."""

    endless: bool = False
    """Its main phase never ends by itself: it is paced by `--rate`, and makes the main phase last for the time limit."""
    keeps_schema: bool = False
    """True if it changes no schema after its setup, so that it disturbs nobody who changes one alone."""
    samples_setup: bool = True
    """False for a setup that is long and in which nothing races: the observer samples nodes only after it. Each sample between two of
    its statements would read all that was made so far."""
    sets_up_first: bool = False
    """True if its setup goes through the first node and needs no other one: on a cluster that can (`StartsInTwo`) the others are
    started after it. They then take over a schema at once whose every change they would otherwise have had to apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NemesisTraits:
    """Facts that a nemesis may declare."""

    needs: frozenset[str] = frozenset()
    """Means of the cluster without which it cannot work: `packets`, `signals`, `clock`, `topology`. Clusters prepare them
    only for runs whose nemeses need them."""
    allowed_by: str | None = None
    """The word by which the owner of a deployed cluster allows it (`allow` of the cluster file), one of the file's own or a
    new one; None: it is never used on such a cluster."""
    disturbs: str | None = None
    """The part of a node that it takes hold of: `process`, `packets`, `clock`, or a word of its own; None: its name. Of two
    faults that disturb the same part of one node the second is skipped."""
    effect: str | None = None
    """The kind of effect that `inject` and `heal` return, with an entry in `nodes` for each node: `down` (servers stop, and run again),
    `down-in-turn` (one after another), `frozen`, `clocks` or `packets`. The checker `faults` knows what each kind must show; None: it
    asks only whether an effect was observed."""
    keeps_members: bool = False
    """True if its operations on the topology leave every member the address and the host id that it has, as maintenance does: they
    explain no difference of these between two notes of the members."""
    kind_flags: Mapping[str, frozenset[str]] | None = None
    """Of operations whose parameter `kind` says which command they carry out: flag → the kinds whose parameters have it, as in
    `{"takes_down": {"drain"}}`. The checker `run-course` compares each operation with its attempts then. None: operations without kinds."""
    kind_attempts: Mapping[str, int] | None = None
    """Of such operations: kind → the commands that an acknowledged one takes at least; one for a kind that is left out."""
    checked_as: str | None = None
    """The name under which the doctor asks each node of a deployed cluster whether the nemesis lacks anything there
    (`OwnLack`), such as `packet filter`; None: the nemesis' own name."""
    checks_server: bool = False
    """What it lacks is only known while the node's server runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTraits:
    """Facts that a running cluster may declare."""

    pull_delay_s: float = 0
    """How long its nodes wait before they ask each other for a schema that they lack. No disagreement is read sooner than
    that after faults are healed."""
    quiet_s: float = 0
    """So long after the last change that nodes showed nothing is under way between them any more: those that differ then stay
    different until somebody asks for something. 0: not known."""
    late_nodes_take_over: bool = False
    """True if a node that is started when others have a schema takes over all of it at once."""
    run_name: str | None = None
    """The name by which nodes that outlive the run know it; None: they know none."""
    runs_server: bool = True
    """False if its nodes are models, without a server's code."""
    shares_clock: bool = False
    """True if its nodes read the wall clock that the harness reads, as long as no fault skews it: times that they write down can then
    be compared with those of the run."""
    kills_servers: bool = False
    """True if it kills servers by itself and starts them again, at steps of theirs that the plan names, without a note of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckerTraits:
    """Facts that a checker may declare."""

    noted: tuple[str, ...] = ()
    """Patterns of INFO and DEBUG lines of the nodes' logs that it wants beside the warnings and errors."""
    judges_early: bool = False
    """True if its anomalies follow from acknowledged changes and the nodes' schema alone: it may judge what nodes show while the run
    goes on, provisionally."""
    conflicts: tuple[str, ...] = ()
    """Anomalies, of a checker that judges early, that do not wait for a cluster to come to rest: a node contradicts itself, or another
    one. Seen twice, they are told while the keyspace is still being changed."""
    reads_lean: bool = False
    """True if it reads micro-operations of the type `LEAN_MOPS`, too: a long history then takes half the memory."""


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "bool": (bool,),
    "frozenset[str]": (frozenset, set),
    "str": (str,),
    "str | None": (str, type(None)),
    "float": (float, int),
    "tuple[str, ...]": (tuple, list),
    "Mapping[str, frozenset[str]] | None": (Mapping, type(None)),
    "Mapping[str, int] | None": (Mapping, type(None)),
}
"""The types that a declaration may have, by the annotation of its field."""


def workload_traits(workload: Workload) -> WorkloadTraits:
    """Read what a workload declares. Raises PlanError for a declaration of another type."""
    return _declared(workload, WorkloadTraits)


def nemesis_traits(nemesis: Nemesis) -> NemesisTraits:
    """Read what a nemesis declares. Raises PlanError for a declaration of another type."""
    return _declared(nemesis, NemesisTraits)


def checker_traits(checker: Checker) -> CheckerTraits:
    """Read what a checker declares. Raises PlanError for a declaration of another type."""
    return _declared(checker, CheckerTraits)


def cluster_traits(cluster: Cluster) -> ClusterTraits:
    """Read what a cluster declares. Raises PlanError for a declaration of another type."""
    return _declared(cluster, ClusterTraits)


def lack(nemesis: Nemesis, cluster: Cluster) -> str | None:
    """Name the first thing that the nemesis lacks on this cluster, in a sentence that says what to install or allow."""
    if (reason := lacking_means(nemesis, cluster)) is not None:
        return reason
    return nemesis.missing(cluster) if isinstance(nemesis, OwnLack) else None


def lacking_means(nemesis: Nemesis, cluster: Cluster) -> str | None:
    """Name the first of the means that the nemesis declares and that this cluster lacks, in such a sentence."""
    reasons = (cluster.missing(means) for means in sorted(nemesis_traits(nemesis).needs))
    return next((reason for reason in reasons if reason is not None), None)


def _declared(plugin: Any, traits: type[Traits]) -> Traits:
    """Fill the traits from the plugin's attributes of the same names."""
    values = {}
    for each in fields(traits):  # type: ignore[arg-type]  # every caller gives a dataclass
        if not hasattr(plugin, each.name):
            continue
        value = getattr(plugin, each.name)
        if not isinstance(value, _TYPES[str(each.type)]):
            # A set of letters, made of a string where a set of words is meant, would otherwise look like a declaration.
            raise PlanError(
                f"{type(plugin).__module__}.{type(plugin).__name__}.{each.name} is {value!r}; it must be of type {each.type}"
            )
        values[each.name] = frozenset(value) if isinstance(value, set) else value
    return traits(**values)
