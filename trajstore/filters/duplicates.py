"""Stages that keep one of several runs that did the same, or nearly the same.

Three operations, each with a name and a threshold of its own: equal sequences of actions
(``exact-duplicates``), sets of action n-grams that overlap (``near-duplicates``), and equal meaning
(``semantic-duplicates``, in :mod:`.semantic`). ``merge`` joins runs that somebody names.

Who is kept: success before unknown before failure, then reward, fewer tool calls, fewer tokens, id.
A run without actions is a duplicate of nothing. Nothing is lost: what is dropped is listed with the
id of the run that stands for it, and that run counts it (``duplicates``, ``duplicate_ids``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from trajstore.errors import SelectionError
from trajstore.filters.clusters import (
    Clusters,
    Within,
    best_first,
    groups_table,
    keep_best,
    scopes,
)
from trajstore.filters.minhash import Bands, choose_bands
from trajstore.filters.relations import relation
from trajstore.filters.selection import Frame, NamedStage, StageResult
from trajstore.filters.sequences import action_hashes
from trajstore.filters.shingles import arrays, shingle_sets
from trajstore.filters.similar import representatives


@dataclass(frozen=True, slots=True)
class ExactDuplicates(NamedStage):
    """Keep one of the runs whose canonical actions are the same, in the same order.

    Arguments are compared as canonical JSON with volatile values masked (UUIDs, times, temporary
    paths, addresses); what tools answered, and what was said beside a call, is not.
    """

    name: ClassVar[str] = "exact-duplicates"

    within: Within = "task"
    """Which runs are compared: ``task``, ``goal`` or ``all``."""
    same_outcome: bool = False
    """Compare only runs of the same outcome, so that no failure goes because of a success; pairs
    need that."""
    most_share: float | None = 0.5
    """Most runs of one source in one cluster, as a share of the source; None for no bound."""

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``exact-duplicate``; the detail is the id of the run that is kept.

        Raises:
            SelectionError: one cluster swallows a source.
        """
        return keep_best(
            frame.rows,
            self._clusters(frame),
            stage=self.name,
            reason="exact-duplicate",
            most_share=self.most_share,
        )

    def groups(self, frame: Frame) -> pa.Table:
        """What would be joined, in :data:`~trajstore.filters.clusters.GROUP_SCHEMA`."""
        return groups_table(frame.rows, self._clusters(frame))

    def _clusters(self, frame: Frame) -> Clusters:
        order = best_first(frame.rows)
        runs = pa.table(
            {
                "place": order,
                "rank": pa.arange(0, len(order)),
                "scope": scopes(frame, self.within, same_outcome=self.same_outcome).take(order),
                "actions": action_hashes(frame).take(order),
            }
        )
        found = relation(
            """
            SELECT CASE WHEN actions IS NULL THEN place
                ELSE first(place) OVER (PARTITION BY scope, actions ORDER BY rank) END AS kept
            FROM runs ORDER BY place""",
            tables={"runs": runs},
        )
        kept = found.column("kept").combine_chunks()
        return Clusters(kept, pa.repeat(1.0, len(kept)))


@dataclass(frozen=True, slots=True)
class NearDuplicates(NamedStage):
    """Keep one of the runs whose sets of action n-grams overlap.

    MinHash proposes pairs and the exact Jaccard similarity decides, so a run goes only if it really
    is at the threshold or above with the run that stands for it. Needs NumPy.
    """

    name: ClassVar[str] = "near-duplicates"

    threshold: float = 0.7
    """Least Jaccard similarity, above 0 and up to 1, itself included."""
    shingle: int = 2
    """Actions in an n-gram, 1 or more; runs are padded with a start and an end."""
    within: Within = "task"
    """Which runs are compared: ``task``, ``goal`` or ``all``."""
    same_outcome: bool = False
    """Compare only runs of the same outcome; near misses of a success make the best pairs."""
    bands: int | None = None
    """Bands of MinHash; None takes those that find 99.99 % of the pairs *at* the threshold."""
    rows: int | None = None
    """Hashes in a band; given together with ``bands``."""
    most_share: float | None = 0.5
    """Most runs of one source in one cluster, as a share of the source; None for no bound."""
    seed: int = 0
    """Of the hash functions."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.shingle < 1:
            raise SelectionError(f"A shingle is 1 action or more, not {self.shingle}.")
        if (self.bands is None) != (self.rows is None):
            raise SelectionError("The stage 'near-duplicates' takes bands and rows together.")
        self.minhash()

    def minhash(self) -> Bands:
        """The bands used; ``minhash().curve()`` tells which pairs they find how surely."""
        if self.bands is not None and self.rows is not None:
            return Bands(self.bands, self.rows)
        return choose_bands(self.threshold)

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``near-duplicate``; the detail is the id of the run that is kept.

        Raises:
            SelectionError: one cluster swallows a source.
            MissingDependencyError: NumPy is not installed.
        """
        return keep_best(
            frame.rows,
            self._clusters(frame),
            stage=self.name,
            reason="near-duplicate",
            most_share=self.most_share,
        )

    def groups(self, frame: Frame) -> pa.Table:
        """What would be joined, in :data:`~trajstore.filters.clusters.GROUP_SCHEMA`."""
        return groups_table(frame.rows, self._clusters(frame))

    def _clusters(self, frame: Frame) -> Clusters:
        order = best_first(frame.rows)
        sets = shingle_sets(action_hashes(frame).take(order), self.shingle)
        scope = scopes(frame, self.within, same_outcome=self.same_outcome).take(order)
        chosen, similarity = representatives(
            sets, self.threshold, bands=self.minhash(), scope=scope.to_numpy(), seed=self.seed
        )
        return in_row_order(order, chosen, similarity)


def in_row_order(order: pa.Array, chosen: Any, similarity: Any) -> Clusters:
    """Clusters of rows, from NumPy arrays over the rows in another order.

    Args:
        order: places of the rows in that order.
        chosen: for each of them the number, in that order, of the one that stands for it.
        similarity: how like the two are.
    """
    np = arrays()
    places = order.to_numpy()
    kept, like = np.empty(len(places), np.int64), np.empty(len(places))
    kept[places], like[places] = places[chosen], similarity
    return Clusters(pa.array(kept), pa.array(like))


@dataclass(frozen=True, slots=True)
class Merge(NamedStage):
    """Join the runs that are named, and no others: one run of each group stays.

    For what no threshold gets right: nobody has to lower one for all to join two runs.
    """

    name: ClassVar[str] = "merge"

    groups: tuple[Any, ...]
    """Groups of ids of trajectories, two or more each; no id twice."""
    keep_first: bool = False
    """Keep the id that is named first in a group, instead of the best run."""

    def __post_init__(self) -> None:
        """Check the groups."""
        groups = tuple(tuple(str(i) for i in g) for g in self.groups)
        object.__setattr__(self, "groups", groups)
        short = [g for g in groups if len(g) < 2]
        ids = [i for g in groups for i in g]
        twice = sorted({i for i in ids if ids.count(i) > 1}) if len(set(ids)) < len(ids) else []
        if short or twice or not groups:
            wrong = f"{twice[0]} stands there twice" if twice else f"{short or 'none'} is no group"
            message = f"The stage 'merge' takes groups of two or more ids, each id once; {wrong}."
            raise SelectionError(message)

    def parameters(self) -> dict[str, Any]:
        """The groups as lists."""
        return {"groups": [list(g) for g in self.groups], "keep_first": self.keep_first}

    def apply(self, frame: Frame) -> StageResult:
        """Drop ``merged``; the detail is the id of the run that is kept.

        Raises:
            SelectionError: an id is not among the rows.
        """
        rows = frame.rows
        ids = rows.column("trajectory_id")
        named = pa.array([i for g in self.groups for i in g], pa.string())
        group = pa.array([n for n, g in enumerate(self.groups) for _ in g], pa.int64())
        unknown = named.filter(pc.invert(pc.is_in(named, value_set=ids)))
        if len(unknown):
            message = (
                f"The stage 'merge' names {unknown[0]}, which is not among the {rows.num_rows} "
                "rows: no run has that id, or an earlier stage dropped it."
            )
            raise SelectionError(message)
        order = best_first(rows)
        ranks = pc.sort_indices(order).cast(pa.int64())
        place = pc.index_in(ids, value_set=named).combine_chunks()
        rank = place.cast(pa.int64()) if self.keep_first else ranks
        runs = pa.table(
            {"place": pa.arange(0, rows.num_rows), "rank": rank, "group": group.take(place)}
        )
        kept = relation(
            """
            SELECT CASE WHEN "group" IS NULL THEN place
                ELSE first(place) OVER (PARTITION BY "group" ORDER BY rank) END AS kept
            FROM runs ORDER BY place""",
            tables={"runs": runs},
        ).column("kept")
        clusters = Clusters(kept.combine_chunks(), pa.repeat(1.0, rows.num_rows))
        return keep_best(rows, clusters, stage=self.name, reason="merged", most_share=None)


STAGES = {s.name: s for s in (ExactDuplicates, NearDuplicates, Merge)}
"""Stages of this module by name."""
