"""tau-bench: customer-service conversations with tools, one JSON list of results a run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    whole,
)
from trajstore.importers.importer import Importer, success_of, uri
from trajstore.importers.items import ImportOptions, Item
from trajstore.importers.source import Record, Source
from trajstore.schema import (
    Observation,
    Status,
    ToolCall,
    Trajectory,
    digest,
    json_text_or_none,
    trajectory_id,
)

_FIELDS = frozenset({"task_id", "reward", "info", "traj"})
_ENVIRONMENTS = ("airline", "retail", "telecom")
_PLAIN_NAME = re.compile(rf"(?P<model>.+)-(?P<environment>{'|'.join(_ENVIRONMENTS)})$")
_RUN_NAME = re.compile(
    r"(?P<agent>(?:\w+-)?tool-calling|act|react|few-shot)-(?P<model>.+)-(?P<temperature>[\d.]+)"
    r"_range_(?P<start>-?\d+)-(?P<end>-?\d+)"
    r"_user-(?P<user_model>.+)-(?P<user_strategy>[a-z]+)_(?P<time>[\w-]+)$"
)
_POLICY_HEADING = re.compile(rf"#\s*({'|'.join(_ENVIRONMENTS)})\b", re.IGNORECASE)
_REACT_TOOLS = "\n#Available tools\n"
_REACT_RESULT = "API output: "
_MESSAGE_FIELDS = frozenset({"role", "content", "tool_calls", "function_call", "reasoning_content"})
_TOOL_FAILURES = ("Error:", "Unknown action ")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunName:
    """What a results file says of its run in its name, which is the only place that says it."""

    environment: str | None = None
    agent: str | None = None
    model: str | None = None
    rest: Mapping[str, str] | None = None
    """Temperature, range of tasks, user model and strategy, as text."""

    @classmethod
    def of(cls, name: str) -> RunName:
        """Read ``gpt-4o-airline.json`` and the names that tau-bench itself writes.

        >>> RunName.of("gpt-4o-airline.json").environment
        'airline'
        """
        stem = name.removesuffix(".json").removesuffix(".jsonl")
        written = _RUN_NAME.match(stem)
        if written:
            found = written.groupdict()
            return cls(agent=found.pop("agent"), model=found.pop("model"), rest=found)
        plain = _PLAIN_NAME.match(stem)
        if plain:
            return cls(environment=plain["environment"], model=plain["model"])
        return cls()


class TauBenchImporter(Importer):
    """Reads tau-bench result files (Yao et al. 2024).

    Nothing in a file names its run. The id of a trajectory is therefore a hash of the task, the
    trial and the whole conversation, which tau-bench writes once and never extends. A run that
    failed before its first message has no conversation; there the hash takes the error and what
    the file name says.

    Tool-call ids repeat inside one conversation, so a result belongs to the message right before
    it. The agents ``act`` and ``react`` write their calls as text; they are read too.

    Success is a reward of 1 within 1e-6, as the benchmark counts it. A run that ended in an error
    was never judged: its success is unknown although the file says reward 0.
    """

    name = "tau-bench"
    title = "tau-bench result files: simulated customers, policies and tools (airline, retail)"
    reads = (
        "conversation, tool calls, gold actions; outcome is reward == 1; environment and model "
        "come from the file name"
    )

    def detect(self, source: Source) -> float:
        """Say 0.95 where every sampled record has task_id, reward, info and traj."""
        if source.shape not in {"array", "lines"} or not source.sample:
            return 0.0
        fits = (isinstance(r, dict) and r.keys() >= _FIELDS for r in source.sample)
        return 0.95 if all(fits) else 0.0

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """One trajectory a record."""
        value = record.value
        info, messages = value["info"], value["traj"]
        if not isinstance(messages, list):
            raise TypeError("field 'traj' is not a list of messages")
        if value["task_id"] is None:
            raise ValueError("field 'task_id' is null, so the task is unknown")
        reward = number(value["reward"])
        if reward is None and value["reward"] is not None:
            raise ValueError(f"field 'reward' is {value['reward']!r}, not a number")
        run = RunName.of(source.name)
        environment = run.environment or _policy(messages) or _policy_of(source)
        task = info.get("task") or {}
        yield Trajectory(
            trajectory_id=trajectory_id("tau-bench", _key(value, run)),
            task_id=_task_id(environment or options.environment, value["task_id"]),
            attempt=whole(value.get("trial")),
            goal=task.get("instruction"),
            source=self.name,
            source_uri=uri(source, record),
            environment=environment,
            agent=run.agent,
            model=run.model,
            status=_status(info),
            error=info.get("error"),
            success=None if "error" in info else success_of(reward, options),
            reward=reward,
            rewards=_components(info),
            tools=_react_tools(messages),
            steps=_build(messages).steps(),
            metadata=_metadata(value, run),
        )


def _task_id(environment: str | None, task: Any) -> str:
    return "/".join(part for part in ("tau-bench", environment, str(task)) if part)


def _key(value: Mapping[str, Any], run: RunName) -> str:
    messages, info = value["traj"], value["info"]
    if messages:
        return digest(value["task_id"], value.get("trial"), messages)
    failure = [info.get("error"), info.get("traceback")]
    return digest(value["task_id"], value.get("trial"), failure, run.environment, run.model)


def _status(info: Mapping[str, Any]) -> Status:
    if "error" in info:
        return "error"
    return "terminated" if info.get("reward_info") else "truncated"


def _components(info: Mapping[str, Any]) -> dict[str, float]:
    checks = (info.get("reward_info") or {}).get("info") or {}
    found = {name: number(checks.get(name)) for name in ("r_actions", "r_outputs")}
    return {name: reward for name, reward in found.items() if reward is not None}


def _metadata(value: Mapping[str, Any], run: RunName) -> str | None:
    info = dict(value["info"])
    info.pop("error", None)
    task = dict(info.pop("task", None) or {})
    task.pop("instruction", None)
    judged = dict(info.pop("reward_info", None) or {})
    judged.pop("reward", None)
    if judged.get("actions") == task.get("actions"):
        judged.pop("actions", None)
    kept = {k: v for k, v in value.items() if k not in _FIELDS | {"trial"}}
    kept |= {"task": task, **info, "reward_info": judged, "run": dict(run.rest or {})}
    return json_text_or_none({k: v for k, v in kept.items() if v not in (None, {}, [])})


def _policy(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """The environment that the system prompt's heading names ("# Airline Agent Policy")."""
    if not messages or not isinstance(messages[0], dict) or messages[0].get("role") != "system":
        return None
    heading = _POLICY_HEADING.match(text_of(messages[0].get("content")) or "")
    return heading[1].lower() if heading else None


def _policy_of(source: Source) -> str | None:
    """The environment that other records of the file name; for runs without a message."""
    records = (r for r in source.sample if isinstance(r, dict))
    found = (_policy(r["traj"]) for r in records if isinstance(r.get("traj"), list))
    return next(filter(None, found), None)


def _react_prompt(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """What follows the heading of the tools in a text agent's system prompt; None for others."""
    prompt = text_of(messages[0].get("content")) if messages else None
    _, heading, tools = (prompt or "").partition(_REACT_TOOLS)
    return tools if heading else None


def _react_tools(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """The tool definitions that a text agent finds in its system prompt, as JSON text."""
    try:
        tools, _ = json.JSONDecoder().raw_decode(_react_prompt(messages) or "")
    except ValueError:
        return None
    return json_text_or_none(tools)


def _build(messages: Sequence[Mapping[str, Any]]) -> StepBuilder:
    builder = StepBuilder()
    writes_calls_as_text = _react_prompt(messages) is not None
    for message in messages:
        role, text = message["role"], text_of(message.get("content"))
        if role in {"tool", "function"}:
            _answer(builder, _observation(text, message.get("tool_call_id")))
        elif writes_calls_as_text and role == "user" and (text or "").startswith(_REACT_RESULT):
            _answer(builder, _observation((text or "").removeprefix(_REACT_RESULT), None))
        else:
            draft = builder.add(
                ROLES.get(role, "environment"),
                text,
                content=parts_of(message.get("content")),
                reasoning=message.get("reasoning_content"),
                metadata=rest(message, _MESSAGE_FIELDS, role if role not in ROLES else None),
            )
            draft.calls.extend(openai_calls(message))
            if writes_calls_as_text and role == "assistant":
                _call_in_text(draft)
    return builder


def _observation(text: str | None, call_id: Any) -> Observation:
    """A result; tau-bench marks failures by how the text starts and by nothing else."""
    return Observation(
        call_id=None if call_id is None else str(call_id),
        text=text,
        is_error=(text or "").startswith(_TOOL_FAILURES),
    )


def _answer(builder: StepBuilder, observation: Observation) -> None:
    """Give a result to the message before it; ids repeat, so they decide only where it can't be."""
    last = builder.drafts[-1] if builder.drafts else None
    if last is not None and last.unanswered(None):
        last.observations.append(observation)
    else:
        builder.observe(observation)


def _call_in_text(draft: Draft) -> None:
    """Read the call after the last ``Action:`` of a text agent; answering the user is no call."""
    try:
        action = json.loads((draft.text or "").rsplit("Action:", 1)[-1].strip())
        name, arguments = action["name"], action["arguments"]
    except (ValueError, KeyError, TypeError):
        draft.values["format_error"] = True
        return
    if name != "respond":
        draft.calls.append(ToolCall.of(name, arguments))


IMPORTER = TauBenchImporter()
"""The importer, as the registry finds it."""
