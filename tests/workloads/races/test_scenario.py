"""Races that are written down, and run as they stand."""

from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from crew_at_work import FEATURES, carry_out
from perfect_cluster import PerfectCluster
from racing_context import racing_context

from schemaquake.harness.ddl.schema_changes import create_keyspace
from schemaquake.harness.errors import NotApplicable, PlanError
from schemaquake.harness.model.steps import Invoke, Note, Require, Wait
from schemaquake.harness.registry import load, names
from schemaquake.workloads.races.impossible import without_vain_probes
from schemaquake.workloads.races.scenario import Scenario, in_keyspace
from schemaquake.workloads.races.scenario_file import ScenarioFile, race_from_json, race_to_json

NODES = ("n1", "n2", "n3")
KINDS = [name for name in names("workloads") if callable(getattr(load("workloads", name), "race", None))]


def context(path=None, **changes):
    options = {} if path is None else {"scenario": str(path)}
    values = {"seed": 1, "nodes": NODES, "features": FEATURES, "races": 2, "options": options}
    return racing_context(**{**values, **changes})


def races_of(kind, count=3):
    return load("workloads", kind).races(context(races=count))


def written(tmp_path, races, requires=()):
    path = tmp_path / "scenario.json"
    path.write_bytes(orjson.dumps(ScenarioFile(tuple(races), frozenset(requires)).to_json()))
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_every_race_of_every_kind_is_read_back_as_it_was(kind):
    for race in races_of(kind, 14):
        assert race_from_json(orjson.loads(orjson.dumps(race_to_json(race)))) == in_keyspace(
            race, race.keyspace, race.number
        )


@pytest.mark.parametrize("kind", KINDS)
def test_a_race_of_a_file_asks_for_what_the_race_of_the_workload_asked_for(kind, tmp_path):
    race = races_of(kind, 1)[0]
    path = written(tmp_path, [race])
    for phase in ("setup", "prepare", "main", "probe", "final"):
        mine = carry_out(Scenario(), phase, context(path, races=1))
        its = carry_out(load("workloads", kind), phase, context(races=1))
        assert [_asked(one, race.keyspace, "sq_scenario_000") for one in its] == [_asked(one, "", "") for one in mine]


def _asked(done, before, after):
    """What one worker did, with the keyspace renamed and what a note says of the race left out."""
    step = done.step.invoke if isinstance(done.step, Require) else done.step
    if isinstance(step, Note):
        return done.worker, "note"
    if isinstance(step, Invoke):
        told = orjson.dumps([step.f, step.key, step.value]).decode()
        return done.worker, told.replace(before, after) if before else told
    return done.worker, type(step).__name__


def test_each_repeat_has_keyspaces_of_its_own_and_numbers_that_meet_in_the_same_order(tmp_path):
    races = [*races_of("drop-type"), *races_of("add-columns")]
    path = written(tmp_path, races)
    made = Scenario().races(context(path, races=3, first_race=1))
    assert [race.keyspace for race in made] == [f"sq_scenario_{n:03d}" for n in range(6, 24)]
    assert [race.number % 7 for race in made] == 3 * [race.number % 7 for race in races]
    assert len({(race.workload, race.number) for race in made}) == len(made)
    everything = orjson.dumps([race_to_json(race) for race in made]).decode()
    assert "sq_drop_type" not in everything
    assert "sq_add_columns" not in everything


def test_a_side_may_wait(tmp_path):
    race = races_of("drop-type", 1)[0]
    document = race_to_json(race)
    document["sides"][1].insert(0, {"wait": 0.2})
    path = tmp_path / "scenario.json"
    path.write_bytes(orjson.dumps({"races": [document]}))
    (made,) = Scenario().races(context(path, races=1))
    assert made.sides[1][0] == Wait(0.2)


def test_a_system_that_lacks_what_a_scenario_needs_is_no_failure(tmp_path):
    path = written(tmp_path, races_of("drop-type", 1), requires=["types"])
    with pytest.raises(NotApplicable, match="no types"):
        Scenario().crew(context(path, features=FEATURES - {"types"}))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read"),
        (b"{", "no JSON"),
        (b"[]", "not a scenario"),
        (b'{"races": []}', "no races"),
        (b'{"races": [{"workload": "w"}]}', "KeyError"),
        (
            b'{"races": [{"workload": "w", "keyspace": "k", "setup": [{"f": "insert"}], "sides": []}]}',
            "no schema change",
        ),
        (
            (
                b'{"races": [{"workload": "w", "keyspace": "k", "sides": [], "setup": [{"f": "drop-keyspace", "value": '
                b'{"keyspace": "exists-- sq_x\\rprod"}}]}]}'
            ),
            "is no identifier",
        ),
        (
            b'{"races": [{"workload": "w", "keyspace": "k; DROP KEYSPACE l", "sides": [], "setup": []}]}',
            "is no identifier",
        ),
    ],
    ids=["missing", "torn", "a list", "empty", "half a race", "a row", "a name of two", "a keyspace of two"],
)
def test_what_is_no_scenario_is_told_with_its_file(tmp_path, content, said):
    path = tmp_path / "scenario.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PlanError, match=said) as refusal:
        Scenario().crew(context(path))
    assert str(path) in str(refusal.value)


def test_without_a_file_there_is_nothing_to_run():
    with pytest.raises(PlanError, match="-O scenario=PATH"):
        Scenario().crew(context())


def k_scenario(**changes):
    """A scenario whose keyspace has the name of a column, a field and a table."""
    race = {
        "workload": "by-hand",
        "variant": "",
        "number": 0,
        "keyspace": "k",
        "setup": [
            {"f": "create-type", "key": "k.u", "value": {"keyspace": "k", "name": "u", "fields": [["k", "int"]]}},
            {
                "f": "create-table",
                "key": "k.k",
                "value": {
                    "keyspace": "k",
                    "name": "k",
                    "columns": [
                        ["k", "int", "partition_key"],
                        ["v", "frozen<k.u>", "regular"],
                        ["k2", "list<k.u>", "regular"],
                    ],
                    "options": {"comment": "k"},
                },
            },
        ],
        "sides": [
            [{"f": "drop-column", "key": "k.k", "value": {"keyspace": "k", "name": "k", "column": "v"}}],
            [
                {
                    "f": "add-column",
                    "key": "k.k",
                    "value": {"keyspace": "k", "name": "k", "column": ["k3", "frozen<k.u>"]},
                }
            ],
        ],
        "tables": [{"table": "k", "row": [["v", {"k": 1}]]}],
    }
    return {"races": [{**race, **changes}]}


def test_names_move_by_their_role_and_not_by_their_text():
    (race,) = ScenarioFile.from_json(k_scenario()).races
    moved = in_keyspace(race, "sq_scenario_000", 0)
    kind, table = (step.value for step in moved.setup)
    assert kind == {"keyspace": "sq_scenario_000", "name": "u", "fields": [["k", "int"]]}
    assert table["columns"] == [
        ["k", "int", "partition_key"],
        ["v", "frozen<sq_scenario_000.u>", "regular"],
        ["k2", "list<sq_scenario_000.u>", "regular"],
    ]
    assert table["options"] == {"comment": "k"}
    (dropped,), (added,) = moved.sides
    assert dropped.value == {"keyspace": "sq_scenario_000", "name": "k", "column": "v"}
    assert added.value["column"] == ["k3", "frozen<sq_scenario_000.u>"]
    assert {step.key for step in (*moved.setup, dropped, added)} == {"sq_scenario_000.u", "sq_scenario_000.k"}
    assert moved.tables == race.tables


@pytest.mark.parametrize(
    "probe", [{"table": "x"}, {"table": "k", "row": [["w", 1]]}, {"table": "k", "key": "id"}, {"table": "u"}]
)
def test_rows_that_can_never_be_written_are_refused(probe):
    with pytest.raises(PlanError, match="can never be written"):
        ScenarioFile.from_json(k_scenario(tables=[probe]))


@pytest.mark.parametrize("probe", [{"table": "k", "row": [["k3", 1]]}, {"table": "k", "row": [["v", 1]]}])
def test_rows_that_some_outcome_lets_be_written_are_taken(probe):
    assert ScenarioFile.from_json(k_scenario(tables=[probe])).races[0].tables[0].table == "k"


# ── names that are equal across roles, quoted, nested ────────────────────────────────────────────────────────────────


def moved(change):
    """One statement of keyspace `k`, in keyspace `new`."""
    race = race_from_json({"workload": "by-hand", "keyspace": "k", "setup": [change], "sides": []})
    return in_keyspace(race, "new", 0).setup[0]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("frozen<k.u>", "frozen<new.u>"),
        ("map<text, frozen<map<int, frozen<k.u>>>>", "map<text, frozen<map<int, frozen<new.u>>>>"),
        ("tuple<k.u, k, k.k>", "tuple<new.u, k, new.k>"),
        ('frozen<"k"."u">', 'frozen<new."u">'),
        ('frozen<K."U">', 'frozen<new."U">'),
        ('frozen<"K".u>', 'frozen<"K".u>'),
        ("frozen<k . u>", "frozen<new . u>"),
        ("frozen<other.k>", "frozen<other.k>"),
        ("frozen<kk.u>", "frozen<kk.u>"),
        ("'org.k.Type'", "'org.k.Type'"),
        ("'k.Type'", "'k.Type'"),
        ("vector<k.u, 3>", "vector<new.u, 3>"),
        ("k", "k"),
    ],
)
def test_a_keyspace_moves_where_it_qualifies_a_type(written, meant):
    value = {"keyspace": "k", "name": "k", "columns": [["k", "int", "partition_key"], ["k.k", written, "regular"]]}
    change = moved({"f": "create-table", "key": "k.k", "value": value})
    assert change.value["columns"] == [["k", "int", "partition_key"], ["k.k", meant, "regular"]]
    assert (change.key, change.value["name"]) == ("new.k", "k")
    added = moved({"f": "add-column", "key": "k.k", "value": {"keyspace": "k", "name": "k", "column": ["k", written]}})
    assert added.value["column"] == ["k", meant]


def test_functions_and_aggregates_move_with_their_types():
    function = moved(
        {
            "f": "create-function",
            "key": "k.k",
            "value": {
                "keyspace": "k",
                "name": "k",
                "arguments": [["k", "frozen<k.u>"], ["value", "int"]],
                "returns": "frozen<k.u>",
                "body": "return k.u;",
            },
        }
    )
    assert function.value["arguments"] == [["k", "frozen<new.u>"], ["value", "int"]]
    assert (function.value["returns"], function.value["body"]) == ("frozen<new.u>", "return k.u;")
    aggregate = moved(
        {
            "f": "create-aggregate",
            "key": "k.g",
            "value": {
                "keyspace": "k",
                "name": "g",
                "arguments": ["frozen<k.u>", "int"],
                "state_function": "k.k",
                "state_type": "k.u",
                "final_function": None,
            },
        }
    )
    assert aggregate.value["arguments"] == ["frozen<new.u>", "int"]
    assert (aggregate.value["state_function"], aggregate.value["state_type"]) == ("new.k", "new.u")


@pytest.mark.parametrize("own", ["k", "K", '"k"'])
def test_a_keyspace_is_one_however_it_is_spelled(own):
    change = moved({"f": "drop-table", "key": f"{own}.t", "value": {"keyspace": own, "name": "t"}})
    assert (change.value["keyspace"], change.key) == ("new", "new.t")


@pytest.mark.parametrize("other", ['"K"', "kk", "k2"])
def test_another_keyspace_stays(other):
    change = moved({"f": "drop-table", "key": f"{other}.t", "value": {"keyspace": other, "name": "t"}})
    assert (change.value["keyspace"], change.key) == (other, f"{other}.t")


def test_parts_that_are_named_as_the_keyspace_stay():
    renamed = moved(
        {"f": "rename-column", "key": "k.k", "value": {"keyspace": "k", "name": "k", "column": "k", "to": "k2"}}
    )
    assert renamed.value == {"keyspace": "new", "name": "k", "column": "k", "to": "k2"}
    index = moved(
        {"f": "create-index", "key": "k.k", "value": {"keyspace": "k", "name": "k", "table": "k", "column": "k"}}
    )
    assert index.value == {"keyspace": "new", "name": "k", "table": "k", "column": "k"}


def table_of(*columns):
    value = {"keyspace": "k", "name": "T", "columns": [list(column) for column in columns]}
    return {"f": "create-table", "key": "k.t", "value": value}


WIDE = table_of(("K", "int", "partition_key"), ("q", "int", "clustering"), ("V", "text", "regular"))
COUNTS = table_of(("k", "int", "partition_key"), ("v", "counter", "regular"))


@pytest.mark.parametrize(
    ("setup", "probe", "taken"),
    [
        (WIDE, {"table": "t", "row": [["q", 0], ["v", "a"]]}, True),
        (WIDE, {"table": '"t"', "row": [['"q"', 0], ['"v"', "a"]]}, True),
        (WIDE, {"table": '"T"', "row": [["q", 0], ["v", "a"]]}, False),
        (WIDE, {"table": "t", "row": [["v", "a"]]}, False),
        (WIDE, {"table": "t", "row": [["q", 0], ['"V"', "a"]]}, False),
        (COUNTS, {"table": "t", "row": [["v", 1]]}, False),
    ],
    ids=["plain", "quoted", "another table", "no clustering column", "another column", "counters"],
)
def test_rows_need_the_table_s_own_names_and_its_whole_key(setup, probe, taken):
    document = k_scenario(setup=[setup], sides=[], tables=[probe])
    if taken:
        assert ScenarioFile.from_json(document).races[0].tables[0].table == probe["table"]
    else:
        with pytest.raises(PlanError, match="can never be written"):
            ScenarioFile.from_json(document)


def test_a_cell_of_the_grid_is_a_scenario_with_its_rows_and_lookups():
    from schemaquake.workloads.races.grid import Grid  # noqa: PLC0415 - its cells are generated

    cells = "drop-column/insert-at-one/names-column,create-index/insert-at-quorum/*,drop-view/read-view/*,drop-table/truncate-table/*"
    races = Grid().races(context(races=1, options={"cells": cells}, features=FEATURES | {"cql"}))
    assert any(race.lookups for race in races)
    for race in races:
        again = ScenarioFile.from_json(orjson.loads(orjson.dumps({"races": [race_to_json(race)]}))).races[0]
        assert again == in_keyspace(race, race.keyspace, race.number)
        assert again.lookups == race.lookups
        elsewhere = in_keyspace(again, "new", 0)
        steps = [step for side in elsewhere.sides for step in side if isinstance(step, Invoke)]
        assert {step.value["keyspace"] for step in steps} == {"new"}


def test_the_page_s_own_example_can_be_run():
    page = (Path(__file__).parents[3] / "docs" / "workloads.md").read_text()
    example = page.partition("## scenario")[2].partition("```json")[2].partition("```")[0]
    (race,) = ScenarioFile.from_json(orjson.loads(example)).races
    here = in_keyspace(race, "sq_scenario_000", 0)
    cluster = PerfectCluster()
    changes = [create_keyspace("sq_scenario_000", replication_factor=3), *here.setup, here.sides[1][0]]
    assert all(cluster.apply(change) for change in changes)
    assert here.sides[1][0].value["column"] == ["c", "frozen<sq_scenario_000.u>"]


# ── mistakes of a hand, each of which would lose statements or evidence without a word ───────────────────────────────


def add(column, cql_type="int", **changes):
    value = {"keyspace": "k", "name": "t", "column": [column, cql_type]}
    return {"f": "add-column", "key": "k.t", "value": {**value, **changes}}


def by_hand(**changes):
    """A scenario of one table, to which two sides add columns."""
    setup = [table_of(("k", "int", "partition_key"), ("v", "text", "regular"))]
    setup[0]["value"]["name"] = "t"
    race = {"workload": "by-hand", "keyspace": "k", "setup": setup, "sides": [[add("c")], [add("d")]]}
    return {"races": [{**race, "tables": [{"table": "t"}], **changes}]}


BARE = {"keyspace": "k", "name": "t"}
MISTAKES = {
    "a part of the file": {**by_hand(), "require": ["views"]},
    "features that are no list": {**by_hand(), "requires": "tables"},
    "a part of the race": by_hand(lookup=[]),
    "a part of rows": by_hand(tables=[{"table": "t", "phase": ["settled"]}]),
    "a part of a lookup": by_hand(lookups=[{"table": "t", "column": "v", "value": "a", "view": "w"}]),
    "a part of an operation": by_hand(sides=[[{**add("c"), "values": 1}]]),
    "a part of a statement": by_hand(sides=[[{"f": "drop-table", "value": {**BARE, "if_exist": True}}]]),
    "a statement without a part": by_hand(sides=[[{"f": "add-column", "value": BARE}]]),
    "a table without columns": by_hand(setup=[{"f": "create-table", "value": BARE}]),
    "a table without a key": by_hand(
        setup=[{"f": "create-table", "value": {**BARE, "columns": [["k", "int", "regular"]]}}]
    ),
    "a kind of column": by_hand(setup=[table_of(("k", "int", "partition_key"), ("v", "text", "normal"))]),
    "a column without a kind": by_hand(setup=[table_of(("k", "int"))]),
    "the key of another object": by_hand(sides=[[{**add("c"), "key": "k.other"}]]),
    "another keyspace": by_hand(sides=[[{**add("c", keyspace="prod"), "key": None}]]),
    "a wait before now": by_hand(sides=[[{"wait": -1}]]),
    "a wait without an end": by_hand(sides=[[{"wait": float("inf")}]]),
    "a number below 0": by_hand(number=-1),
    "a number that nothing holds": by_hand(number=10**30),
    "half a number": by_hand(number=0.5),
    "a disturbance that is none": by_hand(disturbance=9),
    "no rows": by_hand(tables=[{"table": "t", "rows": 0}]),
    "a side below 0": by_hand(tables=[{"table": "t", "side": -1}]),
    "rows of a side that is not there": by_hand(tables=[{"table": "t", "side": 2, "phases": ["racing"]}]),
    "rows before there is a table": by_hand(
        setup=[], sides=[[by_hand()["races"][0]["setup"][0]]], tables=[{"table": "t", "phases": ["prepared"]}]
    ),
    "a number as a text": by_hand(tables=[{"table": "t", "row": [["v", 7]]}]),
    "a text as a number": by_hand(tables=[{"table": "t", "row": [["v", "a"], ["c", "seven"]]}]),
    "a lookup by nothing": by_hand(lookups=[{"table": "t", "column": "v", "value": "a"}]),
    "a lookup by no index": by_hand(lookups=[{"table": "t", "column": "v", "value": "a", "index": "i"}]),
    "a lookup in no view": by_hand(lookups=[{"table": "w", "column": "v", "value": "a", "base": "t"}]),
}


@pytest.mark.parametrize("document", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_a_file_is_refused_before_anything_runs(document):
    with pytest.raises(PlanError):
        ScenarioFile.from_json(document)


INDEX = {"f": "create-index", "value": {"keyspace": "k", "name": "i", "table": "t", "column": "v"}}
VIEW = {"f": "create-view", "value": {"keyspace": "k", "name": "w", "base": "t", "primary_key": ["v", "k"]}}
ON_KEYS = {"f": "create-index", "value": {"keyspace": "k", "name": "i", "table": "t", "column": "keys(m)"}}
LEGAL = {
    "as it is": by_hand(),
    "a side that only waits": by_hand(sides=[[{"wait": 0}], [add("c")]]),
    "rows of another type by another side": by_hand(
        sides=[[add("c")], [add("c", "text")]],
        tables=[{"table": "t", "row": [["c", 7]], "side": 0}, {"table": "t", "row": [["c", "seven"]], "side": 1}],
    ),
    "rows of a table that a side makes": by_hand(
        setup=[], sides=[[by_hand()["races"][0]["setup"][0]]], tables=[{"table": "t"}]
    ),
    "null": by_hand(tables=[{"table": "t", "row": [["v", None]]}]),
    "an index": by_hand(sides=[[INDEX]], lookups=[{"table": "t", "column": "v", "value": "a row", "index": "I"}]),
    "an index on a part": by_hand(
        sides=[[add("m", "map<int, int>")], [ON_KEYS]],
        lookups=[{"table": "t", "column": "m", "value": 7, "index": "i"}],
    ),
    "a view": by_hand(sides=[[VIEW]], lookups=[{"table": "w", "column": "v", "value": "a row", "base": "t"}]),
}


@pytest.mark.parametrize("document", LEGAL.values(), ids=LEGAL)
def test_what_some_outcome_lets_succeed_is_taken(document):
    (race,) = ScenarioFile.from_json(document).races
    assert without_vain_probes(race) == race


def test_checkers_know_an_object_whose_key_is_left_out():
    (race,) = ScenarioFile.from_json(by_hand(sides=[[INDEX], [{**add("c"), "key": None}]])).races
    assert [side[0].key for side in race.sides] == ["k.i", "k.t"]


def test_a_lookup_goes_with_the_statement_that_makes_its_index():
    (race,) = ScenarioFile.from_json(LEGAL["an index"]).races
    assert without_vain_probes(replace(race, sides=())).lookups == ()


def test_a_side_that_no_coordinator_would_carry_out_is_refused(tmp_path):
    path = tmp_path / "scenario.json"
    path.write_bytes(orjson.dumps(by_hand(sides=[[add(name)] for name in "abcd"])))
    with pytest.raises(PlanError, match="4 sides"):
        Scenario().crew(context(path))
    assert Scenario().crew(context(path, nodes=("n1", "n2", "n3", "n4")))
    assert Scenario().crew(context(path, options={"scenario": str(path), "mode": "single"}))
