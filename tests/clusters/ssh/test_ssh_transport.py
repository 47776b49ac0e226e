from __future__ import annotations

import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from ssh_hosts import SshHosts, why_not

from schemaquake.clusters.cluster_file.model import Become
from schemaquake.clusters.ssh.login import HostKeyRefused
from schemaquake.clusters.ssh.root_transport import RootTransport
from schemaquake.clusters.ssh.transport import SshTransport
from schemaquake.harness.errors import ClusterError, NodeUnreachable
from schemaquake.harness.wait import until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with SshHosts(tmp_path_factory.mktemp("ssh"), 2) as hosts:
        yield hosts


@pytest.fixture
def n1(hosts):
    transport = SshTransport(hosts.access("n1"))
    yield transport
    transport.close()


def refused(hosts, name="n1", **changes):
    transport = SshTransport(hosts.access(name, **changes))
    with pytest.raises(NodeUnreachable) as caught:
        transport.run(["true"])
    transport.close()
    return caught.value


# ── commands and files ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_command_s_voices_and_exit_code_come_back(n1):
    done = n1.run(["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (done.exit_code, done.stdout, done.stderr) == (7, "out\n", "err\n")


@pytest.mark.parametrize("word", ["$HOME; rm -rf x", "a'b\"c", "*", "", "line\nfeed", "-n", "`id`", "\\", "ü"])
def test_a_word_arrives_as_it_is_whatever_a_shell_would_make_of_it(n1, word):
    assert n1.run(["printf", "%s", word]).stdout == word


def test_input_is_read_to_its_end(n1):
    assert n1.run(["wc", "-c"], stdin=b"x" * 3_000_000).stdout.split() == ["3000000"]


def test_input_waits_for_a_command_that_takes_its_time_to_read(n1):
    assert n1.run(["sh", "-c", "sleep 2; wc -c"], stdin=b"x" * 8_000_000).stdout.split() == ["8000000"]


def test_a_command_that_does_not_read_its_input_may_end(n1):
    assert n1.run(["true"], stdin=b"x" * 5_000_000).exit_code == 0


def test_much_on_both_voices_at_once_does_not_stop_the_command(n1):
    script = "head -c 6000000 /dev/zero | tr '\\0' e >&2 & head -c 6000000 /dev/zero | tr '\\0' o; wait"
    done = n1.run(["sh", "-c", script])
    assert (len(done.stdout), len(done.stderr)) == (6_000_000, 6_000_000)


def test_a_command_that_leaves_a_child_with_its_voices_ends_when_it_ends_itself(n1):
    began = time.monotonic()
    done = n1.run(["sh", "-c", "sleep 20 & echo started; echo told >&2; exit 3"])
    assert (done.exit_code, done.stdout, done.stderr) == (3, "started\n", "told\n")
    assert time.monotonic() - began < 15
    assert n1.run(["true"]).exit_code == 0


def test_what_comes_after_the_end_of_the_command_is_heard(n1):
    """As from a server that tells the exit code before it has sent the rest."""
    assert n1.run(["sh", "-c", "(sleep 2; echo late) & exit 0"]).stdout == "late\n"


def test_a_command_that_is_silent_for_a_while_is_waited_for(n1):
    assert n1.run(["sh", "-c", "echo a; sleep 2; echo b"]).stdout == "a\nb\n"


def test_a_command_that_a_signal_ended_has_an_exit_code_and_the_connection_stands(n1):
    done = n1.run(["sh", "-c", "kill -KILL $$"])
    assert done.exit_code >= 128
    assert n1.run(["true"]).exit_code == 0


def test_files_go_there_and_back_whole(n1, tmp_path):
    content = bytes(range(256)) * 5000
    target = tmp_path / "there is a space"
    n1.put(content, str(target), mode=0o600)
    assert target.read_bytes() == content
    assert target.stat().st_mode & 0o777 == 0o600
    assert n1.get(str(target)) == content
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_what_is_not_there_is_not_found(n1, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        n1.get(str(tmp_path / "nowhere"))


def test_a_full_disk_is_told_and_leaves_the_old_file_as_it_was(hosts, n1):
    full = "mkdir -p /run/full && mount -t tmpfs -o size=64k tmpfs /run/full && echo old > /run/full/file"
    assert n1.run(["sh", "-c", full]).exit_code == 0
    with pytest.raises(ClusterError, match="No space left on device"):
        n1.put(b"x" * 200_000, "/run/full/file")
    assert n1.run(["sh", "-c", "cat /run/full/*; ls /run/full | wc -l"]).stdout.split() == ["old", "1"]
    n1.run(["umount", "/run/full"])


# ── who may, and to whom ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_that_the_host_does_not_know_is_refused_with_what_to_do(hosts, tmp_path):
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    error = refused(hosts, key=other)
    assert "does not accept" in str(error)
    assert f"ssh-copy-id -i {other} -p 22 root@{hosts['n1'].address}" in str(error)


def test_a_private_key_that_is_not_there_is_named(hosts, tmp_path):
    assert str(tmp_path / "none") in str(refused(hosts, key=tmp_path / "none"))


def test_a_key_locked_by_a_passphrase_is_told_with_what_unlocks_it(hosts, tmp_path):
    locked = tmp_path / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "words", "-f", str(locked)], check=True)
    assert f"ssh-add {locked}" in str(refused(hosts, key=locked))


def test_a_key_may_be_an_agent_s(hosts, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))  # with no keys of its own
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(tmp_path / "agent")], stdout=subprocess.DEVNULL)
    try:
        until((tmp_path / "agent").exists, deadline_s=120, what="an agent")
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        assert "no key to log in with" in str(refused(hosts, key=None, agent=True))
        subprocess.run(["ssh-add", "-q", str(hosts.key)], check=True, capture_output=True)
        transport = SshTransport(hosts.access("n1", key=None, agent=True))
        assert transport.run(["true"]).exit_code == 0
        transport.close()
        assert "no key to log in with" in str(refused(hosts, key=None, agent=False))
    finally:
        agent.terminate()
        agent.wait(10)


def test_an_unknown_host_is_refused_with_the_command_that_makes_it_known(hosts, tmp_path):
    known_hosts = tmp_path / "known_hosts"
    error = refused(hosts, known_hosts=known_hosts)
    assert isinstance(error, HostKeyRefused)
    assert hosts["n1"].fingerprint in str(error)
    command = f"ssh-keyscan -t ed25519 -p 22 {hosts['n1'].address} >> {known_hosts}"
    assert command in str(error)
    assert not known_hosts.exists()
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    transport = SshTransport(hosts.access("n1", known_hosts=known_hosts))
    assert transport.run(["true"]).exit_code == 0
    transport.close()


def test_a_changed_host_key_is_refused_with_both_keys_and_no_login_is_tried(hosts, tmp_path):
    known_hosts = tmp_path / "known_hosts"
    other = hosts["n2"].folder / "host_key.pub"
    known_hosts.write_text(f"{hosts['n1'].address} {' '.join(other.read_text().split()[:2])}\n")
    logins = hosts["n1"].log.count("Accepted publickey")
    error = refused(hosts, known_hosts=known_hosts)
    assert isinstance(error, HostKeyRefused)
    assert hosts["n1"].fingerprint in str(error)
    assert hosts["n2"].fingerprint in str(error)
    assert f"ssh-keygen -f {known_hosts} -R {hosts['n1'].address}" in str(error)
    assert hosts["n1"].log.count("Accepted publickey") == logins


def test_a_pinned_fingerprint_stands_for_known_hosts(hosts, tmp_path):
    pinned = hosts.access("n1", known_hosts=tmp_path / "none", fingerprint=hosts["n1"].fingerprint)
    transport = SshTransport(pinned)
    assert transport.run(["true"]).exit_code == 0
    transport.close()


def test_another_key_than_the_pinned_one_is_refused_even_if_known_hosts_knows_it(hosts):
    error = refused(hosts, fingerprint=hosts["n2"].fingerprint)
    assert isinstance(error, HostKeyRefused)
    assert hosts["n1"].fingerprint in str(error)


def test_a_host_behind_another_is_reached_through_it(hosts):
    far = hosts.access("n2", jump=hosts.access("n1"))
    transport = SshTransport(far)
    came_from = transport.run(["sh", "-c", "echo $SSH_CONNECTION"]).stdout.split()[0]
    assert came_from == hosts["n1"].address
    transport.close()


def test_a_jump_host_s_key_is_verified_too(hosts, tmp_path):
    jump = hosts.access("n1", known_hosts=tmp_path / "none")
    assert isinstance(refused(hosts, "n2", jump=jump), HostKeyRefused)


def test_sudo_that_wants_a_password_is_told_in_words(hosts):
    way = RootTransport(SshTransport(hosts.access("n1", user="operator")), Become(method="sudo"))
    with pytest.raises(ClusterError, match=r"ssh operator@[\d.]+:22: sudo refused `id`: sudo: .*required.*NOPASSWD"):
        way.run(["id", "-u"])
    with pytest.raises(ClusterError, match="sudo refused"):
        way.put(b"", "/run/x")
    way.close()


def test_root_reads_and_writes_through_sudo(hosts):
    way = RootTransport(SshTransport(hosts.access("n1")), Become(method="sudo"))
    way.put(b"\x00\xff", "/run/through-sudo", mode=0o600)
    assert way.get("/run/through-sudo") == b"\x00\xff"
    assert way.run(["id", "-u"]).stdout == "0\n"
    assert way.run(["sh", "-c", "exit 1"]).exit_code == 1
    way.close()


# ── when it breaks ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_session_that_drops_during_a_command_is_told_and_the_next_command_opens_another(hosts, n1, tmp_path):
    witness = tmp_path / "witness"
    script = 'echo begun >> "$1"; sleep 3; echo done >> "$1"'
    errors = []

    def ask():
        try:
            n1.run(["sh", "-c", script, "sh", str(witness)])
        except NodeUnreachable as error:
            errors.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    until(witness.exists, deadline_s=120, what="the command")
    assert hosts["n1"].drop_sessions() >= 1
    asking.join(10)
    assert "lost its session" in str(errors[0])
    assert n1.run(["echo", "again"]).stdout == "again\n"
    time.sleep(3.2)  # as long as the command takes: was it begun a second time?
    assert witness.read_text().splitlines().count("begun") == 1


def test_a_session_that_dropped_between_commands_is_not_noticed(hosts, n1):
    n1.run(["true"])
    hosts["n1"].drop_sessions()
    assert n1.run(["echo", "again"]).stdout == "again\n"


def test_an_unreachable_node_is_told_within_the_time_given_and_heard_again_after(hosts, n1):
    assert n1.run(["true"]).exit_code == 0
    hosts["n1"].cut()
    try:
        began = time.monotonic()
        with pytest.raises(NodeUnreachable, match=r"did not end within 2 s|no session|cannot be reached"):
            n1.run(["true"], timeout_s=2)
        assert time.monotonic() - began < 6
    finally:
        hosts["n1"].mend()
    assert n1.run(["echo", "again"]).stdout == "again\n"


def test_a_host_without_a_server_is_unreachable_and_says_where(hosts):
    error = refused(hosts, port=2222)
    assert f"root@{hosts['n1'].address}:2222: cannot be reached: Connection refused" in str(error)


def test_a_command_that_does_not_end_is_given_up_and_others_go_on(n1):
    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(n1.run, ["sh", "-c", "sleep 2; echo whole"])
        with pytest.raises(NodeUnreachable, match=r"did not end within 0\.5 s"):
            n1.run(["sleep", "20"], timeout_s=0.5)
        assert n1.run(["echo", "next"]).stdout == "next\n"
        assert other.result().stdout == "whole\n"


def test_more_commands_than_sessions_wait_for_one_another(n1):
    with ThreadPoolExecutor(24) as pool:
        done = list(pool.map(lambda i: n1.run(["sh", "-c", f"sleep 0.2; echo {i}"]).stdout, range(24)))
    assert done == [f"{i}\n" for i in range(24)]


def test_a_server_with_fewer_sessions_than_usual_is_taken_as_it_is(tmp_path):
    with SshHosts(tmp_path / "few", 1, max_sessions=2) as hosts:
        transport = SshTransport(hosts.access("n1"))
        with ThreadPoolExecutor(8) as pool:
            done = list(pool.map(lambda i: transport.run(["sh", "-c", f"sleep 0.2; echo {i}"]).stdout, range(8)))
        transport.close()
    assert done == [f"{i}\n" for i in range(8)]
