"""Options that every nemesis of the topology has."""

from __future__ import annotations

from dataclasses import dataclass

from schemaquake.harness.model.options import option, truth

__all__ = ["TopologyOptions", "after_failure", "at", "how", "limit", "node"]


@dataclass(frozen=True, kw_only=True)
class TopologyOptions:
    """Options that every nemesis of the topology reads, written without a nemesis' name."""

    overlap: bool = option(
        False, "true if an operation on the topology may begin while another one goes on", parse=truth
    )


def node(description: str) -> str:
    """Declare the option that fixes the node of the operation."""
    return option("any", f"the node {description}; `any`: the seed chooses")


def at() -> float:
    """Declare the option that fixes when the operation begins."""
    return option(-1.0, "the second of the main phase in which it begins; negative: the seed chooses")


def limit() -> float:
    """Declare the option that bounds one attempt."""
    return option(300.0, "the limit in seconds for one attempt; an operation that has not ended then hangs")


def after_failure(ways: tuple[str, ...]) -> str:
    """Declare the option that fixes what is done after a failure."""
    return option("any", f"what is done when it fails: {', '.join(ways)}, or `any`, of which the seed draws one")


def how() -> str:
    """Declare the option that fixes how a node is taken down which is to be dead."""
    return option("kill", "how the node is taken down before: `kill` (SIGKILL) or `stop` (SIGTERM)")
