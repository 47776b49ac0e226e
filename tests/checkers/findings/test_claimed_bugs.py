"""Every bug that the catalogue of anomalies claims is shown by a run in small, and its twin is clean."""

from __future__ import annotations

import re

import pytest
from claimed_bugs import CLAIMED_BUGS, ClaimedBug
from known_bugs import BUGS

from schemaquake.checkers.findings.catalogue import CATALOGUE

SHOWN = [(re.match(r"B\d+", bug.name), bug.found) for bug in (*BUGS, *CLAIMED_BUGS)]
CLAIMS = sorted({bug for known in CATALOGUE.values() for bug in known.bugs}, key=lambda bug: int(bug[1:]))


@pytest.mark.parametrize("bug", CLAIMED_BUGS, ids=lambda bug: bug.name)
def test_a_claimed_bug_is_found_and_called_by_its_names(bug: ClaimedBug) -> None:
    assert bug.findings() == bug.found


@pytest.mark.parametrize("bug", CLAIMED_BUGS, ids=lambda bug: bug.name)
def test_its_twin_is_clean(bug: ClaimedBug) -> None:
    assert bug.records().history != bug.records(twin=True).history or (
        bug.records().observations != bug.records(twin=True).observations
    )
    assert bug.findings(twin=True) == set()


@pytest.mark.parametrize("claim", CLAIMS)
def test_every_bug_that_an_anomaly_claims_is_shown_with_that_anomaly(claim: str) -> None:
    found = {name for match, names in SHOWN if match is not None and match[0] == claim for name in names}
    assert any(claim in CATALOGUE[name].bugs for name in found), f"no run in small shows {claim}"
