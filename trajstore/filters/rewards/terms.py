"""What rewards are added up from: task reward, verdict, counts, named scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.relations import numbered, relation

PASS_THRESHOLD = 1.0
"""A run without a verdict passes at this reward; ``success`` counts first where it is known."""

_ROUNDING = 1e-9
"""Rewards such as 0.9999999999999998 are 1 up to rounding."""

Values: TypeAlias = pa.Array | pa.ChunkedArray


def column(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """A column of the rows as doubles; NaN and infinities are unknown, thus null.

    Raises:
        SelectionError: the rows have no such column.
    """
    if name not in rows.column_names:
        message = (
            f"The reward needs the column '{name}'; the rows have {', '.join(rows.column_names)}."
        )
        raise SelectionError(message)
    values = rows.column(name).cast(pa.float64())
    return pc.if_else(pc.is_finite(values), values, pa.scalar(None, pa.float64()))


def passed(rows: pa.Table, pass_threshold: float | None = PASS_THRESHOLD) -> pa.ChunkedArray:
    """Whether each run passed: its ``success`` where known, else reward against the threshold.

    Args:
        rows: with ``success`` and ``reward``.
        pass_threshold: the smallest reward that passes (up to a rounding of 1e-9); None to go by
            ``success`` alone.

    Returns:
        Booleans; null where neither is known.
    """
    success = rows.column("success")
    if pass_threshold is None:
        return success
    enough = pc.greater_equal(column(rows, "reward"), pass_threshold - _ROUNDING)
    return pc.coalesce(success, enough)


def verdict(rows: pa.Table, pass_threshold: float | None = PASS_THRESHOLD) -> pa.ChunkedArray:
    """``1[success]``: 1 for a run that passed, 0 for one that did not, null for unknown."""
    return passed(rows, pass_threshold).cast(pa.float64())


def task_reward(rows: pa.Table) -> pa.ChunkedArray:
    """``R_task``: the reward as given, else 1 or 0 by ``success``, null where both are unknown."""
    return pc.coalesce(column(rows, "reward"), rows.column("success").cast(pa.float64()))


def any_format_error(rows: pa.Table) -> pa.ChunkedArray:
    """1 for runs in which the agent's output could not be parsed at least once, else 0."""
    return pc.greater(rows.column("n_format_errors"), 0).cast(pa.float64())


def scaled(factor: float, values: Values) -> Values:
    """``factor * values``."""
    return pc.multiply(pa.scalar(factor, pa.float64()), values)


def composed(rows: pa.Table, terms: Mapping[str, Values]) -> pa.Table:
    """A reward as the sum of its named terms.

    Args:
        rows: one row a run.
        terms: doubles, one a row, in the order in which they are written down.

    Returns:
        ``trajectory_id``, ``value`` (the sum; null as soon as one term is unknown) and one column
        a term, in the order of the rows.
    """
    value: Values = pa.repeat(pa.scalar(0.0), rows.num_rows)
    for term in terms.values():
        value = pc.add(value, term)
    # Adding zero turns -0.0 into 0.0, so that nobody reads "-0" in a label.
    shown = {name: pc.add(term, 0.0) for name, term in terms.items()}
    return pa.table({"trajectory_id": rows.column("trajectory_id"), "value": value, **shown})


def named_score(
    rows: pa.Table, scores: pa.Table, name: str, evaluator: str | None = None
) -> pa.Array:
    """The newest score of that name for each row, null where there is none.

    Args:
        rows: with ``trajectory_id``.
        scores: the input ``scores`` (see :data:`trajstore.filters.rewards.INPUTS`).
        name: the score's name.
        evaluator: take the word of this evaluator only; None for the newest of all. Scores that
            came with the run have no evaluator, and any label is newer.
    """
    if name in rows.column_names:
        return column(rows, name).combine_chunks()
    query = """
        SELECT best.value AS value
        FROM rows LEFT JOIN (
            SELECT trajectory_id, arg_max({'value': value}, {
                'label': label_id IS NOT NULL, 'at': created_at, 'id': label_id}) AS best
            FROM scores
            WHERE name = $name AND isfinite(value)
                AND ($evaluator IS NULL OR evaluator = $evaluator)
            GROUP BY trajectory_id) USING (trajectory_id)
        ORDER BY place"""
    tables = {"rows": numbered(rows, "trajectory_id"), "scores": scores}
    found = relation(query, tables=tables, name=name, evaluator=evaluator)
    return found.column("value").combine_chunks()
