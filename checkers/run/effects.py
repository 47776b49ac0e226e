"""Effects: what was read back of a fault, when it was injected and when it was healed, is what that fault does.

The notes `fault-begins` and `fault-ends` say in `effect` what the nemesis read back (`docs/nemeses.md`). What that must be follows from the
kind of effect that the nemesis declares (`schemaquake.harness.model.traits.NemesisTraits`): a server that was killed is stopped, and runs
again when it is healed; a paused one is paused; a clock shows its offset, and true time when it is healed; filters have rules, and their
counters add up. Effects of nemeses that declare none, or that are not installed, say only whether they were observed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from schemaquake.checkers.evidence.notes import traits_of

__all__ = ["UNDONE", "find_false_effects"]

_TOLERANCE_S: Final = 1.0
"""The default of `clock.tolerance_s`, for effects of before it was noted."""
_READ_LATE_S: Final = 5.0
"""How far a single reading of a clock over a busy machine may be from what it shows."""
UNDONE: Final = frozenset({"expired", "error"})
"""Keys of effects of which the harness read back nothing: a guard undid the fault before, or reading back failed."""
_SENDING: Final = " (sending)"
"""Behind the name of a node whose own filter has its entry, and that misleads packets to others besides."""
_UNCOUNTED: Final = frozenset({"neighbour", "netem"})
"""Means of dropping packets that need not count them."""
_COUNTER: Final = re.compile(r' -c (\d+) (\d+)|"packets": (\d+), "bytes": (\d+)')
"""The packets and bytes that a rule dropped, as iptables and nftables tell them."""


def find_false_effects(begin: Mapping[str, Any], end: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield what contradicts a fault in the effects of the notes of its begin and its end; `end` None: there is none."""
    if "effect" not in begin and "effect" not in (end or {}):
        return  # as in histories of before effects were noted
    found, left = begin.get("effect"), None if end is None else end.get("effect")
    known = _KINDS.get(traits_of(begin.get("nemesis", "")).effect)
    if not isinstance(found, dict) or found.get("observed", known is None) is not True:
        yield "was not seen to take effect when it began"
        return
    if known is not None and "nodes" in found:
        yield from known[0](begin, found)
    if end is None:
        return
    if not isinstance(left, dict):
        yield "was healed, and what it left is not noted"
        return
    if known is not None and left.get("observed") is True and ("nodes" in found) != ("nodes" in left):
        yield "has an effect on nodes in one of the notes of its begin and its end alone"
    if known is not None and "nodes" in left and left.get("observed") is True and not UNDONE & left.keys():
        yield from known[1](begin, left)


def _states(effect: Mapping[str, Any]) -> Mapping[str, Any]:
    nodes = effect.get("nodes")
    return nodes if isinstance(nodes, dict) else {}


def _differing(effect: Mapping[str, Any], moment: str, wanted: Collection[str]) -> list[str]:
    """List the nodes that were not in one of these states at a moment, `before` or `after`."""
    states = _states(effect)
    return sorted(
        node for node, state in states.items() if not isinstance(state, dict) or state.get(moment) not in wanted
    )


def _find_unnamed(fault: Mapping[str, Any], effect: Mapping[str, Any], moment: str) -> Iterator[str]:
    """Yield that an effect names other nodes than its fault does; those that are gone were left alone. `moment`: began, was healed."""
    if unnamed := sorted((set(fault.get("nodes") or ()) - set(effect.get("gone") or ())) ^ _states(effect).keys()):
        yield f"{moment}, and its effect does not say of exactly its nodes what became of them: {', '.join(unnamed)}"


def _find_running(fault: Mapping[str, Any], effect: Mapping[str, Any]) -> Iterator[str]:
    """Yield what shows that servers did not go down."""
    yield from _find_unnamed(fault, effect, "began")
    yield from _find_running_first(fault, effect)


def _find_running_first(_: Mapping[str, Any], effect: Mapping[str, Any]) -> Iterator[str]:
    """Yield what shows that those servers did not go down that its effect names: a round begins with one of its nodes."""
    if wrong := _differing(effect, "after", {"stopped"}):
        yield f"took down {', '.join(wrong)}, which did not stop"
    if wrong := _differing(effect, "before", {"running", "paused"}):
        yield f"took down {', '.join(wrong)}, which did not run"


def _find_stopped(fault: Mapping[str, Any], effect: Mapping[str, Any]) -> Iterator[str]:
    """Yield what shows that servers did not come back."""
    yield from _find_unnamed(fault, effect, "was healed")
    if wrong := _differing(effect, "after", {"running"}):
        yield f"was healed, and {', '.join(wrong)} did not run"


def _find_awake(fault: Mapping[str, Any], effect: Mapping[str, Any]) -> Iterator[str]:
    """Yield what shows that servers were not frozen."""
    yield from _find_unnamed(fault, effect, "began")
    if wrong := _differing(effect, "after", {"paused"}):
        yield f"paused {', '.join(wrong)}, which went on"
    if wrong := _differing(effect, "before", {"running", "paused"}):
        yield f"paused {', '.join(wrong)}, which did not run"


def _find_frozen(fault: Mapping[str, Any], effect: Mapping[str, Any]) -> Iterator[str]:
    """Yield what shows that servers were not frozen until they were healed, or are frozen still."""
    yield from _find_unnamed(fault, effect, "was healed")
    if wrong := _differing(effect, "before", {"paused"}):
        yield f"was healed, and {', '.join(wrong)} had not been paused"
    if wrong := _differing(effect, "after", {"running", "stopped"}):
        yield f"was healed, and {', '.join(wrong)} did not go on"


def _offsets(fault: Mapping[str, Any]) -> Mapping[str, float]:
    offsets = (fault.get("parameters") or {}).get("offsets")
    return offsets if isinstance(offsets, dict) else {}


def _is_near(value: Any, wanted: float, tolerance_s: float) -> bool:
    return isinstance(value, int | float) and abs(value - wanted) <= tolerance_s


def _find_other_clocks(fault: Mapping[str, Any], effect: Mapping[str, Any]) -> Iterator[str]:
    """Yield what shows that clocks were not put ahead or behind by the offsets of the fault."""
    offsets, shown = _offsets(fault), _states(effect)
    tolerance_s = effect.get("tolerance_s", _TOLERANCE_S)
    for node in sorted(offsets.keys() ^ shown.keys()):
        yield f"shifted other clocks than its effect says: {node}"
    for node in sorted(offsets.keys() & shown.keys()):
        clock = shown[node] if isinstance(shown[node], dict) else {}
        if clock.get("wanted") != offsets[node] or not _is_near(clock.get("read"), offsets[node], tolerance_s):
            yield f"shifted the clock of {node} by {offsets[node]:+g} s, and another offset was read"


def _find_lasting_clocks(fault: Mapping[str, Any], effect: Mapping[str, Any]) -> Iterator[str]:
    """Yield what shows that clocks did not keep their offsets, or that they were not put right."""
    offsets, strobes = _offsets(fault), (fault.get("parameters") or {}).get("kind") == "strobe"
    # One that ended before its first switch has left every clock as it was shifted.
    switched = strobes and bool(effect.get("toggles") or effect.get("broke_off"))
    yield from _find_unnamed(fault, effect, "was healed")
    begun = fault.get("effect") or {}
    if begun.get("tolerance_s") != effect.get("tolerance_s"):
        yield "has another tolerance for clocks in the note of its begin than in that of its end"
    if not strobes and (effect.get("toggles") is not None or effect.get("broke_off") is not None):
        yield "was healed, and clocks were switched that were to keep their offsets"
    tolerance_s = effect.get("tolerance_s", _TOLERANCE_S)
    for node, clock in sorted(_states(effect).items()):
        before, after = (clock.get(name) if isinstance(clock, dict) else None for name in ("before", "after"))
        kept = switched or _is_near(before, offsets.get(node, 0.0), tolerance_s + _READ_LATE_S)
        if not kept or not _is_near(after, 0.0, tolerance_s):
            yield f"was healed, and the clock of {node} had shown another offset, or was not put right"


def _find_open_links(fault: Mapping[str, Any], effect: Mapping[str, Any]) -> Iterator[str]:
    """Yield what shows that no packets could be dropped."""
    filters = _states(effect)
    if not filters or any(not isinstance(each, dict) or not each.get("rules") for each in filters.values()):
        yield "began, and a node has no rule that drops packets"
    grudge = (fault.get("parameters") or {}).get("grudge") or {}
    deaf = {node for node, dropped in grudge.items() if dropped}
    counted = all(isinstance(each, dict) and each.get("means") not in _UNCOUNTED for each in filters.values())
    if counted and deaf and deaf != filters.keys():
        yield f"began, and its rules are not on exactly the nodes that drop packets: {', '.join(sorted(deaf ^ filters.keys()))}"


def _list_means(pieces: Collection[Any]) -> set[Any]:
    return {piece.get("means") for piece in pieces if isinstance(piece, dict)}


def _find_odd_counters(fault: Mapping[str, Any], effect: Mapping[str, Any]) -> Iterator[str]:
    """Yield what shows that the counters of dropped packets are not those of the rules of the fault."""
    pieces = [piece for found in _states(effect).values() for piece in (found if isinstance(found, list) else [found])]
    if not all(isinstance(piece, dict) for piece in pieces):
        yield "was healed, and its effect does not say what its rules dropped"
        return
    if not all("packets" in piece for piece in pieces):
        yield "was healed, and its effect does not say of each filter how many packets it dropped"
    if not all(piece.get("rules") for piece in pieces):
        yield "was healed, and a node had no rule left that drops packets"
    if _list_means(_states(fault.get("effect") or {}).values()) != _list_means(pieces):
        yield "dropped packets by other means than were found when it was healed"
    packets = sum(piece.get("packets") or 0 for piece in pieces)
    if packets != (effect.get("packets") or 0):
        yield "was healed, and the packets that its rules dropped are not as many as its effect says"
    elif not packets and not any(piece.get("means") in _UNCOUNTED for piece in pieces):
        yield "was healed, and its rules had dropped no packet"
    yield from _find_other_rules(_states(fault.get("effect") or {}), _states(effect))
    began = {name.removesuffix(_SENDING) for name in _states(fault.get("effect") or {})}
    if missing := sorted(began - _states(effect).keys() - set(effect.get("gone") or ())):
        yield f"was healed, and its rules were gone from {', '.join(missing)}"


def _find_other_rules(begun: Mapping[str, Any], ended: Mapping[str, Any]) -> Iterator[str]:
    """Yield where a filter had other rules when it was removed than when it was installed, or counted otherwise than they did."""
    for name, found in sorted(begun.items()):
        means = found.get("means") if isinstance(found, dict) else None
        pieces = ended.get(name.removesuffix(_SENDING))
        same = [piece for piece in pieces if piece.get("means") == means] if isinstance(pieces, list) else []
        if means is None or means in _UNCOUNTED or len(same) != 1:
            continue
        given, left = ([str(rule) for rule in each.get("rules") or ()] for each in (found, same[0]))
        if [_COUNTER.sub("", rule) for rule in given] != [_COUNTER.sub("", rule) for rule in left]:
            yield f"was healed, and {name} had other rules than it was given"
        counts = [[int(count) for count in match if count] for rule in left for match in _COUNTER.findall(rule)]
        if counts and [sum(count) for count in zip(*counts, strict=True)] != [
            same[0].get("packets"),
            same[0].get("bytes"),
        ]:
            yield f"was healed, and the rules of {name} counted otherwise than its effect says"


_Find = Callable[[Mapping[str, Any], Mapping[str, Any]], Iterator[str]]
_KINDS: Final[Mapping[str | None, tuple[_Find, _Find]]] = {
    "down": (_find_running, _find_stopped),
    "down-in-turn": (_find_running_first, _find_stopped),
    "frozen": (_find_awake, _find_frozen),
    "clocks": (_find_other_clocks, _find_lasting_clocks),
    "packets": (_find_open_links, _find_odd_counters),
}
"""For each kind of effect what contradicts it at the begin of a fault and at its end."""
