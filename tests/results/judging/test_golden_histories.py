"""Histories with known verdicts, of knossos, porcupine and elle-cli: where they are there, ours are the same.

They are read from `../shared/golden` beside the repository (or $SCHEMAQUAKE_SHARED/golden), and never copied here.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from shared_histories import SHARED

from schemaquake.checkers.linearizability.linearizable import Linearizable
from schemaquake.checkers.linearizability.models import Register
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Verdict
from schemaquake.results.formats.reading import read_history
from schemaquake.results.judging.history_models import ModelOptions
from schemaquake.results.runs.checking import check_path

pytestmark = pytest.mark.peers

INDEX = SHARED / "golden" / "INDEX.jsonl"
ENTRIES = [orjson.loads(line) for line in INDEX.read_bytes().splitlines()] if INDEX.exists() else []

DIFFERENT = {
    "knossos/cas-register/good/mongodb-v0-ack-rollback-.edn": (
        "unknown",
        "it has notes of the nemesis, and not one call",
    ),
    "elle-cli/jepsen/counter.edn": ("unknown", "nobody ever read the counter: nothing was shown of it"),
    "elle-cli/jepsen/counter.json": ("unknown", "the same"),
    "elle-cli/elle/rw-register.edn": (
        False,
        "it reads 3, which nobody wrote: a garbage-read, which the original lets pass",
    ),
    "elle-cli/elle/rw-register.json": (False, "the same"),
}
"""Where ours is another verdict on purpose, and why. Unknown is never good news, and no news is unknown."""

UNDECIDED = {
    "porcupine/jepsen/etcd_095.log": "the file is empty, and no test of porcupine's reads it",
    "elle-cli/custom/comments.edn": "no verdict is stated",
    "elle-cli/histories/knossos/mutex/bad/hazelcast.edn": "the file is not there",
}
"""Entries of the index without a verdict to compare with, or without a history."""


def of(source: str) -> list[Any]:
    entries = [entry for entry in ENTRIES if entry["name"].startswith(source) and entry["name"] not in UNDECIDED]
    return [pytest.param(entry, id=entry["name"]) for entry in entries]


def expected(entry: dict[str, Any]) -> Any:
    different = DIFFERENT.get(entry["name"])
    return entry["expected"] if different is None else different[0]


def check(entry: dict[str, Any], **options: Any) -> Verdict:
    return check_path(
        SHARED / "golden" / entry["name"],
        checkers=None,
        file_format=None,
        engine="local",
        master=None,
        limit_s=60,
        model=entry["model"],
        options=ModelOptions(**options),
    )


@pytest.mark.parametrize("entry", of("knossos/"))
def test_knossos_histories(entry: dict[str, Any]) -> None:
    # What knossos' tests start from is 0; a read of nil says nothing to it.
    initial = orjson.dumps(entry["init"]).decode() if entry["init"] is not None else None
    verdict = check(entry, initial=initial, null_reads="unknown")
    assert verdict.valid == expected(entry), verdict.reason


@pytest.mark.parametrize("entry", [*of("elle-cli/knossos"), *of("elle-cli/jepsen")])
def test_elle_cli_histories(entry: dict[str, Any]) -> None:
    assert check(entry).valid == expected(entry)


@pytest.mark.parametrize("entry", of("elle-cli/elle"))
def test_elle_cli_transactions(entry: dict[str, Any]) -> None:
    assert check(entry, consistency_models=("serializable",)).valid == expected(entry)


LOG_LINE = re.compile(r"INFO\s+jepsen\.util - (\S+)\s+:(\w+)\s+:(\w+)\s+(.*)")


@pytest.mark.parametrize("entry", of("porcupine/jepsen"))
@pytest.mark.parametrize("failed_cas", ["ignored", "informative"])
def test_porcupine_s_logs_of_etcd(entry: dict[str, Any], failed_cas: str, tmp_path: Path) -> None:
    lines = (SHARED / "golden" / entry["name"]).read_text(encoding="utf-8").splitlines()
    events = [
        f"{{:process {found[1]} :type :{found[2]} :f :{found[3]} :value {_without_timeout(found[4])}}}"
        for found in map(LOG_LINE.match, lines)
        if found is not None and found[2] in {"invoke", "ok", "fail", "info"}
    ]
    path = tmp_path / "history.edn"
    path.write_text("\n".join(events), encoding="utf-8")
    history = Records.of(read_history(path))
    verdict = Linearizable(model=Register(failed_cas=failed_cas)).check(history, limit_s=60)  # type: ignore[arg-type]
    assert verdict.valid == expected(entry), verdict.reason


def _without_timeout(value: str) -> str:
    """A call that timed out says so in place of its value."""
    return "nil" if value.strip() == ":timed-out" else value


@dataclass(frozen=True)
class AppendingStore:
    """A model of one's own: texts under keys, `get`, `put` and `append`."""

    functions: frozenset[str] = frozenset({"get", "put", "append"})
    initial: Hashable = ""

    def action(self, f: str, result: str, argument: Any, value: Any) -> Any:
        if f == "get":
            return ("get", value) if result == "ok" else None
        return None if result == "fail" else (f, argument)

    def part(self, action: Any) -> Hashable:
        return 0

    def step(self, state: Any, action: Any) -> Any:
        f, value = action
        if f == "get":
            return state if state == value else None
        return value if f == "put" else state + value

    def observes(self, action: Any) -> bool:
        return bool(action[0] == "get")


@pytest.mark.parametrize("entry", of("porcupine/kv"))
def test_porcupine_s_stores_by_a_model_of_one_s_own(entry: dict[str, Any]) -> None:
    history = Records.of(read_history(SHARED / "golden" / entry["name"], file_format="edn"))
    # Some stores of the largest history are refuted at once, and others are beyond any limit: a matter of memory, since
    # time depends on the machine.
    verdict = Linearizable(model=AppendingStore()).check(history, limit_s=3600)
    assert verdict.valid == expected(entry), verdict.reason


def test_every_entry_is_asked_about() -> None:
    asked = ("knossos/", "elle-cli/knossos", "elle-cli/jepsen", "elle-cli/elle", "porcupine/jepsen", "porcupine/kv")
    left = {entry["name"] for entry in ENTRIES if not entry["name"].startswith((*asked, "elle/"))}
    assert left <= set(UNDECIDED)
