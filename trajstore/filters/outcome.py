"""Which outcomes are kept: successes, rewards in a range, attempts above their task's mean.

An unknown outcome is neither a success nor a failure; it is dropped under a name of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.selection import Frame, NamedStage, StageResult
from trajstore.schema import STATUSES

UNKNOWN_OUTCOME = "unknown-outcome"
"""Reason for a run whose success nobody has judged."""

UNKNOWN_REWARD = "unknown-reward"
"""Reason for a run without a reward."""


@dataclass(frozen=True, slots=True)
class Success(NamedStage):
    """Keep runs that an evaluator found successful."""

    name: ClassVar[str] = "success"

    failures: bool = False
    """Keep failures too, so that only unknown outcomes are dropped (pairs and groups need both)."""

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``failure`` and ``unknown-outcome``."""
        success = frame.rows.column("success")
        failure = pa.scalar(None, pa.string()) if self.failures else "failure"
        known = pc.if_else(success, pa.scalar(None, pa.string()), failure)
        return StageResult.split(
            frame.rows, pc.if_else(pc.is_null(success), UNKNOWN_OUTCOME, known)
        )


@dataclass(frozen=True, slots=True)
class RewardRange(NamedStage):
    """Keep runs whose reward lies between two bounds, both ends included."""

    name: ClassVar[str] = "reward"

    least: float | None = None
    """Smallest reward kept; None for no bound."""
    most: float | None = None
    """Largest reward kept; None for no bound."""

    def __post_init__(self) -> None:
        """Check the bounds."""
        if self.least is None and self.most is None:
            raise SelectionError("The stage 'reward' needs a bound: least, most or both.")
        if self.least is not None and self.most is not None and self.least > self.most:
            message = f"The stage 'reward' keeps nothing: {self.least} is above {self.most}."
            raise SelectionError(message)

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``reward-too-low``, ``reward-too-high`` and ``unknown-reward`` (NaN as well)."""
        reward = frame.rows.column("reward")
        reasons = pa.nulls(frame.rows.num_rows, pa.string())
        if self.least is not None:
            reasons = pc.if_else(pc.less(reward, self.least), "reward-too-low", reasons)
        if self.most is not None:
            reasons = pc.if_else(pc.greater(reward, self.most), "reward-too-high", reasons)
        unknown = pc.is_null(reward, nan_is_null=True)
        return StageResult.split(frame.rows, pc.if_else(unknown, UNKNOWN_REWARD, reasons))


@dataclass(frozen=True, slots=True)
class AboveTaskMean(NamedStage):
    """Keep runs whose reward is above the mean of the known rewards of their task.

    The mean is over the runs that this stage is given. A run on the mean is dropped, so a task
    whose runs all have one reward keeps none.
    """

    name: ClassVar[str] = "above-task-mean"

    margin: float = 0.0
    """How far above the mean a reward must be."""

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``not-above-task-mean`` and ``unknown-reward``."""
        rows = frame.rows
        known = rows.select(["task_id", "reward"])
        unknown = pc.is_null(rows.column("reward"), nan_is_null=True)
        means = known.filter(pc.invert(unknown)).group_by("task_id").aggregate([("reward", "mean")])
        place = pc.index_in(rows.column("task_id"), value_set=means.column("task_id"))
        mean = means.column("reward_mean").take(place)
        above = pc.greater(rows.column("reward"), pc.add(mean, self.margin))
        reasons = pc.if_else(above, pa.scalar(None, pa.string()), "not-above-task-mean")
        return StageResult.split(rows, pc.if_else(unknown, UNKNOWN_REWARD, reasons))


@dataclass(frozen=True, slots=True)
class Statuses(NamedStage):
    """Keep runs that ended in one of some ways."""

    name: ClassVar[str] = "status"

    keep: tuple[str, ...] = ("terminated",)
    """The statuses kept: terminated, truncated, error, running."""
    unknown: bool = False
    """Keep runs whose status is unknown too."""

    def __post_init__(self) -> None:
        """Check the statuses."""
        wrong = [s for s in self.keep if s not in STATUSES]
        if wrong or not self.keep:
            message = f"The stage 'status' keeps some of {', '.join(STATUSES)}, not {self.keep}."
            raise SelectionError(message)

    def apply(self, frame: Frame) -> StageResult:
        """Drop the other statuses under their own names, and ``unknown-status``."""
        status = frame.rows.column("status")
        kept = pc.is_in(status, value_set=pa.array(self.keep, pa.string()))
        none = pa.scalar(None, pa.string())
        reasons = pc.if_else(kept, none, status)
        missing = none if self.unknown else "unknown-status"
        return StageResult.split(frame.rows, pc.if_else(pc.is_null(status), missing, reasons))


STAGES = {s.name: s for s in (Success, RewardRange, AboveTaskMean, Statuses)}
"""Stages of this module by name."""
