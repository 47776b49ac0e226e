"""The catalogue: complete, well formed, and the only source of anomaly types."""

from __future__ import annotations

import re

import pytest
from known_bugs import BUGS, findings
from plugins import distribution, on_path

from schemaquake.checkers.findings.catalogue import (
    CATALOGUE,
    AnomalyType,
    anomaly,
    finders,
    halts_changes,
    prominence_of,
    scope_of,
)
from schemaquake.harness.errors import PlanError
from schemaquake.harness.registry import load, load_all

SEEDS = (
    "Cassandra 0.7 Live Schema Updates",
    "Cassandra 1.1 Schema Management",
    "CEP-21 Transactional Cluster Metadata",
    "ScyllaDB, Making Schema Changes Safe with Raft",
)


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


STRUCTURE = ("table-ids", "merged-definitions", "references", "divergence", "objects", "alterations")


def test_what_checkers_find_is_the_catalogue() -> None:
    found = [kind for checker in load_all("checkers").values() for kind in checker.finds]
    assert set(found) == set(CATALOGUE)
    for checker in load_all("checkers").values():
        assert len(set(checker.finds)) == len(checker.finds)
    assert finders()["unwritten-value"] == {"quorum", "batch-atomicity"}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_checker_declares_what_it_finds_in_a_known_bug(bug) -> None:
    for name in STRUCTURE:
        checker = load("checkers", name)
        assert {one.type for one in checker.check(bug.records(), limit_s=10).anomalies} <= set(checker.finds)


def test_nearly_all_that_the_structure_checkers_declare_is_found_in_some_known_bug() -> None:
    declared = {kind for name in STRUCTURE for kind in load("checkers", name).finds}
    shown = set().union(*(findings(bug.records()) for bug in BUGS))
    assert declared - shown == {"undead-column", "unexplained-object", "changed-by-restart"}


def test_causes_are_in_the_catalogue_and_nothing_follows_from_itself() -> None:
    def causes(kind: str, seen: frozenset[str] = frozenset()) -> None:
        assert kind not in seen
        for cause in CATALOGUE[kind].follows_from:
            causes(cause, seen | {kind})

    for name in CATALOGUE:
        causes(name)


def test_a_lost_node_is_told_first_and_what_only_sums_up_last() -> None:
    order = sorted(CATALOGUE, key=prominence_of, reverse=True)
    assert order[:2] == ["node-will-not-start", "node-died"]
    assert set(order[-2:]) == {"non-linearizable-ddl", "unexpected-log-error"}
    assert scope_of("schema-disagreement") == "cluster"
    assert (prominence_of("described-nowhere"), scope_of("described-nowhere")) == (0, "object")


# ── catalogues from outside the tree ─────────────────────────────────────────────────────────────────────────────────

ENTRY = 'title = "T"\ndescription = "D."\nworst = "W."\n'


@pytest.fixture
def outside(tmp_path):
    """Install a package with that anomalies.toml (None: without)."""

    def install(text: str | None) -> None:
        package = tmp_path / "strange_checkers"
        package.mkdir()
        (package / "__init__.py").touch()
        if text is not None:
            (package / "anomalies.toml").write_text(text, encoding="utf-8")
        distribution(tmp_path, {"anomalies": {"strange": "strange_checkers"}})

    with on_path(tmp_path):
        yield install


def test_a_type_from_outside_needs_a_title_a_description_and_what_it_does(outside) -> None:
    outside(f"[strange-thing]\n{ENTRY}prominence = 99\n")
    assert CATALOGUE["strange-thing"] == AnomalyType(
        name="strange-thing", title="T", description="D.", worst="W.", prominence=99
    )
    assert max(CATALOGUE, key=prominence_of) == "strange-thing"
    assert anomaly("strange-thing", explanation="…").title == "T"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (None, ("strange_checkers", "anomalies.toml")),
        ("[strange", ("strange_checkers", "TOML")),
        (f"[lost-column]\n{ENTRY}", ("lost-column", "strange_checkers", "schemaquake.checkers.findings")),
        ('[strange-thing]\ntitle = "T"\n', ("strange-thing", "strange_checkers", "description")),
        (f"[strange-thing]\n{ENTRY}colour = 1\n", ("strange-thing", "colour")),
        (f'[strange-thing]\n{ENTRY}scope = "moon"\n', ("strange-thing", "moon", "cluster")),
    ],
    ids=["no file", "no TOML", "described twice", "no description", "a field that there is not", "no scope"],
)
def test_a_catalogue_from_outside_that_is_wrong_is_refused_by_name(outside, text, names) -> None:
    outside(text)
    with pytest.raises(PlanError) as refused:
        len(CATALOGUE)
    assert all(name in str(refused.value) for name in names)


def test_what_halts_changes_and_what_is_then_seen_elsewhere() -> None:
    halting = {name for name, known in CATALOGUE.items() if known.halts_changes}
    assert halting == {
        *("dangling-type", "dangling-function", "dangling-index-target", "headless-table", "bad-primary-key"),
        *("merged-definitions", "memory-disk-divergence", "node-will-not-start"),
    }
    assert all(map(halts_changes, halting))
    assert not halts_changes("unheard-of")
    ways = {
        way: {name for name, known in CATALOGUE.items() if known.elsewhere == way} for way in ("stopped", "divided")
    }
    assert ways["stopped"] == {
        *("memory-disk-divergence", "vanished-object", "invisible-change", "unreadable-table", "unwritable-table"),
        *("unexpected-log-error", "node-will-not-start", "hidden-divergence", "unavailable"),
    }
    assert ways["divided"] == {
        *("resurrected-object", "unexplained-definition", "unexplained-sighting", "older-sighting", "lost-column"),
        *("undead-column", "lost-field", "lost-option", "schema-disagreement"),
    }
