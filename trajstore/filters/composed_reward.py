"""A stage that gives each run of a selection a reward composition as its score."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.rewards import read_input, reward_named, step_totals
from trajstore.filters.selection import Frame, NamedStage, StageResult


@dataclass(frozen=True, slots=True)
class ComposedReward(NamedStage):
    """Add the value of a reward as a column; a run without one is dropped.

    A reward of steps counts as the sum over the run, 0 where no rule fired.
    """

    name: ClassVar[str] = "compose-reward"

    reward: str
    """A key of :data:`trajstore.filters.rewards.REWARDS`."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Parameters of the reward; its defaults for the others."""
    column: str = "score"
    """Name of the column to add."""
    least: float | None = None
    """Drop runs with a lower value; None to keep them."""

    def __post_init__(self) -> None:
        """Check the reward and its parameters."""
        reward_named(self.reward).filled(self.settings)

    def apply(self, frame: Frame) -> StageResult:
        """Drop what has no value (``unknown-reward``) or a low one (``low-reward``)."""
        if self.column in frame.rows.column_names:
            message = f"The rows have a column '{self.column}' already; name another with `column`."
            raise SelectionError(message)
        values = self._values(frame)
        rows = frame.rows.append_column(self.column, values)
        reasons = pc.if_else(pc.is_null(values), "unknown-reward", pa.scalar(None, pa.string()))
        if self.least is not None:
            reasons = pc.coalesce(
                reasons,
                pc.if_else(pc.less(values, self.least), "low-reward", pa.scalar(None, pa.string())),
            )
        return StageResult.split(rows, reasons)

    def _values(self, frame: Frame) -> pa.ChunkedArray:
        reward = reward_named(self.reward)
        ids = frame.rows.column("trajectory_id").combine_chunks()
        if not len(ids):
            return pa.chunked_array([], pa.float64())
        ends = pc.min_max(ids)
        low, high = (str(ends[end]).replace("'", "''") for end in ("min", "max"))
        inputs = {}
        for name in {"rows", *reward.inputs}:
            table = read_input(frame.steps.sql, name, f"trajectory_id BETWEEN '{low}' AND '{high}'")
            inputs[name] = table.filter(pc.is_in(table.column("trajectory_id"), value_set=ids))
        result = reward(inputs, **self.settings)
        if reward.level == "step":
            result = step_totals(inputs["rows"], result)
        found = pc.index_in(ids, value_set=result.column("trajectory_id").combine_chunks())
        return result.column("value").take(found)


STAGES = {ComposedReward.name: ComposedReward}
"""Stages of this module by name."""
