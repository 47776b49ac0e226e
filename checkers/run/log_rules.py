"""Log rules: the meaning of entries of a node's log, as data in `log_rules.toml` beside this file.

Most entries prove nothing by themselves. A damning entry names damage that no fault explains on any version. The other
rules separate failures of the machine, the noise that faults make, and traces that may pass by themselves.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias, get_args

__all__ = [
    "UNEXPECTED",
    "UNFORESEEN",
    "LogRule",
    "Meaning",
    "Place",
    "find_rule",
    "list_patterns_below_warning",
    "load_log_rules",
]

Meaning: TypeAlias = Literal["damning", "environment", "noise", "noted"]
Place: TypeAlias = Literal["exception", "lead", "causes", "anywhere"]
"""Where a pattern must stand: in the first exception that says anything (of an entry without a stack: in its message); in
the message and that exception; there or in any exception that caused it; or anywhere, frames of the stack included."""

_LOUD: Final = frozenset({"WARN", "ERROR", "FATAL"})
_GRAVE: Final = frozenset({"ERROR", "FATAL"})
_EXCEPTION: Final = re.compile(r"\b[\w.$]+(Exception|Error|Throwable)\b")
"""The name of an exception; the words alone are English: "Error while decommissioning"."""
_NATIVE_THREAD: Final = re.compile(r"^shard \d+")
"""Threads of servers in C++."""
_NATIVE_NAME: Final = re.compile(r"\b[a-z_]\w*::[a-z]\w*_\w+")
"""The form of exception names of servers in C++; it is not known which of these are usual."""


_PLACES: Final[Mapping[Meaning, Place]] = {
    "damning": "anywhere",
    "environment": "causes",
    "noise": "lead",  # an EOFException below another error does not explain that error
    "noted": "causes",
}
_FRAME: Final = re.compile(r"\s*(?:at |\.\.\. \d+)")
_CAUSE: Final = re.compile(r"\s*(?:Caused by|Suppressed): ")
_WRAPPER: Final = re.compile(
    r"(?:Caused by: )?(?:[\w.$]*\b(?:RuntimeException|ExecutionException|CompletionException|InvocationTargetException|"
    r"UncheckedExecutionException|UncheckedIOException|UndeclaredThrowableException|FSReadError|FSWriteError|"
    r"DecoderException|EncoderException)(?::\s*|$))+(?:null)?\s*"
)
"""An exception without a message of its own, which only carries another one."""
_DEFECT: Final = re.compile(
    r"\b(?:(?:NullPointer|ClassCast|IllegalState|(?:Array|String)?IndexOutOfBounds|ConcurrentModification|NoSuchElement|"
    r"NegativeArraySize|Arithmetic)Exception|AssertionError)\b"
)
"""Exceptions by which a server says that it met what its authors thought impossible: words of the message beside them are no reason."""


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
    under: frozenset[str] = frozenset()
    where: Place = "anywhere"
    thread: re.Pattern[str] | None = None
    most: int | None = None
    within_s: float = 0
    tickets: tuple[str, ...] = ()


UNEXPECTED: Final = LogRule(
    name="unexpected-exception",
    pattern=re.compile(r"(?!)"),
    means="damning",
    explanation="the server met an unexpected exception",
)


UNFORESEEN: Final = LogRule(
    name="unforeseen-error",
    pattern=re.compile(r"(?!)"),
    means="noted",
    explanation="the server told of an error that nobody foresaw",
)
"""Entries of level ERROR or FATAL without a rule and without an exception that is damning by itself: nobody knows what they mean."""


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
                under=frozenset(entry.get("under", ())),
                where=_place(name, entry),
                thread=re.compile(entry["thread"]) if "thread" in entry else None,
                most=entry.get("most"),
                within_s=entry.get("within_s", 0),
                tickets=tuple(entry.get("tickets", ())),
            )
        )
    return rules


def _place(name: str, entry: Mapping[str, Any]) -> Place:
    where: Place = entry.get("where", _PLACES[entry["means"]])
    if where not in get_args(Place):
        raise ValueError(f"log rule {name} stands {where!r}, not one of {', '.join(get_args(Place))}")
    return where


def list_patterns_below_warning() -> Sequence[str]:
    """List the patterns of rules that also judge entries below WARN."""
    return [rule.pattern.pattern for rule in load_log_rules() if not rule.levels <= _LOUD]


def find_rule(
    text: str,
    *,
    level: str,
    boot: int,
    nemeses: Collection[str],
    thread: str | None = None,
    restarted: bool = True,
    dropped: bool = True,
) -> LogRule | None:
    """Find the rule that decides an entry, from its message (the first line) and stack; None: the entry means nothing.

    An entry of level ERROR or FATAL that no rule knows is UNEXPECTED if it has an exception of Java, else UNFORESEEN. Those of servers in
    C++ mean nothing in a run with faults: it is not known which of them are usual then.
    `nemeses` are the kinds of faults of the run, `boot` counts the node's starts from 0, `restarted` tells if any node was
    started again in the run, `dropped` if anything may have taken files of tables away.
    """
    places = _Places(text)
    circumstances = {
        *nemeses,
        *(("fault",) if nemeses else ()),
        *(("restart",) if restarted else ()),
        *(("drop",) if dropped else ()),
    }
    for rule in load_log_rules():
        if (
            level in rule.levels
            and boot >= rule.since_boot
            and _is_from(rule, thread)
            and (not rule.under or rule.under & circumstances)
            and rule.pattern.search(places.of_rule(rule))
        ):
            if rule.unless.isdisjoint(nemeses):
                return rule
            return None
    if level not in _GRAVE:
        return None
    if _NATIVE_NAME.search(text) or _NATIVE_THREAD.search(thread or ""):
        return None if nemeses else UNFORESEEN
    return UNEXPECTED if _EXCEPTION.search(text) else UNFORESEEN


def _is_from(rule: LogRule, thread: str | None) -> bool:
    """Tell if an entry of that thread can be the rule's; one without a thread is anybody's, and no proof."""
    if rule.thread is None:
        return True
    return rule.means != "damning" if thread is None else rule.thread.search(thread) is not None


class _Places:
    """The parts of an entry in which patterns are looked for."""

    def __init__(self, text: str) -> None:
        message, *stack = text.split("\n")
        exceptions = [line for line in stack if not _FRAME.match(line)]
        lead = [message]
        for line in exceptions:
            if _CAUSE.match(line) and not _WRAPPER.fullmatch(lead[-1]):
                break
            lead.append(line)
        self._texts: dict[Place, str] = {
            "lead": "\n".join(lead),
            "causes": "\n".join([message, *exceptions]),
            "anywhere": text,
        }

        self._exception = "\n".join(lead[1:])
        self._texts |= {"exception": self._exception or message}

    def of_rule(self, rule: LogRule) -> str:
        """Return the text in which the pattern of a rule must stand: for noise in the exception itself, if that tells of a defect."""
        if rule.means == "noise" and rule.where == "lead" and not rule.under and _DEFECT.search(self._exception):
            return self._exception
        return self._texts[rule.where]
