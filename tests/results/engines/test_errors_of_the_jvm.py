"""Standard error of Spark's JVM: all that it says but the warning of its modules, also if it does not start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from schemaquake.results.engines.jvm_start import _forward_errors

WARNING = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
PROGRAM = """
import sys
from schemaquake.results.engines.spark_session import light_context

with light_context("local[1]", options=sys.argv[1] or None) as context:
    context._jvm.java.lang.System.err.println("an error of the JVM")
    print(context.parallelize(range(3), 1).count(), context.appName, context.master)
"""


def forwarded(written: bytes, capfd: pytest.CaptureFixture[str]) -> str:
    reading, writing = os.pipe()
    os.write(writing, written)
    os.close(writing)
    _forward_errors(reading)
    return capfd.readouterr().err


def test_only_the_warning_itself_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    assert forwarded(WARNING + b"Error: no room\n" + WARNING, capfd) == "Error: no room\n"
    assert forwarded(b"WARNING: Using incubator modules: another\n", capfd) != ""
    assert forwarded(b"an unfinished line", capfd) == "an unfinished line"


def started(options: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", PROGRAM, options]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=folder)


@pytest.mark.spark
def test_a_context_s_jvm_says_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    done = started("", tmp_path)
    assert (done.stdout, done.stderr) == ("3 schemaquake local[1]\n", "an error of the JVM\n")


@pytest.mark.spark
def test_the_reason_for_which_a_jvm_does_not_start_is_not_lost(tmp_path: Path) -> None:
    done = started("-Xmx5k", tmp_path)
    assert done.returncode != 0
    assert "Not allowed to specify max heap(Xmx) memory settings" in done.stderr
