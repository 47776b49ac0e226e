"""The data of `make mutants` names modules, tests and lines that are there, and what is left out is no code that runs."""

from __future__ import annotations

import ast
import runpy
import sqlite3
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MUTANTS = runpy.run_path(str(ROOT / "scripts" / "mutants.py"))
KNOWN = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text(encoding="utf-8"))

SOURCE = '''\
LIMIT: int | None = 3 | 4


def widen(a: int | None, *, b: int = 1 + 1) -> int | None:
    """Widen."""
    return a | b if a else f"{a - 1} or {b}"
'''


@pytest.mark.parametrize("module", KNOWN["tests"])
def test_modules_and_their_tests_are_there(module: str) -> None:
    assert module in list(MUTANTS["list_modules"]())
    assert all((ROOT / tests).exists() for tests in KNOWN["tests"][module])


def test_every_other_module_has_a_folder_of_tests() -> None:
    for module in MUTANTS["list_modules"]():
        assert all((ROOT / tests).exists() for tests in MUTANTS["tests_of"](module, KNOWN)), module


@pytest.mark.parametrize("entry", KNOWN["argued"], ids=lambda entry: f"{entry['module']}: {entry['after']}")
def test_what_was_argued_away_is_still_in_its_module_and_has_a_reason(entry: dict[str, str]) -> None:
    modules = MUTANTS["list_modules"]() if entry["module"] == "*" else [entry["module"]]
    assert any(entry["before"] in (ROOT / module).read_text(encoding="utf-8") for module in modules)
    assert entry["why"]


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("int | None = 3", True),
        ("3 | 4", False),
        ("a: int |", True),
        ("*, b", True),
        ("1 + 1", False),
        ("a | b", False),
        ("- 1}", True),
    ],
)
def test_annotations_and_signatures_are_left_out_and_nothing_that_runs(text: str, *, left_out: bool) -> None:
    before, _, _ = SOURCE.partition(text)
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n") - 1
    assert MUTANTS["is_left_out"](ast.parse(SOURCE), (line, column)) is left_out


def test_a_survivor_is_its_line_before_and_after() -> None:
    diff = "--- mutation diff ---\n--- a/m.py\n+++ b/m.py\n@@ -1,2 +1,2 @@\n x\n-    if a < b:\n+    if a <= b:\n"
    found = MUTANTS["survivor_of"]("m.py", diff)
    assert (found.before, found.after) == ("if a < b:", "if a <= b:")
    assert MUTANTS["survivor_of"]("m.py", f"{diff}-\n+\n") == found, "the last line of a file"


def test_where_tests_have_grown_what_survived_without_a_reason_is_tried_again_and_nothing_else(tmp_path: Path) -> None:
    old, session = tmp_path / "old.sqlite", tmp_path / "new.sqlite"
    argued = {"module": "m.py", "before": "if a < b:", "after": "if a <= b:"}
    diffs = ["--- m\n+++ m\n-    if a < b:\n+    if a <= b:\n", "--- m\n+++ m\n-    if a < b:\n+    if a > b:\n", ""]
    results = [
        ("killed", "NORMAL", "KILLED", diffs[1]),
        ("argued", "NORMAL", "SURVIVED", diffs[0]),
        ("survived", "NORMAL", "SURVIVED", diffs[1]),
        ("skipped", "SKIPPED", None, diffs[2]),
    ]
    with sqlite3.connect(old) as database:
        database.execute("create table mutation_specs (job_id)")
        database.execute("create table work_results (job_id, worker_outcome, test_outcome, diff)")
        database.executemany("insert into mutation_specs values (?)", [(job,) for job, *_ in results])
        database.executemany("insert into work_results values (?, ?, ?, ?)", results)
    MUTANTS["keep_killed"](old, session, "m.py", {"argued": [argued]})
    with sqlite3.connect(session) as database:
        kept = {job for (job,) in database.execute("select job_id from work_results")}
    assert (kept, old.exists()) == ({"killed", "argued", "skipped"}, False)
    assert MUTANTS["is_left_to_try"](session)
