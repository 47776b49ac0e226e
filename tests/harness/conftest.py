from __future__ import annotations

from pathlib import Path

import orjson
import plugins
import pytest
import scripted_cluster

from schemaquake.harness.history.journal import (
    EVENT_JOURNALS,
    OBSERVATION_JOURNALS,
    read_clock,
)
from schemaquake.harness.history.merge import merge_history, merge_observations


@pytest.fixture(scope="session")
def scripted_distribution(tmp_path_factory):
    return plugins.distribution(tmp_path_factory.mktemp("plugin"), scripted_cluster.ENTRY_POINTS, name="scripted")


@pytest.fixture
def scripted(scripted_distribution):
    """The plugin `scripted` is installed, here and in every process that is started."""
    with plugins.on_path(scripted_distribution, Path(scripted_cluster.__file__).parent):
        yield


@pytest.fixture
def history():
    """Reads the events of a folder of journals: dicts in the order of time, with their values decoded."""

    def read(journals):
        table = merge_history(sorted(journals.glob(EVENT_JOURNALS)), read_clock(journals))
        return [
            {**row, "value": None if row["value"] is None else orjson.loads(row["value"])} for row in table.to_pylist()
        ]

    return read


@pytest.fixture
def observations():
    """Reads the observations of a folder of journals, as dicts in the order of time."""

    def read(journals):
        return merge_observations(sorted(journals.glob(OBSERVATION_JOURNALS)), read_clock(journals)).to_pylist()

    return read
