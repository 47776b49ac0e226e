"""Members: the states of a cluster's nodes, read from what those that answer know of each other.

A node is a member as long as half of the others, or more, list it among their peers. `joining` is a spare that runs and is listed by none;
`left` is a node that was listed once. Nodes that are leaving cannot be told from normal ones by `system.peers`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from schemaquake.clusters.cql.client import CqlConnector
from schemaquake.clusters.nodes.every_node import on_every
from schemaquake.clusters.nodes.node import ServerNode
from schemaquake.clusters.systems.gossip import Membership
from schemaquake.harness.errors import ClusterError, NodeUnreachable
from schemaquake.harness.model.membership import Member, MemberState

__all__ = ["MemberReader"]

_REQUEST_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class _Account:
    """One node's account of the ring."""

    host_id: str | None
    tokens: tuple[str, ...]
    peers: frozenset[str]


class MemberReader:
    """Reads the members of one cluster; remembers only which nodes were members before."""

    def __init__(
        self,
        nodes: Sequence[ServerNode],
        connector: CqlConnector | None,
        membership: Membership,
        *,
        spares: frozenset[str] = frozenset(),
    ) -> None:
        """Without a connector (a system that speaks no CQL) the planned states are all that is known."""
        self._nodes = nodes
        self._connector = connector
        self._membership = membership
        self._spares = spares
        self._seen: dict[str, _Account] = {}
        self._were_members = {node.name for node in nodes if node.name not in spares}
        self._were_listed: set[str] = set()

    def planned(self) -> Mapping[str, Member]:
        """Return the members of the plan: spares are absent, all others normal."""
        return {node.name: self._member(node, self._planned_state(node.name), None) for node in self._nodes}

    def read(self) -> Mapping[str, Member]:
        """Ask every node that answers. Raises ClusterError if none does."""
        if self._connector is None:
            return self.planned()
        accounts = {name: one for name, one in self._ask().items() if one is not None}
        self._seen |= accounts
        if not accounts:
            raise ClusterError("no node answers that could list the members")
        members = {}
        for node in self._nodes:
            others = [one for name, one in accounts.items() if name != node.name]
            listing = sum(node.address in one.peers for one in others)
            # Not by one node alone: it may list one that has gone, and that is for a checker to say.
            is_listed = listing > 0 and 2 * listing >= len(others)
            if is_listed:
                self._were_listed.add(node.name)
            state = self._state(node, is_listed=is_listed, serves=node.name in accounts, alone=not others)
            members[node.name] = self._member(node, state, accounts.get(node.name))
        self._were_members |= {name for name, member in members.items() if member.state == "normal"}
        return members

    def identity(self, node: str) -> tuple[str | None, tuple[str, ...]]:
        """Return host id and tokens of the node as it named them when it last answered; (None, ()) if it never did."""
        account = self._seen.get(node)
        return (None, ()) if account is None else (account.host_id, account.tokens)

    def _ask(self) -> Mapping[str, _Account | None]:
        by_name = {node.name: node for node in self._nodes}
        return on_every(by_name, lambda name: self._account(by_name[name]))

    def _account(self, node: ServerNode) -> _Account | None:
        """Read one node's account; None if it does not answer."""
        assert self._connector is not None
        with suppress(NodeUnreachable):
            if node.state() != "running" or not node.answers():
                return None
            client = self._connector.connect(node.name, request_timeout_s=_REQUEST_LIMIT_S)
            try:
                own = next(iter(client.read("SELECT host_id, tokens FROM system.local")), {})
                tokens = tuple(sorted(map(str, own.get("tokens") or ())))
                host_id = None if own.get("host_id") is None else str(own["host_id"])
                return _Account(host_id, tokens, self._membership.read_peers(client.read))
            finally:
                client.close()
        return None

    def _state(self, node: ServerNode, *, is_listed: bool, serves: bool, alone: bool) -> MemberState:
        if is_listed or (alone and node.name in self._were_members):
            return "normal"
        if serves and node.name not in self._were_listed:
            return "joining"  # not enough others have heard of it yet
        if node.name in self._were_members:
            return "left"
        with suppress(NodeUnreachable):
            if node.state() != "stopped":
                return "joining"
        return "absent"

    def _planned_state(self, name: str) -> MemberState:
        return "absent" if name in self._spares else "normal"

    def _member(self, node: ServerNode, state: MemberState, account: _Account | None) -> Member:
        return Member(
            node=node.name,
            address=node.address,
            state=state,
            host_id=None if account is None else account.host_id,
            tokens=() if account is None else account.tokens,
            spare=node.name in self._spares,
        )
