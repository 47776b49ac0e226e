"""One run's things on an engine: labels on all of them, clear words where there is no engine, and nothing left behind."""

from __future__ import annotations

import ipaddress
import os
import socket
import stat

import docker
import pytest
import requests

from schemaquake.clusters.docker.engine import FOLDER_LABEL, NODE_LABEL, RUN_LABEL, DockerEngine, Limits
from schemaquake.harness.errors import ClusterError, EnvironmentLacks

# ── an engine that is written down ───────────────────────────────────────────────────────────────────────────────────


class Thing:
    """A container, network or volume; `collection` is what it is removed from."""

    def __init__(self, collection, name, labels, **attributes):
        self.collection, self.name, self.labels, self.attrs = collection, name, labels, attributes
        self.id = f"id-{name}"
        self.stuck = None

    def start(self):
        self.attrs["State"] = "running"

    def reload(self):
        pass

    def remove(self, **_how):
        if self.stuck is not None:
            raise self.stuck
        self.collection.things.remove(self)


class Collection:
    def __init__(self):
        self.things = []

    def list(self, *, filters, all=True):  # noqa: A002 - the SDK's name
        name, _, value = filters["label"].partition("=")
        return [thing for thing in self.things if name in thing.labels and value in {"", thing.labels[name]}]

    def get(self, name):
        return next(thing for thing in self.things if thing.name == name)


class Containers(Collection):
    def create(self, image, *, name, labels, network, networking_config, **how):
        self.made = how
        address = networking_config[network]["IPAMConfig"]["IPv4Address"]
        thing = Thing(self, name, labels, NetworkSettings={"Networks": {network: {"IPAddress": address}}})
        self.things.append(thing)
        return thing


class Networks(Collection):
    taken = ()

    def create(self, name, *, driver, ipam, labels):
        (pool,) = ipam["Config"]
        if pool["Subnet"] in self.taken:
            raise refused("Pool overlaps with other one on this address space")
        self.things.append(Thing(self, name, labels, IPAM={"Config": [pool]}))


class Volumes(Collection):
    def create(self, name, *, labels):
        self.things.append(Thing(self, name, labels))
        return self.things[-1]


class Client:
    class api:  # noqa: N801 - an attribute of the SDK's client
        api_version = "1.41"

    def __init__(self):
        self.containers, self.networks, self.volumes = Containers(), Networks(), Volumes()


def refused(message, status=500):
    answer = requests.Response()
    answer.status_code = status
    return docker.errors.APIError("refused", response=answer, explanation=message)


LIMITS = Limits(memory_mb=1024, cpus=1.5)


def with_a_node(engine, run="r1", node="n1", number=1):
    network = f"schemaquake-{run}"
    if not any(thing.name == network for thing in engine.client.networks.things):
        engine.create_network(run, taken=[])
    return engine.create_container(
        run,
        node,
        number=number,
        image="i:1",
        network=network,
        limits=LIMITS,
        folder="/runs/r1",
        volumes=["/var/lib/cassandra"],
    )


def test_everything_bears_the_run_from_the_instant_it_is_made():
    engine = DockerEngine(Client())
    with_a_node(engine)
    client = engine.client
    things = [*client.containers.things, *client.networks.things, *client.volumes.things]
    assert [thing.labels[RUN_LABEL] for thing in things] == ["r1", "r1", "r1"]
    assert client.containers.things[0].labels == {RUN_LABEL: "r1", NODE_LABEL: "n1", FOLDER_LABEL: "/runs/r1"}


def test_a_container_idles_under_an_init_and_may_filter_packets_within_its_limits():
    engine = DockerEngine(Client())
    with_a_node(engine)
    made = engine.client.containers.made
    assert (made["entrypoint"], made["init"], made["user"]) == (["sleep", "infinity"], True, "0")
    assert made["cap_add"] == ["NET_ADMIN"]
    assert (made["mem_limit"], made["memswap_limit"], made["nano_cpus"]) == ("1024m", "1024m", 1_500_000_000)
    assert made["volumes"] == {"schemaquake-r1-n1-0": {"bind": "/var/lib/cassandra", "mode": "rw"}}
    assert "privileged" not in made


def test_addresses_are_fixed_and_count_with_the_nodes():
    engine = DockerEngine(Client())
    assert [with_a_node(engine, node=f"n{n}", number=n).address for n in (1, 2)] == ["10.79.0.11", "10.79.0.12"]
    assert [each.node for each in engine.containers("r1")] == ["n1", "n2"]


def test_a_network_avoids_what_this_machine_and_the_engine_use():
    engine = DockerEngine(Client())
    engine.client.networks.taken = ("10.79.1.0/24",)
    engine.create_network("r1", taken=[ipaddress.IPv4Network("10.79.0.0/25")])
    assert engine.client.networks.things[0].attrs["IPAM"]["Config"][0]["Subnet"] == "10.79.2.0/24"


def test_no_free_subnet_is_told():
    with pytest.raises(ClusterError, match=r"every /24 of 10\.79\.0\.0/16 is in use"):
        DockerEngine(Client()).create_network("r1", taken=[ipaddress.IPv4Network("10.0.0.0/8")])


def test_removing_spares_what_belongs_to_others_and_may_be_repeated():
    engine = DockerEngine(Client())
    with_a_node(engine, "r1")
    with_a_node(engine, "r2")
    done = engine.remove("r1")
    assert [sentence.split()[0] for sentence in done] == ["container", "network", "volume"]
    assert engine.remove("r1") == []
    assert [thing.name for thing in engine.client.containers.things] == ["schemaquake-r2-n1"]
    assert engine.leftovers() == {"r2": "/runs/r1"}


def test_what_cannot_be_removed_does_not_keep_the_rest():
    engine = DockerEngine(Client())
    with_a_node(engine)
    engine.client.containers.things[0].stuck = refused("device or resource busy")
    with pytest.raises(ExceptionGroup) as raised:
        engine.remove("r1")
    assert "device or resource busy" in str(raised.value.exceptions[0])
    assert not engine.client.networks.things


def test_what_somebody_else_removed_meanwhile_is_gone():
    engine = DockerEngine(Client())
    with_a_node(engine)
    engine.client.containers.things[0].stuck = docker.errors.NotFound("no such container")
    assert all("container" not in sentence for sentence in engine.remove("r1"))


def test_an_image_that_cannot_be_had_comes_with_advice():
    class Images:
        def get(self, name):
            raise docker.errors.ImageNotFound("no such image", explanation=f"No such image: {name}")

        def pull(self, name):
            raise refused("no such host")

    engine = DockerEngine(Client())
    engine.client.images = Images()
    with pytest.raises(
        EnvironmentLacks, match=r"schemaquake/x:1 is not here and could not be pulled: no such host\. Try: docker pull"
    ):
        engine.image("schemaquake/x:1")


def test_no_engine_is_told_with_what_to_install(tmp_path):
    with pytest.raises(EnvironmentLacks, match=r"no docker engine at unix://.*apt-get install docker\.io.*DOCKER_HOST"):
        DockerEngine.connect(f"unix://{tmp_path}/nothing.sock")


def test_the_engine_is_looked_for_where_docker_host_says(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/elsewhere.sock")
    with pytest.raises(EnvironmentLacks, match=r"elsewhere\.sock"):
        DockerEngine.connect()


def test_an_engine_of_others_is_told_with_the_group_to_join(tmp_path, monkeypatch):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        path.chmod(0)
        if os.geteuid() == 0 or stat.S_IMODE(path.stat().st_mode):  # root may use any socket
            monkeypatch.setattr(
                socket.socket, "connect", lambda *_: (_ for _ in ()).throw(PermissionError(13, "denied"))
            )
        with pytest.raises(EnvironmentLacks, match=r"may not be used by this user.*usermod -aG docker"):
            DockerEngine.connect(f"unix://{path}")


# ── a real one ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.cluster
def test_a_run_on_a_real_engine_leaves_nothing_behind(engine_host, small_image):
    engine = DockerEngine.connect(engine_host)
    try:
        assert "docker engine" in engine.described()
        network = engine.create_network("real")
        made = [
            engine.create_container(
                "real",
                f"n{number}",
                number=number,
                image=small_image,
                network=network,
                limits=Limits(memory_mb=64, cpus=0.5),
                folder="/runs/real",
                volumes=["/data"],
            )
            for number in (1, 2)
        ]
        assert [each.node for each in engine.containers("real")] == ["n1", "n2"]
        assert made[0].address.rsplit(".", 1)[0] == made[1].address.rsplit(".", 1)[0]
        with pytest.raises(ConnectionRefusedError), socket.create_connection((made[1].address, 9), timeout=5):
            pass  # refused by the container itself: it is reached
        assert engine.leftovers() == {"real": "/runs/real"}
    finally:
        removed = engine.remove("real")
        assert len(removed) == 5
        assert engine.containers("real") == []
        assert engine.leftovers() == {}
        engine.close()
