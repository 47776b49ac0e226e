"""Data directories: a table's directory bears its id, and a name may have several."""

from __future__ import annotations

from clusters.data_directories import table_directories

ID = "5a1c395e4d0411efb4c5c1b2e1a1f0aa"
OTHER = "6b2d406f4d0411efb4c5c1b2e1a1f0bb"


def a_file(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def test_a_table_is_found_under_its_name_and_id(tmp_path):
    a_file(tmp_path / "ks" / f"t-{ID}" / "nb-1-big-Data.db")
    assert table_directories(tmp_path) == [("ks", "t", ID, True, [])]


def test_two_ids_of_one_name_are_two_directories(tmp_path):
    (tmp_path / "ks" / f"t-{OTHER}").mkdir(parents=True)
    a_file(tmp_path / "ks" / f"t-{ID}" / "nb-1-big-Data.db")
    assert table_directories(tmp_path) == [("ks", "t", ID, True, []), ("ks", "t", OTHER, False, [])]


def test_a_dropped_table_s_snapshots_are_evidence_but_not_live(tmp_path):
    a_file(tmp_path / "ks" / f"t-{ID}" / "snapshots" / "dropped-1700000000000-t" / "nb-1-big-Data.db")
    a_file(tmp_path / "ks" / f"t-{ID}" / "snapshots" / "before" / "nb-1-big-Data.db")
    assert table_directories(tmp_path) == [("ks", "t", ID, False, ["before", "dropped-1700000000000-t"])]


def test_files_of_an_index_do_not_make_a_table_live(tmp_path):
    a_file(tmp_path / "ks" / f"t-{ID}" / ".t_v_idx" / "nb-1-big-Data.db")
    a_file(tmp_path / "ks" / f"t-{ID}" / "backups" / "nb-1-big-Data.db")
    a_file(tmp_path / "ks" / f"t-{ID}" / "nb-1-big-Index.db")
    assert table_directories(tmp_path) == [("ks", "t", ID, False, [])]


def test_the_server_s_own_keyspaces_are_left_out(tmp_path):
    for keyspace in ("system", "system_schema", "system_auth", "system_cluster_metadata", "system_traces"):
        (tmp_path / keyspace / f"t-{ID}").mkdir(parents=True)
    (tmp_path / "systems" / f"t-{ID}").mkdir(parents=True)
    assert [found[0] for found in table_directories(tmp_path)] == ["systems"]


def test_what_is_no_table_s_directory_is_passed_over(tmp_path):
    for name in (f"t-{ID[:-1]}", f"t-{ID}0", f"t-{ID.upper()}", "t-x", f"-{ID}"):
        (tmp_path / "ks" / name).mkdir(parents=True)
    a_file(tmp_path / "ks-file")
    assert table_directories(tmp_path) == []


def test_keyspaces_and_tables_come_in_order(tmp_path):
    for keyspace, table in (("b", "t2"), ("b", "t1"), ("a", "z")):
        (tmp_path / keyspace / f"{table}-{ID}").mkdir(parents=True)
    assert [found[:2] for found in table_directories(tmp_path)] == [("a", "z"), ("b", "t1"), ("b", "t2")]


def test_a_node_without_data_has_no_directories(tmp_path):
    assert table_directories(tmp_path / "never") == []
