"""Topology: what a cluster must be able to do for its membership to be changed, and what one attempt at a change came to.

Topology nemeses (`schemaquake.harness.model.protocols.TopologyNemesis`) act through these verbs alone; how a system says
each of them is the cluster's affair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from schemaquake.harness.model.membership import ChangeOutcome
from schemaquake.harness.model.operation import JSON, Completion
from schemaquake.harness.model.protocols import Cluster, Fault
from schemaquake.harness.model.steps import Invoke

__all__ = ["AsksAsClient", "Attempt", "ChangesAddresses", "ChangesTopology", "Requests", "TopologyVerb"]

TopologyVerb: TypeAlias = Literal[
    "decommission",
    "remove",
    "assassinate",
    "move",
    "repair",
    "reconfigure",
    "recover-group",
    "resume-join",
    "abort-join",
    "abort-leave",
    "abort-leave-of-dead",
    "abort-move",
    "abort-move-of-dead",
    "abort-remove",
    "pause-commits",
    "resume-commits",
    "flush",
    "compact",
    "cleanup",
    "scrub",
    "snapshot",
    "refresh",
    "import",
    "load",
    "drain",
    "reset-schema",
    "reload-schema",
    "gossip-off",
    "gossip-on",
    "clients-off",
    "clients-on",
    "hints-off",
    "hints-on",
]
"""Requests to one node.

`decommission`: leave. `remove`, `assassinate`: take a dead node out, with or without its data copied. `move`: take another
token. `repair`: make all replicas equal. `reconfigure`: let this many nodes commit metadata.
`recover-group`: have the nodes that are left decide without a majority that is lost for good, whose names are the argument. `pause-commits`, `resume-commits`: have the
node commit no metadata until further notice, and commit it again. `resume-join` and `abort-…` end, or go on with, what an earlier attempt
left half done. The others are everyday maintenance of one node: `flush` to `drain` act on its files (`refresh` takes up data files that were put into the folder of a table, "KEYSPACE TABLE", `import` those of another folder, "KEYSPACE TABLE FOLDER", and `load` streams those of a folder to their replicas, "ADDRESS FOLDER"), `reset-schema` has it fetch the schema
anew, `reload-schema` read its disk; `…-off` and `…-on` switch a service of it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at a change. `fail` only if the answer proves that nothing was changed."""

    outcome: ChangeOutcome
    command: str
    """The request as an operator types it."""
    node: str
    """The node that was asked."""
    seconds: float
    answer: str = ""
    """The end of what the node said."""
    timed_out: bool = False
    """True if it had not ended at its limit."""

    def to_json(self) -> dict[str, JSON]:
        """Return the attempt as an operation's value holds it."""
        return {
            "outcome": self.outcome,
            "command": self.command,
            "node": self.node,
            "seconds": round(self.seconds, 3),
            "answer": self.answer,
            "timed_out": self.timed_out,
        }


@runtime_checkable
class ChangesTopology(Protocol):
    """A cluster whose membership the harness can change."""

    def cannot(self, verb: TopologyVerb) -> str | None:
        """Return why this system cannot be asked that, as a sentence; None if it can. `join` itself it always can."""
        ...

    def cannot_replace(self) -> str | None:
        """Return why no node of this system can take a dead one's place; None if one can."""
        ...

    def outlives_restart(self) -> bool:
        """Return whether a change that a node began goes on when that node is restarted, because others carry it on."""
        ...

    def ask(
        self, verb: TopologyVerb, *, on: str, about: str | None = None, argument: str | None = None, limit_s: float
    ) -> Attempt:
        """Ask node `on` for a change, and wait for its answer for at most `limit_s`. `about` is the dead node it concerns.

        Raises ClusterError if the system cannot be asked that, or the dead node's identity was never learnt.
        """
        ...

    def join(self, node: str, *, replacing: str | None = None, limit_s: float) -> Attempt:
        """Start a node with an empty disk, as an operator adds one, and wait until it serves.

        `replacing` is the dead node whose place it takes, which may be itself. Raises ClusterError for a node that runs.
        """
        ...

    def await_dead(self, node: str, *, limit_s: float) -> str | None:
        """Wait until every other node that runs takes this one for dead. Return who does not at the deadline, or None."""
        ...

    def token_at(self, fraction: float) -> str:
        """Return the token that lies this far along the ring, from 0 to 1."""
        ...


@runtime_checkable
class ChangesAddresses(Protocol):
    """A cluster whose nodes can be given other addresses."""

    def cannot_readdress(self) -> str | None:
        """Return why the addresses of these nodes cannot be changed, as a sentence; None if they can."""
        ...

    def readdress(self, names: Sequence[str], *, limit_s: float) -> Attempt:
        """End these servers, give each node another address, start all, and wait until they serve.

        May be called again after a failure: a node that has its new address keeps it, and is started again if it does not serve.
        """
        ...


class Requests(Protocol):
    """The requests that an operation makes as a client does; both ends of each stand in the history."""

    def ask(self, node: str, operation: Invoke) -> Completion:
        """Ask this coordinator for one operation, and record its invocation and its outcome. Raises NodeUnreachable."""
        ...

    def replications(self, node: str) -> Mapping[str, Mapping[str, JSON]]:
        """Return the replication of each of the run's keyspaces, as this node shows it now. Raises NodeUnreachable."""
        ...


@runtime_checkable
class AsksAsClient(Protocol):
    """A topology nemesis whose operations include requests of clients, such as a schema change."""

    def operate_as_client(self, cluster: Cluster, operation: Fault, requests: Requests) -> Completion:
        """Carry it out, as `TopologyNemesis.operate` does."""
        ...
