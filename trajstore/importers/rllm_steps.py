"""Steps of an rLLM trajectory: of each chat only what is new, and the model's own answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from trajstore.importers.building import StepBuilder, number, rest, text_of
from trajstore.importers.framework_messages import Said, prompt_messages, result_text
from trajstore.importers.token_lists import logprobs, token_ids
from trajstore.schema import Observation, Step, ToolCall, json_text

_TAKEN = frozenset(
    {
        "prompt_ids",
        "response_ids",
        "logprobs",
        "chat_completions",
        "observation",
        "thought",
        "model_response",
        "model_output",
        "reward",
        "tool_name",
        "tool_args",
        "tool_result",
        "step_index",
        "action",
    }
)
_NOTHING: tuple[Any, ...] = (None, "", [], {})


def steps_of(raw: Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    """The steps of a trajectory, one agent step for each of rLLM's.

    Raises:
        TypeError: a step is no object.
    """
    reader = _Reader()
    for step in raw:
        reader.read(step)
    return reader.builder.steps()


class _Reader:
    """Counts the messages that were seen, since each step repeats the chat before it."""

    def __init__(self) -> None:
        self.builder = StepBuilder()
        self._seen: Counter[tuple[Any, ...]] = Counter()

    def read(self, step: Mapping[str, Any]) -> None:
        messages = prompt_messages(step.get("chat_completions") or [])
        counted = Counter(said.key for said in messages)
        own: Said | None = None
        if messages and messages[-1].actor == "agent":
            last = messages[-1].key
            own = messages.pop() if counted[last] > self._seen[last] else None
        counted.clear()
        for said in messages:
            counted[said.key] += 1
            if counted[said.key] > self._seen[said.key]:
                self._context(said)
        observed = step.get("observation")
        if not messages and observed not in _NOTHING:
            self.builder.add("user", result_text(observed))
            observed = None
        self._answer(step, own, None if observed in [m.text for m in messages] else observed)

    def _context(self, said: Said) -> None:
        self._seen[said.key] += 1
        if said.result is not None:
            self.builder.observe(said.result)
            return
        draft = self.builder.add(
            said.actor, said.text, content=said.content, reasoning=said.reasoning
        )
        draft.calls.extend(said.calls)
        if said.actor == "agent":
            draft.values["is_copied"] = True

    def _answer(self, step: Mapping[str, Any], own: Said | None, observed: Any) -> None:
        given = step.get("model_response")
        text = own.text if own is not None and own.text is not None else text_of(given)
        reasoning = step.get("thought") or (own.reasoning if own is not None else None)
        draft = self.builder.add("agent", text, reasoning=reasoning, **_values(step, observed))
        if own is not None:
            self._seen[own.key] += 1
            draft.calls.extend(own.calls)
            if own.content is not None:
                draft.values["content"] = own.content
        action = step.get("action")
        if isinstance(action, Mapping) and action.get("type") == "tool_call":
            draft.calls.append(ToolCall.of(action.get("tool_name"), action.get("tool_args")))
            if action.get("tool_result") is not None:
                result = result_text(action["tool_result"])
                draft.observations.append(Observation(text=result))


def _values(step: Mapping[str, Any], observed: Any) -> dict[str, Any]:
    """Token fields, reward, and the rest as metadata.

    ``advantage`` and ``mc_return`` stay in the metadata: they were computed, and by one trainer.
    """
    values: dict[str, Any] = {"reward": number(step.get("reward"))}
    response, prompt = token_ids(step.get("response_ids")), step.get("prompt_ids") or ()
    if response:
        values["completion_token_ids"] = response
        values["completion_tokens"] = len(response)
        values["logprobs"] = logprobs(step.get("logprobs"))
    if prompt and all(isinstance(p, int) for p in prompt):
        values["prompt_token_ids"] = token_ids(prompt)
        values["prompt_tokens"] = len(prompt)
    action = step.get("action")
    told = isinstance(action, Mapping) and ("role" in action or action.get("type") == "tool_call")
    kept = {k: v for k, v in step.items() if k not in _TAKEN and v not in _NOTHING}
    if action not in _NOTHING and not told:
        kept["action"] = action
    output = step.get("model_output")
    if isinstance(output, Mapping):
        names = ("finish_reason", "weight_version", "prompt_length", "completion_length")
        kept |= {k: output[k] for k in names if output.get(k) is not None}
    if isinstance(observed, str) and observed:
        kept["observation"] = observed
    elif observed not in _NOTHING:
        values["state"] = json_text(observed)
    values["metadata"] = rest(kept, ())
    return values
