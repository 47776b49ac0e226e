"""Compiled loops: the one place that knows the compiler.

A loop is compiled where Python or NumPy was measured to be too slow, once, and kept on disk beside its module. Handing
arrays on to another function costs more than a step of a loop does (their references are counted). So the parts of a
long loop are phases: functions of their own to read, and compiled into the loop that calls them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

__all__ = ["compiled", "phase"]

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function to machine code. Only for functions of NumPy arrays and numbers."""
    return cast("Callable[P, R]", numba.njit(cache=True, nogil=True)(function))


def phase(function: Callable[P, R]) -> Callable[P, R]:
    """Compile one part of a loop into every loop that calls it."""
    return cast("Callable[P, R]", numba.njit(cache=True, nogil=True, forceinline=True)(function))
