from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import trajstore
from trajstore import ImportOptions, Pool
from trajstore.errors import ImportFormatError, RecordError
from trajstore.importers import Importer, Item, Source, importer

KEY = "AKIA" + "IOSFODNN7EXAMPLQ"


def line(text: str = "hello", **changes: object) -> str:
    steps = [{"actor": "user", "text": text}, {"actor": "agent", "text": "hi"}]
    return json.dumps({"task_id": "t/1", "steps": steps, **changes}) + "\n"


def written(folder: Path, content: str, name: str = "runs.jsonl") -> Path:
    path = folder / name
    path.write_text(content)
    return path


def test_a_bad_line_is_reported_with_its_place_and_costs_no_other(
    pool: Pool, tmp_path: Path
) -> None:
    path = written(tmp_path, line("a") + "{broken\n" + line("b"))
    report = pool.import_files(path)
    assert (report.added, report.bad) == (2, 1)
    assert (report.problems[0].source, report.problems[0].line) == (str(path), 2)
    assert "not JSON" in report.problems[0].reason


def test_strict_stops_at_the_first_bad_record_and_keeps_what_came_before(
    pool: Pool, tmp_path: Path
) -> None:
    path = written(tmp_path, line("a") + "{broken\n" + line("b"))
    with pytest.raises(RecordError, match=r"runs.jsonl:2: not JSON") as caught:
        pool.import_files(path, strict=True)
    assert caught.value.line == 2
    assert pool.sql("select count(*) from trajectories").fetchall() == [(1,)]


def test_a_file_that_breaks_off_costs_no_other(pool: Pool, tmp_path: Path) -> None:
    """What comes before the break is kept, and the file is named."""
    many = gzip.compress("".join(line(str(n)) for n in range(5000)).encode())
    written(tmp_path, line("a"), "a.jsonl")
    (tmp_path / "b.jsonl.gz").write_bytes(many[: len(many) // 2])
    (tmp_path / "c.jsonl.gz").write_bytes(many[:20])
    written(tmp_path, line("d"), "d.jsonl")
    report = pool.import_files(tmp_path)
    assert report.bad == 2
    assert report.added > 1000
    assert [Path(p.source).name for p in report.problems] == ["b.jsonl.gz", "c.jsonl.gz"]
    assert "EOFError" in report.problems[0].reason
    assert pool.sql("select count(*) from trajectories where goal in ('a', 'd')").fetchall() == [
        (2,)
    ]


def test_strict_names_the_file_that_breaks_off(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(line().encode())[:-6])
    with pytest.raises(RecordError, match=r"a\.jsonl\.gz: cannot be read to its end"):
        pool.import_files(tmp_path, strict=True)


def test_an_importer_that_fails_costs_only_that_file(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = importer("trajstore-jsonl")
    read = type(reader).read

    def failing(self: Importer, source: Source, options: ImportOptions) -> Iterator[Item]:
        for item in read(self, source, options):
            yield item
            if source.name == "a.jsonl":
                raise AttributeError("no such thing")

    monkeypatch.setattr(type(reader), "read", failing)
    written(tmp_path, line("a") + line("b"), "a.jsonl")
    written(tmp_path, line("c"), "c.jsonl")
    report = pool.import_files(tmp_path)
    assert (report.added, report.bad) == (2, 1)
    assert "AttributeError: no such thing" in report.problems[0].reason


def test_what_stops_the_store_stops_the_import(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(pool), "append", full)
    with pytest.raises(OSError, match="No space left"):
        pool.import_files(written(tmp_path, line()))


def test_what_a_folder_leaves_out_is_said(pool: Pool, tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    written(inside, line("a"), "a.jsonl")
    (tmp_path / "elsewhere").mkdir()
    (inside / "away").symlink_to(tmp_path / "elsewhere")
    (inside / "gone").symlink_to(inside / "nothing")
    report = pool.import_files(inside)
    assert (report.added, report.ignored, report.bad) == (1, 2, 0)
    said = {Path(p.source).name: p.reason for p in report.problems}
    assert "a link to a folder" in said["away"]
    assert said["gone"] == "a link to nothing"


def test_a_store_is_no_log_and_one_in_a_folder_is_left_out(pool: Pool, tmp_path: Path) -> None:
    trajstore.open(tmp_path / "in" / "store", create=True)
    assert pool.import_files(tmp_path / "in").problems == []
    (problem,) = pool.import_files(tmp_path / "in" / "store").problems
    assert "a trajectory store; query it" in problem.reason


def test_a_folder_that_cannot_be_listed_is_bad_and_costs_no_other(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "locked").mkdir()
    written(tmp_path, line("a"), "z.jsonl")
    scandir = os.scandir

    def refusing(path: Path) -> object:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    report = pool.import_files(tmp_path)
    assert (report.added, report.bad) == (1, 1)
    assert str(report.problems[0]) == f"{tmp_path}/locked: cannot be read: Permission denied"


def test_an_unknown_file_is_ignored_and_said_what_it_is(pool: Pool, tmp_path: Path) -> None:
    written(tmp_path, "hello", "notes.txt")
    written(tmp_path, "", "empty.json")
    written(tmp_path, "{", "broken.json")
    report = pool.import_files(tmp_path)
    assert report.ignored == 3
    said = {Path(p.source).name: p.reason for p in report.problems}
    assert "an empty file" in said["empty.json"]
    assert "text without a JSON value" in said["notes.txt"]


def test_a_path_that_is_not_there_is_an_error(pool: Pool, tmp_path: Path) -> None:
    with pytest.raises(ImportFormatError, match="nothing at"):
        pool.import_files(tmp_path / "none")


def test_an_unknown_format_is_answered_with_the_known_ones(pool: Pool, tmp_path: Path) -> None:
    with pytest.raises(ImportFormatError, match="Known formats"):
        pool.import_files(written(tmp_path, line()), format="nonsense")


def test_globs_and_stdin_are_read(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, line("a"), "a.jsonl")
    written(tmp_path, line("b"), "b.jsonl")
    assert pool.import_files(f"{tmp_path}/*.jsonl").added == 2
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(line("c").encode())))
    assert pool.import_files("-").added == 1


def test_what_the_user_says_fills_what_the_source_leaves_open(pool: Pool, tmp_path: Path) -> None:
    path = written(tmp_path, line("a") + line("b", agent="theirs"))
    pool.import_files(path, options=ImportOptions(agent="mine", environment="e", model="m"))
    rows = pool.sql("select agent, environment, model from trajectories order by 1").fetchall()
    assert rows == [("mine", "e", "m"), ("theirs", "e", "m")]


def test_secrets_are_replaced_and_counted(pool: Pool, tmp_path: Path) -> None:
    report = pool.import_files(written(tmp_path, line(f"my key is {KEY} ok")))
    assert report.secrets == {"aws-access-key-id": 2}, "in the step, and in the goal made of it"
    stored = pool.sql("select text from steps where actor = 'user'").fetchall()[0][0]
    assert KEY not in stored
    assert "[REDACTED:" in stored


def test_redaction_can_be_turned_off(pool: Pool, tmp_path: Path) -> None:
    report = pool.import_files(written(tmp_path, line(f"my key is {KEY} ok")), redact=False)
    assert not report.secrets
    assert KEY in pool.sql("select text from steps where actor = 'user'").fetchall()[0][0]


def test_a_step_whose_text_changed_drops_its_token_ids(pool: Pool, tmp_path: Path) -> None:
    steps = [{"actor": "agent", "text": KEY, "completion_token_ids": [1, 2], "logprobs": [-1, -2]}]
    steps.append({"actor": "agent", "text": "clean", "completion_token_ids": [3]})
    pool.import_files(
        written(tmp_path, json.dumps({"task_id": "t/1", "steps": steps}) + "\n" + line())
    )
    rows = pool.sql(
        "select completion_token_ids, logprobs from steps where trajectory_id in "
        "(select trajectory_id from steps where text = 'clean') order by step_index"
    )
    assert rows.fetchall() == [(None, None), ([3], None)]


def test_inline_media_move_to_blobs(pool: Pool, tmp_path: Path) -> None:
    picture = b"\x89PNG not really"
    data = base64.b64encode(picture).decode()
    name = hashlib.sha256(picture).hexdigest()
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
    ]
    row = {"messages": [{"role": "user", "content": parts}, {"role": "assistant", "content": "ok"}]}
    report = pool.import_files(written(tmp_path, json.dumps(row) + "\n" + json.dumps(row) + "\n"))
    assert report.media == 4
    content = pool.sql("select content from steps where content is not null").fetchall()[0][0]
    assert data not in content
    assert content.count(f"blob:sha256:{name}") == 2
    assert pool.blobs.names() == [name]
    assert pool.blobs.get(name) == picture


def test_blobs_of_a_deleted_run_go_with_the_vacuum(pool: Pool, tmp_path: Path) -> None:
    test_inline_media_move_to_blobs(pool, tmp_path)
    assert pool.vacuum().blobs_removed == 0
    pool.delete("true")
    assert pool.vacuum().blobs_removed == 1
    assert pool.blobs.names() == []


def test_a_large_observation_among_small_ones_goes_in_whole(pool: Pool, tmp_path: Path) -> None:
    big = "x" * 20_000_000
    path = tmp_path / "runs.jsonl"
    with path.open("w") as file:
        for n in range(20):
            file.write(line(f"small {n}"))
        file.write(line(big))
    assert pool.import_files(path).added == 21
    assert pool.sql("select max(length(text)) from steps").fetchall() == [(20_000_000,)]


def test_the_report_is_json(pool: Pool, tmp_path: Path) -> None:
    report = pool.import_files(written(tmp_path, line() + "{broken\n"))
    values = json.loads(json.dumps(report.as_dict()))
    assert values["added"] == 1
    assert values["problems"][0]["line"] == 2
    assert values["formats"] == {"trajstore-jsonl": {"files": 1, "trajectories": 1, "bad": 1}}


def test_a_run_that_does_not_fit_the_schema_costs_no_other(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from trajstore import Step, Trajectory
    from trajstore.importers.jsonl import TrajstoreJsonlImporter

    def runs(*_: object) -> list[Trajectory]:
        steps = [(Step(actor="agent", text="a"),)] * 5
        steps[1] = (Step(actor="agent", text=7),)  # type: ignore[arg-type]
        steps[3] = (Step(actor="agent", logprobs=("high",)),)  # type: ignore[arg-type]
        return [
            Trajectory(
                trajectory_id=f"r{n}", task_id="t/1", source="s", source_uri=f"x#{n}", steps=said
            )
            for n, said in enumerate(steps)
        ]

    monkeypatch.setattr(TrajstoreJsonlImporter, "convert", runs)
    report = pool.import_files(written(tmp_path, line()))
    assert (report.added, report.bad) == (3, 2)
    assert {p.source for p in report.problems} == {"x#1", "x#3"}


def test_memories_are_cleaned_of_secrets_too(pool: Pool, tmp_path: Path) -> None:
    folder = tmp_path / "skill"
    folder.mkdir()
    code = f"async function login(bot) {{ bot.key = '{KEY}'; }}"
    skills = {"login": {"code": code, "description": "logs in"}}
    (folder / "skills.json").write_text(json.dumps(skills))
    report = pool.import_files(folder, format="voyager")
    assert report.skills == 1
    assert report.secrets["aws-access-key-id"] == 1
    assert KEY not in pool.sql("select code from skills").fetchall()[0][0]


def test_a_vacuum_leaves_media_alone_that_an_import_is_about_to_name(pool: Pool) -> None:
    from datetime import timedelta

    from tests.store.workers import run

    pool.append(run("a"))
    pool.delete("true")
    name = pool.blobs.put(b"picture")
    assert pool.vacuum().blobs_removed == 0
    assert pool.blobs.names() == [name]
    assert pool.vacuum(retention=timedelta(0)).blobs_removed == 1


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"success": False, "reward": 0}, {"success": True, "reward": 1}, "success, reward 1"),
        ({"reward": 0}, {"reward": 0.5}, "reward 0.5"),
        ({"success": True}, {"success": True, "reward": 0.25}, "success, reward 0.25"),
    ],
)
def test_a_run_that_comes_again_with_another_outcome_is_named(
    pool: Pool, tmp_path: Path, before: dict[str, object], after: dict[str, object], words: str
) -> None:
    pool.import_files(written(tmp_path, line(trajectory_id="a", **before), "old.jsonl"))
    path = written(tmp_path, line("other") + line(trajectory_id="a", **after))
    report = pool.import_files(path, strict=True)
    assert (report.added, report.already, report.conflicting, report.bad) == (1, 1, 1, 0)
    (problem,) = report.problems
    assert (problem.kind, problem.source, problem.record) == ("conflicting", f"{path}#L2", "a")
    assert f"same run, another outcome: {words}; the stored one (" in problem.reason
    assert report.as_dict()["conflicting"] == 1


def test_two_equal_conversations_with_other_rewards_in_one_file_are_named(
    pool: Pool, tmp_path: Path
) -> None:
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    rows = [json.dumps({"messages": messages, "reward": r}) + "\n" for r in (0, 1, 1)]
    path = written(tmp_path, "".join(rows))
    report = pool.import_files(path)
    assert (report.added, report.already, report.conflicting) == (1, 2, 2)
    assert [p.source for p in report.problems] == [f"{path}#L2", f"{path}#L3"]
    assert "reward 1; the stored one (reward 0) stays" in report.problems[0].reason


@pytest.mark.parametrize(
    "after",
    [
        {"success": True, "reward": 1},
        {},
        {"reward": 1},
        {"success": False, "reward": 0, "steps": [{"actor": "agent", "text": "hi"}]},
    ],
    ids=["the same", "unknown", "a part", "shorter"],
)
def test_a_run_that_comes_again_with_nothing_new_is_no_conflict(
    pool: Pool, tmp_path: Path, after: dict[str, object]
) -> None:
    first = line(trajectory_id="a", success=True, reward=1)
    pool.import_files(written(tmp_path, first, "old.jsonl"))
    report = pool.import_files(written(tmp_path, line(**{"trajectory_id": "a", **after})))
    assert (report.already, report.conflicting, report.problems) == (1, 0, [])


def test_a_verdict_for_a_run_without_one_is_taken_and_no_conflict(
    pool: Pool, tmp_path: Path
) -> None:
    pool.import_files(written(tmp_path, line(trajectory_id="a"), "old.jsonl"))
    report = pool.import_files(written(tmp_path, line(trajectory_id="a", success=True)))
    assert (report.replaced, report.conflicting) == (1, 0)


def test_an_array_of_which_nothing_can_be_read_is_named_with_the_reason(
    pool: Pool, tmp_path: Path
) -> None:
    path = tmp_path / "latin.json"
    path.write_bytes('[{"messages": [{"role": "user", "content": "é"}]}]'.encode("latin-1"))
    (problem,) = pool.import_files(path).problems
    assert "(0xe9) is not UTF-8" in problem.reason
