"""The stage that trains on clean successes: GRPO-RoC, resampling on correct.

rStar2-Agent (Shang et al. 2025, arXiv 2508.20722): sample a larger group than is trained on, then
keep failures as they come, because their variety teaches, and of the successes the clean ones. A
success that stumbled over failed calls and broken formats earns the same reward as a clean one, so
without that it teaches stumbling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.draws import DIGEST
from trajstore.filters.outcome import UNKNOWN_OUTCOME
from trajstore.filters.profiles import PASS_THRESHOLD, Passed, check_threshold, passed_sql
from trajstore.filters.relations import numbered, relation
from trajstore.filters.row_columns import with_column
from trajstore.filters.selection import Frame, NamedStage, StageResult

_COLUMNS = (
    "trajectory_id",
    "task_id",
    "success",
    "reward",
    "n_agent_steps",
    "n_tool_calls",
    "n_tool_errors",
    "n_format_errors",
)

PENALTY = """
    CASE WHEN n_tool_calls = 0 THEN 0.5 ELSE least(n_tool_errors / n_tool_calls, 1.0) END
    + least(n_format_errors / greatest(n_agent_steps, 1), 1.0)"""
"""SQL for how unclean a run is, 0 to 2: failed calls over calls (one half without calls, as in the
released code), and format errors over the agent's steps."""


@dataclass(frozen=True, slots=True)
class ResampleOnCorrect(NamedStage):
    """Bring each task down to ``n`` runs: failures at random, successes the cleanest first.

    Both sides shrink in proportion. Adds ``penalty`` (double, see :data:`PENALTY`).
    """

    name: ClassVar[str] = "resample-on-correct"

    n: int
    """Runs to keep of each task: the group size, about half of what was sampled."""
    least: int = 1
    """Keep at least so many runs of either side, where there are as many."""
    short: Literal["keep", "drop"] = "keep"
    """What becomes of a task with fewer than ``n`` runs; the released code drops it."""
    passed: Passed = "success"
    """What a success is."""
    pass_threshold: float = PASS_THRESHOLD
    """Smallest reward of a success, where ``passed`` is ``reward``."""
    seed: int = 0
    """Another seed keeps other failures, and other ones of equally clean successes."""

    def __post_init__(self) -> None:
        """Check the sizes."""
        check_threshold(self.pass_threshold)
        if self.least < 0 or self.n < max(1, 2 * self.least):
            message = (
                f"The stage '{self.name}' needs n of 1 or more and twice 'least' at least, not "
                f"n={self.n}, least={self.least}."
            )
            raise SelectionError(message)

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``less-clean``, ``failure-not-sampled``, ``short-group`` and ``unknown-outcome``."""
        drop_short = "true" if self.short == "drop" else "false"
        query = f"""
            WITH judged AS (SELECT *, {passed_sql(self.passed, self.pass_threshold)} AS passed,
                    {PENALTY} AS penalty, {DIGEST} AS digest FROM runs),
            sided AS (SELECT *,
                    count(*) FILTER (passed) OVER task AS good,
                    count(*) FILTER (NOT passed) OVER task AS bad,
                    row_number() OVER (PARTITION BY task_id, passed ORDER BY
                        CASE WHEN passed THEN penalty END, digest, trajectory_id) AS number
                FROM judged WINDOW task AS (PARTITION BY task_id)),
            shared AS (SELECT *, bad * $n / (good + bad) AS share FROM sided),
            rounded AS (SELECT *, greatest(least($least, bad), least($n - least($least, good),
                    CASE WHEN share - floor(share) = 0.5 AND good >= bad THEN floor(share)
                        ELSE round(share) END)) AS keep_bad FROM shared)
            SELECT penalty, CASE
                    WHEN passed IS NULL THEN '{UNKNOWN_OUTCOME}'
                    WHEN good + bad < $n AND {drop_short} THEN 'short-group'
                    WHEN good + bad <= $n THEN NULL
                    WHEN passed AND number > $n - keep_bad THEN 'less-clean'
                    WHEN NOT passed AND number > keep_bad THEN 'failure-not-sampled' END AS reason
            FROM rounded ORDER BY place"""
        found = relation(
            query,
            tables={"runs": numbered(frame.rows, *_COLUMNS)},
            n=self.n,
            least=self.least,
            seed=self.seed,
        )
        reasons, penalty = found.column("reason"), found.column("penalty")
        rows = with_column(frame.rows, "penalty", penalty.cast(pa.float64()))
        details = pc.binary_join_element_wise(
            "penalty", pc.cast(pc.round(penalty.cast(pa.float64()), 4), pa.string()), " "
        )
        return StageResult.split(rows, reasons, details)


STAGES = {ResampleOnCorrect.name: ResampleOnCorrect}
"""Stages of this module by name."""
