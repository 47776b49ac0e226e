"""Snapshots put back: files return to the folders that they came from, and nothing stays that no server took up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from changing_cluster import ChangingCluster
from file_nodes import FileCluster

from schemaquake.harness.model.context import Context
from schemaquake.harness.model.topology import Attempt
from schemaquake.harness.registry import load
from schemaquake.nemeses.everyday import maintenance, snapshots

CONTEXT = Context(seed=7, nodes=("n1",), time_limit_s=100)


class Snapshotting(FileCluster):
    """Snapshots copy data files, and a refresh renames those that lie in the folder of a table that there is."""

    def __init__(self, folder, *, tables=("t-1", "u-2"), fails=""):
        super().__init__(folder, ("n1",))
        self.live, self.fails = set(tables), fails
        self.data = folder / "n1" / "data"
        for table in (*tables, "system"):
            place = self.data / ("system" if table == "system" else "sq_churn") / f"{table}"
            place.mkdir(parents=True)
            (place / "nb-1-big-Data.db").write_text(table)
            (place / "nb-1-big-Index.db").write_text(table)

    def ask(self, verb, *, on, about=None, argument=None, limit_s):
        self.asked.append((verb, argument))
        if verb == self.fails:
            return Attempt(outcome="info", command=verb, node=on, seconds=0.1, answer="words")
        if verb == "snapshot":
            for path in list(self.data.glob("*/*/nb-*")):
                kept = path.parent / "snapshots" / argument / path.name
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(path.read_text())
            for place in self.data.glob("*/*/snapshots/*"):
                (place / "manifest.json").write_text("{}")
                (place / "schema.cql").write_text("CREATE")
            return Attempt(outcome="ok", command=verb, node=on, seconds=0.1)
        found = [name for name in self.live if name.startswith(argument.split()[1] + "-")]
        if not found:
            return Attempt(outcome="info", command=verb, node=on, seconds=0.1, answer="Unknown keyspace/cf pair (x)")
        for path in self.data.glob(f"sq_churn/{found[0]}/nb-1-*"):
            path.rename(path.with_name(path.name.replace("nb-1", "nb-9")))
        return Attempt(outcome="ok", command=verb, node=on, seconds=0.1)

    def files(self):
        return sorted(str(path.relative_to(self.data)) for path in self.data.glob("*/*/*") if path.is_file())


def carried_out(cluster, monkeypatch, meanwhile=lambda: None):
    monkeypatch.setattr(snapshots, "pause_for", lambda _seconds: meanwhile())
    monkeypatch.setattr(maintenance, "pause_for", lambda _seconds: None)
    nemesis = load("nemeses", "everyday")
    context = replace(CONTEXT, options={"everyday.kinds": "restore", "everyday.count": "1"})
    (operation,) = nemesis.schedule(context, random=context.random("x"))
    return nemesis.operate(cluster, operation)


def compacted(cluster, table):
    """The server merged the table's files into another one."""
    for path in (cluster.data / "sq_churn" / table).glob("nb-1-*"):
        path.rename(path.with_name(path.name.replace("nb-1", "nb-2")))


def test_files_that_were_compacted_away_return_and_are_taken_up(tmp_path, monkeypatch):
    cluster = Snapshotting(tmp_path)
    done = carried_out(cluster, monkeypatch, lambda: compacted(cluster, "t-1"))
    assert (done.type, [verb for verb, _ in cluster.asked]) == ("ok", ["snapshot", "refresh"])
    assert cluster.asked[1] == ("refresh", "sq_churn t")
    found = [name for name in cluster.files() if "/t-1/" in name]
    assert found == [f"sq_churn/t-1/nb-{n}-big-{part}.db" for n in (2, 9) for part in ("Data", "Index")]


def test_files_that_are_still_there_are_left_alone(tmp_path, monkeypatch):
    cluster = Snapshotting(tmp_path)
    before = cluster.files()
    assert carried_out(cluster, monkeypatch).type == "ok"
    assert (cluster.files(), [verb for verb, _ in cluster.asked]) == (before, ["snapshot"])


def test_a_table_that_is_dropped_gets_nothing_back(tmp_path, monkeypatch):
    cluster = Snapshotting(tmp_path)

    def drop():
        for path in (cluster.data / "sq_churn" / "t-1").glob("nb-*"):
            path.unlink()
        cluster.live.remove("t-1")

    assert carried_out(cluster, monkeypatch, drop).type == "ok"
    assert not [name for name in cluster.files() if "/t-1/" in name]


def test_what_no_server_took_up_does_not_stay(tmp_path, monkeypatch):
    cluster = Snapshotting(tmp_path)

    def recreate():
        compacted(cluster, "t-1")
        cluster.live = {"t-7", "u-2"}
        (cluster.data / "sq_churn" / "t-7").mkdir()

    assert carried_out(cluster, monkeypatch, recreate).type == "ok"
    assert [name for name in cluster.files() if "/t-" in name] == [
        "sq_churn/t-1/nb-2-big-Data.db",
        "sq_churn/t-1/nb-2-big-Index.db",
    ]
    gone = Snapshotting(tmp_path / "gone")

    def vanish():
        compacted(gone, "t-1")
        gone.live = {"u-2"}

    assert carried_out(gone, monkeypatch, vanish).type == "ok"
    assert not [name for name in gone.files() if "nb-1-" in name and "/t-1/" in name]


@pytest.mark.parametrize(("verb", "outcome", "asked"), [("snapshot", "info", 1), ("refresh", "info", 2)])
def test_a_request_that_fails_leaves_the_outcome_open(tmp_path, monkeypatch, verb, outcome, asked):
    cluster = Snapshotting(tmp_path, fails=verb)
    done = carried_out(cluster, monkeypatch, lambda: compacted(cluster, "t-1"))
    assert (done.type, len(cluster.asked)) == (outcome, asked)
    assert [name for name in cluster.files() if "/t-1/" in name and "nb-1-" in name and verb == "refresh"] == []


def test_it_is_carried_out_only_where_it_is_named_and_files_are_the_runs_own(monkeypatch):
    nemesis = load("nemeses", "everyday")
    assert "restore" not in nemesis.kinds
    assert carried_out(ChangingCluster(("n1",)), monkeypatch).type == "fail"
