from __future__ import annotations

import threading
import time
from collections.abc import Iterable

import pytest

from tests.store.workers import check_whole, run
from trajstore import Label, Pool, Trajectory
from trajstore.errors import WriteError
from trajstore.store import AppendReport, TrajectoryWriter


def count(pool: Pool) -> int:
    rows = pool.sql("select count(*) from trajectories").fetchall()
    return int(rows[0][0])


def test_nothing_is_written_before_a_limit_or_a_flush(pool: Pool) -> None:
    writer = pool.writer(max_seconds=0)
    writer.append(run("a"))
    assert count(pool) == 0
    writer.flush()
    assert count(pool) == 1


def test_leaving_the_block_writes_the_rest_in_one_commit(pool: Pool) -> None:
    before = pool.snapshot()
    with pool.writer(max_seconds=0) as writer:
        for n in range(20):
            writer.append(run(f"r{n}"))
        writer.append(Label(trajectory_id="r0", evaluator="e", success=True))
    assert count(pool) == 20
    assert pool.snapshot() == before + 1
    assert [(r.added, r.labels) for r in writer.reports] == [(20, 1)]


def test_rows_count_steps_too(pool: Pool) -> None:
    writer = pool.writer(max_rows=10, max_seconds=0)
    writer.append(run("a", steps=3))
    writer.append(run("b", steps=3))
    assert count(pool) == 0
    writer.append(run("c", steps=3))
    assert count(pool) == 3


def test_bytes_are_a_limit(pool: Pool) -> None:
    writer = pool.writer(max_bytes=100, max_seconds=0)
    writer.append(run("a" * 50))
    assert count(pool) == 1


def test_seconds_are_a_limit(pool: Pool) -> None:
    writer = pool.writer(max_seconds=0.05)
    writer.append(run("a"))
    deadline = time.monotonic() + 20
    while count(pool) == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert count(pool) == 1


def append_and_fail(pool: Pool) -> None:
    with pool.writer(max_seconds=0) as writer:
        writer.append(run("a"))
        raise ZeroDivisionError


def test_what_was_appended_before_an_error_in_the_block_is_kept(pool: Pool) -> None:
    with pytest.raises(ZeroDivisionError):
        append_and_fail(pool)
    assert count(pool) == 1


def test_a_closed_writer_takes_no_more(pool: Pool) -> None:
    writer = pool.writer()
    writer.close()
    with pytest.raises(WriteError, match="closed"):
        writer.append(run("a"))


class Flaky:
    """Fails the first time, then works."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.failures = 1

    def __call__(self, items: Iterable[Trajectory | Label]) -> AppendReport:
        if self.failures:
            self.failures -= 1
            raise WriteError("disk full")
        return self.pool.append(items)


def test_a_failed_commit_keeps_its_rows_for_the_next_one(pool: Pool) -> None:
    writer = TrajectoryWriter(Flaky(pool), max_seconds=0)
    writer.append(run("a"))
    with pytest.raises(WriteError, match="disk full"):
        writer.flush()
    writer.append(run("b"))
    writer.flush()
    assert check_whole(pool) == {"a", "b"}


def test_threads_may_share_a_writer(pool: Pool) -> None:
    with pool.writer(max_rows=30, max_seconds=0.02) as writer:

        def work(name: int) -> None:
            for n in range(25):
                writer.append(run(f"{name}-{n}"))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(check_whole(pool)) == 100


def test_a_running_trajectory_grows_in_place(pool: Pool) -> None:
    from dataclasses import replace

    for steps in (1, 2, 3):
        pool.append(replace(run("a", steps=steps), status="running"))
    pool.append(replace(run("a", steps=4), status="terminated"))
    rows = pool.sql("select n_steps, status from trajectories").fetchall()
    assert rows == [(4, "terminated")]
