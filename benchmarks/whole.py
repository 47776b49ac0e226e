"""Whole commands, beside peers on the same files: `python -m benchmarks.whole [--transactions N] [--spark] [--peer NAME=COMMAND]...`.

A strictly serializable history of list-append is written as EDN, compressed EDN, JSON and Parquet; then each command runs from its
start to its end in a process of its own, of which wall, processor time and the most memory are measured. COMMAND is the launcher of a
peer, with `{edn}`, `{json}` or `{parquet}` for the file that it reads: `--peer 'elle=elle-cli --model list-append {edn}'`. Figures of
one call belong together: machine and files are the same, and what counts is their ratio.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from benchmarks.elle import simulated, write_history
from benchmarks.figures import Figure, machine, print_table
from schemaquake.results.formats.edn_writing import edn_lines

COMMAND = (sys.executable, "-m", "schemaquake.harness.cli.command_line")
CHECK = ("check", "--model", "list-append", "--limit", "600")
_EVENTS = 1 << 16  # of one stretch that is written
_SMALL = 100  # transactions of a small history


@dataclass(frozen=True)
class Cost:
    """The cost of one command: seconds of the wall and of processors, with its children's, and GB of its largest process."""

    wall_s: float
    cpu_s: float
    memory_gb: float


_MEASURED = """
import json, os, subprocess, sys, time
began = time.perf_counter()
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
wall_s = time.perf_counter() - began
with open(sys.argv[1], "w") as file:
    json.dump([wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20, os.waitstatus_to_exitcode(status)], file)
"""
"""A small process that starts the command: the kernel counts the memory of who starts it as its own."""


def cost_of(argv: Sequence[str], *, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end. Raises RuntimeError if it crashes; a verdict, whichever it is, is no crash."""
    with tempfile.TemporaryFile() as said, tempfile.NamedTemporaryFile() as measured:
        starter = [sys.executable, "-IS", "-c", _MEASURED, measured.name, *argv]
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": subprocess.STDOUT}
        subprocess.run(starter, cwd=cwd, env=environment, check=True, **streams)
        wall_s, cpu_s, memory_gb, exit_code = orjson.loads(Path(measured.name).read_bytes())
        if not 0 <= exit_code < 100:
            said.seek(0)
            raise RuntimeError(f"{shlex.join(argv)}: exit code {exit_code}: {said.read(2000).decode(errors='replace')}")
    return Cost(wall_s, cpu_s, memory_gb)


def write_files(folder: Path, transactions: int) -> Mapping[str, Path]:
    """Write one history in every form: name of the form → file."""
    files = {form: folder / f"history.{form}" for form in ("edn", "edn.gz", "json", "parquet")}
    write_history(files["parquet"], "list-append", transactions, processes=20)
    store = simulated("list-append", transactions, processes=20)
    with (
        files["edn"].open("w", encoding="ascii") as edn,
        pa.CompressedOutputStream(str(files["edn.gz"]), "gzip") as compressed,
        files["json"].open("wb") as json,
    ):
        for begin in range(0, 2 * transactions, _EVENTS):
            events = store.events(begin, min(begin + _EVENTS, 2 * transactions))
            text = "".join(f"{line}\n" for line in edn_lines(events))
            edn.write(text)
            compressed.write(text.encode())
            json.writelines(orjson.dumps(_op(row)) + b"\n" for row in events.to_pylist())
    return files


def _op(row: Mapping[str, object]) -> Mapping[str, object]:
    """Render an event as elle-cli's JSON has it."""
    mops = row["mops"]
    assert isinstance(mops, list)
    value = [[mop["f"], mop["k"], mop["vs"] if mop["f"] == "r" else mop["v"]] for mop in mops]
    return {name: row[name] for name in ("index", "time", "process", "type", "f")} | {"value": value}


def figures(transactions: int = 1_000_000, *, spark: bool = False, peers: Sequence[str] = ()) -> Iterator[Figure]:
    """Yield three figures for each command, in the order in which they run."""
    with tempfile.TemporaryDirectory(prefix="schemaquake-") as name:
        (small := Path(name) / "small").mkdir()
        (large := Path(name) / "large").mkdir()
        few = write_files(small, _SMALL)
        files = write_files(large, transactions)
        check = [*COMMAND, *CHECK]
        commands: list[tuple[str, str, list[str]]] = [
            ("--help", "≤ 0.15 s", [*COMMAND, "--help"]),
            (f"check of {_SMALL} transactions, EDN", "≤ 0.5 s", [*check, str(few["edn"])]),
        ]
        for form, file in files.items():
            goal = "≤ 1.5 s, ≤ 0.6 GB" if form == "parquet" else ""
            what = f"check of {transactions:,} transactions, {form}, {file.stat().st_size / 1e6:.0f} MB"
            commands.append((what, goal, [*check, str(file)]))
        if spark:
            on_spark = [*check, "--engine", "spark", "--master", "local[2]", str(files["parquet"])]
            commands.append(("the same on Spark, Parquet", "≤ 3 × local", on_spark))
        for peer in peers:
            title, _, launcher = peer.partition("=")
            places = {form: str(file) for form, file in files.items()}
            commands.append((title, "", [part.format(**places) for part in shlex.split(launcher)]))
        for what, goal, argv in commands:
            cost = cost_of(argv)
            yield Figure("whole", what, cost.wall_s, "s", goal)
            yield Figure("whole", f"{what}: processors", cost.cpu_s, "CPU s")
            yield Figure("whole", f"{what}: memory", cost.memory_gb, "GB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, default=1_000_000)
    parser.add_argument("--spark", action="store_true", help="the same on Spark, too")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND", help="a peer's launcher")
    options = parser.parse_args()
    facts = machine()
    print_table(figures(options.transactions, spark=options.spark, peers=options.peer), facts)


if __name__ == "__main__":
    main()
