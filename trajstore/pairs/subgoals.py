"""Credit by sub-goals: a bonus for each that was reached, blame where the first one failed."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import PairError
from trajstore.pairs.credit import Credit, credit_of
from trajstore.pairs.relations import Relations
from trajstore.pairs.runs import RunRules, judged_runs
from trajstore.pairs.turns import Steps, turn_source

SUBGOAL = "subgoal"
"""Name of step labels that say whether the sub-goal that ends at the step was reached."""

NAMED_SUBGOAL = "sub-goal/"
"""What the names of labels of named sub-goals begin with; on the whole run where one was still open
at its end."""

_MARKS = """
    SELECT trajectory_id, coalesce(best.step, {end})::INT AS step_index,
        bool_and(best.reached) AS reached
    FROM (
        SELECT trajectory_id, arg_max({{'step': step_index, 'reached': success}},
            {{'at': created_at, 'id': label_id}}) AS best
        FROM labels WHERE success IS NOT NULL AND (starts_with(name, '{named}')
            OR name = '{name}' AND step_index IS NOT NULL)
        GROUP BY trajectory_id, name, CASE WHEN name = '{name}' THEN step_index END)
    WHERE best.step IS NOT NULL OR NOT best.reached
    GROUP BY ALL ORDER BY ALL"""

_END = 2**31 - 1


def subgoal_marks(labels: pa.Table, *, name: str = SUBGOAL) -> pa.Table:
    """Sub-goals from labels: ``trajectory_id, step_index, reached``, the newest word of each.

    Args:
        labels: rows of ``LABEL_SCHEMA``. A label by that name, or one ``sub-goal/NAME``, sits on
            the step at which its sub-goal was decided and says in ``success`` whether it was
            reached. One ``sub-goal/NAME`` on the whole run that was not reached ends with the run.
            Of several sub-goals that end at one step, all must be reached.
        name: name of labels of sub-goals without a name.
    """
    with Relations(labels=labels) as made:
        quoted = name.replace("'", "''")
        return made.rows(_MARKS.format(name=quoted, named=NAMED_SUBGOAL, end=_END))


_SPANS = """
    SELECT trajectory_id, step_index AS ends, reached,
        coalesce(lag(step_index) OVER so_far + 1, 0) AS begins,
        NOT reached AND count(*) FILTER (NOT reached) OVER so_far = 1 AS is_first_failure
    FROM marks WINDOW so_far AS (
        PARTITION BY trajectory_id ORDER BY step_index ROWS UNBOUNDED PRECEDING)"""

_BLAMED = """
    SELECT t.trajectory_id, t.step_index, coalesce(v.fall, 0.0) AS fall,
        sum(coalesce(v.fall, 0.0)) OVER span AS falls, count(*) OVER span AS actions
    FROM spans s JOIN failed USING (trajectory_id)
    JOIN turns t ON t.trajectory_id = s.trajectory_id AND t.own
        AND t.step_index BETWEEN begins AND ends
    LEFT JOIN falls v ON v.trajectory_id = t.trajectory_id AND v.step_index = t.step_index
    WHERE is_first_failure WINDOW span AS (PARTITION BY t.trajectory_id)"""

_FALLS = """
    SELECT trajectory_id, step_index, greatest(0.0, value - lead(value) OVER (
        PARTITION BY trajectory_id ORDER BY step_index)) AS fall
    FROM estimates"""

_CREDITED = """
    SELECT trajectory_id, step_index, sum(value) AS value FROM (
        SELECT trajectory_id, ends AS step_index, {bonus} AS value FROM spans
        WHERE reached AND trajectory_id IN (SELECT trajectory_id FROM judged)
        UNION ALL BY NAME
        SELECT trajectory_id, step_index,
            -{bonus} * CASE WHEN falls > 0 THEN fall / falls ELSE 1.0 / actions END AS value
        FROM blamed)
    GROUP BY ALL HAVING sum(value) <> 0 ORDER BY trajectory_id, step_index"""


def subgoal_credit(
    rows: pa.Table,
    steps: Steps,
    subgoals: pa.Table,
    *,
    bonus: float = 0.2,
    values: pa.Table | None = None,
    rules: RunRules | None = None,
) -> Credit:
    """A bonus at each sub-goal that was reached, and blame inside the first one that failed.

    Only a run that failed is blamed, and only the agent steps inside the span of its first failed
    sub-goal: from the step after the sub-goal before it to the step at which it ended. They share
    minus one bonus: evenly, or, where a value estimate is given, by how much the estimate falls
    over each of them.

    Args:
        rows: one row a trajectory of the ``trajectories`` view.
        steps: rows of ``STEP_SCHEMA``, or the runs themselves.
        subgoals: ``trajectory_id, step_index, reached``; see :func:`subgoal_marks`.
        bonus: credit of one sub-goal.
        values: ``trajectory_id, step_index, value``: what a critic expects of the run before each
            step.
        rules: which runs count; a run whose verdict is unknown gets bonuses and no blame.

    Returns:
        Credit named ``subgoal_credit``; steps without credit are left out.

    Raises:
        PairError: ``subgoals`` lacks a column.
    """
    for name in ("trajectory_id", "step_index", "reached"):
        if name not in subgoals.column_names:
            raise PairError(f"The sub-goals lack '{name}'; they have: {subgoals.column_names}")
    rules = rules or RunRules(criterion="success", truncated="keep")
    judged = judged_runs(rows, rules, collapse=False).kept
    with Relations(marks=subgoals, judged=rows) as made:
        made.put("failed", judged.filter(pc.equal(judged.column("value"), 0.0)))
        wanted = ("trajectory_id", "step_index", "own")
        made.put("turns", turn_source(steps).turns(judged.column("trajectory_id"), wanted))
        made.put("estimates", _VALUES_SCHEMA.empty_table() if values is None else values)
        made.make("spans", _SPANS)
        made.make("falls", _FALLS)
        made.make("blamed", _BLAMED)
        found = made.rows(_CREDITED.format(bonus=repr(float(bonus))))
    parameters = {"bonus": bonus, "values": values is not None}
    return credit_of(found, name="subgoal_credit", method="subgoals/1", parameters=parameters)


_VALUES_SCHEMA = pa.schema(
    [("trajectory_id", pa.string()), ("step_index", pa.int32()), ("value", pa.float64())]
)
