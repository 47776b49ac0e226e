"""The page about deployed clusters: its files can be used as they stand, and its tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pages
import pytest

from schemaquake.clusters.cluster_file.model import WORDS, ClusterFile
from schemaquake.clusters.cluster_file.parse import read_cluster_file
from schemaquake.clusters.doctor.checks import all_checks
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.traits import nemesis_traits
from schemaquake.harness.registry import load_all

PAGE = "deployed.md"
FILES = pages.blocks(PAGE, "toml")
SPOILT = """provider = "ssh"
max_fault_seconds = 60
allow = ["kill", "fire"]
[[nodes]]
address = "10.0.0.1"
[credentials]
password = "x"
username = { env = "CQL_USER" }
[ssh]
usr = "cassandra"
"""


def read(text: str, folder: Path) -> ClusterFile:
    path = folder / "cluster.toml"
    path.write_text(text, encoding="utf-8")
    return read_cluster_file(path)


@pytest.mark.parametrize("text", FILES, ids=range(len(FILES)))
def test_each_file_can_be_used_as_it_stands(text: str, tmp_path: Path) -> None:
    assert read(text, tmp_path).provider in {"ssh", "docker"}


def test_what_may_be_left_out_has_the_value_shown_unless_the_remark_says_otherwise(tmp_path: Path) -> None:
    least, everything = (read(text, tmp_path) for text in FILES[:2])
    remarked = {
        "credentials",
        "tls",
        "ssh",
        "nodes",
        "spares",
        "allow",
        "system",
        "max_nodes_down",
        "stop_if",
        "consent_file",
    }
    for name in set(ClusterFile.model_fields) - remarked:
        assert getattr(everything, name) == getattr(least, name), name
    for name in remarked - {"system"}:
        assert getattr(everything, name) != getattr(least, name), f"{name} is shown as it is anyway"


def test_the_whole_file_shows_every_table_and_every_word(tmp_path: Path) -> None:
    everything = read(FILES[1], tmp_path)
    assert everything.model_fields_set == set(ClusterFile.model_fields) - {"docker"}
    assert set(everything.allow) == set(WORDS)


def test_the_errors_shown_are_those_that_would_be_told(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as refused:
        read(SPOILT, tmp_path)
    told = str(refused.value).replace(f"{tmp_path}/", "")
    assert told + "\n" == pages.blocks(PAGE, "text")[0]


def test_the_table_of_words_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", pages.section(PAGE, "What is allowed"), re.MULTILINE)
    assert {word for word, _ in rows} == set(WORDS)
    for word, allows in rows:
        allowed = {name for name, nemesis in load_all("nemeses").items() if nemesis_traits(nemesis).allowed_by == word}
        assert set(re.findall(r"\[([\w-]+)\]\(nemeses", allows)) - {"kill"} == allowed - {"kill"}


def test_the_table_of_checks_is_that_of_the_doctor() -> None:
    rows = re.findall(r"^\| ([\w ,]+) \| (.*) \| (.*) \|$", pages.section(PAGE, "The doctor"), re.MULTILINE)
    told = {name.strip(): needed for names, _, needed in rows if names != "check" for name in names.split(",")}
    assert told == {
        check.name: ", ".join(f"`{word}`" for word in sorted(check.allowances)) or "every run" for check in all_checks()
    }
