"""Inspect logs (UK AISI), ``.json`` and ``.eval``: one trajectory a sample and epoch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, ClassVar

from trajstore.importers.building import moment, number, text_of, whole
from trajstore.importers.importer import Importer
from trajstore.importers.inspect_ai_about import about, outcome
from trajstore.importers.inspect_ai_files import EvalArchive, eval_records, is_header, json_records
from trajstore.importers.inspect_ai_sample import resolved
from trajstore.importers.inspect_ai_steps import ModelCalls, message_steps, token_counts
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.source import Record, Source
from trajstore.schema import (
    Status,
    Step,
    Trajectory,
    digest,
    json_text_or_none,
    trajectory_id,
)

_BEGIN = re.compile(
    rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:\s*"\w+"\s*,\s*"eval"\s*:\s*\{'
)
_FIRST_MEMBER = b"_journal/start.json"


class InspectImporter(Importer):
    """Reads the samples of an Inspect log.

    A sample is known by its ``uuid``, which it keeps when the log is converted or its eval is
    retried; before version 0.3.70 there was none, and the ids of run, task and sample and the epoch
    stand for it. Sub-agents and graders share the event stream; their calls stay in the
    trajectory's metadata.
    """

    name: ClassVar[str] = "inspect-ai"
    title: ClassVar[str] = "Inspect (UK AISI) evaluation logs, .json and .eval"
    reads: ClassVar[str] = (
        "messages of each sample and epoch, tokens of its model events; outcome from the first or "
        "headline scorer (C, I, P, N, numbers, yes and no)"
    )

    def detect(self, source: Source) -> float:
        """0.95 for a log's archive, 0.9 for its JSON form."""
        if source.shape == "zip":
            return 0.95 if _is_archive(source) else 0.0
        if source.shape != "object":
            return 0.0
        if _BEGIN.match(source.head):
            return 0.9
        return 0.9 if is_header(source.first) and "status" in source.first else 0.0

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """Every sample; a log without any is noted and left out."""
        empty = True
        for item in super().read(_Log(source), options):
            empty = False
            yield item
        if empty:
            yield self.ignored(source, f"the log has no samples (status: {_status_of(source)})")

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """One sample as a trajectory."""
        header, sample = record.value["header"], resolved(record.value["sample"])
        spec, name = header["eval"], f"{sample['id']}_epoch_{sample['epoch']}"
        calls = ModelCalls().read(sample["events"])
        messages = sample.get("messages") or _input_messages(sample["input"])
        steps = message_steps(messages, calls)
        began, ended = _times(sample)
        success, reward, rewards = outcome(sample.get("scores"), header, options)
        error, limit = sample.get("error") or {}, sample.get("limit") or {}
        totals: dict[str, Any] = {} if calls.used else _totals(sample, steps, spec["model"])
        run = Trajectory(
            trajectory_id=_identity(sample, spec, began),
            task_id=f"{spec['task']}/{sample['id']}",
            attempt=whole(sample["epoch"]),
            goal=_goal(sample["input"]),
            source=self.name,
            source_uri=f"{source.uri}#{name}",
            environment=spec["task"],
            environment_version=_text(spec.get("task_version")),
            agent=_agent(header),
            model=spec["model"],
            status=_status(error, limit),
            error=error.get("message"),
            termination_reason=limit.get("type") or _stop_reason(sample),
            success=success,
            reward=reward,
            rewards=rewards,
            tools=json_text_or_none(_tools(calls.used or sample["events"])),
            steps=steps,
            **totals,
            cost_usd=_cost(calls.used),
            duration_s=number(sample.get("total_time")),
            started_at=began,
            ended_at=ended,
            tags=("invalidated",) if sample.get("invalidation") else (),
            metadata=json_text_or_none(about(sample, header, calls.used)),
        )
        return [run]


class _Log(Source):
    """A log whose records are its samples."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.path, uri=source.uri)

    def records(self, *, array_is_one: bool = False) -> Iterator[Record | Problem]:
        """``{"header", "sample"}`` for each sample."""
        del array_is_one
        yield from eval_records(self) if self.shape == "zip" else json_records(self)


def _is_archive(source: Source) -> bool:
    """Whether a ZIP is a log; one that was cut off is known by its first member."""
    try:
        with EvalArchive(source) as archive:
            return bool(archive.header())
    except (ValueError, OSError):
        return _FIRST_MEMBER in source.head[:80]


def _status_of(source: Source) -> str:
    if source.shape == "zip":
        with EvalArchive(source) as archive:
            return str(archive.header()["status"])
    return str(source.first.get("status")) if is_header(source.first) else "unknown"


def _identity(sample: Mapping[str, Any], spec: Mapping[str, Any], began: datetime | None) -> str:
    """The sample's own id; ``eval_id`` stands for nothing, since Inspect adds it to old logs."""
    run, task = spec.get("run_id"), spec.get("task_id")
    key = sample.get("uuid") or digest(run, task, str(sample["id"]), sample["epoch"])
    return trajectory_id("inspect-ai", str(key), began)


def _times(sample: Mapping[str, Any]) -> tuple[datetime | None, datetime | None]:
    """When a sample began and ended: as it says, else as its first and last event say."""
    stamps = [moment(e.get("timestamp")) for e in sample["events"] if isinstance(e, dict)]
    known = [stamp for stamp in stamps if stamp is not None]
    began = moment(sample.get("started_at")) or (known[0] if known else None)
    ended = moment(sample.get("completed_at")) or (known[-1] if known else None)
    return began, ended


def _input_messages(given: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(given)


def _goal(given: Any) -> str | None:
    """The text of the input; of a talk, its last user message."""
    if isinstance(given, str):
        return given
    asked = [m for m in given if m.get("role") == "user"]
    return text_of(asked[-1].get("content")) if asked else None


def _agent(header: Mapping[str, Any]) -> str | None:
    """The solver, else the solvers of the plan in their order."""
    if header["eval"].get("solver"):
        return str(header["eval"]["solver"])
    steps = (header.get("plan") or {}).get("steps") or ()
    return "+".join(str(step.get("solver")) for step in steps) or None


def _status(error: Mapping[str, Any], limit: Mapping[str, Any]) -> Status:
    if error:
        return "error"
    return "truncated" if limit else "terminated"


def _stop_reason(sample: Mapping[str, Any]) -> str | None:
    choices = (sample.get("output") or {}).get("choices") or [{}]
    return _text(choices[0].get("stop_reason"))


def _tools(events: Iterable[Any]) -> Any:
    """The tool definitions of the first model call that had any."""
    offered = (e.get("tools") for e in events if isinstance(e, dict) and e.get("event") == "model")
    return next((tools for tools in offered if tools), None)


def _cost(used: Iterable[Mapping[str, Any]]) -> float | None:
    usages = ((event.get("output") or {}).get("usage") or {} for event in used)
    costs = [number(usage.get("total_cost")) for usage in usages]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None


def _totals(sample: Mapping[str, Any], steps: Iterable[Step], model: str) -> dict[str, Any]:
    """Tokens of a sample without model events: of its only answer, else of its model."""
    answers = sum(step.actor == "agent" for step in steps)
    usage = (sample.get("output") or {}).get("usage") if answers == 1 else None
    return token_counts(usage or (sample.get("model_usage") or {}).get(model))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


IMPORTER = InspectImporter()
"""The importer that the registry loads."""
