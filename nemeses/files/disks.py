"""Disks: the small file system of a node's server is filled up, or takes no more writes.

Each node of a run with one of these has a file system of its own for all that its server keeps, in memory and mounted in
the run's own namespace: no other program sees it, and it is gone when the run is, however it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from schemaquake.harness.errors import ClusterError, HealError
from schemaquake.harness.model.files import ServerFiles, ShowsFiles
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.options import option
from schemaquake.harness.model.protocols import Cluster, Context, Fault, Node
from schemaquake.nemeses.process.serving import SERVING_LIMIT_S, bring_back
from schemaquake.nemeses.schedule.commands import must, run
from schemaquake.nemeses.schedule.every_node import on_every
from schemaquake.nemeses.schedule.options import TargetOptions, configured
from schemaquake.nemeses.schedule.targets import named
from schemaquake.nemeses.schedule.timetable import targeted

__all__ = ["FillDisk", "ReadOnlyDisk"]

_FILLER: Final = "filler"
_FULL_BYTES: Final = 1 << 20
"""A disk with less than this left counts as full: what a server deletes, it may write again."""
_FULL_FAULT_S: Final = (5.0, 15.0)
_READ_ONLY_FAULT_S: Final = (15.0, 25.0)

_FILL: Final = 'dd if=/dev/zero of="$1" bs=64k status=none 2> /dev/null; df --output=avail -B1 "$2" | tail -n 1'
_FREE: Final = 'df --output=avail -B1 "$1" | tail -n 1'


class _DiskFault(Protocol):
    """The options of both nemeses."""

    @property
    def name(self) -> str: ...
    @property
    def targets(self) -> tuple[str, ...]: ...
    @property
    def serving_limit_s(self) -> float: ...


def _targets() -> tuple[str, ...]:
    return option(("one",), "the targets, with commas; one is drawn for each fault")


def _serving_limit() -> float:
    return option(SERVING_LIMIT_S, "the limit in seconds for a server to serve again")


def _plan(nemesis: _DiskFault, context: Context, random: Random, fault_s: tuple[float, float]) -> Sequence[Fault]:
    plan = configured(nemesis, context)
    limit_s = plan.serving_limit_s
    return targeted(plan.name, context, random, targets=plan.targets, fault_s=fault_s, serving_limit_s=limit_s)


def _lacks_disks(_nemesis: object, cluster: Cluster) -> str | None:
    """Say why nothing may be done to the disks of this cluster."""
    return None if isinstance(cluster, ShowsFiles) else "the servers of this cluster have no file systems of their own"


def _bring_back(nodes: Sequence[Node], fault: Fault) -> dict[str, JSON]:
    """Start the servers again, and wait until they serve. Raises HealError."""
    limit_s = float(fault.parameters.get("serving_limit_s", SERVING_LIMIT_S))
    return dict(bring_back(nodes, deadline_s=limit_s, task="bringing servers back"))


@dataclass(frozen=True, kw_only=True)
class FillDisk:
    """`--nemesis fill-disk`; `-O fill-disk.targets=one`."""

    about = "Full disk: the small file system of a node's server is filled up."
    name = "fill-disk"
    needs = frozenset({"signals", "files", "disk"})
    disturbs = "process"
    options = TargetOptions()

    targets: tuple[str, ...] = _targets()
    serving_limit_s: float = _serving_limit()

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan faults of 5 to 15 s. Raises PlanError."""
        return _plan(self, context, random, _FULL_FAULT_S)

    missing = _lacks_disks

    def inject(self, cluster: Cluster, fault: Fault) -> JSON:
        """Fill the disks: `{"observed": True, "nodes": {name: {"free_bytes"}}}`. Raises ClusterError if one is not full."""

        def fill(node: Node) -> JSON:
            volume = _volume(cluster, node)
            free = int(must(node, "sh", "-c", _FILL, "sh", f"{volume}/{_FILLER}", volume))
            if free >= _FULL_BYTES:
                raise ClusterError(f"{free} bytes are free on {volume}, which was filled")
            return {"free_bytes": free}

        return {"observed": True, "nodes": on_every(named(cluster, fault.nodes), fill, task="filling disks")}

    def heal(self, cluster: Cluster, fault: Fault) -> JSON:
        """Make room and restart each server, which may have given up its services: `{"observed", "nodes", "free_bytes"}`. Raises HealError.

        `observed`: the disk was still full.
        """

        def empty(node: Node) -> JSON:
            volume = _volume(cluster, node)
            before = int(must(node, "sh", "-c", _FREE, "sh", volume))
            must(node, "rm", "-f", f"{volume}/{_FILLER}")
            node.kill()
            return {"before": before, "after": int(must(node, "sh", "-c", _FREE, "sh", volume))}

        nodes = named(cluster, fault.nodes)
        freed = on_every(nodes, empty, task="making room on disks", error=HealError)
        return {
            **_bring_back(nodes, fault),
            "observed": all(one["before"] < one["after"] for one in freed.values()),
            "free_bytes": freed,
        }


@dataclass(frozen=True, kw_only=True)
class ReadOnlyDisk:
    """`--nemesis read-only-disk`; `-O read-only-disk.targets=one`."""

    about = "Read-only disk: the small file system of a node's server takes no more writes."
    name = "read-only-disk"
    needs = frozenset({"signals", "files", "disk"})
    disturbs = "process"
    options = TargetOptions()

    targets: tuple[str, ...] = _targets()
    serving_limit_s: float = _serving_limit()

    def schedule(self, context: Context, *, random: Random) -> Sequence[Fault]:
        """Plan faults of 15 to 25 s, in which a server has the time to start. Raises PlanError."""
        return _plan(self, context, random, _READ_ONLY_FAULT_S)

    missing = _lacks_disks

    def inject(self, cluster: Cluster, fault: Fault) -> JSON:
        """Kill each server, mount its disk without writes, and start it: `{"observed": True, "nodes": {name: {"writable"}}}`.

        No file system can be mounted so while it has files open for writing. Raises ClusterError if one still takes writes.
        """

        def close(node: Node) -> JSON:
            volume = _volume(cluster, node)
            node.kill()
            must(node, "mount", "-o", "remount,ro", volume)
            if _takes_writes(node, volume):
                raise ClusterError(f"{volume} takes writes, although it is mounted read-only")
            node.start()
            return {"writable": False}

        return {"observed": True, "nodes": on_every(named(cluster, fault.nodes), close, task="closing disks")}

    def heal(self, cluster: Cluster, fault: Fault) -> JSON:
        """Mount each disk for writing again, and restart its server: `{"observed", "nodes", "before"}`. Raises HealError.

        `observed`: the disk still took no writes.
        """

        def reopen(node: Node) -> JSON:
            volume = _volume(cluster, node)
            before = _takes_writes(node, volume)
            node.kill()
            must(node, "mount", "-o", "remount,rw", volume)
            if not _takes_writes(node, volume):
                raise ClusterError(f"{volume} takes no writes, although it is mounted for them")
            return {"writable": before}

        nodes = named(cluster, fault.nodes)
        before = on_every(nodes, reopen, task="opening disks", error=HealError)
        return {
            **_bring_back(nodes, fault),
            "observed": not any(one["writable"] for one in before.values()),
            "before": before,
        }


def _volume(cluster: Cluster, node: Node) -> str:
    """Return where the node's own file system is mounted. Raises ClusterError where it has none."""
    assert isinstance(cluster, ShowsFiles)
    files: ServerFiles = cluster.server_files(node.name)
    if files.volume is None:
        raise ClusterError(f"node {node.name} has no file system of its own")
    return files.volume


def _takes_writes(node: Node, volume: str) -> bool:
    """Try to write a file."""
    probe = f"{volume}/probe"
    is_written = run(node, "touch", probe).exit_code == 0
    run(node, "rm", "-f", probe)
    return is_written
