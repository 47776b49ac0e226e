from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from schemaquake.harness.model.records import LOGS
from schemaquake.results.store.node_logs import entries, read_logs

STARTUP_DEATH = """\
INFO  [main] 2026-11-21 09:00:00,100 YamlConfigurationLoader.java:100 - Configuration location: file:/x.yaml
ERROR [main] 2026-11-21 09:00:01,123 CassandraDaemon.java:900 - Exception encountered during startup
java.lang.RuntimeException: Unknown type ks.u
\tat org.apache.cassandra.schema.Types.get(Types.java:1)
Caused by: java.lang.IllegalStateException: null
Exception (java.lang.RuntimeException) encountered during startup: Unknown type ks.u
"""


def write(nodes: Path, name: str, text: str) -> None:
    path = nodes / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def warn(message: str, at: str = "09:00:00,000") -> str:
    return f"WARN  [main] 2026-11-21 {at} A.java:1 - {message}\n"


def found(table: pa.Table) -> list[tuple[str, int, int, str]]:
    return [(row["node"], row["boot"], row["line"], row["message"]) for row in table.to_pylist()]


@pytest.mark.parametrize(
    ("line", "level", "thread", "timestamp", "message"),
    [
        pytest.param(
            "WARN  [MigrationStage:1] 2026-11-21 09:00:00,123 Migration.java:12 - a - b",
            "WARN",
            "MigrationStage:1",
            "2026-11-21 09:00:00,123",
            "a - b",
            id="logback",
        ),
        pytest.param(
            "ERROR [Messaging-EventLoop-3-1] 2026-11-21T09:00:00,123Z NoSpamLogger.java:107 - x",
            "ERROR",
            "Messaging-EventLoop-3-1",
            "2026-11-21T09:00:00,123Z",
            "x",
            id="logback with a T",
        ),
        pytest.param(
            " WARN [MigrationStage:1] 2011-01-02 09:00:00,123 Migration.java (line 12) Unknown type - x",
            "WARN",
            "MigrationStage:1",
            "2011-01-02 09:00:00,123",
            "Unknown type - x",
            id="log4j",
        ),
        pytest.param(
            "FATAL [main] 2011-01-02 09:00:00,123 ? (line ?) out of words",
            "FATAL",
            "main",
            "2011-01-02 09:00:00,123",
            "out of words",
            id="log4j without a place",
        ),
        pytest.param(
            "WARN  2026-11-21 09:00:00,123 [shard 0:main] raft_group0 - no leader",
            "WARN",
            "shard 0:main",
            "2026-11-21 09:00:00,123",
            "no leader",
            id="ScyllaDB",
        ),
        pytest.param(
            "ERROR [RMI TCP Connection(2)-127.0.0.1] 2026-11-21 09:00:00,123 A.java:1 - [x] y",
            "ERROR",
            "RMI TCP Connection(2)-127.0.0.1",
            "2026-11-21 09:00:00,123",
            "[x] y",
            id="brackets and blanks in names",
        ),
    ],
)
def test_every_dialect_is_read(line, level, thread, timestamp, message):
    (entry,) = entries([line + "\n"])
    assert (entry.level, entry.thread, entry.timestamp, entry.message) == (level, thread, timestamp, message)


@pytest.mark.parametrize(
    "words",
    [
        "Aborting on shard 0, in scheduling group main.",
        "Segmentation fault on shard 1.",
        "scylla: service/raft/raft_group_registry.cc:254: void f(): Assertion `!_group0_id' failed.",
    ],
)
def test_the_last_words_of_scylladb_are_an_entry(words):
    lines = [
        "INFO  2026-11-21 09:00:00,123 [shard 0:main] init - serving\n",
        f"{words}\n",
        "Backtrace:\n",
        "  0x5e1f\n",
    ]
    _, last = entries(lines)
    assert (last.level, last.timestamp, last.message) == ("ERROR", None, words)
    assert last.stack == ["Backtrace:", "  0x5e1f"]


# The end of a 0.7.10 whose Thrift port was taken: log and console are one file, and both tell it.
DEATH_OF_0_7 = """\
 INFO [main] 2026-11-21 13:58:30,301 StorageService.java (line 360) Cassandra version: 0.7.10
ERROR [main] 2026-11-21 13:58:30,315 AbstractCassandraDaemon.java (line 353) Exception encountered during startup.
java.lang.RuntimeException: Unable to create thrift socket to /10.77.0.1:9160
\tat org.apache.cassandra.thrift.CassandraDaemon$ThriftServer.<init>(CassandraDaemon.java:108)
Caused by: org.apache.thrift.transport.TTransportException: Could not create ServerSocket on address /10.77.0.1:9160.
\t... 5 more
Exception encountered during startup.
java.lang.RuntimeException: Unable to create thrift socket to /10.77.0.1:9160
"""


def test_death_of_an_old_server_is_one_entry_with_its_trace(tmp_path):
    write(tmp_path, "n1/system-0.log", DEATH_OF_0_7)
    (row,) = read_logs(tmp_path).to_pylist()
    assert (row["level"], row["thread"], row["line"]) == ("ERROR", "main", 2)
    assert row["timestamp"] == "2026-11-21 13:58:30,315"
    assert row["message"] == "Exception encountered during startup."
    assert row["stack"].splitlines()[0].startswith("java.lang.RuntimeException: Unable to create thrift socket")


@pytest.mark.parametrize(
    ("line", "thread", "message"),
    [
        pytest.param(
            " INFO [GossipStage:1] 2026-11-21 13:02:34,668 Gossiper.java (line 631) Node /10.77.0.2 has restarted, now UP again",
            "GossipStage:1",
            "Node /10.77.0.2 has restarted, now UP again",
            id="0.7.10",
        ),
        pytest.param(
            " INFO [GossipTasks:1] 2026-11-21 14:33:58,362 Gossiper.java (line 838) InetAddress /10.77.0.3 is now dead.",
            "GossipTasks:1",
            "InetAddress /10.77.0.3 is now dead.",
            id="1.1.12",
        ),
        pytest.param(
            "INFO  [GossipTasks:1] 2026-11-21 14:35:43,509 Gossiper.java:1177 - InetAddress /10.77.0.3 is now DOWN",
            "GossipTasks:1",
            "InetAddress /10.77.0.3 is now DOWN",
            id="3.11.19",
        ),
    ],
)
def test_gossip_of_every_time_is_an_entry(line, thread, message):
    (entry,) = entries([line + "\n"])
    assert (entry.level, entry.thread, entry.message, entry.stack) == ("INFO", thread, message, [])


def test_what_the_virtual_machine_warns_of_is_no_entry_of_the_server():
    """A startup archive made beside an agent is told of in the first line of 0.8 to 2.0, 4.0 and 4.1."""
    warning = (
        "OpenJDK 64-Bit Server VM warning: This archive was created with AllowArchivingWithJavaAgent. It should be\n"
    )
    assert [entry.line for entry in entries([warning, warn("real")])] == [2]


def test_what_follows_an_entry_is_its_stack(tmp_path):
    write(tmp_path, "n1/system-0.log", STARTUP_DEATH)
    logs = read_logs(tmp_path)
    assert logs.schema.equals(LOGS)
    assert found(logs) == [
        ("n1", 0, 2, "Exception encountered during startup"),
        ("n1", 0, 6, "Exception (java.lang.RuntimeException) encountered during startup: Unknown type ks.u"),
    ]
    first, second = logs.to_pylist()
    assert first["stack"].splitlines()[0] == "java.lang.RuntimeException: Unknown type ks.u"
    assert len(first["stack"].splitlines()) == 3
    assert (second["level"], second["timestamp"], second["thread"], second["stack"]) == ("ERROR", None, None, None)


def test_a_stack_ends_after_thirty_lines(tmp_path):
    write(tmp_path, "n1/system-0.log", warn("x") + "".join(f"\tat line{n}\n" for n in range(50)) + warn("y"))
    logs = read_logs(tmp_path).to_pylist()
    assert logs[0]["stack"].splitlines()[-1] == "\tat line29"
    assert logs[1]["line"] == 52


def test_only_what_is_noted_is_kept_below_warn(tmp_path):
    text = "".join(
        f"{level} [main] 2026-11-21 09:00:00,000 A.java:1 - {message}\n"
        for level, message in [("INFO ", "Requesting schema"), ("DEBUG", "ID mismatch"), ("INFO ", "x"), ("WARN ", "y")]
    )
    write(tmp_path, "n1/system-0.log", text)
    assert [message for *_, message in found(read_logs(tmp_path))] == ["y"]
    noted = read_logs(tmp_path, noted=["(?i)requesting SCHEMA", "ID mismatch"])
    assert noted["message"].to_pylist() == ["Requesting schema", "ID mismatch", "y"]


def test_a_trace_after_an_info_entry_makes_no_error_of_it(tmp_path):
    """Servers log exceptions they expect, at INFO."""
    text = "INFO  [main] 2026-11-21 09:00:00,000 A.java:1 - peer gone\njava.io.IOException: reset\n\tat x\n"
    write(tmp_path, "n1/system-0.log", text)
    assert found(read_logs(tmp_path)) == []


def test_what_a_virtual_machine_says_before_there_is_a_logger_is_an_error(tmp_path):
    write(tmp_path, "n1/system-0.log", "Error: Could not find or load main class x\n")
    write(tmp_path, "n2/system-0.log", "java.lang.OutOfMemoryError: Java heap space\n\tat x\n")
    write(tmp_path, "n3/system-0.log", "CompilerOracle: inline x\n" + warn("later"))
    assert [(node, line) for node, _, line, _ in found(read_logs(tmp_path))] == [("n1", 1), ("n2", 1), ("n3", 2)]


def test_every_start_of_a_node_has_its_log(tmp_path):
    for boot in (10, 0, 2):
        write(tmp_path, f"n1/system-{boot}.log", warn(f"start {boot}"))
    write(tmp_path, "n1/system.log", warn("now"))
    write(tmp_path, "n1/gc.log", warn("not ours"))
    write(tmp_path, "n2/system.log", warn("only"))
    assert [(node, boot, message) for node, boot, _, message in found(read_logs(tmp_path))] == [
        ("n1", 0, "start 0"),
        ("n1", 2, "start 2"),
        ("n1", 10, "start 10"),
        ("n1", 11, "now"),
        ("n2", 0, "only"),
    ]


def test_a_link_to_the_latest_log_is_not_another_start(tmp_path):
    write(tmp_path, "n1/system-0.log", warn("once"))
    (tmp_path / "n1" / "system.log").symlink_to("system-0.log")
    assert len(read_logs(tmp_path)) == 1


def test_the_console_adds_only_what_the_log_does_not_have(tmp_path):
    write(tmp_path, "n1/system-0.log", warn("both"))
    write(tmp_path, "n1/stdout-0.log", warn("both") + warn("console only") + "Error: last words\n")
    assert [message for *_, message in found(read_logs(tmp_path))] == [
        "both",
        "console: console only",
        "console: Error: last words",
    ]


def test_text_that_is_not_unicode_is_read_all_the_same(tmp_path):
    (tmp_path / "n1").mkdir()
    (tmp_path / "n1" / "system-0.log").write_bytes(warn("x").encode().replace(b"x", b"\xff"))
    assert found(read_logs(tmp_path)) == [("n1", 0, 1, "�")]


def test_no_logs_make_an_empty_table(tmp_path):
    assert read_logs(tmp_path / "nodes").equals(LOGS.empty_table())
    (tmp_path / "n1").mkdir()
    assert read_logs(tmp_path).equals(LOGS.empty_table())


def test_the_first_entry_of_each_start_shows_that_there_is_a_log(tmp_path: Path) -> None:
    write(tmp_path, "n1/system-0.log", "INFO  [main] 2026-11-21 09:00:00,000 A.java:1 - hello\n" + warn("slow"))
    write(tmp_path, "n1/system-1.log", "INFO  [main] 2026-11-21 09:01:00,000 A.java:1 - hello\n" * 2)
    write(tmp_path, "n2/system-0.log", "")
    assert found(read_logs(tmp_path, firsts=True)) == [
        ("n1", 0, 1, "hello"),
        ("n1", 0, 2, "slow"),
        ("n1", 1, 1, "hello"),
    ]
    assert found(read_logs(tmp_path)) == [("n1", 0, 2, "slow")]
