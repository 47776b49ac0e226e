"""Silence: who is charged with tables that nobody answers for."""

from __future__ import annotations

from schemaquake.harness.model.verdict import Anomaly
from schemaquake.results.grid.silence import without_silence

LATE = 'WriteTimeout: "Operation timed out - received only 1 responses."'
BROKEN = 'ReadFailure: "Operation failed - received 0 responses and 1 failures"'


def probed(kind: str, table: str, *errors: str) -> Anomaly:
    evidence = {"errors": [{"error": error, "count": 1} for error in errors], "failed": 1, "of": 3}
    return Anomaly(type=kind, title=kind, objects=(table,), evidence=evidence)


def test_tables_of_several_races_that_time_out_are_charged_to_none() -> None:
    mine, yours = probed("unwritable-table", "a.t", LATE), probed("unreadable-table", "b.t", LATE, LATE)
    lost = Anomaly(type="lost-column", title="", objects=("b.t",))
    kept, shared, doubted = without_silence({"a": [mine], "b": [yours, lost], "c": []})
    assert kept == {"a": [], "b": [lost], "c": []}
    assert (shared, doubted) == ([mine, yours], {"a", "b"})


def test_one_table_that_times_out_is_its_races() -> None:
    mine = probed("unwritable-table", "a.t", LATE)
    broken = probed("unreadable-table", "b.t", BROKEN)
    assert without_silence({"a": [mine], "b": [broken]}) == ({"a": [mine], "b": [broken]}, [], frozenset())


def test_a_table_whose_reads_fail_is_its_races_although_some_time_out() -> None:
    both = [probed("unreadable-table", f"{name}.t", BROKEN, LATE) for name in "ab"]
    assert without_silence({"a": both[:1], "b": both[1:]}) == ({"a": both[:1], "b": both[1:]}, [], frozenset())


def test_what_names_no_object_and_is_about_several_races_is_the_clusters() -> None:
    down, own = Anomaly(type="unavailable", title=""), Anomaly(type="refused-operations", title="")
    kept, shared, doubted = without_silence({"a": [down, own], "b": [down]})
    assert kept == {"a": [own], "b": []}
    assert (shared, doubted) == ([down], {"a", "b"})


def test_evidence_of_an_earlier_version_is_no_silence() -> None:
    old = [Anomaly(type="unreadable-table", title="", objects=(f"{name}.t",), evidence=None) for name in "ab"]
    assert without_silence({"a": old[:1], "b": old[1:]})[1] == []
