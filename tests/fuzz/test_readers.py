"""Every reader of files: what once crashed it does not any more, nor do some hundred mutations of what it reads."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from mutations import mutated
from readers import READERS, crash_of

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*/*"))


def test_seeds_are_files_that_are_read(tmp_path):
    for reader in READERS.values():
        assert reader.seeds(), reader.name
        for content in reader.seeds():
            path = tmp_path / reader.name / reader.file
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
            assert crash_of(reader, content) is None


@pytest.mark.parametrize("path", CORPUS, ids=[f"{path.parent.name}-{path.name}" for path in CORPUS])
def test_what_crashed_a_reader_is_a_sentence(path):
    crash = crash_of(READERS[path.parent.name], path.read_bytes())
    assert crash is None, crash


@pytest.mark.parametrize("name", READERS)
def test_a_mutated_file_is_read_or_refused(name):
    reader, random = READERS[name], Random(name)
    for _ in range(4 if reader.is_slow else 60):
        content = mutated(reader.seeds(), random)
        crash = crash_of(reader, content)
        assert crash is None, (crash, content)
