"""A store that promises little: every process has a view of its own, and now and then takes over another one's.

What it keeps depends on how: views that are taken over whole, with everything that went before, are causal; what is read
`stale` is anything that was ever written.
"""

from __future__ import annotations

from random import Random
from typing import Any

from small_histories import MicroOp, Transaction


def loose(
    seed: int,
    *,
    lists: bool = False,
    count: int = 5,
    processes: int = 3,
    keys: int = 2,
    stale: float = 0.3,
    lost: float = 0.1,
) -> list[Transaction]:
    """`count` transactions one after another; of a share `lost` the outcome is never known, and a few are aborted."""
    random = Random(seed)
    views: list[dict[int, Any]] = [{} for _ in range(processes)]
    names = list(range(processes))
    versions: dict[int, list[Any]] = {key: [[] if lists else None] for key in range(keys)}
    written = dict.fromkeys(range(keys), 0)
    done: list[Transaction] = []
    for at in range(count):
        worker = random.randrange(processes)
        if random.random() < 0.6:
            _take_over(views[worker], views[random.randrange(processes)], versions, lists=lists)
        of_type = random.choices(["ok", "info", "fail"], [1 - lost - 0.04, lost, 0.04])[0]
        view = dict(views[worker])
        mops: list[MicroOp] = []
        for _ in range(random.randint(1, 4)):
            key = random.randrange(keys)
            if random.random() < 0.45:
                written[key] += 1
                view[key] = [*_newest(versions[key]), written[key]] if lists else written[key]
                if lists and of_type != "fail":
                    versions[key].append(view[key])
                mops.append(("append" if lists else "w", key, written[key]))
            else:
                wrote = any(f != "r" and k == key for f, k, _ in mops)
                seen = view.get(key, [] if lists else None)
                mops.append(("r", key, random.choice(versions[key]) if random.random() < stale and not wrote else seen))
        if of_type != "fail":
            views[worker] = view
            for key, value in view.items():
                if not lists and value not in versions[key]:
                    versions[key].append(value)
        done.append(Transaction(names[worker], 2 * at, None if of_type == "info" else 2 * at + 1, of_type, tuple(mops)))
        if of_type == "info":
            names[worker] = processes + at
            views[worker] = {} if random.random() < 0.5 else views[worker]
    return done


def _newest(versions: list[Any]) -> Any:
    return max(versions, key=len)


def _take_over(mine: dict[int, Any], other: dict[int, Any], versions: dict[int, list[Any]], *, lists: bool) -> None:
    """Of each key the later version, so that nothing is forgotten."""
    for key, value in other.items():
        known = mine.get(key, [] if lists else None)
        if lists:
            mine[key] = max(known, value, key=len)
        else:
            mine[key] = value if known is None or value > known else known
