"""Descriptors: every row is written once before all else, one worker changes a partition, and all are checked everywhere."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import numpy as np
import pytest

from schemaquake.harness.descriptors.functions import cds, pd, vds
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.context import Context
from schemaquake.harness.model.queries import BulkQuery
from schemaquake.harness.model.steps import Invoke, Meet, Require
from schemaquake.harness.registry import load

WORKLOAD = load("workloads", "descriptors")
OPTIONS = {"partitions": "50", "partition-rows": "250"}


def context(**more):
    given = {"seed": 7, "nodes": ("n1", "n2", "n3"), "crew": 5, "time_limit_s": 60, "options": OPTIONS}
    return Context(**{**given, **more})


def steps(phase, at, *, most=3000):
    """The steps of every worker, by worker; of each the first ones where they never end."""
    crew = WORKLOAD.crew(at)
    return {worker: list(islice(WORKLOAD.steps(phase, worker, at, phase_label="settled"), most)) for worker in crew}


def asked(found):
    operations = [step.invoke if isinstance(step, Require) else step for step in found]
    return [step for step in operations if isinstance(step, Invoke)]


@pytest.mark.parametrize("more", [{}, {"crew": 1}, {"spares": ("n4", "n5")}, {"nodes": ("n1",), "crew": 1}])
def test_every_row_is_written_once_before_anything_is_checked(more):
    at = context(**more)
    rows = Counter()
    for found in steps("prepare", at).values():
        (met,) = [place for place, step in enumerate(found) if isinstance(step, Meet)]
        assert {operation.f for operation in asked(found[:met])} <= {"write-rows"}
        assert {operation.f for operation in asked(found[met:])} <= {"check-rows"}
        for operation in asked(found[:met]):
            value = operation.value
            rows.update((value["partition"], row) for row in range(value["first"], value["first"] + value["count"]))
    assert rows == Counter((partition, row) for partition in range(50) for row in range(250))


@pytest.mark.parametrize("more", [{}, {"spares": ("n4",)}])
def test_one_worker_changes_a_partition_and_no_write_time_comes_twice(more):
    at = context(**more)
    writers, times = {}, Counter()
    for phase in ("prepare", "main"):
        for worker, found in steps(phase, at).items():
            for operation in asked(found):
                if operation.f != "check-rows":
                    writers.setdefault(operation.value["partition"], set()).add(worker.index)
                    times[operation.value["lts"]] += 1
    assert {len(workers) for workers in writers.values()} == {1}
    assert set(times.values()) == {1}
    assert sorted(writers) == list(range(50))


def test_later_writes_of_a_partition_have_later_write_times():
    at = context()
    last = {}
    for phase in ("prepare", "main"):
        for operation in (operation for found in steps(phase, at).values() for operation in asked(found)):
            if operation.f != "check-rows":
                partition, lts = operation.value["partition"], operation.value["lts"]
                assert lts > last.get(partition, 0)
                last[partition] = lts


def test_all_partitions_are_probed_through_every_node_before_anything_can_repair_them():
    at = context(spares=("n4",))
    covered = {}
    for worker, found in steps("final", at).items():
        (met,) = [place for place, step in enumerate(found) if isinstance(step, Meet)]
        assert {operation.value["consistency"] for operation in asked(found[:met])} <= {"ONE"}
        for operation in asked(found):
            value = operation.value
            partitions = range(value["first"], value["first"] + value["count"])
            covered.setdefault((value["consistency"], worker.node), []).extend(partitions)
    everything = list(range(50))
    for node in ("n1", "n2", "n3", "n4"):
        assert covered["ONE", node] == covered["QUORUM", node] == everything
    assert (
        sorted(partition for (level, _), some in covered.items() if level == "ALL" for partition in some) == everything
    )


def test_a_worker_on_a_spare_only_checks():
    found = steps("main", context(spares=("n4",)), most=200)
    assert {operation.f for worker, some in found.items() if worker.node == "n4" for operation in asked(some)} == {
        "check-rows"
    }


def test_statements_bind_what_descriptors_say():
    operations = [operation for found in steps("main", context()).values() for operation in asked(found)]
    by_kind = {operation.f: operation for operation in operations}
    assert set(by_kind) == {"write-rows", "delete-rows", "delete-partition", "check-rows"}
    assert all(isinstance(operation.query, BulkQuery) for operation in operations)
    write = by_kind["write-rows"]
    value = write.value
    clusterings = cds(7, value["partition"], value["first"], value["count"])
    cells = vds(7, value["partition"], np.arange(value["first"], value["first"] + value["count"]), value["lts"])
    key = pd(7, value["partition"])
    assert value["pd"] == str(key)
    assert list(write.query.values) == [
        (key, ck, v, value["lts"]) for ck, v in zip(clusterings.tolist(), cells.tolist(), strict=True)
    ]
    deleted = by_kind["delete-rows"]
    lts, key, first, last = deleted.query.values[0]
    rows = range(deleted.value["first"], deleted.value["first"] + deleted.value["count"])
    assert (lts, key) == (deleted.value["lts"], pd(7, deleted.value["partition"]))
    assert (first, last) == tuple(cds(7, deleted.value["partition"], row, 1)[0] for row in (rows[0], rows[-1]))
    assert by_kind["delete-partition"].query.values == [
        (by_kind["delete-partition"].value["lts"], pd(7, by_kind["delete-partition"].value["partition"]))
    ]


def test_a_check_folds_what_was_read_into_its_value():
    operations = (operation for found in steps("main", context()).values() for operation in asked(found))
    check = next(operation for operation in operations if operation.f == "check-rows" and operation.value["count"] == 4)
    first = check.value["first"]
    assert check.query.values == [(pd(7, first + place),) for place in range(4)]

    def rows(partition, *, wrong=0):
        values = vds(7, partition, np.arange(5), 9)
        values[:wrong] += 1
        return np.column_stack((cds(7, partition, 0, 5), values, np.full(5, 9)))

    none = np.empty((0, 3), np.int64)
    assert check.query.fold([rows(first), none, rows(first + 2), none]) == {
        "rows": 10,
        "runs": [[0, 5, 9], [], [0, 5, 9], []],
    }
    broken = check.query.fold([rows(first, wrong=1), none, rows(first + 1), none])
    assert [one[0] for one in broken["strange"]] == [first] + [first + 2] * 5
    assert broken["runs"] == [[1, 4, 9], [], [], []]


@pytest.mark.parametrize("options", [{"partitions": "0"}, {"partition-rows": "x"}, {"consistency": "SOME"}])
def test_options_that_do_not_fit_are_refused(options):
    with pytest.raises(PlanError):
        list(steps("prepare", context(options=options)))


@pytest.mark.parametrize(
    ("given", "repairs"), [({}, None), ({"read-repair": "NONE"}, "NONE"), ({"read-repair": "BLOCKING"}, None)]
)
def test_checks_leave_copies_as_they_are_only_where_that_is_asked_for(given, repairs):
    at = context(options={**OPTIONS, **given})
    (made,) = [each for found in steps("setup", at).values() for each in asked(found) if each.f == "create-table"]
    assert made.value["options"].get("read_repair") == repairs
