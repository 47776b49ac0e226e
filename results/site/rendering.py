"""Rendering: templates of the site, with everything escaped and a policy that lets a page run the site's own script alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined

import schemaquake
from schemaquake.harness.standard_streams import printable
from schemaquake.results.report.findings import references_of
from schemaquake.results.report.html import code_spans
from schemaquake.results.wording import VERDICT_MARK, counted, length_of_time, system_name, verdict_name

__all__ = ["POLICY", "STYLES", "families", "icon", "render", "script", "served_script", "shard", "styles"]

_HERE: Final = Path(__file__).parent / "templates"
_REPORT: Final = Path(__file__).parents[1] / "report" / "templates"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'"
)
STYLES: Final[Mapping[str, str]] = {
    "affected": "fail",
    "regressed": "fail",
    "new": "fail",
    "known": "info",
    "fixed": "info",
    "verified": "ok",
    "held": "ok",
    "invalid": "other",
    "not tried": "other",
    "valid": "ok",
    "invalid run": "fail",
    "unknown": "info",
}
"""Stage or verdict → CSS class."""
MARKS: Final[Mapping[str, str]] = {
    "affected": "✕",
    "regressed": "✕",
    "new": "✕",
    "known": "!",
    "fixed": "?",
    "verified": "✓",
    "held": "○",
    "invalid": "–",
    "not tried": "·",
}
"""Stage → shape, for readers who cannot tell the colours apart."""


def render(template: str, *, depth: int, **values: Any) -> str:
    """Render a page that lies `depth` folders below the site's root. What a browser would hide or obey in a text is written out."""
    return printable(_environment().get_template(template).render(root="../" * depth, policy=POLICY, **values))


def families(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Put findings with one title, for other statements, together, where the first of them stands."""
    by_title: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_title.setdefault(row["title"], []).append(row)
    return [
        {
            "title": title,
            "rows": some,
            "worst": some[0]["worst"],
            "tickets": list(dict.fromkeys(ticket for row in some for ticket in row["tickets"])),
        }
        for title, some in by_title.items()
    ]


def shard(name: str, number: int, rows: object) -> bytes:
    """Render a script that hands data to the page: scripts are what a page from a folder may load, and nothing else."""
    text = orjson.dumps([name, number, _printable(rows)]).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f"sq.load({text});\n".encode()


def _printable(value: Any) -> Any:
    """Return JSON with the characters of its texts that a browser would hide or obey written out."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {key: _printable(each) for key, each in value.items()}
    return [_printable(each) for each in value] if isinstance(value, list | tuple) else value


@cache
def styles() -> bytes:
    """Return the site's style sheet: that of reports, and what is added."""
    texts = [(folder / name).read_text("utf-8") for folder, name in ((_REPORT, "report.css"), (_HERE, "site.css"))]
    return "\n".join(texts).encode()


@cache
def script() -> bytes:
    """Return the site's script."""
    return (_HERE / "site.js").read_bytes()


@cache
def served_script() -> bytes:
    """Return the script that a server answers for `assets/served.js`, which is empty in a folder."""
    return (_HERE / "served.js").read_bytes()


@cache
def icon() -> bytes:
    """Return the picture beside a page's title."""
    return (_HERE / "icon.svg").read_bytes()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"code_spans": code_spans, "families": families}
    environment.globals |= {
        "version": schemaquake.__version__,
        "system_name": system_name,
        "verdict_name": verdict_name,
        "verdict_mark": VERDICT_MARK,
        "counted": counted,
        "length_of_time": length_of_time,
        "references_of": references_of,
        "style_of": STYLES,
        "mark_of": MARKS,
    }
    return environment
