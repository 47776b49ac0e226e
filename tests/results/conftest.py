"""Golden files: `pytest tests/results --update-golden` rewrites them; the diff is then reviewed like any other."""

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files of the reports")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with the golden file of that name, or write it."""
    # A run that starts above this folder has not read this file yet when options are parsed.
    update = request.config.getoption("--update-golden", default=False)

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            GOLDEN.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{name} differs; --update-golden if it should"

    return compare
