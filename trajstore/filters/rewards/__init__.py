"""Rewards: the published compositions as named, pure functions over Arrow tables.

Each reads some of the tables of :data:`INPUTS` and gives one row a run (``trajectory_id``,
``value`` and its terms) or one row a fired rule (``trajectory_id``, ``step_index``, ``name``,
``value``, ``rationale``). :func:`trajstore.pipeline.write_rewards` keeps the results as labels.
"""

from __future__ import annotations

from trajstore.filters.rewards.calls import judged_calls, process_counts
from trajstore.filters.rewards.checks import Spread, outranked, reward_spread, success_margin
from trajstore.filters.rewards.inputs import INPUTS, read_input
from trajstore.filters.rewards.quality import judge_score, spl, three_dimensions
from trajstore.filters.rewards.registry import REWARDS, Reward, reward_named
from trajstore.filters.rewards.retrieval import used_retrievals
from trajstore.filters.rewards.runs import (
    efficiency,
    react,
    react_any_error,
    rlef,
    search,
    sql,
    turn_budget,
)
from trajstore.filters.rewards.sub_goals import first_failed_sub_goals, sub_goals
from trajstore.filters.rewards.terms import PASS_THRESHOLD, passed, task_reward
from trajstore.filters.rewards.tool_agent import dense_tool_agent
from trajstore.filters.rewards.totals import place_on_steps, step_totals

__all__ = [
    "INPUTS",
    "PASS_THRESHOLD",
    "REWARDS",
    "Reward",
    "Spread",
    "dense_tool_agent",
    "efficiency",
    "first_failed_sub_goals",
    "judge_score",
    "judged_calls",
    "outranked",
    "passed",
    "place_on_steps",
    "process_counts",
    "react",
    "react_any_error",
    "read_input",
    "reward_named",
    "reward_spread",
    "rlef",
    "search",
    "spl",
    "sql",
    "step_totals",
    "sub_goals",
    "success_margin",
    "task_reward",
    "three_dimensions",
    "turn_budget",
    "used_retrievals",
]
