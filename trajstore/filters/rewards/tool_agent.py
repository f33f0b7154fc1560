"""Dense rewards for tool agents: rules that fire on a step, each one a step label."""

from __future__ import annotations

import pyarrow as pa

from trajstore.filters.relations import need_columns, relation
from trajstore.filters.rewards.calls import judged_calls
from trajstore.filters.rewards.retrieval import RETRIEVAL_TOOLS, used_retrievals

AMBIGUOUS_GOAL = "ambiguous-goal"
"""Name of the score above 0 that says of a run that its goal leaves something open."""

QUESTION = r"""\?["')\]*_\s]*$"""
"""A step without calls whose text ends like this asks something."""

_QUERY = """
    WITH ambiguous AS (
        SELECT trajectory_id FROM scores WHERE name = $ambiguous
        GROUP BY 1 HAVING arg_max(value, {
            'label': label_id IS NOT NULL, 'at': created_at, 'id': label_id}) > 0),
    asked AS (
        SELECT trajectory_id, step_index, actor, text, n_calls,
            lead(actor) OVER (PARTITION BY trajectory_id ORDER BY step_index) AS next
        FROM steps SEMI JOIN ambiguous USING (trajectory_id) WHERE actor <> 'environment'),
    fired AS (
        SELECT trajectory_id, step_index, call_index, 'successful-call' AS name, $success AS value,
            name AS rationale FROM judged WHERE NOT failed
        UNION ALL
        SELECT trajectory_id, step_index, call_index, 'error', $error, name
        FROM judged WHERE failed
        UNION ALL
        SELECT trajectory_id, step_index, call_index, 'recovery', $recovery,
            name || ' works with other arguments' FROM judged WHERE recovers
        UNION ALL
        SELECT trajectory_id, step_index, call_index, 'repeated-action', $repeat,
            name || ' again with the same arguments' FROM judged WHERE repeats
        UNION ALL
        SELECT u.trajectory_id, u.step_index, u.call_index, 'retrieval-used', $retrieval_used,
            u.token || ' used at step ' || u.used_at
        FROM used u JOIN judged j USING (trajectory_id, step_index, call_index) WHERE NOT j.failed
        UNION ALL
        SELECT trajectory_id, step_index, 0, 'clarifying-question', $clarifying,
            'asks the user, whose goal is ambiguous'
        FROM asked
        WHERE actor = 'agent' AND n_calls = 0 AND next = 'user'
            AND regexp_matches(text, $question))
    SELECT trajectory_id, step_index::INTEGER AS step_index, name, value::DOUBLE AS value,
        arg_min(rationale, call_index) AS rationale
    FROM fired GROUP BY ALL ORDER BY trajectory_id, step_index, name"""


def dense_tool_agent(  # noqa: PLR0913  one parameter a published rule
    calls: pa.Table,
    steps: pa.Table,
    scores: pa.Table,
    *,
    success: float = 0.05,
    retrieval_used: float = 0.10,
    recovery: float = 0.08,
    error: float = -0.03,
    repeat: float = -0.10,
    clarifying: float = 0.05,
    retrieval_tools: str = RETRIEVAL_TOOLS,
) -> pa.Table:
    """Rules that fire on steps of a tool agent; each fires at most once a step.

    Args:
        calls: the agent's calls.
        steps: all steps.
        scores: named numbers of runs; ``ambiguous-goal`` above 0 marks an ambiguous goal.
        success: for a call that worked.
        retrieval_used: for a retrieval whose result the agent used later
            (see :func:`used_retrievals`).
        recovery: for a call that worked after the same tool had failed with other arguments.
        error: for a call that failed (the source says so, or a 4xx or 5xx status).
        repeat: for a call that is identical to the one right before it.
        clarifying: for a question to the user in a run whose goal is ambiguous.
        retrieval_tools: regular expression (RE2) for names of retrieval tools.

    Returns:
        One row a fired rule: ``trajectory_id``, ``step_index``, ``name`` (the rule), ``value``,
        ``rationale``; ordered by run, step and rule.
    """
    need_columns(steps, "steps", ["trajectory_id", "step_index", "actor", "text", "n_calls"])
    tables = {
        "judged": judged_calls(calls),
        "used": used_retrievals(calls, steps, tools=retrieval_tools),
        "steps": steps,
        "scores": scores,
    }
    return relation(
        _QUERY,
        tables=tables,
        success=success,
        retrieval_used=retrieval_used,
        recovery=recovery,
        error=error,
        repeat=repeat,
        clarifying=clarifying,
        question=QUESTION,
        ambiguous=AMBIGUOUS_GOAL,
    )
