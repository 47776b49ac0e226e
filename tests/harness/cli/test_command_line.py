"""The command line: whatever is asked wrongly gets a sentence and an exit code, never a traceback."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import suppress

import orjson
import pytest
import typer
from plugins import distribution, on_path

from schemaquake.clusters.simulated.designs import SCOPES
from schemaquake.harness.cli.command_line import application
from schemaquake.harness.errors import ExitCode
from schemaquake.harness.registry import names
from schemaquake.harness.run_folder import mark_folder
from schemaquake.results.experiments.explore import commands as explore

SIMULATED = ["run", "--system", "simulated:cassandra-5.0"]
MATRIX = ["matrix", *SIMULATED[1:], "--workload", "drop-type"]
RUN = ["run", "--system", "cassandra:5.0.9", "--workload", "create-table"]


# ── what is wrong with the arguments ─────────────────────────────────────────────────────────────────────────────────

WRONG = [
    ("a command there is not", ["rum"], "No such command 'rum'"),
    ("an option there is not", ["run", "--sytem", "cassandra:5.0.9"], "No such option: --sytem"),
    ("an option without its value", ["run", "--system"], "'--system' requires an argument"),
    ("no system", ["run", "--workload", "create-table"], "no system: name one with --system cassandra:VERSION"),
    ("a number that is none", [*RUN, "--nodes", "three"], "Invalid value for '--nodes'"),
    ("too few nodes", [*RUN, "--nodes", "0"], "--nodes must be at least 1, not 0"),
    ("a mode there is not", [*RUN, "--mode", "chaos"], '--mode chaos: "barrier" (clients'),
    ("workloads that race each other", [*RUN[:4], "drop-type,schema-churn", "--mode", "single"], "give one of them"),
    ("a time that is no number", [*RUN, "--time-limit", "nan"], "--time-limit must be a number, not nan"),
    (
        "a workload there is not",
        ["run", "--system", "cassandra:5.0.9", "--workload", "create-tabel"],
        'unknown workload "create-tabel". Did you mean "create-table"?',
    ),
    ("a nemesis there is not", [*RUN, "--nemesis", "kil"], 'unknown nemesis "kil". Did you mean "kill"?'),
    (
        "a cluster there is not",
        [*RUN, "--cluster", "moon"],
        'unknown cluster "moon". Known: docker, local, simulated, ssh.',
    ),
    ("a workload named twice", [*RUN[:4], "create-table,create-table"], "a workload is named twice"),
    ("a system that is none", ["run", "--system", "casandra", *RUN[3:]], '"casandra" is not a system; write product:'),
    ("another product", ["run", "--system", "riak:2.0", *RUN[3:]], 'not "riak"'),
    ("one that is not started here", ["run", "--system", "scylladb:6.2.0", *RUN[3:]], "it runs on deployed clusters"),
    (
        "a simulated system on a cluster of this machine",
        ["run", "--system", "simulated:cassandra-5.0", "--cluster", "local", *RUN[3:]],
        "it runs on --cluster simulated",
    ),
    (
        "systems that share no kind of cluster",
        ["matrix", "--system", "simulated:cassandra-5.0", "--system", "cassandra:5.0.9", "--workload", "drop-type"],
        "simulated:cassandra-5.0 on simulated and cassandra:5.0.9 on local",
    ),
    (
        "a version without a recipe",
        ["run", "--system", "cassandra:99.1", *RUN[3:]],
        "no launch recipe for cassandra:99",
    ),
    (
        "a workload that the system cannot carry out",
        ["run", "--system", "simulated:cassandra-6.0", "--workload", "drop-type,register"],
        'workload "register" is not applicable to simulated:cassandra-6.0: it has no conditional-writes',
    ),
    (
        "one that an old version cannot carry out",
        ["run", "--system", "cassandra:1.1.12", "--workload", "drop-type"],
        'workload "drop-type" is not applicable to cassandra:1.1.12: it has no types',
    ),
    (
        "a workload, and those that the system can carry out",
        [*SIMULATED, "--workload", "register"],
        "it has no conditional-writes. Applicable: add-columns, ",
    ),
    (
        "a nemesis that the system has no command for",
        [*SIMULATED, "--workload", "drop-type", "--nemesis", "kill,cms-reconfigure"],
        (
            'nemesis "cms-reconfigure" is not applicable to simulated:cassandra-5.0 on --cluster simulated: '
            "simulated:cassandra-5.0 has no such change"
        ),
    ),
    (
        "a nemesis that a version of Cassandra has no command for",
        [*RUN, "--nemesis", "cms-reconfigure"],
        (
            'nemesis "cms-reconfigure" is not applicable to cassandra:5.0.9 on --cluster local: cassandra:5.0.9 has no command '
            "for it (reconfigure). Applicable: "
        ),
    ),
    (
        "one that containers have no means for, and those that they have",
        [*RUN, "--cluster", "docker", "--nemesis", "kill,fill-disk"],
        (
            'nemesis "fill-disk" is not applicable to cassandra:5.0.9 on --cluster docker: containers have no means for '
            '"disk". Applicable: abort-bootstrap, '
        ),
    ),
    (
        "a nemesis for which a version in containers has no command",
        [*RUN, "--cluster", "docker", "--nemesis", "cms-reconfigure"],
        "on --cluster docker: cassandra:5.0.9 has no command for it (reconfigure). Applicable: ",
    ),
    (
        "spares that join no cluster of containers",
        ["run", "--system", "scylladb:6.2.0", *RUN[3:], "--cluster", "docker", "--spares", "1"],
        "--spares 1: how scylladb:6.2.0 joins a cluster in a container is not known here",
    ),
    ("an upgrade to nothing", [*RUN, "--nemesis", "rolling-upgrade"], "rolling-upgrade"),
    (
        "one that a simulated cluster has no means for, and those that it has",
        [*SIMULATED, "--workload", "drop-type", "--nemesis", "fill-disk"],
        'has no means for "disk". Applicable: abort-bootstrap, bootstrap, clock, ',
    ),
    (
        "errors in the code of a server that is a model",
        [*SIMULATED, "--workload", "drop-type", "--nemesis", "error-injection", "-O", "injection=place"],
        "models, which have no server's code",
    ),
    (
        "a nemesis that one of two systems has no command for",
        ["simulate", "--nemesis", "pause-commits"],
        'nemesis "pause-commits" is not applicable to simulated:cassandra-5.0',
    ),
    (
        "an option of another design",
        [*SIMULATED, "--workload", "drop-type", "-O", "log=paxos"],
        "-O log is not applicable to simulated:cassandra-5.0. Applicable: order.",
    ),
    (
        "commits of a service that the design has not",
        [*SIMULATED, "--workload", "drop-type", "-O", "cms.pause=FINISH_JOIN"],
        "-O cms.pause is not applicable to simulated:cassandra-5.0",
    ),
    ("a concurrency that is none", [*RUN, "--concurrency", "two"], "--concurrency is a number of workers (6)"),
    ("an option of a workload that is none", [*RUN, "-O", "fast"], '-O needs name=value, not "fast"'),
    ("a list there is not", ["list", "wishes"], 'cannot list "wishes"; lists there are: workloads, nemeses, checkers'),
    ("a command that lacks its option", ["run"], "schemaquake run: Missing option '--workload'"),
    ("a choice that is none", ["completion", "tcsh"], "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
    ("seeds of which one is asked for", ["simulate", "--seed", "5:3"], "Invalid value for '--seed'"),
    ("an option without a name", ["simulate", "-O", "=3"], '-O needs name=value, not "=3"'),
    ("an engine there is not", [*SIMULATED, "--workload", "drop-type", "--engine", "sparc"], "--engine is auto, local"),
    (
        "no time to judge",
        [*SIMULATED, "--workload", "drop-type", "--limit", "0"],
        "--limit must be more than 0 seconds",
    ),
    (
        "no time to judge a file",
        ["check", "history.edn", "--limit", "-1"],
        "--limit must be more than 0 seconds, not -1",
    ),
    ("no memory", ["check", "history.edn", "--memory", "0"], "--memory must be at least 1, not 0"),
    ("a history there is not", ["check", "history.edn"], "history.edn does not exist"),
    ("a report of no run", ["report", "nothing"], "nothing is not a run's folder: there is no such folder"),
    ("a report of a file", ["report", __file__], "is not a run's folder: it is a file"),
    ("a report of a folder without a run", ["report", "."], "is not a run's folder: it has no plan.json"),
    ("healing of a file", ["heal", __file__], "is not a run's folder: it is a file"),
    ("a cluster file there is not", ["heal", "--everywhere", "no.toml"], "no.toml cannot be read: No such file"),
    (
        "a cluster file that is none",
        ["heal", "--everywhere", "/dev/null"],
        "/dev/null is no cluster file: it has no line",
    ),
    ("a demo of no system", ["demo", "--system", "casandra"], '"casandra" is not a system; write product:'),
    (
        "a matrix of a nemesis there is not",
        [*MATRIX, "--nemesis", "kil"],
        'unknown nemesis "kil". Did you mean "kill"?',
    ),
    ("a matrix of no applicable nemesis", [*MATRIX, "--nemesis", "pause-commits"], "is not applicable to simulated:"),
    (
        "no folder for a matrix whose preset has nemeses that are not applicable, which it would print as such",
        ["matrix", "--topology", "--system", "simulated:cassandra-5.0", "--runs", "/dev/null/runs"],
        "cannot make a folder for the matrix in /dev/null/runs",
    ),
    ("a scope there is not", ["explore", "--scope", "drop-drop"], "--scope is one of create-create, add-add"),
    ("no executions", ["explore", "--most", "0"], "--most must be at least 1, not 0"),
    ("an option of no simulation", ["explore", "-O", "bgu=x"], "no plugin of the run has such an option. Did you mean"),
    ("one of no sweep", ["swarm", "--seeds", "0:2", "-O", "bgu=x"], "no plugin of the run has such an option"),
    ("seeds that end before they begin", ["swarm", "--seeds", "5:3"], "--seeds 5:3: TO is above FROM"),
    (
        "a sweep into a file",
        ["swarm", "--seeds", "0:2", "--folder", __file__],
        "it is a file; name the folder of the sweep",
    ),
    (
        "a sweep into a folder that cannot be",
        ["swarm", "--seeds", "0:2", "--folder", "/dev/null/sweep"],
        "cannot make the folder /dev/null/sweep",
    ),
    ("replicas that end before they begin", ["quorums", "--replicas", "5:3"], "--replicas 5:3: FROM and TO are 1 to 9"),
    ("less than no joins", ["placements", "--joins", "-1"], "--joins must be at least 0, not -1"),
    ("a layout there is not", ["placements", "--layout", "ring"], "--layout is one of simple, "),
    ("a grid that is none", ["model-against-server", __file__], "is not a whole Parquet file"),
    ("a port there is not", ["serve", ".", "--port", "70000"], '"70000" should be less than or equal to 65535'),
    ("a run that is none", ["heal", "."], "is not a run's folder: it has no plan.json"),
    (
        "a folder of runs that cannot be",
        ["simulate", "--runs", "/dev/null/runs"],
        "cannot make the folder /dev/null/runs",
    ),
    (
        "an address that is none",
        ["publish", ".", "--to", "site", "--docs", "javascript:x"],
        "an address begins with https://",
    ),
    ("nodes that are a word", ["run", "--workload", "set", "--nodes", "abc"], '"abc" is not a whole number'),
    ("a rate that is a word", ["run", "--workload", "set", "--rate", "many"], '"many" is not a number'),
    ("a notation without a ticket", ["report", "runs/latest", "--as", "jira"], "name its finding with --ticket"),
    ("a date of no question", ["corpus", "--to", "t", "--query", "rates", "--since", "2026-11-01"], "--query new"),
    ("a date that is none", ["corpus", "--to", "t", "--query", "new", "--since", "today"], "not today"),
    (
        "judging of no runs",
        ["corpus", "--to", "t", "--query", "rates", "--judge"],
        "--judge is for runs that are named",
    ),
]


@pytest.mark.parametrize(("argv", "sentence"), [pytest.param(argv, text, id=name) for name, argv, text in WRONG])
def test_what_is_asked_wrongly_gets_a_sentence(schemaquake, argv, sentence):
    code, out, err = schemaquake(*argv)
    assert sentence in err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) <= 2
    assert "run begins" not in err, "nothing began"
    assert out == "", "standard output is for answers"
    assert code == ExitCode.BAD_ARGUMENTS == 254
    assert not os.path.lexists("runs"), "and nothing was made"


def test_a_refused_run_leaves_no_folder_that_looks_like_one(schemaquake, tmp_path):
    schemaquake(*RUN, "--nemesis", "kil")
    assert not list(tmp_path.rglob("plan.json"))


def test_without_a_command_there_is_help(schemaquake):
    code, out, err = schemaquake()
    assert "Usage: schemaquake" in out + err
    assert "run " in out + err
    assert code == ExitCode.BAD_ARGUMENTS


@pytest.mark.parametrize("argv", [["--help"], ["run", "--help"], ["list", "--help"], ["heal", "--help"]], ids=" ".join)
def test_help_is_an_answer(schemaquake, argv):
    code, out, _ = schemaquake(*argv)
    assert code == ExitCode.VALID
    assert out.lstrip().startswith("Usage: schemaquake")


SECTIONS = {
    "Race schema changes": ["crash-table", "demo", "heal", "run", "shrink", "simulate"],
    "Judge and report": ["check", "findings", "recover", "report"],
    "Compare versions": ["grid", "matrix", "rediscovered"],
    "Simulations and models": ["explore", "model-against-server", "placements", "quorums", "swarm"],
    "Publish": ["bundle", "corpus", "publish", "serve", "verify"],
    "Prepare and look up": ["completion", "doctor", "fetch", "image", "list"],
}
COMMANDS = [name for names in SECTIONS.values() for name in names]


def sections_of(text):
    """The names that a page of help lists, by the heading above them."""
    found = {}
    for line in text.partition("--help")[2].partition("\n\n  Start with")[0].splitlines():
        if line.endswith(":") and not line.startswith(" "):
            names = found.setdefault(line.removesuffix(":"), [])
        elif line[:3].strip():
            names.append(line.split()[0])
    return found


def test_help_lists_every_command(schemaquake):
    assert sections_of(schemaquake("--help")[1]) == SECTIONS


def test_a_summary_in_the_help_is_not_cut_off(schemaquake):
    assert "..." not in schemaquake("--help")[1].partition("Options:")[2]


def test_a_stranger_s_commands_stand_beside_our_own(schemaquake, tmp_path):
    (tmp_path / "strange_commands.py").write_text(
        "def register(app):\n"
        "    app.command('greet')(greet)\n"
        "    app.command()(part)\n"
        "    app.command('zip', rich_help_panel='Publish')(part)\n"
        "def greet(name: str):\n    print('hello', name)\n"
        "def part():\n    print('farewell')\n"
    )
    distribution(tmp_path, {"commands": {"zebra": "strange_commands:register"}})
    with on_path(tmp_path):
        assert sections_of(schemaquake("--help")[1]) == SECTIONS | {
            "Publish": [*SECTIONS["Publish"], "zip"],
            "Further commands": ["greet", "part"],
        }
        assert schemaquake("greet", "Ada") == (0, "hello Ada\n", "")
        assert schemaquake("part") == (0, "farewell\n", "")
        assert "Missing argument" in schemaquake("greet")[2]
        assert "No such command 'gret'. Did you mean 'greet'" in schemaquake("gret")[2]


OPTIONS_OF_RUN = {
    "System and cluster": {
        *(
            "--system",
            "--cluster",
            "--nodes",
            "--spares",
            "--data-centers",
            "--racks",
            "--replication-factor",
            "--distribution",
        ),
    },
    "Workloads": {
        *("--workload", "--mode", "--races", "--first-race", "--until-poisoned", "--seed", "--rate", "--concurrency"),
        *("--keyspace-prefix", "-O"),
    },
    "Faults": {"--nemesis", "--restart", "--dry-run"},
    "Time": {"--time-limit", "--ends-after", "--request-timeout", "--start-timeout", "--settle-limit"},
    "Verdict and output": {
        *("--keep-data", "--engine", "--master", "--limit", "--runs", "--shrink", "--json", "-v,"),
    },
    "Further options": {"--help"},
}


def options_of(text):
    """The options that the help of a command lists, by the heading above them."""
    found = {}
    for line in text.partition("\nExamples:")[0].splitlines():
        if line.endswith(":") and not line.startswith(" "):
            names = found.setdefault(line.removesuffix(":"), [])
        elif found and line[:3].strip():
            names.append(line.split()[0])
    return found


def test_help_of_run_lists_every_option_once_under_its_heading(schemaquake):
    code, out, err = schemaquake("run", "--help")
    assert (code, err) == (0, "")
    found = options_of(out)
    assert list(found) == list(OPTIONS_OF_RUN), "in this order"
    assert {heading: set(names) for heading, names in found.items()} == OPTIONS_OF_RUN
    listed = [name for names in found.values() for name in names]
    declared = typer.main.get_command(application("run")).commands["run"].params
    assert len(listed) == len(set(listed)) == len(declared) + 1, "and --help"


def test_options_of_a_stranger_s_command_stand_under_our_headings_or_its_own(schemaquake, tmp_path):
    (tmp_path / "strange_options.py").write_text(
        "from typing import Annotated\n"
        "import typer\n"
        "from schemaquake.harness.cli.sections import TIME, SectionedCommand\n"
        "def register(app):\n    app.command('paint', cls=SectionedCommand)(paint)\n"
        "def paint(\n"
        "    wall: str,\n"
        "    plain: int = 1,\n"
        "    tint: Annotated[int, typer.Option(rich_help_panel='Paint')] = 1,\n"
        "    dry: Annotated[int, typer.Option(rich_help_panel=TIME)] = 1,\n"
        "):\n    print(wall, plain, tint, dry)\n"
    )
    distribution(tmp_path, {"commands": {"zebra": "strange_options:register"}})
    with on_path(tmp_path):
        found = options_of(schemaquake("paint", "--help")[1])
        assert list(found.items()) == [
            ("Arguments", ["wall"]),
            ("Time", ["--dry"]),
            ("Paint", ["--tint"]),
            ("Further options", ["--plain", "--help"]),
        ]
        assert schemaquake("paint", "north", "--tint", "3") == (0, "north 1 3 1\n", "")


def test_a_command_that_is_asked_for_is_all_that_typer_is_told_of():
    assert [command.name for command in application("check").registered_commands] == ["check"]
    assert sorted(command.name for command in application("chekc").registered_commands) == sorted(COMMANDS)


# ── list ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["workloads", "checkers", "clusters"])
def test_a_list_has_everything_that_is_installed_with_a_line_on_each(schemaquake, kind):
    code, out, err = schemaquake("list", kind)
    assert (code, err) == (ExitCode.VALID, "")
    rows = dict(line.split("  ", 1) for line in out.splitlines())
    assert [name.strip() for name in rows] == names(kind)
    assert all(description.strip() for description in rows.values())


@pytest.mark.parametrize("kind", ["workloads", "nemeses", "checkers", "clusters", "systems", "anomalies", "errors"])
def test_json_is_one_document_on_standard_output_and_nothing_else(schemaquake, kind):
    code, out, err = schemaquake("list", kind, "--json")
    assert (code, err) == (ExitCode.VALID, "")
    document = orjson.loads(out)
    assert document
    assert all(isinstance(name, str) and text for name, text in document.items())


def test_systems_are_listed_as_a_table_with_named_columns(schemaquake):
    code, out, err = schemaquake("list", "systems")
    assert (code, err) == (ExitCode.VALID, "")
    heads, *rows = out.splitlines()
    assert heads.split()[:3] == ["era", "client", "java"]
    assert {row.split()[0].partition(":")[0] for row in rows} == {"cassandra", "scylladb", "simulated"}
    era = heads.index("era")
    assert all(row[era - 1] == " " != row[era] for row in rows), "cells stand below their heads"


def test_nemeses_are_listed_with_what_they_need_and_the_word_that_allows_them(schemaquake):
    _, out, _ = schemaquake("list", "nemeses")
    heads, *rows = out.splitlines()
    assert heads.split() == ["needs", "allowed_by", "about"]
    assert [row.split()[0] for row in rows] == names("nemeses")
    document = orjson.loads(schemaquake("list", "nemeses", "--json")[1])
    assert document["clock"].items() >= {"needs": "clock", "allowed_by": "clock"}.items()
    assert document["rolling-restart"].items() >= {"needs": "signals", "allowed_by": "restart"}.items()
    assert document["decommission"].items() >= {"needs": "topology", "allowed_by": "topology"}.items()
    assert document["address-change"]["allowed_by"] == "-"
    assert document["error-injection"].items() >= {"needs": "-", "allowed_by": "errors"}.items()


def test_options_are_listed_by_plugin(schemaquake):
    document = orjson.loads(schemaquake("list", "options", "--json")[1])
    assert document["workloads"]["set"]["kind"]["default"] == "rows"
    assert document["nemeses"]["kill"].keys() == {"kill.targets", "kill.serving_limit_s", "primaries"}
    assert "yaml." in document["clusters"]["local"]
    assert "batch" not in document["workloads"]
    lines = schemaquake("list", "options")[1].splitlines()
    assert any(line.startswith("workloads: append, append-accord, cas-register") for line in lines)
    assert any(line.split()[:2] == ["kill.targets", "one"] for line in lines)


@pytest.mark.parametrize(("kind", "room"), [("workloads", 60), ("nemeses", 60), ("options", 100)])
def test_a_list_keeps_to_the_width_of_a_terminal_and_loses_no_word(schemaquake, kind, room):
    code, whole, _ = schemaquake("list", kind)
    command = [sys.executable, "-m", "schemaquake.harness.cli.command_line", "list", kind]
    reader, writer = pty.openpty()
    listing = subprocess.Popen(command, stdout=writer, env=os.environ | {"COLUMNS": str(room)})
    os.close(writer)
    with os.fdopen(reader, "rb", buffering=0) as terminal:
        lines = b"".join(chunks_of(terminal)).decode().splitlines()
    assert listing.wait() == code == ExitCode.VALID
    assert max(map(len, lines)) <= room
    assert max(map(len, whole.splitlines())) > room, "a pipe has a row in a line"
    assert "".join("".join(lines).split()) == "".join(whole.split())


def chunks_of(terminal):
    """What was written to a terminal, until its last writer is gone."""
    with suppress(OSError):
        while chunk := terminal.read(1 << 16):
            yield chunk


def test_a_run_with_an_unknown_option_is_refused_before_anything_is_started(schemaquake, tmp_path):
    code, _, err = schemaquake(
        "run", "--system", "cassandra:5.0.9", "--workload", "set", "-O", "consistancy=ONE", "--runs", str(tmp_path)
    )
    assert (code, list(tmp_path.iterdir())) == (254, [])
    assert 'Did you mean "consistency"?' in err


def test_errors_are_listed_with_what_they_prove(schemaquake):
    _, out, _ = schemaquake("list", "errors", "--json")
    rows = orjson.loads(out)
    assert rows["NoHostAvailable on any"] == "fail: no connection to the pinned coordinator: it was never sent"
    assert rows["* on any"].startswith("info: ")


def test_workloads_are_what_is_listed_first(schemaquake):
    assert schemaquake("list")[1] == schemaquake("list", "workloads")[1]


# ── as a process ─────────────────────────────────────────────────────────────────────────────────────────────────────


def process(*argv, **keywords):
    return subprocess.run(
        [sys.executable, "-m", "schemaquake.harness.cli.command_line", *argv],
        capture_output=True,
        text=True,
        check=False,
        **keywords,
    )


def test_the_exit_code_reaches_the_shell():
    assert process("list", "wishes").returncode == 254
    listed = process("list", "clusters")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["docker", "local", "simulated", "ssh"]


def test_a_heal_of_nothing_says_so(tmp_path, scripted):
    plan = {"system": "cassandra:5.0.9", "workloads": ["create-table"]}
    (tmp_path / "plan.json").write_bytes(orjson.dumps(plan))
    mark_folder(tmp_path, "0.2")
    ran = process("heal", str(tmp_path))
    assert ran.returncode == 0
    assert ran.stderr == "nothing was left to heal\n"
    assert ran.stdout == ""


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path, scripted):
    file = tmp_path / "file"
    file.touch()
    ran = process(*RUN, "--cluster", "scripted", "--runs", str(file / "runs"), env=dict(os.environ))
    assert ran.returncode in {254, 255}
    assert "Traceback" not in ran.stderr
    assert f"{file} is a file" in ran.stderr


def test_whoever_does_not_read_a_list_to_its_end_hears_no_complaint():
    ran = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m schemaquake.harness.cli.command_line list errors | true"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stderr == ""


@pytest.mark.parametrize("kind", ["workloads", "nemeses", "checkers", "clusters", "formats"])
def test_a_list_tells_its_entries_apart(schemaquake, kind):
    listed = orjson.loads(schemaquake("list", kind, "--json")[1])
    told = [row["about"] if isinstance(row, dict) else row for row in listed.values()]
    assert all(told)
    assert len(set(told)) == len(told)


def test_a_first_look_at_all_scopes_says_that_it_is_not_complete_and_how_to_go_on(schemaquake, monkeypatch):
    monkeypatch.setattr(explore, "_MOST_OF_ALL", 1)
    code, out, _ = schemaquake("explore", "--system", "simulated:cassandra-6.0")
    assert code == ExitCode.UNKNOWN
    assert out.count("not complete (--most 1 for each order of clocks)") == len(SCOPES)
    assert out.splitlines()[-1] == (
        f"{len(SCOPES)} of {len(SCOPES)} are not complete, and prove nothing where no order is bad. A scope that is named is "
        "explored further: schemaquake explore --scope create-create --system simulated:cassandra-6.0"
    )
    for asked in (["--scope", "create-create", "--most", "1"], ["--most", "1"]):
        _, out, _ = schemaquake("explore", "--system", "simulated:cassandra-6.0", *asked)
        assert "not complete" in out
        assert "explored further" not in out
    code, out, _ = schemaquake("explore", "--scope", "drop-type", "--system", "simulated:cassandra-5.0")
    assert code == ExitCode.INVALID
    assert "shortest to schema-disagreement in drop-type on simulated:cassandra-5.0: request 0, request 1, push" in out
