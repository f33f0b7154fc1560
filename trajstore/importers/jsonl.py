"""The plain JSONL format of trajstore: one trajectory a line under the column names of the schema.

``docs/reference/jsonl.md`` documents it. Reading is lenient towards hand-written lines; what
:func:`to_jsonl_record` writes comes back identical.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from typing import Any, ClassVar, cast

from trajstore.importers.importer import Importer, success_of, uri
from trajstore.importers.items import ImportOptions, Item
from trajstore.importers.jsonl_values import (
    call_record,
    count,
    finite,
    flag,
    identifier,
    json_value,
    numbers,
    one_of,
    read_call,
    read_json,
    read_list,
    real,
    refuse_strange,
    text,
    texts,
    time,
    whole_numbers,
)
from trajstore.importers.source import Record, Source
from trajstore.schema import (
    ACTORS,
    RELATIONS,
    STATUSES,
    Observation,
    Step,
    Trajectory,
    digest,
    json_text_or_none,
    trajectory_id,
)

_Read = Callable[[Any], Any]

_OBSERVATION: Mapping[str, _Read] = {
    "text": text,
    "call_id": text,
    "is_error": flag,
    "content": read_json,
}


def _observation(value: Any) -> Observation:
    if isinstance(value, str):
        return Observation(text=value)
    found = _read(value, _OBSERVATION, "observation")
    refuse_strange(value, _OBSERVATION)
    return Observation(**found)


_STEP: Mapping[str, _Read] = {
    "actor": one_of(ACTORS),
    "text": text,
    "reasoning": text,
    "content": read_json,
    "tool_calls": read_list(read_call),
    "observations": read_list(_observation),
    "reward": real,
    "state": read_json,
    "state_key": text,
    "is_copied": flag,
    "format_error": flag,
    "model": text,
    "prompt_tokens": count,
    "completion_tokens": count,
    "cached_tokens": count,
    "latency_s": real,
    "timestamp": time,
    "prompt_token_ids": whole_numbers,
    "completion_token_ids": whole_numbers,
    "logprobs": numbers,
    "sampling": read_json,
    "metadata": read_json,
}


def _step(value: Any) -> Step:
    found = _read(value, _STEP, "step")
    if "actor" not in found:
        raise ValueError("a step has no actor")
    found |= _strange(value, _STEP, found.get("metadata"))
    return Step(**found)


def _rewards(value: Any) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise TypeError("must be an object of numbers")
    return {str(k): real(v) for k, v in value.items()}


_TRAJECTORY: Mapping[str, _Read] = {
    "trajectory_id": identifier,
    "task_id": identifier,
    "source": text,
    "attempt": count,
    "goal": text,
    "source_uri": text,
    "source_digest": text,
    "environment": text,
    "environment_version": text,
    "agent": text,
    "model": text,
    "policy_version": text,
    "parent_id": text,
    "parent_step": count,
    "relation": one_of(RELATIONS),
    "status": one_of(STATUSES),
    "error": text,
    "termination_reason": text,
    "success": flag,
    "reward": real,
    "rewards": _rewards,
    "tools": read_json,
    "n_steps": count,
    "n_agent_steps": count,
    "n_tool_calls": count,
    "n_tool_errors": count,
    "n_format_errors": count,
    "prompt_tokens": count,
    "completion_tokens": count,
    "cached_tokens": count,
    "cost_usd": real,
    "duration_s": real,
    "size_bytes": count,
    "started_at": time,
    "ended_at": time,
    "imported_at": time,
    "expires_at": time,
    "tags": texts,
    "metadata": read_json,
    "steps": read_list(_step),
}

_JSON_COLUMNS = frozenset({"content", "state", "sampling", "metadata", "tools"})


class TrajstoreJsonlImporter(Importer):
    """Reads what :func:`to_jsonl_record` writes, and the same written by hand.

    Identity: ``trajectory_id`` as given. Without one it is made of the whole record, so give an id
    to runs that are saved again as they grow.
    """

    name: ClassVar[str] = "trajstore-jsonl"
    title: ClassVar[str] = "Plain JSONL of trajstore: one trajectory a line, steps nested"
    reads: ClassVar[str] = "every column of the schema; success and reward as given"

    def detect(self, source: Source) -> float:
        """0.95 for records with steps that each name one of our actors."""
        return 0.95 if any(_is_ours(v) for v in source.sample) else 0.0

    def convert(self, source: Source, record: Record, options: ImportOptions) -> Iterable[Item]:
        """One trajectory."""
        yield read_jsonl_record(record.value, options=options, where=uri(source, record))


def _is_ours(value: Any) -> bool:
    steps = value.get("steps") if isinstance(value, Mapping) else None
    if not isinstance(steps, list) or not steps:
        return False
    return all(isinstance(s, Mapping) and s.get("actor") in ACTORS for s in steps)


def read_jsonl_record(
    record: Any, *, options: ImportOptions | None = None, where: str | None = None
) -> Trajectory:
    """One parsed line as a trajectory.

    Args:
        record: the parsed line.
        options: its ``success_threshold`` decides success where only a reward is given.
        where: ``source_uri``, where the record has none.

    Returns:
        The trajectory. Names that are no column go to ``metadata``. ``task_id`` defaults to a hash
        of the goal (or of the first step), ``goal`` to the first user text.

    Raises:
        ValueError: steps are missing, or a value is not what its column holds; the message names
            the column.
        TypeError: the record is no object.
    """
    known = _read(record, _TRAJECTORY, "record")
    steps = known.get("steps") or ()
    if not steps:
        raise ValueError("there are no steps")
    known |= _strange(record, _TRAJECTORY, known.get("metadata"))
    if "goal" not in record:
        known["goal"] = next((s.text for s in steps if s.actor == "user" and s.text), None)
    if "task_id" not in known:
        about = known.get("goal") or record["steps"][0]
        known["task_id"] = f"jsonl/{digest(about)[:16]}"
    if "trajectory_id" not in known:
        known["trajectory_id"] = trajectory_id(TrajstoreJsonlImporter.name, digest(record))
    if options is not None and options.success_threshold is not None:
        known.setdefault("success", success_of(known.get("reward"), options))
    known = {"source": TrajstoreJsonlImporter.name, "source_uri": where, **known}
    return Trajectory(**known)


def _read(value: Any, readers: Mapping[str, _Read], what: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"a {what} must be an object, not {value!r:.60}")
    found = {}
    for name, given in value.items():
        if given is None or name not in readers:
            continue
        try:
            found[name] = readers[name](given)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{name}: {error}") from error
    return found


def _strange(
    value: Mapping[str, Any], readers: Mapping[str, _Read], metadata: str | None
) -> dict[str, str | None]:
    """Metadata with the names that are no column; nothing where there are none."""
    strange = {k: v for k, v in value.items() if k not in readers}
    if not strange:
        return {}
    before = json_value(metadata)
    kept = before if isinstance(before, dict) else {} if before is None else {"metadata": before}
    return {"metadata": json_text_or_none({**kept, **strange})}


def to_jsonl_record(trajectory: Trajectory) -> dict[str, Any]:
    """A trajectory as one JSON object of the plain JSONL format; reading it gives the same back.

    Fields that hold their default are left out. JSON text becomes JSON where the text can be made
    again from it exactly, and stays text otherwise.

    >>> step = Step(actor="user", text="Hi")
    >>> run = Trajectory(trajectory_id="t", task_id="k", source="s", steps=(step,))
    >>> to_jsonl_record(run)["steps"]
    [{'actor': 'user', 'text': 'Hi'}]
    """
    record = _record(trajectory, skip="steps")
    return {
        **record,
        "goal": trajectory.goal,
        "steps": [_step_record(s) for s in trajectory.steps],
    }


def _step_record(step: Step) -> dict[str, Any]:
    record = _record(step)
    if step.tool_calls:
        record["tool_calls"] = [call_record(c) for c in step.tool_calls]
    if step.observations:
        record["observations"] = [_record(o) for o in step.observations]
    return record


def _record(value: Step | Observation | Trajectory, *, skip: str = "") -> dict[str, Any]:
    """Fields that differ from their default, in JSON's types."""
    record: dict[str, Any] = {}
    for f in fields(value):
        found = getattr(value, f.name)
        default = f.default if f.default_factory is MISSING else f.default_factory()
        if f.name == skip or found is None or found == default:
            continue
        if isinstance(found, datetime):
            found = found.isoformat().replace("+00:00", "Z")
        elif isinstance(found, float | tuple | dict):
            found = finite(found)
        elif f.name in _JSON_COLUMNS:
            found = json_value(cast("str", found), exactly=True)
        record[f.name] = found
    return record


IMPORTER = TrajstoreJsonlImporter()
