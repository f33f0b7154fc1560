"""Steps of SWE-agent runs: from ``trajectory``, or from ``history`` where tools are called."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trajstore.importers.building import (
    ROLES,
    Draft,
    StepBuilder,
    number,
    openai_calls,
    parts_of,
    rest,
    text_of,
)
from trajstore.importers.plain import words
from trajstore.schema import Observation, Step, ToolCall, json_text, json_text_or_none

TOOLS = frozenset(
    {
        "annotate_file",
        "close_tab",
        "connect_exec",
        "connect_sendline",
        "connect_start",
        "connect_stop",
        "create",
        "debug_continue",
        "debug_exec",
        "debug_start",
        "debug_step",
        "debug_stop",
        "decompile",
        "disassemble",
        "edit",
        "exit_forfeit",
        "filemap",
        "find_file",
        "goto",
        "insert",
        "open",
        "scroll_down",
        "scroll_up",
        "search_dir",
        "search_file",
        "str_replace_editor",
        "submit",
        "undo_edit",
        "view_image",
    }
)
"""Commands that SWE-agent adds to the shell; every other command line is ``bash``."""

_TAKEN = frozenset(
    {
        "action",
        "observation",
        "response",
        "state",
        "thought",
        "messages",
        "query",
        "tool_calls",
        "tool_call_ids",
    }
)
_MESSAGE_TAKEN = frozenset(
    {
        "role",
        "content",
        "tool_calls",
        "tool_call_ids",
        "tool_call_id",
        "action",
        "thought",
        "message_type",
        "is_demo",
    }
)


def command_call(action: str) -> ToolCall:
    r"""The call that a command line makes: a tool of SWE-agent by its name, else ``bash``.

    >>> command_call("open setup.py\n").name, command_call("ls -F").name
    ('open', 'bash')
    """
    first = action.split(maxsplit=1)[:1]
    name = first[0] if first and first[0] in TOOLS else "bash"
    return ToolCall.of(name, {"command": action})


def is_demo(message: Mapping[str, Any]) -> bool:
    """Whether a history message is a demonstration of another task, shown in the prompt."""
    return bool(message.get("is_demo")) or message.get("message_type") == "demonstration"


def said(history: Iterable[Any]) -> list[Mapping[str, Any]]:
    """The history without demonstrations; raises TypeError where an entry is no message."""
    kept = []
    for message in history:
        if not isinstance(message, Mapping) or "role" not in message:
            what = f"a history entry is not a message: {message!r:.80}"
            raise TypeError(what)
        if not is_demo(message):
            kept.append(message)
    return kept


def calls_tools(history: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the model called tools natively, so that the calls are in the history only."""
    return any(m.get("tool_calls") for m in history)


def run_steps(
    history: Sequence[Mapping[str, Any]], trajectory: Sequence[Mapping[str, Any]]
) -> tuple[Step, ...]:
    """The steps of one run.

    Args:
        history: messages without demonstrations.
        trajectory: ``trajectory`` of the file; [] where there is none.
    """
    builder = StepBuilder()
    if trajectory and not calls_tools(history):
        _prompt(history, builder)
        for entry, state in zip(trajectory, _states(trajectory), strict=True):
            _turn(entry, state, builder)
        return builder.steps()
    for message in history:
        _message(message, builder)
    _enrich([d for d in builder.drafts if d.actor == "agent"], trajectory)
    return builder.steps()


def _prompt(history: Sequence[Mapping[str, Any]], builder: StepBuilder) -> None:
    """The messages before the first answer."""
    for message in history:
        if message["role"] == "assistant":
            return
        _message(message, builder)


def _turn(entry: Mapping[str, Any], state: Any, builder: StepBuilder) -> None:
    action, observation = entry["action"], entry.get("observation")
    response, thought = words(entry.get("response")), words(entry.get("thought"))
    draft = builder.add(
        "agent",
        response,
        reasoning=thought if thought != response else None,
        state=_state_text(state),
        metadata=rest(entry, _TAKEN),
    )
    if action:
        draft.calls.append(command_call(str(action)))
    if observation is not None:
        draft.observations.append(Observation(text=words(observation)))


def _message(message: Mapping[str, Any], builder: StepBuilder) -> None:
    role, content = str(message["role"]), message.get("content")
    last = builder.drafts[-1] if builder.drafts else None
    if role == "tool":
        _observe(message, builder)
        return
    if role == "user" and last is not None and last.calls and last.unanswered(None):
        last.observations.append(Observation(text=text_of(content), content=parts_of(content)))
        return
    draft = builder.add(
        ROLES.get(role, "environment"),
        text_of(content),
        content=parts_of(content),
        reasoning=_reasoning(message, content),
        metadata=rest(message, _MESSAGE_TAKEN, role if role not in ROLES else None),
    )
    draft.calls.extend(openai_calls(message))
    if not draft.calls and role == "assistant" and message.get("action"):
        draft.calls.append(command_call(str(message["action"])))


def _reasoning(message: Mapping[str, Any], content: Any) -> str | None:
    blocks = message.get("thinking_blocks")
    if blocks:
        return "\n".join(str(b.get("thinking", "")) for b in blocks if isinstance(b, Mapping))
    thought = message.get("thought")
    return thought if isinstance(thought, str) and thought != text_of(content) else None


def _observe(message: Mapping[str, Any], builder: StepBuilder) -> None:
    ids = message.get("tool_call_ids") or [message.get("tool_call_id")]
    content = message.get("content")
    builder.observe(
        Observation(
            call_id=None if ids[0] is None else str(ids[0]),
            text=text_of(content),
            content=parts_of(content),
        )
    )


def _states(trajectory: Sequence[Mapping[str, Any]]) -> list[Any]:
    """What of the environment each turn could see.

    Old files hold the state before the action, as JSON text. New ones hold an object, taken after
    the action, which is what the next turn sees.
    """
    states = [entry.get("state") for entry in trajectory]
    if any(isinstance(s, Mapping) for s in states):
        return [None, *states[:-1]]
    return states


def _state_text(state: Any) -> str | None:
    if not isinstance(state, str):
        return json_text_or_none(state)
    try:
        return json_text_or_none(json.loads(state))
    except ValueError:
        return json_text(state) if state.strip() else None


def _enrich(agents: Sequence[Draft], trajectory: Sequence[Mapping[str, Any]]) -> None:
    """Add what only ``trajectory`` knows, where its entries and the agent steps pair up."""
    if len(agents) != len(trajectory):
        return
    for draft, entry, state in zip(agents, trajectory, _states(trajectory), strict=True):
        seen = _state_text(state)
        if seen is not None:
            draft.values["state"] = seen
        took = number(entry.get("execution_time"))
        if took is not None:
            metadata = json.loads(draft.values.get("metadata") or "{}")
            draft.values["metadata"] = json_text({**metadata, "execution_time": took})
