"""Groups of tasks that are the same or nearly the same, so that one side of a split knows them all.

A task joins another where a run of each has the same goal up to case and spaces, the same prompt,
or goals that are nearly the same. Nearly the same goals join by way of a representative: a goal
joins the first goal that it is like among those that stand for others, never a goal that itself
was joined. So a long chain of small differences does not end in one group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.filters.cosine import cosine_representatives, unit_vectors
from trajstore.filters.embeddings import Embed, embedded
from trajstore.filters.goals import normalised, words
from trajstore.filters.minhash import choose_bands
from trajstore.filters.selection import Frame
from trajstore.filters.semantic import check_cosine
from trajstore.filters.sequences import asked, goals, masked
from trajstore.filters.shingles import ShingleSets, arrays, shingle_sets
from trajstore.filters.similar import representatives, similar_pairs

_SHINGLE = 2
_BLOCK = 1024
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class GoalLikeness:
    """When two goals are nearly the same."""

    jaccard: float | None = 0.8
    """Least Jaccard similarity of their word pairs, 0 to 1; None looks at equal text only."""
    cosine: float = 0.95
    """Least cosine of their vectors, where there is an ``embed``."""
    embed: Embed | None = None
    """Makes vectors of goals."""

    def __post_init__(self) -> None:
        """Check the thresholds."""
        check_cosine(self.cosine)
        if self.jaccard is not None:
            choose_bands(self.jaccard)


@dataclass(frozen=True, slots=True)
class TaskKeys:
    """What tells whether runs are at the same task; one row a run, in order of the frame."""

    task: pa.Array
    """``task_id``."""
    goal: pa.Array
    """The goal, normalised; null where there is none."""
    prompt: pa.Array
    """Hash of what the agent was told before its first step; null where no user said anything."""


def task_keys(frame: Frame) -> TaskKeys:
    """Ask for tasks, goals and prompts of the rows."""
    prompt = asked(frame, _PROMPTS).column("prompt")
    columns = (frame.rows.column("task_id"), normalised(goals(frame)), prompt)
    return TaskKeys(*(_one(c) for c in columns))


_PROMPTS = f"""
    SELECT trajectory_id, md5(string_agg(actor || chr(31) || coalesce({masked("text")}, '')
        || chr(31) || coalesce(content, ''), chr(30) ORDER BY step_index)) AS prompt
    FROM (
        SELECT trajectory_id, step_index, actor, text, content
        FROM steps LEFT JOIN (
            SELECT trajectory_id, min(step_index) AS first FROM steps
            WHERE actor = 'agent' AND {{where}} GROUP BY trajectory_id) USING (trajectory_id)
        WHERE {{where}} AND actor IN ('system', 'user') AND (first IS NULL OR step_index < first))
    GROUP BY trajectory_id
    HAVING bool_or(actor = 'user' AND (trim(text) <> '' OR content IS NOT NULL))"""


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def task_groups(frame: Frame, likeness: GoalLikeness | None = None) -> pa.Array:
    """For each row the group of tasks that its task is in, named by the smallest task id in it.

    Whoever must not see a task (a test set, a search for experiences at that very task) must not
    see its group. The groups depend on the set of rows, not on their order.

    Args:
        frame: the runs.
        likeness: when goals are nearly the same; the defaults where None.
    """
    return groups_of(task_keys(frame), likeness or GoalLikeness())


def groups_of(keys: TaskKeys, likeness: GoalLikeness) -> pa.Array:
    """The groups of :func:`task_groups` for keys at hand."""
    tasks = _distinct(keys.task)
    task = pc.index_in(keys.task, value_set=tasks)
    goals_there = distinct_goals(keys)
    goal = pc.index_in(keys.goal, value_set=goals_there)
    prompt = pc.index_in(keys.prompt, value_set=_distinct(keys.prompt))
    links = [_links(task, prompt)]
    links += [_links(task, stands.take(goal)) for stands in _stand_ins(goals_there, likeness)]
    return tasks.take(_joined(links, len(tasks))).take(task)


def distinct_goals(keys: TaskKeys) -> pa.Array:
    """The goals there are, in order of their text."""
    return _distinct(keys.goal)


def _distinct(values: pa.Array) -> pa.Array:
    found = pc.unique(values).drop_null()
    return found.take(pc.sort_indices(found))


def _stand_ins(distinct: pa.Array, likeness: GoalLikeness) -> Iterator[pa.Array]:
    """For each goal the number of the one that stands for it, by each kind of likeness."""
    yield pa.arange(0, len(distinct))
    if likeness.jaccard is not None and len(distinct) > 1:
        yield pa.array(representatives(_goal_sets(distinct), likeness.jaccard)[0])
    if likeness.embed is not None and len(distinct) > 1:
        vectors, there = unit_vectors(embedded(distinct, likeness.embed), "goal")
        yield pa.array(cosine_representatives(vectors, likeness.cosine, has_vector=there)[0])


def _goal_sets(distinct: pa.Array) -> ShingleSets:
    return shingle_sets(words(distinct).column("hashes"), _SHINGLE)


def near_goals(
    distinct: pa.Array, likeness: GoalLikeness, apart: Sequence[int]
) -> list[tuple[int, int]]:
    """All pairs of goals that are nearly the same and whose numbers in ``apart`` differ.

    Args:
        distinct: goals, each once.
        likeness: when two are nearly the same.
        apart: a number for each goal.

    Returns:
        Places of the two in ``distinct``, the smaller first, in ascending order.
    """
    found: set[tuple[int, int]] = set()
    if len(distinct) < 2:
        return []
    if likeness.jaccard is not None:
        numbers = arrays().asarray(apart)
        left, right, _ = similar_pairs(_goal_sets(distinct), likeness.jaccard, apart=numbers)
        found.update(zip(left.tolist(), right.tolist(), strict=True))
    if likeness.embed is not None:
        found.update(_near_vectors(distinct, likeness.embed, likeness.cosine, apart))
    return sorted(found)


def _near_vectors(
    distinct: pa.Array, embed: Embed, cosine: float, apart: Sequence[int]
) -> Iterator[tuple[int, int]]:
    np = arrays()
    numbers = np.asarray(apart)
    vectors, there = unit_vectors(embedded(distinct, embed), "goal")
    for start in range(0, len(vectors), _BLOCK):
        part = slice(start, start + _BLOCK)
        alike = vectors[part] @ vectors.T >= cosine - _TOLERANCE
        alike &= (numbers[part, None] != numbers) & there[part, None] & there
        for left, right in zip(*np.nonzero(alike), strict=True):
            if start + left < right:
                yield int(start + left), int(right)


def _links(task: pa.Array, key: pa.Array) -> list[tuple[int, int]]:
    """Pairs of tasks that share a key: the first task of each key with every other one."""
    table = pa.table({"task": task, "key": key}).filter(pc.is_valid(key))
    edges = table.group_by(["key", "task"]).aggregate([])
    first = edges.group_by("key").aggregate([("task", "min")])
    place = pc.index_in(edges.column("key"), value_set=first.column("key"))
    least = first.column("task_min").take(place)
    other = pc.not_equal(least, edges.column("task"))
    linked = (least.filter(other), edges.column("task").filter(other))
    return [(x.as_py(), y.as_py()) for x, y in zip(*linked, strict=True)]


def _joined(links: Iterable[Iterable[tuple[int, int]]], size: int) -> pa.Array:
    """Union-find: for each number the smallest one that it is linked with, however far."""
    root = list(range(size))

    def find(number: int) -> int:
        while root[number] != number:
            root[number] = root[root[number]]
            number = root[number]
        return number

    for pairs in links:
        for one, other in pairs:
            low, high = sorted((find(one), find(other)))
            root[high] = low
    return pa.array([find(n) for n in range(size)], pa.int64())
