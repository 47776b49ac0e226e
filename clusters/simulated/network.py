"""Network: links between nodes, one a direction, with the order of TCP.

A packet filter of the receiving node (`schemaquake.clusters.simulated.shell`) drops segments on arrival. TCP sends them
again: a message that was held back arrives soon after the filter is gone, unless it is older than the time after which
servers let messages expire, or the connection was given up meanwhile, because one side takes the other for dead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from schemaquake.clusters.simulated.draws import Stream
from schemaquake.clusters.simulated.kernel import Kernel
from schemaquake.clusters.simulated.messages import Message
from schemaquake.clusters.simulated.shell import Filters
from schemaquake.harness.units import MS, US

__all__ = ["Endpoint", "Network"]

_EXPIRES_NS: Final = 10_000 * MS
_SENT_AGAIN_NS: Final = 200 * MS
_FASTEST_NS: Final = 100 * US
_SLOWEST_NS: Final = 400 * US


class Endpoint(Protocol):
    """A node as the network sees it."""

    name: str
    address: str
    filters: Filters

    def arrive(self, message: Message) -> None:
        """Take a message."""
        ...


class _Link:
    __slots__ = ("draws", "epoch", "filters", "held", "last_ns", "later_ns", "receiver", "source")

    def __init__(self, sender: Endpoint, receiver: Endpoint, draws: Stream) -> None:
        self.source = sender.address
        self.receiver = receiver
        self.filters = receiver.filters
        self.draws = draws
        self.last_ns = 0
        self.held: list[tuple[int, Message]] = []
        self.later_ns = 0
        """Time that every message takes longer than on other links."""
        self.epoch = 0
        """Counts connections: what was sent on an earlier one is lost."""


class Network:
    """All links of one cluster."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._heap = kernel.heap
        self._links: dict[str, dict[str, _Link]] = {}
        """By sender and receiver."""
        self._nodes: dict[str, Endpoint] = {}
        self.takes: Callable[[str, str, Message], bool] | None = None
        """Sees each message (sender, receiver, message) first, and returns whether it delivers it itself; None: nobody does."""

    def join(self, node: Endpoint) -> None:
        """Give a node its links to all others."""
        self._links[node.name] = {}
        for other in self._nodes.values():
            for sender, receiver in ((other, node), (node, other)):
                draws = self._kernel.draws.stream("link", sender.name, receiver.name)
                self._links[sender.name][receiver.name] = _Link(sender, receiver, draws)
        self._nodes[node.name] = node

    def send(self, sender: Endpoint, receiver: str, message: Message) -> None:
        """Send a message; it arrives 0.1 to 0.4 ms later, after those before it."""
        if self.takes is not None and self.takes(sender.name, receiver, message):
            return
        link = self._links[sender.name].get(receiver)
        if link is None:  # a node that died, and whose address another one has now
            return
        heap = self._heap
        now_ns = heap.now_ns
        arrives_ns = now_ns + link.later_ns + link.draws.between(_FASTEST_NS, _SLOWEST_NS)
        if link.filters.active:
            arrives_ns += link.filters.delay_ns(link.source, link.draws)
        if arrives_ns <= link.last_ns:
            arrives_ns = link.last_ns + 1
        link.last_ns = arrives_ns
        heap.post(arrives_ns, partial(_arrive, link, link.epoch, now_ns, message))

    def slow_down(self, links: Mapping[tuple[str, str], int]) -> None:
        """Have every message from a sender to a receiver take so much longer (ns) from now on."""
        for (sender, receiver), later_ns in links.items():
            self._links[sender][receiver].later_ns = later_ns

    def lift(self, receiver: Endpoint) -> None:
        """Let what a filter of this node held back arrive, if nothing holds it back any more."""
        for sender, links in self._links.items():
            link = links.get(receiver.name)
            if link is not None and link.held and not receiver.filters.cuts(self._nodes[sender].address):
                self._kernel.after(
                    link.draws.between(_SENT_AGAIN_NS // 2, _SENT_AGAIN_NS),
                    partial(self._release, sender, receiver, link),
                )

    def _release(self, sender: str, receiver: Endpoint, link: _Link) -> None:
        if receiver.filters.cuts(self._nodes[sender].address):
            return
        held, link.held = link.held, []
        now_ns = self._kernel.heap.now_ns
        for sent_ns, message in held:
            if now_ns - sent_ns <= _EXPIRES_NS:
                receiver.arrive(message)

    def reset(self, node: Endpoint, peer: str) -> None:
        """Give up the connections between two nodes: what is under way on them is lost."""
        for link in (self._links[node.name][peer], self._links[peer][node.name]):
            link.epoch += 1
            link.held.clear()


def _arrive(link: _Link, epoch: int, sent_ns: int, message: Message) -> None:
    if epoch != link.epoch:
        return
    if link.held or (link.filters.active and link.filters.drops(link.source)):
        link.held.append((sent_ns, message))
        return
    link.receiver.arrive(message)
