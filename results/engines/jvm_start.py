"""JVM start: the settings of Spark's JVM, its start, and for light contexts a start that leaves Spark's launcher out.

Spark starts its JVM by two shell scripts and a JVM of its own, which work out one command; they take as long as what they start.
The command is the same for each start with one Java and one PySpark. So it is kept beside their archive
(`schemaquake.results.engines.jvm_archive`), and such a JVM is started by it at once. Who sets Spark up by variables of the environment or
by a folder of settings gets Spark's own launcher, which reads them.
"""

from __future__ import annotations

import atexit
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from schemaquake.harness.history.lean_arrow import SMALL_PAGES
from schemaquake.results.engines.jvm_archive import Archive, spark_folder
from schemaquake.results.engines.masters import is_local

if TYPE_CHECKING:
    from py4j.clientserver import ClientServer

__all__ = [
    "DirectJvm",
    "driver_options",
    "log_configuration",
    "query_settings",
    "spark_environment",
    "spark_settings",
    "start_by_launcher",
    "start_directly",
]

_FIRST_COMPILER: Final = "-XX:TieredStopAtLevel=1"
_LIGHT: Final = f"{_FIRST_COMPILER} -XX:+UseSerialGC"
"""Options of a JVM that only hands out tasks: it spends most of its time on compiling what it runs a few times."""
_INCUBATING: Final = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
"""The line that every JVM of Spark begins with; no option of Java keeps it away."""
_STDERR: Final = 2
_END_S: Final = 10.0
"""Time for a JVM to end: it deletes its own files first."""
_LAST_LINES_S: Final = 5.0
"""Time for the last lines of a JVM that did not start."""
_LOOPBACK: Final = ("local", "spark://127.0.0.1:", "spark://localhost:")
"""The beginnings of masters whose executors run on this machine."""
_DRIVER_OPTIONS: Final = "spark.driver.extraJavaOptions"
_GATEWAY: Final = "org.apache.spark.api.python.PythonGatewayServer"
"""What Spark's launcher runs in the end for PySpark."""
_WITHIN_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.01
_READ_BY_LAUNCHER: Final = (
    "HADOOP_CONF_DIR",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_HOME",
    "SPARK_LOCAL_DIRS",
    "SPARK_PREPEND_CLASSES",
    "SPARK_SUBMIT_LIBRARY_PATH",
    "SPARK_SUBMIT_OPTS",
    "SPARK_TESTING",
    "YARN_CONF_DIR",
)


def spark_settings(master: str, path_of_log: Path, *, light: bool, further: str) -> Mapping[str, str]:
    """Return Spark's settings. `path_of_log` is the file of `log_configuration`, `further` are options of a light session's JVMs on this machine."""
    options = f"-Dlog4j2.configurationFile={path_of_log.as_uri()} {further}".rstrip()
    settings = {
        "spark.app.name": "schemaquake",
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        _DRIVER_OPTIONS: f"{options} {_LIGHT}" if light else options,
        "spark.sql.warehouse.dir": "/nonexistent",  # no table is ever saved
        **{f"spark.executorEnv.{name}": value for name, value in SMALL_PAGES.items()},
        **query_settings(),
    }
    if light:
        # Not `extraJavaOptions`, which are the user's, and come after these: they may choose a collector, and a JVM does not
        # start with two. The archive lies on this machine.
        there = f"{further} {_FIRST_COMPILER}".lstrip() if master.startswith(_LOOPBACK) else _FIRST_COMPILER
        settings["spark.executor.defaultJavaOptions"] = there
    if master.startswith(_LOOPBACK):
        # Listen on the loopback interface only; the machine's host name may not resolve.
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if is_local(master):
        # Executors import checkers of plugins and tests from the same path as this process.
        settings["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return settings


def driver_options(settings: Mapping[str, str]) -> Sequence[str]:
    """Return the options that these settings give the JVM of the command."""
    return shlex.split(settings[_DRIVER_OPTIONS])


def log_configuration() -> AbstractContextManager[Path]:
    """Provide the file that says what Spark logs."""
    return as_file(files(__package__) / "spark-log.xml")


def query_settings() -> Mapping[str, str]:
    """Return the settings that a session may have of its own."""
    return {"spark.sql.execution.arrow.pyspark.enabled": "true"}


@contextmanager
def spark_environment(java: Path) -> Iterator[None]:
    """Set JAVA_HOME for Spark's launcher and the Python of its executors: this interpreter, unless the user named another."""
    with _environment(
        JAVA_HOME=str(java.resolve().parent.parent), PYSPARK_PYTHON=os.environ.get("PYSPARK_PYTHON", sys.executable)
    ):
        yield


@contextmanager
def _environment(**wanted: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def start_by_launcher(settings: Mapping[str, str]) -> None:
    """Start the JVM of the first session, whose standard error is this process', but for the warning of its modules."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - slow to import, and most runs do without
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - as above

    if SparkContext._gateway is not None:  # noqa: SLF001 - a JVM outlives its session, and there is one a process
        return
    configuration = SparkConf().setAll(list(settings.items()))
    with _forwarded_errors() as writing:
        gateway = launch_gateway(configuration, {"stderr": writing})
    if gateway.proc is not None:  # a JVM that the user started is the user's
        atexit.register(_end_jvm, gateway.proc)
    SparkContext._ensure_initialized(gateway=gateway, conf=configuration)  # noqa: SLF001 - as above


def _end_jvm(process: subprocess.Popen[bytes], *, within_s: float = _END_S) -> None:
    """End the JVM of the sessions, which ends by itself when its standard input does, and wait for that; kill it if it takes longer.

    Without this the system would close its input when this process is over, and whoever looks then still finds a JVM.
    """
    with suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        _kill(process)


@dataclass(frozen=True, slots=True)
class DirectJvm:
    """A JVM that was started without Spark's launcher, and its gateway to this process."""

    process: subprocess.Popen[bytes]
    gateway: ClientServer

    def end(self) -> None:
        """End the JVM at once. Its tasks must be done: it is not asked to tidy up."""
        with suppress(Exception):  # what it answers does not matter any more, nor whether it lives
            self.gateway.shutdown()
        _kill(self.process)


def start_directly(java: Path, archive: Archive, settings: Mapping[str, str], folder: Path) -> DirectJvm | None:
    """Start a JVM for a light context by the command that was kept with its archive. `folder` is for its temporary files.

    Returns None where Spark's launcher has to do it: no command was kept, the user has settings that the launcher reads, there is a
    JVM in this process, or the JVM did not come up.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - slow to import, and most runs do without
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - as above

    adapted = any(os.environ.get(name) for name in _READ_BY_LAUNCHER) or (spark_folder() / "conf").is_dir()
    kept = archive.command
    if not kept or adapted or SparkContext._gateway is not None:  # noqa: SLF001 - there is one a process
        return None
    given = [*kept, *driver_options(settings)]
    answer = folder / "gateway"
    environment = {**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer)}
    with suppress(OSError), _forwarded_errors() as writing:
        # In a group of its own, so that Ctrl-C reaches this process alone. It ends when its standard input does.
        process = subprocess.Popen(
            [str(java), *given, f"-Djava.io.tmpdir={folder}", "-XX:-UsePerfData", _GATEWAY],
            stdin=subprocess.PIPE,
            stdout=writing,
            stderr=writing,
            env=environment,
            process_group=0,
        )
        try:
            if (found := _wait_for_gateway(process, answer)) is not None:
                port, secret = found
                with _environment(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret):
                    gateway = launch_gateway(SparkConf(loadDefaults=False))
                return DirectJvm(process, gateway)
        except BaseException:
            _kill(process)
            raise
        _kill(process)
    return None


def _wait_for_gateway(process: subprocess.Popen[bytes], answer: Path) -> tuple[int, str] | None:
    """Wait until a JVM has written its port and its secret. Returns None if it ends or does not."""
    deadline = time.monotonic() + _WITHIN_S
    while not answer.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            return None
        time.sleep(_LOOK_EVERY_S)
    said = answer.read_bytes()  # renamed to its name when it was whole
    port, length = int.from_bytes(said[:4]), int.from_bytes(said[4:8])
    return port, said[8 : 8 + length].decode()


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


@contextmanager
def _forwarded_errors() -> Iterator[int]:
    """Provide a descriptor for the standard error of a JVM that is started meanwhile."""
    reading, writing = os.pipe()
    forwarding = threading.Thread(target=_forward_errors, args=(reading,), daemon=True)
    forwarding.start()
    try:
        yield writing
    except BaseException:
        os.close(writing)
        forwarding.join(_LAST_LINES_S)  # the reason is among the lines of a JVM that ended
        raise
    os.close(writing)


def _forward_errors(reading: int) -> None:
    """Write the lines of a pipe to standard error as they come, without the warning of incubating modules."""
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            if line != _INCUBATING:
                with suppress(OSError):  # a closed standard error must not stop the JVM that writes to the pipe
                    os.write(_STDERR, line)
