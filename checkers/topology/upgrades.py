"""Upgrades: nodes start with their data as the newer version, and what mixed versions promise is kept.

Judges the operations of a rolling upgrade (`schemaquake.checkers.evidence.upgrades`) by what the newer line promises, which
the history holds with its source. A schema change that an upgraded node refuses before the upgrade has ended is right; one
that it takes although it is to take none is not. What became of changes that nodes took meanwhile is judged by the checkers
of the schema as of all others: an acknowledged one that is lost is lost. Here they are counted, by the version that took them.
Finds: `upgrade-start-failure`, `accepted-in-mixed-versions`, `upgrade-without-effect`, `upgrade-does-not-end`.
Sources: CEP-21, migration plan; NEWS.txt of the newer line; CASSANDRA-20482, CASSANDRA-20483, CASSANDRA-19845, CASSANDRA-21326.

Faults that act while an operation goes on explain its failure: then it is a doubt. So is an operation that has no end, and
one that did not begin, whose place is named: the run shows a cluster that stopped there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import orjson

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.option_values import can_be
from schemaquake.checkers.evidence.schema_changes import certainly_applied, target
from schemaquake.checkers.evidence.upgrades import UpgradeOperation, Upgrades
from schemaquake.checkers.findings.argument import Argument
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.explanation import listing, phase_text, seconds
from schemaquake.checkers.findings.limits import LIMITS
from schemaquake.checkers.findings.tally import Tally
from schemaquake.checkers.run.log_rules import find_rule
from schemaquake.harness.ddl.schema_changes import SCHEMA_CHANGES
from schemaquake.harness.model.operation import JSON
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict

__all__ = ["UpgradesChecker"]


class UpgradesChecker:
    """Every node that was upgraded serves as the newer version, and the upgrade ends."""

    name = "upgrades"
    scope: Literal["keyspace", "run"] = "run"
    finds: tuple[str, ...] = (
        "upgrade-start-failure",
        "accepted-in-mixed-versions",
        "upgrade-without-effect",
        "upgrade-does-not-end",
    )
    vouches: bool = False

    def check(self, records: Records, *, limit_s: float) -> Verdict:  # noqa: ARG002 - a few operations take no time
        """Judge every operation, and every schema change of mixed times. Unknown without an upgrade. Raises HistoryError."""
        evidence = Evidence.of(records)
        upgrades = evidence.notes.upgrades
        if not upgrades.operations and not upgrades.skipped:
            return Verdict.unknown(self.name, Doubt("nothing-to-judge", "no node became another version"))
        tally = Tally(self.name, keep=LIMITS.findings)
        for reason in upgrades.skipped:
            tally.doubt(Doubt("incomplete-run", f"the upgrade stopped {_place(upgrades)}: {reason}"))
        for operation in upgrades.operations:
            tally.judge(*_judge(operation, evidence))
        fates = Counter[str]()
        for change in evidence.operations(SCHEMA_CHANGES):
            tally.judge(_judge_change(change, upgrades, fates, evidence))
        tally.doubt(*(doubt for text in evidence.changes.free_texts for doubt in _doubt_text(text, upgrades)))
        for finding in _judge_releases(evidence, upgrades):
            tally.judge(finding)
        tally.doubt(*_find_strange_effects(upgrades), *_find_strange_releases(evidence, upgrades))
        return tally.verdict(
            operations=dict(Counter(operation.outcome or "unended" for operation in upgrades.operations)),
            ended=upgrades.finished is not None,
            source="; ".join(dict.fromkeys(upgrade.source for upgrade in upgrades.each)),
            changes_of_mixed_times=dict(sorted(fates.items())),
        )


def _place(upgrades: Upgrades) -> str:
    last = upgrades.each[-1].operations if upgrades.each else ()
    done = [one.node for one in last if one.stage == "node" and one.outcome == "ok"]
    place = f"after {listing(done)}" if done else "before its first node"
    return f"{place} to {last[0].to}" if len(upgrades.each) > 1 else place


# ── operations ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _judge(operation: UpgradeOperation, evidence: Evidence) -> Iterator[Anomaly | Doubt]:
    what = "the end of the upgrade" if operation.stage == "finish" else f"the upgrade of {operation.node}"
    if operation.completed is None:
        yield Doubt("incomplete-run", f"{what} was begun and has no end")
        return
    faults = evidence.notes.active(operation.invoked, operation.completed)
    if operation.stage == "finish":
        yield from _judge_end(operation, evidence, [fault.nemesis for fault in faults])
        return
    hit = [f.nemesis for f in faults if not f.nodes or operation.node in f.nodes]
    failed = [attempt for attempt in operation.attempts if attempt.get("outcome") == "info"]
    ended = [attempt for attempt in failed if _is_failed_start(attempt)]
    own = [attempt for attempt in ended if _find_reason(attempt) is None]
    if own and not hit:
        yield _report_start(operation, own)
    elif ended and not hit:
        yield Doubt("undecided", f"{operation.node} did not start: {_find_reason(ended[0])}")
    elif operation.outcome != "ok":
        why = f", and {listing(sorted(set(hit)))} may be why" if hit else f": {_answer(operation)}"
        yield Doubt("undecided", f"{what} did not succeed{why}")


def _is_failed_start(attempt: Mapping[str, Any]) -> bool:
    """Tell if the server of the other version was started and ended by itself."""
    return not attempt.get("timed_out") and "start as" in str(attempt.get("command"))


def _find_reason(attempt: Mapping[str, Any]) -> str | None:
    """Return what of the machine, and not of the server, ended a start; None if nothing of it."""
    rule = find_rule(str(attempt.get("answer")), level="ERROR", boot=1, nemeses=())
    return rule.explanation if rule is not None and rule.means == "environment" else None


def _report_start(operation: UpgradeOperation, attempts: Sequence[Mapping[str, Any]]) -> Anomaly:
    again = "" if operation.outcome != "ok" else " It did when it was started again."
    return anomaly(
        "upgrade-start-failure",
        objects=[operation.node],
        nodes=[operation.node],
        ops=[operation.index],
        evidence={
            "to": operation.to,
            "attempts": [dict(attempt) for attempt in attempts],
            "outcome": operation.outcome,
        },
        explanation=Argument(
            [_line(operation)],
            f"its server was drained and ended, and no fault was on it, so one of {operation.to} must start with its data.",
            f"that ended by itself: {attempts[0].get('answer')}.{again}",
        ),
    )


def _judge_end(operation: UpgradeOperation, evidence: Evidence, faults: Sequence[str]) -> Iterator[Anomaly | Doubt]:
    if operation.outcome == "ok":
        return
    upgrades = evidence.notes.upgrades
    if not operation.attempts or any(attempt.get("timed_out") for attempt in operation.attempts):
        yield Doubt("undecided", f"the end of the upgrade did not succeed: {_answer(operation)}")
        return
    if faults:
        yield Doubt(
            "undecided", f"the end of the upgrade did not succeed, and {listing(sorted(set(faults)))} may be why"
        )
        return
    taken = [
        change
        for change in evidence.operations(SCHEMA_CHANGES)
        if certainly_applied(change)
        and change.completed is not None
        and change.completed < operation.invoked
        and upgrades.promise_on(change.node, change.invoked, change.completed) is not None
    ]
    then = "every node had become the newer version, and no fault was in place, so the upgrade must come to its end."
    if taken:
        then += f" {len(taken)} schema changes were acknowledged while versions were mixed."
    yield anomaly(
        "upgrade-does-not-end",
        objects=[operation.node],
        nodes=[operation.node],
        ops=[operation.index, *(change.index for change in taken[: LIMITS.members])],
        evidence={"to": operation.to, "attempts": [dict(a) for a in operation.attempts], "accepted": len(taken)},
        explanation=Argument([_line(operation), *taken[: LIMITS.examples]], then, f"{_answer(operation)}."),
    )


# ── schema changes of mixed times ────────────────────────────────────────────────────────────────────────────────────


def _judge_change(
    change: PairedOperation, upgrades: Upgrades, fates: Counter[str], evidence: Evidence
) -> Anomaly | None:
    """Count a change of mixed times, and accuse one that was taken although it was to be refused."""
    if change.completed is None:
        return None
    upgrade = upgrades.during(change.node, change.invoked, change.completed)
    if upgrade is None:
        return None
    promise = upgrade.promise_on(change.node, change.invoked, change.completed)
    assert promise is not None
    fates[f"{_SIDES[promise]}, {_FATES[change.type]}"] += 1
    if promise != "refused" or not certainly_applied(change) or _may_change_nothing(change, evidence):
        return None
    node = [one for one in upgrades.on(change.node) if one.ends < change.invoked][-1]
    return anomaly(
        "accepted-in-mixed-versions",
        objects=[change.key] if change.key else [],
        nodes=[str(change.node)],
        ops=[change.index, node.index],
        evidence={"to": node.to, "source": upgrade.source},
        explanation=Argument(
            [change, _line(node)],
            f"{change.node} was {node.to} and the upgrade had not ended, so it must refuse every schema change ({upgrade.source}).",
            "it acknowledged T1.",
        ),
    )


def _doubt_text(text: PairedOperation, upgrades: Upgrades) -> Iterator[Doubt]:
    """Yield the statement in free text that a node took at a time when changes were to be refused."""
    if text.completed is None or not text.acknowledged:
        return
    if upgrades.promise_on(text.node, text.invoked, text.completed) == "refused":
        yield Doubt(
            "undecided",
            f"op {text.index}, a statement in free text, was taken by {text.node}: it may have changed nothing",
        )


def _may_change_nothing(change: PairedOperation, evidence: Evidence) -> bool:
    """Tell if the object may have had all settings that this change asks for: then there was nothing to take, or to refuse.

    It may if an earlier change asked for them, or a reading shows them; the defaults that nobody asked for are among these.
    """
    asked = _settings(change.argument)
    if not asked or not change.f.startswith("alter-"):
        return False
    subject = target(change)
    held = [
        _settings(earlier.argument)
        for earlier in evidence.changes.possible
        if earlier.key == change.key and earlier.invoked < change.invoked
    ]
    held += [
        _settings(sighting.definition)
        for sighting in evidence.sightings(subject.kind)
        if (sighting.keyspace, sighting.name) == (subject.keyspace, subject.name)
        and isinstance(sighting.definition, dict)
    ]
    return all(any(name in one and can_be(one[name], value) for one in held) for name, value in asked.items())


def _settings(value: Mapping[str, Any]) -> Mapping[str, JSON]:
    """Return options and replication by name, as a statement or a reading has them."""
    replication = {"replication": value["replication"]} if value.get("replication") else {}
    return {**(value.get("options") or {}), **replication}


_SIDES: Final = {"refused": "to be refused", "unsupported": "not to be asked for", "unknown": "either version"}
_FATES: Final = {"ok": "accepted", "fail": "refused", "info": "unknown"}


# ── what nodes are in the end ────────────────────────────────────────────────────────────────────────────────────────


def _find_strange_effects(upgrades: Upgrades) -> Iterator[Doubt]:
    """Yield the acknowledged operations that do not say what was done, and promises that are not the same for the whole upgrade."""
    for operation in upgrades.operations:
        what = f"op {operation.index} on {operation.node} was acknowledged, and its note"
        if operation.outcome != "ok":
            continue
        if not any(attempt.get("outcome") == "ok" for attempt in operation.attempts):
            yield Doubt("incomplete-run", f"{what} says of no attempt that it succeeded")
        if operation.system is None:
            yield Doubt("incomplete-run", f"{what} does not say what {operation.node} was afterwards")
    for upgrade in upgrades.each:
        ended = [one for one in upgrade.operations if one.outcome is not None]
        if len({orjson.dumps(one.promises, option=orjson.OPT_SORT_KEYS) for one in ended}) > 1:
            yield Doubt("incomplete-run", "the operations of the upgrade name different promises for mixed versions")


def _find_strange_releases(evidence: Evidence, upgrades: Upgrades) -> Iterator[Doubt]:
    """Yield each node that says on the way that it is another release than it was then, or that does not say it once.

    Before the first operation on it a node is what it first said, and after an acknowledged one what that made of it.
    Final readings of another release are `upgrade-without-effect`.
    """
    shown: dict[str, list[tuple[int, str, JSON]]] = {}
    for sighting in evidence.sightings("version"):
        if isinstance(sighting.definition, dict):
            shown.setdefault(sighting.node, []).append(
                (sighting.time, sighting.phase, sighting.definition.get("release"))
            )
    if not any(release is not None for readings in shown.values() for _, _, release in readings):
        return
    for node, readings in sorted(shown.items()):
        begins = 0
        for ends, phase, release in readings:
            due = _due_release(node, begins, ends, upgrades, first=readings[0][2])
            if release is None:
                yield Doubt("unread", f"{node} does not say at {seconds(ends)} which release it is")
                break
            if due not in {None, release} and phase == "running":
                yield Doubt("undecided", f"at {seconds(ends)} {node} says that it is {release}, and it was {due}")
                break
            begins = ends


def _due_release(node: str, begins: int, ends: int, upgrades: Upgrades, *, first: JSON) -> JSON:
    """Return the release that a node was from one time (ns) to another; None if it may have changed, or is not known."""
    own = upgrades.on(node)
    if any(one.invoked <= ends and begins <= one.ends for one in own):
        return None
    before = [one for one in own if one.ends < begins]
    if not before:
        return first
    last = before[-1]
    return last.system.rpartition(":")[2] if last.outcome == "ok" and last.system is not None else None


def _judge_releases(evidence: Evidence, upgrades: Upgrades) -> Iterator[Anomaly]:
    """Find nodes whose own word of their release, in final readings, is not what was acknowledged."""
    for node, phase, release in _read_releases(evidence):
        operation = next(reversed(upgrades.on(node)), None)
        if operation is None or operation.outcome != "ok" or operation.system is None:
            continue
        if operation.system.rpartition(":")[2] != release:
            yield anomaly(
                "upgrade-without-effect",
                objects=[node],
                nodes=[node],
                ops=[operation.index],
                evidence={"phase": phase, "release": release, "system": operation.system},
                explanation=Argument(
                    [_line(operation)],
                    f"T1 was acknowledged, so {node} must say that it is {operation.system}.",
                    f"{phase_text(phase)} it says that it is {release}.",
                ),
            )


def _read_releases(evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    rows = evidence.observations.select(["phase", "node", "kind", "definition"]).to_pylist()
    for row in rows:
        if row["kind"] != "version" or row["definition"] is None or row["phase"] not in {"settled", "restarted"}:
            continue
        release = (orjson.loads(row["definition"]) or {}).get("release")
        if isinstance(release, str):
            yield row["node"], row["phase"], release


def _answer(operation: UpgradeOperation) -> str:
    """Quote what the last attempt was answered with."""
    if not operation.attempts:
        return "nothing was asked for, because the cluster was not as it had to be"
    last = operation.attempts[-1]
    command = last.get("command")
    return " ".join(f"`{command}` was answered with {last.get('answer') or 'nothing'}".split())


def _line(operation: UpgradeOperation) -> str:
    ends = (
        "without an end" if operation.completed is None else f"-> {operation.outcome} at {seconds(operation.completed)}"
    )
    what = "the end of the upgrade on" if operation.stage == "finish" else "the upgrade of"
    return f"op {operation.index}: {what} {operation.node} to {operation.to} at {seconds(operation.invoked)} {ends}"
