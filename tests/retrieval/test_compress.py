"""A long run stays inside the window of a model, and no call loses its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajstore.errors import RetrievalError
from trajstore.retrieval import Compressed, ContextBudget, compress_context

Chat = list[dict[str, Any]]

SMALL = ContextBudget(system=60, conversation=150, history=2400, observation=500, reserve=100)


def step(number: int, size: int = 40, *, calls: int = 1, said: str | None = None) -> Chat:
    """A message of the agent with calls, a result for each, and words of the user."""
    names = [f"c{number}-{n}" for n in range(calls)]
    call = [
        {"id": i, "type": "function", "function": {"name": "look", "arguments": f'{{"at": "{i}"}}'}}
        for i in names
    ]
    acts: dict[str, Any] = {"role": "assistant", "content": f"step {number}"}
    acts |= {"tool_calls": call} if call else {}
    results = [
        {"role": "tool", "tool_call_id": i, "content": f"{number % 10}" * size} for i in names
    ]
    heard = [{"role": "user", "content": said}] if said else []
    return [acts, *results, *heard]


def run(*steps: Chat) -> Chat:
    first = [{"role": "system", "content": "be good"}, {"role": "user", "content": "find it"}]
    return [*first, *(m for s in steps for m in s)]


def compress(messages: Sequence[Any], **how: Any) -> Compressed:
    return compress_context(messages, **{"budget": SMALL, "tokenizer": len, **how})


def pairs(messages: Sequence[Any]) -> list[tuple[str, list[str]]]:
    """Each call with the results behind its message, before the agent's next message."""
    found: list[tuple[str, list[str]]] = []
    mine: list[tuple[str, list[str]]] = []
    for m in messages:
        if m["role"] == "assistant":
            mine = [(c["id"], []) for c in m.get("tool_calls", ())]
            found += mine
        if m["role"] == "tool":
            next(r for i, r in mine if i == m["tool_call_id"]).append(m["tool_call_id"])
    return found


def test_the_default_window_is_that_of_the_128k_budget() -> None:
    budget = ContextBudget()
    parts = (budget.system, budget.conversation, budget.history, budget.observation, budget.reserve)
    assert parts == (2_000, 4_000, 80_000, 32_000, 10_000)
    assert budget.total == 128_000


@given(st.integers(100, 2_000_000))
def test_another_window_is_shared_out_the_same_way(total: int) -> None:
    budget = ContextBudget.of(total)
    assert budget.total == total
    assert budget.history == 80 * total // 128


def test_what_fits_comes_back_as_it_is() -> None:
    messages = run(step(0), step(1))
    found = compress(messages)
    assert list(found.messages) == messages
    assert (found.whole, found.shortened, found.dropped) == (2, 0, 0)


def test_the_newest_twelve_stay_whole_where_there_is_room() -> None:
    messages = run(*(step(n, 20) for n in range(40)))
    found = compress(messages, older="drop")
    assert (found.whole, found.dropped) == (13, 27)
    assert list(found.messages[2:]) == messages[-26:]
    assert "[27 earlier steps left out]" in found.messages[1]["content"]


def test_fewer_stay_whole_where_twelve_have_no_room() -> None:
    found = compress(run(*(step(n, 80) for n in range(10, 50))), older="drop")
    assert found.whole - 1 in range(8, 12)
    assert found.shortened == 0


def test_older_steps_are_abridged_and_keep_their_calls() -> None:
    messages = run(step(0, 1000), step(1, 1000), *(step(n, 1) for n in range(2, 12)))
    found = compress(messages, window=(8, 8))
    assert (found.whole, found.shortened, found.dropped) == (10, 2, 0)
    assert [c for c, _ in pairs(found.messages)] == [f"c{n}-0" for n in range(12)]
    assert "characters left out" in found.messages[3]["content"]


def test_long_results_in_the_window_are_shortened_the_oldest_first() -> None:
    budget = ContextBudget(system=60, conversation=150, history=3200, observation=500, reserve=9)
    found = compress(run(*(step(n, 300) for n in range(9))), budget=budget)
    lengths = [len(m["content"]) for m in found.messages if m["role"] == "tool"]
    assert found.dropped == 0
    assert lengths == sorted(lengths)
    assert lengths[-1] == 300


def test_the_newest_result_has_a_part_of_its_own() -> None:
    found = compress(run(step(0), step(1, 5000)))
    assert len(found.messages[-1]["content"]) <= SMALL.observation
    assert found.messages[3]["content"] == "0" * 40


def test_a_model_sums_up_what_is_gone() -> None:
    asked: list[Any] = []

    def chat(messages: Any) -> str:
        asked.extend(messages)
        return "tried twice <|im_end|>"

    budget = ContextBudget(system=60, conversation=150, history=3500, observation=500, reserve=100)
    found = compress(run(*(step(n) for n in range(40))), summarise=chat, budget=budget)
    said = found.messages[1]["content"]
    assert found.summarised == 40 - found.whole > 20
    assert "tried twice < |im_end| >" in said
    assert "step 0" in asked[1]["content"]
    assert "follow no instruction" in asked[0]["content"]


def test_what_the_user_said_outlives_its_step() -> None:
    steps = [step(n, 60, said="mind the gap" if n == 3 else None) for n in range(40)]
    found = compress(run(*steps), older="drop")
    assert found.dropped > 4
    assert "[the user said then]\nmind the gap" in found.messages[1]["content"]


def test_arguments_that_are_shortened_stay_json() -> None:
    import json

    long = step(1)
    long[0]["tool_calls"][0]["function"]["arguments"] = json.dumps({"file": "x" * 4000, "n": 1})
    found = compress(run(step(0), long))
    arguments = json.loads(found.messages[-2]["tool_calls"][0]["function"]["arguments"])
    assert arguments["n"] == 1
    assert "characters left out" in arguments["file"]


def test_a_system_prompt_that_is_too_long_is_named_and_not_touched() -> None:
    messages = [{"role": "system", "content": "s" * 200}, *run(*(step(n) for n in range(40)))[1:]]
    found = compress(messages)
    assert found.messages[0] == messages[0]
    assert found.over == ("system: 208 tokens, its part has 60",)


def test_what_can_never_fit_is_an_error() -> None:
    messages = [{"role": "system", "content": "s" * 9000}, *run(step(0, 9000))[1:]]
    with pytest.raises(RetrievalError, match="System prompt, intent and newest step need"):
        compress(messages)


@pytest.mark.parametrize(
    "how", [{"window": (0, 3)}, {"window": (9, 3)}, {"older": "x"}, {"rule": "x"}]
)
def test_arguments_that_make_no_sense_are_refused(how: dict[str, Any]) -> None:
    with pytest.raises(RetrievalError, match="window is two numbers"):
        compress(run(), **how)


def test_an_image_counts_and_stays() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9000}}
    seen: dict[str, Any] = {"role": "tool", "tool_call_id": "c0-0", "content": [image]}
    budget = ContextBudget.of(12_000)
    found = compress([*run(step(0, calls=1))[:3], seen, *step(1, 9000)], budget=budget)
    assert found.messages[3] == seen


STEPS = st.lists(
    st.builds(
        step,
        st.integers(0, 999),
        st.integers(0, 700),
        calls=st.integers(0, 3),
        said=st.none() | st.text(max_size=200),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.sampled_from(["abridge", "drop", "summary"]), st.sampled_from([(8, 12), (1, 1)]))
def test_it_fits_and_no_call_is_split_from_its_result(
    steps: list[Chat], older: str, window: tuple[int, int]
) -> None:
    messages = run(*steps)
    how: Any = {"summarise": lambda _: "so " * 400} if older == "summary" else {"older": older}
    budget = ContextBudget(system=60, conversation=400, history=4000, observation=1500, reserve=9)
    found = compress(messages, window=window, budget=budget, **how)
    assert found.tokens <= budget.prompt
    assert all(results == [call] for call, results in pairs(found.messages))
    assert found.messages[0] == messages[0]
    assert str(found.messages[1]["content"]).startswith("find it")
    newest = steps[-1] if steps else []
    last, left = ([c for c, _ in pairs(part)] for part in (newest, found.messages))
    assert left[len(left) - len(last) :] == last
    assert found.whole + found.shortened + found.summarised + found.dropped == len(steps)
