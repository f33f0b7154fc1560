from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from trajstore.rollouts import (
    Action,
    CalculatorEnvironment,
    Limits,
    Observed,
    Outcome,
    Response,
    ScriptedPolicy,
    Task,
    Transition,
    Usage,
    run_rollouts,
)
from trajstore.schema import Observation, ToolCall, Trajectory, now

TASK = Task(
    task_id="calculator/t/1",
    goal="A shop sells 3 red and 5 blue shirts at 9 euros each.",
    answer="72",
    metadata={"kind": "test"},
)
FINISH = Action(text="Done.", tool_calls=(ToolCall.of("finish", {"answer": "72"}, "c1"),))


class Actor:
    """A policy that does what it is told, response by response, and keeps what it saw."""

    agent, model, version = "actor", "model-1", "7"

    def __init__(self, *responses: Response | Exception) -> None:
        self.responses = list(responses)
        self.seen: list[Any] = []

    def act(self, messages: Any, tools: Any, *, seed: int) -> Response:
        self.seen.append((messages, tools, seed))
        response = self.responses.pop(0)
        if isinstance(response, Exception):
            raise response
        return response


def only(
    environment: Callable[[], Any], policy: Any, *, task: Task = TASK, **limits: Any
) -> Trajectory:
    (run,) = run_rollouts(environment, policy, [task], limits=Limits(**limits))
    return run


def call(name: str, raw: str | None) -> Response:
    return Response(action=Action(tool_calls=(ToolCall.of(name, raw, "c0"),)))


def test_an_attempt_says_who_did_what_where() -> None:
    run = only(CalculatorEnvironment, ScriptedPolicy("careful"))
    assert (run.source, run.environment, run.environment_version) == ("rollout", "calculator", "1")
    assert (run.agent, run.model, run.policy_version) == ("scripted", None, "careful")
    assert (run.task_id, run.goal, run.attempt) == (TASK.task_id, TASK.goal, 0)
    assert (run.status, run.termination_reason) == ("terminated", "environment")
    assert (run.success, run.reward) == (True, 1.0)
    assert run.rewards == {"correct": 1.0, "answered": 1.0}
    assert json.loads(str(run.tools)) == list(CalculatorEnvironment().tools)
    assert json.loads(str(run.metadata))["task"] == {"kind": "test"}


def test_steps_are_the_conversation() -> None:
    run = only(CalculatorEnvironment, ScriptedPolicy("careful"))
    system, user, work, end = run.steps
    assert (system.actor, system.text) == ("system", CalculatorEnvironment.system_prompt)
    assert (user.actor, user.text) == ("user", TASK.goal)
    assert work.tool_calls[0].arguments == '{"expression":"(3 + 5) * 9"}'
    assert work.observations == (Observation(call_id="call_0", text="72", is_error=False),)
    assert (work.reward, end.reward) == (0.0, 1.0)
    assert (run.n_steps, run.n_agent_steps, run.n_tool_calls) == (4, 2, 2)


def test_the_clock_is_real_and_not_in_the_id() -> None:
    before = now()
    run = only(CalculatorEnvironment, ScriptedPolicy("careful"))
    assert run.started_at is not None
    assert run.ended_at is not None
    assert before <= run.started_at <= run.ended_at <= now() + timedelta(milliseconds=1)
    assert run.duration_s == pytest.approx(
        (run.ended_at - run.started_at).total_seconds(), abs=1e-5
    )
    agent = [s for s in run.steps if s.actor == "agent"]
    assert sum(s.latency_s or 0 for s in agent) <= float(run.duration_s or 0)
    assert run.started_at <= agent[0].timestamp <= agent[1].timestamp <= run.ended_at  # type: ignore[operator]
    assert run.trajectory_id.startswith("00000000-0000-8")


def test_the_policy_gets_the_conversation_the_tools_and_one_seed() -> None:
    thought = Action(text="Hm.", reasoning="I wonder.")
    actor = Actor(
        Response(action=thought),
        call("calculate", '{"expression": "8*9"}'),
        Response(action=FINISH),
    )
    assert only(CalculatorEnvironment, actor).success is True
    (first, tools, seed), (second, _, seed_2), (third, _, seed_3) = actor.seen
    assert [m["role"] for m in first] == ["system", "user"]
    assert list(tools) == list(CalculatorEnvironment().tools)
    assert seed == seed_2 == seed_3
    assert second[2] == {"role": "assistant", "content": "Hm.", "reasoning_content": "I wonder."}
    assert second[3]["role"] == "user"
    function = {"name": "calculate", "arguments": '{"expression": "8*9"}'}
    assert third[4]["tool_calls"] == [{"id": "c0", "type": "function", "function": function}]
    assert third[5] == {"role": "tool", "tool_call_id": "c0", "content": "72"}


def test_what_the_model_call_cost_and_sampled_is_kept() -> None:
    usage = Usage(prompt_tokens=10, completion_tokens=4, cached_tokens=6, cost_usd=0.25)
    response = Response(
        action=Action(text="Hm."),
        usage=usage,
        prompt_token_ids=(1, 2),
        completion_token_ids=(3,),
        logprobs=(-0.5,),
        sampling={"temperature": 0.7},
        metadata={"note": "x"},
    )
    run = only(CalculatorEnvironment, Actor(response, response, Response(action=FINISH)))
    step = run.steps[2]
    assert (step.prompt_token_ids, step.completion_token_ids, step.logprobs) == (
        (1, 2),
        (3,),
        (-0.5,),
    )
    assert (step.sampling, step.metadata, step.model) == (
        '{"temperature":0.7}',
        '{"note":"x"}',
        "model-1",
    )
    assert (run.prompt_tokens, run.completion_tokens, run.cached_tokens) == (20, 8, 12)
    assert run.cost_usd == pytest.approx(0.5)


def test_unknown_costs_stay_unknown() -> None:
    run = only(CalculatorEnvironment, ScriptedPolicy("careful"))
    assert (run.prompt_tokens, run.completion_tokens, run.cost_usd) == (None, None, None)


@pytest.mark.parametrize(
    ("raw", "is_error"),
    [
        ('{"expression": "1"', True),
        ("[1]", True),
        ("", True),
        ('{"expression": "1"}', False),
        ('{"expr": 1}', False),
        (None, False),
    ],
)
def test_arguments_that_are_no_json_object_are_a_format_error(
    raw: str | None, *, is_error: bool
) -> None:
    run = only(CalculatorEnvironment, Actor(call("calculate", raw), Response(action=FINISH)))
    assert run.steps[2].format_error is is_error
    assert run.n_format_errors == int(is_error)


def test_a_policy_can_say_that_its_output_did_not_parse() -> None:
    broken = Response(action=Action(text="<tool_call>{"), format_error=True)
    run = only(CalculatorEnvironment, Actor(broken, Response(action=FINISH)))
    assert [s.format_error for s in run.steps] == [False, False, True, False]


def test_a_remark_of_the_environment_is_an_observation_without_a_call() -> None:
    run = only(
        CalculatorEnvironment, Actor(Response(action=Action(text="72.")), Response(action=FINISH))
    )
    (remark,) = run.steps[2].observations
    assert remark.call_id is None
    assert str(remark.text).startswith("No tool was called.")


def test_the_state_stands_with_the_step_that_could_see_it() -> None:
    class Desk(CalculatorEnvironment):
        def reset(self, task: Task) -> Observed:
            super().reset(task)
            return Observed(state={"open": "a.txt"})

        def step(self, action: Action) -> Transition:
            done = super().step(action)
            seen = Observed(results=done.observation.results, state={"open": "b.txt"})
            return Transition(observation=seen, terminated=done.terminated, info={"cpu": 1})

    run = only(Desk, Actor(call("calculate", '{"expression": "1"}'), Response(action=FINISH)))
    assert [s.state for s in run.steps[1:]] == [None, '{"open":"a.txt"}', '{"open":"b.txt"}']
    assert [s.metadata for s in run.steps[2:]] == ['{"cpu":1}'] * 2
    assert run.steps[1].text == TASK.goal  # an observation without text shows the goal


def test_the_step_limit_truncates_and_the_evaluator_is_still_asked() -> None:
    run = only(
        CalculatorEnvironment, Actor(*[Response(action=Action(text="Hm."))] * 3), max_steps=3
    )
    assert (run.status, run.termination_reason) == ("truncated", "step limit")
    assert (run.success, run.reward, run.n_agent_steps) == (False, 0.0, 3)


def test_an_environment_may_truncate_by_itself() -> None:
    class Short(CalculatorEnvironment):
        def step(self, action: Action) -> Transition:
            del action
            return Transition(truncated=True)

    run = only(Short, ScriptedPolicy())
    assert (run.status, run.termination_reason) == ("truncated", "environment")


def failing(part: str, error: BaseException) -> type[CalculatorEnvironment]:
    def fail(*_: Any) -> Any:
        raise error

    return type("Failing", (CalculatorEnvironment,), {part: fail})


@pytest.mark.parametrize(("part", "n_steps"), [("reset", 0), ("step", 3), ("outcome", 3)])
def test_a_crash_of_the_environment_is_recorded_with_what_was_done_before(
    part: str, n_steps: int
) -> None:
    talk = Actor(Response(action=Action(text="Hm.")))
    run = only(failing(part, RuntimeError("no disk")), talk, max_steps=1)
    assert run.status == "error"
    assert run.error == f"environment.{part}: RuntimeError: no disk"
    assert run.termination_reason == f"environment.{part} failed"
    assert (run.success, run.reward, run.n_steps) == (None, None, n_steps)


def test_a_crash_of_the_policy_is_recorded() -> None:
    run = only(CalculatorEnvironment, Actor(Response(action=Action(text="Hm.")), OSError("down")))
    assert (run.status, run.error) == ("error", "policy.act: OSError: down")
    assert (run.success, run.n_agent_steps) == (None, 1)


@pytest.mark.parametrize("error", [SystemExit(3), KeyError("x")])
def test_code_that_exits_ends_its_own_attempt_only(error: BaseException) -> None:
    run = only(failing("step", error), ScriptedPolicy())
    assert run.status == "error"
    assert type(error).__name__ in str(run.error)


def test_a_policy_that_returns_nonsense_is_an_error_of_the_policy() -> None:
    run = only(CalculatorEnvironment, Actor("finish"))  # type: ignore[arg-type]
    assert run.status == "error"
    assert str(run.error).startswith("policy.act: AttributeError")


def test_an_environment_that_returns_nonsense_is_an_error_of_the_environment() -> None:
    class Mute(CalculatorEnvironment):
        def step(self, action: Action) -> Transition:
            del action
            return None  # type: ignore[return-value]

    run = only(Mute, ScriptedPolicy())
    assert str(run.error).startswith("environment.step: AttributeError")


def test_an_environment_that_cannot_be_made_for_one_attempt_is_an_error_of_that_attempt() -> None:
    made = iter([CalculatorEnvironment(), None, CalculatorEnvironment()])

    def make() -> CalculatorEnvironment:
        environment = next(made)
        if environment is None:
            raise OSError("no room")
        return environment

    runs = run_rollouts(make, ScriptedPolicy(), [TASK], attempts=2, limits=Limits(concurrency=1))
    first, second = sorted(runs, key=lambda t: t.attempt or 0)
    assert first.error == "environment could not be made: OSError: no room"
    assert (first.status, first.n_steps, second.success) == ("error", 0, True)


def test_a_failing_close_costs_nothing_and_is_noted() -> None:
    made = iter([CalculatorEnvironment(), failing("close", OSError("busy"))()])
    run = only(made.__next__, ScriptedPolicy())
    assert (run.status, run.success, run.error) == ("terminated", True, None)
    assert json.loads(str(run.metadata))["close_error"] == "environment.close: OSError: busy"


def test_a_retry_starts_again_under_the_same_id() -> None:
    def policy() -> Actor:
        return Actor(Response(action=Action(text="Hm.")), OSError("down"), Response(action=FINISH))

    failed = only(CalculatorEnvironment, policy())
    retried = only(CalculatorEnvironment, policy(), retries=1, backoff_s=0.01)
    assert (failed.status, retried.status, retried.success) == ("error", "terminated", True)
    assert (retried.n_agent_steps, json.loads(str(retried.metadata))["retries"]) == (1, 1)
    assert retried.trajectory_id == failed.trajectory_id


def test_retries_end() -> None:
    run = only(failing("reset", OSError("x")), ScriptedPolicy(), retries=2, backoff_s=0.01)
    assert (run.status, json.loads(str(run.metadata))["retries"]) == ("error", 2)


def test_an_evaluator_that_cannot_say_leaves_the_outcome_unknown() -> None:
    class Unsure(CalculatorEnvironment):
        def outcome(self) -> Outcome:
            return Outcome(reward=0.3)

    run = only(Unsure, ScriptedPolicy())
    assert (run.success, run.reward, run.rewards) == (None, 0.3, {})


def test_the_pause_before_a_retry_doubles_and_is_bounded() -> None:
    limits = Limits(backoff_s=1.0)
    pauses = [limits.pause_s(retry, seed=0) for retry in (1, 2, 3, 10, 1000)]
    assert pauses == [1.0, 2.0, 4.0, 60.0, 60.0]
    assert 0.75 < limits.pause_s(1, seed=1023) < 0.76


def test_a_retry_waits_and_none_begins_that_would_end_too_late() -> None:
    def timed(**limits: Any) -> tuple[float, int]:
        clock = time.monotonic()
        run = only(failing("reset", OSError("x")), ScriptedPolicy(), retries=2, **limits)
        return time.monotonic() - clock, json.loads(str(run.metadata)).get("retries", 0)

    waited_s, retries = timed(backoff_s=0.1)
    assert retries == 2
    assert waited_s > 0.75 * (0.1 + 0.2)
    assert timed(backoff_s=30.0, timeout_s=5.0)[1] == 0


def test_a_run_keeps_the_version_that_it_began_under_and_names_all_that_sampled() -> None:
    class Learner(Actor):
        """Gets new weights between its two steps."""

        def act(self, messages: Any, tools: Any, *, seed: int) -> Response:
            said = super().act(messages, tools, seed=seed)
            self.version = "8"
            return said

    policy = Learner(
        Response(action=Action(text="Hm."), metadata={"policy_version": "7"}),
        Response(action=FINISH, metadata={"policy_version": "8"}),
    )
    run = only(CalculatorEnvironment, policy)
    assert run.policy_version == "7"
    assert json.loads(str(run.metadata))["policy_versions"] == ["7", "8"]
    sampled_by = [json.loads(str(s.metadata))["policy_version"] for s in run.steps[2:]]
    assert sampled_by == ["7", "8"]


def test_versions_are_not_named_twice_where_there_is_but_one() -> None:
    policy = Actor(Response(action=FINISH, metadata={"policy_version": "7"}))
    assert "policy_versions" not in json.loads(str(only(CalculatorEnvironment, policy).metadata))


def test_a_policy_sees_the_tokens_of_its_own_earlier_turns() -> None:
    known = Response(
        action=Action(text="Let me see."),
        prompt_token_ids=(1, 2),
        completion_token_ids=(3,),
    )
    policy = Actor(known, Response(action=Action(text="Hm.")), Response(action=FINISH))
    only(CalculatorEnvironment, policy)
    (first, second) = (m for m in policy.seen[-1][0] if m["role"] == "assistant")
    assert (first["prompt_token_ids"], first["completion_token_ids"]) == ((1, 2), (3,))
    assert "prompt_token_ids" not in second
