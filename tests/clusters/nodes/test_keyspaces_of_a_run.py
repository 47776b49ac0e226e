"""The keyspaces that healing drops: those that a run asked for, and none that only damage names."""

from __future__ import annotations

from schemaquake.clusters.nodes.keyspaces import made_by
from schemaquake.harness.history.journal import Journal


def test_a_damaged_line_names_no_keyspace_and_the_others_still_do(tmp_path):
    (tmp_path / "journals").mkdir()
    path = tmp_path / "journals" / "events-0000.jsonl"
    with Journal(path, 0) as journal:
        for name in ("sq_a", "sq_b"):
            journal.event(0, "invoke", "create-keyspace", "n1", name, {"keyspace": name})
    assert made_by(tmp_path) == {"sq_a", "sq_b"}
    path.write_bytes(path.read_bytes().replace(b"sq_b", b"prod"))
    assert made_by(tmp_path) == {"sq_a"}


def test_journals_of_0_1_name_keyspaces_without_checksums(tmp_path):
    (tmp_path / "journals").mkdir()
    line = b'{"f":"create-keyspace","type":"invoke","value":"{\\"keyspace\\":\\"sq_old\\"}"}\n'
    (tmp_path / "journals" / "events-0000.jsonl").write_bytes(line + b"create-keyspace, torn\n")
    assert made_by(tmp_path) == {"sq_old"}
