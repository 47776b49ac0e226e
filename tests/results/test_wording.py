"""Wording: what systems, and what several of them together, are called."""

from __future__ import annotations

import pytest

from schemaquake.clusters.systems.simulated.family import Simulated
from schemaquake.results.wording import days_of, length_of_run, product_of_all, short_name, system_name


@pytest.mark.parametrize(
    ("system", "name"),
    [
        ("cassandra:5.0.9", "Cassandra 5.0.9"),
        ("cassandra", "Cassandra"),
        ("scylladb:2025.1.0", "ScyllaDB 2025.1.0"),
        ("simulated:cassandra-5.0", "Simulated Cassandra 5.0"),
        ("simulated:cassandra-6.0-alpha2", "Simulated Cassandra 6.0-alpha2"),
        ("simulated:scylladb-6.2", "Simulated ScyllaDB 6.2"),
        ("simulated", "Simulated"),
        ("unheard-of:1.0", "unheard-of 1.0"),
        ("simulated:unheard-of", "Simulated unheard of"),
        ("", ""),
    ],
)
def test_a_system_is_called_as_people_write_it(system, name):
    assert system_name(system) == name


def test_every_simulated_system_is_called_after_a_product():
    for version in Simulated().known_versions:
        name = system_name(f"simulated:{version}")
        assert name.startswith(("Simulated Cassandra ", "Simulated ScyllaDB "))
        assert "-" not in name.removesuffix("-alpha2")


def test_versions_of_one_product_go_by_their_versions():
    cassandras = ["cassandra:5.0.9", "cassandra:6.0-alpha2"]
    assert product_of_all(cassandras) == "Cassandra"
    assert [short_name(system, cassandras) for system in cassandras] == ["5.0.9", "6.0-alpha2"]
    models = ["simulated:cassandra-5.0", "simulated:cassandra-6.0"]
    assert product_of_all(models) == "Simulated Cassandra"
    assert [short_name(system, models) for system in models] == ["5.0", "6.0"]
    assert short_name("cassandra", ["cassandra"]) == "Cassandra"


def test_versions_of_several_products_go_by_both():
    several = ["simulated:cassandra-5.0", "simulated:scylladb-6.2"]
    assert product_of_all(several) is None
    assert product_of_all(["cassandra:5.0.9", "simulated:cassandra-5.0"]) is None
    assert short_name("simulated:scylladb-6.2", several) == "Simulated ScyllaDB 6.2"


@pytest.mark.parametrize(
    ("first", "last", "systems", "said"),
    [
        ("2026-11-21T10:00:00", "2026-11-23T10:00:00", ["cassandra:5.0.9"], "2026-11-21 to 2026-11-23"),
        ("2026-11-21T10:00:00", "2026-11-21T11:00:00", ["cassandra:5.0.9", "simulated:cassandra-5.0"], "2026-11-21"),
        (None, None, ["simulated:cassandra-5.0"], "in virtual time"),
        (None, None, ["cassandra:5.0.9"], ""),
        (None, None, [], ""),
    ],
)
def test_what_was_seen_on_models_alone_has_no_date(first, last, systems, said):
    assert days_of(first, last, systems) == said


def test_a_length_in_virtual_time_is_called_one():
    assert length_of_run(5.014, "simulated:cassandra-5.0") == "5.01 s of virtual time"
    assert length_of_run(5.014, "cassandra:5.0.9") == "5.01 s"
