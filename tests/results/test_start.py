"""The start: nobody waits for what only other commands need. Told by the modules that were imported, never by time."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

ELSEWHERE = {"cassandra", "docker", "jinja2", "numba", "pandas", "paramiko", "pyspark", "scipy", "thriftpy2"}
"""Drivers, compilers, engines and templates, which only some commands need."""


def imported(program, *argv):
    """The modules that a fresh process has imported when the program has ended."""
    told = 'import json, sys\nsys.stdout.write("\\n" + json.dumps(sorted(sys.modules)))\n'
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{told}", *map(str, argv)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


ROOMS = ("schemaquake.checkers", "schemaquake.nemeses", "schemaquake.workloads")


def packages(modules):
    return {name.partition(".")[0] for name in modules}


def test_no_command_waits_for_drivers_and_compilers_that_only_others_need():
    assert not ELSEWHERE & packages(
        imported("from schemaquake.harness.cli.command_line import application\napplication()")
    )


@pytest.mark.parametrize(
    "argv", [["--help"], ["run", "--help"], ["check", "--help"], ["fetch", "--help"]], ids=" ".join
)
def test_help_needs_no_arrays_and_no_module_that_does_any_work(argv):
    program = """
from schemaquake.harness.cli.command_line import main
try:
    main()
except SystemExit as done:
    assert done.code == 0
"""
    modules = imported(program, *argv)
    assert not packages(modules) & {*ELSEWHERE, "numpy", "pyarrow", "rich"}
    assert not [name for name in modules if name.startswith(ROOMS)]
    assert not {
        "schemaquake.clusters.distribution.fetch",
        "schemaquake.harness.model.plan",
        "schemaquake.results.store.store",
    } & set(modules)
    # Typer asks it about the options of whatever command is named, and of the whole application about none.
    assert argv != ["--help"] or "pydantic" not in modules


def test_a_check_imports_its_own_checker_and_no_compiler_before_it_reads(tmp_path):
    # Of a damaged file the reading is as far as it gets.
    file = tmp_path / "history.parquet"
    file.write_bytes(b"PAR1")
    program = """
import sys
from schemaquake.harness.cli.command_line import application
from schemaquake.harness.errors import HistoryError
try:
    application(sys.argv[1])(sys.argv[1:], standalone_mode=False)
except HistoryError as error:
    assert "is not a whole Parquet file" in str(error)
else:
    raise AssertionError
"""
    modules = imported(program, "check", file, "--model", "list-append", "--engine", "local")
    assert not packages(modules) & {*ELSEWHERE, "rich"}
    assert {name for name in modules if name.startswith(ROOMS)} == {
        "schemaquake.checkers",
        *(
            "schemaquake.checkers.elle",
            "schemaquake.checkers.elle.cycle_names",
            "schemaquake.checkers.elle.example",
            "schemaquake.checkers.elle.list_append",
            "schemaquake.checkers.elle.tables",
            "schemaquake.checkers.exchange",
            "schemaquake.checkers.exchange.exchange",
        ),
    }
    assert not [
        name
        for name in modules
        if name.startswith(
            ("schemaquake.results.engines.checks", "schemaquake.results.runs.execution", "schemaquake.results.report")
        )
    ]


@pytest.mark.parametrize("model", ["list-append", "rw-register", "cas-register"])
def test_a_small_history_is_judged_without_the_compiler_and_its_arguments_without_a_validator(tmp_path, model):
    file = tmp_path / "history.jsonl"
    lines = []
    for n in range(40):
        value = [["append" if model == "list-append" else "w", n % 3, n]] if model != "cas-register" else n % 3
        f = "txn" if model != "cas-register" else "write"
        lines += [
            {"index": 2 * n + i, "process": n % 2, "type": t, "f": f, "value": value}
            for i, t in enumerate(("invoke", "ok"))
        ]
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    program = """
from schemaquake.harness.cli.command_line import main
try:
    main()
except SystemExit as done:
    assert done.code == 0
"""
    modules = imported(program, "check", file, "--model", model, "--limit", "30", "--format", "json")
    assert not packages(modules) & {"numba", "pandas", "pydantic", "pyspark", "scipy"}


def test_the_examination_of_a_file_begins_before_arrow_is_imported(tmp_path):
    theirs = tmp_path / "theirs.parquet"
    theirs.write_bytes(b"PAR1 and no more")
    program = f"""
import sys
from pathlib import Path
from schemaquake.results import commands
from schemaquake.results.store import examination
commands._begin_examination(Path({str(theirs)!r}), at_once=True, memory_bytes=None)
assert len(examination._begun) == 1
"""
    assert not packages(imported(program)) & {*ELSEWHERE, "numpy", "pyarrow"}
