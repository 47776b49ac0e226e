"""Replication factors that change in a run: a model of replicas is never accused, and lies in each period are found."""

from __future__ import annotations

from random import Random

import orjson
import pytest
from histories import judged

from schemaquake.checkers.quorum.checker import Quorum
from schemaquake.harness.model.verdict import Verdict

NODES = ("n1", "n2", "n3", "n4")
LEVELS = ("ONE", "QUORUM", "ALL")


class Replicas:
    """The replicas of one key: the first `factor` of the nodes, in one order; every node learns of a change at a time of its own.

    Nodes that cease to be replicas may drop what they hold. A repair brings to all replicas what any of them has. `lie`: the period
    at whose beginning all of them lose everything.
    """

    def __init__(self, seed: int, *, changes: int, lie: int | None = None, slow: bool = True) -> None:
        self.random = Random(seed)
        self.lie, self.slow = lie, slow
        self.order = self.random.sample(NODES, len(NODES))
        self.knows = dict.fromkeys(NODES, 3)
        self.factor, self.written, self.ms, self.process = 3, 0, 10, 0
        self.held: dict[str, set[int]] = {node: set() for node in NODES}
        self.lines = ['@1 p0 n1 invoke create-keyspace k {"replication": {"class": "S", "replication_factor": 3}}', "@2 p0 n1 ok"]  # fmt: skip
        self.seen: list[str] = []
        for number in range(changes):
            self.requests(number)
            self.change(number)
        self.requests(changes)
        self.end()

    def _at(self) -> int:
        self.ms += self.random.choice((1, 2, 3))
        return self.ms

    def replicas(self, node: str) -> list[str]:
        return self.order[: self.knows[node]]

    def requests(self, period: int) -> None:
        if period == self.lie:
            self.held = {node: set() for node in NODES}
        for _ in range(self.random.randrange(2, 7)):
            self.learn()
            node, level, process = self.random.choice(NODES), self.random.choice(LEVELS), self._process()
            replicas = self.replicas(node)
            need = {"ONE": 1, "QUORUM": len(replicas) // 2 + 1, "ALL": len(replicas)}[level]
            asked = self.random.sample(replicas, need)
            began = self._at()
            if self.random.random() < 0.5:
                self.written += 1
                value = {"value": self.written, "consistency": level}
                text = orjson.dumps(value).decode()
                self.lines += [
                    f"@{began} p{process} {node} invoke put k.q/0 {text}",
                    f"@{self._at()} p{process} {node} ok",
                ]
                for replica in asked:
                    self.held[replica].add(self.written)
            else:
                self._read("get", node, level, asked, began, process)
                shown = max((max(self.held[replica], default=0) for replica in asked), default=0)
                for replica in asked if shown else ():
                    self.held[replica].add(shown)

    def _read(self, f: str, node: str, level: str, asked: list[str], began: int, process: int) -> None:
        shown = max((max(self.held[replica], default=0) for replica in asked), default=0)
        answer = {"consistency": level, "value": shown or None, "writetime": shown * 1000 if shown else None}
        self.lines += [
            f'@{began} p{process} {node} invoke {f} k.q/0 {{"consistency": "{level}"}}',
            f"@{self._at()} p{process} {node} ok {orjson.dumps(answer).decode()}",
        ]

    def _process(self) -> int:
        self.process += 1
        return self.process

    def learn(self) -> None:
        """Have some nodes learn of the last change, and show it."""
        for node in NODES:
            if self.knows[node] != self.factor and (not self.slow or self.random.random() < 0.4):
                self.knows[node] = self.factor
                if self.random.random() < 0.7:
                    self._show(node)

    def _show(self, node: str) -> None:
        replication = orjson.dumps({"replication": {"class": "S", "replication_factor": self.knows[node]}}).decode()
        at = self._at()
        self.seen.append(f"@{at} running#{at} {node} keyspace k {replication}")

    def change(self, number: int) -> None:
        """Change the factor through n1 and, mostly, repair all nodes."""
        to = self.random.choice([each for each in (1, 2, 3, 4) if each != self.factor])
        outcome = self.random.choice(("ok", "ok", "ok", "info"))
        made = outcome == "ok" or self.random.random() < 0.5
        value = {"operation": number, "nodes": [], "parameters": {}, "becomes": {}}
        process, began = self._process(), self._at()
        replication = orjson.dumps({"replication": {"class": "S", "replication_factor": to}}).decode()
        self.lines += [
            f"@{began} -- invoke rf-change {orjson.dumps(value).decode()}",
            f"@{self._at()} p{process} n1 invoke alter-keyspace k {replication}",
            f"@{self._at()} p{process} n1 {outcome}",
        ]
        if made:
            self.factor = self.knows["n1"] = to
        effect: dict[str, object] = {"attempts": [], "keyspace": "k", "to": to, "shown_by": []}
        repaired = outcome == "ok" and self.random.random() < 0.7
        if repaired or not made or self.random.random() < 0.3:
            self.knows = dict.fromkeys(NODES, self.factor)
        if made and self.random.random() < 0.7:
            for node in self.order[min(self.knows.values()) :] if len(set(self.knows.values())) == 1 else ():
                self.held[node] = set() if self.random.random() < 0.5 else self.held[node]
        if repaired:
            union = set().union(*(self.held[node] for node in self.order[:to]))
            for node in self.order[:to]:
                self.held[node] |= union
            attempts = [{"outcome": "ok", "command": "repair k", "node": node} for node in NODES]
            effect |= {"attempts": attempts, "shown_by": list(NODES)}
        ended = "ok" if repaired else "info"
        text = orjson.dumps({**value, "effect": effect}).decode()
        self.lines.append(f"@{self._at()} -- {ended} rf-change {text}")

    def end(self) -> None:
        self.knows = dict.fromkeys(NODES, self.factor)
        self.ms += 100
        self.lines.append(f'@{self.ms} -- info phase {{"phase": "final-settled", "state": "begins"}}')
        for node in NODES:
            self._show(node)
        for node in NODES:
            asked = [node] if node in self.replicas(node) else self.random.sample(self.replicas(node), 1)
            self._read("probe", node, "ONE", asked, self._at(), self._process())

    def verdict(self) -> Verdict:
        lines = sorted(self.lines, key=lambda line: int(line[1:].split()[0]))
        return Quorum().check(judged(lines, self.seen), limit_s=5)


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_replicas_that_follow_every_change_are_never_accused(first: int) -> None:
    decided = 0
    for seed in range(first, first + 40):
        verdict = Replicas(seed, changes=seed % 6).verdict()
        assert verdict.valid is not False, (seed, verdict.anomalies)
        decided += verdict.valid is True
    assert decided >= 20


@pytest.mark.parametrize("period", range(1, 6))
def test_replicas_that_forget_are_found_in_every_period(period: int) -> None:
    """In many of the series; in the others a later write hid it, or nothing was owed."""
    verdicts = [Replicas(seed, changes=5, lie=period, slow=False).verdict() for seed in range(8)]
    assert sum(verdict.valid is False for verdict in verdicts) >= 2
    assert all(Replicas(seed, changes=5, slow=False).verdict().valid is not False for seed in range(8))


def altered(factor: int, ms: int, *, process: int, outcome: str = "ok") -> list[str]:
    replication = orjson.dumps({"replication": {"class": "S", "replication_factor": factor}}).decode()
    return [f"@{ms} p{process} n1 invoke alter-keyspace k {replication}", f"@{ms + 1} p{process} n1 {outcome}"]


def changed(factor: int, ms: int, *, number: int, outcome: str = "ok", repaired: str = "n1,n2,n3") -> list[str]:
    value = {"operation": number, "nodes": [], "parameters": {}, "becomes": {}}
    attempts = [{"outcome": "ok", "command": "repair k", "node": node} for node in repaired.split(",") if node]
    effect = {"attempts": attempts, "keyspace": "k", "to": factor, "shown_by": ["n1", "n2", "n3"]}
    return [
        f"@{ms} -- invoke rf-change {orjson.dumps(value).decode()}",
        *altered(factor, ms + 1, process=900 + number),
        f"@{ms + 10} -- {outcome} rf-change {orjson.dumps({**value, 'effect': effect}).decode()}",
    ]


CREATED = ['@1 p0 n1 invoke create-keyspace k {"replication": {"class": "S", "replication_factor": 3}}', "@2 p0 n1 ok"]


def put(process: int, ms: int, value: int, level: str = "QUORUM") -> list[str]:
    return [
        f'@{ms} p{process} n1 invoke put k.q/0 {{"value": {value}, "consistency": "{level}"}}',
        f"@{ms + 1} p{process} n1 ok",
    ]


def get(
    process: int, ms: int, value: int | None, *, f: str = "get", node: str = "n2", level: str = "QUORUM"
) -> list[str]:
    answer = {"consistency": level, "value": value, "writetime": None if value is None else value * 1000}
    return [
        f'@{ms} p{process} {node} invoke {f} k.q/0 {{"consistency": "{level}"}}',
        f"@{ms + 1} p{process} {node} ok {orjson.dumps(answer).decode()}",
    ]


def judge(*parts: list[str]) -> Verdict:
    return Quorum().check(judged([*CREATED, *(line for part in parts for line in part)]), limit_s=5)


SERIES = [changed(2, 100, number=1), changed(1, 200, number=2), changed(2, 300, number=3), changed(3, 400, number=4)]


@pytest.mark.parametrize("written", [10, 150, 250, 350, 450])
@pytest.mark.parametrize("read", [160, 260, 360, 460])
def test_a_value_is_owed_in_every_period_after_it(written: int, read: int) -> None:
    history = {10: put(1, 10, 7), written: put(2, written, 8)} | {100 * n: step for n, step in enumerate(SERIES, 1)}
    for value, kinds in ((8, set()), (7, {"missed-quorum-write"}), (None, {"missed-quorum-write"})):
        if written == 10 and value == 7:
            continue
        reads = [*get(3, 20, 7), *get(4, 470, 8)] if written > 10 else get(4, 470, 8)
        steps = [step for _, step in sorted({**history, read: get(9, read, value)}.items())]
        kept = [line for step in steps for line in step]
        verdict = judge(sorted([*kept, *reads], key=lambda line: int(line[1:].split()[0])))
        if written < read:
            assert {each.type for each in verdict.anomalies} == kinds
            assert verdict.valid is (not kinds)
        elif value == 7:
            assert verdict.valid is True


def test_a_repair_that_failed_brings_nothing() -> None:
    down = [changed(2, 100, number=1), changed(1, 200, number=2)]
    for up, valid in ((changed(3, 300, number=3), False), (changed(3, 300, number=3, outcome="info"), True)):
        assert judge(put(1, 10, 7), *down, up, get(2, 400, None, node="n1")).valid is valid
        assert judge(put(1, 10, 7), *down, up, get(2, 400, 7, node="n1")).valid is True
    partial = changed(3, 300, number=3, repaired="n1")
    steps = [put(1, 10, 7), *down, partial, get(2, 400, None, node="n1")]
    assert (
        Quorum().check(judged([START, *CREATED, *(line for step in steps for line in step)]), limit_s=5).valid
        == "unknown"
    )


MEMBERS = {
    node: {"state": "normal", "expected": "normal", "address": f"10.0.0.{node[1]}"} for node in ("n1", "n2", "n3")
}
START = f"@1 -- info membership {orjson.dumps({'at': 'boot', 'members': MEMBERS}).decode()}"


def test_probes_are_judged_by_the_last_factor_and_what_the_changes_left() -> None:
    final = ['@500 -- info phase {"phase": "final-settled", "state": "begins"}']

    def probed(*held: int | None) -> list[str]:
        return [
            line
            for number, value in enumerate(held)
            for line in get(50 + number, 510 + 5 * number, value, f="probe", node=f"n{number + 1}", level="ONE")
        ]

    assert judge(put(1, 10, 7), *SERIES, final, probed(7, 7, 7)).valid is True
    (found,) = judge(put(1, 10, 7), *SERIES, final, probed(7, 7, None)).anomalies
    assert (found.type, found.evidence["promised"]) == ("under-replicated-value", 3)
    # Put while the last repair went on: a quorum of three has it.
    assert judge(*SERIES, put(1, 405, 7), final, probed(7, 7, None)).valid is True
    assert judge(*SERIES, put(1, 405, 7), final, probed(7, None, None)).valid is False


@pytest.mark.parametrize(("completed", "valid"), [(101, False), (102, "unknown")])
def test_changes_one_after_the_other_are_in_order_and_those_that_overlap_are_not(
    completed: int, valid: bool | str
) -> None:
    """To one replica and back to three; the put and the get come after both, and owe one another nothing by one replica."""
    down, up = altered(1, 99, process=90), altered(3, 101, process=91)
    down[1] = down[1].replace("@100 ", f"@{completed} ")
    changes = sorted([*down, *up], key=lambda line: int(line[1:].split()[0]))
    assert judge(changes, put(1, 200, 7), get(2, 300, None, node="n1")).valid == valid


@pytest.mark.parametrize(("changed_at", "accused"), [(509, True), (510, False), (515, False)])
def test_probes_are_judged_if_the_last_change_was_asked_for_before_the_first_of_them(
    changed_at: int, *, accused: bool
) -> None:
    """A put at ALL by two replicas, of which one has it when there are three."""
    final = ['@500 -- info phase {"phase": "final-settled", "state": "begins"}']
    probed = [
        get(50 + at, 510 + 5 * at, value, f="probe", node=f"n{at + 1}", level="ONE")
        for at, value in enumerate((7, None, None))
    ]
    parts = [altered(2, 100, process=90), put(1, 450, 7, "ALL"), altered(3, changed_at, process=91), final, *probed]
    lines = sorted((line for part in parts for line in part), key=lambda line: int(line[1:].split()[0]))
    assert [one.type for one in judge(lines).anomalies] == (["under-replicated-value"] if accused else [])


CREATED_OF_ONE = [line.replace('"replication_factor": 3', '"replication_factor": 1') for line in CREATED]


def verdict_of(*parts: list[str], seen: list[str] | None = None) -> Verdict:
    lines = sorted((line for part in parts for line in part), key=lambda line: int(line[1:].split()[0]))
    return Quorum().check(judged(lines, seen or []), limit_s=5)


def types_of(verdict: Verdict) -> set[str]:
    return {found.type for found in verdict.anomalies}


@pytest.mark.parametrize(
    ("start_ms", "shown_ms", "owed"),
    [
        pytest.param(None, None, True, id="no restart"),
        pytest.param(17_050, None, False, id="ended before what it knew was surely on its disk"),
        pytest.param(17_101, None, False, id="ended just before"),
        pytest.param(17_102, None, True, id="ended just then"),
        pytest.param(17_200, None, True, id="ended after"),
        pytest.param(17_050, 17_250, True, id="showed it again after its start"),
        pytest.param(17_050, 17_020, False, id="showed it again before its start"),
    ],
)
def test_a_process_that_ends_may_forget_a_factor_that_it_learned_of_shortly_before(
    start_ms: int | None, shown_ms: int | None, *, owed: bool
) -> None:
    """The end is at most 2.001 s before the start is noted; what was acknowledged at 101 ms is on the disk 15 s later."""
    starts = [f'@{start_ms} -- n1 info node-start {{"phase": "fault", "served": true, "seconds": 0.001}}']
    seen = f'@{shown_ms} running#{shown_ms} n1 keyspace k {{"replication": {{"class": "S", "replication_factor": 3}}}}'
    requests = [put(1, 17_300, 7), get(2, 17_400, None, node="n1")]
    verdict = verdict_of(
        CREATED_OF_ONE,
        altered(3, 100, process=900),
        starts if start_ms else [],
        *requests,
        seen=[seen] if shown_ms else [],
    )
    assert types_of(verdict) == ({"missed-quorum-write"} if owed else set())
    assert verdict.valid == (False if owed else "unknown")


LEFT_ON_ONE = [START, *CREATED, *put(1, 10, 7), *changed(2, 100, number=1), *changed(1, 200, number=2)]


@pytest.mark.parametrize(
    ("begins", "ends", "outcome", "is_certain"),
    [
        pytest.param(280, 299, "ok", True, id="before"),
        pytest.param(280, 300, "ok", False, id="until it began"),
        pytest.param(303, 306, "ok", False, id="during"),
        pytest.param(310, 320, "ok", False, id="from when it ended"),
        pytest.param(311, 320, "ok", True, id="after"),
        pytest.param(280, 299, "info", False, id="may still go on"),
    ],
)
def test_a_repair_while_another_operation_goes_on_promises_nothing(
    begins: int, ends: int, outcome: str, *, is_certain: bool
) -> None:
    value = {"operation": 9, "nodes": ["n3"], "parameters": {}, "becomes": {}}
    other = [
        f"@{begins} -- invoke move {orjson.dumps(value).decode()}",
        f"@{ends} -- {outcome} move {orjson.dumps({**value, 'effect': {'attempts': []}}).decode()}",
    ]
    repair = changed(3, 300, number=3)
    verdict = verdict_of(LEFT_ON_ONE, repair, other, get(2, 400, None, node="n1"))
    assert types_of(verdict) == ({"missed-quorum-write"} if is_certain else set())
    assert verdict.valid == (False if is_certain else "unknown")
    assert verdict_of(LEFT_ON_ONE, repair, other, get(2, 400, 7, node="n1")).valid is True


@pytest.mark.parametrize(
    ("attempts", "shown_by", "is_certain"),
    [
        pytest.param([("n1", "ok"), ("n2", "ok"), ("n3", "fail"), ("n3", "ok")], "n1,n2,n3", True, id="tried again"),
        pytest.param([("n1", "ok"), ("n2", "ok"), ("n3", "ok"), ("n3", "fail")], "n1,n2,n3", False, id="failed last"),
        pytest.param([("n1", "ok"), ("n2", "ok"), ("n3", "ok")], "n1,n2", False, id="not known to one"),
    ],
)
def test_a_repair_counts_when_every_member_ended_it_and_knew_the_factor(
    attempts: list[tuple[str, str]], shown_by: str, *, is_certain: bool
) -> None:
    value = {"operation": 3, "nodes": [], "parameters": {}, "becomes": {}}
    tried = [{"outcome": outcome, "command": "repair k", "node": node} for node, outcome in attempts]
    effect = {"attempts": tried, "keyspace": "k", "to": 3, "shown_by": shown_by.split(",")}
    repair = [
        f"@300 -- invoke rf-change {orjson.dumps(value).decode()}",
        *altered(3, 301, process=903),
        f"@310 -- ok rf-change {orjson.dumps({**value, 'effect': effect}).decode()}",
    ]
    verdict = verdict_of(LEFT_ON_ONE, repair, get(2, 400, None, node="n1"))
    assert types_of(verdict) == ({"missed-quorum-write"} if is_certain else set())
    assert verdict.valid == (False if is_certain else "unknown")


@pytest.mark.parametrize(
    ("level", "lowered_ms", "outcome", "promised"),
    [
        pytest.param("ALL", 400, "ok", 3, id="all of four"),
        pytest.param("QUORUM", 400, "ok", None, id="three of four, of which one is no replica any more"),
        pytest.param("ALL", 509, "ok", 3, id="asked for just before the probes"),
        pytest.param("ALL", 510, "ok", 0, id="asked for when the probes began"),
        pytest.param("ALL", 400, "info", 3, id="of unknown outcome"),
    ],
)
def test_a_factor_that_is_lowered_before_the_probes_leaves_what_the_last_replicas_had(
    level: str, lowered_ms: int, outcome: str, promised: int | None
) -> None:
    """`promised`: None if one replica may lack the value, 0 if which factor is the last one is not known."""
    final = ['@500 -- info phase {"phase": "final-settled", "state": "begins"}']
    probes = [
        get(50 + number, 510 + 5 * number, value, f="probe", node=f"n{number + 1}", level="ONE")
        for number, value in enumerate((7, 7, None))
    ]
    raised, lowered = altered(4, 100, process=900), altered(3, lowered_ms, process=901, outcome=outcome)
    verdict = verdict_of(CREATED, raised, put(1, 200, 7, level), lowered, final, *probes)
    assert [each.evidence["promised"] for each in verdict.anomalies] == ([promised] if promised else [])
    assert [doubt.kind for doubt in verdict.doubts] == (["undecided"] if promised == 0 else [])


@pytest.mark.parametrize("answered_ms", [149, 160])
def test_of_changes_that_overlap_the_order_is_not_known(answered_ms: int) -> None:
    """3, 1 and 3 again: the last factor may be 1, of which a later reader's quorum need not know."""
    down, up = altered(1, 100, process=900), altered(3, 150, process=901)
    down[1] = f"@{answered_ms} {down[1].split(' ', 1)[1]}"
    history = (CREATED, down, up, put(1, 200, 7), get(2, 300, None, node="n1"))
    verdict = verdict_of(*history)
    assert types_of(verdict) == ({"missed-quorum-write"} if answered_ms < 150 else set())
