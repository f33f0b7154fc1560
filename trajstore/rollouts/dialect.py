"""Messages to tokens and tokens to actions: what a policy that reads and writes tokens speaks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from trajstore.errors import TrainingError
from trajstore.rollouts.encoding import encode
from trajstore.rollouts.environment import Action, Tool
from trajstore.rollouts.policy import Message
from trajstore.rollouts.templates import CHATML, ChatTemplate, render, with_call_ids
from trajstore.schema import ToolCall

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_WRITTEN = re.compile(
    r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*(?:,\s*"arguments"\s*:\s*(.*\S)\s*)?\}\s*',
    re.DOTALL,
)
_OPEN, _THINK, _THOUGHT = "<tool_call>", "<think>", "</think>"
_TOKENS = ("prompt_token_ids", "completion_token_ids")


class Dialect:
    """The words of one model: its tokenizer, a chat template, and Hermes' form of tool calls.

    Reading and writing are inverse where it matters: the tokens of a turn are kept as they were
    sampled and never made again from the action that was read from them.
    """

    def __init__(self, tokenizer: Any, template: ChatTemplate = CHATML) -> None:
        """Look up what ends a turn.

        Args:
            tokenizer: of transformers.
            template: how messages become text.

        Raises:
            TrainingError: the end of a turn is not one token of the tokenizer.
        """
        self.tokenizer = tokenizer
        self.template = template
        (end,) = encode([template.end_of_turn], tokenizer)
        if len(end) != 1:
            message = (
                f"{template.end_of_turn!r}, the end of a turn in the template '{template.name}', "
                f"is {len(end)} tokens of this tokenizer; add it as a special token"
            )
            raise TrainingError(message)
        self.end_of_turn: int = end[0]
        """The token that ends a turn."""
        eos = tokenizer.eos_token_id
        self.stop_ids: tuple[int, ...] = tuple(
            dict.fromkeys([self.end_of_turn, *([] if eos is None else [int(eos)])])
        )
        """Tokens after which the policy has said all; the first is the end of a turn."""

    def prompt(self, messages: Sequence[Message], tools: Sequence[Tool]) -> list[int]:
        """The tokens that the policy reads before its next turn.

        Where an earlier turn holds the tokens that were read and written in it, the prompt is
        those, an end of turn if the sampler was cut off before it, and the tokens of what was said
        since. A template that writes earlier turns in another way once there are later ones (Qwen's
        drops their reasoning) is obeyed: then everything is tokenised anew.

        Args:
            messages: the conversation so far, oldest first.
            tools: the tools on offer.

        Raises:
            TrainingError: the template refuses the messages, or the tokenizer loses text.
        """
        shown = self._shown(messages)
        whole = render(self.tokenizer, self.template, shown, tools, ask=True)
        known = _last_known(messages)
        if known is not None:
            before = render(self.tokenizer, self.template, shown[: known + 1], tools)
            end = before.rfind(self.template.end_of_turn) + len(self.template.end_of_turn)
            if whole.startswith(before[:end]):
                said = messages[known]
                ids = [*said["prompt_token_ids"], *said["completion_token_ids"]]
                if ids[-1] != self.end_of_turn:
                    ids.append(self.end_of_turn)
                return ids + encode([whole[end:]], self.tokenizer)[0]
        return encode([whole], self.tokenizer)[0]

    def read(self, token_ids: Sequence[int], *, calls_before: int = 0) -> tuple[Action, bool]:
        """What the policy did, and True where its output could not be parsed.

        Text around calls is the action's text, what stands in ``<think>`` its reasoning. A call
        whose name can be read is kept with its arguments as they were written, also if those are no
        JSON. What cannot be read as a call stays in the text, and so does a call or a thought that
        never ends.

        Args:
            token_ids: what was sampled, with the end of turn if there is one.
            calls_before: calls made earlier in the run; ids go on from there: ``call_1``, ...
        """
        ids = list(token_ids)
        end = next((i for i, token in enumerate(ids) if token in self.stop_ids), len(ids))
        text = self.tokenizer.decode(
            ids[:end], skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        thought, said = _thought(text)
        calls: list[ToolCall] = []
        rest = ""
        done = 0
        for found in _CALL.finditer(said):
            call = _call(found.group(1), f"call_{calls_before + len(calls) + 1}")
            rest += said[done : found.end()] if call is None else said[done : found.start()]
            done = found.end()
            calls += [] if call is None else [call]
        rest = (rest + said[done:]).strip()
        broken = _OPEN in rest or (thought is None and _THINK in text)
        broken = broken or any(not _is_object(call) for call in calls)
        return Action(text=rest or None, reasoning=thought, tool_calls=tuple(calls)), broken

    def _shown(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """The messages as the template takes them."""
        plain = [
            {**{k: v for k, v in m.items() if k not in _TOKENS}, "content": m.get("content") or ""}
            for m in messages
        ]
        made = with_call_ids(plain, self.template.call_id_length)
        return made if self.template.arguments == "text" else [_parsed(m) for m in made]


def calls_in(messages: Sequence[Message]) -> int:
    """How many tools the policy has called so far."""
    return sum(len(m.get("tool_calls") or ()) for m in messages if m["role"] == "assistant")


def _last_known(messages: Sequence[Message]) -> int | None:
    """Place of the newest turn whose tokens are known."""
    said = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
    known = [i for i in said if all(messages[i].get(name) for name in _TOKENS)]
    return known[-1] if known else None


def _thought(text: str) -> tuple[str | None, str]:
    """Reasoning, and what comes after it; a prompt may have opened it already."""
    before, end, after = text.partition(_THOUGHT)
    if not end:
        return None, text
    return before.strip().removeprefix(_THINK).strip("\n"), after


def _call(body: str, call_id: str) -> ToolCall | None:
    """The call that is written there, or None."""
    written = _WRITTEN.fullmatch(body)
    try:
        if written is not None:
            return ToolCall.of(json.loads(written.group(1)), written.group(2), call_id)
        given = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        return None
    return ToolCall.of(given["name"], given.get("arguments"), call_id)


def _is_object(call: ToolCall) -> bool:
    if call.arguments is None:
        return call.arguments_raw is None
    return call.arguments.startswith("{")


def _parsed(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with arguments as objects; those that are no JSON stay text."""
    if "tool_calls" not in message:
        return dict(message)
    calls = [
        {**c, "function": {**c["function"], "arguments": _object(c["function"]["arguments"])}}
        for c in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
