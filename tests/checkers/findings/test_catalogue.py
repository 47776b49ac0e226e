"""The catalogue: complete, well formed, and the only source of anomaly types."""

from __future__ import annotations

import re

import pytest
from known_bugs import BUGS, findings
from places import ROOT

from schemaquake.checkers.findings.catalogue import CATALOGUE, AnomalyType, anomaly

SEEDS = (
    "Cassandra 0.7 Live Schema Updates",
    "Cassandra 1.1 Schema Management",
    "CEP-21 Transactional Cluster Metadata",
    "ScyllaDB, Making Schema Changes Safe with Raft",
)
PACKAGE = ROOT / "checkers"


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_type_says_what_it_is_what_it_does_and_who_spoke_of_it(name: str) -> None:
    known = CATALOGUE[name]
    assert known.name == name
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*|G[0-9a-z]+(-[a-z]+)*|G(-[a-z]+)+|PL-SI-cycle-exists", name)
    assert known.title
    assert not known.title.endswith(".")
    assert known.description.endswith(".")
    assert known.worst.endswith(".")
    assert known.seeds or known.papers
    assert all(seed.startswith(tuple(f"{document}:" for document in SEEDS)) for seed in known.seeds)
    assert known.tickets or known.papers
    assert all(re.fullmatch(r"CASSANDRA-\d+", ticket) for ticket in known.tickets)
    assert all(re.fullmatch(r"B\d+", bug) for bug in known.bugs)


def test_titles_are_told_apart() -> None:
    assert len({known.title for known in CATALOGUE.values()}) == len(CATALOGUE)


def test_every_seed_document_is_spoken_of() -> None:
    told = [seed for known in CATALOGUE.values() for seed in known.seeds]
    assert all(any(seed.startswith(document) for seed in told) for document in SEEDS)


def test_a_finding_carries_title_and_references_of_its_type() -> None:
    found = anomaly("lost-column", objects=["k.t"], nodes=["n2", "n1", "n2"], ops=[7, 3, 7], explanation="…")
    known = CATALOGUE["lost-column"]
    assert (found.type, found.title) == ("lost-column", known.title)
    assert found.references == (*known.tickets, *known.seeds, *known.papers)
    assert found.nodes == ("n1", "n2")
    assert found.ops == (3, 7)


def test_a_type_that_the_catalogue_does_not_know_cannot_be_reported() -> None:
    with pytest.raises(KeyError, match="lost-marbles"):
        anomaly("lost-marbles", explanation="…")


def test_the_catalogue_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        CATALOGUE["new"] = CATALOGUE["lost-column"]  # type: ignore[index]  # that is the point
    assert isinstance(CATALOGUE["lost-column"], AnomalyType)


STRUCTURE = ("table_ids", "merged_definitions", "references", "divergence", "objects", "alterations")


def test_what_the_structure_checkers_say_they_find_is_in_the_catalogue_and_found_by_a_known_bug() -> None:
    promised: set[str] = set()
    for module in STRUCTURE:
        text = (PACKAGE / f"{module}.py").read_text(encoding="utf-8")
        opening = text.split('"""')[1].split("Finds:")[1].split("Source:")[0]
        promised |= set(re.findall(r"`([a-z-]+)`", opening))
    assert promised <= set(CATALOGUE)
    shown = set().union(*(findings(bug.records()) for bug in BUGS))
    assert promised - shown == {"undead-column", "unexplained-object"}
