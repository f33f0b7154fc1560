"""A hint is read by the policy and stands in no run that is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from trajstore.rollouts import (
    Action,
    CalculatorEnvironment,
    Limits,
    Message,
    Response,
    Task,
    Tool,
    calculator_tasks,
    run_rollouts,
)
from trajstore.schema import ToolCall, Trajectory, json_text
from trajstore.trainers.jobs.rationalise import HINT, hinted, without_hint

TASK = calculator_tasks(1, seed=5, kind="arithmetic")[0]


class Obedient:
    """Hands in the answer that it was told, and says what it is asked to say."""

    agent = "obedient"
    model: str | None = None
    version = "1"

    def __init__(self, say: str) -> None:
        self.say = say
        self.read: list[str] = []

    def act(self, messages: Sequence[Message], tools: Sequence[Tool], *, seed: int) -> Response:
        del tools, seed
        self.read.append(str(messages[1]["content"]))
        answer = self.read[-1].rpartition("is ")[2].rstrip(".)")
        call = ToolCall.of("finish", json_text({"answer": answer}), "c")
        return Response(
            action=Action(text=self.say, tool_calls=(call,)),
            prompt_token_ids=(1, 2, 3),
            completion_token_ids=(4,),
            logprobs=(-0.5,),
        )


def sampled(say: str = "So it is.", hint: str = HINT, task: Task = TASK) -> Trajectory:
    (run,) = run_rollouts(
        hinted(CalculatorEnvironment, hint), Obedient(say), [task], limits=Limits(max_steps=2)
    )
    return run


def test_the_policy_reads_the_hint_and_the_store_does_not() -> None:
    run = sampled()
    told = HINT.replace("{answer}", TASK.answer or "")
    clean = without_hint(run, TASK, HINT, parent_id="failed")
    assert clean is not None
    assert run.success
    assert (run.steps[1].text or "").endswith(told)
    assert clean.steps[1].text == TASK.goal
    assert told not in str(clean)
    assert (clean.relation, clean.parent_id) == ("rationalization", "failed")


def test_no_token_or_logprob_of_the_hinted_prompt_is_kept() -> None:
    clean = without_hint(sampled(), TASK, HINT, parent_id=None)
    assert clean is not None
    kept = [(s.prompt_token_ids, s.completion_token_ids, s.logprobs) for s in clean.steps]
    assert set(kept) == {(None, None, None)}


def test_state_keys_are_those_of_a_run_without_a_hint() -> None:
    """Another word in the first message would give another state to every step."""
    clean = without_hint(sampled(), TASK, HINT, parent_id=None)
    (plain,) = run_rollouts(
        CalculatorEnvironment, Obedient("x"), [TASK], limits=Limits(max_steps=1)
    )
    assert clean is not None
    assert clean.steps[2].state_key == plain.steps[2].state_key


def test_a_run_that_speaks_of_the_hint_is_not_stored() -> None:
    told = HINT.replace("{answer}", TASK.answer or "")
    assert without_hint(sampled(f"As I was told: {told}"), TASK, HINT, parent_id=None) is None


@given(hint=st.text(min_size=4).filter(str.strip), answer=st.text("0123456789", min_size=1))
def test_whatever_the_hint_it_is_in_no_stored_text(hint: str, answer: str) -> None:
    task = replace(TASK, answer=answer)
    told = hint + " {answer}"
    run = sampled(hint=told, task=task)
    clean = without_hint(run, task, told, parent_id=None)
    said = told.replace("{answer}", answer).strip()
    if clean is not None:
        texts = [s.text or "" for s in clean.steps]
        assert clean.steps[1].text == TASK.goal
        assert not any(said in text for text in texts[1:])
