"""The crash table: which step a killed node's remains tell of, and whether what followed is what the document says."""

from __future__ import annotations

import dataclasses
from collections import Counter
from random import Random

import orjson
import pytest
from typer.testing import CliRunner

from schemaquake.harness.cli.command_line import application
from schemaquake.results.experiments.crash_table.delays import next_delay
from schemaquake.results.experiments.crash_table.evidence import Evidence, describe_result, died_after
from schemaquake.results.experiments.crash_table.table import agrees, evidence_of, render_markdown, rows_of, steps

BEFORE_ANYTHING = {
    "number": 0,
    "kind": "create-table",
    "delay_s": 0.01,
    "outcome": "info",
    "error": "TTransportException: system_add_column_family: TSocket read 0 bytes",
    "snapshot": False,
    "files": False,
    "flushing": False,
    "started": True,
    "first_error": None,
    "changes_again": True,
}
DROP = {"kind": "drop-table", "files": True, "files_after": True, "rows": 3}
STEPS = {step.id: step for step in steps()}


def told(**more):
    return Evidence(**{**BEFORE_ANYTHING, **more})


DEFINITIONS = {"definitions": True}
MIGRATION = {**DEFINITIONS, "migration": True}
MOVED = {**MIGRATION, "moved": True}
MENDED = {**MOVED, "reapplied": True, "applied": True}
FLUSHED = {**MOVED, "loaded": True, "applied": True}
GONE = {"files": False, "files_after": False, "snapshot": True, "rows": 0}


@pytest.mark.parametrize(
    ("evidence", "step"),
    [
        ({}, "1"),
        (DROP, "1"),
        ({**DROP, "snapshot": True}, "1.1"),
        (DEFINITIONS, "2"),
        (MIGRATION, "3"),
        (MENDED, "4"),
        ({**DROP, **MENDED}, "4"),
        (FLUSHED, "5 or 6"),
        ({**DROP, **FLUSHED}, "5"),
        ({**DROP, **FLUSHED, **GONE}, "6"),
        ({**FLUSHED, "outcome": "ok", "error": None}, "acknowledged"),
        ({"started": False, "first_error": "ERROR boom"}, "untold"),
        ({"started": False, "first_error": "ERROR boom", "flushing": True}, "4"),
    ],
    ids=lambda value: (
        value if isinstance(value, str) else " ".join(sorted(value.keys() | {value.get("kind", "create")}))
    ),
)
def test_remains_tell_the_last_step_that_was_done(evidence, step):
    assert died_after(told(**evidence)) == step


@pytest.mark.parametrize(
    ("step", "evidence", "expected"),
    [
        ("1", {}, True),
        ("1", {"applied": True}, False),
        ("2", DEFINITIONS, True),
        ("2", {**DEFINITIONS, "started": False}, False),
        ("3", MIGRATION, True),
        ("3", {**MIGRATION, "applied": True}, False),
        ("4", MENDED, False),
        ("4", {**MOVED, "applied": False}, True),
        ("5", FLUSHED, True),
        ("5", {**DROP, **FLUSHED}, True),
        ("5", {**DROP, **FLUSHED, "files_after": False}, False),
        ("5", {**FLUSHED, "applied": False}, False),
        ("6", {**DROP, **FLUSHED, **GONE}, True),
    ],
)
def test_what_followed_is_held_against_the_document(step, evidence, expected):
    assert agrees(STEPS[step], told(**evidence)) is expected


@pytest.mark.parametrize(
    ("evidence", "sentence"),
    [
        ({}, "starts; the table is not created"),
        (MIGRATION, "starts; the table is not created; left over: definitions and migration"),
        (MENDED, "starts; the table is created; the migration was applied again after the commit log"),
        (
            {**DROP, **FLUSHED},
            "starts; the table is dropped; its files are left; created anew, it has its old rows: an instant database",
        ),
        ({**DROP, **FLUSHED, **GONE}, "starts; the table is dropped"),
        ({**DROP, "rows": 0}, "starts; the table is not dropped; its rows are gone"),
        ({**DROP, "snapshot": True}, "starts; the table is not dropped; an extra snapshot"),
        ({"changes_again": False}, "starts; the table is not created; refuses every further change"),
        ({"started": False, "first_error": "ERROR boom"}, "the node does not start: ERROR boom"),
        (
            {
                "started": False,
                "first_error": "ERROR [main] 14:05 Exception\njava.io.IOError: java.io.IOException: x\n\tat a.b(C.java:1)\n"
                "Caused by: java.io.IOException: Failed to delete /a/data/system/Migrations-tmp-f-94-Index.db",
            },
            "the node does not start: java.io.IOException: Failed to delete Migrations-tmp-f-N-Index.db",
        ),
    ],
)
def test_what_happened_is_one_sentence(evidence, sentence):
    assert describe_result(told(**evidence)) == sentence


def test_the_document_s_steps_are_all_there_in_its_order():
    assert list(STEPS) == ["1", "1.1", "2", "3", "4", "5", "6"]
    assert all(step.says for step in steps())


def test_tries_of_one_step_are_counted_together_and_by_what_happened():
    tries = [told(number=1, **MENDED), told(number=2, **MOVED), told(number=3, **MENDED), told(number=4)]
    first, fourth = rows_of(tries)
    assert (first.died_after, first.tries, first.as_told) == ("1", 1, 1)
    assert (fourth.died_after, fourth.tries, fourth.as_told) == ("4", 3, 1)
    assert list(fourth.happened.values()) == [2, 1]
    assert fourth.examples == (1, 2)


def test_a_try_survives_being_written_down():
    one = told(log=("INFO Applying migration x",), **MENDED)
    document = orjson.loads(orjson.dumps(one.to_json()))
    assert document["died_after"] == "4"
    assert evidence_of(document) == one
    assert {field.name for field in dataclasses.fields(Evidence)} < document.keys()


def test_the_page_has_every_step_that_was_met_and_names_those_that_were_not():
    page = render_markdown("cassandra:0.7.10", [told(**MENDED), told(**FLUSHED)], "schemaquake crash-table --tries 1")
    assert '| 4 | create-table | 4, update the "Last Migration" row: Broken' in page
    assert "| 0 of 1 | 1 of 1: starts; the table is created; the migration was applied again" in page
    assert "- Step 2 (update SCHEMA_CF with a new schema row) was never the last: no kill met it." in page
    assert "- Step 5 (" not in page
    assert "`schemaquake crash-table --tries 1`" in page


def test_delays_find_every_step_of_a_change_whose_steps_are_short_and_long():
    """Steps of 40, 0.5, 0.5, 3, 20 and 6 ms, of which nobody told the search."""
    ends = {"1": 0.040, "2": 0.0405, "3": 0.041, "4": 0.044, "5": 0.064, "6": 0.070}
    order = (*ends, "acknowledged")
    random = Random(1)
    past = []
    for _ in range(150):
        delay = next_delay(past, order, horizon_s=0.084, random=random)
        assert 0 <= delay <= 0.084
        late = delay + random.uniform(-0.001, 0.001)  # nothing is on time
        past.append((delay, next((step for step, end in ends.items() if late < end), "acknowledged")))
    met = Counter(step for _, step in past)
    assert set(met) == set(order)
    assert met["2"] >= 3
    assert max(met.values()) < 80, (
        "even delays would fall into the first step every other time, and into the second once"
    )


def test_a_version_without_ordered_migrations_has_no_crash_table(tmp_path):
    result = CliRunner().invoke(
        application(), ["crash-table", "--system", "cassandra:5.0.9", "--runs", str(tmp_path)], catch_exceptions=True
    )
    assert result.exit_code != 0
    assert "does not apply migrations in order" in f"{result.exception} {result.output}"
    assert not list(tmp_path.iterdir())
