from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from trajstore.rollouts import (
    PROFILES,
    CalculatorEnvironment,
    Fault,
    Limits,
    Profile,
    ScriptedPolicy,
    calculator_tasks,
    run_rollouts,
)
from trajstore.schema import Step, Trajectory

TASKS = calculator_tasks(60, seed=11)


def roll(fault: Fault | None = None, **options: Any) -> list[Trajectory]:
    faults: dict[Fault, float] = {} if fault is None else {fault: 1.0}
    policy = ScriptedPolicy(Profile(name="test", faults=faults))
    return list(run_rollouts(CalculatorEnvironment, policy, TASKS, **options))


def own(trajectory: Trajectory) -> list[Step]:
    return [s for s in trajectory.steps if s.actor == "agent"]


def called(trajectory: Trajectory) -> list[str]:
    return [c.name for s in own(trajectory) for c in s.tool_calls]


def faults_of(trajectory: Trajectory) -> set[str]:
    return {json.loads(s.metadata)["fault"] for s in own(trajectory) if s.metadata}


def test_without_faults_every_task_is_solved_with_its_tools() -> None:
    for trajectory in roll():
        assert trajectory.success is True, trajectory.goal
        assert called(trajectory)[-2:] == ["calculate", "finish"]
        assert ("search" in called(trajectory)) == ("two-hop" in trajectory.task_id)
        assert trajectory.n_tool_errors == trajectory.n_format_errors == 0


def test_what_is_handed_in_is_what_the_calculator_said() -> None:
    for trajectory in roll():
        *_, calculation, end = own(trajectory)
        said = calculation.observations[0].text
        assert json.loads(str(end.tool_calls[0].arguments)) == {"answer": said}


def test_wrong_precedence_fails_exactly_where_brackets_matter() -> None:
    for trajectory in roll("wrong-precedence"):
        bracketed = faults_of(trajectory) == {"wrong-precedence"}
        assert trajectory.success is not bracketed
        assert not any("(" in str(c.arguments) for s in own(trajectory) for c in s.tool_calls)


def test_malformed_arguments_are_a_format_error_and_the_agent_recovers() -> None:
    for trajectory in roll("malformed-arguments"):
        broken = [s for s in own(trajectory) if s.format_error]
        assert [s.tool_calls[0].arguments for s in broken] == [None]
        assert "not valid JSON" in str(broken[0].observations[0].text)
        assert trajectory.n_format_errors == trajectory.n_tool_errors == 1
        assert trajectory.success is True


def test_a_repeated_call_goes_on_until_the_limit() -> None:
    for trajectory in roll("repeated-call", limits=Limits(max_steps=6)):
        calls = [s.tool_calls[0] for s in own(trajectory)]
        assert len(calls) == 6
        assert len({(c.name, c.arguments) for c in calls}) == 1
        assert (trajectory.status, trajectory.termination_reason) == ("truncated", "step limit")
        assert (trajectory.success, trajectory.reward) == (False, 0.0)


def test_giving_up_is_an_answer_that_is_none() -> None:
    for trajectory in roll("gives-up"):
        assert json.loads(str(own(trajectory)[-1].tool_calls[0].arguments)) == {
            "answer": "I do not know"
        }
        assert len(called(trajectory)) == 2
        assert trajectory.success is False


def test_without_tools_the_agent_talks_and_then_guesses() -> None:
    solved = 0
    for trajectory in roll("no-tools"):
        talk, guess = own(trajectory)
        assert talk.tool_calls == ()
        assert talk.observations[0].call_id is None
        assert called(trajectory) == ["finish"]
        assert guess.reward == float(bool(trajectory.success))
        solved += bool(trajectory.success)
    assert solved <= 1  # by luck


def test_an_unknown_tool_is_an_error_of_the_tool_and_not_of_the_format() -> None:
    for trajectory in roll("unknown-tool"):
        first = own(trajectory)[0]
        assert first.tool_calls[0].name == "web_search"
        assert "there is no tool 'web_search'" in str(first.observations[0].text)
        assert (trajectory.n_tool_errors, trajectory.n_format_errors) == (1, 0)
        assert trajectory.success is True


def test_mental_arithmetic_is_off_by_one_and_calls_no_calculator() -> None:
    answers = {task.task_id: task.answer for task in TASKS}
    for trajectory in roll("mental-arithmetic"):
        given = json.loads(str(own(trajectory)[-1].tool_calls[0].arguments))["answer"]
        off = float(given) - float(str(answers[trajectory.task_id]))
        assert abs(off) == pytest.approx(1)
        assert "calculate" not in called(trajectory)
        assert trajectory.success is False


def test_redundant_calls_are_right_and_take_longer() -> None:
    plain = {t.task_id: t for t in roll()}
    for trajectory in roll("redundant-calls"):
        assert trajectory.success is True
        work = plain[trajectory.task_id].n_tool_calls - 1
        assert trajectory.n_tool_calls == 2 * work + 1


def test_careful_beats_hasty_and_thorough_is_slower_than_careful() -> None:
    policies = [ScriptedPolicy(name) for name in PROFILES]
    runs = list(run_rollouts(CalculatorEnvironment, policies, TASKS, attempts=4))
    wins = Counter(t.policy_version for t in runs if t.success)
    assert wins["careful"] == wins["thorough"] == 240
    assert 60 < wins["hasty"] < 180
    assert 120 < wins["clumsy"] < 230
    assert 120 < wins["stubborn"] < 230
    lengths: Counter[str | None] = Counter()
    for run in runs:
        lengths[run.policy_version] += run.n_agent_steps
    assert lengths["thorough"] > 1.4 * lengths["careful"]


def test_attempts_at_one_task_differ_in_outcome() -> None:
    by_task: dict[str, set[bool | None]] = {}
    for run in run_rollouts(CalculatorEnvironment, ScriptedPolicy("hasty"), TASKS, attempts=6):
        by_task.setdefault(run.task_id, set()).add(run.success)
    mixed = sum(outcomes == {True, False} for outcomes in by_task.values())
    assert mixed > len(by_task) / 2


def test_faults_are_drawn_by_seed_with_about_their_probability() -> None:
    profile = Profile(name="x", faults={"gives-up": 0.25, "no-tools": 0.5})
    draws = [profile.draw(seed) for seed in range(2000)]
    assert draws == [profile.draw(seed) for seed in range(2000)]
    assert 400 < sum("gives-up" in d for d in draws) < 600
    assert 900 < sum("no-tools" in d for d in draws) < 1100


def test_a_policy_goes_on_from_any_prefix_as_it_did_before() -> None:
    policy = ScriptedPolicy("clumsy")
    environment = CalculatorEnvironment()
    messages: list[dict[str, Any]] = [{"role": "user", "content": environment.reset(TASKS[1]).text}]
    actions = []
    for _ in range(4):
        action = policy.act(messages, environment.tools, seed=5).action
        actions.append(action)
        assert ScriptedPolicy("clumsy").act(tuple(messages), (), seed=5).action == action
        result = environment.step(action).observation.results[0]
        messages += [
            {"role": "assistant", "content": action.text},
            {"role": "tool", "tool_call_id": result.call_id, "content": result.text},
        ]
    assert len({a.tool_calls[0].call_id for a in actions}) == 4


NOTHING = "No document has anything on it."
HEIGHTS = "How many metres higher is K2 than Lhotse?"


def after(goal: str, *replies: str, profile: str = "none") -> tuple[str | None, str, Any]:
    """What the agent says and calls once the environment has given these answers."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": goal}]
    for reply in replies:
        messages += [{"role": "assistant", "content": "..."}, {"role": "tool", "content": reply}]
    action = ScriptedPolicy(Profile(name=profile)).act(messages, (), seed=1).action
    (call,) = action.tool_calls
    return action.text, call.name, json.loads(str(call.arguments))


def test_a_fact_that_was_not_found_is_searched_for_in_other_words() -> None:
    assert after(HEIGHTS)[1:] == ("search", {"query": "height of K2"})
    assert after(HEIGHTS, NOTHING) == ("Not there. I search for 'K2'.", "search", {"query": "K2"})


def test_a_fact_that_is_nowhere_ends_the_attempt_without_an_answer() -> None:
    assert after(HEIGHTS, NOTHING, NOTHING)[1:] == ("finish", {"answer": "I do not know"})


def test_the_agent_believes_what_the_environment_says() -> None:
    first, second = "[K2] K2 is 5 metres high.", "[Lhotse] Lhotse is 3 metres high."
    assert after(HEIGHTS, first)[1:] == ("search", {"query": "height of Lhotse"})
    assert after(HEIGHTS, first, second)[1:] == ("calculate", {"expression": "5 - 3"})
    assert after(HEIGHTS, first, second, "17")[1:] == ("finish", {"answer": "17"})


def test_thoughts_name_what_is_known_and_what_is_missing() -> None:
    messages = [{"role": "user", "content": HEIGHTS}]
    action = ScriptedPolicy(Profile(name="none")).act(messages, (), seed=1).action
    assert action.text == "I need one more fact, so I search for 'height of K2'."
    assert action.reasoning == "Still to find: height of K2. To go by: the question."


def test_a_question_that_is_not_understood_is_given_up() -> None:
    response = ScriptedPolicy().act([{"role": "user", "content": "Why?"}], (), seed=1)
    assert json.loads(str(response.action.tool_calls[0].arguments)) == {"answer": "I do not know"}


def test_after_its_end_the_script_has_nothing_to_add() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Why?"}]
    messages += [{"role": "assistant", "content": "x"}, {"role": "tool", "content": "done"}]
    action = ScriptedPolicy().act(messages, (), seed=1).action
    assert (action.text, action.tool_calls) == ("I have nothing to add.", ())


def test_an_unknown_profile_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no profile 'lazy'; known are careful, hasty, clumsy"):
        ScriptedPolicy("lazy")
