"""Command line: one `schemaquake`, whose commands are found through entry points.

Exit codes: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 crashed, or interrupted. Errors we know are printed as a sentence.
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import typer

import schemaquake
from schemaquake.harness.cli.completion import ASKED, prepare
from schemaquake.harness.cli.interruption import Interruption, describe_interruption, only_computes
from schemaquake.harness.cli.light_values import convert_lightly
from schemaquake.harness.cli.sections import SectionedGroup
from schemaquake.harness.console import stderr
from schemaquake.harness.ending import run_and_end
from schemaquake.harness.errors import ExitCode, SchemaquakeError
from schemaquake.harness.extras import lacking_extra
from schemaquake.harness.history.lean_arrow import small_pages
from schemaquake.harness.registry import load, names
from schemaquake.harness.standard_streams import flush_answers, make_safe

__all__ = ["application", "main"]

log = logging.getLogger(__name__)

_EXIT_CODES: Final = ", ".join(f"{code.value} {code.name.lower().replace('_', ' ')}" for code in ExitCode)

_INPUT: Final = "Input should"
_NUMBERS: Final = {"integer": "a whole number", "number": "a number"}
"""Pydantic's kinds of numbers → how a person names one."""
_WIDEST: Final = 120
"""Columns of a page of help on a wide terminal; longer lines are hard to read."""

# typer contains its own copy of click and re-exports only the leaves of its tree of errors.
_CLICK_ERRORS: tuple[type[Any], ...] = tuple(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def application(command: str | None = None, *, listed: bool = False) -> typer.Typer:
    """Build the application with all installed commands, or with the one named `command` if there is one of that name.

    Commands that are only `listed` have their help and no parameters.
    """
    app = typer.Typer(
        name="schemaquake",
        cls=SectionedGroup,
        help="Race schema changes on real Cassandra clusters, prove what breaks, and report it.",
        epilog=f"Start with: schemaquake simulate. Exit codes: {_EXIT_CODES}. More: docs/tutorial.md.",
        context_settings={"max_content_width": _WIDEST},
        callback=_options,  # without one, typer takes an only command for the whole application
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    for name in names("commands"):
        load("commands", name)(app)
    # Typer reads the signatures of all commands, which takes longer than many commands take to run.
    app.registered_commands = [c for c in app.registered_commands if c.name == command] or app.registered_commands
    for found in app.registered_commands if listed else ():
        found.callback = _help_alone(found.callback)
    return app


def _help_alone(command: Callable[..., Any] | None) -> Callable[[], None]:
    """Return a command without parameters that has the help of this one."""

    def nothing() -> None:
        raise AssertionError("a command that is only listed is not called")

    nothing.__name__ = getattr(command, "__name__", nothing.__name__)
    nothing.__doc__ = inspect.getdoc(command)
    return nothing


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"schemaquake {schemaquake.__version__}\n")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Hold the options of the command as a whole."""


def main() -> None:
    """Run the command line, and turn errors into a sentence and an exit code."""
    make_safe()
    if ASKED in os.environ:
        application(*prepare(os.environ))(prog_name="schemaquake", complete_var=ASKED)
        sys.exit(ExitCode.CRASHED)  # it was no question of a shell
    small_pages()
    interruption = Interruption(line=describe_interruption(None), at_once=False)
    interruption.listen()
    code = _run(sys.argv[1:], interruption)
    interruption.end()
    error = flush_answers()
    if error is not None:  # an answer that was not written is none
        stderr().print(f"schemaquake: standard output could not be written: {error.strerror or error}")
        code = int(ExitCode.CRASHED)
    sys.exit(code)


def _run(argv: list[str], interruption: Interruption | None = None) -> int:
    name = next(iter(argv), None)
    try:
        app = application(*argv[:1], listed=argv in ([], ["--help"]))
        if interruption is not None:
            interruption.line, interruption.at_once = describe_interruption(name), only_computes(name)
        command = convert_lightly(typer.main.get_command(app))
        code = command(argv, standalone_mode=False, prog_name="schemaquake")
    except typer.Exit as done:
        return int(done.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        stderr().print(describe_interruption(name), markup=False)
        return int(ExitCode.CRASHED)
    except _CLICK_ERRORS as error:
        stderr().print(_describe_usage(error))
        return int(ExitCode.BAD_ARGUMENTS)
    except SchemaquakeError as error:
        stderr().print(f"schemaquake: {error}", markup=False)
        return int(error.exit_code)
    except ModuleNotFoundError as error:
        lack = lacking_extra(error)
        if lack is None:
            return _crashed(error)
        stderr().print(f"schemaquake: {lack}", markup=False)
        return int(lack.exit_code)
    except OSError as error:
        log.debug("the operating system refused", exc_info=error)
        stderr().print(
            f"schemaquake: {error.strerror or error}{f': {error.filename}' if error.filename else ''}", markup=False
        )
        return int(ExitCode.CRASHED)
    except BaseException as error:  # noqa: BLE001 - whatever it is, Python would end with 1, which is a verdict
        return _crashed(error)
    return int(code) if isinstance(code, int) else 0


def _describe_usage(error: Any) -> str:
    """Render an error of the arguments in two lines: what is wrong, and where the help is. Without arguments: the help."""
    context = getattr(error, "ctx", None)
    message = error.format_message()
    if context is None or message.startswith("Usage:"):
        return str(message).rstrip()
    path = context.command_path
    return f'{path}: {_reword(error, message.replace("Value error, ", ""))}\nTry "{path} --help" for help.'


def _reword(error: Any, message: str) -> str:
    """Return a message with the value that was given in the place of pydantic's "Input"; one without it as it is."""
    before, found, condition = message.partition(_INPUT)
    errors = getattr(error.__cause__, "errors", None)
    if not found or errors is None:
        return message
    for kind, name in _NUMBERS.items():
        if condition.startswith(f" be a valid {kind}"):
            return f'{before}"{errors()[0]["input"]}" is not {name}'
    return f'{before}"{errors()[0]["input"]}" should{condition}'


def _crashed(error: BaseException) -> int:
    """Print a defect of the harness, or of a plugin, with its place. Returns the exit code."""
    text = type(error).__name__
    with suppress(Exception):  # an error of a plugin's own may not know how to say what it is
        text = f"{text}: {error}"
        text = f"{text} (at {_place(error)})"
    stderr().print(
        f"schemaquake: {text}. This is a defect of the harness or of a plugin, and says nothing of a cluster"
    )
    log.debug("the harness failed", exc_info=error)
    return int(ExitCode.CRASHED)


def _place(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"


if __name__ == "__main__":
    run_and_end(main)
