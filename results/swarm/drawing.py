"""Drawing: the plan of a seed. Each seed has a subset of workloads, nemeses and aims, and sizes of its own; the rest is off.

Draws are keyed by their purpose: a feature that is left out changes no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from schemaquake.clusters.simulated.draws import Draws, Stream
from schemaquake.clusters.simulated.provider import (
    asks_before_it_answers,
    list_habits,
    list_recovery_steps,
    list_ring_steps,
    list_steps_of,
    list_verbs,
)
from schemaquake.clusters.systems.system import parse_system
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.topology import TopologyVerb
from schemaquake.harness.registry import load, names
from schemaquake.results.swarm.storms import Kind, Storm, draw_storm
from schemaquake.workloads.races.grid import cells_with_lookups

__all__ = ["CHANGES", "NEMESES", "plan_of_seed", "steps_of", "storm_of_seed", "without_data_centers", "workloads_of"]

NEMESES: Final = ("partition", "kill", "pause", "clock", "packet-loss", "restart", "rolling-restart", "stop")
_RACES: Final = (
    "create-table", "drop-type", "drop-function", "drop-table-view", "drop-alter", "drop-keyspace", "alter-options",
    "add-columns", "alter-type", "create-index", "drop-recreate",
)  # fmt: skip
_OF_ROWS: Final = "quorum"
_WITH_DELETIONS: Final = "reloaded-rows"
_DATA: Final = ("register", "set", _OF_ROWS)
_CHURN: Final = "schema-churn"
_CREATED_AGAIN: Final = "drop-recreate"
_NODES: Final = (3, 3, 3, 3, 3, 4, 5, 5, 7)
_STEPS_AIMED_AT: Final = 3
_PLACES: Final = (1, 1, 2, 4)
"""Places that a fault is aimed at; of several, all are passages of one or two steps, as what breaks a protocol may need a fault after another."""
_PASSAGES_MOST: Final = 12
"""The first passage is that of the first keyspace, without which a run shows nothing."""
_LATER_MS: Final = (60, 200, 400, 800)
"""How much longer messages take on slow links: less than the time after which a leader or a node is taken for dead."""
_ROUND_TRIP_MOST_MS: Final = 1000
_JOINS: Final = ("bootstrap", "replace")
_LOSS: Final = "lost-majority"
_ASKED: Final[Mapping[str, TopologyVerb]] = {
    "decommission": "decommission",
    "removenode": "remove",
    "move": "move",
    _LOSS: "recover-group",
}
CHANGES: Final = (*_JOINS, *_ASKED)
"""Changes of the ring, which one seed in five has, where the ring changes; some of them two."""
_NODES_LEAST: Final = 4
"""Nodes of a cluster that one leaves: three have to stay."""
_NODES_MOST_OF_A_LOSS: Final = 5
_LIVING_NODES_LEAVE: Final = frozenset({"bootstrap", "decommission", "move"})
"""Changes that go on with any replication factor; of fewer than three replicas a dead one is needed for a majority."""
_TOGETHER: Final = ("bootstrap", "move")
"""Changes two of which may go on at once: all nodes that are needed for both live."""
_TOGETHER_WITHOUT_MOVE: Final = ("bootstrap", "decommission")
"""The same where no node moves along the ring."""
_LOCK_RANGES: Final = "6.0/sequence/"
"""The beginning of the names of steps of changes that go on beside each other, if they have no range in common."""
_NODES_OF_A_WIDE_RING: Final = 14
"""Nodes of which a join and a leave change five ranges each, often none that is the other's."""
_WIDE: Final = 0.5
_BOTH_BEGIN_S: Final = ((4.0, 4.0), (4.0, 5.5), (4.0, 6.1), (4.0, 6.9))
"""Times at which a join and a leave begin that are to meet: a node is up for two seconds before it asks for its place."""
_CALLED_BACK: Final = "cancel-sequence"
_CAN_BE_CALLED_BACK: Final[Mapping[str, TopologyVerb]] = {"decommission": "abort-leave", "move": "abort-move"}
"""Changes that are called back one time in four, where a system has a command for it."""
_DIE: Final = frozenset({"removenode", "replace"})
"""Changes of the ring whose node is dead: beside them a replication factor changes one time in two."""
_OF_FACTORS: Final = "rf-change"
_FACTORS_AT_FIRST: Final = (1, 2, 3)
_FACTOR_CHANGES: Final = (1, 2, 3)
_KEYS_OF_FACTORS: Final = ("8", "60", "200")
"""A row that a repair has lost is seen until it is written again: most of many keys are not."""
_LIMIT_OF_A_CHANGE_S: Final = "40"
_SECONDS_LEAST: Final = 12.0
"""Time limit of a run in which the ring changes, for writes before and after, or packets are lost: in a shorter fault none may come by."""
_NEED_TIME: Final = frozenset({"partition", "packet-loss"})
_RATE_LEAST: Final = 4.0
"""Operations a second where links are cut or lose packets: of fewer none may come by."""
_SECONDS_OF_CUTS: Final = 20.0
_DATA_CENTERS: Final = 2
_RACKS: Final = 2
_SEEDS_OF_BEFORE: Final = 40_000
"""The first seed with racks where two changes of the ring go on at once: earlier ones stay the runs that pages and tests name."""
_SEEDS_OF_FIRST_RACES: Final = range(6_400, 10_000)
_LATER_SEEDS_OF_FIRST_RACES: Final = 80_000
"""Seeds whose races begin with any of their variants: those in the range, and from that one on. Races of others, which stay the runs that they
were for the same reason, begin with the first variant, and there are two at most."""
_SEEDS_OF_LOOKUPS: Final = 120_000
"""The first seed that may read rows through an index or a view, delete rows twice, have a replication factor changed while the ring changes, or
write at ONE and read at ALL; earlier ones stay the runs that they were."""
_LEVELS_OF_ROWS: Final = (("ONE", "ALL"), ("ONE", "ALL"), ("ALL", "ONE"), ("TWO", "ALL"))
"""Levels of writes and reads that meet, though only one of them needs more than a few: a read at ALL finds several replicas behind."""
_GRID: Final = "grid"
_OF_LOOKUPS: Final = 1 / 3
"""The share of the seeds with races that have cells of the grid instead, whose rows are read through an index or a view, too."""
_CELLS: Final = (2, 4)
_MEANWHILE: Final = 1 / 2
"""The share of the changes of the ring beside which a replication is to change, where a change locks ranges: it is refused then."""
_HELD_UP_S: Final = 4
_VERBS_AT_REPAIRS: Final = ("cut", "cut", "pause", "kill")
_PASSAGES_OF_REPAIRS: Final = 40
"""Passages of a step of streams among which a fault falls: each repair streams every range of the node twice or more."""
_SILENT_FOR_S: Final = (4, 4, 12)
"""A range is waited for for ten seconds."""
_SEEDS_OF_FAILED_REPAIRS: Final = 200_000
"""The first seed in which a fault at a repair is so long, and on such a node, that the repair fails; earlier ones stay the runs that they were."""
_VERBS_AT_FAILED_REPAIRS: Final = ("cut", "pause", "kill")
_PASSAGES_OF_FAILED_REPAIRS: Final = 12
_SILENT_TOO_LONG_S: Final = (12, 16)
_VARIANTS_MOST: Final = 6
"""Variants that a workload of races takes in turn."""
_NODES_OF_CENTERS: Final = (4, 4, 6)
"""Nodes of a cluster in two data centres: two, or three, in each."""
_LEVELS: Final = ("LOCAL_QUORUM", "QUORUM", "LOCAL_QUORUM", "EACH_QUORUM")
"""The last one needs nearly all nodes, and acknowledges nothing in a run whose sides are cut off from beginning to end."""
_WITH_LEVELS: Final = frozenset({"quorum", "set"})
"""Workloads whose level of consistency is an option."""
_BETWEEN_CENTERS_MS: Final = (20, 60, 200)
"""How much longer messages take from one data centre to the other."""
_OF_DATA_CENTERS: Final = ("partition.targets", "consistency")
_OF_A_LOG: Final = ("raft/", "group0/change/", "group0/apply/", "6.0/commit/", "6.0/follow/", "6.0/paxos/")
"""The beginnings of the names of steps that decide and carry out the entries of a log."""
_WATCHED: Final = {"invariants": "checked"}
"""Protocols are broken more often than a client can tell."""
_CREWS: Final = (1, 1, 3)
"""Clients of a storm at each node: of one alone no coordinator ever has two requests at once."""
_CUT: Final = "partition"
"""The mode of races whose sides are cut off from each other; each waits for a majority, or for its turn, as long as a client does."""


def plan_of_seed(seed: int, systems: Sequence[str], options: Mapping[str, str] | None = None) -> Plan:
    """Return the plan of a seed on one of these systems, with further options of the simulation (`bugs`, `bug`)."""
    draws = Draws(seed)
    system = draws.stream("swarm", "system").pick(systems)
    storm = _storm(draws, system)
    if storm is not None:
        return _stormy(draws, seed, system, storm, options or {})
    plan = _resized(draws, _resized_too(draws, _called_back(draws, _plain(draws, seed, system, options or {}))))
    return _broken_off(draws, _resized_meanwhile(draws, plan)) if seed >= _SEEDS_OF_LOOKUPS else plan


def _plain(draws: Draws, seed: int, system: str, options: Mapping[str, str]) -> Plan:
    """Return the plan of a seed without a storm."""
    nodes = draws.stream("swarm", "nodes").pick(_NODES)
    factor = draws.stream("swarm", "factor").pick((None, None, None, 1, 2, 3, 5))
    workloads, chosen = _workloads(draws, system)
    if seed >= _SEEDS_OF_LOOKUPS:
        workloads, chosen = _looking_up(draws, system, workloads, chosen)
    chosen |= _first_race(draws, seed, chosen)
    nemeses = tuple(name for name in NEMESES if draws.stream("swarm", "nemesis", name).chance(0.15))
    time_limit_s = float(draws.stream("swarm", "seconds").pick((5, 8, 8, 12, 20)))
    rate = float(draws.stream("swarm", "rate").pick((2, 4, 4, 8)))
    if _NEED_TIME.intersection(nemeses):
        time_limit_s, rate = max(time_limit_s, _SECONDS_LEAST), max(rate, _RATE_LEAST)
    if chosen.get("mode") == _CUT or "cells" in chosen:
        time_limit_s = max(time_limit_s, _SECONDS_OF_CUTS)
    changes = _changes(draws, system)
    spares = 0
    if changes:
        nemeses = (*changes, *nemeses)
        nodes, time_limit_s = max(nodes, _NODES_LEAST), max(time_limit_s, _SECONDS_LEAST)
        spares = sum(name in _JOINS for name in changes)
        workloads = _with_data(draws, system, workloads)
        chosen = {name: text for name, text in chosen.items() if name != "mode"}
        chosen |= _limits(draws, changes)
        if _LOSS in changes:
            # Whoever dies, a majority of the replicas of a row has one that stays; other faults together with it may lose rows for good.
            nodes, nemeses = min(nodes, _NODES_MOST_OF_A_LOSS), changes
            factor = nodes
        elif not _LIVING_NODES_LEAVE.issuperset(changes):
            factor = None
    centers = _data_centers(draws, system, changes)
    between = {}
    if centers > 1:
        nodes = draws.stream("swarm", "nodes of centers").pick(_NODES_OF_CENTERS)
        if changes:
            nodes, factor = 6, min(factor or 2, 2)
        workloads = _with_data(draws, system, workloads)
        levels = _LEVELS[:-1] if chosen.get("mode") == _CUT else _LEVELS
        nemeses, of_centers = _parted(draws, workloads, nemeses, levels)
        chosen |= of_centers
        time_limit_s = max(time_limit_s, _SECONDS_LEAST)
        between = _between_centers(draws)
    racks = _racks(draws, seed, centers, changes)
    chosen |= _habits(draws, system, cut=chosen.get("mode") == _CUT)
    everybody = tuple(f"n{number}" for number in range(1, nodes + spares + 1))
    aims = _aim(draws, system, everybody, is_changing=bool(changes), within_s=f"{time_limit_s:.0f}")
    # A server that a rolling restart starts does not survive a kill, which ends the restart, and says nothing of the protocol.
    spared = {*nemeses, *(["kill"] if "rolling-restart" in nemeses else [])}
    fitting = {name: text for name, text in aims.items() if name.partition(".")[0] not in spared}
    chosen |= fitting if len(fitting) > 1 else {}
    chosen |= between or _slow(draws, everybody)
    return Plan(
        system=system,
        workloads=workloads,
        cluster="simulated",
        nodes=nodes,
        spares=spares,
        data_centers=centers,
        racks=racks,
        nemeses=nemeses,
        seed=seed,
        time_limit_s=time_limit_s,
        rate=rate,
        replication_factor=None if factor is None else min(factor, nodes // centers),
        restart=draws.stream("swarm", "restart").pick(("rolling", "rolling", "together", "none")),
        options={**chosen, **_WATCHED, **options},
    )


def _called_back(draws: Draws, plan: Plan) -> Plan:
    """Return a plan in whose place, one time in four, a node that begins to leave or to move is called back."""
    changes = [name for name in plan.nemeses if name in CHANGES]
    if len(changes) != 1 or _CAN_BE_CALLED_BACK.get(changes[0]) not in _verbs_of(plan.system):
        return plan
    if not draws.stream("swarm", "called back").chance(0.25):
        return plan
    (change,) = changes
    others = {name: text for name, text in plan.options.items() if not name.startswith(f"{change}.")}
    own = {f"{_CALLED_BACK}.kind": change, f"{_CALLED_BACK}.limit-s": _LIMIT_OF_A_CHANGE_S}
    nemeses = tuple(_CALLED_BACK if name == change else name for name in plan.nemeses)
    return replace(plan, nemeses=nemeses, options={**others, **own})


def _resized(draws: Draws, plan: Plan) -> Plan:
    """Return a plan in whose place, one time in three where rows are read and written at QUORUM, a replication factor changes.

    Nothing else happens then but slow links: of a repair that a fault breaks off nothing is owed.
    """
    is_still = plan.data_centers == 1 and not {*plan.nemeses} & {*CHANGES, _CALLED_BACK}
    if not is_still or _OF_ROWS not in plan.workloads or "repair" not in _verbs_of(plan.system):
        return plan
    stream = draws.stream("swarm", "factors")
    if not stream.chance(1 / 3):
        return plan
    own = {
        f"{_OF_FACTORS}.count": str(stream.pick(_FACTOR_CHANGES)),
        f"{_OF_FACTORS}.limit-s": _LIMIT_OF_A_CHANGE_S,
        "keys": stream.pick(_KEYS_OF_FACTORS),
    }
    return replace(
        plan,
        nodes=max(plan.nodes, _NODES_LEAST),
        nemeses=(_OF_FACTORS,),
        time_limit_s=_SECONDS_OF_CUTS,
        replication_factor=stream.pick(_FACTORS_AT_FIRST),
        options={**_unaimed(plan), **own},
    )


def _resized_too(draws: Draws, plan: Plan) -> Plan:
    """Return a plan in whose place, one time in two where a dead node goes, a replication factor changes, too, before or afterwards.

    Nothing else happens, as in `_resized`; every row has two replicas or more at any time, of which one stays.
    """
    changes = {*plan.nemeses} & {*CHANGES}
    fits = len(changes) == 1 and changes <= _DIE and plan.data_centers == plan.racks == 1 and _OF_ROWS in plan.workloads
    if not fits or not draws.stream("swarm", "factor, too").chance(0.5):
        return plan
    own = {f"{_OF_FACTORS}.limit-s": _LIMIT_OF_A_CHANGE_S}
    nemeses = (*changes, _OF_FACTORS)
    return replace(plan, nemeses=nemeses, time_limit_s=_SECONDS_OF_CUTS, options={**_unaimed(plan), **own})


def _resized_meanwhile(draws: Draws, plan: Plan) -> Plan:
    """Return a plan in whose place, one time in two where a node that lives comes, goes or moves, a replication is to change meanwhile.

    The change of the ring is held up at one of its steps, so that they meet. Only where it locks ranges: the other one is refused there.
    """
    changes = [name for name in plan.nemeses if name in CHANGES]
    fits = len(changes) == 1 and changes[0] in _LIVING_NODES_LEAVE and _has_locks(plan.system)
    stream = draws.stream("swarm", "factor, meanwhile")
    if not fits or plan.data_centers > 1 or plan.racks > 1 or not stream.chance(_MEANWHILE):
        return plan
    (change,) = changes
    steps = [step for step in _ring_steps_of(plan.system) if step.startswith(_LOCK_RANGES)]
    begins_s = stream.pick(_BOTH_BEGIN_S)
    own = {
        f"{change}.begins-s": f"{begins_s[0]:g}",
        f"{_OF_FACTORS}.begins-s": f"{begins_s[1]:g}",
        f"{_OF_FACTORS}.limit-s": _LIMIT_OF_A_CHANGE_S,
        "overlap": "true",
        "pause.at": f"{stream.pick(steps)}@1",
        "fault.seconds": f"{_HELD_UP_S}",
        "fault.within": f"{plan.time_limit_s:.0f}",
    }
    return replace(plan, nemeses=(change, _OF_FACTORS), options={**_unaimed(plan), **own})


def _broken_off(draws: Draws, plan: Plan) -> Plan:
    """Return a plan in which, one time in two where a replication factor changes and nothing else, a fault falls on one of the repairs.

    A node that is silent for longer than a stream is waited for has not repaired its ranges, and is repaired again.
    """
    stream = draws.stream("swarm", "broken off")
    if plan.nemeses != (_OF_FACTORS,) or not stream.chance(0.5):
        return plan
    steps = [step for step in _ring_steps_of(plan.system) if "/stream/" in step]
    if plan.seed >= _SEEDS_OF_FAILED_REPAIRS:
        # Of a node that is named, which asks for nothing at that step, an answer is waited for in vain.
        verb, step = stream.pick(_VERBS_AT_FAILED_REPAIRS), steps[0]
        passage, where = 1 + stream.below(_PASSAGES_OF_FAILED_REPAIRS), f":{stream.pick(plan.node_names)}"
        seconds = stream.pick(_SILENT_TOO_LONG_S)
    else:
        verb, step, passage = stream.pick(_VERBS_AT_REPAIRS), stream.pick(steps), 1 + stream.below(_PASSAGES_OF_REPAIRS)
        where = "" if stream.chance(0.6) else f":{stream.pick(plan.node_names)}"
        seconds = stream.pick(_SILENT_FOR_S)
    own = {
        f"{verb}.at": f"{step}@{passage}{where}",
        "fault.seconds": str(seconds),
        "fault.within": f"{plan.time_limit_s:.0f}",
    }
    return replace(plan, options={**plan.options, **own})


def _unaimed(plan: Plan) -> dict[str, str]:
    """Return a plan's options without faults aimed at steps."""
    aims = {"fault.within", *(f"{verb}.at" for verb in ("kill", "pause", "cut"))}
    return {name: text for name, text in plan.options.items() if name not in aims}


def storm_of_seed(seed: int, systems: Sequence[str]) -> Kind | None:
    """Return the kind of storm that a seed has on one of these systems; None: it has none."""
    draws = Draws(seed)
    storm = _storm(draws, draws.stream("swarm", "system").pick(systems))
    return None if storm is None else storm.kind


def _storm(draws: Draws, system: str) -> Storm | None:
    return draw_storm(draws, _steps_of_log(system), _ring_steps_of(system), has_rows=_OF_ROWS in workloads_of(system))


def _stormy(draws: Draws, seed: int, system: str, storm: Storm, options: Mapping[str, str]) -> Plan:
    """Return the plan of a seed with a storm: of the ring with changes of it, else of the log with changes of the schema."""
    changes = _some_changes(draws, system) if storm.kind == "ring" else ()
    nodes = storm.nodes
    if len(changes) > 1 and _has_locks(system) and draws.stream("storm", "wide").chance(_WIDE):
        changes, nodes = _TOGETHER_WITHOUT_MOVE, _NODES_OF_A_WIDE_RING
    leaves_dead = not _LIVING_NODES_LEAVE.issuperset(changes)
    spares = sum(name in _JOINS for name in changes)
    everybody = tuple(f"n{number}" for number in range(1, nodes + spares + 1))
    chosen = dict(storm.options) | _limits(draws, changes)
    if storm.follows_on and asks_before_it_answers(system):
        chosen["relay"] = "true"
    chosen |= _habits(draws, system, cut=False)
    if storm.has_deletions and seed >= _SEEDS_OF_LOOKUPS and draws.stream("storm", "deleted again").chance(0.5):
        chosen["delete-again"] = "true"
    chosen |= _levels(draws, seed, storm)
    crew = draws.stream("storm", "crew").pick(_CREWS)
    if storm.has_slow_links:
        chosen |= _slow_between_two(draws, everybody) or _slow(draws, everybody, always=True)
    return Plan(
        system=system,
        workloads=(_CHURN if storm.kind == "log" else _WITH_DELETIONS if storm.has_deletions else _OF_ROWS,),
        cluster="simulated",
        nodes=nodes,
        spares=spares,
        racks=_racks(draws, seed, 1, changes) if len(changes) > 1 else 1,
        nemeses=(*changes, *storm.nemeses),
        seed=seed,
        time_limit_s=storm.time_limit_s,
        rate=storm.rate,
        concurrency=nodes * crew if crew > 1 else None,
        replication_factor=None if storm.factor is None or leaves_dead else min(storm.factor, storm.nodes),
        restart=draws.stream("swarm", "restart").pick(("rolling", "rolling", "together", "none")),
        options={**chosen, **_WATCHED, **options},
    )


def _levels(draws: Draws, seed: int, storm: Storm) -> dict[str, str]:
    """Draw, in one later storm of rows of three, other levels of writes and reads than QUORUM."""
    stream = draws.stream("storm", "levels")
    if storm.kind != "rows" or storm.has_deletions or seed < _SEEDS_OF_LOOKUPS or not stream.chance(1 / 3):
        return {}
    writes, reads = stream.pick(_LEVELS_OF_ROWS)
    return {"consistency": writes, "read-consistency": reads}


@cache
def _steps_of_log(system: str) -> tuple[str, ...]:
    """Return the steps by which a system decides and carries out the entries of its log; none in designs without one."""
    return tuple(step for step in steps_of(system) if step.startswith(_OF_A_LOG))


def _has_locks(system: str) -> bool:
    return any(step.startswith(_LOCK_RANGES) for step in _ring_steps_of(system))


@cache
def _ring_steps_of(system: str) -> tuple[str, ...]:
    """Return the steps of a system's changes of the ring, without those by which a lost group is recovered."""
    if not _verbs_of(system):
        return ()
    return tuple(step for step in steps_of(system) if step in list_ring_steps() and step not in list_recovery_steps())


@cache
def workloads_of(system: str) -> tuple[str, ...]:
    """Return the workloads that a swarm runs on a system: those that are installed, and whose features it has."""
    features = parse_system(system).features
    installed = set(names("workloads"))
    known = [name for name in (*_RACES, _CHURN, *_DATA) if name in installed]
    return tuple(name for name in known if load("workloads", name).requires <= features)


def _workloads(draws: Draws, system: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Draw one or two kinds of races, or random changes, or neither, and with some of them reads and writes."""
    fitting = workloads_of(system)
    races = [name for name in _RACES if name in fitting]
    data = [name for name in _DATA if name in fitting]
    kind = draws.stream("swarm", "kind").below(10)
    beside = draws.stream("swarm", "data")
    chosen: dict[str, str] = {}
    workloads: list[str] = []
    if kind < 6 and races:
        first = draws.stream("swarm", "races").below(len(races))
        workloads.append(races[first])
        if draws.stream("swarm", "second").chance(0.25):
            workloads.append(races[(first + 1 + draws.stream("swarm", "second").below(len(races) - 1)) % len(races)])
        chosen["races"] = str(draws.stream("swarm", "count").pick((1, 1, 2)))
        chosen["mode"] = draws.stream("swarm", "mode").pick(("barrier", "barrier", "partition"))
        if _CREATED_AGAIN in workloads and "order" in list_habits(system):
            # Of a table that one side drops and cannot create again, rows of the other side are neither there nor lost.
            chosen["mode"] = "barrier"
    elif kind < 8 and _CHURN in fitting:
        workloads.append(_CHURN)
        if asks_before_it_answers(system) and draws.stream("swarm", "relay").chance(0.5):
            chosen["relay"] = "true"
    if data and (not workloads or beside.chance(0.3)):
        workloads.append(beside.pick(data))
    if not workloads and fitting:
        workloads.append(_CHURN if _CHURN in fitting else fitting[0])  # a system without reads and writes in CQL
    return tuple(dict.fromkeys(workloads)), chosen


@cache
def _cells_of(system: str) -> tuple[str, ...]:
    """Return the cells of the grid whose rows are read through an index or a view, too."""
    return cells_with_lookups(parse_system(system).features)


def _looking_up(
    draws: Draws, system: str, workloads: tuple[str, ...], chosen: dict[str, str]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Draw, one time in three where there are races, cells of the grid instead."""
    cells = _cells_of(system)
    stream = draws.stream("swarm", "lookups")
    if not cells or "races" not in chosen or not stream.chance(_OF_LOOKUPS):
        return workloads, chosen
    some = dict.fromkeys(stream.pick(cells) for _ in range(stream.pick(_CELLS)))
    # Reads and writes go on until the time is over: what an index or a view lacks soon after it was made is no proof.
    others = tuple(name for name in _with_data(draws, system, workloads) if name not in _RACES)
    return (_GRID, *others), {**chosen, "races": "1", "cells": ",".join(some)}


def _first_race(draws: Draws, seed: int, chosen: Mapping[str, str]) -> dict[str, str]:
    """Draw the number of the first race, where there are races: variants come in turn, and one or two races have but the first ones."""
    if (
        "races" not in chosen
        or "cells" in chosen
        or not (seed in _SEEDS_OF_FIRST_RACES or seed >= _LATER_SEEDS_OF_FIRST_RACES)
    ):
        return {}
    number = draws.stream("swarm", "first race").below(_VARIANTS_MOST)
    return {"first-race": str(number)} if number else {}


def _changes(draws: Draws, system: str) -> tuple[str, ...]:
    """Draw, one time in five, a change of the ring, where it changes; one time in four of these another one together with it."""
    stream = draws.stream("swarm", "changes")
    verbs = _verbs_of(system)
    if not verbs or not stream.chance(0.2):
        return ()
    fitting = [name for name in CHANGES if name in _JOINS or _ASKED[name] in verbs]
    return _one_or_two(stream, draws.stream("swarm", "second change"), fitting)


def _limits(draws: Draws, changes: Sequence[str]) -> dict[str, str]:
    """Return the options of changes of the ring; two go on together, without which the second would wait for the first."""
    together = {"overlap": "true"} if len(changes) > 1 else {}
    if {*changes} == {*_TOGETHER_WITHOUT_MOVE}:
        begin_s = draws.stream("swarm", "both begin").pick(_BOTH_BEGIN_S)
        together |= {f"{name}.begins-s": f"{at:g}" for name, at in zip(_TOGETHER_WITHOUT_MOVE, begin_s, strict=True)}
        # Where changes have a queue, the leave waits for as long as a node that is to join is dead.
        together["bootstrap.after-failure"] = "resume"
    return {f"{name}.limit-s": _LIMIT_OF_A_CHANGE_S for name in changes} | together


def _some_changes(draws: Draws, system: str) -> tuple[str, ...]:
    """Draw one or two changes of the ring for a storm."""
    verbs = _verbs_of(system)
    fitting = [name for name in CHANGES if name != _LOSS and (name in _JOINS or _ASKED[name] in verbs)]
    return _one_or_two(draws.stream("storm", "changes"), draws.stream("storm", "second change"), fitting)


def _one_or_two(stream: Stream, second: Stream, fitting: Sequence[str]) -> tuple[str, ...]:
    """Draw a change of the ring; one time in four, where that can be, another one together with it."""
    first = stream.pick(fitting)
    pair = _TOGETHER if "move" in fitting else _TOGETHER_WITHOUT_MOVE
    together = [name for name in pair if name in fitting and name != first]
    return (first, second.pick(together)) if first in pair and together and second.chance(0.25) else (first,)


def without_data_centers(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of a plan without those that only several data centres give a meaning to."""
    return {
        name: text
        for name, text in options.items()
        if name not in _OF_DATA_CENTERS and not (name == "slow" and text.startswith("dc"))
    }


def _data_centers(draws: Draws, system: str, changes: Sequence[str]) -> int:
    """Draw, one time in six, two data centres, where rows are read and written; with changes of the ring that go on with few replicas."""
    fitting = not _WITH_LEVELS.isdisjoint(workloads_of(system)) and _LIVING_NODES_LEAVE.issuperset(changes)
    return _DATA_CENTERS if fitting and draws.stream("swarm", "centers").chance(1 / 6) else 1


def _racks(draws: Draws, seed: int, centers: int, changes: Sequence[str]) -> int:
    """Draw two racks: one time in two where there are two data centres, and one time in three where nodes come, go or move."""
    if len(changes) > 1:
        has_racks = seed >= _SEEDS_OF_BEFORE and draws.stream("swarm", "racks of two changes").chance(1 / 3)
        return _RACKS if has_racks else 1
    chance = 0.5 if centers > 1 else 1 / 3 if changes and _LOSS not in changes else 0.0
    return _RACKS if draws.stream("swarm", "racks").chance(chance) else 1


def _parted(
    draws: Draws, workloads: Sequence[str], nemeses: tuple[str, ...], levels: Sequence[str]
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Draw the level of reads and writes, and in two of three runs that a whole data centre is cut off."""
    stream = draws.stream("swarm", "between centers")
    chosen = {}
    if _WITH_LEVELS.intersection(workloads):
        chosen["consistency"] = stream.pick(levels)
    if stream.chance(2 / 3):
        nemeses = (*nemeses, *(name for name in ("partition",) if name not in nemeses))
        chosen["partition.targets"] = "data-center"
    return nemeses, chosen


def _between_centers(draws: Draws) -> dict[str, str]:
    """Draw, one time in two, slow links between the data centres, in both directions or one."""
    stream = draws.stream("swarm", "slow between centers")
    links = stream.pick((("dc1-dc2", "dc2-dc1"), ("dc1-dc2",), (), ()))
    later_ms = stream.pick(_BETWEEN_CENTERS_MS)
    return {"slow": ",".join(f"{link}:{later_ms}" for link in links)} if links else {}


@cache
def _verbs_of(system: str) -> frozenset[TopologyVerb]:
    return list_verbs(system)


def _habits(draws: Draws, system: str, *, cut: bool) -> dict[str, str]:
    """Draw, one time in four, another way of doing what a design does in several.

    Across a cut always the one by messages: nothing that is done at once on all nodes meets it.
    """
    found = {}
    for name, values in list_habits(system).items():
        stream = draws.stream("swarm", "habit", name)
        if stream.chance(0.3) or (cut and name == "order"):
            found[name] = stream.pick(values[1:])
    return found


def _with_data(draws: Draws, system: str, workloads: tuple[str, ...]) -> tuple[str, ...]:
    """Return the workloads with one that reads and writes among them."""
    fitting = [name for name in _DATA if name in workloads_of(system)]
    if not fitting or any(name in fitting for name in workloads):
        return workloads
    return (*workloads, draws.stream("swarm", "beside changes").pick(fitting))


def _aim(draws: Draws, system: str, nodes: Sequence[str], *, is_changing: bool, within_s: str) -> dict[str, str]:
    """Draw, one time in three, steps at which a server is killed, frozen or cut off: the one that comes there, or another.

    None falls in the phases of the last readings, for which servers are started again.
    """
    stream = draws.stream("swarm", "aim")
    if stream.below(_STEPS_AIMED_AT):
        return {}
    of_ring = [step for step in steps_of(system) if step in list_ring_steps()]
    steps = [step for step in steps_of(system) if step not in of_ring]
    if is_changing and of_ring and draws.stream("swarm", "aim at the ring").chance(0.6):
        steps = of_ring
    verb = stream.pick(("kill", "kill", "pause", "cut"))
    if not steps:
        return {}
    other = draws.stream("swarm", "aim at")
    some = (stream.pick(steps), stream.pick(steps))
    places = dict.fromkeys((stream.pick(some), 2 + stream.below(_PASSAGES_MOST)) for _ in range(stream.pick(_PLACES)))
    hit = [f":{other.pick(nodes)}" if other.chance(0.4) else "" for _ in places]
    aimed = ",".join(f"{step}@{count}{on}" for (step, count), on in zip(places, hit, strict=True))
    return {f"{verb}.at": aimed, "fault.within": within_s}


def _slow(draws: Draws, nodes: Sequence[str], *, always: bool = False) -> dict[str, str]:
    """Draw, one time in four or always, links that are slow: all to one node, which is behind the others for the whole run, or some."""
    stream = draws.stream("swarm", "slow")
    if not (stream.chance(0.25) or always):
        return {}
    later_ms = stream.pick(_LATER_MS)
    late = stream.pick(nodes) if stream.chance(0.5) else ""
    pairs = [(one, other) for one in nodes for other in nodes if one != other]
    slow = [pair for pair in pairs if (pair[1] == late if late else stream.chance(0.3))]
    if 2 * later_ms > _ROUND_TRIP_MOST_MS:  # a leader that hears nobody in time is no leader
        slow = [(one, other) for one, other in slow if (other, one) not in slow or one < other]
    return {"slow": ",".join(f"{one}-{other}:{later_ms}" for one, other in slow)} if slow else {}


def _slow_between_two(draws: Draws, nodes: Sequence[str]) -> dict[str, str]:
    """Draw, in one storm of two, two nodes that hear each other late, so that both may stand for one election."""
    stream = draws.stream("storm", "slow")
    if stream.chance(0.5):
        return {}
    one = stream.pick(nodes)
    other = stream.pick([name for name in nodes if name != one])
    later_ms = stream.pick([each for each in _LATER_MS if 2 * each <= _ROUND_TRIP_MOST_MS])
    return {"slow": f"{one}-{other}:{later_ms},{other}-{one}:{later_ms}"}


@cache
def steps_of(system: str) -> tuple[str, ...]:
    """Return the steps of the protocols of a simulated system."""
    return list_steps_of(system)
