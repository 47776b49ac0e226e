"""Mutations: small changes of a file that a reader knows, of the kinds by which readers are broken."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

__all__ = ["mutated"]

_TOKENS: Final = (
    b"", b"null", b"true", b"[]", b"{}", b'""', b"0", b"-1", b"0.5", b"1e400", b"-0", b"NaN", b"9" * 25, b"2147483648",
    b"9223372036854775808", b'"\\ud800"', b'"\\u0000"', b"\xff\xfe", b"\xc3", b"\x00", b"\r\n", b"[" * 3000, b'{"a":' * 2000,
    b"{:a " * 2000, b"'" * 9, b'"' + b"x" * 5000 + b'"', b'#inst "x"', b"nan", b"inf", b"1_0", b"0x1f", b"1979-05-27",
)  # fmt: skip
_VALUE: Final = re.compile(rb'"[^"\n]*"|-?\d+(?:\.\d+)?|true|false|null|nil|:[a-z-]+')


def mutated(seeds: Sequence[bytes], random: Random) -> bytes:
    """Return one of the seeds, changed in one to four places."""
    content = random.choice(seeds)
    for _ in range(random.randint(1, 4)):
        content = random.choice(_MUTATIONS)(content, seeds, random)
    return content


def _flip(content: bytes, _seeds: Sequence[bytes], random: Random) -> bytes:
    if not content:
        return content
    at = random.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << random.randrange(8)]) + content[at + 1 :]


def _cut(content: bytes, _seeds: Sequence[bytes], random: Random) -> bytes:
    begin, end = _span(content, random)
    return content[:begin] + content[end:]


def _end(content: bytes, _seeds: Sequence[bytes], random: Random) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def _repeat(content: bytes, _seeds: Sequence[bytes], random: Random) -> bytes:
    begin, end = _span(content, random)
    return content[:end] + content[begin:end] * random.randint(1, 5) + content[end:]


def _insert(content: bytes, _seeds: Sequence[bytes], random: Random) -> bytes:
    at = random.randrange(len(content) + 1)
    return content[:at] + random.choice(_TOKENS) + content[at:]


def _replace(content: bytes, _seeds: Sequence[bytes], random: Random) -> bytes:
    """Put another value in the place of one: the most telling mutation of a text."""
    values = list(_VALUE.finditer(content))
    if not values:
        return _insert(content, _seeds, random)
    value = random.choice(values)
    return content[: value.start()] + random.choice(_TOKENS) + content[value.end() :]


def _splice(content: bytes, seeds: Sequence[bytes], random: Random) -> bytes:
    other = random.choice(seeds)
    return content[: random.randrange(len(content) + 1)] + other[random.randrange(len(other) + 1) :]


def _span(content: bytes, random: Random) -> tuple[int, int]:
    begin = random.randrange(len(content) + 1)
    return begin, min(len(content), begin + random.randint(1, 40))


_MUTATIONS: Final[Sequence[Callable[[bytes, Sequence[bytes], Random], bytes]]] = (
    _flip, _cut, _end, _repeat, _insert, _replace, _replace, _replace, _splice,
)  # fmt: skip
