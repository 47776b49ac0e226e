"""The public face: everything it promises is there, and it costs a worker nothing that only checkers need."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import command
import pytest
from places import ROOT

import schemaquake
from schemaquake import api
from schemaquake.harness.model.plan import Plan


def test_every_promised_name_is_there():
    assert {name: getattr(api, name) is not None for name in api.__all__} == dict.fromkeys(api.__all__, True)


def test_every_promised_name_stands_in_the_table_by_purpose():
    words = set(re.findall(r"\w+", api.__doc__))
    assert [name for name in api.__all__ if name not in words] == []


def test_what_is_not_promised_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'Conductor'"):
        _ = api.Conductor


def test_a_worker_that_only_takes_steps_needs_neither_arrow_nor_checkers():
    program = "import sys, schemaquake.api; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert "schemaquake.harness.model.steps" in modules
    assert not [name for name in modules if name.split(".")[0] in {"pyarrow", "numpy", "pydantic", "cassandra"}]
    assert not [name for name in modules if name.startswith(("schemaquake.checkers.", "schemaquake.clusters."))]


def test_the_version_is_that_of_the_project_and_stands_in_every_plan():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert schemaquake.__version__ == project["version"]
    assert Plan(system="cassandra:5.0.9", workloads=("register",)).schemaquake_version == project["version"]
    assert command.schemaquake("--version").stdout == f"schemaquake {project['version']}\n"
