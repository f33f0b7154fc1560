"""Do rewards order runs as they should, and do they tell attempts apart?"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.filters.relations import relation
from trajstore.filters.rewards.terms import PASS_THRESHOLD, passed, task_reward


def success_margin(
    rows: pa.Table, *, pass_threshold: float | None = PASS_THRESHOLD
) -> float | None:
    """The smallest task reward of a success minus the largest of a failure.

    Penalties that stay below it in every run keep each success above each failure. With the default
    rewards 1 and 0 it is 1.

    Returns:
        None where there is no success or no failure.
    """
    good = passed(rows, pass_threshold)
    reward = task_reward(rows)
    least = pc.min(reward.filter(good)).as_py()
    most = pc.max(reward.filter(pc.invert(good))).as_py()
    return None if least is None or most is None else float(least - most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How the rewards of the attempts at one task differ, over all tasks with two or more."""

    groups: int = 0
    """Tasks with at least two attempts that have a reward."""
    all_pass: int = 0
    """Those whose attempts all have the same reward and all passed."""
    all_fail: int = 0
    """Those whose attempts all have the same reward and none passed."""
    all_equal: int = 0
    """The others whose attempts all have the same reward."""

    @property
    def zero_variance(self) -> int:
        """Tasks that give no signal to compare attempts by."""
        return self.all_pass + self.all_fail + self.all_equal


def _joined(rows: pa.Table, rewarded: pa.Table, pass_threshold: float | None) -> pa.Table:
    return pa.table(
        {
            "task_id": rows.column("task_id"),
            "value": rewarded.column("value"),
            "passed": passed(rows, pass_threshold),
        }
    )


def reward_spread(
    rows: pa.Table, rewarded: pa.Table, *, pass_threshold: float | None = PASS_THRESHOLD
) -> Spread:
    """Count the tasks whose attempts all have the same reward: they give no signal.

    Args:
        rows: one row a run.
        rewarded: what a reward of whole runs gave for these rows, in their order.
        pass_threshold: see :func:`trajstore.filters.rewards.passed`.
    """
    query = """
        SELECT count(*) AS groups,
            count(*) FILTER (flat AND all_passed) AS all_pass,
            count(*) FILTER (flat AND none_passed) AS all_fail,
            count(*) FILTER (flat) AS flat
        FROM (SELECT task_id, max(value) - min(value) <= 1e-12 AS flat,
                  bool_and(passed) IS TRUE AS all_passed, bool_or(passed) IS FALSE AS none_passed
              FROM runs WHERE value IS NOT NULL GROUP BY task_id HAVING count(*) > 1)"""
    found = relation(query, tables={"runs": _joined(rows, rewarded, pass_threshold)})
    groups, all_pass, all_fail, flat = (column[0].as_py() for column in found.columns)
    return Spread(
        groups=groups,
        all_pass=all_pass,
        all_fail=all_fail,
        all_equal=flat - all_pass - all_fail,
    )


def outranked(
    rows: pa.Table, rewarded: pa.Table, *, pass_threshold: float | None = PASS_THRESHOLD
) -> pa.Table:
    """Tasks in which a failure has at least the reward of a success.

    Args:
        rows: one row a run.
        rewarded: what a reward of whole runs gave for these rows, in their order.
        pass_threshold: see :func:`trajstore.filters.rewards.passed`.

    Returns:
        ``task_id``, ``lowest_success``, ``highest_failure``, ordered by task; no row is good news.
    """
    query = """
        SELECT task_id, min(value) FILTER (passed) AS lowest_success,
            max(value) FILTER (NOT passed) AS highest_failure
        FROM runs GROUP BY task_id HAVING highest_failure >= lowest_success ORDER BY task_id"""
    return relation(query, tables={"runs": _joined(rows, rewarded, pass_threshold)})
