"""Resolvers: programs that fetch an artifact and everything it depends on from a Maven repository.

Two will do, whichever there is: Maven, which the user's settings may point at a mirror, or the Ivy that comes inside
PySpark and needs nothing but Java. Both check each file against the checksum its publisher put beside it.
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
from schemaquake.harness.errors import EnvironmentLacks, FetchError
from schemaquake.harness.wait import until

__all__ = ["Ivy", "Maven", "Resolver", "ResolverName", "choose_resolver"]

ResolverName: TypeAlias = Literal["auto", "maven", "ivy"]

_DEADLINE_S: Final = 1800
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


class Resolver(Protocol):
    """A way to have jars."""

    name: str

    def missing(self) -> str | None:
        """What this machine lacks for it, as a sentence; None if nothing."""
        ...

    def retrieve(self, artifacts: Sequence[Coordinates], target: Path, *, counted: Callable[[int], None]) -> None:
        """Put the artifacts and all they need at run time into `target`, as artifact-version.jar.

        `counted` hears now and then how many jars it has come to. Raises FetchError with the program's words.
        """
        ...


def choose_resolver(name: ResolverName, *, cache: Path | None = None) -> Resolver:
    """The resolver of that name; `auto` is Maven if installed (it is faster), else Ivy. Raises EnvironmentLacks."""
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
        """Whether `mvn` is installed."""
        return None if shutil.which("mvn") else "Maven is not installed (apt-get install maven)."

    def retrieve(self, artifacts: Sequence[Coordinates], target: Path, *, counted: Callable[[int], None]) -> None:
        """See `Resolver`. Takes about ten seconds for Cassandra 5.0."""
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
        # -C: a file that does not fit its published checksum is an error, by default Maven only warns.
        # -U: ask again for what was not there last time, which Maven otherwise remembers for a day.
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
    """The Ivy that PySpark carries for its own `--packages`; `repository` is where it keeps what it downloaded."""

    name = "Ivy"

    def __init__(self, repository: Path) -> None:
        self.repository = repository

    def missing(self) -> str | None:
        """Whether PySpark is installed and has an Ivy; Java is looked for, and fetched if need be, when it is used."""
        return None if _ivy_jars() else 'PySpark, which brings Ivy, is not installed (pip install "pyspark>=4.1").'

    def retrieve(self, artifacts: Sequence[Coordinates], target: Path, *, counted: Callable[[int], None]) -> None:
        """See `Resolver`. Takes a minute or two for Cassandra 5.0 the first time."""
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
        # Ivy itself does not lock its repository, and downloads two things to one name if two ask at once.
        with TemporaryDirectory(prefix="schemaquake-") as work, only_one(self.repository, waiting=lambda: counted(0)):
            asked = Path(work, "ivy.xml")
            ElementTree(module).write(asked)
            _run(
                self.name,
                # Only a verbose Ivy says why a repository did not answer; otherwise it says that the module is not there.
                [*main, "-verbose", "-ivy", asked, "-confs", "default", "-retrieve", pattern],
                log=Path(work, "log"),
                progressed=re.compile(r"^\tfound \S+ in ", re.MULTILINE),
                complaint=re.compile(
                    r"^(?:ERROR|WARN): \s*((?:Server access|Host |module not found|\[FAILED|download failed).*)"
                ),
                counted=counted,
            )


def _ivy_jars() -> Sequence[Path]:
    """Ivy and the parser of its command line, without importing PySpark."""
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
    """Run a resolver to its end. Raises FetchError with what it complained of, or after half an hour."""
    with log.open("w") as output:
        # A session of its own, so that Ctrl-C ends it through the `finally` below, with whatever it started.
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
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
        raise FetchError(f'{name} says "{_boiled_down(log.read_text(errors="replace"), complaint)}"')


def _boiled_down(text: str, complaint: re.Pattern[str]) -> str:
    """The first thing the resolver complained of, without addresses; its last line if it did not complain."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [line.rstrip() for line in plain.splitlines() if line.strip()]
    complaints = [match[1].strip(": ") for line in lines if (match := complaint.search(line))]
    words = next(filter(None, complaints), lines[-1].strip() if lines else "nothing")
    words = re.sub(r"(?: from/to \S+)?,? ?(?:url[= ]|transfer failed for )?\(?\bhttps?://\S+", "", words)
    words = words.removesuffix("-> [Help 1]").rstrip(" .")
    return words if len(words) <= 300 else f"{words[:300]}…"
