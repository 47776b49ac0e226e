"""Configuration of the site of these pages (`make docs-site`): Sphinx reads the Markdown as it is, and adds the list of pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

project = "Schemaquake"
author = copyright = "The Schemaquake developers"  # noqa: A001 - Sphinx names it
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md"]
html_theme = "furo"
html_title = "Schemaquake"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_last_updated_fmt = None
myst_heading_anchors = 4  # as GitHub makes them
myst_enable_extensions = ["strikethrough"]
pygments_style = "friendly"
suppress_warnings = [
    "myst.header",  # the pages begin as GitHub shows them
    "misc.highlighting_failure",  # what a program printed is no source
    "myst.strikethrough",
]

PAGES = {
    "Begin": ["tutorial", "workloads", "nemeses", "checkers", "results", "deployed", "safety", "containers", "ci"],
    "Findings": [
        "bugs",
        "anomalies",
        "findings",
        "matrix",
        "grid",
        "grids",
        "eras",
        "scylladb",
        "topology",
        "upgrades",
    ],
    "Many runs": ["publish", "corpus", "engines"],
    "Without servers": ["simulation", "model-against-server"],
    "How it judges": ["soundness", "limits", "searches", "outcomes", "data-workloads"],
    "Extend it": ["whats-here", "decisions", "write-a-workload", "write-a-nemesis", "write-a-checker"],
}
"""Caption → pages, in the order of the list beside every page; those that are not named here come last."""


# Code of the repository, which is no part of the site.
_CODE = re.compile(r"\[([^\]]+)\]\(\.\./(?!(?:README|CHANGELOG)\.md)[^)]+\)")


def prepare(_app: Any, name: str, source: list[str]) -> None:
    """Leave the names of code as text, and append the list of pages to the first one, which GitHub shows without."""
    source[0] = _CODE.sub(r"\1", source[0])
    if name == root_doc:
        listed = [*((caption, [f"docs/{page}" for page in pages]) for caption, pages in PAGES.items())]
        named = {page for pages in PAGES.values() for page in pages}
        others = sorted(path.stem for path in Path(__file__).parents[1].glob("*.md") if path.stem not in named)
        listed.append(("More", [*(f"docs/{page}" for page in others), "CHANGELOG", "CONTRIBUTING", "SECURITY"]))
        source[0] += "".join(
            f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"
            for caption, pages in listed
        )


def lead_in(app: Any, error: Exception | None) -> None:
    """Write index.html, which a web server shows of a folder, and which leads to the first page."""
    if error is None:
        Path(app.outdir, "index.html").write_text(
            f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{html_title}</title>'
            f'<meta http-equiv="refresh" content="0; url={root_doc}.html"><a href="{root_doc}.html">{html_title}</a></html>\n',
            encoding="utf-8",
        )


def setup(app: Any) -> None:
    """Register what is done to each page, and to the whole."""
    app.connect("source-read", prepare)
    app.connect("build-finished", lead_in)
