"""What became of every run on its way into groups, and what looks wrong with the groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from trajstore.pairs.relations import counts
from trajstore.pairs.report import RUN_DROPS
from trajstore.pairs.runs import RUN_REASONS


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReport:
    """What a build of groups did."""

    variant: str
    """How advantages were made."""
    criterion: str
    """What the runs were judged by."""
    runs: int
    """Runs that were given."""
    runs_grouped: int
    """Runs in the groups."""
    groups: int
    """Groups built."""
    sizes: dict[int, int]
    """Size -> groups of that size."""
    zero_variance: dict[str, int]
    """Why a group gives no signal -> groups, among those built."""
    same_verdict: int
    """Groups built of which every run passed or every run failed, whatever the rewards."""
    groups_dropped: int
    """Groups left out for ``no_signal``."""
    run_drops: pa.Table = field(default_factory=RUN_DROPS.empty_table)
    """Runs that were left out, in :data:`trajstore.pairs.RUN_DROPS`."""

    @property
    def runs_dropped(self) -> dict[str, int]:
        """Reason -> runs."""
        return counts(self.run_drops, "reason")

    @property
    def warnings(self) -> tuple[str, ...]:
        """What looks wrong with the groups as a whole."""
        found = []
        alone = self.sizes.get(1, 0)
        if alone * 2 > self.groups:
            found.append(
                f"{alone:,} of {self.groups:,} groups hold a single run, whose advantage is 0: "
                "check that attempts at one task share its task_id"
            )
        dead = sum(self.zero_variance.values())
        if self.groups and dead == self.groups:
            found.append("no group has any signal: every advantage is 0")
        return tuple(found)

    def as_dict(self) -> dict[str, Any]:
        """The numbers as JSON-ready values."""
        return {
            "variant": self.variant,
            "criterion": self.criterion,
            "runs": self.runs,
            "runs_grouped": self.runs_grouped,
            "groups": self.groups,
            "sizes": {str(size): n for size, n in self.sizes.items()},
            "zero_variance": self.zero_variance,
            "same_verdict": self.same_verdict,
            "groups_dropped": self.groups_dropped,
            "runs_dropped": self.runs_dropped,
            "warnings": list(self.warnings),
        }

    def explain(self) -> str:
        """The report in words."""
        dead = sum(self.zero_variance.values())
        why = ", ".join(f"{n:,} {reason}" for reason, n in self.zero_variance.items())
        sizes = ", ".join(f"{n:,} of {size:,}" for size, n in self.sizes.items())
        lines = [
            (
                f"{self.groups:,} groups by {self.variant} on {self.criterion}, "
                f"with {self.runs_grouped:,} of {self.runs:,} runs"
            ),
            f"sizes: {sizes or 'none'}",
            f"no signal: {dead:,} of {self.groups:,} groups" + (f" ({why})" if why else ""),
        ]
        if self.groups_dropped:
            lines.append(f"groups left out for that: {self.groups_dropped:,}")
        lines += [f"  {n:,} runs: {r}: {RUN_REASONS[r]}" for r, n in self.runs_dropped.items()]
        return "\n".join([*lines, *(f"warning: {w}" for w in self.warnings)])
