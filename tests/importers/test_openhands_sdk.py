"""OpenHands SDK: what is recognised, which files make one conversation, and its identity."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.items import ImportOptions, Problem
from trajstore.importers.openhands_sdk import IMPORTER
from trajstore.importers.source import Source
from trajstore.schema import Trajectory, finish


def read(source: Source | Path) -> tuple[list[Trajectory], list[Problem]]:
    found = source if isinstance(source, Source) else Source(source)
    items = list(IMPORTER.read(found, ImportOptions()))
    return (
        [finish(i) for i in items if isinstance(i, Trajectory)],
        [i for i in items if isinstance(i, Problem)],
    )


def only(source: Source | Path) -> Trajectory:
    runs, problems = read(source)
    assert problems == []
    (run,) = runs
    return run


def claimed(folder: Path) -> list[Source]:
    names = frozenset(p.name for p in folder.iterdir())
    groups = [tuple(folder / n for n in g) for g in IMPORTER.claims(folder, names)]
    return [Source(folder, uri=files[0].as_posix(), files=files) for files in groups]


def write(path: Path, *values: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(value) for value in values))
    return path


def event(number: int, kind: str = "MessageEvent", **more: Any) -> dict[str, Any]:
    base = {"id": f"id-{number}", "timestamp": f"2026-01-02T03:04:{number:02}", "kind": kind}
    said = {"role": "user", "content": [{"type": "text", "text": f"say {number}"}]}
    return {**base, "source": "user", "llm_message": said, **more}


def state(**more: Any) -> dict[str, Any]:
    agent = {"kind": "Agent", "llm": {"model": "m"}}
    base = {"id": "aaaabbbb-0000-0000-0000-000000000001", "agent": agent, "workspace": {}}
    return {**base, "execution_status": "finished", **more}


def conversation(folder: Path, *events: dict[str, Any], **more: Any) -> Source:
    for place, one in enumerate(events):
        write(folder / "events" / f"event-{place:05}-{one['id']}.json", one)
    write(folder / "base_state.json", state(**more))
    (source,) = claimed(folder)
    return source


def log(*texts: str, answer: str = "done", at: float = 1757000000.0, **more: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
    choice = {"message": {"role": "assistant", "content": answer}}
    usage = {"prompt_tokens": 10 * len(texts), "completion_tokens": 1}
    response = {"id": f"r{len(texts)}", "model": "m", "choices": [choice], "usage": usage}
    return {"messages": messages, "response": response, "cost": 0.1, "timestamp": at, **more}


def test_only_files_of_the_format_are_recognised(real_data: Path) -> None:
    sure = {
        path.relative_to(real_data).parts[:2]
        for path in real_data.rglob("*")
        if path.is_file() and IMPORTER.detect(Source(path)) > 0
    }
    assert sure == {
        ("openhands_sdk", "conv_events"),
        ("openhands_sdk", "conv_phase_abc"),
        ("openhands_sdk", "goal_events.jsonl"),
        ("openhands_sdk", "llm_completions"),
    }


def test_only_folders_of_the_format_are_claimed(real_data: Path) -> None:
    folders = [real_data, *(p for p in real_data.rglob("*") if p.is_dir())]
    assert {f.name: len(claimed(f)) for f in folders if claimed(f)} == {
        "conv_events": 1,
        "conv_phase_abc": 1,
        "llm_completions": 1,
    }


def test_a_claimed_conversation_is_its_state_and_all_its_events(real_data: Path) -> None:
    (source,) = claimed(real_data / "openhands_sdk" / "conv_phase_abc")
    assert IMPORTER.detect(source) == 0.9
    assert len(source.files) == 12
    assert source.files[0].name == "base_state.json"


@pytest.mark.parametrize(
    ("folder", "actors", "tokens"),
    [  # tokens are the accumulated ones of base_state.json
        (
            "conv_events",
            ["system", "user", "agent", "agent", "user", "agent"],
            (11583, 94, 7552),
        ),
        (
            "conv_phase_abc",
            ["system", "user", "agent", "system", "user", "agent", "user", "agent"],
            (10, 5, 0),
        ),
    ],
)
def test_real_conversations(
    real_data: Path, folder: str, actors: list[str], tokens: tuple[int, ...]
) -> None:
    (source,) = claimed(real_data / "openhands_sdk" / folder)
    run = only(source)
    assert [s.actor for s in run.steps] == actors
    assert (run.prompt_tokens, run.completion_tokens, run.cached_tokens) == tokens
    assert all(len(s.tool_calls) == len(s.observations) for s in run.steps)
    assert (run.status, run.success, run.reward) == ("terminated", None, None)


def test_real_calls_have_the_tokens_of_their_response(real_data: Path) -> None:
    (source,) = claimed(real_data / "openhands_sdk" / "conv_events")
    counted = [(s.prompt_tokens, s.completion_tokens) for s in only(source).steps]
    assert [c for c in counted if c[0] is not None] == [(3778, 36), (3869, 32), (3936, 26)]


def test_the_real_stream_keeps_the_orphan_and_both_errors(real_data: Path) -> None:
    run = only(real_data / "openhands_sdk" / "goal_events.jsonl")
    assert (run.n_agent_steps, run.n_tool_calls, run.n_tool_errors) == (2, 2, 2)
    assert [len(s.observations) for s in run.steps] == [2, 1]
    assert (run.prompt_tokens, run.completion_tokens) == (107458, 1347)  # the last statistics
    assert run.status == "running"


def test_the_real_logs_are_one_run(real_data: Path) -> None:
    (source,) = claimed(real_data / "openhands_sdk" / "llm_completions")
    run = only(source)
    assert (run.n_steps, run.n_agent_steps, run.n_tool_calls) == (8, 6, 6)
    assert [s.prompt_tokens for s in run.steps] == [None, None, 4812, None, None, None, None, 6729]
    assert run.cost_usd == pytest.approx(0.016626 + 0.023172)
    assert (run.status, run.termination_reason) == ("terminated", "finish")


def test_a_shorter_log_alone_has_the_id_of_its_run(real_data: Path) -> None:
    (source,) = claimed(real_data / "openhands_sdk" / "llm_completions")
    alone = [only(path) for path in source.files]
    assert {run.trajectory_id for run in alone} == {only(source).trajectory_id}
    assert [run.n_agent_steps for run in alone] == [1, 6]


def test_reading_twice_gives_the_same_run(tmp_path: Path) -> None:
    source = conversation(tmp_path / "c", event(1), event(2))
    assert only(source) == only(source)


def test_a_conversation_is_known_by_its_id_wherever_it_lies(tmp_path: Path) -> None:
    first = only(conversation(tmp_path / "a", event(1)))
    longer = only(conversation(tmp_path / "b", event(1), event(2)))
    fork = only(conversation(tmp_path / "c", event(1), id="ffff"))
    assert first.trajectory_id == longer.trajectory_id != fork.trajectory_id


def test_a_stream_that_repeats_the_state_is_its_conversation(tmp_path: Path) -> None:
    folder = only(conversation(tmp_path / "a", event(1)))
    full = event(0, "ConversationStateUpdateEvent", key="full_state", value=state())
    stream = only(write(tmp_path / "s.jsonl", full, event(1)))
    assert stream.trajectory_id == folder.trajectory_id
    assert stream.status == "terminated"


def test_a_stream_without_an_id_is_known_by_its_first_real_event(tmp_path: Path) -> None:
    report = event(9, "ConversationStateUpdateEvent", key="stats", value={})
    short = only(write(tmp_path / "a.jsonl", event(1)))
    long = only(write(tmp_path / "b.jsonl", report, event(1), event(2)))
    other = only(write(tmp_path / "c.jsonl", event(2)))
    assert short.trajectory_id == long.trajectory_id != other.trajectory_id


def test_an_array_of_events_is_a_stream_too(tmp_path: Path) -> None:
    lines = only(write(tmp_path / "a.jsonl", event(1), event(2)))
    array = only(write(tmp_path / "b.json", [event(1), event(2)]))
    assert array.steps == lines.steps
    assert array.trajectory_id == lines.trajectory_id


def test_events_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    source = conversation(tmp_path / "c", *(event(n) for n in (5, 3, 4)))
    assert [s.text for s in only(source).steps] == ["say 5", "say 3", "say 4"]


def test_broken_events_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    conversation(tmp_path / "c", event(1), event(2), event(3))
    (tmp_path / "c/events/event-00001-id-2.json").write_text('{"id"')
    (source,) = claimed(tmp_path / "c")
    (run,), (problem,) = read(source)
    assert [s.text for s in run.steps] == ["say 1", "say 3"]
    assert problem.source.endswith("event-00001-id-2.json")


def test_bad_lines_of_a_stream_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", event(1), {"no": "event"}, event(3))
    path.write_text(path.read_text() + '\n{"id": ')
    (run,), problems = read(path)
    assert run.n_steps == 2
    assert [p.line for p in problems] == [2, 4]


def test_a_conversation_that_says_nothing_is_a_problem(tmp_path: Path) -> None:
    report = event(1, "ConversationStateUpdateEvent", key="execution_status", value="idle")
    runs, (problem,) = read(write(tmp_path / "s.jsonl", report, {**report, "id": "id-2"}))
    assert runs == []
    assert "says anything" in problem.reason


def test_lone_files_of_a_conversation_are_pointed_to_its_folder(tmp_path: Path) -> None:
    for value in (event(1), state()):
        path = write(tmp_path / "x.json", value)
        assert IMPORTER.detect(Source(path)) > 0
        runs, (problem,) = read(path)
        assert (runs, problem.kind) == ([], "ignored")


def test_logs_of_two_runs_in_one_folder_are_two_runs(tmp_path: Path) -> None:
    for place, one in enumerate(
        [log("Do it", answer="A"), log("Do it", answer="B"), log("Do it", "A", "go on")]
    ):
        write(tmp_path / f"m-175700000{place}.000-ab12.json", one)
    (source,) = claimed(tmp_path)
    runs, problems = read(source)
    assert problems == []
    assert [[s.text for s in r.steps] for r in runs] == [
        ["Do it", "A", "go on", "done"],
        ["Do it", "B"],
    ]
    assert runs[0].task_id == runs[1].task_id


def test_a_broken_log_costs_only_itself(tmp_path: Path) -> None:
    write(tmp_path / "m-1757000000.000-ab12.json", log("Do it"))
    write(tmp_path / "m-1757000001.000-ab12.json", {"messages": []})
    (tmp_path / "m-1757000002.000-ab12.json").write_text("{")
    (source,) = claimed(tmp_path)
    runs, problems = read(source)
    assert len(runs) == 1
    assert [p.source[-26:] for p in problems] == [
        "m-1757000001.000-ab12.json",
        "m-1757000002.000-ab12.json",
    ]


def test_other_files_with_such_names_are_not_claimed(tmp_path: Path) -> None:
    write(tmp_path / "m-1757000000.000.json", {"messages": []})
    assert claimed(tmp_path) == []
