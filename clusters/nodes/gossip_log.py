"""Gossip log: what a node thinks of the others, which Cassandra tells in its log and nowhere in CQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["last_words"]

_ALIVE: Final = re.compile(r"[/ ](?P<address>[0-9.]+)(?::[0-9]+)? (?:is|has restarted,) now (?P<state>UP|DOWN|dead)")


def last_words(text: str) -> Mapping[str, str]:
    """The log's last word on each address: UP, DOWN or dead. Of those it never spoke of, nothing."""
    return {match["address"]: match["state"] for match in _ALIVE.finditer(text)}
