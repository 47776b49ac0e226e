"""Statements: the objects that DESCRIBE spells as CREATE statements, as definitions that schema tables would hold.

A node that can describe its memory (4.0 and later, ScyllaDB, and 1.1) shows it as text. Parsed, that text is in the
vocabulary of observations (`schemaquake.harness.model.observation`), so that memory can be compared with a reading of
schema tables, and can be judged in its place. What a statement does not spell (ids, dropped columns) is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from schemaquake.harness.model.operation import JSON

__all__ = ["Statement", "parse_statement"]

_TOKEN: Final = re.compile(
    r"""\s*(?: (?P<body>\$\$.*?\$\$) | (?P<text>'(?:[^']|'')*') | (?P<quoted>"(?:[^"]|"")*")
             | (?P<word>[^\s(){}<>,;:='".\[\]]+(?:\.\d+)?) | (?P<mark>[(){}<>,;:=.\[\]]) )""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT: Final = re.compile(r"\A\s*/\*.*?\*/", re.DOTALL)
"""A warning before the statement of a table that it cannot spell in full."""
_OPENING: Final = frozenset("({<[")
_CLOSING: Final = frozenset(")}>]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One CREATE statement. `name` is bare, without quotes; "" for a keyspace.

    `definition` has the keys that the observation of such an object has, as far as the statement spells them; of an index
    `table` and `target`, and of a keyspace `options` that no schema table has. The columns of a view have no types: they are those of its base; its condition is an option, as on disk.
    What else a statement says, and no observation has, is there only if it is said: the `clauses` of a column (masks and
    constraints, as text), `custom`, `using` and `options` of an index, `clauses` of an aggregate (functions of other
    keyspaces among them), and `further` statements of a table (as text).
    """

    kind: str
    keyspace: str
    name: str
    definition: Mapping[str, Any] = field(default_factory=dict)


@lru_cache(maxsize=1 << 12)
def parse_statement(kind: str, text: str) -> Statement | None:
    """Parse the statement of an object of that kind (as observations name it); None if it is not understood.

    Every node shows most statements again in each reading: the result is shared, and must not be changed.
    """
    reader = _READERS.get(kind)
    tokens = _tokens(text)
    if reader is None or tokens is None:
        return None
    try:
        return reader(_Reader(tokens))
    except _NotUnderstoodError:
        return None


class _NotUnderstoodError(Exception):
    """The text is no statement of the expected kind."""


def _tokens(text: str) -> list[str] | None:
    found: list[str] = []
    position = 0
    text = _COMMENT.sub(" ", text).rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return None
        found.append(match[0].strip())
        position = match.end()
    return [lexeme for lexeme in found if lexeme != ";"]


class _Reader:
    """The tokens of a statement, read from left to right."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def next(self) -> str:
        """The next lexeme; "" at the end."""
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self) -> str:
        """Take the next lexeme."""
        if not self.next:
            raise _NotUnderstoodError
        self._at += 1
        return self._tokens[self._at - 1]

    def accept(self, *words: str) -> bool:
        """Take these words if they are next."""
        found = self._tokens[self._at : self._at + len(words)]
        if [lexeme.upper() for lexeme in found] != list(words):
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Take these words, which must be next."""
        if not self.accept(*words):
            raise _NotUnderstoodError

    def name(self) -> str:
        """Take an identifier."""
        lexeme = self.take()
        if lexeme.startswith('"'):
            return lexeme[1:-1].replace('""', '"')
        if lexeme[0] in "'$" or lexeme in _OPENING | _CLOSING:
            raise _NotUnderstoodError
        return lexeme.lower()

    def qualified(self) -> tuple[str, str]:
        """Take `keyspace.name`, or a bare name with the keyspace ""."""
        first = self.name()
        return (first, self.name()) if self.accept(".") else ("", first)

    def group(self) -> list[list[str]]:
        """Take `( … )` as its parts between commas of the outermost level."""
        self.expect("(")
        depth = 0
        compares = False  # after CHECK, < and > are no brackets
        parts: list[list[str]] = [[]]
        while not (depth == 0 and self.next == ")"):
            lexeme = self.take()
            compares |= depth == 0 and len(parts[-1]) > 1 and lexeme.upper() == "CHECK"
            if not (compares and lexeme in "<>"):
                depth += (lexeme in _OPENING) - (lexeme in _CLOSING)
            if lexeme == "," and depth == 0:
                compares = False
                parts.append([])
            else:
                parts[-1].append(lexeme)
        self.expect(")")
        return [part for part in parts if part]

    def end(self) -> None:
        """Expect that nothing is left."""
        if self.next:
            raise _NotUnderstoodError

    def rest(self) -> list[str]:
        """Take everything that is left."""
        left = list(self._tokens[self._at :])
        self._at = len(self._tokens)
        return left


# ── the kinds ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _keyspace(reader: _Reader) -> Statement:
    reader.expect("CREATE", "KEYSPACE")
    reader.accept("IF", "NOT", "EXISTS")
    name = reader.name()
    options = _options(reader)
    definition: dict[str, Any] = {}
    if isinstance(replication := options.get("replication"), dict):
        definition["replication"] = {key: str(value) for key, value in replication.items()}
    if "durable_writes" in options:
        definition["durable_writes"] = options["durable_writes"]
    if others := {name: value for name, value in options.items() if name not in {"replication", "durable_writes"}}:
        definition["options"] = others
    reader.end()
    return Statement(kind="keyspace", keyspace=name, name="", definition=definition)


def _table(reader: _Reader) -> Statement:
    reader.expect("CREATE", "TABLE")
    reader.accept("IF", "NOT", "EXISTS")
    keyspace, name = reader.qualified()
    columns: dict[str, dict[str, Any]] = {}
    for part in reader.group():
        if [lexeme.upper() for lexeme in part[:2]] == ["PRIMARY", "KEY"]:
            _mark_key(columns, _key(part[2:]))
        else:
            _declare(columns, part)
    options = _options(reader) | _comment(reader, keyspace, name)
    definition: dict[str, Any] = {"columns": columns, "options": options, "indexes": {}, "dropped_columns": {}}
    if reader.next:
        definition["further"] = " ".join(reader.rest())
    return Statement(kind="table", keyspace=keyspace, name=name, definition=definition)


def _comment(reader: _Reader, keyspace: str, name: str) -> dict[str, JSON]:
    """Take `COMMENT ON TABLE keyspace.name IS 'text'`, a second statement that 6.0 has in place of an option, if it is next."""
    if not reader.accept("COMMENT", "ON", "TABLE"):
        return {}
    if reader.qualified() != (keyspace, name):
        raise _NotUnderstoodError
    reader.expect("IS")
    return {"comment": _value(reader)} if reader.next.startswith("'") else {}


def _declare(columns: dict[str, dict[str, Any]], part: Sequence[str]) -> None:
    inner = _Reader(part)
    name = inner.name()
    words = inner.rest()
    kind, position, of_type = "regular", -1, len(words)
    for at, word in enumerate(words):
        if word.upper() == "PRIMARY":  # it comes after the mask
            kind, position = "partition_key", 0
        elif word.upper() == "STATIC" and of_type == len(words):
            kind = "static"
        elif word.upper() not in {"MASKED", "CHECK", "NOT"} or not at:
            continue
        of_type = min(of_type, at)
    columns[name] = {"type": _type_text(words[:of_type]), "kind": kind, "position": position}
    clauses = re.sub(r"^static\b|\bPRIMARY KEY$", "", " ".join(words[of_type:]), flags=re.IGNORECASE).strip()
    if clauses:
        columns[name]["clauses"] = clauses


def _key(tokens: Sequence[str]) -> list[list[str]]:
    """Read `((a, b), c)` or `(a, c)` as the partition key's columns and the clustering columns."""
    parts = _Reader(tokens).group()
    if not parts:
        raise _NotUnderstoodError
    first = _Reader(parts[0])
    partition = [_Reader(p).name() for p in first.group()] if first.next == "(" else [first.name()]
    return [partition, [_Reader(part).name() for part in parts[1:]]]


def _mark_key(columns: dict[str, dict[str, Any]], key: Sequence[Sequence[str]]) -> None:
    for kind, names in zip(("partition_key", "clustering"), key, strict=True):
        for position, name in enumerate(names):
            if name not in columns:
                raise _NotUnderstoodError
            columns[name] |= {"kind": kind, "position": position}


def _view(reader: _Reader) -> Statement:
    reader.expect("CREATE", "MATERIALIZED", "VIEW")
    reader.accept("IF", "NOT", "EXISTS")
    keyspace, name = reader.qualified()
    reader.expect("AS", "SELECT")
    selection: list[str] = []
    while not reader.accept("FROM"):
        selection.append(reader.take())
    base = reader.qualified()[1]
    where: list[str] = []
    while not reader.accept("PRIMARY", "KEY"):
        where.append(reader.take())
    columns: dict[str, dict[str, Any]] = {}
    first, second = _key(["(", *(lexeme for part in _between(reader.group()) for lexeme in part), ")"])
    for kind, names in (("partition_key", first), ("clustering", second)):
        columns |= {part: {"kind": kind, "position": position} for position, part in enumerate(names)}
    options = _options(reader)
    if where[:1] and where[0].upper() == "WHERE":
        options["where_clause"] = " ".join(where[1:])
    definition: dict[str, Any] = {"base_table_name": base, "columns": columns, "options": options}
    if selection != ["*"]:
        definition["selected"] = [_Reader([lexeme]).name() for lexeme in selection if lexeme != ","]
    reader.end()
    return Statement(kind="view", keyspace=keyspace, name=name, definition=definition)


def _between(parts: Sequence[list[str]]) -> Iterator[list[str]]:
    """Put the commas back between the parts of a group."""
    for number, part in enumerate(parts):
        yield [",", *part] if number else part


def _type(reader: _Reader) -> Statement:
    reader.expect("CREATE", "TYPE")
    reader.accept("IF", "NOT", "EXISTS")
    keyspace, name = reader.qualified()
    fields = []
    for part in reader.group():
        inner = _Reader(part)
        fields.append([inner.name(), _type_text(inner.rest())])
    reader.end()
    return Statement(kind="type", keyspace=keyspace, name=name, definition={"fields": fields})


def _function(reader: _Reader) -> Statement:
    reader.expect("CREATE")
    reader.accept("OR", "REPLACE")
    reader.expect("FUNCTION")
    keyspace, name = reader.qualified()
    arguments = []
    for part in reader.group():
        inner = _Reader(part)
        arguments.append([inner.name(), _type_text(inner.rest())])
    while not reader.accept("RETURNS"):
        reader.take()
    if reader.accept("NULL", "ON", "NULL", "INPUT"):
        reader.expect("RETURNS")
    returns = []
    while reader.next.upper() not in {"LANGUAGE", "DETERMINISTIC", "MONOTONIC", ""}:
        returns.append(reader.take())
    while not reader.accept("AS"):
        reader.take()
    body = reader.take()
    reader.end()
    text = body[2:-2] if body.startswith("$$") else body[1:-1].replace("''", "'")
    definition = {"arguments": arguments, "returns": _type_text(returns), "body": text}
    return Statement(kind="function", keyspace=keyspace, name=name, definition=definition)


def _aggregate(reader: _Reader) -> Statement:
    reader.expect("CREATE")
    reader.accept("OR", "REPLACE")
    reader.expect("AGGREGATE")
    keyspace, name = reader.qualified()
    arguments = [_type_text(part) for part in reader.group()]
    reader.expect("SFUNC")
    called = [reader.qualified()]
    reader.expect("STYPE")
    state_type = []
    while reader.next.upper() not in {"FINALFUNC", "INITCOND", "REDUCEFUNC", "DETERMINISTIC", ""}:
        state_type.append(reader.take())
    called += [reader.qualified()] if reader.accept("FINALFUNC") else []
    definition: dict[str, Any] = {
        "arguments": arguments,
        "state_function": called[0][1],
        "state_type": _type_text(state_type),
        "final_function": called[1][1] if len(called) > 1 else None,
    }
    abroad = [".".join(function) for function in called if function[0] not in {"", keyspace}]
    if clauses := [*abroad, *reader.rest()]:
        definition["clauses"] = " ".join(clauses)
    return Statement(kind="aggregate", keyspace=keyspace, name=name, definition=definition)


def _index(reader: _Reader) -> Statement:
    reader.expect("CREATE")
    is_custom = reader.accept("CUSTOM")
    reader.expect("INDEX")
    reader.accept("IF", "NOT", "EXISTS")
    name = reader.name()
    reader.expect("ON")
    keyspace, table = reader.qualified()
    columns = reader.group()
    target = "".join(columns[0]) if len(columns) == 1 else None
    definition: dict[str, Any] = {"table": table, "target": target}
    if is_custom:
        definition["custom"] = True
    if reader.accept("USING"):
        definition["using"] = _value(reader)
    if reader.accept("WITH", "OPTIONS", "="):
        definition["options"] = _value(reader)
    reader.end()
    return Statement(kind="index", keyspace=keyspace, name=name, definition=definition)


_READERS: Final = {
    "keyspace": _keyspace,
    "table": _table,
    "view": _view,
    "type": _type,
    "function": _function,
    "aggregate": _aggregate,
    "index": _index,
}


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _type_text(tokens: Sequence[str]) -> str:
    if not tokens:
        raise _NotUnderstoodError
    return "".join(tokens).replace(",", ", ")


def _options(reader: _Reader) -> dict[str, JSON]:
    """Take `WITH name = value AND …`; the order of clustering columns stands under `clustering_order`."""
    options: dict[str, JSON] = {}
    if not reader.accept("WITH"):
        return options
    while True:
        if reader.accept("CLUSTERING", "ORDER", "BY"):
            order = [_Reader(part) for part in reader.group()]
            options["clustering_order"] = {inner.name(): inner.take().lower() for inner in order}
        elif reader.accept("COMPACT", "STORAGE"):
            options["compact_storage"] = True
        else:
            name = reader.name()
            reader.expect("=")
            options[name] = _value(reader)
        if not reader.accept("AND"):
            return options


def _value(reader: _Reader) -> JSON:
    lexeme = reader.take()
    if lexeme in "{[":
        return _collection(reader, "}" if lexeme == "{" else "]")
    if lexeme[0] in "'\"":  # readings of 1.1 have texts as JSON has them
        return lexeme[1:-1].replace(lexeme[0] * 2, lexeme[0])
    if lexeme.lower() in {"true", "false"}:
        return lexeme.lower() == "true"
    if re.fullmatch(r"[+-]?\d+", lexeme):
        return int(lexeme)
    if re.fullmatch(r"[+-]?\d+\.\d+(?:[eE][+-]?\d+)?", lexeme):
        return float(lexeme)
    return lexeme


def _collection(reader: _Reader, closing: str) -> JSON:
    """Take the rest of a map, or of a set or a list."""
    entries: dict[str, JSON] = {}
    members: list[JSON] = []
    while not reader.accept(closing):
        value = _value(reader)
        if reader.accept(":"):
            entries[str(value)] = _value(reader)
        else:
            members.append(value)
        reader.accept(",")
    return entries if entries or not members else members
