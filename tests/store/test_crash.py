"""The promises of the store against SIGKILL, many processes, full disks and damaged files."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import trajstore
from tests.store import workers
from trajstore.errors import CorruptStoreError, SnapshotError, TrajstoreError, WriteError
from trajstore.store import verify_store

KILLS = 200


def acknowledged(path: Path) -> set[str]:
    """Whole lines only: a last one that was cut is no acknowledgement."""
    text = path.read_text() if path.exists() else ""
    return set(text.split("\n")[:-1])


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_over_200_kills(tmp_path: Path) -> None:
    chance = random.Random(20261130)
    uri, acks = str(tmp_path / "pool"), tmp_path / "acks"
    store = trajstore.open(uri)
    for kill in range(KILLS):
        before = len(acknowledged(acks))
        process = workers.start(workers.append_for_ever, uri, str(acks), f"k{kill}")
        deadline = time.monotonic() + 30
        if kill % 4:
            while len(acknowledged(acks)) == before and time.monotonic() < deadline:
                time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.08))
        process.kill()
        process.join()
        stored = workers.check_whole(store)
        assert acknowledged(acks) <= stored
        if kill % 50 == 49:
            store.compact()
    assert len(acknowledged(acks)) > KILLS // 2
    assert store.verify().ok


@pytest.mark.slow
def test_kills_in_the_middle_of_compact_and_delete_lose_nothing(tmp_path: Path) -> None:
    chance = random.Random(7)
    uri = str(tmp_path / "pool")
    store = trajstore.open(uri)
    names = [f"r{n}" for n in range(40)]
    for name in names:
        store.append(workers.run(name))
    for _ in range(30):
        process = workers.start(workers.tidy_for_ever, uri)
        time.sleep(chance.uniform(0.1, 0.5))
        process.kill()
        process.join()
        assert set(names) <= workers.check_whole(store)
    assert store.verify().ok


def test_a_kill_leaves_only_files_that_vacuum_removes(tmp_path: Path) -> None:
    store = trajstore.open(tmp_path / "pool")
    store.append(workers.run("a"))
    orphan = tmp_path / "pool/trajectories/record=step/part-orphan.parquet"
    entry = tmp_path / "pool/trajectories/_delta_log/_commit_killed.json.tmp"
    for left in (orphan, entry):
        left.write_bytes(b"half a file")
    from datetime import timedelta

    store.vacuum(retention=timedelta(days=1))
    assert orphan.exists()
    assert entry.exists()
    store.vacuum(retention=timedelta(0))
    assert not orphan.exists()
    assert not entry.exists()
    assert workers.check_whole(store) == {"a"}


@pytest.mark.parametrize("writers", [4, pytest.param(8, marks=pytest.mark.slow)])
def test_many_processes_append_at_once_and_a_reader_never_sees_a_part(
    tmp_path: Path, writers: int
) -> None:
    uri = str(tmp_path / "pool")
    store = trajstore.open(uri)
    acks = [tmp_path / f"acks{n}" for n in range(writers)]
    processes = [
        workers.start(workers.append_for_ever, uri, str(acks[n]), f"w{n}", 15)
        for n in range(writers)
    ]
    looks = 0
    while any(p.is_alive() for p in processes):
        done = set().union(*(acknowledged(a) for a in acks))
        assert done <= workers.check_whole(store)
        looks += 1
    assert [p.exitcode for p in processes] == [0] * writers
    assert looks > 2
    assert len(workers.check_whole(store)) == writers * sum(1 + n % 3 for n in range(15))


def test_the_same_import_by_four_processes_gives_one_copy(tmp_path: Path) -> None:
    uri = str(tmp_path / "pool")
    store = trajstore.open(uri)
    names = [f"r{n}" for n in range(12)]
    orders = [names, names[::-1], names[6:] + names[:6], names[::2] + names[1::2]]
    processes = [workers.start(workers.append_all, uri, order) for order in orders]
    for process in processes:
        process.join()
    assert [p.exitcode for p in processes] == [0] * 4
    assert workers.check_whole(store) == set(names)
    assert store.sql("select count(*) from steps").fetchall() == [(3 * 12,)]


def test_versions_of_one_run_from_four_processes_leave_the_longest_once(tmp_path: Path) -> None:
    uri = str(tmp_path / "pool")
    store = trajstore.open(uri)
    processes = [workers.start(workers.append_versions, uri, most) for most in (6, 7, 8, 9)]
    for process in processes:
        process.join()
    assert [p.exitcode for p in processes] == [0] * 4
    assert workers.check_whole(store) == {"growing"}
    assert store.sql("select n_steps from trajectories").fetchall() == [(9,)]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file may grow beyond ``size`` bytes: the disk is full, as far as a writer can tell."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_fails_the_append_and_leaves_nothing_behind(tmp_path: Path) -> None:
    store = trajstore.open(tmp_path / "pool")
    store.append(workers.run("a"))
    before = sorted((tmp_path / "pool").rglob("*.parquet"))
    with largest_file(2_000), pytest.raises(WriteError, match="Nothing of this batch is visible"):
        store.append([workers.run(f"b{n}", steps=40) for n in range(50)])
    assert sorted((tmp_path / "pool").rglob("*.parquet")) == before
    assert workers.check_whole(store) == {"a"}
    assert store.append(workers.run("b")).added == 1


def fill(store: trajstore.Pool, kept: set[str]) -> None:
    for n in range(10_000):
        store.append(workers.run(f"r{n}", steps=50))
        kept.add(f"r{n}")


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_disk_that_is_really_full_loses_nothing_acknowledged(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk], check=False)
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        store = trajstore.open(disk / "pool")
        kept: set[str] = set()
        with pytest.raises(TrajstoreError):
            fill(store, kept)
        assert kept
        assert workers.check_whole(trajstore.open(disk / "pool")) == kept
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to write as")
def test_a_read_only_folder_is_named(tmp_path: Path) -> None:
    store = trajstore.open(tmp_path / "pool")
    store.append(workers.run("a"))
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o077:
            folder.chmod(0o755)
    for path in (tmp_path / "pool").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (tmp_path / "pool").chmod(0o755)
    result = tmp_path / "out"
    result.touch()
    result.chmod(0o666)
    workers.start(workers.append_as_nobody, str(tmp_path / "pool"), str(result)).join()
    assert result.read_text().startswith("WriteError")
    assert "Permission denied" in result.read_text()
    assert workers.check_whole(store) == {"a"}


def step_file(root: Path) -> Path:
    return next(root.glob("trajectories/record=step/*.parquet"))


def test_a_flipped_byte_is_found_and_only_its_runs_are_left_out(tmp_path: Path) -> None:
    store = trajstore.open(tmp_path / "pool")
    store.append([workers.run("a"), workers.run("b")])
    damaged = step_file(tmp_path / "pool")
    store.append(workers.run("c"))
    raw = bytearray(damaged.read_bytes())
    raw[60] ^= 0xFF
    damaged.write_bytes(raw)
    report = store.verify()
    assert not report.ok
    assert damaged.name in report.problems[0]
    assert report.lost == ("a", "b")
    assert store.verify(repair=True).repaired
    assert workers.check_whole(trajstore.open(tmp_path / "pool")) == {"c"}
    assert store.verify().ok


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    store = trajstore.open(tmp_path / "pool")
    store.append(workers.run("a"))
    step_file(tmp_path / "pool").unlink()
    with pytest.raises((SnapshotError, CorruptStoreError), match="verify"):
        trajstore.open(tmp_path / "pool").sql("select count(*) from steps").fetchall()
    assert store.verify(repair=True).lost == ("a",)
    assert store.append(workers.run("a")).added == 1


def test_a_log_entry_that_never_reached_the_disk_is_set_aside(tmp_path: Path) -> None:
    store = trajstore.open(tmp_path / "pool")
    store.append(workers.run("a"))
    store.append(workers.run("b"))
    newest = max((tmp_path / "pool/trajectories/_delta_log").glob("*.json"))
    newest.write_bytes(b"")
    report = verify_store(tmp_path / "pool", repair=True)
    assert "not a whole log entry" in report.problems[0]
    assert workers.check_whole(trajstore.open(tmp_path / "pool")) == {"a"}


def test_durable_appends_sync_data_folders_and_log(tmp_path: Path) -> None:
    program = (
        "import sys, trajstore; from tests.store import workers; "
        "store = trajstore.open(sys.argv[1]); open(sys.argv[1] + '/mark', 'w').close(); "
        "store.append(workers.run('a'))"
    )
    trace = tmp_path / "trace"
    if subprocess.run(["which", "strace"], capture_output=True, check=False).returncode:
        pytest.skip("strace is not installed")
    command = ["strace", "-f", "-y", "-e", "trace=fsync,linkat,openat", "-o", str(trace)]
    subprocess.run([*command, sys.executable, "-c", program, str(tmp_path / "pool")], check=True)
    lines = trace.read_text().splitlines()
    start = next(n for n, line in enumerate(lines) if '/mark"' in line)
    synced = [line for line in lines[start:] if "fsync(" in line]
    commit = next(n for n, line in enumerate(lines[start:]) if "linkat(" in line)
    data = [n for n, line in enumerate(lines[start:]) if "fsync(" in line and ".parquet>" in line]
    assert len(data) == 2
    assert max(data) < commit
    assert any("record=step>" in line for line in synced)
    log = [n for n, line in enumerate(lines[start:]) if "fsync(" in line and "_delta_log" in line]
    assert ".json" in lines[start + log[0]]
    assert "_delta_log>" in lines[start + log[-1]]
    assert log[0] < commit < log[-1]


def test_a_checkpoint_that_never_reached_the_disk_hides_nothing(tmp_path: Path) -> None:
    store = trajstore.open(tmp_path / "pool")
    names = {f"r{n}" for n in range(12)}
    for name in sorted(names):
        store.append(workers.run(name))
    log = tmp_path / "pool/trajectories/_delta_log"
    newest = max(log.glob("*.checkpoint.parquet"))
    newest.write_bytes(b"")
    with pytest.raises(TrajstoreError, match="verify"):
        trajstore.open(tmp_path / "pool")
    report = verify_store(tmp_path / "pool", repair=True)
    assert newest.name in report.problems[0]
    assert workers.check_whole(trajstore.open(tmp_path / "pool")) == names
