"""Limited command: a program of this machine that is run to its end, but never for longer than it can need."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from schemaquake.harness.errors import EnvironmentLacks

__all__ = ["run_limited", "run_within"]


def run_limited(
    argv: Sequence[str | Path], *, limit_s: float, advice: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program without input, and return its exit code and its output as text. `environment`: None is this process's own.

    Raises EnvironmentLacks if it does not end within `limit_s` seconds: with the command line, the folder, and `advice`, an
    imperative sentence without its full stop. Raises OSError if it cannot be started.
    """
    try:
        return run_within(argv, limit_s=limit_s, environment=environment)
    except subprocess.TimeoutExpired as error:
        line = shlex.join(str(word) for word in argv)
        raise EnvironmentLacks(
            f"`{line}`, run on this machine in {Path.cwd()}, did not end within {limit_s:g} s. {advice}."
        ) from error


def run_within(
    argv: Sequence[str | Path], *, limit_s: float, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program as `run_limited` does, for a caller with words of its own for one that does not end.

    Raises subprocess.TimeoutExpired when it and its children have been killed. Raises OSError if it cannot be started.
    """
    # A session of its own: killed alone, it would leave children that hold its output open, and reading that would never end.
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=limit_s)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)
