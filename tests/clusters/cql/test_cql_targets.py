"""Which keyspaces a statement would touch: told for what workloads send, refused for all that nobody can be sure of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.clusters.cql.targets import NotUnderstood, Targets, targets


@pytest.mark.parametrize(
    ("statement", "keyspaces"),
    [
        ("CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}", {"a"}),
        ("CREATE SCHEMA IF NOT EXISTS a WITH replication = {}", {"a"}),
        ("ALTER KEYSPACE a WITH durable_writes = false", {"a"}),
        ("drop keyspace if exists A", {"a"}),
        ('DROP KEYSPACE "A"', {"A"}),
        ("CREATE TABLE IF NOT EXISTS a.t (k int PRIMARY KEY, v frozen<b.u>)", {"a", "b"}),
        ("CREATE TABLE a.t LIKE b.t WITH gc_grace_seconds = 1", {"a", "b"}),
        ("SELECT v.x, b.f(k) FROM a.t", {"a", "b"}),
        ("DROP KEYSPACE -- sq_a\ra", {"a"}),
        ("DROP KEYSPACE // sq_a\na", {"a"}),
        ("INSERT INTO a.t (k) VALUES ($$ it's ; $ FROM b.t $$)", {"a"}),
        ("BEGIN BATCH UPDATE a.t SET v = 'x'WHERE k = 1 UPDATE\rb.t SET v=1 WHERE k=1 APPLY BATCH;;", {"a", "b"}),
        ("ALTER TABLE a.t ADD v text", {"a"}),
        ("ALTER TYPE a.u RENAME x TO y", {"a"}),
        ("CREATE OR REPLACE FUNCTION a.f (x int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE java AS $$return x;$$", {"a"}),
        ("DROP AGGREGATE IF EXISTS a.g", {"a"}),
        ("CREATE MATERIALIZED VIEW a.v AS SELECT * FROM b.t WHERE k IS NOT NULL PRIMARY KEY (k)", {"a", "b"}),
        ("CREATE MATERIALIZED VIEW IF NOT EXISTS a . v AS SELECT k, v, w, x, y, z FROM b . t WHERE k IS NOT NULL PRIMARY KEY (k)", {"a", "b"}),
        ("DROP MATERIALIZED VIEW a.v", {"a"}),
        ("CREATE CUSTOM INDEX IF NOT EXISTS i ON a.t (v) USING 'SAI'", {"a"}),
        ("CREATE INDEX ON a.t (v)", {"a"}),
        ("DROP INDEX a.i", {"a"}),
        ("TRUNCATE a.t", {"a"}),
        ("TRUNCATE TABLE a . t ;", {"a"}),
        ("INSERT INTO a.t (k, v) VALUES (1, 'DROP KEYSPACE b; UPDATE b.t')", {"a"}),
        ("INSERT INTO a.t (k, v) VALUES (1, 'it''s FROM b.t')", {"a"}),
        ("UPDATE a.t SET v = 1 WHERE k = 1 IF never = null", {"a"}),
        ("DELETE v FROM a.t WHERE k = 1 -- FROM b.t\n", {"a"}),
        ("BEGIN UNLOGGED BATCH INSERT INTO a.t (k) VALUES (1); UPDATE b.t SET v = 1 WHERE k = 1; APPLY BATCH", {"a", "b"}),
        ("BEGIN TRANSACTION LET r = (SELECT l FROM a.t WHERE k = 1); SELECT r.l; UPDATE b.t SET l += [1] WHERE k = 1; COMMIT TRANSACTION", {"a", "b"}),
        ("/* UPDATE b.t */ SELECT v, WRITETIME(v) FROM a.t WHERE k = 1", {"a"}),
    ],
)  # fmt: skip
def test_every_keyspace_that_a_statement_names_is_found(statement, keyspaces):
    assert targets(statement) == Targets(
        frozenset(keyspaces), reads_only=statement.startswith(("SELECT", "/* UPDATE b.t */ SELECT"))
    )


@pytest.mark.parametrize(
    ("statement", "because"),
    [
        ("", "the statement is empty"),
        (" ; ", "the statement is empty"),
        ("-- DROP KEYSPACE a\n", "the statement is empty"),
        ("DROP KEYSPACE a -- and no more", "'-' at character 16"),
        ("DROP KEYSPACE a /* and no more", "'/' at character 16"),
        ("DROP KEYSPACE a\x0b", "at character 15"),
        ("DROP KEYSPACE \u212aeyspace", "at character 14"),
        ("DROP\xa0KEYSPACE a", "at character 4"),
        ("INSERT INTO a.t (k) VALUES ('x)", "at character 28"),
        ("INSERT INTO a.t (k) VALUES ($$x)", "at character 28"),
        (
            "BEGIN BATCH UPDATE a.t SET v = 1 WHERE k = 1UPDATE b.t SET v = 1 WHERE k = 1; APPLY BATCH",
            "'1' at character 43",
        ),
        (
            "BEGIN BATCH UPDATE a.t SET v = 1 WHERE k = 1e5UPDATE b.t SET v = 1 WHERE k = 1; APPLY BATCH",
            "'1' at character 43",
        ),
        ("BEGIN BATCH UPDATE a.t SET v = 1 WHERE k = 1", "no batch that ends"),
        ("DROP KEYSPACE IF a", "IF stands where a name"),
        ("DROP TABLE TABLE.t", "TABLE stands where a name"),
        ('DROP KEYSPACE "a b"', "is no name"),
        ('DROP TABLE "a.t"', "is no name"),
        ("DROP MATERIALIZED TABLE a.t", "MATERIALIZED TABLE is nothing"),
        ("USE a", "USE is no statement"),
        ("GRANT ALL ON KEYSPACE a TO bob", "GRANT is no statement"),
        ("CREATE ROLE bob", "CREATE ROLE is no statement"),
        ("DROP USER bob", "DROP USER is no statement"),
        ("CREATE TRIGGER t ON a.t USING 'x'", "CREATE TRIGGER is no statement"),
        ("DROP", "DROP is no statement"),
        ("DROP TABLE", "a name is missing"),
        ("DROP TABLE t", '"t" is named without its keyspace'),
        ("DROP TABLE a.", "a name is missing"),
        ("DROP TABLE a.'t'", "a name is missing"),
        ("TRUNCATE t", "without its keyspace"),
        ("CREATE INDEX i", "there is no ON"),
        ("CREATE MATERIALIZED VIEW a.v", "there is no FROM"),
        ("SELECT 1", "SELECT names no table"),
        ("SELECT * FROM a.t; DROP KEYSPACE b", "there are several statements"),
        ("DROP KEYSPACE a; DROP KEYSPACE b", "there are several statements"),
        ("BEGIN BATCH APPLY BATCH", "BEGIN names no table"),
        ("BEGIN BATCH UPDATE t SET v = 1 WHERE k = 1; APPLY BATCH", "without its keyspace"),
        ("'DROP KEYSPACE a'", "is no statement"),
    ],
)
def test_what_is_not_understood_is_said_to_be(statement, because):
    with pytest.raises(NotUnderstood, match=because):
        targets(statement)


@given(st.text(alphabet=st.sampled_from("abDROPKEYSPACE.;'\"$-/* \n()"), max_size=60))
def test_whatever_the_text_there_is_an_answer_or_a_refusal(text):
    try:
        found = targets(text)
    except NotUnderstood:
        return
    assert found.keyspaces


@given(st.text(max_size=30))
def test_what_stands_in_a_value_never_counts(value):
    quoted = value.replace("'", "''")
    assert targets(f"INSERT INTO a.t (k) VALUES ('{quoted}')") == Targets(frozenset({"a"}), reads_only=False)
