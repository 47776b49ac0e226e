"""Light values: the arguments of a command line without the validator that Typer loads for each of them.

Typer hands every value, absent ones too, to pydantic, whose import takes as long as a small check. Here texts, plain numbers,
paths without conditions, and lists of these are converted directly, and everything else, whatever is wrong included, is left to
Typer, so that its errors stay its own. A release of Typer that is built otherwise does all of it itself.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import typer

__all__ = ["convert_lightly"]

_INTEGER: Final = re.compile(r"-?\d{1,18}\Z", re.ASCII)
_DECIMAL: Final = re.compile(r"-?\d{1,18}(\.\d{1,18})?\Z", re.ASCII)
_CONDITIONS: Final = ("min", "max", "parser", "exists", "writable", "resolve_path", "allow_dash", "path_type")
"""Attributes of a parameter under which a value is more than its text."""
_FOREIGN: Final = object()


def convert_lightly(command: Any) -> Any:
    """Return the command, of which each parameter, and each of its commands' parameters, is converted here where that is simple."""
    for parameter in command.get_params(typer.Context(command)):  # with --help, which is made when it is asked for
        descriptor: Any = getattr(parameter, "type_descriptor", None)
        info = getattr(descriptor, "parameter_info", None)
        if getattr(parameter, "_runtime_param", _FOREIGN) is None and info is not None:
            conditional = any(getattr(info, name, None) for name in _CONDITIONS)
            parameter._runtime_param = _Light(descriptor.annotation, conditional=conditional)  # noqa: SLF001 - there is no other way
    for inner in getattr(command, "commands", {}).values():
        convert_lightly(inner)
    return command


@dataclass(frozen=True, slots=True)
class _Light:
    """Conversion of one parameter's values, in the place of Typer's."""

    annotation: Any
    conditional: bool

    def coerce(self, value: Any, param: Any, ctx: typer.Context) -> Any:
        """Convert a value, or hand it to Typer's own conversion. Raises its BadParameter."""
        many = param.multiple or param.nargs == -1
        if value is None:
            return () if many else None
        found = (
            _FOREIGN
            if self.conditional
            else _of_list(self.annotation, value)
            if many
            else _of_one(self.annotation, value)
        )
        if found is _FOREIGN:
            param._runtime_param = None  # noqa: SLF001 - Typer makes its own when it is asked
            return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
        return found


def _of_list(annotation: Any, value: Any) -> Any:
    if get_origin(annotation) is not list or not isinstance(value, (list, tuple)):
        return _FOREIGN
    found = [_of_one(get_args(annotation)[0], element) for element in value]
    return _FOREIGN if any(element is _FOREIGN for element in found) else found


def _of_one(annotation: Any, value: Any) -> Any:
    """Convert one value, or a default that has its type already; `_FOREIGN` if it is not simple."""
    if type(value) is annotation:
        return value
    if annotation is float and type(value) is int:
        return float(value)
    if not isinstance(value, str):
        return _FOREIGN if annotation is not Path or not isinstance(value, Path) else value
    if annotation is Path:  # one that is there must be readable
        return Path(value) if os.access(value, os.R_OK) or not os.path.lexists(value) else _FOREIGN
    if annotation is int and _INTEGER.match(value):
        return int(value)
    if annotation is float and _DECIMAL.match(value):
        return float(value)
    return _FOREIGN
