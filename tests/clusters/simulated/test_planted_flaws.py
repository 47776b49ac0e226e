"""Every switch is found and named by the checkers; the same seed without it is silent."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from simulated_runs import FIVE, LOSS_FLAWS, RING_FLAWS, SCYLLA, SIX, simulate

from schemaquake.checkers.findings.catalogue import finders
from schemaquake.clusters.systems.simulated.family import Simulated, blueprint_of, flaws_of, known_flaws, promises_of
from schemaquake.harness.errors import PlanError

CUT = {"mode": "partition", "races": "4"}
ONCE = {"mode": "partition", "races": "1"}
CHURN = {"rate": 20, "time_limit_s": 40}
OLD = {version: f"simulated:cassandra-{version}" for version in ("0.7", "1.1", "1.2", "3.11")}


@dataclass(frozen=True)
class Planted:
    """A run that shows one flaw."""

    system: str
    workload: str
    nemesis: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    seed: int = 7
    named: dict[str, float] = field(default_factory=dict)
    shows: str | None = None
    """The anomaly that it must be reported as; None: the first that the catalogue of flaws gives."""


PLANTED = {
    "no-order": Planted(FIVE, "racing-ddl", options={"mode": "partition", "races": "2"}, shows="vanished-object"),
    "time-id": Planted(FIVE, "create-table", options=CUT),
    "row-union": Planted(FIVE, "create-table", options=CUT),
    "type-race": Planted(FIVE, "drop-type", options=CUT),
    "function-race": Planted(FIVE, "drop-function", options=CUT),
    "base-race": Planted(FIVE, "drop-table-view", options=CUT),
    "target-race": Planted(FIVE, "create-index", options=CUT),
    "whole-row": Planted(FIVE, "drop-alter", options=CUT),
    "keyspace-row": Planted(FIVE, "drop-keyspace", options=CUT),
    "wall-clock": Planted(FIVE, "quorum", ("clock",), named=CHURN),
    "copy-clock": Planted(SIX, "schema-churn", ("clock",), named=CHURN | {"time_limit_s": 60}, seed=3),
    "write-meets-drop": Planted(SIX, "create-index", options={"races": "12"}, seed=2),
    "double-commit": Planted(SIX, "racing-ddl", options={"races": "1"}),
    "old-ballot": Planted(SIX, "racing-ddl", options={"log": "paxos", "races": "1"}),
    "own-value": Planted(
        SIX,
        "schema-churn",
        options={"log": "paxos", "cut.at": "6.0/paxos/p3@16", "fault.seconds": "15"},
        seed=2,
        named={"rate": 20, "time_limit_s": 25},
    ),
    "replay-refused": Planted(
        SIX, "schema-churn", ("kill",), {"forms": "plain"}, seed=22, named={"rate": 40, "time_limit_s": 120}
    ),
    "out-of-order": Planted(OLD["0.7"], "racing-ddl", options=ONCE, seed=1),
    "no-agreement": Planted(OLD["0.7"], "racing-ddl", options={"races": "1"}, seed=1),
    "uuid-clock": Planted(
        OLD["0.7"], "schema-churn", ("clock",), {"mode": "single"}, seed=1, named={"rate": 10, "time_limit_s": 30}
    ),
    "marker-in-log": Planted(OLD["0.7"], "schema-churn", options={"kill.at": "0.7/apply/a5@60"}, seed=1, named=CHURN),
    "counter-id": Planted(OLD["1.1"], "racing-ddl", options={"races": "3"}, seed=1),
    "nanotime": Planted(OLD["1.1"], "schema-churn", ("kill",), {"mode": "single"}, seed=7, named=CHURN),
    "name-id": Planted(OLD["1.2"], "drop-recreate", ("kill",), {"races": "6"}, seed=3),
    "second-look": Planted(OLD["3.11"], "add-columns", options={"races": "6"}, seed=1),
    "purge": Planted(OLD["3.11"], "schema-churn", ("partition",), seed=7, named=CHURN),
    "partial-flush": Planted(
        OLD["3.11"], "create-table", options={"races": "4", "kill.at": "1.1/merge/m2h@20"}, seed=1
    ),
    "two-founders": Planted(SCYLLA, "drop-type", options={"races": "1"}, seed=3),
    "no-guard": Planted(SCYLLA, "racing-ddl", options={"races": "1"}, seed=1),
    "history-first": Planted(
        SCYLLA,
        "schema-churn",
        options={"kill.at": "group0/apply/g7a@20"},
        seed=7,
        named={"rate": 20, "time_limit_s": 30},
    ),
    "short-snapshot": Planted(
        SCYLLA, "schema-churn", ("kill",), {"forms": "plain"}, seed=4, named={"rate": 80, "time_limit_s": 100}
    ),
    "unordered-rows": Planted(
        SCYLLA,
        "schema-churn",
        ("partition",),
        {
            "fault.seconds": "4",
            "fault.within": "20",
            "relay": "true",
            "slow": "n1-n2:400,n2-n1:400",
            "kill.at": "group0/change/g3@8,group0/apply/g7a@139,group0/apply/g7a@78,raft/vote/w2@4,raft/vote/w2@7,"
            "group0/change/g3@10,group0/apply/g7a@2,group0/apply/g7a@19,raft/vote/w2@53",
        },
        seed=2642,
        named={"rate": 8, "time_limit_s": 20, "restart": "together"},
    ),
    "repeated-commit": Planted(
        SIX, "drop-recreate", (), {"log": "paxos", "variant": "column", "races": "8"}, seed=1, named={"restart": "none"}
    ),
    "peer-gap": Planted(
        SIX, "schema-churn", ("kill",), {"snapshots": "often"}, seed=11, named={"rate": 60, "time_limit_s": 25}
    ),
}
QUICK = {"repeated-commit", "second-look", "type-race", "write-meets-drop", "old-ballot"}
ELSEWHERE = {"computed-memory", "own-retry", "files-stay", "retry-new-id", "vote-not-kept"} | RING_FLAWS | LOSS_FLAWS
"""Flaws whose damage is looked up in the nodes (`test_sound_designs`), that need a change of the ring, or that only a rare order shows."""
CASES = [pytest.param(name, id=name, marks=() if name in QUICK else pytest.mark.long) for name in PLANTED]


def run(folder, planted: Planted, bugs: dict[str, str]):
    options = {**planted.options, **bugs}
    return simulate(
        folder,
        planted.workload,
        *planted.nemesis,
        system=planted.system,
        seed=planted.seed,
        options=options,
        **planted.named,
    )


@pytest.mark.parametrize("name", CASES)
def test_a_planted_flaw_is_named(tmp_path, name):
    found = run(tmp_path, PLANTED[name], {"bug": name})
    assert (PLANTED[name].shows or known_flaws()[name].gives[0]) in found.types


@pytest.mark.parametrize("name", CASES)
def test_the_same_seed_without_it_is_silent(tmp_path, name):
    found = run(tmp_path, PLANTED[name], {"bugs": "none"})
    assert dict(found.types) == {}


def test_every_flaw_is_planted():
    assert set(PLANTED) | ELSEWHERE == set(known_flaws())
    assert not set(PLANTED) & ELSEWHERE


def test_switches_are_read_in_order():
    five = blueprint_of(FIVE)
    default = flaws_of(five, {})
    assert "type-race" in default
    assert flaws_of(five, {"bugs": "none"}) == frozenset()
    assert flaws_of(five, {"bugs": "-type-race"}) == default - {"type-race"}
    assert flaws_of(five, {"bugs": "none,+type-race"}) == {"type-race"}
    assert flaws_of(five, {"bug": "type-race"}) == {"type-race", "no-order"}
    with pytest.raises(PlanError, match="no flaw"):
        flaws_of(five, {"bug": "no-such"})


def test_every_flaw_gives_anomalies_of_the_catalogue():
    known = set(finders())
    assert {kind for flaw in known_flaws().values() for kind in flaw.gives} <= known


def test_every_design_promises_what_an_anomaly_of_the_catalogue_breaks():
    known = set(finders())
    for version in Simulated().known_versions:
        promises = promises_of(blueprint_of(f"simulated:{version}"))
        assert promises, version
        assert {kind for promise in promises for kind in promise.broken_by} <= known


def test_every_promise_of_a_design_is_broken_by_some_flaw_of_its_model():
    for version in Simulated().known_versions:
        blueprint = blueprint_of(f"simulated:{version}")
        given = {kind for flaw in known_flaws().values() if blueprint.model in flaw.models for kind in flaw.gives}
        for promise in promises_of(blueprint):
            assert given & set(promise.broken_by), (version, promise.name)
