"""A run on a disk that is full: what happened, where, and how what was recorded is judged."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root can mount, and unshare keeps it from others"
)
SCRIPT = """
set -u
mount -t tmpfs -o size="$2" none "$1"
"$3" -m schemaquake.harness.cli.command_line run --system simulated:cassandra-5.0 --cluster simulated \\
  --workload drop-type --seed 7 --runs "$1/runs"
echo "ended with $?"
ls "$1"/runs/2*/
mount -o remount,size=16m "$1"
"$3" -m schemaquake.harness.cli.command_line recover "$1"/runs/2*
echo "recovered with $?"
"""


@pytest.mark.parametrize(
    ("size", "full", "code"),
    [
        pytest.param("300k", "outcome.json", 255, id="while it is recorded"),
        pytest.param("700k", None, 1, id="while it is judged"),
    ],
)
def test_it_says_where_there_was_no_room_and_what_was_recorded_can_be_judged(
    tmp_path: Path, size: str, full: str | None, code: int
) -> None:
    finished = subprocess.run(
        ["unshare", "--mount", "sh", "-c", SCRIPT, "sh", tmp_path, size, sys.executable],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    before, _, after = finished.stdout.partition("ended with 255\n")
    (said,) = [line for line in before.splitlines() if "the run was recorded, but not judged" in line]
    assert "No space left on device: " in said
    assert 'judge it with "schemaquake recover ' in said
    assert "Traceback" not in finished.stdout
    assert (full is None) == ("outcome.json" in after.partition("\n\n")[0].split())
    if full is not None:
        assert f"{full}: No space left on device" in before
    assert after.endswith(f"recovered with {code}\n")
