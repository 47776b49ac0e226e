"""Bulk: one prepared statement with many sets of values, in one unlogged batch or several at a time.

Rows of reads stay arrays, column by column: a driver's object for every cell would cost more than the server's work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, ResponseFuture, Session
from cassandra.protocol import ProtocolHandler, ResultMessage
from cassandra.query import BatchStatement, BatchType, PreparedStatement

from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.queries import BulkQuery
from schemaquake.harness.model.steps import Invoke

__all__ = ["BulkSession"]

_UNDER_WAY_MOST: Final = 12
"""The reads that one session has under way at a time."""


_CELL: Final = np.dtype([("length", ">i4"), ("value", ">i8")])
"""A cell as the protocol has it."""
_WIDTH: Final = 8


class _Integers(ResultMessage):  # type: ignore[misc]  # the driver is untyped
    """Rows of columns of type bigint without nulls, as one array of rows × columns."""

    code_to_type: Final = {code: kind for kind, code in ResultMessage.type_codes.items()}

    def recv_results_rows(
        self,
        f: BinaryIO,
        protocol_version: int,  # noqa: ARG002 - the driver's signature
        user_type_map: Any,
        result_metadata: Any,
        column_encryption_policy: Any,  # noqa: ARG002 - the same
    ) -> None:
        """Read the rows. Raises ValueError for a cell of another length."""
        self.recv_results_metadata(f, user_type_map)
        columns = self.column_metadata or result_metadata
        self.column_names = [column[2] for column in columns]
        self.column_types = [column[3] for column in columns]
        count = int.from_bytes(f.read(4), "big")
        cells = np.frombuffer(f.read(count * len(columns) * _CELL.itemsize), _CELL).reshape(count, len(columns))
        if (cells["length"] != _WIDTH).any():
            raise ValueError("a cell is null, or no bigint")
        self.parsed_rows = cells["value"].astype(np.int64)


class _IntegersHandler(ProtocolHandler):  # type: ignore[misc]  # the driver is untyped
    message_types_by_opcode: Final = {**ProtocolHandler.message_types_by_opcode, _Integers.opcode: _Integers}


class BulkSession:
    """Carries out bulk queries in the session of one client, which one thread uses. Errors are the driver's."""

    def __init__(self, session: Session, *, timeout_s: float) -> None:
        self._session = session
        self._timeout_s = timeout_s
        self._prepared: dict[str, PreparedStatement] = {}

    def carry_out(self, operation: Invoke, query: BulkQuery) -> Completion:
        """Send the statement with all sets of values, and complete the operation. Raises what the driver raises."""
        prepared = self._prepared.get(query.text)
        if prepared is None:
            prepared = self._prepared[query.text] = self._session.prepare(query.text)
        if query.fold is None:
            self._write(prepared, query)
            return Completion(type="ok", value=operation.value)
        return Completion(type="ok", value={**operation.value, **query.fold(self._read(prepared, query))})

    def _write(self, prepared: PreparedStatement, query: BulkQuery) -> None:
        batch = BatchStatement(BatchType.UNLOGGED, consistency_level=ConsistencyLevel.name_to_value[query.consistency])
        for values in query.values:
            batch.add(prepared, values)
        self._session.execute_async(batch, timeout=self._timeout_s).result()

    def _read(self, prepared: PreparedStatement, query: BulkQuery) -> Sequence[npt.NDArray[np.int64]]:
        under_way: deque[ResponseFuture] = deque()
        found: list[npt.NDArray[np.int64]] = []
        try:
            for values in query.values:
                if len(under_way) == _UNDER_WAY_MOST:
                    found.append(under_way.popleft().result().one())
                under_way.append(self._ask(prepared, query, values))
            found += [future.result().one() for future in under_way]
        except BaseException:
            _let_end(under_way)
            raise
        return found

    def _ask(self, prepared: PreparedStatement, query: BulkQuery, values: Sequence[int]) -> ResponseFuture:
        """Begin one read, whose result is one array."""
        bound = prepared.bind(values)
        bound.consistency_level = ConsistencyLevel.name_to_value[query.consistency]
        bound.fetch_size = None
        session = self._session
        usual = session.client_protocol_handler
        session.client_protocol_handler = _IntegersHandler
        try:
            profile = session.execution_profile_clone_update(EXEC_PROFILE_DEFAULT, row_factory=_one_array)
            return session.execute_async(bound, timeout=self._timeout_s, execution_profile=profile)
        finally:
            session.client_protocol_handler = usual


def _one_array(_names: Sequence[str], rows: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """Make the array the only row, so that the driver's result set does not walk it."""
    return [rows]


def _let_end(futures: Sequence[ResponseFuture]) -> None:
    """Take no further notice of reads that are under way; they end by themselves, at their timeout at the latest."""
    for future in futures:
        future.add_errback(lambda _error: None)
