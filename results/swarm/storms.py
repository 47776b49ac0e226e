"""Storms: plans that put one part of a protocol under many faults at once, drawn for a share of the seeds (`schemaquake.results.swarm.drawing`).

A swarm leaves most features off, so that they do not hide each other; what breaks a vote, a log or a change of the ring needs several at
once, near each other: statements that follow one another through other nodes, links on which one node is behind, and a second fault while
the first one lasts.

- A **storm of the log**: random changes, many of them, while servers are killed, frozen or cut off at steps of the log, up to nine times.
  In one of three they fall on the node that decides an entry, just when it has it alone, so that others go on without it; or on those
  in a row who go on; or when some others have it, and not all.
- A **storm of the ring**: few keys (or many, most of which are written before a change and not again), few replicas, many reads and writes, while nodes come and go and faults fall on the steps of that.
- A **storm of rows**: few keys that all nodes read and write at QUORUM, while nodes are cut off, frozen or late, so that writes stay halfway.

One in three of the last two has rows of unique keys, some of which are deleted, instead.

Draws have streams of their own: seeds without a storm are drawn as if there were none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from schemaquake.clusters.simulated.draws import Draws, Stream

__all__ = ["Kind", "Storm", "draw_storm"]

Kind: TypeAlias = Literal["log", "ring", "rows"]

_SHARE: Final = 0.13
"""The share of the seeds that have a storm of each kind that a system can have."""
_NODES_OF_A_LOG: Final = (3, 3, 5)
_NODES_OF_A_RING: Final = 4
_SECONDS: Final = 20.0
_STEPS_OF_A_LOG: Final = 3
_PLACES_IN_A_LOG: Final = (3, 6, 9)
_PASSAGES_OF_A_LOG: Final = (8, 40, 160)
"""Passages among which a fault falls: a run of twenty seconds comes to a step by which entries are kept some hundreds of times, and to
one of an election a few times."""
_PLACES_IN_A_RING: Final = (1, 2, 3)
_PASSAGES_OF_A_RING: Final = 4
_AT_FIRST_PASSAGES: Final = 0.5
"""The share of storms of the ring whose faults fall on first passages: one change comes to most of its steps once."""
_VERBS: Final = (("kill",), ("kill", "cut"), ("kill", "cut"), ("kill", "pause"), ("cut", "pause"))
_VERBS_AT_FIRST: Final = ("kill", "kill", "cut", "pause")
_VERBS_OF_A_RING: Final = ("cut", "cut", "kill", "pause")
_LASTS_S: Final = (1, 2, 4, 8)
_LASTS_IN_A_LOG_S: Final = (1, 4, 4, 8)
"""After two seconds and more without its leader a group has another one."""
_LASTS_AT_DECIDERS_S: Final = (2, 4, 4)
_ENDED_BY_S: Final = 24
"""Seconds after the cluster stands by which all faults at steps have ended: main phases last a little longer."""
_FACTORS: Final = (1, 1, 2, 3)
_RATES_OF_A_LOG: Final = (8.0, 8.0, 16.0)
_RATES_OF_A_RING: Final = (10.0, 40.0, 80.0)
_WITH_DELETIONS: Final = 1 / 3
_KEYS: Final = ("6", "6", "40", "200")
_OF_DECIDERS: Final = 0.35
"""The share of storms of the log that fall on who decides entries."""
_HAS_IT_ALONE: Final = frozenset(
    {"raft/replicate/r2", "raft/election/v3", "6.0/commit/k6", "6.0/commit/k7", "6.0/paxos/p2", "6.0/paxos/p3"}
)
"""Steps at which a node has an entry on its disk, or decided, and has told nobody."""
_VERBS_AT_DECIDERS: Final = (("cut",), ("cut", "kill"), ("cut", "pause"), ("pause", "kill"))
_IN_A_ROW: Final = 0.5
"""The share of these whose faults follow on one another: the next one falls on who has gone on without the first."""
_ROWS_OF_FAULTS: Final = (2, 3)
_NEXT_PASSAGES: Final = (1, 2, 2, 3)
"""Passages between two faults in a row: a leader that is new comes to its own first entry, and then to a client's."""
_HALFWAY: Final = 0.3
"""The share of storms of the log at deciders that fall when some others, and not all, have an entry."""
_SOME_HAVE_IT: Final = frozenset({"raft/replicate/f2", "6.0/paxos/a1", "6.0/paxos/a2", "6.0/follow/l1"})
_ONE_BY_ONE: Final = {"append": "single"}
_RATES_OF_ROWS: Final = (4.0, 10.0, 40.0)
_KEYS_OF_ROWS: Final = (1, 4, 16)
"""Many keys that are seldom written, too: a write that stayed halfway is seen only until the next one of its key."""
_FACTORS_OF_ROWS: Final = (2, 3, 3, 4)
_FAULTS_OF_ROWS: Final = ("partition", "pause", "kill", "packet-loss")


@dataclass(frozen=True, kw_only=True)
class Storm:
    """Storm of one seed. Whoever asked for it adds what a plan needs besides: systems, spares, limits."""

    kind: Kind
    nodes: int
    rate: float
    time_limit_s: float
    factor: int | None
    nemeses: tuple[str, ...]
    """Further faults, which fall at random times."""
    has_slow_links: bool
    has_deletions: bool
    """True for rows of unique keys some of which are deleted; False for few keys that are read and written again and again."""
    follows_on: bool
    """True if statements follow one another through other nodes."""
    options: Mapping[str, str] = field(default_factory=dict)


def draw_storm(draws: Draws, log_steps: Sequence[str], ring_steps: Sequence[str], *, has_rows: bool) -> Storm | None:
    """Draw the storm of a seed; None: it has none. The steps are those of its system's log and of its changes of the ring.

    `has_rows` says if its rows can be read and written at a level of consistency.
    """
    kinds: list[Kind] = [
        *(["log"] if log_steps else []),  # type: ignore[list-item]
        *(["ring"] if ring_steps and has_rows else []),  # type: ignore[list-item]
        *(["rows"] if has_rows else []),  # type: ignore[list-item]
    ]
    stream = draws.stream("storm")
    if not stream.chance(_SHARE * len(kinds)):
        return None
    match stream.pick(kinds):
        case "log":
            storm = _of_log(stream, log_steps)
            deciders = draws.stream("storm", "deciders")
            alone = [step for step in log_steps if step in _HAS_IT_ALONE]
            if not (alone and deciders.chance(_OF_DECIDERS)):
                return storm
            halfway = draws.stream("storm", "halfway")
            some = [step for step in log_steps if step in _SOME_HAVE_IT]
            if some and halfway.chance(_HALFWAY):
                return _halfway(halfway, storm, some)
            return _on_deciders(deciders, draws.stream("storm", "deciders in a row"), storm, alone)
        case "ring":
            storm = _of_ring(stream, ring_steps, draws.stream("storm", "keys").pick(_KEYS))
            first = draws.stream("storm", "first passages")
            return _at_first_passages(first, storm, ring_steps) if first.chance(_AT_FIRST_PASSAGES) else storm
        case "rows":
            return _of_rows(stream)


def _of_log(stream: Stream, steps: Sequence[str]) -> Storm:
    nodes = stream.pick(_NODES_OF_A_LOG)
    names = tuple(f"n{number}" for number in range(1, nodes + 1))
    verbs = stream.pick(_VERBS)
    some = [stream.pick(steps) for _ in range(_STEPS_OF_A_LOG)]
    places = [
        (stream.pick(verbs), stream.pick(some), 2 + stream.below(stream.pick(_PASSAGES_OF_A_LOG)))
        for _ in range(stream.pick(_PLACES_IN_A_LOG))
    ]
    return Storm(
        kind="log",
        nodes=nodes,
        rate=stream.pick(_RATES_OF_A_LOG),
        time_limit_s=_SECONDS,
        factor=None,
        nemeses=("partition",) if stream.chance(0.4) else (),
        has_slow_links=stream.chance(0.5),
        has_deletions=False,
        follows_on=stream.chance(0.6),
        options=_aimed(stream, places, names, elsewhere=0.2, lasts_s=_LASTS_IN_A_LOG_S),
    )


def _on_deciders(stream: Stream, in_a_row: Stream, storm: Storm, steps: Sequence[str]) -> Storm:
    """Return a storm of the log whose faults fall on the node that comes to one of these steps, long enough for others to go on.

    Every other one has them fall on those in a row who go on.
    """
    verbs = stream.pick(_VERBS_AT_DECIDERS)
    passages = stream.pick(_PASSAGES_OF_A_LOG)
    places = [
        (stream.pick(verbs), stream.pick(steps), 2 + stream.below(passages))
        for _ in range(stream.pick(_PLACES_IN_A_LOG))
    ]
    if in_a_row.chance(_IN_A_ROW):
        places = _draw_rows(in_a_row, verbs, steps, passages)
    names = tuple(f"n{number}" for number in range(1, storm.nodes + 1))
    return replace(
        storm,
        rate=max(_RATES_OF_A_LOG),
        follows_on=True,
        options=_aimed(stream, places, names, elsewhere=0.0, lasts_s=_LASTS_AT_DECIDERS_S),
    )


def _halfway(stream: Stream, storm: Storm, steps: Sequence[str]) -> Storm:
    """Return a storm of the log whose faults hit one node while another one comes to these steps: some have an entry then, and others never do.

    What those lack they are sent entry by entry, where that can be chosen.
    """
    verbs = stream.pick(_VERBS_AT_DECIDERS)
    passages = stream.pick(_PASSAGES_OF_A_LOG)
    places = [
        (stream.pick(verbs), stream.pick(steps), 2 + stream.below(passages))
        for _ in range(stream.pick(_PLACES_IN_A_LOG))
    ]
    names = tuple(f"n{number}" for number in range(1, storm.nodes + 1))
    aims = _aimed(stream, places, names, elsewhere=1.0, lasts_s=_LASTS_AT_DECIDERS_S)
    one_by_one = _ONE_BY_ONE if any(step.startswith("raft/") for step in steps) else {}
    return replace(storm, rate=max(_RATES_OF_A_LOG), follows_on=True, options={**aims, **one_by_one})


def _draw_rows(stream: Stream, verbs: Sequence[str], steps: Sequence[str], passages: int) -> list[tuple[str, str, int]]:
    """Draw places (verb, step, passage) in rows of two or three, at one step and a few passages apart."""
    places = []
    for _ in range(stream.pick(_ROWS_OF_FAULTS)):
        step, passage = stream.pick(steps), 2 + stream.below(passages)
        for _ in range(stream.pick(_ROWS_OF_FAULTS)):
            places.append((stream.pick(verbs), step, passage))
            passage += stream.pick(_NEXT_PASSAGES)
    return places


def _at_first_passages(stream: Stream, storm: Storm, steps: Sequence[str]) -> Storm:
    """Return a storm of the ring whose faults fall on the first passages of their steps, most often on another node than the one that comes there."""
    places = [(stream.pick(_VERBS_AT_FIRST), stream.pick(steps), 1) for _ in range(stream.pick(_PLACES_IN_A_RING))]
    names = tuple(f"n{number}" for number in range(1, storm.nodes + 1))
    others = {name: text for name, text in storm.options.items() if not name.endswith(".at")}
    return replace(storm, options={**others, **_aimed(stream, places, names, elsewhere=0.8, lasts_s=_LASTS_S)})


def _of_ring(stream: Stream, steps: Sequence[str], keys: str) -> Storm:
    names = tuple(f"n{number}" for number in range(1, _NODES_OF_A_RING + 2))
    has_deletions = stream.chance(_WITH_DELETIONS)
    aims: Mapping[str, str] = {}
    if stream.chance(0.7):
        places = [
            (stream.pick(_VERBS_OF_A_RING), stream.pick(steps), 1 + stream.below(_PASSAGES_OF_A_RING))
            for _ in range(stream.pick(_PLACES_IN_A_RING))
        ]
        aims = _aimed(stream, places, names[:-1], elsewhere=0.7, lasts_s=_LASTS_S)
    return Storm(
        kind="ring",
        nodes=_NODES_OF_A_RING,
        rate=stream.pick(_RATES_OF_A_RING),
        time_limit_s=_SECONDS,
        factor=stream.pick(_FACTORS),
        nemeses=(),
        has_slow_links=stream.chance(0.5),
        has_deletions=has_deletions,
        follows_on=False,
        options={**({} if has_deletions else {"keys": keys}), **aims},
    )


def _of_rows(stream: Stream) -> Storm:
    has_deletions = stream.chance(_WITH_DELETIONS)
    first = stream.pick(_FAULTS_OF_ROWS)
    second = stream.pick(_FAULTS_OF_ROWS)
    return Storm(
        kind="rows",
        nodes=stream.pick(_NODES_OF_A_LOG),
        rate=stream.pick(_RATES_OF_ROWS),
        time_limit_s=_SECONDS,
        factor=stream.pick(_FACTORS_OF_ROWS),
        nemeses=tuple(dict.fromkeys((first, second) if stream.chance(0.3) else (first,))),
        has_slow_links=stream.chance(0.7),
        has_deletions=has_deletions,
        follows_on=False,
        options={} if has_deletions else {"keys": str(stream.pick(_KEYS_OF_ROWS))},
    )


def _aimed(
    stream: Stream,
    places: Sequence[tuple[str, str, int]],
    nodes: Sequence[str],
    *,
    elsewhere: float,
    lasts_s: Sequence[int],
) -> dict[str, str]:
    """Return the options that aim at these places (verb, step, passage); a part of the faults hit another node than the one that comes there."""
    found: dict[str, dict[str, None]] = {}
    for verb, step, passage in places:
        where = ""
        if stream.chance(elsewhere):
            one = stream.pick(nodes)
            other = stream.pick([name for name in nodes if name != one])
            where = f":{one}-{other}" if verb == "cut" and stream.chance(0.5) else f":{one}"
        found.setdefault(f"{verb}.at", {})[f"{step}@{passage}{where}"] = None
    lasting_s = stream.pick(lasts_s)
    return {
        **{name: ",".join(each) for name, each in found.items()},
        "fault.seconds": str(lasting_s),
        "fault.within": str(_ENDED_BY_S - lasting_s),
    }
