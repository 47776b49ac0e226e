"""Limits: a plan that is too large is refused with everything it lacks, before anything is started."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from schemaquake.harness.errors import EnvironmentLacks
from schemaquake.harness.run.limits import Machine, refuse_oversized, shortfalls

LARGE = {"descriptors": 1_000_000, "threads": 1_000_000, "memory_mib": 1_000_000, "disk_mib": 1_000_000}


@pytest.mark.parametrize(
    ("workers", "machine", "lacks"),
    [
        ({"n1": 3, "n2": 3}, {}, []),
        ({}, {}, []),
        ({"n1": 1000}, {}, []),
        ({"n1": 1001}, {}, ["1001 workers of n1 are one process"]),
        ({"n1": 1, "n2": 1500}, {}, ["1500 workers of n2"]),
        ({"n1": 100}, {"descriptors": 1024}, []),
        ({"n1": 150}, {"descriptors": 1024}, ["a process needs 1328 descriptors and may open 1024"]),
        ({"n1": 150}, {"descriptors": None, "threads": None, "memory_mib": None}, []),
        ({"n1": 100, "n2": 100}, {"threads": 1000}, ["200 workers need 1200 threads and 1000 are left"]),
        ({"n1": 100, "n2": 100}, {"memory_mib": 500}, ["need 1040 MiB of memory and 500 are available"]),
        ({"n1": 1}, {"disk_mib": 3}, ["journals need 64 MiB"]),
        ({"n1": 1500}, {"descriptors": 256, "threads": 1, "memory_mib": 1, "disk_mib": 1}, ["one process", "descriptors", "threads", "memory", "journals"]),
    ],
)  # fmt: skip
def test_everything_that_is_lacking_is_said(workers, machine, lacks):
    found = list(shortfalls(workers, Machine(**{**LARGE, **machine})))
    assert len(found) == len(lacks)
    assert all(text in sentence for text, sentence in zip(lacks, found, strict=True))


def test_this_machine_can_carry_a_small_plan(tmp_path):
    refuse_oversized({"n1": 2, "n2": 2, "n3": 2}, tmp_path)


def test_too_many_workers_of_one_process_are_refused_with_the_reason(tmp_path):
    with pytest.raises(EnvironmentLacks, match=r"nothing was started: 1500 workers of n1 .*--concurrency"):
        refuse_oversized({"n1": 1500}, tmp_path)


def test_the_soft_limit_of_descriptors_is_raised_to_the_hard_one(tmp_path):
    code = f"""
import resource
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 512))
from schemaquake.harness.run.limits import Machine
print(Machine.here(Path({str(tmp_path)!r})).descriptors, *resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["512", "512", "512"]
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0
