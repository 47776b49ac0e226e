"""Combination: from the verdicts of parts to one verdict, without letting an unknown pass for good news.

See `schemaquake.results.judging.judge` for the rules; here they are carried out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import orjson

from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import keyspace_of
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict, combine, make_stats, merge_doubts, merge_stats

__all__ = ["doubts_of", "in_order", "keyspaces_undecided", "of_all_checkers", "of_all_keyspaces"]

_NAMED_MOST: Final = 3
_NO_REASON: Final = Doubt("undecided", "no reason given")


def doubts_of(verdict: Verdict) -> tuple[Doubt, ...]:
    """Return why a verdict is not decided; never empty for one that is unknown."""
    return verdict.doubts or ((_NO_REASON,) if verdict.valid == "unknown" else ())


def of_all_keyspaces(checker: str, parts: Mapping[str, Verdict]) -> Verdict:
    """Combine the verdicts that one checker gave keyspace by keyspace.

    Every doubt keeps the keyspaces that it is about, and `undecided` names those that are unknown, so that one does not
    cast doubt on the others. Statistics are merged, beside how many keyspaces were judged and how many had nothing.
    """
    judged = {keyspace: verdict for keyspace, verdict in parts.items() if not verdict.judged_nothing}
    counts = make_stats({"keyspaces": len(judged), "keyspaces_without": len(parts) - len(judged)})
    if not judged:
        nothing = Doubt("nothing-to-judge", "no keyspace was used or seen")
        return Verdict(
            valid="unknown",
            checker=checker,
            stats=counts,
            doubts=_doubts_by_keyspace(parts) if parts else (nothing,),
            undecided=(),
        )
    return Verdict(
        valid=combine(verdict.valid for verdict in judged.values()),
        checker=checker,
        anomalies=in_order(anomaly for verdict in judged.values() for anomaly in verdict.anomalies),
        stats={**merge_stats(verdict.stats for verdict in judged.values()), **counts},
        doubts=_doubts_by_keyspace(judged),
        undecided=tuple(keyspace for keyspace, verdict in judged.items() if verdict.valid == "unknown"),
    )


def keyspaces_undecided(part: Verdict, keyspaces: Collection[str]) -> tuple[Doubt, ...]:
    """Return the doubts of a verdict reached keyspace by keyspace that leave any of these keyspaces undecided.

    Each has the name of its checker.
    """
    concerned = frozenset(keyspaces) & frozenset(part.undecided or ())
    return tuple(
        replace(doubt, checker=doubt.checker or part.checker)
        for doubt in part.doubts
        if any(keyspace_of(name) in concerned for name in doubt.objects)
    )


def of_all_checkers(
    verdicts: Sequence[Verdict],
    *,
    by_name: bool,
    vouching: Collection[str],
    unjudged: Collection[str] = (),
    stats: Mapping[str, JSON],
) -> Verdict:
    """Combine the verdicts of all checkers into the run's: every anomaly, and every checker's verdict as a part.

    `by_name`: each checker was asked for, so that none may be left out. `vouching` are the checkers whose `valid` is good
    news about the cluster (`Checker.vouches`). `unjudged` are keyspaces in which something was acknowledged and no checker
    judged anything.
    """
    silent = [verdict.checker for verdict in verdicts if verdict.judged_nothing]
    judged = [verdict for verdict in verdicts if not verdict.judged_nothing]
    # Those that judge the run itself must have found it worth judging, and one that judges the cluster must have judged.
    of_the_run = [verdict.valid is True for verdict in judged if verdict.checker not in vouching]
    of_the_cluster = [verdict for verdict in judged if verdict.checker in vouching]
    may_leave_out = not by_name and bool(of_the_run and of_the_cluster) and all(of_the_run)
    counted = judged if may_leave_out else verdicts
    doubts = [
        replace(doubt, checker=verdict.checker)
        for verdict in (verdicts if by_name else judged)
        if verdict.valid == "unknown"
        for doubt in doubts_of(verdict)
    ]
    if silent and not may_leave_out and not by_name:
        # Each one's own doubts are in its part.
        doubts.append(Doubt("nothing-to-judge", f"the question of {_listed(silent)} does not arise here"))
    if unjudged:
        text = "no checker found anything to judge where operations succeeded"
        doubts.append(Doubt("undecided", text, tuple(sorted(unjudged))))
    if not verdicts:
        doubts.append(Doubt("undecided", "no checker was asked"))
    validities = [verdict.valid for verdict in counted]
    return Verdict(
        valid=combine([*validities, "unknown"] if unjudged else validities),
        checker="all",
        anomalies=in_order(anomaly for verdict in verdicts for anomaly in verdict.anomalies),
        stats=make_stats({**stats, "checkers": len(verdicts), "nothing_to_judge": sorted(silent)}),
        doubts=tuple(doubts),
        parts=tuple(verdicts),
    )


def in_order(anomalies: Iterable[Anomaly]) -> tuple[Anomaly, ...]:
    """Sort anomalies by type, objects, nodes and operations, each once: the same for every engine."""
    texts = {orjson.dumps(anomaly.to_json(), option=orjson.OPT_SORT_KEYS): anomaly for anomaly in anomalies}
    ordered = sorted(
        texts.items(), key=lambda item: (item[1].type, item[1].objects, item[1].nodes, item[1].ops, item[0])
    )
    return tuple(anomaly for _, anomaly in ordered)


def _doubts_by_keyspace(verdicts: Mapping[str, Verdict]) -> tuple[Doubt, ...]:
    """Return the doubts about all of them, each with the keyspaces, or the objects in them, that it is about."""

    def located() -> Iterator[Doubt]:
        for keyspace, verdict in verdicts.items():
            for doubt in doubts_of(verdict):
                named = doubt.objects and all(keyspace_of(name) == keyspace for name in doubt.objects)
                yield doubt if named else replace(doubt, objects=(keyspace, *doubt.objects))

    return merge_doubts(located())


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_MOST
    return ", ".join(names[:_NAMED_MOST]) + (f" and {more} more" if more > 0 else "")
