"""A file system of Hadoop on this machine: a name node and a data node, processes of their own, from one archive of Maven's repository."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import pyspark
import pytest
from network_lack import is_network_lack
from ports import next_port

from schemaquake.clusters.distribution.java import find_java
from schemaquake.clusters.distribution.resolvers import Coordinates, choose_resolver
from schemaquake.harness.errors import EnvironmentLacks, FetchError
from schemaquake.harness.wait import until
from schemaquake.results.engines.spark_session import JAVA_LEAST

START_LIMIT_S = 240
COMMAND_LIMIT_S = 240
_JARS = Path(pyspark.__file__).parent / "jars"


@dataclass(frozen=True, slots=True)
class HdfsStore:
    """A file system with one replica of each block, and no accounts."""

    port: int
    folder: Path
    class_path: str

    @property
    def address(self) -> str:
        """The address of its root."""
        return f"hdfs://127.0.0.1:{self.port}"

    def shell(self, *arguments: str) -> str:
        """Carry out a command of `hadoop fs`, and return its output."""
        done = self._run(*arguments)
        done.check_returncode()
        return done.stdout

    def names(self, path: str) -> list[str]:
        """List the plain files below a path, without that path; none if it is not there."""
        if not (listed := self.shell("-ls", "-R", "-C", path) if self._has(path) else ""):
            return []
        return [line.partition(f"{path}/")[2] for line in listed.splitlines()]

    def _has(self, path: str) -> bool:
        return self._run("-test", "-e", path).returncode == 0

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [_java(), "-Xmx256m", "-cp", self.class_path, "org.apache.hadoop.fs.FsShell", *arguments]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=COMMAND_LIMIT_S)


@contextmanager
def hdfs_store(folder: Path) -> Iterator[HdfsStore]:
    """A file system that takes files, gone when the block ends. The test is skipped where its archive cannot be fetched."""
    store = HdfsStore(next_port(), folder, _class_path(folder))
    _configure(folder / "conf", folder, store)
    main = "org.apache.hadoop.hdfs.server"
    with ExitStack() as stack:
        _begin(stack, store, f"{main}.namenode.NameNode", "-format", "-force", "-nonInteractive").wait(START_LIMIT_S)
        _begin(stack, store, f"{main}.namenode.NameNode")
        until(lambda: _listens(store.port), deadline_s=START_LIMIT_S, what="the name node listens", every_s=0.5)
        _begin(stack, store, f"{main}.datanode.DataNode")
        until(lambda: _takes_files(store), deadline_s=START_LIMIT_S, what="the data node takes a file", every_s=1.0)
        yield store


def _class_path(folder: Path) -> str:
    """Return the folder of settings, the servers, and the client that PySpark has, of the same version."""
    version = next(_JARS.glob("hadoop-client-api-*.jar")).stem.rpartition("-")[2]
    lib = folder / "lib"
    lib.mkdir(parents=True)
    artifact = Coordinates("org.apache.hadoop", "hadoop-client-minicluster", version)
    try:
        choose_resolver("auto").retrieve([artifact], lib, counted=lambda _: None)
    except EnvironmentLacks as error:
        if isinstance(error, FetchError) and not is_network_lack(str(error)):
            raise
        pytest.skip(f"Hadoop's servers cannot be fetched: {error}")
    for jar in lib.glob("*.jar"):
        if not jar.name.startswith("hadoop-client-minicluster"):
            jar.unlink()
    return f"{folder / 'conf'}:{lib}/*:{_JARS}/*"


def _configure(conf: Path, folder: Path, store: HdfsStore) -> None:
    settings = {
        "fs.defaultFS": store.address,
        "dfs.namenode.name.dir": f"file:{folder}/name",
        "dfs.datanode.data.dir": f"file:{folder}/data",
        "dfs.namenode.http-address": "127.0.0.1:0",
        "dfs.datanode.address": "127.0.0.1:0",
        "dfs.datanode.ipc.address": "127.0.0.1:0",
        "dfs.datanode.http.address": "127.0.0.1:0",
        "dfs.permissions.enabled": "false",
        "dfs.replication": "1",
    }
    root = ET.Element("configuration")
    for name, value in settings.items():
        one = ET.SubElement(root, "property")
        ET.SubElement(one, "name").text = name
        ET.SubElement(one, "value").text = value
    conf.mkdir()
    for name in ("core-site.xml", "hdfs-site.xml"):
        ET.ElementTree(root).write(conf / name)


def _begin(stack: ExitStack, store: HdfsStore, main: str, *arguments: str) -> subprocess.Popen[bytes]:
    output = stack.enter_context((store.folder / f"{main.rpartition('.')[2]}.log").open("ab"))
    command = [_java(), "-Xmx256m", "-cp", store.class_path, main, *arguments]
    process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def _takes_files(store: HdfsStore) -> bool:
    try:
        store.shell("-put", "-f", str(store.folder / "conf" / "core-site.xml"), f"{store.address}/probe")
    except subprocess.CalledProcessError:
        return False
    return True


def _java() -> str:
    return str(find_java(JAVA_LEAST).path)
