"""Log rules: the meaning of entries of a node's log, as data in `log_rules.toml` beside this file.

Most entries prove nothing by themselves. A damning entry names damage that no fault explains on any version. The other
rules separate failures of the machine, the noise that faults make, and traces that may pass by themselves.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, Literal, TypeAlias, get_args

__all__ = ["LogRule", "Meaning", "find_rule", "list_patterns_below_warning", "load_log_rules"]

Meaning: TypeAlias = Literal["damning", "environment", "noise", "noted"]

_LOUD: Final = frozenset({"WARN", "ERROR", "FATAL"})
_GRAVE: Final = frozenset({"ERROR", "FATAL"})
_EXCEPTION: Final = re.compile(r"\b[\w.$]*(Exception|Error|Throwable)\b")
_NATIVE_NAME: Final = re.compile(r"\b[a-z_]\w*::[a-z]\w*_\w+")
"""The form of exception names of servers in C++; it is not known which of these are usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRule:
    """One rule of `log_rules.toml`, whose head explains the fields."""

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
    explanation="the server met an unexpected exception",
)


@cache
def load_log_rules() -> Sequence[LogRule]:
    """Load every rule, in order of precedence. Raises KeyError or ValueError for a malformed file."""
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


def list_patterns_below_warning() -> Sequence[str]:
    """List the patterns of rules that also judge entries below WARN."""
    return [rule.pattern.pattern for rule in load_log_rules() if not rule.levels <= _LOUD]


def find_rule(text: str, *, level: str, boot: int, nemeses: Collection[str]) -> LogRule | None:
    """Find the rule that decides an entry, from its message and stack; None: the entry means nothing.

    `nemeses` are the kinds of faults of the run, `boot` counts the node's starts from 0.
    """
    for rule in load_log_rules():
        if level in rule.levels and boot >= rule.since_boot and rule.pattern.search(text):
            if rule.unless.isdisjoint(nemeses):
                return rule
            return None
    if level in _GRAVE and _EXCEPTION.search(text) and not _NATIVE_NAME.search(text):
        return UNEXPECTED
    return None
