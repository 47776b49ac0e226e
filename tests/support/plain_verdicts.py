"""Verdicts as they can be compared: without how long anything took."""

from __future__ import annotations

from typing import Any

import orjson

from schemaquake.harness.model.verdict import Verdict


def plainly(verdict: Verdict) -> Any:
    """The verdict's JSON without times."""
    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    return _without_times(orjson.loads(orjson.dumps(verdict.to_json(), option=options)))


def _without_times(document: Any) -> Any:
    if isinstance(document, dict):
        return {name: _without_times(value) for name, value in document.items() if not name.endswith("_s")}
    if isinstance(document, list):
        return [_without_times(value) for value in document]
    return document
