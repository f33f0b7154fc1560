from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.other_cli import IMPORTER
from trajstore.importers.source import Source
from trajstore.schema import Trajectory, finish, trajectories_to_arrow

FOLDER = "other_cli_agents"
FILES = {
    "copilot_small.jsonl": "copilot",
    "hermes_large.json": "hermes",
    "kimi_assistant_tools.jsonl": "kimi-code",
    "openclaw_large.jsonl": "openclaw",
    "pi_small.jsonl": "pi",
    "qwen_system_telemetry.jsonl": "qwen-code",
}


def items(path: Path) -> list[Item]:
    return list(IMPORTER.read(Source(path), ImportOptions()))


def runs(path: Path) -> list[Trajectory]:
    return [finish(i) for i in items(path) if isinstance(i, Trajectory)]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_exactly_the_files_of_these_agents_are_detected(real_data: Path) -> None:
    files = [p for p in real_data.rglob("*") if p.is_file()]
    found = {p for p in files if IMPORTER.detect(Source(p)) > 0}
    assert found == {real_data / FOLDER / name for name in FILES}


@pytest.mark.parametrize(("name", "agent"), FILES.items())
def test_each_file_reads_whole_and_the_same_again(real_data: Path, name: str, agent: str) -> None:
    path = real_data / FOLDER / name
    found = runs(path)
    assert all(isinstance(i, Trajectory) for i in items(path))
    assert {run.agent for run in found} == {agent}
    assert {(run.success, run.source) for run in found} == {(None, "cli-session")}
    assert found == runs(path)
    assert trajectories_to_arrow(found).num_rows == len(found)


def test_kimi_has_one_step_for_each_call_that_ended(real_data: Path) -> None:
    """25 requests, of which 2 were given up and 1 wrote the compaction note."""
    path = real_data / FOLDER / "kimi_assistant_tools.jsonl"
    events = [r["event"] for r in lines(path) if "event" in r]
    kinds = Counter(e["type"] for e in events)
    (run,) = runs(path)
    assert run.n_agent_steps == kinds["step.end"] == 25 - 2 - 1
    assert run.n_tool_calls == kinds["tool.call"] == 19
    assert sum(len(s.observations) for s in run.steps) == kinds["tool.result"]
    assert run.n_tool_errors == sum(e.get("result", {}).get("isError") is True for e in events)
    ends = [e["usage"] for e in events if e["type"] == "step.end"]
    assert run.completion_tokens == sum(u["output"] for u in ends)
    assert run.prompt_tokens == sum(sum(u.values()) - u["output"] for u in ends)


def test_kimi_links_each_result_to_its_call(real_data: Path) -> None:
    (run,) = runs(real_data / FOLDER / "kimi_assistant_tools.jsonl")
    for step in run.steps:
        assert [c.call_id for c in step.tool_calls] == [o.call_id for o in step.observations]


def test_kimi_tells_what_the_user_typed_from_what_was_injected(real_data: Path) -> None:
    path = real_data / FOLDER / "kimi_assistant_tools.jsonl"
    prompts = [r["input"][0]["text"] for r in lines(path) if r["type"] == "turn.prompt"]
    (run,) = runs(path)
    assert [s.text for s in run.steps if s.actor == "user"] == prompts
    events = [s.text or "" for s in run.steps if s.actor == "environment"]
    assert sum(t.startswith("<system-reminder>") for t in events) == 5
    assert sum(t.startswith("The conversation so far has been compacted") for t in events) == 1
    assert run.model == "kimi-k2.7-code"


def test_copilot_has_the_counts_of_its_events(real_data: Path) -> None:
    path = real_data / FOLDER / "copilot_small.jsonl"
    events = lines(path)
    kinds = Counter(e["type"] for e in events)
    main, below = runs(path)
    asked = [r for e in events for r in e["data"].get("toolRequests", [])]
    assert main.n_agent_steps + below.n_agent_steps == kinds["assistant.message"] == 5
    assert main.n_tool_calls + below.n_tool_calls == len(asked)
    results = sum(len(s.observations) for run in (main, below) for s in run.steps)
    assert results == kinds["tool.execution_complete"] == 4
    assert main.completion_tokens == 15
    assert main.prompt_tokens is None


def test_copilot_messages_below_a_call_are_a_sub_agents(real_data: Path) -> None:
    main, below = runs(real_data / FOLDER / "copilot_small.jsonl")
    assert main.task_id == "copilot/copilot_stage0_small"
    assert (below.parent_id, below.relation) == (main.trajectory_id, "sub-agent")


def test_copilot_reasoning_goes_to_the_message_after_it(real_data: Path) -> None:
    main, _ = runs(real_data / FOLDER / "copilot_small.jsonl")
    last = [s for s in main.steps if s.actor == "agent"][-1]
    assert last.reasoning == "[trimmed for fixture]"
    assert [s.actor for s in main.steps if s.text == "Example model error"] == ["environment"]


def test_pi_counts_tokens_once_a_call_and_makes_compaction_an_event(real_data: Path) -> None:
    """Two calls of 12 + 7 tokens; ``totalTokens`` says 19 for each."""
    (run,) = runs(real_data / FOLDER / "pi_small.jsonl")
    assert (run.prompt_tokens, run.completion_tokens) == (24, 14)
    assert run.cost_usd == 0.0
    assert [s.actor for s in run.steps] == [
        "user",
        "agent",
        "environment",
        "user",
        "agent",
        "environment",
    ]
    assert run.task_id == "pi/019e19b4-eb48-746a-aa6b-8dfcfa37954b"


def test_openclaw_calls_have_their_results(real_data: Path) -> None:
    (run,) = runs(real_data / FOLDER / "openclaw_large.jsonl")
    pairs = [(c.name, o.text, o.is_error) for s in run.steps for c, o in pairs_of(s)]
    assert pairs == [
        ("run_terminal", "M file1\nM file2", False),
        ("edit_file", "file written", False),
    ]
    assert run.goal == "Open /tmp/large and run status"


def pairs_of(step: Any) -> list[tuple[Any, Any]]:
    return list(zip(step.tool_calls, step.observations, strict=True))


def test_qwen_telemetry_is_no_step(real_data: Path) -> None:
    """8 records: 4 of telemetry, 2 slash commands, an answer and a result."""
    (run,) = runs(real_data / FOLDER / "qwen_system_telemetry.jsonl")
    assert (run.n_steps, run.n_tool_calls) == (1, 1)
    notes = json.loads(run.metadata or "")
    assert notes["records_not_kept"] == {"ui_telemetry": 4}
    assert len(notes["records"]) == 2


def test_hermes_keeps_prompt_tools_and_chat(real_data: Path) -> None:
    (run,) = runs(real_data / FOLDER / "hermes_large.json")
    assert [s.actor for s in run.steps] == ["system", "user", "agent", "agent"]
    assert run.steps[2].reasoning == "Need a shell lookup."
    assert run.steps[2].observations[0].text == "/Users/devx/Repository/Codex-History"
    assert json.loads(run.tools or "")[0]["name"] == "shell"
    assert (run.model, run.duration_s) == ("gpt-5.2", 12.0)


def test_a_bad_record_is_named_and_costs_no_other(real_data: Path, tmp_path: Path) -> None:
    whole = (real_data / FOLDER / "pi_small.jsonl").read_text().splitlines(keepends=True)
    path = tmp_path / "x.jsonl"
    path.write_text("".join([*whole[:4], "[1]\n", '{"type": "message"}\n', "{bad\n", *whole[4:]]))
    assert [i.line for i in items(path) if isinstance(i, Problem)] == [5, 6, 7]
    assert runs(path)[0].steps == runs(real_data / FOLDER / "pi_small.jsonl")[0].steps


def test_a_session_in_which_nothing_was_said_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"type":"session","version":3,"id":"s","cwd":"/"}\n')
    (item,) = items(path)
    assert isinstance(item, Problem)
    assert item.kind == "ignored"


def test_a_file_of_no_known_agent_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"role":"user"}\n')
    (item,) = items(path)
    assert isinstance(item, Problem)
    assert item.kind == "bad"
