"""Local: real nodes on this machine, each a process in a network namespace of its own, with its own address.

The run's process stands inside an enclosure (`schemaquake.clusters.local.namespaces`), so no free ports have to be found, and a
run that was never torn down leaves nothing behind.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from schemaquake.clusters.distribution.fetch import fetch
from schemaquake.clusters.distribution.java import find_java
from schemaquake.clusters.local import namespaces
from schemaquake.clusters.local.child_process import RECORD, end_recorded
from schemaquake.clusters.local.cluster import InstalledVersion, LocalCluster, ServerSetup
from schemaquake.clusters.local.damage import restore_files
from schemaquake.clusters.local.data_place import DataOptions, memory_for_data, requested_place
from schemaquake.clusters.local.node import drop_data
from schemaquake.clusters.local.startup_archive import ensure_archive
from schemaquake.clusters.local.volumes import remove_volume
from schemaquake.clusters.systems.server_options import OPTIONS, system_properties, yaml_settings
from schemaquake.clusters.systems.system import System, parse_system, recipe_for
from schemaquake.harness.errors import EnvironmentLacks
from schemaquake.harness.faults.needs import means_needed
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import SERVER_DIGEST, Demands
from schemaquake.harness.model.upgrade import systems_of
from schemaquake.harness.registry import load

__all__ = ["LocalProvider"]

_KEPT_FREE_MB: Final = 1500
_IN_MEMORY: Final = "data_in_memory_mb"
"""What `local.json` says of where the servers' data lies: MB of memory for each node, or null for the disk."""


class LocalProvider:
    """`--cluster local`."""

    name = "local"
    options = DataOptions()
    takes_options: Mapping[str, str] = OPTIONS
    prepares_spares = True

    def prepare(self, plan: Plan, folder: Path) -> Mapping[str, str]:
        """Fetch the distribution, find a Java for it and check memory; write `local.json` for the enclosure to read.

        Raises PlanError, FetchError, EnvironmentLacks.
        """
        systems = [parse_system(name) for name in systems_of(plan)]
        free_mb = _require_memory((plan.nodes + plan.spares) * max(system.memory_mb for system in systems))
        in_memory_mb = memory_for_data(plan, free_mb=free_mb)
        _require_disk(folder)
        documents = [_install(system, plan.distribution if system is systems[0] else None) for system in systems]
        others = {str(system): found for system, found in zip(systems[1:], documents[1:], strict=True)}
        document = {**documents[0], "others": others, _IN_MEMORY: in_memory_mb}
        (folder / "local.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
        facts = {"java": documents[0]["java_version"], "distribution": documents[0]["source"]}
        facts["server data"] = "on disk" if in_memory_mb is None else "in memory"
        facts[SERVER_DIGEST] = documents[0]["digest"][:16]
        return facts | {f"digest of the jars of {system}": found["digest"][:16] for system, found in others.items()}

    def demands(self, plan: Plan) -> Demands:
        """Sum up the memory of all nodes and look up the features of the system's DDL. Raises PlanError."""
        systems = [parse_system(name) for name in systems_of(plan)]
        for system in systems:
            recipe_for(system)
        return Demands(
            memory_mb=(plan.nodes + plan.spares) * max(system.memory_mb for system in systems),
            features=systems[0].features.intersection(*(system.features for system in systems)),
            when_busy=recipe_for(systems[0]).when_busy,
        )

    def unstarted(self, plan: Plan) -> LocalCluster:
        """Return a cluster of the plan of which no file is there, to be asked what it lacks. Raises PlanError."""
        requested_place(plan)
        systems = [parse_system(name) for name in systems_of(plan)]
        wanted = _required(plan.workloads)
        nothing = Path("/nonexistent")
        installed, *further = [
            InstalledVersion(system=system, recipe=recipe_for(system, wanted=wanted), java=nothing, class_path=[])
            for system in systems
        ]
        return LocalCluster(
            installed,
            folder=nothing,
            names=plan.node_names,
            spares=plan.spare_names,
            start_timeout_s=plan.start_timeout_s,
            setup=ServerSetup(java_options=()),
            others=further,
        )

    def enclosure(self, folder: Path) -> Sequence[str]:  # noqa: ARG002 - other providers look at the run's folder
        """Build the command that puts the run's process into private namespaces."""
        return namespaces.enclosure()

    def create(self, plan: Plan, folder: Path) -> LocalCluster:
        """Make the cluster of this plan, whose nodes' folders are `folder/nodes/<name>`."""
        document = json.loads((folder / "local.json").read_text(encoding="utf-8"))
        wanted = _required(plan.workloads)
        return LocalCluster(
            _installed(plan.system, document, wanted),
            folder=folder,
            names=plan.node_names,
            spares=plan.spare_names,
            start_timeout_s=plan.start_timeout_s,
            keep_data=plan.keep_data,
            setup=ServerSetup(
                settings=yaml_settings(plan.options),
                properties=system_properties(plan.options),
                own_clock="clock" in means_needed(plan),
                own_disk="disk" in means_needed(plan),
                in_memory_mb=document.get(_IN_MEMORY),
            ),
            others=[_installed(name, found, wanted) for name, found in document.get("others", {}).items()],
        )

    def heal(self, folder: Path) -> Sequence[str]:
        """End the servers that a run left running, found by pid and start time: without a process namespace some may live on.

        Deletes the nodes' data, too, unless the run had --keep-data. Raises TimeoutError if a process does not end.
        """
        done = []
        nodes = sorted((folder / "nodes").glob("*"))
        for record in (node / RECORD for node in nodes if (node / RECORD).exists()):
            pid = end_recorded(record)
            if pid is not None:
                done.append(f"node {record.parent.name}: process {pid} was still running and was ended")
            record.unlink()
        for node in nodes:
            done += restore_files(node)
            remove_volume(node, ())
        if Plan.read(folder, keep_going=True).keep_data:
            return done
        emptied = [node.name for node in nodes if drop_data(node)]
        return done + [f"node {name}: its data was deleted" for name in emptied]


def _install(system: System, distribution: Path | None) -> dict[str, Any]:
    """Fetch the jars of a system and find a Java for it; return where they are. Raises PlanError, FetchError, EnvironmentLacks."""
    java = find_java(*recipe_for(system).java)
    found = fetch(system.jars or system.version, distribution=distribution)
    ensure_archive(str(system), java.path, found.class_path)
    return {
        "java": str(java.path),
        "java_version": f"{java.version}",
        "class_path": [str(jar) for jar in found.class_path],
        "source": found.source,
        "digest": found.digest,
        "jars": dict(found.checksums),
    }


def _installed(name: str, document: Mapping[str, Any], wanted: frozenset[str]) -> InstalledVersion:
    """Read from its part of `local.json` where a system is, and configure it with these features. Raises PlanError."""
    system = parse_system(name)
    return InstalledVersion(
        system=system,
        recipe=recipe_for(system, wanted=wanted),
        java=Path(document["java"]),
        class_path=[Path(jar) for jar in document["class_path"]],
    )


def _required(workloads: Sequence[str]) -> frozenset[str]:
    """Collect the features that these workloads need."""
    requirements: list[frozenset[str]] = [load("workloads", name).requires for name in workloads]
    return frozenset().union(*requirements)


def _require_memory(needed_mb: int) -> int | None:
    """Return how many MB stay free beside the nodes and the harness; None if the machine does not say. Raises EnvironmentLacks."""
    match = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    if match is None:
        return None
    available_mb = int(match[1]) // 1024
    if available_mb < needed_mb + _KEPT_FREE_MB:
        raise EnvironmentLacks(
            f"these nodes need about {needed_mb} MB, and {_KEPT_FREE_MB} MB must stay free for the harness, "
            f"but only {available_mb} MB of memory are available. Use fewer --nodes, or end other programs."
        )
    return available_mb - needed_mb - _KEPT_FREE_MB


def _require_disk(folder: Path) -> None:
    free_mb = shutil.disk_usage(folder).free // 2**20
    if free_mb < 1024:
        raise EnvironmentLacks(
            f"only {free_mb} MB are free on the disk of {folder}; a run needs 1 GB. Choose another folder with --runs, or make room."
        )
