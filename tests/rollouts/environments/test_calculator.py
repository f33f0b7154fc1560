from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajstore.rollouts import Action, CalculatorEnvironment, Task, Transition
from trajstore.rollouts.environments.calculator import is_correct
from trajstore.schema import Observation, ToolCall

TASK = Task(task_id="calculator/x/1", goal="How much is 6 times 7?", answer="42")


def started() -> CalculatorEnvironment:
    environment = CalculatorEnvironment()
    environment.reset(TASK)
    return environment


def act(environment: CalculatorEnvironment, *calls: tuple[str, object]) -> Transition:
    made = (ToolCall.of(name, given, f"c{n}") for n, (name, given) in enumerate(calls))
    return environment.step(Action(tool_calls=tuple(made)))


def answer(environment: CalculatorEnvironment, name: str, given: object) -> Observation:
    return act(environment, (name, given)).observation.results[0]


def test_reset_shows_the_question_and_not_the_answer() -> None:
    observed = CalculatorEnvironment().reset(TASK)
    assert observed.text == TASK.goal
    assert "42" not in str(observed)


def test_a_task_that_nobody_can_judge_is_refused() -> None:
    with pytest.raises(ValueError, match="task 'x' has no answer"):
        CalculatorEnvironment().reset(Task(task_id="x", goal="?"))


def test_the_tools_are_openai_functions() -> None:
    tools = CalculatorEnvironment().tools
    assert [t["function"]["name"] for t in tools] == ["search", "calculate", "finish"]
    for tool in tools:
        parameters = tool["function"]["parameters"]
        assert tool["type"] == "function"
        assert parameters["required"] == list(parameters["properties"])


def test_calculate_gives_the_value() -> None:
    found = answer(started(), "calculate", {"expression": "6 * 7"})
    assert found == Observation(call_id="c0", text="42", is_error=False)


def test_search_gives_titles_and_texts() -> None:
    found = answer(started(), "search", {"query": "K2 height"})
    assert str(found.text).startswith("[K2] K2 is a mountain between Pakistan and China.")
    assert found.is_error is False


def test_a_search_without_hits_says_so_and_is_no_error() -> None:
    found = answer(started(), "search", {"query": "zeppelin"})
    assert found.text == "No document has anything on 'zeppelin'."
    assert found.is_error is False


@pytest.mark.parametrize(
    ("name", "given", "reason"),
    [
        ("calculate", {"expression": "1 / 0"}, "error: division by zero in '1 / 0'"),
        ("calculate", '{"expression": "1"', "error: the arguments of calculate are not valid JSON"),
        ("calculate", "[1]", "error: the arguments of calculate must be a JSON object"),
        ("calculate", {"expr": "1"}, "'expression' is missing or empty; given were: expr"),
        ("calculate", None, "'expression' is missing or empty; given were: nothing"),
        ("calculate", {"expression": True}, "'expression' is missing or empty"),
        ("search", {"query": "  "}, "'query' is missing or empty"),
        ("browse", {}, "there is no tool 'browse'; the tools are search, calculate, finish"),
    ],
)
def test_a_bad_call_gets_a_real_error_and_the_task_goes_on(
    name: str, given: object, reason: str
) -> None:
    environment = started()
    found = answer(environment, name, given)
    assert found.is_error is True
    assert reason in str(found.text)
    assert act(environment, ("finish", {"answer": "42"})).reward == 1.0


def test_a_number_instead_of_text_is_understood() -> None:
    assert answer(started(), "calculate", {"expression": 5}).text == "5"
    assert act(started(), ("finish", {"answer": 42})).reward == 1.0


def test_the_right_answer_ends_the_task_with_reward_one() -> None:
    environment = started()
    transition = act(environment, ("finish", {"answer": "It is 42."}))
    assert (transition.reward, transition.terminated, transition.truncated) == (1.0, True, False)
    outcome = environment.outcome()
    assert (outcome.success, outcome.reward) == (True, 1.0)
    assert outcome.rewards == {"correct": 1.0, "answered": 1.0}


def test_a_wrong_answer_ends_the_task_with_reward_zero() -> None:
    environment = started()
    transition = act(environment, ("finish", {"answer": "43"}))
    assert (transition.reward, transition.terminated) == (0.0, True)
    assert environment.outcome().rewards == {"correct": 0.0, "answered": 1.0}


def test_no_answer_is_a_failure_and_not_unknown() -> None:
    environment = started()
    act(environment, ("calculate", {"expression": "6 * 7"}))
    assert environment.outcome().success is False
    assert environment.outcome().rewards == {"correct": 0.0, "answered": 0.0}


def test_without_a_task_nothing_is_judged() -> None:
    assert CalculatorEnvironment().outcome().success is None


def test_words_without_a_call_bring_a_remark() -> None:
    transition = started().step(Action(text="It is 42."))
    assert transition.observation.text == "No tool was called. Give the answer with finish(answer)."
    assert not transition.terminated


def test_several_calls_are_answered_in_order_and_by_id() -> None:
    transition = act(
        started(),
        ("calculate", {"expression": "1 + 1"}),
        ("nope", {}),
        ("finish", {"answer": "42"}),
        ("calculate", {"expression": "2 + 2"}),
    )
    results = transition.observation.results
    assert [(r.call_id, r.is_error) for r in results] == [
        ("c0", False),
        ("c1", True),
        ("c2", False),
        ("c3", True),
    ]
    assert results[3].text == "error: the task has ended: finish was called before"


def test_reset_starts_afresh() -> None:
    environment = started()
    act(environment, ("finish", {"answer": "42"}))
    environment.reset(TASK)
    assert environment.outcome().success is False
    assert answer(environment, "calculate", {"expression": "1"}).text == "1"


@pytest.mark.parametrize(
    ("given", "expected", "correct"),
    [
        ("42", "42", True),
        ("42.0", "42", True),
        ("The answer is 1,234 metres.", "1234", True),
        ("-7", "-7", True),
        ("$780.64", "780.64", True),
        ("42 (that is 42)", "42", True),
        ("0.3333333", "0.3333333333", True),
        ("0.333", "0.3333333333", False),
        ("41 or 42", "42", False),
        ("I do not know", "42", False),
        ("", "42", False),
        ("forty-two", "42", False),
        pytest.param("9" * 5000, "42", False, id="5000 digits"),
    ],
)
def test_an_answer_is_judged_by_its_one_number(given: str, expected: str, *, correct: bool) -> None:
    assert is_correct(given, expected) is correct


@given(
    st.integers(-(10**9), 10**9),
    st.sampled_from(["{}", "It is {}.", "{} metres", "= {}", "**{}**"]),
)
def test_a_whole_number_is_right_in_any_wording_and_its_neighbour_is_wrong(
    number: int, wording: str
) -> None:
    assert is_correct(wording.format(number), str(number))
    assert is_correct(wording.format(f"{number:,}"), str(number))
    assert not is_correct(wording.format(number + 1), str(number))


@given(st.text(max_size=30))
def test_any_text_can_be_handed_in_and_is_judged(text: str) -> None:
    environment = started()
    transition = act(environment, ("finish", {"answer": text}))
    assert transition.reward == float(is_correct(text.strip(), "42") and bool(text.strip()))
    assert environment.outcome().success is (transition.reward == 1.0)


@given(st.text(max_size=30), st.sampled_from(["search", "calculate", "finish", ""]))
def test_no_arguments_break_the_environment(raw: str, name: str) -> None:
    transition = act(started(), (name, raw))
    (result,) = transition.observation.results
    assert result.is_error in {True, False}
    assert result.text
