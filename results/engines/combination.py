"""Combination: one verdict from the verdicts of parts. An unknown part never makes the whole valid.

The rules are described in `schemaquake.results.judging.judge` and implemented here.
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
    """Return the reasons why a verdict is undecided; never empty for an unknown verdict."""
    return verdict.doubts or ((_NO_REASON,) if verdict.valid == "unknown" else ())


def of_all_keyspaces(checker: str, parts: Mapping[str, Verdict]) -> Verdict:
    """Combine one checker's verdicts on single keyspaces.

    Every doubt keeps its keyspaces, and `undecided` names the unknown ones, so that one keyspace does not make the others
    doubtful. Statistics are merged, and the numbers of judged and empty keyspaces are added.
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
    valid = combine(verdict.valid for verdict in judged.values())
    doubts = _doubts_by_keyspace(judged)
    if valid is True and all(verdict.figures.get("judged") == 0 for verdict in judged.values()):
        # Each keyspace is sound for want of any such object; the whole run says nothing of them.
        valid, doubts = "unknown", (*doubts, Doubt("nothing-to-judge", "no keyspace has an object of the kind"))
    return Verdict(
        valid=valid,
        checker=checker,
        anomalies=in_order(anomaly for verdict in judged.values() for anomaly in verdict.anomalies),
        stats={**merge_stats(verdict.stats for verdict in judged.values()), **counts},
        doubts=doubts,
        undecided=tuple(keyspace for keyspace, verdict in judged.items() if verdict.valid == "unknown"),
    )


def keyspaces_undecided(part: Verdict, keyspaces: Collection[str]) -> tuple[Doubt, ...]:
    """Return the doubts of a verdict per keyspace that leave any of these keyspaces undecided.

    Each doubt carries the name of its checker.
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
    """Combine the verdicts of all checkers into the run's verdict: every anomaly, and every checker's verdict as a part.

    `by_name` is True if the user named the checkers, so that none may be left out. `vouching` are the checkers whose `valid`
    is evidence for the cluster (`Checker.vouches`). `unjudged` are keyspaces with acknowledged operations that no checker
    judged.
    """
    silent = [verdict.checker for verdict in verdicts if verdict.judged_nothing]
    judged = [verdict for verdict in verdicts if not verdict.judged_nothing]
    # A valid run needs at least one vouching checker that judged the cluster, and no doubt from checkers of the run itself.
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
        # The doubts of each checker are in its part.
        doubts.append(Doubt("nothing-to-judge", f"the question of {_listed(silent)} does not arise here"))
    if unjudged:
        text = "no checker found anything to judge where operations succeeded"
        doubts.append(Doubt("undecided", text, tuple(sorted(unjudged))))
    if not verdicts:
        doubts.append(Doubt("undecided", "no checker was selected"))
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
    """Sort anomalies by type, objects, nodes and operations, and remove duplicates, so that every engine gives the same order."""
    texts = {orjson.dumps(anomaly.to_json(), option=orjson.OPT_SORT_KEYS): anomaly for anomaly in anomalies}
    ordered = sorted(
        texts.items(), key=lambda item: (item[1].type, item[1].objects, item[1].nodes, item[1].ops, item[0])
    )
    return tuple(anomaly for _, anomaly in ordered)


def _doubts_by_keyspace(verdicts: Mapping[str, Verdict]) -> tuple[Doubt, ...]:
    """Return the doubts of all verdicts, each with its keyspaces or the objects in them."""

    def located() -> Iterator[Doubt]:
        for keyspace, verdict in verdicts.items():
            for doubt in doubts_of(verdict):
                named = doubt.objects and all(keyspace_of(name) == keyspace for name in doubt.objects)
                yield doubt if named else replace(doubt, objects=(keyspace, *doubt.objects))

    return merge_doubts(located())


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_MOST
    return ", ".join(names[:_NAMED_MOST]) + (f" and {more} more" if more > 0 else "")
