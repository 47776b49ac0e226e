"""A container through its engine: what a command says and how it ends, files, and what keeps the engine from answering."""

from __future__ import annotations

import http.client
import io
import socket
import struct
import tarfile
import threading
from contextlib import suppress

import docker
import pytest
import requests

from schemaquake.clusters.docker.carried_tools import carry_clock_library, carry_packet_filter
from schemaquake.clusters.docker.engine import DockerEngine, Limits
from schemaquake.clusters.docker.transport import DockerTransport, _hear
from schemaquake.clusters.nodes import libfaketime
from schemaquake.harness.errors import ClusterError, NodeUnreachable
from schemaquake.harness.model.protocols import Executed

# ── an engine that is written down ───────────────────────────────────────────────────────────────────────────────────


def frame(stream, text):
    return struct.pack(">BxxxL", stream, len(text)) + text


class ScriptedApi:
    """The low-level client at the seams the transport uses. `says` are the bytes on the wire of each exec."""

    def __init__(self, says=b"", *, exit_code=0, heard=None):
        self.says, self.exit_code, self.heard = says, exit_code, heard
        self.commands = []
        self.archives = {}
        self.raises = None

    def exec_create(self, container, argv, *, stdin, user):
        if self.raises is not None:
            raise self.raises
        self.commands.append((argv, stdin, user))
        return {"Id": "exec"}

    def exec_start(self, identity, *, socket):
        return self._wire()

    def _wire(self):
        ours, theirs = socket.socketpair()

        def serve():
            with theirs:
                if self.heard is not None:
                    while piece := theirs.recv(65536):
                        self.heard += piece
                theirs.sendall(self.says)

        threading.Thread(target=serve, daemon=True).start()
        return ours

    def exec_inspect(self, identity):
        return {"Running": False, "ExitCode": self.exit_code}

    def get_archive(self, container, path):
        if path not in self.archives:
            raise docker.errors.NotFound("no such file")
        return iter([self.archives[path]]), {}

    def put_archive(self, container, folder, packed):
        if folder == "/nowhere":
            raise docker.errors.NotFound("no such folder")
        self.archives[folder] = packed


class Client:
    def __init__(self, api):
        self.api = api


def transport(api):
    return DockerTransport(Client(api), "4711", name="sq-n1")


def response(status, message):
    answer = requests.Response()
    answer.status_code = status
    return docker.errors.APIError("refused", response=answer, explanation=message)


def packed(name, content=None, link=None):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo(name)
        if link is not None:
            member.type, member.linkname = tarfile.SYMTYPE, link
            archive.addfile(member)
        else:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def test_streams_are_told_apart_however_the_frames_fall():
    api = ScriptedApi(frame(1, b"one ") + frame(2, b"oh") + frame(1, b"two") + frame(2, b" no"), exit_code=3)
    done = transport(api).run(["ls", "/x y"])
    assert (done.exit_code, done.stdout, done.stderr) == (3, "one two", "oh no")


def test_a_command_is_an_argument_vector_of_root_and_no_line_for_a_shell():
    api = ScriptedApi()
    transport(api).run(["rm", "--", "a b; reboot"])
    assert api.commands == [(["rm", "--", "a b; reboot"], False, "0")]


def test_a_command_hears_everything_and_then_the_end():
    heard = bytearray()
    api = ScriptedApi(frame(1, b"thanks"), heard=heard)
    assert transport(api).run(["cat"], stdin=b"x" * 300_000).stdout == "thanks"
    assert len(heard) == 300_000


@pytest.mark.parametrize("code", [126, 127], ids=["older engines", "newer engines"])
def test_a_command_the_image_lacks_is_not_found(code):
    says = b'OCI runtime exec failed: exec failed: exec: "nft": executable file not found in $PATH: unknown\r\n'
    done = transport(ScriptedApi(frame(1, says), exit_code=code)).run(["nft"])
    assert done.exit_code == 127
    assert "nft" in done.stderr


def test_a_command_that_goes_on_too_long_is_nobody_knows_what():
    api = ScriptedApi()
    ours, theirs = socket.socketpair()
    api._wire = lambda: ours
    with theirs, pytest.raises(NodeUnreachable, match=r"sq-n1.*did not end in time"):
        transport(api).run(["sleep", "9"], timeout_s=0.05)


@pytest.mark.parametrize(
    ("refusal", "error", "words"),
    [
        (response(409, "Container 4711 is not running"), NodeUnreachable, "is not running"),
        (docker.errors.NotFound("gone", explanation="No such container: 4711"), NodeUnreachable, "No such container"),
        (requests.exceptions.ConnectionError("refused"), NodeUnreachable, "engine does not answer"),
        (response(500, "disk quota exceeded"), ClusterError, "disk quota exceeded"),
    ],
    ids=["stopped", "removed", "no engine", "engine's own trouble"],
)
def test_what_keeps_the_engine_from_answering_is_told_in_words(refusal, error, words):
    api = ScriptedApi()
    api.raises = refusal
    with pytest.raises(error, match=words):
        transport(api).run(["true"])


def test_a_file_is_read_through_links_that_lead_elsewhere():
    api = ScriptedApi()
    api.archives = {"/log/a": packed("a", link="../real/b"), "/real/b": packed("b", b"lines")}
    assert transport(api).get("/log/a") == b"lines"


def test_a_link_to_itself_ends():
    api = ScriptedApi()
    api.archives = {"/a": packed("a", link="a")}
    with pytest.raises(ClusterError, match="link to a link"):
        transport(api).get("/a")


def test_a_file_that_is_not_there_is_not_found():
    with pytest.raises(FileNotFoundError, match="/etc/nothing"):
        transport(ScriptedApi()).get("/etc/nothing")


def test_a_file_is_written_beside_its_place_and_renamed():
    api = ScriptedApi()
    transport(api).put(b"content", "/run/x/rules", mode=0o600)
    with tarfile.open(fileobj=io.BytesIO(api.archives["/run/x"])) as archive:
        (member,) = archive.getmembers()
        assert (member.mode, member.size) == (0o600, 7)
    ((argv, _, _),) = api.commands
    assert argv == ["mv", "-f", "--", f"/run/x/{member.name}", "/run/x/rules"]
    assert member.name.startswith(".rules.")


def test_a_folder_that_is_not_there_is_told():
    with pytest.raises(ClusterError, match="no folder /nowhere"):
        transport(ScriptedApi()).put(b"", "/nowhere/x")


HEAD = b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"


def answer(body):
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def serve(listening, pieces):
    """An engine that has one command carried out, whose output comes in these pieces after the head of its answer."""

    def speak(connection):
        with connection, connection.makefile("rb") as heard:
            while asked := heard.readline():
                heard.read(int(http.client.parse_headers(heard).get("Content-Length", 0)))
                if b"/start" not in asked:
                    connection.sendall(answer(b'{"Id": "e", "Running": false, "ExitCode": 0}'))
                    continue
                for piece in pieces:
                    connection.sendall(piece)
                return

    with suppress(OSError):
        while True:
            threading.Thread(target=speak, args=(listening.accept()[0],), daemon=True).start()


@pytest.mark.parametrize(
    "pieces",
    [
        [HEAD + frame(1, b"quick")],
        [HEAD + frame(1, b"qu"), frame(1, b"ick")],
        [HEAD + frame(1, b"quick")[:10], frame(1, b"quick")[10:]],
        [HEAD, frame(1, b"quick")],
    ],
    ids=["all at once", "some of it", "a piece of a frame", "none of it"],
)
def test_output_that_comes_with_the_head_of_the_answer_is_not_lost(pieces, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("engine")
        listening.listen()
        threading.Thread(target=serve, args=(listening, pieces), daemon=True).start()
        client = docker.DockerClient(base_url=f"unix://{tmp_path}/engine", version="1.41", timeout=10)
        try:
            for _ in range(20):
                assert DockerTransport(client, "c1", name="box").run(["say"]) == Executed(0, "quick", "")
        finally:
            client.close()


# ── a real one ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def container(engine_host, small_image):
    yield from _container(engine_host, small_image, "transport-test")


@pytest.fixture
def bare(engine_host, bare_image):
    yield from _container(engine_host, bare_image, "bare-test")


def _container(host, image, run):
    engine = DockerEngine.connect(host)
    try:
        network = engine.create_network(run)
        made = engine.create_container(
            run, "n1", number=1, image=image, network=network, limits=Limits(memory_mb=64, cpus=0.5), folder="/runs/x"
        )
        yield engine, DockerTransport(engine.client, made.id, name=made.name)
    finally:
        engine.remove(run)
        engine.close()


def test_input_that_a_command_did_not_hear_is_no_failure_of_the_engine():
    ours, engines = socket.socketpair()
    with ours:
        engines.sendall(struct.pack(">BxxxI", 1, 4) + b"said")
        ours.sendall(b"x" * 1000)
        engines.close()  # with all of that unread
        assert _hear(ours, was_told=True) == struct.pack(">BxxxI", 1, 4) + b"said"
        assert _hear(ours, was_told=True) == b""


def test_a_connection_that_is_reset_although_nothing_was_told_is_a_failure():
    ours, engines = socket.socketpair()
    with ours:
        ours.sendall(b"x")
        engines.close()
        with pytest.raises(ConnectionResetError):
            _hear(ours, was_told=False)


@pytest.mark.cluster
def test_commands_and_files_in_a_real_container(container):
    _, there = container
    assert there.run(["printenv", "PATH"]).stdout == "/usr/local/bin:/bin\n"
    assert there.run(["cat"], stdin=b"y" * 2_000_000).stdout == "y" * 2_000_000
    done = there.run(["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (done.exit_code, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert there.run(["true"], stdin=b"nobody listens" * 100_000).exit_code == 0
    assert there.run(["nonesuch"]).exit_code == 127
    there.put(b"\0binary", "/run/a b", mode=0o750)
    assert there.get("/run/a b") == b"\0binary"
    assert there.run(["sh", "-c", "ls -l '/run/a b'"]).stdout.startswith("-rwxr-x---")
    there.run(["sh", "-c", "rm -f /run/link; sh -c 'ls' >/dev/null"])
    with pytest.raises(FileNotFoundError):
        there.get("/run/nothing")
    with pytest.raises(ClusterError, match="is no file"):
        there.get("/run")
    with pytest.raises(NodeUnreachable, match="did not end in time"):
        there.run(["sleep", "5"], timeout_s=0.3)


@pytest.mark.cluster
def test_what_a_command_leaves_running_outlives_it(container):
    _, there = container
    there.run(["sh", "-c", "setsid sh -c 'sleep 300' </dev/null >/dev/null 2>&1 & echo $! > /run/pid"])
    pid = there.get("/run/pid").decode().strip()
    assert there.run(["test", "-e", f"/proc/{pid}"]).exit_code == 0
    assert there.run(["cat", "/proc/1/comm"]).stdout.strip() in {"docker-init", "tini"}


@pytest.mark.cluster
def test_a_container_without_a_packet_filter_is_given_this_machine_s(bare):
    engine, there = bare
    identity = engine.containers("bare-test")[0].id
    assert there.run(["iptables", "-S"]).exit_code == 127
    carried = carry_packet_filter(there, lambda packed: engine.unpack(identity, packed))
    assert carried in {"iptables, ip6tables", "nft"}
    assert carry_packet_filter(there, lambda _: pytest.fail("it is there now")) is None
    if "iptables" in carried:
        match = ["-s", "10.79.0.99", "-p", "tcp", "-m", "multiport", "--ports", "7000,7001"]
        statistic = ["-m", "statistic", "--mode", "random", "--probability", "0.5"]
        assert there.run(["iptables", "-A", "INPUT", *match, *statistic, "-j", "DROP"]).exit_code == 0
        assert "--probability 0.5" in there.run(["iptables", "-S", "INPUT"]).stdout


@pytest.mark.cluster
def test_a_container_with_a_packet_filter_keeps_its_own(container):
    _, there = container
    assert carry_packet_filter(there, lambda _: pytest.fail("nothing need be carried")) is None


@pytest.mark.cluster
def test_a_container_without_libfaketime_is_given_one_that_shifts_its_time(bare):
    if libfaketime.find_library() is None:
        pytest.skip("libfaketime is not installed (Debian: apt-get install faketime)")
    engine, there = bare
    identity = engine.containers("bare-test")[0].id
    place = carry_clock_library(there, lambda packed: engine.unpack(identity, packed))
    told = int(there.run(["date", "+%s"]).stdout)
    shifted = int(there.run(["env", f"LD_PRELOAD={place}", "FAKETIME=-100d", "date", "+%s"]).stdout)
    assert told - shifted == pytest.approx(100 * 86400, abs=5)
