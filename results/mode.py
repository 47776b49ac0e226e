"""Mode: how the races of a run were run, from its plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemaquake.harness.model.plan import upgraded
from schemaquake.workloads.races.options import Mode, racing_options

__all__ = ["mode_of"]


def mode_of(plan: Mapping[str, Any]) -> Mode:
    """Return the mode of a plan as `plan.json` holds it, also in 0.1. Raises PlanError for a mode that there is not."""
    return racing_options(upgraded(plan).get("options", {})).mode
