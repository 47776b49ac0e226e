"""Folders of runs for sites: a judged run, and summaries of further runs made from it, which are all that a list of runs reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemaquake.harness.sealed_json import dump_sealed, load_sealed

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'{{ 7*7 }}<!--\u2028]]>`"


def further_run(example: Path, folder: Path, **changed: Any) -> Path:
    """A run's folder with the plan and the summary of another, both changed."""
    folder.mkdir(parents=True)
    summary = load_sealed((example / "summary.json").read_bytes())
    plan = load_sealed((example / "plan.json").read_bytes())
    summary |= {"run": folder.name, **changed}
    plan |= {name: value for name, value in changed.items() if name in plan}
    (folder / "summary.json").write_bytes(dump_sealed(summary))
    (folder / "plan.json").write_bytes(dump_sealed(plan))
    return folder


def held(example: Path) -> Mapping[str, Any]:
    """What a summary says of the same races if nothing broke."""
    summary = load_sealed((example / "summary.json").read_bytes())
    races = [race | {"anomalies": [], "decided": True} for race in summary["races"]]
    return {"valid": True, "findings": [], "anomalies": [], "races": races, "checkers": []}
