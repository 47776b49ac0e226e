"""Aims: faults at a step of a protocol, from `-O kill.at=`, `pause.at=` and `cut.at=`.

`STEP`, `STEP@N` or `STEP@N:WHERE`, several with commas: the fault falls when any node comes to the step for the N-th time (1), counted from when
the cluster stands. It hits that node or, with WHERE, the one that is named: `6.0/sequence/q5:n2`. A cut isolates a node, or takes away the one
link that is named: `group0/topology/o1:n1-n3`. It lasts for `fault.seconds` (3). With `fault.within` none falls later than so many seconds
after the cluster stood, so that servers are not killed while they start for the last readings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from schemaquake.clusters.simulated.kernel import Kernel
from schemaquake.clusters.simulated.node import SimulatedNode
from schemaquake.harness.errors import PlanError
from schemaquake.harness.units import S

__all__ = ["OPTIONS", "Strike", "aim_all", "parse_end", "parse_strikes"]

Verb: TypeAlias = Literal["kill", "pause", "cut"]

OPTIONS: Final[Mapping[str, str]] = {
    "kill.at": "a step at which a server is killed, and started again 3 s later: 4.0/apply/e5, or 4.0/apply/e5@2 for its second passage, "
    "or 4.0/apply/e5@2:n3 to hit n3 whoever comes there; several with commas",
    "pause.at": "a step at which a server is frozen for 3 s",
    "cut.at": "a step at which a server is cut off from all others for 3 s, or a link between two: 6.0/sequence/q5:n1-n2",
    "fault.seconds": "how long a fault at a step lasts, instead of 3 s",
    "fault.within": "the seconds from when the cluster stands after which no fault at a step falls any more; without it they fall to the end",
}
_STRIKE: Final = re.compile(r"(?P<step>[^@:]+)(@(?P<passage>[1-9][0-9]*))?(:(?P<where>[^@:]+))?")
_DEFAULT_S: Final = "3"


class Strike(NamedTuple):
    """A fault at a step."""

    verb: Verb
    step: str
    passage: int
    where: tuple[str, ...]
    """The node that is hit, or the two ends of a link; empty: the node that comes to the step."""
    lasts_ns: int


def parse_strikes(options: Mapping[str, str], steps: Sequence[str], nodes: Sequence[str]) -> Sequence[Strike]:
    """Return the faults that a run's options ask for. Raises PlanError for a step or a node that there is not."""
    lasts_ns = _nanoseconds("fault.seconds", options.get("fault.seconds", _DEFAULT_S))
    return [
        _strike(verb, each, steps, nodes, lasts_ns)
        for verb in get_args(Verb)
        for each in filter(None, options.get(f"{verb}.at", "").split(","))
    ]


def parse_end(options: Mapping[str, str]) -> int | None:
    """Return the time, ns after the cluster stands, after which no fault falls; None: there is none. Raises PlanError."""
    text = options.get("fault.within")
    return None if text is None else _nanoseconds("fault.within", text)


def _nanoseconds(option: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,3})?", text):
        raise PlanError(f"-O {option}={text}: not a number of seconds")
    whole, _, part = text.partition(".")
    return int(whole) * S + int(f"{part:0<9}")


def _strike(verb: Verb, text: str, steps: Sequence[str], nodes: Sequence[str], lasts_ns: int) -> Strike:
    match = _STRIKE.fullmatch(text)
    if match is None or match["step"] not in steps:
        raise PlanError(f"-O {verb}.at={text}: no such step. Steps: {', '.join(steps)}")
    where = tuple(match["where"].split("-")) if match["where"] else ()
    most = 2 if verb == "cut" else 1
    if len(set(where)) != len(where) or len(where) > most or not set(where) <= set(nodes):
        raise PlanError(f"-O {verb}.at={text}: no such node. Nodes: {', '.join(nodes)}")
    return Strike(verb, match["step"], int(match["passage"] or 1), where, lasts_ns)


def aim_all(
    kernel: Kernel, nodes: Mapping[str, SimulatedNode], strikes: Sequence[Strike], *, within_ns: int | None = None
) -> None:
    """Aim the faults of a run, whose passages, and the time within which they fall, are counted from now on."""
    ends_ns = None if within_ns is None else kernel.heap.now_ns + within_ns
    for number, strike in enumerate(strikes):
        kernel.aim(strike.step, strike.passage, partial(_hit, kernel, nodes, strike, ends_ns, f"AIMED-{number}"))


def _hit(
    kernel: Kernel,
    nodes: Mapping[str, SimulatedNode],
    strike: Strike,
    ends_ns: int | None,
    chain: str,
    came: str,
) -> None:
    """Inject a fault, and have it undo itself."""
    if ends_ns is not None and kernel.heap.now_ns > ends_ns:
        return
    for act in _acts(nodes, strike, chain, came):
        kernel.after(strike.lasts_ns, act())


def _acts(
    nodes: Mapping[str, SimulatedNode], strike: Strike, chain: str, came: str
) -> Iterator[Callable[[], Callable[[], None]]]:
    """Yield what is to be done, each of which returns what undoes it."""
    where = strike.where or (came,)
    node = nodes[where[0]]
    match strike.verb:
        case "kill":
            yield node.crash
        case "pause":
            yield partial(_pause, node)
        case "cut":
            for peer in where[1:] or node.peers:
                for one, other in ((node, nodes[peer]), (nodes[peer], node)):
                    yield partial(_cut, one, other.address, chain)


def _pause(node: SimulatedNode) -> Callable[[], None]:
    node.pause()
    return node.resume


def _cut(node: SimulatedNode, address: str, chain: str) -> Callable[[], None]:
    node.cut_off(address, chain)
    return partial(node.reconnect, chain)
