"""The scanner reads what the general readers read, and refuses what they refuse."""

from __future__ import annotations

import io
from types import ModuleType
from typing import Any

import orjson
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from schemaquake.harness.errors import HistoryError
from schemaquake.results.formats import ahead, edn, elle_json, fast_reading, text
from schemaquake.results.formats.op_maps import RAW, Malformed, Names, Rows
from schemaquake.results.formats.scanner import Scanner


def generally(source: bytes, notation: ModuleType, *, independent: bool = False) -> Any:
    rows = Rows(independent=independent, names=Names())
    try:
        for line, op in notation.forms(io.BytesIO(source), "h"):
            try:
                rows.add(op, line)
            except Malformed as error:
                return f"h, line {line}: {error}."
    except HistoryError as error:
        return str(error)
    return pa.Table.from_batches([rows.take()], RAW).to_pylist()


def fast(source: bytes, notation: ModuleType, *, independent: bool = False) -> Any:
    rows = Rows(independent=independent, names=Names())
    try:
        found = list(fast_reading.batches(io.BytesIO(source), "h", notation, rows, json=notation is elle_json))
    except HistoryError as error:
        return str(error)
    return pa.Table.from_batches(found, RAW).to_pylist()


ODDITIES = [
    "{:type :invoke :f :read :process 0}",
    "{:type :ok, :f :txn, :value [[:append 255 8] [:r 253 nil] [:r 1 [1 -2 3]] [:w 3 4]], :process 3, :index 2}",
    "{:type :ok :f :read :value {0 97, 1 0, :k [1 {} nil true]} :time 53137939465 :op-index 4 :process 1}",
    '{:process :nemesis, :type :invoke, :f :start-partition, :value [:isolated {"n1" #{"n2"}}], :time 1}',
    "{:process :nemesis, :type :info, :f :start, :value nil}",
    '{:type :fail :f :cas :value [3 4] :process 2 :error [:timeout "no"] :node "n1"}',
    "{:type :info :f :cas :value [3 4] :process 2 :error :indeterminate}",
    "{:type :invoke :f :txn :process 0 :value ([:append :x 1])}",
    "{:type :invoke :f :txn :process 0 :value []}",
    "{:type :invoke :process 0 :value [[:w 1 2]]}",
    "{:type :invoke :f :write :process 0 :value 12N}",
    "{:type :invoke :f :write :process 0 :value 1/2}",
    "{:type :invoke :f :write :process 0 :value -0}",
    "{:type :invoke :f :write :process 0 :value 1.5}",
    "{:type :invoke :f :write :process 0 :value 9223372036854775807}",
    '{:type :invoke :f :write :process 0 :value "é\\n"}',
    "{:type :invoke :f :write :process 0 :value a-symbol}",
    "#jepsen.history.Op{:index 0, :type :invoke, :process 0, :f :read, :value nil}",
    "{:type :invoke :f :read :process 0} ; and so on\n\n; {:type\n",
    '{:type :invoke :f :write :key "k" :process 0 :value {:a 1 :b {:c 2}}}',
    '{:type :invoke :f :write :process nil :value {0 1 "1" 2}}',
    "{:type :invoke :f :txn :process 0 :value [[:r 1 [2 nil]]]}",
    "{:type :invoke :f :txn :process 0 :value [[:rp 1 2]]}",
    "{:type :invoke :f :txn :process 0 :value [[:r 1] [:append 2 3] [:read 4 ]]}",
    "{:type :invoke :f :txn :process 0 :value [[:r 1]]}",
    "{:type :invoke :f :txn :process 0 :value [[:append 1]]}",
    "{:type :invoke :f :txn :process 0 :value [[:r] [:r 1 2 3]]}",
]
REFUSED = [
    "{:type :invoke :f :write :process 0 :value {:a 1 :a 2}}",
    "{:type :invoke :f :write :f :read :process 0}",
    "{:type :what :f :read}",
    "{:type :ok :f :read :process 0 :value [1 2}",
    "{:type :ok :f :read :process 0 :value (1 2]}",
    "{:type :ok :f :read :process 0 :value {:a}}",
    "{:type :ok :f :read :process 99999999999}",
    "{:type :ok :f :read :process 01}",
    "{:type :ok :f :read :process 0 :time :x}",
    "{:type :ok :f :read :process 0 :value [1",
    "{:type :ok",
    "17",
    "]]",
    "{:type :ok :f :read} {:type",
]


@pytest.mark.parametrize("op", ODDITIES)
def test_an_op_in_the_midst_of_others(op):
    plain = "{:type :invoke, :f :read, :process 7, :value 5}"
    for source in (f"{op}\n{plain}\n{op}\n{op}\n{plain}", f"[{plain}\n{op}]", f"({op} {op})"):
        expected = generally(source.encode(), edn)
        assert isinstance(expected, list)
        assert fast(source.encode(), edn) == expected


@pytest.mark.parametrize("op", REFUSED)
def test_what_the_general_reader_refuses_is_refused_in_the_same_words(op):
    for source in (f"{ODDITIES[0]}\n\n{op}", f"[{ODDITIES[0]}\n{op}"):
        expected = generally(source.encode(), edn)
        assert isinstance(expected, str)
        assert fast(source.encode(), edn) == expected


@pytest.mark.parametrize(
    "source",
    [
        '[{"type":"invoke","f":"txn","process":0,"value":[["append",1,2],["r",3,null],["r",4,[1,2]]]}]',
        '[{"type":"invoke","f":"txn","process":0,"value":[["r",1],["append",2,3],["r", 4 ]]}]',
        '[{"type":"invoke","f":"txn","process":0,"value":[["r",1,]]}]',
        '{"type":"ok","f":"read","process":0,"value":{"0":1,"b":[true,false,null]}}\n{"type":"ok","f":"read","value":[]}',
        '[{"type":"ok","f":"read","process":"nemesis","value":{"a":1.5}}, {"type":"ok","f":"r","process":1,"time":3}]',
        '[{"type":"ok","f":"read","process":0,"value":[1,,2]}]',
        '[{"type":"ok","f":"read","process":0,"value":[1 2]}]',
        '[{"type":"ok","f":"read","process":0,"value":[1,]}]',
        '[{"type":"ok" "f":"read"}]',
        '[{"type":"ok","f":"read",}]',
        '[{"type":"ok","f":"read","value":{1:2}}]',
        '[{"type":"ok","f":"read","value":"\\u00e9"}]',
        '[{"type":"ok","f":"read"}] 1',
        '[{"type":"ok","f":"read"}',
        '{"type":"ok","f":"read"}]',
        "",
        "[]",
    ],
)
def test_json_as_the_general_reader_has_it(source):
    assert fast(source.encode(), elle_json) == generally(source.encode(), elle_json)


@pytest.mark.parametrize(
    "value",
    [
        "[3 nil]",
        "[3 [1 2]]",
        "[:k 4]",
        '["k" [[:append 1 2]]]',
        "[:3 4]",
        "[:true 1]",
        "[[1] 2]",
        "[3 4 5]",
        "5",
        "nil",
    ],
)
def test_independent_keys(value):
    source = f"{{:type :invoke :f :write :process 0 :value {value}}}".encode()
    assert fast(source, edn, independent=True) == generally(source, edn, independent=True)


# ── any history ──────────────────────────────────────────────────────────────────────────────────────────────────────

INTEGERS = st.integers(-20, 20) | st.integers(-(10**18), 10**18)
WORDS = st.sampled_from(["a", "read", "k-1", "x.y", "n1"])
MICRO = st.tuples(
    st.sampled_from(["append", "r", "w", "read"]), INTEGERS, st.none() | INTEGERS | st.lists(INTEGERS, max_size=4)
)
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
OPS = st.fixed_dictionaries(
    {"type": st.sampled_from(["invoke", "ok", "fail", "info"]), "f": WORDS},
    optional={
        "process": st.integers(0, 5) | st.just("nemesis"),
        "value": VALUES | st.lists(MICRO.map(list), max_size=3),
        "time": INTEGERS,
        "index": INTEGERS,
        "error": VALUES,
        "node": WORDS,
        "op-index": VALUES,
    },
)


def as_edn(value: Any, blank: str) -> str:
    if value is None or isinstance(value, bool):
        return {None: "nil", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return f":{value}" if blank != "  " else f'"{value}"'
    if isinstance(value, list):
        return "[" + blank.join(as_edn(inner, blank) for inner in value) + "]"
    return "{" + ", ".join(f":{key} {as_edn(inner, blank)}" for key, inner in value.items()) + "}"


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(OPS, max_size=6), st.sampled_from([" ", "  ", ", ", "\n", " ;c\n"]), st.booleans())
@example([{"type": "ok", "f": "a", "value": [["append", 1, 2], ["r", 1, [2]]]}], " ", True)
def test_any_history_in_edn(ops, blank, in_vector):
    source = "\n".join(as_edn(op, blank) for op in ops)
    source = f"[{source}]" if in_vector else source
    assert fast(source.encode(), edn) == generally(source.encode(), edn)


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(OPS, max_size=6), st.booleans())
def test_any_history_in_json(ops, in_array):
    source = orjson.dumps(ops) if in_array else b"\n".join(map(orjson.dumps, ops))
    assert fast(source, elle_json) == generally(source, elle_json)


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(st.sampled_from([*ODDITIES, ODDITIES[0]]), max_size=5), st.integers(0, 400))
def test_a_history_that_is_cut_short_is_refused_or_read_as_by_the_general_reader(ops, length):
    source = "\n".join(ops).encode()[:length].decode(errors="ignore").encode()
    assert fast(source, edn) == generally(source, edn)


@pytest.mark.parametrize("stretch", [64, 100, 1000])
def test_nothing_is_lost_where_one_stretch_ends_and_the_next_begins(monkeypatch, stretch):
    source = "\n".join(ODDITIES * 3).encode()
    expected = generally(source, edn)
    monkeypatch.setattr(fast_reading, "_STRETCH", stretch)
    monkeypatch.setattr(fast_reading, "_GENERAL_STRETCH", 16)
    assert fast(source, edn) == expected


PLAIN = "{:type :invoke, :f :txn, :process 7, :value [[:r 5 nil] [:append 1 22]], :time 5}"
WIDER = "{:type  :ok,  :f :txn, :process 7, :value [[:r 5 [1 2 3]] [:append 1  22] [:r-x 1 2]], :time-2 5, :time 6}"


@pytest.fixture
def in_small_pieces(monkeypatch):
    """Return a function that sets the sizes of a window and of the pieces that are scanned in advance."""

    def setting(stretch: int, piece: int) -> None:
        monkeypatch.setattr(fast_reading, "_STRETCH", stretch)
        monkeypatch.setattr(ahead, "_PIECE", piece)
        monkeypatch.setattr(ahead, "_CUT_WITHIN", 4 * piece)
        monkeypatch.setattr(ahead, "_BLOCK", max(1, stretch // 3))

    return setting


@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ops=st.lists(st.sampled_from([*ODDITIES, *REFUSED[:3], *[PLAIN] * 20, *[WIDER] * 5]), max_size=60),
    between=st.sampled_from(["\n", " ", "\n\n; [{\n", ",\n "]),
    bracket=st.booleans(),
    cut=st.none() | st.integers(0, 4000),
    stretch=st.integers(64, 3000),
    piece=st.integers(8, 300),
)
def test_pieces_scanned_in_advance_give_what_the_general_reader_gives(
    in_small_pieces, ops, between, bracket, cut, stretch, piece
):
    in_small_pieces(stretch, piece)
    joined = between.join(ops)
    source = (f"[{joined}]" if bracket else joined).encode()[:cut].decode(errors="ignore").encode()
    assert fast(source, edn) == generally(source, edn)


@settings(deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ops=st.lists(OPS, max_size=30),
    lines=st.booleans(),
    cut=st.none() | st.integers(0, 2000),
    stretch=st.integers(64, 2000),
    piece=st.integers(8, 200),
)
def test_pieces_of_json_in_one_line_or_many(in_small_pieces, ops, lines, cut, stretch, piece):
    in_small_pieces(stretch, piece)
    source = (b"\n".join(map(orjson.dumps, ops)) if lines else orjson.dumps(ops))[:cut]
    assert fast(source, elle_json) == generally(source, elle_json)


@pytest.mark.parametrize(
    "trap",
    [
        '{:type :ok :f :read :process 0 :value "a\n{:type :ok :f :read :process 1}\nb"}',
        "{:type :ok :f :read :process 0 :value [1\n{:type 2}\n3]}",
        "; {:type\n#_{:type :ok\n:f :x}",
        '{:type :ok :f :read :process 0 :value "},{ } {"}',
    ],
)
def test_a_line_that_looks_like_an_op_and_is_none(in_small_pieces, trap):
    source = "\n".join([PLAIN, trap, PLAIN, WIDER] * 12).encode()
    expected = generally(source, edn)
    assert len(expected) == 12 * (3 if trap.startswith(";") else 4)
    for piece in range(20, 220, 9):
        in_small_pieces(1000, piece)
        assert fast(source, edn) == expected


@pytest.mark.parametrize("broken", ["{:type :ok :f :read :process 0 :value [1 2}", "{:type :what :f :r}", "{:type"])
def test_the_line_of_an_error_is_that_of_the_general_reader_wherever_pieces_are_cut(in_small_pieces, broken):
    source = "\n".join([*[PLAIN] * 30, ODDITIES[3], *[PLAIN] * 9, broken, *[PLAIN] * 5]).encode()
    expected = generally(source, edn)
    assert isinstance(expected, str)
    for piece in (30, 90, 200, 5000):
        in_small_pieces(1500, piece)
        assert fast(source, edn) == expected


def test_when_there_is_no_room_for_more_ops_they_are_taken():
    scanner = Scanner(64, json=False, independent=False)
    assert scanner.ops == 0
    source = b"{:type :ok :f :r}" * 100
    assert len(fast(source, edn)) == 100


def test_an_op_that_does_not_end_is_given_up_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(text, "FORM_BYTES_MOST", 1 << 20)
    monkeypatch.setattr(fast_reading, "_STRETCH", 1 << 16)
    source = b"{:type :ok :f :read :process 0 :value [" + b"1 " * (4 << 20)
    told = "h, line 1: one operation of more than 1 MiB (is a bracket or a quotation mark left open?)."
    assert fast(source, edn) == told
