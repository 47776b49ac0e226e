"""Log rules: what an entry of a node's log proves, as data in `log_rules.toml` beside this file.

Most entries prove nothing by themselves. A damning one names damage that no fault explains on any version; the rest is
told apart into the machine's own failures, the noise that faults make, and traces that may pass by themselves.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, Literal, TypeAlias, get_args

__all__ = ["LogRule", "Meaning", "log_rules", "patterns_below_warning", "rule_of"]

Meaning: TypeAlias = Literal["damning", "environment", "noise", "noted"]

_LOUD: Final = frozenset({"WARN", "ERROR", "FATAL"})
_GRAVE: Final = frozenset({"ERROR", "FATAL"})
_EXCEPTION: Final = re.compile(r"\b[\w.$]*(Exception|Error|Throwable)\b")
_NATIVE_NAME: Final = re.compile(r"\b[a-z_]\w*::[a-z]\w*_\w+")
"""A name as exceptions of servers in C++ have it: nobody here has seen which of them are usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRule:
    """One rule; see the head of `log_rules.toml`."""

    name: str
    pattern: re.Pattern[str]
    means: Meaning
    explanation: str
    levels: frozenset[str] = _LOUD
    since_boot: int = 0
    unless: frozenset[str] = frozenset()
    tickets: tuple[str, ...] = ()


UNEXPECTED: Final = LogRule(
    name="unexpected-exception",
    pattern=re.compile(r"(?!)"),
    means="damning",
    explanation="the server met an exception that nobody expects",
)


@cache
def log_rules() -> Sequence[LogRule]:
    """Every rule, in the order in which they are tried. Raises KeyError, ValueError if the file is wrong."""
    document = tomllib.loads(files(__package__).joinpath("log_rules.toml").read_text(encoding="utf-8"))
    rules = []
    for name, entry in document.items():
        if entry["means"] not in get_args(Meaning):
            raise ValueError(f"log rule {name} means {entry['means']!r}, not one of {', '.join(get_args(Meaning))}")
        rules.append(
            LogRule(
                name=name,
                pattern=re.compile(entry["pattern"]),
                means=entry["means"],
                explanation=entry["explanation"],
                levels=frozenset(entry.get("levels", _LOUD)),
                since_boot=entry.get("since_boot", 0),
                unless=frozenset(entry.get("unless", ())),
                tickets=tuple(entry.get("tickets", ())),
            )
        )
    return rules


def patterns_below_warning() -> Sequence[str]:
    """The patterns that are looked for in entries below WARN, too."""
    return [rule.pattern.pattern for rule in log_rules() if not rule.levels <= _LOUD]


def rule_of(text: str, *, level: str, boot: int, nemeses: Collection[str]) -> LogRule | None:
    """The rule that decides about an entry, given its message and stack; null if it says nothing that matters.

    `nemeses` are the kinds of faults of the run, `boot` counts the node's starts from 0.
    """
    for rule in log_rules():
        if level in rule.levels and boot >= rule.since_boot and rule.pattern.search(text):
            if rule.unless.isdisjoint(nemeses):
                return rule
            return None
    if level in _GRAVE and _EXCEPTION.search(text) and not _NATIVE_NAME.search(text):
        return UNEXPECTED
    return None
