"""nftables: dropping packets in a table of the fault's own, made and deleted in one transaction each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from schemaquake.harness.errors import HealError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Node
from schemaquake.nemeses.network.drops import Drop, ip_version
from schemaquake.nemeses.schedule.commands import is_denied, must, run, words

__all__ = ["Nftables"]


class Nftables:
    """nftables, by a table of our own whose chain looks at arriving packets before those of others do."""

    name = "nft"

    def refusal(self, node: Node, what: Drop) -> str | None:
        """Let the kernel check the transaction without carrying it out."""
        tried = run(node, "nft", "--check", self._transaction(what.name, [node.address], what))
        return None if tried.exit_code == 0 else words(tried)

    def install(self, node: Node, sources: Sequence[str], what: Drop) -> list[str]:
        """One transaction; refused if a table of that name was left by somebody."""
        must(node, "nft", self._transaction(what.name, sources, what))
        rules = self._rules(must(node, "nft", "-j", "list", "table", "inet", what.name))
        return [json.dumps(rule["expr"]) for rule in rules]

    def undo(self, what: Drop) -> list[tuple[str, ...]]:
        """The table, and all that is in it."""
        return [("nft", "delete", "table", "inet", what.name)]

    def remove(self, node: Node, what: Drop) -> dict[str, JSON] | None:
        """Delete the table, having read its counters."""
        listed = run(node, "nft", "-j", "list", "table", "inet", what.name)
        if listed.exit_code != 0:
            if is_denied(listed):
                raise HealError(f"nft may not be used on {node.name}: {words(listed)}")
            return None
        rules = self._rules(listed.stdout)
        for argv in self.undo(what):
            run(node, *argv)
        if run(node, "nft", "list", "table", "inet", what.name).exit_code == 0:
            raise HealError(f"the table {what.name} is still there on {node.name}")
        counters = [part["counter"] for rule in rules for part in rule["expr"] if "counter" in part]
        return {
            "means": self.name,
            "rules": [json.dumps(rule["expr"]) for rule in rules],
            "packets": sum(counter["packets"] for counter in counters),
            "bytes": sum(counter["bytes"] for counter in counters),
        }

    def _rules(self, listing: str) -> list[dict[str, Any]]:
        return [part["rule"] for part in json.loads(listing)["nftables"] if "rule" in part]

    def _transaction(self, table: str, sources: Sequence[str], what: Drop) -> str:
        # A peer's port may stand on either side of the connection, and one expression cannot say "either".
        ports = f"{{ {', '.join(map(str, what.ports))} }}"
        matches = [f"tcp sport {ports}", f"tcp sport != {ports} tcp dport {ports}"] if what.ports else [""]
        length = f"meta length > {what.above_bytes}" if what.above_bytes else ""
        chance = f"numgen random mod 1000000 < {round(what.probability * 1e6)}" if what.probability < 1 else ""
        commands = [
            f"create table inet {table}",
            f"add chain inet {table} input {{ type filter hook input priority -10 ; policy accept ; }}",
        ]
        for source in sources:
            family = "ip" if ip_version(source) == 4 else "ip6"
            commands += [
                f"add rule inet {table} input {family} saddr {source} {match} {length} {chance} counter drop"
                for match in matches
            ]
        return "; ".join(commands)
