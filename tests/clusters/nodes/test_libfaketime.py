"""A wall clock of its own: a process under the library follows a file, and its other clocks stay true."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from schemaquake.clusters.nodes import libfaketime
from schemaquake.clusters.nodes.libfaketime import environment, find_library, read_offset, write_offset
from schemaquake.harness.errors import EnvironmentLacks
from schemaquake.harness.limited_command import run_limited

LIBRARY = find_library()
installed = pytest.mark.skipif(
    LIBRARY is None, reason="libfaketime is not installed (Debian: apt-get install faketime)"
)


@pytest.mark.parametrize(
    ("offset_s", "text"), [(0, "+0.000\n"), (120, "+120.000\n"), (-120.5, "-120.500\n"), (0.0004, "+0.000\n")]
)
def test_the_file_says_the_offset_in_the_library_s_words(tmp_path, offset_s, text):
    write_offset(tmp_path / "clock_offset", offset_s)
    assert (tmp_path / "clock_offset").read_text() == text


def test_the_file_is_replaced_whole(tmp_path):
    file = tmp_path / "clock_offset"
    write_offset(file, 1)
    with file.open() as reader:
        write_offset(file, 2)
        assert reader.read() == "+1.000\n"
    assert file.read_text() == "+2.000\n"
    assert [path.name for path in tmp_path.iterdir()] == ["clock_offset"]


def test_a_server_s_timed_waits_are_left_alone(tmp_path):
    variables = environment(tmp_path / "lib.so", tmp_path / "clock_offset")
    assert variables["FAKETIME_FORCE_MONOTONIC_FIX"] == "0"
    assert variables["FAKETIME_DONT_FAKE_MONOTONIC"] == "1"


def test_a_library_under_which_processes_hang_is_named(tmp_path, monkeypatch):
    def hanging(argv, *, limit_s, advice, environment):
        return run_limited(["sleep", "600"], limit_s=0.5, advice=advice, environment={"PATH": environment["PATH"]})

    monkeypatch.setattr(libfaketime, "run_limited", hanging)
    with pytest.raises(
        EnvironmentLacks, match=r"within 0\.5 s\. Install libfaketime anew: under /lib/strange\.so processes"
    ):
        read_offset(Path("/lib/strange.so"), tmp_path / "clock_offset")


@installed
@pytest.mark.parametrize("offset_s", [0.0, 120.0, -120.0, 3600.25])
def test_a_process_under_the_library_lives_at_the_offset(tmp_path, offset_s):
    file = tmp_path / "clock_offset"
    write_offset(file, offset_s)
    assert read_offset(LIBRARY, file) == pytest.approx(offset_s, abs=0.5)


@installed
def test_a_running_process_follows_the_file(tmp_path):
    file = tmp_path / "clock_offset"
    write_offset(file, 0)
    code = (
        "import select, sys, time\n"
        "for line in sys.stdin:\n"
        "    began = time.monotonic()\n"
        "    while abs(time.time() - float(line)) > 30 and time.monotonic() < began + 5: select.select([], [], [], 0.05)\n"
        "    print(time.time(), flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=dict(environment(LIBRARY, file)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        seen = []
        for offset_s in (0, 600, -600):
            write_offset(file, offset_s)
            true = float(subprocess.run(["date", "+%s.%N"], capture_output=True, text=True, check=True).stdout)
            process.stdin.write(f"{true + offset_s}\n")
            process.stdin.flush()
            seen.append(float(process.stdout.readline()) - true)
        process.stdin.close()
    assert seen == [pytest.approx(0, abs=30), pytest.approx(600, abs=30), pytest.approx(-600, abs=30)]
