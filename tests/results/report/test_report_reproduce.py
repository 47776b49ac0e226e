"""reproduce.sh: runs the command that the plan says, whatever the plan holds."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic_run import PLAN, broken_run

from schemaquake.harness.model.plan import Plan
from schemaquake.results.report.reproduce import command_line, command_lines, render_reproduce_script

ODD = {**PLAN, "options": {"comment": 'it\'s $(touch /tmp/no) `x` "y"\nand a line', "z": "-x"}, "time_limit_s": 12.5}


def run_script(script: str, folder: Path, *, installed: bool) -> subprocess.CompletedProcess[str]:
    """Run it with a `schemaquake` on PATH that prints its arguments, one a NUL-ended word."""
    path = folder / "reproduce.sh"
    path.write_text(script)
    tools = folder / "bin"
    tools.mkdir()
    if installed:
        fake = tools / "schemaquake"
        fake.write_text('#!/bin/sh\nprintf "%s\\0" schemaquake "$@"\nexit 1\n')
        fake.chmod(0o755)
    sh = shutil.which("sh")
    assert sh is not None
    return subprocess.run(  # noqa: PLW1510
        [sh, str(path)], capture_output=True, text=True, timeout=20, env={"PATH": f"{tools}:/usr/bin:/bin"}
    )


@pytest.mark.parametrize("plan", [PLAN, ODD], ids=["ordinary plan", "plan full of quotes"])
def test_the_script_runs_the_command_of_the_plan(tmp_path: Path, plan: dict[str, object]):
    done = run_script(render_reproduce_script(replace(broken_run(), plan=plan)), tmp_path, installed=True)
    assert done.stdout.split("\0")[:-1] == Plan.from_json(plan).command_line()
    assert done.returncode == 1  # as the run's own exit code


def test_without_schemaquake_it_says_how_to_get_it(tmp_path: Path):
    done = run_script(render_reproduce_script(broken_run()), tmp_path, installed=False)
    assert done.returncode == 254
    assert "pip install schemaquake==0.1.0" in done.stderr


def test_a_comment_cannot_become_a_command(tmp_path: Path):
    evil = "x\ntouch made\r\u2028touch made\u0085touch made"
    run = broken_run()
    anomalies = tuple(replace(anomaly, type=f"t{evil}", title=evil) for anomaly in run.verdict.anomalies[:1])
    hostile = replace(run, run=evil, verdict=replace(run.verdict, anomalies=anomalies, parts=(), doubts=()))
    script = render_reproduce_script(hostile)
    assert [line for line in script.splitlines() if line.strip().startswith("touch")] == []
    run_script(script, tmp_path, installed=True)
    assert not (tmp_path / "made").exists()
    assert not Path("made").exists()


def test_the_version_to_install_cannot_end_its_quotes():
    plan = {**PLAN, "schemaquake_version": '1"; touch made; "'}
    assert "touch" not in render_reproduce_script(replace(broken_run(), plan=plan))


def test_the_header_says_what_to_expect():
    script = render_reproduce_script(broken_run())
    assert "# Result of the recorded run (exit code 1):" in script
    assert "# - SQ-E3ZATWYL A table is created with a type that is being dropped, 5 of 5 races" in script


def test_the_command_of_several_lines_is_the_command():
    done = subprocess.run(
        ["sh", "-c", f"schemaquake() {{ printf '%s\\0' schemaquake \"$@\"; }}; {command_lines(ODD)}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    assert done.stdout.split("\0")[:-1] == command_line(ODD)


def test_shellcheck_has_nothing_to_say(tmp_path: Path):
    shellcheck = shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed")
    for number, plan in enumerate((PLAN, ODD)):
        path = tmp_path / f"{number}.sh"
        path.write_text(render_reproduce_script(replace(broken_run(), plan=plan)))
        # SC2016 tells that nothing is expanded between single quotes: that is what they are for.
        done = subprocess.run([shellcheck, "-e", "SC2016", str(path)], capture_output=True, text=True, timeout=60)  # noqa: PLW1510
        assert done.stdout == ""
