"""OpenAI Responses items as steps: messages, reasoning, calls and outputs are siblings there.

Used wherever a format holds Responses items: Responses objects themselves, NeMo Gym rollouts,
Codex sessions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trajstore.importers.building import (
    ROLES,
    Draft,
    StepBuilder,
    openai_steps,
    parts_of,
    text_of,
    whole,
)
from trajstore.importers.token_lists import logprobs, token_ids
from trajstore.schema import Observation, ToolCall, json_text, json_text_or_none

_BORING: Mapping[str, Any] = {"status": "completed"}
_TOKEN_FIELDS = frozenset({"prompt_token_ids", "generation_token_ids", "generation_log_probs"})
_MESSAGE_FIELDS = frozenset({"type", "role", "content"}) | _TOKEN_FIELDS
_REASONING_FIELDS = frozenset({"type", "summary", "content"}) | _TOKEN_FIELDS
_INPUT_FIELDS = ("arguments", "input", "action", "operation")
_RESULT_FIELDS = ("output", "outputs", "results", "result")
_CALL_FIELDS = (
    frozenset({"type", "name", "call_id", "error", *_INPUT_FIELDS, *_RESULT_FIELDS}) | _TOKEN_FIELDS
)
_OUTPUT_FIELDS = frozenset({"type", "call_id", "output", "is_error"})
_OWN_FIELDS = frozenset({"type", "id", "call_id", "status", "name", "server_label", "namespace"})


def response_steps(
    items: str | Iterable[Any], builder: StepBuilder, *, one_call: bool = False
) -> StepBuilder:
    """Add Responses items to a builder, one agent step a model call.

    A model call is a run of reasoning, assistant messages and calls with nothing new in between
    that the model could have answered: an output, a user message, or sampled token ids (they stand
    on the last item of a call) end it. Items in nested lists come in order. An item of a kind that
    has no place (``compaction``, ``item_reference``, later inventions) is kept whole in the
    metadata of an environment step.

    Args:
        items: the items, or a plain string, which is one user message.
        builder: where the steps go; outputs find calls that are already in it.
        one_call: all items are the output of one model call, so even an output in the middle (of a
            tool that the server ran) does not end it.

    Returns:
        The builder.
    """
    if isinstance(items, str):
        builder.add("user", items)
        return builder
    reader = _ItemReader(builder, one_call=one_call)
    for item in _flat(items):
        reader.read(item)
    return builder


def usage_fields(usage: Any) -> dict[str, int]:
    """Token counts of a Responses ``usage`` (or a chat one) under the names of our columns.

    Usage of nothing but zeros means that the harness did not count; it gives no field at all.
    """
    if not isinstance(usage, Mapping):
        return {}
    details = usage.get("input_tokens_details") or usage.get("prompt_tokens_details") or {}
    found = {
        "prompt_tokens": whole(usage.get("input_tokens", usage.get("prompt_tokens"))),
        "completion_tokens": whole(usage.get("output_tokens", usage.get("completion_tokens"))),
        "cached_tokens": whole(details.get("cached_tokens")),
    }
    known = {k: v for k, v in found.items() if v is not None}
    return known if any(known.values()) else {}


def _flat(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, list):
            yield from _flat(item)
        else:
            yield item


class _ItemReader:
    """Groups items into agent steps; ``_open`` is the step of the model call that still runs."""

    def __init__(self, builder: StepBuilder, *, one_call: bool) -> None:
        self._builder = builder
        self._one_call = one_call
        self._open: Draft | None = None

    def read(self, item: Any) -> None:
        kind = str(item.get("type") or "message") if isinstance(item, Mapping) else ""
        if not isinstance(item, Mapping):
            self._event({"item": item})
        elif kind == "message" and "role" in item:
            self._message(item)
        elif kind == "reasoning":
            self._reasoning(item)
        elif kind.endswith("_output"):
            self._output(item)
        elif kind.endswith("_call"):
            self._call(item, kind)
        else:
            self._event(item)

    def _event(self, item: Mapping[str, Any]) -> None:
        self._builder.add("environment", metadata=json_text(item))

    def _agent(self) -> Draft:
        if self._open is None:
            self._open = self._builder.add("agent")
        return self._open

    def _message(self, item: Mapping[str, Any]) -> None:
        role, content = str(item["role"]), item.get("content")
        actor = ROLES.get(role, "environment")
        if role in {"tool", "function"} or item.get("tool_calls"):
            self._open = None
            openai_steps([item], self._builder)
        elif actor != "agent":
            self._open = None
            draft = self._builder.add(actor, text_of(content), content=parts_of(content))
            _keep(draft, item, _MESSAGE_FIELDS if role in ROLES else _MESSAGE_FIELDS - {"role"})
        else:
            draft = self._agent()
            draft.add_text(_said(content))
            parts = parts_of(content)
            if parts is not None:
                draft.values["content"] = parts
            _keep(draft, item, _MESSAGE_FIELDS)
            self._tokens(draft, item)

    def _reasoning(self, item: Mapping[str, Any]) -> None:
        draft = self._agent()
        thought, summary = _thought(item.get("content")), _thought(item.get("summary"))
        draft.add_reasoning(summary if thought is None else thought)
        both = thought is not None and summary is not None and thought != summary
        _keep(draft, item, _REASONING_FIELDS - {"summary"} if both else _REASONING_FIELDS)
        self._tokens(draft, item)

    def _call(self, item: Mapping[str, Any], kind: str) -> None:
        draft = self._agent()
        call_id = item.get("call_id") or item.get("id")
        given = next((item[k] for k in _INPUT_FIELDS if item.get(k) is not None), None)
        known = _CALL_FIELDS
        if given is None and kind != "function_call":
            given = _arguments(item) or None
            known = known | set(given or ())
        draft.calls.append(
            ToolCall.of(item.get("name") or kind.removesuffix("_call"), given, call_id)
        )
        result = _inline_result(item, None if call_id is None else str(call_id))
        if result is not None:
            draft.observations.append(result)
        _keep(draft, item, known | {"id"} if item.get("id") == call_id else known)
        self._tokens(draft, item)

    def _output(self, item: Mapping[str, Any]) -> None:
        output, call_id, flag = item.get("output"), item.get("call_id"), item.get("is_error")
        if flag is None and isinstance(output, Mapping) and isinstance(output.get("success"), bool):
            flag = not output["success"]
        text, parts = _result(output)
        draft = self._builder.observe(
            Observation(
                call_id=None if call_id is None else str(call_id),
                text=text,
                content=parts,
                is_error=None if flag is None else bool(flag),
            )
        )
        _keep(draft, item, _OUTPUT_FIELDS)
        if not self._one_call:
            self._open = None

    def _tokens(self, draft: Draft, item: Mapping[str, Any]) -> None:
        found = {
            "prompt_token_ids": token_ids(item.get("prompt_token_ids")),
            "completion_token_ids": token_ids(item.get("generation_token_ids")),
            "logprobs": logprobs(item.get("generation_log_probs")),
        }
        draft.values.update({k: v for k, v in found.items() if v is not None})
        if any(found.values()):
            self._open = None


def _keep(draft: Draft, item: Mapping[str, Any], known: frozenset[str]) -> None:
    """Keep the fields of an item that have no column in the step's metadata, item by item."""
    left = {
        k: v
        for k, v in item.items()
        if k not in known and v is not None and not (k in _BORING and _BORING[k] == v)
    }
    left |= _part_extras(item.get("content"))
    if left:
        entry = {"type": item.get("type") or "message", **left}
        draft.values["metadata"] = _appended(draft.values.get("metadata"), entry)


def _appended(metadata: str | None, entry: dict[str, Any]) -> str:
    """JSON text of ``metadata`` with one more entry in its list ``items``."""
    before = json.loads(metadata) if metadata else {}
    return json_text({**before, "items": [*before.get("items", ()), entry]})


def _said(content: Any) -> str | None:
    """Text of an assistant message; a refusal is something said too."""
    if not isinstance(content, list):
        return text_of(content)
    parts = [
        {"type": "text", "text": p.get("refusal")}
        if isinstance(p, Mapping) and p.get("type") == "refusal"
        else p
        for p in content
    ]
    return text_of(parts)


def _thought(parts: Any) -> str | None:
    if parts is None or isinstance(parts, str):
        return parts
    texts = [p.get("text") if isinstance(p, Mapping) else p for p in parts]
    kept = [t for t in texts if isinstance(t, str)]
    return "\n".join(kept) if kept else None


def _arguments(item: Mapping[str, Any]) -> dict[str, Any]:
    """What a built-in call was given: its fields that are neither bookkeeping nor result."""
    hidden = _OWN_FIELDS | set(_RESULT_FIELDS) | {"error"} | _TOKEN_FIELDS
    return {k: v for k, v in item.items() if k not in hidden and v is not None}


def _inline_result(item: Mapping[str, Any], call_id: str | None) -> Observation | None:
    """The result that a built-in call carries in itself, or None."""
    error = item.get("error")
    failed = True if error is not None or item.get("status") == "failed" else None
    result = next((item[k] for k in _RESULT_FIELDS if item.get(k) is not None), None)
    if result is None and not failed:
        return None
    said = error if result is None else result
    if item.get("type") == "image_generation_call" and isinstance(result, str):
        image = {"type": "input_image", "image_url": f"data:image/png;base64,{result}"}
        return Observation(call_id=call_id, is_error=failed, content=json_text([image]))
    text = said if isinstance(said, str) or said is None else json_text(said)
    return Observation(call_id=call_id, text=text, is_error=failed)


def _result(output: Any) -> tuple[str | None, str | None]:
    """Text and parts of an output: a string, a list of parts, an image, or any object."""
    if isinstance(output, Mapping) and "image_url" in output:
        return None, json_text([output])
    text, parts = text_of(output), parts_of(output)
    if text is None and parts is None:
        text = json_text_or_none(output)
    return text, parts


def _part_extras(content: Any) -> dict[str, Any]:
    """What text parts carry beside their text.

    Log-probabilities on a part cover its text and not all that was sampled (reasoning, calls), so
    they are no ``logprobs`` of the step.
    """
    if not isinstance(content, list):
        return {}
    parts = [p for p in content if isinstance(p, Mapping)]
    found = {k: [p[k] for p in parts if p.get(k)] for k in ("annotations", "logprobs")}
    return {k: v for k, v in found.items() if v}
