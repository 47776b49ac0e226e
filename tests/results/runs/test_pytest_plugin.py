"""The pytest plugin: what a test asks is what is run, what is found is what its report says, and unknown is not a pass."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from schemaquake.clusters.distribution.cache import cache_folder
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict
from schemaquake.results.runs.pytest_plugin import Judgement, Run

pytest_plugins = ["pytester"]

CACHE = cache_folder()
"""Where this machine has its distributions: a suite under pytester has another home."""

# Stands in for the command line: writes down what it was asked, says what the test tells it to, ends as it is told.
FAKE = """
import json, pathlib, sys
here = pathlib.Path(__file__).parent
with (here / "asked").open("a") as asked:
    print(json.dumps(sys.argv[1:]), file=asked)
answer = json.loads((here / "answer").read_text())
print("node n1 serves CQL", file=sys.stderr)
print(answer["words"], file=sys.stderr)
if answer["document"]:
    print(json.dumps(answer["document"]))
sys.exit(answer["exit_code"])
"""

CONFTEST = """
import pathlib, sys
import pytest
from schemaquake.harness import errors
from schemaquake.results.runs import pytest_plugin

here = pathlib.Path(__file__).parent

@pytest.fixture(autouse=True, scope="session")
def fake():
    def prepare(plan):
        lack = here / "lack"
        if lack.exists():
            raise getattr(errors, lack.read_text().split()[0])(lack.read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pytest_plugin, "command", lambda: [sys.executable, str(here / "fake.py")])
        patch.setattr(pytest_plugin, "prepare", prepare)
        yield
"""

CONFLICT = Anomaly(type="conflicting-table-ids", title="t has 3 ids on 3 nodes", explanation="Let …")


def verdict(valid, *anomalies, reason=None):
    doubts = () if reason is None else (Doubt("unread", reason),)
    part = Verdict(valid=valid, checker="table-ids", anomalies=anomalies, doubts=doubts)
    doubts_of_all = tuple(replace(doubt, checker="table-ids") for doubt in doubts)
    return Verdict(valid=valid, checker="all", anomalies=anomalies, parts=(part,), doubts=doubts_of_all)


@pytest.fixture
def suite(pytester):
    """A test suite of somebody else's, on a machine whose `schemaquake` answers as `answer` says."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(fake=FAKE)

    class Suite:
        path = pytester.path

        def answer(self, judged=None, exit_code=0, words=""):
            places = {"run": "/runs/1-drop-type", "report": "/runs/1-drop-type/report.html"}
            document = judged and {**judged.to_json(), **places, "command": "schemaquake run --seed 1"}
            text = json.dumps({"document": document, "exit_code": exit_code, "words": words})
            (pytester.path / "answer").write_text(text)

        def lacks(self, error):
            (pytester.path / "lack").write_text(error)

        def run(self, test, *options):
            pytester.makepyfile(test)
            return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-W", "error", "--strict-markers", *options)

        def asked(self):
            lines = (pytester.path / "asked").read_text().splitlines()
            return [dict(_options(json.loads(line))) for line in lines]

    suite = Suite()
    suite.answer(verdict(True))
    return suite


def _options(argv):
    yield "command", argv[0]
    rest = iter(argv[1:])
    for word in rest:
        yield (word, None if word == "--json" else next(rest)) if word.startswith("--") else ("argument", word)


RUN = """
def test_it(schemaquake):
    assert schemaquake.run()
"""


def test_valid_run_passes(suite):
    suite.run(RUN).assert_outcomes(passed=1)
    (asked,) = suite.asked()
    assert asked["command"] == "run"
    assert asked["--system"] == "cassandra:5.0.9"
    assert asked["--workload"] == "drop-type"
    assert "--json" in asked


def test_invalid_run_fails_and_the_report_says_what_was_found_where_to_read_on_and_how_to_repeat_it(suite):
    suite.answer(verdict(False, CONFLICT), exit_code=1)
    result = suite.run(RUN)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*schemaquake: 1-drop-type*",
            "INVALID",
            "  conflicting-table-ids: t has 3 ids on 3 nodes",
            "report: /runs/1-drop-type/report.html",
            "repeat: schemaquake run --seed 1",
        ]
    )


def test_unknown_is_neither_a_pass_nor_a_failed_assertion(suite):
    suite.answer(verdict("unknown", reason="no final read of n2"), exit_code=2)
    result = suite.run(RUN)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*TypeError: the verdict is unknown*no final read of n2*"])


def test_test_says_what_to_run(suite):
    suite.run(
        """
        def test_it(schemaquake, tmp_path):
            schemaquake.run("drop-type,add-columns", system="cassandra:6.0-alpha2", nodes=5, nemesis=["kill", "partition"],
                            mode="partition", races=3, seed=7, time_limit=12, runs=tmp_path / "mine")
        """
    ).assert_outcomes(passed=1)
    (asked,) = suite.asked()
    assert asked["--workload"] == "drop-type,add-columns"
    assert asked["--nemesis"] == "kill,partition"
    assert (asked["--nodes"], asked["--mode"], asked["--races"], asked["--seed"]) == ("5", "partition", "3", "7")
    assert asked["--time-limit"] == "12"
    assert asked["--runs"].endswith("mine")


def test_marker_speaks_before_the_command_line_and_the_call_before_the_marker(suite):
    suite.run(
        """
        import pytest

        def test_a(schemaquake):
            schemaquake.run()

        @pytest.mark.schemaquake(system="cassandra:4.1.10", nodes=5, workload="add-columns")
        def test_b(schemaquake):
            schemaquake.run()
            schemaquake.run(nodes=1)
        """,
        "--schemaquake-system=cassandra:6.0-alpha2",
        "--schemaquake-seed=42",
    ).assert_outcomes(passed=2)
    chosen = [(each["--system"], each.get("--nodes"), each["--workload"], each["--seed"]) for each in suite.asked()]
    assert chosen == [
        ("cassandra:6.0-alpha2", None, "drop-type", "42"),
        ("cassandra:4.1.10", "5", "add-columns", "42"),
        ("cassandra:4.1.10", "1", "add-columns", "42"),
    ]


def test_runs_are_kept_where_the_command_line_says(suite):
    suite.run(RUN, "--schemaquake-runs=kept").assert_outcomes(passed=1)
    assert suite.asked()[0]["--runs"] == str(suite.path / "kept")


def test_machine_that_cannot_run_it_skips_with_the_reason(suite):
    suite.lacks("EnvironmentLacks no Java 17 to 21 here")
    result = suite.run(RUN, "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*this machine cannot run cassandra:5.0.9: EnvironmentLacks no Java 17 to 21 here"])
    assert not (suite.path / "asked").exists()


def test_required_cluster_fails_instead(suite):
    suite.lacks("EnvironmentLacks no Java 17 to 21 here")
    suite.run(RUN, "--schemaquake-require").assert_outcomes(failed=1)


def test_version_that_cannot_be_fetched_is_a_failure_not_a_skip(suite):
    suite.lacks("FetchError no cassandra 5.0.99")
    suite.run(RUN).assert_outcomes(failed=1)


@pytest.mark.parametrize(("exit_code", "error"), [(254, "PlanError"), (255, "ClusterError")])
def test_run_without_a_verdict_is_an_error_with_its_last_words(suite, exit_code, error):
    suite.answer(exit_code=exit_code, words="node n2 did not answer")
    result = suite.run(RUN)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [f"*{error}*schemaquake run gave no verdict (exit code {exit_code})*", "*node n2 did not answer"]
    )


def test_run_that_was_not_completed_is_unknown_whatever_its_exit_code(suite):
    suite.answer(verdict("unknown", reason="the run was not completed: node n2 died"), exit_code=255)
    result = suite.run(RUN)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*TypeError: the verdict is unknown*node n2 died*", "report: /runs/1-drop-type/report.html"]
    )


def test_word_that_no_run_has_is_refused_before_anything_runs(suite):
    result = suite.run("def test_it(schemaquake): schemaquake.run(node_count=3)")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(['*PlanError: a run has no "node_count"*'])
    assert not (suite.path / "asked").exists()


def test_run_shared_by_tests_is_in_the_report_of_each_that_fails(suite):
    suite.answer(verdict(False, CONFLICT), exit_code=1)
    result = suite.run(
        """
        import pytest

        @pytest.fixture(scope="module")
        def race(schemaquake):
            return schemaquake.run()

        def test_a(race): assert not race
        def test_b(race): assert race.valid
        def test_c(race): assert race.anomalies == []
        """
    )
    result.assert_outcomes(passed=1, failed=2)
    assert result.stdout.str().count("- schemaquake: 1-drop-type -") == 2
    assert len(suite.asked()) == 1


def test_progress_of_the_run_is_in_the_captured_output(suite):
    suite.answer(verdict(False, CONFLICT), exit_code=1)
    suite.run(RUN).stdout.fnmatch_lines(["*Captured stderr call*", "node n1 serves CQL"])


def test_history_of_others_is_judged(suite):
    suite.answer(verdict(False, CONFLICT), exit_code=1)
    suite.run(
        """
        def test_it(schemaquake_check, tmp_path):
            judged = schemaquake_check(tmp_path / "history.edn", checker="list-append", time_limit=3, independent=True)
            assert judged.valid is False
            assert [anomaly.type for anomaly in judged.anomalies] == ["conflicting-table-ids"]
        """
    ).assert_outcomes(passed=1)
    argv = json.loads((suite.path / "asked").read_text())
    assert argv[0] == "check"
    assert argv[1].endswith("history.edn")
    assert argv[2:] == ["--checker", "list-append", "--time-limit", "3", "--independent", "--json"]


def test_anomaly_of_a_verdict_and_its_parts_counts_once():
    other = Anomaly(type="lost-column", title="c1 is lost")
    judged = Judgement(
        Verdict(
            valid=False, checker="all", anomalies=(CONFLICT,), parts=(verdict(False, CONFLICT), verdict(False, other))
        )
    )
    assert judged.anomalies == [CONFLICT, other]


@pytest.mark.parametrize(("valid", "truth"), [(True, True), (False, False)])
def test_run_is_as_true_as_its_verdict(valid, truth):
    assert bool(Run(verdict(valid), Path("/runs/1"), Path("/runs/1/report.html"), "schemaquake run")) is truth


def test_loading_the_plugin_loads_nothing_heavy():
    heavy = {"pyspark", "pyarrow", "pandas", "numpy", "cassandra", "typer", "rich", "pydantic", "jinja2", "harness"}
    code = "import sys, schemaquake.results.runs.pytest_plugin; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not heavy & {name.partition(".")[0] for name in loaded}


@pytest.mark.cluster
@pytest.mark.long
def test_race_that_breaks_a_real_cluster_fails_a_test_of_somebody_elses(pytester, monkeypatch):
    monkeypatch.setenv("SCHEMAQUAKE_CACHE", str(CACHE))
    result = _somebody_elses_suite(pytester, "cassandra:5.0.9", "run.valid is True")
    _skip_as(result)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["INVALID", "  *: *", "report: *report.html"])


@pytest.mark.cluster
@pytest.mark.long
def test_same_race_on_a_real_cluster_that_holds_passes(pytester, monkeypatch):
    monkeypatch.setenv("SCHEMAQUAKE_CACHE", str(CACHE))
    result = _somebody_elses_suite(pytester, "cassandra:6.0-alpha2", "run.valid is True and run.report.exists()")
    _skip_as(result)
    result.assert_outcomes(passed=1)


def _skip_as(result):
    """Skip for the reason for which the suite was skipped, which names what this machine lacks."""
    if result.parseoutcomes().get("skipped"):
        pytest.skip(next(line for line in result.outlines if line.startswith("SKIPPED")))


def _somebody_elses_suite(pytester, system, expectation):
    pytester.makepyfile(
        f"""
        def test_dropping_a_type_in_use(schemaquake):
            run = schemaquake.run(workload="drop-type", system="{system}", nodes=3, mode="partition", races=1, seed=1)
            assert {expectation}, run.describe()
        """
    )
    return pytester.runpytest_subprocess("-rs")
