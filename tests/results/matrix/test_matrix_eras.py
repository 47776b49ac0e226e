"""Eras: every version belongs to one, and every change has a release and a reason."""

from __future__ import annotations

import re

import pytest
from matrices import SYSTEMS

from schemaquake.clusters.systems.system import parse_system, recipe_for
from schemaquake.results.matrix.eras import ERAS, Era, Versions, era_of

IDS = [era.name for era in ERAS]


@pytest.mark.parametrize(
    ("system", "inside"),
    [
        ("cassandra:1.1.0", True),
        ("cassandra:5.0.9", True),
        ("cassandra:5.99.0", True),
        ("cassandra:6.0-alpha2", False),
        ("cassandra:1.0.12", False),
        ("scylladb:5.0.0", False),
        ("cassandra", False),
        ("cassandra:x", False),
    ],
)
def test_a_range_holds_its_first_line_and_not_its_last(system: str, *, inside: bool):
    assert (system in Versions.parse("cassandra", "1.1..6.0")) is inside


def test_a_range_may_have_no_end():
    assert "cassandra:99.1" in Versions.parse("cassandra", "6.0..")
    assert "cassandra:5.1" not in Versions.parse("cassandra", "6.0..")


def test_numbers_are_compared_as_numbers():
    assert "cassandra:3.11.19" in Versions.parse("cassandra", "3.2..4.0")


def test_what_is_no_range_is_refused():
    with pytest.raises(ValueError, match="is not a range"):
        Versions.parse("cassandra", "1.1")


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_version_of_the_matrix_is_of_one_era_that_launch_recipes_call_the_same(system: str):
    eras = [era.name for era in ERAS if system in era.versions]
    assert eras == [recipe_for(parse_system(system)).era]
    assert era_of(system) in ERAS


def test_a_system_that_nobody_speaks_of_is_of_no_era():
    assert era_of("simulated:1.0") is None


@pytest.mark.parametrize("era", ERAS, ids=IDS)
def test_every_change_has_a_release_a_reason_and_known_tickets(era: Era):
    assert era.changes
    for change in era.changes:
        assert re.search(r"\d+\.\d+", change.since)
        assert change.what.endswith(".")
        assert change.why.endswith(".")
    tickets = [*era.tickets, *(ticket for change in era.changes for ticket in change.tickets)]
    assert all(re.fullmatch(r"CASSANDRA-\d{4,5}|scylladb#\d+", ticket) for ticket in tickets)


@pytest.mark.parametrize("era", ERAS, ids=IDS)
def test_changes_belong_to_their_era(era: Era):
    for change in era.changes:
        releases = re.findall(r"\d+\.\d+(?:[.-]\w+)?", change.since)
        assert any(f"{era.versions.product}:{release}" in era.versions for release in releases), change.since
