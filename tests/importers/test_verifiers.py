"""verifiers result rows with their metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.importers.reading import Found, detail, document, jsonl, read, recognised
from trajstore.importers.source import Source
from trajstore.importers.verifiers import IMPORTER

CALL = {"id": "c1", "name": "w", "arguments": '{"a": 1}'}
METADATA = {
    "env_id": "gsm8k",
    "model": "m",
    "num_examples": 2,
    "rollouts_per_example": 2,
    "sampling_args": {"temperature": 0.7},
    "env_args": {},
    "date": "2026-01-01",
}


def result(example: int | str = 0, **changes: Any) -> dict[str, Any]:
    return {
        "example_id": example,
        "prompt": [{"role": "system", "content": "Think."}, {"role": "user", "content": "2+2?"}],
        "completion": [{"role": "assistant", "content": "4"}],
        "answer": "4",
        "task": "default",
        "info": {"level": 1},
        "reward": 1.0,
        "error": None,
        "timing": {"start_time": 1_700_000_000.0, "total_ms": 2500.0},
        "is_completed": True,
        "is_truncated": False,
        "stop_condition": "no_tools_called",
        "metrics": {"correct": 1.0, "format": 0.5},
        "correct": 1.0,
        "format": 0.5,
        "tool_defs": [{"name": "w", "description": "weather", "parameters": {}}],
        "token_usage": {"input_tokens": 30.0, "output_tokens": 4.0},
    } | changes


def of(folder: Path, *rows: Any, metadata: Any = None, **options: Any) -> Found:
    if metadata is not None:
        document(folder, metadata, "metadata.json")
    return read(IMPORTER, jsonl(folder, *rows, name="results.jsonl"), **options)


def test_no_real_file_is_claimed(real_data: Path) -> None:
    assert recognised(IMPORTER, real_data) == set()


def test_row_is_prompt_and_completion(tmp_path: Path) -> None:
    run = of(tmp_path, result()).run
    assert [(s.actor, s.text) for s in run.steps] == [
        ("system", "Think."),
        ("user", "2+2?"),
        ("agent", "4"),
    ]
    assert (run.goal, run.status, run.termination_reason) == (
        "2+2?",
        "terminated",
        "no_tools_called",
    )
    assert (run.prompt_tokens, run.completion_tokens, run.duration_s) == (30, 4, 2.5)
    assert run.rewards == {"correct": 1.0, "format": 0.5}
    assert detail(run.tools)[0]["name"] == "w"


def test_metrics_at_the_top_of_a_row_are_not_repeated(tmp_path: Path) -> None:
    told = detail(of(tmp_path, result(score_of_judge=0.3)).run.metadata)
    assert "correct" not in told
    assert told["score_of_judge"] == 0.3
    assert (told["answer"], told["info"], told["task"]) == ("4", {"level": 1}, "default")


def test_metadata_beside_names_environment_and_model(tmp_path: Path) -> None:
    run = of(tmp_path, result(), metadata=METADATA).run
    assert (run.environment, run.model, run.task_id) == ("gsm8k", "m", "verifiers/gsm8k/0")
    assert detail(run.metadata)["run"]["sampling_args"] == {"temperature": 0.7}


def test_metadata_beside_does_not_change_the_id(tmp_path: Path) -> None:
    alone = of(tmp_path, result()).run
    assert of(tmp_path, result(), metadata=METADATA).run.trajectory_id == alone.trajectory_id


def test_foreign_metadata_beside_is_not_believed(tmp_path: Path) -> None:
    assert of(tmp_path, result(), metadata={"model": "other"}).run.model is None


def test_metadata_alone_is_ignored(tmp_path: Path) -> None:
    path = document(tmp_path, METADATA, "metadata.json")
    assert IMPORTER.detect(Source(path)) > 0
    assert [p.kind for p in read(IMPORTER, path).problems] == ["ignored"]


def test_rows_of_one_example_are_attempts(tmp_path: Path) -> None:
    rows = [result(0), result(1), result(0, completion=[{"role": "assistant", "content": "5"}])]
    runs = of(tmp_path, *rows).runs
    assert [r.attempt for r in runs] == [0, 0, 1]
    assert runs[0].task_id == runs[2].task_id != runs[1].task_id


def test_equal_attempts_stay_apart_and_a_second_import_is_the_same(tmp_path: Path) -> None:
    first, second = (of(tmp_path, result(), result()).runs for _ in range(2))
    assert len({r.trajectory_id for r in first}) == 2
    assert [r.trajectory_id for r in first] == [r.trajectory_id for r in second]


def test_example_zero_is_an_example(tmp_path: Path) -> None:
    assert of(tmp_path, result(0)).run.task_id == "verifiers/default/0"


@pytest.mark.parametrize(
    ("reward", "success"), [(1.0, True), (0.5, True), (0.4999, False), (-1.0, False), (2.0, True)]
)
def test_half_a_reward_passes(tmp_path: Path, reward: float, *, success: bool) -> None:
    assert of(tmp_path, result(reward=reward)).run.success is success


def test_pass_threshold_of_the_metadata_is_used(tmp_path: Path) -> None:
    metadata = {**METADATA, "pass_threshold": 0.9}
    assert of(tmp_path, result(reward=0.8), metadata=metadata).run.success is False
    assert of(tmp_path, result(reward=0.8), success_threshold=0.8).run.success is True


def test_error_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    error = {"error": "SandboxError", "error_chain_repr": "r", "error_chain_str": "Sandbox died"}
    run = of(tmp_path, result(error=error, completion=None, reward=0.0)).run
    assert (run.status, run.error) == ("error", "Sandbox died")
    assert (run.success, run.reward, run.n_agent_steps) == (None, 0.0, 0)


def test_truncated_rollout_is_truncated(tmp_path: Path) -> None:
    run = of(tmp_path, result(is_truncated=True, stop_condition="max_turns_reached")).run
    assert (run.status, run.termination_reason) == ("truncated", "max_turns_reached")


@pytest.mark.parametrize("as_text", [False, True])
def test_calls_are_read_in_both_spellings(tmp_path: Path, *, as_text: bool) -> None:
    call: Any = {"id": "c1", "function": {"name": "w", "arguments": '{"a": 1}'}}
    completion = [
        {"role": "assistant", "content": "", "tool_calls": [json.dumps(call) if as_text else CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        {"role": "assistant", "content": "Sunny."},
    ]
    run = of(tmp_path, result(completion=completion)).run
    step = run.steps[2]
    assert (step.tool_calls[0].name, step.tool_calls[0].arguments) == ("w", '{"a":1}')
    assert step.observations[0].text == "sunny"


def test_plain_text_prompt_and_completion(tmp_path: Path) -> None:
    run = of(tmp_path, result(prompt="2+2=", completion="4")).run
    assert [(s.actor, s.text) for s in run.steps] == [("user", "2+2="), ("agent", "4")]


def test_examples_in_the_prompt_are_copied_context(tmp_path: Path) -> None:
    prompt = [
        {"role": "user", "content": "1+1?"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "2+2?"},
    ]
    run = of(tmp_path, result(prompt=prompt)).run
    assert [s.is_copied for s in run.steps if s.actor == "agent"] == [True, False]


def test_saved_trajectory_column_gives_token_ids(tmp_path: Path) -> None:
    tokens = {"prompt_ids": [1, 2], "completion_ids": [3], "completion_logprobs": [-0.5]}
    run = of(tmp_path, result(trajectory=[{"tokens": tokens, "reward": 0.25}])).run
    step = run.steps[-1]
    assert (step.prompt_token_ids, step.completion_token_ids) == ((1, 2), (3,))
    assert (step.logprobs, step.reward) == ((-0.5,), 0.25)


def test_trajectory_column_that_does_not_fit_is_left_out(tmp_path: Path) -> None:
    tokens = {"prompt_ids": [1], "completion_ids": [3], "completion_logprobs": [-0.5]}
    run = of(tmp_path, result(trajectory=[{"tokens": tokens}, {"tokens": tokens}])).run
    assert run.steps[-1].completion_token_ids is None


def test_mixed_info_does_not_matter(tmp_path: Path) -> None:
    runs = of(tmp_path, result(info={"a": 1}), result(info="text"), result(info=[1])).runs
    assert [detail(r.metadata)["info"] for r in runs] == [{"a": 1}, "text", [1]]


def test_broken_rows_cost_no_other(tmp_path: Path) -> None:
    found = of(tmp_path, result(), result(prompt=7), "{", {"example_id": 1}, result(1))
    assert len(found.runs) == 2
    assert [p.line for p in found.problems] == [2, 3, 4]
