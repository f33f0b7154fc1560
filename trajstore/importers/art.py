"""OpenPipe ART trajectory groups: JSON Lines of groups, and its Parquet tables of trajectories."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from trajstore.importers.art_steps import opening, steps_of
from trajstore.importers.building import number
from trajstore.importers.framework_messages import decoded
from trajstore.importers.importer import Importer, success_of, uri
from trajstore.importers.items import ImportOptions, Item
from trajstore.importers.occurrences import Occurrences
from trajstore.importers.record_by_record import converted
from trajstore.importers.source import Record, Source
from trajstore.importers.table_rows import TableRows
from trajstore.schema import Step, Trajectory, digest, json_text_or_none, trajectory_id

_VERDICTS = ("success", "solved", "correct", "is_correct", "resolved")
_VERSIONS = ("policy_version", "final_policy_version", "initial_policy_version")
_TAKEN = frozenset(
    {"messages_and_choices", "reward", "metrics", "tools", "additional_histories", "messages"}
)
_GROUP_TAKEN = frozenset({"trajectories", "exceptions"})


class ArtImporter(Importer):
    """Reads ART's trajectory groups: JSON Lines, Parquet, and Parquet with the JSON beside.

    Nothing is lost: exceptions of crashed rollouts become trajectories of status ``error`` with the
    traceback as their only step; metrics go to ``rewards``; metadata, logs, policy versions and
    log-probabilities are kept. Further histories of a rollout are continuations of it, without a
    reward of their own.

    Identity: ART has no ids, so the content (messages, reward, metadata) stands for it, with its
    number among equal ones in the file. The task is the opening of the group's first trajectory.
    Success is a metric called ``success``, ``solved``, ``correct``, ``is_correct`` or ``resolved``
    of 0 or 1; else it is unknown, since rewards have any scale.
    """

    name: ClassVar[str] = "art"
    title: ClassVar[str] = "OpenPipe ART trajectory groups (JSON Lines, Parquet)"
    reads: ClassVar[str] = (
        "messages and sampled choices with log-probabilities, tools, rewards, metrics, exceptions, "
        "logs; success from a metric of that name"
    )

    def detect(self, source: Source) -> float:
        """Sure of groups and of ART's Parquet columns."""
        if source.shape in {"parquet", "arrow"}:
            columns = set(TableRows(source).columns)
            plain = {"group_index", "reward", "metrics", "messages"} <= columns
            return 0.95 if "trajectory_json" in columns or plain else 0.0
        if source.shape == "text":
            return 0.9 if _is_yaml(source) else 0.0
        return 0.95 if any(_is_group(v) or _is_trajectory(v) for v in source.sample) else 0.0

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """Trajectories and crashed rollouts, group by group."""
        if source.shape == "text":
            reason = "the old YAML form of ART; migrate it to JSON Lines or Parquet with ART first"
            yield self.problem(source, reason)
            return
        rows = TableRows(source) if source.shape in {"parquet", "arrow"} else source
        reading = _Reading(rows, options)
        yield from converted(self, rows, reading.items)


def _is_trajectory(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("messages_and_choices"), list)


def _is_group(value: Any) -> bool:
    if not isinstance(value, Mapping) or not isinstance(value.get("trajectories"), list):
        return False
    inner = value["trajectories"]
    return _is_trajectory(inner[0]) if inner else isinstance(value.get("exceptions"), list)


def _is_yaml(source: Source) -> bool:
    head = source.text_head
    return head.startswith("- trajectories:") and "messages_and_choices" in head


class _Reading:
    """One reading of one file: it counts equal attempts and remembers the group it is in."""

    def __init__(self, source: Source, options: ImportOptions) -> None:
        self._source = source
        self._options = options
        self._same = Occurrences()
        self._group: Any = None
        self._task: str | None = None
        self._place = 0

    def items(self, record: Record) -> Iterator[Trajectory]:
        value = record.value
        if isinstance(self._source, TableRows):
            yield from self._row(record, value)
        elif _is_group(value):
            self._task, self._place = None, 0
            for trajectory in value["trajectories"]:
                yield from self._trajectory(record, trajectory, value, record.index)
            yield from self._crashed(record, value, record.index)
        elif _is_trajectory(value):
            self._task, self._place = None, 0
            yield from self._trajectory(record, value, {}, record.index)
        else:
            raise TypeError("it has neither 'trajectories' nor 'messages_and_choices'")

    def _row(self, record: Record, row: Mapping[str, Any]) -> Iterator[Trajectory]:
        """A row of Parquet; ``trajectory_json`` is authoritative where there is one."""
        group = decoded(row.get("group_json"))
        group = dict(group) if isinstance(group, Mapping) else {}
        index = row.get("group_index")
        new = index is None or index != self._group
        if new:
            self._group, self._task, self._place = index, None, 0
        written = row.get("trajectory_json")
        trajectory = json.loads(written) if written is not None else _from_columns(row)
        if trajectory is not None:
            yield from self._trajectory(record, trajectory, group, index)
        if new:
            yield from self._crashed(record, group, index)
        if trajectory is None and not group:
            raise ValueError("the row has neither a trajectory nor a group")

    def _trajectory(
        self, record: Record, value: Mapping[str, Any], group: Mapping[str, Any], index: Any
    ) -> Iterator[Trajectory]:
        steps = steps_of(value["messages_and_choices"])
        if self._task is None:
            self._task = f"art/{digest(opening(steps))[:16]}"
        reward, metrics = number(value.get("reward")), value.get("metrics") or {}
        key = self._same.key(_content(steps), reward, value.get("metadata") or {}, metrics)
        run = trajectory_id("art", key)
        versions = (value.get(v) for v in _VERSIONS)
        version = next((v for v in versions if v is not None), None)
        yield Trajectory(
            trajectory_id=run,
            task_id=self._task,
            attempt=self._place,
            goal=next((s.text for s in steps if s.actor == "user" and s.text), None),
            source="art",
            source_uri=self._uri(record),
            policy_version=None if version is None else str(version),
            success=_success(reward, metrics, self._options),
            reward=reward,
            rewards={str(k): v for k, v in _numbers(metrics)},
            tools=json_text_or_none(value.get("tools")),
            steps=steps,
            metadata=_metadata(value, metrics, group, index),
        )
        self._place += 1
        for i, history in enumerate(value.get("additional_histories") or ()):
            yield Trajectory(
                trajectory_id=trajectory_id("art", f"{key}/history/{i}"),
                task_id=self._task,
                source="art",
                source_uri=self._uri(record),
                parent_id=run,
                relation="continuation",
                policy_version=None if version is None else str(version),
                tools=json_text_or_none(history.get("tools")),
                steps=steps_of(history["messages_and_choices"]),
                metadata=json_text_or_none({"history": i + 1}),
            )

    def _crashed(
        self, record: Record, group: Mapping[str, Any], index: Any
    ) -> Iterator[Trajectory]:
        """A trajectory for each rollout of the group that ended in an exception."""
        for exception in group.get("exceptions") or ():
            kind, message = exception.get("type"), exception.get("message")
            said = ": ".join(str(p) for p in (kind, message) if p)
            told = exception.get("traceback") or said
            key = self._same.key("exception", self._task, kind, message, told)
            yield Trajectory(
                trajectory_id=trajectory_id("art", key),
                task_id=self._task or f"art/{digest(group.get('metadata'), index)[:16]}",
                source="art",
                source_uri=self._uri(record),
                status="error",
                error=said,
                termination_reason=_text(kind),
                steps=(Step(actor="environment", text=str(told)),),
                metadata=_metadata({}, {}, group, index),
            )

    def _uri(self, record: Record) -> str:
        return uri(self._source, record)


def _from_columns(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The trajectory of a row without its JSON; JSON text stands in some of the columns."""
    if row.get("messages") is None:
        return None
    opened = {
        k: decoded(row.get(k)) for k in ("metrics", "metadata", "tools", "additional_histories")
    }
    found = {k: v for k, v in opened.items() if v is not None}
    if row.get("logs") is not None:
        found["logs"] = row["logs"]
    return {**found, "reward": row.get("reward"), "messages_and_choices": row["messages"]}


def _content(steps: Iterable[Step]) -> list[Any]:
    """What was said and done, the same for every form of the file."""
    return [
        [
            s.actor,
            s.text or "",
            [[c.name, c.arguments or c.arguments_raw] for c in s.tool_calls],
            [o.text or "" for o in s.observations],
        ]
        for s in steps
    ]


def _numbers(metrics: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in metrics.items():
        if isinstance(value, int | float):
            yield name, float(value)


def _success(
    reward: float | None, metrics: Mapping[str, Any], options: ImportOptions
) -> bool | None:
    if options.success_threshold is not None:
        return success_of(reward, options)
    said = next((metrics[n] for n in _VERDICTS if metrics.get(n) in (0, 1)), None)
    return None if said is None else bool(said)


def _metadata(
    value: Mapping[str, Any], metrics: Mapping[str, Any], group: Mapping[str, Any], index: Any
) -> str | None:
    left = {k: v for k, v in value.items() if k not in _TAKEN and v not in (None, [], {})}
    others = {k: v for k, v in metrics.items() if not isinstance(v, int | float)}
    about = {k: v for k, v in group.items() if k not in _GROUP_TAKEN and v not in (None, [], {})}
    if others:
        left["metrics"] = others
    return json_text_or_none({**left, "group": {"index": index, **about}})


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


IMPORTER = ArtImporter()
