"""Flaws of changes of the ring are found and named; the same seed without them is silent."""

from __future__ import annotations

import pytest
from simulated_runs import SCYLLA, SIX, simulate

from schemaquake.clusters.systems.simulated.family import known_flaws

ONE_COPY = {"replication_factor": 1}
PLANTED = {
    "a row is not streamed": ("unstreamed", SIX, {}, ONE_COPY),
    "a row is not streamed in group 0": ("unstreamed", SCYLLA, {}, ONE_COPY),
    "rows go to the old replica only": ("old-replica-only", SIX, {"cms.pause": "MID_JOIN"}, ONE_COPY),
    "a change that is asked for again skips ranges": (
        "skip-streamed",
        SIX,
        {"kill.at": "6.0/sequence/q4", "decommission.after-failure": "retry"},
        ONE_COPY | {"nodes": 4},
    ),
    "a node keeps other placements": ("other-placements", SIX, {}, {}),
    "an epoch is skipped": ("epoch-skipped", SIX, {"cms.reorder": "START_JOIN"}, {}),
}
QUICK = {"a row is not streamed", "an epoch is skipped"}
CASES = [pytest.param(name, id=name, marks=() if name in QUICK else pytest.mark.long) for name in PLANTED]


def run(folder, name, bugs):
    _, system, options, named = PLANTED[name]
    return simulate(
        folder,
        "quorum",
        "decommission" if "nodes" in named else "bootstrap",
        system=system,
        seed=1,
        options=bugs | options,
        **({"nodes": 3, "spares": 1, "rate": 60, "time_limit_s": 40} | named),
    )


@pytest.mark.parametrize("name", CASES)
def test_a_planted_flaw_of_the_ring_is_named(tmp_path, name):
    flaw = PLANTED[name][0]
    assert set(run(tmp_path, name, {"bug": flaw}).types) & set(known_flaws()[flaw].gives)


@pytest.mark.parametrize("name", CASES)
def test_without_the_flaw_the_same_change_is_silent(tmp_path, name):
    assert dict(run(tmp_path, name, {"bugs": "none"}).types) == {}
