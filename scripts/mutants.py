"""Mutation testing of the checkers: change one operator or value at a time, and see whether a test fails.

    make mutants                                      every module of checkers/
    make mutants MODULES="checkers/run/faults.py"     these
    make mutants LIMIT_S=3600                         go on for an hour; the next call goes on from there

Cosmic Ray makes the mutants, in a copy of the tree under `.mutants/`, and keeps what it has found in a session for each
module. A session is begun anew when its module or one of its tests has changed. `tests/mutants.toml` names the tests of
modules that have tests of their own (else: the folder of the tests that mirrors the module's) and the survivors that were
argued away. Mutants of annotations, which are never evaluated, are left out. The exit code is 1 if less than 95 % were killed.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
WORK: Final = ROOT / ".mutants"
TREE: Final = WORK / "tree"
KNOWN: Final = ROOT / "tests" / "mutants.toml"
LEAST: Final = 0.95
TOOL: Final = ("tool", "run", "--from", "cosmic-ray>=8.7,<9", "cosmic-ray")
TIMEOUT_S: Final = 300.0

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
    """What became of the mutants of one module."""

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
    parser.add_argument("--tool", help="the command of Cosmic Ray; default: uv runs it in an environment of its own")
    options = parser.parse_args()
    tool = shlex.split(options.tool) if options.tool else [str(Path(sys.executable).with_name("uv")), *TOOL]
    known = tomllib.loads(KNOWN.read_text(encoding="utf-8"))
    ends = None if options.limit_s is None else time.monotonic() + options.limit_s
    scores = []
    for module in options.modules or list(list_modules()):
        copy_tree()
        scores.append(try_module(module, known, tool=tool, ends=ends))
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


def try_module(module: str, known: Mapping[str, Any], *, tool: Sequence[str], ends: float | None) -> Score:
    """Try the mutants of one module that were not tried before, until the time is over."""
    tests = tests_of(module, known)
    session = WORK / "sessions" / f"{module.replace('/', '.')}-{fingerprint([module, *tests])}.sqlite"
    session.parent.mkdir(parents=True, exist_ok=True)
    configuration = session.with_suffix(".toml")
    command = f"env PYTHONPATH={TREE} {sys.executable} -m pytest -x -q -p no:cacheprovider {' '.join(tests)}"
    configuration.write_text(CONFIGURATION.format(module=module, timeout=TIMEOUT_S, command=command), encoding="utf-8")
    if not session.exists():
        for old in session.parent.glob(f"{module.replace('/', '.')}-*.sqlite"):
            old.unlink()
        subprocess.run(command.split(), cwd=TREE, check=True, stdout=subprocess.DEVNULL)  # what fails already kills all
        subprocess.run([*tool, "init", str(configuration), str(session)], cwd=TREE, check=True)
        leave_out_annotations(session, module)
    limit_s = None if ends is None else max(0.0, ends - time.monotonic())
    if limit_s is None or limit_s > 0:
        try:
            subprocess.run(
                [*tool, "--verbosity", "ERROR", "exec", str(configuration), str(session)],
                cwd=TREE,
                check=True,
                timeout=limit_s,
            )
        except subprocess.TimeoutExpired:
            print(f"the time is over; {module} goes on with the next call", flush=True)
    return read_score(session, module, known)


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
    """Mark the mutants of annotations and of the signs in signatures as skipped."""
    tree = ast.parse((TREE / module).read_text(encoding="utf-8"))
    with sqlite3.connect(session) as database:
        specs = database.execute("select job_id, start_pos_row, start_pos_col from mutation_specs").fetchall()
        for job, row, column in specs:
            if is_left_out(tree, (row, column)):
                database.execute(
                    "insert into work_results (worker_outcome, output, test_outcome, diff, job_id) values (?, ?, ?, ?, ?)",
                    ("SKIPPED", "an annotation", None, "", job),
                )


def is_left_out(tree: ast.Module, place: tuple[int, int]) -> bool:
    """Tell if a place (line, column) is in an annotation or a signature, and not in the default of a parameter."""
    for node in ast.walk(tree):
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
    argued = {
        Survivor(module, entry["before"], entry["after"])
        for entry in known.get("argued", ())
        if entry["module"] in (module, "*")
    }
    with sqlite3.connect(session) as database:
        total = database.execute("select count(*) from mutation_specs").fetchone()[0]
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
    return Survivor(module, " ".join(before), " ".join(after))


if __name__ == "__main__":
    sys.exit(main())
