"""Upgrades of Cassandra: the paths that release notes allow, and what they say of schema changes in mixed versions.

From `NEWS.txt` of each line, section "Upgrading", and its general advice to upgrade one major version at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schemaquake.clusters.systems.cassandra.metadata_log import widen_metadata_service
from schemaquake.clusters.systems.topology import ToolCommand
from schemaquake.clusters.systems.upgrades import Upgrade

__all__ = ["upgrade_to"]

_REWRITE: Final = ToolCommand(arguments=("upgradesstables",), limit_s=600.0)


def _begin_metadata_log(nodes: int) -> Sequence[ToolCommand]:
    """Make the first node the metadata service, then let others commit, too (CEP-21, "Migration plan")."""
    return (ToolCommand(arguments=("cms", "initialize"), limit_s=120.0), *widen_metadata_service(nodes))


def _ignore(command: ToolCommand, addresses: Sequence[str]) -> ToolCommand:
    """Begin the metadata log without comparing the metadata of these nodes (`--ignore`, meant for nodes that are down)."""
    if command.arguments[:2] != ("cms", "initialize"):
        return command
    ignored = tuple(word for address in addresses for word in ("--ignore", address))
    return ToolCommand(arguments=(*command.arguments, *ignored), limit_s=command.limit_s)


_BY_LINE: Final = (
    (
        (6, 0),
        Upgrade(
            first=(4, 0),
            # Old nodes know nothing of it; the design wanted a switch that keeps them from it, and it was not made.
            on_old="unsupported",
            on_new="refused",
            until="last-steps",
            source="NEWS.txt of 6.0, Upgrading: no metadata changes until `nodetool cms initialize`; CEP-21, migration plan",
            on_each=(_REWRITE,),
            last=_begin_metadata_log,
            done_already=("CMS is already initialized", "metadata is already initialized"),
            refusals=(
                "mismatching cluster metadata",
                "All nodes are not yet upgraded",
                "Did not get response from .* not continuing with migration",
            ),
            insisting=_ignore,
            reversible=True,
        ),
    ),
    (
        (5, 0),
        Upgrade(
            first=(4, 0),
            on_old="unsupported",
            on_new="unsupported",
            until="nodes",
            source="NEWS.txt of 5.0, Upgrading: from 4.0 or later",
            on_each=(_REWRITE,),
            reversible=True,
        ),
    ),
    (
        (4, 0),
        Upgrade(
            first=(3, 0),
            on_old="unsupported",
            on_new="unsupported",
            until="nodes",
            source="NEWS.txt of 4.0, Upgrading: from 3.0.13, 3.11.0 or later; schema is not exchanged between 3.x and 4.x",
            on_each=(_REWRITE,),
        ),
    ),
    (
        (3, 0),
        Upgrade(
            first=(2, 1),
            on_old="unsupported",
            on_new="unsupported",
            until="nodes",
            source="NEWS.txt of 3.0, Upgrading: from 2.1.9 or 2.2.2; migrations need one version of messaging",
            on_each=(_REWRITE,),
        ),
    ),
)
"""From which line (major, minor) on, newest first."""


def upgrade_to(line: tuple[int, int]) -> Upgrade | None:
    """Find the way to that line; None for lines whose upgrades were not looked into."""
    return next((upgrade for first, upgrade in _BY_LINE if first <= line), None)
