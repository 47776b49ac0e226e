"""Healing after a crash: from nothing but a run's folder, undo what the run left behind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.errors import PlanError
from harness.ledger import FILE_NAME, Ledger
from harness.plan import Plan
from harness.protocols import Provider
from harness.registry import load
from harness.runner import still_running

__all__ = ["heal"]


def heal(folder: Path) -> Sequence[str]:
    """Undo every open fault and end every left-over process of the run; idempotent. Returns a sentence for each thing done.

    Raises HistoryError if `folder` is not a run's, PlanError if the run is still going on, HealError if something resists.
    """
    plan = Plan.read(folder)
    pid = still_running(folder)
    if pid is not None:
        raise PlanError(
            f"this run is still going on (process {pid}): interrupt it first (kill -TERM {pid}), it heals by itself"
        )
    provider: Provider = load("clusters", plan.cluster)
    done = list(provider.heal(folder))
    ledger = Ledger(folder / FILE_NAME)
    for entry in (*ledger.open_faults(), *ledger.open_resources()):
        what = (
            entry.kind
            if entry.fault is None
            else f"{entry.fault.nemesis} of {', '.join(entry.fault.nodes) or 'the network'}"
        )
        ledger.healing(entry.id)
        ledger.healed(entry.id, {"by": "schemaquake heal"})
        done.append(f"{what}: gone, and marked as healed in the ledger")
    ledger.close()
    return done
