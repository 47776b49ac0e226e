"""Arguments: Let …, Then …, But …."""

from __future__ import annotations

from histories import judged

from schemaquake.checkers.evidence.evidence import Evidence
from schemaquake.checkers.findings.argument import Argument, label
from schemaquake.checkers.findings.catalogue import anomaly
from schemaquake.checkers.findings.limits import LIMITS

(CREATE,) = Evidence.of(judged(("@1 p0 n1 invoke create-table k.t a:int*", "@2 p0 n1 ok"), [])).changes.all


def test_operations_are_named_and_other_lines_stand_as_they_are() -> None:
    argument = Argument(["E1 = an epoch", CREATE, CREATE], "one must follow.", "it does not.")
    assert argument.render().splitlines() == [
        "Let  E1 = an epoch",
        f"     T1 = {CREATE.text()}",
        f"     T2 = {CREATE.text()}",
        "Then one must follow.",
        "     But it does not.",
    ]


def test_without_anything_given_it_begins_with_then() -> None:
    assert Argument([], "one must follow.", "it does not.").render() == "Then one must follow.\n     But it does not."


def test_of_many_lines_the_first_are_shown_and_the_others_counted() -> None:
    lines = Argument(label("abcdefghijklmnopq"), "one must follow.", "it does not.").render().splitlines()
    assert lines[0] == "Let  T1 = a"
    assert lines[LIMITS.lines] == "     … and 9 more"
    assert len(lines) == LIMITS.lines + 3


def test_a_finding_is_explained_by_its_argument() -> None:
    argument = Argument([CREATE], "one must follow.", "it does not.")
    assert anomaly("lost-column", explanation=argument).explanation == argument.render()
