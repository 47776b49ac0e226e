"""A scripted cluster: everything a run needs, without a server, as a stranger's plugin that processes import afresh.

The script of a run is its plan's options (`-O`), so that every process of it knows it:

    main 0 = ok; take 0.3; meet go; info      what worker 0 does in phase main; "main" is for all the others
    crew   = n1 n1 n2                         which worker stands on which node; else one a node
    shows n2 = a b ! b                        what n2's schema version is at each look; "!" cannot be read; the last stays
    breaks n3 = 1                             n3 does not come up from its start number 1 (0 is the first)
    ends n2 = 1                               n2 ends by itself as soon as its start number 1 is found to have served
    mute n2 = 1                               from its start number 1 on the machine of n2 does not say whether its server runs
    tremor = 0.1-0.4 n1                       the nemesis `tremor` shakes n1 from 0.1 s to 0.4 s
    tremor inject = raises                    … and cannot be injected; the same for heal
    tremor takes = 0.2                        how long its injection blocks, in seconds
    spares = n4                               nodes that are prepared, and join if an operation has them join
    moves = 0.1 n3 left ok; 0.5 n4 normal ok  operations of the nemesis `moves`: when, which node, what it becomes, and the outcome
    moves takes = 0.2                         how long each takes, in seconds

An operation's name says what becomes of it: `ok`, `fail`, `info`; `take S` is ok after S seconds; `explode` is a defect
of the client; `later N` fails N times, then is ok; `fail WORDS` in these words; `die` ends the worker's process, `fell NODE` the node; `hang` never returns. Beside operations: `meet NAME`,
`wait S`, `note F`, `require S OPERATION` (until it is ok, for at most S seconds), `forever` (what follows it is repeated for ever), `stumble` (a defect of the workload).
What nodes and nemeses are told is written into `calls.txt` of the run's folder, a line a call.
"""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

from schemaquake.harness.errors import HealError, NodeDied, NodeUnreachable
from schemaquake.harness.model.membership import Member
from schemaquake.harness.model.observation import Observation
from schemaquake.harness.model.operation import Completion
from schemaquake.harness.model.protocols import Boot, Executed, Fault, Worker
from schemaquake.harness.model.steps import Invoke, Meet, Note, Require, Wait
from schemaquake.harness.wait import pause_for

ENTRY_POINTS = {
    "workloads": {
        "scripted": "scripted_cluster:Scripted",
        "endless": "scripted_cluster:Endless",
        "first": "scripted_cluster:First",
        "demanding": "scripted_cluster:Demanding",
    },
    "clusters": {
        "scripted": "scripted_cluster:ScriptedProvider",
        "simulated-scripted": "simulated_scripts:SimulatedProvider",
    },
    "nemeses": {"tremor": "scripted_cluster:Tremor", "moves": "scripted_cluster:Moves"},
}


# ── what workers do ──────────────────────────────────────────────────────────────────────────────────────────────────


class Scripted:
    name = "scripted"
    requires = frozenset({"words"})

    def crew(self, context):
        nodes = context.options.get("crew", " ".join(context.nodes)).split()
        return [Worker(index, node) for index, node in enumerate(nodes)]

    def steps(self, phase, worker, context, *, phase_label):
        script = context.options.get(f"{phase} {worker.index}", context.options.get(phase, ""))
        head, forever, rest = script.partition("forever")
        yield from self._read(head, phase_label)
        while forever:
            yield from self._read(rest, phase_label)

    def _read(self, script, phase_label):
        for sentence in filter(None, map(str.strip, script.split(";"))):
            verb, *rest = sentence.split()
            match verb:
                case "meet":
                    yield Meet(rest[0])
                case "wait":
                    yield Wait(float(rest[0]))
                case "note":
                    yield Note(rest[0], "ks", {"said": True})
                case "require":
                    yield Require(Invoke(rest[1], "ks.t", {"words": rest[2:]}), float(rest[0]))
                case "stumble":
                    raise LookupError("the workload lost its way")
                case _:
                    value = {"words": rest} | ({"label": phase_label} if phase_label else {})
                    yield Invoke(verb, "ks.t", value)


class Endless(Scripted):
    name = "endless"
    endless = True


class First(Scripted):
    name = "first"
    sets_up_first = True


class Demanding(Scripted):
    name = "demanding"
    requires = frozenset({"words", "wings"})


class ScriptedConnector:
    """Picklable; the script of what nodes show goes with it."""

    def __init__(self, folder, shows=None):
        self.folder = Path(folder)
        self.shows = shows or {}

    def connect(self, node, *, request_timeout_s):
        if state_of(self.folder, node) == "stopped":
            raise NodeUnreachable(f"node {node} did not accept a session within {request_timeout_s:g} s")
        return ScriptedClient(node, self.folder, self.shows.get(node, "a").split())


class ScriptedClient:
    def __init__(self, node, folder, shows, now_ns=time.monotonic_ns):
        self.node = node
        self.folder = folder
        self.shows = shows
        self.now_ns = now_ns
        self.looks = 0
        self.refused = 0
        self.closed = False

    def invoke(self, operation):
        seconds, completion = self.answer(operation)
        pause_for(seconds)
        return completion

    def answer(self, operation):
        """After how many seconds the operation is answered, and with what."""
        assert not self.closed, "an operation after the session was closed"
        words = operation.value["words"] if operation.value else []
        ok = Completion(type="ok", value=operation.value)
        match operation.f:
            case "ok" | "read":
                return 0, Completion(type="ok", value={**(operation.value or {}), "node": self.node})
            case "fail" | "info":
                said = " ".join(words) or operation.f
                return 0, Completion(type=operation.f, error=f"Scripted: {said}", already_there="already" in words)
            case "later":
                self.refused += 1
                if self.refused <= int(words[0]):
                    return 0, Completion(type="fail", error="Scripted: not yet")
                return 0, ok
            case "take":
                return float(words[0]), ok
            case "hang":
                return 600, Completion(type="info", error="Scripted: no answer")
            case "explode":
                raise RuntimeError("the client burst")
            case "die":
                os._exit(7)
            case "fell":
                set_state(self.folder, words[0], "stopped")
                return 0, Completion(type="info", error="Scripted: the connection broke")
        raise AssertionError(f"no such operation: {operation.f}")

    def observe(self, *, phase, sample, complete):
        shown = self.shows[min(self.looks, len(self.shows) - 1)]
        self.looks += 1
        if state_of(self.folder, self.node) == "stopped":
            shown = "!"
        if shown == "burst":
            raise RuntimeError("the eyes burst")

        def seen(kind, **rest):
            return Observation(time=self.now_ns(), phase=phase, node=self.node, sample=sample, kind=kind, **rest)

        if shown == "!":
            return [seen("version", error="Scripted: no answer")]
        version = seen("version", id=shown, definition={"epoch": None})
        return [version, seen("keyspace", keyspace="ks", definition={"replication": {}})] if complete else [version]

    def close(self):
        self.closed = True


# ── where they do it ─────────────────────────────────────────────────────────────────────────────────────────────────


def state_of(folder, node):
    path = Path(folder) / "states" / node
    return path.read_text() if path.exists() else "running"


def set_state(folder, node, state):
    path = Path(folder) / "states" / node
    path.parent.mkdir(exist_ok=True)
    path.write_text(state)


def call(folder, text):
    """One write, so that lines of several processes do not mix."""
    with (Path(folder) / "calls.txt").open("a") as calls:
        calls.write(text + "\n")


def calls(folder):
    path = Path(folder) / "calls.txt"
    return path.read_text().splitlines() if path.exists() else []


class ScriptedProvider:
    name = "scripted"

    def prepare(self, plan, folder):
        call(folder, "prepare")
        return {}

    def enclosure(self, folder):
        """`SCRIPTED_ENCLOSURE` is a shell's script that begins the enclosure, before the run's own process takes over."""
        script = os.environ.get("SCRIPTED_ENCLOSURE")
        return ["sh", "-c", f'{script}; exec "$@"', "enclosure"] if script else []

    def create(self, plan, folder):
        return ScriptedCluster(plan, folder)

    def heal(self, folder):
        call(folder, "heal")
        return ["the scripted cluster was swept"]


class ScriptedCluster:
    features = frozenset({"words"})
    late_nodes_take_over = True

    def __init__(self, plan, folder):
        self.folder = folder
        self.options = plan.options
        self.quiet_s = float(plan.options.get("quiet", 0))
        spares = plan.options.get("spares", "").split()
        self.nodes = [ScriptedNode(name, folder, plan.options) for name in (*plan.node_names, *spares)]
        self.states = dict.fromkeys(plan.node_names, "normal") | dict.fromkeys(spares, "absent")
        self.spares = frozenset(spares)
        for name in spares:
            set_state(folder, name, "stopped")

    def members(self):
        return {
            node.name: Member(
                node=node.name, address=node.address, state=self.states[node.name], spare=node.name in self.spares
            )
            for node in self.nodes
        }

    def start(self):
        call(self.folder, "cluster start")
        return self._boot([node for node in self.nodes if node.name not in self.spares])

    def start_first(self):
        call(self.folder, "cluster start first")
        return self._boot(self.nodes[:1])

    def start_others(self):
        call(self.folder, "cluster start others")
        if self.options.get("others") == "die":
            raise NodeDied("node n2 ended", node="n2", exit_code=3, first_error="ERROR")
        return self._boot([node for node in self.nodes[1:] if node.name not in self.spares])

    def _boot(self, nodes):
        for node in nodes:
            node.start()
        return [node.await_serving(deadline_s=1) for node in nodes]

    def await_whole(self, names, *, deadline_s):
        return None

    def catch_up(self, names):
        how = self.options.get("catches up")
        return {name: {"passed": how == "yes", "seconds": 0.1} for name in names} if how else {}

    def stop(self):
        call(self.folder, "cluster stop")
        if self.options.get("teardown") == "raises":
            raise ExceptionGroup("some nodes could not be torn down", [OSError("n1 is stuck")])

    def connector(self):
        shows = {key.removeprefix("shows "): text for key, text in self.options.items() if key.startswith("shows ")}
        return ScriptedConnector(self.folder, shows)

    def missing(self, means):
        return self.options.get(f"missing {means}")


class ScriptedNode:
    def __init__(self, name, folder, options):
        self.name = name
        self.address = f"192.0.2.{name[1:]}"
        self.folder = folder
        self.broken_from = int(options.get(f"breaks {name}", 1000))
        self.ends_from = int(options.get(f"ends {name}", 1000))
        self.mute_from = int(options.get(f"mute {name}", 1000))
        self.starts = 0

    def _call(self, verb):
        call(self.folder, f"{self.name} {verb}")

    def start(self):
        self._call("start")
        set_state(self.folder, self.name, "stopped" if self.starts >= self.broken_from else "running")
        self.starts += 1

    def await_serving(self, *, deadline_s):
        served = state_of(self.folder, self.name) == "running"
        if self.starts > self.ends_from:
            set_state(self.folder, self.name, "stopped")
        return Boot(
            node=self.name,
            served=served,
            seconds=0.5,
            exit_code=None if served else 3,
            first_error=None if served else f"ERROR {self.name}: Unknown type",
        )

    def stop(self, *, deadline_s=30):
        self._call("stop")
        set_state(self.folder, self.name, "stopped")

    def kill(self):
        self._call("kill")
        set_state(self.folder, self.name, "stopped")

    def pause(self):
        self._call("pause")
        set_state(self.folder, self.name, "paused")

    def resume(self):
        self._call("resume")
        set_state(self.folder, self.name, "running")

    def state(self):
        if self.starts > self.mute_from:
            raise NodeUnreachable(f"{self.name} does not answer")
        return state_of(self.folder, self.name)

    def exec(self, argv, *, timeout_s=30, stdin=None):
        self._call(f"exec {' '.join(argv)}")
        return Executed(0, "", "")

    def upload(self, source, target):
        raise NotImplementedError

    def download(self, source, target):
        raise NotImplementedError

    def skew_clock(self, offset_s):
        self._call(f"skew {offset_s:g}")

    def clock_offset(self):
        return 0.0

    def log_text(self):
        return ""

    def data_directories(self):
        return [("ks", "t", "5a1c395e4d0411efb4c5c1b2e1a1f0aa", True, ["before"])]


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────────


class Tremor:
    name = "tremor"

    def missing(self, cluster):
        return cluster.missing("tremor")

    def schedule(self, context, *, random):
        faults = []
        for number, text in enumerate(filter(None, context.options.get("tremor", "").split(","))):
            span, node = text.split()
            begins_s, ends_s = map(float, span.split("-"))
            faults.append(Fault(id=number, nemesis=self.name, begins_s=begins_s, ends_s=ends_s, nodes=(node,)))
        return faults

    def inject(self, cluster, fault):
        call(cluster.folder, f"tremor begins on {fault.nodes[0]}")
        pause_for(float(cluster.options.get("tremor takes", 0)))
        if cluster.options.get("tremor inject") == "raises":
            raise RuntimeError("the ground is too hard")
        return {"shaking": list(fault.nodes)}

    def heal(self, cluster, fault):
        call(cluster.folder, f"tremor ends on {fault.nodes[0]}")
        if cluster.options.get("tremor heal") == "raises":
            raise HealError("the ground goes on shaking")
        return {"shaking": []}


class Moves:
    """Operations that change membership as they are scripted; a node that becomes normal is started, and one that leaves ends."""

    name = "moves"

    def schedule(self, context, *, random):
        operations = []
        for number, text in enumerate(filter(None, context.options.get("moves", "").split(";"))):
            begins_s, node, becomes, outcome = text.split()
            operations.append(
                Fault(
                    id=number,
                    nemesis=self.name,
                    begins_s=float(begins_s),
                    ends_s=context.time_limit_s,
                    nodes=(node,),
                    parameters={"becomes": becomes, "outcome": outcome},
                )
            )
        return operations

    def becomes(self, operation):
        return {operation.nodes[0]: operation.parameters["becomes"]}

    def operate(self, cluster, operation):
        (name,), becomes = operation.nodes, operation.parameters["becomes"]
        outcome = operation.parameters["outcome"]
        call(cluster.folder, f"moves {name}")
        pause_for(float(cluster.options.get("moves takes", 0)))
        node = next(node for node in cluster.nodes if node.name == name)
        if outcome == "raises":
            raise RuntimeError("the road is closed")
        if outcome == "ok":
            cluster.states[name] = becomes
            if becomes == "normal":
                node.start()
        if outcome in {"ok", "falls"} and becomes != "normal":
            set_state(cluster.folder, name, "stopped")
        if outcome != "ok":
            return Completion(type="fail", error="Scripted: the road is closed")
        return Completion(type="ok", value={"moved": name})


def phases(events):
    """The names of the phases a run went through, in order, from its history."""
    begun = [e["value"]["phase"] for e in events if e["f"] == "phase" and e["value"]["state"] == "begins"]
    return [name for name, _ in itertools.groupby(begun)]
