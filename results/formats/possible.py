"""Possible sequences: one pass over a long history that usually finds that every process did what a process can do."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from schemaquake.harness.compiled import compiled
from schemaquake.harness.model.operation import NEMESIS

__all__ = ["is_possible"]

_PROCESSES_A_ROW = 16  # the highest process may be so many times the number of events


def is_possible(
    processes: npt.NDArray[np.int64], types: npt.NDArray[np.int64], functions: npt.NDArray[np.int64]
) -> bool:
    """Return True if no process invokes twice, completes what it did not invoke, or goes on after an info.

    `types` are 0 invoke, 1 ok, 2 fail, 3 info. False may also mean that the numbers of the processes are too large to tell.
    """
    most = int(processes.max(initial=0))
    if most > _PROCESSES_A_ROW * len(processes):
        return False
    integers = np.ascontiguousarray(functions, np.int32)
    return bool(_is_possible(np.array(processes, np.int64), np.array(types, np.int8), np.array(integers), most + 1))


@compiled
def _is_possible(
    processes: npt.NDArray[np.int64], types: npt.NDArray[np.int8], functions: npt.NDArray[np.int32], count: int
) -> bool:
    open_function = np.full(count, -1, np.int32)  # −1 idle, −2 retired
    for row in range(len(processes)):
        process = processes[row]
        if process == NEMESIS:
            continue
        before = open_function[process]
        if types[row] == 0:
            if before != -1:
                return False
            open_function[process] = functions[row]
        else:
            if before != functions[row]:
                return False
            open_function[process] = -2 if types[row] == 3 else -1
    return True
