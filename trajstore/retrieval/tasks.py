"""What a task must not be shown: its own runs, and those of tasks that are nearly the same."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import MissingDependencyError, RetrievalError
from trajstore.filters.goals import normalised
from trajstore.filters.task_groups import GoalLikeness
from trajstore.retrieval.arrays import numpy
from trajstore.retrieval.candidates import by_words, nearest
from trajstore.retrieval.query import Query
from trajstore.retrieval.view import Searcher, View
from trajstore.retrieval.words import segmented

if TYPE_CHECKING:
    from trajstore.retrieval.arrays import Bools, Ints, Vectors

_GOALS = 16
_LOOKED_AT = 128
_LIKENESS = GoalLikeness()


def near_the_asking(
    shared: Searcher, view: View, query: Query, *, by_meaning: bool
) -> tuple[list[str], str | None]:
    """Tasks nearly the same as the one that asks, and a note where they could not be looked for.

    Args:
        shared: the searcher of the store.
        view: what is searched, of any level.
        query: what is asked.
        by_meaning: whether the goal may be embedded, too; a search by words loads no model.
    """
    if query.task_id is None or query.allow_same_task:
        return [], None
    runs = view
    if view.level != "trajectory":
        try:
            runs = shared.view(view.catalogue.reader, "trajectory", need_index=False)
        except RetrievalError as error:  # too many runs to look through without an index
            return [], f"tasks nearly the same as {query.task_id} were not looked for: {error}"
    goal = query.asking_goal()
    vector = _of_goal(shared, view, runs, query) if by_meaning and goal.strip() else None
    return near_tasks(runs, query.task_id, goal=goal, vector=vector), None


def _of_goal(shared: Searcher, view: View, runs: View, query: Query) -> Vectors | None:
    """The vector of the asking goal; None where the runs have none, or of an unknown embedder."""
    if runs.rows.pointer is None or not _has_vectors(runs):
        return None
    own = view.rows.pointer
    goal = query.asking_goal()
    if own is not None and own.fingerprint == runs.rows.pointer.fingerprint:
        return shared.query_vector(runs, goal, query.embedder)
    try:
        return shared.query_vector(runs, goal, None)
    except (MissingDependencyError, RetrievalError):
        return None


def near_tasks(
    runs: View, task_id: str, *, goal: str | None = None, vector: Vectors | None = None
) -> list[str]:
    """Tasks that are nearly the same as one, without itself, in ascending order.

    As in :func:`trajstore.filters.task_groups.task_groups`: goals are equal up to case and spaces,
    or their word pairs have a Jaccard similarity of 0.8, or their vectors a cosine of 0.95. Here
    each task is compared with the one that asks, so no set has to be grouped before a search.

    Args:
        runs: the view of trajectories.
        task_id: the task that asks; it need not be in the store.
        goal: its goal, where it is not in the store.
        vector: of that goal.
    """
    np = numpy()
    key = (task_id, goal, vector is not None)
    if key in runs.excluded:
        found: list[str] = runs.excluded[key]
        return found
    alive = runs.alive()
    own = np.flatnonzero(alive & runs.of_runs(runs.catalogue.of_tasks([task_id])))
    _, first = np.unique(runs.rows.text_of[own], return_index=True)
    mine = own[np.sort(first)][:_GOALS]
    asked = [*(_strings(runs.rows.text(mine)) if len(mine) else ()), *([goal] if goal else ())]
    vectors = [*(runs.rows.vectors(mine) if _has_vectors(runs) and len(mine) else ())]
    vectors += [] if vector is None else [vector]
    near = _near_rows(runs, asked, vectors, alive)
    tasks = runs.catalogue.table.column("task_id").take(pa.array(runs.place[near]))
    names = sorted(set(_strings(pc.unique(tasks).drop_null())) - {task_id})
    runs.keep_excluded(key, names)
    return names


def _has_vectors(view: View) -> bool:
    pointer = view.rows.pointer
    return pointer is not None and pointer.fingerprint.dimension > 0


def _near_rows(runs: View, goals: list[str], vectors: list[Vectors], alive: Bools) -> Ints:
    """Rows whose goal is nearly one of ``goals``."""
    np = numpy()
    looked_at = [np.zeros(0, np.int64)]
    near = [np.zeros(0, np.int64)]
    for vector in vectors:
        rows, cosines = nearest(runs, vector, alive, _LOOKED_AT)
        looked_at.append(rows)
        near.append(rows[cosines >= _LIKENESS.cosine])
    if len(vectors) < len(goals):  # texts that share most words are near in vectors, too
        looked_at += [by_words(runs, goal, alive, _LOOKED_AT)[0] for goal in goals]
    candidates = np.concatenate(looked_at)
    _, first = np.unique(runs.rows.text_of[candidates], return_index=True)
    candidates = candidates[first]
    candidates = candidates[_of_like_length(runs.rows.text(candidates), goals)]
    if len(candidates) and goals:
        near.append(candidates[_alike(runs.rows.text(candidates), goals)])
    texts = np.unique(runs.rows.text_of[np.concatenate(near)])
    rows = runs.rows.of_texts(texts)
    return rows[alive[rows]]


def _of_like_length(texts: pa.Array, goals: list[str]) -> Bools:
    """Which texts have half to twice the length of a goal; others cannot share most words."""
    np = numpy()
    lengths = pc.utf8_length(texts).to_numpy(zero_copy_only=False)
    found = np.zeros(len(texts), bool)
    for goal in goals:
        found |= (2 * lengths >= len(goal)) & (lengths <= 2 * len(goal))
    return found  # type: ignore[no-any-return]


def _alike(texts: pa.Array, goals: list[str]) -> Bools:
    """Which texts are equal to a goal up to form, or share most of its word pairs."""
    np = numpy()
    whole = pa.concat_arrays([texts, pa.array(goals, pa.string())])
    plain = _strings(normalised(whole))
    pairs = [_pairs(line.split()) for line in _strings(segmented(whole))]
    count = len(texts)
    least = _LIKENESS.jaccard or 1.0
    return np.array(  # type: ignore[no-any-return]
        [
            any(
                (plain[at] is not None and plain[at] == plain[goal])
                or _jaccard(pairs[at], pairs[goal]) >= least
                for goal in range(count, len(whole))
            )
            for at in range(count)
        ],
        bool,
    )


def _pairs(words: list[str]) -> frozenset[tuple[str, str]]:
    return frozenset(pairwise(words))


def _jaccard(one: frozenset[tuple[str, str]], other: frozenset[tuple[str, str]]) -> float:
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared) if shared else 0.0


def _strings(values: pa.Array | pa.ChunkedArray) -> list[str]:
    """A few hundred texts as Python strings."""
    listed: list[str] = values.to_pylist()
    return listed
