from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable, TableFeatures

import trajstore
from tests.store import workers
from trajstore.store.commit import newest
from trajstore.store.layout import Location
from trajstore.store.log_entry import NextSnapshot, write_entry
from trajstore.store.snapshot import Snapshot


def log(root: Path) -> Path:
    return root / "pool/trajectories/_delta_log"


def table(root: Path) -> Location:
    return Location.of(root / "pool/trajectories")


def engine(root: Path, version: int) -> str:
    first = (log(root) / f"{version:020d}.json").read_text().split("\n", 1)[0]
    return str(json.loads(first)["commitInfo"]["engineInfo"])


def test_the_snapshot_after_an_append_is_what_the_log_says(tmp_path: Path) -> None:
    store = trajstore.open(tmp_path / "pool")
    for n in range(12):
        store.append(workers.run(f"r{n}", steps=1 + n))
        store.append(workers.run(f"r{n}", steps=2 + n))
        known, read = store._appender._seen, Snapshot.load(table(tmp_path))
        assert isinstance(known, NextSnapshot)
        assert (known.version, known.files) == (read.version, read.files)
        assert known.dead.equals(read.dead)


def test_delta_rs_writes_every_tenth_entry_with_a_checkpoint(tmp_path: Path) -> None:
    store = trajstore.open(tmp_path / "pool")
    for n in range(20):
        store.append(workers.run(f"r{n}"))
    by_delta = [v for v in range(21) if engine(tmp_path, v).startswith("delta-rs")]
    assert by_delta == [0, 9, 19]
    assert len(list(log(tmp_path).glob("*.checkpoint.parquet"))) == 2


def test_delta_rs_reads_what_was_written_by_hand(tmp_path: Path) -> None:
    store = trajstore.open(tmp_path / "pool")
    store.append(workers.run("a"))
    delta = DeltaTable(table(tmp_path).uri)
    assert delta.transaction_version("trajstore") == delta.version() == 1
    assert delta.history(1)[0]["trajstore"] == "append"
    assert delta.to_pyarrow_table(columns=["trajectory_id"]).column(0).to_pylist()[-1] == "a"


def test_two_handles_that_take_turns_lose_nothing(tmp_path: Path) -> None:
    stores = [trajstore.open(tmp_path / "pool") for _ in range(2)]
    for n in range(14):
        assert stores[n % 2].append(workers.run(f"r{n}")).snapshot == n + 1
    assert workers.check_whole(stores[0]) == {f"r{n}" for n in range(14)}


def test_a_version_that_is_taken_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    store = trajstore.open(tmp_path / "pool")
    store.append(workers.run("a"))
    before = sorted(log(tmp_path).iterdir())
    entry = (log(tmp_path) / f"{1:020d}.json").read_bytes()
    with pytest.raises(FileExistsError):
        write_entry(
            table(tmp_path), 1, [], application="trajstore", operation="append", durable=True
        )
    assert sorted(log(tmp_path).iterdir()) == before
    assert (log(tmp_path) / f"{1:020d}.json").read_bytes() == entry


def test_a_table_of_a_newer_protocol_is_left_to_delta_rs(tmp_path: Path) -> None:
    store = trajstore.open(tmp_path / "pool")
    store.append(workers.run("a"))
    delta = DeltaTable(table(tmp_path).uri)
    delta.alter.add_feature(TableFeatures.AppendOnly, allow_protocol_versions_increase=True)
    store.append(workers.run("b"))
    assert engine(tmp_path, 3).startswith("delta-rs")
    assert workers.check_whole(store) == {"a", "b"}


def test_a_known_snapshot_whose_entry_is_gone_is_read_again(tmp_path: Path) -> None:
    store = trajstore.open(tmp_path / "pool")
    for n in range(3):
        store.append(workers.run(f"r{n}"))
    known = Snapshot.load(table(tmp_path))
    (log(tmp_path) / f"{3:020d}.json").rename(tmp_path / "aside")
    assert newest(table(tmp_path), known).version == 2
