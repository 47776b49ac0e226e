"""Five hundred and fifty generated histories, each judged by eight models: our verdicts are those of the original Elle.

What differs is listed here, with the reason. All of it is finer or additional: Elle looks for one cycle in a component of
the graph that is restricted to some kinds of edges, and classifies the one it happens to find; we ask of every component
which kinds it has, and name those that are no special cases of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from shared_histories import conformance, from_json

from schemaquake.checkers.elle.list_append import check_list_append
from schemaquake.checkers.elle.models import implied_by
from schemaquake.checkers.elle.rw_register import check_rw_register
from schemaquake.harness.model.verdict import Verdict

NAMED = "Elle says that some cycle exists; we say which"
WORSE = "the cycle that Elle shows has a worse one of fewer needs beside it in the same component"
BESIDE = "the component has cycles of several kinds, and Elle shows one of them"
UNKNOWN = "who read of a transaction of unknown outcome knows that it happened, so its other writes did, too"

DIFFERENCES: Mapping[str, tuple[str, ...]] = {
    "append-0094": (NAMED, WORSE),
    "append-0116": (NAMED, WORSE),
    "append-0118": (WORSE,),
    "append-0140": (NAMED, WORSE),
    "append-0160": (BESIDE,),
    "append-0192": (BESIDE,),
    "append-0228": (NAMED, WORSE),
    "append-0250": (NAMED, BESIDE),
    "append-0270": (BESIDE,),
    "append-0302": (BESIDE,),
    "append-0314": (NAMED, BESIDE),
    "append-0316": (NAMED, WORSE),
    "append-0358": (WORSE,),
    "append-0380": (WORSE,),
    "append-0382": (NAMED,),
    "append-0426": (BESIDE,),
    "append-0490": (NAMED, WORSE),
    "append-0500": (BESIDE,),
    "rw-0104": (BESIDE,),
    "rw-0188": (NAMED,),
    "rw-0452": (NAMED,),
    "rw-0536": (UNKNOWN,),
}


@pytest.mark.parametrize(
    ("file", "check"),
    [("list-append", check_list_append), ("rw-register", check_rw_register)],
    ids=["list-append", "rw-register"],
)
def test_every_history_is_judged_as_elle_does(file: str, check: Callable[..., Verdict]) -> None:
    different: dict[str, set[str]] = {}
    judged = 0
    for entry in conformance(file):
        history = from_json(entry["ops"])
        for model, told in entry["elle"].items():
            verdict = check(history, models=[model])
            judged += 1
            where = f"{entry['id']} {model}"
            found = set(verdict.figures["anomaly-types"])
            if "garbage-read" in found:  # Elle throws, or does not mind
                assert verdict.valid is False, where
                assert entry["kind"] == "garbage", where
            else:
                assert verdict.valid == told["valid"], where
            if told["valid"] != "exception":
                found.discard("garbage-read")
                reasons = reasons_for(found, set(told["anomalies"]) - {"empty-transaction-graph"})
                assert reasons is not None, (where, found, told["anomalies"])
                if reasons:
                    different.setdefault(entry["id"], set()).update(reasons)
            assert {anomaly.type for anomaly in verdict.anomalies} == set(verdict.figures["anomaly-types"]), where
    assert judged == 275 * 8
    prefix = {"list-append": "append-", "rw-register": "rw-"}[file]
    assert set(different) == {name for name in DIFFERENCES if name.startswith(prefix)}
    for name, reasons in different.items():
        assert reasons == set(DIFFERENCES[name]) or (reasons, DIFFERENCES[name]) == ({BESIDE}, (UNKNOWN,)), name


def reasons_for(ours: set[str], elles: set[str]) -> set[str] | None:
    """Why the names differ; empty if they do not, None if ours lack something."""
    reasons = set()
    for name in elles - ours:
        if name.endswith("-cycle-exists"):
            reasons.add(NAMED)
        elif any(name in implied_by(other) for other in ours):
            reasons.add(WORSE)
        else:
            return None
    if ours - elles and not reasons:
        reasons.add(BESIDE)
    return reasons
