"""JSON output: what `--json` promises of standard output."""

from __future__ import annotations

import os
import sys
from typing import Any

import orjson

__all__ = ["print_json"]


def print_json(document: Any) -> None:
    """One document and nothing else; a reader who left early is no error of ours."""
    try:
        sys.stdout.buffer.write(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
