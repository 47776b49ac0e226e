"""The pages about workloads say what the code does: their examples run, their statements are those of the races."""

from __future__ import annotations

import inspect
import shlex
import tomllib
from typing import Any

import pages
import pytest
from crew_at_work import FEATURES, carry_out, operations
from pages import blocks
from racing_context import racing_context

from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.model.protocols import Phase, Worker, Workload
from schemaquake.harness.model.steps import Invoke
from schemaquake.harness.registry import names
from schemaquake.workloads.races.racing_ddl import RACING

NODES = ("n1", "n2", "n3")
PHASES: list[tuple[Phase, str]] = [
    ("setup", ""),
    ("prepare", ""),
    ("main", ""),
    ("probe", "settled"),
    ("final", "settled"),
    ("probe", "restarted"),
    ("final", "restarted"),
]


def section(name: str) -> str:
    """What docs/workloads.md says under this heading."""
    return pages.section("workloads.md", name)


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """The names that the examples define; they print what the page says."""
    return pages.carry_out("write-a-workload.md")


def test_the_page_s_entry_points_lead_to_workloads_of_that_name(example: dict[str, Any]) -> None:
    (text,) = blocks("write-a-workload.md", "toml")
    targets = tomllib.loads(text)["project"]["entry-points"]["schemaquake.workloads"]
    assert "new-column" in targets
    for name, target in targets.items():
        assert made(example, target.partition(":")[2]).name == name


def made(example: dict[str, Any], attribute: str) -> Any:
    """As the registry makes it: a class is called, anything else is used as it is."""
    found = example[attribute]
    return found() if isinstance(found, type) else found


@pytest.mark.parametrize("attribute", ["NewColumn", "rename_key"])
@pytest.mark.parametrize("mode", ["barrier", "partition"])
def test_the_examples_satisfy_the_protocol_and_keep_the_page_s_rules(
    example: dict[str, Any], attribute: str, mode: Any
) -> None:
    workload = made(example, attribute)
    isolated = ("n2",) if mode == "partition" else ()
    context = racing_context(seed=2, nodes=NODES, isolated=isolated, mode=mode, races=4, features=FEATURES)
    for method in ("crew", "steps"):
        asked, given = (inspect.signature(getattr(kind, method)).parameters for kind in (Workload, type(workload)))
        assert [(p.name, p.kind) for p in given.values()] == [(p.name, p.kind) for p in asked.values()]
    assert workload.requires <= FEATURES
    assert all(isinstance(worker, Worker) and worker.node in NODES for worker in workload.crew(context))
    keys = []
    for phase, label in PHASES:
        done = carry_out(workload, phase, context, label=label)
        assert done == carry_out(workload, phase, context, label=label)
        for operation in operations(done):
            assert statement(operation.f, operation.value)
            assert operation.value["keyspace"].startswith("sq_")
            if operation.f == "insert":
                keys.append((operation.key, next(iter(operation.value["row"].values()))))
    assert keys
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("workload", RACING, ids=[workload.name for workload in RACING])
def test_each_workload_s_section_shows_the_statements_of_its_races(workload: Any) -> None:
    told = section(workload.name)
    context = racing_context(seed=1, nodes=NODES, features=FEATURES, races=10)
    variants = {race.variant: race for race in reversed(workload.races(context))}
    for variant, race in variants.items():
        assert f"-- variant {variant}" in told
        for side in race.sides[:2]:
            for change in side:
                text = statement(change.f, change.value).replace(race.keyspace, "ks")
                assert text in told.splitlines()


def test_every_workload_has_a_section_and_a_row() -> None:
    page = pages.text_of("workloads.md")
    for name in [*(workload.name for workload in RACING), "racing-ddl", "schema-churn"]:
        assert section(name).strip()
        assert f"| [{name}](#{name}) |" in page


@pytest.mark.parametrize("page", ["workloads.md", "write-a-workload.md"])
def test_commands_name_workloads_and_variants_that_exist(page: str) -> None:
    known = {*names("workloads"), "new-column", "rename-key"}
    for line in "".join(blocks(page, "console")).splitlines():
        words = shlex.split(line.removeprefix("$ "))
        assert words[0] == "schemaquake"
        if "--workload" not in words:
            continue
        asked = words[words.index("--workload") + 1].split(",")
        assert set(asked) <= known
        for name, _, values in (word.partition("=") for word in words if "=" in word):
            if name == "variant":
                context = racing_context(seed=1, nodes=NODES, features=FEATURES, options={"variant": values})
                (workload,) = [workload for workload in RACING if workload.name in asked]
                assert {race.variant for race in workload.races(context)} == set(values.split(","))
            if name == "only":
                assert set(values.split(",")) <= {workload.name for workload in RACING}


def test_the_example_never_asks_for_what_it_does_not_require(example: dict[str, Any]) -> None:
    workload = made(example, "NewColumn")
    context = racing_context(seed=1, nodes=NODES)
    stated = {
        step.f
        for phase in ("setup", "main")
        for worker in workload.crew(context)
        for step in workload.steps(phase, worker, context, phase_label="")
        if isinstance(step, Invoke)
    }
    assert stated == {"create-keyspace", "create-table", "add-column", "insert"}
