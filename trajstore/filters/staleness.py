"""What is too old to learn from: policy versions, age, environment versions, better demonstrations.

Nothing is deleted by these stages; they say what is not served any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.relations import relation
from trajstore.filters.row_columns import NO_REASON
from trajstore.filters.selection import Frame, NamedStage, StageResult
from trajstore.schema import now as present

_TIME = pa.timestamp("us", tz="UTC")
_TRAILING_NUMBER = r"(?P<number>\d{1,18})\D*$"

CostColumn = Literal[
    "n_tool_calls", "n_agent_steps", "n_steps", "completion_tokens", "cost_usd", "duration_s"
]
"""Summary columns that say what a run cost."""


@dataclass(frozen=True, slots=True)
class Staleness(NamedStage):
    """Keep runs whose policy is at most some versions behind the current one.

    The version of a run is the last number in its ``policy_version`` (``iter-12`` is 12), or its
    place in ``order`` where that is given. A run exactly ``most`` versions behind is kept.
    """

    name: ClassVar[str] = "staleness"

    most: int
    """Most versions behind."""
    current: str | int | None = None
    """The current version; the newest among the rows where None."""
    order: tuple[str, ...] = ()
    """All versions from the oldest to the newest, where they hold no number to go by."""

    def __post_init__(self) -> None:
        """Check the window and the current version."""
        if self.most < 0:
            raise SelectionError(f"The stage 'staleness' allows 0 or more, not {self.most}.")
        if (
            self.current is not None
            and self._numbers(pa.array([str(self.current)]))[0].as_py() is None
        ):
            known = f"in order {', '.join(self.order)}" if self.order else "a text with a number"
            message = f"The current policy version must be {known}, not {self.current!r}."
            raise SelectionError(message)

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``stale-policy`` and ``unknown-policy-version``."""
        versions = frame.rows.column("policy_version")
        numbers = self._numbers(versions)
        current = (
            pc.max(numbers)
            if self.current is None
            else self._numbers(pa.array([str(self.current)]))[0]
        )
        behind = pc.subtract(current, numbers)
        stale = pc.if_else(pc.greater(behind, self.most), "stale-policy", NO_REASON)
        reasons = pc.if_else(pc.is_null(numbers), "unknown-policy-version", stale)
        details = pc.binary_join_element_wise(
            versions, pc.cast(behind, pa.string()), "versions behind", " "
        )
        return StageResult.split(frame.rows, reasons, details)

    def _numbers(self, versions: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        if self.order:
            place = pc.index_in(versions, value_set=pa.array(self.order, pa.string()))
            return pc.cast(place, pa.int64())
        found = pc.struct_field(pc.extract_regex(versions, _TRAILING_NUMBER), "number")
        return pc.cast(found, pa.int64())


@dataclass(frozen=True, slots=True)
class Expiry(NamedStage):
    """Keep runs that have not expired: young enough, and before their own ``expires_at``.

    A run's age counts from its end, else its start, else its import. A run exactly as old as the
    limit, or at its ``expires_at``, is still active.
    """

    name: ClassVar[str] = "expiry"

    ttl_s: float | None = None
    """Longest age in seconds; None looks at ``expires_at`` only."""
    now: str | datetime | None = None
    """The moment to reckon from, in ISO form with a time zone (UTC where it has none); the present
    where None. Give it where the selection has to come out the same tomorrow."""

    def __post_init__(self) -> None:
        """Settle the moment, so that the recipe tells it."""
        if self.ttl_s is not None and self.ttl_s < 0:
            raise SelectionError(
                f"The stage 'expiry' needs a ttl_s of 0 or more, not {self.ttl_s}."
            )
        object.__setattr__(self, "now", _moment(self.now).isoformat())

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``expired`` and, where a ttl is given, ``unknown-age``."""
        rows = frame.rows
        now = pa.scalar(_moment(self.now), _TIME)
        reasons = pa.nulls(rows.num_rows, pa.string())
        over = pc.fill_null(pc.less(rows.column("expires_at"), now), False)
        if self.ttl_s is not None:
            born = pc.coalesce(
                rows.column("ended_at"), rows.column("started_at"), rows.column("imported_at")
            )
            age = pc.subtract(now, born)
            limit = pa.scalar(timedelta(seconds=self.ttl_s), pa.duration("us"))
            over = pc.or_(over, pc.fill_null(pc.greater(age, limit), False))
            reasons = pc.if_else(pc.is_null(born), "unknown-age", NO_REASON)
        return StageResult.split(rows, pc.if_else(over, "expired", reasons))


def _moment(given: str | datetime | None) -> datetime:
    if given is None:
        return present()
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError as error:
        message = f"{given!r} is no moment; write it like 2026-03-01T12:00:00+00:00."
        raise SelectionError(message) from error
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class EnvironmentVersion(NamedStage):
    """Keep runs that were made in the current version of their environment."""

    name: ClassVar[str] = "environment-version"

    current: str | Mapping[str, str]
    """The version, or environment -> version; then runs of other environments stay."""

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``old-environment`` and ``unknown-environment-version``."""
        versions = frame.rows.column("environment_version")
        if isinstance(self.current, str):
            wanted = pa.repeat(self.current, len(versions))
        else:
            table = pa.table([list(self.current), list(self.current.values())], ["name", "version"])
            place = pc.index_in(frame.rows.column("environment"), value_set=table.column("name"))
            wanted = table.column("version").take(place)
        differs = pc.if_else(pc.not_equal(versions, wanted), "old-environment", NO_REASON)
        unknown = pc.if_else(pc.is_null(versions), "unknown-environment-version", differs)
        reasons = pc.if_else(pc.is_null(wanted), NO_REASON, unknown)
        return StageResult.split(frame.rows, reasons, versions)


@dataclass(frozen=True, slots=True)
class Superseded(NamedStage):
    """Keep successes that no better one has made needless; for demonstrations only.

    A success is superseded by another success at the same task in the same environment version
    with the same or more reward and less cost. Likeness of text never supersedes anything, and what
    is no success stays.
    """

    name: ClassVar[str] = "superseded"

    cost: CostColumn = "n_tool_calls"
    """The column that says what a run cost; runs of unknown cost neither supersede nor are."""

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``superseded``; the detail names the run that did it."""
        query = f"""
            SELECT trajectory_id, best.id AS by_id FROM (
                SELECT trajectory_id, {self.cost} AS cost,
                    min({{'cost': CAST({self.cost} AS DOUBLE), 'id': trajectory_id}}) OVER (
                        PARTITION BY task_id, environment_version, reward IS NULL
                        ORDER BY reward DESC
                        RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS best
                FROM runs WHERE success AND {self.cost} IS NOT NULL)
            WHERE best.cost < cost"""
        columns = [
            "trajectory_id",
            "task_id",
            "environment_version",
            "success",
            "reward",
            self.cost,
        ]
        found = relation(query, tables={"runs": frame.rows.select(columns)})
        place = pc.index_in(
            frame.rows.column("trajectory_id"), value_set=found.column("trajectory_id")
        )
        reasons = pc.if_else(pc.is_null(place), NO_REASON, self.name)
        return StageResult.split(frame.rows, reasons, found.column("by_id").take(place))


STAGES = {s.name: s for s in (Staleness, Expiry, EnvironmentVersion, Superseded)}
"""Stages of this module by name."""
