"""Who labelled the runs of a store, and whose outcome counts."""

from __future__ import annotations

from dataclasses import dataclass

from trajstore.schema import OUTCOME
from trajstore.store import Store

_COUNTS = f"""
    SELECT evaluator, count(*) AS labels, count(*) FILTER (name = '{OUTCOME}') AS outcomes,
        count(DISTINCT trajectory_id) AS trajectories
    FROM labels GROUP BY evaluator"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorUse:
    """One evaluator: its rank and what it said."""

    rank: int | None
    """1 for the one whose outcome counts first; None where it is not ranked, thus behind."""
    evaluator: str
    """Its name."""
    labels: int = 0
    """Labels that it gave."""
    outcomes: int = 0
    """Those that are outcomes of whole runs; only for these the rank matters."""
    trajectories: int = 0
    """Runs that it labelled."""


def list_evaluators(store: Store) -> list[EvaluatorUse]:
    """Evaluators that labelled something or are ranked: by rank, the others by name behind.

    Args:
        store: whose newest snapshot is read.
    """
    ranking = store.evaluator_ranking()
    places = {name: place for place, name in enumerate(ranking, 1)}
    counts = {row["evaluator"]: row for row in store.query(_COUNTS).read_all().to_pylist()}
    others = sorted(counts.keys() - places.keys())
    return [
        EvaluatorUse(rank=places.get(name), **counts.get(name, {"evaluator": name}))
        for name in [*ranking, *others]
    ]
