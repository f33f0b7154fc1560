"""Steps of mini-swe-agent runs: chat messages, tool calls, or Responses objects."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from trajstore.importers.building import (
    ROLES,
    Draft,
    StepBuilder,
    moment,
    openai_calls,
    parts_of,
    rest,
    text_of,
    whole,
)
from trajstore.importers.plain import count, numbers, words
from trajstore.importers.response_items import response_steps, usage_fields
from trajstore.schema import Observation, Step, ToolCall, json_text

_ACTION = re.compile(r"```(?:mswea_bash_command|bash)\s*\n(.*?)\n```", re.DOTALL)
_RETURN_CODE = re.compile(r"\s*(?:<exception>.*?</exception>\s*)?<returncode>(-?\d+)</", re.DOTALL)
_EXTRA_TAKEN = frozenset({"actions", "response", "timestamp", "model_response"})
_MESSAGE_TAKEN = frozenset(
    {
        "type",
        "role",
        "content",
        "tool_calls",
        "tool_call_id",
        "call_id",
        "output",
        "object",
        "extra",
        "reasoning",
        "reasoning_content",
        "usage",
        "model",
        "created_at",
        "tools",
    }
)
_RESPONSE_TAKEN = frozenset({"choices", "output", "object", "tools", "instructions", "text"})


def responses_of(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The raw answers of the API that the messages carry, in order."""
    found = []
    for message in messages:
        answer = message if message.get("object") == "response" else _answer(message)
        if answer is not None:
            found.append(answer)
    return found


def run_steps(messages: Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    """The steps of one run; raises TypeError where an entry is no message."""
    builder = StepBuilder()
    for message in messages:
        if not isinstance(message, Mapping) or not _is_message(message):
            what = f"not a message: {message!r:.80}"
            raise TypeError(what)
        _read(message, builder)
    for draft in builder.drafts:
        _keep_results(draft)
    return builder.steps()


def _is_message(message: Mapping[str, Any]) -> bool:
    said = "content" in message or bool(message.get("tool_calls"))
    return ("role" in message and said) or bool(message.keys() & {"type", "object"})


def _keep_results(draft: Draft) -> None:
    """Move what the environment told beside its text into the step's metadata."""
    results = draft.values.pop("results", None)
    if results:
        metadata = json.loads(draft.values.get("metadata") or "{}")
        draft.values["metadata"] = json_text({**metadata, "results": results})


def written_actions(text: str | None) -> list[str]:
    """Commands in the fenced blocks that a text-based model acts with."""
    return _ACTION.findall(text or "")


def is_observation(text: str | None) -> bool:
    """Whether a message's text is rendered by the observation template."""
    return bool(_RETURN_CODE.match(text or ""))


def _read(message: Mapping[str, Any], builder: StepBuilder) -> None:
    role, kind = message.get("role"), message.get("type")
    if message.get("object") == "response":
        _response(message, builder)
    elif kind == "function_call_output" or role == "tool":
        _observe(message, builder)
    elif role is None:
        response_steps([message], builder)
    elif role == "assistant":
        _assistant(message, builder)
    elif role == "user":
        _user(message, builder)
    else:
        _other(message, str(role), builder)


def _other(message: Mapping[str, Any], role: str, builder: StepBuilder) -> Draft:
    """A message of the system, of a user, or of no speaker (``exit``)."""
    extra, text = _extra(message), text_of(message.get("content"))
    told = {k: v for k, v in _kept(extra).items() if v != text}
    return builder.add(
        ROLES.get(role, "environment"),
        text,
        content=parts_of(message.get("content")),
        timestamp=moment(extra.get("timestamp")),
        metadata=rest({**message, **told}, _MESSAGE_TAKEN, None if role in ROLES else role),
    )


def _assistant(message: Mapping[str, Any], builder: StepBuilder) -> None:
    extra, text = _extra(message), text_of(message.get("content"))
    draft = builder.add(
        "agent",
        text,
        content=parts_of(message.get("content")),
        reasoning=words(message.get("reasoning_content") or message.get("reasoning")),
        metadata=rest({**message, **_kept(extra), **_answer_rest(message)}, _MESSAGE_TAKEN),
        **_call_fields(message),
    )
    draft.calls.extend(openai_calls(message))
    if draft.calls:
        return
    actions = [str(a["command"]) for a in extra.get("actions") or () if "command" in a]
    actions = actions or written_actions(text)
    if len(actions) == 1 or extra.get("actions"):
        draft.calls.extend(ToolCall.of("bash", {"command": a}) for a in actions)
    else:
        draft.values["format_error"] = True


def _user(message: Mapping[str, Any], builder: StepBuilder) -> None:
    extra = _extra(message)
    last = builder.drafts[-1] if builder.drafts else None
    if extra.get("interrupt_type") == "FormatError":
        _rejected(message, extra, builder)
        _other(message, "user", builder)
    elif "returncode" in extra or (last is not None and _awaits_text(last)):
        _observe(message, builder)
    else:
        _other(message, "user", builder)


def _awaits_text(draft: Draft) -> bool:
    """Whether the step acted in text and so gets its result as a user message."""
    return draft.unanswered(None) and all(c.call_id is None for c in draft.calls)


def _rejected(message: Mapping[str, Any], extra: Mapping[str, Any], builder: StepBuilder) -> None:
    """The answer that could not be parsed: it is in no message of its own, if it was kept."""
    answer = _answer(message)
    if answer is not None and answer.get("object") == "response":
        _response({**answer, "extra": extra}, builder)
        builder.drafts[-1].values["format_error"] = True
        return
    choice = (answer or {}).get("choices") or [{}]
    said = choice[0].get("message") or {"content": extra.get("model_response")}
    if said.get("content") is None and not said.get("tool_calls"):
        return
    draft = builder.add("agent", text_of(said.get("content")), **_call_fields(message))
    draft.calls.extend(openai_calls(said))
    draft.values["format_error"] = True


def _response(message: Mapping[str, Any], builder: StepBuilder) -> None:
    """One model call through the Responses API: all its items are one step."""
    before = len(builder.drafts)
    response_steps(message.get("output") or (), builder, one_call=True)
    if len(builder.drafts) == before:
        builder.add("agent")
    draft = builder.drafts[before]
    extra = _extra(message)
    fields = {
        **_usage(message.get("usage")),
        "model": words(message.get("model")),
        "timestamp": moment(extra.get("timestamp", message.get("created_at"))),
    }
    draft.values |= {k: v for k, v in fields.items() if v is not None}
    metadata = rest({**message, **_kept(extra)}, _MESSAGE_TAKEN | _RESPONSE_TAKEN)
    if metadata is not None and draft.values.get("metadata") is None:
        draft.values["metadata"] = metadata


def _observe(message: Mapping[str, Any], builder: StepBuilder) -> None:
    extra = _extra(message)
    content = message.get("output", message.get("content"))
    call_id = message.get("tool_call_id", message.get("call_id"))
    text = text_of(content)
    draft = builder.observe(
        Observation(
            call_id=None if call_id is None else str(call_id),
            text=text,
            content=parts_of(content),
            is_error=_failed(extra, text),
        )
    )
    raw = extra.get("raw_output")
    cut = isinstance(raw, str) and raw.strip() not in (text or "")
    told = {k: v for k, v in extra.items() if k != "raw_output" and v not in (None, "")}
    if cut:
        told["raw_output"] = raw
    if told:
        results = draft.values.setdefault("results", [])
        results.append(told)


def _failed(extra: Mapping[str, Any], text: str | None) -> bool | None:
    """Whether the environment reports a non-zero return code or an exception."""
    if extra.get("exception_info"):
        return True
    code = whole(extra.get("returncode"))
    if code is None:
        found = _RETURN_CODE.match(text or "")
        code = int(found[1]) if found else None
    return None if code is None else code != 0


def _extra(message: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = message.get("extra")
    return extra if isinstance(extra, Mapping) else {}


def _kept(extra: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in extra.items() if k not in _EXTRA_TAKEN}


def _answer(message: Mapping[str, Any]) -> Mapping[str, Any] | None:
    answer = _extra(message).get("response")
    return answer if isinstance(answer, Mapping) else None


def _answer_rest(message: Mapping[str, Any]) -> dict[str, Any]:
    """What of the raw answer is not in the message: its id, usage details, why it ended."""
    answer = _answer(message)
    if answer is None:
        return {}
    ends = [c.get("finish_reason") for c in answer.get("choices") or ()]
    kept = {k: v for k, v in answer.items() if k not in _RESPONSE_TAKEN and v is not None}
    return {"response": {**kept, "finish_reason": ends[0] if ends else None}}


def _usage(usage: Any) -> dict[str, int]:
    return {k: v for k, v in usage_fields(usage).items() if count(v) is not None}


def _call_fields(message: Mapping[str, Any]) -> dict[str, Any]:
    """Tokens, model, time and log-probabilities of the model call behind a message."""
    answer, extra = _answer(message) or {}, _extra(message)
    choice = (answer.get("choices") or [{}])[0]
    tokens = (choice.get("logprobs") or {}).get("content") or ()
    return {
        **_usage(answer.get("usage")),
        "model": words(answer.get("model")),
        "timestamp": moment(extra.get("timestamp", answer.get("created"))),
        "logprobs": numbers([t.get("logprob") for t in tokens]),
    }
