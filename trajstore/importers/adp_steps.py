"""Steps of Agent Data Protocol records: the standard form, and text-based raw messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from trajstore.importers.building import (
    ROLES,
    Draft,
    StepBuilder,
    number,
    openai_calls,
    openai_steps,
    rest,
    text_of,
)
from trajstore.importers.plain import words
from trajstore.importers.swe_agent_steps import command_call
from trajstore.importers.written_calls import function_calls
from trajstore.schema import Actor, Observation, Step, ToolCall, json_text

_SHELLS = frozenset({"bash", "sh", "shell", "terminal"})
_ACTIONS = frozenset({"api_action", "code_action", "message_action"})
_ITEM_TAKEN = frozenset(
    {
        "class_",
        "content",
        "description",
        "function",
        "kwargs",
        "language",
        "name",
        "source",
        "tool_call_id",
        "reasoning_content",
        "reward",
        "html",
        "axtree",
        "annotations",
        "url",
        "viewport_size",
        "image_observation",
    }
)
_FENCED = re.compile(r"```[^\n`]*\n(.*?)\n?```", re.DOTALL)
_FINISH = re.compile(r"\s*<finish>\s?(.*?)\s?</finish>\s*", re.DOTALL)
_EXECUTE = re.compile(r"<execute>\s*(.*?)\s*</execute>", re.DOTALL)
_PRAISE = frozenset(
    {
        "Congratulations! You have successfully solved the task.",
        "Your solution has been verified as correct.",
        "Well done on successfully completing the task!",
        "Your implementation satisfies the task requirements.",
        "Task completed successfully.",
    }
)
_FAREWELL = frozenset(
    {
        "I have successfully completed the task.",
        "I did it! The task is now complete.",
        "The objective has been achieved with no outstanding issues.",
        "I have fulfilled all the requirements of the task.",
        "I've wrapped up the task successfully.",
    }
)

_MESSAGE_TAKEN = frozenset(
    {"role", "content", "text", "system_prompt", "mask", "tool_calls", "tool_call_ids"}
)

Acts = Callable[[str], Sequence[ToolCall]]
"""Finds the calls that a model wrote into its text."""


def split_ending(content: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Part the closing pair off that ADP's converters add where a run ends in an action.

    It is one of five sentences of praise and one of five farewells, drawn at random: nobody said
    them in the run.
    """
    if len(content) < 2:
        return content, ()
    praise, farewell = content[-2:]
    said = _unwrapped(str(farewell.get("content") or "")) or ""
    added = (
        praise.get("class_") == "text_observation"
        and str(praise.get("content") or "").strip() in _PRAISE
        and farewell.get("class_") == "message_action"
        and said.strip() in _FAREWELL
    )
    return (content[:-2], content[-2:]) if added else (content, ())


def standard_steps(content: Iterable[Any]) -> tuple[Step, ...]:
    """Steps of the standard form; raises ValueError or TypeError for an item of no known class.

    Actions with nothing between them are one model call.
    """
    builder = StepBuilder()
    open_: Draft | None = None
    for item in content:
        kind = item["class_"] if isinstance(item, Mapping) else None
        if kind in _ACTIONS or (kind == "text_observation" and item.get("source") == "agent"):
            open_ = _action(item, kind, open_, builder)
        elif isinstance(kind, str) and kind.endswith("_observation"):
            _observation(item, kind, builder)
            open_ = None
        else:
            message = f"an item of class {kind!r} is neither action nor observation"
            raise ValueError(message)
    return builder.steps()


def _action(item: Mapping[str, Any], kind: str, open_: Draft | None, builder: StepBuilder) -> Draft:
    draft = open_ or builder.add("agent")
    said = [words(item.get("description"))]
    if kind in {"message_action", "text_observation"}:
        said = [t for t in (*said, _unwrapped(words(item["content"]))) if t]
    elif kind == "api_action":
        draft.calls.append(ToolCall.of(item["function"], item.get("kwargs"), _call_id(item)))
    else:
        draft.calls.append(_code(str(item["language"]), str(item["content"]), _call_id(item)))
    for text in said or [""]:
        if text != draft.text:
            draft.add_text(text)
    draft.add_reasoning(words(item.get("reasoning_content")))
    _add_reward(draft, item)
    _keep(draft, item)
    return draft


def _unwrapped(message: str | None) -> str | None:
    """A message without the tag that ADP puts around the last one."""
    found = _FINISH.fullmatch(message or "")
    return found[1] if found else message


def _call_id(item: Mapping[str, Any]) -> str | None:
    value = item.get("tool_call_id")
    return None if value is None else str(value)


def _code(language: str, code: str, call_id: str | None = None) -> ToolCall:
    """Code that is run is a call of its language's executor."""
    if language in _SHELLS:
        return ToolCall.of("bash", {"command": code}, call_id)
    name = "python" if language in {"python3", "ipython"} else language
    return ToolCall.of(name, {"code": code}, call_id)


def _add_reward(draft: Draft, item: Mapping[str, Any]) -> None:
    reward = number(item.get("reward"))
    if reward is not None:
        draft.values["reward"] = draft.values.get("reward", 0.0) + reward


def _keep(draft: Draft, item: Mapping[str, Any]) -> None:
    left = rest(item, _ITEM_TAKEN)
    if left is not None and "metadata" not in draft.values:
        draft.values["metadata"] = left


def _observation(item: Mapping[str, Any], kind: str, builder: StepBuilder) -> None:
    text, parts = _seen(item, kind)
    call_id = _call_id(item)
    last = builder.drafts[-1] if builder.drafts else None
    if call_id is not None or (last is not None and last.unanswered(None)):
        draft = builder.observe(Observation(call_id=call_id, text=text, content=parts))
    else:
        draft = builder.add(_actor(item), text, content=parts)
    _add_reward(draft, item)
    _keep(draft, item)


def _actor(item: Mapping[str, Any]) -> Actor:
    if item.get("name") == "system":
        return "system"
    return ROLES.get(str(item.get("source")), "environment")


def _seen(item: Mapping[str, Any], kind: str) -> tuple[str | None, str | None]:
    """Text and parts of an observation; pictures stay references to files."""
    if kind == "text_observation":
        return text_of(item["content"]), None
    if kind == "image_observation":
        notes = item.get("annotations")
        picture = {"type": "image", "path": item["content"]}
        return None, json_text([{**picture, "annotations": notes} if notes else picture])
    if kind == "web_observation":
        page = words(item.get("axtree") or item.get("html"))
        kept = {
            k: item[k]
            for k in ("url", "html", "viewport_size", "image_observation")
            if item.get(k) is not None and item[k] != page
        }
        return page, json_text([{"type": "web", **kept}])
    return json_text(item.get("content")), None


def fenced(text: str) -> Sequence[ToolCall]:
    """The command in the last fenced block, as SWE-agent reads it."""
    blocks = _FENCED.findall(text)
    return [command_call(blocks[-1])] if blocks else []


def executed(text: str) -> Sequence[ToolCall]:
    """The Python code in an ``<execute>`` tag, as CodeAct runs it."""
    found = _EXECUTE.search(text)
    return [_code("python", found[1])] if found else []


def function_xml(text: str) -> Sequence[ToolCall]:
    """Calls in function XML, else the command in the last fenced block (SWE-smith)."""
    _, calls = function_calls(text)
    return calls or fenced(text)


def text_steps(
    messages: Iterable[Mapping[str, Any]], acts: Acts, *, must_act: bool
) -> tuple[Step, ...]:
    """Steps of messages in which the model acts in its text and is answered by the user.

    Args:
        messages: ``role`` with ``content`` or ``text`` (``system_prompt`` for the system).
        acts: finds the calls in an answer without native calls.
        must_act: the scaffold takes an answer without a call for a format error.
    """
    builder = StepBuilder()
    for message in messages:
        role = str(message["role"])
        actor = ROLES.get(role, "environment")
        text = text_of(message.get("content", message.get("text")))
        if text is None and role == "system":
            text = words(message.get("system_prompt"))
        last = builder.drafts[-1] if builder.drafts else None
        answered = last is not None and last.unanswered(None)
        if role == "tool":
            _tool_message(message, text, builder)
        elif actor == "user" and answered:
            builder.observe(Observation(text=text))
        else:
            draft = builder.add(actor, text, metadata=rest(message, _MESSAGE_TAKEN))
            if actor == "agent":
                draft.calls.extend(openai_calls(message) or acts(text or ""))
                if must_act and not draft.calls:
                    draft.values["format_error"] = True
    return builder.steps()


def _tool_message(message: Mapping[str, Any], text: str | None, builder: StepBuilder) -> None:
    ids = message.get("tool_call_ids") or [message.get("tool_call_id")]
    call_id = None if ids[0] is None else str(ids[0])
    builder.observe(Observation(call_id=call_id, text=text))


def chat_steps(messages: Iterable[Mapping[str, Any]]) -> tuple[Step, ...]:
    """Steps of OpenAI messages; answers with nothing between them are one model call."""
    builder = StepBuilder()
    for message in messages:
        before = len(builder.drafts)
        openai_steps([message], builder)
        if message.get("role") == "assistant" and before:
            _join(builder, before)
    return builder.steps()


def _join(builder: StepBuilder, index: int) -> None:
    """Join the step at ``index`` to the one before, if that is the same model call."""
    first, second = builder.drafts[index - 1], builder.drafts[index]
    if first.actor != "agent" or first.observations:
        return
    if second.text:
        first.add_text(second.text)
    first.add_reasoning(second.values.pop("reasoning", None))
    first.calls.extend(second.calls)
    first.values = {**second.values, **first.values}
    builder.drafts.pop()
