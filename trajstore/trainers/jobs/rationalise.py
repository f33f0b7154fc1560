"""Runs that were given the answer, stored as if they had not been (STaR's rationalisation).

Source: Zelikman et al. 2022 (2203.14465), section 3.2, and the authors' code: the hint is put
behind the question, and taken out of the context that is saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trajstore.rollouts import (
    Action,
    Environment,
    EnvironmentFactory,
    Observed,
    Outcome,
    Task,
    Tool,
    Transition,
)
from trajstore.schema import Step, Trajectory, finish, json_text

HINT = "(The answer is {answer}.)"
"""What is put behind a question by default."""


class HintedEnvironment:
    """An environment whose first message also tells the answer."""

    def __init__(self, environment: Environment, hint: str) -> None:
        """Wrap an environment.

        Args:
            environment: the real one.
            hint: text with ``{answer}`` in it.
        """
        self._environment = environment
        self._hint = hint
        self.name = environment.name
        self.version = environment.version

    @property
    def system_prompt(self) -> str | None:
        """As without a hint."""
        return self._environment.system_prompt

    @property
    def tools(self) -> Sequence[Tool]:
        """As without a hint."""
        return self._environment.tools

    def reset(self, task: Task) -> Observed:
        """Begin a task, with the hint behind what is asked."""
        observed = self._environment.reset(task)
        text = task.goal if observed.text is None else observed.text
        return replace(observed, text=text + behind(self._hint, task))

    def step(self, action: Action) -> Transition:
        """As without a hint."""
        return self._environment.step(action)

    def outcome(self) -> Outcome:
        """As without a hint."""
        return self._environment.outcome()

    def close(self) -> None:
        """Let go of the environment."""
        self._environment.close()


def behind(hint: str, task: Task) -> str:
    """What stands behind the question of a task."""
    return "\n" + hint.replace("{answer}", task.answer or "")


def hinted(make: EnvironmentFactory, hint: str) -> EnvironmentFactory:
    """Makes the environment with the hint."""
    return lambda: HintedEnvironment(make(), hint)


def without_hint(
    run: Trajectory, task: Task, hint: str, *, parent_id: str | None
) -> Trajectory | None:
    """A hinted run as it is stored, or None where it speaks of the hint itself.

    What the sampler saw held the hint, so the tokens and their log-probabilities are left out: they
    are of another prompt, and no ratio may be made of them. ``relation`` says so for all time.

    Args:
        run: as it was sampled.
        task: that it is an attempt at.
        hint: what was put behind the question.
        parent_id: the run that failed without it.
    """
    told = behind(hint, task)
    steps = tuple(_clean(step, told) for step in run.steps)
    made = finish(
        replace(
            run,
            steps=steps,
            parent_id=parent_id,
            relation="rationalization",
            source_digest=None,
            prompt_tokens=None,
            completion_tokens=None,
        )
    )
    said = told.strip()
    shown = json_text([_texts(step) for step in made.steps])
    return None if said and json_text(said)[1:-1] in shown else made


def _clean(step: Step, told: str) -> Step:
    text = step.text
    if step.actor == "user" and text is not None and text.endswith(told):
        text = text[: -len(told)]
    return replace(
        step,
        text=text,
        state_key=None,
        prompt_tokens=None,
        prompt_token_ids=None,
        completion_token_ids=None,
        logprobs=None,
    )


def _texts(step: Step) -> list[str | None]:
    calls = [c.arguments_raw for c in step.tool_calls]
    return [step.text, step.reasoning, *calls, *(o.text for o in step.observations)]
