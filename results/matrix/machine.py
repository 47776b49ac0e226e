"""Machine: memory and processors available to clusters."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Demands, Forecast
from schemaquake.harness.registry import load
from schemaquake.results.matrix.matrix_plan import MatrixPlan

__all__ = ["KEPT_FREE_MB", "IdleShare", "available_mb", "clusters_at_once", "demands_of", "facts", "features_of"]

KEPT_FREE_MB: Final = 2048
"""Memory kept free for judging, the page cache and other processes, MB."""


def available_mb() -> float:
    """Return the memory that the kernel can allocate without swapping, MB."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") / 2**20


def clusters_at_once() -> int:
    """Return one cluster per core. More run while cores are idle, because a cluster that waits for its schema to settle needs little CPU."""
    return max(1, len(os.sched_getaffinity(0)))


class IdleShare:
    """The idle share of the machine's processors over the last seconds."""

    def __init__(self, *, over_s: float = 4.0) -> None:
        """Start measuring. Measurements older than `over_s` have decreasing weight."""
        self._over_s = over_s
        self._last = (time.monotonic(), *_ticks())
        self._share = 0.0

    def __call__(self) -> float:
        """Return the idle share, from 0 (every core busy) to 1 (every core idle). It is 0 until the first measurement."""
        now, idle, total = time.monotonic(), *_ticks()
        before, idle_before, total_before = self._last
        if total > total_before:
            weight = min(1.0, (now - before) / self._over_s)
            self._share += weight * ((idle - idle_before) / (total - total_before) - self._share)
            self._last = (now, idle, total)
        return self._share


def _ticks() -> tuple[int, int]:
    """Read (idle, all) clock ticks of all cores since boot. Waiting for a disk counts as idle, and so do niced processes, because they yield."""
    fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    numbers = [int(field) for field in fields]
    _user, nice, _system, idle, waiting, *_others = numbers
    return nice + idle + waiting, sum(numbers)


def demands_of(plan: MatrixPlan) -> dict[str, Demands | None]:
    """Return the memory and processor demand of each system's cluster; None if its provider does not state one. Raises PlanError."""
    provider = load("clusters", plan.cluster)
    if not isinstance(provider, Forecast):
        return dict.fromkeys(plan.systems)
    found: dict[str, Demands | None] = {}
    objections = []
    for system in plan.systems:
        try:
            found[system] = provider.demands(
                Plan(system=system, workloads=plan.workloads[:1], nodes=plan.nodes, spares=plan.spares)
            )
        except PlanError as error:
            objections.append(str(error))
    if objections:
        raise PlanError("; ".join(dict.fromkeys(objections)))
    return found


def features_of(plan: Plan) -> frozenset[str]:
    """Return the features of a plan's system; empty if its provider does not state them. Raises PlanError."""
    provider = load("clusters", plan.cluster)
    return provider.demands(plan).features if isinstance(provider, Forecast) else frozenset()


def facts() -> Mapping[str, str]:
    """Return the machine's properties for the page."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "machine": f"{len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }
