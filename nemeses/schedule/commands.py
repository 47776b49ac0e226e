"""Commands on a node: run one, or require its success, and describe its failure."""

from __future__ import annotations

import re

from schemaquake.harness.errors import ClusterError
from schemaquake.harness.model.protocols import Executed, Node

__all__ = ["describe_failure", "is_denied", "must", "run", "runs_commands"]


def run(node: Node, *argv: str) -> Executed:
    """Run a command. A missing command fails with 127, as in a shell."""
    try:
        return node.exec(argv)
    except FileNotFoundError as error:
        return Executed(127, "", str(error))


def must(node: Node, *argv: str) -> str:
    """Run a command and return its output. Raises ClusterError with the command's first line of error if it fails."""
    done = run(node, *argv)
    if done.exit_code != 0:
        raise ClusterError(f"`{' '.join(argv)}` failed on {node.name}: {describe_failure(done)}")
    return done.stdout


def runs_commands(node: Node) -> bool:
    """Return True if the node runs commands at all; before a cluster is started, its nodes may not exist."""
    try:
        return node.exec(["true"]).exit_code == 0
    except (ClusterError, OSError):
        return False


def describe_failure(done: Executed) -> str:
    """Return the first line that a failed command wrote, else its exit code."""
    return (done.stderr.strip() or done.stdout.strip() or f"exit code {done.exit_code}").splitlines()[0].rstrip(".")


def is_denied(done: Executed) -> bool:
    """Return True if a command lacked permission to look, so that an object that it did not find may exist."""
    return bool(re.search(r"permission denied|operation not permitted|must be root", done.stderr, re.IGNORECASE))
