"""iptables: drop packets in a chain of the fault's own, hooked into INPUT when it is complete."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from schemaquake.harness.errors import ClusterError, HealError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Executed, Node, Undo
from schemaquake.nemeses.network.drops import Drop, ip_version
from schemaquake.nemeses.schedule.commands import describe_failure, is_denied, must, run

__all__ = ["Iptables"]

_LOCK_WAIT_S: Final = "5"
_NONE: Final = frozenset({1, 2, 3, 127})
"""Exit codes of a listing where there cannot be such a chain: no chain of that name, no such option, no such table in this
kernel, no such tool. Any other (4: the lock is held, or nothing may be read) says nothing."""

# What the node carries out by itself. A command that does not get the lock ends the round, which is begun again soon.
_REMOVE: Final = (
    'tool=$1 chain=$2; command -v "$tool" > /dev/null || exit 0; '
    'carry_out() { "$tool" -w 2 "$@"; [ $? -ne 4 ] || exit 4; }; '
    'carry_out -D INPUT -j "$chain"; '
    'for each in "$chain" "${chain}_probe"; do carry_out -F "$each"; carry_out -X "$each"; done; exit 0'
)
_GONE: Final = (
    'tool=$1 chain=$2; command -v "$tool" > /dev/null || exit 0; '
    'rules=$("$tool" -w 2 -S); code=$?; '
    '[ "$code" -ne 3 ] || exit 0; [ "$code" -eq 0 ] || exit 1; '
    '[ "$(printf "%s\\n" "$rules" | grep -cFw -e "$chain" -e "${chain}_probe")" = 0 ]'
)


class Iptables:
    """iptables and ip6tables, of either backend. Commands wait for the lock, which other software on the host may hold."""

    name = "iptables"
    _TOOLS: Final[Mapping[int, str]] = {4: "iptables", 6: "ip6tables"}

    def refusal(self, node: Node, rule: Drop) -> str | None:
        """Make the rule in a chain that no packet passes, remove it, and return why that failed."""
        version = ip_version(node.address)
        run(node, *self._argv(version, "-N", _probe(rule)))
        tried = run(node, *self._argv(version, "-A", _probe(rule), *self._match(node.address, rule)))
        self._delete_chain(node, version, _probe(rule))
        return None if tried.exit_code == 0 else describe_failure(tried)

    def install(self, node: Node, sources: Sequence[str], rule: Drop) -> list[str]:
        """Fill the chain and then hook it in, so all its rules take effect at one instant."""
        rules: list[str] = []
        for version in sorted({ip_version(address) for address in sources}):
            must(node, *self._argv(version, "-N", rule.name))
            expected = [address for address in sources if ip_version(address) == version]
            for address in expected:
                must(node, *self._argv(version, "-A", rule.name, *self._match(address, rule)))
            must(node, *self._argv(version, "-I", "INPUT", "1", "-j", rule.name))
            must(node, *self._argv(version, "-C", "INPUT", "-j", rule.name))
            read = must(node, *self._argv(version, "-S", rule.name)).splitlines()
            rules += [line for line in read if line.startswith("-A")]
            if len(rules) < len(expected):
                raise ClusterError(f"{node.name} has {len(rules)} rules where {len(expected)} were made: {rules}")
        return rules

    def undo(self, rule: Drop) -> list[Undo]:
        """Return commands that unhook, flush and delete the chains of both IP versions, and those of an interrupted probe."""
        return [
            Undo(("sh", "-c", _REMOVE, "sh", tool, rule.name), whole=("sh", "-c", _GONE, "sh", tool, rule.name))
            for tool in self._TOOLS.values()
        ]

    def remove(self, node: Node, rule: Drop) -> dict[str, JSON] | None:
        """Read the chain's counters, then unhook, flush and delete it."""
        rules: list[str] = []
        for version in self._TOOLS:
            listed = run(node, *self._argv(version, "-v", "-S", rule.name))
            if listed.exit_code == 0:
                rules += [line for line in listed.stdout.splitlines() if line.startswith("-A")]
                done = [run(node, *argv) for argv in self._removal(version, rule)]
                if run(node, *self._argv(version, "-S", rule.name)).exit_code == 0:
                    failures = "; ".join(describe_failure(one) for one in done if one.exit_code != 0)
                    raise HealError(f"the chain {rule.name} is still there on {node.name}: {failures}")
            elif not _says_that_there_is_none(listed):
                raise HealError(
                    f"{self._TOOLS[version]} does not say whether there are rules on {node.name}: {describe_failure(listed)}"
                )
            self._delete_chain(node, version, _probe(rule))
        if not rules:
            return None
        counters = [tuple(map(int, count)) for line in rules for count in re.findall(r" -c (\d+) (\d+)", line)]
        return {
            "means": self.name,
            "rules": rules,
            "packets": sum(packets for packets, _ in counters),
            "bytes": sum(size for _, size in counters),
        }

    def _removal(self, version: int, rule: Drop) -> list[tuple[str, ...]]:
        return [self._argv(version, "-D", "INPUT", "-j", rule.name), *self._deletion(version, rule.name)]

    def _deletion(self, version: int, chain: str) -> list[tuple[str, ...]]:
        return [self._argv(version, "-F", chain), self._argv(version, "-X", chain)]

    def _delete_chain(self, node: Node, version: int, chain: str) -> None:
        for argv in self._deletion(version, chain):
            run(node, *argv)

    def _argv(self, version: int, *arguments: str) -> tuple[str, ...]:
        return (self._TOOLS[version], "-w", _LOCK_WAIT_S, *arguments)

    def _match(self, source: str, rule: Drop) -> list[str]:
        ports = ["-p", "tcp", "-m", "multiport", "--ports", ",".join(map(str, rule.ports))] if rule.ports else []
        chance = ["-m", "statistic", "--mode", "random", "--probability", f"{rule.probability:.6f}"]
        length = ["-m", "length", "--length", f"{rule.above_bytes + 1}:65535"] if rule.above_bytes else []
        return ["-s", source, *ports, *length, *(chance if rule.probability < 1 else []), "-j", "DROP"]


def _says_that_there_is_none(listed: Executed) -> bool:
    return listed.exit_code in _NONE and not is_denied(listed)


def _probe(rule: Drop) -> str:
    """Return the name of a chain that is never hooked in. It has the fault's id, since several may probe at once."""
    return f"{rule.name}_probe"
