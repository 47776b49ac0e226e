"""Tokens: the same as the driver's own, for every key of type bigint."""

from __future__ import annotations

from cassandra.metadata import Murmur3Token
from hypothesis import example, given
from hypothesis import strategies as st

from schemaquake.harness.placements.tokens import token_of_long


@given(st.integers(-(2**63), 2**63 - 1))
@example(0)
@example(-1)
@example(2**63 - 1)
@example(-(2**63))
def test_a_token_is_the_one_that_the_driver_computes(key):
    assert token_of_long(key) == Murmur3Token.hash_fn(key.to_bytes(8, "big", signed=True))
