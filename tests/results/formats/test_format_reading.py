"""Whole history files: what becomes of them, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.harness.history.pairing import pair
from schemaquake.harness.model.records import HISTORY
from schemaquake.results.formats.op_maps import RAW
from schemaquake.results.formats.possible import is_possible
from schemaquake.results.formats.reading import read_history
from schemaquake.results.formats.sequence import sequenced
from schemaquake.results.store.store import write_table


@pytest.fixture
def read(tmp_path):
    def history(source: str, suffix: str = ".edn", **options: Any) -> pa.Table:
        path = tmp_path / f"history{suffix}"
        path.write_text(source, encoding="utf-8")
        return read_history(path, **options)

    return history


def column(table: pa.Table, name: str) -> list[Any]:
    return table[name].to_pylist()


def test_an_edn_history_of_a_register(read):
    table = read(
        """
        {:type :invoke, :f :write, :value 3, :process 0, :time 10, :index 0}
        {:process :nemesis, :type :info, :f :start-partition, :value [:isolated {"n1" #{"n2"}}], :time 11, :index 1}
        {:type :info, :f :write, :value 3, :process 0, :time 15, :index 2, :error [:timeout "n1"]}
        {:type :invoke, :f :read, :value nil, :process 1, :time 20, :index 3, :node "n2"}
        {:type :ok, :f :read, :value 3, :process 1, :time 25, :index 4}"""
    )
    assert table.schema.equals(HISTORY)
    assert column(table, "type") == ["invoke", "info", "info", "invoke", "ok"]
    assert column(table, "process") == [0, -1, 0, 1, 1]
    assert column(table, "value") == ["3", '["isolated",{"n1":["n2"]}]', "3", None, "3"]
    assert column(table, "error") == [None, None, '["timeout","n1"]', None, None]
    assert column(table, "node")[3] == "n2"
    assert column(table, "time") == [10, 11, 15, 20, 25]


def test_a_read_of_two_elements_is_one_that_has_read_nothing_yet(read):
    table = read("{:type :invoke :f :txn :process 0 :value [[:r :x] [:append :x 1]]}\n"
                 "{:type :ok :f :txn :process 0 :value [[:r :x nil] [:append :x 1]]}")  # fmt: skip
    asked, answered = column(table, "mops")
    assert asked == answered
    assert [mop["f"] for mop in asked] == ["r", "append"]
    assert asked[0]["v"] is asked[0]["vs"] is None


def test_transactions_become_micro_operations_in_edn_as_in_json(read):
    edn = read("{:type :invoke :f :txn :process 0 :value [[:append 5 1] [:r 6 nil]]}\n"
               "{:type :ok :f :txn :process 0 :value [[:append 5 1] [:r 6 [1 2]]]}")  # fmt: skip
    json = read(
        '[{"type":"invoke","f":"txn","process":0,"value":[["append",5,1],["r",6,null]]},'
        '{"type":"ok","f":"txn","process":0,"value":[["append",5,1],["r",6,[1,2]]]}]',
        ".json",
    )
    assert edn.equals(json)
    assert column(edn, "mops")[1] == [
        {"f": "append", "k": 5, "v": 1, "vs": None},
        {"f": "r", "k": 6, "v": None, "vs": [1, 2]},
    ]
    assert column(edn, "value") == [None, None]


def test_keys_and_elements_that_are_no_integers_get_numbers_and_keep_their_names(read):
    table = read('{:type :invoke :process 0 :value [[:w :x 1] [:w "y" :a] [:r :x nil] [:append 5 5]]}')
    ((one, two, three, four),) = column(table, "mops")
    assert column(table, "f") == ["txn"]
    assert one["k"] == three["k"] != two["k"]
    assert (one["v"], four["k"], four["v"]) == (1, 5, 5)
    names = orjson.loads(table.schema.metadata[b"names"])
    assert [names[str(number)] for number in (one["k"], two["k"], two["v"])] == ['"x"', '"y"', '"a"']


def test_independent_keys_are_taken_apart_only_when_asked_for(read):
    source = "{:type :invoke :f :read :process 0 :value [3 nil]}\n{:type :ok :f :read :process 0 :value [3 4]}"
    assert column(read(source), "value") == ["[3,null]", "[3,4]"]
    apart = read(source, independent=True)
    assert column(apart, "key") == ["3", "3"]
    assert column(apart, "value") == [None, "4"]


def test_keys_that_look_alike_are_told_apart(read):
    source = "".join(
        f"{{:type :invoke :f :read :process {process} :value [{key} nil]}}"
        for process, key in enumerate(["1", '"1"', ":k", '"k"', "[1]"])
    )
    assert column(read(source, independent=True), "key") == ["1", '"1"', "k", "k", "[1]"]


def test_missing_times_and_indices_are_the_order_of_the_file(read):
    table = read("{:type :invoke :f :read :process 0}{:type :ok :f :read :process 0 :value 1}")
    assert column(table, "index") == column(table, "time") == [0, 1]


def test_clocks_that_lag_behind_the_order_of_the_file_are_moved_forward(read):
    times = [5, 9, 7, 7, 8, 20]
    source = "".join(f"{{:type :invoke :f :read :process {n} :time {t}}}" for n, t in enumerate(times))
    assert column(read(source), "time") == [5, 9, 10, 11, 12, 20]


def test_an_index_that_is_not_in_order_orders_the_events(read):
    table = read("{:type :ok :f :read :process 0 :index 7}{:type :invoke :f :read :process 0 :index 3}")
    assert column(table, "type") == ["invoke", "ok"]
    assert column(table, "index") == [3, 7]


def test_without_processes_each_operation_is_paired_by_what_it_says(read):
    table = read(
        "{:type :invoke :f :read :value nil}{:type :invoke :f :write :value 5}{:type :invoke :f :write :value 6}"
        "{:type :ok :f :write :value 6}{:type :ok :f :read :value 5}"
    )
    operations = pair(table).to_pylist()
    assert [(row["f"], row["argument"], row["type"]) for row in operations] == [
        ("read", None, "ok"),
        ("write", "5", "info"),
        ("write", "6", "ok"),
    ]
    assert len({row["process"] for row in operations}) == 3


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{:type :ok :f :read :process 4}", "line 1: ok of read by process 4, which it did not invoke"),
        (
            "{:type :invoke :f :read :process 4}\n{:type :ok :f :write :process 4}",
            "line 2: ok of write by process 4, which invoked read (line 1)",
        ),
        (
            "{:type :invoke :f :read :process 4}\n\n{:type :invoke :f :read :process 4}",
            "line 3: process 4 invokes read while its operation of line 1 is still open",
        ),
        (
            "{:type :invoke :f :read :process 4}\n{:type :info :f :read :process 4}\n{:type :invoke :f :read :process 4}",
            "line 3: process 4 invokes read after its info of line 2",
        ),
        ("{:type :invoke :f :read :index 1}\n{:type :ok :f :read :index 1}", "line 2: index 1 occurs twice"),
        ("{:f :read :process 1}", "line 1: type must be invoke, ok, fail or info, not null"),
        ("{:type :invoke :process 1 :value 4}", "line 1: the operation has no f"),
        ("{:type :invoke :f :read :process 1.5}", "line 1: process must be a number or a name, not 1.5"),
        ("{:type :invoke :f :read :process 1 :time :x}", 'line 1: time must be an integer, not "x"'),
        ("{:type :invoke :f :read :process 99999999999}", "not a valid process number"),
        ("[1 2]", "line 1: an operation must be a map, not 1"),
        ("{:type :ok :f :read}", "which could complete nothing that was invoked"),
        (
            "{:type :invoke :f :read}{:type :invoke :f :read}{:type :ok :f :read :value 1}",
            "which could complete any of 2 operations",
        ),
        (
            "{:type :invoke :f :txn :process 0 :value [[:w 1 -5000000000000000000]]}",
            "line 1: a transaction with the number -5000000000000000000, which is too large",
        ),
    ],
)
def test_what_no_history_can_be_is_refused_with_line_and_reason(read, source, said):
    with pytest.raises(HistoryError) as refused:
        read(source)
    assert said in str(refused.value)


def test_independent_keys_that_are_none_are_refused(read):
    with pytest.raises(HistoryError, match=r"line 1: with independent keys a value must be \[key value\], not 5"):
        read("{:type :invoke :f :write :process 0 :value 5}", independent=True)


def test_our_own_parquet_is_read_back(read, tmp_path):
    table = read("{:type :invoke :f :read :process 0}")
    write_table(tmp_path / "h.parquet", table)
    assert read_history(tmp_path / "h.parquet").select(["f", "process"]).equals(table.select(["f", "process"]))


def test_a_format_nobody_knows_is_refused(tmp_path):
    path = Path(tmp_path / "history.txt")
    path.write_text("")
    with pytest.raises(
        PlanError, match=r"the format is not clear from the file name; give --format edn, json or parquet$"
    ):
        read_history(path)
    with pytest.raises(PlanError, match='format "csv" cannot be read'):
        read_history(path, file_format="csv")
    with pytest.raises(PlanError, match="does not exist"):
        read_history(tmp_path / "nothing.edn")


@settings(deadline=None, max_examples=examples(100))
@given(
    st.lists(
        st.tuples(
            st.sampled_from([-1, 0, 1, 2, 90]),
            st.sampled_from(["invoke", "invoke", "ok", "ok", "fail", "info"]),
            st.sampled_from(["read", "write"]),
        ),
        max_size=8,
    )
)
@example([(0, "invoke", "read"), (0, "ok", "read"), (0, "invoke", "read")])
@example([(0, "invoke", "read"), (0, "info", "read"), (0, "invoke", "read")])
def test_one_pass_finds_possible_what_no_reason_is_found_against(events):
    """The compiled pass may be unsure, and then the reason is searched; it must never pass what has one."""
    rows = [
        {"line": at + 1, "process": process, "type": "info" if process == -1 else kind, "f": f}
        for at, (process, kind, f) in enumerate(events)
    ]
    raw = pa.Table.from_pylist([{**dict.fromkeys(RAW.names), **row} for row in rows], schema=RAW)
    processes = np.array([row["process"] for row in rows], np.int64)
    kinds = np.array([("invoke", "ok", "fail", "info").index(str(row["type"])) for row in rows], np.int64)
    functions = np.array([len(str(row["f"])) for row in rows], np.int64)
    possible = is_possible(processes, kinds, functions)
    try:
        sequenced(raw, "h")
    except HistoryError:
        assert not possible
    else:
        assert possible or processes.max() > 16 * len(processes)
