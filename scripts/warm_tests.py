"""Warm runs of tests: pytest in a fork of a process that has imported all but one module and those that import it.

    python scripts/warm_tests.py serve SOCKET checkers/run/faults.py ARGUMENTS OF PYTEST…
    python scripts/warm_tests.py ask SOCKET

Mutation testing runs the same few tests thousands of times, and a new interpreter takes longer to import numba, Arrow and
pytest than the tests take. `serve` runs them once on the tree as it is, prints how long (s) a warm run takes, and serves until
its standard input ends; it is run at the root of a tree that is first on `PYTHONPATH`. `ask` has them run once, on the module as
it is then, and exits as pytest does.
"""

from __future__ import annotations

import ast
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

PACKAGE: Final = "schemaquake"
GONE: Final = 70
"""The exit code where a run was ended because nobody waits for it."""


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
    names = list_imported(arguments)
    sys.dont_write_bytecode = True
    users = frozenset(list_users(dotted(module), names))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            if name not in users:
                with suppress(Exception):  # a name that no import knows, such as an alias made at run time
                    importlib.import_module(name)
    gc.freeze()
    began = time.monotonic()
    if code := run_forked(lambda: run_tests(arguments), ()):
        raise SystemExit(f"the tests fail in a warm run (exit code {code})")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print(time.monotonic() - began, flush=True)
        while wait_for_one([listener.fileno(), sys.stdin.fileno()]) == listener.fileno():
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                waiting = (connection.fileno(), sys.stdin.fileno())
                connection.sendall(bytes([run_forked(lambda: run_tests(arguments), waiting)]))


def list_imported(arguments: Sequence[str]) -> Sequence[str]:
    """Run the tests and list what they import, but for the tests themselves. Raises SystemExit if they fail."""
    reader, writer = os.pipe()

    def run() -> int:
        code = run_tests(arguments)
        tests = str(Path.cwd() / "tests")
        names = [
            name
            for name, module in list(sys.modules.items())
            if name != "__main__" and not str(getattr(module, "__file__", None) or tests).startswith(tests)
        ]
        with os.fdopen(writer, "w") as file:
            file.write("\n".join(names))
        return code

    pid = os.fork()
    if not pid:
        os.close(reader)
        be_silent()
        os._exit(run())
    os.close(writer)
    with os.fdopen(reader) as file:
        names = file.read().split("\n")
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit("the tests fail on the module as it is, so that they would fail on every mutant")
    return names


def run_tests(arguments: Sequence[str]) -> int:
    """Run pytest in this process; return its exit code."""
    import pytest  # noqa: PLC0415 - whoever only asks does not need it

    return int(pytest.main(list(arguments)))


def run_forked(run: Callable[[], int], waiting: Collection[int]) -> int:
    """Call `run` in a fork; return the exit code. It is ended when one of the files `waiting` ends."""
    pid = os.fork()
    if not pid:
        os.setsid()
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
