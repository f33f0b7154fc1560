"""Steps to chat messages, with the turns to train on marked.

A chat format cannot say everything that a trajectory can, so some steps are changed on the way.
Each change follows a rule with a name (:data:`RULES`), and :attr:`Chat.applied` counts them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from trajstore.schema import Observation, Step, ToolCall, Trajectory, clean_text, counted

Message = dict[str, Any]
"""One chat message as OpenAI and TRL have it; a key without a value is absent, never null."""

RULES: Mapping[str, str] = {
    "empty-turn": "a turn with neither text nor, for the agent, reasoning or calls is left out",
    "event-as-user": "an environment step becomes a user message that starts with '[environment]'",
    "event-dropped": "an environment step is left out (environment='drop')",
    "goal-as-user": "where no user ever speaks, the goal is the user message before the agent's",
    "result-as-user": "a result of an agent turn without calls becomes a user message, text kept",
    "orphan-as-user": "a result whose call is not in its step becomes a user message that starts "
    "with '[unasked result]', after the results of the step's calls",
    "results-joined": "several results of one call become one tool message, joined by a newline",
    "foreign-call": "a call made by anyone but the agent is left out, and its result too",
    "call-unanswered": "a call without a result stays, and no tool message follows for it",
    "id-made": "a call without an id gets call_1, call_2, ... by its place in the run",
    "id-renamed": "a call id that the run has used before gets _2, _3, ... behind it",
    "no-arguments": "a call whose arguments are unknown gets the text '{}'",
    "media-marked": "a part that is no text becomes its kind in brackets, such as '[image]'",
    "reasoning-left-out": "reasoning is left out (include_reasoning=False)",
    "turns-merged": "user or system messages in a row become one (consecutive='merge')",
    "tail-left-out": "in a training row, a message after the last agent turn is left out",
    "opening-as-prompt": "in a prompt, an agent turn that opens the run is not trained on",
    "split-at-condensation": "a run longer than max_tokens gives rows of each context that the "
    "model saw; the summary is a user message there",
    "masked-turn": "an agent turn that is copied context or a format error is not trained on",
}
"""What may change on the way to messages: the rule's name and what it does."""

EVENT_MARK = "[environment]"
"""First line of a user message that nobody said."""

ORPHAN_MARK = "[unasked result]"
"""First line of a user message that holds a result without a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRules:
    """The choices that are open."""

    include_reasoning: bool = True
    """Write reasoning as ``reasoning_content``."""
    train_format_errors: bool = False
    """Also train on turns whose output could not be parsed."""
    environment: Literal["user", "drop"] = "user"
    """What becomes of environment steps."""
    consecutive: Literal["keep", "merge"] = "keep"
    """What becomes of user or system messages in a row. Agent turns are never merged: each was one
    model call that ended with an end-of-turn token."""


DEFAULT_RULES = ChatRules()
"""Keep everything, train on no format error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A trajectory as messages."""

    messages: list[Message]
    """In order; ``content`` is always a string."""
    trainable: list[bool]
    """For each message, whether loss may fall on it; True for assistant messages only."""
    applied: Mapping[str, int]
    """Rule -> how often it applied; rules that did not are absent."""
    step_of: list[int] = field(default_factory=list)
    """For each message, the index of the step that it comes from; of the goal, that of the first
    agent step."""


def chat_messages(trajectory: Trajectory) -> list[Message]:
    """The messages of a trajectory under the default rules.

    ``function.arguments`` is the text that the model wrote, byte for byte.

    >>> from trajstore.schema import Step, ToolCall
    >>> call = ToolCall.of("add", '{"a": 1}')
    >>> steps = (Step(actor="user", text="1+?"), Step(actor="agent", tool_calls=(call,)))
    >>> run = Trajectory(trajectory_id="t", task_id="t", source="s", steps=steps)
    >>> chat_messages(run)[1]["tool_calls"][0]["function"]
    {'name': 'add', 'arguments': '{"a": 1}'}
    """
    return render_chat(trajectory).messages


def render_chat(trajectory: Trajectory, rules: ChatRules = DEFAULT_RULES) -> Chat:
    """Messages, what to train on, and which rules applied."""
    writer = _Writer(trajectory, rules)
    for step in trajectory.steps:
        writer.add(step)
    return writer.chat()


def render_parts(
    trajectory: Trajectory, n_prompt_steps: int, rules: ChatRules = DEFAULT_RULES
) -> tuple[Chat, int]:
    """The messages, and how many of them come from the first ``n_prompt_steps`` steps.

    A goal that no user spoke is part of the prompt, and messages are not merged over its end.
    """
    writer = _Writer(trajectory, rules)
    for step in trajectory.steps[:n_prompt_steps]:
        writer.add(step)
    length = writer.end_prompt()
    for step in trajectory.steps[n_prompt_steps:]:
        writer.add(step)
    return writer.chat(), length


def render_prompt(
    trajectory: Trajectory, n_prompt_steps: int, rules: ChatRules = DEFAULT_RULES
) -> Chat:
    """The messages of the first ``n_prompt_steps`` steps, with a goal that no user spoke."""
    writer = _Writer(trajectory, rules)
    for step in trajectory.steps[:n_prompt_steps]:
        writer.add(step)
    writer.end_prompt()
    return writer.chat()


class _Writer:
    """Collects messages step by step; owns the ids given so far."""

    def __init__(self, trajectory: Trajectory, rules: ChatRules) -> None:
        self._rules = rules
        self._goal = _unsaid_goal(trajectory)
        self._messages: list[Message] = []
        self._trainable: list[bool] = []
        self._applied: Counter[str] = Counter()
        self._ids = _Ids(trajectory, self._applied)
        self._closed = 0
        self._step = -1
        self._step_of: list[int] = []

    def end_prompt(self) -> int:
        """End a part: what follows is not merged into it; how many messages there are."""
        self._add_goal()
        self._closed = len(self._messages)
        return self._closed

    def chat(self) -> Chat:
        return Chat(
            messages=self._messages,
            trainable=self._trainable,
            applied={k: n for k, n in self._applied.items() if n},
            step_of=self._step_of,
        )

    def add(self, step: Step) -> None:
        self._step += 1
        if step.actor == "agent":
            self._add_agent(step)
        elif step.actor == "environment" and self._rules.environment == "drop":
            self._applied["event-dropped"] += 1
        else:
            self._add_other(step)

    def _put(self, message: Message, *, train: bool = False) -> None:
        last = self._messages[-1] if len(self._messages) > self._closed else None
        merge = self._rules.consecutive == "merge" and message["role"] in {"user", "system"}
        if merge and last is not None and last["role"] == message["role"]:
            last["content"] += "\n\n" + message["content"]
            self._applied["turns-merged"] += 1
            return
        self._messages.append(message)
        self._trainable.append(train)
        self._step_of.append(self._step)

    def _add_other(self, step: Step) -> None:
        text = self._text(step.text, step.content)
        if step.tool_calls:
            self._applied["foreign-call"] += len(step.tool_calls)
        if text and step.actor == "environment":
            self._applied["event-as-user"] += 1
            self._put(_user(f"{EVENT_MARK}\n{text}"))
        elif text:
            self._put({"role": step.actor, "content": text})
        elif not step.observations and not step.tool_calls:
            self._applied["empty-turn"] += 1
        for observation in () if step.tool_calls else step.observations:
            self._add_unlinked(observation, asked=True)

    def _add_agent(self, step: Step) -> None:
        text = self._text(step.text, step.content) or ""
        reasoning = self._reasoning(step)
        if text or reasoning or step.tool_calls:
            self._add_goal()
            trained = counted(step) and (self._rules.train_format_errors or not step.format_error)
            self._applied["masked-turn"] += not trained
            message: Message = {"role": "assistant", "content": text}
            if reasoning:
                message["reasoning_content"] = reasoning
            given = [self._ids.give(call) for call in step.tool_calls]
            if given:
                message["tool_calls"] = [
                    self._call(call, call_id)
                    for call, call_id in zip(step.tool_calls, given, strict=True)
                ]
            self._put(message, train=trained)
            self._add_results(step, given)
        else:
            self._applied["empty-turn"] += 1
            self._add_results(step, [])

    def _add_goal(self) -> None:
        """Before the first agent turn: let the goal stand in for a user who never speaks."""
        if self._goal is not None:
            self._applied["goal-as-user"] += 1
            self._put(_user(clean_text(self._goal)))
            self._goal = None

    def _reasoning(self, step: Step) -> str | None:
        if not step.reasoning:
            return None
        if self._rules.include_reasoning:
            return clean_text(step.reasoning)
        self._applied["reasoning-left-out"] += 1
        return None

    def _call(self, call: ToolCall, call_id: str) -> dict[str, Any]:
        text = call.arguments if call.arguments_raw is None else call.arguments_raw
        if text is None:
            self._applied["no-arguments"] += 1
            text = "{}"
        function = {"name": clean_text(call.name), "arguments": clean_text(text)}
        return {"id": call_id, "type": "function", "function": function}

    def _add_results(self, step: Step, given: Sequence[str]) -> None:
        answers, orphans = _linked(step)
        for place, found in answers.items():
            self._applied["results-joined"] += len(found) > 1
            self._put(
                {
                    "role": "tool",
                    "name": clean_text(step.tool_calls[place].name),
                    "tool_call_id": given[place],
                    "content": "\n".join(self._text(o.text, o.content) or "" for o in found),
                }
            )
        self._applied["call-unanswered"] += len(given) - len(answers)
        for observation in orphans:
            self._add_unlinked(observation, asked=bool(given or observation.call_id))

    def _add_unlinked(self, observation: Observation, *, asked: bool) -> None:
        """A result outside any call: ``asked`` says that some call must have been meant."""
        text = self._text(observation.text, observation.content) or ""
        if asked:
            self._applied["orphan-as-user"] += 1
            self._put(_user(f"{ORPHAN_MARK}\n{text}"))
        elif text:
            self._applied["result-as-user"] += 1
            self._put(_user(text))

    def _text(self, text: str | None, content: str | None) -> str | None:
        if content is None:
            return None if text is None else clean_text(text)
        found, marked = _flattened(text, content)
        self._applied["media-marked"] += marked
        return clean_text(found)


def _unsaid_goal(trajectory: Trajectory) -> str | None:
    """The goal, unless a user speaks or the system prompt holds it already.

    Where a user speaks later (a simulated customer), the goal is what that user knows and the agent
    must find out.
    """
    if not trajectory.goal or any(s.actor == "user" for s in trajectory.steps):
        return None
    if any(trajectory.goal in (s.text or "") for s in trajectory.steps if s.actor == "system"):
        return None
    return trajectory.goal


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


class _Ids:
    """Gives each call of a run an id of its own."""

    def __init__(self, trajectory: Trajectory, applied: Counter[str]) -> None:
        self._taken = {c.call_id for s in trajectory.steps for c in s.tool_calls if c.call_id}
        self._given: set[str] = set()
        self._count = 0
        self._applied = applied

    def give(self, call: ToolCall) -> str:
        self._count += 1
        if call.call_id and call.call_id not in self._given:
            chosen = call.call_id
        elif call.call_id:
            self._applied["id-renamed"] += 1
            chosen = self._free(call.call_id, 2)
        else:
            self._applied["id-made"] += 1
            chosen = self._free("call", self._count)
        self._given.add(chosen)
        return clean_text(chosen)

    def _free(self, stem: str, first: int) -> str:
        number = first
        while f"{stem}_{number}" in self._taken | self._given:
            number += 1
        return f"{stem}_{number}"


def _linked(step: Step) -> tuple[dict[int, list[Observation]], list[Observation]]:
    """Place of a call in its step -> its results, in the order in which results came; orphans.

    A result goes to the call of its id; where ids repeat, to the first that still waits. One
    without an id, or with an id that no call has, goes to the first waiting call that it can belong
    to: any call for the former, a call without an id for the latter.
    """
    ids = [call.call_id or None for call in step.tool_calls]
    waiting = set(range(len(ids)))
    place_of: dict[int, int] = {}
    named = [i for i, o in enumerate(step.observations) if o.call_id]
    unnamed = [i for i, o in enumerate(step.observations) if not o.call_id]
    for index in named:
        own = [p for p, call_id in enumerate(ids) if call_id == step.observations[index].call_id]
        free = sorted(waiting & set(own or [p for p, i in enumerate(ids) if i is None]))
        if free or own:
            place_of[index] = free[0] if free else own[-1]
            waiting.discard(place_of[index])
    for index in unnamed:
        if waiting:
            place_of[index] = min(waiting)
            waiting.discard(place_of[index])
    answers: dict[int, list[Observation]] = {}
    for index in sorted(place_of):
        answers.setdefault(place_of[index], []).append(step.observations[index])
    return answers, [o for i, o in enumerate(step.observations) if i not in place_of]


_TEXT_KINDS = {"text", "input_text", "output_text", "summary_text", "refusal"}


def _flattened(text: str | None, content: str) -> tuple[str, int]:
    """Parts as one text, parts that are no text marked by their kind; how many were marked."""
    parts = list(_parts(content))
    marked = sum(found is None for found, _ in parts)
    lines = [mark if found is None else found for found, mark in parts]
    if text and all(found is None for found, _ in parts):
        lines.insert(0, text)
    return "\n".join(lines), marked


def _parts(content: str) -> Iterator[tuple[str | None, str]]:
    """The text of each part, or None and its mark."""
    try:
        parts = json.loads(content)
    except ValueError:
        return
    for part in parts if isinstance(parts, list) else [parts]:
        if isinstance(part, str):
            yield part, ""
        elif isinstance(part, Mapping) and part.get("type") in _TEXT_KINDS:
            value = part.get("text", part.get("refusal"))
            yield (value if isinstance(value, str) else ""), ""
        else:
            kind = str(part.get("type", "part")) if isinstance(part, Mapping) else "part"
            yield None, f"[{kind.removeprefix('input_').removesuffix('_url')}]"
