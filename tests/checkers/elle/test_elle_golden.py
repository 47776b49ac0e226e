"""The cases of Elle's own unit tests, and its large histories: our verdicts are the same, or it is said here why not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from shared_histories import SHARED, from_edn, shared

from schemaquake.checkers.elle.list_append import check_list_append
from schemaquake.checkers.elle.models import implied_by
from schemaquake.checkers.elle.rw_register import check_rw_register
from schemaquake.harness.model.verdict import Verdict
from schemaquake.results.formats import edn

pytestmark = pytest.mark.peers

INDEX = SHARED / "golden" / "elle-tests" / "INDEX.jsonl"
ENTRIES = [json.loads(line) for line in INDEX.read_text().splitlines()] if INDEX.exists() else []

GARBAGE = "somebody read what nobody wrote, of which Elle says nothing"
BESIDE = "the component has cycles of another kind, too"
WORSE = "the component has a worse cycle beside the one that Elle shows"
DIFFERENCES: Mapping[str, tuple[str, set[str]]] = {
    "list-append--G-nonadjacent-test--01.edn": (BESIDE, {"G-single-item-realtime"}),
    "list-append--lost-update-test--01.edn": (BESIDE, {"G-single-item-realtime"}),
    "list-append--sim-prefix-test--01.edn": (BESIDE, {"G-single-item"}),
    "rw-register--checker-test--01.edn": (GARBAGE, {"garbage-read"}),
    "rw-register--checker-test--02.edn": (GARBAGE, {"garbage-read"}),
    "rw-register--checker-test--20.edn": (GARBAGE, {"garbage-read"}),
    "rw-register--checker-test--24.edn": (GARBAGE, {"garbage-read"}),
    "rw-register--checker-test--25.edn": (GARBAGE, {"garbage-read"}),
    "rw-register--lost-update-test--01.edn": (GARBAGE, {"garbage-read"}),
    "rw-register--scc-sort-bug-test--01.edn": (f"{GARBAGE}; {WORSE}", {"garbage-read", "G0-realtime"}),
}
NOT_ASKED: Mapping[str, str] = {
    "rw-register--checker-test--10.edn": "an order of transactions cannot be given from outside",
    "rw-register--checker-test--12.edn": "an order of transactions cannot be given from outside",
}


def test_there_are_cases() -> None:
    assert len(ENTRIES) == 91


@pytest.mark.parametrize(
    "entry",
    [entry for entry in ENTRIES if entry["model"] in {"list-append", "rw-register"} and entry["name"] not in NOT_ASKED],
    ids=lambda e: e["name"],
)
def test_case_of_elle(entry: dict[str, Any]) -> None:
    options = edn.loads(entry["opts"])
    models, anomalies = options.get("consistency-models", ["strict-serializable"]), options.get("anomalies", [])
    asked = {"models": models or [], "anomalies": anomalies}
    path = shared(f"golden/elle-tests/{entry['name']}")
    if entry["model"] == "list-append":
        verdict = check_list_append(from_edn(path), **asked)
    else:
        verdict = check_rw_register(
            from_edn(path),
            sequential_keys=options.get("sequential-keys?"),
            linearizable_keys=options.get("linearizable-keys?", False),
            wfr_keys=options.get("wfr-keys?", False),
            **asked,
        )
    found = set(verdict.figures["anomaly-types"])
    _, ours = DIFFERENCES.get(entry["name"], ("", set()))
    assert ours <= found
    told = set(entry["anomalies"]) - {"empty-transaction-graph"}
    assert found - ours == {name for name in told if not any(name in implied_by(other) for other in ours)}
    if "garbage-read" not in found:
        assert verdict.valid == entry["valid"], verdict.reason


LARGE = {
    "elle/si-without-g-single.edn": (["snapshot-isolation", "repeatable-read"], {"G2-item"}),
    "elle/huge-scc.edn": (["strict-serializable"], {"G2-item-realtime", "strong-snapshot-isolation-cycle-exists"}),
    "elle/paper-example.edn": (["strict-serializable"], set()),
    "elle-cli/elle/list-append-gh-30.edn": (["serializable"], set()),
    "elle-cli/elle/paper-example.edn": (["strict-serializable"], set()),
}


@pytest.mark.parametrize("name", LARGE)
def test_history_of_elle(name: str) -> None:
    models, anomalies = LARGE[name]
    verdict = check_list_append(from_edn(shared(f"golden/{name}")), models=models, limit_s=60)
    assert verdict.valid is False
    found = named(verdict)
    assert all(
        other in found or other.endswith("exists") or any(other in implied_by(one) for one in found)
        for other in anomalies
    )


def test_the_paper_s_example_is_read_skew() -> None:
    verdict = check_list_append(from_edn(shared("golden/elle/paper-example.edn")), models=["serializable"])
    assert "G-single-item" in named(verdict)


def test_registers_of_elle_cli_are_valid_but_for_what_nobody_wrote() -> None:
    history = from_edn(shared("golden/elle-cli/elle/rw-register.edn"))
    verdict = check_rw_register(history, models=["serializable"])
    assert named(verdict) == {"garbage-read"}  # somebody read a 3 that nobody wrote, of which Elle says nothing


def named(verdict: Verdict) -> set[str]:
    return {anomaly.type for anomaly in verdict.anomalies}
