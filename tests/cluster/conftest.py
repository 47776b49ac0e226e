from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import heartbeat
import orjson
import plugins
import pytest
from real_runs import SYSTEM, Runner

from schemaquake.clusters.local.provider import LocalProvider
from schemaquake.harness.errors import EnvironmentLacks
from schemaquake.harness.model.plan import Plan


@pytest.fixture(scope="session")
def heartbeat_distribution(tmp_path_factory):
    entry_points = {"workloads": {"heartbeat": "heartbeat:Heartbeat"}}
    return plugins.distribution(tmp_path_factory.mktemp("plugin"), entry_points, name="heartbeat")


@pytest.fixture
def prepared(heartbeat_distribution):
    """`prepared(nodes=1)`: a run's folder in which everything is ready; skips the test if this machine lacks something."""
    folders = []

    def make(**plan):
        # Not below pytest's own folder, which only its owner may enter.
        folder = Path(tempfile.mkdtemp(prefix="schemaquake-cluster-"))
        folder.chmod(0o755)
        folders.append(folder)
        plan = Plan(
            **{"system": SYSTEM, "workloads": ("heartbeat",), "settle_limit_s": 10, "start_timeout_s": 400.0, **plan}
        )
        (folder / "plan.json").write_bytes(orjson.dumps(plan.to_json()))
        try:
            provider = LocalProvider()
            provider.enclosure(folder)
            provider.prepare(plan, folder)
        except EnvironmentLacks as lack:
            pytest.skip(str(lack))
        return folder

    with plugins.on_path(heartbeat_distribution, Path(heartbeat.__file__).parent):
        yield make
    for folder in folders:
        shutil.rmtree(folder)


@pytest.fixture
def running():
    """`running(folder)`: a run on its way."""
    runners = []

    def start(folder):
        runners.append(Runner(folder))
        return runners[-1]

    yield start
    for runner in runners:
        runner.end()
