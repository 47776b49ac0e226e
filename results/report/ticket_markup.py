"""Ticket markup: the few elements of a ticket's text, in Markdown and in JIRA's wiki markup. Every text of a run is escaped by them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from schemaquake.results.report.markdown import code_block, code_span, escaped

__all__ = ["JIRA", "MARKDOWN", "MARKUPS", "Markup"]

_JIRA_MOST: Final = 32_000
"""Characters of a description; JIRA takes 32,767 (JRACLOUD-78553)."""

_JIRA_LANGUAGES: Final = {"sh": "bash"}


@dataclass(frozen=True, slots=True)
class Markup:
    """One notation. The functions take plain text but for `bullets`, whose items are rendered already."""

    escape: Callable[[str], str]
    bold: Callable[[str], str]
    heading: Callable[[str], str]
    code: Callable[[str], str]
    block: Callable[[str, str], str]
    bullets: Callable[[Iterable[str]], str]
    most: int | None = None
    """Characters of the whole text; None: no limit."""


def _jira_escaped(text: str) -> str:
    """Escape text so that JIRA shows it literally: no macro, link, mention, image, emphasis or table cell."""
    one_line = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"([\\*_{}\[\]()!|~@^+?#-])", r"\\\1", one_line)


def _jira_block(text: str, language: str) -> str:
    """Render a block that no line of `text` can close."""
    name = "code" if language else "noformat"
    opening = f"code:{_JIRA_LANGUAGES.get(language, language)}" if language else name
    inside = text.replace("{" + name, "{ " + name)
    return "{" + opening + "}\n" + inside + "\n{" + name + "}"


MARKDOWN: Final = Markup(
    escape=escaped,
    bold=lambda text: f"**{escaped(text)}**",
    heading=lambda text: f"### {escaped(text)}",
    code=code_span,
    block=code_block,
    bullets=lambda items: "\n".join(f"- {item}" for item in items),
)
JIRA: Final = Markup(
    escape=_jira_escaped,
    bold=lambda text: f"*{_jira_escaped(text)}*",
    heading=lambda text: f"h3. {_jira_escaped(text)}",
    code=lambda text: f"{{{{{_jira_escaped(text)}}}}}",
    block=_jira_block,
    bullets=lambda items: "\n".join(f"* {item}" for item in items),
    most=_JIRA_MOST,
)
MARKUPS: Final[Mapping[str, Markup]] = {"markdown": MARKDOWN, "jira": JIRA}
"""Name on the command line → notation."""
