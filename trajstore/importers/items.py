"""What importers hand out: trajectories, labels, memories, and the problems on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from trajstore.schema import Label, Reflection, Skill, Trajectory, Workflow


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that did not go in, with its place and the reason."""

    source: str
    """The file, as :attr:`Source.uri` names it."""
    reason: str
    """Why, in words that tell what to do about it."""
    line: int | None = None
    """Line number from 1, where there are lines."""
    record: str | None = None
    """Name or number of the record, where there is one."""
    kind: Literal["bad", "ignored", "conflicting"] = "bad"
    """``bad``: could not be read; ``ignored``: readable and on purpose not a trajectory;
    ``conflicting``: a run that is stored with another outcome."""

    def __str__(self) -> str:
        """Read as ``file:line: record: reason``."""
        line = f":{self.line}" if self.line is not None else ""
        record = f" record {self.record}:" if self.record is not None else ""
        return f"{self.source}{line}:{record} {self.reason}"


Item = Trajectory | Label | Skill | Reflection | Workflow | Problem
"""One thing that an importer hands out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What the user says about the files."""

    environment: str | None = None
    """Environment where the source names none."""
    agent: str | None = None
    """Agent where the source names none."""
    model: str | None = None
    """Model where the source names none."""
    success_threshold: float | None = None
    """Reward from which on a run counts as solved; each format's own rule where None."""
    mapping: Mapping[str, str] = field(default_factory=dict)
    """For tables: our field -> their column (dots reach into structs)."""
