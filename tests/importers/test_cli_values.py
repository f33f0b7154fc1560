from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers import claude_code, codex_cli, gemini_cli, other_cli
from trajstore.importers.cli_values import flag_in, name_in, objects_in, text_in
from trajstore.importers.importer import Importer
from trajstore.importers.items import ImportOptions, Problem
from trajstore.importers.source import Source
from trajstore.schema import Trajectory, check, finish, steps_to_arrow, trajectories_to_arrow

JUNK = [None, 3, -1.5, True, "", "x", [], {}, [None], ["s"], [[1]], {"a": 1}, [{"text": 3}]]
SESSIONS: list[tuple[Importer, str]] = [
    (claude_code.IMPORTER, "claude_code/tool_error.jsonl"),
    (claude_code.IMPORTER, "claude_code/fixtures/schema_tour.jsonl"),
    (codex_cli.IMPORTER, "codex_cli/schema_tour.jsonl"),
    (gemini_cli.IMPORTER, "other_cli_agents/gemini_jsonl_v040.jsonl"),
    (other_cli.IMPORTER, "other_cli_agents/kimi_assistant_tools.jsonl"),
    (other_cli.IMPORTER, "other_cli_agents/copilot_small.jsonl"),
]


@pytest.mark.parametrize(
    ("value", "text", "name", "flag"),
    [
        (None, None, None, None),
        ("", "", "", None),
        ("x", "x", "x", None),
        (True, TypeError, "True", True),
        (3, TypeError, "3", None),
        ([], TypeError, None, None),
        ({}, TypeError, None, None),
    ],
)
def test_a_field_gives_what_it_should_hold_or_says_so(
    value: Any, text: Any, name: str | None, *, flag: bool | None
) -> None:
    record = {"field": value}
    assert (name_in(record, "field"), flag_in(record, "field")) == (name, flag)
    if text is TypeError:
        with pytest.raises(TypeError, match="field 'field' holds"):
            text_in(record, "field")
    else:
        assert text_in(record, "field") == text


def test_a_list_field_gives_its_objects() -> None:
    assert objects_in({"f": [{"a": 1}, 3, None]}, "f") == [{"a": 1}]
    assert objects_in({"f": "x"}, "f") == []
    assert objects_in({}, "f") == []


def spoiled(value: Any, random_: random.Random) -> Any:
    """The value with a few parts replaced by junk or left out."""
    if random_.random() < 0.03:
        return random_.choice(JUNK)
    if isinstance(value, dict):
        return {k: spoiled(v, random_) for k, v in value.items() if random_.random() > 0.01}
    if isinstance(value, list):
        return [spoiled(v, random_) for v in value if random_.random() > 0.01]
    return value


@pytest.mark.parametrize(("importer", "name"), SESSIONS, ids=[name for _, name in SESSIONS])
def test_spoiled_sessions_never_raise_and_what_is_read_fits_the_schema(
    real_data: Path, tmp_path: Path, importer: Importer, name: str
) -> None:
    records = [json.loads(line) for line in (real_data / name).read_text().splitlines()]
    path = tmp_path / "spoiled.jsonl"
    for seed in range(10):
        random_ = random.Random(seed)
        path.write_text("\n".join(json.dumps(spoiled(r, random_)) for r in records))
        assert 0 <= importer.detect(Source(path)) <= 1
        found = list(importer.read(Source(path), ImportOptions()))
        runs = [finish(i) for i in found if isinstance(i, Trajectory)]
        check(trajectories_to_arrow(runs), "trajectories")
        check(steps_to_arrow(runs), "steps")


@pytest.mark.parametrize(
    ("importer", "good", "bad"),
    [
        (
            claude_code.IMPORTER,
            {"type": "user", "sessionId": "s", "message": {"content": "hi"}},
            {
                "type": "assistant",
                "sessionId": "s",
                "message": {"content": [{"type": "text", "text": 3}]},
            },
        ),
        (
            codex_cli.IMPORTER,
            {
                "type": "event_msg",
                "timestamp": "",
                "payload": {"type": "user_message", "message": "hi"},
            },
            {"type": "event_msg", "timestamp": "", "payload": {"type": "error", "message": [3]}},
        ),
        (
            other_cli.IMPORTER,
            {"type": "user.message", "data": {"content": "hi"}, "parentId": None},
            {"type": "assistant.message", "data": {"content": [3]}, "parentId": None},
        ),
    ],
    ids=["claude-code", "codex-cli", "cli-session"],
)
def test_text_that_is_none_is_a_problem_at_its_line(
    tmp_path: Path, importer: Importer, good: Any, bad: Any
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(json.dumps(r) for r in (good, bad)))
    found = list(importer.read(Source(path), ImportOptions()))
    assert [p.line for p in found if isinstance(p, Problem)] == [2]
    (run,) = [i for i in found if isinstance(i, Trajectory)]
    assert run.goal == "hi"
