from __future__ import annotations

import json
from typing import Any

import pytest

from trajstore.importers.mini_swe_agent_steps import (
    is_observation,
    responses_of,
    run_steps,
    written_actions,
)
from trajstore.schema import Step

RESULT = "<returncode>{}</returncode>\n<output>\nx\n</output>"


def meta(step: Step) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(step.metadata or "{}")
    return found


def text_turn(*blocks: str) -> dict[str, Any]:
    fenced = "\n".join(f"```mswea_bash_command\n{b}\n```" for b in blocks)
    return {"role": "assistant", "content": f"Thought.\n{fenced}"}


def tool_turn(*commands: str, **extra: Any) -> dict[str, Any]:
    calls = [
        {
            "index": n,
            "id": f"c{n}",
            "type": "function",
            "function": {"name": "bash", "arguments": json.dumps({"command": c})},
        }
        for n, c in enumerate(commands)
    ]
    actions = [{"command": c, "tool_call_id": f"c{n}"} for n, c in enumerate(commands)]
    extra = {"actions": actions, **extra}
    return {"role": "assistant", "content": None, "tool_calls": calls, "extra": extra}


def result(call_id: str | None, code: int = 0, **extra: Any) -> dict[str, Any]:
    told = {"raw_output": "x\n", "returncode": code, "timestamp": 1.76e9, "exception_info": ""}
    named = {"role": "user"} if call_id is None else {"role": "tool", "tool_call_id": call_id}
    return {**named, "content": RESULT.format(code), "extra": {**told, **extra}}


def usage(prompt: int, completion: int, cached: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        ("```bash\nls\n```", ["ls"]),
        ("```mswea_bash_command\nls -la\npwd\n```", ["ls -la\npwd"]),
        ("```bash\na\n```\n```bash\nb\n```", ["a", "b"]),
        ("```python\nx\n```", []),
        (None, []),
    ],
)
def test_commands_stand_in_fenced_blocks(text: str | None, actions: list[str]) -> None:
    assert written_actions(text) == actions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (RESULT.format(0), True),
        ("<exception>timed out</exception>\n<returncode>-1</returncode>", True),
        ("The <returncode> tag", False),
        (None, False),
    ],
)
def test_rendered_results_are_known(text: str | None, *, expected: bool) -> None:
    assert is_observation(text) is expected


def test_a_user_message_answers_a_command_in_text() -> None:
    (step,) = run_steps([text_turn("ls"), {"role": "user", "content": RESULT.format(2)}])
    assert step.tool_calls[0].arguments == '{"command":"ls"}'
    assert [(o.text, o.is_error) for o in step.observations] == [(RESULT.format(2), True)]


def test_a_result_that_tells_no_code_is_neither_good_nor_bad() -> None:
    (step,) = run_steps([text_turn("ls"), {"role": "user", "content": "diff --git a b"}])
    assert [o.is_error for o in step.observations] == [None]


@pytest.mark.parametrize("blocks", [(), ("ls", "pwd")])
def test_not_exactly_one_command_is_a_format_error(blocks: tuple[str, ...]) -> None:
    steps = run_steps([text_turn(*blocks), {"role": "user", "content": "Please always provide"}])
    assert [(s.actor, s.format_error) for s in steps] == [("agent", True), ("user", False)]
    assert steps[0].tool_calls == ()


def test_parallel_calls_are_one_step_with_their_results() -> None:
    (step,) = run_steps([tool_turn("ls", "pwd"), result("c1", 1), result("c0")])
    assert [c.call_id for c in step.tool_calls] == ["c0", "c1"]
    assert [(o.call_id, o.is_error) for o in step.observations] == [("c1", True), ("c0", False)]
    assert step.text is None


def test_call_ids_that_repeat_are_linked_by_order() -> None:
    first, second = run_steps([tool_turn("a"), result("c0", 1), tool_turn("b"), result("c0", 0)])
    assert [s.observations[0].is_error for s in (first, second)] == [True, False]


def test_an_exception_of_the_environment_is_an_error() -> None:
    (step,) = run_steps([tool_turn("a"), result("c0", 0, exception_info="timed out")])
    assert step.observations[0].is_error is True
    assert meta(step)["results"][0]["exception_info"] == "timed out"


def test_raw_output_is_kept_where_the_template_cut_it() -> None:
    (step,) = run_steps([tool_turn("a"), result("c0", raw_output="long" * 9)])
    assert meta(step)["results"][0]["raw_output"] == "long" * 9
    (plain,) = run_steps([tool_turn("a"), result("c0")])
    assert "raw_output" not in meta(plain)["results"][0]


def test_a_command_of_the_human_in_the_loop_is_answered_as_a_result() -> None:
    steps = run_steps([tool_turn("a"), result("c0"), result(None)])
    assert [len(s.observations) for s in steps] == [2]


def test_a_comment_after_an_open_tool_call_is_the_users_word() -> None:
    steps = run_steps([tool_turn("rm -rf /"), {"role": "user", "content": "No!"}])
    assert [(s.actor, len(s.observations)) for s in steps] == [("agent", 0), ("user", 0)]


def test_usage_model_time_and_cost_of_an_answer() -> None:
    response = {
        "id": "r1",
        "created": 1_760_000_000,
        "model": "m-1",
        "usage": usage(10, 3, 4),
        "choices": [{"finish_reason": "stop", "message": {"content": "long text"}}],
    }
    (step,) = run_steps([tool_turn("a", response=response, cost=0.5, timestamp=1_760_000_002.5)])
    assert (step.prompt_tokens, step.completion_tokens, step.cached_tokens) == (10, 3, 4)
    assert step.model == "m-1"
    assert step.timestamp is not None
    assert step.timestamp.timestamp() == 1_760_000_002.5
    assert meta(step)["cost"] == 0.5
    assert meta(step)["response"]["finish_reason"] == "stop"
    assert "long text" not in (step.metadata or "")


def test_log_probabilities_of_the_answer_are_kept() -> None:
    tokens = [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -1}]
    response = {"id": "r", "choices": [{"logprobs": {"content": tokens}}]}
    (step,) = run_steps([tool_turn("a", response=response)])
    assert step.logprobs == (-0.5, -1.0)


def test_reasoning_is_kept_apart() -> None:
    (step,) = run_steps([{**tool_turn("a"), "reasoning_content": "Because."}])
    assert step.reasoning == "Because."


def rejection(**extra: Any) -> dict[str, Any]:
    return {
        "role": "user",
        "content": "Tool call error",
        "extra": {"interrupt_type": "FormatError", **extra},
    }


def test_an_answer_that_was_not_kept_leaves_only_the_error() -> None:
    (step,) = run_steps([rejection()])
    assert (step.actor, step.text, step.format_error) == ("user", "Tool call error", False)
    assert meta(step)["interrupt_type"] == "FormatError"


def test_a_rejected_answer_in_text_is_a_step_with_a_format_error() -> None:
    steps = run_steps([rejection(model_response="I do nothing.", n_actions=0)])
    assert [(s.actor, s.text, s.format_error) for s in steps] == [
        ("agent", "I do nothing.", True),
        ("user", "Tool call error", False),
    ]


def test_a_rejected_answer_with_calls_keeps_calls_and_tokens() -> None:
    call = {"id": "c", "function": {"name": "python", "arguments": "{bad"}}
    response = {
        "id": "r",
        "usage": usage(5, 2, 0),
        "choices": [{"message": {"content": "x", "tool_calls": [call]}}],
    }
    agent, user = run_steps([rejection(response=response, cost=0.1)])
    assert (agent.format_error, agent.prompt_tokens, agent.completion_tokens) == (True, 5, 2)
    assert [(c.name, c.arguments, c.arguments_raw) for c in agent.tool_calls] == [
        ("python", None, "{bad")
    ]
    assert meta(user)["cost"] == 0.1


def responses_object(*output: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "object": "response",
        "id": "resp_1",
        "created_at": 1_760_000_000,
        "model": "m-2",
        "output": list(output),
        "usage": {
            "input_tokens": 9,
            "output_tokens": 4,
            "input_tokens_details": {"cached_tokens": 1},
        },
        **fields,
    }


REASONING = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
SAID = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Look."}],
}
CALL = {"type": "function_call", "call_id": "k", "name": "bash", "arguments": '{"command": "ls"}'}
OUTPUT = {"type": "function_call_output", "call_id": "k", "output": RESULT.format(0)}


def test_a_responses_object_is_one_step() -> None:
    (step,) = run_steps([responses_object(REASONING, SAID, CALL, extra={"cost": 0.2}), OUTPUT])
    assert (step.actor, step.text, step.reasoning) == ("agent", "Look.", "Hm.")
    assert [c.call_id for c in step.tool_calls] == ["k"]
    assert [(o.call_id, o.is_error) for o in step.observations] == [("k", False)]
    assert (step.prompt_tokens, step.completion_tokens, step.cached_tokens) == (9, 4, 1)
    assert (step.model, meta(step)["cost"]) == ("m-2", 0.2)


def test_responses_items_without_their_object_are_read_too() -> None:
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go."}]}
    steps = run_steps([said, REASONING, CALL, OUTPUT])
    assert [(s.actor, s.text) for s in steps[:1]] == [("user", "Go.")]
    assert sum(len(s.tool_calls) for s in steps) == 1
    assert sum(len(s.observations) for s in steps) == 1


def test_a_rejected_responses_object_is_a_format_error() -> None:
    message = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "No tool calls"}],
        "extra": {"interrupt_type": "FormatError", "response": responses_object(SAID)},
    }
    agent, user = run_steps([message])
    assert (agent.text, agent.format_error, agent.prompt_tokens) == ("Look.", True, 9)
    assert (user.actor, user.text) == ("user", "No tool calls")


def test_the_answers_of_both_apis_are_found_in_order() -> None:
    plain = tool_turn("a", response={"id": "r1"})
    found = responses_of([{"role": "user"}, plain, responses_object(SAID)])
    assert [a["id"] for a in found] == ["r1", "resp_1"]


def test_the_end_of_a_run_is_an_event() -> None:
    end = {"role": "exit", "content": "LimitsExceeded", "extra": {"exit_status": "LimitsExceeded"}}
    (step,) = run_steps([end])
    assert (step.actor, step.text) == ("environment", "LimitsExceeded")
    assert meta(step)["role"] == "exit"


@pytest.mark.parametrize("message", ["x", 1, None, {}, {"content": "x"}, {"role": "user"}])
def test_what_is_no_message_is_refused(message: Any) -> None:
    with pytest.raises(TypeError, match="not a message"):
        run_steps([message])
