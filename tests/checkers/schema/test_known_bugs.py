"""The catalogue of known bugs, with the symptoms that were seen on real clusters, and the controls that are clean.

Every case is a whole run in small: what was asked and answered, and what each node had in the end. All structure
checkers judge it; the test names every finding that they make, so a finding too many fails it too.
"""

from __future__ import annotations

import pytest
from known_bugs import BUGS, CHECKERS, CONTROLS, Bug, findings


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_known_bug_is_found_and_called_by_its_names(bug: Bug) -> None:
    assert findings(bug.records()) == bug.found


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_its_control_is_clean(control: Bug) -> None:
    verdicts = [checker.check(control.records(), limit_s=10) for checker in CHECKERS]
    assert findings(control.records()) == set()
    assert [verdict.valid for verdict in verdicts] == [True] * len(CHECKERS)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_every_explanation_says_let_then_but(bug: Bug) -> None:
    for checker in CHECKERS:
        for anomaly in checker.check(bug.records(), limit_s=10).anomalies:
            lines = anomaly.explanation.splitlines()
            assert lines[0].startswith("Let  ")
            assert any(line.startswith("Then ") for line in lines)
            assert lines[-1].startswith("     But ")
            assert anomaly.references
            assert anomaly.nodes
            assert anomaly.title
