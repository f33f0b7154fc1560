"""Steps of ART messages and choices: a choice was sampled by the policy, a message was given."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trajstore.importers.building import Draft, StepBuilder, openai_steps
from trajstore.importers.framework_messages import decoded
from trajstore.importers.token_lists import token_ids
from trajstore.schema import Step, json_text_or_none

_CHOICE_TAKEN = frozenset({"message", "logprobs", "index", "token_ids", "finish_reason"})
_ID_PREFIX = "token_id:"
"""How vLLM writes a token as its id where the text of the token was not asked for."""


def steps_of(entries: Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    """The steps of ``messages_and_choices``, or of the ``messages`` column.

    Agent messages that are no choice are context where others are choices: copied steps. Where none
    is a choice, the run was made without training in mind and all are the agent's own.

    Raises:
        TypeError: an entry is no message.
    """
    builder = StepBuilder()
    sampled: list[Draft] = []
    for entry in entries:
        message = _message(entry)
        before = len(builder.drafts)
        openai_steps([message], builder)
        added = builder.drafts[before:]
        if added and added[0].actor == "agent" and _is_choice(entry):
            sampled.append(added[0])
            values = _sampled(entry)
            told = json.loads(added[0].values.get("metadata") or "{}")
            values["metadata"] = json_text_or_none({**told, **values["metadata"]})
            added[0].values.update(values)
    if sampled:
        for draft in builder.drafts:
            if draft.actor == "agent" and not any(draft is s for s in sampled):
                draft.values["is_copied"] = True
    return builder.steps()


def opening(steps: Iterable[Step]) -> list[list[str | None]]:
    """What was given before the agent's first own word."""
    found: list[list[str | None]] = []
    for step in steps:
        if step.actor == "agent" and not step.is_copied:
            break
        found.append([step.actor, step.text])
    return found


def _is_choice(entry: Mapping[str, Any]) -> bool:
    return isinstance(entry.get("message"), Mapping) or entry.get("trainable") is True


def _message(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The chat message of an entry; ``tool_calls`` are JSON text in Parquet."""
    inner = entry.get("message")
    message = dict(inner) if isinstance(inner, Mapping) else dict(entry)
    if "role" not in message:
        raise TypeError("an entry of messages_and_choices has no role")
    message.pop("trainable", None)
    calls = decoded(message.get("tool_calls"), levels=1)
    if calls is not None:
        message["tool_calls"] = calls
    return message


def _sampled(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Log-probabilities and token ids of a choice, and its other fields as ``metadata``."""
    values: dict[str, Any] = {}
    tokens = (entry.get("logprobs") or {}).get("content") or ()
    if tokens:
        values["logprobs"] = tuple(float(t["logprob"]) for t in tokens)
        values["completion_tokens"] = len(tokens)
    ids = entry.get("token_ids") or [
        int(t["token"].removeprefix(_ID_PREFIX))
        for t in tokens
        if str(t.get("token", "")).startswith(_ID_PREFIX)
    ]
    if ids and (not tokens or len(ids) == len(tokens)):
        values["completion_token_ids"] = token_ids(ids)
        values["completion_tokens"] = len(ids)
    kept: dict[str, Any] = {"finish_reason": entry.get("finish_reason")}
    if tokens and "completion_token_ids" not in values:
        kept["tokens"] = [t.get("token") for t in tokens]
    others = [t["top_logprobs"] for t in tokens if t.get("top_logprobs")]
    kept["top_logprobs"] = others or None
    if isinstance(entry.get("message"), Mapping):
        kept |= {k: v for k, v in entry.items() if k not in _CHOICE_TAKEN}
    values["metadata"] = {k: v for k, v in kept.items() if v is not None}
    return values
