"""A host that a real systemd has booted: namespaces of this machine's with a systemd that knows the units of a test and no others.

    with SystemdHost(folder) as host:
        host.transport.run(["systemctl", "is-system-running"])

Units of the machine's are hidden from it, for some of them clean /tmp or set the clock. The folder is `/run/fixture` on
the host, and so is everything below it; /run and /tmp are its own. Needs root, systemd, and a kernel that lets it have control groups.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from pathlib import Path

from here_transport import HereTransport

from schemaquake.harness.wait import until

_NUMBERS = itertools.count()
_SYSTEMD = "/lib/systemd/systemd"

# Before its namespaces are made: a group of its own in every hierarchy that can have one. Hosts that shared them would take the
# groups of units of the same name from one another, and a unit whose group is gone cannot be started.
_GROUP = """
name=$1
shift
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*; do
  [ -e "$hierarchy/cgroup.procs" ] && [ ! -L "$hierarchy" ] && mkdir "$hierarchy/$name" 2> /dev/null || continue
  for needed in cpuset.cpus cpuset.mems; do
    [ ! -e "$hierarchy/$needed" ] || cat "$hierarchy/$needed" > "$hierarchy/$name/$needed"
  done
  echo $$ 2> /dev/null > "$hierarchy/$name/cgroup.procs" || rmdir "$hierarchy/$name"
done
exec "$@"
"""

# As the first process of its namespaces.
_BOOT = """
mount -t proc proc /proc || exit 1
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*; do
  [ ! -d "$hierarchy/$2" ] || mount --bind "$hierarchy/$2" "$hierarchy" || exit 1
done
mount -t tmpfs -o mode=755 tmpfs /run && mkdir -p /run/lock /run/fixture && mount --bind "$1" /run/fixture || exit 1
for hidden in /usr/lib/systemd/system /etc/systemd/system; do mount -t tmpfs tmpfs "$hidden" || exit 1; done
mount -t tmpfs tmpfs /tmp || exit 1
cp /run/fixture/units/* /usr/lib/systemd/system/ || exit 1
export container=fixture
exec {systemd} --system --unit=fixture.target --log-target=console
"""
_UNITS = dict.fromkeys(
    ("fixture.target", "sysinit.target", "basic.target", "shutdown.target", "reboot.target"),
    "[Unit]\nDefaultDependencies=no\n",
)


def why_not() -> str | None:
    """Why there cannot be such a host on this machine, or None."""
    if os.geteuid() != 0:
        return "namespaces need root"
    if not Path(_SYSTEMD).exists():
        return "there is no systemd"
    if not any(Path("/sys/fs/cgroup").glob("*/cgroup.procs")) and not Path("/sys/fs/cgroup/cgroup.procs").exists():
        return "there are no control groups"
    return None


class _Inside(HereTransport):
    """Carries everything out on the host."""

    pid = 0

    def run(self, argv, **rest):
        return super().run(["nsenter", f"--target={self.pid}", "--all", *argv], **rest)


class SystemdHost:
    """One host; a context manager that leaves nothing behind."""

    def __init__(self, folder: Path, units: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.transport = _Inside(folder)
        (folder / "units").mkdir()
        for name, text in {**_UNITS, **(units or {})}.items():
            (folder / "units" / name).write_text(text, encoding="utf-8")
        self.name = f"schemaquake-{os.getpid()}-{next(_NUMBERS)}"
        self._init: subprocess.Popen[bytes] | None = None

    def __enter__(self):
        argv = ["sh", "-c", _GROUP, "sh", self.name]
        argv += ["unshare", "--pid", "--fork", "--mount", "--cgroup", "--uts", "--ipc", "--net", "--kill-child"]
        with (self.folder / "console").open("wb") as console:
            self._init = subprocess.Popen(
                [*argv, "sh", "-c", _BOOT.format(systemd=_SYSTEMD), "sh", str(self.folder), self.name],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
            )
        try:
            self.transport.pid = until(self._child, deadline_s=30, what="the first process")
            until(self.is_up, deadline_s=60, what="a system that runs", every_s=0.2)
        except BaseException:
            self.__exit__()
            raise
        return self

    def is_up(self) -> bool:
        return self.transport.run(["systemctl", "is-active", "fixture.target"]).stdout.strip() == "active"

    def units(self, pattern: str) -> list[str]:
        """The names of loaded units."""
        listed = self.transport.run(
            ["systemctl", "list-units", "--all", "--plain", "--no-legend", "--no-pager", pattern]
        )
        return [line.split()[0] for line in listed.stdout.splitlines() if line.strip()]

    def _child(self) -> int:
        assert self._init is not None
        assert self._init.poll() is None, (self.folder / "console").read_text("utf-8", "replace")
        if Path(f"/proc/{self._init.pid}/comm").read_text("ascii").strip() != "unshare":
            return 0  # the shell before it has children, too
        children = Path(f"/proc/{self._init.pid}/task/{self._init.pid}/children").read_text("ascii").split()
        return int(children[0]) if children else 0

    def __exit__(self, *_: object) -> None:
        assert self._init is not None
        if self.transport.pid and Path(f"/proc/{self.transport.pid}").exists():
            os.kill(self.transport.pid, signal.SIGKILL)
        self._init.kill()
        self._init.wait(30)
        # A process of the host may just be ending.
        until(self._remove_groups, deadline_s=30, what="an end of its control groups", every_s=0.1)

    def groups(self) -> list[Path]:
        """The host's own control groups on this machine, one a hierarchy."""
        root = Path("/sys/fs/cgroup")
        return [each for each in (root / self.name, *root.glob(f"*/{self.name}")) if each.is_dir()]

    def _remove_groups(self) -> bool:
        for group in self.groups():
            subprocess.run(["find", str(group), "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"], capture_output=True, check=False)  # fmt: skip
        return not self.groups()
