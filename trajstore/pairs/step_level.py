"""Pairs of single steps: one place that several attempts reached, and two ways to go on from it.

Source: Agent Q (Putta et al. 2024, 2408.07199) for siblings by value; the trie over turns with the
mean outcome of the runs through a branch is ours.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import PairError
from trajstore.pairs.finishing import Build, finished
from trajstore.pairs.policies import TIE
from trajstore.pairs.prefixes import Prefix, follow_together
from trajstore.pairs.relations import Relations, listed
from trajstore.pairs.report import PairReport
from trajstore.pairs.runs import Cost, RunRules, judged_runs
from trajstore.pairs.turns import Steps, turn_source
from trajstore.schema import canonical_json

StepPolicy = Literal["best_worst", "all_margin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPairOptions:
    """How next actions at one place are paired."""

    policy: StepPolicy = "best_worst"
    """``best_worst``: the best action of a place against the worst; ``all_margin``: every action
    against every worse one, the margin kept (siblings of a search tree)."""
    margin: float = 0.5
    """Least difference of the two means."""
    least_runs: int = 1
    """Runs that must have taken an action for its mean to count."""
    max_pairs: int | None = None
    """Most pairs of a task, drawn at random."""
    seed: int = 0
    """Seed of that draw."""
    prefix: Prefix = "observed"
    """When two runs are at the same place."""
    cost: Cost = "n_tool_calls"
    """Among equally good runs through an action, the cheapest stands for it."""
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
        for name, known in (("policy", get_args(StepPolicy)), ("cost", get_args(Cost))):
            if getattr(self, name) not in known:
                message = f"{name} is {getattr(self, name)!r}; known are: {', '.join(known)}"
                raise PairError(message)
        for name, least in (("margin", 0), ("least_runs", 1), ("max_pairs", 1)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise PairError(f"{name} is {value}; it must be at least {least}")


DEFAULT_STEP_OPTIONS = StepPairOptions()
"""The best next action of a place against the worst, half a point apart."""


def step_pairs(
    rows: pa.Table,
    steps: Steps,
    *,
    options: StepPairOptions = DEFAULT_STEP_OPTIONS,
    labels: pa.Table | None = None,
    values: pa.Table | None = None,
) -> tuple[pa.Table, PairReport]:
    """Pair two next actions at a place that runs of one task reached the same way.

    The value of an action is the mean worth of the runs that took it there. The prompt of a pair is
    what the chosen run had seen and done before; the sides are one agent turn each. Everything is
    counted in one pass over the turns.

    Args:
        rows: one row a trajectory of the ``trajectories`` view.
        steps: rows of ``STEP_SCHEMA``, or the runs themselves.
        options: how to pair.
        labels: rows of ``LABEL_SCHEMA``, for a criterion that is a label.
        values: ``trajectory_id, step_index, value`` of single actions (Q-values of a search, scores
            of a critic; see :func:`blended_values` and :func:`label_values`), which then stand in
            for the worth of the run; steps without one do not count.

    Returns:
        Rows of ``PAIR_SCHEMA``, and what became of every run, task and proposed pair.

    Raises:
        PairError: options that cannot be followed.
    """
    options.check()
    source = turn_source(steps)
    runs = judged_runs(rows, options.runs, labels=labels)
    with Relations(all_judged=runs.kept) as made:
        made.make("judged", _SEVERAL.format(any=values is not None, same=TIE))
        follow_together(made, source, options.prefix, columns=_OF_TURNS)
        made.make("actions", _actions_query(made, values))
        made.make("nodes", _NODES)
        made.make("branches", _BRANCHES.format(least=options.least_runs, cost=options.cost))
        made.make("proposed", _PROPOSED[options.policy].format(margin=options.margin, same=TIE))
        made.make("found", _FOUND)
        made.make("task_reasons", _TASK_REASONS.format(any=values is not None, same=TIE))
        build = Build(
            level="step",
            policy=options.policy,
            parameters=canonical_json(options.parameters()),
            rules=options.runs,
            max_pairs=options.max_pairs,
            seed=options.seed,
        )
        return finished(made, build, source=source, rows=rows, dropped=runs.dropped)


def blended_values(q_search: pa.Table, q_critic: pa.Table, *, alpha: float = 0.5) -> pa.Table:
    """Values of actions by a search and a critic: ``alpha * Q_search + (1 - alpha) * Q_critic``.

    An action that only one of them judged is left out.

    Source: Agent Q (2408.07199), equation 10; alpha 0.5 there.

    Args:
        q_search: ``trajectory_id, step_index, value`` as a search backed them up.
        q_critic: the same as a critic judged them.
        alpha: weight of the search, from 0 to 1.

    Raises:
        PairError: alpha is out of its range.
    """
    if not 0 <= alpha <= 1:
        raise PairError(f"alpha is {alpha}; it must lie between 0 and 1")
    with Relations(search=q_search, critic=q_critic) as made:
        return made.rows(
            f"""SELECT trajectory_id, step_index,
                {alpha!r} * search.value + {1 - alpha!r} * critic.value AS value
            FROM search JOIN critic USING (trajectory_id, step_index) ORDER BY ALL"""
        )


def label_values(labels: pa.Table, name: str) -> pa.Table:
    """Values of single steps from their labels, the newest word of each step.

    Args:
        labels: rows of ``LABEL_SCHEMA``.
        name: which labels; their value counts, else their verdict as 1 or 0.

    Raises:
        PairError: no step has such a label.
    """
    with Relations(labels=labels) as made:
        made.make("steps", "SELECT * FROM labels WHERE step_index IS NOT NULL")
        found = made.rows(
            f"""SELECT trajectory_id, step_index, arg_max(coalesce(value, success::INT::DOUBLE),
                {{'at': created_at, 'id': label_id}}) AS value
            FROM steps WHERE name = '{name.replace("'", "''")}'
                AND (value IS NOT NULL OR success IS NOT NULL)
            GROUP BY ALL ORDER BY ALL"""
        )
        if not found.num_rows:
            names = listed(pc.unique(made.rows("SELECT name FROM steps ORDER BY 1").column(0)))
            raise PairError(
                f"No step has a label '{name}'; labels on steps are: {', '.join(names) or 'none'}"
            )
        return found


_OF_TURNS = ("format_error", "turn", "action", "state", "n_own_bytes", "digest")

_SEVERAL = """
    SELECT * FROM all_judged WHERE task_id IN (
        SELECT task_id FROM all_judged GROUP BY task_id
        HAVING count(*) > 1 AND ({any} OR max(value) - min(value) > {same}))"""

_ACTIONS = """
    SELECT hash(prompt_key, before, state) AS node, action, run, step_index,
        format_error, {value} AS worth
    FROM path JOIN started USING (run) {given} WHERE own"""

_NODES = """
    SELECT node, min(action) < max(action) AS is_open, any_value(run) AS run
    FROM actions GROUP BY node HAVING count(*) > 1"""

_BRANCHES = """
    SELECT node, action, any_value(task_id) AS task_id, count(*) AS n,
        fsum(worth ORDER BY run) / count(*) AS q,
        arg_min({{'run': run, 'step': step_index, 'error': format_error}},
            {{'w': -worth, 'c': coalesce({cost}::DOUBLE, 'inf'::DOUBLE), 'i': run}}) AS best
    FROM actions SEMI JOIN (SELECT node FROM nodes WHERE is_open) USING (node)
    JOIN started USING (run)
    GROUP BY node, action HAVING count(*) >= {least}"""

_SIDES = """b.node, b.best AS better, w.best AS worse,
    b.q AS chosen_reward, w.q AS rejected_reward"""

_PROPOSED = {
    "best_worst": f"""
        WITH ends AS (
            SELECT node, arg_min(action, {{{{'q': -q, 'i': best.run}}}}) AS most,
                arg_min(action, {{{{'q': q, 'i': best.run}}}}) AS least
            FROM branches GROUP BY node)
        SELECT {_SIDES} FROM ends e
        JOIN branches b ON b.node = e.node AND b.action = e.most
        JOIN branches w ON w.node = e.node AND w.action = e.least
        WHERE b.q - w.q > {{same}} AND b.q - w.q >= {{margin!r}} - {{same}}""",
    "all_margin": f"""
        SELECT {_SIDES} FROM branches b JOIN branches w ON w.node = b.node
            AND b.q - w.q > {{same}} AND b.q - w.q >= {{margin!r}} - {{same}}""",
}

_FOUND = """
    SELECT better.run AS chosen, worse.run AS rejected,
        better.step AS chosen_step, worse.step AS rejected_step,
        better.step AS n_prompt_steps, chosen_reward, rejected_reward,
        c.start_exact = r.start_exact AND c.first_own = r.first_own AS same_start,
        a.n_own_bytes AS chosen_length, b.n_own_bytes AS rejected_length,
        hash(node, a.action, b.action) AS likeness,
        CASE WHEN better.error THEN 'chosen-is-format-error' END AS reason
    FROM proposed p JOIN started c ON c.run = better.run JOIN started r ON r.run = worse.run
    JOIN path a ON a.run = better.run AND a.step_index = better.step
    JOIN path b ON b.run = worse.run AND b.step_index = worse.step"""

_TASK_REASONS = """
    WITH shared AS (SELECT DISTINCT task_id, true AS meets FROM nodes JOIN started USING (run)),
    firsts AS (
        SELECT task_id, min(turn) = max(turn) AND bool_and(actor = 'system') AS has_system
        FROM path JOIN started USING (run) WHERE step_index = 0 GROUP BY task_id),
    parted AS (SELECT DISTINCT task_id FROM branches),
    prompts AS (
        SELECT task_id, max(n) = 1 AS is_alone FROM (
            SELECT task_id, count(*) AS n FROM started GROUP BY task_id, prompt_key)
        GROUP BY task_id)
    SELECT task_id, n AS runs, CASE
            WHEN n = 1 THEN 'one-run'
            WHEN spread <= {same} AND NOT {any} THEN 'no-contrast'
            WHEN is_alone THEN 'prompts-differ'
            WHEN parted.task_id IS NOT NULL THEN 'margin'
            WHEN meets THEN 'no-branch'
            WHEN has_system THEN 'only-system-shared'
            ELSE 'nothing-shared' END AS reason
    FROM (SELECT task_id, count(*) AS n, max(value) - min(value) AS spread
        FROM all_judged GROUP BY task_id)
    LEFT JOIN shared USING (task_id) LEFT JOIN firsts USING (task_id)
    LEFT JOIN parted USING (task_id) LEFT JOIN prompts USING (task_id)"""


def _actions_query(made: Relations, values: pa.Table | None) -> str:
    if values is None:
        return _ACTIONS.format(value="value", given="")
    for name in ("trajectory_id", "step_index", "value"):
        if name not in values.column_names:
            raise PairError(
                f"The values lack the column '{name}'; they have: {values.column_names}"
            )
    made.put("given_values", values)
    given = "JOIN given_values v USING (trajectory_id, step_index)"
    return _ACTIONS.format(value="v.value", given=given)
