from __future__ import annotations

import pytest
from here_transport import HereTransport

from schemaquake.clusters.cluster_file.model import Become
from schemaquake.clusters.ssh.root_transport import RootTransport, sudo_refusal
from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.protocols import Executed

SUDO = Become(method="sudo")


@pytest.fixture
def here(tmp_path):
    return HereTransport(tmp_path)


def test_everything_goes_through_sudo_without_a_password(here):
    here.tool("sudo", 'echo "$@" >> asked; [ "$1 $2" = "-n --" ] || exit 9; shift 2; exec "$@"')
    way = RootTransport(here, SUDO)
    assert way.run(["printf", "%s|", "a b", "$c"]).stdout == "a b|$c|"
    way.put(b"\x00content\xff", str(here.folder / "file"), mode=0o600)
    assert way.get(str(here.folder / "file")) == b"\x00content\xff"
    assert all(argv[:3] == ["sudo", "-n", "--"] for argv in here.asked)
    assert len((here.folder / "asked").read_text().splitlines()) >= 3


@pytest.mark.parametrize(
    "words",
    [
        "sudo: a password is required",
        "sudo: a terminal is required to read the password; either use the -S option or configure an askpass helper",
        "sudo-rs: interactive authentication is required",
        "sudo: interactive authentication is required",
        "operator is not in the sudoers file.  This incident will be reported.",
        "Sorry, user operator is not allowed to execute '/usr/bin/id' as root on n1.",
        "sudo: sorry, you must have a tty to run sudo",
        'sudo: The "no new privileges" flag is set, which prevents sudo from running as root.',
    ],
)
def test_a_refusal_of_sudo_s_is_not_taken_for_the_command_s_answer(here, words):
    here.tool("sudo", f"cat >&2 <<'END'\n{words}\nEND\nexit 1")
    with pytest.raises(ClusterError) as caught:
        RootTransport(here, SUDO).run(["id"])
    assert words.rstrip(".") in str(caught.value)
    assert "NOPASSWD" in str(caught.value)


def test_a_host_without_sudo_is_told():
    assert sudo_refusal(Executed(127, "", "sh: 1: sudo: not found")) == "there is no sudo on that host"
    assert sudo_refusal(Executed(127, "", "bash: line 1: sudo: command not found")) == "there is no sudo on that host"


@pytest.mark.parametrize(
    "answer",
    [
        Executed(1, "", "iptables: No chain/target/match by that name."),
        Executed(1, "", "sudo: unable to resolve host n1: Name or service not known\nBad rule"),
        Executed(127, "", "sudo: iptables: command not found"),
        Executed(0, "a password is required", ""),
        Executed(1, "some output", "a password is required"),
    ],
)
def test_an_answer_of_the_command_s_own_is_handed_on(answer):
    assert sudo_refusal(answer) is None


def test_a_command_that_is_not_there_says_so_as_a_shell_does(here):
    here.tool("sudo", 'echo "sudo: $3: command not found" >&2; exit 1')
    done = RootTransport(here, SUDO).run(["no-such-tool", "-x"])
    assert (done.exit_code, done.stderr) == (127, "sudo: no-such-tool: command not found\n")


def test_a_file_that_cannot_be_written_leaves_nothing_and_says_why(here):
    with pytest.raises(ClusterError, match=r"here .*: /proc/none could not be written: .*"):
        here.put(b"x", "/proc/none")


def test_a_file_is_replaced_whole_or_not_at_all(here):
    target = here.folder / "target"
    target.write_text("old")
    here.tool("mv", "exit 1")
    with pytest.raises(ClusterError, match="could not be written"):
        here.put(b"new", str(target))
    assert target.read_text() == "old"
    assert sorted(path.name for path in here.folder.iterdir()) == ["bin", "target"]


def test_a_file_that_is_not_there_is_not_found(here):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        here.get(str(here.folder / "nowhere"))
