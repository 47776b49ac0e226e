"""Provenance: where a run came from, and what it claims, as the predicate of its bundle's manifest. No fractions, no names of machines."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final

import orjson

import schemaquake
from schemaquake.harness.errors import HistoryError
from schemaquake.harness.sealed_json import load_sealed
from schemaquake.results.bundle.manifest import FORMAT
from schemaquake.results.store.store import Store
from schemaquake.results.summary.run_summary import RunSummary

__all__ = ["claims_of", "derived_provenance_of", "provenance_of", "read_object"]

_LIBRARIES: Final = ("numpy", "numba", "pyarrow", "orjson")
_LOCAL: Final = "local.json"
_DOCKER: Final = "docker.json"


def provenance_of(store: Store, summary: RunSummary, redactions: Mapping[str, int]) -> dict[str, Any]:
    """Collect the provenance of a judged run whose files are redacted. Raises HistoryError for a damaged file."""
    return {
        "format": FORMAT,
        "run": summary.run,
        "started": summary.started,
        "bundled_by": {
            "schemaquake": schemaquake.__version__,
            "python": platform.python_version(),
            **{name: version(name) for name in _LIBRARIES},
        },
        "redactions": dict(sorted(redactions.items())),
        **derived_provenance_of(store),
        **claims_of(summary),
    }


def derived_provenance_of(store: Store) -> dict[str, Any]:
    """Collect what the run's files say of its servers and its machine. Raises HistoryError for a damaged file."""
    local, docker = read_object(store, _LOCAL), read_object(store, _DOCKER)
    return {
        "command": store.read_plan().command_line(),
        "environment": _texts(read_object(store, "environment.json")),
        "jars": _texts(local.get("jars")),
        "digest_of_jars": local.get("digest"),
        "image": docker.get("image_id"),
    }


def _texts(document: Any) -> dict[str, str]:
    """Return the members of a JSON object as texts; none of anything else."""
    return {str(name): str(value) for name, value in document.items()} if isinstance(document, dict) else {}


def claims_of(summary: RunSummary) -> dict[str, Any]:
    """Collect what can be derived from the records: the plan's key values, the verdict, and each finding with n of m."""
    return {
        "system": summary.system,
        "cluster": summary.cluster,
        "nodes": summary.nodes,
        "workloads": list(summary.workloads),
        "nemeses": list(summary.nemeses),
        "seed": summary.seed,
        "schemaquake": summary.schemaquake_version,
        "completed": summary.completed,
        "valid": summary.valid,
        "checkers": {one.checker: one.valid for one in summary.checkers},
        "operations": dict(summary.operations),
        "findings": [
            {
                "id": finding.id,
                "statements": [str(shape) for shape in finding.cause.statements],
                "symptoms": [symptom.type for symptom in finding.symptoms],
                "broken": finding.rate.broken,
                "tried": finding.rate.tried,
                "unit": finding.rate.unit,
            }
            for finding in summary.findings
        ],
    }


def read_object(store: Store, name: str, *, sealed: bool = True) -> dict[str, Any]:
    """Read a JSON object of the run's folder, without its checksum if it may be `sealed`; empty if there is no such file.

    Raises HistoryError for a file that holds anything else.
    """
    path = store.path(name)
    try:
        content = path.read_bytes() if path.is_file() else b"{}"
        document = load_sealed(content) if sealed else orjson.loads(content)
    except ValueError as error:
        raise HistoryError(f"{path} is damaged: {error}") from error
    if not isinstance(document, dict):
        raise HistoryError(f"{path} is damaged: it holds no object")
    return document
