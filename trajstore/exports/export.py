"""A training set in a folder: data, dataset card, manifest."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
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
from trajstore.exports.sft import DEFAULT_OPTIONS, Refusal, SftOptions, SftRow, Target, sft_rows
from trajstore.schema import Trajectory

_PROVENANCE: Mapping[str, Kind] = {
    "tools": "string",
    "trainable": "bool-list",
    "trajectory_id": "string",
    "task_id": "string",
    "reward": "double",
}

SFT_COLUMNS: Mapping[str, Mapping[str, Kind]] = {
    "messages": {"messages": "json-list", **_PROVENANCE},
    "prompt-completion": {"prompt": "json-list", "completion": "json-list", **_PROVENANCE},
}
"""Layout -> columns of an SFT set, in order."""

_USAGE = """```python
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

rows = load_dataset("path/to/this/folder", split="train")
config = SFTConfig(assistant_only_loss=True, max_length=None)
SFTTrainer("model", args=config, train_dataset=rows).train()
```

`assistant_only_loss` keeps the loss off tool results and needs a chat template with
`{% generation %}`; TRL brings one for the families that it knows. `max_length` is 1024 unless set,
which cuts most trajectories.
"""

_NO_LINEAGE = Lineage()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Export:
    """One run of :func:`export_sft`."""

    trajectories: Iterable[Trajectory]
    to: Target
    format: Format
    options: SftOptions
    lineage: Lineage
    tally: Tally

    @property
    def columns(self) -> Mapping[str, Kind]:
        return SFT_COLUMNS[self.options.layout]

    def fill(self, writer: Writer) -> None:
        for row in sft_rows(self.trajectories, to=self.to, options=self.options):
            if isinstance(row, Refusal):
                self.tally.refuse(row.trajectory_id, row.reason)
            else:
                self._take(row, writer)
        writer.close()

    def _take(self, row: SftRow, writer: Writer) -> None:
        self.tally.take(row.trajectory_id, success=row.success, rules=row.applied)
        writer.write(row.record(self.options.layout))

    def report(
        self, folder: Path | None, files: tuple[WrittenFile, ...], rows: int
    ) -> ExportReport:
        content = manifest(
            self.tally,
            self.lineage,
            kind="sft",
            to=self.to,
            format_=self.format,
            files=files,
            rows=rows,
            options=asdict(self.options),
        )
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
    format: Format = "parquet",  # noqa: A002 - the word that users know from the command line
    lineage: Lineage = _NO_LINEAGE,
    include_reasoning: bool = True,
    options: SftOptions = DEFAULT_OPTIONS,
) -> ExportReport:
    """Write an SFT set: ``train.parquet`` or ``train.jsonl``, ``README.md`` and ``manifest.json``.

    The same trajectories, lineage and options give the same bytes. Memory holds one row group. The
    files appear together when all are complete; data files of an earlier export in the folder are
    replaced. No outcome is looked at: the caller selects, and the manifest counts the outcomes.

    Args:
        trajectories: the selection, read once.
        out: a folder, made if it is not there; or a text stream, or ``-`` for stdout, which take
            JSON lines only and no manifest.
        to: the trainer.
        format: ``parquet``, or ``jsonl``. From Parquet ``datasets`` reads the reward exactly and
            fractions inside argument objects to about ten digits; from JSON lines it reads both
            to ten decimals. Arguments as text keep every digit.
        lineage: how the selection came about; goes into the manifest.
        include_reasoning: False leaves reasoning out, whatever ``options`` says.
        options: what rows look like.

    Returns:
        What was written and what was refused. A set of no rows is written too, and counts; it is
        for the caller to say whether that is an error (``datasets`` refuses to load one).

    Raises:
        ExportError: an unknown format or target, or a folder with files of somebody else.
    """
    if format not in get_args(Format):
        known = ", ".join(get_args(Format))
        raise ExportError(f"there is no format {format!r}; known are {known}")
    export = _Export(
        trajectories=trajectories,
        to=to,
        format=format,
        options=options if include_reasoning else replace(options, include_reasoning=False),
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


def _to_folder(export: _Export, folder: Path) -> ExportReport:
    name = f"train.{export.format}"
    earlier = _checked(folder, name)
    with Staged(folder) as staged:
        with _writer(export, staged.path(name)) as writer:
            export.fill(writer)
        files = (staged.described(name, writer.rows),)
        report = export.report(folder, files, writer.rows)
        staged.write_text(CARD, card_text(report.manifest, export.columns, _USAGE))
        staged.write_text(MANIFEST, manifest_text(report.manifest))
        staged.publish()
    for stale in set(earlier) - {name}:
        (folder / stale).unlink(missing_ok=True)
    return report


def _checked(folder: Path, name: str) -> list[str]:
    """Data files of an earlier export; refuse a folder whose files are not ours to replace."""
    if folder.exists() and not folder.is_dir():
        raise ExportError(f"{folder} is a file; an export goes into a folder", path=folder)
    earlier = earlier_files(folder)
    foreign = [n for n in (name, CARD) if not earlier and (folder / n).exists()]
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
