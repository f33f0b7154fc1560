"""A training set in a folder: data, dataset card, manifest."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TextIO, get_args

from trajstore.errors import ExportError
from trajstore.exports.files import (
    Format,
    JsonLines,
    Kind,
    Parquet,
    Staged,
    Writer,
    WrittenFile,
)
from trajstore.exports.manifest import (
    CARD,
    MANIFEST,
    ExportReport,
    Lineage,
    Tally,
    card_text,
    earlier_files,
    manifest,
    manifest_text,
)
from trajstore.exports.rows import sft_records, target
from trajstore.exports.sft import DEFAULT_OPTIONS, Refusal, SftOptions, SftRow, Target
from trajstore.exports.target import Record, SftTarget
from trajstore.schema import Trajectory

_NO_LINEAGE = Lineage()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Export:
    """One run of :func:`export_sft`."""

    trajectories: Iterable[Trajectory]
    to: SftTarget
    format: Format
    options: SftOptions
    lineage: Lineage
    tally: Tally

    @property
    def columns(self) -> Mapping[str, Kind]:
        return self.to.columns(self.options)

    def fill(self, writer: Writer) -> None:
        for found in sft_records(self.trajectories, self.to, self.options):
            if isinstance(found, Refusal):
                self.tally.refuse(found.trajectory_id, found.reason)
            else:
                self._take(*found, writer)
        writer.close()

    def _take(self, row: SftRow, record: Record, writer: Writer) -> None:
        applied = {k: n for k, n in record.applied.items() if n}
        rules = {**row.applied, **applied}
        self.tally.take(row.trajectory_id, success=row.success, rules=rules)
        writer.write(record.values)

    def report(
        self, folder: Path | None, files: tuple[WrittenFile, ...], rows: int
    ) -> ExportReport:
        content = manifest(
            self.tally,
            self.lineage,
            kind="sft",
            to=self.to.name,
            format_=self.format,
            files=files,
            rows=rows,
            options=asdict(self.options),
        )
        further = self.to.files(files[0].name) if files else {}
        if further:
            content["further_files"] = sorted(further)
        return ExportReport(
            folder=folder,
            files=files,
            rows=rows,
            runs=self.tally.runs_out,
            refused=content["refused"],
            refused_ids=content["refused_ids"],
            manifest=content,
        )


def export_sft(
    trajectories: Iterable[Trajectory],
    out: Path | str | TextIO,
    *,
    to: Target = "trl",
    format: Format | None = None,  # noqa: A002 - the word that users know from the command line
    lineage: Lineage = _NO_LINEAGE,
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
            JSON lines only and no manifest.
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
    format = _format(trainer, format)  # noqa: A001 - the word of the signature
    export = _Export(
        trajectories=trajectories,
        to=trainer,
        format=format,
        options=trainer.prepare(chosen),
        lineage=lineage,
        tally=Tally(),
    )
    if isinstance(out, Path | str) and str(out) != "-":
        return _to_folder(export, Path(out))
    if format != "jsonl":
        raise ExportError(f"a stream takes jsonl, not {format}; give a folder, or format='jsonl'")
    writer = JsonLines(sys.stdout if isinstance(out, Path | str) else out)
    export.fill(writer)
    return export.report(None, (), writer.rows)


def _format(trainer: SftTarget, asked: str | None) -> Format:
    if asked is None:
        return trainer.formats[0]
    for known in trainer.formats:
        if asked == known:
            return known
    known_ones = ", ".join(get_args(Format))
    if asked not in get_args(Format):
        raise ExportError(f"there is no format {asked!r}; known are {known_ones}")
    raise ExportError(f"{trainer.name} reads {', '.join(trainer.formats)}, not {asked}")


def _to_folder(export: _Export, folder: Path) -> ExportReport:
    name = f"train.{export.format}"
    further = export.to.files(name)
    earlier = _checked(folder, [name, CARD, *further])
    with Staged(folder) as staged:
        with _writer(export, staged.path(name)) as writer:
            export.fill(writer)
        files = (staged.described(name, writer.rows),)
        report = export.report(folder, files, writer.rows)
        staged.write_text(CARD, card_text(report.manifest, export.columns, export.to.usage))
        for other, text in further.items():
            staged.write_text(other, text)
        staged.write_text(MANIFEST, manifest_text(report.manifest))
        staged.publish()
    for stale in set(earlier) - {name, *further}:
        (folder / stale).unlink(missing_ok=True)
    return report


def _checked(folder: Path, names: Sequence[str]) -> list[str]:
    """Data files of an earlier export; refuse a folder whose files are not ours to replace."""
    if folder.exists() and not folder.is_dir():
        raise ExportError(f"{folder} is a file; an export goes into a folder", path=folder)
    earlier = earlier_files(folder)
    foreign = [n for n in names if not earlier and (folder / n).exists()]
    if foreign:
        message = (
            f"{folder} holds {foreign[0]} but no {MANIFEST}, so trajstore did not write it; "
            "export into another folder"
        )
        raise ExportError(message, path=folder)
    return earlier


@contextmanager
def _writer(export: _Export, path: Path) -> Iterator[Writer]:
    if export.format == "parquet":
        yield Parquet(path, export.columns)
        return
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        yield JsonLines(stream)
