"""Warm runs of tests: pytest in a fork of a process that has imported all but one module and those that import it.

    python scripts/warm_tests.py serve SOCKET checkers/run/faults.py ARGUMENTS OF PYTEST…
    python scripts/warm_tests.py ask SOCKET

Mutation testing runs the same few tests thousands of times, and a new interpreter takes longer to import numba, Arrow and
pytest than the tests take. `serve` runs them once on the tree as it is, prints how long (s) a warm run takes, and serves until
its standard input ends; it is run at the root of a tree that is first on `PYTHONPATH`. `ask` has them run once, on the module as
it is then, and exits as pytest does. Of a module in which one statement of a function is changed, those tests run that came to this
statement in the first run; if none did, nothing can notice the change, and the exit code is 0.
"""

from __future__ import annotations

import ast
import gc
import importlib
import json
import math
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

PACKAGE: Final = "schemaquake"
TIMES: Final = 10
CPU_S: Final = 10
"""A run that takes more CPU time than this, and than `TIMES` as much as on the module as it is, does not end."""
GONE: Final = 70
"""The exit code where a run was ended because nobody waits for it, or it does not end."""


def main() -> int:
    """Serve, or ask."""
    command, address, *rest = sys.argv[1:]
    if command == "ask":
        return ask(address)
    module, *arguments = rest
    serve(address, module, arguments)
    return 0


def ask(address: str) -> int:
    """Have the tests run once; return the exit code of pytest."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        return connection.recv(1)[0]


def serve(address: str, module: str, arguments: Sequence[str]) -> None:
    """Serve runs of pytest with these arguments, one at a time. Raises SystemExit if they fail on the module as it is."""
    sys.path[0] = str(Path.cwd())
    path = Path(*dotted(module).split(".")).with_suffix(".py")
    reached = Reached(os.path.realpath(path))
    source = path.read_text(encoding="utf-8")
    names = list_imported(arguments, reached)
    sys.dont_write_bytecode = True
    users = frozenset(list_users(dotted(module), names))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            if name not in users:
                with suppress(Exception):  # a name that no import knows, such as an alias made at run time
                    importlib.import_module(name)
    gc.freeze()
    began, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    if code := run_forked(lambda: run_tests(arguments), ()):
        raise SystemExit(f"the tests fail in a warm run (exit code {code})")
    limit_s = max(CPU_S, math.ceil(TIMES * (resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - used)))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print(time.monotonic() - began, flush=True)
        while wait_for_one([listener.fileno(), sys.stdin.fileno()]) == listener.fileno():
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                waiting = (connection.fileno(), sys.stdin.fileno())
                chosen = Chosen(reached.by_test, find_statement(source, path.read_text(encoding="utf-8")))
                code = run_forked(partial(run_tests, arguments, chosen), waiting, cpu_limit_s=limit_s)
                connection.sendall(bytes([code]))


def list_imported(arguments: Sequence[str], reached: Reached) -> Sequence[str]:
    """Run the tests, note which lines each one reaches, and list what they import, but for the tests themselves.

    Raises SystemExit if they fail.
    """
    reader, writer = os.pipe()

    def run() -> int:
        code = run_tests(arguments, reached)
        tests = str(Path.cwd() / "tests")
        names = [
            name
            for name, module in list(sys.modules.items())
            if name != "__main__" and not str(getattr(module, "__file__", None) or tests).startswith(tests)
        ]
        with os.fdopen(writer, "w") as file:
            json.dump((names, {test: sorted(lines) for test, lines in reached.by_test.items()}), file)
        return code

    pid = os.fork()
    if not pid:
        os.close(reader)
        be_silent()
        os._exit(run())
    os.close(writer)
    with os.fdopen(reader) as file:
        told = file.read()
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit("the tests fail on the module as it is, so that they would fail on every mutant")
    names, by_test = json.loads(told)
    reached.by_test.update({test: set(lines) for test, lines in by_test.items()})
    return list(names)


def run_tests(arguments: Sequence[str], *plugins: object) -> int:
    """Run pytest in this process; return its exit code, which is 0 if no test was chosen."""
    import pytest  # noqa: PLC0415 - whoever only asks does not need it

    code = pytest.main(list(arguments), plugins=plugins)
    is_chosen = any(isinstance(plugin, Chosen) for plugin in plugins)
    return 0 if is_chosen and code == pytest.ExitCode.NO_TESTS_COLLECTED else int(code)


@dataclass(eq=False)
class Reached:
    """Notes which lines of one file each test reaches; what other than a test itself does counts for all of them."""

    file: str
    by_test: dict[str, set[int]] = field(default_factory=dict)
    """By id; under "" what fixtures reach, which tests may share, and imports."""
    _real: dict[str, bool] = field(default_factory=dict)
    _lines: set[int] = field(default_factory=set)

    def pytest_configure(self) -> None:
        """Begin."""
        self._lines = self.by_test.setdefault("", set())
        threading.settrace(self._trace)
        sys.settrace(self._trace)

    def pytest_unconfigure(self) -> None:
        """End."""
        sys.settrace(None)
        threading.settrace(None)

    def pytest_runtest_call(self, item: Any) -> None:
        """Note what this test reaches apart; pytest calls later plugins first, so that it has not begun."""
        self._lines = self.by_test.setdefault(item.nodeid, set())

    def pytest_runtest_makereport(self) -> None:
        """The test, or a fixture of it, has ended."""
        self._lines = self.by_test[""]

    def _trace(self, frame: FrameType, _event: str, _argument: object) -> Any:
        name = frame.f_code.co_filename
        if name not in self._real:
            self._real[name] = os.path.realpath(name) == self.file
        return self._note(frame) if self._real[name] else None

    def _note(self, frame: FrameType, *_: object) -> Any:
        self._lines.add(frame.f_lineno)
        return self._note


@dataclass(eq=False)
class Chosen:
    """Leaves the tests to run that reached one of some lines, those whose fixtures did, and those that were not known."""

    by_test: Mapping[str, Collection[int]]
    lines: range | None
    """All tests if None."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Take the others away."""
        lines = self.lines
        if lines is not None and not any(line in lines for line in self.by_test[""]):
            items[:] = [item for item in items if any(line in lines for line in self.by_test.get(item.nodeid, lines))]


def find_statement(before: str, after: str) -> range | None:
    """Find the lines of the innermost statement of a function in which alone two texts of a module differ; None if there is none.

    A change of a signature or a decorator, and one outside functions, works when the module is imported.
    """
    old, new = before.splitlines(), after.splitlines()
    first = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), None)
    if first is None:
        return None
    alike = zip(reversed(old[first:]), reversed(new[first:]), strict=False)
    last = len(old) - 1 - next((at for at, (one, other) in enumerate(alike) if one != other), 0)
    places = [
        (node.lineno, node.end_lineno or node.lineno, node, inside)
        for node, inside in list_statements(ast.parse(before), inside=False)
        if node.lineno <= first + 1 and last + 1 <= (node.end_lineno or node.lineno)
    ]
    if not places:
        return None
    begins, ends, node, inside = max(places, key=lambda place: (place[0], -place[1]))
    works_at_import = not inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    return None if works_at_import else range(begins, ends + 1)


def list_statements(node: ast.AST, *, inside: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """List all statements, and if they are in a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child, inside
        yield from list_statements(child, inside=inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def run_forked(run: Callable[[], int], waiting: Collection[int], *, cpu_limit_s: int | None = None) -> int:
    """Call `run` in a fork; return the exit code. It is ended when one of the files `waiting` ends, or its CPU time is over."""
    pid = os.fork()
    if not pid:
        os.setsid()
        if cpu_limit_s is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit_s, cpu_limit_s))
        be_silent()
        code = GONE
        try:
            code = run()
        finally:
            os._exit(code)
    process = os.pidfd_open(pid)
    try:
        if wait_for_one([process, *waiting]) != process:
            with suppress(ProcessLookupError):  # a fork that did not come to lead its group yet has nobody in it
                os.killpg(pid, signal.SIGKILL)
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(process)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else GONE


def be_silent() -> None:
    """Let this process read and print nothing."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for file in (0, 1, 2):
        os.dup2(nothing, file)


def wait_for_one(files: Sequence[int]) -> int:
    """Wait until one of these files is readable or has ended; return the first such."""
    ready, _, _ = select.select(files, [], [])
    return next(file for file in files if file in ready)


def dotted(module: str) -> str:
    """Return the import name of a path below the root."""
    return ".".join([PACKAGE, *Path(module).with_suffix("").parts])


def list_users(module: str, names: Collection[str]) -> Iterator[str]:
    """List those of the modules that import this one, themselves or through others, and itself."""
    imports = {name: frozenset(list_imports(name)) for name in names if name.startswith(f"{PACKAGE}.")}
    users, found = {module}, {module}
    while found:
        found = {name for name, used in imports.items() if name not in users and used & found}
        users |= found
    yield from users


def list_imports(name: str) -> Iterator[str]:
    """List what a module of the package imports anywhere in its text."""
    path = Path(*name.split("."))
    file = next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
    for node in () if file is None else ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


if __name__ == "__main__":
    sys.exit(main())
