"""CQL types: the user-defined types that a type's text names.

Reads the text that schema tables hold: `int`, `frozen<list<u>>`, `map<text, frozen<"My U">>`, `vector<float, 3>`,
`ks.u`, and the class names of Cassandra 2.2 and before, `org.apache.cassandra.db.marshal.UserType(ks,75,…)`, in which
names are hexadecimal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["canonical", "user_types"]

# fmt: off
NATIVE: Final = frozenset({
    "ascii", "bigint", "blob", "boolean", "counter", "date", "decimal", "double", "duration", "empty", "float", "inet",
    "int", "smallint", "text", "time", "timestamp", "timeuuid", "tinyint", "uuid", "varchar", "varint",
})
# fmt: on
CONTAINERS: Final = frozenset({"list", "set", "map", "frozen", "tuple", "vector"})

_TOKEN: Final = re.compile(
    r"""\s*(?: (?P<quoted>"(?:[^"]|"")*") | (?P<custom>'(?:[^']|'')*') | (?P<name>[A-Za-z_][\w.]*) | (?P<other>[^\s]) )""",
    re.VERBOSE,
)


def user_types(text: str, *, keyspace: str) -> frozenset[tuple[str, str]]:
    """(keyspace, name) of every user-defined type named anywhere in `text`; an unqualified one is in `keyspace`."""
    return frozenset(_marshalled(text) if "org.apache.cassandra" in text else _named(text, keyspace))


def canonical(text: str) -> str:
    """The text in one spelling: no spaces, lower case outside quotes, `varchar` as `text`, without `frozen<>`.

    The server adds and drops `frozen` by itself (inside keys and collections), so it tells nothing apart here.
    """
    parts: list[str] = []
    for match in _TOKEN.finditer(text):
        word = match[0].strip()
        parts.append(word if match["quoted"] or match["custom"] else word.lower())
    spelled = "".join("text" if part == "varchar" else part for part in parts)
    while (found := re.search(r"(?<!\w)frozen<", spelled)) is not None:
        closing = _closing(spelled, found.end())
        spelled = spelled[: found.start()] + spelled[found.end() : closing] + spelled[closing + 1 :]
    return spelled


def _closing(text: str, start: int) -> int:
    depth = 1
    for position in range(start, len(text)):
        depth += {"<": 1, ">": -1}.get(text[position], 0)
        if depth == 0:
            return position
    return len(text)


def _named(text: str, keyspace: str) -> Iterator[tuple[str, str]]:
    words: list[str] = []
    for match in _TOKEN.finditer(text):
        if match["quoted"]:
            words.append(match["quoted"])
        elif match["name"]:
            words.append(match["name"])
        elif match["other"] == "." and words:
            words.append(".")
        else:
            yield from _resolved(words, keyspace)
            words = []
    yield from _resolved(words, keyspace)


def _resolved(words: list[str], keyspace: str) -> Iterator[tuple[str, str]]:
    """The user-defined type that the words between two brackets or commas name, if they name one."""
    parts = [
        part
        for word in words
        if word != "."
        for part in ([word[1:-1].replace('""', '"')] if word.startswith('"') else word.strip(".").split("."))
    ]
    if len(words) == 1 and (words[0].lower() in NATIVE | CONTAINERS or _is_class(words[0])):
        return
    if len(parts) == 1:
        yield keyspace, parts[0]
    elif len(parts) == 2:
        yield parts[0], parts[1]


def _is_class(word: str) -> bool:
    """Whether the word is a server class such as `UTF8Type`: an unquoted CQL name is stored in lower case."""
    return not word.startswith('"') and word != word.lower()


def _marshalled(text: str) -> Iterator[tuple[str, str]]:
    for match in re.finditer(r"UserType\(\s*(\w+)\s*,\s*((?:[0-9a-fA-F]{2})+)", text):
        yield match[1], bytes.fromhex(match[2]).decode("utf-8", "replace")
