"""A store written before steps had flat columns."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.store import version_1, workers
from trajstore import Pool, Trajectory
from trajstore import open as open_store
from trajstore.errors import StoreFormatError
from trajstore.schema import SCHEMA_VERSION
from trajstore.testing import generate, sample_trajectories

RUNS = [*generate(12, seed=3), *sample_trajectories(6, seed=3)]
QUERIES = [
    "select * exclude imported_at from trajectories order by trajectory_id",
    "select * from steps order by trajectory_id, step_index",
    "select * from tool_calls order by trajectory_id, step_index, call_index",
    "select * from messages",
    "select * from tasks order by task_id",
]


@pytest.fixture
def old(tmp_path: Path) -> Pool:
    version_1.write_store(tmp_path / "old", [RUNS[::2], RUNS[1::2]])
    return open_store(tmp_path / "old", durable=False)


def same(pool: Pool, runs: list[Trajectory]) -> None:
    fresh = open_store(f"{pool.root.uri}-fresh", durable=False)
    fresh.append(runs)
    for query in QUERIES:
        assert pool.query(query).read_all().equals(fresh.query(query).read_all()), query
    assert pool.get_many([r.trajectory_id for r in runs]) == runs


def version(pool: Pool) -> str:
    table = DeltaTable(f"{pool.root.uri}/trajectories")
    return table.metadata().configuration["trajstore.format_version"] or ""


def test_it_is_read_as_it_is(old: Pool) -> None:
    same(old, RUNS)
    assert version(old) == "1"
    assert old.verify().ok


def test_the_first_write_makes_it_one_of_this_version(old: Pool) -> None:
    more = [workers.run("new")]
    assert old.append([*more, RUNS[0]]).already == 1
    assert version(old) == str(SCHEMA_VERSION)
    same(old, [*RUNS, old.get_many(["new"])[0]])


def test_the_columns_of_the_new_version_are_there_for_other_readers(old: Pool) -> None:
    old.append(workers.run("new"))
    table = DeltaTable(f"{old.root.uri}/trajectories")
    assert {"shape", "observation"} <= {f.name for f in table.schema().fields}


def test_compact_gives_its_steps_flat_columns_and_changes_no_row(old: Pool) -> None:
    old.append(workers.run("new"))
    old.compact()
    files = old.reader().snapshot.of_record("step")
    assert [f.is_flat for f in files] == [True]
    same(old, [*RUNS, old.get_many(["new"])[0]])
    old.vacuum(retention=timedelta(0))
    assert old.verify().ok


def test_an_older_snapshot_of_it_stays_readable(old: Pool) -> None:
    before = old.snapshot()
    old.append(workers.run("new"))
    assert old.at(before).sql("select count(*) from trajectories").fetchall() == [(len(RUNS),)]
    assert old.at(before).get(RUNS[0].trajectory_id) == RUNS[0]


def test_delete_and_replace_work_on_its_rows(old: Pool) -> None:
    gone = RUNS[3].trajectory_id
    old.delete(f"trajectory_id = '{gone}'")
    assert old.get(gone) is None
    kept = [r for r in RUNS if r.trajectory_id != gone]
    assert workers.check_whole(old) == {r.trajectory_id for r in kept}


def test_processes_that_come_at_once_bring_it_to_this_version_once(old: Pool) -> None:
    names = [[f"{writer}-{n}" for n in range(4)] for writer in "abc"]
    processes = [workers.start(workers.append_all, old.root.uri, listed) for listed in names]
    for process in processes:
        process.join()
    assert [p.exitcode for p in processes] == [0, 0, 0]
    assert len(workers.check_whole(old)) == len(RUNS) + 12
    assert version(old) == str(SCHEMA_VERSION)


def test_a_version_that_never_was_is_refused(old: Pool) -> None:
    log = Path(old.root.uri) / "trajectories/_delta_log/00000000000000000000.json"
    log.write_text(log.read_text().replace('format_version":"1"', 'format_version":"0"'))
    with pytest.raises(StoreFormatError, match="never existed"):
        open_store(old.root.uri)
