"""Hits that repeat a better one: of a task that has its hits, or the same text once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trajstore.errors import RetrievalError
from trajstore.retrieval.arrays import numpy
from trajstore.retrieval.view import View

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Bools, Ints


def of_few_tasks(view: View, rows: Ints, most: int | None) -> Bools:
    """Which rows are among the first ``most`` of their task; a row without a task always is.

    Args:
        view: the rows' view.
        rows: rows, the best first.
        most: hits a task; None is no bound.
    """
    np = numpy()
    if most is None:
        return np.ones(len(rows), bool)  # type: ignore[no-any-return]
    tasks = view.catalogue.task_codes[view.place[rows]]
    return (tasks < 0) | (_earlier(tasks) < most)


def unlike_before(view: View, rows: Ints, distinct: float | None, enough: int) -> Bools:
    """Which rows are not the same as one that is kept before them.

    Args:
        view: the rows' view.
        rows: rows, the best first.
        distinct: 1 for equal texts alone, less for a cosine from which on texts are the same; None
            keeps all.
        enough: rows to look for; with a cosine, no row is kept after so many.

    Raises:
        RetrievalError: a cosine is asked for, and the index has no vectors.
    """
    np = numpy()
    if distinct is None:
        return np.ones(len(rows), bool)  # type: ignore[no-any-return]
    fresh: Bools = _earlier(view.rows.text_keys[rows]) == 0
    if distinct == 1 or not len(rows):
        return fresh
    pointer = view.rows.pointer
    if pointer is None or not pointer.fingerprint.dimension:
        raise RetrievalError("distinct below 1 compares vectors, and this index has none.")
    return _apart(view, rows, fresh, distinct, enough)


def _apart(view: View, rows: Ints, fresh: Bools, distinct: float, enough: int) -> Bools:
    """Go through the rows until enough are kept, each compared with those before it."""
    np = numpy()
    places = np.flatnonzero(fresh)
    kept = np.zeros(len(rows), bool)
    chosen = np.zeros((0, 0), np.float32)
    for start in range(0, len(places), max(enough, 1)):
        some = places[start : start + max(enough, 1)]
        vectors = view.rows.vectors(rows[some])
        chosen = chosen.reshape(-1, vectors.shape[1])
        for at, vector in zip(some, vectors, strict=True):
            if len(chosen) >= enough:
                return kept  # type: ignore[no-any-return]
            if not len(chosen) or float((chosen @ vector).max()) < distinct:
                kept[at] = True
                chosen = np.concatenate((chosen, vector[None]))
    return kept  # type: ignore[no-any-return]


def _earlier(codes: Ints) -> Ints:
    """How many equal codes stand before each."""
    np = numpy()
    order = np.argsort(codes, kind="stable")
    listed = codes[order]
    new = np.ones(len(codes), bool)
    new[1:] = listed[1:] != listed[:-1]
    starts = np.flatnonzero(new)
    found: Ints = np.empty(len(codes), np.int64)
    found[order] = np.arange(len(codes)) - np.repeat(starts, np.diff([*starts, len(codes)]))
    return found
