"""OpenAI's fine-tuning file, against its documented form written out by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trajstore.exports import Refusal, export_sft, sft_rows
from trajstore.schema import Observation, Step, ToolCall, Trajectory

Run = Callable[..., Trajectory]

_USER = Step(actor="user", text="q")


def _lines(runs: list[Trajectory], folder: Path) -> list[dict[str, Any]]:
    export_sft(runs, folder, to="openai")
    return [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]


def _calling(*names: str, answered: bool = True) -> Step:
    calls = tuple(ToolCall.of(n, '{"x":  1}', f"c{i}") for i, n in enumerate(names))
    results = tuple(Observation(call_id=c.call_id, text="r") for c in calls if answered)
    return Step(actor="agent", tool_calls=calls, observations=results)


def test_a_line_is_what_the_documentation_shows(tmp_path: Path, sum_run: Trajectory) -> None:
    (line,) = _lines([sum_run], tmp_path)
    call = {"name": "add", "arguments": '{"a": 2, "b": 3, "note": null}'}
    assert line == {
        "messages": [
            {"role": "system", "content": "Use the tool."},
            {"role": "user", "content": "2 + 3?"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c1", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "5"},
            {"role": "assistant", "content": "5"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "add",
                    "description": "Add.",
                    "parameters": {"type": "object"},
                },
            }
        ],
        "parallel_tool_calls": False,
    }


def test_turns_not_trained_on_have_weight_0(tmp_path: Path, run: Run) -> None:
    steps = (_USER, Step(actor="agent", text="old", is_copied=True), _USER)
    (line,) = _lines([run(*steps, Step(actor="agent", text="new"))], tmp_path)
    assert [m.get("weight") for m in line["messages"]] == [None, 0, None, None]


def test_a_run_without_tools_has_neither_key(tmp_path: Path, run: Run) -> None:
    (line,) = _lines([run(_USER, Step(actor="agent", text="a"))], tmp_path)
    assert list(line) == ["messages"]


def test_several_calls_in_one_turn_are_parallel(
    tmp_path: Path, run: Run, sum_run: Trajectory
) -> None:
    steps = (_USER, _calling("add", "add"), Step(actor="agent", text="a"))
    (line,) = _lines([run(*steps, tools=sum_run.tools)], tmp_path)
    assert line["parallel_tool_calls"] is True


def test_arguments_that_are_no_json_stay_as_they_were_written(tmp_path: Path, run: Run) -> None:
    call = ToolCall.of("f", "{oops", "c")
    step = Step(
        actor="agent", tool_calls=(call,), observations=(Observation(call_id="c", text="bad"),)
    )
    (line,) = _lines([run(_USER, step, Step(actor="agent", text="a"))], tmp_path)
    assert line["messages"][1]["tool_calls"][0]["function"]["arguments"] == "{oops"


def test_a_call_without_result_is_refused_unless_it_ends_the_run(run: Run) -> None:
    open_ = _calling("f", answered=False)
    middle, last = sft_rows(
        [run(_USER, open_, Step(actor="agent", text="a")), run(_USER, open_)], to="openai"
    )
    assert isinstance(middle, Refusal)
    assert (middle.reason, "'c0'" in middle.detail) == ("unanswered-call", True)
    assert not isinstance(last, Refusal)


@pytest.mark.parametrize("name", ["a b", "functions.add", "x" * 65, ""])
def test_a_name_that_the_api_does_not_take_is_refused(run: Run, name: str) -> None:
    (found,) = sft_rows([run(_USER, _calling(name), Step(actor="agent", text="a"))], to="openai")
    assert isinstance(found, Refusal)
    assert found.reason == "function-name"
