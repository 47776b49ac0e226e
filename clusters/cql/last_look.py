"""Last look: a client's memory of its last reading of a node's schema, for the difference to the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import orjson

from schemaquake.harness.model.observation import Observation

__all__ = ["LastLook", "digest"]


class LastLook:
    """One client's memory of one node."""

    def __init__(self) -> None:
        self.version: str | None = None
        """The schema version of the last reading that was compared."""
        self._known: dict[tuple[str, str | None, str | None], bytes] = {}

    def changes(self, observed: Sequence[Observation]) -> Sequence[Observation]:
        """Return the version of a whole reading (the first row) and its differences from the last look; then remember it.

        An object that is gone gets one row without a definition.
        """
        version = observed[0]
        current = {(o.kind, o.keyspace, o.name): o for o in observed[1:]}
        changed = [o for key, o in current.items() if self._known.get(key) != digest(o)]
        gone = [
            replace(version, kind=kind, keyspace=keyspace, name=name, id=None, definition=None)
            for kind, keyspace, name in self._known
            if (kind, keyspace, name) not in current  # in order, so that a simulation repeats itself
        ]
        self._known = {key: digest(o) for key, o in current.items()}
        self.version = version.id
        return [version, *changed, *gone]


def digest(observation: Observation) -> bytes:
    """Render the id and the definition of an observation, which are equal for two readings of the same object."""
    return orjson.dumps([observation.id, observation.definition], option=orjson.OPT_SORT_KEYS)
