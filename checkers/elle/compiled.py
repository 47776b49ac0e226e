"""Compiled loops: the one place that knows the compiler.

A loop is compiled where Python or NumPy was measured to be too slow, once, and kept on disk beside its module. Handing
arrays on to another function costs more than a step of a loop does (their references are counted), so what is called
within a loop is given numbers, and a loop has all its parts in sight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

__all__ = ["compiled"]

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function to machine code. Only for functions of NumPy arrays and numbers."""
    return cast("Callable[P, R]", numba.njit(cache=True, nogil=True)(function))
