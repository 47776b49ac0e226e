"""Configuration: what each known version is told, against what is known of its line (conf/ of its release, and real boots)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemaquake.clusters.systems.configuration import (
    Place,
    command,
    server_folders,
    tokens,
    tool_command,
    write_configuration,
    yaml,
)
from schemaquake.clusters.systems.coordinates import KNOWN_VERSIONS
from schemaquake.clusters.systems.system import parse_system, recipe_for

THIRD = 2**127 // 3
JARS = [Path("/lib/cassandra-all.jar"), Path("/lib/jamm-0.3.2.jar"), Path("/lib/jamming-1.jar")]
LINES = [
    # versions, what they have in common
    (("0.7.10", "0.8.10", "1.0.12", "1.1.0", "1.1.12"), "Thrift"),
    (("1.2.19", "2.0.17"), "early CQL"),
    (("2.1.22", "2.2.19", "3.0.22", "3.0.31", "3.11.5", "3.11.19"), "logback"),
    (("4.0.19", "4.1.10", "5.0.9", "6.0-alpha2"), "no Thrift"),
]


def place(folder="/run/nodes/n2", token=5):
    return Place(address="10.77.0.2", token=token, seeds=["10.77.0.1", "10.77.0.2"], folder=Path(folder))


def recipe(version):
    return recipe_for(parse_system(f"cassandra:{version}"))


def document(version):
    return yaml(recipe(version), place())


def words(version):
    return command(recipe(version), place(), java=Path("/bin/java"), class_path=JARS, java_options=["-XX:Some"])


def since(first):
    """The known versions from this one on."""
    return KNOWN_VERSIONS[KNOWN_VERSIONS.index(first) :]


def until(last):
    return KNOWN_VERSIONS[: KNOWN_VERSIONS.index(last) + 1]


def test_every_known_version_is_in_one_of_the_groups_below():
    assert [version for versions, _ in LINES for version in versions] == list(KNOWN_VERSIONS)


# ── cassandra.yaml ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_a_node_knows_its_place(version):
    told = document(version)
    assert told["listen_address"] == told["rpc_address"] == "10.77.0.2"
    assert (told["storage_port"], told["initial_token"], told["auto_bootstrap"]) == (7000, "5", False)
    assert told["data_file_directories"] == ["/run/nodes/n2/data"]
    assert told["commitlog_directory"] == "/run/nodes/n2/commitlog"
    assert told["saved_caches_directory"] == "/run/nodes/n2/saved_caches"


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_seeds_are_a_plain_list_in_0_7_and_a_provider_s_since(version):
    told = document(version)
    if version == "0.7.10":
        assert told["seeds"] == ["10.77.0.1", "10.77.0.2"]
        assert "seed_provider" not in told
    else:
        (provider,) = told["seed_provider"]
        assert provider["parameters"] == [{"seeds": "10.77.0.1,10.77.0.2"}]
        assert provider["class_name"] == "org.apache.cassandra.locator.SimpleSeedProvider"
        assert "seeds" not in told


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_classes_bear_their_full_names(version):
    told = document(version)
    random = version in until("1.1.12")
    assert told["partitioner"] == f"org.apache.cassandra.dht.{'Random' if random else 'Murmur3'}Partitioner"
    assert told["endpoint_snitch"].startswith("org.apache.cassandra.locator."), "0.7 knows no short names"
    assert ("num_tokens" in told) is not random


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_clients_are_let_in_at_one_port(version):
    told = document(version)
    if version in until("1.1.12"):
        assert told["rpc_port"] == 9160
        assert "native_transport_port" not in told
        assert "start_rpc" not in told, "nothing to switch: there is nothing else"
        return
    assert told["native_transport_port"] == 9042
    assert "rpc_port" not in told
    switched = (told.get("start_native_transport"), told.get("start_rpc"))
    assert switched == ((True, False) if version in until("3.11.19") else (None, None))


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_timeouts_are_named_as_the_line_names_them(version):
    told = document(version)
    named = {name for name in told if "timeout" in name}
    if version in until("1.1.12"):
        assert named == {"rpc_timeout_in_ms"}
    elif version in until("4.0.19"):
        assert named == {
            "request_timeout_in_ms",
            "read_request_timeout_in_ms",
            "range_request_timeout_in_ms",
            "write_request_timeout_in_ms",
            "cross_node_timeout",
        }
        assert told["cross_node_timeout"] is False
    else:
        assert {"request_timeout", "read_request_timeout", "range_request_timeout", "internode_timeout"} <= named
        assert not any(name.endswith("_in_ms") for name in told)
        assert told["internode_timeout"] is False


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_an_acknowledged_write_is_on_disk(version):
    """Otherwise rows lost in a restart would be blamed on the schema."""
    told = document(version)
    assert told["commitlog_sync"] == "batch"
    windows = {name: value for name, value in told.items() if "batch_window" in name}
    assert windows == ({"commitlog_sync_batch_window_in_ms": 1} if version in until("3.11.19") else {})
    assert "commitlog_sync_period_in_ms" not in told, "batch and periodic exclude each other"


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_files_are_not_mapped_where_they_could_not_be_unmapped(version):
    assert document(version).get("disk_access_mode") == ("standard" if version in until("3.11.19") else None)


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_folders_are_those_the_line_asks_for(version):
    named = {name for name in document(version) if name.endswith("_directory")}
    hints = {"hints_directory"} if version in since("3.0.22") else set()
    changes = {"cdc_raw_directory"} if version in since("3.11.5") else set()
    assert named == {"commitlog_directory", "saved_caches_directory"} | hints | changes


@pytest.mark.parametrize(
    ("version", "functions", "views"),
    [
        ("2.1.22", None, None),
        ("2.2.19", "enable_user_defined_functions", None),
        ("3.0.22", "enable_user_defined_functions", None),  # views need no switch before 4.0
        ("3.11.19", "enable_user_defined_functions", None),
        ("4.0.19", "enable_user_defined_functions", "enable_materialized_views"),
        ("4.1.10", "user_defined_functions_enabled", "materialized_views_enabled"),
        ("5.0.9", "user_defined_functions_enabled", "materialized_views_enabled"),
        ("6.0-alpha2", "user_defined_functions_enabled", "materialized_views_enabled"),
    ],
)
def test_functions_and_views_are_switched_on_by_the_names_of_the_time(version, functions, views):
    told = document(version)
    switches = {name for name in told if "user_defined_functions" in name or "materialized_views" in name}
    assert switches == {name for name in (functions, views) if name is not None}
    assert all(told[name] is True for name in switches)


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_configuration_is_written_as_json_which_is_yaml(version, tmp_path):
    here = place(folder=tmp_path / "n2")
    write_configuration(recipe(version), here, {"phi_convict_threshold": 12, "storage_port": 7001})
    told = json.loads((tmp_path / "n2" / "cassandra.yaml").read_text())
    assert (told["phi_convict_threshold"], told["storage_port"]) == (12, 7001)
    assert {path.name for path in (tmp_path / "n2").iterdir() if path.is_dir()} == set(server_folders(recipe(version)))
    logging = "log4j.properties" if version in until("2.0.17") else "logback.xml"
    assert (tmp_path / "n2" / logging).stat().st_size > 100


# ── tokens ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_random_tokens_begin_at_nought_and_divide_two_to_the_127th():
    assert tokens(recipe("1.0.12"), 3) == [0, THIRD, 2 * 2**127 // 3]


def test_murmur_tokens_divide_the_whole_of_64_bits():
    assert tokens(recipe("1.2.19"), 4) == [-(2**63) + 1, -(2**62) + 1, 1, 2**62 + 1]


@settings(deadline=None)  # a busy machine is no slow function
@given(st.sampled_from(KNOWN_VERSIONS), st.integers(1, 40))
def test_no_two_nodes_share_a_token_and_all_are_in_the_ring(version, count):
    ring = tokens(recipe(version), count)
    assert len(set(ring)) == count
    first, last = (0, 2**127) if version in until("1.1.12") else (-(2**63) + 1, 2**63 - 1)
    assert all(first <= token <= last for token in ring)
    assert list(ring) == sorted(ring)


# ── command lines ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_the_server_is_the_daemon_of_its_time(version):
    package = "thrift" if version in until("1.1.12") else "service"
    assert words(version)[-1] == f"org.apache.cassandra.{package}.CassandraDaemon"
    assert words(version)[-3:-1] == ["-cp", ":".join(map(str, JARS))]
    assert "-Dcassandra.config=file:///run/nodes/n2/cassandra.yaml" in words(version)
    assert "-XX:Some" in words(version)


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_log_and_jmx_are_as_the_line_knows_them(version):
    if version in until("2.0.17"):
        assert "-Dlog4j.configuration=file:///run/nodes/n2/log4j.properties" in words(version)
        assert "-Dcom.sun.management.jmxremote.port=7199" in words(version)
        assert "-Dcom.sun.management.jmxremote.authenticate=false" in words(version)
    else:
        assert "-Dlogback.configurationFile=/run/nodes/n2/logback.xml" in words(version)
        assert "-Dcassandra.jmx.local.port=7199" in words(version)


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_heaps_are_small_and_smaller_up_to_2_0(version):
    assert "-Xmx192m" in words(version) if version in until("2.0.17") else "-Xmx400m" in words(version)


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_jamm_is_an_agent_where_it_could_not_measure_otherwise(version):
    agents = [word for word in words(version) if word.startswith("-javaagent:")]
    expected = version != "0.7.10" and version in (*until("2.0.17"), "4.0.19", "4.1.10")
    assert agents == (["-javaagent:/lib/jamm-0.3.2.jar"] if expected else [])
    assert ("-XX:+AllowArchivingWithJavaAgent" in words(version)) == expected, "or there is no startup archive"


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_schema_is_pulled_soon_where_that_can_be_asked_for(version):
    asked = "-Dcassandra.migration_delay_ms=1000" in words(version)
    assert asked == (version in {"4.0.19", "4.1.10", "5.0.9"})


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_nobody_waits_for_nobody(version):
    assert "-Dcassandra.skip_wait_for_gossip_to_settle=0" in words(version)
    delay_ms = {"6.0-alpha2": 2000}.get(version, 1000)
    assert [word for word in words(version) if word.startswith("-Dcassandra.ring_delay_ms")] == [
        f"-Dcassandra.ring_delay_ms={delay_ms}"
    ]


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_a_joining_node_is_not_forgotten_because_the_ring_delay_is_short(version):
    assert "-Dcassandra.gossip_quarantine_delay_ms=20000" in words(version)


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_nodetool_is_the_class_of_its_time(version):
    asked = tool_command(recipe(version), place(), java=Path("/bin/java"), class_path=JARS)
    tool = "NodeCmd" if version in until("2.0.17") else "NodeTool"
    assert asked[-5:] == [f"org.apache.cassandra.tools.{tool}", "-h", "127.0.0.1", "-p", "7199"]
    assert "-Xmx128m" in asked
    assert not any(word.startswith("-javaagent:") for word in asked)
