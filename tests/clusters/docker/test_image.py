"""`schemaquake image`: what is built, upon what, and what its entrypoint makes of the environment."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import tarfile
from importlib.resources import files
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from schemaquake.clusters.distribution.distribution import Distribution
from schemaquake.clusters.docker import debian_base
from schemaquake.clusters.docker.commands import register
from schemaquake.clusters.docker.debian_base import ensure_base, own_mirror
from schemaquake.clusters.docker.engine import DockerEngine
from schemaquake.clusters.docker.image import build_image
from schemaquake.clusters.docker.image_context import write_context
from schemaquake.clusters.systems.configuration import Place, command
from schemaquake.clusters.systems.system import parse_system, recipe_for
from schemaquake.harness.errors import EnvironmentLacks, FetchError, PlanError

SYSTEM = parse_system("cassandra:5.0.9")
RECIPE = recipe_for(SYSTEM)


@pytest.fixture
def home(tmp_path):
    """The folder of a Cassandra 5.0.9 with two jars."""
    lib = tmp_path / "apache-cassandra-5.0.9" / "lib"
    lib.mkdir(parents=True)
    (lib / "apache-cassandra-5.0.9.jar").write_bytes(b"cassandra")
    (lib / "a-1.jar").write_bytes(b"another")
    return lib.parent


def distribution(home):
    jars = tuple(sorted((home / "lib").glob("*.jar")))
    return Distribution(version="5.0.9", class_path=jars, home=home, source="folder", digest="d" * 64)


def context(home, system=SYSTEM):
    out = io.BytesIO()
    write_context(out, system, distribution(home))
    return out.getvalue()


def contents(packed):
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return {m.name: (archive.extractfile(m).read(), m.mode) for m in archive if m.isfile()}


# ── the archive ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_image_holds_the_jars_and_what_starts_them(home):
    there = contents(context(home))
    assert there["root/opt/cassandra/lib/a-1.jar"] == (b"another", 0o644)
    assert there["Dockerfile"][0].count(b"FROM ${BASE}") == 1
    tools = ("nodetool", "sstableloader")
    for script in ("root/usr/local/bin/docker-entrypoint.sh", *(f"root/opt/cassandra/bin/{tool}" for tool in tools)):
        assert there[script][1] == 0o755
    for tool in tools:
        assert f'"@$CASSANDRA_HOME/{tool}.options"' in there[f"root/opt/cassandra/bin/{tool}"][0].decode()
    loader = there["root/opt/cassandra/sstableloader.options"][0].decode().splitlines()
    assert loader[-3:] == ['"org.apache.cassandra.tools.BulkLoader"', '"-f"', '"/var/lib/cassandra/cassandra.yaml"']


def test_an_image_of_a_version_whose_jar_has_no_loader_has_none(home):
    assert not [
        name for name in contents(context(home, parse_system("cassandra:6.0-alpha2"))) if "sstableloader" in name
    ]


def test_a_server_in_the_image_starts_with_the_options_it_has_on_this_machine(home):
    there = contents(context(home))
    said = [
        word
        for name in ("server.options", "server.main")
        for word in shlex.split(there[f"root/opt/cassandra/{name}"][0].decode())
    ]
    jars = [Path("/opt/cassandra/lib") / jar.name for jar in distribution(home).class_path]
    place = Place(address="", token=0, seeds=[], folder=Path("/var/lib/cassandra"))
    assert said == command(RECIPE, place, java=Path("java"), class_path=jars, java_options=[])[1:]


def test_settings_are_one_a_line_and_leave_a_node_s_own_to_the_environment(home):
    lines = contents(context(home))["root/etc/cassandra/cassandra.yaml"][0].decode().splitlines()
    settings = {name: json.loads(text) for name, _, text in (line.partition(": ") for line in lines)}
    assert settings["user_defined_functions_enabled"] is True
    assert settings["data_file_directories"] == ["/var/lib/cassandra/data"]
    assert settings.keys().isdisjoint({"listen_address", "rpc_address", "initial_token"})


def test_the_same_jars_are_the_same_layer_whoever_fetched_them_and_when(home):
    before = context(home)
    (home / "lib" / "a-1.jar").touch()
    assert context(home) == before


# ── the entrypoint ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def start(home, tmp_path):
    """Run the entrypoint with this environment; what it starts java with, and the settings that java would read."""
    data, conf, bin_ = tmp_path / "data", tmp_path / "conf", tmp_path / "bin"
    for folder in (data, conf, bin_):
        folder.mkdir()
    for name, (content, _) in contents(context(home)).items():
        if name.startswith("root/etc/cassandra/"):
            (conf / Path(name).name).write_bytes(content)
    text = files("schemaquake.clusters.docker").joinpath("image/docker-entrypoint.sh").read_text()
    script = tmp_path / "docker-entrypoint.sh"
    script.write_text(text.replace("/var/lib/cassandra", str(data)))
    tools = {"java": 'printf "%s\\n" "$@"', "id": "echo 1000", "ip": "echo '2: eth0 inet 10.1.2.3/24 brd x'"}
    for name, body in tools.items():
        (bin_ / name).write_text(f"#!/bin/sh\n{body}\n")
        (bin_ / name).chmod(0o755)

    def run(*argv, **environment):
        base = {"PATH": f"{bin_}:/usr/bin:/bin", "CASSANDRA_HOME": "/opt/cassandra", "CASSANDRA_CONF": str(conf)}
        done = subprocess.run(
            ["sh", str(script), *argv], env=base | environment, capture_output=True, text=True, check=True
        )
        written = data / "cassandra.yaml"
        lines = written.read_text().splitlines() if written.exists() else []
        settings = {name: json.loads(value) for name, _, value in (line.partition(": ") for line in lines)}
        assert len(settings) == len(lines)
        return done.stdout.splitlines(), settings

    return run


def test_the_environment_says_a_node_s_place(start):
    _, settings = start(
        "cassandra",
        "-f",
        CASSANDRA_SEEDS="10.0.0.1,10.0.0.2",
        CASSANDRA_LISTEN_ADDRESS="10.0.0.2",
        CASSANDRA_RPC_ADDRESS="10.0.0.3",
        CASSANDRA_CLUSTER_NAME="ours",
        CASSANDRA_NUM_TOKENS="4",
    )
    assert (settings["listen_address"], settings["rpc_address"]) == ("10.0.0.2", "10.0.0.3")
    assert settings["seed_provider"][0]["parameters"] == [{"seeds": "10.0.0.1,10.0.0.2"}]
    assert (settings["cluster_name"], settings["num_tokens"]) == ("ours", "4")


def test_without_an_environment_a_node_is_alone_at_its_own_address(start):
    _, settings = start()
    assert settings["listen_address"] == settings["rpc_address"] == "10.1.2.3"
    assert settings["seed_provider"][0]["parameters"] == [{"seeds": "10.1.2.3"}]
    assert settings["cluster_name"] == "schemaquake"
    assert "broadcast_address" not in settings


def test_a_second_start_takes_another_environment(start):
    start("cassandra", CASSANDRA_LISTEN_ADDRESS="10.0.0.1", CASSANDRA_BROADCAST_ADDRESS="10.0.0.9")
    _, settings = start("cassandra", CASSANDRA_LISTEN_ADDRESS="10.0.0.2")
    assert settings["listen_address"] == "10.0.0.2"
    assert "broadcast_address" not in settings


def test_options_of_the_virtual_machine_stand_between_the_recipe_s_and_the_class(start):
    argv, _ = start(MAX_HEAP_SIZE="512M", HEAP_NEWSIZE="128M", JVM_OPTS="-Da=1", JVM_EXTRA_OPTS="-Db=2 -Dc=3")
    assert argv[0] == "@/opt/cassandra/server.options"
    assert argv[1:-1] == ["-Xms512M", "-Xmx512M", "-Xmn128M", "-Da=1", "-Db=2", "-Dc=3"]
    assert argv[-1] == "@/opt/cassandra/server.main"


def test_another_command_is_carried_out_as_it_stands(start):
    argv, settings = start("echo", "a b", "c")
    assert (argv, settings) == (["a b c"], {})


# ── the base, and the build ──────────────────────────────────────────────────────────────────────────────────────────


class Engine(DockerEngine):
    """Holds images by name; builds by noting what was asked."""

    def __init__(self, *images):
        self.images = set(images)
        self.imported = []
        self.built = []

    def has_image(self, name):
        return name in self.images

    def image(self, name):
        if name not in self.images:
            raise EnvironmentLacks(f"no {name}")
        return {}

    def import_image(self, archive, name, *, changes=()):
        with tarfile.open(fileobj=archive, mode="r|") as packed:
            self.imported.append((name, sorted(member.name for member in packed), tuple(changes)))
        self.images.add(name)

    def build_image(self, context, name, *, arguments, labels):
        self.built.append((name, dict(arguments), dict(labels), sorted(contents(context.read()))))

    def close(self):
        pass


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Stands in for the tools of the machine: `tools(name, script)`."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(debian_base.os, "geteuid", lambda: 0)

    def tool(name, script):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    tool("unshare", 'while [ "$1" != debootstrap ]; do shift; done; exec "$@"')
    tool("apt-config", "echo")
    tool(
        "apt-get", 'echo "bookworm-security http://security"; echo "bookworm http://mirror"; echo "trixie http://other"'
    )
    return tool


DEBOOTSTRAP = """
echo "$@" > "{asked}"
for word; do before=$root; root=$mirror; mirror=$word; done
mkdir -p "$root/etc" "$root/proc/1" "$root/usr/share/doc/x"
"""


def test_the_base_is_made_once_and_then_reused(tools, tmp_path):
    tools("debootstrap", DEBOOTSTRAP.format(asked=tmp_path / "asked"))
    engine = Engine()
    said = []
    assert ensure_base(engine, suite="bookworm", mirror=None, progress=said.append) == ("schemaquake/base:bookworm", 17)
    ((name, members, changes),) = engine.imported
    assert name == "schemaquake/base:bookworm"
    assert "./etc" in members
    assert "./proc" in members
    assert not any(member.startswith(("./proc/", "./usr/share/doc/")) for member in members)
    assert changes == ("LABEL io.schemaquake.java=17",)
    asked = (tmp_path / "asked").read_text().split()
    assert asked[-1] == "http://mirror"
    assert asked[-3] == "bookworm"
    assert "--force-check-gpg" in asked
    assert any("openjdk-17-jre-headless,iptables" in word for word in asked)
    assert ensure_base(engine, suite="bookworm", mirror=None, progress=said.append)[0] == name
    assert len(engine.imported) == 1


def test_debootstrap_s_own_words_are_told_when_it_fails(tools):
    tools("debootstrap", "echo 'E: Failed getting release file'; exit 1")
    with pytest.raises(FetchError, match="debootstrap of bookworm failed: E: Failed getting release file"):
        ensure_base(Engine(), suite="bookworm", mirror="http://m", progress=lambda _: None)


def test_a_debootstrap_that_hangs_is_ended(tools, monkeypatch):
    monkeypatch.setattr(debian_base, "_BOOTSTRAP_WITHIN_S", 1)
    tools("debootstrap", "echo 'I: Retrieving base-files'; exec sleep 600")
    with pytest.raises(
        FetchError, match=r"bookworm from http://m.*within 1 s.*last: I: Retrieving base-files.*--mirror"
    ):
        ensure_base(Engine(), suite="bookworm", mirror="http://m", progress=lambda _: None)


def test_an_apt_that_hangs_is_named(tools, monkeypatch):
    monkeypatch.setattr(debian_base, "_APT_WITHIN_S", 0.5)
    tools("apt-get", "sleep 600")
    with pytest.raises(
        EnvironmentLacks, match=r"`apt-get indextargets .* did not end within 0\.5 s\. Run it by hand.*--base"
    ):
        own_mirror("sid")


def test_a_mirror_is_apt_s_own_for_that_suite_or_for_another(tools):
    assert own_mirror("trixie") == "http://other"
    assert own_mirror("sid") == "http://mirror"
    tools("apt-get", "true")
    with pytest.raises(EnvironmentLacks, match="--mirror"):
        own_mirror("sid")


def test_without_root_the_base_is_refused_with_two_ways_out(tools, monkeypatch):
    monkeypatch.setattr(debian_base.os, "geteuid", lambda: 1000)
    with pytest.raises(EnvironmentLacks, match=r"needs root.*sudo.*--base"):
        ensure_base(Engine(), suite="bookworm", mirror=None, progress=lambda _: None)


def test_an_image_is_built_upon_the_base_with_the_digest_of_its_jars(home):
    engine = Engine("schemaquake/base:bookworm")
    built = build_image(engine, SYSTEM, suite="bookworm", distribution=home, progress=lambda _: None)
    ((name, arguments, labels, members),) = engine.built
    assert built.name == name == "schemaquake/cassandra:5.0.9"
    assert arguments == {"BASE": "schemaquake/base:bookworm"}
    assert labels == {"io.schemaquake.system": "cassandra:5.0.9", "io.schemaquake.digest": built.digest}
    assert "root/opt/cassandra/lib/apache-cassandra-5.0.9.jar" in members


def test_a_base_whose_java_is_too_new_is_refused_before_anything_is_built(home, tmp_path):
    old = tmp_path / "apache-cassandra-4.0.17"
    (old / "lib").mkdir(parents=True)
    (old / "lib" / "apache-cassandra-4.0.17.jar").write_bytes(b"x")
    engine = Engine("schemaquake/base:trixie")
    with pytest.raises(PlanError, match=r"Java 17 to 17, but schemaquake/base:trixie has Java 21: .*--suite bookworm"):
        build_image(engine, parse_system("cassandra:4.0.17"), suite="trixie", distribution=old, progress=lambda _: None)
    assert engine.built == []


def test_an_image_of_one_s_own_may_be_the_base(home):
    engine = Engine("mine:1")
    assert build_image(engine, SYSTEM, base="mine:1", distribution=home, progress=lambda _: None).base == "mine:1"
    with pytest.raises(EnvironmentLacks):
        build_image(engine, SYSTEM, base="none:1", distribution=home, progress=lambda _: None)


def test_the_command_says_what_to_do_next(home, monkeypatch):
    monkeypatch.setattr(DockerEngine, "connect", lambda _host: Engine("mine:1"))
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    asked = ["image", "cassandra:5.0.9", "--base", "mine:1", "--distribution", str(home)]
    said = CliRunner().invoke(app, asked)
    assert "schemaquake run --cluster docker --system cassandra:5.0.9" in said.stdout
    document = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert document["image"] == "schemaquake/cassandra:5.0.9"
