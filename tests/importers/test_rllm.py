"""rLLM: the one real file, and episodes as its code writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.importers.reading import Found, detail, document, jsonl, read, recognised
from trajstore.importers.rllm import IMPORTER
from trajstore.importers.source import Source
from trajstore.schema import trajectory_id

REAL = "rllm/strands_trajectory_20250904_014601.json"
USER = {"role": "user", "content": "2+2?"}
FOUR = {"role": "assistant", "content": "4"}


def step(*chat: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "prompt_ids": [],
        "response_ids": [],
        "logprobs": [],
        "chat_completions": list(chat),
        "observation": None,
        "thought": "",
        "action": None,
        "model_response": "",
        "model_output": None,
        "info": {},
        "reward": 0.0,
        "done": False,
        "mc_return": 0.0,
        "advantage": None,
    } | changes


def trajectory(*steps: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "uid": "u1",
        "name": "default_traj_name",
        "task": {"question": "2+2?"},
        "steps": list(steps),
        "reward": 1.0,
        "info": {},
    } | changes


def episode(*trajectories: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "id": "task-9:2",
        "task": {"question": "2+2?"},
        "termination_reason": "env_done",
        "is_correct": True,
        "trajectories": list(trajectories),
        "metrics": {"acc": 1.0},
        "info": {},
    } | changes


def of(folder: Path, value: Any, **options: Any) -> Found:
    return read(IMPORTER, document(folder, value), **options)


def test_exactly_its_own_file_is_recognised(real_data: Path) -> None:
    assert recognised(IMPORTER, real_data) == {REAL}


def test_real_trajectory_has_two_steps_and_its_reward(real_data: Path) -> None:
    run = read(IMPORTER, real_data / REAL).run
    assert (run.n_agent_steps, run.n_tool_calls, run.reward) == (2, 1, 0.0)
    assert [s.actor for s in run.steps] == ["user", "agent", "agent"]
    assert run.goal == "who won the 2025 France Tennis Open?"
    assert run.agent == "StrandsAgent"


def test_real_tool_step_holds_call_and_result(real_data: Path) -> None:
    call_step = read(IMPORTER, real_data / REAL).run.steps[1]
    assert call_step.tool_calls[0].name == "google_search"
    assert call_step.tool_calls[0].arguments == '{"query":"2025 France Tennis Open winner"}'
    assert (call_step.observations[0].text or "").startswith("1. https://en.wikipedia.org")
    assert call_step.reward == 0.0


def test_default_reward_of_an_unjudged_trajectory_is_no_verdict(real_data: Path) -> None:
    assert read(IMPORTER, real_data / REAL).run.success is None
    assert read(IMPORTER, real_data / REAL, success_threshold=0.5).run.success is False


def test_real_file_twice_is_one_run(real_data: Path) -> None:
    ids = [read(IMPORTER, real_data / REAL).run.trajectory_id for _ in range(2)]
    assert ids[0] == ids[1]


def test_episode_gives_task_attempt_and_verdict(tmp_path: Path) -> None:
    run = of(tmp_path, episode(trajectory(step(USER, FOUR)))).run
    assert (run.task_id, run.attempt) == ("rllm/task-9", 2)
    assert (run.success, run.reward, run.goal) == (True, 1.0, "2+2?")
    assert (run.status, run.termination_reason) == ("terminated", "env_done")
    assert run.trajectory_id == trajectory_id("rllm", "u1")
    assert detail(run.metadata)["episode"]["metrics"] == {"acc": 1.0}


def test_verdict_beats_the_reward(tmp_path: Path) -> None:
    value = episode(trajectory(step(USER, FOUR), reward=1.0), is_correct=False)
    assert of(tmp_path, value).run.success is False


def test_trajectories_of_one_episode_have_their_own_rewards(tmp_path: Path) -> None:
    solver = trajectory(step(USER, FOUR), name="solver", reward=0.0)
    judge = trajectory(step(USER, FOUR), name="judge", uid="u2", reward=1.0)
    runs = of(tmp_path, episode(solver, judge)).runs
    assert [(r.agent, r.success) for r in runs] == [("solver", False), ("judge", True)]
    assert len({r.trajectory_id for r in runs}) == 2
    assert [r.source_uri for r in runs] == [f"{tmp_path.as_posix()}/file.json#{i}" for i in (0, 1)]


def test_logged_episode_is_the_same_run_with_its_training_step(tmp_path: Path) -> None:
    plain = of(tmp_path, episode(trajectory(step(USER, FOUR)))).run
    logged = episode(trajectory(step(USER, FOUR), num_steps=1))
    logged |= {"training_step": 40, "epoch": 1, "episode_id": logged.pop("id"), "task_hash": "ab"}
    run = of(tmp_path, logged).run
    assert run.trajectory_id == plain.trajectory_id
    assert (run.task_id, run.policy_version) == (plain.task_id, "40")


def test_bare_trajectory_with_uid_is_judged_by_its_reward(tmp_path: Path) -> None:
    assert of(tmp_path, trajectory(step(USER, FOUR))).run.success is True
    assert of(tmp_path, trajectory(step(USER, FOUR), reward=0.0)).run.success is False
    assert of(tmp_path, trajectory(step(USER, FOUR), reward=None)).run.success is None


def test_repeated_chats_are_not_repeated_steps(tmp_path: Path) -> None:
    again = {"role": "user", "content": "sure?"}
    yes = {"role": "assistant", "content": "yes"}
    run = of(tmp_path, trajectory(step(USER, FOUR), step(USER, FOUR, again, yes, done=True))).run
    assert [(s.actor, s.text) for s in run.steps] == [
        ("user", "2+2?"),
        ("agent", "4"),
        ("user", "sure?"),
        ("agent", "yes"),
    ]
    assert not any(s.is_copied for s in run.steps)


def test_few_shot_answers_in_the_chat_are_copied(tmp_path: Path) -> None:
    example = [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]
    run = of(tmp_path, trajectory(step(*example, USER, FOUR))).run
    assert [s.is_copied for s in run.steps if s.actor == "agent"] == [True, False]


def test_token_ids_logprobs_and_credit_are_kept(tmp_path: Path) -> None:
    value = step(
        USER,
        FOUR,
        prompt_ids=[1, 2, 3],
        response_ids=[4, 5],
        logprobs=[-0.5, -0.25],
        reward=0.5,
        mc_return=0.75,
        advantage=[0.1, 0.2],
        thought="two and two",
        action="4",
        weight_version=3,
        model_output={"finish_reason": "stop", "content": "4"},
    )
    made = of(tmp_path, trajectory(value)).run.steps[1]
    assert (made.prompt_token_ids, made.completion_token_ids) == ((1, 2, 3), (4, 5))
    assert (made.logprobs, made.reward, made.reasoning) == ((-0.5, -0.25), 0.5, "two and two")
    assert (made.prompt_tokens, made.completion_tokens) == (3, 2)
    told = detail(made.metadata)
    assert (told["mc_return"], told["advantage"], told["action"]) == (0.75, [0.1, 0.2], "4")
    assert (told["weight_version"], told["finish_reason"]) == (3, "stop")


def test_step_without_a_chat_uses_observation_and_response(tmp_path: Path) -> None:
    run = of(tmp_path, trajectory(step(observation="a maze", model_response="go left"))).run
    assert [(s.actor, s.text) for s in run.steps] == [("user", "a maze"), ("agent", "go left")]


def test_tool_messages_in_the_chat_answer_the_calls(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "w", "arguments": "{}"}}
    asks = {"role": "assistant", "content": None, "tool_calls": [call]}
    told = {"role": "tool", "tool_call_id": "c1", "content": "sunny"}
    run = of(tmp_path, trajectory(step(USER, asks), step(USER, asks, told, FOUR))).run
    assert [len(s.observations) for s in run.steps] == [0, 1, 0]
    assert run.n_tool_calls == 1


def test_structured_observation_is_the_state(tmp_path: Path) -> None:
    run = of(tmp_path, trajectory(step(USER, FOUR, observation={"board": [1, 2]}))).run
    assert detail(run.steps[1].state) == {"board": [1, 2]}


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("env_done", "terminated"),
        ("max_turns_exceeded", "truncated"),
        ("timeout", "truncated"),
        ("error", "error"),
        ("unknown", None),
    ],
)
def test_termination_reasons(tmp_path: Path, reason: str, status: str | None) -> None:
    value = episode(trajectory(step(USER, FOUR)), termination_reason=reason)
    assert of(tmp_path, value).run.status == status


def test_broken_record_costs_no_other(tmp_path: Path) -> None:
    good = episode(trajectory(step(USER, FOUR)))
    bad = episode({"uid": "x", "reward": 1.0})
    found = read(IMPORTER, jsonl(tmp_path, good, bad, {"steps": 3}, good))
    assert len(found.runs) == 2
    assert [p.line for p in found.problems] == [2, 3]


def test_summary_of_a_batch_is_ignored(tmp_path: Path) -> None:
    path = document(tmp_path, {"episode_files": ["a.json"], "summary_stats": {}})
    assert IMPORTER.detect(Source(path)) > 0
    assert [p.kind for p in read(IMPORTER, path).problems] == ["ignored"]


def test_older_files_without_uid_are_told_by_content(tmp_path: Path) -> None:
    one = episode(trajectory(step(USER, FOUR), uid=None))
    other = episode(trajectory(step(USER, {"role": "assistant", "content": "5"}), uid=None))
    assert of(tmp_path, one).run.trajectory_id != of(tmp_path, other).run.trajectory_id
    assert of(tmp_path, one).run.trajectory_id == of(tmp_path, one).run.trajectory_id


def test_last_chat_message_that_was_seen_is_not_said_again(tmp_path: Path) -> None:
    action = {"type": "tool_call", "tool_name": "w", "tool_args": {"q": 1}, "tool_result": "sun"}
    run = of(tmp_path, trajectory(step(USER, FOUR), step(USER, FOUR, action=action))).run
    assert [(s.actor, s.text) for s in run.steps] == [
        ("user", "2+2?"),
        ("agent", "4"),
        ("agent", ""),
    ]
    assert run.steps[2].tool_calls[0].arguments == '{"q":1}'
    assert run.steps[2].observations[0].text == "sun"


def test_observation_beside_the_chat_is_kept(tmp_path: Path) -> None:
    run = of(tmp_path, trajectory(step(USER, FOUR, observation="a hint"))).run
    assert detail(run.steps[1].metadata)["observation"] == "a hint"
    same = of(tmp_path, trajectory(step(USER, FOUR, observation="2+2?"))).run
    assert "observation" not in detail(same.steps[1].metadata)


def test_image_blocks_among_prompt_ids_are_no_ids(tmp_path: Path) -> None:
    value = step(USER, FOUR, prompt_ids=[1, {"image": "x"}], response_ids=[2])
    made = of(tmp_path, trajectory(value)).run.steps[1]
    assert (made.prompt_token_ids, made.completion_token_ids) == (None, (2,))


def test_broken_token_ids_are_a_problem(tmp_path: Path) -> None:
    found = of(tmp_path, trajectory(step(USER, FOUR, response_ids=["a"])))
    assert found.runs == []
    assert "a token id is a whole number" in found.problems[0].reason


def test_goal_is_the_tasks_question_in_any_spelling(tmp_path: Path) -> None:
    for task in ("2+2?", {"problem": "2+2?"}, {"question": "2+2?", "answer": "4"}):
        assert of(tmp_path, trajectory(step(USER, FOUR), task=task)).run.goal == "2+2?"
    assert of(tmp_path, trajectory(step(USER, FOUR), task={"id": 1})).run.goal == "2+2?"


def test_task_of_a_bare_trajectory_is_the_task_itself(tmp_path: Path) -> None:
    one = of(tmp_path, trajectory(step(USER, FOUR))).run
    other = of(tmp_path, trajectory(step(USER, FOUR), uid="u2")).run
    third = of(tmp_path, trajectory(step(USER, FOUR), task="3+3?")).run
    assert one.task_id == other.task_id != third.task_id
    assert one.trajectory_id != other.trajectory_id


def test_empty_trajectory_of_an_episode_is_kept_without_steps(tmp_path: Path) -> None:
    run = of(tmp_path, episode(trajectory(), termination_reason="error", is_correct=False)).run
    assert (run.n_steps, run.status, run.success) == (0, "error", False)
