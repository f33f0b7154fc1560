"""verl: rollout dumps, generated responses, SFT rows, and prompts that nobody attempted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from tests.importers.reading import detail, document, jsonl, read, recognised
from trajstore.importers import tables
from trajstore.importers.source import Source
from trajstore.importers.verl import IMPORTER

PROMPT = [{"role": "system", "content": "Think."}, {"role": "user", "content": "2+2?"}]


def dump(**changes: Any) -> dict[str, Any]:
    return {"input": "user\n2+2?", "output": "4", "score": 1.0, "step": 7, "gts": "4"} | changes


def task(index: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "data_source": "openai/gsm8k",
        "prompt": PROMPT,
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": "4"},
        "extra_info": {"split": "train", "index": index},
    } | changes


def parquet(folder: Path, *rows: dict[str, Any], name: str = "train.parquet") -> Path:
    path = folder / name
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path


def sft(**changes: Any) -> dict[str, Any]:
    call = {"function": {"name": "w", "arguments": '{"a": 1}'}, "id": "c1", "type": "function"}
    return {
        "messages": [
            {"role": "user", "content": "weather?"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "sunny", "tool_call_id": "c1"},
            {"role": "assistant", "content": "Sunny."},
        ],
        "tools": json.dumps([{"type": "function", "function": {"name": "w"}}]),
        "enable_thinking": False,
    } | changes


def test_no_real_file_is_claimed(real_data: Path) -> None:
    assert recognised(IMPORTER, real_data) == set()


def test_dump_is_prompt_and_answer(tmp_path: Path) -> None:
    run = read(IMPORTER, jsonl(tmp_path, dump())).run
    assert [(s.actor, s.text) for s in run.steps] == [("user", "user\n2+2?"), ("agent", "4")]
    assert (run.reward, run.success, run.policy_version) == (1.0, True, "7")
    assert detail(run.metadata) == {"step": 7, "gts": "4"}


@pytest.mark.parametrize(
    ("row", "success"),
    [
        ({"score": 1.0}, True),
        ({"score": 0.1}, False),
        ({"score": -1.0, "acc": False}, False),
        ({"score": 0.9, "acc": True}, True),
        ({"score": 0.4, "acc": 1.0}, True),
    ],
)
def test_acc_decides_and_else_a_score_of_one(
    tmp_path: Path, row: dict[str, Any], *, success: bool
) -> None:
    assert read(IMPORTER, jsonl(tmp_path, dump(**row))).run.success is success


def test_extra_numbers_of_the_reward_function_are_components(tmp_path: Path) -> None:
    run = read(IMPORTER, jsonl(tmp_path, dump(acc=True, format=0.5, pred="4"))).run
    assert run.rewards == {"acc": 1.0, "format": 0.5}


def test_users_threshold_is_on_the_score(tmp_path: Path) -> None:
    path = jsonl(tmp_path, dump(score=0.5, acc=False))
    assert read(IMPORTER, path, success_threshold=0.5).run.success is True


def test_equal_answers_are_different_attempts_of_one_task(tmp_path: Path) -> None:
    path = jsonl(tmp_path, dump(), dump(), dump(output="5", score=0.0))
    first, second = read(IMPORTER, path).runs, read(IMPORTER, path).runs
    assert len({r.trajectory_id for r in first}) == 3
    assert len({r.task_id for r in first}) == 1
    assert [r.trajectory_id for r in first] == [r.trajectory_id for r in second]


def test_same_answer_in_another_training_step_is_another_run(tmp_path: Path) -> None:
    path = jsonl(tmp_path, dump(step=1), dump(step=2))
    assert len({r.trajectory_id for r in read(IMPORTER, path).runs}) == 2


def test_broken_lines_cost_no_other(tmp_path: Path) -> None:
    path = jsonl(tmp_path, dump(), "{", {"input": "x"}, [1], dump(output="5"))
    found = read(IMPORTER, path)
    assert len(found.runs) == 2
    assert [p.line for p in found.problems] == [2, 3, 4]


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "array", "arrow"])
def test_prompts_without_a_run_are_ignored_as_a_file(tmp_path: Path, kind: str) -> None:
    rows = [task(0), task(1)]
    if kind == "parquet":
        path = parquet(tmp_path, *rows)
    elif kind == "arrow":
        path = tmp_path / "train.arrow"
        feather.write_feather(pa.Table.from_pylist(rows), path, compression="uncompressed")
    else:
        path = jsonl(tmp_path, *rows) if kind == "jsonl" else document(tmp_path, rows)
    assert IMPORTER.detect(Source(path)) == 0.9
    found = read(IMPORTER, path)
    assert found.runs == []
    assert [p.kind for p in found.problems] == ["ignored"]
    assert "tasks that nobody attempted" in found.problems[0].reason


def test_generated_responses_are_attempts_of_their_row(tmp_path: Path) -> None:
    path = parquet(tmp_path, task(3, responses=["4", "5", "4"]), task(4, responses=["6"]))
    found = read(IMPORTER, path)
    assert [r.task_id for r in found.runs] == ["verl/openai/gsm8k/train/3"] * 3 + [
        "verl/openai/gsm8k/train/4"
    ]
    assert [r.attempt for r in found.runs] == [0, 1, 2, 0]
    assert len({r.trajectory_id for r in found.runs}) == 4
    assert [(s.actor, s.text) for s in found.runs[1].steps] == [
        ("system", "Think."),
        ("user", "2+2?"),
        ("agent", "5"),
    ]
    assert {r.success for r in found.runs} == {None}
    assert detail(found.runs[0].metadata)["reward_model"]["ground_truth"] == "4"


def test_row_without_responses_among_others_is_a_problem(tmp_path: Path) -> None:
    path = parquet(tmp_path, task(0, responses=["4"]), task(1, responses=None))
    found = read(IMPORTER, path)
    assert (len(found.runs), [p.record for p in found.problems]) == (1, ["1"])


def test_sft_rows_are_conversations_with_calls_and_tools(tmp_path: Path) -> None:
    path = parquet(tmp_path, sft())
    assert IMPORTER.detect(Source(path)) == 0.6
    run = read(IMPORTER, path).run
    assert [s.actor for s in run.steps] == ["user", "agent", "agent"]
    assert run.steps[1].tool_calls[0].arguments == '{"a":1}'
    assert run.steps[1].observations[0].text == "sunny"
    assert detail(run.tools)[0]["function"]["name"] == "w"
    assert run.source == "verl"


def test_sft_row_has_the_id_that_any_table_of_it_has(tmp_path: Path) -> None:
    path = parquet(tmp_path, sft())
    ours, theirs = read(IMPORTER, path).run, read(tables.IMPORTER, path).run
    assert ours.trajectory_id == theirs.trajectory_id


def test_index_of_the_row_is_the_group_key(tmp_path: Path) -> None:
    extra = {"data_source": "toys", "extra_info": {"index": 9}}
    run = read(IMPORTER, parquet(tmp_path, sft(**extra))).run
    assert run.task_id == "verl/toys/9"


def test_plain_table_of_messages_is_left_to_others(tmp_path: Path) -> None:
    path = parquet(tmp_path, {"messages": PROMPT})
    assert IMPORTER.detect(Source(path)) == 0.0


def test_truncated_parquet_does_not_raise(tmp_path: Path) -> None:
    path = parquet(tmp_path, sft())
    path.write_bytes(path.read_bytes()[:-20])
    assert IMPORTER.detect(Source(path)) == 0.0
