"""Sealed JSON: documents that end in a checksum of themselves, so that one that was edited or damaged is not believed.

    {
      "valid": true,
      "crc": 3735928559
    }

`crc` is the CRC-32 of the bytes before that field's comma. Documents of 0.1, and those that were written by hand, have none and
are read as they are. The name of the field is part of what is checked: of a document that ends in a number under another name
of three characters, one bit of the name was changed.
"""

from __future__ import annotations

import re
from typing import Any, Final
from zlib import crc32

import orjson

__all__ = ["BrokenSeal", "dump_sealed", "load_sealed", "load_sealed_object", "seal_text"]

_FIELD: Final = "crc"
_END: Final = re.compile(rb',\n  "([^"]{3})": (\d{1,10})\n\}\n')


class BrokenSeal(ValueError):
    """A document that is not what was written."""


def seal_text(text: bytes) -> bytes:
    """Return the text of an indented JSON object that is not empty, with its checksum as the last field."""
    covered = text.rstrip().removesuffix(b"}").rstrip()
    return b'%b,\n  "%b": %d\n}\n' % (covered, _FIELD.encode(), crc32(covered))


def dump_sealed(document: dict[str, Any], *, option: int = 0) -> bytes:
    """Render a document that is not empty, indented and sealed. `option` is added to those of orjson."""
    return seal_text(orjson.dumps(document, option=option | orjson.OPT_INDENT_2))


def load_sealed(content: bytes, *, keep_going: bool = False) -> Any:
    """Parse a document, and return it without its checksum.

    Raises BrokenSeal if the checksum is not that of the document, unless `keep_going`, and ValueError for what is no JSON.
    """
    document = orjson.loads(content)
    if not isinstance(document, dict):
        return document
    end = _END.search(content, max(0, len(content) - 32))
    if end is None and _FIELD not in document:
        return document
    if not keep_going and not _holds(content, end):
        raise BrokenSeal("it was changed after it was written: its checksum does not match")
    return {name: value for name, value in document.items() if name != _FIELD}


def load_sealed_object(content: bytes, *, keep_going: bool = False) -> dict[str, Any]:
    """Parse a document that must be an object, as `load_sealed` does. Raises ValueError for another as well."""
    document = load_sealed(content, keep_going=keep_going)
    if not isinstance(document, dict):
        raise ValueError("it holds no object")  # noqa: TRY004 - as all that is wrong with a document
    return document


def _holds(content: bytes, end: re.Match[bytes] | None) -> bool:
    return (
        end is not None
        and end.end() == len(content)
        and end[1] == _FIELD.encode()
        and int(end[2]) == crc32(content[: end.start()])
    )
