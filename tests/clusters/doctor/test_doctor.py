"""The doctor: a whole cluster lacks nothing, and of one that lacks something everything is told at once, and nothing touched."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from here_transport import HereTransport
from typer.testing import CliRunner

from schemaquake.clusters.cluster_file.model import ClusterFile
from schemaquake.clusters.doctor import checks, doctor
from schemaquake.clusters.doctor import command as doctor_command
from schemaquake.clusters.doctor.checks import all_checks
from schemaquake.clusters.doctor.doctor import examine_cluster, examine_engine, refuse_unless_fit, required_checks
from schemaquake.clusters.ssh.login import HostKeyRefused
from schemaquake.harness.errors import EnvironmentLacks, ExitCode, NodeUnreachable, PlanError
from schemaquake.harness.model.plan import Plan

ADDRESSES = {"n1": "10.0.0.1", "n2": "10.0.0.2", "n3": "10.0.0.3"}
SUDO = 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"'
SYSTEMCTL = "echo LoadState=loaded; echo ActiveState=active; echo MainPID=4711"
INJECTIONS = """
for url; do :; done
name=${url##*/}
case $* in *POST*) echo "${name%%\\?*}" > switched ;; *GET*) read -r name < switched; echo "[\\"$name\\"]" ;; esac
"""
CAPABILITIES = 'case $* in *CapEff*) echo 000001ffffffffff ;; *) exec /bin/sed "$@" ;; esac'
USERS = 'case $* in *uid_map*) exit 0 ;; *) exec /bin/grep "$@" ;; esac'
FAKED_DATE = (
    '[ -z "${FAKETIME_TIMESTAMP_FILE:-}" ] || { echo "$(($(/bin/date +%s) + 3600)).0"; exit; }; exec /bin/date "$@"'
)


class Server:
    """What the CQL of one node says."""

    def __init__(self, name):
        self.serves = True
        self.release = "5.0.9"
        self.schema = "aaaaaaaa-1111"
        self.peers = [{"peer": a, "rpc_address": a} for other, a in ADDRESSES.items() if other != name]
        self.keyspaces = ["system", "system_schema", "production"]
        self.refuses = None
        self.asked = []

    def read(self, text):
        self.asked.append(text)
        if self.refuses is not None:
            raise NodeUnreachable(self.refuses)
        if "system.versions" in text:
            return [{"version": "2025.1.2"}]
        if "system.local" in text:
            return [{"release_version": self.release, "schema_version": self.schema}]
        if "system.peers" in text:
            return self.peers
        return [{"keyspace_name": name} for name in self.keyspaces]

    def close(self):
        self.asked.append("close")


class Hosts:
    """Three hosts on this machine, each in a folder of its own, with tools that stand in for those of a node."""

    def __init__(self, folder):
        self.ways = {name: HereTransport(folder / name) for name in ADDRESSES}
        self.servers = {name: Server(name) for name in ADDRESSES}
        self.said = {
            "provider": "ssh",
            "system": "cassandra:5.0.9",
            "allow": ("partition", "packets", "clock", "kill", "errors"),
            "nodes": tuple({"address": address} for address in ADDRESSES.values()),
            "paths": {
                "logs": (str(folder / "system.log"),),
                "data": (str(folder / "data"),),
                "state": str(folder / "state" / "not yet"),
            },
        }
        (folder / "system.log").write_text("INFO\n")
        (folder / "data").mkdir()
        for way in self.ways.values():
            way.tool("sudo", SUDO)
            way.tool("id", "echo 0")
            way.tool("systemctl", SYSTEMCTL)
            way.tool("iptables", "exit 0")
            way.tool("sed", CAPABILITIES)
            way.tool("grep", USERS)
            way.tool("curl", INJECTIONS)
            way.tool("df", "echo Filesystem; echo tmpfs 9000000 1000000 8000000 12% /")

    @property
    def file(self):
        return ClusterFile.model_validate(self.said)

    def way(self, _file, name):
        return self.ways[name]

    def connect(self, node, *, request_timeout_s):
        assert request_timeout_s <= 20
        return self.servers[node]


@pytest.fixture
def hosts(tmp_path, monkeypatch):
    hosts = Hosts(tmp_path)

    class Connector:
        def __init__(self, addresses, *, port, dialect, credentials, tls):
            assert addresses == hosts.file.addresses
            assert (port, credentials, tls) == (hosts.file.cql_port, hosts.file.credentials, hosts.file.tls)
            self.dialect = dialect

        connect = staticmethod(hosts.connect)

    monkeypatch.setattr(doctor, "CqlConnector", Connector)
    names = {address: name for name, address in ADDRESSES.items()}
    monkeypatch.setattr(checks, "answers_cql", lambda address, *_, **__: hosts.servers[names[address]].serves)
    return hosts


def examined(hosts, **more):
    return examine_cluster(hosts.file, transport_to=hosts.way, **more)


def found(examination, check):
    return {node: seen["ok"] for node, seen in examination.document()["checks"][check].items()}


# ── a whole cluster ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_whole_cluster_lacks_nothing_and_every_check_was_asked_of_every_node(hosts):
    examination = examined(hosts)
    assert examination.missing == []
    assert examination.ok
    document = examination.document()
    assert list(document["checks"]) == [check.name for check in all_checks()]
    for seen in document["checks"].values():
        assert {node: each["ok"] for node, each in seen.items()} == dict.fromkeys(ADDRESSES, True)
    assert document["checks"]["version"]["n2"]["said"] == "5.0.9"
    assert document["checks"]["disk space"]["n2"]["said"] == "7812 MB"


def test_sessions_and_ways_are_closed_again(hosts):
    examined(hosts)
    assert all(way.closed for way in hosts.ways.values())
    for server in hosts.servers.values():
        assert server.asked.count("close") == len([text for text in server.asked if text != "close"])


def test_whatever_is_asked_as_root_goes_through_sudo_unless_the_user_is_root(hosts):
    examined(hosts)
    assert all(argv[:3] == ["sudo", "-n", "--"] for argv in hosts.ways["n1"].asked if argv[0] not in {"true", "date"})
    hosts.said["become"] = {"method": "none"}
    hosts.ways["n1"].asked.clear()
    assert examined(hosts).ok
    assert not any(argv[0] == "sudo" for argv in hosts.ways["n1"].asked)


def test_a_filter_that_was_tried_is_taken_away_again(hosts):
    log = hosts.ways["n1"].folder / "iptables.log"
    hosts.ways["n1"].tool("iptables", f'echo "$@" >> {log}')
    examined(hosts)
    verbs = [line.split()[2] for line in log.read_text().splitlines()]
    assert verbs.count("-N") == verbs.count("-X") > 0
    assert "-I" not in verbs


def test_only_what_the_faults_need_is_asked(hosts):
    plan = Plan(system="cassandra:5.0.9", workloads=("drop-type",), cluster="ssh", restart="none")
    everything = {check.name for check in all_checks()}
    of_faults = {"packet filter", "packet loss", "clock", "error injection"}
    for nemeses, mode, needed in (
        ((), "barrier", set()),
        (("kill", "pause"), "barrier", set()),
        (("partition",), "barrier", {"packet filter"}),
        ((), "partition", {"packet filter"}),
        (("packet-loss", "clock"), "barrier", {"packet loss", "clock"}),
        (("error-injection",), "barrier", {"error injection"}),
    ):
        asked = {
            check.name for check in required_checks(replace(plan, nemeses=nemeses, options={"mode": mode}), hosts.file)
        }
        assert asked == (everything - of_faults) | needed


def test_a_server_that_the_harness_starts_itself_is_not_asked_what_it_does_not_tell_yet(hosts):
    hosts.said["service"] = {"kind": "process", "command": ("/bin/sh", "-c", "exit")}
    for server in hosts.servers.values():
        server.serves = False
    examination = examined(hosts)
    assert examination.ok
    assert "CQL" not in examination.document()["checks"]
    hosts.said["service"] = {"kind": "process", "command": ("/opt/nowhere/cassandra",)}
    assert examined(hosts).missing == [
        "n1, n2, n3: service: there is no /opt/nowhere/cassandra: correct [service] command, or install it"
    ]


# ── what may be missing ──────────────────────────────────────────────────────────────────────────────────────────────


def spoil(hosts, node, what):  # noqa: C901, PLR0912 - a table
    way, server = hosts.ways[node], hosts.servers[node]
    match what:
        case "cut":
            way.cut = True
        case "no shell":
            way.tool("true", "echo This account is currently not available >&2; exit 1")
        case "sudo asks":
            way.tool("sudo", "echo sudo: a password is required >&2; exit 1")
        case "not root":
            way.tool("id", "echo 1000")
        case "no setsid":
            way.tool("sh", 'case $* in *"command -v"*setsid*) echo setsid ;; *) exec /bin/sh "$@" ;; esac')
        case "leased":
            way.tool("sh", 'case $* in "-s -- show "*) printf "r7\\nann@there\\n95\\n" ;; *) exec /bin/sh "$@" ;; esac')
        case "no systemd":
            way.tool("systemctl", "echo System has not been booted with systemd as init system >&2; exit 1")
        case "no unit":
            way.tool("systemctl", "echo LoadState=not-found; echo ActiveState=inactive; echo MainPID=0")
        case "stopped":
            way.tool("systemctl", "echo LoadState=loaded; echo ActiveState=failed; echo MainPID=0")
        case "no log":
            way.tool("test", "case $* in *system.log) exit 1 ;; esac")
        case "no data":
            way.tool("test", "case $1 in -d) exit 1 ;; esac")
        case "full":
            way.tool("df", "echo Filesystem; echo /dev/sda 100 97 3000 99% /")
        case "fast clock":
            way.tool("date", 'echo "$(($(/bin/date +%s) + 3)).000000000"')
        case "no date":
            way.tool("date", "echo never")
        case "no consent":
            path = Path(__file__)  # any file that is there
            hosts.said["consent_file"] = str(path)
            for name, each in hosts.ways.items():
                each.tool("stat", "echo 0 666" if name == node else "echo 0 644")
                each.tool("cat", "echo '# yes'; echo partition, packets clock errors kill")
        case "no filter":
            way.tool("iptables", "echo iptables v1.8.11: Permission denied >&2; exit 4")
            way.tool("nft", "echo nft: Operation not permitted >&2; exit 1")
            way.tool("unshare", "echo unshare failed >&2; exit 1")
        case "no curl":
            way.tool("curl", "exit 127")
        case "no clock":
            way.tool("sed", "echo 00000000a80425fb")
        case "no cql":
            server.serves = False
        case "login":
            server.refuses = (
                "node n2 refused the login at 10.0.0.2:9042 (user name from $A, password from $B): check both"
            )
        case "older":
            server.release = "5.0.90"
        case "stranger":
            server.peers.append({"peer": "10.0.0.9", "rpc_address": "10.0.0.9"})
        case "lonely":
            server.peers = server.peers[:1]
        case "disagrees":
            server.schema = "bbbbbbbb-2222"
        case "leftovers":
            server.keyspaces = ["sq_set", "sqs", "sq_append"]


MISSING = [
    ("cut", "reachable", "here n2: cut off", ""),
    ("no shell", "reachable", "here n2 runs no commands: This account", "give the user a login shell"),
    ("sudo asks", "root", "sudo refused `id`", "NOPASSWD"),
    ("not root", "root", "commands do not run as root", "log in as root"),
    ("no consent", "consent", "may be written by others than root", "its owner puts"),
    ("no setsid", "tools", "no setsid", "install coreutils, findutils and util-linux"),
    ("leased", "lease", "run r7 of ann@there holds it for another 95 s", "wait for its end"),
    ("no systemd", "service", "systemctl does not work: System has not been booted", 'kind = "commands"'),
    ("no unit", "service", "there is no unit cassandra", "correct [service] unit"),
    ("stopped", "service", "the unit cassandra is failed", "systemctl start cassandra"),
    ("no log", "logs", "system.log", "correct [paths] logs"),
    ("no data", "data", "there is no folder", "correct [paths] data"),
    ("full", "disk space", "data has 2 MB free of 512 needed", "make room there"),
    ("fast clock", "clock offset", "its clock is +", "synchronize it"),
    ("no date", "clock offset", "`date` printed 'never'", "install coreutils"),
    (
        "no filter",
        "packet filter",
        "no means to drop packets: iptables: iptables v1.8.11: Permission denied",
        "install",
    ),
    ("no filter", "packet loss", "cannot delay or lose packets", "install iproute2"),
    ("no curl", "error injection", "there is no curl on it", "Install curl there"),
    ("no clock", "clock", "CAP_SYS_TIME is missing", "choose another [clock] method"),
    ("no cql", "CQL", "nothing answers CQL at 10.0.0.2:9042", "start the server"),
    ("login", "CQL", "refused the login", "check both"),
    ("older", "version", "it is 5.0.90, not 5.0.9", "correct the system"),
    ("stranger", "ring", "it knows 10.0.0.9, which the file does not list", "list every node of the ring"),
    ("lonely", "ring", "it does not know n3", "join them to one ring"),
    ("disagrees", "schema agreement", "n2 has bbbbbbbb-2222, n3 has aaaaaaaa-1111", "wait for agreement"),
    (
        "leftovers",
        "prefix",
        "there are keyspaces under sq_ already: sq_append, sq_set",
        "choose another keyspace_prefix",
    ),
]


@pytest.mark.parametrize(("what", "check", "said", "remedy"), MISSING, ids=[f"{m[0]} - {m[1]}" for m in MISSING])
def test_what_one_node_lacks_is_told_of_it_with_what_to_do(hosts, what, check, said, remedy):
    spoil(hosts, "n2", what)
    examination = examined(hosts)
    assert not examination.ok
    ok = found(examination, check)
    assert ok["n2"] is False
    if check != "schema agreement":  # of which all are a part
        assert (ok["n1"], ok["n3"]) == (True, True)
    (sentence,) = [told for told in examination.missing if f": {check}: " in told]
    assert "n2" in sentence.split(": ")[0]
    assert said in sentence
    assert remedy in sentence


def test_every_check_can_fail():
    assert {check for _, check, _, _ in MISSING} | {"host key"} == {check.name for check in all_checks()}


def test_what_stands_on_something_that_is_missing_is_not_asked(hosts):
    spoil(hosts, "n2", "cut")
    spoil(hosts, "n3", "no cql")
    document = examined(hosts).document()["checks"]
    assert [name for name, seen in document.items() if seen["n2"]["ok"] is None] == [
        *("host key", "root", "consent", "tools", "lease", "service", "logs", "data", "disk space"),
        *("clock offset", "clock", "error injection", "packet filter", "packet loss"),
    ]
    assert [name for name, seen in document.items() if seen["n3"]["ok"] is None] == [
        *("version", "ring", "schema agreement", "prefix", "error injection"),
    ]
    assert document["CQL"]["n2"]["ok"], "CQL does not go through SSH"
    assert hosts.ways["n2"].asked == [["true"]], "one knock is enough"


def test_an_unknown_host_key_is_told_as_such_and_nothing_else_is_asked_there(hosts):
    class Stranger(HereTransport):
        def run(self, *_, **__):
            raise HostKeyRefused("the key of n2 is not known; add it: ssh-keyscan n2 >> ~/.ssh/known_hosts")

    hosts.ways["n2"] = Stranger(hosts.ways["n2"].folder)
    examination = examined(hosts)
    assert found(examination, "host key") == {"n1": True, "n2": False, "n3": True}
    assert found(examination, "root")["n2"] is None
    assert examination.missing == [
        "n2: host key: the key of n2 is not known; add it: ssh-keyscan n2 >> ~/.ssh/known_hosts"
    ]


def test_the_same_on_several_nodes_is_said_once(hosts):
    for node in ADDRESSES:
        spoil(hosts, node, "no unit")
    assert examined(hosts).missing == ["n1, n2, n3: service: there is no unit cassandra: correct [service] unit"]


def test_a_clock_that_tells_only_seconds_may_be_one_late(hosts):
    hosts.ways["n1"].tool("date", 'echo "$(/bin/date +%s).%N"')
    assert found(examined(hosts), "clock offset")["n1"]


@pytest.mark.parametrize(
    ("served", "system", "ok"),
    [
        ("5.0.9", "cassandra:5.0.9", True),
        ("5.0.9-SNAPSHOT", "cassandra:5.0.9", True),
        ("5.0.91", "cassandra:5.0.9", False),
        ("5.0.9.1", "cassandra:5.0.9", False),
        ("4.1.7", "cassandra:5.0.9", False),
        ("6.0-alpha2", "cassandra:6.0-alpha2", True),
    ],
)
def test_servers_are_of_the_system_that_they_should_be(hosts, served, system, ok):
    hosts.said["system"] = system
    for server in hosts.servers.values():
        server.release = served
    assert examined(hosts).ok is ok


def test_without_a_system_any_version_will_do_and_is_told(hosts):
    del hosts.said["system"]
    assert examined(hosts).document()["checks"]["version"]["n1"] == {"ok": True, "said": "5.0.9", "remedy": ""}
    assert not examined(hosts, system="cassandra:4.1.7").ok


def test_scylladb_tells_its_own_version_elsewhere(hosts):
    hosts.said["system"] = "scylladb:2025.1.2"
    assert examined(hosts).document()["checks"]["version"]["n1"]["said"] == "2025.1.2"


def test_a_system_without_cql_cannot_be_tested_where_it_is_deployed(hosts):
    hosts.said["system"] = "cassandra:1.1.12"
    with pytest.raises(PlanError, match="speaks Thrift"):
        examined(hosts)


def test_commands_of_the_owner_s_have_to_tell_a_process_that_is_there(hosts):
    commands = dict.fromkeys(("start", "stop", "kill"), ("/bin/true",))
    for status, ok, said in (
        (("sh", "-c", "echo $PPID"), True, "process "),
        (("sh", "-c", "exit 1"), False, "prints no process id"),
        (("echo", "stopped"), False, "prints no process id"),
        (("echo", "99999999"), False, "prints 99999999, and no such process runs"),
    ):
        hosts.said["service"] = {"kind": "commands", **commands, "status": status}
        seen = examined(hosts).document()["checks"]["service"]["n1"]
        assert seen["ok"] is ok
        assert said in seen["said"]


def test_the_library_must_be_there_and_a_server_of_somebody_else_s_under_it(hosts, tmp_path):
    library, offset = tmp_path / "libfaketime.so.1", tmp_path / "offset"
    hosts.said["clock"] = {"method": "libfaketime", "library": str(library), "offset_file": str(offset)}
    for way in hosts.ways.values():
        way.tool("date", 'exec /bin/date "$@"')
    assert f"{library} does not change the time that a process there sees" in examined(hosts).missing[0]
    for way in hosts.ways.values():
        way.tool("date", FAKED_DATE)
    assert "the service does not start the server under libfaketime" in examined(hosts).missing[0]
    for way in hosts.ways.values():
        way.tool("grep", f'[ "$2" = "FAKETIME_TIMESTAMP_FILE={offset}" ] && echo /proc/1/environ')
    assert examined(hosts).ok
    hosts.said["service"] = {"kind": "process", "command": ("/bin/sh",)}
    hosts.said["clock"] = {"method": "libfaketime", "library": str(library)}
    assert examined(hosts).ok


# ── before a run ─────────────────────────────────────────────────────────────────────────────────────────────────────

PLAN = Plan(
    system="cassandra:5.0.9", workloads=("register",), cluster="ssh", nemeses=("partition", "clock"), restart="none"
)


def test_a_run_is_told_what_its_hosts_are(hosts):
    facts = refuse_unless_fit(PLAN, hosts.file, transport_to=hosts.way)
    assert facts["version of the nodes"] == "n1 5.0.9, n2 5.0.9, n3 5.0.9"
    assert facts["clock offset of the nodes"].startswith("n1 ")


def test_a_run_is_refused_with_everything_that_is_missing(hosts):
    spoil(hosts, "n1", "no filter")
    spoil(hosts, "n2", "no clock")
    spoil(hosts, "n3", "full")
    with pytest.raises(EnvironmentLacks) as refused:
        refuse_unless_fit(PLAN, hosts.file, transport_to=hosts.way)
    first, *told = str(refused.value).splitlines()
    assert first == "the cluster lacks what this run needs; nothing was touched:"
    assert [line.split(": ")[:2] for line in told] == [
        ["  n3", "disk space"],
        ["  n2", "clock"],
        ["  n1", "packet filter"],
    ]
    assert refused.value.exit_code == ExitCode.BAD_ARGUMENTS
    refuse_unless_fit(replace(PLAN, nemeses=("kill",)), hosts.file, transport_to=lambda _f, name: hosts.ways["n1"])


# ── containers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_containers_the_engine_is_asked_and_for_the_image(monkeypatch):
    class Engine:
        images = frozenset({"cassandra:5.0", "schemaquake/cassandra:5.0.9"})

        def __init__(self, host):
            self.host = host

        def described(self):
            return {"docker engine": f"28.0 at {self.host}"}

        def has_image(self, name):
            return name in self.images

        def close(self):
            pass

    def connect(host):
        if host == "unix:///nowhere":
            raise EnvironmentLacks("the docker engine at unix:///nowhere cannot be used: start it")
        return Engine(host)

    monkeypatch.setattr("schemaquake.clusters.docker.engine.DockerEngine.connect", connect)

    def file(**said):
        return ClusterFile.model_validate({"provider": "docker", "docker": said})

    assert examine_engine(file(image="cassandra:5.0")).ok
    assert examine_engine(file(), system="cassandra:5.0.9").ok
    assert examine_engine(file(image="cassandra:4")).missing == [
        "docker: image: the engine has no cassandra:4: docker pull cassandra:4"
    ]
    assert examine_engine(file(), system="cassandra:4.1.7").missing == [
        "docker: image: the engine has no schemaquake/cassandra:4.1.7: schemaquake image cassandra:4.1.7"
    ]
    assert examine_engine(file()).missing == [
        'docker: image: no image is named: write image = "…" below [docker], or say --system'
    ]
    assert examine_engine(file(host="unix:///nowhere", image="cassandra:5.0")).document()["checks"] == {
        "engine": {
            "docker": {
                "ok": False,
                "said": "the docker engine at unix:///nowhere cannot be used: start it",
                "remedy": "",
            }
        },
        "image": {"docker": {"ok": None, "said": "", "remedy": ""}},
    }


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def run(hosts, monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "SshTransport", lambda access: hosts.ways[f"n{access.host[-1]}"])
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "cluster.toml"
    nodes = "".join(f'[[nodes]]\naddress = "{address}"\n' for address in ADDRESSES.values())
    paths = "".join(f"{name} = {json.dumps(value)}\n" for name, value in hosts.said["paths"].items())
    path.write_text(f'provider = "ssh"\nsystem = "cassandra:5.0.9"\nallow = ["partition"]\n[paths]\n{paths}{nodes}')

    def carried_out(*arguments):
        app = typer.Typer()
        app.callback()(lambda: None)
        doctor_command.register(app)
        return CliRunner().invoke(app, ["doctor", "--cluster", str(path), *arguments])

    return carried_out


def test_the_command_prints_a_table_and_exits_0_on_a_whole_cluster(run):
    result = run()
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["n1", "n2", "n3"]
    assert next(line for line in lines if line.startswith("version")).split() == ["version", *["ok", "5.0.9"] * 3]
    assert next(line for line in lines if line.startswith("reachable")).count("here n") == 3
    assert not any(line.startswith("clock ") and "offset" not in line for line in lines), "the file allows no clocks"


def test_the_command_names_what_is_missing_below_the_table_and_exits_1(run, hosts):
    spoil(hosts, "n2", "no unit")
    hosts.ways["n3"].tool("systemctl", "echo '[bold]no[/bold] [/] systemd' >&2; exit 1")
    result = run()
    assert result.exit_code == 1
    assert next(line for line in result.stdout.splitlines() if line.startswith("service")).split() == [
        *("service", "ok", "cassandra,", "process", "4711", "missing", "missing"),
    ]
    assert "\nn2: service: there is no unit cassandra: correct [service] unit\n" in result.stdout
    assert "n3: service: systemctl does not work: [bold]no[/bold] [/] systemd" in result.stdout


def test_the_command_s_json_is_one_document(run, hosts):
    spoil(hosts, "n2", "leftovers")
    result = run("--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["ok"] is False
    assert document["checks"]["prefix"]["n2"]["remedy"].startswith("drop them")


def test_a_file_with_errors_is_refused_by_the_command(tmp_path):
    (tmp_path / "cluster.toml").write_text('provider = "shh"')
    app = typer.Typer()
    app.callback()(lambda: None)
    doctor_command.register(app)
    result = CliRunner().invoke(app, ["doctor", "--cluster", str(tmp_path / "cluster.toml")])
    assert isinstance(result.exception, PlanError)
