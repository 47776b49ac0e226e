"""What is generated is up to date, and the generator leaves what people wrote alone."""

from __future__ import annotations

import runpy
from collections.abc import Callable

import pages
import pytest

GENERATE = "python docs/generate.py"
RENDER: dict[str, Callable[[], str]] = runpy.run_path(str(pages.DOCS / "generate.py"))["PAGES"]


@pytest.mark.parametrize("page", RENDER)
def test_a_generated_page_says_what_the_code_says(page: str) -> None:
    assert pages.text_of(page) == RENDER[page](), f"run: {GENERATE}"
