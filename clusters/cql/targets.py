"""CQL targets: the keyspaces that a statement would touch, and whether it only reads, from its text alone.

Understands the statements that make, change, fill and read keyspaces and the objects in them. Other statements (roles,
permissions, USE, a name without its keyspace) raise an error, because the caller is about to send the statement to a
cluster with other users' data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

__all__ = ["NotUnderstood", "Targets", "targets"]

_TOKEN: Final = re.compile(
    r"""
      (?P<blank> \s+ | --[^\n]* | //[^\n]* | /\*.*?\*/ )
    | (?P<text> '(?:[^']|'')*' | \$\$.*?\$\$ )
    | (?P<quoted> "(?:[^"]|"")*" )
    | (?P<word> [A-Za-z]\w* )
    | (?P<other> \d[\w.]* | . )
    """,
    re.DOTALL | re.VERBOSE,
)
_QUALIFIED: Final = frozenset({"TABLE", "COLUMNFAMILY", "TYPE", "FUNCTION", "AGGREGATE", "VIEW"})
_KEYSPACE: Final = frozenset({"KEYSPACE", "SCHEMA"})
_MODIFIERS: Final = frozenset({"OR", "REPLACE", "CUSTOM", "MATERIALIZED"})
_NAMED_AT_THE_HEAD: Final = frozenset({"CREATE", "ALTER", "DROP", "INSERT", "UPDATE", "TRUNCATE"})
_HEAD: Final = 12
"""The maximum number of tokens in a head: that of `CREATE CUSTOM INDEX IF NOT EXISTS i ON a.t`."""
_BEFORE_A_TABLE: Final = frozenset({"INTO", "FROM", "UPDATE"})


class NotUnderstood(ValueError):
    """A statement whose keyspaces are not known; the text says why."""


@dataclass(frozen=True, slots=True)
class Targets:
    """The keyspaces that one statement names, and whether it changes nothing in them."""

    keyspaces: frozenset[str]
    reads_only: bool


class _Token(NamedTuple):
    """A token. `name` is the identifier as the server knows it: lower case unless quoted; None for other tokens."""

    keyword: str
    name: str | None


def targets(statement: str) -> Targets:
    """Parse the keyspaces and the effect of a statement. Raises NotUnderstood."""
    whole = ";" in statement or "VIEW" in statement.upper()  # a view names its base table behind all its columns
    tokens = list(_tokens(statement) if whole else _read_head(_tokens(statement)))
    while tokens and tokens[-1].keyword == ";":
        tokens.pop()
    if not tokens:
        raise NotUnderstood("the statement is empty")
    verb = tokens[0].keyword
    if verb != "BEGIN" and any(token.keyword == ";" for token in tokens):
        raise NotUnderstood("there are several statements")
    found = frozenset(_keyspaces(verb, tokens))
    if not found:
        raise NotUnderstood(f"{verb} names no table")
    return Targets(found, reads_only=verb == "SELECT")


def _keyspaces(verb: str, tokens: Sequence[_Token]) -> Iterator[str]:
    match verb:
        case "CREATE" | "ALTER" | "DROP":
            yield from _keyspaces_of_change(verb, tokens)
        case "SELECT" | "INSERT" | "UPDATE" | "DELETE" | "BEGIN":
            for at, token in enumerate(tokens):
                if token.keyword in _BEFORE_A_TABLE:
                    yield _qualified(tokens, at + 1)
        case "TRUNCATE":
            yield _qualified(tokens, 2 if _keyword(tokens, 1) in {"TABLE", "COLUMNFAMILY"} else 1)
        case _:
            raise NotUnderstood(f"{verb} is no statement about rows or keyspaces")


def _keyspaces_of_change(verb: str, tokens: Sequence[_Token]) -> Iterator[str]:
    at = 1
    while _keyword(tokens, at) in _MODIFIERS:
        at += 1
    kind = _keyword(tokens, at)
    at += 1
    while _keyword(tokens, at) in {"IF", "NOT", "EXISTS"}:
        at += 1
    if kind in _KEYSPACE:
        yield _name(tokens, at)
    elif kind in _QUALIFIED:
        yield _qualified(tokens, at)
        if kind == "VIEW" and verb == "CREATE":
            yield _qualified(tokens, _after(tokens, "FROM"))
    elif kind == "INDEX":
        yield _qualified(tokens, at if verb == "DROP" else _after(tokens, "ON"))
    else:
        raise NotUnderstood(f"{verb} {kind} is no statement about rows or keyspaces".replace("  ", " "))


def _tokens(statement: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(statement):
        text = found.group()
        match found.lastgroup:
            case "word":
                yield _Token(text.upper(), text.lower())
            case "quoted":
                yield _Token("", text[1:-1].replace('""', '"'))
            case "text":
                yield _Token("", None)
            case "other":
                yield _Token(text, None)


def _read_head(tokens: Iterator[_Token]) -> Iterator[_Token]:
    """Yield the head of a single statement, which names its targets: races start in one instant, so parsing must be short."""
    first = next(tokens, None)
    if first is not None:
        yield first
        yield from tokens if first.keyword not in _NAMED_AT_THE_HEAD else islice(tokens, _HEAD)


def _keyword(tokens: Sequence[_Token], at: int) -> str:
    return tokens[at].keyword if at < len(tokens) else ""


def _after(tokens: Sequence[_Token], keyword: str) -> int:
    for at, token in enumerate(tokens):
        if token.keyword == keyword:
            return at + 1
    raise NotUnderstood(f"there is no {keyword}")


def _name(tokens: Sequence[_Token], at: int) -> str:
    name = tokens[at].name if at < len(tokens) else None
    if name is None:
        raise NotUnderstood("a name is missing")
    return name


def _qualified(tokens: Sequence[_Token], at: int) -> str:
    """Return the keyspace of `keyspace.name`."""
    keyspace = _name(tokens, at)
    if _keyword(tokens, at + 1) != ".":
        raise NotUnderstood(f'"{keyspace}" is named without its keyspace')
    _name(tokens, at + 2)
    return keyspace
