from __future__ import annotations

import shutil
from dataclasses import replace

import orjson
import pytest
from ssh_hosts import SshHosts, why_not

from schemaquake.clusters.hosts.provider import SshProvider
from schemaquake.clusters.nodes.clock import FaketimeClock, HostClock
from schemaquake.clusters.nodes.run_name import name_run, run_name
from schemaquake.clusters.ssh.transport import SshTransport
from schemaquake.harness.errors import FaultNotAllowed, HealError, NotApplicable, PlanError
from schemaquake.harness.faults.executor import FaultExecutor
from schemaquake.harness.faults.healing import heal_ledger
from schemaquake.harness.faults.ledger import FILE_NAME, Ledger, read_ledger
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.registry import load
from schemaquake.harness.run.applicability import refuse_inapplicable, why_impossible
from schemaquake.harness.wait import until
from schemaquake.workloads.races.cut import cut

FILE = """
provider = "ssh"
system = "cassandra:5.0.9"
allow = {allow}
max_fault_seconds = {limit}
{more}
[ssh]
user = "root"
key = "{key}"
known_hosts = "{known_hosts}"
[service]
kind = "process"
command = ["/opt/cassandra/bin/cassandra", "-f"]
{nodes}
"""


def a_run(folder, *, allow='["partition"]', limit=60, more="", key="/k", known_hosts="/h", addresses=("10.78.0.1",)):
    """A run's folder with its cluster file, as it is when the provider is asked; and its plan."""
    folder.mkdir(parents=True)
    nodes = "\n".join(f'[[nodes]]\naddress = "{address}"' for address in addresses)
    text = FILE.format(allow=allow, limit=limit, more=more, key=key, known_hosts=known_hosts, nodes=nodes)
    (folder / "cluster.toml").write_text(text)
    plan = Plan(
        system="cassandra:5.0.9",
        workloads=("create-table",),
        cluster="ssh",
        cluster_file=folder / "cluster.toml",
        nodes=len(addresses),
        restart="none",
    )
    (folder / "plan.json").write_bytes(orjson.dumps(plan.to_json()))
    return plan


def test_nodes_are_named_in_the_order_of_the_file_and_nobody_is_asked(tmp_path):
    plan = a_run(tmp_path / "run", addresses=("10.9.9.2", "10.9.9.1"))
    cluster = SshProvider().create(plan, tmp_path / "run")
    assert [(node.name, node.address) for node in cluster.nodes] == [("n1", "10.9.9.2"), ("n2", "10.9.9.1")]
    assert cluster.max_fault_s == 60
    assert cluster.missing("topology") is not None
    assert cluster.missing("signals") is None


@pytest.mark.parametrize(
    ("method", "kind"), [("settime", HostClock), ("libfaketime", FaketimeClock), ("none", type(None))]
)
def test_clocks_are_skewed_as_the_file_says(tmp_path, method, kind):
    plan = a_run(tmp_path / "run", more=f'clock = {{ method = "{method}" }}')
    (node,) = SshProvider().create(plan, tmp_path / "run").nodes
    assert isinstance(node.clock, kind)


def test_hosts_without_a_clock_to_skew_say_so(tmp_path):
    plan = a_run(tmp_path / "run", more='clock = { method = "none" }')
    assert "no clock may be skewed" in SshProvider().create(plan, tmp_path / "run").missing("clock")


def test_the_name_alone_names_no_hosts(tmp_path):
    plan = Plan(system="cassandra:5.0.9", workloads=("create-table",), cluster="ssh")
    with pytest.raises(PlanError, match=r"--cluster FILE\.toml"):
        SshProvider().prepare(plan, tmp_path)


def test_what_is_not_allowed_is_refused_before_any_host_is_asked(tmp_path):
    a_run(tmp_path / "run", allow="[]", addresses=("10.9.9.1", "10.9.9.2"))
    plan = Plan.read(tmp_path / "run")
    with pytest.raises(FaultNotAllowed, match="partition"):
        SshProvider().prepare(
            Plan.from_json({**plan.to_json(), "nemeses": ("partition",), "time_limit_s": 60.0}), tmp_path / "run"
        )


def test_what_hosts_cannot_have_is_refused_before_any_of_them_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(SshTransport, "run", lambda *_, **__: pytest.fail("a host was asked"))
    plan = a_run(
        tmp_path / "run", allow='["topology", "kill", "clock", "partition"]', addresses=("10.9.9.1", "10.9.9.2")
    )
    assert why_impossible(replace(plan, nemeses=("kill", "clock", "partition", "move"))) is None
    with pytest.raises(NotApplicable) as refused:
        refuse_inapplicable(replace(plan, nemeses=("kill", "cms-reconfigure")))
    reason, _, able = str(refused.value).partition(". Applicable: ")
    assert reason == (
        'nemesis "cms-reconfigure" is not applicable to cassandra:5.0.9 on --cluster ssh: cassandra:5.0.9 has no command '
        "for it (reconfigure)"
    )
    assert {"kill", "clock", "decommission", "partition"} <= set(able.removesuffix(".").split(", "))
    assert not {"pause", "fill-disk", "reload-table", "rolling-upgrade"} & set(able.removesuffix(".").split(", "))
    with pytest.raises(FaultNotAllowed, match='needs "pause"'):
        refuse_inapplicable(replace(plan, nemeses=("pause",)))
    with pytest.raises(NotApplicable, match=r'workload "append-accord" .* has no accord\. Applicable: add-columns, '):
        refuse_inapplicable(replace(plan, workloads=("append-accord",)))


@pytest.mark.parametrize("means", ["files", "disk"])
def test_what_is_the_owner_s_is_no_means_of_a_run(tmp_path, means):
    plan = a_run(tmp_path / "run")
    assert "their owner's" in SshProvider().create(plan, tmp_path / "run").missing(means)


def test_a_run_keeps_its_name_wherever_its_folder_goes(tmp_path):
    folder = tmp_path / "20260101T000000Z-create-table+set-cassandra-5.0.9"
    folder.mkdir()
    name = name_run(folder)
    assert name.startswith("20260101T000000Z-create-table-set-cassandra-5-0-9-")
    moved = tmp_path / "elsewhere"
    shutil.copytree(folder, moved)
    assert run_name(moved) == run_name(folder) == name
    assert name_run(folder) != name


def test_a_file_that_does_not_say_what_runs_there_cannot_heal(tmp_path):
    a_run(tmp_path / "run")
    file = tmp_path / "run" / "cluster.toml"
    file.write_text(file.read_text().replace('system = "cassandra:5.0.9"', ""))
    with pytest.raises(PlanError, match='add system = "cassandra:VERSION"'):
        SshProvider().heal_ledger(tmp_path / "ledger.jsonl", file)


# ── real hosts ───────────────────────────────────────────────────────────────────────────────────────────────────────


def on_hosts(test):
    return pytest.mark.cluster(pytest.mark.skipif(why_not() is not None, reason=str(why_not()))(test))


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with SshHosts(tmp_path_factory.mktemp("ssh"), 2) as hosts:
        yield hosts


def partitioned(hosts, folder, *, limit=60):
    """The run of a harness that died right after it had cut two hosts from one another."""
    addresses = [host.address for host in hosts.hosts.values()]
    plan = a_run(folder, limit=limit, key=hosts.key, known_hosts=hosts.known_hosts, addresses=addresses)
    name_run(folder)
    cluster = SshProvider().create(plan, folder)
    ledger = Ledger(folder / FILE_NAME)
    ledger.name_run(cluster.run_name)
    cluster._leases.take()  # as a start does, which these hosts without a server cannot have
    fault = cut(["n1"], ["n1", "n2"]).fault(id=0, ends_s=5)
    FaultExecutor(cluster, ledger, note=lambda *_: None).inject(load("nemeses", "partition"), fault)
    ledger.close()
    cluster.close()
    assert all(is_cut(host) for host in hosts.hosts.values())


def is_cut(host):
    return "schemaquake" in host.exec("iptables-save").stdout


def files_of_runs(host):
    return host.files("/run/schemaquake")


@on_hosts
@pytest.mark.parametrize("moved", [False, True])
def test_a_second_machine_undoes_it_at_once_and_again_without_harm(hosts, tmp_path, moved):
    folder = tmp_path / "first"
    partitioned(hosts, folder)
    if moved:
        folder = shutil.copytree(folder, tmp_path / "second")
    done = SshProvider().heal(folder)
    assert not any(is_cut(host) for host in hosts.hosts.values())
    assert [entry.state for entry in read_ledger(folder / FILE_NAME)][-1] == "healed"
    assert any("partition of n1, n2" in sentence for sentence in done)
    assert [files_of_runs(host) for host in hosts.hosts.values()] == ["", ""]
    assert SshProvider().heal(folder) == []


@on_hosts
def test_the_ledger_and_the_owner_s_file_are_enough(hosts, tmp_path):
    folder = tmp_path / "run"
    partitioned(hosts, folder)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.move(folder / FILE_NAME, elsewhere / "what-is-left.jsonl")
    shutil.move(folder / "cluster.toml", elsewhere / "hosts.toml")
    shutil.rmtree(folder)
    done = heal_ledger(elsewhere / "what-is-left.jsonl", elsewhere / "hosts.toml")
    assert any("partition of n1, n2" in sentence for sentence in done)
    assert not any(is_cut(host) for host in hosts.hosts.values())
    assert [files_of_runs(host) for host in hosts.hosts.values()] == ["", ""]


@on_hosts
@pytest.mark.parametrize("damaged", [(2,), (1, 2)], ids=["a step of a fault", "all of a fault"])
def test_what_a_damaged_ledger_names_no_more_is_undone_by_the_guards(hosts, tmp_path, damaged):
    folder = tmp_path / "run"
    partitioned(hosts, folder)
    lines = (folder / FILE_NAME).read_bytes().split(b"\n")
    for line in damaged:
        lines[line] = lines[line][:20] + bytes([lines[line][20] ^ 4]) + lines[line][21:]
    (folder / FILE_NAME).write_bytes(b"\n".join(lines))
    done = "; ".join(SshProvider().heal(folder))
    assert all(f"line {line + 1}: " in done for line in damaged)
    assert ("does not name, was undone by its guard" in done) == (len(damaged) == 2)
    assert not any(is_cut(host) for host in hosts.hosts.values())
    assert [files_of_runs(host) for host in hosts.hosts.values()] == ["", ""]


@on_hosts
def test_a_host_that_cannot_be_reached_is_told_and_healed_the_next_time(hosts, tmp_path):
    folder = tmp_path / "run"
    partitioned(hosts, folder)
    hosts["n2"].end_sshd()
    with pytest.raises(HealError, match="n2"):
        SshProvider().heal(folder)
    assert not is_cut(hosts["n1"])
    assert is_cut(hosts["n2"])
    assert [entry.state for entry in read_ledger(folder / FILE_NAME)][-1] == "failed"
    hosts.start_sshd(hosts["n2"])
    SshProvider().heal(folder)
    assert not is_cut(hosts["n2"])


@on_hosts
def test_hosts_heal_themselves_when_nobody_comes(hosts, tmp_path):
    folder = tmp_path / "run"
    partitioned(hosts, folder, limit=20)
    for host in hosts.hosts.values():
        host.cut()
    until(lambda: not any(is_cut(host) for host in hosts.hosts.values()), deadline_s=40, what="healing")
    for host in hosts.hosts.values():
        host.mend()
    SshProvider().heal(folder)
    assert [files_of_runs(host) for host in hosts.hosts.values()] == ["", ""]
