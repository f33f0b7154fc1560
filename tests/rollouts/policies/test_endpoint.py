from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from tests.pipeline.chat_server import Reply, Request, chat_server, in_turn, silence
from tests.rollouts.policies.model_server import by_path, completion, models, tool_call
from trajstore.errors import EndpointError
from trajstore.rollouts import (
    CalculatorEnvironment,
    EndpointPolicy,
    Limits,
    Prices,
    Response,
    Task,
    Usage,
    run_rollouts,
)

TASK = Task(task_id="t/1", goal="What is 6 * 7?", answer="42")
ASKED = [{"role": "user", "content": "6 * 7?"}]
TOOLS = CalculatorEnvironment().tools
CHAT = "/v1/chat/completions"


def policy(url: str, **changes: Any) -> EndpointPolicy:
    usual: dict[str, Any] = {"model": "m-1", "backoff_s": 0.01, "timeout_s": 30.0}
    return EndpointPolicy(base_url=url, **(usual | changes))


def said(
    *replies: Reply, messages: Any = ASKED, tools: Any = (), **changes: Any
) -> tuple[Response, Request]:
    with chat_server(in_turn(*replies)) as server:
        response = policy(server.url, **changes).act(messages, tools, seed=5)
        return response, server.requests[-1]


def test_text_reasoning_and_calls_are_one_action() -> None:
    call = tool_call("calculate", '{"expression": "6*7"}')
    message = {"content": "Hm.", "reasoning_content": "A product.", "tool_calls": [call]}
    response, _ = said(completion(message))
    action = response.action
    assert (action.text, action.reasoning) == ("Hm.", "A product.")
    (made,) = action.tool_calls
    assert (made.name, made.arguments, made.call_id) == (
        "calculate",
        '{"expression":"6*7"}',
        "c1",
    )


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": None, "refusal": "No."}, "No."),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab"),
        ({"content": None, "tool_calls": None}, None),
    ],
)
def test_text_is_found_where_servers_put_it(message: dict[str, Any], text: str | None) -> None:
    assert said(completion(message))[0].action.text == text


def test_reasoning_is_read_under_its_newer_name() -> None:
    assert said(completion({"content": "a", "reasoning": "b"}))[0].action.reasoning == "b"


def test_the_request_holds_conversation_tools_sampling_and_key() -> None:
    _, request = said(completion({"content": "a"}), tools=TOOLS, api_key="k-1", max_tokens=7)
    assert request.path == CHAT
    assert request.headers["Authorization"] == "Bearer k-1"
    assert request.body.pop("seed") < 2**31
    assert request.body == {
        "model": "m-1",
        "messages": ASKED,
        "tools": list(TOOLS),
        "temperature": 1.0,
        "max_tokens": 7,
    }


def test_a_turn_is_drawn_with_a_seed_of_its_own_and_the_same_one_again() -> None:
    longer = [*ASKED, {"role": "assistant", "content": "a"}, *ASKED]
    seeds = [
        said(completion({"content": "a"}), messages=m)[1].body["seed"]
        for m in (ASKED, longer, ASKED)
    ]
    assert seeds[0] == seeds[2] != seeds[1]


def test_tokens_and_reasoning_of_earlier_turns_stay_here() -> None:
    turn = {"role": "assistant", "content": None, "reasoning_content": "r"}
    turn |= {"prompt_token_ids": (1,), "completion_token_ids": (2,)}
    messages = [*ASKED, turn]
    _, bare = said(completion({"content": "a"}), messages=messages)
    _, kept = said(completion({"content": "a"}), messages=messages, keep_reasoning=True)
    assert bare.body["messages"][1] == {"role": "assistant", "content": ""}
    assert kept.body["messages"][1]["reasoning_content"] == "r"


def test_ids_of_calls_are_made_where_missing_and_changed_where_taken() -> None:
    calls = [tool_call("search", "{}", None), tool_call("search", "{}", "c1")]
    earlier = {"role": "assistant", "content": None, "tool_calls": [tool_call("search", "{}")]}
    response, _ = said(
        completion({"content": None, "tool_calls": calls}), messages=[*ASKED, earlier]
    )
    assert [c.call_id for c in response.action.tool_calls] == ["call_1", "call_2"]


def test_tokens_and_logprobs_are_kept_where_asked_for() -> None:
    content = [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -0.25}]
    choice = {"token_ids": [7, 8], "logprobs": {"content": content}}
    reply = completion({"content": "ab"}, choice=choice, prompt_token_ids=[1, 2, 3])
    response, request = said(reply, token_ids=True)
    assert response.prompt_token_ids == (1, 2, 3)
    assert response.completion_token_ids == (7, 8)
    assert response.logprobs == (-0.5, -0.25)
    assert request.body["return_token_ids"] is True
    assert request.body["logprobs"] is True
    assert response.sampling is not None
    assert response.sampling["logprobs_mode"] == "raw_logprobs"


def test_a_server_that_tells_no_tokens_is_named_at_once() -> None:
    with (
        chat_server(in_turn(completion({"content": "a"}))) as server,
        pytest.raises(EndpointError, match=r"failed at once: .*holds no token ids"),
    ):
        policy(server.url, token_ids=True).act(ASKED, (), seed=0)


def test_tokens_without_as_many_logprobs_are_refused() -> None:
    choice = {"token_ids": [7, 8], "logprobs": {"content": [{"logprob": -0.5}]}}
    reply = completion({"content": "ab"}, choice=choice, prompt_token_ids=[1])
    with (
        chat_server(in_turn(reply)) as server,
        pytest.raises(EndpointError, match="2 tokens and 1 log-probabilities"),
    ):
        policy(server.url, token_ids=True, retries=0).act(ASKED, (), seed=0)


def test_cost_is_the_servers_own_or_from_prices_with_cached_tokens_apart() -> None:
    """60 of 100 tokens at 2 dollars a million, 40 at 0.5, 10 written at 8: 0.00022."""
    prices = Prices(prompt=2.0, cached=0.5, completion=8.0)
    asked = {"content": "a"}
    assert said(completion(asked))[0].usage == Usage(
        prompt_tokens=100, completion_tokens=10, cached_tokens=40
    )
    assert said(completion(asked), prices=prices)[0].usage.cost_usd == pytest.approx(0.00022)
    told = completion(asked, usage={"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.5})
    assert said(told, prices=prices)[0].usage.cost_usd == 0.5


def test_what_passes_is_tried_again_and_what_does_not_is_said_with_advice() -> None:
    busy = Reply(status=429, body=b"slow down")
    assert said(busy, Reply(hang_up=True), completion({"content": "a"}))[0].action.text == "a"
    with (
        chat_server(in_turn(Reply(status=401, body=b"who are you"))) as server,
        pytest.raises(EndpointError, match="who are you; give the right API key"),
    ):
        policy(server.url).act(ASKED, (), seed=0)
    assert len(server.requests) == 1


VLLM_SAYS = "This model's maximum context length is 512 tokens. However, you requested 600."
OPENAI_SAYS = "Your input exceeds the context window of this model."


@pytest.mark.parametrize("said_of_it", [VLLM_SAYS, OPENAI_SAYS])
def test_a_conversation_that_is_too_long_ends_truncated_and_is_judged(said_of_it: str) -> None:
    full = Reply(status=400, body=json.dumps({"error": {"message": said_of_it}}).encode())
    call = tool_call("calculate", '{"expression": "6*7"}')
    first = completion({"content": "", "tool_calls": [call]})
    with chat_server(in_turn(first, full)) as server:
        (run,) = run_rollouts(CalculatorEnvironment, policy(server.url), [TASK])
    assert (run.status, run.termination_reason) == ("truncated", "context full")
    assert (run.success, run.n_tool_calls, run.error) == (False, 1, None)
    assert said_of_it in (run.metadata or "")


def test_no_answer_in_time_is_an_error_that_says_so() -> None:
    with (
        silence() as answer,
        chat_server(answer) as server,
        pytest.raises(EndpointError, match="after 2 tries: no answer within"),
    ):
        policy(server.url, timeout_s=0.1, retries=1).act(ASKED, (), seed=0)


@pytest.mark.parametrize("bad", [{"base_url": "localhost:8000"}, {"model": ""}])
def test_what_cannot_be_an_endpoint_is_refused_before_anything_is_sent(bad: Any) -> None:
    given = {"base_url": "http://localhost:1/v1", "model": "m", **bad}
    with pytest.raises(EndpointError, match=r"must be a URL|needs the name of a model"):
        EndpointPolicy(**given)


def test_the_check_says_which_models_there_are() -> None:
    with chat_server(by_path({"/v1/models": models("m-1", "m-2")})) as server:
        policy(server.url).check()
        with pytest.raises(EndpointError, match="no model 'm-3'; those it serves: m-1, m-2"):
            policy(server.url, model="m-3").check()


def test_attempts_are_solved_over_http_and_keep_what_is_known() -> None:
    """The server finishes with the right number; the first five requests are refused.

    It answers all others, one an attempt, once all of them are there.
    """
    all_there = threading.Barrier(20, timeout=60)

    def answer(request: Request) -> Reply:
        if request.number < 5:
            return Reply(status=503)
        call = tool_call("finish", json.dumps({"answer": "42"}))
        all_there.wait()
        return completion({"content": None, "tool_calls": [call]})

    tasks = [Task(task_id=f"t/{n}", goal=TASK.goal, answer="42") for n in range(20)]
    with chat_server(answer) as server:
        asked = policy(server.url, version="7")
        limits = Limits(concurrency=20)
        runs = list(run_rollouts(CalculatorEnvironment, asked, tasks, limits=limits))
    assert [run.success for run in runs] == [True] * 20
    assert server.most_at_once == 20
    assert len(server.requests) == 25
    step = runs[0].steps[-1]
    assert (runs[0].model, step.model, runs[0].policy_version) == ("m-1", "m-1-2026", "7")
    metadata = json.loads(str(step.metadata))
    assert (metadata["finish_reason"], metadata["policy_version"]) == ("stop", "7")


def test_the_key_is_in_no_message_and_no_trajectory() -> None:
    with chat_server(in_turn(Reply(status=400, body=b"bad key sk-secret"))) as server:
        asked = policy(server.url, api_key="sk-secret")
        (run,) = run_rollouts(CalculatorEnvironment, asked, [TASK])
    assert run.status == "error"
    assert "sk-secret" not in repr(run) + repr(asked)
