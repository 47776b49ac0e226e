"""Copied readings: two nodes whose readings were answered at the same instants, and readings that only look alike."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from histories import observed

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.run.copied_readings import find_copied_readings
from schemaquake.harness.model.records import HISTORY, OBSERVATIONS

OWN = {
    "n1": ("@100 settled n1 version v", "@101 settled n1 keyspace k", "@102 settled n1 table k.t id=aa a:int*"),
    "n2": ("@103 settled n2 version v", "@104 settled n2 keyspace k", "@105 settled n2 table k.t id=aa a:int*"),
    "n3": ("@106 settled n3 version v", "@107 settled n3 keyspace k", "@108 settled n3 table k.t id=aa a:int*"),
}


def copied(lines: Sequence[str], phase: str | None = None) -> Sequence[str]:
    """What is said of these readings, as readings of that phase if one is given."""
    rows = [{**row, "phase": phase or row["phase"]} for row in observed(*lines).to_pylist()]
    return list(find_copied_readings(Evidence(HISTORY.empty_table(), pa.Table.from_pylist(rows, schema=OBSERVATIONS))))


def test_readings_that_show_the_same_at_times_of_their_own_are_sound() -> None:
    assert copied([line for lines in OWN.values() for line in lines]) == []


@pytest.mark.parametrize("phase", ["settled", "restarted", "running"])
def test_a_node_with_the_instants_of_another_was_not_read_by_itself(phase: str) -> None:
    copy = [line.replace("n1", "n2") for line in OWN["n1"]]
    (said,) = copied([*OWN["n1"], *copy, *OWN["n3"]], phase)
    assert said.startswith(f"readings of n1 and n2 of phase {phase} ")
    both = [line.replace("n1", "n3") for line in OWN["n1"]]
    assert len(copied([*OWN["n1"], *copy, *both], phase)) == 3


def test_two_rows_of_another_node_are_enough_and_a_single_one_may_be_chance() -> None:
    part = [line.replace("n1", "n2") for line in OWN["n1"][:2]]
    assert len(copied([*OWN["n1"], *part, *OWN["n2"][2:], *OWN["n3"]])) == 1
    assert copied([*OWN["n1"], *part[:1], *OWN["n2"][1:], *OWN["n3"]]) == []


ONCE = ["@100 settled n1 version v", "@100 settled n1 keyspace k", "@104 settled n3 version v"]


def test_a_final_reading_with_one_instant_is_told_by_it_unless_all_nodes_have_it() -> None:
    copy = [line.replace("n1", "n2") for line in ONCE[:2]]
    assert len(copied([*ONCE, *copy])) == 1
    assert copied([*ONCE[:2], *copy]) == []
    assert copied([*ONCE, *copy], "running") == []
    assert len(copied([*ONCE, *copy], "restarted")) == 1


@pytest.mark.parametrize("phases", [("settled", "running"), ("restarted", "settled")])
def test_all_nodes_of_a_phase_are_those_that_were_read_in_it(phases: tuple[str, str]) -> None:
    alike = [line.replace("settled", phases[0]) for line in ONCE[:2]]
    rest = [line.replace("settled", phases[1]) for line in OWN["n3"]]
    assert copied([*alike, *(line.replace("n1", "n2") for line in alike), *rest]) == []


def test_two_readings_of_one_node_are_no_copies() -> None:
    twice = (line.replace("settled", "settled#1") for line in OWN["n1"])
    assert copied([*OWN["n1"], *twice, OWN["n2"][0].replace("@103", "@100"), *OWN["n2"][1:]]) == []
