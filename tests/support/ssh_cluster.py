"""A deployed cluster over `SshHosts`, with a server that stands in for Cassandra on each; and a harness that can be killed.

    python ssh_cluster.py DOCUMENT.json    injects the document's faults, says so, and lives on until it is killed or told

The document is all that the killed harness and whoever comes after it share, apart from the ledger.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from schemaquake.clusters.cluster_file.model import SshAccess
from schemaquake.clusters.cql.client import CqlConnector
from schemaquake.clusters.nodes.client_port import ClientPort
from schemaquake.clusters.nodes.clock import FaketimeClock, HostClock
from schemaquake.clusters.nodes.cluster import DeployedCluster
from schemaquake.clusters.nodes.guard import Guard, Guards
from schemaquake.clusters.nodes.node import ServerData, deployed_node
from schemaquake.clusters.nodes.service import process
from schemaquake.clusters.nodes.terms import RunOnNodes
from schemaquake.clusters.ssh.transport import SshTransport
from schemaquake.clusters.systems.system import parse_system
from schemaquake.harness.faults.executor import FaultExecutor, FaultFailed
from schemaquake.harness.faults.ledger import FILE_NAME, Ledger
from schemaquake.harness.model.protocols import Fault
from schemaquake.harness.registry import load
from schemaquake.nemeses.clock.clock_skew import ClockSkew

STATE = "/run/schemaquake"
RUN = "r1"
SERVER = Path(__file__).with_name("stand_in_server.py")


def document_of(hosts, folder, *, max_fault_s, clock="libfaketime"):
    """Where everything is, as JSON."""
    return {
        "hosts": {name: host.address for name, host in hosts.hosts.items()},
        "key": str(hosts.key),
        "known_hosts": str(hosts.known_hosts),
        "folder": str(folder),
        "max_fault_s": max_fault_s,
        "clock": clock,
    }


def build(document):
    """The cluster of a document, as whoever has the document sees it."""
    nodes = [_node(name, document) for name in document["hosts"]]
    guards = {node.name: Guard(node.transport, state=STATE, run=RUN, verbs=node.undoing) for node in nodes}
    system = parse_system("cassandra:5.0.9")
    return DeployedCluster(
        nodes,
        system,
        CqlConnector(document["hosts"], 9042, system.cql),
        Guards(guards, max_fault_s=document["max_fault_s"]),
        RunOnNodes(folder=Path(document["folder"]), prefix="sq", begins="serving", start_timeout_s=30),
    )


def _node(name, document):
    address = document["hosts"][name]
    access = SshAccess(
        host=address,
        port=22,
        user="root",
        key=Path(document["key"]),
        agent=False,
        known_hosts=Path(document["known_hosts"]),
        fingerprint=None,
    )
    way = SshTransport(access)
    folder = f"{STATE}/{RUN}"
    log = f"{document['folder']}/{name}.log"
    clocks = {"libfaketime": FaketimeClock, "settime": HostClock}
    return deployed_node(
        name,
        ClientPort(address=address, port=9042, protocol_version=4),
        way,
        process([sys.executable, "-IS", str(SERVER), address, "9042", log], folder),
        folder=folder,
        logs=[log],
        data=ServerData(folders=[document["folder"]]),
        clock=clocks[document["clock"]](way, folder=folder),
    )


def faults_of(document):
    """The document's faults, numbered."""
    return [
        Fault(id=number, nemesis=nemesis, begins_s=0, ends_s=1, nodes=tuple(nodes), parameters=parameters)
        for number, (nemesis, nodes, parameters) in enumerate(document["faults"])
    ]


def nemesis_of(document, name):
    """A host's clock is moved by so little that the usual tolerance would take it for nothing."""
    return ClockSkew(tolerance_s=0.01) if document["clock"] == "settime" else load("nemeses", name)


def main(path):
    """Says `arming`, then what came of it; heals when a line comes in, and says what came of that."""
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    ledger = Ledger(Path(document["folder"]) / FILE_NAME)
    cluster = build(document)
    if document.get("suspends"):
        cluster.arm = suspending(cluster.arm)
    executor = FaultExecutor(cluster, ledger, note=lambda f, value: say({"note": f, "value": value}))
    say("arming")
    faults = faults_of(document)
    try:
        for fault in faults:
            executor.inject(nemesis_of(document, fault.nemesis), fault)
    except FaultFailed as error:
        say({"failed": str(error)})
        sys.stdin.readline()
        return
    say("injected")
    sys.stdin.readline()
    say({"healed": [executor.heal(fault.id) for fault in faults], "failures": executor.failures})


def suspending(arm):
    """An arming after which the harness freezes, until somebody wakes it."""

    def arm_and_freeze(fault, undo):
        arm(fault, undo)
        say("armed")
        os.kill(os.getpid(), signal.SIGSTOP)

    return arm_and_freeze


def say(what):
    print(json.dumps(what), flush=True)  # noqa: T201 - whoever kills it listens


if __name__ == "__main__":
    main(sys.argv[1])
