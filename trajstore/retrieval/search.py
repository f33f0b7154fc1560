"""Search the experiences of a store: filters first, then two lists, one score, and the bounds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import RetrievalError
from trajstore.filters.kernels import Cosine
from trajstore.filters.mmr import mmr as most_relevant
from trajstore.retrieval.arrays import numpy
from trajstore.retrieval.candidates import by_words, nearest
from trajstore.retrieval.fusion import RRF_K, best_first, dense_ranks, rrf
from trajstore.retrieval.hits import Hit, Hits, Mode, Weights
from trajstore.retrieval.levels import MEMORIES
from trajstore.retrieval.masks import allowed_rows
from trajstore.retrieval.query import Query, SearchOptions
from trajstore.retrieval.repeats import of_few_tasks, unlike_before
from trajstore.retrieval.rows import rounded_cosines
from trajstore.retrieval.scoring import PARTS, recency, scores
from trajstore.retrieval.tasks import near_the_asking
from trajstore.retrieval.view import View, searcher
from trajstore.retrieval.words import query_words
from trajstore.store import Store

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Bools, Doubles, Ints, Vectors

_POOL, _POOL_A_HIT = 1000, 20
_READ, _READ_A_HIT = 100, 5  # where each vector is read from disk
_LISTED, _LISTED_A_HIT = 200, 8
TEXT_WEIGHT = 0.5
"""What the list of words counts beside the list of vectors (``docs/concepts/retrieval.md``)."""


@dataclass(frozen=True, kw_only=True)
class _Found:
    """The pool that is scored: each row once."""

    rows: Ints
    similarity: Doubles
    ranks: dict[str, Ints]
    measured: dict[str, Doubles]
    unlike: int = 0
    """Rows that are less like the query than was asked, and so not in it."""
    notes: tuple[str, ...] = ()


def search(store: Store, text: str, **asked: Unpack[SearchOptions]) -> Hits:
    """The items of a store that help most with a text.

    Filters and exclusions come first, so ``k`` hits come back whenever ``k`` items fit. What was
    deleted, replaced or has expired is never found, and outcomes are those of the store now, also
    where the index is older.

    Args:
        store: an open store.
        text: what is to be done; for steps see :func:`trajstore.retrieval.step_query`.
        asked: the fields of :class:`~trajstore.retrieval.query.Query`, such as ``k``, ``level``,
            ``mode``, ``where``, ``task_id``, ``success_only``, ``mmr``, ``min_similarity``.

    Raises:
        RetrievalError: there is no index for vectors, another embedder made it, or an argument
            makes no sense.
        QueryError: ``where`` is not allowed or fails.
    """
    query = Query(text=text, **asked)
    now = query.now or datetime.now(UTC)
    shared = searcher(store)
    reader = store.reader() if query.at is None else store.at(query.at)
    view = shared.view(reader, query.level, need_index=query.mode in {"vector", "hybrid"})
    mode = _mode(view, query.mode)
    if query.min_similarity is not None and mode == "text":
        raise RetrievalError(
            "min_similarity compares vectors, and a search by words has none. Leave mode out, and "
            f"make an index with vectors: `trajstore index STORE --level {query.level}`."
        )
    vector = None if mode == "text" else shared.query_vector(view, text, query.embedder)
    near, note = near_the_asking(shared, view, query, by_meaning=vector is not None)
    mask, cuts = allowed_rows(view, query, near=near, now=now)
    ranking, order = _ranked(view, query, mode, vector, mask, cuts, now)
    hits, cuts["token_budget"] = _within(ranking.hits(order), query.token_budget)
    return Hits(
        query=text,
        level=query.level,
        mode=mode,
        snapshot=reader.snapshot.version,
        k=query.k,
        hits=hits,
        repeated=ranking.ids(ranking.repeated),
        cuts={reason: count for reason, count in cuts.items() if count},
        notes=(*view.notes, *([note] if note else []), *ranking.found.notes),
    )


def _ranked(
    view: View,
    query: Query,
    mode: Mode,
    vector: Vectors | None,
    mask: Bools,
    cuts: dict[str, int],
    now: datetime,
) -> tuple[_Ranking, Ints]:
    """The pool and the places in it that are hits; what was cut goes into ``cuts``.

    Where repeats leave too few of the pool, a wider one is looked through, up to all there is.
    """
    allowed = int(numpy().count_nonzero(mask))
    wide = 1
    while True:
        found = _pool(view, query, mode, vector, mask, wide)
        ranking = _Ranking(view, found, query.weights, now)
        these: dict[str, int] = {}
        order = _cut(view, ranking, query, mode, allowed, these, wide)
        repeats = these.get("per_task", 0) + these.get("distinct", 0)
        whole = len(found.rows) >= allowed - found.unlike or these.get("no_match")
        if len(order) >= query.k or not repeats or whole:
            cuts |= these
            return ranking, order
        wide *= 8


def _cut(
    view: View,
    ranking: _Ranking,
    query: Query,
    mode: Mode,
    allowed: int,
    cuts: dict[str, int],
    wide: int,
) -> Ints:
    """The places of the pool that are hits, the best first; what was cut goes into ``cuts``."""
    size = len(ranking.found.rows)
    cuts["min_similarity"] = ranking.found.unlike
    allowed -= ranking.found.unlike
    if mode == "text" and size < min(allowed, _listed(query.k) * wide):
        cuts["no_match"] = allowed - size
        allowed = size
    order = ranking.order
    if query.min_score is not None:
        order = order[ranking.score[order] >= query.min_score]
        cuts["min_score"] = size - len(order)
    left = allowed - (size - len(order))
    order = _without_repeats(view, ranking, order, query, cuts)
    left -= cuts.get("per_task", 0) + cuts.get("distinct", 0)
    order = _diverse(view, ranking, order, query.k, query.mmr)
    cuts["k"] = left - len(order)
    return order


def _without_repeats(
    view: View, ranking: _Ranking, order: Ints, query: Query, cuts: dict[str, int]
) -> Ints:
    """The places that repeat no better one; with ``mmr``, enough of them to choose from."""
    kept = of_few_tasks(view, ranking.found.rows[order], query.per_task)
    cuts["per_task"] = len(order) - int(kept.sum())
    order = order[kept]
    enough = query.k if query.mmr is None else 4 * query.k
    kept = unlike_before(view, ranking.found.rows[order], query.distinct, enough)
    places = numpy().flatnonzero(kept)
    last = int(places[enough - 1]) + 1 if len(places) >= enough else len(order)
    ranking.repeated = order[:last][~kept[:last]][: query.k]
    seen = kept if query.distinct in {None, 1} else kept[:last]
    cuts["distinct"] = len(seen) - int(seen.sum())
    left: Ints = order[kept]
    return left


def _mode(view: View, mode: Mode | None) -> Mode:
    pointer = view.rows.pointer
    vectors = pointer is not None and pointer.fingerprint.dimension > 0
    if mode is None:
        return "hybrid" if vectors else "text"
    if mode != "text" and not vectors:
        raise RetrievalError(
            f"The {view.level} index has no vectors, so mode='{mode}' cannot be. Use mode='text', "
            "or embed with `trajstore index STORE --embedder minilm --rebuild`."
        )
    return mode


def _by_likeness_alone(query: Query) -> bool:
    """Whether the nearest are the hits, whatever else is known of them."""
    others = {getattr(query.weights, name) for name in PARTS if name != "similarity"}
    bounds = (query.per_task, query.distinct, query.mmr, query.state)
    return others == {0} and query.weights.similarity > 0 and bounds == (None,) * len(bounds)


def _listed(k: int) -> int:
    return max(_LISTED, _LISTED_A_HIT * k)


def _pool(
    view: View, query: Query, mode: Mode, vector: Vectors | None, mask: Bools, wide: int
) -> _Found:
    """Rows from the lists of a mode, with what each list says of them.

    The lists are ``wide`` times as long as a search without repeats needs.
    """
    np = numpy()
    empty = np.zeros(0, np.int64)
    near, cosines, worded, bm25, note = empty, np.zeros(0), empty, np.zeros(0), None
    if vector is not None:
        sql = _environment_sql(view, query)
        held = view.rows.matrix is not None
        most = max(_POOL, _POOL_A_HIT * query.k) if held else max(_READ, _READ_A_HIT * query.k)
        if held and mode == "vector" and _by_likeness_alone(query):
            most = query.k
        near, cosines = nearest(view, vector, mask, most * wide, where=sql)
    if mode != "vector":
        worded, bm25, note = by_words(view, query.text, mask, _listed(query.k) * wide)
    same = _in_state(view, mask, query.state)
    rows = np.unique(np.concatenate((near, worded, same)))
    measured = {"cosine": _spread(rows, near, cosines), "bm25": _spread(rows, worded, bm25)}
    ranks = {
        "vector": _spread(rows, near, dense_ranks(cosines)).astype(np.int64),
        "text": _spread(rows, worded, dense_ranks(bm25)).astype(np.int64),
    }
    similarity = _similarity(mode, ranks, measured, query.text)
    similarity[np.isin(rows, same)] = 1.0
    notes = () if note is None else (note,)
    found = _Found(rows=rows, similarity=similarity, ranks=ranks, measured=measured, notes=notes)
    if query.min_similarity is None or vector is None:
        return found
    all_else = len(cosines) > 0 and cosines[-1] < query.min_similarity
    return _alike(
        view, found, vector, query.min_similarity, same, int(mask.sum()) if all_else else None
    )


def _alike(
    view: View, found: _Found, vector: Vectors, least: float, same: Ints, allowed: int | None
) -> _Found:
    """The rows of a pool whose cosine with the query is high enough.

    Args:
        view: the rows.
        found: the pool; what came from the list of words alone has no cosine yet.
        vector: of the query.
        least: the least cosine.
        same: rows that are always enough.
        allowed: how many rows may be found, where all that are not in the pool are less like.
    """
    np = numpy()
    cosines = found.measured["cosine"].copy()
    unlisted = np.flatnonzero(found.ranks["vector"] == 0)
    if len(unlisted):
        cosines[unlisted] = rounded_cosines(view.rows.vectors(found.rows[unlisted]), vector)
    kept = (cosines >= least) | np.isin(found.rows, same)
    outside = 0 if allowed is None else allowed - len(kept)
    return _Found(
        rows=found.rows[kept],
        similarity=found.similarity[kept],
        ranks={name: values[kept] for name, values in found.ranks.items()},
        measured={name: values[kept] for name, values in found.measured.items()},
        unlike=outside + int(np.count_nonzero(~kept)),
        notes=found.notes,
    )


def _environment_sql(view: View, query: Query) -> str | None:
    """A condition for the vector index that every allowed row fits."""
    if not query.environment:
        return None
    same = f"environment = {_quoted(query.environment)}"
    return f"({same} OR environment IS NULL)" if view.level in MEMORIES else same


def _similarity(
    mode: Mode, ranks: dict[str, Ints], measured: dict[str, Doubles], text: str
) -> Doubles:
    """0 to 1: the cosine; BM25 beside one point a word; or the fused score by the best possible."""
    np = numpy()
    if mode == "vector":
        return np.clip(measured["cosine"], 0.0, 1.0)  # type: ignore[no-any-return]
    if mode == "text":
        return measured["bm25"] / (measured["bm25"] + max(1, len(query_words(text))))
    fused = rrf([ranks["vector"], ranks["text"]], weights=[1.0, TEXT_WEIGHT])
    return fused * (RRF_K + 1) / (1.0 + TEXT_WEIGHT)


def _spread(rows: Ints, listed: Ints, values: Any) -> Any:
    """Values of a list at the rows of the pool; 0 elsewhere."""
    np = numpy()
    found = np.zeros(len(rows))
    found[np.searchsorted(rows, listed)] = values
    return found


def _in_state(view: View, mask: Bools, state: str | None) -> Ints:
    np = numpy()
    if state is None:
        return np.zeros(0, np.int64)  # type: ignore[no-any-return]
    keys = view.rows.table.column("state_key")
    same: Ints = np.flatnonzero(mask & pc.fill_null(pc.equal(keys, state), False).to_numpy())
    return same


class _Ranking:
    """The pool in order of score."""

    def __init__(self, view: View, found: _Found, weights: Weights, now: datetime) -> None:
        known, place = view.catalogue, view.place[found.rows]
        self.view = view
        self.found = found
        self.parts = {
            "similarity": found.similarity,
            "success": known.success[place],
            "recency": recency(known.at[place], now, weights.half_life_days),
            "efficiency": known.efficiency[place],
            "utility": view.utility(found.rows),
        }
        self.repeated: Ints = found.rows[:0]
        self.score = scores(self.parts, weights)
        first = found.ranks["vector"]
        self.order = best_first(
            self.score, numpy().where(first > 0, first, first.max(initial=0) + 1)
        )

    def ids(self, order: Ints) -> tuple[str, ...]:
        """The ids of some rows of the pool, in their order."""
        if not len(order):
            return ()
        rows = pa.array(self.found.rows[order])
        return tuple(self.view.rows.table.column("item_id").take(rows).to_pylist())

    def hits(self, order: Ints) -> list[Hit]:
        """The hits of some rows of the pool, in their order."""
        rows = self.found.rows[order]
        if not len(rows):
            return []
        texts = self.view.rows.text(rows)
        own = self.view.rows.shown.take(pa.array(rows)).to_pylist()
        known = self.view.catalogue.shown.take(pa.array(self.view.place[rows])).to_pylist()
        return [
            self._hit(int(at), mine, of_run, str(text))
            for at, mine, of_run, text in zip(order, own, known, texts, strict=True)
        ]

    def _hit(self, at: int, own: dict[str, Any], of_run: dict[str, Any], text: str) -> Hit:
        ranks = {n: int(r[at]) for n, r in self.found.ranks.items() if r[at] > 0}
        parts = {n: float(v[at]) for n, v in self.parts.items()}
        names = {"vector": "cosine", "text": "bm25"}
        parts |= {names[n]: float(self.found.measured[names[n]][at]) for n in ranks}
        return Hit(
            level=self.view.level,
            item_id=own["item_id"],
            trajectory_id=own["trajectory_id"],
            step_index=own["step_index"],
            task_id=of_run["task_id"],
            text=text,
            score=float(self.score[at]),
            parts=parts,
            ranks=ranks,
            success=of_run["success"],
            reward=of_run["reward"],
            environment=of_run["environment"],
            n_tokens=-(-len(text.encode("utf-8", "replace")) // 4),
            source=of_run["source"],
        )


def _diverse(view: View, ranking: _Ranking, order: Ints, k: int, trade: float | None) -> Ints:
    """The first ``k``, or ``k`` of the first ``4 k`` that are unlike each other."""
    if trade is None or len(order) <= 1:
        return order[:k]
    pointer = view.rows.pointer
    if pointer is None or not pointer.fingerprint.dimension:
        raise RetrievalError("mmr compares vectors, and this index has none.")
    pool = order[: 4 * k]
    kernel = Cosine(view.rows.vectors(ranking.found.rows[pool]))
    picks = most_relevant(kernel, ranking.score[pool], k, trade=trade)
    chosen: Ints = pool[numpy().array(picks.places, int)]
    return chosen


def _within(hits: list[Hit], budget: int | None) -> tuple[tuple[Hit, ...], int]:
    """The hits that fit into the budget, taken in order, and how many do not."""
    if budget is None:
        return tuple(hits), 0
    kept: list[Hit] = []
    for hit in hits:
        if hit.n_tokens <= budget:
            kept.append(hit)
            budget -= hit.n_tokens
    return tuple(kept), len(hits) - len(kept)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
