"""The local cluster with real nodes: it lives as it is told to, and however a run ends, nothing of it is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import orjson
import pytest
from ordinary_user import NoUser, user
from places import SUPPORT
from real_runs import SYSTEM, living

from schemaquake.clusters.distribution.cache import cache_folder
from schemaquake.clusters.local.provider import LocalProvider
from schemaquake.clusters.nodes import libfaketime
from schemaquake.harness.faults.healing import heal
from schemaquake.harness.faults.ledger import FILE_NAME, read_ledger
from schemaquake.harness.history.journal import EVENT_JOURNALS, read_clock
from schemaquake.harness.history.merge import merge_history
from schemaquake.harness.wait import until

pytestmark = pytest.mark.cluster

INSIDE = str(SUPPORT / "inside.py")


def told_from_inside(scenario, folder):
    ran = subprocess.run(
        [*LocalProvider().enclosure(folder), sys.executable, INSIDE, scenario, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads(ran.stdout)


def events(folder):
    journals = folder / "journals"
    return merge_history(sorted(journals.glob(EVENT_JOURNALS)), read_clock(journals)).to_pylist()


def nothing_lives(folder):
    until(lambda: not living(folder), deadline_s=120, what=f"the end of everything in {folder}")


def data_left(folder):
    return [path for path in (folder / "nodes").rglob("*") if path.suffix == ".db" or path.name == "commitlog"]


def test_three_nodes_boot_serve_and_are_paused_skewed_killed_and_read_back(prepared):
    if libfaketime.find_library() is None:
        pytest.skip("clock skew needs libfaketime (Debian: apt-get install faketime)")
    folder = prepared(nodes=3, nemeses=("clock",))
    told = told_from_inside("life", folder)
    one = [{"k": 1, "v": "one"}]

    assert told["boots"] == [["n1", True, None], ["n2", True, None], ["n3", True, None]]
    assert told["made"] == ["ok", "ok", "ok"]
    assert told["tables"] == {"n1": True, "n2": True, "n3": True}, "every node has it in its own tables"
    assert told["read through n2"] == one
    assert told["paused"] == ["paused", False], "a frozen server answers nobody"
    assert told["resumed"] == ["running", True]
    assert told["skew read back"] == 3600
    assert 3500 < told["server clocks ahead"]["n1"] < 3700
    assert abs(told["server clocks ahead"]["n3"]) < 60, "only the node that was asked to"
    assert told["killed"] == ["stopped", False]
    assert told["started again"] == [True, None, "running"]
    assert told["read through n3"] == one, "an acknowledged row survives kill -9"
    assert told["directories"] == {name: [["sq", "beats"]] for name in ("n1", "n2", "n3")}
    assert told["logs"]["n3"] == ["system-0.log", "system-1.log"]
    assert told["states after the teardown"] == ["stopped"] * 3

    nothing_lives(folder)
    assert data_left(folder) == []
    assert (folder / "nodes" / "n1" / "system-0.log").stat().st_size > 1000, "the logs stay"


@pytest.mark.parametrize("system", ["cassandra:1.0.12", pytest.param("cassandra:1.2.19", marks=pytest.mark.long)])
def test_old_lines_live_die_and_live_again(prepared, system):
    """The lightest one that is spoken to by Thrift, and the lightest by CQL: seconds each."""
    told = told_from_inside("return-of-the-dead", prepared(system=system, nodes=3))
    assert told["boots"] == [["n1", True, None], ["n2", True, None], ["n3", True, None]]
    assert told["made"] == ["ok", "ok", "ok"]
    assert told["whole"] == [[True, None], [True, None]], "serving, and nobody taken for dead"
    assert told["read through n3"] == [{"k": 1, "v": "one"}], "an acknowledged row survives kill -9"
    assert [found[:4] for found in told["directories"]] == [["sq", "beats", None, True]], "replayed and flushed, no id"
    assert told["logs"] == ["system-0.log", "system-1.log", "system-2.log"]
    assert all(f"10.77.0.{number} " in told["nodetool"] for number in (1, 2, 3))


@pytest.mark.long
def test_two_runs_side_by_side_do_not_collide_and_sigterm_ends_only_the_one_it_was_sent_to(prepared, running):
    first_folder = prepared(nodes=1, restart="none", time_limit_s=120, nemeses=("pause",))
    second_folder = prepared(nodes=1, restart="none", time_limit_s=8)
    first, second = running(first_folder), running(second_folder)
    first.until_beating()
    second.until_beating()
    both = [len(living(folder)) for folder in (first_folder, second_folder)]
    assert min(both) >= 2, "a harness and a node each"
    until(lambda: states_of_faults(first_folder) == ["injected"], deadline_s=60, what="a fault", every_s=0.2)

    first.process.send_signal(signal.SIGTERM)
    assert first.said() == "False interrupted; every fault was healed and every node ended"
    nothing_lives(first_folder)
    assert data_left(first_folder) == []
    assert set(states_of_faults(first_folder)) == {"healed"}
    ours = [e["f"] for e in events(first_folder) if e["f"].startswith("fault-")]
    assert ours == ["fault-begins", "fault-ends"]

    assert second.said() == "True None"
    history = events(second_folder)
    written = {row(e)["k"] for e in history if e["f"] == "insert" and e["type"] == "ok"}
    (read,) = [orjson.loads(e["value"])["rows"] for e in history if e["f"] == "read-rows" and e["type"] == "ok"]
    assert written <= {found["k"] for found in read}
    assert len(written) > 20
    nothing_lives(second_folder)


def test_sigkill_of_the_harness_leaves_no_process_and_heal_sweeps_up_the_rest(prepared, running):
    folder = prepared(nodes=1, restart="none", time_limit_s=120, nemeses=("pause",))
    run = running(folder)
    run.until_beating()
    until(lambda: states_of_faults(folder) == ["injected"], deadline_s=60, what="a fault", every_s=0.2)
    assert len(living(folder)) >= 3
    run.process.send_signal(signal.SIGKILL)
    run.process.communicate(timeout=30)
    nothing_lives(folder)

    assert data_left(folder) != [], "nobody could tear down"
    done = heal(folder)
    assert "node n1: its data was deleted" in done
    assert "pause of n1: gone, and marked as healed in the ledger" in done
    assert data_left(folder) == []
    assert states_of_faults(folder) == ["healed"]
    assert heal(folder) == []

    history = events(folder)
    assert sum(e["f"] == "insert" and e["type"] == "ok" for e in history) >= 5, "what was written is whole"


@pytest.mark.long
def test_an_ordinary_user_boots_a_node_too(prepared):
    try:
        ordinary = user("ordinary user")
    except NoUser as reason:
        pytest.skip(str(reason))
    folder = prepared(nodes=1)
    cache = Path(tempfile.mkdtemp(prefix="schemaquake-cache-"))
    try:
        # Root's own cache may be out of others' reach.
        shutil.copytree(
            cache_folder() / "cassandra" / SYSTEM.partition(":")[2], cache / "cassandra" / SYSTEM.partition(":")[2]
        )
        document = json.loads((folder / "local.json").read_text())
        document["class_path"] = [jar.replace(str(cache_folder()), str(cache)) for jar in document["class_path"]]
        (folder / "local.json").write_text(json.dumps(document))
        # The tests' own workloads are registered in this interpreter alone.
        plan = json.loads((folder / "plan.json").read_text())
        (folder / "plan.json").write_text(json.dumps(plan | {"workloads": ["schema-churn"]}))
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, os.geteuid() if not ordinary.prefix else 65534, -1)
        subprocess.run(["chmod", "-R", "a+rX", str(cache)], check=True)
        enclosed = (
            "import subprocess, sys; from schemaquake.clusters.local.namespaces import enclosure; "
            "sys.exit(subprocess.run([*enclosure(), sys.executable, *sys.argv[1:]]).returncode)"
        )
        ran = subprocess.run(
            [*ordinary.prefix, ordinary.python, "-c", enclosed, INSIDE, "one-node", str(folder)],
            env={**ordinary.environment, "SCHEMAQUAKE_CACHE": str(cache)},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
    finally:
        shutil.rmtree(cache)
    assert ran.returncode == 0, ran.stderr[-4000:]
    told = json.loads(ran.stdout)
    assert told["boots"] == [["n1", True, None]]
    assert told["made"] == ["ok", "ok", "ok"]
    assert told["reads"] == [{"k": 1, "v": "one"}]
    assert {("keyspace", "sq", ""), ("table", "sq", "beats"), ("live", "sq", "beats")} <= set(
        map(tuple, told["observed"])
    )
    assert told["directories"] == [["sq", "beats"]]
    nothing_lives(folder)


def states_of_faults(folder):
    """Where each fault of the ledger stands."""
    if not (folder / FILE_NAME).exists():
        return []
    return [entry.state for entry in {entry.id: entry for entry in read_ledger(folder / FILE_NAME)}.values()]


def row(event):
    return orjson.loads(event["value"])["row"]
