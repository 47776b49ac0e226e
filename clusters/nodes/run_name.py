"""Run name: the name of a run on the nodes, borne by the folder of its guards and files there.

It is in the run's folder before anything is touched, and in its ledger, so that either is enough to heal the run.
"""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path
from typing import Final

import orjson

from schemaquake.harness.errors import HistoryError
from schemaquake.harness.faults.ledger import examine_ledger

__all__ = ["name_run", "run_name", "run_of"]

_FILE: Final = "deployed.json"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")


def name_run(folder: Path) -> str:
    """Give the run of this folder a name that no other run has, even if its folder is copied to another place."""
    name = f"{_name_of_folder(folder)}-{secrets.token_hex(3)}"
    (folder / _FILE).write_text(json.dumps({"run": name}), encoding="utf-8")
    return name


def run_name(folder: Path) -> str:
    """Read the name that the run was given; a run without one has its folder's. Raises HistoryError for a damaged file."""
    try:
        name = orjson.loads((folder / _FILE).read_bytes())["run"]
    except FileNotFoundError:
        return _name_of_folder(folder)
    except (ValueError, KeyError, TypeError) as error:
        raise HistoryError(f"{folder / _FILE} is damaged, and does not name the run ({error})") from error
    return _checked(name, folder / _FILE)


def run_of(ledger: Path) -> str:
    """Read the name from the ledger, as far as that can be read, else from the folder that it lies in."""
    entries = examine_ledger(ledger).entries if ledger.exists() else []
    named = [entry.run_name for entry in entries if entry.run_name is not None]
    return _checked(named[-1], ledger) if named else run_name(ledger.parent)


def _checked(name: object, path: Path) -> str:
    """Return a name that is one. On the nodes it is a folder that root removes, so it must not lead anywhere else."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise HistoryError(f"{path} names the run {str(name)[:80]!r}: a name is made of letters, digits, - and _ alone")
    return name


def _name_of_folder(folder: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", folder.resolve().name).strip("-") or "run"
