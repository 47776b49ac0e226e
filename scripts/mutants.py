"""Mutation testing of the checkers: change one operator or value at a time, and see whether a test fails.

    make mutants                                      every module of checkers/
    make mutants MODULES="checkers/run/faults.py"     these
    make mutants LIMIT_S=3600                         go on for an hour; the next call goes on from there
    make mutants GROWN=1 MODULES=…                    the tests have only grown: try again what survived, and nothing else

Cosmic Ray makes the mutants, in a copy of the tree under `.mutants/`, and keeps what it has found in a session for each
module. Each mutant is met by a warm run of the module's tests (`scripts/warm_tests.py`). A session is begun anew when its module or one
of its tests has changed; with `--grown` what was killed on the same module stays so. `tests/mutants.toml` names the tests of
modules that have tests of their own (else: the folder of the tests that mirrors the module's) and the survivors that were
argued away. Mutants of annotations, which are never evaluated, and of sentences (f-strings), which tests compare with nothing on
purpose, are left out. A mutant that its tests need ten times the CPU time for, or twenty times as long, is killed. The exit code is 1 if less than 95 % were killed.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
WORK: Final = ROOT / ".mutants"
TREE: Final = WORK / "tree"
KNOWN: Final = ROOT / "tests" / "mutants.toml"
LEAST: Final = 0.95
TOOL: Final = ("tool", "run", "--from", "cosmic-ray>=8.7,<9", "cosmic-ray")
WARM: Final = ROOT / "scripts" / "warm_tests.py"
PYTEST: Final = (
    "-x",
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)
TIMES: Final = 20
TIMEOUT_S: Final = 30.0
"""A run of tests that takes longer than this, and than `TIMES` as long as on the module as it is, does not end."""

CONFIGURATION: Final = """\
[cosmic-ray]
module-path = ["{module}"]
timeout = {timeout}
excluded-modules = []
test-command = "{command}"

[cosmic-ray.distributor]
name = "local"
"""


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that no test killed: the line before and after, without indentation."""

    module: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Score:
    """The mutants of one module that tests killed, left, or did not notice."""

    module: str
    killed: int
    left: int
    argued: Sequence[Survivor]
    survivors: Sequence[Survivor]

    @property
    def rate(self) -> float:
        """The share of killed mutants among those that were tried and not argued away; 1 if there are none."""
        tried = self.killed + len(self.survivors)
        return self.killed / tried if tried else 1.0

    def __str__(self) -> str:
        left = f", {self.left} not tried yet" if self.left else ""
        return (
            f"{self.module}: {self.rate:.1%} ({self.killed} killed, {len(self.survivors)} survived, "
            f"{len(self.argued)} argued{left})"
        )


def main() -> int:
    """Try the mutants of the modules that were asked for and print what survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help="paths below the root; default: every module of checkers/")
    parser.add_argument("--limit-s", type=float, default=None, help="go on for so long; default: to the end")
    parser.add_argument("--grown", action="store_true", help="tests have only grown: what they killed stays killed")
    parser.add_argument("--tool", help="the command of Cosmic Ray; default: uv runs it in an environment of its own")
    options = parser.parse_args()
    tool = shlex.split(options.tool) if options.tool else [str(Path(sys.executable).with_name("uv")), *TOOL]
    known = tomllib.loads(KNOWN.read_text(encoding="utf-8"))
    ends = None if options.limit_s is None else time.monotonic() + options.limit_s
    scores = []
    for module in options.modules or list(list_modules()):
        if ends is not None and time.monotonic() >= ends:
            print(f"the time is over before {module}", flush=True)
            break
        copy_tree()
        scores.append(try_module(module, known, tool=tool, ends=ends, has_grown=options.grown))
        print(scores[-1], flush=True)
        for survivor in scores[-1].survivors:
            print(f"    - {survivor.before}\n    + {survivor.after}")
    killed, survived = sum(score.killed for score in scores), sum(len(score.survivors) for score in scores)
    rate = killed / (killed + survived) if killed + survived else 1.0
    print(
        f"{rate:.1%} of {killed + survived} mutants were killed; {sum(score.left for score in scores)} are left to try"
    )
    return 0 if rate >= LEAST else 1


def list_modules() -> Iterator[str]:
    """List the modules of checkers/, the shortest first."""
    paths = [path for path in (ROOT / "checkers").rglob("*.py") if path.name != "__init__.py"]
    yield from (str(path.relative_to(ROOT)) for path in sorted(paths, key=lambda path: (path.stat().st_size, path)))


def copy_tree() -> None:
    """Copy what is needed to import the package and run its tests; links stay links."""
    shutil.rmtree(TREE, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        source, target = ROOT / name, TREE / name
        if name and (source.is_symlink() or source.is_file()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)


def try_module(
    module: str, known: Mapping[str, Any], *, tool: Sequence[str], ends: float | None, has_grown: bool = False
) -> Score:
    """Try the mutants of one module that were not tried before, until the time is over."""
    tests = tests_of(module, known)
    of_module = f"{module.replace('/', '.')}-{fingerprint([module])}"
    session = WORK / "sessions" / f"{of_module}-{fingerprint(tests)}.sqlite"
    session.parent.mkdir(parents=True, exist_ok=True)
    if has_grown and not session.exists():
        for old in session.parent.glob(f"{of_module}-*.sqlite"):
            keep_killed(old, session, module, known)
    if not is_left_to_try(session):
        return read_score(session, module, known)
    with serve_tests(module, tests) as (command, seconds):
        configuration = session.with_suffix(".toml")
        timeout = max(TIMEOUT_S, TIMES * seconds)
        configuration.write_text(
            CONFIGURATION.format(module=module, timeout=timeout, command=command), encoding="utf-8"
        )
        if not session.exists():
            for old in session.parent.glob(f"{module.replace('/', '.')}-*.sqlite"):
                old.unlink()
            subprocess.run([*tool, "init", str(configuration), str(session)], cwd=TREE, check=True)
            leave_out_annotations(session, module)
        limit_s = None if ends is None else max(0.0, ends - time.monotonic())
        try:
            execution = [*tool, "--verbosity", "ERROR", "exec", str(configuration), str(session)]
            subprocess.run(execution, cwd=TREE, check=True, timeout=limit_s)
        except subprocess.TimeoutExpired:
            print(f"the time is over; {module} goes on with the next call", flush=True)
    return read_score(session, module, known)


@contextmanager
def serve_tests(module: str, tests: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Serve warm runs of these tests; give the command of one run, and how long (s) it takes on the module as it is."""
    environment = {**os.environ, "PYTHONPATH": str(TREE)}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        address = f"{folder}/socket"
        command = [sys.executable, str(WARM), "serve", address, module, *PYTEST, *tests]
        with subprocess.Popen(
            command, cwd=TREE, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server:
            try:
                ready = server.stdout.readline()  # what fails already would kill every mutant
                if not ready:
                    raise subprocess.CalledProcessError(server.wait(), command)
                yield f"{sys.executable} -I -S {WARM} ask {address}", float(ready)
            finally:
                server.stdin.close()


def keep_killed(old: Path, session: Path, module: str, known: Mapping[str, Any]) -> None:
    """Make a session of one of the same module and fewer tests, in which what survived and was not argued away is left to try."""
    argued = list_argued(module, known)
    old.rename(session)
    with sqlite3.connect(session) as database:
        results = database.execute("select job_id, diff from work_results where test_outcome = 'SURVIVED'").fetchall()
        again = [(job,) for job, diff in results if survivor_of(module, diff) not in argued]
        database.executemany("delete from work_results where job_id = ?", again)


def list_argued(module: str, known: Mapping[str, Any]) -> Collection[Survivor]:
    """List the mutants of a module that were argued away."""
    return {
        Survivor(module, entry["before"], entry["after"])
        for entry in known.get("argued", ())
        if entry["module"] in (module, "*")
    }


def is_left_to_try(session: Path) -> bool:
    """Tell if a module has mutants that were not tried, or was never tried."""
    if not session.exists():
        return True
    with sqlite3.connect(session) as database:
        return _count(database, "mutation_specs") > _count(database, "work_results")


def _count(database: sqlite3.Connection, table: str) -> int:
    return int(database.execute(f"select count(*) from {table}").fetchone()[0])


def tests_of(module: str, known: Mapping[str, Any]) -> Sequence[str]:
    """Return the tests of a module: those named for it, else the folder that mirrors its own, or the nearest above it."""
    named: Sequence[str] = known["tests"].get(module, ())
    mirrors = (f"tests/{folder}" for folder in Path(module).parents)
    return named or [next(folder for folder in mirrors if (ROOT / folder).is_dir())]


def fingerprint(paths: Sequence[str]) -> str:
    """Return a digest of the contents of these files and folders."""
    digest = hashlib.blake2b(digest_size=6)
    for path in paths:
        whole = ROOT / path
        for file in [whole] if whole.is_file() else sorted(whole.rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def leave_out_annotations(session: Path, module: str) -> None:
    """Mark the mutants of annotations, of the signs in signatures and in sentences as skipped."""
    tree = ast.parse((TREE / module).read_text(encoding="utf-8"))
    with sqlite3.connect(session) as database:
        specs = database.execute("select job_id, start_pos_row, start_pos_col from mutation_specs").fetchall()
        for job, row, column in specs:
            if is_left_out(tree, (row, column)):
                database.execute(
                    "insert into work_results (worker_outcome, output, test_outcome, diff, job_id) values (?, ?, ?, ?, ?)",
                    ("SKIPPED", "an annotation or a sentence", None, "", job),
                )


def is_left_out(tree: ast.Module, place: tuple[int, int]) -> bool:
    """Tell if a place (line, column) is in an annotation, in a sentence, or in a signature but for the defaults of parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and _lies_in(place, node):
            return True
        if isinstance(node, ast.AnnAssign) and _lies_in(place, node.annotation):
            return True
        if isinstance(node, ast.FunctionDef):
            body = node.body[0]
            if (node.lineno, node.col_offset) <= place < (body.lineno, body.col_offset):
                defaults = [*node.args.defaults, *(default for default in node.args.kw_defaults if default is not None)]
                return not any(_lies_in(place, default) for default in defaults)
    return False


def _lies_in(place: tuple[int, int], node: ast.expr) -> bool:
    return (node.lineno, node.col_offset) <= place < (node.end_lineno or 0, node.end_col_offset or 0)


def read_score(session: Path, module: str, known: Mapping[str, Any]) -> Score:
    """Read what became of the mutants of a module."""
    argued = list_argued(module, known)
    with sqlite3.connect(session) as database:
        total = _count(database, "mutation_specs")
        results = database.execute("select worker_outcome, test_outcome, diff from work_results").fetchall()
    outcomes = [test for worker, test, _ in results if worker != "SKIPPED"]
    survivors = [
        survivor_of(module, diff) for worker, test, diff in results if worker != "SKIPPED" and test == "SURVIVED"
    ]
    return Score(
        module=module,
        killed=sum(outcome != "SURVIVED" for outcome in outcomes),
        left=total - len(results),
        argued=[survivor for survivor in survivors if survivor in argued],
        survivors=[survivor for survivor in survivors if survivor not in argued],
    )


def survivor_of(module: str, diff: str) -> Survivor:
    """Read the changed line out of a unified diff; a mutant of several lines has them in one."""
    lines = diff.splitlines()
    before = [line[1:].strip() for line in lines if line.startswith("-") and not line.startswith("---")]
    after = [line[1:].strip() for line in lines if line.startswith("+") and not line.startswith("+++")]
    return Survivor(module, " ".join(before).strip(), " ".join(after).strip())


if __name__ == "__main__":
    sys.exit(main())
