"""Single runs with a verdict: what every KTO target starts from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from trajstore.exports.chat_options import ChatOptions
from trajstore.exports.conversation import Unfit, conversation, first_own_step
from trajstore.exports.messages import Message
from trajstore.exports.tools import tool_definitions
from trajstore.exports.writing import Refused
from trajstore.schema import Trajectory

REFUSALS: Mapping[str, str] = {
    "no-prompt": "nothing comes before the agent's first turn, so there is no prompt",
    "nothing-to-train": "no agent turn of its own: all are copied, format errors or empty",
    "media": "a message has images, audio or files; media='mark' writes their kind instead",
    "arguments": "arguments of a call are no JSON object that loads again; arguments='text' keeps "
    "them as the model wrote them (trl)",
}
"""Why a run gives no row, and what to do about it."""

KtoOptions = ChatOptions
"""What a row of KTO looks like."""

DEFAULT_OPTIONS = KtoOptions()
"""Messages with reasoning and arguments as objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A run and what it is worth."""

    run: Trajectory
    value: float
    """Its value by the criterion."""
    good: bool
    """Whether it is desirable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KtoRow:
    """One run as a prompt, a completion and a label."""

    trajectory_id: str
    task_id: str
    value: float
    label: bool
    prompt: list[Message]
    """Everything before the agent's first turn."""
    completion: list[Message]
    trainable: list[bool]
    """For each message of the completion, whether loss may fall on it."""
    tools: str | None
    """JSON text of the tool definitions, or None."""
    applied: Mapping[str, int]
    """Rules that changed something, counted."""


def kto_rows(
    judged: Iterable[Judged], options: KtoOptions = DEFAULT_OPTIONS
) -> Iterator[KtoRow | Refused]:
    """Rows and refusals, in the order of the runs.

    In a bad run, format errors are part of what went wrong, so loss may fall on them there.
    """
    for each in judged:
        run = each.run
        cut = first_own_step(run)
        try:
            made = conversation(run, cut, options, train_format_errors=not each.good)
        except Unfit as unfit:
            yield refused(run.trajectory_id, unfit, REFUSALS)
            continue
        yield KtoRow(
            trajectory_id=run.trajectory_id,
            task_id=run.task_id,
            value=each.value,
            label=each.good,
            prompt=made.prompt,
            completion=made.completion,
            trainable=made.trainable,
            tools=tool_definitions(run.tools),
            applied=made.applied,
        )


def refused(trajectory_id: str, unfit: Unfit, words: Mapping[str, str]) -> Refused:
    """A refusal that names the run."""
    place = f": {unfit.detail}" if unfit.detail else ""
    return Refused(
        id=trajectory_id,
        reason=unfit.reason,
        detail=f"run {trajectory_id}{place}. {words[unfit.reason]}",
    )
