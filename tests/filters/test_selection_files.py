from __future__ import annotations

import io
import json
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from tests.filters.frames import summaries
from trajstore.errors import SelectionError
from trajstore.filters import Selection, run_stages, stage
from trajstore.filters.selection_files import MANIFEST_KEY, dropped_path

FRAME = summaries({"success": True}, {"success": False}, {"success": True, "n_steps": 9})


def selection() -> Selection:
    return run_stages(FRAME, [stage("success"), stage("steps", most=5)], snapshot=3)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    selection().write(tmp_path / "best.parquet")
    assert Selection.read(tmp_path / "best.parquet") == selection()


def test_equal_selections_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        selection().write(tmp_path / f"{name}.parquet")
    for ending in ("parquet", "dropped.parquet"):
        one, two = (tmp_path / f"{n}.{ending}" for n in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


def test_the_manifest_tells_snapshot_recipe_funnel_and_hash_of_the_ids(tmp_path: Path) -> None:
    selection().write(tmp_path / "best.parquet")
    manifest = json.loads(pq.read_schema(tmp_path / "best.parquet").metadata[MANIFEST_KEY])
    assert manifest["snapshot"] == 3
    assert manifest["recipe"][1] == {"stage": "steps", "least": None, "most": 5}
    assert [s["after"] for s in manifest["funnel"]] == [2, 1]
    # sha256 of "a" and a newline, from `printf 'a\n' | sha256sum`
    assert manifest["ids_sha256"].startswith("87428fc522803d31065e7bce3cf03fe4")


def test_any_engine_reads_only_what_was_taken(tmp_path: Path) -> None:
    selection().write(tmp_path / "best.parquet")
    query = f"SELECT trajectory_id FROM '{tmp_path / 'best.parquet'}'"
    with duckdb.connect() as connection:
        assert connection.execute(query).fetchall() == [("a",)]


def test_a_selection_goes_through_a_stream_without_its_dropped_list() -> None:
    stream = io.BytesIO()
    selection().write(stream)
    read = Selection.read(io.BytesIO(stream.getvalue()))
    assert (read.ids(), read.funnel, read.recipe) == (
        ["a"],
        selection().funnel,
        selection().recipe,
    )
    assert read.dropped.num_rows == 0


def test_the_dropped_list_may_be_missing(tmp_path: Path) -> None:
    selection().write(tmp_path / "best.parquet")
    dropped_path(tmp_path / "best.parquet").unlink()
    assert Selection.read(tmp_path / "best.parquet").dropped.num_rows == 0


def test_a_dropped_list_of_another_selection_is_refused(tmp_path: Path) -> None:
    selection().write(tmp_path / "a.parquet")
    run_stages(FRAME, [stage("status")]).write(tmp_path / "b.parquet")
    dropped_path(tmp_path / "b.parquet").replace(dropped_path(tmp_path / "a.parquet"))
    with pytest.raises(SelectionError, match="not the dropped list of"):
        Selection.read(tmp_path / "a.parquet")


def test_ids_changed_after_the_selection_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "best.parquet"
    selection().write(path)
    table = pq.read_table(path)
    pq.write_table(table.slice(0, 0).replace_schema_metadata(table.schema.metadata), path)
    with pytest.raises(SelectionError, match="changed after it was selected"):
        Selection.read(path)


def test_other_files_are_refused_with_what_they_are(tmp_path: Path) -> None:
    pq.write_table(FRAME.rows, tmp_path / "plain.parquet")
    (tmp_path / "text").write_text("ids")
    for name, what in (
        ("plain.parquet", "no selection"),
        ("text", "no Parquet file"),
        ("none", "There is no"),
    ):
        with pytest.raises(SelectionError, match=what):
            Selection.read(tmp_path / name)


def test_a_newer_form_is_refused(tmp_path: Path) -> None:
    metadata = {MANIFEST_KEY: b'{"format":99}'}
    pq.write_table(FRAME.rows.replace_schema_metadata(metadata), tmp_path / "new.parquet")
    with pytest.raises(SelectionError, match="newer trajstore"):
        Selection.read(tmp_path / "new.parquet")


def test_writing_leaves_no_other_file(tmp_path: Path) -> None:
    selection().write(tmp_path / "deep" / "best.parquet")
    names = sorted(p.name for p in (tmp_path / "deep").iterdir())
    assert names == ["best.dropped.parquet", "best.parquet"]
