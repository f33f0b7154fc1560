"""mini-swe-agent trajectories of all versions, with SWE-bench reports beside them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from trajstore.importers import swe_bench
from trajstore.importers.building import moment, number, rest, text_of
from trajstore.importers.importer import Importer, uri
from trajstore.importers.items import ImportOptions, Item
from trajstore.importers.mini_swe_agent_steps import (
    is_observation,
    responses_of,
    run_steps,
    written_actions,
)
from trajstore.importers.plain import words
from trajstore.importers.source import Record, Source
from trajstore.schema import Status, Step, Trajectory, digest, json_text_or_none, trajectory_id

_ENDING = ".traj.json"
_PROMPT = re.compile(r"exactly ONE bash code block|shell to solve programming tasks", re.IGNORECASE)
_LIMITS = frozenset(
    {"LimitsExceeded", "TimeExceeded", "ContextWindowExceededError", "RepeatedFormatError"}
)
_SAMPLING = ("temperature", "top_p", "top_k", "seed", "max_tokens")
_SPEAKERS = ("system", "user", "assistant")
_TAKEN = frozenset({"messages", "instance_id"})


class MiniSweAgentImporter(Importer):
    """Reads bare message lists of 1.x, ``mini-swe-agent-1`` and ``mini-swe-agent-1.1``.

    Identity: id and time of the first answer of the API, which no other attempt shares and which
    stay as the file grows; else the time of the first message that has one; else the digest of all
    messages. Never the file or the folder: two run folders hold two attempts at one instance.
    """

    name: ClassVar[str] = "mini-swe-agent"
    title: ClassVar[str] = "mini-swe-agent trajectories (.traj.json)"
    reads: ClassVar[str] = (
        "messages, bash calls in text or as tool calls, usage and cost; outcome from a SWE-bench "
        "report beside the run"
    )
    array_is_one: ClassVar[bool] = True

    def detect(self, source: Source) -> float:
        """Sure of ``trajectory_format``, of message lists in its style, and of reports."""
        value = source.first
        if is_run(value):
            return 0.95
        if source.shape == "array" and _is_bare(source.sample):
            return 0.9
        if not swe_bench.is_report(value):
            return 0.0
        beside = swe_bench.run_paths(source.path, swe_bench.verdicts(value), _ENDING)
        return 0.9 if beside else 0.85

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """The run; an array of wrapped runs is read one by one."""
        if self.array_is_one and source.shape == "array" and is_run(source.first):
            return _RUN_BY_RUN.read(source, options)
        return super().read(source, options)

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """One run, or one report."""
        del options
        value = record.value
        if swe_bench.is_report(value):
            return self._labels(source, record)
        run = {"messages": value} if isinstance(value, list) else value
        return self._run(run, source, record)

    def _run(self, run: Mapping[str, Any], source: Source, record: Record) -> Iterator[Item]:
        trajectory = _trajectory(run, source.path, uri(source, record))
        yield trajectory
        instance = instance_of(run, source.path)
        for path in swe_bench.report_paths(source.path, instance or "", _ENDING):
            report = Source(path).first
            if swe_bench.is_report(report) and instance in swe_bench.verdicts(report):
                yield swe_bench.outcome(report, str(instance), trajectory.trajectory_id)

    def _labels(self, source: Source, record: Record) -> Iterator[Item]:
        report = record.value
        runs = swe_bench.run_paths(source.path, swe_bench.verdicts(report), _ENDING)
        if not runs:
            reason = "no trajectory of its instances (ID.traj.json, ID.traj) lies beside it"
            yield self.problem(source, reason, record)
        for instance, path in runs.items():
            run = Source(path).document()
            yield swe_bench.outcome(report, instance, identify(_messages(run)))


class _RunByRun(MiniSweAgentImporter):
    array_is_one: ClassVar[bool] = False


_RUN_BY_RUN = _RunByRun()


def is_run(value: Any) -> bool:
    """Whether this is a wrapped run."""
    if not isinstance(value, Mapping) or not isinstance(value.get("messages"), list):
        return False
    tag, info = value.get("trajectory_format"), value.get("info")
    named = isinstance(tag, str) and tag.startswith("mini-swe-agent")
    return named or (isinstance(info, Mapping) and "mini_version" in info)


def _is_bare(messages: Sequence[Any]) -> bool:
    """Whether messages are of this scaffold: its prompt, fenced actions, rendered results."""
    if not all(isinstance(m, Mapping) and isinstance(m.get("role"), str) for m in messages):
        return False
    said = {role: [_text(m) for m in messages if m["role"] == role] for role in _SPEAKERS}
    acts = any(written_actions(t) for t in said["assistant"])
    results = any(is_observation(t) for t in said["user"])
    prompt = any(_PROMPT.search(t) for t in said["system"] + said["user"][:1])
    return acts and (results or prompt)


def _text(message: Mapping[str, Any]) -> str:
    return text_of(message.get("content")) or ""


def _messages(run: Any) -> list[Any]:
    messages = run if isinstance(run, list) else run["messages"]
    if not isinstance(messages, list) or not messages:
        what = "'messages' is not a list of messages"
        raise TypeError(what)
    return messages


def identify(messages: Sequence[Mapping[str, Any]]) -> str:
    """Id of the run (see :class:`MiniSweAgentImporter`)."""
    first = next((a for a in responses_of(messages) if a.get("id")), None)
    if first is not None:
        created = first.get("created", first.get("created_at"))
        key = digest("response", first["id"], created)
        return trajectory_id("mini-swe-agent", key, moment(created))
    clock = next((t for t in _times(messages) if t is not None), None)
    if clock is not None:
        key = digest("time", clock.timestamp(), text_of(messages[0].get("content")))
        return trajectory_id("mini-swe-agent", key, clock)
    return trajectory_id("mini-swe-agent", digest("messages", list(messages)))


def _times(messages: Sequence[Mapping[str, Any]]) -> Iterator[datetime | None]:
    for message in messages:
        extra = message.get("extra")
        yield moment(extra.get("timestamp")) if isinstance(extra, Mapping) else None


def instance_of(run: Mapping[str, Any], path: Path) -> str | None:
    """The instance: as the run says, else a file name that has the form of an instance id."""
    named = run.get("instance_id")
    if named:
        return str(named)
    stem = swe_bench.stem_of(path, _ENDING)
    return stem if swe_bench.benchmark_of(stem) else None


def exit_state(status: str | None) -> Status | None:
    """How a run ended, from ``exit_status``: its own words, or the name of an exception.

    >>> exit_state("Submitted"), exit_state("LimitsExceeded"), exit_state("APIError")
    ('terminated', 'truncated', 'error')
    """
    if status is None:
        return None
    if status == "":
        return "running"
    return (
        "terminated" if status == "Submitted" else ("truncated" if status in _LIMITS else "error")
    )


def _trajectory(run: Mapping[str, Any], path: Path, where: str) -> Trajectory:
    messages = _messages(run)
    steps = run_steps(messages)
    info = run.get("info") or {}
    config, stats = info.get("config") or {}, info.get("model_stats") or {}
    model = config.get("model") or {}
    instance, goal = instance_of(run, path), _goal(config, steps)
    status = info.get("exit_status")
    times = [s.timestamp for s in steps if s.timestamp is not None]
    started = _started(messages) or (times[0] if times else None)
    return Trajectory(
        trajectory_id=identify(messages),
        task_id=swe_bench.task_id(instance or digest(goal)[:16], "mini-swe-agent"),
        goal=goal,
        source="mini-swe-agent",
        source_uri=where,
        environment=swe_bench.benchmark_of(instance or ""),
        agent="mini-swe-agent",
        model=words(model.get("model_name")) or next((s.model for s in steps if s.model), None),
        status=exit_state(status),
        termination_reason=words(status) or None,
        error=words(info.get("exception_str")) or None,
        steps=_with_sampling(steps, model.get("model_kwargs")),
        cost_usd=number(stats.get("instance_cost")),
        started_at=started,
        ended_at=_last(messages) or (times[-1] if times else None),
        metadata=rest(run, _TAKEN),
    )


def _started(messages: Sequence[Mapping[str, Any]]) -> datetime | None:
    answers = responses_of(messages)
    return moment(answers[0].get("created", answers[0].get("created_at"))) if answers else None


def _last(messages: Sequence[Mapping[str, Any]]) -> datetime | None:
    return max((t for t in _times(messages) if t is not None), default=None)


def _goal(config: Mapping[str, Any], steps: Sequence[Step]) -> str | None:
    """The task alone, by the run's own prompt template; else the whole first user message."""
    first = next((s.text for s in steps if s.actor == "user"), None)
    if not first:
        return first
    template = (config.get("agent") or {}).get("instance_template")
    task = _between(template, first) if isinstance(template, str) else None
    return task or swe_bench.issue_of(first)


def _between(template: str, text: str) -> str | None:
    """What stands in ``text`` where ``template`` has its task; literal pieces are looked up."""
    pieces = re.split(r"\{\{\s*task\s*\}\}", template, maxsplit=1)
    if len(pieces) == 1:
        return None
    before = re.split(r"\}\}|%\}", pieces[0])[-1].lstrip()
    after = re.split(r"\{\{|\{%", pieces[1])[0].rstrip()
    start = text.find(before)
    end = text.find(after, start + len(before)) if after else len(text)
    return text[start + len(before) : end].strip() if start >= 0 and end >= 0 else None


def _with_sampling(steps: tuple[Step, ...], kwargs: Any) -> tuple[Step, ...]:
    """Give agent steps what the configuration says of sampling."""
    given = kwargs if isinstance(kwargs, Mapping) else {}
    told = json_text_or_none({k: given[k] for k in _SAMPLING if given.get(k) is not None})
    if told is None:
        return steps
    return tuple(replace(s, sampling=told) if s.actor == "agent" else s for s in steps)


IMPORTER = MiniSweAgentImporter()
"""The importer of this module."""
