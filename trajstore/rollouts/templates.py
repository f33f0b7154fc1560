"""Chat templates: which text a model reads, and what each of them needs to be told."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trajstore._optional import require
from trajstore.errors import TrainingError
from trajstore.schema.chat_templates import BARE_CHATML, CHATML_TOOLS

Message = dict[str, Any]
"""One chat message as OpenAI and TRL have it."""

_MARKS = re.compile(r"\{%-?\s*generation\s*-?%\}")
_PROBE = "probe_tool"
_PROBE_TOOL = {
    "type": "function",
    "function": {
        "name": _PROBE,
        "description": "A probe.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}
_PROBE_ID = "a1b2c3d4e"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplate:
    """A Jinja template, and the facts about it that its text does not say."""

    name: str
    """For messages."""
    text: str
    """The template, as ``tokenizer.apply_chat_template`` takes it."""
    end_of_turn: str
    """What a model writes last in a turn; it is trained on."""
    arguments: Literal["text", "object"] = "text"
    """Whether arguments of calls are given as the model wrote them or parsed. Parsed ones are
    written anew, so spaces and the form of numbers may differ from what the model wrote."""
    append_only: bool = False
    """True promises that more messages never change the text of earlier ones, and that ``{%
    generation %}`` marks what the assistant produced: then one rendering does for a whole run."""
    call_id_length: int | None = None
    """Length of call ids that the template insists on; other ids are replaced by hashes."""

    @property
    def marked(self) -> bool:
        """Whether it holds ``{% generation %}`` marks."""
        return _MARKS.search(self.text) is not None


CHATML = ChatTemplate(
    name="chatml-tools", text=CHATML_TOOLS, end_of_turn="<|im_end|>", append_only=True
)
"""Ours, for models whose template cannot say tools: :data:`CHATML_TOOLS`."""

BARE = ChatTemplate(name="bare", text=BARE_CHATML, end_of_turn="<|im_end|>", append_only=True)
"""For small models of one environment: :data:`BARE_CHATML`."""


def template_of(tokenizer: Any, *, end_of_turn: str | None = None) -> ChatTemplate:
    """The tokenizer's own template, asked for what it can say.

    Args:
        tokenizer: of transformers, with a ``chat_template``.
        end_of_turn: what ends a turn, where that is not the tokenizer's ``eos_token``.

    Raises:
        TrainingError: it has none, or one that leaves out tools, calls or results, as plain
            ChatML does. Use :data:`CHATML` then.
    """
    text, end = tokenizer.chat_template, end_of_turn or tokenizer.eos_token
    if not isinstance(text, str) or not isinstance(end, str):
        raise TrainingError(_advice("the tokenizer has no chat template or no end-of-turn token"))
    found = ChatTemplate(name="the tokenizer's own", text=text, end_of_turn=end)
    shown = {kind: _probe(tokenizer, found, kind) for kind in ("text", "object")}
    if (rendered := shown["object"] or shown["text"]) is None:
        raise TrainingError(_advice("the tokenizer's chat template fails on a call of a tool"))
    missing = [
        what
        for what, part in (
            ("definitions of tools", "A probe."),
            ("calls", "1234321"),
            ("results", "probe result"),
        )
        if part not in rendered
    ]
    if missing:
        lost = " and ".join(missing)
        raise TrainingError(_advice(f"the tokenizer's chat template does not show {lost}"))
    as_written = shown["text"] is not None and '{"a":  1234321}' in shown["text"]
    return ChatTemplate(
        name=found.name,
        text=text,
        end_of_turn=end,
        arguments="text" if as_written else "object",
        call_id_length=None if _long_ids(tokenizer, found) else len(_PROBE_ID),
    )


def _advice(wrong: str) -> str:
    return f"{wrong}; train, and sample, with the template 'chatml-tools' (trainers.CHATML)"


def _conversation(kind: str, call_id: str) -> list[Message]:
    arguments: Any = '{"a":  1234321}' if kind == "text" else {"a": 1234321}
    function = {"name": _PROBE, "arguments": arguments}
    call = {"id": call_id, "type": "function", "function": function}
    return [
        {"role": "user", "content": "probe question"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": _PROBE, "tool_call_id": call_id, "content": "probe result"},
    ]


def _probe(
    tokenizer: Any, template: ChatTemplate, kind: str, call_id: str = _PROBE_ID
) -> str | None:
    try:
        return render(tokenizer, template, _conversation(kind, call_id), [_PROBE_TOOL])
    except TrainingError:
        return None


def _long_ids(tokenizer: Any, template: ChatTemplate) -> bool:
    return any(_probe(tokenizer, template, kind, "call_1") for kind in ("text", "object"))


def render(
    tokenizer: Any,
    template: ChatTemplate,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] | None,
    *,
    ask: bool = False,
) -> str:
    """The text of messages.

    Args:
        tokenizer: of transformers; its special tokens are given to the template.
        template: how.
        messages: what was said.
        tools: definitions on offer.
        ask: also write what precedes the next turn of the assistant.

    Raises:
        TrainingError: the template refuses the messages.
    """
    try:
        return str(
            tokenizer.apply_chat_template(
                list(messages),
                tools=list(tools) if tools else None,
                chat_template=template.text,
                tokenize=False,
                add_generation_prompt=ask,
            )
        )
    except Exception as error:  # templates raise what they like
        raise TrainingError(_refused(template, error)) from error


def render_marked(
    tokenizer: Any,
    template: ChatTemplate,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] | None,
) -> tuple[str, list[tuple[int, int]]]:
    """The text of messages, and where in it each turn of the assistant begins and ends.

    Raises:
        TrainingError: the template refuses the messages.
    """
    module = require(
        "transformers.utils.chat_template_utils", extra="train", purpose="Rendering a template"
    )
    try:
        texts, spans = module.render_jinja_template(
            conversations=[list(messages)],
            tools=list(tools) if tools else None,
            chat_template=template.text,
            return_assistant_tokens_mask=True,
            **tokenizer.special_tokens_map,
        )
    except Exception as error:  # templates raise what they like
        raise TrainingError(_refused(template, error)) from error
    return texts[0], [(start, end) for start, end in spans[0]]


def _refused(template: ChatTemplate, error: Exception) -> str:
    kind = type(error).__name__
    return f"the chat template '{template.name}' refuses the messages: {kind}: {error}"


def with_call_ids(messages: Sequence[Message], length: int | None) -> list[Message]:
    """Copies of messages whose call ids have that length; other ids are replaced by hashes.

    >>> [m] = with_call_ids([{"role": "tool", "tool_call_id": "call_1", "content": ""}], 9)
    >>> m["tool_call_id"]
    '74196fe72'
    """
    if length is None:
        return list(messages)
    return [_with_call_ids(m, length) for m in messages]


def _with_call_ids(message: Message, length: int) -> Message:
    changed = dict(message)
    if "tool_call_id" in message:
        changed["tool_call_id"] = _call_id(message["tool_call_id"], length)
    if "tool_calls" in message:
        changed["tool_calls"] = [
            {**c, "id": _call_id(c["id"], length)} for c in message["tool_calls"]
        ]
    return changed


def _call_id(given: str, length: int) -> str:
    if len(given) == length and given.isalnum() and given.isascii():
        return given
    return hashlib.sha256(given.encode("utf-8", "replace")).hexdigest()[:length]
