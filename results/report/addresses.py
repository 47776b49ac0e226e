"""Addresses: where pages of many runs find the pages of one run and of one finding. Beside the runs' folders, or in a site."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

__all__ = ["BESIDE_THE_RUNS", "Addresses", "relative_address"]


def relative_address(path: str) -> str:
    """Convert a path beside the page to an address that cannot be read as a scheme, a query or another host."""
    return "./" + quote(path.lstrip("/"))


def _no_page(_name: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Addresses:
    """Functions from a run's folder, or a finding's id, to the address of its page; None if it has none."""

    run: Callable[[str], str | None]
    finding: Callable[[str], str | None] = _no_page
    index: str | None = None
    """The page from which all others are reached; None if there is none."""


def _beside(run: str) -> str:
    return relative_address(f"{run}/report.html")


BESIDE_THE_RUNS: Final = Addresses(run=_beside)
"""Addresses of a page that lies in the folder from which runs are named."""
