"""Feed and badges: Atom of findings that are new, verified or regressed, and one picture a version. Dates are those of the runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from schemaquake.results.findings.lifecycle import LifeEvent
from schemaquake.results.wording import shortened, system_name

__all__ = ["FeedEntry", "render_badge", "render_feed"]

_ATOM = "http://www.w3.org/2005/Atom"
_SVG = "http://www.w3.org/2000/svg"
_ENTRIES_MOST = 200
_LONG_AGO = "1970-01-01T00:00:00+00:00"
_LETTER = 7
"""Width of a letter of a badge, generously, in pixels."""
_BADGE_MOST = 60  # characters
_COLOURS = {"fail": "#96165d", "ok": "#0b4f8f", "other": "#5c6771"}


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One event of one finding."""

    finding: str
    title: str
    event: LifeEvent


def render_feed(entries: Iterable[FeedEntry], *, address: str) -> bytes:
    """Render the feed, the latest first. `address` is where the site will be; empty: links are relative to the feed."""
    ordered = sorted(entries, key=lambda one: (one.event.at or "", one.finding, one.event.kind), reverse=True)[
        :_ENTRIES_MOST
    ]
    ET.register_namespace("", _ATOM)
    feed = ET.Element(f"{{{_ATOM}}}feed")
    _text(feed, "title", "Schemaquake findings")
    _text(feed, "id", address or "urn:schemaquake:findings")
    _text(feed, "updated", (ordered[0].event.at if ordered else None) or _LONG_AGO)
    author = ET.SubElement(feed, f"{{{_ATOM}}}author")
    _text(author, "name", "Schemaquake")
    if address:
        ET.SubElement(feed, f"{{{_ATOM}}}link", {"rel": "self", "href": f"{address}feed.xml"})
    for one in ordered:
        entry = ET.SubElement(feed, f"{{{_ATOM}}}entry")
        _text(entry, "title", f"{one.event.kind}: {one.title} ({system_name(one.event.system)})")
        _text(
            entry,
            "id",
            f"urn:schemaquake:{one.finding}:{one.event.kind}:{_urn(one.event.system)}:{_urn(one.event.run)}",
        )
        _text(entry, "updated", one.event.at or _LONG_AGO)
        ET.SubElement(entry, f"{{{_ATOM}}}link", {"href": f"{address}findings/{one.finding}.html"})
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(feed, encoding="unicode")}\n'.encode()


def render_badge(label: str, text: str, style: str) -> bytes:
    """Render a picture of two short texts: what it is about, and its state."""
    label, text = (_clean(shortened(part, _BADGE_MOST)) for part in (label, text))
    left, right = (_LETTER * len(part) + 12 for part in (label, text))
    ET.register_namespace("", _SVG)
    picture = ET.Element(
        f"{{{_SVG}}}svg", {"width": str(left + right), "height": "20", "role": "img", "aria-label": f"{label}: {text}"}
    )
    for x, width, colour, word in ((0, left, "#1b2127", label), (left, right, _COLOURS[style], text)):
        ET.SubElement(picture, f"{{{_SVG}}}rect", {"x": str(x), "width": str(width), "height": "20", "fill": colour})
        attributes = {
            "x": str(x + width // 2),
            "y": "14",
            "fill": "#ffffff",
            "text-anchor": "middle",
            "font-family": "sans-serif",
            "font-size": "11",
        }
        ET.SubElement(picture, f"{{{_SVG}}}text", attributes).text = word
    return f"{ET.tostring(picture, encoding='unicode')}\n".encode()


def _text(parent: ET.Element, name: str, text: str) -> None:
    ET.SubElement(parent, f"{{{_ATOM}}}{name}").text = _clean(text)


def _clean(text: str) -> str:
    """Replace characters that no XML document may have."""
    return "".join(c if c in "\t\n" or 0x20 <= ord(c) < 0xD800 or 0xE000 <= ord(c) < 0xFFFE else "\ufffd" for c in text)


def _urn(text: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in text)
