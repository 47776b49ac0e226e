"""Completion: what a shell offers at TAB, in the shells themselves where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from schemaquake.harness.registry import names

PROGRAM = Path(sys.executable).with_name("schemaquake")


def said(environment: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "schemaquake.harness.cli.command_line"],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def in_bash(*words: str) -> list[str]:
    return said(
        {
            "_SCHEMAQUAKE_COMPLETE": "complete_bash",
            "COMP_WORDS": "\n".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }
    )


def test_commands_options_and_names_are_completed():
    assert in_bash("schemaquake", "re") == ["recover", "report", "rediscovered"]
    assert in_bash("schemaquake", "run", "--workl") == ["--workload"]
    drops = [name for name in names("workloads") if name.startswith("drop-")]
    assert in_bash("schemaquake", "run", "--workload", "register,drop-") == [f"register,{name}" for name in drops]
    assert in_bash("schemaquake", "run", "--nemesis", "no") == ["none"]
    assert in_bash("schemaquake", "list", "nem") == ["nemeses"]
    assert in_bash("schemaquake", "run", "--no-such", "x") == [""]


def test_bash_divides_a_system_at_its_colon():
    assert "cassandra:5.0.9" in in_bash("schemaquake", "run", "--system", "cass")
    assert in_bash("schemaquake", "run", "--system", "cassandra", ":", "5.0.9") == ["5.0.9"]
    assert "5.0.9" in in_bash("schemaquake", "run", "--system", "cassandra", ":")


@pytest.mark.parametrize("shell", ["fish", "zsh"])
def test_a_candidate_is_one_line_however_long_its_description_is(shell):
    """Of a wrapped description, fish would offer the second line as an option of its own."""
    asked = {
        "_SCHEMAQUAKE_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "schemaquake run --sy",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COLUMNS": "40",
    }
    (line,) = said(asked)
    assert "--system" in line
    assert "a cluster file may name it." in line


def test_a_question_that_no_shell_asks_is_no_answer():
    done = subprocess.run(
        [sys.executable, "-m", "schemaquake.harness.cli.command_line", "list", "workloads"],
        env={**os.environ, "_SCHEMAQUAKE_COMPLETE": "rubbish"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode not in {0, 2}
    assert done.stdout == ""


TRIED = {
    "bash": 'eval "$(schemaquake completion bash)"; COMP_WORDS=(schemaquake shr); '
    'COMP_CWORD=1; _schemaquake_completion schemaquake; printf "%s\\n" "${COMPREPLY[@]}"',
    "fish": 'schemaquake completion fish | source; complete --do-complete "schemaquake shr"',
    "zsh": 'autoload -Uz compinit; compinit -u -D; eval "$(schemaquake completion zsh)"; '
    "_arguments() { print -r -- $@ }; words=(schemaquake shr); CURRENT=2; _schemaquake_completion",
    "zsh that has not prepared its completion": "autoload() { : }; compinit() { compdef() { : } }; "
    'eval "$(schemaquake completion zsh)"; _arguments() { print -r -- $@ }; words=(schemaquake shr); CURRENT=2; _schemaquake_completion',
}


@pytest.mark.parametrize("case", sorted(TRIED))
def test_the_printed_script_works_in_the_shell(case, tmp_path):
    shell = case.split()[0]
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    own = {"PATH": f"{PROGRAM.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run(
        [found, "-c", TRIED[case]], env={**os.environ, **own}, capture_output=True, text=True, check=False
    )
    assert "shrink" in done.stdout, done.stderr
    assert "command not found" not in done.stderr
