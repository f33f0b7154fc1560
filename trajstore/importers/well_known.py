"""Columns of a record by the names that people give them, or by the user's own mapping."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trajstore.importers.building import moment, number, whole
from trajstore.schema import STATUSES

CONVERSATION_FIELDS = (
    "messages",
    "prompt",
    "completion",
    "chosen",
    "rejected",
    "system",
    "tools",
    "label",
    "images",
)
"""What a mapping may name beside the fields of a trajectory: where the conversation itself lies."""


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise ValueError("text")


def _name(value: Any) -> str:
    if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
        return str(value)
    raise ValueError("a name or a number")


def _yes_or_no(value: Any) -> bool:
    if isinstance(value, bool | int | float) and value in {0, 1}:
        return bool(value)
    raise ValueError("true, false, 0 or 1")


def _number(value: Any) -> float:
    found = None if isinstance(value, str) else number(value)
    if found is None:
        raise ValueError("a number")
    return found


def _count(value: Any) -> int:
    found = None if isinstance(value, str) else whole(value)
    if found is None:
        raise ValueError("a whole number")
    return found


def _time(value: Any) -> Any:
    found = moment(value)
    if found is None:
        raise ValueError("a point in time")
    return found


def _status(value: Any) -> str:
    if value in STATUSES:
        return str(value)
    raise ValueError(f"one of {', '.join(STATUSES)}")


def _numbers(value: Any) -> dict[str, float]:
    if isinstance(value, Mapping) and value:
        return {str(k): _number(v) for k, v in value.items()}
    raise ValueError("an object of numbers")


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and value and all(isinstance(v, str) for v in value):
        return tuple(value)
    raise ValueError("a list of names")


_Convert = Callable[[Any], Any]

FIELDS: Mapping[str, tuple[_Convert, tuple[str, ...]]] = {
    "trajectory_id": (
        _name,
        ("trajectory_id", "traj_id", "rollout_id", "uuid", "conversation_id", "session_id"),
    ),
    "task_id": (_name, ("task_id", "instance_id", "problem_id", "question_id", "prompt_id")),
    "attempt": (_count, ("attempt", "trial", "rollout_index", "sample_index")),
    "goal": (_text, ("goal", "problem_statement", "instruction", "question")),
    "success": (
        _yes_or_no,
        ("success", "resolved", "is_resolved", "is_success", "is_solved", "is_correct", "correct"),
    ),
    "reward": (_number, ("reward", "total_reward", "final_reward", "score")),
    "rewards": (_numbers, ("rewards",)),
    "agent": (_text, ("agent", "agent_name", "scaffold", "harness")),
    "model": (_text, ("model", "model_name", "model_id")),
    "policy_version": (_name, ("policy_version", "checkpoint")),
    "environment": (_text, ("environment", "env", "env_name")),
    "environment_version": (_name, ("environment_version", "env_version")),
    "status": (_status, ("status",)),
    "error": (_text, ("error",)),
    "termination_reason": (
        _text,
        ("termination_reason", "exit_status", "stop_condition", "stop_reason", "finish_reason"),
    ),
    "cost_usd": (_number, ("cost_usd", "cost", "total_cost", "instance_cost")),
    "duration_s": (_number, ("duration_s", "duration")),
    "prompt_tokens": (_count, ("prompt_tokens",)),
    "completion_tokens": (_count, ("completion_tokens",)),
    "cached_tokens": (_count, ("cached_tokens",)),
    "started_at": (_time, ("started_at", "start_time", "session_start")),
    "ended_at": (_time, ("ended_at", "end_time", "last_updated")),
    "tags": (_names, ("tags",)),
}
"""Our field -> how a value is read, and the column names that mean it, the first one wins."""


@dataclass
class Columns:
    """One record seen through well-known names and the user's mapping."""

    row: Mapping[str, Any]
    """The record."""
    mapping: Mapping[str, str] = field(default_factory=dict)
    """Our field -> their column; dots reach into objects."""
    used: set[str] = field(default_factory=set)
    """Columns whose value has found a place."""

    def take(self, ours: str) -> Any:
        """The value of one of :data:`FIELDS`, or None; a mapped column wins.

        Raises:
            ValueError: the user mapped a column whose value does not fit.
        """
        convert, names = FIELDS[ours]
        path = self.mapping.get(ours)
        if path is not None:
            value = at(self.row, path)
            self.used.add(path)
            try:
                return None if value is None else convert(value)
            except ValueError as error:
                message = f"column '{path}', mapped to '{ours}', holds {value!r:.60}, not {error}"
                raise ValueError(message) from None
        for name in names:
            if self.row.get(name) is None or name in self.used:
                continue
            try:
                found = convert(self.row[name])
            except ValueError:
                continue
            self.used.add(name)
            return found
        return None

    def view(self) -> dict[str, Any]:
        """The record with the mapped conversation columns under their usual names."""
        moved = {f: at(self.row, p) for f, p in self.mapping.items() if f in CONVERSATION_FIELDS}
        return {**self.row, **moved}

    def use(self, fields: Iterable[str]) -> None:
        """Note that fields of :meth:`view` have found their place."""
        self.used.update(self.mapping.get(f, f) for f in fields)

    def left(self) -> dict[str, Any]:
        """What has found no place yet."""
        return {k: v for k, v in self.row.items() if k not in self.used and v is not None}


def at(row: Any, path: str) -> Any:
    """The value at a dotted path, or None; JSON text on the way is opened.

    >>> at({"info": '{"score": {"x": 1}}', "a.b": 2}, "info.score.x")
    1
    """
    if isinstance(row, str):
        try:
            row = json.loads(row)
        except ValueError:
            return None
    if not isinstance(row, Mapping):
        return None
    if path in row:
        return row[path]
    head, dot, rest = path.partition(".")
    while dot:
        if head in row:
            return at(row[head], rest)
        more, dot, rest = rest.partition(".")
        head = f"{head}.{more}"
    return None


def column_names(rows: Iterable[Any]) -> list[str]:
    """Names of all columns in ``rows``, those inside objects with dots, each once, in order."""
    found: dict[str, None] = {}
    for row in rows:
        if isinstance(row, Mapping):
            found.update(dict.fromkeys(_paths(row, "")))
    return list(found)


def _paths(row: Mapping[str, Any], before: str) -> Iterator[str]:
    for name, value in row.items():
        path = f"{before}{name}"
        yield path
        if isinstance(value, str) and value.startswith("{"):
            try:
                value = json.loads(value)  # noqa: PLW2901
            except ValueError:
                continue
        if isinstance(value, Mapping):
            yield from _paths(value, f"{path}.")


def mapping_fault(mapping: Mapping[str, str], columns: Iterable[str]) -> str | None:
    """What is wrong with a mapping: a field or a column that does not exist; None if nothing.

    Args:
        mapping: our field -> their column.
        columns: the columns there are, as :func:`column_names` lists them.
    """
    ours = [*FIELDS, *CONVERSATION_FIELDS]
    strange = [f for f in mapping if f not in ours]
    if strange:
        return (
            f"the mapping names no field of ours: {', '.join(strange)}; fields: {', '.join(ours)}"
        )
    known = list(columns)
    missing = [p for p in mapping.values() if p not in known]
    if missing:
        return f"there is no column {', '.join(missing)}; columns: {', '.join(known)}"
    return None
