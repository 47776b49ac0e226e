"""The cluster file: what it means, and that everything wrong with it is told at once, in its line, with a remedy."""

from __future__ import annotations

import json
import pickle
import tempfile
from copy import deepcopy
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.clusters.cluster_file.model import Become, Clock, Commands, Process, Systemd
from schemaquake.clusters.cluster_file.parse import read_cluster_file, read_cluster_file_of_run
from schemaquake.harness.errors import ExitCode, PlanError

SSH = """
    provider = "ssh"
    [[nodes]]
    address = "10.0.0.1"
"""
PINNED = "SHA256:" + "a" * 43


@pytest.fixture
def read(tmp_path):
    def written(text):
        path = tmp_path / "cluster.toml"
        path.write_text(dedent(text).lstrip("\n"))
        return read_cluster_file(path)

    return written


@pytest.fixture
def problems(read, tmp_path):
    """Every line of the refusal, without the path: `(line, sentence)`."""

    def told(text):
        with pytest.raises(PlanError) as refused:
            read(text)
        assert refused.value.exit_code == ExitCode.BAD_ARGUMENTS
        found = []
        for line in str(refused.value).splitlines():
            assert line.startswith(f"{tmp_path / 'cluster.toml'}:")
            number, _, sentence = line.removeprefix(f"{tmp_path / 'cluster.toml'}:").partition(": ")
            found.append((int(number), sentence))
        return found

    return told


# ── what it means ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_two_lines_and_a_node_are_a_cluster(read):
    file = read(SSH)
    assert file.addresses == {"n1": "10.0.0.1"}
    assert (file.keyspace_prefix, file.allow, file.max_fault_seconds, file.cql_port) == ("sq", (), 60, 9042)
    assert (file.service, file.clock, file.become) == (Systemd(unit="cassandra"), Clock(method="settime"), Become())
    assert file.paths.state == "/run/schemaquake"
    assert (file.credentials, file.tls, file.system) == (None, None, None)


def test_spares_are_counted_on_from_the_nodes_and_reached_as_they_are(read):
    file = read("""
        provider = "ssh"
        shared = true
        [ssh]
        user = "us"
        [joining]
        empties = ["/data/cassandra"]
        options_file = "/etc/joining"
        [[nodes]]
        address = "10.0.0.1"
        [[nodes]]
        address = "10.0.0.2"
        [[spares]]
        address = "10.0.0.9"
        ssh = { host = "nine", user = "them" }
    """)
    assert (file.node_count, dict(file.addresses)) == (2, {"n1": "10.0.0.1", "n2": "10.0.0.2"})
    assert dict(file.spare_addresses) == {"n3": "10.0.0.9"}
    assert (file.access("n3").host, file.access("n3").user, file.access("n2").user) == ("nine", "them", "us")
    assert (file.shared, file.joining.empties) == (True, ("/data/cassandra",))
    usual = read('provider = "ssh"\n[[nodes]]\naddress = "10.0.0.1"\n')
    assert (usual.shared, usual.joining.options_file) == (False, None)


def test_a_spare_is_no_node_at_the_same_time(problems):
    said = problems('provider = "ssh"\n[[nodes]]\naddress = "10.0.0.1"\n[[spares]]\naddress = "10.0.0.1"\n')
    assert said == [(5, "10.0.0.1 is the address of 2 nodes; give each its own")]


def test_containers_need_no_nodes_and_have_a_process_and_the_library_s_clock(read):
    file = read('provider = "docker"\n[docker]\nimage = "cassandra:5.0"\nnodes = 5\nmemory = "1g"\ncpus = 1\n')
    assert (file.node_count, file.addresses) == (5, {})
    assert (file.service, file.clock) == (Process(), Clock(method="libfaketime"))
    assert file.docker.cpus == 1.0
    assert read('provider = "docker"').node_count is None


def test_a_file_that_says_everything(read):
    file = read("""
        provider = "ssh"
        system = "cassandra:5.0.9"
        keyspace_prefix = "quake"
        allow = ["partition", "packets", "kill", "stop", "pause", "clock", "restart", "errors", "topology"]
        max_fault_seconds = 12.5
        cql_port = 9142
        [credentials]
        username = { env = "CQL_USER" }
        password = { file = "~/password" }
        [tls]
        ca = "/etc/ca.pem"
        certificate = "/etc/us.pem"
        key = "/etc/us.key"
        verify_hostname = false
        [become]
        method = "none"
        [service]
        kind = "commands"
        start = ["/opt/start"]
        stop = ["/opt/stop", "now"]
        kill = ["/opt/kill"]
        status = ["/opt/status"]
        [paths]
        logs = ["/var/log/a.log", "/var/log/b.log"]
        data = ["/data/1", "/data/2"]
        state = "/dev/shm/quake"
        [clock]
        method = "libfaketime"
        library = "/usr/lib/libfaketime.so.1"
        offset_file = "/run/offset"
        [[nodes]]
        address = "10.0.0.1"
        [[nodes]]
        address = "fd00::2"
    """)
    assert file.service == Commands(
        kind="commands", start=("/opt/start",), stop=("/opt/stop", "now"), kill=("/opt/kill",), status=("/opt/status",)
    )
    assert file.addresses == {"n1": "10.0.0.1", "n2": "fd00::2"}
    assert str(file.credentials) == f"user name from $CQL_USER, password from {Path.home() / 'password'}"
    assert file.become.argv(["id", "-u"]) == ["id", "-u"]
    assert pickle.loads(pickle.dumps(file)) == file  # noqa: S301 - our own


def test_sudo_never_asks(read):
    assert read(SSH).become.argv(["id", "-u"]) == ["sudo", "-n", "--", "id", "-u"]


def test_a_node_s_way_is_its_own_then_that_of_all(read):
    file = read(f"""
        provider = "ssh"
        [ssh]
        user = "cassandra"
        port = 2222
        key = "/keys/all"
        known_hosts = "/keys/known"
        jump = {{ host = "bastion", user = "me" }}
        [[nodes]]
        address = "10.0.0.1"
        [[nodes]]
        address = "10.0.0.2"
        ssh = {{ host = "outside.example.org", port = 22, key = "/keys/two", agent = true, fingerprint = "{PINNED}" }}
        [[nodes]]
        address = "10.0.0.3"
        ssh.jump = {{ host = "other", port = 2200, key = "/keys/jump" }}
    """)
    one, two, three = map(file.access, file.addresses)
    assert (one.host, one.port, one.user, one.key) == ("10.0.0.1", 2222, "cassandra", Path("/keys/all"))
    assert (one.agent, one.known_hosts, one.fingerprint) == (False, Path("/keys/known"), None)
    assert one.jump is not None
    assert (one.jump.host, one.jump.port, one.jump.user) == ("bastion", 22, "me")
    assert (one.jump.key, one.jump.known_hosts) == (Path("/keys/all"), Path("/keys/known"))
    assert (two.host, two.port, two.key, two.agent) == ("outside.example.org", 22, Path("/keys/two"), True)
    assert two.fingerprint == PINNED
    assert three.jump is not None
    assert (three.jump.host, three.jump.port, three.jump.key) == ("other", 2200, Path("/keys/jump"))
    assert three.jump.user == "cassandra"
    with pytest.raises(KeyError):
        file.access("n4")


def test_without_a_key_the_agent_is_asked(read, monkeypatch):
    monkeypatch.setenv("LOGNAME", "somebody")
    access = read(SSH).access("n1")
    assert (access.agent, access.key, access.user, access.port, access.jump) == (True, None, "somebody", 22, None)


def test_a_run_s_own_copy_is_read_from_its_folder(tmp_path):
    (tmp_path / "cluster.toml").write_text(dedent(SSH))
    assert read_cluster_file_of_run(tmp_path).addresses == {"n1": "10.0.0.1"}


# ── what is wrong with it ────────────────────────────────────────────────────────────────────────────────────────────


def test_everything_is_told_at_once_in_the_order_of_the_lines(problems):
    told = problems("""
        provider = "shh"
        allow = ["partition", "fire", "kill", "kill"]
        cql_port = "9042"
        colour = 3
        [credentials]
        username = { env = "CQL_USER" }
        [ssh]
        usr = "cassandra"
        key = "keys/id"
        [tls]
        certificate = "/c.pem"
        [[nodes]]
        address = "db1.example.org"
        [[nodes]]
        address = "10.0.0.1"
        ssh = { port = 99999 }
        [[nodes]]
        address = "10.0.0.1"
    """)
    assert told == [
        (1, "provider cannot be 'shh'; write 'ssh' or 'docker'"),
        (2, 'allow has "kill" 2 times; once is enough'),
        (2, "allow[2] cannot be 'fire'; write 'partition', 'packets', 'kill', 'stop', 'pause', 'restart', 'clock', 'errors' or 'topology'"),
        (3, "cql_port must be a whole number; write it like cql_port = 9042"),
        (4, 'the file has no key "colour"; take it out. Known: provider, system, keyspace_prefix, allow, max_fault_seconds, max_nodes_down, stop_if, consent_file, cql_port, credentials, tls, ssh, become, service, paths, clock, docker, nodes, spares, joining, shared'),
        (5, 'credentials.password is missing; add password = { env = "CQL_PASSWORD" } or password = { file = "/etc/schemaquake/password" }'),
        (8, 'ssh has no key "usr"; did you mean "user"? Known: host, port, user, key, agent, known_hosts, fingerprint, jump'),
        (9, "ssh.key: a relative path points elsewhere once the file is copied; write it from / or from ~/"),
        (10, "tls: a client's certificate needs its key; write both, certificate and key"),
        (13, "nodes[1].address: a packet filter knows nodes by number, not by name; write the IP address that the other nodes use for it"),
        (16, "nodes[2].ssh.port is too large; write it like port = 22"),
        (18, "10.0.0.1 is the address of 2 nodes; give each its own"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ('provider = "ssh"', 1, "there is no node; add [[nodes]] with address"),
        ('provider = "ssh"\nnodes = []', 2, "there is no node"),
        ('provider = "ssh"\nnodes = 3', 2, "nodes must be a list, in [ ]"),
        ("nodes = [3]", 1, "nodes[1] must be a table"),
        ('[[nodes]]\naddress = "10.0.0.1"', 1, 'provider is missing; add provider = "ssh"'),
        ('system = "cassandra"', 1, 'system has the wrong form; write it like system = "cassandra:5.0.9"'),
        ('keyspace_prefix = "SQ"', 1, "keyspace_prefix has the wrong form"),
        ('keyspace_prefix = "sixteen_or_less__"', 1, "a lower-case identifier of at most 16 characters"),
        ("allow = 'kill'", 1, "allow must be a list"),
        ("max_fault_seconds = 0", 1, "max_fault_seconds is too small"),
        ("max_fault_seconds = nan", 1, "max_fault_seconds must be a number"),
        ("max_fault_seconds = 1979-05-27", 1, "max_fault_seconds must be a number"),
        ("max_fault_seconds = true", 1, "max_fault_seconds must be a number"),
        ("cql_port = 70000", 1, "cql_port is too large"),
        ("ssh = 3", 1, "ssh must be a table"),
        ("[ssh]\nagent = 'yes'", 2, "ssh.agent must be true or false"),
        ("[ssh]\nkey = 3", 2, "ssh.key must be a text in quotes"),
        ("[ssh]\nkey = '~nobody_at_all/id'", 2, "ssh.key: the home folder of that user is not known"),
        ("[ssh]\nfingerprint = 'MD5:00'", 2, "ssh.fingerprint has the wrong form"),
        ("[ssh.jump]\nport = 22", 1, "ssh.jump.host is missing; add host ="),
        ("[ssh]\njump = { host = 'a', jump = {} }", 2, 'ssh.jump has no key "jump"'),
        ("[become]\nmethod = 'su'", 2, "become.method cannot be 'su'; write 'sudo' or 'none'"),
        ("[service]\nkind = 'upstart'", 1, 'service is of no known kind; write it like kind = "systemd"'),
        ("[service]\nunit = 'cassandra'", 1, "service is of no known kind"),
        ("[service]\nkind = 'systemd'\nunits = 'x'", 3, 'service has no key "units"; did you mean "unit"?'),
        ("[service]\nkind = 'systemd'\nunit = ''", 3, "service.unit is empty"),
        ("[service]\nkind = 'commands'\nstart = 'go'", 3, "service.start must be a list"),
        ("[service]\nkind = 'commands'\nstart = []", 3, "service.start is empty"),
        ("provider = 'ssh'\n[service]\nkind = 'process'", 2, "a process of a host needs its command"),
        ("[service]\nkind = 'process'\nenvironment = { DB_PASSWORD = 'x' }", 3, "DB_PASSWORD looks like a secret"),
        ("[paths]\nlogs = []", 2, "paths.logs is empty"),
        ("[paths]\nstate = 'run'", 2, "paths.state: a path on a node begins at the root"),
        ("[paths]\nstate = '/run/../etc'", 2, "paths.state: a path on a node begins at the root and goes down"),
        ("[clock]\nmethod = 'sundial'", 2, "clock.method cannot be 'sundial'"),
        ("allow = ['clock']\n[clock]\nmethod = 'none'", 3, 'allow has "clock", and clock.method = "none" cannot skew one'),
        ("provider = 'docker'\n[clock]\nmethod = 'settime'", 3, "containers share their host's clock"),
        ("provider = 'docker'\n[service]\nkind = 'systemd'", 3, "a container has no service manager"),
        ("provider = 'docker'\n[[nodes]]\naddress = '10.0.0.1'", 2, "containers are made for the run and have no nodes"),
        ("provider = 'docker'\nconsent_file = '/x'", 2, "nobody has put a file on them"),
        ("provider = 'docker'\n[ssh]\nuser = 'me'", 2, "containers are made for the run and have no ssh"),
        ("provider = 'docker'\n[[spares]]\naddress = '10.0.0.1'", 2, "have no spares; take it out: --spares 1 says how many"),
        ("provider = 'docker'\nshared = true", 2, "containers are made for the run and have no shared"),
        ("shared = 'no'", 1, "shared must be true or false"),
        ("[joining]\nempties = ['/data']", 2, "joining.empties[1]: all that lies in this folder is deleted"),
        ("[joining]\nempties = []", 2, "joining.empties is empty"),
        ("provider = 'ssh'\n[docker]\nimage = 'x'", 2, "has no containers; take [docker] out"),
        ("[docker]\nmemory = '1 GB'", 2, "docker.memory has the wrong form"),
        ("[docker]\ncpus = 0", 2, "docker.cpus is too small"),
        ("[tls]\nkey = '/k.pem'", 1, "tls: a client's certificate needs its key"),
        ("[credentials]\nusername = {}\npassword = {}", 2, "credentials.username: a secret is in one place"),
        ("[credentials]\nusername = { env = 'A', file = '/a' }", 2, "credentials.username: a secret is in one place"),
        ("[credentials]\nusername = { env = 'no name' }", 2, "credentials.username.env has the wrong form"),
        ("[credentials]\npassword = { file = 'pw' }", 2, "credentials.password.file: a relative path points elsewhere"),
    ],
)  # fmt: skip
def test_each_thing_that_can_be_wrong_is_told_in_its_line(problems, text, line, sentence):
    told = problems(text)
    assert any(number == line and sentence in said for number, said in told), told


@pytest.mark.parametrize(
    ("text", "line", "remedy"),
    [
        ('[credentials]\npassword = "hunter2"', 2, 'write password = { env = "CQL_PASSWORD" } or password = { file ='),
        ('[credentials]\nusername = "hunter2"', 2, 'write username = { env = "CQL_USER" }'),
        ("[credentials]\npassword = 1234567", 2, "write password = { env ="),
        ('credentials.password = "hunter2"', 1, "write password = { env ="),
        ('password = "hunter2"', 1, "write, in [credentials], password = { env ="),
        ('[[nodes]]\naddress = "10.0.0.1"\npassword = "hunter2"', 3, "write, in [credentials]"),
        ('[ssh]\npassword = "hunter2"', 2, "take it out: SSH gets in by a key or an agent"),
        ('[ssh.jump]\nhost = "j"\npassphrase = "hunter2"', 3, "take it out: SSH gets in by a key or an agent"),
        ('[become]\nsudo_password = "hunter2"', 2, "sudo without a password"),
        ('[tls]\nkey_password = "hunter2"', 2, "is written out"),
    ],
)
def test_a_secret_that_is_written_out_is_refused_by_name_and_never_repeated(problems, text, line, remedy):
    told = problems(text)
    assert any(number == line and "is written out, and this file is copied" in s and remedy in s for number, s in told)
    assert not any(secret in said for _, said in told for secret in ("hunter2", "1234567"))


@pytest.mark.parametrize(
    "text",
    [
        '[credentials]\npassword = { env = "hunter2!" }',
        '[credentials]\npassword = { file = "hunter2" }',
        '[credentials]\npassword = ["hunter2"]',
        '[credentials]\npassword = { value = "hunter2" }',
        'credentials = "hunter2"',
        '[service]\nkind = "process"\nenvironment = { DB_SECRET = "hunter2" }',
        'provider = "ssh"\npassword = "hunter2',
        "password = hunter2",
    ],
)  # fmt: skip
def test_no_other_error_repeats_a_secret_either(problems, text):
    assert not any("hunter2" in said for _, said in problems(text))


@pytest.mark.parametrize(
    ("text", "line"),
    [('provider = "ssh"\nallow = [', 2), ("a = 1\n\nb c = 1\n", 3), ("a = 1\na = 2\n", 2), ('a = "x', 1)],
    ids=["cut short", "two words", "twice", "an open text"],
)
def test_what_is_no_toml_is_told_with_its_line(problems, text, line):
    ((number, said),) = problems(text)
    assert number == line
    assert said.startswith("this is not TOML: ")


def test_a_file_that_is_not_there_or_no_text_is_told(tmp_path):
    with pytest.raises(PlanError, match=r"the cluster file .*nowhere\.toml cannot be read: No such file"):
        read_cluster_file(tmp_path / "nowhere.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanError, match="not text in UTF-8"):
        read_cluster_file(tmp_path / "binary.toml")


# ── every file there may be ──────────────────────────────────────────────────────────────────────────────────────────

WHOLE = {
    "provider": "ssh",
    "system": "cassandra:5.0.9",
    "allow": ["partition", "clock"],
    "max_fault_seconds": 30,
    "credentials": {"username": {"env": "A"}, "password": {"file": "/b"}},
    "tls": {"ca": "/ca", "certificate": "/c", "key": "/k"},
    "ssh": {"user": "me", "port": 22, "jump": {"host": "j"}},
    "become": {"method": "sudo"},
    "service": {"kind": "process", "command": ["a"], "environment": {"A": "b"}},
    "paths": {"logs": ["/l"], "data": ["/d"], "state": "/s"},
    "clock": {"method": "libfaketime", "library": "/l"},
    "nodes": [{"address": "10.0.0.1"}, {"address": "10.0.0.2", "ssh": {"port": 2}}],
}
ODD = st.recursive(
    st.integers() | st.booleans() | st.text("ab/~:. é", max_size=6) | st.sampled_from(["ssh", "docker", "10.0.0.1", "kill"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["kind", "env", "password", "x"]), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


def inline(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {inline(entry)}" for key, entry in value.items()) + "}"
    return "[" + ", ".join(map(inline, value)) + "]" if isinstance(value, list) else json.dumps(value)


@st.composite
def spoilt(draw):
    """The whole file with a few things in it replaced, added or taken out."""
    document = deepcopy(WHOLE)
    for _ in range(draw(st.integers(0, 3))):
        place = document
        while True:
            keys = list(range(len(place))) if isinstance(place, list) else list(place)
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and draw(st.booleans()):
                place = place[key]
                continue
            if isinstance(place, dict) and draw(st.booleans()):
                del place[key]
            else:
                place[key] = draw(ODD)
            break
    return document


@given(spoilt())
def test_whatever_stands_in_it_a_file_is_read_or_refused_line_by_line(document):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.toml"
        path.write_text("".join(f"{key} = {inline(value)}\n" for key, value in document.items()), encoding="utf-8")
        try:
            file = read_cluster_file(path)
        except PlanError as refused:
            for line in str(refused).splitlines():
                number, _, said = line.removeprefix(f"{path}:").partition(": ")
                assert 1 <= int(number) <= max(1, len(document))
                assert said
        else:
            assert len(file.addresses) == len(document.get("nodes", ()))
            assert all(file.access(name).host for name in file.addresses)


def test_the_whole_file_is_a_good_one(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text("".join(f"{key} = {inline(value)}\n" for key, value in WHOLE.items()))
    assert len(read_cluster_file(path).addresses) == 2
