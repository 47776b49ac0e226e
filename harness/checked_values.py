"""Checked values: whether the fields of a dataclass hold what their types say, for values that were read from anybody's file."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

__all__ = ["require_types"]

_Check: TypeAlias = Callable[[Any], bool]
_PLAIN: Final[Mapping[Any, _Check]] = {
    bool: lambda value: value is True or value is False,
    int: lambda value: isinstance(value, int) and not isinstance(value, bool),
    float: lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    str: lambda value: isinstance(value, str),
    Any: lambda _: True,
    type(None): lambda value: value is None,
}


def require_types(value: object) -> None:
    """Check every field of a dataclass' instance, at any depth. Raises TypeError, which names the class and the field."""
    _check_fields(value)


def _check_fields(value: object) -> bool:
    kind: Any = type(value)
    for name, check in _checks(kind):
        content = getattr(value, name)
        if not check(content):
            raise TypeError(f"{kind.__name__}.{name} cannot be {content!r:.80}")
    return True


@cache
def _checks(kind: type) -> tuple[tuple[str, _Check], ...]:
    hints = get_type_hints(kind)
    return tuple((field.name, _check_of(hints[field.name])) for field in fields(kind))


def _check_of(hint: Any) -> _Check:
    """Return the check of a type: a plain one, a literal, a union, a tuple of one type, a mapping from text, or a dataclass."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if origin is Literal:
        return lambda value: any(value is part or (isinstance(value, str) and value == part) for part in parts)
    if origin in {Union, types.UnionType}:
        checks = [_check_of(part) for part in parts]
        return lambda value: any(check(value) for check in checks)
    if origin is tuple and len(parts) == 2 and parts[1] is Ellipsis:
        each = _check_of(parts[0])
        return lambda value: isinstance(value, tuple) and all(map(each, value))
    if origin is not None and issubclass(origin, Mapping) and parts[0] is str:
        each = _check_of(parts[1])
        return lambda value: (
            isinstance(value, Mapping) and all(isinstance(key, str) for key in value) and all(map(each, value.values()))
        )
    if is_dataclass(hint) and isinstance(hint, type):
        return lambda value: isinstance(value, hint) and _check_fields(value)
    raise NotImplementedError(f"values of type {hint} are not checked")
