from __future__ import annotations

import pytest

from trajstore.rollouts import Action, Policy, Response, ScriptedPolicy, Usage


def test_nothing_about_a_model_call_is_known_by_default() -> None:
    response = Response(action=Action(text="hi"))
    assert response.usage == Usage(
        prompt_tokens=None, completion_tokens=None, cached_tokens=None, cost_usd=None
    )
    assert (response.model, response.sampling, response.logprobs) == (None, None, None)
    assert response.prompt_token_ids is response.completion_token_ids is None
    assert response.format_error is False
    assert response.metadata == {}


def test_responses_are_values() -> None:
    assert Response(action=Action(text="hi")) == Response(action=Action(text="hi"))
    with pytest.raises(AttributeError):
        Response(action=Action()).model = "x"  # type: ignore[misc]


def test_an_action_is_empty_by_default() -> None:
    action = Action()
    assert (action.text, action.reasoning, action.tool_calls) == (None, None, ())


def test_the_scripted_policy_is_a_policy() -> None:
    policy: Policy = ScriptedPolicy("hasty")
    assert (policy.agent, policy.model, policy.version) == ("scripted", None, "hasty")
