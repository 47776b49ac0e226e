"""Entry: the program `schemaquake`, whose imports may fail too, and must not end with the exit code of a verdict."""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["main"]

_CRASHED: Final = 255  # `ExitCode.CRASHED`, whose module may be what cannot be imported


def main() -> None:
    """Run the command line (`schemaquake.harness.cli.command_line`), and end the process."""
    try:
        _run()
    except KeyboardInterrupt:  # before the command line answers it, or once more while it does
        if sys.stderr is not None:
            sys.stderr.write("interrupted: run the command again\n")
        sys.exit(_CRASHED)


def _run() -> None:
    try:
        from schemaquake.harness.cli import command_line  # noqa: PLC0415 - so that its failure gets a sentence
        from schemaquake.harness.ending import run_and_end  # noqa: PLC0415 - as above
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - Python would end with 1, which is a verdict
        if sys.stderr is not None:
            sys.stderr.write(f"schemaquake: it cannot be started: {type(error).__name__}: {error}\n")
        sys.exit(_CRASHED)
    run_and_end(command_line.main)
