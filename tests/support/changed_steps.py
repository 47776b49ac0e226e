"""Tool: seeds of the swarm on models in one line of which a protocol step was changed (`tests/changed_steps.toml`).

    python tests/support/changed_steps.py                      all changes, each until a seed is accused, 300 seeds at most
    python tests/support/changed_steps.py NAME NAME --seeds 0:50
    python tests/support/changed_steps.py NAME --storms log      only seeds that have such a storm (log, ring, rows)
    python tests/support/changed_steps.py --table OTHER.toml   changes of another file of that form

A change that has a test of its own and no seed is shown by that test, which fails on it.

The files stay as they are: a process of its own imports the module from changed source. Prints a line a change: seeds until it was found,
and as what.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

import orjson

__all__ = ["Change", "Found", "changes", "seeds_until_found"]

_TABLE: Final = Path(__file__).parent.parent / "changed_steps.toml"
_ROOT: Final = _TABLE.parent.parent
_PREFIX: Final = "schemaquake.clusters.simulated."
_TEST_ENDS: Final[Mapping[int, bool]] = {0: False, 1: True}
"""Exit codes of pytest: whether a test has failed."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One line of a simulated cluster, changed."""

    name: str
    module: str
    """Below `clusters/simulated`, with dots."""
    system: str
    before: str
    """The line, without its indentation."""
    place: int = 1
    """The number of the line among those that are equal to it, from 1."""
    after: str
    text: str
    """The step that is wrong then, in words."""
    seed: int | None = None
    """A seed of the system's twin that shows it; None: none is known."""
    gives: Sequence[str] = ()
    """Anomalies of that seed, or "failed" for a model that breaks down."""
    options: Mapping[str, str] = field(default_factory=dict)
    test: str = ""
    """A test that fails on the changed line, where no seed is known: one that brings about what runs hardly come to."""
    harmless: str = ""
    """The reason why no seed can show it; empty: it does harm."""


@dataclass(frozen=True)
class Found:
    """The outcome of some seeds on a changed model."""

    seed: int | None
    """The first one that was accused or failed; None: none was."""
    anomalies: tuple[str, ...]
    outcomes: Mapping[str, int]
    cpu_s: float


def changes(path: Path = _TABLE) -> Mapping[str, Change]:
    """Return the changes of a table by their names. Raises TypeError for one that lacks a part."""
    table = tomllib.loads(path.read_text())
    return {name: Change(name=name, **parts) for name, parts in table.items()}


def seeds_until_found(
    change: Change, seeds: Sequence[int], *, limit_s: float = 480.0, table: Path = _TABLE, storms: str = ""
) -> Found:
    """Carry out seeds of the swarm on the changed model, in a process of its own, until one is accused or fails.

    `limit_s` is the CPU time after which no further seed is begun; `table` has the change. With `storms` only seeds
    that have a storm of that kind are carried out.
    """
    arguments = [sys.executable, __file__, "--inside", change.name, "--seeds", f"{seeds[0]}:{seeds[-1] + 1}"]
    arguments += ["--limit-s", str(limit_s), "--table", str(table), "--storms", storms]
    ended = subprocess.run(arguments, check=True, capture_output=True, cwd=_ROOT)
    document = orjson.loads(ended.stdout)
    return Found(document["seed"], tuple(document["anomalies"]), document["outcomes"], document["cpu_s"])


def fails_on(change: Change, *, table: Path = _TABLE) -> bool:
    """Return whether the change's own test fails on the changed model, in a process of its own. Raises ValueError if it cannot be run."""
    arguments = [sys.executable, __file__, "--test", change.name, "--table", str(table)]
    code = subprocess.run(arguments, check=False, capture_output=True, cwd=_ROOT).returncode
    if code not in _TEST_ENDS:
        raise ValueError(f"{change.name}: {change.test} ended with {code}")
    return _TEST_ENDS[code]


# ── inside the process ───────────────────────────────────────────────────────────────────────────────────────────────


class _Changed(SourceFileLoader):
    """A loader that changes one line of the source."""

    change: Change

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:
        """Compile the changed source. Raises ValueError if the line does not stand there."""
        lines = bytes(data).decode().splitlines()
        places = [number for number, line in enumerate(lines) if line.strip() == self.change.before]
        if len(places) < self.change.place:
            raise ValueError(f"{self.change.name}: the line stands {len(places)} times in {path}")
        number = places[self.change.place - 1]
        line = lines[number]
        lines[number] = line[: len(line) - len(line.lstrip())] + self.change.after
        return compile("\n".join(lines), str(path), "exec")

    def get_code(self, fullname: str) -> CodeType:
        """Compile anew: what is cached is the unchanged module."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _Finder(MetaPathFinder):
    """A finder of the one module that is changed."""

    def __init__(self, change: Change) -> None:
        self._change = change

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec with the loader that changes the module; None for all others."""
        if fullname != _PREFIX + self._change.module:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        assert found is not None
        assert found.origin is not None
        found.loader = _Changed(fullname, found.origin)
        found.loader.change = self._change
        return found


def _inside(change: Change, seeds: Sequence[int], limit_s: float, storms: str) -> dict[str, Any]:
    """Carry out seeds in this process until one is accused or fails, or so much CPU time is spent."""
    sys.meta_path.insert(0, _Finder(change))
    from schemaquake.results.swarm.drawing import plan_of_seed, storm_of_seed  # noqa: PLC0415 - after the finder
    from schemaquake.results.swarm.one_seed import row_of  # noqa: PLC0415 - after the finder

    if _PREFIX + change.module not in sys.modules:
        raise ValueError(f"{change.name}: nothing imports {change.module}")
    began = time.process_time()
    outcomes: Counter[str] = Counter()
    found: dict[str, Any] = {"seed": None, "anomalies": []}
    for seed in seeds:
        if time.process_time() - began > limit_s:
            break
        if storms and storm_of_seed(seed, [change.system]) != storms:
            continue
        row = row_of(plan_of_seed(seed, [change.system], {"bugs": "none", **change.options}))
        outcomes[row["outcome"]] += 1
        if row["outcome"] in {"invalid", "failed"}:
            found = {"seed": seed, "anomalies": row["anomalies"] or ["failed"], "doubt": row["doubt"]}
            break
    return {**found, "outcomes": outcomes, "cpu_s": round(time.process_time() - began, 1)}


def _test_inside(change: Change) -> int:
    """Carry the change's own test out in this process; returns pytest's exit code."""
    sys.meta_path.insert(0, _Finder(change))
    import pytest  # noqa: PLC0415 - after the finder

    return int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", change.test]))


def _span(text: str) -> range:
    first, _, last = text.partition(":")
    return range(int(first), int(last))


def main() -> None:
    """Print what the seeds show of the changes that are named, or of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=_span, default=range(300))
    parser.add_argument("--limit-s", type=float, default=480.0, help="CPU time for one change")
    parser.add_argument("--table", type=Path, default=_TABLE, help="the file with the changes")
    parser.add_argument("--storms", default="", help="only seeds with such a storm: log, ring or rows")
    parser.add_argument("--inside", metavar="NAME", help="carry this one out here, and print JSON")
    parser.add_argument("--test", metavar="NAME", help="carry the test of this one out here")
    options = parser.parse_args()
    table = options.table.resolve()
    known = changes(table)
    if options.test:
        sys.exit(_test_inside(known[options.test]))
    if options.inside:
        found = _inside(known[options.inside], options.seeds, options.limit_s, options.storms)
        sys.stdout.buffer.write(orjson.dumps(found))
        return
    for name in options.names or known:
        if known[name].test:
            print(f"{name}: {'shown' if fails_on(known[name], table=table) else 'not shown'} by its test", flush=True)  # noqa: T201 - a tool
            continue
        try:
            found = seeds_until_found(
                known[name], options.seeds, limit_s=options.limit_s, table=table, storms=options.storms
            )
        except subprocess.CalledProcessError as error:
            print(f"{name}: {error.stderr.decode().strip().splitlines()[-1]}", flush=True)  # noqa: T201 - a tool
        else:
            shown = f"seed {found.seed}" if found.seed is not None else "not found"
            print(f"{name}: {shown} {','.join(found.anomalies)} {dict(found.outcomes)} {found.cpu_s} s", flush=True)  # noqa: T201 - a tool


if __name__ == "__main__":
    main()
