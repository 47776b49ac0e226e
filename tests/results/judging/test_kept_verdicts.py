"""Kept verdicts: an analysis that was ended half-way goes on where it was, and comes to the same verdict."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys

import orjson
import pytest
from questioners import Crashes, FailedInserts, Says
from recorded import laid_out
from small_runs import small_run
from typer.testing import CliRunner

import schemaquake.results.judging.judge
from schemaquake.harness.cli.command_line import application
from schemaquake.harness.registry import load_all
from schemaquake.results.judging.judge import judge
from schemaquake.results.judging.kept_verdicts import KeptVerdicts, basis_of
from schemaquake.results.runs.execution import conclude

KILLED = """
import os, signal, sys
from pathlib import Path
import schemaquake.results.judging.judge
from schemaquake.harness.registry import load_all
from schemaquake.results.runs.execution import conclude

class Fatal:
    name, scope, vouches = "node-log", "run", True
    noted = ()
    def check(self, records, *, limit_s):
        os.kill(os.getpid(), signal.SIGKILL)

checkers = {**load_all("checkers"), "node-log": Fatal()}
schemaquake.results.judging.judge.load_all = lambda kind: checkers
conclude(Path(sys.argv[1]), engine="local")
"""


class Asked:
    """A checker that notes when it is asked."""

    def __init__(self, checker, asked):
        self._checker = checker
        self._asked = asked
        self.name, self.scope, self.vouches = checker.name, checker.scope, checker.vouches
        self.noted = getattr(checker, "noted", ())

    def check(self, records, *, limit_s):
        self._asked.append(self.name)
        return self._checker.check(records, limit_s=limit_s)


@pytest.fixture(scope="module")
def died(tmp_path_factory):
    """The folder of a run whose analysis was ended by SIGKILL when the checker node-log began."""
    run = laid_out(tmp_path_factory.mktemp("killed"))
    died = subprocess.run([sys.executable, "-c", KILLED, str(run)], check=False, capture_output=True)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert not (run / "verdict.json").exists()
    return run


@pytest.fixture
def killed(died, tmp_path):
    """A copy of it."""
    return shutil.copytree(died, tmp_path / died.name)


def analysed(run, monkeypatch, **options):
    """(verdict as JSON, the checkers that were asked for it), of an analysis of this folder."""
    asked = []
    checkers = {name: Asked(checker, asked) for name, checker in load_all("checkers").items()}
    with monkeypatch.context() as patched:
        patched.setattr(schemaquake.results.judging.judge, "load_all", lambda kind: checkers)
        return conclude(run, engine="local", **options).verdict.to_json(), asked


def test_an_analysis_that_was_killed_goes_on_where_it_was(killed, tmp_path, monkeypatch):
    verdict, asked = analysed(killed, monkeypatch, resume=True)
    everything = sorted(load_all("checkers"))
    assert "node-log" in asked
    assert 0 < len(set(asked)) < len(everything)
    whole, asked_of_whole = analysed(laid_out(tmp_path / "again"), monkeypatch)
    assert sorted(set(asked_of_whole)) == everything
    assert verdict == whole
    stored = orjson.loads((killed / "verdict.json").read_bytes())
    assert {name: value for name, value in stored.items() if name not in {"findings", "judged_by", "crc"}} == whole
    assert not (killed / "analysis" / "verdicts").exists()


def test_without_being_told_to_an_analysis_begins_anew(killed, monkeypatch):
    assert sorted(set(analysed(killed, monkeypatch)[1])) == sorted(load_all("checkers"))


def test_of_other_records_or_another_limit_nothing_is_taken(killed, monkeypatch):
    log = next((killed / "nodes").glob("*/system*.log"))
    with log.open("a") as end:
        end.write("ERROR [main] 2026-11-21 10:03:10,902 A.java:1 - one more\n")
    assert sorted(set(analysed(killed, monkeypatch, resume=True)[1])) == sorted(load_all("checkers"))


def test_the_command_line_goes_on(killed):
    found = CliRunner().invoke(application(), ["check", str(killed), "--resume-analysis"])
    assert found.stdout == f"{killed}\tfalse\n"
    assert found.exit_code == 1


@pytest.mark.parametrize("more", [["--checker", "divergence"], ["--model", "register"]], ids=str)
def test_only_a_whole_analysis_goes_on(killed, more):
    found = CliRunner().invoke(application(), ["check", str(killed), "--resume-analysis", *more])
    assert "leave out --checker and --model" in str(found.exception)


# ── the file ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def opened(folder, basis="b", *, resume=True):
    return KeptVerdicts.open(folder, basis, resume=resume)


def test_a_line_that_was_cut_short_is_not_read(tmp_path):
    kept = opened(tmp_path / "v")
    kept.keep(0, "a", None, '{"valid": true}')
    kept.keep(0, "b", "ks", '{"valid": false}')
    (file,) = (tmp_path / "v").glob("*.jsonl")
    os.truncate(file, file.stat().st_size - 5)
    assert opened(tmp_path / "v").known == {("a", None)}


def test_what_was_kept_before_and_after_an_interruption_is_kept(tmp_path):
    opened(tmp_path / "v").keep(0, "a", None, '{"valid": true}')
    opened(tmp_path / "v").keep(0, "a", "ks", '{"valid": true}')
    assert opened(tmp_path / "v").known == {("a", None), ("a", "ks")}
    assert opened(tmp_path / "v", resume=False).known == frozenset()
    assert opened(tmp_path / "v").known == frozenset()


def test_of_another_basis_nothing_is_known(tmp_path):
    opened(tmp_path / "v").keep(0, "a", None, '{"valid": true}')
    assert opened(tmp_path / "v", "c").known == frozenset()


def test_a_basis_is_of_names_contents_and_what_is_said(tmp_path):
    def basis(name, content, **said):
        (tmp_path / name).write_bytes(content)
        return basis_of(tmp_path, [tmp_path / name], **said)

    told = basis("a", b"1", limit_s=60)
    assert told == basis("a", b"1", limit_s=60)
    assert len({told, basis("b", b"1", limit_s=60), basis("a", b"2", limit_s=60), basis("a", b"1", limit_s=61)}) == 4


def test_a_run_that_was_moved_has_the_same_basis(tmp_path):
    for folder in (tmp_path / "x", tmp_path / "y"):
        folder.mkdir()
        (folder / "a").write_bytes(b"1")
    assert basis_of(tmp_path / "x", [tmp_path / "x/a"]) == basis_of(tmp_path / "y", [tmp_path / "y/a"])


def test_what_a_checker_was_kept_from_saying_is_asked_again(tmp_path):
    run, kept = small_run(11), opened(tmp_path / "v")
    judge(run, checkers=[FailedInserts(), Crashes()], kept=kept)
    again = opened(tmp_path / "v")
    assert {name for name, _ in again.known} == {"failed-inserts"}
    healthy = dataclasses.replace(Says(), name=Crashes().name, scope="keyspace")
    verdict = judge(run, checkers=[FailedInserts(), healthy], kept=again)
    assert verdict == judge(run, checkers=[FailedInserts(), healthy])


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_tasks_of_spark_keep_theirs_and_are_sent_what_is_known(tmp_path):
    run, checkers = small_run(11), [FailedInserts(), Says()]
    kept = opened(tmp_path / "v")
    whole = judge(run, checkers=checkers, engine="spark", kept=kept)
    again = opened(tmp_path / "v")
    assert ("says", None) in again.known
    assert ("failed-inserts", "ks0") in again.known
    assert judge(run, checkers=checkers, engine="spark", kept=again) == whole
    assert judge(run, checkers=checkers, engine="local", kept=again) == whole
