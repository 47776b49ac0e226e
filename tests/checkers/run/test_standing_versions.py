"""Standing versions: a version that is the same before and after a table was made for good."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import pytest
from histories import judged

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.run.course import find_gaps
from schemaquake.checkers.run.standing_versions import find_standing_versions

CREATE = ("@100 p1 n1 invoke create-table k.t a:int*", "@200 p1 n1 ok")
UPGRADE = {
    "operation": 1,
    "nodes": ["n1"],
    "parameters": {"stage": "node", "to": "b"},
    "becomes": {"n1": "normal"},
}
READ = '@150 -- info phase {"phase": "final-settled", "state": "begins"}'


def found(history: Sequence[str], *observations: str) -> list[str]:
    return list(find_standing_versions(Evidence.of(judged(history, observations))))


def test_a_node_that_shows_one_version_before_and_after_a_create_of_its_own_is_doubted() -> None:
    readings = ("@50 running n1 version v1", "@250 running n1 version v2", "@300 running n1 version v1")
    assert found(CREATE, *readings) == [
        "n1 shows version v1 at 0.050 s and at 0.300 s, and acknowledged op 0 in between"
    ]
    assert found(["@1 p9 n1 invoke create-keyspace k", "@2 p9 n1 ok"], "@0 running n1 version v1", *readings) == [
        "n1 shows version v1 at 0.000 s and at 0.300 s, and acknowledged op 0 in between"
    ]


def test_each_node_is_named_once_and_not_while_it_becomes_another_version() -> None:
    readings = [f"@{at} running n1 version v1" for at in (50, 250, 450, 480)]
    history = [*CREATE, "@300 p1 n1 invoke create-table k.s a:int*", "@310 p1 n1 ok"]
    assert len(found(history, *readings)) == 1
    upgrade = f"@1 -- n1 invoke rolling-upgrade {orjson.dumps(UPGRADE).decode()}"
    assert found([upgrade, *history], *readings) == []


@pytest.mark.parametrize(
    "readings",
    [
        pytest.param(("@50 running n1 version v1", "@300 running n1 version v2"), id="another one"),
        pytest.param(
            ("@50 running n1 version v1", "@300 running n1 version v1"), id="the later reading may have begun before"
        ),
        pytest.param(
            ("@100 running n1 version v1", "@210 running n1 version v2", "@300 running n1 version v1"),
            id="asked as it was read",
        ),
        pytest.param(
            ("@50 running n1 version v1", "@200 running n1 version v2", "@300 running n1 version v1"),
            id="read as it was answered",
        ),
        pytest.param(
            ("@50 running n2 version v1", "@250 running n2 version v2", "@300 running n2 version v1"), id="another node"
        ),
        pytest.param(
            tuple(f'@{at} running n1 version v {{"epoch": {at}}}' for at in (50, 250, 300)),
            id="epochs are judged elsewhere",
        ),
    ],
)
def test_one_step_away_it_is_not(readings: Sequence[str]) -> None:
    assert found(CREATE, *readings) == []


@pytest.mark.parametrize(
    "history",
    [
        pytest.param((CREATE[0], "@200 p1 n1 info T"), id="it may not have been made"),
        pytest.param((*CREATE, "@310 p2 n2 invoke drop-table k.t", "@320 p2 n2 info T"), id="it may be gone"),
        pytest.param((*CREATE, "@310 p2 n2 invoke drop-keyspace k", "@320 p2 n2 info T"), id="all of it may be gone"),
        pytest.param(
            ("@10 p2 n2 invoke create-table k.t a:int*", "@320 p2 n2 info T", *CREATE),
            id="another one may have made it",
        ),
        pytest.param(
            ("@100 p1 n1 invoke create-type k.u a:int", "@200 p1 n1 ok"), id="not all lines have types in their version"
        ),
        pytest.param(
            ('@100 p1 n1 invoke create-table k.t a:int* {"if_not_exists": true}', "@200 p1 n1 ok"),
            id="it may have been there",
        ),
    ],
)
def test_what_may_have_left_the_schema_as_it_was_is_no_reason(history: Sequence[str]) -> None:
    readings = ("@50 running n1 version v1", "@250 running n1 version v2", "@300 running n1 version v1")
    assert found(sorted(history, key=lambda line: int(line[1:].split()[0])), *readings) == []


def test_a_final_reading_began_when_its_phase_did() -> None:
    begins = '@250 -- info phase {"phase": "final-settled", "state": "begins"}'
    history = [*CREATE, begins]
    (text,) = found(history, "@50 running n1 version v1", "@300 settled n1 version v1")
    assert "0.300 s" in text
    records = judged(
        [*history, '@400 -- info phase {"phase": "final-settled", "state": "ends"}'],
        ["@50 running n1 version v1", "@300 settled n1 version v1"],
    )
    assert text in [doubt.text for doubt in find_gaps(Evidence.of(records))]
    assert found([READ, *CREATE], "@50 running n1 version v1", "@300 settled n1 version v1") == []
