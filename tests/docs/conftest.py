"""What tests of several pages share."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import laid_out

from schemaquake.results.runs.execution import conclude


@pytest.fixture(scope="session")
def recorded_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded run, judged and reported, as `…/runs/<name>`."""
    run = laid_out(tmp_path_factory.mktemp("recorded"))
    conclude(run, engine="local")
    return run
