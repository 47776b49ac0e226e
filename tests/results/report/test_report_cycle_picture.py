"""Cycles as pictures: every transaction a box, every dependency an arrow with its reason; and the page that has them."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from small_histories import history

from schemaquake.checkers.elle.list_append import check_list_append
from schemaquake.checkers.elle.rw_register import check_rw_register
from schemaquake.harness.errors import PlanError
from schemaquake.harness.model.verdict import Anomaly, Verdict
from schemaquake.results.report.checked_page import render_checked_html
from schemaquake.results.report.cycle_picture import CyclePicture, cycle_picture
from schemaquake.results.report.html import render_report_html
from schemaquake.results.report.material import Material
from schemaquake.results.runs.checking import check_path, write_page

REAL_TIME = ("p0 1..2 ok a1=1", "p1 3..4 ok r1= a2=7", "p2 5..9 ok r2=[7] r1=[1] a3=1")


def skewed(count: int) -> tuple[str, ...]:
    """Each reads nothing of a key that the next one appends to."""
    return tuple(f"p{n} {n + 1}..{n + 101} ok r{n}= a{(n - 1) % count}=1 r{n + 50}=" for n in range(count))


def drawn(*lines: str) -> CyclePicture:
    (anomaly,) = check_list_append(history(*lines)).anomalies
    picture = cycle_picture(anomaly)
    assert picture is not None
    return picture


def test_a_box_a_transaction_and_an_arrow_a_dependency() -> None:
    picture = drawn(*REAL_TIME)
    assert [box.name for box in picture.boxes] == ["T1", "T2"]
    assert [[line.text for line in box.lines] for box in picture.boxes] == [
        ["read key 1: nothing", "append 7 to key 2"],
        ["append 1 to key 1"],
    ]
    assert [(arrow.kind, arrow.detail) for arrow in picture.arrows] == [
        ("rw", "key 1: nothing → 1"),
        ("realtime", "0.000 ms apart"),
    ]
    assert picture.summary == "A cycle of 2 transactions: T1 before T2 (rw), T2 before T1 (realtime)"


def test_what_the_cycle_is_told_by_stands_out() -> None:
    picture = drawn(*REAL_TIME)
    assert [line.text for box in picture.boxes for line in box.lines if line.is_evidence] == [
        "read key 1: nothing",
        "append 1 to key 1",
    ]


def test_each_arrow_says_why_and_the_last_one_what_is_wrong() -> None:
    picture = drawn(*REAL_TIME)
    said = [" ".join(line.text for line in arrow.words) for arrow in picture.arrows]
    assert said[0] == "T1 comes before T2, because T1 read key 1 as [], and T2 appended 1 next, as op 4 read."
    assert said[1].startswith("But T2 comes before T1, because T2 completed at 2 ns, before T1 was invoked at 3 ns")


@pytest.mark.parametrize("count", range(2, 9))
def test_boxes_of_cycles_of_up_to_eight_lie_one_below_the_other(count: int) -> None:
    picture = drawn(*skewed(count))
    assert [box.name for box in picture.boxes] == [f"T{n + 1}" for n in range(count)]
    assert len(picture.arrows) == count
    for above, below in pairwise(picture.boxes):
        assert below.y - above.y - above.height >= 40
    rows = sorted(line.y for arrow in picture.arrows for line in arrow.words)
    assert min((b - a for a, b in pairwise(rows)), default=17) >= 14
    assert max(rows) < picture.height
    assert picture.boxes[-1].y + picture.boxes[-1].height < picture.height


def test_of_a_longer_cycle_the_beginning_and_the_end_are_drawn() -> None:
    picture = drawn(*skewed(12))
    assert [box.name for box in picture.boxes] == [*(f"T{n + 1}" for n in range(7)), "…", "T12"]
    assert picture.boxes[7].head == "4 more transactions"
    assert picture.summary.startswith("A cycle of 12 transactions")


def test_a_transaction_of_many_micro_operations_keeps_those_that_tell() -> None:
    many = " ".join(f"a{n}=1" for n in range(10, 40))
    picture = drawn("p0 1..2 ok a1=1", f"p1 3..4 ok {many} r1=", "p2 5..6 ok r1=[1] r39=[1]")
    lines = [line.text for line in picture.boxes[0].lines]
    assert "read key 1: nothing" in lines
    assert lines[-1] == "… and 21 more"


def test_a_long_list_is_told_by_its_end() -> None:
    elements = ",".join(map(str, range(30)))
    appends = [f"p0 {2 * n + 1}..{2 * n + 2} ok a1={n}" for n in range(31)]
    picture = drawn(*appends, f"p1 70..71 ok r1=[{elements}]", f"p2 72..73 ok r1=[{elements},30]")
    (read,) = (line.text for box in picture.boxes for line in box.lines if line.text.startswith("read"))
    assert read == "read key 1: [0 1 2 … 24 25 26 27 28 29]"


def test_registers_are_drawn_in_words_too() -> None:
    verdict = check_rw_register(
        history("p0 1..9 ok w1=1 r2=5", "p1 2..8 ok r1=1 w2=5"), models=["serializable"], linearizable_keys=False
    )
    (picture,) = (cycle_picture(anomaly) for anomaly in verdict.anomalies)
    assert picture is not None
    assert {(arrow.kind, arrow.detail) for arrow in picture.arrows} == {("wr", "key 1: 1"), ("wr", "key 2: 5")}
    assert {line.text for box in picture.boxes for line in box.lines} == {
        "write 1 to key 1",
        "read key 2: 5",
        "read key 1: 1",
        "write 5 to key 2",
    }


def test_what_is_no_cycle_has_no_picture() -> None:
    verdict = check_list_append(history("p0 1..2 fail a1=1", "p1 3..4 ok r1=[1]"))
    assert [anomaly.type for anomaly in verdict.anomalies] == ["G1a"]
    assert [cycle_picture(anomaly) for anomaly in verdict.anomalies] == [None]
    assert cycle_picture(Anomaly(type="x", title="x", evidence={"steps": [1], "transactions": []})) is None


def test_the_cycle_in_the_verdict_has_nodes_and_edges() -> None:
    (anomaly,) = check_list_append(history(*REAL_TIME)).anomalies
    evidence: Any = anomaly.evidence
    assert evidence["steps"][0] == {
        "from": 2,
        "to": 0,
        "kind": "rw",
        "key": 1,
        "value": None,
        "next": 1,
        "because": "T1 read key 1 as [], and T2 appended 1 next, as op 4 read",
    }
    assert evidence["transactions"][1] == {
        "op": 0,
        "process": 0,
        "type": "ok",
        "invoked": 1,
        "completed": 2,
        "mops": [["append", 1, 1]],
    }


# ── pages ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def page(*lines: str) -> str:
    verdict = check_list_append(history(*lines))
    return render_checked_html(
        Verdict(
            valid=verdict.valid, checker="all", anomalies=verdict.anomalies, parts=(verdict,), doubts=verdict.doubts
        ),
        Path("history <b>.edn"),
        version="1",
        command=["schemaquake", "check", "history <b>.edn"],
    )


def test_a_page_on_a_history_stands_alone_and_has_the_picture() -> None:
    text = page(*REAL_TIME)
    assert text.count('<svg viewBox="0 0 1160') == 1
    assert "history &lt;b&gt;.edn" in text
    assert "<b>.edn" not in text
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", text.replace('href="https://issues', ""))
    assert "Not strong-serializable: it is broken in 1 way." in text


def test_a_valid_and_an_undecided_history_have_pages_too() -> None:
    assert "strong-serializable holds: no checker found an anomaly." in page("p0 1..2 ok a1=1", "p1 3..4 ok r1=[1]")
    assert "Not decided" in page("p0 1..2 fail a1=1")


def test_a_run_s_report_has_the_picture() -> None:
    verdict = check_list_append(history(*REAL_TIME))
    plan = {"system": "cassandra:5.0.9", "workloads": ["append"], "nodes": 3, "cluster": "local", "seed": 1}
    assert render_report_html(Material(run="r", plan=plan, verdict=verdict)).count('class="scroll picture cycle"') == 1


def test_a_page_is_written_where_one_asks_for_it(tmp_path: Path) -> None:
    file = tmp_path / "history.parquet"
    pq.write_table(history(*REAL_TIME), file)
    verdict = check_path(file, checkers=["list-append"], file_format=None, engine="local", master=None, limit_s=30)
    write_page(tmp_path / "page.html", file, verdict)
    assert 'class="scroll picture cycle"' in (tmp_path / "page.html").read_text(encoding="utf-8")
    with pytest.raises(PlanError, match="cannot be written to"):
        write_page(tmp_path / "nowhere" / "page.html", file, verdict)
