"""Effects of faults that contradict what the fault does, one fact away from effects as nemeses read them back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pytest

from schemaquake.checkers.evidence.notes import traits_of
from schemaquake.checkers.run.effects import find_false_effects
from schemaquake.harness.model.traits import NemesisTraits, nemesis_traits
from schemaquake.harness.registry import load_all

KINDS = {"down", "down-in-turn", "frozen", "clocks", "packets"}


def states(before: str, after: str) -> dict[str, Any]:
    return {"observed": True, "nodes": {"n1": {"before": before, "after": after}}}


BACK = {"observed": True, "nodes": {"n1": {"seconds": 1.8, "after": "running"}}}
CLOCKS: dict[str, Any] = {"kind": "jump", "offsets": {"n1": 77.7}, "period_s": 4.0}
GRUDGE = {"grudge": {"n1": ["n2"], "n2": []}}


def shifted(read: float = 77.7, wanted: float = 77.7, **more: Any) -> dict[str, Any]:
    return {"observed": True, "nodes": {"n1": {"wanted": wanted, "read": read}}, **more}


def restored(before: float, after: float = 0.0, toggles: int | None = None, **more: Any) -> dict[str, Any]:
    clocks = {"n1": {"before": before, "after": after}}
    return {"observed": True, "toggles": toggles, "broke_off": None, "nodes": clocks, **more}


def rules(*lines: str, node: str = "n1", means: str = "iptables") -> dict[str, Any]:
    return {"observed": True, "nodes": {node: {"means": means, "cuts": "tcp", "rules": list(lines)}}}


def dropped(packets: int | None, total: int, node: str = "n1", means: str = "iptables") -> dict[str, Any]:
    piece = {"means": means, "rules": ["-A x"], "packets": packets, "bytes": packets}
    return {"observed": True, "packets": total, "nodes": {node: [piece]}}


def found(nemesis: str, begun: Any, ended: Any, parameters: dict[str, Any] | None = None) -> list[str]:
    begin = {"id": 0, "nemesis": nemesis, "nodes": ["n1"], "parameters": parameters or {}, "effect": begun}
    end = None if ended is None else {**begin, "effect": ended}
    return list(find_false_effects(begin, end))


def cases() -> Iterator[Any]:
    for nemesis in ("kill", "stop", "restart", "rolling-restart"):
        down = states("running", "stopped")
        yield pytest.param(nemesis, down, BACK, {}, True, id=nemesis)
        yield pytest.param(nemesis, down, None, {}, True, id=f"{nemesis} that did not end")
        yield pytest.param(nemesis, states("running", "running"), BACK, {}, False, id=f"{nemesis}: it went on")
        yield pytest.param(nemesis, states("stopped", "stopped"), BACK, {}, False, id=f"{nemesis}: it did not run")
        yield pytest.param(
            nemesis, down, {"observed": True, "nodes": {"n1": {"after": "stopped"}}}, {}, False, id=f"{nemesis}: down"
        )
        yield pytest.param(nemesis, down, {"observed": True, "nodes": {}}, {}, False, id=f"{nemesis}: no node")
        yield pytest.param(
            nemesis, down, {"observed": True, "nodes": {}, "gone": ["n1"]}, {}, True, id=f"{nemesis}: gone"
        )
        yield pytest.param(nemesis, down, {**BACK, "nodes": {}, "expired": {"n1": 1}}, {}, True, id=f"{nemesis}: guard")
    yield pytest.param("kill", {"observed": True, "nodes": {}}, BACK, {}, False, id="kill of none")
    frozen, awake = states("running", "paused"), states("paused", "running")
    yield pytest.param("pause", frozen, awake, {}, True, id="pause")
    yield pytest.param("pause", frozen, states("paused", "stopped"), {}, True, id="a paused server that ended")
    yield pytest.param("pause", states("running", "running"), awake, {}, False, id="pause: it went on")
    yield pytest.param("pause", states("stopped", "paused"), awake, {}, False, id="pause: it did not run")
    yield pytest.param("pause", states("paused", "paused"), awake, {}, True, id="pause: it was paused already")
    yield pytest.param("pause", frozen, states("running", "running"), {}, False, id="pause: it went on later")
    yield pytest.param("pause", frozen, states("paused", "paused"), {}, False, id="pause: it is frozen still")
    yield pytest.param("pause", frozen, {**awake, "nodes": {}}, {}, False, id="pause: no node")
    yield pytest.param("clock", shifted(), restored(78.0), CLOCKS, True, id="clock")
    yield pytest.param("clock", shifted(78.6), restored(82.0), CLOCKS, True, id="clocks read late")
    yield pytest.param("clock", shifted(78.8), restored(77.7), CLOCKS, False, id="clock: too far")
    yield pytest.param(
        "clock",
        shifted(79.6, tolerance_s=2.0),
        restored(77.7, tolerance_s=2.0),
        CLOCKS,
        True,
        id="clock: wide tolerance",
    )
    yield pytest.param("clock", shifted(wanted=76.7), restored(77.7), CLOCKS, False, id="clock: another offset")
    yield pytest.param("clock", shifted(), restored(70.0), CLOCKS, False, id="clock: it did not last")
    yield pytest.param("clock", shifted(), restored(77.7, 1.5), CLOCKS, False, id="clock: not put right")
    yield pytest.param(
        "clock", shifted(), restored(77.7), {**CLOCKS, "offsets": {"n2": 77.7}}, False, id="clock: of n2"
    )
    strobe = {**CLOCKS, "kind": "strobe"}
    yield pytest.param("clock", shifted(), restored(0.0, toggles=3), strobe, True, id="strobe")
    yield pytest.param(
        "clock", shifted(), restored(77.7, toggles=0), strobe, True, id="a strobe that ended before it switched"
    )
    yield pytest.param("clock", shifted(), restored(0.0, toggles=0), strobe, False, id="a strobe that nothing switched")
    yield pytest.param("clock", shifted(), restored(0.0, toggles=3), CLOCKS, False, id="a jump that did not last")
    yield pytest.param(
        "clock", shifted(), restored(77.7) | {"broke_off": "E"}, strobe, True, id="a strobe that broke off"
    )
    for nemesis in ("partition", "packet-loss"):
        cut = rules("-A x")
        yield pytest.param(nemesis, cut, dropped(3, 3), GRUDGE, True, id=nemesis)
        yield pytest.param(nemesis, rules(), dropped(3, 3), GRUDGE, False, id=f"{nemesis}: no rules")
        yield pytest.param(nemesis, {**cut, "nodes": {}}, dropped(3, 3), GRUDGE, False, id=f"{nemesis}: no filter")
        yield pytest.param(nemesis, rules("-A x", node="n2"), dropped(3, 3, "n2"), GRUDGE, False, id=f"{nemesis}: n2")
        yield pytest.param(nemesis, cut, dropped(0, 0), GRUDGE, False, id=f"{nemesis}: nothing was dropped")
        yield pytest.param(nemesis, cut, dropped(0, 3), GRUDGE, False, id=f"{nemesis}: counters")
        yield pytest.param(nemesis, cut, dropped(3, 3, "n2"), GRUDGE, False, id=f"{nemesis}: of another node")
        yield pytest.param(nemesis, cut, dropped(3, 3, means="nftables"), GRUDGE, False, id=f"{nemesis}: other means")
        bare = {"observed": True, "packets": 3, "nodes": {"n1": [{"means": "iptables", "rules": [], "packets": 3}]}}
        yield pytest.param(nemesis, cut, bare, GRUDGE, False, id=f"{nemesis}: rules that went")
        yield pytest.param(nemesis, cut, {"observed": True, "packets": 0}, GRUDGE, False, id=f"{nemesis}: no counters")
        yield pytest.param(nemesis, {"nodes": cut["nodes"]}, dropped(3, 3), GRUDGE, False, id=f"{nemesis}: unseen")
        entry, left = rules("x", node="n2", means="neighbour"), dropped(None, 0, "n2", "neighbour")
        yield pytest.param(nemesis, entry, left, GRUDGE, True, id=f"{nemesis} by entries, which count nothing")
    yield pytest.param("fill-disk", {"observed": True}, {"observed": True}, {}, True, id="another nemesis")
    yield pytest.param("fill-disk", {"observed": False}, {"observed": True}, {}, False, id="not seen to begin")
    yield pytest.param("fill-disk", None, {"observed": True}, {}, False, id="an empty effect")
    yield pytest.param("fill-disk", {"free_bytes": 1}, {"healed": True}, {}, True, id="effects that do not say it")


@pytest.mark.parametrize(("nemesis", "begun", "ended", "parameters", "legal"), list(cases()))
def test_an_effect_is_that_of_its_fault(
    nemesis: str, begun: Any, ended: Any, parameters: dict[str, Any], *, legal: bool
) -> None:
    texts = found(nemesis, begun, ended, parameters)
    assert (texts == []) is legal, orjson.dumps(texts)


def test_a_fault_that_was_healed_without_an_effect_is_named() -> None:
    begin = {"id": 0, "nemesis": "x", "nodes": ["n1"], "effect": {"observed": True}}
    assert list(find_false_effects(begin, {"id": 0})) == ["was healed, and what it left is not noted"]
    assert list(find_false_effects({"id": 0, "nemesis": "x"}, {"id": 0})) == [], "as in histories of before"
    assert list(find_false_effects({"id": 0, "nemesis": "x"}, {"id": 0, "effect": {}})) != []


def test_every_kind_of_effect_that_a_nemesis_declares_is_judged() -> None:
    kinds = {name: nemesis_traits(nemesis).effect for name, nemesis in load_all("nemeses").items()}
    assert {kind for kind in kinds.values() if kind is not None} == KINDS
    wrong = {"observed": True, "nodes": {"n1": {}}}
    for nemesis, kind in kinds.items():
        assert (kind is None) is (found(nemesis, wrong, None) == []), nemesis


def test_of_a_nemesis_that_is_not_installed_it_is_asked_whether_an_effect_was_observed() -> None:
    wrong = {"observed": True, "nodes": {"n1": {"before": "running", "after": "running"}}}
    assert found("kill", wrong, None) != []
    assert traits_of("from-elsewhere") == NemesisTraits()
    assert found("from-elsewhere", wrong, {"observed": True}) == []
    assert found("from-elsewhere", {**wrong, "observed": False}, None) != []


def test_a_round_may_begin_with_any_of_its_nodes_and_ends_with_all() -> None:
    begin = {"id": 0, "nemesis": "rolling-restart", "nodes": ["n1", "n2"], "effect": states("running", "stopped")}
    whole = {"observed": True, "nodes": {name: {"after": "running"} for name in ("n1", "n2")}}
    assert list(find_false_effects(begin, {**begin, "effect": whole})) == []
    assert list(find_false_effects(begin, {**begin, "effect": BACK})) != []
    assert list(find_false_effects({**begin, "nemesis": "restart"}, {**begin, "effect": whole})) != []


@pytest.mark.parametrize(
    ("begun", "ended", "legal"),
    [
        pytest.param({"observed": True}, {"observed": True}, True, id="of neither are nodes named"),
        pytest.param({"observed": True}, BACK, False, id="of the end alone"),
        pytest.param(states("running", "stopped"), {"observed": True}, False, id="of the begin alone"),
        pytest.param(states("running", "stopped") | {"observed": 1}, BACK, False, id="no truth at the begin"),
        pytest.param(
            states("running", "stopped"), states("running", "stopped") | {"observed": 1}, True, id="no truth at the end"
        ),
    ],
)
def test_both_notes_of_a_fault_name_nodes_or_neither(begun: Any, ended: Any, *, legal: bool) -> None:
    assert (found("kill", begun, ended) == []) is legal


@pytest.mark.parametrize(
    ("before", "tolerance_s", "legal"),
    [
        (83.6, 1.0, True),
        (83.8, 1.0, False),
        (71.8, 1.0, True),
        (71.6, 1.0, False),
        (84.6, 2.0, True),
        (85.6, 2.0, False),
    ],
)
def test_a_clock_may_be_read_some_seconds_late(before: float, tolerance_s: float, *, legal: bool) -> None:
    left = restored(before, tolerance_s=tolerance_s)
    assert (found("clock", shifted(tolerance_s=tolerance_s), left, CLOCKS) == []) is legal


@pytest.mark.parametrize(
    ("begun", "ended", "legal"),
    [(2.0, 2.0, True), (2.0, 1.0, False), (2.0, None, False), (None, 2.0, False), (None, None, True)],
)
def test_both_notes_of_wrong_clocks_have_the_same_tolerance(
    begun: float | None, ended: float | None, *, legal: bool
) -> None:
    first, last = ({} if value is None else {"tolerance_s": value} for value in (begun, ended))
    assert (found("clock", shifted(**first), restored(77.7, **last), CLOCKS) == []) is legal


@pytest.mark.parametrize("said", [{"toggles": 3}, {"broke_off": "lie"}])
def test_clocks_of_a_strobe_alone_are_switched(said: dict[str, Any]) -> None:
    left = {**restored(77.7), **said}
    assert len(found("clock", shifted(), left, CLOCKS)) == 1
    assert found("clock", shifted(), left, {**CLOCKS, "kind": "strobe"}) == []


@pytest.mark.parametrize("before", [5.9, -5.9])
def test_a_clock_without_an_offset_showed_true_time(before: float) -> None:
    (said,) = found("clock", shifted(), restored(before), {**CLOCKS, "offsets": {}})
    assert said.startswith("shifted other clocks")


def test_rules_are_missed_of_nodes_that_had_some_and_are_not_gone() -> None:
    elsewhere = dropped(3, 3) | {"gone": ["n9"]}
    assert found("partition", rules("-A x"), elsewhere, GRUDGE) == []
    two = rules("-A x")
    two["nodes"] |= rules("-A x", node="n2")["nodes"]
    both = {"grudge": {"n1": ["n2"], "n2": ["n1"]}}
    assert found("partition", two, dropped(3, 3) | {"gone": ["n2"]}, both) == []
    assert found("partition", two, dropped(3, 3), both) == ["was healed, and its rules were gone from n2"]


def test_an_effect_names_exactly_the_nodes_of_its_fault_but_for_those_that_are_gone() -> None:
    more = {"observed": True, "nodes": {name: {"after": "running"} for name in ("n1", "n2")}}
    assert found("kill", states("running", "stopped"), more) != []
    assert found("kill", states("running", "stopped"), BACK | {"gone": ["n9"]}) == []


@pytest.mark.parametrize("wanted", [76.7, 78.7])
def test_a_clock_was_to_have_the_offset_of_its_fault(wanted: float) -> None:
    assert len(found("clock", shifted(wanted=wanted), restored(77.7), CLOCKS)) == 1


@pytest.mark.parametrize("kind", ["jump", "waver", "a"])
def test_of_clocks_only_a_strobe_may_have_shown_true_time(kind: str) -> None:
    assert len(found("clock", shifted(), restored(0.0, toggles=3), {**CLOCKS, "kind": kind})) == 2


def test_each_filter_says_how_many_packets_it_dropped() -> None:
    counted = {"means": "iptables", "rules": ["-A x"], "packets": 4, "bytes": 4}
    silent = {"means": "iptables", "rules": ["-A y"], "packets": 0, "bytes": 0}
    grudge = {"grudge": {"n1": ["n2"]}}
    assert (
        found("partition", rules("-A x"), {"observed": True, "packets": 4, "nodes": {"n1": [counted, silent]}}, grudge)
        == []
    )
    del silent["packets"]
    left = {"observed": True, "packets": 4, "nodes": {"n1": [counted, silent]}}
    assert len(found("partition", rules("-A x"), left, grudge)) == 1


@pytest.mark.parametrize("total", [2, 4])
def test_counters_of_rules_add_up(total: int) -> None:
    (said,) = found("partition", rules("-A x"), dropped(3, total), GRUDGE)
    assert "not as many as its effect says" in said


IPTABLES = "-A schemaquake_5 -s 10.77.0.2/32 -p tcp{} -j DROP"
NFTABLES = '[{{"match": {{"right": "10.77.0.2"}}}}, {{"counter": {{"packets": {}, "bytes": {}}}}}, {{"drop": null}}]'


@pytest.mark.parametrize(
    ("means", "given", "left"),
    [
        ("iptables", IPTABLES.format(""), IPTABLES.format(" -c 3 180")),
        ("nftables", NFTABLES.format(0, 0), NFTABLES.format(3, 180)),
    ],
)
def test_a_filter_has_the_rules_that_it_was_given_and_counts_what_they_count(means: str, given: str, left: str) -> None:
    def said(rules_left: Sequence[str], size: int = 180) -> list[str]:
        piece = {"means": means, "rules": list(rules_left), "packets": 3, "bytes": size}
        return found(
            "partition", rules(given, means=means), {"observed": True, "packets": 3, "nodes": {"n1": [piece]}}, GRUDGE
        )

    others, counted = (
        f"was healed, and {text}"
        for text in ("n1 had other rules than it was given", "the rules of n1 counted otherwise than its effect says")
    )
    assert said([left]) == []
    assert said([left.replace("10.77.0.2", "10.77.0.9")]) == [others]
    assert said([left.replace("10.77.0.2", "10.77.0.1")]) == [others]
    assert said([left, given]) == [others]
    assert said([left], size=181) == said([left], size=179) == [counted]


@pytest.mark.parametrize(("after", "legal"), [(1.0, True), (-1.0, True), (0.5, True), (1.1, False), (-1.1, False)])
def test_a_clock_that_was_put_right_shows_true_time_within_its_tolerance(after: float, *, legal: bool) -> None:
    assert (found("clock", shifted(), restored(77.7, after), CLOCKS) == []) is legal


@pytest.mark.parametrize("observed", [False, 1])
def test_an_end_that_was_not_observed_need_not_name_nodes(observed: Any) -> None:
    assert found("kill", states("running", "stopped"), {"observed": observed}) == []


def test_values_are_compared_and_not_their_identity() -> None:
    assert found("partition", rules("-A x"), dropped(int("1000"), int("1000")), GRUDGE) == []
    assert found("clock", shifted(float("77.7"), float("77.7")), restored(77.7), CLOCKS) == []
    first, last = (float("2.5") for _ in range(2))
    assert found("clock", shifted(tolerance_s=first), restored(77.7, tolerance_s=last), CLOCKS) == []


def test_frozen_servers_and_wrong_clocks_are_those_of_the_fault_at_its_begin_and_at_its_end() -> None:
    (said,) = found("pause", {"observed": True, "nodes": {}}, states("paused", "running"))
    assert said.startswith("began, and its effect does not say of exactly its nodes")
    (said,) = found("clock", shifted(), restored(77.7) | {"nodes": {}}, CLOCKS)
    assert said.startswith("was healed, and its effect does not say of exactly its nodes")
    assert found("clock", shifted(), restored(77.7) | {"nodes": {}, "gone": ["n1"]}, CLOCKS) == []


def test_counters_that_are_none_are_told_as_that() -> None:
    left = {"observed": True, "packets": 3, "nodes": {"n1": [3]}}
    assert found("partition", rules("-A x"), left, GRUDGE) == [
        "was healed, and its effect does not say what its rules dropped"
    ]


def test_an_entry_that_counts_nothing_is_there_until_the_fault_is_healed() -> None:
    begun, left = rules("x", node="n2", means="neighbour"), dropped(None, 0, "n2", "neighbour")
    assert found("partition", begun, left, GRUDGE) == []
    left["nodes"]["n2"][0]["rules"] = []
    assert found("partition", begun, left, GRUDGE) == ["was healed, and a node had no rule left that drops packets"]


def piece(means: str, rule: str, packets: int | None = 3) -> dict[str, Any]:
    return {"means": means, "rules": [rule], "packets": packets, "bytes": packets}


@pytest.mark.parametrize("other", ["", "n1", "n1 (sending)"])
def test_of_two_filters_of_a_node_each_has_the_rules_that_it_was_given(other: str) -> None:
    begun = rules("-A x")
    begun["nodes"] |= rules("-A y", node="n1 (sending)", means="nftables")["nodes"]
    first, second = ("-A z" if other == name else rule for name, rule in (("n1", "-A x"), ("n1 (sending)", "-A y")))
    left = {"observed": True, "packets": 6, "nodes": {"n1": [piece("iptables", first), piece("nftables", second)]}}
    grudge = {"grudge": {"n1": ["n2"], "n1 (sending)": ["n2"]}}
    told = [f"was healed, and {other} had other rules than it was given"] if other else []
    assert found("partition", begun, left, grudge) == told


def test_two_filters_by_the_same_means_cannot_be_told_apart() -> None:
    left = {"observed": True, "packets": 6, "nodes": {"n1": [piece("iptables", "-A y"), piece("iptables", "-A x")]}}
    assert found("partition", rules("-A x"), left, GRUDGE) == []
    left = {"observed": True, "packets": 3, "nodes": {"n1": [piece("iptables", "-A y")]}}
    assert found("partition", rules("-A x"), left, GRUDGE) == ["was healed, and n1 had other rules than it was given"]


@pytest.mark.parametrize("rule", ["-A x", "-A y"])
def test_a_filter_after_one_that_counts_nothing_has_the_rules_that_it_was_given(rule: str) -> None:
    begun = rules("e", means="neighbour")
    begun["nodes"] |= rules("-A x", node="n2")["nodes"]
    left = {
        "observed": True,
        "packets": 3,
        "nodes": {"n1": [piece("neighbour", "e", None)], "n2": [piece("iptables", rule)]},
    }
    told = [] if rule == "-A x" else ["was healed, and n2 had other rules than it was given"]
    assert found("partition", begun, left, {"grudge": {"n1": ["n2"], "n2": ["n1"]}}) == told
