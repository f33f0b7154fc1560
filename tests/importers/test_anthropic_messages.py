"""Anthropic messages: blocks to steps, results to calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.anthropic_messages import IMPORTER, block_steps, usage_fields
from trajstore.importers.building import StepBuilder
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Source
from trajstore.schema import Step, Trajectory, finish

USE = {"type": "tool_use", "id": "t1", "name": "get", "input": {"b": 2, "a": 1}}
ASK = {"role": "user", "content": "Weather?"}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
TOOL = {"name": "get", "input_schema": {"type": "object"}}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def result(use_id: str, content: Any = "sunny", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": use_id, "content": content, **more}


def says(*blocks: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks), **more}


def given(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def steps(*messages: Any) -> tuple[Step, ...]:
    return block_steps(messages, StepBuilder()).steps()


def source(folder: Path, *rows: Any, name: str = "rows.jsonl") -> Source:
    path = folder / name
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return Source(path)


def items(found: Source) -> list[Item]:
    return list(IMPORTER.read(found, ImportOptions()))


def runs(found: Source) -> list[Trajectory]:
    return [finish(i) for i in items(found) if isinstance(i, Trajectory)]


def test_an_assistant_message_is_one_step() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    (step,) = steps(says(thought, text("Let me"), text("look."), USE))
    assert (step.reasoning, step.text) == ("hm", "Let me\nlook.")
    (call,) = step.tool_calls
    assert (call.call_id, call.name, call.arguments) == ("t1", "get", '{"a":1,"b":2}')
    assert call.arguments_raw == '{"b":2,"a":1}'
    assert json.loads(step.metadata or "") == {"blocks": [{"type": "thinking", "signature": "s"}]}


def test_parallel_results_in_one_user_message_go_to_their_calls() -> None:
    other = {**USE, "id": "t2"}
    found = steps(ASK, says(USE, other), given(result("t2", "b"), result("t1", "a")))
    assert [s.actor for s in found] == ["user", "agent"]
    assert [(o.call_id, o.text) for o in found[1].observations] == [("t2", "b"), ("t1", "a")]


def test_what_the_user_adds_to_results_is_a_step_of_its_own() -> None:
    found = steps(says(USE), given(result("t1"), text("And tomorrow?")))
    assert [(s.actor, s.text) for s in found] == [("agent", None), ("user", "And tomorrow?")]
    assert len(found[0].observations) == 1


@pytest.mark.parametrize(("more", "flag"), [({}, None), ({"is_error": True}, True)])
def test_errors_are_those_that_the_block_states(more: dict[str, Any], flag: Any) -> None:
    (step,) = steps(says(USE), given(result("t1", **more)))
    assert step.observations[0].is_error is flag


def test_parts_of_a_result_are_kept_beside_its_text() -> None:
    (step,) = steps(says(USE), given(result("t1", [text("see"), PICTURE])))
    seen = step.observations[0]
    assert (seen.text, json.loads(seen.content or "")) == ("see", [text("see"), PICTURE])


@pytest.mark.parametrize(("content", "said"), [(None, None), ("", ""), ([], None)])
def test_an_empty_result_is_still_a_result(content: Any, said: str | None) -> None:
    (step,) = steps(says(USE), given(result("t1", content)))
    assert [o.text for o in step.observations] == [said]


def test_a_result_whose_call_is_nowhere_is_kept() -> None:
    found = steps(given(result("t9", "orphan")))
    assert [(s.actor, s.observations[0].call_id) for s in found] == [("environment", "t9")]


def test_pictures_of_the_user_are_parts() -> None:
    (step,) = steps(given(text("Look"), PICTURE))
    assert (step.text, json.loads(step.content or "")) == ("Look", [text("Look"), PICTURE])


def test_tools_that_the_server_ran_bring_their_result_in_the_same_message() -> None:
    use = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    hits = [{"type": "web_search_result", "url": "u"}]
    answer = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": hits}
    (step,) = steps(says(use, answer, text("Found.")))
    assert (step.tool_calls[0].name, step.text) == ("web_search", "Found.")
    assert json.loads(step.observations[0].content or "") == hits
    assert step.observations[0].call_id == "s1"


def test_hidden_thinking_and_unknown_blocks_are_kept_as_they_are() -> None:
    hidden = {"type": "redacted_thinking", "data": "xyz"}
    later = {"type": "hologram", "beam": 1}
    (step,) = steps(says(hidden, later, text("Hi")))
    assert (step.reasoning, step.text) == (None, "Hi")
    assert json.loads(step.metadata or "") == {"blocks": [hidden, later]}


def test_citations_are_kept_and_cache_marks_are_not() -> None:
    cited = {**text("Hi"), "citations": [{"url": "u"}], "cache_control": {"type": "ephemeral"}}
    (step,) = steps(says(cited))
    assert json.loads(step.metadata or "") == {
        "blocks": [{"type": "text", "citations": [{"url": "u"}]}]
    }


def test_plain_strings_are_read_too() -> None:
    found = steps(ASK, {"role": "assistant", "content": "Sun."})
    assert [(s.actor, s.text) for s in found] == [("user", "Weather?"), ("agent", "Sun.")]


def test_usage_counts_cached_tokens_as_part_of_the_prompt() -> None:
    usage = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 100,
        "output_tokens": 7,
    }
    assert usage_fields(usage) == {
        "prompt_tokens": 123,
        "completion_tokens": 7,
        "cached_tokens": 100,
    }
    assert usage_fields(None) == {}


def test_a_request_with_its_response_is_one_run(tmp_path: Path) -> None:
    row = {
        "system": [text("Be kind.")],
        "messages": [ASK],
        "tools": [TOOL],
        "model": "claude-x",
        "max_tokens": 100,
        "response": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-x-1",
            "content": [USE],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 3, "output_tokens": 7},
        },
    }
    found = source(tmp_path, row)
    assert IMPORTER.detect(found) == 0.6
    (run,) = runs(found)
    assert [(s.actor, s.text) for s in run.steps] == [
        ("system", "Be kind."),
        ("user", "Weather?"),
        ("agent", None),
    ]
    assert (run.model, run.steps[2].model) == ("claude-x", "claude-x-1")
    assert (run.termination_reason, run.prompt_tokens, run.completion_tokens) == ("tool_use", 3, 7)
    assert json.loads(run.tools or "") == [TOOL]
    assert json.loads(run.metadata or "") == {"max_tokens": 100}
    assert (run.success, run.source) == (None, "anthropic-messages")


def test_a_bare_list_is_one_run(tmp_path: Path) -> None:
    found = source(tmp_path, [ASK, says(USE), given(result("t1"))], name="run.json")
    assert IMPORTER.detect(found) == 0.6
    assert [(t.n_agent_steps, t.n_tool_calls) for t in runs(found)] == [(1, 1)]


def test_a_pair_of_block_messages_is_read(tmp_path: Path) -> None:
    row = {"prompt": [ASK], "chosen": [says(USE)], "rejected": [says(text("No idea."))]}
    found = source(tmp_path, row)
    assert IMPORTER.detect(found) == 0.6
    assert len({t.task_id for t in runs(found)}) == 1


@pytest.mark.parametrize(
    "block", ["text", {"type": "text"}, {"type": "thinking"}, {"type": "tool_use", "id": "x"}, 1]
)
def test_a_broken_block_is_a_problem_and_costs_no_other_record(tmp_path: Path, block: Any) -> None:
    good = {"messages": [ASK, says(USE)]}
    every = items(source(tmp_path, good, {"messages": [ASK, says(block)]}, {**good, "id": 2}))
    assert [p.line for p in every if isinstance(p, Problem)] == [2]
    assert sum(isinstance(i, Trajectory) for i in every) == 2


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [ASK]},
        {"messages": [ASK], "tools": [{"type": "function", "function": {"name": "f"}}]},
        {"messages": [says({"type": "reasoning", "value": "x"})]},
        {"type": "assistant", "message": says(USE)},
        [1],
    ],
)
def test_other_records_are_not_recognised(tmp_path: Path, row: Any) -> None:
    assert IMPORTER.detect(source(tmp_path, row)) == 0


def test_no_recorded_file_of_another_format_is_recognised(real_data: Path) -> None:
    files = [p for p in real_data.rglob("*") if p.is_file()]
    assert [p for p in files if IMPORTER.detect(Source(p))] == []
