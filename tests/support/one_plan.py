"""A plan carried out on a simulated cluster, and the records that it leaves."""

from __future__ import annotations

import logging
from pathlib import Path

from simulated_runs import carry_out

from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.traits import checker_traits
from schemaquake.harness.registry import load_all
from schemaquake.results.store.store import Store

__all__ = ["carried_out"]


def carried_out(plan: Plan, folder: Path) -> Records:
    """Carry a plan out in a folder, which nobody needs afterwards."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        store = Store(carry_out(plan, folder))
        noted = [pattern for checker in load_all("checkers").values() for pattern in checker_traits(checker).noted]
        return store.merge(noted=noted)
    finally:
        logging.disable(before)
