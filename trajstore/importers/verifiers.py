"""verifiers: rows of ``results.jsonl`` with their ``metadata.json``, and v1 ``traces.jsonl``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from trajstore.importers.building import moment, number, whole
from trajstore.importers.framework_messages import decoded
from trajstore.importers.importer import Importer, success_of, uri
from trajstore.importers.items import ImportOptions, Item
from trajstore.importers.occurrences import Occurrences
from trajstore.importers.record_by_record import converted
from trajstore.importers.source import Record, Source
from trajstore.importers.verifiers_steps import result_steps
from trajstore.importers.verifiers_traces import is_trace, trace_trajectories
from trajstore.schema import Status, Trajectory, json_text_or_none, trajectory_id

PASS_THRESHOLD = 0.5
"""Reward from which on verifiers counts an attempt as passed (its ``pass@k``)."""

_METADATA = frozenset({"env_id", "rollouts_per_example"})
_RESULT = frozenset({"example_id", "prompt", "completion", "reward"})
_TAKEN = _RESULT | {
    "error",
    "timing",
    "is_completed",
    "is_truncated",
    "stop_condition",
    "metrics",
    "tool_defs",
    "token_usage",
    "trajectory",
    "error_chain",
    "long_error_chain",
}


class VerifiersImporter(Importer):
    """Reads results of verifiers in both generations.

    Identity: a trace has an id. A result row has none, so example, messages and timing stand for
    it, with its number among equal rows. Attempts are the rows of one example, in order.

    Success is a reward of at least ``pass_threshold`` of the metadata, 0.5 where there is none, as
    for verifiers' own pass@k; a rollout that ended in an error was not judged: unknown.
    """

    name: ClassVar[str] = "verifiers"
    title: ClassVar[str] = "verifiers results.jsonl with metadata.json, and v1 traces.jsonl"
    reads: ClassVar[str] = (
        "prompt and completion, or the message graph path by path, with token ids; rewards and "
        "metrics; success from the pass threshold"
    )

    def detect(self, source: Source) -> float:
        """Sure of result rows, of traces and of the metadata beside them."""
        found = [v for v in source.sample if isinstance(v, Mapping)]
        ours = any(v.keys() >= _RESULT or v.keys() >= _METADATA or is_trace(v) for v in found)
        return 0.9 if ours else 0.0

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """One trajectory a row, or one a root-to-leaf path of a trace."""
        first = source.first
        if isinstance(first, Mapping) and first.keys() >= _METADATA and "prompt" not in first:
            yield self.ignored(source, "settings of an evaluation; read with results.jsonl beside")
            return
        about, same, attempts = _beside(source), Occurrences(), Counter[str]()
        yield from converted(
            self,
            source,
            lambda record: self._items(source, record, options, about, same, attempts),
        )

    def _items(
        self,
        source: Source,
        record: Record,
        options: ImportOptions,
        about: Mapping[str, Any],
        same: Occurrences,
        attempts: Counter[str],
    ) -> Iterator[Trajectory]:
        threshold = number(about.get("pass_threshold"))
        threshold = PASS_THRESHOLD if threshold is None else threshold
        if is_trace(record.value):
            yield from trace_trajectories(
                record.value, uri(source, record), options, threshold, attempts
            )
            return
        value = record.value
        task = _task(value, about)
        attempts[task] += 1
        messages = (value["example_id"], value["prompt"], value["completion"])
        key = same.key(*messages, value.get("timing") or {})
        built = _result(value, about, uri(source, record), options, threshold)
        run = trajectory_id(self.name, key)
        yield replace(built, trajectory_id=run, task_id=task, attempt=attempts[task] - 1)


def _result(
    value: Mapping[str, Any],
    about: Mapping[str, Any],
    place: str,
    options: ImportOptions,
    threshold: float,
) -> Trajectory:
    """A result row as a trajectory that has no identity yet."""
    steps = result_steps(value)
    reward, failed = number(value["reward"]), value.get("error")
    timing, usage = value.get("timing") or {}, value.get("token_usage") or {}
    return Trajectory(
        trajectory_id="",
        task_id="",
        goal=next((s.text for s in steps if s.actor == "user" and s.text), None),
        source=VerifiersImporter.name,
        source_uri=place,
        environment=about.get("env_id"),
        environment_version=_text(about.get("env_version")),
        model=about.get("model"),
        status=_status(value),
        error=_error(failed),
        termination_reason=_text(value.get("stop_condition")),
        success=None if failed else success_of(reward, options, at_least=threshold),
        reward=reward,
        rewards=_numbers(value.get("metrics") or {}),
        tools=json_text_or_none(decoded(value.get("tool_defs"))),
        prompt_tokens=whole(usage.get("input_tokens")),
        completion_tokens=whole(usage.get("output_tokens")),
        steps=steps,
        started_at=moment(timing.get("start_time")),
        duration_s=_seconds(timing),
        metadata=_metadata(value, about),
    )


def _beside(source: Source) -> Mapping[str, Any]:
    """The ``metadata.json`` beside the file, where it is one of verifiers."""
    path = source.sibling("metadata.json")
    if path is None or path == source.path:
        return {}
    value = Source(path).first
    return value if isinstance(value, Mapping) and value.keys() >= _METADATA else {}


def _task(value: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    environment = str(about.get("env_id") or value.get("task") or "")
    named = ("verifiers", environment, str(value["example_id"]))
    return "/".join(part for part in named if part)


def _status(value: Mapping[str, Any]) -> Status | None:
    if value.get("error"):
        return "error"
    if value.get("is_truncated") is True:
        return "truncated"
    return "terminated" if value.get("is_completed") is True else None


def _error(error: Any) -> str | None:
    if isinstance(error, Mapping):
        error = error.get("error_chain_str") or error.get("error") or json_text_or_none(error)
    return _text(error) if error else None


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {str(k): float(v) for k, v in metrics.items() if isinstance(v, int | float)}


def _seconds(timing: Mapping[str, Any]) -> float | None:
    total = number(timing.get("total_ms"))
    return None if total is None else total / 1000


def _metadata(value: Mapping[str, Any], about: Mapping[str, Any]) -> str | None:
    """What has no column; metrics stand a second time at the top of a row and are left out."""
    metrics = value.get("metrics") or {}
    left = {
        k: v
        for k, v in value.items()
        if k not in _TAKEN and not (k in metrics and metrics[k] == v) and v is not None
    }
    for name in ("timing", "error"):
        if value.get(name):
            left[name] = value[name]
    names = ("sampling_args", "env_args", "base_url", "date", "path_to_save", "version_info")
    run = {k: about[k] for k in names if about.get(k) is not None}
    return json_text_or_none({**left, **({"run": run} if run else {})})


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


IMPORTER = VerifiersImporter()
