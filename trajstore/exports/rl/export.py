"""Prompts and groups in a folder: data, dataset card, manifest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from trajstore.errors import ExportError
from trajstore.exports.conversation import Runs, Unfit
from trajstore.exports.files import Format
from trajstore.exports.manifest import ExportReport, Lineage
from trajstore.exports.rl import groups as grouped
from trajstore.exports.rl import prompts as prompted
from trajstore.exports.rl.groups import (
    GROUP_COLUMNS,
    GroupRowOptions,
    GroupTarget,
    group_target,
    why_unfit,
)
from trajstore.exports.rl.prompt_targets import PromptTarget, prompt_target
from trajstore.exports.rl.prompts import PromptOptions, prompt_rows
from trajstore.exports.writing import (
    NO_LINEAGE,
    Out,
    Refused,
    Taken,
    TrainingSet,
    chosen_format,
    write_set,
)
from trajstore.schema import Trajectory

_RUNS_A_READ = 64


def export_prompts(
    tasks: Iterable[Iterable[Trajectory]],
    out: Out,
    *,
    to: str = "trl",
    format: Format | None = None,  # noqa: A002 - the word that users know from the command line
    lineage: Lineage = NO_LINEAGE,
    options: PromptOptions = prompted.DEFAULT_OPTIONS,
) -> ExportReport:
    """Write one prompt a task, for trainers that sample for themselves.

    Args:
        tasks: the attempts at each task, the first one first; read once.
        out: a folder, a text stream, or ``-`` for stdout (streams take JSON lines only), or None to
            only count.
        to: the trainer.
        format: ``parquet`` or ``jsonl``; what the trainer prefers where None.
        lineage: how the runs were selected.
        options: what rows look like.

    Raises:
        ExportError: an unknown target, a format that it does not take, or a folder with files of
            somebody else.
    """
    trainer = prompt_target(to)
    counts = {"trajectories": 0}
    rows = TrainingSet(
        kind="prompts",
        to=trainer.name,
        format=chosen_format(trainer.name, trainer.formats, format),
        columns=trainer.columns(options),
        found=_prompts(tasks, trainer, options, counts),
        usage=trainer.usage,
        parameters=options.parameters(),
        reasons={**prompted.REFUSALS, **trainer.refusals},
        lineage=lineage,
        unit="tasks",
        facts=lambda: counts,
        files=trainer.files,
    )
    return write_set(rows, out)


def _prompts(
    tasks: Iterable[Iterable[Trajectory]],
    trainer: PromptTarget,
    options: PromptOptions,
    counts: dict[str, int],
) -> Iterator[Taken | Refused]:
    index = 0
    for row in prompt_rows(tasks, options):
        if isinstance(row, Refused):
            yield row
            continue
        record = trainer.record_or_refusal(row, index, options)
        if isinstance(record, Refused):
            yield record
            continue
        index += 1
        counts["trajectories"] += row.attempts
        applied = {k: n for k, n in record.applied.items() if n}
        yield Taken(id=row.task_id, values=record.values, rules={**row.applied, **applied})


def export_groups(
    groups: pa.Table,
    runs: Runs,
    out: Out,
    *,
    to: str = "messages",
    format: Format | None = None,  # noqa: A002 - the word that users know from the command line
    lineage: Lineage = NO_LINEAGE,
    options: GroupRowOptions = grouped.DEFAULT_OPTIONS,
    facts: Mapping[str, Any] | None = None,
) -> ExportReport:
    """Write groups of attempts with their advantages, for training on stored runs.

    Args:
        groups: rows of ``trajstore.pairs.GROUP_SCHEMA``.
        runs: gives the runs that groups name, 64 at a time.
        out: a folder, a text stream, or ``-`` for stdout (streams take JSON lines only), or None to
            only count.
        to: ``messages`` or ``prime-rl``.
        format: ``parquet`` or ``jsonl``; what the target prefers where None.
        lineage: how the groups came about.
        options: what rows look like.
        facts: further entries of the manifest, such as the report of the groups.

    Raises:
        ExportError: an unknown target, a format that it does not take, a table that holds no
            groups, or a folder with files of somebody else.
    """
    trainer = group_target(to)
    missing = [n for n in GROUP_COLUMNS if n not in groups.column_names]
    if missing:
        message = f"the groups have no column {missing[0]!r}; give what `trajstore groups` wrote"
        raise ExportError(message)
    rows = TrainingSet(
        kind="grpo",
        to=trainer.name,
        format=chosen_format(trainer.name, trainer.formats, format),
        columns=trainer.columns(),
        found=_groups(groups.select(list(GROUP_COLUMNS)), runs, trainer, options),
        usage=trainer.usage,
        parameters=options.parameters(),
        reasons={**grouped.REFUSALS, **trainer.refusals},
        lineage=lineage,
        facts=lambda: facts or {},
        files=trainer.files,
    )
    return write_set(rows, out)


def _groups(
    groups: pa.Table, runs: Runs, trainer: GroupTarget, options: GroupRowOptions
) -> Iterator[Taken | Refused]:
    for batch in groups.to_batches(max_chunksize=_RUNS_A_READ):
        listed = batch.to_pylist()
        found = {t.trajectory_id: t for t in runs([told["trajectory_id"] for told in listed])}
        for told in listed:
            yield from _run(told, found, trainer, options)


def _named(name: str, found: Mapping[str, Trajectory]) -> Trajectory:
    if name not in found:
        raise Unfit("unknown-run")
    return found[name]


def _run(
    told: Mapping[str, Any],
    found: Mapping[str, Trajectory],
    trainer: GroupTarget,
    options: GroupRowOptions,
) -> Iterator[Taken | Refused]:
    name = told["trajectory_id"]
    try:
        records = list(trainer.records(_named(name, found), told, options))
    except Unfit as unfit:
        place = f": {unfit.detail}" if unfit.detail else ""
        said = f"run {name}{place}. {why_unfit(unfit, trainer)}"
        yield Refused(id=name, reason=unfit.reason, detail=said)
        return
    for record in records:
        applied = {k: n for k, n in record.applied.items() if n}
        yield Taken(id=name, values=record.values, success=found[name].success, rules=applied)
