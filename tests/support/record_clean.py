"""Record the clean runs of tests/recorded/clean anew, on three or four real nodes; a few minutes each.

    python tests/support/record_clean.py cassandra-5.0.9 cassandra-6.0-alpha2 cassandra-1.1.12 cassandra-5.0.9-to-6.0-alpha2 cassandra-6.0-alpha2-ring

A run that is not valid is not kept. `python tests/support/soundness_page.py` counts the score of what was recorded.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from soundness import RECORDED, plan_of

from schemaquake.harness.model.traits import checker_traits
from schemaquake.harness.registry import load_all
from schemaquake.harness.run.runner import execute
from schemaquake.results.judging.judge import judge
from schemaquake.results.store.store import Store, write_table


def record(name: str) -> None:
    """Carry out the races of that run, and keep the three tables. Raises SystemExit if they are not valid."""
    plan = plan_of(name)
    with tempfile.TemporaryDirectory(prefix="clean-") as folder:
        store = Store.create(Path(folder), "scenario", plan.system)
        outcome = execute(plan, store.folder)
        noted = [pattern for checker in load_all("checkers").values() for pattern in checker_traits(checker).noted]
        records = store.merge(noted=noted)
    verdict = judge(records, engine="local")
    if not outcome.completed or verdict.valid is not True:
        found = [(one.type, one.explanation) for one in verdict.anomalies]
        raise SystemExit(f"{name}: {outcome} {verdict.valid} {found} {verdict.doubts}")
    (RECORDED / name).mkdir(parents=True, exist_ok=True)
    for table in ("history", "observations", "logs"):
        write_table(RECORDED / name / f"{table}.parquet", getattr(records, table))
    print(f"{name}: {len(records.history)} events, {len(records.observations)} observations")  # noqa: T201


if __name__ == "__main__":
    for each in sys.argv[1:]:
        record(each)
