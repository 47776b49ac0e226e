"""Node log: a line for every rule, what is damning, what is noise, and how findings are folded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pytest
from histories import judged
from hypothesis import given
from hypothesis import strategies as st

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.run.log_rules import UNFORESEEN as UNFORESEEN_RULE
from schemaquake.checkers.run.log_rules import find_rule, load_log_rules
from schemaquake.checkers.run.node_log import NOTED, NodeLog
from schemaquake.harness.model.records import Records
from schemaquake.harness.model.verdict import Anomaly, Verdict

# A line that servers of some version write, for every rule; after a bar, the stack.
SAMPLES: Final = {
    "id-mismatch": "ERROR x: failed | ConfigurationException: Column family ID mismatch (found aa; expected bb)",
    "unknown-type": "ERROR main: Exception encountered during startup | InvalidRequestException: Unknown type k.u",
    "no-partition-columns": "ERROR main: No partition columns found for table k.t in system_schema.columns.",
    "no-function": "ERROR main: failed | ConfigurationException: Unable to find function k.f referenced by UDA k.g",
    "unknown-endpoint": "ERROR SharedPool-Worker-1: Unknown endpoint: /10.77.0.4:7000 | org.apache.cassandra.gms.FailureDetector$UnknownEndpointException: Unknown endpoint: /10.77.0.4:7000",
    "replaced-node-replaces-itself": "ERROR main: Exception encountered during startup | RuntimeException: Replacing a node without bootstrapping risks invalidating consistency guarantees as the expected data may not be present until repair is run.",
    "no-index-target": "ERROR main: failed | ConfigurationException: Unable to parse targets for index i (c)",
    "columns-not-a-subset": "ERROR x: failed | IllegalStateException: [c1_2] is not a subset of [v c2_0]",
    "definitions-merged": "ERROR x: failed | ConfigurationException: k.t: Partition keys of different length (found 3; expected 1)",
    "undecodable-rows": "ERROR x: Unexpected error during query | IllegalArgumentException: newLimit > capacity: (3099 > 4)",
    "unreadable-bytes": "ERROR ReadStage-2: Uncaught exception on thread Thread[ReadStage-2,5,main] | java.io.EOFException: null",
    "shared-id": "ERROR x: failed | java.lang.IllegalArgumentException: value already present: 1000",
    "migration-forked": "DEBUG x: Migration not applied Previous version mismatch. cannot apply.",
    "comparators-differ": "ERROR x: failed | ConfigurationException: comparators do not match or are not compatible.",
    "replay-refused": "ERROR main: Unexpected error deserializing mutation; saved to /tmp/mutation9dat and ignored. | java.lang.RuntimeException: 63305f32 is not defined as a collection",
    "housekeeping-met-a-drop": 'ERROR x: Exception in thread Thread[CompactionExecutor:2,1,main] | NullPointerException: Cannot read field "name" because "ksm" is null at o.a.c.db.Table.createReplicationStrategy(Table.java:282) at o.a.c.service.StorageService.getLoad(StorageService.java:2033)',
    "merge-without-keyspace": 'ERROR x: Exception in thread Thread[MigrationStage:1,5,main] | NullPointerException: Cannot invoke "org.apache.cassandra.config.KSMetaData.cfMetaData()" because "ksm" is null',
    "orphan-view": "WARN main: Not adding view m because the base table aa is unknown",
    "corrupt-sstable": "ERROR x: failed | CorruptSSTableException: Corrupted: /d/k/t/nb-1-big-Data.db",
    "stack-overflow": "ERROR x: failed | java.lang.StackOverflowError: null",
    "event-of-another-keyspace": "ERROR Native-Transport-Requests-1: Unexpected exception during request | java.util.NoSuchElementException\n"
    "\tat com.google.common.collect.AbstractIndexedListIterator.next(AbstractIndexedListIterator.java:80)\n"
    "\tat org.apache.cassandra.cql3.statements.schema.DropIndexStatement.schemaChangeEvent(DropIndexStatement.java:85)",
    "hint-of-another-version": "ERROR HintsDispatcher:1: Exception in thread Thread[HintsDispatcher:1,1,HintsDispatcher] | "
    "java.lang.IllegalArgumentException: serializedSize() called with non-matching version 14",
    "failure-of-another-version": "ERROR RequestResponseStage-3: Uncaught exception on thread Thread[RequestResponseStage-3,5,main] | "
    "java.lang.IllegalArgumentException: Unknown request failure reason error code: 3",
    "server-crashed": "ERROR -: Aborting on shard 0, in scheduling group main.",
    "state-machine-stopped": "ERROR shard 0:main: [6df5e7e8-b11a-4589-bedc-3207c0fb3ba9] applier fiber stopped because of the error: "
    "std::_Nested_exception<raft::state_machine_error> (State machine error at raft/server.cc:1218): "
    "exceptions::configuration_exception (no such type)",
    "malformed-sstable": "ERROR shard 1:comp: sstables::malformed_sstable_exception (index: wrong size in sstable /d/k/t-1/me-3gc-big-Index.db)",
    "changed-at-once": 'WARN shard 0:stmt: Failed to execute DDL statement "DROP TABLE k.t" due to concurrent group 0 modification. Retrying.',
    "schema-pull-storm": "DEBUG MigrationStage:1: Pulling schema from endpoint /10.0.0.2:7000",
    "out-of-memory": "ERROR x: failed | java.lang.OutOfMemoryError: Java heap space",
    "failing-disk": "ERROR x: failed | FSWriteError: java.nio.file.FileSystemException: Read-only file system",
    "damaged-file": "ERROR x: failed | CommitLogReadException: CRC mismatch",
    "no-space": "ERROR x: failed | java.io.IOException: No space left on device",
    "too-many-files": "ERROR x: failed | java.io.IOException: Too many open files",
    "address-in-use": "ERROR x: failed | java.net.BindException: Address already in use",
    "wrong-java": "ERROR x: failed | java.lang.reflect.InaccessibleObjectException: no",
    "connection-lost": "ERROR x: failed | java.io.IOException: Connection reset by peer",
    "handshake": "ERROR x: Failed to properly handshake with peer /10.0.0.1:7000. Closing the channel.",
    "timed-out": "WARN x: failed | CasWriteTimeoutException: CAS operation timed out",
    "unavailable": "ERROR x: failed | UnavailableException: Cannot achieve consistency level QUORUM",
    "shutting-down": "ERROR x: failed | IllegalStateExceptionOfOurs: ThreadPoolExecutor has shut down",
    "task-ended": "ERROR x: failed | RejectedExecutionException: rejected from a pool",
    "clock-moved": "WARN x: Invalid negative latency in hint delivery delay: -328918818",
    "roles-later": "WARN x: CassandraRoleManager skipped default role setup: some nodes were not ready",
    "gossip-alone": "ERROR main: failed | RuntimeException: Unable to gossip with any peers",
    "gossip-not-yet-known": "ERROR GossipStage:1: Exception in thread Thread[GossipStage:1,5,main] | NullPointerException: "
    'Cannot invoke "org.apache.cassandra.gms.EndpointState.getApplicationState(ApplicationState)"',
    "streaming": "ERROR x: [Stream #1] Streaming error occurred on session with peer 10.0.0.1",
    "schema-pull-failed": "WARN x: Can't send schema pull request: node /10.0.0.3:7000 is down.",
    "startup-checks": "WARN main: Trigger directory doesn't exist, please create it and try again.",
    "unknown-table": "ERROR x: failed | UnknownTableException: Couldn't find table with id aa.",
    "incompatible-schema": "ERROR x: failed | java.lang.RuntimeException: Unknown column c during deserialization",
    "metadata-log-not-begun": "ERROR x: Unexpected error during query | java.lang.IllegalStateException: Can't commit transformations when running in gossip mode.",
    "upgrade-does-not-end": "ERROR x: Got error nominating self | java.lang.IllegalStateException: Got mismatching cluster metadatas. Aborting migration.",
    "unknown-collection": "ERROR x: Exception in thread Thread[Thread-7,5,main] | RuntimeException: 63325f30 is not defined as a collection",
    "column-gone-while-sent": 'ERROR x: failed | NullPointerException: Cannot invoke "ColumnMetadata.isComplex()" because "column" is null',
    "view-gone-while-read": 'ERROR x: failed | NullPointerException: Cannot invoke "org.apache.cassandra.db.view.View.enforceStrictLiveness()"',
    "not-a-replica": "ERROR x: Received a read request for a token 3 that is not owned by the current replica",
    "unknown-keyspace": "ERROR x: failed | UnknownKeyspaceException: Could not find a keyspace k",
    "dropped-underneath": "ERROR x: failed | java.nio.file.NoSuchFileException: /d/k/t/nb-1-big-Data.db",
    "lost-file": "ERROR x: failed | java.nio.file.NoSuchFileException: /d/k/t/nb-1-big-Data.db",
    "task-cut-off": "WARN x: failed | java.nio.file.NoSuchFileException: /d/heapdump",
    "new-orphan-view": "WARN main: Not adding view m because the base table aa is unknown",
    "metadata-commit": "ERROR x: failed | IllegalStateException: Could not perform commit after 12 attempts.",
    "refused-join": "ERROR main: Exception (java.lang.UnsupportedOperationException) encountered during startup: Other bootstrapping/leaving/moving nodes detected, cannot bootstrap while cassandra.consistent.rangemovement is true | java.lang.UnsupportedOperationException: Other bootstrapping/leaving/moving nodes detected, cannot bootstrap while cassandra.consistent.rangemovement is true",
    "refused-leave": "ERROR RMI: Error while decommissioning node: Not enough live nodes to maintain replication factor in keyspace system_distributed (RF = 3, N = 3). Perform a forceful decommission to ignore.",
    "startup-failed": "ERROR main: Exception encountered during startup | java.lang.AssertionError: what",
    "transfer-skipped": "INFO x: Skipping transferred range (1,2] of keyspace k",
    "refused-statement": "ERROR x: failed | AlreadyExistsException: Cannot add already existing table t",
}
RULES: Final = {rule.name: rule for rule in load_log_rules()}
DAMNING: Final = sorted(name for name, rule in RULES.items() if rule.means == "damning" and rule.most is None)
FORGIVEN: Final = sorted(name for name, rule in RULES.items() if rule.means in {"noise", "noted"})
ACKED: Final = ("@1 p0 n1 invoke create-table k.t a:int*", "@2 p0 n1 ok")


def verdict(logs: Sequence[str], history: Sequence[str] = (), observations: Sequence[str] = ()) -> Verdict:
    return NodeLog().check(judged(history, observations, logs), limit_s=5)


def finding(logs: Sequence[str], history: Sequence[str] = (), observations: Sequence[str] = ()) -> Anomaly:
    (found,) = verdict(logs, history, observations).anomalies
    return found


def line(rule: str, node: str = "n1") -> str:
    """The sample of a rule, in the earliest start to which the rule applies."""
    return f"{node} boot{RULES[rule].since_boot} {SAMPLES[rule]}"


def kinds_of(rule: str) -> frozenset[str]:
    """The kinds of faults without one of which the rule does not hold."""
    return RULES[rule].under - {"fault", "restart", "drop"}


def injected(nemesis: str) -> str:
    return f'-- info fault-begins {{"id": 0, "nemesis": "{nemesis}", "nodes": ["n1"]}}'


# ── the rules ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_3_0_says_of_a_newer_java_when_it_starts_is_noise() -> None:
    line = (
        "n1 boot0 ERROR main: Cannot initialize un-mmaper.  (Are you using a non-Oracle JVM?) | "
        "java.lang.NoSuchMethodError: 'sun.misc.Cleaner sun.nio.ch.DirectBuffer.cleaner()'"
    )
    assert verdict([line]).valid is True


def test_a_row_for_a_table_just_dropped_is_noted_under_6_0_s_name_for_it_too():
    line = "n1 boot0 ERROR Exception in thread Thread[SharedPool-Worker-1] | IllegalArgumentException: Unknown CF tid:28 {}"
    assert verdict([line]).valid is True


def test_every_rule_has_a_sample() -> None:
    assert set(SAMPLES) == set(RULES)


@pytest.mark.parametrize("name", sorted(RULES))
def test_the_sample_of_a_rule_is_decided_by_that_rule(name: str) -> None:
    level, _, rest = SAMPLES[name].partition(" ")
    text = rest.partition(": ")[2].replace(" | ", "\n")
    thread = rest.partition(": ")[0]
    rule = find_rule(
        text,
        level=level,
        boot=RULES[name].since_boot,
        nemeses=sorted(kinds_of(name)),
        thread=thread,
        dropped="drop" in RULES[name].under,
    )
    assert rule is not None
    assert rule.name == name


@pytest.mark.parametrize("name", DAMNING)
def test_one_damning_entry_is_an_anomaly(name: str) -> None:
    found = finding([line(name)], ACKED)
    assert found.type == "unexpected-log-error"
    assert found.nodes == ("n1",)
    assert isinstance(found.evidence, dict)
    assert found.evidence["rule"] == name
    assert found.evidence["count"] == 1
    assert RULES[name].explanation in found.explanation


@pytest.mark.parametrize("name", FORGIVEN)
def test_noise_and_what_may_pass_is_counted_and_never_accused(name: str) -> None:
    dropped = () if "drop" in RULES[name].under else ACKED
    judgement = verdict([line(name)], [*dropped, *(injected(kind) for kind in sorted(kinds_of(name)))])
    assert judgement.valid is True
    assert judgement.figures == {"entries": 1, "by_rule": {name: 1}}


@pytest.mark.parametrize("name", [name for name in FORGIVEN if kinds_of(name)])
def test_what_faults_of_one_kind_explain_is_damage_without_them(name: str) -> None:
    assert verdict([line(name)], [injected("partition")]).valid is False
    for kind in kinds_of(name):
        assert verdict([line(name)], [injected(kind)]).valid is True


def test_damage_outweighs_the_noise_around_it() -> None:
    entry = "n1 boot1 ERROR main: Exception encountered during startup | InvalidRequestException: Unknown type k.u"
    assert verdict([entry]).valid is False


def test_an_orphan_view_counts_from_the_second_start_on() -> None:
    assert verdict(["n1 boot0 " + SAMPLES["orphan-view"]]).valid is True
    assert verdict(["n1 boot1 " + SAMPLES["orphan-view"]]).valid is False
    assert verdict(["n1 boot2 " + SAMPLES["orphan-view"]]).valid is False


def test_a_corrupt_file_is_no_damage_where_files_were_corrupted_on_purpose() -> None:
    fault = '-- info fault-begins {"id": 0, "nemesis": "disk", "nodes": ["n1"]}'
    assert verdict([line("corrupt-sstable")], [fault]).valid is True
    assert verdict([line("corrupt-sstable")], [fault.replace("disk", "partition")]).valid is False


def test_entries_below_warning_are_asked_for_where_a_rule_needs_them() -> None:
    wanted = {rule.pattern.pattern for rule in RULES.values() if not rule.levels <= {"WARN", "ERROR", "FATAL"}}
    assert wanted == set(NOTED)
    assert NodeLog.noted == NOTED
    assert RULES["migration-forked"].pattern.pattern in NOTED


# ── where a rule must stand ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("stack", "rule"),
    [
        pytest.param("java.io.EOFException", "connection-lost", id="the first exception"),
        pytest.param("java.lang.RuntimeException: java.io.EOFException", "connection-lost", id="carried by another"),
        pytest.param("java.lang.RuntimeException\n\tat a.B.c(B.java:1)\nCaused by: java.io.EOFException: null", "connection-lost", id="carried as a cause"),
        pytest.param("java.lang.AssertionError: bad\n\tat a.B.c(B.java:1)\nCaused by: java.io.EOFException", "unexpected-exception", id="below another error"),
        pytest.param("java.lang.RuntimeException: it broke\nCaused by: java.lang.InterruptedException", "unexpected-exception", id="below a message"),
        pytest.param("java.lang.IllegalStateException: bad\n\tat a.EOFException.of(B.java:1)", "unexpected-exception", id="in a frame"),
        pytest.param("java.lang.IllegalStateException: bad\nSuppressed: java.io.EOFException", "unexpected-exception", id="suppressed"),
        pytest.param("java.lang.RuntimeException\nCaused by: java.lang.AssertionError: bad\nCaused by: java.io.EOFException", "unexpected-exception", id="below the one that another carries"),
        pytest.param("java.lang.AssertionError: bad\nCaused by: java.lang.Error: bad\nof Connection reset by peer", "unexpected-exception", id="in further lines of a cause"),
        pytest.param("Caused by: java.io.EOFException", "unexpected-exception", id="as a cause of nothing"),
        pytest.param("java.lang.IllegalStateException: bad\nCaused by: x.InvalidRequestException: Unknown type k.u", "unknown-type", id="damage below another error"),
        pytest.param("java.lang.IllegalStateException: bad\nCaused by: java.io.IOException: No space left on device", "no-space", id="the machine below another error"),
    ],
)  # fmt: skip
def test_noise_forgives_an_error_only_in_its_first_exception_that_says_anything(stack: str, rule: str) -> None:
    found = find_rule(f"Exception in thread Thread[x]\n{stack}", level="ERROR", boot=0, nemeses=())
    assert found is not None
    assert found.name == rule


@pytest.mark.parametrize("exception", ["InterruptedException", "RejectedExecutionException", "CancellationException"])
def test_an_ended_task_is_noise_only_as_the_first_exception_and_where_something_was_stopped(exception: str) -> None:
    own, beside = f"it broke\njava.util.{exception}: x", f"{exception} was caught\njava.lang.RuntimeException: it broke"
    decided = [
        find_rule(text, level="ERROR", boot=0, nemeses=nemeses, restarted=restarted)
        for text, nemeses, restarted in ((own, (), True), (own, ("kill",), False), (own, (), False), (beside, (), True))
    ]
    names = ["task-ended", "task-ended", "unexpected-exception", "unexpected-exception"]
    assert [rule and rule.name for rule in decided] == names


GONE = "n1 boot0 ERROR x: failed | java.nio.file.NoSuchFileException: /d/k/t/nb-1-big-Data.db"


@pytest.mark.parametrize(
    ("more", "valid"),
    [
        ((), False),
        (("@3 p1 n1 invoke insert k.t", "@4 p1 n1 ok"), False),
        (("@3 p1 n1 invoke drop-table k.t", "@4 p1 n1 ok"), True),
        (("@3 p1 n1 invoke truncate k.t", "@4 p1 n1 ok"), True),
        ((injected("fill-disk"),), True),
    ],
    ids=["nothing", "rows", "a DROP", "a TRUNCATE", "a failing disk"],
)
def test_a_data_file_that_is_gone_is_damage_unless_something_may_have_taken_it(
    more: Sequence[str], *, valid: bool
) -> None:
    assert verdict([GONE], [*ACKED, *more]).valid is valid
    assert verdict([GONE.replace("Data.db", "heap")], [*ACKED, *more]).valid is True
    assert verdict([GONE.replace("ERROR", "WARN")], [*ACKED, *more]).valid is True


def test_where_nothing_is_said_of_a_run_anything_may_have_been_dropped() -> None:
    text = GONE.partition(": ")[2].replace(" | ", "\n")
    assert find_rule(text, level="ERROR", boot=0, nemeses=()) is RULES["dropped-underneath"]
    assert find_rule(text, level="ERROR", boot=0, nemeses=(), dropped=False) is RULES["lost-file"]


@pytest.mark.parametrize("message", ["Unknown keyspace k", "NoSuchFileException: /d/k/t/nb-1-big-Data.db"])
def test_what_is_no_noise_is_told_by_its_words_beside_a_defect_too(message: str) -> None:
    rule = find_rule(f"{message}\njava.lang.AssertionError", level="ERROR", boot=0, nemeses=(), dropped=False)
    assert rule is RULES["unknown-keyspace" if message.startswith("Unknown") else "lost-file"]


def test_a_rule_of_one_thread_forgives_no_other() -> None:
    entry = "ERROR {}: swap | java.lang.RuntimeException: bad"
    assert verdict([f"n1 boot0 {entry.format('main')}"]).valid is True
    assert verdict([f"n1 boot0 {entry.format('MutationStage-1')}"]).valid is False
    assert find_rule("swap", level="WARN", boot=0, nemeses=()) is RULES["startup-checks"], "a thread that is not told"


DEFECTS = ("java.lang.AssertionError: bad", "java.lang.NullPointerException", "java.lang.IndexOutOfBoundsException: 3")


@pytest.mark.parametrize("defect", DEFECTS)
@pytest.mark.parametrize(
    "words", ["main: JNA and swap", "x: the request timed out", "Stream: channel was closed", "x: node is draining"]
)
def test_words_of_a_message_forgive_no_defect_that_its_exception_tells(words: str, defect: str) -> None:
    assert verdict([f"n1 boot0 ERROR {words} | java.io.IOException: it did not go well"]).valid is True
    assert verdict([f"n1 boot0 ERROR {words} | {defect}"]).valid is False
    assert verdict([f"n1 boot0 ERROR {words} | java.lang.RuntimeException"]).valid is True


def test_a_defect_whose_own_words_are_known_noise_is_noise() -> None:
    line = "n1 boot0 ERROR x: stopped | java.lang.IllegalStateException: Shutdown in progress"
    assert verdict([line]).valid is True


@pytest.mark.parametrize(
    "thread", ["MutationStage-1", "ReadStage-2", "CompactionExecutor:3", "MigrationStage:1", "ViewMutationStage-1"]
)
def test_bytes_that_end_too_early_are_damage_where_rows_are_read_and_not_where_connections_are(thread: str) -> None:
    short = "Exception in thread | java.lang.RuntimeException\tat a.B.c\nCaused by: java.io.EOFException: null".replace(
        "\tat a.B.c", ""
    )
    assert verdict([f"n1 boot0 ERROR {thread}: {short}"]).valid is False
    assert verdict([f"n1 boot0 WARN {thread}: {short}"]).valid is True
    assert verdict([f"n1 boot0 ERROR {thread}: {short}"], [injected("file-corruption")]).valid is True
    for other in ("Messaging-EventLoop-3-1", "STREAM-IN-/127.0.0.2", "nioEventLoopGroup-2-3"):
        assert verdict([f"n1 boot0 ERROR {other}: {short}"]).valid is True
    assert find_rule(short.replace(" | ", "\n"), level="ERROR", boot=0, nemeses=()) is RULES["connection-lost"]


def test_noise_that_only_faults_and_restarts_make_is_unexpected_without_them() -> None:
    broken = "n1 boot0 ERROR Stream: Streaming error occurred on session | java.lang.IllegalStateException: no"
    fault = '-- info fault-begins {"id": 0, "nemesis": "kill", "nodes": ["n1"]}'
    planned = '-- info run-planned {"logs": ["n1"]}'
    assert verdict([broken], [planned, started("n1")]).valid is False
    assert verdict([broken], [planned, started("n1"), fault]).valid is True
    again = verdict([broken, f"n1 boot1 {NOTHING_MUCH}"], [planned, started("n1"), started("n1", "restart")])
    assert again.valid is True


def pulls(count: int, *, every_ms: int, node: str = "n1") -> Records:
    """Entries of one node that pulls schemas, one after another."""
    records = judged(ACKED, (), [line("schema-pull-storm", node)] * count)
    times = [
        f"2026-11-21 09:{n * every_ms // 60_000:02}:{n * every_ms / 1000 % 60:06.3f}".replace(".", ",")
        for n in range(count)
    ]
    position = records.logs.schema.get_field_index("timestamp")
    logs = records.logs.set_column(position, records.logs.schema.field(position), pa.array(times, pa.string()))
    return Records(records.history, records.observations, logs)


@pytest.mark.parametrize(
    ("count", "every_ms", "valid"),
    [
        pytest.param(1000, 10, False, id="a storm"),
        pytest.param(122, 10, False, id="just one"),
        pytest.param(120, 10, True, id="just none"),
        pytest.param(1000, 200, True, id="slowly"),
    ],
)
def test_many_pulls_of_schemas_in_a_short_time_are_a_storm(count: int, every_ms: int, *, valid: bool) -> None:
    """One change explains 20 pulls, and 100 are always fine."""
    judgement = NodeLog().check(pulls(count, every_ms=every_ms), limit_s=5)
    assert judgement.valid is valid
    assert judgement.figures["by_rule"] == {"schema-pull-storm": count}


# ── what no rule knows ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("entry", "valid"),
    [
        pytest.param("ERROR x: Exception in thread | java.lang.AssertionError: what", False, id="an exception"),
        pytest.param("FATAL x: java.lang.IndexOutOfBoundsException: 7", False, id="in the message"),
        pytest.param("WARN x: Exception in thread | java.lang.AssertionError: what", True, id="a warning"),
        pytest.param("ERROR x: something is odd", "unknown", id="no exception"),
        pytest.param("INFO x: java.lang.AssertionError: what", True, id="for information"),
    ],
)
def test_an_error_with_an_exception_that_no_rule_knows_is_unexpected(entry: str, *, valid: bool | str) -> None:
    assert verdict([f"n1 boot0 {entry}"]).valid is valid


def test_unexpected_exceptions_are_told_apart_by_their_class() -> None:
    logs = [
        f"n1 boot0 ERROR x: failed | java.lang.{name}: {n}" for n, name in enumerate(["AError", "BError", "AError"])
    ]
    assert sorted(found.evidence["count"] for found in verdict(logs).anomalies if isinstance(found.evidence, dict)) == [
        1,
        2,
    ]


def test_what_a_node_says_that_ran_out_of_memory_proves_nothing() -> None:
    strange = "boot0 ERROR x: failed | java.lang.AssertionError: what"
    judgement = verdict([line("out-of-memory"), f"n1 {strange}"])
    assert judgement.valid == "unknown"
    assert not judgement.anomalies
    assert finding([line("out-of-memory"), f"n1 {strange}", f"n2 {strange}"]).nodes == ("n2",)


def test_damage_counts_even_where_memory_ran_out() -> None:
    assert verdict([line("out-of-memory"), line("unknown-type")]).valid is False


def test_without_any_log_there_is_nothing_to_judge() -> None:
    judgement = verdict([], ACKED)
    assert judgement.valid == "unknown"
    assert judgement.judged_nothing


# ── folding, and what it is about ────────────────────────────────────────────────────────────────────────────────────


NOTHING_MUCH: Final = "INFO main: Configuration location: file:/x.yaml"


def started(node: str, phase: str = "boot") -> str:
    return f'-- {node} info node-start {{"phase": "{phase}", "served": true, "seconds": 1}}'


@pytest.mark.parametrize(
    ("missing", "doubts"),
    [
        pytest.param((), 0, id="all there"),
        pytest.param(("n2 boot0", "n2 boot1"), 1, id="a node without logs"),
        pytest.param(("n2 boot1",), 1, id="the first start alone"),
        pytest.param(("n2 boot0",), 1, id="without the first start"),
        pytest.param(("n1 boot1", "n2 boot1"), 2, id="the first start alone, on both"),
        pytest.param(("n1 boot0", "n1 boot1", "n2 boot0", "n2 boot1"), 2, id="none at all"),
    ],
)
@pytest.mark.parametrize("planned", [True, False], ids=["planned", "as in 0.1"])
def test_a_log_that_was_not_read_is_a_doubt(missing: Sequence[str], doubts: int, *, planned: bool) -> None:
    logs = [f"{node} boot{boot} {NOTHING_MUCH}" for node in ("n1", "n2") for boot in (0, 1)]
    notes = ['-- info run-planned {"logs": ["n1", "n2"]}'] if planned else []
    notes += [started(node, phase) for phase in ("boot", "restart") for node in ("n1", "n2")]
    judgement = verdict([line for line in logs if not line.startswith(tuple(missing))], notes)
    assert judgement.valid == ("unknown" if doubts else True)
    assert [doubt.kind for doubt in judgement.doubts] == ["unread"] * doubts


def replaced(outcome: str, *attempts: str) -> list[str]:
    """A replacement of n2 by itself, of which only the operation is noted."""
    value = '"operation": 0, "nodes": ["n2"], "becomes": {"n2": "normal"}'
    tried = ", ".join(f'{{"outcome": "{attempt}"}}' for attempt in attempts)
    ended = f'-- {outcome} replace {{{value}, "effect": {{"attempts": [{tried}]}}}}'
    return [f"-- invoke replace {{{value}}}", ended]


@pytest.mark.parametrize(
    ("read", "operation", "doubts"),
    [
        pytest.param((0, 1, 2), replaced("ok", "ok"), 0, id="all there"),
        pytest.param((1, 2), replaced("ok", "ok"), 1, id="without the first start"),
        pytest.param((0, 2), replaced("ok", "ok"), 1, id="without the start that replaced it"),
        pytest.param((0, 2), replaced("fail", "fail"), 0, id="a start that failed"),
        pytest.param((0, 2, 3), replaced("ok", "fail", "ok"), 0, id="one that failed before another"),
        pytest.param((1, 2, 3), replaced("ok", "fail", "ok"), 1, id="one that failed is not the first"),
        pytest.param((0, 3), replaced("ok", "fail", "ok"), 1, id="more than failed"),
        pytest.param((0, 2), replaced("info"), 0, id="an operation of unknown outcome"),
        pytest.param((0, 2), replaced("ok", "ok")[:1], 1, id="one that never ended"),
        pytest.param((0, 2), [started("n2", "fault").replace("true", "false")], 0, id="a start that did not serve"),
        pytest.param((0, 2), [started("n1", "fault").replace("true", "false")], 1, id="that of another node"),
    ],
)
def test_a_start_in_between_of_which_nothing_was_read_is_a_doubt(
    read: Sequence[int], operation: Sequence[str], doubts: int
) -> None:
    logs = [f"n2 boot{boot} {NOTHING_MUCH}" for boot in read]
    notes = ['-- info run-planned {"logs": ["n2"]}', started("n2"), *operation, started("n2", "restart")]
    assert [doubt.kind for doubt in verdict(logs, notes).doubts] == ["unread"] * doubts


def joined(outcome: str, *attempts: str, command: str = "start", node: str = "n4") -> list[str]:
    """A spare that joins, of which only the operation is noted."""
    value = {"operation": 0, "nodes": ["n4"], "becomes": {"n4": "normal"}}
    tried = [{"outcome": one, "command": command, "node": node} for one in attempts]
    ended = {**value, "effect": {"attempts": tried}}
    return [f"-- invoke bootstrap {json.dumps(value)}", f"-- {outcome} bootstrap {json.dumps(ended)}"]


@pytest.mark.parametrize(
    ("read", "operation", "doubts"),
    [
        pytest.param((0, 1), joined("ok", "ok"), 0, id="all there"),
        pytest.param((1,), joined("ok", "ok"), 1, id="without the start by which it joined"),
        pytest.param((1, 2), joined("ok", "info", "ok"), 0, id="a first start that failed"),
        pytest.param((2,), joined("ok", "info", "ok"), 1, id="more than failed"),
        pytest.param((1,), joined("info", "info"), 0, id="of unknown outcome"),
        pytest.param((1,), joined("fail"), 1, id="never asked for"),
    ],
)
def test_a_spare_that_joined_has_a_log_of_its_first_start(
    read: Sequence[int], operation: Sequence[str], doubts: int
) -> None:
    logs = [f"n4 boot{boot} {NOTHING_MUCH}" for boot in read]
    notes = ['-- info run-planned {"logs": ["n4"]}', *operation, started("n4", "restart")]
    assert [doubt.kind for doubt in verdict(logs, notes).doubts] == ["unread"] * doubts


@pytest.mark.parametrize(("logging", "read", "doubts"), [('["n1"]', "n1", 1), ('["n1"]', "n4", 0), ("[]", "n1", 0)])
def test_a_spare_has_a_log_though_it_had_none_when_it_was_noted_who_keeps_one(
    logging: str, read: str, doubts: int
) -> None:
    logs = [f"n1 boot0 {NOTHING_MUCH}", f"{read} boot0 {NOTHING_MUCH}"]
    notes = [f'-- info run-planned {{"logs": {logging}}}', started("n1"), *joined("ok", "ok")]
    found = [doubt.text for doubt in verdict(logs, notes).doubts]
    assert found == ["no log of n4 was read"] * doubts


def everyday(kind: str, outcome: str, *commands: str, node: str = "n2") -> list[str]:
    """An operation of a node, each command answered as the operation ended."""
    facts = {"takes_down": True} if kind in {"drain", "gossip"} else {"forgets": kind == "resetlocalschema"}
    value = {"operation": 0, "nodes": [node], "parameters": {"kind": kind, **facts}, "becomes": {node: "normal"}}
    ended = {**value, "effect": {"attempts": [{"outcome": outcome, "command": command} for command in commands]}}
    return [f"-- invoke everyday {json.dumps(value)}", f"-- {outcome} everyday {json.dumps(ended)}"]


DRAIN: Final = ("nodetool drain", "stop, start")


@pytest.mark.parametrize(
    ("read", "operation", "doubts"),
    [
        pytest.param((0, 1, 2), everyday("drain", "ok", *DRAIN), 0, id="drained and started"),
        pytest.param((0, 1), everyday("drain", "ok", *DRAIN), 1, id="without the last start"),
        pytest.param((0, 2), everyday("drain", "ok", *DRAIN), 1, id="without the start after the drain"),
        pytest.param((0, 2), everyday("drain", "info", *DRAIN), 0, id="a start that failed"),
        pytest.param((0, 1), everyday("drain", "ok", *DRAIN, node="n1"), 0, id="another node's"),
        pytest.param(
            (0, 1), everyday("gossip", "ok", "nodetool disablegossip", "nodetool enablegossip"), 0, id="gossip"
        ),
        pytest.param((0, 2), everyday("gossip", "info", "nodetool disablegossip"), 1, id="gossip explains no gap"),
        pytest.param((0, 1), everyday("resetlocalschema", "ok", "nodetool resetlocalschema"), 0, id="schema forgotten"),
        pytest.param((0, 2), everyday("scrub", "info", "nodetool scrub k"), 1, id="a scrub explains no gap"),
        pytest.param((0, 1), everyday("drain", "fail"), 0, id="never asked for"),
        pytest.param((0, 2), everyday("drain", "fail"), 1, id="never asked for, and a gap"),
        pytest.param((0,), everyday("drain", "ok", *DRAIN), 1, id="the first start alone"),
    ],
)
def test_everyday_operations_have_logs_of_their_own_where_they_start_the_server(
    read: Sequence[int], operation: Sequence[str], doubts: int
) -> None:
    logs = [f"n2 boot{boot} {NOTHING_MUCH}" for boot in read]
    notes = ['-- info run-planned {"logs": ["n2"]}', started("n2"), *operation, started("n2", "restart")]
    assert [doubt.kind for doubt in verdict(logs, notes).doubts] == ["unread"] * doubts


def test_an_operation_that_was_never_asked_for_is_no_start() -> None:
    def starts(*lines: str) -> list[bool]:
        return [start.anew for start in Evidence.of(judged(lines, [])).notes.starts]

    assert starts(*everyday("resetlocalschema", "fail")) == starts(*everyday("drain", "fail")) == []
    assert starts(*everyday("resetlocalschema", "ok", "nodetool resetlocalschema")) == [False]
    assert starts(*everyday("drain", "fail", "nodetool drain")) == [False]
    assert starts(*everyday("drain", "ok", *DRAIN)) == [True]
    assert starts(*everyday("drain", "ok", "drain, stop, start as cassandra:5.0.9")) == [True]


def test_a_service_that_was_off_for_a_while_is_no_start_where_none_is_restarted_in_the_end() -> None:
    logs, planned = [f"n2 boot0 {NOTHING_MUCH}"], '-- info run-planned {"logs": ["n2"]}'
    assert not verdict(logs, [planned, started("n2"), *everyday("gossip", "ok", "nodetool disablegossip")]).doubts
    assert verdict(logs, [planned, started("n2"), *everyday("drain", "ok", *DRAIN)]).doubts


def test_a_cluster_whose_nodes_keep_no_logs_has_nothing_to_judge() -> None:
    planned = '-- info run-planned {"logs": []}'
    assert verdict([], [planned, started("n1"), started("n1", "restart")]).judged_nothing


def test_damage_in_the_log_of_one_node_counts_although_anothers_was_not_read() -> None:
    judgement = verdict([line("id-mismatch")], [started("n1"), started("n2")])
    assert judgement.valid is False
    assert judgement.doubts


def test_one_rule_is_one_finding_with_the_first_line_of_each_node() -> None:
    found = finding([line("unknown-type", node) for node in ("n1", "n1", "n2")])
    assert found.nodes == ("n1", "n2")
    assert isinstance(found.evidence, dict)
    assert found.evidence["count"] == 3
    assert {node: first["line"] for node, first in found.evidence["first"].items()} == {"n1": 1, "n2": 1}
    assert found.evidence["count"] == 3


def test_the_objects_that_the_text_names_are_told_with_their_changes() -> None:
    race = ("@10 p0 n1 invoke drop-table k.t", "@11 p1 n2 invoke add-column k.t w:int", "@12 p0 n1 ok", "@13 p1 n2 ok")
    found = finding([line("no-partition-columns")], [*ACKED, *race])
    assert found.objects == ("k.t",)
    assert found.ops == (0, 2, 3)


def test_a_table_may_be_named_by_its_id() -> None:
    table_id = "7ab7ff90e59611f197725fa6a6dd3e03"
    dashed = "7ab7ff90-e596-11f1-9772-5fa6a6dd3e03"
    entry = f"n1 boot1 WARN main: Not adding view m because the base table {dashed} is unknown"
    seen = [f"@5 running n1 table k.t id={table_id} a:int*"]
    assert finding([entry], ACKED, seen).objects == ("k.t",)
    assert finding([entry], ACKED).objects == ()


def test_the_time_limit_leaves_the_rest_undecided() -> None:
    judgement = NodeLog().check(judged(logs=[line("roles-later")]), limit_s=-1)
    assert judgement.valid == "unknown"
    assert judgement.reason == "the time limit of -1 s passed after 0 of 1 entries"


# ── properties ───────────────────────────────────────────────────────────────────────────────────────────────────────

# A lost file proves damage only in a run that says that nothing was dropped; these say nothing.
WITHOUT_A_RUN = sorted(name for name in RULES if not kinds_of(name) and name != "lost-file")
ENTRIES = st.lists(
    st.tuples(st.sampled_from(["n1", "n2", "n3"]), st.sampled_from(WITHOUT_A_RUN)),
    min_size=1,
)


@given(entries=ENTRIES, order=st.permutations(["n1", "n2", "n3"]))
def test_renaming_nodes_changes_nothing(entries: Sequence[tuple[str, str]], order: Sequence[str]) -> None:
    names = dict(zip(("n1", "n2", "n3"), order, strict=True))
    before = verdict([line(rule, node) for node, rule in entries])
    after = verdict([line(rule, names[node]) for node, rule in entries])
    told = {(a.title, frozenset(names[node] for node in a.nodes)) for a in before.anomalies}
    assert told == {(a.title, frozenset(a.nodes)) for a in after.anomalies}
    assert before.valid == after.valid
    assert (before.valid is False) == any(rule in DAMNING for _, rule in entries)


# ── ScyllaDB ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "cause",
    [
        "seastar::no_sharded_instance_exception (sharded instance does not exist: db::view::view_builder)",
        "seastar::abort_requested_exception (abort requested)",
        "exceptions::mutation_write_failure_exception (Operation failed for system.cdc_local - received 0 responses)",
    ],
)
def test_a_state_machine_that_stops_while_its_server_does_is_not_accused(cause: str) -> None:
    text = f"applier fiber stopped because of the error: std::_Nested_exception<raft::state_machine_error>: {cause}"
    rule = find_rule(text, level="ERROR", boot=0, nemeses=())
    assert rule is None or rule.means != "damning"


def test_an_exception_of_scylladbs_that_no_rule_knows_is_not_accused() -> None:
    text = "Exception when communicating with 10.0.0.1: std::runtime_error (what nobody has seen)"
    assert find_rule(text, level="ERROR", boot=0, nemeses=("kill",)) is None
    assert find_rule(text, level="ERROR", boot=0, nemeses=()) is UNFORESEEN_RULE
    assert find_rule("std::bad_alloc", level="ERROR", boot=0, nemeses=()) is RULES["out-of-memory"]
    missing = "Exception when communicating with 10.0.0.1: Can't find a column family with UUID b66ab1b0"
    assert find_rule(missing, level="ERROR", boot=0, nemeses=()) is RULES["unknown-table"]


UNFORESEEN = "ERROR x: The local schema cannot be trusted any more"


@pytest.mark.parametrize(
    ("entry", "faults", "valid"),
    [
        pytest.param(UNFORESEEN, (), "unknown", id="an error"),
        pytest.param(UNFORESEEN, ("kill",), "unknown", id="an error under faults"),
        pytest.param(
            "ERROR x: Error while the node did what it does", (), "unknown", id="a word that names no exception"
        ),
        pytest.param(UNFORESEEN.replace("ERROR", "WARN"), ("kill",), True, id="a warning"),
        pytest.param("ERROR shard 0:main: group 0 is not what it was", (), "unknown", id="one of ScyllaDB"),
        pytest.param(
            "ERROR shard 0:main: failed: std::runtime_error (no)", (), "unknown", id="an exception of ScyllaDB"
        ),
        pytest.param("ERROR shard 0:main: failed: std::runtime_error (no)", ("kill",), True, id="that under faults"),
        pytest.param(SAMPLES["handshake"], ("kill",), True, id="noise without an exception"),
    ],
)
def test_an_error_that_no_rule_knows_is_a_doubt(entry: str, faults: Sequence[str], *, valid: bool | str) -> None:
    found = verdict([f"n1 boot0 {entry}"], [injected(fault) for fault in faults])
    assert (found.valid, found.anomalies) == (valid, ())


def test_an_error_that_no_rule_knows_is_told_once_for_all_nodes_and_numbers() -> None:
    found = verdict([f"n{node} boot0 {UNFORESEEN} ({node}7 ms)" for node in (1, 2, 3)])
    (doubt,) = found.doubts
    assert doubt.text.startswith("n1, n2 and n3 logged 3 times an error that no rule knows: ERROR The local schema")
