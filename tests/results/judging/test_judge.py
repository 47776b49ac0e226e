from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from histories import judged
from questioners import Counts, Crashes, Endless, FailedInserts, NoVerdict, Says, Slow
from small_runs import small_run

import schemaquake.results.judging.judge
from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.model.records import HISTORY, Records
from schemaquake.harness.model.verdict import Anomaly, Doubt, Verdict, make_stats
from schemaquake.harness.registry import load_all
from schemaquake.results.judging import judge as judge_module
from schemaquake.results.judging.judge import judge
from schemaquake.results.judging.sources import HistoryFile
from schemaquake.results.store.store import Store, write_table

RUN = small_run(11)


def part(verdict: Verdict, checker: str) -> Verdict:
    (found,) = [one for one in verdict.parts if one.checker == checker]
    return found


def only(checker: object, records: Records = RUN, **options: float) -> Verdict:
    return judge(records, checkers=[checker], **options).parts[0]


@pytest.fixture
def registered(monkeypatch):
    """Checkers as if they were installed."""

    def install(*checkers: object) -> None:
        monkeypatch.setattr(
            schemaquake.results.judging.judge, "load_all", lambda kind: {checker.name: checker for checker in checkers}
        )

    return install


def stored(folder: Path) -> Store:
    store = Store.create(folder, "w", "s:1")
    store.write_history(RUN.history)
    store.write_observations(RUN.observations)
    (store.path("nodes") / "n1").mkdir(parents=True)
    lines = [
        f"{level} [main] 2026-11-21 09:00:00,000 A.java:1 - {message}\n"
        for level, message in (("WARN ", "slow"), ("INFO ", "Requesting schema"), ("INFO ", "x"))
    ]
    (store.path("nodes") / "n1" / "system-0.log").write_text("".join(lines))
    return store


# ── what is judged ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_keyspaces_apart_find_what_the_run_as_a_whole_has():
    apart, whole = only(FailedInserts("keyspace")), only(FailedInserts("run"))
    assert apart.anomalies == whole.anomalies
    assert apart.anomalies
    assert apart.valid is False
    assert apart.figures["judged"] == whole.figures["judged"]
    assert apart.figures["keyspaces"] == 5


def test_a_part_has_one_keyspace_and_every_note():
    stats = only(FailedInserts("keyspace")).figures
    assert stats["keyspaces_seen"] == ["ks0", "ks1", "ks2", "ks3", "ks4"]
    assert stats["notes"] == 5 * 5


OF_TWO = Doubt("undecided", "who knows", ("ks1.t", "ks3"))


@pytest.mark.parametrize(
    ("doubts", "undecided"),
    [
        pytest.param((OF_TWO,), ("ks1", "ks3"), id="objects"),
        pytest.param((OF_TWO, Doubt("unread", "n2's disk")), None, id="everything"),
        pytest.param((OF_TWO, Doubt("undecided", "a key", ("17",))), None, id="no-keyspace-of-the-run"),
    ],
)
@pytest.mark.parametrize("valid", ["unknown", False])
def test_doubts_of_a_checker_of_the_run_leave_the_keyspaces_decided_that_they_are_not_about(doubts, undecided, valid):
    anomalies = () if valid else (Anomaly(type="lost-rows", title="t", objects=("ks0.t",)),)
    assert only(Says(valid, doubts=doubts, anomalies=anomalies)).undecided == undecided


def test_a_question_that_did_not_arise_leaves_nothing_undecided():
    verdict = only(Says("unknown", doubts=(Doubt("nothing-to-judge", "no set", ("ks1",)),)))
    assert verdict.judged_nothing
    assert verdict.undecided is None


def test_a_checker_of_the_run_gets_everything(tmp_path):
    stats = only(Counts(), stored(tmp_path)).figures
    assert stats == {
        "events": len(RUN.history),
        "observations": len(RUN.observations),
        "messages": ["slow", "Requesting schema"],
    }


def test_log_entries_below_warn_are_there_only_if_a_checker_notes_them(tmp_path):
    assert only(Counts(noted=()), stored(tmp_path)).figures["messages"] == ["slow"]


def test_a_verdict_is_the_same_every_time_and_survives_json():
    once = judge(RUN, checkers=[FailedInserts(), Counts(), Says("unknown", doubts=(Doubt("time", "r"),))])
    assert (
        judge(RUN, checkers=[FailedInserts(), Counts(), Says("unknown", doubts=(Doubt("time", "r"),))]).to_json()
        == once.to_json()
    )
    assert Verdict.from_json(once.to_json()) == once
    assert once.anomalies[0].evidence["pair"] == [1, 2]


def test_the_run_has_the_anomalies_of_its_checkers_and_their_verdicts_in_the_order_asked():
    verdict = judge(RUN, checkers=[Says(name="z"), FailedInserts()])
    assert verdict.valid is False
    assert verdict.checker == "all"
    assert [one.checker for one in verdict.parts] == ["z", "failed-inserts"]
    assert verdict.anomalies == verdict.parts[1].anomalies
    assert verdict.figures == {"events": len(RUN.history), "keyspaces": 5, "checkers": 2, "nothing_to_judge": []}


def test_anomalies_of_a_checker_of_the_run_are_put_in_order_too():
    two = (Anomaly(type="b", title=""), Anomaly(type="a", title=""))
    assert [one.type for one in only(Says(False, anomalies=two)).anomalies] == ["a", "b"]


# ── unknown ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_without_anything_to_judge_is_unknown():
    nothing = Records.of(HISTORY.empty_table())
    verdict = judge(nothing, checkers=[FailedInserts()])
    assert verdict.valid == "unknown"
    assert "nothing to judge" in (verdict.reason or "")


@pytest.mark.parametrize("checker", sorted(load_all("checkers")))
@pytest.mark.parametrize("outcome", ["fail InvalidRequest: no", "info OperationTimedOut"])
def test_no_checker_asked_by_name_calls_a_run_valid_in_which_nothing_was_acknowledged(checker, outcome):
    calls = ("create-table k.t a:int*", 'insert k.t {"row": {"a": 1}}', 'read-rows k.t {"phase": "settled"}')
    history = [line for n, call in enumerate(calls) for line in (f"p{n} n1 invoke {call}", f"p{n} n1 {outcome}")]
    starts = [
        f'-- {node} info node-start {{"phase": "{phase}", "served": true, "seconds": 1}}'
        for phase in ("boot", "restart") for node in ("n1", "n2")
    ]  # fmt: skip
    disks = [f"settled,restarted n1,n2 {row}" for row in ("keyspace k", "table k.t id=aa a:int*", "version v")]
    logs = [f"{node} boot{boot} WARN main: JNA is not there" for node in ("n1", "n2") for boot in (0, 1)]
    verdict = judge(judged([*starts, *history], disks, logs), checkers=[checker])
    assert verdict.valid == "unknown", verdict.parts[0]
    assert verdict.doubts


def test_a_checker_that_crashes_makes_its_own_part_unknown():
    verdict = judge(RUN, checkers=[Crashes(scope="run"), Says()])
    assert verdict.valid == "unknown"
    assert part(verdict, "says").valid is True
    reason = part(verdict, "crashes").reason or ""
    assert reason.startswith("it crashed, which says nothing about the cluster.\nTraceback")
    assert reason.endswith("ZeroDivisionError: a defect of the checker")
    assert "questioners.py" in reason
    assert "judge.py" not in reason


def test_a_crash_on_one_keyspace_leaves_the_others_judged():
    verdict = only(Crashes(on="ks2"))
    assert verdict.valid == "unknown"
    assert verdict.figures["keyspaces"] == 5
    assert (verdict.reason or "").endswith("ZeroDivisionError: a defect of the checker (ks2)")


def test_a_crash_does_not_hide_what_others_found():
    assert judge(RUN, checkers=[Crashes(), FailedInserts()]).valid is False


@pytest.mark.parametrize("answer", [None, "valid", {"valid": True}], ids=str)
def test_an_answer_that_is_no_verdict_is_unknown(answer):
    verdict = only(NoVerdict(answer))
    assert verdict.valid == "unknown"
    assert "it crashed" in (verdict.reason or "")


@pytest.mark.parametrize("valid", ["maybe", None, 1])
def test_a_validity_that_is_none_is_a_crash_of_its_checker(valid):
    verdict = only(Says(valid))
    assert verdict.valid == "unknown"
    assert [doubt.kind for doubt in verdict.doubts] == ["crashed"]


def test_valid_with_anomalies_is_a_contradiction_and_not_valid():
    verdict = only(Says(True, anomalies=(Anomaly(type="a", title=""),)))
    assert verdict.valid == "unknown"
    assert "contradicts itself" in (verdict.reason or "")
    assert len(verdict.anomalies) == 1


def test_a_checker_that_does_not_end_is_ended_within_twice_its_limit():
    began = time.monotonic()
    verdict = judge(RUN, checkers=[Endless(), Says()], limit_s=0.2)
    assert 0.4 <= time.monotonic() - began < 5
    assert "did not end by itself within twice its limit of 0.2 s" in (part(verdict, "endless").reason or "")
    assert part(verdict, "says").valid is True


def test_keyspaces_share_their_checkers_limit():
    began = time.monotonic()
    verdict = judge(RUN, checkers=[Slow(), FailedInserts()], limit_s=0.2)
    assert time.monotonic() - began < 5
    slow = part(verdict, "slow")
    assert slow.valid == "unknown"
    assert slow.reason == "its time limit of 0.2 s had passed before it came to this (ks1, ks2, ks3 and 1 more)"
    assert part(verdict, "failed-inserts").figures["keyspaces"] == 5, "each checker has its own limit"


def test_of_all_registered_checkers_those_without_anything_to_judge_are_left_out(registered):
    nothing = Says("unknown", name="views", doubts=(Doubt("nothing-to-judge", "no view"),))
    registered(nothing, Says(name="observed", vouches=False), Says(name="tables", scope="keyspace"))
    verdict = judge(RUN)
    assert verdict.valid is True
    assert verdict.figures["nothing_to_judge"] == ["views"]
    assert judge(RUN, checkers=[nothing, Says(name="observed", vouches=False), Says(name="tables")]).valid == "unknown"


def test_a_keyspace_that_nobody_judged_although_operations_succeeded_makes_the_run_unknown(registered):
    registered(OnlyIn("ks1"), Says(name="observed", vouches=False))
    verdict = judge(RUN)
    assert verdict.valid == "unknown"
    assert [doubt.objects for doubt in verdict.doubts] == [("ks0", "ks2", "ks3", "ks4")]
    assert part(verdict, "only-in").valid is True


class OnlyIn:
    name = "only-in"
    scope = "keyspace"
    vouches = True

    def __init__(self, keyspace: str) -> None:
        self._keyspace = keyspace

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        keys = {(key or "").split(".")[0] for key in records.history["key"].filter(mask(records)).to_pylist()}
        if self._keyspace in keys:
            return Verdict(valid=True, checker=self.name)
        return Verdict.unknown(self.name, Doubt("nothing-to-judge", "not here"))


def mask(records: Records) -> list[bool]:
    return [process >= 0 for process in records.history["process"].to_pylist()]


# ── what cannot be judged ────────────────────────────────────────────────────────────────────────────────────────────


def test_an_unknown_checker_is_refused_by_name():
    with pytest.raises(PlanError, match='unknown checker "no-such-checker"'):
        judge(RUN, checkers=["no-such-checker"])


def test_a_checker_is_asked_once():
    with pytest.raises(PlanError, match='"says" is named twice'):
        judge(RUN, checkers=[Says(), Says()])


def test_an_unknown_engine_is_refused():
    with pytest.raises(PlanError, match="--engine"):
        judge(RUN, checkers=[Says()], engine="dask")


def test_a_run_without_a_history_says_what_to_do(tmp_path):
    with pytest.raises(HistoryError, match=r"no history\.parquet"):
        judge(Store(tmp_path), checkers=[Says()])


class Warm:
    """A checker that has something to load, and may fail to."""

    name = "warm"
    scope = "run"
    vouches = True

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.warmed_in: list[threading.Thread] = []

    def warm(self) -> None:
        self.warmed_in.append(threading.current_thread())
        if self.error is not None:
            raise self.error

    def check(self, records: Records, *, limit_s: float) -> Verdict:
        assert self.warmed_in
        return Verdict(valid=True, checker=self.name, stats=make_stats({"rows": len(records.history)}))


@pytest.mark.parametrize("error", [None, ImportError("no compiler")])
def test_a_checker_loads_what_it_needs_while_a_history_file_is_read(tmp_path, error, monkeypatch):
    monkeypatch.setattr(judge_module, "_LONG", 1)
    write_table(tmp_path / "history.parquet", RUN.history)
    checker = Warm(error)
    verdict = judge(HistoryFile(tmp_path / "history.parquet"), checkers=[checker, Counts()], engine="local")
    assert verdict.valid is True
    assert part(verdict, "warm").figures["rows"] == len(RUN.history)
    assert len(checker.warmed_in) == 1
    assert threading.main_thread() not in checker.warmed_in


def test_nothing_is_loaded_for_a_small_history(tmp_path, monkeypatch):
    monkeypatch.setattr(judge_module, "_LONG", 1 << 30)
    write_table(tmp_path / "history.parquet", RUN.history)
    checker = Warm()
    judge(HistoryFile(tmp_path / "history.parquet"), checkers=[checker, Counts()], engine="local")
    assert not checker.warmed_in


def test_a_history_file_that_is_damaged_is_told_although_somebody_warms_up(tmp_path):
    (tmp_path / "history.parquet").write_bytes(b"PAR1 is not enough")
    with pytest.raises(HistoryError):
        judge(HistoryFile(tmp_path / "history.parquet"), checkers=[Warm()], engine="local")
