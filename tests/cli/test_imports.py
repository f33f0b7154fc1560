"""``trajstore import`` and ``formats``."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import HOSTILE, Cli, Terminals
from trajstore import Pool
from trajstore import open as open_store
from trajstore.importers import importers

GOOD = '{"trajectory_id": "r1", "steps": [{"actor": "user", "text": "hi"}]}\n'
BAD = '{"trajectory_id": "r2", "steps": [{"actor": "alien"}]}\n'


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A good record, one of a wrong actor, one that is no JSON."""
    file = tmp_path / "mixed.jsonl"
    file.write_text(GOOD + BAD + "{broken\n")
    return file


def test_the_airline_file(cli: Cli, real_data: Path, tmp_path: Path) -> None:
    file = real_data / "tau_bench" / "gpt-4o-airline.json"
    report = json.loads(cli("import", tmp_path / "pool", file, "--json").out)
    assert report["trajectories"] == report["added"] == 200
    assert report["formats"] == {"tau-bench": {"files": 1, "trajectories": 200}}
    assert (report["bad"], report["ignored"], report["problems"]) == (0, 0, [])


def test_importing_again_adds_nothing(cli: Cli, airline: Path, real_data: Path) -> None:
    ran = cli("import", airline, real_data / "tau_bench", "--json")
    report = json.loads(ran.out)
    assert ran.code == 0
    assert (report["added"], report["already"]) == (0, 200)


def test_the_report_for_people_leaves_zeros_out(cli: Cli, mixed: Path, tmp_path: Path) -> None:
    ran = cli("import", tmp_path / "pool", mixed)
    assert ran.code == 0
    assert ran.out == (
        "format           files  trajectories  bad\n"
        "───────────────  ─────  ────────────  ───\n"
        "trajstore-jsonl      1             1    2\n"
        "\n"
        "files         1\ntrajectories  1\nadded         1\nsteps         1\nbad           2\n"
        "snapshot      1\n"
    )


def test_a_bad_record_is_named_by_file_line_and_reason(
    cli: Cli, mixed: Path, tmp_path: Path
) -> None:
    first, second = cli("import", tmp_path / "pool", mixed).err.splitlines()
    assert first.startswith(f"bad: {mixed}:2: ")
    assert "'alien'" in first
    assert second.startswith(f"bad: {mixed}:3: not JSON")
    assert open_store(tmp_path / "pool").get("r1") is not None


def test_strict_stops_at_the_first_bad_record(cli: Cli, mixed: Path, tmp_path: Path) -> None:
    ran = cli("import", tmp_path / "pool", mixed, "--strict")
    assert ran.code == 1
    assert f"{mixed}:2: " in ran.err
    assert open_store(tmp_path / "pool").get("r1") is not None


def test_only_the_first_problems_are_listed_bad_ones_before_ignored_ones(
    cli: Cli, tmp_path: Path
) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "z.jsonl").write_text(GOOD + BAD * 15)
    for i in range(6):
        (folder / f"a{i}.txt").write_text("prose")
    lines = cli("import", tmp_path / "pool", folder).err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["bad"] * 11 + ["ignored"] * 4
    assert lines[10] == "bad: 5 more; --json lists them"
    assert lines[14] == "ignored: 3 more; --json lists them"


def test_another_outcome_of_a_stored_run_is_counted_and_named(cli: Cli, tmp_path: Path) -> None:
    for name, reward in (("old", 0), ("new", 1)):
        (tmp_path / f"{name}.jsonl").write_text(GOOD.replace("}]}", f'}}], "reward": {reward}}}'))
    cli("import", tmp_path / "pool", tmp_path / "old.jsonl")
    ran = cli("import", tmp_path / "pool", tmp_path / "new.jsonl")
    assert "already       1\nconflicting   1\n" in ran.out
    assert ran.err == (
        f"conflicting: {tmp_path}/new.jsonl#L1: record r1: same run, another outcome: reward 1; "
        "the stored one (reward 0) stays; add this one with `trajstore label`\n"
    )


def test_json_lists_every_problem_and_says_nothing_else(
    cli: Cli, mixed: Path, tmp_path: Path
) -> None:
    ran = cli("import", tmp_path / "pool", mixed, "--json")
    assert [(p["kind"], p["line"]) for p in json.loads(ran.out)["problems"]] == [
        ("bad", 2),
        ("bad", 3),
    ]
    assert ran.err == ""


def test_nothing_recognised_is_a_no(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("some prose")
    ran = cli("import", tmp_path / "pool", file)
    assert ran.code == 1
    assert f"ignored: {file}: no importer recognises it" in ran.err
    assert "nothing was imported" in ran.err


def test_an_empty_folder_is_a_no(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ran = cli("import", tmp_path / "pool", tmp_path / "empty")
    assert ran.code == 1
    assert "nothing was imported" in ran.err


def test_skills_alone_are_something(cli: Cli, real_data: Path, tmp_path: Path) -> None:
    ran = cli("import", tmp_path / "pool", real_data / "voyager", "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["skills"] == 103


@pytest.mark.parametrize(
    "wrong",
    [
        ["nowhere.json"],
        ["no*.json"],
        ["--map", "success", "HERE"],
        ["--format", "nope", "HERE"],
        ["--success-threshold", "high", "HERE"],
        [],
    ],
)
def test_wrong_usage_makes_no_store(
    wrong: list[str], cli: Cli, mixed: Path, tmp_path: Path
) -> None:
    ran = cli("import", tmp_path / "pool", *(str(mixed) if w == "HERE" else w for w in wrong))
    assert ran.code == 2
    assert ran.out == ""
    assert not (tmp_path / "pool").exists()


def test_an_unknown_format_is_answered_with_the_known_ones(
    cli: Cli, mixed: Path, tmp_path: Path
) -> None:
    err = cli("import", tmp_path / "pool", mixed, "--format", "nope").err
    assert "There is no format 'nope'" in err
    assert "swe-agent" in err


def test_dash_is_stdin_and_is_called_so(cli: Cli, tmp_path: Path) -> None:
    ran = cli("import", tmp_path / "pool", "-", stdin=GOOD + BAD)
    assert ran.err.startswith("bad: stdin:2: ")
    run = open_store(tmp_path / "pool").get("r1")
    assert run is not None
    assert run.source_uri == "stdin#L1"


def test_globs_and_several_paths(cli: Cli, tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"r{i}.jsonl").write_text(GOOD.replace("r1", f"r{i}"))
    ran = cli(
        "import", tmp_path / "pool", f"{tmp_path}/r[01].jsonl", tmp_path / "r2.jsonl", "--json"
    )
    report = json.loads(ran.out)
    assert (report["files"], report["added"]) == (3, 3)


def test_what_the_files_do_not_say_is_taken_from_the_options(cli: Cli, tmp_path: Path) -> None:
    record = GOOD.replace('"steps"', '"reward": 0.7, "steps"')
    options = ("--agent", "a", "--model", "m", "--environment", "e", "--success-threshold", "0.5")
    cli("import", tmp_path / "pool", "-", *options, stdin=record)
    run = open_store(tmp_path / "pool").get("r1")
    assert run is not None
    assert (run.agent, run.model, run.environment, run.success) == ("a", "m", "e", True)


def test_columns_of_a_table_are_mapped(cli: Cli, tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]
    rows = pa.table({"dialog": [talk], "verdict": [True], "nr": ["q7"]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    named = ["messages=dialog", "success=verdict", "task_id=nr"]
    options = [word for pair in named for word in ("--map", pair)]
    assert cli("import", tmp_path / "pool", tmp_path / "rows.parquet", *options).code == 0
    (run,) = open_store(tmp_path / "pool").scan()
    assert (run.success, len(run.steps), run.steps[1].text) == (True, 2, "4")
    assert "q7" in run.task_id


def test_keys_are_redacted_unless_told_otherwise(cli: Cli, pool: Pool, tmp_path: Path) -> None:
    del pool
    key = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
    record = GOOD.replace('"hi"', f'"my key is {key}"')
    ran = cli("import", tmp_path / "pool", "-", stdin=record)
    assert "secrets" in ran.out
    assert key not in cli("show", tmp_path / "pool", "r1").out
    cli("import", tmp_path / "other", "-", "--no-redact", stdin=record)
    assert key in cli("show", tmp_path / "other", "r1").out


def test_a_hostile_file_name_cannot_steer_the_terminal(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / f"x{HOSTILE.replace('/', '')}.jsonl"
    file.write_text(BAD)
    ran = cli("import", tmp_path / "pool", file)
    assert ran.code == 1
    assert "␛[2J" in ran.err
    assert not set(ran.out + ran.err) & set("\x1b\x07\x9b\u202e\r")


def test_progress_shows_on_a_terminal_only(
    terminal: Terminals, process: Cli, mixed: Path, tmp_path: Path
) -> None:
    file = tmp_path / "[red]brackets[blue].jsonl"
    file.write_text(GOOD)
    screen = terminal("import", tmp_path / "pool", file)
    assert screen.ended() == 0
    assert "looking for trajectories" in screen.seen
    assert "looking" not in process("import", tmp_path / "pool2", mixed).err


def test_an_interrupted_import_says_what_stays(
    cli: Cli, mixed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Pool, "import_files", interrupted)
    ran = cli("import", tmp_path / "pool", mixed)
    assert ran.code == 130
    assert ran.err == "what was written so far stays; importing again adds the rest\ninterrupted\n"


def test_formats_lists_every_importer_with_what_it_reads(cli: Cli) -> None:
    out = cli("formats").out
    heads = [line.split()[0] for line in out.splitlines() if not line.startswith(" ")]
    assert heads == list(importers())
    assert max(map(len, out.splitlines())) <= 100


def test_formats_as_json_lines(cli: Cli) -> None:
    rows = [json.loads(line) for line in cli("formats", "--json").out.splitlines()]
    assert [r["format"] for r in rows] == list(importers())
    assert all(r["what"] and r["reads"] for r in rows)
