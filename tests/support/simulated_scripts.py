"""The scripted cluster on the simulated runtime: the same scripts and answers, in events of virtual time.

An operation is answered a millisecond after it was asked for, beside what its script says that it takes. What the script
does not know is `ok`, so that workloads of the project can be carried out, too.
"""

from __future__ import annotations

from functools import partial

from scripted_cluster import ScriptedClient, ScriptedCluster, ScriptedConnector, ScriptedProvider, state_of

from schemaquake.harness.errors import NodeUnreachable
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.run.event_heap import EventHeap
from schemaquake.harness.run.simulated_runtime import SimulatedRuntime

MS = 1_000_000
FEATURES = frozenset({"keyspaces", "tables", "columns", "options", "types", "functions", "views", "indexes", "cql"})
_KNOWN = frozenset({"ok", "read", "fail", "info", "later", "take", "hang", "explode", "fell"})


class SimulatedProvider(ScriptedProvider):
    name = "simulated-scripted"

    def runtime(self, plan):
        self.made = SimulatedRuntime(EventHeap())
        return self.made

    def create(self, plan, folder):
        return SimulatedCluster(self.made, plan, folder)


class SimulatedCluster(ScriptedCluster):
    features = ScriptedCluster.features | FEATURES

    def __init__(self, runtime, plan, folder):
        super().__init__(plan, folder)
        self.runtime = runtime

    def connector(self):
        scripted = super().connector()
        return SimulatedConnector(self.runtime, scripted.folder, scripted.shows)


class SimulatedConnector(ScriptedConnector):
    def __init__(self, runtime, folder, shows=None):
        super().__init__(folder, shows)
        self.runtime = runtime
        self.clients = []

    def connect(self, node, *, request_timeout_s):
        if state_of(self.folder, node) == "stopped":
            raise NodeUnreachable(f"node {node} did not accept a session within {request_timeout_s:g} s")
        self.clients.append(SimulatedClient(self.runtime, node, self.folder, self.shows.get(node, "a").split()))
        return self.clients[-1]


class SimulatedClient:
    def __init__(self, runtime, node, folder, shows):
        self.heap = runtime.heap
        self.scripted = ScriptedClient(node, folder, shows, runtime.clock.stamp_ns)

    def submit(self, operation, answer):
        if operation.f == "silence":
            return
        seconds, completion = 0, Completion(type="ok", value=operation.value, mops=operation.mops)
        if operation.f in _KNOWN and operation.query is None:
            seconds, completion = self.scripted.answer(operation)
        self.heap.at(self.heap.now_ns + MS + round(seconds * 1000 * MS), partial(answer, completion))

    def look(self, *, phase, sample, complete, answer):
        def show():
            answer(self.scripted.observe(phase=phase, sample=sample, complete=complete))

        self.heap.at(self.heap.now_ns + MS, show)

    def invoke(self, operation):
        answers = []
        self.submit(operation, answers.append)
        self.heap.run(lambda: bool(answers))
        return answers[0]

    def observe(self, *, phase, sample, complete):
        answers = []
        self.look(phase=phase, sample=sample, complete=complete, answer=answers.append)
        self.heap.run(lambda: bool(answers))
        return answers[0]

    def close(self):
        self.scripted.close()
