from __future__ import annotations

import subprocess
import sys

import pytest

from trajstore.rollouts import Observed, Task, Transition, function_tool


def test_a_tool_is_written_as_openai_reads_it() -> None:
    tool = function_tool("add", "Adds.", {"a": {"type": "number"}, "b": {"type": "number"}})
    assert tool == {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                "required": ["a", "b"],
                "additionalProperties": False,
            },
        },
    }


def test_a_transition_says_nothing_by_default() -> None:
    transition = Transition()
    assert transition.observation == Observed(text=None, results=(), state=None)
    assert (transition.reward, transition.terminated, transition.truncated) == (0.0, False, False)


def test_tasks_are_values() -> None:
    task = Task(task_id="x/1", goal="go")
    assert task == Task(task_id="x/1", goal="go")
    with pytest.raises(AttributeError):
        task.goal = "stay"  # type: ignore[misc]


def test_rollouts_load_nothing_heavy() -> None:
    code = (
        "import sys, trajstore.rollouts\n"
        "heavy = {'torch', 'transformers', 'vllm', 'openai', 'typer', 'duckdb', 'deltalake'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
