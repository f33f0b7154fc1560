"""Selections: which trajectories are taken, and why every other one is not.

A :class:`Stage` looks at a :class:`Frame` (summary rows, and a way to ask for steps) and says which
rows stay and why the others go. :func:`run_stages` applies stages in order and keeps count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, Any, ClassVar, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.schema import TRAJECTORY_SCHEMA, Trajectory, canonical_json

SUMMARY_COLUMNS: tuple[str, ...] = (
    "trajectory_id",
    "task_id",
    "attempt",
    "source",
    "environment",
    "environment_version",
    "agent",
    "model",
    "policy_version",
    "status",
    "success",
    "reward",
    "n_steps",
    "n_agent_steps",
    "n_tool_calls",
    "n_tool_errors",
    "n_format_errors",
    "prompt_tokens",
    "completion_tokens",
    "cost_usd",
    "duration_s",
    "size_bytes",
    "started_at",
    "ended_at",
    "imported_at",
    "expires_at",
    "tags",
    "parent_id",
    "relation",
    "source_digest",
)
"""Columns of the ``trajectories`` view that every stage can rely on: all that hold no long text."""

SUMMARY_SCHEMA: pa.Schema = pa.schema([TRAJECTORY_SCHEMA.field(n) for n in SUMMARY_COLUMNS])
"""The Arrow schema of those columns; ``success`` and ``reward`` are the effective outcome."""

DROPPED_SCHEMA: pa.Schema = pa.schema(
    [
        pa.field("trajectory_id", pa.string(), nullable=False),
        pa.field("stage", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string()),
    ]
)
"""One row a trajectory that was not taken: the stage that dropped it, a short stable reason, and
what exactly was found, where there is more to say."""


class StepSource(Protocol):
    """What a stage may ask about steps; a pipeline implements it over one snapshot of a store."""

    def sql(self, query: str) -> pa.Table:
        """Rows of one SELECT over the store's views (``trajectories``, ``steps``, ...)."""

    def trajectories(self, ids: Sequence[str]) -> Iterator[Trajectory]:
        """Whole runs in the order of ``ids``; an unknown id is left out."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What a stage sees."""

    rows: pa.Table
    """One row a trajectory: :data:`SUMMARY_COLUMNS` and the columns that earlier stages added
    (``score``, ``rank``, ``split``, ``cluster``, ``weight``, ...)."""
    steps: StepSource
    """Where to ask for more than the summary."""


@dataclass(frozen=True, slots=True)
class StageResult:
    """What a stage decided: every row of its frame is in exactly one of the two tables."""

    rows: pa.Table
    """The rows that stay, maybe with columns added, maybe in another order."""
    dropped: pa.Table
    """``trajectory_id``, ``reason`` and optionally ``detail`` of the others."""

    @classmethod
    def split(
        cls,
        rows: pa.Table,
        reasons: pa.Array | pa.ChunkedArray,
        details: pa.Array | pa.ChunkedArray | None = None,
    ) -> Self:
        """Part rows by their reasons.

        Args:
            rows: the frame's rows.
            reasons: a string for each row, null for the rows that stay.
            details: more words for each row, or null.
        """
        if reasons.null_count == rows.num_rows:
            return cls(rows, DROPPED_SCHEMA.empty_table())
        stays = pc.is_null(reasons)
        goes = pc.invert(stays)
        dropped = {
            "trajectory_id": rows.column("trajectory_id").filter(goes),
            "reason": reasons.filter(goes),
        }
        if details is not None:
            dropped["detail"] = details.filter(goes)
        return cls(rows.filter(stays), pa.table(dropped))

    @classmethod
    def keep(cls, rows: pa.Table, mask: pa.Array | pa.ChunkedArray, reason: str) -> Self:
        """Keep the rows where ``mask`` is true; false and null are dropped for one reason."""
        kept = pc.fill_null(mask, False)
        return cls.split(rows, pc.if_else(kept, pa.scalar(None, pa.string()), reason))


class Stage(Protocol):
    """One step of a selection."""

    @property
    def name(self) -> str:
        """The stage's name in recipes, such as ``success`` or ``max-steps``."""

    def parameters(self) -> dict[str, Any]:
        """JSON-ready parameters, enough to make the stage again."""

    def apply(self, frame: Frame) -> StageResult:
        """Say which rows stay and why the others go."""


@dataclass(frozen=True, slots=True)
class NamedStage:
    """Base of stages that are dataclasses: their parameters are their fields."""

    name: ClassVar[str]

    def parameters(self) -> dict[str, Any]:
        """All fields, tuples as lists."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {n: list(v) if isinstance(v, tuple) else v for n, v in values.items()}


@dataclass(frozen=True, slots=True)
class FunnelStage:
    """What one stage did, in numbers."""

    name: str
    """The stage."""
    parameters: Mapping[str, Any]
    """Its parameters."""
    before: int
    """Rows it was given."""
    after: int
    """Rows it left."""
    dropped: Mapping[str, int]
    """Reason -> rows dropped for it, in order of the reasons."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A set of trajectories with the why."""

    rows: pa.Table
    """The rows that were taken, as the last stage left them."""
    dropped: pa.Table = field(default_factory=DROPPED_SCHEMA.empty_table)
    """Every other row in :data:`DROPPED_SCHEMA`, by stage in order, then by id. Empty where the
    selection was read without that list; the funnel still counts them."""
    funnel: tuple[FunnelStage, ...] = ()
    """What each stage did, in order."""
    snapshot: int | None = None
    """Snapshot of the store that the rows come from."""
    recipe: list[dict[str, Any]] = field(default_factory=list)
    """One object a stage: ``{"stage": name, **parameters}``; enough to select again."""

    def __len__(self) -> int:
        """Number of trajectories taken."""
        return int(self.rows.num_rows)

    def ids(self) -> list[str]:
        """Ids of the trajectories taken, in the order of the rows."""
        return list(self.rows.column("trajectory_id").to_pylist())

    def explain(self) -> str:
        """The funnel as an aligned table in plain text."""
        from trajstore.filters.funnel import explained

        return explained(self)

    def lineage(self) -> dict[str, Any]:
        """What an export says of where its rows come from: ``snapshot``, ``filter``, ``funnel``."""
        funnel = [
            {
                "stage": s.name,
                "parameters": dict(s.parameters),
                "in": s.before,
                "out": s.after,
                "dropped": dict(s.dropped),
            }
            for s in self.funnel
        ]
        filter_ = canonical_json(self.recipe) if self.recipe else ""
        return {"snapshot": self.snapshot, "filter": filter_, "funnel": funnel}

    def write(self, path: str | Path | IO[bytes]) -> None:
        """Write the selection; see :func:`trajstore.filters.selection_files.write_selection`."""
        from trajstore.filters.selection_files import write_selection

        write_selection(self, path)

    @classmethod
    def read(cls, path: str | Path | IO[bytes]) -> Selection:
        """Read a selection; see :func:`trajstore.filters.selection_files.read_selection`."""
        from trajstore.filters.selection_files import read_selection

        return read_selection(path)


def run_stages(frame: Frame, stages: Sequence[Stage], *, snapshot: int | None = None) -> Selection:
    """Apply stages one after the other.

    The rows are put in order of ``trajectory_id`` first, so a selection depends on the set of rows
    and never on how they came.

    Args:
        frame: summary rows, one a trajectory.
        stages: in order; each sees what the one before it left.
        snapshot: what the rows are a snapshot of, for the lineage.

    Raises:
        SelectionError: a column is missing, an id is there twice, or a stage lost rows.
    """
    rows = _checked(frame.rows)
    dropped: list[pa.Table] = []
    funnel: list[FunnelStage] = []
    for stage in stages:
        result = stage.apply(Frame(rows, frame.steps))
        gone = _dropped_rows(result.dropped, stage.name)
        if result.rows.num_rows + gone.num_rows != rows.num_rows:
            message = (
                f"The stage '{stage.name}' was given {rows.num_rows} rows, left "
                f"{result.rows.num_rows} and dropped {gone.num_rows}: every row must be in exactly "
                "one of the two tables. This is a fault of the stage."
            )
            raise SelectionError(message)
        counts = reason_counts(gone)
        funnel.append(
            FunnelStage(stage.name, stage.parameters(), rows.num_rows, result.rows.num_rows, counts)
        )
        dropped.append(gone)
        rows = result.rows
    return Selection(
        rows=rows,
        dropped=pa.concat_tables([DROPPED_SCHEMA.empty_table(), *dropped]).combine_chunks(),
        funnel=tuple(funnel),
        snapshot=snapshot,
        recipe=[{"stage": s.name, **s.parameters()} for s in stages],
    )


def _checked(rows: pa.Table) -> pa.Table:
    missing = [n for n in SUMMARY_COLUMNS if n not in rows.column_names]
    if missing:
        message = (
            f"The rows to select from lack the columns {', '.join(missing)}; "
            "a selection starts from all of SUMMARY_COLUMNS."
        )
        raise SelectionError(message)
    ids = rows.column("trajectory_id")
    if not _ascending(ids):
        rows = rows.sort_by("trajectory_id")
        ids = rows.column("trajectory_id")
    if not _ascending(ids):
        counts = pc.value_counts(ids)
        twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        message = (
            f"{rows.num_rows} rows hold an id more than once, such as {twice[0]}; "
            "a selection needs one row a trajectory."
        )
        raise SelectionError(message)
    return rows


def _ascending(ids: pa.ChunkedArray) -> bool:
    """Whether each id is greater than the one before it, so that no id is there twice."""
    flat = ids.combine_chunks()
    return bool(pc.all(pc.less(flat[:-1], flat[1:]), min_count=0).as_py()) and not flat.null_count


def _dropped_rows(found: pa.Table, stage: str) -> pa.Table:
    n = found.num_rows
    detail = found.column("detail") if "detail" in found.column_names else pa.nulls(n, pa.string())
    columns = {
        "trajectory_id": found.column("trajectory_id"),
        "stage": pa.repeat(stage, n),
        "reason": found.column("reason"),
        "detail": detail,
    }
    table = pa.table({k: v.cast(pa.string()) for k, v in columns.items()})
    return table.cast(DROPPED_SCHEMA).sort_by("trajectory_id")


def reason_counts(dropped: pa.Table) -> dict[str, int]:
    """How many rows of a dropped table go to each reason, in order of the reasons."""
    counts = dropped.group_by("reason").aggregate([([], "count_all")]).sort_by("reason")
    reasons, numbers = counts.column("reason"), counts.column("count_all")
    return dict(zip(reasons.to_pylist(), numbers.to_pylist(), strict=True))
