"""Server options: what `-O` sets on servers that the harness configures itself.

`-O yaml.NAME=VALUE` is an entry of every node's cassandra.yaml, `-O property.NAME=VALUE` a system property of its Java.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["OPTIONS", "PREFIXES", "system_properties", "yaml_settings"]

_YAML: Final = "yaml."
_PROPERTY: Final = "property."
PREFIXES: Final = (_YAML, _PROPERTY)
"""The beginnings of the names of such options."""

OPTIONS: Final[Mapping[str, str]] = {
    _YAML: "an entry of every node's cassandra.yaml, as JSON or text",
    _PROPERTY: "a system property of every node's Java",
}
"""The options as a provider declares them (`TakesOptions`)."""


def yaml_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Find the entries for cassandra.yaml; a value that is JSON keeps its type, any other is text."""
    return {name.removeprefix(_YAML): _parse(text) for name, text in options.items() if name.startswith(_YAML)}


def system_properties(options: Mapping[str, str]) -> dict[str, str]:
    """Find the system properties, each value as it was written."""
    return {name.removeprefix(_PROPERTY): text for name, text in options.items() if name.startswith(_PROPERTY)}


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
