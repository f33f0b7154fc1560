from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from trajstore import Label, Pool, Step, Trajectory
from trajstore import open as open_store
from trajstore.errors import SnapshotError, StoreError, StoreFormatError, StoreNotFoundError
from trajstore.store.layout import PAGE_ROWS
from trajstore.testing import generate

NOTHING = timedelta(0)


def files(pool: Pool) -> list[Path]:
    return sorted(Path(pool.root.uri).glob("trajectories/record=*/*.parquet"))


def filled(pool: Pool, n: int = 12, commits: int = 4) -> list[Trajectory]:
    runs = list(generate(n, seed=7))
    for at in range(commits):
        pool.append(runs[at::commits])
    return runs


def rows(pool: Pool) -> list[tuple[object, ...]]:
    return pool.sql("select * from steps order by trajectory_id, step_index").fetchall()


def test_compact_joins_files_and_changes_no_row(pool: Pool) -> None:
    filled(pool)
    before = rows(pool)
    report = pool.compact()
    assert (report.files_before, report.files_after) == (8, 2)
    assert rows(pool) == before


def test_compact_twice_does_nothing_the_second_time(pool: Pool) -> None:
    filled(pool)
    first = pool.compact()
    assert pool.compact().snapshot == first.snapshot


def test_compact_drops_replaced_versions(pool: Pool) -> None:
    steps = (Step(actor="agent", text="x"),)
    for n in (1, 2, 3):
        pool.append(Trajectory(trajectory_id="a", task_id="t", source="s", steps=steps * n))
    assert pool.compact().rows_dropped == (1 + 1) + (1 + 2)
    assert len(rows(pool)) == 3
    assert not pool.reader().snapshot.of_record("tombstone")


def test_a_dry_run_writes_nothing(pool: Pool) -> None:
    filled(pool)
    before = files(pool)
    pool.compact(dry_run=True)
    pool.delete("true", dry_run=True)
    pool.vacuum(retention=NOTHING, dry_run=True)
    assert files(pool) == before


def pages(path: Path) -> int:
    """Data pages of the first column, by the first bytes of their headers in Thrift."""
    column = pq.read_metadata(path).row_group(0).column(0)
    raw = path.read_bytes()[column.data_page_offset :][: column.total_compressed_size]
    return raw.count(b"\x15\x00\x15")


def test_every_kind_of_write_keeps_small_pages(pool: Pool) -> None:
    for seed in (1, 2):
        pool.append(generate(150, seed=seed))
    for _ in ("appended", "compacted"):
        for path in files(pool):
            column = pq.read_metadata(path).row_group(0).column(0)
            assert column.has_offset_index
            assert pages(path) >= column.num_values / PAGE_ROWS
        pool.compact()


def test_a_deleted_run_is_gone_at_once_from_every_view_and_snapshot(pool: Pool) -> None:
    runs = filled(pool)
    before = pool.snapshot()
    gone = runs[0].trajectory_id
    pool.label([Label(trajectory_id=gone, evaluator="x", success=True)])
    report = pool.delete(f"trajectory_id = '{gone}'")
    assert (report.trajectories, report.labels) == (1, 1)
    for view in ("trajectories", "steps", "labels", "tool_calls", "messages"):
        query = f"select count(*) from {view} where trajectory_id = '{gone}'"
        assert pool.sql(query).fetchall() == [(0,)]
        assert pool.at(before).sql(query).fetchall() == [(0,)]
    assert pool.get(gone) is None


def test_a_deleted_run_can_be_imported_again(pool: Pool) -> None:
    runs = filled(pool)
    pool.delete(f"trajectory_id = '{runs[0].trajectory_id}'")
    assert pool.append(runs[0]).added == 1
    assert pool.get(runs[0].trajectory_id) is not None


def test_vacuum_removes_every_byte_of_a_deleted_run(pool: Pool) -> None:
    secret = "the-secret-that-must-go"
    pool.append(
        Trajectory(
            trajectory_id="a", task_id="t", source="s", steps=(Step(actor="user", text=secret),)
        )
    )
    kept = filled(pool)
    pool.delete("trajectory_id = 'a'")
    pool.vacuum(retention=timedelta(hours=999))
    for path in files(pool):
        table = pq.read_table(path, partitioning=None)
        assert secret not in str(table.to_pydict())
    assert pool.sql("select count(*) from trajectories").fetchall() == [(len(kept),)]


def test_a_pin_survives_compact_and_vacuum(pool: Pool) -> None:
    filled(pool)
    before = rows(pool)
    pool.pin("kept")
    pool.append(generate(5, seed=99))
    pool.compact()
    pool.vacuum(retention=NOTHING)
    pinned = pool.at("kept").sql("select * from steps order by trajectory_id, step_index")
    assert pinned.fetchall() == before


def test_vacuum_takes_files_of_side_tables_that_a_join_left(pool: Pool) -> None:
    for n in range(55):
        pool.rank_evaluators([f"judge-{n}"])
    settings = Path(pool.root.uri) / "settings"
    before = len(list(settings.glob("*.parquet")))
    pool.vacuum(retention=NOTHING)
    assert len(list(settings.glob("*.parquet"))) < before
    assert pool.evaluator_ranking() == ["judge-54"]


def test_without_a_pin_vacuum_takes_the_old_snapshot(pool: Pool) -> None:
    filled(pool)
    old = pool.snapshot()
    pool.compact()
    pool.vacuum(retention=NOTHING)
    with pytest.raises(SnapshotError, match=r"vacuum"):
        pool.at(old).sql("select count(*) from steps where text like '%x%'").fetchall()


def test_a_delete_breaks_a_pin_at_vacuum_and_says_so(pool: Pool) -> None:
    runs = filled(pool)
    pool.pin("kept")
    pool.delete(f"trajectory_id = '{runs[0].trajectory_id}'")
    assert pool.vacuum().pins_broken == ("kept",)
    with pytest.raises(SnapshotError, match=r"'kept' is broken: .* deleted and vacuumed"):
        pool.at("kept")


def test_an_unpinned_name_is_unknown(pool: Pool) -> None:
    filled(pool)
    pool.pin("kept")
    pool.unpin("kept")
    with pytest.raises(SnapshotError, match="There is no pin 'kept'"):
        pool.at("kept")


def test_a_snapshot_that_never_was_is_named(pool: Pool) -> None:
    with pytest.raises(SnapshotError, match="Snapshot 99 does not exist"):
        pool.at(99)


def test_history_names_operations_and_pins(pool: Pool) -> None:
    filled(pool, commits=1)
    pool.pin("first")
    pool.compact()
    listed = pool.snapshots()
    assert [e["operation"] for e in listed] == ["append", "create table"]
    assert listed[0]["pins"] == ["first"]


def test_there_is_no_store_in_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError, match="no trajectory store"):
        open_store(tmp_path / "none", create=False)


def test_a_foreign_delta_table_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path / "pool/trajectories"), pa.table({"a": [1]}))
    with pytest.raises(StoreFormatError, match="trajstore did not make it"):
        open_store(tmp_path / "pool")


def test_a_newer_format_is_refused_with_the_way_out(pool: Pool) -> None:
    log = Path(pool.root.uri) / "trajectories/_delta_log/00000000000000000000.json"
    log.write_text(log.read_text().replace('format_version":"2"', 'format_version":"7"'))
    with pytest.raises(StoreFormatError, match=r"format version 7.*pip install --upgrade"):
        open_store(pool.root.uri)


@pytest.mark.parametrize("name", ["a[b", "a%20b", "a*b", "a?b"])
def test_a_path_that_the_format_cannot_take_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="cannot take"):
        open_store(tmp_path / name)


def test_skills_are_kept_once_and_replaced_by_nothing(pool: Pool) -> None:
    from trajstore import Skill

    skill = Skill(name="mine", code="function mine() {}", language="javascript", source="test")
    assert pool.add_skills([skill]) == 1
    assert pool.add_skills([skill]) == 0
    assert pool.sql("select name, language from skills").fetchall() == [("mine", "javascript")]


def test_a_table_with_features_that_we_do_not_honour_is_refused(pool: Pool) -> None:
    log = Path(pool.root.uri) / "trajectories/_delta_log"
    protocol = (
        '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,'
        '"readerFeatures":["columnMapping"],"writerFeatures":["columnMapping"]}}\n'
    )
    (log / f"{1:020d}.json").write_text(protocol)
    with pytest.raises(StoreError, match=r"columnMapping"):
        open_store(pool.root.uri)


def test_a_dry_vacuum_counts_what_a_delete_will_take(pool: Pool) -> None:
    runs = filled(pool)
    pool.delete(f"trajectory_id = '{runs[0].trajectory_id}'")
    assert pool.vacuum(dry_run=True).files_removed == 2
    assert pool.at(4).sql("select count(*) from steps").fetchall()[0][0] > 0


def test_a_file_cut_off_is_an_error_that_says_verify(pool: Pool) -> None:
    filled(pool, commits=1)
    next(p for p in files(pool) if "record=step" in str(p)).write_bytes(b"PAR1")
    with pytest.raises(SnapshotError, match="verify"):
        pool.sql("select count(*) from steps").fetchall()
