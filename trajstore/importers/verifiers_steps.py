"""Steps of a verifiers result row: the prompt as it was given, the completion as it came about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trajstore.importers.building import Draft, StepBuilder, number, openai_steps
from trajstore.importers.framework_messages import decoded
from trajstore.importers.token_lists import logprobs, token_ids
from trajstore.schema import Step


def result_steps(value: Mapping[str, Any]) -> tuple[Step, ...]:
    """Steps of a row; agent messages of the prompt are copied context.

    Token ids and log-probabilities come from the column ``trajectory`` where it was saved and holds
    one entry for each agent step.

    Raises:
        TypeError: prompt or completion are neither text nor messages.
    """
    builder = openai_steps(_messages(value["prompt"], "user"), StepBuilder())
    for draft in builder.drafts:
        if draft.actor == "agent":
            draft.values["is_copied"] = True
    given = len(builder.drafts)
    openai_steps(_messages(value["completion"], "assistant"), builder)
    own = [d for d in builder.drafts[given:] if d.actor == "agent"]
    _add_tokens(own, value.get("trajectory"))
    return builder.steps()


def _messages(value: Any, role: str) -> list[dict[str, Any]]:
    plain = decoded(value, levels=1) if isinstance(value, str) and value[:2] == "[{" else value
    if plain is None:
        return []
    if isinstance(plain, str):
        return [{"role": role, "content": plain}]
    if not isinstance(plain, list):
        raise TypeError(f"prompt and completion are text or messages, not {type(plain).__name__}")
    return [{**m, "tool_calls": _calls(m)} if m.get("tool_calls") else dict(m) for m in plain]


def _calls(message: Mapping[str, Any]) -> list[Any]:
    """Tool calls; older versions saved each of them as JSON text."""
    return [decoded(call) for call in message["tool_calls"]]


def _add_tokens(own: list[Draft], trajectory: Any) -> None:
    entries = trajectory if isinstance(trajectory, list) else []
    if not entries or len(entries) != len(own):
        return
    for draft, entry in zip(own, entries, strict=True):
        tokens = entry.get("tokens") or {}
        values = {
            "prompt_token_ids": token_ids(tokens.get("prompt_ids")),
            "completion_token_ids": token_ids(tokens.get("completion_ids")),
            "logprobs": logprobs(tokens.get("completion_logprobs")),
            "reward": number(entry.get("reward")),
        }
        draft.values.update({k: v for k, v in values.items() if v is not None})
