from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.claude_code import IMPORTER
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Source
from trajstore.schema import Trajectory, finish, trajectories_to_arrow

SUBAGENT_SESSION = "0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f"
GROWING = "growing_session/snapshot"


def items(source: Source | Path) -> list[Item]:
    source = source if isinstance(source, Source) else Source(source)
    return list(IMPORTER.read(source, ImportOptions()))


def runs(source: Source | Path) -> list[Trajectory]:
    return [finish(i) for i in items(source) if isinstance(i, Trajectory)]


def problems(source: Source | Path) -> list[Problem]:
    return [i for i in items(source) if isinstance(i, Problem)]


def write(path: Path, *records: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def answered(run: Trajectory) -> int:
    """Calls whose own id has a result in the same step."""
    return sum(
        any(o.call_id == call.call_id for o in step.observations)
        for step in run.steps
        for call in step.tool_calls
    )


@pytest.mark.parametrize(
    ("name", "session", "agent_steps", "calls", "completion"),
    [
        ("compacted", "198393f2-22db-477b-ac77-1825bea883ae", 13 - 1, 10, 2038),
        ("glued_line", "86cc3044-7515-43f1-9c25-1444738c64c9", 59 - 1, 55, 1991),
        (f"{GROWING}1", "768de5d6-9fad-475b-8a4f-dfa7ddc01bb0", 3, 2, 11),
        (f"{GROWING}2", "768de5d6-9fad-475b-8a4f-dfa7ddc01bb0", 19, 16, 4788),
        (f"{GROWING}3", "768de5d6-9fad-475b-8a4f-dfa7ddc01bb0", 26, 22, 6396),
        ("progress_records", "9b76dc0f-dc1b-4822-ac56-53cfa3fbc032", 2, 1, 10),
        ("task_subagent", "559081d6-534c-40b9-afeb-5eb72cd84309", 7, 9, 3281),
        ("tool_error", "cf564e14-9b07-42ad-8d9a-4faa1b79a0ed", 4, 3, 744),
    ],
)
def test_recorded_sessions_have_the_counts_of_provenance(
    real_data: Path, name: str, session: str, agent_steps: int, calls: int, completion: int
) -> None:
    """Columns assistant_message_ids (less ``<synthetic>``), tool_use, output_tokens_dedup."""
    (run,) = runs(real_data / f"claude_code/{name}.jsonl")
    assert run.task_id == f"claude-code/{session}"
    assert (run.n_agent_steps, run.n_tool_calls) == (agent_steps, calls)
    assert run.completion_tokens == completion
    assert answered(run) == calls
    assert sum(len(s.observations) for s in run.steps) == calls


@pytest.mark.parametrize("name", [f"{GROWING}1", f"{GROWING}2", f"{GROWING}3", "progress_records"])
def test_tokens_are_those_that_the_checkpoint_beside_the_session_counted(
    real_data: Path, name: str
) -> None:
    """The checkpoint was written by another program, over the same file."""
    folder = real_data / "claude_code"
    usage = json.loads((folder / f"{name}.metadata.json").read_text())["token_usage"]
    (run,) = runs(folder / f"{name}.jsonl")
    read = usage["input_tokens"] + usage["cache_creation_tokens"] + usage["cache_read_tokens"]
    assert (run.prompt_tokens, run.cached_tokens) == (read, usage["cache_read_tokens"])
    assert run.completion_tokens == usage["output_tokens"]
    assert run.n_agent_steps == usage["api_call_count"]


def test_a_growing_session_is_one_trajectory_whose_steps_only_get_more(real_data: Path) -> None:
    grown = [runs(real_data / f"claude_code/{GROWING}{n}.jsonl")[0] for n in (1, 2, 3)]
    assert len({run.trajectory_id for run in grown}) == 1
    assert [run.n_steps for run in grown] == sorted({run.n_steps for run in grown})
    first, last = grown[0].steps, grown[2].steps
    assert [s.text for s in first] == [s.text for s in last[: len(first)]]


def test_reading_twice_gives_the_same_content(real_data: Path) -> None:
    path = real_data / "claude_code/task_subagent.jsonl"
    assert runs(path) == runs(path)


def test_a_glued_line_loses_neither_object(real_data: Path) -> None:
    """Line 115 holds a message and a snapshot; a reader of whole objects gets 8 snapshots."""
    path = real_data / "claude_code/glued_line.jsonl"
    (run,) = runs(path)
    (step,) = [s for s in run.steps if (s.text or "").startswith("No duplication. There are two")]
    assert problems(path) == []
    assert json.loads(run.metadata or "")["records_not_kept"] == {
        "file-history-snapshot": 8,
        "progress": 28,
    }
    whole, _ = json.JSONDecoder().raw_decode(path.read_text().splitlines()[114])
    assert step.text == whole["message"]["content"][0]["text"]


def test_a_message_written_again_on_resume_is_said_once(real_data: Path) -> None:
    """Lines 115 and 116 are the same text block of one message under two record ids."""
    (run,) = runs(real_data / "claude_code/glued_line.jsonl")
    (step,) = [s for s in run.steps if (s.text or "").startswith("No duplication. There are two")]
    assert (step.text or "").count("No duplication.") == 1
    assert len(json.loads(step.metadata or "")["uuids"]) == 3


def test_compaction_is_an_event_and_its_summary_is_nobodys_word(real_data: Path) -> None:
    (run,) = runs(real_data / "claude_code/compacted.jsonl")
    at = next(i for i, s in enumerate(run.steps) if s.text == "Conversation compacted")
    boundary, summary = run.steps[at], run.steps[at + 1]
    assert boundary.actor == summary.actor == "environment"
    assert json.loads(boundary.metadata or "")["compactMetadata"]["preTokens"] == 155250
    assert (summary.text or "").startswith("This session is being continued")
    assert any(s.actor == "agent" for s in run.steps[:at])


def test_what_the_cli_wrote_itself_is_no_model_call(real_data: Path) -> None:
    (run,) = runs(real_data / "claude_code/compacted.jsonl")
    (step,) = [s for s in run.steps if s.text == "No response requested."]
    assert step.actor == "environment"
    assert step.completion_tokens is None
    assert run.model == "claude-opus-4-5-20251101"


def test_the_goal_is_what_the_user_first_asked_of_the_agent(real_data: Path) -> None:
    """A caveat, ``/exit`` and its output come before it."""
    (run,) = runs(real_data / "claude_code/compacted.jsonl")
    assert (run.goal or "").startswith("for the change in cmd/entire/cli/hooks_claudecode_handlers")
    assert run.steps[1].text is not None
    assert "/exit" in run.steps[1].text


def test_failed_calls_are_flagged_and_silence_stays_unknown(real_data: Path) -> None:
    (run,) = runs(real_data / "claude_code/task_subagent.jsonl")
    flags = [o.is_error for s in run.steps for o in s.observations]
    assert flags.count(True) == 2
    assert None in flags
    assert run.n_tool_errors == 2


def test_parallel_calls_of_one_message_are_one_step(real_data: Path) -> None:
    (run,) = runs(real_data / "claude_code/task_subagent.jsonl")
    step = next(s for s in run.steps if len(s.tool_calls) == 4)
    assert [c.name for c in step.tool_calls] == ["Read"] * 4
    assert [o.call_id for o in step.observations] == [c.call_id for c in step.tool_calls]
    assert (step.text or "").startswith("I see the code-simplifier")
    assert (step.reasoning or "").startswith("The code-simplifier made changes")


def test_nobody_judges_a_session(real_data: Path) -> None:
    for run in runs(real_data / "claude_code/tool_error.jsonl"):
        assert (run.success, run.reward) == (None, None)


def test_bad_lines_of_a_real_file_are_named_and_cost_no_other(real_data: Path) -> None:
    """Lines 10 (misspelt content), 11, 13, 14, 15, 16 are no records; 3 calls, 1 result stay."""
    path = real_data / "claude_code/fixtures/claude-code-log_edge_cases.jsonl"
    assert [p.line for p in problems(path)] == [10, 11, 13, 14, 15, 16]
    found = runs(path)
    assert sum(run.n_tool_calls for run in found) == 3
    assert sum(len(s.observations) for run in found for s in run.steps) == 1
    assert sum(run.completion_tokens or 0 for run in found) == 435
    assert {run.task_id for run in found} == {
        "claude-code/edge_cases",
        "claude-code/todowrite_session",
    }


def test_the_web_form_reads_like_a_file(real_data: Path) -> None:
    path = real_data / "claude_code/fixtures/sample_session_web.json"
    lines = json.loads(path.read_text())["loglines"]
    (run,) = runs(path)
    assert run.n_agent_steps == sum(r["type"] == "assistant" for r in lines)
    assert answered(run) == run.n_tool_calls == 12
    assert run.goal == "Create a simple Python function to add two numbers"


def test_a_fixture_with_every_record_type_reads_whole(real_data: Path) -> None:
    """3 calls in 3 threads; no record type is a problem."""
    path = real_data / "claude_code/fixtures/schema_tour.jsonl"
    assert problems(path) == []
    found = runs(path)
    assert [run.n_tool_calls for run in found] == [1, 1, 1]
    assert [run.relation for run in found] == ["sub-agent", None, None]
    assert found[0].parent_id == found[1].trajectory_id
    assert trajectories_to_arrow(found).num_rows == 3


def test_every_kind_of_record_leaves_a_trace(real_data: Path) -> None:
    path = real_data / "claude_code/fixtures/schema_tour.jsonl"
    kept = " ".join(
        (run.metadata or "") + "".join(s.metadata or "" for s in run.steps) for run in runs(path)
    )
    for word in ("Stage0 AI title", "pull/1", "stage0 placeholder result", "originalCwd", "atis"):
        assert word in kept


def test_a_session_and_its_sub_agents_are_one_source(real_data: Path) -> None:
    folder = real_data / "claude_code/fixtures/subagent_layout"
    names = frozenset(p.name for p in folder.iterdir())
    (group,) = IMPORTER.claims(folder, names)
    source = Source(folder, files=tuple(folder / name for name in group))
    assert IMPORTER.detect(source) == 0.9
    main, agent = runs(source)
    assert (main.task_id, agent.relation) == (f"claude-code/{SUBAGENT_SESSION}", "sub-agent")
    assert agent.parent_id == main.trajectory_id
    assert json.loads(agent.metadata or "")["sub_agent"]["agentType"] == "general-purpose"


def test_a_sub_agent_file_alone_gives_the_same_trajectory(real_data: Path) -> None:
    folder = real_data / "claude_code/fixtures/subagent_layout"
    name = f"{SUBAGENT_SESSION}/subagents/agent-a0ad4f44468bdf20d.jsonl"
    files = (folder / f"{SUBAGENT_SESSION}.jsonl", folder / name)
    together = runs(Source(folder, files=files))[1]
    (alone,) = runs(folder / name)
    assert alone.trajectory_id == together.trajectory_id
    assert alone.parent_id == together.parent_id
    assert alone.steps == together.steps


def test_tool_outputs_kept_aside_are_claimed_and_said(tmp_path: Path) -> None:
    record = {"type": "user", "sessionId": "s", "uuid": "u", "message": {"content": "hi"}}
    write(tmp_path / "s.jsonl", record)
    write(tmp_path / "s/subagents/agent-a.jsonl", {**record, "isSidechain": True, "agentId": "a"})
    write(tmp_path / "s/tool-results/big.txt", "x")
    (group,) = IMPORTER.claims(tmp_path, frozenset({"s.jsonl", "s"}))
    source = Source(tmp_path, files=tuple(tmp_path / name for name in group))
    assert group == ("s.jsonl", "s/subagents/agent-a.jsonl", "s/tool-results/big.txt")
    assert len(runs(source)) == 2
    assert [p.kind for p in problems(source)] == ["ignored"]


def test_a_session_without_sub_agents_claims_nothing(tmp_path: Path) -> None:
    write(tmp_path / "s.jsonl", {})
    (tmp_path / "s").mkdir()
    assert list(IMPORTER.claims(tmp_path, frozenset({"s.jsonl", "s"}))) == []


def test_exactly_the_files_of_this_format_are_detected(real_data: Path) -> None:
    """Checkpoints of the Entire CLI lie beside Gemini sessions too and look the same."""
    found = {
        p.relative_to(real_data).as_posix()
        for p in real_data.rglob("*")
        if p.is_file() and IMPORTER.detect(Source(p)) > 0
    }
    expected = {
        p.relative_to(real_data).as_posix()
        for p in real_data.rglob("*")
        if p.is_file() and (p.is_relative_to(real_data / "claude_code") or "metadata" in p.name)
        if "openhands" not in p.as_posix() and "inspect" not in p.as_posix()
    }
    assert found == expected


def test_detection_does_not_look_at_the_name(real_data: Path, tmp_path: Path) -> None:
    for name in (
        "tool_error.jsonl",
        "tool_error.metadata.json",
        "fixtures/sample_session_web.json",
    ):
        copy = tmp_path / "noname"
        shutil.copyfile(real_data / "claude_code" / name, copy)
        assert IMPORTER.detect(Source(copy)) >= 0.6


def test_a_checkpoint_beside_a_session_is_ignored_on_purpose(real_data: Path) -> None:
    (item,) = items(real_data / "claude_code/tool_error.metadata.json")
    assert isinstance(item, Problem)
    assert item.kind == "ignored"
    assert "cf564e14-9b07-42ad-8d9a-4faa1b79a0ed" in item.reason


def test_a_file_of_bookkeeping_only_is_no_trajectory(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.jsonl",
        {"type": "summary", "summary": "Old", "leafUuid": "u"},
        {"type": "permission-mode", "permissionMode": "plan", "sessionId": "s"},
    )
    assert runs(path) == []
    assert [p.kind for p in problems(path)] == ["ignored"]
