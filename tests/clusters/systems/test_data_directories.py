"""Data directories: a table's directory bears its id, and a name may have several; older lines had no ids, or no folders."""

from __future__ import annotations

import subprocess
from typing import get_args

import pytest

from schemaquake.clusters.systems.data_directories import DEPTH, table_directories, tables_listed
from schemaquake.clusters.systems.recipe import Layout

ID = "5a1c395e4d0411efb4c5c1b2e1a1f0aa"
OTHER = "6b2d406f4d0411efb4c5c1b2e1a1f0bb"


def a_file(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def test_a_table_is_found_under_its_name_and_id(tmp_path):
    a_file(tmp_path / "ks" / f"t-{ID}" / "nb-1-big-Data.db")
    assert table_directories(tmp_path, "folders-with-ids") == [("ks", "t", ID, True, [])]


def test_two_ids_of_one_name_are_two_directories(tmp_path):
    (tmp_path / "ks" / f"t-{OTHER}").mkdir(parents=True)
    a_file(tmp_path / "ks" / f"t-{ID}" / "nb-1-big-Data.db")
    assert table_directories(tmp_path, "folders-with-ids") == [("ks", "t", ID, True, []), ("ks", "t", OTHER, False, [])]


def test_a_dropped_table_s_snapshots_are_evidence_but_not_live(tmp_path):
    a_file(tmp_path / "ks" / f"t-{ID}" / "snapshots" / "dropped-1700000000000-t" / "nb-1-big-Data.db")
    a_file(tmp_path / "ks" / f"t-{ID}" / "snapshots" / "before" / "nb-1-big-Data.db")
    assert table_directories(tmp_path, "folders-with-ids") == [
        ("ks", "t", ID, False, ["before", "dropped-1700000000000-t"])
    ]


def test_files_of_an_index_do_not_make_a_table_live(tmp_path):
    a_file(tmp_path / "ks" / f"t-{ID}" / ".t_v_idx" / "nb-1-big-Data.db")
    a_file(tmp_path / "ks" / f"t-{ID}" / "backups" / "nb-1-big-Data.db")
    a_file(tmp_path / "ks" / f"t-{ID}" / "nb-1-big-Index.db")
    assert table_directories(tmp_path, "folders-with-ids") == [("ks", "t", ID, False, [])]


def test_the_server_s_own_keyspaces_are_left_out(tmp_path):
    for keyspace in ("system", "system_schema", "system_auth", "system_cluster_metadata", "system_traces"):
        (tmp_path / keyspace / f"t-{ID}").mkdir(parents=True)
    (tmp_path / "systems" / f"t-{ID}").mkdir(parents=True)
    assert [found[0] for found in table_directories(tmp_path, "folders-with-ids")] == ["systems"]


def test_what_is_no_table_s_directory_is_passed_over(tmp_path):
    for name in (f"t-{ID[:-1]}", f"t-{ID}0", f"t-{ID.upper()}", "t-x", f"-{ID}"):
        (tmp_path / "ks" / name).mkdir(parents=True)
    a_file(tmp_path / "ks-file")
    assert table_directories(tmp_path, "folders-with-ids") == []


def test_keyspaces_and_tables_come_in_order(tmp_path):
    for keyspace, table in (("b", "t2"), ("b", "t1"), ("a", "z")):
        (tmp_path / keyspace / f"{table}-{ID}").mkdir(parents=True)
    assert [found[:2] for found in table_directories(tmp_path, "folders-with-ids")] == [
        ("a", "z"),
        ("b", "t1"),
        ("b", "t2"),
    ]


@pytest.mark.parametrize("layout", get_args(Layout))
def test_a_node_without_data_has_no_directories(tmp_path, layout):
    assert table_directories(tmp_path / "never", layout) == []


def test_up_to_2_0_a_folder_bears_its_name_alone(tmp_path):
    a_file(tmp_path / "ks" / "t" / "ks-t-ic-1-Data.db")
    a_file(tmp_path / "ks" / "t" / "snapshots" / "1700000000000-t" / "ks-t-ic-1-Data.db")
    (tmp_path / "ks" / "empty").mkdir()
    (tmp_path / "system" / "schema_columns").mkdir(parents=True)
    assert table_directories(tmp_path, "folders") == [
        ("ks", "empty", None, False, []),
        ("ks", "t", None, True, ["1700000000000-t"]),
    ]


@pytest.mark.parametrize("file", ["ks-t.t_v_idx-ic-1-Data.db", "ks-t-tmp-ic-1-Data.db", "ks-t-tmplink-ka-1-Data.db"])
@pytest.mark.parametrize(("layout", "folder"), [("folders", "t"), ("folders-with-ids", f"t-{ID}")])
def test_files_of_an_index_or_not_finished_yet_do_not_make_a_table_live(tmp_path, file, layout, folder):
    a_file(tmp_path / "ks" / folder / file)
    ((*_, live, _),) = table_directories(tmp_path, layout)
    assert not live
    a_file(tmp_path / "ks" / folder / "ks-t-ic-2-Data.db")
    ((*_, live, _),) = table_directories(tmp_path, layout)
    assert live


def test_a_table_named_for_what_does_not_last_lives_all_the_same(tmp_path):
    a_file(tmp_path / "ks" / "tmp_t" / "ks-tmp_t-ic-1-Data.db")
    assert table_directories(tmp_path, "folders") == [("ks", "tmp_t", None, True, [])]


def test_up_to_1_0_a_table_is_known_by_its_files(tmp_path):
    for name in ("t-g-1-Data.db", "t-g-1-Index.db", "t-hc-12-Data.db", "u.u_v_idx-g-1-Data.db", "w-tmp-g-1-Data.db"):
        a_file(tmp_path / "ks" / name)
    a_file(tmp_path / "ks" / "snapshots" / "1700000000000-t" / "t-g-1-Data.db")
    a_file(tmp_path / "ks" / "snapshots" / "1700000000001-gone" / "gone-g-1-Data.db")
    a_file(tmp_path / "system" / "Schema-g-1-Data.db")
    assert table_directories(tmp_path, "files") == [
        ("ks", "gone", None, False, ["1700000000001-gone"]),
        ("ks", "t", None, True, ["1700000000000-t"]),
    ]


@pytest.mark.parametrize("layout", get_args(Layout))
def test_a_listing_made_elsewhere_says_the_same_as_the_folder_itself(tmp_path, layout):
    for folder in (f"t-{ID}", "t", "snapshots/before", f"t-{ID}/snapshots/before", "t/snapshots/after"):
        a_file(tmp_path / "ks" / folder / "t-g-1-Data.db")
    a_file(tmp_path / "ks" / "t-g-2-Data.db")
    a_file(tmp_path / "system" / "t-g-2-Data.db")
    listing = subprocess.run(
        ["find", ".", "-maxdepth", str(DEPTH), "(", "-type", "d", "-o", "-name", "*-Data.db", ")"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    here = table_directories(tmp_path, layout)
    assert here
    assert tables_listed(listing, layout) == here
    assert tables_listed([*listing, *listing], layout) == here
