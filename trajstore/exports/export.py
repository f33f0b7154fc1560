"""A supervised fine-tuning set in a folder: data, dataset card, manifest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace

from trajstore.exports.files import Format
from trajstore.exports.manifest import ExportReport, Lineage
from trajstore.exports.rows import sft_records, target
from trajstore.exports.sft import DEFAULT_OPTIONS, REFUSALS, Refusal, SftOptions, Target
from trajstore.exports.target import SftTarget
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


def export_sft(
    trajectories: Iterable[Trajectory],
    out: Out,
    *,
    to: Target = "trl",
    format: Format | None = None,  # noqa: A002 - the word that users know from the command line
    lineage: Lineage = NO_LINEAGE,
    include_reasoning: bool = True,
    options: SftOptions = DEFAULT_OPTIONS,
) -> ExportReport:
    """Write an SFT set: ``train.parquet`` or ``train.jsonl``, ``README.md`` and ``manifest.json``.

    Some trainers get a further file, such as LLaMA-Factory its ``dataset_info.json``.

    The same trajectories, lineage and options give the same bytes. Memory holds one row group. The
    files appear together when all are complete; data files of an earlier export in the folder are
    replaced. No outcome is looked at: the caller selects, and the manifest counts the outcomes.

    Args:
        trajectories: the selection, read once.
        out: a folder, made if it is not there; or a text stream, or ``-`` for stdout, which take
            JSON lines only and no manifest; or None to only count.
        to: the trainer.
        format: ``parquet`` or ``jsonl``; what the trainer prefers where None. From Parquet
            ``datasets`` reads the reward exactly and fractions inside argument objects to about ten
            digits; from JSON lines it reads both to ten decimals. Arguments as text keep every
            digit.
        lineage: how the selection came about; goes into the manifest.
        include_reasoning: False leaves reasoning out, whatever ``options`` says.
        options: what rows look like.

    Returns:
        What was written and what was refused. A set of no rows is written too, and counts; it is
        for the caller to say whether that is an error (``datasets`` refuses to load one).

    Raises:
        ExportError: an unknown target, a format or layout that it does not take, or a folder with
            files of somebody else.
    """
    trainer = target(to)
    chosen = options if include_reasoning else replace(options, include_reasoning=False)
    prepared = trainer.prepare(chosen)
    rows = TrainingSet(
        kind="sft",
        to=trainer.name,
        format=chosen_format(trainer.name, trainer.formats, format),
        columns=trainer.columns(prepared),
        found=_found(trajectories, trainer, prepared),
        usage=trainer.usage,
        parameters=asdict(prepared),
        reasons={**REFUSALS, **trainer.refusals},
        lineage=lineage,
        files=trainer.files,
    )
    return write_set(rows, out)


def _found(
    trajectories: Iterable[Trajectory], trainer: SftTarget, options: SftOptions
) -> Iterator[Taken | Refused]:
    for found in sft_records(trajectories, trainer, options):
        if isinstance(found, Refusal):
            yield Refused(id=found.trajectory_id, reason=found.reason, detail=found.detail)
            continue
        row, record = found
        applied = {k: n for k, n in record.applied.items() if n}
        yield Taken(
            id=row.trajectory_id,
            values=record.values,
            success=row.success,
            rules={**row.applied, **applied},
        )
