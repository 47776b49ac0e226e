"""Registers of many keys, written, read and swapped by processes one of which may see what is not there."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pyarrow as pa

from schemaquake.harness.model.records import HISTORY


def registers(
    seed: int, *, keys: int = 4, count: int = 200, processes: int = 5, values: int = 1000, damage: float = 0.0
) -> pa.Table:
    """`count` calls; each takes effect at some moment between call and answer, but a share of reads is made up.

    With few `values` they repeat, and take a search to decide.
    """
    random = Random(seed)
    store: dict[int, int | None] = dict.fromkeys(range(keys))
    written = 0
    busy: dict[int, dict[str, Any]] = {}
    names = list(range(processes))
    rows: list[dict[str, Any]] = []
    begun = 0
    while begun < count or busy:
        worker = random.randrange(processes)
        if worker not in busy:
            if begun == count:
                continue
            begun += 1
            written += 1
            f = random.choice(["read", "write", "cas"])
            key = random.randrange(keys)
            new = written if values >= count else random.randrange(values)
            value = {"read": None, "write": new, "cas": [store[key], new]}[f]
            busy[worker] = {"process": names[worker], "f": f, "key": f"ks.t/{key}", "value": value, "at": key}
            rows.append({**busy[worker], "type": "invoke"})
            continue
        call = busy[worker]
        if "type" not in call:
            call |= _carried_out(random, call, store, damage)
            continue
        del busy[worker]
        if call["type"] == "info":
            names[worker] += processes
            if random.random() < 0.5:
                continue
        rows.append(call)
    events = [
        {**row, "index": index, "time": 10 * index, "value": orjson.dumps(row["value"]).decode()}
        for index, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(events, schema=HISTORY)


def _carried_out(random: Random, call: dict[str, Any], store: dict[int, int | None], damage: float) -> dict[str, Any]:
    """What came of it."""
    key, value = call["at"], call["value"]
    fate = random.choices(["ok", "fail", "info"], [90, 5, 5])[0]
    if fate == "fail":
        return {"type": "fail"}
    if call["f"] == "read":
        seen = random.randrange(50) if random.random() < damage else store[key]
        return {"type": fate, "value": seen if fate == "ok" else None}
    if call["f"] == "cas":
        if store[key] != value[0]:
            return {"type": "fail"}
        value = value[1]
    if fate == "ok" or random.random() < 0.5:
        store[key] = value
    return {"type": fate}
