"""Management: calls of servers over JMX, through one small virtual machine that stays, in place of a nodetool a call.

The gateway is Py4J's, whose jar comes with PySpark; nothing of ours is compiled. It is started by the first call and reads its
standard input, so it ends with this process however that ends. Whoever can reach its port could have it do anything, so it
listens on the loopback alone and serves only this process, which was told its token.
"""

from __future__ import annotations

import logging
import subprocess
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Final

from schemaquake.clusters.systems.topology import ManagementCall
from schemaquake.harness.errors import ClusterError

__all__ = ["CallRefused", "Management", "NoManagement", "gateway_jar"]

log = logging.getLogger(__name__)

_MAIN: Final = "py4j.GatewayServer"
_MACHINE: Final = ("-Xms8m", "-Xmx48m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_STARTS_WITHIN_S: Final = 30.0
_URL: Final = "service:jmx:rmi:///jndi/rmi://{}:{}/jmxrmi"
_THROWN_BY_SERVERS: Final = ("javax.management.MBeanException", "javax.management.RuntimeMBeanException")
_SAID_MOST: Final = 500
_FAILURES_MOST: Final = 3
"""After so many failures of the gateway nothing is asked of it any more."""


class NoManagement(ClusterError):
    """The call was not answered: no gateway, no connection, or too late."""


class CallRefused(ClusterError):
    """The server answered by an error."""


def gateway_jar() -> Path | None:
    """Find Py4J's jar in PySpark's folder without importing either; None where it is not installed."""
    found = find_spec("pyspark")
    folders = [] if found is None else list(found.submodule_search_locations or ())
    return next((jar for folder in folders for jar in sorted(Path(folder, "jars").glob("py4j-*.jar"))), None)


class Management:
    """The gateway of one cluster; safe to call from several threads, each of which has a connection of its own."""

    def __init__(self, java: Path, *, port: int) -> None:
        """`port` is that of every server's JMX."""
        self._java = java
        self._port = port
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._gateway: Any = None
        self._failures = 0

    def call(self, address: str, call: ManagementCall, *, limit_s: float) -> str:
        """Make the call of the server at this address; return its answer, a list as lines. Raises CallRefused, NoManagement."""
        gateway = self._open()
        answer: Future[str] = Future()

        def ask() -> None:
            try:
                answer.set_result(_ask(gateway, _URL.format(address, self._port), call))
            except BaseException as error:  # noqa: BLE001 - raised by whoever waits
                answer.set_exception(error)

        threading.Thread(target=ask, name="management", daemon=True).start()
        try:
            return answer.result(limit_s)
        except (CallRefused, NoManagement):
            raise
        except TooLate as error:
            self._fail(gateway)
            raise NoManagement(f"no answer over JMX within {limit_s:g} s") from error
        except Exception as error:
            self._fail(gateway)
            raise NoManagement(f"no answer over JMX: {type(error).__name__}: {str(error)[:600]}") from error

    def close(self) -> None:
        """End the gateway; harmless if there is none."""
        with self._lock:
            self._end()

    @property
    def pid(self) -> int | None:
        """The gateway's process id; None while there is none."""
        return None if self._process is None else self._process.pid

    def _open(self) -> Any:
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                self._end()
            if self._gateway is None:
                if self._failures >= _FAILURES_MOST:
                    raise NoManagement(f"the gateway failed {self._failures} times")
                try:
                    self._gateway = self._start()
                except (OSError, ImportError, NoManagement, Empty) as error:
                    self._failures += 1
                    self._end()
                    raise NoManagement(f"no gateway: {type(error).__name__}: {error}") from error
            return self._gateway

    def _start(self) -> Any:
        jar = gateway_jar()
        if jar is None:
            raise NoManagement("PySpark is not installed")
        from py4j.java_gateway import GatewayParameters, JavaGateway  # noqa: PLC0415 - only where it is used

        from schemaquake.clusters.nodes.gateway_client import OwnErrors  # noqa: PLC0415 - it needs Py4J

        self._process = subprocess.Popen(
            [str(self._java), *_MACHINE, "-cp", str(jar), _MAIN, "--die-on-broken-pipe", "--enable-auth", "0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        said: Queue[tuple[bytes, bytes]] = Queue()
        printed = self._process.stdout
        assert printed is not None
        lines = threading.Thread(
            target=lambda: said.put((printed.readline().strip(), printed.readline().strip())),
            name="gateway",
            daemon=True,
        )
        lines.start()
        port, token = said.get(timeout=_STARTS_WITHIN_S)
        if not port.isdigit():
            raise NoManagement(f"the gateway printed {port[:200]!r} and no port")
        # What fails is raised, and a gateway that was ended need not be told which objects nobody holds any more.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        parameters = GatewayParameters(port=int(port), auth_token=token.decode(), enable_memory_management=False)
        gateway = JavaGateway(gateway_parameters=parameters)
        gateway.set_gateway_client(OwnErrors(gateway_parameters=parameters))
        return gateway

    def _fail(self, gateway: Any) -> None:
        """End the gateway in which a call failed, unless another one runs already: calls that hang in it end with it."""
        with self._lock:
            if gateway is self._gateway:
                self._failures += 1
                self._end()

    def _end(self) -> None:
        process, gateway = self._process, self._gateway
        self._process = self._gateway = None
        if gateway is not None:
            with suppress(Exception):  # it may be gone already
                gateway.close()
        if process is not None:
            with suppress(OSError):
                process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _ask(gateway: Any, url: str, call: ManagementCall) -> str:
    """Make one call by a connection of its own. What the server threw is a CallRefused, what kept it from being asked NoManagement."""
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - only where it is used

    remote = gateway.jvm.javax.management.remote
    try:
        connector = remote.JMXConnectorFactory.connect(remote.JMXServiceURL(url), None)
        try:
            return _ask_server(gateway, connector.getMBeanServerConnection(), call)
        finally:
            connector.close()
    except Py4JJavaError as error:
        thrown = error.java_exception
        if str(thrown.getClass().getName()) in _THROWN_BY_SERVERS:
            raise CallRefused(str((thrown.getCause() or thrown).getMessage())[-_SAID_MOST:]) from error
        raise NoManagement(str(thrown.toString())[-_SAID_MOST:]) from error


def _ask_server(gateway: Any, server: Any, call: ManagementCall) -> str:
    java = gateway.jvm.java.lang
    management = gateway.jvm.javax.management
    bean = management.ObjectName(call.bean)
    if call.sets:
        server.setAttribute(bean, management.Attribute(call.name, call.arguments[0]))
        return ""
    given = gateway.new_array(java.Object, len(call.arguments))
    types = gateway.new_array(java.String, len(call.arguments))
    for place, argument in enumerate(call.arguments):
        given[place] = argument
        types[place] = "boolean" if isinstance(argument, bool) else "java.lang.String"
    answer = server.invoke(bean, call.name, given, types)
    if answer is None or isinstance(answer, str):
        return answer or ""
    return "\n".join(map(str, answer))
