"""Credentials: references go everywhere, secrets only to the session, and no text that comes back repeats them."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.clusters.cluster_file.credentials import CredentialReference, Credentials, Login
from schemaquake.harness.errors import EnvironmentLacks, ExitCode

CREDENTIALS = Credentials(
    username=CredentialReference(env="QUAKE_TEST_USER"), password=CredentialReference(env="QUAKE_TEST_PASSWORD")
)


@pytest.fixture
def secret_file(tmp_path):
    def written(content, mode=0o600):
        path = tmp_path / "secret"
        path.write_bytes(content)
        path.chmod(mode)
        return CredentialReference.model_validate({"file": str(path)})

    return written


@pytest.mark.parametrize("content", [b"hunter2", b"hunter2\n", b"hunter2\r\n"])
def test_a_file_s_line_is_the_secret(secret_file, content):
    assert secret_file(content).resolve() == "hunter2"


def test_blanks_belong_to_a_secret(secret_file):
    assert secret_file(b" two words \n").resolve() == " two words "


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o610, 0o601, 0o660, 0o777])
def test_a_file_that_others_may_touch_is_refused_with_the_command_that_helps(secret_file, mode):
    with pytest.raises(EnvironmentLacks, match=rf"has mode {mode:04o}: chmod 600 .*/secret") as refused:
        secret_file(b"hunter2", mode).resolve()
    assert "hunter2" not in str(refused.value)
    assert refused.value.exit_code == ExitCode.BAD_ARGUMENTS


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_file_that_is_its_owner_s_alone_is_read(secret_file, mode):
    assert secret_file(b"hunter2", mode).resolve() == "hunter2"


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "holds none"), (b"\n", "holds none"), (b"one\ntwo\n", "holds more"), (b"\xff\xfe", "is not text")],
)
def test_a_file_without_one_line_of_text_is_refused(secret_file, content, says):
    with pytest.raises(EnvironmentLacks, match=says):
        secret_file(content).resolve()


def test_a_file_that_is_not_there_is_named(tmp_path):
    reference = CredentialReference.model_validate({"file": str(tmp_path / "nowhere")})
    with pytest.raises(
        EnvironmentLacks, match="nowhere, to which the cluster file refers for a secret, cannot be read: No such"
    ):
        reference.resolve()  # fmt: skip


def test_an_environment_variable_is_read_when_it_is_asked_for(monkeypatch):
    monkeypatch.setenv("QUAKE_TEST_USER", "bob")
    monkeypatch.setenv("QUAKE_TEST_PASSWORD", "hunter2")
    assert CREDENTIALS.resolve() == Login("bob", "hunter2")
    monkeypatch.setenv("QUAKE_TEST_PASSWORD", "")
    with pytest.raises(
        EnvironmentLacks, match="QUAKE_TEST_PASSWORD, to which the cluster file refers, is not set: export it"
    ):
        CREDENTIALS.resolve()  # fmt: skip


def test_nothing_that_is_printed_or_pickled_holds_a_secret(monkeypatch):
    monkeypatch.setenv("QUAKE_TEST_USER", "bob")
    monkeypatch.setenv("QUAKE_TEST_PASSWORD", "hunter2")
    login = CREDENTIALS.resolve()
    assert str(CREDENTIALS) == "user name from $QUAKE_TEST_USER, password from $QUAKE_TEST_PASSWORD"
    for text in (
        repr(CREDENTIALS),
        repr(CREDENTIALS.password),
        repr(login),
        str(login),
        str(pickle.dumps(CREDENTIALS)),
    ):
        assert "hunter2" not in text
        assert "bob" not in text
    assert pickle.loads(pickle.dumps(CREDENTIALS)) == CREDENTIALS  # noqa: S301 - our own


# ── what comes back ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("User bob has no CREATE permission", "User *** has no CREATE permission"),
        ("Provided username bob and/or password are incorrect", "Provided username *** and/or password are incorrect"),
        ("login of 'bob' with hunter2.", "login of '***' with ***."),
        ("bob:hunter2@10.0.0.1", "***:***@10.0.0.1"),
        ("bobbin and thingumabob", "bobbin and thingumabob"),
    ],
)
def test_user_and_password_are_taken_out_of_what_a_server_says(said, told):
    assert Login("bob", "hunter2").hide(said) == told


def test_the_superuser_s_default_does_not_take_the_names_of_classes_with_it():
    login = Login("cassandra", "cassandra")
    assert login.hide("User cassandra has no CREATE permission") == "User *** has no CREATE permission"
    assert login.hide("unknown user cassandra.") == "unknown user ***."
    for name in ("org.apache.cassandra.exceptions.ConfigurationException", "/var/lib/cassandra/data", "Cassandra 5.0"):
        assert login.hide(name) == name


@given(st.text(min_size=1, max_size=8), st.text(max_size=20), st.text(max_size=20))
def test_a_secret_between_blanks_is_always_found_whatever_letters_it_has(secret, before, after):
    assert f" {secret} " not in Login("somebody else", secret).hide(f"{before} {secret} {after}").replace("***", "\0")
