"""The two lists that a search looks through: nearest in meaning, and best in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trajstore.retrieval.arrays import numpy
from trajstore.retrieval.fusion import top
from trajstore.retrieval.index_table import one_of_revisions
from trajstore.retrieval.rows import Rows
from trajstore.retrieval.view import View
from trajstore.retrieval.words import query_words

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Bools, Doubles, Ints, Vectors

_GATHERED = 0.4
_GATHER = 512  # rows that stay in the cache of a core
_BLOCK = 65_536
_PROBES = 32
_NAMED = 1024
_DIGITS = 6


def nearest(
    view: View, vector: Vectors, allowed: Ints, count: int, *, where: str | None = None
) -> tuple[Ints, Doubles]:
    """The ``count`` allowed rows nearest to a vector, the nearest first, with their cosines.

    Up to :data:`~trajstore.retrieval.index_table.EXACT_ROWS` texts every allowed one is compared.
    Above, the vector index proposes; where it does not propose enough, every allowed row is read.

    Args:
        view: the rows.
        vector: of length 1.
        allowed: rows that may be found, in ascending order.
        count: how many.
        where: a condition for the vector index that all allowed rows fit.
    """
    rows = view.rows
    if rows.matrix is not None:
        cosines = _row_cosines(rows, vector, allowed)
        order = top(cosines, count)
        return allowed[order], cosines[order]
    if len(allowed) > _NAMED * 16:
        found = _proposed(view, vector, allowed, count, where)
        if len(found) >= min(count, len(allowed)):
            cosines = _cosines(rows.vectors(found), vector)
            order = top(cosines, count)
            return found[order], cosines[order]
    return _read_all(rows, vector, allowed, count)


def _row_cosines(rows: Rows, query: Vectors, allowed: Ints) -> Doubles:
    np = numpy()
    matrix = rows.matrix
    assert matrix is not None
    texts = rows.text_of[allowed]
    if len(allowed) >= _GATHERED * len(matrix):
        return _cosines(matrix, query)[texts]
    wanted = np.zeros(len(matrix), bool)
    wanted[texts] = True
    distinct = np.flatnonzero(wanted)
    found: Doubles = np.zeros(len(matrix))
    for start in range(0, len(distinct), _GATHER):
        part = distinct[start : start + _GATHER]
        whole = slice(part[0], part[-1] + 1)  # rows that adjoin need no copy
        adjoin = whole.stop - whole.start == len(part)
        found[part] = _cosines(matrix[whole if adjoin else part], query)
    return found[texts]


def _cosines(vectors: Vectors, query: Vectors) -> Doubles:
    """To six digits, the last ones being noise.

    ``vecdot`` goes row by row in one thread: a product of matrices by BLAS costs three to thirty
    times the processor time here, most of it in threads that wait.
    """
    np = numpy()
    found: Doubles = np.round(np.vecdot(vectors, query).astype(np.float64), _DIGITS)
    return found


def _proposed(view: View, vector: Vectors, allowed: Ints, count: int, where: str | None) -> Ints:
    """Allowed rows that the vector index finds, in ascending order."""
    np = numpy()
    index = view.rows.index
    assert index is not None
    share = len(allowed) / max(1, len(view.rows))
    limit = int(min(len(view.rows), 1.5 * count / share + count))
    found = index.by_vector(vector, limit, _PROBES, where)
    places = view.rows.places(found.column("_rowid").to_numpy().astype(np.int64))
    kept: Ints = np.intersect1d(places, allowed)
    return kept


def _read_all(rows: Rows, vector: Vectors, allowed: Ints, count: int) -> tuple[Ints, Doubles]:
    """Compare every allowed row, some ten thousand in memory at a time."""
    np = numpy()
    places, cosines = allowed[:0], np.zeros(0)
    for start in range(0, len(allowed), _BLOCK):
        part = allowed[start : start + _BLOCK]
        places = np.concatenate((places, part))
        cosines = np.concatenate((cosines, _cosines(rows.vectors(part), vector)))
        order = top(cosines, count)
        places, cosines = places[order], cosines[order]
    return places, cosines


def by_words(view: View, text: str, allowed: Bools, count: int) -> tuple[Ints, Doubles, str | None]:
    """The best allowed rows by BM25, the best first, with their scores and a note, if any.

    At least ``count`` of them where so many hold a word of the query. Where the full-text index
    fails, every text is scanned, and the note says so.
    """
    words = query_words(text)
    if not words or not allowed.any():
        return numpy().zeros(0, int), numpy().zeros(0), None
    if view.rows.index is None:
        return (*_scanned(view.rows, words, allowed, count), None)
    try:
        return (*_full_text(view.rows, words, allowed, count), None)
    except (ValueError, RuntimeError, OSError) as error:
        note = (
            f"the full-text index failed ({error}), so every text was scanned; `trajstore index "
            "STORE --rebuild` makes it anew"
        )
        return (*_scanned(view.rows, words, allowed, count), note)


def _scanned(rows: Rows, words: list[str], allowed: Bools, count: int) -> tuple[Ints, Doubles]:
    np = numpy()
    scores = np.where(allowed, np.round(rows.scanned(words), _DIGITS), 0.0)
    order = top(scores, min(count, int((scores > 0).sum())))
    return order, scores[order]


def _full_text(rows: Rows, words: list[str], allowed: Bools, count: int) -> tuple[Ints, Doubles]:
    """Ask for more and more until enough of what is found is allowed, or all is found."""
    np = numpy()
    index = rows.index
    assert index is not None
    places = np.flatnonzero(allowed)
    where = None
    if len(places) <= _NAMED:
        where = one_of_revisions(np.unique(rows.table.column("revision").to_numpy()[places]))
    limit = count
    while True:
        found = index.by_words(words, limit, where)
        at = rows.places(found.column("_rowid").to_numpy().astype(np.int64))
        scores = np.round(found.column("_score").to_numpy().astype(np.float64), _DIGITS)
        kept = (at >= 0) & np.concatenate((allowed, [False]))[at]
        if kept.sum() >= count or len(at) < limit:
            order = np.lexsort((at[kept], -scores[kept]))[:count]
            return at[kept][order], scores[kept][order]
        limit = min(limit * 8, max(len(rows) * 2, limit + 1))
