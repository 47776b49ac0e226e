"""`schemaquake check FILE --model read-committed|read-atomic|causal`: the levels by name, of registers and of lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from schemaquake.checkers.weak_isolation.isolation import WeakIsolation
from schemaquake.harness.cli.command_line import application
from schemaquake.harness.errors import PlanError
from schemaquake.results.judging.history_models import ModelOptions, checker_of

# Somebody sees half of a transaction: read committed allows that.
TORN = {
    "rw-register": [[["w", 1, 1], ["w", 2, 1]], [["r", 1, None], ["r", 2, 1]]],
    "list-append": [[["append", 1, 1], ["append", 2, 1]], [["r", 1, []], ["r", 2, [1]]]],
}
EXIT_CODES = {"read-committed": 0, "read-atomic": 1, "causal": 1}


def written(folder: Path, kind: str) -> Path:
    lines = []
    for process, mops in enumerate(TORN[kind]):
        asked = [[f, key, None if f == "r" else value] for f, key, value in mops]
        for of_type, value in (("invoke", asked), ("ok", mops)):
            lines.append(orjson.dumps({"type": of_type, "process": process, "f": "txn", "value": value}).decode())
    path = folder / "history.json"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def run(*arguments: object) -> Any:
    return CliRunner().invoke(application(), ["check", *map(str, arguments), "--engine", "local"])


@pytest.mark.parametrize("kind", TORN)
@pytest.mark.parametrize("level", EXIT_CODES)
def test_each_level_by_its_name(tmp_path: Path, kind: str, level: str) -> None:
    path = written(tmp_path, kind)
    expected = "true" if EXIT_CODES[level] == 0 else "false"
    for chosen in ([], ["--checker", "weak-isolation"]):
        found = run(path, "--model", level, *chosen)
        assert found.exit_code == EXIT_CODES[level]
        assert found.stdout == f"{path}\t{expected}\n"
    found = run(path, "--model", kind, "--checker", "weak-isolation", "--consistency-models", level)
    assert found.exit_code == EXIT_CODES[level]


@pytest.mark.parametrize("kind", TORN)
def test_the_document_tells_which_level_is_ruled_out(tmp_path: Path, kind: str) -> None:
    document = orjson.loads(run(written(tmp_path, kind), "--checker", "weak-isolation", "--json").stdout)
    assert document["valid"] is False
    (anomaly,) = document["anomalies"]
    assert anomaly["type"] == "fractured-read"
    assert anomaly["explanation"].startswith("Let  T1 = op 2: p1 r 1 nothing, r 2 ")
    (part,) = document["parts"]
    assert part["stats"]["not"]["value"] == ["read-atomic"]
    assert part["stats"]["also-not"]["value"] == ["causal"]


def test_a_level_that_the_checker_does_not_decide_is_refused() -> None:
    with pytest.raises(PlanError, match='does not decide "serializable"'):
        checker_of("rw-register", checker="weak-isolation", options=ModelOptions(consistency_models=("serializable",)))
    with pytest.raises(PlanError, match=r'unknown consistency model "serialisable"\. Did you mean "serializable"'):
        checker_of("rw-register", checker=None, options=ModelOptions(consistency_models=("serialisable",)))
    with pytest.raises(PlanError, match='"list-append" does not judge the model "causal"'):
        checker_of("causal", checker="list-append", options=ModelOptions())


def test_without_a_level_the_strongest_is_asked() -> None:
    assert checker_of("rw-register", checker="weak-isolation", options=ModelOptions()) == WeakIsolation(
        models=("causal",)
    )
