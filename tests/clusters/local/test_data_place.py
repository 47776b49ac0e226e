"""Where servers keep their data: in memory while a run is short and there is room, on the disk otherwise and where the plan says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from schemaquake.clusters.local import cluster as local_cluster
from schemaquake.clusters.local import namespaces
from schemaquake.clusters.local import provider as local_provider
from schemaquake.clusters.local.data_place import memory_for_data
from schemaquake.clusters.local.provider import LocalProvider
from schemaquake.harness.errors import EnvironmentLacks, PlanError
from schemaquake.harness.installed_options import options_of
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.run.runner import refuse_contradictions

INSIDE = """
import shutil, sys
from pathlib import Path
from schemaquake.clusters.local.volumes import make_volume, remove_volume

folder = Path(sys.argv[1])
for name in ("n1", "n2"):
    make_volume(folder / name, ["data", "commitlog"], size_mb=40)
    (folder / name / "data" / "rows").write_bytes(b"x" * (30 << 20))
print(shutil.disk_usage(folder / "n1" / "commitlog").total >> 20)
"""


def a_plan(**changed):
    return Plan(**{"system": "cassandra:5.0.9", "workloads": ("drop-type",), "time_limit_s": 60, **changed})


@pytest.mark.parametrize(
    ("changed", "free_mb", "expected_mb"),
    [
        ({}, 30000, 4096),
        ({}, 6000, 2000),
        ({}, 3 * 1024, 1024),
        ({}, 3 * 1024 - 1, None),
        ({"nodes": 5, "spares": 2}, 10000, 1428),
        ({"nodes": 5, "spares": 5}, 10000, None),
        ({}, 0, None),
        ({}, None, None),
        ({"time_limit_s": 600}, 30000, 4096),
        ({"time_limit_s": 601}, 30000, None),
        ({"keep_data": True}, 30000, None),
        ({"options": {"server-data": "disk"}}, 30000, None),
        ({"options": {"server-data": "memory"}, "time_limit_s": 7200}, 30000, 4096),
        ({"options": {"server_data": "memory"}, "time_limit_s": 7200}, 4500, 1500),
    ],
)  # fmt: skip
def test_data_is_in_memory_while_a_run_is_short_and_there_is_room_unless_the_plan_chooses(
    changed, free_mb, expected_mb
):
    assert memory_for_data(a_plan(**changed), free_mb=free_mb) == expected_mb


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"options": {"server-data": "tape"}}, "-O server-data=tape: memory or disk"),
        ({"options": {"server-data": "memory"}, "keep_data": True}, "contradicts --keep-data"),
    ],
)  # fmt: skip
def test_a_place_that_cannot_be_is_refused_before_anything_is_started(changed, text):
    with pytest.raises(PlanError, match=text):
        memory_for_data(a_plan(**changed), free_mb=30000)
    with pytest.raises(PlanError, match=text):
        LocalProvider().unstarted(a_plan(**changed))


def test_the_option_belongs_to_local_clusters_alone():
    refuse_contradictions(a_plan(options={"server-data": "disk"}))
    assert "server-data" in {each.name for each in options_of("clusters", "local")}
    assert "server-data" not in {each.name for each in options_of("clusters", "docker")}


def test_memory_that_was_asked_for_and_is_not_there_is_told(tmp_path):
    with pytest.raises(EnvironmentLacks, match=r"needs 1024 MB a node .* 1000 MB are left"):
        memory_for_data(a_plan(options={"server-data": "memory"}), free_mb=3000)


@pytest.mark.parametrize(
    ("free_mb", "options", "fact", "size_mb"),
    [
        (6000, {}, "in memory", 2000),
        (600, {}, "on disk", None),
        (6000, {"server-data": "disk"}, "on disk", None),
    ],
)  # fmt: skip
def test_the_run_says_where_its_data_lay_and_its_cluster_mounts_nothing_else(
    tmp_path, monkeypatch, free_mb, options, fact, size_mb
):
    installed = {
        "java": "/java",
        "java_version": "17",
        "class_path": [],
        "source": "test",
        "digest": "0" * 64,
        "jars": {},
    }
    monkeypatch.setattr(local_provider, "_require_memory", lambda _needed_mb: free_mb)
    monkeypatch.setattr(local_provider, "_install", lambda _system, _distribution: dict(installed))
    plan = a_plan(options=options)
    assert LocalProvider().prepare(plan, tmp_path)["server data"] == fact

    mounted = []
    monkeypatch.setattr(
        local_cluster, "make_volume", lambda folder, names, *, size_mb: mounted.append((folder.name, *names, size_mb))
    )
    monkeypatch.setattr(local_cluster, "archive_arguments", lambda *_: ())
    monkeypatch.setattr(
        local_cluster,
        "namespaces",
        SimpleNamespace(open_enclosure=int, lay_network=len, address_of=namespaces.address_of),
    )
    LocalProvider().create(plan, tmp_path)._create()
    assert [(node, size) for node, *_, size in mounted] == [(f"n{number}", size_mb) for number in (1, 2, 3) if size_mb]
    assert all({"data", "commitlog", "hints", "tmp"} <= set(names) for _, *names, _ in mounted)


def test_a_run_of_an_older_version_has_its_data_on_disk(tmp_path, monkeypatch):
    document = {"java": "/java", "class_path": [], "others": {}}
    (tmp_path / "local.json").write_text(json.dumps(document))
    monkeypatch.setattr(local_cluster, "archive_arguments", lambda *_: ())
    assert LocalProvider().create(a_plan(), tmp_path)._volume_mb is None


def test_files_in_memory_have_a_limit_of_their_own_a_node_and_end_with_the_run(tmp_path):
    try:
        prefix = namespaces.enclosure()
    except EnvironmentLacks as reason:
        pytest.skip(str(reason))
    said = subprocess.run(
        [*prefix, sys.executable, "-c", INSIDE, str(tmp_path)],
        capture_output=True, text=True, check=True, timeout=120, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert said.stdout.split() == ["40"]
    assert not any(path.is_mount() for path in tmp_path.rglob("*"))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert Path(tmp_path / "n2" / "data").is_dir()
