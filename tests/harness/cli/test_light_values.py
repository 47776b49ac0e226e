"""Values of options are what Typer makes of them, and so are its errors; simple ones need no validator."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from schemaquake.harness.cli.light_values import convert_lightly


class Colour(StrEnum):
    red = "red"


def ran(argv: list[str], *, lightly: bool) -> Any:
    """What the command was called with, or the error."""
    given: list[Any] = []
    app = typer.Typer(add_completion=False)

    @app.command()
    def command(
        files: Annotated[list[Path] | None, typer.Argument()] = None,
        number: Annotated[int, typer.Option()] = 3,
        share: Annotated[float, typer.Option()] = 60,
        text: Annotated[str | None, typer.Option()] = None,
        many: Annotated[list[str] | None, typer.Option("-O")] = None,
        place: Annotated[Path, typer.Option()] = Path("here"),
        there: Annotated[Path | None, typer.Option(exists=True)] = None,
        small: Annotated[int, typer.Option(min=1, max=5)] = 1,
        colour: Annotated[Colour, typer.Option()] = Colour.red,
        flag: Annotated[bool, typer.Option()] = False,
    ) -> None:
        given.extend([files, number, share, text, many, place, there, small, colour, flag])

    made = typer.main.get_command(app)
    try:
        (convert_lightly(made) if lightly else made)(argv, standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - they are compared
        return type(error), str(error)
    return [(type(value), repr(value)) for value in given]


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["a", "b"],
        ["--number", "7", "--share", "0.5"],
        ["--number", "-7", "--share", "-2"],
        ["--number", "007", "--share", "00.50"],
        ["--number", "7.0"],
        ["--number", "7.5"],
        ["--number", "1_000"],
        ["--number", " 7"],
        ["--number", "9" * 30],
        ["--number", "٣"],
        ["--number", ""],
        ["--number", "x"],
        ["--share", "nan"],
        ["--share", "1e3"],
        ["--share", "5."],
        ["--share", "inf"],
        ["--share", "x"],
        ["--text", ""],
        ["--text", "none"],
        ["-O", "a=1", "-O", "b"],
        ["--place", "/dev/null"],
        ["--place", "/nowhere"],
        ["--place", ""],
        ["--there", "/nowhere"],
        ["--there", "/dev/null"],
        ["--small", "9"],
        ["--small", "4"],
        ["--colour", "red"],
        ["--colour", "blue"],
        ["--flag"],
        ["--no-flag", "--unknown"],
    ],
    ids=" ".join,
)
def test_values_and_errors_are_those_of_typer(argv: list[str]) -> None:
    assert ran(argv, lightly=True) == ran(argv, lightly=False)
