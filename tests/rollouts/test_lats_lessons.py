"""Lessons of failed runs: what is learnt, what the policy is shown, what is given up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.rollouts.lats_world import TASK, Gambler, make
from trajstore.rollouts import (
    Action,
    Lesson,
    PolicyReflector,
    Response,
    SearchOptions,
    SearchTree,
    first_error,
    lats,
)
from trajstore.rollouts.search_lessons import reflection_messages, with_lessons
from trajstore.schema import Observation, Step, ToolCall, Trajectory

OPTIONS = SearchOptions(iterations=8, expand=2, depth=5, concurrency=1, stop_on_success=False)


def step(name: str, result: str = "ok", *, error: bool = False) -> Step:
    seen = Observation(text=result, is_error=error)
    return Step(actor="agent", tool_calls=(ToolCall.of(name, {}),), observations=(seen,))


def run(*steps: Step) -> Trajectory:
    start = (Step(actor="user", text="Do it."),)
    return Trajectory(
        trajectory_id="t", task_id="k", source="s", goal="Do it.", reward=0.0, steps=start + steps
    )


def test_the_first_action_that_brought_an_error_is_blamed() -> None:
    failed = run(step("look"), step("jump", "you fell", error=True), step("cry", "", error=True))
    assert first_error(failed) == Lesson(
        text="Do not do this: jump {}; the answer was: you fell", blamed=1
    )


def test_the_first_action_that_had_been_done_in_the_same_place_is_blamed() -> None:
    round_trip = [step("go", "b"), step("back", "a")]
    lesson = first_error(run(step("look", "a"), *round_trip, *round_trip))
    assert lesson == Lesson(text="Do not do this: go {}; it had been done there before", blamed=3)


def test_the_first_action_that_brought_nothing_new_is_blamed() -> None:
    lesson = first_error(run(step("look", "a"), step("look", "a"), step("go", "b")))
    assert lesson == Lesson(text="Do not do this: look {}; it changed nothing", blamed=1)


def test_the_same_action_in_another_place_is_no_repetition() -> None:
    assert first_error(run(step("open", "a"), step("back", "b"), step("back", "c"))) is None


def test_a_run_without_such_an_action_teaches_nothing() -> None:
    assert first_error(run(step("look", "a"), step("go", "b"))) is None


def test_what_was_said_before_is_blamed_and_not_said_again() -> None:
    failed = run(step("jump", "you fell", error=True))
    first = first_error(failed)
    assert first is not None
    assert first_error(failed, [first.text]) == Lesson(text="", blamed=0)


class Speaker:
    """Answers with one text and keeps what it was asked."""

    agent, model, version = "speaker", "m", "1"

    def __init__(self, text: str) -> None:
        self.text, self.asked = text, []  # type: ignore[var-annotated]

    def act(self, messages: Any, tools: Any, *, seed: int) -> Response:
        self.asked.append((messages, tools, seed))
        return Response(action=Action(text=self.text))


@pytest.mark.parametrize(
    ("said", "blamed"),
    [
        ("Step 2\nLook before you jump.", 1),
        ("action 1: wrong door", 0),
        ("Step 0\nNothing was wrong by itself.", None),
        ("I should have looked.", None),
    ],
)
def test_a_policy_says_what_was_wrong_and_where(said: str, blamed: int | None) -> None:
    policy = Speaker(said)
    lesson = PolicyReflector(policy)(run(step("look"), step("jump")), ["Be quick."])
    assert lesson == Lesson(text=said, blamed=blamed)
    (messages, tools, _) = policy.asked[0]
    assert tools == ()
    assert "2. jump {}\nok" in messages[1]["content"]
    assert "- Be quick." in messages[1]["content"]


def test_a_policy_that_says_nothing_teaches_nothing() -> None:
    assert PolicyReflector(Speaker("  "))(run(step("look")), []) is None


def test_a_long_result_is_cut_in_the_question() -> None:
    (_, asked) = reflection_messages(run(step("look", "x" * 50_000)), [])
    assert len(asked["content"]) < 3_000


def test_lessons_follow_the_first_words_of_the_user() -> None:
    messages = ({"role": "system", "content": "S"}, {"role": "user", "content": "U"})
    shown = with_lessons(messages, ["one", "two"])
    assert shown[0] == messages[0]
    assert shown[1]["content"].startswith("U\n\nYou tried this before")
    assert shown[1]["content"].endswith("\n- one\n- two")
    assert with_lessons(messages, []) is messages


def test_tokens_of_calls_that_were_shown_other_lessons_are_left_out() -> None:
    said = {"role": "assistant", "content": "a", "prompt_token_ids": (1,)}
    messages = ({"role": "user", "content": "U"}, {**said, "completion_token_ids": (2,)})
    assert with_lessons(messages, ["one"])[1] == {"role": "assistant", "content": "a"}
    assert with_lessons(messages, [])[1]["prompt_token_ids"] == (1,)


def search(policy: Any, reflect: Any, **options: Any) -> SearchTree:
    return lats(make, policy, TASK, options=replace(OPTIONS, reflect=reflect, **options))


def test_later_calls_are_shown_the_newest_lessons() -> None:
    made: list[str] = []

    def reflect(failed: Trajectory, earlier: Sequence[str]) -> Lesson:
        del failed
        assert list(earlier) == made
        made.append(f"lesson {len(made)}")
        return Lesson(text=made[-1])

    policy = Gambler(0.3)
    tree = search(policy, reflect, lessons=2)
    prompts = [str(messages[1]["content"]) for messages, _ in policy.asked]
    assert "lesson" not in prompts[0]
    assert len(made) >= 4
    late = [p for p in prompts if f"lesson {len(made) - 2}" in p]
    assert not any("lesson 0" in p for p in late)
    assert [r.text for r in tree.reflections] == made


def test_only_failed_runs_are_reflected_on() -> None:
    seen: list[bool | None] = []

    def reflect(failed: Trajectory, earlier: Sequence[str]) -> None:
        del earlier
        seen.append(failed.success)

    tree = search(Gambler(0.7), reflect, iterations=20, expand=6)
    assert True in [r.success for r in tree.runs]
    assert seen
    assert set(seen) == {False}


def test_nobody_goes_on_from_a_branch_that_was_given_up() -> None:
    def blame_left(failed: Trajectory, earlier: Sequence[str]) -> Lesson | None:
        del earlier
        own = [s for s in failed.steps if s.actor == "agent"]
        wrong = [n for n, s in enumerate(own) if "left" in (s.tool_calls[0].arguments or "")]
        return Lesson(text="", blamed=wrong[0]) if wrong else None

    pruned = search(Gambler(0.5), blame_left, iterations=40, expand=6)
    blind = search(Gambler(0.5), None, iterations=40, expand=6)
    assert pruned.pruned > 0
    assert (blind.pruned, len(blind.runs)) == (0, 8)
    for node in pruned.root.walk():
        if node.pruned:
            assert node.visits == 1
    assert len([r for r in pruned.runs if r.reward is not None]) < 8


def test_a_reflection_that_fails_ends_the_search_and_keeps_its_runs() -> None:
    def reflect(failed: Trajectory, earlier: Sequence[str]) -> Lesson:
        del failed, earlier
        raise OSError("no answer")

    tree = search(Gambler(0.0), reflect)
    assert (tree.stopped, tree.error) == ("error", "reflect: OSError: no answer")
    assert tree.runs[0].reward == 0.0
