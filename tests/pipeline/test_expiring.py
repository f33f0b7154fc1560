"""What is over is hidden; the borders are those of the ``expiry`` stage (604,800 s is not over)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import trajstore
from trajstore import Pool, Step, Trajectory
from trajstore.errors import QueryError, WriteError

NOW = datetime(2026, 3, 8, tzinfo=UTC)
WEEK = timedelta(days=7)


def run(name: str, **times: datetime) -> Trajectory:
    steps = (Step(actor="user", text="Hi"),)
    return Trajectory(trajectory_id=name, task_id="t", source="s", steps=steps, **times)


def store_of(folder: Path, *runs: Trajectory) -> Pool:
    store = trajstore.open(folder / "pool", durable=False)
    store.append(list(runs))
    return store


def left(store: Pool) -> list[str]:
    return [r[0] for r in store.sql("select trajectory_id from trajectories order by 1").fetchall()]


def test_a_run_past_its_expires_at_goes_and_one_at_it_stays(tmp_path: Path) -> None:
    second = timedelta(seconds=1)
    store = store_of(
        tmp_path,
        run("at", expires_at=NOW),
        run("never"),
        run("past", expires_at=NOW - second),
        run("yet", expires_at=NOW + second),
    )
    assert store.expire(now=NOW).trajectories == 1
    assert left(store) == ["at", "never", "yet"]


def test_an_age_counts_from_the_end_else_the_start(tmp_path: Path) -> None:
    second = timedelta(seconds=1)
    store = store_of(
        tmp_path,
        run("a-week", ended_at=NOW - WEEK),
        run("long-running", started_at=NOW - 2 * WEEK, ended_at=NOW),
        run("over", ended_at=NOW - WEEK - second),
        run("started", started_at=NOW - 2 * WEEK),
    )
    assert store.expire(older_than=WEEK, now=NOW).trajectories == 2
    assert left(store) == ["a-week", "long-running"]


def test_a_condition_narrows_and_a_dry_run_only_counts(tmp_path: Path) -> None:
    store = store_of(tmp_path, run("a", ended_at=NOW - WEEK), run("b", ended_at=NOW - WEEK))
    day = timedelta(days=1)
    asked = {"older_than": day, "now": NOW, "where": "trajectory_id = 'a' OR false"}
    assert store.expire(**asked, dry_run=True).trajectories == 1
    assert left(store) == ["a", "b"]
    store.expire(**asked)
    assert left(store) == ["b"]


def test_a_negative_age_and_a_broken_condition_are_refused(tmp_path: Path) -> None:
    store = store_of(tmp_path, run("a", ended_at=NOW - WEEK))
    with pytest.raises(WriteError, match="age of 0 or more"):
        store.expire(older_than=timedelta(-1))
    with pytest.raises(QueryError):
        store.expire(where="nonsense = 1")
