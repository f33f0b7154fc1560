"""tau2-bench Results: real files, the folder form, and outcomes that are none."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Source
from trajstore.importers.tau2_bench import IMPORTER
from trajstore.schema import Trajectory, finish


def read(source: Source, **options: Any) -> list[Item]:
    return list(IMPORTER.read(source, ImportOptions(**options)))


def runs(source: Source, **options: Any) -> list[Trajectory]:
    return [finish(i) for i in read(source, **options) if isinstance(i, Trajectory)]


def problems(source: Source) -> list[Problem]:
    return [i for i in read(source) if isinstance(i, Problem)]


def simulation(name: str = "s1", **changes: Any) -> dict[str, Any]:
    said = [{"role": "assistant", "content": "Hi!"}, {"role": "user", "content": "Bye"}]
    return {
        "id": name,
        "task_id": "7",
        "trial": 0,
        "start_time": "2026-07-31T01:29:51.926538",
        "end_time": "2026-07-31T01:30:10.379826",
        "duration": 18.45,
        "termination_reason": "user_stop",
        "agent_cost": 0.25,
        "reward_info": {"reward": 1.0, "reward_breakdown": {"DB": 1.0, "COMMUNICATE": 1.0}},
        "messages": said,
    } | changes


def results(*simulations: Any, **changes: Any) -> dict[str, Any]:
    told = {"reason_for_call": "Cancel it.", "known_info": "You are Ann.", "unknown_info": None}
    info = {
        "git_commit": "abc",
        "num_trials": 1,
        "user_info": {"implementation": "user_simulator", "llm": "gpt-4o"},
        "agent_info": {"implementation": "llm_agent", "llm": "o4", "llm_args": {"temperature": 0}},
        "environment_info": {
            "domain_name": "telecom",
            "policy": "# Policy",
            "tool_defs": [{"n": 1}],
        },
    }
    tasks = [{"id": "7", "user_scenario": {"instructions": told}}]
    return {"info": info, "tasks": tasks, "simulations": list(simulations)} | changes


def file(folder: Path, content: Any, name: str = "results.json") -> Source:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return Source(path)


def names(folder: Path) -> frozenset[str]:
    return frozenset(p.name for p in folder.iterdir())


def in_folder(folder: Path, *simulations: dict[str, Any], **changes: Any) -> Source:
    """The folder form, as the walk hands it out."""
    for each in simulations:
        file(folder, each, f"simulations/{each['id']}.json")
    file(folder, results(**changes) | {"simulations": None})
    (group,) = IMPORTER.claims(folder, names(folder))
    files = tuple(folder / name for name in group)
    return Source(folder, uri=files[0].as_posix(), files=files)


@pytest.fixture(scope="module")
def real(real_data: Path) -> list[Trajectory]:
    return runs(Source(real_data / "tau2_bench" / "whissle-airline.first25.json"))


# --- the real files ---------------------------------------------------------------------------


def test_each_simulation_is_a_trajectory_of_its_own_task(real: list[Trajectory]) -> None:
    assert len(real) == len({t.trajectory_id for t in real}) == 25
    assert Counter(Counter(t.task_id for t in real).values()) == {1: 25}
    assert real[0].task_id == "tau2-bench/airline/0"


def test_rewards_are_the_evaluators(real: list[Trajectory]) -> None:
    assert Counter(t.success for t in real) == {True: 12, False: 13}
    assert sum(t.reward or 0 for t in real) == 12.0
    assert {tuple(t.rewards) for t in real} == {("DB", "COMMUNICATE")}


def test_messages_become_steps_and_results_do_not(real: list[Trajectory]) -> None:
    assert Counter(s.actor for t in real for s in t.steps) == {"agent": 316, "user": 174}


def test_every_call_has_its_result_although_ids_repeat(real: list[Trajectory]) -> None:
    asking = [s for t in real for s in t.steps if s.tool_calls]
    assert sum(t.n_tool_calls for t in real) == 144
    assert len({c.call_id for s in asking for c in s.tool_calls}) == 18
    for step in asking:
        assert [o.call_id for o in step.observations] == [c.call_id for c in step.tool_calls]


def test_results_keep_the_order_of_the_file(real: list[Trajectory], real_data: Path) -> None:
    path = real_data / "tau2_bench" / "whissle-airline.first25.json"
    for value, trajectory in zip(json.loads(path.read_text())["simulations"], real, strict=True):
        after = [m["content"] for m in value["messages"] if m["role"] == "tool"]
        assert [o.text for s in trajectory.steps for o in s.observations] == after


def test_one_message_has_three_parallel_calls(real: list[Trajectory]) -> None:
    counts = Counter(len(s.tool_calls) for t in real for s in t.steps if s.tool_calls)
    assert counts == {1: 141, 3: 1}


def test_tool_errors_are_the_flagged_ones(real: list[Trajectory]) -> None:
    assert sum(t.n_tool_errors for t in real) == 8


def test_run_and_times_are_kept(real: list[Trajectory]) -> None:
    first = real[0]
    assert (first.agent, first.model, first.environment) == ("whissle", "whissle", "airline")
    assert first.environment_version == "121283b87f0e5e14917e9fea3a6411e90408a6e1"
    assert {(t.status, t.termination_reason) for t in real} == {("terminated", "user_stop")}
    assert first.started_at is not None
    assert first.started_at.isoformat() == "2026-07-31T01:29:51.926538+00:00"
    assert first.duration_s == pytest.approx(18.4519, abs=1e-3)


def test_goal_is_what_the_user_was_told(real: list[Trajectory]) -> None:
    assert (real[0].goal or "").startswith("You want to cancel reservation EHGLP3.")
    assert "Your user id is emma_kim_9957." in (real[0].goal or "")


def test_policy_and_task_are_in_the_metadata(real: list[Trajectory]) -> None:
    kept = json.loads(real[0].metadata or "")
    assert kept["policy"].startswith("# Airline Agent Policy")
    assert kept["task"]["evaluation_criteria"]["reward_basis"] == ["DB", "COMMUNICATE"]
    assert kept["seed"] == 626729


def test_voice_index_without_simulations_is_ignored(real_data: Path) -> None:
    (found,) = read(Source(real_data / "tau2_bench" / "voice_results_index.json"))
    assert isinstance(found, Problem)
    assert found.kind == "ignored"
    assert "simulations/" in found.reason


def test_only_results_files_are_recognised(real_data: Path) -> None:
    """The NeMo Gym rollouts that embed simulations are another format."""
    found = [f for f in sorted(real_data.rglob("*")) if f.is_file() and IMPORTER.detect(Source(f))]
    assert [f.name for f in found] == ["voice_results_index.json", "whissle-airline.first25.json"]


# --- outcome ----------------------------------------------------------------------------------


def test_missing_reward_is_unknown_and_no_failure(tmp_path: Path) -> None:
    (found,) = runs(file(tmp_path, results(simulation(reward_info=None))))
    assert (found.success, found.reward) == (None, None)


@pytest.mark.parametrize(
    ("reason", "status", "success"),
    [
        ("agent_stop", "terminated", False),
        ("max_steps", "truncated", False),
        ("too_many_errors", "truncated", False),
        ("agent_error", "error", False),
        ("infrastructure_error", "error", None),
        ("context_window_exceeded", "truncated", None),
        ("a_new_reason", None, False),
    ],
)
def test_end_of_a_run_with_reward_zero(
    tmp_path: Path, reason: str, status: object, success: object
) -> None:
    value = simulation(termination_reason=reason, reward_info={"reward": 0.0})
    (found,) = runs(file(tmp_path, results(value)))
    assert (found.status, found.success, found.termination_reason) == (status, success, reason)
    assert found.reward == 0.0


def test_failed_action_checks_do_not_make_a_failure(tmp_path: Path) -> None:
    judged = {"reward": 1.0, "action_checks": [{"action_match": False}]}
    (found,) = runs(file(tmp_path, results(simulation(reward_info=judged))))
    assert found.success is True
    assert json.loads(found.metadata or "")["reward_info"] == {
        "action_checks": [{"action_match": False}]
    }


def test_cost_is_the_agents(tmp_path: Path) -> None:
    (found,) = runs(file(tmp_path, results(simulation(user_cost=9.0))))
    assert found.cost_usd == 0.25
    assert json.loads(found.metadata or "")["user_cost"] == 9.0


def test_tools_offered_are_kept(tmp_path: Path) -> None:
    assert runs(file(tmp_path, results(simulation())))[0].tools == '[{"n":1}]'


def test_goal_may_be_plain_text_or_a_ticket(tmp_path: Path) -> None:
    plain = [{"id": "7", "user_scenario": {"instructions": "Do it."}}]
    ticket = [{"id": "7", "user_scenario": None, "ticket": "It is broken."}]
    goals = [
        runs(file(tmp_path, results(simulation(), tasks=t)))[0].goal for t in (plain, ticket, [])
    ]
    assert goals == ["Do it.", "It is broken.", None]


def test_user_calls_are_not_counted_as_the_agents(tmp_path: Path) -> None:
    asks = {"id": "x", "name": "restart", "arguments": {}, "requestor": "user"}
    said = [
        {"role": "user", "content": None, "tool_calls": [asks]},
        {"id": "x", "role": "tool", "content": "ok", "requestor": "user", "error": False},
    ]
    (found,) = runs(file(tmp_path, results(simulation(messages=said))))
    assert (found.n_tool_calls, found.n_steps) == (0, 1)
    assert found.steps[0].observations[0].text == "ok"


def test_spoken_simulation_is_read_from_its_ticks(tmp_path: Path) -> None:
    ticks = [{"agent_chunk": {"role": "assistant", "content": t}} for t in ("Hel", "lo")]
    value = simulation(messages=None, ticks=ticks, mode="full_duplex")
    (found,) = runs(file(tmp_path, results(value)))
    assert [s.text for s in found.steps] == ["Hello"]


# --- the folder form --------------------------------------------------------------------------


def test_folder_form_and_one_file_give_the_same_trajectories(tmp_path: Path) -> None:
    pair = simulation("s1"), simulation("s2", trial=1)
    one = runs(file(tmp_path / "one", results(*pair)))
    many = runs(in_folder(tmp_path / "many", *pair))
    assert [t.trajectory_id for t in one] == [t.trajectory_id for t in many]
    assert [t.source_digest for t in one] == [t.source_digest for t in many]
    assert {t.task_id for t in many} == {"tau2-bench/telecom/7"}
    assert [t.attempt for t in many] == [0, 1]


def test_folder_is_recognised(tmp_path: Path) -> None:
    assert IMPORTER.detect(in_folder(tmp_path, simulation())) > 0.9


def test_index_alone_finds_the_simulations_beside_it(tmp_path: Path) -> None:
    in_folder(tmp_path, simulation("s1"), simulation("s2"))
    found = runs(Source(tmp_path / "results.json"))
    assert [(t.source_uri or "").split("/")[-1] for t in found] == ["s1.json", "s2.json"]


def test_simulation_alone_finds_the_index_above_it(tmp_path: Path) -> None:
    whole = runs(in_folder(tmp_path, simulation()))
    source = Source(tmp_path / "simulations" / "s1.json")
    assert IMPORTER.detect(source) == 0.9
    assert [(t.trajectory_id, t.agent, t.goal) for t in runs(source)] == [
        (t.trajectory_id, t.agent, t.goal) for t in whole
    ]


def test_simulation_without_an_index_is_still_read(tmp_path: Path) -> None:
    source = file(tmp_path, simulation(), "s1.json")
    assert runs(source)[0].task_id == "tau2-bench/7"
    assert runs(source, environment="telecom")[0].task_id == "tau2-bench/telecom/7"


def test_file_that_the_index_names_and_that_is_missing_is_reported(tmp_path: Path) -> None:
    listed = [{"id": "s1", "task_id": "7"}, {"id": "s9", "task_id": "7"}]
    source = in_folder(tmp_path, simulation("s1"), simulation_index=listed)
    assert len(runs(source)) == 1
    (problem,) = problems(source)
    assert (problem.record, problem.kind) == ("s9", "bad")
    assert "simulations/s9.json is missing" in problem.reason


def test_broken_simulation_file_is_named(tmp_path: Path) -> None:
    source = in_folder(tmp_path, simulation("s1"), simulation("s2"))
    (tmp_path / "simulations" / "s1.json").write_text('{"id": ')
    assert len(runs(source)) == 1
    (problem,) = problems(source)
    assert problem.source.endswith("simulations/s1.json")


def test_other_results_folders_are_not_claimed(tmp_path: Path) -> None:
    file(tmp_path, {"info": "else"})
    file(tmp_path, {}, "simulations/a.json")
    assert list(IMPORTER.claims(tmp_path, names(tmp_path))) == []


# --- identity and bad input -------------------------------------------------------------------


def test_shorter_copy_elsewhere_has_the_same_ids(tmp_path: Path) -> None:
    whole = runs(file(tmp_path / "a", results(simulation("s1"), simulation("s2"))))
    part = runs(file(tmp_path / "b", results(simulation("s2")), "other-name.json"))
    assert part[0].trajectory_id == whole[1].trajectory_id


def test_bad_simulations_cost_no_other(tmp_path: Path) -> None:
    cut = {"id": "s2", "task_id": "7"}
    empty = simulation("s3", messages=[], reward_info=None)
    source = file(tmp_path, results(simulation("s1"), cut, empty, "text", simulation("s4")))
    assert len(runs(source)) == 2
    assert [p.record for p in problems(source)] == ["1", "2", "3"]
    assert "no message and no reward" in problems(source)[1].reason


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"info": 3}', "no json"])
def test_what_is_no_results_file_is_a_problem(tmp_path: Path, content: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(content)
    assert IMPORTER.detect(Source(path)) == 0.0
    (found,) = read(Source(path))
    assert isinstance(found, Problem)
    assert found.kind == "bad"


@pytest.mark.parametrize("tasks", [7, 1.5, "x", {"id": 1}, [1, None], None])
def test_tasks_of_another_kind_cost_no_simulation(tmp_path: Path, tasks: Any) -> None:
    (run,) = runs(file(tmp_path, results(simulation(), tasks=tasks)))
    assert run.success is True
