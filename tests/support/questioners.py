"""Checkers for tests of the judge: importable, so that they can be sent to Spark's workers as registered ones are."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow.compute as pc

from schemaquake.harness.model.records import Records, keyspace_of, plain
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict, make_stats


def keyspaces_of(records: Records) -> list[str]:
    keys = plain(records.history).filter(pc.greater_equal(records.history["process"], 0))["key"].to_pylist()
    seen = {keyspace_of(key) for key in keys} | set(records.observations["keyspace"].to_pylist())
    return sorted(keyspace for keyspace in seen if keyspace is not None)


@dataclass(frozen=True)
class FailedInserts:
    """An anomaly for every insert that failed; nothing to judge where none was tried."""

    scope: Literal["keyspace", "run"] = "keyspace"
    vouches: bool = True
    name: str = "failed-inserts"

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        history = plain(records.history)
        inserts = history.filter(pc.equal(history["f"], "insert"))
        if not len(inserts):
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", "no insert"))
        failed = inserts.filter(pc.equal(inserts["type"], "fail")).to_pylist()
        anomalies = [
            Anomaly(
                type="failed-insert",
                title=f"{row['key']} refused a row",
                objects=(row["key"],),
                nodes=(row["node"],),
                ops=(row["index"],),
                evidence={"mops": row["mops"], "at": np.int64(row["time"]), "pair": (1, 2), 3: True},
            )
            for row in reversed(failed)
        ]
        stats = {"judged": len(inserts), "keyspaces_seen": keyspaces_of(records), "notes": notes_of(records)}
        return Verdict(valid=not failed, checker=self.name, anomalies=tuple(anomalies), stats=make_stats(stats))


def notes_of(records: Records) -> int:
    return int(pc.sum(pc.equal(records.history["process"], -1)).as_py() or 0)


@dataclass(frozen=True)
class Says:
    """Always the same, whatever it is asked."""

    valid: Any = True
    name: str = "says"
    scope: Literal["keyspace", "run"] = "run"
    vouches: bool = True
    doubts: tuple[Doubt, ...] = ()
    anomalies: tuple[Anomaly, ...] = ()

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        return Verdict(valid=self.valid, checker=self.name, doubts=self.doubts, anomalies=self.anomalies)


@dataclass(frozen=True)
class Counts:
    """How much it was given, as stats."""

    name: str = "counts"
    scope: Literal["keyspace", "run"] = "run"
    vouches: bool = True
    noted: tuple[str, ...] = ("Requesting",)

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        stats = {
            "events": len(records.history),
            "observations": len(records.observations),
            "messages": records.logs["message"].to_pylist(),
        }
        return Verdict(valid=True, checker=self.name, stats=make_stats(stats))


@dataclass(frozen=True)
class Crashes:
    """Fails on one keyspace, or everywhere."""

    name: str = "crashes"
    scope: Literal["keyspace", "run"] = "keyspace"
    vouches: bool = True
    on: str | None = None

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        if self.on is None or self.on in keyspaces_of(records):
            raise ZeroDivisionError("a defect of the checker")
        return Verdict(valid=True, checker=self.name)


@dataclass(frozen=True)
class Endless:
    """Does not mind its limit."""

    name: str = "endless"
    scope: Literal["keyspace", "run"] = "run"
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        while True:
            time.monotonic()


@dataclass(frozen=True)
class Slow:
    """Takes what it is given, and says so."""

    name: str = "slow"
    scope: Literal["keyspace", "run"] = "keyspace"
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        ends = time.monotonic() + limit_s
        while time.monotonic() < ends:
            pass
        return Verdict(valid=True, checker=self.name)


@dataclass(frozen=True)
class NoVerdict:
    """Answers in another way than asked."""

    answer: Any
    name: str = "no-verdict"
    scope: Literal["keyspace", "run"] = "run"
    vouches: bool = True

    def check(self, records: Records, *, limit_s: float) -> Any:
        return self.answer
