"""A matrix on disk: what is done survives, what was cut short was never done, and nobody else works on it meanwhile."""

import orjson
import pytest
from virtual_executor import shows

from schemaquake.harness.errors import HistoryError, PlanError
from schemaquake.results.matrix.matrix_folder import Done, MatrixFolder
from schemaquake.results.matrix.matrix_plan import Condition, MatrixPlan, Unit

PLAN = MatrixPlan(systems=("cassandra:5.0.9",), workloads=("drop-type",), command="schemaquake matrix --quick")


def unit(turn=0):
    return Unit(
        system="cassandra:5.0.9",
        workloads=("drop-type", "add-columns"),
        condition=Condition("barrier", ("kill",)),
        first_race=4 * turn,
        races=4,
        turn=turn,
    )


def done(turn=0):
    return Done(unit(turn), shows(unit(turn), at_large=["node-died"], broken=lambda *_: ["lost-rows"]))


@pytest.fixture
def folder(tmp_path):
    return MatrixFolder.create(tmp_path / "runs", PLAN, {"machine": "2 cores"})


def test_what_was_planned_and_done_is_read_back_as_it_was(folder):
    for turn in range(3):
        folder.append(done(turn))
    folder.append_session(12.34)
    folder.append_session(1)
    again = MatrixFolder(folder.path)
    assert again.plan() == PLAN
    assert again.done() == [done(0), done(1), done(2)]
    assert again.seconds() == pytest.approx(13.3)
    assert again.machine() == {"machine": "2 cores"}


def test_two_matrices_of_one_second_have_folders_of_their_own_and_the_last_is_the_latest(tmp_path):
    first, second = (MatrixFolder.create(tmp_path, PLAN, {}) for _ in range(2))
    assert first.path != second.path
    assert (tmp_path / "latest-matrix").resolve() == second.path


def test_a_line_that_was_cut_short_was_never_done_and_takes_nothing_with_it(folder):
    folder.append(done(0))
    progress = folder.path / "progress.jsonl"
    with progress.open("ab") as file:
        file.write(orjson.dumps({"unit": {}})[:-5])
    assert folder.done() == [done(0)]
    folder.append(done(1))
    assert folder.done() == [done(0), done(1)]


def test_damage_elsewhere_is_told_with_its_line(folder):
    (folder.path / "progress.jsonl").write_bytes(b"nonsense\n{}\n")
    with pytest.raises(HistoryError, match="line 1"):
        folder.done()


def test_a_folder_of_something_else_is_told_apart(tmp_path):
    with pytest.raises(HistoryError, match=r"no matrix\.json"):
        MatrixFolder(tmp_path).plan()
    with pytest.raises(HistoryError, match=r"no progress\.jsonl"):
        MatrixFolder(tmp_path).done()


def test_only_one_process_works_on_a_matrix(folder):
    with folder.alone(), pytest.raises(PlanError, match="another process"), MatrixFolder(folder.path).alone():
        pass
    with folder.alone():
        pass
