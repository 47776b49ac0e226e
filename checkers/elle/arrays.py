"""Arrays: the types of the NumPy arrays that the analysis is made of, by what an element is."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Bits", "Bytes", "Flags", "Ints", "Longs", "Mask", "Numbers"]

Bits: TypeAlias = npt.NDArray[np.uint8]
Bytes: TypeAlias = npt.NDArray[np.int8]
Flags: TypeAlias = npt.NDArray[np.int16]
Ints: TypeAlias = npt.NDArray[np.int32]
Longs: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Numbers: TypeAlias = Longs | Ints
"""Whole numbers of 32 bits where the history is lean (`schemaquake.harness.model.records.LEAN_MOPS`), else of 64."""
