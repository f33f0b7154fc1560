"""The two lists that a search looks through: nearest in meaning, and best in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trajstore.retrieval.arrays import numpy
from trajstore.retrieval.fusion import top
from trajstore.retrieval.index_table import one_of_revisions
from trajstore.retrieval.rows import DIGITS, Rows, rounded_cosines
from trajstore.retrieval.view import View
from trajstore.retrieval.words import query_words

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Bools, Doubles, Ints, Vectors

_GATHERED = 0.4
_GATHER = 512  # rows that stay in the cache of a core
_BLOCK = 65_536
_PROBES = 32
_NAMED = 1024


def nearest(
    view: View, vector: Vectors, mask: Bools, count: int, *, where: str | None = None
) -> tuple[Ints, Doubles]:
    """The ``count`` allowed rows nearest to a vector, the nearest first, with their cosines.

    Up to :data:`~trajstore.retrieval.index_table.EXACT_ROWS` texts every allowed one is compared.
    Above, the vector index proposes; where it does not propose enough, every allowed row is read.

    Args:
        view: the rows.
        vector: of length 1.
        mask: rows that may be found.
        count: how many.
        where: a condition for the vector index that all allowed rows fit.
    """
    np = numpy()
    rows = view.rows
    if rows.matrix is not None:
        return _of_held(rows, rows.matrix, vector, mask, count)
    allowed = np.flatnonzero(mask)
    if len(allowed) > _NAMED * 16:
        found = _proposed(view, vector, allowed, count, where)
        if len(found) >= min(count, len(allowed)):
            cosines = rounded_cosines(rows.vectors(found), vector)
            order = top(cosines, count)
            return found[order], cosines[order]
    return _read_all(rows, vector, allowed, count)


def _of_held(
    rows: Rows, matrix: Vectors, query: Vectors, mask: Bools, count: int
) -> tuple[Ints, Doubles]:
    np = numpy()
    number = int(np.count_nonzero(mask))
    if number >= _GATHERED * len(matrix):
        return _best(rows, rows.cosines(query), mask, count, np.arange(len(matrix)))
    allowed = np.flatnonzero(mask)
    texts = rows.text_of[allowed]
    wanted = np.zeros(len(matrix), bool)
    wanted[texts] = True
    distinct = np.flatnonzero(wanted)
    found: Doubles = np.zeros(len(matrix))
    if len(distinct) and distinct[-1] - distinct[0] + 1 == len(distinct):  # no copy is needed
        whole = slice(distinct[0], distinct[-1] + 1)
        found[whole] = rounded_cosines(matrix[whole], query)
    else:
        for start in range(0, len(distinct), _GATHER):
            part = distinct[start : start + _GATHER]
            found[part] = rounded_cosines(matrix[part], query)
    cosines = found[texts]
    order = top(cosines, count)
    return allowed[order], cosines[order]


def _best(
    rows: Rows, values: Doubles, mask: Bools, count: int, texts: Ints
) -> tuple[Ints, Doubles]:
    """The ``count`` allowed rows whose texts have the highest values, and these.

    The best texts are looked at first, and more of them where they have too few allowed rows: that
    is cheaper than to sort a value for each row.

    Args:
        rows: the rows.
        values: of each text.
        mask: rows that may be found.
        count: how many.
        texts: those that may be found.
    """
    np = numpy()
    share = np.count_nonzero(mask) / max(1, int(rows.text_of.max(initial=0)) + 1)
    some = int(1.5 * count / max(share, 1.0)) + 1
    while True:
        if some < len(texts):
            low = -values[texts]
            chosen = texts[low <= np.partition(low, some - 1)[some - 1]]
        else:
            chosen = texts
        found = np.sort(rows.of_texts(chosen))
        found = found[mask[found]]
        if len(found) >= count or len(chosen) == len(texts):
            scored = values[rows.text_of[found]]
            order = top(scored, count)
            return found[order], scored[order]
        some *= 8


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
        cosines = np.concatenate((cosines, rounded_cosines(rows.vectors(part), vector)))
        order = top(cosines, count)
        places, cosines = places[order], cosines[order]
    return places, cosines


def by_words(view: View, text: str, allowed: Bools, count: int) -> tuple[Ints, Doubles, str | None]:
    """The best allowed rows by BM25, the best first, with their scores and a note, if any.

    At least ``count`` of them where so many hold a word of the query. Up to some ten million words
    the distinct texts are scored in memory; above, LanceDB's full-text index is asked. Where that
    fails, every text is scanned, and the note says so.
    """
    np = numpy()
    words = query_words(text)
    if not words or not allowed.any():
        return np.zeros(0, int), np.zeros(0), None
    scan, note = view.rows.word_scan, None
    if scan is None:
        try:
            return (*_full_text(view.rows, words, allowed, count), None)
        except (ValueError, RuntimeError, OSError) as error:
            note = (
                f"the full-text index failed ({error}), so every text was scanned; `trajstore "
                "index STORE --rebuild` makes it anew"
            )
            scan = view.rows.whole_word_scan
    scores = np.round(scan.scores(words), DIGITS)
    return (*_best(view.rows, scores, allowed, count, np.flatnonzero(scores > 0)), note)


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
        scores = np.round(found.column("_score").to_numpy().astype(np.float64), DIGITS)
        kept = (at >= 0) & np.concatenate((allowed, [False]))[at]
        if kept.sum() >= count or len(at) < limit:
            order = np.lexsort((at[kept], -scores[kept]))[:count]
            return at[kept][order], scores[kept][order]
        limit = min(limit * 8, max(len(rows) * 2, limit + 1))
