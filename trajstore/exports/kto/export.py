"""A KTO set in a folder: data, dataset card, manifest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trajstore.exports.files import Format
from trajstore.exports.kto.rows import DEFAULT_OPTIONS, REFUSALS, Judged, KtoOptions, kto_rows
from trajstore.exports.kto.targets import KtoTarget, kto_target
from trajstore.exports.manifest import ExportReport, Lineage
from trajstore.exports.writing import (
    NO_LINEAGE,
    Out,
    Refused,
    Taken,
    TrainingSet,
    chosen_format,
    write_set,
)


def export_kto(
    judged: Iterable[Judged],
    out: Out,
    *,
    to: str = "trl",
    format: Format | None = None,  # noqa: A002 - the word that users know from the command line
    lineage: Lineage = NO_LINEAGE,
    options: KtoOptions = DEFAULT_OPTIONS,
) -> ExportReport:
    """Write a set of single runs, each labelled good or bad.

    The prompt is everything before the agent's first turn, the completion the rest up to its last.

    Args:
        judged: the runs with their labels, read once.
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
    trainer = kto_target(to)
    prepared = trainer.prepare(options)
    rows = TrainingSet(
        kind="kto",
        to=trainer.name,
        format=chosen_format(trainer.name, trainer.formats, format),
        columns=trainer.columns(),
        found=_found(judged, trainer, prepared),
        usage=trainer.usage,
        parameters=prepared.parameters(),
        reasons={**REFUSALS, **trainer.refusals},
        lineage=lineage,
        files=trainer.files,
    )
    return write_set(rows, out)


def _found(
    judged: Iterable[Judged], trainer: KtoTarget, options: KtoOptions
) -> Iterator[Taken | Refused]:
    for row in kto_rows(judged, options):
        record = row if isinstance(row, Refused) else trainer.record_or_refusal(row)
        if isinstance(row, Refused) or isinstance(record, Refused):
            yield row if isinstance(row, Refused) else record  # type: ignore[misc]
            continue
        applied = {k: n for k, n in record.applied.items() if n}
        yield Taken(
            id=row.trajectory_id,
            values=record.values,
            success=row.label,
            rules={**row.applied, **applied},
        )
