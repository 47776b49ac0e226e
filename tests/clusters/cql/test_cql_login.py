"""Logging in: the driver gives the node what the references lead to, in TLS if it is to be, and nobody else learns it."""

from __future__ import annotations

import datetime as dt
import ipaddress
import logging
import pickle
import socket
import ssl
import struct
import threading
from contextlib import contextmanager

import pytest
from cassandra import Unauthorized
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from schemaquake.clusters.cluster_file.credentials import CredentialReference, Credentials
from schemaquake.clusters.cluster_file.tls import Tls
from schemaquake.clusters.cql import client as cql_client
from schemaquake.clusters.cql.client import CqlConnector
from schemaquake.clusters.cql.protocol import answers_cql
from schemaquake.clusters.systems.system import parse_system
from schemaquake.harness.ddl import schema_changes as ddl
from schemaquake.harness.errors import EnvironmentLacks, NodeUnreachable

USER, PASSWORD = "robert_tables", "correct horse; battery"
HEADER = struct.Struct(">BBhBi")
ERROR, AUTHENTICATE, OPTIONS, SUPPORTED, AUTH_RESPONSE = 0x00, 0x03, 0x05, 0x06, 0x0F


class PasswordNode:
    """As much of a server as it takes to log in: asks for a password, notes it, and refuses it, naming the user."""

    def __init__(self, tls=None):
        self.logins = []
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            with self._tls.wrap_socket(connection, server_side=True) if self._tls else connection as session:
                while head := session.recv(HEADER.size, socket.MSG_WAITALL if self._tls is None else 0):
                    version, _, stream, opcode, length = HEADER.unpack(head)
                    body = b""
                    while len(body) < length:
                        body += session.recv(length - len(body))
                    kind, answer = self._answer(opcode, body)
                    session.sendall(HEADER.pack(version | 0x80, 0, stream, kind, len(answer)) + answer)
        except OSError:
            return

    def _answer(self, opcode, body):
        if opcode == OPTIONS:
            return SUPPORTED, b"\0\2" + _text("CQL_VERSION") + b"\0\1" + _text("3.4.7") + _text("COMPRESSION") + b"\0\0"
        if opcode == AUTH_RESPONSE:
            self.logins.append(body[4:])
            return ERROR, struct.pack(">i", 0x0100) + _text(f"Provided username {USER} and/or password are incorrect")
        return AUTHENTICATE, _text("org.apache.cassandra.auth.PasswordAuthenticator")

    def close(self):
        self._listener.close()


def _text(text):
    return struct.pack(">H", len(text)) + text.encode()


@contextmanager
def password_node(tls=None):
    node = PasswordNode(tls)
    try:
        yield node
    finally:
        node.close()


@pytest.fixture
def credentials(monkeypatch, tmp_path):
    monkeypatch.setattr(cql_client, "_SECONDS_TO_CONNECT", 0.5)
    monkeypatch.setenv("QUAKE_TEST_USER", USER)
    (tmp_path / "password").write_text(PASSWORD + "\n")
    (tmp_path / "password").chmod(0o600)
    return Credentials(
        username=CredentialReference(env="QUAKE_TEST_USER"),
        password=CredentialReference.model_validate({"file": str(tmp_path / "password")}),
    )


def connector(port, **more):
    return CqlConnector({"n1": "127.0.0.1"}, port=port, dialect=parse_system("cassandra:5.0.9").cql, **more)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """`good` names 127.0.0.1, `other` names another host; each vouches for itself."""
    folder = tmp_path_factory.mktemp("certificates")
    for name, address in (("good", "127.0.0.1"), ("other", "10.0.0.9")):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = dt.datetime.now(dt.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (folder / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
    return folder


def served_as(certificates, name):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / f"{name}.pem", certificates / f"{name}.key")
    return context


def vouched(certificates, name, **more):
    return Tls.model_validate({"ca": str(certificates / f"{name}.pem"), **more})


# ── passwords ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_node_is_given_user_and_password_and_whoever_reads_the_refusal_neither(credentials, caplog):
    caplog.set_level(logging.DEBUG)
    with password_node() as node, pytest.raises(NodeUnreachable) as refused:
        connector(node.port, credentials=credentials).connect("n1", request_timeout_s=1)
    assert set(node.logins) == {b"\0" + USER.encode() + b"\0" + PASSWORD.encode()}
    assert (
        f"node n1 refused the login at 127.0.0.1:{node.port} (user name from $QUAKE_TEST_USER, password from /"
        in str(refused.value)
    )
    chain, error = [], refused.value
    while error is not None:
        chain.append(repr(error))
        error = error.__cause__
    for text in (*chain, caplog.text):
        assert USER not in text
        assert PASSWORD not in text


def test_a_node_that_wants_a_login_and_gets_none_says_so(credentials):
    with password_node() as node, pytest.raises(NodeUnreachable, match="requires authentication"):
        connector(node.port).connect("n1", request_timeout_s=1)
    assert node.logins == []


def test_a_secret_that_is_not_there_ends_it_before_anything_is_sent(credentials, monkeypatch):
    monkeypatch.delenv("QUAKE_TEST_USER")
    with password_node() as node, pytest.raises(EnvironmentLacks, match="QUAKE_TEST_USER"):
        connector(node.port, credentials=credentials).connect("n1", request_timeout_s=1)
    assert node.logins == []


def test_a_connector_takes_no_secret_to_other_processes(credentials):
    there = connector(1, credentials=credentials, tls=Tls())
    pickled = pickle.dumps(there)
    assert USER.encode() not in pickled
    assert PASSWORD.encode() not in pickled
    assert pickle.loads(pickled) == there  # noqa: S301 - our own


def test_what_a_session_brings_back_does_not_name_the_user(credentials, monkeypatch):
    class Session:
        def get_pool_state(self):
            return {"127.0.0.1": {"open_count": 1}}

        def execute_async(self, *_, **__):
            raise Unauthorized(f"User {USER} has no CREATE permission on <all keyspaces>")

        execute = execute_async

    class Driver(cql_client.Cluster):
        def connect(self):
            return Session()

    monkeypatch.setattr(cql_client, "Cluster", Driver)
    client = connector(9042, credentials=credentials).connect("n1", request_timeout_s=1)
    try:
        completion = client.invoke(ddl.create_keyspace("sq_a", replication_factor=1))
        assert completion.type == "fail"
        assert "User *** has no CREATE permission" in completion.error
        (observed,) = client.observe(phase="running", sample=1, complete=True)
        assert "User *** has no CREATE permission" in observed.error
        with pytest.raises(NodeUnreachable, match=r"node n1 did not answer `SELECT 1`: .*User \*\*\* has no CREATE"):
            client.read("SELECT 1")
    finally:
        client.close()


# ── TLS ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_in_tls_the_login_goes_to_the_node_that_the_authority_vouches_for(credentials, certificates):
    there = vouched(certificates, "good")
    with (
        password_node(served_as(certificates, "good")) as node,
        pytest.raises(NodeUnreachable, match="refused the login"),
    ):
        connector(node.port, credentials=credentials, tls=there).connect("n1", request_timeout_s=1)
    assert set(node.logins) == {b"\0" + USER.encode() + b"\0" + PASSWORD.encode()}


@pytest.mark.parametrize(
    ("served", "trusted"), [("good", "other"), ("other", "other")], ids=["a stranger", "the name of another host"]
)
def test_a_node_that_is_not_who_it_should_be_is_told_no_password(credentials, certificates, served, trusted):
    with password_node(served_as(certificates, served)) as node:
        assert not answers_cql("127.0.0.1", node.port, tls=vouched(certificates, trusted).context())
        with pytest.raises(NodeUnreachable, match=r"(?i)certificate"):
            connector(node.port, credentials=credentials, tls=vouched(certificates, trusted)).connect(
                "n1", request_timeout_s=1
            )
    assert node.logins == []


def test_the_name_in_the_certificate_may_be_left_out_of_account(credentials, certificates):
    tls = vouched(certificates, "other", verify_hostname=False)
    with password_node(served_as(certificates, "other")) as node:
        assert answers_cql("127.0.0.1", node.port, tls=tls.context())
        with pytest.raises(NodeUnreachable, match="refused the login"):
            connector(node.port, credentials=credentials, tls=tls).connect("n1", request_timeout_s=1)
    assert node.logins


def test_a_node_that_speaks_tls_is_seen_to_serve_and_in_plain_words_it_is_not(certificates):
    with password_node(served_as(certificates, "good")) as node:
        assert answers_cql("127.0.0.1", node.port, tls=vouched(certificates, "good").context())
        assert not answers_cql("127.0.0.1", node.port)


def test_a_client_s_certificate_is_shown(certificates):
    files = {"certificate": str(certificates / "other.pem"), "key": str(certificates / "other.key")}
    server = served_as(certificates, "good")
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(certificates / "other.pem")
    with password_node(server) as node:
        assert answers_cql("127.0.0.1", node.port, tls=vouched(certificates, "good", **files).context())
        assert not answers_cql("127.0.0.1", node.port, tls=vouched(certificates, "good").context())


@pytest.mark.parametrize("lacking", ["ca", "certificate"])
def test_a_file_that_cannot_be_used_is_named(certificates, tmp_path, lacking):
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("nothing")
    files = {
        name: str(certificates / f"good.{'key' if name == 'key' else 'pem'}") for name in ("ca", "certificate", "key")
    }
    for content in (str(nothing), str(tmp_path / "nowhere.pem")):
        with pytest.raises(EnvironmentLacks, match=rf"{content}.*the \[tls\] {lacking}.* cannot be used: "):
            Tls.model_validate(files | {lacking: content}).context()  # fmt: skip
