"""Limits: what a plan needs of this machine, compared with what there is before anything is started.

Without that, a plan that is too large fails in the middle, and blames a node: sessions that could not be opened look like a
coordinator that does not answer.
"""

from __future__ import annotations

import os
import resource
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from schemaquake.harness.errors import EnvironmentLacks

__all__ = ["Machine", "refuse_oversized", "shortfalls"]

# A worker is a thread with a session (its own connection, a control connection, and threads of the driver) and a journal.
_DESCRIPTORS_EACH: Final = 8
_THREADS_EACH: Final = 6
_MIB_EACH: Final = 4
_MIB_A_PROCESS: Final = 120
_DESCRIPTORS_BESIDE: Final = 128
_JOURNALS_MIB_MIN: Final = 64
_WORKERS_A_PROCESS_MOST: Final = 1000
"""The most sessions that one process was seen to open and use; a driver's threads for more are in one another's way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The resources that this process may use; None where nothing limits one."""

    descriptors: int | None
    threads: int | None
    memory_mib: int | None
    disk_mib: int

    @classmethod
    def here(cls, folder: Path) -> Machine:
        """Measure this machine. The soft limit of descriptors is raised to the hard one, which children inherit."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return cls(
            descriptors=None if hard == resource.RLIM_INFINITY else hard,
            threads=_threads_left(),
            memory_mib=_memory_available_mib(),
            disk_mib=shutil.disk_usage(folder).free >> 20,
        )


def refuse_oversized(workers: Mapping[str, int], folder: Path) -> None:
    """Refuse a run whose workers (their number by node) need more than this machine has. Raises EnvironmentLacks with every lack."""
    lacks = list(shortfalls(workers, Machine.here(folder)))
    if lacks:
        raise EnvironmentLacks("this machine cannot carry the plan out; nothing was started: " + "; ".join(lacks))


def shortfalls(workers: Mapping[str, int], machine: Machine) -> Iterator[str]:
    """Yield a sentence for each thing of which the machine has too little."""
    total = sum(workers.values())
    node, most = max(Counter(workers).items(), key=lambda entry: entry[1], default=("", 0))
    fewer = "ask for fewer workers (--concurrency)"
    if most > _WORKERS_A_PROCESS_MOST:
        yield f"{most} workers of {node} are one process, which may have {_WORKERS_A_PROCESS_MOST} sessions: {fewer}"
    descriptors = _DESCRIPTORS_BESIDE + most * _DESCRIPTORS_EACH
    if machine.descriptors is not None and descriptors > machine.descriptors:
        yield f"a process needs {descriptors} descriptors and may open {machine.descriptors}: raise `ulimit -Hn`, or {fewer}"
    threads = total * _THREADS_EACH
    if machine.threads is not None and threads > machine.threads:
        yield f"{total} workers need {threads} threads and {machine.threads} are left: raise `ulimit -u` or pids.max, or {fewer}"
    memory = total * _MIB_EACH + len(workers) * _MIB_A_PROCESS
    if machine.memory_mib is not None and memory > machine.memory_mib:
        yield f"{total} workers need {memory} MiB of memory and {machine.memory_mib} are available: {fewer}"
    if machine.disk_mib < _JOURNALS_MIB_MIN:
        yield f"journals need {_JOURNALS_MIB_MIN} MiB of disk at least and {machine.disk_mib} are free: make room, or name another --runs"


def _threads_left() -> int | None:
    """Return how many threads may still be started: the smallest of the user's, the control group's and the kernel's limits."""
    found = []
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft != resource.RLIM_INFINITY and os.geteuid() != 0:
        found.append(soft)
    for most, now in (
        ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids.current"),
        ("/proc/sys/kernel/threads-max", None),
    ):
        limit, used = _number(most), 0 if now is None else _number(now) or 0
        if limit is not None:
            found.append(max(0, limit - used))
    return min(found, default=None)


def _memory_available_mib() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) >> 10 for line in lines if line.startswith("MemAvailable:")), None)


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text(encoding="ascii"))
    except (OSError, ValueError):  # "max": no limit
        return None
