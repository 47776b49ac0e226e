"""Help: every command is shown by examples that are true, in the field's words, one wording for one option, at any width."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from typing import Any

import pytest
import typer
from places import ROOT

from schemaquake.harness.cli.command_line import _run, application
from schemaquake.harness.cli.examples import read_examples, wrap_example

APP: Any = typer.main.get_command(application())
COMMANDS = sorted(APP.commands)
EXAMPLES = [
    pytest.param(name, line, id=line)
    for name in COMMANDS
    for line in (read_examples(APP.commands[name].epilog) or ((), ""))[0]
]

OWN_WORDS = {
    "--batch": {"corpus", "grid"},
    "--cells": {"grid", "model-against-server"},
    "--cluster": {"run", "heal", "doctor"},
    "--host": {"image", "serve"},
    "--known": {"matrix", "grid"},
    "--mode": {"run", "matrix", "grid"},
    "--nemesis": {"matrix"},
    "--quick": {"matrix", "grid"},
    "--races": {"rediscovered"},
    "--rate": {"run", "shrink"},
    "--resume": {"matrix", "grid"},
    "--seeds": {"placements", "swarm"},
    "--shrink": {"run", "swarm"},
    "--system": {"run", "crash-table", "doctor", "model-against-server", "swarm"},
    "--to": {"bundle", "corpus", "publish"},
    "--tries": {"crash-table", "grid", "model-against-server", "shrink"},
    "--workload": {"matrix"},
    "-O": {"explore", "swarm"},
}
"""Options that mean something else in these commands, and say so; in all the others they have one wording."""


@pytest.fixture
def shown(capfd, monkeypatch):
    """`shown("run", columns=60)`: the page of help of a command."""

    def show(*command: str, columns: int = 80) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        assert _run([*command, "--help"]) == 0
        return str(capfd.readouterr().out)

    return show


# ── examples ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_one_to_three_examples_and_a_page(name):
    found = read_examples(APP.commands[name].epilog)
    assert found is not None, "no epilog of the form that `examples` makes"
    lines, page = found
    assert 1 <= len(lines) <= 3
    assert len(set(lines)) == len(lines)
    assert (ROOT / page).is_file()
    assert page.startswith("docs/")
    assert page.endswith(".md")
    assert f"schemaquake {name}" in (ROOT / page).read_text(encoding="utf-8"), "the page says nothing of the command"


@pytest.mark.parametrize(("name", "line"), EXAMPLES)
def test_an_example_is_taken_by_the_command(name, line):
    program, command, *rest = shlex.split(line.partition(" > ")[0])
    assert (program, command) == ("schemaquake", name)
    context = typer.Context(APP, info_name="schemaquake")
    assert APP.commands[name].make_context(name, rest, parent=context).params


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_shown_whole_at_any_width(shown, name):
    lines, page = read_examples(APP.commands[name].epilog)
    for columns in (60, 80, 200):
        text = shown(name, columns=columns)
        joined = re.sub(r" \\\n +", " ", text)
        assert all(f"  {line}\n" in joined for line in lines)
        assert text.endswith(f"\nMore: {page}\n")


def test_a_long_example_is_broken_between_words_as_a_shell_joins_them():
    assert wrap_example("schemaquake check runs/latest --json", 24) == [
        "schemaquake check \\",
        "    runs/latest --json",
    ]
    assert wrap_example("schemaquake demo", 80) == ["schemaquake demo"]


@pytest.mark.parametrize(
    "epilog", [None, "", "Start with: schemaquake simulate.", "Examples:", "Examples:\nschemaquake x"]
)
def test_an_epilog_of_another_form_has_no_examples(epilog):
    assert read_examples(epilog) is None


@pytest.mark.parametrize(
    ("name", "line"),
    [each for each in EXAMPLES if each.values[0] in {"list", "completion", "quorums"}],
)
def test_a_quick_example_does_what_it_says(capfd, monkeypatch, tmp_path, name, line):
    monkeypatch.chdir(tmp_path)
    assert _run(shlex.split(line.partition(" > ")[0])[1:]) == 0
    assert "".join(capfd.readouterr())


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def parameters():
    for name in COMMANDS:
        for each in APP.commands[name].params:
            yield name, each


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_no_help_shows_a_type_of_python(shown, name):
    text = shown(*filter(None, [name]), columns=200)
    assert not re.search(r"<[a-z]+[^>]*>|\blist\[|\b(str|int|float|bool|Path|path)\b", text.partition("Examples:")[0])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_value_is_named_by_a_word_in_capitals_or_by_its_choices(name):
    for each in APP.commands[name].params:
        if each.param_type_name == "argument" or not each.is_flag:
            assert each.metavar, each.name
            assert each.metavar.isupper() or "|" in each.metavar or each.metavar == "N|Nn", each.metavar


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_is_a_sentence(name):
    for each in APP.commands[name].params:
        assert each.help, each.name
        assert each.help.endswith((".", "…")), each.help
        first = each.help.split()[0].rstrip(":")
        assert each.help[0].isupper() or first in {
            "barrier",
            "barrier,",
            "informative",
            "majority",
            "runs.parquet",
            "batches.parquet",
            "cells.parquet",
        }, each.help
        assert "default:" not in each.help, "defaults stand in brackets"


def test_an_option_has_one_wording_in_all_commands():
    wordings: dict[str, dict[tuple[str, str | None], set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, each in parameters():
        if each.param_type_name == "option":
            option = each.opts[0]
            if name not in OWN_WORDS.get(option, set()):
                wordings[option][each.help, each.metavar].add(name)
    assert {option: dict(found) for option, found in wordings.items() if len(found) > 1} == {}


def test_no_option_is_declared_to_differ_that_does_not():
    options = {(name, each.opts[0]) for name, each in parameters() if each.param_type_name == "option"}
    assert {(name, option) for option, names in OWN_WORDS.items() for name in names} <= options


# ── widths ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["", *COMMANDS])
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_help_fits_the_terminal(shown, name, columns):
    longest = max(shown(*filter(None, [name]), columns=columns).splitlines(), key=len)
    assert len(longest) <= min(columns, 120), longest


def test_help_uses_a_wide_terminal(shown):
    assert len(shown("run", columns=200).splitlines()) < len(shown("run", columns=80).splitlines())


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_plain_text(shown, name):
    assert "\x1b" not in shown(name)
