"""The interfaces written down in clusters/idl against the classes of the servers that speak them.

Needs Java and the jars of four versions, and starts no node. What a server's classes tell is the last word: a wrong
field number would be skipped in silence by either side.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from thriftpy2.thrift import TException, TType

from schemaquake.clusters.distribution.fetch import fetch
from schemaquake.clusters.distribution.java import find_java
from schemaquake.clusters.thrift.dialects import DIALECTS

pytestmark = pytest.mark.cluster

SOURCE = Path(__file__).with_name("ThriftInterface.java")
LAST_RELEASES = {"0.7": "0.7.10", "0.8": "0.8.10", "1.0": "1.0.12", "1.1": "1.1.12"}
WORDS = {
    TType.BOOL: "bool",
    TType.DOUBLE: "double",
    TType.I32: "i32",
    TType.I64: "i64",
    TType.STRING: "string",
    TType.BINARY: "binary",
}


def told_by_server(version, names):
    told = subprocess.run(
        [str(find_java(17, 21).path), "-cp", os.pathsep.join(map(str, fetch(version).class_path)), str(SOURCE), *names],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert told.returncode == 0, told.stderr[-2000:]
    return sorted(told.stdout.splitlines())


def spelled(ttype, spec=None):
    if ttype == TType.LIST:
        return f"list<{spelled(*spec) if isinstance(spec, tuple) else spelled(spec)}>"
    if ttype == TType.MAP:
        return "map<" + ",".join(spelled(*part) if isinstance(part, tuple) else spelled(part) for part in spec) + ">"
    return spec.__name__ if isinstance(spec, type) else WORDS[ttype]


def fields(name, struct):
    for number, (ttype, field, *rest) in struct.thrift_spec.items():
        *spec, required = rest
        yield f"{name} {number} {field} {spelled(ttype, *spec)} {str(required).lower()}"


def told_by_us(idl):
    """(names to ask for, lines expected)."""
    structs = {n: s for n, s in vars(idl).items() if isinstance(s, type) and hasattr(s, "thrift_spec")}
    enums = {n: s for n, s in vars(idl).items() if isinstance(s, type) and hasattr(s, "_VALUES_TO_NAMES")}
    for call in idl.Cassandra.thrift_services:
        for half in ("args", "result"):
            structs[f"Cassandra.{call}_{half}"] = getattr(idl.Cassandra, f"{call}_{half}")
    lines = [line for name, struct in structs.items() for line in fields(name, struct)]
    lines += [f"{n} {value} {word}" for n, enum in enums.items() for value, word in enum._VALUES_TO_NAMES.items()]
    return [*structs, *enums], sorted(lines)


each_dialect = pytest.mark.parametrize(
    "dialect",
    [pytest.param(d, id=d.name, marks=() if d is DIALECTS[-1] else pytest.mark.long) for d in DIALECTS],
)


@each_dialect
def test_every_field_has_the_number_the_type_and_the_requirement_that_the_server_gives_it(dialect):
    names, ours = told_by_us(dialect.idl)
    assert "CfDef 16 id i32 false" in ours
    assert told_by_server(LAST_RELEASES[dialect.name], names) == ours


@each_dialect
def test_every_exception_of_a_call_is_declared_as_one(dialect):
    raised = {cls for name, cls in vars(dialect.idl).items() if name.endswith("Exception")}
    assert raised
    assert all(issubclass(cls, TException) for cls in raised)


@pytest.mark.long
def test_1_1_0_speaks_the_interface_of_1_1():
    names, ours = told_by_us(DIALECTS[-1].idl)
    assert told_by_server("1.1.0", names) == ours
