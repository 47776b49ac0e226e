"""What is started in a container, from what the engine says of its image."""

from __future__ import annotations

import json

import pytest

from schemaquake.clusters.docker.server import Image, Joining, edited, server_of
from schemaquake.clusters.systems.system import parse_system, recipe_for
from schemaquake.harness.errors import PlanError

OFFICIAL = {
    "Id": "sha256:official",
    "Config": {
        "Env": ["PATH=/opt/cassandra/bin:/usr/bin", "CASSANDRA_CONF=/etc/cassandra", "CASSANDRA_VERSION=5.0.9"],
        "Entrypoint": ["docker-entrypoint.sh"],
        "Cmd": ["cassandra", "-f"],
        "User": "",
        "Volumes": {"/var/lib/cassandra": {}},
        "Labels": None,
    },
}
OURS = {
    "Id": "sha256:ours",
    "Config": {**OFFICIAL["Config"], "Labels": {"io.schemaquake.system": "cassandra:5.0.9"}},
}
SCYLLA = {
    "Id": "sha256:scylla",
    "Config": {
        "Env": ["PATH=/opt/scylladb/python3/bin:/usr/bin:/usr/sbin"],
        "Entrypoint": ["/docker-entrypoint.py"],
        "Cmd": None,
        "Volumes": {"/var/lib/scylla": {}},
    },
}
ADDRESSES = ["10.79.0.11", "10.79.0.12", "10.79.0.13"]


def server(attributes, system="cassandra:5.0.9", number=1, **more):
    options = {"addresses": ADDRESSES, "memory_mb": 1024, "settings": {}, "properties": {}, **more}
    return server_of(Image("i:1", attributes), parse_system(system), number=number, **options)


def test_the_official_image_starts_its_own_command_and_is_told_its_place_by_its_own_variables():
    told = server(OFFICIAL)
    assert told.command == ["docker-entrypoint.sh", "cassandra", "-f"]
    assert told.environment["CASSANDRA_LISTEN_ADDRESS"] == told.environment["CASSANDRA_RPC_ADDRESS"] == "10.79.0.12"
    assert told.environment["CASSANDRA_SEEDS"] == ",".join(ADDRESSES)
    assert told.user is None


def test_nodes_divide_the_ring_evenly_without_bootstrapping():
    options = [server(OFFICIAL, number=number).environment["JVM_EXTRA_OPTS"].split() for number in range(3)]
    named = [dict(option.removeprefix("-D").split("=") for option in each) for each in options]
    tokens = [int(each["cassandra.initial_token"]) for each in named]
    assert tokens == sorted(tokens)
    assert tokens[1] - tokens[0] == pytest.approx(2**64 / 3, rel=1e-9)
    assert {each["cassandra.auto_bootstrap"] for each in named} == {"false"}


def properties_of(server):
    return dict(option.removeprefix("-D").split("=") for option in server.environment["JVM_EXTRA_OPTS"].split())


def test_founders_divide_the_ring_among_themselves_and_know_of_no_spare():
    without = [server(OFFICIAL, number=number) for number in range(3)]
    four = [*ADDRESSES, "10.79.0.14"]
    beside = [server(OFFICIAL, number=number, addresses=four, spares=1) for number in range(3)]
    assert beside == without


def joined(attributes=OFFICIAL, *, takes_place=False, **properties):
    joining = Joining(seeds=ADDRESSES[:2], takes_place=takes_place, properties=properties)
    return server(attributes, number=3, addresses=[*ADDRESSES, "10.79.0.14"], spares=1, joining=joining)


@pytest.mark.parametrize("attributes", [OFFICIAL, OURS])
def test_a_server_that_joins_bootstraps_in_the_middle_of_a_range_and_asks_those_that_run(attributes):
    told = joined(attributes)
    named = properties_of(told)
    taken = [int(properties_of(server(OFFICIAL, number=n))["cassandra.initial_token"]) for n in range(3)]
    apart = min((int(named["cassandra.initial_token"]) - token) % 2**64 for token in taken)
    assert apart == pytest.approx(2**64 / 6, rel=1e-9)
    assert named["cassandra.consistent.rangemovement"] == "true"
    assert "cassandra.auto_bootstrap" not in named
    assert told.settings["auto_bootstrap"] is True
    assert told.environment["CASSANDRA_SEEDS"] == ",".join(ADDRESSES[:2])
    assert told.environment["CASSANDRA_LISTEN_ADDRESS"] == "10.79.0.14"


def test_a_server_that_takes_another_s_place_names_it_and_no_token_of_its_own():
    setting = "cassandra.replace_address_first_boot"
    named = properties_of(joined(takes_place=True, **{setting: ADDRESSES[2]}))
    assert named[setting] == ADDRESSES[2]
    assert "cassandra.initial_token" not in named


def test_a_server_that_joins_by_a_command_which_is_not_cassandra_s_is_refused():
    joining = Joining(seeds=ADDRESSES, takes_place=False, properties={})
    with pytest.raises(PlanError, match=r"how scylladb:6\.2\.0 joins a cluster"):
        server(SCYLLA, "scylladb:6.2.0", joining=joining)


def test_where_the_first_must_be_alone_it_is_the_only_seed():
    assert server(OFFICIAL, "cassandra:6.0-alpha2").environment["CASSANDRA_SEEDS"] == "10.79.0.11"


def test_an_image_that_would_size_its_heap_by_the_machine_is_told_the_container_s():
    environment = server(OFFICIAL, memory_mb=2048).environment
    assert (environment["MAX_HEAP_SIZE"], environment["HEAP_NEWSIZE"]) == ("1024M", "256M")
    assert "MAX_HEAP_SIZE" not in server(OURS).environment


def test_what_the_line_s_features_need_is_switched_on_in_an_image_of_others():
    switched = {"user_defined_functions_enabled": True, "materialized_views_enabled": True}
    assert server(OFFICIAL).settings == switched
    assert server(OURS).settings == {}  # there since it was built
    assert server(OURS, settings={"num_tokens": 4}).settings == {"num_tokens": 4}
    older = server(OFFICIAL, "cassandra:4.0.17").settings
    assert older == {"enable_user_defined_functions": True, "enable_materialized_views": True}


def test_properties_of_the_user_win():
    option = server(OFFICIAL, properties={"cassandra.ring_delay_ms": "5"}).environment["JVM_EXTRA_OPTS"]
    assert "-Dcassandra.ring_delay_ms=5" in option.split()
    assert option.count("ring_delay_ms") == 1


def test_scylladb_is_started_without_its_supervisor():
    told = server(SCYLLA, "scylladb:6.2.0", memory_mb=1200)
    assert told.command[0] == "/usr/bin/scylla"
    named = dict(zip(told.command, told.command[1:], strict=False))
    assert named["--listen-address"] == named["--rpc-address"] == named["--api-address"] == "10.79.0.12"
    assert named["--seed-provider-parameters"] == "seeds=10.79.0.11"
    assert named["--memory"] == "1000M"
    assert told.data == "/var/lib/scylla/data"


def test_scylladb_takes_no_settings_of_cassandra():
    with pytest.raises(PlanError, match="Cassandra's"):
        server(SCYLLA, "scylladb:6.2.0", settings={"num_tokens": 1})


def test_an_image_without_a_command_is_no_server_s():
    with pytest.raises(PlanError, match="i:1 says of no command"):
        server({"Id": "sha256:x", "Config": {"Entrypoint": None, "Cmd": None}})


def test_the_user_of_an_image_is_kept_unless_it_is_root():
    def user(text):
        return Image("i", {"Id": "x", "Config": {"User": text}}).user

    assert [user(text) for text in ("1001:0", "cassandra", "0:0", "root", "")] == [
        "1001",
        "cassandra",
        None,
        None,
        None,
    ]


YAML = """\
# cluster_name: commented
cluster_name: 'Test Cluster'
seed_provider:
  # a comment within
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1:7000"

# and one after
data_file_directories:
- /var/lib/cassandra/data
- /other
materialized_views_enabled: false
"""


def test_a_setting_is_replaced_whatever_it_held():
    told = edited(YAML, {"seed_provider": [{"class_name": "S"}], "data_file_directories": ["/d"], "num_tokens": 4})
    lines = told.splitlines()
    assert 'seed_provider: [{"class_name": "S"}]' in lines
    assert 'data_file_directories: ["/d"]' in lines
    assert "num_tokens: 4" in lines
    assert "127.0.0.1" not in told
    assert "/other" not in told
    assert "cluster_name: 'Test Cluster'" in lines
    assert "materialized_views_enabled: false" in lines


def test_the_last_setting_of_a_file_is_replaced_like_any_other():
    told = edited(YAML, {"materialized_views_enabled": True})
    assert told.endswith("materialized_views_enabled: true\n")
    assert told.count("materialized_views_enabled") == 1
    assert edited(told, {"materialized_views_enabled": True}) == told


def test_only_whole_names_are_replaced():
    text = "hints: 1\nhints_directory: /h\n"
    assert edited(text, {"hints": 2}) == "hints_directory: /h\nhints: 2\n"


def test_what_is_built_into_an_image_of_ours_is_what_starts_here():
    recipe = recipe_for(parse_system("cassandra:5.0.9"))
    assert set(server(OURS).environment["JVM_EXTRA_OPTS"].split()) >= {
        f"-D{name}={json.dumps(entry)}" for name, entry in recipe.properties.items()
    }
