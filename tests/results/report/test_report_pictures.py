"""Pictures: lanes, scenes and the overview put things where they happened, and say what they do not know."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_run import FORGOTTEN_RACE, PLAN, broken_run, held_run, keyspace_of_race

from schemaquake.harness.model.records import OBSERVATIONS
from schemaquake.harness.model.verdict import Verdict
from schemaquake.results.report.axis import Axis
from schemaquake.results.report.charts import POINTS_DRAWN, chart_data
from schemaquake.results.report.lanes import ObjectLanes, object_lanes
from schemaquake.results.report.material import Material
from schemaquake.results.report.overview import disagreement_s, draw_overview
from schemaquake.results.report.scene import (
    CHARACTER,
    FINAL_LEFT,
    FINAL_WIDTH,
    PLOT_LEFT,
    PLOT_RIGHT,
    SCENES_DRAWN,
    Marker,
    Scene,
    Segment,
    draw_scenes,
    legible,
)


def saw(*rows: tuple[float, str, str, str, str | None, str | None, str | None]) -> Material:
    """A run of (seconds, phase, node, kind, name, id, definition or error); a `version` says that the node answered."""
    observations = [
        {
            "time": int(at * 1e9), "phase": phase, "node": node, "sample": 1, "kind": kind,
            "keyspace": None if kind == "version" else "k", "name": name, "id": identity,
            "definition": None if definition == "error" else definition,
            "error": "NoHostAvailable" if definition == "error" else None,
        }
        for at, phase, node, kind, name, identity, definition in rows
    ]  # fmt: skip
    return Material(
        run="r",
        plan=PLAN,
        verdict=Verdict(valid=True, checker="all"),
        observations=pa.Table.from_pylist(observations, schema=OBSERVATIONS),
    )


def answered(at: float, phase: str, node: str, version: str = "v") -> tuple[float, str, str, str, None, str, str]:
    return at, phase, node, "version", None, version, "{}"


def table(
    at: float, phase: str, node: str, identity: str, definition: str | None = "{}"
) -> tuple[float, str, str, str, str, str, str | None]:
    return at, phase, node, "table", "t", identity, definition


def finals(lanes: ObjectLanes, reading: str) -> dict[str, str]:
    return {lane.node: lane.final[reading].presence for lane in lanes.lanes if reading in lane.final}  # type: ignore[index]


# ── lanes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_two_ids_of_one_table_are_two_states():
    (lanes,) = object_lanes(
        saw(
            answered(1, "settled", "n1"),
            answered(1, "settled", "n2"),
            table(1, "settled", "n1", "aa"),
            table(1, "settled", "n2", "bb"),
        ),
        "k",
    )
    assert [state.id for state in lanes.states()] == ["aa", "bb"]
    assert not lanes.agrees("settled")
    assert lanes.diverges()


def test_one_definition_written_in_another_order_is_one_state():
    (lanes,) = object_lanes(
        saw(
            answered(1, "settled", "n1"),
            answered(1, "settled", "n2"),
            table(1, "settled", "n1", "aa", '{"options":{"a":1,"b":2},"columns":{}}'),
            table(1, "settled", "n2", "aa", '{"columns":{},"options":{"b":2,"a":1}}'),
        ),
        "k",
    )
    assert len(lanes.states()) == 1
    assert lanes.agrees("settled")


def test_what_a_complete_reading_lacks_is_absent():
    (lanes,) = object_lanes(
        saw(answered(1, "settled", "n1"), answered(1, "settled", "n2"), table(1, "settled", "n1", "aa")), "k"
    )
    assert finals(lanes, "settled") == {"n1": "present", "n2": "absent"}
    assert not lanes.agrees("settled")


def test_a_node_that_could_not_be_read_is_not_drawn_as_empty():
    material = saw(
        answered(1, "settled", "n1"),
        (1, "settled", "n2", "version", None, None, "error"),
        table(1, "settled", "n1", "aa"),
    )
    (lanes,) = object_lanes(material, "k")
    assert finals(lanes, "settled") == {"n1": "present", "n2": "unread"}
    assert lanes.agrees("settled")  # who did not answer contradicts nobody


def test_a_node_that_never_came_back_is_down_and_not_absent():
    lanes = {one.name: one for one in object_lanes(broken_run(), keyspace_of_race("drop-type", 0))}
    assert finals(lanes["x"], "restarted") == {"n1": "down", "n2": "down", "n3": "present"}
    assert finals(lanes["u"], "restarted") == {"n1": "down", "n2": "down", "n3": "absent"}


def test_memory_is_shown_only_where_nodes_remember_differently():
    def live(node: str, text: str) -> tuple[float, str, str, str, str, None, str]:
        return 1, "settled", node, "live", "t", None, f'{{"kind":"table","statement":"{text}"}}'

    both = (answered(1, "settled", "n1"), answered(1, "settled", "n2"))
    assert object_lanes(saw(*both, live("n1", "a"), live("n2", "a")), "k") == ()
    assert [one.kind for one in object_lanes(saw(*both, live("n1", "a"), live("n2", "b")), "k")] == ["live"]


def test_a_type_and_a_table_of_one_name_have_lanes_of_their_own():
    def live(node: str, kind: str, text: str = "a") -> tuple[float, str, str, str, str, None, str]:
        return 1, "settled", node, "live", "t", None, f'{{"kind":"{kind}","statement":"{text}"}}'

    both = (answered(1, "settled", "n1"), answered(1, "settled", "n2"))
    alike = [live("n1", "type"), live("n1", "table"), live("n2", "table"), live("n2", "type")]
    assert object_lanes(saw(*both, *alike), "k") == ()
    (one,) = object_lanes(saw(*both, *alike[:3], live("n2", "type", "b")), "k")
    assert one.kind_in_memory == "type"


def test_a_new_session_that_tells_everything_again_is_no_change():
    material = saw(
        answered(1, "running", "n1"),
        table(1, "running", "n1", "aa"),
        table(9, "running", "n1", "aa"),
        table(10, "running", "n1", "bb"),
    )
    (lanes,) = object_lanes(material, "k")
    assert [(time, state.id) for time, state in lanes.lanes[0].changes] == [
        (1_000_000_000, "aa"),
        (10_000_000_000, "bb"),
    ]


def test_definitions_with_the_same_columns_are_told_apart_by_the_rest():
    columns = '"columns":{"k":{"type":"int","kind":"partition_key","position":0}}'
    material = saw(
        answered(1, "running", "n1"),
        table(1, "running", "n1", "aa", f'{{{columns},"options":{{"comment":"","gc":1}},"dropped_columns":{{}}}}'),
        table(
            2, "running", "n1", "aa", f'{{{columns},"options":{{"comment":"x","gc":1}},"dropped_columns":{{"c":1}}}}'
        ),
    )
    (lanes,) = object_lanes(material, "k")
    assert [text for _, text in lanes.described()] == [
        '(k int*) with comment = ""',
        '(k int*) with comment = "x", dropped column c = 1',
    ]


def test_statements_of_memory_are_told_apart_without_their_common_options():
    def live(node: str, columns: str, comment: str) -> tuple[float, str, str, str, str, None, str]:
        text = f"CREATE TABLE k.t ({columns}) WITH gc = 1 AND comment = '{comment}';"
        return 1, "settled", node, "live", "t", None, f'{{"kind":"table","statement":"{text}"}}'

    both = (answered(1, "settled", "n1"), answered(1, "settled", "n2"))
    (lanes,) = object_lanes(saw(*both, live("n1", "k int", ""), live("n2", "k int, c int", "x")), "k")
    assert [text for _, text in lanes.described()] == [
        "CREATE TABLE k.t (k int) with comment = ''",
        "CREATE TABLE k.t (k int, c int) with comment = 'x'",
    ]


# ── scenes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def scenes() -> dict[str, Scene]:
    return {scene.keyspace: scene for scene in draw_scenes(broken_run())[0]}


def test_races_that_broke_come_first_and_workloads_take_turns(scenes: dict[str, Scene]):
    names = list(scenes)
    assert names[:2] == [keyspace_of_race("create-table", 0), keyspace_of_race("drop-type", 0)]
    assert names[-1] == keyspace_of_race("drop-type", 4)
    assert scenes[names[-1]].broke == ()


def test_everything_lies_within_the_plot(scenes: dict[str, Scene]):
    for scene in scenes.values():
        for part in (*scene.bars, *scene.segments, *scene.bands):
            assert part.x >= PLOT_LEFT
            assert part.x + part.width <= PLOT_RIGHT + 3  # a bar is never thinner than 3 px
        assert all(PLOT_LEFT <= tick.x <= PLOT_RIGHT for tick in scene.ticks)
        assert max(part.y for part in (*scene.bars, *scene.segments, *scene.cells)) < scene.height


def test_contested_statements_overlap_in_the_picture_as_they_did(scenes: dict[str, Scene]):
    one, other = [bar for bar in scenes[keyspace_of_race("drop-type", 0)].bars if bar.contested]
    assert one.x < other.x + other.width
    assert other.x < one.x + one.width
    assert one.y != other.y


def test_a_statement_that_never_completed_goes_on_to_the_edge():
    run = broken_run()
    rows = run.operations.to_pylist()
    victim = next(row for row in rows if row["f"] == "drop-type")
    victim |= {"completed": None, "completion": None, "type": "info"}
    changed = replace(run, operations=pa.Table.from_pylist(rows, schema=run.operations.schema))
    scene = next(one for one in draw_scenes(changed)[0] if one.keyspace == victim["key"].split(".")[0])
    bar = next(bar for bar in scene.bars if bar.open)
    assert bar.type == "info"
    assert bar.x + bar.width == pytest.approx(PLOT_RIGHT)


def test_nodes_that_contradict_one_another_are_bracketed(scenes: dict[str, Scene]):
    agree = {
        one.x: one.agree for one in scenes[keyspace_of_race("drop-type", FORGOTTEN_RACE)].agreements if not one.agree
    }
    assert len(agree) == 1  # in the settled reading; of the restarted nodes only one answered
    assert min(agree) < FINAL_LEFT["restarted"]
    assert all(one.agree for one in scenes[keyspace_of_race("drop-type", 0)].agreements)


def test_a_bracket_and_its_sign_stand_between_two_columns_of_readings(scenes: dict[str, Scene]):
    for scene in scenes.values():
        for bracket in scene.agreements:
            before = max(left for left in FINAL_LEFT.values() if left < bracket.x)
            after = min((left for left in FINAL_LEFT.values() if left > bracket.x), default=scene.width)
            assert before + FINAL_WIDTH < bracket.x
            assert bracket.x + 16 <= after  # three px of the bracket, and a sign of 15 px in bold


@pytest.mark.parametrize(
    ("markers", "label_x"),
    [
        ([], 106),
        ([100.0], 106 + 3),  # the sign reaches to 107
        ([120.0], 129),
        ([120.0, 133.0], 142),
        ([300.0], 106),
        ([180.0, 189.0, 120.0], 129),  # out of order, and behind the label
        ([330.0], 106),
    ],
)
def test_a_marker_never_covers_the_label_of_a_segment(markers: list[float], label_x: float):
    segment = Segment(x=100, y=0, width=240, presence="present", colour=0, label="51f4", label_x=106, title="")
    moved = legible(segment, [Marker(x, 0, "") for x in markers])
    assert (moved.label, moved.label_x) == ("51f4", label_x)
    assert all(not moved.label_x - 7 < x < moved.label_x + 4 * CHARACTER + 7 for x in markers)


def test_a_label_that_fits_nowhere_but_under_a_marker_is_left_out():
    segment = Segment(x=100, y=0, width=55, presence="present", colour=0, label="51f4", label_x=106, title="")
    assert legible(segment, [Marker(125, 0, "")]).label == ""


def test_a_scene_can_be_read_aloud(scenes: dict[str, Scene]):
    summary = scenes[keyspace_of_race("drop-type", FORGOTTEN_RACE)].summary
    assert "table x, settled: n1: " in summary
    assert "n3: absent" in summary
    assert "n1: did not start" in summary


def test_merged_definitions_are_spelled_out(scenes: dict[str, Scene]):
    known = [one.definition for one in scenes[keyspace_of_race("create-table", 0)].known]
    assert known == [
        "(a int*, x int)",
        "(b int*, y int)",
        "(k int*, z text)",
        "(a int*, b int*, k int*, x int, y int, z text)",
    ]


def test_what_did_not_change_is_named_and_not_drawn():
    run = broken_run()
    keyspace = keyspace_of_race("drop-type", 0)
    still = [
        {
            "time": 13_000_000_000, "phase": "running", "node": node, "sample": 1, "kind": "table", "keyspace": keyspace,
            "name": "bystander", "id": "cc", "definition": "{}", "error": None,
        }
        for node in ("n1", "n2", "n3")
    ]  # fmt: skip
    last = [row for row in run.observations.to_pylist() if row["phase"] != "running" and row["kind"] == "version"]
    final = [
        {**still[0], "time": row["time"], "phase": row["phase"], "node": row["node"], "sample": row["sample"]}
        for row in last
    ]
    rows = sorted([*run.observations.to_pylist(), *still, *final], key=lambda row: row["time"])
    changed = replace(run, observations=pa.Table.from_pylist(rows, schema=OBSERVATIONS))
    scene = next(scene for scene in draw_scenes(changed)[0] if scene.keyspace == keyspace)
    assert [group.text for group in scene.groups] == ["type u", "table x"]
    assert "Unchanged, and not drawn: bystander." in scene.notes


def test_a_few_operations_elsewhere_are_drawn_faintly_and_many_are_counted():
    run = broken_run()
    keyspace = keyspace_of_race("drop-type", 0)

    def with_others(count: int) -> Scene:
        racing = next(
            row for row in run.operations.to_pylist() if row["key"] == f"{keyspace}.u" and row["f"] == "drop-type"
        )
        others = [{**racing, "index": 10_000 + number, "key": "elsewhere.t", "f": "insert"} for number in range(count)]
        table = pa.concat_tables([run.operations, pa.Table.from_pylist(others, schema=run.operations.schema)])
        return next(one for one in draw_scenes(replace(run, operations=table))[0] if one.keyspace == keyspace)

    assert sum(not bar.own for bar in with_others(5).bars) == 5
    many = with_others(500)
    assert sum(not bar.own for bar in many.bars) == 0
    assert "500 operations on other keyspaces in this time are not drawn." in many.notes


def test_names_of_faults_do_not_cover_one_another():
    run = broken_run()
    faults = [
        {"id": number, "nemesis": "kill", "nodes": ["n1"], "parameters": {}, "at": 21.9 + 0.01 * number}
        for number in range(10)
    ]
    rows = run.history.to_pylist()
    notes = [
        {
            **rows[0],
            "index": 100_000 + number,
            "time": int(fault["at"] * 1e9),
            "f": "fault-begins",
            "value": orjson.dumps(fault).decode(),
        }
        for number, fault in enumerate(faults)
    ]
    history = pa.Table.from_pylist(sorted([*rows, *notes], key=lambda row: row["time"]), schema=run.history.schema)
    scene = next(
        one for one in draw_scenes(replace(run, history=history))[0] if one.keyspace.endswith("create_table_000")
    )
    assert len(scene.bands) == 11
    named = [(band.x, band.x + 6.4 * len(band.label)) for band in scene.bands if band.label]
    assert all(one[1] <= other[0] for one, other in pairwise(named))


def test_no_more_scenes_than_a_reader_looks_at():
    run = broken_run()
    rows = run.races.to_pylist()
    more = [row | {"keyspace": f"other_{number}", "number": 100 + number} for number, row in enumerate(rows)]
    races = pa.Table.from_pylist([*rows, *more], schema=run.races.schema)
    drawn, left_out = draw_scenes(replace(run, races=races))
    assert (len(drawn), left_out) == (SCENES_DRAWN, len(rows) + len(more) - SCENES_DRAWN)


# ── the overview ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_time_of_disagreement_is_counted_between_changes_of_version():
    material = saw(
        answered(1, "running", "n1", "a"),
        answered(1, "running", "n2", "a"),
        answered(2, "running", "n1", "b"),
        answered(3.5, "running", "n2", "b"),
        answered(9, "running", "n1", "b"),
    )
    assert disagreement_s(material) == pytest.approx(1.5)


def test_nodes_that_never_agree_again_disagree_to_the_end():
    material = saw(
        answered(1, "running", "n1", "a"), answered(2, "running", "n2", "b"), answered(5, "running", "n1", "a")
    )
    assert disagreement_s(material) == pytest.approx(3)


def test_a_dead_node_disagrees_with_nobody():
    picture = draw_overview(broken_run())
    assert picture is not None
    assert picture.agreement[-1].style == "agree"
    assert picture.verdict == "At the end: 2 nodes did not start, the others agree"
    assert [text for _, text, _ in picture.finals][:2] == ["did not start", "did not start"]


def test_an_agreeing_cluster_is_said_to_agree():
    picture = draw_overview(held_run())
    assert picture is not None
    assert picture.verdict == "At the end: all agree"
    assert all(mark.served for mark in picture.restarts)


def test_a_thousand_versions_stay_drawable():
    rows = [answered(number / 100, "running", "n1", f"v{number}") for number in range(20_000)]
    picture = draw_overview(saw(*rows))
    assert picture is not None
    assert len(picture.lanes) <= 2 * 868 + 2


def test_epochs_are_shown_where_there_are_epochs():
    rows = [
        (1.0, "running", "n1", "version", None, f"00000000-0000-0000-0000-0000000000{epoch}", f'{{"epoch":{epoch}}}')
        for epoch in (14, 15)
    ]
    picture = draw_overview(saw(*rows))
    assert picture is not None
    assert picture.finals[0][1] == "epoch 15"


def test_nothing_observed_is_no_picture():
    assert draw_overview(Material(run="r", plan=PLAN, verdict=Verdict(valid="unknown", checker="run"))) is None


# ── axes and charts ──────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(0, 10**13), st.integers(1_000, 10**13))
def test_ticks_are_few_in_order_and_within_the_axis(begins: int, length: int):
    ticks = Axis(begins, begins + length, 100, 900).ticks()
    assert 2 <= len(ticks) <= 20
    places = [tick.x for tick in ticks]
    assert places == sorted(places)
    assert 100 <= places[0] <= places[-1] <= 900
    labels = [tick.label for tick in ticks]
    assert len(set(labels)) == len(labels)


def test_chart_columns_have_one_length():
    data = chart_data(broken_run())
    raw = data["raw"]
    assert {len(raw[name]) for name in ("t", "ms", "f", "o")} == {raw["of"]}
    assert raw["t"] == sorted(raw["t"])
    for columns in data["quantiles"].values():
        assert len({len(column) for column in columns.values()}) == 1
    for outcomes in data["rates"]["f"].values():
        assert {len(counts) for counts in outcomes.values()} == {len(data["rates"]["t"])}


def test_rates_of_everything_are_the_sum_of_all():
    rates = chart_data(broken_run())["rates"]["f"]
    total = sum(rates["all operations"]["ok"])
    assert total == sum(sum(outcomes["ok"]) for name, outcomes in rates.items() if name != "all operations")
    assert total == sum(row["type"] == "ok" for row in broken_run().operations.to_pylist())


def test_schema_changes_are_offered_first():
    names = list(chart_data(broken_run())["quantiles"])
    assert names[0] == "create-table ok"
    assert names.index("read-rows fail") > names.index("drop-type ok")


def test_of_many_operations_some_points_are_shown_and_all_are_counted():
    run = broken_run()
    rows = run.operations.to_pylist()
    many = pa.Table.from_pylist((rows * 200)[:20_000], schema=run.operations.schema)
    raw = chart_data(replace(run, operations=many))["raw"]
    assert len(raw["t"]) <= POINTS_DRAWN
    assert raw["of"] == sum(row["completed"] is not None for row in many.to_pylist())
