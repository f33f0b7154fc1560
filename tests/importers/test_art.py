"""ART groups: everything of a group survives, in JSON Lines and in both Parquet forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.importers.reading import Found, detail, document, jsonl, read, recognised
from trajstore.importers.art import IMPORTER
from trajstore.importers.source import Source

SYSTEM = {"role": "system", "content": "Play 2048."}
USER = {"role": "user", "content": "board"}
CALL = {"id": "c1", "type": "function", "function": {"name": "move", "arguments": '{"d": "up"}'}}
TOOLS = [{"type": "function", "function": {"name": "move"}}]
MESSAGE = pa.struct(
    [
        ("role", pa.string()),
        ("content", pa.string()),
        ("tool_calls", pa.string()),
        ("tool_call_id", pa.string()),
        ("trainable", pa.bool_()),
    ]
)
COLUMNS = [
    ("format_version", pa.int64()),
    ("group_index", pa.int64()),
    ("trajectory_index", pa.int64()),
    ("group_json", pa.string()),
    ("trajectory_json", pa.string()),
    ("reward", pa.float64()),
    ("metrics", pa.string()),
    ("metadata", pa.string()),
    ("tools", pa.string()),
    ("logs", pa.list_(pa.string())),
    ("additional_histories", pa.string()),
    ("messages", pa.list_(MESSAGE)),
]


def choice(text: str | None, *, calls: Any = None, tokens: Any = None) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "tool_calls": calls, "refusal": None}
    logprobs = None if tokens is None else {"content": tokens, "refusal": None}
    return {"finish_reason": "stop", "index": 0, "logprobs": logprobs, "message": message}


def trajectory(*entries: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "messages_and_choices": list(entries) or [SYSTEM, USER, choice("up")],
        "tools": TOOLS,
        "reward": 0.5,
        "metrics": {"max_value": 64, "success": 1},
        "metadata": {"scenario": "s1", "seed": 3},
        "logs": ["moved up"],
    } | changes


def group(*trajectories: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "trajectories": list(trajectories),
        "metadata": {"scenario": "s1"},
        "metrics": {"mean": 0.5},
        "exceptions": [],
        "logs": ["group log"],
    } | changes


CRASH = {
    "type": "TimeoutError",
    "message": "took too long",
    "traceback": "Traceback ...\nTimeoutError",
}


def of(folder: Path, *groups: Any, **options: Any) -> Found:
    return read(IMPORTER, jsonl(folder, *groups), **options)


def as_messages(value: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for entry in value["messages_and_choices"]:
        message = entry.get("message", entry)
        calls = message.get("tool_calls")
        found.append(
            {
                "role": message["role"],
                "content": message.get("content"),
                "tool_calls": json.dumps(calls) if calls else None,
                "tool_call_id": message.get("tool_call_id"),
                "trainable": "message" in entry,
            }
        )
    return found


def row(index: int, place: int | None, value: Any, group_json: Any = None, **changes: Any) -> Any:
    plain = value or {}
    return {
        "format_version": 2,
        "group_index": index,
        "trajectory_index": place,
        "group_json": None if group_json is None else json.dumps(group_json),
        "trajectory_json": None if value is None else json.dumps(value),
        "reward": plain.get("reward"),
        "metrics": json.dumps(plain.get("metrics")) if value else None,
        "metadata": json.dumps(plain.get("metadata")) if value else None,
        "tools": json.dumps(plain.get("tools")) if value else None,
        "logs": plain.get("logs"),
        "additional_histories": None,
        "messages": as_messages(value) if value else None,
    } | changes


def parquet(folder: Path, *rows: dict[str, Any], version: int = 2) -> Path:
    first = 1 if version == 1 else 0
    dropped = {"format_version", "trajectory_index", "group_json", "trajectory_json"}
    columns = [c for c in COLUMNS if not (first and c[0] in dropped)]
    path = folder / f"v{version}.parquet"
    names = {n for n, _ in columns}
    plain = [{k: v for k, v in r.items() if k in names} for r in rows]
    pq.write_table(pa.Table.from_pylist(plain, schema=pa.schema(columns)), path)
    return path


def test_no_real_file_is_claimed(real_data: Path) -> None:
    assert recognised(IMPORTER, real_data) == set()


def test_group_is_read_with_everything_it_holds(tmp_path: Path) -> None:
    run = of(tmp_path, group(trajectory())).run
    assert [(s.actor, s.text) for s in run.steps] == [
        ("system", "Play 2048."),
        ("user", "board"),
        ("agent", "up"),
    ]
    assert (run.reward, run.rewards) == (0.5, {"max_value": 64.0, "success": 1.0})
    assert detail(run.tools) == TOOLS
    told = detail(run.metadata)
    assert (told["metadata"], told["logs"]) == ({"scenario": "s1", "seed": 3}, ["moved up"])
    assert told["group"] == {
        "index": 0,
        "metadata": {"scenario": "s1"},
        "metrics": {"mean": 0.5},
        "logs": ["group log"],
    }


def test_crashed_rollout_is_kept_as_an_error(tmp_path: Path) -> None:
    found = of(tmp_path, group(trajectory(), exceptions=[CRASH]))
    good, crashed = found.runs
    assert (crashed.status, crashed.error) == ("error", "TimeoutError: took too long")
    assert crashed.task_id == good.task_id
    assert (crashed.success, crashed.reward, crashed.n_agent_steps) == (None, None, 0)
    assert [(s.actor, s.text) for s in crashed.steps] == [("environment", CRASH["traceback"])]


def test_group_of_crashes_only_is_read(tmp_path: Path) -> None:
    found = of(tmp_path, group(exceptions=[CRASH, CRASH]))
    assert [r.status for r in found.runs] == ["error", "error"]
    assert len({r.trajectory_id for r in found.runs}) == 2
    assert len({r.task_id for r in found.runs}) == 1


def test_attempts_of_a_group_share_the_task(tmp_path: Path) -> None:
    other = [SYSTEM, USER, choice("left")]
    found = of(tmp_path, group(trajectory(), trajectory(*other), trajectory()))
    assert len({r.task_id for r in found.runs}) == 1
    assert [r.attempt for r in found.runs] == [0, 1, 2]
    assert len({r.trajectory_id for r in found.runs}) == 3


def test_groups_of_one_scenario_in_later_files_share_the_task(tmp_path: Path) -> None:
    first = of(tmp_path, group(trajectory())).run
    later = of(tmp_path, group(trajectory(SYSTEM, USER, choice("down")))).run
    assert first.task_id == later.task_id
    assert first.trajectory_id != later.trajectory_id


@pytest.mark.parametrize(
    ("metrics", "success"),
    [
        ({"success": 1}, True),
        ({"success": 0.0}, False),
        ({"correct": True}, True),
        ({"accuracy": 1.0}, None),
        ({"success": 0.5}, None),
        ({}, None),
    ],
)
def test_only_a_metric_of_that_name_is_a_verdict(
    tmp_path: Path, metrics: dict[str, Any], *, success: bool | None
) -> None:
    assert of(tmp_path, group(trajectory(metrics=metrics))).run.success is success


def test_users_threshold_is_on_the_reward(tmp_path: Path) -> None:
    value = group(trajectory(reward=-1.5, metrics={"success": 1}))
    run = of(tmp_path, value, success_threshold=0.0).run
    assert (run.reward, run.success) == (-1.5, False)


def test_logprobs_and_token_ids_of_a_choice(tmp_path: Path) -> None:
    tokens = [
        {"token": "token_id:11", "logprob": -0.5, "top_logprobs": []},
        {"token": "token_id:12", "logprob": -0.25, "top_logprobs": []},
    ]
    run = of(tmp_path, group(trajectory(USER, choice("up", tokens=tokens)))).run
    step = run.steps[1]
    assert (step.logprobs, step.completion_token_ids) == ((-0.5, -0.25), (11, 12))
    assert (step.completion_tokens, run.completion_tokens) == (2, 2)
    assert detail(step.metadata)["finish_reason"] == "stop"


def test_tokens_as_text_stay_in_the_metadata(tmp_path: Path) -> None:
    top = [{"token": "up", "logprob": -0.5}, {"token": "down", "logprob": -2.0}]
    tokens = [{"token": "up", "logprob": -0.5, "bytes": [117], "top_logprobs": top}]
    step = of(tmp_path, group(trajectory(USER, choice("up", tokens=tokens)))).run.steps[1]
    assert (step.logprobs, step.completion_token_ids) == ((-0.5,), None)
    told = detail(step.metadata)
    assert (told["tokens"], told["top_logprobs"]) == (["up"], [top])


def test_calls_and_results_are_linked(tmp_path: Path) -> None:
    result = {"role": "tool", "tool_call_id": "c1", "content": "moved"}
    value = trajectory(USER, choice(None, calls=[CALL]), result, choice("done"))
    run = of(tmp_path, group(value)).run
    assert run.steps[1].tool_calls[0].arguments == '{"d":"up"}'
    assert run.steps[1].observations[0].text == "moved"
    assert run.n_agent_steps == 2


def test_given_answers_among_choices_are_copied_context(tmp_path: Path) -> None:
    given = {"role": "assistant", "content": "example"}
    run = of(tmp_path, group(trajectory(USER, given, USER, choice("up")))).run
    assert [s.is_copied for s in run.steps if s.actor == "agent"] == [True, False]


def test_run_without_any_choice_is_the_agents_own(tmp_path: Path) -> None:
    given = {"role": "assistant", "content": "left"}
    run = of(tmp_path, group(trajectory(USER, given))).run
    assert (run.n_agent_steps, run.steps[1].is_copied) == (1, False)


def test_further_histories_continue_the_run(tmp_path: Path) -> None:
    history = {"messages_and_choices": [USER, choice("again")], "tools": None}
    main, more = of(tmp_path, group(trajectory(additional_histories=[history]))).runs
    assert (more.relation, more.parent_id) == ("continuation", main.trajectory_id)
    assert (more.reward, more.success) == (None, None)
    assert more.steps[1].text == "again"


def test_policy_version_is_kept(tmp_path: Path) -> None:
    value = trajectory(initial_policy_version=4, final_policy_version=5)
    run = of(tmp_path, group(value)).run
    assert run.policy_version == "5"
    assert detail(run.metadata)["initial_policy_version"] == 4


def test_single_trajectory_a_line_is_read(tmp_path: Path) -> None:
    assert of(tmp_path, trajectory()).run.reward == 0.5


def test_one_group_in_an_object_is_read(tmp_path: Path) -> None:
    path = document(tmp_path, group(trajectory()))
    assert IMPORTER.detect(Source(path)) == 0.95
    assert read(IMPORTER, path).run.source_uri == path.as_posix()


def test_broken_lines_cost_no_other(tmp_path: Path) -> None:
    bad = group({"messages_and_choices": [{"content": "no role"}], "reward": 1})
    found = of(tmp_path, group(trajectory()), bad, "{", {"x": 1}, group(trajectory()))
    assert len(found.runs) == 2
    assert [p.line for p in found.problems] == [2, 3, 4]
    assert "no role" in found.problems[0].reason


@pytest.mark.parametrize("version", [1, 2])
def test_parquet_gives_the_same_runs_as_json_lines(tmp_path: Path, version: int) -> None:
    result = {"role": "tool", "tool_call_id": "c1", "content": "moved"}
    values = [
        trajectory(),
        trajectory(SYSTEM, USER, choice(None, calls=[CALL]), result, choice("done"), reward=1.0),
    ]
    lines = of(tmp_path, group(*values)).runs
    path = parquet(tmp_path, *(row(0, i, v) for i, v in enumerate(values)), version=version)
    assert IMPORTER.detect(Source(path)) == 0.95
    rows = read(IMPORTER, path).runs
    assert [r.trajectory_id for r in rows] == [r.trajectory_id for r in lines]
    assert [r.task_id for r in rows] == [r.task_id for r in lines]
    assert [r.attempt for r in rows] == [0, 1]
    assert [r.rewards for r in rows] == [r.rewards for r in lines]
    assert [[s.text for s in r.steps] for r in rows] == [[s.text for s in r.steps] for r in lines]
    assert [r.tools for r in rows] == [r.tools for r in lines]


def test_trajectory_json_is_authoritative(tmp_path: Path) -> None:
    tokens = [{"token": "token_id:1", "logprob": -0.5}]
    value = trajectory(USER, choice("up", tokens=tokens), reward=0.75)
    path = parquet(tmp_path, row(0, 0, value, reward=9.0, messages=None))
    run = read(IMPORTER, path).run
    assert (run.reward, run.steps[1].logprobs) == (0.75, (-0.5,))


def test_exceptions_of_a_parquet_group_come_once(tmp_path: Path) -> None:
    about = {"metadata": {"scenario": "s1"}, "exceptions": [CRASH]}
    rows = [row(0, i, trajectory(reward=float(i)), about) for i in range(2)]
    runs = read(IMPORTER, parquet(tmp_path, *rows)).runs
    assert sorted(str(r.status) for r in runs) == ["None", "None", "error"]
    assert detail(runs[0].metadata)["group"]["metadata"] == {"scenario": "s1"}


def test_empty_parquet_group_is_a_row_of_nulls(tmp_path: Path) -> None:
    path = parquet(tmp_path, row(0, None, None, {"exceptions": [CRASH]}), row(1, 0, trajectory()))
    found = read(IMPORTER, path)
    assert [r.status for r in found.runs] == ["error", None]
    assert found.problems == []


def test_parquet_row_with_broken_json_is_a_problem(tmp_path: Path) -> None:
    path = parquet(tmp_path, row(0, 0, trajectory(), trajectory_json="{"), row(0, 1, trajectory()))
    found = read(IMPORTER, path)
    assert (len(found.runs), [p.record for p in found.problems]) == (1, ["0"])


def test_old_yaml_form_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "0001.yaml"
    path.write_text("- trajectories:\n  - messages_and_choices:\n    - role: user\n")
    assert IMPORTER.detect(Source(path)) == 0.9
    (problem,) = read(IMPORTER, path).problems
    assert "migrate" in problem.reason
