"""Settings of cassandra.yaml that a plan asks for."""

from __future__ import annotations

from clusters.local import _settings


def test_options_under_yaml_are_settings_and_keep_their_type():
    options = {"yaml.metadata_snapshot_frequency": "5", "yaml.discovery_timeout": "2s", "yaml.auto_snapshot": "false"}
    assert _settings(options) == {
        "metadata_snapshot_frequency": 5,
        "discovery_timeout": "2s",
        "auto_snapshot": False,
    }


def test_other_options_are_not_settings():
    assert _settings({"variant": "column", "partition.target": "one"}) == {}
