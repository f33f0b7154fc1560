"""Build steps from messages: actors, parts, calls, and results linked to their calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from trajstore.schema import Actor, Observation, Step, ToolCall, json_text, json_text_or_none

ROLES: Mapping[str, Actor] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "agent",
    "gpt": "agent",
    "model": "agent",
    "ai": "agent",
    "agent": "agent",
    "environment": "environment",
}
"""Chat roles as people write them -> actor."""


@dataclass
class Draft:
    """A step while it is being built; ``values`` are the other fields of :class:`Step` by name."""

    actor: Actor
    text: str | None = None
    calls: list[ToolCall] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)

    def add_text(self, text: str | None, *, between: str = "\n") -> None:
        """Append text, keeping None apart from ''."""
        if text is not None:
            self.text = text if self.text is None else f"{self.text}{between}{text}"

    def add_reasoning(self, text: str | None, *, between: str = "\n") -> None:
        """Append reasoning, keeping None apart from ''."""
        if text is not None:
            before = self.values.get("reasoning")
            self.values["reasoning"] = text if before is None else f"{before}{between}{text}"

    def unanswered(self, call_id: str | None) -> bool:
        """Whether a call of that id (of any, for None) still lacks its result here."""
        if call_id is None:
            return len(self.observations) < len(self.calls)
        asked = sum(c.call_id == call_id for c in self.calls)
        return sum(o.call_id == call_id for o in self.observations) < asked

    def all_answered(self) -> bool:
        """Whether every call of this draft has its result."""
        if len(self.observations) < len(self.calls):
            return False
        return not any(self.unanswered(c.call_id) for c in self.calls)

    def build(self) -> Step:
        """The finished step."""
        return Step(
            actor=self.actor,
            text=self.text,
            tool_calls=tuple(self.calls),
            observations=tuple(self.observations),
            **self.values,
        )


class StepBuilder:
    """Collects drafts in order and links results to calls.

    A result goes to the first step whose call of that id is still unanswered, since ids may repeat
    inside one trajectory; without an id, to the latest agent step with an unanswered call. A result
    whose call is nowhere is kept: on the latest agent step, else on an environment step of its own.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.drafts: list[Draft] = []
        self._answered = 0

    def add(self, actor: Actor, text: str | None = None, **values: Any) -> Draft:
        """Append a draft; ``values`` are further fields of :class:`Step` (None is left out)."""
        kept = {k: v for k, v in values.items() if v is not None}
        draft = Draft(actor=actor, text=text, values=kept)
        self.drafts.append(draft)
        return draft

    def observe(self, observation: Observation) -> Draft:
        """Attach a result to its call, and say to which draft it went."""
        draft = self._asking(observation.call_id)
        if draft is None:
            draft = next((d for d in reversed(self.drafts) if d.actor == "agent"), None)
        if draft is None:
            draft = self.add("environment")
        draft.observations.append(observation)
        return draft

    def _asking(self, call_id: str | None) -> Draft | None:
        last = len(self.drafts) - 1
        while self._answered < last and self.drafts[self._answered].all_answered():
            self._answered += 1
        open_ = islice(self.drafts, self._answered, None)
        if call_id is None:
            waiting = (d for d in reversed(list(open_)) if d.calls and d.unanswered(None))
        else:
            waiting = (d for d in open_ if d.calls and d.unanswered(call_id))
        return next(waiting, None)

    def steps(self) -> tuple[Step, ...]:
        """The finished steps."""
        return tuple(d.build() for d in self.drafts)


def text_of(content: Any) -> str | None:
    """The text of a message's content: a string, a list of parts, an object with ``text``, or None.

    Text parts are joined by a newline; other parts have no text. Null and '' stay different.
    """
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return text_of(content.get("text", content.get("content")))
    if isinstance(content, Iterable):
        found = [_part_text(p) for p in content]
        kept = [t for t in found if t is not None]
        return "\n".join(kept) if kept else None
    return str(content)


_TEXT_KINDS = {"text", "input_text", "output_text", "summary_text"}


def _part_text(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, Mapping) else None
    if isinstance(part, Mapping) and (kind is None or str(kind) in _TEXT_KINDS):
        value = part.get("text", part.get("value", part.get("content")))
        return value if isinstance(value, str) else None
    return None


def parts_of(content: Any) -> str | None:
    """JSON text of the parts, only where there is more than text; None for plain text.

    Parts stay as the source has them. Inline media (base64) are moved to blobs by the import.
    """
    if not isinstance(content, list):
        return None
    if all(isinstance(p, str) or _part_text(p) is not None for p in content):
        return None
    return json_text(content)


def openai_steps(messages: Iterable[Mapping[str, Any]], builder: StepBuilder) -> StepBuilder:
    """Add OpenAI-style chat messages (also the legacy ``function_call``) to a builder.

    An assistant message is one agent step with its calls; ``tool`` and ``function`` messages become
    observations of the step that asked. Fields without a place go to the step's ``metadata``.
    """
    for message in messages:
        role = str(message.get("role", ""))
        content = message.get("content")
        if role in {"tool", "function"}:
            builder.observe(
                Observation(
                    call_id=_id(message.get("tool_call_id")),
                    text=text_of(content),
                    content=parts_of(content),
                    is_error=_error_flag(message),
                )
            )
            continue
        draft = builder.add(
            ROLES.get(role, "environment"),
            text_of(content),
            content=parts_of(content),
            reasoning=_reasoning(message),
            metadata=rest(message, _KNOWN_MESSAGE_FIELDS, role if role not in ROLES else None),
            timestamp=moment(message.get("timestamp")),
        )
        draft.calls.extend(openai_calls(message))
    return builder


_KNOWN_MESSAGE_FIELDS = frozenset(
    {
        "role",
        "content",
        "tool_calls",
        "function_call",
        "reasoning",
        "reasoning_content",
        "timestamp",
    }
)


def _error_flag(message: Mapping[str, Any]) -> bool | None:
    error = message.get("error", message.get("is_error"))
    return None if error is None else bool(error)


def _reasoning(message: Mapping[str, Any]) -> str | None:
    value = message.get("reasoning_content", message.get("reasoning"))
    return value if isinstance(value, str) else text_of(value) if isinstance(value, list) else None


def openai_calls(message: Mapping[str, Any]) -> list[ToolCall]:
    """The calls of an assistant message: ``tool_calls`` in either shape, or ``function_call``."""
    calls = []
    for call in message.get("tool_calls") or ():
        function = call.get("function")
        if not isinstance(function, Mapping):
            function = call
        name = function.get("name", call.get("function"))
        calls.append(ToolCall.of(name, function.get("arguments"), call.get("id")))
    legacy = message.get("function_call")
    if legacy:
        calls.append(ToolCall.of(legacy.get("name"), legacy.get("arguments")))
    return calls


def _id(value: Any) -> str | None:
    return None if value is None else str(value)


def rest(value: Mapping[str, Any], known: Iterable[str], role: str | None = None) -> str | None:
    """JSON text of the fields that have no column; None where there are none."""
    left = {k: v for k, v in value.items() if k not in known and v is not None}
    if role is not None:
        left["role"] = role
    return json_text_or_none(left)


def moment(value: Any) -> datetime | None:
    """A point in time from ISO 8601 text or Unix seconds, milliseconds, micro- or nanoseconds.

    Text without a zone is taken as UTC. What cannot be read is None: some files hold placeholders.
    """
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return _from_number(float(value))
    text = str(value).strip()
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        try:
            return _from_number(float(text))
        except ValueError:
            return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _from_number(value: float) -> datetime | None:
    for scale in (1.0, 1e3, 1e6, 1e9):
        if abs(value) < 1e11 * scale:
            try:
                return datetime.fromtimestamp(value / scale, tz=UTC)
            except (ValueError, OverflowError, OSError):
                return None
    return None


def whole(value: Any) -> int | None:
    """A count as int, or None where it is no whole number that fits into 64 bits."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        found = int(value)
        same = found == float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if same and abs(found) < 2**63 else None


def number(value: Any) -> float | None:
    """A number as float (bools and numeric text too), or None."""
    if value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
