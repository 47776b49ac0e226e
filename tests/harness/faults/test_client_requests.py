"""Requests of the harness' own: each in a session and under a process number of its own, and recorded before it is made."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from schemaquake.harness.ddl.schema_changes import alter_keyspace
from schemaquake.harness.faults.client_requests import ClientRequests
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import HARNESS_PROCESSES, Completion

ALTER = alter_keyspace("sq_set", replication_factor=2)


class Session:
    def __init__(self, log, invoke):
        self.log, self.invoked = log, invoke

    def invoke(self, operation):
        self.log.append(("asked", operation.f))
        return self.invoked(operation)

    def observe(self, *, phase, sample, complete):
        names = {
            "sq_set": {"class": "SimpleStrategy", "replication_factor": 3},
            "other": {"class": "X"},
            "sq_gone": None,
        }
        return [
            Observation(time=1, phase=phase, node="n1", sample=sample, kind="keyspace", keyspace=name, definition=found)
            for name, replication in names.items()
            for found in [None if replication is None else {"replication": replication}]
        ] + [Observation(time=1, phase=phase, node="n1", sample=sample, kind="table", keyspace="sq_set", name="t")]

    def close(self):
        self.log.append(("closed", None))


def requests(log, invoke=lambda _operation: Completion(type="info", value=None, error="words")):
    connector = SimpleNamespace(connect=lambda _node, *, request_timeout_s: Session(log, invoke))
    cluster = SimpleNamespace(connector=lambda: connector)
    return ClientRequests(
        cluster, SimpleNamespace(event=lambda *event: log.append(event)), prefix="sq", request_timeout_s=5
    )


def test_both_ends_are_recorded_and_no_process_asks_twice():
    log = []
    asking = requests(log)
    for _ in range(2):
        assert asking.ask("n2", ALTER).type == "info"
    first, second = HARNESS_PROCESSES, HARNESS_PROCESSES + 1
    assert log == [
        (first, "invoke", "alter-keyspace", "n2", "sq_set", ALTER.value),
        ("asked", "alter-keyspace"),
        (first, "info", "alter-keyspace", "n2", "sq_set", None, "words"),
        ("closed", None),
        (second, "invoke", "alter-keyspace", "n2", "sq_set", ALTER.value),
        ("asked", "alter-keyspace"),
        (second, "info", "alter-keyspace", "n2", "sq_set", None, "words"),
        ("closed", None),
    ]


def test_a_request_that_breaks_off_has_no_end_and_its_session_is_closed():
    def breaks_off(_operation):
        raise KeyboardInterrupt

    log = []
    with pytest.raises(KeyboardInterrupt):
        requests(log, breaks_off).ask("n2", ALTER)
    assert [event[1] for event in log] == ["invoke", "alter-keyspace", None]


def test_only_keyspaces_of_the_run_are_named():
    assert requests([]).replications("n1") == {"sq_set": {"class": "SimpleStrategy", "replication_factor": 3}}
