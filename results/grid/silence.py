"""Silence: what a node that gives no answers makes of the tables of all races on its cluster.

One race may leave a node that answers nothing any more, whatever the table (3.11: reads of a table that replicas do not know). Probes of
tables come after all races, so they fail in the keyspaces of earlier races, too. Where tables of several races show nothing but
time-outs, which of the races brought that about is not known, and none is charged with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from schemaquake.checkers.rows.probe_errors import ProbeFault, classify_error
from schemaquake.harness.model.verdict import Anomaly

__all__ = ["without_silence"]

_PROBED: Final = frozenset({"unreadable-table", "unwritable-table"})


def without_silence(
    by_keyspace: Mapping[str, Sequence[Anomaly]],
) -> tuple[Mapping[str, Sequence[Anomaly]], list[Anomaly], frozenset[str]]:
    """Return the anomalies that races are charged with, those that several races share, and the keyspaces with which these were charged.

    Shared are tables of several races that gave no answer, and an anomaly that names no object and is about operations of several races.
    """
    silent = {keyspace for keyspace, some in by_keyspace.items() if any(map(_is_silence, some))}
    nameless = [one for some in by_keyspace.values() for one in some if not one.objects]
    shared = [one for place, one in enumerate(nameless) if one in nameless[:place]]
    kept: dict[str, Sequence[Anomaly]] = {}
    left: list[Anomaly] = []
    doubted = set()
    for keyspace, some in by_keyspace.items():
        others = [one for one in some if one in shared or (len(silent) > 1 and _is_silence(one))]
        kept[keyspace] = [one for one in some if one not in others]
        left += [one for one in others if one not in left]
        if others:
            doubted.add(keyspace)
    return kept, left, frozenset(doubted)


def _is_silence(anomaly: Anomaly) -> bool:
    """Return True if a table was found unreadable or unwritable by probes that no node answered."""
    evidence = anomaly.evidence if isinstance(anomaly.evidence, Mapping) else {}
    errors = evidence.get("errors")
    if anomaly.type not in _PROBED or not isinstance(errors, Sequence) or not errors:
        return False
    return all(classify_error(str(dict(one).get("error", ""))) is ProbeFault.SILENCE for one in errors)
