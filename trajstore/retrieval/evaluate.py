"""Measure retrieval on a store's own runs: leave one task out, look for what would have helped.

For each task its goal is the query, and the task itself and those nearly the same are left out. A
hit is right where it is a success of the same domain: the same ``environment``, or, where the query
has none, the same ``source`` without an environment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import RetrievalError
from trajstore.retrieval.arrays import numpy
from trajstore.retrieval.embedder import Embedder
from trajstore.retrieval.hits import Mode, Weights
from trajstore.retrieval.metrics import mrr, ndcg, recall_at_k
from trajstore.retrieval.query import DEFAULT_WEIGHTS, SearchOptions
from trajstore.retrieval.search import search
from trajstore.retrieval.tasks import near_tasks
from trajstore.retrieval.view import View, searcher
from trajstore.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Means over the queries, 0 to 1."""

    recall: float
    """Right hits among the first k, by the most that k places can hold."""
    mrr: float
    """One by the rank of the first right hit."""
    ndcg: float
    """Discounted gain by the best possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationReport:
    """How well a store's experiences are found."""

    snapshot: int
    """The snapshot."""
    k: int
    """Hits looked at."""
    queries: int
    """Tasks that were asked for."""
    without_answer: int
    """Tasks that have no success of their domain outside themselves: nothing can be found."""
    chance: float
    """Share of right items among all that could be found: what a blind draw would reach."""
    modes: dict[str, Quality] = field(default_factory=dict)
    """By mode."""
    domains: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By domain: number of queries, and the recall of each mode."""


@dataclass(frozen=True, slots=True)
class _Query:
    task_id: str
    text: str
    domain: str
    relevant: frozenset[str]
    share: float


def evaluate(
    store: Store,
    *,
    k: int = 5,
    modes: Sequence[Mode] | None = None,
    weights: Weights = DEFAULT_WEIGHTS,
    embedder: str | Embedder | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> EvaluationReport:
    """Leave one task out, over every task of the store that has a goal in the index.

    Args:
        store: the store, with an index of trajectories.
        k: hits to look at.
        modes: modes to compare; all three where None, or ``text`` where there are no vectors.
        weights: of the scores.
        embedder: see :func:`trajstore.retrieval.search`.
        progress: called with queries done and queries in all.

    Raises:
        RetrievalError: there is no index, or no task that something could be found for.
    """
    shared = searcher(store)
    reader = store.reader()
    view = shared.view(reader, "trajectory", need_index=True)
    pointer = view.rows.pointer
    vectors = pointer is not None and pointer.fingerprint.dimension > 0
    asked: Sequence[Mode] = modes or (("text", "vector", "hybrid") if vectors else ("text",))

    def vector_of(text: str) -> Any:
        return shared.query_vector(view, text, embedder) if vectors else None

    queries, without = _queries(view, vector_of)
    if not queries:
        raise RetrievalError(
            f"None of the {without} tasks of {store.root.uri} has a success of its domain outside "
            "itself, so nothing can be measured."
        )
    results: dict[str, list[_Measured]] = {mode: [] for mode in asked}
    for done, query in enumerate(queries, 1):
        for mode in asked:
            options: SearchOptions = {"k": k, "weights": weights, "embedder": embedder}
            options |= {"mode": mode, "task_id": query.task_id}
            results[mode].append(_measured(store, query, options))
        if progress is not None:
            progress(done, len(queries))
    return EvaluationReport(
        snapshot=reader.snapshot.version,
        k=k,
        queries=len(queries),
        without_answer=without,
        chance=_mean([q.share for q in queries]),
        modes={mode: _quality(found) for mode, found in results.items()},
        domains=_by_domain(queries, results),
    )


_Measured = tuple[float, float, float]


def _measured(store: Store, query: _Query, options: SearchOptions) -> _Measured:
    """Recall, reciprocal rank and gain of one query."""
    ids = [h.item_id for h in search(store, query.text, **options)]
    right, k = query.relevant, options["k"]
    return recall_at_k(ids, right, k), mrr(ids, right, k), ndcg(ids, right, k)


def _quality(found: Sequence[_Measured]) -> Quality:
    recall, rank, gain = (_mean(values) for values in zip(*found, strict=True))
    return Quality(recall=recall, mrr=rank, ndcg=gain)


def _queries(view: View, vector_of: Callable[[str], Any]) -> tuple[list[_Query], int]:
    """One query a task that has an answer, ordered by task; and how many have none."""
    np = numpy()
    alive = np.flatnonzero(view.alive())
    place = view.place[alive]
    known = view.catalogue.table.take(pa.array(place))
    tasks = known.column("task_id").to_pylist()
    domains = domain(known).to_pylist()
    successes = view.catalogue.success[place] > 0
    ids = view.rows.table.column("item_id").take(pa.array(alive)).to_pylist()
    first: dict[str, int] = {}
    for at, task in enumerate(tasks):
        first.setdefault(task, at)
    texts = view.rows.text(alive[np.array(list(first.values()), int)]).to_pylist() if first else []
    names, listed = np.array(tasks, object), np.array(domains, object)
    queries: list[_Query] = []
    for (task, at), text in sorted(zip(first.items(), texts, strict=True)):
        left_out = [task, *near_tasks(view, task, goal=text, vector=vector_of(text))]
        possible = ~np.isin(names, left_out)
        right = np.flatnonzero(possible & successes & (listed == domains[at]))
        if len(right):
            share = len(right) / int(possible.sum())
            relevant = frozenset(ids[i] for i in right)
            queries.append(_Query(task, text, domains[at], relevant, share))
    return queries, len(first) - len(queries)


def domain(rows: pa.Table) -> pa.ChunkedArray:
    """The domain of each row: its environment, else its source."""
    source = pc.binary_join_element_wise("source", rows.column("source"), ":")
    return pc.coalesce(rows.column("environment"), source)


def _by_domain(
    queries: Sequence[_Query], results: dict[str, list[_Measured]]
) -> dict[str, dict[str, Any]]:
    places: dict[str, list[int]] = {}
    for at, query in enumerate(queries):
        places.setdefault(query.domain, []).append(at)
    return {
        name: {"queries": len(at)}
        | {mode: _mean([found[i][0] for i in at]) for mode, found in results.items()}
        for name, at in sorted(places.items(), key=lambda p: (-len(p[1]), p[0]))
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
