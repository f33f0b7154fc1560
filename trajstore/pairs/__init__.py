"""Pairs, groups and credit: which run, or which step, was better than which, and by how much.

Every function is one of Arrow tables: summaries as the view ``trajectories`` has them, steps in
``STEP_SCHEMA`` (or the runs themselves), labels in ``LABEL_SCHEMA``. What comes out has a schema of
:mod:`.schema` and a report of everything that was left out.
"""

from __future__ import annotations

from trajstore.pairs.credit import (
    EVALUATOR,
    Credit,
    RewardSource,
    discounted_returns,
    group_credit,
    labels_of,
    turn_rewards,
)
from trajstore.pairs.group_report import GroupReport
from trajstore.pairs.groups import (
    DEFAULT_GROUP_OPTIONS,
    EPS,
    GroupOptions,
    StdConvention,
    Variant,
    group_advantages,
)
from trajstore.pairs.policies import POLICIES, TIE, Policy
from trajstore.pairs.prefixes import Prefix
from trajstore.pairs.report import (
    PAIR_DROPS,
    PAIR_REASONS,
    REASONS,
    RUN_DROPS,
    TASK_DROPS,
    TASK_REASONS,
    PairReport,
)
from trajstore.pairs.runs import (
    REFUSAL,
    RUN_COLUMNS,
    RUN_REASONS,
    SAFE,
    Cost,
    RunRules,
    Runs,
    Truncated,
    judged_runs,
)
from trajstore.pairs.schema import (
    CREDIT_SCHEMA,
    CREDITS,
    GROUP_SCHEMA,
    GROUPS,
    PAIR_SCHEMA,
    PAIRS,
    TURN_SCHEMA,
    TURNS,
)
from trajstore.pairs.state_credit import (
    DEFAULT_STATE_OPTIONS,
    GIGPO_OPTIONS,
    StateOptions,
    pivots,
    rtmc_advantages,
    turn_advantages,
)
from trajstore.pairs.step_level import (
    DEFAULT_STEP_OPTIONS,
    StepPairOptions,
    blended_values,
    label_values,
    step_pairs,
)
from trajstore.pairs.subgoals import NAMED_SUBGOAL, SUBGOAL, subgoal_credit, subgoal_marks
from trajstore.pairs.trajectory_level import (
    DEFAULT_OPTIONS,
    TrajectoryPairOptions,
    trajectory_pairs,
)
from trajstore.pairs.turns import (
    Steps,
    TurnSource,
    digests_query,
    step_rewards_query,
    turn_keys,
    turn_source,
    turns_query,
)

__all__ = [
    "CREDITS",
    "CREDIT_SCHEMA",
    "DEFAULT_GROUP_OPTIONS",
    "DEFAULT_OPTIONS",
    "DEFAULT_STATE_OPTIONS",
    "DEFAULT_STEP_OPTIONS",
    "EPS",
    "EVALUATOR",
    "GIGPO_OPTIONS",
    "GROUPS",
    "GROUP_SCHEMA",
    "NAMED_SUBGOAL",
    "PAIRS",
    "PAIR_DROPS",
    "PAIR_REASONS",
    "PAIR_SCHEMA",
    "POLICIES",
    "REASONS",
    "REFUSAL",
    "RUN_COLUMNS",
    "RUN_DROPS",
    "RUN_REASONS",
    "SAFE",
    "SUBGOAL",
    "TASK_DROPS",
    "TASK_REASONS",
    "TIE",
    "TURNS",
    "TURN_SCHEMA",
    "Cost",
    "Credit",
    "GroupOptions",
    "GroupReport",
    "PairReport",
    "Policy",
    "Prefix",
    "RewardSource",
    "RunRules",
    "Runs",
    "StateOptions",
    "StdConvention",
    "StepPairOptions",
    "Steps",
    "TrajectoryPairOptions",
    "Truncated",
    "TurnSource",
    "Variant",
    "blended_values",
    "digests_query",
    "discounted_returns",
    "group_advantages",
    "group_credit",
    "judged_runs",
    "label_values",
    "labels_of",
    "pivots",
    "rtmc_advantages",
    "step_pairs",
    "step_rewards_query",
    "subgoal_credit",
    "subgoal_marks",
    "trajectory_pairs",
    "turn_advantages",
    "turn_keys",
    "turn_rewards",
    "turn_source",
    "turns_query",
]
