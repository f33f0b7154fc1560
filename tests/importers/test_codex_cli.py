from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.codex_cli import IMPORTER
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Source
from trajstore.schema import Trajectory, finish, trajectories_to_arrow

LONG = "recorded_redacted/rollout-2026-02-23T12-41-04.jsonl"
SHORT = "recorded_redacted/rollout-2026-02-23T20-34-25.jsonl"


def items(path: Path) -> list[Item]:
    return list(IMPORTER.read(Source(path), ImportOptions()))


def run_of(path: Path) -> Trajectory:
    (run,) = [finish(i) for i in items(path) if isinstance(i, Trajectory)]
    return run


def payloads(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines():
        yield json.loads(line)["payload"]


@pytest.mark.parametrize(
    ("name", "total", "calls", "model_calls"), [(LONG, 1766028, 118, 28), (SHORT, 299496, 5, 6)]
)
def test_recorded_sessions_have_the_counts_of_provenance(
    real_data: Path, name: str, total: int, calls: int, model_calls: int
) -> None:
    """``final_total``, ``function_call``, and one ``turn_context`` before each model call."""
    run = run_of(real_data / "codex_cli" / name)
    assert (run.prompt_tokens or 0) + (run.completion_tokens or 0) == total
    assert (run.n_tool_calls, run.n_agent_steps) == (calls, model_calls)


@pytest.mark.parametrize("name", [LONG, SHORT])
def test_the_counts_of_the_steps_add_up_to_the_total(real_data: Path, name: str) -> None:
    """Each count was written twice; ``sum_of_last`` in the provenance is nearly double."""
    run = run_of(real_data / "codex_cli" / name)
    own = [s for s in run.steps if s.actor == "agent"]
    assert sum(s.prompt_tokens or 0 for s in own) == run.prompt_tokens
    assert sum(s.completion_tokens or 0 for s in own) == run.completion_tokens
    assert sum(s.cached_tokens or 0 for s in own) == run.cached_tokens


@pytest.mark.parametrize("name", [LONG, SHORT])
def test_each_call_has_its_own_result(real_data: Path, name: str) -> None:
    path = real_data / "codex_cli" / name
    outputs = {p["call_id"]: p["output"] for p in payloads(path) if "output" in p}
    run = run_of(path)
    for step in run.steps:
        assert [o.call_id for o in step.observations] == [c.call_id for c in step.tool_calls]
        assert [o.text for o in step.observations] == [
            outputs[c.call_id] for c in step.tool_calls if c.call_id
        ]


@pytest.mark.parametrize("name", [LONG, SHORT])
def test_what_events_repeat_is_not_doubled(real_data: Path, name: str) -> None:
    path = real_data / "codex_cli" / name
    said = [p for p in payloads(path) if p.get("type") == "message"]
    run = run_of(path)
    spoken = [s for s in run.steps if s.actor == "agent" and s.text is not None]
    assert len(spoken) == sum(p["role"] == "assistant" for p in said)
    assert sum(s.actor == "user" for s in run.steps) == sum(p["role"] == "user" for p in said)


def test_reasoning_is_the_summary_and_never_what_is_encrypted(real_data: Path) -> None:
    path = real_data / "codex_cli" / SHORT
    summaries = [p["summary"][0]["text"] for p in payloads(path) if "encrypted_content" in p]
    run = run_of(path)
    assert [s.reasoning for s in run.steps if s.reasoning] == summaries
    shown = "".join(f"{s.text}{s.reasoning}{s.content}" for s in run.steps)
    assert "ENCRYPTED" not in shown
    assert "ENCRYPTED" in "".join(s.metadata or "" for s in run.steps)


def test_the_goal_is_what_the_user_typed_and_not_what_codex_put_before_it(real_data: Path) -> None:
    run = run_of(real_data / "codex_cli" / SHORT)
    assert run.goal == "[REDACTED_MESSAGE len=98 sha=c002ff99]"
    assert run.steps[0].text == "[REDACTED_TEXT len=13131 sha=036b7e47]"
    assert run.steps[0].actor == "system"


def test_a_recorded_session_says_when_with_what_and_how_it_ended(real_data: Path) -> None:
    run = run_of(real_data / "codex_cli" / SHORT)
    assert run.task_id == "codex-cli/019c8bfe-ec25-79e0-97d7-bda6a9c575ff"
    assert (run.model, run.status, run.success) == ("gpt-5.3-codex", "terminated", None)
    assert run.started_at is not None
    assert run.started_at.isoformat() == "2026-02-23T19:34:25.573000+00:00"
    assert run.duration_s == pytest.approx(97.062)
    assert {s.sampling for s in run.steps if s.actor == "agent"} == {
        '{"reasoning_effort":"medium"}'
    }


@pytest.mark.parametrize(
    ("name", "tokens", "status"),
    [
        ("050_legacy", (1420, 910, None), "terminated"),
        ("051_usage", (2840, 1520, 1420), "terminated"),
        ("052_raw", (1620, 240, 980), "terminated"),
        ("053_rate_limit", (12091, 182, 10880), "error"),
    ],
)
def test_old_shapes_of_counts_are_read(
    real_data: Path, name: str, tokens: tuple[int | None, ...], status: str
) -> None:
    """These fixtures hold counts and turn ends only; the last or highest count is the session's."""
    run = run_of(real_data / f"codex_cli/old_versions/codex_{name}.jsonl")
    assert (run.prompt_tokens, run.completion_tokens, run.cached_tokens) == tokens
    assert run.status == status
    assert run.n_agent_steps == 0


def test_an_error_is_an_event_with_its_words(real_data: Path) -> None:
    run = run_of(real_data / "codex_cli/old_versions/codex_053_rate_limit.jsonl")
    assert [(s.actor, s.text) for s in run.steps] == [("environment", "Rate limit exceeded")]
    assert run.error == "Rate limit exceeded"


def test_the_middle_shape_of_calls_is_read(real_data: Path) -> None:
    """``tool_call`` and ``tool_result`` items without an id; 14 messages, one of them injected."""
    run = run_of(real_data / "codex_cli/large.jsonl")
    (call,) = [c for s in run.steps for c in s.tool_calls]
    (observation,) = [o for s in run.steps for o in s.observations]
    assert call.name == "run_shell_command"
    assert json.loads(observation.text or "")["stdout"] == "line1\nline2\nline3\n"
    assert observation.is_error is False
    actors = [s.actor for s in run.steps if s.text is not None]
    assert (len(actors), actors.count("environment")) == (14, 1)
    assert (run.prompt_tokens, run.completion_tokens) == (12091, 12273 - 12091)


def test_a_fixture_with_every_record_type_reads_whole(real_data: Path) -> None:
    """The highest count holds, though a later one says zero."""
    path = real_data / "codex_cli/schema_tour.jsonl"
    assert [type(i) for i in items(path)] == [Trajectory]
    run = run_of(path)
    assert run.task_id == "codex-cli/019fc8be-3658-7ca3-9e29-000000000000"
    assert (run.prompt_tokens or 0) + (run.completion_tokens or 0) == 16422
    assert trajectories_to_arrow([run]).num_rows == 1


def test_every_kind_of_tool_call_of_the_fixture_is_a_call(real_data: Path) -> None:
    path = real_data / "codex_cli/schema_tour.jsonl"
    calls = [p for p in payloads(path) if str(p.get("type")).endswith("_call")]
    run = run_of(path)
    kept = [p["type"] for p in calls if p["type"] != "view_image_tool_call"]
    assert sum(len(s.tool_calls) for s in run.steps) == len(kept)
    names = {c.name for s in run.steps for c in s.tool_calls}
    assert {"shell", "web_search", "tool_search", "image_generation"} <= names


def test_compaction_is_an_event(real_data: Path) -> None:
    run = run_of(real_data / "codex_cli/schema_tour.jsonl")
    notes = [json.loads(s.metadata or "{}") for s in run.steps if s.actor == "environment"]
    compacted = [n for n in notes if n.get("event") == "compacted"]
    assert len(compacted) == 6
    assert compacted[0]["replacement_items"] == 1


def test_exactly_the_files_of_this_format_are_detected(real_data: Path) -> None:
    files = [p for p in real_data.rglob("*") if p.is_file()]
    found = {p for p in files if IMPORTER.detect(Source(p)) > 0}
    assert found == {p for p in files if p.is_relative_to(real_data / "codex_cli")}


def test_detection_does_not_look_at_the_name(real_data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "noname"
    shutil.copyfile(real_data / "codex_cli" / SHORT, copy)
    assert IMPORTER.detect(Source(copy)) == 0.9
    assert run_of(copy).trajectory_id == run_of(real_data / "codex_cli" / SHORT).trajectory_id


def test_reading_twice_gives_the_same_content(real_data: Path) -> None:
    path = real_data / "codex_cli" / LONG
    assert run_of(path) == run_of(path)


def test_a_shorter_copy_is_the_same_run(real_data: Path, tmp_path: Path) -> None:
    lines = (real_data / "codex_cli" / SHORT).read_text().splitlines(keepends=True)
    cut = tmp_path / "cut.jsonl"
    cut.write_text("".join(lines[:40]))
    shorter, whole = run_of(cut), run_of(real_data / "codex_cli" / SHORT)
    assert shorter.trajectory_id == whole.trajectory_id
    assert shorter.n_steps < whole.n_steps
    assert shorter.steps[:8] == whole.steps[:8]


def test_a_bad_line_is_named_and_costs_no_other(real_data: Path, tmp_path: Path) -> None:
    lines = (real_data / "codex_cli" / SHORT).read_text().splitlines(keepends=True)
    broken = tmp_path / "broken.jsonl"
    broken.write_text("".join([*lines[:10], '{"type": "resp\n', '{"x": 1}\n', "7\n", *lines[10:]]))
    found = items(broken)
    assert [i.line for i in found if isinstance(i, Problem)] == [11, 12, 13]
    assert run_of(broken).steps == run_of(real_data / "codex_cli" / SHORT).steps


def test_a_session_in_which_nothing_was_said_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    meta = {"type": "session_meta", "timestamp": "2026-01-01T00:00:00Z", "payload": {"id": "s"}}
    path.write_text(json.dumps(meta))
    (item,) = items(path)
    assert isinstance(item, Problem)
    assert item.kind == "ignored"
