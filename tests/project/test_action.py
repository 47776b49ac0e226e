"""The GitHub Action: its inputs reach the run as they are, its outputs say what came of it, and its code is the run's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "action-run"


def carried_out(tmp_path: Path, **variables: str) -> tuple[int, dict[str, str], str]:
    """The script as a job runs it, with a `schemaquake` on the path that is this one."""
    program = tmp_path / "bin" / "schemaquake"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m schemaquake.harness.cli.command_line "$@"\n')
    program.chmod(0o755)
    outputs, summary = tmp_path / "outputs", tmp_path / "summary.md"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "RUNNER_"))},
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "GITHUB_OUTPUT": str(outputs),
        "GITHUB_STEP_SUMMARY": str(summary),
        "RUNS": str(tmp_path / "runs"),
        **variables,
    }
    done = subprocess.run(
        [SCRIPT], check=False, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    written = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
    return done.returncode, written, summary.read_text() if summary.exists() else done.stderr


def test_a_job_gets_the_code_the_outputs_and_the_finding_in_its_summary(tmp_path):
    code, outputs, summary = carried_out(
        tmp_path,
        SYSTEM="simulated:cassandra-5.0",
        WORKLOAD="create-table",
        ARGUMENTS="--cluster=simulated\n--races=1\n\n--seed=1\n",
    )
    assert (code, outputs["valid"]) == (1, "false")
    assert (Path(outputs["folder"]) / "junit.xml").is_file()
    assert re.search(r"SQ-[A-Z2-7]{8}", summary)


def test_a_text_that_looks_like_a_command_is_an_argument(tmp_path):
    code, outputs, _ = carried_out(tmp_path, SYSTEM="$(touch stolen); x", ARGUMENTS="--seed=`touch stolen`")
    assert (code, outputs) == (254, {"valid": "unknown", "folder": ""})
    assert not (tmp_path / "stolen").exists()


def test_no_input_is_written_into_a_script():
    for line in (ROOT / "action.yml").read_text().splitlines():
        assert "inputs." not in line or re.fullmatch(r"\s+[A-Z]+: \$\{\{ inputs\.[a-z]+ \}\}", line), line


def test_the_container_s_scripts_are_in_what_is_copied():
    text = (ROOT / "Containerfile").read_text()
    ignored = (ROOT / "Containerfile.dockerignore").read_text().split()
    ran = re.findall(r"\bscripts/[a-z-]+", text)
    assert {"scripts/system-packages", "scripts/virtual-environment", "scripts/compiled"} <= set(ran)
    for name in (*ran, "pyproject.toml", "requirements.lock", "scripts/python", "schemaquake", "README.md"):
        assert (ROOT / name).exists(), name
        assert name.partition("/")[0] not in ignored, name
    assert all(os.access(ROOT / name, os.X_OK) for name in ran)
    assert 'ENTRYPOINT ["schemaquake"]' in text
