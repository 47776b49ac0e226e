"""The lower end of every range in pyproject.toml: the oldest allowed versions pass the tests of reading and judging."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

pytestmark = pytest.mark.long


def test_the_lowest_allowed_versions_read_and_judge(tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, str(environment)], check=True)
    python = environment / "bin" / "python"
    subprocess.run(
        [
            *uv,
            "pip",
            "install",
            "--quiet",
            "--python",
            str(python),
            "--resolution",
            "lowest-direct",
            "--editable",
            f"{ROOT}[all]",
            "--group",
            f"{ROOT}/pyproject.toml:dev",
        ],
        check=True,
        cwd=tmp_path,
    )
    rooms = ["tests/checkers/elle", "tests/checkers/linearizability", "tests/results/formats", "tests/harness/history"]
    done = subprocess.run(
        [str(python), "-m", "pytest", "-q", "-m", "not cluster and not spark and not browser and not long", *rooms],
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0
