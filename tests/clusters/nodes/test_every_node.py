"""One action on every node: all results by name, or the errors of all that failed."""

from __future__ import annotations

import threading

import pytest

from schemaquake.clusters.nodes.every_node import on_every
from schemaquake.harness.errors import ClusterError, NodeUnreachable


def test_results_are_by_name_and_calls_overlap():
    together = threading.Barrier(3, timeout=20)

    def act(name):
        together.wait()
        return name.upper()

    assert on_every(["n1", "n2", "n3"], act) == {"n1": "N1", "n2": "N2", "n3": "N3"}


def test_every_node_is_tried_and_every_error_is_in_the_message():
    tried = []

    def act(name):
        tried.append(name)
        if name != "n2":
            raise NodeUnreachable(f"no answer of {name}")

    with pytest.raises(ClusterError) as caught:
        on_every(["n1", "n2", "n3"], act)
    assert sorted(tried) == ["n1", "n2", "n3"]
    assert "no answer of n1" in str(caught.value)
    assert "no answer of n3" in str(caught.value)


def test_no_nodes_give_no_results():
    assert on_every([], str.upper) == {}
