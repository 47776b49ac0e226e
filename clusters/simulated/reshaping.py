"""Reshaping: changes of a simulated cluster's membership, as an operator asks for them, and the members as nodes tell them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from schemaquake.clusters.simulated.faces import ChangingRing, Joining, Model, Recovering, Steps
from schemaquake.clusters.simulated.kernel import Kernel
from schemaquake.clusters.simulated.node import SimulatedNode
from schemaquake.clusters.simulated.recovery import recover_group
from schemaquake.clusters.simulated.ring import SPACE, Copies
from schemaquake.clusters.simulated.said import ServerSaid
from schemaquake.clusters.simulated.topology import Topology, former_of, present_of, shown_token, spare_token
from schemaquake.clusters.systems.system import System
from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.membership import SERVING, ChangeOutcome, Member, MemberState
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.topology import Attempt, TopologyVerb
from schemaquake.harness.units import S
from schemaquake.harness.wait import until

__all__ = ["Reshaping", "new_host_id"]

_ANSWER_MOST: Final = 500
_LOOKS_EVERY_S: Final = 0.1


class Reshaping:
    """The changes of one cluster's membership."""

    def __init__(
        self, system: System, model: Model, kernel: Kernel, nodes: Sequence[SimulatedNode], spares: Sequence[str]
    ) -> None:
        self._system = system
        self._model = model
        self._kernel = kernel
        self._nodes = {node.name: node for node in nodes}
        self._founders = [name for name in self._nodes if name not in spares]
        self._spares = tuple(spares)
        self._were_members: set[str] = set()
        """Those that were listed once: one that is not is still to come, a founder at its first start, too."""
        self._states: Mapping[str, MemberState] = {
            name: "absent" if name in spares else "normal" for name in self._nodes
        }

    # ── members ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def members(self) -> Mapping[str, Member]:
        """Return the state of every node, as those that serve list it, or listed it last; before any served it is the plan."""
        peers = {name: self._peers(node) for name, node in self._nodes.items() if node.serving is not None}
        if not peers:
            return {name: self._member(name, state) for name, state in self._states.items()}
        members = {}
        for name, node in self._nodes.items():
            others = [listed for other, listed in peers.items() if other != name]
            listing = sum(node.address in listed for listed in others)
            is_listed = listing > 0 and 2 * listing >= len(others)
            members[name] = self._member(name, self._state(node, is_listed=is_listed, alone=not others))
        self._were_members |= {name for name, member in members.items() if member.state == "normal"}
        self._states = {name: member.state for name, member in members.items()}
        return members

    def ownership(self, names: Sequence[str], *, prefix: str) -> Mapping[str, JSON]:
        """Return, by node, the replicas of each range of the keyspaces named `<prefix>_…` as that node reads them."""
        found: dict[str, JSON] = {}
        for name in names:
            server = self._nodes[name].serving
            if server is not None and isinstance(server.ring, Topology):
                found[name] = {
                    keyspace: {"ranges": self._ranges(server.ring, definition.replication_factor)}
                    for keyspace, definition in sorted(server.memory.items())
                    if keyspace.startswith(f"{prefix}_")
                }
        return found

    def _ranges(self, ring: Topology, factor: Copies) -> list[JSON]:
        return [
            [
                shown_token(ring.tokens[place - 1]),
                shown_token(token),
                [self._nodes[present_of(name)].address for name in ring.replicas(place, factor)],
            ]
            for place, token in enumerate(ring.tokens)
        ]

    def steps(self, nodes: Sequence[str]) -> Sequence[str]:
        """Return the step that was done last of each change of these nodes, as any node that serves knows it."""
        found: dict[str, None] = {}
        for node in self._nodes.values():
            ring = None if node.serving is None else node.serving.ring
            if isinstance(ring, Topology):
                mine = [move for move in ring.moves if move.node in nodes or move.replaced in nodes]
                # A ring that is gossiped has no steps: a change is under way, or it is over.
                found |= dict.fromkeys(move.step if ring.version else "under-way" for move in mine)
        return list(found)

    def steps_shown(self) -> Sequence[str]:
        """Return every step that `steps` may return; none of a design whose ring does not change."""
        return self._model.steps_shown if isinstance(self._model, ChangingRing) else ()

    def _peers(self, node: SimulatedNode) -> frozenset[str]:
        return frozenset(
            str(row["peer"]) for row in node.model.answer(node, "SELECT peer, rpc_address FROM system.peers")
        )

    def _state(self, node: SimulatedNode, *, is_listed: bool, alone: bool) -> MemberState:
        if is_listed or (alone and node.name in {*self._were_members, *self._founders}):
            return "normal"
        if node.name in self._were_members:
            return "left"
        return "absent" if node.server is None else "joining"

    def _member(self, name: str, state: MemberState) -> Member:
        node = self._nodes[name]
        return Member(
            node=name, address=node.address, state=state, host_id=node.host_ids.get(name), spare=name in self._spares
        )

    # ── changes ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def cannot(self, verb: TopologyVerb) -> str | None:
        """Return why this design cannot be asked that; None if it can."""
        if not isinstance(self._model, ChangingRing):
            return f"the ring of {self._system} does not change: that is not modelled"
        words = self._system.topology
        if verb in words.by_hand and isinstance(self._model, Recovering):
            return None
        if verb not in self._model.verbs or not words.commands(verb, "?"):
            return f"{self._system} has no such change ({verb}), or it is not modelled"
        return None

    def cannot_replace(self) -> str | None:
        """Return why no node can take a dead one's place; None if one can."""
        if not isinstance(self._model, ChangingRing):
            return f"the ring of {self._system} does not change: that is not modelled"
        return None

    def ask(self, verb: TopologyVerb, *, on: str, about: str | None, argument: str | None, limit_s: float) -> Attempt:
        """Ask a node for a change and wait for its answer. Raises ClusterError for a change that is not modelled."""
        reason = self.cannot(verb)
        if reason is not None:
            raise ClusterError(reason)
        assert isinstance(self._model, ChangingRing)
        node = self._nodes[on]
        command = " ".join(str(word) for word in (verb, about, argument) if word is not None)
        server = node.serving
        began_ns = self._kernel.heap.now_ns
        if verb in self._system.topology.by_hand:
            return self._recover(command, on, (argument or "").split(), limit_s)
        if server is None:
            return Attempt(outcome="info", command=command, node=on, seconds=0.0, answer="connection refused")
        ended: list[ServerSaid | None] = []

        def end(_result: Any, said: ServerSaid | None) -> None:
            if not ended:
                ended.append(said)

        server.requests[end] = None
        server.begin(verb, _begun(self._model, node, verb, about, argument), end)
        self._await(lambda: bool(ended), limit_s)
        server.requests.pop(end, None)
        seconds = (self._kernel.heap.now_ns - began_ns) / S
        if not ended:
            return Attempt(outcome="info", command=command, node=on, seconds=seconds, timed_out=True)
        (said,) = ended
        answer = "" if said is None else str(said)[:_ANSWER_MOST]
        outcome: ChangeOutcome = "ok" if said is None else self._proves(answer)
        return Attempt(outcome=outcome, command=command, node=on, seconds=seconds, answer=answer)

    def _recover(self, command: str, on: str, lost: Sequence[str], limit_s: float) -> Attempt:
        """Have all members but those that are lost go on without these."""
        assert isinstance(self._model, Recovering)
        began_ns = self._kernel.heap.now_ns
        states = {name: member.state for name, member in self.members().items()}
        left = [node for name, node in self._nodes.items() if states[name] in SERVING and name not in lost]
        failed = recover_group(self._model, left, limit_s=limit_s)
        return Attempt(
            outcome="ok" if failed is None else "info",
            command=command,
            node=on,
            seconds=(self._kernel.heap.now_ns - began_ns) / S,
            answer=failed or "",
        )

    def join(self, name: str, *, replacing: str | None, limit_s: float) -> Attempt:
        """Start a node with an empty disk and wait until it serves. Raises ClusterError for one that runs."""
        node = self._nodes[name]
        if node.server is not None:
            raise ClusterError(f"node {name} runs, so it cannot join")
        if replacing == name and not (isinstance(self._model, ChangingRing) and self._model.takes_own_place):
            # It comes back as it was: nothing was changed.
            node.start()
            boot = node.await_serving(deadline_s=limit_s)
            why = f"{self._system}: a node that takes its own place is not modelled"
            return Attempt(outcome="fail", command="start", node=name, seconds=boot.seconds, answer=why)
        if replacing is None and self.members()[name].state == "normal":
            # It has joined meanwhile: it was killed, and started again by itself.
            node.start()
            boot = node.await_serving(deadline_s=limit_s)
            return Attempt(outcome="ok" if boot.served else "info", command="start", node=name, seconds=boot.seconds)
        becomes_another = replacing == name and isinstance(self._model, ChangingRing) and not self._model.keeps_host_id
        # The others may know it by the id of an earlier attempt: then it goes on with that, and with the rows that it has.
        if not (becomes_another and node.joins is not None and node.joins.replaces == name):
            node.wipe()
            node.joins = Joining(self._token(name), replacing)
            if becomes_another:
                self._become_another(node)
        if replacing is not None and node.locations:
            node.locations[name] = node.locations[replacing]  # operators put the new machine where the old one stood
        if name not in node.host_ids:
            node.host_ids[name] = new_host_id(self._kernel, name)
        command = "start" if replacing is None else f"start replacing {replacing}"
        node.start()
        boot = node.await_serving(deadline_s=limit_s)
        if boot.served:
            return Attempt(outcome="ok", command=command, node=name, seconds=boot.seconds)
        said = (boot.first_error or "")[:_ANSWER_MOST]
        # One whose disk is gone does not come back as it was.
        is_proof = boot.ended and replacing != name
        return Attempt(
            outcome=self._proves(said) if is_proof else "info",
            command=command,
            node=name,
            seconds=boot.seconds,
            answer=said,
            timed_out=not boot.ended,
        )

    def _become_another(self, node: SimulatedNode) -> None:
        """Have a node begin anew as another one at the address of the one that died, which keeps its id."""
        former = former_of(node.name)
        node.host_ids[node.name] = new_host_id(self._kernel, node.name)
        node.addresses[former] = node.address
        if node.locations:
            node.locations[former] = node.locations[node.name]

    def await_dead(self, name: str, *, limit_s: float) -> str | None:
        """Wait until every node that serves takes this one for dead. Return who does not, or None."""

        def alive() -> list[str]:
            serving = [node for node in self._nodes.values() if node.name != name and node.serving is not None]
            return [
                f"{node.name} takes {name} for alive"
                for node in serving
                if node.serving is not None and node.serving.gossip.alive(name)
            ]

        self._await(lambda: not alive(), limit_s)
        return "; ".join(alive()) or None

    def token_at(self, fraction: float) -> str:
        """Return the token that lies this far along the ring, from 0 to 1."""
        return shown_token(int(fraction * (SPACE - 1)))

    def _token(self, name: str) -> int:
        """Return the token that a node takes when it joins: of a founder that comes again, a new one."""
        number = self._spares.index(name) if name in self._spares else len(self._spares) + self._founders.index(name)
        return spare_token(len(self._founders), number)

    def _await(self, is_done: Any, limit_s: float) -> None:
        try:
            until(is_done, deadline_s=limit_s, what="an answer", every_s=_LOOKS_EVERY_S)
        except TimeoutError:
            return

    def _proves(self, said: str) -> ChangeOutcome:
        """Return `fail` for an answer that proves that nothing was changed, else `info`."""
        return "fail" if any(re.search(each, said) for each in self._system.topology.refusals) else "info"


def new_host_id(kernel: Kernel, name: str) -> str:
    """Make a node's id, as text."""
    bits = kernel.draws.stream("host", name)
    text = f"{bits.bits():016x}{bits.bits():016x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


def _begun(
    model: ChangingRing, node: SimulatedNode, verb: TopologyVerb, about: str | None, argument: str | None
) -> Steps:
    """Begin a change inside its process, so that its first refusal is an answer, too."""
    return (yield from model.reshape(node, verb, about=about, argument=argument))
