"""Error injection: what is told to a server over REST by curl, on the node, and how it is taken back."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from scylla_node import Rest, serving

from schemaquake.harness.errors import ClusterError, HealError, PlanError
from schemaquake.harness.faults.executor import FaultExecutor
from schemaquake.harness.faults.ledger import Ledger, read_ledger
from schemaquake.harness.model.protocols import Boot, Context, Executed, Fault
from schemaquake.nemeses.process import error_injection
from schemaquake.nemeses.process.error_injection import ErrorInjection

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed here")

PLACE = "group0_state_machine::delay_apply"


class Node:
    """A node whose commands are run here, and whose server is the REST interface of a test."""

    def __init__(self, name, rest):
        self.name = name
        self.address = "127.0.0.1"
        self.rest = rest
        self.runs = True
        self.lacks_curl = False

    def exec(self, argv, *, timeout_s=30, stdin=None):
        if self.lacks_curl and argv[0] == "curl":
            raise FileNotFoundError(argv[0])
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)
        return Executed(done.returncode, done.stdout, done.stderr)

    def state(self):
        return "running" if self.runs else "stopped"

    def start(self):
        self.runs = True
        self.rest.enabled.clear()  # it was in the memory of the process that is gone

    def resume(self):
        pass

    def await_serving(self, *, deadline_s):
        return Boot(node=self.name, served=self.runs, seconds=0.1)


class Cluster:
    def __init__(self, *nodes):
        self.nodes = nodes


@pytest.fixture
def rest():
    return Rest()


@pytest.fixture
def api(rest):
    with serving(rest) as (host, port):
        yield f"{host}:{port}"


@pytest.fixture
def node(rest):
    return Node("n1", rest)


def planned(api, **options):
    told = {"injection": PLACE, "error-injection.api": api, **options}
    context = Context(seed=1, nodes=("n1",), options={name: str(value) for name, value in told.items()})
    return ErrorInjection().schedule(context, random=context.random("test"))


# ── the plan ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fault_says_what_where_and_how():
    fault = planned("[::1]:10000", **{"error-injection.how": "once"})[0]
    assert (fault.nemesis, fault.nodes) == ("error-injection", ("n1",))
    assert fault.parameters == {"target": "one", "injection": PLACE, "how": "once", "api": "[::1]:10000"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "needs the name of a place: -O injection=NAME"),
        ({"injection": "a b; rm"}, '"a b; rm" is no name of a place'),
        ({"injection": "x", "error-injection.how": "twice"}, 'how is "lasting" or "once", not "twice"'),
        ({"injection": "x", "error-injection.api": "http://h/"}, 'api is "auto" or host:port, not "http://h/"'),
    ],
)
def test_what_means_nothing_is_refused_before_the_run(options, sentence):
    context = Context(seed=1, nodes=("n1",), options=options)
    with pytest.raises(PlanError, match=sentence):
        ErrorInjection().schedule(context, random=context.random("test"))


# ── whether it can be had ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_build_that_has_it_is_told_by_trying(rest, node, api):
    assert ErrorInjection(api=api).missing(Cluster(node)) is None
    assert rest.enabled == {}
    assert [method for method, _ in rest.asked] == ["POST", "GET", "DELETE"]


def test_a_release_takes_everything_and_has_nothing(rest, node, api):
    rest.injects = False
    assert "n1 cannot inject errors: this build of the server has no error injection" in str(
        ErrorInjection(api=api).missing(Cluster(node))
    )


def test_what_is_no_scylladb_and_what_lacks_curl_is_told(node):
    nobody = ErrorInjection(api="127.0.0.1:1")
    assert "no REST interface answers at 127.0.0.1:1. Cassandra has none" in str(nobody.missing(Cluster(node)))
    node.lacks_curl = True
    assert "there is no curl on it" in str(nobody.missing(Cluster(node)))


def test_by_itself_it_looks_on_loopback_and_then_on_the_node_s_own_address(rest, node, api, monkeypatch):
    host, port = api.split(":")
    monkeypatch.setattr(error_injection, "_PORT", int(port))
    node.address = "192.0.2.1"  # nobody's
    assert ErrorInjection().missing(Cluster(node)) is None
    fault = Fault(
        id=0, nemesis="error-injection", begins_s=0, ends_s=1, nodes=("n1",),
        parameters={"injection": PLACE, "how": "lasting", "api": "auto"},
    )  # fmt: skip
    told = [" ".join(undo.argv) for undo in ErrorInjection().undo(Cluster(node), fault)["n1"]]
    assert len(told) == 5
    assert all(f"http://{host}:{port}/" in text for text in told[:2])
    assert all(f"http://192.0.2.1:{port}/" in text for text in told[2:4])
    node.address = "127.0.0.1"
    monkeypatch.setattr(error_injection, "_apis", lambda node, api: ["127.0.0.1:1", f"{node.address}:{port}"])
    assert ErrorInjection().inject(Cluster(node), fault)["nodes"]["n1"]["enabled"] == [PLACE]


def test_a_node_that_is_not_started_yet_is_not_asked(node):
    node.runs = False
    assert ErrorInjection(api="127.0.0.1:1").missing(Cluster(node)) is None


# ── on and off ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_is_on_until_it_is_healed(rest, node, api):
    (fault, *_), cluster = planned(api), Cluster(node)
    effect = ErrorInjection().inject(cluster, fault)
    assert effect == {"observed": True, "nodes": {"n1": {"enabled": [PLACE]}}}
    assert rest.enabled == {PLACE: {"one_shot": False, "parameters": {}}}
    healed = ErrorInjection().heal(cluster, fault)
    assert healed == {"observed": True, "nodes": {"n1": {"started": False, "enabled": []}}}
    assert rest.enabled == {}


def test_what_others_have_switched_on_stays(rest, node, api):
    rest.enabled["theirs"] = {}
    (fault, *_), cluster = planned(api), Cluster(node)
    assert ErrorInjection().inject(cluster, fault)["nodes"]["n1"]["enabled"] == [PLACE, "theirs"]
    ErrorInjection().heal(cluster, fault)
    assert list(rest.enabled) == ["theirs"]


def test_once_is_told_to_the_server(rest, node, api):
    fault = planned(api, **{"error-injection.how": "once"})[0]
    ErrorInjection().inject(Cluster(node), fault)
    assert rest.enabled[PLACE]["one_shot"] is True


def test_a_server_that_takes_it_and_does_not_have_it_is_no_success(rest, node, api):
    rest.injects = False
    with pytest.raises(ClusterError, match=r"took the injection .* and does not list it"):
        ErrorInjection().inject(Cluster(node), planned(api)[0])


def test_a_server_that_it_ended_is_started_again(rest, node, api):
    (fault, *_), cluster = planned(api), Cluster(node)
    ErrorInjection().inject(cluster, fault)
    node.runs = False
    assert ErrorInjection().heal(cluster, fault)["nodes"]["n1"] == {"started": True, "enabled": []}
    assert node.state() == "running"


def test_healing_may_be_repeated_and_needs_no_injection(rest, node, api):
    (fault, *_), cluster = planned(api), Cluster(node)
    for _ in range(2):
        assert ErrorInjection().heal(cluster, fault)["nodes"]["n1"]["enabled"] == []


def test_what_cannot_be_taken_back_is_told(rest, node, api):
    (fault, *_), cluster = planned(api), Cluster(node)
    ErrorInjection().inject(cluster, fault)
    keeping = rest.answer
    rest.answer = lambda method, target, body: (500, None) if method == "DELETE" else keeping(method, target, body)
    with pytest.raises(HealError, match="did not take the injection"):
        ErrorInjection().heal(cluster, fault)


def test_a_node_undoes_it_by_the_same_commands(rest, node, api):
    (fault, *_), cluster = planned(api), Cluster(node)
    ErrorInjection().inject(cluster, fault)
    release, switch_off, start = ErrorInjection().undo(cluster, fault)["n1"]
    for undo in (release, switch_off):
        assert node.exec(undo.argv).exit_code in {0, 22}  # nobody may be waiting there to be let go
    assert rest.enabled == {}
    assert start.verb == "start"
    assert [method for method, target in rest.asked if target.endswith("/message")] == ["POST"]


def test_the_ledger_tells_what_was_injected(rest, node, api, tmp_path):
    (fault, *_), cluster = planned(api), Cluster(node)
    executor = FaultExecutor(cluster, Ledger(tmp_path / "ledger.jsonl"), note=lambda f, value: None)
    with executor.hold(ErrorInjection(), fault):
        assert PLACE in rest.enabled
    assert rest.enabled == {}
    states = [entry.state for entry in read_ledger(tmp_path / "ledger.jsonl")]
    assert states[-1] == "healed"
