from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest


def test_arrays_are_made_without_pandas_and_conversions_to_it_still_work():
    program = """
import sys
from schemaquake.harness.history.lean_arrow import lean_arrow
lean_arrow()
import pyarrow as pa
table = pa.table({"a": [1, 2]})
assert table["a"].to_numpy().tolist() == [1, 2]
assert not any(name.split(".")[0] == "pandas" for name in sys.modules)
assert table.to_pandas()["a"].tolist() == [1, 2]
assert "pandas" in sys.modules
lean_arrow()
assert sys.modules["pandas"].DataFrame
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_numpy_asks_for_no_huge_pages_in_a_command_of_ours():
    program = """
import sys
sys.argv = ["schemaquake", "--help"]
from schemaquake.harness.cli.command_line import main
try:
    main()
except SystemExit:
    pass
from numpy._core.multiarray import _get_madvise_hugepage
assert _get_madvise_hugepage() is False
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the GNU C library has arenas")
@pytest.mark.parametrize("lean", [False, True])
def test_threads_share_one_arena_of_the_allocator(lean: bool):
    program = f"""
import ctypes, sys, threading
library = ctypes.CDLL(None)
if {lean}:
    from schemaquake.harness.history.lean_arrow import lean_arrow
    lean_arrow()
threads = [threading.Thread(target=library.malloc, args=(1000,)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
library.malloc_stats()
"""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=plain)
    assert ("Arena 1:" in done.stderr) is not lean, done.stderr
