"""Rows for supervised fine-tuning: what every target starts from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args, get_type_hints

from trajstore.errors import ExportError
from trajstore.exports.arguments import with_objects
from trajstore.exports.messages import Chat, ChatRules, Message, render_chat
from trajstore.exports.splitting import UnclearCondensationError, context_windows
from trajstore.exports.token_counts import row_tokens, token_counter
from trajstore.exports.tools import tool_definitions
from trajstore.schema import Trajectory

Target = Literal["trl", "openai", "llama-factory", "verl", "openrlhf", "axolotl"]
"""The trainer whose shape is written."""

Layout = Literal["messages", "prompt-completion"]
"""How a run becomes rows."""

REFUSALS: Mapping[str, str] = {
    "no-steps": "the run has no steps",
    "nothing-to-train": "no agent turn of its own: all are copied, format errors or empty",
    "masked-turn": "an agent turn must not be trained on, which a row of messages cannot tell the "
    "trainer; layout='prompt-completion' can for TRL, the targets openai and axolotl can, "
    "masked_turns='keep' keeps the row as it is",
    "no-prompt": "nothing comes before the only turn to train on, so there is no prompt",
    "media": "a message has images, audio or files; media='mark' writes their kind instead",
    "arguments": "arguments of a call are no JSON object that loads again; arguments='text' keeps "
    "them as the model wrote them (trl, openrlhf), the target openai takes any text",
    "too-long": "the run is longer than max_tokens and cannot be split into contexts that fit and "
    "that the model saw; allow more tokens, or leave such runs out (stages: tokens, size)",
}
"""Why a run gives no row, and what to do about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SftOptions:
    """What rows look like, and which runs give none."""

    layout: Layout = "messages"
    """``messages``: the whole run in one row. ``prompt-completion``: a completion starts at an
    agent turn that is trained on and ends at the last one before a turn that is not; a run with
    such turns gives several rows, and each turn is trained on in exactly one. An agent turn that
    opens the run is prompt. In both, messages after the last agent turn are left out: no loss can
    fall there."""
    arguments: Literal["object", "text"] = "object"
    """``object``: arguments parsed, as TRL documents; most of its templates refuse or quote twice
    what is text. ``text``: byte for byte what the model wrote, for templates that take text. For
    TRL and OpenRLHF; each other target reads one of the two and gets that."""
    include_reasoning: bool = True
    """Write ``reasoning_content``."""
    masked_turns: Literal["refuse", "keep"] = "refuse"
    """Whether ``messages`` may hold agent turns that must not be trained on. Kept rows need a mask
    from the column ``trainable`` (TRL), since most trainers train on every assistant message;
    targets that can tell which (openai, axolotl) always keep them."""
    media: Literal["refuse", "mark"] = "refuse"
    """Whether parts that are no text become a mark such as ``[image]``."""
    train_format_errors: bool = False
    """Whether turns whose output could not be parsed are trained on."""
    environment: Literal["user", "drop"] = "user"
    """What becomes of environment steps; see :class:`ChatRules`."""
    consecutive: Literal["keep", "merge"] = "keep"
    """What becomes of user or system messages in a row; see :class:`ChatRules`."""
    max_tokens: int | None = None
    """Most tokens of a row. A longer run is split where its context was condensed, into the
    contexts that the model saw; a turn that an earlier row trains on is masked context in a later
    one. Where that is not enough, the run gives no row. None for no bound, and no splitting."""
    tokenizer: str | None = None
    """A ``tokenizer.json``, or a folder that holds one, to count tokens by; None to estimate them,
    one for three characters."""

    def __post_init__(self) -> None:
        """Refuse unknown choices with the real ones."""
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ExportError(f"max_tokens is {self.max_tokens}; it must be at least 1")
        for name, hint in get_type_hints(SftOptions).items():
            if name in {"max_tokens", "tokenizer"}:
                continue
            known = get_args(hint) or (True, False)
            if getattr(self, name) not in known:
                choices = ", ".join(repr(k) for k in known)
                message = f"{name} is {getattr(self, name)!r}; it must be one of {choices}"
                raise ExportError(message)

    def rules(self) -> ChatRules:
        """The part that concerns messages."""
        return ChatRules(**{f.name: getattr(self, f.name) for f in fields(ChatRules)})


DEFAULT_OPTIONS = SftOptions()
"""One row a run, in the shape that TRL documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SftRow:
    """One training example."""

    trajectory_id: str
    task_id: str
    reward: float | None
    """The run's reward; None where unknown or not finite."""
    success: bool | None
    """The run's outcome."""
    messages: list[Message]
    """All messages, the prompt included."""
    trainable: list[bool]
    """For each message, whether loss may fall on it in this row."""
    tools: str | None
    """JSON text of the tool definitions, or None."""
    prompt_length: int = 0
    """How many messages are the prompt (layout ``prompt-completion``)."""
    applied: Mapping[str, int]
    """Rules that changed the run on its way to messages, counted in its first row."""

    def record(self, layout: str) -> dict[str, Any]:
        """The columns of the row; the order is that of the file."""
        if layout == "messages":
            shape: dict[str, Any] = {"messages": self.messages}
        else:
            cut = self.prompt_length
            shape = {"prompt": self.messages[:cut], "completion": self.messages[cut:]}
        return {
            **shape,
            "tools": self.tools,
            "trainable": self.trainable,
            "trajectory_id": self.trajectory_id,
            "task_id": self.task_id,
            "reward": self.reward,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A run that gives no row."""

    trajectory_id: str
    reason: str
    """A key of :data:`REFUSALS`, or of the target's own."""
    detail: str
    """The reason in words, with the place where there is one."""


def run_rows(trajectory: Trajectory, options: SftOptions) -> Iterator[SftRow | Refusal]:
    """The rows of one run, or the reason why it gives none.

    Raises:
        ExportError: ``options.tokenizer`` names none.
    """
    found = _context_rows(trajectory, options)
    yield from found if options.max_tokens is None else _fitting(trajectory, [*found], options)


def _fitting(
    trajectory: Trajectory, found: list[SftRow | Refusal], options: SftOptions
) -> Iterable[SftRow | Refusal]:
    """The rows where all of them fit, else those of each context of the model, else a refusal."""
    longest = _longest(found, options)
    if options.max_tokens is None or longest <= options.max_tokens:
        return found
    said = f"{longest:,} tokens of {options.max_tokens:,}"
    try:
        windows = context_windows(trajectory)
    except UnclearCondensationError as error:
        return [_refusal(trajectory, "too-long", f"{said}; {error}")]
    if len(windows) == 1:
        return [_refusal(trajectory, "too-long", f"{said}; no condensation is recorded")]
    parts = [row for window in windows for row in _context_rows(window, options)]
    refused = [r for r in parts if isinstance(r, Refusal) and r.reason != "nothing-to-train"]
    rows = [r for r in parts if isinstance(r, SftRow)]
    if refused or not rows:
        return refused[:1] or found
    longest = _longest(parts, options)
    if longest > options.max_tokens:
        said = f"{longest:,} tokens of {options.max_tokens:,} in one of {len(windows)} contexts"
        return [_refusal(trajectory, "too-long", said)]
    return _as_one_run(rows, len(windows))


def _longest(found: Iterable[SftRow | Refusal], options: SftOptions) -> int:
    count = token_counter(options.tokenizer)
    rows = (row for row in found if isinstance(row, SftRow))
    return max((row_tokens(row.messages, row.tools, count) for row in rows), default=0)


def _as_one_run(rows: list[SftRow], contexts: int) -> Iterator[SftRow]:
    """Rows of several contexts: what changed in any of them is counted in the first row."""
    applied = Counter({"split-at-condensation": contexts - 1})
    for row in rows:
        applied.update(row.applied)
    for place, row in enumerate(rows):
        yield replace(row, applied={} if place else dict(applied))


def _context_rows(trajectory: Trajectory, options: SftOptions) -> Iterator[SftRow | Refusal]:
    """The rows of steps that were all in one context."""
    chat = _without_tail(render_chat(trajectory, options.rules()))
    if options.layout == "prompt-completion":
        chat = _with_prompt(chat)
    reason = _unfit(trajectory, chat, options)
    if reason is not None:
        yield _refusal(trajectory, reason)
        return
    messages = chat.messages
    if options.arguments == "object":
        try:
            messages = with_objects(messages)
        except ValueError as error:
            yield _refusal(trajectory, "arguments", str(error))
            return
    whole = SftRow(
        trajectory_id=trajectory.trajectory_id,
        task_id=trajectory.task_id,
        reward=_finite(trajectory.reward),
        success=trajectory.success,
        messages=messages,
        trainable=chat.trainable,
        tools=tool_definitions(trajectory.tools),
        applied=chat.applied,
    )
    yield from (whole,) if options.layout == "messages" else _split(whole)


def _without_tail(chat: Chat) -> Chat:
    """The chat up to its last assistant message."""
    last = max((i for i, m in enumerate(chat.messages) if m["role"] == "assistant"), default=-1)
    left_out = len(chat.messages) - last - 1
    if last < 0 or not left_out:
        return chat
    return Chat(
        messages=chat.messages[: last + 1],
        trainable=chat.trainable[: last + 1],
        applied={**chat.applied, "tail-left-out": left_out},
    )


def _with_prompt(chat: Chat) -> Chat:
    """The chat with its first message not trained on: something has to be the prompt."""
    if not any(chat.trainable[:1]):
        return chat
    applied = {**chat.applied, "opening-as-prompt": 1}
    return replace(chat, trainable=[False, *chat.trainable[1:]], applied=applied)


def _unfit(trajectory: Trajectory, chat: Chat, options: SftOptions) -> str | None:
    masked = any(
        message["role"] == "assistant" and not trained
        for message, trained in zip(chat.messages, chat.trainable, strict=True)
    )
    if not trajectory.steps:
        return "no-steps"
    if not any(chat.trainable):
        return "no-prompt" if "opening-as-prompt" in chat.applied else "nothing-to-train"
    if options.media == "refuse" and "media-marked" in chat.applied:
        return "media"
    if masked and options.layout == "messages" and options.masked_turns == "refuse":
        return "masked-turn"
    return None


def _refusal(trajectory: Trajectory, reason: str, detail: str | None = None) -> Refusal:
    said = REFUSALS[reason] if detail is None else f"{detail}. {REFUSALS[reason]}"
    return Refusal(trajectory_id=trajectory.trajectory_id, reason=reason, detail=said)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _split(whole: SftRow) -> Iterator[SftRow]:
    """A row for each stretch of trained turns that no masked turn interrupts."""
    applied = whole.applied
    for start, end in _stretches(whole):
        yield replace(
            whole,
            messages=whole.messages[:end],
            trainable=[i >= start and t for i, t in enumerate(whole.trainable[:end])],
            prompt_length=start,
            applied=applied,
        )
        applied = {}


def _stretches(row: SftRow) -> Iterator[tuple[int, int]]:
    """First trained message of each stretch, and the place after its last."""
    start, end = None, 0
    for i, (message, trained) in enumerate(zip(row.messages, row.trainable, strict=True)):
        if trained:
            start, end = (i if start is None else start), i + 1
        elif message["role"] == "assistant" and start is not None:
            yield start, end
            start = None
    if start is not None:
        yield start, end
