"""Thrift dialects: the four interfaces of Cassandra 0.7 to 1.1, and the table definitions that each can express.

One IDL an era of releases, read at run time (`clusters/idl/`). A server names its interface itself (`describe_version`),
so a client needs no configuration for it. Field numbers were checked against the classes of the servers.

Limits of those definitions: 0.7 has no place for the name and the type of a row's key, so a table's key is declared
among its columns there, which no write ever uses; from 0.8 on it is the alias of the key and its validator.
Up to 0.8 there is no Int32Type: an `int` is an IntegerType, which takes integers of any length, written here in the same
four bytes as later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from types import ModuleType
from typing import Any, Final

import thriftpy2
from thriftpy2.thrift import TException

from schemaquake.harness.errors import ClusterError

__all__ = ["DIALECTS", "Dialect", "dialect_of"]

_MARSHAL: Final = "org.apache.cassandra.db.marshal."
_NOT_OPTIONS: Final = frozenset({"keyspace", "name", "id", "column_metadata", "key_alias", "key_validation_class"})
_DEPRECATED: Final = frozenset({"row_cache_size", "key_cache_size", "merge_shards_chance", "row_cache_keys_to_save"})

_SINCE_0_7: Final = {
    "ascii": "AsciiType",
    "bigint": "LongType",
    "blob": "BytesType",
    "text": "UTF8Type",
    "timeuuid": "TimeUUIDType",
    "varchar": "UTF8Type",
}
_SINCE_0_8: Final = {
    **_SINCE_0_7,
    "boolean": "BooleanType",
    "double": "DoubleType",
    "float": "FloatType",
    "timestamp": "DateType",
    "uuid": "UUIDType",
}
_SINCE_1_0: Final = {**_SINCE_0_8, "int": "Int32Type", "varint": "IntegerType"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The interface of one line of releases. `last` is the version of its last release, (major, minor)."""

    name: str
    last: tuple[int, int]
    types: Mapping[str, str]
    """CQL type → class of values. A type that is not listed does not exist in this interface."""
    aliases_keys: bool
    """True if a definition can name the key and its type."""
    factor_is_an_option: bool
    """True if the replication factor is one of the strategy's options, False if it is a field of its own."""

    @property
    def idl(self) -> ModuleType:
        """The structs, the exceptions and the service `Cassandra` of the IDL."""
        return _load(self.name)

    @property
    def options(self) -> Mapping[str, int]:
        """The fields of a table's definition other than names and columns → their Thrift types."""
        fields = self.idl.CfDef.thrift_spec.values()
        return {field[1]: field[0] for field in fields if field[1] not in _NOT_OPTIONS | _DEPRECATED}

    @property
    def declared(self) -> tuple[type[Exception], ...]:
        """The exceptions that a server sends on purpose; the connection is still good after one of them."""
        return tuple(e for e in vars(self.idl).values() if isinstance(e, type) and issubclass(e, TException))

    def class_of(self, cql_type: str) -> str | None:
        """Return the class of a CQL type's values, without its package; None if this interface has no such type."""
        return self.types.get(cql_type.strip().lower())

    def cql_type_of(self, class_name: str) -> str:
        """Return the CQL type of a class of values, with or without its package; the class itself if it has none."""
        bare = class_name.removeprefix(_MARSHAL)
        known = {name: cql_type for cql_type, name in self.types.items() if cql_type != "varchar"}
        return known.get(bare, bare)

    def struct(self, kind: str, /, **fields: Any) -> Any:
        """Make one of the interface's structs."""
        return getattr(self.idl, kind)(**fields)


DIALECTS: Final = (
    Dialect(
        name="0.7",
        last=(19, 4),
        types={**_SINCE_0_7, "int": "IntegerType", "uuid": "LexicalUUIDType"},
        aliases_keys=False,
        factor_is_an_option=False,
    ),
    Dialect(
        name="0.8",
        last=(19, 16),
        types={**_SINCE_0_8, "int": "IntegerType"},
        aliases_keys=True,
        factor_is_an_option=True,
    ),
    Dialect(name="1.0", last=(19, 20), types=_SINCE_1_0, aliases_keys=True, factor_is_an_option=True),
    Dialect(name="1.1", last=(19, 33), types=_SINCE_1_0, aliases_keys=True, factor_is_an_option=True),
)
"""The dialects from the oldest on; a server of a line's early releases has an earlier version of that line's interface."""


def dialect_of(version: str) -> Dialect:
    """Return the dialect of a server with this interface version ("19.16.0"). Raises ClusterError if it is none of these."""
    try:
        major, minor, *_ = map(int, version.split("."))
    except ValueError as error:
        raise ClusterError(f'"{version}" is no version of a Thrift interface') from error
    for dialect in DIALECTS:
        if major == dialect.last[0] and minor <= dialect.last[1]:
            return dialect
    raise ClusterError(f"a server of the Thrift interface {version} is not of Cassandra 0.7 to 1.1")


@cache
def _load(name: str) -> ModuleType:
    with as_file(files(__package__) / "idl" / f"cassandra-{name}.thrift") as path:
        module: ModuleType = thriftpy2.load(str(path), module_name=f"cassandra_{name.replace('.', '_')}_thrift")
    return module
