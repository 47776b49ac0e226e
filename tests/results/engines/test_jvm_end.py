"""The JVM of Spark's sessions ends before the command does, whether it minds its input or not."""

from __future__ import annotations

import signal
import subprocess
import sys

from schemaquake.results.engines.jvm_start import _end_jvm

DEAF = "import sys, time; sys.stdout.write('x'); sys.stdout.flush(); time.sleep(600)"


def test_a_jvm_that_ends_with_its_input_is_waited_for():
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit(7)"], stdin=subprocess.PIPE
    )
    _end_jvm(process, within_s=120)
    assert process.returncode == 7, "it ended by itself"


def test_a_jvm_that_goes_on_without_input_is_killed():
    with subprocess.Popen([sys.executable, "-c", DEAF], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"x"
        _end_jvm(process, within_s=0.1)
    assert process.returncode == -signal.SIGKILL


def test_a_jvm_that_has_ended_is_no_error():
    process = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE)
    process.wait()
    _end_jvm(process)
    _end_jvm(process)
    assert process.returncode == 0
