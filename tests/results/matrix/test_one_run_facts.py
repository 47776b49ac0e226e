"""The process of a single run of a matrix, and what it writes."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from schemaquake.harness.model.plan import Plan
from schemaquake.results.matrix import one_run


@dataclass
class Facts:
    document: dict[str, Any]

    def to_json(self):
        return self.document

    @classmethod
    def from_json(cls, document):
        return cls(document)


@pytest.fixture
def carried_out(tmp_path, monkeypatch):
    """Have a run be carried out whose facts are these, and return what was written."""
    runs, plan, place = tmp_path / "matrix" / "runs", tmp_path / "plan.json", tmp_path / "facts.json"
    runs.mkdir(parents=True)
    plan.write_bytes(orjson.dumps(Plan(system="cassandra:5.0.9", workloads=("drop-type",)).to_json()))
    monkeypatch.setattr(one_run, "_die_with", lambda _parent: None)
    monkeypatch.setattr(one_run, "configure_logging", lambda: None)
    monkeypatch.setattr("sys.argv", ["one_run", str(plan), str(runs), str(place)])
    finished = SimpleNamespace(store=SimpleNamespace(folder=runs / "one"))
    monkeypatch.setattr(one_run, "carry_out", lambda *_, **__: finished)

    def written(facts):
        assert one_run.answer(lambda *_, **__: Facts(facts), None, limit_s=1) == 0
        return orjson.loads(place.read_bytes())

    return SimpleNamespace(runs=runs, written=written)


def test_facts_name_no_folder_of_the_machine(carried_out):
    line = f"saved to {carried_out.runs}/one/nodes/n2/tmp/mutation1.dat"
    facts = {"findings": [["add-columns", "unexpected-log-error", {"title": line}]], "other": "/elsewhere"}
    assert carried_out.written(facts) == {
        "findings": [
            ["add-columns", "unexpected-log-error", {"title": "saved to runs/one/nodes/n2/tmp/mutation1.dat"}]
        ],
        "other": "/elsewhere",
    }
