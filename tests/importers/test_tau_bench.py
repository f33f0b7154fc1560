"""tau-bench: one real run of 200 conversations, and small files for what it does not hold."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Source
from trajstore.importers.tau_bench import IMPORTER, RunName
from trajstore.schema import Trajectory, finish

WRITTEN_NAME = "tool-calling-gpt-4o-0.0_range_0--1_user-gpt-4o-mini-llm_0416123456.json"
TOOLS = '[{"type": "function", "function": {"name": "find", "parameters": {}}}]'


def read(source: Source, **options: Any) -> list[Item]:
    return list(IMPORTER.read(source, ImportOptions(**options)))


def runs(source: Source, **options: Any) -> list[Trajectory]:
    return [finish(i) for i in read(source, **options) if isinstance(i, Trajectory)]


def problems(source: Source) -> list[Problem]:
    return [i for i in read(source) if isinstance(i, Problem)]


def call(name: str, arguments: str, call_id: str = "c1") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    tool_calls = [{"id": call_id, "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": tool_calls}


def result(text: str, call_id: str = "c1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "name": "find", "content": text}


def record(*messages: Any, **changes: Any) -> dict[str, Any]:
    task = {"user_id": "u", "actions": [], "instruction": "You want a refund.", "outputs": []}
    judged = {"reward": 1.0, "info": {"r_actions": 1.0}, "actions": []}
    info = {"task": task, "source": "user", "user_cost": 0.01, "reward_info": judged}
    return {"task_id": 0, "reward": 1.0, "info": info, "traj": list(messages), "trial": 0} | changes


def file(folder: Path, *records: Any, name: str = "gpt-4o-airline.json") -> Source:
    (folder / name).write_text(json.dumps(list(records)))
    return Source(folder / name)


USER = {"role": "user", "content": "hi"}


@pytest.fixture(scope="module")
def real(real_data: Path) -> list[Trajectory]:
    return runs(Source(real_data / "tau_bench" / "gpt-4o-airline.json"))


# --- the real run -----------------------------------------------------------------------------


def test_each_record_is_a_trajectory(real: list[Trajectory]) -> None:
    assert len(real) == 200
    assert len({t.trajectory_id for t in real}) == 200


def test_fifty_tasks_have_four_attempts_each(real: list[Trajectory]) -> None:
    tasks = Counter(t.task_id for t in real)
    assert len(tasks) == 50
    assert set(tasks.values()) == {4}
    assert {t.attempt for t in real} == {0, 1, 2, 3}


def test_task_zero_is_a_task(real: list[Trajectory]) -> None:
    assert sum(t.task_id == "tau-bench/airline/0" for t in real) == 4


def test_rewards_and_successes_are_the_benchmarks(real: list[Trajectory]) -> None:
    assert sum(t.reward or 0 for t in real) == 84.0
    assert Counter(t.success for t in real) == {True: 84, False: 116}


def test_tasks_are_solved_always_never_or_sometimes(real: list[Trajectory]) -> None:
    rates: dict[str, list[bool | None]] = {}
    for t in real:
        rates.setdefault(t.task_id, []).append(t.success)
    kinds = Counter(all(r) - (not any(r)) for r in rates.values())
    assert kinds == {1: 10, -1: 14, 0: 26}


def test_messages_become_steps_and_results_do_not(real: list[Trajectory]) -> None:
    actors = Counter(s.actor for t in real for s in t.steps)
    assert actors == {"agent": 2454, "user": 1490, "system": 200}
    assert sum(t.n_agent_steps for t in real) == 2454


def test_every_call_has_its_result_although_ids_repeat(real: list[Trajectory]) -> None:
    asking = [s for t in real for s in t.steps if s.tool_calls]
    assert sum(t.n_tool_calls for t in real) == len(asking) == 1164
    assert all(len(s.observations) == 1 for s in asking)
    assert len({s.tool_calls[0].call_id for s in asking}) == 134


def test_results_stand_right_behind_their_calls_in_the_file(
    real: list[Trajectory], real_data: Path
) -> None:
    """The second implementation: pair each assistant message with the tool message after it."""
    records = json.loads((real_data / "tau_bench" / "gpt-4o-airline.json").read_text())
    for value, trajectory in zip(records, real, strict=True):
        messages = value["traj"]
        after = [b["content"] for b in messages[1:] if b["role"] == "tool"]
        ours = [o.text for s in trajectory.steps for o in s.observations]
        assert ours == after


def test_null_content_stays_null(real: list[Trajectory]) -> None:
    asking = [s for t in real for s in t.steps if s.tool_calls]
    assert sum(s.text is None for s in asking) == 1074


def test_errors_are_the_results_that_say_so(real: list[Trajectory]) -> None:
    said = [o for t in real for s in t.steps for o in s.observations]
    assert sum(o.is_error is True for o in said) == 73
    assert all((o.text or "").startswith("Error:") for o in said if o.is_error)


def test_runs_that_hit_the_step_limit_are_truncated(real: list[Trajectory]) -> None:
    cut = [t for t in real if t.status == "truncated"]
    assert sorted((t.task_id.split("/")[-1], t.attempt) for t in cut) == [
        ("2", 1),
        ("33", 0),
        ("46", 3),
        ("9", 2),
        ("9", 3),
    ]
    assert {t.n_agent_steps for t in cut} == {30}


def test_goal_is_the_instruction_and_not_the_first_message(real: list[Trajectory]) -> None:
    assert (real[0].goal or "").startswith("You are mia_li_3668. You want to fly from New York")
    assert real[0].steps[1].text != real[0].goal


def test_environment_and_model_come_from_the_file_name(real: list[Trajectory]) -> None:
    assert {(t.environment, t.model) for t in real} == {("airline", "gpt-4o")}


def test_reward_parts_are_named(real: list[Trajectory]) -> None:
    assert Counter(tuple(t.rewards) for t in real) == {
        ("r_actions",): 182,
        ("r_outputs",): 13,
        (): 5,
    }


def test_gold_actions_are_kept_once(real: list[Trajectory]) -> None:
    kept = json.loads(real[0].metadata or "")
    assert kept["task"]["actions"][0]["name"] == "book_reservation"
    assert "actions" not in kept["reward_info"]
    assert kept["user_cost"] == pytest.approx(0.0035475)


def test_source_uri_names_the_record(real: list[Trajectory]) -> None:
    assert (real[7].source_uri or "").endswith("gpt-4o-airline.json#7")


# --- detection --------------------------------------------------------------------------------


def test_only_the_tau_bench_file_is_recognised(real_data: Path) -> None:
    found = [f for f in sorted(real_data.rglob("*")) if f.is_file() and IMPORTER.detect(Source(f))]
    assert [f.name for f in found] == ["gpt-4o-airline.json"]


def test_other_lists_are_not_recognised(tmp_path: Path) -> None:
    assert IMPORTER.detect(file(tmp_path, {"task_id": 1, "reward": 1.0})) == 0.0
    assert IMPORTER.detect(file(tmp_path)) == 0.0


# --- identity ---------------------------------------------------------------------------------


def test_same_run_in_another_folder_and_order_has_the_same_ids(tmp_path: Path) -> None:
    one, two = record(USER, trial=0), record(USER, trial=1)
    (tmp_path / "copy").mkdir()
    first = runs(file(tmp_path, one, two))
    second = runs(file(tmp_path / "copy", two, one))
    assert {t.trajectory_id for t in first} == {t.trajectory_id for t in second}


def test_trials_with_the_same_words_differ(tmp_path: Path) -> None:
    found = runs(file(tmp_path, record(USER, trial=0), record(USER, trial=1)))
    assert len({t.trajectory_id for t in found}) == 2


def test_runs_of_two_models_that_failed_alike_differ(tmp_path: Path) -> None:
    failed = record(reward=0.0, info={"error": "RateLimitError", "traceback": "..."})
    (one,) = runs(file(tmp_path, failed, name="gpt-4o-airline.json"))
    (two,) = runs(file(tmp_path, failed, name="claude-airline.json"))
    assert one.trajectory_id != two.trajectory_id


# --- outcome ----------------------------------------------------------------------------------


def test_failed_run_keeps_its_error_and_was_never_judged(tmp_path: Path) -> None:
    info = {"error": "RateLimitError: slow down", "traceback": "Traceback ..."}
    (found,) = runs(file(tmp_path, record(reward=0.0, info=info)))
    assert (found.status, found.error) == ("error", "RateLimitError: slow down")
    assert (found.success, found.reward) == (None, 0.0)
    assert json.loads(found.metadata or "")["traceback"] == "Traceback ..."
    assert found.steps == ()


@pytest.mark.parametrize(
    ("reward", "success"), [(1.0, True), (1 - 1e-7, True), (0.999, False), (0.0, False)]
)
def test_success_is_reward_one_with_tolerance(
    tmp_path: Path, reward: float, success: object
) -> None:
    (found,) = runs(file(tmp_path, record(USER, reward=reward)))
    assert found.success is success
    assert found.reward == reward


def test_threshold_of_the_user_wins(tmp_path: Path) -> None:
    source = file(tmp_path, record(USER, reward=0.5))
    assert runs(source, success_threshold=0.5)[0].success is True


# --- linking ----------------------------------------------------------------------------------


def test_result_goes_to_the_call_before_it_even_if_an_older_one_is_open(tmp_path: Path) -> None:
    """Call one was never answered; its id comes again, and the answer is the second call's."""
    messages = [call("a", "{}", "x"), USER, call("b", "{}", "x"), result("B", "x")]
    (found,) = runs(file(tmp_path, record(*messages)))
    assert [[o.text for o in s.observations] for s in found.steps] == [[], [], ["B"]]


def test_result_without_a_call_is_kept(tmp_path: Path) -> None:
    (found,) = runs(file(tmp_path, record(USER, result("lost"))))
    assert [o.text for s in found.steps for o in s.observations] == ["lost"]


def test_broken_arguments_stay_as_written(tmp_path: Path) -> None:
    (found,) = runs(file(tmp_path, record(call("find", '{"q": "x'))))
    made = found.steps[0].tool_calls[0]
    assert (made.arguments, made.arguments_raw) == (None, '{"q": "x')


def test_unknown_action_is_an_error(tmp_path: Path) -> None:
    (found,) = runs(file(tmp_path, record(call("fly", "{}"), result("Unknown action fly"))))
    assert found.n_tool_errors == 1


# --- agents that write their calls as text ----------------------------------------------------


def text_agent(*turns: dict[str, Any]) -> dict[str, Any]:
    prompt = f"# Retail agent policy\n#Available tools\n{TOOLS}\n# Instruction\nThink."
    return record({"role": "system", "content": prompt}, USER, *turns)


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def test_text_agent_calls_are_read_and_their_text_is_kept(tmp_path: Path) -> None:
    text = 'Thought:\nLook.\nAction:\n{"name": "find", "arguments": {"q": 1}}'
    answer = {"role": "user", "content": "API output: 3 items"}
    (found,) = runs(file(tmp_path, text_agent(says(text), answer), name="x.json"))
    step = found.steps[-1]
    assert (step.text, step.tool_calls[0].name) == (text, "find")
    assert step.tool_calls[0].arguments == '{"q":1}'
    assert [o.text for o in step.observations] == ["3 items"]


def test_text_agent_that_answers_the_user_makes_no_call(tmp_path: Path) -> None:
    text = 'Action:\n{"name": "respond", "arguments": {"content": "Hello"}}'
    (found,) = runs(file(tmp_path, text_agent(says(text), USER)))
    assert (found.n_tool_calls, found.n_format_errors) == (0, 0)
    assert [s.actor for s in found.steps] == ["system", "user", "agent", "user"]


def test_text_agent_without_a_readable_action_is_a_format_error(tmp_path: Path) -> None:
    (found,) = runs(file(tmp_path, text_agent(says("Thought:\nhm\nAction:\nfind it"), USER)))
    assert found.n_format_errors == 1


def test_tools_of_a_text_agent_come_from_its_prompt(tmp_path: Path) -> None:
    (found,) = runs(file(tmp_path, text_agent(says("Action: {}"))))
    assert json.loads(found.tools or "")[0]["function"]["name"] == "find"


def test_words_of_a_plain_agent_are_not_taken_for_calls(tmp_path: Path) -> None:
    text = 'Action:\n{"name": "find", "arguments": {}}'
    (found,) = runs(file(tmp_path, record(USER, says(text))))
    assert (found.n_tool_calls, found.n_format_errors, found.tools) == (0, 0, None)


# --- names ------------------------------------------------------------------------------------


def test_name_that_tau_bench_writes_is_read() -> None:
    found = RunName.of(WRITTEN_NAME)
    assert (found.agent, found.model, found.environment) == ("tool-calling", "gpt-4o", None)
    assert found.rest == {
        "temperature": "0.0",
        "start": "0",
        "end": "-1",
        "user_model": "gpt-4o-mini",
        "user_strategy": "llm",
        "time": "0416123456",
    }


@pytest.mark.parametrize(
    ("name", "model", "environment"),
    [
        ("sonnet-35-new-retail.json", "sonnet-35-new", "retail"),
        ("gpt-4o-airline.json", "gpt-4o", "airline"),
        ("my-results.json", None, None),
    ],
)
def test_published_names_are_read(name: str, model: str | None, environment: str | None) -> None:
    found = RunName.of(name)
    assert (found.model, found.environment) == (model, environment)


def test_environment_is_read_from_the_policy_where_the_name_lacks_it(tmp_path: Path) -> None:
    policy = {"role": "system", "content": "# Retail agent policy\n..."}
    failed = record(task_id=1, info={"error": "E", "traceback": ""}, reward=0.0)
    found = runs(file(tmp_path, record(policy, USER), failed, name=WRITTEN_NAME))
    assert [t.task_id for t in found] == ["tau-bench/retail/0", "tau-bench/retail/1"]
    assert {t.agent for t in found} == {"tool-calling"}
    assert json.loads(found[0].metadata or "")["run"]["temperature"] == "0.0"


def test_user_may_name_the_environment(tmp_path: Path) -> None:
    source = file(tmp_path, record(USER), name="x.json")
    assert runs(source)[0].task_id == "tau-bench/0"
    assert runs(source, environment="airline")[0].task_id == "tau-bench/airline/0"


# --- bad input --------------------------------------------------------------------------------


def test_bad_records_cost_no_other(tmp_path: Path) -> None:
    bad = [
        {"task_id": 1, "reward": 1.0, "info": {}},
        record(USER, traj="none"),
        record(USER, task_id=None),
        record(USER, reward="good"),
        "text",
    ]
    source = file(tmp_path, record(USER), *bad, record(USER, trial=1))
    assert len(runs(source)) == 2
    assert [p.record for p in problems(source)] == ["1", "2", "3", "4", "5"]
    assert "field 'traj' is missing" in problems(source)[0].reason


def test_bad_records_do_not_hide_the_environment_of_others(tmp_path: Path) -> None:
    bad = ["text", record("no message")]
    source = file(tmp_path, *bad, record(USER), name="x.json")
    assert [t.task_id for t in runs(source)] == ["tau-bench/0"]
    assert len(problems(source)) == 2


def test_file_cut_in_the_middle_gives_what_is_whole(tmp_path: Path) -> None:
    source = file(tmp_path, record(USER), record(USER, trial=1))
    source.path.write_text(source.path.read_text()[:-30])
    again = Source(source.path)
    assert len(runs(again)) == 1
    assert [p.record for p in problems(again)] == ["1"]


def test_json_lines_are_read_too_with_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "gpt-4o-retail.jsonl"
    path.write_text(json.dumps(record(USER)) + "\n{broken\n" + json.dumps(record(USER, trial=1)))
    found = Source(path)
    assert IMPORTER.detect(found) > 0.9
    assert len(runs(found)) == 2
    assert [p.line for p in problems(found)] == [2]
