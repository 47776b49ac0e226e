"""Wall clock: the bounds of the time of day, from ids of tables and from the note of the plan, to the millisecond."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from histories import judged

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.schema.wall_clock import WallClock

BORN_MS = 1_795_000_000_000
"""The time of day at which the run's clock was 0."""
APART_MS = 60_000
CREATE = ("@1000 p1 n1 invoke create-table k.t a:int* c:int", "@1250 p1 n1 ok")
DROP = ("@3000 p2 n2 invoke drop-column k.t c", "@3500 p2 n2 ok")


def time_uuid(at_ms: float, *, version: str = "1", variant: str = "8") -> str:
    ticks = int((at_ms + 12_219_292_800_000) * 10_000)
    return f"{ticks & 0xFFFFFFFF:08x}{ticks >> 32 & 0xFFFF:04x}{version}{ticks >> 48:03x}{variant}000000000000001"


def note(at_ms: int, born_ms: float = BORN_MS) -> str:
    utc = datetime.fromtimestamp((born_ms + at_ms) / 1000, UTC).isoformat()
    return f"@{at_ms} -- info run-planned {orjson.dumps({'utc': utc}).decode()}"


def clock(
    *lines: str, identity: str = "1", history: Sequence[str] = (*CREATE, *DROP)
) -> tuple[WallClock, PairedOperation]:
    """The clock of a run whose table has this id, and its DROP."""
    ordered = sorted((*lines, *history), key=lambda line: int(line[1:].split()[0]))
    case = Evidence.of(judged(ordered, ["settled n1,n2 keyspace k", f"settled n1,n2 table k.t id={identity} a:int*"]))
    return WallClock(case), next(one for one in case.changes.possible if one.f == "drop-column")


def bounds(known: tuple[WallClock, PairedOperation]) -> tuple[int, int] | None:
    """The earliest and latest time of day (ms, from that at which the run began) that fits the DROP; None: any does."""
    made, drop = known
    if made.fits(drop, 0):
        return None
    fitting = [at for at in (-APART_MS, *range(-70_000, 80_000, 1)) if made.fits(drop, BORN_MS + at)]
    return min(fitting), max(fitting)


def test_an_id_that_is_a_time_sets_the_clock_by_its_create() -> None:
    # The table was created between 1000 and 1250 ms of the run, at 1100 ms after BORN_MS: so 0 was at −150 to 100 ms.
    known = clock(identity=time_uuid(BORN_MS + 1100))
    assert bounds(known) == (-150 + 3000 - APART_MS, 100 + 3500 + APART_MS)


def test_the_note_of_the_plan_sets_it_exactly_and_ids_that_are_times_may_widen_it() -> None:
    assert bounds(clock(note(400))) == (3000 - APART_MS, 3500 + APART_MS)
    assert bounds(clock(note(400), identity=time_uuid(BORN_MS + 1500))) == (3000 - APART_MS, 500 + 3500 + APART_MS)
    assert bounds(clock(note(400), identity=time_uuid(BORN_MS + 900))) == (-350 + 3000 - APART_MS, 3500 + APART_MS)


@pytest.mark.parametrize(
    "identity",
    [
        "1",
        time_uuid(BORN_MS + 1100, version="4"),
        time_uuid(BORN_MS + 1100, variant="c"),
        f"{time_uuid(BORN_MS + 1100)}0",
    ],
)
def test_other_ids_say_nothing(identity: str) -> None:
    assert bounds(clock(identity=identity)) is None


@pytest.mark.parametrize("variant", ["8", "9", "a", "b"])
def test_every_time_uuid_of_the_standard_is_one(variant: str) -> None:
    assert bounds(clock(identity=time_uuid(BORN_MS + 1100, variant=variant))) is not None


@pytest.mark.parametrize(
    "history",
    [
        pytest.param((CREATE[0], "@1250 p1 n1 info T", *DROP), id="it may not be this one's"),
        pytest.param(
            (*CREATE, "@900 p3 n2 invoke create-table k.t a:int*", "@950 p3 n2 info T", *DROP),
            id="another one may have made it",
        ),
    ],
)
def test_only_a_table_that_was_certainly_created_once_sets_the_clock(history: Sequence[str]) -> None:
    assert bounds(clock(identity=time_uuid(BORN_MS + 1100), history=history)) is None


def test_a_drop_without_an_answer_may_come_at_any_later_time() -> None:
    made, drop = clock(note(400), history=(*CREATE, DROP[0], "@3500 p2 n2 info T"))
    assert made.fits(drop, BORN_MS + 10**9)
    assert not made.fits(drop, BORN_MS + 3000 - APART_MS - 1)


def test_a_statement_that_names_its_time_has_that_one() -> None:
    named = ('@3000 p2 n2 invoke drop-column k.t c {"timestamp": 5000999}', DROP[1])
    made, drop = clock(note(400), history=(*CREATE, *named))
    assert [at for at in (4999, 5000, 5001, BORN_MS + 3200) if made.fits(drop, at)] == [5000]


def fault(begins: int, ends: int, **parameters: Any) -> list[str]:
    value = {"id": 1, "nemesis": "clock", "nodes": ["n3"], "parameters": parameters}
    return [
        f"@{begins} -- info fault-begins {orjson.dumps(value).decode()}",
        f"@{ends} -- info fault-ends {orjson.dumps(value).decode()}",
    ]


def test_clocks_may_be_wrong_while_any_fault_acts_and_after_one_of_clocks() -> None:
    skew, kill = {"offsets": {"n3": 9}}, {}
    for begins, ends, parameters, is_bound in (
        (2000, 2500, skew, False),
        (2000, 2500, kill, True),
        (2900, 3100, kill, False),
        (3600, 3700, skew, True),
        (3000, 3000, skew, False),
    ):
        known = clock(note(400), *fault(begins, ends, **parameters))
        assert (bounds(known) is not None) is is_bound, (begins, parameters)
    # A table that was created under such a fault sets no clock.
    assert bounds(clock(*fault(900, 950, **skew), identity=time_uuid(BORN_MS + 1100))) is None


@pytest.mark.parametrize(
    ("off_ms", "is_contradicted"), [(0, False), (119_900, False), (120_101, True), (-119_750, False), (-120_251, True)]
)
def test_a_note_contradicts_an_id_that_is_further_away_than_two_clocks_are(
    off_ms: int, *, is_contradicted: bool
) -> None:
    known, _ = clock(note(400), identity=time_uuid(BORN_MS + 1000 + off_ms))
    assert known.is_contradicted() is is_contradicted
    assert not clock(identity=time_uuid(BORN_MS + 1000 + off_ms))[0].is_contradicted()
    assert not clock(note(400))[0].is_contradicted()


@pytest.mark.parametrize(
    ("off_ms", "is_contradicted"),
    [
        ((10**8, -(10**9), 10**10), False),
        ((10**8, 10**8 + 50_000), False),
        ((10**8, 10**8 + 50_000, 10**8 - 50_000), True),
    ],
)
def test_ids_that_are_days_away_are_times_if_several_say_the_same(
    off_ms: Sequence[int], *, is_contradicted: bool
) -> None:
    """An id that was made of a name may look like one."""
    made = [f"@{1000 + number} p{number} n1 invoke create-table k.t{number} a:int*" for number in range(len(off_ms))]
    answers = [f"@{1300 + number} p{number} n1 ok" for number in range(len(off_ms))]
    shown = [
        f"settled n1 table k.t{number} id={time_uuid(BORN_MS + 1100 + off)} a:int*" for number, off in enumerate(off_ms)
    ]
    known = WallClock(
        Evidence.of(judged([note(400), *made, *answers], ["settled,restarted n1,n2,n3 keyspace k", *shown]))
    )
    assert known.is_contradicted() is is_contradicted


def test_an_id_that_is_days_away_from_the_note_does_not_widen_what_fits() -> None:
    assert bounds(clock(note(400), identity=time_uuid(BORN_MS + 10**9))) == (3000 - APART_MS, 3500 + APART_MS)
