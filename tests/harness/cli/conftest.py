"""What the tests of the command line share: a command in this process, in an empty folder."""

from __future__ import annotations

import logging

import pytest

from schemaquake.harness.cli.command_line import _run


@pytest.fixture
def schemaquake(capfd, monkeypatch, tmp_path):
    """`schemaquake("list", "workloads")` in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(*argv):
        code = _run(list(argv))
        out, err = capfd.readouterr()
        return code, out, err

    # A command configures logging, to standard error as it is now: that must not outlive the test.
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield run
    root.handlers[:] = handlers
    root.setLevel(level)
