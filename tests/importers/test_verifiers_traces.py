"""verifiers v1 traces: root-to-leaf paths of a graph of messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.importers.reading import Found, detail, jsonl, read
from trajstore.importers.source import Source
from trajstore.importers.verifiers import IMPORTER
from trajstore.schema import trajectory_id


def node(parent: int | None, role: str, text: str | None, **changes: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": role, "content": text}
    for name in ("tool_calls", "tool_call_id", "reasoning_content"):
        if name in changes:
            message[name] = changes.pop(name)
    return {
        "parent": parent,
        "message": message,
        "sampled": role == "assistant",
        "token_ids": [],
        "mask": [],
        "logprobs": [],
    } | changes


LINE = [node(None, "system", "Think."), node(0, "user", "2+2?"), node(1, "assistant", "4")]


def trace(*nodes: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "id": "t1",
        "task": {"type": "Gsm8k", "data": {"idx": 0, "prompt": "2+2?"}, "key": "k0", "hash": "h"},
        "agent": {"name": "solver", "config": {"model": "m"}, "trainable": True},
        "tools": [{"name": "w", "description": "", "parameters": {}}],
        "nodes": list(nodes) or LINE,
        "calls": [],
        "rewards": {
            "correct": {"score": 1.0, "weight": 1.0},
            "style": {"score": 0.5, "weight": 0.2},
        },
        "metrics": {"turns": 1.0},
        "info": {},
        "is_completed": True,
        "ok": True,
        "stop_condition": "agent_completed",
        "errors": [],
        "timing": {
            "start": 1_700_000_000.0,
            "agent": {"start": 1_700_000_000.5, "end": 1_700_000_002.5},
            "scoring": {"start": 1_700_000_002.5, "end": 1_700_000_003.0},
        },
    } | changes


def of(folder: Path, *rows: Any, **options: Any) -> Found:
    return read(IMPORTER, jsonl(folder, *rows, name="traces.jsonl"), **options)


def test_straight_trace_is_one_run(tmp_path: Path) -> None:
    run = of(tmp_path, trace()).run
    assert [(s.actor, s.text) for s in run.steps] == [
        ("system", "Think."),
        ("user", "2+2?"),
        ("agent", "4"),
    ]
    assert run.trajectory_id == trajectory_id("verifiers", "t1")
    assert (run.task_id, run.attempt, run.goal) == ("verifiers/Gsm8k/k0", 0, "2+2?")
    assert (run.agent, run.model, run.status) == ("solver", "m", "terminated")
    assert run.duration_s == 3.0


def test_rewards_are_weighted_into_one(tmp_path: Path) -> None:
    run = of(tmp_path, trace()).run
    assert run.reward == pytest.approx(1.1)
    assert run.rewards == {"correct": 1.0, "style": 0.5, "turns": 1.0}
    assert run.success is True


def test_rewards_that_were_not_computed_leave_the_outcome_unknown(tmp_path: Path) -> None:
    run = of(tmp_path, trace(rewards={"correct": None})).run
    assert (run.reward, run.success) == (None, None)


def test_error_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    errors = [{"type": "ProviderError", "message": "503"}]
    value = trace(ok=False, errors=errors, rewards={"correct": {"score": 0.0, "weight": 1.0}})
    run = of(tmp_path, value).run
    assert (run.status, run.error) == ("error", "ProviderError: 503")
    assert (run.success, run.reward) == (None, 0.0)


def test_error_of_an_earlier_attempt_does_not_spoil_a_good_end(tmp_path: Path) -> None:
    run = of(tmp_path, trace(ok=True, errors=[{"type": "E", "message": "m"}])).run
    assert (run.status, run.success) == ("terminated", True)


def test_limit_is_a_truncation(tmp_path: Path) -> None:
    assert of(tmp_path, trace(stop_condition="max_turns")).run.status == "truncated"


def test_answers_that_were_not_sampled_are_copied(tmp_path: Path) -> None:
    nodes = [
        node(None, "user", "1+1?"),
        node(0, "assistant", "2", sampled=False),
        node(1, "user", "2+2?"),
        node(2, "assistant", "4"),
    ]
    run = of(tmp_path, trace(*nodes)).run
    assert [s.is_copied for s in run.steps] == [False, True, False, False]


def test_tokens_of_a_path_rebuild_what_the_sampler_saw(tmp_path: Path) -> None:
    nodes = [
        node(None, "user", "q", token_ids=[1, 2], mask=[False, False]),
        node(
            0,
            "assistant",
            "a",
            token_ids=[3, 4, 5],
            mask=[False, True, True],
            logprobs=[-0.5, -0.25],
            advantages=[1.0, 1.0],
        ),
        node(1, "user", "r", token_ids=[6], mask=[False]),
        node(2, "assistant", "b", token_ids=[7, 8], mask=[False, True], logprobs=[-1.0]),
    ]
    steps = of(tmp_path, trace(*nodes)).run.steps
    assert (steps[1].prompt_token_ids, steps[1].completion_token_ids) == ((1, 2, 3), (4, 5))
    assert steps[1].logprobs == (-0.5, -0.25)
    assert steps[3].prompt_token_ids == (1, 2, 3, 4, 5, 6, 7)
    assert (steps[3].completion_token_ids, steps[3].logprobs) == ((8,), (-1.0,))
    assert detail(steps[1].metadata)["advantages"] == [1.0, 1.0]


def test_calls_give_usage_model_sampling_and_latency(tmp_path: Path) -> None:
    call = {
        "node": 2,
        "model": "m-1",
        "sampling": {"temperature": 0.7},
        "finish_reason": "stop",
        "usage": {"prompt_tokens": 9, "completion_tokens": 2},
        "time": {"start": 1_700_000_001.0, "end": 1_700_000_001.5},
    }
    lost = {"node": None, "error": {"type": "E", "message": "m"}}
    run = of(tmp_path, trace(calls=[call, lost])).run
    step = run.steps[2]
    assert (step.model, step.prompt_tokens, step.completion_tokens) == ("m-1", 9, 2)
    assert (step.latency_s, detail(step.sampling)) == (0.5, {"temperature": 0.7})
    assert detail(step.metadata)["finish_reason"] == "stop"
    assert (run.model, run.prompt_tokens) == ("m-1", 9)
    assert len(detail(run.metadata)["calls_without_answer"]) == 1


def test_calls_and_results_are_linked_along_a_path(tmp_path: Path) -> None:
    call = {"id": "c1", "name": "w", "arguments": "{}"}
    nodes = [
        node(None, "user", "q"),
        node(0, "assistant", None, tool_calls=[call], reasoning_content="hm"),
        node(1, "tool", "sunny", tool_call_id="c1"),
        node(2, "assistant", "Sunny."),
    ]
    run = of(tmp_path, trace(*nodes)).run
    assert [s.actor for s in run.steps] == ["user", "agent", "agent"]
    assert (run.steps[1].reasoning, run.steps[1].observations[0].text) == ("hm", "sunny")


def forked() -> list[dict[str, Any]]:
    """One prompt and first answer, then two ways on; the last leaf is the run."""
    return [
        node(None, "user", "q"),
        node(0, "assistant", "a"),
        node(1, "user", "left"),
        node(2, "assistant", "L"),
        node(1, "user", "right"),
        node(4, "assistant", "R"),
    ]


def test_each_leaf_is_a_path_and_the_last_is_the_run(tmp_path: Path) -> None:
    main, branch = of(tmp_path, trace(*forked())).runs
    assert [s.text for s in main.steps] == ["q", "a", "right", "R"]
    assert [s.text for s in branch.steps] == ["q", "a", "left", "L"]
    assert (branch.relation, branch.parent_id, branch.parent_step) == (
        "branch",
        main.trajectory_id,
        1,
    )
    assert main.trajectory_id != branch.trajectory_id


def test_outcome_is_the_runs_alone(tmp_path: Path) -> None:
    main, branch = of(tmp_path, trace(*forked())).runs
    assert (main.success, branch.success, branch.reward) == (True, None, None)
    assert branch.task_id == main.task_id


def test_each_sampled_message_counts_once_over_all_paths(tmp_path: Path) -> None:
    calls = [{"node": n, "usage": {"prompt_tokens": 10, "completion_tokens": 1}} for n in (1, 3, 5)]
    runs = of(tmp_path, trace(*forked(), calls=calls)).runs
    assert sum(r.n_agent_steps for r in runs) == 3
    assert sum(r.completion_tokens or 0 for r in runs) == 3
    assert [s.is_copied for s in runs[1].steps] == [False, True, False, False]


def test_path_with_another_root_has_no_parent_step(tmp_path: Path) -> None:
    nodes = [
        node(None, "user", "before"),
        node(0, "assistant", "x"),
        node(None, "user", "summary"),
        node(2, "assistant", "y"),
    ]
    main, branch = of(tmp_path, trace(*nodes)).runs
    assert [s.text for s in main.steps] == ["summary", "y"]
    assert branch.parent_step is None


def test_traces_of_one_task_are_attempts(tmp_path: Path) -> None:
    runs = of(
        tmp_path, trace(), trace(id="t2"), trace(id="t3", task={"type": "G", "data": {}})
    ).runs
    assert [r.attempt for r in runs] == [0, 1, 0]
    assert len({r.trajectory_id for r in runs}) == 3
    assert runs[0].task_id == runs[1].task_id != runs[2].task_id


def test_trace_is_recognised(tmp_path: Path) -> None:
    assert IMPORTER.detect(Source(jsonl(tmp_path, trace()))) == 0.9
    assert IMPORTER.detect(Source(jsonl(tmp_path, {"id": 1, "task": {}, "nodes": [1]}))) == 0


def test_broken_graphs_cost_no_other(tmp_path: Path) -> None:
    loop = trace(node(0, "user", "q"))
    found = of(tmp_path, trace(), loop, trace(id="t4", nodes=[]), trace(id="t5"))
    assert len(found.runs) == 2
    assert [p.line for p in found.problems] == [2, 3]
    assert "node 0 has parent 0" in found.problems[0].reason
    assert "no message" in found.problems[1].reason
