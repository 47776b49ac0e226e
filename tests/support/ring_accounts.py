"""Histories of operations on the topology and what nodes say of the ring afterwards, one call a line."""

from __future__ import annotations

import orjson

NODES = ("n1", "n2", "n3", "n4")
ADDRESS = {name: f"10.0.0.{name[1:]}" for name in (*NODES, "n5")}
TOKENS = {"n1": "0", "n2": "25", "n3": "50", "n4": "75", "n5": "90"}


def noted(at, states, *, ms=1):
    """A `membership` note."""
    members = {
        name: {"state": state, "address": ADDRESS[name], "host_id": f"h-{name}", "spare": name == "n4"}
        for name, state in states.items()
    }
    return f"@{ms} -- info membership {orjson.dumps({'at': at, 'members': members}).decode()}"


def member(name, *, tokens=None, host_id=None):
    return {
        "address": ADDRESS[name],
        "host_id": host_id or f"h-{name}",
        "tokens": [TOKENS[name]] if tokens is None else list(tokens),
    }


def account(node, members, *, phase="settled,restarted", gossip=None, directory=None, **changed):
    """A `ring` row: what this node says; `changed` are members it describes otherwise."""
    peers = {ADDRESS[name]: changed.get(name, member(name)) for name in members if name != node}
    told = {"self": changed.get(node, member(node)), "peers": peers, "gossip": gossip, "directory": directory}
    return f"{phase} {node} ring {orjson.dumps(told).decode()}"


def registered(states, *, sequences=None):
    """A directory: address → state."""
    return {
        ADDRESS[name]: {
            "host_id": f"h-{name}",
            "state": state,
            "tokens": [TOKENS[name]] if state == "JOINED" else [],
            "sequence": (sequences or {}).get(name),
        }
        for name, state in states.items()
    }
