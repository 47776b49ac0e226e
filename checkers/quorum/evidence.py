"""Quorum evidence: what was found, told so that a reader can follow it from the history.

One finding a kind and key, with the clearest case in full: what was put and what was read, side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import explain, listing, phase_text, seconds
from schemaquake.checkers.quorum.operations import NOTHING, Operations
from schemaquake.checkers.quorum.probes import UnderReplicated
from schemaquake.checkers.quorum.violations import Pairs, Violations
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.verdict import Anomaly

__all__ = ["told"]

_KEYS_MOST: Final = 20
_EXAMPLES_MOST: Final = 5
_NO_READS: Final = "no later read of the key was answered"


def told(of: Operations, found: Violations) -> Iterator[Anomaly]:
    """The findings, at most twenty keys of a kind; all are counted in the verdict's `stats`."""
    teller = _Teller(of, found)
    for pairs, tell in (
        (found.missed, teller.missed),
        (found.non_monotonic, teller.non_monotonic),
        (found.shadowed, teller.shadowed),
    ):
        yield from (tell(some) for some in list(_by_key(of, pairs).values())[:_KEYS_MOST])
    yield from (teller.under_replicated(one) for one in found.under_replicated[:_KEYS_MOST])
    by_key = _by_key(of, [(read, read) for read in found.unwritten])
    yield from (teller.unwritten([read for read, _ in some]) for some in list(by_key.values())[:_KEYS_MOST])


def _by_key(of: Operations, pairs: Pairs) -> Mapping[int, Pairs]:
    groups: dict[int, list[tuple[int, int]]] = {}
    for pair in pairs:
        groups.setdefault(int(of.key[pair[1]]), []).append(pair)
    return groups


class _Teller:
    """Sentences and columns about operations of one history."""

    def __init__(self, of: Operations, found: Violations) -> None:
        self._of = of
        self._found = found

    def missed(self, pairs: Pairs) -> Anomaly:
        put, get = pairs[0]
        reason = self._must_meet("T1 was acknowledged before T2 began", put, get)
        if self._of.version[get] == NOTHING:
            but = "T2 found nothing, and nothing is ever deleted"
        else:
            but = f"T2 shows {self._value(get)}, which the replicas hold for older: {self._stamps(put, get)}"
        return self._anomaly("missed-quorum-write", pairs, ("put", "get"), reason, but)

    def non_monotonic(self, pairs: Pairs) -> Anomaly:
        first, second = pairs[0]
        reason = self._must_meet(
            f"T1 was answered before T2 began, and repaired the replicas it asked to {self._value(first)}",
            first,
            second,
        )
        but = f"T2 shows {self._value(second)}, which is older: {self._stamps(first, second)}"
        return self._anomaly("non-monotonic-quorum-read", pairs, ("first get", "second get"), reason, but)

    def shadowed(self, pairs: Pairs) -> Anomaly:
        hiding, hidden = pairs[0]
        of = self._of
        read = next((self._found.shown[put] for _, put in pairs if put in self._found.shown), None)
        if read is not None:
            hiding, hidden = next(pair for pair in pairs if self._found.shown.get(pair[1]) == read)
        shown = f"T3, begun after T2 was acknowledged, shows {self._value(read)}" if read is not None else _NO_READS
        count = len({put for _, put in pairs})
        return anomaly(
            "shadowed-write",
            objects=[of.keys[of.key[hidden]]],
            nodes=[self._node(at) for pair in pairs for at in pair],
            ops=[int(of.index[at]) for pair in pairs[:_EXAMPLES_MOST] for at in pair]
            + ([int(of.index[read])] if read is not None else []),
            evidence={
                "hidden": count,
                "examples": [
                    {"hides": self._told(one), "hidden": self._told(put)} for one, put in pairs[:_EXAMPLES_MOST]
                ],
                "shown_by": None if read is None else self._told(read),
            },
            explanation=explain(
                [f"T{n} = {self._text(at)}" for n, at in enumerate((hiding, hidden, read), 1) if at is not None],
                "T1 was acknowledged before T2 was asked for, so T2 is the later write.",
                f"the replicas keep the higher writetime, and {self._stamps(hiding, hidden)}: T2 never took effect, though "
                f"it was acknowledged; {shown}. So it is with {count} acknowledged puts of this key. No quorum was "
                "broken: this is last-write-wins under clocks that differ.",
            ),
        )

    def under_replicated(self, one: UnderReplicated) -> Anomaly:
        of = self._of
        promised = int(of.copies[one.put])
        held = {
            node: None if of.version[probe] == NOTHING else self._value(probe) for node, probe in one.probes.items()
        }
        shows = listing(f"{node} {'nothing' if value is None else value}" for node, value in held.items())
        few = f"only {listing(one.holders)} of them" if one.holders else "none of them"
        return anomaly(
            "under-replicated-value",
            objects=[of.keys[of.key[one.put]]],
            nodes=one.older,
            ops=[int(of.index[at]) for at in (one.put, *one.probes.values())],
            evidence={
                "phase": one.phase,
                "put": self._told(one.put),
                "promised": promised,
                "held_by": list(one.holders),
                "probes": {node: self._told(probe) for node, probe in one.probes.items()},
            },
            explanation=explain(
                [f"T1 = {self._text(one.put)}"],
                f"T1 was acknowledged at {self._level(one.put)}, so {promised} of {self._found.copies} replicas have it, or "
                "a later one.",
                f"{phase_text(one.phase)} a read at ONE through each replica shows {shows}: {few} it can be said of.",
            ),
        )

    def unwritten(self, reads: Sequence[int]) -> Anomaly:
        of = self._of
        read = reads[0]
        put = int(of.put[of.version[read]])
        if put < 0:
            lines, but = [], "nobody put it, at any time"
        else:
            lines = [f"T2 = {self._text(put)}"]
            but = (
                "T2, which was to put it, was refused"
                if of.refused[put]
                else "T2 was asked for only after T1 was answered"
            )
        return anomaly(
            "unwritten-value",
            objects=[of.keys[of.key[read]]],
            nodes=[self._node(at) for at in reads],
            ops=[int(of.index[at]) for at in (*reads[:_EXAMPLES_MOST], *([put] if put >= 0 else []))],
            evidence={"count": len(reads), "examples": [self._told(at) for at in reads[:_EXAMPLES_MOST]]},
            explanation=explain(
                [f"T1 = {self._text(read)}", *lines],
                f"T1 shows {self._value(read)}, so somebody put {self._value(read)} there before.",
                f"{but}. So it is with {len(reads)} reads of this key.",
            ),
        )

    def _anomaly(self, kind: str, pairs: Pairs, sides: tuple[str, str], reason: str, but: str) -> Anomaly:
        of = self._of
        one, other = pairs[0]
        later = len({pair[1] for pair in pairs})
        return anomaly(
            kind,
            objects=[of.keys[of.key[other]]],
            nodes=[self._node(at) for pair in pairs for at in pair],
            ops=[int(of.index[at]) for pair in pairs[:_EXAMPLES_MOST] for at in pair],
            evidence={
                "count": later,
                "examples": [
                    {side: self._told(at) for side, at in zip(sides, pair, strict=True)}
                    for pair in pairs[:_EXAMPLES_MOST]
                ],
            },
            explanation=explain(
                [f"T1 = {self._text(one)}", f"T2 = {self._text(other)}"],
                reason,
                f"{but}. So it is with {later} gets of this key.",
            ),
        )

    def _must_meet(self, what: str, one: int, other: int) -> str:
        of, copies = self._of, self._found.copies
        here, there = int(of.copies[one]), int(of.copies[other])
        return (
            f"{what}; any {here} and any {there} of {copies} replicas share one ({here} + {there} > {copies}), so T2 asked "
            "one that has what T1 stands for, or something later."
        )

    def _stamps(self, one: int, other: int) -> str:
        """`T1 has the writetime 12 µs, T2 11 µs`, with the bounds where nobody saw it."""
        first, second = self._writetime(one), self._writetime(other)
        told = f"T1 has the writetime {first}, T2 {second}"
        return f"{told}, and at one writetime the greater value wins" if first == second else told

    def _writetime(self, at: int) -> str:
        order, version = self._found.versions, self._of.version[at]
        since, until, ceiling = (int(bound[version]) for bound in (order.since, order.until, order.ceiling))
        if since == until:
            return f"{since} µs"
        if ceiling < until:
            return f"below {ceiling} µs (nobody saw it; a put that its coordinator was asked for later has that one)"
        return f"between {since} and {until} µs (nobody saw it; by its coordinator's clock)"

    def _text(self, at: int) -> str:
        """`op 412: p3 n1 put k.q/5 := 17 at QUORUM -> ok at 8.214 s`."""
        of = self._of
        process, kind = of.rows["process"][at].as_py(), of.rows["type"][at].as_py()
        key = of.keys[of.key[at]]
        asked, answer = (f"put {key} := {self._value(at)}", kind)
        if of.f[at] != 0:
            asked, answer = f"{of.rows['f'][at].as_py()} {key}", f"{kind}, {self._value(at)}"
        completed = of.rows["completed"][at].as_py()
        when = "" if completed is None else f" at {seconds(completed)}"
        return f"op {of.index[at]}: p{process} {self._node(at)} {asked} at {self._level(at)} -> {answer}{when}"

    def _told(self, at: int) -> Mapping[str, JSON]:
        """An operation as evidence; times in s, the writetime in µs."""
        of, order, version = self._of, self._found.versions, self._of.version[at]
        completed = of.rows["completed"][at].as_py()
        known = version != NOTHING and order.since[version] == order.until[version]
        bounds: Mapping[str, Any] = {}
        if version != NOTHING and not known and order.since[version] != np.iinfo(np.int64).min:
            bounds = {"writetime_between": [int(order.since[version]), int(order.until[version])]}
        return {
            "op": int(of.index[at]),
            "node": self._node(at),
            "consistency": self._level(at),
            "value": None if version == NOTHING else int(of.value[version]),
            "writetime": int(order.since[version]) if known else None,
            **bounds,
            "invoked_s": round(int(of.invoked[at]) / 1e9, 6),
            "completed_s": None if completed is None else round(completed / 1e9, 6),
        }

    def _value(self, at: int) -> str:
        version = self._of.version[at]
        return "nothing" if version == NOTHING else str(int(self._of.value[version]))

    def _level(self, at: int) -> str:
        return str(self._of.levels[at])

    def _node(self, at: int) -> str:
        return str(self._of.nodes[self._of.node[at]])
