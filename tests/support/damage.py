"""Histories with damage: what a store did for transactions, and then some of what they saw changed, or forgotten."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from serial_store import executed
from small_histories import MicroOp, Transaction


def damaged(seed: int, kind: Any, *, count: int = 40, keys: int = 4, share: float = 0.2) -> list[Transaction]:
    """Transactions of which a share saw something else than there was, or did not end as it is told."""
    random = Random(seed)
    whole = executed(seed, kind=kind, count=count, processes=random.randint(2, 8), keys=keys)
    values = {key: [v for one in whole for f, k, v in one.mops if k == key and f != "r"] for key in range(keys)}
    return [_damaged(random, one, values, kind) if random.random() < share else one for one in whole]


def _damaged(random: Random, one: Transaction, values: dict[int, list[int]], kind: str) -> Transaction:
    if one.type == "ok" and random.random() < 0.15:
        return replace(one, type="fail")
    return replace(one, mops=tuple(_seen(random, part, values, kind) for part in one.mops))


def _seen(random: Random, part: MicroOp, values: dict[int, list[int]], kind: str) -> MicroOp:
    f, key, value = part
    if f != "r" or random.random() < 0.3:
        return part
    if kind == "list-append":
        value = value or []
        how = random.random()
        if how < 0.6:
            return f, key, value[: random.randint(0, len(value))] or None
        if how < 0.8:
            return f, key, random.sample(value, len(value))
        return f, key, [*value, *random.sample(values[key], min(len(values[key]), 2)), *([999] if how > 0.95 else [])]
    others = [None, *values[key], 999]
    return f, key, random.choice(others)
