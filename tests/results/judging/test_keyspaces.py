from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import small_run

from schemaquake.harness.model.operation import NEMESIS
from schemaquake.harness.model.records import HISTORY, Records, keyspace_of, plain
from schemaquake.results.judging.keyspaces import Keyspaces, events_of, observations_of


def history(*keys: tuple[int, str | None]) -> pa.Table:
    """One event a (process, key)."""
    rows = [
        dict.fromkeys(HISTORY.names) | {"index": n, "time": n, "process": process, "type": "info", "f": "f", "key": key}
        for n, (process, key) in enumerate(keys)
    ]
    return pa.Table.from_pylist(rows, schema=HISTORY)


@pytest.mark.parametrize("form", [lambda table: table, plain], ids=["dictionaries", "plain strings"])
@given(seed=st.integers(0, 50))
def test_a_part_is_its_keyspace_the_run_and_the_notes(form, seed):
    records = small_run(seed, operations=30)
    keyspaces = Keyspaces(Records(form(records.history), form(records.observations), records.logs))
    assert keyspaces.names == ("ks0", "ks1", "ks2", "ks3", "ks4")
    events, observations = records.history.to_pylist(), records.observations.to_pylist()
    for name in keyspaces.names:
        part = keyspaces.part(name)
        mine = {name, None}
        assert part.history.to_pylist() == [
            e for e in events if e["process"] == NEMESIS or keyspace_of(e["key"]) in mine
        ]
        assert part.observations.to_pylist() == [o for o in observations if o["keyspace"] in mine]
        assert part.logs.equals(records.logs)
        own = [e for e in events if e["process"] != NEMESIS and keyspace_of(e["key"]) == name]
        assert keyspaces.weights[name] == len(own) + len([o for o in observations if o["keyspace"] == name])


@given(seed=st.integers(0, 50), wanted=st.sets(st.sampled_from(["ks0", "ks3", "ks4", "absent"])))
def test_parts_of_what_was_kept_for_them_are_those_of_the_whole(seed, wanted):
    records = small_run(seed, operations=30)
    kept = Records(events_of(records.history, wanted), observations_of(records.observations, wanted), records.logs)
    whole = Keyspaces(records)
    few = Keyspaces(kept)
    assert set(few.names) == wanted - {"absent"}
    for name in few.names:
        assert few.part(name).history.equals(whole.part(name).history)
        assert few.part(name).observations.equals(whole.part(name).observations)


def test_keyspaces_that_begin_alike_are_not_confused():
    keyspaces = Keyspaces(Records.of(history((0, "ks"), (1, "ks.t"), (2, "ks1.t"), (3, "ks_1"))))
    assert keyspaces.names == ("ks", "ks1", "ks_1")
    assert keyspaces.part("ks").history["index"].to_pylist() == [0, 1]


def test_the_key_of_a_note_makes_no_keyspace():
    keyspaces = Keyspaces(Records.of(history((NEMESIS, "race-7"), (0, "ks"))))
    assert keyspaces.names == ("ks",)
    assert keyspaces.part("ks").history["index"].to_pylist() == [0, 1]


def test_a_run_may_have_no_keyspaces():
    assert Keyspaces(Records.of(history((0, None)))).names == ()
    assert Keyspaces(Records.of(HISTORY.empty_table())).names == ()
