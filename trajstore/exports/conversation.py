"""Some steps of a run as a prompt and what follows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from trajstore.exports.arguments import with_objects
from trajstore.exports.chat_options import ChatOptions
from trajstore.exports.messages import Message, render_parts
from trajstore.schema import Trajectory, counted


class Runs(Protocol):
    """Where whole runs come from."""

    def __call__(self, ids: Sequence[str]) -> Iterable[Trajectory]:
        """Runs of those ids, in any order; an id that is not there is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A prompt and what follows it."""

    prompt: list[Message]
    completion: list[Message]
    trainable: list[bool]
    """For each message of the completion, whether loss may fall on it."""
    applied: Mapping[str, int]
    """Rules that changed something, counted."""


class Unfit(Exception):  # noqa: N818  it is caught here and becomes a refusal
    """A run that cannot become a row; the reason's name, and where."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


def conversation(
    trajectory: Trajectory,
    n_prompt_steps: int,
    options: ChatOptions,
    *,
    train_format_errors: bool = False,
    need_prompt: bool = True,
) -> Conversation:
    """The first steps of a run as the prompt, the others up to the last agent turn as what follows.

    Args:
        trajectory: the run.
        n_prompt_steps: how many steps are the prompt.
        options: how steps become messages.
        train_format_errors: whether loss may fall on turns that could not be parsed.
        need_prompt: whether a run that opens with the agent is unfit.

    Raises:
        Unfit: there is no prompt, nothing to train on, media, or arguments that do not parse.
    """
    rules = options.rules(train_format_errors=train_format_errors)
    chat, length = render_parts(trajectory, n_prompt_steps, rules)
    if options.media == "refuse" and chat.applied.get("media-marked"):
        raise Unfit("media")
    said = [i for i, m in enumerate(chat.messages) if m["role"] == "assistant"]
    end = max(length, said[-1] + 1 if said else 0)
    messages = chat.messages[:end]
    applied = dict(chat.applied)
    if left_out := len(chat.messages) - end:
        applied["tail-left-out"] = left_out
    if need_prompt and not length:
        raise Unfit("no-prompt")
    if not any(chat.trainable[length:end]):
        raise Unfit("nothing-to-train")
    if options.arguments == "object":
        try:
            messages = with_objects(messages)
        except ValueError as error:
            raise Unfit("arguments", str(error)) from error
    return Conversation(
        prompt=messages[:length],
        completion=messages[length:],
        trainable=chat.trainable[length:end],
        applied=applied,
    )


def first_own_step(trajectory: Trajectory) -> int:
    """Index of the first agent step that is no copied context; the number of steps if none is."""
    own = (i for i, s in enumerate(trajectory.steps) if s.actor == "agent" and counted(s))
    return next(own, len(trajectory.steps))
