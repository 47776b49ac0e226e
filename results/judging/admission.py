"""Admission: the result of a checker is a verdict of three values, or its checker has crashed.

A checker may come from anywhere, and Python lets it return anything: a document, a look-alike of `Verdict`, or a verdict
whose frozen fields were set afterwards. The combination of verdicts compares `valid` with three values, and any other
would count as none of them: neither as an accusation nor as a doubt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from schemaquake.harness.model.protocols import Checker
from schemaquake.harness.model.verdict import Anomaly, Doubt, Stat, Verdict

__all__ = ["admit"]


def admit(checker: Checker, result: object) -> Verdict:
    """Return the verdict that a checker gave, under the checker's own name.

    Raises TypeError for anything but a verdict made of anomalies, doubts and statistics, and ValueError for a `valid` that
    is not exactly True, False or "unknown", also in a part.
    """
    if not isinstance(result, Verdict):
        raise TypeError(f"{checker.name} answered with {_describe(result)}, which is no Verdict")
    for verdict in _all(result):
        valid: Any = verdict.valid
        # Equality would admit 1, a NumPy boolean, or anything that says it equals "unknown".
        if not (valid is True or valid is False or (type(valid) is str and valid == "unknown")):
            raise ValueError(f'a verdict is True, False or "unknown", not {_describe(valid)}')
        for values, kind in (
            (verdict.anomalies, Anomaly),
            (verdict.doubts, Doubt),
            (verdict.stats.values(), Stat),
        ):
            for value in values:
                if not isinstance(value, kind):
                    raise TypeError(f"{checker.name} has {_describe(value)} where a {kind.__name__} belongs")
    return result if result.checker == checker.name else replace(result, checker=checker.name)


def _all(verdict: Verdict) -> Iterator[Verdict]:
    """List a verdict and all its parts."""
    yield verdict
    for part in verdict.parts:
        if not isinstance(part, Verdict):
            raise TypeError(f"{_describe(part)} is no Verdict")
        yield from _all(part)


def _describe(value: object) -> str:
    """Render a value and its type: `1 (int)`."""
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:80] + '…'} ({type(value).__qualname__})"
