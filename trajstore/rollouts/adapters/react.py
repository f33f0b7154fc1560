"""ReAct's text format over any environment with tools: Thought, Action, Observation."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trajstore.rollouts.environment import Action, Environment, Observed, Outcome, Task, Transition
from trajstore.schema import ToolCall, json_text

_ACTION = re.compile(r"^Action(?: \d+)?: *([A-Za-z_]\w*)\[(.*)\] *$", re.MULTILINE | re.DOTALL)
_FORMAT = (
    "Answer in this form and write nothing after it:\n"
    "Thought: what you think\n"
    "Action: tool[argument]\n"
    "The answer to an action comes as an observation. The tools:\n"
)
_REMARK = "Observation: no action was found; write 'Action: tool[argument]' on a line of its own."


class ReActEnvironment:
    """An environment for agents that write text and know no tool calls (Yao et al. 2023).

    The agent's text is read as ``Thought: ...`` and ``Action: tool[argument]``, and what the tool
    answers comes back as ``Observation: ...``. A tool of several arguments takes a JSON object in
    the brackets, one of none takes ``[]``. The last action in a text counts, as ReAct stops at an
    observation; brackets inside the argument are part of it. What is stored is the text as it was
    written; the call that was read from it is in the step's metadata under ``react``.
    """

    def __init__(self, inner: Environment) -> None:
        """Put the format around an environment."""
        self._inner = inner
        self._calls = 0
        self._functions: Mapping[str, Mapping[str, Any]] = {
            tool["function"]["name"]: tool["function"] for tool in inner.tools
        }

    @property
    def name(self) -> str:
        """That of the environment inside, with ``-react`` behind it."""
        return f"{self._inner.name}-react"

    @property
    def version(self) -> str:
        """That of the environment inside."""
        return self._inner.version

    @property
    def system_prompt(self) -> str:
        """What the environment inside says, and the form of an answer."""
        said = self._inner.system_prompt
        listed = "\n".join(map(_described, self._functions.values()))
        return f"{said}\n\n{_FORMAT}{listed}" if said else f"{_FORMAT}{listed}"

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """None: they stand in the system prompt."""
        return ()

    def reset(self, task: Task) -> Observed:
        """Begin a task; the question stands behind ``Question:``."""
        self._calls = 0
        observed = self._inner.reset(task)
        return replace(observed, text=f"Question: {observed.text or task.goal}")

    def step(self, action: Action) -> Transition:
        """Read the action in the text and carry it out."""
        found = _ACTION.search(_last(action.text or ""))
        if found is None:
            return Transition(observation=Observed(text=_REMARK), info={"react": None})
        call = self._call(found[1], found[2])
        made = self._inner.step(Action(text=action.text, tool_calls=(call,)))
        seen = made.observation
        parts = [*(r.text or "" for r in seen.results), *([seen.text] if seen.text else [])]
        text = "\n".join(f"Observation: {part}" for part in parts)
        told = {"react": {"tool": call.name, "arguments": call.arguments_raw}}
        observed = Observed(text=text, state=seen.state, state_key=seen.state_key)
        return replace(made, observation=observed, info={**made.info, **told})

    def outcome(self) -> Outcome:
        """The word of the environment inside."""
        return self._inner.outcome()

    def close(self) -> None:
        """Close the environment inside."""
        self._inner.close()

    def _call(self, tool: str, argument: str) -> ToolCall:
        self._calls += 1
        function = self._functions.get(tool, {})
        names = list(function.get("parameters", {}).get("properties", {}))
        raw = json_text({names[0]: argument}) if len(names) == 1 else argument.strip() or "{}"
        return ToolCall.of(tool, raw, f"call_{self._calls}")


def _last(text: str) -> str:
    """The text from its last action on."""
    start = [match.start() for match in re.finditer(r"^Action(?: \d+)?:", text, re.MULTILINE)]
    return text[start[-1] :] if start else ""


def _described(function: Mapping[str, Any]) -> str:
    names = list(function.get("parameters", {}).get("properties", {}))
    shape = "".join(names)
    if len(names) > 1:
        shape = json.dumps(dict.fromkeys(names, "..."))
    return f"{function['name']}[{shape}]: {function['description']}"
