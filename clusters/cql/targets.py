r"""CQL targets: the keyspaces that a statement would touch, and whether it only reads, from its text alone.

The text is cut into tokens as the server's own lexer does (`Lexer.g` of Cassandra 1.2 to 6.0: a `--` or `//` comment ends
at `\\r` as well as at `\\n`, a number ends where no digit follows), and parsed as the server's grammar does, for the
statements that make, change, fill and read keyspaces and the objects in them. Anything else is refused, because the
caller is about to send the statement to a cluster with other users' data: other statements (roles, permissions, USE), a
name without its keyspace, text that versions of the server read differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

__all__ = ["NotUnderstood", "Targets", "targets"]

# Numbers are cut where the server cuts them: in `VALUES (1)UPDATE …` nothing depends on it, but `SET v = 1UPDATE b.t` is
# a number and a keyword to the server. Forms that could be cut in two ways match none of these, and are refused.
_TOKEN: Final = re.compile(
    r"""
      (?P<blank> [ \t\n\r]+ | (?:--|//)[^\n\r]*[\n\r] | /\*.*?\*/ )
    | (?P<word> [A-Za-z][A-Za-z0-9_]* )
    | (?P<text> '(?:[^']|'')*' | \$\$.*?\$\$ )
    | (?P<quoted> "(?:[^"]|"")+" )
    | (?P<number> (?: [0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}
                    | 0[xX][0-9a-fA-F]*
                    | (?:[0-9]+(?:y|mo|w|d|h|m|s|ms|us|ns))+
                    | [0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)? ) (?![A-Za-z0-9_.]) )
    | (?P<mark> (?!--|//|/\*) [;.,()\[\]{}<>=!+\-*/%:?] )
    | (?P<unknown> . )
    """,
    re.DOTALL | re.VERBOSE,
)
_NAME: Final = re.compile(r"[A-Za-z0-9_]{1,222}")
_QUALIFIED: Final = frozenset({"TABLE", "COLUMNFAMILY", "TYPE", "FUNCTION", "AGGREGATE"})
_KEYSPACE: Final = frozenset({"KEYSPACE", "SCHEMA"})
_BEFORE_A_TABLE: Final = frozenset({"INTO", "FROM", "UPDATE"})
_BATCHES: Final = frozenset({"BATCH", "TRANSACTION"})
_RESERVED: Final = frozenset(
    {"ADD", "ALTER", "AND", "APPLY", "BATCH", "BEGIN", "BY", "CREATE", "DELETE", "DROP", "FROM", "GRANT", "IF", "IN"}
    | {
        "INDEX",
        "INSERT",
        "INTO",
        "KEYSPACE",
        "NOT",
        "ON",
        "OR",
        "SCHEMA",
        "SELECT",
        "SET",
        "TABLE",
        "TRUNCATE",
        "UPDATE",
    }
    | {"USE", "USING", "VIEW", "WHERE", "WITH"}
)
"""Keywords that the server takes for no name: a name that reads like one is a statement that was misunderstood."""


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
    tokens = _tokens(statement)
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
    return Targets(found | frozenset(_owners_of_others(verb, tokens)), reads_only=verb == "SELECT")


def _tokens(statement: str) -> list[_Token]:
    """Cut the text into tokens. Raises NotUnderstood for text that has none: it could be read in two ways."""
    found = []
    for match in _TOKEN.finditer(statement):
        text = match.group()
        match match.lastgroup:
            case "word":
                found.append(_Token(text.upper(), text.lower()))
            case "mark":
                found.append(_Token(text, None))
            case "text" | "number":
                found.append(_Token("", None))
            case "quoted":
                found.append(_Token("", text[1:-1].replace('""', '"')))
            case "unknown":
                raise NotUnderstood(
                    f"{text!r} at character {match.start()} begins nothing that the server is sure to know"
                )
    return found


def _keyspaces(verb: str, tokens: Sequence[_Token]) -> Iterator[str]:
    match verb:
        case "CREATE" | "ALTER" | "DROP":
            yield from _Change(tokens).keyspaces()
        case "BEGIN" if _keyword(tokens, -1) not in _BATCHES:
            raise NotUnderstood("BEGIN begins no batch that ends")
        case "SELECT" | "INSERT" | "UPDATE" | "DELETE" | "BEGIN":
            for at, token in enumerate(tokens):
                if token.keyword in _BEFORE_A_TABLE:
                    yield _qualified(tokens, at + 1)
        case "TRUNCATE":
            yield _qualified(tokens, 2 if _keyword(tokens, 1) in {"TABLE", "COLUMNFAMILY"} else 1)
        case _:
            raise NotUnderstood(f"{verb} is no statement about rows or keyspaces")


class _Change:
    """A reader of one schema change, along the server's grammar."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self._verb = tokens[0].keyword
        self._at = 1

    def keyspaces(self) -> Iterator[str]:
        """Yield the keyspaces that the change names. Raises NotUnderstood."""
        if self._verb == "CREATE":
            self._skip("OR", "REPLACE")
            self._skip("CUSTOM")
        is_view = self._skip("MATERIALIZED")
        kind = _keyword(self._tokens, self._at)
        self._at += 1
        self._skip("IF", "NOT", "EXISTS") if self._verb == "CREATE" else self._skip("IF", "EXISTS")
        if is_view and kind == "VIEW":
            yield from self._view()
        elif is_view:
            raise NotUnderstood(f"MATERIALIZED {kind} is nothing that there is")
        elif kind in _KEYSPACE:
            yield _name(self._tokens, self._at)
        elif kind in _QUALIFIED:
            yield from self._object()
        elif kind == "INDEX":
            yield from self._index()
        else:
            raise NotUnderstood(f"{self._verb} {kind} is no statement about rows or keyspaces".replace("  ", " "))

    def _view(self) -> Iterator[str]:
        """Yield the keyspace of a view and, of a new one, that of its base table, which stands behind all its columns."""
        yield _qualified(self._tokens, self._at)
        if self._verb == "CREATE":
            yield _qualified(self._tokens, _after(self._tokens, "FROM"))

    def _object(self) -> Iterator[str]:
        yield _qualified(self._tokens, self._at)
        if _keyword(self._tokens, self._at + 3) == "LIKE":  # a copy of another table
            yield _qualified(self._tokens, self._at + 4)

    def _index(self) -> Iterator[str]:
        if self._verb == "CREATE":
            if _keyword(self._tokens, self._at) != "ON":
                _name(self._tokens, self._at)
                self._at += 1
            if _keyword(self._tokens, self._at) != "ON":
                raise NotUnderstood("there is no ON")
            self._at += 1
        yield _qualified(self._tokens, self._at)

    def _skip(self, *keywords: str) -> bool:
        """Advance over these keywords if all of them are next, and return True if they were."""
        there = tuple(_keyword(self._tokens, self._at + n) for n in range(len(keywords))) == keywords
        self._at += len(keywords) if there else 0
        return there


def _owners_of_others(verb: str, tokens: Sequence[_Token]) -> Iterator[str]:
    """Yield the keyspaces of other qualified names: types and functions in a schema change, functions that rows call.

    In statements about rows, `a.b` without a bracket behind it is a field of a column.
    """
    is_change = verb in {"CREATE", "ALTER", "DROP"}
    for at, token in enumerate(tokens):
        if (
            token.keyword == "."
            and at
            and tokens[at - 1].name is not None
            and (is_change or _keyword(tokens, at + 2) == "(")
        ):
            yield _name(tokens, at - 1)


def _keyword(tokens: Sequence[_Token], at: int) -> str:
    return tokens[at].keyword if at < len(tokens) else ""


def _after(tokens: Sequence[_Token], keyword: str) -> int:
    for at, token in enumerate(tokens):
        if token.keyword == keyword:
            return at + 1
    raise NotUnderstood(f"there is no {keyword}")


def _name(tokens: Sequence[_Token], at: int) -> str:
    token = tokens[at] if at < len(tokens) else _Token("", None)
    if token.name is None:
        raise NotUnderstood("a name is missing")
    if token.keyword in _RESERVED:
        raise NotUnderstood(f"{token.keyword} stands where a name is expected")
    if not _NAME.fullmatch(token.name):
        raise NotUnderstood(
            f"{token.name!r} is no name: it has other characters than letters, digits and _, or too many"
        )
    return token.name


def _qualified(tokens: Sequence[_Token], at: int) -> str:
    """Return the keyspace of `keyspace.name`."""
    keyspace = _name(tokens, at)
    if _keyword(tokens, at + 1) != ".":
        raise NotUnderstood(f'"{keyspace}" is named without its keyspace')
    _name(tokens, at + 2)
    return keyspace
