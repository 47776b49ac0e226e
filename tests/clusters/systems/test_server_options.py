"""Settings of cassandra.yaml that a plan asks for."""

from __future__ import annotations

from pathlib import Path

from schemaquake.clusters.systems.configuration import Place, command
from schemaquake.clusters.systems.server_options import system_properties, yaml_settings
from schemaquake.clusters.systems.system import parse_system, recipe_for


def test_options_under_yaml_are_settings_and_keep_their_type():
    options = {"yaml.metadata_snapshot_frequency": "5", "yaml.discovery_timeout": "2s", "yaml.auto_snapshot": "false"}
    assert yaml_settings(options) == {
        "metadata_snapshot_frequency": 5,
        "discovery_timeout": "2s",
        "auto_snapshot": False,
    }


def test_other_options_are_not_settings():
    assert yaml_settings({"variant": "column", "partition.target": "one"}) == {}


def test_options_under_property_are_given_to_the_virtual_machine_as_they_stand():
    options = {"property.cassandra.unsafe.x": "true", "property.cassandra.y": "2s", "yaml.discovery_timeout": "2s"}
    assert system_properties(options) == {"cassandra.unsafe.x": "true", "cassandra.y": "2s"}


def test_a_property_that_is_asked_for_replaces_the_recipe_s():
    recipe = recipe_for(parse_system("cassandra:5.0.9"))
    place = Place(address="10.0.0.1", token=0, seeds=["10.0.0.1"], folder=Path("/nodes/n1"))
    asked = {"cassandra.ring_delay_ms": "7", "cassandra.unsafe.x": "true"}
    words = command(recipe, place, java=Path("java"), class_path=[], java_options=[], properties=asked)
    assert [word for word in words if word.startswith(("-Dcassandra.ring_delay_ms", "-Dcassandra.unsafe"))] == [
        "-Dcassandra.ring_delay_ms=7",
        "-Dcassandra.unsafe.x=true",
    ]
