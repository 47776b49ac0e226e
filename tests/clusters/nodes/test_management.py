"""Management: calls over JMX through one gateway, and nodetool where that fails. The server that is asked is a plain virtual machine."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from ports import next_port
from py4j import java_gateway
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError, Py4JNetworkError, get_return_value, is_error

from schemaquake.clusters.nodes.client_port import ClientPort
from schemaquake.clusters.nodes.gateway_client import OwnErrors
from schemaquake.clusters.nodes.management import CallRefused, Management, NoManagement, gateway_jar
from schemaquake.clusters.nodes.node import ServerData, ServerNode
from schemaquake.clusters.systems.topology import ManagementCall, ToolCommand
from schemaquake.harness.model.protocols import Executed
from schemaquake.harness.wait import until

JAVA = shutil.which("java")
PORT = next_port()
JMX = [
    f"-Dcom.sun.management.jmxremote.port={PORT}",
    f"-Dcom.sun.management.jmxremote.rmi.port={PORT}",
    "-Dcom.sun.management.jmxremote.authenticate=false",
    "-Dcom.sun.management.jmxremote.ssl=false",
    "-Djava.rmi.server.hostname=127.0.0.1",
]
LOGGING = "java.util.logging:type=Logging"
SET_LEVEL = ManagementCall(bean=LOGGING, name="setLoggerLevel", arguments=("", "WARNING"))
LEVEL = ManagementCall(bean=LOGGING, name="getLoggerLevel", arguments=("",))
UNKNOWN = ManagementCall(bean=LOGGING, name="setLoggerLevel", arguments=("nobody's", "INFO"))
NO_BEAN = ManagementCall(bean="schemaquake:type=None", name="ask")
VERBOSE = ManagementCall(bean="java.lang:type=ClassLoading", name="Verbose", arguments=(False,), sets=True)

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(JAVA is None or gateway_jar() is None, reason="no Java, or no PySpark with Py4J's jar"),
]


@pytest.fixture(scope="module")
def server():
    """A virtual machine with JMX at PORT; another gateway serves as one."""
    argv = [JAVA, "-Xmx32m", "-XX:+UseSerialGC", *JMX, "-cp", str(gateway_jar()), "py4j.GatewayServer"]
    process = subprocess.Popen(
        [*argv, "--die-on-broken-pipe", "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout.readline().strip().isdigit()
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


@pytest.fixture
def management(server):
    opened = Management(Path(JAVA), port=PORT)
    yield opened
    opened.close()
    until(
        lambda: all(thread.name != "management" for thread in threading.enumerate()), deadline_s=60, what="no call left"
    )
    gc.collect()  # what is open and forgotten is told now, and not in the tests of others


def ask(management, call, *, limit_s=60):
    return management.call("127.0.0.1", call, limit_s=limit_s)


def has_ended(pid):
    """Say whether all threads of a process have ended: its first one may be a zombie while others still run."""
    try:
        threads = [path.read_text("ascii") for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:
        return False  # one has ended meanwhile: look again
    return all(stat.rsplit(")", 1)[1].split()[0] == "Z" for stat in threads)


def test_a_server_is_asked_and_what_it_throws_is_a_refusal(management):
    assert ask(management, SET_LEVEL) == ""
    assert ask(management, LEVEL) == "WARNING"
    assert ask(management, VERBOSE) == ""
    first = management.pid
    with pytest.raises(CallRefused, match="nobody's"):
        ask(management, UNKNOWN)
    with pytest.raises(NoManagement, match="InstanceNotFound"):
        ask(management, NO_BEAN)
    elsewhere = Management(Path(JAVA), port=next_port())
    try:
        for _ in range(4):  # a server that is down is no failure of the gateway
            with pytest.raises(NoManagement, match="refused"):
                ask(elsewhere, LEVEL)
    finally:
        elsewhere.close()
    assert management.pid == first, "one gateway serves all calls"


def test_what_a_server_throws_is_told_beside_a_session_of_spark(management, monkeypatch):
    def of_another_gateway(answer, *further):
        """As PySpark replaces it: the answer's object is looked for in Spark's virtual machine, which has none of that name."""
        if is_error(answer)[0]:
            raise Py4JError("Target Object ID does not exist for this gateway")
        return get_return_value(answer, *further)

    monkeypatch.setattr(java_gateway, "get_return_value", of_another_gateway)
    assert ask(management, LEVEL)
    with pytest.raises(CallRefused, match="nobody's"):
        ask(management, UNKNOWN)
    with pytest.raises(NoManagement, match="InstanceNotFound"):
        ask(management, NO_BEAN)


def test_where_no_gateway_is_any_more_no_socket_stays_open():
    client = OwnErrors(gateway_parameters=GatewayParameters(port=next_port()))
    with pytest.raises(Py4JNetworkError):
        client.send_command("anything", retry=False)
    gc.collect()  # what is open and forgotten is told now


@pytest.mark.parametrize("token", [None, "guessed"])
def test_the_gateway_serves_nobody_else_who_finds_its_port(management, token):
    ask(management, LEVEL)
    known = management._gateway.gateway_parameters
    stranger = JavaGateway(gateway_parameters=GatewayParameters(port=known.port, auth_token=token))
    with pytest.raises(Py4JError):
        stranger.jvm.java.lang.System.getProperty("user.name")
    stranger.close()
    assert ask(management, LEVEL)


def test_a_gateway_that_died_is_replaced_and_one_that_hangs_is_ended(management):
    ask(management, LEVEL)
    dead = management.pid
    os.kill(dead, signal.SIGKILL)
    until(lambda: has_ended(dead), deadline_s=60, what="the end of the gateway")
    assert ask(management, LEVEL) == "WARNING"
    hung = management.pid
    os.kill(hung, signal.SIGSTOP)
    with pytest.raises(NoManagement, match=r"within 0\.5 s"):
        ask(management, LEVEL, limit_s=0.5)
    assert has_ended(hung)
    assert management.pid is None


def test_what_cannot_be_started_is_not_tried_for_ever(tmp_path):
    script = tmp_path / "java"
    script.write_text(f"#!/bin/sh\necho >> {tmp_path}/tried\necho I am no Java\n")
    script.chmod(0o755)
    management = Management(script, port=PORT)
    for _ in range(6):
        with pytest.raises(NoManagement):
            ask(management, LEVEL)
    assert (tmp_path / "tried").read_text() == "\n" * 3


def test_the_gateway_ends_with_whoever_started_it_however_that_ends():
    program = (
        "from pathlib import Path; from schemaquake.clusters.nodes.management import Management\n"
        f"m = Management(Path({JAVA!r}), port={PORT}); m._open(); print(m.pid, flush=True); input()"
    )
    starter = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    gateway = int(starter.stdout.readline())
    assert not has_ended(gateway)
    starter.kill()
    starter.wait()
    starter.stdin.close()
    starter.stdout.close()
    until(lambda: has_ended(gateway), deadline_s=60, what="the end of the gateway")


# ── and without any machine ──────────────────────────────────────────────────────────────────────────────────────────


def node(management, ran):
    return ServerNode(
        "n1",
        ClientPort(address="10.0.0.1", port=9042, protocol_version=4),
        SimpleNamespace(run=lambda argv, *, timeout_s, stdin=None: ran.append(argv) or Executed(0, "by the tool", "")),
        SimpleNamespace(),
        log=SimpleNamespace(),
        folder=SimpleNamespace(),
        data=ServerData(folders=[], layout="folders"),
        management=management,
    )


@pytest.mark.parametrize(
    ("raised", "call", "expected", "by_tool"),
    [
        (None, LEVEL, Executed(0, "by JMX", ""), False),
        (CallRefused("no"), LEVEL, Executed(1, "", "no"), False),
        (NoManagement("nobody"), LEVEL, Executed(0, "by the tool", ""), True),
        (None, None, Executed(0, "by the tool", ""), True),
    ],
)
def test_nodetool_is_what_is_left(raised, call, expected, by_tool):
    ran = []

    def answered(address, asked, *, limit_s):
        assert (address, asked) == ("10.0.0.1", LEVEL)
        if raised is not None:
            raise raised
        return "by JMX"

    command = ToolCommand(arguments=("describering", "k"), limit_s=9, call=call)
    assert node(SimpleNamespace(call=answered), ran).manage(command, timeout_s=9) == expected
    assert ran == ([["nodetool", "describering", "k"]] if by_tool else [])
