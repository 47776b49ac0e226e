"""The server: nothing outside of the folder, nobody from elsewhere, and a run in progress as it goes."""

from __future__ import annotations

import http.client
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from bundles import RUN, judged_run
from site_runs import further_run

from schemaquake.harness.errors import PlanError
from schemaquake.harness.run_process import process_start_time
from schemaquake.results.findings.curation import NOTHING_CURATED
from schemaquake.results.site import server as site_server
from schemaquake.results.site.following import RunFollower
from schemaquake.results.site.records import file_name
from schemaquake.results.site.server import SiteServer, open_server


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    (judged_run(folder / RUN) / "report.html").write_text("<script>alert(1)</script>")
    (folder / "secret.txt").write_text("secret")
    return folder


def running(server: SiteServer) -> Iterator[SiteServer]:
    server.renew()
    thread = threading.Thread(target=server.run)
    thread.start()
    yield server
    server.close()
    thread.join()


@pytest.fixture(scope="module")
def server(runs, tmp_path_factory) -> Iterator[SiteServer]:
    yield from running(open_server(runs, tmp_path_factory.mktemp("s") / "site", curation=NOTHING_CURATED))


def ask(server: SiteServer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    port = server.http.server_address[1]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest(method, path, skip_host=True)
    for name, value in {"Host": f"127.0.0.1:{port}", **headers}.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


def test_pages_are_those_of_the_site(server):
    for name in ("index.html", "runs.html", f"runs/{RUN}.html", "assets/site.js", "feed.xml", "data/runs-000.js"):
        status, headers, body = ask(server, f"/{name}")
        assert (status, body) == (200, (server.site / name).read_bytes())
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
    assert b"live.html" in ask(server, "/assets/served.js")[2]
    assert b"live.html" not in (server.site / "assets" / "served.js").read_bytes()
    assert ask(server, "/")[2] == ask(server, "/index.html")[2]
    status, headers, body = ask(server, "/index.html", "HEAD")
    assert (status, body, int(headers["content-length"])) == (200, b"", (server.site / "index.html").stat().st_size)


def test_why_a_site_is_not_renewed_is_told_once(runs, tmp_path, monkeypatch, caplog):
    server = open_server(runs, tmp_path / "site", curation=NOTHING_CURATED)
    tries = []

    def no_room(*_: object, **__: object) -> None:
        tries.append(1)
        if len(tries) == 3:
            server.ended.set()
        raise PlanError("no room for the site")

    monkeypatch.setattr(site_server, "publish", no_room)
    monkeypatch.setattr(site_server, "_RENEW_EVERY_S", 0.001)
    server._keep_renewed()
    server.http.server_close()
    told = [record.reason for record in caplog.records if record.message == "the site could not be renewed"]
    assert (len(tries), told) == (3, ["no room for the site"])


def test_the_files_of_a_folder_that_was_renamed_are_those_of_its_run(runs, tmp_path):
    folder = tmp_path / "runs" / "renamed"
    shutil.copytree(runs / RUN, folder)
    server = open_server(tmp_path / "runs", tmp_path / "site", curation=NOTHING_CURATED)
    for one in running(server):
        summary = orjson.loads((runs / RUN / "summary.json").read_bytes())
        page = file_name(str(summary["run"]))
        assert ask(one, f"/runs/{page}.html")[0] == 200
        assert ask(one, f"/files/{page}/report.html")[0] == 200
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
        assert ask(one, f"/files/{page}/report.html")[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "/runs/../../secret.txt", "/runs/%2e%2e/%2e%2e/secret.txt",
        "//etc/passwd", "/%00", "/index.html%00.js", "/.schemaquake/records.jsonl", "/%2eschemaquake/records.jsonl", "/runs", "/runs/",
        "/a\\..\\b", "/%5c..%5c", f"/files/{RUN}/../../secret.txt", f"/files/{RUN}/..%2f..%2fsecret.txt", f"/files/{RUN}/process.json",
        f"/files/{RUN}/nodes/../plan.json", f"/files/{RUN}/nodes/n1/cassandra.yaml", f"/files/{RUN}", "/files/../plan.json", "/files/none/plan.json",
        "/live/none.html", "/live/none/events", "/live/../x/events", "/nothing", "/" + "a/" * 300, "/" + "x" * 3000,
    ],
)  # fmt: skip
def test_nothing_else_is_opened(server, path):
    status, _, body = ask(server, path)
    assert status in {404, 414}
    assert b"secret" not in body


def test_links_and_pipes_are_not_opened(server, runs):
    run = runs / RUN
    shutil.copy(run / "outcome.json", run / "kept")
    try:
        (run / "outcome.json").unlink()
        (run / "outcome.json").symlink_to(runs / "secret.txt")
        assert ask(server, f"/files/{RUN}/outcome.json")[0] == 404
        (run / "outcome.json").unlink()
        os.mkfifo(run / "outcome.json")
        assert ask(server, f"/files/{RUN}/outcome.json")[0] == 404
        (server.site / "runs" / "link.html").symlink_to(runs / "secret.txt")
        assert ask(server, "/runs/link.html")[0] == 404
    finally:
        (run / "outcome.json").unlink()
        shutil.move(run / "kept", run / "outcome.json")


def test_a_runs_own_files_run_nothing(server):
    status, headers, body = ask(server, f"/files/{RUN}/report.html")
    assert (status, body) == (200, b"<script>alert(1)</script>")
    assert headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert ask(server, f"/files/{RUN}/nodes/n1/system-0.log")[1]["content-type"].startswith("text/plain")
    assert ask(server, f"/files/{RUN}/history.parquet")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_it_only_reads(server, method):
    assert ask(server, "/index.html", method)[0] == 501


@pytest.mark.parametrize(
    "host", ["evil.example:{}", "127.0.0.1", "", "127.0.0.1:1", "0.0.0.0:{}", "127.0.0.1.evil.example:{}"]
)
def test_a_name_that_points_here_is_not_answered(server, host):
    status, _, body = ask(server, "/index.html", Host=host.format(server.http.server_address[1]))
    assert status == 421
    assert b"finding" not in body.lower()


def test_localhost_is_this_machine(server):
    assert ask(server, "/index.html", Host=f"localhost:{server.http.server_address[1]}")[0] == 200


def test_beyond_this_machine_it_takes_the_token(runs, tmp_path):
    opened = open_server(runs, tmp_path / "site", curation=NOTHING_CURATED, host="0.0.0.0")  # noqa: S104 - that is the test
    assert opened.token is not None
    assert opened.token in opened.address
    for server in running(opened):
        assert ask(server, "/index.html")[0] == 403
        assert ask(server, "/?token=wrong")[0] == 403
        assert ask(server, "/", Cookie="schemaquake=wrong")[0] == 403
        status, headers, _ = ask(server, f"/?token={server.token}")
        assert (status, headers["location"]) == (303, "/")
        assert "SameSite=Strict" in headers["set-cookie"]
        assert "HttpOnly" in headers["set-cookie"]
        assert ask(server, "/index.html", Cookie=f"schemaquake={server.token}")[0] == 200
        name = f"evil.example:{server.http.server_address[1]}"
        assert ask(server, "/index.html", Host=name, Cookie=f"schemaquake={server.token}")[0] == 421


def test_what_cannot_be_bound_is_a_wrong_argument(runs, tmp_path, server):
    port = server.http.server_address[1]
    for named in ({"host": "example.org"}, {"host": "192.0.2.1"}, {"port": port}):
        with pytest.raises(PlanError):
            open_server(runs, tmp_path / "site", curation=NOTHING_CURATED, **named)
    with pytest.raises(PlanError):
        open_server(runs / "secret.txt", tmp_path / "site", curation=NOTHING_CURATED)


def test_a_folder_without_runs_shows_that_there_are_none(tmp_path):
    (tmp_path / "runs").mkdir()
    for server in running(open_server(tmp_path / "runs", tmp_path / "site", curation=NOTHING_CURATED)):
        assert b"None at this moment" in ask(server, "/")[2]
        assert ask(server, "/assets/site.css")[0] == 200


# ── runs in progress ─────────────────────────────────────────────────────────────────────────────────────────────────


SINCE_BOOT_NS = 68_000_000_000_000
"""The time of a machine's clock when a run begins."""


def event(time: int, process: int, kind: str, f: str, value: object = None, **more: object) -> bytes:
    document = {
        "time": SINCE_BOOT_NS + time,
        "process": process,
        "type": kind,
        "f": f,
        "value": orjson.dumps(value).decode(),
        **more,
    }
    return orjson.dumps(document) + b"\n"


@pytest.fixture
def live(runs, tmp_path) -> Path:
    folder = further_run(runs / RUN, tmp_path / "live-runs" / "live")
    for name in ("journals", "nodes/n1"):
        (folder / name).mkdir(parents=True)
    (folder / "summary.json").unlink()
    began = process_start_time(os.getpid())
    (folder / "process.json").write_bytes(orjson.dumps({"pid": os.getpid(), "start_time": began}))
    return folder


def test_what_is_appended_is_seen_once_and_a_line_without_its_end_later(live):
    journal, log = live / "journals" / "events-0000.jsonl", live / "nodes" / "n1" / "system-0.log"
    follower = RunFollower(live)
    assert follower.poll()["running"] is True
    whole = event(1, -1, "info", "phase", {"phase": "main", "state": "begins"}) + event(2, 0, "invoke", "create-table")
    half = event(3_000_000_000, 0, "ok", "create-table")
    journal.write_bytes(whole + half[:20])
    state = follower.poll()
    assert state["phases"] == [{"name": "main", "state": "runs"}]
    assert state["operations"] == {"invoke": 1, "ok": 0, "fail": 0, "info": 0}
    fault = {"id": 4, "nemesis": "kill", "nodes": ["n1"]}
    with journal.open("ab") as file:
        file.write(half[20:] + b"rubbish\n" + event(3_000_000_001, -1, "info", "fault-begins", fault))
        file.write(event(3_000_000_002, -1, "info", "node-died", {"first_error": "boom"}, node="n1"))
    log.write_text("INFO  x\nERROR [main] broken\n")
    state = follower.poll()
    assert state["operations"]["ok"] == 1
    assert state["faults"] == ["kill n1"]
    assert state["signs"] == ["n1 died: boom", "n1: ERROR [main] broken"]
    assert (state["seconds"], state["rate"]) == (3.0, 1)
    with journal.open("ab") as file:
        file.write(event(9_000_000_000, -1, "info", "fault-ends", {"id": 4}))
    state = follower.poll()
    assert (state["faults"], state["rate"], state["operations"]["ok"]) == ([], 0, 1)
    (live / "process.json").unlink()
    assert follower.poll()["running"] is False


def test_the_findings_of_a_judged_run_are_there(runs):
    state = RunFollower(runs / RUN).poll()
    assert state["judged"] is True
    assert state["findings"][0]["id"].startswith("SQ-")


def test_a_run_in_progress_is_streamed_until_it_ends(live, tmp_path):
    for server in running(open_server(live.parent, tmp_path / "site", curation=NOTHING_CURATED)):
        assert b'href="live/live.html"' in ask(server, "/live.html")[2]
        assert b'data-live="../live/live/events"' in ask(server, "/live/live.html")[2]
        (live / "journals" / "events-0000.jsonl").write_bytes(event(2, 0, "invoke", "create-table"))
        ending = threading.Timer(1.0, (live / "process.json").unlink)
        ending.start()
        status, headers, body = ask(server, "/live/live/events")
        assert (status, headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
        states = [orjson.loads(line[6:]) for line in body.splitlines() if line.startswith(b'data: {"run')]
        assert [states[0]["running"], states[-1]["running"]] == [True, False]
        assert body.endswith(b"event: end\ndata: {}\n\n")
        assert ask(server, "/live/live/events", Last_Event_ID="end")[0] == 204
