"""The search against every order there is, on problems of a few steps over a few small variables."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from schemaquake.checkers.ddl_order.search import (
    Branch,
    Outcome,
    Problem,
    State,
    Step,
    after,
    drop_idle_steps,
    restrict,
    search,
)

VALUES = 3
VARIABLES = 3


def find(problem: Problem, *, repeatable: bool = False, configurations_max: int = 100_000) -> Outcome:
    return search(problem, repeatable=repeatable, deadline=time.monotonic() + 20, configurations_max=configurations_max)


# ── every order there is ─────────────────────────────────────────────────────────────────────────────────────────────


def precedes(one: Step, other: Step) -> bool:
    return one.ends is not None and one.ends < other.begins


def orders(steps: Sequence[Step], taken: tuple[Step, ...], state: State) -> Iterator[tuple[Step, ...]]:
    """Every legal order of some of the steps that has all required ones, as far as real time allows."""
    if all(step in taken for step in steps if step.required):
        yield taken
    for step in steps:
        left = [other for other in steps if other.required and other not in taken and other is not step]
        if step in taken or any(precedes(other, step) for other in left):
            continue
        if any(precedes(step, other) for other in taken):
            continue
        for branch in step.branches:
            following = after(branch, state)
            if following is not None:
                yield from orders(steps, (*taken, step), following)


def has_an_order(problem: Problem) -> bool:
    return next(orders(problem.steps, (), problem.initial), None) is not None


def is_an_order(problem: Problem, labels: Sequence[int]) -> bool:
    """Whether these steps, with observations wherever they fit, are a legal order."""
    steps = {step.label: step for step in problem.steps}
    chosen = [steps[label] for label in labels]
    observations = [step for step in problem.steps if step.required and step.label not in labels]
    assert all(step.observes for step in observations)
    kept = [*chosen, *observations]
    return any([step for step in order if step in chosen] == chosen for order in orders(kept, (), problem.initial))


# ── random problems ──────────────────────────────────────────────────────────────────────────────────────────────────

variables = st.integers(0, VARIABLES - 1)
values = st.integers(0, VALUES - 1)
requirement = st.tuples(variables, st.frozensets(values, min_size=1, max_size=2))
assignment = st.tuples(
    variables,
    st.one_of(
        values.map(lambda value: (value,) * VALUES),
        st.tuples(*[values] * VALUES),
    ),
)


def unique(parts: list[tuple[int, object]]) -> tuple[tuple[int, object], ...]:
    return tuple(dict(parts).items())


branches = st.builds(
    Branch,
    st.lists(requirement, max_size=2).map(unique),
    st.lists(assignment, max_size=2).map(unique),
)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    steps = []
    for label in range(draw(st.integers(1, 6))):
        begins = draw(st.integers(0, 12))
        required = draw(st.integers(0, 3)) > 0
        endless = not required and draw(st.booleans())
        ends = None if endless else begins + draw(st.integers(0, 6))
        ways = tuple(draw(st.lists(branches, min_size=1, max_size=2)))
        steps.append(Step(label, begins, ends, required, ways))
    return Problem((0,) * VARIABLES, tuple(steps))


@settings(max_examples=examples(250), deadline=None)
@given(problem=problems())
def test_the_search_finds_an_order_exactly_if_there_is_one(problem: Problem) -> None:
    outcome = find(problem)
    assert outcome.found is has_an_order(problem)
    if outcome.found is True:
        assert is_an_order(problem, outcome.order)


@settings(max_examples=examples(150), deadline=None)
@given(problem=problems())
def test_what_has_no_order_with_repetitions_has_none(problem: Problem) -> None:
    outcome = find(problem, repeatable=True)
    if outcome.found is False:
        assert not has_an_order(problem)
    elif len(set(outcome.order)) == len(outcome.order):
        assert has_an_order(problem)


@settings(max_examples=examples(150), deadline=None)
@given(problem=problems())
def test_idle_steps_change_no_answer(problem: Problem) -> None:
    without = drop_idle_steps(problem)
    assert {step.label for step in problem.steps if step.required} == {s.label for s in without.steps if s.required}
    assert has_an_order(without) is has_an_order(problem)


@settings(max_examples=examples(150), deadline=None)
@given(problem=problems(), kept=st.sets(variables), needed=st.sets(st.integers(0, 5)))
def test_a_part_without_an_order_refutes_the_whole(problem: Problem, kept: set[int], needed: set[int]) -> None:
    part = restrict(problem, variables=kept, required=needed)
    if find(part, repeatable=True).found is False:
        assert not has_an_order(part)
        assert not has_an_order(problem)


# ── small ones by hand ───────────────────────────────────────────────────────────────────────────────────────────────

SET = Branch((), ((0, (1, 1)),))
UNSET = Branch(((0, frozenset({1})),), ((0, (0, 0)),))
SEE = Branch(((0, frozenset({1})),), ())


def steps(*parts: tuple[int, int | None, bool, Branch]) -> Problem:
    return Problem((0,), tuple(Step(label, *part[:3], (part[3],)) for label, part in enumerate(parts)))


def test_real_time_orders_steps_that_do_not_touch() -> None:
    assert find(steps((0, 1, True, SET), (2, 3, True, SEE))).found is True
    assert find(steps((0, 1, True, SEE), (2, 3, True, SET))).found is False


def test_steps_that_share_an_instant_may_come_either_way() -> None:
    assert find(steps((0, 2, True, SEE), (2, 3, True, SET))).found is True


def test_what_may_happen_at_any_later_time_may_explain_a_late_observation_but_no_early_one() -> None:
    assert find(steps((0, None, False, SET), (9, 9, True, SEE))).found is True
    assert find(steps((9, None, False, SET), (0, 1, True, SEE))).found is False


def test_an_observation_must_not_shut_out_what_had_to_come_before_it() -> None:
    # Taken as soon as it fits, the observation of variable 0 would make it too late for the optional step.
    see_zero = Branch(((0, frozenset({0})),), ())
    enable = Branch((), ((1, (1, 1)),))
    needs = Branch(((1, frozenset({1})),), ())
    problem = Problem(
        (0, 0),
        (
            Step(0, 0, 1, False, (enable,)),
            Step(1, 2, 3, True, (see_zero,)),
            Step(2, 4, 5, True, (needs,)),
        ),
    )
    assert find(problem).found is True
    assert find(problem, repeatable=True).found is True


def test_an_optional_step_helps_once() -> None:
    twice = steps((0, None, False, SET), (1, 2, True, UNSET), (3, 4, True, UNSET))
    assert find(twice).found is False
    assert find(twice, repeatable=True).found is True


@pytest.mark.parametrize("limit", ["configurations", "time"])
def test_a_limit_gives_unknown_and_names_itself(limit: str) -> None:
    # Fifteen steps at once, each of which leaves its mark, and an end that nothing reaches.
    parts = [Step(n, 0, 9, True, (Branch((), ((n, (1, 1)),)), Branch((), ((15, (n + 1,) * 17),)))) for n in range(15)]
    impossible = Step(15, 20, 21, True, (Branch(((15, frozenset({16})),), ()), Branch(((0, frozenset({5})),), ())))
    problem = Problem((0,) * 16, (*parts, impossible))
    if limit == "configurations":
        outcome = find(problem, configurations_max=500)
        assert outcome.limit is not None
        assert outcome.limit.kind == "memory"
    else:
        outcome = search(problem, deadline=time.monotonic() + 0.2, configurations_max=10**9)
        assert outcome.limit is not None
        assert outcome.limit.kind == "time"
    assert outcome.found == "unknown"
