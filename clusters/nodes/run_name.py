"""Run name: the name of a run on the nodes, borne by the folder of its guards and files there.

It is in the run's folder before anything is touched, and in its ledger, so that either is enough to heal the run.
"""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path
from typing import Final

from schemaquake.harness.faults.ledger import examine_ledger

__all__ = ["name_run", "run_name", "run_of"]

_FILE: Final = "deployed.json"


def name_run(folder: Path) -> str:
    """Give the run of this folder a name that no other run has, even if its folder is copied to another place."""
    name = f"{_name_of_folder(folder)}-{secrets.token_hex(3)}"
    (folder / _FILE).write_text(json.dumps({"run": name}), encoding="utf-8")
    return name


def run_name(folder: Path) -> str:
    """Read the name that the run was given; a run without one has its folder's."""
    try:
        return str(json.loads((folder / _FILE).read_text(encoding="utf-8"))["run"])
    except FileNotFoundError:
        return _name_of_folder(folder)


def run_of(ledger: Path) -> str:
    """Read the name from the ledger, as far as that can be read, else from the folder that it lies in."""
    entries = examine_ledger(ledger).entries if ledger.exists() else []
    named = [entry.run_name for entry in entries if entry.run_name is not None]
    return named[-1] if named else run_name(ledger.parent)


def _name_of_folder(folder: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", folder.resolve().name).strip("-") or "run"
