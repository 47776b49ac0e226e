"""Operation lines: an operation as one line of an explanation.

`op 412: p3 n1 write 5 -> ok, 8.214001 s to 8.219417 s`

`render_operation` writes every such line. `OperationLines` finds operations by their index in histories of any size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from schemaquake.harness.history.gather import gather
from schemaquake.harness.history.pairing import ends

__all__ = ["OperationLines", "render_operation", "shortened"]

_VALUE_LENGTH: Final = 80
_NAME_LENGTH: Final = 200


def render_operation(
    index: int, process: int, node: str | None, what: str, outcome: str, *, error: str | None = None, when: str = ""
) -> str:
    """Render `op 412: p3 n1 ALTER TABLE … -> info (WriteTimeout) at 8.214 s`; a null `node` is left out.

    `when` follows the outcome as it stands: ` at 8.214 s`, or `, 8.214 s to 8.219 s`.
    """
    asked = " ".join(part for part in (f"p{process}", node, what) if part)
    answered = outcome if error is None else f"{outcome} ({error})"
    return f"op {index}: {asked} -> {answered}{when}"


class OperationLines:
    """The operations of a history by the index of their invocation, as lines of an explanation."""

    def __init__(self, history: pa.Table) -> None:
        self._history = history

    @cached_property
    def _completions(self) -> Mapping[int, int]:
        invocation, completion = ends(self._history)
        return dict(zip(invocation.tolist(), completion.tolist(), strict=True))

    def lines(self, indices: Sequence[int]) -> Sequence[str]:
        """Render one line for each index of an invocation."""
        known = self._history["index"].to_numpy()
        positions = np.searchsorted(known, np.array(indices, np.int64)).tolist()
        return [self._line(at) for at in positions]

    def _line(self, position: int) -> str:
        at = self._completions[position]
        events = gather(self._history, np.array([position] if at < 0 else [position, at])).to_pylist()
        call, answer = events[0], events[-1]
        name = shortened(call["f"] if call["key"] is None else f"{call['f']} {call['key']}", _NAME_LENGTH)
        answered = at >= 0 and answer["type"] == "ok"
        value = answer["value"] if answered else call["value"]
        absent = "null" if answered and call["f"] == "read" else ""
        what = f"{name} {shortened(value or absent)}".rstrip()
        if at < 0:
            return render_operation(call["index"], call["process"], call["node"], what, "never answered")
        return render_operation(
            call["index"],
            call["process"],
            call["node"],
            what,
            answer["type"],
            error=None if answer["error"] is None else shortened(answer["error"], _NAME_LENGTH),
            when=f", {call['time'] / 1e9:.6f} s to {answer['time'] / 1e9:.6f} s",
        )

    def nodes(self, indices: Iterable[int]) -> Sequence[str]:
        """List the coordinators of these operations."""
        known = self._history["index"].to_numpy()
        found = {self._history["node"][int(at)].as_py() for at in np.searchsorted(known, np.array(list(indices)))}
        return sorted(node for node in found if node is not None)


def shortened(text: str, length: int = _VALUE_LENGTH) -> str:
    """Cut a text off at `length` characters, the last of which is then `…`."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
