"""Spark says what this process says, to the letter: transactions and registers, whose pieces Spark carries."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from damage import damaged
from plain_verdicts import plainly
from register_histories import registers
from shared_histories import conformance, from_json
from small_histories import table

from schemaquake.checkers.elle.list_append import ListAppend
from schemaquake.checkers.elle.rw_register import RwRegister
from schemaquake.checkers.linearizability.linearizable import Linearizable
from schemaquake.harness.model.protocols import Checker
from schemaquake.harness.model.records import OBSERVATIONS
from schemaquake.results.engines import checks
from schemaquake.results.engines.engine import Spark
from schemaquake.results.judging import judge as judge_module
from schemaquake.results.judging.judge import judge
from schemaquake.results.judging.sources import HistoryFile
from schemaquake.results.runs.checking import check_path
from schemaquake.results.store import examination
from schemaquake.results.store.examination import examined_lent
from schemaquake.results.store.store import Store

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("spark"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

TRANSACTIONS = table(damaged(4, "list-append", count=150, keys=5, share=0.1))


def both(folder: Path, checker: Checker, events: pa.Table, *, rows: int) -> tuple[Any, Any]:
    file = folder / "history.parquet"
    pq.write_table(events, file, row_group_size=rows)
    one, other = (
        judge(HistoryFile(file), checkers=[checker], engine=engine, limit_s=600) for engine in ("spark", "local")
    )
    return plainly(one), plainly(other)


@pytest.mark.parametrize(
    ("checker", "events", "memory_bytes", "is_lent"),
    [
        (ListAppend(), TRANSACTIONS, None, False),
        (ListAppend(), TRANSACTIONS, 1 << 34, True),
        (Linearizable(), registers(3, keys=6, damage=0.05), 1 << 34, True),
    ],
    ids=["in pieces", "lean and whole", "wide and whole"],
)
def test_a_task_for_the_whole_is_lent_what_was_decoded(tmp_path, monkeypatch, checker, events, memory_bytes, is_lent):
    """A file of another tool is decoded once, by the process that examines it."""
    lent = []

    @contextmanager
    def remembered(path):
        with examined_lent(path) as place:
            lent.append(place)
            yield place

    monkeypatch.setattr(judge_module, "_LONG", 1)
    monkeypatch.setattr(judge_module, "examined_lent", remembered)
    monkeypatch.setattr(examination, "_HANDED_FROM", 1)
    file = tmp_path / "history.parquet"
    pq.write_table(events, file, row_group_size=40)
    one, other = (
        judge(HistoryFile(file), checkers=[checker], engine=engine, memory_bytes=memory_bytes)
        for engine in ("spark", "local")
    )
    assert plainly(one) == plainly(other)
    assert [place is not None for place in lent] == [True] * is_lent


def surroundings(group: pa.Table) -> pa.Table:
    pool, pages = pa.default_memory_pool().backend_name, os.environ.get("NUMPY_MADVISE_HUGEPAGE")
    return pa.table({"unit": group["unit"], "cores": [pa.cpu_count()], "pool": [pool], "pages": [pages]})


@pytest.mark.parametrize(("tasks", "cores"), [(1, 2), (2, 1), (3, 1)])
def test_a_task_that_is_alone_has_every_core_and_all_have_memory_as_the_command_has(spark, tasks, cores):
    groups = pa.table({"unit": pa.array(range(tasks), pa.int32())})
    schema = pa.schema([("unit", pa.int32()), ("cores", pa.int64()), ("pool", pa.string()), ("pages", pa.string())])
    carried = Spark(spark.sparkContext, 2).carry(surroundings, groups, schema)
    assert carried.sort_by("unit").to_pylist() == [
        {"unit": unit, "cores": cores, "pool": "system", "pages": "0"} for unit in range(tasks)
    ]


@pytest.mark.parametrize(
    ("checker", "seed"),
    [
        (ListAppend(), 4),
        pytest.param(ListAppend(models=("strong-session-serializable",)), 5, marks=pytest.mark.long),
        pytest.param(RwRegister(linearizable_keys=True), 6, marks=pytest.mark.long),
        pytest.param(RwRegister(models=("serializable",), wfr_keys=True), 7, marks=pytest.mark.long),
    ],
    ids=lambda value: value if isinstance(value, int) else value.name,
)
def test_transactions(tmp_path: Path, checker: Any, seed: int) -> None:
    events = table(damaged(seed, checker.name, count=150, keys=5, share=0.1))
    spark, local = both(tmp_path, checker, events, rows=40)
    assert spark == local
    assert local["valid"] is False
    assert local["anomalies"]


def test_registers_key_by_key(tmp_path: Path) -> None:
    spark, local = both(tmp_path, Linearizable(), registers(3, keys=6, damage=0.05), rows=50)
    assert spark == local
    assert local["valid"] is False


def test_text_is_read_here_and_judged_there(tmp_path: Path) -> None:
    file = tmp_path / "history.json"
    file.write_text(
        "\n".join(
            f'{{"index":{index},"type":"{of_type}","process":{process},"f":"txn","value":{value}}}'
            for index, (of_type, process, value) in enumerate(
                [
                    ("invoke", 0, '[["append",1,1]]'),
                    ("ok", 0, '[["append",1,1]]'),
                    ("invoke", 1, '[["r",1,null]]'),
                    ("ok", 1, '[["r",1,[]]]'),
                    ("invoke", 2, '[["r",1,null]]'),
                    ("ok", 2, '[["r",1,[1]]]'),
                ]
            )
        )
    )
    verdicts = [
        check_path(file, checkers=["list-append"], file_format=None, engine=engine, master=None, limit_s=60)
        for engine in ("spark", "local")
    ]
    assert plainly(verdicts[0]) == plainly(verdicts[1])
    assert verdicts[1].valid is False
    assert [anomaly.type for anomaly in verdicts[1].anomalies] == ["G-single-item-realtime"]


@pytest.mark.parametrize(("memory", "in_pieces"), [(8 << 30, False), (100 << 20, True)])
def test_a_history_is_judged_in_pieces_only_if_it_does_not_fit_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int, in_pieces: bool
) -> None:
    file = tmp_path / "history.parquet"
    pq.write_table(TRANSACTIONS, file, row_group_size=40)
    alone = judge(HistoryFile(file), checkers=[ListAppend()], engine="local", limit_s=600)
    carried: list[Path] = []
    select = checks.carried
    monkeypatch.setattr(checks, "carried", lambda *given: (carried.append(given[2]), select(*given))[1])
    verdict = judge(HistoryFile(file), checkers=[ListAppend()], engine="spark", limit_s=600, memory_bytes=memory)
    assert plainly(verdict) == plainly(alone)
    assert alone.valid is False
    assert bool(carried) == in_pieces


@pytest.mark.parametrize(
    "numbers", [("214",), pytest.param(("426", "096"), marks=pytest.mark.long)], ids=["one", "more"]
)
@pytest.mark.parametrize("kind", ["list-append", "rw-register"])
def test_histories_with_known_verdicts(tmp_path: Path, kind: str, numbers: tuple[str, ...]) -> None:
    chosen = [entry for entry in conformance(kind) if entry["id"][-3:] in numbers]
    assert chosen
    for entry in chosen:
        checker: Any = ListAppend() if kind == "list-append" else RwRegister()
        spark, local = both(tmp_path, checker, from_json(entry["ops"]), rows=20)
        assert spark == local, entry["id"]


def test_a_run_s_registers_are_judged_in_pieces_and_the_rest_whole(tmp_path: Path) -> None:
    store = Store.create(tmp_path, "register", "cassandra:5.0.9")
    store.write_history(registers(8, keys=6, damage=0.05))
    store.write_observations(OBSERVATIONS.empty_table())
    one, other = (
        plainly(judge(store, checkers=["linearizable", "stats", "late-writes"], engine=engine, limit_s=600))
        for engine in ("spark", "local")
    )
    assert one == other
    assert [part["checker"] for part in one["parts"]] == ["linearizable", "stats", "late-writes"]
    assert one["parts"][0]["valid"] is False
    assert not list(store.folder.glob(".schemaquake-*"))
