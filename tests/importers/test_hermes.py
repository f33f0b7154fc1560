"""Hermes tags in chat messages and ShareGPT turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.building import StepBuilder
from trajstore.importers.hermes import IMPORTER, tagged_steps
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Source
from trajstore.schema import Step, Trajectory, finish

CALL = '<tool_call>\n{"name": "get", "arguments": {"a": 1}}\n</tool_call>'
TOOLS = '<tools>[{"type": "function", "function": {"name": "get"}}]</tools>'


def say(text: str, role: str = "assistant", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": text, **more}


def steps(*messages: Any) -> tuple[Step, ...]:
    return tagged_steps(messages, StepBuilder()).steps()


def agent(text: str) -> Step:
    (step,) = steps(say(text))
    return step


def source(folder: Path, *rows: Any) -> Source:
    path = folder / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return Source(path)


def items(found: Source) -> list[Item]:
    return list(IMPORTER.read(found, ImportOptions()))


def runs(found: Source) -> list[Trajectory]:
    return [finish(i) for i in items(found) if isinstance(i, Trajectory)]


def test_a_call_is_taken_out_of_the_text_and_the_raw_text_is_kept() -> None:
    step = agent(f"Let me look.\n{CALL}")
    assert step.text == "Let me look."
    assert (step.tool_calls[0].name, step.tool_calls[0].arguments) == ("get", '{"a":1}')
    assert json.loads(step.metadata or "") == {"raw": f"Let me look.\n{CALL}"}


def test_nothing_but_a_call_is_no_text() -> None:
    assert agent(CALL).text is None


def test_several_calls_are_parallel_calls() -> None:
    step = agent(f"{CALL}\n{CALL.replace('get', 'put')}")
    assert [c.name for c in step.tool_calls] == ["get", "put"]
    assert not step.format_error


def test_single_quotes_are_read() -> None:
    step = agent("<tool_call>{'name': 'get', 'arguments': {'a': None}}</tool_call>")
    assert (step.tool_calls[0].arguments, step.format_error) == ('{"a":null}', False)


def test_an_invalid_call_is_kept_raw_and_marked() -> None:
    step = agent('<tool_call>\n{"name": "get", "arguments": {"a": 1}\n</tool_call>')
    assert step.format_error
    assert (step.tool_calls[0].name, step.tool_calls[0].arguments) == ("get", None)
    assert step.tool_calls[0].arguments_raw == '{"name": "get", "arguments": {"a": 1}'


def test_an_empty_call_is_a_format_error_and_no_call() -> None:
    step = agent("<tool_call> </tool_call>")
    assert (step.tool_calls, step.format_error) == ((), True)


def test_one_invalid_call_does_not_spoil_the_next() -> None:
    step = agent(f"<tool_call>broken</tool_call>{CALL}")
    assert [c.arguments for c in step.tool_calls] == [None, '{"a":1}']


@pytest.mark.parametrize(
    "text", ['<tool_call>{"name": "get", "arguments": {}}', f"<tool_call>{CALL}"]
)
def test_an_unclosed_call_ends_at_the_next_one_or_with_the_text(text: str) -> None:
    assert [c.name for c in agent(text).tool_calls] == ["get"]
    assert agent(text).text is None


@pytest.mark.parametrize(
    ("text", "reasoning", "said"),
    [
        ("<think>hm</think>Hi", "hm", "Hi"),
        ("<scratch_pad>\nGoal: x\n</scratch_pad>\nHi", "Goal: x", "Hi"),
        ("<think>a</think>x<scratch_pad>b</scratch_pad>", "a\nb", "x"),
        ("<think>cut off", "cut off", None),
        ("opened by the template</think>\n\nHi", "opened by the template", "Hi"),
        (f"<think>use <tool_call> now</think>{CALL}", "use <tool_call> now", None),
        (f"<think>hm {CALL}", "hm", None),
    ],
)
def test_thoughts_become_reasoning(text: str, reasoning: str, said: str | None) -> None:
    step = agent(text)
    assert (step.reasoning, step.text) == (reasoning, said)
    assert len(step.tool_calls) == (1 if CALL in text else 0)


def test_text_without_tags_is_left_as_it_is() -> None:
    step = agent("  Hi \n")
    assert (step.text, step.metadata) == ("  Hi \n", None)


@pytest.mark.parametrize("role", ["tool", "user"])
def test_results_go_to_the_step_that_asked(role: str) -> None:
    both = "<tool_response>\n{'a': 1}\n</tool_response>\n<tool_response>b</tool_response>"
    found = steps(say(f"{CALL}{CALL}"), say(both, role))
    assert [s.actor for s in found] == ["agent"]
    assert [o.text for o in found[0].observations] == ["{'a': 1}", "b"]


def test_what_the_user_says_beside_a_result_is_a_step() -> None:
    found = steps(say(CALL), say("<tool_response>a</tool_response>And now?", "user"))
    assert [(s.actor, s.text) for s in found] == [("agent", None), ("user", "And now?")]


def test_a_result_without_tags_is_read_and_linked_by_its_id() -> None:
    found = steps(say(CALL), say("plain", "tool"), say(CALL), say("x", "tool", tool_call_id="9"))
    assert [s.observations[0].text for s in found] == ["plain", "x"]


def test_tool_responses_may_carry_the_id_of_their_call() -> None:
    called = '<tool_call>{"id": "c1", "name": "get", "arguments": {}}</tool_call>'
    answer = say("<tool_response>a</tool_response>", "tool", tool_call_id="c1")
    (step,) = steps(say(called), answer)
    assert step.tool_calls[0].call_id == step.observations[0].call_id == "c1"


def test_native_calls_and_null_text_are_read_as_chat() -> None:
    call = {"id": "1", "function": {"name": "f", "arguments": "{}"}}
    (step,) = steps({"role": "assistant", "content": None, "tool_calls": [call]})
    assert (step.text, step.tool_calls[0].name) == (None, "f")


def test_a_chat_record_is_read_whole(tmp_path: Path) -> None:
    messages = [
        say(f"You may call functions in <tools></tools> tags. Here: {TOOLS}", "system"),
        say("Weather?", "user"),
        say(CALL),
        say("<tool_response>sunny</tool_response>", "tool"),
        say("Sun."),
    ]
    found = source(tmp_path, {"messages": messages, "resolved": True})
    assert IMPORTER.detect(found) == 0.65
    (run,) = runs(found)
    assert [s.actor for s in run.steps] == ["system", "user", "agent", "agent"]
    assert json.loads(run.tools or "") == [{"type": "function", "function": {"name": "get"}}]
    assert (run.goal, run.success, run.n_tool_calls) == ("Weather?", True, 1)


def test_a_sharegpt_record_is_read_whole(tmp_path: Path) -> None:
    turns = [
        {"from": "system", "value": "x"},
        {"from": "human", "value": "Weather?"},
        {"from": "gpt", "value": CALL},
        {"from": "tool", "value": "<tool_response>sunny</tool_response>"},
    ]
    found = source(tmp_path, {"id": "a", "conversations": turns, "tools": '[{"name": "get"}]'})
    assert IMPORTER.detect(found) == 0.65
    (run,) = runs(found)
    assert (run.n_agent_steps, run.n_tool_calls) == (1, 1)
    assert run.steps[-1].observations[0].text == "sunny"
    assert run.tools == '[{"name": "get"}]'


def test_tools_one_after_another_are_a_list(tmp_path: Path) -> None:
    system = say('<tools>\n{"name": "a"}\n{"name": "b"}\n</tools>', "system")
    (run,) = runs(source(tmp_path, {"messages": [system, say(CALL)]}))
    assert run.tools == '[{"name":"a"},{"name":"b"}]'


def test_a_pair_with_tags_is_read(tmp_path: Path) -> None:
    row = {"prompt": [say("Weather?", "user")], "chosen": [say(CALL)], "rejected": [say("No.")]}
    found = source(tmp_path, row)
    assert IMPORTER.detect(found) == 0.65
    chosen, rejected = runs(found)
    assert (chosen.n_tool_calls, rejected.n_tool_calls) == (1, 0)
    assert chosen.task_id == rejected.task_id


def test_tagged_and_native_calls_of_one_conversation_are_one_run(tmp_path: Path) -> None:
    native = {"id": "1", "function": {"name": "get", "arguments": {"a": 1}}}
    ask, done = say("Weather?", "user"), say("Sun.")
    tagged = [ask, say(CALL), say("<tool_response>ok</tool_response>", "tool"), done]
    plain = [
        ask,
        {"role": "assistant", "content": None, "tool_calls": [native]},
        say("ok", "tool", tool_call_id="1"),
        done,
    ]
    one, other = runs(source(tmp_path, {"messages": tagged}, {"messages": plain}))
    assert one.trajectory_id == other.trajectory_id


def test_a_broken_record_costs_no_other(tmp_path: Path) -> None:
    good = {"messages": [say("x", "user"), say(CALL)]}
    every = items(source(tmp_path, good, {"messages": [say(CALL), {"content": "x"}]}, {"a": 1}))
    assert [p.line for p in every if isinstance(p, Problem)] == [2, 3]


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [say("no tags", "user")]},
        {"text": CALL},
        {"responses_create_params": {"input": [say(CALL)]}},
    ],
)
def test_other_records_are_not_recognised(tmp_path: Path, row: Any) -> None:
    assert IMPORTER.detect(source(tmp_path, row)) == 0


def test_no_recorded_file_of_another_format_is_recognised(real_data: Path) -> None:
    files = [p for p in real_data.rglob("*") if p.is_file()]
    assert [p for p in files if IMPORTER.detect(Source(p))] == []
