"""Slow links: `-O slow=n1-n3:300` has every message from n1 to n3 take 300 ms longer, from when the cluster stands.

`-O slow=dc1-dc2:80` says so of all links from one data centre to another.

Nothing is lost and no server is taken for dead, but n3 learns late what n1 knows: of two nodes one is behind for as long as it is asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from schemaquake.harness.errors import PlanError
from schemaquake.harness.units import MS

__all__ = ["OPTIONS", "parse_slow_links"]

OPTIONS: Final[Mapping[str, str]] = {
    "slow": "links on which every message takes longer, in one direction, each with the ms: n1-n3:300, or dc1-dc2:80 for all from one data centre to another; several with commas",
}
_LINK: Final = re.compile(r"(?P<sender>[^-:,]+)-(?P<receiver>[^-:,]+):(?P<ms>[1-9][0-9]{0,4})")


def parse_slow_links(
    options: Mapping[str, str], nodes: Sequence[str], data_centers: Mapping[str, str] | None = None
) -> Mapping[tuple[str, str], int]:
    """Return by sender and receiver how much longer a message takes, ns. Raises PlanError for a link that there is not.

    `data_centers` has that of every node, if there are several. A link that is named twice, by itself and with its data centre, has the
    longer time.
    """
    ends: dict[str, tuple[str, ...]] = {name: (name,) for name in nodes}
    for name, center in (data_centers or {}).items():
        ends[center] = (*ends.get(center, ()), name)
    found: dict[tuple[str, str], int] = {}
    for text in filter(None, options.get("slow", "").split(",")):
        match = _LINK.fullmatch(text)
        if match is None or match["sender"] == match["receiver"]:
            raise PlanError(f"-O slow={text}: not a link and the ms that it takes longer, as in n1-n3:300")
        if not {match["sender"], match["receiver"]} <= ends.keys():
            raise PlanError(f"-O slow={text}: no such node. Nodes: {', '.join(nodes)}")
        for sender in ends[match["sender"]]:
            for receiver in ends[match["receiver"]]:
                later_ns = max(found.get((sender, receiver), 0), int(match["ms"]) * MS)
                if sender != receiver:
                    found[sender, receiver] = later_ns
    return found
