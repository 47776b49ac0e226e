"""Flaws of changes of the ring are found and named; the same seed without them is silent."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from simulated_runs import FIVE, RING_FLAWS, SCYLLA, SIX, simulate

from schemaquake.clusters.systems.simulated.family import known_flaws


@dataclass(frozen=True)
class Planted:
    """A change of the ring that shows one flaw."""

    flaw: str
    system: str = SIX
    nemesis: str = "bootstrap"
    seed: int = 1
    options: dict[str, str] = field(default_factory=dict)
    named: dict[str, float] = field(default_factory=dict)
    doubt: str | None = None
    """Part of the doubt in which the run ends, where the flaw is one that a checker accuses nobody of."""


ONE_COPY = {"replication_factor": 1}
BUSY = {"concurrency": 16, "rate": 60}
CROWDED = {"concurrency": 60, "rate": 150, "time_limit_s": 6}
OLD_OWNER_IS_AWAY = {"cut.at": "6.0/sequence/q5:n2", "fault.seconds": "5", "keys": "6"}
"""The node that loses the range is cut off when it has handed its rows over, and reads what it has."""
TWO_CHANGES = {
    "overlap": "true",
    "bootstrap.begins-s": "8.5",
    "move.begins-s": "4",
    "move.node": "n2",
    "move.token": str((1 << 60) - (1 << 63)),
    "cms.pause": "MID_MOVE",
    "keys": "60",
}
"""n2 moves into the range that a node takes over which joins meanwhile."""
OWN_PLACE = {
    "replace.node": "n2",
    "replace.address": "same",
    "replace.begins-s": "12",
    "fault.seconds": "11",
    "keys": "300",
}
"""What n3, which is cut off before, lacks, n2 had; then n2 comes with an empty disk."""
THREE_COPIES = {"replication_factor": 3, "spares": 0, "time_limit_s": 30}
PLANTED = {
    "a row is not streamed": Planted("unstreamed", named=ONE_COPY),
    "a row is not streamed in group 0": Planted("unstreamed", SCYLLA, named=ONE_COPY),
    "rows go to the old replica only": Planted("old-replica-only", options={"cms.pause": "MID_JOIN"}, named=ONE_COPY),
    "a change that is asked for again skips ranges": Planted(
        "skip-streamed",
        SIX,
        "decommission",
        options={"kill.at": "6.0/sequence/q4", "decommission.after-failure": "retry"},
        named=ONE_COPY | {"nodes": 4},
    ),
    "a node keeps other placements": Planted("other-placements"),
    "an epoch is skipped": Planted("epoch-skipped", options={"cms.reorder": "START_JOIN"}),
    "a node that was cut off has not heard who joins": Planted(
        "gossip-pending",
        FIVE,
        seed=2,
        options={"cut.at": "ring/change/c1:n1", "fault.seconds": "6", "keys": "16"},
        named=ONE_COPY | BUSY | {"time_limit_s": 30},
    ),
    "a dead node's rows come from one that lacks some": Planted(
        "replaced-from-one",
        SIX,
        "replace,kill",
        options={
            "replace.node": "n2",
            "replace.address": "new",
            "replace.begins-s": "20",
            "kill.targets": "primaries",
            "primaries": "n3",
            "keys": "800",
        },
        seed=2,
        named={"rate": 25},
        # What a lost disk had, and one other replica, may be gone by design.
        doubt="if no disk had been lost",
    ),
    "a node that takes its own place is asked at once": Planted(
        "own-place-at-once",
        FIVE,
        "replace",
        options=OWN_PLACE | {"cut.at": "4.0/apply/e8@2:n3"},
        named=THREE_COPIES,
        doubt="if no disk had been lost",
    ),
    "a node that takes its own place is asked at once, on 6.0": Planted(
        "own-place-at-once",
        SIX,
        "replace",
        options=OWN_PLACE | {"cut.at": "6.0/follow/l6@5:n3"},
        named=THREE_COPIES,
        doubt="if no disk had been lost",
    ),
    "a node that takes its own place is asked at once, on ScyllaDB": Planted(
        "own-place-at-once",
        SCYLLA,
        "replace",
        seed=2,
        options=OWN_PLACE | {"cut.at": "group0/apply/g7b@5:n3", "slow": "n1-n2:250,n3-n2:250,n2-n1:250,n2-n3:250"},
        named=THREE_COPIES,
        doubt="if no disk had been lost",
    ),
    "rows come from a replica that was down": Planted(
        "stream-any",
        seed=4,
        options={"kill.at": "6.0/boot/b1:n3", "fault.seconds": "1", "keys": "60"},
        named=BUSY | {"time_limit_s": 30},
    ),
    "nothing waits for the old owner": Planted(
        "no-barrier", seed=3, options=OLD_OWNER_IS_AWAY, named=ONE_COPY | {"rate": 80, "time_limit_s": 20}
    ),
    "the new owner's answer passes a barrier": Planted(
        "weak-barrier", seed=3, options=OLD_OWNER_IS_AWAY, named=ONE_COPY | {"rate": 80, "time_limit_s": 20}
    ),
    "replicas take requests of a coordinator that is behind": Planted(
        "no-epoch-check",
        seed=4,
        options={"cut.at": "6.0/sequence/q1:n3", "fault.seconds": "1", "keys": "60"},
        named=ONE_COPY | {"concurrency": 48, "rate": 150, "time_limit_s": 10},
    ),
    "two changes of one range overlap": Planted(
        "no-lock",
        SIX,
        "bootstrap,move",
        seed=3,
        options=TWO_CHANGES,
        named=ONE_COPY | {"nodes": 4, "rate": 40, "time_limit_s": 22},
    ),
    "rows are streamed before all write to the new owner": Planted(
        "early-stream",
        SCYLLA,
        seed=3,
        options={"cut.at": "group0/topology/o1:n1-n3", "fault.seconds": "1.5", "keys": "16"},
        named=ONE_COPY | BUSY | {"time_limit_s": 12},
    ),
    "an old request comes in when all has changed": Planted(
        "no-fence",
        SCYLLA,
        seed=7,
        options={"cut.at": "group0/start/d1:n1-n2", "fault.seconds": "1.2", "keys": "300", "bootstrap.begins-s": "2"},
        named=ONE_COPY | CROWDED,
    ),
}
SLOW = {
    "a row is not streamed in group 0",
    "rows go to the old replica only",
    "a change that is asked for again skips ranges",
    "a node keeps other placements",
    "a node that was cut off has not heard who joins",
    "a dead node's rows come from one that lacks some",
    "a node that takes its own place is asked at once, on 6.0",
    "a node that takes its own place is asked at once, on ScyllaDB",
    "rows come from a replica that was down",
    "the new owner's answer passes a barrier",
}
CASES = [pytest.param(name, id=name, marks=pytest.mark.long if name in SLOW else ()) for name in PLANTED]


def run(folder, planted: Planted, bugs: dict[str, str]):
    return simulate(
        folder,
        "quorum",
        *planted.nemesis.split(","),
        system=planted.system,
        seed=planted.seed,
        options=bugs | planted.options,
        **{"nodes": 3, "spares": 1, "rate": 60, "time_limit_s": 40} | planted.named,
    )


@pytest.mark.parametrize("name", CASES)
def test_a_planted_flaw_of_the_ring_is_named(tmp_path, name):
    planted = PLANTED[name]
    found = run(tmp_path, planted, {"bug": planted.flaw})
    if planted.doubt is None:
        assert set(found.types) & set(known_flaws()[planted.flaw].gives)
    else:
        assert (found.verdict.valid, dict(found.types)) == ("unknown", {})
        assert any(planted.doubt in doubt.text for doubt in found.verdict.doubts)


@pytest.mark.parametrize("name", CASES)
def test_without_the_flaw_the_same_change_is_silent(tmp_path, name):
    found = run(tmp_path, PLANTED[name], {"bugs": "none"})
    assert dict(found.types) == {}
    assert found.verdict.valid is True


def test_every_flaw_of_the_ring_is_planted():
    assert {planted.flaw for planted in PLANTED.values()} == RING_FLAWS
