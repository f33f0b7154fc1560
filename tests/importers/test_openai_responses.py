"""OpenAI Responses: bare items, input and output, response objects."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.openai_responses import IMPORTER
from trajstore.importers.source import Source
from trajstore.schema import Trajectory, finish

THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
CALL = {"type": "function_call", "call_id": "c1", "name": "get", "arguments": '{"a": 1}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
ASK = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}]}
SAY = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Sun.", "annotations": []}],
}
RESPONSE = {
    "id": "resp_0123456789",
    "object": "response",
    "created_at": 1_700_000_000,
    "status": "completed",
    "model": "m-1",
    "instructions": "Be brief.",
    "temperature": 0.5,
    "top_p": None,
    "tools": [{"type": "function", "name": "get"}],
    "output": [THOUGHT, CALL],
    "usage": {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 5,
    },
}


def source(folder: Path, *rows: Any, name: str = "rows.jsonl") -> Source:
    path = folder / name
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return Source(path)


def items(found: Source) -> list[Item]:
    return list(IMPORTER.read(found, ImportOptions()))


def runs(found: Source) -> list[Trajectory]:
    return [finish(i) for i in items(found) if isinstance(i, Trajectory)]


@pytest.mark.parametrize("lines", [True, False])
def test_a_bare_list_of_items_is_one_run(tmp_path: Path, *, lines: bool) -> None:
    every = [ASK, THOUGHT, CALL, OUTPUT, SAY]
    found = source(tmp_path, *every) if lines else source(tmp_path, every, name="x.json")
    assert IMPORTER.detect(found) == 0.6
    (run,) = runs(found)
    assert [s.actor for s in run.steps] == ["user", "agent", "agent"]
    assert (run.steps[1].reasoning, run.steps[1].observations[0].text) == ("hm", "sunny")
    assert (run.goal, run.n_tool_calls) == ("Weather?", 1)


def test_a_bare_list_may_begin_with_reasoning(tmp_path: Path) -> None:
    (run,) = runs(source(tmp_path, [THOUGHT, SAY], name="x.json"))
    assert [(s.reasoning, s.text) for s in run.steps] == [("hm", "Sun.")]


def test_input_and_output_make_one_run_of_their_own_steps(tmp_path: Path) -> None:
    row = {"input": [ASK, CALL, OUTPUT], "output": [SAY], "task_id": 3, "success": True}
    found = source(tmp_path, row)
    assert IMPORTER.detect(found) == 0.6
    (run,) = runs(found)
    assert [s.actor for s in run.steps] == ["user", "agent", "agent"]
    assert (run.task_id, run.success, run.metadata) == ("chat/3", True, None)


def test_a_plain_string_of_input_is_what_the_user_asked(tmp_path: Path) -> None:
    (run,) = runs(source(tmp_path, {"input": "Weather?", "output": [SAY]}))
    assert [(s.actor, s.text) for s in run.steps] == [("user", "Weather?"), ("agent", "Sun.")]


def test_a_response_object_gives_times_status_tokens_and_sampling(tmp_path: Path) -> None:
    (run,) = runs(source(tmp_path, RESPONSE))
    assert [s.actor for s in run.steps] == ["system", "agent"]
    assert (run.status, run.model) == ("terminated", "m-1")
    assert run.started_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    step = run.steps[1]
    assert (step.prompt_tokens, step.cached_tokens, step.completion_tokens) == (10, 4, 5)
    assert json.loads(step.sampling or "") == {"temperature": 0.5}
    assert json.loads(run.tools or "") == RESPONSE["tools"]
    assert run.success is None


def test_usage_over_several_calls_stays_a_total(tmp_path: Path) -> None:
    row = {**RESPONSE, "output": [CALL, OUTPUT, SAY]}
    (run,) = runs(source(tmp_path, row))
    assert (run.n_agent_steps, run.prompt_tokens, run.completion_tokens) == (2, 10, 5)
    assert {s.prompt_tokens for s in run.steps} == {None}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            ("truncated", "max_output_tokens", None),
        ),
        ({"status": "failed", "error": {"code": "x", "message": "boom"}}, ("error", None, "boom")),
        ({"status": "in_progress"}, ("running", None, None)),
        ({"status": "new word"}, (None, None, None)),
    ],
)
def test_how_a_response_ended_is_read(
    tmp_path: Path, change: dict[str, Any], expected: tuple[str | None, ...]
) -> None:
    (run,) = runs(source(tmp_path, RESPONSE | change))
    assert (run.status, run.termination_reason, run.error) == expected


def test_a_response_keeps_its_id_as_it_grows_and_names_its_parent(tmp_path: Path) -> None:
    second = {**RESPONSE, "id": "resp_9876543210", "previous_response_id": RESPONSE["id"]}
    grown = {**RESPONSE, "output": [THOUGHT, CALL, OUTPUT, SAY]}
    one, other, longer = runs(source(tmp_path, RESPONSE, second, grown))
    assert one.trajectory_id == longer.trajectory_id != other.trajectory_id
    assert (other.parent_id, other.relation) == (one.trajectory_id, "continuation")
    assert (one.parent_id, one.relation) == (None, None)


def test_a_response_whose_id_the_api_did_not_give_is_known_by_its_content(tmp_path: Path) -> None:
    rows = [{**RESPONSE, "id": "task-1", "output": [o]} for o in (SAY, CALL)]
    assert len({t.trajectory_id for t in runs(source(tmp_path, *rows))}) == 2


def test_token_ids_of_rollouts_are_kept(tmp_path: Path) -> None:
    sampled = {
        **SAY,
        "prompt_token_ids": [1, 2],
        "generation_token_ids": [3],
        "generation_log_probs": [-0.5],
    }
    (run,) = runs(source(tmp_path, {"input": "x", "output": [sampled]}))
    step = run.steps[-1]
    assert (step.prompt_token_ids, step.completion_token_ids, step.logprobs) == (
        (1, 2),
        (3,),
        (-0.5,),
    )


def test_the_listing_of_a_conversations_items_is_read(tmp_path: Path) -> None:
    found = source(tmp_path, {"object": "list", "data": [ASK, SAY], "has_more": False})
    assert [t.n_steps for t in runs(found)] == [2]


def test_a_broken_record_costs_no_other(tmp_path: Path) -> None:
    found = source(tmp_path, RESPONSE, {**RESPONSE, "output": None}, {"output": "text"}, RESPONSE)
    every = items(found)
    assert [p.line for p in every if isinstance(p, Problem)] == [2, 3]
    assert len(runs(found)) == 2


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [{"role": "user", "content": "x"}]},
        {"input": "x", "output": "y"},
        {"input": "x", "output": [{"text": "y"}]},
        {"output": [{"type": "function_call"}]},
        {"responses_create_params": {}, "response": RESPONSE},
        [],
        3,
    ],
)
def test_other_records_are_not_recognised(tmp_path: Path, row: Any) -> None:
    assert IMPORTER.detect(source(tmp_path, row)) == 0


def test_no_recorded_file_of_another_format_is_recognised(real_data: Path) -> None:
    files = [p for p in real_data.rglob("*") if p.is_file()]
    assert [p for p in files if IMPORTER.detect(Source(p))] == []
