"""Installed options: what `-O` may name is what the plugins of a run declare; anything else is refused by name."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from schemaquake.harness.errors import PlanError
from schemaquake.harness.installed_options import InstalledOption, options_of, refuse_undeclared
from schemaquake.harness.model.options import option
from schemaquake.harness.registry import names


def refuse(*given: str, workloads: str = "set", nemeses: str = "", cluster: str = "local") -> None:
    refuse_undeclared(dict.fromkeys(given, "1"), workloads=workloads.split(), nemeses=nemeses.split(), cluster=cluster)


@pytest.mark.parametrize(
    ("given", "run"),
    [
        ("kind", {}),
        ("read_consistency", {}),
        ("keys", {"workloads": "set register"}),
        ("kill.serving-limit-s", {"nemeses": "kill"}),
        ("primaries", {"nemeses": "kill"}),
        ("injection", {"nemeses": "error-injection"}),
        ("yaml.num_tokens", {}),
        ("property.cassandra.x", {"cluster": "docker"}),
        ("memory", {"cluster": "docker"}),
    ],
)
def test_what_a_plugin_of_the_run_declares_is_taken(given: str, run: dict[str, str]) -> None:
    refuse(given, **run)


@pytest.mark.parametrize(
    ("given", "run", "said"),
    [
        ("consistancy", {}, '-O consistancy: no plugin of the run has such an option. Did you mean "consistency"?'),
        ("kill.target", {"nemeses": "kill"}, 'Did you mean "kill.targets"?'),
        ("races", {}, "-O races: an option of add-columns, alter-options, alter-type, …, which the run does not have"),
        ("kill.targets", {}, "-O kill.targets: an option of kill, which"),
        ("primaries", {}, "-O primaries: an option of clock, "),
        ("memory", {}, "-O memory: an option of docker, which"),
        ("yaml.num_tokens", {"cluster": "ssh"}, "-O yaml.num_tokens: an option of docker, local, which"),
        ("yaml.", {}, "-O yaml.: no plugin of the run"),
    ],
)
def test_any_other_name_is_refused_with_the_nearest_or_its_owner(given: str, run: dict[str, str], said: str) -> None:
    with pytest.raises(PlanError, match=re.escape(said)):
        refuse(given, **run)


@pytest.mark.parametrize("kind", ["workloads", "nemeses"])
def test_every_option_says_what_its_value_is(kind: str) -> None:
    found = [(name, each) for name in names(kind) for each in options_of(kind, name)]
    assert found
    assert [each for each in found if not each[1].help] == []


def test_a_default_is_written_as_it_would_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Stir:
        name = "stir"
        spoons: tuple[str, ...] = option(("silver", "wood"), "the spoons")
        hot: bool = option(True, "true or false")
        guest: str | None = option(None, "the guest")

    monkeypatch.setattr("schemaquake.harness.installed_options.load", lambda _kind, _name: Stir())
    assert options_of("nemeses", "stir") == (
        InstalledOption(name="stir.spoons", default="silver,wood", help="the spoons"),
        InstalledOption(name="stir.hot", default="true", help="true or false"),
        InstalledOption(name="stir.guest", default=None, help="the guest"),
    )
