"""Bulk: rows of integers are decoded as arrays, and reads of one operation are under way several at a time."""

from __future__ import annotations

import io
import struct
from types import SimpleNamespace

import numpy as np
import pytest

from schemaquake.clusters.cql import bulk
from schemaquake.clusters.cql.bulk import BulkSession
from schemaquake.harness.model.queries import BulkQuery
from schemaquake.harness.model.steps import Invoke

BIGINT = 0x02
NAMES = ("ck", "v", "writetime(v)")


def body(rows, *, cell=lambda value: struct.pack(">iq", 8, value)):
    """The rows of a RESULT message behind its kind (native protocol 4, 4.2.5.2)."""
    head = struct.pack(">ii", 1, len(NAMES))  # one table for all columns
    head += b"".join(struct.pack(">H", len(text)) + text.encode() for text in ("k", "d"))
    head += b"".join(struct.pack(">H", len(name)) + name.encode() + struct.pack(">H", BIGINT) for name in NAMES)
    return io.BytesIO(head + struct.pack(">i", len(rows)) + b"".join(cell(value) for row in rows for value in row))


def decoded(stream):
    message = bulk._Integers(2)
    message.recv_results_rows(stream, 4, {}, None, None)
    return message


@pytest.mark.parametrize("rows", [[], [(1, -2, 3)], [(2**63 - 1, -(2**63), 0), (4, 5, 6)]])
def test_rows_become_one_array(rows):
    message = decoded(body(rows))
    assert message.parsed_rows.tolist() == [list(row) for row in rows]
    assert (message.parsed_rows.shape, message.parsed_rows.dtype) == ((len(rows), 3), np.int64)
    assert list(message.column_names) == list(NAMES)


def test_a_null_or_another_type_is_refused():
    for cell in (lambda _: struct.pack(">i", -1) + bytes(8), lambda value: struct.pack(">iii", 4, value, 0)):
        with pytest.raises(ValueError, match="bigint"):
            decoded(body([(1, 2, 3)], cell=cell))


def test_the_handler_decodes_results_with_it_and_leaves_the_drivers_own_alone():
    handler = bulk._IntegersHandler
    assert handler.message_types_by_opcode[bulk._Integers.opcode] is bulk._Integers
    assert bulk.ProtocolHandler.message_types_by_opcode[bulk._Integers.opcode] is not bulk._Integers


class Session:
    """Answers the n-th read with n rows, when it is asked for the result; one of them may fail."""

    client_protocol_handler = "usual"

    def __init__(self, fails=None):
        self.fails, self.under_way, self.most, self.asked, self.prepared = fails, 0, 0, [], []

    def prepare(self, text):
        self.prepared.append(text)
        return SimpleNamespace(bind=lambda values: SimpleNamespace(values=tuple(values)))

    def execution_profile_clone_update(self, _profile, *, row_factory):
        return row_factory

    def execute_async(self, bound, *, timeout, execution_profile):
        assert self.client_protocol_handler is bulk._IntegersHandler
        self.asked.append((bound.values, bound.consistency_level, bound.fetch_size))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        (number,) = bound.values

        def result():
            self.under_way -= 1
            if number == self.fails:
                raise RuntimeError("no answer")
            (rows,) = execution_profile(NAMES, np.zeros((number, 3), np.int64))
            return SimpleNamespace(one=lambda: rows)

        return SimpleNamespace(result=result, add_errback=lambda _: None)


def read(session, count=40):
    query = BulkQuery(
        text="SELECT",
        values=[(n,) for n in range(count)],
        consistency="ONE",
        fold=lambda found: {"rows": [len(one) for one in found]},
    )
    return BulkSession(session, timeout_s=5).carry_out(Invoke("check-rows", "k.d", {"first": 0}, query=query), query)


def test_every_set_of_values_is_asked_for_in_order_several_at_a_time():
    session = Session()
    done = read(session)
    assert (done.type, done.value) == ("ok", {"first": 0, "rows": list(range(40))})
    assert [values for values, _, _ in session.asked] == [(n,) for n in range(40)]
    assert {(level, size) for _, level, size in session.asked} == {(1, None)}
    assert 1 < session.most <= 12
    assert (session.prepared, session.client_protocol_handler) == (["SELECT"], "usual")


def test_one_read_that_fails_fails_all():
    with pytest.raises(RuntimeError, match="no answer"):
        read(Session(fails=3))
