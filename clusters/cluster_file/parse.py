"""Cluster file parsing: from a TOML text to a checked `ClusterFile`, or to every error with its line and remedy.

The parser reports types and tables; contradictions are found in the text as it is, so that one wrong key hides
no other error. No sentence repeats a value that could be a secret.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from schemaquake.clusters.cluster_file.lines import KeyPath, key_lines, line_of
from schemaquake.clusters.cluster_file.model import ClusterFile, Commands, Process, Systemd
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.plan import CLUSTER_FILE
from schemaquake.harness.named_files import read_named_text

__all__ = ["read_cluster_file", "read_cluster_file_of_run"]

_SERVICES: Final[Mapping[str, type[BaseModel]]] = {"systemd": Systemd, "commands": Commands, "process": Process}

_SECRET: Final = re.compile(r"passw|passphrase|secret|token|credential", re.IGNORECASE)

_EXAMPLES: Final[Mapping[str, str]] = {
    "provider": 'provider = "ssh"',
    "system": 'system = "cassandra:5.0.9"',
    "keyspace_prefix": 'keyspace_prefix = "sq", a lower-case identifier of at most 16 characters',
    "allow": 'allow = ["partition", "kill"]',
    "max_fault_seconds": "max_fault_seconds = 60, more than 0 and at most 3600",
    "max_nodes_down": "max_nodes_down = 1",
    "stop_if": '[[stop_if]] with command = ["/usr/local/bin/is-unwell"], or with cql = "SELECT …" and above = 1000',
    "cql": "cql = \"SELECT value FROM system_views.settings WHERE name = '…'\"",
    "above": "above = 1000",
    "below": "below = 1",
    "every_seconds": "every_seconds = 1, from 0.1 to 60",
    "timeout_seconds": "timeout_seconds = 5, more than 0 and at most 60",
    "consent_file": 'consent_file = "/etc/schemaquake/consent"',
    "cql_port": "cql_port = 9042",
    "username": 'username = { env = "CQL_USER" } or username = { file = "/etc/schemaquake/user" }',
    "password": 'password = { env = "CQL_PASSWORD" } or password = { file = "/etc/schemaquake/password" }',
    "env": 'env = "CQL_PASSWORD", the name of an environment variable',
    "file": 'file = "/etc/schemaquake/password"',
    "credentials": '[credentials] with username = { env = "CQL_USER" } and password = { env = "CQL_PASSWORD" }',
    "nodes": '[[nodes]] with address = "10.0.0.1", once a node',
    "spares": '[[spares]] with address = "10.0.0.4", once a host',
    "empties": 'empties = ["/var/lib/cassandra/data", "/var/lib/cassandra/commitlog"]',
    "options_file": 'options_file = "/etc/cassandra/joining.options"',
    "shared": "shared = true",
    "address": 'address = "10.0.0.1"',
    "ssh": 'ssh = { port = 2222 } of one node, or [ssh] with user = "cassandra" of all',
    "host": 'host = "bastion.example.org"',
    "port": "port = 22",
    "user": 'user = "cassandra"',
    "key": 'key = "~/.ssh/id_ed25519"',
    "known_hosts": 'known_hosts = "~/.ssh/known_hosts"',
    "fingerprint": 'fingerprint = "SHA256:…", 43 characters as `ssh-keygen -lf` prints them',
    "agent": "agent = true",
    "jump": 'jump = { host = "bastion.example.org", user = "you" }',
    "service": 'kind = "systemd" with unit = "cassandra", or kind = "commands" or "process"',
    "kind": 'kind = "systemd", "commands" or "process"',
    "unit": 'unit = "cassandra"',
    "start": 'start = ["/etc/init.d/cassandra", "start"]',
    "stop": 'stop = ["/etc/init.d/cassandra", "stop"]',
    "kill": 'kill = ["pkill", "-KILL", "-f", "CassandraDaemon"]',
    "status": 'status = ["cat", "/run/cassandra/cassandra.pid"], which prints the process id',
    "command": 'command = ["/opt/cassandra/bin/cassandra", "-f"]',
    "environment": 'environment = { MAX_HEAP_SIZE = "1G" }',
    "logs": 'logs = ["/var/log/cassandra/system.log"]',
    "data": 'data = ["/var/lib/cassandra/data"]',
    "state": 'state = "/run/schemaquake"',
    "memory": 'memory = "1g"',
    "cpus": "cpus = 1.0",
    "image": 'image = "cassandra:5.0"',
    "ca": 'ca = "~/certificates/ca.pem"',
    "verify_hostname": "verify_hostname = true",
}

_TYPES: Final[Mapping[str, str]] = {
    "string_type": "must be a text in quotes",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list, in [ ]",
    "is_instance_of": "must be a text in quotes",
    "model_type": "must be a table",
    "mapping_type": "must be a table",
    "dict_type": "must be a table",
    "model_attributes_type": "must be a table",
    "string_pattern_mismatch": "has the wrong form",
    "string_too_short": "is empty",
    "too_short": "is empty",
    "too_long": "has too many entries",
    "greater_than": "is too small",
    "greater_than_equal": "is too small",
    "less_than_equal": "is too large",
    "union_tag_invalid": "is of no known kind",
    "union_tag_not_found": "is of no known kind",
}


def read_cluster_file_of_run(folder: Path) -> ClusterFile:
    """Read the cluster file that a run was given from the run's folder. Raises PlanError as `read_cluster_file` does."""
    return read_cluster_file(folder / CLUSTER_FILE)


def read_cluster_file(path: Path) -> ClusterFile:
    """Read and check a cluster file.

    Raises PlanError with every error in the file, one line each: `FILE:LINE: what is wrong; what to do`.
    """
    try:
        text = read_named_text(path)
    except OSError as error:
        raise PlanError(f"the cluster file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PlanError(f"{path}:1: this is not text in UTF-8, which TOML must be") from error
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(_no_toml(path, text, str(error))) from error
    except RecursionError:
        raise PlanError(
            f"{path}:1: its tables and lists are nested too deep; see the example in docs/deployed.md"
        ) from None
    problems = [_problem(error, document) for error in _errors(document)] + list(_contradictions(document))
    if problems:
        lines = key_lines(text)
        sentences = sorted({(line_of(lines, key_path), sentence) for key_path, sentence in problems})
        raise PlanError("\n".join(f"{path}:{line}: {sentence}" for line, sentence in sentences))
    return ClusterFile.model_validate(_frozen(document))


def _no_toml(path: Path, text: str, message: str) -> str:
    found = re.search(r"\(at line (\d+), column \d+\)$|\(at end of document\)$", message)
    line = int(found[1]) if found and found[1] else max(1, len(text.splitlines()))
    reason = message[: found.start()].strip() if found else message
    # The parser's message ends with the text at which it failed.
    return (
        f"{path}:{line}: this is not TOML: {re.split(r'[:(]', reason)[0].strip()}; see the example in docs/deployed.md"
    )


def _frozen(value: Any) -> Any:
    """Turn lists into the tuples that a frozen table holds."""
    if isinstance(value, dict):
        return {key: _frozen(entry) for key, entry in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _errors(document: Mapping[str, Any]) -> Sequence[ErrorDetails]:
    try:
        ClusterFile.model_validate(_frozen(document))
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        # The default depends on the provider; a wrong provider is reported at its own key.
        return [each for each in details if each["type"] != "default_factory_not_called"]
    return []


# ── errors of types and keys ────────────────────────────────────────────────────────────────────────────────────────


def _problem(error: ErrorDetails, document: Mapping[str, Any]) -> tuple[KeyPath, str]:
    """Return the key of an error and its sentence."""
    key_path = _place(error["loc"])
    kind, context = error["type"], error.get("ctx", {})
    name = _spelled(key_path)
    if (secret := _written_out(key_path, kind, document)) is not None:
        return key_path, secret
    match kind:
        case "extra_forbidden":
            return key_path, _unknown_key(key_path, document)
        case "missing":
            return key_path, f"{name} is missing; add {_example(key_path)}"
        case "literal_error":
            value = _value_at(document, key_path)
            problem = f"{name} cannot be {value!r}" if isinstance(value, str) else f"{name} is of no known kind"
            return key_path, f"{problem}; write {context['expected']}"
        case "value_error":
            return key_path, f"{name}: {context['error']}"
        case _ if kind in _TYPES:
            return key_path, f"{name} {_TYPES[kind]}; write it like {_example(key_path)}"
    return key_path, f"{name}: {error['msg'][:1].lower()}{error['msg'][1:]}; write it like {_example(key_path)}"


def _place(location: tuple[str | int, ...]) -> KeyPath:
    """Drop the kind of service, which the parser inserts into the location."""
    if location[:1] == ("service",) and len(location) > 1 and location[1] in _SERVICES:
        return (location[0], *location[2:])
    return location


def _spelled(key_path: KeyPath) -> str:
    """Write a key as `nodes[3].ssh.port`, counted from one."""
    text = ""
    for part in key_path:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _example(key_path: KeyPath) -> str:
    named = [part for part in key_path if isinstance(part, str)]
    return _EXAMPLES.get(named[-1], f"{named[-1]} = …") if named else "…"


def _value_at(document: Any, key_path: KeyPath) -> Any:
    """Return the value of a key; None if there is none."""
    for part in key_path:
        if isinstance(document, dict) and isinstance(part, str):
            document = document.get(part)
        elif isinstance(document, list) and isinstance(part, int) and part < len(document):
            document = document[part]
        else:
            return None
    return document


def _written_out(key_path: KeyPath, kind: str, document: Mapping[str, Any]) -> str | None:
    """Describe a secret that is written out; None for another error."""
    key = key_path[-1] if key_path else ""
    is_login = key_path[:1] == ("credentials",) and key in {"username", "password"}
    if kind == "missing" or not isinstance(key, str) or isinstance(_value_at(document, key_path), dict | list):
        return None
    if is_login:
        return (
            f"{_spelled(key_path)} is written out, and this file is copied into every run; write {_example(key_path)}"
        )
    if kind == "extra_forbidden" and _SECRET.search(key):
        remedy = (
            "take it out: SSH gets in by a key or an agent, and sudo without a password"
            if "ssh" in key_path or "become" in key_path
            else f"write, in [credentials], {_EXAMPLES['password']}"
        )
        return f"{_spelled(key_path)} is written out, and this file is copied into every run; {remedy}"
    return None


def _unknown_key(key_path: KeyPath, document: Mapping[str, Any]) -> str:
    table, key = _spelled(key_path[:-1]), str(key_path[-1])
    known = _keys_of(key_path[:-1], document)
    near = difflib.get_close_matches(key, known, n=1)
    remedy = f'did you mean "{near[0]}"?' if near else "take it out."
    return f'{table or "the file"} has no key "{key}"; {remedy} Known: {", ".join(known)}'


def _keys_of(key_path: KeyPath, document: Mapping[str, Any]) -> list[str]:
    """List the keys that the table at that place may have."""
    model: type[BaseModel] = ClusterFile
    for part in key_path:
        if part == "service":
            kind = _value_at(document, ("service", "kind"))
            model = _SERVICES.get(str(kind), Systemd)
        elif isinstance(part, str):
            model = _model_in(model.model_fields[part].annotation)
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel]:
    """Find the table type of a field, which may be optional or in a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(_model_in(each) for each in get_args(annotation) if each not in {type(None), ...})


# ── contradictions ──────────────────────────────────────────────────────────────────────────────────────────────────


def _contradictions(document: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Find keys that contradict each other; errors of type are reported elsewhere."""
    provider, nodes = document.get("provider"), document.get("nodes")
    if provider == "ssh":
        yield from _ssh_contradictions(document, nodes)
    elif provider == "docker":
        yield from _docker_contradictions(document)
    yield from _repeated(document)
    method = _value_at(document, ("clock", "method"))
    allowed = document.get("allow")
    if method == "none" and isinstance(allowed, list) and "clock" in allowed:
        yield ("clock", "method"), 'allow has "clock", and clock.method = "none" cannot skew one; take one of them out'


def _ssh_contradictions(document: Mapping[str, Any], nodes: Any) -> Iterator[tuple[KeyPath, str]]:
    if nodes is None or nodes == []:
        yield ("nodes",), f"there is no node; add {_EXAMPLES['nodes']}"
    if "docker" in document:
        yield ("docker",), 'provider = "ssh" has no containers; take [docker] out, or write provider = "docker"'
    service = document.get("service")
    if isinstance(service, dict) and service.get("kind") == "process" and not service.get("command"):
        yield ("service",), f"a process of a host needs its command; add {_EXAMPLES['command']}"


def _docker_contradictions(document: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    remedies = {"nodes": "[docker] nodes = 3 says how many", "spares": "--spares 1 says how many"}
    for table in ("nodes", "spares", "joining", "shared", "ssh", "become"):
        if table in document:
            remedy = remedies.get(table, "the engine reaches them as root")
            yield (table,), f"containers are made for the run and have no {table}; take it out: {remedy}"
    if "consent_file" in document:
        yield (
            ("consent_file",),
            "containers are made for the run, so nobody has put a file on them; take it out: stop_if holds for containers, too",
        )
    if _value_at(document, ("clock", "method")) == "settime":
        yield (
            ("clock", "method"),
            'containers share their host\'s clock, which must not be set; write method = "libfaketime"',
        )
    if _value_at(document, ("service", "kind")) in {"systemd", "commands"}:
        yield ("service", "kind"), 'a container has no service manager; write kind = "process"'


def _listed(document: Mapping[str, Any], table: str) -> list[Any]:
    found = document.get(table)
    return found if isinstance(found, list) else []


def _repeated(document: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    addresses: list[tuple[KeyPath, Any]] = [
        ((table, number, "address"), node.get("address"))
        for table in ("nodes", "spares")
        for number, node in enumerate(_listed(document, table))
        if isinstance(node, dict)
    ]
    for address, times in Counter(each for _, each in addresses if isinstance(each, str)).items():
        if times > 1:
            place = next(key_path for key_path, each in reversed(addresses) if each == address)
            yield place, f"{address} is the address of {times} nodes; give each its own"
    allowed = document.get("allow")
    allowed_words = allowed if isinstance(allowed, list) else []
    for word in dict.fromkeys(each for each in allowed_words if isinstance(each, str)):
        if (times := allowed_words.count(word)) > 1:
            last = len(allowed_words) - 1 - allowed_words[::-1].index(word)
            yield ("allow", last), f'allow has "{word}" {times} times; once is enough'
