"""What the data workloads leave is judged by the checkers of data: each finds its own, none is misled by the others'."""

from __future__ import annotations

from typing import Any

import pytest
from one_copy import OneCopy

from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Verdict
from schemaquake.results.judging.judge import judge

JUDGES = {
    "register": {"linearizable"},
    "cas-register": {"linearizable"},
    "append": {"list-append"},
    "append-accord": {"list-append"},
    "rw-register": {"rw-register"},
    "set": {"set-full"},
    "counter": {"counter"},
    "batch": {"batch-atomicity"},
    "quorum": {"quorum"},
}
OF_DATA = sorted(set().union(*JUDGES.values()) | {"long-fork", "bank", "unique-ids"})


def verdicts(names: list[str], *, seed: int, trouble: float) -> dict[str, Verdict]:
    """Of every checker of data that found something to judge."""
    history = OneCopy(names, seed=seed, trouble=trouble).history()
    verdict = judge(Records.of(history), checkers=OF_DATA, engine="local", limit_s=300)
    return {part.checker: part for part in verdict.parts if not part.judged_nothing}


@pytest.mark.parametrize("trouble", [0.0, 0.1], ids=["quiet", "with failures"])
@pytest.mark.parametrize("name", JUDGES)
def test_each_workload_is_judged_by_its_checker_and_valid(name: str, trouble: float) -> None:
    told = verdicts([name], seed=7, trouble=trouble)
    assert JUDGES[name] <= set(told)
    assert {checker: (part.valid, part.reason) for checker, part in told.items()} == dict.fromkeys(told, (True, None))


@pytest.mark.parametrize("seed", range(3))
def test_side_by_side_they_are_judged_apart(seed: int) -> None:
    told = verdicts(list(JUDGES), seed=seed, trouble=0.1)
    assert set().union(*JUDGES.values()) <= set(told)
    assert {checker: (part.valid, part.reason) for checker, part in told.items()} == dict.fromkeys(told, (True, None))


@pytest.mark.parametrize("name", JUDGES)
def test_an_answer_that_nobody_can_have_given_is_found_by_them(name: str) -> None:
    """The last reading of one key shows what was never written."""
    table = OneCopy([name], seed=3, trouble=0.0).history()
    rows: list[dict[str, Any]] = table.to_pylist()
    read = next(row for row in reversed(rows) if row["type"] == "ok" and _reads(row))
    _spoil(read)
    spoilt = type(table).from_pylist(rows, schema=table.schema)
    verdict = judge(Records.of(spoilt), checkers=sorted(JUDGES[name]), engine="local", limit_s=300)
    assert verdict.valid is False
    assert all(anomaly.explanation for anomaly in verdict.anomalies)


def _reads(row: dict[str, Any]) -> bool:
    if row["mops"] is not None:
        return all(mop["f"] == "r" for mop in row["mops"])
    return row["f"] in {"read", "read-batches", "get", "probe"}


def _spoil(row: dict[str, Any]) -> None:
    if row["mops"] is not None:
        (mop,) = row["mops"]
        mop.update({"vs": [999_999_999]} if mop["vs"] is not None else {"v": 999_999_999})
    elif row["value"] is not None and row["value"].startswith("{"):
        row["value"] = '{"consistency":"QUORUM","value":999999999,"writetime":1}'
    else:
        row["value"] = "[999999999]" if (row["value"] or "").startswith("[") else "999999999"
