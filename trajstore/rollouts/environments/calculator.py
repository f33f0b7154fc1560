"""Calculator and search over a small local corpus, in the manner of ReAct."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from trajstore.rollouts.environment import (
    Action,
    Observed,
    Outcome,
    Task,
    Tool,
    Transition,
    function_tool,
)
from trajstore.rollouts.environments.arithmetic import ExpressionError, evaluate, format_number
from trajstore.rollouts.environments.corpus import search
from trajstore.rollouts.environments.tool_calls import BadCallError, call_arguments
from trajstore.schema import Observation, ToolCall

_SYSTEM = (
    "Answer the question. Look facts up with search, work numbers out with calculate, and give the "
    "answer with finish. Do not guess."
)
_REMARK = "No tool was called. Give the answer with finish(answer)."
_TOOLS: tuple[Tool, ...] = (
    function_tool(
        "search",
        "Find documents about a thing. Returns up to three short texts.",
        {"query": {"type": "string", "description": "What to look for."}},
    ),
    function_tool(
        "calculate",
        "Work out an arithmetic expression: + - * / // % **, brackets, abs, max, min, round, sqrt.",
        {"expression": {"type": "string", "description": "For example (3 + 4) * 2."}},
    ),
    function_tool(
        "finish",
        "Give the final answer. Ends the task.",
        {"answer": {"type": "string", "description": "The answer: a number."}},
    ),
)
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?|[-+]?\.\d+")
_TOLERANCE = Fraction(1, 10**6)
_LONGEST_NUMBER = 100
"""Characters; Python refuses to read a number of thousands of digits."""


class CalculatorEnvironment:
    """One agent at one question; see :func:`calculator_tasks` for the questions.

    The reward is 1 for the right number and 0 otherwise, given with the last step. An agent that
    never calls ``finish`` has not solved the task.
    """

    name = "calculator"
    version = "1"
    system_prompt = _SYSTEM

    def __init__(self) -> None:
        """Start without a task."""
        self._task: Task | None = None
        self._answer: str | None = None

    @property
    def tools(self) -> Sequence[Tool]:
        """search, calculate and finish."""
        return _TOOLS

    def reset(self, task: Task) -> Observed:
        """Begin a question.

        Raises:
            ValueError: the task has no answer to compare with.
        """
        if task.answer is None:
            message = f"task '{task.task_id}' has no answer, so nobody could judge it"
            raise ValueError(message)
        self._task, self._answer = task, None
        return Observed(text=task.goal)

    def step(self, action: Action) -> Transition:
        """Carry out the calls in order; those after ``finish`` are refused."""
        if not action.tool_calls:
            return Transition(observation=Observed(text=_REMARK))
        results = tuple(self._result(call) for call in action.tool_calls)
        finished = self._answer is not None
        reward = self.outcome().reward if finished else 0.0
        return Transition(
            observation=Observed(results=results), reward=reward or 0.0, terminated=finished
        )

    def outcome(self) -> Outcome:
        """Right or wrong, by the number in the answer."""
        if self._task is None:
            return Outcome()
        answered = self._answer is not None
        correct = answered and is_correct(self._answer or "", self._task.answer or "")
        return Outcome(
            success=correct,
            reward=float(correct),
            rewards={"correct": float(correct), "answered": float(answered)},
        )

    def close(self) -> None:
        """Nothing to let go of."""

    def _result(self, call: ToolCall) -> Observation:
        try:
            return Observation(call_id=call.call_id, text=self._call(call), is_error=False)
        except (BadCallError, ExpressionError) as error:
            return Observation(call_id=call.call_id, text=f"error: {error}", is_error=True)

    def _call(self, call: ToolCall) -> str:
        if self._answer is not None:
            raise BadCallError("the task has ended: finish was called before")
        arguments = call_arguments(call, _TOOLS)
        if call.name == "search":
            return _search(_text(arguments, "query"))
        if call.name == "calculate":
            return format_number(evaluate(_text(arguments, "expression")))
        self._answer = _text(arguments, "answer")
        return "The answer was handed in."


def is_correct(answer: str, expected: str) -> bool:
    """Whether the one number in ``answer`` is the expected one, to six decimal places.

    Thousands separators, units and words around the number do not matter; two different numbers
    are no answer, nor is one of more than 100 characters.

    >>> is_correct("It is 1,234 metres.", "1234"), is_correct("12 or 13", "12")
    (True, False)
    """
    found = _NUMBER.findall(answer)
    if any(len(number) > _LONGEST_NUMBER for number in found):
        return False
    numbers = {Fraction(number.replace(",", "")) for number in found}
    if len(numbers) != 1:
        return False
    return abs(numbers.pop() - Fraction(expected)) <= _TOLERANCE


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        given = ", ".join(arguments) or "nothing"
        raise BadCallError(f"the argument '{name}' is missing or empty; given were: {given}")
    return value.strip()


def _search(query: str) -> str:
    found = search(query)
    if not found:
        return f"No document has anything on '{query}'."
    return "\n".join(f"[{document.title}] {document.text}" for document in found)
