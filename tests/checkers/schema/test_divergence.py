"""Divergence: versions, disks and memories that differ, and differences that mean nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from histories import judged

from schemaquake.checkers.schema.divergence import Divergence
from schemaquake.harness.model.verdict import Anomaly, Verdict

CREATE = ("@1 p0 n1 invoke create-table k.t a:int* c:int", "@2 p0 n1 ok")
TABLE = "settled n1,n2,n3 table k.t id=1 a:int* c:int"


def verdict(observations: Sequence[str], history: Sequence[str] = CREATE) -> Verdict:
    return Divergence().check(judged(history, observations), limit_s=5)


def finding(observations: Sequence[str], history: Sequence[str] = CREATE) -> Anomaly:
    (found,) = verdict(observations, history).anomalies
    return found


def types(observations: Sequence[str], history: Sequence[str] = CREATE) -> list[str]:
    return [anomaly.type for anomaly in verdict(observations, history).anomalies]


# ── versions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_two_versions_after_settling_are_a_disagreement() -> None:
    found = finding(["settled n1 version v1", "settled n2,n3 version v2", TABLE])
    assert found.type == "schema-disagreement"
    assert found.nodes == ("n1", "n2", "n3")
    assert found.ops == (0,)
    assert found.evidence["settled"]["versions"] == {"n1": "v1", "n2": "v2", "n3": "v2"}
    assert found.evidence["settled"]["differences_on_disk"] == []


def test_one_version_is_agreement() -> None:
    assert verdict(["settled n1,n2,n3 version v1", TABLE]).valid is True


@pytest.mark.parametrize(
    ("running", "valid"),
    [
        (('n1 version v1 {"epoch": 7}',), "unknown"),
        (('n1 version v2 {"epoch": 7}',), True),
        (('n1 version v2 {"memory": "columns"}', 'n1 version v3 {"memory": "statements"}'), "unknown"),
        (("n1 version v2", 'n1 version v3 {"memory": "statements"}'), True),  # a version that is as before says no more
        (("n1 version v2", 'n2 version v3 {"memory": "statements"}'), True),
    ],
)
def test_a_version_with_two_epochs_and_a_node_of_two_systems_were_not_read_as_they_stand(
    running: Sequence[str], valid: object
) -> None:
    assert verdict(["settled n1,n2,n3 version v1", TABLE, *(f"running {line}" for line in running)]).valid == valid


def test_a_disagreement_tells_what_differs_on_disk_and_how_long_it_was_waited_for() -> None:
    settle = '-- info settle {"phase": "settled", "agreed": false, "seconds": 20.0, "versions": {}}'
    observations = [
        "settled n1 version v1",
        "settled n2 version v2",
        "settled n1 table k.t id=1 a:int*",
        "settled n2 table k.t id=2 a:int*",
    ]
    found = finding(observations, [*CREATE, settle])
    assert found.evidence["settled"]["differences_on_disk"] == ["table k.t"]
    assert "after 20.0 s of waiting" in found.explanation


def test_where_only_memories_are_told_no_disk_is_spoken_of() -> None:
    observations = [
        'settled n1 version v1 {"told_from": "memory"}',
        'settled n2 version v2 {"told_from": "memory"}',
        "settled n1 table k.t id=1 a:int*",
    ]
    found = finding(observations)
    assert found.evidence["settled"]["differences_in_memory"] == ["table k.t"]
    assert "their memories differ in table k.t" in found.explanation
    assert "disk" not in found.explanation


def test_equal_versions_of_different_memories_are_a_hidden_divergence_of_memory() -> None:
    observations = ['settled n1,n2 version v {"told_from": "memory"}', "settled n1 table k.t id=1 a:int*"]
    found = finding(observations)
    assert found.type == "hidden-divergence"
    assert list(found.evidence["definitions"]) == ["in memory"]
    assert types([*observations, "settled n2 table k.t id=1 a:int*"]) == []


def test_versions_that_met_may_part_again_by_a_late_change_of_unknown_outcome() -> None:
    settle = '-- info settle {"phase": "settled", "agreed": true, "seconds": 1.0, "versions": {}}'
    unknown = "@3 p1 n2 invoke create-table k.s a:int*"
    observations = ["settled n1 version v1", "settled n2 version v2"]
    assert types(observations, [*CREATE, unknown, settle]) == []
    assert types(observations, [*CREATE, unknown]) == ["schema-disagreement"]
    assert types(observations, [*CREATE, settle]) == ["schema-disagreement"]


def test_disagreement_after_the_restart_counts_without_one_before() -> None:
    found = finding(["settled n1,n2 version v1", "restarted n1 version v1", "restarted n2 version v2"])
    assert list(found.evidence) == ["restarted"]


def test_the_last_reading_of_a_phase_is_the_one_that_counts() -> None:
    assert types(["settled n1,n2 version v1", "settled#1 n2 version v2"]) == ["schema-disagreement"]
    assert types(["settled n1 version v1", "settled n2 version v2", "settled#1 n1 version v2"]) == []


# ── disks and memories of several nodes ──────────────────────────────────────────────────────────────────────────────


def test_equal_versions_over_unequal_disks_are_a_hidden_divergence() -> None:
    found = finding(["settled n1,n2 table k.t id=1 a:int* c:int", "settled n3 table k.t id=1 a:int*"])
    assert found.type == "hidden-divergence"
    assert found.objects == ("k.t",)
    assert "definition A on n1 and n2 and definition B on n3" in found.explanation


@pytest.mark.parametrize(
    ("everywhere", "only_on_n3"),
    [
        ("keyspace k", "keyspace l"),
        ("keyspace k", "table k.s id=4 a:int*"),
        ("keyspace k", "view k.m id=4 a:int*"),
        ("keyspace k", "type k.u f0:int"),
        ("keyspace k", "function k.f"),
        ("keyspace k", "aggregate k.g"),
    ],
)
def test_what_one_node_alone_has_is_a_hidden_divergence(everywhere: str, only_on_n3: str) -> None:
    assert types([f"settled n1,n2,n3 {everywhere}", f"settled n3 {only_on_n3}"]) == ["hidden-divergence"]
    assert types([f"settled n1,n2,n3 {everywhere}", f"settled n1,n2,n3 {only_on_n3}"]) == []


def test_dropped_columns_that_differ_are_a_hidden_divergence() -> None:
    dropped = '{"dropped_columns": {"d": {"type": "int", "dropped_time": "2026-01-01"}}}'
    observations = ["settled n1 table k.t id=1 a:int*", f"settled n2 table k.t id=1 a:int* {dropped}"]
    assert types(observations) == ["hidden-divergence"]


MEMORY = (
    "settled n1,n2 table k.t id=1 a:int* c:int",
    "settled n1,n2 keyspace k",
    "settled n1,n2 live k CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': '3'} AND durable_writes = true",
)


def test_memories_that_differ_are_a_hidden_divergence() -> None:
    observations = [
        *MEMORY,
        "settled n1 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int) WITH comment = ''",
        "settled n2 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int) WITH comment = 'x'",
    ]
    assert types(observations) == ["hidden-divergence"]


def test_spaces_and_the_order_in_a_map_make_no_difference() -> None:
    observations = [
        *MEMORY,
        "settled n1 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int) WITH x = {'b': '1', 'a': '2'}",
        "settled n2 live k.t CREATE TABLE k.t (a int PRIMARY KEY,  c int) WITH x = {'a': '2', 'b': '1'}",
    ]
    assert types(observations) == []


def test_a_node_whose_memory_cannot_be_observed_is_left_out() -> None:
    observations = [TABLE, "settled n1,n2 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int)"]
    assert types(observations) == []


# ── one node's memory and its own disk ───────────────────────────────────────────────────────────────────────────────


def test_a_table_in_memory_only_is_found() -> None:
    table = "live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int)"
    observations = ["settled n1,n2 keyspace k", "settled n1,n2 live k CREATE KEYSPACE k", f"settled n1,n2 {table}"]
    found = finding(observations)
    assert found.type == "memory-disk-divergence"
    assert found.evidence["difference"] == "only in memory, not on disk"
    assert types([*observations, "settled n1,n2 table k.t id=1 a:int* c:int"]) == []


def test_a_table_that_no_memory_describes_is_on_disk_only_where_keyspaces_are_described() -> None:
    told = "live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int)"
    assert types([*MEMORY]) == ["memory-disk-divergence"]
    assert sorted(types([*MEMORY, f"settled n1 {told}"])) == ["hidden-divergence", "memory-disk-divergence"]
    assert types([*MEMORY, f"settled n1,n2 {told}"]) == []
    # A system that describes no keyspaces may have no word for tables either.
    index = "settled n1,n2 live k.i CREATE INDEX i ON k.t (c)"
    assert "k.t" not in [key for found in verdict([*MEMORY[:2], index]).anomalies for key in found.objects]


@pytest.mark.parametrize("statement", ["durable_writesx = true", "replicationx = {'class': 'SimpleStrategy'}"])
def test_a_keyspace_described_without_what_every_keyspace_has_is_another_one(statement: str) -> None:
    table = "settled n1,n2 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int)"
    other = "replication = {'class': 'SimpleStrategy', 'replication_factor': '3'}"
    kept = other if "durable" in statement else "durable_writes = true"
    described = f"settled n1,n2 live k CREATE KEYSPACE k WITH {kept} AND {statement}"
    assert types([*MEMORY[:2], described, table]) == ["memory-disk-divergence"]


def test_columns_in_memory_only_or_on_disk_only_are_found() -> None:
    extra = [*MEMORY, "settled n1,n2 live k.t CREATE TABLE k.t (a int, c int, d map<int, text>, PRIMARY KEY (a))"]
    assert finding(extra).evidence["readings"]["settled"]["n1"] == {"memory": ["a", "c", "d"], "disk": ["a", "c"]}
    lacking = [*MEMORY, "settled n1,n2 live k.t CREATE TABLE k.t (a int PRIMARY KEY)"]
    assert "column c on disk only" in finding(lacking).explanation


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE k.t (a int PRIMARY KEY, c int) WITH comment = 'x, y (z)'",
        "CREATE TABLE k.t (\n    a int,\n    c int,\n    PRIMARY KEY (a)\n)",
        'CREATE TABLE k.t ("a" int, c  INT, PRIMARY KEY ((a)))',
        "CREATE TABLE IF NOT EXISTS k.t (a int PRIMARY KEY, c int)",
        "/* Warning: not reproducible */ CREATE TABLE k.t (a int PRIMARY KEY, c int)",
    ],
)
def test_the_same_columns_in_any_spelling_are_no_divergence(statement: str) -> None:
    found = verdict([*MEMORY, f"settled n1,n2 live k.t {' '.join(statement.split())}"])
    assert (found.valid, found.anomalies) == (True, ())


@pytest.mark.parametrize(
    ("statement", "difference"),
    [
        ("CREATE TABLE k.t (a int, c int static, PRIMARY KEY (a))", "another definition of column c"),
        ("CREATE TABLE k.t (a int PRIMARY KEY, c text)", "another definition of column c"),
        ("CREATE TABLE k.t (a int, c int, PRIMARY KEY (a, c))", "another definition of column c"),
        ("CREATE TABLE k.s (a int PRIMARY KEY, c int)", "is described under the name k.s"),
    ],
)
def test_a_definition_in_memory_that_differs_from_the_one_on_disk_is_found(statement: str, difference: str) -> None:
    found = finding([*MEMORY, f"settled n1,n2 live k.t {statement}"])
    assert found.type == "memory-disk-divergence"
    assert difference in found.evidence["difference"]


def test_a_description_that_is_not_understood_is_a_doubt() -> None:
    found = verdict([*MEMORY, "settled n1,n2 live k.t no statement at all"])
    assert found.valid == "unknown"
    assert {doubt.kind for doubt in found.doubts} == {"unread"}


def test_a_dropped_column_in_a_statement_for_restoring_is_no_divergence() -> None:
    observations = [
        'settled n1 table k.t id=1 a:int* {"dropped_columns": {"d": {"type": "int", "dropped_time": ""}}}',
        "settled n1 live k.t CREATE TABLE k.t (a int PRIMARY KEY, d int)",
    ]
    assert types(observations) == []


AGAIN = 'a:int* c:int{} {{"dropped_columns": {{"c": {{"type": "int", "dropped_time": 1}}}}}}'
UNANSWERED = ("@3 p1 n1 invoke add-column k.t d:int", "@4 p1 n1 info OperationTimedOut: no answer")


@pytest.mark.parametrize(
    ("history", "remembered", "expected"),
    [
        pytest.param((*CREATE, *UNANSWERED), "a int PRIMARY KEY, c int", [], id="a column that may just have come"),
        pytest.param(CREATE, "a int PRIMARY KEY, c int", ["memory-disk-divergence"], id="that nobody asked for"),
        pytest.param(
            (*CREATE, *UNANSWERED), "a int PRIMARY KEY, d int", ["memory-disk-divergence"], id="another is not there"
        ),
    ],
)
def test_a_column_that_was_dropped_and_added_again_is_on_both_sides_of_a_torn_reading(
    history: Sequence[str], remembered: str, expected: Sequence[str]
) -> None:
    observations = [
        f"settled n1 table k.t id=1 {AGAIN.format(' d:int')}",
        f"settled n1 live k.t CREATE TABLE k.t ({remembered})",
    ]
    found = verdict(observations, history)
    assert [anomaly.type for anomaly in found.anomalies] == expected
    assert any(doubt.kind == "undecided" for doubt in found.doubts) is not bool(expected)


def test_functions_are_told_with_their_arguments_and_views_under_another_word() -> None:
    observations = [
        "settled n1 function k.f",
        "settled n1 live k.f(int) CREATE FUNCTION k.f",
        "settled n1 table k.t id=1 a:int*",
        "settled n1 live k.t CREATE TABLE k.t (a int PRIMARY KEY)",
        'settled n1 view k.m id=2 a:int* {"base_table_id": "1"}',
        "settled n1 live k.m CREATE MATERIALIZED VIEW k.m",
    ]
    assert types(observations) == []


def test_a_headless_table_is_in_no_memory_and_that_is_told_elsewhere() -> None:
    assert types(["settled n1 table k.t id=1", "settled n1 keyspace k", "settled n1 live k CREATE KEYSPACE k"]) == []


# ── memories that are asked table by table ───────────────────────────────────────────────────────────────────────────

ASKED = 'settled n1,n2 table k.t a:int* c:int {"options": {"comment": ""}}'
SERVED = '{"kind": "table", "columns": {"a": "int", "c": "int"}}'
REFUSED = '{"kind": "table", "refusal": "InvalidRequest: unconfigured columnfamily t"}'


def test_a_node_that_serves_the_columns_of_its_disk_is_well() -> None:
    assert verdict([ASKED, f"settled n1,n2 live k.t {SERVED}"]).valid is True


def test_an_added_column_that_a_node_does_not_serve_is_found() -> None:
    blind = '{"kind": "table", "columns": {"a": "int"}}'
    observations = [ASKED, f"settled n1 live k.t {SERVED}", f"settled n2 live k.t {blind}"]
    found = {anomaly.type: anomaly for anomaly in verdict(observations).anomalies}
    assert set(found) == {"hidden-divergence", "memory-disk-divergence"}
    assert found["memory-disk-divergence"].nodes == ("n2",)
    assert "column c on disk only" in found["memory-disk-divergence"].explanation


def test_a_dropped_column_that_a_node_still_serves_is_found() -> None:
    dropped = 'settled n1 table k.t a:int* {"options": {"x": 1}, "dropped_columns": {"c": {"type": null}}}'
    assert types([dropped, f"settled n1 live k.t {SERVED}"]) == ["memory-disk-divergence"]


def test_a_node_that_serves_none_of_its_tables_is_found_although_it_tells_of_nothing_else() -> None:
    found = {
        a.type: a for a in verdict([ASKED, f"settled n1 live k.t {SERVED}", f"settled n2 live k.t {REFUSED}"]).anomalies
    }
    own = found["memory-disk-divergence"]
    assert own.evidence["difference"] == "only on disk, not in memory"
    assert own.evidence["readings"]["settled"] == {"n2": "InvalidRequest: unconfigured columnfamily t"}
    assert set(found) == {"hidden-divergence", "memory-disk-divergence"}


@pytest.mark.parametrize("answered", ["n1", ""], ids=["one node answered", "nobody answered"])
def test_a_question_without_an_answer_is_no_evidence(answered: str) -> None:
    silent = '{"kind": "table", "error": "OperationTimedOut: no answer"}'
    served = [f"settled {answered} live k.t {SERVED}"] if answered else []
    judgement = verdict([ASKED, *served, f"settled {'n2' if answered else 'n1,n2'} live k.t {silent}"])
    assert (judgement.valid, judgement.anomalies) == ("unknown", ())
    assert {(doubt.kind, doubt.objects) for doubt in judgement.doubts} == {("unread", ("k.t",))}


STATED = "CREATE TABLE k.t (a int PRIMARY KEY, c int)"


@pytest.mark.parametrize(
    ("observations", "unread"),
    [
        pytest.param([f"settled n1,n2 live k.t {STATED}"], (), id="both read"),
        pytest.param([], (), id="no system that shows it"),
        pytest.param([f"settled n1 live k.t {STATED}"], ("n2",), id="one of two"),
        pytest.param(['settled n1,n2 version v {"memory": "statements"}'], ("n1", "n2"), id="neither, and it is shown"),
        pytest.param(
            ['settled n1,n2 version v {"memory": "columns"}'], ("n1", "n2"), id="neither, and it is asked for"
        ),
        pytest.param(
            ['settled n2 version v {"memory_error": "ServerError: no"}', f"settled n1 live k.t {STATED}"],
            ("n2",),
            id="an error",
        ),
    ],
)
def test_a_memory_that_was_not_read_is_a_doubt_on_every_node_that_shows_it(
    observations: list[str], unread: tuple[str, ...]
) -> None:
    judgement = verdict([ASKED, *observations])
    assert judgement.anomalies == ()
    assert judgement.valid == ("unknown" if unread else True)
    assert [doubt.kind for doubt in judgement.doubts] == ["unread"] * len(unread)
    assert all(node in doubt.text for node, doubt in zip(unread, judgement.doubts, strict=True))


def test_a_memory_that_was_read_in_one_phase_only_is_a_doubt() -> None:
    again = ASKED.replace("settled", "restarted")
    judgement = verdict([ASKED, again, f"settled n1,n2 live k.t {STATED}", f"restarted n1 live k.t {STATED}"])
    assert (judgement.valid, len(judgement.doubts)) == ("unknown", 1)


def test_a_node_without_a_table_has_nothing_in_its_columns_to_show() -> None:
    told = 'settled n1,n2 version v {"memory": "columns"}'
    assert verdict(["settled n1,n2 keyspace k", told]).valid is True


def test_what_is_asked_of_tables_says_nothing_of_types() -> None:
    assert types([ASKED, "settled n1,n2 type k.u f:int", f"settled n1,n2 live k.t {SERVED}"]) == []


def test_a_view_that_memory_lacks_is_found() -> None:
    refused = '{"kind": "view", "refusal": "InvalidRequest: unconfigured table m"}'
    observations = ["settled n1 view k.m id=2 a:int*", f"settled n1 live k.m {refused}"]
    assert types(observations) == ["memory-disk-divergence"]


# ── what cannot be judged, and stats ─────────────────────────────────────────────────────────────────────────────────


def test_a_node_that_could_not_be_read_makes_it_unknown() -> None:
    found = verdict(["settled n1,n2 keyspace k", "settled n3 error NoHostAvailable"])
    assert found.valid == "unknown"
    assert found.reason == "n3 could not be read in phase settled: NoHostAvailable"


def test_a_node_that_did_not_survive_the_restart_is_judged_elsewhere() -> None:
    assert (
        verdict(["settled,restarted n1,n2 keyspace k", "settled n3 keyspace k", "restarted n3 error gone"]).valid
        is True
    )


def test_a_finding_outweighs_a_node_that_could_not_be_read() -> None:
    found = verdict(["settled n1 version v1", "settled n2 version v2", "settled n3 error NoHostAvailable"])
    assert found.valid is False
    assert found.reason is not None


def test_without_an_acknowledged_change_there_is_nothing_to_judge() -> None:
    found = verdict([TABLE], ["@1 p0 n1 invoke create-table k.t a:int*", "@2 p0 n1 info timed out"])
    assert found.valid == "unknown"
    assert found.judged_nothing


def test_stats_tell_versions_epochs_and_the_time_to_agreement() -> None:
    settled = '-- info settle {"phase": "settled", "agreed": true, "seconds": 3.7, "versions": {"n1": "v7"}}'
    restarted = '-- info settle {"phase": "restarted", "agreed": false, "seconds": 20.0, "versions": {}}'
    stats = verdict(['settled,restarted n1 version v7 {"epoch": 7}'], [*CREATE, settled, restarted]).figures
    assert stats["versions"] == {"settled": {"n1": "v7"}, "restarted": {"n1": "v7"}}
    assert stats["epochs"] == {"settled": {"n1": 7}, "restarted": {"n1": 7}}
    assert stats["agreement_s"] == {"settled": 3.7}
    assert stats["agreed"] == {"settled": True, "restarted": False}


# ── changes of unknown outcome ───────────────────────────────────────────────────────────────────────────────────────

AGREED = '@9000 -- info settle {"phase": "settled", "agreed": true, "seconds": 1.0, "versions": {}}'
WITH_D = "k.t id=1 a:int* c:int d:int"
ONE_BEHIND = ("settled n1 table k.t id=1 a:int* c:int", f"settled n2,n3 table {WITH_D}")


def asked(change: str) -> list[str]:
    return [*CREATE, f"@3 p1 n2 invoke {change}", "@4 p1 n2 info OperationTimedOut", AGREED]


VERSIONS = ("settled n1 version v1", "settled n2,n3 version v2")


@pytest.mark.parametrize("versions", [(), VERSIONS], ids=["equal versions", "other versions"])
def test_a_change_that_may_have_come_between_two_readings_leaves_a_doubt(versions: Sequence[str]) -> None:
    found = verdict([*versions, *ONE_BEHIND], asked("add-column k.t d:int"))
    assert (found.valid, [doubt.kind for doubt in found.doubts]) == ("unknown", ["undecided"])


@pytest.mark.parametrize(("versions", "kind"), [((), "hidden-divergence"), (VERSIONS, "schema-disagreement")])
@pytest.mark.parametrize(
    "change", ["add-column k.t e:int", "add-column k.s d:int", "alter-options k.t comment=x", "drop-table k.t"]
)
def test_a_change_of_something_else_excuses_nothing(change: str, versions: Sequence[str], kind: str) -> None:
    assert types([*versions, *ONE_BEHIND], asked(change)) == [kind]


def test_versions_that_differ_alone_are_in_doubt_if_any_change_may_have_come_between() -> None:
    assert verdict([*VERSIONS, TABLE], asked("add-column l.t d:int")).valid == "unknown"
    assert types([*VERSIONS, TABLE], [*CREATE, AGREED]) == ["schema-disagreement"]


def test_a_change_excuses_nothing_after_every_process_of_its_time_has_ended() -> None:
    boots = [f'@0 -- {n} info node-start {{"phase": "boot", "served": true}}' for n in ("n1", "n2", "n3")]
    starts = [
        f'@15000 -- {n} info node-start {{"phase": "restart", "served": true, "seconds": 1}}'
        for n in ("n1", "n2", "n3")
    ]
    agreed = AGREED.replace("9000", "16000").replace("settled", "restarted")
    history = [*boots, *asked("add-column k.t d:int"), *starts, agreed]
    restarted = [row.replace("settled", "restarted") for row in ONE_BEHIND]
    whole = [f"settled n1,n2,n3 table {WITH_D}"]
    assert types([*whole, *restarted], history) == ["hidden-divergence"]
    versions = [row.replace("settled", "restarted") for row in VERSIONS]
    assert types([*whole, *versions, *restarted], history) == ["schema-disagreement"]


def test_a_change_may_come_between_the_readings_of_memory_and_of_disk() -> None:
    rows = (
        f"settled n1,n2,n3 table {WITH_D}",
        "settled n1 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int)",
        "settled n2,n3 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int, d int)",
        "settled n1,n2,n3 live k CREATE KEYSPACE k",
        "settled n1,n2,n3 keyspace k",
    )
    assert verdict(rows, asked("add-column k.t d:int")).valid == "unknown"
    assert types(rows, asked("add-column k.t e:int")) == ["hidden-divergence", "memory-disk-divergence"]


def test_the_only_keyspace_of_all_memories_may_not_be_missing_where_they_are_read_as_statements() -> None:
    statements = 'settled n1,n2 version vv {"memory": "statements"}'
    table = "settled n1,n2 live k.t CREATE TABLE k.t (a int PRIMARY KEY, c int)"
    *disk, keyspace = MEMORY
    assert types([statements, *disk, table]) == ["memory-disk-divergence"]
    assert types([statements, *disk, table, keyspace]) == []


# ── nodes of two releases ────────────────────────────────────────────────────────────────────────────────────────────


def mixed(*tables: str, versions: Sequence[str] = ("v1", "v0", "v0")) -> list[str]:
    """Readings of a cluster whose n2 and n3 were upgraded: their version says nothing beside that of n1."""
    nodes = zip(("n1", "n2", "n3"), versions, ("5.0.9", "6.0-alpha2", "6.0-alpha2"), strict=True)
    return [f'settled {node} version {version} {{"release": "{release}"}}' for node, version, release in nodes] + [
        *tables
    ]


def options(nodes: str, **named: str) -> str:
    listed = ", ".join(f'"{name}": "{value}"' for name, value in named.items())
    return f'settled {nodes} table k.t id=1 a:int* c:int {{"options": {{{listed}}}}}'


def test_versions_of_two_releases_are_not_compared() -> None:
    assert verdict(mixed(TABLE)).valid is True
    assert verdict(mixed(options("n1", comment="x"), options("n2,n3", comment="x", fast_path="keyspace"))).valid is True


@pytest.mark.parametrize(
    ("tables", "nodes"),
    [
        (
            ("settled n1 table k.t id=1 a:int*", "settled n2,n3 table k.t id=1 a:int* c:int"),
            "v0 of 6.0-alpha2 and v1 of 5.0.9",
        ),
        ((options("n1", comment="x"), options("n2,n3", comment="y", fast_path="keyspace")), "v1 of 5.0.9"),
        (("settled n2,n3 table k.t id=1 a:int* c:int",), "v1 of 5.0.9"),
        (("settled n1,n2 table k.t id=1 a:int* c:int", "settled n3 table k.t id=2 a:int* c:int"), "v0"),
    ],
)
def test_disks_of_two_releases_are_compared(tables: Sequence[str], nodes: str) -> None:
    found = finding(mixed(*tables))
    assert found.type == "hidden-divergence"
    assert nodes in found.explanation


@pytest.mark.parametrize(("node", "is_odd"), [("n1", False), ("n2", True), ("n3", True)])
def test_nodes_of_one_release_say_the_same_of_their_system(node: str, *, is_odd: bool) -> None:
    told = [
        line.replace("{", '{"authority": "log", ') if line.startswith(f"settled {node} ") else line
        for line in mixed(TABLE)
    ]
    texts = [doubt.text for doubt in verdict(told).doubts]
    assert any(text.startswith("the final readings of different nodes differ") for text in texts) is is_odd


def test_nodes_of_one_release_still_have_to_agree() -> None:
    found = finding(mixed(TABLE, versions=("v1", "v0", "v9")))
    assert (found.type, found.nodes) == ("schema-disagreement", ("n2", "n3"))
    unnamed = ["settled n1 version v1", *mixed(TABLE)[1:]]
    assert types(unnamed) == ["schema-disagreement"]
