"""The store with everything that the other layers can do for it: what ``trajstore.open`` gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

from trajstore.errors import SchemaError, WriteError
from trajstore.exports import DEFAULT_OPTIONS, ExportReport, Format, SftOptions, Target
from trajstore.filters import Selection, Stage
from trajstore.importers import ImportOptions, read_jsonl_record
from trajstore.memory import Forgotten, forget_runs
from trajstore.pipeline.building import BuildReport, build
from trajstore.pipeline.exporting import export_sft_from
from trajstore.pipeline.importing import ImportReport, Progress, import_into
from trajstore.pipeline.pairing import build_groups, build_pairs
from trajstore.pipeline.recipe import Recipe
from trajstore.pipeline.records import UnplainError, batches_of_records
from trajstore.pipeline.report import HtmlReport, write_report
from trajstore.pipeline.selected import StoreSelection, export
from trajstore.pipeline.selecting import select
from trajstore.retrieval import build_index, forget_deleted
from trajstore.retrieval import few_shot as few_shot_of
from trajstore.retrieval import search as search_store
from trajstore.schema import Label, Trajectory
from trajstore.store import AppendReport, Batch, DeleteReport, Store, VacuumReport

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

        Raises:
            SchemaError: a record does not fit; the message names it, and nothing is written.
            WriteError: the disk or the object store refused; nothing is visible.
        """
        if isinstance(items, Batch | Trajectory | Label):
            return super().append(items, durable=durable)
        listed = [items] if isinstance(items, Mapping) else list(items)
        if all(isinstance(i, Mapping) for i in listed):
            parts = batches_of_records(listed)  # type: ignore[arg-type]
            with suppress(UnplainError, SchemaError):  # what is wrong the careful reader says
                return self.append_parts(parts, durable=durable)
        values = [_value(i, n) if isinstance(i, Mapping) else i for n, i in enumerate(listed)]
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

    def select(
        self, stages: Sequence[Stage] = (), *, at: int | str | None = None
    ) -> StoreSelection:
        """Select trajectories by stages; see :func:`trajstore.pipeline.select`.

        What it gives has ``explain``, ``pairs``, ``groups`` and ``export``.
        """
        found = select(self, stages, at=at)
        return StoreSelection(
            rows=found.rows,
            dropped=found.dropped,
            funnel=found.funnel,
            snapshot=found.snapshot,
            recipe=found.recipe,
            store=self,
        )

    def build(
        self, recipe: str | Path | Recipe, *, output: str | Path | None = None
    ) -> BuildReport:
        """Make the sets of a recipe from this store; see :func:`trajstore.pipeline.build`."""
        return build(recipe, store=self, output=output)

    def report(
        self,
        out: str | Path | IO[bytes],
        *,
        selection: Selection | None = None,
        at: int | str | None = None,
        where: str | None = None,
        seed: int = 0,
    ) -> HtmlReport:
        """Write numbers and plots as one HTML file; see :func:`trajstore.pipeline.write_report`."""
        return write_report(self, out, selection=selection, at=at, where=where, seed=seed)

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

    def delete(
        self, where: str, *, dry_run: bool = False, keep_memory: bool = False
    ) -> DeleteReport:
        """Hide every trajectory that fits a condition, with what was drawn from it.

        Trajectories are hidden at once and in every snapshot. Reflections, skills, workflows and
        insights of these alone are removed; those that other trajectories speak for, too, are not
        served until they are made or verified anew (:func:`trajstore.memory.forget_runs`).
        ``vacuum`` then removes the bytes, which breaks pins that hold them.

        Args:
            where: an SQL condition over ``trajectories``.
            dry_run: only count.
            keep_memory: leave what was drawn from them, where it tells nothing of them.
        """
        if keep_memory or not where.strip():
            return super().delete(where, dry_run=dry_run)
        ids = [i for listed in self.reader().ids(where) for i in listed]
        # Memory goes first: were it killed in between, the same delete would find the runs again.
        gone = forget_runs(self, ids, dry_run=dry_run) if ids else Forgotten()
        done = super().delete(where, dry_run=dry_run)
        return replace(done, memory_removed=gone.removed, memory_stale=gone.stale)

    def expire(
        self,
        *,
        older_than: timedelta | None = None,
        where: str | None = None,
        now: datetime | None = None,
        dry_run: bool = False,
        keep_memory: bool = False,
    ) -> DeleteReport:
        """Hide trajectories whose time is over, as :meth:`delete` does.

        Args:
            older_than: also those older than this, from their end, else their start, else their
                import; None goes by ``expires_at`` alone. Exactly as old stays.
            where: only trajectories that fit this SQL condition.
            now: the time to count to; the clock where None.
            dry_run: only count.
            keep_memory: leave what was drawn from them; see :meth:`delete`.

        Raises:
            WriteError: ``older_than`` is negative, or the store cannot be written.
            QueryError: the condition is not allowed or fails.
        """
        if older_than is not None and older_than < timedelta(0):
            raise WriteError(f"older_than is an age of 0 or more, not {older_than}.")
        moment = (now or datetime.now(UTC)).astimezone(UTC)
        over = f"expires_at < {_timestamp(moment)}"
        if older_than is not None:
            born = "coalesce(ended_at, started_at, imported_at)"
            over = f"({over} OR {born} < {_timestamp(moment - older_than)})"
        condition = f"{over} AND ({where})" if where else over
        return self.delete(condition, dry_run=dry_run, keep_memory=keep_memory)

    def vacuum(
        self, *, retention: timedelta = timedelta(hours=168), dry_run: bool = False
    ) -> VacuumReport:
        """Remove what no kept snapshot names, and every trace of deleted trajectories.

        See :meth:`trajstore.store.Store.vacuum`; here the search index forgets them too.
        """
        deleted = len(self._head().deleted)
        done = super().vacuum(retention=retention, dry_run=dry_run)
        if deleted and not dry_run:
            forget_deleted(self)
        return done

    pairs = build_pairs
    """Preference pairs of runs or steps; see :func:`trajstore.pipeline.build_pairs`."""

    groups = build_groups
    """The attempts at each task, with advantages; see :func:`trajstore.pipeline.build_groups`."""

    export = export
    """Write a training set of any kind; see :func:`trajstore.pipeline.export`."""

    index = build_index
    """Bring the search index up to date; see :func:`trajstore.retrieval.build_index`."""

    search = search_store
    """The experiences that help most with a text; see :func:`trajstore.retrieval.search`."""

    few_shot = few_shot_of
    """A prompt of what helps with a task; see :func:`trajstore.retrieval.few_shot`."""


def _timestamp(moment: datetime) -> str:
    return f"TIMESTAMPTZ '{moment.isoformat()}'"


def _value(record: Mapping[str, Any], place: int) -> Trajectory:
    try:
        return read_jsonl_record(record)
    except (ValueError, TypeError) as error:
        name = record.get("trajectory_id") or "it has no trajectory_id"
        message = (
            f"Record {place} of those to append ({name}): {error}. "
            "Nothing was written; mend or leave out that record and append again."
        )
        raise SchemaError(message) from error
