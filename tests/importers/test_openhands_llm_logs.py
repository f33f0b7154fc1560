"""Completion logs: runs put together from the logs of their calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trajstore.importers.openhands_llm_logs import CompletionLogs, is_completion_log
from trajstore.schema import Trajectory, finish

USER = {"role": "user", "content": [{"type": "text", "text": "Do it"}]}


def call(number: int, text: str | None = None) -> dict[str, Any]:
    function = {"name": "terminal", "arguments": f'{{"n": {number}}}'}
    one = {"id": f"t{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": text, "tool_calls": [one]}


def result(number: int) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"t{number}", "content": f"result {number}"}


def log(messages: list[Any], answer: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    value = {
        "messages": messages,
        "kwargs": {"temperature": 0.5, "tools": ["again"]},
        "tools": [{"name": "terminal"}],
        "cost": 0.25,
        "timestamp": 1757000000 + len(messages),
        "latency_sec": float(len(messages)),
    }
    if answer is not None:
        usage = {"prompt_tokens": 100 * len(messages), "completion_tokens": 5}
        value["response"] = {"model": "m", "choices": [{"message": answer}], "usage": usage}
    return {**value, **more}


FIRST = log([USER], call(1, "Look."))
SECOND = log([USER, call(1, "Look."), result(1)], call(2))


def runs(*logs: dict[str, Any]) -> list[Trajectory]:
    gathered = CompletionLogs()
    for place, one in enumerate(logs):
        gathered.add(one, f"log {place}")
    return [finish(t) for t in gathered.trajectories()]


def test_the_longest_log_gives_the_steps() -> None:
    (run,) = runs(FIRST, SECOND)
    assert [s.actor for s in run.steps] == ["user", "agent", "agent"]
    assert run.steps[1].observations[0].text == "result 1"
    assert run.source_uri == "log 1"


def test_each_log_gives_its_call_tokens_time_and_cost() -> None:
    (run,) = runs(FIRST, SECOND)
    assert [s.prompt_tokens for s in run.steps] == [None, 100, 300]
    assert [s.latency_s for s in run.steps] == [None, 1.0, 3.0]
    assert (run.prompt_tokens, run.completion_tokens, run.cost_usd) == (400, 10, 0.5)
    assert [s.sampling for s in run.steps[1:]] == ['{"temperature":0.5}'] * 2
    assert (run.ended_at is None, run.started_at is None) == (False, False)


def test_the_order_of_the_logs_changes_nothing_but_the_place() -> None:
    (there,) = runs(FIRST, SECOND)
    (back,) = runs(SECOND, FIRST)
    assert back.steps == there.steps
    assert back.trajectory_id == there.trajectory_id


def test_the_same_log_twice_counts_once() -> None:
    (run,) = runs(FIRST, FIRST)
    assert (run.prompt_tokens, run.cost_usd) == (100, 0.25)


def test_runs_of_one_task_are_told_apart_by_their_first_answer() -> None:
    found = runs(FIRST, log([USER], call(7, "Look.")))
    assert len({r.trajectory_id for r in found}) == 2
    assert len({r.task_id for r in found}) == 1


def test_text_in_parts_and_text_alone_are_the_same_talk() -> None:
    parts = {**call(1), "content": [{"type": "text", "text": "Look."}]}
    (run,) = runs(FIRST, log([USER, parts, result(1)], call(2)))
    assert run.prompt_tokens == 400


def test_a_call_whose_answer_was_replaced_later_is_not_counted() -> None:
    other = log([USER, call(1, "Look."), result(1)], call(9), cost=9.0)
    longest = log([USER, call(1, "Look."), result(1), call(2), result(2)], call(3))
    (run,) = runs(FIRST, other, longest)
    assert [s.prompt_tokens for s in run.steps] == [None, 100, None, 500]
    assert run.cost_usd == 0.5


def test_a_failed_call_ends_its_run_in_an_error() -> None:
    failed = log(SECOND["messages"], None, error={"type": "Timeout", "message": "no answer"})
    (run,) = runs(FIRST, failed)
    assert (run.status, run.error) == ("error", "no answer")
    assert run.steps[-1].observations[0].text == "result 1"
    assert run.prompt_tokens == 100


def test_tools_and_settings_are_kept_once() -> None:
    (run,) = runs(FIRST)
    assert run.tools == '[{"name":"terminal"}]'
    assert json.loads(run.metadata or "")["kwargs"] == {"temperature": 0.5}


def test_logs_of_the_responses_api_are_read() -> None:
    item = {"type": "function_call", "call_id": "t1", "name": "terminal", "arguments": "{}"}
    asked = {"type": "message", "role": "user", "content": "Do it"}
    usage = {"input_tokens": 30, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 20}}
    answer = {"model": "m", "output": [item], "usage": usage}
    one = {"input": [asked], "instructions": "Be brief.", "response": answer}
    (run,) = runs({**one, "cost": 0.0, "timestamp": 1.0})
    assert [(s.actor, s.text) for s in run.steps] == [
        ("system", "Be brief."),
        ("user", "Do it"),
        ("agent", None),
    ]
    last = run.steps[-1]
    assert (last.prompt_tokens, last.completion_tokens, last.cached_tokens) == (30, 4, 20)


def test_a_log_without_messages_is_refused() -> None:
    with pytest.raises(ValueError, match="no messages"):
        CompletionLogs().add({"messages": [], "response": {}}, "x")


@pytest.mark.parametrize("value", [FIRST, {**SECOND, "response": None, "error": {}}])
def test_logs_are_known(value: Any) -> None:
    assert is_completion_log(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"messages": [], "response": {}},
        {**FIRST, "messages": "text"},
        {**FIRST, "response": None},
    ],
)
def test_other_values_are_no_logs(value: Any) -> None:
    assert not is_completion_log(value)
