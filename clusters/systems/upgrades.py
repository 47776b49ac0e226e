"""Upgrades: from which lines a line takes over a node's data, how the upgrade ends, and what is promised meanwhile, as data.

Each promise has its source: the release notes of the newer line, or the document of the design behind it. A checker judges
by what is promised; what release notes only ask of operators (`unsupported`) accuses nobody who did otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from schemaquake.clusters.systems.topology import ToolCommand
from schemaquake.harness.model.operation import JSON

__all__ = ["Insisting", "LastSteps", "MixedChanges", "Upgrade"]

MixedChanges: TypeAlias = Literal["refused", "unsupported"]
"""The fate of a schema change that is asked of a node before the upgrade has ended.

- `refused`: the node takes none, so that none is lost
- `unsupported`: release notes ask that none be made; nothing is said of one that a node takes
"""

LastSteps: TypeAlias = Callable[[int], Sequence[ToolCommand]]
"""From the number of nodes to the commands that one node carries out when all have been upgraded, in order."""


Insisting: TypeAlias = Callable[[ToolCommand, Sequence[str]], ToolCommand]
"""From a last step that was refused, and the addresses of all other nodes, to the command that goes on without asking those."""


def _none(nodes: int) -> Sequence[ToolCommand]:  # noqa: ARG001 - others depend on it
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """The way from older lines to one line of releases."""

    first: tuple[int, int]
    """The oldest line (major, minor) whose data a node of this line starts with."""
    on_old: MixedChanges
    """What becomes of schema changes asked of nodes that are not upgraded yet, once one is."""
    on_new: MixedChanges
    """What becomes of those asked of nodes that are upgraded, until the last step is done."""
    until: Literal["nodes", "last-steps"]
    """Whether the promises for mixed versions end with the last node or with the last step."""
    source: str
    on_each: Sequence[ToolCommand] = ()
    """Commands that every node carries out when all have been upgraded."""
    last: LastSteps = _none
    done_already: Sequence[str] = ()
    """Regular expressions of answers which prove that a command need not be carried out again."""
    refusals: Sequence[str] = ()
    """Regular expressions of answers which prove that nothing was changed."""
    insisting: Insisting | None = None
    """What an operator may ask for when a last step is refused because nodes differ; None: there is no such thing."""
    reversible: bool = False
    """True where a node may go back to the older line, as long as the last step was not begun."""

    def promises(self) -> Mapping[str, JSON]:
        """Return what is promised for mixed versions, as the history holds it."""
        return {
            "schema_changes": {"old": self.on_old, "new": self.on_new},
            "until": self.until,
            "source": self.source,
        }
