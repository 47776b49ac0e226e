"""Run name: by what a run is known on the nodes, where the folder of its guards and files bears it.

It is in the run's folder before anything is touched, and in its ledger, for whoever has nothing else.
"""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path
from typing import Final

from schemaquake.harness.faults.ledger import read_ledger

__all__ = ["name_run", "run_name", "run_of"]

_FILE: Final = "deployed.json"


def name_run(folder: Path) -> str:
    """Give the run of this folder a name that no other has: who heals it may have its folder elsewhere."""
    name = f"{_of(folder)}-{secrets.token_hex(3)}"
    (folder / _FILE).write_text(json.dumps({"run": name}), encoding="utf-8")
    return name


def run_name(folder: Path) -> str:
    """The name that the run was given; of one that was not given any, its folder's."""
    try:
        return str(json.loads((folder / _FILE).read_text(encoding="utf-8"))["run"])
    except FileNotFoundError:
        return _of(folder)


def run_of(ledger: Path) -> str:
    """The name that the ledger tells, or the folder that it lies in. Raises HistoryError for a damaged ledger."""
    told = [entry.what for entry in read_ledger(ledger) if entry.kind == "run"] if ledger.exists() else []
    return str(told[-1]["name"]) if told and told[-1] is not None else run_name(ledger.parent)


def _of(folder: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", folder.resolve().name).strip("-") or "run"
