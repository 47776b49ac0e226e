"""Observing: the logic of the observer, independent of the runtime and its clock."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.runtime import Settled, Sleep
from schemaquake.harness.units import S

__all__ = ["SAMPLE_EVERY_S", "Look", "settle"]

SAMPLE_EVERY_S: Final = 0.5

_LOOK_EVERY_NS: Final = S // 5
_UNREADABLE: Final = "unreadable: "


class Look(NamedTuple):
    """One reading of every connected node, recorded under the phase's name. Resumed with all observations."""

    phase: str
    complete: bool


def settle(*, now_ns: Callable[[], int], limit_s: float, quiet_s: float = 0) -> Generator[Look | Sleep, Any, Settled]:
    """Look until every node shows the same schema version, twice in a row, or the limit passes.

    With `quiet_s` it also ends once every look for so long was answered by every node, and showed what the look before it did.
    """
    began_ns = now_ns()
    ends_ns = began_ns + int(limit_s * S)
    agreed_before = False
    quiet_since_ns = began_ns
    last: Mapping[str, str] = {}
    while True:
        seen: Sequence[Observation] = yield Look("running", complete=False)
        versions = {one.node: one.id or f"{_UNREADABLE}{one.error}" for one in seen if one.kind == "version"}
        agreed = _agree(versions)
        # Twice in a row: between a push and the next, versions may meet for a moment.
        if agreed and agreed_before:
            return Settled(True, (now_ns() - began_ns) / S, versions)
        now = now_ns()
        if now >= ends_ns:
            return Settled(False, (now - began_ns) / S, versions)
        if versions != last or any(one.kind != "version" or one.error is not None for one in seen):
            quiet_since_ns, last = now, versions
        # A node may still be on its way to the others' version while versions agree at one look.
        elif quiet_s and not agreed and now - quiet_since_ns >= quiet_s * S:
            return Settled(False, (now - began_ns) / S, versions, quiet_s=(now - quiet_since_ns) / S)
        agreed_before = agreed
        yield Sleep(min(now + _LOOK_EVERY_NS, ends_ns))


def _agree(versions: Mapping[str, str]) -> bool:
    return len(set(versions.values())) == 1 and not any(v.startswith(_UNREADABLE) for v in versions.values())
