from __future__ import annotations

import subprocess
import sys


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
