"""Drawing: the plan of a seed. Each seed has a subset of workloads, nemeses and aims, and sizes of its own; the rest is off.

Draws are keyed by their purpose: a feature that is left out changes no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from schemaquake.clusters.simulated.draws import Draws
from schemaquake.clusters.simulated.provider import list_habits, list_steps, list_verbs
from schemaquake.clusters.systems.simulated.family import blueprint_of
from schemaquake.clusters.systems.system import parse_system
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.topology import TopologyVerb
from schemaquake.harness.registry import load, names

__all__ = ["CHANGES", "NEMESES", "plan_of_seed", "steps_of", "workloads_of"]

NEMESES: Final = ("partition", "kill", "pause", "clock", "packet-loss", "restart", "rolling-restart", "stop")
_RACES: Final = (
    "create-table", "drop-type", "drop-function", "drop-table-view", "drop-alter", "drop-keyspace", "alter-options",
    "add-columns", "alter-type", "create-index", "drop-recreate",
)  # fmt: skip
_DATA: Final = ("register", "set", "quorum")
_CHURN: Final = "schema-churn"
_NODES: Final = (3, 3, 3, 3, 3, 4, 5, 5, 7)
_STEPS_AIMED_AT: Final = 4
_JOINS: Final = ("bootstrap", "replace")
_ASKED: Final[Mapping[str, TopologyVerb]] = {"decommission": "decommission", "removenode": "remove", "move": "move"}
CHANGES: Final = (*_JOINS, *_ASKED)
"""Changes of the ring, which one seed in five has, where the ring changes."""
_NODES_LEAST: Final = 4
"""Nodes of a cluster that one leaves: three have to stay."""
_LIVING_NODES_LEAVE: Final = frozenset({"bootstrap", "decommission", "move"})
"""Changes that go on with any replication factor; of fewer than three replicas a dead one is needed for a majority."""
_LIMIT_OF_A_CHANGE_S: Final = "40"
_SECONDS_LEAST: Final = 12.0
"""Time limit of a run in which the ring changes, for writes before and after, or packets are lost: in a shorter fault none may come by."""
_NEED_TIME: Final = frozenset({"partition", "packet-loss"})


def plan_of_seed(seed: int, systems: Sequence[str], options: Mapping[str, str] | None = None) -> Plan:
    """Return the plan of a seed on one of these systems, with further options of the simulation (`bugs`, `bug`)."""
    draws = Draws(seed)
    system = draws.stream("swarm", "system").pick(systems)
    nodes = draws.stream("swarm", "nodes").pick(_NODES)
    factor = draws.stream("swarm", "factor").pick((None, None, None, 1, 2, 3, 5))
    workloads, chosen = _workloads(draws, system)
    nemeses = tuple(name for name in NEMESES if draws.stream("swarm", "nemesis", name).chance(0.15))
    time_limit_s = float(draws.stream("swarm", "seconds").pick((5, 8, 8, 12, 20)))
    if _NEED_TIME.intersection(nemeses):
        time_limit_s = max(time_limit_s, _SECONDS_LEAST)
    changes = _changes(draws, system)
    spares = 0
    if changes:
        nemeses = (*changes, *nemeses)
        nodes, time_limit_s = max(nodes, _NODES_LEAST), max(time_limit_s, _SECONDS_LEAST)
        spares = sum(name in _JOINS for name in changes)
        workloads = _with_data(draws, system, workloads)
        chosen = {name: text for name, text in chosen.items() if name != "mode"}
        chosen |= {f"{name}.limit-s": _LIMIT_OF_A_CHANGE_S for name in changes}
        if not _LIVING_NODES_LEAVE.issuperset(changes):
            factor = None
    chosen |= _habits(draws, system)
    everybody = tuple(f"n{number}" for number in range(1, nodes + spares + 1))
    aims = _aim(draws, system, everybody)
    chosen |= {name: step for name, step in aims.items() if name.partition(".")[0] not in nemeses}
    return Plan(
        system=system,
        workloads=workloads,
        cluster="simulated",
        nodes=nodes,
        spares=spares,
        nemeses=nemeses,
        seed=seed,
        time_limit_s=time_limit_s,
        rate=float(draws.stream("swarm", "rate").pick((2, 4, 4, 8))),
        replication_factor=None if factor is None else min(factor, nodes),
        restart=draws.stream("swarm", "restart").pick(("rolling", "rolling", "together", "none")),
        options={**chosen, **(options or {})},
    )


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
    elif kind < 8 and _CHURN in fitting:
        workloads.append(_CHURN)
    if data and (not workloads or beside.chance(0.3)):
        workloads.append(beside.pick(data))
    if not workloads and fitting:
        workloads.append(_CHURN if _CHURN in fitting else fitting[0])  # a system without reads and writes in CQL
    return tuple(dict.fromkeys(workloads)), chosen


def _changes(draws: Draws, system: str) -> tuple[str, ...]:
    """Draw, one time in five, a change of the ring, where it changes."""
    stream = draws.stream("swarm", "changes")
    verbs = _verbs_of(system)
    if not verbs or not stream.chance(0.2):
        return ()
    return (stream.pick([name for name in CHANGES if name in _JOINS or _ASKED[name] in verbs]),)


@cache
def _verbs_of(system: str) -> frozenset[TopologyVerb]:
    return list_verbs(system)


def _habits(draws: Draws, system: str) -> dict[str, str]:
    """Draw, one time in four, another way of doing what a design does in several."""
    found = {}
    for name, values in list_habits(system).items():
        stream = draws.stream("swarm", "habit", name)
        if stream.chance(0.25):
            found[name] = stream.pick(values[1:])
    return found


def _with_data(draws: Draws, system: str, workloads: tuple[str, ...]) -> tuple[str, ...]:
    """Return the workloads with one that reads and writes among them."""
    fitting = [name for name in _DATA if name in workloads_of(system)]
    if not fitting or any(name in fitting for name in workloads):
        return workloads
    return (*workloads, draws.stream("swarm", "beside changes").pick(fitting))


def _aim(draws: Draws, system: str, nodes: Sequence[str]) -> dict[str, str]:
    """Draw, one time in four, a step at which a server is killed, frozen or cut off: the one that comes there, or another."""
    stream = draws.stream("swarm", "aim")
    if stream.below(_STEPS_AIMED_AT):
        return {}
    steps = steps_of(system)
    verb = stream.pick(("kill", "kill", "pause", "cut"))
    if not steps:
        return {}
    where = f"{stream.pick(steps)}@{1 + stream.below(6)}"
    other = draws.stream("swarm", "aim at")
    return {f"{verb}.at": f"{where}:{other.pick(nodes)}" if other.chance(0.4) else where}


@cache
def steps_of(system: str) -> tuple[str, ...]:
    """Return the steps of the protocols of a simulated system."""
    module = blueprint_of(system).model.replace("-", "_")
    return tuple(step for step, model in list_steps().items() if model == module)
