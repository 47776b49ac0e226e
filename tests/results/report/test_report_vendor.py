"""Vendored files are those that were published; a changed byte in a page's script is seen here first."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from schemaquake.results.report import html

VENDOR = Path(html.__file__).parent / "vendor"


# uPlot 1.6.32, as its npm package holds them in dist/.
@pytest.mark.parametrize(
    ("name", "sha256"),
    [
        ("uPlot.iife.min.js", "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"),
        ("uPlot.min.css", "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"),
        ("LICENSE.uPlot", "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd"),
    ],
)
def test_a_vendored_file_is_the_published_one(name: str, sha256: str):
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == sha256


def test_nothing_else_is_vendored():
    assert {path.name for path in VENDOR.iterdir()} == {"uPlot.iife.min.js", "uPlot.min.css", "LICENSE.uPlot"}
