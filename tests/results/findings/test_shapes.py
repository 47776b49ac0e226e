"""Shapes: names drop out, relations stay."""

from __future__ import annotations

import pytest
from contested_runs import make_statements
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.harness.ddl.schema_changes import (
    add_column,
    add_field,
    alter_options,
    cql,
    create_aggregate,
    create_index,
    create_table,
    create_type,
    create_view,
    drop_column,
    drop_function,
    drop_keyspace,
    drop_table,
    drop_type,
)
from schemaquake.harness.model.steps import Invoke
from schemaquake.results.findings.shapes import make_shapes, parse_shape


def table(name: str, *types: str, keyspace: str = "ks") -> Invoke:
    columns = [("k", "int", "partition_key"), *((f"c{n}", text, "regular") for n, text in enumerate(types))]
    return create_table(keyspace, name, columns=columns)


def shapes(*changes: Invoke) -> list[str]:
    return [str(shape) for shape in make_shapes(make_statements(*changes))]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([drop_type("ks", "u"), table("x", "frozen<u>")], ["drop-type(A)", "create-table(B uses A)"]),
        ([drop_type("ks", "u"), table("x", "frozen<v>")], ["drop-type(A)", "create-table(B)"]),
        ([drop_type("ks", "t"), table("t", "int")], ["drop-type(A)", "create-table(B)"]),
        (
            [drop_type("ks", "u"), add_column("ks", "t", "c", "map<int, frozen<u>>")],
            ["drop-type(A)", "add-column(B uses A)"],
        ),
        ([drop_type("ks", "u"), create_type("ks", "w", fields=[("b", "frozen<u>")])], ["drop-type(A)", "create-type(B uses A)"]),
        ([table("t"), table("t", "text"), table("t")], ["create-table(A) 2+"]),
        ([table("t"), table("s")], ["create-table(A)", "create-table(B)"]),
        ([drop_keyspace("ks"), table("t")], ["drop-keyspace(A)", "create-table(B in A)"]),
        ([drop_keyspace("other"), table("t")], ["drop-keyspace(A)", "create-table(B)"]),
        ([drop_table("ks", "t"), create_view("ks", "m", base="t", primary_key=["v", "k"])], ["drop-table(A)", "create-view(B of A)"]),
        (
            [drop_function("ks", "f"), create_aggregate("ks", "g", arguments=["int"], state_function="f", state_type="int")],
            ["drop-function(A)", "create-aggregate(B calls A)"],
        ),
        (
            [drop_column("ks", "t", "c"), create_index("ks", "i", table="t", column="c")],
            ["drop-column(A at B)", "create-index(C at B on A)"],
        ),
        ([drop_column("ks", "t", "c"), create_index("ks", "i", table="t", column="d")], ["drop-column(A)", "create-index(B on A)"]),
        (
            [create_index("ks", "i", table="t", column="a"), create_index("ks", "i", table="t", column="b")],
            ["create-index(A) 2+"],
        ),
        ([add_column("ks", "t", "a", "int"), add_column("ks", "t", "b", "int")], ["add-column(A) 2+"]),
        ([add_column("ks", "t", "a", "int"), add_column("ks", "t", "a", "text")], ["add-column(A at B) 2+"]),
        ([add_field("ks", "u", "a", "int"), add_field("ks", "u", "b", "int")], ["add-field(A) 2+"]),
        ([alter_options("ks", "t", {"comment": "a"}), add_column("ks", "t", "c", "int")], ["add-column(A)", "alter-options(A)"]),
        ([cql("ks.t", "TRUNCATE ks.t"), drop_table("ks", "t")], ["drop-table(A)", "cql(A)"]),
        ([drop_table("ks", "t")], ["drop-table(A)"]),
        ([], []),
    ],
    ids=map(str, range(21)),
)  # fmt: skip
def test_a_shape_has_the_relations_of_its_objects(changes: list[Invoke], expected: list[str]) -> None:
    assert shapes(*changes) == expected
    assert shapes(*reversed(changes)) == expected


NAMES = st.sampled_from(["a", "b", "t", "u", "zz"])


@given(keyspace=NAMES, names=st.permutations(["a", "b", "c", "d"]))
def test_names_and_their_order_drop_out(keyspace: str, names: list[str]) -> None:
    u, x, y, m = names
    changes = [
        drop_type(keyspace, u),
        table(x, f"frozen<{u}>", keyspace=keyspace),
        table(y, f"frozen<{u}>", keyspace=keyspace),
        create_view(keyspace, m, base=y, primary_key=["k"]),
    ]
    assert shapes(*changes) == [
        "drop-type(A)", "create-table(B uses A)", "create-table(C uses A)", "create-view(D of B)",
    ]  # fmt: skip


def test_what_is_beyond_the_limit_is_left_out_and_the_latest_stays() -> None:
    many = [table(f"t{n}") for n in range(40)]
    assert shapes(*many) == [f"create-table({letter})" for letter in "ABCDEF"]


def test_statements_without_a_definition_have_a_shape() -> None:
    odd = [Invoke("add-column", "ks.t", {"column": None}), Invoke("create-table", "ks.t", {"columns": "rubbish"})]
    assert shapes(*odd) == ["add-column(A)", "create-table(A)"]


@pytest.mark.parametrize("text", ["create-table(B uses A) 2+", "drop-type(A)", "create-index(C at B on A)"])
def test_a_shape_is_read_back(text: str) -> None:
    assert str(parse_shape(text)) == text


@pytest.mark.parametrize(
    "text", ["", "drop-type", "drop-type(a)", "drop-type(A) 3+", "drop-type(A uses)", "DROP TYPE(A)"]
)
def test_other_texts_are_no_shapes(text: str) -> None:
    with pytest.raises(ValueError, match="not the shape"):
        parse_shape(text)


@pytest.mark.parametrize(
    "value",
    [
        None,
        1,
        [],
        {"columns": 1},
        {"columns": [None, 1, "x", [], [1], [None, 3]]},
        {"arguments": {"a": "u"}},
        {"column": []},
        {"table": 1, "base": None, "state_function": ["f"]},
    ],
    ids=map(str, range(8)),
)
def test_a_definition_in_another_form_has_a_shape_without_relations(value: object) -> None:
    assert shapes(Invoke("create-index", "ks.i", value)) == ["create-index(A)"]  # type: ignore[arg-type]
