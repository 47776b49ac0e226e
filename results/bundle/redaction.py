"""Redaction: the names of machines, people and secrets are replaced in a run's files before anything is hashed.

Equal texts get equal replacements, in the records as in the verdict on them, so that the redacted records are judged as the
originals were. Addresses are replaced for deployed clusters only: those of other clusters are made by the harness itself.
"""

from __future__ import annotations

import getpass
import ipaddress
import re
import socket
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from schemaquake.harness.errors import EnvironmentLacks, PlanError
from schemaquake.harness.model.plan import CLUSTER_FILE, Plan
from schemaquake.harness.registry import names

__all__ = ["SECRET", "Redactor", "redactor_of", "secrets_in"]

SECRET: Final = "[redacted]"  # noqa: S105 - the text that takes a secret's place

_SECRETS: Final = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"(?P<keep>-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----)(?P<hide>.+?)(?P<after>-----END (?:[A-Z0-9]+ )*PRIVATE KEY-----)",
        r"(?P<keep>[a-z][a-z0-9+.-]*://[^\s/:@\"']*:)(?P<hide>[^\s/@\"']+)(?P<after>@)",
        (
            r"(?P<keep>\b(?i:[\w.-]*(?:passw(?:or)?d|passphrase|secret[_-]?key|api[_-]?key|auth[_-]?token))\\?[\"']?\s*[=:]\s*\\?[\"']?)"
            r"(?P<hide>[^\s\"'\\,;}\])>]+)(?P<after>)"
        ),
        r"(?P<keep>\b(?i:password)\s+\\?[\"'])(?P<hide>[^\"'\\]+)(?P<after>)",
        r"(?P<keep>)(?P<hide>\b(?:AKIA|ASIA)[0-9A-Z]{16}\b)(?P<after>)",
    )
)
"""Places of secrets in any text: what is between `keep` and `after` is one."""
_NO_SECRETS: Final = frozenset({"redacted", "null", "none", "true", "false", ""})
"""Words in a secret's place, without brackets and in small letters."""
_HOST_OF_A_LOG: Final = re.compile(r"(?<=\bHostname: )(?!\$HOST\b)[\w.-]+")
"""A server's name for its machine, in its own log."""
_HOME: Final = re.compile(r"(?:/home/[\w.-]+|/Users/[\w.-]+|/root)(?=/)")
_IPV4: Final = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
_ANYWHERE: Final = frozenset({"localhost", "localhost.localdomain", "root", "user", "admin"})
"""Names of machines and people that say nothing, or stand for something else in most texts."""
_SHORTEST_NAME: Final = 3
_FIRST_DOCUMENTED: Final = int(ipaddress.ip_address("192.0.2.1"))
_OF_OWNERS: Final = frozenset(
    {"host", "address", "hostname", "user", "key", "known_hosts", "fingerprint", "cluster_name"}
)
"""Keys of a cluster file whose values are the owner's own."""


class Redactor:
    """A replacement of texts that counts what it replaced, by kind."""

    def __init__(self, replacements: Mapping[str, tuple[str, str]], *, addresses: bool) -> None:
        """Prepare to replace whole words: text → (kind, replacement). `addresses`: IPv4 addresses are replaced, too."""
        self.counts: Counter[str] = Counter()
        self._replacements = dict(replacements)
        ordered = sorted(replacements, key=lambda text: (-len(text), text))
        self._words = (
            re.compile("|".join(rf"(?<![\w-]){re.escape(text)}(?![\w-])" for text in ordered)) if ordered else None
        )
        self._addresses: dict[str, str] | None = {} if addresses else None

    def text(self, text: str) -> str:
        """Return a text without secrets and names."""
        for pattern in _SECRETS:
            text = pattern.sub(self._hide, text)
        if self._words is not None:
            text = self._words.sub(self._replace, text)
        text = _HOST_OF_A_LOG.sub(lambda _: self._count("host name", "$HOST"), text)
        text = _HOME.sub(lambda _: self._count("path", "$HOME"), text)
        return text if self._addresses is None else _IPV4.sub(self._address, text)

    def value(self, value: Any) -> Any:
        """Return a JSON value whose texts and keys are redacted."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self.value(item) for key, item in value.items()}
        return value

    def table(self, table: pa.Table) -> pa.Table | None:
        """Return a table whose texts are redacted; None if nothing was replaced."""
        changed = False
        for number, field in enumerate(table.schema):
            column = table.column(number)
            plain_type = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
            if not (pa.types.is_string(plain_type) or pa.types.is_large_string(plain_type)):
                continue
            plain = column.cast(plain_type)
            distinct = [text for text in pc.unique(plain).to_pylist() if text is not None]
            replaced = {text: shown for text in distinct if (shown := self.text(text)) != text}
            if replaced:
                changed = True
                keys = pa.array(list(replaced), plain_type)
                places = pc.index_in(plain, value_set=keys)
                shown = pc.take(pa.array(list(replaced.values()), plain_type), places)
                table = table.set_column(number, field, pc.coalesce(shown, plain).cast(field.type))
        return table if changed else None

    def _hide(self, match: re.Match[str]) -> str:
        if _is_hidden(match["hide"]):
            return match[0]
        self.counts["secret"] += 1
        return f"{match['keep']}{SECRET}{match['after']}"

    def _replace(self, match: re.Match[str]) -> str:
        kind, replacement = self._replacements[match[0]]
        self.counts[kind] += 1
        return replacement

    def _count(self, kind: str, replacement: str) -> str:
        self.counts[kind] += 1
        return replacement

    def _address(self, match: re.Match[str]) -> str:
        known = self._addresses
        assert known is not None
        try:
            number = ipaddress.IPv4Address(match[0])
        except ValueError:
            return match[0]
        if number.is_loopback or number.is_unspecified or int(number) == 2**32 - 1 or match[0] in known.values():
            return match[0]
        self.counts["address"] += 1
        return known.setdefault(match[0], str(ipaddress.ip_address(_FIRST_DOCUMENTED + len(known))))


def _is_hidden(text: str) -> bool:
    return text.strip("[]<>{}()*").lower() in _NO_SECRETS


def secrets_in(text: str) -> Iterator[str]:
    """Yield the kinds of places at which a text seems to hold a secret."""
    for pattern in _SECRETS:
        for match in pattern.finditer(text):
            if not _is_hidden(match["hide"]):
                yield match["keep"] or "an access key"


def redactor_of(folder: Path, plan: Plan) -> Redactor:
    """Build the redactor of a run: its paths, this machine and user, and what a cluster file keeps of its owner."""
    kept = _vocabulary(plan)
    found: dict[str, tuple[str, str]] = {}
    for name in (socket.gethostname(), socket.getfqdn()):
        found[name] = ("host name", "$HOST")
    found[str(folder.resolve())] = ("path", "$RUN")
    found[str(Path.home())] = ("path", "$HOME")
    found[_user()] = ("user", "$USER")
    deployed = folder / CLUSTER_FILE
    if deployed.is_file():
        found |= _of_cluster_file(deployed)
    usable = {
        text: value
        for text, value in found.items()
        if len(text) >= _SHORTEST_NAME and text.lower() not in _ANYWHERE | kept and text != "/root"
    }
    return Redactor(usable, addresses=plan.cluster_file is not None)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _vocabulary(plan: Plan) -> frozenset[str]:
    """Collect the words of the plan that have a meaning: a machine may have the name of a product."""
    texts = (
        *names("systems"),
        plan.system,
        plan.cluster,
        plan.keyspace_prefix,
        *plan.workloads,
        *plan.nemeses,
        *plan.node_names,
        *plan.options,
    )
    return frozenset(word.lower() for text in texts for word in (text, *re.split(r"[:.\-]", text)))


def _of_cluster_file(path: Path) -> dict[str, tuple[str, str]]:
    """Name the hosts of a cluster file by number, and hide its users, keys and secrets."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PlanError(f"{path} cannot be read, so its hosts would not be redacted: {error}") from error
    texts = dict.fromkeys(_owned(document))
    found = {
        text: ("host name" if key in {"host", "address", "hostname"} else "owner", f"{key}-{number}")
        for number, (key, text) in enumerate(texts, start=1)
    }
    return found | dict.fromkeys(_credentials(document), ("secret", SECRET))


def _owned(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _owned(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _owned(item, key)
    elif isinstance(value, str) and key in _OF_OWNERS and not _is_address(value):
        yield key, value


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _credentials(value: Any) -> Iterable[str]:
    """Read the secrets to which a cluster file refers, as far as this machine knows them."""
    from schemaquake.clusters.cluster_file.credentials import CredentialReference  # noqa: PLC0415 - only deployed clusters need it

    resolve: Callable[[Any], str] = lambda one: CredentialReference.model_validate(one).resolve()  # noqa: E731
    if not isinstance(value, dict):
        return [found for item in value for found in _credentials(item)] if isinstance(value, list) else []
    if value.keys() in ({"env"}, {"file"}):
        try:
            return [resolve(value)]
        except (EnvironmentLacks, ValueError):
            return []  # it is not on this machine, so it cannot have been written by it
    return [found for item in value.values() for found in _credentials(item)]
