"""Sealed JSON: what was changed by a bit or by hand is named, what has no seal is read as it is."""

from __future__ import annotations

import orjson
import pytest

from schemaquake.harness.sealed_json import BrokenSeal, dump_sealed, load_sealed, seal_text

DOCUMENT = {"valid": True, "number": 7, "nested": {"crc": 3, "list": [1.5, None]}, "text": "é\n}"}


def test_a_document_is_read_back_without_its_seal():
    text = dump_sealed(DOCUMENT)
    assert load_sealed(text) == DOCUMENT
    assert orjson.loads(text).keys() == {*DOCUMENT, "crc"}, "any tool reads it"
    assert seal_text(orjson.dumps(DOCUMENT, option=orjson.OPT_INDENT_2) + b"\n") == text


def test_every_flipped_bit_is_noticed():
    text = dump_sealed(DOCUMENT)
    for at in range(8 * len(text)):
        damaged = bytearray(text)
        damaged[at // 8] ^= 1 << at % 8
        with pytest.raises(ValueError):  # noqa: PT011 - BrokenSeal, or what is no JSON any more
            load_sealed(bytes(damaged))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b"true", b"false"),
        lambda text: text.replace(b"\n  ", b"\n "),
        lambda text: orjson.dumps(orjson.loads(text)),
        lambda text: text + b"\n",
        lambda text: text.replace(b"{", b'{"crc": 1,', 1),
        lambda text: orjson.dumps({"crc": None, **DOCUMENT}),
    ],
    ids=["value", "indent", "compact", "more", "twice", "rubbish"],
)
def test_what_was_edited_is_named_and_can_be_read_on_purpose(change):
    text = change(dump_sealed(DOCUMENT))
    with pytest.raises(BrokenSeal):
        load_sealed(text)
    assert load_sealed(text, keep_going=True).keys() == DOCUMENT.keys()


@pytest.mark.parametrize("text", [b"[]", b"7", b"{}", b'{"valid":true}', b'{\n  "a": 1\n}\n', b'{\n  "a": 1,\n  "races": 12\n}\n'])  # fmt: skip
def test_a_document_without_a_seal_is_read_as_it_is(text):
    assert load_sealed(text) == orjson.loads(text)


def test_text_that_is_cut_short_is_no_document():
    text = dump_sealed(DOCUMENT)
    for length in range(len(text) - 1):
        with pytest.raises(ValueError):  # noqa: PT011 - as above
            load_sealed(text[:length])
