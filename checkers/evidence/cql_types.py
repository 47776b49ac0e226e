"""CQL types: the user-defined types that a type's text names.

Reads the text that schema tables hold: `int`, `frozen<list<u>>`, `map<text, frozen<"My U">>`, `vector<float, 3>`,
`ks.u`, and the class names of Cassandra 2.2 and before, `org.apache.cassandra.db.marshal.UserType(ks,75,…)`, in which
names are hexadecimal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from schemaquake.harness.model.operation import JSON

__all__ = ["NATIVE", "can_hold", "canonical", "user_types"]

# fmt: off
NATIVE: Final = frozenset({
    "ascii", "bigint", "blob", "boolean", "counter", "date", "decimal", "double", "duration", "empty", "float", "inet",
    "int", "smallint", "text", "time", "timestamp", "timeuuid", "tinyint", "uuid", "varchar", "varint",
})
# fmt: on
"""The types of single values that belong to no keyspace."""
CONTAINERS: Final = frozenset({"list", "set", "map", "frozen", "tuple", "vector"})

_HELD: Final[Mapping[tuple[type, ...], frozenset[str]]] = {
    (int,): frozenset({"tinyint", "smallint", "int", "bigint", "varint", "counter"}),
    (int, float): frozenset({"float", "double", "decimal"}),
    (str,): frozenset({"ascii", "text", "varchar"}),
    (bool,): frozenset({"boolean"}),
}
"""The values of JSON that literals of these types can be; of another native type any but lists and maps."""

_TOKEN: Final = re.compile(
    r"""\s*(?: (?P<quoted>"(?:[^"]|"")*") | (?P<custom>'(?:[^']|'')*') | (?P<name>[A-Za-z_][\w.]*) | (?P<other>[^\s]) )""",
    re.VERBOSE,
)


def user_types(text: str, *, keyspace: str) -> frozenset[tuple[str, str]]:
    """Find every user-defined type that `text` names, as (keyspace, name); an unqualified one is in `keyspace`."""
    return frozenset(_marshalled(text) if "org.apache.cassandra" in text else _named(text, keyspace))


@lru_cache(maxsize=1 << 12)
def canonical(text: str) -> str:
    """Spell a type in one way: no spaces, lower case outside quotes, `varchar` as `text`, without `frozen<>`.

    The server adds and drops `frozen` by itself inside keys and collections, so types that differ only in it are equal.
    """
    parts: list[str] = []
    for match in _TOKEN.finditer(text):
        token = match[0].strip()
        parts.append(token if match["quoted"] or match["custom"] else token.lower())
    spelled = "".join("text" if part == "varchar" else part for part in parts)
    while (found := re.search(r"(?<!\w)frozen<", spelled)) is not None:
        closing = _closing(spelled, found.end())
        spelled = spelled[: found.start()] + spelled[found.end() : closing] + spelled[closing + 1 :]
    return spelled


def can_hold(cql_type: str, value: JSON) -> bool:
    """Tell if a JSON value can be one of a type in `NATIVE`: a coordinator refuses the literal of any other value."""
    held = next((kinds for kinds, types in _HELD.items() if cql_type in types), (str, int, float, bool))
    return value is None or (isinstance(value, held) and (bool in held or not isinstance(value, bool)))


def _closing(text: str, start: int) -> int:
    depth = 1
    for position in range(start, len(text)):
        depth += {"<": 1, ">": -1}.get(text[position], 0)
        if depth == 0:
            return position
    return len(text)


def _named(text: str, keyspace: str) -> Iterator[tuple[str, str]]:
    tokens: list[str] = []
    for match in _TOKEN.finditer(text):
        if match["quoted"]:
            tokens.append(match["quoted"])
        elif match["name"]:
            tokens.append(match["name"])
        elif match["other"] == "." and tokens:
            tokens.append(".")
        else:
            yield from _resolve(tokens, keyspace)
            tokens = []
    yield from _resolve(tokens, keyspace)


def _resolve(tokens: list[str], keyspace: str) -> Iterator[tuple[str, str]]:
    """Find the user-defined type that the tokens between two brackets or commas name, if they name one."""
    parts = [
        part
        for name in tokens
        if name != "."
        for part in ([name[1:-1].replace('""', '"')] if name.startswith('"') else name.strip(".").split("."))
    ]
    if len(tokens) == 1 and (tokens[0].lower() in NATIVE | CONTAINERS or _is_class(tokens[0])):
        return
    if len(parts) == 1:
        yield keyspace, parts[0]
    elif len(parts) == 2:
        yield parts[0], parts[1]


def _is_class(name: str) -> bool:
    """Tell a server class such as `UTF8Type` from a CQL name: unquoted names are stored in lower case."""
    return not name.startswith('"') and name != name.lower()


def _marshalled(text: str) -> Iterator[tuple[str, str]]:
    for match in re.finditer(r"UserType\(\s*(\w+)\s*,\s*((?:[0-9a-fA-F]{2})+)", text):
        yield match[1], bytes.fromhex(match[2]).decode("utf-8", "replace")
