"""Warming: compile all compiled code in advance: `python -m schemaquake.results.formats.warming`.

Numba caches compiled code beside the sources (or in `NUMBA_CACHE_DIR`) until they change. Without warming, the first use of a
checker of long histories, or of the scanner, waits a quarter of a minute for the compiler.
"""

from __future__ import annotations

from io import BytesIO
from types import ModuleType
from typing import Final

import numpy as np

from schemaquake.harness.compiled import always_compiled
from schemaquake.harness.registry import load_all
from schemaquake.results.formats import edn, elle_json
from schemaquake.results.formats.fast_reading import batches
from schemaquake.results.formats.op_maps import Names, Rows
from schemaquake.results.formats.possible import is_possible
from schemaquake.results.formats.scanner import may_end

__all__ = ["warm_all"]

_EXAMPLES: Final[tuple[tuple[ModuleType, bytes], ...]] = (
    (edn, b"{:index 0, :time 0, :process 0, :type :invoke, :f :txn, :value [[:append 1 2] [:r 1 nil]]}\n"),
    (elle_json, b'{"index": 0, "time": 0, "process": 0, "type": "invoke", "f": "txn", "value": [["append", 1, 2]]}\n'),
)


def warm_all() -> list[str]:
    """Compile the readers, and every checker with compiled code (`compile_all`, or `warm`). Return the names of these checkers."""
    always_compiled()
    for notation, text in _EXAMPLES:
        rows = Rows(independent=False, names=Names())
        list(batches(BytesIO(text), "an example", notation, rows, json=notation is elle_json))
        may_end(text)
    is_possible(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64))
    warmed = {name: checker for name, checker in load_all("checkers").items() if hasattr(checker, "warm")}
    for checker in warmed.values():
        getattr(checker, "compile_all", checker.warm)()
    return list(warmed)


if __name__ == "__main__":
    warm_all()
