"""Warming: after it, nothing has to be compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMPILES_NOTHING = """
from numba.core.compiler import CompilerBase

def compiled(self, *_):
    raise AssertionError("something is compiled")

CompilerBase.compile_extra = compiled
"""
WARMED = """
from schemaquake.results.formats.warming import warm_all
print(*warm_all())
"""
LEFT_OUT = """
# Afterwards: which loops have nothing on disk.
import importlib, pkgutil
from pathlib import Path
from schemaquake import checkers
from schemaquake.harness.compiled import loops
from schemaquake.results import formats

for room in (checkers, formats):
    for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
        importlib.import_module(module.name)
assert len(loops()) > 100
for loop in loops():
    code = loop.function.__code__
    kept = Path(loop.dispatcher.stats.cache_path)
    if not list(kept.glob(f"*{code.co_name}-{code.co_firstlineno}.*.nbi")):
        print(code.co_filename, code.co_name)
"""
HISTORIES = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[2] / "support")!r})
from damage import damaged
from register_histories import registers
from small_histories import table
from schemaquake.checkers.elle.list_append import ListAppend
from schemaquake.checkers.elle.rw_register import RwRegister
from schemaquake.checkers.exchange.memory import MemoryExchange
from schemaquake.checkers.linearizability import guarded
from schemaquake.checkers.linearizability.linearizable import Linearizable
from schemaquake.checkers.weak_isolation.isolation import WeakIsolation
from schemaquake.harness.compiled import always_compiled
from schemaquake.harness.model.records import Records

always_compiled()
guarded._CALLS_COMPILED = 1
for seed in range(5):
    share = 0.0 if seed == 0 else 0.3
    appends, registered = (table(damaged(seed, kind, share=share)) for kind in ("list-append", "rw-register"))
    searched = registers(seed, processes=3 * seed + 2, values=3, damage=share / 10)
    print(ListAppend().check_pieces(MemoryExchange(history=appends, cuts=(20,), shares=2), limit_s=60).valid)
    for history, checkers in (
        (appends, (ListAppend(), WeakIsolation())),
        (registered, (RwRegister(), RwRegister(linearizable_keys=True, wfr_keys=True), WeakIsolation())),
        (searched, (Linearizable(),)),
    ):
        for checker in checkers:
            print(checker.check(Records.of(history), limit_s=60).valid)
"""


def test_what_was_warmed_is_loaded_and_not_compiled(tmp_path: Path) -> None:
    nothing_yet = python("-c", COMPILES_NOTHING + WARMED, NUMBA_CACHE_DIR=str(tmp_path))
    assert nothing_yet.returncode != 0
    assert "something is compiled" in nothing_yet.stderr
    assert (
        python("-m", "schemaquake.results.formats.warming").returncode == 0
    )  # most of it has been done by `make setup`
    after = python("-c", COMPILES_NOTHING + WARMED)
    assert after.returncode == 0, after.stderr
    assert after.stdout.split() == ["linearizable", "list-append", "rw-register", "weak-isolation"]
    for_histories = python("-c", COMPILES_NOTHING + HISTORIES)
    assert for_histories.returncode == 0, for_histories.stderr
    assert set(for_histories.stdout.split()) == {"True", "False"}
    left_out = python("-c", LEFT_OUT)
    assert (left_out.returncode, left_out.stdout) == (0, ""), left_out.stderr


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=600,
    )  # fmt: skip
