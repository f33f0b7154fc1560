"""Sessions that were resumed: what they copied from an earlier session of the same folder."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.claude_code import IMPORTER
from trajstore.importers.claude_code_resumed import copied_records
from trajstore.importers.items import ImportOptions
from trajstore.importers.source import Source
from trajstore.schema import Trajectory, finish

NAMES = ["b", "a"]
"""Names of the first and the resumed session: the later one comes first by name."""


def record(number: int, session: str, **changes: Any) -> dict[str, Any]:
    """A question (even numbers) or an answer with 7 tokens."""
    said: dict[str, Any] = {"role": "user", "content": f"question {number}"}
    if number % 2:
        said = {
            "role": "assistant",
            "id": f"m{number}",
            "model": "claude",
            "content": [{"type": "text", "text": f"answer {number}"}],
            "usage": {"input_tokens": 5, "output_tokens": 7},
        }
    return {
        "type": said["role"],
        "uuid": f"u{number}",
        "parentUuid": None,
        "isSidechain": False,
        "sessionId": session,
        "timestamp": f"2026-01-01T00:00:{number:02d}.000Z",
        "message": said,
        **changes,
    }


def session(folder: Path, name: str, numbers: Sequence[int], **changes: Any) -> Path:
    path = folder / f"{name}.jsonl"
    rows = (record(n, f"session-{name}", **changes) for n in numbers)
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def run(path: Path) -> Trajectory:
    (found,) = IMPORTER.read(Source(path), ImportOptions())
    assert isinstance(found, Trajectory)
    return finish(found)


def copied(found: Trajectory) -> list[bool]:
    return [bool(step.is_copied) for step in found.steps]


@pytest.mark.parametrize(("first", "later"), [NAMES, NAMES[::-1]])
def test_what_a_resume_copied_counts_once(tmp_path: Path, first: str, later: str) -> None:
    before = run(session(tmp_path, first, range(4)))
    session(tmp_path, later, range(6))
    after = run(tmp_path / f"{later}.jsonl")
    assert copied(after) == [True] * 4 + [False] * 2
    assert (after.parent_id, after.relation) == (before.trajectory_id, "continuation")
    assert copied(run(tmp_path / f"{first}.jsonl")) == [False] * 4
    assert after.completion_tokens == 7


def test_a_resume_that_copied_only_the_end_is_seen(tmp_path: Path) -> None:
    session(tmp_path, "b", range(6))
    after = session(tmp_path, "a", range(2, 8))
    assert copied(run(after)) == [True] * 4 + [False] * 2
    assert copied(run(tmp_path / "b.jsonl")) == [False] * 6


def test_a_second_resume_continues_the_first(tmp_path: Path) -> None:
    session(tmp_path, "c", range(2))
    middle = run(session(tmp_path, "b", range(4)))
    last = run(session(tmp_path, "a", range(6)))
    assert copied(last) == [True] * 4 + [False] * 2
    assert last.parent_id == middle.trajectory_id


def test_sessions_of_other_folders_and_of_the_same_id_are_no_origin(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    session(tmp_path / "one", "b", range(4))
    alone = session(tmp_path / "two", "a", range(6))
    assert copied(run(alone)) == [False] * 6
    session(tmp_path / "two", "grown", range(8), sessionId="session-a")
    assert copied(run(tmp_path / "two" / "grown.jsonl")) == [False] * 8


def test_a_file_that_came_since_is_seen(tmp_path: Path) -> None:
    after = session(tmp_path, "a", range(6))
    assert copied_records(after) == {}
    session(tmp_path, "b", range(4))
    os.utime(tmp_path, ns=(1, 1))
    assert copied_records(after) == {f"u{n}": "session-b" for n in range(4)}


def test_an_id_inside_a_message_is_not_that_of_the_record(tmp_path: Path) -> None:
    session(tmp_path, "b", range(4), toolUseResult={"uuid": "inner"})
    after = run(session(tmp_path, "a", range(6), toolUseResult={"uuid": "inner"}))
    assert copied(after) == [True] * 4 + [False] * 2
