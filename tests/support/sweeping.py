"""Sweeping: what the sweeps have in common, each of which judges small runs by the thousand and can be gone on with."""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import orjson
import pyarrow as pa

__all__ = ["add_state", "in_time", "prepare", "read_state", "sweep_parser", "write_state"]

State = TypeVar("State")


def sweep_parser(description: str | None, *, first: int, count: int) -> argparse.ArgumentParser:
    """The command line of every sweep: the numbers to try, and the time for it."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=first)
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--limit-s", type=float, default=float("inf"))
    return parser


def add_state(parser: argparse.ArgumentParser, *, found: str) -> None:
    """The options of a sweep that shares its work among processes and keeps a file of what it found."""
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--state", type=Path, help=f"a file of how far the sweep came and what {found}")


def prepare() -> None:
    """Make this process fit for thousands of small runs: Arrow in one thread, and rubbish collected between batches alone."""
    pa.set_cpu_count(1)
    gc.collect()
    gc.freeze()
    gc.disable()


def in_time(numbers: range, limit_s: float) -> Iterator[int]:
    """The numbers one after another, until the time is over."""
    ends = time.monotonic() + limit_s
    for number in numbers:
        if time.monotonic() >= ends:
            return
        yield number


def read_state(path: Path | None, beginning: State) -> State:
    """How far the sweep of this file came; the beginning where there is no file."""
    if path is None or not path.exists():
        return beginning
    return type(beginning)(**orjson.loads(path.read_bytes()))


def write_state(path: Path | None, state: Any) -> None:
    """Exchange the file's content as a whole: a sweep may be ended at any time."""
    if path is not None:
        part = path.with_suffix(".part")
        part.write_bytes(orjson.dumps(state, option=orjson.OPT_INDENT_2))
        part.replace(path)
