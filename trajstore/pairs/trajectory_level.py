"""Pairs of whole runs: two attempts at one task under one prompt, the better against the worse."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, get_args

import pyarrow as pa

from trajstore.errors import PairError
from trajstore.pairs.finishing import Build, finished
from trajstore.pairs.policies import TIE, Policy, better, proposals_query
from trajstore.pairs.prefixes import Prefix, follow, turn_columns
from trajstore.pairs.relations import Relations, literal
from trajstore.pairs.report import PairReport
from trajstore.pairs.runs import Cost, RunRules, judged_runs
from trajstore.pairs.turns import Steps, turn_source
from trajstore.schema import canonical_json


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryPairOptions:
    """How whole runs are paired."""

    policy: Policy = "best_worst"
    """Which runs become a pair; see :data:`trajstore.pairs.POLICIES`."""
    margin: float = 0.0
    """Least difference of the values; equal values never pair, whatever the margin."""
    k: int = 2
    """How many best and worst runs ``topk_bottomk`` takes of a prompt."""
    efficiency_tiebreak: bool = False
    """Also pair two successes of equal value, the cheaper one chosen."""
    cost: Cost = "n_tool_calls"
    """What makes one of two equal runs the cheaper one."""
    length: Cost = "n_agent_steps"
    """What counts as length of a run for the length controls and the report."""
    length_ratio: float | None = None
    """Keep pairs whose lengths differ at most by this factor, such as 1.5."""
    length_balance: float | None = None
    """Drop pairs at random until the longer run is chosen in one half of them, give or take this
    much, such as 0.05."""
    max_pairs: int | None = None
    """Most pairs of a task, drawn at random."""
    seed: int = 0
    """Seed of those draws."""
    max_turns: int | None = None
    """Most agent turns of a side: a longer rejected side is cut after one, a pair with a longer
    chosen side is dropped."""
    rejected_extra_turns: int | None = None
    """Cut the rejected side to the turns of the chosen one and this many more (5 in ETO)."""
    max_side_bytes: int | None = None
    """Drop a pair of which a side holds more UTF-8 bytes than this."""
    same_start: bool = False
    """Only pair runs that started from the same observation."""
    prefix: Prefix = "exact"
    """When two prompts are equal."""
    runs: RunRules = field(default_factory=RunRules)
    """What a run must be, and how it is judged."""

    def parameters(self) -> dict[str, Any]:
        """JSON-ready values that are set."""
        values = {**asdict(self), "runs": self.runs.parameters()}
        return {k: v for k, v in values.items() if v is not None and k != "policy"}

    def check(self) -> None:
        """Check the values.

        Raises:
            PairError: one is out of its range.
        """
        known: tuple[str, ...] = get_args(Policy)
        if self.policy not in known:
            message = f"There is no policy {self.policy!r}; known are: {', '.join(known)}"
            raise PairError(message)
        for name in ("cost", "length"):
            if getattr(self, name) not in get_args(Cost):
                message = f"{name} is {getattr(self, name)!r}; known are: {get_args(Cost)}"
                raise PairError(message)
        for name, least in (("margin", 0), ("k", 1), ("length_ratio", 1), ("length_balance", 0)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise PairError(f"{name} is {value}; it must be at least {least}")
        for name in ("max_turns", "max_side_bytes", "max_pairs", "rejected_extra_turns"):
            value = getattr(self, name)
            if value is not None and value < (0 if name == "rejected_extra_turns" else 1):
                raise PairError(f"{name} is {value}; it must be positive")


DEFAULT_OPTIONS = TrajectoryPairOptions()
"""The best run of a task against the worst."""


def trajectory_pairs(
    rows: pa.Table,
    steps: Steps,
    *,
    options: TrajectoryPairOptions = DEFAULT_OPTIONS,
    labels: pa.Table | None = None,
) -> tuple[pa.Table, PairReport]:
    """Pair whole runs of one task that were given one prompt.

    The prompt of a pair is the longest common prefix of the two runs in whole steps, and the tools;
    where a simulated user opens every attempt differently, it is the system message and the tools.
    Runs of unknown worth enter no pair, and no pair has equal sides.

    Args:
        rows: one row a trajectory of the ``trajectories`` view.
        steps: rows of ``STEP_SCHEMA``, or the runs themselves.
        options: how to pair.
        labels: rows of ``LABEL_SCHEMA``, for a criterion that is a label.

    Returns:
        Rows of ``PAIR_SCHEMA``, and what became of every run, task and proposed pair.

    Raises:
        PairError: options that cannot be followed.
    """
    options.check()
    source = turn_source(steps)
    runs = judged_runs(rows, options.runs, labels=labels)
    with Relations(all_judged=runs.kept) as made:
        made.make("judged", _CONTRASTING.format(tie=options.efficiency_tiebreak, same=TIE))
        ids = made.rows("SELECT trajectory_id FROM judged").column(0)
        of_turns = _OF_TURNS | ({"seen"} if options.policy == "hard_negatives" else set())
        made.put("turns", source.turns(ids, turn_columns(options.prefix, sorted(of_turns))))
        follow(made, options.prefix, columns=sorted(of_turns))
        made.make("candidates", _CANDIDATES.format(cost=options.cost, length=options.length))
        is_better = better(options.margin, efficiency_tiebreak=options.efficiency_tiebreak)
        made.make("proposals", proposals_query(options.policy, is_better=is_better, k=options.k))
        made.make("lists", _LISTS)
        made.make("met", _MET)
        made.make("found", _found_query(options))
        build = Build(
            level="trajectory",
            policy=options.policy,
            parameters=canonical_json(options.parameters()),
            rules=options.runs,
            max_pairs=options.max_pairs,
            length_balance=options.length_balance,
            seed=options.seed,
        )
        made.make("task_reasons", _TASK_REASONS.format(tie=options.efficiency_tiebreak, same=TIE))
        return finished(made, build, source=source, rows=rows, dropped=runs.dropped)


_OF_TURNS = frozenset({"turn", "action", "n_bytes", "digest"})

_CONTRASTING = """
    SELECT * FROM all_judged WHERE task_id IN (
        SELECT task_id FROM all_judged GROUP BY task_id
        HAVING count(*) > 1 AND (max(value) - min(value) > {same} OR {tie}))"""

_CANDIDATES = """
    SELECT *, {length}::DOUBLE AS length, coalesce({cost}::DOUBLE, 'inf'::DOUBLE) AS cost
    FROM started"""

_LISTS = """
    SELECT run, list(action ORDER BY step_index) FILTER (own) AS actions,
        list(step_index ORDER BY step_index) FILTER (own) AS places,
        list(n_bytes ORDER BY step_index) AS sizes
    FROM path
    WHERE run IN (SELECT chosen FROM proposals UNION ALL SELECT rejected FROM proposals)
    GROUP BY run"""

_MET = """
    SELECT chosen, rejected,
        coalesce(min(a.step_index) FILTER (a.code <> b.code), count(b.step_index))::INT AS n_prompt
    FROM proposals LEFT JOIN path a ON a.run = chosen
    LEFT JOIN path b ON b.run = rejected AND b.step_index = a.step_index
    GROUP BY chosen, rejected"""

_SIDES = """
    SELECT *, least({max_turns}, chosen_turns + {extra}, rejected_turns) AS kept,
        CASE WHEN kept < rejected_turns THEN r_places[shared + kept] END AS rejected_step
    FROM (SELECT m.*, c AS c, r AS r, x.actions AS c_actions, y.actions AS r_actions,
            x.sizes AS c_sizes, y.sizes AS r_sizes, y.places AS r_places,
            len(list_filter(x.places, lambda place: place < n_prompt)) AS shared,
            c.turns - shared AS chosen_turns, r.turns - shared AS rejected_turns,
            c.start_exact = r.start_exact AND c.first_own = r.first_own AS same_start,
            c.said_goal IS NOT NULL AND c.said_goal = r.said_goal AS has_goal
        FROM met m JOIN candidates c ON c.run = chosen JOIN candidates r ON r.run = rejected
        JOIN lists x ON x.run = chosen JOIN lists y ON y.run = rejected)"""

_FOUND = """
    SELECT chosen, rejected, NULL::INT AS chosen_step, rejected_step,
        n_prompt AS n_prompt_steps, c.value AS chosen_reward, r.value AS rejected_reward,
        same_start, c.length AS chosen_length, r.length AS rejected_length,
        hash(c.prompt_key, c_actions, r_actions[:shared + kept]) AS likeness,
        CASE
            WHEN {by_reward} AND NOT c.success AND r.success THEN 'contradiction'
            WHEN n_prompt >= c.ends AND n_prompt >= r.ends THEN 'identical-sides'
            WHEN n_prompt >= c.ends OR n_prompt >= r.ends THEN 'empty-side'
            WHEN c_actions = r_actions THEN 'same-actions'
            WHEN n_prompt = 0 AND NOT has_goal THEN 'no-shared-prompt'
            WHEN {same_start} AND NOT same_start THEN 'start-differs'
            WHEN chosen_turns > {max_turns} THEN 'chosen-over-cap'
            WHEN c_actions = r_actions[:shared + kept] THEN 'same-after-cap'
            WHEN list_sum(c_sizes[n_prompt + 1:c.ends]) > {max_bytes}
                OR list_sum(r_sizes[n_prompt + 1:coalesce(rejected_step + 1, r.ends)])
                    > {max_bytes} THEN 'side-too-large'
            WHEN {ratio} IS NULL THEN NULL
            WHEN c.length IS NULL OR r.length IS NULL THEN 'length-unknown'
            WHEN c.length > {ratio} * r.length + 1e-9
                OR r.length > {ratio} * c.length + 1e-9 THEN 'length-ratio'
        END AS reason
    FROM ({sides})"""

_TASK_REASONS = """
    WITH prompts AS (
        SELECT task_id, max(value) FILTER (can_win) - min(value) AS gap,
            max(value) - min(value) AS whole_gap
        FROM started GROUP BY task_id, prompt_key)
    SELECT task_id, n AS runs, CASE
            WHEN n = 1 THEN 'one-run'
            WHEN spread <= {same} AND NOT {tie} THEN 'no-contrast'
            WHEN coalesce(max(gap), 0) > {same} THEN 'margin'
            WHEN coalesce(max(whole_gap), 0) > {same} THEN 'no-winner'
            WHEN spread <= {same} THEN 'no-contrast'
            ELSE 'prompts-differ' END AS reason
    FROM (SELECT task_id, count(*) AS n, max(value) - min(value) AS spread
        FROM all_judged GROUP BY task_id)
    LEFT JOIN prompts USING (task_id) GROUP BY task_id, n, spread"""


def _found_query(options: TrajectoryPairOptions) -> str:
    sides = _SIDES.format(
        max_turns=literal(options.max_turns), extra=literal(options.rejected_extra_turns)
    )
    return _FOUND.format(
        by_reward=options.runs.criterion == "reward",
        same_start=options.same_start,
        max_turns=literal(options.max_turns),
        max_bytes=literal(options.max_side_bytes),
        ratio=literal(options.length_ratio),
        sides=sides,
    )
