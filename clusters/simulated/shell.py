"""Shell: the commands that nemeses carry out on a node, as far as a simulated one has them; any other exits with 127.

Scripts that look for another tool first end there, as on a host that does not have it.

Packet filters are iptables' chains of rules by source address, hooked into INPUT, with counters that are read back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from schemaquake.clusters.simulated.draws import Stream
from schemaquake.harness.model.protocols import Executed

__all__ = ["Filters", "execute"]

_SOUGHT: Final = re.compile(r"command -v (?P<tool>\S+) > /dev/null \|\| exit 0")
_DONE: Final = Executed(0, "", "")
_SEGMENT_BYTES: Final = 120
_SENT_AGAIN_NS: Final = 200_000_000
_OTHER_SEGMENTS: Final = 3
"""Segments beside a message: acknowledgements, and the second and third message of a gossip exchange."""


@dataclass(slots=True)
class _Rule:
    text: str
    source: str
    probability: float
    packets: int = 0


class Filters:
    """The packet filters of one node."""

    def __init__(self) -> None:
        self._chains: dict[str, list[_Rule]] = {}
        self._hooked: list[str] = []
        self.active = False
        """True if any chain is hooked in."""

    def cut(self, source: str, chain: str) -> None:
        """Drop all segments from that address, in a chain that may have others."""
        self._chains.setdefault(chain, []).append(_Rule("", source, 1.0))
        if chain not in self._hooked:
            self._hooked.insert(0, chain)
        self.active = True

    def open(self, chain: str) -> None:
        """Take a chain away, if it is there."""
        if self._chains.pop(chain, None) is not None:
            self._hooked.remove(chain)
            self.active = bool(self._hooked)

    def drops(self, source: str) -> bool:
        """Return whether a segment from that address is dropped, and count it."""
        for rule in self._rules(source):
            if rule.probability == 1:
                rule.packets += 1
                return True
        return False

    def cuts(self, source: str) -> bool:
        """Return whether all segments from that address are dropped."""
        return any(rule.probability == 1 for rule in self._rules(source))

    def delay_ns(self, source: str, draws: Stream) -> int:
        """Return how much later a message arrives because it is lost and sent again.

        Others go with it, whose loss delays nothing that is modelled; a filter counts them all the same.
        """
        delay_ns = 0
        for rule in self._rules(source) if self._hooked else ():
            wait_ns = _SENT_AGAIN_NS
            while rule.probability < 1 and wait_ns < 20 * _SENT_AGAIN_NS and draws.chance(rule.probability):
                rule.packets += 1
                delay_ns += wait_ns
                wait_ns *= 2
            if rule.probability < 1:
                rule.packets += sum(draws.chance(rule.probability) for _ in range(_OTHER_SEGMENTS))
        return delay_ns

    def iptables(self, arguments: Sequence[str]) -> Executed:
        """Carry out one command of iptables."""
        counted = "-v" in arguments
        match [each for each in arguments if each != "-v"]:
            case ["-N", chain] if chain not in self._chains:
                self._chains[chain] = []
            case ["-A", chain, *match] if chain in self._chains:
                self._chains[chain].append(_rule(chain, match))
            case ["-I", "INPUT", "1", "-j", chain] if chain in self._chains:
                self._hooked.insert(0, chain)
                self.active = True
            case ["-C", "INPUT", "-j", chain] if chain in self._hooked:
                pass
            case ["-D", "INPUT", "-j", chain] if chain in self._hooked:
                self._hooked.remove(chain)
                self.active = bool(self._hooked)
            case ["-F", chain] if chain in self._chains:
                self._chains[chain].clear()
            case ["-X", chain] if chain in self._chains and chain not in self._hooked:
                del self._chains[chain]
            case ["-S", chain] if chain in self._chains:
                lines = [f"-N {chain}", *(_listed(rule, counted=counted) for rule in self._chains[chain])]
                return Executed(0, "".join(f"{line}\n" for line in lines), "")
            case ["-N", _]:
                return Executed(1, "", "iptables: Chain already exists.")
            case _:
                return Executed(1, "", "iptables: No chain/target/match by that name.")
        return _DONE

    def _rules(self, source: str) -> list[_Rule]:
        return [rule for chain in self._hooked for rule in self._chains[chain] if rule.source == source]


def execute(filters: Filters, argv: Sequence[str]) -> Executed:
    """Carry out one command on a node with these filters."""
    match list(argv):
        case ["true"]:
            return _DONE
        case ["iptables", "-w", _, *arguments]:
            return filters.iptables(arguments)
        case ["sh", "-c", script, "sh", *arguments] if _lacks_its_tool(script, arguments):
            return _DONE
    return Executed(127, "", f"{argv[0]}: command not found")


def _lacks_its_tool(script: str, arguments: Sequence[str]) -> bool:
    """Return whether a script ends at once because the tool that it looks for first is not there."""
    sought = _SOUGHT.search(script)
    if sought is None:
        return False
    return (arguments[0] if sought["tool"] == '"$tool"' else sought["tool"]) != "iptables"


def _rule(chain: str, match: Sequence[str]) -> _Rule:
    source = match[match.index("-s") + 1]
    probability = float(match[match.index("--probability") + 1]) if "--probability" in match else 1.0
    text = f"-A {chain} -s {source}/32 {' '.join(each for each in match if each not in {'-s', source})}"
    return _Rule(text, source, probability)


def _listed(rule: _Rule, *, counted: bool) -> str:
    if not counted:
        return rule.text
    head, _, tail = rule.text.rpartition(" -j ")
    return f"{head} -c {rule.packets} {rule.packets * _SEGMENT_BYTES} -j {tail}"
