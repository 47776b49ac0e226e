from __future__ import annotations

import subprocess
import sys


def test_no_command_waits_for_drivers_and_compilers_that_only_others_need():
    program = """
import sys
from harness.command_line import application
application()
heavy = {"cassandra", "thriftpy2", "numba", "scipy", "pyspark", "pandas", "jinja2"}
print(sorted(heavy & {name.split(".")[0] for name in sys.modules}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
