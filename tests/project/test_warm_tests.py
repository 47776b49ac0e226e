"""A warm run of tests sees the module as it is now, and everything else as it was."""

from __future__ import annotations

import os
import runpy
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.long  # a tool of whoever works on this; it starts many interpreters

WARM = Path(__file__).parents[2] / "scripts" / "warm_tests.py"
PYTEST = ("-q", "-p", "no:cacheprovider", "-p", "no:schemaquake", "-p", "no:xdist", "tests")
FILES = {
    "schemaquake/__init__.py": "",
    "schemaquake/base.py": "ONE = 1\n",
    "schemaquake/judge.py": (
        "from schemaquake import base\n\nONE = 1\n\ndef twice(x):\n    if x < 0:\n        return -x\n"
        "    return x + x * base.ONE * ONE\n\ndef seven():\n    return 7\n"
    ),
    "schemaquake/user.py": "import schemaquake.judge\n\ndef four():\n    return schemaquake.judge.twice(2)\n",
    "tests/test_user.py": (
        "from pathlib import Path\n\nfrom schemaquake import judge, user\n\n"
        "def test_four():\n    assert user.four() == 4\n    assert not Path('broken').exists()\n\n"
        "def test_seven():\n    assert judge.seven() == 7\n"
    ),
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
        os.utime(tmp_path / name, (1, 1))  # compiled modules are known by the second and the size of their text
    return tmp_path


@pytest.fixture
def served(tree: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(WARM), "serve", str(tree / "socket"), "judge.py", *PYTEST]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    with subprocess.Popen(
        command, cwd=tree, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            yield server
        finally:
            server.stdin.close()


def ask(tree: Path) -> int:
    return subprocess.run([sys.executable, "-I", "-S", str(WARM), "ask", str(tree / "socket")], check=False).returncode


def test_each_run_sees_the_module_as_it_is(tree: Path, served: subprocess.Popen[str]) -> None:
    assert float(served.stdout.readline()) > 0
    whole = (tree / "schemaquake/judge.py").read_text(encoding="utf-8")
    assert ask(tree) == 0
    (tree / "schemaquake/judge.py").write_text(whole.replace("x + x", "x - x"), encoding="utf-8")
    assert ask(tree) == 1
    (tree / "schemaquake/judge.py").write_text(whole, encoding="utf-8")
    assert ask(tree) == 0


def test_of_a_changed_statement_the_tests_that_come_to_it_are_run(tree: Path, served: subprocess.Popen[str]) -> None:
    assert float(served.stdout.readline()) > 0
    whole = (tree / "schemaquake/judge.py").read_text(encoding="utf-8")
    for before, after, code in (
        ("return -x", "return x", 0),  # no test comes here
        ("return 7", "return 8", 1),
        ("x + x", "x - x", 1),
        ("x + x", "x + 9 ** 9 ** 9", 70),  # does not end
        ("ONE = 1", "ONE = 2", 1),  # works when it is imported: all tests
        ("", "raise ValueError\n", 2),
    ):
        (tree / "schemaquake/judge.py").write_text(whole.replace(before, after, 1), encoding="utf-8")
        assert ask(tree) == code, after
    (tree / "broken").touch()
    for before, code in (("return 7", 0), ("x + x", 1)):  # the test of the other fails now
        (tree / "schemaquake/judge.py").write_text(whole.replace(before, before + " + 0"), encoding="utf-8")
        assert ask(tree) == code


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("return -x", "return x", range(7, 8)),
        ("x > 0", "x >= 0", range(4, 8)),
        ("x * base.ONE", "x + base.ONE", range(8, 9)),
        ("def twice(x)", "def twice(x=1)", None),
        ("import base", "import base as base", None),
        ("@once\n", "", None),
        ("", "", None),
    ],
)
def test_the_innermost_statement_that_was_changed_is_found(before: str, after: str, lines: range | None) -> None:
    source = (
        "from schemaquake import base\n\ndef twice(x):\n    if x > 0:\n        pass\n    else:\n        return -x\n"
        "    return x + x * base.ONE\n\n@once\ndef other(): ...\n"
    )
    assert runpy.run_path(str(WARM))["find_statement"](source, source.replace(before, after, 1)) == lines


def test_a_server_ends_with_whoever_started_it_and_with_a_run_that_nobody_waits_for(
    tree: Path, served: subprocess.Popen[str]
) -> None:
    served.stdout.readline()
    (tree / "schemaquake/judge.py").write_text("import time\ntime.sleep(600)\n", encoding="utf-8")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(tree / "socket"))
    (tree / "schemaquake/judge.py").write_text(FILES["schemaquake/judge.py"], encoding="utf-8")
    assert ask(tree) == 0
    (tree / "schemaquake/judge.py").write_text("import time\ntime.sleep(600)\n", encoding="utf-8")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(tree / "socket"))
        served.stdin.close()
        assert served.wait() == 0


def test_tests_that_fail_already_are_not_served(tree: Path) -> None:
    (tree / "schemaquake/base.py").write_text("ONE = 2\n", encoding="utf-8")
    command = [sys.executable, str(WARM), "serve", str(tree / "socket"), "judge.py", *PYTEST]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "fail on the module as it is" in done.stderr


def test_users_of_a_module_are_those_that_import_it_through_others(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    users = runpy.run_path(str(WARM))["list_users"]
    names = ["os", "schemaquake.base", "schemaquake.judge", "schemaquake.user"]
    assert set(users("schemaquake.judge", names)) == {"schemaquake.judge", "schemaquake.user"}
    assert set(users("schemaquake.base", names)) == set(names) - {"os"}
