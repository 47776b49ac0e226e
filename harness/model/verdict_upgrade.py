"""Verdict upgrade: from a document of version 0.1 to the present schema. The one place that knows the sentences of 0.1.

Version 0.1 wrote why a verdict is unknown as one text: the reasons joined by "; ", each after the name of its checker in
the verdict on a run, and of keyspaces in parentheses. Its statistics were bare values, and a verdict reached keyspace by
keyspace kept the undecided ones there, as keyspace → reason.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

__all__ = ["upgrade_doubt", "upgrade_verdict"]

_NOTHING: Final = re.compile(r"nothing to judge(?:: ?| )?")
_KINDS: Final = (
    ("crashed", re.compile(r"it crashed\b|it contradicts itself")),
    ("incomplete-run", re.compile(r"(?:the run|it) was not completed|the run never began|it never began")),
    ("time", re.compile(r"time limit|limit of \S+ s\b|no answer within")),
    ("memory", re.compile(r"memory limit|\bof memory\b|machine's memory")),
    (
        "unread",
        re.compile(r"could not be read|was not read|no node was read|nobody looked at the disk|settled reading of"),
    ),
)
"""Kind → how its sentences are recognised, in this order."""
_OF_NO_CHECKER: Final = ("nothing to judge for ", "no checker ")
_COUNTED_BY_KEYSPACE: Final = "keyspaces_without"
"""The statistic that only verdicts reached keyspace by keyspace had."""


def upgrade_verdict(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a verdict of 0.1, and of its parts, as it is written today."""
    parts = [upgrade_verdict(part) for part in document.get("parts", ())]
    stats = dict(document["stats"])
    by_keyspace = stats.pop("undecided", {}) if isinstance(stats.get("undecided"), Mapping) else {}
    upgraded: dict[str, Any] = {
        "valid": document["valid"],
        "checker": document["checker"],
        "anomalies": document["anomalies"],
        "stats": {name: {"value": value} for name, value in stats.items()},
    }
    if by_keyspace:
        upgraded["doubts"] = [
            {**doubt, "objects": [keyspace]}
            for keyspace, reason in by_keyspace.items()
            for doubt in _doubts(reason, ())
        ]
    elif document.get("reason"):
        upgraded["doubts"] = list(_doubts(document["reason"], [part["checker"] for part in parts]))
    if by_keyspace or _COUNTED_BY_KEYSPACE in stats:
        upgraded["undecided"] = list(by_keyspace)
    if parts:
        upgraded["parts"] = parts
    return upgraded


def upgrade_doubt(reason: str, *, checker: str | None = None) -> dict[str, Any]:
    """Return one reason of 0.1 as the document of a doubt."""
    nothing = _NOTHING.match(reason)
    if nothing is not None:
        kind, text = "nothing-to-judge", reason[nothing.end() :]
    else:
        kind = next((kind for kind, sentence in _KINDS if sentence.search(reason)), "undecided")
        text = reason
    return {"kind": kind, "text": text} if checker is None else {"kind": kind, "text": text, "checker": checker}


def _doubts(reason: str, checkers: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield the doubts of a joined reason. One without a name of its own is of the checker named last.

    Why a run was not completed may hold a "; " itself: what follows it without a name, and is no sentence that is known,
    belongs to it.
    """
    checker: str | None = None
    found: list[dict[str, Any]] = []
    for part in _parts(reason):
        name, colon, rest = part.partition(": ")
        if colon and name in checkers:
            checker, part = name, rest  # noqa: PLW2901 - the name is taken off
        elif part.startswith(_OF_NO_CHECKER):
            checker = None
        doubt = upgrade_doubt(part, checker=checker)
        begun = found and checker is None and found[-1]["kind"] == "incomplete-run" and doubt["kind"] == "undecided"
        if begun and not part.startswith(_OF_NO_CHECKER):
            found[-1]["text"] += f"; {part}"
        else:
            found.append(doubt)
    yield from found


def _parts(reason: str) -> list[str]:
    """Split what was joined; a crash's traceback may hold anything, and stays in one piece."""
    return [reason] if "it crashed" in reason else reason.split("; ")
