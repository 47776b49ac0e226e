"""Processes of their own: an answer or a reason from each, and none of them outlives what ended it."""

import os
import signal
import sys
from dataclasses import replace

import pytest
from virtual_executor import shows

from schemaquake.harness.wait import until
from schemaquake.results.matrix import executor as module
from schemaquake.results.matrix.executor import Processes
from schemaquake.results.matrix.facts import RunFacts
from schemaquake.results.matrix.machine import IdleShare, available_mb
from schemaquake.results.matrix.matrix_folder import MatrixFolder
from schemaquake.results.matrix.matrix_plan import Condition, MatrixPlan, Unit
from schemaquake.results.runs import separate_run
from schemaquake.results.runs.separate_run import limit_s

# No recipe starts it: refused in a moment, by a real process.
PLAN = MatrixPlan(systems=("cassandra:99.1",), workloads=("drop-type",))
UNIT = Unit(
    system="cassandra:99.1",
    workloads=("drop-type",),
    condition=Condition("barrier"),
    first_race=0,
    races=2,
    turn=0,
)


@pytest.fixture
def processes(tmp_path):
    made = Processes(PLAN, MatrixFolder.create(tmp_path, PLAN, {}))
    yield made
    for one in made._running.values():
        one.run.process.kill()
        one.run.process.wait()


def answer(processes, limit_s=60):
    return until(processes.wait, deadline_s=limit_s, what="an answer")


def in_its_stead(monkeypatch, script):
    """Every unit runs this instead; its arguments are those of `schemaquake.results.matrix.one_run`."""
    real = separate_run.subprocess.Popen

    def popen(argv, **options):
        return real([sys.executable, "-c", script, *argv[3:]], **options)

    monkeypatch.setattr(separate_run.subprocess, "Popen", popen)


def test_a_run_that_is_refused_says_why_in_the_runs_own_words(processes):
    processes.begin(UNIT, memory_mb=100)
    (done,) = answer(processes)
    assert done.unit == UNIT
    assert not done.facts.completed
    assert "no launch recipe for cassandra:99.1" in done.facts.error
    assert processes.clusters() == 0
    assert not list(processes.folder.runs.glob("2*")), "a run that could not be started leaves no folder"


def test_a_process_that_ends_without_an_answer_is_told_with_its_last_words(processes, monkeypatch):
    in_its_stead(monkeypatch, "import sys; print('first'); print('out of luck'); sys.exit(3)")
    processes.begin(UNIT, memory_mb=100)
    (done,) = answer(processes)
    assert done.facts.error == "the run's process ended with exit code 3; its last output: out of luck"


_FINISHED = """
import json, pathlib, sys
plan, runs, answer = map(pathlib.Path, sys.argv[1:4])
run = runs / "20260101T000000Z-w-s"
run.mkdir()
(run / "whole").write_bytes(plan.read_bytes())
(run / "whole").rename(run / "plan.json")  # whole as soon as it is seen
print("booted", flush=True)
sys.stdin.read()
"""


def test_memory_is_promised_until_the_clusters_run_says_how_it_ended(processes, monkeypatch):
    in_its_stead(monkeypatch, _FINISHED + "import time; time.sleep(60)")
    monkeypatch.setattr(module, "available_mb", lambda: 10_000.0)
    processes._budget_mb = 8000
    before = processes.memory_mb()
    processes.begin(UNIT, memory_mb=3000)
    run = processes.folder.runs / "20260101T000000Z-w-s"
    until((run / "plan.json").exists, deadline_s=120, what="the run's folder")
    assert (processes.clusters(), processes.memory_mb()) == (1, before - 3000 + (8000 - before))
    (run / "outcome.json").write_text("{}")
    assert (processes.clusters(), processes.memory_mb()) == (0, before)


def test_no_more_is_given_away_than_the_kernel_has_left(processes, monkeypatch):
    monkeypatch.setattr(module, "available_mb", lambda: 2500.0)
    processes._budget_mb = 8000
    assert processes.memory_mb() == 2500 - module.KEPT_FREE_MB


def test_more_clusters_than_jobs_are_begun_only_while_a_good_part_of_the_machine_is_idle(processes, monkeypatch):
    idle = 0.9
    processes.elastic, processes._idle = True, lambda: idle
    in_its_stead(monkeypatch, "import time; time.sleep(60)")
    assert processes.has_room()
    processes.begin(UNIT, memory_mb=1)
    assert not processes.has_room(), "what was just begun does not show in the load yet"
    processes._begun_at -= 60
    assert processes.has_room()
    idle = 0.2
    assert not processes.has_room()
    idle, processes.elastic = 0.9, False
    assert not processes.has_room(), "so many and no more were asked for"
    processes.elastic, processes.at_once = True, 2
    for turn in range(1, 6):
        processes.begin(replace(UNIT, turn=turn), memory_mb=1)
    processes._begun_at -= 60
    assert not processes.has_room(), "and never more than three a job"


def test_the_idle_share_is_a_share():
    idle = IdleShare(over_s=0.01)
    shares = [until(lambda: (idle(),), deadline_s=1, what="a share") for _ in range(3)]
    assert all(0 <= share <= 1 for (share,) in shares)


def test_stopping_asks_every_run_to_end_and_waits_for_what_was_done(processes, monkeypatch):
    facts = shows(UNIT)
    in_its_stead(
        monkeypatch,
        f"""
import json, signal, sys
from pathlib import Path
def ended(*_):
    Path(sys.argv[3]).write_text({str(orjson_text(facts))!r})
    sys.exit(0)
signal.signal(signal.SIGTERM, ended)
print("ready", flush=True)
signal.pause()
""",
    )
    processes.begin(UNIT, memory_mb=1)
    (running,) = processes._running.values()
    until(lambda: b"ready" in running.run.log.read_bytes(), deadline_s=120, what="the process")
    (done,) = processes.stop()
    assert done.facts == facts
    assert running.run.process.poll() == 0


def orjson_text(facts: RunFacts) -> str:
    import orjson  # noqa: PLC0415

    return orjson.dumps(facts.to_json()).decode()


def test_what_was_interrupted_half_way_is_no_try(processes, monkeypatch):
    in_its_stead(monkeypatch, "import time; time.sleep(60)")
    processes.begin(UNIT, memory_mb=1)
    assert processes.stop() == []


def test_a_run_that_hangs_is_asked_to_end_and_then_killed(processes, monkeypatch):
    in_its_stead(
        monkeypatch,
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)",
    )
    monkeypatch.setattr(separate_run, "limit_s", lambda _plan: 0.5)
    monkeypatch.setattr(separate_run, "_GRACE_S", 0.5)
    processes.begin(UNIT, memory_mb=1)
    (running,) = processes._running.values()
    until(lambda: b"deaf" in running.run.log.read_bytes(), deadline_s=120, what="the process")
    (done,) = answer(processes, limit_s=20)
    assert done.facts.error == "the run hung and was ended; its last output: deaf"
    assert running.run.process.poll() == -signal.SIGKILL


def test_a_runs_limit_is_longer_than_all_that_its_plan_allows_its_phases():
    plan = PLAN.run_plan(UNIT)
    assert limit_s(plan) > 2 * plan.start_timeout_s + 4 * plan.time_limit_s + 8 * plan.settle_limit_s


def test_the_machine_has_some_memory():
    assert 0 < available_mb() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20
