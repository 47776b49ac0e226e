"""Pages: the documentation as tests read it: blocks, sections, the commands it names, and its examples carried out."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import shlex
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def pages() -> list[str]:
    """The names of all pages."""
    return sorted(path.name for path in DOCS.glob("*.md"))


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(text_of(page)) if kind == language]


def prose(page: str) -> str:
    """The page without its blocks."""
    return BLOCK.sub("", text_of(page))


def section(page: str, name: str) -> str:
    """What the page says under this heading of the second level; empty if there is none."""
    _, _, rest = text_of(page).partition(f"\n## {name}\n")
    return rest.partition("\n## ")[0]


def commands(page: str) -> list[list[str]]:
    """Every `schemaquake …` of the page's blocks, each once, as an argument vector without its first word."""
    lines = [line for kind in ("console", "sh", "yaml") for text in blocks(page, kind) for line in _whole_lines(text)]
    return _argument_vectors(lines)


def mentions(page: str) -> list[list[str]]:
    """The same of its sentences, where a command may stand without what it needs."""
    return _argument_vectors(SPAN.findall(prose(page)))


def _argument_vectors(lines: Iterable[str]) -> list[list[str]]:
    found = [re.match(r"(?:\$ |-? *run: )?(?:sudo )?(?:\S*/)?schemaquake ([^|>&;…]*)", line.strip()) for line in lines]
    return [shlex.split(command, comments=True) for command in dict.fromkeys(match[1] for match in found if match)]


def _whole_lines(text: str) -> list[str]:
    return re.sub(r"\\\n\s*", "", text).splitlines()


def carry_out(page: str, *, namespace: dict[str, Any] | None = None, without: str | None = None) -> dict[str, Any]:
    """Carry out the page's Python from top to bottom in one module, and return its names.

    A block prints what the `text` block right after it says, or nothing. Blocks that match `without` are left out.
    """
    names: dict[str, Any] = {"__name__": "example"} if namespace is None else namespace
    found = [*BLOCK.findall(text_of(page)), ("", "")]
    for (kind, code), (next_kind, told) in itertools.pairwise(found):
        if kind == "python" and not (without and re.search(without, code)):
            printed = printed_by(page, code, names)
            assert printed == (told if next_kind == "text" else "")
    return names


def printed_by(page: str, code: str, names: dict[str, Any]) -> str:
    """Carry out one block with these names, and return what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, page, "exec", dont_inherit=True), names)  # noqa: S102 - our own page
    return printed.getvalue()


def anomaly_links(text: str) -> list[str]:
    """The anomaly types that this text links to."""
    return re.findall(r"\]\(anomalies\.md#([\w-]+)\)", text)


def example_names(page: str) -> set[str]:
    """The names that the page's examples would register."""
    groups = [
        group
        for text in blocks(page, "toml")
        for group in tomllib.loads(text).get("project", {}).get("entry-points", {}).values()
    ]
    return {name for group in groups for name in group}
