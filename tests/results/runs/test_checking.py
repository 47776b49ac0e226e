"""`schemaquake check FILE --model …`: what it prints, how it exits, and what a second opinion does."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from schemaquake.checkers.linearizability.models import counter
from schemaquake.harness.cli.command_line import application
from schemaquake.harness.errors import EnvironmentLacks, PlanError
from schemaquake.results.formats.edn_writing import edn_lines
from schemaquake.results.formats.reading import read_history
from schemaquake.results.judging.history_models import ModelOptions, checker_of
from schemaquake.results.judging.knossos import ask_knossos
from schemaquake.results.runs.checking import check_path

GOOD = "{:process 0 :type :invoke :f :write :value 1}\n{:process 0 :type :ok :f :write :value 1}\n"
BAD = GOOD + "{:process 1 :type :invoke :f :read}\n{:process 1 :type :ok :f :read :value 2}\n"

OWN_MODEL = counter()
"""What `--model test_checking:OWN_MODEL` names."""


@pytest.fixture
def file(tmp_path):
    def write(source: str, name: str = "history.edn") -> Path:
        path = tmp_path / name
        path.write_text(source, encoding="utf-8")
        return path

    return write


def check(path: Path, model: str | None, **options: Any) -> Any:
    defaults: dict[str, Any] = {
        "checkers": None,
        "file_format": None,
        "engine": "local",
        "master": None,
        "limit_s": 120,
    }
    return check_path(path, model=model, **{**defaults, **options})


def run(*arguments: object) -> Any:
    return CliRunner().invoke(application(), ["check", *map(str, arguments)])


def test_files_are_told_with_their_verdicts_and_the_worst_decides_the_exit_code(file):
    good, bad = file(GOOD, "good.edn"), file(BAD, "bad.edn")
    found = run(good, bad, "--model", "cas-register")
    assert found.stdout == f"{good}\ttrue\n{bad}\tfalse\n"
    assert found.exit_code == 1
    assert run(good, "--model", "register").exit_code == 0
    assert run(good, "--model", "set-full").exit_code == 2


@pytest.mark.parametrize("name", ["empty.edn", "empty.json"])
def test_an_empty_file_is_said_to_hold_nothing(file, name):
    found = run(path := file("", name))
    assert found.stdout == f"{path}\tunknown\n"
    assert found.stderr == f"{path}: nothing to judge: the file holds no operation\n"
    assert found.exit_code == 2


def test_operations_that_no_checker_knows_are_no_question_of_what_a_run_observed(file):
    found = run(path := file(GOOD.replace(":write", ":turn")))
    assert (
        found.stderr
        == f"{path}: nothing to judge: no checker knows its operations by itself; say what they are, for example --model cas-register\n"
    )
    assert found.exit_code == 2


def test_what_a_run_lacks_is_said_where_its_changes_are_judged(file):
    change = '{:process 0 :node "n1" :type %s :f :create-keyspace :value {"object" ["k"]}}'
    assert "observed: no node was read" in run(file("\n".join(change % kind for kind in (":invoke", ":ok")))).stderr


def test_one_json_document(file):
    found = run(file(BAD), "--model", "cas-register", "--json")
    document = orjson.loads(found.stdout)
    assert document["valid"] is False
    assert document["anomalies"][0]["type"] == "non-linearizable"


def test_the_format_may_be_named_and_keys_are_apart_if_asked(file):
    source = GOOD.replace(":value 1", ":value [:a 1]") + BAD[len(GOOD) :].replace("2", "[:b nil]").replace(
        ":f :read}", ":f :read :value [:b nil]}"
    )
    path = file(source, "history.txt")
    assert run(path, "--model", "register", "--format", "edn", "--independent").exit_code == 0
    assert run(path, "--model", "register", "--format", "edn").exit_code == 1


def test_the_initial_value_and_what_null_says(file):
    path = file("{:process 1 :type :invoke :f :read}\n{:process 1 :type :ok :f :read :value 0}\n")
    assert check(path, "register").valid is False
    assert check(path, "register", options=ModelOptions(initial="0")).valid is True


def test_models_of_transactions_and_of_one_s_own(file):
    ops = [["append", 1, 1]], [["r", 1, [1]]]
    events = [{"type": kind, "process": 0, "value": value} for value in ops for kind in ("invoke", "ok")]
    append = file("\n".join(orjson.dumps(event).decode() for event in events), "h.json")
    assert check(append, "list-append").valid is True
    added = file(
        "{:process 0 :type :invoke :f :add :value 1}{:process 0 :type :ok :f :add :value 1}" + BAD[len(GOOD) :]
    )
    assert check(added, f"{__name__}:OWN_MODEL").valid is False
    assert check(added, "counter").valid is False
    assert check(added, "counter", checkers=["linearizable"]).valid is False


@pytest.mark.parametrize(
    ("model", "checker", "options", "said"),
    [
        ("cas-registre", None, {}, 'unknown model "cas-registre"'),
        ("bank", "linearizable", {}, 'checker "linearizable" does not judge the model "bank"'),
        ("no.such:thing", None, {}, "cannot be loaded"),
        ("pathlib:Path", None, {}, "is no model"),
        ("register", None, {"initial": "{"}, "--initial is JSON"),
        ("counter", None, {"initial": '"x"'}, "cannot be the initial value"),
    ],
)
def test_models_and_options_that_are_none_are_refused(model, checker, options, said):
    with pytest.raises(PlanError, match=said):
        checker_of(model, checker=checker, options=ModelOptions(**options))


def test_options_of_a_model_without_a_model_are_refused(tmp_path):
    options = ModelOptions(consistency_models=("serializable",), linearizable_keys=True, memory_bytes=1)
    with pytest.raises(PlanError, match="--consistency-models and --linearizable-keys say how a model is judged"):
        check(tmp_path / "h.json", None, options=options)


@pytest.mark.parametrize("asked", [{"file_format": "edn"}, {"independent": True}])
def test_what_is_for_history_files_is_refused_for_a_run(tmp_path, asked):
    with pytest.raises(PlanError, match="are for a history file"):
        check(tmp_path, None, **asked)


def test_words_that_are_none_are_refused():
    with pytest.raises(PlanError, match="--failed-cas is ignored or informative"):
        ModelOptions(failed_cas="whatever")  # type: ignore[arg-type]  # that is the point


# ── a second opinion ─────────────────────────────────────────────────────────────────────────────────────────────────

LAUNCHER = """#!/bin/sh
cp "$3" "$(dirname "$0")/asked-$(basename "$3")"
echo "INFO model $2"
{answer}
"""


@pytest.fixture
def launcher(tmp_path):
    def write(answer: str) -> Path:
        path = tmp_path / "knossos"
        path.write_text(LAUNCHER.format(answer=answer), encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return write


def test_an_agreement_is_told_in_the_statistics(file, launcher):
    verdict = check(file(BAD), "cas-register", knossos=launcher('printf "%s\\tfalse\\n" "$3"'))
    assert verdict.valid is False
    assert verdict.figures["knossos"] is False
    assert "disagreement" not in verdict.figures


def test_a_disagreement_is_told_loudly_and_leaves_the_verdict_unknown(file, launcher):
    answer = launcher('printf "%s\\ttrue\\n" "$3"')
    verdict = check(file(BAD), "cas-register", knossos=answer)
    assert verdict.valid == "unknown"
    assert verdict.figures["ours"] is False
    assert str(verdict.reason).startswith("DISAGREEMENT: ours is false, knossos says true")
    assert verdict.anomalies
    found = run(file(BAD), "--model", "cas-register", "--knossos", answer)
    assert found.exit_code == 2
    assert "DISAGREEMENT" in found.output


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ('printf "%s\\tunknown\\n" "$3"', "knossos: it could not decide"),
        (
            "echo java.lang.OutOfMemoryError >&2; exit 1",
            "knossos: it ended with 1 and printed java.lang.OutOfMemoryError",
        ),
        ("exec sleep 30", "knossos: no answer within 1 s"),
    ],
)
def test_no_opinion_changes_nothing(file, launcher, answer, said):
    verdict = check(file(GOOD), "cas-register", knossos=launcher(answer), limit_s=1)
    assert verdict.valid is True
    assert verdict.figures["knossos"] == "unknown"
    assert verdict.reason == said


def test_each_key_is_asked_about_apart_and_what_is_asked_is_the_history(file, launcher, tmp_path):
    source = "{:process 0 :type :invoke :f :write :value [:a 1]}{:process 0 :type :ok :f :write :value [:a 1]}"
    source += "{:process 1 :type :invoke :f :write :value [:b 2]}{:process :nemesis :type :info :f :start}"
    history = read_history(file(source), independent=True)
    assert ask_knossos(history, model="register", knossos=launcher('printf "%s\\ttrue\\n" "$3"'), limit_s=20) == (
        True,
        None,
    )
    asked = [read_history(tmp_path / f"asked-{number}.edn") for number in range(2)]
    assert [table["value"].to_pylist() for table in asked] == [["1", "1"], ["2"]]


def test_a_history_is_written_as_it_is_read(file):
    source = "{:process 0 :type :invoke :f :txn :value [[:append 1 2] [:r 3 nil]]}{:process 0 :type :ok :f :txn :value [[:append 1 2] [:r 3 [4]]]}"
    source += '{:process 1 :type :invoke :f :write :value {:a ["x\\"\\n" true nil -1]}}'
    history = read_history(file(source))
    again = read_history(file("\n".join(edn_lines(history)), "again.edn"))
    assert again.equals(history)


def test_what_knossos_cannot_be_asked_is_refused(file, tmp_path, launcher):
    with pytest.raises(PlanError, match='knossos knows no model "bank"'):
        check(file(GOOD), "bank", knossos=launcher("true"))
    with pytest.raises(PlanError, match="takes no --initial value"):
        check(file(GOOD), "register", knossos=launcher("true"), options=ModelOptions(initial="0"))
    with pytest.raises(EnvironmentLacks, match="does not exist"):
        check(file(GOOD), "register", knossos=tmp_path / "nothing.jar")
    with pytest.raises(PlanError, match="a --model that knossos knows"):
        check(file(GOOD), None, knossos=launcher("true"))
