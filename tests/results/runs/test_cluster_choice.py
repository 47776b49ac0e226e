"""What --cluster means with the options beside it: a file's word counts, and what contradicts it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemaquake.harness.errors import PlanError
from schemaquake.results.runs.cluster_choice import ClusterChoice, choose_cluster

TWO_NODES = '[[nodes]]\naddress = "10.0.0.1"\n[[nodes]]\naddress = "10.0.0.2"\n'


@pytest.fixture
def file(tmp_path):
    def written(text):
        path = tmp_path / "cluster.toml"
        path.write_text(text)
        return str(path)

    return written


def chosen(cluster, *, system=None, nodes=None, keyspace_prefix=None):
    return choose_cluster(cluster, system=system, nodes=nodes, keyspace_prefix=keyspace_prefix)


def test_without_a_file_the_options_count_and_else_the_defaults():
    assert chosen("local", system="cassandra:5.0.9") == ClusterChoice(
        cluster="local", cluster_file=None, system="cassandra:5.0.9", nodes=3, keyspace_prefix="sq"
    )
    assert chosen("docker", system="cassandra:5.0.9", nodes=5, keyspace_prefix="q").nodes == 5


def test_without_a_kind_of_cluster_it_is_that_of_the_system(file):
    assert chosen(None, system="cassandra:5.0.9").cluster == "local"
    assert chosen(None, system="simulated:cassandra-5.0").cluster == "simulated"
    assert chosen("docker", system="simulated:cassandra-5.0").cluster == "docker", "what was typed counts"
    assert chosen(file(f'provider = "ssh"\n{TWO_NODES}'), system="simulated:cassandra-5.0").cluster == "ssh"
    with pytest.raises(PlanError, match="is not a system"):
        chosen(None, system="cassandr")


def test_a_file_says_provider_system_nodes_and_prefix(file):
    path = file(f'provider = "ssh"\nsystem = "cassandra:4.1.7"\nkeyspace_prefix = "quake"\n{TWO_NODES}')
    assert chosen(path) == ClusterChoice(
        cluster="ssh", cluster_file=Path(path), system="cassandra:4.1.7", nodes=2, keyspace_prefix="quake"
    )
    assert chosen(path, system="cassandra:4.1.7", nodes=2, keyspace_prefix="quake") == chosen(path)


def test_every_option_that_contradicts_the_file_is_refused(file):
    path = file(f'provider = "ssh"\nsystem = "cassandra:4.1.7"\n{TWO_NODES}')
    with pytest.raises(PlanError) as refused:
        chosen(path, system="cassandra:5.0.9", nodes=3, keyspace_prefix="mine")
    told = str(refused.value).splitlines()
    assert [line.split(" contradicts ")[0] for line in told] == [
        "--system cassandra:5.0.9",
        "--nodes 3",
        "--keyspace-prefix mine",
    ]
    assert "which says 2: leave the option out" in told[1]


def test_a_prefix_that_the_file_does_not_mention_is_not_the_caller_s_to_choose(file):
    with pytest.raises(PlanError, match="--keyspace-prefix production contradicts"):
        chosen(file(f'provider = "ssh"\n{TWO_NODES}'), system="cassandra:5.0.9", keyspace_prefix="production")


def test_containers_are_as_many_as_asked_for_unless_the_file_says(file):
    path = file('provider = "docker"\n')
    assert chosen(path, system="cassandra:5.0.9", nodes=5).nodes == 5
    assert chosen(path, system="cassandra:5.0.9").nodes == 3
    assert chosen(file('provider = "docker"\n[docker]\nnodes = 4\n'), system="cassandra:5.0.9").nodes == 4


def test_somebody_has_to_name_a_system(file):
    with pytest.raises(PlanError, match=r"cassandra:VERSION$"):
        chosen("local")
    with pytest.raises(PlanError, match=r"or write it into .*cluster\.toml: system = "):
        chosen(file(f'provider = "ssh"\n{TWO_NODES}'))


def test_a_file_with_errors_is_refused_before_anything_else(file):
    with pytest.raises(PlanError, match=r"cluster\.toml:1: provider cannot be 'shh'"):
        chosen(file('provider = "shh"\n'))
