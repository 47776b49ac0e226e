"""ScyllaDB's REST interface: the read barrier before a reading, where the interface can be reached.

`system_schema` and the tables of group 0 are node-local, and a node that is behind tells an old state truthfully. After
a read barrier it has applied all that was committed before the barrier began, so a reading after it is linearizable.
The interface listens on port 10000, by default on the node's own loopback address only (`api_address` in `scylla.yaml`):
where it does not answer the reading is taken without a barrier, and the observation says so.
Source: ScyllaDB, Making Schema Changes Safe with Raft, "a special Raft read barrier"; api/api-doc/raft.json of ScyllaDB.
"""

from __future__ import annotations

import time
from http.client import HTTPConnection, HTTPException
from typing import Final
from urllib.parse import urlencode

from schemaquake.clusters.systems.dialect import Barrier
from schemaquake.clusters.systems.error_words import error_words

__all__ = ["REST_PORT", "read_barrier"]

REST_PORT: Final = 10000
_SAID_MOST: Final = 200


def read_barrier(address: str, *, port: int = REST_PORT, timeout_s: float) -> Barrier:
    """Have the node catch up with group 0. Raises nothing: without a majority there is no barrier, and the answer says so."""
    began = time.monotonic()
    why = _asked(address, port, timeout_s)
    return Barrier(passed=why is None, seconds=time.monotonic() - began, why=why)


def _asked(address: str, port: int, timeout_s: float) -> str | None:
    """Ask for the barrier; None once it was passed, else why not. The server is given a second less than we wait, so that its own words arrive."""
    query = urlencode({"timeout": max(1, int(timeout_s) - 1)})
    connection = HTTPConnection(address, port, timeout=timeout_s)
    try:
        connection.request("POST", f"/raft/read_barrier?{query}", headers={"Content-Length": "0"})
        answer = connection.getresponse()
        words = answer.read(_SAID_MOST).decode("utf-8", "replace")
    except (OSError, HTTPException) as error:
        return f"POST /raft/read_barrier at {address}:{port}: {error_words(error, most=_SAID_MOST)}"
    finally:
        connection.close()
    if answer.status == 200:
        return None
    return f"POST /raft/read_barrier at {address}:{port}: {answer.status} {' '.join(words.split())}"
