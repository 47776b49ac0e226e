"""An S3-compatible store on this machine: moto's server, from the environment of further tools (`make test-long` makes it)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen
from xml.etree import ElementTree as ET

import pyspark
import pytest
from ports import next_port

from schemaquake.harness.wait import until

SERVER = Path(__file__).resolve().parents[2] / ".venv" / "further" / "bin" / "moto_server"
SDK = {"3.4": "2.29.52", "3.5": "2.35.4"}
"""Hadoop's version → that of the parts of the SDK of which its client for S3 is built."""
HEADERS = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=anyone/20260101/us-east-1/s3/aws4_request",
    "Content-Type": "application/octet-stream",
}
"""Somebody, whose signature is not checked; a body of another type is read as a form."""
START_LIMIT_S = 240


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A store without accounts; names are BUCKET/KEY."""

    port: int

    @property
    def spark_options(self) -> str:
        """Options with which Spark reads and writes `s3a://` here."""
        api = next((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar"))
        version = api.stem.rpartition("-")[2]
        sdk = SDK[version.rpartition(".")[0]]
        packages = [f"org.apache.hadoop:hadoop-aws:{version}"]
        packages += [f"software.amazon.awssdk:{part}:{sdk}" for part in ("s3", "s3-transfer-manager", "sts")]
        settings = {
            "endpoint": f"http://127.0.0.1:{self.port}",
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "access.key": "anyone",
            "secret.key": "anything",
        }
        named = " ".join(f"--conf spark.hadoop.fs.s3a.{name}={value}" for name, value in settings.items())
        return f"--packages {','.join(packages)} --exclude-packages software.amazon.awssdk:bundle {named}"

    def put_folder(self, folder: Path, to: str, *, only: Sequence[str]) -> None:
        """Store the files of a folder that have one of these names."""
        for path in sorted(folder.rglob("*")):
            if path.name in only and not path.parent.is_symlink():
                self._ask("PUT", f"{to}/{path.relative_to(folder).as_posix()}", path.read_bytes())

    def get_folder(self, name: str, to: Path) -> None:
        """Copy everything below a name into a folder."""
        for key in self.names(name):
            path = to / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._ask("GET", name + key))

    def names(self, name: str) -> list[str]:
        """List what is stored below a name, without that name."""
        bucket, _, prefix = name.partition("/")
        found, after = [], ""
        while True:
            asked = urlencode({"list-type": 2, "prefix": prefix, "start-after": after})
            document = ET.fromstring(self._ask("GET", bucket, query=asked))  # noqa: S314 - the store is ours
            space = document.tag.partition("}")[0] + "}"
            keys = [str(one.text) for one in document.iter(f"{space}Key")]
            found += [key.removeprefix(prefix) for key in keys if not key.endswith("/")]
            if document.findtext(f"{space}IsTruncated") != "true":
                return found
            after = keys[-1]

    def make_bucket(self, name: str) -> None:
        """Make an empty bucket."""
        self._ask("PUT", name)

    def _ask(self, method: str, name: str, body: bytes | None = None, query: str = "") -> bytes:
        address = f"http://127.0.0.1:{self.port}/{quote(name)}{'?' if query else ''}{query}"
        with urlopen(Request(address, data=body, method=method, headers=HEADERS), timeout=60) as answer:
            return bytes(answer.read())


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """A store with the buckets `nightly` and `tables`, gone when the block ends. The test is skipped where moto is not installed."""
    if not SERVER.exists():
        pytest.skip("moto is not installed: make .venv/further")
    store = ObjectStore(next_port())
    with (folder / "store.log").open("wb") as log:
        process = subprocess.Popen([SERVER, "-H", "127.0.0.1", "-p", str(store.port)], stdout=log, stderr=log)
        try:
            until(lambda: _answers(store), deadline_s=START_LIMIT_S, what="the store answers", every_s=0.2)
            for bucket in ("nightly", "tables"):
                store.make_bucket(bucket)
            yield store
        finally:
            process.kill()
            process.wait()


def _answers(store: ObjectStore) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{store.port}/", timeout=30):
            return True
    except (URLError, ConnectionError, TimeoutError):
        return False
