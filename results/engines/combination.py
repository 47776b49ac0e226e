"""Combination: from the verdicts of parts to one verdict, without letting an unknown pass for good news.

See `schemaquake.results.judging.judge` for the rules; here they are carried out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.verdict import Anomaly, Verdict, combine

__all__ = ["NOTHING_TO_JUDGE", "VOUCHER", "in_order", "of_all_checkers", "of_all_keyspaces", "says_nothing"]

NOTHING_TO_JUDGE: Final = "nothing to judge"
"""How the reason of a verdict begins whose checker found nothing that its question applies to."""

VOUCHER: Final = "observed"
"""The checker that knows whether there was anything to judge at all."""

_NAMED_MOST: Final = 3
# Counts add up over keyspaces. What is the same in all of them, or a size, or a time, does not.
_GREATEST: Final = re.compile(r"nodes|(largest|longest|slowest|most)_.*|.*_(max|s|ms|ns)")
_LEAST: Final = re.compile(r"(smallest|shortest|fastest|least)_.*|.*_min")


def says_nothing(verdict: Verdict) -> bool:
    """Whether its checker found nothing to judge, which is neither good news nor bad."""
    return verdict.valid == "unknown" and (verdict.reason or "").startswith(NOTHING_TO_JUDGE)


def of_all_keyspaces(checker: str, parts: Mapping[str, Verdict]) -> Verdict:
    """One checker's verdict from those it gave, keyspace by keyspace.

    Stats are merged (counts add up, sizes and times keep their extreme) beside how many keyspaces were judged, and
    which of them were not decided (`undecided`: keyspace → reason), so that one does not cast doubt on the others.
    """
    judged = {keyspace: verdict for keyspace, verdict in parts.items() if not says_nothing(verdict)}
    stats: dict[str, JSON] = {"keyspaces": len(judged), "keyspaces_without": len(parts) - len(judged)}
    undecided = {
        keyspace: verdict.reason or "no reason given"
        for keyspace, verdict in judged.items()
        if verdict.valid == "unknown"
    }
    if undecided:
        stats["undecided"] = undecided
    if not judged:
        reason = _reasons(parts) if parts else f"{NOTHING_TO_JUDGE}: no keyspace was used or seen"
        return Verdict(valid="unknown", checker=checker, stats=stats, reason=reason)
    merged: JSON = {}
    for verdict in judged.values():
        merged = _merged("", merged, dict(verdict.stats))
    return Verdict(
        valid=combine(verdict.valid for verdict in judged.values()),
        checker=checker,
        anomalies=in_order(anomaly for verdict in judged.values() for anomaly in verdict.anomalies),
        stats={**merged, **stats},
        reason=_reasons({keyspace: v for keyspace, v in judged.items() if v.reason or v.valid == "unknown"}) or None,
    )


def of_all_checkers(
    verdicts: Sequence[Verdict], *, by_name: bool, unjudged: Collection[str] = (), stats: Mapping[str, JSON]
) -> Verdict:
    """The run's verdict: every anomaly, and every checker's verdict as a part.

    `by_name`: each checker was asked for, so that none may be left out. `unjudged` are keyspaces in which something
    was acknowledged and nobody judged anything.
    """
    silent = [verdict for verdict in verdicts if says_nothing(verdict)]
    vouched = any(verdict.checker == VOUCHER and verdict.valid is True for verdict in verdicts)
    judged = [verdict for verdict in verdicts if not says_nothing(verdict)]
    may_leave_out = not by_name and vouched and any(verdict.checker != VOUCHER for verdict in judged)
    counted = judged if may_leave_out else verdicts
    told = verdicts if by_name else judged
    reasons = [
        f"{verdict.checker}: {verdict.reason or 'no reason given'}" for verdict in told if verdict.valid == "unknown"
    ]
    if silent and counted is not judged and not by_name:
        # Each one's own reason is in its part.
        reasons.append(f"nothing to judge for {_listed([verdict.checker for verdict in silent])}")
    if unjudged:
        reasons.append(f"no checker found anything to judge in {_listed(sorted(unjudged))}, where operations succeeded")
    if not verdicts:
        reasons.append("no checker was asked")
    validities = [verdict.valid for verdict in counted]
    return Verdict(
        valid=combine([*validities, "unknown"] if unjudged else validities),
        checker="all",
        anomalies=in_order(anomaly for verdict in verdicts for anomaly in verdict.anomalies),
        stats={**stats, "checkers": len(verdicts), "nothing_to_judge": sorted(verdict.checker for verdict in silent)},
        reason="; ".join(reasons) or None,
        parts=tuple(verdicts),
    )


def in_order(anomalies: Iterable[Anomaly]) -> tuple[Anomaly, ...]:
    """Each once, by type, objects, nodes and operations: the same for every engine."""
    texts = {orjson.dumps(anomaly.to_json(), option=orjson.OPT_SORT_KEYS): anomaly for anomaly in anomalies}
    ordered = sorted(
        texts.items(), key=lambda item: (item[1].type, item[1].objects, item[1].nodes, item[1].ops, item[0])
    )
    return tuple(anomaly for _, anomaly in ordered)


def _merged(name: str, one: JSON, other: JSON) -> JSON:
    """Two values of a statistic as one."""
    if isinstance(one, dict) and isinstance(other, dict):
        both = {entry: _merged(entry, one[entry], other[entry]) for entry in one if entry in other}
        return {**one, **other, **both}
    if _is_number(one) and _is_number(other):
        if _GREATEST.fullmatch(name):
            return max(one, other)
        return min(one, other) if _LEAST.fullmatch(name) else one + other
    if one == other:
        return one
    entries, more = (value if isinstance(value, list) else [value] for value in (one, other))
    return [*entries, *(entry for entry in more if entry not in entries)]


def _is_number(value: JSON) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _reasons(verdicts: Mapping[str, Verdict]) -> str:
    """Why some keyspaces' verdicts are what they are; a reason that several share is given once."""
    shared: dict[str, list[str]] = {}
    for keyspace, verdict in verdicts.items():
        shared.setdefault(verdict.reason or "no reason given", []).append(keyspace)
    return "; ".join(f"{reason} ({_listed(keyspaces)})" for reason, keyspaces in shared.items())


def _listed(names: Sequence[Any]) -> str:
    more = len(names) - _NAMED_MOST
    return ", ".join(names[:_NAMED_MOST]) + (f" and {more} more" if more > 0 else "")
