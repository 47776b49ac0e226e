"""Known hosts: what OpenSSH would accept is accepted, and what it would refuse is refused, by a real sshd where one is needed."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import threading

import pytest
from ssh_hosts import SshHosts, why_not

from schemaquake.clusters.cluster_file.model import SshAccess
from schemaquake.clusters.ssh.known_hosts import certified_keys, read_known_hosts
from schemaquake.clusters.ssh.login import HostKeyRefused, log_in
from schemaquake.clusters.ssh.transport import SshTransport
from schemaquake.harness.errors import NodeUnreachable


def keygen(*arguments):
    subprocess.run(["ssh-keygen", "-q", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Public keys by name, as `type base64`."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("a", "b", "ca", "other_ca"):
        keygen("-t", "ed25519", "-N", "", "-f", folder / name)
    return folder


def public(keys, name):
    return " ".join((keys / f"{name}.pub").read_text().split()[:2])


def blob(keys, name):
    return base64.b64decode(public(keys, name).split()[1])


# ── the file ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("names", "host", "port", "known"),
    [
        ("db1", "db1", 22, True),
        ("DB1", "db1", 22, True),
        ("db1", "db11", 22, False),
        ("db1", "db1", 2222, False),
        ("[db1]:2222", "db1", 2222, True),
        ("[db1]:2222", "db1", 22, False),
        ("other,db1", "db1", 22, True),
        ("*.example.org", "db1.example.org", 22, True),
        ("*.example.org", "example.org", 22, False),
        ("db?", "db1", 22, True),
        ("*,!db1", "db1", 22, False),
        ("!db1,*", "db2", 22, True),
        ("2001:db8::1", "2001:db8::1", 22, True),
        ("[2001:db8::1]:2222", "2001:db8::1", 2222, True),
        ("[2001:db8::1]:2222", "2001:db8::1", 22, False),
        ("db.", "dbx", 22, False),
        ("[ab]", "a", 22, False),
    ],
)
def test_a_name_is_known_as_openssh_knows_it(tmp_path, keys, names, host, port, known):
    path = tmp_path / "known_hosts"
    path.write_text(f"# comment\n\nnonsense\n{names} {public(keys, 'a')} a comment\n")
    assert (read_known_hosts([path], host, port).trusted == {blob(keys, "a")}) is known
    name = host if port == 22 else f"[{host}]:{port}"
    found = subprocess.run(["ssh-keygen", "-F", name, "-f", path], capture_output=True, check=False).returncode == 0
    assert found is known, "OpenSSH itself says otherwise"


@pytest.mark.parametrize(("host", "port"), [("db1", 22), ("db1", 2222), ("2001:db8::1", 22), ("2001:db8::1", 2222)])
def test_a_hashed_name_is_known(tmp_path, keys, host, port):
    path = tmp_path / "known_hosts"
    name = host if port == 22 else f"[{host}]:{port}"
    path.write_text(f"{name} {public(keys, 'a')}\n")
    keygen("-H", "-f", path)
    assert name not in path.read_text()
    assert read_known_hosts([path], host, port).trusted == {blob(keys, "a")}
    assert not read_known_hosts([path], "db2", port).trusted


def test_marks_are_kept_apart_and_what_is_revoked_is_not_trusted_wherever_it_stands(tmp_path, keys):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text(
        f"db1 {public(keys, 'a')}\ndb1 {public(keys, 'b')}\n@cert-authority *.org,db1 {public(keys, 'ca')}\n"
    )
    two.write_text(
        f"@revoked * {public(keys, 'a')}\n@moon db1 {public(keys, 'ca')}\ndb1 ssh-rsa {public(keys, 'ca').split()[1]}\n"
    )
    known = read_known_hosts([one, two], "db1", 22)
    assert known.trusted == {blob(keys, "b")}
    assert known.authorities == {blob(keys, "ca")}
    assert known.revoked == {blob(keys, "a")}


# ── certificates and real servers ────────────────────────────────────────────────────────────────────────────────────

needs_sshd = [pytest.mark.cluster, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with SshHosts(tmp_path_factory.mktemp("ssh"), 2) as hosts:
        yield hosts


def logs_in(hosts, known_hosts, text, **changes):
    known_hosts.write_text(text)
    transport = SshTransport(hosts.access("n1", known_hosts=known_hosts, **changes))
    try:
        return transport.run(["true"]).exit_code == 0
    finally:
        transport.close()


def host_key(hosts):
    return " ".join((hosts["n1"].folder / "host_key.pub").read_text().split()[:2])


class TestRealServers:
    pytestmark = needs_sshd

    def test_a_pattern_or_a_hash_is_enough(self, hosts, tmp_path):
        address = hosts["n1"].address
        assert logs_in(hosts, tmp_path / "k", f"{address.rsplit('.', 1)[0]}.* {host_key(hosts)}\n")
        path = tmp_path / "hashed"
        path.write_text(f"{address} {host_key(hosts)}\n")
        keygen("-H", "-f", path)
        assert logs_in(hosts, path, path.read_text())

    def test_a_revoked_key_is_refused_although_it_is_known(self, hosts, tmp_path):
        text = f"{hosts['n1'].address} {host_key(hosts)}\n@revoked * {host_key(hosts)}\n"
        logins = hosts["n1"].log.count("Accepted publickey")
        with pytest.raises(HostKeyRefused, match="@revoked"):
            logs_in(hosts, tmp_path / "k", text)
        assert hosts["n1"].log.count("Accepted publickey") == logins

    @pytest.mark.parametrize(
        ("case", "accepted"),
        [("valid", True), ("another name", False), ("expired", False), ("another authority", False), ("revoked authority", False), ("for users", False)],
    )  # fmt: skip
    def test_a_host_is_known_by_a_certificate_of_its_authority(
        self, hosts, keys, tmp_path, monkeypatch, case, accepted
    ):
        public_key = hosts["n1"].folder / "host_key.pub"
        shown = tmp_path / "host_key.pub"
        shown.write_text(public_key.read_text())
        kind = [] if case == "for users" else ["-h"]
        name = "elsewhere" if case == "another name" else hosts["n1"].address
        span = "20200101:20200102" if case == "expired" else "-1h:+1h"
        authority = keys / ("other_ca" if case == "another authority" else "ca")
        keygen("-s", authority, *kind, "-I", "n1", "-n", name, "-V", span, shown)
        line = (tmp_path / "host_key-cert.pub").read_bytes()
        monkeypatch.setattr("schemaquake.clusters.ssh.login.scan_certificates", lambda *_: [line])
        text = f"@cert-authority {hosts['n1'].address} {public(keys, 'ca')}\n"
        if case == "revoked authority":
            text += f"@revoked * {public(keys, 'ca')}\n"
        if accepted:
            assert logs_in(hosts, tmp_path / "k", text)
            return
        with pytest.raises(HostKeyRefused, match="no certificate of an authority"):
            logs_in(hosts, tmp_path / "k", text)

    def test_who_repeats_the_certificate_of_another_host_has_not_its_key(self, hosts, keys, tmp_path, monkeypatch):
        stolen = tmp_path / "stolen.pub"
        stolen.write_text(f"{public(keys, 'b')}\n")
        keygen("-s", keys / "ca", "-h", "-I", "n1", "-n", hosts["n1"].address, stolen)
        line = (tmp_path / "stolen-cert.pub").read_bytes()
        monkeypatch.setattr("schemaquake.clusters.ssh.login.scan_certificates", lambda *_: [line])
        with pytest.raises(NodeUnreachable, match="not the one it is known by"):
            logs_in(hosts, tmp_path / "k", f"@cert-authority * {public(keys, 'ca')}\n")


class TestCertificatesThatSshdShows:
    """n1's sshd shows a certificate, and n2 is the jump host before it."""

    pytestmark = needs_sshd

    @pytest.fixture
    def shows(self, hosts, keys):
        host = hosts["n1"]
        config = (host.folder / "sshd_config").read_text()

        def shows(name, *, key="host_key"):
            public_key = host.folder / f"{key}.pub"
            keygen("-s", keys / "ca", "-h", "-I", "n1", "-n", name, "-V", "-1h:+1h", public_key)
            host.end_sshd()
            line = f"HostCertificate {host.folder / f'{key}-cert.pub'}"
            (host.folder / "sshd_config").write_text(f"{config}\n{line}\n")
            hosts.start_sshd(host)

        yield shows
        host.end_sshd()
        (host.folder / "sshd_config").write_text(config)
        hosts.start_sshd(host)

    def text(self, hosts, keys, *, ca="ca", more=""):
        known = (hosts["n2"].folder / "host_key.pub").read_text().split()
        return f"{hosts['n2'].address} {known[0]} {known[1]}\n@cert-authority 10.* {public(keys, ca)}\n{more}"

    @pytest.mark.parametrize("jumps", [False, True], ids=["straight", "behind a jump host"])
    def test_the_certificate_is_enough_and_a_wrong_one_is_not(self, hosts, keys, tmp_path, shows, jumps):
        path = tmp_path / "k"
        through = {"jump": hosts.access("n2", known_hosts=path)} if jumps else {}
        shows(hosts["n1"].address)
        logins = hosts["n1"].log.count("Accepted publickey")
        assert logs_in(hosts, path, self.text(hosts, keys), **through)
        assert hosts["n1"].log.count("Accepted publickey") == logins + 1
        for spoilt in (
            self.text(hosts, keys, ca="other_ca"),
            self.text(hosts, keys, more=f"@revoked * {public(keys, 'ca')}\n"),
            self.text(hosts, keys, more=f"@revoked * {host_key(hosts)}\n"),
        ):
            with pytest.raises(HostKeyRefused):
                logs_in(hosts, path, spoilt, **through)
        shows("elsewhere")
        with pytest.raises(HostKeyRefused, match="no certificate of an authority"):
            logs_in(hosts, path, self.text(hosts, keys), **through)
        assert hosts["n1"].log.count("Accepted publickey") == logins + 1
        assert [thread.name for thread in threading.enumerate() if thread.name == "relay"] == []

    def test_a_jump_host_may_be_known_by_its_certificate_and_a_node_that_is_down_is_said(
        self, hosts, keys, tmp_path, shows
    ):
        path = tmp_path / "k"
        shows(hosts["n1"].address)
        known = (hosts["n2"].folder / "host_key.pub").read_text().split()
        ours = f"@cert-authority {hosts['n1'].address} {public(keys, 'ca')}\n"
        path.write_text(f"{ours}{hosts['n2'].address} {known[0]} {known[1]}\n")
        transport = SshTransport(hosts.access("n2", known_hosts=path, jump=hosts.access("n1", known_hosts=path)))
        try:
            assert transport.run(["true"]).exit_code == 0
        finally:
            transport.close()
        hosts["n1"].end_sshd()
        with pytest.raises(NodeUnreachable, match="cannot be reached through"):
            logs_in(hosts, path, path.read_text(), jump=hosts.access("n2", known_hosts=path))


def test_a_forged_signature_is_none(keys, tmp_path):
    victim = tmp_path / "v.pub"
    victim.write_text(f"{public(keys, 'b')}\n")
    keygen("-s", keys / "ca", "-h", "-I", "v", "-n", "db1", victim)
    kind, text = (tmp_path / "v-cert.pub").read_text().split()[:2]
    path = tmp_path / "known_hosts"
    path.write_text(f"@cert-authority * {public(keys, 'ca')}\n")
    known = read_known_hosts([path], "db1", 22)
    whole = base64.b64decode(text)
    lines = [f"{kind} {text}".encode()]
    assert certified_keys(known, "db1", scanned=lines) == {blob(keys, "b")}
    for at in (len(whole) - 1, len(whole) - 40):
        spoilt = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        lines = [f"{kind} {base64.b64encode(spoilt).decode()}".encode()]
        assert certified_keys(known, "db1", scanned=lines) == frozenset()
    lines = [b"", b"x y", os.urandom(50)]
    assert certified_keys(known, "db1", scanned=lines) == frozenset()


def test_a_login_that_fails_before_the_keys_are_known_closes_its_connection(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = SshAccess(
            host="127.0.0.1",
            port=listener.getsockname()[1],
            user="u",
            key=None,
            agent=False,
            known_hosts=tmp_path,  # a folder, which cannot be read as a file
            fingerprint=None,
        )
        with pytest.raises(HostKeyRefused, match="cannot be read") as refused:
            log_in(host)
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(20)
            assert connection.recv(1) == b""
    assert refused.value  # whose frames would keep a socket that nobody closed
