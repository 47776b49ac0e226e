"""The doctor on hosts with a real sshd: what it says of wrong keys, refused sudo, cut cables and missing tools is true."""

from __future__ import annotations

import json

import pytest
from ssh_hosts import SshHosts, why_not

from schemaquake.harness.cli.command_line import _run
from schemaquake.harness.errors import ExitCode

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with SshHosts(tmp_path_factory.mktemp("doctor"), 2) as hosts:
        yield hosts


@pytest.fixture
def asked(hosts, tmp_path, capfd):
    """What `schemaquake doctor --json` says of these hosts: exit code, and the findings of each check by node."""

    def of(*, user="root", key=None, known_hosts=None, become="none", allow='"partition", "packets", "kill"', of_n2=""):
        nodes = "".join(f'[[nodes]]\naddress = "{host.address}"\n' for host in hosts.hosts.values())
        path = tmp_path / "cluster.toml"
        path.write_text(
            f'provider = "ssh"\nallow = [{allow}]\n'
            f'ssh = {{ user = "{user}", key = "{key or hosts.key}", known_hosts = "{known_hosts or hosts.known_hosts}" }}\n'
            f'become.method = "{become}"\n'
            'service = { kind = "process", command = ["sh"] }\n'
            f'paths = {{ data = ["{tmp_path}"], state = "/run/schemaquake" }}\n{nodes}{of_n2}'
        )
        capfd.readouterr()
        code = _run(["doctor", "--cluster", str(path), "--json"])
        return code, json.loads(capfd.readouterr().out)["checks"]

    return of


def test_hosts_that_have_everything(asked, hosts):
    code, checks = asked()
    assert code == ExitCode.VALID, checks
    assert checks["reachable"]["n2"]["said"] == f"ssh root@{hosts['n2'].address}:22"
    assert abs(float(checks["clock offset"]["n1"]["said"].split()[0])) < 0.5, "they share this machine's clock"
    for host in hosts.hosts.values():
        assert "schemaquake" not in host.exec("iptables", "-S").stdout
        assert host.exec("nft", "list", "tables").stdout.count("schemaquake") == 0


def test_a_key_that_the_hosts_do_not_know(asked, tmp_path, hosts):
    other = tmp_path / "other_key"
    other.write_bytes((hosts["n1"].folder / "host_key").read_bytes())
    other.chmod(0o600)
    code, checks = asked(key=other)
    assert code == ExitCode.INVALID
    assert [checks["reachable"][node]["ok"] for node in ("n1", "n2")] == [False, False]
    assert checks["root"]["n1"]["ok"] is None


def test_a_host_that_nobody_knows_is_refused_with_the_command_that_adds_it(asked, tmp_path, hosts):
    known = tmp_path / "known_hosts"
    known.write_text(hosts.known_hosts.read_text().splitlines()[0] + "\n")
    code, checks = asked(known_hosts=known)
    assert code == ExitCode.INVALID
    assert checks["host key"]["n1"]["ok"] is True
    assert checks["host key"]["n2"]["ok"] is False
    assert "ssh-keyscan" in checks["host key"]["n2"]["said"]
    assert hosts["n2"].address in checks["host key"]["n2"]["said"]
    assert checks["root"]["n2"]["ok"] is None, "nothing was asked of a host that nobody knows"


def test_a_pinned_fingerprint_counts_before_known_hosts(asked, hosts):
    code, checks = asked(of_n2=f'ssh = {{ fingerprint = "{hosts["n2"].fingerprint}", known_hosts = "/dev/null" }}\n')
    assert code == ExitCode.VALID, checks
    code, checks = asked(of_n2=f'ssh = {{ fingerprint = "{hosts["n1"].fingerprint}" }}\n')
    assert (code, checks["host key"]["n2"]["ok"]) == (ExitCode.INVALID, False)


def test_a_user_whom_sudo_refuses(asked):
    code, checks = asked(user="operator", become="sudo")
    assert code == ExitCode.INVALID
    assert checks["reachable"]["n1"]["ok"] is True
    assert "sudo refused `id`" in checks["root"]["n1"]["said"]
    assert checks["packet filter"]["n1"]["ok"] is None


def test_a_user_who_is_not_root_and_does_not_become_it(asked):
    code, checks = asked(user="operator", become="none")
    assert (code, checks["root"]["n1"]["ok"]) == (ExitCode.INVALID, False)
    assert checks["root"]["n1"]["said"] == "commands do not run as root: 64001"


def test_root_needs_no_password_to_become_root(asked):
    code, checks = asked(become="sudo")
    assert code == ExitCode.VALID, checks
    assert checks["root"]["n1"]["said"] == "by sudo"


def test_a_host_behind_a_cut_cable_is_told_and_the_others_are_asked_everything(asked, hosts):
    hosts["n2"].cut()
    try:
        code, checks = asked()
    finally:
        hosts["n2"].mend()
    assert code == ExitCode.INVALID
    assert {check: seen["n1"]["ok"] for check, seen in checks.items()} == dict.fromkeys(checks, True)
    assert checks["reachable"]["n2"]["ok"] is False
    assert hosts["n2"].address in checks["reachable"]["n2"]["said"]


def test_tools_that_do_not_work_are_told_in_their_own_words(asked, hosts):
    tools = hosts.folder / "bin"
    tools.mkdir(exist_ok=True)
    for tool in ("iptables", "nft", "tc"):
        (tools / tool).write_text(f"#!/bin/sh\necho {tool} is broken today >&2\nexit 1\n")
        (tools / tool).chmod(0o755)
    try:
        code, checks = asked()
    finally:
        for tool in ("iptables", "nft", "tc"):
            (tools / tool).unlink()
    assert code == ExitCode.INVALID
    assert "iptables is broken today" in checks["packet filter"]["n1"]["said"]
    assert "tc is broken today" in checks["packet loss"]["n2"]["said"]
    assert asked(allow='"kill"')[0] == ExitCode.VALID
