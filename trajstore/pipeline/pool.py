"""The store with everything that the other layers can do for it: what ``trajstore.open`` gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trajstore.exports import DEFAULT_OPTIONS, ExportReport, Format, SftOptions, Target
from trajstore.filters import Selection, Stage
from trajstore.importers import ImportOptions, read_jsonl_record
from trajstore.pipeline.exporting import export_sft_from
from trajstore.pipeline.importing import ImportReport, Progress, import_into
from trajstore.pipeline.records import batch_of_records
from trajstore.pipeline.selecting import select
from trajstore.schema import Label, Trajectory
from trajstore.store import AppendReport, Batch, Store

Item = Trajectory | Label | Mapping[str, Any]


class Pool(Store):
    """A :class:`~trajstore.store.Store` that also imports files and exports training sets."""

    def append(
        self,
        items: Batch | Trajectory | Label | Mapping[str, Any] | Iterable[Item],
        *,
        durable: bool | None = None,
    ) -> AppendReport:
        """Append trajectories and labels in one commit; see :meth:`trajstore.store.Store.append`.

        Args:
            items: values, a :class:`Batch` of Arrow tables, or plain dicts in the shape of
                ``docs/reference/jsonl.md`` (``{"task_id": ..., "success": ..., "steps": [...]}``).
            durable: overrides the store's setting.
        """
        if isinstance(items, Batch | Trajectory | Label):
            return super().append(items, durable=durable)
        listed = [items] if isinstance(items, Mapping) else list(items)
        if all(isinstance(i, Mapping) for i in listed):
            batch = batch_of_records(listed)  # type: ignore[arg-type]
            if batch is not None:
                return super().append(batch, durable=durable)
        values = [read_jsonl_record(i) if isinstance(i, Mapping) else i for i in listed]
        return super().append(values, durable=durable)

    def import_files(
        self,
        paths: str | Path | Iterable[str | Path],
        *,
        format: str | None = None,  # noqa: A002  the name of the flag
        options: ImportOptions | None = None,
        strict: bool = False,
        redact: bool = True,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Read files, folders or globs in; see :func:`trajstore.pipeline.import_into`."""
        listed = [paths] if isinstance(paths, str | Path) else list(paths)
        return import_into(
            self,
            listed,
            format=format,
            options=options,
            strict=strict,
            redact=redact,
            progress=progress,
        )

    def select(self, stages: Sequence[Stage], *, at: int | str | None = None) -> Selection:
        """Select trajectories by stages; see :func:`trajstore.pipeline.select`."""
        return select(self, stages, at=at)

    def export_sft(
        self,
        out: str | Path | None,
        *,
        to: Target = "trl",
        where: str | None = None,
        selection: Selection | None = None,
        success_only: bool = True,
        at: int | str | None = None,
        format: Format | None = None,  # noqa: A002  the name of the flag
        options: SftOptions = DEFAULT_OPTIONS,
    ) -> ExportReport:
        """Write a supervised fine-tuning set; see :func:`trajstore.pipeline.export_sft_from`."""
        return export_sft_from(
            self,
            out,
            to=to,
            where=where,
            selection=selection,
            success_only=success_only,
            at=at,
            format=format,
            options=options,
        )
