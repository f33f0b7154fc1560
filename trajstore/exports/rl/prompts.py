"""One prompt a task: what every trainer that samples for itself starts from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trajstore.exports.arguments import with_objects
from trajstore.exports.chat_options import ChatOptions
from trajstore.exports.conversation import Unfit, first_own_step
from trajstore.exports.messages import Message, render_prompt
from trajstore.exports.tools import tool_definitions
from trajstore.exports.writing import Refused
from trajstore.schema import Trajectory, canonical_json

REFUSALS: Mapping[str, str] = {
    "no-prompt": "nothing comes before the agent's first turn",
    "prompts-differ": "the attempts share no first message; differing='first' takes the prompt of "
    "the first attempt",
    "tools-differ": "the attempts were offered different tools; differing='first' takes those of "
    "the first attempt",
    "no-ground-truth": "the metadata of the first attempt hold nothing under that name; leave such "
    "tasks out, or name another one",
    "media": "a message has images, audio or files; media='mark' writes their kind instead",
    "arguments": "arguments of a copied call are no JSON object; leave such tasks out",
}
"""Why a task gives no prompt, and what to do about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions(ChatOptions):
    """What a row of a prompt looks like."""

    differing: Literal["shared", "first"] = "shared"
    """Where attempts at a task opened differently: the messages that all of them begin with, or the
    whole prompt of the first attempt. A simulated user opens every attempt with other words, so
    what is shared there is the system message; the words are the environment's to say."""
    ground_truth: str | None = None
    """Name of the answer in the metadata of runs, such as ``answer`` or ``info.answer``. Without it
    no row holds an answer."""
    data_source: str | None = None
    """For verl: which reward function judges; the environment or source of the run where None."""
    ability: str = "agent"
    """For verl: the kind of task."""
    split: str = "train"
    """For verl: the split that rows say they are of."""


DEFAULT_OPTIONS = PromptOptions()
"""What all attempts share, and no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRow:
    """One task."""

    task_id: str
    trajectory_id: str
    """Its first attempt."""
    attempts: int
    """Attempts that were looked at."""
    prompt: list[Message]
    tools: str | None
    """JSON text of the tool definitions, or None."""
    ground_truth: str | None
    """The answer, where it was asked for: text as it is, anything else as JSON text."""
    environment: str
    """Environment of the first attempt, else its source."""
    uses_tools: bool
    """Whether an attempt was offered tools, or called any."""
    applied: Mapping[str, int]
    """Rules that changed something, counted."""


RULES: Mapping[str, str] = {
    "prompt-shortened": "the attempts opened differently, and the row holds what they share",
    "first-attempt": "the attempts opened differently, and the row holds the first one's prompt",
}
"""What may happen where attempts differ."""


def prompt_rows(
    tasks: Iterable[Iterable[Trajectory]], options: PromptOptions = DEFAULT_OPTIONS
) -> Iterator[PromptRow | Refused]:
    """Rows and refusals, one a task.

    Args:
        tasks: the attempts at each task, the first one first, each read once.
        options: what rows look like.
    """
    for attempts in tasks:
        others = iter(attempts)
        first = next(others, None)
        if first is None:
            continue
        try:
            yield _row(first, others, options)
        except Unfit as unfit:
            yield refused(first.task_id, unfit, REFUSALS)


def refused(task_id: str, unfit: Unfit, words: Mapping[str, str]) -> Refused:
    """A refusal that names the task."""
    place = f": {unfit.detail}" if unfit.detail else ""
    said = f"task {task_id}{place}. {words[unfit.reason]}"
    return Refused(id=task_id, reason=unfit.reason, detail=said)


def _row(first: Trajectory, others: Iterator[Trajectory], options: PromptOptions) -> PromptRow:
    applied: Counter[str] = Counter()
    tools = tool_definitions(first.tools)
    shared = prompt = _prompt(first, options, applied)
    uses_tools = tools is not None or first.n_tool_calls > 0
    attempts = 1
    for other in others:
        attempts += 1
        uses_tools = uses_tools or other.n_tool_calls > 0
        shared = _common(shared, _prompt(other, options, Counter()))
        if options.differing == "shared" and tool_definitions(other.tools) != tools:
            raise Unfit("tools-differ", f"runs {first.trajectory_id} and {other.trajectory_id}")
    if options.differing == "shared" and prompt and not shared:
        raise Unfit("prompts-differ")
    if len(shared) < len(prompt):
        shortened = options.differing == "shared"
        applied["prompt-shortened" if shortened else "first-attempt"] += 1
        prompt = shared if shortened else prompt
    if not prompt:
        raise Unfit("no-prompt")
    return PromptRow(
        task_id=first.task_id,
        trajectory_id=first.trajectory_id,
        attempts=attempts,
        prompt=prompt,
        tools=tools,
        ground_truth=_ground_truth(first, options.ground_truth),
        environment=first.environment or first.source,
        uses_tools=uses_tools,
        applied=applied,
    )


def _prompt(run: Trajectory, options: PromptOptions, applied: Counter[str]) -> list[Message]:
    chat = render_prompt(run, first_own_step(run), options.rules(train_format_errors=False))
    if options.media == "refuse" and chat.applied.get("media-marked"):
        raise Unfit("media", f"run {run.trajectory_id}")
    applied.update(chat.applied)
    if options.arguments == "text":
        return chat.messages
    try:
        return with_objects(chat.messages)
    except ValueError as error:
        raise Unfit("arguments", str(error)) from error


def _common(left: list[Message], right: list[Message]) -> list[Message]:
    pairs = zip(left, right, strict=False)
    length = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
    return left[:length]


def _ground_truth(run: Trajectory, name: str | None) -> str | None:
    if name is None:
        return None
    value: Any = json.loads(run.metadata) if run.metadata else {}
    for key in name.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if value is None:
        raise Unfit("no-ground-truth", f"run {run.trajectory_id} has no {name!r}")
    return value if isinstance(value, str) else canonical_json(value)
