"""The prefix guard beside the servers' own parsers: whatever they read in a statement that it lets through, it read too."""

from __future__ import annotations

import pytest
from hostile_statements import HARMLESS, OURS, hostile_names, hostile_statements
from server_parser import parse_all

from schemaquake.clusters.cql.targets import NotUnderstood, targets

pytestmark = pytest.mark.cluster  # needs Java and a release's jars

_ROWS = ("Select", "Update", "Delete", "Batch", "Modification")


def understood(statement):
    try:
        return targets(statement)
    except NotUnderstood:
        return None


def compare(version, statements):
    """Return how many statements both understood, after comparing what they read in each."""
    both = 0
    for text, read in zip(statements, parse_all(version, statements), strict=True):
        ours = understood(text)
        if read is None or ours is None:
            continue
        both += 1
        assert read.keyspaces <= ours.keyspaces, (text, read)
        assert read.types <= ours.keyspaces or read.kind.startswith(_ROWS), (text, read)
        assert not read.unqualified, (text, read)
        assert not ours.reads_only or read.kind.startswith("Select"), (text, read)
    return both


def test_no_hostile_statement_is_read_otherwise_by_the_server():
    assert compare("5.0.9", list(dict.fromkeys(hostile_statements(1, 6_000)))) > 300


def test_no_name_or_value_of_a_change_leads_out_of_its_keyspace():
    statements = list(dict.fromkeys(hostile_names()))
    read = [one for one in parse_all("5.0.9", statements) if one is not None]
    assert len(read) > 2_000
    assert {name for one in read for name in one.keyspaces} == {OURS}
    assert not any(one.unqualified for one in read)


def test_what_workloads_send_is_understood_by_both():
    statements = [text.format(*[OURS] * text.count("{}")) for text in HARMLESS]
    assert all(understood(text) is not None for text in statements)
    assert compare("5.0.9", statements) == len(statements)


@pytest.mark.long
@pytest.mark.parametrize("version", ["1.1.12", "1.2.19", "2.0.17", "2.1.22", "2.2.19", "3.0.31", "3.11.19", "4.0.19", "4.1.10", "5.0.9", "6.0-alpha2"])  # fmt: skip
@pytest.mark.parametrize("seed", [2, 3])
def test_every_line_of_cassandra_reads_them_as_the_guard_does(version, seed):
    # The grammar of 1.1 has fewer of the statements.
    assert compare(version, list(dict.fromkeys(hostile_statements(seed, 30_000)))) > (
        500 if version == "1.1.12" else 1_000
    )
