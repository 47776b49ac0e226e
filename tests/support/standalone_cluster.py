"""A Spark cluster of its own on this machine: a master and workers from PySpark's own distribution, on the loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pyspark

from schemaquake.clusters.distribution.java import find_java
from schemaquake.harness.wait import until
from schemaquake.results.engines.spark_session import JAVA_LEAST

START_LIMIT_S = 240
"""On a busy machine a Java process takes its time."""


@dataclass
class StandaloneCluster:
    """A master, and workers of one core each. `workers` are their processes, each the leader of a group."""

    port: int
    page: int
    folder: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def alive(self) -> int:
        """How many workers the master knows to live."""
        try:
            with urlopen(f"http://127.0.0.1:{self.page}/json/", timeout=5) as answer:
                state: Any = json.load(answer)
        except (URLError, ConnectionError, TimeoutError):
            return 0
        return int(state["aliveworkers"])

    def kill_worker(self, number: int) -> None:
        """SIGKILL for a worker and all its executors."""
        os.killpg(self.workers[number].pid, signal.SIGKILL)
        self.workers[number].wait(30)


@contextmanager
def standalone_cluster(folder: Path, *, workers: int = 2, worker_memory: str = "640m") -> Iterator[StandaloneCluster]:
    """A cluster that is ready, and gone when the block ends, executors and all."""
    cluster = StandaloneCluster(_free_port(), _free_port(), folder)
    own = ("--host", "127.0.0.1", "--port", str(cluster.port), "--webui-port", str(cluster.page))
    with ExitStack() as stack:
        _start(stack, folder / "master.log", "org.apache.spark.deploy.master.Master", *own)
        for number in range(workers):
            options = ("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", worker_memory)
            where = ("--work-dir", str(folder / f"worker-{number}"))
            log, main = folder / f"worker-{number}.log", "org.apache.spark.deploy.worker.Worker"
            cluster.workers.append(_start(stack, log, main, *options, *where, cluster.master))
        until(lambda: cluster.alive() == workers, deadline_s=START_LIMIT_S, what=f"{workers} workers", every_s=0.5)
        yield cluster


def _start(stack: ExitStack, log: Path, main: str, *arguments: str) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java(JAVA_LEAST).path.resolve().parent.parent),
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "192m",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    output = stack.enter_context(log.open("wb"))
    process = subprocess.Popen(
        [home / "bin" / "spark-class", main, *arguments],
        env=environment,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # executors are of its group, and end with it
    )
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
