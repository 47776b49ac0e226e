"""A store that carries out one transaction after another, each at some moment of its interval: strictly serializable."""

from __future__ import annotations

from random import Random
from typing import Any, Literal

from small_histories import MicroOp, Transaction


def executed(
    seed: int, *, kind: Literal["list-append", "rw-register"], count: int = 30, processes: int = 4, keys: int = 3
) -> list[Transaction]:
    """`count` transactions; some are aborted and had no effect, of some the outcome is never known (and they may have)."""
    random = Random(seed)
    store: dict[int, Any] = {}
    written = dict.fromkeys(range(keys), 0)
    busy: dict[int, dict[str, Any]] = {}
    names = list(range(processes))
    done: list[Transaction] = []
    moment = 0
    begun = 0
    while len(done) < count:
        moment += random.randint(1, 5)
        worker = random.randrange(processes)
        if worker not in busy:
            if begun < count:
                begun += 1
                busy[worker] = {"invoked": moment, "asked": _asked(random, kind, keys, written), "fate": _fate(random)}
            continue
        work = busy[worker]
        if "mops" not in work:
            work["mops"] = work["asked"] if work["fate"] in {"fail", "lost"} else _carried_out(work["asked"], store)
            continue
        del busy[worker]
        of_type = {"lost": "info", "unknown": "info"}.get(work["fate"], work["fate"])
        completed = None if of_type == "info" and random.random() < 0.5 else moment
        done.append(Transaction(names[worker], work["invoked"], completed, of_type, tuple(work["mops"])))
        if of_type == "info":
            names[worker] = processes + len(done)
    return done


def _fate(random: Random) -> str:
    return random.choices(["ok", "fail", "lost", "unknown"], [85, 5, 5, 5])[0]


def _asked(random: Random, kind: str, keys: int, written: dict[int, int]) -> list[MicroOp]:
    asked: list[MicroOp] = []
    for _ in range(random.randint(1, 4)):
        key = random.randrange(keys)
        if random.random() < 0.5:
            written[key] += 1
            asked.append(("append" if kind == "list-append" else "w", key, written[key]))
        else:
            asked.append(("r", key, None))
    return asked


def _carried_out(asked: list[MicroOp], store: dict[int, Any]) -> list[MicroOp]:
    """What the transaction saw; the store has what it wrote."""
    done: list[MicroOp] = []
    for f, key, value in asked:
        if f == "append":
            store[key] = [*store.get(key, []), value]
        elif f == "w":
            store[key] = value
        done.append((f, key, store.get(key) if f == "r" else value))
    return done
