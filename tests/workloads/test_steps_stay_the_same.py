"""The same seed goes on asking for the same operations: digests of the steps of every workload, in every mode.

A plan and its seed are all that a report gives to repeat a run, so a change of a digest is a change of every plan of that
workload. After a deliberate one: `python tests/workloads/test_steps_stay_the_same.py` prints the table anew.
"""

from __future__ import annotations

import hashlib
from itertools import islice, product

import pytest

from schemaquake.harness.model.context import Context
from schemaquake.harness.registry import load

FEATURES = frozenset(
    {
        "keyspaces",
        "tables",
        "columns",
        "options",
        "types",
        "functions",
        "views",
        "indexes",
        "column-drops",
        "collections",
    }
)
PHASES = (("setup", ""), ("prepare", ""), ("main", ""), ("probe", "settled"), ("final", "restarted"))
MODES = ("barrier", "partition", "single")
STEPS_MOST = 200

DIGESTS = {
    "add-columns": "c5cd8fa807e609cb",
    "alter-options": "d05bc5c3f0bddd4a",
    "alter-type": "274101128c83a3d4",
    "append": "cd7b217bdeb9ba85",
    "append-accord": "95aa374ba2c3fd78",
    "batch": "16a045e9ac0c92ea",
    "cas-register": "0aa314b5e7d7e1f7",
    "counter": "74e305305c9385c7",
    "create-index": "14ba4790d5023938",
    "create-table": "fe5399364d25187c",
    "descriptors": "5a008d0069add628",
    "drop-alter": "28209f941e72b839",
    "drop-function": "2a53f0c0e734f6b9",
    "drop-keyspace": "94aa85fc398aa5de",
    "drop-recreate": "f5f1d51499a00a65",
    "drop-table-view": "5792be71cd7d85fe",
    "drop-type": "b5ed8b1ca5be0d14",
    "quorum": "7257d6a2f1bdd89e",
    "racing-ddl": "bbaddd30874154e4",
    "register": "1d09e82775f0ef14",
    "reloaded-rows": "64a570b39253a9c1",
    "rw-register": "42762c78e5bdfe7f",
    "schema-churn": "7d5c0cae4bd9eb1a",
    "set": "fb01fec6d95be110",
}


def digest(name: str) -> str:
    """Hash the steps of two seeds in every mode, of a crew on three nodes."""
    workload = load("workloads", name)
    hashed = hashlib.sha256()
    for seed, mode in product((1, 7), MODES):
        options = {"mode": mode, "races": "4", "first-race": "3"}
        context = Context(seed=seed, nodes=("n1", "n2", "n3"), features=FEATURES, options=options)
        for worker, (phase, label) in product(workload.crew(context), PHASES):
            hashed.update(f"{worker} {phase} {label}".encode())
            for step in islice(workload.steps(phase, worker, context, phase_label=label), STEPS_MOST):
                hashed.update(repr(step).encode())
    return hashed.hexdigest()[:16]


@pytest.mark.parametrize("name", DIGESTS)
def test_a_seed_goes_on_asking_for_the_same_operations(name: str) -> None:
    assert digest(name) == DIGESTS[name]


if __name__ == "__main__":
    from schemaquake.harness.registry import names

    for each in names("workloads"):
        if each != "scenario":  # a file's
            print(f'    "{each}": "{digest(each)}",')  # noqa: T201
