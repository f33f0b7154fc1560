from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.store.workers import run
from trajstore import Pool, Trajectory
from trajstore.errors import SnapshotError
from trajstore.store import lookup
from trajstore.store.layout import parquet_options
from trajstore.store.lookup import Lookup
from trajstore.testing import generate


def filled(pool: Pool, n: int = 40, commits: int = 3) -> list[Trajectory]:
    runs = list(generate(n, seed=11))
    for at in range(commits):
        pool.append(runs[at::commits])
    return runs


def without_time(run_: Trajectory) -> Trajectory:
    from dataclasses import replace

    return replace(run_, imported_at=None)


def test_every_run_comes_back_alone_and_together(pool: Pool) -> None:
    runs = filled(pool)
    together = pool.get_many([r.trajectory_id for r in runs])
    alone = [pool.get(r.trajectory_id) for r in runs]
    assert together == alone
    assert [without_time(r) for r in together] == [without_time(r) for r in runs]


def test_the_order_is_that_of_the_ids_and_unknown_ones_are_left_out(pool: Pool) -> None:
    runs = filled(pool)
    ids = [r.trajectory_id for r in runs]
    asked = [ids[5], "no-such-run", ids[1], ids[5], ""]
    assert [r.trajectory_id for r in pool.get_many(asked)] == [ids[5], ids[1], ids[5]]


def test_tables_say_what_sql_says(pool: Pool) -> None:
    runs = filled(pool)
    ids = [r.trajectory_id for r in runs[::3]]
    rows, steps = pool.reader().tables(ids)
    listed = ", ".join(f"'{i}'" for i in ids)
    where = f"where trajectory_id in ({listed}) order by trajectory_id"
    assert steps.equals(
        pool.query(f"select * from steps {where}, step_index").read_all().cast(steps.schema)
    )
    columns = ", ".join(rows.column_names)
    assert rows.equals(
        pool.query(f"select {columns} from trajectories {where}").read_all().cast(rows.schema)
    )


def test_no_ids_give_empty_tables_of_the_right_schema(pool: Pool) -> None:
    filled(pool)
    rows, steps = pool.reader().tables([])
    assert (len(rows), len(steps)) == (0, 0)
    assert steps.schema.field("tool_calls").type.value_type.field("name").type == pa.string()


def test_only_the_living_version_of_a_run_comes_back(pool: Pool) -> None:
    pool.append([run("a", steps=2), run("b", steps=2)])
    pool.append(run("a", steps=5))
    pool.delete("trajectory_id = 'b'")
    assert [len(r.steps) for r in pool.get_many(["a", "b"])] == [5]


def test_a_run_that_two_row_groups_share_comes_back_whole(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trajstore.store.parts.ROW_GROUP_ROWS", 7)
    pool.append([run(name, steps=5) for name in "abcd"])
    assert [len(r.steps) for r in pool.get_many([*"abcd"])] == [5] * 4
    assert pool.reader().tables(["b"])[1].column("step_index").to_pylist() == [*range(5)]


def test_a_file_that_another_tool_left_unsorted_is_read_right(pool: Pool) -> None:
    pool.append([run(name, steps=2 + n) for n, name in enumerate("abc")])
    for path in Path(pool.root.uri).glob("trajectories/record=*/*.parquet"):
        rows = pq.ParquetFile(path).read()
        mixed = pa.concat_tables([rows.slice(n, 1) for n in reversed(range(len(rows)))])
        pq.write_table(mixed, path, **parquet_options(mixed))
    assert [len(r.steps) for r in pool.get_many(["a", "b", "c"])] == [2, 3, 4]
    assert pool.reader().tables(["c"])[1].column("step_index").to_pylist() == [*range(4)]


def test_what_is_remembered_of_files_is_bounded(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "_KNOWN_RUNS", 30)
    runs = filled(pool, commits=4)
    look = Lookup(pool.reader().snapshot, pa.array([], pa.int64()))
    for _ in range(2):
        for r in runs:
            assert len(look.values([r.trajectory_id])) == 1
            assert sum(len(i.ids) for i in look._indexed.values()) <= 30


def test_threads_may_share_it(pool: Pool) -> None:
    runs = filled(pool)
    wrong: list[str] = []

    def work(offset: int) -> None:
        for r in runs[offset:] + runs[:offset]:
            found = pool.get(r.trajectory_id)
            if found is None or len(found.steps) != len(r.steps):
                wrong.append(r.trajectory_id)

    threads = [threading.Thread(target=work, args=(7 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"x" * 500])
def test_a_damaged_file_is_an_error_that_says_verify(pool: Pool, damage: bytes) -> None:
    runs = filled(pool, n=3, commits=1)
    path = next(Path(pool.root.uri).glob("trajectories/record=step/*.parquet"))
    path.write_bytes(damage)
    with pytest.raises(SnapshotError, match="verify"):
        pool.get(runs[0].trajectory_id)
