"""nftables: drop packets in a table of the fault's own, made and deleted in one transaction each."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from schemaquake.harness.errors import HealError
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.protocols import Node, Undo
from schemaquake.nemeses.network.drops import Drop, ip_version
from schemaquake.nemeses.schedule.commands import describe_failure, is_denied, must, run

__all__ = ["Nftables"]

_NONE: Final = frozenset({1, 127})
"""Exit codes of a listing where there is no such table, or no such tool."""
_OVERLOADED: Final = re.compile(r"cannot allocate memory|resource temporarily|device or resource busy", re.IGNORECASE)

_GONE: Final = (
    "command -v nft > /dev/null || exit 0; "
    'tables=$(nft list tables inet 2>&1) || case $tables in *"not supported"*) exit 0 ;; *) exit 1 ;; esac; '
    '[ "$(printf "%s\\n" "$tables" | grep -cFw -e "$1")" = 0 ]'
)


class Nftables:
    """nftables, with a table of our own whose chain sees arriving packets before those of others."""

    name = "nft"

    def refusal(self, node: Node, rule: Drop) -> str | None:
        """Let the kernel check the transaction without carrying it out, and return its refusal."""
        tried = run(node, "nft", "--check", self._transaction(rule.name, [node.address], rule))
        return None if tried.exit_code == 0 else describe_failure(tried)

    def install(self, node: Node, sources: Sequence[str], rule: Drop) -> list[str]:
        """Make the table in one transaction. It is refused if a table of that name exists."""
        must(node, "nft", self._transaction(rule.name, sources, rule))
        rules = self._rules(must(node, "nft", "-j", "list", "table", "inet", rule.name))
        return [json.dumps(entry["expr"]) for entry in rules]

    def undo(self, rule: Drop) -> list[Undo]:
        """Return the command that deletes the table and its contents."""
        return [Undo(_deletion(rule), whole=("sh", "-c", _GONE, "sh", rule.name))]

    def remove(self, node: Node, rule: Drop) -> dict[str, JSON] | None:
        """Read the table's counters, then delete it."""
        listed = run(node, "nft", "-j", "list", "table", "inet", rule.name)
        if listed.exit_code != 0:
            if listed.exit_code not in _NONE or is_denied(listed) or _OVERLOADED.search(listed.stderr):
                raise HealError(f"nft does not say whether there are rules on {node.name}: {describe_failure(listed)}")
            return None
        rules = self._rules(listed.stdout)
        run(node, *_deletion(rule))
        if run(node, "nft", "list", "table", "inet", rule.name).exit_code == 0:
            raise HealError(f"the table {rule.name} is still there on {node.name}")
        counters = [part["counter"] for entry in rules for part in entry["expr"] if "counter" in part]
        return {
            "means": self.name,
            "rules": [json.dumps(entry["expr"]) for entry in rules],
            "packets": sum(counter["packets"] for counter in counters),
            "bytes": sum(counter["bytes"] for counter in counters),
        }

    def _rules(self, listing: str) -> list[dict[str, Any]]:
        return [part["rule"] for part in json.loads(listing)["nftables"] if "rule" in part]

    def _transaction(self, table: str, sources: Sequence[str], rule: Drop) -> str:
        # A peer's port may stand on either side of the connection, and one expression cannot say "either".
        ports = f"{{ {', '.join(map(str, rule.ports))} }}"
        matches = [f"tcp sport {ports}", f"tcp sport != {ports} tcp dport {ports}"] if rule.ports else [""]
        length = f"meta length > {rule.above_bytes}" if rule.above_bytes else ""
        chance = f"numgen random mod 1000000 < {round(rule.probability * 1e6)}" if rule.probability < 1 else ""
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


def _deletion(rule: Drop) -> tuple[str, ...]:
    return ("nft", "delete", "table", "inet", rule.name)
