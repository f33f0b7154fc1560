"""NeMo Gym rollouts: the counts of the real files, and small rows for what they do not hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.importers.reading import Found, detail, document, jsonl, read, recognised
from trajstore.importers.nemo_gym import IMPORTER
from trajstore.importers.source import Source
from trajstore.schema import Trajectory, trajectory_id

NEWTON = [1.0, 0.9999999999999998, 0.10872453727997922, 1.0, -0.49081631392023545]
HARNESSES = ("claude_code", "hermes", "openclaw", "opencode", "pi")


def said(text: str, **more: Any) -> dict[str, Any]:
    parts = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "content": parts, **more}


def row(*output: Any, **changes: Any) -> dict[str, Any]:
    return {
        "responses_create_params": {"input": [{"role": "user", "content": "2+2?"}], "tools": []},
        "response": {"id": "resp_1", "created_at": 1_700_000_000.0, "output": list(output)},
        "reward": 1.0,
        "_ng_task_index": 3,
        "_ng_rollout_index": 0,
        "agent_ref": {"name": "simple_agent"},
    } | changes


def one(folder: Path, *output: Any, **changes: Any) -> Trajectory:
    options = changes.pop("options", {})
    return read(IMPORTER, jsonl(folder, row(*output, **changes)), **options).run


def of(real_data: Path, name: str) -> Found:
    return read(IMPORTER, real_data / "nemo_gym" / name)


def call_ids(run: Trajectory) -> list[str | None]:
    return [c.call_id for s in run.steps for c in s.tool_calls]


def result_ids(run: Trajectory) -> list[str | None]:
    return [o.call_id for s in run.steps for o in s.observations]


@pytest.mark.parametrize(
    ("name", "rewards", "calls", "outputs"),
    [
        ("anyswe/example_rollouts_claude_code.jsonl", [1, 0, 0, 0, 0], 16, 16),
        ("anyswe/example_rollouts_hermes.jsonl", [0, 1, 0, 0, 1], 68, 68),
        ("anyswe/example_rollouts_openclaw.jsonl", [0, 0, 0, 0, 0], 0, 0),
        ("anyswe/example_rollouts_opencode.jsonl", [0, 1, 1, 1, 1], 27, 26),
        ("anyswe/example_rollouts_pi.jsonl", [1, 0, 1, 1, 1], 20, 20),
        ("blackjack.jsonl", [-1, 1, -1, 1, 1], 0, 0),
        ("claude_code_math.jsonl", [0, 0, 1, 0, 0], 7, 7),
        ("competitive_coding_tokens.jsonl", [0, 0, 0, 0, 0], 0, 0),
        ("harbor_agent/example_output.jsonl", [0, 1, 0], 55, 46),
        ("math_with_code.jsonl", [1, 0, 0, 0, 0], 31, 31),
        ("mini_swe_agent_2/example_rollouts.jsonl", [1, 0, 0, 0, 0], 129, 124),
        ("newton_bench.jsonl", NEWTON, 28, 28),
        ("workplace_assistant.jsonl", [0, 1, 1, 1, 1], 8, 8),
    ],
)
def test_real_files_have_their_rewards_calls_and_outputs(
    real_data: Path, name: str, rewards: list[float], calls: int, outputs: int
) -> None:
    found = of(real_data, name)
    assert [r.reward for r in found.runs] == rewards
    assert sum(len(call_ids(r)) for r in found.runs) == calls
    assert sum(len(result_ids(r)) for r in found.runs) == outputs
    assert found.problems == []


def test_tau2_file_holds_five_solved_simulations(real_data: Path) -> None:
    found = read(IMPORTER, real_data / "tau2_bench" / "nemo_gym_tau2_rollouts.jsonl")
    assert [r.reward for r in found.runs] == [1.0] * 5
    assert [r.success for r in found.runs] == [True] * 5
    assert len({r.task_id for r in found.runs}) == 5


def test_exactly_its_own_files_are_recognised(real_data: Path) -> None:
    assert recognised(IMPORTER, real_data) == {
        *(f"nemo_gym/anyswe/example_rollouts_{h}.jsonl" for h in HARNESSES),
        "nemo_gym/blackjack.jsonl",
        "nemo_gym/claude_code_math.jsonl",
        "nemo_gym/competitive_coding_tokens.jsonl",
        "nemo_gym/harbor_agent/example_output.jsonl",
        "nemo_gym/math_with_code.jsonl",
        "nemo_gym/mini_swe_agent_2/example_rollouts.jsonl",
        "nemo_gym/newton_bench.jsonl",
        "nemo_gym/workplace_assistant.jsonl",
        "tau2_bench/nemo_gym_tau2_rollouts.jsonl",
    }


def test_five_harnesses_make_25_attempts_of_one_task(real_data: Path) -> None:
    names = [f"anyswe/example_rollouts_{h}.jsonl" for h in HARNESSES]
    runs = [r for n in names for r in of(real_data, n).runs]
    assert len({r.trajectory_id for r in runs}) == 25
    assert {r.task_id for r in runs} == {"swe-bench/astropy__astropy-12907"}
    assert sum(r.success is True for r in runs) == 11
    assert sum(r.success is False for r in runs) == 14
    assert sorted(r.attempt for r in runs if r.agent == "anyswe_pi") == [0, 1, 2, 3, 4]


def test_problem_statement_is_the_goal_where_the_input_is_empty(real_data: Path) -> None:
    run = of(real_data, "anyswe/example_rollouts_openclaw.jsonl").runs[0]
    assert run.goal is not None
    assert run.goal.startswith("Modeling's `separability_matrix` does not compute")
    assert [s.actor for s in run.steps] == ["agent"]
    assert run.steps[0].text == ""
    assert "diff --git" in detail(run.metadata)["model_patch"]


def test_blackjack_is_won_by_a_positive_reward(real_data: Path) -> None:
    found = of(real_data, "blackjack.jsonl")
    assert [r.success for r in found.runs] == [False, True, False, True, True]
    assert {r.task_id for r in found.runs} == {"nemo-gym/blackjack_gymnasium_agent/0"}
    assert [r.n_agent_steps for r in found.runs] == [2, 1, 1, 2, 1]
    assert found.runs[0].termination_reason == "bust"


def test_newton_bench_success_tolerates_the_last_digit(real_data: Path) -> None:
    found = of(real_data, "newton_bench.jsonl")
    assert [r.success for r in found.runs] == [True, True, False, True, False]
    tasks = [r.task_id for r in found.runs]
    assert sorted(tasks.count(t) for t in set(tasks)) == [1, 1, 3]
    assert sum(s.reasoning is not None for r in found.runs for s in r.steps) == 33


def test_token_ids_and_logprobs_of_the_sampler_are_kept(real_data: Path) -> None:
    found = of(real_data, "competitive_coding_tokens.jsonl")
    steps = [s for r in found.runs for s in r.steps if s.actor == "agent"]
    assert sum(len(s.completion_token_ids or ()) for s in steps) == 5023
    assert sum(len(s.logprobs or ()) for s in steps) == 5023
    assert all(s.reasoning for s in steps)
    assert [r.completion_tokens for r in found.runs] == [785, 959, 1038, 964, 1277]


def test_harbor_keeps_unanswered_calls_and_orphan_outputs(real_data: Path) -> None:
    runs = of(real_data, "harbor_agent/example_output.jsonl").runs
    unanswered = sum(len(set(call_ids(r)) - set(result_ids(r))) for r in runs)
    orphans = sum(len(set(result_ids(r)) - set(call_ids(r))) for r in runs)
    assert (unanswered, orphans) == (16, 7)
    assert runs[0].prompt_tokens == 176436
    assert runs[0].agent == "terminus-2-nemo-gym"
    assert runs[0].rewards == {"reward": 0.0}
    assert runs[0].started_at is not None
    assert runs[0].duration_s == pytest.approx(98.884172)


def test_usage_of_the_last_call_is_not_taken_for_the_run(real_data: Path) -> None:
    runs = of(real_data, "math_with_code.jsonl").runs
    assert [r.completion_tokens for r in runs] == [None, 1118, None, None, None]
    assert detail(runs[4].metadata)["response"]["usage"]["output_tokens"] == 53


def test_usage_of_zeros_is_unknown(real_data: Path) -> None:
    runs = of(real_data, "anyswe/example_rollouts_hermes.jsonl").runs
    assert {r.prompt_tokens for r in runs} == {None}


def test_usage_of_a_whole_run_is_the_runs(real_data: Path) -> None:
    runs = of(real_data, "anyswe/example_rollouts_claude_code.jsonl").runs
    assert [r.prompt_tokens for r in runs] == [174322, 31397, 31259, 32994, 51762]
    assert runs[0].duration_s == pytest.approx(287.2873022556305)


def test_tau2_simulation_has_the_id_of_its_own_format(real_data: Path) -> None:
    path = real_data / "tau2_bench" / "nemo_gym_tau2_rollouts.jsonl"
    run = read(IMPORTER, path).runs[0]
    with path.open() as lines:
        simulation = json.loads(lines.readline())["result"]
    assert run.trajectory_id == trajectory_id("tau2-bench", simulation["id"], run.started_at)
    assert run.task_id == "tau2-bench/retail/50"
    assert run.source == "nemo-gym"
    assert run.attempt == 3


def test_tau2_steps_are_the_whole_talk_with_tokens(real_data: Path) -> None:
    path = real_data / "tau2_bench" / "nemo_gym_tau2_rollouts.jsonl"
    run = read(IMPORTER, path).runs[0]
    assert [s.actor for s in run.steps][:3] == ["system", "agent", "user"]
    assert (run.n_tool_calls, len(result_ids(run))) == (4, 4)
    assert run.steps[3].prompt_tokens == 5153
    assert run.goal is not None
    assert run.goal.startswith("You're in a rush")
    assert run.tools is not None
    assert detail(run.metadata)["nemo_gym"]["config"]["domain"] == "retail"


def test_second_import_gives_the_same_ids(real_data: Path) -> None:
    first, second = (of(real_data, "blackjack.jsonl") for _ in range(2))
    assert [r.trajectory_id for r in first.runs] == [r.trajectory_id for r in second.runs]


def test_placeholder_rows_are_not_ours(real_data: Path) -> None:
    assert IMPORTER.detect(Source(real_data / "nemo_gym" / "placeholder_rows.jsonl")) == 0


def test_broken_row_costs_no_other_and_names_its_line(tmp_path: Path) -> None:
    good = row(said("4"))
    bad = {"responses_create_params": {"input": []}, "response": {"output": "none"}}
    found = read(IMPORTER, jsonl(tmp_path, good, bad, "<PLACEHOLDER ROW>", good | {"reward": 0}))
    assert len(found.runs) == 2
    assert [p.line for p in found.problems] == [2, 3]
    assert "response.output" in found.problems[0].reason


def test_row_without_a_response_among_rollouts_is_a_problem(tmp_path: Path) -> None:
    task = {"responses_create_params": {"input": "x"}}
    found = read(IMPORTER, jsonl(tmp_path, row(said("4")), task))
    assert (len(found.runs), [p.line for p in found.problems]) == (1, [2])


def test_file_of_tasks_is_ignored_as_a_whole(tmp_path: Path) -> None:
    task = {"responses_create_params": {"input": "x"}, "expected_answer": "4"}
    found = read(IMPORTER, jsonl(tmp_path, task, task))
    assert found.runs == []
    assert [p.kind for p in found.problems] == ["ignored"]


def test_one_rollout_in_an_object_is_read(tmp_path: Path) -> None:
    path = document(tmp_path, row(said("4")))
    assert IMPORTER.detect(Source(path)) > 0.9
    assert read(IMPORTER, path).run.source_uri == path.as_posix()


def test_same_response_id_in_another_run_is_another_attempt(tmp_path: Path) -> None:
    later = row(said("4"))
    later["response"] = {**later["response"], "created_at": 1_700_000_999.0}
    found = read(IMPORTER, jsonl(tmp_path, row(said("4")), later))
    assert len({r.trajectory_id for r in found.runs}) == 2


def test_reward_given_later_does_not_change_the_id(tmp_path: Path) -> None:
    assert (
        one(tmp_path, said("4")).trajectory_id == one(tmp_path, said("4"), reward=0.5).trajectory_id
    )


def test_agent_messages_of_the_prompt_are_copied_context(tmp_path: Path) -> None:
    prompt = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    run = one(tmp_path, said("4"), responses_create_params={"input": prompt})
    assert [(s.actor, s.is_copied) for s in run.steps] == [
        ("user", False),
        ("agent", True),
        ("agent", False),
    ]
    assert run.n_agent_steps == 1


def test_plain_text_input_and_instructions_become_steps(tmp_path: Path) -> None:
    request = {"input": "2+2?", "instructions": "Be short."}
    run = one(tmp_path, said("4"), responses_create_params=request)
    assert [(s.actor, s.text) for s in run.steps] == [
        ("system", "Be short."),
        ("user", "2+2?"),
        ("agent", "4"),
    ]
    assert run.goal == "2+2?"


def test_nested_output_lists_are_read(tmp_path: Path) -> None:
    run = one(tmp_path, [said("a"), [{"role": "user", "content": "go on"}]], [said("b")])
    assert [s.text for s in run.steps] == ["2+2?", "a", "go on", "b"]


def test_sampling_parameters_stand_on_sampled_steps_only(tmp_path: Path) -> None:
    request = {"input": "x", "temperature": 0.7, "top_p": 0.8}
    run = one(tmp_path, said("4"), responses_create_params=request)
    assert detail(run.steps[1].sampling) == {"temperature": 0.7, "top_p": 0.8}
    assert run.steps[0].sampling is None


def test_masked_sample_is_tagged(tmp_path: Path) -> None:
    run = one(tmp_path, said("4"), mask_sample=True, error_kind="sandbox_died")
    assert run.tags == ("mask_sample",)
    assert (run.status, run.error) == ("error", "sandbox_died")
    assert detail(run.metadata)["mask_sample"] is True


def test_timed_out_agent_is_truncated_and_may_still_be_solved(tmp_path: Path) -> None:
    run = one(tmp_path, said("4"), agent_timed_out=True, resolved=True)
    assert (run.status, run.success) == ("truncated", True)
    assert run.termination_reason == "agent_timed_out"


def test_truncated_episode_is_truncated(tmp_path: Path) -> None:
    run = one(tmp_path, said("4"), terminated=False, truncated=True, reward=0.0)
    assert (run.status, run.success) == ("truncated", False)


def test_incomplete_response_is_truncated(tmp_path: Path) -> None:
    response = {
        "id": "r",
        "output": [said("4")],
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
    }
    run = one(tmp_path, response=response)
    assert (run.status, run.termination_reason) == ("truncated", "max_output_tokens")


def test_resolved_wins_over_the_reward(tmp_path: Path) -> None:
    assert one(tmp_path, said("4"), resolved=False, reward=1.0).success is False


def test_users_threshold_wins_over_everything(tmp_path: Path) -> None:
    options = {"success_threshold": 0.5}
    run = one(tmp_path, said("4"), resolved=False, reward=0.6, options=options)
    assert run.success is True


def test_missing_reward_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    run = one(tmp_path, said("4"), reward=None)
    assert (run.reward, run.success) == (None, None)


def test_task_without_number_or_name_is_its_prompt(tmp_path: Path) -> None:
    plain = {"_ng_task_index": None, "agent_ref": None}
    other = {"responses_create_params": {"input": "3+3?"}}
    same = one(tmp_path, said("4"), **plain).task_id
    assert same == one(tmp_path, said("5"), **plain).task_id
    assert same != one(tmp_path, said("6"), **plain, **other).task_id


def test_run_without_response_id_is_told_by_what_was_said(tmp_path: Path) -> None:
    first = one(tmp_path, response={"output": [said("4")]})
    second = one(tmp_path, response={"output": [said("5")]})
    assert first.trajectory_id != second.trajectory_id
