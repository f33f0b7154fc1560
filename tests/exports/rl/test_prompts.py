from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from trajstore.errors import ExportError
from trajstore.exports.rl import PROMPT_TARGETS, PromptOptions, export_prompts
from trajstore.schema import Step, ToolCall, Trajectory

Run = Callable[..., Trajectory]

ALL = pytest.mark.parametrize("name", list(PROMPT_TARGETS))
TOOLS = '[{"name":"add","input_schema":{"type":"object"}}]'
SYSTEM = Step(actor="system", text="Add.")
ANSWER = Step(actor="agent", text="5")


def _attempt(run: Run, user: str, name: str, **changes: Any) -> Trajectory:
    fields = {"task_id": "sums/1", "trajectory_id": name, "tools": TOOLS, **changes}
    return run(SYSTEM, Step(actor="user", text=user), ANSWER, **fields)


def _export(
    out: Any, *tasks: list[Trajectory], to: Any = "trl", **options: Any
) -> tuple[Any, list[dict[str, Any]]]:
    stream = io.StringIO()
    report = export_prompts(tasks, out or stream, to=to, format=None if out else "jsonl",
                            options=PromptOptions(**options))  # fmt: skip
    return report, [json.loads(line) for line in stream.getvalue().splitlines()]


def test_attempts_that_open_alike_give_their_whole_prompt_once(run: Run) -> None:
    _, (row,) = _export(None, [_attempt(run, "2+3?", "a"), _attempt(run, "2+3?", "b")])
    assert [m["content"] for m in row["prompt"]] == ["Add.", "2+3?"]
    assert (row["task_id"], row["trajectory_id"], row["attempts"]) == ("sums/1", "a", 2)
    assert json.loads(row["tools"])[0]["function"]["name"] == "add"


def test_attempts_that_open_differently_give_what_they_share(run: Run) -> None:
    attempts = [_attempt(run, "2+3?", "a"), _attempt(run, "two and three?", "b")]
    report, (row,) = _export(None, attempts)
    assert row["prompt"] == [{"role": "system", "content": "Add."}]
    assert report.manifest["rules_applied"] == {"prompt-shortened": 1}


def test_the_first_attempts_prompt_is_taken_where_asked(run: Run) -> None:
    attempts = [_attempt(run, "2+3?", "a"), _attempt(run, "two and three?", "b")]
    report, (row,) = _export(None, attempts, differing="first")
    assert row["prompt"][1]["content"] == "2+3?"
    assert report.manifest["rules_applied"] == {"first-attempt": 1}


def test_attempts_that_share_nothing_are_refused_with_the_way_out(run: Run) -> None:
    attempts = [run(Step(actor="user", text=t), ANSWER, trajectory_id=t) for t in ("a", "b")]
    report, rows = _export(None, attempts)
    assert rows == []
    assert report.refused_ids == {"prompts-differ": ["sums/1"]}
    assert "differing='first'" in report.reasons["prompts-differ"]


def test_attempts_with_other_tools_are_refused(run: Run) -> None:
    attempts = [_attempt(run, "q", "a"), _attempt(run, "q", "b", tools=None)]
    assert _export(None, attempts)[0].refused == {"tools-differ": 1}
    assert _export(None, attempts, differing="first")[0].rows == 1


def test_a_goal_is_the_prompt_only_where_no_user_ever_speaks(run: Run) -> None:
    spoken = run(SYSTEM, ANSWER, Step(actor="user", text="no"), ANSWER, goal="secret wish")
    told = run(SYSTEM, ANSWER, goal="2+3?")
    assert "secret wish" not in json.dumps(_export(None, [spoken])[1])
    assert _export(None, [told])[1][0]["prompt"][-1] == {"role": "user", "content": "2+3?"}


@ALL
def test_no_row_holds_an_answer_unless_it_is_asked_for(tmp_path: Path, run: Run, name: Any) -> None:
    attempt = _attempt(run, "q", "a", metadata='{"info":{"answer":"forty-two"}}')
    export_prompts([[attempt]], tmp_path, to=name)
    for path in tmp_path.iterdir():
        assert b"forty-two" not in path.read_bytes()
        assert b"5" not in path.read_bytes() or path.suffix != ".jsonl"


def test_an_answer_comes_from_the_metadata_that_name_it(run: Run) -> None:
    attempt = _attempt(run, "q", "a", metadata='{"info":{"answer":"42"},"steps":[1,2]}')
    assert _export(None, [attempt], ground_truth="info.answer")[1][0]["ground_truth"] == "42"
    assert _export(None, [attempt], ground_truth="steps")[1][0]["ground_truth"] == "[1,2]"


def test_a_task_without_the_answer_is_refused(run: Run) -> None:
    report, _ = _export(None, [_attempt(run, "q", "a")], ground_truth="answer")
    assert report.refused == {"no-ground-truth": 1}


def test_verl_reads_its_columns_as_plain_structs(tmp_path: Path, run: Run) -> None:
    first = _attempt(run, "q", "a", metadata='{"answer":"42"}', environment="sums")
    second = run(SYSTEM, Step(actor="user", text="hi"), ANSWER, task_id="talk/1")
    _export(tmp_path, [first], [second], to="verl", ground_truth="answer")
    row, = pq.read_table(tmp_path / "train.parquet").to_pylist()  # fmt: skip
    assert list(row) == [
        "prompt", "data_source", "ability", "reward_model", "extra_info", "agent_name",
    ]  # fmt: skip
    assert row["prompt"][1] == {"role": "user", "content": "q"}
    assert row["reward_model"] == {"style": "rule", "ground_truth": "42"}
    assert (row["data_source"], row["agent_name"]) == ("sums", "tool_agent")
    extra = row["extra_info"]
    assert (extra["index"], extra["split"], extra["task_id"]) == (0, "train", "sums/1")


def test_verl_numbers_the_rows_that_it_has(tmp_path: Path, run: Run) -> None:
    tasks = [[run(SYSTEM, ANSWER, task_id=str(i))] for i in range(3)]
    tasks.insert(1, [run(ANSWER, task_id="none")])
    report, _ = _export(tmp_path, *tasks, to="verl")
    rows = pq.read_table(tmp_path / "train.parquet").to_pylist()
    assert [r["extra_info"]["index"] for r in rows] == [0, 1, 2]
    assert report.refused == {"no-prompt": 1}
    assert {r["agent_name"] for r in rows} == {"single_turn_agent"}


def test_verl_refuses_prompts_with_turns_of_an_agent(tmp_path: Path, run: Run) -> None:
    call = ToolCall.of("f", {"x": 1}, "c")
    copied = Step(actor="agent", tool_calls=(call,), is_copied=True)
    task = [run(SYSTEM, copied, ANSWER)]
    assert _export(tmp_path, task, to="verl")[0].refused == {"agent-in-prompt": 1}
    assert _export(None, task)[1][0]["prompt"][1]["tool_calls"]


@ALL
@pytest.mark.filterwarnings("ignore")
def test_datasets_loads_the_folder_and_it_is_the_same_each_time(
    tmp_path: Path, run: Run, name: Any
) -> None:
    datasets = pytest.importorskip("datasets")
    task = [_attempt(run, "q", "a")]
    for folder in ("set", "again"):
        export_prompts([task], tmp_path / folder, to=name)
    for path in (tmp_path / "set").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()
    (row,) = datasets.load_dataset(
        str(tmp_path / "set"), split="train", cache_dir=str(tmp_path / "cache")
    )
    prompt = [{"role": "system", "content": "Add."}, {"role": "user", "content": "q"}]
    assert row["prompt"] == prompt


@pytest.mark.parametrize("attempts", [[], [[]]])
def test_no_task_is_a_set_of_no_rows(tmp_path: Path, attempts: list[list[Trajectory]]) -> None:
    report = export_prompts(attempts, tmp_path)
    assert (report.rows, report.manifest["tasks"]) == (0, 0)


def test_an_unknown_target_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="'nemo'; known are trl, verl, openrlhf"):
        export_prompts([], tmp_path, to="nemo")


def test_openrlhf_itself_reads_prompt_and_answer(run: Run) -> None:
    module = pytest.importorskip("openrlhf.datasets.prompts_dataset")
    attempt = _attempt(run, "q", "a", metadata='{"answer":"42"}')
    _, (row,) = _export(None, [attempt], to="openrlhf", ground_truth="answer")

    def template(messages: Any, **_: Any) -> str:
        return "|".join(m["content"] for m in messages)

    read = module.preprocess_data(
        row, input_key="prompt", label_key="ground_truth", apply_chat_template=template
    )
    assert read == ("Add.|q", "42")
