"""iptables: dropping packets in a chain of the fault's own, hooked into INPUT when it is complete."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from schemaquake.harness.errors import ClusterError, HealError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Node
from schemaquake.nemeses.network.drops import Drop, ip_version
from schemaquake.nemeses.schedule.commands import is_denied, must, run, words

__all__ = ["Iptables"]

_LOCK_WAIT_S: Final = "5"


class Iptables:
    """iptables and ip6tables, of either backend. The lock is waited for: others on the host use it too."""

    name = "iptables"
    _TOOLS: Final[Mapping[int, str]] = {4: "iptables", 6: "ip6tables"}

    def refusal(self, node: Node, what: Drop) -> str | None:
        """Make the rule in a chain that no packet passes, and remove it."""
        version = ip_version(node.address)
        run(node, *self._argv(version, "-N", _probe(what)))
        tried = run(node, *self._argv(version, "-A", _probe(what), *self._match(node.address, what)))
        self._delete_chain(node, version, _probe(what))
        return None if tried.exit_code == 0 else words(tried)

    def install(self, node: Node, sources: Sequence[str], what: Drop) -> list[str]:
        """The chain is hooked in when it is complete, so all its rules begin to count at one instant."""
        rules: list[str] = []
        for version in sorted({ip_version(address) for address in sources}):
            must(node, *self._argv(version, "-N", what.name))
            expected = [address for address in sources if ip_version(address) == version]
            for address in expected:
                must(node, *self._argv(version, "-A", what.name, *self._match(address, what)))
            must(node, *self._argv(version, "-I", "INPUT", "1", "-j", what.name))
            must(node, *self._argv(version, "-C", "INPUT", "-j", what.name))
            read = must(node, *self._argv(version, "-S", what.name)).splitlines()
            rules += [line for line in read if line.startswith("-A")]
            if len(rules) < len(expected):
                raise ClusterError(f"{node.name} has {len(rules)} rules where {len(expected)} were made: {rules}")
        return rules

    def undo(self, what: Drop) -> list[tuple[str, ...]]:
        """The chains of both versions, unhooked, flushed and deleted, and those of a probe that broke off."""
        return [
            argv
            for version in self._TOOLS
            for argv in (*self._removal(version, what), *self._deletion(version, _probe(what)))
        ]

    def remove(self, node: Node, what: Drop) -> dict[str, JSON] | None:
        """Unhook, flush and delete the chain, having read its counters."""
        rules: list[str] = []
        for version in self._TOOLS:
            listed = run(node, *self._argv(version, "-v", "-S", what.name))
            if listed.exit_code == 0:
                rules += [line for line in listed.stdout.splitlines() if line.startswith("-A")]
                done = [run(node, *argv) for argv in self._removal(version, what)]
                if run(node, *self._argv(version, "-S", what.name)).exit_code == 0:
                    said = "; ".join(words(one) for one in done if one.exit_code != 0)
                    raise HealError(f"the chain {what.name} is still there on {node.name}: {said}")
            elif is_denied(listed):
                raise HealError(f"{self._TOOLS[version]} may not be used on {node.name}: {words(listed)}")
            self._delete_chain(node, version, _probe(what))
        if not rules:
            return None
        counters = [tuple(map(int, count)) for rule in rules for count in re.findall(r" -c (\d+) (\d+)", rule)]
        return {
            "means": self.name,
            "rules": rules,
            "packets": sum(packets for packets, _ in counters),
            "bytes": sum(size for _, size in counters),
        }

    def _removal(self, version: int, what: Drop) -> list[tuple[str, ...]]:
        return [self._argv(version, "-D", "INPUT", "-j", what.name), *self._deletion(version, what.name)]

    def _deletion(self, version: int, chain: str) -> list[tuple[str, ...]]:
        return [self._argv(version, "-F", chain), self._argv(version, "-X", chain)]

    def _delete_chain(self, node: Node, version: int, chain: str) -> None:
        for argv in self._deletion(version, chain):
            run(node, *argv)

    def _argv(self, version: int, *arguments: str) -> tuple[str, ...]:
        return (self._TOOLS[version], "-w", _LOCK_WAIT_S, *arguments)

    def _match(self, source: str, what: Drop) -> list[str]:
        ports = ["-p", "tcp", "-m", "multiport", "--ports", ",".join(map(str, what.ports))] if what.ports else []
        chance = ["-m", "statistic", "--mode", "random", "--probability", f"{what.probability:.6f}"]
        length = ["-m", "length", "--length", f"{what.above_bytes + 1}:65535"] if what.above_bytes else []
        return ["-s", source, *ports, *length, *(chance if what.probability < 1 else []), "-j", "DROP"]


def _probe(what: Drop) -> str:
    """A chain that is never hooked in; named for the fault, since several may probe at once."""
    return f"{what.name}_probe"
