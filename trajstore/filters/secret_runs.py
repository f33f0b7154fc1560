"""The stage that drops runs which still hold secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.filters.redaction import redact_trajectory
from trajstore.filters.selection import Frame, NamedStage, StageResult

_IDS_A_READ = 256


@dataclass(frozen=True, slots=True)
class Secrets(NamedStage):
    """Keep runs without API keys, tokens, private keys and other known kinds of secrets.

    An import replaces secrets unless told not to, so this finds what came in otherwise. Every text
    of a run is read: put cheaper stages first.
    """

    name: ClassVar[str] = "secrets"

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``secret``; the detail counts the secrets of each kind, and never shows one."""
        ids = frame.rows.column("trajectory_id")
        found: dict[str, str] = {}
        for start in range(0, len(ids), _IDS_A_READ):
            block = [str(i) for i in ids.slice(start, _IDS_A_READ)]
            for run in frame.steps.trajectories(block):
                _, counts = redact_trajectory(run)
                if counts:
                    kinds = (f"{kind} {n}" for kind, n in sorted(counts.items()))
                    found[run.trajectory_id] = ", ".join(kinds)
        place = pc.index_in(ids, value_set=pa.array(list(found), pa.string()))
        reasons = pc.if_else(pc.is_null(place), pa.scalar(None, pa.string()), "secret")
        details = pa.array(list(found.values()), pa.string()).take(place)
        return StageResult.split(frame.rows, reasons, details)


STAGES = {Secrets.name: Secrets}
"""Stages of this module by name."""
