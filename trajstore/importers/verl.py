"""verl files: dumped rollouts, generated responses, multi-turn SFT rows; RL prompts are no runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from trajstore.importers.building import StepBuilder, number, openai_steps
from trajstore.importers.framework_messages import decoded
from trajstore.importers.importer import Importer, success_of, uri
from trajstore.importers.items import ImportOptions, Item
from trajstore.importers.occurrences import Occurrences
from trajstore.importers.record_by_record import converted
from trajstore.importers.source import Record, Source
from trajstore.importers.table_rows import TableRows
from trajstore.importers.tables import IMPORTER as TABLES
from trajstore.schema import Trajectory, digest, json_text_or_none, trajectory_id

_TASK_FIELDS = frozenset({"prompt", "data_source", "reward_model"})
_DUMP_FIELDS = frozenset({"input", "output", "score", "step"})
_SFT_MARKS = frozenset({"tools", "enable_thinking", "data_source", "extra_info"})
_ROW_TAKEN = frozenset({"prompt", "responses"})


class VerlImporter(Importer):
    """Reads what verl writes and trains on.

    * rollout dumps (``rollout_data_dir``, ``validation_data_dir``): one prompt and one answer a
      line, as text; success from ``acc`` where the reward function gave it, else a score of 1;
    * generated Parquet: RL rows with a column ``responses``, each of them one attempt, unscored;
    * multi-turn SFT rows (``messages``, ``tools``), read like any table of conversations;
    * RL rows without responses are tasks nobody attempted: ignored, one note a file.

    Identity of dumps and responses: training step, prompt, answer, and how often the same came
    before in the file, since equal answers are still different attempts.
    """

    name: ClassVar[str] = "verl"
    title: ClassVar[str] = "verl rollout dumps, generated responses and multi-turn SFT rows"
    reads: ClassVar[str] = (
        "prompt and answer, score, ground truth; success from 'acc', else from a score of 1"
    )

    def detect(self, source: Source) -> float:
        """0.9 for dumps and RL rows, 0.6 for SFT rows that carry verl's other columns."""
        rows = _rows(source)
        if rows.shape not in {"parquet", "arrow", "lines", "array"}:
            return 0.0
        found = [v for v in rows.sample if isinstance(v, Mapping)]
        if any(_is_dump(v) or _is_task(v) for v in found):
            return 0.9
        return 0.6 if isinstance(rows, TableRows) and any(_is_sft(v) for v in found) else 0.0

    def read(self, source: Source, options: ImportOptions) -> Iterator[Item]:
        """One trajectory a line, a response or an SFT row."""
        rows = _rows(source)
        tasks = [v for v in rows.sample if isinstance(v, Mapping) and _is_task(v)]
        if tasks and not any("responses" in v for v in tasks):
            reason = "RL prompts with their rewards' ground truth: tasks that nobody attempted"
            yield self.ignored(source, reason)
            return
        same = Occurrences()
        yield from converted(self, rows, lambda record: _items(rows, record, options, same))


def _rows(source: Source) -> Source:
    return TableRows(source) if source.shape in {"parquet", "arrow"} else source


def _is_dump(value: Mapping[str, Any]) -> bool:
    texts = isinstance(value.get("input"), str) and isinstance(value.get("output"), str)
    return texts and value.keys() >= _DUMP_FIELDS


def _is_task(value: Mapping[str, Any]) -> bool:
    return value.keys() >= _TASK_FIELDS and isinstance(value["reward_model"], Mapping)


def _is_sft(value: Mapping[str, Any]) -> bool:
    return "messages" in value and bool(_SFT_MARKS & value.keys())


def _items(
    rows: Source, record: Record, options: ImportOptions, same: Occurrences
) -> Iterable[Item]:
    value = record.value
    if not isinstance(value, Mapping):
        raise TypeError(f"a record is an object, not {value!r:.60}")
    if _is_dump(value):
        return [_dumped(rows, record, options, same)]
    if _is_task(value):
        return list(_responses(rows, record, same))
    return list(_conversation(rows, record, options))


def _dumped(rows: Source, record: Record, options: ImportOptions, same: Occurrences) -> Trajectory:
    """One line of a rollout dump; the text of a chat template cannot be split back into turns."""
    value = record.value
    step, prompt, answer = value["step"], value["input"], value["output"]
    builder = StepBuilder()
    builder.add("user", prompt)
    builder.add("agent", answer)
    score, known = number(value["score"]), number(value.get("acc"))
    success = success_of(score, options)
    if known is not None and options.success_threshold is None:
        success = success_of(known, options)
    left = {k: v for k, v in value.items() if k not in {"input", "output", "score"}}
    return Trajectory(
        trajectory_id=trajectory_id("verl", same.key(step, prompt, answer)),
        task_id=f"verl/{digest(prompt)[:16]}",
        goal=prompt,
        source="verl",
        source_uri=uri(rows, record),
        policy_version=str(step),
        success=success,
        reward=score,
        rewards={
            k: float(v) for k, v in left.items() if k != "step" and isinstance(v, int | float)
        },
        steps=builder.steps(),
        metadata=json_text_or_none(left),
    )


def _responses(rows: Source, record: Record, same: Occurrences) -> Iterator[Trajectory]:
    """Each response to an RL prompt; the prompt's own attempt number is its place."""
    value = record.value
    given = value.get("responses")
    if not given:
        raise ValueError("the row has no response; others of the file have")
    responses = given if isinstance(given, list) else [given]
    prompt = decoded(value["prompt"])
    messages = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]
    left = {k: v for k, v in value.items() if k not in _ROW_TAKEN}
    if not all(isinstance(response, str) for response in responses):
        raise TypeError("a response is text")
    for attempt, response in enumerate(responses):
        builder = openai_steps(messages, StepBuilder())
        for draft in builder.drafts:
            if draft.actor == "agent":
                draft.values["is_copied"] = True
        builder.add("agent", response)
        steps = builder.steps()
        yield Trajectory(
            trajectory_id=trajectory_id("verl", same.key(messages, response)),
            task_id=_task(value) or f"verl/{digest(messages)[:16]}",
            attempt=attempt,
            goal=next((s.text for s in steps if s.actor == "user"), None),
            source="verl",
            source_uri=uri(rows, record),
            environment=_text(value.get("data_source")),
            steps=steps,
            metadata=json_text_or_none(left),
        )


def _conversation(rows: Source, record: Record, options: ImportOptions) -> Iterator[Item]:
    """An SFT row, under the identity that any other table of it has."""
    for item in TABLES.convert(rows, record, options):
        if isinstance(item, Trajectory):
            yield replace(item, source="verl", task_id=_task(record.value) or item.task_id)
        else:
            yield item


def _task(value: Mapping[str, Any]) -> str | None:
    """Data source, split and index of the row, where it has an index."""
    extra = value.get("extra_info")
    index = extra.get("index") if isinstance(extra, Mapping) else None
    if index is None or not isinstance(extra, Mapping):
        return None
    parts = ("verl", value.get("data_source"), extra.get("split"), index)
    return "/".join(str(part) for part in parts if part is not None)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


IMPORTER = VerlImporter()
