"""The hosts that tests boot with systemd do not see one another: units of one name are two, each with a group of its own."""

from __future__ import annotations

import pytest
from systemd_host import SystemdHost, why_not

from schemaquake.harness.wait import pause_for

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

SERVER = """
[Unit]
DefaultDependencies=no
[Service]
ExecStart=/bin/sleep 1000
"""


def test_a_unit_that_one_host_stops_goes_on_with_the_other(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with SystemdHost(tmp_path / "a", {"server.service": SERVER}) as one:
        with SystemdHost(tmp_path / "b", {"server.service": SERVER}) as other:
            for host in (one, other):
                assert host.transport.run(["systemctl", "start", "server"]).exit_code == 0
            assert one.transport.run(["systemctl", "stop", "server"]).exit_code == 0
            pause_for(1)
            assert other.transport.run(["systemctl", "is-active", "server"]).stdout.strip() == "active"
            groups = other.groups()
            assert groups, "it has groups of its own"
        assert not any(group.exists() for group in groups), "and takes them with it"
