"""The registry: whatever is installed is found by name, a stranger's like our own, and a wrong name gets a sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest
from plugins import distribution, on_path

from schemaquake.harness.errors import ExitCode, PlanError
from schemaquake.harness.registry import load, load_all, names


@pytest.fixture
def stranger(tmp_path):
    (tmp_path / "strange_workload.py").write_text(
        '"""Strange things are done."""\n'
        "class Strange:\n    name = 'strange'\n"
        "TABLE = ('not', 'a', 'class')\n"
        "def function():\n    return 'called'\n"
    )
    distribution(
        tmp_path,
        {
            "workloads": {
                "strange": "strange_workload:Strange",
                "table": "strange_workload:TABLE",
                "function": "strange_workload:function",
                "gone": "strange_workload:Gone",
                "nowhere": "no_such_module:Strange",
            }
        },
    )
    with on_path(tmp_path):
        yield tmp_path


def test_a_stranger_s_workload_stands_beside_our_own(stranger):
    assert {"strange", "create-table"} <= set(names("workloads"))
    assert names("workloads") == sorted(names("workloads"))
    assert load("workloads", "strange").name == "strange"


def test_without_its_distribution_it_is_gone_again(tmp_path):
    with on_path(tmp_path):
        assert "strange" not in names("workloads")


def test_a_process_that_is_started_finds_it_too(stranger):
    code = "from schemaquake.harness.registry import load; print(load('workloads', 'strange').name)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "strange\n"


def test_a_class_is_called_and_anything_else_is_handed_over(stranger):
    assert type(load("workloads", "strange")).__name__ == "Strange"
    assert load("workloads", "strange") is not load("workloads", "strange")
    assert load("workloads", "table") == ("not", "a", "class")
    assert load("workloads", "function")() == "called"


@pytest.mark.parametrize(
    ("kind", "name", "sentence"),
    [
        ("workloads", "create-tabel", 'unknown workload "create-tabel". Did you mean "create-table"? Known: '),
        ("nemeses", "partitoin", 'unknown nemesis "partitoin". Did you mean "partition"? Known: '),
        ("clusters", "moon", 'unknown cluster "moon". Known: docker, local, simulated, ssh'),
        ("checkers", "", 'unknown checker "". Known: '),
        ("wishes", "peace", 'unknown wishe "peace". Known: none.'),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest_known_one(kind, name, sentence):
    with pytest.raises(PlanError) as unknown:
        load(kind, name)
    assert str(unknown.value).startswith(sentence)
    assert unknown.value.exit_code == ExitCode.BAD_ARGUMENTS


@pytest.mark.parametrize(("name", "why"), [("gone", "AttributeError"), ("nowhere", "ModuleNotFoundError")])
def test_a_plugin_that_cannot_be_imported_is_named_with_its_package(stranger, name, why):
    with pytest.raises(PlanError, match=rf'workload "{name}" of the package stranger cannot be loaded: {why}: '):
        load("workloads", name)


def test_every_one_of_a_kind_is_loaded_under_its_name():
    clusters = load_all("clusters")
    assert list(clusters) == names("clusters")
    assert clusters["local"].name == "local"


@pytest.mark.parametrize("kind", ["workloads", "nemeses", "clusters"])
def test_what_is_registered_goes_by_the_name_it_is_registered_under(kind):
    assert {name: found.name for name, found in load_all(kind).items()} == {name: name for name in names(kind)}
