"""Starts: every start of a server is one that the run has a reason for, and every reason has its start.

Judges the conductor's notes `node-start` and `node-died`: each node is booted once; one whose process ended by itself before the final
readings is started again when faults are healed, and no other one is; each node that serves is restarted once in the end. What is noted otherwise is a doubt.
`starts_at_least` and `starts_at_most` say how many logs a node can have left.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import pyarrow.compute as pc

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.notes import Notes, may_start, traits_of
from schemaquake.checkers.evidence.operations import select_clients
from schemaquake.harness.model.records import plain

__all__ = ["find_strange_starts", "starts_at_least", "starts_at_most"]

_PHASES: Final[Mapping[str, tuple[str, ...]]] = {"boot": ("boot", "setup"), "fault": ("heal",), "restart": ("restart",)}
"""What a start is noted as → the phases of the run in which it is; setups may begin on the first node alone."""
_DOWN: Final = frozenset({"down", "down-in-turn"})
_UP: Final = frozenset({"frozen", "clocks", "packets"})
"""Effects of faults that end no server."""
_OF_MANY: Final = re.compile(r"\ball\b|\brecover")
"""Commands that start more nodes than the one that they are noted for."""


def find_strange_starts(evidence: Evidence) -> Iterator[str]:
    """Yield the nodes that answered although no start of theirs is noted as served before, and starts without a reason; spares join later."""
    notes = evidence.notes
    served: dict[str, int] = {}
    for start in notes.starts:
        if start.served:
            served[start.node] = min(start.time, served.get(start.node, start.time))
        if start.phase not in {*_PHASES, "operation"}:
            yield f"a note of a start of {start.node} does not say in which phase it was"
        if start.served and (start.exit_code is not None or start.first_error is not None):
            yield f"a note of a start of {start.node} says that it served, and how it ended"
    answers = {schema.node: schema.time for schema in reversed(evidence.shown.schemas)}
    for node, time in sorted(answers.items()):
        if not served.get(node, time + 1) <= time and not notes.membership.changes:
            yield f"{node} was read, and no start of it that served is noted before"
    for node, time in sorted(_first_answers(evidence).items()):
        if node in served and time < served[node] and not notes.membership.changes:
            yield f"{node} acknowledged an operation, and no start of it that served is noted before"
    if notes.planned:
        yield from _find_unfounded(notes)


def _first_answers(evidence: Evidence) -> Mapping[str, int]:
    """Return when (ns) each node acknowledged the first operation of a client."""
    events = evidence.history.select(["time", "process", "type", "node"])
    answers = plain(select_clients(events.filter(pc.equal(events["type"], "ok"))))
    times = answers.group_by("node", use_threads=False).aggregate([("time", "min")])
    return {row["node"]: row["time_min"] for row in times.to_pylist() if row["node"] is not None}


def _find_unfounded(notes: Notes) -> Iterator[str]:
    """Yield the starts that are there twice, or at another time than they say, or without the death that they are for."""
    counts = Counter((start.node, start.phase) for start in notes.starts if start.phase in {"boot", "restart"})
    for (node, phase), count in sorted(counts.items()):
        if count > 1:
            yield f"{count} starts of {node} are noted in phase {phase}, in which each node is started once"
    ends = {name: time for time, name, state in notes.phases if state == "ends"}
    for start in notes.starts:
        places = [(notes.began(phase), ends.get(phase)) for phase in _PHASES.get(start.phase, ())]
        within = [
            begin is not None and begin <= start.time and (end is None or start.time <= end) for begin, end in places
        ]
        if within and not any(within):
            yield f"a start of {start.node} is noted as one of phase {start.phase}, and was at another time"
    again = Counter(start.node for start in notes.starts if start.phase == "fault")
    # A node that ends from here on is started by the last restart, or not any more.
    judged = notes.began("settle-settled")
    died = Counter(death.node for death in notes.deaths if judged is None or death.time < judged)
    for node in sorted((again - died).keys()):
        yield f"{node} was started again after the faults, and it is not noted that its process had ended"
    for node in sorted((died - again).keys()):
        yield f"the process of {node} ended, and no start of it after that is noted"


def starts_at_least(notes: Notes, node: str) -> int:
    """Count the starts of a node that certainly went well, and left a log."""
    served = sum(start.node == node and start.served and start.anew for start in notes.starts)
    return served + sum(
        traits_of(value.get("nemesis", "")).effect == "down"
        and _is_up(value, node)
        and not _overlaps(notes, node, time)
        for time, value in _fault_ends(notes)
    )


def starts_at_most(notes: Notes, nodes: Collection[str]) -> Mapping[str, int | None]:
    """Count, by node, the starts that may have left a log; None: there may have been any number."""
    if notes.planned.get("kills") is True:
        return dict.fromkeys(nodes)
    counts = Counter(start.node for start in notes.starts if start.phase != "operation")
    often: set[str] = set()
    for event, value in notes.all:
        if many := _list_often_started(event, value, nodes):
            often.update(many)
        elif event["f"] == "fault-begins":
            if traits_of(value.get("nemesis", "")).effect in _DOWN:
                counts.update(node for node in nodes if node in (value.get("nodes") or ()))
        elif "becomes" in value:  # the end of an operation: what is only asked for has no attempts
            for one in (value.get("effect") or {}).get("attempts") or ():
                if may_start(one):
                    counts.update(nodes if one.get("node") is None else [one["node"]])
    return {node: None if node in often else counts[node] for node in nodes}


def _list_often_started(event: Mapping[str, Any], value: Mapping[str, Any], nodes: Collection[str]) -> Collection[str]:
    """List the nodes that what is noted may have started any number of times: it was refused, failed, went on, or is not known."""
    if event["f"].startswith("fault-"):
        counted = event["f"] in {"fault-begins", "fault-ends"}
        if counted and traits_of(value.get("nemesis", "")).effect in _DOWN | _UP:
            return []
        return [node for node in nodes if node in (value.get("nodes") or nodes)]
    if "becomes" not in value or event["type"] == "invoke":
        return []
    attempts = (value.get("effect") or {}).get("attempts")
    if event["type"] != "ok" or not isinstance(attempts, list):  # what took a node down starts it again, without a note
        return nodes
    unclear = any(not isinstance(one, Mapping) or _OF_MANY.search(str(one.get("command"))) for one in attempts)
    return nodes if unclear else []


def _fault_ends(notes: Notes) -> Iterator[tuple[int, Mapping[str, Any]]]:
    return ((event["time"], value) for event, value in notes.all if event["f"] == "fault-ends")


def _is_up(fault: Mapping[str, Any], node: str) -> bool:
    """Tell if the end of a fault says that it started this node, and that it served."""
    effect = fault.get("effect")
    state = (effect.get("nodes") or {}).get(node) if isinstance(effect, Mapping) else None
    return isinstance(state, Mapping) and state.get("after") == "running" and "seconds" in state


def _overlaps(notes: Notes, node: str, ended: int) -> bool:
    """Tell if an operation was going on while the fault of a node was that ended then: one may have left its start to the other."""
    began = min((one.begins for one in notes.faults if one.ends == ended and node in one.nodes), default=0)
    return any(one.invoked <= ended and (one.completed is None or one.completed >= began) for one in notes.operations)
