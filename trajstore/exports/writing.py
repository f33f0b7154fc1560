"""Any training set in a folder or a stream: data, dataset card, manifest."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, get_args

from trajstore.errors import ExportError
from trajstore.exports.files import (
    Counter,
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

NO_LINEAGE = Lineage()
"""Of rows that nobody selected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One row of a set."""

    id: str
    """The run, pair or task that it is made of; rows of one come one after the other."""
    values: Mapping[str, Any]
    """Column -> value, in the order of the file."""
    success: bool | None = None
    """Outcome of the run; only sets of runs count it."""
    rules: Mapping[str, int] = field(default_factory=dict)
    """Rules that changed something on the way, counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A run, pair or task that gives no row."""

    id: str
    reason: str
    """Name of the reason."""
    detail: str
    """The reason in words, with the place and the way out."""


Out = Path | str | TextIO | None
"""Where a set goes: a folder, a text stream, ``-`` for stdout, or None to only count it."""


def _nothing() -> Mapping[str, Any]:
    return {}


def _no_files(data: str) -> Mapping[str, str]:
    del data
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSet:
    """Everything that there is to write of a set."""

    kind: str
    """``sft``, ``dpo``, ...: what the command calls it."""
    to: str
    """The trainer."""
    format: Format
    columns: Mapping[str, Kind]
    """Columns, in order."""
    found: Iterable[Taken | Refused]
    """Rows and refusals, read once."""
    usage: str
    """How to train on the folder: Markdown, for the dataset card."""
    parameters: Mapping[str, Any]
    """Options, for the manifest."""
    reasons: Mapping[str, str]
    """Reason of a refusal -> why, and what to do."""
    lineage: Lineage = NO_LINEAGE
    unit: str = "trajectories"
    """What a row is made of: ``trajectories``, ``pairs`` or ``tasks``."""
    facts: Callable[[], Mapping[str, Any]] = _nothing
    """Further entries of the manifest, asked for once all rows are read."""
    files: Callable[[str], Mapping[str, str]] = _no_files
    """Further files of the folder (name -> text), from the name of the data file."""


def chosen_format(name: str, formats: Sequence[Format], asked: str | None) -> Format:
    """The format that was asked for, or the first one where none was.

    Raises:
        ExportError: an unknown format, or one that the target does not read.
    """
    if asked is None:
        return formats[0]
    for known in formats:
        if asked == known:
            return known
    if asked not in get_args(Format):
        raise ExportError(f"there is no format {asked!r}; known are {', '.join(get_args(Format))}")
    raise ExportError(f"{name} reads {', '.join(formats)}, not {asked}")


def write_set(rows: TrainingSet, out: Out) -> ExportReport:
    """Write a set to a folder, a text stream, or ``-`` for stdout; with None, only count it.

    The same rows and options give the same bytes. The files of a folder appear together when all
    are complete; data files of an earlier export in the folder are replaced.

    Args:
        rows: the set.
        out: a folder, made if it is not there; a stream takes JSON lines only and no manifest; None
            writes nothing.

    Raises:
        ExportError: a folder with files of somebody else, or Parquet for a stream.
    """
    tally = Tally()
    if out is None:
        counter = Counter()
        _fill(rows, tally, counter)
        return _report(rows, tally, None, (), counter.rows)
    if isinstance(out, Path | str) and str(out) != "-":
        return _to_folder(rows, tally, Path(out))
    if rows.format != "jsonl":
        message = f"a stream takes jsonl, not {rows.format}; give a folder, or format='jsonl'"
        raise ExportError(message)
    writer = JsonLines(sys.stdout if isinstance(out, Path | str) else out)
    _fill(rows, tally, writer)
    return _report(rows, tally, None, (), writer.rows)


def _fill(rows: TrainingSet, tally: Tally, writer: Writer) -> None:
    for found in rows.found:
        if isinstance(found, Refused):
            tally.refuse(found.id, found.reason)
        else:
            tally.take(found.id, success=found.success, rules=found.rules)
            writer.write(found.values)
    writer.close()


def _report(
    rows: TrainingSet, tally: Tally, folder: Path | None, files: tuple[WrittenFile, ...], n: int
) -> ExportReport:
    content = manifest(
        tally,
        rows.lineage,
        kind=rows.kind,
        to=rows.to,
        format_=rows.format,
        files=files,
        rows=n,
        options=rows.parameters,
        unit=rows.unit,
    )
    content.update(rows.facts())
    further = rows.files(files[0].name) if files else {}
    if further:
        content["further_files"] = sorted(further)
    return ExportReport(
        folder=folder,
        files=files,
        rows=n,
        runs=content["trajectories"],
        refused=content["refused"],
        refused_ids=content["refused_ids"],
        manifest=content,
        reasons={reason: rows.reasons[reason] for reason in content["refused"]},
    )


def _to_folder(rows: TrainingSet, tally: Tally, folder: Path) -> ExportReport:
    name = f"train.{rows.format}"
    further = rows.files(name)
    earlier = _checked(folder, [name, CARD, *further])
    with Staged(folder) as staged:
        with _writer(rows, staged.path(name)) as writer:
            _fill(rows, tally, writer)
        files = (staged.described(name, writer.rows),)
        report = _report(rows, tally, folder, files, writer.rows)
        staged.write_text(CARD, card_text(report.manifest, rows.columns, rows.usage))
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
def _writer(rows: TrainingSet, path: Path) -> Iterator[Writer]:
    if rows.format == "parquet":
        yield Parquet(path, rows.columns)
        return
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        yield JsonLines(stream)
