"""Histories with known verdicts of another tool: what rules out Adya's levels rules out these, and what fulfils strong ones keeps them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from shared_histories import SHARED, conformance, from_edn, from_json, shared

from schemaquake.checkers.weak_isolation.isolation import check_weak_isolation
from schemaquake.harness.model.verdict import Validity

LEVELS = ("read-committed", "read-atomic", "causal")
INDEX = SHARED / "golden" / "elle-tests" / "INDEX.jsonl"
ENTRIES = [json.loads(line) for line in INDEX.read_text().splitlines()] if INDEX.exists() else []


def levels(history: Any) -> list[Validity]:
    found = [check_weak_isolation(history, models=[level]).valid for level in LEVELS]
    assert found == sorted(found, key=lambda valid: valid is False)  # each level implies those before it
    return found


@pytest.mark.parametrize("file", ["rw-register", "list-append"])
def test_generated_histories_agree_with_the_levels_above_and_below(file: str) -> None:
    outcomes = set()
    for entry in conformance(file):
        found = levels(from_json(entry["ops"]))
        told = {model: verdict["valid"] for model, verdict in entry["elle"].items()}
        if told["read-committed"] is False:
            assert found == [False] * 3, entry["id"]
        if entry["kind"] == "strict":
            assert found == [True] * 3, entry["id"]
        # Of lists the order is known: what is fulfilled with sessions there implies causal consistency.
        if file == "list-append" and told["strong-session-snapshot-isolation"] is True:
            assert False not in found, entry["id"]
        outcomes.add(tuple(found))
    assert {(True, True, True), (True, False, False), (True, True, False), (False, False, False)} <= outcomes


@pytest.mark.peers
@pytest.mark.parametrize(
    "entry", [entry for entry in ENTRIES if entry["model"] in {"list-append", "rw-register"}], ids=lambda e: e["name"]
)
def test_case_of_elle(entry: dict[str, Any]) -> None:
    found = levels(from_edn(shared(f"golden/elle-tests/{entry['name']}")))
    if {"G1a", "G1b", "G1c", "duplicate-elements", "incompatible-order"} & set(entry["anomalies"]):
        assert found == [False] * 3
    if "G0" in entry["anomalies"]:
        assert (
            found[1:] == [False] * 2
        )  # of registers it takes a promise of sequential keys, which read committed is not


@pytest.mark.peers
def test_a_large_history_without_snapshot_isolation_is_causal() -> None:
    assert levels(from_edn(shared("golden/elle/si-without-g-single.edn")))[0] is True
