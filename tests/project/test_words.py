"""Words: every docstring of the product says what a thing is or does, and parameters are nouns."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import ROOT

ROOMS = ("harness", "clusters", "workloads", "nemeses", "checkers", "results", "schemaquake/api.py")
OPENINGS = frozenset({"Of", "What", "Whom", "Whose", "Whether", "By", "Whoever", "Those", "Told", "As", "How"})
"""First words of a relative clause: a docstring that opens with one hides its subject."""
RIDDLES = frozenset({"of", "told", "own", "there", "much", "words"})
"""Names that say nothing of what a parameter holds."""
MODULES = [
    path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py") if (ROOT / room).is_dir() else [ROOT / room])
]


def definitions(path: Path) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield node


@pytest.mark.parametrize("room", ROOMS)
def test_no_docstring_opens_with_a_relative_clause(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {docstring.splitlines()[0]}"
        for path in MODULES
        if path.is_relative_to(ROOT / room)
        for node in definitions(path)
        if (docstring := ast.get_docstring(node)) and docstring.split()[0].strip(",;:") in OPENINGS
    ]
    assert found == []


@pytest.mark.parametrize("room", ROOMS)
def test_parameters_are_nouns(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}({argument.arg})"
        for path in MODULES
        if path.is_relative_to(ROOT / room)
        for node in definitions(path)
        if isinstance(node, ast.FunctionDef)
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        if argument.arg in RIDDLES
    ]
    assert found == []
