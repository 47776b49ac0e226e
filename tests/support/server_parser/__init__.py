"""Server parser: the lexer and the grammar of a release of Cassandra itself, asked what it reads in statements."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schemaquake.clusters.distribution.fetch import fetch
from schemaquake.clusters.distribution.java import installed_javas

_SOURCE = Path(__file__).with_name("Targets.java")


@dataclass(frozen=True, slots=True)
class Read:
    """What the release makes of one statement: the kind of statement, and every keyspace in it."""

    kind: str
    keyspaces: frozenset[str]
    types: frozenset[str]
    """The keyspaces of user types, which a server looks for in the object's own keyspace alone."""
    unqualified: bool
    """True if an object is named without its keyspace."""


def parse_all(version: str, statements: Sequence[str]) -> Sequence[Read | None]:
    """Parse with the parser of that version; None for statements that it refuses."""
    jars = os.pathsep.join(map(str, fetch(version).class_path))
    lines = "".join(base64.b64encode(text.encode()).decode() + "\n" for text in statements)
    ran = subprocess.run(
        [_compiler(), "-XX:TieredStopAtLevel=1", "-cp", jars, str(_SOURCE)],
        input=lines, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = [_read(line) for line in ran.stdout.splitlines()]
    assert len(found) == len(statements)
    return found


def _compiler() -> str:
    """Find a Java that can run a source file: one of a development kit."""
    for java in installed_javas():
        if java.version >= 17 and java.path.resolve().with_name("javac").exists():
            return str(java.path)
    raise AssertionError("no Java development kit from 17 on: apt-get install openjdk-17-jdk-headless")


def _read(line: str) -> Read | None:
    answer, *rest = line.split("\t")
    if answer == "no":
        return None
    kind, *names = rest
    kind = kind.rpartition(".")[2]
    # An index is named without a keyspace where it is created: it lies in that of its table.
    unqualified = "-" in names and not kind.startswith("CreateIndex")
    types = frozenset(name.removeprefix("type ") for name in names if name.startswith("type "))
    return Read(kind, frozenset(names) - {"-", ""} - {f"type {name}" for name in types}, types, unqualified)
