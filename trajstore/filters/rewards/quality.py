"""Rewards of whole runs that weigh several judgements: efficiency, process, a judge's scores."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.filters.relations import numbered, relation
from trajstore.filters.rewards.calls import process_counts
from trajstore.filters.rewards.terms import (
    PASS_THRESHOLD,
    Values,
    column,
    composed,
    named_score,
    passed,
    scaled,
    verdict,
)


def spl(rows: pa.Table, *, pass_threshold: float | None = PASS_THRESHOLD) -> pa.Table:
    """``S * L* / max(L, L*)``: how near a success came to the shortest one (Anderson et al. 2018).

    L is the number of tool calls, at least 1; L* that of the shortest successful run of the task:
    the column ``shortest_success`` where the rows have it (an oracle length can stand there), else
    the shortest among the rows. A failure has 0, however short it is. The mean over runs is SPL.

    Args:
        rows: one row a run.
        pass_threshold: see :func:`trajstore.filters.rewards.passed`.
    """
    # From 1, so that one success without any call does not make all others worth nothing.
    own = pc.max_element_wise(column(rows, "n_tool_calls"), 1.0)
    shortest = pc.max_element_wise(_shortest(rows, pass_threshold), 1.0)
    share = pc.divide(shortest, pc.max_element_wise(own, shortest))
    success = passed(rows, pass_threshold)
    return composed(rows, {"efficiency": pc.if_else(success, share, 0.0)})


def _shortest(rows: pa.Table, pass_threshold: float | None) -> Values:
    """L* of each row's task; a run of its own is the shortest where nothing shorter is known."""
    own = column(rows, "n_tool_calls")
    if "shortest_success" in rows.column_names:
        return pc.coalesce(column(rows, "shortest_success"), own)
    table = numbered(rows, "task_id", "n_tool_calls")
    table = table.append_column("passed", passed(rows, pass_threshold))
    query = """
        SELECT coalesce(min(n_tool_calls) FILTER (passed) OVER (PARTITION BY task_id),
            n_tool_calls)::DOUBLE AS shortest
        FROM rows ORDER BY place"""
    return relation(query, tables={"rows": table}).column("shortest")


def three_dimensions(
    rows: pa.Table,
    calls: pa.Table,
    scores: pa.Table,
    *,
    completion: str | None = None,
    coherence: str | None = None,
    recovery: str | None = None,
    efficiency: str | None = None,
    pass_threshold: float | None = PASS_THRESHOLD,
) -> pa.Table:
    """``0.5 * completion + 0.3 * process + 0.2 * efficiency``, in [0, 1].

    ``process = 0.4 * effective_calls / max(calls, 1) + 0.3 * coherence + 0.3 * recovery``. Each
    part may be the name of a score in [0, 1] (a judge's label); where it is None it is computed:

    * completion: ``1[success]``.
    * effective calls: those that did not fail.
    * coherence: the share of calls that do not repeat the call right before them.
    * recovery: the share of faults (failed calls of one tool in a row) that ended in a success of
      that tool with other arguments; 1 where nothing failed.
    * efficiency: :func:`spl`.

    With completion and efficiency computed a failure has at most 0.3 and a success at least 0.5.
    """
    counts = process_counts(rows, calls)
    none = pc.equal(counts.column("n_calls"), 0)
    effective = _share(counts, "n_effective", "n_calls", empty=0.0)
    steady = pc.if_else(none, 1.0, pc.subtract(1.0, _share(counts, "n_repeats", "n_calls")))
    given = {
        name: None if score is None else named_score(rows, scores, score)
        for name, score in (
            ("completion", completion),
            ("coherence", coherence),
            ("recovery", recovery),
            ("efficiency", efficiency),
        )
    }
    parts = {
        "completion": _or(given["completion"], verdict(rows, pass_threshold)),
        "coherence": _or(given["coherence"], steady),
        "recovery": _or(given["recovery"], _share(counts, "n_recovered", "n_faults", empty=1.0)),
        "efficiency": _or(
            given["efficiency"], spl(rows, pass_threshold=pass_threshold).column("value")
        ),
    }
    return composed(
        rows,
        {
            "completion": scaled(0.5, parts["completion"]),
            "effective_calls": scaled(0.3 * 0.4, effective),
            "coherence": scaled(0.3 * 0.3, parts["coherence"]),
            "recovery": scaled(0.3 * 0.3, parts["recovery"]),
            "efficiency": scaled(0.2, parts["efficiency"]),
        },
    )


def _or(given: Values | None, computed: Values) -> Values:
    return computed if given is None else given


def _share(counts: pa.Table, part: str, whole: str, *, empty: float = 0.0) -> Values:
    total = column(counts, whole)
    share = pc.divide(column(counts, part), pc.max_element_wise(total, 1.0))
    return pc.if_else(pc.equal(total, 0), empty, share)


def judge_score(
    rows: pa.Table,
    scores: pa.Table,
    *,
    completion: float = 0.4,
    accuracy: float = 0.3,
    structure: float = 0.15,
    citation: float = 0.15,
    prefix: str = "judge/",
    evaluator: str | None = None,
) -> pa.Table:
    """``0.4 * completion + 0.3 * accuracy + 0.15 * structure + 0.15 * citation``, in [0, 10].

    The four are a judge's scores from 0 to 10, as :func:`trajstore.pipeline.judge` keeps them; the
    parameters are their weights. Null where one of them is missing.

    Args:
        rows: one row a run.
        scores: named numbers of runs.
        completion: weight of the score ``judge/completion``.
        accuracy: weight of ``judge/accuracy``.
        structure: weight of ``judge/structure``.
        citation: weight of ``judge/citation``.
        prefix: what stands before the names of the scores.
        evaluator: take the scores of this judge only.
    """
    weights = {
        "completion": completion,
        "accuracy": accuracy,
        "structure": structure,
        "citation": citation,
    }
    return composed(
        rows,
        {
            name: scaled(weight, named_score(rows, scores, prefix + name, evaluator))
            for name, weight in weights.items()
        },
    )
