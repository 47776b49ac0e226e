"""The plan: what no run could mean is rejected by name, and a plan survives its file and its own command line."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import orjson
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemaquake.harness.cli.command_line import application
from schemaquake.harness.errors import ExitCode, HistoryError, PlanError
from schemaquake.harness.model.plan import Plan

PLAN = Plan(system="cassandra:5.0.9", workloads=("create-table",))

RECORDED_RUN = Path(__file__).parents[2] / "docs/recorded_run"

REJECTED = [
    ("no node", {"nodes": 0}, "--nodes must be at least 1, not 0"),
    ("more nodes than addresses", {"nodes": 251}, "--nodes must be at most 250, not 251"),
    ("time before the start", {"time_limit_s": -1.0}, "--time-limit must be at least 0, not -1"),
    ("settle before it began", {"settle_limit_s": -0.5}, "--settle-limit must be at least 0, not -0.5"),
    ("no time to start", {"start_timeout_s": 0.0}, "--start-timeout must be at least 1, not 0"),
    ("no time to answer", {"request_timeout_s": 0.0}, "--request-timeout must be at least 0.1, not 0"),
    ("a time that is no number", {"time_limit_s": math.nan}, "--time-limit must be a number, not nan"),
    ("a time without end", {"time_limit_s": math.inf}, "--time-limit must be a number, not inf"),
    ("a rate that is no number", {"rate": math.nan}, "--rate must be a number, not nan"),
    ("a seed that no file could hold", {"seed": 2**63}, "--seed must fit into 64 bits"),
    ("no workload", {"workloads": ()}, "no workload: name at least one with --workload"),
    ("a restart there is not", {"restart": "never"}, '--restart is "rolling", "together" or "none", not "never"'),
    ("more replicas than nodes", {"replication_factor": 4}, "--replication-factor must be between 1 and --nodes (3)"),
    ("no replica", {"replication_factor": 0}, "--replication-factor must be between 1 and --nodes (3), not 0"),
    ("a rate of nothing", {"rate": 0.0}, "--rate must be more than 0 operations a second, not 0"),
    ("nobody to work", {"concurrency": 0}, "--concurrency must be at least 1, not 0"),
    ("a keyspace that needs quotes", {"keyspace_prefix": "SQ"}, "--keyspace-prefix must be a lower-case identifier"),
    ("a keyspace of many letters", {"keyspace_prefix": "s" * 17}, "of at most 16 characters"),
    ("a keyspace that begins with a digit", {"keyspace_prefix": "1sq"}, 'not "1sq"'),
    ("a keyspace with a line's end", {"keyspace_prefix": "sq\n"}, "--keyspace-prefix must be"),
]


@pytest.mark.parametrize(
    ("changes", "sentence"), [pytest.param(changes, sentence, id=name) for name, changes, sentence in REJECTED]
)
def test_what_no_run_could_mean_is_rejected_by_name(changes, sentence):
    with pytest.raises(PlanError) as rejected:
        replace(PLAN, **changes)
    assert sentence in str(rejected.value)
    assert rejected.value.exit_code == ExitCode.BAD_ARGUMENTS


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes": 1},
        {"nodes": 250},
        {"time_limit_s": 0},
        {"settle_limit_s": 0},
        {"replication_factor": 3},
        {"keyspace_prefix": "s" * 16},
        {"rate": 0.001},
    ],
    ids=str,
)
def test_the_last_value_that_makes_sense_is_accepted(changes):
    assert replace(PLAN, **changes).node_names


def test_nodes_are_named_as_everybody_names_them():
    assert replace(PLAN, nodes=3).node_names == ("n1", "n2", "n3")


def test_context_has_a_replica_on_every_node_up_to_three():
    assert [replace(PLAN, nodes=n).context(frozenset()).replication_factor for n in (1, 2, 3, 5)] == [1, 2, 3, 3]
    assert replace(PLAN, nodes=5, replication_factor=5).context(frozenset()).replication_factor == 5


def test_one_worker_a_node_unless_said_otherwise():
    assert replace(PLAN, nodes=4).context(frozenset()).crew == 4
    assert replace(PLAN, concurrency=7).context(frozenset()).crew == 7


# ── every plan there may be ──────────────────────────────────────────────────────────────────────────────────────────

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True).filter(lambda name: name != "none")
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
SECONDS = st.floats(1, 1e6) | st.integers(1, 100_000).map(float)


@st.composite
def plans(draw):
    nodes = draw(st.integers(2, 9))
    nemeses = tuple(draw(st.lists(NAMES, max_size=3)))
    return Plan(
        system=draw(WORDS),
        workloads=tuple(draw(st.lists(NAMES, min_size=1, max_size=3))),
        cluster=draw(NAMES),
        nodes=nodes,
        nemeses=nemeses,
        seed=draw(st.integers(-(2**63), 2**63 - 1)),
        time_limit_s=draw(SECONDS),
        rate=draw(st.none() | st.floats(1e-6, 1e6)),
        concurrency=draw(st.none() | st.integers(1, 99)),
        replication_factor=draw(st.none() | st.integers(1, nodes)),
        keyspace_prefix=draw(st.from_regex(r"[a-z][a-z0-9_]{0,15}", fullmatch=True)),
        options=draw(st.dictionaries(WORDS.filter(lambda name: "=" not in name), WORDS, max_size=3)),
        request_timeout_s=draw(SECONDS),
        start_timeout_s=draw(SECONDS),
        settle_limit_s=draw(SECONDS),
        restart=draw(st.sampled_from(["rolling", "together", "none"])),
        keep_data=draw(st.booleans()),
        distribution=draw(st.none() | st.just(Path("some where/apache-cassandra-5.0.9-bin.tar.gz"))),
    )


@given(plan=plans() | plans().map(lambda plan: replace(plan, cluster_file=Path("of theirs/cluster.toml"))))
@settings(deadline=None)
def test_a_plan_read_back_from_its_json_is_the_plan(plan):
    assert Plan.from_json(orjson.loads(orjson.dumps(plan.to_json()))) == plan


@given(plan=plans())
@settings(deadline=None, max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])
def test_the_command_line_of_a_plan_gives_the_plan_again(plan):
    argv = plan.command_line()
    assert argv[:2] == ["schemaquake", "run"]
    assert _plan_that_would_be_carried_out(argv[1:]) == plan


SHORTHANDS = {
    "mode": st.sampled_from(["barrier", "partition", "single"]),
    "races": st.integers(1, 1000).map(str),
    "first-race": st.integers(0, 10_000).map(str),
    "until-poisoned": st.just("true"),
}


@given(options=st.fixed_dictionaries({}, optional=SHORTHANDS))
@settings(deadline=None, max_examples=examples(30))
def test_options_that_the_command_line_names_itself_are_written_so_and_read_back(options):
    plan = replace(PLAN, options={**options, "variant": "same"})
    argv = plan.command_line()
    assert {f"--{name}" for name in options} <= set(argv)
    assert argv.count("-O") == 1
    assert _plan_that_would_be_carried_out(argv[1:]) == plan


def test_options_of_a_workload_that_is_not_installed_are_written_in_full():
    plan = replace(PLAN, workloads=("elsewhere",), options={"mode": "partition"})
    assert plan.command_line()[-2:] == ["-O", "mode=partition"]


def test_the_command_says_only_what_differs_from_the_defaults():
    assert PLAN.command() == (
        "schemaquake run --system cassandra:5.0.9 --workload create-table --nemesis none --seed 1"
    )
    plan = replace(PLAN, nemeses=("kill", "pause"), time_limit_s=1.5, options={"who": "one of us", "races": "25"})
    assert plan.command() == (
        "schemaquake run --system cassandra:5.0.9 --workload create-table --nemesis kill,pause --seed 1 "
        "--races 25 --time-limit 1.5 -O 'who=one of us'"
    )


def test_the_command_of_a_deployed_cluster_names_its_file_and_gives_the_plan_again(tmp_path):
    path = tmp_path / "cluster.toml"
    nodes = "".join(f'[[nodes]]\naddress = "10.0.0.{number}"\n' for number in range(1, 6))
    path.write_text(f'provider = "ssh"\nkeyspace_prefix = "quake"\nsystem = "cassandra:4.1.7"\n{nodes}')
    plan = replace(
        PLAN,
        system="cassandra:4.1.7",
        cluster="ssh",
        cluster_file=path,
        nodes=5,
        keyspace_prefix="quake",
        concurrency=9,
    )
    assert f"--cluster {path}" in plan.command()
    assert "--cluster ssh" not in plan.command()
    assert _plan_that_would_be_carried_out(plan.command_line()[1:]) == plan
    typed = ["run", "--cluster", str(path), "--workload", "create-table", "--seed", "1", "--concurrency", "9"]
    assert _plan_that_would_be_carried_out(typed) == plan, "the file says the rest"


schemaquake = cache(application)


class _CarriedOut(Exception):
    """Not an error: it takes the plan out of the command."""

    def __init__(self, plan):
        super().__init__()
        self.plan = plan


def _plan_that_would_be_carried_out(argv):
    """What `schemaquake run` makes of its arguments, caught at the moment it would begin."""

    def carry_out(plan, *_, **__):
        raise _CarriedOut(plan)

    execution = ModuleType("schemaquake.results.runs.execution")
    execution.carry_out = carry_out
    execution.print_summary = None
    execution.tell_on = lambda *_: None
    command = schemaquake()  # before anything is replaced: some commands import the real one
    before = sys.modules.get(execution.__name__)
    sys.modules[execution.__name__] = execution
    try:
        # Drawn names and options are no plugin's: what is refused has tests of its own.
        with (
            patch("schemaquake.results.commands.refuse_undeclared"),
            patch("schemaquake.harness.run.applicability.refuse_inapplicable"),
            pytest.raises(_CarriedOut) as caught,
        ):
            command(argv, standalone_mode=False)
    finally:
        if before is None:
            del sys.modules[execution.__name__]
        else:
            sys.modules[execution.__name__] = before
    return caught.value.plan


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_field_that_no_plan_has_is_refused():
    with pytest.raises(PlanError, match="fields this version does not know: colour, smell"):
        Plan.from_json({**PLAN.to_json(), "smell": 1, "colour": 2})


def test_a_plan_without_its_system_is_refused():
    document = PLAN.to_json()
    del document["system"]
    with pytest.raises(PlanError, match="the plan lacks: system"):
        Plan.from_json(document)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(None, "is not a run's folder: it has no plan.json"), ("{", "is damaged"), ("[1]", "is damaged"), ("", "damaged")],
    ids=["missing", "cut short", "not an object", "empty"],
)
def test_a_folder_without_a_readable_plan_says_so(tmp_path, content, sentence):
    if content is not None:
        (tmp_path / "plan.json").write_text(content)
    with pytest.raises(HistoryError, match=sentence):
        Plan.read(tmp_path)


def test_a_plan_is_read_from_its_folder(tmp_path):
    (tmp_path / "plan.json").write_bytes(orjson.dumps(PLAN.to_json()))
    assert Plan.read(tmp_path) == PLAN


# ── plans of 0.1 ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_plan_of_0_1_is_read_with_its_racing_fields_as_options():
    plan = Plan.read(RECORDED_RUN)
    assert (plan.workloads, plan.restart) == (("drop-type", "drop-alter", "drop-keyspace"), "together")
    assert plan.options == {"races": "3"}, "what had its default of 0.1 is left out"
    assert "--races 3" in plan.command()
    assert Plan.from_json(plan.to_json()) == plan
    plan.check_options()


def test_every_racing_field_of_0_1_becomes_an_option():
    document = {**PLAN.to_json(), "options": {"variant": "same"}}
    document |= {"mode": "partition", "races": 7, "first_race": 4, "until_poisoned": True}
    assert Plan.from_json(document).options == {
        "variant": "same", "mode": "partition", "races": "7", "first-race": "4", "until-poisoned": "true"
    }  # fmt: skip


# ── options of workloads ─────────────────────────────────────────────────────────────────────────────────────────────

REFUSED = [
    ("no race", {"options": {"races": "0"}}, "--races 0: the number of races"),
    ("a mode there is not", {"options": {"mode": "chaos"}}, '--mode chaos: "barrier"'),
    ("a cut through one node", {"options": {"mode": "partition"}, "nodes": 1}, "needs at least two nodes"),
    ("races before the first", {"options": {"first-race": "-1"}}, "--first-race -1"),
    ("poison that is half true", {"options": {"until-poisoned": "half"}}, "--until-poisoned half: true"),
    ("poison across a cut", {"options": {"until-poisoned": "true", "mode": "partition"}}, "leave out --nemesis"),
    ("poison under faults", {"options": {"until-poisoned": "true"}, "nemeses": ("kill",)}, "leave out --nemesis"),
    ("several in single file", {"options": {"mode": "single"}, "workloads": ("drop-type", "alter-type")}, "give one"),
    (
        "churn in company",
        {"options": {"mode": "single"}, "workloads": ("schema-churn", "set", "drop-type")},
        "give one",
    ),
    ("an unknown kind", {"options": {"only": "drop-tpye"}, "workloads": ("racing-ddl",)}, "no racing workload"),
    ("a scenario without a file", {"workloads": ("scenario",)}, "-O scenario=PATH"),
]


@pytest.mark.parametrize(
    ("changes", "sentence"), [pytest.param(changes, sentence, id=name) for name, changes, sentence in REFUSED]
)
def test_options_that_fit_no_run_of_their_workload_are_refused_before_anything_is_started(changes, sentence):
    with pytest.raises(PlanError) as refused:
        replace(PLAN, **changes).check_options()
    assert sentence in str(refused.value)
    assert refused.value.exit_code == ExitCode.BAD_ARGUMENTS


def test_workloads_of_data_may_go_on_beside_a_single_client_that_changes_the_schema():
    for workloads in (("schema-churn", "set"), ("append", "drop-type")):
        replace(PLAN, workloads=workloads, options={"mode": "single"}).check_options()


def test_options_at_their_limits_are_accepted():
    replace(PLAN, nodes=2, options={"mode": "partition", "races": "1", "first-race": "0"}).check_options()
