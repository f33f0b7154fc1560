"""A note on the steps that a context no longer holds, with what the user said in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from trajstore.retrieval.compress_steps import Message, StepMessages, shorter
from trajstore.retrieval.compress_text import LEAST, shorten
from trajstore.retrieval.quoting import Fence, plain
from trajstore.retrieval.tokens import Count

Summarise = Callable[[Sequence[Mapping[str, str]]], str]
"""A chat model: messages in, the text of its answer out (``Chat`` of ``trajstore.memory``)."""

WORDS = 400
"""Most words that a model is asked for."""

_READ = 1000
_ASK = (
    "Sum up the earlier steps of an agent's run for the agent that goes on with it: what was tried "
    "and what came of it, facts and values that were found, names of files and places, what is "
    f"still open. At most {WORDS} words. Answer with the summary alone."
)


def note_on(
    gone: Sequence[StepMessages],
    count: Count,
    *,
    spoken: int,
    room: int,
    summarise: Summarise | None,
) -> str:
    """The note.

    Args:
        gone: the steps that are left out, the oldest first.
        count: text -> tokens.
        spoken: most tokens of what the user said in them; the newest words come first.
        room: most tokens of the summary.
        summarise: a model that sums them up.
    """
    number = f"{len(gone):,} earlier step{'' if len(gone) == 1 else 's'}"
    parts = [f"[{number} left out]"]
    if summarise is not None:
        said = _fitting(plain(_summary(gone, summarise)), room - _RULE_ROOM, count)
        fence = Fence.around([said])
        if said:
            parts = [f"[{number} as a summary]", fence.rule("notes on earlier steps of this run")]
            parts.append(fence.quote(1, said))
    heard = _heard(gone, spoken, count)
    return "\n\n".join([*parts, *heard])


_RULE_ROOM = 160


def with_note(intent: StepMessages, note: str) -> StepMessages:
    """What was said at the beginning, with a note behind it.

    The note joins the last message of the user, as many chat templates refuse two in a row.
    """
    last = intent[-1] if intent else {}
    if last.get("role") == "user" and isinstance(last.get("content"), str):
        return (*intent[:-1], {**last, "content": f"{last['content']}\n\n{note}"})
    return (*intent, {"role": "user", "content": note})


def _summary(gone: Sequence[StepMessages], summarise: Summarise) -> str:
    lines = [_line(m) for step in gone for m in step]
    fence = Fence.around(lines)
    body = fence.quote(1, "\n".join(lines))
    ask = f"{_ASK}\n\n{fence.rule('steps of a run')}"
    return summarise(
        [{"role": "system", "content": ask}, {"role": "user", "content": body}]
    ).strip()


def _line(message: Message) -> str:
    """One message as a line of JSON, its long texts shortened."""
    kept = shorter(message, _READ, "head-tail", results_only=False)
    shown = {k: v for k, v in kept.items() if v and k in {"role", "content", "tool_calls"}}
    return plain(json.dumps(shown, ensure_ascii=False, default=str))


def _fitting(text: str, room: int, count: Count) -> str:
    """A text inside so many tokens, its middle left out where it must be; "" where none fits."""
    most = len(text)
    while count(text) > room:
        most = most * 2 // 3
        if most < LEAST:
            return ""
        text = shorten(text, most)
    return text


def _heard(gone: Sequence[StepMessages], room: int, count: Count) -> list[str]:
    """What the user said in steps that are gone: the newest that fit, in order."""
    found: list[str] = []
    for message in (m for step in reversed(gone) for m in reversed(step)):
        content = message.get("content")
        if message.get("role") == "user" and isinstance(content, str):
            text = f"[the user said then]\n{content}"
            room -= count(text)
            if room < 0:
                return [*found, "[the user said more before]"][::-1]
            found.append(text)
    return found[::-1]
