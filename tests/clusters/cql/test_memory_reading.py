"""Memory reading: what follows from a node's answers about what it serves, and what does not."""

from __future__ import annotations

import pytest
from cassandra import InvalidRequest, OperationTimedOut
from cassandra.protocol import ServerError, SyntaxException

from schemaquake.clusters.cql.memory import describe, probe

KEY = {
    "k": {"type": "int", "kind": "partition_key", "position": 0},
    "v": {"type": "int", "kind": "regular", "position": -1},
}
TWO_KEYS = KEY | {"v": {"type": "int", "kind": "partition_key", "position": 1}}


def answering(*answers):
    """A node that gives these answers one after another, and what it was asked."""
    asked = []
    left = list(answers)

    def columns_of(text):
        asked.append(text)
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return columns_of, asked


def probed(columns, *answers, kind="table"):
    columns_of, asked = answering(*answers)
    (found,) = probe(columns_of, [(kind, "ks", "t", columns)])
    return found, asked


def test_what_a_node_serves_is_asked_without_reading_a_row():
    found, asked = probed(KEY, {"k": "int", "v": "int"})
    assert asked == ["SELECT * FROM ks.t WHERE k IN ()"]
    assert (found.keyspace, found.name, found.error) == ("ks", "t", None)
    assert found.definition == {"kind": "table", "columns": {"k": "int", "v": "int"}}


@pytest.mark.parametrize("columns", [TWO_KEYS, {}], ids=["two columns of the key", "no column at all"])
def test_where_the_key_is_not_one_column_a_row_is_read(columns):
    found, asked = probed(columns, {"k": "int"})
    assert asked == ["SELECT * FROM ks.t LIMIT 1"]
    assert found.definition == {"kind": "table", "columns": {"k": "int"}}


@pytest.mark.parametrize(
    "text",
    [
        "unconfigured columnfamily t",
        "unconfigured table t",
        "Keyspace ks does not exist",
        "keyspace ks does not exist",
        "table ks.t does not exist",
    ],
)
def test_a_node_that_knows_no_such_table_says_so(text):
    error = InvalidRequest(f'Error from server: code=2200 [Invalid query] message="{text}"')
    found, asked = probed(KEY, error, kind="view")
    assert len(asked) == 1
    assert found.error is None
    assert found.definition["kind"] == "view"
    assert found.definition["refusal"].endswith(f'message="{text}"')


def test_a_key_of_another_name_in_memory_is_seen_by_a_second_question():
    found, asked = probed(KEY, InvalidRequest("Undefined name k in where clause"), {"c": "int", "z": "int"})
    assert asked[1] == "SELECT * FROM ks.t LIMIT 1"
    assert found.definition == {"kind": "table", "columns": {"c": "int", "z": "int"}}


@pytest.mark.parametrize(
    "answers",
    [
        [OperationTimedOut()],
        [ServerError(0, "java.lang.NullPointerException", {})],
        [InvalidRequest("IN is not allowed here"), InvalidRequest("something else")],
        [InvalidRequest("IN is not allowed here"), OperationTimedOut()],
    ],
    ids=["no answer", "an error on the way", "refused twice for other reasons", "refused, then no answer"],
)
def test_any_other_error_says_nothing_of_its_memory(answers):
    found, asked = probed(KEY, *answers)
    assert len(asked) == len(answers)
    assert found.definition == {"kind": "table"}
    assert found.error.startswith(type(answers[-1]).__name__)


def test_a_line_without_describe_is_told_from_a_node_that_does_not_answer():
    def refuse(error):
        def query(_):
            raise error

        return query

    assert describe(refuse(SyntaxException(0x2000, "no viable alternative at input 'DESCRIBE'", {}))) is None
    silent = describe(refuse(OperationTimedOut()))
    assert silent.rows == ()
    assert silent.error.startswith("OperationTimedOut")
    assert describe(lambda _: [{"type": "keyspace"}]).rows == [{"type": "keyspace"}]
