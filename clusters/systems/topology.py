"""Topology: the commands and settings by which a system's nodes leave, are removed and are replaced, as data.

The caller carries them out with nodetool on a node, and takes addresses, tokens and host ids from the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from schemaquake.harness.model.topology import TopologyVerb

__all__ = ["ManagementCall", "NamedBy", "Tool", "ToolCommand", "Topology"]

Tool: TypeAlias = Literal["nodetool", "sstableloader"]
"""A program of the distribution."""

NamedBy: TypeAlias = Literal["token", "host-id", "address"]
"""How a node that is dead is named to the others."""

_STREAMING_LIMIT_S: Final = 600.0
"""For commands that end when data was streamed."""
_SHORT_LIMIT_S: Final = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagementCall:
    """An operation or an attribute of a server's management bean (JMX)."""

    bean: str
    name: str
    arguments: tuple[bool | str, ...] = ()
    sets: bool = False
    """True if the one argument is the new value of the attribute of this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCommand:
    """Arguments of nodetool or of another tool, and how long it may take."""

    arguments: tuple[str, ...]
    limit_s: float
    tool: Tool = "nodetool"
    call: ManagementCall | None = None
    """The call by which nodetool does the same; None where that is more than one call, or not known. It may be repeated."""

    def __str__(self) -> str:
        return f"{self.tool} {' '.join(self.arguments)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The words of one line of releases for changes of its membership."""

    remove_verb: str
    """nodetool's verb that takes a dead node out of the ring, asked of a living one."""
    removed_by: NamedBy
    replace_setting: str | None
    """The setting with which a new node takes a dead one's place; None where there is no such thing."""
    replaced_by: NamedBy | None
    """How that setting names the dead node."""
    can_assassinate: bool
    """True where a dead node can be made forgotten without streaming its data."""
    outlives_restart: bool = False
    """True where a change goes on when the node that began it is restarted, because others carry it on."""
    verbs: Mapping[TopologyVerb, str] = field(default_factory=dict)
    """nodetool's words for what has no method here; `{}` stands for the argument."""
    by_hand: frozenset[TopologyVerb] = frozenset()
    """Changes that are an operator's procedure of several nodes, without a command of nodetool."""
    tools: Mapping[TopologyVerb, Tool] = field(default_factory=dict)
    """The tools of those verbs whose words are not nodetool's."""
    calls: Mapping[TopologyVerb, ManagementCall] = field(default_factory=dict)
    """The calls of those verbs that are one call, without arguments of the run's."""
    ring_bean: str | None = None
    """The bean whose `describeRingJMX` is what nodetool's `describering` prints; None where that is not known."""
    refusals: Sequence[str] = ()
    """Regular expressions of answers which prove that nothing was changed."""

    def commands(self, verb: TopologyVerb, argument: str | None) -> Sequence[ToolCommand]:
        """Return what is to be carried out for a change, in order; empty where the system has no such command."""
        match verb:
            case "decommission":
                return self.decommission()
            case "remove":
                return self.remove(argument or "")
            case "assassinate":
                return self.assassinate(argument or "")
        words = self.verbs.get(verb)
        if words is None:
            return ()
        arguments = tuple(words.format(argument or "").split())
        tool = self.tools.get(verb, "nodetool")
        return (ToolCommand(arguments=arguments, limit_s=_STREAMING_LIMIT_S, tool=tool, call=self.calls.get(verb)),)

    def decommission(self) -> Sequence[ToolCommand]:
        """Have the node on which it is carried out hand over its data and leave."""
        return (ToolCommand(arguments=("decommission",), limit_s=_STREAMING_LIMIT_S),)

    def remove(self, dead: str) -> Sequence[ToolCommand]:
        """Take the dead node out of the ring, which is named as `removed_by` says."""
        return (ToolCommand(arguments=(self.remove_verb, dead), limit_s=_STREAMING_LIMIT_S),)

    def assassinate(self, address: str) -> Sequence[ToolCommand]:
        """Have the dead node of that address forgotten; empty where nodetool knows no such verb."""
        if not self.can_assassinate:
            return ()
        return (ToolCommand(arguments=("assassinate", address), limit_s=_SHORT_LIMIT_S),)

    def describe_ring(self, keyspace: str) -> ToolCommand:
        """Have a node list the ranges of a keyspace with their replicas."""
        bean = self.ring_bean
        call = None if bean is None else ManagementCall(bean=bean, name="describeRingJMX", arguments=(keyspace,))
        return ToolCommand(arguments=("describering", keyspace), limit_s=_SHORT_LIMIT_S, call=call)

    def cleanup(self) -> Sequence[ToolCommand]:
        """Have the node drop rows that others hold since they joined."""
        return (ToolCommand(arguments=("cleanup",), limit_s=_STREAMING_LIMIT_S),)
