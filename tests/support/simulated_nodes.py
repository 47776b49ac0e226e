"""Simulated nodes without a run around them: a script of changes and faults from a seed, and what must hold in the end.

A hundred times faster than a run that is judged: the truth is looked up in the nodes themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from simulated_runs import plan_of

from schemaquake.clusters.simulated.provider import SimulatedProvider
from schemaquake.clusters.simulated.schema.loading import load_keyspaces
from schemaquake.harness.ddl import schema_changes as ddl

_CHANGES = 30
COLUMNS = [("k", "int", "partition_key"), ("v", "text", "regular")]


@dataclass
class Scripted:
    """A cluster after its script."""

    cluster: Any
    outcomes: dict[str, str] = field(default_factory=dict)
    """By name of what is created once: ok, fail, info."""
    leaders: dict[int, set[str]] = field(default_factory=dict)
    """By term, in designs with leaders."""
    agreed: bool = False

    def memories(self) -> list[set[str]]:
        """By node the names of tables and columns that it serves."""
        return [
            {name for ks in node.server.memory.values() for t in ks.tables.values() for name in (t.name, *t.columns)}
            for node in self.cluster.nodes
        ]

    def breaches(self) -> list[str]:
        """List what should not be."""
        found = [f"{len(names)} leaders in term {term}" for term, names in self.leaders.items() if len(names) > 1]
        if not self.agreed:
            found.append("versions differ in the end")
        for node, names in zip(self.cluster.nodes, self.memories(), strict=True):
            for name, outcome in self.outcomes.items():
                if (outcome == "ok") != (name in names) and outcome != "info":
                    found.append(f"{node.name}: {name} was answered {outcome}")
            disk = node.disk.schema
            if disk.keyspaces and (
                load_keyspaces(disk, sorted(disk.keyspaces), {}, lambda _text: None) != node.server.memory
            ):
                found.append(f"{node.name}: memory is not what is on disk")
        return found


@contextmanager
def standing(system: str, seed: int, options: dict[str, str] | None = None, nodes: int = 3) -> Iterator[Any]:
    """Yield (cluster, runtime) of a cluster that serves, in its own time."""
    plan = plan_of("drop-type", system=system, seed=seed, options=options, nodes=nodes)
    provider = SimulatedProvider()
    runtime = provider.runtime(plan)
    with runtime.waiting():
        cluster = provider.create(plan, Path("none"))
        cluster.start()
        yield cluster, runtime


def script(system: str, seed: int, bugs: str = "none", nodes: int = 3, quiet_s: float = 20) -> Scripted:
    """Let a seed's changes and faults happen, then everything be well for a while."""
    random = Random(seed)
    with standing(system, seed, {"bugs": bugs}, nodes) as (cluster, runtime):
        done = Scripted(cluster)
        clients = {node.name: cluster.connector().connect(node.name, request_timeout_s=20) for node in cluster.nodes}
        clients["n1"].invoke(ddl.create_keyspace("ks", replication_factor=min(3, nodes)))
        clients["n1"].invoke(ddl.create_table("ks", "base", columns=COLUMNS))
        for number in range(_CHANGES):
            name = f"x{number}"
            change = (
                ddl.add_column("ks", "base", name, "int")
                if random.random() < 0.5
                else ddl.create_table("ks", name, columns=COLUMNS)
            )
            client = clients[random.choice(cluster.nodes).name]
            client.submit(change, lambda completion, name=name: done.outcomes.update({name: completion.type}))
            _fault(random, cluster)
            _note_leaders(done, cluster)
            runtime.sleep(random.choice((0.001, 0.01, 0.2, 1.5)))
            _note_leaders(done, cluster)
        _heal(cluster)
        for _ in range(round(quiet_s)):
            runtime.sleep(1)
            _note_leaders(done, cluster)
        done.agreed = len({node.server.version if node.server else None for node in cluster.nodes}) == 1
        return done


def _fault(random: Random, cluster: Any) -> None:
    node = random.choice(cluster.nodes)
    match random.randrange(12):
        case 0:
            node.kill()
        case 1:
            node.pause()
        case 2:
            others = [each for each in cluster.nodes if each is not node]
            for here, there in [(node, each) for each in others] + [(each, node) for each in others]:
                if random.random() < 0.8:  # some cuts are one-way
                    cut(here, there.address)
        case 3 | 4 | 5:
            _heal(cluster)


def cut(node: Any, address: str) -> None:
    """Drop all that arrives from an address."""
    for arguments in (("-N", "f"), ("-A", "f", "-s", address, "-j", "DROP"), ("-I", "INPUT", "1", "-j", "f")):
        node.exec(["iptables", "-w", "5", *arguments])


def _heal(cluster: Any) -> None:
    for node in cluster.nodes:
        for arguments in (("-D", "INPUT", "-j", "f"),) * 9 + (("-F", "f"), ("-X", "f")):
            node.exec(["iptables", "-w", "5", *arguments])
        node.resume()
        node.start()


def _note_leaders(done: Scripted, cluster: Any) -> None:
    for node in cluster.nodes:
        role = getattr(getattr(node.server, "state", None), "role", None)
        if role is not None and role.is_leader:
            done.leaders.setdefault(role.term, set()).add(node.name)
