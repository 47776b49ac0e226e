"""Failures: an error of a worker or of the observer keeps its kind through a pipe, and a defect its traceback."""

from __future__ import annotations

from multiprocessing import Pipe

import pytest

from schemaquake.harness.errors import ClusterError, JournalError, NodeUnreachable
from schemaquake.harness.run.failures import classify_failure
from schemaquake.harness.run.interpreter import WorkerFailed


class Unpicklable(Exception):
    def __reduce__(self):
        raise TypeError("no pickle of it")


def fail(error):
    raise error


def raised(error):
    """Classify an error where it was caught, and send it through a pipe."""
    ours, theirs = Pipe()
    try:
        fail(error)
    except Exception as caught:  # noqa: BLE001 - a defect may be of any kind
        theirs.send(classify_failure(caught))
    return ours.recv()


@pytest.mark.parametrize("error", [ClusterError, WorkerFailed])
def test_a_node_that_does_not_answer_stays_one_whoever_asked_it(error):
    found = raised(NodeUnreachable("n2 does not answer")).to_error("a worker of n2", error)
    assert (type(found), str(found)) == (NodeUnreachable, "n2 does not answer")


@pytest.mark.parametrize("known", [ClusterError("no majority"), JournalError("no majority")])
def test_an_error_that_is_known_is_the_askers_with_the_same_text(known):
    found = raised(known).to_error("a worker of n1", WorkerFailed)
    assert (type(found), str(found)) == (WorkerFailed, "no majority")


def test_a_defect_says_who_failed_and_where():
    found = raised(Unpicklable("the eyes burst")).to_error("the observer", ClusterError)
    assert type(found) is ClusterError
    assert str(found).startswith("the observer failed:\nTraceback (most recent call last):\n")
    assert "in fail\n    raise error\n" in str(found)
    assert str(found).endswith("Unpicklable: the eyes burst\n")
