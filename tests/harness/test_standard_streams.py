"""Standard streams: readers that leave, terminals that close, texts that would steer them."""

from __future__ import annotations

import logging
import os
import pty
import subprocess
import sys
import textwrap

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.harness.cli import command_line
from schemaquake.harness.console import configure_logging, stderr
from schemaquake.harness.errors import ExitCode
from schemaquake.harness.standard_streams import printable

HOSTILE = [
    "\x1b[2J\x1b]0;owned\x07",
    "[/bold]",
    "[red]x",
    "[",
    "\\",
    "{x} %s %d",
    "\udcff",
    "\u202egnp.exe",
    "\x9b31m",
    "a\rb",
]


def python(code, *, within="{}", **keywords):
    """Run Python in a shell, whose command line says where its outputs go."""
    program = f"'{sys.executable}' -c '{textwrap.dedent(code)}'"
    return subprocess.run(
        ["bash", "-c", within.format(program)], capture_output=True, text=True, check=False, timeout=120, **keywords
    )


# ── crashes ──────────────────────────────────────────────────────────────────────────────────────────────────────────

CRASHES = [
    "RuntimeError(1)", "AssertionError()", "RecursionError()", "MemoryError()", "SystemExit(1)", "SystemExit()",
    "SystemExit(True)", "GeneratorExit()", "KeyError([])", "ImportError()", "ModuleNotFoundError(name=None)", "OSError()", "StopIteration()",
    "ExceptionGroup(chr(91), [ValueError()])", "BaseExceptionGroup(str(), [KeyboardInterrupt()])", "UnicodeDecodeError(str(), bytes(), 0, 1, str())",
    "type(chr(27), (Exception,), dict(__str__=lambda self: 1 / 0))()",
]  # fmt: skip


@pytest.mark.parametrize("error", CRASHES)
def test_no_crash_ends_with_the_exit_code_of_a_verdict(error, capfd, monkeypatch):
    def crash(*_, **__):
        raise eval(error)  # noqa: S307 - of the list above

    monkeypatch.setattr(command_line, "application", lambda *_: crash)
    code = command_line._run(["check"])
    assert code == ExitCode.CRASHED
    said = capfd.readouterr().err
    assert said.strip()
    assert "Traceback" not in said
    assert "\x1b" not in said


def test_a_program_that_cannot_be_imported_ends_with_no_verdict(tmp_path):
    (tmp_path / "typer.py").write_text("raise RuntimeError('broken')")
    ran = python(
        "from schemaquake.harness.cli.entry import main; main()", env={**os.environ, "PYTHONPATH": str(tmp_path)}
    )
    assert ran.returncode == 255
    assert "cannot be started: RuntimeError: broken" in ran.stderr


# ── readers that leave ───────────────────────────────────────────────────────────────────────────────────────────────

LOGGING = """
import logging, threading, sys, time
from schemaquake.harness.standard_streams import make_safe
from schemaquake.harness.cli import command_line
from schemaquake.harness.console import configure_logging, progress, stderr
make_safe()
configure_logging()
done = []
def nemesis():
    for number in range(300):
        logging.getLogger("x").info("fault injected", extra={"n": number})
        stderr().print("[/x]", number)
    done.append(True)
thread = threading.Thread(target=nemesis)
with progress("main", limit_s=1):
    thread.start()
    thread.join()
print("healed" if done else "lost", flush=True)
"""


@pytest.mark.parametrize(
    "shell",
    [
        "({} 2>&1 1>&3 3>&- | head -n 1 >/dev/null) 3>&1",
        "{} 2>/dev/full",
        "{} 2>&-",
        "{} 2>&- 0<&-",
        "{} 2> >(true)",
    ],
    ids=["head", "a full disk", "closed", "all but one closed", "a reader that never reads"],
)
def test_a_thread_that_injects_outlives_the_reader_of_its_log(shell):
    assert python(LOGGING, within=shell).stdout == "healed\n"


def test_a_closed_descriptor_is_not_given_to_a_file_of_the_run(tmp_path):
    code = f"""
    from schemaquake.harness.standard_streams import make_safe
    make_safe()
    file = open("{tmp_path}/journal", "wb")
    import os, sys
    os.write(2, b"a complaint of a child")
    print("an answer")
    assert file.fileno() > 2
    """
    python(code, within="{} 2>&- 1>&- 0<&-")
    assert (tmp_path / "journal").read_bytes() == b""


def test_a_list_whose_reader_left_is_no_crash_and_one_that_was_not_written_is_one():
    listing = 'import sys; sys.argv[1:] = [str.strip(w) for w in ("list", "errors")]; from schemaquake.harness.cli.entry import main; main()'
    left = python(listing, within="set -o pipefail; {} | head -n 1")
    assert (left.returncode, left.stderr, len(left.stdout.splitlines())) == (0, "", 1)
    full = python(listing, within="{} >/dev/full")
    assert full.returncode == 255
    assert "No space left" in full.stderr


# ── texts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.text() | st.sampled_from(HOSTILE))
def test_nothing_that_a_terminal_obeys_is_printable(text):
    shown = printable(text)
    assert all(char.isprintable() or char in "\t\n" or char.isspace() or ord(char) > 0x2FFF or char.isidentifier() or not char.isascii() for char in shown)  # fmt: skip
    assert not set(shown) & {chr(number) for number in (*range(9), *range(11, 32), *range(127, 160), 0x202E)}
    shown.encode()
    assert printable(shown) == shown


def test_a_name_keeps_its_letters():
    assert printable("tabla_ñ Ωmega 表 \t\n-") == "tabla_ñ Ωmega 表 \t\n-"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_neither_crashes_a_line_nor_gets_to_the_terminal(name, capfd):
    configure_logging()
    logging.getLogger("x").warning("node %s died", name, extra={"table": name, "many": [name]})
    logging.getLogger("x").warning(f"node {name}")  # noqa: G004 - as a careless plugin does
    stderr().print(name)
    said = capfd.readouterr().err
    assert len(said.splitlines()) >= 3
    assert not set(said) & set("\x1b\x07\x9b\u202e\r")


def test_on_a_terminal_the_colours_are_ours_and_the_rest_is_written_out():
    reader, writer = pty.openpty()
    code = """
    from schemaquake.harness.console import stderr
    from rich.table import Table
    from rich.text import Text
    table = Table("[red]a", chr(27) + "[31mb")
    table.add_row(chr(27) + "[2J", Text(chr(27) + "]0;owned" + chr(7)))
    stderr().print(table)
    stderr().print(Text("bold", style="bold"))
    """
    environment = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "CI"}} | {
        "TERM": "xterm"
    }
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], stderr=writer, check=True, env=environment)
    os.close(writer)
    shown = b""
    try:
        while more := os.read(reader, 65536):
            shown += more
    except OSError:
        pass  # the other end is closed
    os.close(reader)
    assert b"\x1b[1mbold" in shown
    assert b"\x1b[2J" not in shown
    assert b"\x1b]0;" not in shown
    assert b"\x1b[31m" not in shown
    assert b"[red]a" in shown
    assert rb"\x1b" in shown


class Broken:
    def __str__(self):
        raise ValueError("never")

    __repr__ = __str__


@pytest.mark.parametrize(
    "fact", [Broken(), {1: 2}, {Broken(): 1}, 2**80, "\udcff", float("nan"), [Broken()], object(), b"\xff"]
)
def test_logging_raises_nothing_whatever_the_fact(fact, tmp_path, capfd):
    root = logging.getLogger()
    before = list(root.handlers)
    try:
        configure_logging(tmp_path / "harness.jsonl")
        logging.getLogger("x").info("said", extra={"fact": fact})
        logging.getLogger("x").info("wrong %d %s", fact)  # noqa: PLE1206 - as a careless plugin does
        logging.getLogger("x").info("whole")
    finally:
        root.handlers[-1].close()
        root.handlers[:] = before
    lines = [orjson.loads(line) for line in (tmp_path / "harness.jsonl").read_bytes().splitlines()]
    assert [line["event"] for line in lines][::2] == ["said", "whole"]
    assert "whole" in capfd.readouterr().err
