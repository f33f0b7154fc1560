"""Bounds on how long, how costly and how large a run is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.selection import Frame, NamedStage, StageResult


@dataclass(frozen=True, slots=True)
class Bounds(NamedStage):
    """Keep runs whose number lies between two bounds, both ends included.

    A run whose number is unknown is dropped as ``unknown-...``: it cannot be shown to fit.
    """

    column: ClassVar[str]
    """The summary column; ``tokens`` is the sum of two."""
    too_few: ClassVar[str]
    """Reason for a number below ``least``."""
    too_many: ClassVar[str]
    """Reason for a number above ``most``."""

    least: int | float | None = None
    """Smallest number kept; None for no bound."""
    most: int | float | None = None
    """Largest number kept; None for no bound."""

    def __post_init__(self) -> None:
        """Check the bounds."""
        if self.least is None and self.most is None:
            message = f"The stage '{self.name}' needs a bound: least, most or both."
            raise SelectionError(message)
        if self.least is not None and self.most is not None and self.least > self.most:
            message = (
                f"The stage '{self.name}' keeps nothing: least {self.least} is above most "
                f"{self.most}."
            )
            raise SelectionError(message)

    def apply(self, frame: Frame) -> StageResult:
        """Drop what is outside."""
        numbers = self._numbers(frame.rows)
        reasons = pa.nulls(frame.rows.num_rows, pa.string())
        if self.least is not None:
            reasons = pc.if_else(pc.less(numbers, self.least), self.too_few, reasons)
        if self.most is not None:
            reasons = pc.if_else(pc.greater(numbers, self.most), self.too_many, reasons)
        reasons = pc.if_else(pc.is_null(numbers), f"unknown-{self.name}", reasons)
        return StageResult.split(frame.rows, reasons)

    def _numbers(self, rows: pa.Table) -> pa.ChunkedArray:
        return rows.column(self.column)


@dataclass(frozen=True, slots=True)
class Steps(Bounds):
    """Bounds on the number of steps, by whomever."""

    name: ClassVar[str] = "steps"
    column: ClassVar[str] = "n_steps"
    too_few: ClassVar[str] = "too-few-steps"
    too_many: ClassVar[str] = "too-many-steps"


@dataclass(frozen=True, slots=True)
class AgentSteps(Bounds):
    """Bounds on the number of the agent's own steps."""

    name: ClassVar[str] = "agent-steps"
    column: ClassVar[str] = "n_agent_steps"
    too_few: ClassVar[str] = "too-few-agent-steps"
    too_many: ClassVar[str] = "too-many-agent-steps"


@dataclass(frozen=True, slots=True)
class ToolCalls(Bounds):
    """Bounds on the number of tool calls."""

    name: ClassVar[str] = "tool-calls"
    column: ClassVar[str] = "n_tool_calls"
    too_few: ClassVar[str] = "too-few-tool-calls"
    too_many: ClassVar[str] = "too-many-tool-calls"


@dataclass(frozen=True, slots=True)
class Tokens(Bounds):
    """Bounds on tokens read and written together; unknown where either is."""

    name: ClassVar[str] = "tokens"
    column: ClassVar[str] = "prompt_tokens + completion_tokens"
    too_few: ClassVar[str] = "too-few-tokens"
    too_many: ClassVar[str] = "too-many-tokens"

    def _numbers(self, rows: pa.Table) -> pa.ChunkedArray:
        return pc.add(rows.column("prompt_tokens"), rows.column("completion_tokens"))


@dataclass(frozen=True, slots=True)
class CompletionTokens(Bounds):
    """Bounds on the tokens that the model wrote."""

    name: ClassVar[str] = "completion-tokens"
    column: ClassVar[str] = "completion_tokens"
    too_few: ClassVar[str] = "too-few-completion-tokens"
    too_many: ClassVar[str] = "too-many-completion-tokens"


@dataclass(frozen=True, slots=True)
class Seconds(Bounds):
    """Bounds on the wall time in seconds."""

    name: ClassVar[str] = "seconds"
    column: ClassVar[str] = "duration_s"
    too_few: ClassVar[str] = "too-fast"
    too_many: ClassVar[str] = "too-slow"


@dataclass(frozen=True, slots=True)
class Cost(Bounds):
    """Bounds on the cost in US dollars."""

    name: ClassVar[str] = "cost"
    column: ClassVar[str] = "cost_usd"
    too_few: ClassVar[str] = "too-cheap"
    too_many: ClassVar[str] = "too-costly"


@dataclass(frozen=True, slots=True)
class Size(Bounds):
    """Bounds on the UTF-8 bytes of text, reasoning, arguments and observations."""

    name: ClassVar[str] = "size"
    column: ClassVar[str] = "size_bytes"
    too_few: ClassVar[str] = "too-small"
    too_many: ClassVar[str] = "too-large"


STAGES = {
    s.name: s for s in (Steps, AgentSteps, ToolCalls, Tokens, CompletionTokens, Seconds, Cost, Size)
}
"""Stages of this module by name."""
