"""Installed options: the names that `-O` may have, by the plugin that reads them.

A workload's options are those of its attribute `options`, and a nemesis' the fields of its dataclass, written
`NEMESIS.FIELD`, with those of its attribute `options`, written without its name (`schemaquake.harness.model.options`). A kind
of cluster has such an attribute, too, or maps names, or prefixes that end in a dot, to what they are (`TakesOptions`).
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemaquake.harness.errors import EnvironmentLacks, PlanError
from schemaquake.harness.model.options import Configurable, declared, text_of
from schemaquake.harness.registry import load, names

__all__ = ["InstalledOption", "options_of", "refuse_undeclared"]

_OWNERS_SHOWN = 3
_KINDS = ("workloads", "nemeses", "clusters")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledOption:
    """One option of one plugin."""

    name: str
    """The name as `-O` takes it; a prefix if it ends in a dot, such as `yaml.`."""
    default: str | None
    """The default as `-O` takes it; None if the plugin derives it, or has none."""
    help: str


def options_of(kind: str, plugin: str) -> tuple[InstalledOption, ...]:
    """Return the options of a workload, a nemesis or a kind of cluster. Raises PlanError for an unknown name."""
    return tuple(_options(kind, plugin, load(kind, plugin)))


def refuse_undeclared(
    given: Mapping[str, str], *, workloads: Sequence[str], nemeses: Sequence[str], cluster: str
) -> None:
    """Refuse an option that no plugin of the run declares. Raises PlanError with the nearest known name."""
    if not given:
        return
    plugins = [("workloads", name) for name in workloads] + [("nemeses", name) for name in nemeses]
    known = [option.name for plugin in [*plugins, ("clusters", cluster)] for option in options_of(*plugin)]
    for name in given:
        if not any(_fits(name, option) for option in known):
            raise PlanError(f"-O {name}: {_reason(name, known)}")


def _options(kind: str, plugin: str, implementation: Any) -> Iterator[InstalledOption]:
    from schemaquake.harness.model.protocols import TakesOptions  # noqa: PLC0415 - help needs none of it

    if kind == "clusters" and isinstance(implementation, TakesOptions):
        for name, description in implementation.takes_options.items():
            yield InstalledOption(name=name, default=None, help=description)
    if kind == "nemeses" and dataclasses.is_dataclass(implementation):
        yield from _declared(implementation, prefix=f"{plugin}.")
    if isinstance(implementation, Configurable):
        yield from _declared(implementation.options)


def _declared(options: Any, *, prefix: str = "") -> Iterator[InstalledOption]:
    for each in declared(options):
        default = None if each.default in (None, (), "", dataclasses.MISSING) else text_of(each.default)
        name = f"{prefix}{each.field}" if prefix else each.name
        yield InstalledOption(name=name, default=default, help=each.description)


def _fits(name: str, option: str) -> bool:
    """Compare names as `configured` does: dashes and underscores are alike."""
    if option.endswith("."):
        return name.startswith(option) and name != option
    return name.replace("-", "_") == option.replace("-", "_")


def _reason(name: str, known: Sequence[str]) -> str:
    owners = [plugin for plugin, options in _everything() if any(_fits(name, option) for option in options)]
    if owners:
        some = ", ".join(owners[:_OWNERS_SHOWN]) + (", …" if len(owners) > _OWNERS_SHOWN else "")
        return f"an option of {some}, which the run does not have"
    shown = sorted({f"{each}*" if each.endswith(".") else each for each in known})
    near = difflib.get_close_matches(name, known, n=1)
    hint = f' Did you mean "{near[0]}"?' if near else ""
    return f"no plugin of the run has such an option.{hint} They have: {', '.join(shown) or 'none'}."


def _everything() -> Iterable[tuple[str, Sequence[str]]]:
    for kind in _KINDS:
        for plugin in names(kind):
            try:
                options = options_of(kind, plugin)
            except (EnvironmentLacks, PlanError):
                continue  # a plugin whose extra is not installed, or that is broken, explains nothing
            yield plugin, [option.name for option in options]
