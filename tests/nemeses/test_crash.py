from __future__ import annotations

import os
import signal

from schemaquake.harness.faults.executor import FaultExecutor
from schemaquake.harness.faults.ledger import FILE_NAME, Ledger
from schemaquake.nemeses.network.partition import Partition
from schemaquake.workloads.races.cut import cut


def test_what_a_killed_harness_cut_is_healed_from_its_ledger_alone(network, tmp_path):
    path = tmp_path / FILE_NAME
    n1, n2, n3 = network.nodes
    planned = cut(("n1",), ("n1", "n2", "n3")).fault(id=8, ends_s=60)
    harness = os.fork()
    if harness == 0:
        try:
            FaultExecutor(network, Ledger(path), note=lambda f, value: None).inject(Partition(), planned)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(harness, 0)[1]) == -signal.SIGKILL
    assert (n1.hears(n2, 7000), n2.hears(n3, 7000)) == (False, True)

    ledger = Ledger(path)
    (entry,) = ledger.open_faults()
    assert entry.state == "injected"
    assert entry.effect["observed"] is True
    healed = Partition().heal(network, entry.fault)
    assert healed["packets"] > 0
    assert n1.hears(n2, 7000)
    assert "schemaquake" not in n1.exec(["iptables", "-S"]).stdout
