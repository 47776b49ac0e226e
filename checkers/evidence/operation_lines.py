"""Operations by their index, as lines of an explanation, from histories of any size.

`op 412: p3 n1 write 5 -> ok, 8.214001 s to 8.219417 s`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from schemaquake.harness.history.gather import gather
from schemaquake.harness.history.pairing import ends

__all__ = ["OperationLines", "shortened"]

_VALUE_MOST: Final = 80  # characters
_NAME_MOST: Final = 200


class OperationLines:
    """The operations of a history by the index of their invocation, as lines of an explanation."""

    def __init__(self, history: pa.Table) -> None:
        self._history = history

    @cached_property
    def _completions(self) -> Mapping[int, int]:
        invocation, completion = ends(self._history)
        return dict(zip(invocation.tolist(), completion.tolist(), strict=True))

    def lines(self, indices: Sequence[int]) -> Sequence[str]:
        """One line for each index of an invocation."""
        known = self._history["index"].to_numpy()
        positions = np.searchsorted(known, np.array(indices, np.int64)).tolist()
        return [self._line(at) for at in positions]

    def _line(self, position: int) -> str:
        at = self._completions[position]
        events = gather(self._history, np.array([position] if at < 0 else [position, at])).to_pylist()
        call, answer = events[0], events[-1]
        who = f"op {call['index']}: p{call['process']}{'' if call['node'] is None else ' ' + call['node']}"
        name = call["f"] if call["key"] is None else f"{call['f']} {call['key']}"
        what = shortened(name, _NAME_MOST)
        if at < 0:
            return f"{who} {what} {shortened(call['value'] or '')}".rstrip() + " -> never answered"
        seen = answer["value"] if answer["type"] == "ok" else call["value"]
        nothing = "null" if call["f"] == "read" else ""
        error = "" if answer["error"] is None else f" ({shortened(answer['error'], _NAME_MOST)})"
        times = f"{call['time'] / 1e9:.6f} s to {answer['time'] / 1e9:.6f} s"
        return f"{who} {what} {shortened(seen or nothing)}".rstrip() + f" -> {answer['type']}{error}, {times}"

    def nodes(self, indices: Iterable[int]) -> Sequence[str]:
        """The coordinators that were asked."""
        known = self._history["index"].to_numpy()
        found = {self._history["node"][int(at)].as_py() for at in np.searchsorted(known, np.array(list(indices)))}
        return sorted(node for node in found if node is not None)


def shortened(text: str, most: int = _VALUE_MOST) -> str:
    """The text, or its beginning: a line of an explanation is to be read."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
