"""Commands on a node: run one, or insist on it; and what its refusal means."""

from __future__ import annotations

import re

from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.protocols import Executed, Node

__all__ = ["is_denied", "must", "run", "runs_commands", "words"]


def run(node: Node, *argv: str) -> Executed:
    """Run a command; a command that is not there is one that failed with 127, as a shell would say it."""
    try:
        return node.exec(argv)
    except FileNotFoundError as error:
        return Executed(127, "", str(error))


def must(node: Node, *argv: str) -> str:
    """Run a command and return its output; raises ClusterError with its own words if it fails."""
    done = run(node, *argv)
    if done.exit_code != 0:
        raise ClusterError(f"`{' '.join(argv)}` failed on {node.name}: {words(done)}")
    return done.stdout


def runs_commands(node: Node) -> bool:
    """Whether the node can be asked at all; before a cluster is started, its nodes may not be there."""
    try:
        return node.exec(["true"]).exit_code == 0
    except (ClusterError, OSError):
        return False


def words(done: Executed) -> str:
    """The first line of what a failed command said."""
    return (done.stderr.strip() or done.stdout.strip() or f"exit code {done.exit_code}").splitlines()[0].rstrip(".")


def is_denied(done: Executed) -> bool:
    """Whether a command may not even look, so that what it does not find may be there nevertheless."""
    return bool(re.search(r"permission denied|operation not permitted|must be root", done.stderr, re.IGNORECASE))
