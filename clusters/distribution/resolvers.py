"""Resolvers: programs that fetch an artifact and all its dependencies from a Maven repository.

Either of two is enough: Maven, which the user's settings may point at a mirror, or the Ivy inside PySpark, which needs
only Java. Both check each file against the checksum that its publisher put beside it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, Protocol, TypeAlias
from xml.etree.ElementTree import Element, ElementTree, SubElement

from schemaquake.clusters.distribution.cache import cache_folder, only_one
from schemaquake.clusters.distribution.java import find_java
from schemaquake.clusters.systems.coordinates import Coordinates, unwanted
from schemaquake.harness.child_environment import FETCHING, JAVA, child_environment
from schemaquake.harness.errors import EnvironmentLacks, FetchError
from schemaquake.harness.wait import until

__all__ = ["Ivy", "Maven", "Resolver", "ResolverName", "choose_resolver"]

ResolverName: TypeAlias = Literal["auto", "maven", "ivy"]

_DEADLINE_S: Final = 1800
_MAVEN: Final = ("M2_HOME", "MAVEN_HOME", "MAVEN_OPTS", "MAVEN_ARGS", "MAVEN_SKIP_RC", "MAVEN_CONFIG")
"""The variables of Maven's launcher."""
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


class Resolver(Protocol):
    """A program that fetches jars."""

    name: str

    def missing(self) -> str | None:
        """Return a sentence on what this machine lacks for the program; None if nothing."""
        ...

    def retrieve(self, artifacts: Sequence[Coordinates], target: Path, *, counted: Callable[[int], None]) -> None:
        """Put the artifacts and their runtime dependencies into `target`, as artifact-version.jar.

        `counted` is called now and then with the number of jars so far. Raises FetchError with the program's error.
        """
        ...


def choose_resolver(name: ResolverName, *, cache: Path | None = None) -> Resolver:
    """Return the resolver of that name; `auto` is Maven if installed (it is faster), else Ivy. Raises EnvironmentLacks."""
    maven: Resolver = Maven()
    ivy: Resolver = Ivy(cache_folder(cache) / "ivy")
    wanted = {"auto": [maven, ivy], "maven": [maven], "ivy": [ivy]}[name]
    reasons = [resolver.missing() for resolver in wanted]
    for resolver, reason in zip(wanted, reasons, strict=True):
        if reason is None:
            return resolver
    raise EnvironmentLacks(f"nothing here can fetch from a Maven repository: {' '.join(filter(None, reasons))}")


class Maven:
    """Maven with the user's own settings and local repository."""

    name = "Maven"

    def missing(self) -> str | None:
        """Return a sentence if `mvn` is not installed."""
        return None if shutil.which("mvn") else "Maven is not installed (apt-get install maven)."

    def retrieve(self, artifacts: Sequence[Coordinates], target: Path, *, counted: Callable[[int], None]) -> None:
        """Fetch by Maven; see `Resolver`. Takes about ten seconds for Cassandra 5.0."""
        project = Element("project")
        _children(
            project, modelVersion="4.0.0", groupId="schemaquake", artifactId="fetch", version="1", packaging="pom"
        )
        dependencies = SubElement(project, "dependencies")
        for artifact in artifacts:
            dependency = SubElement(dependencies, "dependency")
            _children(dependency, groupId=artifact.group, artifactId=artifact.artifact, version=artifact.version)
            exclusions = SubElement(dependency, "exclusions")
            for group, name in unwanted():
                _children(SubElement(exclusions, "exclusion"), groupId=group, artifactId=name)
        # -C: a file that does not fit its published checksum is an error; by default Maven only warns.
        # -U: ask again for artifacts that were missing last time, which Maven otherwise remembers for a day.
        with TemporaryDirectory(prefix="schemaquake-") as work:
            pom = Path(work, "pom.xml")
            ElementTree(project).write(pom)
            _run(
                self.name,
                ["mvn", "-B", "-C", "-U", "-f", pom, _COPY, "-DincludeScope=runtime", f"-DoutputDirectory={target}"],
                log=Path(work, "log"),
                progressed=re.compile(r"Downloaded from \S+: \S+\.jar"),
                complaint=re.compile(r"\[ERROR\] (?:.*(?=Could not (?:find|transfer) artifact))?(.+)"),
                counted=counted,
            )


class Ivy:
    """The Ivy that PySpark carries for its own `--packages`; `repository` is the folder of its downloads."""

    name = "Ivy"

    def __init__(self, repository: Path) -> None:
        self.repository = repository

    def missing(self) -> str | None:
        """Return a sentence if PySpark or its Ivy is not installed. Java is found, or fetched, when it is used."""
        return None if _ivy_jars() else 'PySpark, which brings Ivy, is not installed (pip install "pyspark>=4.1").'

    def retrieve(self, artifacts: Sequence[Coordinates], target: Path, *, counted: Callable[[int], None]) -> None:
        """Fetch by Ivy; see `Resolver`. Takes a minute or two for Cassandra 5.0 the first time."""
        module = Element("ivy-module", version="2.0")
        SubElement(module, "info", organisation="schemaquake", module="fetch")
        dependencies = SubElement(module, "dependencies")
        for artifact in artifacts:
            names = {"org": artifact.group, "name": artifact.artifact, "rev": artifact.version}
            SubElement(dependencies, "dependency", names, conf="default->default")
        for group, name in unwanted():
            SubElement(dependencies, "exclude", org=group, module=name)
        java = find_java(17, cache=self.repository.parent)
        class_path = os.pathsep.join(map(str, _ivy_jars()))
        main: list[str | Path] = [java.path, "-cp", class_path, "org.apache.ivy.Main", "-cache", self.repository]
        pattern = f"{target}/[artifact]-[revision](-[classifier]).[ext]"
        # Ivy itself does not lock its repository, and two processes at once download different files to one name.
        with TemporaryDirectory(prefix="schemaquake-") as work, only_one(self.repository, waiting=lambda: counted(0)):
            request = Path(work, "ivy.xml")
            ElementTree(module).write(request)
            _run(
                self.name,
                # Only a verbose Ivy says why a repository did not answer; otherwise it says that the module does not exist.
                [*main, "-verbose", "-ivy", request, "-confs", "default", "-retrieve", pattern],
                log=Path(work, "log"),
                progressed=re.compile(r"^\tfound \S+ in ", re.MULTILINE),
                complaint=re.compile(
                    r"^(?:ERROR|WARN): \s*((?:Server access|Host |module not found|\[FAILED|download failed).*)"
                ),
                counted=counted,
            )


def _ivy_jars() -> Sequence[Path]:
    """Find Ivy and the parser of its command line, without importing PySpark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        return []
    jars = Path(spec.submodule_search_locations[0]) / "jars"
    found = [*jars.glob("ivy-2*.jar"), *jars.glob("commons-cli-*.jar")]
    return found if len(found) == 2 else []


def _children(parent: Element, **texts: str) -> None:
    for tag, text in texts.items():
        SubElement(parent, tag).text = text


def _run(
    name: str,
    argv: Sequence[str | Path],
    *,
    log: Path,
    progressed: re.Pattern[str],
    complaint: re.Pattern[str],
    counted: Callable[[int], None],
) -> None:
    """Run a resolver to its end. Raises FetchError with its complaint, or after half an hour."""
    with log.open("w") as output:
        # A session of its own, so that Ctrl-C ends it and its children through the `finally` below.
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=child_environment(*JAVA, *FETCHING, *_MAVEN),
        )

    def ended() -> bool:
        counted(len(progressed.findall(log.read_text(errors="replace"))))
        return process.poll() is not None

    try:
        until(ended, deadline_s=_DEADLINE_S, every_s=0.25, what=f"{name}'s end")
    except TimeoutError as error:
        raise FetchError(f"{name} gave no result: {error}") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode != 0:
        raise FetchError(f'{name} says "{_extract_complaint(log.read_text(errors="replace"), complaint)}"')


def _extract_complaint(text: str, complaint: re.Pattern[str]) -> str:
    """Return the resolver's first complaint, without addresses; its last line if it did not complain."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [line.rstrip() for line in plain.splitlines() if line.strip()]
    complaints = [match[1].strip(": ") for line in lines if (match := complaint.search(line))]
    complaint_text = next(filter(None, complaints), lines[-1].strip() if lines else "nothing")
    complaint_text = re.sub(
        r"(?: from/to \S+)?,? ?(?:url[= ]|transfer failed for )?\(?\bhttps?://\S+", "", complaint_text
    )
    complaint_text = complaint_text.removesuffix("-> [Help 1]").rstrip(" .")
    return complaint_text if len(complaint_text) <= 300 else f"{complaint_text[:300]}…"
