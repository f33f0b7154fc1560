"""What became of every run, task and pair, so that an empty result is explained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from trajstore.pairs.relations import counts
from trajstore.pairs.runs import RUN_REASONS

TASK_REASONS: Mapping[str, str] = {
    "no-runs-left": "every run of the task was left out",
    "one-run": "the task has one run left, and a pair needs two",
    "no-contrast": "all runs of the task are worth the same",
    "no-winner": "no better run may be chosen: those that are better were cut off",
    "prompts-differ": "the runs that could be compared were given different prompts",
    "only-system-shared": "no shared prefix beyond the system message",
    "nothing-shared": "no shared prefix",
    "no-branch": "runs that share a prefix go on with the same action",
    "margin": "the difference is below the margin",
    "pairs-dropped": "every pair of the task was dropped",
}
"""Why a task gives no pair: the reason's name and what it means."""

PAIR_REASONS: Mapping[str, str] = {
    "contradiction": "by reward one run is better, by verdict the other",
    "identical-sides": "both sides are equal turn by turn",
    "same-actions": "both sides take the same actions",
    "empty-side": "one run is the beginning of the other, so one side would be empty",
    "no-shared-prompt": "the runs share no first step and no goal",
    "start-differs": "the runs did not start from the same observation",
    "chosen-over-cap": "the chosen side has more turns than the cap",
    "same-after-cap": "cut to the cap, both sides take the same actions",
    "side-too-large": "one side has more bytes than the budget",
    "length-unknown": "the length of one side is not known",
    "length-ratio": "the lengths of the sides differ by more than the ratio",
    "chosen-is-format-error": "the better action could not be parsed",
    "near-identical": "another pair of the task has the same actions on both sides",
    "task-cap": "its task has more pairs than the most that were asked for",
    "length-balance": "left out so that the longer side is chosen about as often as the shorter",
}
"""Why a pair that a policy proposed was dropped: the reason's name and what it means."""

REASONS: Mapping[str, str] = {**RUN_REASONS, **TASK_REASONS, **PAIR_REASONS}
"""All reasons."""

RUN_DROPS = pa.schema([(n, pa.string()) for n in ("task_id", "trajectory_id", "reason")])
"""One row a run that was left out."""

TASK_DROPS = pa.schema([("task_id", pa.string()), ("reason", pa.string()), ("runs", pa.int64())])
"""One row a task without a pair; ``runs`` are the judged runs that it had."""

PAIR_DROPS = pa.schema(
    [(n, pa.string()) for n in ("task_id", "chosen_id", "rejected_id", "reason")]
)
"""One row a pair that a policy proposed and that was dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairReport:
    """What a build of pairs did."""

    level: str
    """``trajectory`` or ``step``."""
    policy: str
    """The policy's name."""
    criterion: str
    """What the runs were judged by."""
    runs: int
    """Runs that were given."""
    tasks: int
    """Tasks that they belong to."""
    pairs: int
    """Pairs built."""
    tasks_paired: int
    """Tasks with at least one pair."""
    run_drops: pa.Table = field(default_factory=RUN_DROPS.empty_table)
    """Runs that were left out, in :data:`RUN_DROPS`."""
    task_drops: pa.Table = field(default_factory=TASK_DROPS.empty_table)
    """Tasks without a pair, in :data:`TASK_DROPS`; with ``tasks_paired`` they are all tasks."""
    pair_drops: pa.Table = field(default_factory=PAIR_DROPS.empty_table)
    """Proposed pairs that were dropped, in :data:`PAIR_DROPS`."""
    other_start: int = 0
    """Pairs whose runs did not start from the same observation."""
    other_policy: int = 0
    """Pairs whose runs differ in agent, model or policy version."""
    rejected_only: int = 0
    """Runs that were cut off, so that they may be rejected and not chosen."""
    p_chosen_longer: float | None = None
    """Share of the pairs whose chosen side is longer (the run by the option ``length``, a step by
    the bytes of the turn, without what came back), equal lengths count half; None without pairs.
    Far from one half, a model learns length instead of quality."""

    @property
    def runs_dropped(self) -> dict[str, int]:
        """Reason -> runs."""
        return counts(self.run_drops, "reason")

    @property
    def tasks_dropped(self) -> dict[str, int]:
        """Reason -> tasks without a pair."""
        return counts(self.task_drops, "reason")

    @property
    def pairs_dropped(self) -> dict[str, int]:
        """Reason -> proposed pairs."""
        return counts(self.pair_drops, "reason")

    def as_dict(self) -> dict[str, Any]:
        """The numbers as JSON-ready values."""
        return {
            "level": self.level,
            "policy": self.policy,
            "criterion": self.criterion,
            "runs": self.runs,
            "tasks": self.tasks,
            "pairs": self.pairs,
            "tasks_paired": self.tasks_paired,
            "runs_dropped": self.runs_dropped,
            "tasks_dropped": self.tasks_dropped,
            "pairs_dropped": self.pairs_dropped,
            "other_start": self.other_start,
            "other_policy": self.other_policy,
            "rejected_only": self.rejected_only,
            "p_chosen_longer": self.p_chosen_longer,
        }

    def explain(self) -> str:
        """The report in words: what was built, and why not more."""
        head = (
            f"{self.pairs:,} {self.level} pairs by {self.policy} on {self.criterion}, from "
            f"{self.tasks_paired:,} of {self.tasks:,} tasks and {self.runs:,} runs"
        )
        lines = [
            head,
            *_lines("runs left out", self.runs_dropped),
            *_lines("tasks without a pair", self.tasks_dropped),
            *_lines("pairs dropped", self.pairs_dropped),
        ]
        for count, words in (
            (self.rejected_only, "runs were cut off and may only be rejected"),
            (self.other_start, "pairs start from different observations"),
            (self.other_policy, "pairs compare runs of different agents, models or versions"),
        ):
            lines += [f"{count:,} {words}"] if count else []
        if self.p_chosen_longer is not None:
            lines.append(f"the chosen side is the longer one in {self.p_chosen_longer:.1%}")
        return "\n".join(lines)


def _lines(title: str, dropped: Mapping[str, int]) -> list[str]:
    if not dropped:
        return []
    total = f"{title}: {sum(dropped.values()):,}"
    return [total, *(f"  {n:,}  {reason}: {REASONS[reason]}" for reason, n in dropped.items())]
