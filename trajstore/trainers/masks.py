"""From messages to pieces of text, each marked as read or produced by the policy.

The pieces are tokenised one by one. So no token lies across the border between what the policy read
and what it produced, which is how it was sampled: a prompt's tokens, and then one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trajstore.errors import TrainingError
from trajstore.exports.messages import Chat, Message
from trajstore.rollouts.templates import ChatTemplate, render, render_marked
from trajstore.schema import json_text

_BLANK = "\ue000"
_TAIL = 7
"""Characters by which the end of a prompt is found again; ``[/INST]`` has as many."""

_EMPTY_THINKING = re.compile(r"<think>\s*</think>\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some text of a row."""

    text: str
    """As the template wrote it."""
    step: int | None = None
    """Index of the step whose tokens these are and that is trained on; None for context."""


def pieces(
    chat: Chat,
    wanted: Sequence[bool],
    tools: Sequence[Mapping[str, Any]] | None,
    tokenizer: Any,
    template: ChatTemplate,
) -> list[list[Piece]]:
    """Rows of pieces: what was read, what was produced, and so on, up to the last trained turn.

    Templates that drop the reasoning of earlier turns, or move the tools behind, give several
    rows: a turn whose prompt does not continue the row before begins another, so that each turn
    is trained behind the very text that the policy would read.

    Args:
        chat: the messages, in the form that the template takes.
        wanted: for each message, whether to train on it.
        tools: definitions on offer.
        tokenizer: of transformers.
        template: how messages become text.

    Raises:
        TrainingError: the template refuses the messages, or does not show a part of a turn.
    """
    last = max(i for i, w in enumerate(wanted) if w)
    if template.append_only and template.marked:
        return [_at_once(chat, wanted, tools, tokenizer, template, last)]
    return _turn_by_turn(chat, wanted, tools, tokenizer, template, last)


def _at_once(
    chat: Chat,
    wanted: Sequence[bool],
    tools: Sequence[Mapping[str, Any]] | None,
    tokenizer: Any,
    template: ChatTemplate,
    last: int,
) -> list[Piece]:
    messages = chat.messages[: last + 1]
    text, spans = render_marked(tokenizer, template, messages, tools)
    said = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
    if len(spans) != len(said):
        message = (
            f"the chat template '{template.name}' marks {len(spans)} of {len(said)} turns of the "
            "assistant with {% generation %}; mark each, or set append_only=False"
        )
        raise TrainingError(message)
    row: list[Piece] = []
    done = 0
    for (start, end), place in zip(spans, said, strict=True):
        if not wanted[place]:
            continue
        step = chat.step_of[place]
        check_shown(text[start:end], messages[place], template, step)
        row += [Piece(text=text[done:start]), Piece(text=text[start:end], step=step)]
        done = end
    return row


def _turn_by_turn(
    chat: Chat,
    wanted: Sequence[bool],
    tools: Sequence[Mapping[str, Any]] | None,
    tokenizer: Any,
    template: ChatTemplate,
    last: int,
) -> list[list[Piece]]:
    rows: list[list[Piece]] = []
    so_far = ""
    for place in range(last + 1):
        if not wanted[place]:
            continue
        step = chat.step_of[place]
        prompt, produced = turn_text(chat.messages, place, tools, tokenizer, template, step)
        if not rows or not prompt.startswith(so_far):
            rows.append([])
            so_far = ""
        rows[-1] += [Piece(text=prompt[len(so_far) :]), Piece(text=produced, step=step)]
        so_far = prompt + produced
    return rows


def turn_text(
    messages: Sequence[Message],
    place: int,
    tools: Sequence[Mapping[str, Any]] | None,
    tokenizer: Any,
    template: ChatTemplate,
    step: int,
) -> tuple[str, str]:
    """What the policy read before one turn, and what it produced, with the end of turn.

    An empty ``<think></think>`` that the template writes for a turn without reasoning counts as
    read: no policy produced it.

    Args:
        messages: the conversation.
        place: index of the assistant's message.
        tools: definitions on offer.
        tokenizer: of transformers.
        template: how messages become text.
        step: index of the step, for messages.

    Raises:
        TrainingError: the template refuses the messages, does not end the turn, writes it
            otherwise than behind its own generation prompt, or leaves out a part of it.
    """
    prompt = render(tokenizer, template, messages[:place], tools, ask=True)
    whole = render(tokenizer, template, messages[: place + 1], tools)
    start = len(prompt)
    if not whole.startswith(prompt):
        blank = [*messages[:place], {"role": "assistant", "content": _BLANK}]
        start = _after(prompt, whole, render(tokenizer, template, blank, tools))
    end = whole.rfind(template.end_of_turn)
    if not 0 < start <= end:
        message = (
            f"step {step}: the chat template '{template.name}' does not write the turn between its "
            f"own generation prompt and {template.end_of_turn!r}, so what the policy produced is "
            "not known; use another template"
        )
        raise TrainingError(message)
    produced = whole[start : end + len(template.end_of_turn)]
    thought = (messages[place].get("reasoning_content") or "").strip()
    made = None if thought else _EMPTY_THINKING.match(produced)
    if made is not None:
        prompt, produced = prompt + made.group(), produced[made.end() :]
    check_shown(produced, messages[place], template, step)
    return prompt, produced


def _after(prompt: str, whole: str, blank: str) -> int:
    """Where the turn begins in a whole whose beginning is not the prompt; 0 if nowhere.

    Some templates write earlier messages in another way once an answer follows (Mistral's leaves
    out the system prompt). The turn begins behind what precedes any turn there and ends as the
    prompt does; ``blank`` is the whole with another turn in that place.
    """
    shared = next(
        (i for i, (a, b) in enumerate(zip(whole, blank, strict=False)) if a != b), len(blank)
    )
    tail = prompt[-_TAIL:]
    place = whole.rfind(tail, 0, shared)
    return place + len(tail) if place >= 0 else 0


def check_shown(produced: str, message: Message, template: ChatTemplate, step: int) -> None:
    """Check that nothing of a turn is lost in its text.

    Raises:
        TrainingError: text, reasoning or a call is not in the text, in that order of calls.
    """
    lost = list(_lost(produced, message, template))
    if lost:
        raise TrainingError(
            f"step {step}: the chat template '{template.name}' does not show {lost[0]} of the "
            "turn, so the model would not learn what the policy produced; use another template, "
            "such as 'chatml-tools'"
        )


def _lost(produced: str, message: Message, template: ChatTemplate) -> Iterator[str]:
    reasoning = message.get("reasoning_content")
    if reasoning and reasoning.strip() not in produced:
        yield "the reasoning"
    if message["content"].strip() not in produced:
        yield "the text"
    place = 0
    for call in message.get("tool_calls", ()):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        place = max(produced.find(name, place), produced.find(json_text(name)[1:-1], place))
        if place < 0:
            yield f"the call of {name!r}"
            return
        if template.arguments == "text" and arguments.strip() not in produced[place:]:
            yield f"the arguments of {name!r} as they were written"
            return
