"""A run of OpenHands V0 as a trajectory: outcome, status, tokens and what is kept of a line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trajstore.importers.openhands_runs import from_events, from_output, is_output, verdict
from trajstore.schema import Trajectory, finish

BEGAN = "2025-01-02T03:04:05"


def message(text: str = "Fix it.", at: str | None = BEGAN) -> dict[str, Any]:
    event = {"id": 1, "source": "user", "action": "message", "args": {"content": text}}
    return event if at is None else {**event, "timestamp": at}


def ran(number: int, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "timestamp": f"2025-01-02T03:04:{number:02}",
        "source": "agent",
        "action": "run",
        "args": {"command": "ls"},
        **more,
    }


def finished(number: int = 9) -> dict[str, Any]:
    return {**ran(number), "action": "finish", "args": {"outputs": {}}}


def state(name: str) -> dict[str, Any]:
    return {
        "id": 50,
        "timestamp": "2025-01-02T03:04:50",
        "source": "environment",
        "observation": "agent_state_changed",
        "content": "",
        "extras": {"agent_state": name},
    }


def line(**more: Any) -> dict[str, Any]:
    return {"instance_id": "org__repo-12", "test_result": {}, "history": [message()], **more}


def resolver(**more: Any) -> dict[str, Any]:
    issue = {"owner": "o", "repo": "r", "number": 3, "title": "T", "body": "B"}
    return {"issue": issue, "git_patch": "diff", "history": [message()], **more}


def run(**more: Any) -> Trajectory:
    return finish(from_output(line(**more), "output.jsonl#L1"))


def test_the_report_of_the_benchmark_is_the_outcome() -> None:
    for resolved in (True, False):
        found = run(test_result={"git_patch": "diff", "report": {"resolved": resolved}})
        assert found.success is resolved


def test_a_patch_alone_is_no_outcome() -> None:
    assert run(test_result={"git_patch": "diff"}).success is None


def test_the_resolver_judges_itself() -> None:
    for success in (True, False, None):
        found = from_output(resolver(success=success, result_explanation="because"), "x")
        assert found.success is success
        assert "because" in (found.metadata or "")


def test_a_verdict_is_a_label_too_since_the_line_came_without_it_first() -> None:
    judged = line(test_result={"report": {"resolved": False}})
    label = verdict(judged, "t")
    assert label is not None
    assert (label.trajectory_id, label.success, label.value) == ("t", False, 0.0)
    assert verdict(line(), "t") is None
    assert verdict(resolver(success=True), "t") is None


def test_tasks_are_shared_with_other_agents_of_the_benchmark() -> None:
    assert run().task_id == "swe-bench/org__repo-12"
    assert run().environment == "swe-bench"
    assert run(instance_id="level 3").task_id == "openhands/level 3"
    assert run(instance_id="level 3", metadata={"dataset": "gaia"}).environment == "gaia"


def test_the_goal_is_the_issue_inside_the_prompt() -> None:
    prompt = "Repo.\n<issue_description>\nIt fails.\n</issue_description>\nFix it."
    assert run(history=[message(prompt)]).goal == "It fails."


def test_finishing_is_not_solving() -> None:
    found = run(history=[message(), finished()])
    assert (found.status, found.termination_reason) == ("terminated", "finish")
    assert found.success is None


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("RuntimeError: Agent reached maximum iteration. Max: 50", "truncated"),
        ("Timeout after 3600 seconds", "truncated"),
        ("AgentStuckInLoopError: Agent got stuck in a loop", "error"),
        ("There was an unexpected error while running", "error"),
    ],
)
def test_an_error_says_how_the_run_ended(error: str, status: str) -> None:
    found = run(error=error)
    assert (found.status, found.error) == (status, error)


def test_a_run_with_an_error_may_be_solved() -> None:
    found = run(error="reached maximum iteration", test_result={"report": {"resolved": True}})
    assert (found.status, found.success) == ("truncated", True)


def test_no_error_is_null_or_empty() -> None:
    assert [run(error=e).error for e in (None, "")] == [None, None]


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("finished", "terminated"),
        ("error", "error"),
        ("running", "running"),
        ("awaiting_user_input", None),
    ],
)
def test_the_last_state_of_a_session_is_its_status(name: str, status: str | None) -> None:
    found = from_events([message(), ran(2), state(name)], {}, "x")
    assert (found.status, found.termination_reason) == (status, name)


def test_totals_of_the_metrics_win_and_calls_keep_their_own() -> None:
    usage = {"prompt_tokens": 500, "completion_tokens": 50, "cache_read_tokens": 100}
    found = run(
        metrics={
            "accumulated_cost": 0.5,
            "accumulated_token_usage": usage,
            "token_usages": [{"prompt_tokens": 500}],
            "costs": [{"cost": 0.5}],
        }
    )
    assert (found.prompt_tokens, found.completion_tokens, found.cached_tokens) == (500, 50, 100)
    assert found.cost_usd == 0.5
    kept = json.loads(found.metadata or "")["metrics"]
    assert kept.keys() == {"accumulated_cost", "accumulated_token_usage", "costs"}


def test_metrics_in_the_events_are_cumulative() -> None:
    def metered(number: int, prompt: int, cost: float) -> dict[str, Any]:
        usage = {"prompt_tokens": prompt, "completion_tokens": 1, "cache_read_tokens": 0}
        metrics = {"accumulated_cost": cost, "accumulated_token_usage": usage}
        return ran(number, llm_metrics=metrics)

    found = finish(from_events([message(), metered(2, 100, 0.1), metered(3, 250, 0.3)], {}, "x"))
    assert (found.prompt_tokens, found.cost_usd) == (250, 0.3)


def test_settings_of_the_model_are_those_of_each_call() -> None:
    config = {"model": "m", "temperature": 0.0, "top_p": 1.0, "seed": None, "api_key": "***"}
    found = run(history=[message(), ran(2)], metadata={"llm_config": config})
    assert found.model == "m"
    assert [s.sampling for s in found.steps] == [None, '{"temperature":0.0,"top_p":1.0}']


def test_the_rest_of_the_line_is_kept_and_repetitions_are_not() -> None:
    found = run(
        instruction="Fix it.", instance={"repo": "r", "base_commit": "c"}, metadata={"dataset": "d"}
    )
    kept = json.loads(found.metadata or "")
    assert kept["instance"] == {"repo": "r", "base_commit": "c"}
    assert kept["metadata"] == {"dataset": "d"}
    assert kept.keys().isdisjoint({"history", "instruction"})


def test_an_instruction_that_differs_from_the_first_message_is_kept() -> None:
    assert json.loads(run(instruction="Other").metadata or "")["instruction"] == "Other"


def test_an_attempt_that_failed_before_its_first_event_is_still_an_attempt() -> None:
    found = run(history=None, instruction="Fix it.", error="Could not build the image")
    assert (found.n_steps, found.steps[0].text) == (1, "Fix it.")
    assert (found.status, found.goal) == ("error", "Fix it.")


def test_times_span_the_events() -> None:
    found = run(history=[message(), ran(35)])
    assert found.duration_s == 30.0
    assert found.started_at is not None
    assert found.started_at.isoformat() == "2025-01-02T03:04:05+00:00"


def test_without_times_the_evaluation_run_tells_attempts_apart() -> None:
    history = [message(at=None)]
    first, again = (
        run(history=history, metadata={"eval_output_dir": f"run_{n}", "start_time": "t"})
        for n in (1, 2)
    )
    assert first.trajectory_id != again.trajectory_id
    assert first.started_at is None


def test_resolver_runs_of_two_issues_differ() -> None:
    other = {**resolver()["issue"], "number": 4}
    bare = [message(at=None)]
    first = from_output(resolver(history=bare), "x")
    second = from_output(resolver(history=bare, issue=other), "x")
    assert (first.task_id, second.task_id) == ("github/o/r/3", "github/o/r/4")
    assert first.trajectory_id != second.trajectory_id


def sdk_event(kind: str, number: int, **more: Any) -> dict[str, Any]:
    stamp = f"2026-01-02T03:04:{number:02}"
    return {"id": f"e{number}", "timestamp": stamp, "source": "agent", "kind": kind, **more}


def test_histories_of_the_v1_benchmarks_are_read() -> None:
    said = {"role": "user", "content": [{"type": "text", "text": "Fix it."}]}
    asked = {**sdk_event("MessageEvent", 1, llm_message=said), "source": "user"}
    call = {"id": "c1", "name": "terminal", "arguments": "{}"}
    acted = sdk_event(
        "ActionEvent", 2, thought=[], action={}, tool_call=call, tool_call_id="c1", tool_name="t"
    )
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "cache_read_tokens": 0}
    found = run(
        attempt=2,
        history=[asked, acted],
        metadata={"llm": {"model": "m", "temperature": 1.0}},
        metrics={"accumulated_token_usage": usage},
        test_result={"report": {"resolved": True}},
    )
    assert [s.actor for s in found.steps] == ["user", "agent"]
    assert (found.source, found.attempt, found.model) == ("openhands", 2, "m")
    assert (found.prompt_tokens, found.success) == (7, True)
    assert found.steps[1].sampling == '{"temperature":1.0}'


@pytest.mark.parametrize(
    "value",
    [
        line(),
        line(history=None),
        line(history=[[message(), ran(2)]]),
        resolver(),
    ],
)
def test_lines_of_outputs_are_known(value: Any) -> None:
    assert is_output(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {"history": []},
        {"instance_id": "x", "test_result": {}},
        line(history="text"),
        line(history=[{"role": "user", "content": "x"}]),
        {"issue": "text", "git_patch": "", "history": []},
    ],
)
def test_other_values_are_no_outputs(value: Any) -> None:
    assert not is_output(value)
