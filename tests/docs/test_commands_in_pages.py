"""Every `schemaquake …` of the pages is one that the command line takes, about things that exist."""

from __future__ import annotations

import shlex
from typing import Any

import pages
import pytest
import typer

from schemaquake.clusters.docker.provider import OPTIONS as OF_CONTAINERS
from schemaquake.clusters.simulated.aims import OPTIONS as STRIKES
from schemaquake.clusters.simulated.provider import OPTIONS
from schemaquake.clusters.simulated.provider import OPTIONS as OF_SIMULATIONS
from schemaquake.clusters.systems.system import parse_system, recipe_for
from schemaquake.harness.cli.command_line import application
from schemaquake.harness.cli.commands import _KINDS
from schemaquake.harness.cli.examples import read_examples
from schemaquake.harness.model.options import declared
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Context
from schemaquake.harness.registry import load, names
from schemaquake.nemeses.schedule.options import configured
from schemaquake.results.matrix.matrix_plan import Condition
from schemaquake.results.runs.cluster_choice import usual_cluster
from schemaquake.results.runs.option_lists import with_shorthands

README = "../README.md"
COMMANDS = [
    pytest.param(page, argv, id=f"{page}: {' '.join(argv)}")
    for page in [README, *pages.pages()]
    for argv in pages.commands(page)
]
# The examples of --help name what exists, too.
COMMANDS += [
    pytest.param(README, shlex.split(line.partition(" > ")[0])[1:], id=f"--help: {line}")
    for command in typer.main.get_command(application()).commands.values()  # type: ignore[attr-defined]  # it is a group
    for line in (read_examples(command.epilog) or ((), ""))[0]
]
OF_SEVERAL = {
    each.name
    for kind in ("workloads", "nemeses")
    for name in names(kind)
    if (options := getattr(load(kind, name), "options", None)) is not None
    for each in declared(options)
}
"""Options of no single nemesis."""

ALWAYS_SIMULATED = {"simulate", "swarm", "explore"}
THE_SERVER_S_OWN = {
    "hinted_handoff_enabled",
    "internode_tcp_user_timeout",
    "cas_contention_timeout_in_ms",
    "stream_throughput_outbound",
    "entire_sstable_stream_throughput_outbound",
}
"""Settings that no recipe has and that servers were seen to take."""


@pytest.fixture(scope="module")
def command_line() -> Any:
    return typer.main.get_command(application())


def parsed(command_line: Any, argv: list[str]) -> dict[str, Any]:
    """What the command would be called with; nothing is called. Raises typer's own errors."""
    context = typer.Context(command_line, info_name="schemaquake")
    command = command_line.get_command(context, argv[0])
    assert command is not None, f"there is no command {argv[0]!r}"
    said = dict(command.make_context(argv[0], argv[1:], parent=context).params)
    systems = [said["system"]] if isinstance(said.get("system"), str) else said.get("system")
    if "cluster" in said and said["cluster"] is None and systems:
        said["cluster"] = usual_cluster(systems)
    return said


@pytest.mark.parametrize(("page", "argv"), COMMANDS)
def test_a_command_is_taken_and_what_it_names_exists(command_line: Any, page: str, argv: list[str]) -> None:
    said = parsed(command_line, argv)
    ours = pages.example_names(page)
    for option, kind in (("workload", "workloads"), ("nemesis", "nemeses"), ("checker", "checkers")):
        told = said.get(option) or []
        asked = {name for text in ([told] if isinstance(told, str) else told) for name in text.split(",")}
        if argv[0] == "matrix":  # the nemeses of a matrix may have options behind colons, which its plan reads
            asked = {part for name in asked for part in Condition("barrier", (name,)).names}
        assert asked - ours - {"none"} <= set(names(kind))
    for system in [said["system"]] if isinstance(said.get("system"), str) else said.get("system") or []:
        assert (
            said.get("cluster") == "simulated" or argv[0] in ALWAYS_SIMULATED or recipe_for(parse_system(system)).name
        )
        assert parse_system(system).features
    assert said.get("kind", "workloads") in _KINDS


@pytest.mark.parametrize(("page", "argv"), [each for each in COMMANDS if each.values[1][0] == "run"])
def test_a_run_is_a_plan_whose_options_somebody_reads(command_line: Any, page: str, argv: list[str]) -> None:
    said = parsed(command_line, argv)
    given = dict(entry.split("=", 1) for entry in said["option"] or [])
    shorthands = {name.replace("_", "-"): said[name] for name in ("mode", "races", "first_race", "until_poisoned")}
    own = pages.example_names(page) & set(said["workload"].split(","))
    options = given if own else with_shorthands(said["workload"].split(","), given, shorthands)
    plan = Plan(
        system=said["system"] or "told:1.0 by the cluster file",
        workloads=tuple(said["workload"].split(",")),
        nemeses=() if said["nemesis"] == "none" else tuple(said["nemesis"].split(",")),
        nodes=said["nodes"] or 3,
        restart=said["restart"],
        time_limit_s=said["time_limit"],
        options=options,
    )
    if not own and "scenario" not in plan.workloads:  # its file is one that the page has made before
        plan.check_options()
    context = Context(seed=1, nodes=plan.node_names, options=options)
    for option in given:
        nemesis, dot, _ = option.partition(".")
        if not dot:
            assert option in OF_SEVERAL or option in {"docker": OF_CONTAINERS, "simulated": OF_SIMULATIONS}.get(
                said["cluster"], {}
            )
        elif nemesis == "yaml":
            # The local cluster's own: a setting that the recipe of that system has, too, or the page would guess.
            system = parse_system(said["system"])
            everything = recipe_for(system, wanted=recipe_for(system).features)
            known = {*everything.yaml, *THE_SERVER_S_OWN}
            assert option.removeprefix("yaml.") in known
        elif said["cluster"] == "simulated" and option in STRIKES:
            continue
        elif said["cluster"] == "simulated" and nemesis == "cms":
            assert option in OPTIONS
        elif nemesis == "property":
            assert option.removeprefix("property.").startswith("cassandra.")
        elif nemesis not in pages.example_names(page):
            assert nemesis in plan.nemeses
            configured(load("nemeses", nemesis), context)


@pytest.mark.parametrize("page", [page for page in [README, *pages.pages()] if pages.mentions(page)])
def test_a_command_named_in_a_sentence_exists_with_the_options_it_is_named_with(command_line: Any, page: str) -> None:
    for name, *words in pages.mentions(page):
        if name in {"--help", "--version"}:
            continue
        known = {option for parameter in command_line.commands[name].params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= known


def test_there_are_commands_to_look_at() -> None:
    told = {argv[0] for page in pages.pages() for argv in pages.commands(page)}
    assert told >= {"run", "matrix", "check", "list", "fetch", "heal"}
