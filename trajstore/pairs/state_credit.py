"""Credit of actions by what became of other runs that were in the same state.

Two agent steps are in one state when their stored ``state_key`` is equal, or, where a step has
none, when everything before it is: the start, the actions and the observations. States are told
apart by task.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pyarrow as pa

from trajstore.errors import PairError
from trajstore.pairs.credit import Credit, RewardSource, credit_of, discounted, rewards_query
from trajstore.pairs.groups import EPS, GroupOptions, group_advantages
from trajstore.pairs.policies import TIE
from trajstore.pairs.prefixes import follow_together
from trajstore.pairs.relations import Relations
from trajstore.pairs.runs import RunRules, judged_runs
from trajstore.pairs.turns import Steps, turn_source


@dataclass(frozen=True, slots=True, kw_only=True)
class StateOptions:
    """What state credit has in common."""

    gamma: float = 1.0
    """Discount an agent turn, from 0 to 1."""
    source: RewardSource = "auto"
    """Where rewards come from; see :func:`turn_rewards`."""
    runs: RunRules = field(default_factory=lambda: RunRules(truncated="keep"))
    """Which runs count and what they are worth."""

    def parameters(self) -> dict[str, Any]:
        """What a label says of them."""
        return {"gamma": self.gamma, "source": self.source, "criterion": self.runs.criterion}


DEFAULT_STATE_OPTIONS = StateOptions()
"""Undiscounted returns of every judged run."""

_OF_TURNS = ("action", "state", "state_key", "reward")

_VISITS = """
    SELECT run, step_index, s.trajectory_id, p.action, g.value AS gain,
        s.value AS outcome, s.success,
        hash(s.task_id, coalesce(state_key, hash(prompt_key, before, p.state)::VARCHAR)) AS state
    FROM path p JOIN started s USING (run) JOIN gains g USING (run, step_index)
    WHERE p.own"""

_FIRSTS = """
    SELECT v.* FROM visits v LEFT JOIN (
        SELECT run, state, min(step_index) AS first FROM visits GROUP BY ALL HAVING count(*) > 1)
        again USING (run, state)
    WHERE first IS NULL OR step_index = first"""


def _make_visits(
    made: Relations,
    rows: pa.Table,
    steps: Steps,
    options: StateOptions,
    labels: pa.Table | None,
) -> None:
    """Make ``visits``: one row an agent step, with its state, its action and its return."""
    judged = judged_runs(rows, options.runs, labels=labels, collapse=False)
    made.put("judged", judged.kept)
    follow_together(
        made, turn_source(steps), "observed", columns=_OF_TURNS, places="state_key IS NULL"
    )
    made.make("own", "SELECT run, step_index, reward FROM path WHERE own")
    rewards = made.rows(rewards_query(options.source, "own", "started", "run"))
    made.put("gains", discounted(rewards, gamma=options.gamma, key="run"))
    made.make("visits", _VISITS)


_RTMC = """
    WITH shared AS (SELECT state FROM firsts GROUP BY state HAVING count(*) > 1),
    states AS (
        SELECT state, fsum(gain ORDER BY run) / count(*) AS v
        FROM firsts SEMI JOIN shared USING (state) GROUP BY state),
    actions AS (
        SELECT state, action, count(*) AS n, fsum(gain ORDER BY run) AS total
        FROM firsts SEMI JOIN shared USING (state) GROUP BY state, action)
    SELECT trajectory_id, step_index, q - v AS value, q, v, n
    FROM (SELECT *, ({kappa} * v + total) / ({kappa} + n) AS q FROM (
        SELECT run, trajectory_id, step_index, coalesce(n, 1) AS n,
            coalesce(s.v, gain) + 0.0 AS v, coalesce(total, gain) + 0.0 AS total
        FROM firsts LEFT JOIN states s USING (state) LEFT JOIN actions USING (state, action)))
    ORDER BY run, step_index"""


def rtmc_advantages(
    rows: pa.Table,
    steps: Steps,
    *,
    kappa: float = 1.0,
    options: StateOptions = DEFAULT_STATE_OPTIONS,
    labels: pa.Table | None = None,
) -> Credit:
    """Rollout-tree Monte Carlo: how much better than its state an action turned out to be.

    V(s) is the mean return of the runs that visited s, Q(s, a) that of the runs that took a at
    their first visit, smoothed towards V by kappa imagined runs; the advantage is Q - V. A run that
    comes back to a state gets no second credit there.

    Source: RTMC (2604.11037); its prior was not seen, the one here is ours:
    ``Q = (kappa * V + sum of returns) / (kappa + n)``.

    Args:
        rows: one row a trajectory of the ``trajectories`` view.
        steps: rows of ``STEP_SCHEMA``, or the runs themselves.
        kappa: imagined runs worth V at each action; 0 gives the plain means, of which the
            advantages of a state, each times its runs, sum to 0.
        options: discount, source of rewards, which runs count.
        labels: rows of ``LABEL_SCHEMA``, for a criterion that is a label.

    Returns:
        Credit named ``rtmc_advantage``, with ``q``, ``v`` and ``n`` beside it.

    Raises:
        PairError: an argument is out of its range.
    """
    if not kappa >= 0:
        raise PairError(f"kappa is {kappa}; it must be at least 0")
    with Relations() as made:
        _make_visits(made, rows, steps, options, labels)
        made.make("firsts", _FIRSTS)
        found = made.rows(_RTMC.format(kappa=repr(float(kappa))))
    parameters = {**options.parameters(), "kappa": kappa}
    return credit_of(found, name="rtmc_advantage", method="rtmc/1", parameters=parameters)


Normaliser = Literal["std", "mean"]

_GIGPO = """
    WITH shared AS (SELECT state FROM visits GROUP BY state HAVING count(*) > 1),
    states AS (
        SELECT state, count(*) AS n,
            fsum(gain ORDER BY run, step_index) / n AS mean,
            list(gain ORDER BY run, step_index) AS gains,
            sqrt(list_sum(list_transform(gains, lambda g: (g - mean) ** 2)) / n) AS std
        FROM visits SEMI JOIN shared USING (state) GROUP BY state)
    SELECT trajectory_id, step_index, episode + {weight} * step AS value, episode, step, n
    FROM (SELECT run, trajectory_id, step_index, advantage AS episode,
            CASE WHEN mean IS NULL THEN gain - gain ELSE (gain - mean) / {scale} END AS step,
            coalesce(n, 1) AS n
        FROM visits LEFT JOIN states USING (state) JOIN groups USING (trajectory_id))
    ORDER BY run, step_index"""

GIGPO_OPTIONS = StateOptions(gamma=0.95)
"""Discount 0.95 a turn, as in GiGPO."""


def turn_advantages(
    rows: pa.Table,
    steps: Steps,
    *,
    weight: float = 1.0,
    normaliser: Normaliser = "std",
    options: StateOptions = GIGPO_OPTIONS,
    labels: pa.Table | None = None,
) -> Credit:
    """Advantages of single turns: that of the run in its task plus that of the turn in its state.

    Source: GiGPO (Feng et al. 2025, 2505.10978): ``A = A_episode + w * A_step``, the step groups
    made of the discounted returns of all turns in one state, w 1, discount 0.95.

    Args:
        rows: one row a trajectory of the ``trajectories`` view.
        steps: rows of ``STEP_SCHEMA``, or the runs themselves.
        weight: w.
        normaliser: ``std`` divides both parts by the population standard deviation of their group
            (plus 1e-6), ``mean`` only subtracts the mean.
        options: discount, source of rewards, which runs count.
        labels: rows of ``LABEL_SCHEMA``, for a criterion that is a label.

    Returns:
        Credit named ``turn_advantage``, with ``episode``, ``step`` and ``n`` (turns in the state)
        beside it.

    Raises:
        PairError: an argument is out of its range.
    """
    scales = {"std": f"(std + {EPS['population']!r})", "mean": "1.0"}
    if normaliser not in scales:
        raise PairError(f"There is no normaliser {normaliser!r}; known are: std, mean")
    variant: Literal["grpo", "dr_grpo"] = "grpo" if normaliser == "std" else "dr_grpo"
    groups, _ = group_advantages(
        rows, options=GroupOptions(variant=variant, runs=options.runs), labels=labels
    )
    with Relations(groups=groups.select(["trajectory_id", "advantage"])) as made:
        _make_visits(made, rows, steps, options, labels)
        found = made.rows(_GIGPO.format(weight=repr(float(weight)), scale=scales[normaliser]))
    parameters = {**options.parameters(), "weight": weight, "normaliser": normaliser}
    return credit_of(found, name="turn_advantage", method="gigpo/1", parameters=parameters)


_PIVOTS = """
    WITH states AS (
        SELECT state, count(*) AS runs, count(*) FILTER (passed) / runs AS pass_rate
        FROM (SELECT *, {passed} AS passed FROM firsts) GROUP BY state)
    SELECT trajectory_id, step_index, pass_rate, pass_rate * (1 - pass_rate) AS variance, runs,
        (runs >= {least} AND variance > 0 AND pass_rate < {below})::INT::DOUBLE AS value
    FROM firsts JOIN states USING (state)
    ORDER BY run, step_index"""


def pivots(
    rows: pa.Table,
    steps: Steps,
    *,
    below: float = 0.6,
    least_runs: int = 2,
    pass_threshold: float = 1.0,
    options: StateOptions = DEFAULT_STATE_OPTIONS,
    labels: pa.Table | None = None,
) -> Credit:
    """Which turns decide: those from where some runs pass, some fail, and not too many pass.

    Source: PivotRL (2603.21383): a turn is kept if the outcomes of its local rollouts vary and
    their mean is below 0.6. Here the local rollouts are the stored runs that were in its state.

    Args:
        rows: one row a trajectory of the ``trajectories`` view.
        steps: rows of ``STEP_SCHEMA``, or the runs themselves.
        below: a turn with this pass rate or a higher one is no pivot.
        least_runs: runs that must have been in the state.
        pass_threshold: least value of a pass, for runs without a verdict.
        options: which runs count.
        labels: rows of ``LABEL_SCHEMA``, for a criterion that is a label.

    Returns:
        Credit named ``pivot``: 1 for pivots, 0 for other turns, with ``pass_rate``, ``variance``
        and ``runs`` beside it. Only the first visit of a run to a state is there.
    """
    by_outcome = options.runs.criterion in {"reward", "success"}
    passed = f"outcome >= {pass_threshold!r} - {TIE}"
    passed = f"coalesce(success, {passed})" if by_outcome else passed
    with Relations() as made:
        _make_visits(made, rows, steps, replace(options, gamma=1.0), labels)
        made.make("firsts", _FIRSTS)
        found = made.rows(_PIVOTS.format(passed=passed, least=int(least_runs), below=repr(below)))
    parameters = {
        "below": below,
        "least_runs": least_runs,
        "pass_threshold": pass_threshold,
        "criterion": options.runs.criterion,
    }
    return credit_of(found, name="pivot", method="pivots/1", parameters=parameters)
