"""Cells of a recorded grid against a model: every kind of agreement and difference."""

from __future__ import annotations

import pyarrow as pa
import pytest

from schemaquake.results.experiments.fidelity.comparison import (
    KINDS,
    ModelRaces,
    compare,
    render_comparison,
)


def row(cell, state, broken, anomalies=(), system="cassandra:5.0.9"):
    return {
        "system": system,
        "mode": "barrier",
        "cell": cell,
        "state": state,
        "broken": broken,
        "tried": 1,
        "anomalies": list(anomalies),
    }


DDL = "non-linearizable-ddl"


@pytest.mark.parametrize(
    ("server", "model", "kind"),
    [
        (("held", 0, ()), ModelRaces(tried=2, broken=0), "agrees"),
        (("refused", 0, ()), ModelRaces(tried=2, broken=0), "agrees"),
        (("broke", 1, ("lost-rows", DDL)), ModelRaces(tried=2, broken=1, anomalies=(("lost-rows", 1),)), "agrees"),
        (("broke", 1, (DDL,)), ModelRaces(tried=2, broken=1, anomalies=((DDL, 1),)), "agrees"),
        (("broke", 1, ("lost-rows", DDL)), ModelRaces(tried=2, broken=1, anomalies=((DDL, 1),)), "other anomalies"),
        (("broke", 1, ("lost-rows",)), ModelRaces(tried=2, broken=0), "server worse"),
        (("held", 0, ()), ModelRaces(tried=2, broken=1, anomalies=((DDL, 1),)), "model worse"),
        (("unknown", 0, ()), ModelRaces(tried=2, broken=1), "undecided"),
        (("broke", 1, ("lost-rows",)), None, "not modelled"),
    ],
)
def test_a_cell_is_compared(server, model, kind):
    recorded = pa.Table.from_pylist([row("a/b/same", *server), row("c/d/same", *server, system="cassandra:3.0")])
    (found,) = compare(recorded, "cassandra:5.0.9", race=lambda _mode, _cell: model)
    assert (found.kind, found.cell) == (kind, "a/b/same")
    text = render_comparison([found], {"cassandra:5.0.9": "simulated:cassandra-5.0"})
    assert ("`a/b/same`" in text) == (kind in KINDS[:3])


def test_cells_that_no_server_raced_are_left_out():
    recorded = pa.Table.from_pylist([row("a/b/same", "not run", 0), row("a/c/same", "not applicable", 0)])
    assert compare(recorded, "cassandra:5.0.9", race=lambda _mode, _cell: None) == []
