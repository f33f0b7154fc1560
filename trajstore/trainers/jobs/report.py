"""What a job tells: of its progress, and of what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Progress = Callable[[str, int, int, Mapping[str, float]], None]
"""Told what is being done, how much of it of how much, and the newest numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """What came of a job."""

    kind: str
    """Of job."""
    output: Path
    """Its folder."""
    snapshot: int
    """What examples were read from."""
    model: Path | None
    """Folder of the model that came out last."""
    results: Mapping[str, Any] = field(default_factory=dict)
    """Numbers of the kind of job."""
