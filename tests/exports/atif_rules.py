"""The rules of ATIF 1.7 as its specification and Harbor's validator state them, in plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

_ROOT = {
    "schema_version": str,
    "session_id": str,
    "trajectory_id": str,
    "agent": dict,
    "steps": list,
    "final_metrics": dict,
    "extra": dict,
}
_AGENT = {"name": str, "version": str, "model_name": str, "tool_definitions": list, "extra": dict}
_STEP = {
    "step_id": int,
    "timestamp": str,
    "source": str,
    "message": (str, list),
    "observation": dict,
    "is_copied_context": bool,
    "extra": dict,
}
_AGENT_STEP = {
    "model_name": str,
    "reasoning_content": str,
    "tool_calls": list,
    "metrics": dict,
}
_CALL = {"tool_call_id": str, "function_name": str, "arguments": dict, "extra": dict}
_RESULT = {"source_call_id": str, "content": (str, list), "extra": dict}
_METRICS = {
    "prompt_tokens": int,
    "completion_tokens": int,
    "cached_tokens": int,
    "prompt_token_ids": list,
    "completion_token_ids": list,
    "logprobs": list,
}
_FINAL = {
    "total_prompt_tokens": int,
    "total_completion_tokens": int,
    "total_cached_tokens": int,
    "total_cost_usd": (int, float),
    "total_steps": int,
}
_IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}


def broken_rules(document: dict[str, Any]) -> list[str]:
    """What is wrong with a document, with its place; empty where nothing is."""
    return list(_document(document))


def _fields(value: Any, known: dict[str, Any], needed: set[str], where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where} is no object"
        return
    yield from (f"{where} lacks {name}" for name in sorted(needed - value.keys()))
    for name, held in value.items():
        if name not in known:
            yield f"{where}.{name} is unknown"
        elif not isinstance(held, known[name]):
            yield f"{where}.{name} is {type(held).__name__}"


def _document(document: dict[str, Any]) -> Iterator[str]:
    yield from _fields(document, _ROOT, {"schema_version", "agent", "steps"}, "root")
    yield from _fields(document["agent"], _AGENT, {"name", "version"}, "agent")
    yield from _fields(document.get("final_metrics", {}), _FINAL, set(), "final_metrics")
    if document["schema_version"] != "ATIF-v1.7":
        yield "schema_version"
    if not all(isinstance(t, dict) for t in document["agent"].get("tool_definitions", ())):
        yield "a tool definition is no object"
    if not document["steps"]:
        yield "no steps"
    for number, step in enumerate(document["steps"], 1):
        yield from _step(step, number)


def _step(step: dict[str, Any], number: int) -> Iterator[str]:
    where = f"steps[{number - 1}]"
    known = _STEP | (_AGENT_STEP if step.get("source") == "agent" else {})
    yield from _fields(step, known, {"step_id", "source", "message"}, where)
    if step["step_id"] != number:
        yield f"{where}.step_id is {step['step_id']}"
    if step["source"] not in {"system", "user", "agent"}:
        yield f"{where}.source is {step['source']}"
    if "timestamp" in step:
        datetime.fromisoformat(step["timestamp"])
    yield from _content(step["message"], f"{where}.message")
    yield from _fields(step.get("metrics", {}), _METRICS, set(), f"{where}.metrics")
    ids = []
    for call in step.get("tool_calls", ()):
        yield from _fields(call, _CALL, set(_CALL) - {"extra"}, f"{where}.tool_calls")
        ids.append(call["tool_call_id"])
    if len(ids) != len(set(ids)):
        yield f"{where}: one id for two calls"
    yield from _observation(step.get("observation"), ids, where)


def _observation(observation: Any, ids: list[str], where: str) -> Iterator[str]:
    if observation is None:
        return
    yield from _fields(observation, {"results": list}, {"results"}, f"{where}.observation")
    for result in observation["results"]:
        yield from _fields(result, _RESULT, set(), f"{where}.results")
        if "source_call_id" in result and result["source_call_id"] not in ids:
            yield f"{where}: a result names {result['source_call_id']!r}, no call of the step"
        yield from _content(result.get("content"), f"{where}.content")


def _content(content: Any, where: str) -> Iterator[str]:
    for part in content if isinstance(content, list) else ():
        if part["type"] == "text":
            yield from _fields(part, {"type": str, "text": str}, {"type", "text"}, where)
            continue
        yield from _fields(part, {"type": str, "source": dict}, {"type", "source"}, where)
        source = part["source"]
        yield from _fields(source, {"media_type": str, "path": str}, {"media_type", "path"}, where)
        if part["type"] != "image" or source["media_type"] not in _IMAGES:
            yield f"{where}: {part['type']} of {source['media_type']}"
