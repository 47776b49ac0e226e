"""Last look: a client's memory of its last reading of a node's schema, for the difference to the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import orjson

from schemaquake.harness.model.observation import Observation, kind_in_memory

__all__ = ["LastLook", "digest"]

_Name: TypeAlias = tuple[str, str | None, str | None, str | None]
"""Kind, keyspace and name of a row, and the kind of the object where the row is about one in memory."""


class LastLook:
    """One client's memory of one node."""

    def __init__(self) -> None:
        self.version: str | None = None
        """The schema version of the last reading that was compared."""
        self._known: dict[_Name, bytes] = {}

    def changes(self, observed: Sequence[Observation], *, ended_ns: int = 0) -> Sequence[Observation]:
        """Return the version of a whole reading (the first row) and its differences from the last look; then remember it.

        An object that is gone gets one row without a definition, of the time at which the reading had ended (`ended_ns`, or the latest of
        its rows): it may have gone while the node was read. A memory that could not be read says nothing: what it showed last
        is still what the next reading is compared with.
        """
        version = observed[0]
        ended = replace(version, time=max(ended_ns, *(o.time for o in observed)), definition=None)
        current = {_name(o): o for o in observed[1:]}
        unread = self._memory() if "memory_error" in (version.definition or {}) else {}
        changed = [o for key, o in current.items() if self._known.get(key) != digest(o)]
        gone = [
            replace(ended, kind=key[0], keyspace=key[1], name=key[2], id=key[3])
            for key in self._known  # in order, so that a simulation repeats itself
            if key not in current and key not in unread
        ]
        self._known = {**unread, **{key: digest(o) for key, o in current.items()}}
        self.version = version.id
        return [version, *changed, *gone]

    def _memory(self) -> dict[_Name, bytes]:
        return {key: known for key, known in self._known.items() if key[0] == "live"}


def _name(row: Observation) -> _Name:
    return row.kind, row.keyspace, row.name, kind_in_memory(row.kind, row.id, row.definition)


def digest(observation: Observation) -> bytes:
    """Render the id and the definition of an observation, which are equal for two readings of the same object."""
    return orjson.dumps([observation.id, observation.definition], option=orjson.OPT_SORT_KEYS)
