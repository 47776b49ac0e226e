"""A cluster whose membership can be changed, without servers: what is asked of it is answered as a test scripts it."""

from __future__ import annotations

from collections import deque

from schemaquake.harness.model.membership import Member
from schemaquake.harness.model.protocols import Boot
from schemaquake.harness.model.topology import Attempt


class ChangingNode:
    """A server that starts and ends at once."""

    def __init__(self, name, *, state="running"):
        self.name = name
        self.address = f"10.0.0.{name[1:]}"
        self.process = state
        self.started = 0

    def state(self):
        return self.process

    def resume(self) -> None:
        """It is never frozen."""

    def kill(self):
        self.process = "stopped"

    def stop(self, *, deadline_s=30):
        self.process = "stopped"

    def start(self):
        self.process = "running"
        self.started += 1

    def await_serving(self, *, deadline_s):
        return Boot(node=self.name, served=self.process == "running", seconds=0.1)


class ChangingCluster:
    """`answers` are the outcomes of attempts in order (`ok` when they are used up), `lacks` the verbs that it has not."""

    def __init__(self, members, spares=(), *, answers=(), lacks=(), taken_for_alive=False, carried_on=False):
        self.carried_on = carried_on
        self.nodes = [ChangingNode(name) for name in members] + [ChangingNode(name, state="stopped") for name in spares]
        self.by_name = {node.name: node for node in self.nodes}
        self.asked = []
        self.answers = deque(answers)
        self.lacks = frozenset(lacks)
        self.states = dict.fromkeys(members, "normal") | dict.fromkeys(spares, "absent")
        self.taken_for_alive = taken_for_alive

    def members(self):
        return {n.name: Member(node=n.name, address=n.address, state=self.states[n.name]) for n in self.nodes}

    def cannot(self, verb):
        return f"no {verb}" if verb in self.lacks else None

    def cannot_replace(self):
        return "no replace" if "replace" in self.lacks else None

    def outlives_restart(self):
        return self.carried_on

    def ask(self, verb, *, on, about=None, argument=None, limit_s):
        self.asked.append((verb, on, about or argument))
        return self._attempt(verb, on)

    def join(self, node, *, replacing=None, limit_s):
        assert self.by_name[node].state() == "stopped"
        self.asked.append(("join", node, replacing))
        self.by_name[node].start()
        return self._attempt("join", node)

    def await_dead(self, node, *, limit_s):
        return f"n1 takes {node} for alive" if self.taken_for_alive else None

    def token_at(self, fraction):
        return str(int(fraction * 100))

    def _attempt(self, command, node):
        outcome = self.answers.popleft() if self.answers else "ok"
        answer = "" if outcome == "ok" else "words"
        return Attempt(outcome=outcome, command=command, node=node, seconds=1.0, answer=answer)
