"""What every racing workload has from `schemaquake.workloads.races.engine`, whatever it races."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise, permutations

import pytest
from crew_at_work import FEATURES, Done, carry_out, operations, whole_run
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT
from racing_context import racing_context, with_racing

from schemaquake.harness.ddl.cql import statement
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.protocols import Context, Worker, Workload
from schemaquake.harness.model.steps import Invoke, Meet, Note, Require, Step, Wait
from schemaquake.workloads.races.drop_recreate import DropRecreate
from schemaquake.workloads.races.engine import ALWAYS, Race, RacingWorkload, damaging_order
from schemaquake.workloads.races.options import Mode
from schemaquake.workloads.races.racing_ddl import RACING, RacingDdl

NODES = ("n1", "n2", "n3", "n4", "n5")
EVERY: list[Workload] = [*RACING, RacingDdl()]

each_workload = pytest.mark.parametrize("workload", EVERY, ids=[workload.name for workload in EVERY])
each_kind = pytest.mark.parametrize("workload", RACING, ids=[workload.name for workload in RACING])
each_mode = pytest.mark.parametrize("mode", ["barrier", "partition"])
each_size = pytest.mark.parametrize("size", [2, 3, 5])


def context(*, size: int = 3, mode: Mode = "barrier", races: int = 4, seed: int = 1, **more: object) -> Context:
    nodes = NODES[:size]
    isolated = (nodes[seed % size],) if mode == "partition" else ()
    base = racing_context(
        seed=seed,
        nodes=nodes,
        isolated=isolated,
        mode=mode,
        races=races,
        replication_factor=min(3, size),
        features=FEATURES,
    )
    return with_racing(base, **more)  # type: ignore[arg-type]  # the fields of Context


def main_of(workload: Workload, where: Context) -> list[Done]:
    return carry_out(workload, "main", where)


def keyspaces_of_race(operation: Invoke) -> str:
    return str(operation.value["keyspace"])


def changes(done: list[Done]) -> Iterator[tuple[Done, Invoke]]:
    for one in done:
        if isinstance(one.step, Invoke) and one.step.f in SCHEMA_CHANGES:
            yield one, one.step


# ── the plan ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_registered_workload_is_called_what_its_entry_point_says() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    entries = project["project"]["entry-points"]["schemaquake.workloads"]
    for name, target in entries.items():
        module, _, attribute = target.partition(":")
        assert getattr(import_module(module), attribute)().name == name
    assert {workload.name for workload in EVERY} | {"schema-churn"} <= set(entries)


@each_workload
def test_only_known_features_are_asked_for(workload: Workload) -> None:
    assert {"keyspaces", "tables"} <= workload.requires <= FEATURES


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    size=st.integers(2, 5),
    mode=st.sampled_from(["barrier", "partition"]),
    workload=st.sampled_from(EVERY),
)
def test_the_same_context_gives_the_same_steps(seed: int, size: int, mode: Mode, workload: Workload) -> None:
    where = context(seed=seed, size=size, mode=mode, races=2)
    for phase in ("setup", "prepare", "main", "probe", "final"):
        assert carry_out(workload, phase, where) == carry_out(workload, phase, where)


def test_another_seed_gives_other_pairs_of_coordinators() -> None:
    drop_alter = next(workload for workload in RACING if workload.name == "drop-alter")
    pairs = set()
    for seed in range(5):
        stated = changes(main_of(drop_alter, context(seed=seed)))
        pairs.add(tuple(one.worker.node for one, change in stated if change.f == "drop-table"))
    assert len(pairs) > 1


@each_workload
@each_mode
@each_size
def test_everybody_meets_at_every_barrier(workload: Workload, mode: Mode, size: int) -> None:
    where = context(size=size, mode=mode, races=5)
    met = [
        [step for step in workload.steps("main", worker, where, phase_label="") if isinstance(step, Meet)]
        for worker in workload.crew(where)
    ]
    assert met[0]
    assert all(steps == met[0] for steps in met)
    assert len(set(met[0])) == len(met[0])
    carry_out(workload, "main", where)  # fails on a deadlock


@each_workload
@each_mode
def test_nobody_waits_for_anybody_outside_the_main_phase(workload: Workload, mode: Mode) -> None:
    where = context(mode=mode)
    for phase in ("setup", "prepare", "probe", "final"):
        for worker in workload.crew(where):
            steps = list(workload.steps(phase, worker, where, phase_label="settled"))
            assert not [step for step in steps if isinstance(step, (Meet, Note))]


@each_workload
@each_mode
def test_the_first_workers_are_one_a_node(workload: Workload, mode: Mode) -> None:
    where = context(mode=mode, size=5)
    assert [worker.node for worker in workload.crew(where)][:5] == list(where.nodes)
    if mode == "barrier":
        assert len(workload.crew(where)) == 5


@each_workload
@each_mode
def test_everything_happens_under_the_prefix_in_the_race_s_own_keyspace(workload: Workload, mode: Mode) -> None:
    where = context(mode=mode, keyspace_prefix="mine")
    seen = operations(carry_out(workload, "setup", where)) + whole_run(workload, where)
    made = [operation.value["keyspace"] for operation in seen if operation.f == "create-keyspace"]
    assert len(set(made)) == len(made) // 2  # set up twice above
    for operation in seen:
        keyspace = keyspaces_of_race(operation)
        assert keyspace.startswith("mine_")
        assert keyspace in made
        assert operation.key is not None
        assert operation.key.split(".")[0] == keyspace


@each_kind
def test_keyspaces_name_workload_and_race(workload: RacingWorkload) -> None:
    where = context(races=12)
    found = [race.keyspace for race in workload.races(where)]
    assert found == [f"sq_{workload.name.replace('-', '_')}_{number:03d}" for number in range(12)]


def test_one_coordinator_makes_every_base_object_before_the_races() -> None:
    where = context()
    done = carry_out(RacingDdl(), "setup", where)
    assert {one.worker.index for one in done} == {0}
    made = [operation.value["keyspace"] for operation in operations(done) if operation.f == "create-keyspace"]
    assert len(made) == 4 * len(RACING)
    assert {
        operation.value["replication"]["replication_factor"]
        for operation in operations(done)
        if operation.f == "create-keyspace"
    } == {3}


def test_changes_of_the_setup_are_spaced_where_migrations_are_ordered() -> None:
    young = carry_out(RACING[0], "setup", context())
    old = carry_out(RACING[0], "setup", context(features=frozenset({"keyspaces", "tables", "columns"})))
    assert not [one for one in young if isinstance(one.step, Wait)]
    assert len([one for one in old if isinstance(one.step, Wait)]) == len(operations(old))


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@each_workload
@each_mode
@each_size
def test_every_race_writes_rows_in_every_phase(workload: Workload, mode: Mode, size: int) -> None:
    where = context(mode=mode, size=size)
    written: dict[str, set[str]] = {}
    for operation in whole_run(workload, where):
        if operation.f == "insert":
            written.setdefault(operation.value["keyspace"], set()).add(operation.value["phase"])
    assert len(written) == 4 * (len(RACING) if workload.name == "racing-ddl" else 1)
    assert all(phases == ALWAYS for phases in written.values())


@each_workload
@each_mode
def test_no_two_rows_of_a_table_have_one_key(workload: Workload, mode: Mode) -> None:
    keys: Counter[tuple[str, int]] = Counter()
    for operation in whole_run(workload, context(mode=mode, size=5)):
        if operation.f == "insert":
            key = next(iter(operation.value["row"].values()))
            assert -(2**31) <= key < 2**31
            keys[operation.key or "", key] += 1
    assert max(keys.values()) == 1


@each_workload
def test_rows_are_safe_at_quorum_except_those_at_stake(workload: Workload) -> None:
    for operation in whole_run(workload, context()):
        if operation.f == "insert":
            expected = "ONE" if operation.value["phase"] == "racing" else "QUORUM"
            assert operation.value["consistency"] == expected


@each_kind
def test_a_side_s_rows_follow_its_statements_through_the_same_coordinator(workload: RacingWorkload) -> None:
    where = context(races=3)
    for race in workload.races(where):
        own = [probe for probe in race.tables if probe.side is not None and "racing" in probe.phases]
        done = [one for one in main_of(workload, where) if keyspaces_of_step(one.step) == race.keyspace]
        for probe in own:
            assert probe.side is not None
            last = race.sides[probe.side][-1]
            (stated,) = {one.worker for one in done if one.step == last}
            rows = [one for one in done if row_of(one.step, probe.table) == dict(probe.row)]
            assert len(rows) == probe.rows
            assert {one.worker for one in rows} == {stated}
            assert min(one.begun for one in rows) >= max(one.ended for one in done if one.step == last)


def keyspaces_of_step(step: Step) -> str | None:
    return keyspaces_of_race(step) if isinstance(step, Invoke) else None


def row_of(step: Step, table: str) -> dict[str, object] | None:
    """The cells of an INSERT into this table, without its key."""
    if not isinstance(step, Invoke) or step.f != "insert" or step.value["table"] != table:
        return None
    return dict(list(step.value["row"].items())[1:])


@each_workload
@each_mode
@pytest.mark.parametrize("label", ["settled", "restarted"])
def test_a_probe_reads_back_its_own_row_through_every_coordinator(workload: Workload, mode: Mode, label: str) -> None:
    where = context(mode=mode)
    done = carry_out(workload, "probe", where, label=label)
    by_node: dict[str, list[Invoke]] = {}
    for one in done:
        assert isinstance(one.step, Invoke)
        by_node.setdefault(one.worker.node, []).append(one.step)
    assert set(by_node) == set(where.nodes)
    for steps in by_node.values():
        for written, read in zip(steps[::2], steps[1::2], strict=True):
            assert (written.f, read.f) == ("insert", "read-rows")
            assert written.key == read.key
            assert written.value["phase"] == read.value["phase"] == label
            assert written.value["consistency"] == read.value["consistency"] == "QUORUM"
            assert read.value["where"].items() <= written.value["row"].items()
            assert read.value["columns"] == list(written.value["row"])


def test_a_probe_of_no_phase_of_rows_is_refused() -> None:
    with pytest.raises(PlanError, match="running"):
        list(RACING[0].steps("probe", Worker(0, "n1"), context(), phase_label="running"))


@each_kind
@each_mode
def test_final_reads_name_their_columns_at_one_everywhere_and_at_all_once(workload: RacingWorkload, mode: Mode) -> None:
    where = context(mode=mode)
    done = carry_out(workload, "final", where, label="restarted")
    reads = Counter(
        (one.step.key, tuple(one.step.value["columns"]), one.step.value["consistency"], one.worker.node)
        for one in done
        if isinstance(one.step, Invoke)
    )
    assert len(reads) == len(done)
    for race in workload.races(where):
        for probe in race.tables:
            key = f"{race.keyspace}.{probe.table}"
            assert all(reads[key, probe.columns, "ONE", node] for node in where.nodes)
            assert sum(reads[key, probe.columns, "ALL", node] for node in where.nodes) == 1
    assert {one.step.value["phase"] for one in done if isinstance(one.step, Invoke)} == {"restarted"}


def test_reads_at_all_come_after_a_worker_s_reads_at_one() -> None:
    for worker in range(3):
        found = [
            one.step.value["consistency"]
            for one in carry_out(RacingDdl(), "final", context())
            if one.worker.index == worker and isinstance(one.step, Invoke)
        ]
        assert found == sorted(found, reverse=True)
        assert {"ONE", "ALL"} == set(found)


# ── the main phase ───────────────────────────────────────────────────────────────────────────────────────────────────


@each_workload
@each_mode
def test_each_race_is_noted_once_with_what_its_sides_then_do(workload: Workload, mode: Mode) -> None:
    where = context(mode=mode)
    done = main_of(workload, where)
    notes = {one.step.key: one for one in done if isinstance(one.step, Note)}
    assert len(notes) == len([one for one in done if isinstance(one.step, Note)])
    stated: dict[str, list[str]] = {}
    for one, change in changes(done):
        stated.setdefault(change.value["keyspace"], []).append(statement(change.f, change.value))
        note = notes[change.value["keyspace"]]
        assert note.met < one.met
        assert note.worker.index == 0
    for keyspace, note in notes.items():
        assert isinstance(note.step, Note)
        assert {"workload", "variant", "number", "mode", "sides"} == set(note.step.value)
        assert note.step.value["mode"] == mode
        assert note.step.f == "race"
        assert keyspace is not None
        assert sorted(text for side in note.step.value["sides"] for text in side) == sorted(stated[keyspace])


@each_kind
def test_the_sides_of_a_race_begin_in_the_same_instant(workload: RacingWorkload) -> None:
    done = main_of(workload, context(races=4))
    for race in workload.races(context(races=4)):
        first = {
            one.worker.index: one.begun
            for one, change in reversed(list(changes(done)))
            if change.value["keyspace"] == race.keyspace
        }
        assert len(first) == sum(1 for side in race.sides if side)
        assert len(set(first.values())) == 1


@each_size
def test_every_pair_of_coordinators_races_before_any_does_so_again(size: int) -> None:
    where = context(size=size, races=size * (size - 1))
    drop_alter = next(workload for workload in RACING if workload.name == "drop-alter")
    by_race: dict[str, dict[str, str]] = {}
    for one, change in changes(main_of(drop_alter, where)):
        side = "drop" if change.f == "drop-table" else "alter"
        by_race.setdefault(change.value["keyspace"], {})[side] = one.worker.node
    tried = [(race["drop"], race["alter"]) for race in by_race.values()]
    assert sorted(tried) == sorted(permutations(where.nodes, 2))


def test_a_race_needs_two_coordinators() -> None:
    with pytest.raises(PlanError, match="two coordinators"):
        RACING[0].crew(context(size=2, nodes=("n1",)))


def test_a_prefix_too_long_for_a_keyspace_is_refused_by_name() -> None:
    with pytest.raises(PlanError, match="much_too_long"):
        RACING[0].crew(context(keyspace_prefix="much_too_long" * 4))


def test_one_variant_can_be_asked_for() -> None:
    create_table = RACING[0]
    found = {race.variant for race in create_table.races(context(races=10, options={"variant": "same,names"}))}
    assert found == {"same", "names"}
    with pytest.raises(PlanError, match="definitions"):
        create_table.races(context(options={"variant": "sideways"}))


@each_kind
def test_a_variant_that_no_workload_of_the_run_has_is_refused_also_beside_one_that_it_has(
    workload: RacingWorkload,
) -> None:
    some = workload.variants(context())[0]
    assert workload.crew(context(options={"variant": some}))
    for asked in ("sideways", f"{some},sideways"):
        with pytest.raises(PlanError, match=rf"{workload.name} has no variant sideways; it has {some}"):
            workload.crew(context(options={"variant": asked}))


def test_a_variant_may_be_that_of_another_workload_of_the_run_if_each_has_one() -> None:
    create_table = RACING[0]
    both = ("create-table", "drop-type")
    assert create_table.crew(context(workloads=both, options={"variant": "same,table"}))
    with pytest.raises(PlanError, match="create-table has no variant table"):
        create_table.crew(context(workloads=both, options={"variant": "table"}))
    with pytest.raises(PlanError, match=r"no variant tabel; it has same, definitions, names$"):
        create_table.crew(context(workloads=both, options={"variant": "same,tabel"}))
    with pytest.raises(PlanError, match=r'Did you mean "names"\?'):
        create_table.crew(context(options={"variant": "nmaes"}))


@each_kind
def test_the_variants_of_a_workload_are_those_of_its_races(workload: RacingWorkload) -> None:
    assert set(workload.variants(context())) == {race.variant for race in workload.races(context(races=60))}


@each_kind
def test_every_variant_is_met_in_both_orders(workload: RacingWorkload) -> None:
    races = workload.races(context(races=42))
    orders: dict[str, set[bool]] = {}
    for race in races:
        orders.setdefault(race.variant, set()).add(damaging_order(race.number))
    assert all(order == {True, False} for variant, order in orders.items() if variant != "names")


@each_kind
def test_most_races_are_run_in_the_damaging_order(workload: RacingWorkload) -> None:
    races = workload.races(context(races=10))
    assert sum(damaging_order(race.number) for race in races) > 5


# ── canaries, and the control ────────────────────────────────────────────────────────────────────────────────────────


@each_workload
def test_the_numbers_of_races_go_on_from_the_first(workload: Workload) -> None:
    both = {note.key for note in notes_of(workload, context(races=4))}
    first = {note.key for note in notes_of(workload, context(races=2))}
    then = {note.key for note in notes_of(workload, context(races=2, first_race=2))}
    assert first | then == both
    assert not first & then


@each_kind
def test_a_race_is_the_same_race_in_whichever_run_it_is(workload: RacingWorkload) -> None:
    assert workload.races(context(races=8))[5:] == workload.races(context(races=3, first_race=5))
    alone = [one.step for one in main_of(workload, context(races=1, first_race=5))]
    among = [one.step for one in main_of(workload, context(races=8))]
    assert [step for step in alone if isinstance(step, Invoke)] == [
        step
        for step in among
        if isinstance(step, Invoke) and keyspaces_of_race(step) == workload.races(context(races=8))[5].keyspace
    ]


def notes_of(workload: Workload, where: Context) -> list[Note]:
    return [one.step for one in main_of(workload, where) if isinstance(one.step, Note)]


@each_workload
def test_a_canary_goes_before_each_race_through_every_coordinator(workload: Workload) -> None:
    where = context(until_poisoned=True, races=3)
    done = main_of(workload, where)
    notes = [one for one in done if isinstance(one.step, Note)]
    made = []
    for note in notes:
        assert isinstance(note.step, Note)
        key = note.step.value["canary"]
        (create,) = [one for one, change in changes(done) if change.key == key]
        rows = [one for one in done if isinstance(one.step, Invoke) and (one.step.f, one.step.key) == ("insert", key)]
        known = [
            one for one in done if isinstance(one.step, Invoke) and (one.step.f, one.step.key) == ("know-table", key)
        ]
        assert sorted(one.worker.node for one in known) == list(where.nodes)
        assert create.met < min(one.met for one in known)
        assert max(one.met for one in known) < min(row.met for row in rows)
        assert sorted(row.worker.node for row in rows) == list(where.nodes)
        assert max(row.ended for row in rows) <= note.begun
        raced = [one for one, change in changes(done) if change.value["keyspace"] == note.step.key]
        assert note.met < min(one.met for one in raced)
        made.append(create.worker.index)
    assert made == [number % 3 for number in range(len(notes))]


@each_workload
def test_nothing_that_races_is_ever_required(workload: Workload) -> None:
    for mode in ("barrier", "single"):
        where = context(until_poisoned=True, mode=mode)  # type: ignore[arg-type]
        required = {
            step.invoke.value["keyspace"]
            for worker in workload.crew(where)
            for step in workload.steps("main", worker, where, phase_label="")
            if isinstance(step, Require)
        }
        assert required == {"sq_canary"}


def test_canaries_are_read_in_the_end_like_everything_else() -> None:
    where = context(until_poisoned=True)
    done = carry_out(RACING[0], "final", where)
    reads = Counter(
        (one.step.key, one.step.value["consistency"])
        for one in done
        if isinstance(one.step, Invoke) and one.step.value["keyspace"] == "sq_canary"
    )
    for number in range(4):
        key = f"sq_canary.create_table_{number:03d}"
        assert (reads[key, "ONE"], reads[key, "ALL"]) == (3, 1)


def test_there_are_no_canaries_unless_asked_for() -> None:
    assert not [o for o in whole_run(RacingDdl(), context()) if "canary" in o.value["keyspace"]]


@pytest.mark.parametrize(("patience", "apart_s"), [({}, 1.0), ({"patience": "2.5"}, 2.5), ({"patience": "0"}, 0.0)])
def test_between_two_statements_of_the_control_all_nodes_have_time_to_hear(
    patience: dict[str, str], apart_s: float
) -> None:
    (race,) = DropRecreate().races(where := context(mode="single", races=1, options=patience))
    stated = [
        one
        for one, _ in changes([o for o in main_of(DropRecreate(), where) if keyspaces_of_step(o.step) == race.keyspace])
    ]
    assert len(stated) > 1
    assert all(after.begun - before.ended >= apart_s - 1e-9 for before, after in pairwise(stated))


def test_patience_is_a_number_of_seconds() -> None:
    with pytest.raises(PlanError, match="patience=soon"):
        main_of(DropRecreate(), context(mode="single", races=1, options={"patience": "soon"}))


@each_kind
def test_the_control_says_the_same_through_one_coordinator_and_nobody_writes_meanwhile(
    workload: RacingWorkload,
) -> None:
    where = context(mode="single", races=6)
    done = main_of(workload, where)
    alone = []
    for race in workload.races(where):
        of_race = [one for one in done if keyspaces_of_step(one.step) == race.keyspace]
        stated = [one for one, change in changes(of_race)]
        assert [one.step for one in stated] == [
            step for side in race.sides for step in side if isinstance(step, Invoke)
        ]
        assert len({one.worker for one in stated}) == 1
        assert all(before.ended <= after.begun for before, after in pairwise(stated))
        rows = [one for one in of_race if isinstance(one.step, Invoke) and one.step.f == "insert"]
        heard = [one for one in done if row_in_canary(one.step, race.keyspace)]
        assert len(heard) == 3
        assert max(one.ended for one in heard) <= min((one.begun for one in rows), default=1e9)
        assert max(one.ended for one in stated) <= min(one.begun for one in heard)
        assert {one.worker.index for one in rows if probe_side(race, one.step) is not None} <= {stated[0].worker.index}
        alone.append(stated[0].worker.index)
    assert alone == [0, 1, 2, 0, 1, 2]


def row_in_canary(step: Step, keyspace: str) -> bool:
    return isinstance(step, Invoke) and (step.f, step.key) == ("insert", f"sq_canary.{keyspace.removeprefix('sq_')}")


def probe_side(race: Race, step: Step) -> int | None:
    """The side whose rows these are; None for rows of everybody."""
    sides = [probe.side for probe in race.tables if row_of(step, probe.table) == dict(probe.row)]
    return next((side for side in sides if side is not None), None)
