"""First error: what a server said when it gave up, as its own log has it."""

from __future__ import annotations

import pytest

from schemaquake.clusters.nodes.first_error import first_error

BOOT = """\
OpenJDK 64-Bit Server VM warning: Sharing is only supported for boot loader classes because bootstrap classpath has been appended
INFO  [main] 2026-01-05 10:00:01,113 YamlConfigurationLoader.java:115 - Configuration location: file:///nodes/n1/cassandra.yaml
WARN  [main] 2026-01-05 10:00:01,900 SigarLibrary.java:174 - Cassandra server running in degraded mode.
INFO  [main] 2026-01-05 10:00:02,406 ColumnFamilyStore.java:500 - Initializing system.local
"""

UNKNOWN_TYPE = """\
ERROR [main] 2026-01-05 10:00:03,512 CassandraDaemon.java:900 - Exception encountered during startup
org.apache.cassandra.exceptions.InvalidRequestException: Unknown type sq_r4.u
\tat org.apache.cassandra.cql3.CQL3Type$Raw$RawUT.prepare(CQL3Type.java:832)
\tat org.apache.cassandra.schema.CQLTypeParser.parse(CQLTypeParser.java:64)
\tat org.apache.cassandra.schema.SchemaKeyspace.createColumnFromRow(SchemaKeyspace.java:1119)
\tat org.apache.cassandra.service.CassandraDaemon.main(CassandraDaemon.java:882)
"""

MISSING_COLUMNS = """\
ERROR [main] 2026-01-05 10:00:03,512 SchemaKeyspace.java:1033 - No partition columns found for table sq_r7.t in system_schema.columns. This may be due to corruption or concurrent dropping and altering of a table. If this table is supposed to be dropped, {}run the following query to cleanup: "DELETE FROM system_schema.tables WHERE keyspace_name = 'sq_r7' AND table_name = 't';"
INFO  [main] 2026-01-05 10:00:03,513 SchemaKeyspace.java:900 - going on
ERROR [main] 2026-01-05 10:00:03,520 CassandraDaemon.java:900 - Exception encountered during startup
org.apache.cassandra.schema.SchemaKeyspace$MissingColumns: No partition columns found in schema table for sq_r7.t
\tat org.apache.cassandra.schema.SchemaKeyspace.fetchColumns(SchemaKeyspace.java:1070)
\tat org.apache.cassandra.schema.SchemaKeyspace.fetchTable(SchemaKeyspace.java:1013)
"""

WRAPPED = """\
ERROR [main] 2026-01-05 10:00:03,520 CassandraDaemon.java:900 - Exception encountered during startup
java.lang.RuntimeException: Could not load the schema
\tat org.apache.cassandra.schema.Schema.load(Schema.java:10)
\tat org.apache.cassandra.service.CassandraDaemon.setup(CassandraDaemon.java:300)
Caused by: java.util.concurrent.ExecutionException: org.apache.cassandra.exceptions.ConfigurationException: bad
\tat java.base/java.util.concurrent.FutureTask.report(FutureTask.java:122)
\t... 12 common frames omitted
Caused by: org.apache.cassandra.exceptions.ConfigurationException: Column family ID mismatch (found 1; expected 2)
\tat org.apache.cassandra.schema.TableMetadata.validateCompatibility(TableMetadata.java:600)
INFO  [StorageServiceShutdownHook] 2026-01-05 10:00:03,600 HintsService.java:234 - Paused hints dispatch
"""

WHILE_RUNNING = """\
ERROR [MutationStage-2] 2026-01-05 10:01:00,000 JVMStabilityInspector.java:70 - Exception in thread Thread[MutationStage-2,5,main]
java.nio.BufferUnderflowException: null
\tat java.base/java.nio.HeapByteBuffer.get(HeapByteBuffer.java:183)
"""


def test_the_exception_is_told_with_where_it_came_from():
    assert first_error(BOOT + UNKNOWN_TYPE) == (
        "ERROR [main] 2026-01-05 10:00:03,512 CassandraDaemon.java:900 - Exception encountered during startup\n"
        "org.apache.cassandra.exceptions.InvalidRequestException: Unknown type sq_r4.u\n"
        "\tat org.apache.cassandra.cql3.CQL3Type$Raw$RawUT.prepare(CQL3Type.java:832)"
    )


def test_what_ended_the_server_is_told_rather_than_what_came_before_it():
    said = first_error(BOOT + MISSING_COLUMNS)
    assert said.splitlines()[1] == (
        "org.apache.cassandra.schema.SchemaKeyspace$MissingColumns: No partition columns found in schema table for sq_r7.t"
    )
    assert first_error(WHILE_RUNNING + BOOT + UNKNOWN_TYPE) == first_error(BOOT + UNKNOWN_TYPE)


def test_every_cause_is_told_without_the_frames_between():
    assert first_error(BOOT + WRAPPED).splitlines() == [
        "ERROR [main] 2026-01-05 10:00:03,520 CassandraDaemon.java:900 - Exception encountered during startup",
        "java.lang.RuntimeException: Could not load the schema",
        "\tat org.apache.cassandra.schema.Schema.load(Schema.java:10)",
        "Caused by: java.util.concurrent.ExecutionException: org.apache.cassandra.exceptions.ConfigurationException: bad",
        "Caused by: org.apache.cassandra.exceptions.ConfigurationException: Column family ID mismatch (found 1; expected 2)",
    ]


def test_an_error_while_running_is_told_if_nothing_was_fatal():
    assert first_error(BOOT + WHILE_RUNNING).splitlines()[1] == "java.nio.BufferUnderflowException: null"


def test_an_error_in_the_last_line_is_told_whether_it_ends_or_not():
    said = "ERROR [main] 2026-01-05 10:00:03,512 CassandraDaemon.java:900 - Fatal configuration error"
    assert first_error(BOOT + said + "\n") == said
    assert first_error(BOOT + said) == said
    assert first_error(said) == said


@pytest.mark.parametrize(
    "said",
    [
        "Error: Could not find or load main class org.apache.cassandra.service.CassandraDaemon",
        "Unrecognized VM option 'UseConcMarkSweepGC'",
        'Exception in thread "main" java.lang.UnsupportedOperationException: The Security Manager is deprecated',
    ],
)
def test_a_java_that_does_not_start_says_why(said):
    text = f"{said}\nError: Could not create the Java Virtual Machine.\n"
    assert first_error(text).splitlines()[0] == said


def test_a_log_without_an_error_gives_its_last_lines():
    lines = [f"INFO  [main] 2026-01-05 10:00:0{n} Gossiper.java:1 - line {n}" for n in range(8)]
    assert first_error("\n".join(lines) + "\n") == "\n".join(lines[3:])


def test_an_error_in_the_middle_of_a_line_is_no_error():
    assert "ERROR" not in first_error("INFO  [main] 1 A.java:1 - level ERROR is on\nDEBUG [main] x\n").splitlines()[-1]


@pytest.mark.parametrize("text", ["", "\n", "  \n\n"])
def test_an_empty_log_is_called_empty(text):
    assert first_error(text) == "(the log is empty)"


def test_a_long_entry_is_cut():
    causes = "\n".join(f"Caused by: java.lang.Exception{n}Exception: {n}\n\tat a.B.c(B.java:{n})" for n in range(60))
    text = f"{BOOT}ERROR [main] 2026 A.java:1 - Exception encountered during startup\n{causes}\n"
    assert len(first_error(text).splitlines()) == 14


OLD = """\
 INFO [main] 2026-11-21 13:58:30,301 StorageService.java (line 360) Cassandra version: 0.7.10
ERROR [main] 2026-11-21 13:58:30,315 AbstractCassandraDaemon.java (line 353) Exception encountered during startup.
java.lang.RuntimeException: Unable to create thrift socket to /10.77.0.1:9160
\tat org.apache.cassandra.thrift.CassandraDaemon$ThriftServer.<init>(CassandraDaemon.java:108)
\tat org.apache.cassandra.thrift.CassandraDaemon.main(CassandraDaemon.java:79)
Caused by: org.apache.thrift.transport.TTransportException: Could not create ServerSocket on address /10.77.0.1:9160.
\t... 5 more
Exception encountered during startup.
java.lang.RuntimeException: Unable to create thrift socket to /10.77.0.1:9160
\tat org.apache.cassandra.thrift.CassandraDaemon.main(CassandraDaemon.java:79)
Caused by: org.apache.thrift.transport.TTransportException: Could not create ServerSocket on address /10.77.0.1:9160.
"""


def test_what_an_old_server_says_twice_is_told_once():
    assert first_error(OLD).splitlines() == [
        "ERROR [main] 2026-11-21 13:58:30,315 AbstractCassandraDaemon.java (line 353) Exception encountered during startup.",
        "java.lang.RuntimeException: Unable to create thrift socket to /10.77.0.1:9160",
        "\tat org.apache.cassandra.thrift.CassandraDaemon$ThriftServer.<init>(CassandraDaemon.java:108)",
        "Caused by: org.apache.thrift.transport.TTransportException: Could not create ServerSocket on address /10.77.0.1:9160.",
    ]


def test_an_entry_of_log4j_ends_an_error():
    text = "ERROR [main] 2012-01-01 09:00:00,000 A.java (line 1) bad\n\tat x\n WARN [main] 2012-01-01 09:00:00,001 B.java (line 2) no\n"
    assert "no" not in first_error(text).split()


def test_an_error_that_was_survived_is_not_told_for_the_one_that_ended_the_start():
    survived = (
        "ERROR [Messaging-EventLoop-3-1] 2026-01-05 10:00:03,041 InboundMessageHandler.java:201 - unexpected exception "
        "caught while deserializing a message\n"
        "org.apache.cassandra.exceptions.CoordinatorBehindException: Couldn't find table with id tid:e.\n"
        "INFO  [main] 2026-01-05 10:00:03,654 CommitLog.java:207 - Replaying commitlog/CommitLog-9-1.log\n"
    )
    fatal = (
        "ERROR [main] 2026-01-05 10:00:03,689 DefaultDiskErrorsHandler.java:177 - Exiting due to error while processing "
        "commit log during initialization.\n"
        "org.apache.cassandra.db.commitlog.CommitLogReadHandler$CommitLogReadException: Unexpected error deserializing "
        "mutation; saved to tmp/mutation27dat.  Exception follows: Couldn't find table with id tid:f.\n"
        "\tat org.apache.cassandra.db.commitlog.CommitLogReader.readMutation(CommitLogReader.java:472)"
    )
    assert first_error(BOOT + survived + fatal + "\n") == fatal
