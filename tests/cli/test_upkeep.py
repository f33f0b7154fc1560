"""``trajstore snapshots``, ``verify``, ``compact``, ``vacuum`` and ``delete``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from trajstore import Skill
from trajstore import open as open_store

COUNT = "select count(*) n from trajectories"


def count(cli: Cli, store: Path, *more: str) -> int:
    return int(json.loads(cli("query", store, COUNT, "--json", *more).out)["n"])


def damaged(store: Path) -> Path:
    """Cut the file of the steps short."""
    (file,) = (store / "trajectories" / "record=step").glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-10])
    return file


def test_snapshots_come_newest_first(cli: Cli, small_pool: Path) -> None:
    lines = cli("snapshots", small_pool).out.splitlines()
    assert lines[0].split() == ["snapshot", "at", "operation", "pins"]
    assert [line.split()[0] for line in lines[2:]] == ["1", "0"]
    assert "append" in lines[2]
    assert "Z  " in lines[2]


def test_snapshots_as_json_lines(cli: Cli, small_pool: Path) -> None:
    rows = [json.loads(line) for line in cli("snapshots", small_pool, "--json").out.splitlines()]
    assert [r["snapshot"] for r in rows] == [1, 0]
    assert rows[0]["operation"] == "append"
    assert cli("snapshots", small_pool, "--json", "--limit", "1").out.count("\n") == 1


def test_a_pin_has_a_name_and_may_move_and_go(cli: Cli, small: Path) -> None:
    ran = cli("snapshots", small, "--pin", "first")
    assert ran.err == "pinned snapshot 1 as first\n"
    assert ran.out.splitlines()[2].endswith("append        first")
    moved = cli("snapshots", small, "--pin", "first", "--at", "0").err
    assert moved == "pinned snapshot 0 as first; it was 1 until now\n"
    assert "unpinned first" in cli("snapshots", small, "--unpin", "first").err
    assert "first" not in cli("snapshots", small).out


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--at", "0"], 2, "--at goes with --pin"),
        (["--limit", "0"], 2, "--limit"),
        (["--unpin", "nope"], 1, "There is no pin 'nope'"),
        (["--pin", "7"], 1, "not a number"),
        (["--pin", "x", "--at", "99"], 1, "Snapshot 99"),
    ],
)
def test_pins_that_cannot_be(
    options: list[str], code: int, said: str, cli: Cli, small: Path
) -> None:
    ran = cli("snapshots", small, *options)
    assert ran.code == code
    assert said in ran.err


def test_verify_a_whole_store(cli: Cli, small_pool: Path) -> None:
    ran = cli("verify", small_pool)
    assert ran.code == 0
    assert ran.out.startswith("ok        yes\nsnapshot  1\n")
    assert ran.err == ""


@pytest.mark.parametrize("depth", [[], ["--quick"]])
def test_verify_says_no_and_what_to_do(depth: list[str], cli: Cli, small: Path) -> None:
    file = damaged(small)
    ran = cli("verify", small, *depth)
    assert ran.code == 1
    assert ran.out.startswith("ok        no\n")
    assert file.name in ran.err
    assert "--repair takes the damaged files, and with them 3 trajectories, out" in ran.err


def test_verify_as_json_lists_what_is_lost(cli: Cli, small: Path) -> None:
    damaged(small)
    ran = cli("verify", small, "--json")
    report = json.loads(ran.out)
    assert ran.code == 1
    assert (report["ok"], report["lost"]) == (False, ["a1", "a2", "b1"])


def test_repair_makes_the_store_whole_again(cli: Cli, small: Path) -> None:
    damaged(small)
    ran = cli("verify", small, "--repair")
    assert ran.code == 0
    assert "repaired: 3 trajectories left out" in ran.err
    assert cli("verify", small).code == 0
    assert count(cli, small) == 0


def test_many_problems_are_not_all_listed(cli: Cli, airline: Path) -> None:
    damaged(airline)
    lines = cli("verify", airline).err.splitlines()
    assert len(lines) == 12
    assert lines[10] == "... and 191 more; --json lists them"


def appended(store: Path, times: int) -> None:
    pool = open_store(store, durable=False)
    for i in range(times):
        pool.append({"trajectory_id": f"n{i}", "steps": [{"actor": "user", "text": "x"}]})


def test_compact_joins_files_and_a_dry_run_does_not(cli: Cli, small: Path) -> None:
    appended(small, 3)
    dry = cli("compact", small, "--dry-run")
    assert dry.out == "snapshot      4\nfiles_before  8\nfiles_after   2\nrows_dropped  0\n"
    assert "nothing was written" in dry.err
    assert json.loads(cli("compact", small, "--json").out) == {
        "snapshot": 5,
        "files_before": 8,
        "files_after": 2,
        "rows_dropped": 0,
    }
    assert cli("compact", small).err == "there is nothing to join\n"
    assert count(cli, small) == 6


def test_vacuum_removes_what_no_snapshot_names(cli: Cli, small: Path) -> None:
    appended(small, 3)
    cli("compact", small)
    dry = cli("vacuum", small, "--retention-hours", "0", "--dry-run")
    assert dry.out.startswith("files_removed  8\n")
    assert "nothing was removed" in dry.err
    assert len(list(small.glob("trajectories/record=*/*.parquet"))) == 10
    assert cli("vacuum", small, "--retention-hours", "0").out.startswith("files_removed  8\n")
    assert len(list(small.glob("trajectories/record=*/*.parquet"))) == 2
    assert count(cli, small) == 6


def test_a_pin_survives_compact_and_vacuum(cli: Cli, small: Path) -> None:
    cli("snapshots", small, "--pin", "keep")
    appended(small, 2)
    cli("compact", small)
    cli("vacuum", small, "--retention-hours", "0")
    assert count(cli, small, "--at", "keep") == 3


def test_delete_hides_at_once_and_a_dry_run_only_counts(cli: Cli, small: Path) -> None:
    dry = cli("delete", small, "--where", "task_id = 't/a'", "--dry-run")
    assert "2 trajectories would be hidden; nothing was written" in dry.err
    assert count(cli, small) == 3
    ran = cli("delete", small, "--where", "task_id = 't/a'")
    assert ran.code == 0
    assert ran.out == "snapshot      2\ntrajectories  2\nlabels        0\n"
    assert "hidden in every snapshot" in ran.err
    assert count(cli, small) == 1
    assert count(cli, small, "--at", "1") == 1


def test_delete_says_how_much_memory_goes_with_the_runs(cli: Cli, small: Path) -> None:
    store = open_store(small)
    (run, *_), *_ = store.sql("SELECT trajectory_id FROM trajectories").fetchall()
    lua = {"language": "lua", "source": "t", "trajectory_ids": (run,)}
    store.add_skills([Skill(name="one", code="x", **lua)])
    where = ("--where", f"trajectory_id = '{run}'")
    assert "memory that would be removed: 1 skills" in cli("delete", small, *where, "--dry-run").err
    ran = cli("delete", small, *where, "--json")
    assert json.loads(ran.out)["memory_removed"] == {"skills": 1}
    assert "memory removed: 1 skills" in ran.err
    assert store.memory("skills").num_rows == 0


def test_delete_keeps_memory_where_told_to(cli: Cli, small: Path) -> None:
    store = open_store(small)
    runs = tuple(r for (r,) in store.sql("SELECT trajectory_id FROM trajectories").fetchall())
    store.add_skills([Skill(name="one", code="x", language="lua", source="t", trajectory_ids=runs)])
    assert "memory" not in cli("delete", small, "--where", "true", "--keep-memory").err
    assert store.memory("skills").num_rows == 1


def test_vacuum_after_delete_breaks_the_pin_and_says_so(cli: Cli, small: Path) -> None:
    cli("snapshots", small, "--pin", "keep")
    cli("delete", small, "--where", "task_id = 't/a'")
    ran = cli("vacuum", small)
    assert "the pin 'keep' held deleted trajectories and is broken" in ran.err
    assert "keep (broken)" in cli("snapshots", small).out
    assert "is broken" in cli("query", small, COUNT, "--at", "keep").err


def test_delete_of_nothing_says_so(cli: Cli, small: Path) -> None:
    ran = cli("delete", small, "--where", "task_id = 'nope'")
    assert ran.code == 0
    assert ran.err == "no trajectory fits the condition\n"


def test_expire_hides_what_is_older_than_said(cli: Cli, small: Path) -> None:
    assert (
        "3 trajectories would be hidden"
        in cli("expire", small, "--older-than", "0", "--dry-run").err
    )
    assert cli("expire", small).err == "no trajectory fits the condition\n"
    ran = cli("expire", small, "--older-than", "0", "--where", "task_id = 't/a'")
    assert "2 trajectories hidden in every snapshot" in ran.err
    assert count(cli, small) == 1


@pytest.mark.parametrize(
    ("options", "code"), [(["--where", " "], 2), ([], 2), (["--where", "nonsense = 1"], 1)]
)
def test_delete_needs_a_condition_that_works(
    options: list[str], code: int, cli: Cli, small: Path
) -> None:
    ran = cli("delete", small, *options)
    assert ran.code == code
    assert count(cli, small) == 3


def test_a_condition_cannot_reach_beyond_the_views(cli: Cli, small: Path) -> None:
    for where in ("true); drop table x; --", "exists (from read_csv('/etc/passwd'))"):
        assert cli("delete", small, "--where", where).code == 1
    assert count(cli, small) == 3
