"""Links lead somewhere, and no page tells of a place that only its author has."""

from __future__ import annotations

import re
from pathlib import Path

import pages
import pytest

WRITTEN = [*sorted(pages.DOCS.glob("*.md")), *sorted(pages.ROOT.glob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
HOSTS = re.compile(
    r"\b(?:repo1?\.maven|maven\.org|pypi\.org|pythonhosted\.org|docker\.io|npmjs\.(?:org|com)|crates\.io|jfrog|artifactory|nexus)\b",
    re.IGNORECASE,
)
PLACES = re.compile(r"(?<![\w.])/(?:work|tmp|root|home|Users|mnt|opt)/")


def anchors(path: Path) -> set[str]:
    """As GitHub makes them of headings."""
    text = pages.BLOCK.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_relative_links_lead_to_files_and_headings_that_exist(path: Path) -> None:
    for link in LINK.findall(pages.BLOCK.sub("", path.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.is_relative_to(pages.ROOT), link
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_no_registry_and_no_place_of_one_machine_is_named(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not HOSTS.findall(text)
    assert not PLACES.findall(text)


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen = {pages.ROOT / "README.md"}
    waiting = list(seen)
    while waiting:
        path = waiting.pop()
        for link in LINK.findall(path.read_text(encoding="utf-8")):
            target = (path.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.exists() and target not in seen:
                seen.add(target)
                waiting.append(target)
    assert {path.name for path in seen} >= set(pages.pages())
