"""Lean Arrow: pyarrow with no more memory than it needs, in the harness's own processes.

With its first array, pyarrow imports pandas if that is installed (PySpark wants it): a quarter of a second and 50 MB for
an unused package. A later conversion to pandas still works, since pyarrow then tries the import again.
Its own allocator keeps freed memory: some 100 MB for a million operations. The system's returns it, and is as fast. Of several
threads that keeps more in an arena for each; few of them allocate at the same time here, so they share one.
NumPy asks for huge pages, for which the kernel moves other memory about: of ten million transactions that was a third of
the time.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from schemaquake.harness.unneeded import without

__all__ = ["SMALL_PAGES", "lean_arrow", "small_pages"]

SMALL_PAGES: Final[Mapping[str, str]] = {"NUMPY_MADVISE_HUGEPAGE": "0"}
"""The environment of a process whose NumPy asks for no huge pages."""
_ARENAS_MOST: Final = -8
"""`M_ARENA_MAX` of the GNU C library's malloc.h."""


def small_pages() -> None:
    """Have NumPy ask for no huge pages. NumPy reads the setting when it is imported, so it must not have been before."""
    for name, value in SMALL_PAGES.items():
        os.environ.setdefault(name, value)


def lean_arrow() -> None:
    """Use the system's allocator, and have pyarrow's first attempt to import pandas fail, unless it is imported already."""
    small_pages()
    with suppress(AttributeError, OSError):  # other C libraries have no arenas
        ctypes.CDLL(None).mallopt(_ARENAS_MOST, 1)
    import pyarrow as pa  # noqa: PLC0415 - it imports NumPy

    pa.set_memory_pool(pa.system_memory_pool())
    with without("pandas"):
        pa.array([0])
