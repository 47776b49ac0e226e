"""Tokens: the place on the ring of a partition key of one column (`dht/Murmur3Partitioner.java`, `utils/MurmurHash.java`)."""

from __future__ import annotations

from typing import Final

__all__ = ["token_of_long"]

_MASK: Final = 2**64 - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F
_LOWEST: Final = -(2**63)


def token_of_long(key: int) -> int:
    """Return the Murmur3 token of a partition key of type bigint."""
    data = key.to_bytes(8, "big", signed=True)
    # Eight bytes are less than a block, so they are the tail: all of it in the first half, read with the lowest byte first.
    tail = 0
    for place, byte in enumerate(data):
        # The server shifts signed bytes (CASSANDRA-2975), which smears the highest bit over those above.
        signed = byte - 256 if byte > 127 else byte
        tail ^= (signed << (8 * place)) & _MASK
    first = (_rotate((tail * _C1) & _MASK, 31) * _C2) & _MASK
    second = 0
    first ^= len(data)
    second ^= len(data)
    first = (first + second) & _MASK
    second = (second + first) & _MASK
    first, second = _finish(first), _finish(second)
    token = (first + second) & _MASK
    signed = token - 2**64 if token >= 2**63 else token
    return 2**63 - 1 if signed == _LOWEST else signed


def _rotate(word: int, by: int) -> int:
    return ((word << by) | (word >> (64 - by))) & _MASK


def _finish(word: int) -> int:
    word ^= word >> 33
    word = (word * 0xFF51AFD7ED558CCD) & _MASK
    word ^= word >> 33
    word = (word * 0xC4CEB9FE1A85EC53) & _MASK
    return word ^ (word >> 33)
