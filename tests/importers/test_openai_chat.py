"""OpenAI chat messages and the forms around them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.building import StepBuilder
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.openai_chat import IMPORTER, chat_steps
from trajstore.importers.source import Source
from trajstore.schema import Label, Step, Trajectory, finish

ASK = {"role": "user", "content": "Weather?"}
TOOLS = [{"type": "function", "function": {"name": "get", "parameters": {}}}]


def call(call_id: str, arguments: Any = '{"a": 1}', name: str = "get") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def calling(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **more}


def result(call_id: str, text: Any = "sunny", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text, **more}


def steps(*messages: Any) -> tuple[Step, ...]:
    return chat_steps(messages, StepBuilder()).steps()


def source(folder: Path, *rows: Any, name: str = "rows.jsonl") -> Source:
    path = folder / name
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return Source(path)


def read(found: Source, **options: Any) -> list[Item]:
    return list(IMPORTER.read(found, ImportOptions(**options)))


def trajectories(items: list[Item]) -> list[Trajectory]:
    return [finish(i) for i in items if isinstance(i, Trajectory)]


def labels(items: list[Item]) -> list[Label]:
    return [i for i in items if isinstance(i, Label)]


def test_a_message_with_calls_is_one_step_with_the_results_it_brought() -> None:
    found = steps(ASK, calling(call("1"), call("2")), result("2", "b"), result("1", "a"))
    assert [s.actor for s in found] == ["user", "agent"]
    assert [c.call_id for c in found[1].tool_calls] == ["1", "2"]
    assert [(o.call_id, o.text) for o in found[1].observations] == [("2", "b"), ("1", "a")]


def test_null_text_and_empty_text_stay_apart() -> None:
    found = steps(calling(call("1")), {"role": "assistant", "content": ""})
    assert [s.text for s in found] == [None, ""]


@pytest.mark.parametrize(
    ("arguments", "parsed", "raw"),
    [
        ('{"b": 2, "a": 1}', '{"a":1,"b":2}', '{"b": 2, "a": 1}'),
        ({"b": 2, "a": 1}, '{"a":1,"b":2}', '{"b":2,"a":1}'),
        ('{"a": ', None, '{"a": '),
        ("ls -la", None, "ls -la"),
        (None, None, None),
    ],
)
def test_arguments_keep_their_raw_text(arguments: Any, parsed: Any, raw: Any) -> None:
    (step,) = steps(calling(call("1", arguments)))
    assert (step.tool_calls[0].arguments, step.tool_calls[0].arguments_raw) == (parsed, raw)


def test_legacy_function_call_is_answered_by_the_function_message() -> None:
    asked = {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "get", "arguments": "{}"},
    }
    (step,) = steps(asked, {"role": "function", "name": "get", "content": "ok"})
    assert (step.tool_calls[0].name, step.observations[0].text) == ("get", "ok")
    assert step.metadata is None


def test_a_repeated_id_is_answered_in_order() -> None:
    found = steps(calling(call("x")), result("x", "1"), calling(call("x")), result("x", "2"))
    assert [s.observations[0].text for s in found] == ["1", "2"]


def test_a_result_without_call_and_a_call_without_result_are_kept() -> None:
    found = steps(ASK, calling(call("1")), result("9", "orphan"), {"role": "assistant"})
    assert [o.call_id for o in found[1].observations] == ["9"]
    (alone,) = steps(result("9", "orphan"))
    assert (alone.actor, alone.observations[0].text) == ("environment", "orphan")


def test_an_error_flag_is_taken_only_where_the_message_has_one() -> None:
    found = steps(
        calling(call("1"), call("2"), call("3")),
        result("1"),
        result("2", is_error=False),
        result("3", error="boom"),
    )
    assert [o.is_error for o in found[0].observations] == [None, False, True]
    assert json.loads(found[0].metadata or "") == {"results": [{"error": "boom"}]}


def test_what_a_result_says_beside_its_text_is_kept() -> None:
    (step,) = steps(calling(call("1")), result("1", name="get", weight=0), result("1", name="z"))
    assert json.loads(step.metadata or "") == {"results": [{"weight": 0}, {"name": "z"}]}


def test_fields_without_column_go_to_the_steps_metadata() -> None:
    (step,) = steps({"role": "assistant", "content": "x", "refusal": "no", "weight": 0})
    assert json.loads(step.metadata or "") == {"refusal": "no", "weight": 0}


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_of_vendors_is_read(name: str) -> None:
    assert steps({"role": "assistant", "content": "x", name: "hm"})[0].reasoning == "hm"


def test_developer_is_system_and_a_strange_role_is_the_environment() -> None:
    found = steps({"role": "developer", "content": "a"}, {"role": "critic", "content": "b"})
    assert [s.actor for s in found] == ["system", "environment"]
    assert json.loads(found[1].metadata or "") == {"role": "critic"}


def test_parts_beside_text_are_kept_whole() -> None:
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "u"}}]
    (step,) = steps({"role": "user", "content": parts})
    assert (step.text, json.loads(step.content or "")) == ("see", parts)


def test_blocks_of_llama_factory_become_reasoning_text_and_calls() -> None:
    blocks = [
        {"type": "reasoning", "value": "hm"},
        {"type": "text", "value": "Let me look."},
        {"type": "tool_call", "value": '{"name": "get", "arguments": {"a":  1}}'},
    ]
    (step,) = steps({"role": "assistant", "content": blocks, "loss_weight": 1.0})
    assert (step.reasoning, step.text) == ("hm", "Let me look.")
    assert step.tool_calls[0].arguments_raw == '{"a":  1}'
    assert json.loads(step.metadata or "") == {"loss_weight": 1.0}
    assert step.content is None


def test_blocks_without_text_have_null_text_and_a_broken_call_is_marked() -> None:
    (step,) = steps({"role": "assistant", "content": [{"type": "tool_call", "value": "{"}]})
    assert (step.text, step.format_error) == (None, True)
    assert step.tool_calls[0].arguments_raw == "{"


@pytest.mark.parametrize("message", ["text", {"content": "x"}, {"role": None}, None])
def test_a_message_without_role_is_refused_by_its_place(message: Any) -> None:
    with pytest.raises(ValueError, match="message 1 has no role"):
        steps(ASK, message)


def test_fine_tuning_rows_keep_tools_and_the_rest(tmp_path: Path) -> None:
    row = {
        "messages": [ASK, calling(call("1")), result("1")],
        "tools": TOOLS,
        "parallel_tool_calls": False,
    }
    (found,) = trajectories(read(source(tmp_path, row)))
    assert (found.goal, found.n_tool_calls, found.source) == ("Weather?", 1, "openai-chat")
    assert json.loads(found.tools or "") == TOOLS
    assert json.loads(found.metadata or "") == {"parallel_tool_calls": False}
    assert found.source_uri is not None
    assert found.source_uri.endswith("rows.jsonl#L1")


def test_openai_preference_rows_become_two_runs_of_one_task(tmp_path: Path) -> None:
    good, bad = ({"role": "assistant", "content": c} for c in ("yes", "no"))
    row = {
        "input": {"messages": [ASK], "tools": TOOLS, "parallel_tool_calls": True},
        "preferred_output": [good],
        "non_preferred_output": [bad],
    }
    items = read(source(tmp_path, row))
    chosen, rejected = trajectories(items)
    assert chosen.task_id == rejected.task_id
    assert [t.steps[-1].text for t in (chosen, rejected)] == ["yes", "no"]
    assert json.loads(rejected.tools or "") == TOOLS
    assert (chosen.success, chosen.reward) == (None, None)
    assert [(x.trajectory_id, x.name, x.value, x.success, x.evaluator) for x in labels(items)] == [
        (chosen.trajectory_id, "preference", 1.0, None, "dataset"),
        (rejected.trajectory_id, "preference", 0.0, None, "dataset"),
    ]


def test_a_bare_list_of_messages_is_one_run(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps([ASK, {"role": "assistant", "content": "Sun."}]))
    assert IMPORTER.detect(Source(path)) == 0.4
    (found,) = trajectories(read(Source(path)))
    assert [s.text for s in found.steps] == ["Weather?", "Sun."]


def test_one_message_a_line_is_one_run(tmp_path: Path) -> None:
    found = source(tmp_path, ASK, {"role": "assistant", "content": "Sun."})
    assert IMPORTER.detect(found) == 0.4
    assert [t.n_steps for t in trajectories(read(found))] == [2]


def test_a_logged_response_is_the_last_step_with_its_tokens(tmp_path: Path) -> None:
    message = {"role": "assistant", "content": "Sun."}
    row = {
        "messages": [ASK],
        "response": {
            "choices": [{"message": message, "finish_reason": "stop"}],
            "model": "m-1",
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 4},
            },
        },
    }
    (found,) = trajectories(read(source(tmp_path, row)))
    last = found.steps[-1]
    assert (last.text, last.model, found.termination_reason) == ("Sun.", "m-1", "stop")
    assert (found.prompt_tokens, found.completion_tokens, found.cached_tokens) == (9, 2, 4)


def test_a_broken_first_line_does_not_hide_the_format(tmp_path: Path) -> None:
    good = {"messages": [ASK, {"role": "assistant", "content": "a"}]}
    assert IMPORTER.detect(source(tmp_path, {"messages": []}, good)) == 0.5


def test_a_broken_record_costs_no_other(tmp_path: Path) -> None:
    good = {"messages": [ASK, {"role": "assistant", "content": "a"}]}
    bad = {"messages": [ASK, {"content": "no role"}]}
    items = read(source(tmp_path, good, bad, {"text": "none"}, {**good, "x": 1, "task_id": 7}))
    assert len(trajectories(items)) == 2
    problems = [i for i in items if isinstance(i, Problem)]
    assert [p.line for p in problems] == [2, 3]
    assert "message 1 has no role" in problems[0].reason
    assert "no conversation in the fields text" in problems[1].reason


def test_kto_rows_are_marked_and_have_no_outcome(real_data: Path) -> None:
    items = read(Source(real_data / "chat_formats/kto_en.first20.json"))
    found = trajectories(items)
    assert len({t.trajectory_id for t in found}) == 20
    assert {(t.success, t.reward) for t in found} == {(None, None)}
    assert Counter(x.success for x in labels(items)) == {True: 12, False: 8}
    assert {(x.name, x.value, x.evaluator) for x in labels(items)} == {("kto", None, "dataset")}
    assert Counter(s.actor for t in found for s in t.steps) == {"user": 33, "agent": 33}


def test_block_pairs_of_llama_factory(real_data: Path) -> None:
    items = read(Source(real_data / "chat_formats/dpo_v1_blocks.jsonl"))
    found = trajectories(items)
    assert len({t.trajectory_id for t in found}) == 20
    assert Counter(Counter(t.task_id for t in found).values()) == {2: 10}
    assert Counter(x.value for x in labels(items)) == {1.0: 10, 0.0: 10}
    assert all(t.steps[-1].text for t in found)


def test_reasoning_and_calls_of_llama_factory(real_data: Path) -> None:
    found = trajectories(read(Source(real_data / "chat_formats/v1_reason_tool_use.first20.jsonl")))
    every = [s for t in found for s in t.steps]
    assert len(found) == 20
    assert Counter(s.actor for s in every) == {"system": 20, "user": 31, "agent": 55}
    assert sum(s.reasoning is not None for s in every) == 55
    assert sum(s.text is not None for s in every) == 101 - 24
    assert sum(len(s.tool_calls) for s in every) == 37
    assert sum(len(s.observations) for s in every) == 24
    assert all(c.arguments for s in every for c in s.tool_calls)
    assert all(json.loads(t.tools or "") for t in found)


def test_images_beside_messages_become_parts(real_data: Path) -> None:
    path = real_data / "chat_formats/mllm_messages_images.json"
    found = trajectories(read(Source(path)))
    rows = json.loads(path.read_text())
    assert Counter(s.actor for t in found for s in t.steps) == {"user": 12, "agent": 12}
    for row, run in zip(rows, found, strict=True):
        parts = [p for s in run.steps for p in json.loads(s.content or "[]")]
        shown = [p["image_url"]["url"] for p in parts if p["type"] == "image_url"]
        assert shown == row["images"]
        assert [s.text for s in run.steps] == [m["content"] for m in row["messages"]]
        assert run.metadata is None


def test_another_agents_session_is_read_as_chat(real_data: Path) -> None:
    (found,) = trajectories(read(Source(real_data / "other_cli_agents/hermes_large.json")))
    assert [s.actor for s in found.steps] == ["system", "user", "agent", "agent", "environment"]
    assert (found.n_tool_calls, found.model) == (1, "gpt-5.2")
    assert found.steps[2].observations[0].call_id == "call_001"
    assert found.started_at is not None


@pytest.mark.parametrize(
    "file",
    [
        "chat_formats/kto_en.first20.json",
        "chat_formats/dpo_v1_blocks.jsonl",
        "chat_formats/mllm_messages_images.json",
        "chat_formats/v1_reason_tool_use.first20.jsonl",
    ],
)
def test_own_files_are_recognised_and_importing_twice_gives_the_same(
    real_data: Path, file: str
) -> None:
    assert IMPORTER.detect(Source(real_data / file)) == 0.5
    first, second = (read(Source(real_data / file)) for _ in range(2))
    assert first == second


_CHAT_INSIDE = (
    "adp/codeactinstruct/sample_raw.json",
    "adp/swe-gym_openhands_sampled_trajectories/sample_raw.json",
    "adp/swe-smith/sample_raw.json",
    "adp/toucan_1_5m/sample_raw.json",
    "atif/harbor_golden/terminus_2/hello-world-invalid-json.traces.json",
    "chat_formats/",
    "mini_swe_agent/",
    "openhands_sdk/llm_completions/",
    "other_cli_agents/hermes_large.json",
)
"""Files that hold chat messages; some have an importer of their own, which is surer."""


def test_only_files_of_chat_messages_are_recognised(real_data: Path) -> None:
    for path in real_data.rglob("*"):
        sure = IMPORTER.detect(Source(path)) if path.is_file() else 0.0
        assert sure <= 0.5
        if sure:
            assert path.relative_to(real_data).as_posix().startswith(_CHAT_INSIDE)
