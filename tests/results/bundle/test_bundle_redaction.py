"""Redaction: names of machines and people and every kind of secret go, and nothing that has a meaning does."""

from __future__ import annotations

import socket
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from bundles import contents_of, judged_run
from simulated_runs import plan_of

from schemaquake.harness.checked_lines import checked_line
from schemaquake.harness.faults.ledger import read_ledger
from schemaquake.harness.sealed_json import load_sealed
from schemaquake.results.bundle.bundling import bundle_run
from schemaquake.results.bundle.redaction import SECRET, Redactor, redactor_of, secrets_in
from schemaquake.results.bundle.verification import verify_bundle
from schemaquake.results.store.store import Store

SECRETS = [
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1\n-----END OPENSSH PRIVATE KEY-----",
    r"-----BEGIN PRIVATE KEY-----\nMIIEv\n-----END PRIVATE KEY-----",
    "https://somebody:hunter2@repo.example.org/x",
    "password=hunter2",
    "keystore_password: hunter2",
    '{"password": "hunter2"}',
    r"{\"trust_password\":\"hunter2\"}",
    "ALTER ROLE a WITH PASSWORD = 'hunter2'",
    "CREATE USER a WITH PASSWORD 'hunter2'",
    "api_key=hunter2hunter2",
    "aws AKIAIOSFODNN7EXAMPLE",
]
HARMLESS = [
    "ALTER TABLE sq.t WITH comment = 'race 0'",
    "INFO  [main] keystore_password=null; truststore_password=<REDACTED>",
    "Couldn't find table with id 000000000000001d8000000000000001",
    "https://issues.example.org/browse/A-1",
    "passwords are not asked for",
    "10.66.0.3:7000 is now UP",
]


@pytest.mark.parametrize("text", SECRETS)
def test_every_kind_of_secret_goes(text):
    redactor = Redactor({}, addresses=False)
    shown = redactor.text(text)
    assert SECRET in shown
    assert "hunter2" not in shown
    assert "AKIA" not in shown
    assert list(secrets_in(text))
    assert list(secrets_in(shown)) == []
    assert redactor.text(shown) == shown
    assert redactor.counts["secret"] == 1


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text):
    redactor = Redactor({}, addresses=False)
    assert redactor.text(text) == text
    assert list(secrets_in(text)) == []


def test_names_are_replaced_as_whole_words_and_paths_from_their_beginning():
    redactor = Redactor({"db1": ("host name", "n1"), "db1.example.org": ("host name", "h")}, addresses=True)
    assert redactor.text("db1 db1.example.org db10 mydb1") == "n1 h db10 mydb1"
    assert redactor.text("/home/ann/x /root/y /Users/bob/z /homeless") == "$HOME/x $HOME/y $HOME/z /homeless"
    first = redactor.text("10.0.0.7:9042 and 10.0.0.8, 10.0.0.7 but 127.0.0.1 and 5.0.9.1.2")
    assert first == "192.0.2.1:9042 and 192.0.2.2, 192.0.2.1 but 127.0.0.1 and 5.0.9.1.2"
    assert redactor.text(first) == first
    assert redactor.value({"db1": ["db1", 7, None]}) == {"n1": ["n1", 7, None]}


def test_a_table_without_such_texts_is_left_as_it_is():
    redactor = Redactor({"db1": ("host name", "n1")}, addresses=False)
    names = pa.array(["a", "db1", None, "a"]).dictionary_encode()
    table = pa.table({"node": names, "n": [1, 2, 3, 4], "text": ["x", "on db1", None, "y"]})
    redacted = redactor.table(table)
    assert redacted is not None
    assert redacted.schema == table.schema
    assert redacted.to_pylist() == [
        {"node": "a", "n": 1, "text": "x"}, {"node": "n1", "n": 2, "text": "on n1"},
        {"node": None, "n": 3, "text": None}, {"node": "a", "n": 4, "text": "y"},
    ]  # fmt: skip
    assert redactor.table(redacted) is None


def test_a_machine_with_the_name_of_a_product_does_not_rename_the_product(tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "simulated")
    monkeypatch.setattr(socket, "getfqdn", lambda: "simulated")
    redactor = redactor_of(tmp_path, plan_of("create-table"))
    assert redactor.text("simulated:cassandra-5.0") == "simulated:cassandra-5.0"


CLUSTER_FILE = """
[[nodes]]
name = "n1"
host = "db1.corp.example"
address = "10.20.30.40"
[ssh]
user = "deploy-bot"
[auth]
password = { env = "PUBLISH_TEST_PASSWORD" }
"""


def test_a_redacted_run_is_judged_as_the_original_was(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PUBLISH_TEST_PASSWORD", "correct-horse")
    monkeypatch.setattr(socket, "gethostname", lambda: "harness-host")
    run = judged_run(tmp_path / "run")
    (run / "cluster.toml").write_text(CLUSTER_FILE)
    log = run / "nodes" / "n1" / "system-0.log"
    texts = f"INFO  [main] 2000-01-01 00:00:09,000 A.java:1 - db1.corp.example deploy-bot correct-horse harness-host {tmp_path}/run/x /home/ann/y\n"
    log.write_text(log.read_text() + texts)
    document = load_sealed((run / "outcome.json").read_bytes()) | {"error": None, "note": "on db1.corp.example"}
    (run / "outcome.json").write_bytes(orjson.dumps(document))
    fault = {"id": 0, "begins_s": 1.0, "ends_s": 2.0, "nodes": ["n1"], "parameters": {"on": "db1.corp.example"}}
    line = {"id": 0, "at": "2026-01-01T12:00:00+00:00", "kind": "fault", "state": "healed", "nemesis": "kill"}
    (run / "ledger.jsonl").write_bytes(checked_line(orjson.dumps({**line, "fault": fault, "effect": None})))
    bundled = bundle_run(run)
    whole = b"".join(contents_of(bundled.path).values())
    for text in ("db1.corp", "deploy-bot", "correct-horse", "harness-host", str(tmp_path), "/home/ann", "10.20.30"):
        assert text.encode() not in whole, text
    assert bundled.redactions["host name"] >= 3
    for name, content in contents_of(bundled.path).items():
        (tmp_path / "x" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "x" / name).write_bytes(content)
    assert len(read_ledger(tmp_path / "x" / "ledger.jsonl")) == 1, "its checksum is right again"
    assert Store(tmp_path / "x").read_verdict() == Store(run).read_verdict()
    verified = verify_bundle(bundled.path)
    assert {check.state for check in verified.checks if check.name != "signature"} == {"ok"}
